//! Timestamps: milliseconds since 1970, a number with a unit after it, or a text in UTC ([`time`]).
//!
//! A number after the year 9999 needs its unit: programs for Hypertable write nanoseconds, and a cell with such a timestamp hides
//! all later writes of its column.

use esker_table::TIMESTAMP_MAX;

use super::Parser;
use crate::error::Result;
use crate::lex::Kind;
use crate::statement::TimeUnit;

/// What a timestamp is. It has at most `TIMESTAMP_MAX`.
pub(super) const EXPECTED: &str =
    "a timestamp (milliseconds since 1970, from 0 to 2^63 - 2, or 'YYYY-MM-DD hh:mm:ss.mmm' in UTC)";

/// The last millisecond of the year 9999. A later time is taken only with a unit.
pub const YEAR_9999_END: i64 = 253_402_300_799_999;

/// A timestamp of a cell or delete as the statement writes it: its unit may follow later in the statement.
#[derive(Debug, Clone, Copy)]
pub(super) struct WrittenTime {
    at: usize,
    value: WrittenValue,
}

#[derive(Debug, Clone, Copy)]
enum WrittenValue {
    Number(u64, Option<TimeUnit>),
    /// Of a text. Before 1970, it is negative.
    Milliseconds(i64),
}

impl Parser<'_> {
    /// A timestamp of a cell or delete: `1700000000000`, `1700000000 SECONDS`, `'2023-11-14'`.
    pub(super) fn timestamp(&mut self) -> Result<i64> {
        let written = self.written_time()?;
        self.time_in_unit(written, None)
    }

    pub(super) fn written_time(&mut self) -> Result<WrittenTime> {
        let at = self.peek()?.start;
        let value = match &self.peek()?.kind {
            Kind::Number(number) => Some(WrittenValue::Number(*number, None)),
            Kind::String(bytes) => milliseconds(bytes).map(WrittenValue::Milliseconds),
            _ => None,
        };
        let mut value = value.ok_or_else(|| self.expected(EXPECTED))?;
        self.take()?;
        if let WrittenValue::Number(_, unit) = &mut value {
            *unit = self.unit()?;
        }
        Ok(WrittenTime { at, value })
    }

    /// The milliseconds of `written`, whose number is in `unit` if it has no unit of its own.
    pub(super) fn time_in_unit(&self, written: WrittenTime, unit: Option<TimeUnit>) -> Result<i64> {
        match written.value {
            WrittenValue::Number(number, own) => Ok(self.moment(number, own.or(unit), written.at)?.ms),
            WrittenValue::Milliseconds(value) => self.stored_time(Some(value), written.at),
        }
    }

    /// The unit of the number before, if it is there.
    pub(super) fn unit(&mut self) -> Result<Option<TimeUnit>> {
        for unit in TimeUnit::ALL {
            if self.eat(unit.word())? {
                return Ok(Some(unit));
            }
        }
        Ok(None)
    }

    /// The moment of the number at the byte `at`. Without a unit, it counts milliseconds and is not after the year 9999.
    pub(super) fn moment(&self, number: u64, unit: Option<TimeUnit>, at: usize) -> Result<Time> {
        let found = time_in(number, unit.unwrap_or(TimeUnit::Milliseconds));
        let found = found.filter(|time| time.ms <= TIMESTAMP_MAX);
        let time = found.ok_or_else(|| self.lexer.wrong(at, format!("expected {EXPECTED}")))?;
        if unit.is_none() && time.ms > YEAR_9999_END {
            let message = format!(
                "{number} milliseconds are after the year 9999: timestamps are in milliseconds; divide nanoseconds by 1,000,000, or \
                 write the unit after the number, as in `{number} NANOSECONDS` (or MICROSECONDS, MILLISECONDS, SECONDS)"
            );
            return Err(self.lexer.wrong(at, message));
        }
        Ok(time)
    }

    /// The timestamp at the byte `at`, if a cell can have it.
    pub(super) fn stored_time(&self, value: Option<i64>, at: usize) -> Result<i64> {
        match value {
            Some(value @ 0..=TIMESTAMP_MAX) => Ok(value),
            Some(..0) => {
                let message = "the time is before 1970, and no cell has such a timestamp";
                Err(self.lexer.wrong(at, message))
            }
            _ => Err(self.lexer.wrong(at, format!("expected {EXPECTED}"))),
        }
    }
}

/// A moment: milliseconds since 1970, and the nanoseconds that follow them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time {
    /// The milliseconds.
    pub ms: i64,
    /// The nanoseconds below a millisecond.
    pub ns: u32,
}

