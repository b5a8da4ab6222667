//! The background work of an open store, one step at a time, and what happens if a step fails.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use super::Store;
use super::at_work::AtWork;
use crate::env::{JobKind, UNASKED, Worker};
use crate::error::{Error, ErrorKind, Result};
use crate::space::is_full;

/// How soon the store repeats a round that gives space back while the disk is full.
const FULL_RETRY: Duration = Duration::from_secs(1);

impl Store {
    fn is_disk_full(&self) -> bool {
        self.core.health.failure().is_some_and(|error| is_full(&error))
    }

    fn run_compact_job(&self) -> Result<bool> {
        let worked = self.core.registry.has_obsolete();
        self.disk.remove_obsolete()?;
        self.core.registry.use_free_room();
        self.compactor.consider_expired();
        self.flusher.shrink_when_idle()?;
        let merged = self.compactor.merge_some()?;
        if !merged {
            // Before that, merges that give space back may use all free space, and the reserve.
            self.disk.resume_if_room()?;
        }
        let worked = self.compactor.forget_ranges()? || merged || worked;
        // Scrubbing does not count as work: the clock drives it.
        self.scrub.run_some();
        Ok(worked)
    }
}

impl Worker for Store {
    fn ask_again(&self, job: JobKind) -> Duration {
        let again = match job {
            JobKind::Compact => {
                let again =
                    [self.scrub.run_again(), self.compactor.look_again(), self.flusher.shrink_again()];
                again.into_iter().flatten().min()
            }
            // A round that found no room may find some later, but nothing notifies the job when that happens.
            JobKind::Blobs if self.is_disk_full() && self.collector.has_blob_garbage() => Some(FULL_RETRY),
            JobKind::Blobs => self.collector.reclaim_waits(),
            _ => None,
        };
        again.into_iter().chain(self.core.health.retry_in(job)).min().unwrap_or(UNASKED)
    }

    fn run_one(&self, job: JobKind) -> bool {
        if self.core.health.is_closing()
            || self.core.health.failure().is_some_and(|error| error.kind() != ErrorKind::OutOfSpace)
        {
            return false;
        }
        let at_work = AtWork::on(&self.core);
        self.core.health.begin_step(job);
        let step = AssertUnwindSafe(|| match job {
            JobKind::Log => self.flusher.run_log_job(),
            JobKind::Flush => self.flusher.run_flush_job(),
            JobKind::Compact => self.run_compact_job(),
            JobKind::Blobs => self.collector.run_blob_job(),
        });
        // A panic must not leave writers waiting for a dead thread.
        let result = std::panic::catch_unwind(step)
            .unwrap_or_else(|_| Err(Error::new(ErrorKind::Poisoned, "background work panicked")));
        drop(at_work);
        match &result {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::OutOfResources => {
                self.core.health.note_shortage(job, error);
            }
            Err(error) => self.disk.fail(error),
        }
        let worked = result.unwrap_or(false);
        // Also without work, or after a failure: another thread may have done what a writer waits for.
        self.core.tell_ready();
        self.close_if_due();
        worked
    }
}
