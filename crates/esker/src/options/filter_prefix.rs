//! Which prefixes of keys the filters of tables hold in addition to the keys.
//!
//! Scans rely on one property: if a key has a prefix, then all keys that begin with this prefix have the same one.

use crate::codec::{Decoder, put_slice};
use crate::error::{Error, Result};
use crate::keys::prefix_end;
use crate::ranges::KeyRange;

/// The longest delimiter, in bytes.
const DELIMITER_MAX: usize = 8;

/// A rule that defines how long the prefix of a key is:
/// [`TreeOptions::filter_prefix`](crate::TreeOptions::filter_prefix). A key that is too short or has too few delimiters
/// has no prefix. Gets find it as usual, but scans of such keys skip no table.
///
/// # Example
/// ```
/// # fn main() -> esker::Result<()> {
/// # let db = esker::Db::open_in_memory(esker::Options::default())?;
/// use esker::keys::tuple;
/// use esker::{FilterPrefix, ScanRange, TreeOptions};
/// // Versions of rows: the row, escaped and terminated, and a number.
/// let cells = db.create_tree("cells", TreeOptions::default().filter_prefix(FilterPrefix::elements(1)))?;
/// cells.put(tuple(&("ada", 7_u64)), "London")?;
/// cells.put(tuple(&("ada", 9_u64)), "Paris")?;
/// // Tables without the row are not read.
/// assert_eq!(cells.count(ScanRange::prefix(tuple(&("ada",))))?, 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterPrefix {
    rule: Rule,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Length(u16),
    Through {
        delimiter: [u8; DELIMITER_MAX],
        /// Greater than the maximum if the delimiter was longer.
        len: u8,
        count: u8,
    },
}

impl FilterPrefix {
    /// The first `len` bytes, 1 or more: for keys that begin with an id of fixed length.
    pub fn length(len: u16) -> FilterPrefix {
        FilterPrefix { rule: Rule::Length(len) }
    }

    /// Up to the `count`-th `delimiter`, which is included. Delimiters are searched from the left and do not overlap. A
    /// delimiter has 1 to 8 bytes, and `count` is 1 or more.
    pub fn through(delimiter: impl AsRef<[u8]>, count: u8) -> FilterPrefix {
        let given = delimiter.as_ref();
        let (mut delimiter, held) = ([0; DELIMITER_MAX], given.len().min(DELIMITER_MAX));
        delimiter[..held].copy_from_slice(&given[..held]);
        let len = given.len().min(DELIMITER_MAX + 1) as u8;
        FilterPrefix { rule: Rule::Through { delimiter, len, count } }
    }

    /// The first `count` texts or byte strings of a key that [`tuple`](crate::keys::tuple()) has made, if they come
    /// first in it.
    pub fn elements(count: u8) -> FilterPrefix {
        FilterPrefix::through([0, 0], count)
    }

    pub(super) fn check(self) -> Result<()> {
        match self.rule {
            Rule::Length(0) => Err(Error::invalid("the prefix of filters has 0 bytes; it must have some")),
            Rule::Through { len, .. } if !(1..=DELIMITER_MAX).contains(&usize::from(len)) => {
                let message = "the delimiter that ends the prefix of filters must have 1 to 8 bytes";
                Err(Error::invalid(message))
            }
            Rule::Through { count: 0, .. } => Err(Error::invalid(
                "the prefix of filters ends with no delimiter; it must end with the first or later",
            )),
            _ => Ok(()),
        }
    }

    /// The prefix of `key`, if it has one.
    pub(crate) fn of(self, key: &[u8]) -> Option<&[u8]> {
        match self.rule {
            Rule::Length(len) => key.get(..usize::from(len)),
            Rule::Through { delimiter, len, count } => {
                let delimiter = delimiter.get(..usize::from(len))?;
                let mut end = 0;
                for _ in 0..count {
                    let rest = &key[end..];
                    end += rest.windows(delimiter.len()).position(|at| at == delimiter)? + delimiter.len();
                }
                Some(&key[..end])
            }
        }
    }

