//! Merges that walks have paid for: merges of tables whose entries walks pass in vain again and again
//! ([`crate::state`]'s `PassedInTables`).
//!
//! The merge takes all tables with keys among those passed down to the bottom level, so deletions go too. If the
//! memtable has such keys, it is flushed first, because it usually has the deletions. It is also flushed first if a
//! range of such keys was deleted since the last flush, because a merge counts only on flushed deletions. The entries
//! passed pay for all this. If a merge leaves out little, the next one waits until the oldest snapshot has gone, and
//! costs twice as much.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

use super::super::{Core, Flusher};
use crate::compact::pick::Compaction;
use crate::compact::space::below;
use crate::cursor::{Cursor, MAX_SEQ, SeqNo};
use crate::env::JobKind;
use crate::error::Result;
use crate::ranges::{KeyRange, next_key};
use crate::state::{Mem, TreeInner, TreeState};
use crate::version::edit::FileId;
use crate::version::levels::Levels;
use crate::write::batch::RANGE_MEMORY;

/// The trees in which walks may have paid for a merge.
pub(super) struct Walked {
    core: Arc<Core>,
    flusher: Arc<Flusher>,
    trees: Mutex<Vec<Arc<TreeInner>>>,
}

/// A merge that walks have paid for.
pub(super) struct Passed {
    pub(super) tree: Arc<TreeInner>,
    /// The levels that it was found in.
    pub(super) levels: Arc<Levels>,
    pub(super) compaction: Compaction,
}

/// The state before a merge.
pub(super) struct Before {
    files: HashSet<FileId>,
    /// Entries of the inputs, and their greatest number.
    entries: u64,
    newest: SeqNo,
    oldest_snapshot: Option<SeqNo>,
}

impl Walked {
    pub(super) fn new(core: &Arc<Core>, flusher: &Arc<Flusher>) -> Walked {
        Walked { core: Arc::clone(core), flusher: Arc::clone(flusher), trees: Mutex::default() }
    }

    /// Makes the merge job look at `tree`.
    pub(super) fn look_at(&self, tree: &Arc<TreeInner>) {
        if !self.core.health.is_read_only() {
            self.add(tree);
            self.core.notify(JobKind::Compact);
        }
    }

    /// Adds `tree` to the trees of the next look.
    pub(super) fn add(&self, tree: &Arc<TreeInner>) {
        let mut trees = self.trees.lock();
        if !trees.iter().any(|other| Arc::ptr_eq(other, tree)) {
            trees.push(Arc::clone(tree));
        }
    }

    fn oldest_snapshot(&self) -> Option<SeqNo> {
        self.core.snapshots.registered().first().copied()
    }

    /// A merge that walks have paid for. Begins flushes that have to come first.
    pub(super) fn look(&self) -> Result<Option<Passed>> {
        let trees = std::mem::take(&mut *self.trees.lock());
        let mut trees = trees.into_iter();
        while let Some(tree) = trees.next() {
            if let Some(passed) = self.look_in(&tree)? {
                trees.for_each(|tree| self.add(&tree));
                return Ok(Some(passed));
            }
        }
        Ok(None)
    }

    fn look_in(&self, tree: &Arc<TreeInner>) -> Result<Option<Passed>> {
        let oldest = self.oldest_snapshot();
        let Some(due) = tree.passed_in_tables.due(oldest).filter(|_| !tree.is_dropped()) else {
            return Ok(None);
        };
        if due.flushed.is_some_and(|flushed| tree.flushed_up_to() < flushed) {
            self.add(tree);
            return Ok(None);
        }
        let state = tree.state.load_full();
        let levels = Arc::clone(&state.levels);
        let Some(compaction) = below(&levels, &due.smallest, &due.largest, None) else {
            tree.passed_in_tables.note_merged(u64::MAX, oldest);
            return Ok(None);
        };
        let passed = KeyRange { lower: due.smallest.clone(), upper: Some(next_key(&due.largest)) };
        let is_hidden = state.ranges.newer_over(&passed, tree.flushed_up_to()).is_some();
        let is_touched = || Ok(is_hidden || !state.immutable.is_empty() || has_key_in(&state.mem, &passed)?);
        let needs_flush = due.flushed.is_none() && is_touched()?;
        let flushed = if needs_flush { written_by_flush(&state, tree.flushed_up_to()) } else { 0 };
        if compaction.bytes().saturating_add(flushed) > due.bytes {
            return Ok(None);
        }
        if needs_flush {
            let newest = if state.mem.is_untouched() { state.immutable.first() } else { Some(&state.mem) };
            tree.passed_in_tables.note_flush(newest.map_or(0, |mem| mem.last_seq()));
            self.flusher.switch_memtable(tree, 0);
            self.add(tree);
            return Ok(None);
        }
        Ok(Some(Passed { tree: Arc::clone(tree), levels, compaction }))
    }

    /// Call this before the merge `compaction` of tables in `levels`.
    pub(super) fn before(&self, levels: &Levels, compaction: &Compaction) -> Before {
        let infos = || compaction.inputs.iter().map(|(_, table)| &table.info);
        Before {
            files: levels.tables().map(|(_, table)| table.info.file).collect(),
            entries: infos().map(|info| info.entries).sum(),
            newest: infos().map(|info| info.max_seq).max().unwrap_or(0),
            oldest_snapshot: self.oldest_snapshot(),
        }
    }
}

impl Before {
    /// Notes how much the merge has left out. After it `tree` has `levels`.
    pub(super) fn note_merged(&self, tree: &TreeInner, levels: &Levels) {
        // Tables of flushes have greater numbers.
        let is_output = |file: FileId, max_seq: SeqNo| !self.files.contains(&file) && max_seq <= self.newest;
        let infos = levels.tables().map(|(_, table)| &table.info);
        let outputs = infos.filter(|info| is_output(info.file, info.max_seq));
        let written: u64 = outputs.map(|info| info.entries).sum();
        tree.passed_in_tables.note_merged(self.entries.saturating_sub(written), self.oldest_snapshot);
    }
}

/// About how many bytes a flush of the memtable writes to tables, if the last flush went up to the number `flushed`.
/// Memory that range deletions take does not count as entries.
pub(super) fn written_by_flush(state: &TreeState, flushed: SeqNo) -> u64 {
    let ranges = state.ranges.count_newer(flushed).saturating_mul(RANGE_MEMORY);
    state.mem.table.entry_memory().saturating_sub(ranges) as u64
}

/// Whether the memtable has an entry of a key in `range`.
fn has_key_in(mem: &Mem, range: &KeyRange) -> Result<bool> {
    let mut cursor = mem.table.cursor();
    cursor.seek(&range.lower, MAX_SEQ)?;
    Ok(cursor.valid() && range.contains(cursor.key()))
}
