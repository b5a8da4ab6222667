//! One tree's tables: immutable, swapped whole.
//!
//! ```text
//! level 0    [b-f] [g-y] | [a-z] | [c-d] [h-k]     runs, newest first; a key's versions in one are newer than in the next
//! level 1..6 [a-c] [d-k] [m-z]                      a run each; all of a key's older versions are further down
//! ```
//! A *run* is sorted, and its tables are disjoint. Which tables of level 0 make up a run is not stored: in the order of their
//! newest entries, each joins those before it unless it overlaps one of them. So there are no more runs than were written, and
//! what was written in the order of keys is one.
//!
//! A table that several trees share holds keys that begin with the tree's number; [`Table`] hides that.

use std::ops::Range;
use std::sync::Arc;

use super::edit::{FileId, TableInfo, TreeId};
use super::read_cost::ReadCost;
use super::table_cursor::{PartCursor, TreeCursor};
use super::tables::TableFile;
use crate::canary::broken;
use crate::checksum::hash_key;
use crate::cursor::{MAX_SEQ, SeqNo};
use crate::error::Result;
use crate::table::{BlockSlice, Found, ScanHint};

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
        if self.info.is_reread() {
            return self.get_reread(key, hash, seq);
        }
        if let Some(tree) = self.info.prefix {
            let key = shared_key(tree, key);
            return self.file.with_reader(|reader| reader.get(&key, hash_key(&key), seq));
        }
        self.file.with_reader(|reader| reader.get(key, hash, seq))
    }

    /// [`Table::get`] where the manifest says more of the entries than stands in the file.
    fn get_reread(&self, key: &[u8], hash: u64, seq: SeqNo) -> Result<Option<Found>> {
        let number = self.info.one_number.then_some(self.info.max_seq);
        if number.is_some_and(|number| number > seq) {
            return Ok(None);
        }
        let seq = if number.is_some() { MAX_SEQ } else { seq };
        let found = match self.info.prefix {
            Some(tree) => {
                let key = shared_key(tree, key);
                self.file.with_reader(|reader| reader.get(&key, hash_key(&key), seq))?
            }
            None => self.file.with_reader(|reader| reader.get(key, hash, seq))?,
        };
        Ok(found.map(|found| {
            let renumbered = self.info.renumbered.as_ref().and_then(|by| by.apply(found.kind, &found.value));
            let value = renumbered.map_or(found.value, BlockSlice::of);
            Found { seq: number.unwrap_or(found.seq), kind: found.kind, value }
        }))
    }

    pub(crate) fn cursor(&self, hint: ScanHint) -> Result<TreeCursor> {
        let cursor = self.file.reader()?.cursor(hint);
        let info = &self.info;
        if info.prefix.is_none() && !info.is_reread() && !info.clipped {
            return Ok(TreeCursor::Whole(cursor));
        }
        let is_clipped = info.clipped && !broken("rule-20");
        let bounds = is_clipped.then(|| (info.smallest.clone(), info.largest.clone()));
        Ok(TreeCursor::Part(PartCursor::new(cursor, info, bounds)))
    }
}

/// Runs of level 0 from which on reads pay for their merge. With two at least, where the usual trigger has four,
/// merges that reads ask for rewrite at most twice as much for what is written.
const RUNS_THAT_COST: usize = 2;

/// One tree's tables.
#[derive(Debug, Clone)]
pub(crate) struct Levels {
    levels: [Arc<Vec<Arc<Table>>>; LEVELS],
    /// Where each run of level 0 ends in its list; nothing where each table is one.
    run_ends: Option<Arc<Vec<usize>>>,
    /// Counted since level 0 was merged last, while it has [`RUNS_THAT_COST`] runs.
    read_cost: Option<Arc<ReadCost>>,
}

impl Default for Levels {
    fn default() -> Self {
        // All levels of an empty tree are one shared empty list.
        let empty = Arc::new(Vec::new());
        Levels { levels: std::array::from_fn(|_| Arc::clone(&empty)), run_ends: None, read_cost: None }
    }
}

impl Levels {
    /// The tables of a level: by key, in level 0 by run and key.
    pub(crate) fn level(&self, level: usize) -> &[Arc<Table>] {
        &self.levels[level]
    }

