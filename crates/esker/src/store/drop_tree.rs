//! The end of a tree, and of the huge values that are its own.

use std::sync::Arc;

use super::blobs::{Ended, Frees};
use super::install::release_file;
use super::{Store, Structure};
use crate::blob::Pointer;
use crate::canary::broken;
use crate::cursor::SeqNo;
use crate::env::Lane;
use crate::error::{Error, ErrorKind, Result};
use crate::read::merge::{Direction, MergeCursor, sources_of};
use crate::state::TreeInner;
use crate::table::ScanHint;
use crate::version::edit::Edit;

/// Whether another tree's huge values are filed under the same number, because both were one tree.
pub(super) fn has_relatives(structure: &Structure, tree: &TreeInner) -> bool {
    structure.trees.values().any(|other| other.id != tree.id && other.root == tree.root)
}

/// The pointers to huge values that the tree holds.
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

impl Store {
    pub(super) fn tree_called(&self, structure: &Structure, name: &str) -> Result<Arc<TreeInner>> {
        let tree = structure.by_name.get(name).and_then(|id| structure.trees.get(id));
        tree.cloned().ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no tree \"{name}\"")))
    }

    /// Drops the tree called `name`.
    pub(crate) fn drop_tree(&self, name: &str) -> Result<()> {
        // What is filed under the tree's number must not become more, by an import, before all of it is freed.
        let _one_at_a_time = self.reshaping.lock();
        self.sync_published()?;
        let mut structure = self.structure.lock();
        let tree = self.tree_called(&structure, name)?;
        if has_relatives(&structure, &tree) && !broken("rule-20-drop") {
            drop(structure);
            return self.drop_relative(&tree);
        }
        self.commit_edits(&mut structure, &[Edit::DropTree { tree: tree.id }])?;
        self.let_go(structure, &tree);
        self.free_blobs_of(tree.root);
        Ok(())
    }

    /// Drops a tree whose huge values only its own pointers tell from another tree's. Under `reshaping`.
    fn drop_relative(&self, tree: &Arc<TreeInner>) -> Result<()> {
        let _held = self.hold(tree);
        let visible = self.commit.visible();
        self.settle_blobs(visible)?;
        self.sync_published()?;
        let pointers = if self.blobs.is_used() { pointers_in(tree)? } else { Vec::new() };
        let mut structure = self.structure.lock();
        if tree.is_dropped() {
            return Err(tree.dropped_error());
        }
        // Scans and snapshots go on reading what they see.
        let until = self.commit.visible() + 1;
        let is_there = |pointer: &&Pointer| {
            let manifest = structure.manifest.as_ref();
            let known = manifest.and_then(|manifest| manifest.state.blobs.live.get(&pointer.file));
            let is_freed = known.is_some_and(|record| record.freed.contains(&pointer.ordinal));
            !is_freed && self.blobs.get(pointer.file).is_some()
        };
        let ended = pointers.iter().filter(is_there).map(|pointer| Ended {
            until,
            len: pointer.len,
            ..Ended::for_good(pointer.file, pointer.ordinal, Some(pointer.share))
        });
        self.ending.state.lock().shadowed.extend(ended);
        // After a crash nothing would tell which values were the tree's: the edit that drops it has to.
        let frees = Frees { dead_up_to: Some(visible), note_shadowed: true, ..Frees::default() };
        let mut blobs = self.blob_edits(&structure, &frees);
        let edits = [vec![Edit::DropTree { tree: tree.id }], blobs.take_edits()].concat();
        let named = self.blobs.sync_names();
        let dropped = named.and_then(|()| self.commit_edits(&mut structure, &edits));
        self.after_blob_edits(blobs, dropped.is_ok());
        if dropped.is_err() {
            // Its values are about to be given up in memory: nothing of that may become durable.
            self.commit.poison();
            return dropped;
        }
        self.let_go(structure, tree);
        self.ending.note_shadowed();
        self.notify(Lane::Blobs);
        Ok(())
    }

    /// Takes a tree out that the manifest does not have any more.
    fn let_go(&self, mut structure: parking_lot::MutexGuard<'_, Structure>, tree: &Arc<TreeInner>) {
        structure.by_name.remove(&tree.name);
        structure.trees.remove(&tree.id);
        let state = {
            let _no_reservations = self.commit.lock();
            tree.mark_dropped()
        };
        state.levels.tables().for_each(|(_, table)| release_file(&mut structure, table.info.file));
        drop(structure);
        self.forget_waiting(tree);
        if !tree.log {
            // With the tree goes what could bring anything back.
            self.note_flushed(&[(tree.id, SeqNo::MAX)]);
        }
        self.notify(Lane::Compact);
    }
}
