//! What statements run on.
//!
//! ```text
//! Session ──> Tables ──> esker_table::Tables, in this process
//!                    └─> Remote, by Thrift: an Esker server or an HBase cluster
//! ```

use std::borrow::Cow;
use std::collections::BTreeSet;

use esker_table::{AccessGroup, CellBatch, DeleteKind, PutCell, ScanCounts, Schema};

use crate::error::{Error, Result};
use crate::statement::{Action, Column, Condition, Delete, Select};

/// Tables that statements run on. Names of tables are whole: `namespace:table`, or `table` in the namespace `default`.
pub trait Tables {
    /// The namespaces, sorted.
    ///
    /// # Errors
    /// As all methods of this trait: the tables' own.
    fn namespaces(&self) -> Result<Vec<String>>;

    /// Makes a namespace.
    fn create_namespace(&self, name: &str) -> Result<()>;

    /// Removes a namespace, which has no tables.
    fn drop_namespace(&self, name: &str) -> Result<()>;

    /// The names of all tables, sorted.
    fn names(&self) -> Result<Vec<String>>;

    /// The schema of a table.
    fn schema(&self, table: &str) -> Result<Schema>;

    /// Makes a table.
    fn create(&self, table: &str, schema: Schema) -> Result<()>;

    /// Gives a table another schema, which was made from the one that [`Tables::schema`] has returned.
    fn alter(&self, table: &str, schema: Schema) -> Result<()>;

    /// Gives a table another name.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Removes a table.
    fn drop_table(&self, table: &str) -> Result<()>;

    /// Removes all cells of a table, whatever their timestamps. Returns false, and has done nothing, if these tables cannot do that.
    fn truncate(&self, table: &str) -> Result<bool>;

    /// Merges the files of a table.
    fn compact(&self, table: &str) -> Result<()>;

    /// Enters into the indexes of a table what they lack, and removes what is of no use in them.
    fn rebuild_indexes(&self, table: &str) -> Result<()>;

    /// Whether there are families of counters.
    fn have_counters(&self) -> Result<bool> {
        Ok(true)
    }

    /// Writes cells, all of them or none.
    fn insert(&self, table: &str, cells: &CellBatch) -> Result<()>;

    /// Begins a cell whose value is long: its bytes are added piece by piece. The value of `cell` does not count.
    /// `None`: these tables take whole values only.
    fn begin_long(&self, _table: &str, _cell: PutCell<'_>) -> Result<Option<Box<dyn LongCell>>> {
        Ok(None)
    }

    /// Deletes cells of a row.
    fn delete(&self, table: &str, delete: &Delete) -> Result<()>;

    /// Adds to a number. Returns the sum.
    fn increment(&self, table: &str, row: &[u8], column: &Column, by: i64) -> Result<i64>;

    /// Appends to a value. Returns the whole value.
    fn append(&self, table: &str, row: &[u8], column: &Column, value: Vec<u8>) -> Result<Vec<u8>>;

    /// Does `then` to a row if all conditions hold. Returns whether they did.
    fn check(&self, table: &str, row: &[u8], conditions: &[Condition], then: Vec<Action>) -> Result<bool>;

    /// The cells that a query is about: what it selects, in the order in which it is shown. Limits and offsets are the
    /// caller's; the tables may leave out what is behind [`CELL_LIMIT_PER_FAMILY`](crate::SelectOptions), and what the offsets
    /// leave out: [`Cells::left_out`].
    fn select(&self, table: &str, select: &Select) -> Result<Box<dyn Cells>>;

    /// What [`Tables::select`] would read, line by line, without reading it.
    fn explain(&self, table: &str, select: &Select) -> Result<Vec<String>>;
}

/// A cell on its way, of which [`Tables::begin_long`] says more. It is written when it is finished, or not at all.
pub trait LongCell {
    /// Appends to the value.
    ///
    /// # Errors
    /// As all methods of this trait: the tables' own. The cell is not written then.
    fn add(&mut self, bytes: &[u8]) -> Result<()>;

    /// Writes the cell.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// Cells, one after the other, and deletes among them if the query asks for them.
pub trait Cells {
    /// Goes to the next cell. `false`: there is none.
    ///
    /// # Errors
    /// The tables' own. There are no cells behind.
    fn advance(&mut self) -> Result<bool>;

    /// Counts from now on what is read: [`Cells::counts`].
    fn count(&mut self);

    /// What was read until now. `None`: the tables do not tell.
    fn counts(&self) -> Option<ScanCounts>;

    /// How many rows and cells are not among these, since `OFFSET` and `CELL_OFFSET` leave them out and the tables have done it
    /// already. The cells are of rows that are shown; such a row may be among the rows if all of its cells are left out. It
    /// is known from the first cell on.
    fn left_out(&self) -> (u64, u64) {
        (0, 0)
    }

    /// What kind of delete it is at. `None`: it is at a cell. Only a query with `RETURN_DELETES` shows deletes. That of a row has no
    /// family, and that of a family no qualifier; none has a value.
    fn delete(&self) -> Option<DeleteKind>;

    /// The cell's row.
    fn row(&self) -> &[u8];

    /// The cell's column family.
    fn family(&self) -> &str;

    /// Whether the cell's family has counters: its value is a number.
    fn is_counter(&self) -> bool;

    /// What names the column in its family.
    fn qualifier(&self) -> &[u8];

    /// The cell's timestamp, in milliseconds since 1970.
    fn timestamp(&self) -> i64;

    /// The cell's bytes; none if the query asks for keys only.
    ///
    /// # Errors
    /// The tables' own: a long value may have to be read.
    fn value(&self) -> Result<Cow<'_, [u8]>>;

    /// The value's length, if it is so long that [`Cells::read_value_at`] should read it piece by piece. `None`: it is not, or
    /// the tables have it as a whole anyway.
    fn long_value_len(&self) -> Option<u64> {
        None
    }

    /// Fills `piece` with the bytes of the value from `at` on.
    ///
    /// # Errors
    /// As [`Cells::value`]; also if the value ends before.
    fn read_value_at(&self, at: u64, piece: &mut [u8]) -> Result<()> {
        let value = self.value()?;
        let from = usize::try_from(at).ok().and_then(|at| value.get(at..)?.get(..piece.len()));
        let from =
            from.ok_or_else(|| Error::Impossible("the value ends before what is read of it".to_owned()))?;
        piece.copy_from_slice(from);
        Ok(())
    }
}

/// The names of the families that have counters.
pub(crate) fn counters(schema: &Schema) -> BTreeSet<String> {
    let families = schema.groups().iter().flat_map(AccessGroup::families);
    families.filter(|family| family.is_counter()).map(|family| family.name().to_owned()).collect()
}
