//! Indexes of a table: which rows have a value, or a qualifier, in a family.
//!
//! ```text
//! row of the index    family | 0 | the value's beginning        of an index of values
//!                     family | 1 | the qualifier's beginning    of an index of qualifiers
//! its family          the family
//! its qualifier       row 00 00 | qualifier                     the row is escaped as in keys, so that rows are in their order
//! its version         that of the cell
//! ```
//! All indexes of a table are in one tree, whose entries are laid out like those of a group ([`cell`]), and live by the same
//! rules. They are written in the batch of the row, so an index is never behind.
//!
//! An entry is a hint: whoever finds a row by it looks at the row itself, at the same moment. So an entry may stay when its cell
//! does not count any more. It must not go while a cell with its value counts: that is all that writes have to see to. They
//! look at what counted in the column before, and delete the entries of values that have gone. They leave entries, which
//! [`Tables::rebuild_indexes`](crate::Tables::rebuild_indexes) removes, where they do not see enough: a delete of more than
//! [`OLD_CELLS_MAX`] cells of a family, several steps on one column, a row that is twice in a batch, a family that keeps all or
//! more than [`VERSIONS_MAX`] versions, a limit of versions that became lower.
//!
//! What has expired does not count, so its entry may go. If the clock is set back then, an index does not find the cell.

use std::collections::{BTreeMap, BTreeSet};

use esker::KEY_LEN_MAX;

use crate::canary;
use crate::cell::{self, Entry, FamilyId, Kind, NO_FAMILY, ROW_LEN_MAX, TIMESTAMP_MAX, Version};
use crate::error::{Error, Result};
use crate::mutation::PutValue;
use crate::read::{Cell, Counted, Read};
use crate::schema::{Family, Index, Schema};
use crate::span::Span;
use crate::write::{Write, WriteValue};

/// So many bytes of a value or qualifier are in an index.
pub(crate) const TEXT_LEN_MAX: usize = 1024;

/// A delete looks at so many cells of a family, and then leaves the entries of the others.
const OLD_CELLS_MAX: usize = 1000;

/// Of a family that keeps more versions, entries of versions that are driven out stay.
const VERSIONS_MAX: u32 = 64;

/// An index that finds more rows, or rows of more bytes together, is not used: a scan is faster.
const ROWS_MAX: usize = 10_000;
const ROWS_BYTES_MAX: usize = 4 << 20;

/// So many entries are looked at, of rows that are asked for and of others.
const ENTRIES_MAX: usize = 2 * ROWS_MAX;

/// Of a read that shows a number of rows: for each of them so many entries, and some for all. If there are more, a scan finds
/// these rows soon.
const ENTRIES_OF_ROW: u64 = 16;
const ENTRIES_OF_ALL: u64 = 1000;

/// What an index is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Values = 0,
    Qualifiers = 1,
}

/// A cell that counts before a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Old {
    pub(crate) qualifier: Vec<u8>,
    pub(crate) timestamp: i64,
    /// The beginning of the value.
    pub(crate) text: Vec<u8>,
}

/// A row before a write.
pub(crate) trait Before {
    /// The cells of a family, or of one of its columns, the latest of a column first: up to `limit` of them. `None`: there are
    /// more.
    fn cells(&self, family: &str, qualifier: Option<&[u8]>, limit: usize) -> Result<Option<Vec<Old>>>;
}

/// The beginning of the keys of the entries for a text of a family.
fn row_of(family: FamilyId, of: Of, text: &[u8]) -> Vec<u8> {
    let text = beginning(text);
    let [high, low] = family.to_be_bytes();
    cell::row_prefix(&[&[high, low, of as u8], text].concat())
}

fn beginning(text: &[u8]) -> &[u8] {
    text.get(..TEXT_LEN_MAX).unwrap_or(text)
}

/// The beginning of the keys of the entries for a text in a column.
fn column_of(family: FamilyId, of: Of, text: &[u8], row: &[u8], qualifier: &[u8]) -> Vec<u8> {
    cell::column_prefix(&row_of(family, of, text), family, &[row, qualifier].concat())
}

