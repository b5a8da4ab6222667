//! Drops a tree, and frees the huge values that belong to it alone.

use std::sync::Arc;

use super::Reshaper;
use crate::blob::Pointer;
use crate::blob::gc::{BlobChanges, Overwritten};
use crate::canary::broken;
use crate::env::JobKind;
use crate::error::Result;
use crate::read::merging_cursor::{Direction, MergeCursor, sources_of};
use crate::state::TreeInner;
use crate::state::versions::{VersionEdit, Versions};
use crate::table::ScanHint;
use crate::version::edit::Edit;

/// Whether another tree has the same lineage for its huge values, because both were one tree.
pub(super) fn shares_lineage(versions: &Versions, tree: &TreeInner) -> bool {
    versions.trees().any(|other| other.id != tree.id && other.lineage == tree.lineage)
}

/// The pointers to huge values in the tree.
pub(super) fn pointers_in(tree: &TreeInner) -> Result<Vec<Pointer>> {
    let state = tree.state.load_full();
    let mut merge = MergeCursor::new(sources_of(&state, ScanHint::Compaction)?, Direction::Forward);
    merge.seek_to_start()?;
    let mut pointers = Vec::new();
    while merge.valid() {
        pointers.extend(Pointer::of_entry(merge.kind(), merge.value()));
        merge.advance()?;
    }
    Ok(pointers)
}

impl Reshaper {
    /// Drops the tree called `name`.
    pub(crate) fn drop_tree(&self, name: &str) -> Result<()> {
        // No import may add values under the tree's lineage before all of them are freed.
        let _one_at_a_time = self.reshaping.lock();
        self.log.sync_published()?;
        let mut versions = self.versions.lock();
        let tree = versions.tree_called(name)?;
        if shares_lineage(&versions, &tree) && !broken("rule-20-drop") {
            drop(versions);
            return self.drop_one_of_lineage(&tree);
        }
        self.installer.apply(&mut versions, &VersionEdit::of(vec![Edit::DropTree { tree: tree.id }]))?;
        drop(versions);
        self.finder.overwrite_blobs_of(tree.lineage);
        Ok(())
    }

    /// Drops a tree that shares its lineage with another tree: only its own pointers tell which huge values belong to
    /// it. Called under `Reshaper::reshaping`.
    fn drop_one_of_lineage(&self, tree: &Arc<TreeInner>) -> Result<()> {
        let _paused = self.pause_writes(tree);
        let visible = self.log.commit().visible();
        self.finder.find_overwritten(visible)?;
        self.log.sync_published()?;
        let pointers = if self.core.blobs.is_used() { pointers_in(tree)? } else { Vec::new() };
        let mut versions = self.versions.lock();
        if tree.is_dropped() {
            return Err(tree.dropped_error());
        }
        // Scans and snapshots continue to read what they see.
        let until = self.log.commit().visible() + 1;
        let is_there = |pointer: &&Pointer| {
            let known = versions.known().and_then(|known| known.blobs.live.get(&pointer.file));
            let is_freed = known.is_some_and(|record| record.freed.contains(&pointer.ordinal));
            !is_freed && self.core.blobs.get(pointer.file).is_some()
        };
        let overwritten = pointers.iter().filter(is_there).map(|pointer| Overwritten {
            until,
            len: pointer.len,
            ..Overwritten::unseen(pointer.file, pointer.ordinal, Some(pointer.reference))
        });
        self.finder.blob_gc().add_overwritten(overwritten);
        // After a crash nothing else would tell which values belonged to the tree, so the edit that drops it does.
        let changes =
            BlobChanges { durable_up_to: Some(visible), note_overwritten: true, ..BlobChanges::default() };
        let mut blobs = self.finder.blob_edits(&versions, &changes);
        let change = VersionEdit::of([vec![Edit::DropTree { tree: tree.id }], blobs.take_edits()].concat());
        let named = self.core.blobs.sync_names();
        let dropped = named.and_then(|()| self.installer.apply(&mut versions, &change));
        self.finder.after_blob_edits(blobs, dropped.is_ok());
        if dropped.is_err() {
            // In memory its values are already unreferenced: nothing of that may become durable.
            self.log.commit().poison();
            return dropped;
        }
        drop(versions);
        self.core.notify(JobKind::Blobs);
        Ok(())
    }
}
