//! Numbers: their typed and printed form, and bytes that sort like them.

use std::io::Write;

use esker::keys;

use super::fault::DataError;

/// A type of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    U64,
    I64,
    U32,
    I32,
    F64,
}

impl Number {
    pub(crate) const ALL: [Number; 5] = [Number::U64, Number::I64, Number::U32, Number::I32, Number::F64];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Number::U64 => "u64",
            Number::I64 => "i64",
            Number::U32 => "u32",
            Number::I32 => "i32",
            Number::F64 => "f64",
        }
    }

    /// How many bytes it takes.
    pub(crate) fn width(self) -> usize {
        match self {
            Number::U64 | Number::I64 | Number::F64 => 8,
            Number::U32 | Number::I32 => 4,
        }
    }

    /// Appends the stored bytes of the number `typed`.
    #[inline]
    pub(super) fn encode(self, typed: &[u8], out: &mut Vec<u8>) -> Result<(), DataError> {
        let too_big = |_| self.out_of_range();
        match self {
            Number::U64 => out.extend_from_slice(&keys::u64(self.unsigned(typed)?)),
            Number::U32 => {
                let value = u32::try_from(self.unsigned(typed)?).map_err(too_big)?;
                out.extend_from_slice(&keys::u32(value));
            }
            Number::I64 => out.extend_from_slice(&keys::i64(self.signed(typed)?)),
            Number::I32 => {
                let value = i32::try_from(self.signed(typed)?).map_err(too_big)?;
                out.extend_from_slice(&keys::i32(value));
            }
            Number::F64 => out.extend_from_slice(&keys::f64(self.decimal(typed)?)),
        }
        Ok(())
    }

    /// Appends the canonical printed form of the stored `bytes`.
    #[inline]
    pub(super) fn print(self, bytes: &[u8], out: &mut Vec<u8>) -> esker::Result<()> {
        // A write to memory cannot fail.
        let _ = match self {
            Number::U64 => write!(out, "{}", keys::decode_u64(bytes)?),
            Number::I64 => write!(out, "{}", keys::decode_i64(bytes)?),
            Number::U32 => write!(out, "{}", keys::decode_u32(bytes)?),
            Number::I32 => write!(out, "{}", keys::decode_i32(bytes)?),
            Number::F64 => {
                // The shortest digits that give the same number, with an exponent if there are many zeros.
                let text = format!("{:?}", keys::decode_f64(bytes)?);
                write!(out, "{}", text.strip_suffix(".0").unwrap_or(&text))
            }
        };
        Ok(())
    }

    fn out_of_range(self) -> DataError {
        DataError::OutOfRange(self.name())
    }

    fn unsigned(self, typed: &[u8]) -> Result<u64, DataError> {
        match typed.first() {
            Some(b'-' | b'+') => Err(DataError::Signed),
            _ => self.digits(typed),
        }
    }

    fn signed(self, typed: &[u8]) -> Result<i64, DataError> {
        match typed.strip_prefix(b"-") {
            Some(digits) => {
                0i64.checked_sub_unsigned(self.digits(digits)?).ok_or_else(|| self.out_of_range())
            }
            None => i64::try_from(self.digits(typed)?).map_err(|_| self.out_of_range()),
        }
    }

    /// `inf`, `-inf` and `NaN` are typed as they are printed. A number that is too large does not count as one of the
    /// first two.
    fn decimal(self, typed: &[u8]) -> Result<f64, DataError> {
        let is_typed = |byte: &u8| byte.is_ascii_digit() || b"-+.eE".contains(byte);
        match typed {
            b"inf" => return Ok(f64::INFINITY),
            b"-inf" => return Ok(f64::NEG_INFINITY),
            b"NaN" => return Ok(f64::NAN),
            [b'+', ..] => return Err(DataError::NotADecimal),
            _ if !typed.iter().all(is_typed) => return Err(DataError::NotADecimal),
            _ => {}
        }
        let text = std::str::from_utf8(typed).map_err(|_| DataError::NotADecimal)?;
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(value),
            Ok(_) => Err(self.out_of_range()),
            Err(_) => Err(DataError::NotADecimal),
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
            value = next.ok_or_else(|| self.out_of_range())?;
        }
        Ok(value)
    }
}

#[inline]
fn digit(byte: u8) -> Result<u8, DataError> {
    let value = byte.wrapping_sub(b'0');
    if value < 10 { Ok(value) } else { Err(DataError::NotANumber) }
}
