//! Installs changes of structure: makes edits durable in the manifest, shows them to readers through
//! [`crate::state::versions`], and does what they make due in the rest of the store.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Store;
use crate::blob::Pointer;
use crate::blob::gc::Frees;
use crate::compact::pick;
use crate::cursor::SeqNo;
use crate::env::JobKind;
use crate::error::Result;
use crate::flush::Flushed;
use crate::log::replay::LogFloor;
use crate::state::versions::{Applied, Change, Versions};
use crate::state::{Mem, TreeInner};
use crate::version::edit::{Edit, FileId};
use crate::version::manifest::Manifest;
use crate::version::tables::table_path;

impl Store {
    /// Makes `edits` durable and shows them. `dropped` are pointers to huge values whose last version a merge has left
    /// out.
    pub(crate) fn install(&self, edits: Vec<Edit>, dropped: &[Pointer]) -> Result<()> {
        let frees = Frees { dropped, ..Frees::default() };
        self.install_with_blobs(&mut self.versions.lock(), Change::of(edits), &frees)
    }

    /// Makes `change` durable, with the changes of blob files and what `frees` lists, and shows it.
    pub(super) fn install_with_blobs(
        &self,
        versions: &mut Versions,
        mut change: Change<'_>,
        frees: &Frees<'_>,
    ) -> Result<()> {
        let in_tables = self.blobs.note_in_tables(frees.named);
        let mut blobs = self.blob_edits(versions, frees);
        change.edits.append(&mut blobs.take_edits());
        change.edits.push(Edit::Counters {
            next_file: self.tables.next_file.load(Ordering::Relaxed),
            next_tree: versions.next_tree(),
            last_seq: 0,
        });
        change.edits.push(self.clock_edit());
        // The manifest must not name a file before its name is durable.
        let named = self.blobs.sync_names();
        let installed = named.and_then(|()| self.apply(versions, &change));
        if installed.is_err() {
            self.blobs.note_not_in_tables(&in_tables);
        }
        self.after_blob_edits(blobs, installed.is_ok());
        installed
    }

    /// Makes `change` durable and shows it.
    pub(crate) fn apply(&self, versions: &mut Versions, change: &Change<'_>) -> Result<()> {
        self.health.check_open()?;
        self.apply_when_closing(versions, change)
    }

    /// [`Store::apply`] for the last edits of a store that is closing.
    pub(super) fn apply_when_closing(&self, versions: &mut Versions, change: &Change<'_>) -> Result<()> {
        let commit = |manifest: &mut Manifest, edits: &[Edit]| self.commit_edits(manifest, edits);
        let applied = versions.apply(change, commit, || self.commit.lock_briefly())?;
        self.follow(applied);
        Ok(())
    }

    /// Writes `edits` to the manifest and notes in the log how far it is synced.
    fn commit_edits(&self, manifest: &mut Manifest, edits: &[Edit]) -> Result<()> {
        let result = self.space.with_reserve(|| manifest.commit(edits));
        if manifest.failure().is_some() {
            self.commit.poison();
        }
        result?;
        let (number, len) = manifest.synced();
        if self.wal.mark_manifest(number, len).is_err() {
            // The edits count all the same, so they are shown.
            self.commit.poison();
        }
        Ok(())
    }

    /// Does what a change of versions makes due. Called under the version lock.
    fn follow(&self, applied: Applied) {
        let Applied { changed, dropped, orphans, due_us } = applied;
        due_us.into_iter().for_each(|due_us| self.compactions.note_due(due_us));
        orphans.into_iter().for_each(|file| self.discard_file(file));
        for tree in &dropped {
            self.immutable.remove_tree(tree);
            self.compactions.forget(tree);
            self.health.signal();
            if !tree.log {
                // With the tree, everything that could come back is gone.
                self.note_flushed(&[(tree.id, SeqNo::MAX)]);
            }
        }
        // The same job removes the tables of dropped trees.
        let has_work = !changed.is_empty() || !dropped.is_empty();
        if !changed.is_empty() {
            self.compactions.add(changed);
            self.update_throttle();
        }
        if has_work {
            self.notify(JobKind::Compact);
        }
    }

    /// Slows writers according to how far merges are behind.
    fn update_throttle(&self) {
        let behind = |tree: &TreeInner| pick::runs_behind(&tree.state.load().levels, &tree.options());
        // A wait helps no merge that has no room.
        self.throttle.set_runs(self.compactions.most(behind));
    }

    /// Removes the tables that `edits` would have added, after the edits have failed. If it is unknown whether they
    /// have, the tables stay, and the next opening decides.
    pub(super) fn discard_tables(&self, edits: &[Edit]) {
        // If the store is closed, the names may belong to another opening by now.
        let Ok(_inside) = self.blobs.gate.enter() else { return };
        if self.commit.check().is_err() {
            return;
        }
        let versions = self.versions.lock();
        for edit in edits {
            if let Edit::AddTable { table, .. } = edit
                && !versions.has_table(table.file)
            {
                self.discard_file(table.file);
            }
        }
    }

    /// Removes a table that no edit names.
    fn discard_file(&self, file: FileId) {
        drop(self.env.fs.remove_file(&table_path(&self.dir, file)));
        self.pool.remove_table(file);
    }

    /// Installs flushed memtables, and moves the log's floor up to the oldest record that is still needed.
    pub(super) fn install_flush(
        &self,
        flushed: &[(Arc<TreeInner>, Vec<Arc<Mem>>)],
        mut edits: Vec<Edit>,
        frees: &Frees<'_>,
    ) -> Result<()> {
        let in_tables = Flushed::new(flushed);
        let mut versions = self.versions.lock();
        let floor = self.floor_without(&versions, &in_tables);
        edits.push(Edit::Floor(floor));
        edits.push(Edit::LogSynced { position: self.wal.synced() });
        let change = Change { flushed, ..Change::of(edits) };
        self.install_with_blobs(&mut versions, change, frees)?;
        // Called under the lock: while a checkpoint holds it, the segments that it copies stay.
        self.wal.retire(floor);
        drop(versions);
        self.immutable.remove(&in_tables);
        self.update_memory();
        self.health.signal();
        Ok(())
    }

    /// Where recovery would have to begin if `flushed` were in tables.
    fn floor_without(&self, versions: &Versions, flushed: &Flushed) -> LogFloor {
        // Under the lock, no tree can take its first write in the current segment unseen.
        let state = self.commit.lock();
        let header = state.tail.segment.header();
        let current = LogFloor { segment: header.id, start: header.start };
        let needed = versions.trees().flat_map(|tree| {
            let state = tree.state.load_full();
            let mems: Vec<Arc<Mem>> = state.immutable.iter().chain([&state.mem]).cloned().collect();
            mems.into_iter().filter(|mem| !flushed.contains(mem)).filter_map(|mem| mem.floor())
        });
        needed
            .min_by_key(|floor| floor.segment)
            .map_or(current, |floor| if floor.segment < current.segment { floor } else { current })
    }
}
