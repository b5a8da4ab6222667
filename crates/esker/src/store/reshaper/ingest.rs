//! Ingests tables: one edit makes tables that were written outside of any tree part of one.
//!
//! ```text
//! tree flushed, merge awaited ------------------------------- others read and write
//! writers paused: newer writes are flushed ------------------ writes to the tree wait
//! a number taken; log synced; edit; shown; number visible --- later writes wait to be acknowledged
//! ```
//!
//! The tables were written before their sequence number was known. The manifest holds it, for all their entries. It is
//! greater than the number of every earlier write and less than that of every later one, as for a batch. Therefore the
//! log is synced up to there first, and the edit records that the number was taken.

use std::sync::Arc;

use super::Reshaper;
use crate::blob::gc::{BlobChanges, Overwritten};
use crate::blob::{NewBlob, Pointer, VOLATILE, key_hash};
use crate::canary::broken;
use crate::cursor::{Cursor, MAX_SEQ};
use crate::env::JobKind;
use crate::error::{ErrorKind, Result};
use crate::read::get::base_at;
use crate::state::TreeInner;
use crate::state::versions::VersionEdit;
use crate::store::garbage_finder::overwritten;
use crate::table::ScanHint;
use crate::version::edit::{Edit, TableInfo};
use crate::version::levels::{LEVELS, Levels, Table};

/// The tables that will become part of a tree: ascending keys, each of them once.
#[derive(Debug, Default)]
pub(crate) struct Ingested {
    pub(crate) tables: Vec<TableInfo>,
    /// The huge values that they point to.
    pub(crate) blobs: Vec<NewBlob>,
    /// Keys that may have had huge values before.
    pub(crate) watched: Vec<Vec<u8>>,
    /// How many keys the filter of such keys had when `watched` was begun.
    pub(crate) additions: u64,
}

/// Refuses tables with keys outside of the tree's present bounds.
fn check_bounds_of_tables(tree: &TreeInner, tables: &[TableInfo]) -> Result<()> {
    let key_bounds = Arc::clone(&tree.state.load().key_bounds);
    let ends = tables.iter().flat_map(|table| [&table.smallest, &table.largest]);
    ends.into_iter().try_for_each(|key| key_bounds.check(&tree.name, key))
}

/// The deepest level in which `table` is newer than everything that it overlaps there and above; 0 if it overlaps a
/// table in level 0 or 1.
fn level_of(levels: &Levels, table: &TableInfo) -> usize {
    let meets = |level: &usize| !levels.overlapping(*level, &table.smallest, &table.largest).is_empty();
    (0..LEVELS).find(meets).map_or(LEVELS - 1, |level| level.saturating_sub(1))
}

impl Reshaper {
    /// Makes `ingested` part of `tree`, newer than everything in it.
    pub(crate) fn ingest(&self, tree: &Arc<TreeInner>, mut ingested: Ingested) -> Result<()> {
        let edits = ingested.tables.iter().map(|table| Edit::AddTable {
            tree: tree.id,
            level: 0,
            table: table.clone(),
        });
        let added: Vec<Edit> = edits.collect();
        let done = self.ingest_now(tree, &mut ingested);
        if done.is_err() {
            self.installer.discard_tables(&added);
        }
        done
    }

    fn ingest_now(&self, tree: &Arc<TreeInner>, ingested: &mut Ingested) -> Result<()> {
        let _one_at_a_time = self.reshaping.lock();
        // This syncs most of it while others write.
        self.core.blobs.sync()?;
        self.log.sync_published()?;
        let tables = ingested.tables.clone();
        self.while_paused(std::slice::from_ref(tree), &Self::must_be_flushed, || {
            check_bounds_of_tables(tree, &tables)?;
            self.watch_again(tree, ingested)?;
            let mut replaced = self.replaced_by(tree, ingested)?;
            self.install_ingested(tree, ingested, &mut replaced)
        })
    }

    /// Whether a memtable holds anything. It has to be in tables first: a later flush could put its older entries above
    /// the ingested tables, in a run of level 0 that counts as newer.
    fn must_be_flushed(tree: &TreeInner) -> bool {
        !tree.is_flushed() && !broken("ingest-order")
    }