/// What writes to a row, whose keys begin with `row`, do to the indexes.
struct Entering<'a, B> {
    row: &'a [u8],
    /// `None`: the row is written several times at once, so nobody knows what counted before.
    before: Option<&'a B>,
    keys: &'a mut Vec<Vec<u8>>,
    /// What earlier writes have touched: columns, families of which they touched something, and families as a whole. What counted
    /// there before does not count for sure any more.
    columns: BTreeSet<Vec<u8>>,
    families: BTreeSet<FamilyId>,
    whole_families: BTreeSet<FamilyId>,
}

/// Adds the keys of the indexes' entries that belong to the writes of one row. `cells` are those that the writes name.
///
/// # Errors
/// Those of `before`.
pub(crate) fn enter<B: Before>(
    schema: &Schema,
    row: &[u8],
    writes: &[Write<'_>],
    cells: &[Cell],
    before: Option<&B>,
    keys: &mut Vec<Vec<u8>>,
) -> Result<()> {
    let row = &cell::row_prefix(row);
    let (columns, families, whole_families) = Default::default();
    let mut entering = Entering { row, before, keys, columns, families, whole_families };
    for write in writes {
        let Some(group) = schema.groups().get(write.group) else { continue };
        match cell::entry(&write.key, row.len())? {
            Entry::Head { family: of, version } => {
                let (all, one) = match of {
                    NO_FAMILY => (group.families(), None),
                    of => (&[][..], schema.family_numbered(of).map(|(_, family)| family)),
                };
                for family in all.iter().chain(one).filter(|family| family.has_index()) {
                    entering.delete_family(family, version)?;
                }
            }
            Entry::Column { family: of, qualifier, column_len, kind, version } => {
                let Some((_, family)) = schema.family_numbered(of) else { continue };
                let mut text = Vec::new();
                cell::unescape(qualifier, &mut text);
                let column = write.key.get(..column_len).unwrap_or_default();
                if family.has_index() {
                    let value = (kind == Kind::Put).then(|| text_of(&write.value, cells)).transpose()?;
                    entering.write_column(family, column, &text, kind, version, value)?;
                }
            }
        }
    }
    Ok(())
}

/// The keys of the entries of a cell of an indexed family, by its row and qualifier. `beginning` reads so many bytes of its value
/// at most.
pub(crate) fn entries_of(
    family: &Family,
    (row, qualifier): (&[u8], &[u8]),
    version: Version,
    beginning: impl FnOnce(u64) -> Result<Vec<u8>>,
) -> Result<Vec<Vec<u8>>> {
    let row = cell::row_prefix(row);
    let mut keys = Vec::new();
    if family.has_value_index() {
        let text = beginning(TEXT_LEN_MAX as u64)?;
        keys.push(put_key(column_of(family.id, Of::Values, &text, &row, qualifier), version)?);
    }
    if family.has_qualifier_index() {
        keys.push(put_key(column_of(family.id, Of::Qualifiers, qualifier, &row, qualifier), version)?);
    }
    Ok(keys)
}

/// The beginning of the value that is written.
fn text_of(value: &WriteValue<'_>, cells: &[Cell]) -> Result<Vec<u8>> {
    Ok(match value {
        WriteValue::Nothing => Vec::new(),
        WriteValue::Put(PutValue::Bytes(bytes)) => beginning(bytes).to_vec(),
        WriteValue::Put(PutValue::Stored(stored)) => {
            let value = stored.value();
            value.read_at(..value.len().min(TEXT_LEN_MAX as u64))?
        }
        WriteValue::Of(place) => beginning(cells.get(*place).map_or(&[][..], |cell| &cell.value)).to_vec(),
    })
}

impl<B: Before> Entering<'_, B> {
    fn write_column(
        &mut self,
        family: &Family,
        column: &[u8],
        qualifier: &[u8],
        kind: Kind,
        version: Version,
        value: Option<Vec<u8>>,
    ) -> Result<()> {
        let is_touched = self.whole_families.contains(&family.id) || !self.columns.insert(column.to_vec());
        self.families.insert(family.id);
        let Some(value) = value else {
            return if is_touched { Ok(()) } else { self.delete(family, Some(qualifier), kind, version) };
        };
        if family.has_qualifier_index() {
            self.enter(family, Of::Qualifiers, qualifier, qualifier, version)?;
        }
        if !family.has_value_index() {
            return Ok(());
        }
        let counts = is_touched || self.replace(family, qualifier, version, &value)?;
        if counts && !canary::broken("index-enter") {
            self.enter(family, Of::Values, &value, qualifier, version)?;
        }
        Ok(())
    }

    fn enter(
        &mut self,
        family: &Family,
        of: Of,
        text: &[u8],
        qualifier: &[u8],
        version: Version,
    ) -> Result<()> {
        self.keys.push(put_key(column_of(family.id, of, text, self.row, qualifier), version)?);
        Ok(())
    }

    /// Removes the entry of the value that a put replaces or drives out. `false`: the put is surplus itself, and never counts.
    fn replace(&mut self, family: &Family, qualifier: &[u8], put: Version, value: &[u8]) -> Result<bool> {
        let kept = family.kept_versions().filter(|kept| *kept <= VERSIONS_MAX);
        let (Some(before), Some(kept)) = (self.before, kept) else { return Ok(true) };
        let kept = kept as usize;
        let old = before.cells(family.name(), Some(qualifier), kept)?.unwrap_or_default();
        let gone = match old.iter().position(|old| old.timestamp == put.timestamp) {
            None if old.len() >= kept && old.last().is_some_and(|last| last.timestamp > put.timestamp) => {
                return Ok(false);
            }
            None if old.len() >= kept => {
                old.len().checked_sub(1).filter(|last| old[*last].timestamp < put.timestamp)
            }
            replaced => replaced,
        };
        let Some(gone) = gone else { return Ok(true) };
        let text = &old[gone].text;
        let mut others = old.iter().enumerate().filter(|(place, _)| *place != gone);
        let is_kept = others.any(|(_, other)| other.text == *text) && !canary::broken("index-kept");
        if value != text && !is_kept {
            self.remove(family, Of::Values, text, qualifier, put);
        }
        Ok(true)
    }

    fn delete_family(&mut self, family: &Family, version: Version) -> Result<()> {
        let is_first = self.families.insert(family.id) & self.whole_families.insert(family.id);
        if is_first && self.before.is_some() {
            self.delete(family, None, Kind::DeleteColumn, version)?;
        }
        Ok(())
    }

    /// Removes the entries of what a delete of a family or column removes.
    fn delete(
        &mut self,
        family: &Family,
        qualifier: Option<&[u8]>,
        kind: Kind,
        version: Version,
    ) -> Result<()> {
        let Some(before) = self.before else { return Ok(()) };
        let found = before.cells(family.name(), qualifier, OLD_CELLS_MAX)?;
        let mut columns: BTreeMap<Vec<u8>, Vec<Old>> = BTreeMap::new();
        for old in found.unwrap_or_default() {
            columns.entry(old.qualifier.clone()).or_default().push(old);
        }
        for (qualifier, old) in columns {
            let is_gone = |old: &Old| match kind {
                Kind::DeleteVersion => old.timestamp == version.timestamp,
                _ => old.timestamp <= version.timestamp,
            };
            let (gone, kept): (Vec<Old>, Vec<Old>) = old.into_iter().partition(is_gone);
            if family.has_value_index() {
                let kept: BTreeSet<&[u8]> = kept.iter().map(|old| &old.text[..]).collect();
                let gone: BTreeSet<&[u8]> = gone.iter().map(|old| &old.text[..]).collect();
                gone.difference(&kept)
                    .for_each(|text| self.remove(family, Of::Values, text, &qualifier, version));
            }
            if family.has_qualifier_index() && kept.is_empty() {
                self.remove(family, Of::Qualifiers, &qualifier, &qualifier, version);
            }
        }
        Ok(())
    }

    fn remove(&mut self, family: &Family, of: Of, text: &[u8], qualifier: &[u8], version: Version) {
        let key = removed(column_of(family.id, of, text, self.row, qualifier), version.sequence);
        // Of a cell that was there before the index, and is too long for it, there is no entry.
        if key.len() <= KEY_LEN_MAX {
            self.keys.push(key);
        }
    }
}

