//! The databases that a user may use: all, or those of a list such as `0,3-5`.

use std::fmt;
use std::ops::RangeInclusive;

/// The most ranges in a list.
const RANGES_MAX: usize = 256;

/// See the module's comment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Databases {
    #[default]
    All,
    /// As they were given.
    Some(Vec<RangeInclusive<u16>>),
}

impl Databases {
    /// `*`, or numbers and ranges of numbers with commas between them. `None`: it is neither.
    pub(super) fn parse(text: &[u8]) -> Option<Databases> {
        if text == b"*" {
            return Some(Databases::All);
        }
        let text = std::str::from_utf8(text).ok()?;
        let number = |digits: &str| {
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse::<u16>().ok().filter(|_| is_number)
        };
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range = number(first)?..=number(last)?;
            (!range.is_empty()).then_some(range)
        };
        let ranges: Option<Vec<_>> = text.split(',').take(RANGES_MAX + 1).map(range).collect();
        ranges.filter(|ranges| ranges.len() <= RANGES_MAX).map(Databases::Some)
    }

    pub(super) fn has(&self, database: u16) -> bool {
        match self {
            Databases::All => true,
            Databases::Some(ranges) => ranges.iter().any(|range| range.contains(&database)),
        }
    }

    pub(super) fn are_all(&self) -> bool {
        *self == Databases::All
    }
}

impl fmt::Display for Databases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Databases::Some(ranges) = self else { return f.write_str("*") };
        for (place, range) in ranges.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            if range.start() == range.end() {
                write!(f, "{comma}{}", range.start())?;
            } else {
                write!(f, "{comma}{}-{}", range.start(), range.end())?;
            }
        }
        Ok(())
    }
}
