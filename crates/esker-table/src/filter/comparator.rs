//! What filters compare rows, qualifiers and values with.
//!
//! A comparison takes time that is linear in what it looks at, also if the pattern is hostile: regular expressions run
//! without backtracking, and one whose program would take more than [`REGEX_BYTES_MAX`] is refused.

use core::cmp::Ordering;

use core::hash::{Hash, Hasher};

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::Look;
use regex_syntax::hir::literal::Extractor;

use super::java;
use crate::error::{Error, Result};
use crate::span::Span;

/// The most memory of a regular expression's program, and of what a search keeps for speed, each, in bytes.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// The longest regular expression, in bytes.
const PATTERN_LEN_MAX: usize = 16 << 10;

/// How deep a regular expression may be nested.
const PATTERN_NESTING_MAX: u32 = 50;

/// The same of one that was translated: each level becomes up to four.
const TRANSLATED_NESTING_MAX: u32 = 4 * PATTERN_NESTING_MAX + 4;

/// The first byte of U+FFFD in UTF-8, which stands for what is not UTF-8.
const REPLACEMENT: u8 = 0xef;

/// The most beginnings of what a regular expression matches: each is a place that a scan may seek.
const BEGINNINGS_MAX: usize = 32;

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
    Regex(Box<Pattern>),
    /// In lower case; in ASCII texts it is found by the pattern, if it is ASCII itself.
    Substring(String, Option<Box<Pattern>>),
}

/// How bytes begin that compare as equal: [`Comparator::beginnings`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Beginning {
    /// The first bytes.
    pub bytes: Vec<u8>,
    /// Whether these are all.
    pub is_whole: bool,
}

/// A regular expression; two are equal if they are written alike.
#[derive(Debug, Clone)]
struct Pattern {
    regex: Regex,
    /// Whether bytes that are not UTF-8 count as U+FFFD, as in Java.
    decodes: bool,
    /// How all begin that have a match. `None`: not known, since a match may lie further behind, or begins in too many ways.
    beginnings: Option<Vec<Beginning>>,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        (self.regex.as_str(), self.decodes) == (other.regex.as_str(), other.decodes)
    }
}

impl Eq for Pattern {}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.regex.as_str().hash(state);
    }
}

impl Pattern {
    fn new(text: &str, is_unicode: bool) -> Result<Pattern> {
        check_len(text)?;
        Pattern::built(text, is_unicode, PATTERN_NESTING_MAX)
    }

    /// An expression as Java has them.
    fn of_java(text: &str, ignores_case: bool) -> Result<Pattern> {
        check_len(text)?;
        let translated = java::translated(text, ignores_case).map_err(|why| unusable(&why))?;
        let pattern = Pattern::built(&translated, true, TRANSLATED_NESTING_MAX)?;
        let decoded =
            |Beginning { mut bytes, is_whole }| match bytes.iter().position(|byte| *byte == REPLACEMENT) {
                None => Beginning { bytes, is_whole },
                // What is not UTF-8 may stand there.
                Some(len) => {
                    bytes.truncate(len);
                    Beginning { bytes, is_whole: false }
                }
            };
        let beginnings = pattern.beginnings.map(|all| all.into_iter().map(decoded).collect());
        Ok(Pattern { decodes: true, beginnings, ..pattern })
    }

    fn built(text: &str, is_unicode: bool, nesting_max: u32) -> Result<Pattern> {
        let built = RegexBuilder::new(text)
            .dot_matches_new_line(true)
            .unicode(is_unicode)
            .size_limit(REGEX_BYTES_MAX)
            .dfa_size_limit(REGEX_BYTES_MAX)
            .nest_limit(nesting_max)
            .build();
        let beginnings =
            |regex| Pattern { regex, decodes: false, beginnings: beginnings(text, is_unicode, nesting_max) };
        built.map(beginnings).map_err(|error| {
            // The message of a syntax error shows the pattern over several lines; the last one says what is wrong.
            let message = error.to_string();
            unusable(message.lines().last().unwrap_or_default().trim_start_matches("error: "))
        })
    }

    fn is_match(&self, bytes: &[u8]) -> bool {
        if self.decodes && std::str::from_utf8(bytes).is_err() {
            return self.regex.is_match(String::from_utf8_lossy(bytes).as_bytes());
        }
        self.regex.is_match(bytes)
    }
}

fn check_len(text: &str) -> Result<()> {
    if text.len() > PATTERN_LEN_MAX {
        return Err(Error::invalid(format!(
            "a regular expression has up to {PATTERN_LEN_MAX} bytes; this one has {}",
            text.len()
        )));
    }
    Ok(())
}

fn unusable(why: &str) -> Error {
    Error::invalid(format!("the regular expression cannot be used: {why}"))
}

