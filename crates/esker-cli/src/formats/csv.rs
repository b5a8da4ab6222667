//! CSV (RFC 4180), line by line. A row spans several lines if there is a line break in quotes.
//!
//! What readers of CSV disagree about is refused, since a wrong guess would store something else than is meant:
//!
//! | input | some read | others read |
//! |---|---|---|
//! | `"3.5" disk"` | `3.5 disk"` | `3.5" disk` |
//! | `a, "b"` | ` "b"` | `b` |
//! | a quote that is not closed | the rest of the file | nothing |
//! | a carriage return within a line | a part of the field | the end of the row |
//!
//! A quote within a field that has no quotes around it is a part of it (`5" pipe`), as for all readers.

use std::borrow::Cow;

use super::fields::Fields;

const UNCLOSED: &str = "a quote is not closed before the end of the input";
pub(super) const STRAY_RETURN: &str = "a carriage return is outside quotes and not at the end of a line";
const STRAY_QUOTE: &str = "a field goes on after its closing quote: within quotes, write a quote twice";
const LATE_QUOTE: &str = "a quote follows a blank at the start of a field: it may open the field, or be a part of it. \
                          Remove the blank, or write the field in quotes and each quote in it twice";
const OTHER_SEPARATOR: &str = "the first line names another separator than --separator";

/// Takes lines with their ends and returns rows.
pub(super) struct Csv {
    /// `None` if the user has not named it: then it is a comma, unless the first line names it (`sep=;`, as Excel writes).
    separator: Option<u8>,
    fields: Fields,
    is_in_quotes: bool,
    /// Whether a line was read.
    has_begun: bool,
    /// How many lines of the row came before the current one.
    lines: u64,
}

impl Csv {
    pub(super) fn new(separator: Option<u8>) -> Self {
        Csv { separator, fields: Fields::default(), is_in_quotes: false, has_begun: false, lines: 0 }
    }

    /// The separator that the user or the first line names.
    pub(super) fn separator(&self) -> Option<u8> {
        self.separator
    }

    /// Takes a line with its end, if it has one. Returns whether a row is complete.
    pub(super) fn line(&mut self, line: &[u8]) -> Result<bool, Cow<'static, str>> {
        if self.is_in_quotes {
            self.lines += 1;
        } else {
            self.lines = 0;
            self.fields.clear();
            // A blank line is not a row.
            if is_end(line) {
                return Ok(false);
            }
        }
        if !std::mem::replace(&mut self.has_begun, true)
            && let Some([named, end @ ..]) = line.strip_prefix(b"sep=")
            && *named != b'"'
            && is_end(end)
        {
            return match self.separator.replace(*named) {
                Some(other) if other != *named => Err(OTHER_SEPARATOR.into()),
                _ => Ok(false),
            };
        }
        let read = self.read(line);
        if read.is_err() {
            self.is_in_quotes = false;
        }
        read.map_err(Cow::Borrowed)
    }

    fn read(&mut self, mut rest: &[u8]) -> Result<bool, &'static str> {
        loop {
            if !self.is_in_quotes
                && let Some(quoted) = rest.strip_prefix(b"\"")
            {
                (self.is_in_quotes, rest) = (true, quoted);
            }
            rest = if self.is_in_quotes {
                match self.quoted(rest) {
                    Some(rest) => rest,
                    None => return Ok(false),
                }
            } else {
                self.plain(rest)?
            };
            self.fields.end_field();
            match rest.split_first() {
                _ if is_end(rest) => return Ok(true),
                Some((first, after)) if *first == self.separator.unwrap_or(b',') => rest = after,
                Some((b'\r', _)) => return Err(STRAY_RETURN),
                _ => return Err(STRAY_QUOTE),
            }
        }
    }

    /// Takes the rest of a field in quotes. Returns what follows it; `None` if it goes on in the next line.
    fn quoted<'a>(&mut self, mut rest: &'a [u8]) -> Option<&'a [u8]> {
        loop {
            let Some(quote) = memchr::memchr(b'"', rest) else {
                self.fields.add(rest);
                return None;
            };
            self.fields.add(&rest[..quote]);
            rest = &rest[quote + 1..];
            let Some(after) = rest.strip_prefix(b"\"") else {
                self.is_in_quotes = false;
                return Some(rest);
            };
            self.fields.add(b"\"");
            rest = after;
        }
    }

    /// Takes a field without quotes around it. Returns what follows it.
    fn plain<'a>(&mut self, rest: &'a [u8]) -> Result<&'a [u8], &'static str> {
        let end = memchr::memchr3(self.separator.unwrap_or(b','), b'\n', b'\r', rest).unwrap_or(rest.len());
        let (field, rest) = rest.split_at(end);
        if field.first().is_some_and(|byte| b" \t".contains(byte))
            && field.trim_ascii_start().starts_with(b"\"")
        {
            return Err(LATE_QUOTE);
        }
        self.fields.add(field);
        Ok(rest)
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
        if self.is_in_quotes { Err(UNCLOSED.into()) } else { Ok(()) }
    }
}

