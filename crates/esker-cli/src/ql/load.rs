//! `LOAD DATA INFILE`: rows of values with tabs between them, or what `SEPARATOR` says, in batches.
//!
//! ```text
//! #timestamp  row  column  value         a cell in each line: what DUMP TABLE and INTO FILE write
//! city  id  weather:wind  weather:sky    a row in each line; the first column is its key, or those that the statement names
//! HBASE_ROW_KEY,weather:wind             the same, as HBase's ImportTsv is told of its columns
//! ```
//! What was stored before an error stays, and `FROM_LINE` goes on behind it. With timestamps, loading a line again stores the same
//! cells. A file with a byte order mark is read in that encoding. A compressed file is unpacked twice: its checksum comes last, and what is damaged must not be stored. A long value is
//! written as it is read, if the tables take it so.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::ops::RangeInclusive;

use esker_ql::{Column, LoadData, LongCell, Tables, counter};
use esker_table::{CellBatch, PUTS_OF_A_COLUMN_MAX, PutCell, Schema};

use super::failure::failure;
use super::files::path;
use super::times::{Stamp, Times};
use crate::encoding::{BYTE_ORDER_MARK, unmarked_wide};
use crate::escapes;
use crate::exit::{Failure, Outcome, note};
use crate::feed::{Sink, feed};
use crate::formats::fields::Fields;
use crate::formats::tsv;
use crate::lines::{Input, check_packed, failed, line_max};
use crate::summary::Summary;
use crate::writes::Refused;

/// Size at which a batch is written, in bytes and in cells. Cells without timestamps have a limit of their own: all of them may be of
/// one column.
const BATCH_BYTES: usize = 1 << 20;
const BATCH_CELLS: usize = 10_000;
const BATCH_CELLS_WITHOUT_TIME: usize = PUTS_OF_A_COLUMN_MAX;

/// How many of the wrong lines that are left out a message tells.
const SKIPPED_TOLD: u64 = 10;

/// The longest header.
const HEADER_MAX: u64 = 1 << 20;

/// What a first line that may be a cell is refused with.
const IS_CELL: &str = "the first line looks like a cell, not like a header: SINGLE_CELL_FORMAT reads cells without a header, and a \
                       `#` in front of the line makes it a header";

/// What a line is refused with that does not end as the first cell does.
const MIXED_ENDS: &str = "the line ends in a line feed, the first one in a carriage return and a line feed: a header, such as \
                          `#timestamp<tab>row<tab>column<tab>value`, says by its own end whether carriage returns are part of the values";

/// How ImportTsv calls the columns with the row and the timestamp.
const HBASE_ROW: &[u8] = b"HBASE_ROW_KEY";
const HBASE_TIMESTAMP: &[u8] = b"HBASE_TS_KEY";

/// Other columns of ImportTsv, and why no file that has them is loaded. Leaving them out would lose what they say.
const HBASE_NOT_TAKEN: [(&str, &str); 3] = [
    ("HBASE_ATTRIBUTES_KEY", "there are no attributes of cells"),
    (
        "HBASE_CELL_TTL",
        "there are no times to live of single cells, only of column families (`TTL` in `CREATE TABLE`)",
    ),
    ("HBASE_CELL_VISIBILITY", "there are no visibility labels of cells"),
];

/// What the fields of a line are.
enum Layout {
    Cell {
        has_timestamp: bool,
    },
    Row {
        keys: Vec<usize>,
        timestamp: Option<usize>,
        columns: Vec<(usize, Column)>,
        /// How many fields a line has, at least and at most.
        width: RangeInclusive<usize>,
    },
}

