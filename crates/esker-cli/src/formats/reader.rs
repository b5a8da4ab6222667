//! Reads rows from the lines of a file in any format.

use std::borrow::Cow;

use super::columns::{Choice, EXPIRES, KEY, Table, VALUE};
use super::csv::{Csv, STRAY_RETURN};
use super::fields::Fields;
use super::{Format, tsv};
use crate::encoding::{Encoding, HOW_TO_NAME};
use crate::exit::{Failure, Outcome};
use crate::json::{self, Given};
use crate::lines;
use crate::writes::Refused;

/// Characters that separate fields in some files that are called CSV.
const SEPARATORS: [u8; 2] = *b";\t";

const QUOTED: &str = "fields of this line look quoted as in CSV, which this format does not have: pass --format csv \
                      --separator '\\t' if the quotes enclose fields, or --format tsv if they are parts of them";

/// A key as typed, a value, and when it expires, in microseconds since 1970.
pub(crate) struct Row<'a> {
    pub(crate) key: Cow<'a, [u8]>,
    pub(crate) value: Given<'a>,
    pub(crate) expires_us: Option<u64>,
}

/// The chosen fields of objects.
pub(crate) fn fields(choice: Choice) -> Outcome<json::Fields> {
    let Choice { key, value, expires, header } = choice;
    if header.is_some() {
        let message = "JSON has no header; --header and --no-header are for CSV and TSV";
        return Err(Failure::usage(message));
    }
    let is_chosen = key.is_some() || value.is_some();
    let or = |chosen: Option<String>, name: &str| chosen.unwrap_or_else(|| name.to_owned());
    Ok(json::Fields { is_chosen, key: or(key, KEY), value: or(value, VALUE), expires: or(expires, EXPIRES) })
}

/// What the user says about the text of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text {
    /// Whether the user names the format, and not only the file's name.
    pub(crate) is_named: bool,
    pub(crate) encoding: Option<Encoding>,
    /// The separator of the fields of CSV.
    pub(crate) separator: Option<u8>,
    /// The most bytes of a row.
    pub(crate) row_max: usize,
}

/// Takes lines and returns rows.
pub(crate) struct Reader {
    kind: Kind,
    text: Text,
    /// What is wrong in an earlier line of the row.
    wrong: Option<String>,
}

