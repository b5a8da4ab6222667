//! Bytes as pairs of hex digits.

use super::fault::DataError;

/// Appends the bytes that `typed` stands for.
pub(super) fn decode(typed: &[u8], out: &mut Vec<u8>) -> Result<(), DataError> {
    let nibble = |byte: u8| match (byte as char).to_digit(16) {
        Some(value) => Ok(value as u8),
        None => Err(DataError::NotHex),
    };
    let (pairs, odd) = typed.as_chunks::<2>();
    for &[high, low] in pairs {
        out.push(nibble(high)? << 4 | nibble(low)?);
    }
    match odd {
        [] => Ok(()),
        [last, ..] => nibble(*last).and(Err(DataError::OddHex)),
    }
}

/// Appends the digits of `bytes`, in lower case.
pub(super) fn append(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for &byte in bytes {
        out.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}
