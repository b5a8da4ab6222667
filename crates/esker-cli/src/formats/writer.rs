//! Writes rows to a file in any format.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::columns::{BASE64, Column, KEY, VALUE};
use super::{Format, csv, tsv};
use crate::collections::{self, Kind};
use crate::datatype::{DataType, Types};
use crate::encoding::{BYTE_ORDER_MARK, is_marked};
use crate::exit::{Failure, Outcome};
use crate::json;
use crate::unpack::is_special;

/// The columns if none were chosen.
const COLUMNS: [Column; 2] = [Column::Key, Column::Value];

/// Appends rows in one format.
pub(crate) struct Writer {
    format: Format,
    types: Types,
    /// The columns of CSV and TSV.
    columns: Vec<Column>,
    /// How many rows expire although the output does not record it.
    untold: u64,
    /// Whether a row was written.
    any: bool,
    /// Memory for what is printed before it is quoted.
    printed: Vec<u8>,
}

/// The parts of one row.
pub(crate) struct Row<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    /// In microseconds since 1970.
    pub(crate) expires_us: Option<u64>,
}

impl Writer {
    /// `columns` are those that were chosen, if any.
    pub(crate) fn new(format: Format, types: Types, columns: &[Column]) -> Outcome<Self> {
        if !columns.is_empty() && !matches!(format, Format::Csv | Format::Tsv) {
            return Err(Failure::usage("--columns is for CSV and TSV; pass --format csv or tsv"));
        }
        if let Some(twice) = (1..columns.len()).find(|&at| columns[..at].contains(&columns[at])) {
            let name = columns[twice].name();
            return Err(Failure::usage(format!("--columns names the column {name} twice")));
        }
        let columns = if columns.is_empty() { &COLUMNS } else { columns };
        Ok(Writer { format, types, columns: columns.to_vec(), untold: 0, any: false, printed: Vec::new() })
    }

    /// How many of the rows expire although the output does not record it.
    pub(crate) fn untold(&self) -> u64 {
        self.untold
    }

    fn has(&self, column: Column) -> bool {
        self.columns.contains(&column)
    }

    /// Whether CSV has the column that says what is in base64: only text can be.
    fn has_base64(&self) -> bool {
        (self.has(Column::Key) && self.types.keys == DataType::Text)
            || (self.has(Column::Value) && self.types.values == DataType::Text)
    }

    /// Appends the header, if the format has one.
    pub(crate) fn begin(&self, out: &mut Vec<u8>) {
        let mut names: Vec<&str> = self.columns.iter().map(|column| column.name()).collect();
        let header = match self.format {
            Format::Csv => {
                names.extend(self.has_base64().then_some(BASE64));
                names.join(",")
            }
            Format::Tsv => names.join("\t"),
            Format::Json => "[".to_owned(),
            Format::Lines | Format::Jsonl => return,
        };
        out.extend_from_slice(header.as_bytes());
        out.push(b'\n');
    }

    /// Appends what follows the last row.
    pub(crate) fn end(&self, out: &mut Vec<u8>) {
        if self.format == Format::Json {
            out.extend_from_slice(if self.any { b"\n]\n" } else { b"]\n" });
        }
    }

    /// Appends a row.
    pub(crate) fn row(&mut self, out: &mut Vec<u8>, row: &Row<'_>) -> Outcome {
        let Row { key, value, expires_us } = *row;
        let tells = match self.format {
            Format::Jsonl | Format::Json => true,
            Format::Lines => false,
            Format::Csv | Format::Tsv => self.has(Column::Expires) || !self.has(Column::Value),
        };
        self.untold += u64::from(expires_us.is_some() && !tells);
        match self.format {
            Format::Jsonl => json::row(out, self.types, key, Some((value, expires_us))),
            Format::Json => {
                if std::mem::replace(&mut self.any, true) {
                    out.extend_from_slice(b",\n");
                }
                json::row(out, self.types, key, Some((value, expires_us)))?;
                // The next row, or the end, writes what follows.
                out.pop();
                Ok(())
            }
            Format::Lines => self.line(out, key, value),
            Format::Csv => self.csv(out, row),
            Format::Tsv => self.tsv(out, row),
        }
    }

    /// Whether rows can hold collections.
    pub(crate) fn takes_collections(&self) -> bool {
        matches!(self.format, Format::Jsonl | Format::Json) && self.types.values != DataType::Json
    }