pub(super) fn run(tables: &dyn Tables, table: &str, schema: &Schema, load: &LoadData) -> Outcome {
    let families = schema.groups().iter().flat_map(esker_table::AccessGroup::families);
    let mut loading = Loading {
        tables,
        table,
        load,
        families: families.map(|family| (family.name().to_owned(), family.is_counter())).collect(),
        layout: None,
        may_be_cells: false,
        is_dump: false,
        takes_quotes: false,
        ends: Ends::Unknown,
        of_values: 0,
        times: Times::new(load.timestamp_unit),
        fields: Fields::default(),
        row: Vec::new(),
        cells: CellBatch::new(),
        long: None,
        line: 0,
        lines_taken: 0,
        lines_stored: 0,
        stored: 0,
        skipped: 0,
        random: RandomState::new(),
    };
    if let Some(file) = &load.header_file {
        let file = path(file);
        let mut text = Vec::new();
        let from = Input::open(file)?.text(None).stream()?;
        from.take(HEADER_MAX).read_to_end(&mut text).map_err(|error| failed(file, &error))?;
        let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let layout = loading.layout(line);
        loading.layout =
            Some(layout.map_err(|reason| Failure::usage(format!("{}: {reason}", file.display())))?);
    }
    let file = path(&load.file);
    check_packed(file)?;
    let summary = Summary::start();
    let done = feed(Input::open(file)?.text(None), false, &mut loading);
    let Loading { stored, lines_stored, times, skipped, of_values, .. } = loading;
    summary.print(if stored == 1 { "cell" } else { "cells" }, stored, &[]);
    if skipped > 0 {
        note(&format!("{}: {skipped} wrong lines were left out", file.display()));
    }
    if of_values > 0 {
        note(&format!(
            "{}: the first line ends without a carriage return, so those at the end of {of_values} lines are part of their values",
            file.display()
        ));
    }
    times.note().iter().for_each(|text| note(text));
    if done.is_err() && stored > 0 {
        let next = lines_stored + 1;
        note(&format!(
            "the lines before line {next} are stored; FROM_LINE = {next} goes on there, and SKIP_BAD_LINES leaves out what is wrong"
        ));
    }
    done
}

/// What a carriage return at the end of a line is. Files of Hypertable have such values, and files of Windows such lines: the first line
/// tells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    Unknown,
    /// Part of the value.
    OfValue,
    /// Part of the end, as a header says that ends so.
    OfLine,
    /// The same, as a first line says that is a cell: its value may end so, too.
    OfLineAsSeen,
}

/// What is done with a line that comes in parts.
enum Long {
    /// Nothing: it is in front of `FROM_LINE`, or its cell is left out.
    Skipped,
    /// It is collected.
    Whole(Vec<u8>),
    /// Its value is written as it comes; `pending` is not decoded yet.
    Written { cell: Box<dyn LongCell>, pending: Vec<u8> },
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
    /// Whether the header, of which a column is left out, looks like a cell. The next line decides.
    may_be_cells: bool,
    /// Whether the header begins with `#`, as `DUMP TABLE` and `INTO FILE` write it. They end each line.
    is_dump: bool,
    /// Whether the header, also one of another file, begins with `#`: quotes are parts of the fields. `DUMP TABLE` writes them so.
    takes_quotes: bool,
    /// How its lines end.
    ends: Ends,
    /// How many lines have a last value that ends with a carriage return.
    of_values: u64,
    /// How its timestamps are read.
    times: Times,
    fields: Fields,
    /// The row of a line with columns. Its memory is used again.
    row: Vec<u8>,
    /// The batch, and how many cells were written before.
    cells: CellBatch,
    stored: u64,
    /// The line, if it comes in parts and is not at its end.
    long: Option<Long>,
    /// The number of the line that is looked at, from 1 on; of the last one whose cells are in the batch; and of the last one
    /// whose cells are stored.
    line: u64,
    lines_taken: u64,
    lines_stored: u64,
    /// How many wrong lines were left out.
    skipped: u64,
    random: RandomState,
}