    /// Searches all keys again for keys that may have had a huge value, if huge values were written since the first
    /// search. No thread writes to the tree now.
    fn watch_again(&self, tree: &TreeInner, ingested: &mut Ingested) -> Result<()> {
        let filter = &self.core.blobs.filter;
        if ingested.additions + ingested.blobs.len() as u64 == filter.additions() {
            return Ok(());
        }
        ingested.watched.clear();
        for info in &ingested.tables {
            let file = self.core.registry.file(info.file, info.salt);
            let mut cursor = Table::new(file, info.clone()).cursor(ScanHint::Compaction)?;
            cursor.seek_to_first()?;
            while cursor.valid() {
                if filter.may_contain(key_hash(tree.lineage, cursor.key())) {
                    ingested.watched.push(cursor.key().to_vec());
                }
                cursor.next()?;
            }
        }
        Ok(())
    }

    /// The huge values in the tree for ingested keys. They are looked up before the tables are part of the tree:
    /// afterwards a merge might remove everything that distinguishes the two. No thread writes to the tree now.
    fn replaced_by(&self, tree: &TreeInner, ingested: &mut Ingested) -> Result<Vec<Overwritten>> {
        ingested.watched.sort_unstable();
        ingested.watched.dedup();
        self.finder.find_overwritten(self.log.commit().visible())?;
        let state = tree.state.load_full();
        let mut replaced = Vec::new();
        for key in &ingested.watched {
            match base_at(&state, key, MAX_SEQ) {
                Ok(found) => replaced.extend(
                    found.and_then(|(from, kind, stored)| overwritten(tree, from, kind, &stored, MAX_SEQ)),
                ),
                // If a table on the way is damaged, the space stays taken until a merge drops the value.
                Err(error) if error.kind() == ErrorKind::Corruption => {}
                Err(error) => return Err(error),
            }
        }
        Ok(replaced)
    }

    fn install_ingested(
        &self,
        tree: &Arc<TreeInner>,
        ingested: &mut Ingested,
        replaced: &mut Vec<Overwritten>,
    ) -> Result<()> {
        let mut versions = self.versions.lock();
        self.log.check_changeable()?;
        if tree.is_dropped() {
            return Err(tree.dropped_error());
        }
        let number = self.log.commit().take_number()?;
        let levels = Arc::clone(&tree.state.load().levels);
        let mut edits: Vec<Edit> = Vec::new();
        for table in &ingested.tables {
            let level = level_of(&levels, table);
            let (min_seq, max_seq) = (number.seq, number.seq);
            let look_again = self.core.look_later(tree);
            let table = TableInfo { one_number: true, min_seq, max_seq, look_again, ..table.clone() };
            edits.push(Edit::AddTable { tree: tree.id, level: level as u8, table });
        }
        if tree.log {
            edits.push(Edit::Counters { next_file: 0, next_tree: 0, last_seq: number.seq });
        } else {
            edits.push(Edit::Flushed { tree: tree.id, seq: number.seq, time_us: 0 });
        }
        let by = number.seq;
        replaced.iter_mut().for_each(|one| (one.until, one.by) = (by, by));
        let installed = self.log.sync_to(number.end).and_then(|()| {
            ingested.blobs.iter_mut().for_each(|blob| blob.commit(Some(VOLATILE)));
            let named: Vec<Pointer> = ingested.blobs.iter().map(|blob| blob.pointer).collect();
            // The edit records the replaced values, since no log record does.
            let changes = BlobChanges { named: &named, replaced, ..BlobChanges::default() };
            self.installer.install_with_blobs(&mut versions, VersionEdit::of(edits), &changes)
        });
        if installed.is_err() {
            ingested.blobs.iter_mut().for_each(NewBlob::withdraw);
        } else if !tree.log {
            self.finder.note_flushed(&[(tree.id, by)]);
        }
        self.log.commit().show_number(&number);
        if installed.is_ok() {
            // Not earlier: the search for values that no reader sees assumes that the number is visible.
            self.finder.blob_gc().add_overwritten(replaced.drain(..));
        }
        self.core.notify(JobKind::Blobs);
        installed
    }
}
