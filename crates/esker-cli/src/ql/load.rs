//! `LOAD DATA INFILE`: rows of tab-separated values, in batches.
//!
//! ```text
//! #timestamp  row  column  value         a cell in each line: what DUMP TABLE and INTO FILE write
//! city  id  weather:wind  weather:sky    a row in each line; the first column is its key, or those that the statement names
//! HBASE_ROW_KEY,weather:wind             the same, as HBase's ImportTsv is told of its columns
//! ```
//! What was stored before an error stays. With timestamps in the file, loading it again stores the same cells.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::Read;

use esker_ql::{Column, LoadData, NewCell, Tables, milliseconds};
use esker_table::{ROW_LEN_MAX, TIMESTAMP_MAX};

use super::files::path;
use super::runner::failure;
use crate::exit::{Failure, Outcome};
use crate::feed::{Sink, feed};
use crate::formats::fields::Fields;
use crate::formats::{BYTE_ORDER_MARK, tsv};
use crate::lines::Input;
use crate::summary::Summary;
use crate::writes::Refused;

/// A batch is written when it has so many bytes or cells.
const BATCH_BYTES: usize = 1 << 20;
const BATCH_CELLS: usize = 10_000;

/// The longest header.
const HEADER_MAX: u64 = 1 << 20;

/// The most characters that `ROW_UNIQUIFY_CHARS` appends.
const UNIQUIFY_MAX: u64 = 64;

/// How ImportTsv calls the columns with the row and the timestamp.
const HBASE_ROW: &[u8] = b"HBASE_ROW_KEY";
const HBASE_TIMESTAMP: &[u8] = b"HBASE_TS_KEY";

/// What the fields of a line are.
enum Layout {
    Cell { has_timestamp: bool },
    Row { keys: Vec<usize>, timestamp: Option<usize>, columns: Vec<(usize, Column)>, width: usize },
}

pub(super) fn run(tables: &dyn Tables, table: &str, load: &LoadData) -> Outcome {
    if load.row_uniquify_chars.is_some_and(|chars| chars > UNIQUIFY_MAX) {
        return Err(Failure::usage(format!("ROW_UNIQUIFY_CHARS: {UNIQUIFY_MAX} at most")));
    }
    let schema = tables.schema(table).map_err(failure)?;
    let families = schema.groups().iter().flat_map(esker_table::AccessGroup::families);
    let mut loading = Loading {
        tables,
        table,
        load,
        families: families.map(|family| (family.name().to_owned(), family.is_counter())).collect(),
        layout: None,
        is_dump: false,
        fields: Fields::default(),
        cells: Vec::new(),
        bytes: 0,
        stored: 0,
        random: RandomState::new(),
    };
    if let Some(file) = &load.header_file {
        let file = path(file);
        let failed = |error| Failure::io("read", file, &error);
        let mut text = Vec::new();
        File::open(file).and_then(|from| from.take(HEADER_MAX).read_to_end(&mut text)).map_err(failed)?;
        let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let layout = loading.layout(line);
        loading.layout =
            Some(layout.map_err(|reason| Failure::usage(format!("{}: {reason}", file.display())))?);
    }
    let summary = Summary::start();
    let done = feed(Input::open(path(&load.file))?, false, &mut loading);
    summary.print(if loading.stored == 1 { "cell" } else { "cells" }, loading.stored, &[]);
    done
}

/// The cells of a file on their way.
struct Loading<'t> {
    tables: &'t dyn Tables,
    table: &'t str,
    load: &'t LoadData,
    /// The families of the table, and whether their cells are counters.
    families: BTreeMap<String, bool>,
    /// `None`: the header was not read yet.
    layout: Option<Layout>,
    /// Whether the header begins with `#`, as `DUMP TABLE` and `INTO FILE` write it. They end each line.
    is_dump: bool,
    fields: Fields,
    /// The batch, its bytes, and how many cells were written before.
    cells: Vec<NewCell>,
    bytes: usize,
    stored: u64,
    random: RandomState,
}

