//! What keys and values look like to a person (`--keys`, `--values`), and the bytes that the store has.
//!
//! | type | typed | stored | printed |
//! |---|---|---|---|
//! | text | any bytes | the same | the same |
//! | hex | pairs of hex digits | the bytes | lower case |
//! | u64 u32 | decimal digits, leading zeros allowed | big-endian | decimal without padding |
//! | i64 i32 | the same, `-` allowed | order-preserving | decimal without padding |
//!
//! A key has at least one byte. A value may be empty, but a number never is.

use std::fmt;

use clap::ValueEnum;
use esker::keys;

use crate::exit::{Failure, Outcome};

/// How the keys or the values of a tree are typed and printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DataType {
    // Plain comments: documented values would spread the help of every command over two pages.
    Text,
    Hex,
    U64,
    I64,
    U32,
    I32,
}

/// Why a typed key or value is not one. Reads on from "the key" or "the value".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataError {
    Empty,
    NotANumber,
    Signed,
    OutOfRange(DataType),
    NotHex,
    OddHex,
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataError::Empty => f.write_str("is empty"),
            DataError::NotANumber => f.write_str("is not a whole decimal number"),
            DataError::Signed => f.write_str("has a sign, and its type has none"),
            DataError::OutOfRange(keys) => write!(f, "does not fit in {}", keys.name()),
            DataError::NotHex => f.write_str("has a character that is no hex digit"),
            DataError::OddHex => f.write_str("has an odd number of hex digits"),
        }
    }
}

/// How a tree's keys and values are typed and printed. Fixed by the tree's first write, in its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Types {
    pub(crate) keys: DataType,
    pub(crate) values: DataType,
}

impl Types {
    /// What a tree has where nothing else was said.
    pub(crate) const TEXT: Types = Types { keys: DataType::Text, values: DataType::Text };

    /// The tag of a tree with these types: `u64`, or `u64 hex` where values are not text.
    pub(crate) fn tag(self) -> String {
        match self.values {
            DataType::Text => self.keys.name().to_owned(),
            values => format!("{} {}", self.keys.name(), values.name()),
        }
    }

    /// The types that [`Types::tag`] wrote down.
    pub(crate) fn of_tag(tag: &str) -> Option<Self> {
        let (keys, values) = parts(tag);
        Some(Types { keys: DataType::named(keys)?, values: DataType::named(values)? })
    }
}

/// The names of the types of keys and of values in a tag.
pub(crate) fn parts(tag: &str) -> (&str, &str) {
    tag.split_once(' ').unwrap_or((tag, DataType::Text.name()))
}

