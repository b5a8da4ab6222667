//! Applies changes of versions: makes edits durable in the manifest, shows them to readers through
//! [`crate::state::versions`], and notes the work that they make due.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{CommitLog, Core, Disk, GarbageFinder};
use crate::compact::pick;
use crate::compact::queue::CompactionQueue;
use crate::cursor::SeqNo;
use crate::env::JobKind;
use crate::error::Result;
use crate::flush::FlushQueue;
use crate::state::TreeInner;
use crate::state::versions::{Applied, VersionEdit, VersionSet, Versions};
use crate::version::edit::Edit;
use crate::version::manifest::Manifest;

mod install;
mod merges;

pub(super) use merges::{RunningMerge, Unmerged};

/// Makes edits durable, shows them to readers, and queues the work that they make due.
pub(crate) struct Installer {
    core: Arc<Core>,
    log: Arc<CommitLog>,
    disk: Arc<Disk>,
    finder: Arc<GarbageFinder>,
    versions: Arc<VersionSet>,
    immutable: Arc<FlushQueue>,
    compactions: Arc<CompactionQueue>,
    /// Shared by all merges.
    merging: RwLock<()>,
    merges: AtomicU64,
    splits: AtomicU64,
}

impl Installer {
    pub(super) fn new(
        core: &Arc<Core>,
        log: &Arc<CommitLog>,
        disk: &Arc<Disk>,
        finder: &Arc<GarbageFinder>,
        versions: &Arc<VersionSet>,
    ) -> Installer {
        Installer {
            core: Arc::clone(core),
            log: Arc::clone(log),
            disk: Arc::clone(disk),
            finder: Arc::clone(finder),
            versions: Arc::clone(versions),
            immutable: Arc::default(),
            compactions: Arc::new(CompactionQueue::new(versions.trees().iter())),
            merging: RwLock::new(()),
            merges: AtomicU64::new(0),
            splits: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(super) fn immutable(&self) -> &Arc<FlushQueue> {
        &self.immutable
    }

    #[inline]
    pub(super) fn compactions(&self) -> &Arc<CompactionQueue> {
        &self.compactions
    }

    /// Held during a merge.
    pub(super) fn begin_merge(&self) -> RwLockReadGuard<'_, ()> {
        self.merging.read()
    }

    /// Waits until no merge runs, and keeps merges from beginning until the result is dropped.
    pub(super) fn end_merges(&self) -> RwLockWriteGuard<'_, ()> {
        self.merging.write()
    }

    /// How many merges have ended.
    pub(super) fn merges(&self) -> u64 {
        self.merges.load(Ordering::Relaxed)
    }

    pub(super) fn note_merge(&self) {
        self.merges.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts splits. Each is counted before its tree takes writes again.
    #[inline]
    pub(super) fn splits(&self) -> &AtomicU64 {
        &self.splits
    }

    /// Makes `change` durable and shows it.
    pub(crate) fn apply(&self, versions: &mut Versions, change: &VersionEdit<'_>) -> Result<()> {
        self.core.health.check_open()?;
        self.apply_when_closing(versions, change)
    }

    /// [`Installer::apply`] for the last edits of a store that is closing.
    pub(super) fn apply_when_closing(&self, versions: &mut Versions, change: &VersionEdit<'_>) -> Result<()> {
        let commit = |manifest: &mut Manifest, edits: &[Edit]| self.commit_edits(manifest, edits);
        let applied = versions.apply(change, commit, || self.log.commit().lock_briefly())?;
        self.follow(applied);
        Ok(())
    }

    /// Makes it durable that operands of `tree` have times from now on.
    pub(super) fn note_operand_times(&self, tree: &TreeInner) -> Result<()> {
        let mut versions = self.versions.lock();
        if tree.is_dropped() {
            return Err(tree.dropped_error());
        }
        if tree.operand_times.are_noted() {
            return Ok(());
        }
        self.apply(&mut versions, &VersionEdit::of(vec![Edit::OperandTimes { tree: tree.id }]))
    }

    /// Writes `edits` to the manifest and notes in the log how far it is synced.
    fn commit_edits(&self, manifest: &mut Manifest, edits: &[Edit]) -> Result<()> {
        let result = self.disk.space().with_reserve(|| manifest.commit(edits));
        if let Some(failure) = manifest.failure() {
            self.log.commit().poison(&failure);
        }
        result?;
        let (number, len) = manifest.synced();
        if let Err(error) = self.log.wal().mark_manifest(number, len) {
            // The edits count even so, so they are shown.
            self.log.commit().poison(&error);
        }
        Ok(())
    }

    /// Begins the work that a change of versions makes due. Called under the version lock.
    fn follow(&self, applied: Applied) {
        let Applied { changed, dropped, orphans, due_us } = applied;
        due_us.into_iter().for_each(|due_us| self.compactions.note_due(due_us));
        orphans.into_iter().for_each(|file| self.disk.discard_file(file));
        for tree in &dropped {
            self.immutable.remove_tree(tree);
            self.compactions.forget(tree);
            self.core.health.signal();
            if !tree.log {
                // When the tree is gone, nothing of it can come back.
                self.finder.note_flushed(&[(tree.id, SeqNo::MAX)]);
            }
        }
        // The same job removes the tables of dropped trees.
        let has_work = !changed.is_empty() || !dropped.is_empty();
        if !changed.is_empty() {
            self.compactions.add(changed);
            self.update_throttle();
        }
        if has_work {
            self.core.notify(JobKind::Compact);
        }
    }

    /// Slows writers in proportion to the backlog of merges.
    fn update_throttle(&self) {
        let behind = |tree: &TreeInner| pick::runs_behind(&tree.state.load().levels, &tree.options());
        // A wait does not help a merge that has no room.
        self.core.throttle.set_runs(self.compactions.most(behind));
    }
}
