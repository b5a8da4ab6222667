//! Values read in every way there is; all must agree.

use std::io::{Read, Seek, SeekFrom};

use esker::Value;

use crate::session::{Check, same};

/// The bytes of `value`.
pub(crate) fn read(value: &Value) -> Check<Vec<u8>> {
    let whole = value.bytes()?.into_owned();
    let len = whole.len() as u64;
    same!((value.len(), value.is_empty()), (len, whole.is_empty()), "the length of a value");
    // Where a value is cut depends on the value alone, so that a session does the same again.
    let cut =
        whole.iter().rev().take(64).fold(len, |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
            % (len + 1);
    let (head, tail) = whole.split_at(cut as usize);
    same!(value.read_at(..cut)?, head, "the first {cut} of {len} bytes");
    let mut rest = vec![0; tail.len()];
    value.read_exact_at(cut, &mut rest)?;
    same!(rest, tail, "the bytes from {cut} on of {len}");
    let mut reader = value.reader();
    reader.seek(SeekFrom::Start(cut))?;
    reader.read_to_end(&mut rest)?;
    same!(rest, [tail, tail].concat(), "the bytes from {cut} on of {len}, streamed");
    value.read_into(&mut rest)?;
    same!(rest, whole, "a value in a buffer");
    let mut copied = Vec::new();
    same!(value.copy_to(&mut copied)?, len, "how much was copied");
    same!(copied, whole, "a copy of a value");
    same!(&value.clone().map_unverified()?[..], whole, "a value in place, unverified");
    same!(&value.clone().map()?[..], whole, "a value in place");
    Ok(whole)
}

/// The bytes of `value`, where there is one.
pub(crate) fn read_found(value: Option<&Value>) -> Check<Option<Vec<u8>>> {
    value.map(read).transpose()
}