/// The moment of `number` of `unit`, counted from 1970. `None`: its milliseconds are too many for 63 bits.
pub fn time_in(number: u64, unit: TimeUnit) -> Option<Time> {
    let nanoseconds = u128::from(number) * u128::from(unit.nanoseconds());
    let ms = i64::try_from(nanoseconds / 1_000_000).ok()?;
    Some(Time { ms, ns: u32::try_from(nanoseconds % 1_000_000).ok()? })
}

/// The milliseconds of [`time`].
///
/// # Example
/// ```
/// assert_eq!(esker_ql::milliseconds(b"2023-11-14 22:13:20"), Some(1_700_000_000_000));
/// ```
pub fn milliseconds(text: &[u8]) -> Option<i64> {
    time(text).map(|time| time.ms)
}

/// The moment of a text in UTC: `YYYY-MM-DD[ hh:mm[:ss[.fraction]]]`, with a `T` in place of the blank and a `Z` at the end if the text
/// is of ISO 8601. Before 1970, the milliseconds are negative. HQL also writes nanoseconds after a second colon: `hh:mm:ss:n`. `None`: the text is not a time.
pub fn time(text: &[u8]) -> Option<Time> {
    let text = std::str::from_utf8(text).ok()?;
    let (date, clock) = match text.split_once([' ', 'T']) {
        Some((date, clock)) => (date, Some(clock)),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let (year, month, day) =
        (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let month_len = match month {
        2 => 28 + i64::from(year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if parts.next().is_some() || day == 0 || day > month_len {
        return None;
    }
    let of_day = clock.map_or(Some(Time { ms: 0, ns: 0 }), clock_time)?;
    // Days from 1970-01-01, counted in years that begin in March.
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days = 365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(Time { ms: days * 86_400_000 + of_day.ms, ns: of_day.ns })
}

/// The time since midnight of `hh:mm[:ss[.fraction | :nanoseconds]]`.
fn clock_time(text: &str) -> Option<Time> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (clock, fraction) = match text.split_once('.') {
        Some((clock, fraction)) => (clock, Some(fraction)),
        None => (text, None),
    };
    let mut parts = clock.split(':');
    let (hour, minute) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let second = parts.next().map(|part| digits(part, 2));
    // A fraction follows seconds.
    let (has_second, second) = (second.is_some(), second.unwrap_or(Some(0))?);
    let nanoseconds = match (parts.next(), fraction) {
        (None, None) => 0,
        (None, Some(fraction)) if has_second && !fraction.is_empty() => {
            // Digits after the ninth do not count.
            let (counted, rest) = fraction.split_at_checked(9).unwrap_or((fraction, ""));
            if !rest.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            digits(counted, counted.len())? * 10_i64.pow(9 - counted.len() as u32)
        }
        (Some(number), None) if (1..=9).contains(&number.len()) => digits(number, number.len())?,
        _ => return None,
    };
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let ms = ((hour * 60 + minute) * 60 + second) * 1000 + nanoseconds / 1_000_000;
    Some(Time { ms, ns: (nanoseconds % 1_000_000) as u32 })
}

/// The number that `text`, so many digits, stands for.
fn digits(text: &str, count: usize) -> Option<i64> {
    let are_digits = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    if are_digits { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::{Time, milliseconds, time};

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
            ("2024-01-01 10:00.5", None),
            ("2024-01-01 10:00:00.", None),
            ("2024-01-01 10:00:00.123456789x", None),
            ("2024-01-01 10:00:00.12345678ä", None),
            ("2000-02-29 12:34:56.7891234567", Some(951_827_696_789)),
            ("2024-01-01 10:00:00:1.5", None),
            ("2024-01-01 10:00:00+02:00", None),
            ("2024-01-01T", None),
            ("2024-01-01Z", None),
            ("2000-02-29T12:34:56.789Z", Some(951_827_696_789)),
            ("2000-02-29 12:34:56.7", Some(951_827_696_700)),
            ("2000-02-29 12:34:56:789000000", Some(951_827_696_789)),
            ("2000-02-29 12:34:56:7", Some(951_827_696_000)),
            ("1969-12-31", Some(-86_400_000)),
            ("1969-12-31 23:59:59.999", Some(-1)),
            ("1965-02-23 07:00:00", Some(-153_162_000_000)),
            ("0000-01-01", Some(-62_167_219_200_000)),
            ("9999-12-31 23:59:59.999", Some(253_402_300_799_999)),
            ("+024-01-01", None),
        ] {
            assert_eq!(milliseconds(text.as_bytes()), ms, "{text}");
        }
    }

    #[test]
    fn a_time_has_nanoseconds() {
        for text in ["1970-01-01 00:00:01.002000003", "1970-01-01 00:00:01:002000003"] {
            assert_eq!(time(text.as_bytes()), Some(Time { ms: 1_002, ns: 3 }), "{text}");
        }
    }
}
