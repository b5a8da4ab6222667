//! Blob garbage collection: the one place that knows where a huge value is in its life (rule 12).
//!
//! ```text
//! an entry that names the value (a reference):
//!
//!   pending --- the log or a table has it durably ---> current --- a write to its key ---> overwritten
//!      |                                                                                        |
//!      | the write fails, or the                        no snapshot sees it any more; if the    |
//!      | last handle is dropped                                                                 |
//!      |                                      overwriting write skipped the log, tables have it |
//!      '------------------------------------> gone <--------------------------------------------'
//!                                               |
//! the value (`Stage`):                          | its last reference is gone
//!                                               v
//!   Referenced ---------------------------> Unreferenced -----------> Freed -----------> Punched
//!                                           cannot be pinned   |   the manifest    |   its blocks are
//!                                           any more           |   records it      |   given back
//!                                                              |                   |
//!                            the overwriting write is durable -'                   '- it is not pinned
//! ```
//!
//! - A value that was never copied or renamed has one reference, number 0. [`References`] keeps the references of the
//!   others.
//! - The overwritten references are listed in memory only, and no snapshot survives the process. Therefore a flush
//!   notes in the manifest which values only snapshots see
//!   ([`BlobEdit::Overwrite`](crate::version::blob_edits::BlobEdit)), and the next opening frees these.
//! - A write to a key that may have had a huge value leaves a lookup (`write/lookups.rs`). `store/garbage_finder.rs`
//!   finds which value the write has overwritten. `store/collector/mod.rs` drives the rounds: overwritten,
//!   unreferenced, freed, punched, rewritten.
//! - The edit of a flush or merge that drops an entry frees its value, if that was the last reference. A value that was
//!   copied becomes unreferenced in the edit that frees it.
//! - A value stays freed, and is not punched, if its file has a second name or the file system has no holes. A rewrite
//!   of the file gives a punched value its blocks again: then it is freed once more.
//! - When all values of a file are freed and none is pinned, the file is removed instead of punched. Space that holes
//!   cannot give back is regained by rewriting files (`store/collector/reclaim.rs`).
//! - [`Backpressure`] holds up writers that overwrite faster than space is given back.
//!
//! [`Values`] has the state of each value of one file, under the lock of that file. [`Garbage`] has the references and
//! values on their way out, under `BlobGc::garbage`. Locks: `BlobGc::round`, the version lock, the commit lock,
//! `Garbage`, `Values`. The queue of lookups and the list of snapshots are taken under `Garbage`. `BlobSet::unwritten`
//! and `unpinned` are taken last.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::{BlobFileId, BlobSet};
use crate::cursor::SeqNo;
use crate::error::Result;
use crate::version::edit::TreeId;

mod backpressure;
mod edits;
mod garbage;
mod garbage_bytes;
mod punch;
mod references;
#[cfg(test)]
mod tests;
mod values;

pub(crate) use backpressure::Backpressure;
pub(crate) use edits::{BlobChanges, BlobEdits};
pub(crate) use garbage::{Garbage, Overwritten};
pub(crate) use references::References;
pub(crate) use values::{InTable, Stage, Values};

/// Ordinals by file.
pub(crate) type ByFile = BTreeMap<BlobFileId, BTreeSet<u64>>;

fn by_file(values: impl IntoIterator<Item = (BlobFileId, u64)>) -> ByFile {
    let mut files = ByFile::new();
    for (file, ordinal) in values {
        files.entry(file).or_default().insert(ordinal);
    }
    files
}

/// The garbage collection of a store. See the module's comment.
#[derive(Debug)]
pub(crate) struct BlobGc {
    blobs: Arc<BlobSet>,
    garbage: Mutex<Garbage>,
    /// Held during a round of giving space back. The holder sees the results of the last round.
    round: Mutex<()>,
    /// Whether snapshots may keep values: then the release of a snapshot is worth a round.
    has_overwritten: AtomicBool,
    backpressure: Backpressure,
}

impl BlobGc {
    pub(crate) fn new(blobs: &Arc<BlobSet>) -> BlobGc {
        BlobGc {
            blobs: Arc::clone(blobs),
            garbage: Mutex::default(),
            round: Mutex::new(()),
            has_overwritten: AtomicBool::new(false),
            backpressure: Backpressure::default(),
        }
    }

