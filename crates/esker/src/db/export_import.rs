//! Export and import of trees.

use std::path::Path;

use super::{Db, check_tree_name};
use crate::admin::TreeFiles;
use crate::error::Result;
use crate::tree::Tree;

impl Db {
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
        self.store.ensure_writable()?;
        crate::admin::checkpoint::check_outside(&self.store, dir.as_ref())?;
        crate::admin::export::export(&self.store, name, dir.as_ref())
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
        self.store.ensure_writable()?;
        let (tree, files) = crate::admin::import::import(&self.store, dir.as_ref(), name)?;
        Ok((Tree::new(&self.store, tree), files))
    }
}