impl Loading<'_> {
    /// What is between the fields of a line.
    fn separator(&self) -> u8 {
        self.load.separator.unwrap_or(b'\t')
    }

    /// What a header says of the fields.
    fn layout(&mut self, line: &[u8]) -> Result<Layout, String> {
        let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        let (line, is_marked) = match line.strip_prefix(b"#") {
            Some(line) => (line, true),
            None => (line, false),
        };
        self.takes_quotes = is_marked;
        let between = self.separator();
        let is_separated = line.contains(&between);
        let names_row =
            |between: u8| line.split(|byte| *byte == between).any(|name| name.trim_ascii() == HBASE_ROW);
        let has_commas = names_row(b',');
        let is_import_tsv = has_commas || names_row(between);
        if !is_separated && line.contains(&b',') && self.load.header_file.is_none() && !is_import_tsv {
            let between =
                if between == b'\t' { "tabs".to_owned() } else { format!("`{}`", between.escape_ascii()) };
            return Err(format!(
                "the header has no {between}; the fields of all lines have {between} between them"
            ));
        }
        // ImportTsv is told of its columns with commas, whatever separates the fields. A file may have them between its own separator.
        let separator = if is_separated && !has_commas { between } else { b',' };
        let names: Vec<&[u8]> = line.split(|byte| *byte == separator).map(<[u8]>::trim_ascii).collect();
        let twice =
            |name: &[u8]| format!("the header has the column {:?} twice", String::from_utf8_lossy(name));
        let mut seen = BTreeSet::new();
        if let Some(name) = names.iter().find(|name| !seen.insert(**name)) {
            return Err(twice(name));
        }
        if let Some((name, what)) = HBASE_NOT_TAKEN.iter().find(|(name, _)| names.contains(&name.as_bytes()))
            && (is_import_tsv || self.column(name.as_bytes()).is_err())
        {
            return Err(format!(
                "the header has ImportTsv's {name}: {what}. Remove the column from the file"
            ));
        }
        if let Some(time) = self.names_of_cells(&names) {
            time.map_or(Ok(()), |time| self.times.read_unit(time))?;
            return Ok(Layout::Cell { has_timestamp: time.is_some() });
        }
        match names.as_slice() {
            [time, b"row", b"column", b"delete", ..] if Times::is_timestamp(time) => {
                return Err("the file has deletes (RETURN_DELETES), which cannot be loaded".to_owned());
            }
            _ if !is_marked && !is_import_tsv && self.is_cell(&names) => {
                if !self.load.ignore_unknown_columns {
                    return Err(IS_CELL.to_owned());
                }
                self.may_be_cells = true;
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
                Ok((family, _, qualifier)) => {
                    // `f` is `f:`.
                    let other: Vec<u8> =
                        if name.contains(&b':') { family.into() } else { [*name, b":"].concat() };
                    if qualifier.is_empty() && seen.contains(&other[..]) {
                        return Err(twice(name));
                    }
                    let column = Column { family: family.to_owned().into(), qualifier: qualifier.to_vec() };
                    columns.push((place, column));
                }
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
        // ImportTsv takes lines without their last fields, if they have a row, a timestamp and a separator.
        let fields_min = match is_import_tsv {
            true => keys.iter().copied().chain(timestamp).max().map_or(2, |last| (last + 1).max(2)),
            false => names.len(),
        };
        if let Some(place) = timestamp {
            self.times.read_unit(names[place])?;
        }
        Ok(Layout::Row { keys, timestamp, columns, width: fields_min..=names.len() })
    }

    /// Whether these names are those of a file of cells; and the name of the timestamps, if it has them. `rowkey` and `columnkey` are
    /// Hypertable's; families of the table may be called so.
    fn names_of_cells<'n>(&self, names: &[&'n [u8]]) -> Option<Option<&'n [u8]>> {
        let (time, names) = match names {
            [time, names @ ..] if names.len() == 3 && Times::is_timestamp(time) => (Some(*time), names),
            names => (None, names),
        };
        let is_of_cells = match names {
            [b"row", b"column", b"value"] => true,
            [b"row" | b"rowkey", column @ (b"column" | b"columnkey"), value @ b"value"] => {
                self.column(column).is_err() || self.column(value).is_err()
            }
            _ => false,
        };
        is_of_cells.then_some(time)
    }

    /// Whether the fields of a first line look like those of a cell: a row, a column of the table and a value that is not a column, after
    /// a timestamp or without one. The statement names no columns of the file.
    fn is_cell(&self, fields: &[&[u8]]) -> bool {
        // A number of nanoseconds is not a timestamp unless the statement names the unit.
        let is_time = |field: &[u8]| field.iter().all(u8::is_ascii_digit) || self.times.stamp(field).is_ok();
        let cell = match fields {
            [time, cell @ ..] if cell.len() == 3 && is_time(time) => cell,
            fields => fields,
        };
        let is_named = !self.load.row_key_columns.is_empty() || self.load.timestamp_column.is_some();
        let [_, column, value] = cell else { return false };
        !is_named
            && self.load.header_file.is_none()
            && self.column(column).is_ok()
            && self.column(value).is_err()
    }

    /// [`column`] of the table.
    fn column<'n>(&self, name: &'n [u8]) -> Result<(&str, bool, &'n [u8]), String> {
        column(&self.families, self.table, name)
    }

    fn split(&mut self, line: &[u8]) -> Result<(), Refused> {
        // What a spreadsheet means by such a field is another value, and the quotes would be stored.
        if !self.takes_quotes
            && memchr::memchr(b'"', line).is_some()
            && let separator = self.separator()
            && let Some(place) = line.split(|byte| *byte == separator).position(tsv::is_quoted)
        {
            return Err(Refused::Malformed(format!(
                "field {} is in quotes, and the quotes in it are doubled, as spreadsheets write them: here, quotes are parts of the value. \
                 Write the file without them, or, if they are meant, a `#` in front of the header",
                place + 1
            )));
        }
        if !self.load.no_escape {
            return tsv::parse_cells(self.separator(), line, &mut self.fields)
                .map_err(|reason| Refused::Malformed(reason.into_owned()));
        }
        let separator = self.separator();
        self.fields.set(line.split(|byte| *byte == separator));
        Ok(())
    }

    fn take(&mut self) -> Result<(), Refused> {
        let mut cells = std::mem::take(&mut self.cells);
        let taken = self.add_to(&mut cells);
        self.cells = cells;
        taken.map_err(Refused::Malformed)?;
        self.lines_taken = self.line;
        let cells_max = if self.has_timestamps() { BATCH_CELLS } else { BATCH_CELLS_WITHOUT_TIME };
        if self.cells.bytes() >= BATCH_BYTES || self.cells.len() >= cells_max {
            self.write().map_err(Refused::Failed)?;
        }
        Ok(())
    }

    /// Adds the cells of the line, of which the fields are, if the table takes such cells.
    fn add_to(&mut self, cells: &mut CellBatch) -> Result<(), String> {
        let found = self.fields.len();
        match &self.layout {
            Some(Layout::Cell { has_timestamp }) => {
                let from = usize::from(*has_timestamp);
                let expected = 3 + from;
                if found != expected {
                    return Err(format!(
                        "{found} fields, expected {expected}{}",
                        hint_at_quotes(&self.fields)
                    ));
                }
                let stamp = has_timestamp.then(|| self.times.stamp(self.fields.get(0))).transpose()?;
                let (row, value) = (self.fields.get(from), self.fields.get(from + 2));
                let name = self.fields.get(from + 1);
                let (family, is_counter, qualifier) = match column(&self.families, self.table, name) {
                    Ok(column) => column,
                    Err(_) if self.load.ignore_unknown_columns => return Ok(()),
                    Err(reason) => return Err(unknown(&reason)),
                };
                let value = &stored(family, is_counter, value)?;
                let stamp = self.stamp(stamp);
                let timestamp = stamp.map(|stamp| stamp.ms);
                let cell = PutCell { row, family, qualifier, timestamp, value };
                cell.check().map_err(|error| error.to_string())?;
                if stamp.is_none_or(|stamp| self.times.is_stored(row, name, stamp)) {
                    cells.push(cell);
                }
            }
            Some(Layout::Row { keys, timestamp: of, columns, width }) => {
                if !width.contains(&found) {
                    let (min, max) = (width.start(), width.end());
                    let least = if min < max { format!("{min} to ") } else { String::new() };
                    return Err(format!(
                        "{found} fields, expected {least}{max}{}",
                        hint_at_quotes(&self.fields)
                    ));
                }
                self.row.clear();
                for (place, key) in keys.iter().enumerate() {
                    if place > 0 {
                        self.row.push(b' ');
                    }
                    self.row.extend_from_slice(self.fields.get(*key));
                }
                let stamp = of.map(|place| self.times.stamp(self.fields.get(place))).transpose()?;
                let timestamp = self.stamp(stamp).map(|stamp| stamp.ms);
                let unique = self.unique(cells);
                self.row.extend(unique);
                let (row, fields) = (&self.row[..], &self.fields);
                let filled =
                    columns.iter().filter(|(place, _)| *place < found && !fields.get(*place).is_empty());
                let put = |(place, column): &(usize, Column), put: &mut dyn FnMut(PutCell<'_>)| {
                    let (family, qualifier) = (column.family.as_str(), &column.qualifier[..]);
                    let is_counter = self.families.get(family) == Some(&true);
                    let value = &stored(family, is_counter, fields.get(*place))?;
                    let cell = PutCell { row, family, qualifier, timestamp, value };
                    cell.check().map_err(|error| error.to_string())?;
                    put(cell);
                    Ok::<(), String>(())
                };
                // A line counts as a whole.
                filled.clone().try_for_each(|column| put(column, &mut |_| {}))?;
                filled.clone().try_for_each(|column| put(column, &mut |cell| cells.push(cell)))?;
            }
            None => {}
        }
        Ok(())
    }

    /// Whether each cell has a timestamp: its own, or that of the statement.
    fn has_timestamps(&self) -> bool {
        let has_own = match &self.layout {
            Some(Layout::Cell { has_timestamp }) => *has_timestamp,
            Some(Layout::Row { timestamp, .. }) => timestamp.is_some(),
            None => false,
        };
        has_own || self.load.timestamp.is_some()
    }

    /// The timestamp that a cell gets: its own, or that of the statement.
    fn stamp(&self, own: Option<Stamp>) -> Option<Stamp> {
        own.or(self.load.timestamp.map(Stamp::from))
    }

    /// Random characters, which make it unlikely that two lines have the same row.
    fn unique(&self, cells: &CellBatch) -> Vec<u8> {
        const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
        let chars = self.load.row_uniquify_chars.unwrap_or_default();
        let number = self.stored + cells.len() as u64;
        (0..chars)
            .map(|place| {
                let hash = self.random.hash_one((number, cells.bytes(), place));
                DIGITS[(hash % DIGITS.len() as u64) as usize]
            })
            .collect()
    }

    /// Begins a line of which `part` is the first part. Returns also how many bytes of it are done with.
    fn begin_long(&mut self, part: &[u8]) -> Result<(Long, usize), Refused> {
        self.line += 1;
        if self.layout.is_some() && self.load.from_line.is_some_and(|from| self.line < from) {
            return Ok((Long::Skipped, 0));
        }
        let whole = Ok((Long::Whole(Vec::new()), 0));
        let Some(Layout::Cell { has_timestamp }) = self.layout else { return whole };
        let from = usize::from(has_timestamp);
        let Some(head_len) = memchr::memchr_iter(self.separator(), part).nth(1 + from) else { return whole };
        // Only its end shows whether a spreadsheet has written it.
        if !self.takes_quotes && part.get(head_len + 1) == Some(&b'"') {
            return whole;
        }
        self.split(&part[..head_len])?;
        let stamp = has_timestamp.then(|| self.times.stamp(self.fields.get(0))).transpose();
        let stamp = stamp.map_err(Refused::Malformed)?;
        let found = match self.column(self.fields.get(from + 1)) {
            Ok((family, is_counter, qualifier)) => (family.to_owned(), is_counter, qualifier.to_vec()),
            Err(_) if self.load.ignore_unknown_columns => return Ok((Long::Skipped, 0)),
            Err(reason) => return Err(Refused::Malformed(unknown(&reason))),
        };
        let (family, is_counter, qualifier) = found;
        if is_counter {
            return whole;
        }
        // So that the cells are written in their order.
        self.write().map_err(Refused::Failed)?;
        let stamp = self.stamp(stamp);
        let (row, qualifier, timestamp) =
            (self.fields.get(from), &qualifier[..], stamp.map(|stamp| stamp.ms));
        let cell = PutCell { row, family: &family, qualifier, timestamp, value: &[] };
        cell.check().map_err(|error| Refused::Malformed(error.to_string()))?;
        let column = self.fields.get(from + 1);
        if stamp.is_some_and(|stamp| !self.times.is_stored(row, column, stamp)) {
            return Ok((Long::Skipped, 0));
        }
        match self.tables.begin_long(self.table, cell).map_err(|error| Refused::Failed(failure(error)))? {
            Some(cell) => Ok((Long::Written { cell, pending: Vec::new() }, head_len + 1)),
            None => whole,
        }
    }

    /// Writes a part of a long value, and the rest of it if the part `is_last`.
    fn add_part(
        &self,
        cell: &mut dyn LongCell,
        pending: &mut Vec<u8>,
        part: &[u8],
        is_last: bool,
    ) -> Result<(), Refused> {
        if part.contains(&self.separator()) {
            return Err(Refused::Malformed(
                "the value has a separator in it: there are more fields than expected".to_owned(),
            ));
        }
        pending.extend_from_slice(part);
        // The line may end behind a carriage return.
        let len = pending.len() - usize::from(!is_last && pending.ends_with(b"\r"));
        let typed = &pending[..len];
        let mut decoded = Vec::new();
        let (bytes, done) = match (self.load.no_escape, is_last) {
            (true, _) => (typed, len),
            (false, true) => {
                let whole = escapes::decode_hql(typed, &mut decoded);
                whole.map_err(|error| Refused::Malformed(error.to_string()))?;
                (&decoded[..], len)
            }
            (false, false) => {
                let done = escapes::decode_part(typed, &mut decoded);
                let done = done.map_err(|error| Refused::Malformed(error.to_string()))?;
                (&decoded[..], done)
            }
        };
        cell.add(bytes).map_err(|error| Refused::Failed(failure(error)))?;
        pending.drain(..done);
        Ok(())
    }

    /// Takes the rest of a line that has come in parts.
    fn end_long(&mut self, long: Long, rest: &[u8]) -> Result<(), Refused> {
        match long {
            Long::Skipped => self.without_end(rest).map(drop),
            Long::Whole(mut line) => {
                append_within(&mut line, rest)?;
                self.whole_line(&line)
            }
            Long::Written { mut cell, mut pending } => {
                pending.extend_from_slice(rest);
                let line = std::mem::take(&mut pending);
                let rest = self.without_end(&line)?;
                self.add_part(&mut *cell, &mut pending, rest, true)?;
                cell.finish().map_err(|error| Refused::Failed(failure(error)))?;
                self.stored += 1;
                (self.lines_taken, self.lines_stored) = (self.line, self.line);
                Ok(())
            }
        }
    }

    /// A line, or the last part of it, without its end.
    fn without_end<'l>(&mut self, line: &'l [u8]) -> Result<&'l [u8], Refused> {
        match line.strip_suffix(b"\n") {
            Some(line) => {
                let without = line.strip_suffix(b"\r");
                match (without, self.ends) {
                    (Some(without), Ends::Unknown) => {
                        self.ends = Ends::OfLineAsSeen;
                        Ok(without)
                    }
                    (None, Ends::Unknown) => {
                        self.ends = Ends::OfValue;
                        Ok(line)
                    }
                    (Some(_), Ends::OfValue) => {
                        self.of_values += 1;
                        Ok(line)
                    }
                    (None, Ends::OfLineAsSeen) => Err(Refused::Malformed(MIXED_ENDS.to_owned())),
                    (without, _) => Ok(without.unwrap_or(line)),
                }
            }
            None if self.is_dump => {
                let reason = "the file ends within this line: it was cut, and there may have been more";
                Err(Refused::Malformed(reason.to_owned()))
            }
            None => Ok(line),
        }
    }

    /// Whether a first line is the header of a dump, and not a cell whose row begins with `#`.
    fn is_cell_header(&self, line: &[u8]) -> Result<bool, String> {
        let Some(names) = line.strip_prefix(b"#") else { return Ok(false) };
        let names: Vec<&[u8]> = names.split(|byte| *byte == self.separator()).collect();
        match names.as_slice() {
            [b"row" | b"rowkey", column @ (b"column" | b"columnkey"), b"value"]
                if self.column(column).is_ok() =>
            {
                let row = String::from_utf8_lossy(names[0]);
                Err(format!(
                    "the line is a header, or a cell of the row \"#{row}\": without SINGLE_CELL_FORMAT, it is a header; HEADER_FILE \
                     makes it a cell"
                ))
            }
            [time, b"row", b"column", b"delete", ..] => Ok(Times::is_timestamp(time)),
            names => Ok(self.names_of_cells(names).is_some()),
        }
    }

    fn whole_line(&mut self, line: &[u8]) -> Result<(), Refused> {
        let mut line = self.without_end(line)?;
        if self.line == 1 {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if self.layout.is_none() && !(self.load.single_cell_format && line.is_empty()) {
            let is_header =
                !self.load.single_cell_format || self.is_cell_header(line).map_err(Refused::Malformed)?;
            self.is_dump = is_header && line.starts_with(b"#");
            if is_header {
                if self.ends == Ends::OfLineAsSeen {
                    self.ends = Ends::OfLine;
                }
                self.layout = Some(self.layout(line).map_err(Refused::Malformed)?);
                return Ok(());
            }
            let has_timestamp = line.iter().filter(|byte| **byte == self.separator()).count() == 3;
            self.layout = Some(Layout::Cell { has_timestamp });
        }
        if line.is_empty() || self.load.from_line.is_some_and(|from| self.line < from) {
            return Ok(());
        }
        self.split(line)?;
        if std::mem::take(&mut self.may_be_cells) && self.is_cell(&self.fields.iter().collect::<Vec<_>>()) {
            // As if the header had been refused: it is not a wrong line that can be left out.
            self.layout = None;
            return Err(Refused::Malformed(IS_CELL.to_owned()));
        }
        self.take()
    }

    fn write(&mut self) -> Outcome {
        if self.cells.is_empty() {
            return Ok(());
        }
        let (written, count) = (self.tables.insert(self.table, &self.cells), self.cells.len() as u64);
        // Also after an error, so that no later batch overtakes this one. The memory of a huge value is given back.
        if self.cells.bytes() > 4 * BATCH_BYTES {
            self.cells = CellBatch::new();
        }
        self.cells.clear();
        written.map_err(failure)?;
        self.stored += count;
        self.lines_stored = self.lines_taken;
        Ok(())
    }
}