    /// The prefix of all keys in `range`, if they all have the same.
    pub(crate) fn of_range(self, range: &KeyRange) -> Option<&[u8]> {
        let prefix = self.of(&range.lower)?;
        let is_within = match (&range.upper, prefix_end(prefix)) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(upper), Some(end)) => *upper <= end,
        };
        is_within.then_some(prefix)
    }

    pub(crate) fn encode(rule: Option<FilterPrefix>, out: &mut Vec<u8>) {
        match rule.map(|prefix| prefix.rule) {
            None => out.push(0),
            Some(Rule::Length(len)) => {
                out.push(1);
                out.extend_from_slice(&len.to_le_bytes());
            }
            Some(Rule::Through { delimiter, len, count }) => {
                out.extend_from_slice(&[2, count]);
                put_slice(out, &delimiter[..usize::from(len).min(DELIMITER_MAX)]);
            }
        }
    }

    /// Returns `None` if the bytes are not a rule.
    pub(crate) fn decode(from: &mut Decoder<'_>) -> Option<Option<FilterPrefix>> {
        let prefix = match from.u8()? {
            0 => return Some(None),
            1 => FilterPrefix::length(u16::from_le_bytes([from.u8()?, from.u8()?])),
            2 => {
                let count = from.u8()?;
                FilterPrefix::through(from.slice()?, count)
            }
            _ => return None,
        };
        prefix.check().is_ok().then_some(Some(prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys, each with its prefix.
    type Cases = &'static [(&'static [u8], Option<&'static [u8]>)];

    const RULES: [(fn() -> FilterPrefix, Cases); 4] = [
        (|| FilterPrefix::length(2), &[(b"a", None), (b"ab", Some(b"ab")), (b"abc", Some(b"ab"))]),
        (
            || FilterPrefix::through("/", 2),
            &[(b"a/b", None), (b"a/b/", Some(b"a/b/")), (b"//c", Some(b"//"))],
        ),
        (|| FilterPrefix::through("aa", 1), &[(b"aaa", Some(b"aa")), (b"baaa", Some(b"baa")), (b"a", None)]),
        (
            || FilterPrefix::elements(1),
            &[(b"a\0\xff\0\0\x07", Some(b"a\0\xff\0\0")), (b"\0\0", Some(b"\0\0")), (b"a\0", None)],
        ),
    ];

    #[test]
    fn it_finds_the_prefix() {
        for (rule, keys) in RULES {
            for (key, prefix) in keys {
                assert_eq!(rule().of(key), *prefix, "{:?} of {key:?}", rule());
                let mut bytes = Vec::new();
                FilterPrefix::encode(Some(rule()), &mut bytes);
                assert_eq!(FilterPrefix::decode(&mut Decoder::new(&bytes)), Some(Some(rule())));
            }
        }
    }

    #[test]
    fn what_begins_with_a_prefix_has_it() {
        let mut rng = crate::rng::Rng::new(7);
        for _ in 0..20_000 {
            let len = rng.below(8);
            let key: Vec<u8> = (0..len).map(|_| [0, 0, b'/', b'a', 0xff][rng.below(5) as usize]).collect();
            for (rule, _) in RULES {
                let Some(prefix) = rule().of(&key) else { continue };
                assert_eq!(rule().of(prefix), Some(prefix));
                assert!(key.starts_with(prefix));
            }
        }
    }

    #[test]
    fn a_range_has_a_prefix_if_all_its_keys_do() {
        let range = |lower: &[u8], upper: Option<&[u8]>| KeyRange {
            lower: lower.to_vec(),
            upper: upper.map(<[u8]>::to_vec),
        };
        let rule = FilterPrefix::length(2);
        for (lower, upper, expected) in [
            (&b"ab"[..], Some(&b"ac"[..]), Some(&b"ab"[..])),
            (b"abx", Some(b"aby"), Some(b"ab")),
            (b"abx", Some(b"ad"), None),
            (b"ab", None, None),
            (b"a", Some(b"ab"), None),
            (b"\xff\xff", None, Some(b"\xff\xff")),
        ] {
            assert_eq!(rule.of_range(&range(lower, upper)), expected, "{lower:?} {upper:?}");
        }
    }

    #[test]
    fn rules_without_a_meaning_are_refused() {
        for rule in [
            FilterPrefix::length(0),
            FilterPrefix::through("", 1),
            FilterPrefix::through("/", 0),
            FilterPrefix::through("123456789", 1),
        ] {
            assert!(rule.check().is_err(), "{rule:?}");
            let mut bytes = Vec::new();
            FilterPrefix::encode(Some(rule), &mut bytes);
            let decoded = FilterPrefix::decode(&mut Decoder::new(&bytes));
            assert!(decoded.is_none_or(|decoded| decoded != Some(rule)));
        }
    }
}
