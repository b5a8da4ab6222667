//! Keys whose bytes sort as their values do.
//!
//! A tree orders its keys byte by byte. The functions here encode a value so that comparing the bytes gives the same
//! result as comparing the values. So scans and bounds mean what a caller expects. Each value has exactly one encoding,
//! and decoding refuses any other bytes with an error of kind [`ErrorKind::InvalidInput`](crate::ErrorKind).
//!
//! | value | bytes | order |
//! |---|---|---|
//! | `u64`, `u32` | big-endian | numeric |
//! | `i64`, `i32` | big-endian, sign bit flipped | numeric, negatives first |
//! | `f64` | bits; sign bit flipped when positive, all bits flipped when negative | numeric, `-0.0` before `0.0`, every NaN last |
//! | text | its UTF-8 | by code point |
//! | [`tuple()`] | its elements one after the other | first element, then second, … |
//!
//! ```
//! use esker::keys;
//! assert!(keys::u64(9) < keys::u64(10));
//! assert!(keys::i64(-1) < keys::i64(0));
//! assert!(keys::f64(-1.5) < keys::f64(0.25));
//! assert_eq!(keys::decode_i64(&keys::i64(-7))?, -7);
//!
//! // Rows of one user, newest id last, are neighbours:
//! let row = keys::tuple(&("ada", 42u64));
//! assert!(row.starts_with(&keys::tuple(&("ada",))));
//! assert_eq!(keys::decode_tuple::<(String, u64)>(&row)?, ("ada".to_owned(), 42));
//! # Ok::<(), esker::Error>(())
//! ```

use crate::error::{Error, Result};

mod tuple;

pub use tuple::{
    FromTuple, ReadElement, ToTuple, TupleReader, TupleWriter, WriteElement, decode_tuple, tuple,
};

const SIGN_32: u32 = 1 << 31;
const SIGN_64: u64 = 1 << 63;

/// The key of an unsigned 64-bit number.
///
/// ```
/// assert_eq!(esker::keys::u64(258), [0, 0, 0, 0, 0, 0, 1, 2]);
/// ```
#[inline]
pub const fn u64(value: u64) -> [u8; 8] {
    value.to_be_bytes()
}

/// The number that [`u64`](fn@u64) encoded.
///
/// ```
/// use esker::{ErrorKind, keys};
/// assert_eq!(keys::decode_u64(&keys::u64(258))?, 258);
/// assert_eq!(keys::decode_u64(b"short").unwrap_err().kind(), ErrorKind::InvalidInput);
/// # Ok::<(), esker::Error>(())
/// ```
#[inline]
pub fn decode_u64(key: &[u8]) -> Result<u64> {
    exactly(key, "u64").map(u64::from_be_bytes)
}

/// The key of a signed 64-bit number.
///
/// ```
/// use esker::keys;
/// assert!(keys::i64(i64::MIN) < keys::i64(-1) && keys::i64(-1) < keys::i64(0));
/// ```
#[inline]
pub const fn i64(value: i64) -> [u8; 8] {
    (value.cast_unsigned() ^ SIGN_64).to_be_bytes()
}

/// The number that [`i64`](fn@i64) encoded.
///
/// ```
/// use esker::keys;
/// assert_eq!(keys::decode_i64(&keys::i64(-258))?, -258);
/// # Ok::<(), esker::Error>(())
/// ```
#[inline]
pub fn decode_i64(key: &[u8]) -> Result<i64> {
    exactly(key, "i64").map(|raw| (u64::from_be_bytes(raw) ^ SIGN_64).cast_signed())
}

/// The key of an unsigned 32-bit number.
///
/// ```
/// assert_eq!(esker::keys::u32(258), [0, 0, 1, 2]);
/// ```
#[inline]
pub const fn u32(value: u32) -> [u8; 4] {
    value.to_be_bytes()
}

/// The number that [`u32`](fn@u32) encoded.
///
/// ```
/// use esker::keys;
/// assert_eq!(keys::decode_u32(&keys::u32(258))?, 258);
/// # Ok::<(), esker::Error>(())
/// ```
#[inline]
pub fn decode_u32(key: &[u8]) -> Result<u32> {
    exactly(key, "u32").map(u32::from_be_bytes)
}

