//! The changes that the manifest records, and the state that they add up to.
//!
//! One record of the manifest holds a list of edits that take effect together. Each edit begins with its tag byte.
//! Numbers are LEB128; the length of a byte string precedes it.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::blob_edits::{BlobEdit, BlobFiles};
pub(crate) use super::table_info::TableInfo;
use super::table_info::{decode_table, encode_table};
use super::tables::table_path;
use super::tree_record::TreeRecord;
use crate::codec::{Decoder, FILE_NUMBER_MAX, put_slice, put_varint};
use crate::cursor::{MAX_SEQ, SeqNo};
use crate::env::{Offset, Reached};
use crate::error::Error;
use crate::log::replay::LogFloor;
use crate::log::segment::{POSITION_MAX, SEGMENT_ID_MAX};
use crate::options::TreeOptions;
use crate::ranges::KeyRange;

/// The number of a tree. A store never uses one twice.
pub(crate) type TreeId = u32;

/// The number of a file. A store never uses one twice.
pub(crate) type FileId = u64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Edit {
    CreateTree {
        tree: TreeId,
        name: String,
        options: TreeOptions,
    },
    DropTree {
        tree: TreeId,
    },
    SetTag {
        tree: TreeId,
        tag: String,
    },
    SetOptions {
        tree: TreeId,
        options: TreeOptions,
    },
    AddTable {
        tree: TreeId,
        level: u8,
        table: TableInfo,
    },
    RemoveTable {
        tree: TreeId,
        level: u8,
        file: FileId,
    },
    /// All of the tree's writes up to `seq` are in tables. Replay skips them.
    Flushed {
        tree: TreeId,
        seq: SeqNo,
        /// The greatest time that these writes have carried, in microseconds since 1970; 0 if they carried none.
        time_us: u64,
    },
    /// Recovery begins here.
    Floor(LogFloor),
    /// The log is on the disk up to this position. If recovery does not get that far, data is lost.
    LogSynced {
        position: u64,
    },
    /// File, tree and sequence numbers below these are not given out again.
    Counters {
        next_file: FileId,
        next_tree: TreeId,
        last_seq: SeqNo,
    },
    Blob(BlobEdit),
    DeleteRange {
        tree: TreeId,
        seq: SeqNo,
        range: KeyRange,
    },
    /// The range deletion `seq` hides nothing any more.
    ForgetRange {
        tree: TreeId,
        seq: SeqNo,
    },
    /// The tree holds only keys of this range. Its huge values are filed under the tree number `lineage`.
    KeyBounds {
        tree: TreeId,
        lineage: TreeId,
        range: KeyRange,
    },
    /// The time of the clock that values expire by, and how far it is ahead of the wall clock.
    Clock(Reached),
    /// The store's identity. Its copies have the same one.
    Identity {
        identity: u64,
    },
    /// Operands of the tree have the times at which they were written.
    OperandTimes {
        tree: TreeId,
    },
}

const CREATE_TREE: u8 = 1;
const DROP_TREE: u8 = 2;
const SET_TAG: u8 = 3;
const ADD_TABLE: u8 = 4;
const REMOVE_TABLE: u8 = 5;
const FLUSHED: u8 = 6;
const FLOOR: u8 = 7;
const COUNTERS: u8 = 8;
const LOG_SYNCED: u8 = 9;
const BLOB: u8 = 10;
const CLOCK: u8 = 11;
const DELETE_RANGE: u8 = 12;
const FORGET_RANGE: u8 = 13;
const KEY_BOUNDS: u8 = 14;
const SET_OPTIONS: u8 = 15;
const IDENTITY: u8 = 16;
const CLOCK_AHEAD: u8 = 17;
const OPERAND_TIMES: u8 = 18;

/// The greatest clock time that is accepted, some 140,000 years from now.
pub(crate) const CLOCK_MAX: u64 = 1 << 62;

/// The same for a clock that is ahead of the machine's: it continues from any time.
pub(crate) const CLOCK_AHEAD_MAX: u64 = u64::MAX >> 1;

