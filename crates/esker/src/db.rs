//! The store's handle: opening, trees, batches, care.

use std::path::Path;
use std::sync::Arc;

use crate::care::BackupReport;
use crate::env::{Env, Lane, Worker};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::sim::SimFs;
use crate::open::DEFAULT_TREE;
use crate::options::{Durability, Options, TreeOptions};
use crate::read::range::ScanRange;
use crate::read::scan::Scan;
use crate::state::{Shape, TreeInner};
use crate::store::Owner;
use crate::trace::{Cause, Operation, Subject, notes};
use crate::tree::{Snapshot, Tree};
use crate::txn::{LockTable, Txn, TxnOptions};
use crate::value::Value;
use crate::version::edit::Edit;
use crate::write::batch::Batch;

mod insight;
mod port;
mod split;
mod updates;

/// The longest name of a tree, in bytes.
const TREE_NAME_MAX: usize = 255;

/// An open store. Cheap to clone; any number of threads may use it at once.
///
/// The store is closed when the last handle is dropped, or by [`Db::close`], which also tells whether the last sync worked.
/// Handles are [`Db`], [`Tree`], [`Snapshot`], [`Scan`], [`Txn`], [`Updates`](crate::Updates),
/// [`ValueWriter`](crate::ValueWriter), [`Ingest`](crate::Ingest); a [`Value`] and a [`Batch`] are none. When the drop of
/// the last one returns, the store is closed as by [`Db::close`]: everything is durable, the directory unlocked, descriptors
/// and memory are given back. (Where the store's own work drops it, as a merge operator may, that is so when this work is
/// done.) A handle in a `static` is never dropped: close the store before the program ends.
///
/// # Example
/// ```
/// # fn main() -> esker::Result<()> {
/// # let dir = tempfile::tempdir().expect("a temporary directory");
/// let db = esker::Db::open(dir.path().join("store"), esker::Options::default())?;
/// db.put("key", "value")?;
/// assert_eq!(db.get_vec("key")?.as_deref(), Some(&b"value"[..]));
/// db.close()
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Db {
    store: Arc<Owner>,
    default: Tree,
    locks: Arc<LockTable>,
}

fn check_tree_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > TREE_NAME_MAX {
        let message = format!("a tree's name has 1 to {TREE_NAME_MAX} bytes; this one has {}", name.len());
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    Ok(())
}

impl Db {
    fn from_store(store: Arc<Owner>) -> Result<Db> {
        let default = {
            let structure = store.structure.lock();
            let id = structure.by_name.get(DEFAULT_TREE);
            id.and_then(|id| structure.trees.get(id)).cloned()
        };
        let default =
            default.ok_or_else(|| Error::new(ErrorKind::NotFound, "the store has no default tree"))?;
        Ok(Db { default: Tree::new(&store, default), store, locks: Arc::default() })
    }

