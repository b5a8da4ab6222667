//! Opening and closing.

use std::path::Path;
use std::sync::Arc;

use super::Db;
use crate::env::Env;
use crate::error::Result;
use crate::fs::MemoryFs;
use crate::open::DEFAULT_TREE;
use crate::options::Options;
use crate::store::Owner;
use crate::tree::Tree;

/// Opening and closing.
impl Db {
    fn from_store(store: Arc<Owner>) -> Result<Db> {
        let default = store.versions().lock().tree_called(DEFAULT_TREE)?;
        Ok(Db { default: Tree::new(&store, default), store, locks: Arc::default() })
    }

    #[cfg(test)]
    pub(crate) fn store(&self) -> &Arc<Owner> {
        &self.store
    }

    /// Opens the store in the directory `path`. Creates it if it is missing and [`Options::create`] is set. First
    /// completes the unfinished work of an earlier process.
    ///
    /// # Errors
    /// `Locked` when the store is open elsewhere; `NotFound` when it does not exist; `Corruption` when files are
    /// damaged; `Unsupported` when a newer build wrote them; `InvalidInput` when `path` is not a store's directory,
    /// when options are out of range, or when a link, a directory or a device has the name of one of the store's files;
    /// `OutOfResources` when descriptors, threads or memory are short; `OutOfSpace`; `Io`.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::from_store(crate::open::open(path.as_ref(), options, false)?)
    }

    /// Opens a store for reading. This writes nothing, so read-only media work. Any number of readers may have the
    /// store open at the same time, but no writer may.
    ///
    /// # Errors
    /// As [`Db::open`].
    pub fn open_read_only(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::from_store(crate::open::open(path.as_ref(), options, true)?)
    }

    /// A new store in memory. It is deleted with its last handle.
    ///
    /// # Errors
    /// `InvalidInput` when the options are out of range.
    pub fn open_in_memory(options: Options) -> Result<Db> {
        let env = Env { fs: Arc::new(MemoryFs::new()), ..options.env.clone() };
        Db::open("/memory", Options { env, ..options }.create(true))
    }

    /// Ends background work, makes everything durable and unlocks the directory. Later calls on any handle fail with
    /// `Closed` and write nothing; scans continue with the data that they have in memory. If several threads close the
    /// store, or one closes it again, each call returns the same result once the store is closed.
    ///
    /// # Errors
    /// The error of the last sync or of earlier background work. `OutOfSpace` when the disk has no room for the
    /// memtables of trees without the log; their data is lost, and the message names the trees ([`Db::sync`] before
    /// would have failed and kept it). `InvalidInput` when called in a merge operator that the store itself is running.
    pub fn close(&self) -> Result<()> {
        self.store.close()
    }
}
