//! Cells in one of the formats.

use std::borrow::Cow;
use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use esker_ql::{Cells, SelectOptions, TimeUnit, is_ambiguous};
use esker_table::DeleteKind;

use super::failure::failure;
use crate::args::QlFormat;
use crate::escapes;
use crate::exit::{Failure, Outcome};
use crate::formats::{csv, tsv};
use crate::json;
use crate::output::{Out, whole_characters};

/// How many cells, or bytes of them, decide how wide the columns of a table are, and the widest that they get.
const MEASURED: usize = 1000;
const MEASURED_BYTES: usize = 4 << 20;
const WIDTH_MAX: usize = 40;

/// How many bytes of a long value are read at once.
const PIECE: usize = 1 << 20;

/// What is shown of cells.
pub(super) struct Shown {
    has_timestamps: bool,
    has_values: bool,
    is_escaped: bool,
    is_for_file: bool,
    /// Whether there are deletes among the cells.
    has_deletes: bool,
    /// Whether the value of a counter is shown as a number.
    has_numbers: bool,
    /// What is between the fields of tab-separated lines.
    separator: u8,
}

impl Shown {
    /// Everything, as it is, with tabs or another separator between the fields.
    pub(super) fn whole(separator: Option<u8>) -> Shown {
        Shown {
            has_timestamps: true,
            has_values: true,
            is_escaped: true,
            is_for_file: true,
            has_deletes: false,
            has_numbers: false,
            separator: separator.unwrap_or(b'\t'),
        }
    }

    /// What a query with these options shows.
    pub(super) fn of(options: &SelectOptions) -> Shown {
        Shown {
            // The versions of a column cannot be told apart in a file without them.
            has_timestamps: options.display_timestamps || options.into_file.is_some(),
            has_values: !options.keys_only,
            is_escaped: !options.no_escape,
            is_for_file: options.into_file.is_some(),
            has_deletes: options.return_deletes,
            // A file has the bytes, which can be loaded again.
            has_numbers: options.into_file.is_none(),
            separator: options.separator.unwrap_or(b'\t'),
        }
    }

    /// Appends a field of a tab-separated line.
    fn append(&self, out: &mut Vec<u8>, field: &[u8]) {
        match (self.is_escaped, self.separator) {
            (false, _) => out.extend_from_slice(field),
            (true, b'\t') => tsv::append(out, field),
            (true, separator) => {
                for (place, part) in field.split(|byte| *byte == separator).enumerate() {
                    if place > 0 {
                        // Writing to memory cannot fail.
                        let _ = write!(out, "\\x{separator:02x}");
                    }
                    tsv::append(out, part);
                }
            }
        }
    }

    /// The value as it is shown: that of a counter as a number, but for files.
    fn value<'a>(&self, cells: &'a dyn Cells) -> Outcome<Cow<'a, [u8]>> {
        let value = cells.value().map_err(failure)?;
        // What LOAD DATA would refuse is a number in a file too.
        let is_number = self.has_numbers || (self.is_for_file && is_ambiguous(&value));
        if is_number
            && cells.is_counter()
            && let Ok(number) = <[u8; 8]>::try_from(&value[..])
        {
            return Ok(Cow::Owned(i64::from_be_bytes(number).to_string().into_bytes()));
        }
        Ok(value)
    }
}

/// Prints cells, one after the other.
pub(super) fn cells(out: &mut Out, format: QlFormat, cells: Box<dyn Cells>, shown: &Shown) -> Outcome {
    match format {
        QlFormat::Table => table(out, cells, shown),
        QlFormat::Tsv => tab_separated(out, cells, shown),
        QlFormat::Csv => comma_separated(out, cells, shown),
        QlFormat::Jsonl => objects(out, cells, shown),
        QlFormat::Xml => elements(out, cells, shown),
    }
}

/// Writes cells as `LOAD DATA` reads them: tab-separated, with a header.
pub(super) fn file_cells(out: &mut Out, cells: Box<dyn Cells>, shown: &Shown) -> Outcome {
    let timestamp = TimeUnit::Milliseconds.column_name();
    let mut names = vec![timestamp, "row", "column"];
    names.extend(shown.has_deletes.then_some("delete"));
    names.extend(shown.has_values.then_some("value"));
    out.line(&format!("#{}", names.join(&char::from(shown.separator).to_string())))?;
    tab_separated(out, cells, shown)
}

