//! How keys and values look to a person (`--keys`, `--values`), and the bytes that the store has.
//!
//! | type | typed | stored | printed |
//! |---|---|---|---|
//! | text | any bytes | the same | the same |
//! | escaped | the same, with `\n \t \r \\ \xNN` | the bytes | the same, nothing but printable text |
//! | hex | pairs of hex digits | the bytes | lower case |
//! | u64 u32 | decimal digits, leading zeros allowed | big-endian | decimal without padding |
//! | i64 i32 | the same, `-` allowed | order-preserving | decimal without padding |
//! | f64 | as `-0.5`, `3e8`, `inf`, `NaN` | order-preserving | the shortest that gives the same number |
//! | json (values only) | a JSON value | its text without blanks between its parts | the same, on one line |
//! | text,u64 and the like | elements with commas between them (`tuple`) | order-preserving | the same |
//!
//! A key has at least one byte. A value may be empty, except for a number. A value has one element. `hex` and `escaped`
//! are notations for bytes of any meaning: they print and accept those of every type.

mod fault;
mod hex;
mod number;
mod tuple;

use std::fmt;

use esker::{Error, ErrorKind};

use crate::escapes;
use crate::exit::{Failure, Outcome};
pub(crate) use fault::DataError;
pub(crate) use number::Number;
use tuple::Tuple;

/// How the keys or the values of a tree are typed and printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataType {
    Text,
    Escaped,
    Hex,
    /// Any JSON value. Only values have this type.
    Json,
    Number(Number),
    Tuple(Tuple),
}

/// How a tree's keys and values are typed and printed. The tree's first write records it in its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Types {
    pub(crate) keys: DataType,
    pub(crate) values: DataType,
}

impl Types {
    /// The default types of a tree.
    pub(crate) const TEXT: Types = Types { keys: DataType::Text, values: DataType::Text };

    /// The types that a tree keeps if its first write uses these. Escapes are a notation, not a type.
    pub(crate) fn kept(self) -> Types {
        let kept = |data| if data == DataType::Escaped { DataType::Text } else { data };
        Types { keys: kept(self.keys), values: kept(self.values) }
    }

    /// The tag of a tree with these types: `u64`, or `u64 hex` if values are not text.
    pub(crate) fn tag(self) -> String {
        match self.values {
            DataType::Text => self.keys.to_string(),
            values => format!("{} {values}", self.keys),
        }
    }

    /// The types in a tag from [`Types::tag`].
    pub(crate) fn of_tag(tag: &str) -> Option<Self> {
        let (keys, values) = parts(tag);
        let keys = DataType::named(keys).filter(|keys| *keys != DataType::Json)?;
        Some(Types { keys, values: DataType::named(values)? })
    }

    /// The type of the keys of a tree with this tag; `None` if it is text or unknown.
    pub(crate) fn told_by(tag: &str) -> Option<DataType> {
        Types::of_tag(tag).map(|types| types.keys).filter(|keys| *keys != DataType::Text)
    }
}

/// The names of the types of keys and of values in a tag.
pub(crate) fn parts(tag: &str) -> (&str, &str) {
    tag.split_once(' ').unwrap_or((tag, "text"))
}

impl fmt::Display for DataType {
    /// The name on the command line and in the tree's tag.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataType::Text => f.write_str("text"),
            DataType::Escaped => f.write_str("escaped"),
            DataType::Hex => f.write_str("hex"),
            DataType::Json => f.write_str("json"),
            DataType::Number(number) => f.write_str(number.name()),
            DataType::Tuple(tuple) => tuple.fmt(f),
        }
    }
}

impl DataType {
    pub(crate) const I64: DataType = DataType::Number(Number::I64);

    /// All types with one element.
    pub(crate) fn single() -> impl Iterator<Item = DataType> {
        let others = [DataType::Text, DataType::Escaped, DataType::Hex];
        others.into_iter().chain(Number::ALL.iter().copied().map(DataType::Number))
    }

    /// All types of values.
    pub(crate) fn of_values() -> impl Iterator<Item = DataType> {
        Self::single().chain([DataType::Json])
    }

