//! Typed ranges: bytes of a value (`--range A-B`) and keys of a tree (`LO HI --prefix`).

use std::ops::{Bound, Range};

use esker::{ScanRange, keys};

use crate::datatype::{DataError, DataType};
use crate::exit::{Failure, Outcome};

/// A range of a value's bytes as in HTTP: zero-based, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteRange {
    /// `A-B`; `A-` ends at the last byte there can be.
    FromTo(u64, u64),
    /// `-N`: the last N bytes.
    Last(u64),
}

impl ByteRange {
    /// Reads `A-B`, `A-` or `-N`.
    pub(crate) fn parse(typed: &str) -> Result<Self, String> {
        let form = || "a range is A-B, A- or -N, such as 0-99".to_owned();
        let (first, last) = typed.split_once('-').ok_or_else(form)?;
        // A bound beyond u64 is beyond every value, as the largest number is.
        let number = |digits: &str| match digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true => Ok(digits.parse().unwrap_or(u64::MAX)),
            false => Err(form()),
        };
        match (first, last) {
            ("", "") => Err(form()),
            ("", count) => Ok(ByteRange::Last(number(count)?)),
            (start, "") => Ok(ByteRange::FromTo(number(start)?, u64::MAX)),
            (start, end) => match (number(start)?, number(end)?) {
                (start, end) if end < start => {
                    Err(format!("the range ends at {end}, before its start {start}"))
                }
                (start, end) => Ok(ByteRange::FromTo(start, end)),
            },
        }
    }

    /// The first and the last byte as Redis counts them: from the end if negative.
    pub(crate) fn inclusive(self) -> [i64; 2] {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        match self {
            ByteRange::FromTo(start, end) => [number(start), number(end)],
            ByteRange::Last(count) => [-number(count), -1],
        }
    }

    /// The part of a value of `len` bytes, clipped at its end.
    pub(crate) fn of(self, len: u64) -> Outcome<Range<u64>> {
        let outside = |what: String| Failure::usage(format!("{what}: the value has {len} bytes"));
        match self {
            ByteRange::Last(0) => Err(outside("the range is empty".to_owned())),
            ByteRange::Last(count) => Ok(len.saturating_sub(count)..len),
            ByteRange::FromTo(start, end) if start < len => Ok(start..end.saturating_add(1).min(len)),
            ByteRange::FromTo(start, _) => Err(outside(format!("the range starts at {start}"))),
        }
    }
}

/// The keys from one to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRange {
    /// The first key, included.
    pub(crate) lower: Vec<u8>,
    /// The last key. One that is excluded is the successor of a prefix.
    pub(crate) upper: Bound<Vec<u8>>,
}

impl KeyRange {
    /// Every key.
    pub(crate) const ALL: KeyRange = KeyRange { lower: Vec::new(), upper: Bound::Unbounded };

    /// The same for the library.
    pub(crate) fn of_scan(&self) -> ScanRange {
        (Bound::Included(self.lower.clone()), self.upper.clone()).into()
    }
}

/// The keys for `scan` and `count`: both bounds and the prefix must hold.
#[derive(Debug, Default)]
pub(crate) struct KeyBounds {
    lo: Option<Vec<u8>>,
    hi: Option<Vec<u8>>,
    prefix: Option<Vec<u8>>,
}

impl KeyBounds {
    /// Typed bounds, decoded in the key type of the tree.
    pub(crate) fn parse(
        of_keys: DataType,
        lo: Option<&[u8]>,
        hi: Option<&[u8]>,
        prefix: Option<&[u8]>,
    ) -> Outcome<Self> {
        if of_keys.is_number() && prefix.is_some() {
            let message = format!(
                "--prefix needs keys of text or bytes, or of several elements; this tree has {of_keys} keys"
            );
            return Err(Failure::usage(message));
        }
        let bound = |typed: Option<&[u8]>, name: &str| match typed {
            None => Ok(None),
            Some(typed) => of_keys.to_bytes(typed).map(Some).map_err(|error| wrong(name, typed, &error)),
        };
        let prefix = prefix.filter(|prefix| !prefix.is_empty());
        let prefix =
            prefix.map(|typed| of_keys.prefix(typed).map_err(|error| wrong("--prefix", typed, &error)));
        Ok(KeyBounds { lo: bound(lo, "LO")?, hi: bound(hi, "HI")?, prefix: prefix.transpose()? })
    }

    /// The range to scan; `None` if no key can be in it.
    pub(crate) fn range(&self) -> Option<KeyRange> {
        let prefix = self.prefix.as_deref().unwrap_or_default();
        let lo = self.lo.as_deref().unwrap_or_default().max(prefix);
        let past_prefix = keys::prefix_end(prefix);
        let range = |upper| KeyRange { lower: lo.to_vec(), upper };
        match (self.hi.as_deref(), past_prefix) {
            (Some(hi), Some(past)) if hi < past.as_slice() => {
                (lo <= hi).then(|| range(Bound::Included(hi.to_vec())))
            }
            (_, Some(past)) => (lo < past.as_slice()).then(|| range(Bound::Excluded(past))),
            (Some(hi), None) => (lo <= hi).then(|| range(Bound::Included(hi.to_vec()))),
            (None, None) => Some(range(Bound::Unbounded)),
        }
    }
}

fn wrong(name: &str, typed: &[u8], error: &DataError) -> Failure {
    Failure::usage(format!("{name} {:?}: the key {error}", String::from_utf8_lossy(typed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn part(typed: &str, len: u64) -> Option<Range<u64>> {
        ByteRange::parse(typed).ok()?.of(len).ok()
    }

    #[test]
    fn byte_ranges_are_those_of_http() {
        assert_eq!(part("0-0", 10), Some(0..1));
        assert_eq!(part("2-5", 10), Some(2..6));
        assert_eq!(part("2-99", 10), Some(2..10));
        assert_eq!(part("2-99999999999999999999999", 10), Some(2..10));
        assert_eq!(part("9-", 10), Some(9..10));
        assert_eq!(part("-3", 10), Some(7..10));
        assert_eq!(part("-30", 10), Some(0..10));
        assert_eq!(part("-5", 0), Some(0..0));
    }

    #[test]
    fn byte_ranges_outside_or_misspelt_are_refused() {
        for typed in ["10-", "10-12", "5-4", "-0", "99999999999999999999999-"] {
            assert_eq!(part(typed, 10), None, "{typed}");
        }
        assert_eq!(part("0-", 0), None);
        for typed in ["", "-", "5", "a-b", "1-2-3", "+1-2", " 1-2", "1-2 ", "--3", "0x1-2"] {
            assert!(ByteRange::parse(typed).is_err(), "{typed:?}");
        }
    }

    #[test]
    fn bounds_and_prefix_hold_together() {
        let some = |lo: Option<&[u8]>, hi: Option<&[u8]>, prefix: Option<&[u8]>| {
            KeyBounds::parse(DataType::Text, lo, hi, prefix).unwrap().range().is_some()
        };
        assert!(some(None, None, None));
        assert!(some(Some(b"a"), Some(b"a"), None));
        assert!(!some(Some(b"b"), Some(b"a"), None));
        assert!(!some(Some(b"b"), None, Some(b"a")));
        assert!(!some(None, Some(b"a"), Some(b"ab")));
        assert!(some(None, Some(b"ab"), Some(b"ab")));
        assert!(some(Some(b"abc"), Some(b"z"), Some(b"ab")));
        assert!(KeyBounds::parse(DataType::I64, None, None, Some(b"1")).is_err());
        assert!(KeyBounds::parse(DataType::I64, Some(b"x"), None, None).is_err());
    }
}