/// Fails at a cell that a file without escapes cannot hold.
fn check_plain(cells: &dyn Cells, value: &[u8], separator: u8) -> Outcome {
    let is_plain = |bytes: &[u8]| !bytes.iter().any(|byte| b"\n\r".contains(byte) || *byte == separator);
    match is_plain(cells.row()) && is_plain(cells.qualifier()) && is_plain(value) {
        true => Ok(()),
        false => {
            let separator =
                if separator == b'\t' { "tab".to_owned() } else { format!("`{}`", char::from(separator)) };
            Err(Failure::usage(format!(
                "NO_ESCAPE: a cell has a {separator} or a line end, which the file cannot hold without an escape"
            )))
        }
    }
}

/// `family:qualifier`; of the delete of a family its name alone, of that of a row nothing.
fn column(cells: &dyn Cells) -> Vec<u8> {
    match cells.delete() {
        Some(DeleteKind::Row | DeleteKind::Family) => cells.family().as_bytes().to_vec(),
        _ => [cells.family().as_bytes(), b":", cells.qualifier()].concat(),
    }
}

/// What a delete deletes, in a word; nothing at a cell.
fn deleted(cells: &dyn Cells) -> Option<&'static str> {
    Some(match cells.delete()? {
        DeleteKind::Row => "row",
        DeleteKind::Family => "family",
        DeleteKind::Column => "column",
        DeleteKind::Version => "version",
    })
}

fn tab_separated(out: &mut Out, mut cells: Box<dyn Cells>, shown: &Shown) -> Outcome {
    let append = |out: &mut Vec<u8>, field: &[u8]| shown.append(out, field);
    while cells.advance().map_err(failure)? {
        let long = cells.long_value_len().filter(|_| shown.has_values);
        let value = if long.is_some() { Cow::default() } else { shown.value(&*cells)? };
        if shown.is_for_file && !shown.is_escaped {
            check_plain(&*cells, &value, shown.separator)?;
        }
        let buffer = out.buffer();
        if shown.has_timestamps {
            append(buffer, cells.timestamp().to_string().as_bytes());
            buffer.push(shown.separator);
        }
        append(buffer, cells.row());
        buffer.push(shown.separator);
        append(buffer, cells.family().as_bytes());
        if !matches!(cells.delete(), Some(DeleteKind::Row | DeleteKind::Family)) {
            buffer.push(b':');
            append(buffer, cells.qualifier());
        }
        if shown.has_deletes {
            buffer.push(shown.separator);
            append(buffer, deleted(&*cells).unwrap_or_default().as_bytes());
        }
        if shown.has_values {
            buffer.push(shown.separator);
            append(buffer, &value);
        }
        if let Some(len) = long {
            long_value(out, &*cells, len, shown)?;
        }
        out.buffer().push(b'\n');
        out.spill()?;
    }
    Ok(())
}

/// Writes the bytes of a value.
pub(super) fn raw_value(out: &mut Out, cells: &dyn Cells) -> Outcome {
    let Some(len) = cells.long_value_len() else {
        return out.write(&cells.value().map_err(failure)?);
    };
    let (mut piece, mut at) = (vec![0; PIECE], 0);
    while at < len {
        let rest = (len - at).min(PIECE as u64);
        let piece = &mut piece[..rest as usize];
        cells.read_value_at(at, piece).map_err(failure)?;
        out.write(piece)?;
        at += rest;
    }
    Ok(())
}

/// Writes a long value piece by piece.
fn long_value(out: &mut Out, cells: &dyn Cells, len: u64, shown: &Shown) -> Outcome {
    let (mut piece, mut at) = (vec![0; PIECE], 0);
    while at < len {
        let rest = len - at;
        let piece = &mut piece[..rest.min(PIECE as u64) as usize];
        cells.read_value_at(at, piece).map_err(failure)?;
        // An escape would take the place of a character that the pieces share.
        let whole = if piece.len() as u64 == rest { piece.len() } else { whole_characters(piece) };
        let piece = &piece[..whole];
        if shown.is_for_file && !shown.is_escaped {
            check_plain(cells, piece, shown.separator)?;
        }
        shown.append(out.buffer(), piece);
        out.spill()?;
        at += whole as u64;
    }
    Ok(())
}