/// The key of an entry.
///
/// # Errors
/// `Invalid` when it is too long.
fn put_key(entry: Vec<u8>, version: Version) -> Result<Vec<u8>> {
    let key = cell::entry_key(entry, Kind::Put, version);
    if key.len() > KEY_LEN_MAX {
        return Err(Error::invalid(format!(
            "the row and the qualifier are too long for an index: with the value's beginning they take {} bytes, \
             and an entry has {KEY_LEN_MAX}",
            key.len()
        )));
    }
    Ok(key)
}

/// The key that deletes the entries whose keys begin with `entry`, and that were written before.
fn removed(entry: Vec<u8>, sequence: u64) -> Vec<u8> {
    cell::entry_key(entry, Kind::DeleteColumn, Version { timestamp: TIMESTAMP_MAX, sequence })
}

/// Where an index is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lookup {
    family: FamilyId,
    of: Of,
    text: Vec<u8>,
    is_prefix: bool,
    /// Only of this column, if it is of values.
    qualifier: Option<Vec<u8>>,
    /// For people.
    pub(crate) described: String,
}

/// The lookups that find all rows of which `read` may show something. `None`: no index knows.
pub(crate) fn lookups(schema: &Schema, read: &Read) -> Option<Vec<Lookup>> {
    // A row may have deletes and nothing that an index knows.
    if read.shows_deletes() {
        return None;
    }
    let wishes = read.wishes()?;
    let by_value = wishes.iter().find_map(|wish| {
        let (_, family) = schema.family(std::str::from_utf8(wish.family.as_deref()?).ok()?)?;
        let (text, is_prefix) = wish.value.clone()?;
        (family.value_index == Index::Ready).then(|| {
            let described = format!(
                "index of the values of {}, which {} \"{}\"",
                family.name(),
                if is_prefix { "begin with" } else { "are" },
                beginning(&text).escape_ascii()
            );
            let qualifier = wish.qualifier.clone();
            vec![Lookup { family: family.id, of: Of::Values, text, is_prefix, qualifier, described }]
        })
    });
    by_value.or_else(|| {
        let lookup = |(family, qualifier): (&str, Option<&[u8]>)| {
            let (_, family) = schema.family(family)?;
            let qualifier = qualifier.filter(|_| family.qualifier_index == Index::Ready)?;
            let (text, family_name) = (qualifier.to_vec(), family.name());
            let described = format!(
                "index of the qualifiers of {family_name}, which are \"{}\"",
                beginning(qualifier).escape_ascii()
            );
            let (family, of) = (family.id, Of::Qualifiers);
            Some(Lookup { family, of, text, is_prefix: false, qualifier: None, described })
        };
        let found: Option<Vec<Lookup>> = read.columns().map(lookup).collect();
        found.filter(|lookups| !lookups.is_empty())
    })
}

