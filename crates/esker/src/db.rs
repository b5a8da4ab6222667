//! The handle of a store: opening, trees, batches, maintenance.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::admin::import::As;
use crate::admin::{BackupReport, TreeFiles};
use crate::env::Env;
#[cfg(any(test, feature = "testing"))]
use crate::env::{JobKind, Worker};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::MemoryFs;
use crate::open::DEFAULT_TREE;
use crate::options::{Durability, Options, TreeOptions, check_name};
use crate::read::range::ScanRange;
use crate::read::scan::Scan;
use crate::store::{Owner, SplitAt, Whole};
use crate::trace::{Cause, Operation, Subject, perf_context};
use crate::tree::{Snapshot, Tree, check_tag};
use crate::txn::{LockTable, Txn, TxnOptions};
use crate::typed::{KeyCodec, TypedTree, ValueCodec, tag_of};
use crate::updates::Updates;
use crate::value::Value;
use crate::write::batch::{Batch, check_key};

mod event_loop;
mod groups;
mod insight;

pub use event_loop::WriteToken;
pub use groups::TreeSplit;

/// An open store. Cheap to clone; any number of threads may use it at once.
///
/// [`Db::close`] closes the store and reports whether the last sync worked; dropping the last handle closes it too.
/// Handles are [`Db`], [`Tree`], [`Snapshot`], [`Scan`], [`Txn`], [`Updates`],
/// [`ValueWriter`](crate::ValueWriter) and [`Ingest`](crate::Ingest); a [`Value`] and a [`Batch`] are not. When the
/// drop of the last handle returns, everything is durable, the directory is unlocked, and descriptors and memory are
/// released. (If the store's own work drops it, as a merge operator may, that happens when this work is done.) A handle
/// in a `static` is never dropped: close the store before the program ends.
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
#[derive(Clone)]
pub struct Db {
    store: Arc<Owner>,
    default: Tree,
    locks: Arc<LockTable>,
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").field("path", &self.path()).finish_non_exhaustive()
    }
}

