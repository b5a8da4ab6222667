//! Rows into a file, whatever its format.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::columns::{BASE64, KEY, VALUE};
use super::{Format, csv, tsv};
use crate::datatype::{DataType, Types};
use crate::exit::{Failure, Outcome};
use crate::json;

/// Appends rows in one format.
pub(crate) struct Writer {
    format: Format,
    types: Types,
    /// Memory for what is printed before it is quoted.
    printed: Vec<u8>,
}

impl Writer {
    pub(crate) fn new(format: Format, types: Types) -> Self {
        Writer { format, types, printed: Vec::new() }
    }

    /// Whether CSV has the column that says what is in base64: only text can be.
    fn has_base64(&self) -> bool {
        self.types.keys == DataType::Text || self.types.values == DataType::Text
    }

    /// Appends the header, where the format has one.
    pub(crate) fn begin(&self, out: &mut Vec<u8>) {
        let header = match self.format {
            Format::Csv if self.has_base64() => format!("{KEY},{VALUE},{BASE64}\n"),
            Format::Csv => format!("{KEY},{VALUE}\n"),
            Format::Tsv => format!("{KEY}\t{VALUE}\n"),
            Format::Lines | Format::Jsonl => String::new(),
        };
        out.extend_from_slice(header.as_bytes());
    }

    /// Appends a row.
    pub(crate) fn row(&mut self, out: &mut Vec<u8>, key: &[u8], value: &[u8]) -> Outcome {
        match self.format {
            Format::Jsonl => json::row(out, self.types, key, Some(value)),
            Format::Lines => self.line(out, key, value),
            Format::Csv => self.csv(out, key, value),
            Format::Tsv => {
                let types = self.types;
                tsv::append(out, self.print(|out| types.keys.print(key, out))?);
                out.push(b'\t');
                tsv::append(out, self.print(|out| types.values.print_value(value, out))?);
                out.push(b'\n');
                Ok(())
            }
        }
    }

    fn csv(&mut self, out: &mut Vec<u8>, key: &[u8], value: &[u8]) -> Outcome {
        let types = self.types;
        let of_key = self.field(out, types.keys, key, |out| types.keys.print(key, out))?;
        out.push(b',');
        let of_value = self.field(out, types.values, value, |out| types.values.print_value(value, out))?;
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

    /// Appends a field of CSV; true when it had to become base64.
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
            let (what, part) =
                if in_key { ("a blank or line break", "key") } else { ("a line break", "value") };
            return Err(Failure::usage(format!(
                "the key {:?} has {what} in its {part}, so it does not fit on a line; --json takes any bytes, and \
                 so do --format csv and tsv",
                String::from_utf8_lossy(key)
            )));
        }
        keys.print(key, out)?;
        out.push(b'\t');
        values.print_value(value, out)?;
        out.push(b'\n');
        Ok(())
    }
}
