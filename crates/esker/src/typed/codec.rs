//! How types become bytes: keys by the encodings of [`keys`], which keep their order; values by any.

use std::borrow::Borrow;

use crate::error::{Error, Result};
use crate::keys::{self, ReadElement, TupleWriter, WriteElement};

/// The names that tags have for types. The command line knows the same ones.
pub(super) const NAMES: [&str; 13] =
    ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "u128", "i128", "f64", "text", "hex"];

/// How the keys of a [`TypedTree`](crate::TypedTree) become bytes. Numbers, `String`, `Vec<u8>`, `[u8; N]` and tuples of
/// one to eight of these are codecs of themselves; [`keys`](crate::keys) describes their bytes.
///
/// # Example
/// ```
/// use esker::{Error, ErrorKind, KeyCodec, Result, keys};
///
/// /// The days since 1970.
/// #[derive(Debug, PartialEq)]
/// struct Day(u32);
///
/// impl KeyCodec for Day {
///     type Key = Day;
///     type Ref<'a> = &'a Day;
///
///     fn encoded<T>(day: &Day, use_bytes: impl FnOnce(&[u8]) -> T) -> T {
///         use_bytes(&keys::u32(day.0))
///     }
///
///     fn decode(bytes: &[u8]) -> Result<Day> {
///         keys::decode_u32(bytes).map(Day)
///     }
/// }
///
/// # fn main() -> Result<()> {
/// # let db = esker::Db::open_in_memory(esker::Options::default())?;
/// let events = db.open_typed::<Day, String>("events")?;
/// events.put(&Day(20_780), "began")?;
/// assert_eq!(events.first()?, Some((Day(20_780), "began".to_owned())));
/// # Ok(())
/// # }
/// ```
pub trait KeyCodec {
    /// A key as reads return it.
    type Key;

    /// A key as calls take it.
    type Ref<'a>: Copy;

    /// Calls `use_bytes` with the bytes of `key`. They must sort as the keys do, and no two keys may have the same ones.
    fn encoded<T>(key: Self::Ref<'_>, use_bytes: impl FnOnce(&[u8]) -> T) -> T;

    /// The key whose bytes are `bytes`.
    ///
    /// # Errors
    /// The reason why the bytes are not a key.
    fn decode(bytes: &[u8]) -> Result<Self::Key>;

    /// The name of the type in a tree's tag ([`Tree::tag`](crate::Tree::tag)), by which the command line shows keys.
    /// With `None`, the default, the tree gets no tag.
    fn type_name() -> Option<String> {
        None
    }
}

/// How the values of a [`TypedTree`](crate::TypedTree) become bytes. Numbers, `bool`, `String`, `Vec<u8>`, `[u8; N]`
/// and `()` are codecs of themselves; for all other types use `Serde` (feature `serde`), or an own codec. A number has
/// the bytes that [`keys`](crate::keys) gives it, so that an `i64` is a counter for [`Tree::add`](crate::Tree::add).
/// The bytes of a `String` and a `Vec<u8>` are stored unchanged.
pub trait ValueCodec {
    /// A value as reads return it.
    type Value: Borrow<Self::Ref>;

    /// The type to which writes take a reference.
    type Ref: ?Sized;

    /// The name of the type in a tree's tag: see [`KeyCodec::type_name`]. By default `hex`, for any bytes.
    const TYPE_NAME: &'static str = "hex";

    /// Calls `use_bytes` with the bytes of `value`.
    ///
    /// # Errors
    /// The reason why the value cannot be encoded.
    fn encoded<T>(value: &Self::Ref, use_bytes: impl FnOnce(&[u8]) -> T) -> Result<T>;

    /// The value whose bytes are `bytes`.
    ///
    /// # Errors
    /// The reason why the bytes are not a value.
    fn decode(bytes: &[u8]) -> Result<Self::Value>;
}

/// The types that may be elements of a tuple that is a key: numbers, `String`, `Vec<u8>`, `[u8; N]`.
pub trait KeyElement: ReadElement {
    /// The element as calls take it.
    type Ref<'a>: WriteElement + Copy;

