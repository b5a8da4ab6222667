//! Timestamps: milliseconds since 1970, or `'YYYY-MM-DD[ hh:mm[:ss[.mmm]]]'` in UTC.

use esker_table::TIMESTAMP_MAX;

use super::Parser;
use crate::error::Result;
use crate::lex::Kind;

/// What a timestamp is. It has at most `TIMESTAMP_MAX`.
pub(super) const EXPECTED: &str =
    "a timestamp (milliseconds since 1970, from 0 to 2^63 - 2, or 'YYYY-MM-DD hh:mm:ss.mmm' in UTC)";

impl Parser<'_> {
    pub(super) fn timestamp(&mut self) -> Result<i64> {
        let value = match &self.peek()?.kind {
            Kind::Number(number) => i64::try_from(*number).ok(),
            Kind::String(bytes) => milliseconds(bytes),
            _ => None,
        };
        match value.filter(|value| *value <= TIMESTAMP_MAX) {
            Some(value) => self.take().map(|_| value),
            None => Err(self.expected(EXPECTED)),
        }
    }
}

/// The milliseconds from 1970 to a date `YYYY-MM-DD[ hh:mm[:ss[.mmm]]]` in UTC; `None`: it is none.
///
/// # Example
/// ```
/// assert_eq!(esker_ql::milliseconds(b"2023-11-14 22:13:20"), Some(1_700_000_000_000));
/// ```
pub fn milliseconds(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let (date, clock) = text.split_once(' ').unwrap_or((text, ""));
    let mut parts = date.split('-');
    let (year, month, day) =
        (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let month_len = match month {
        2 => 28 + i64::from(year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if parts.next().is_some() || year < 1970 || day == 0 || day > month_len {
        return None;
    }
    let mut ms = 0;
    if clock.is_empty() {
        if text.contains(' ') {
            return None;
        }
    } else {
        let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "000"));
        let mut parts = clock.split(':');
        let (hour, minute) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
        let second = parts.next().map_or(Some(0), |part| digits(part, 2))?;
        if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        ms = ((hour * 60 + minute) * 60 + second) * 1000 + digits(fraction, 3)?;
    }
    // Days from 1970-01-01, counted in years that begin in March.
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(days * 86_400_000 + ms)
}

/// The number that `text`, so many digits, stands for.
fn digits(text: &str, count: usize) -> Option<i64> {
    let are_digits = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    if are_digits { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::milliseconds;

    #[test]
    fn dates_are_counted_from_1970() {
        for (text, ms) in [
            ("1970-01-01", Some(0)),
            ("1970-01-02 00:00", Some(86_400_000)),
            ("2000-02-29 12:34:56.789", Some(951_827_696_789)),
            ("2023-11-14 22:13:20", Some(1_700_000_000_000)),
            ("2001-02-29", None),
            ("2024-13-01", None),
            ("2024-00-01", None),
            ("2024-01-00", None),
            ("2024-01-01 24:00:00", None),
            ("2024-01-01 ", None),
            ("2024-01-01 10:00:00.5", None),
            ("1969-12-31", None),
            ("+024-01-01", None),
        ] {
            assert_eq!(milliseconds(text.as_bytes()), ms, "{text}");
        }
    }
}
