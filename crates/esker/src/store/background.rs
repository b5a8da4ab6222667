//! The background work of an open store, one step at a time, and what happens if a step fails.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use super::at_work::AtWork;
use super::{Store, compaction};
use crate::canary::broken;
use crate::env::{JobKind, UNASKED, Worker};
use crate::error::{Error, ErrorKind, Result};
use crate::space::is_full;
use crate::state::TreeInner;

impl Store {
    /// Flushes the trees that pin the oldest part of the log, if the log is over its budget.
    fn relieve_log(&self) {
        let live = self.commit.published().saturating_sub(self.wal.floor_start());
        if live < self.space.log_max() || broken("rule-19") {
            return;
        }
        let horizon = self.wal.floor_start() + live / 2;
        let trees = self.versions.trees();
        let pinning = trees.iter().filter(|tree| tree.floor().is_some_and(|floor| floor.start < horizon));
        pinning.for_each(|tree| self.switch_memtable(tree, 0));
    }

    /// Flushes the largest memtable, if all memtables together are over the budget.
    fn relieve_memory(&self) {
        let trees = self.versions.trees();
        let sizes = trees.iter().map(|tree| tree.mem().table.memory());
        let active: usize = sizes.clone().sum();
        if active + self.immutable.bytes() > self.space.immutable_max()
            && let Some((_, tree)) = sizes.zip(&trees).max_by_key(|(size, _)| *size)
        {
            self.switch_memtable(tree, 1);
        }
    }

    /// Reads of `tree` may have paid for a merge.
    #[cold]
    pub(crate) fn consider_merging(&self, tree: &Arc<TreeInner>) {
        if !self.health.is_read_only() {
            self.compactions.add([Arc::clone(tree)]);
            self.notify(JobKind::Compact);
        }
    }

    fn run_log_job(&self) -> Result<bool> {
        let mut worked = false;
        if !self.wal.has_spare() {
            self.prepare_segment(0, false)?;
            worked = true;
        }
        if self.wal.has_sealed_unsynced() {
            self.sync_log(self.wal.current_start())?;
            worked = true;
        }
        Ok(worked)
    }

    fn run_flush_job(&self) -> Result<bool> {
        self.fit_to_disk();
        if !self.free_spares_for_space()? {
            // Puts are refused while there is still room for flushing, merging and deletes.
            self.fail(&self.full_error(0));
        }
        self.relieve_log();
        self.relieve_memory();
        self.flush_some()
    }

    fn run_compact_job(&self) -> Result<bool> {
        let worked = self.registry.has_obsolete();
        self.remove_obsolete()?;
        self.registry.use_free_room();
        self.consider_expired();
        self.shrink_when_idle()?;
        let merged = self.merge_some()?;
        let worked = self.forget_ranges()? || merged || worked;
        // Scrubbing does not count as work: the clock drives it.
        self.scrub_some();
        Ok(worked)
    }

    /// Does one merge, if there is room for it.
    fn merge_some(&self) -> Result<bool> {
        let merge = || compaction::compact_some(self);
        let merged = if self.health.has_failed() { self.space.with_reserve(merge) } else { merge() };
        match merged {
            Err(error) if is_full(&error) => {
                self.remove_obsolete()?;
                // It has left room for puts, or others have taken that.
                if self.free_spares_for_space()? { Ok(false) } else { Err(error) }
            }
            merged => merged,
        }
    }
}

impl Worker for Store {
    fn ask_again(&self, job: JobKind) -> Duration {
        let again = match job {
            JobKind::Compact => self.scrub_again(),
            JobKind::Blobs => self.reclaim_waits(),
            _ => None,
        };
        again.into_iter().chain(self.health.retry_in(job)).min().unwrap_or(UNASKED)
    }

    fn run_one(&self, job: JobKind) -> bool {
        if self.health.is_closing()
            || self.health.failure().is_some_and(|error| error.kind() != ErrorKind::OutOfSpace)
        {
            return false;
        }
        let at_work = AtWork::on(self);
        self.health.begin_step(job);
        let step = AssertUnwindSafe(|| match job {
            JobKind::Log => self.run_log_job(),
            JobKind::Flush => self.run_flush_job(),
            JobKind::Compact => self.run_compact_job(),
            JobKind::Blobs => self.run_blob_job(),
        });
        // A panic must not leave writers waiting for a dead thread.
        let result = std::panic::catch_unwind(step)
            .unwrap_or_else(|_| Err(Error::new(ErrorKind::Poisoned, "background work panicked")));
        drop(at_work);
        match &result {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::OutOfResources => {
                self.health.note_shortage(job, error);
            }
            Err(error) => self.fail(error),
        }
        let worked = result.unwrap_or(false);
        self.close_if_due();
        worked
    }
}
