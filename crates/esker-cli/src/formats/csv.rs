//! CSV (RFC 4180), line by line. A row spans several lines if there is a line break in quotes.
//!
//! `csv-core` does the reading. It takes two liberties that are refused here: it accepts a missing closing quote at the
//! end of the last row, and a carriage return in the middle of a line as the end of a row. Both are errors.

use std::borrow::Cow;

use csv_core::{ReadRecordResult, Reader};

use super::fields::Fields;

const UNCLOSED: &str = "a quote is not closed before the end of the input";
const STRAY_RETURN: &str = "a carriage return stands outside quotes and does not end a line";

/// Takes lines with their ends and returns rows.
pub(super) struct Csv {
    reader: Reader,
    /// The fields of the row so far.
    bytes: usize,
    fields: Fields,
    /// How many lines of the row came before the current one.
    lines: u64,
    /// Whether the row is complete: the next line begins another.
    done: bool,
}

impl Csv {
    pub(super) fn new() -> Self {
        let mut fields = Fields::default();
        fields.bytes.resize(1 << 12, 0);
        fields.ends.resize(16, 0);
        Csv { reader: Reader::new(), bytes: 0, fields, lines: 0, done: true }
    }

    /// Takes a line with its end, if it has one. Returns whether a row is complete.
    pub(super) fn line(&mut self, line: &[u8]) -> Result<bool, Cow<'static, str>> {
        if self.done {
            self.done = false;
            (self.bytes, self.lines) = (0, 0);
            self.fields.clear();
        } else {
            self.lines += 1;
        }
        // The last line may lack its end. Inside of quotes, the row does not end all the same.
        let complete = self.push(line)? || (!line.ends_with(b"\n") && self.push(b"\n")?);
        // A blank line begins no row.
        self.done = complete || (self.bytes == 0 && self.fields.count == 0);
        Ok(complete)
    }

    /// The fields of the complete row.
    pub(super) fn fields(&self) -> &Fields {
        &self.fields
    }

    /// How many lines of the row come before the last one.
    pub(super) fn held(&self) -> u64 {
        self.lines
    }

    /// Called at the end of the input.
    pub(super) fn end(&self) -> Result<(), Cow<'static, str>> {
        if self.done { Ok(()) } else { Err(UNCLOSED.into()) }
    }

    fn push(&mut self, mut input: &[u8]) -> Result<bool, Cow<'static, str>> {
        while !input.is_empty() {
            let Fields { bytes, ends, count } = &mut self.fields;
            let (result, read, written, ended) =
                self.reader.read_record(input, &mut bytes[self.bytes..], &mut ends[*count..]);
            input = &input[read..];
            self.bytes += written;
            *count += ended;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => bytes.resize(bytes.len() * 2, 0),
                ReadRecordResult::OutputEndsFull => ends.resize(ends.len() * 2, 0),
                ReadRecordResult::Record | ReadRecordResult::End => return self.rest(input),
            }
        }
        Ok(false)
    }

    /// Checks what follows a row on its last line: nothing, or a line feed after a carriage return.
    fn rest(&mut self, input: &[u8]) -> Result<bool, Cow<'static, str>> {
        match input {
            [] => Ok(true),
            b"\n" => {
                let _ = self.reader.read_record(input, &mut [0; 1], &mut [0; 1]);
                Ok(true)
            }
            _ => {
                self.done = true;
                Err(STRAY_RETURN.into())
            }
        }
    }
}