    /// Opens the store in the directory `path`; creates it when it is missing and [`Options::create`] is
    /// set. Whatever an earlier process left unfinished is recovered first.
    ///
    /// # Errors
    /// `Locked` when the store is open elsewhere; `NotFound` when there is none; `Corruption` when files
    /// are damaged; `Unsupported` when a newer build wrote them; `InvalidInput` when `path` is something
    /// else, when options are out of range, or when a link, a directory or a device lies where the store keeps a file of its
    /// own; `OutOfResources` when descriptors, threads or memory are short; `OutOfSpace`; `Io`.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::from_store(crate::open::open(path.as_ref(), options, false)?)
    }

    /// Opens a store for reading. Nothing is written, so read-only media will do. Any number of readers
    /// may have it open at once, but no writer beside them.
    ///
    /// # Errors
    /// As [`Db::open`].
    pub fn open_read_only(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::from_store(crate::open::open(path.as_ref(), options, true)?)
    }

    /// A new store in memory, which goes with its last handle.
    ///
    /// # Errors
    /// `InvalidInput` when the options are out of range.
    pub fn open_in_memory(options: Options) -> Result<Db> {
        let disk = SimFs::new(0);
        disk.set_writeback(0.0);
        let env = Env { fs: Arc::new(disk), ..options.env.clone() };
        Db::open("/memory", options.env(env).create(true))
    }

    /// Ends background work, makes everything durable and lets the directory go. Later calls on any
    /// handle fail with `Closed` and write nothing; scans go on in what they have in memory. Where several threads close, or one
    /// closes again, each gets the same result, when the store is closed.
    ///
    /// # Errors
    /// What the last sync or earlier background work failed with; `InvalidInput` in a merge operator that the store itself has
    /// called.
    pub fn close(&self) -> Result<()> {
        self.store.close()
    }

    // ---- trees ---------------------------------------------------------------------------------------

    /// The tree called `name`, created with default options when it is missing.
    ///
    /// # Errors
    /// `InvalidInput` for a name that is empty or longer than 255 bytes; `ReadOnly`; `Io`.
    pub fn tree(&self, name: &str) -> Result<Tree> {
        if let Some(tree) = self.open_tree(name)? {
            return Ok(tree);
        }
        match self.create_tree(name, TreeOptions::default()) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => self.open_tree(name)?.ok_or(error),
            other => other,
        }
    }

    /// Creates the tree called `name`.
    ///
    /// # Errors
    /// `AlreadyExists`, `InvalidInput` when an option is out of range, or as [`Db::tree`].
    pub fn create_tree(&self, name: &str, options: TreeOptions) -> Result<Tree> {
        check_tree_name(name)?;
        self.store.check_writable()?;
        options.check()?;
        crate::table::check_supported(options.compression)?;
        // What was written before must not be lost when this survives: the store stays a prefix.
        self.store.sync_published()?;
        let mut structure = self.store.structure.lock();
        if structure.by_name.contains_key(name) {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("there is a tree \"{name}\" already")));
        }
        let id = structure.next_tree;
        let edit = Edit::CreateTree { tree: id, name: name.to_owned(), options: options.clone() };
        self.store.commit_edits(&mut structure, &[edit])?;
        structure.next_tree += 1;
        let inner = TreeInner::new(
            (id, id),
            self.store.id,
            name,
            options,
            None,
            Shape::default(),
            &self.store.chunks,
        );
        structure.by_name.insert(name.to_owned(), id);
        structure.trees.insert(id, Arc::clone(&inner));
        Ok(Tree::new(&self.store, inner))
    }

    /// The tree called `name`, if there is one.
    ///
    /// # Errors
    /// As [`Db::tree`].
    pub fn open_tree(&self, name: &str) -> Result<Option<Tree>> {
        check_tree_name(name)?;
        self.store.check_open()?;
        let structure = self.store.structure.lock();
        let inner = structure.by_name.get(name).and_then(|id| structure.trees.get(id));
        Ok(inner.map(|inner| Tree::new(&self.store, Arc::clone(inner))))
    }

    /// Drops the tree called `name` with all it holds. Scans that are open finish.
    ///
    /// # Errors
    /// `NotFound`, `InvalidInput` for the default tree, or as [`Db::tree`].
    pub fn drop_tree(&self, name: &str) -> Result<()> {
        check_tree_name(name)?;
        self.store.check_changeable()?;
        if name == DEFAULT_TREE {
            return Err(Error::new(ErrorKind::InvalidInput, "the default tree cannot be dropped"));
        }
        self.store.drop_tree(name)
    }

    /// The names of all trees, sorted.
    pub fn tree_names(&self) -> Vec<String> {
        self.store.structure.lock().by_name.keys().cloned().collect()
    }

    /// The tree that every store has.
    pub fn default_tree(&self) -> &Tree {
        &self.default
    }

    /// [`Tree::put`] on the default tree.
    ///
    /// # Errors
    /// As [`Tree::put`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.default.put(key, value)
    }

    /// [`Tree::get`] on the default tree.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.default.get(key)
    }

    /// [`Tree::get_vec`] on the default tree.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn get_vec(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.default.get_vec(key)
    }

    /// [`Tree::delete`] on the default tree.
    ///
    /// # Errors
    /// As [`Tree::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.default.delete(key)
    }

    /// [`Tree::contains`] on the default tree.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.default.contains(key)
    }

    /// [`Tree::scan`] on the default tree.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn scan(&self, range: ScanRange) -> Result<Scan> {
        self.default.scan(range)
    }

    // ---- batches, snapshots, durability --------------------------------------------------------------

    /// Applies `batch`, all or nothing, with the store's default durability.
    ///
    /// # Errors
    /// `InvalidInput` when it holds a tree of another store; otherwise as [`Tree::put`].
    pub fn write(&self, batch: &Batch) -> Result<()> {
        self.store.write(batch, self.store.options.durability)
    }

    /// As [`Db::write`], with a durability of its own.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn write_with(&self, batch: &Batch, durability: Durability) -> Result<()> {
        self.store.write(batch, durability)
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// `Closed` when the store is closed.
    pub fn begin(&self, options: TxnOptions) -> Result<Txn> {
        Txn::begin(&self.store, &self.locks, options)
    }

    /// Runs `work` in a transaction and commits it; does so again, at most 64 times, with pauses of at most 13 ms, while
    /// that fails with `Conflict` or `Deadlock`. So `work` may run several times, and what it does besides should not
    /// matter unless it is the last time. Whatever `work` fails with otherwise rolls the transaction back.
    ///
    /// # Errors
    /// `Conflict` or `Deadlock` of the last try; whatever else `work` or [`Txn::commit`] fails with.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let stock = db.tree("stock")?;
    /// stock.put("screws", [9])?;
    /// let left = db.transact(&esker::TxnOptions::default(), |txn| {
    ///     let count = txn.get_vec(&stock, "screws")?.map_or(0, |value| value[0]);
    ///     txn.put(&stock, "screws", [count - 1])?;
    ///     txn.put(&stock, "orders/1", "one screw")?;
    ///     Ok(count - 1)
    /// })?;
    /// assert_eq!(left, 8);
    /// # Ok(())
    /// # }
    /// ```
    pub fn transact<T>(&self, options: &TxnOptions, work: impl FnMut(&Txn) -> Result<T>) -> Result<T> {
        crate::txn::transact(&self.store, &self.locks, options, work)
    }

    /// The whole store at this moment.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(&self.store)
    }

    /// Makes everything acknowledged so far survive power loss. What trees without the log
    /// ([`TreeOptions::log`]) hold in memory is written into tables for that.
    ///
    /// # Errors
    /// `Poisoned` when the disk failed: reopen the store; `OutOfSpace` when there is no room for such tables.
    pub fn sync(&self) -> Result<()> {
        self.store.check_changeable()?;
        let sync = || {
            self.store.sync_published()?;
            self.store.flush_volatile()
        };
        let metrics = &self.store.metrics;
        metrics.time(Operation::Sync, Subject::none, || notes::waiting(&*metrics.clock, Cause::Sync, sync))
    }

    // ---- care ----------------------------------------------------------------------------------------

    /// Writes what memtables hold into tables.
    ///
    /// # Errors
    /// `Io` or `OutOfSpace`; the data stays in the log and in memory.
    pub fn flush(&self) -> Result<()> {
        self.store.flush()
    }

    /// Flushes, merges each tree into one sorted run, drops what nobody can see any more, and returns when
    /// the space is back.
    ///
    /// # Errors
    /// As [`Db::flush`], and `Corruption` when a table cannot be read.
    pub fn compact(&self) -> Result<()> {
        self.store.check_changeable()?;
        self.store.compact()
    }

    /// Empties the buffer pool: the next reads go to the files. Counts of hits and misses go on. For measurements of
    /// cold reads; the system's page cache is not emptied.
    pub fn clear_cache(&self) {
        self.store.pool.clear();
    }

    /// Makes a copy of the store as it is now in the directory `dir`, which must not exist yet, while
    /// others read and write. Tables are shared by hard link, the log is copied: it costs little space and
    /// time on the same file system, and needs one that is the same.
    ///
    /// # Errors
    /// `InvalidInput` when `dir` lies in the store's own directory; `AlreadyExists`, `Io`, `OutOfSpace`.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.store.check_writable()?;
        crate::care::checkpoint::check_outside(&self.store, dir.as_ref())?;
        crate::care::checkpoint::checkpoint(&self.store, dir.as_ref()).map(drop)
    }

    /// Makes a backup of the store as it is now in the directory `dir`, which may be on another disk, beside the ones
    /// that it holds already, while others read and write. Files that an earlier one has are not copied again: keep
    /// one directory for each store. While this runs, the space of what is overwritten does not come back, and on a
    /// disk below its low-space mark it is refused. [`restore`](crate::restore) makes a store of it;
    /// [`backups`](crate::backups) lists them, [`forget_backups`](crate::forget_backups) removes old ones.
    ///
    /// # Errors
    /// `InvalidInput` when `dir` holds something else, such as backups of another store, or lies in the store's own
    /// directory; `Corruption` when the list of an earlier backup's files is
    /// damaged; `Locked` when another backup or restore uses `dir`; `Io`, `OutOfSpace`: earlier backups are as they were.
    pub fn backup(&self, dir: impl AsRef<Path>) -> Result<BackupReport> {
        self.store.check_writable()?;
        crate::care::checkpoint::check_outside(&self.store, dir.as_ref())?;
        crate::care::backup::backup(&self.store, dir.as_ref())
    }

    /// Where the store is.
    pub fn path(&self) -> &Path {
        &self.store.dir
    }

    /// Does one step of background work in `lane`, for stores whose [`Env::executor`] is stepped; `false`
    /// when there is nothing to do.
    pub fn step(&self, lane: Lane) -> bool {
        self.store.run_one(lane)
    }
}
