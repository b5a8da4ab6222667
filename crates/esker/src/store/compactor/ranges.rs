//! The life of range tombstones. A flush notes them in the manifest, because after it the log may lose them. Tables
//! that lie wholly inside one are removed immediately. Tombstones that no longer hide anything are removed too.

use std::sync::Arc;

use super::Compactor;
use crate::blob::Pointer;
use crate::canary::broken;
use crate::cursor::{Cursor, SeqNo};
use crate::error::Result;
use crate::ranges::{KeyRange, RangeTombstone};
use crate::state::TreeInner;
use crate::state::versions::VersionEdit;
use crate::table::ScanHint;
use crate::version::edit::Edit;
use crate::version::levels::Table;

/// How many of the next tombstones are checked for one that covers an earlier one.
const NEXT: usize = 16;

/// Whether `range` contains all keys of `table`.
fn encloses(range: &KeyRange, table: &Table) -> bool {
    range.contains(&table.info.smallest) && range.contains(&table.info.largest)
}

/// Collects the pointers to huge values in `table`.
fn pointers_of(table: &Arc<Table>, pointers: &mut Vec<Pointer>) -> Result<()> {
    let mut cursor = table.cursor(ScanHint::Compaction)?;
    cursor.seek_to_first()?;
    while cursor.valid() {
        pointers.extend(Pointer::of_entry(cursor.kind(), cursor.value()));
        cursor.next()?;
    }
    Ok(())
}

impl Compactor {
    /// The tables all of whose entries a flushed range tombstone hides from all readers.
    fn deleted_tables(&self, tree: &TreeInner) -> Vec<(usize, Arc<Table>)> {
        let state = tree.state.load();
        if state.ranges.is_empty() {
            return Vec::new();
        }
        let (oldest, flushed) = (
            self.log.read_points().seqs.first().copied().unwrap_or(0),
            self.installer.flushed_up_to(tree.id),
        );
        let list = state.ranges.list();
        let counts = |one: &&RangeTombstone| one.seq <= oldest.min(flushed);
        let counting: Vec<&RangeTombstone> = list.iter().filter(counts).collect();
        let is_deleted = |table: &Table| {
            counting.iter().any(|one| one.seq > table.info.max_seq && encloses(&one.range, table))
        };
        let deleted = state.levels.tables().filter(|(_, table)| is_deleted(table));
        deleted.map(|(level, table)| (level, Arc::clone(table))).collect()
    }

    /// Whether a table of the tree holds only entries that a range tombstone hides.
    pub(super) fn has_deleted(&self, tree: &TreeInner) -> bool {
        !self.deleted_tables(tree).is_empty()
    }

    /// Drops the tables of the tree that hold only entries that range tombstones hide. Returns whether there were any.
    /// Called while no merge of the tree runs.
    pub(super) fn drop_deleted(&self, tree: &Arc<TreeInner>) -> Result<bool> {
        let tables = self.deleted_tables(tree);
        if tables.is_empty() {
            return Ok(false);
        }
        let mut dropped = Vec::new();
        if self.core.blobs.is_used() {
            // The edit frees their huge values, like those that a merge drops.
            for (_, table) in &tables {
                pointers_of(table, &mut dropped)?;
            }
        }
        let edit = |(level, table): &(usize, Arc<Table>)| Edit::RemoveTable {
            tree: tree.id,
            level: *level as u8,
            file: table.info.file,
        };
        self.installer.install(tables.iter().map(edit).collect(), &dropped)?;
        Ok(true)
    }

    /// Removes the range tombstones that no longer hide anything, and those that later ones cover. Returns whether
    /// there were any.
    pub(in crate::store) fn forget_ranges(&self) -> Result<bool> {
        let trees = self.versions.trees();
        let mut worked = false;
        for tree in trees.iter().filter(|tree| !tree.state.load().ranges.is_empty()) {
            // A merge that runs does it when it ends.
            let Some(_no_merge) = self.installer.try_keep_unmerged(tree) else { continue };
            worked |= self.forget_ranges_of(tree)?;
        }
        Ok(worked)
    }

    /// [`Compactor::forget_ranges`] of one tree. Either no merge of it runs, or only the caller's, which has already
    /// shown its tables. Therefore no table that was begun earlier can appear meanwhile.
    pub(super) fn forget_ranges_of(&self, tree: &Arc<TreeInner>) -> Result<bool> {
        if tree.state.load().ranges.is_empty() {
            return Ok(false);
        }
        // When the flush ends, it requests another round.
        let Some(_no_flush) = self.flusher.flushing().try_lock() else { return Ok(false) };
        let mut worked = false;
        if self.has_deleted(tree) {
            // A snapshot that saw the entries of these tables may have gone.
            self.compactions.add([Arc::clone(tree)]);
            worked = true;
        }
        let seqs = self.spent_ranges(tree);
        if seqs.is_empty() {
            return Ok(worked);
        }
        let forget = |&seq: &SeqNo| Edit::ForgetRange { tree: tree.id, seq };
        let edits: Vec<Edit> = seqs.iter().map(forget).collect();
        let mut versions = self.versions.lock();
        if tree.is_dropped() {
            return Ok(worked);
        }
        self.installer.apply(&mut versions, &VersionEdit::of(edits))?;
        Ok(true)
    }

    /// The sequence numbers of the tree's range tombstones that are in the manifest and not needed.
    fn spent_ranges(&self, tree: &TreeInner) -> Vec<SeqNo> {
        let flushed = self.installer.flushed_up_to(tree.id);
        let snapshots = self.log.read_points().seqs;
        let stretch = |seq: SeqNo| snapshots.partition_point(|&snapshot| snapshot < seq);
        let state = tree.state.load();
        let noted: Vec<RangeTombstone> =
            state.ranges.list().into_iter().filter(|one| one.seq <= flushed).collect();
        let hides_nothing = |one: &RangeTombstone| {
            let is_cleared = |table: &Table| {
                table.info.cleared >= one.seq
                    || table.info.min_seq > one.seq
                    || !one.range.overlaps(&table.info.smallest, &table.info.largest)
            };
            broken("rule-18-forget") || state.levels.tables().all(|(_, table)| is_cleared(table))
        };
        let is_said_again = |at: usize| {
            let one = &noted[at];
            let mut later = noted[at + 1..].iter().take(NEXT);
            later.any(|other| other.range.encloses(&one.range) && stretch(other.seq) == stretch(one.seq))
        };
        let spent = (0..noted.len()).filter(|&at| is_said_again(at) || hides_nothing(&noted[at]));
        spent.map(|at| noted[at].seq).collect()
    }
}
