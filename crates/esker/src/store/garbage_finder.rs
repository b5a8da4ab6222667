//! The store's part in the garbage collection of huge values ([`crate::blob::gc`]): it looks up the values that writes
//! have overwritten, and builds the edits about blob files. [`Collector`](super::Collector) drives the rounds (rule
//! 12).
//!
//! - A write to a key that may have had a huge value leaves a lookup ([`crate::write::lookups`]). A flush does the
//!   lookups of all writes up to its last sequence number, before the log can lose those writes.
//! - The edit that installs the tables of a flush or a merge frees the values that it has dropped.
//! - A value is freed in the manifest once the overwriting write survives power loss. Its blocks are given back after
//!   that.

use std::sync::Arc;

use super::{CommitLog, Core};
use crate::blob::gc::{BlobChanges, BlobEdits, BlobGc, Garbage, Overwritten};
use crate::blob::{BlobFileId, Pointer};
use crate::cursor::{Kind, SeqNo};
use crate::env::JobKind;
use crate::error::{ErrorKind, Result};
use crate::read::get::{base_at, bases_in};
use crate::state::TreeInner;
use crate::state::versions::Versions;
use crate::version::blob_edits::BlobFiles;
use crate::version::edit::{Edit, ManifestState, TreeId};
use crate::write::lookups::{Lookup, What};

/// The references that the write of a lookup has overwritten.
fn overwritten_by(lookup: &Lookup) -> Result<Vec<Overwritten>> {
    let now = lookup.tree.state.load_full();
    match &lookup.what {
        What::Key(key) => {
            let before = base_at(&now, key, lookup.seq - 1)?;
            let overwritten = before
                .and_then(|(from, kind, stored)| overwritten(&lookup.tree, from, kind, &stored, lookup.seq));
            let Some(mut overwritten) = overwritten else { return Ok(Vec::new()) };
            let after = base_at(&now, key, lookup.seq)?;
            let pointer = after.and_then(|(_, kind, stored)| Pointer::of_entry(kind, &stored));
            if pointer.is_some_and(|one| (one.file, one.ordinal) == (overwritten.file, overwritten.ordinal)) {
                // Only the part stored next to the value has changed: its space is not garbage.
                overwritten.len = 0;
            }
            Ok(vec![overwritten])
        }
        What::Range(range) => {
            let mut all = Vec::new();
            bases_in(&now, range, lookup.seq - 1, |from, kind, stored| {
                all.extend(overwritten(&lookup.tree, from, kind, stored, lookup.seq));
            })?;
            Ok(all)
        }
    }
}

/// The reference of an entry of `tree` with the number `from`, if it has a huge value. The write `by` has overwritten
/// it.
pub(super) fn overwritten(
    tree: &TreeInner,
    from: SeqNo,
    kind: Kind,
    stored: &[u8],
    by: SeqNo,
) -> Option<Overwritten> {
    Overwritten::of_entry(from, kind, stored, by, (!tree.log).then_some(tree.id))
}

/// Finds huge values that were overwritten, and builds the edits of blob files.
pub(crate) struct GarbageFinder {
    core: Arc<Core>,
    log: Arc<CommitLog>,
    blob_gc: BlobGc,
}

impl GarbageFinder {
    pub(super) fn new(core: &Arc<Core>, log: &Arc<CommitLog>) -> GarbageFinder {
        GarbageFinder { core: Arc::clone(core), log: Arc::clone(log), blob_gc: BlobGc::new(&core.blobs) }
    }

    #[inline]
    pub(super) fn blob_gc(&self) -> &BlobGc {
        &self.blob_gc
    }

    // ---- finding out ---------------------------------------------------------------------------------

