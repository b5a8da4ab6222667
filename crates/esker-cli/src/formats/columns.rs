//! Finds the columns of a table that hold keys, values and expiry times.
//!
//! A table either has a header or has none, and nothing is guessed. A first row that names both `key` and `value` is a
//! header. So is the first row if columns are chosen by name. In any other case `--header` or `--no-header` is needed.
//! Of two columns the first has the keys, unless the header or a choice says otherwise. With more columns, all must be
//! chosen or named.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::ValueEnum;

use super::fields::Fields;
use crate::exit::{Failure, Outcome};

/// The names that `export` gives its columns.
pub(crate) const KEY: &str = "key";
/// See [`KEY`].
pub(crate) const VALUE: &str = "value";
/// See [`KEY`]: when the value expires, in microseconds since 1970; empty if it does not.
pub(crate) const EXPIRES: &str = "expires_us";
/// The column whose fields name the columns of the row that are in base64, separated by a blank.
pub(crate) const BASE64: &str = "base64";

/// A column of what `export` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Column {
    // Plain comments: documented values would spread the help over two pages.
    #[value(name = KEY)]
    Key,
    #[value(name = VALUE)]
    Value,
    #[value(name = EXPIRES)]
    Expires,
}

impl Column {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Column::Key => KEY,
            Column::Value => VALUE,
            Column::Expires => EXPIRES,
        }
    }
}

/// The user's choice of columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choice {
    /// A name, or a number from 1.
    pub(crate) key: Option<String>,
    pub(crate) value: Option<String>,
    pub(crate) expires: Option<String>,
    /// Whether the first row is a header; `None` if the user did not say.
    pub(crate) header: Option<bool>,
}

impl Choice {
    /// Whether nothing was chosen.
    pub(crate) fn is_empty(&self) -> bool {
        let Choice { key, value, expires, header } = self;
        key.is_none() && value.is_none() && expires.is_none() && header.is_none()
    }
}

impl Choice {
    /// Whether columns of a table with the first row `first` are found by their names.
    pub(super) fn names_columns(&self, first: &Fields) -> bool {
        let has = |name: &str| first.iter().any(|other| other == name.as_bytes());
        let mut chosen = [&self.key, &self.value].into_iter().flatten();
        self.header != Some(false) && (chosen.any(|name| has(name)) || (has(KEY) && has(VALUE)))
    }
}

/// A row of a table, as typed.
pub(super) type TableRow<'a> = (&'a [u8], &'a [u8], Option<u64>);

/// A table whose columns are known.
#[derive(Debug)]
pub(super) struct Table {
    /// The header's names; empty without a header.
    names: Vec<Vec<u8>>,
    key: usize,
    value: usize,
    expires: Option<usize>,
    base64: Option<usize>,
    /// How many columns every row has.
    width: usize,
    /// Memory for decoded base64.
    decoded: [Vec<u8>; 2],
}

