//! Commands that change a row, apart from the store: what they find ([`View`]) and when they are done ([`Stamp`]) goes in, what
//! they write comes out. So a replica can apply what one of them has written, and a test can repeat it.

use std::collections::HashSet;

use crate::batch::CellBatch;
use crate::cell::{self, Kind, NO_FAMILY, TIMESTAMP_MAX, Version};
use crate::error::{Error, Result};
use crate::filter::Comparison;
use crate::mutation::{PutValue, RowMutation, Step};
use crate::read::Cell;
use crate::schema::{Family, Schema};

/// What a command would otherwise have to ask the world for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp {
    /// The time, in milliseconds since 1970.
    pub(crate) now_ms: i64,
    /// The first of as many sequence numbers as the command has steps: higher ones than all before it have.
    pub(crate) sequence: u64,
}

/// The longest value that an append makes, in bytes: it is held in memory.
pub const APPEND_LEN_MAX: u64 = 64 << 20;

/// How many bytes the deletes of rows in one call write to other access groups than the first one. A client sends such a delete in a
/// few bytes, and it takes memory in each of up to 1,000 groups.
const ROW_DELETES_LEN_MAX: u64 = 64 << 20;

/// About what the delete of a row takes in memory for each access group beside the row's key, in bytes: the rest of its own key, and
/// its places in lists.
pub const ROW_DELETE_LEN: usize = 100;

/// Fails if `mutations` have several deletes of rows, which together would take too much memory. One is always possible.
///
/// # Errors
/// `Invalid`.
pub(crate) fn check_row_deletes(schema: &Schema, mutations: &[RowMutation]) -> Result<()> {
    let groups = schema.groups().len() as u64;
    if groups < 2 {
        return Ok(());
    }
    let (mut count, mut len) = (0, 0_u64);
    for mutation in mutations {
        let deletes = mutation.row_deletes();
        count += deletes;
        let row_len = if deletes > 0 { cell::row_prefix(mutation.row()).len() as u64 } else { 0 };
        len = len.saturating_add(deletes.saturating_mul((groups - 1) * (row_len + ROW_DELETE_LEN as u64)));
    }
    if count > 1 && len > ROW_DELETES_LEN_MAX {
        return Err(Error::invalid(format!(
            "{count} deletes of rows in {groups} access groups take {len} bytes, and at once they may take {ROW_DELETES_LEN_MAX}: \
             delete fewer rows in one call"
        )));
    }
    Ok(())
}

/// A condition on the latest cell of a column, for [`Table::check_and_mutate`](crate::Table::check_and_mutate).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    family: String,
    qualifier: Vec<u8>,
    condition: Condition,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Condition {
    Absent,
    Empty,
    Present,
    Value(Comparison, Vec<u8>),
}

impl Check {
    /// The column has no cell.
    pub fn absent(family: &str, qualifier: impl Into<Vec<u8>>) -> Check {
        Check { family: family.to_owned(), qualifier: qualifier.into(), condition: Condition::Absent }
    }

    /// The column has no cell, or its latest one has no bytes: to a check of HBase's these are the same.
    pub fn empty(family: &str, qualifier: impl Into<Vec<u8>>) -> Check {
        Check { family: family.to_owned(), qualifier: qualifier.into(), condition: Condition::Empty }
    }

    /// The column has a cell.
    pub fn present(family: &str, qualifier: impl Into<Vec<u8>>) -> Check {
        Check { family: family.to_owned(), qualifier: qualifier.into(), condition: Condition::Present }
    }

    /// The value of the column's latest cell stands so to `value`, byte by byte: `Comparison::Less` holds if the cell is less.
    /// A column without a cell meets no such condition, not even `NotEqual`.
    pub fn value(
        family: &str,
        qualifier: impl Into<Vec<u8>>,
        comparison: Comparison,
        value: impl Into<Vec<u8>>,
    ) -> Check {
        let condition = Condition::Value(comparison, value.into());
        Check { family: family.to_owned(), qualifier: qualifier.into(), condition }
    }

    /// Whether the row that `view` shows meets the condition.
    pub(crate) fn holds(&self, view: &impl View) -> Result<bool> {
        // Of a longer one, no more decides than that it is longer.
        let len_max = match &self.condition {
            Condition::Value(_, value) => value.len() as u64 + 1,
            Condition::Absent | Condition::Empty | Condition::Present => 0,
        };
        let cell = view.latest(&self.family, &self.qualifier, len_max)?;
        Ok(match (&self.condition, cell) {
            (Condition::Absent, cell) => cell.is_none(),
            (Condition::Empty, cell) => cell.is_none_or(|cell| cell.len == 0),
            (Condition::Present, cell) => cell.is_some(),
            (Condition::Value(..), None) => false,
            (Condition::Value(comparison, value), Some(cell)) => comparison.passes(cell.bytes.cmp(value)),
        })
    }
}

/// The latest cell of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Latest {
    pub(crate) timestamp: i64,
    /// The length of its value.
    pub(crate) len: u64,
    /// The beginning of its value.
    pub(crate) bytes: Vec<u8>,
}