fn check_tree_name(name: &str) -> Result<()> {
    check_name("tree", name)
}

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
    /// recovers what an earlier process left unfinished.
    ///
    /// # Errors
    /// `Locked` when the store is open elsewhere; `NotFound` when there is none; `Corruption` when files are damaged;
    /// `Unsupported` when a newer build wrote them; `InvalidInput` when `path` is not a store's directory, when options
    /// are out of range, or when a link, a directory or a device has the name of one of the store's files;
    /// `OutOfResources` when descriptors, threads or memory are short; `OutOfSpace`; `Io`.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::from_store(crate::open::open(path.as_ref(), options, false)?)
    }

    /// Opens a store for reading. This writes nothing, so read-only media work. Any number of readers may have the
    /// store open at once, but no writer beside them.
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
    /// `Closed` and write nothing; scans continue with what they have in memory. If several threads close the store, or
    /// one closes it again, each call returns the same result once the store is closed.
    ///
    /// # Errors
    /// The error of the last sync or of earlier background work. `OutOfSpace` when the disk has no room for what trees
    /// without the log hold in memory; that data is lost, and the message names the trees ([`Db::sync`] before would
    /// have failed and kept it). `InvalidInput` when called in a merge operator that the store itself is running.
    pub fn close(&self) -> Result<()> {
        self.store.close()
    }

    // ---- trees ---------------------------------------------------------------------------------------

    /// The tree called `name`, created with default options when it is missing.
    ///
    /// # Errors
    /// `InvalidInput` for a name that is empty or longer than 255 bytes; `ReadOnly`; `Io`.
    pub fn tree(&self, name: &str) -> Result<Tree> {
        self.tree_with(name, TreeOptions::default())
    }

    /// The tree called `name`, created with `options` when it is missing. One that is there keeps its options:
    /// [`Tree::options`] tells them, [`Tree::set_options`] changes them, and [`Db::create_tree`] fails instead.
    ///
    /// # Errors
    /// As [`Db::tree`], and `InvalidInput` when an option is out of range.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// use esker::{Compression, TreeOptions};
    /// // The same at the first start of a program and at each later one.
    /// let logs = db.tree_with("logs", TreeOptions::default().compression(Compression::Zstd))?;
    /// logs.put("2026-11-01", "a line")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn tree_with(&self, name: &str, options: TreeOptions) -> Result<Tree> {
        self.open_or_create(name, options, None)
    }

    /// A tree that this creates gets `options` and `tag`.
    fn open_or_create(&self, name: &str, options: TreeOptions, tag: Option<String>) -> Result<Tree> {
        if let Some(tree) = self.open_tree(name)? {
            options.check()?;
            return Ok(tree);
        }
        match self.create(name, options, tag) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => self.open_tree(name)?.ok_or(error),
            other => other,
        }
    }

    /// The tree called `name` with keys and values of types, created with default options when it is missing. A tree that
    /// this creates gets a tag ([`Tree::tag`]) that names the types, by which the command line shows keys.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let names = db.open_typed::<u64, String>("names")?;
    /// names.put(7, "Ada")?;
    /// names.put(30, "Bo")?;
    /// assert_eq!(names.get(7)?.as_deref(), Some("Ada"));
    /// let newest = names.iter()?.next_back().transpose()?;
    /// assert_eq!(newest, Some((30, "Bo".to_owned())));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Db::tree`], and `InvalidInput` when the tree's tag says that its keys or its values have another type
    /// ([`TypedTree::of`]).
    pub fn open_typed<K: KeyCodec, V: ValueCodec>(&self, name: &str) -> Result<TypedTree<K, V>> {
        self.open_typed_with(name, TreeOptions::default())
    }

    /// Like [`Db::open_typed`], with the options that [`Db::tree_with`] takes.
    ///
    /// # Errors
    /// As [`Db::open_typed`] and [`Db::tree_with`].
    pub fn open_typed_with<K: KeyCodec, V: ValueCodec>(
        &self,
        name: &str,
        options: TreeOptions,
    ) -> Result<TypedTree<K, V>> {
        TypedTree::of(self.open_or_create(name, options, tag_of::<K, V>())?)
    }

    /// Creates the tree called `name`.
    ///
    /// # Errors
    /// `AlreadyExists`, `InvalidInput` when an option is out of range or [`TreeOptions::log`] differs from that of the
    /// group's trees, or as [`Db::tree`].
    pub fn create_tree(&self, name: &str, options: TreeOptions) -> Result<Tree> {
        self.create(name, options, None)
    }

    fn create(&self, name: &str, options: TreeOptions, tag: Option<String>) -> Result<Tree> {
        check_tree_name(name)?;
        self.store.disk().ensure_writable()?;
        options.check()?;
        tag.as_deref().map_or(Ok(()), check_tag)?;
        crate::table::check_supported(options.compression)?;
        let tree = self.store.reshaper().create_tree(name, options, tag)?;
        Ok(Tree::new(&self.store, tree))
    }

    /// The tree called `name`, if there is one.
    ///
    /// # Errors
    /// As [`Db::tree`].
    pub fn open_tree(&self, name: &str) -> Result<Option<Tree>> {
        check_tree_name(name)?;
        self.store.check_open()?;
        let versions = self.store.versions().lock();
        Ok(versions.find(name).map(|inner| Tree::new(&self.store, Arc::clone(inner))))
    }

    /// Drops the tree called `name` and its content. Open scans can finish.
    ///
    /// # Errors
    /// `NotFound`, `InvalidInput` for the default tree, or as [`Db::tree`].
    pub fn drop_tree(&self, name: &str) -> Result<()> {
        check_tree_name(name)?;
        self.store.log().check_changeable()?;
        if name == DEFAULT_TREE {
            return Err(Error::invalid("the default tree cannot be dropped"));
        }
        self.store.reshaper().drop(Whole::Tree(name), &[])
    }

    /// The names of all trees, sorted.
    pub fn tree_names(&self) -> Vec<String> {
        self.store.versions().lock().by_name().map(|(name, _)| name.to_owned()).collect()
    }

    /// Splits `tree` at the key `at`: its keys from `at` on move to a new tree called `name`, which has the same
    /// options and tag. `tree` keeps the keys before `at`. No table is rewritten, however large the tree is: both trees
    /// share the files that hold keys of both, until merges rewrite them.
    ///
    /// Handles of `tree` stay valid. A write of a key from `at` on through such a handle fails with `KeyMoved`. A
    /// [`Tree::delete_range`] that reaches beyond `at` deletes only the keys before `at` and succeeds. So a program
    /// that deletes ranges while another thread splits the tree compares its range with [`Tree::key_range`] afterwards.
    /// Snapshots and scans that began before the split continue to see one tree through its handle. Writes to `tree`
    /// wait while the split flushes recent writes and, if needed, while a merge of the tree ends. A transaction that
    /// has read a key that moves fails with a conflict.
    ///
    /// # Errors
    /// `AlreadyExists`; `InvalidInput` when `at` is not within the tree's bounds, or is its first key, or the tree is
    /// of another store; otherwise as [`Db::tree`] and [`Db::flush`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let users = db.tree("users")?;
    /// users.put("ada", "1")?;
    /// users.put("zoe", "2")?;
    /// let later = db.split(&users, "m", "users from m")?;
    /// assert_eq!(later.get_vec("zoe")?.as_deref(), Some(&b"2"[..]));
    /// assert!(!users.contains("zoe")? && users.put("zoe", "3").is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn split(&self, tree: &Tree, at: impl AsRef<[u8]>, name: &str) -> Result<Tree> {
        check_tree_name(name)?;
        self.store.disk().ensure_writable()?;
        let (inner, at) = (tree.inner(), at.as_ref());
        if inner.store != self.store.id() {
            return Err(Error::invalid("the tree belongs to another store"));
        }
        check_key(at)?;
        let new = self.store.reshaper().split(SplitAt { tree: inner, at, name })?;
        Ok(Tree::new(&self.store, new))
    }

    /// Makes a store in the directory `dir`, which must not exist yet, from the present state of the tree called
    /// `name`. Its files get second names there, so a large tree takes little time and no space. The two stores are
    /// independent. A shared file keeps its space until both stores have removed it. On another file system the files
    /// are copied.
    ///
    /// When this returns, the new store survives power loss. It can be opened like any store, or imported into others
    /// ([`Db::import_tree`]). A file that the tree shares with other trees is linked whole, so bytes of those trees
    /// stay in `dir`, though nothing shows them. Writes to the tree wait as for [`Db::split`]. If the tree was split,
    /// they also wait while its huge values are separated from those of its other half.
    ///
    /// # Errors
    /// `AlreadyExists`; `InvalidInput` when `dir` lies in the store's own directory; `NotFound` when there is no such
    /// tree; otherwise as [`Db::flush`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().expect("a temporary directory");
    /// let db = esker::Db::open(dir.path().join("store"), esker::Options::default())?;
    /// db.tree("users")?.put("ada", "1")?;
    /// db.export_tree("users", dir.path().join("users"))?;
    ///
    /// let other = esker::Db::open(dir.path().join("other"), esker::Options::default())?;
    /// let (users, files) = other.import_tree(dir.path().join("users"), "their users")?;
    /// assert_eq!(users.get_vec("ada")?.as_deref(), Some(&b"1"[..]));
    /// assert_eq!((files.files, files.copied_files), (1, 0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn export_tree(&self, name: &str, dir: impl AsRef<Path>) -> Result<TreeFiles> {
        self.store.disk().ensure_writable()?;
        crate::admin::checkpoint::check_outside(&self.store, dir.as_ref())?;
        crate::admin::export::export(&self.store, Whole::Tree(name), &[], dir.as_ref())
    }

    /// Makes a new tree called `name` from the only tree of the store in `dir`, with its options and its tag.
    /// [`Db::export_tree`] makes such a store. Any other store with one tree (an empty default tree does not count) can
    /// be imported too, if it was closed with nothing left in its log. `dir` is only read: it may be imported again,
    /// opened or removed.
    ///
    /// Values expire when they would have. Snapshots and transactions that began before do not see the tree: reading it
    /// fails with `Conflict`. [`Db::updates_since`] does not report the import.
    ///
    /// # Errors
    /// `AlreadyExists` when there is a tree called `name`; `NotFound` when there is no store in `dir`; `Locked` when it
    /// is open for writing; `InvalidInput` when it has several trees, writes in its log that are not in its tables,
    /// symbolic links, or entries that expire and a clock more than a day ahead of the time here; `Unsupported` when
    /// its numbers leave this store too few; `Corruption` when its files are damaged, or are not those that its
    /// manifest names; otherwise as [`Db::flush`]. After an error the store is as it was.
    pub fn import_tree(&self, dir: impl AsRef<Path>, name: &str) -> Result<(Tree, TreeFiles)> {
        check_tree_name(name)?;
        self.store.disk().ensure_writable()?;
        let (_, files) = crate::admin::import::import(&self.store, dir.as_ref(), As::Tree(name))?;
        Ok((Tree::new(&self.store, self.store.versions().lock().tree_called(name)?), files))
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
    pub fn scan(&self, range: impl Into<ScanRange>) -> Result<Scan> {
        self.default.scan(range)
    }

    // ---- batches, snapshots, durability --------------------------------------------------------------

    /// Applies `batch`, all or nothing, with the store's default durability.
    ///
    /// # Errors
    /// `InvalidInput` when it holds a tree of another store, or has 4 GiB or more in the log with the pointers to huge
    /// values; otherwise as [`Tree::put`].
    pub fn write(&self, batch: &Batch) -> Result<WriteToken> {
        self.write_with(batch, self.store.options().durability)
    }

    /// Like [`Db::write`], with the given durability.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn write_with(&self, batch: &Batch, durability: Durability) -> Result<WriteToken> {
        self.store.writes().write_placed(batch, durability).map(|placed| WriteToken::new(&self.store, placed))
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// `Closed` when the store is closed.
    pub fn begin(&self, options: TxnOptions) -> Result<Txn> {
        Txn::begin(&self.store, &self.locks, options)
    }

    /// Runs `work` in a transaction and commits it. `work` may fail with an error of any type, which rolls the
    /// transaction back.
    ///
    /// It is repeated, at most 64 times, with pauses of at most 13 ms, if the commit fails with `Conflict`, or if `work`
    /// fails and the last call of the transaction that failed did so with `Conflict`, `Deadlock` or `SnapshotTooOld`. So
    /// `work` may run several times, and should have no other effects that matter if it runs again: in `work`, write
    /// through the transaction alone, not through a [`Tree`]. The closure's error type has to be named, as here: from `?`
    /// alone the compiler cannot tell it.
    ///
    /// # Errors
    /// Those of `work` and of [`Txn::commit`] in the last try.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let stock = db.tree("stock")?;
    /// stock.put("screws", [9])?;
    /// let order = |screws: u8| {
    ///     db.transact(esker::TxnOptions::default(), |txn| -> Result<u8, Box<dyn std::error::Error>> {
    ///         let count = txn.get_vec(&stock, "screws")?.map_or(0, |value| value[0]);
    ///         let left = count.checked_sub(screws).ok_or("so many are not there")?;
    ///         txn.put(&stock, "screws", [left])?;
    ///         txn.put(&stock, "orders/1", [screws])?;
    ///         Ok(left)
    ///     })
    /// };
    /// assert_eq!(order(1).ok(), Some(8));
    /// assert_eq!(order(10).unwrap_err().to_string(), "so many are not there");
    /// # Ok(())
    /// # }
    /// ```
    pub fn transact<T, E: From<Error>>(
        &self,
        options: TxnOptions,
        work: impl FnMut(&Txn) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        Txn::transact(&self.store, &self.locks, options, work)
    }

    /// The whole store at this moment.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(&self.store)
    }

    /// Makes all acknowledged writes survive power loss. This writes tables for what trees without the log
    /// ([`TreeOptions::log`]) hold in memory.
    ///
    /// # Errors
    /// `Poisoned` when the disk failed: reopen the store; `OutOfSpace` when there is no room for such tables.
    pub fn sync(&self) -> Result<()> {
        self.store.log().check_changeable()?;
        let sync = || {
            self.store.log().sync_published()?;
            self.store.flusher().flush_volatile()
        };
        let metrics = self.store.metrics();
        metrics.measure(Operation::Sync, Subject::none, || {
            perf_context::waiting(&*metrics.clock, Cause::Sync, sync)
        })
    }

    /// The writes with sequence numbers greater than `sequence` ([`Snapshot::sequence`](crate::Snapshot::sequence),
    /// [`Update::sequence`](crate::updates::Update::sequence)), in order, and all later ones. They are read from the
    /// log, as far back as it reaches ([`Options::log_history`](crate::Options::log_history)). Writes to trees that
    /// skip the log are missing, and so are ingested tables. A tree that is created, split or dropped shows only by the
    /// changes of its keys. A merge may show as a put of its result.
    ///
    /// After a power cut the store may give the numbers of lost writes to other writes. A copy that has the lost writes
    /// does not notice. To prevent that, follow with [`Updates::durable`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// use esker::updates::What;
    /// db.put("a", "1")?;
    /// let copied = db.snapshot();
    /// db.put("b", "2")?;
    /// let mut updates = db.updates_since(copied.sequence())?;
    /// while let Some(update) = updates.next()? {
    ///     for change in update.changes {
    ///         if let What::Put(key, value) = change.what {
    ///             assert_eq!((&key[..], &value.bytes()?[..]), (&b"b"[..], &b"2"[..]));
    ///         }
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NotFound` when the log does not reach back that far, `InvalidInput` when the store has not reached `sequence`,
    /// `Corruption` when the log is damaged, `ReadOnly`, `Closed`, `Io`.
    pub fn updates_since(&self, sequence: u64) -> Result<Updates> {
        Updates::open(&self.store, sequence)
    }

    // ---- care ----------------------------------------------------------------------------------------

    /// Writes the content of the memtables into tables.
    ///
    /// # Errors
    /// `Io` or `OutOfSpace`; the data stays in the log and in memory.
    pub fn flush(&self) -> Result<()> {
        self.store.flusher().flush()
    }

    /// Flushes, merges each tree into one sorted run, and drops what no reader can see any more. Returns when the space
    /// is free.
    ///
    /// # Errors
    /// As [`Db::flush`], and `Corruption` when a table cannot be read.
    pub fn compact(&self) -> Result<()> {
        self.store.log().check_changeable()?;
        self.store.compactor().compact()
    }

    /// Empties the buffer pool, so that the next reads go to the files. Counts of hits and misses continue. Use it to
    /// measure cold reads; the system's page cache keeps its content.
    pub fn clear_cache(&self) {
        self.store.pool().clear();
    }

    /// Makes a copy of the current store in the directory `dir`, which must not exist yet, while others read and write.
    /// Tables are shared by hard link and the log is copied. This takes little space and time. `dir` must be on the
    /// same file system.
    ///
    /// # Errors
    /// `InvalidInput` when `dir` lies in the store's own directory; `AlreadyExists`, `Io`, `OutOfSpace`.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.store.disk().ensure_writable()?;
        crate::admin::checkpoint::check_outside(&self.store, dir.as_ref())?;
        crate::admin::checkpoint::checkpoint(&self.store, dir.as_ref()).map(drop)
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
        self.store.disk().ensure_writable()?;
        crate::admin::checkpoint::check_outside(&self.store, dir.as_ref())?;
        crate::admin::backup::backup(&self.store, dir.as_ref())
    }

    /// The directory of the store.
    pub fn path(&self) -> &Path {
        self.store.dir()
    }

    /// Does one step of background work in `job`, for stores whose [`Env::executor`] is stepped; `false` if there is
    /// nothing to do.
    #[cfg(any(test, feature = "testing"))]
    pub fn step(&self, job: JobKind) -> bool {
        self.store.run_one(job)
    }
}