impl Loading<'_> {
    /// What a header says of the fields.
    fn layout(&self, line: &[u8]) -> Result<Layout, String> {
        let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        let line = line.strip_prefix(b"#").unwrap_or(line);
        let has_tabs = line.contains(&b'\t');
        let is_import_tsv = line.split(|byte| *byte == b',').any(|name| name.trim_ascii() == HBASE_ROW);
        if !has_tabs && line.contains(&b',') && self.load.header_file.is_none() && !is_import_tsv {
            return Err("the header has no tabs; the fields of all lines have tabs between them".to_owned());
        }
        let separator = if has_tabs { b'\t' } else { b',' };
        let names: Vec<&[u8]> = line.split(|byte| *byte == separator).map(<[u8]>::trim_ascii).collect();
        if let Some(twice) = (1..names.len()).find(|at| names[..*at].contains(&names[*at])) {
            return Err(format!(
                "the header has the column {:?} twice",
                String::from_utf8_lossy(names[twice])
            ));
        }
        match names.as_slice() {
            [b"row", b"column", b"value"] => return Ok(Layout::Cell { has_timestamp: false }),
            [b"timestamp", b"row", b"column", b"value"] => return Ok(Layout::Cell { has_timestamp: true }),
            [b"timestamp", b"row", b"column", b"delete", ..] => {
                return Err("the file has deletes (RETURN_DELETES), which cannot be loaded".to_owned());
            }
            _ => {}
        }
        let place = |name: &[u8]| names.iter().position(|other| *other == name);
        let need = |name: &[u8]| {
            place(name).ok_or_else(|| format!("the header has no column {:?}", String::from_utf8_lossy(name)))
        };
        let keys = if self.load.row_key_columns.is_empty() {
            vec![place(HBASE_ROW).unwrap_or(0)]
        } else {
            self.load.row_key_columns.iter().map(|name| need(name)).collect::<Result<_, _>>()?
        };
        let timestamp = match &self.load.timestamp_column {
            Some(name) => Some(need(name)?),
            None => place(HBASE_TIMESTAMP),
        };
        let mut columns = Vec::new();
        for (place, name) in names.iter().enumerate() {
            let is_key = keys.contains(&place) || timestamp == Some(place);
            if is_key && !self.load.duplicate_key_columns {
                continue;
            }
            match self.column(name) {
                Ok(column) => columns.push((place, column)),
                Err(_) if is_key || self.load.ignore_unknown_columns => {}
                Err(reason) => {
                    return Err(format!(
                        "the header: {reason}; IGNORE_UNKNOWN_COLUMNS leaves such columns out"
                    ));
                }
            }
        }
        if columns.is_empty() {
            return Err("the header names no column of the table".to_owned());
        }
        Ok(Layout::Row { keys, timestamp, columns, width: names.len() })
    }

    /// `family:qualifier`, or `family`.
    fn column(&self, name: &[u8]) -> Result<Column, String> {
        let mut parts = name.splitn(2, |byte| *byte == b':');
        let family = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
        if !self.families.contains_key(&family) {
            return Err(format!("the table {:?} has no column family {family:?}", self.table));
        }
        Ok(Column { family, qualifier: parts.next().unwrap_or_default().to_vec() })
    }

    fn split(&mut self, line: &[u8]) -> Result<(), Refused> {
        if !self.load.no_escape {
            return tsv::parse(line, &mut self.fields)
                .map_err(|reason| Refused::Malformed(reason.into_owned()));
        }
        self.fields.set(line.split(|byte| *byte == b'\t'));
        Ok(())
    }

    fn take(&mut self) -> Result<(), Refused> {
        let malformed = |reason: String| Err(Refused::Malformed(reason));
        let found = self.fields.len();
        match &self.layout {
            Some(Layout::Cell { has_timestamp }) => {
                let expected = 3 + usize::from(*has_timestamp);
                if found != expected {
                    return malformed(format!("{found} fields, expected {expected}"));
                }
                let from = usize::from(*has_timestamp);
                let timestamp = match has_timestamp {
                    true => Some(timestamp(self.fields.get(0)).map_err(Refused::Malformed)?),
                    false => None,
                };
                let column = self.column(self.fields.get(from + 1)).map_err(Refused::Malformed)?;
                let (row, value) = (self.fields.get(from).to_vec(), self.fields.get(from + 2).to_vec());
                self.add(NewCell { timestamp, row, column, value })?;
            }
            Some(Layout::Row { keys, timestamp: of, columns, width }) => {
                if found != *width {
                    return malformed(format!("{found} fields, expected {width}"));
                }
                let mut row =
                    keys.iter().map(|place| self.fields.get(*place)).collect::<Vec<_>>().join(&b' ');
                let timestamp = match of {
                    Some(place) => Some(timestamp(self.fields.get(*place)).map_err(Refused::Malformed)?),
                    None => None,
                };
                row.extend(self.unique());
                let filled = columns.iter().filter(|(place, _)| !self.fields.get(*place).is_empty());
                let cells: Vec<NewCell> = filled
                    .map(|(place, column)| NewCell {
                        timestamp,
                        row: row.clone(),
                        column: column.clone(),
                        value: self.fields.get(*place).to_vec(),
                    })
                    .collect();
                cells.into_iter().try_for_each(|cell| self.add(cell))?;
            }
            None => {}
        }
        if self.bytes >= BATCH_BYTES || self.cells.len() >= BATCH_CELLS {
            self.write().map_err(Refused::Failed)?;
        }
        Ok(())
    }

    /// Random characters, which make it unlikely that two lines have the same row.
    fn unique(&self) -> Vec<u8> {
        const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
        let chars = self.load.row_uniquify_chars.unwrap_or_default();
        let number = self.stored + self.cells.len() as u64;
        (0..chars)
            .map(|place| {
                let hash = self.random.hash_one((number, self.bytes, place));
                DIGITS[(hash % DIGITS.len() as u64) as usize]
            })
            .collect()
    }

    /// Adds a cell, if the table takes such a cell.
    fn add(&mut self, cell: NewCell) -> Result<(), Refused> {
        let (row_len, value_len) = (cell.row.len(), cell.value.len());
        if row_len == 0 || row_len > ROW_LEN_MAX {
            return Err(Refused::Malformed(format!(
                "a row has 1 to {ROW_LEN_MAX} bytes; this one has {row_len}"
            )));
        }
        if value_len != 8 && self.families.get(&cell.column.family) == Some(&true) {
            let family = &cell.column.family;
            return Err(Refused::Malformed(format!(
                "the column family {family:?} has counters: a value has 8 bytes; this one has {value_len}"
            )));
        }
        self.bytes += cell.row.len() + cell.column.qualifier.len() + cell.value.len();
        self.cells.push(cell);
        Ok(())
    }

    fn write(&mut self) -> Outcome {
        let cells = std::mem::take(&mut self.cells);
        let count = cells.len() as u64;
        self.bytes = 0;
        if count > 0 {
            self.tables.insert(self.table, cells).map_err(failure)?;
            self.stored += count;
        }
        Ok(())
    }
}

