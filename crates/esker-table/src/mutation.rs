//! What a mutation of a row is to do, step by step.

use esker::StoredValue;

use crate::rising::Put;
use crate::schema::{Family, Schema};

/// A change of one row. All of it counts or nothing, whatever families it touches. Its steps are done in their order: a put
/// after a delete is not removed by it.
///
/// # Example
/// ```
/// use esker_table::RowMutation;
///
/// let mutation = RowMutation::new("station 7")
///     .delete_family("weather")
///     .put("weather", "temperature", "-3.5")
///     .put_at("weather", "wind", 1_700_000_000_000, "12");
/// ```
#[derive(Debug, Clone)]
pub struct RowMutation {
    row: Vec<u8>,
    steps: Vec<Step>,
}

#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// `timestamp`: `None` is the time of the write.
    Put {
        family: String,
        qualifier: Vec<u8>,
        timestamp: Option<i64>,
        value: PutValue,
    },
    Increment {
        family: String,
        qualifier: Vec<u8>,
        by: i64,
    },
    Append {
        family: String,
        qualifier: Vec<u8>,
        bytes: Vec<u8>,
    },
    DeleteRow {
        up_to: Option<i64>,
    },
    DeleteFamily {
        family: String,
        up_to: Option<i64>,
    },
    DeleteColumn {
        family: String,
        qualifier: Vec<u8>,
        up_to: Option<i64>,
    },
    DeleteVersion {
        family: String,
        qualifier: Vec<u8>,
        timestamp: i64,
    },
}

/// The value of a cell that is written.
#[derive(Debug, Clone)]
pub(crate) enum PutValue {
    Bytes(Vec<u8>),
    Stored(StoredValue),
}

impl RowMutation {
    /// A change of `row` (1 to [`ROW_LEN_MAX`](crate::ROW_LEN_MAX) bytes) without steps.
    pub fn new(row: impl Into<Vec<u8>>) -> RowMutation {
        RowMutation { row: row.into(), steps: Vec::new() }
    }

    fn step(mut self, step: Step) -> RowMutation {
        self.steps.push(step);
        self
    }