/// Appends `field`, in quotes if needed. CSV does not need them around blanks at either end, but programs that read CSV
/// do.
pub(crate) fn append(out: &mut Vec<u8>, field: &[u8]) {
    let special = |byte: &u8| matches!(byte, b'"' | b',' | b'\r' | b'\n');
    let at_ends = [field.first(), field.last()].into_iter().flatten().any(u8::is_ascii_whitespace);
    if !at_ends && !field.iter().any(special) {
        out.extend_from_slice(field);
        return;
    }
    out.push(b'"');
    for part in field.split_inclusive(|byte| *byte == b'"') {
        out.extend_from_slice(part);
        if part.ends_with(b"\"") {
            out.push(b'"');
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rows = Vec<(u64, Vec<String>)>;

    /// The rows of `text`, each with the number of its first line; or what is wrong in which line.
    fn rows(text: &str) -> Result<Rows, (u64, String)> {
        let mut csv = Csv::new();
        let (mut rows, mut number) = (Vec::new(), 0);
        for line in text.split_inclusive('\n') {
            number += 1;
            match csv.line(line.as_bytes()) {
                Ok(true) => {
                    let fields = csv.fields().iter().map(|f| String::from_utf8_lossy(f).into_owned());
                    rows.push((number - csv.held(), fields.collect()));
                }
                Ok(false) => {}
                Err(reason) => return Err((number - csv.held(), reason.into_owned())),
            }
        }
        csv.end().map_err(|reason| (number - csv.held(), reason.into_owned()))?;
        Ok(rows)
    }

    #[track_caller]
    fn are(text: &str, expected: &[(u64, &[&str])]) {
        let expected = expected
            .iter()
            .map(|(line, fields)| (*line, fields.iter().map(ToString::to_string).collect::<Vec<_>>()));
        assert_eq!(rows(text), Ok(expected.collect()), "{text:?}");
    }

    #[test]
    fn rows_and_the_lines_they_begin_on() {
        are("", &[]);
        are("\n\r\n\n", &[]);
        are("a,b\nc,d", &[(1, &["a", "b"]), (2, &["c", "d"])]);
        are("a,b\r\nc,d\r\n", &[(1, &["a", "b"]), (2, &["c", "d"])]);
        are("a,b\n\n\r\nc,d\n", &[(1, &["a", "b"]), (4, &["c", "d"])]);
        are("a,\"b\nb\r\nb\"\nc,d", &[(1, &["a", "b\nb\r\nb"]), (4, &["c", "d"])]);
        are("\"\n\",\"\"\"\"\r\n,\n", &[(1, &["\n", "\""]), (3, &["", ""])]);
        are("a,\"b\"", &[(1, &["a", "b"])]);
        are("a,5\" pipe\nb,c\n", &[(1, &["a", "5\" pipe"]), (2, &["b", "c"])]);
        are("\u{feff}a,b\n\u{feff}c,d\n", &[(1, &["a", "b"]), (2, &["\u{feff}c", "d"])]);
    }

    #[test]
    fn long_and_wide_rows() {
        let long = "x\"\n".repeat(10_000);
        let quoted = format!("a,\"{}\"\nb,c\n", long.replace('"', "\"\""));
        are(&quoted, &[(1, &["a", &long]), (10_002, &["b", "c"])]);
        let wide = ["y"; 1_000];
        are(&format!("{}\nb\n", wide.join(",")), &[(1, &wide), (2, &["b"])]);
    }

    #[test]
    fn what_is_not_closed_or_stray_is_refused() {
        for text in ["a,\"b", "a,\"b\n", "\"", "a,b\nc,\"\nd\ne\n"] {
            let (line, reason) = rows(text).unwrap_err();
            assert_eq!(
                (line, reason.as_str()),
                (1 + u64::from(text.starts_with("a,b")), UNCLOSED),
                "{text:?}"
            );
        }
        assert_eq!(rows("a,1\rb,2\r\n"), Err((1, STRAY_RETURN.to_owned())));
    }

    #[test]
    fn fields_come_back() {
        for field in
            ["", "a", " a", "a ", "\t", "a,b", "\"", "\"\"", "a\"b", "\n", "\r", "\r\n", "é\0", "\u{feff}"]
        {
            let mut out = b"x,".to_vec();
            append(&mut out, field.as_bytes());
            for end in ["\n", "\r\n", ""] {
                are(&format!("{}{end}", String::from_utf8_lossy(&out)), &[(1, &["x", field])]);
            }
        }
    }
}
