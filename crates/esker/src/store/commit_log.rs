//! The commit pipeline and its log. A sync makes everything before a log position survive power loss.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Core;
use crate::canary::broken;
use crate::compact::retain::ReadPoints;
use crate::cursor::Expiry;
use crate::env::JobKind;
use crate::error::{ErrorKind, Result};
use crate::log::wal::Wal;
use crate::read::snapshots::Lasting;
use crate::write::commit::Commit;

/// See the module's comment.
pub(crate) struct CommitLog {
    core: Arc<Core>,
    commit: Commit,
    wal: Wal,
    /// Whether a thread wants the log to be synced but does not wait for it.
    sync_wanted: AtomicBool,
}

impl CommitLog {
    pub(super) fn new(core: &Arc<Core>, commit: Commit, wal: Wal) -> CommitLog {
        CommitLog { core: Arc::clone(core), commit, wal, sync_wanted: AtomicBool::new(false) }
    }

    #[inline]
    pub(crate) fn commit(&self) -> &Commit {
        &self.commit
    }

    #[inline]
    pub(crate) fn wal(&self) -> &Wal {
        &self.wal
    }

    /// When this returns, everything before log position `end` survives power loss.
    pub(super) fn sync_to(&self, end: u64) -> Result<()> {
        self.commit.check()?;
        let synced = self.sync_when_closing(end);
        if let Err(error) = &synced
            && !broken("rule-8")
        {
            self.commit.poison(error);
        }
        synced
    }

    /// When this returns, everything in the log that was acknowledged survives power loss.
    pub(crate) fn sync_published(&self) -> Result<()> {
        self.sync_to(self.commit.published())
    }

    /// As [`CommitLog::sync_to`], also for a closing store that takes no more writes.
    pub(super) fn sync_when_closing(&self, end: u64) -> Result<()> {
        let blobs_first = || if broken("rule-4") { Ok(()) } else { self.core.blobs.sync() };
        let before = self.wal.synced();
        self.wal.sync_to(end, &self.commit.published, &blobs_first)?;
        if self.wal.synced() > before {
            self.tell_synced();
        }
        Ok(())
    }

    fn tell_synced(&self) {
        if let Some(listener) = &self.core.options.listener {
            listener.synced();
        }
    }

    /// Makes the log job sync everything that is published now.
    pub(crate) fn request_sync(&self) {
        self.wal.note_waiter();
        self.sync_wanted.store(true, Ordering::SeqCst);
        self.core.notify(JobKind::Log);
    }

    /// Syncs the log if that was requested.
    pub(super) fn sync_if_requested(&self) -> Result<bool> {
        let is_wanted = self.sync_wanted.swap(false, Ordering::SeqCst);
        if is_wanted {
            let before = self.wal.synced();
            let synced = self.sync_published();
            // The thread that requested the sync waits for the call, even if there was nothing to sync, or the sync has
            // failed.
            if self.wal.synced() == before {
                self.tell_synced();
            }
            synced?;
        }
        Ok(is_wanted)
    }

    /// Fails if nothing in the store can be changed or made durable. A full disk does not make it fail.
    pub(crate) fn check_changeable(&self) -> Result<()> {
        self.core.health.check()?;
        self.commit.check()
    }

    /// [`seal_files`](crate::blob::BlobSet::seal_files). After a failed sync the store takes no more writes.
    pub(crate) fn seal_blobs(&self, all: bool) -> Result<bool> {
        self.core.blobs.seal_files(all && !broken("rule-14-roll")).inspect_err(|error| {
            if error.kind() != ErrorKind::OutOfSpace {
                self.commit.poison(error);
            }
        })
    }

    /// For a write that depends on values that were read; the first of them expires at `expiry`.
    pub(crate) fn lasting(&self, expiry: Option<Expiry>) -> Lasting<'_> {
        Lasting::new(&self.core.snapshots, &self.commit, &self.core.clock, expiry)
    }

    /// The moments that snapshots and scans read now.
    pub(super) fn read_points(&self) -> ReadPoints {
        self.core.snapshots.read_points(&self.commit, &self.core.clock)
    }
}