    /// The name of the type in a tree's tag: see [`KeyCodec::type_name`].
    const TYPE_NAME: &'static str;
}

/// The prefixes that [`TypedTree::prefix`](crate::TypedTree::prefix) takes for keys of the codec `K`: fewer elements of
/// a tuple (of one element: `("fr",)`), or the beginning of a text or of bytes.
pub trait KeyPrefix<K> {
    /// The bytes with which exactly the keys begin that have this prefix.
    fn to_bytes(self) -> Vec<u8>;
}

macro_rules! numbers {
    ($($type:ident $decode:ident,)*) => {$(
        impl KeyCodec for $type {
            type Key = $type;
            type Ref<'a> = $type;

            #[inline]
            fn encoded<T>(key: $type, use_bytes: impl FnOnce(&[u8]) -> T) -> T {
                use_bytes(&keys::$type(key))
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Result<$type> {
                keys::$decode(bytes)
            }

            fn type_name() -> Option<String> {
                Some(stringify!($type).to_owned())
            }
        }

        impl ValueCodec for $type {
            type Value = $type;
            type Ref = $type;

            const TYPE_NAME: &'static str = stringify!($type);

            #[inline]
            fn encoded<T>(value: &$type, use_bytes: impl FnOnce(&[u8]) -> T) -> Result<T> {
                Ok(use_bytes(&keys::$type(*value)))
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Result<$type> {
                keys::$decode(bytes)
            }
        }

        impl KeyElement for $type {
            type Ref<'a> = $type;

            const TYPE_NAME: &'static str = stringify!($type);
        }
    )*};
}

numbers! {
    u8 decode_u8, i8 decode_i8, u16 decode_u16, i16 decode_i16, u32 decode_u32, i32 decode_i32, u64 decode_u64,
    i64 decode_i64, u128 decode_u128, i128 decode_i128, f64 decode_f64,
}

impl<const N: usize> KeyCodec for [u8; N] {
    type Key = [u8; N];
    type Ref<'a> = &'a [u8; N];

    fn encoded<T>(key: &[u8; N], use_bytes: impl FnOnce(&[u8]) -> T) -> T {
        use_bytes(key)
    }

    fn decode(bytes: &[u8]) -> Result<[u8; N]> {
        array(bytes)
    }

    fn type_name() -> Option<String> {
        Some("hex".to_owned())
    }
}

impl<const N: usize> ValueCodec for [u8; N] {
    type Value = [u8; N];
    type Ref = [u8; N];

    fn encoded<T>(value: &[u8; N], use_bytes: impl FnOnce(&[u8]) -> T) -> Result<T> {
        Ok(use_bytes(value))
    }

    fn decode(bytes: &[u8]) -> Result<[u8; N]> {
        array(bytes)
    }
}

impl<const N: usize> KeyElement for [u8; N] {
    type Ref<'a> = &'a [u8; N];

    const TYPE_NAME: &'static str = "hex";
}

fn array<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| Error::invalid(format!("expected {N} bytes, found {}", bytes.len())))
}

/// One byte, 0 or 1.
impl ValueCodec for bool {
    type Value = bool;
    type Ref = bool;

    fn encoded<T>(value: &bool, use_bytes: impl FnOnce(&[u8]) -> T) -> Result<T> {
        Ok(use_bytes(&[u8::from(*value)]))
    }