/// The key of a signed 32-bit number.
///
/// ```
/// use esker::keys;
/// assert!(keys::i32(i32::MIN) < keys::i32(-1) && keys::i32(-1) < keys::i32(0));
/// ```
#[inline]
pub const fn i32(value: i32) -> [u8; 4] {
    (value.cast_unsigned() ^ SIGN_32).to_be_bytes()
}

/// The number that [`i32`](fn@i32) encoded.
///
/// ```
/// use esker::keys;
/// assert_eq!(keys::decode_i32(&keys::i32(-258))?, -258);
/// # Ok::<(), esker::Error>(())
/// ```
#[inline]
pub fn decode_i32(key: &[u8]) -> Result<i32> {
    exactly(key, "i32").map(|raw| (u32::from_be_bytes(raw) ^ SIGN_32).cast_signed())
}

/// The key of a floating-point number, in a total order: negative infinity, negative numbers, `-0.0`,
/// `0.0`, positive numbers, infinity, NaN. All NaNs share one key.
///
/// ```
/// use esker::keys;
/// assert!(keys::f64(-0.0) < keys::f64(0.0));
/// assert!(keys::f64(f64::INFINITY) < keys::f64(f64::NAN));
/// assert_eq!(keys::f64(f64::NAN), keys::f64(-f64::NAN));
/// ```
#[inline]
pub fn f64(value: f64) -> [u8; 8] {
    let bits = if value.is_nan() { CANONICAL_NAN } else { value.to_bits() };
    let ordered = if bits & SIGN_64 == 0 { bits | SIGN_64 } else { !bits };
    ordered.to_be_bytes()
}

/// The quiet NaN without sign or payload: the only one that has a key.
const CANONICAL_NAN: u64 = 0x7ff8_0000_0000_0000;

/// The number that [`f64`](fn@f64) encoded.
///
/// ```
/// use esker::keys;
/// assert_eq!(keys::decode_f64(&keys::f64(-2.5))?, -2.5);
/// assert!(keys::decode_f64(&keys::f64(f64::NAN))?.is_nan());
/// # Ok::<(), esker::Error>(())
/// ```
#[inline]
pub fn decode_f64(key: &[u8]) -> Result<f64> {
    let ordered = u64::from_be_bytes(exactly(key, "f64")?);
    let bits = if ordered & SIGN_64 == 0 { !ordered } else { ordered ^ SIGN_64 };
    let value = f64::from_bits(bits);
    if value.is_nan() && bits != CANONICAL_NAN {
        return Err(Error::invalid("an f64 key holds a NaN that is not the canonical one"));
    }
    Ok(value)
}

/// The key of a text: its bytes.
///
/// ```
/// assert_eq!(esker::keys::text("höhe"), "höhe".as_bytes());
/// ```
#[inline]
pub const fn text(value: &str) -> &[u8] {
    value.as_bytes()
}

/// The text of a key, if it is UTF-8.
///
/// ```
/// use esker::{ErrorKind, keys};
/// assert_eq!(keys::decode_text(b"abc")?, "abc");
/// assert_eq!(keys::decode_text(&[0xff]).unwrap_err().kind(), ErrorKind::InvalidInput);
/// # Ok::<(), esker::Error>(())
/// ```
#[inline]
pub fn decode_text(key: &[u8]) -> Result<&str> {
    std::str::from_utf8(key).map_err(|error| {
        Error::invalid(format!("a text key is not UTF-8 after its first {} bytes", error.valid_up_to()))
    })
}

/// `key` as an array of exactly `N` bytes.
fn exactly<const N: usize>(key: &[u8], what: &str) -> Result<[u8; N]> {
    key.try_into().map_err(|_| {
        Error::invalid(format!("a key of {} bytes is not a key of type {what}, which has {N}", key.len()))
    })
}

#[cfg(test)]
mod tests;
