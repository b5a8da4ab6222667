//! One tree's tables: immutable, swapped whole.
//!
//! ```text
//! level 0    [b-f] [g-y] | [a-z] | [c-d] [h-k]     runs, newest first; a key's versions in one are newer than in the next
//! level 1..6 [a-c] [d-k] [m-z]                      a run each; all of a key's older versions are further down
//! ```
//! A *run* is sorted, and its tables are disjoint. The manifest does not store which tables of level 0 form a run. They
//! are taken newest entry first; each joins the run of the table before it unless it overlaps a table of that run.
//! Therefore level 0 never has more runs than were written, and data that was written in key order is one run.
//!
//! The keys of a table that several trees share begin with the tree's number. [`Table`] hides that.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use super::edit::{FileId, TableInfo, TreeId};
use super::read_cost::ReadCost;
use super::table_cursor::{PartCursor, TreeCursor};
use super::tables::TableFile;
use crate::canary::broken;
use crate::checksum::hash_key;
use crate::cursor::{MAX_SEQ, SeqNo};
use crate::error::{Error, ErrorKind, Result};
use crate::ranges::KeyRange;
use crate::table::{BlockSlice, Found, ScanHint};

pub(crate) const LEVELS: usize = 7;

/// A table, or one tree's part of a shared one.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) file: Arc<TableFile>,
    pub(crate) info: TableInfo,
}

/// A user key in the form that shared tables hold.
pub(crate) fn shared_key(tree: TreeId, key: &[u8]) -> Vec<u8> {
    [&tree.to_be_bytes(), key].concat()
}

impl Table {
    pub(crate) fn new(file: Arc<TableFile>, info: TableInfo) -> Arc<Table> {
        Arc::new(Table { file, info })
    }

    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        self.info.smallest.as_slice() <= key && key <= self.info.largest.as_slice()
    }

    /// Whether a key in `smallest..=largest` may be in this table.
    pub(crate) fn overlaps(&self, smallest: &[u8], largest: &[u8]) -> bool {
        self.info.smallest.as_slice() <= largest && smallest <= self.info.largest.as_slice()
    }

    /// The approximate file offset of `key`, or of the place where it would be.
    pub(crate) fn offset_of(&self, key: &[u8]) -> Result<u64> {
        self.file.with_reader(|reader| Ok(reader.approximate_offset_of(&self.info.in_file(key))))
    }

    /// A key about `offset` bytes after the beginning of the tree's part of the table, of [`TableInfo::size`] bytes.
    pub(crate) fn key_near(&self, offset: u64) -> Result<Vec<u8>> {
        let (begin, end) = (self.offset_of(&self.info.smallest)?, self.offset_of(&self.info.largest)?);
        let len = u128::from(end.saturating_sub(begin));
        let at = begin + (len * u128::from(offset) / u128::from(self.info.size.max(1))) as u64;
        let key = self.file.with_reader(|reader| Ok(reader.key_before(at)))?;
        let of_tree = self.info.strip(&key).filter(|key| self.covers(key));
        Ok(of_tree.unwrap_or(&self.info.smallest).to_vec())
    }

    /// The newest version of `key`, which the table covers, at or before `seq`; `hash` is [`hash_key`] of `key`.
    #[inline]
    pub(crate) fn get(&self, key: &[u8], hash: u64, seq: SeqNo) -> Result<Option<Found>> {
        if self.info.is_reread() {
            return self.get_reread(key, hash, seq);
        }
        self.get_stored(key, hash, seq)
    }

    #[inline(always)]
    fn get_stored(&self, key: &[u8], hash: u64, seq: SeqNo) -> Result<Option<Found>> {
        if let Some(tree) = self.info.prefix {
            let key = shared_key(tree, key);
            return self.file.with_reader(|reader| reader.get(&key, hash_key(&key), seq));
        }
        self.file.with_reader(|reader| reader.get(key, hash, seq))
    }

    /// [`Table::get`] for a table whose sequence numbers or pointers the manifest overrides.
    fn get_reread(&self, key: &[u8], hash: u64, seq: SeqNo) -> Result<Option<Found>> {
        let number = self.info.number();
        if number.is_some_and(|number| number > seq) {
            return Ok(None);
        }
        let seq = if number.is_some() { MAX_SEQ } else { seq };
        Ok(self.get_stored(key, hash, seq)?.map(|found| {
            let renumbered = self.info.renumbered.as_ref().and_then(|by| by.apply(found.kind, &found.value));
            let value = renumbered.map_or(found.value, BlockSlice::of);
            Found { seq: number.unwrap_or(found.seq), kind: found.kind, value }
        }))
    }

    /// Returns `false` only if the table has no entry for any key of `range`.
    pub(crate) fn may_hold(&self, range: &KeyRange) -> Result<bool> {
        match self.info.prefix {
            // Its filter has longer keys, and no prefixes.
            Some(_) => Ok(true),
            None => self.file.with_reader(|reader| Ok(reader.may_hold(range))),
        }
    }

    pub(crate) fn cursor(&self, hint: ScanHint) -> Result<TreeCursor> {
        self.cursor_of(None, hint)
    }

    /// A cursor that takes over the buffers of a used one.
    pub(crate) fn cursor_of(&self, used: Option<TreeCursor>, hint: ScanHint) -> Result<TreeCursor> {
        let reader = self.file.reader()?;
        let cursor = match used {
            Some(used) => used.into_stored().over_table(reader),
            None => reader.cursor(hint),
        };
        let info = &self.info;
        if info.prefix.is_none() && !info.is_reread() && !info.clipped {
            return Ok(TreeCursor::Whole(cursor));
        }
        let is_clipped = info.clipped && !broken("rule-20");
        let bounds = is_clipped.then(|| (info.smallest.clone(), info.largest.clone()));
        Ok(TreeCursor::Part(PartCursor::new(cursor, info, bounds)))
    }
}

