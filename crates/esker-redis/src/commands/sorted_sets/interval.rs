//! Intervals of sorted sets: of scores, `1` to `(5`, or of members, `[a` to `+`. Each is a range of elements.

use super::element::{by_member, by_score, ordered};
use crate::fault::Fault;
use crate::numbers::hexadecimal;
use crate::session::Bounds;

const NOT_SCORES: Fault = Fault::told("ERR min or max is not a float");
const NOT_MEMBERS: Fault = Fault::told("ERR min or max not valid string range item");

/// Elements from `lower` on and below `upper`; none if they are the wrong way around.
#[derive(Debug)]
pub(super) struct Interval {
    lower: Vec<u8>,
    upper: Vec<u8>,
}

impl Interval {
    /// All members, in the order of scores.
    pub(super) fn all() -> Interval {
        Interval { lower: b"s".to_vec(), upper: b"t".to_vec() }
    }

    /// What is before a member, in the order of scores.
    pub(super) fn before(score: f64, member: &[u8]) -> Interval {
        Interval { upper: by_score(score, member).to_vec(), ..Interval::all() }
    }

    /// What is behind a member, in the order of scores.
    pub(super) fn after(score: f64, member: &[u8]) -> Interval {
        let mut lower = by_score(score, member).to_vec();
        lower.push(0);
        Interval { lower, ..Interval::all() }
    }

    /// The scores from one argument to another.
    pub(super) fn scores(min: &[u8], max: &[u8]) -> Result<Interval, Fault> {
        let element = |number: u64| [b"s", number.to_be_bytes().as_slice()].concat();
        let (min, is_min_in) = score_end(min)?;
        let (max, is_max_in) = score_end(max)?;
        // Neither overflows: the greatest number stands for infinity, and numbers beyond that for NaN.
        Ok(Interval {
            lower: element(ordered(min) + u64::from(!is_min_in)),
            upper: element(ordered(max) + u64::from(is_max_in)),
        })
    }

    /// The members from one argument to another.
    pub(super) fn members(min: &[u8], max: &[u8]) -> Result<Interval, Fault> {
        Ok(Interval { lower: member_end(min, false)?, upper: member_end(max, true)? })
    }

    /// Whether it is one of elements in the order of scores.
    pub(super) fn is_by_score(&self) -> bool {
        self.lower.first() == Some(&b's')
    }

    pub(super) fn bounds(&self) -> Bounds<'_> {
        Bounds { lower: &self.lower, upper: Some(&self.upper) }
    }
}

/// A score, and whether it is in the interval that it ends.
fn score_end(argument: &[u8]) -> Result<(f64, bool), Fault> {
    let excluded = argument.strip_prefix(b"(");
    let number = number(excluded.unwrap_or(argument)).ok_or(NOT_SCORES)?;
    Ok((number, excluded.is_none()))
}

/// A number as Redis reads it here, more leniently than elsewhere: blanks may precede it, nothing at all is 0, and what is
/// too large is infinite.
fn number(text: &[u8]) -> Option<f64> {
    if text.is_empty() {
        return Some(0.0);
    }
    let text = std::str::from_utf8(text).ok()?;
    let text = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    if let Some(number) = hexadecimal(text) {
        return number;
    }
    text.parse().ok().filter(|number: &f64| !number.is_nan())
}

/// The element that an argument stands for, as the lower end of an interval, or as the upper one.
fn member_end(argument: &[u8], is_upper: bool) -> Result<Vec<u8>, Fault> {
    match argument {
        b"-" => Ok(by_member(b"").to_vec()),
        b"+" => Ok(b"n".to_vec()),
        [first @ (b'[' | b'('), member @ ..] => {
            let mut element = by_member(member);
            // From here on, or up to and with this one: the zero makes the element that follows it.
            if is_upper == (*first == b'[') {
                element.push(0);
            }
            Ok(element.to_vec())
        }
        _ => Err(NOT_MEMBERS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(interval: &Interval, element: &[u8]) -> bool {
        interval.lower.as_slice() <= element && element < interval.upper.as_slice()
    }

    #[test]
    fn scores_are_in_the_intervals_that_redis_would_have_them_in() {
        let cases: [(&[u8], &[u8], f64, bool); 15] = [
            (b"1", b"2", 1.0, true),
            (b"1", b"2", 2.0, true),
            (b"(1", b"2", 1.0, false),
            (b"1", b"(2", 2.0, false),
            (b"(1", b"(1", 1.0, false),
            (b"1", b"1", 1.0, true),
            (b"2", b"1", 1.5, false),
            (b"-inf", b"+inf", f64::NEG_INFINITY, true),
            (b"-inf", b"+inf", f64::INFINITY, true),
            (b"(-inf", b"inf", f64::NEG_INFINITY, false),
            (b"-INF", b"(Infinity", f64::INFINITY, false),
            (b"-0", b"0", 0.0, true),
            (b"", b" 1", 0.5, true),
            (b"(", b"1", 0.0, false),
            (b"0", b"1e999", f64::INFINITY, true),
        ];
        for (min, max, score, is_in) in cases {
            let interval = Interval::scores(min, max).unwrap();
            assert_eq!(has(&interval, &by_score(score, b"member")), is_in, "{min:?} {max:?} {score}");
        }
        for text in ["nan", "x", "1x", "1 ", " ", "((1", "[1"] {
            assert_eq!(Interval::scores(text.as_bytes(), b"1").unwrap_err(), NOT_SCORES, "{text}");
            assert_eq!(Interval::scores(b"1", text.as_bytes()).unwrap_err(), NOT_SCORES, "{text}");
        }
    }

    #[test]
    fn members_are_in_the_intervals_that_redis_would_have_them_in() {
        type Case<'a> = (&'a [u8], &'a [u8], &'a [u8], bool);
        let cases: [Case<'_>; 14] = [
            (b"-", b"+", b"", true),
            (b"-", b"+", b"\xff\xff", true),
            (b"+", b"-", b"a", false),
            (b"-", b"-", b"", false),
            (b"+", b"+", b"\xff", false),
            (b"[a", b"[b", b"a", true),
            (b"[a", b"[b", b"b", true),
            (b"[a", b"[b", b"b\0", false),
            (b"(a", b"(b", b"a", false),
            (b"(a", b"(b", b"a\0", true),
            (b"(a", b"(b", b"b", false),
            (b"[b", b"[a", b"a", false),
            (b"(", b"[a", b"", false),
            (b"[", b"[a", b"", true),
        ];
        for (min, max, member, is_in) in cases {
            let interval = Interval::members(min, max).unwrap();
            assert_eq!(has(&interval, &by_member(member)), is_in, "{min:?} {max:?} {member:?}");
        }
        for text in ["", "a", "--", "+a", "1"] {
            assert_eq!(Interval::members(text.as_bytes(), b"+").unwrap_err(), NOT_MEMBERS, "{text}");
            assert_eq!(Interval::members(b"-", text.as_bytes()).unwrap_err(), NOT_MEMBERS, "{text}");
        }
    }
}
