//! The range of keys that a caller asks for.

use crate::ranges::{KeyRange, next_key};

/// Which keys a scan visits, and how. The default is all of them, ascending.
///
/// # Example
/// ```
/// use esker::ScanRange;
/// let newest_first = ScanRange::prefix("log/").reverse();
/// let some = ScanRange::all().from("a").before("n").keys_only();
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

    /// The keys that begin with `prefix`.
    #[must_use]
    pub fn prefix(prefix: impl AsRef<[u8]>) -> Self {
        ScanRange::of(KeyRange::prefix(prefix.as_ref()))
    }

    /// From `key` on, `key` included.
    #[must_use]
    pub fn from(mut self, key: impl AsRef<[u8]>) -> Self {
        self.keys.lower = key.as_ref().to_vec();
        self
    }

    /// After `key`, `key` excluded.
    #[must_use]
    pub fn after(mut self, key: impl AsRef<[u8]>) -> Self {
        self.keys.lower = next_key(key.as_ref());
        self
    }

    /// Up to `key`, `key` included.
    #[must_use]
    pub fn to(mut self, key: impl AsRef<[u8]>) -> Self {
        self.keys.upper = Some(next_key(key.as_ref()));
        self
    }

    /// Up to `key`, `key` excluded.
    #[must_use]
    pub fn before(mut self, key: impl AsRef<[u8]>) -> Self {
        self.keys.upper = Some(key.as_ref().to_vec());
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
    pub(crate) fn of(keys: KeyRange) -> Self {
        ScanRange { keys, ..ScanRange::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_are_what_their_names_say() {
        let keys: [&[u8]; 7] = [b"", b"a", b"a\0", b"a\0\0", b"b", b"b\0", b"c"];
        let has = |range: &ScanRange| keys.map(|key| range.keys.contains(key));
        for bound in keys {
            assert_eq!(has(&ScanRange::all().from(bound)), keys.map(|key| key >= bound));
            assert_eq!(has(&ScanRange::all().after(bound)), keys.map(|key| key > bound));
            assert_eq!(has(&ScanRange::all().to(bound)), keys.map(|key| key <= bound));
            assert_eq!(has(&ScanRange::all().before(bound)), keys.map(|key| key < bound));
            assert_eq!(has(&ScanRange::prefix(bound)), keys.map(|key| key.starts_with(bound)));
        }
        assert!(has(&ScanRange::all().after("a").before("a\0")).iter().all(|has| !has));
    }
}