    /// Appends a row with elements of a collection, if the format takes them. `continues`: they are not the first ones.
    pub(crate) fn collection(
        &mut self,
        out: &mut Vec<u8>,
        (key, expires_us): (&[u8], Option<u64>),
        kind: Kind,
        elements: &[Vec<u8>],
        continues: bool,
    ) -> Outcome {
        if std::mem::replace(&mut self.any, true) && self.format == Format::Json {
            out.extend_from_slice(b",\n");
        }
        self.printed.clear();
        collections::append(&mut self.printed, kind, elements, continues, expires_us);
        json::about(out, self.types.keys, key, &self.printed)?;
        if self.format == Format::Json {
            out.pop();
        }
        Ok(())
    }

    fn tsv(&mut self, out: &mut Vec<u8>, row: &Row<'_>) -> Outcome {
        let types = self.types;
        for at in 0..self.columns.len() {
            if at > 0 {
                out.push(b'\t');
            }
            let field = match self.columns[at] {
                Column::Key => self.print(|out| types.keys.print(row.key, out))?,
                Column::Value => self.print(|out| types.values.print_value(row.value, out))?,
                Column::Expires => self.print(|out| moment(row.expires_us, out))?,
            };
            tsv::append_unquoted(out, field);
        }
        out.push(b'\n');
        Ok(())
    }

    fn csv(&mut self, out: &mut Vec<u8>, row: &Row<'_>) -> Outcome {
        let types = self.types;
        let (mut of_key, mut of_value) = (false, false);
        for at in 0..self.columns.len() {
            if at > 0 {
                out.push(b',');
            }
            match self.columns[at] {
                Column::Key => {
                    of_key = self.field(out, types.keys, row.key, |out| types.keys.print(row.key, out))?;
                }
                Column::Value => {
                    let print = |out: &mut Vec<u8>| types.values.print_value(row.value, out);
                    of_value = self.field(out, types.values, row.value, print)?;
                }
                Column::Expires => moment(row.expires_us, out)?,
            }
        }
        if self.has_base64() {
            let names = match (of_key, of_value) {
                (false, false) => "",
                (true, false) => KEY,
                (false, true) => VALUE,
                (true, true) => "key value",
            };
            out.push(b',');
            out.extend_from_slice(names.as_bytes());
        }
        out.push(b'\n');
        Ok(())
    }

    /// Appends a field of CSV. Returns whether it had to become base64.
    fn field(
        &mut self,
        out: &mut Vec<u8>,
        data: DataType,
        bytes: &[u8],
        print: impl FnOnce(&mut Vec<u8>) -> Outcome,
    ) -> Outcome<bool> {
        match data {
            DataType::Text if std::str::from_utf8(bytes).is_err() => {
                out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
                return Ok(true);
            }
            DataType::Text => csv::append(out, bytes),
            _ => csv::append(out, self.print(print)?),
        }
        Ok(false)
    }

    fn print(&mut self, print: impl FnOnce(&mut Vec<u8>) -> Outcome) -> Outcome<&[u8]> {
        self.printed.clear();
        print(&mut self.printed)?;
        Ok(&self.printed)
    }

    /// Appends `key<TAB>value`, unless `import` would read something else from it.
    fn line(&mut self, out: &mut Vec<u8>, key: &[u8], value: &[u8]) -> Outcome {
        let Types { keys, values } = self.types;
        let in_key = keys == DataType::Text && key.iter().any(|byte| b" \t\n".contains(byte));
        let in_value = values == DataType::Text && (value.contains(&b'\n') || value.ends_with(b"\r"));
        if in_key || in_value {
            let what = match in_key {
                true => ("the key", "a blank or line break"),
                false => ("the value of the key", "a line break"),
            };
            return Err(Failure::usage(format!(
                "{} {:?} has {}, so it does not fit on a line; --format jsonl, csv and tsv take any bytes, and so does \
                 --escapes",
                what.0,
                String::from_utf8_lossy(key),
                what.1
            )));
        }
        let is_first = !std::mem::replace(&mut self.any, true);
        let start = out.len();
        keys.print(key, out)?;
        if is_first && (is_marked(&out[start..]) || is_special(&out[start..])) {
            // The bytes are a part of the key, and not the mark of an encoding or of a compression.
            out.splice(start..start, BYTE_ORDER_MARK.iter().copied());
        }
        out.push(b'\t');
        values.print_value(value, out)?;
        out.push(b'\n');
        Ok(())
    }
}

/// Appends when a value expires; nothing if it does not.
fn moment(expires_us: Option<u64>, out: &mut Vec<u8>) -> Outcome {
    if let Some(us) = expires_us {
        out.extend_from_slice(us.to_string().as_bytes());
    }
    Ok(())
}
