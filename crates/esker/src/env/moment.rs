//! Conversions between the standard library's moments and the microseconds since 1970 that files and the store use.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The moment `us` microseconds after the beginning of 1970. `None` if the system cannot represent it.
pub(crate) fn moment_at(us: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_micros(us))
}

/// How many whole microseconds after the beginning of 1970 `moment` is: 0 if it is before, the largest number if they
/// are too many.
pub(crate) fn us_at(moment: SystemTime) -> u64 {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_comes_back_as_the_same_number() {
        for us in [0, 1, 999_999, 1_000_000, 1_795_000_000_123_456, 1 << 55] {
            assert_eq!(moment_at(us).map(us_at), Some(us));
        }
        assert_eq!(us_at(UNIX_EPOCH - Duration::from_secs(1)), 0);
        assert!(moment_at(u64::MAX).is_none_or(|last| us_at(last) == u64::MAX));
    }
}