impl Table {
    /// The table with the first row `first`, and whether that row is a header. Only CSV has the column [`BASE64`]
    /// (`with_base64`).
    pub(super) fn begin(choice: &Choice, first: &Fields, with_base64: bool) -> Outcome<(Self, bool)> {
        let names: Vec<Vec<u8>> = first.iter().map(<[u8]>::to_vec).collect();
        let has = |name: &str| names.iter().any(|other| other == name.as_bytes());
        let by_name = [&choice.key, &choice.value, &choice.expires]
            .into_iter()
            .flatten()
            .any(|column| !is_number(column));
        for chosen in [&choice.key, &choice.value, &choice.expires].into_iter().flatten() {
            let is_name = has(chosen) && choice.header != Some(false);
            if is_number(chosen) && !is_name && !chosen.parse().is_ok_and(|number: usize| number > 0) {
                return Err(no_column(chosen));
            }
        }
        let header = match choice.header {
            Some(false) if by_name => {
                return Err(Failure::usage(
                    "without a header, columns have no names: choose them by number, from 1",
                ));
            }
            Some(header) => header,
            None if by_name || (has(KEY) && has(VALUE)) => true,
            None => {
                return Err(Failure::usage(
                    "the first row does not name the columns key and value: if it is not a header, pass \
                     --no-header; if it is, choose columns with --key-column and --value-column, by name, or \
                     by number with --header",
                ));
            }
        };
        let width = names.len();
        let names = if header { names } else { Vec::new() };
        let chosen = |chosen: &Option<String>, what, at| column(chosen.as_deref(), what, at, &names, width);
        let is_known = |chosen: &Option<String>, wanted: &str| {
            chosen.is_some() || !header || names.iter().any(|name| name == wanted.as_bytes())
        };
        // If one of two columns is neither chosen nor named, it is the other one.
        let (key, value) = match (is_known(&choice.key, KEY), is_known(&choice.value, VALUE)) {
            (false, false) if width == 2 => (0, 1),
            (true, false) if width == 2 => {
                let key = chosen(&choice.key, Column::Key, 0)?;
                (key, 1 - key)
            }
            (false, true) if width == 2 => {
                let value = chosen(&choice.value, Column::Value, 1)?;
                (1 - value, value)
            }
            _ => (chosen(&choice.key, Column::Key, 0)?, chosen(&choice.value, Column::Value, 1)?),
        };
        let expires = match choice.expires {
            None if !names.iter().any(|name| name == EXPIRES.as_bytes()) => None,
            _ => Some(chosen(&choice.expires, Column::Expires, 2)?),
        };
        if !header && width > 2 && (choice.key.is_none() || choice.value.is_none()) {
            let message =
                format!("a row has {width} columns: choose two with --key-column and --value-column");
            return Err(Failure::usage(message));
        }
        let base64 = names.iter().position(|name| with_base64 && name == BASE64.as_bytes());
        Ok((Table { names, key, value, expires, base64, width, decoded: Default::default() }, header))
    }

    /// The key and the value of a row, as typed, and when it expires.
    pub(super) fn row<'a>(&'a mut self, fields: &'a Fields) -> Result<TableRow<'a>, Cow<'static, str>> {
        if fields.len() != self.width {
            let (len, width) = (fields.len(), self.width);
            let s = if len == 1 { "" } else { "s" };
            return Err(format!("the row has {len} column{s}, but the first row has {width}").into());
        }
        let mut encoded = [false; 2];
        let list = self.base64.map_or(&b""[..], |at| fields.get(at));
        for name in list.split(|byte| *byte == b' ').filter(|name| !name.is_empty()) {
            let Some(at) = self.names.iter().position(|other| other == name) else {
                let name = String::from_utf8_lossy(name);
                return Err(format!("the column {BASE64} names {name:?}, which is not a column").into());
            };
            encoded[0] |= at == self.key;
            encoded[1] |= at == self.value;
        }
        let [of_key, of_value] = &mut self.decoded;
        let key = decode(fields.get(self.key), encoded[0], "key", of_key)?;
        let value = decode(fields.get(self.value), encoded[1], "value", of_value)?;
        Ok((key, value, self.expires.map_or(Ok(None), |at| moment(fields.get(at)))?))
    }
}

/// When a value expires, from its field.
fn moment(field: &[u8]) -> Result<Option<u64>, Cow<'static, str>> {
    if field.is_empty() {
        return Ok(None);
    }
    let typed = std::str::from_utf8(field).ok().filter(|typed| is_number(typed));
    match typed.and_then(|typed| typed.parse().ok()) {
        Some(moment) => Ok(Some(moment)),
        None => Err("the expiry time is not a number of microseconds since 1970".into()),
    }
}

fn is_number(column: &str) -> bool {
    !column.is_empty() && column.bytes().all(|byte| byte.is_ascii_digit())
}

fn no_column(number: &str) -> Failure {
    Failure::usage(format!("there is no column {number}: columns are numbered from 1"))
}

