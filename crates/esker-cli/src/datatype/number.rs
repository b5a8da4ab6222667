//! Numbers: their typed and printed form, and bytes that sort like them.

use std::io::Write;

use esker::keys::{self, TupleReader};

use super::fault::DataError;

/// The type [`Number`] and what differs from one type of whole numbers to the next.
macro_rules! numbers {
    (unsigned: $($unsigned:ident $u:ident $decode_u:ident)+; signed: $($signed:ident $i:ident $decode_i:ident)+) => {
        /// A type of numbers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Number {
            $($unsigned,)+
            $($signed,)+
            F64,
        }

        impl Number {
            pub(crate) const ALL: &[Number] = &[$(Number::$unsigned,)+ $(Number::$signed,)+ Number::F64];

            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Number::$unsigned => stringify!($u),)+
                    $(Number::$signed => stringify!($i),)+
                    Number::F64 => "f64",
                }
            }

            /// How many bytes it takes.
            pub(crate) fn width(self) -> usize {
                match self {
                    $(Number::$unsigned => size_of::<$u>(),)+
                    $(Number::$signed => size_of::<$i>(),)+
                    Number::F64 => size_of::<f64>(),
                }
            }

            /// Appends the stored bytes of the number `typed`.
            #[inline]
            pub(super) fn encode(self, typed: &[u8], out: &mut Vec<u8>) -> Result<(), DataError> {
                match self {
                    $(Number::$unsigned => {
                        let value = $u::try_from(self.unsigned(typed)?).map_err(|_| self.out_of_range())?;
                        out.extend_from_slice(&keys::$u(value));
                    })+
                    $(Number::$signed => {
                        let value = $i::try_from(self.signed(typed)?).map_err(|_| self.out_of_range())?;
                        out.extend_from_slice(&keys::$i(value));
                    })+
                    Number::F64 => out.extend_from_slice(&keys::f64(self.decimal(typed)?)),
                }
                Ok(())
            }

            /// Appends the canonical printed form of the stored `bytes`.
            #[inline]
            pub(super) fn print(self, bytes: &[u8], out: &mut Vec<u8>) -> esker::Result<()> {
                // A write to memory cannot fail.
                let _ = match self {
                    $(Number::$unsigned => write!(out, "{}", keys::$decode_u(bytes)?),)+
                    $(Number::$signed => write!(out, "{}", keys::$decode_i(bytes)?),)+
                    Number::F64 => {
                        // The shortest digits that give the same number, with an exponent if there are many zeros.
                        let text = format!("{:?}", keys::decode_f64(bytes)?);
                        write!(out, "{}", text.strip_suffix(".0").unwrap_or(&text))
                    }
                };
                Ok(())
            }

            /// Appends the printed form of the next element of `reader`.
            pub(super) fn print_element(self, reader: &mut TupleReader<'_>, out: &mut Vec<u8>) -> esker::Result<()> {
                match self {
                    $(Number::$unsigned => self.print(&keys::$u(reader.$u()?), out),)+
                    $(Number::$signed => self.print(&keys::$i(reader.$i()?), out),)+
                    Number::F64 => self.print(&keys::f64(reader.f64()?), out),
                }
            }
        }
    };
}

numbers! {
    unsigned: U64 u64 decode_u64 U32 u32 decode_u32 U16 u16 decode_u16 U8 u8 decode_u8 U128 u128 decode_u128;
    signed: I64 i64 decode_i64 I32 i32 decode_i32 I16 i16 decode_i16 I8 i8 decode_i8 I128 i128 decode_i128
}

impl Number {
    fn out_of_range(self) -> DataError {
        DataError::OutOfRange(self.name())
    }

    fn unsigned(self, typed: &[u8]) -> Result<u128, DataError> {
        match typed.first() {
            Some(b'-' | b'+') => Err(DataError::Signed),
            _ => self.digits(typed),
        }
    }

    fn signed(self, typed: &[u8]) -> Result<i128, DataError> {
        match typed.strip_prefix(b"-") {
            Some(digits) => {
                0i128.checked_sub_unsigned(self.digits(digits)?).ok_or_else(|| self.out_of_range())
            }
            None => i128::try_from(self.digits(typed)?).map_err(|_| self.out_of_range()),
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
    fn digits(self, typed: &[u8]) -> Result<u128, DataError> {
        if typed.is_empty() {
            return Err(DataError::NotANumber);
        }
        // 19 digits always fit into 64 bits, so the common key needs neither an overflow check nor wide arithmetic.
        let (sure, rest) = typed.split_at(typed.len().min(19));
        let mut value = 0u64;
        for &byte in sure {
            value = value * 10 + u64::from(digit(byte)?);
        }
        let mut value = u128::from(value);
        for &byte in rest {
            let digit = u128::from(digit(byte)?);
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
