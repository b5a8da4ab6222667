//! Maintenance: flushes, merges, copies.

use std::path::Path;

use super::Db;
use crate::admin::BackupReport;
#[cfg(any(test, feature = "testing"))]
use crate::env::{JobKind, Worker};
use crate::error::Result;

/// Maintenance.
impl Db {
    /// Writes the content of the memtables into tables.
    ///
    /// # Errors
    /// `Io` or `OutOfSpace`; the data stays in the log and in memory.
    pub fn flush(&self) -> Result<()> {
        self.store.flusher().flush()
    }

    /// Flushes, merges each tree into one sorted run, and drops the versions that no reader can see any more. Returns
    /// when the space is free.
    ///
    /// # Errors
    /// As [`Db::flush`], and `Corruption` when a table cannot be read.
    pub fn compact(&self) -> Result<()> {
        self.store.log().check_changeable()?;
        self.store.compactor().compact()
    }

    /// Fails if the store takes no puts now. If the disk was full and has room again, the store takes puts from now on.
    /// Use this to report whether a program is ready; a program that writes does not need it.
    ///
    /// # Errors
    /// `OutOfSpace` when the disk is full; `Poisoned` when the store has failed; `ReadOnly`, `Closed`.
    pub fn check_writable(&self) -> Result<()> {
        self.store.disk().check_writable()
    }

    /// Empties the buffer pool. The next reads then go to the files. Counts of hits and misses continue. Use it to
    /// measure cold reads; the system's page cache keeps its content.
    pub fn clear_cache(&self) {
        self.store.pool().clear();
    }

    /// Makes a copy of the current store in the directory `dir`, which must not exist yet, while others read and write.
    /// Tables are shared by hard link and the log is copied. This takes little space and time. `dir` must be on the
    /// same file system. The files of a store that is open for reading only are copied, to any file system.
    ///
    /// # Errors
    /// `InvalidInput` when `dir` lies in the store's own directory; `AlreadyExists`, `Io`, `OutOfSpace`.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        let is_read_only = self.store.is_read_only();
        if !is_read_only {
            self.store.disk().ensure_writable()?;
        }
        crate::admin::checkpoint::check_outside(&self.store, dir.as_ref())?;
        match is_read_only {
            true => crate::admin::at_rest::checkpoint(&self.store, dir.as_ref()),
            false => crate::admin::checkpoint::checkpoint(&self.store, dir.as_ref()),
        }
    }

    /// Adds a backup of the current store to the directory `dir`, which may be on another disk, while others read and
    /// write. Files that an earlier backup there has are not copied again: use one directory for each store. While a
    /// backup runs, the space of overwritten data is not freed. A backup is refused on a disk below its low-space mark.
    /// [`restore`](crate::restore) makes a store from it; [`backups`](crate::backups) lists the backups,
    /// [`forget_backups`](crate::forget_backups) removes old ones.
    ///
    /// # Errors
    /// `InvalidInput` when `dir` holds something else, for example backups of another store, or lies in the store's own
    /// directory; `Corruption` when the list of an earlier backup's files is damaged; `Locked` when another backup or
    /// restore uses `dir`; `Io`, `OutOfSpace`. Earlier backups stay as they were.
    pub fn backup(&self, dir: impl AsRef<Path>) -> Result<BackupReport> {
        if !self.store.is_read_only() {
            self.store.disk().ensure_writable()?;
        }
        crate::admin::checkpoint::check_outside(&self.store, dir.as_ref())?;
        crate::admin::backup::backup(&self.store, dir.as_ref())
    }

    /// The directory of the store.
    pub fn path(&self) -> &Path {
        self.store.dir()
    }

    /// Does one step of background work in `job`, for stores whose [`Env::executor`](crate::env::Env::executor) is
    /// stepped; `false` if `job` has no work.
    #[cfg(any(test, feature = "testing"))]
    pub fn step(&self, job: JobKind) -> bool {
        self.store.run_one(job)
    }
}