/// As [`Pattern::beginnings`], of a pattern that [`Pattern::built`] takes.
fn beginnings(text: &str, is_unicode: bool, nesting_max: u32) -> Option<Vec<Beginning>> {
    let mut parser = ParserBuilder::new();
    parser.dot_matches_new_line(true).unicode(is_unicode).utf8(false).nest_limit(nesting_max);
    let parsed = parser.build().parse(text).ok()?;
    // Each match begins where the text does; and ends where it does.
    if !parsed.properties().look_set_prefix().contains(Look::Start) {
        return None;
    }
    let ends = parsed.properties().look_set_suffix().contains(Look::End);
    let mut literals = Extractor::new().limit_total(BEGINNINGS_MAX).extract(&parsed);
    literals.dedup();
    let beginnings = literals.literals()?.iter().map(|literal| Beginning {
        bytes: literal.as_bytes().to_vec(),
        is_whole: ends && literal.is_exact(),
    });
    Some(beginnings.collect())
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
        Ok(Comparator { what: What::Regex(Box::new(Pattern::new(pattern, true)?)) })
    }

    /// As [`Comparator::regex`], for upper and lower case alike.
    ///
    /// # Errors
    /// As [`Comparator::regex`].
    pub fn regex_no_case(pattern: &str) -> Result<Comparator> {
        Comparator::regex(&format!("(?i){pattern}"))
    }

    /// As [`Comparator::regex`], with the syntax and the meaning of Java's `Pattern` with `DOTALL`, as HBase's filters have it: `$` also
    /// matches before a last line end, `\Q` begins a quote. Bytes that are not UTF-8 count as U+FFFD.
    ///
    /// # Errors
    /// `Invalid` when `pattern` is not a regular expression, has no equal in linear time, or is too large.
    ///
    /// # Example
    /// ```
    /// use esker_table::Comparator;
    ///
    /// assert!(Comparator::java_regex(r"^\Qa.b\E$")?.is_match(b"a.b\n"));
    /// assert!(Comparator::java_regex("a(?=b)").is_err());
    /// # Ok::<(), esker_table::Error>(())
    /// ```
    pub fn java_regex(pattern: &str) -> Result<Comparator> {
        Ok(Comparator { what: What::Regex(Box::new(Pattern::of_java(pattern, false)?)) })
    }

    /// As [`Comparator::java_regex`], for upper and lower case of ASCII alike (`CASE_INSENSITIVE`).
    ///
    /// # Errors
    /// As [`Comparator::java_regex`].
    pub fn java_regex_no_case(pattern: &str) -> Result<Comparator> {
        Ok(Comparator { what: What::Regex(Box::new(Pattern::of_java(pattern, true)?)) })
    }

    /// What contains `text`, in upper or lower case, is equal, all else less.
    ///
    /// # Errors
    /// `Invalid` when `text` is too long.
    pub fn substring(text: &str) -> Result<Comparator> {
        let text = text.to_lowercase();
        let pattern = if text.is_ascii() {
            Some(Box::new(Pattern::new(&format!("(?i){}", regex::escape(&text)), false)?))
        } else {
            None
        };
        Ok(Comparator { what: What::Substring(text, pattern) })
    }

    /// Whether `bytes` compare as equal: they are the same, begin so, or have a match.
    pub fn is_match(&self, bytes: &[u8]) -> bool {
        self.compare(bytes).is_eq()
    }

    /// How all bytes begin that compare as equal: in one of these ways. `None`: they may begin in any way, or in too many.
    ///
    /// # Example
    /// ```
    /// use esker_table::{Beginning, Comparator};
    ///
    /// let whole = |bytes: &str| Beginning { bytes: bytes.into(), is_whole: true };
    /// assert_eq!(Comparator::regex("^rose-(1|2)$")?.beginnings(), Some(vec![whole("rose-1"), whole("rose-2")]));
    /// assert_eq!(Comparator::regex("rose")?.beginnings(), None);
    /// # Ok::<(), esker_table::Error>(())
    /// ```
    pub fn beginnings(&self) -> Option<Vec<Beginning>> {
        match &self.what {
            What::Binary(bytes) => Some(vec![Beginning { bytes: bytes.clone(), is_whole: true }]),
            What::Prefix(bytes) => Some(vec![Beginning { bytes: bytes.clone(), is_whole: false }]),
            What::Regex(pattern) => pattern.beginnings.clone(),
            What::Substring(..) => None,
        }
    }

    /// The parts of a table in which all rows are whose keys compare as equal: the whole table, if nothing else is known.
    pub fn rows(&self) -> Vec<Span> {
        let Some(beginnings) = self.beginnings() else { return vec![Span::all()] };
        let span = |Beginning { bytes, is_whole }: &Beginning| match is_whole {
            true => Span::row(bytes),
            false => Span::prefix(bytes),
        };
        Span::sorted(beginnings.iter().map(span))
    }

    /// How `bytes` lie to what they are compared with.
    pub(super) fn compare(&self, bytes: &[u8]) -> Ordering {
        let found = |is_found: bool| if is_found { Ordering::Equal } else { Ordering::Less };
        match &self.what {
            What::Binary(other) => bytes.cmp(other),
            What::Prefix(prefix) => bytes[..prefix.len().min(bytes.len())].cmp(prefix),
            What::Regex(pattern) => found(pattern.is_match(bytes)),
            What::Substring(text, pattern) => found(match pattern {
                Some(pattern) if bytes.is_ascii() => pattern.regex.is_match(bytes),
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

    fn beginnings(pattern: &str) -> Option<Vec<String>> {
        let beginnings = Comparator::regex(pattern).unwrap().beginnings()?;
        let shown = |beginning: Beginning| {
            let end = if beginning.is_whole { "" } else { "*" };
            format!("{}{end}", beginning.bytes.escape_ascii())
        };
        Some(beginnings.into_iter().map(shown).collect())
    }

    #[test]
    fn patterns_say_how_their_matches_begin() {
        let cases: &[(&str, Option<&[&str]>)] = &[
            ("^abc", Some(&["abc*"])),
            ("^abc$", Some(&["abc"])),
            (r"\Aabc\z", Some(&["abc"])),
            ("^abc.*$", Some(&["abc*"])),
            ("^abc?", Some(&["abc*", "ab*"])),
            ("^abc?$", Some(&["abc", "ab"])),
            ("^abc+", Some(&["abc*"])),
            ("^(abc|abd)", Some(&["abc*", "abd*"])),
            ("^abc|^x", Some(&["abc*", "x*"])),
            ("(?i)^ab", Some(&["AB*", "Ab*", "aB*", "ab*"])),
            ("^a(?i)b", Some(&["aB*", "ab*"])),
            ("^a[0-2]", Some(&["a0*", "a1*", "a2*"])),
            ("^a[a-z]", Some(&["a*"])),
            ("^ä", Some(&[r"\xc3\xa4*"])),
            (r"(?-u)^\xff\x00", Some(&[r"\xff\x00*"])),
            (r"^a\.b", Some(&["a.b*"])),
            ("^$", Some(&[""])),
            ("^", Some(&["*"])),
            ("^a*", Some(&["a*", "*"])),
            ("abc", None),
            ("abc|^x", None),
            ("(?m)^abc", None),
            ("(^a)?b", None),
            ("(?:^a)*", None),
            ("x*^a", None),
            ("^[a-z]", None),
            ("^.", None),
        ];
        for (pattern, expected) in cases {
            let expected = expected.map(|expected| expected.iter().map(|text| (*text).to_owned()).collect());
            assert_eq!(beginnings(pattern), expected, "{pattern}");
        }
        assert_eq!(Comparator::substring("a").unwrap().beginnings(), None);
    }

    /// What a random pattern matches begins as it says.
    #[test]
    fn what_matches_begins_as_the_pattern_says() {
        let mut rng = test_kit::Rng::new(test_kit::seed(1));
        let mut below = |bound: usize| rng.index(bound);
        let parts = [
            "^",
            "^",
            "$",
            "a",
            "b",
            "k",
            "ab",
            "ä",
            ".",
            "[ab]",
            "[^a]",
            "(a|b)",
            "(^a|b)",
            "(|a)",
            "|",
            "|^",
            "?",
            "*",
            "+",
            "{0}",
            "{2}",
            "(?i)",
            "(?m)",
            "(?s-m)",
            r"\b",
            r"\A",
            r"\z",
            r"(?-u:\xff)",
            r"\x00",
            "\n",
        ];
        let bytes: [&[u8]; 9] =
            [b"a", b"b", b"A", b"k", "ä".as_bytes(), "\u{212a}".as_bytes(), b"\xff", b"\0", b"\n"];
        let (mut known, mut found) = (0, 0);
        for _ in 0..5_000 {
            let mut pattern = String::from(if below(3) > 0 { "^" } else { "" });
            (0..=below(5)).for_each(|_| pattern.push_str(parts[below(parts.len())]));
            let Ok(comparator) = Comparator::regex(&pattern) else { continue };
            let Some(beginnings) = comparator.beginnings() else { continue };
            known += 1;
            for _ in 0..20 {
                let text: Vec<u8> = (0..below(5)).flat_map(|_| bytes[below(bytes.len())]).copied().collect();
                if comparator.is_match(&text) {
                    found += 1;
                    let begins = |beginning: &Beginning| match beginning.is_whole {
                        true => text == beginning.bytes,
                        false => text.starts_with(&beginning.bytes),
                    };
                    assert!(beginnings.iter().any(begins), "{pattern:?} {text:?} {beginnings:?}");
                }
            }
        }
        assert!(known > 1_000 && found > 1_000, "{known} {found}");
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
