//! What each call of HBase's interface does to the tables, and what it answers.
//!
//! Timestamps bound reads exclusively and deletes inclusively; the greatest one, which HBase's clients send for "now", bounds
//! nothing. `docs/thrift.md` lists where answers differ from HBase's.

mod own;

use std::time::Duration;

use esker_table::{
    APPEND_LEN_MAX, AccessGroup, CellBatch, Check, Comparison, Family, Filter, PutCell, ROW_DELETE_LEN,
    ROW_LEN_MAX, Read, RowMutation, Schema, Table, Tables,
};

use crate::access::{Access, Action};
use crate::fail::{Fail, Outcome, Thrown, shown};
use crate::figures::Counters;
use crate::idl::{Append, BatchMutation, CHANGE_LEN, Call, ColumnDescriptor, Increment, Mutation, Scan};
use crate::memory::ReplyLimits;
use crate::rows::{CELL_LEN, Rows, write_cells};
use crate::scanners::{Scanners, no_scanner, scanner_len};
use crate::wire::{Kind, Protocol, Sink};

/// The timestamp that stands for the time of the call.
const LATEST: i64 = i64::MAX;

/// The name of the access group with the families of tables that HBase's clients make.
const GROUP: &str = "default";

/// What the keys of the changes of a call may have together, in bytes.
const KEYS_LEN_MAX: usize = 256 << 20;

/// How many changes a call has that are not all puts: they take more memory.
const CHANGES_MAX: usize = 1 << 20;

/// What `TRegionInfo` says about the layout of regions, as HBase 2 does.
const REGION_VERSION: u8 = 1;

/// The calls of a connection.
pub(crate) struct Gateway<'s> {
    pub(crate) tables: &'s Tables,
    /// `None`: each client may do everything.
    pub(crate) access: Option<&'s dyn Access>,
    /// The name in the client's certificate.
    pub(crate) certificate: Option<Vec<u8>>,
    pub(crate) scanners: Scanners,
    pub(crate) figures: &'s Counters,
    /// The address of the server, for regions.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) limits: ReplyLimits<'s>,
}

/// Which rows a scanner reads, and what of them.
struct Span<'c> {
    start: &'c [u8],
    stop: &'c [u8],
    columns: Option<&'c [&'c [u8]]>,
    timestamp: i64,
}

fn text<'b>(what: &str, bytes: &'b [u8]) -> Outcome<&'b str> {
    std::str::from_utf8(bytes).map_err(|_| Fail::argument(format!("{what} {} is not UTF-8", shown(bytes))))
}

/// A family, and a qualifier if there is a colon. The qualifier may be empty.
fn parse_column(column: &[u8]) -> Outcome<(&str, Option<&[u8]>)> {
    let mut parts = column.splitn(2, |byte| *byte == b':');
    let family = text("the column family", parts.next().unwrap_or_default())?;
    Ok((family, parts.next()))
}

/// A family and a qualifier.
fn whole_column(column: &[u8]) -> Outcome<(&str, &[u8])> {
    match parse_column(column)? {
        (family, Some(qualifier)) => Ok((family, qualifier)),
        (family, None) => Err(Fail::argument(format!(
            "the column {} has no qualifier: expected a colon and a qualifier behind it, which may be empty",
            shown(family.as_bytes())
        ))),
    }
}

fn check_row(row: &[u8]) -> Outcome<&[u8]> {
    if row.is_empty() || row.len() > ROW_LEN_MAX {
        let len = row.len();
        return Err(Fail::argument(format!("a row has 1 to {ROW_LEN_MAX} bytes; this one has {len}")));
    }
    Ok(row)
}

fn check_time(timestamp: i64) -> Outcome<()> {
    if timestamp < 0 {
        return Err(Fail::argument(format!("a timestamp is not negative; this one is {timestamp}")));
    }
    Ok(())
}

/// What a read of `columns` before `timestamp` reads. No columns are all.
fn read_of(columns: Option<&[&[u8]]>, timestamp: i64) -> Outcome<Read> {
    check_time(timestamp)?;
    let mut read = Read::all().time(0..timestamp);
    for column in columns.unwrap_or_default() {
        let (family, qualifier) = parse_column(column)?;
        read = match qualifier {
            Some(qualifier) => read.column_too(family, qualifier),
            None => read.family_too(family),
        };
    }
    Ok(read)
}

