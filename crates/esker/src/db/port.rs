//! Trees that leave for a store of their own, and come from one.

use std::path::Path;

use super::{Db, check_tree_name};
use crate::care::TreeFiles;
use crate::error::Result;
use crate::tree::Tree;

impl Db {
    /// Makes a store in the directory `dir`, which must not exist yet, of the tree called `name`, as it is now. Its files
    /// get second names there: a large tree takes little time and no space. Either store goes on by itself; a file that
    /// both have keeps its bytes until both have let it go. On another file system the files are copied.
    ///
    /// When this returns, the new store survives power loss. It can be opened as any, or imported into others
    /// ([`Db::import_tree`]). Files that the tree shares with others come along whole, so that bytes of these stay in
    /// `dir`, though nothing shows them. Writes to the tree wait as for [`Db::split`], and while huge values of one that was
    /// split are told from those of its other half.
    ///
    /// # Errors
    /// `AlreadyExists`; `InvalidInput` when `dir` lies in the store's own directory; `NotFound` when there is no such tree;
    /// otherwise as [`Db::flush`].
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
        self.store.ensure_writable()?;
        crate::care::checkpoint::check_outside(&self.store, dir.as_ref())?;
        crate::care::export::export(&self.store, name, dir.as_ref())
    }

    /// Makes a new tree called `name` of the only tree of the store in `dir`, with its options and its tag: one that
    /// [`Db::export_tree`] has made, or any with one tree (an empty default tree does not count) that was closed with nothing
    /// left in its log. `dir` is only read: it may be imported again, opened or removed.
    ///
    /// Values go on expiring when they would have. Snapshots and transactions that began before do not see the tree: reading
    /// it fails with `Conflict`. [`Db::updates_since`] does not tell of it.
    ///
    /// # Errors
    /// `AlreadyExists` when there is a tree called `name`; `NotFound` when there is no store in `dir`; `Locked` when it is
    /// open for writing; `InvalidInput` when it has several trees, a log that is not in its tables, symbolic links, or a clock a day
    /// ahead of the time here and entries that expire; `Unsupported` when its
    /// numbers leave this store too few; `Corruption` when its files are not what they should be; otherwise as
    /// [`Db::flush`]. The store is as it was then.
    pub fn import_tree(&self, dir: impl AsRef<Path>, name: &str) -> Result<(Tree, TreeFiles)> {
        check_tree_name(name)?;
        self.store.ensure_writable()?;
        let (tree, files) = crate::care::import::import(&self.store, dir.as_ref(), name)?;
        Ok((Tree::new(&self.store, tree), files))
    }
}