impl DataType {
    /// The name on the command line and in the tree's tag.
    pub(crate) fn name(self) -> &'static str {
        match self {
            DataType::Text => "text",
            DataType::Hex => "hex",
            DataType::U64 => "u64",
            DataType::I64 => "i64",
            DataType::U32 => "u32",
            DataType::I32 => "i32",
        }
    }

    /// The type of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::value_variants().iter().copied().find(|keys| keys.name() == name)
    }

    /// How many bytes each key or value has, where that is fixed.
    pub(crate) fn width(self) -> Option<usize> {
        match self {
            DataType::Text | DataType::Hex => None,
            DataType::U64 | DataType::I64 => Some(8),
            DataType::U32 | DataType::I32 => Some(4),
        }
    }

    /// Whether it is about numbers.
    pub(crate) fn is_number(self) -> bool {
        !matches!(self, DataType::Text | DataType::Hex)
    }

    /// The stored bytes of the key `typed`. They are in `scratch` unless they are `typed` itself.
    #[inline]
    pub(crate) fn encode<'a>(self, typed: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<&'a [u8], DataError> {
        if typed.is_empty() {
            return Err(DataError::Empty);
        }
        if self == DataType::Text {
            return Ok(typed);
        }
        scratch.clear();
        let too_big = |_| DataError::OutOfRange(self);
        match self {
            DataType::U64 => scratch.extend_from_slice(&keys::u64(self.unsigned(typed)?)),
            DataType::U32 => {
                let value = u32::try_from(self.unsigned(typed)?).map_err(too_big)?;
                scratch.extend_from_slice(&keys::u32(value));
            }
            DataType::I64 => scratch.extend_from_slice(&keys::i64(self.signed(typed)?)),
            DataType::I32 => {
                let value = i32::try_from(self.signed(typed)?).map_err(too_big)?;
                scratch.extend_from_slice(&keys::i32(value));
            }
            DataType::Hex | DataType::Text => from_hex(typed, scratch)?,
        }
        Ok(scratch)
    }

    /// The stored bytes of the value `typed`, which unlike a key may be empty.
    #[inline]
    pub(crate) fn encode_value<'a>(
        self,
        typed: &'a [u8],
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], DataError> {
        match self {
            DataType::Text => Ok(typed),
            DataType::Hex if typed.is_empty() => Ok(typed),
            _ => self.encode(typed, scratch),
        }
    }

    /// The stored bytes of `typed`, in memory of their own.
    pub(crate) fn to_bytes(self, typed: &[u8]) -> Result<Vec<u8>, DataError> {
        let mut scratch = Vec::new();
        self.encode(typed, &mut scratch).map(<[u8]>::to_vec)
    }

    /// Appends the canonical printed form of the stored `key`.
    #[inline]
    pub(crate) fn print(self, key: &[u8], out: &mut Vec<u8>) -> Outcome {
        self.append(key, out).map_err(|error| {
            Failure::usage(format!("{}; --keys does not fit what the tree holds", error.message()))
        })
    }

    /// Appends the canonical printed form of the stored `value`.
    #[inline]
    pub(crate) fn print_value(self, value: &[u8], out: &mut Vec<u8>) -> Outcome {
        self.append(value, out).map_err(|_| {
            let (len, name) = (value.len(), self.name());
            Failure::usage(format!("a value of {len} bytes is no {name}; --values hex shows any value"))
        })
    }

    #[inline]
    fn append(self, bytes: &[u8], out: &mut Vec<u8>) -> esker::Result<()> {
        match self {
            DataType::Text => out.extend_from_slice(bytes),
            DataType::Hex => to_hex(bytes, out),
            DataType::U64 => append_number(keys::decode_u64(bytes)?, out),
            DataType::I64 => append_number(keys::decode_i64(bytes)?, out),
            DataType::U32 => append_number(keys::decode_u32(bytes)?, out),
            DataType::I32 => append_number(keys::decode_i32(bytes)?, out),
        }
        Ok(())
    }

    fn unsigned(self, typed: &[u8]) -> Result<u64, DataError> {
        match typed.first() {
            Some(b'-' | b'+') => Err(DataError::Signed),
            _ => self.digits(typed),
        }
    }

    fn signed(self, typed: &[u8]) -> Result<i64, DataError> {
        let too_big = DataError::OutOfRange(self);
        match typed.strip_prefix(b"-") {
            Some(digits) => 0i64.checked_sub_unsigned(self.digits(digits)?).ok_or(too_big),
            None => i64::try_from(self.digits(typed)?).map_err(|_| too_big),
        }
    }

    #[inline]
    fn digits(self, typed: &[u8]) -> Result<u64, DataError> {
        if typed.is_empty() {
            return Err(DataError::NotANumber);
        }
        // 19 digits always fit, so the common key needs no overflow check.
        let (sure, rest) = typed.split_at(typed.len().min(19));
        let mut value = 0u64;
        for &byte in sure {
            value = value * 10 + u64::from(digit(byte)?);
        }
        for &byte in rest {
            let digit = u64::from(digit(byte)?);
            let next = value.checked_mul(10).and_then(|tens| tens.checked_add(digit));
            value = next.ok_or(DataError::OutOfRange(self))?;
        }
        Ok(value)
    }
}

#[inline]
fn digit(byte: u8) -> Result<u8, DataError> {
    let value = byte.wrapping_sub(b'0');
    if value < 10 { Ok(value) } else { Err(DataError::NotANumber) }
}

fn append_number(number: impl fmt::Display, out: &mut Vec<u8>) {
    use std::io::Write;
    // Writing to memory cannot fail.
    let _ = write!(out, "{number}");
}

