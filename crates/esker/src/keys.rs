//! Keys whose bytes sort in the order of their values.
//!
//! A tree orders its keys byte by byte. The functions here encode a value so that comparing the bytes gives the same
//! result as comparing the values. Therefore scans and bounds mean what a caller expects. Each value has exactly one
//! encoding, and decoding refuses any other bytes with an error of kind [`ErrorKind::InvalidInput`](crate::ErrorKind).
//!
//! | value | bytes | order |
//! |---|---|---|
//! | `u8`, `u16`, `u32`, `u64`, `u128` | big-endian | numeric |
//! | `i8`, `i16`, `i32`, `i64`, `i128` | big-endian, sign bit flipped | numeric, negatives first |
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

mod escape;
mod tuple;

pub use escape::{escaped_len, push_escaped, unescape};
pub use tuple::{
    FromTuple, ReadElement, ToTuple, TupleReader, TupleWriter, WriteElement, decode_tuple, tuple,
};

const SIGN_64: u64 = 1 << 63;

/// The functions for the whole numbers of each width.
macro_rules! whole_numbers {
    ($($unsigned:ident $decode_unsigned:ident, $signed:ident $decode_signed:ident, $bits:literal;)*) => {$(
        #[doc = concat!("The key of an unsigned number of ", $bits, " bits.")]
        ///
        /// ```
        /// use esker::keys;
        #[doc = concat!("assert!(keys::", stringify!($unsigned), "(9) < keys::", stringify!($unsigned), "(10));")]
        /// ```
        #[inline]
        pub const fn $unsigned(value: $unsigned) -> [u8; $bits / 8] {
            value.to_be_bytes()
        }

        #[doc = concat!("The number that [`", stringify!($unsigned), "`](fn@", stringify!($unsigned), ") encoded.")]
        ///
        /// # Errors
        /// `InvalidInput` when the key has another length.
        ///
        /// ```
        /// use esker::keys;
        #[doc = concat!("let key = keys::", stringify!($unsigned), "(9);")]
        #[doc = concat!("assert_eq!(keys::", stringify!($decode_unsigned), "(&key)?, 9);")]
        /// # Ok::<(), esker::Error>(())
        /// ```
        #[inline]
        pub fn $decode_unsigned(key: &[u8]) -> Result<$unsigned> {
            exactly(key, stringify!($unsigned)).map($unsigned::from_be_bytes)
        }

        #[doc = concat!("The key of a signed number of ", $bits, " bits.")]
        ///
        /// ```
        /// use esker::keys;
        #[doc = concat!("assert!(keys::", stringify!($signed), "(-1) < keys::", stringify!($signed), "(0));")]
        /// ```
        #[inline]
        pub const fn $signed(value: $signed) -> [u8; $bits / 8] {
            (value ^ $signed::MIN).to_be_bytes()
        }

        #[doc = concat!("The number that [`", stringify!($signed), "`](fn@", stringify!($signed), ") encoded.")]
        ///
        /// # Errors
        /// `InvalidInput` when the key has another length.
        ///
        /// ```
        /// use esker::keys;
        #[doc = concat!("let key = keys::", stringify!($signed), "(-9);")]
        #[doc = concat!("assert_eq!(keys::", stringify!($decode_signed), "(&key)?, -9);")]
        /// # Ok::<(), esker::Error>(())
        /// ```
        #[inline]
        pub fn $decode_signed(key: &[u8]) -> Result<$signed> {
            exactly(key, stringify!($signed)).map(|raw| $signed::from_be_bytes(raw) ^ $signed::MIN)
        }
    )*};
}

whole_numbers! {
    u8 decode_u8, i8 decode_i8, 8;
    u16 decode_u16, i16 decode_i16, 16;
    u32 decode_u32, i32 decode_i32, 32;
    u64 decode_u64, i64 decode_i64, 64;
    u128 decode_u128, i128 decode_i128, 128;
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

/// The least key after all keys that begin with `prefix`: the exclusive upper bound of their range. `None` if no key
/// follows them, because `prefix` is empty or all its bytes are 0xff.
///
/// ```
/// use esker::keys;
/// assert_eq!(keys::prefix_end(b"ab"), Some(b"ac".to_vec()));
/// assert_eq!(keys::prefix_end(b"a\xff\xff"), Some(b"b".to_vec()));
/// assert_eq!(keys::prefix_end(b"\xff"), None);
/// ```
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// `key` as an array of exactly `N` bytes.
fn exactly<const N: usize>(key: &[u8], what: &str) -> Result<[u8; N]> {
    key.try_into().map_err(|_| {
        Error::invalid(format!("a key of {} bytes is not a key of type {what}, which has {N}", key.len()))
    })
}

#[cfg(test)]
mod tests;