/// Of `family:qualifier`, or `family`: the family, whether it has counters, and the qualifier.
fn column<'f, 'n>(
    families: &'f BTreeMap<String, bool>,
    table: &str,
    name: &'n [u8],
) -> Result<(&'f str, bool, &'n [u8]), String> {
    let (family, qualifier) = match memchr::memchr(b':', name) {
        Some(at) => (&name[..at], &name[at + 1..]),
        None => (name, &[][..]),
    };
    match std::str::from_utf8(family).ok().and_then(|family| families.get_key_value(family)) {
        Some((family, is_counter)) => Ok((family, *is_counter, qualifier)),
        None => {
            let family = String::from_utf8_lossy(family);
            Err(format!("the table {table:?} has no column family {family:?}"))
        }
    }
}

/// The error that the table does not have the family of a cell, for which there is `reason`.
fn unknown(reason: &str) -> String {
    format!("{reason}; IGNORE_UNKNOWN_COLUMNS leaves such cells out")
}

/// What to say about a line with a wrong number of fields, if one begins with a quote.
fn hint_at_quotes(fields: &Fields) -> &'static str {
    let begins = |place| fields.get(place).first() == Some(&b'"');
    if (0..fields.len()).any(begins) {
        " (quotes are parts of fields here, and enclose no separators)"
    } else {
        ""
    }
}

