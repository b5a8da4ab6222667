//! Splits of trees.

use super::{Db, check_tree_name};
use crate::error::{Error, ErrorKind, Result};
use crate::tree::Tree;
use crate::write::batch::check_key;

impl Db {
    /// Splits `tree` at the key `at`: its keys from `at` on move to a new tree called `name`, which has the same
    /// options and tag. `tree` keeps the keys before `at`. No table is rewritten, however large the tree is: both trees
    /// share the files that hold keys of both, until merges rewrite them.
    ///
    /// Handles of `tree` stay valid. A write of a key from `at` on through such a handle fails with `InvalidInput`. A
    /// [`Tree::delete_range`] that reaches beyond `at` deletes only the keys before `at` and succeeds. So a program
    /// that deletes ranges while another thread splits the tree compares its range with [`Tree::range`] afterwards.
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
        self.store.ensure_writable()?;
        let (inner, at) = (tree.inner(), at.as_ref());
        if inner.store != self.store.id() {
            return Err(Error::new(ErrorKind::InvalidInput, "the tree belongs to another store"));
        }
        check_key(at)?;
        let new = self.store.split(inner, at, name)?;
        Ok(Tree::new(&self.store, new))
    }
}
