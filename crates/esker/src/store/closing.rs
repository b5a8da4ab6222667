//! Closes a store.
//!
//! ```text
//! no writes; trees that skip the log are flushed; space of overwritten huge values is given back ....... calls go on
//! closing: calls fail, background work ends, no other thread touches the directory any more (`Gate`)
//! the log is synced and sealed; callers' flushes and merges end; unused files go
//! tables, log, memtables, buffer pool are released ............... even if handles are left; the lock goes last
//! ```
//!
//! Space is given back here because a process may delete and exit immediately, as the command line does. Otherwise the
//! next opening would have to give all of it back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::Store;
use super::at_work::AtWork;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::gone::remove_for_good;
use crate::space::is_full;
use crate::state::TreeInner;
use crate::state::versions::{VersionEdit, Versions};
use crate::version::edit::Edit;

/// How long a close gives space back, in microseconds.
const CLOSING_US: u64 = 2_000_000;

/// The progress of closing a store.
#[derive(Debug, Default)]
pub(super) struct Closing {
    /// The last handle was dropped while the store's own work held it: the thread that next ends a piece of work closes
    /// the store.
    due: AtomicBool,
    /// The result, for later calls. The call that closes holds the lock, so others wait.
    outcome: Mutex<Option<Result<()>>>,
}

/// Whether some table holds entries that expire, or is to be looked at again.
fn has_expiring(versions: &Versions) -> bool {
    let expires = |tree: &Arc<TreeInner>| {
        tree.state
            .load()
            .levels
            .tables()
            .any(|(_, table)| table.info.expiring.count > 0 || table.info.look_again.is_wanted())
    };
    versions.trees().any(expires)
}

impl Store {
    /// Ends the background work, syncs the log and unlocks the directory. A later call, or one meanwhile, gets the
    /// same result, and gets it when all is done.
    pub(crate) fn close(&self) -> Result<()> {
        if AtWork::is_on(&self.core) {
            let message =
                "a store cannot be closed by its own work, such as a merge operator: close it elsewhere";
            return Err(Error::new(ErrorKind::InvalidInput, message).at(&self.core.dir));
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
        if AtWork::is_on(&self.core) {
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
        let _at_work = AtWork::on(&self.core);
        // Merges under way are not held up any more.
        let _hurry = self.core.io_budget.hurry();
        let mut flushed = Ok(());
        if !self.core.health.is_read_only() && self.core.health.failure().is_none_or(|error| is_full(&error))
        {
            // Without it the next opening has more to do, and finds a larger store.
            drop(self.flusher.flush_and_shrink());
            flushed = self.flusher.flush_when_closing();
            self.collect_when_closing();
        }
        self.core.health.begin_closing();
        self.core.executor.stop();
        self.core.health.signal();
        // Another thread may be giving space back still; from here on it finds the store closing.
        drop(self.finder.blob_gc().begin_round());
        self.collector.end_reclaim();
        self.scrub.stop();
        let last = self.core.blobs.gate.close();
        if !self.core.health.is_read_only() {
            // The next opening has less to read. A file that cannot be sealed is read even so.
            drop(self.log.seal_blobs(true));
        }
        self.core.blobs.close();
        let sealed = if self.core.health.is_read_only() { Ok(()) } else { self.seal_log() };
        // Callers' threads may still be flushing, merging or changing trees: they end before the lock goes.
        let ended = (self.installer.end_merges(), self.flusher.flushing().lock(), self.versions.lock());
        let result = sealed.and_then(|()| self.remove_unused());
        drop(ended);
        drop(last);
        self.release_all();
        self.lock.lock().take();
        match self.core.health.failure() {
            Some(error) if error.kind() != ErrorKind::OutOfSpace => Err(error),
            _ => flushed.and(result),
        }
    }

    /// Gives back the space of overwritten huge values for up to two seconds, so that a process that deletes and exits
    /// leaves none of it taken. The next opening does the rest, and frees the values that only snapshots see.
    fn collect_when_closing(&self) {
        let clock = &self.core.env().clock;
        let until = clock.monotonic_us() + CLOSING_US;
        let mut round = self.finder.blob_gc().begin_round();
        while self.collector.has_blob_garbage() && clock.monotonic_us() < until {
            if !matches!(self.collector.run_gc_round(&mut round), Ok(true)) {
                break;
            }
        }
    }

    /// Ends all writes, makes the log durable and records in the manifest how far it goes. The next opening can then
    /// notice if any of it is lost.
    fn seal_log(&self) -> Result<()> {
        let state = self.log.commit().lock_quiet();
        // The manifest must not confirm a log with a hole.
        self.log.commit().check()?;
        let end = state.tail.position();
        // A writer that got past the first check must not be acknowledged once the directory may belong to another
        // opening.
        self.log.commit().refuse();
        drop(state);
        self.log.sync_when_closing(end)?;
        let mut versions = self.versions.lock();
        let Some(known) = versions.known() else { return Ok(()) };
        let (floor, noted) = (known.floor.start, known.log_synced);
        // If the floor is before the start of this log, the replayed records are not in tables and not known to be on
        // the disk.
        if floor < self.log.wal().began_at() {
            return Ok(());
        }
        let mut edits = self.finder.blob_edits_of_closing(&versions);
        // The manifest must not name a file before its name is durable.
        self.core.blobs.sync_names()?;
        if end > noted.max(floor) {
            edits.push(Edit::LogSynced { position: end });
        }
        if !edits.is_empty() || has_expiring(&versions) {
            edits.push(self.core.clock_edit());
            self.installer.apply_when_closing(&mut versions, &VersionEdit::of(edits))?;
        }
        Ok(())
    }

    /// Removes the files that the next opening does not need.
    fn remove_unused(&self) -> Result<()> {
        if self.core.health.is_read_only() {
            return Ok(());
        }
        remove_for_good(&*self.core.env().fs, &self.core.dir, &mut self.log.wal().close(), |path| path)?;
        self.disk.remove_obsolete()
    }

    /// Releases descriptors, maps and memory, even if handles are left. From here on a tree's state is not what the
    /// tree holds: a thread that has loaded it checks afterwards whether the store is closing.
    fn release_all(&self) {
        self.installer.immutable().clear();
        self.installer.compactions().clear();
        self.log.commit().lookups.clear();
        self.versions.lock().release_all();
        self.core.registry.close();
        self.core.pool.clear();
        self.core.blobs.close_files();
        let mut state = self.log.commit().lock_quiet();
        self.log.wal().release(&mut state.tail);
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // If the opening came far enough to have an owner, the owner has closed the store.
        drop(self.close());
    }
}
