//! One tree's tables: immutable, swapped whole.
//!
//! ```text
//! level 0    [newest .. oldest]          tables may overlap; each is wholly newer than the next
//! level 1..6 [a-c] [d-k] [m-z]           sorted, disjoint; all of a key's older versions are further down
//! ```
//!
//! A table that several trees share holds keys that begin with the tree's number; [`Table`] hides that.

use std::sync::Arc;

use super::edit::{FileId, TableInfo, TreeId};
use super::read_cost::ReadCost;
use super::table_cursor::{PartCursor, TreeCursor};
use super::tables::TableFile;
use crate::canary::broken;
use crate::checksum::hash_key;
use crate::cursor::{MAX_SEQ, SeqNo};
use crate::error::Result;
use crate::table::{Found, ScanHint};

/// Level 0 and six sorted ones.
pub(crate) const LEVELS: usize = 7;

/// A table, or one tree's part of a shared one.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) file: Arc<TableFile>,
    pub(crate) info: TableInfo,
}

/// A user key as shared tables hold it.
pub(crate) fn shared_key(tree: TreeId, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + key.len());
    out.extend_from_slice(&tree.to_be_bytes());
    out.extend_from_slice(key);
    out
}

impl Table {
    pub(crate) fn new(file: Arc<TableFile>, info: TableInfo) -> Arc<Table> {
        Arc::new(Table { file, info })
    }

    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        self.info.smallest.as_slice() <= key && key <= self.info.largest.as_slice()
    }

    /// Whether some key in `smallest..=largest` may be in this table.
    pub(crate) fn overlaps(&self, smallest: &[u8], largest: &[u8]) -> bool {
        self.info.smallest.as_slice() <= largest && smallest <= self.info.largest.as_slice()
    }

    /// About where in the file `key` is, or would be.
    pub(crate) fn offset_of(&self, key: &[u8]) -> Result<u64> {
        self.file.with_reader(|reader| {
            Ok(match self.info.prefix {
                Some(tree) => reader.approximate_offset_of(&shared_key(tree, key)),
                None => reader.approximate_offset_of(key),
            })
        })
    }

    /// The newest version of `key`, which the table covers, at or before `seq`; `hash` is [`hash_key`] of `key`.
    #[inline]
    pub(crate) fn get(&self, key: &[u8], hash: u64, seq: SeqNo) -> Result<Option<Found>> {
        if self.info.one_number {
            return self.get_unnumbered(key, hash, seq);
        }
        if let Some(tree) = self.info.prefix {
            let key = shared_key(tree, key);
            return self.file.with_reader(|reader| reader.get(&key, hash_key(&key), seq));
        }
        self.file.with_reader(|reader| reader.get(key, hash, seq))
    }

    /// [`Table::get`] where all entries have the number that the manifest says.
    fn get_unnumbered(&self, key: &[u8], hash: u64, seq: SeqNo) -> Result<Option<Found>> {
        let number = self.info.max_seq;
        if number > seq {
            return Ok(None);
        }
        let found = self.file.with_reader(|reader| reader.get(key, hash, MAX_SEQ))?;
        Ok(found.map(|found| Found { seq: number, ..found }))
    }

    pub(crate) fn cursor(&self, hint: ScanHint) -> Result<TreeCursor> {
        let cursor = self.file.reader()?.cursor(hint);
        let info = &self.info;
        if info.prefix.is_none() && !info.one_number && !info.clipped {
            return Ok(TreeCursor::Whole(cursor));
        }
        let number = info.one_number.then_some(info.max_seq);
        let is_clipped = info.clipped && !broken("rule-20");
        let bounds = is_clipped.then(|| (info.smallest.clone(), info.largest.clone()));
        Ok(TreeCursor::Part(PartCursor::new(cursor, info.own(), number, bounds)))
    }
}

/// Runs of level 0 from which on reads pay for their merge. With two at least, where the usual trigger has four,
/// merges that reads ask for rewrite at most twice as much for what is written.
const RUNS_THAT_COST: usize = 2;

/// One tree's tables.
#[derive(Debug, Clone)]
pub(crate) struct Levels {
    levels: [Arc<Vec<Arc<Table>>>; LEVELS],
    /// Counted since level 0 was merged last, while it has [`RUNS_THAT_COST`] runs.
    read_cost: Option<Arc<ReadCost>>,
}