/// The rows of `spans`, which are sorted and apart, that the lookups find for a read that shows `rows_max` of them. `None`:
/// they are too many.
pub(crate) fn find(
    cursor: &mut Counted,
    lookups: &[Lookup],
    spans: &[Span],
    rows_max: u64,
) -> Result<Option<Vec<Span>>> {
    let (mut rows, mut bytes, mut looked_at) = (BTreeSet::new(), 0, 0);
    let entries_max =
        rows_max.saturating_mul(ENTRIES_OF_ROW).saturating_add(ENTRIES_OF_ALL).min(ENTRIES_MAX as u64);
    for lookup in lookups {
        let mut entries = Entries::of(cursor, lookup, spans)?;
        while let Some(found) = entries.next()? {
            looked_at += 1;
            if looked_at > entries_max {
                return Ok(None);
            }
            if lookup.qualifier.as_ref().is_some_and(|qualifier| *qualifier != found.qualifier) {
                continue;
            }
            let row = found.row;
            let place = spans.partition_point(|span| span.ends_before(&row));
            if place == spans.len() && !lookup.is_prefix {
                break;
            }
            if spans.get(place).is_none_or(|span| span.begins_behind(&row)) || rows.contains(&row) {
                continue;
            }
            bytes += row.len();
            rows.insert(row);
            if rows.len() > ROWS_MAX || bytes > ROWS_BYTES_MAX {
                return Ok(None);
            }
        }
    }
    Ok(Some(rows.into_iter().map(Span::of_row_key).collect()))
}

/// An entry that no later delete hides.
pub(crate) struct Found {
    pub(crate) family: FamilyId,
    is_of_values: bool,
    text: Vec<u8>,
    /// The beginning of the row's keys.
    pub(crate) row: Vec<u8>,
    pub(crate) qualifier: Vec<u8>,
    pub(crate) timestamp: i64,
    /// The beginning of the entry's key.
    entry: Vec<u8>,
}

