//! Structures and calls out of bytes: a declaration is a list of fields with their numbers, and the macros make the rest of it.
//!
//! The macros name what their callers have to import: [`Decode`], `Fail`, `Fault`, `Kind`, `Source`, `attributes`, `second`.

use crate::memory::ELEMENT_LEN;
use crate::wire::{Fault, Kind, Source};

/// About what a put takes while its call runs, in bytes: the put as it is read, its place among the cells of the call, and the entry
/// that is written. The key of its row counts apart. There may be very many in one call.
pub(super) const PUT_LEN: usize = 320;

/// About what the beginning of a list of changes takes, in bytes.
pub(super) const ROW_LEN: usize = 64;

/// A value of a call.
pub(super) trait Decode<'a>: Sized {
    /// About what a value takes as an element of a list while its call runs, in bytes.
    const LEN: usize = ELEMENT_LEN;

    /// Whether values of this type are meant.
    fn fits(kind: Kind) -> bool;

    fn decode(source: &mut Source<'a>) -> Result<Self, Fault>;
}

impl<'a> Decode<'a> for bool {
    fn fits(kind: Kind) -> bool {
        kind == Kind::Bool
    }

    fn decode(source: &mut Source<'a>) -> Result<bool, Fault> {
        source.bool()
    }
}

impl<'a> Decode<'a> for i32 {
    fn fits(kind: Kind) -> bool {
        kind == Kind::I32
    }

    fn decode(source: &mut Source<'a>) -> Result<i32, Fault> {
        source.i32()
    }
}

impl<'a> Decode<'a> for i64 {
    fn fits(kind: Kind) -> bool {
        kind == Kind::I64
    }

    fn decode(source: &mut Source<'a>) -> Result<i64, Fault> {
        source.i64()
    }
}

impl<'a> Decode<'a> for &'a [u8] {
    fn fits(kind: Kind) -> bool {
        kind == Kind::Bytes
    }

    fn decode(source: &mut Source<'a>) -> Result<&'a [u8], Fault> {
        source.bytes()
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    fn fits(kind: Kind) -> bool {
        T::fits(kind)
    }

    fn decode(source: &mut Source<'a>) -> Result<Option<T>, Fault> {
        T::decode(source).map(Some)
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Vec<T> {
    fn fits(kind: Kind) -> bool {
        kind == Kind::List
    }

    fn decode(source: &mut Source<'a>) -> Result<Vec<T>, Fault> {
        let (kind, count) = source.list(T::LEN)?;
        if count > 0 && !T::fits(kind) {
            return Err(Fault::Bad("a list has elements of another type than the method's"));
        }
        // The memory is counted, and the message has a byte for each at least.
        let mut list = Vec::with_capacity(count);
        for _ in 0..count {
            list.push(T::decode(source)?);
        }
        Ok(list)
    }
}

/// A structure: `number name: type = what it is if it is not sent`. `takes`: about what it takes as an element of a list, in bytes.
macro_rules! record {
    ($(#[$doc:meta])* $name:ident $(takes $len:ident)? { $($id:literal $field:ident: $type:ty = $default:expr,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub(crate) struct $name<'a> {
            $(pub(crate) $field: $type,)*
        }

        impl<'a> Decode<'a> for $name<'a> {
            $(const LEN: usize = $len;)?

            fn fits(kind: Kind) -> bool {
                kind == Kind::Struct
            }

            fn decode(source: &mut Source<'a>) -> Result<Self, Fault> {
                let mut record = $name { $($field: $default,)* };
                let mut last = 0;
                while let Some(field) = source.field(&mut last)? {
                    match field.id {
                        $($id if <$type>::fits(field.kind) => record.$field = <$type>::decode(source)?,)*
                        _ => source.skip(field.kind)?,
                    }
                }
                Ok(record)
            }
        }
    };
}

/// Calls: `name, variant, how many of its exceptions are declared, what it does with which argument of attributes, arguments`. HBase's
/// exceptions are IOError, IllegalArgument and AlreadyExists, in this order.
macro_rules! calls {
    ($(#[$doc:meta])* $($wire:literal $name:ident throws $throws:literal $($does:ident $attributes:literal)? { $($id:literal $field:ident: $type:ty = $default:expr,)* })*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub(crate) enum Call<'a> {
            $($name { $($field: $type,)* },)*
        }

        impl<'a> Call<'a> {
            /// The call of the method `name` with the arguments that follow in `source`. `None`: there is no such method. If the call
            /// must not be done as it is, `refused` becomes the reason.
            pub(crate) fn decode(
                name: &str,
                source: &mut Source<'a>,
                refused: &mut Option<Fail>,
            ) -> Result<Option<Call<'a>>, Fault> {
                Ok(Some(match name {
                    $($wire => {
                        $(let mut $field: $type = $default;)*
                        let mut last = 0;
                        while let Some(field) = source.field(&mut last)? {
                            match field.id {
                                $($id if <$type>::fits(field.kind) => $field = <$type>::decode(source)?,)*
                                $($attributes if field.kind == Kind::Map => {
                                    *refused = attributes::$does(source)?.or(refused.take());
                                })?
                                _ => {
                                    *refused = second::told_by(name, field).or(refused.take());
                                    source.skip(field.kind)?;
                                }
                            }
                        }
                        Call::$name { $($field,)* }
                    })*
                    _ => return Ok(None),
                }))
            }

            /// How many exceptions the method declares.
            pub(crate) fn throws(&self) -> u8 {
                match self {
                    $(Call::$name { .. } => $throws,)*
                }
            }
        }
    };
}
