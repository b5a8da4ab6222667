//! Bytes of any length within a key, in an order that does not depend on the bytes after them.
//!
//! ```text
//! 61 00 62   ->  61 00 ff 62 00 00
//! ```
//! Each zero byte is written as `00 ff`, and `00 00` ends the bytes. Therefore bytes that are the start of others sort
//! first, regardless of the bytes after them in the key: `00 00` is below `00 ff` and below every other byte.

/// Appends `bytes`, escaped, and their end.
///
/// ```
/// let mut key = Vec::new();
/// esker::keys::push_escaped(&mut key, b"a\0b");
/// assert_eq!(key, b"a\0\xffb\0\0");
/// ```
#[inline]
pub fn push_escaped(key: &mut Vec<u8>, bytes: &[u8]) {
    let mut rest = bytes;
    while let Some(zero) = first_zero(rest) {
        let (part, after) = rest.split_at(zero + 1);
        key.extend_from_slice(part);
        key.push(0xff);
        rest = after;
    }
    key.extend_from_slice(rest);
    key.extend_from_slice(&[0, 0]);
}

/// The length of the escaped bytes at the start of `key`, their end included, and whether they are the same as the
/// bytes that they represent. `None` if they have no end, or a zero byte that is not escaped.
#[inline]
pub fn escaped_len(key: &[u8]) -> Option<(usize, bool)> {
    let mut at = 0;
    let mut is_plain = true;
    loop {
        at += first_zero(key.get(at..)?)? + 2;
        match key.get(at - 1)? {
            0 => return Some((at, is_plain)),
            0xff => is_plain = false,
            _ => return None,
        }
    }
}

/// Replaces `bytes` by the bytes that `escaped` represents; it has [`escaped_len`] bytes of a key.
#[inline]
pub fn unescape(escaped: &[u8], bytes: &mut Vec<u8>) {
    bytes.clear();
    let mut rest = escaped.strip_suffix(&[0, 0]).unwrap_or(escaped);
    while let Some(zero) = first_zero(rest) {
        bytes.extend_from_slice(&rest[..=zero]);
        rest = rest.get(zero + 2..).unwrap_or_default();
    }
    bytes.extend_from_slice(rest);
}

/// Where the first zero byte is. It looks at eight bytes at a time: tables search keys for each row and column of a scan.
#[inline]
fn first_zero(bytes: &[u8]) -> Option<usize> {
    const LOW: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    let (words, rest) = bytes.as_chunks::<8>();
    for (place, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // The lowest remaining bit belongs to the first zero byte; the bits above it may be false.
        let zeros = word.wrapping_sub(LOW) & !word & HIGH;
        if zeros != 0 {
            return Some(place * 8 + zeros.trailing_zeros() as usize / 8);
        }
    }
    let place = rest.iter().position(|byte| *byte == 0)?;
    Some(words.len() * 8 + place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_zero_is_found() {
        for len in 0..40 {
            for zero in 0..=len {
                for fill in [1_u8, 0x80, 0xff] {
                    let mut bytes = vec![fill; len];
                    bytes[zero..].fill(0);
                    // What borrows from the byte after the first zero must not deceive.
                    if zero + 1 < len {
                        bytes[zero + 1] = 1;
                    }
                    assert_eq!(first_zero(&bytes), (zero < len).then_some(zero), "{bytes:?}");
                }
            }
        }
    }

    #[test]
    fn only_what_has_an_end_and_escapes_has_a_length() {
        for (key, len) in [
            (&b"\0\0"[..], Some((2, true))),
            (b"ab\0\0c", Some((4, true))),
            (b"a\0\xff\0\0", Some((5, false))),
            (b"", None),
            (b"a", None),
            (b"a\0", None),
            (b"a\0\xff", None),
            (b"a\0\x01\0\0", None),
        ] {
            assert_eq!(escaped_len(key), len, "{key:?}");
        }
    }
}