/// Whether `rest` is the end of a line. Only the last line of the input may lack its line feed.
fn is_end(rest: &[u8]) -> bool {
    matches!(rest, b"" | b"\n" | b"\r\n" | b"\r")
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
        let mut csv = Csv::new(None);
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
        are("\"\"\n", &[(1, &[""])]);
        are("a,b\r", &[(1, &["a", "b"])]);
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
        for text in ["a,1\rb,2\r\n", "a,\"1\"\rb,2\n", "a,1\r\r\n"] {
            assert_eq!(rows(text), Err((1, STRAY_RETURN.to_owned())), "{text:?}");
        }
        for text in ["a,\"3.5\" disk\"\n", "a,\"b\"c\n", "\"a\" ,b\n", "a,\"b\nc\"d\n", "a,\"\"b\"\"\n"] {
            assert_eq!(rows(text), Err((1, STRAY_QUOTE.to_owned())), "{text:?}");
        }
        for text in ["a, \"b\"\n", " \"a\",b\n", "a,\t\"b,c\"\n"] {
            assert_eq!(rows(text), Err((1, LATE_QUOTE.to_owned())), "{text:?}");
        }
    }

    #[test]
    fn the_first_line_may_name_the_separator() {
        are("sep=;\r\na;b,c\n", &[(2, &["a", "b,c"])]);
        are("sep=\t\na\tb\nsep=;\tc\n", &[(2, &["a", "b"]), (3, &["sep=;", "c"])]);
        are("sep=;;\n", &[(1, &["sep=;;"])]);
        for (named, is_taken) in [(b';', true), (b',', false)] {
            let mut csv = Csv::new(Some(named));
            assert_eq!(csv.line(b"sep=;\n").is_ok(), is_taken);
        }
    }

    #[test]
    fn a_refused_row_does_not_change_the_next_one() {
        let mut csv = Csv::new(Some(b';'));
        for (line, is_row) in
            [("a;\"b\nc\"d;\"\n", None), ("e;f,g\n", Some(["e", "f,g"])), ("\"h\"i\n", None)]
        {
            let mut last = Ok(false);
            for line in line.split_inclusive('\n') {
                last = csv.line(line.as_bytes());
            }
            match is_row {
                Some(fields) => {
                    assert_eq!(last, Ok(true));
                    assert!(csv.fields().iter().eq(fields.map(str::as_bytes)));
                }
                None => assert!(last.is_err()),
            }
            assert_eq!(csv.end(), Ok(()));
        }
    }

    #[test]
    fn fields_come_back() {
        for field in [
            "", "a", " a", "a ", "\t", "a,b", "\"", "\"\"", "a\"b", " \"", "\n", "\r", "\r\n", "é\0",
            "\u{feff}",
        ] {
            let mut out = b"x,".to_vec();
            append(&mut out, field.as_bytes());
            for end in ["\n", "\r\n", ""] {
                are(&format!("{}{end}", String::from_utf8_lossy(&out)), &[(1, &["x", field])]);
            }
        }
    }
}