impl Found {
    /// The row.
    pub(crate) fn row(&self) -> Vec<u8> {
        let mut row = Vec::new();
        cell::unescape(&self.row, &mut row);
        row
    }

    /// Whether a cell of its column whose value begins with `text` is a reason for the entry.
    pub(crate) fn is_of(&self, text: &[u8]) -> bool {
        !self.is_of_values || text == self.text
    }

    /// The key that deletes the entry.
    pub(crate) fn removed(&self, sequence: u64) -> Vec<u8> {
        removed(self.entry.clone(), sequence)
    }
}

/// The entries of an index, each column once.
pub(crate) struct Entries<'c> {
    cursor: &'c mut Counted,
    /// How their keys begin.
    prefix: Vec<u8>,
    /// The column that was read, and until when its entries are deleted.
    column: Vec<u8>,
    deleted_until: u64,
    is_found: bool,
}

impl<'c> Entries<'c> {
    /// All entries of all indexes.
    pub(crate) fn all(cursor: &'c mut Counted) -> Result<Entries<'c>> {
        Entries::from(cursor, Vec::new(), &[])
    }

    fn of(cursor: &'c mut Counted, lookup: &Lookup, spans: &[Span]) -> Result<Entries<'c>> {
        let mut prefix = row_of(lookup.family, lookup.of, &lookup.text);
        if lookup.is_prefix {
            prefix.truncate(prefix.len() - 2);
            return Entries::from(cursor, prefix.clone(), &prefix);
        }
        prefix.extend_from_slice(&lookup.family.to_be_bytes());
        // Rows are in their order: those before the first span are left out.
        let mut from = prefix.clone();
        if let Some(first) = spans.first() {
            cell::push_escaped(&mut from, first.first_key());
            from.truncate(from.len() - 2);
        }
        Entries::from(cursor, prefix, &from)
    }

    fn from(cursor: &'c mut Counted, prefix: Vec<u8>, from: &[u8]) -> Result<Entries<'c>> {
        cursor.seek(from)?;
        Ok(Entries { cursor, prefix, column: Vec::new(), deleted_until: 0, is_found: false })
    }

    /// The next column that has an entry.
    pub(crate) fn next(&mut self) -> Result<Option<Found>> {
        loop {
            let key = self.cursor.key();
            if key.is_empty() || !key.starts_with(&self.prefix) {
                return Ok(None);
            }
            let row_len = cell::row_len(key)?;
            let Entry::Column { family, qualifier, column_len, kind, version } = cell::entry(key, row_len)?
            else {
                return Err(cell::damaged(key));
            };
            let column = &key[..column_len];
            if self.column != column {
                self.column.clear();
                self.column.extend_from_slice(column);
                (self.deleted_until, self.is_found) = (0, false);
            }
            let mut found = None;
            if kind != Kind::Put {
                self.deleted_until = self.deleted_until.max(version.sequence);
            } else if !self.is_found && version.sequence >= self.deleted_until {
                self.is_found = true;
                found = Some(Found::read(key, row_len, qualifier, column, (family, version.timestamp))?);
            }
            self.cursor.next()?;
            if found.is_some() {
                return Ok(found);
            }
        }
    }
}

impl Found {
    fn read(
        key: &[u8],
        row_len: usize,
        qualifier: &[u8],
        column: &[u8],
        (family, timestamp): (FamilyId, i64),
    ) -> Result<Found> {
        let (mut text, mut place) = (Vec::new(), Vec::new());
        cell::unescape(&key[..row_len], &mut text);
        cell::unescape(qualifier, &mut place);
        let row_end = cell::row_len(&place)?;
        let [_, _, of, ..] = text[..] else { return Err(cell::damaged(key)) };
        let is_of_values = of == Of::Values as u8;
        let qualifier = place.split_off(row_end);
        let (text, entry) = (text.split_off(3), column.to_vec());
        Ok(Found { family, is_of_values, text, row: place, qualifier, timestamp, entry })
    }
}

/// The longest row of an index.
const _: () = assert!(TEXT_LEN_MAX + 3 <= ROW_LEN_MAX);