/// A row before a change.
pub(crate) trait View {
    /// The latest cell of a column, with so many bytes of it at most.
    fn latest(&self, family: &str, qualifier: &[u8], len_max: u64) -> Result<Option<Latest>>;
}

/// What a mutation has done.
#[derive(Debug, Clone)]
pub(crate) struct Outcome<'a> {
    pub(crate) writes: Vec<Write<'a>>,
    /// The cells that its increments and appends write.
    pub(crate) cells: Vec<Cell>,
}

/// The value of an entry that is written.
#[derive(Debug, Clone)]
pub(crate) enum WriteValue<'a> {
    Nothing,
    Put(&'a PutValue),
    /// That of the cell at this place of the outcome.
    Of(usize),
}

/// An entry of a group's tree that is written.
#[derive(Debug, Clone)]
pub(crate) struct Write<'a> {
    /// The place of the group in the schema.
    pub(crate) group: usize,
    pub(crate) key: Vec<u8>,
    pub(crate) value: WriteValue<'a>,
}

/// What the steps of a mutation have touched so far.
#[derive(Default)]
struct Touched<'m> {
    columns: HashSet<(&'m str, &'m [u8])>,
    families: HashSet<&'m str>,
    row: bool,
}

impl<'m> Touched<'m> {
    /// Notes that a step is going to read and write the column.
    ///
    /// # Errors
    /// `Invalid` when an earlier step has touched it.
    fn read(&mut self, family: &'m str, qualifier: &'m [u8]) -> Result<()> {
        if self.row || self.families.contains(family) || !self.columns.insert((family, qualifier)) {
            return Err(Error::invalid(format!(
                "an increment or append of \"{family}:{}\", which an earlier step of the same mutation has touched",
                qualifier.escape_ascii()
            )));
        }
        Ok(())
    }
}

/// What `mutation` writes to the table `name`. Its puts without a timestamp get the next ones of `times`.
///
/// # Errors
/// `Invalid` or `NoFamily` when the table cannot have such a row, family or timestamp, or when a cell is no number that can be
/// incremented. Nothing of the mutation counts then.
pub(crate) fn mutate<'m>(
    name: &str,
    schema: &Schema,
    mutation: &'m RowMutation,
    stamp: Stamp,
    times: &mut impl Iterator<Item = i64>,
    view: &impl View,
) -> Result<Outcome<'m>> {
    cell::check_row(mutation.row())?;
    let row = cell::row_prefix(mutation.row());
    let family = |family: &str| family_of(name, schema, family);
    let mut writes = Vec::with_capacity(mutation.in_order().len());
    let (mut cells, mut touched, reads) = (Vec::new(), Touched::default(), mutation.reads());
    for (step, sequence) in mutation.in_order().iter().zip(stamp.sequence..) {
        let version = |timestamp: Option<i64>| version(timestamp.unwrap_or(stamp.now_ms), sequence);
        let mut entry =
            |of: &str, qualifier: &[u8], kind: Kind, version: Version, value: WriteValue<'m>| -> Result<()> {
                let (group, family) = family(of)?;
                let key = cell::entry_key(cell::column_prefix(&row, family.id, qualifier), kind, version);
                writes.push(Write { group, key, value });
                Ok(())
            };
        match step {
            Step::Put { family: of, qualifier, timestamp, value } => {
                check_value(
                    family(of)?.1,
                    matches!(value, PutValue::Bytes(bytes) if bytes.len() == COUNTER_LEN),
                )?;
                let timestamp = timestamp.or_else(|| times.next());
                entry(of, qualifier, Kind::Put, version(timestamp)?, WriteValue::Put(value))?;
            }
            Step::Increment { family, qualifier, .. } | Step::Append { family, qualifier, .. } => {
                touched.read(family, qualifier)?;
                let is_append = matches!(step, Step::Append { .. });
                if is_append && family_of(name, schema, family)?.1.is_counter() {
                    return Err(Error::invalid(format!(
                        "the column family {family:?} has counters: nothing is appended"
                    )));
                }
                // Of a longer cell that is to be incremented, it is enough to know that it is longer.
                let len_max = if is_append { APPEND_LEN_MAX } else { COUNTER_LEN as u64 + 1 };
                let old = view.latest(family, qualifier, len_max)?;
                let value = match step {
                    Step::Increment { by, .. } => incremented(old.as_ref(), *by)?,
                    Step::Append { bytes, .. } => appended(old.as_ref(), bytes)?,
                    _ => Vec::new(),
                };
                let timestamp = old.map_or(stamp.now_ms, |old| old.timestamp.max(stamp.now_ms));
                entry(family, qualifier, Kind::Put, version(Some(timestamp))?, WriteValue::Of(cells.len()))?;
                let (family, qualifier) = (family.clone(), qualifier.clone());
                cells.push(Cell { family, qualifier, timestamp, value });
            }
            Step::DeleteColumn { family, qualifier, up_to } => {
                entry(family, qualifier, Kind::DeleteColumn, version(*up_to)?, WriteValue::Nothing)?;
            }
            Step::DeleteVersion { family, qualifier, timestamp } => {
                let version = version(Some(*timestamp))?;
                entry(family, qualifier, Kind::DeleteVersion, version, WriteValue::Nothing)?;
            }
            Step::DeleteFamily { family: of, up_to } => {
                let (group, family) = family(of)?;
                touched.families.insert(of);
                writes.push(Write {
                    group,
                    key: cell::head_key(&row, family.id, version(*up_to)?),
                    value: WriteValue::Nothing,
                });
            }
            Step::DeleteRow { up_to } => {
                touched.row = true;
                let version = version(*up_to)?;
                let groups = 0..schema.groups().len();
                writes.extend(groups.map(|group| Write {
                    group,
                    key: cell::head_key(&row, NO_FAMILY, version),
                    value: WriteValue::Nothing,
                }));
            }
        }
        if let Step::Put { family, qualifier, .. }
        | Step::DeleteColumn { family, qualifier, .. }
        | Step::DeleteVersion { family, qualifier, .. } = step
            && reads
        {
            touched.columns.insert((family, qualifier));
        }
    }
    Ok(Outcome { writes, cells })
}

