//! Closes a store.
//!
//! ```text
//! no writes; what skips the log is flushed; space of overwritten huge values is given back ....... calls go on
//! closing: calls fail, background work ends, no other thread touches the directory any more (`Gate`)
//! the log is synced and sealed; callers' flushes and merges end; unused files go
//! tables, log, memtables, buffer pool are released ............... whatever handles are left; the lock goes last
//! ```
//!
//! Space is given back here because a process may delete and end at once, as the command line does. Otherwise all of it
//! would be left to the next opening.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::Store;
use super::at_work::AtWork;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::gone::remove_for_good;
use crate::space::is_full;
use crate::state::versions::Change;
use crate::version::edit::Edit;

/// How long a close gives space back, in microseconds.
const CLOSING_US: u64 = 2_000_000;

/// The progress of closing a store.
#[derive(Debug, Default)]
pub(super) struct Closing {
    /// The last handle went while the store's own work had it: who ends a piece of work next closes.
    due: AtomicBool,
    /// The result, for later calls. The call that closes holds the lock, so others wait.
    outcome: Mutex<Option<Result<()>>>,
}

impl Store {
    /// Ends the background work, syncs the log and unlocks the directory. A later call, or one meanwhile, gets the
    /// same result, and gets it when all is done.
    pub(crate) fn close(&self) -> Result<()> {
        if AtWork::is_on(self) {
            let message =
                "a store cannot be closed by its own work, such as a merge operator: close it elsewhere";
            return Err(Error::new(ErrorKind::InvalidInput, message).at(&self.dir));
        }
        let mut outcome = self.closing.outcome.lock();
        if let Some(before) = &*outcome {
            return before.as_ref().map_or_else(|error| Err(error.duplicate()), |()| Ok(()));
        }
        let result = self.close_now();
        *outcome = Some(result.as_ref().map_or_else(|error| Err(error.duplicate()), |()| Ok(())));
        result
    }

    /// Closes the store because the last handle was dropped. A program that needs to know whether the last sync
    /// succeeded calls `close` before.
    pub(super) fn close_with_last_handle(&self) {
        if AtWork::is_on(self) {
            self.closing.due.store(true, Ordering::Release);
        } else {
            drop(self.close());
        }
    }

    /// Called when a piece of work ends. Closes the store if the last handle was dropped meanwhile.
    pub(super) fn close_if_due(&self) {
        // Only one thread closes: it may have to wait for the others that are at work.
        if self.closing.due.swap(false, Ordering::AcqRel) {
            drop(self.close());
        }
    }

    fn close_now(&self) -> Result<()> {
        let _at_work = AtWork::on(self);
        // Merges under way are not held up any more.
        let _hurry = self.io_budget.hurry();
        let mut flushed = Ok(());
        if !self.health.is_read_only() && self.health.failure().is_none_or(|error| is_full(&error)) {
            // Without it the next opening has more to do, and finds a larger store.
            drop(self.flush_and_shrink());
            flushed = self.flush_when_closing();
            self.collect_when_closing();
        }
        self.health.begin_closing();
        self.executor.stop();
        self.health.signal();
        // Another thread may be giving space back still; from here on it finds the store closing.
        drop(self.blob_gc.begin_round());
        self.reclaim.end();
        self.scrub.stop();
        let last = self.blobs.gate.close();
        if !self.health.is_read_only() {
            // The next opening has less to read. A file that cannot be sealed is read all the same.
            drop(self.seal_blobs(true));
        }
        self.blobs.close();
        let sealed = if self.health.is_read_only() { Ok(()) } else { self.seal_log() };
        // Callers' threads may still be flushing, merging or changing trees: they end before the lock goes.
        let ended = (self.compacting.lock(), self.flushing.lock(), self.versions.lock());
        let result = sealed.and_then(|()| self.remove_unused());
        drop(ended);
        drop(last);
        self.release_all();
        self.lock.lock().take();
        match self.health.failure() {
            Some(error) if error.kind() != ErrorKind::OutOfSpace => Err(error),
            _ => flushed.and(result),
        }
    }

    /// Gives back the space of overwritten huge values for up to two seconds, so that a process that deletes and ends
    /// leaves none behind. The next opening does the rest, and frees what only snapshots see.
    fn collect_when_closing(&self) {
        let clock = &self.env.clock;
        let until = clock.monotonic_us() + CLOSING_US;
        let mut round = self.blob_gc.begin_round();
        while self.has_blob_garbage() && clock.monotonic_us() < until {
            if !matches!(self.run_gc_round(&mut round), Ok(true)) {
                break;
            }
        }
    }

    /// Ends all writes, makes the log durable and records in the manifest how far it goes. So the next opening notices
    /// if any of it is lost.
    fn seal_log(&self) -> Result<()> {
        let state = self.commit.lock_quiet();
        // The manifest must not confirm a log with a hole.
        self.commit.check()?;
        let end = state.tail.position();
        // A writer that got past the first check must not be acknowledged once the directory may belong to another
        // opening.
        self.commit.poison();
        drop(state);
        self.sync_log_when_closing(end)?;
        let mut versions = self.versions.lock();
        let Some(known) = versions.known() else { return Ok(()) };
        let (floor, noted) = (known.floor.start, known.log_synced);
        // If the floor is before the start of this log, what was replayed is not in tables and not known to be on the
        // disk.
        if floor < self.wal.began_at() {
            return Ok(());
        }
        let mut edits = self.blob_edits_of_closing(&versions);
        // The manifest must not name a file before its name is durable.
        self.blobs.sync_names()?;
        if end > noted.max(floor) {
            edits.push(Edit::LogSynced { position: end });
        }
        if !edits.is_empty() || self.has_expiring(&versions) {
            edits.push(self.clock_edit());
            self.apply_when_closing(&mut versions, &Change::of(edits))?;
        }
        Ok(())
    }

    /// Removes the files that the next opening does not need.
    fn remove_unused(&self) -> Result<()> {
        if self.health.is_read_only() {
            return Ok(());
        }
        remove_for_good(&*self.env.fs, &self.dir, &mut self.wal.close(), |path| path)?;
        self.remove_obsolete()
    }

    /// Releases descriptors, maps and memory, whatever handles are left. From here on a tree's state is not what the
    /// tree holds: a thread that has loaded it checks afterwards whether the store is closing.
    fn release_all(&self) {
        self.immutable.clear();
        self.compactions.clear();
        self.commit.lookups.clear();
        self.versions.lock().release_all();
        self.registry.close();
        self.pool.clear();
        self.blobs.close_files();
        let mut state = self.commit.lock_quiet();
        self.wal.release(&mut state.tail);
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // If the opening came far enough to have an owner, the owner has closed the store.
        drop(self.close());
    }
}