    /// The references and values on their way out. While the caller holds the lock, no other thread looks for
    /// overwritten values.
    pub(crate) fn garbage(&self) -> MutexGuard<'_, Garbage> {
        self.garbage.lock()
    }

    /// Begins a round, when the round of another thread is over.
    pub(crate) fn begin_round(&self) -> MutexGuard<'_, ()> {
        self.round.lock()
    }

    pub(crate) fn backpressure(&self) -> &Backpressure {
        &self.backpressure
    }

    // ---- overwritten -----------------------------------------------------------------------------------

    /// Adds references that were overwritten. The overwriting writes are visible.
    pub(crate) fn add_overwritten(&self, overwritten: impl IntoIterator<Item = Overwritten>) {
        self.garbage.lock().add_overwritten(overwritten);
        self.has_overwritten.store(true, Ordering::SeqCst);
    }

    /// Whether a snapshot may keep a value that was overwritten.
    pub(crate) fn has_overwritten(&self) -> bool {
        self.has_overwritten.load(Ordering::SeqCst)
    }

    /// Notes that all values under the lineage `tree` were overwritten by the write before `until`, because the
    /// manifest has no tree with this lineage any more.
    pub(crate) fn overwrite_tree(&self, tree: TreeId, until: SeqNo) {
        for live in self.blobs.files() {
            // If a file cannot be read, it is unknown which of its values belonged to the tree: it stays.
            let Ok(entries) = self.blobs.entries(&live) else { continue };
            let is_there = |ordinal| live.values.lock().stage(ordinal) == Stage::Referenced;
            let there = entries.iter().filter(|entry| entry.tree == tree && is_there(entry.ordinal));
            self.add_overwritten(there.map(|entry| Overwritten {
                until,
                len: entry.len,
                ..Overwritten::unseen(live.id, entry.ordinal, None)
            }));
        }
    }

    /// Undoes the notes of the edits of `changes`, which have failed. No other edits were made since.
    pub(crate) fn restore(&self, changes: &BlobChanges<'_>) {
        for one in changes.replaced.iter().chain(changes.by_rule) {
            self.blobs.set_overwritten(one, false);
        }
    }

    // ---- unreferenced ----------------------------------------------------------------------------------

    /// Finds the references in `garbage` that none of the registered `snapshots` sees, and those that were not written.
    pub(crate) fn find_unseen(&self, garbage: &mut Garbage, snapshots: impl FnOnce() -> Vec<SeqNo>) {
        let unwritten = std::mem::take(&mut *self.blobs.unwritten.lock()).into_iter();
        let mut unseen: Vec<Overwritten> = unwritten
            .map(|value| Overwritten::unseen(value.file, value.ordinal, Some(value.reference)))
            .collect();
        if !garbage.overwritten.is_empty() {
            // A snapshot that is registered later sees none of these: the overwriting writes are visible.
            self.has_overwritten.store(true, Ordering::SeqCst);
            let found = garbage.take_unseen(&snapshots());
            self.backpressure.add(found.iter().map(|one| one.len).sum());
            unseen.extend(found);
        }
        // A thread that adds to the list sets the flag after that, and requests a round.
        self.has_overwritten.store(!garbage.overwritten.is_empty(), Ordering::SeqCst);
        // If several entries name a value, others may still be there. The edit that frees it finds out.
        for one in unseen.iter().filter(|one| !self.blobs.is_shared(one.file, one.ordinal)) {
            self.blobs.unreference(one.file, one.ordinal);
        }
        garbage.unseen.extend(unseen);
    }

    /// Takes over the values without an entry that recovery has found, and the values that were freed before but not
    /// punched yet.
    pub(crate) fn adopt(&self, unneeded: impl IntoIterator<Item = (BlobFileId, u64)>) -> Result<()> {
        let mut garbage = self.garbage.lock();
        for live in self.blobs.files() {
            let freed = live.values.lock().freed();
            if !freed.is_empty() && self.blobs.is_punched(&live)? {
                live.values.lock().note_punched(freed);
            } else {
                garbage.add_freed(live.id, freed);
            }
        }
        for (file, ordinal) in unneeded {
            self.blobs.unreference(file, ordinal);
            garbage.unseen.push(Overwritten::unseen(file, ordinal, None));
        }
        Ok(())
    }

    // ---- freed and punched ------------------------------------------------------------------------------

    /// Notes how far trees that skip the log are in tables. Values that those writes have overwritten may be freed.
    pub(crate) fn note_flushed(&self, trees: &[(TreeId, SeqNo)]) {
        let mut garbage = self.garbage.lock();
        for &(tree, seq) in trees {
            // A flush may end after the drop of its tree, which stands for everything.
            let known = garbage.flushed.entry(tree).or_default();
            *known = (*known).max(seq);
        }
    }

    /// Notes the result of `edits`: their values are freed or, if the edits failed, a later round has to free them.
    /// Returns whether there are values to punch.
    pub(crate) fn after_edits(&self, edits: BlobEdits, durable: bool) -> bool {
        let mut garbage = self.garbage.lock();
        for (file, ordinals) in edits.freed {
            if durable {
                if let Some(live) = self.blobs.get(file) {
                    live.values.lock().free(&ordinals);
                }
                garbage.add_freed(file, ordinals);
            } else {
                let unseen = ordinals.into_iter().map(|ordinal| Overwritten::unseen(file, ordinal, None));
                garbage.unseen.extend(unseen);
            }
        }
        !garbage.freed.is_empty()
    }

    /// Notes that `file` was rewritten with `ordinals`: the freed ones among them take space in the new file.
    pub(crate) fn after_rewrite(&self, file: BlobFileId, ordinals: impl Iterator<Item = u64>) {
        let Some(live) = self.blobs.get(file) else { return };
        let again = live.values.lock().unpunch(ordinals);
        self.garbage.lock().add_freed(file, again);
    }

    /// Whether values wait to be freed or punched.
    pub(crate) fn has_work(&self) -> bool {
        !self.blobs.unpinned.lock().is_empty()
            || !self.blobs.unwritten.lock().is_empty()
            || self.garbage.lock().has_work()
    }

    /// Whether values wait to be freed.
    pub(crate) fn has_unseen(&self) -> bool {
        !self.garbage.lock().unseen.is_empty()
    }

    /// The bytes for which writers are delayed, if no value is left to free or punch; otherwise 0. A round may count
    /// values as garbage and then find that their space was given back before. No later round would notice that, and a
    /// writer would wait forever.
    pub(crate) fn backlog_if_all_is_freed(&self) -> u64 {
        let garbage = self.garbage.lock();
        if garbage.has_work() { 0 } else { self.backpressure.backlog() }
    }

    /// The trees without a log in which a flush would free at least `bytes` of huge values.
    pub(crate) fn trees_that_keep(&self, bytes: u64) -> Vec<TreeId> {
        let mut kept = self.garbage.lock().kept_by_memtables();
        kept.retain(|_, len| *len >= bytes);
        kept.into_keys().collect()
    }
}