fn comma_separated(out: &mut Out, mut cells: Box<dyn Cells>, shown: &Shown) -> Outcome {
    let mut names = vec!["row", "column"];
    names.extend(shown.has_timestamps.then_some("timestamp"));
    names.extend(shown.has_deletes.then_some("delete"));
    names.extend(shown.has_values.then_some("value"));
    out.line(&format!("{},base64", names.join(",")))?;
    while cells.advance().map_err(failure)? {
        let value = shown.value(&*cells)?;
        let buffer = out.buffer();
        let mut encoded = Vec::new();
        let mut append = |buffer: &mut Vec<u8>, name, field: &[u8]| match std::str::from_utf8(field) {
            Ok(_) => csv::append(buffer, field),
            Err(_) => {
                encoded.push(name);
                buffer.extend_from_slice(STANDARD.encode(field).as_bytes());
            }
        };
        append(buffer, "row", cells.row());
        buffer.push(b',');
        append(buffer, "column", &column(&*cells));
        if shown.has_timestamps {
            // Writing to memory cannot fail.
            let _ = write!(buffer, ",{}", cells.timestamp());
        }
        if shown.has_deletes {
            let _ = write!(buffer, ",{}", deleted(&*cells).unwrap_or_default());
        }
        if shown.has_values {
            buffer.push(b',');
            append(buffer, "value", &value);
        }
        let _ = writeln!(buffer, ",{}", encoded.join(" "));
        out.spill()?;
    }
    Ok(())
}

fn objects(out: &mut Out, mut cells: Box<dyn Cells>, shown: &Shown) -> Outcome {
    while cells.advance().map_err(failure)? {
        let value = shown.value(&*cells)?;
        let buffer = out.buffer();
        let mut encoded = Vec::new();
        let mut append = |buffer: &mut Vec<u8>, name: &'static str, field: &[u8]| {
            // Writing to memory cannot fail.
            let _ = write!(buffer, "\"{name}\":");
            if json::text(buffer, field) {
                encoded.push(name);
            }
        };
        buffer.push(b'{');
        append(buffer, "row", cells.row());
        let delete = cells.delete();
        if delete != Some(DeleteKind::Row) {
            buffer.push(b',');
            append(buffer, "family", cells.family().as_bytes());
        }
        if !matches!(delete, Some(DeleteKind::Row | DeleteKind::Family)) {
            buffer.push(b',');
            append(buffer, "qualifier", cells.qualifier());
        }
        let _ = write!(buffer, ",\"timestamp\":{}", cells.timestamp());
        if let Some(delete) = deleted(&*cells) {
            let _ = write!(buffer, ",\"delete\":\"{delete}\"");
        } else if shown.has_values {
            buffer.push(b',');
            append(buffer, "value", &value);
        }
        for name in encoded {
            let prefix = if name == "value" { String::new() } else { format!("{name}_") };
            let _ = write!(buffer, ",\"{prefix}encoding\":\"base64\"");
        }
        buffer.extend_from_slice(b"}\n");
        out.spill()?;
    }
    Ok(())
}

fn elements(out: &mut Out, mut cells: Box<dyn Cells>, shown: &Shown) -> Outcome {
    out.line("<cells>")?;
    while cells.advance().map_err(failure)? {
        let value = shown.value(&*cells)?;
        let buffer = out.buffer();
        buffer.extend_from_slice(b"  <cell");
        attribute(buffer, "row", cells.row());
        let delete = cells.delete();
        if delete != Some(DeleteKind::Row) {
            attribute(buffer, "family", cells.family().as_bytes());
        }
        if !matches!(delete, Some(DeleteKind::Row | DeleteKind::Family)) {
            attribute(buffer, "qualifier", cells.qualifier());
        }
        attribute(buffer, "timestamp", cells.timestamp().to_string().as_bytes());
        if let Some(delete) = deleted(&*cells) {
            attribute(buffer, "delete", delete.as_bytes());
        }
        if shown.has_values && delete.is_none() {
            match xml_text(&value) {
                Some(text) => {
                    buffer.push(b'>');
                    append_xml(buffer, text);
                }
                None => {
                    buffer.extend_from_slice(b" encoding=\"base64\">");
                    buffer.extend_from_slice(STANDARD.encode(&value).as_bytes());
                }
            }
            buffer.extend_from_slice(b"</cell>\n");
        } else {
            buffer.extend_from_slice(b"/>\n");
        }
        out.spill()?;
    }
    out.line("</cells>")
}

