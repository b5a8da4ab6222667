//! The tables of a store in a directory. A store that is missing is created with its first table or namespace: a statement
//! that only reads, or that has no tables to change, leaves nothing.

use std::sync::{Arc, OnceLock};

use esker::ErrorKind;
use esker_ql::{Action, Cells, Column, Condition, Delete, Error, LongCell, Result, Select, Tables};
use esker_table::{CellBatch, PutCell, Schema};

use crate::args::Global;
use crate::exit::{Failure, Outcome};
use crate::store::{missing_for, tables_if_there, tables_if_writable};

/// See the module's comment. Clones share the store.
#[derive(Clone)]
pub(crate) struct Local {
    global: Global,
    opened: Arc<OnceLock<esker_table::Tables>>,
}

impl Local {
    /// Opens the store, if it is there.
    pub(crate) fn open(global: &Global) -> Outcome<Local> {
        let opened = tables_if_there(global)?.map(OnceLock::from).unwrap_or_default();
        Ok(Local { global: global.clone(), opened: Arc::new(opened) })
    }

    /// Closes the store, if it is open.
    pub(crate) fn close(&self) -> esker::Result<()> {
        self.opened.get().map_or(Ok(()), |tables| tables.db().clone().close())
    }

    /// The tables; fails if there is no store.
    fn there(&self) -> Result<&esker_table::Tables> {
        self.opened.get().ok_or_else(|| failed(&missing_for(&self.global)))
    }

    /// The tables. Creates the store if it is missing.
    fn made(&self) -> Result<&esker_table::Tables> {
        if self.opened.get().is_none() {
            let tables = tables_if_writable(&self.global).map_err(|failure| failed(&failure))?;
            // Statements run one after the other.
            drop(self.opened.set(tables));
        }
        self.there()
    }
}

/// The error of a store that could not be opened.
fn failed(failure: &Failure) -> Error {
    let kind = if failure.is_of_store() { ErrorKind::NotFound } else { ErrorKind::Cancelled };
    let message = failure.message().unwrap_or_default().to_owned();
    esker_table::Error::from(esker::Error::new(kind, message)).into()
}

impl Tables for Local {
    fn namespaces(&self) -> Result<Vec<String>> {
        Tables::namespaces(self.there()?)
    }

    fn create_namespace(&self, name: &str) -> Result<()> {
        Tables::create_namespace(self.made()?, name)
    }

    fn drop_namespace(&self, name: &str) -> Result<()> {
        let Some(tables) = self.opened.get() else {
            return Err(esker_table::Error::NoNamespace(name.to_owned()).into());
        };
        Tables::drop_namespace(tables, name)
    }

    fn names(&self) -> Result<Vec<String>> {
        Tables::names(self.there()?)
    }

    fn schema(&self, table: &str) -> Result<Schema> {
        Tables::schema(self.there()?, table)
    }

    fn create(&self, table: &str, schema: Schema) -> Result<()> {
        Tables::create(self.made()?, table, schema)
    }

    fn alter(&self, table: &str, schema: Schema) -> Result<()> {
        Tables::alter(self.there()?, table, schema)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        Tables::rename(self.there()?, from, to)
    }

    fn drop_table(&self, table: &str) -> Result<()> {
        // Scripts begin with DROP TABLE IF EXISTS.
        let Some(tables) = self.opened.get() else {
            return Err(esker_table::Error::NoTable(table.to_owned()).into());
        };
        Tables::drop_table(tables, table)
    }

    fn truncate(&self, table: &str) -> Result<bool> {
        Tables::truncate(self.there()?, table)
    }

    fn compact(&self, table: &str) -> Result<()> {
        Tables::compact(self.there()?, table)
    }

    fn rebuild_indexes(&self, table: &str) -> Result<()> {
        Tables::rebuild_indexes(self.there()?, table)
    }

    fn have_counters(&self) -> Result<bool> {
        Tables::have_counters(self.there()?)
    }

    fn insert(&self, table: &str, cells: &CellBatch) -> Result<()> {
        Tables::insert(self.there()?, table, cells)
    }

    fn begin_long(&self, table: &str, cell: PutCell<'_>) -> Result<Option<Box<dyn LongCell>>> {
        Tables::begin_long(self.there()?, table, cell)
    }

    fn delete(&self, table: &str, delete: &Delete) -> Result<()> {
        Tables::delete(self.there()?, table, delete)
    }

    fn increment(&self, table: &str, row: &[u8], column: &Column, by: i64) -> Result<i64> {
        Tables::increment(self.there()?, table, row, column, by)
    }

    fn append(&self, table: &str, row: &[u8], column: &Column, value: Vec<u8>) -> Result<Vec<u8>> {
        Tables::append(self.there()?, table, row, column, value)
    }

    fn check(&self, table: &str, row: &[u8], conditions: &[Condition], then: Vec<Action>) -> Result<bool> {
        Tables::check(self.there()?, table, row, conditions, then)
    }

    fn select(&self, table: &str, select: &Select) -> Result<Box<dyn Cells>> {
        Tables::select(self.there()?, table, select)
    }

    fn explain(&self, table: &str, select: &Select) -> Result<Vec<String>> {
        Tables::explain(self.there()?, table, select)
    }
}
