//! Keys of several elements, ordered by the first, then by the second, and so on.
//!
//! ```text
//! ("a\0", 7u32)  ->  61 00 ff 00 00  00 00 00 07
//!                    └─ text ──────┘ └─ u32 ───┘
//! ```
//!
//! Numbers are encoded as by the functions of [`keys`](super). They have a fixed width and need no terminator. Text and
//! bytes may have any length: [`push_escaped`] writes them. The key of the first elements is a prefix of exactly those keys
//! that begin with these elements.
//!
//! The key does not record types: reader and writer must agree on them, as they agree on the contents of a tree.

use super::escape::{escaped_len, push_escaped, unescape};
use crate::error::{Error, Result};

/// The key of a tuple of one to eight elements: numbers, text, bytes.
///
/// ```
/// use esker::keys::tuple;
/// assert!(tuple(&("a", "b")) < tuple(&("a\0", "")));
/// assert!(tuple(&("a", -1i64)) < tuple(&("a", 3i64)));
/// assert!(tuple(&("ab", 1u32)) < tuple(&("b", 0u32)));
/// ```
pub fn tuple(elements: &impl ToTuple) -> Vec<u8> {
    let mut writer = TupleWriter::new();
    elements.write_to(&mut writer);
    writer.into_bytes()
}

/// The tuple that [`tuple()`] encoded. Text is read as `String`, bytes as `Vec<u8>`.
///
/// ```
/// use esker::keys::{decode_tuple, tuple};
/// let key = tuple(&("café", 7u64, -0.5));
/// let (name, id, score): (String, u64, f64) = decode_tuple(&key)?;
/// assert_eq!((name.as_str(), id, score), ("café", 7, -0.5));
/// # Ok::<(), esker::Error>(())
/// ```
pub fn decode_tuple<T: FromTuple>(key: &[u8]) -> Result<T> {
    let mut reader = TupleReader::new(key);
    let elements = T::read_from(&mut reader)?;
    reader.finish()?;
    Ok(elements)
}

/// Builds a key element by element, where [`tuple()`] does not fit (a varying number of elements).
///
/// ```
/// use esker::keys::{TupleWriter, tuple};
/// let mut writer = TupleWriter::new();
/// writer.text("a").u64(5);
/// assert_eq!(writer.as_bytes(), tuple(&("a", 5u64)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct TupleWriter {
    bytes: Vec<u8>,
}

impl TupleWriter {
    /// An empty key.
    pub fn new() -> Self {
        TupleWriter::default()
    }

    /// Appends a text.
    pub fn text(&mut self, value: &str) -> &mut Self {
        self.bytes(value.as_bytes())
    }

    /// Appends bytes.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.bytes.reserve(value.len() + 2);
        push_escaped(&mut self.bytes, value);
        self
    }

    /// The key so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The key.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Empties the key and keeps its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }
}

/// Decodes a key element by element.
///
/// ```
/// use esker::keys::{TupleReader, tuple};
/// let key = tuple(&("a", 5u64));
/// let mut reader = TupleReader::new(&key);
/// assert_eq!(reader.text()?, "a");
/// assert_eq!(reader.u64()?, 5);
/// reader.finish()?;
/// # Ok::<(), esker::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TupleReader<'a> {
    rest: &'a [u8],
}

impl<'a> TupleReader<'a> {
    /// Reads `key` from its first element on.
    pub fn new(key: &'a [u8]) -> Self {
        TupleReader { rest: key }
    }

    /// The next element, a text.
    pub fn text(&mut self) -> Result<String> {
        String::from_utf8(self.bytes()?).map_err(|_| Error::invalid("a text element of a key is not UTF-8"))
    }

    /// The next element, bytes.
    pub fn bytes(&mut self) -> Result<Vec<u8>> {
        let parts = escaped_len(self.rest).and_then(|(len, _)| self.rest.split_at_checked(len));
        let Some((escaped, rest)) = parts else {
            return Err(Error::invalid(
                "a text or bytes element of a key has no end, or a zero byte that is not escaped",
            ));
        };
        let mut value = Vec::new();
        unescape(escaped, &mut value);
        self.rest = rest;
        Ok(value)
    }

