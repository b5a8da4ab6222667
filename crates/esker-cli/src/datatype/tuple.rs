//! Keys of several elements, encoded by `esker::keys::tuple`: with `--keys text,u64`, a key is for example `berlin,42`.
//!
//! A comma separates two elements. Elements of text use the escapes of `escapes`; in addition a comma is `\x2c` and a
//! blank `\x20`. So a key is one word, also in command files. A type of one element is written with a comma behind it:
//! `text,`.

use std::fmt;

use esker::keys::{TupleReader, TupleWriter};

use super::fault::DataError;
use super::hex;
use super::number::Number;
use crate::escapes;

/// The maximum of the library's tuples.
const ELEMENTS_MAX: usize = 8;

/// The types of a key's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tuple {
    /// Only the first `count` count; the others are `Text` and unused.
    elements: [Element; ELEMENTS_MAX],
    count: usize,
}

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    Text,
    Hex,
    Number(Number),
}

impl Element {
    fn named(name: &str) -> Option<Self> {
        match name {
            "text" => Some(Element::Text),
            "hex" => Some(Element::Hex),
            name => Number::ALL.iter().find(|number| number.name() == name).copied().map(Element::Number),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Element::Text => "text",
            Element::Hex => "hex",
            Element::Number(number) => number.name(),
        }
    }

    /// Appends the stored bytes of the element `typed`.
    fn encode(self, typed: &[u8], out: &mut Vec<u8>) -> Result<(), DataError> {
        let mut bytes = Vec::new();
        match self {
            Element::Number(number) => return number.encode(typed, out),
            Element::Text => escapes::decode(typed, &mut bytes)?,
            Element::Hex => hex::decode(typed, &mut bytes)?,
        }
        let mut writer = TupleWriter::new();
        writer.bytes(&bytes);
        out.extend_from_slice(writer.as_bytes());
        Ok(())
    }

    /// Appends the printed form of the next element of `reader`.
    fn print(self, reader: &mut TupleReader<'_>, out: &mut Vec<u8>) -> esker::Result<()> {
        match self {
            // Bytes that are not UTF-8 become escapes, so that every element can be printed.
            Element::Text => escapes::append_word(out, &reader.bytes()?, b","),
            Element::Hex => hex::append(&reader.bytes()?, out),
            Element::Number(number) => number.print_element(reader, out)?,
        }
        Ok(())
    }
}

impl Tuple {
    /// The type of that name: the names of the elements' types, with commas between them.
    pub(super) fn named(name: &str) -> Option<Self> {
        if !name.contains(',') {
            return None;
        }
        let mut tuple = Tuple { elements: [Element::Text; ELEMENTS_MAX], count: 0 };
        for name in name.strip_suffix(',').unwrap_or(name).split(',') {
            *tuple.elements.get_mut(tuple.count)? = Element::named(name)?;
            tuple.count += 1;
        }
        Some(tuple)
    }

    fn elements(&self) -> &[Element] {
        self.elements.get(..self.count).unwrap_or_default()
    }

    /// Appends the stored bytes of the key `typed`. With `some`, its last elements may be missing.
    pub(super) fn encode(&self, typed: &[u8], some: bool, out: &mut Vec<u8>) -> Result<(), DataError> {
        let found = typed.iter().filter(|byte| **byte == b',').count() + 1;
        if found > self.count || (found < self.count && !some) {
            return Err(DataError::Elements(found, self.count));
        }
        for (i, (typed, element)) in typed.split(|byte| *byte == b',').zip(self.elements()).enumerate() {
            let encoded = element.encode(typed, out);
            encoded.map_err(|error| DataError::Element(i + 1, Box::new(error)))?;
        }
        Ok(())
    }

    /// Appends the canonical printed form of the stored `key`.
    pub(super) fn print(&self, key: &[u8], out: &mut Vec<u8>) -> esker::Result<()> {
        let mut reader = TupleReader::new(key);
        for (i, element) in self.elements().iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            element.print(&mut reader, out)?;
        }
        reader.finish()
    }
}

impl fmt::Display for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.elements().iter().map(|element| element.name()).collect();
        write!(f, "{}{}", names.join(","), if self.count == 1 { "," } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::keys;

    fn typed(tuple: &str, typed: &str) -> Result<Vec<u8>, DataError> {
        let mut out = Vec::new();
        Tuple::named(tuple).unwrap().encode(typed.as_bytes(), false, &mut out).map(|()| out)
    }

    fn printed(tuple: &str, key: &[u8]) -> Option<String> {
        let mut out = Vec::new();
        Tuple::named(tuple).unwrap().print(key, &mut out).ok()?;
        Some(String::from_utf8(out).unwrap())
    }

    #[test]
    fn types_are_named_by_their_elements() {
        for name in ["text,u64", "text,", "hex,i32,u32,i64,f64,text,text,u64"] {
            assert_eq!(Tuple::named(name).unwrap().to_string(), name);
        }
        for name in [
            "text",
            "",
            ",",
            "text,,",
            "text,u24",
            "text, u64",
            ",text",
            "u64,u64,u64,u64,u64,u64,u64,u64,u64",
        ] {
            assert_eq!(Tuple::named(name), None, "{name:?}");
        }
    }

    #[test]
    fn keys_are_those_of_the_library_and_come_back() {
        let of = "text,u64,f64,hex,i32";
        let key = keys::tuple(&("New York, \0", 7u64, -0.5, vec![0u8, 255], -3i32));
        assert_eq!(typed(of, r"New York\x2c \x00,007,-5e-1,00FF,-3"), Ok(key.clone()));
        assert_eq!(printed(of, &key).as_deref(), Some(r"New\x20York\x2c\x20\x00,7,-0.5,00ff,-3"));
        assert_eq!(typed("text,text", ","), Ok(keys::tuple(&("", ""))));
        assert_eq!(printed("text,", &keys::tuple(&(vec![0xffu8],))).as_deref(), Some(r"\xff"));
        for other in ["text,u64", "text,u64,f64,hex,i32,u32", "u64,"] {
            assert_eq!(printed(other, &key), None, "{other}");
        }
    }

    #[test]
    fn what_is_no_key_is_named() {
        assert_eq!(typed("text,u64", "a"), Err(DataError::Elements(1, 2)));
        assert_eq!(typed("text,u64", "a,1,2"), Err(DataError::Elements(3, 2)));
        let inner = |error| match error {
            Err(DataError::Element(number, inner)) => (number, *inner),
            other => panic!("{other:?}"),
        };
        assert_eq!(inner(typed("text,u64", "a,b")), (2, DataError::NotANumber));
        assert_eq!(inner(typed("text,u64", "a,")), (2, DataError::NotANumber));
        assert_eq!(inner(typed("hex,u64", "abc,1")), (1, DataError::OddHex));
        assert!(matches!(inner(typed("text,u64", "\\q,1")), (1, DataError::Escape(_))));
    }

    #[test]
    fn the_first_elements_are_a_prefix() {
        let mut prefix = Vec::new();
        Tuple::named("text,u64").unwrap().encode(b"a", true, &mut prefix).unwrap();
        assert!(keys::tuple(&("a", 5u64)).starts_with(&prefix));
        assert!(!keys::tuple(&("ab", 5u64)).starts_with(&prefix));
    }
}
