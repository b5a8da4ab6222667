//! What Esker's own methods do, and who may call them.
//!
//! ```text
//! eskerSchema, eskerScannerOpen ScannerGet           Read
//! eskerMutateRows                                    Write; with increments or appends Update
//! eskerCheckAndMutate                                Update
//! eskerCreateTable AlterTable DropTable TruncateTable  Admin
//! eskerRenameTable                                   Admin of both names, and Read of the old one
//! eskerRebuildIndexes                                Admin
//! eskerCreateNamespace DropNamespace                 Admin, of `NAMESPACE:`
//! eskerNamespaces                                    shows those of which the client may read something
//! ```

use std::collections::BTreeSet;

use esker_table::{
    CellBatch, Check, Comparison, Filter, NAME_LEN_MAX, PutCell, RowMutation, Schema, Table, Tables,
};

use super::{Gateway, LATEST, given, read_of, text};
use crate::access::Action;
use crate::fail::{Fail, Outcome, shown};
use crate::idl::own::{self, Call, Condition, Mutation};
use crate::rows::{CELL_LEN, Rows};
use crate::scanners::scanner_len;
use crate::wire::{Kind, Sink};

/// Each condition is a read while others wait for the row.
const CONDITIONS_MAX: usize = 1000;

/// The namespace of tables that name none; it is always there.
const DEFAULT_NAMESPACE: &str = "default";

/// As a namespace counts for rights: a right to all that begins with `shop:` is one to the namespace `shop`.
fn key_of(namespace: &str) -> String {
    format!("{namespace}:")
}

fn schema_of(xml: &[u8]) -> Outcome<Schema> {
    let xml = std::str::from_utf8(xml).map_err(|error| {
        Fail::argument(format!("schema, at byte {}: this is not UTF-8", error.valid_up_to()))
    })?;
    Ok(Schema::from_xml(xml)?)
}

fn family_name(family: Option<&[u8]>) -> Outcome<&str> {
    let family = family.ok_or_else(|| Fail::argument("a change of a family or column names no family"))?;
    std::str::from_utf8(family)
        .map_err(|_| Fail::argument(format!("the column family {} is not UTF-8", shown(family))))
}

/// Adds what `mutation` says to a change of its row.
fn add(row: RowMutation, mutation: &Mutation<'_>) -> Outcome<RowMutation> {
    let Mutation { kind, family, qualifier, value, timestamp, by } = mutation;
    let (has_family, has_qualifier, has_value) = match *kind {
        own::PUT | own::APPEND => (true, true, true),
        own::DELETE_ROW => (false, false, false),
        own::DELETE_FAMILY => (true, false, false),
        own::DELETE_COLUMN | own::DELETE_VERSION | own::INCREMENT => (true, true, false),
        _ => return Err(Fail::argument(format!("there is no kind {kind} of changes"))),
    };
    for (has, is_given, what) in [
        (has_family, family.is_some(), "family"),
        (has_qualifier, qualifier.is_some(), "qualifier"),
        (has_value, value.is_some(), "value"),
        (!reads(mutation), timestamp.is_some(), "timestamp"),
        (*kind == own::INCREMENT, by.is_some(), "number"),
    ] {
        if is_given && !has {
            return Err(Fail::argument(format!("a change of kind {kind} has no {what}")));
        }
    }
    if !has_family {
        return Ok(match timestamp {
            None => row.delete_row(),
            Some(timestamp) => row.delete_row_up_to(*timestamp),
        });
    }
    let (family, qualifier) = (family_name(*family)?, qualifier.unwrap_or_default());
    let value = value.unwrap_or_default();
    Ok(match (*kind, timestamp) {
        (own::PUT, None) => row.put(family, qualifier, value),
        (own::PUT, Some(timestamp)) => row.put_at(family, qualifier, *timestamp, value),
        (own::INCREMENT, _) => row.increment(family, qualifier, by.unwrap_or_default()),
        (own::APPEND, _) => row.append(family, qualifier, value),
        (own::DELETE_FAMILY, None) => row.delete_family(family),
        (own::DELETE_FAMILY, Some(timestamp)) => row.delete_family_up_to(family, *timestamp),
        (own::DELETE_COLUMN, None) => row.delete_column(family, qualifier),
        (own::DELETE_COLUMN, Some(timestamp)) => row.delete_column_up_to(family, qualifier, *timestamp),
        (_, Some(timestamp)) => row.delete_version(family, qualifier, *timestamp),
        (_, None) => return Err(Fail::argument("a delete of a version needs its timestamp")),
    })
}

/// Whether a change depends on what its row has.
fn reads(mutation: &Mutation<'_>) -> bool {
    matches!(mutation.kind, own::INCREMENT | own::APPEND)
}