/// Appends the tag of an edit and the numbers after it.
pub(super) fn put(out: &mut Vec<u8>, tag: u8, numbers: &[u64]) {
    out.push(tag);
    numbers.iter().for_each(|&number| put_varint(out, number));
}

pub(super) fn tree_id(from: &mut Decoder<'_>) -> Option<TreeId> {
    TreeId::try_from(from.varint()?).ok().filter(|&id| id < TreeId::MAX)
}

/// A number up to `max`. Larger numbers would overflow when they are added up.
pub(super) fn within(from: &mut Decoder<'_>, max: u64) -> Option<u64> {
    from.varint().filter(|&number| number <= max)
}

pub(super) fn file_id(from: &mut Decoder<'_>) -> Option<FileId> {
    within(from, FILE_NUMBER_MAX)
}

pub(super) fn seq(from: &mut Decoder<'_>) -> Option<SeqNo> {
    within(from, MAX_SEQ)
}

fn position(from: &mut Decoder<'_>) -> Option<u64> {
    within(from, POSITION_MAX)
}

fn text(from: &mut Decoder<'_>) -> Option<String> {
    String::from_utf8(from.slice()?.to_vec()).ok()
}

impl Edit {
    /// The tree that the edit changes, if it changes one.
    pub(crate) fn tree(&self) -> Option<TreeId> {
        match self {
            Edit::CreateTree { tree, .. }
            | Edit::DropTree { tree }
            | Edit::SetTag { tree, .. }
            | Edit::SetOptions { tree, .. }
            | Edit::AddTable { tree, .. }
            | Edit::RemoveTable { tree, .. }
            | Edit::Flushed { tree, .. }
            | Edit::DeleteRange { tree, .. }
            | Edit::ForgetRange { tree, .. }
            | Edit::KeyBounds { tree, .. }
            | Edit::OperandTimes { tree } => Some(*tree),
            Edit::Floor(_)
            | Edit::LogSynced { .. }
            | Edit::Counters { .. }
            | Edit::Blob(_)
            | Edit::Clock(_)
            | Edit::Identity { .. } => None,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let id = |tree: &TreeId| u64::from(*tree);
        match self {
            Edit::CreateTree { tree, name, options } => {
                put(out, CREATE_TREE, &[id(tree)]);
                put_slice(out, name.as_bytes());
                options.encode(out);
            }
            Edit::DropTree { tree } => put(out, DROP_TREE, &[id(tree)]),
            Edit::SetTag { tree, tag } => {
                put(out, SET_TAG, &[id(tree)]);
                put_slice(out, tag.as_bytes());
            }
            Edit::SetOptions { tree, options } => {
                put(out, SET_OPTIONS, &[id(tree)]);
                options.encode(out);
            }
            Edit::AddTable { tree, level, table } => {
                put(out, ADD_TABLE, &[id(tree)]);
                out.push(*level);
                encode_table(table, out);
            }
            Edit::RemoveTable { tree, level, file } => {
                put(out, REMOVE_TABLE, &[id(tree)]);
                out.push(*level);
                put_varint(out, *file);
            }
            Edit::Flushed { tree, seq, time_us } => put(out, FLUSHED, &[id(tree), *seq, *time_us]),
            Edit::Floor(floor) => put(out, FLOOR, &[floor.segment, floor.start]),
            Edit::LogSynced { position } => put(out, LOG_SYNCED, &[*position]),
            Edit::Counters { next_file, next_tree, last_seq } => {
                put(out, COUNTERS, &[*next_file, id(next_tree), *last_seq]);
            }
            Edit::Blob(edit) => {
                out.push(BLOB);
                edit.encode(out);
            }
            Edit::DeleteRange { tree, seq, range } => {
                put(out, DELETE_RANGE, &[id(tree), *seq]);
                range.encode(out);
            }
            Edit::ForgetRange { tree, seq } => put(out, FORGET_RANGE, &[id(tree), *seq]),
            Edit::KeyBounds { tree, lineage, range } => {
                put(out, KEY_BOUNDS, &[id(tree), id(lineage)]);
                range.encode(out);
            }
            Edit::OperandTimes { tree } => put(out, OPERAND_TIMES, &[id(tree)]),
            // Older programs read only this form.
            Edit::Clock(Reached { us, offset }) if offset.us() == 0 && *us <= CLOCK_MAX => {
                put(out, CLOCK, &[*us]);
            }
            Edit::Clock(Reached { us, offset }) => {
                put(out, CLOCK_AHEAD, &[*us, offset.us(), offset.earlier().len() as u64]);
                offset.earlier().iter().for_each(|&earlier| put_varint(out, earlier));
            }
            Edit::Identity { identity } => {
                out.push(IDENTITY);
                out.extend_from_slice(&identity.to_le_bytes());
            }
        }
    }

    fn decode(from: &mut Decoder<'_>) -> Option<Edit> {
        Some(match from.u8()? {
            CREATE_TREE => Edit::CreateTree {
                tree: tree_id(from)?,
                name: text(from)?,
                options: TreeOptions::decode(from)?,
            },
            DROP_TREE => Edit::DropTree { tree: tree_id(from)? },
            SET_TAG => Edit::SetTag { tree: tree_id(from)?, tag: text(from)? },
            SET_OPTIONS => Edit::SetOptions { tree: tree_id(from)?, options: TreeOptions::decode(from)? },
            ADD_TABLE => {
                Edit::AddTable { tree: tree_id(from)?, level: from.u8()?, table: decode_table(from)? }
            }
            REMOVE_TABLE => {
                Edit::RemoveTable { tree: tree_id(from)?, level: from.u8()?, file: file_id(from)? }
            }
            FLUSHED => {
                Edit::Flushed { tree: tree_id(from)?, seq: seq(from)?, time_us: within(from, CLOCK_MAX)? }
            }
            FLOOR => Edit::Floor(LogFloor { segment: within(from, SEGMENT_ID_MAX)?, start: position(from)? }),
            LOG_SYNCED => Edit::LogSynced { position: position(from)? },
            COUNTERS => {
                Edit::Counters { next_file: file_id(from)?, next_tree: tree_id(from)?, last_seq: seq(from)? }
            }
            BLOB => Edit::Blob(BlobEdit::decode(from)?),
            CLOCK => Edit::Clock(Reached { us: within(from, CLOCK_MAX)?, offset: Offset::default() }),
            CLOCK_AHEAD => {
                let us = within(from, CLOCK_AHEAD_MAX)?;
                let offset = from.varint()?.min(us);
                let earlier = (0..from.varint()?).map(|_| from.varint()).collect::<Option<Vec<_>>>()?;
                Edit::Clock(Reached { us, offset: Offset::new(offset, earlier) })
            }
            IDENTITY => Edit::Identity { identity: from.u64()? },
            OPERAND_TIMES => Edit::OperandTimes { tree: tree_id(from)? },
            DELETE_RANGE => Edit::DeleteRange {
                tree: tree_id(from)?,
                seq: seq(from)?,
                range: KeyRange::decode_from(from)?,
            },
            FORGET_RANGE => Edit::ForgetRange { tree: tree_id(from)?, seq: seq(from)? },
            KEY_BOUNDS => Edit::KeyBounds {
                tree: tree_id(from)?,
                lineage: tree_id(from)?,
                range: KeyRange::decode_from(from)?,
            },
            _ => return None,
        })
    }

    /// The payload of a manifest record that makes `edits` take effect together.
    pub(crate) fn encode_all<E: Borrow<Edit>>(edits: impl IntoIterator<Item = E>) -> Vec<u8> {
        let mut out = Vec::new();
        for edit in edits {
            edit.borrow().encode(&mut out);
        }
        out
    }

    /// The edits in a record's payload; `None` if it cannot be decoded.
    pub(crate) fn decode_all(payload: &[u8]) -> Option<Vec<Edit>> {
        let mut from = Decoder::new(payload);
        let mut edits = Vec::new();
        while !from.is_empty() {
            edits.push(Edit::decode(&mut from)?);
        }
        Some(edits)
    }
}

/// The sum of all edits of a manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ManifestState {
    pub(crate) trees: BTreeMap<TreeId, TreeRecord>,
    /// By tree, level and file number: a map for each of many small trees would take more memory than its entries.
    pub(crate) tables: BTreeMap<(TreeId, u8, FileId), TableInfo>,
    pub(crate) blobs: BlobFiles,
    pub(crate) floor: LogFloor,
    /// How far the log is known to be on the disk.
    pub(crate) log_synced: u64,
    pub(crate) next_file: FileId,
    pub(crate) next_tree: TreeId,
    pub(crate) last_seq: SeqNo,
    /// The latest known time of the store's clock.
    pub(crate) clock: Reached,
    /// A random number from when the store was created. A copy of the whole store has the same one. 0: unknown.
    pub(crate) identity: u64,
}

