//! Merge operators: they change values without reading them.
//!
//! A merge writes an *operand*. A read computes the value from the value below and all operands above it, oldest first.
//! Flushes and merges of tables combine operands with each other and with the value below, which leaves few. An operand
//! names its operator. Therefore one key may have operands of several operators.
//!
//! ```text
//! stored   length of the name, 1 | name | operand
//!          with a time: 128 + length of the name, 1 | when it was written, 8 | name | operand
//! ```
//!
//! In a tree that has values that expire, an operand has the time at which it was written, in microseconds since 1970.
//! Over a value that expires at T, the oldest operand with a time of T or later *begins anew*: it and all later
//! operands start from an absent value, and older ones no longer count. Without such an operand, all operands extend
//! the value, and the result expires at T. Therefore the result depends on the times of the writes, and not on the
//! times of flushes and merges.
//!
//! An operand without a time over a value that expires comes from a version that noted no times. It extends the value,
//! and once that has expired it counts as if the key had been absent.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::canary::broken;
use crate::cursor::{Expiry, SeqNo};
use crate::error::{Error, ErrorKind, Result, shown};
use crate::keys;

/// The name of the operator that adds numbers. Value and operand are [`keys::i64`]. An absent value counts as 0; sums
/// wrap around.
pub const ADD: &str = "add";

/// The name of the operator that appends bytes. An absent value counts as empty.
pub const APPEND: &str = "append";

/// The longest name of an operator, in bytes.
pub const OPERATOR_NAME_MAX: usize = 64;

/// A program's own merge operator: it computes a value from operands.
///
/// The store calls it at any time, on its own threads, and with any grouping of neighbouring operands. Applying three
/// operands to a value must give the same as applying two, and then the third to the result. The meaning of an operator
/// in use must not change: stored operands are not rewritten.
///
/// # Example
/// ```
/// use esker::{MergeOperator, Options};
///
/// /// The longest of all words.
/// struct Longest;
///
/// impl MergeOperator for Longest {
///     fn name(&self) -> &str {
///         "longest"
///     }
///
///     fn apply(&self, value: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
///         let all = value.into_iter().chain(operands.iter().copied());
///         Ok(all.max_by_key(|word| word.len()).unwrap_or_default().to_vec())
///     }
///
///     fn combine(&self, operands: &[&[u8]]) -> Option<Vec<u8>> {
///         self.apply(None, operands).ok()
///     }
/// }
///
/// # fn main() -> esker::Result<()> {
/// let db = esker::Db::open_in_memory(Options::default().merge_operator(Longest))?;
/// let words = db.tree("words")?;
/// words.merge("animal", "longest", "ox")?;
/// words.merge("animal", "longest", "hedgehog")?;
/// assert_eq!(words.get_vec("animal")?.as_deref(), Some(&b"hedgehog"[..]));
/// # Ok(())
/// # }
/// ```
pub trait MergeOperator: Send + Sync + 'static {
    /// Its name: 1 to [`OPERATOR_NAME_MAX`] bytes, stored with each operand.
    fn name(&self) -> &str;

    /// Called when an operand is written. Refuses an operand that can never be applied.
    ///
    /// # Errors
    /// The fault of the operand. By default every operand is valid.
    fn check(&self, _operand: &[u8]) -> std::result::Result<(), String> {
        Ok(())
    }

    /// Computes the value from `value` (`None`: the key is absent) and `operands`: at least one, oldest first.
    ///
    /// # Errors
    /// The reason why the value cannot be computed. Reads of the key then fail, and the stored operands stay as they
    /// are.
    fn apply(&self, value: Option<&[u8]>, operands: &[&[u8]]) -> std::result::Result<Vec<u8>, String>;

    /// One operand with the same effect as `operands`, oldest first, on any value. `None` if this is impossible, which
    /// is the default.
    fn combine(&self, _operands: &[&[u8]]) -> Option<Vec<u8>> {
        None
    }
}

struct Add;

impl MergeOperator for Add {
    fn name(&self) -> &str {
        ADD
    }

    fn check(&self, operand: &[u8]) -> std::result::Result<(), String> {
        number(operand).map(drop)
    }