    /// The type of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let single = Self::of_values().find(|data| data.to_string() == name);
        single.or_else(|| Tuple::named(name).map(DataType::Tuple))
    }

    /// Whether it is a notation for any bytes, which does not say what they mean.
    pub(crate) fn is_notation(self) -> bool {
        matches!(self, DataType::Hex | DataType::Escaped)
    }

    /// Whether it is a type of numbers.
    pub(crate) fn is_number(self) -> bool {
        matches!(self, DataType::Number(_))
    }

    /// Whether any bytes are of this type.
    pub(crate) fn takes_all(self) -> bool {
        matches!(self, DataType::Text | DataType::Escaped | DataType::Hex)
    }

    /// How many bytes each key or value has, if that is fixed.
    pub(crate) fn width(self) -> Option<usize> {
        match self {
            DataType::Number(number) => Some(number.width()),
            _ => None,
        }
    }

    /// Whether the stored `bytes` are a key or a value of this type.
    pub(crate) fn has(self, bytes: &[u8]) -> bool {
        self.takes_all() || self.append(bytes, &mut Vec::new()).is_ok()
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
        match self {
            DataType::Number(number) => number.encode(typed, scratch)?,
            DataType::Escaped => escapes::decode(typed, scratch)?,
            DataType::Hex | DataType::Text => hex::decode(typed, scratch)?,
            DataType::Json => crate::json::compact(typed, scratch).map_err(DataError::NotJson)?,
            DataType::Tuple(tuple) => tuple.encode(typed, false, scratch)?,
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
            DataType::Hex | DataType::Escaped if typed.is_empty() => Ok(typed),
            _ => self.encode(typed, scratch),
        }
    }

    /// The stored bytes of `typed`, in memory of their own.
    pub(crate) fn to_bytes(self, typed: &[u8]) -> Result<Vec<u8>, DataError> {
        let mut scratch = Vec::new();
        self.encode(typed, &mut scratch).map(<[u8]>::to_vec)
    }

    /// The prefix of stored keys that begin with `typed`: with these elements, if they have several.
    pub(crate) fn prefix(self, typed: &[u8]) -> Result<Vec<u8>, DataError> {
        let DataType::Tuple(tuple) = self else { return self.to_bytes(typed) };
        let mut out = Vec::new();
        tuple.encode(typed, true, &mut out).map(|()| out)
    }

    /// Appends the canonical printed form of the stored `key`.
    #[inline]
    pub(crate) fn print(self, key: &[u8], out: &mut Vec<u8>) -> Outcome {
        if self == DataType::Escaped {
            // In a line, a key ends at a blank.
            escapes::append_word(out, key, b"");
            return Ok(());
        }
        self.append(key, out).map_err(|error| {
            Failure::usage(format!(
                "{}; the tree holds keys of another type (--keys hex shows any key)",
                error.message()
            ))
        })
    }

    /// A stored key of this type as printable text for a message. `None` if it is not of this type.
    pub(crate) fn shown(self, key: &[u8]) -> Option<String> {
        let (mut printed, mut shown) = (Vec::new(), Vec::new());
        self.print(key, &mut printed).ok()?;
        escapes::append_shown(&mut shown, &printed);
        String::from_utf8(shown).ok()
    }

    /// Appends the canonical printed form of the stored `value`.
    #[inline]
    pub(crate) fn print_value(self, value: &[u8], out: &mut Vec<u8>) -> Outcome {
        self.append(value, out).map_err(|_| {
            let len = value.len();
            Failure::usage(format!("a value of {len} bytes is not {self}; --values hex shows any value"))
        })
    }

    #[inline]
    fn append(self, bytes: &[u8], out: &mut Vec<u8>) -> esker::Result<()> {
        match self {
            DataType::Text => out.extend_from_slice(bytes),
            // A program or `put --file` may have stored it with blanks.
            DataType::Json => crate::json::compact(bytes, out)
                .map_err(|error| Error::new(ErrorKind::InvalidInput, format!("it is not JSON: {error}")))?,
            DataType::Escaped => escapes::append(out, bytes),
            DataType::Hex => hex::append(bytes, out),
            DataType::Number(number) => number.print(bytes, out)?,
            DataType::Tuple(tuple) => tuple.print(bytes, out)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::DataError::*;
    use super::DataType::*;
    use super::*;

    const U64: DataType = Number(super::Number::U64);
    const I64: DataType = DataType::I64;
    const U32: DataType = Number(super::Number::U32);
    const I32: DataType = Number(super::Number::I32);
    const F64: DataType = Number(super::Number::F64);

    #[track_caller]
    fn round(keys: DataType, typed: &str, printed: &str) {
        let key = keys.to_bytes(typed.as_bytes()).unwrap();
        let mut out = Vec::new();
        keys.print(&key, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), printed);
    }

    fn name(data: DataType) -> &'static str {
        let Number(number) = data else { return "" };
        number.name()
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
        for (name, least, greatest) in [
            ("u8", "0", "255"),
            ("i8", "-128", "127"),
            ("u16", "0", "65535"),
            ("i16", "-32768", "32767"),
            ("u128", "0", "340282366920938463463374607431768211455"),
            ("i128", "-170141183460469231731687303715884105728", "170141183460469231731687303715884105727"),
        ] {
            let keys = DataType::named(name).unwrap();
            round(keys, least, least);
            round(keys, greatest, greatest);
            refused(keys, &format!("{greatest}0"), OutOfRange(name));
            round(
                DataType::named(&format!("text,{name}")).unwrap(),
                &format!("a,{least}"),
                &format!("a,{least}"),
            );
        }
        round(F64, "-0.50", "-0.5");
        round(F64, "7", "7");
        round(F64, "-0", "-0");
        round(F64, "1E300", "1e300");
        round(F64, "0.1", "0.1");
        round(F64, "1e-400", "0");
        round(F64, "-inf", "-inf");
        round(F64, "NaN", "NaN");
        round(Escaped, r"a b\n\x00ü\\", r"a\x20b\n\x00ü\\");
    }

    #[test]
    fn what_is_no_key_is_named() {
        for keys in DataType::single() {
            refused(keys, "", Empty);
        }
        for keys in [U64, U32] {
            refused(keys, "-1", Signed);
            refused(keys, "+1", Signed);
            refused(keys, "1 ", NotANumber);
            refused(keys, "0x1", NotANumber);
            refused(keys, "99999999999999999999", OutOfRange(name(keys)));
        }
        for keys in [I64, I32] {
            refused(keys, "+1", NotANumber);
            refused(keys, "-", NotANumber);
            refused(keys, "--1", NotANumber);
            refused(keys, "9223372036854775808", OutOfRange(name(keys)));
            refused(keys, "-9223372036854775809", OutOfRange(name(keys)));
        }
        refused(U64, "18446744073709551616", OutOfRange("u64"));
        refused(U32, "4294967296", OutOfRange("u32"));
        refused(I32, "2147483648", OutOfRange("i32"));
        refused(I32, "-2147483649", OutOfRange("i32"));
        for typed in ["+1", "1,5", "0x1", "infinity", "nan", "1e", ".", "1 "] {
            refused(F64, typed, NotADecimal);
        }
        refused(F64, "-1e999", OutOfRange("f64"));
        refused(Escaped, "\\q", Escape(escapes::EscapeError::Unknown(Some('q'))));
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
        for values in DataType::single() {
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
        let several = DataType::named("text,u64").unwrap();
        for keys in DataType::single().chain([several]) {
            for values in DataType::single() {
                let types = Types { keys, values };
                assert_eq!(Types::of_tag(&types.tag()), Some(types));
            }
            assert_eq!(Types::of_tag(&keys.to_string()), Some(Types { keys, values: Text }));
        }
        for tag in ["", "u64 ", "u64 u24", "u64 hex hex", " u64"] {
            assert_eq!(Types::of_tag(tag), None, "{tag:?}");
        }
    }

    #[test]
    fn a_notation_is_no_type_of_its_own() {
        let types = Types { keys: Escaped, values: Hex };
        assert_eq!(types.kept(), Types { keys: Text, values: Hex });
        assert_eq!(DataType::named("u24"), None);
        assert!(U64.has(&[0; 8]) && !U64.has(&[0; 7]) && !F64.has(&[0; 8]) && Escaped.has(b""));
    }
}