    /// Where the runs of level 0 lie in its list, newest first.
    pub(crate) fn run_places(&self) -> impl ExactSizeIterator<Item = Range<usize>> + Clone + '_ {
        let ends = self.run_ends.as_deref().map_or(&[][..], Vec::as_slice);
        places_of(ends, self.levels[0].len())
    }

    /// The runs of level 0, newest first.
    #[inline]
    pub(crate) fn runs(&self) -> impl Iterator<Item = &[Arc<Table>]> {
        self.run_places().map(|place| &self.levels[0][place])
    }

    /// A level's list, to be shared with cursors.
    pub(crate) fn shared_level(&self, level: usize) -> Arc<Vec<Arc<Table>>> {
        Arc::clone(&self.levels[level])
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = (usize, &Arc<Table>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(level, tables)| tables.iter().map(move |table| (level, table)))
    }

    pub(crate) fn bytes_in_all(&self) -> u64 {
        (0..LEVELS).map(|level| self.bytes(level)).sum()
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
        removed.iter().for_each(|&(level, _)| touched[level] = true);
        for (level, table) in added {
            touched[level] = true;
            Arc::make_mut(&mut next.levels[level]).push(table);
        }
        for (level, _) in touched.iter().enumerate().filter(|&(_, &touched)| touched) {
            let tables = Arc::make_mut(&mut next.levels[level]);
            if level == 0 {
                let ends = arrange_runs(tables);
                next.run_ends = (!ends.is_empty()).then(|| Arc::new(ends));
            } else {
                tables.sort_by(|a, b| a.info.smallest.cmp(&b.info.smallest));
                let disjoint = tables.windows(2).all(|pair| pair[0].info.largest < pair[1].info.smallest);
                debug_assert!(disjoint, "tables of level {level} overlap");
            }
        }
        next.rank_tables(touched);
        if removed.iter().any(|&(level, _)| level == 0) {
            next.read_cost = None;
        }
        if next.run_places().len() >= RUNS_THAT_COST && next.read_cost.is_none() {
            next.read_cost = Some(Arc::default());
        }
        next
    }

    /// Tells the files of tables how large the runs are that these belong to.
    fn rank_tables(&self, touched: [bool; LEVELS]) {
        let rank = |run: &[Arc<Table>]| {
            let bytes: u64 = run.iter().map(|table| table.info.size).sum();
            run.iter().for_each(|table| table.file.set_rank(bytes.checked_ilog2().unwrap_or(0) as u8));
        };
        if touched[0] {
            self.runs().for_each(rank);
        }
        (1..LEVELS).filter(|&level| touched[level]).for_each(|level| rank(self.level(level)));
    }

    /// What reads have spent on the runs of level 0; `None` where these are too few to matter.
    #[inline]
    pub(crate) fn read_cost(&self) -> Option<&ReadCost> {
        self.read_cost.as_deref()
    }

    /// The one table of a sorted level that may hold `key`.
    #[inline]
    pub(crate) fn find(&self, level: usize, key: &[u8]) -> Option<&Arc<Table>> {
        find_in(self.level(level), key)
    }

    /// The tables that may hold `key`, one of each run of level 0 and of each level: the first that does has its newest
    /// version.
    pub(crate) fn covering(&self, key: &[u8]) -> impl Iterator<Item = &Arc<Table>> {
        let above = self.runs().filter_map(move |run| find_in(run, key));
        above.chain((1..LEVELS).filter_map(move |level| self.find(level, key)))
    }

    /// The tables of a level that overlap `smallest..=largest`.
    pub(crate) fn overlapping(&self, level: usize, smallest: &[u8], largest: &[u8]) -> Vec<Arc<Table>> {
        let tables = self.level(level);
        if level == 0 {
            return tables.iter().filter(|table| table.overlaps(smallest, largest)).cloned().collect();
        }
        let begin = tables.partition_point(|table| table.info.largest.as_slice() < smallest);
        let within = tables[begin..].iter().take_while(|table| table.info.smallest.as_slice() <= largest);
        within.cloned().collect()
    }

    /// The deepest level that holds a table; 0 when all are empty.
    pub(crate) fn deepest(&self) -> usize {
        (0..LEVELS).rev().find(|&level| !self.levels[level].is_empty()).unwrap_or(0)
    }

    /// The newest version of `key` in any table at or before `seq`; `hash` is [`hash_key`] of `key`.
    pub(crate) fn get(&self, key: &[u8], hash: u64, seq: SeqNo) -> Result<Option<Found>> {
        let mut passed = 0;
        for table in self.runs().filter_map(|run| find_in(run, key)) {
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

/// The one table of a run that may hold `key`.
#[inline]
fn find_in<'a>(run: &'a [Arc<Table>], key: &[u8]) -> Option<&'a Arc<Table>> {
    let index = run.partition_point(|table| table.info.largest.as_slice() < key);
    run.get(index).filter(|table| table.info.smallest.as_slice() <= key)
}

/// Puts tables of level 0 in the order of their runs, and within each of their keys; returns where each run ends.
fn arrange_runs(tables: &mut Vec<Arc<Table>>) -> Vec<usize> {
    tables.sort_by_key(|table| std::cmp::Reverse(table.info.max_seq));
    let (mut arranged, mut ends): (Vec<Arc<Table>>, Vec<usize>) =
        (Vec::with_capacity(tables.len()), Vec::new());
    let mut begin = 0;
    for table in tables.drain(..) {
        let run = &arranged[begin..];
        let place = run.partition_point(|other| other.info.largest < table.info.smallest);
        if run.get(place).is_some_and(|next| next.info.smallest <= table.info.largest) {
            begin = arranged.len();
            ends.push(begin);
            arranged.push(table);
        } else {
            arranged.insert(begin + place, table);
        }
    }
    if !arranged.is_empty() {
        ends.push(arranged.len());
    }
    if ends.len() == arranged.len() {
        ends.clear();
    }
    *tables = arranged;
    ends
}

/// Where the runs of `len` tables are, that end where `ends` says.
fn places_of(ends: &[usize], len: usize) -> impl ExactSizeIterator<Item = Range<usize>> + Clone + '_ {
    let end = move |run: usize| ends.get(run).copied().unwrap_or(run + 1);
    let count = if ends.is_empty() { len } else { ends.len() };
    (0..count).map(move |run| run.checked_sub(1).map_or(0, end)..end(run))
}

/// Puts tables of level 0 in order and returns where their runs are.
pub(crate) fn runs_among(tables: &mut Vec<Arc<Table>>) -> Vec<Range<usize>> {
    let ends = arrange_runs(tables);
    places_of(&ends, tables.len()).collect()
}
