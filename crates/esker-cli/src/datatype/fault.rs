//! Why a typed key or value is invalid.

use std::fmt;

use crate::escapes::EscapeError;

/// The text continues "the key" or "the value".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DataError {
    Empty,
    NotANumber,
    NotADecimal,
    Signed,
    /// The name of the type that it does not fit.
    OutOfRange(&'static str),
    NotHex,
    OddHex,
    Escape(EscapeError),
    /// Why.
    NotJson(String),
    /// How many elements there are, and how many there should be.
    Elements(usize, usize),
    /// The element with this number, from 1, is invalid.
    Element(usize, Box<DataError>),
    /// The name of the type that the bytes do not belong to.
    NotAsStored(String),
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataError::Empty => f.write_str("is empty"),
            DataError::NotANumber => f.write_str("is not a whole decimal number"),
            DataError::NotADecimal => f.write_str("is not a number such as -0.5, 3e8, inf or NaN"),
            DataError::Signed => f.write_str("has a sign, but its type is unsigned"),
            DataError::OutOfRange(name) => write!(f, "does not fit in {name}"),
            DataError::NotHex => f.write_str("has a character that is not a hex digit"),
            DataError::OddHex => f.write_str("has an odd number of hex digits"),
            DataError::Escape(error) => write!(f, "has an invalid escape: {error}"),
            DataError::NotJson(why) => write!(f, "is not JSON: {why}"),
            DataError::Elements(found, wanted) => {
                let s = if *found == 1 { "" } else { "s" };
                write!(f, "has {found} element{s} instead of {wanted}; elements are separated by commas")
            }
            DataError::Element(number, error) => write!(f, "is invalid: its element {number} {error}"),
            DataError::NotAsStored(name) => write!(f, "is not {name} in its stored form"),
        }
    }
}

impl From<EscapeError> for DataError {
    fn from(error: EscapeError) -> Self {
        DataError::Escape(error)
    }
}