impl Default for Levels {
    fn default() -> Self {
        // All levels of an empty tree are one shared empty list.
        let empty = Arc::new(Vec::new());
        Levels { levels: std::array::from_fn(|_| Arc::clone(&empty)), read_cost: None }
    }
}

impl Levels {
    pub(crate) fn level(&self, level: usize) -> &[Arc<Table>] {
        &self.levels[level]
    }

    /// A level's list, to be shared with a cursor.
    pub(crate) fn shared_level(&self, level: usize) -> Arc<Vec<Arc<Table>>> {
        Arc::clone(&self.levels[level])
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = (usize, &Arc<Table>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(level, tables)| tables.iter().map(move |table| (level, table)))
    }

    pub(crate) fn bytes(&self, level: usize) -> u64 {
        self.levels[level].iter().map(|table| table.info.size).sum()
    }

    /// The tables without `removed` and with `added`.
    pub(crate) fn with(&self, removed: &[(usize, FileId)], added: Vec<(usize, Arc<Table>)>) -> Levels {
        let mut next = self.clone();
        for &(level, file) in removed {
            Arc::make_mut(&mut next.levels[level]).retain(|table| table.info.file != file);
        }
        let mut touched = [false; LEVELS];
        for (level, table) in added {
            touched[level] = true;
            table.file.set_level(level);
            Arc::make_mut(&mut next.levels[level]).push(table);
        }
        for (level, _) in touched.iter().enumerate().filter(|&(_, &touched)| touched) {
            let tables = Arc::make_mut(&mut next.levels[level]);
            if level == 0 {
                tables.sort_by_key(|table| std::cmp::Reverse(table.info.max_seq));
            } else {
                tables.sort_by(|a, b| a.info.smallest.cmp(&b.info.smallest));
                let disjoint = tables.windows(2).all(|pair| pair[0].info.largest < pair[1].info.smallest);
                debug_assert!(disjoint, "tables of level {level} overlap");
            }
        }
        if removed.iter().any(|&(level, _)| level == 0) {
            next.read_cost = None;
        }
        if next.level(0).len() >= RUNS_THAT_COST && next.read_cost.is_none() {
            next.read_cost = Some(Arc::default());
        }
        next
    }

    /// What reads have spent on the runs of level 0; `None` where these are too few to matter.
    #[inline]
    pub(crate) fn read_cost(&self) -> Option<&ReadCost> {
        self.read_cost.as_deref()
    }

    /// The one table of a sorted level that may hold `key`.
    #[inline]
    pub(crate) fn find(&self, level: usize, key: &[u8]) -> Option<&Arc<Table>> {
        let tables = self.level(level);
        let index = tables.partition_point(|table| table.info.largest.as_slice() < key);
        tables.get(index).filter(|table| table.info.smallest.as_slice() <= key)
    }

    /// The tables of a level that overlap `smallest..=largest`.
    pub(crate) fn overlapping(&self, level: usize, smallest: &[u8], largest: &[u8]) -> Vec<Arc<Table>> {
        self.level(level).iter().filter(|table| table.overlaps(smallest, largest)).cloned().collect()
    }

    /// The deepest level that holds a table; 0 when all are empty.
    pub(crate) fn deepest(&self) -> usize {
        (0..LEVELS).rev().find(|&level| !self.levels[level].is_empty()).unwrap_or(0)
    }

    /// The newest version of `key` in any table at or before `seq`; `hash` is [`hash_key`] of `key`.
    pub(crate) fn get(&self, key: &[u8], hash: u64, seq: SeqNo) -> Result<Option<Found>> {
        let mut passed = 0;
        for table in self.level(0).iter().filter(|table| table.covers(key)) {
            if let Some(found) = table.get(key, hash, seq)? {
                return Ok(Some(found));
            }
            passed += 1;
        }
        if let Some(cost) = self.read_cost() {
            cost.note_get(hash, passed);
        }
        for level in 1..LEVELS {
            if let Some(table) = self.find(level, key)
                && let Some(found) = table.get(key, hash, seq)?
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}