/// Calls `write` for each of `cells` with the place of its group in the schema, its key and its value. They are put to the table
/// `name`. Cells without a timestamp get the next ones of `times`.
///
/// # Errors
/// As [`mutate`], and those of `write`.
pub(crate) fn put_cells(
    name: &str,
    schema: &Schema,
    cells: &CellBatch,
    stamp: Stamp,
    times: &mut impl Iterator<Item = i64>,
    mut write: impl FnMut(usize, &[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    let families = cells.families().iter().map(|family| family_of(name, schema, family));
    let families: Vec<(usize, &Family)> = families.collect::<Result<_>>()?;
    let (mut key, mut row_len) = (Vec::new(), 0);
    for ((cell, family, is_of_last_row), sequence) in cells.placed().zip(stamp.sequence..) {
        if !is_of_last_row {
            cell::check_row(cell.row)?;
            key.clear();
            cell::push_escaped(&mut key, cell.row);
            row_len = key.len();
        }
        cell::check_key(cell.row, cell.qualifier)?;
        let (group, family) = families[family];
        check_value(family, cell.value.len() == COUNTER_LEN)?;
        let timestamp = cell.timestamp.or_else(|| times.next()).unwrap_or(stamp.now_ms);
        let version = version(timestamp, sequence)?;
        key.truncate(row_len);
        cell::push_put(&mut key, family.id, cell.qualifier, version);
        write(group, &key, cell.value)?;
    }
    Ok(())
}

/// # Errors
/// `Invalid` when cells cannot have the timestamp.
fn version(timestamp: i64, sequence: u64) -> Result<Version> {
    if !(0..=TIMESTAMP_MAX).contains(&timestamp) {
        return Err(Error::invalid(format!(
            "a timestamp is 0 to {TIMESTAMP_MAX} ms; this one is {timestamp}"
        )));
    }
    Ok(Version { timestamp, sequence })
}

/// Fails if `family` has counters and the value, which is put, is no number.
fn check_value(family: &Family, is_number: bool) -> Result<()> {
    if family.is_counter() && !is_number {
        return Err(Error::invalid(format!(
            "the column family {:?} has counters: a value has {COUNTER_LEN} bytes",
            family.name()
        )));
    }
    Ok(())
}

/// The family `family` of the table `name`, and the place of its group.
fn family_of<'s>(name: &str, schema: &'s Schema, family: &str) -> Result<(usize, &'s Family)> {
    let found = schema.family(family);
    found.ok_or_else(|| Error::NoFamily { table: name.to_owned(), family: family.to_owned() })
}

/// The length of a counter, in bytes.
const COUNTER_LEN: usize = 8;

/// The value of a counter's latest cell, as it is after an increment.
fn incremented(old: Option<&Latest>, by: i64) -> Result<Vec<u8>> {
    let number = match old {
        None => 0,
        Some(old) => match <[u8; COUNTER_LEN]>::try_from(old.bytes.as_slice()) {
            Ok(bytes) => i64::from_be_bytes(bytes),
            Err(_) => {
                let len = old.len;
                return Err(Error::invalid(format!(
                    "the cell is no number: it has {len} bytes, not {COUNTER_LEN}"
                )));
            }
        },
    };
    let sum = number.checked_add(by);
    let sum = sum.ok_or_else(|| Error::invalid(format!("{number} + {by} has more than 64 bits")))?;
    Ok(sum.to_be_bytes().to_vec())
}

/// The value of a column's latest cell, as it is after an append.
fn appended(old: Option<&Latest>, bytes: &[u8]) -> Result<Vec<u8>> {
    let len = old.map_or(0, |old| old.len).saturating_add(bytes.len() as u64);
    if len > APPEND_LEN_MAX {
        return Err(Error::invalid(format!(
            "an append makes values of {APPEND_LEN_MAX} bytes at most; this one would have {len}"
        )));
    }
    Ok([old.map_or(&[][..], |old| &old.bytes), bytes].concat())
}