    /// Whether every element has been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// An error unless every element has been read.
    pub fn finish(&self) -> Result<()> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(Error::invalid(format!("a key has {left} bytes after its last element"))),
        }
    }

    fn fixed<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let Some((raw, rest)) = self.rest.split_first_chunk() else {
            let left = self.rest.len();
            return Err(Error::invalid(format!(
                "a key has {left} bytes left for an element of type {what}, which has {N}"
            )));
        };
        self.rest = rest;
        Ok(*raw)
    }
}

/// An element of a tuple that is encoded into a key.
pub trait WriteElement {
    /// Appends this element.
    fn write_element(&self, writer: &mut TupleWriter);
}

/// An element of a tuple that is decoded from a key.
pub trait ReadElement: Sized {
    /// Takes the next element.
    fn read_element(reader: &mut TupleReader<'_>) -> Result<Self>;
}

/// Tuples of one to eight elements that become keys.
pub trait ToTuple {
    /// Appends every element.
    fn write_to(&self, writer: &mut TupleWriter);
}

/// Tuples of one to eight elements that are read from keys.
pub trait FromTuple: Sized {
    /// Takes every element.
    fn read_from(reader: &mut TupleReader<'_>) -> Result<Self>;
}

macro_rules! numbers {
    ($($type:ident, $decode:ident, $described:literal;)*) => {$(
        impl TupleWriter {
            #[doc = concat!("Appends ", $described, ".")]
            pub fn $type(&mut self, value: $type) -> &mut Self {
                self.raw(&super::$type(value))
            }
        }

        impl TupleReader<'_> {
            #[doc = concat!("The next element, ", $described, ".")]
            pub fn $type(&mut self) -> Result<$type> {
                super::$decode(&self.fixed::<{ size_of::<$type>() }>(stringify!($type))?)
            }
        }

        impl WriteElement for $type {
            fn write_element(&self, writer: &mut TupleWriter) {
                writer.$type(*self);
            }
        }

        impl ReadElement for $type {
            fn read_element(reader: &mut TupleReader<'_>) -> Result<Self> {
                reader.$type()
            }
        }
    )*};
}

numbers! {
    u8, decode_u8, "an unsigned number of 8 bits";
    i8, decode_i8, "a signed number of 8 bits";
    u16, decode_u16, "an unsigned number of 16 bits";
    i16, decode_i16, "a signed number of 16 bits";
    u32, decode_u32, "an unsigned number of 32 bits";
    i32, decode_i32, "a signed number of 32 bits";
    u64, decode_u64, "an unsigned number of 64 bits";
    i64, decode_i64, "a signed number of 64 bits";
    u128, decode_u128, "an unsigned number of 128 bits";
    i128, decode_i128, "a signed number of 128 bits";
    f64, decode_f64, "a floating-point number";
}

macro_rules! written {
    ($($type:ty: $method:ident),*) => {$(
        impl WriteElement for $type {
            fn write_element(&self, writer: &mut TupleWriter) {
                writer.$method(self);
            }
        }
    )*};
}

written!(str: text, String: text, [u8]: bytes, Vec<u8>: bytes);

impl<const N: usize> WriteElement for [u8; N] {
    fn write_element(&self, writer: &mut TupleWriter) {
        writer.bytes(self);
    }
}

impl<T: WriteElement + ?Sized> WriteElement for &T {
    fn write_element(&self, writer: &mut TupleWriter) {
        (**self).write_element(writer);
    }
}

impl ReadElement for String {
    fn read_element(reader: &mut TupleReader<'_>) -> Result<Self> {
        reader.text()
    }
}

impl ReadElement for Vec<u8> {
    fn read_element(reader: &mut TupleReader<'_>) -> Result<Self> {
        reader.bytes()
    }
}

impl<const N: usize> ReadElement for [u8; N] {
    fn read_element(reader: &mut TupleReader<'_>) -> Result<Self> {
        super::exactly(&reader.bytes()?, "bytes")
    }
}

macro_rules! tuples {
    ($(($($element:ident $at:tt),+))*) => {$(
        impl<$($element: WriteElement),+> ToTuple for ($($element,)+) {
            fn write_to(&self, writer: &mut TupleWriter) {
                $(self.$at.write_element(writer);)+
            }
        }

        impl<$($element: ReadElement),+> FromTuple for ($($element,)+) {
            fn read_from(reader: &mut TupleReader<'_>) -> Result<Self> {
                Ok(($($element::read_element(reader)?,)+))
            }
        }
    )*};
}

tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
}
