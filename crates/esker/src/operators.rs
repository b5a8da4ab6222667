//! Merge operators: they change values without reading them.
//!
//! A merge writes an *operand*. A read computes the value from the value below and all operands above it, oldest first.
//! Flushes and merges of tables combine operands with each other and with the value below, so that few are left. An
//! operand names its operator, so one key may have operands of several operators.
//!
//! ```text
//! stored   length of the name, 1 | name | operand
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::cursor::SeqNo;
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
    /// What is wrong with the operand. By default nothing is.
    fn check(&self, _operand: &[u8]) -> std::result::Result<(), String> {
        Ok(())
    }

    /// The value that `value` (`None`: the key is absent) and `operands` make. There is at least one operand, oldest
    /// first.
    ///
    /// # Errors
    /// The reason why there is no such value. Reads of the key then fail, and what is stored stays as it is.
    fn apply(&self, value: Option<&[u8]>, operands: &[&[u8]]) -> std::result::Result<Vec<u8>, String>;

    /// One operand with the same effect as `operands`, oldest first, on any value. `None` if there is none, which is
    /// the default.
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
/// [`Options::merge_operator`](crate::Options::merge_operator) has added. It has no methods of its own.
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

/// Takes apart a stored operand: the operator's name, and the operand itself.
pub(crate) fn parts(stored: &[u8]) -> Option<(&str, &[u8])> {
    let (&len, rest) = stored.split_first()?;
    let (name, operand) = rest.split_at_checked(usize::from(len))?;
    Some((std::str::from_utf8(name).ok()?, operand))
}

fn stored(name: &str, operand: &[u8]) -> Vec<u8> {
    [&[name.len() as u8], name.as_bytes(), operand].concat()
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

    /// Combines stored operands, which are newest first and have their sequence numbers. Neighbouring operands of one
    /// operator become one, with the newest number, if the operator can combine them.
    pub(crate) fn combine(&self, newest_first: &[(SeqNo, Vec<u8>)]) -> Vec<(SeqNo, Vec<u8>)> {
        let mut combined = Vec::new();
        let mut rest = newest_first;
        while let Some((seq, first)) = rest.first() {
            let name = parts(first).map(|(name, _)| name);
            let same = |(_, other): &&(SeqNo, Vec<u8>)| parts(other).map(|(name, _)| name) == name;
            let (run, others) = rest.split_at(rest.iter().take_while(same).count().max(1));
            rest = others;
            let operands: Vec<&[u8]> = run.iter().rev().filter_map(|(_, one)| Some(parts(one)?.1)).collect();
            let operator = name.and_then(|name| self.by_name.get(name)).filter(|_| operands.len() > 1);
            let combine = |operator: &dyn MergeOperator| {
                guarded(|| operator.combine(&operands).ok_or_else(String::new)).ok()
            };
            match operator.and_then(|operator| Some((operator.name(), combine(&**operator)?))) {
                Some((name, operand)) => combined.push((*seq, stored(name, &operand))),
                None => combined.extend_from_slice(run),
            }
        }
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
        let fewer = operators().combine(&numbered);
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
        assert_eq!(operators().combine(&[(2, stranger.clone()), (1, stranger.clone())]).len(), 2);
        assert_eq!(operators().apply(b"k", None, &[b"\x09no"]).unwrap_err().kind(), ErrorKind::Corruption);
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
