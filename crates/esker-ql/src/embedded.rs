//! Statements on the tables of a store in this process.

use std::borrow::Cow;
use std::collections::BTreeSet;

use esker_table::{
    CellBatch, CellWriter, Check, DeleteKind, PutCell, RowMutation, Scan, ScanCounts, Schema, Table,
};

use crate::deletes::{Deleted, deleted};
use crate::error::{Error, Result};
use crate::plan::{Plan, ShownDeletes, check_families};
use crate::statement::{Action, Column, Columns, Condition, Delete, DeleteTime, Select};
use crate::tables::{Cells, LongCell, Tables, counters};

impl Tables for esker_table::Tables {
    fn namespaces(&self) -> Result<Vec<String>> {
        Ok(self.namespaces()?)
    }

    fn create_namespace(&self, name: &str) -> Result<()> {
        Ok(self.create_namespace(name)?)
    }

    fn drop_namespace(&self, name: &str) -> Result<()> {
        Ok(self.drop_namespace(name)?)
    }

    fn names(&self) -> Result<Vec<String>> {
        Ok(self.names())
    }

    fn schema(&self, table: &str) -> Result<Schema> {
        Ok((*self.table(table)?.schema()).clone())
    }

    fn create(&self, table: &str, schema: Schema) -> Result<()> {
        self.create(table, schema)?;
        Ok(())
    }

    fn alter(&self, table: &str, schema: Schema) -> Result<()> {
        Ok(self.alter(table, schema)?)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        Ok(self.rename(from, to)?)
    }

    fn drop_table(&self, table: &str) -> Result<()> {
        Ok(self.drop_table(table)?)
    }

    fn truncate(&self, table: &str) -> Result<bool> {
        self.truncate(table)?;
        Ok(true)
    }

    fn compact(&self, table: &str) -> Result<()> {
        Ok(self.table(table)?.compact()?)
    }

    fn rebuild_indexes(&self, table: &str) -> Result<()> {
        Ok(self.rebuild_indexes(table)?)
    }

    fn insert(&self, table: &str, cells: &CellBatch) -> Result<()> {
        Ok(self.table(table)?.distinct_times().put_cells(cells)?)
    }

    fn begin_long(&self, table: &str, cell: PutCell<'_>) -> Result<Option<Box<dyn LongCell>>> {
        cell.check()?;
        let table = self.table(table)?.distinct_times();
        let writer = table.writer(cell.family)?;
        let PutCell { row, family, qualifier, timestamp, .. } = cell;
        let (row, family, qualifier) = (row.to_vec(), family.to_owned(), qualifier.to_vec());
        Ok(Some(Box::new(Written { table, row, family, qualifier, timestamp, writer })))
    }

    fn delete(&self, table: &str, delete: &Delete) -> Result<()> {
        let mutation = add_delete(RowMutation::new(&delete.row[..]), &delete.columns, delete.time)?;
        Ok(self.table(table)?.mutate(&mutation)?)
    }

    fn increment(&self, table: &str, row: &[u8], column: &Column, by: i64) -> Result<i64> {
        Ok(self.table(table)?.increment(row, &column.family, column.qualifier.clone(), by)?)
    }

    fn append(&self, table: &str, row: &[u8], column: &Column, value: Vec<u8>) -> Result<Vec<u8>> {
        Ok(self.table(table)?.append(row, &column.family, column.qualifier.clone(), value)?)
    }

    fn check(&self, table: &str, row: &[u8], conditions: &[Condition], then: Vec<Action>) -> Result<bool> {
        let checks: Vec<Check> = conditions.iter().map(check).collect();
        let mutation = then.into_iter().try_fold(RowMutation::new(row), |mutation, action| match action {
            Action::Insert { timestamp, column, value } => {
                Ok(put(mutation, timestamp, column, value.into_inner()))
            }
            Action::Delete { columns, time } => add_delete(mutation, &columns, time),
            Action::Increment { column, by } => Ok(mutation.increment(&column.family, column.qualifier, by)),
            Action::Append { column, value } => Ok(mutation.append(&column.family, column.qualifier, value)),
        })?;
        Ok(self.table(table)?.distinct_times().check_and_mutate(&checks, &mutation)?)
    }

    fn select(&self, table: &str, select: &Select) -> Result<Box<dyn Cells>> {
        let Plan { spans, read, is_reversed, left_out, .. } = Plan::of(select)?;
        let opened = self.table(table)?;
        let schema = opened.schema();
        check_families(select, &schema, table)?;
        let scan = if is_reversed {
            opened.scan_spans_reversed(spans, &read)?
        } else {
            opened.scan_spans(spans, &read)?
        };
        let deletes = ShownDeletes::of(select)?;
        Ok(Box::new(Scanned { scan, deletes, left_out, counters: counters(&schema) }))
    }