    fn decode(bytes: &[u8]) -> Result<bool> {
        match bytes {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(Error::invalid("expected one byte, 0 or 1")),
        }
    }
}

/// Types whose bytes are stored unchanged.
macro_rules! strings {
    ($($owned:ty, $borrowed:ty, $name:literal, $decode:expr;)*) => {$(
        impl KeyCodec for $owned {
            type Key = $owned;
            type Ref<'a> = &'a $borrowed;

            #[inline]
            fn encoded<T>(key: &$borrowed, use_bytes: impl FnOnce(&[u8]) -> T) -> T {
                use_bytes(key.as_ref())
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Result<$owned> {
                $decode(bytes)
            }

            fn type_name() -> Option<String> {
                Some($name.to_owned())
            }
        }

        impl ValueCodec for $owned {
            type Value = $owned;
            type Ref = $borrowed;

            const TYPE_NAME: &'static str = $name;

            #[inline]
            fn encoded<T>(value: &$borrowed, use_bytes: impl FnOnce(&[u8]) -> T) -> Result<T> {
                Ok(use_bytes(value.as_ref()))
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Result<$owned> {
                $decode(bytes)
            }
        }

        impl KeyElement for $owned {
            type Ref<'a> = &'a $borrowed;

            const TYPE_NAME: &'static str = $name;
        }

        impl KeyPrefix<$owned> for &$borrowed {
            fn to_bytes(self) -> Vec<u8> {
                self.to_owned().into()
            }
        }
    )*};
}

strings! {
    String, str, "text", |bytes| keys::decode_text(bytes).map(str::to_owned);
    Vec<u8>, [u8], "hex", |bytes: &[u8]| Ok(bytes.to_vec());
}

impl ValueCodec for () {
    type Value = ();
    type Ref = ();

    const TYPE_NAME: &'static str = "text";

    fn encoded<T>(_: &(), use_bytes: impl FnOnce(&[u8]) -> T) -> Result<T> {
        Ok(use_bytes(&[]))
    }

    fn decode(bytes: &[u8]) -> Result<()> {
        match bytes.len() {
            0 => Ok(()),
            len => Err(Error::invalid(format!("expected no bytes, found {len}"))),
        }
    }
}

macro_rules! tuples {
    ($(($($element:ident)+))*) => {$(
        impl<$($element: KeyElement),+> KeyCodec for ($($element,)+) {
            type Key = ($($element,)+);
            type Ref<'a> = ($($element::Ref<'a>,)+);

            fn encoded<T>(key: Self::Ref<'_>, use_bytes: impl FnOnce(&[u8]) -> T) -> T {
                use_bytes(&keys::tuple(&key))
            }

            fn decode(bytes: &[u8]) -> Result<Self> {
                keys::decode_tuple(bytes)
            }

            fn type_name() -> Option<String> {
                let names = [$($element::TYPE_NAME),+];
                // As the command line names them: a comma ends a tuple of one element.
                Some(if names.len() == 1 { format!("{},", names[0]) } else { names.join(",") })
            }
        }
    )*};
}

tuples! { (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) (A B C D E F G H) }

/// Prefixes of tuples: the elements before the semicolon, of the tuple of all.
macro_rules! prefixes {
    ($(($($element:ident)+; $($rest:ident)+))*) => {$(
        impl<'a, $($element: KeyElement,)+ $($rest: KeyElement),+> KeyPrefix<($($element,)+ $($rest,)+)>
            for ($($element::Ref<'a>,)+)
        {
            fn to_bytes(self) -> Vec<u8> {
                let mut writer = TupleWriter::new();
                keys::ToTuple::write_to(&self, &mut writer);
                writer.into_bytes()
            }
        }
    )*};
}

prefixes! {
    (A; B)
    (A; B C) (A B; C)
    (A; B C D) (A B; C D) (A B C; D)
    (A; B C D E) (A B; C D E) (A B C; D E) (A B C D; E)
    (A; B C D E F) (A B; C D E F) (A B C; D E F) (A B C D; E F) (A B C D E; F)
    (A; B C D E F G) (A B; C D E F G) (A B C; D E F G) (A B C D; E F G) (A B C D E; F G) (A B C D E F; G)
    (A; B C D E F G H) (A B; C D E F G H) (A B C; D E F G H) (A B C D; E F G H) (A B C D E; F G H)
    (A B C D E F; G H) (A B C D E F G; H)
}