/// A number of milliseconds since 1970, or a date.
fn timestamp(field: &[u8]) -> Result<i64, String> {
    let number = std::str::from_utf8(field).ok().and_then(|text| text.parse::<i64>().ok());
    let found = number.or_else(|| milliseconds(field));
    found.filter(|timestamp| (0..=TIMESTAMP_MAX).contains(timestamp)).ok_or_else(|| {
        format!(
            "{:?} is no timestamp: expected milliseconds since 1970, or YYYY-MM-DD hh:mm:ss.mmm in UTC",
            String::from_utf8_lossy(field)
        )
    })
}

impl Sink for Loading<'_> {
    fn keeps_ends(&self) -> bool {
        true
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Refused> {
        let line = match line.strip_suffix(b"\n") {
            Some(line) => line.strip_suffix(b"\r").unwrap_or(line),
            None if self.is_dump => {
                let reason = "the file ends within this line: it was cut, and there may have been more";
                return Err(Refused::Malformed(reason.to_owned()));
            }
            None => line,
        };
        if self.layout.is_none() {
            self.is_dump = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line).starts_with(b"#");
            if !self.load.single_cell_format {
                self.layout = Some(self.layout(line).map_err(Refused::Malformed)?);
                return Ok(());
            }
            let has_timestamp = line.iter().filter(|byte| **byte == b'\t').count() == 3;
            self.layout = Some(Layout::Cell { has_timestamp });
            if line.starts_with(b"#") {
                return Ok(());
            }
        }
        if line.is_empty() {
            return Ok(());
        }
        self.split(line)?;
        self.take()
    }

    fn settle(&mut self) -> Outcome {
        self.write()
    }
}
