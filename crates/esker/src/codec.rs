//! Encodes and decodes bytes: little-endian integers, LEB128 variable-length integers, length-prefixed slices.
//!
//! Decoding never panics on any input: a [`Decoder`] returns `None` past the end or on a malformed
//! number, and its caller names the file and the offset.

/// The largest number of a file, far beyond what a store can reach.
pub(crate) const FILE_NUMBER_MAX: u64 = 1 << 48;

/// Appends `value` as LEB128 (1 to 10 bytes).
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the length of `bytes` as LEB128, then `bytes`.
#[inline]
pub(crate) fn put_slice(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[inline]
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut raw = [0; N];
    raw.copy_from_slice(&bytes[at..at + N]);
    raw
}

/// The little-endian u16 at `at`. Panics if it is out of bounds: callers have checked the length.
#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

/// The little-endian u32 at `at`. Panics if it is out of bounds: callers have checked the length.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

/// The little-endian u64 at `at`. Panics if it is out of bounds: callers have checked the length.
#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

/// A store never creates a file with this number or a higher one. A store that continued after a file with such a name
/// would soon run out of valid numbers.
pub(crate) const FILE_NUMBER_STRANGE: u64 = FILE_NUMBER_MAX / 2;

/// The number in a file's name, written as this program writes it: at least six digits, with leading zeros only to fill
/// six. Files with other names belong to other programs and are left alone.
pub(crate) fn file_number(digits: &str) -> Option<u64> {
    let number = digits.parse().ok().filter(|&number| number <= FILE_NUMBER_MAX)?;
    (format!("{number:06}") == digits).then_some(number)
}

/// Reads numbers and slices from the front of a byte slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Decoder { rest: bytes }
    }

    /// The bytes that have not been read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(head)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.bytes(1).map(|b| b[0])
    }

    #[cfg(fuzzing)]
    #[inline]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.bytes(4).map(|b| u32_at(b, 0))
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.bytes(8).map(|b| u64_at(b, 0))
    }

    /// A LEB128 number; `None` if it is cut short or wider than 64 bits.
    #[inline]
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for (i, &byte) in self.rest.iter().take(10).enumerate() {
            let part = u64::from(byte & 0x7f);
            if i == 9 && byte > 1 {
                return None;
            }
            value |= part << (7 * i);
            if byte < 0x80 {
                self.rest = &self.rest[i + 1..];
                return Some(value);
            }
        }
        None
    }

    /// A slice that [`put_slice`] wrote.
    #[inline]
    pub(crate) fn slice(&mut self) -> Option<&'a [u8]> {
        let len = self.varint()?;
        self.bytes(usize::try_from(len).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_at_every_width() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                let mut decoder = Decoder::new(&out);
                assert_eq!(decoder.varint(), Some(value));
                assert!(decoder.is_empty());
                assert_eq!(Decoder::new(&out[..out.len() - 1]).varint(), None);
            }
        }
    }

    #[test]
    fn only_names_as_we_write_them_are_ours() {
        assert_eq!(file_number("000007"), Some(7));
        assert_eq!(file_number("1234567"), Some(1_234_567));
        for other in ["7", "+00007", "0000007", "", "00000a", "18446744073709551615"] {
            assert_eq!(file_number(other), None, "{other}");
        }
    }

    #[test]
    fn malformed_numbers_are_refused() {
        assert_eq!(Decoder::new(&[0xff; 10]).varint(), None);
        assert_eq!(Decoder::new(&[0xff; 20]).varint(), None);
        assert_eq!(Decoder::new(&[5, 1, 2]).slice(), None);
    }
}
