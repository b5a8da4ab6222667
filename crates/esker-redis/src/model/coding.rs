//! Numbers in records, and what is damage.

use crate::fault::ReadError;

pub(super) fn damaged(what: &str) -> ReadError {
    ReadError::Failed(format!("Corruption: {what}"))
}

pub(super) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A number at the beginning of `bytes`, and how many bytes it has.
pub(super) fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut number = 0_u64;
    for (at, byte) in bytes.iter().take(10).enumerate() {
        number |= u64::from(byte & 0x7f).checked_shl(7 * at as u32)?;
        if byte & 0x80 == 0 {
            return Some((number, at + 1));
        }
    }
    None
}
