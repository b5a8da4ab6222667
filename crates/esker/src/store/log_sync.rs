//! Syncs of the log: what is before a log position survives power loss when they return.

use super::Store;
use crate::canary::broken;
use crate::error::Result;

impl Store {
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

    /// As [`Store::sync_log`], also for a closing store that takes no more writes.
    pub(super) fn sync_log_when_closing(&self, end: u64) -> Result<()> {
        let blobs_first = || if broken("rule-4") { Ok(()) } else { self.blobs.sync() };
        self.wal.sync_to(end, &self.commit.published, &blobs_first)
    }
}
