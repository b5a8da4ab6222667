//! Changes of structure: an edit is made durable in the manifest, then shown to readers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::blobs::Frees;
use super::reserve::with_reserve;
use super::{Store, Structure};
use crate::blob::Pointer;
use crate::compact::pick;
use crate::env::Lane;
use crate::error::{Error, ErrorKind, Result};
use crate::log::replay::LogFloor;
use crate::state::{Mem, TreeInner};
use crate::version::edit::{Edit, FileId, TreeId};
use crate::version::levels::{Levels, Table};
use crate::version::tables::table_path;

impl Store {
    /// Makes `edits` durable and shows `trees` with their new tables and without their flushed memtables.
    /// `dropped` are the huge values whose last version a merge has left out.
    pub(crate) fn install(
        &self,
        trees: &[(Arc<TreeInner>, Vec<Arc<Mem>>)],
        edits: Vec<Edit>,
        dropped: &[Pointer],
    ) -> Result<()> {
        let mut structure = self.structure.lock();
        let frees = Frees { dropped, ..Frees::default() };
        self.install_with_blobs(&mut structure, trees, edits, &frees)
    }

    pub(super) fn install_with_blobs(
        &self,
        structure: &mut Structure,
        trees: &[(Arc<TreeInner>, Vec<Arc<Mem>>)],
        mut edits: Vec<Edit>,
        frees: &Frees<'_>,
    ) -> Result<()> {
        let in_tables = self.blobs.note_in_tables(frees.named);
        let mut blobs = self.blob_edits(structure, frees);
        edits.append(&mut blobs.edits);
        // A file that the manifest names is found after a power loss.
        let named = self.blobs.sync_names();
        let installed = named.and_then(|()| self.install_locked(structure, trees, edits));
        if installed.is_err() {
            self.blobs.note_not_in_tables(in_tables);
        }
        self.after_blob_edits(blobs, installed.is_ok());
        installed
    }

    fn install_locked(
        &self,
        structure: &mut Structure,
        trees: &[(Arc<TreeInner>, Vec<Arc<Mem>>)],
        mut edits: Vec<Edit>,
    ) -> Result<()> {
        // A tree may have been dropped while its tables were being written: they are nobody's then.
        let dropped: Vec<TreeId> =
            trees.iter().filter(|(tree, _)| tree.is_dropped()).map(|(tree, _)| tree.id).collect();
        let orphans = orphan_files(&edits, &dropped);
        edits.retain(|edit| edit_tree(edit).is_none_or(|tree| !dropped.contains(&tree)));
        edits.push(Edit::Counters {
            next_file: self.tables.next_file.load(Ordering::Relaxed),
            next_tree: structure.next_tree,
            last_seq: 0,
        });
        edits.push(self.clock_edit());
        self.commit_edits(structure, &edits)?;
        self.note_expiring(&edits);
        for (tree, flushed) in trees.iter().filter(|(tree, _)| !tree.is_dropped()) {
            let levels = Arc::new(self.levels_after(structure, tree, &edits));
            tree.install(&levels, flushed);
        }
        self.count_references(structure, &edits);
        for file in orphans.into_iter().filter(|file| !structure.files.contains_key(file)) {
            self.discard_file(file);
        }
        let installed = trees.iter().map(|(tree, _)| Arc::clone(tree));
        self.add_compaction_candidates(installed);
        let candidates = self.candidates.lock();
        let behind = |tree: &Arc<TreeInner>| pick::runs_behind(&tree.state.load().levels, &tree.options());
        // Waiting helps no merge that has no room.
        let runs = candidates.values().filter(|tree| !self.was_stuck(tree)).map(behind).max();
        self.throttle.set_runs(runs.unwrap_or(0));
        drop(candidates);
        self.executor.notify(Lane::Compact);
        Ok(())
    }