fn mutation_of(row: &[u8], mutations: &[Mutation<'_>]) -> Outcome<RowMutation> {
    mutations.iter().try_fold(RowMutation::new(row), add)
}

/// The cells of changes that are puts alone, which tables take faster than other changes. `None`: there are others.
fn cells_of(rows: &[own::Row<'_>]) -> Outcome<Option<CellBatch>> {
    let are_puts = |row: &own::Row<'_>| {
        !row.mutations.is_empty() && row.mutations.iter().all(|mutation| mutation.kind == own::PUT)
    };
    if !rows.iter().all(are_puts) {
        return Ok(None);
    }
    let bytes = |put: &Mutation<'_>| put.qualifier.map_or(0, <[u8]>::len) + put.value.map_or(0, <[u8]>::len);
    let len = |row: &own::Row<'_>| row.row.len() + row.mutations.iter().map(bytes).sum::<usize>();
    let count = rows.iter().map(|row| row.mutations.len()).sum();
    let mut cells = CellBatch::with_capacity(count, rows.iter().map(len).sum());
    for own::Row { row, mutations } in rows {
        for Mutation { family, qualifier, value, timestamp, .. } in mutations {
            cells.push(PutCell {
                row,
                family: family_name(*family)?,
                qualifier: qualifier.unwrap_or_default(),
                timestamp: *timestamp,
                value: value.unwrap_or_default(),
            });
        }
    }
    Ok(Some(cells))
}

fn check_of(condition: &Condition<'_>) -> Outcome<Check> {
    let Condition { kind, family, qualifier, value } = condition;
    let (family, qualifier) = (family_name(Some(family))?, *qualifier);
    let comparison = match *kind {
        own::ABSENT | own::PRESENT if value.is_some() => {
            return Err(Fail::argument(format!("a condition of kind {kind} has a value")));
        }
        own::ABSENT => return Ok(Check::absent(family, qualifier)),
        own::PRESENT => return Ok(Check::present(family, qualifier)),
        own::EQUAL => Comparison::Equal,
        own::NOT_EQUAL => Comparison::NotEqual,
        own::LESS => Comparison::Less,
        own::LESS_OR_EQUAL => Comparison::LessOrEqual,
        own::GREATER => Comparison::Greater,
        own::GREATER_OR_EQUAL => Comparison::GreaterOrEqual,
        _ => return Err(Fail::argument(format!("there is no kind {kind} of conditions"))),
    };
    let value = value.ok_or_else(|| Fail::argument("a condition compares with a value, and has none"))?;
    Ok(Check::value(family, qualifier, comparison, value))
}

impl Gateway<'_> {
    /// As [`Gateway::answer`].
    ///
    /// # Errors
    /// What the call throws. What `sink` has of the result then is to be thrown away.
    pub(crate) fn answer_own(&mut self, call: Call<'_>, sink: &mut Sink) -> Outcome<()> {
        match call {
            Call::Version {} => {
                sink.field(0, 0, Kind::Bytes);
                sink.bytes(env!("CARGO_PKG_VERSION").as_bytes());
                Ok(())
            }
            Call::Namespaces {} => self.namespaces(sink),
            Call::CreateNamespace { name } => Ok(self.tables.create_namespace(&self.namespace(name)?)?),
            Call::DropNamespace { name } => Ok(self.tables.drop_namespace(&self.namespace(name)?)?),
            Call::Schema { table } => self.schema(&self.table(Action::Read, table)?, sink),
            Call::CreateTable { table, schema } => {
                let name = self.name(table)?;
                self.tables.create(&name, schema_of(schema)?)?;
                Ok(())
            }
            Call::AlterTable { table, schema } => {
                let name = self.name(table)?;
                Ok(self.tables.alter(&name, schema_of(schema)?)?)
            }
            Call::RenameTable { table, to } => {
                let (from, to) = (self.name(table)?, self.name(to)?);
                // The client may have a right to read all that has the new name.
                self.check(Action::Read, &from)?;
                Ok(self.tables.rename(&from, &to)?)
            }
            Call::DropTable { table } => Ok(self.tables.drop_table(&self.name(table)?)?),
            Call::TruncateTable { table } => Ok(self.tables.truncate(&self.name(table)?)?),
            Call::RebuildIndexes { table } => Ok(self.tables.rebuild_indexes(&self.name(table)?)?),
            Call::MutateRows { table, rows } => {
                let mut changes = rows.iter().flat_map(|row| &row.mutations);
                let action = if changes.any(reads) { Action::Update } else { Action::Write };
                let table = self.table(action, table)?.distinct_times();
                self.count_keys(rows.iter().map(|row| (row.row.len(), row.mutations.len())))?;
                rows.iter().try_for_each(|row| self.count_row(&table, row.row, &row.mutations))?;
                match cells_of(&rows)? {
                    Some(cells) => {
                        drop(rows);
                        Ok(table.put_cells(&cells)?)
                    }
                    None => {
                        self.count_changes(rows.iter().map(|row| row.mutations.len()).sum())?;
                        let rows = rows.iter().map(|row| mutation_of(row.row, &row.mutations));
                        Ok(table.mutate_rows(&rows.collect::<Outcome<Vec<_>>>()?)?)
                    }
                }
            }
            Call::CheckAndMutate { table, row, conditions, mutations } => {
                let table = self.table(Action::Update, table)?.distinct_times();
                if conditions.len() > CONDITIONS_MAX {
                    let count = conditions.len();
                    return Err(Fail::argument(format!(
                        "a check has {CONDITIONS_MAX} conditions at most; this one has {count}"
                    )));
                }
                self.count_keys(std::iter::once((row.len(), mutations.len())))?;
                self.count_row(&table, row, &mutations)?;
                self.count_changes(mutations.len())?;
                let checks = conditions.iter().map(check_of).collect::<Outcome<Vec<_>>>()?;
                let is_done = table.check_and_mutate(&checks, &mutation_of(row, &mutations)?)?;
                sink.field_bool(0, 0, is_done);
                Ok(())
            }
            Call::ScannerOpen { table, scan } => self.open_own(table, &given(scan)?, sink),
            Call::ScannerGet { id, rows } => self.next_rows(id, rows, sink),
            Call::ScannerClose { id } => self.close(id),
        }
    }

    /// Counts the memory of changes of a row that take far more than they have in the message.
    fn count_row(&self, table: &Table, row: &[u8], mutations: &[Mutation<'_>]) -> Outcome<()> {
        for Mutation { kind, family, qualifier, value, .. } in mutations {
            match *kind {
                own::DELETE_ROW => self.count_row_delete(table, row)?,
                own::APPEND => {
                    let (qualifier, value) = (qualifier.unwrap_or_default(), value.unwrap_or_default());
                    self.count_append(table, row, family_name(*family)?, qualifier, value)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn open_own(&mut self, table: &[u8], scan: &own::Scan<'_>, sink: &mut Sink) -> Outcome<()> {
        let table = self.table(Action::Read, table)?;
        let versions = u32::try_from(scan.versions).ok().filter(|versions| *versions > 0);
        let versions = versions.ok_or_else(|| {
            Fail::argument(format!("a scan reads a version at least; this one reads {}", scan.versions))
        })?;
        let (from, until) = (scan.from.unwrap_or(0), scan.until.unwrap_or(LATEST));
        if from < 0 {
            return Err(Fail::argument(format!("a timestamp is not negative; this one is {from}")));
        }
        let mut read = read_of(scan.columns.as_deref(), until)?.time(from..until).versions(versions);
        if let Some(filter) = scan.filter {
            read = read.filter(Filter::parse(filter)?);
        }
        if scan.shows_deletes {
            read = read.with_deletes();
        }
        let rows = if scan.is_reversed {
            table.scan_reversed(scan.start, scan.stop, &read)?
        } else {
            table.scan(scan.start, scan.stop, &read)?
        };
        let in_parts = Rows::new(rows).in_parts(u32::try_from(scan.batch).unwrap_or(0));
        let len = scanner_len(&table, scan.columns.as_deref(), scan.filter);
        self.lease(&table, in_parts.sorted(true), len, sink)
    }

    /// The one name of a table that the client may change, whether there is one or not.
    fn name(&self, table: &[u8]) -> Outcome<String> {
        let name = Tables::full_name(text("the table's name", table)?)?;
        self.check(Action::Admin, &name)?;
        Ok(name)
    }

    /// The name of a namespace that the client may make and drop.
    fn namespace(&self, name: &[u8]) -> Outcome<String> {
        if name.len() > NAME_LEN_MAX {
            let message =
                format!("the name of a namespace has 1 to {NAME_LEN_MAX} bytes, not {}", name.len());
            return Err(Fail::argument(message));
        }
        let name = text("the namespace's name", name)?;
        self.check(Action::Admin, &key_of(name))?;
        Ok(name.to_owned())
    }

    fn namespaces(&self, sink: &mut Sink) -> Outcome<()> {
        let mut namespaces = self.tables.namespaces()?;
        if self.access.is_some() {
            let readable = self.tables.names().into_iter().filter(|name| self.may_read(name));
            let of_tables: BTreeSet<String> =
                readable.filter_map(|name| Some(name.split_once(':')?.0.to_owned())).collect();
            namespaces.retain(|name| {
                name == DEFAULT_NAMESPACE || of_tables.contains(name) || self.may_read(&key_of(name))
            });
        }
        self.make_room_for(&namespaces, sink)?;
        sink.field(0, 0, Kind::List);
        let count = sink.list(Kind::Bytes);
        namespaces.iter().for_each(|name| sink.bytes(name.as_bytes()));
        sink.close(count, namespaces.len() as u32);
        Ok(())
    }

    fn schema(&self, table: &Table, sink: &mut Sink) -> Outcome<()> {
        let (xml, len_max) = (table.schema().to_xml()?, self.limits.len_max);
        if xml.len() > len_max {
            return Err(Fail::io(format!("the schema has more than {len_max} bytes")));
        }
        self.limits.share.make_room(&mut sink.out, xml.len() + CELL_LEN)?;
        sink.field(0, 0, Kind::Bytes);
        sink.bytes(xml.as_bytes());
        Ok(())
    }
}