impl ManifestState {
    /// Applies `edit`. If it contradicts the state, returns the contradiction.
    pub(crate) fn apply(&mut self, edit: &Edit) -> Result<(), String> {
        match edit {
            Edit::CreateTree { tree, name, options } => {
                let record = TreeRecord::new(*tree, name, options);
                if self.trees.insert(*tree, record).is_some() {
                    return Err(format!("tree {tree} is created twice"));
                }
                self.next_tree = self.next_tree.max(tree + 1);
            }
            Edit::DropTree { tree } => {
                self.trees.remove(tree).ok_or_else(|| format!("tree {tree} is dropped but unknown"))?;
                let gone: Vec<_> =
                    self.tables_of(*tree).map(|(level, table)| (*tree, level, table.file)).collect();
                gone.iter().for_each(|place| drop(self.tables.remove(place)));
            }
            Edit::SetTag { tree, tag } => self.tree(*tree)?.tag = Some(tag.clone()),
            Edit::SetOptions { tree, options } => self.tree(*tree)?.options = options.clone(),
            Edit::AddTable { tree, level, table } => {
                if usize::from(*level) >= super::levels::LEVELS {
                    return Err(format!("table {} is in level {level}, which does not exist", table.file));
                }
                self.tree(*tree)?;
                if self.tables.insert((*tree, *level, table.file), table.clone()).is_some() {
                    return Err(format!("table {} is added twice", table.file));
                }
                self.next_file = self.next_file.max(table.file + 1);
            }
            Edit::RemoveTable { tree, level, file } => {
                self.tables
                    .remove(&(*tree, *level, *file))
                    .ok_or_else(|| format!("table {file} is removed from level {level} but not there"))?;
            }
            Edit::Flushed { tree, seq, time_us } => {
                let record = self.tree(*tree)?;
                record.time_us = record.time_us.max(*time_us);
                record.flushed = record.flushed.max(*seq);
                self.last_seq = self.last_seq.max(*seq);
            }
            Edit::Floor(floor) => {
                self.floor = *floor;
                self.blobs.forget_before(floor.start);
            }
            Edit::LogSynced { position } => self.log_synced = self.log_synced.max(*position),
            Edit::DeleteRange { tree, seq, range } => self.tree(*tree)?.delete_range(*seq, range)?,
            Edit::ForgetRange { tree, seq } => self.tree(*tree)?.forget_range(*seq)?,
            Edit::KeyBounds { tree, lineage, range } => {
                let record = self.tree(*tree)?;
                (record.lineage, record.range) = (*lineage, range.clone());
            }
            Edit::OperandTimes { tree } => self.tree(*tree)?.operand_times = true,
            Edit::Clock(reached) if reached.us < self.clock.us => {}
            Edit::Clock(reached) => self.clock = reached.clone(),
            Edit::Identity { identity } => self.identity = *identity,
            Edit::Counters { next_file, next_tree, last_seq } => {
                self.next_file = self.next_file.max(*next_file);
                self.next_tree = self.next_tree.max(*next_tree);
                self.last_seq = self.last_seq.max(*last_seq);
            }
            Edit::Blob(edit) => {
                self.blobs.apply(edit)?;
                if let BlobEdit::Note(info) = edit {
                    self.next_file = self.next_file.max(info.file + 1);
                }
            }
        }
        Ok(())
    }