/// Prints the lines of an answer as XML.
pub(super) fn line_elements<'a>(out: &mut Out, lines: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    out.line("<lines>")?;
    for line in lines {
        let buffer = out.buffer();
        match xml_text(line) {
            Some(text) => {
                buffer.extend_from_slice(b"  <line>");
                append_xml(buffer, text);
            }
            None => {
                buffer.extend_from_slice(b"  <line encoding=\"base64\">");
                buffer.extend_from_slice(STANDARD.encode(line).as_bytes());
            }
        }
        buffer.extend_from_slice(b"</line>\n");
        out.spill()?;
    }
    out.line("</lines>")
}

/// Appends ` name="..."`; bytes that are no text of XML as base64, and `name-encoding="base64"`.
fn attribute(out: &mut Vec<u8>, name: &str, bytes: &[u8]) {
    // Writing to memory cannot fail.
    let _ = write!(out, " {name}=\"");
    match xml_text(bytes) {
        Some(text) => append_xml(out, text),
        None => {
            out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
            let _ = write!(out, "\" {name}-encoding=\"base64");
        }
    }
    out.push(b'"');
}

/// The bytes, if XML can hold them.
fn xml_text(bytes: &[u8]) -> Option<&str> {
    let is_char = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    std::str::from_utf8(bytes).ok().filter(|text| text.chars().all(is_char))
}

fn append_xml(out: &mut Vec<u8>, text: &str) {
    for c in text.chars() {
        match c {
            '<' => out.extend_from_slice(b"&lt;"),
            '>' => out.extend_from_slice(b"&gt;"),
            '&' => out.extend_from_slice(b"&amp;"),
            '"' => out.extend_from_slice(b"&quot;"),
            '\t' | '\n' | '\r' => {
                // Writing to memory cannot fail.
                let _ = write!(out, "&#{};", u32::from(c));
            }
            _ => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// Columns side by side, as wide as the first cells need.
fn table(out: &mut Out, mut cells: Box<dyn Cells>, shown: &Shown) -> Outcome {
    let mut names = vec!["row", "column"];
    names.extend(shown.has_timestamps.then_some("timestamp"));
    names.extend(shown.has_deletes.then_some("delete"));
    let mut first: Vec<Vec<String>> = Vec::new();
    let (mut has_more, mut bytes) = (false, 0);
    while first.len() < MEASURED && bytes < MEASURED_BYTES {
        has_more = cells.advance().map_err(failure)?;
        if !has_more {
            break;
        }
        let fields = fields(&*cells, shown)?;
        bytes += fields.iter().map(String::len).sum::<usize>();
        first.push(fields);
    }
    let widths: Vec<usize> = (0..names.len())
        .map(|place| {
            let widest = first.iter().map(|fields| fields[place].chars().count()).max();
            widest.unwrap_or_default().min(WIDTH_MAX).max(names[place].len())
        })
        .collect();
    let mut header: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    header.push(if shown.has_values { "value".to_owned() } else { String::new() });
    if first.is_empty() {
        return out.line("no cells");
    }
    line(out, &header, &widths)?;
    out.line(
        &widths
            .iter()
            .map(|width| "-".repeat(*width))
            .chain(["-----".to_owned()])
            .collect::<Vec<_>>()
            .join("  "),
    )?;
    for fields in &first {
        line(out, fields, &widths)?;
    }
    drop(first);
    while has_more && cells.advance().map_err(failure)? {
        line(out, &fields(&*cells, shown)?, &widths)?;
    }
    Ok(())
}

/// The fields of a line of a table.
fn fields(cells: &dyn Cells, shown: &Shown) -> Outcome<Vec<String>> {
    let text = |bytes: &[u8]| {
        let mut text = Vec::new();
        escapes::append_shown(&mut text, bytes);
        String::from_utf8_lossy(&text).into_owned()
    };
    let mut fields = vec![text(cells.row()), text(&column(cells))];
    fields.extend(shown.has_timestamps.then(|| cells.timestamp().to_string()));
    fields.extend(shown.has_deletes.then(|| deleted(cells).unwrap_or_default().to_owned()));
    fields.push(if shown.has_values { text(&shown.value(cells)?) } else { String::new() });
    Ok(fields)
}

fn line(out: &mut Out, fields: &[String], widths: &[usize]) -> Outcome {
    let mut line = String::new();
    for (place, field) in fields.iter().enumerate() {
        let is_padded = place < widths.len();
        line.push_str(field);
        if is_padded {
            let blanks = widths[place].saturating_sub(field.chars().count());
            line.extend(std::iter::repeat_n(' ', blanks + 2));
        }
    }
    out.line(line.trim_end())
}
