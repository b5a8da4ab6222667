//! The commit pipeline with the log that it writes to: syncs, after which everything before a log position survives
//! power loss, and pauses of the writes to a tree.

use std::sync::Arc;

use super::Core;
use crate::canary::broken;
use crate::error::{ErrorKind, Result};
use crate::log::wal::Wal;
use crate::state::TreeInner;
use crate::write::commit::Commit;

/// A tree takes no writes until this is dropped.
#[derive(Debug)]
pub(super) struct WritePause<'a> {
    log: &'a CommitLog,
    tree: Arc<TreeInner>,
}

impl Drop for WritePause<'_> {
    fn drop(&mut self) {
        self.tree.set_paused(false);
        self.log.core.health.signal();
    }
}

/// The commit pipeline and the log.
#[derive(Debug)]
pub(crate) struct CommitLog {
    core: Arc<Core>,
    commit: Commit,
    wal: Wal,
}

impl CommitLog {
    pub(super) fn new(core: &Arc<Core>, commit: Commit, wal: Wal) -> CommitLog {
        CommitLog { core: Arc::clone(core), commit, wal }
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
    pub(crate) fn sync_log(&self, end: u64) -> Result<()> {
        self.commit.check()?;
        let synced = self.sync_log_when_closing(end);
        if synced.is_err() && !broken("rule-8") {
            self.commit.poison();
        }
        synced
    }

    /// When this returns, everything in the log that was acknowledged survives power loss.
    pub(crate) fn sync_published(&self) -> Result<()> {
        self.sync_log(self.commit.published())
    }

    /// As [`CommitLog::sync_log`], also for a closing store that takes no more writes.
    pub(super) fn sync_log_when_closing(&self, end: u64) -> Result<()> {
        let blobs_first = || if broken("rule-4") { Ok(()) } else { self.core.blobs.sync() };
        self.wal.sync_to(end, &self.commit.published, &blobs_first)
    }

    /// Fails if nothing in the store can be changed or made durable. A full disk is no reason.
    pub(crate) fn check_changeable(&self) -> Result<()> {
        self.core.health.check()?;
        self.commit.check()
    }

    /// [`seal_files`](crate::blob::BlobSet::seal_files). After a failed sync the store takes no more writes.
    pub(crate) fn seal_blobs(&self, all: bool) -> Result<bool> {
        self.core.blobs.seal_files(all && !broken("rule-14-roll")).inspect_err(|error| {
            if error.kind() != ErrorKind::OutOfSpace {
                self.commit.poison();
            }
        })
    }

    pub(super) fn longest_segment(&self) -> u64 {
        self.wal.longest(&self.commit.lock().tail)
    }

    /// Makes writes to `tree` wait from now on. Writes that have begun are visible when this returns. Called under
    /// `reshaping`.
    pub(super) fn pause_writes(&self, tree: &Arc<TreeInner>) -> WritePause<'_> {
        let _quiet = self.commit.lock_quiet();
        tree.set_paused(true);
        WritePause { log: self, tree: Arc::clone(tree) }
    }
}