    fn apply(&self, value: Option<&[u8]>, operands: &[&[u8]]) -> std::result::Result<Vec<u8>, String> {
        let mut sum = value.map_or(Ok(0), number)?;
        for operand in operands {
            sum = sum.wrapping_add(number(operand)?);
        }
        Ok(keys::i64(sum).to_vec())
    }

    fn combine(&self, operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.apply(None, operands).ok()
    }
}

fn number(bytes: &[u8]) -> std::result::Result<i64, String> {
    keys::decode_i64(bytes).map_err(|_| format!("a number has 8 bytes, and this has {}", bytes.len()))
}

struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &str {
        APPEND
    }

    fn apply(&self, value: Option<&[u8]>, operands: &[&[u8]]) -> std::result::Result<Vec<u8>, String> {
        let parts: Vec<&[u8]> = value.into_iter().chain(operands.iter().copied()).collect();
        Ok(parts.concat())
    }

    fn combine(&self, operands: &[&[u8]]) -> Option<Vec<u8>> {
        Some(operands.concat())
    }
}

/// The operators that a store knows: [`ADD`], [`APPEND`] and those that
/// [`Options::merge_operator`](crate::Options::merge_operator) has added. It has no methods.
#[derive(Clone)]
pub struct MergeOperators {
    by_name: Arc<BTreeMap<String, Arc<dyn MergeOperator>>>,
}

impl Default for MergeOperators {
    fn default() -> Self {
        let builtin: [Arc<dyn MergeOperator>; 2] = [Arc::new(Add), Arc::new(Append)];
        let by_name = builtin.into_iter().map(|operator| (operator.name().to_owned(), operator)).collect();
        MergeOperators { by_name: Arc::new(by_name) }
    }
}

impl fmt::Debug for MergeOperators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}

/// Added to the length of the name if the operand has a time.
const TIMED: u8 = 0x80;

const TIME_LEN: usize = size_of::<u64>();

/// A stored operand, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Operand<'a> {
    name: &'a str,
    /// When it was written, in microseconds since 1970.
    time_us: Option<u64>,
    operand: &'a [u8],
}

impl<'a> Operand<'a> {
    fn open(stored: &'a [u8]) -> Option<Operand<'a>> {
        let (&len, rest) = stored.split_first()?;
        let (time_us, rest) = match rest.split_first_chunk::<TIME_LEN>() {
            _ if len & TIMED == 0 => (None, rest),
            Some((time, rest)) => (Some(u64::from_le_bytes(*time)), rest),
            None => return None,
        };
        let (name, operand) = rest.split_at_checked(usize::from(len & !TIMED))?;
        Some(Operand { name: std::str::from_utf8(name).ok()?, time_us, operand })
    }

    fn stored(&self) -> Vec<u8> {
        let (name, len) = (self.name.as_bytes(), self.name.len() as u8);
        match self.time_us {
            None => [&[len], name, self.operand].concat(),
            Some(time_us) => [&[len | TIMED], &time_us.to_le_bytes()[..], name, self.operand].concat(),
        }
    }
}

/// Takes apart a stored operand: the operator's name, and the operand itself.
pub(crate) fn parts(stored: &[u8]) -> Option<(&str, &[u8])> {
    Operand::open(stored).map(|one| (one.name, one.operand))
}

/// When a stored operand was written, in microseconds since 1970, if it has a time.
pub(crate) fn time_of(stored: &[u8]) -> Option<u64> {
    Operand::open(stored)?.time_us
}

/// Whether a stored operand has a time. Its first byte suffices.
#[inline]
pub(crate) fn is_timed(stored: &[u8]) -> bool {
    stored.first().is_some_and(|len| len & TIMED != 0)
}

/// The stored operand with the time at which it is written.
pub(crate) fn with_time(stored: &[u8], time_us: u64) -> Vec<u8> {
    let timed = |one: Operand<'_>| Operand { time_us: Some(time_us), ..one }.stored();
    Operand::open(stored).map_or_else(|| stored.to_vec(), timed)
}

fn stored(name: &str, operand: &[u8]) -> Vec<u8> {
    Operand { name, time_us: None, operand }.stored()
}

/// The version below some operands, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Below {
    Unknown,
    /// The key has no value below, or that value does not expire.
    Lasts,
    Expires(Expiry),
}

