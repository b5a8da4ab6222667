//! The range of keys that a caller asks for.

use std::ops::Bound;

use crate::ranges::KeyRange;

/// Which keys a scan visits, and how. The default is all of them, ascending.
///
/// # Example
/// ```
/// use esker::ScanRange;
/// let newest_first = ScanRange::prefix("log/").reverse();
/// let some = ScanRange::all().from("a").before("n").keys_only();
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanRange {
    pub(crate) lower: Bound<Vec<u8>>,
    pub(crate) upper: Bound<Vec<u8>>,
    pub(crate) reverse: bool,
    pub(crate) keys_only: bool,
}

impl Default for ScanRange {
    fn default() -> Self {
        ScanRange { lower: Bound::Unbounded, upper: Bound::Unbounded, reverse: false, keys_only: false }
    }
}

/// The smallest byte string that is greater than every string that begins with `prefix`; `None` if there is
/// none (all bytes are 0xff).
pub(crate) fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

impl ScanRange {
    /// Every key, ascending.
    #[must_use]
    pub fn all() -> Self {
        ScanRange::default()
    }

    /// The keys that begin with `prefix`.
    #[must_use]
    pub fn prefix(prefix: impl AsRef<[u8]>) -> Self {
        let prefix = prefix.as_ref();
        ScanRange {
            lower: Bound::Included(prefix.to_vec()),
            upper: prefix_end(prefix).map_or(Bound::Unbounded, Bound::Excluded),
            ..ScanRange::default()
        }
    }

    /// From `key` on, `key` included.
    #[must_use]
    pub fn from(mut self, key: impl AsRef<[u8]>) -> Self {
        self.lower = Bound::Included(key.as_ref().to_vec());
        self
    }

    /// After `key`, `key` excluded.
    #[must_use]
    pub fn after(mut self, key: impl AsRef<[u8]>) -> Self {
        self.lower = Bound::Excluded(key.as_ref().to_vec());
        self
    }

    /// Up to `key`, `key` included.
    #[must_use]
    pub fn to(mut self, key: impl AsRef<[u8]>) -> Self {
        self.upper = Bound::Included(key.as_ref().to_vec());
        self
    }

    /// Up to `key`, `key` excluded.
    #[must_use]
    pub fn before(mut self, key: impl AsRef<[u8]>) -> Self {
        self.upper = Bound::Excluded(key.as_ref().to_vec());
        self
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
    pub(crate) fn of(keys: &KeyRange) -> Self {
        let upper = keys.upper.clone().map_or(Bound::Unbounded, Bound::Excluded);
        ScanRange { lower: Bound::Included(keys.lower.clone()), upper, ..ScanRange::default() }
    }

    /// The keys that the range visits.
    pub(crate) fn keys(&self) -> KeyRange {
        KeyRange::between(&self.lower, &self.upper)
    }

    /// Whether `key` lies at or above the lower bound.
    pub(crate) fn above_lower(&self, key: &[u8]) -> bool {
        match &self.lower {
            Bound::Included(bound) => key >= bound.as_slice(),
            Bound::Excluded(bound) => key > bound.as_slice(),
            Bound::Unbounded => true,
        }
    }

    /// Whether `key` lies at or below the upper bound.
    #[inline]
    pub(crate) fn below_upper(&self, key: &[u8]) -> bool {
        match &self.upper {
            Bound::Included(bound) => key <= bound.as_slice(),
            Bound::Excluded(bound) => key < bound.as_slice(),
            Bound::Unbounded => true,
        }
    }
}