fn from_hex(typed: &[u8], out: &mut Vec<u8>) -> Result<(), DataError> {
    let nibble = |byte: u8| match (byte as char).to_digit(16) {
        Some(value) => Ok(value as u8),
        None => Err(DataError::NotHex),
    };
    let (pairs, odd) = typed.as_chunks::<2>();
    for &[high, low] in pairs {
        out.push(nibble(high)? << 4 | nibble(low)?);
    }
    match odd {
        [] => Ok(()),
        [last, ..] => nibble(*last).and(Err(DataError::OddHex)),
    }
}

fn to_hex(key: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for &byte in key {
        out.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

#[cfg(test)]
mod tests {
    use super::DataError::*;
    use super::DataType::*;
    use super::*;

    #[track_caller]
    fn round(keys: DataType, typed: &str, printed: &str) {
        let key = keys.to_bytes(typed.as_bytes()).unwrap();
        let mut out = Vec::new();
        keys.print(&key, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), printed);
    }

    #[track_caller]
    fn refused(keys: DataType, typed: &str, error: DataError) {
        assert_eq!(keys.to_bytes(typed.as_bytes()), Err(error), "{keys:?} {typed:?}");
    }

    #[test]
    fn keys_print_in_canonical_form() {
        round(Text, "0007 x", "0007 x");
        round(Hex, "00fFaB", "00ffab");
        round(U64, "00000000000000000000000000042", "42");
        round(U64, "18446744073709551615", "18446744073709551615");
        round(U32, "0", "0");
        round(U32, "4294967295", "4294967295");
        round(I64, "-9223372036854775808", "-9223372036854775808");
        round(I64, "9223372036854775807", "9223372036854775807");
        round(I64, "-0", "0");
        round(I32, "-2147483648", "-2147483648");
        round(I32, "0012", "12");
    }

    #[test]
    fn what_is_no_key_is_named() {
        for keys in DataType::value_variants() {
            refused(*keys, "", Empty);
        }
        for keys in [U64, U32] {
            refused(keys, "-1", Signed);
            refused(keys, "+1", Signed);
            refused(keys, "1 ", NotANumber);
            refused(keys, "0x1", NotANumber);
            refused(keys, "99999999999999999999", OutOfRange(keys));
        }
        for keys in [I64, I32] {
            refused(keys, "+1", NotANumber);
            refused(keys, "-", NotANumber);
            refused(keys, "--1", NotANumber);
            refused(keys, "9223372036854775808", OutOfRange(keys));
            refused(keys, "-9223372036854775809", OutOfRange(keys));
        }
        refused(U64, "18446744073709551616", OutOfRange(U64));
        refused(U32, "4294967296", OutOfRange(U32));
        refused(I32, "2147483648", OutOfRange(I32));
        refused(I32, "-2147483649", OutOfRange(I32));
        refused(Hex, "abc", OddHex);
        refused(Hex, "ag", NotHex);
    }

    #[test]
    fn a_key_of_another_type_is_an_error() {
        assert!(U64.print(b"abc", &mut Vec::new()).is_err());
        assert!(I32.print(b"abcdefgh", &mut Vec::new()).is_err());
    }

    #[test]
    fn values_may_be_empty_but_numbers_are_not() {
        for values in DataType::value_variants() {
            let mut scratch = Vec::new();
            let encoded = values.encode_value(b"", &mut scratch);
            assert_eq!(encoded.is_err(), values.is_number(), "{values:?}");
            assert!(values.encode_value(b"12", &mut scratch).is_ok());
            let mut out = Vec::new();
            assert_eq!(values.print_value(b"abc", &mut out).is_err(), values.width().is_some());
        }
    }

    #[test]
    fn types_come_back_from_their_tag() {
        for keys in DataType::value_variants() {
            for values in DataType::value_variants() {
                let types = Types { keys: *keys, values: *values };
                assert_eq!(Types::of_tag(&types.tag()), Some(types));
            }
            assert_eq!(Types::of_tag(keys.name()), Some(Types { keys: *keys, values: Text }));
        }
        for tag in ["", "u64 ", "u64 u16", "u64 hex hex", " u64"] {
            assert_eq!(Types::of_tag(tag), None, "{tag:?}");
        }
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for keys in DataType::value_variants() {
            assert_eq!(DataType::named(keys.name()), Some(*keys));
            assert_eq!(keys.to_possible_value().unwrap().get_name(), keys.name());
        }
        assert_eq!(DataType::named("u16"), None);
    }
}