    /// Removes the tables that `edits` would have added, when that came to nothing. Where it is not known
    /// whether it did, they stay: opening the store tells.
    pub(super) fn discard_tables(&self, edits: &[Edit]) {
        // Where the store is closed, the names may be another opening's by now.
        let Ok(_inside) = self.blobs.gate.enter() else { return };
        if self.commit.check().is_err() {
            return;
        }
        let structure = self.structure.lock();
        for edit in edits {
            if let Edit::AddTable { table, .. } = edit
                && !structure.files.contains_key(&table.file)
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

    /// Writes `edits` to the manifest and notes in the log how far it is synced.
    pub(crate) fn commit_edits(&self, structure: &mut Structure, edits: &[Edit]) -> Result<()> {
        self.check_open()?;
        self.commit_edits_when_closing(structure, edits)
    }

    /// [`Store::commit_edits`] for the last edit of a store that is closing.
    pub(super) fn commit_edits_when_closing(&self, structure: &mut Structure, edits: &[Edit]) -> Result<()> {
        let manifest = structure
            .manifest
            .as_mut()
            .ok_or_else(|| Error::new(ErrorKind::ReadOnly, "the store was opened for reading only"))?;
        let result = with_reserve(&self.reserve, || manifest.commit(edits));
        if manifest.failure().is_some() {
            self.commit.poison();
        }
        result?;
        let (number, len) = manifest.synced();
        if self.wal.mark_manifest(number, len).is_err() {
            // The edits count all the same: who made them must show them.
            self.commit.poison();
        }
        Ok(())
    }

    pub(super) fn levels_after(
        &self,
        structure: &mut Structure,
        tree: &Arc<TreeInner>,
        edits: &[Edit],
    ) -> Levels {
        let mut removed = Vec::new();
        let mut added = Vec::new();
        for edit in edits {
            match edit {
                Edit::RemoveTable { tree: of, level, file } if *of == tree.id => {
                    removed.push((usize::from(*level), *file));
                }
                Edit::AddTable { tree: of, level, table } if *of == tree.id => {
                    let entry = structure.files.entry(table.file);
                    let file = &entry.or_insert_with(|| (self.registry.file(table.file, table.salt), 0)).0;
                    added.push((usize::from(*level), Table::new(Arc::clone(file), table.clone())));
                }
                _ => {}
            }
        }
        tree.state.load().levels.with(&removed, added)
    }

    /// Counts who names which file; one that nobody names any more goes with its last reader.
    pub(super) fn count_references(&self, structure: &mut Structure, edits: &[Edit]) {
        for edit in edits {
            if let Edit::AddTable { table, .. } = edit
                && let Some(entry) = structure.files.get_mut(&table.file)
            {
                entry.1 += 1;
            }
        }
        for edit in edits {
            if let Edit::RemoveTable { file, .. } = edit {
                release_file(structure, *file);
            }
        }
    }

    /// Installs flushed memtables, and moves the log's floor up to what the rest still needs.
    pub(super) fn install_flush(
        &self,
        flushed: &[(Arc<TreeInner>, Vec<Arc<Mem>>)],
        mut edits: Vec<Edit>,
        frees: &Frees<'_>,
    ) -> Result<()> {
        let mut structure = self.structure.lock();
        let floor = self.floor_without(&structure, flushed);
        edits.push(Edit::Floor(floor));
        edits.push(Edit::LogSynced { position: self.wal.synced() });
        self.install_with_blobs(&mut structure, flushed, edits, frees)?;
        // Under the lock, as long as which a checkpoint relies on the segments that it copies.
        self.wal.retire(floor);
        drop(structure);
        let mut waiting = self.waiting.lock();
        let mut freed = 0;
        waiting.retain(|(_, mem)| {
            let done = flushed.iter().any(|(_, mems)| mems.iter().any(|other| Arc::ptr_eq(other, mem)));
            freed += if done { mem.table.memory() } else { 0 };
            !done
        });
        drop(waiting);
        self.waiting_bytes.fetch_sub(freed, Ordering::Relaxed);
        self.update_memory();
        self.signal_progress();
        Ok(())
    }

    /// Where recovery would have to begin if `flushed` were in tables.
    fn floor_without(&self, structure: &Structure, flushed: &[(Arc<TreeInner>, Vec<Arc<Mem>>)]) -> LogFloor {
        // Under the lock, no tree can take its first write in the current segment unseen.
        let state = self.commit.lock();
        let header = state.tail.segment.header();
        let current = LogFloor { segment: header.id, start: header.start };
        let is_flushed =
            |mem: &Arc<Mem>| flushed.iter().any(|(_, mems)| mems.iter().any(|other| Arc::ptr_eq(other, mem)));
        let needed = structure.trees.values().flat_map(|tree| {
            let state = tree.state.load_full();
            let mems: Vec<Arc<Mem>> = state.waiting.iter().chain([&state.mem]).cloned().collect();
            mems.into_iter().filter(|mem| !is_flushed(mem)).filter_map(|mem| mem.floor())
        });
        needed
            .min_by_key(|floor| floor.segment)
            .map_or(current, |floor| if floor.segment < current.segment { floor } else { current })
    }
}

fn edit_tree(edit: &Edit) -> Option<TreeId> {
    match edit {
        Edit::AddTable { tree, .. }
        | Edit::RemoveTable { tree, .. }
        | Edit::Flushed { tree, .. }
        | Edit::DeleteRange { tree, .. } => Some(*tree),
        _ => None,
    }
}

/// New files that `edits` would have added to trees that are gone. Those that were only to be moved went
/// with the tree, and go with their last reader.
fn orphan_files(edits: &[Edit], dropped: &[TreeId]) -> Vec<FileId> {
    let is_moved = |moved: FileId| {
        edits.iter().any(|edit| matches!(edit, Edit::RemoveTable { file, .. } if *file == moved))
    };
    let added = edits.iter().filter_map(|edit| match edit {
        Edit::AddTable { tree, table, .. } if dropped.contains(tree) => Some(table.file),
        _ => None,
    });
    let added = added.filter(|file| !is_moved(*file));
    added.collect()
}

/// One level less names `file`.
pub(super) fn release_file(structure: &mut Structure, file: FileId) {
    if let Some(entry) = structure.files.get_mut(&file) {
        entry.1 -= 1;
        if entry.1 == 0
            && let Some((file, _)) = structure.files.remove(&file)
        {
            file.mark_obsolete();
        }
    }
}
