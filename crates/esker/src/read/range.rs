//! The range of keys that a caller requests.

use std::ops::{Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use crate::ranges::{KeyRange, next_key};

/// Which keys a scan visits, and how. The default is all of them, ascending.
///
/// It is made of a prefix, or of any range of Rust: `"a".."n"`, `"a"..="n"`, `"a"..`, `.."n"`, `..="n"`, `..`, or a
/// pair of [`Bound`]s. A range that ends before it begins has no keys. Calls that take a range accept ranges of Rust
/// directly.
///
/// # Example
/// ```
/// use std::ops::Bound;
///
/// use esker::ScanRange;
/// let newest_first = ScanRange::prefix("log/").reverse();
/// let some = ScanRange::from("a".."n").keys_only();
/// let behind = ScanRange::from((Bound::Excluded("m"), Bound::Unbounded));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScanRange {
    pub(crate) keys: KeyRange,
    pub(crate) reverse: bool,
    pub(crate) keys_only: bool,
}

impl ScanRange {
    /// Every key, ascending.
    #[must_use]
    pub fn all() -> Self {
        ScanRange::default()
    }

    /// The keys that begin with `prefix`, ascending.
    #[must_use]
    pub fn prefix(prefix: impl AsRef<[u8]>) -> Self {
        ScanRange::of(KeyRange::prefix(prefix.as_ref()))
    }

    /// Descending instead of ascending.
    #[must_use]
    pub fn reverse(mut self) -> Self {
        self.reverse = true;
        self
    }

    /// Leaves values out: they come out empty.
    #[must_use]
    pub fn keys_only(mut self) -> Self {
        self.keys_only = true;
        self
    }

    /// The keys of `keys`, ascending.
    pub(crate) fn of(keys: KeyRange) -> Self {
        ScanRange { keys, ..ScanRange::default() }
    }

    fn within<K: AsRef<[u8]>>(bounds: &impl RangeBounds<K>) -> Self {
        let lower = match bounds.start_bound() {
            Bound::Included(key) => key.as_ref().to_vec(),
            Bound::Excluded(key) => next_key(key.as_ref()),
            Bound::Unbounded => Vec::new(),
        };
        let upper = match bounds.end_bound() {
            Bound::Included(key) => Some(next_key(key.as_ref())),
            Bound::Excluded(key) => Some(key.as_ref().to_vec()),
            Bound::Unbounded => None,
        };
        ScanRange::of(KeyRange { lower, upper })
    }
}

/// One `From` for each range of Rust. With one for all of `RangeBounds`, the compiler could not infer the type of the
/// keys of `b"a"..b"b"`.
macro_rules! made_of {
    ($($range:ty),*) => {$(
        impl<K: AsRef<[u8]>> From<$range> for ScanRange {
            fn from(range: $range) -> Self {
                ScanRange::within(&range)
            }
        }
    )*};
}

made_of!(Range<K>, RangeInclusive<K>, RangeFrom<K>, RangeTo<K>, RangeToInclusive<K>, (Bound<K>, Bound<K>));

impl From<RangeFull> for ScanRange {
    fn from(RangeFull: RangeFull) -> Self {
        ScanRange::all()
    }
}

impl From<&ScanRange> for ScanRange {
    fn from(range: &ScanRange) -> Self {
        range.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_are_those_of_rust() {
        let keys: [&[u8]; 7] = [b"", b"a", b"a\0", b"a\0\0", b"b", b"b\0", b"c"];
        let has = |range: &ScanRange| keys.map(|key| range.keys.contains(key));
        let bounds = |key| [Bound::Included(key), Bound::Excluded(key), Bound::Unbounded];
        for lower in keys {
            assert_eq!(has(&ScanRange::from(lower..)), keys.map(|key| (lower..).contains(&key)));
            assert_eq!(has(&ScanRange::from(..lower)), keys.map(|key| (..lower).contains(&key)));
            assert_eq!(has(&ScanRange::from(..=lower)), keys.map(|key| (..=lower).contains(&key)));
            assert_eq!(has(&ScanRange::prefix(lower)), keys.map(|key| key.starts_with(lower)));
            for upper in keys {
                let expected = keys.map(|key| (lower..upper).contains(&key));
                assert_eq!(has(&ScanRange::from(lower..upper)), expected);
                let expected = keys.map(|key| (lower..=upper).contains(&key));
                assert_eq!(has(&ScanRange::from(lower..=upper)), expected);
                for pair in bounds(lower).into_iter().flat_map(|low| bounds(upper).map(|up| (low, up))) {
                    assert_eq!(has(&ScanRange::from(pair)), keys.map(|key| pair.contains(&key)), "{pair:?}");
                }
            }
        }
        assert_eq!(ScanRange::from(..), ScanRange::all());
        assert_eq!(ScanRange::from(b"a"..b"b"), ScanRange::from("a".to_owned().."b".to_owned()));
    }
}