/// The chosen column, counted from 0. What is the name of one column and the number of another is refused: tables whose
/// columns have no names are often written with a header of numbers, which begin at 0.
fn column(
    chosen: Option<&str>,
    column: Column,
    at: usize,
    names: &[Vec<u8>],
    width: usize,
) -> Outcome<usize> {
    let (what, whose) = match column {
        Column::Key => ("key", "keys"),
        Column::Value => ("value", "values"),
        Column::Expires => ("expires", "times"),
    };
    let wanted = chosen.unwrap_or(column.name());
    let mut found = (0..names.len()).filter(|at| names[*at] == wanted.as_bytes());
    let number = chosen.filter(|chosen| is_number(chosen)).and_then(|chosen| chosen.parse::<usize>().ok());
    match (found.next(), found.next()) {
        (Some(at), None)
            if number.is_some_and(|number| number != at + 1 && (1..=width).contains(&number)) =>
        {
            return Err(Failure::usage(format!(
                "{wanted} is the name of column {} in the header, and the number of another column: without its first row, \
                 `tail -n +2 FILE | esker import - --format FORMAT --no-header`, the file has columns by number only",
                at + 1
            )));
        }
        (Some(at), None) => return Ok(at),
        (Some(_), Some(_)) => {
            return Err(Failure::usage(format!(
                "the header has several columns {wanted:?}: choose one by number"
            )));
        }
        (None, _) => {}
    }
    let at = match chosen {
        None if names.is_empty() => at,
        Some(number) if is_number(number) => match number.parse::<usize>() {
            Ok(number) if number > 0 => number - 1,
            _ => return Err(no_column(number)),
        },
        _ => {
            return Err(Failure::usage(format!(
                "the header has no column {wanted:?}; choose the column of the {whose} with --{what}-column \
                 NAME or NUMBER"
            )));
        }
    };
    if at < width {
        return Ok(at);
    }
    let (number, s) = (at + 1, if width == 1 { "" } else { "s" });
    Err(Failure::usage(format!(
        "there is no column {number} for the {whose}: the first row has {width} column{s}"
    )))
}

