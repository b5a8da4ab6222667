//! The rounds in which the store gives back the space of huge values that no reader sees, and the backpressure on
//! writers who overwrite faster than that (rule 12).
//!
//! ```text
//! find_overwritten -- log synced -- freed in the manifest -- punched, or the file removed -- files sealed -- one rewritten
//! ```

use std::sync::Arc;

use parking_lot::Mutex;

use super::{CommitLog, Core, Disk, Flusher, GarbageFinder, Installer};
use crate::blob::gc::BlobChanges;
use crate::blob::{BlobFileId, LiveFile, blob_number};
use crate::canary::broken;
use crate::cursor::SeqNo;
use crate::env::JobKind;
use crate::error::{ErrorKind, Result};
use crate::fs::gone;
use crate::state::TreeInner;
use crate::state::versions::{VersionEdit, VersionSet};
use crate::trace::{Cause, Operation, Subject, perf_context};
use crate::version::blob_edits::BlobEdit;
use crate::version::edit::Edit;

mod reclaim;

use reclaim::ReclaimState;

/// Gives back the space of huge values that no reader sees.
pub(crate) struct Collector {
    core: Arc<Core>,
    log: Arc<CommitLog>,
    disk: Arc<Disk>,
    finder: Arc<GarbageFinder>,
    installer: Arc<Installer>,
    flusher: Arc<Flusher>,
    versions: Arc<VersionSet>,
    reclaim: Mutex<ReclaimState>,
}

impl Collector {
    pub(super) fn new(
        core: &Arc<Core>,
        log: &Arc<CommitLog>,
        disk: &Arc<Disk>,
        finder: &Arc<GarbageFinder>,
        installer: &Arc<Installer>,
        flusher: &Arc<Flusher>,
        versions: &Arc<VersionSet>,
    ) -> Collector {
        Collector {
            core: Arc::clone(core),
            log: Arc::clone(log),
            disk: Arc::clone(disk),
            finder: Arc::clone(finder),
            installer: Arc::clone(installer),
            flusher: Arc::clone(flusher),
            versions: Arc::clone(versions),
            reclaim: Mutex::default(),
        }
    }

    /// Does one round of giving space back. Returns `false` if there was nothing to do.
    pub(super) fn run_blob_job(&self) -> Result<bool> {
        self.run_gc_round(&mut self.finder.blob_gc().begin_round())
    }

    /// [`Collector::run_blob_job`], for a caller that has begun the round.
    pub(super) fn run_gc_round(&self, _round: &mut ()) -> Result<bool> {
        let backpressure = self.finder.blob_gc().backpressure();
        let (backlog, before) = (backpressure.backlog(), backpressure.given_back());
        let freed = self.free_unseen()?;
        let (punched, files_to_remove) =
            self.finder.blob_gc().punch_freed(|bytes| self.note_given_back(bytes))?;
        let removed = self.remove_blob_files(files_to_remove)?;
        self.end_backlog(backlog.max(self.finder.blob_gc().backlog_if_all_is_freed()), before)?;
        let unpinned = self.finder.blob_gc().punch_unpinned()?;
        // This comes late, since a footer may find no room before space is given back.
        let sealed = match self.log.seal_blobs(false) {
            Err(error) if error.kind() == ErrorKind::OutOfSpace => false,
            sealed => sealed?,
        };
        self.core.blobs.close_writers();
        let reclaimed = self.reclaim_blobs()?;
        Ok(freed | punched | removed | unpinned | sealed | reclaimed)
    }

    /// Whether there is space to give back.
    pub(super) fn has_blob_garbage(&self) -> bool {
        !self.log.commit().lookups.is_empty() || self.finder.blob_gc().has_work()
    }

    /// Frees in the manifest the values that no reader sees. Before that it makes the overwriting writes durable, by a
    /// sync of the log.
    fn free_unseen(&self) -> Result<bool> {
        // Everything visible now is published when the log is synced below.
        let visible = self.log.commit().visible();
        self.finder.find_overwritten(visible)?;
        self.trees_that_keep_space().iter().for_each(|tree| self.flusher.switch_memtable(tree, 0));
        if !self.finder.blob_gc().has_unseen() {
            return Ok(false);
        }
        if !broken("rule-12") {
            self.log.sync_published()?;
        }
        self.free_up_to(visible)
    }

