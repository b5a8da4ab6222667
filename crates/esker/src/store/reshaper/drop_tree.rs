//! Drops a tree or a group of trees, and frees the huge values that belong to these alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Reshaper;
use super::group::{Whole, add_tags};
use crate::blob::Pointer;
use crate::blob::gc::{BlobChanges, Overwritten};
use crate::canary::broken;
use crate::cursor::SeqNo;
use crate::env::JobKind;
use crate::error::Result;
use crate::read::merging_cursor::{Direction, MergeCursor, sources_of};
use crate::state::TreeInner;
use crate::state::versions::{VersionEdit, Versions};
use crate::table::ScanHint;
use crate::version::edit::{Edit, TreeId};

/// Whether another tree has the lineage of one of `trees` for its huge values, because both were one tree or are in one
/// group.
pub(super) fn shares_lineage(versions: &Versions, trees: &[Arc<TreeInner>]) -> bool {
    let others = versions.trees().filter(|other| !trees.iter().any(|tree| tree.id == other.id));
    others.into_iter().any(|other| trees.iter().any(|tree| tree.lineage == other.lineage))
}

fn drop_edits(trees: &[Arc<TreeInner>]) -> Vec<Edit> {
    trees.iter().map(|tree| Edit::DropTree { tree: tree.id }).collect()
}

/// The pointers to huge values in trees that are about to be dropped.
pub(super) struct OwnPointers {
    pointers: Vec<Pointer>,
    /// All writes that have overwritten others in them are at most as new as this one, and synced.
    visible: SeqNo,
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
    /// Drops trees, and sets `tags` of others in the same step.
    pub(crate) fn drop(&self, what: Whole<'_>, tags: &[(&str, &str)]) -> Result<()> {
        // No import may add values under the trees' lineage before all of them are freed, and a group gets no tree.
        let _one_at_a_time = self.reshaping.lock();
        self.log.sync_published()?;
        let mut versions = self.versions.lock();
        let trees = what.trees(&versions)?;
        if shares_lineage(&versions, &trees) && !broken("rule-20-drop") {
            drop(versions);
            return self.drop_by_pointers(&trees, tags);
        }
        let mut edits = drop_edits(&trees);
        add_tags(&mut edits, &versions, tags)?;
        self.installer.apply(&mut versions, &VersionEdit::of(edits))?;
        drop(versions);
        let lineages: BTreeSet<TreeId> = trees.iter().map(|tree| tree.lineage).collect();
        lineages.into_iter().for_each(|lineage| self.finder.overwrite_blobs_of(lineage));
        Ok(())
    }

    /// Drops trees that share their lineage with others: only their own pointers show which huge values belong to them.
    /// Called under `Reshaper::reshaping`.
    fn drop_by_pointers(&self, trees: &[Arc<TreeInner>], tags: &[(&str, &str)]) -> Result<()> {
        let _paused = self.pause_writes(trees);
        let own = self.own_pointers(trees)?;
        let mut versions = self.versions.lock();
        if let Some(gone) = trees.iter().find(|tree| tree.is_dropped()) {
            return Err(gone.dropped_error());
        }
        let mut edits = drop_edits(trees);
        add_tags(&mut edits, &versions, tags)?;
        self.install_dropping(&mut versions, &own, |versions, of_blobs| {
            edits.extend(of_blobs);
            self.core.blobs.sync_names()?;
            self.installer.apply(versions, &VersionEdit::of(edits))
        })
    }

    /// Makes the edits that drop the trees of `own` durable by `install`, together with the edits that it gets. After a
    /// crash nothing else would show which values belonged to these trees, and which values were overwritten before.
    pub(super) fn install_dropping(
        &self,
        versions: &mut Versions,
        own: &OwnPointers,
        install: impl FnOnce(&mut Versions, Vec<Edit>) -> Result<()>,
    ) -> Result<()> {
        let overwritten = self.overwritten_of(versions, own);
        let changes = BlobChanges {
            durable_up_to: Some(own.visible),
            note_overwritten: true,
            replaced: &overwritten,
            ..BlobChanges::default()
        };
        let mut blobs = self.finder.blob_edits(versions, &changes);
        let installed = install(versions, blobs.take_edits());
        self.finder.after_blob_edits(blobs, installed.is_ok());
        // Not earlier: until the trees are gone, reads find their values, and no other edit may free them.
        match installed {
            Ok(()) => self.finder.blob_gc().add_overwritten(overwritten),
            Err(_) => self.finder.blob_gc().restore(&changes),
        }
        self.core.notify(JobKind::Blobs);
        installed
    }

    /// The pointers of trees that no thread writes to. This syncs all earlier writes.
    pub(super) fn own_pointers(&self, trees: &[Arc<TreeInner>]) -> Result<OwnPointers> {
        let visible = self.log.commit().visible();
        self.finder.find_overwritten(visible)?;
        self.log.sync_published()?;
        let mut pointers = Vec::new();
        if self.core.blobs.is_used() {
            trees.iter().try_for_each(|tree| pointers_in(tree).map(|found| pointers.extend(found)))?;
        }
        Ok(OwnPointers { pointers, visible })
    }

    /// The values that are overwritten when the trees of `own` are dropped. Called under the version lock.
    fn overwritten_of(&self, versions: &Versions, own: &OwnPointers) -> Vec<Overwritten> {
        // Scans and snapshots can still read what they see.
        let until = self.log.commit().visible() + 1;
        let is_there = |pointer: &&Pointer| {
            let known = versions.known().and_then(|known| known.blobs.live.get(&pointer.file));
            let is_freed = known.is_some_and(|record| record.freed.contains(&pointer.ordinal));
            !is_freed && self.core.blobs.get(pointer.file).is_some()
        };
        let overwritten = own.pointers.iter().filter(is_there).map(|pointer| Overwritten {
            until,
            len: pointer.len,
            ..Overwritten::unseen(pointer.file, pointer.ordinal, Some(pointer.reference))
        });
        overwritten.collect()
    }
}