/// The bytes of a field, in `out` if they were in base64.
fn decode<'a>(
    field: &'a [u8],
    encoded: bool,
    what: &str,
    out: &'a mut Vec<u8>,
) -> Result<&'a [u8], Cow<'static, str>> {
    if !encoded {
        return Ok(field);
    }
    out.clear();
    match STANDARD.decode_vec(field, out) {
        Ok(()) => Ok(out),
        Err(error) => Err(format!("the {what} is not base64: {error}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tsv;

    fn fields(line: &str) -> Fields {
        let mut fields = Fields::default();
        tsv::parse(line.replace('|', "\t").as_bytes(), &mut fields).unwrap();
        fields
    }

    fn begin(key: &str, value: &str, header: Option<bool>, first: &str) -> Option<(usize, usize, bool)> {
        let chosen = |column: &str| (!column.is_empty()).then(|| column.to_owned());
        let choice = Choice { key: chosen(key), value: chosen(value), header, expires: None };
        let (table, is_header) = Table::begin(&choice, &fields(first), true).ok()?;
        Some((table.key, table.value, is_header))
    }

    #[test]
    fn a_header_is_known_by_its_names_or_said() {
        assert_eq!(begin("", "", None, "key|value"), Some((0, 1, true)));
        assert_eq!(begin("", "", None, "value|x|key"), Some((2, 0, true)));
        assert_eq!(begin("", "", None, "a|b"), None);
        assert_eq!(begin("", "", Some(false), "a|b"), Some((0, 1, false)));
        assert_eq!(begin("", "", Some(false), "key|value"), Some((0, 1, false)));
        assert_eq!(begin("", "", Some(true), "a|b"), Some((0, 1, true)));
        assert_eq!(begin("", "", Some(true), "value|b"), Some((1, 0, true)));
        assert_eq!(begin("", "", Some(true), "a|b|c"), None, "which of them is the key?");
        assert_eq!(begin("", "", Some(false), "a|b|c"), None, "which two of three?");
        assert_eq!(begin("", "", Some(false), "a"), None);
    }

    #[test]
    fn columns_are_chosen_by_name_or_number() {
        assert_eq!(begin("id", "name", None, "x|id|name"), Some((1, 2, true)));
        assert_eq!(begin("id", "", None, "id|value"), Some((0, 1, true)));
        assert_eq!(begin("id", "", None, "id|name"), Some((0, 1, true)));
        assert_eq!(begin("name", "", None, "id|name"), Some((1, 0, true)));
        assert_eq!(begin("", "1", Some(true), "id|name"), Some((1, 0, true)));
        assert_eq!(begin("id", "", None, "id|name|x"), None);
        assert_eq!(begin("id", "name", Some(false), "id|name"), None);
        assert_eq!(begin("3", "1", Some(true), "a|b|c"), Some((2, 0, true)));
        assert_eq!(begin("3", "1", Some(false), "a|b|c"), Some((2, 0, false)));
        assert_eq!(begin("3", "1", None, "a|b|c"), None, "is the first row a header?");
        assert_eq!(
            begin("2024", "1", Some(true), "x|2024"),
            Some((1, 0, true)),
            "a name goes before a number"
        );
        for number in ["0", "4", "99999999999999999999999"] {
            assert_eq!(begin(number, "1", Some(true), "a|b|c"), None, "{number}");
        }
        assert_eq!(begin("a", "b", None, "a|a|b"), None);
        assert_eq!(begin("2", "b", None, "a|a|b"), Some((1, 2, true)));
    }

    #[test]
    fn a_column_says_when_values_expire() {
        let read = |expires: Option<&str>, header, first: &str, line: &str| {
            let expires = expires.map(str::to_owned);
            let choice = Choice { expires, header, key: Some("1".to_owned()), value: Some("2".to_owned()) };
            let (mut table, _) = Table::begin(&choice, &fields(first), true).ok()?;
            table.row(&fields(line)).map(|(.., expires_us)| expires_us).ok()
        };
        assert_eq!(read(None, None, "key|value|expires_us", "a|b|17"), Some(Some(17)));
        assert_eq!(read(None, None, "key|value|expires_us", "a|b|"), Some(None));
        assert_eq!(read(None, None, "key|value|until", "a|b|17"), Some(None));
        assert_eq!(read(Some("until"), None, "key|value|until", "a|b|17"), Some(Some(17)));
        assert_eq!(read(Some("3"), Some(false), "a|b|c", "a|b|18446744073709551615"), Some(Some(u64::MAX)));
        assert_eq!(read(Some("until"), None, "key|value", "a|b"), None);
        for typed in ["-1", "+1", " 1", "1.5", "soon", "18446744073709551616"] {
            assert_eq!(read(None, None, "key|value|expires_us", &format!("a|b|{typed}")), None, "{typed}");
        }
    }

    #[test]
    fn the_column_base64_says_which_are_encoded() {
        let (mut table, _) = Table::begin(&Choice::default(), &fields("key|value|base64"), true).unwrap();
        let mut row = |line: &str| {
            let fields = fields(line);
            table.row(&fields).map(|(key, value, _)| (key.to_vec(), value.to_vec())).ok()
        };
        let is = |key: &[u8], value: &[u8]| Some((key.to_vec(), value.to_vec()));
        assert_eq!(row("/w==|AP8=|"), is(b"/w==", b"AP8="));
        assert_eq!(row("/w==|AP8=|value"), is(b"/w==", &[0, 255]));
        assert_eq!(row("/w==|AP8=|key value"), is(&[255], &[0, 255]));
        for line in ["a|b", "a|b|c|d", "a|b|yes", "a|!|value", "a|b|value"] {
            assert_eq!(row(line), None, "{line}");
        }
    }
}
