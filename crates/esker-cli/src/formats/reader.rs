//! Reads rows from the lines of a file in any format.

use std::borrow::Cow;

use super::columns::{Choice, EXPIRES, KEY, Table, VALUE};
use super::csv::Csv;
use super::fields::Fields;
use super::{BYTE_ORDER_MARK, Format, tsv};
use crate::exit::{Failure, Outcome};
use crate::json;
use crate::writes::Refused;

/// A key and a value as typed, and when it expires, in microseconds since 1970.
pub(crate) struct Row<'a> {
    pub(crate) key: Cow<'a, [u8]>,
    pub(crate) value: Cow<'a, [u8]>,
    pub(crate) expires_us: Option<u64>,
}

/// The chosen fields of objects.
pub(crate) fn fields(choice: Choice) -> Outcome<json::Fields> {
    let Choice { key, value, expires, header } = choice;
    if header.is_some() {
        let message = "JSON has no header; --header and --no-header are for CSV and TSV";
        return Err(Failure::usage(message));
    }
    let or = |chosen: Option<String>, name: &str| chosen.unwrap_or_else(|| name.to_owned());
    Ok(json::Fields { key: or(key, KEY), value: or(value, VALUE), expires: or(expires, EXPIRES) })
}

/// Takes lines and returns rows.
pub(crate) struct Reader {
    kind: Kind,
    /// Nothing has been read yet.
    first: bool,
}

enum Kind {
    Lines,
    Csv(Box<(Csv, Header)>),
    Tsv(Box<(Fields, Header)>),
    Jsonl(json::Fields),
}

/// What is known of a table's columns: everything, once its first row was read.
struct Header {
    choice: Choice,
    table: Option<Table>,
}

impl Reader {
    pub(crate) fn new(format: Format, choice: Choice) -> Outcome<Self> {
        let header = |choice| Header { choice, table: None };
        let kind = match format {
            Format::Csv => Kind::Csv(Box::new((Csv::new(), header(choice)))),
            Format::Tsv => Kind::Tsv(Box::new((Fields::default(), header(choice)))),

            Format::Lines if !choice.is_empty() => {
                return Err(Failure::usage(
                    "a line file has no columns to choose; for a file with columns, pass --format csv, tsv, \
                     jsonl or json",
                ));
            }
            Format::Lines => Kind::Lines,
            Format::Jsonl | Format::Json => Kind::Jsonl(fields(choice)?),
        };
        Ok(Reader { kind, first: true })
    }

    /// Whether lines are passed with their ends.
    pub(crate) fn keeps_ends(&self) -> bool {
        matches!(self.kind, Kind::Csv(..))
    }

    /// How many lines of the last row come before the last one.
    pub(crate) fn held(&self) -> u64 {
        match &self.kind {
            Kind::Csv(csv) => csv.0.held(),
            _ => 0,
        }
    }

    /// Takes a line. Returns the row that ends with it, if one does.
    #[inline]
    pub(crate) fn line<'a>(&'a mut self, line: &'a [u8]) -> Result<Option<Row<'a>>, Refused> {
        let first = std::mem::take(&mut self.first);
        match &mut self.kind {
            Kind::Csv(csv) => {
                let (csv, header) = csv.as_mut();
                match csv.line(line).map_err(malformed)? {
                    true => header.row(csv.fields(), true),
                    false => Ok(None),
                }
            }
            _ if line.is_empty() => Ok(None),
            Kind::Lines => {
                let end = memchr::memchr2(b'\t', b' ', line).unwrap_or(line.len());
                let (key, value) = line.split_at(end);
                let value = value.get(1..).unwrap_or_default().into();
                Ok(Some(Row { key: key.into(), value, expires_us: None }))
            }
            Kind::Tsv(table) => {
                let (fields, header) = table.as_mut();
                tsv::parse(without_mark(line, first), fields).map_err(malformed)?;
                header.row(fields, false)
            }
            Kind::Jsonl(fields) => {
                let row = fields.parse(without_mark(line, first));
                let (key, value, expires_us) = row.map_err(malformed)?;
                Ok(Some(Row { key: key.into(), value: value.into(), expires_us }))
            }
        }
    }

    /// Called at the end of the input. Fails if a row has begun and not ended.
    pub(crate) fn end(&self) -> Result<(), Refused> {
        match &self.kind {
            Kind::Csv(csv) => csv.0.end().map_err(malformed),
            _ => Ok(()),
        }
    }
}

impl Header {
    /// The row of `fields`; `None` if they are the header.
    fn row<'a>(&'a mut self, fields: &'a Fields, with_base64: bool) -> Result<Option<Row<'a>>, Refused> {
        if self.table.is_none() {
            let (table, is_header) = Table::begin(&self.choice, fields, with_base64)?;
            self.table = Some(table);
            if is_header {
                return Ok(None);
            }
        }
        let Some(table) = &mut self.table else { return Ok(None) };
        let (key, value, expires_us) = table.row(fields).map_err(malformed)?;
        Ok(Some(Row { key: key.into(), value: value.into(), expires_us }))
    }
}

/// A line without the mark that some programs put before the first one.
fn without_mark(line: &[u8], first: bool) -> &[u8] {
    line.strip_prefix(BYTE_ORDER_MARK).filter(|_| first).unwrap_or(line)
}

fn malformed(reason: Cow<'static, str>) -> Refused {
    Refused::Malformed(reason.into_owned())
}
