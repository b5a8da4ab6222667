//! Times in the form that people write, in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

/// The present time in microseconds since 1970; 0 if it is earlier.
pub(crate) fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

/// `us` microseconds since 1970 as `2026-11-20T17:38:05Z`, in whole seconds.
pub(crate) fn utc(us: u64) -> String {
    let seconds = us / 1_000_000;
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day of the day that is `days` after 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    // Years are taken from 0000-03-01 on, so that a leap day is the last day of its year. 400 years have 146,097
    // days and begin alike.
    let days = days + 719_468;
    let (era, in_era) = (days / 146_097, days % 146_097);
    let year = (in_era - in_era / 1_460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year + year / 4 - year / 100);
    // March to July and August to December have 153 days each, in months of 31, 30, 31, 30, 31.
    let from_march = (5 * in_year + 2) / 153;
    let day = in_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_400_000_000), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_234_567_890_999_999), "2009-02-13T23:31:30Z");
        assert_eq!(utc(4_107_542_400_000_000), "2100-03-01T00:00:00Z");
        assert!(utc(u64::MAX).ends_with('Z'));
    }

    #[test]
    fn days_follow_each_other() {
        let leap =
            |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..200_000 {
            assert_eq!(date(days), (year, month, day));
            let last = match month {
                2 if leap(year) => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > last {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
    }
}
