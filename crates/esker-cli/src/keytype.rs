//! What keys look like to a person (`--keys`), and the bytes that the store orders.
//!
//! | type | typed | stored | printed |
//! |---|---|---|---|
//! | text | any bytes | the same | the same |
//! | hex | pairs of hex digits | the bytes | lower case |
//! | u64 u32 | decimal digits, leading zeros allowed | big-endian | decimal without padding |
//! | i64 i32 | the same, `-` allowed | order-preserving | decimal without padding |

use std::fmt;

use clap::ValueEnum;
use esker::keys;

use crate::exit::{Failure, Outcome};

/// How the keys of a tree are typed and printed. Fixed by the tree's first write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyType {
    // Plain comments: documented values would spread the help of every command over two pages.
    Text,
    Hex,
    U64,
    I64,
    U32,
    I32,
}

/// Why a typed key is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyError {
    Empty,
    NotANumber,
    Signed,
    OutOfRange(KeyType),
    NotHex,
    OddHex,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyError::Empty => f.write_str("the key is empty"),
            KeyError::NotANumber => f.write_str("the key is not a whole decimal number"),
            KeyError::Signed => f.write_str("the key has a sign, and the key type has none"),
            KeyError::OutOfRange(keys) => write!(f, "the key does not fit in {}", keys.name()),
            KeyError::NotHex => f.write_str("the key has a character that is no hex digit"),
            KeyError::OddHex => f.write_str("the key has an odd number of hex digits"),
        }
    }
}

impl KeyType {
    /// The name on the command line and in the tree's tag.
    pub(crate) fn name(self) -> &'static str {
        match self {
            KeyType::Text => "text",
            KeyType::Hex => "hex",
            KeyType::U64 => "u64",
            KeyType::I64 => "i64",
            KeyType::U32 => "u32",
            KeyType::I32 => "i32",
        }
    }

    /// The type of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::value_variants().iter().copied().find(|keys| keys.name() == name)
    }

    /// Whether keys are numbers.
    pub(crate) fn is_number(self) -> bool {
        !matches!(self, KeyType::Text | KeyType::Hex)
    }

    /// The stored bytes of the key `typed`. They are in `scratch` unless they are `typed` itself.
    #[inline]
    pub(crate) fn encode<'a>(self, typed: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<&'a [u8], KeyError> {
        if typed.is_empty() {
            return Err(KeyError::Empty);
        }
        if self == KeyType::Text {
            return Ok(typed);
        }
        scratch.clear();
        let too_big = |_| KeyError::OutOfRange(self);
        match self {
            KeyType::U64 => scratch.extend_from_slice(&keys::u64(self.unsigned(typed)?)),
            KeyType::U32 => {
                let value = u32::try_from(self.unsigned(typed)?).map_err(too_big)?;
                scratch.extend_from_slice(&keys::u32(value));
            }
            KeyType::I64 => scratch.extend_from_slice(&keys::i64(self.signed(typed)?)),
            KeyType::I32 => {
                let value = i32::try_from(self.signed(typed)?).map_err(too_big)?;
                scratch.extend_from_slice(&keys::i32(value));
            }
            KeyType::Hex | KeyType::Text => from_hex(typed, scratch)?,
        }
        Ok(scratch)
    }

    /// The stored bytes of `typed`, in memory of their own.
    pub(crate) fn to_bytes(self, typed: &[u8]) -> Result<Vec<u8>, KeyError> {
        let mut scratch = Vec::new();
        self.encode(typed, &mut scratch).map(<[u8]>::to_vec)
    }

    /// Appends the canonical printed form of the stored `key`.
    pub(crate) fn print(self, key: &[u8], out: &mut Vec<u8>) -> Outcome {
        match self {
            KeyType::Text => out.extend_from_slice(key),
            KeyType::Hex => to_hex(key, out),
            KeyType::U64 => print_number(keys::decode_u64(key), out)?,
            KeyType::I64 => print_number(keys::decode_i64(key), out)?,
            KeyType::U32 => print_number(keys::decode_u32(key), out)?,
            KeyType::I32 => print_number(keys::decode_i32(key), out)?,
        }
        Ok(())
    }

    fn unsigned(self, typed: &[u8]) -> Result<u64, KeyError> {
        match typed.first() {
            Some(b'-' | b'+') => Err(KeyError::Signed),
            _ => self.digits(typed),
        }
    }

    fn signed(self, typed: &[u8]) -> Result<i64, KeyError> {
        let too_big = KeyError::OutOfRange(self);
        match typed.strip_prefix(b"-") {
            Some(digits) => 0i64.checked_sub_unsigned(self.digits(digits)?).ok_or(too_big),
            None => i64::try_from(self.digits(typed)?).map_err(|_| too_big),
        }
    }

    #[inline]
    fn digits(self, typed: &[u8]) -> Result<u64, KeyError> {
        if typed.is_empty() {
            return Err(KeyError::NotANumber);
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
            value = next.ok_or(KeyError::OutOfRange(self))?;
        }
        Ok(value)
    }
}

#[inline]
fn digit(byte: u8) -> Result<u8, KeyError> {
    let value = byte.wrapping_sub(b'0');
    if value < 10 { Ok(value) } else { Err(KeyError::NotANumber) }
}

fn print_number<T: fmt::Display>(number: esker::Result<T>, out: &mut Vec<u8>) -> Outcome {
    use std::io::Write;
    let number = number.map_err(|error| {
        Failure::usage(format!("{}; --keys does not fit what the tree holds", error.message()))
    })?;
    // Writing to memory cannot fail.
    let _ = write!(out, "{number}");
    Ok(())
}

fn from_hex(typed: &[u8], out: &mut Vec<u8>) -> Result<(), KeyError> {
    let nibble = |byte: u8| match (byte as char).to_digit(16) {
        Some(value) => Ok(value as u8),
        None => Err(KeyError::NotHex),
    };
    let (pairs, odd) = typed.as_chunks::<2>();
    for &[high, low] in pairs {
        out.push(nibble(high)? << 4 | nibble(low)?);
    }
    match odd {
        [] => Ok(()),
        [last, ..] => nibble(*last).and(Err(KeyError::OddHex)),
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
    use super::KeyError::*;
    use super::KeyType::*;
    use super::*;

    #[track_caller]
    fn round(keys: KeyType, typed: &str, printed: &str) {
        let key = keys.to_bytes(typed.as_bytes()).unwrap();
        let mut out = Vec::new();
        keys.print(&key, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), printed);
    }

    #[track_caller]
    fn refused(keys: KeyType, typed: &str, error: KeyError) {
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
        for keys in KeyType::value_variants() {
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
    fn names_are_those_of_the_command_line() {
        for keys in KeyType::value_variants() {
            assert_eq!(KeyType::named(keys.name()), Some(*keys));
            assert_eq!(keys.to_possible_value().unwrap().get_name(), keys.name());
        }
        assert_eq!(KeyType::named("u16"), None);
    }
}