    /// Finds the huge values that writes up to `limit` have overwritten, and those that no reader sees any more.
    pub(crate) fn find_overwritten(&self, limit: SeqNo) -> Result<()> {
        let mut garbage = self.blob_gc.garbage();
        while let Some(lookup) = self.log.commit().lookups.take_up_to(limit) {
            if lookup.tree.is_dropped() {
                continue;
            }
            if matches!(lookup.what, What::Range(_)) && self.core.blobs.filter.is_empty() {
                // No key ever held a huge value, so a replayed deletion need not be looked into.
                continue;
            }
            match overwritten_by(&lookup) {
                Ok(overwritten) => garbage.add_overwritten(overwritten),
                // If a table on the way is damaged, the space stays taken until a merge drops the value.
                Err(error) if error.kind() == ErrorKind::Corruption => {}
                Err(error) => {
                    self.log.commit().lookups.put_back(lookup);
                    return Err(error);
                }
            }
        }
        self.find_unseen(&mut garbage);
        Ok(())
    }

    fn find_unseen(&self, garbage: &mut Garbage) {
        self.blob_gc.find_unseen(garbage, || self.core.snapshots.registered());
    }

    /// Notes that a snapshot or a scan was released.
    pub(crate) fn snapshot_released(&self) {
        if self.blob_gc.has_overwritten() {
            self.core.notify(JobKind::Blobs);
        }
    }

    /// Notes that all values under the lineage `tree` are overwritten, because the manifest has no tree with this
    /// lineage any more. Scans that are open continue.
    pub(super) fn overwrite_blobs_of(&self, tree: TreeId) {
        self.blob_gc.overwrite_tree(tree, self.log.commit().visible() + 1);
        self.core.notify(JobKind::Blobs);
    }

    /// Notes up to which writes trees without the log are in tables. The values that these writes have overwritten may
    /// be freed.
    pub(super) fn note_flushed(&self, trees: &[(TreeId, SeqNo)]) {
        self.blob_gc.note_flushed(trees);
        self.core.notify(JobKind::Blobs);
    }

    /// Takes over the values that recovery has found unneeded, and the values that are freed but not punched yet.
    pub(crate) fn adopt_garbage(&self, unneeded: Vec<(BlobFileId, u64)>) -> Result<()> {
        self.blob_gc.adopt(unneeded)
    }

    // ---- edits ---------------------------------------------------------------------------------------

    /// Edits that record changes of blob files and free the values that `changes` lists.
    pub(super) fn blob_edits(&self, versions: &Versions, changes: &BlobChanges<'_>) -> BlobEdits {
        let edits = |manifest| self.blob_gc.edits(manifest, self.log.wal().synced(), changes);
        versions.known().map(edits).unwrap_or_default()
    }

    /// Notes the result of `edits`: their values are freed or, if the edits failed, a later round has to free them.
    pub(crate) fn after_blob_edits(&self, edits: BlobEdits, durable: bool) {
        if self.blob_gc.after_edits(edits, durable) {
            self.core.notify(JobKind::Blobs);
        }
    }

    /// Edits that record what the opening has found about blob files. All that was replayed is durable.
    pub(crate) fn blob_edits_of_opening(&self, versions: &Versions) -> BlobEdits {
        self.blob_edits(versions, &BlobChanges { durable_up_to: Some(SeqNo::MAX), ..BlobChanges::default() })
    }

    /// Edits that record which files are sealed now.
    pub(super) fn blob_edits_of_closing(&self, versions: &Versions) -> Vec<Edit> {
        self.find_unseen(&mut self.blob_gc.garbage());
        self.blob_edits(versions, &BlobChanges::default()).take_edits()
    }

    /// The blob files for the manifest of a copy whose log holds everything published. Called under the version lock,
    /// while no reservation is in progress. Nothing is appended to these files any more, and all of them are synced.
    pub(crate) fn blob_files_of_copy(&self, manifest: &ManifestState, end: u64) -> Result<BlobFiles> {
        self.log.seal_blobs(true)?;
        self.blob_gc.files_of_copy(manifest, end)
    }
}