/// Reads pay for a merge of level 0 once it has this many runs. The usual trigger merges four runs. These merges have
/// at least two. Therefore they rewrite at most twice as much for each byte that is written.
const RUNS_THAT_COST: usize = 2;

#[derive(Debug, Clone)]
pub(crate) struct Levels {
    levels: [Arc<Vec<Arc<Table>>>; LEVELS],
    /// Where each run of level 0 ends in its list; `None` if each table is a run.
    run_ends: Option<Arc<Vec<usize>>>,
    /// The payments of reads since the last merge of level 0. Kept while level 0 has [`RUNS_THAT_COST`] runs.
    read_cost: Option<Arc<ReadCost>>,
}

impl Default for Levels {
    fn default() -> Self {
        // All levels of an empty tree share one empty list.
        let empty = Arc::new(Vec::new());
        Levels { levels: std::array::from_fn(|_| Arc::clone(&empty)), run_ends: None, read_cost: None }
    }
}

impl Levels {
    /// The tables of a level, by key; in level 0 by run, then by key.
    pub(crate) fn level(&self, level: usize) -> &[Arc<Table>] {
        &self.levels[level]
    }

    /// Where the runs of level 0 lie in its list, newest first.
    pub(crate) fn run_places(&self) -> impl ExactSizeIterator<Item = Range<usize>> + Clone + '_ {
        let ends = self.run_ends.as_deref().map_or(&[][..], Vec::as_slice);
        places_of(ends, self.levels[0].len())
    }

    #[inline]
    pub(crate) fn runs(&self) -> impl Iterator<Item = &[Arc<Table>]> {
        self.run_places().map(|place| &self.levels[0][place])
    }

    /// A level's list, for cursors to share.
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

    /// A copy without the tables `removed` and with the tables `added`.
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
                debug_assert!(
                    are_in_order(tables),
                    "tables of level 0 that overlap have numbers from among each other's"
                );
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

    /// Fails if tables of a sorted level would overlap after the tables `removed` are gone and those of `added` are
    /// there: reads would miss entries of one of them.
    pub(crate) fn check_disjoint(
        &self,
        removed: &[(usize, FileId)],
        added: &[(usize, &TableInfo)],
    ) -> Result<()> {
        let fail = |level: usize, one: &TableInfo, other: &TableInfo| {
            let message = format!(
                "tables {} and {} of level {level} would overlap, so the change was refused, and nothing was lost. This is \
                 a defect of the store: please report it",
                one.file, other.file
            );
            Err(Error::new(ErrorKind::Corruption, message))
        };
        let mut sorted: Vec<_> = added.iter().filter(|(level, _)| *level > 0).collect();
        sorted.sort_by(|(level, one), (other_level, other)| {
            (level, &one.smallest).cmp(&(other_level, &other.smallest))
        });
        for pair in sorted.windows(2) {
            let [(level, one), (other_level, other)] = pair else { continue };
            if level == other_level && one.largest >= other.smallest {
                return fail(*level, one, other);
            }
        }
        let removed: HashSet<_> = removed.iter().copied().collect();
        for (level, info) in sorted {
            let overlapped = self.overlapping(*level, &info.smallest, &info.largest);
            let stays = overlapped.iter().find(|table| !removed.contains(&(*level, table.info.file)));
            if let Some(table) = stays {
                return fail(*level, info, &table.info);
            }
        }
        Ok(())
    }

    /// Informs each table's file of the size of its run.
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

    /// The cost of reads on the runs of level 0; `None` if there are too few runs to matter.
    #[inline]
    pub(crate) fn read_cost(&self) -> Option<&ReadCost> {
        self.read_cost.as_deref()
    }

    /// The one table of a sorted level that may hold `key`.
    #[inline]
    pub(crate) fn find(&self, level: usize, key: &[u8]) -> Option<&Arc<Table>> {
        find_in(self.level(level), key)
    }

    /// The tables that may hold `key`, at most one for each run of level 0 and each level below. The first that holds
    /// it has its newest version.
    pub(crate) fn covering(&self, key: &[u8]) -> impl Iterator<Item = &Arc<Table>> {
        let above = self.runs().filter_map(move |run| find_in(run, key));
        above.chain((1..LEVELS).filter_map(move |level| self.find(level, key)))
    }

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

/// Sorts tables of level 0 by run, and by key within a run. Returns where each run ends.
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

/// Whether of two `tables` that overlap one is newer in all entries. Of many tables only the newest are looked at.
fn are_in_order(tables: &[Arc<Table>]) -> bool {
    let tables = &tables[..tables.len().min(64)];
    tables.iter().enumerate().all(|(at, one)| {
        let mut overlapped =
            tables[at + 1..].iter().filter(|other| other.overlaps(&one.info.smallest, &one.info.largest));
        overlapped.all(|other| one.info.max_seq < other.info.min_seq || other.info.max_seq < one.info.min_seq)
    })
}

/// The places of the runs of `len` tables, from their `ends`.
fn places_of(ends: &[usize], len: usize) -> impl ExactSizeIterator<Item = Range<usize>> + Clone + '_ {
    let end = move |run: usize| ends.get(run).copied().unwrap_or(run + 1);
    let count = if ends.is_empty() { len } else { ends.len() };
    (0..count).map(move |run| run.checked_sub(1).map_or(0, end)..end(run))
}

/// Sorts tables of level 0 into runs and returns the places of the runs.
pub(crate) fn runs_among(tables: &mut Vec<Arc<Table>>) -> Vec<Range<usize>> {
    let ends = arrange_runs(tables);
    places_of(&ends, tables.len()).collect()
}