/// How JSON holds what is not text.
const BYTES_IN_JSON: &str = "a row with \"encoding\":\"base64\" has any bytes as its value";

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
    pub(crate) fn new(format: Format, choice: Choice, text: Text) -> Outcome<Self> {
        let header = |choice| Header { choice, table: None };
        let kind = match format {
            Format::Csv => Kind::Csv(Box::new((Csv::new(text.separator), header(choice)))),
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
        if text.encoding == Some(Encoding::Bytes) && matches!(kind, Kind::Jsonl(_)) {
            return Err(Failure::usage(format!(
                "JSON is text: --encoding bytes is for lines, CSV and TSV; {BYTES_IN_JSON}"
            )));
        }
        Ok(Reader { kind, text, wrong: None })
    }

    /// Whether the user names the encoding of the text.
    pub(crate) fn is_encoding_named(&self) -> bool {
        self.text.encoding.is_some()
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

    /// What is wrong if `line` has to be UTF-8 and is not.
    fn undecodable(&self, line: &[u8]) -> Option<String> {
        match (self.text.encoding, &self.kind) {
            (Some(Encoding::Bytes), _) | (None, Kind::Lines) => None,
            _ => std::str::from_utf8(line).err().map(|error| self.not_utf_8(line, error.valid_up_to())),
        }
    }

    fn not_utf_8(&self, line: &[u8], at: usize) -> String {
        let byte = line.get(at).copied().unwrap_or_default();
        let any_bytes = match self.kind {
            Kind::Jsonl(_) => BYTES_IN_JSON,
            _ => "--encoding bytes keeps any bytes as they are",
        };
        format!("the line has the byte 0x{byte:02x}, which is not UTF-8: {HOW_TO_NAME}, and {any_bytes}")
    }

    /// Takes a line. Returns the row that ends with it, if one does.
    #[inline]
    pub(crate) fn line<'a>(&'a mut self, line: &'a [u8]) -> Result<Option<Row<'a>>, Refused> {
        let wrong = self.undecodable(line);
        let Text { is_named, row_max, .. } = self.text;
        if !matches!(self.kind, Kind::Csv(_)) && wrong.is_some() {
            return Err(refused(wrong));
        }
        match &mut self.kind {
            Kind::Csv(csv) => {
                let (csv, header) = csv.as_mut();
                self.wrong = self.wrong.take().or(wrong);
                match csv.line(line) {
                    // A row with an invalid line is refused as a whole.
                    Ok(true) if self.wrong.is_some() => Err(refused(self.wrong.take())),
                    Ok(true) => {
                        header.row(csv.fields(), csv.separator().is_none().then_some(&SEPARATORS), true)
                    }
                    Ok(false) if csv.fields().bytes.len() > row_max => Err(too_long(row_max).into()),
                    Ok(false) => Ok(None),
                    Err(reason) => Err(refused(self.wrong.take().or(Some(reason.into_owned())))),
                }
            }
            _ if line.is_empty() => Ok(None),
            Kind::Lines => {
                let end = memchr::memchr2(b'\t', b' ', line).unwrap_or(line.len());
                let (key, value) = line.split_at(end);
                let value = Given::Typed(value.get(1..).unwrap_or_default().into());
                Ok(Some(Row { key: key.into(), value, expires_us: None }))
            }
            Kind::Tsv(table) => {
                let (fields, header) = table.as_mut();
                if memchr::memchr(b'\r', line).is_some() {
                    return Err(malformed(STRAY_RETURN.into()));
                }
                if !is_named && has_quotes(line) {
                    return Err(malformed(QUOTED.into()));
                }
                tsv::parse(line, fields).map_err(malformed)?;
                header.row(fields, None, false)
            }
            Kind::Jsonl(fields) => {
                let (key, value, expires_us) = fields.parse(line).map_err(malformed)?;
                Ok(Some(Row { key: key.into(), value, expires_us }))
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

/// Whether a field of this line of TSV begins with a quote. Spreadsheets put a field with separators, quotes or line ends in quotes;
/// for other programs a quote is data.
fn has_quotes(line: &[u8]) -> bool {
    let begins = |at: usize| at.checked_sub(1).is_none_or(|before| line[before] == b'\t');
    memchr::memchr_iter(b'"', line).any(begins)
}

impl Header {
    /// The row of `fields`; `None` if they are the header.
    /// A first row that has none of the known names and one of `separators` is refused.
    fn row<'a>(
        &'a mut self,
        fields: &'a Fields,
        separators: Option<&[u8]>,
        with_base64: bool,
    ) -> Result<Option<Row<'a>>, Refused> {
        if self.table.is_none() {
            let other = separators.and_then(|others| fields.bytes.iter().find(|byte| others.contains(byte)));
            if let Some(other) = other.filter(|_| !self.choice.names_columns(fields)) {
                let shown = if *other == b'\t' { "\\t".to_owned() } else { char::from(*other).to_string() };
                return Err(Failure::usage(format!(
                    "the first row has the character {shown} within a field: pass --separator '{shown}' if it separates \
                     fields, or --separator ',' if it does not"
                ))
                .into());
            }
            let (table, is_header) = Table::begin(&self.choice, fields, with_base64)?;
            self.table = Some(table);
            if is_header {
                return Ok(None);
            }
        }
        let Some(table) = &mut self.table else { return Ok(None) };
        let (key, value, expires_us) = table.row(fields).map_err(malformed)?;
        Ok(Some(Row { key: key.into(), value: Given::Typed(value.into()), expires_us }))
    }
}

/// The failure if a row would take too much memory. The rest of the input cannot be read without it.
pub(crate) fn too_long(row_max: usize) -> Failure {
    Failure::usage(format!("a row has more than {row_max} bytes, {}", lines::HOW_TO_TAKE_MORE))
}

fn refused(reason: Option<String>) -> Refused {
    Refused::Malformed(reason.unwrap_or_default())
}

fn malformed(reason: Cow<'static, str>) -> Refused {
    Refused::Malformed(reason.into_owned())
}
