//! What filters compare rows, qualifiers and values with.
//!
//! A comparison takes time that is linear in what it looks at, also if the pattern is hostile: regular expressions run
//! without backtracking, and one whose program would take more than [`REGEX_BYTES_MAX`] is refused.

use core::cmp::Ordering;

use core::hash::{Hash, Hasher};

use regex::bytes::{Regex, RegexBuilder};

use crate::error::{Error, Result};

/// The most memory of a regular expression's program, and of what a search keeps for speed, each, in bytes.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// The longest regular expression, in bytes.
const PATTERN_LEN_MAX: usize = 16 << 10;

/// How deep a regular expression may be nested.
const PATTERN_NESTING_MAX: u32 = 50;

/// How a filter compares what it looks at with its [`Comparator`], and a [`Check`](crate::Check) a cell with its bytes: `Less`
/// passes what is less than these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `>=`
    GreaterOrEqual,
    /// `>`
    Greater,
}

impl Comparison {
    /// Whether something that lies so to the comparator passes.
    pub(crate) fn passes(self, order: Ordering) -> bool {
        match self {
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::GreaterOrEqual => order.is_ge(),
            Comparison::Greater => order.is_gt(),
        }
    }
}

/// What a filter compares with: bytes, a prefix, a regular expression or a part of a text.
///
/// # Example
/// ```
/// use esker_table::{Comparator, Comparison, Filter};
///
/// let filter = Filter::value(Comparison::Equal, Comparator::regex("^-?[0-9]+$")?)
///     .or(Filter::qualifier(Comparison::Less, Comparator::binary("n")));
/// # Ok::<(), esker_table::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Comparator {
    what: What,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum What {
    Binary(Vec<u8>),
    Prefix(Vec<u8>),
    Regex(Pattern),
    /// In lower case; in ASCII texts it is found by the pattern, if it is ASCII itself.
    Substring(String, Option<Pattern>),
}

/// A regular expression; two are equal if they are written alike.
#[derive(Debug, Clone)]
struct Pattern(Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for Pattern {}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_str().hash(state);
    }
}

impl Pattern {
    fn new(text: &str, is_unicode: bool) -> Result<Pattern> {
        if text.len() > PATTERN_LEN_MAX {
            return Err(Error::invalid(format!(
                "a regular expression has up to {PATTERN_LEN_MAX} bytes; this one has {}",
                text.len()
            )));
        }
        let built = RegexBuilder::new(text)
            .dot_matches_new_line(true)
            .unicode(is_unicode)
            .size_limit(REGEX_BYTES_MAX)
            .dfa_size_limit(REGEX_BYTES_MAX)
            .nest_limit(PATTERN_NESTING_MAX)
            .build();
        built.map(Pattern).map_err(|error| {
            // The message of a syntax error shows the pattern over several lines; the last one says what is wrong.
            let message = error.to_string();
            let reason = message.lines().last().unwrap_or_default().trim_start_matches("error: ");
            Error::invalid(format!("the regular expression cannot be used: {reason}"))
        })
    }
}

impl Comparator {
    /// Compares all bytes.
    pub fn binary(bytes: impl Into<Vec<u8>>) -> Comparator {
        Comparator { what: What::Binary(bytes.into()) }
    }

    /// Compares as many bytes as `prefix` has.
    pub fn prefix(prefix: impl Into<Vec<u8>>) -> Comparator {
        Comparator { what: What::Prefix(prefix.into()) }
    }

    /// What has a match of `pattern` is equal, all else less. The syntax is that of the crate
    /// [`regex`](https://docs.rs/regex/latest/regex/#syntax): it has neither look-around nor back references. `.` matches
    /// line feeds too.
    ///
    /// # Errors
    /// `Invalid` when `pattern` is no regular expression, or is too large.
    pub fn regex(pattern: &str) -> Result<Comparator> {
        Ok(Comparator { what: What::Regex(Pattern::new(pattern, true)?) })
    }

    /// As [`Comparator::regex`], for upper and lower case alike.
    ///
    /// # Errors
    /// As [`Comparator::regex`].
    pub fn regex_no_case(pattern: &str) -> Result<Comparator> {
        Comparator::regex(&format!("(?i){pattern}"))
    }

    /// What contains `text`, in upper or lower case, is equal, all else less.
    ///
    /// # Errors
    /// `Invalid` when `text` is too long.
    pub fn substring(text: &str) -> Result<Comparator> {
        let text = text.to_lowercase();
        let pattern = if text.is_ascii() {
            Some(Pattern::new(&format!("(?i){}", regex::escape(&text)), false)?)
        } else {
            None
        };
        Ok(Comparator { what: What::Substring(text, pattern) })
    }