    fn tree(&mut self, tree: TreeId) -> Result<&mut TreeRecord, String> {
        self.trees.get_mut(&tree).ok_or_else(|| format!("tree {tree} is changed but unknown"))
    }

    /// Edits that add up to this state.
    pub(crate) fn to_edits(&self) -> impl Iterator<Item = Edit> + '_ {
        let whole = [
            Edit::Counters { next_file: self.next_file, next_tree: self.next_tree, last_seq: self.last_seq },
            Edit::Floor(self.floor),
            Edit::LogSynced { position: self.log_synced },
            Edit::Clock(self.clock.clone()),
            Edit::Identity { identity: self.identity },
        ];
        let trees = self.trees.keys().flat_map(|&tree| self.edits_of(tree));
        whole.into_iter().chain(self.blobs.to_edits().map(Edit::Blob)).chain(trees)
    }

    /// Edits that add up to one tree's part of this state.
    pub(crate) fn edits_of(&self, tree: TreeId) -> Vec<Edit> {
        let mut edits = Vec::new();
        let Some(record) = self.trees.get(&tree) else { return edits };
        let (name, options) = (record.name.clone(), record.options.clone());
        edits.push(Edit::CreateTree { tree, name, options });
        if record.lineage != tree || record.range != KeyRange::default() {
            edits.push(Edit::KeyBounds { tree, lineage: record.lineage, range: record.range.clone() });
        }
        edits.extend(record.tag.iter().map(|tag| Edit::SetTag { tree, tag: tag.clone() }));
        if record.operand_times {
            edits.push(Edit::OperandTimes { tree });
        }
        if record.flushed > 0 {
            edits.push(Edit::Flushed { tree, seq: record.flushed, time_us: record.time_us });
        }
        let ranges = record.ranges();
        edits.extend(ranges.map(|one| Edit::DeleteRange { tree, seq: one.seq, range: one.range }));
        let tables = self.tables_of(tree);
        edits.extend(tables.map(|(level, table)| Edit::AddTable { tree, level, table: table.clone() }));
        edits
    }

    /// Whether the tree was split, or was split off another one.
    pub(crate) fn has_split(&self, tree: TreeId) -> bool {
        let record = self.trees.get(&tree);
        record.is_some_and(|record| record.lineage != tree || record.range != KeyRange::default())
    }

    /// The overlaps in the sorted levels of a tree in `dir`: the tables of a level must be disjoint.
    pub(crate) fn overlaps(&self, dir: &Path, tree: TreeId) -> Vec<Error> {
        let mut sorted: Vec<_> = self.tables_of(tree).filter(|(level, _)| *level > 0).collect();
        sorted.sort_by_key(|(level, table)| (*level, &table.smallest));
        let pairs = sorted.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        let overlapping = pairs.filter(|pair| pair[0].1.largest >= pair[1].1.smallest);
        let error = |pair: &[(u8, &TableInfo)]| {
            let message = format!("the table overlaps table {} in a sorted level", pair[0].1.file);
            Error::corruption(&table_path(dir, pair[1].1.file), 0, message)
        };
        overlapping.map(error).collect()
    }

    /// The numbers of all tables that a tree uses.
    pub(crate) fn files(&self) -> BTreeSet<FileId> {
        self.tables.values().map(|table| table.file).collect()
    }

    /// The tables of one tree, each with its level.
    pub(crate) fn tables_of(&self, tree: TreeId) -> impl Iterator<Item = (u8, &TableInfo)> {
        let places = (tree, 0, 0)..=(tree, u8::MAX, FileId::MAX);
        self.tables.range(places).map(|(&(_, level, _), table)| (level, table))
    }
}

#[cfg(test)]
mod tests;
