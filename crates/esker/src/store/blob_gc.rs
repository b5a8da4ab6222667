//! Drives the garbage collection of huge values ([`crate::blob::gc`]): finds what writes have overwritten, and gives the
//! space of what nobody sees back, round by round (rule 12).
//!
//! - A write to a key that may have had a huge value leaves a lookup ([`crate::write::lookups`]). A flush does the
//!   lookups of all writes up to its last sequence number, before the log can lose those writes.
//! - The edit that installs the tables of a flush or a merge frees the values that it has dropped.
//! - A value is freed in the manifest once the write over it survives power loss. Its blocks are given back after that.

use std::sync::Arc;

use super::Store;
use crate::blob::gc::{BlobEdits, Frees, Garbage, Overwritten};
use crate::blob::{BlobFileId, LiveFile, NewBlob, Pointer, blob_number};
use crate::canary::broken;
use crate::cursor::{Kind, SeqNo};
use crate::env::JobKind;
use crate::error::{ErrorKind, Result};
use crate::fs::gone;
use crate::read::get::{base_at, bases_in};
use crate::state::TreeInner;
use crate::state::versions::{Change, Versions};
use crate::trace::{Cause, Operation, Subject, perf_context};
use crate::version::blob_edits::{BlobEdit, BlobFiles};
use crate::version::edit::{Edit, ManifestState, TreeId};
use crate::write::lookups::{Lookup, What};

