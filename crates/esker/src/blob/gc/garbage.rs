//! Data on its way out: references that were overwritten, references that no reader sees any more, and values to punch.

use std::collections::{BTreeMap, BTreeSet};

use super::ByFile;
use crate::blob::{BlobFileId, Pointer};
use crate::cursor::{Kind, SeqNo};
use crate::version::edit::{ManifestState, TreeId};

/// A reference that is no longer the newest version of its key. Also one that no snapshot of this opening can
/// see: its write has failed, its handles are gone, or recovery found its value unneeded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Overwritten {
    pub(crate) file: BlobFileId,
    pub(crate) ordinal: u64,
    /// The entry that names the value; `None` for all entries that name it.
    pub(crate) reference: Option<u64>,
    /// Snapshots from this sequence number on see it ...
    pub(crate) from: SeqNo,
    /// ... and before this one.
    pub(crate) until: SeqNo,
    /// The overwriting write; 0 if no write has to become durable before the value is freed.
    pub(crate) by: SeqNo,
    /// The tree of that write, if the write skipped the log.
    pub(crate) unlogged: Option<TreeId>,
    /// The value's length in bytes, which becomes garbage once no reader sees the value; 0 if it was counted before.
    pub(crate) len: u64,
}

impl Overwritten {
    /// A reference that durably no reader sees.
    pub(crate) fn unseen(file: BlobFileId, ordinal: u64, reference: Option<u64>) -> Overwritten {
        Overwritten { file, ordinal, reference, from: 0, until: 0, by: 0, unlogged: None, len: 0 }
    }

    /// The reference of an entry with the number `from`, if it has a huge value. The write `by` has overwritten it;
    /// `unlogged` is the tree of that write, if it skips the log.
    pub(crate) fn of_entry(
        from: SeqNo,
        kind: Kind,
        stored: &[u8],
        by: SeqNo,
        unlogged: Option<TreeId>,
    ) -> Option<Overwritten> {
        let Pointer { file, ordinal, reference, len, .. } = Pointer::of_entry(kind, stored)?;
        Some(Overwritten { file, ordinal, reference: Some(reference), from, until: by, by, unlogged, len })
    }

    /// The reference of an entry with the number `from` that a compaction rule has dropped, if it has a huge value.
    /// [`Overwritten::until`] is set once readers cannot find the entry any more.
    pub(crate) fn by_rule(from: SeqNo, kind: Kind, stored: &[u8]) -> Option<Overwritten> {
        // Its bytes must not delay writers, because no write has overwritten it.
        Some(Overwritten { len: 0, ..Overwritten::of_entry(from, kind, stored, 0, None)? })
    }

    /// Whether one of the snapshots, ascending, sees it.
    fn is_seen(&self, snapshots: &[SeqNo]) -> bool {
        let first = snapshots.partition_point(|&snapshot| snapshot < self.from);
        snapshots.get(first).is_some_and(|&snapshot| snapshot < self.until)
    }

    /// Whether the overwriting write, which skipped the log, is in tables: by the manifest, or by edits with the
    /// numbers in `flushed`. `true` for a write that did not skip the log.
    pub(super) fn is_flushed(&self, manifest: &ManifestState, flushed: &[(TreeId, SeqNo)]) -> bool {
        self.unlogged.is_none_or(|tree| {
            // If the tree is gone, all its values are gone too.
            let known = manifest.trees.get(&tree).is_none_or(|record| self.by <= record.flushed);
            known || flushed.iter().any(|&(of, seq)| of == tree && self.by <= seq)
        })
    }
}

#[derive(Debug, Default)]
pub(crate) struct Garbage {
    /// References that only snapshots see, or whose overwriting is in memory only.
    pub(super) overwritten: Vec<Overwritten>,
    /// References that no reader sees. Their values are freed when the write `by` is durable.
    pub(super) unseen: Vec<Overwritten>,
    /// Values that are freed in the manifest. Their blocks may be given back.
    pub(super) freed: ByFile,
    /// How far trees that skip the log were flushed since the store was opened.
    pub(super) flushed: BTreeMap<TreeId, SeqNo>,
}

impl Garbage {
    pub(crate) fn add_overwritten(&mut self, overwritten: impl IntoIterator<Item = Overwritten>) {
        self.overwritten.extend(overwritten);
    }

    /// Takes the overwritten references that none of the `snapshots` sees and that a crash cannot bring back.
    pub(super) fn take_unseen(&mut self, snapshots: &[SeqNo]) -> Vec<Overwritten> {
        let flushed = &self.flushed;
        let stays = |one: &mut Overwritten| one.is_seen(snapshots) || is_in_memory(flushed, one);
        self.overwritten.extract_if(.., |one| !stays(one)).collect()
    }

    /// Adds freed values of `file` whose blocks may be given back.
    pub(super) fn add_freed(&mut self, file: BlobFileId, ordinals: BTreeSet<u64>) {
        if !ordinals.is_empty() {
            self.freed.entry(file).or_default().extend(ordinals);
        }
    }

    /// Whether values wait to be freed or punched.
    pub(super) fn has_work(&self) -> bool {
        !self.unseen.is_empty() || !self.freed.is_empty()
    }

    /// Bytes of values that are overwritten in the memtables of a tree without a log only, by tree.
    pub(super) fn kept_by_memtables(&self) -> BTreeMap<TreeId, u64> {
        let mut kept = BTreeMap::new();
        for one in self.overwritten.iter().filter(|one| is_in_memory(&self.flushed, one)) {
            if let Some(tree) = one.unlogged {
                *kept.entry(tree).or_default() += one.len;
            }
        }
        kept
    }
}

/// Whether a crash would undo the overwriting: its write skipped the log and is in no table.
fn is_in_memory(flushed: &BTreeMap<TreeId, SeqNo>, one: &Overwritten) -> bool {
    one.unlogged.is_some_and(|tree| flushed.get(&tree).copied().unwrap_or(0) < one.by)
}