    fn explain(&self, table: &str, select: &Select) -> Result<Vec<String>> {
        let plan = Plan::of(select)?;
        check_families(select, &self.table(table)?.schema(), table)?;
        let mut lines = vec![format!("table {table}")];
        let opened = self.table(table)?;
        for group in opened.schema().groups() {
            let read = group.families().iter().map(esker_table::Family::name);
            let read: Vec<&str> = read.filter(|name| plan.reads(name)).collect();
            let names = read.join(", ");
            lines.push(match read.is_empty() {
                true => format!("access group {}: not read", group.name()),
                false => format!("access group {}: reads {names}", group.name()),
            });
        }
        lines.extend(plan.describe(opened.index_of(&plan.read)));
        Ok(lines)
    }
}

/// A cell on its way.
struct Written {
    table: Table,
    row: Vec<u8>,
    family: String,
    qualifier: Vec<u8>,
    timestamp: Option<i64>,
    writer: CellWriter,
}

impl LongCell for Written {
    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.writer.add(bytes)?)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let Written { table, row, family, qualifier, timestamp, writer } = *self;
        let (mutation, value) = (RowMutation::new(row), writer.finish()?);
        Ok(table.mutate(&match timestamp {
            Some(timestamp) => mutation.put_stored_at(&family, qualifier, timestamp, value),
            None => mutation.put_stored(&family, qualifier, value),
        })?)
    }
}

/// A value of so many bytes is read piece by piece.
const LONG_VALUE: u64 = 4 << 20;

/// The cells of a scan.
struct Scanned {
    scan: Scan,
    /// The filter is not asked about deletes.
    deletes: ShownDeletes,
    /// The rows and cells of the offsets that the scan leaves out.
    left_out: (u64, u64),
    /// The families that have counters.
    counters: BTreeSet<String>,
}

impl Cells for Scanned {
    fn advance(&mut self) -> Result<bool> {
        while self.scan.advance()? {
            let Scanned { scan, deletes, .. } = &*self;
            if scan.delete().is_none_or(|kind| deletes.has(kind, scan.family(), scan.qualifier())) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn count(&mut self) {
        self.scan.count();
    }

    fn counts(&self) -> Option<ScanCounts> {
        Some(self.scan.counts())
    }

    fn left_out(&self) -> (u64, u64) {
        self.left_out
    }

    fn delete(&self) -> Option<DeleteKind> {
        self.scan.delete()
    }

    fn row(&self) -> &[u8] {
        self.scan.row()
    }

    fn family(&self) -> &str {
        self.scan.family()
    }

    fn is_counter(&self) -> bool {
        self.counters.contains(self.scan.family())
    }

    fn qualifier(&self) -> &[u8] {
        self.scan.qualifier()
    }

    fn timestamp(&self) -> i64 {
        self.scan.timestamp()
    }

    fn value(&self) -> Result<Cow<'_, [u8]>> {
        match self.scan.value() {
            Some(value) => Ok(value.bytes()?),
            None => Ok(Cow::default()),
        }
    }

    fn long_value_len(&self) -> Option<u64> {
        self.scan.value().map(|value| value.len()).filter(|len| *len >= LONG_VALUE)
    }

    fn read_value_at(&self, at: u64, piece: &mut [u8]) -> Result<()> {
        let value = self.scan.to_value()?;
        let value = value.ok_or_else(|| Error::Impossible("the value is not shown".to_owned()))?;
        Ok(value.read_exact_at(at, piece).map_err(esker_table::Error::from)?)
    }
}

fn put(mutation: RowMutation, timestamp: Option<i64>, column: Column, value: Vec<u8>) -> RowMutation {
    let Column { family, qualifier } = column;
    match timestamp {
        Some(timestamp) => mutation.put_at(&family, qualifier, timestamp, value),
        None => mutation.put(&family, qualifier, value),
    }
}

/// Adds the deletes of `columns`; of the row, if there are none.
fn add_delete(mutation: RowMutation, columns: &[Columns], time: DeleteTime) -> Result<RowMutation> {
    let deletes = deleted(columns, time)?.into_iter();
    Ok(deletes.fold(mutation, |mutation, delete| match delete {
        Deleted::Row { up_to: None } => mutation.delete_row(),
        Deleted::Row { up_to: Some(timestamp) } => mutation.delete_row_up_to(timestamp),
        Deleted::Family { family, up_to: None } => mutation.delete_family(family),
        Deleted::Family { family, up_to: Some(timestamp) } => mutation.delete_family_up_to(family, timestamp),
        Deleted::Column { family, qualifier, up_to: None } => mutation.delete_column(family, qualifier),
        Deleted::Column { family, qualifier, up_to: Some(timestamp) } => {
            mutation.delete_column_up_to(family, qualifier, timestamp)
        }
        Deleted::Version { family, qualifier, timestamp } => {
            mutation.delete_version(family, qualifier, timestamp)
        }
    }))
}

fn check(condition: &Condition) -> Check {
    match condition {
        Condition::Absent(column) => Check::absent(&column.family, column.qualifier.clone()),
        Condition::Value { column, comparison, value } => {
            Check::value(&column.family, column.qualifier.clone(), *comparison, value.clone())
        }
    }
}