/// The references that the write of a lookup is over.
fn overwritten_by(lookup: &Lookup) -> Result<Vec<Overwritten>> {
    let now = lookup.tree.state.load_full();
    match &lookup.what {
        What::Key(key) => {
            let before = base_at(&now, key, lookup.seq - 1)?;
            let overwritten = before
                .and_then(|(from, kind, stored)| overwritten(&lookup.tree, from, kind, &stored, lookup.seq));
            Ok(overwritten.into_iter().collect())
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

/// The reference of an entry of `tree` with the number `from`, if it has a huge value. The write `by` is over it.
pub(super) fn overwritten(
    tree: &TreeInner,
    from: SeqNo,
    kind: Kind,
    stored: &[u8],
    by: SeqNo,
) -> Option<Overwritten> {
    Overwritten::of_entry(from, kind, stored, by, (!tree.log).then_some(tree.id))
}

impl Store {
    // ---- finding out ---------------------------------------------------------------------------------

    /// Finds the huge values that writes up to `limit` have overwritten, and those that nobody sees any more.
    pub(crate) fn find_overwritten(&self, limit: SeqNo) -> Result<()> {
        let mut garbage = self.blob_gc.garbage();
        while let Some(lookup) = self.commit.lookups.take_up_to(limit) {
            if lookup.tree.is_dropped() {
                continue;
            }
            if matches!(lookup.what, What::Range(_)) && self.blobs.filter.is_empty() {
                // No key ever held a huge value, so a replayed deletion need not be looked into.
                continue;
            }
            match overwritten_by(&lookup) {
                Ok(overwritten) => garbage.overwrite(overwritten),
                // If another file is damaged, the value's space stays taken until a merge drops the value.
                Err(error) if error.kind() == ErrorKind::Corruption => {}
                Err(error) => {
                    self.commit.lookups.give_back(lookup);
                    return Err(error);
                }
            }
        }
        self.find_unreferenced(&mut garbage);
        Ok(())
    }

    fn find_unreferenced(&self, garbage: &mut Garbage) {
        self.blob_gc.find_unreferenced(garbage, || self.snapshots.registered());
    }

    /// Notes that a snapshot or a scan was released.
    pub(crate) fn snapshot_released(&self) {
        if self.blob_gc.has_overwritten() {
            self.notify(JobKind::Blobs);
        }
    }

    /// Frees all values under the lineage `tree`, because the manifest has no tree with this lineage any more. Scans
    /// that are open continue.
    pub(super) fn free_blobs_of(&self, tree: TreeId) {
        self.blob_gc.overwrite_tree(tree, self.commit.visible() + 1);
        self.notify(JobKind::Blobs);
    }

    /// Notes how far trees that skip the log are in tables. Values that those writes have overwritten may be freed.
    pub(super) fn note_flushed(&self, trees: &[(TreeId, SeqNo)]) {
        self.blob_gc.note_flushed(trees);
        self.notify(JobKind::Blobs);
    }

    /// The trees in which a flush would free much space of huge values.
    fn trees_that_keep_space(&self) -> Vec<Arc<TreeInner>> {
        let kept = self.blob_gc.trees_that_keep(self.options.blob_file_bytes / 4);
        if kept.is_empty() {
            return Vec::new();
        }
        let versions = self.versions.lock();
        kept.iter().filter_map(|&tree| versions.tree(tree)).cloned().collect()
    }

    /// Takes over the values that recovery has found unneeded, and those that are freed and not punched yet.
    pub(crate) fn adopt_garbage(&self, unneeded: Vec<(BlobFileId, u64)>) -> Result<()> {
        self.blob_gc.adopt(unneeded)
    }

    // ---- edits ---------------------------------------------------------------------------------------

    /// Edits that record changes of blob files and free what `frees` lists.
    pub(super) fn blob_edits(&self, versions: &Versions, frees: &Frees<'_>) -> BlobEdits {
        let edits = |manifest| self.blob_gc.edits(manifest, self.wal.synced(), frees);
        versions.known().map(edits).unwrap_or_default()
    }

    /// Notes the result of `edits`: their values are freed or, if the edits failed, have to be freed by others.
    pub(crate) fn after_blob_edits(&self, edits: BlobEdits, durable: bool) {
        if self.blob_gc.after_edits(edits, durable) {
            self.notify(JobKind::Blobs);
        }
    }

    /// Edits that record what the opening has found out about blob files. All that was replayed is durable.
    pub(crate) fn blob_edits_of_opening(&self, versions: &Versions) -> BlobEdits {
        self.blob_edits(versions, &Frees { durable_up_to: Some(SeqNo::MAX), ..Frees::default() })
    }

    /// Edits that record which files are sealed now.
    pub(super) fn blob_edits_of_closing(&self, versions: &Versions) -> Vec<Edit> {
        self.find_unreferenced(&mut self.blob_gc.garbage());
        self.blob_edits(versions, &Frees::default()).take_edits()
    }

    /// The blob files for the manifest of a copy whose log holds everything published. Called under the version lock,
    /// while no reservation is in progress. Nothing is appended to these files any more, and all of them are synced.
    pub(crate) fn blob_files_of_copy(&self, manifest: &ManifestState, end: u64) -> Result<BlobFiles> {
        self.seal_blobs(true)?;
        self.blob_gc.files_of_copy(manifest, end)
    }

    /// Adds an entry, that of `key` in a tree with the lineage `tree`, to the huge value of `pointer`. `None` if the value
    /// was freed, because the entry that had the pointer is gone.
    pub(crate) fn copy_blob(&self, tree: TreeId, key: &[u8], pointer: &Pointer) -> Result<Option<NewBlob>> {
        self.ensure_writable()?;
        Ok(self.blobs.add_reference(tree, key, pointer))
    }

    /// [`seal_files`](crate::blob::BlobSet::seal_files). After a failed sync the store takes no more writes.
    pub(crate) fn seal_blobs(&self, all: bool) -> Result<bool> {
        self.blobs.seal_files(all && !broken("rule-14-roll")).inspect_err(|error| {
            if error.kind() != ErrorKind::OutOfSpace {
                self.commit.poison();
            }
        })
    }

    // ---- rounds --------------------------------------------------------------------------------------

    /// Does one round of giving space back. Returns `false` if there was nothing to do.
    pub(super) fn run_blob_job(&self) -> Result<bool> {
        self.run_gc_round(&mut self.blob_gc.begin_round())
    }

    /// [`Store::run_blob_job`], for a caller that has begun the round.
    pub(super) fn run_gc_round(&self, _round: &mut ()) -> Result<bool> {
        let backpressure = self.blob_gc.backpressure();
        let (backlog, before) = (backpressure.backlog(), backpressure.given_back());
        let freed = self.free_unreferenced()?;
        let (punched, unreferenced) = self.blob_gc.punch_freed(|bytes| self.note_given_back(bytes))?;
        let removed = self.remove_blob_files(&unreferenced)?;
        self.end_backlog(backlog.max(self.blob_gc.backlog_if_all_is_freed()), before)?;
        let unpinned = self.blob_gc.punch_unpinned()?;
        // This comes late, since a footer may find no room before space is given back.
        let sealed = match self.seal_blobs(false) {
            Err(error) if error.kind() == ErrorKind::OutOfSpace => false,
            sealed => sealed?,
        };
        self.blobs.close_writers();
        let reclaimed = self.reclaim_blobs()?;
        Ok(freed | punched | removed | unpinned | sealed | reclaimed)
    }

    /// Whether there is space to give back.
    pub(super) fn has_blob_garbage(&self) -> bool {
        !self.commit.lookups.is_empty() || self.blob_gc.has_work()
    }

    /// Frees in the manifest the values that nobody sees, once the writes over them are durable.
    fn free_unreferenced(&self) -> Result<bool> {
        // Everything visible now is published when the log is synced below.
        let visible = self.commit.visible();
        self.find_overwritten(visible)?;
        self.trees_that_keep_space().iter().for_each(|tree| self.switch_memtable(tree, 0));
        if !self.blob_gc.has_unreferenced() {
            return Ok(false);
        }
        if !broken("rule-12") {
            self.sync_log(self.commit.published())?;
        }
        self.free_up_to(visible)
    }

    /// Frees in the manifest the values that were overwritten by writes up to `limit`, which are durable. Returns whether
    /// there were any.
    fn free_up_to(&self, limit: SeqNo) -> Result<bool> {
        // Work that is done before the lock is taken delays nobody.
        self.blobs.sync_names()?;
        let mut versions = self.versions.lock();
        let frees = Frees { durable_up_to: Some(limit), ..Frees::default() };
        let mut edits = self.blob_edits(&versions, &frees);
        let change = Change::of(edits.take_edits());
        let committed = if change.edits.is_empty() {
            Ok(())
        } else {
            // The manifest must not name a file before its name is durable.
            self.blobs.sync_names().and_then(|()| self.apply(&mut versions, &change))
        };
        drop(versions);
        let freed = edits.frees_any();
        self.after_blob_edits(edits, committed.is_ok());
        committed.map(|()| freed)
    }

    /// Removes those of `files` whose values are all freed in the manifest and that nobody reads. A file that is being
    /// read keeps its name: while a file has two names, nobody punches it through the other one.
    fn remove_blob_files(&self, files: &[Arc<LiveFile>]) -> Result<bool> {
        if files.is_empty() {
            return Ok(false);
        }
        let mut versions = self.versions.lock();
        let Some(known) = versions.known().map(|known| &known.blobs.live) else { return Ok(false) };
        let is_removable =
            |live: &&Arc<LiveFile>| known.contains_key(&live.id) && live.values.lock().are_removable();
        let gone: Vec<BlobFileId> = files.iter().filter(is_removable).map(|live| live.id).collect();
        if gone.is_empty() {
            return Ok(false);
        }
        let position = self.commit.published();
        let edits = gone.iter().map(|&file| Edit::Blob(BlobEdit::Remove { file, position }));
        self.apply(&mut versions, &Change::of(edits.collect()))?;
        drop(versions);
        for file in gone {
            let path = self.blobs.path_of(file);
            let bytes = self.env.fs.allocated_bytes(&path).unwrap_or(0);
            match self.env.fs.remove_file(&path) {
                // Its values were lost before.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                removed => removed.map(|()| self.note_given_back(bytes))?,
            }
        }
        Ok(true)
    }

    // ---- backpressure --------------------------------------------------------------------------------

    /// Waits while the backlog is too large. `coming` bytes of a huge value are about to be written.
    pub(crate) fn wait_for_backlog(&self, coming: u64) -> Result<()> {
        let backpressure = self.blob_gc.backpressure();
        let unit = self.options.blob_file_bytes / 4;
        let Some(put) = backpressure.put(coming, unit / 4) else { return Ok(()) };
        // The blob job meets this error too, and reports it.
        if self.find_overwritten(self.commit.visible()).is_err() {
            return Ok(());
        }
        let unflushed = self.trees_that_keep_space();
        if !unflushed.is_empty() {
            self.flush_trees(unflushed.iter())?;
            self.notify(JobKind::Blobs);
        }
        let fits = || backpressure.is_within_limit() == Some(true);
        if backpressure.backlog() <= unit || fits() {
            return Ok(());
        }
        // Puts since the last listing may allow more.
        self.limit_backlog()?;
        if fits() {
            return Ok(());
        }
        let enough = backpressure.given_back().saturating_add(put);
        self.notify(JobKind::Blobs);
        // If the disk gives nothing back now, waiting does not help: there is room for the put, or there is not.
        perf_context::begin();
        let is_over = || fits() || backpressure.given_back() >= enough || self.health.has_failed();
        let wait = || self.wait_until(is_over);
        let waited = perf_context::waiting(&*self.env.clock, Cause::Space, wait);
        if perf_context::are_there() {
            self.metrics.end(Operation::Write, Subject::none);
        }
        waited
    }

    /// Notes that `bytes` were given back.
    fn note_given_back(&self, bytes: u64) {
        if bytes > 0 {
            self.blob_gc.backpressure().give_back(bytes);
            self.health.signal();
        }
    }

    /// Called when a round has succeeded: all of the `backlog` at its beginning is given back. `before` is what was given
    /// back until then.
    fn end_backlog(&self, backlog: u64, before: u64) -> Result<()> {
        let backpressure = self.blob_gc.backpressure();
        let given_back = backpressure.given_back() - before;
        self.note_given_back(backlog.saturating_sub(given_back));
        // The store may have become small, so the limit may be lower for the next put.
        let is_much = backlog.max(given_back) >= self.options.blob_file_bytes / 4;
        if is_much && backpressure.is_within_limit().is_some() { self.limit_backlog() } else { Ok(()) }
    }

    /// Computes from the directory which backlog is allowed.
    fn limit_backlog(&self) -> Result<()> {
        let (mut blobs, mut others) = (0_u64, 0_u64);
        for name in self.env.fs.list(&self.dir)? {
            let sum = if blob_number(&name).is_some() { &mut blobs } else { &mut others };
            *sum = sum.saturating_add(gone::allocated_bytes(&*self.env.fs, &self.dir.join(&name))?);
        }
        self.blob_gc.backpressure().set_limit(self.options.blob_file_bytes / 4, blobs, others);
        Ok(())
    }
}
