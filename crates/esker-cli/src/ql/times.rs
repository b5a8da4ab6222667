//! The timestamps of a file that is loaded: their unit, and versions that fall into one millisecond.
//!
//! ```text
//! TIMESTAMP_UNIT = NANOSECONDS ─┐
//! #timestamp_ns  row  column ... ┴─> unit ──> milliseconds, and the rest below one
//! ```
//! Without a unit, a number is in milliseconds, and refused after the year 9999: Hypertable's dumps are in nanoseconds, and the name
//! of their column does not say it. Texts such as `2023-11-14 22:13:20` need no unit.

use esker_ql::{Time, TimeUnit, YEAR_9999_END, time, time_in};
use esker_table::TIMESTAMP_MAX;

/// A timestamp of a file: milliseconds, and the nanoseconds that follow them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) ms: i64,
    ns: u32,
}

impl From<Time> for Stamp {
    fn from(Time { ms, ns }: Time) -> Stamp {
        Stamp { ms, ns }
    }
}

impl From<i64> for Stamp {
    fn from(ms: i64) -> Stamp {
        Stamp { ms, ns: 0 }
    }
}

/// Reads the timestamps of one file.
pub(super) struct Times {
    unit: Option<TimeUnit>,
    /// The cell of the last line.
    last: Option<(Vec<u8>, Vec<u8>, Stamp)>,
    /// How many versions another one of their column and millisecond has replaced.
    replaced: u64,
}

impl Times {
    /// Reads timestamps in the unit that the statement names, if it does.
    pub(super) fn new(unit: Option<TimeUnit>) -> Times {
        Times { unit, last: None, replaced: 0 }
    }

    /// Whether `name` is the header's name of a column of timestamps.
    pub(super) fn is_timestamp(name: &[u8]) -> bool {
        name == b"timestamp" || TimeUnit::ALL.iter().any(|unit| name == unit.column_name().as_bytes())
    }

    /// Takes the unit that the header's name of a column says, if it says one.
    pub(super) fn read_unit(&mut self, name: &[u8]) -> Result<(), String> {
        let found = TimeUnit::ALL.into_iter().find(|unit| name == unit.column_name().as_bytes());
        match (found, self.unit) {
            (Some(of_file), Some(of_statement)) if of_file != of_statement => Err(format!(
                "the header says that timestamps are in {}; the statement, in {}",
                of_file.word().to_lowercase(),
                of_statement.word().to_lowercase()
            )),
            (found, unit) => {
                self.unit = found.or(unit);
                Ok(())
            }
        }
    }

    /// The timestamp of a field: a number in the unit of the file, or a text.
    pub(super) fn stamp(&self, field: &[u8]) -> Result<Stamp, String> {
        let shown = || String::from_utf8_lossy(field);
        let number = std::str::from_utf8(field).ok().and_then(|text| text.parse::<i64>().ok());
        let found = match number {
            Some(number) => {
                if self.unit.is_none() && number > YEAR_9999_END {
                    return Err(format!(
                        "{} milliseconds are after the year 9999: TIMESTAMP_UNIT = NANOSECONDS (or MICROSECONDS, MILLISECONDS, \
                         SECONDS) says what the timestamps are in",
                        shown()
                    ));
                }
                let number = u64::try_from(number).ok();
                number.and_then(|number| time_in(number, self.unit.unwrap_or(TimeUnit::Milliseconds)))
            }
            None => time(field),
        };
        found.map(Stamp::from).filter(|stamp| (0..=TIMESTAMP_MAX).contains(&stamp.ms)).ok_or_else(|| {
            format!(
                "{:?} is no timestamp: expected milliseconds since 1970, from 0 to 2^63 - 2, or YYYY-MM-DD hh:mm:ss.mmm in UTC",
                shown()
            )
        })
    }

    /// Whether the cell of a line is to be stored: not if the line before has a later version of the same column and millisecond,
    /// which storing this one would replace.
    pub(super) fn is_stored(&mut self, row: &[u8], column: &[u8], stamp: Stamp) -> bool {
        // `f` is `f:`.
        let column = match column.strip_suffix(b":") {
            Some(family) if !family.contains(&b':') => family,
            _ => column,
        };
        if let Some((last_row, last_column, last)) = &self.last
            && (&last_row[..], &last_column[..], last.ms) == (row, column, stamp.ms)
        {
            self.replaced += 1;
            if stamp.ns < last.ns {
                return false;
            }
        }
        // Of one moment, the order of the lines decides.
        let (mut last_row, mut last_column) =
            self.last.take().map(|(row, column, _)| (row, column)).unwrap_or_default();
        row.clone_into(&mut last_row);
        column.clone_into(&mut last_column);
        self.last = Some((last_row, last_column, stamp));
        true
    }

    /// What has become of versions within one millisecond, if there were such.
    pub(super) fn note(&self) -> Option<String> {
        let count = self.replaced;
        (count > 0).then(|| {
            format!(
                "{count} versions are of the same column and millisecond as the line before: the latest of each millisecond is stored"
            )
        })
    }
}
