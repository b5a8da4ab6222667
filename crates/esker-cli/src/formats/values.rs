//! JSON files: arrays of rows, or rows one after the other, read value by value.
//!
//! ```text
//! [ {"key": "a", "value": "1"}, ["b", "2"], ... ]        an object as JSON Lines has, or a pair
//! {"key": "a", "value": "1"} {"key": "b", "value": "2"}  the same without brackets
//! ```
//!
//! One row is in memory at a time, however long the array is.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::io::{self, BufReader, Read};
use std::rc::Rc;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::exit::Outcome;
use crate::json::{Chosen, Fields, Parsed};
use crate::lines::HOW_TO_TAKE_MORE;

/// How many bytes are read at once.
const PIECE: usize = 1 << 16;

/// Takes a parsed row, or why it is invalid. Its failure ends the reading.
pub(crate) type Take<'a> = &'a mut dyn FnMut(Result<Parsed, Cow<'static, str>>) -> Outcome;

/// Why the reading ended before the input did.
pub(crate) enum Ended {
    /// The input cannot be read, or is not JSON.
    Input(serde_json::Error),
    /// The consumer of the rows has failed.
    Taker(crate::exit::Failure),
}

/// Reads all rows of `input`, each of at most `row_max` bytes, and passes them to `take`.
pub(crate) fn read(input: impl Read, fields: &Fields, row_max: usize, take: Take<'_>) -> Result<(), Ended> {
    let left = Rc::new(Cell::new(row_max));
    let input = BufReader::with_capacity(PIECE, Bounded { input, left: Rc::clone(&left) });
    let mut json = serde_json::Deserializer::from_reader(input);
    let mut failure = None;
    while json.end().is_err() {
        let rows = &mut Rows { fields, left: &left, row_max, take: &mut *take, failure: &mut failure };
        let read = rows.deserialize(&mut json);
        if let Some(failure) = failure {
            return Err(Ended::Taker(failure));
        }
        read.map_err(Ended::Input)?;
    }
    Ok(())
}

/// Returns at most `left` bytes, which is set again when a row is complete.
struct Bounded<R> {
    input: R,
    left: Rc<Cell<usize>>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        let Some(left) = self.left.get().checked_sub(count) else {
            let message = format!("a row is longer than {HOW_TO_TAKE_MORE}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        };
        self.left.set(left);
        Ok(count)
    }
}

/// Reads a value of the top level: an array of rows, or a row.
struct Rows<'a, 'b> {
    fields: &'a Fields,
    left: &'a Cell<usize>,
    row_max: usize,
    take: &'a mut (dyn FnMut(Result<Parsed, Cow<'static, str>>) -> Outcome + 'b),
    failure: &'a mut Option<crate::exit::Failure>,
}

impl Rows<'_, '_> {
    /// Passes a row on. An error ends the reading; `failure` has the reason.
    fn row<E: Error>(&mut self, row: Result<Parsed, Cow<'static, str>>) -> Result<(), E> {
        self.left.set(self.row_max);
        (self.take)(row).map_err(|failure| {
            *self.failure = Some(failure);
            E::custom("stopped")
        })
    }
}

impl<'de> DeserializeSeed<'de> for &mut Rows<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Rows<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of rows or an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        while let Some(row) = rows.next_element::<Box<RawValue>>()? {
            self.row(self.fields.of(&row))?;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<(), A::Error> {
        let mut chosen = Chosen::of(self.fields);
        (&mut chosen).visit_map(members)?;
        // A table as one object of its columns, or with an object of all rows.
        let told = |why| format!("{why} (a file is an array of rows, or has one row after the other)").into();
        self.row(chosen.row().map_err(told))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::DataType;
    use crate::exit::Failure;

    type Typed = Vec<Result<(String, String), String>>;

    fn rows(text: &str, row_max: usize) -> (Typed, Option<String>) {
        let mut taken = Vec::new();
        let mut take = |row: Result<Parsed, Cow<'static, str>>| {
            let typed = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            let row = row.and_then(|(key, value, _)| {
                Ok((typed(key), typed(value.typed(DataType::Text)?.into_owned())))
            });
            taken.push(row.map_err(Cow::into_owned));
            Ok(())
        };
        let ended = match read(text.as_bytes(), &Fields::default(), row_max, &mut take) {
            Err(Ended::Input(error)) => Some(error.to_string()),
            Err(Ended::Taker(_)) => panic!("nothing was refused"),
            Ok(()) => None,
        };
        (taken, ended)
    }

    fn row(key: &str, value: &str) -> Result<(String, String), String> {
        Ok((key.to_owned(), value.to_owned()))
    }

    #[test]
    fn arrays_and_rows_one_after_the_other() {
        let objects = r#"{"key":"a","value":"1"}, {"value":1.50,"key":7}"#;
        for text in [format!("[{objects}]"), format!(" [\n{objects}\n]\n"), objects.replace("},", "}")] {
            assert_eq!(rows(&text, 1 << 20), (vec![row("a", "1"), row("7", "1.50")], None), "{text}");
        }
        assert_eq!(rows(r#"[["a","1"],["b",2]]"#, 1 << 20), (vec![row("a", "1"), row("b", "2")], None));
        for nothing in ["", " \n", "[]", "[] []"] {
            assert_eq!(rows(nothing, 1 << 20), (Vec::new(), None), "{nothing:?}");
        }
    }

    #[test]
    fn what_is_no_row_or_no_json_is_said() {
        let (taken, ended) = rows(r#"[["a"],{"key":"b"},7,["c",null],["d",{}],["e","f"]]"#, 1 << 20);
        assert_eq!(taken.iter().filter(|row| row.is_err()).count(), 5);
        assert_eq!((taken.last(), ended), (Some(&row("e", "f")), None));
        for (text, said) in [
            ("[[\"a\",1],", "EOF"),
            ("[[\"a\",1] 7]", "line 1"),
            ("7", "an array of rows"),
            ("\"a\"", "an array of rows"),
            ("[[\"a\",1]]\n]", "line 2"),
        ] {
            let (_, ended) = rows(text, 1 << 20);
            assert!(ended.as_ref().is_some_and(|error| error.contains(said)), "{text}: {ended:?}");
        }
        let deep = format!("[{}", "[".repeat(100_000));
        assert!(rows(&deep, 1 << 20).1.is_some());
    }

    #[test]
    fn a_row_without_an_end_is_not_read_for_ever() {
        let long = "x".repeat(3 << 20);
        let rows_of = |row_max| rows(&format!("[[\"a\",1],[\"b\",\"{long}\"],[\"c\",2]]"), row_max);
        assert_eq!(rows_of(4 << 20).0.len(), 3);
        let (taken, ended) = rows_of(2 << 20);
        assert_eq!(
            (taken, ended.is_some_and(|error| error.contains("a row is longer"))),
            (vec![row("a", "1")], true)
        );
        let many = format!("[{}[\"z\",1]]", "[\"a\",1],".repeat(1 << 19));
        assert_eq!(rows(&many, 1 << 20).0.len(), (1 << 19) + 1, "each row counts for itself");
    }

    #[test]
    fn who_takes_the_rows_may_stop() {
        let mut count = 0;
        let mut take = |_: Result<Parsed, Cow<'static, str>>| {
            count += 1;
            if count < 2 { Ok(()) } else { Err(Failure::usage("enough")) }
        };
        let ended = read(&b"[[1,1],[2,2],[3,3]]"[..], &Fields::default(), 1 << 20, &mut take);
        assert!(matches!(ended, Err(Ended::Taker(failure)) if failure.message() == Some("enough")));
        assert_eq!(count, 2);
    }
}