/// Appends to a line that is collected.
fn append_within(line: &mut Vec<u8>, part: &[u8]) -> Result<(), Refused> {
    if line.len() + part.len() > line_max(None) || line.try_reserve(part.len()).is_err() {
        return Err(Refused::Malformed(format!(
            "the line has more than {} bytes, too many for the available memory",
            line.len()
        )));
    }
    line.extend_from_slice(part);
    Ok(())
}

/// The bytes that are stored of the value of a field: of a counter, those of its number.
fn stored<'v>(family: &str, is_counter: bool, value: &'v [u8]) -> Result<Cow<'v, [u8]>, String> {
    match is_counter {
        true => {
            counter(value).map_err(|reason| format!("the column family {family:?} has counters: {reason}"))
        }
        false => Ok(Cow::Borrowed(value)),
    }
}

impl Sink for Loading<'_> {
    fn keeps_ends(&self) -> bool {
        true
    }

    fn takes_parts(&self) -> bool {
        true
    }

    fn begin(&mut self, block: &[u8]) -> Outcome {
        let has_header = self.layout.is_none() && !self.load.single_cell_format;
        match unmarked_wide(block).filter(|_| has_header) {
            Some(encoding) => Err(Failure::usage(format!(
                "nothing was loaded: this looks like {} without a byte order mark; `iconv -f {encoding} -t utf-8 FILE` makes it \
                 UTF-8",
                encoding[..6].to_ascii_uppercase()
            ))),
            None => Ok(()),
        }
    }

    fn part(&mut self, part: &[u8]) -> Result<(), Refused> {
        match self.take_part(part) {
            Err(refused) => {
                self.skip(refused, false)?;
                // The rest of the line is passed over.
                self.long = Some(Long::Skipped);
                Ok(())
            }
            taken => taken,
        }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Refused> {
        let taken = match self.long.take() {
            Some(long) => self.end_long(long, line),
            None => {
                self.line += 1;
                self.whole_line(line)
            }
        };
        // That a file was cut is not a mistake of its last line.
        let is_cut = self.is_dump && !line.ends_with(b"\n");
        taken.or_else(|refused| self.skip(refused, is_cut))
    }

    fn settle(&mut self) -> Outcome {
        self.write()
    }
}

impl Loading<'_> {
    /// Leaves the line out if the statement says so; otherwise, or if the file `is_cut`, it stays refused.
    fn skip(&mut self, refused: Refused, is_cut: bool) -> Result<(), Refused> {
        match refused {
            Refused::Malformed(reason) if self.load.skip_bad_lines && self.layout.is_some() && !is_cut => {
                self.skipped += 1;
                if self.skipped <= SKIPPED_TOLD {
                    let file = path(&self.load.file).display();
                    note(&format!("{file}:{}: {reason}; the line is left out", self.line));
                }
                Ok(())
            }
            refused => Err(refused),
        }
    }

    fn take_part(&mut self, part: &[u8]) -> Result<(), Refused> {
        let (mut long, done) = match self.long.take() {
            Some(long) => (long, 0),
            None => self.begin_long(part)?,
        };
        let part = &part[done..];
        match &mut long {
            Long::Skipped => {}
            Long::Whole(line) => append_within(line, part)?,
            Long::Written { cell, pending } => self.add_part(&mut **cell, pending, part, false)?,
        }
        self.long = Some(long);
        Ok(())
    }
}
