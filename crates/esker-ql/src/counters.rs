//! What statements and files give as the value of a counter: its 8 bytes, or its number as decimal text.
//!
//! | text | value |
//! |---|---|
//! | `17`, `-3`, `=17` | the number; HQL's `=` may be in front of it |
//! | 8 bytes that are no such text | these bytes |
//! | 8 bytes that are such a text, such as `12345678` | refused: both may be meant |
//! | `+17` | refused: HQL adds it |

use std::borrow::Cow;

/// The bytes of a counter that is given as `value`.
///
/// # Errors
/// What is wrong with it.
pub fn counter(value: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    if is_sum(value) {
        return Err(
            "HQL adds a number with a `+` to the counter, and here a value replaces it: INCREMENT adds"
                .to_owned(),
        );
    }
    let Some(digits) = decimal(value) else {
        return match value.len() {
            8 => Ok(Cow::Borrowed(value)),
            len => Err(format!("a value has 8 bytes, or is a decimal number; this one has {len} bytes")),
        };
    };
    if is_ambiguous(value) {
        let number = <[u8; 8]>::try_from(value).map(i64::from_be_bytes).unwrap_or_default();
        return Err(format!(
            "{digits:?} is a decimal number, and the 8 bytes of {number}: write a zero in front of the digits, or {number}"
        ));
    }
    match digits.parse::<i64>() {
        Ok(number) => Ok(Cow::Owned(number.to_be_bytes().to_vec())),
        Err(_) => Err("a number is from -2^63 to 2^63 - 1".to_owned()),
    }
}

/// Whether `value` is the 8 bytes of a counter, and decimal text too: [`counter`] refuses it.
pub fn is_ambiguous(value: &[u8]) -> bool {
    value.len() == 8 && (decimal(value).is_some() || is_sum(value))
}

/// Whether it is decimal text with a `+` in front of it.
pub(crate) fn is_sum(value: &[u8]) -> bool {
    matches!(value, [b'+', digits @ ..] if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
}

/// The sign and the digits, if it is decimal text.
pub(crate) fn decimal(value: &[u8]) -> Option<&str> {
    let number = value.strip_prefix(b"=").unwrap_or(value);
    let digits = number.strip_prefix(b"-").unwrap_or(number);
    let is_decimal = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(number).ok().filter(|_| is_decimal)
}

#[cfg(test)]
mod tests {
    use super::{counter, is_ambiguous};

    #[test]
    fn a_decimal_text_is_the_number_and_8_other_bytes_are_themselves() {
        for (text, number) in [
            ("17", 17),
            ("-3", -3),
            ("=17", 17),
            ("=-3", -3),
            ("0", 0),
            ("-0", 0),
            ("1234567", 1_234_567),
            ("123456789", 123_456_789),
            ("012345678", 12_345_678),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(counter(text.as_bytes()).as_deref(), Ok(&i64::to_be_bytes(number)[..]), "{text}");
        }
        for bytes in [&[0; 8], b"1234567a", b"12 45678", b"--345678", b"========", b"+12345 7"] {
            assert_eq!(counter(bytes).as_deref(), Ok(&bytes[..]));
        }
        for wrong in ["", "-", "=", "+1", "1.5", " 1", "==1", "word", "9223372036854775808", "123456789a"] {
            assert!(counter(wrong.as_bytes()).is_err(), "{wrong}");
        }
        for both in ["12345678", "-1234567", "=1234567", "=-123456", "+1234567"] {
            assert!(is_ambiguous(both.as_bytes()) && counter(both.as_bytes()).is_err(), "{both}");
            // The number that these bytes are is written with more digits.
            let number = i64::from_be_bytes(both.as_bytes().try_into().unwrap_or_default());
            assert_eq!(counter(number.to_string().as_bytes()).as_deref(), Ok(both.as_bytes()));
        }
    }
}