    /// Whether `bytes` compare as equal: they are the same, begin so, or have a match.
    pub fn is_match(&self, bytes: &[u8]) -> bool {
        self.compare(bytes).is_eq()
    }

    /// How `bytes` lie to what they are compared with.
    pub(super) fn compare(&self, bytes: &[u8]) -> Ordering {
        let found = |is_found: bool| if is_found { Ordering::Equal } else { Ordering::Less };
        match &self.what {
            What::Binary(other) => bytes.cmp(other),
            What::Prefix(prefix) => bytes[..prefix.len().min(bytes.len())].cmp(prefix),
            What::Regex(pattern) => found(pattern.0.is_match(bytes)),
            What::Substring(text, pattern) => found(match pattern {
                Some(pattern) if bytes.is_ascii() => pattern.0.is_match(bytes),
                None if bytes.is_ascii() => false,
                _ => String::from_utf8_lossy(bytes).to_lowercase().contains(text.as_str()),
            }),
        }
    }

    /// How many bytes from the beginning decide; `None`: all.
    pub(super) fn reach(&self) -> Option<usize> {
        match &self.what {
            What::Binary(bytes) => Some(bytes.len() + 1),
            What::Prefix(prefix) => Some(prefix.len()),
            What::Regex(_) | What::Substring(..) => None,
        }
    }

    /// The bytes or the prefix that it compares with, if it orders what it compares.
    pub(super) fn bytes(&self) -> Option<(&[u8], bool)> {
        match &self.what {
            What::Binary(bytes) => Some((bytes, false)),
            What::Prefix(prefix) => Some((prefix, true)),
            What::Regex(_) | What::Substring(..) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparators_order_what_they_see() {
        use Ordering::{Equal, Greater, Less};
        let cases: &[(Comparator, &[u8], Ordering)] = &[
            (Comparator::binary("b"), b"a", Less),
            (Comparator::binary("b"), b"b", Equal),
            (Comparator::binary("b"), b"b\0", Greater),
            (Comparator::binary(""), b"", Equal),
            (Comparator::prefix("bc"), b"b", Less),
            (Comparator::prefix("bc"), b"bcd", Equal),
            (Comparator::prefix("bc"), b"bd", Greater),
            (Comparator::prefix(""), b"", Equal),
            (Comparator::regex("b.d").unwrap(), b"abcde", Equal),
            (Comparator::regex("b.d").unwrap(), b"ab\nde", Equal),
            (Comparator::regex("^b").unwrap(), b"ab", Less),
            (Comparator::regex("B").unwrap(), b"ab", Less),
            (Comparator::regex_no_case("B.").unwrap(), b"ab\n", Equal),
            (Comparator::regex("").unwrap(), b"\xff", Equal),
            (Comparator::substring("Bc").unwrap(), b"aBCd", Equal),
            (Comparator::substring("b.d").unwrap(), b"abcd", Less),
            (Comparator::substring("\u{e4}").unwrap(), "L\u{c4}RM".as_bytes(), Equal),
            (Comparator::substring("\u{e4}").unwrap(), b"a", Less),
            (Comparator::substring("k").unwrap(), "\u{212a}".as_bytes(), Equal),
            (Comparator::substring("a").unwrap(), b"\xff\xfeA", Equal),
        ];
        for (comparator, bytes, order) in cases {
            assert_eq!(comparator.compare(bytes), *order, "{comparator:?} {bytes:?}");
        }
    }

    #[test]
    fn what_decides_is_within_reach() {
        for comparator in [Comparator::binary("bcd"), Comparator::prefix("bcd"), Comparator::binary("")] {
            let reach = comparator.reach().unwrap();
            for bytes in [&b"bcde"[..], b"bcdefgh", b"bcd", b"bc", b"xxxxxx", b"aaaaaaa", b""] {
                let near = &bytes[..reach.min(bytes.len())];
                assert_eq!(comparator.compare(near), comparator.compare(bytes), "{comparator:?} {bytes:?}");
            }
        }
    }

    #[test]
    fn hostile_patterns_are_refused() {
        let long = "a".repeat(PATTERN_LEN_MAX + 1);
        let deep = format!("{}a{}", "(".repeat(1000), ")".repeat(1000));
        for pattern in ["(", "a{1000}{1000}{1000}", r"\w{5000}", &long, &deep, r"(a)\1", "(?=a)"] {
            assert!(Comparator::regex(pattern).is_err(), "{}", &pattern[..pattern.len().min(40)]);
        }
        // What explodes where a search tries all ways.
        let exploding = Comparator::regex("(a*)*(a*)*(a*)*b$").unwrap();
        assert_eq!(exploding.compare(&vec![b'a'; 100_000]), Ordering::Less);
    }
}
