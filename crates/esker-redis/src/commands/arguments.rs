//! Arguments as numbers and words.

use crate::fault::Fault;

/// An argument as an integer.
pub(crate) fn integer(argument: &[u8]) -> Result<i64, Fault> {
    crate::numbers::integer(argument).ok_or(Fault::NOT_INTEGER)
}

/// An argument as a number.
pub(crate) fn float(argument: &[u8]) -> Result<f64, Fault> {
    crate::numbers::float(argument).ok_or(Fault::NOT_FLOAT)
}

/// Whether an argument is this word, given in capital letters, in any case of letters.
pub(crate) fn is(argument: &[u8], word: &str) -> bool {
    argument.eq_ignore_ascii_case(word.as_bytes())
}