    /// Frees in the manifest the values that were overwritten by writes up to `limit`, which are durable. Returns
    /// whether there were any.
    fn free_up_to(&self, limit: SeqNo) -> Result<bool> {
        // Work before the lock is taken delays no other thread.
        self.core.blobs.sync_names()?;
        let mut versions = self.versions.lock();
        let changes = BlobChanges { durable_up_to: Some(limit), ..BlobChanges::default() };
        let mut edits = self.finder.blob_edits(&versions, &changes);
        let change = VersionEdit::of(edits.take_edits());
        let committed = if change.edits.is_empty() {
            Ok(())
        } else {
            // The manifest must not name a file before its name is durable.
            self.core.blobs.sync_names().and_then(|()| self.installer.apply(&mut versions, &change))
        };
        drop(versions);
        let freed = edits.frees_any();
        self.finder.after_blob_edits(edits, committed.is_ok());
        committed.map(|()| freed)
    }

    /// Removes those of `files` whose values are all freed in the manifest and that no reader uses. A file that is
    /// being read keeps its name: while a file has two names, it must not be punched through the other one.
    fn remove_blob_files(&self, files: Vec<Arc<LiveFile>>) -> Result<bool> {
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
        let position = self.log.commit().published();
        let edits = gone.iter().map(|&file| Edit::Blob(BlobEdit::Remove { file, position }));
        self.installer.apply(&mut versions, &VersionEdit::of(edits.collect()))?;
        drop(versions);
        // An open file keeps its blocks, even if its name is gone.
        drop(files);
        for file in gone {
            let path = self.core.blobs.path_of(file);
            let bytes = self.core.env().fs.allocated_bytes(&path).unwrap_or(0);
            match self.core.env().fs.remove_file(&path) {
                // Its values were lost before.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                removed => removed.map(|()| self.note_given_back(bytes))?,
            }
        }
        Ok(true)
    }

    /// Waits while the backlog is too large. `coming` bytes of a huge value are about to be written.
    pub(super) fn wait_for_backlog(&self, coming: u64) -> Result<()> {
        let backpressure = self.finder.blob_gc().backpressure();
        let unit = self.core.options.blob_file_bytes / 4;
        let Some(put) = backpressure.put(coming, unit / 4) else { return Ok(()) };
        // The blob job meets this error too, and reports it.
        if self.finder.find_overwritten(self.log.commit().visible()).is_err() {
            return Ok(());
        }
        let unflushed = self.trees_that_keep_space();
        if !unflushed.is_empty() {
            self.flusher.flush_trees(unflushed.iter())?;
            self.core.notify(JobKind::Blobs);
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
        self.core.notify(JobKind::Blobs);
        // If the disk gives nothing back now, a wait does not help: either there is room for the put, or there is not.
        perf_context::begin();
        let is_over = || fits() || backpressure.given_back() >= enough || self.core.health.has_failed();
        let wait = || self.disk.wait_until(is_over);
        let waited = perf_context::waiting(&*self.core.env().clock, Cause::Space, wait);
        if perf_context::are_there() {
            self.core.metrics.end(Operation::Write, Subject::none);
        }
        waited
    }

    /// Notes that `bytes` were given back.
    fn note_given_back(&self, bytes: u64) {
        if bytes > 0 {
            self.finder.blob_gc().backpressure().give_back(bytes);
            self.core.health.signal();
        }
    }

    /// Called when a round has succeeded: all of the `backlog` at its beginning is given back. `before` counts the
    /// bytes that were given back before the round.
    fn end_backlog(&self, backlog: u64, before: u64) -> Result<()> {
        let backpressure = self.finder.blob_gc().backpressure();
        let given_back = backpressure.given_back() - before;
        self.note_given_back(backlog.saturating_sub(given_back));
        // The store may have become small. Then the limit may be lower for the next put.
        let is_much = backlog.max(given_back) >= self.core.options.blob_file_bytes / 4;
        if is_much && backpressure.is_within_limit().is_some() { self.limit_backlog() } else { Ok(()) }
    }

    /// Computes from the directory which backlog is allowed.
    fn limit_backlog(&self) -> Result<()> {
        let (mut blobs, mut others) = (0_u64, 0_u64);
        for name in self.core.env().fs.list(&self.core.dir)? {
            let sum = if blob_number(&name).is_some() { &mut blobs } else { &mut others };
            *sum =
                sum.saturating_add(gone::allocated_bytes(&*self.core.env().fs, &self.core.dir.join(&name))?);
        }
        self.finder.blob_gc().backpressure().set_limit(self.core.options.blob_file_bytes / 4, blobs, others);
        Ok(())
    }

    /// The trees in which a flush would free much space of huge values.
    fn trees_that_keep_space(&self) -> Vec<Arc<TreeInner>> {
        let kept = self.finder.blob_gc().trees_that_keep(self.core.options.blob_file_bytes / 4);
        if kept.is_empty() {
            return Vec::new();
        }
        let versions = self.versions.lock();
        kept.iter().filter_map(|&tree| versions.tree(tree)).cloned().collect()
    }
}