    /// Writes a cell, with the time of the write as its timestamp.
    #[must_use]
    pub fn put(self, family: &str, qualifier: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> RowMutation {
        let (family, qualifier, value) = (family.to_owned(), qualifier.into(), PutValue::Bytes(value.into()));
        self.step(Step::Put { family, qualifier, timestamp: None, value })
    }

    /// Writes a cell whose value was written piece by piece for this family ([`Table::writer`](crate::Table::writer)).
    #[must_use]
    pub fn put_stored(self, family: &str, qualifier: impl Into<Vec<u8>>, value: StoredValue) -> RowMutation {
        let (family, qualifier, value) = (family.to_owned(), qualifier.into(), PutValue::Stored(value));
        self.step(Step::Put { family, qualifier, timestamp: None, value })
    }

    /// As [`RowMutation::put_stored`], with a timestamp: 0 to [`TIMESTAMP_MAX`](crate::TIMESTAMP_MAX) milliseconds since 1970.
    #[must_use]
    pub fn put_stored_at(
        self,
        family: &str,
        qualifier: impl Into<Vec<u8>>,
        timestamp: i64,
        value: StoredValue,
    ) -> RowMutation {
        let (family, qualifier, value) = (family.to_owned(), qualifier.into(), PutValue::Stored(value));
        self.step(Step::Put { family, qualifier, timestamp: Some(timestamp), value })
    }

    /// Adds `by` to the number in the latest cell of a column, 8 bytes, big-endian; a missing one counts as 0. The new cell
    /// has the time of the write as its timestamp, or that of the latest cell if it is later.
    ///
    /// The mutation fails if the cell is no such number, or if the sum has more than 64 bits. No earlier step of it may touch
    /// the column.
    #[must_use]
    pub fn increment(self, family: &str, qualifier: impl Into<Vec<u8>>, by: i64) -> RowMutation {
        let (family, qualifier) = (family.to_owned(), qualifier.into());
        self.step(Step::Increment { family, qualifier, by })
    }

    /// Appends bytes to the value of the latest cell of a column; a missing one counts as empty. The new cell has a timestamp
    /// as that of [`RowMutation::increment`]. The value and `bytes` have [`APPEND_LEN_MAX`](crate::APPEND_LEN_MAX) bytes at most together. No earlier
    /// step may touch the column.
    #[must_use]
    pub fn append(
        self,
        family: &str,
        qualifier: impl Into<Vec<u8>>,
        bytes: impl Into<Vec<u8>>,
    ) -> RowMutation {
        let (family, qualifier, bytes) = (family.to_owned(), qualifier.into(), bytes.into());
        self.step(Step::Append { family, qualifier, bytes })
    }

    /// Writes a cell with this timestamp, in milliseconds since 1970.
    #[must_use]
    pub fn put_at(
        self,
        family: &str,
        qualifier: impl Into<Vec<u8>>,
        timestamp: i64,
        value: impl Into<Vec<u8>>,
    ) -> RowMutation {
        let (family, qualifier, value) = (family.to_owned(), qualifier.into(), PutValue::Bytes(value.into()));
        self.step(Step::Put { family, qualifier, timestamp: Some(timestamp), value })
    }

    /// Deletes the cells of the row with timestamps up to the time of the write.
    ///
    /// This writes an entry to each access group. Of a table with several groups, many rows are deleted by several calls
    /// ([`Table::mutate_rows`](crate::Table::mutate_rows)).
    #[must_use]
    pub fn delete_row(self) -> RowMutation {
        self.step(Step::DeleteRow { up_to: None })
    }

    /// Deletes the cells of the row with timestamps up to this one, and with this one.
    #[must_use]
    pub fn delete_row_up_to(self, timestamp: i64) -> RowMutation {
        self.step(Step::DeleteRow { up_to: Some(timestamp) })
    }

    /// Deletes the cells of a family with timestamps up to the time of the write.
    #[must_use]
    pub fn delete_family(self, family: &str) -> RowMutation {
        self.step(Step::DeleteFamily { family: family.to_owned(), up_to: None })
    }

    /// Deletes the cells of a family with timestamps up to this one, and with this one.
    #[must_use]
    pub fn delete_family_up_to(self, family: &str, timestamp: i64) -> RowMutation {
        self.step(Step::DeleteFamily { family: family.to_owned(), up_to: Some(timestamp) })
    }

    /// Deletes the cells of a column with timestamps up to the time of the write.
    #[must_use]
    pub fn delete_column(self, family: &str, qualifier: impl Into<Vec<u8>>) -> RowMutation {
        let (family, qualifier) = (family.to_owned(), qualifier.into());
        self.step(Step::DeleteColumn { family, qualifier, up_to: None })
    }

    /// Deletes the cells of a column with timestamps up to this one, and with this one.
    #[must_use]
    pub fn delete_column_up_to(
        self,
        family: &str,
        qualifier: impl Into<Vec<u8>>,
        timestamp: i64,
    ) -> RowMutation {
        let (family, qualifier) = (family.to_owned(), qualifier.into());
        self.step(Step::DeleteColumn { family, qualifier, up_to: Some(timestamp) })
    }

    /// Deletes the cell of a column with this timestamp, and no other.
    ///
    /// Rather use [`RowMutation::delete_column_up_to`] where it does: from the first such step on, a family that keeps a
    /// limited number of versions keeps surplus and deleted ones in its files until they expire or their column is deleted,
    /// and a read of such a column holds 16 bytes of memory for each of its versions.
    #[must_use]
    pub fn delete_version(self, family: &str, qualifier: impl Into<Vec<u8>>, timestamp: i64) -> RowMutation {
        let (family, qualifier) = (family.to_owned(), qualifier.into());
        self.step(Step::DeleteVersion { family, qualifier, timestamp })
    }

    /// The row.
    pub fn row(&self) -> &[u8] {
        &self.row
    }

    /// What it does, in this order.
    pub(crate) fn in_order(&self) -> &[Step] {
        &self.steps
    }

    /// How many sequence numbers the mutation takes.
    pub(crate) fn steps(&self) -> u64 {
        self.steps.len() as u64
    }

    /// How many of its steps delete the row.
    pub(crate) fn row_deletes(&self) -> u64 {
        self.steps.iter().filter(|step| matches!(step, Step::DeleteRow { .. })).count() as u64
    }

    /// Whether it has a step that depends on what the row holds.
    pub(crate) fn reads(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Increment { .. } | Step::Append { .. }))
    }

    /// Whether all of its steps delete.
    pub(crate) fn only_deletes(&self) -> bool {
        self.steps.iter().all(|step| match step {
            Step::Put { .. } | Step::Increment { .. } | Step::Append { .. } => false,
            Step::DeleteRow { .. }
            | Step::DeleteFamily { .. }
            | Step::DeleteColumn { .. }
            | Step::DeleteVersion { .. } => true,
        })
    }

    /// Whether all of its steps are puts.
    pub(crate) fn is_puts(&self) -> bool {
        self.steps.iter().all(|step| matches!(step, Step::Put { .. }))
    }

    /// Its puts without a timestamp, to a table with this schema.
    pub(crate) fn puts<'c>(&'c self, schema: &'c Schema) -> impl Iterator<Item = Put<'c>> + Clone {
        self.steps.iter().filter_map(move |step| match step {
            Step::Put { family, qualifier, timestamp: None, .. } => Some(Put {
                row: &self.row,
                family,
                qualifier,
                kept: schema.family(family).and_then(|(_, family)| family.kept_versions()),
            }),
            _ => None,
        })
    }

    /// The families of which it deletes single versions, as far as `schema` has them.
    pub(crate) fn deletes_versions_of<'s>(&'s self, schema: &'s Schema) -> impl Iterator<Item = &'s Family> {
        self.steps.iter().filter_map(|step| match step {
            Step::DeleteVersion { family, .. } => schema.family(family).map(|(_, family)| family),
            _ => None,
        })
    }
}
