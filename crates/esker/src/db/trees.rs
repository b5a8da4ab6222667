//! Trees: to open, create, drop, split, export and import.

use std::path::Path;
use std::sync::Arc;

use super::Db;
use crate::admin::TreeFiles;
use crate::admin::import::As;
use crate::error::{Error, ErrorKind, Result};
use crate::open::DEFAULT_TREE;
use crate::options::{TreeOptions, check_name};
use crate::read::range::ScanRange;
use crate::read::scan::Scan;
use crate::store::{SplitAt, Whole};
use crate::tree::{Tree, check_tag};
use crate::typed::{KeyCodec, TypedTree, ValueCodec, tag_of};
use crate::value::Value;
use crate::write::batch::check_key;

pub(super) fn check_tree_name(name: &str) -> Result<()> {
    check_name("tree", name)
}

/// Trees.
impl Db {
    /// The tree called `name`, created with default options when it is missing.
    ///
    /// # Errors
    /// `InvalidInput` for a name that is empty or longer than 255 bytes; `ReadOnly`; `Io`.
    pub fn tree(&self, name: &str) -> Result<Tree> {
        self.tree_with(name, TreeOptions::default())
    }

    /// The tree called `name`, created with `options` when it is missing. An existing tree keeps its options:
    /// [`Tree::options`] returns them, [`Tree::set_options`] changes them, and [`Db::create_tree`] fails instead.
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

    /// The tree called `name` with typed keys and values, created with default options when it is missing. A tree that
    /// this creates gets a tag ([`Tree::tag`]) that names the types. The command line shows keys by it.
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
    /// As [`Db::tree`], and `InvalidInput` when the tree's tag names another type for its keys or its values
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

    /// The tree called `name`, if it exists.
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
    /// Handles of `tree` stay valid. A write of a key from `at` on through such a handle fails with `KeyMoved`. A call
    /// that would do nothing because the key seems absent, for example [`Tree::rename`], fails in the same way. A
    /// [`Tree::delete_range`] that reaches beyond `at` deletes only the keys before `at` and succeeds. Therefore a
    /// program that deletes ranges while another thread splits the tree must compare its range with [`Tree::key_range`]
    /// afterwards. Snapshots and scans that
    /// began before the split continue to see one tree through its handle. Writes to `tree` wait while the split flushes
    /// recent writes and, if needed, while a merge of the tree ends. A transaction that has read a key that moves fails
    /// with a conflict.
    ///
    /// # Errors
    /// `AlreadyExists`; `InvalidInput` when `at` is not within the tree's bounds, or is its first key, or the tree
    /// belongs to another store; otherwise as [`Db::tree`] and [`Db::flush`].
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
    /// `name`. Its files get second names there. Therefore a large tree takes little time and no space. The two stores
    /// are independent. A shared file keeps its space until both stores have removed it. On another file system the
    /// files are copied.
    ///
    /// When this returns, the new store survives power loss. It can be opened like any store, or imported into others
    /// ([`Db::import_tree`]). A file that the tree shares with other trees is linked whole. Therefore bytes of those
    /// trees stay in `dir`, though nothing shows them. Writes to the tree wait as for [`Db::split`]. If the tree was
    /// split, they also wait while its huge values are separated from those of its other half.
    ///
    /// # Errors
    /// `AlreadyExists`; `InvalidInput` when `dir` lies in the store's own directory; `NotFound` when the tree does not
    /// exist; otherwise as [`Db::flush`].
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
        if self.store.is_read_only() {
            crate::admin::checkpoint::check_outside(&self.store, dir.as_ref())?;
            return crate::admin::export::export_at_rest(&self.store, name, dir.as_ref());
        }
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
    /// `AlreadyExists` when a tree called `name` exists; `NotFound` when `dir` is not a store; `Locked` when it is open
    /// for writing; `InvalidInput` when it has several trees, writes in its log that are not in its tables, symbolic
    /// links, or entries that expire and a clock more than a day ahead of the time here; `Unsupported` when its numbers
    /// leave this store too few; `Corruption` when its files are damaged, or are not those that its manifest names;
    /// otherwise as [`Db::flush`]. After an error the store is unchanged.
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
}
