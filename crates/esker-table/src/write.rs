//! Commands that change a row, apart from the store: what they find and when they are done goes in, what they write comes
//! out. So a replica can apply what one of them has written, and a test can repeat it.

use crate::cell::{self, Kind, NO_FAMILY, TIMESTAMP_MAX, Version};
use crate::error::{Error, Result};
use crate::schema::{Family, Schema};

/// What a command would otherwise have to ask the world for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp {
    /// The time, in milliseconds since 1970.
    pub(crate) now_ms: i64,
    /// The first of as many sequence numbers as the command has steps: higher ones than all before it have.
    pub(crate) sequence: u64,
}

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowMutation {
    row: Vec<u8>,
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// `timestamp`: `None` is the time of the write.
    Put {
        family: String,
        qualifier: Vec<u8>,
        timestamp: Option<i64>,
        value: Vec<u8>,
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
        let (family, qualifier, value) = (family.to_owned(), qualifier.into(), value.into());
        self.step(Step::Put { family, qualifier, timestamp: None, value })
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
        let (family, qualifier, value) = (family.to_owned(), qualifier.into(), value.into());
        self.step(Step::Put { family, qualifier, timestamp: Some(timestamp), value })
    }

    /// Deletes the cells of the row with timestamps up to the time of the write.
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

    /// How many sequence numbers the mutation takes.
    pub(crate) fn steps(&self) -> u64 {
        self.steps.len() as u64
    }

    /// The families of which it deletes single versions, as far as `schema` has them.
    pub(crate) fn deletes_versions_of<'s>(&'s self, schema: &'s Schema) -> impl Iterator<Item = &'s Family> {
        self.steps.iter().filter_map(|step| match step {
            Step::DeleteVersion { family, .. } => schema.family(family).map(|(_, family)| family),
            _ => None,
        })
    }
}

/// An entry of a group's tree that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write<'a> {
    /// The place of the group in the schema.
    pub(crate) group: usize,
    pub(crate) key: Vec<u8>,
    pub(crate) value: &'a [u8],
}

/// What `mutation` writes to the table `name`.
///
/// # Errors
/// `Invalid` or `NoFamily` when the table cannot have such a row, family or timestamp. Nothing of the mutation counts then.
pub(crate) fn mutate<'m>(
    name: &str,
    schema: &Schema,
    mutation: &'m RowMutation,
    stamp: Stamp,
) -> Result<Vec<Write<'m>>> {
    cell::check_row(&mutation.row)?;
    let row = cell::row_prefix(&mutation.row);
    let family = |family: &str| -> Result<(usize, &Family)> {
        let found = schema.family(family);
        found.ok_or_else(|| Error::NoFamily { table: name.to_owned(), family: family.to_owned() })
    };
    let mut writes = Vec::with_capacity(mutation.steps.len());
    for (step, sequence) in mutation.steps.iter().zip(stamp.sequence..) {
        let version = |timestamp: Option<i64>| -> Result<Version> {
            let timestamp = timestamp.unwrap_or(stamp.now_ms);
            if !(0..=TIMESTAMP_MAX).contains(&timestamp) {
                return Err(Error::invalid(format!(
                    "a timestamp is 0 to {TIMESTAMP_MAX} ms; this one is {timestamp}"
                )));
            }
            Ok(Version { timestamp, sequence })
        };
        let mut entry =
            |of: &str, qualifier: &[u8], kind: Kind, version: Version, value: &'m [u8]| -> Result<()> {
                let (group, family) = family(of)?;
                let key = cell::entry_key(cell::column_prefix(&row, family.id, qualifier), kind, version);
                writes.push(Write { group, key, value });
                Ok(())
            };
        match step {
            Step::Put { family, qualifier, timestamp, value } => {
                entry(family, qualifier, Kind::Put, version(*timestamp)?, value)?;
            }
            Step::DeleteColumn { family, qualifier, up_to } => {
                entry(family, qualifier, Kind::DeleteColumn, version(*up_to)?, &[])?;
            }
            Step::DeleteVersion { family, qualifier, timestamp } => {
                entry(family, qualifier, Kind::DeleteVersion, version(Some(*timestamp))?, &[])?;
            }
            Step::DeleteFamily { family: of, up_to } => {
                let (group, family) = family(of)?;
                writes.push(Write {
                    group,
                    key: cell::head_key(&row, family.id, version(*up_to)?),
                    value: &[],
                });
            }
            Step::DeleteRow { up_to } => {
                let version = version(*up_to)?;
                let groups = 0..schema.groups().len();
                writes.extend(groups.map(|group| Write {
                    group,
                    key: cell::head_key(&row, NO_FAMILY, version),
                    value: &[],
                }));
            }
        }
    }
    Ok(writes)
}