/// The rows of a scanner: from `start`, included, to `stop`, excluded, forward or backward. If both are the same row, they are that
/// row alone: a scan of HBase's is a get then.
fn scan_between(
    table: &Table,
    start: &[u8],
    stop: &[u8],
    is_reversed: bool,
    read: &Read,
) -> Outcome<esker_table::Scan> {
    Ok(match is_reversed {
        _ if start == stop && !start.is_empty() => table.scan_spans([esker_table::Span::row(start)], read)?,
        true => table.scan_reversed(start, stop, read)?,
        false => table.scan(start, stop, read)?,
    })
}

/// Adds a delete of `column` up to `timestamp`: of a family, if there is no qualifier.
fn delete(row: RowMutation, column: &[u8], timestamp: i64) -> Outcome<RowMutation> {
    let (family, qualifier) = parse_column(column)?;
    Ok(match (qualifier, timestamp) {
        (Some(qualifier), LATEST) => row.delete_column(family, qualifier),
        (Some(qualifier), _) => row.delete_column_up_to(family, qualifier, timestamp),
        (None, LATEST) => row.delete_family(family),
        (None, _) => row.delete_family_up_to(family, timestamp),
    })
}

/// Adds the puts or the deletes among `mutations`.
fn add(
    mut row: RowMutation,
    mutations: &[Mutation<'_>],
    deletes: bool,
    timestamp: i64,
) -> Outcome<RowMutation> {
    for mutation in mutations.iter().filter(|mutation| mutation.is_delete == deletes) {
        row = if deletes {
            delete(row, mutation.column, timestamp)?
        } else {
            let (family, qualifier) = whole_column(mutation.column)?;
            match timestamp {
                LATEST => row.put(family, qualifier, mutation.value),
                _ => row.put_at(family, qualifier, timestamp, mutation.value),
            }
        };
    }
    Ok(row)
}

/// The cells of changes that are puts alone, which tables take with less memory than other changes. `None`: there are others.
fn cells_of(batches: &[BatchMutation<'_>], timestamp: i64) -> Outcome<Option<CellBatch>> {
    let (mut cells, mut bytes) = (0, 0);
    for BatchMutation { row, mutations } in batches {
        if mutations.iter().any(|mutation| mutation.is_delete) {
            return Ok(None);
        }
        cells += mutations.len();
        bytes += row.len() + mutations.iter().map(|put| put.column.len() + put.value.len()).sum::<usize>();
    }
    let mut batch = CellBatch::with_capacity(cells, bytes);
    let timestamp = Some(timestamp).filter(|timestamp| *timestamp != LATEST);
    for BatchMutation { row, mutations } in batches {
        for Mutation { column, value, .. } in mutations {
            let (family, qualifier) = whole_column(column)?;
            batch.push(PutCell { row, family, qualifier, timestamp, value });
        }
    }
    Ok(Some(batch))
}

/// The error of an increment whose row is all right: the cell, which the client does not give, is not a number, or too large a one.
fn of_sum(error: esker_table::Error) -> Fail {
    match error {
        esker_table::Error::Invalid(message) => Fail::argument(message).into_io_error(),
        error => error.into(),
    }
}

fn family_of(descriptor: &ColumnDescriptor<'_>) -> Outcome<Family> {
    let upper = |bytes: &[u8]| String::from_utf8_lossy(bytes).to_ascii_uppercase();
    let compression = upper(descriptor.compression);
    let known = ["NONE", "GZ", "LZO", "LZ4", "SNAPPY", "BZIP2", "ZSTD", "LZMA", "BROTLI"];
    if !known.contains(&compression.as_str()) {
        return Err(Fail::argument(format!("there is no compression {}", shown(compression.as_bytes()))));
    }
    let bloom = upper(descriptor.bloom_filter);
    if !["NONE", "ROW", "ROWCOL", "ROWPREFIX_FIXED_LENGTH"].contains(&bloom.as_str()) {
        return Err(Fail::argument(format!("there is no type {} of Bloom filters", shown(bloom.as_bytes()))));
    }
    let (name, _) = parse_column(descriptor.name)?;
    if name.is_empty() {
        return Err(Fail::argument("column name is empty"));
    }
    let versions = u32::try_from(descriptor.max_versions).ok().filter(|versions| *versions > 0);
    let versions = versions.ok_or_else(|| {
        Fail::argument(format!(
            "a family keeps 1 to {} versions; {name:?} is to keep {}",
            i32::MAX,
            descriptor.max_versions
        ))
    })?;
    let family =
        Family::new(name).max_versions(if versions == i32::MAX as u32 { None } else { Some(versions) });
    Ok(match u64::try_from(descriptor.time_to_live) {
        Ok(seconds) if seconds > 0 && descriptor.time_to_live != i32::MAX => {
            family.ttl(Duration::from_secs(seconds))
        }
        _ => family,
    })
}

impl Gateway<'_> {
    /// Refuses what the client may not do with a table, whether there is one or not.
    fn check(&self, action: Action, table: &str) -> Outcome<()> {
        let Some(access) = self.access else { return Ok(()) };
        access
            .check(self.certificate.as_deref(), action, table)
            .map_err(|message| Fail::new(Thrown::Denied, message))
    }

    fn may_read(&self, table: &str) -> bool {
        self.check(Action::Read, table).is_ok()
    }

    /// A table for which the client may do that. Rights are to its one name, not to what the client calls it.
    fn table(&self, action: Action, name: &[u8]) -> Outcome<Table> {
        let Ok(name) = std::str::from_utf8(name) else {
            return Err(Fail::new(Thrown::NoTable, format!("there is no table {}", shown(name))));
        };
        let name = Tables::full_name(name)?;
        self.check(action, &name)?;
        Ok(self.tables.table(&name)?)
    }

    /// The table that is meant by its name or by that of one of its regions: `table,start,number`.
    fn table_or_region(&self, action: Action, name: &[u8]) -> Outcome<Table> {
        self.table(action, name.split(|byte| *byte == b',').next().unwrap_or_default())
    }

    /// Does `call`, and writes the result's fields.
    ///
    /// # Errors
    /// What the call throws. What `sink` has of the result then is to be thrown away.
    pub(crate) fn answer(&mut self, call: Call<'_>, sink: &mut Sink) -> Outcome<()> {
        match call {
            Call::EnableTable { table } => self.set_enabled(table, true),
            Call::DisableTable { table } => self.set_enabled(table, false),
            Call::IsTableEnabled { table } => {
                sink.field_bool(0, 0, self.table(Action::Read, table)?.is_enabled());
                Ok(())
            }
            Call::Compact { name } | Call::MajorCompact { name } => {
                Ok(self.table_or_region(Action::Admin, name)?.compact()?)
            }
            Call::GetTableNames {} => {
                let mut names = self.tables.names();
                names.retain(|name| self.may_read(name));
                self.make_room_for(&names, sink)?;
                sink.field(0, 0, Kind::List);
                let count = sink.list(Kind::Bytes);
                names.iter().for_each(|name| sink.bytes(name.as_bytes()));
                sink.close(count, names.len() as u32);
                Ok(())
            }
            Call::GetTableNamesWithIsTableEnabled {} => self.table_states(sink),
            Call::GetColumnDescriptors { table } => self.column_descriptors(table, sink),
            Call::GetTableRegions { table } => {
                sink.field(0, 0, Kind::List);
                let regions = sink.list(Kind::Struct);
                if let Ok(table) = self.table(Action::Read, table) {
                    self.region(&table.name(), sink);
                    sink.close(regions, 1);
                }
                Ok(())
            }
            Call::GetRegionInfo { row } => {
                let table = self.table_or_region(Action::Read, row)?;
                sink.field(0, 0, Kind::Struct);
                self.region(&table.name(), sink);
                Ok(())
            }
            Call::CreateTable { table, families } => self.create(table, &families),
            Call::DeleteTable { table } => {
                let table = self.table(Action::Admin, table)?;
                if table.is_enabled() {
                    let name = table.name();
                    return Err(Fail::io(format!("the table {name:?} is enabled: disable it first")));
                }
                Ok(self.tables.drop_table(&table.name())?)
            }
            Call::Get { table, row, column } => self.get(table, row, column, LATEST, 1, sink),
            Call::GetVer { table, row, column, versions } => {
                self.get(table, row, column, LATEST, versions, sink)
            }
            Call::GetVerTs { table, row, column, timestamp, versions } => {
                self.get(table, row, column, timestamp, versions, sink)
            }
            Call::GetRow { table, row } => self.rows(table, &[row], None, LATEST, sink),
            Call::GetRowWithColumns { table, row, columns } => {
                self.rows(table, &[row], columns.as_deref(), LATEST, sink)
            }
            Call::GetRowTs { table, row, timestamp } => self.rows(table, &[row], None, timestamp, sink),
            Call::GetRowWithColumnsTs { table, row, columns, timestamp } => {
                self.rows(table, &[row], columns.as_deref(), timestamp, sink)
            }
            Call::GetRows { table, rows } => self.rows(table, &rows, None, LATEST, sink),
            Call::GetRowsWithColumns { table, rows, columns } => {
                self.rows(table, &rows, columns.as_deref(), LATEST, sink)
            }
            Call::GetRowsTs { table, rows, timestamp } => self.rows(table, &rows, None, timestamp, sink),
            Call::GetRowsWithColumnsTs { table, rows, columns, timestamp } => {
                self.rows(table, &rows, columns.as_deref(), timestamp, sink)
            }
            Call::MutateRow { table, row, mutations } => self.mutate_row(table, row, mutations, LATEST),
            Call::MutateRowTs { table, row, mutations, timestamp } => {
                self.mutate_row(table, row, mutations, timestamp)
            }
            Call::MutateRows { table, batches } => self.mutate_rows(table, batches, LATEST),
            Call::MutateRowsTs { table, batches, timestamp } => self.mutate_rows(table, batches, timestamp),
            Call::AtomicIncrement { table, row, column, amount } => {
                let (family, qualifier) = parse_column(column)?;
                let qualifier = qualifier.unwrap_or_default();
                let table = self.table(Action::Update, table)?;
                let sum = table.increment(check_row(row)?, family, qualifier, amount).map_err(of_sum)?;
                sink.field(0, 0, Kind::I64);
                sink.i64(sum);
                Ok(())
            }
            Call::Increment { increment } => self.increment(std::slice::from_ref(&given(increment)?)),
            Call::IncrementRows { increments } => self.increment(&increments),
            Call::Append { append } => self.append(&given(append)?, sink),
            Call::CheckAndPut { table, row, column, value, put } => {
                let put = given(put)?;
                let (family, qualifier) = whole_column(column)?;
                // Many languages cannot send a missing value.
                let check = match value.unwrap_or_default() {
                    b"" => Check::empty(family, qualifier),
                    value => Check::value(family, qualifier, Comparison::Equal, value),
                };
                let put = add(RowMutation::new(row), &[Mutation { is_delete: false, ..put }], false, LATEST)?;
                sink.field_bool(0, 0, self.table(Action::Update, table)?.check_and_mutate(&[check], &put)?);
                Ok(())
            }
            Call::DeleteAll { table, row, column } => Ok(self
                .table(Action::Write, table)?
                .mutate(&delete(RowMutation::new(row), column, LATEST)?)?),
            Call::DeleteAllTs { table, row, column, timestamp } => Ok(self
                .table(Action::Write, table)?
                .mutate(&delete(RowMutation::new(row), column, timestamp)?)?),
            Call::DeleteAllRow { table, row } => self.delete_row(table, row, LATEST),
            Call::DeleteAllRowTs { table, row, timestamp } => self.delete_row(table, row, timestamp),
            Call::ScannerOpenWithScan { table, scan } => self.open_scan(table, &given(scan)?, sink),
            Call::ScannerOpen { table, start, columns } => {
                let span = Span { start, stop: b"", columns: columns.as_deref(), timestamp: LATEST };
                self.open(table, &span, sink)
            }
            Call::ScannerOpenTs { table, start, columns, timestamp } => {
                let span = Span { start, stop: b"", columns: columns.as_deref(), timestamp };
                self.open(table, &span, sink)
            }
            Call::ScannerOpenWithStop { table, start, stop, columns } => {
                let span = Span { start, stop, columns: columns.as_deref(), timestamp: LATEST };
                self.open(table, &span, sink)
            }
            Call::ScannerOpenWithStopTs { table, start, stop, columns, timestamp } => {
                self.open(table, &Span { start, stop, columns: columns.as_deref(), timestamp }, sink)
            }
            Call::ScannerOpenWithPrefix { table, prefix, columns } => {
                // No stop is the end of the table.
                let stop = esker::keys::prefix_end(prefix).unwrap_or_default();
                let columns = columns.as_deref();
                self.open(table, &Span { start: prefix, stop: &stop, columns, timestamp: LATEST }, sink)
            }
            Call::ScannerGet { id } => self.next_rows(id, 1, sink),
            Call::ScannerGetList { id, rows } => self.next_rows(id, rows, sink),
            Call::ScannerClose { id } => self.close(id),
            Call::GetThriftServerType {} => {
                sink.field(0, 0, Kind::I32);
                sink.i32(1);
                Ok(())
            }
            Call::GetClusterId {} => {
                sink.field(0, 0, Kind::Bytes);
                sink.bytes(b"esker");
                Ok(())
            }
            Call::Grant {} | Call::Revoke {} => Err(Fail::io("rights are not given by this interface")),
        }
    }

    fn set_enabled(&self, table: &[u8], is_enabled: bool) -> Outcome<()> {
        let table = self.table(Action::Admin, table)?;
        let name = table.name();
        match (table.is_enabled(), is_enabled) {
            (true, true) => Err(Fail::io(format!("the table {name:?} is enabled"))),
            (false, false) => Err(Fail::io(format!("the table {name:?} is disabled"))),
            (_, true) => Ok(self.tables.enable(&name)?),
            (_, false) => Ok(self.tables.disable(&name)?),
        }
    }

    /// Makes room for a list of names.
    fn make_room_for(&self, names: &[String], sink: &mut Sink) -> Outcome<()> {
        let len = names.iter().map(|name| name.len() + CELL_LEN).sum();
        self.limits.share.make_room(&mut sink.out, len)
    }

    fn table_states(&self, sink: &mut Sink) -> Outcome<()> {
        let names = self.tables.names();
        self.make_room_for(&names, sink)?;
        let readable = names.iter().filter(|name| self.may_read(name));
        let tables: Vec<Table> = readable.filter_map(|name| self.tables.table(name).ok()).collect();
        sink.field(0, 0, Kind::Map);
        if tables.is_empty() {
            sink.no_pairs(Kind::Bytes, Kind::Bool);
            return Ok(());
        }
        let count = sink.map(Kind::Bytes, Kind::Bool);
        for table in &tables {
            sink.bytes(table.name().as_bytes());
            sink.element_bool(table.is_enabled());
        }
        sink.close(count, tables.len() as u32);
        Ok(())
    }

    fn column_descriptors(&self, table: &[u8], sink: &mut Sink) -> Outcome<()> {
        let schema = self.table(Action::Read, table)?.schema();
        let families: Vec<&Family> = schema.groups().iter().flat_map(AccessGroup::families).collect();
        sink.field(0, 0, Kind::Map);
        if families.is_empty() {
            sink.no_pairs(Kind::Bytes, Kind::Struct);
            return Ok(());
        }
        let count = sink.map(Kind::Bytes, Kind::Struct);
        for family in &families {
            self.limits.share.make_room(&mut sink.out, 2 * family.name().len() + 2 * CELL_LEN)?;
            let versions = family.kept_versions().and_then(|versions| i32::try_from(versions).ok());
            let ttl = family.time_to_live().and_then(|ttl| i32::try_from(ttl.as_secs()).ok());
            sink.joined(family.name().as_bytes(), b':', b"");
            sink.field(0, 1, Kind::Bytes);
            sink.joined(family.name().as_bytes(), b':', b"");
            sink.field(1, 2, Kind::I32);
            sink.i32(versions.unwrap_or(i32::MAX));
            sink.field(2, 3, Kind::Bytes);
            sink.bytes(b"NONE");
            sink.field_bool(3, 4, false);
            sink.field(4, 5, Kind::Bytes);
            sink.bytes(b"NONE");
            sink.field(5, 6, Kind::I32);
            sink.i32(0);
            sink.field(6, 7, Kind::I32);
            sink.i32(0);
            sink.field_bool(7, 8, true);
            sink.field(8, 9, Kind::I32);
            sink.i32(ttl.unwrap_or(i32::MAX));
            sink.stop();
        }
        sink.close(count, families.len() as u32);
        Ok(())
    }

    /// Writes the one region that a table has.
    fn region(&self, table: &str, sink: &mut Sink) {
        sink.field(0, 1, Kind::Bytes);
        sink.bytes(b"");
        sink.field(1, 2, Kind::Bytes);
        sink.bytes(b"");
        sink.field(2, 3, Kind::I64);
        sink.i64(1);
        sink.field(3, 4, Kind::Bytes);
        sink.bytes(format!("{table},,1").as_bytes());
        sink.field(4, 5, Kind::Byte);
        sink.byte(REGION_VERSION);
        sink.field(5, 6, Kind::Bytes);
        sink.bytes(self.host.as_bytes());
        sink.field(6, 7, Kind::I32);
        sink.i32(i32::from(self.port));
        sink.stop();
    }

    fn create(&self, table: &[u8], descriptors: &[ColumnDescriptor<'_>]) -> Outcome<()> {
        let name = Tables::full_name(text("the table's name", table)?)?;
        self.check(Action::Admin, &name)?;
        if self.tables.table(&name).is_ok() {
            return Err(Fail::new(Thrown::Exists, "table name already in use"));
        }
        if descriptors.is_empty() {
            return Err(Fail::io("a table has at least one column family"));
        }
        let families: Vec<Family> = descriptors.iter().map(family_of).collect::<Outcome<_>>()?;
        self.tables.create(&name, Schema::new().group(GROUP, families))?;
        Ok(())
    }

    fn get(
        &self,
        table: &[u8],
        row: &[u8],
        column: &[u8],
        timestamp: i64,
        versions: i32,
        sink: &mut Sink,
    ) -> Outcome<()> {
        let versions = u32::try_from(versions).ok().filter(|versions| *versions > 0);
        let versions = versions.ok_or_else(|| Fail::io("maxVersions must be positive"))?;
        let read = read_of(Some(&[column]), timestamp)?.versions(versions);
        let scan = self.scan_row(&self.table(Action::Read, table)?, row, &read)?;
        sink.field(0, 0, Kind::List);
        let cells = sink.list(Kind::Struct);
        let count = write_cells(scan, sink, self.limits)?;
        sink.close(cells, count);
        Ok(())
    }

    fn scan_row(&self, table: &Table, row: &[u8], read: &Read) -> Outcome<esker_table::Scan> {
        Ok(table.scan_spans([esker_table::Span::row(check_row(row)?)], read)?)
    }

    fn rows(
        &self,
        table: &[u8],
        rows: &[&[u8]],
        columns: Option<&[&[u8]]>,
        timestamp: i64,
        sink: &mut Sink,
    ) -> Outcome<()> {
        let (table, read) = (self.table(Action::Read, table)?, read_of(columns, timestamp)?);
        sink.field(0, 0, Kind::List);
        let results = sink.list(Kind::Struct);
        let mut count = 0;
        for row in rows {
            let mut row = Rows::new(self.scan_row(&table, row, &read)?);
            count += row.write(sink, 1, self.limits)?;
        }
        sink.close(results, count);
        Ok(())
    }

    /// Counts the memory that the delete of a row takes in the access groups of `table`.
    fn count_row_delete(&self, table: &Table, row: &[u8]) -> Outcome<()> {
        let others = table.schema().groups().len().saturating_sub(1);
        // A zero byte of a key takes two.
        self.limits.share.count_call(others * (2 * row.len() + ROW_DELETE_LEN))
    }

    /// Counts the memory of the keys of changes: each has its row's key. `rows` has the length of each, and how many
    /// changes.
    fn count_keys(&self, rows: impl Iterator<Item = (usize, usize)>) -> Outcome<()> {
        let len =
            rows.map(|(row_len, changes)| row_len.saturating_mul(changes)).fold(0, usize::saturating_add);
        if len > KEYS_LEN_MAX {
            return Err(Fail::argument(format!(
                "each change has the key of its row, and those of a call have {KEYS_LEN_MAX} bytes at most together; these have \
                 {len}: send fewer changes in one call"
            )));
        }
        self.limits.share.count_call(2 * len)
    }

    /// Counts the memory that an append takes: the value that there is, the longer one, and the answer.
    fn count_append(
        &self,
        table: &Table,
        row: &[u8],
        family: &str,
        qualifier: &[u8],
        value: &[u8],
    ) -> Outcome<()> {
        let old = table.value(check_row(row)?, family, qualifier)?.map_or(0, |value| value.len());
        // Longer values than that are refused before they are read.
        let len = old.min(APPEND_LEN_MAX) as usize + value.len();
        self.limits.share.count_call(3 * len)
    }

    fn delete_row(&self, table: &[u8], row: &[u8], timestamp: i64) -> Outcome<()> {
        let table = self.table(Action::Write, table)?;
        self.count_row_delete(&table, row)?;
        let row = RowMutation::new(row);
        let row = if timestamp == LATEST { row.delete_row() } else { row.delete_row_up_to(timestamp) };
        Ok(table.mutate(&row)?)
    }

    /// Counts the memory that changes take which are not all puts.
    fn count_changes(&self, changes: usize) -> Outcome<()> {
        if changes > CHANGES_MAX {
            return Err(Fail::argument(format!(
                "of changes that are not all puts, a call has {CHANGES_MAX} at most, and this one {changes}: send fewer in one call"
            )));
        }
        self.limits.share.count_call(changes * CHANGE_LEN)
    }

    /// Of one row, the deletes come first.
    fn mutate_row(
        &self,
        table: &[u8],
        row: &[u8],
        mutations: Vec<Mutation<'_>>,
        timestamp: i64,
    ) -> Outcome<()> {
        check_time(timestamp)?;
        self.count_keys(std::iter::once((row.len(), mutations.len())))?;
        let batch = [BatchMutation { row, mutations }];
        let [BatchMutation { mutations, .. }] = &batch;
        if let Some(cells) = cells_of(&batch, timestamp)?.filter(|cells| !cells.is_empty()) {
            drop(batch);
            return Ok(self.table(Action::Write, table)?.put_cells(&cells)?);
        }
        self.count_changes(mutations.len())?;
        let deletes = add(RowMutation::new(row), mutations, true, timestamp)?;
        Ok(self.table(Action::Write, table)?.mutate(&add(deletes, mutations, false, timestamp)?)?)
    }

    /// Of several rows, the puts come first.
    fn mutate_rows(&self, table: &[u8], batches: Vec<BatchMutation<'_>>, timestamp: i64) -> Outcome<()> {
        check_time(timestamp)?;
        // Also one without changes.
        batches.iter().try_for_each(|batch| check_row(batch.row).map(drop))?;
        self.count_keys(batches.iter().map(|batch| (batch.row.len(), batch.mutations.len())))?;
        if let Some(cells) = cells_of(&batches, timestamp)? {
            drop(batches);
            return Ok(self.table(Action::Write, table)?.put_cells(&cells)?);
        }
        self.count_changes(batches.iter().map(|batch| batch.mutations.len()).sum())?;
        let mut rows = Vec::with_capacity(batches.len());
        for deletes in [false, true] {
            for batch in &batches {
                if batch.mutations.iter().any(|mutation| mutation.is_delete == deletes) {
                    rows.push(add(RowMutation::new(batch.row), &batch.mutations, deletes, timestamp)?);
                }
            }
        }
        Ok(self.table(Action::Write, table)?.mutate_rows(&rows)?)
    }

    fn increment(&self, increments: &[Increment<'_>]) -> Outcome<()> {
        let mut tables = Vec::with_capacity(increments.len());
        for increment in increments {
            tables.push((self.table(Action::Update, increment.table)?, whole_column(increment.column)?));
        }
        for (increment, (table, (family, qualifier))) in increments.iter().zip(tables) {
            table.increment(increment.row, family, qualifier, increment.amount)?;
        }
        Ok(())
    }

    fn append(&self, append: &Append<'_>, sink: &mut Sink) -> Outcome<()> {
        if append.columns.len() != append.values.len() {
            let (columns, values) = (append.columns.len(), append.values.len());
            return Err(Fail::argument(format!("there are {columns} columns and {values} values to append")));
        }
        let table = self.table(Action::Update, append.table)?;
        self.count_keys(std::iter::once((append.row.len(), append.columns.len())))?;
        let mut row = RowMutation::new(append.row);
        for (column, value) in append.columns.iter().zip(&append.values) {
            let (family, qualifier) = whole_column(column)?;
            self.count_append(&table, append.row, family, qualifier, value)?;
            row = row.append(family, qualifier, *value);
        }
        if append.columns.is_empty() {
            return Err(Fail::argument("there are no columns to append to"));
        }
        let mut cells = table.update(&row)?;
        // As a row has them.
        cells.sort_unstable_by(|one, other| {
            (&one.family, &one.qualifier).cmp(&(&other.family, &other.qualifier))
        });
        let len = cells.iter().map(|cell| cell.value.len() + CELL_LEN).sum::<usize>();
        let len_max = self.limits.len_max;
        if len > len_max {
            return Err(Fail::io(format!(
                "the bytes are appended, but the values have more than {len_max} bytes"
            )));
        }
        sink.field(0, 0, Kind::List);
        let count = sink.list(Kind::Struct);
        for cell in &cells {
            sink.field(0, 1, Kind::Bytes);
            sink.bytes(&cell.value);
            sink.field(1, 2, Kind::I64);
            sink.i64(cell.timestamp);
            sink.stop();
        }
        sink.close(count, cells.len() as u32);
        Ok(())
    }

    fn open(&mut self, table: &[u8], span: &Span<'_>, sink: &mut Sink) -> Outcome<()> {
        let read = read_of(span.columns, span.timestamp)?;
        let table = self.table(Action::Read, table)?;
        let scan = scan_between(&table, span.start, span.stop, false, &read)?;
        let len = scanner_len(&table, span.columns, None);
        self.lease(&table, Rows::new(scan), len, sink)
    }

    fn open_scan(&mut self, table: &[u8], scan: &Scan<'_>, sink: &mut Sink) -> Outcome<()> {
        let mut read = read_of(scan.columns.as_deref(), scan.timestamp.unwrap_or(LATEST))?;
        if let Some(filter) = scan.filter {
            read = read.filter(Filter::parse(filter)?);
        }
        let table = self.table(Action::Read, table)?;
        let rows = scan_between(&table, scan.start, scan.stop, scan.is_reversed, &read)?;
        let in_parts = Rows::new(rows).in_parts(u32::try_from(scan.batch).unwrap_or(0));
        let len = scanner_len(&table, scan.columns.as_deref(), scan.filter);
        self.lease(&table, in_parts.sorted(scan.sorts_columns), len, sink)
    }

    fn lease(&mut self, table: &Table, rows: Rows, len: usize, sink: &mut Sink) -> Outcome<()> {
        let id = self.scanners.add(table.clone(), rows, len)?;
        sink.field(0, 0, Kind::I32);
        sink.i32(id);
        Ok(())
    }

    fn next_rows(&mut self, id: i32, rows: i32, sink: &mut Sink) -> Outcome<()> {
        let rows = u32::try_from(rows)
            .map_err(|_| Fail::argument(format!("{rows} rows are asked for, which is negative")))?;
        let table = self.scanners.table(id).ok_or_else(|| no_scanner(id))?;
        // The client's rights, and the table, may have changed since the scanner was opened.
        let (name, is_enabled) = (table.name(), table.is_enabled());
        self.check(Action::Read, &name)?;
        if !is_enabled {
            return Err(esker_table::Error::Disabled(name).into());
        }
        self.scanners.write_next(id, rows, self.limits, sink)
    }

    fn close(&mut self, id: i32) -> Outcome<()> {
        if self.scanners.close(id) { Ok(()) } else { Err(no_scanner(id)) }
    }

    /// Writes what the client will probably ask for next, while it reads the last answer, into `memory` or not at all.
    pub(crate) fn read_ahead(&mut self, protocol: Protocol, memory: &mut Vec<u8>) {
        self.scanners.read_ahead(protocol, self.limits, memory);
    }
}

fn given<T>(argument: Option<T>) -> Outcome<T> {
    argument.ok_or_else(|| Fail::argument("the call lacks its argument"))
}
