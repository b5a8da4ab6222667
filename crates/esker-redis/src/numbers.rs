//! Numbers as Redis reads and prints them.

use crate::fault::Fault;

/// A number of 64 bits as Redis accepts it: decimal digits, perhaps with a minus sign, and nothing else; no leading zeros.
pub fn integer(bytes: &[u8]) -> Option<i64> {
    let (is_negative, digits) = bytes.strip_prefix(b"-").map_or((false, bytes), |digits| (true, digits));
    match digits {
        [b'0'] if !is_negative => return Some(0),
        // So many digits fit into 64 bits without a sign.
        [b'1'..=b'9', rest @ ..] if rest.len() < 19 => {}
        _ => return None,
    }
    let mut number = 0_u64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + u64::from(digit);
    }
    if is_negative { 0_i64.checked_sub_unsigned(number) } else { i64::try_from(number).ok() }
}

/// Appends the decimal digits of `number`.
pub fn push_integer(out: &mut Vec<u8>, number: i64) {
    let mut digits = [0_u8; 20];
    let (mut at, mut rest) = (digits.len(), number.unsigned_abs());
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// A floating-point number as Redis accepts it: no blanks, not NaN; `inf`, `+inf` and `-infinity` in any case.
pub fn float(bytes: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(bytes).ok()?;
    if text.is_empty() || text.bytes().any(|byte| byte.is_ascii_whitespace()) {
        return None;
    }
    if let Some(number) = hexadecimal(text) {
        return number;
    }
    let number: f64 = text.parse().ok()?;
    // What is too large for a number is refused, but for the word, and so is what is too small.
    let is_word = text.to_ascii_lowercase().contains("inf");
    let mut mantissa = text.bytes().take_while(|byte| !matches!(byte, b'e' | b'E'));
    let is_too_small = number == 0.0 && mantissa.any(|byte| matches!(byte, b'1'..=b'9'));
    (!number.is_nan() && (number.is_finite() || is_word) && !is_too_small).then_some(number)
}

/// A number as C writes it with `%a`: `0x1.8p3`. The outer `None`: it does not begin like one. What does not fit is refused.
pub(crate) fn hexadecimal(text: &str) -> Option<Option<f64>> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X"))?;
    let magnitude = || {
        let (digits, exponent) = match digits.split_once(['p', 'P']) {
            Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
            None => (digits, 0),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let (mut mantissa, mut shift) = (0_u64, 0_i32);
        for digit in whole.chars().chain(fraction.chars()) {
            let digit = u64::from(digit.to_digit(16)?);
            if mantissa >> 60 == 0 {
                mantissa = mantissa << 4 | digit;
            } else {
                // Digits that are left out count in how the number is rounded.
                mantissa |= u64::from(digit != 0);
                shift = shift.saturating_add(4);
            }
        }
        let behind_point = i32::try_from(fraction.len()).ok()?.checked_mul(4)?;
        let exponent = exponent.checked_add(shift)?.checked_sub(behind_point)?.clamp(-5000, 5000);
        let mut number = mantissa as f64;
        // In steps: a power of two alone may be too large or too small where the result is not.
        for _ in 0..exponent.unsigned_abs() {
            number = if exponent < 0 { number / 2.0 } else { number * 2.0 };
        }
        (number.is_finite() && (number != 0.0 || mantissa == 0)).then_some(number)
    };
    Some(magnitude().map(|number| if text.starts_with('-') { -number } else { number }))
}

/// `number` as Redis 7.0 prints it: 17 significant digits, as `%.17g` in C.
pub fn double(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if number == 0.0 {
        return if number.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    if number.fract() == 0.0 && number.abs() < 1e15 {
        return format!("{}", number as i64);
    }
    let scientific = format!("{number:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..17).contains(&exponent) {
        let fixed = format!("{:.*}", (16 - exponent) as usize, number);
        return trimmed(&fixed).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
}

/// Without the zeros at the end of a fraction.
fn trimmed(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

/// `old` and `by` added, as `INCRBYFLOAT` returns it: see [`Decimal`].
pub(crate) fn add_decimal(old: &[u8], by: &[u8]) -> Result<String, Fault> {
    let parse = |bytes| Decimal::parse(bytes).ok_or(Fault::NOT_FLOAT);
    parse(old)?.plus(&parse(by)?)
}

/// A decimal number, exact: `digits` times ten to the power of `exponent`.
///
/// Redis adds with floating-point numbers of 80 bits and prints 17 decimals, so 3.0 and 1.1 make 4.1. Decimal digits give
/// the same result wherever 80 bits are precise enough, and a more precise one beyond that. The range is that of 80 bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decimal {
    is_negative: bool,
    is_infinite: bool,
    /// ASCII digits. [`Decimal::parse`] leaves no zeros at the beginning.
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    /// The most decimals of a sum.
    const DECIMALS: i64 = 17;
    /// So long a text is no number.
    const TEXT_MAX: usize = 5 << 10;
    /// The largest number has so many digits before the point, and begins with [`Decimal::LARGEST`].
    const WHOLE_MAX: i64 = 4933;
    const LARGEST: &[u8] = b"118973149535723176502";
    /// A number below 10^-4950 is out of range, unless it is 0.
    const ZEROS_MAX: i64 = 4949;

    /// The number that `bytes` are, as Redis accepts it: digits with a point and an exponent, or infinity, but not NaN.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Decimal> {
        if bytes.len() >= Self::TEXT_MAX {
            return None;
        }
        let (is_negative, rest) = signed(bytes);
        if rest.eq_ignore_ascii_case(b"inf") || rest.eq_ignore_ascii_case(b"infinity") {
            return Some(Decimal { is_negative, is_infinite: true, digits: Vec::new(), exponent: 0 });
        }
        let mut parts = rest.splitn(2, |byte| matches!(byte, b'e' | b'E'));
        let (mantissa, exponent) = (parts.next()?, parts.next().map_or(Some(0), exponent)?);
        let mut parts = mantissa.splitn(2, |byte| *byte == b'.');
        let (whole, fraction) = (parts.next()?, parts.next().unwrap_or(&[]));
        let mut digits = [whole, fraction].concat();
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        digits.drain(..zeros);
        if digits.is_empty() {
            return Some(Decimal { is_negative, is_infinite: false, digits, exponent: 0 });
        }
        let exponent = exponent - fraction.len() as i64;
        let number = Decimal { is_negative, is_infinite: false, digits, exponent };
        (number.whole() >= -Self::ZEROS_MAX && !number.is_too_large()).then_some(number)
    }

    /// Whether it is beyond all numbers.
    pub(crate) fn is_infinite(&self) -> bool {
        self.is_infinite
    }

    /// The text of the sum, without zeros at the end of its fraction.
    pub(crate) fn plus(&self, by: &Decimal) -> Result<String, Fault> {
        const BEYOND: Fault = Fault::told("ERR increment would produce NaN or Infinity");
        if self.is_infinite || by.is_infinite {
            return Err(BEYOND);
        }
        let exponent = self.exponent.min(by.exponent);
        let behind = |number: &Decimal| (number.exponent - exponent) as usize;
        // One more for the carry.
        let len = 1 + (self.digits.len() + behind(self)).max(by.digits.len() + behind(by));
        let aligned = |number: &Decimal| {
            let mut digits = vec![b'0'; len];
            let end = len - behind(number);
            digits[end - number.digits.len()..end].copy_from_slice(&number.digits);
            digits
        };
        let (mut digits, mut lesser, mut is_negative) = (aligned(self), aligned(by), self.is_negative);
        if digits < lesser {
            std::mem::swap(&mut digits, &mut lesser);
            is_negative = by.is_negative;
        }
        let sign = if self.is_negative == by.is_negative { 1 } else { -1 };
        let mut carry = 0_i8;
        for (digit, other) in digits.iter_mut().zip(&lesser).rev() {
            let sum = (*digit - b'0') as i8 + sign * (*other - b'0') as i8 + carry;
            carry = sum.div_euclid(10);
            *digit = b'0' + sum.rem_euclid(10) as u8;
        }
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        digits.drain(..zeros);
        let sum = Decimal { is_negative, is_infinite: false, digits, exponent };
        if sum.is_too_large() { Err(BEYOND) } else { Ok(sum.text()) }
    }

    /// How many digits stand before the point; below 0, how many zeros follow it.
    fn whole(&self) -> i64 {
        self.digits.len() as i64 + self.exponent
    }

    fn is_too_large(&self) -> bool {
        let whole = self.whole();
        whole > Self::WHOLE_MAX || whole == Self::WHOLE_MAX && *self.digits > *Self::LARGEST
    }

    /// The number, rounded to [`Decimal::DECIMALS`] decimals.
    fn text(self) -> String {
        let Decimal { is_negative, digits, exponent, .. } = self;
        let surplus = (-Self::DECIMALS - exponent).max(0) as usize;
        let decimals = (-exponent).clamp(0, Self::DECIMALS) as usize;
        // Zeros in front: room for a carry, and a digit before the point.
        let front = (surplus + decimals + 2).saturating_sub(digits.len());
        let mut digits = [vec![b'0'; front], digits, vec![b'0'; exponent.max(0) as usize]].concat();
        let cut = digits.split_off(digits.len() - surplus);
        // A half goes to the even neighbour: then 1/41 - 1/41 is 0, whatever is lost of the first one.
        let is_odd = digits.last().is_some_and(|digit| digit % 2 == 1);
        let rounds_up = match cut.split_first() {
            Some((b'5', rest)) => is_odd || rest.iter().any(|digit| *digit != b'0'),
            Some((first, _)) => *first > b'5',
            None => false,
        };
        if rounds_up {
            for digit in digits.iter_mut().rev() {
                *digit = if *digit == b'9' { b'0' } else { *digit + 1 };
                if *digit != b'0' {
                    break;
                }
            }
        }
        let (whole, fraction) = digits.split_at(digits.len() - decimals);
        let whole = String::from_utf8_lossy(whole);
        let whole = whole.trim_start_matches('0');
        let fraction = String::from_utf8_lossy(fraction);
        let fraction = fraction.trim_end_matches('0');
        let is_zero = whole.is_empty() && fraction.is_empty();
        let sign = if is_negative && !is_zero { "-" } else { "" };
        let whole = if whole.is_empty() { "0" } else { whole };
        let point = if fraction.is_empty() { "" } else { "." };
        format!("{sign}{whole}{point}{fraction}")
    }
}

/// Whether a number is negative, and what follows its sign.
fn signed(bytes: &[u8]) -> (bool, &[u8]) {
    match bytes {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, bytes),
    }
}

/// What follows the `e` of a number. One beyond all ranges is cut down to one that still is.
fn exponent(bytes: &[u8]) -> Option<i64> {
    let (is_negative, digits) = signed(bytes);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let size = digits.iter().fold(0, |size, digit| (size * 10 + i64::from(digit - b'0')).min(1_000_000));
    Some(if is_negative { -size } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_as_redis_reads_them() {
        for (text, number) in
            [("0", 0), ("-1", -1), ("9223372036854775807", i64::MAX), ("-9223372036854775808", i64::MIN)]
        {
            assert_eq!(integer(text.as_bytes()), Some(number));
            let mut out = Vec::new();
            push_integer(&mut out, number);
            assert_eq!(out, text.as_bytes());
        }
        for text in ["", "-", "-0", "01", "+1", " 1", "1 ", "9223372036854775808", "1.0"] {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn floats_are_read_and_printed_as_redis_does() {
        for (number, text) in [
            (0.1, "0.10000000000000001"),
            (3.0, "3"),
            (-2.5, "-2.5"),
            (1e17, "1e+17"),
            (1.5e-7, "1.4999999999999999e-07"),
            (1e16, "10000000000000000"),
            (f64::NEG_INFINITY, "-inf"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
        ] {
            assert_eq!(double(number), text);
        }
        assert_eq!(float(b"+inf"), Some(f64::INFINITY));
        for (text, number) in [
            ("0x10", Some(16.0)),
            ("-0X1.8p1", Some(-3.0)),
            ("0x.8", Some(0.5)),
            ("0x1p-1074", Some(5e-324)),
            ("0x0p9999", Some(0.0)),
            ("0x1fffffffffffff8000000000000000001", Some(6.80564733841877e38)),
            ("0x1p1024", None),
            ("0x1p-2000", None),
            ("0x", None),
            ("0x1p", None),
            ("0xg", None),
            ("0x1.2.3", None),
            ("+-0x1", None),
        ] {
            assert_eq!(float(text.as_bytes()), number, "{text}");
        }
        assert_eq!(float(b"3e2"), Some(300.0));
        assert_eq!(float(b"-0.0e5"), Some(0.0));
        for text in ["", " 1", "1 ", "nan", "1x", "1e999", "-1e-999"] {
            assert_eq!(float(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn decimals_are_added_exactly() {
        let large = format!("1{}", "0".repeat(300));
        for (old, by, sum) in [
            ("3.0", "1.1", "4.1"),
            ("0.1", "0.2", "0.3"),
            ("1", "-1.1", "-0.1"),
            ("5000", "0.1", "5000.1"),
            ("5.0e3", "2.0E+2", "5200"),
            ("10.50", "0.1", "10.6"),
            ("17179869184", "1.5", "17179869185.5"),
            ("1.23", "-1.23", "0"),
            ("-0", "-0", "0"),
            ("-0", "-1e-30", "0"),
            ("1.", ".5", "1.5"),
            ("+1", "+.5", "1.5"),
            ("007", "-0003", "4"),
            ("0", "5e-18", "0"),
            ("0", "5.1e-18", "0.00000000000000001"),
            ("0", "1.5e-17", "0.00000000000000002"),
            ("0", "4.9e-18", "0"),
            ("-0.99999999999999999", "-9e-18", "-1"),
            ("99.99999999999999999", "1e-17", "100"),
            ("1", "-1e-4950", "1"),
            ("0e99999", "1", "1"),
            ("1e2", "1e-2", "100.01"),
            (&large, "-1", &"9".repeat(300)),
        ] {
            assert_eq!(add_decimal(old.as_bytes(), by.as_bytes()).unwrap(), sum, "{old} + {by}");
            assert_eq!(add_decimal(by.as_bytes(), old.as_bytes()).unwrap(), sum, "{by} + {old}");
        }
        assert_eq!(add_decimal(b"1e4931", b"1e4931").unwrap(), format!("2{}", "0".repeat(4931)));
    }

    #[test]
    fn what_is_no_decimal_is_refused() {
        let long = "1".repeat(5120);
        for text in [
            "",
            ".",
            "-",
            "e1",
            "1e",
            "1e+",
            " 1",
            "1 ",
            "1\0",
            "nan",
            "infi",
            "1.2.3",
            "--1",
            "0x1",
            "1.19e4932",
            "1e-5000",
            "1e99999999999999999999",
            &long,
        ] {
            assert_eq!(add_decimal(text.as_bytes(), b"1"), Err(Fault::NOT_FLOAT), "{text}");
        }
        for (old, by) in [("1e4932", "1e4932"), ("1", "inf"), ("-inf", "inf"), ("1", "-Infinity")] {
            let told = add_decimal(old.as_bytes(), by.as_bytes());
            assert_eq!(told, Err(Fault::told("ERR increment would produce NaN or Infinity")), "{old} + {by}");
        }
    }
}