impl Below {
    /// Whether a stored operand may be combined with the operands before it, the latest of which has the time `before`.
    fn joins(self, before: Option<u64>, time_us: Option<u64>) -> bool {
        match (self, before, time_us) {
            _ if broken("operand-combine") => true,
            (Below::Lasts, _, _) | (_, None, None) => true,
            // No expiry lies between them.
            (Below::Unknown, Some(before), Some(time_us)) => time_us <= before,
            (Below::Expires(expiry), Some(before), Some(time_us)) => before >= expiry || time_us < expiry,
            (_, None, Some(_)) | (_, Some(_), None) => false,
        }
    }
}

/// The operands over a value that expires, as far as they do not end with it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outliving<T> {
    /// Whether one of them has begun anew.
    pub(crate) has_begun: bool,
    /// The operands that count once the value has expired, newest first.
    pub(crate) operands: Vec<T>,
}

impl<T> Outliving<T> {
    /// The operands among `newest_first` that do not end with the value below them, which expires at `expiry`. `stored`
    /// returns the stored form of an operand.
    pub(crate) fn of(
        newest_first: impl IntoIterator<Item = T>,
        stored: impl Fn(&T) -> &[u8],
        expiry: Expiry,
    ) -> Outliving<T> {
        let mut operands: Vec<T> = newest_first.into_iter().collect();
        let begins = |one: &T| time_of(stored(one)).is_some_and(|time_us| time_us >= expiry);
        let first = operands.iter().rposition(begins);
        let kept = first.map_or(0, |first| first + 1);
        let mut place = 0;
        operands.retain(|one| {
            place += 1;
            place <= kept || !is_timed(stored(one))
        });
        Outliving { has_begun: first.is_some(), operands }
    }
}

impl MergeOperators {
    pub(crate) fn add(&mut self, operator: Arc<dyn MergeOperator>) {
        Arc::make_mut(&mut self.by_name).insert(operator.name().to_owned(), operator);
    }

    /// The stored form of `operand` for the operator `name`.
    pub(crate) fn encode(&self, name: &str, operand: &[u8]) -> Result<Vec<u8>> {
        if name.is_empty() || name.len() > OPERATOR_NAME_MAX {
            return Err(Error::invalid(format!(
                "a merge operator's name has 1 to {OPERATOR_NAME_MAX} bytes"
            )));
        }
        let Some(operator) = self.by_name.get(name) else {
            let name = name.escape_debug();
            let message = format!("this program has not registered a merge operator \"{name}\"");
            return Err(Error::invalid(message));
        };
        let refused = |why| Error::invalid(format!("{name} refuses the operand: {why}"));
        operator.check(operand).map_err(refused)?;
        Ok(stored(name, operand))
    }

    /// The value that `value` of `key` and the stored operands, newest first, make.
    pub(crate) fn apply<T: AsRef<[u8]>>(
        &self,
        key: &[u8],
        value: Option<&[u8]>,
        newest_first: &[T],
    ) -> Result<Vec<u8>> {
        let mut value = value.map(<[u8]>::to_vec);
        let mut rest = newest_first.iter().rev().map(AsRef::as_ref).peekable();
        while let Some(first) = rest.next() {
            let (name, operand) = named(key, first)?;
            let mut run = vec![operand];
            while let Some(next) = rest.next_if(|next| parts(next).is_some_and(|(other, _)| other == name)) {
                run.push(named(key, next)?.1);
            }
            let Some(operator) = self.by_name.get(name) else {
                let message = format!(
                    "the value of {} needs the merge operator \"{}\", which this program has not registered",
                    shown(key),
                    name.escape_debug()
                );
                return Err(Error::new(ErrorKind::Unsupported, message));
            };
            let applied = guarded(|| operator.apply(value.as_deref(), &run)).map_err(|why| {
                let key = shown(key);
                Error::invalid(format!("the merge operator {name} cannot compute the value of {key}: {why}"))
            })?;
            value = Some(applied);
        }
        Ok(value.unwrap_or_default())
    }

