//! Completes a change of tables (with edits about blob files, counters, clock and the log's floor), and passes it to
//! [`Installer::apply`].

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::survivors::LeftOut;
use super::Installer;
use crate::blob::Pointer;
use crate::blob::gc::BlobChanges;
use crate::cursor::SeqNo;
use crate::env::JobKind;
use crate::error::Result;
use crate::flush::Flushed;
use crate::log::replay::LogFloor;
use crate::state::versions::{VersionEdit, Versions};
use crate::state::{Mem, TreeInner};
use crate::version::edit::{Edit, TreeId};

impl Installer {
    /// Makes `edits` durable and shows them. `dropped` are pointers to huge values whose last version a merge has left
    /// out.
    pub(in crate::store) fn install(&self, edits: Vec<Edit>, dropped: &[Pointer]) -> Result<()> {
        let changes = BlobChanges { dropped, ..BlobChanges::default() };
        self.install_with_blobs(&mut self.versions.lock(), VersionEdit::of(edits), &changes)
    }

    /// [`Installer::install`] for a flush or a merge that leaves out the entries in `left_out`. `install` makes the
    /// edits durable together with the changes that it gets.
    pub(in crate::store) fn leaving_out(
        &self,
        mut left_out: LeftOut,
        changes: BlobChanges<'_>,
        install: impl FnOnce(&BlobChanges<'_>) -> Result<()>,
    ) -> Result<()> {
        let changes = BlobChanges { dropped: &left_out.unseen, by_rule: &left_out.by_rule, ..changes };
        install(&changes)?;
        if !left_out.by_rule.is_empty() {
            // A snapshot that was taken up to now may have found the entries before the edits were shown.
            let until = self.log.commit().visible() + 1;
            left_out.by_rule.iter_mut().for_each(|one| one.until = until);
            self.finder.blob_gc().add_overwritten(left_out.by_rule);
            self.core.notify(JobKind::Blobs);
        }
        Ok(())
    }

    /// Makes `change` durable, with the changes of blob files and those in `changes`, and shows it.
    pub(in crate::store) fn install_with_blobs(
        &self,
        versions: &mut Versions,
        mut change: VersionEdit<'_>,
        changes: &BlobChanges<'_>,
    ) -> Result<()> {
        let in_tables = self.core.blobs.note_in_tables(changes.named);
        let mut blobs = self.finder.blob_edits(versions, changes);
        change.edits.append(&mut blobs.take_edits());
        change.edits.push(Edit::Counters {
            next_file: self.core.tables.next_file.load(Ordering::Relaxed),
            next_tree: versions.next_tree(),
            last_seq: 0,
        });
        change.edits.push(self.core.clock_edit());
        // The manifest must not name a file before its name is durable.
        let named = self.core.blobs.sync_names();
        let installed = named.and_then(|()| self.apply(versions, &change));
        if installed.is_err() {
            self.core.blobs.note_not_in_tables(&in_tables);
            self.finder.blob_gc().restore(changes);
        }
        self.finder.after_blob_edits(blobs, installed.is_ok());
        installed
    }

    /// Installs flushed memtables, and moves the log's floor up to the oldest record that is still needed.
    pub(in crate::store) fn install_flush(
        &self,
        flushed: &[(Arc<TreeInner>, Vec<Arc<Mem>>)],
        mut edits: Vec<Edit>,
        changes: &BlobChanges<'_>,
    ) -> Result<()> {
        let in_tables = Flushed::new(flushed);
        let mut versions = self.versions.lock();
        let floor = self.floor_without(&versions, &in_tables);
        edits.push(Edit::Floor(floor));
        edits.push(Edit::LogSynced { position: self.log.wal().synced() });
        let change = VersionEdit { flushed, ..VersionEdit::of(edits) };
        self.install_with_blobs(&mut versions, change, changes)?;
        // Called under the lock: while a checkpoint holds it, the segments that it copies stay.
        self.log.wal().retire(floor);
        drop(versions);
        self.immutable.remove(&in_tables);
        self.core.pool.set_reserved(self.core.registry.memory());
        self.core.health.signal();
        Ok(())
    }

    /// Where recovery would have to begin if `flushed` were in tables.
    fn floor_without(&self, versions: &Versions, flushed: &Flushed) -> LogFloor {
        // Under the lock, no tree can take its first write in the current segment unseen.
        let state = self.log.commit().lock();
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

    /// Removes the tables that `edits` would have added, after the edits have failed. If it is unknown whether they
    /// have, the tables stay, and the next opening decides.
    pub(in crate::store) fn discard_tables(&self, edits: &[Edit]) {
        // If the store is closed, the names may belong to another opening by now.
        let Ok(_inside) = self.core.blobs.gate.enter() else { return };
        if self.log.commit().check().is_err() {
            return;
        }
        let versions = self.versions.lock();
        for edit in edits {
            if let Edit::AddTable { table, .. } = edit
                && !versions.has_table(table.file)
            {
                self.disk.discard_file(table.file);
            }
        }
    }

    /// The sequence number up to which the tree's writes are in tables, by the manifest.
    pub(in crate::store) fn flushed_up_to(&self, tree: TreeId) -> SeqNo {
        let versions = self.versions.lock();
        let record = versions.known().and_then(|known| known.trees.get(&tree));
        record.map_or(0, |record| record.flushed)
    }

    /// The edits that note the tree's range tombstones in the manifest, when all up to `seq` is flushed.
    pub(in crate::store) fn ranges_to_note(&self, tree: &TreeInner, seq: SeqNo) -> Vec<Edit> {
        let list = tree.state.load().ranges.list();
        if list.is_empty() {
            return Vec::new();
        }
        let known = self.flushed_up_to(tree.id);
        let new = list.into_iter().filter(|one| one.seq > known && one.seq <= seq);
        new.map(|one| Edit::DeleteRange { tree: tree.id, seq: one.seq, range: one.range }).collect()
    }
}