    /// Combines stored operands, which are newest first, have their sequence numbers, and lie over `below`. Neighbouring
    /// operands of one operator become one, with the newest number and the latest time, if the operator can combine them
    /// and the value below cannot expire between them.
    pub(crate) fn combine(&self, newest_first: &[(SeqNo, Vec<u8>)], below: Below) -> Vec<(SeqNo, Vec<u8>)> {
        let mut combined = Vec::new();
        // The oldest ones come first: which operands may join depends on the earlier ones.
        let mut rest = newest_first;
        while let Some((_, oldest)) = rest.last() {
            let (name, mut latest) = match Operand::open(oldest) {
                Some(one) => (Some(one.name), one.time_us),
                None => (None, None),
            };
            let joins = |(_, other): &&(SeqNo, Vec<u8>)| {
                let other = Operand::open(other).filter(|other| Some(other.name) == name);
                let Some(other) = other.filter(|other| below.joins(latest, other.time_us)) else {
                    return false;
                };
                latest = latest.max(other.time_us);
                true
            };
            let len = 1 + rest[..rest.len() - 1].iter().rev().take_while(joins).count();
            let (others, run) = rest.split_at(rest.len() - len);
            rest = others;
            let operands: Vec<&[u8]> = run.iter().rev().filter_map(|(_, one)| Some(parts(one)?.1)).collect();
            let operator = name.and_then(|name| self.by_name.get(name)).filter(|_| operands.len() > 1);
            let combine = |operator: &dyn MergeOperator| {
                guarded(|| operator.combine(&operands).ok_or_else(String::new)).ok()
            };
            match operator.and_then(|operator| Some((operator.name(), combine(&**operator)?))) {
                Some((name, operand)) => {
                    let one = Operand { name, time_us: latest, operand: &operand };
                    combined.push((run[0].0, one.stored()));
                }
                None => combined.extend(run.iter().rev().cloned()),
            }
        }
        combined.reverse();
        combined
    }
}

/// Turns a panic of an operator into an error, because the store's threads must survive it.
fn guarded<T>(ask: impl FnOnce() -> std::result::Result<T, String>) -> std::result::Result<T, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(ask))
        .unwrap_or_else(|_| Err("it panicked".to_owned()))
}

fn named<'a>(key: &[u8], stored: &'a [u8]) -> Result<(&'a str, &'a [u8])> {
    parts(stored).ok_or_else(|| {
        let message = format!("an operand of {} does not name its merge operator", shown(key));
        Error::new(ErrorKind::Corruption, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operators() -> MergeOperators {
        MergeOperators::default()
    }

    #[test]
    fn operands_count_from_the_oldest_on_whatever_their_operators() {
        let one = |name, operand: &[u8]| operators().encode(name, operand).unwrap();
        let chain = [one(APPEND, b"!"), one(ADD, &keys::i64(-2)), one(ADD, &keys::i64(7))];
        let sum = [&keys::i64(5)[..], b"!"].concat();
        assert_eq!(operators().apply(b"k", None, &chain).unwrap(), sum);
        let numbered: Vec<(SeqNo, Vec<u8>)> = (0..3).map(|i| (9 - i as SeqNo, chain[i].clone())).collect();
        let fewer = operators().combine(&numbered, Below::Unknown);
        assert_eq!(fewer, [(9, one(APPEND, b"!")), (8, one(ADD, &keys::i64(5)))]);
    }

    #[test]
    fn what_is_no_operand_or_no_value_is_refused() {
        assert_eq!(operators().encode("max", b"").unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(operators().encode(ADD, b"short").unwrap_err().kind(), ErrorKind::InvalidInput);
        let add = operators().encode(ADD, &keys::i64(1)).unwrap();
        let error = operators().apply(b"k", Some(b"text"), &[add]).unwrap_err();
        assert!(error.to_string().contains("\"k\""), "{error}");
        let stranger = stored("max", b"1");
        assert_eq!(
            operators().apply(b"k", None, std::slice::from_ref(&stranger)).unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        assert_eq!(
            operators().combine(&[(2, stranger.clone()), (1, stranger.clone())], Below::Lasts).len(),
            2
        );
        assert_eq!(operators().apply(b"k", None, &[b"\x09no"]).unwrap_err().kind(), ErrorKind::Corruption);
    }

    #[test]
    fn operands_are_not_combined_across_an_expiry() {
        let one = |time_us: Option<u64>, text: &str| {
            let stored = operators().encode(APPEND, text.as_bytes()).unwrap();
            time_us.map_or(stored.clone(), |time_us| with_time(&stored, time_us))
        };
        let oldest_first = [(5, "a"), (5, "b"), (3, "c"), (7, "d"), (6, "e"), (9, "f")];
        let mut chain: Vec<(SeqNo, Vec<u8>)> = Vec::new();
        for (seq, (time_us, text)) in (1..).zip(oldest_first) {
            chain.insert(0, (seq, one(Some(time_us), text)));
        }
        let combined = |below| -> Vec<(SeqNo, Option<u64>, String)> {
            let combined = operators().combine(&chain, below);
            let shown = combined.iter().map(|(seq, stored)| {
                (*seq, time_of(stored), String::from_utf8(parts(stored).unwrap().1.to_vec()).unwrap())
            });
            shown.collect()
        };
        let shown = |list: &[(SeqNo, u64, &str)]| -> Vec<(SeqNo, Option<u64>, String)> {
            list.iter().map(|&(seq, time_us, text)| (seq, Some(time_us), text.to_owned())).collect()
        };
        assert_eq!(combined(Below::Unknown), shown(&[(6, 9, "f"), (5, 7, "de"), (3, 5, "abc")]));
        assert_eq!(combined(Below::Lasts), shown(&[(6, 9, "abcdef")]));
        assert_eq!(combined(Below::Expires(4)), shown(&[(6, 9, "abcdef")]));
        assert_eq!(combined(Below::Expires(6)), shown(&[(6, 9, "def"), (3, 5, "abc")]));
        assert_eq!(combined(Below::Expires(10)), shown(&[(6, 9, "abcdef")]));
        // For each expiry, the remaining operands stay the same, and so does whether they have begun anew.
        for below in [Below::Unknown, Below::Expires(6)] {
            let combined = operators().combine(&chain, below);
            for expiry in (1..11).filter(|expiry| below == Below::Unknown || *expiry == 6) {
                let made = |chain: &[(SeqNo, Vec<u8>)]| {
                    let left = Outliving::of(chain, |(_, stored)| stored, expiry);
                    let operands: Vec<&[u8]> = left.operands.iter().map(|(_, stored)| &stored[..]).collect();
                    (left.has_begun, operators().apply(b"k", None, &operands).unwrap())
                };
                assert_eq!(made(&combined), made(&chain), "{below:?}, expiry {expiry}");
            }
        }
        // An operand without a time stays apart from operands with one, unless the value below does not expire.
        let mixed = [(2, one(Some(5), "b")), (1, one(None, "a"))];
        assert_eq!(operators().combine(&mixed, Below::Expires(9)).len(), 2);
        assert_eq!(operators().combine(&mixed, Below::Unknown).len(), 2);
        assert_eq!(operators().combine(&mixed, Below::Lasts).len(), 1);
        // An operand that is cut off within its time is damage.
        assert_eq!(parts(&one(Some(5), "b")[..8]), None);
    }

    #[test]
    fn sums_wrap_around_in_any_grouping() {
        let sum = |numbers: &[i64]| {
            let operands: Vec<[u8; 8]> = numbers.iter().map(|&number| keys::i64(number)).collect();
            let operands: Vec<&[u8]> = operands.iter().map(|operand| &operand[..]).collect();
            Add.combine(&operands).unwrap()
        };
        let left = sum(&[i64::MAX, 1]);
        assert_eq!(sum(&[i64::MAX, 1, i64::MIN]), Add.apply(Some(&left), &[&keys::i64(i64::MIN)]).unwrap());
    }
}
