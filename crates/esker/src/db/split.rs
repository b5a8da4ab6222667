//! Trees that become two.

use super::{Db, check_tree_name};
use crate::error::{Error, ErrorKind, Result};
use crate::tree::Tree;
use crate::write::batch::check_key;

impl Db {
    /// Splits `tree` at the key `at`: its keys from there on become a tree of their own, called `name`, with the same options
    /// and tag; `tree` keeps those before. No table is written anew, however large the tree is: both trees share the files that
    /// hold keys of both, until merges have come by.
    ///
    /// Handles of `tree` go on; what they write from `at` on is refused with `InvalidInput`, and a range that reaches beyond
    /// `at` is deleted up to there: who deletes ranges while others split looks at
    /// [`Tree::range`] afterwards. Snapshots and scans that began
    /// before go on seeing one tree through its handle. Writes to `tree` wait for what has been written meanwhile to be
    /// flushed, and, if need be, for a merge of the tree. Transactions that have read what moves conflict.
    ///
    /// # Errors
    /// `AlreadyExists`; `InvalidInput` when `at` is not within the tree's bounds, or is its first key, or the tree is of another
    /// store; otherwise as [`Db::tree`] and [`Db::flush`].
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
        self.store.check_writable()?;
        let (inner, at) = (tree.inner(), at.as_ref());
        if inner.store != self.store.id {
            return Err(Error::new(ErrorKind::InvalidInput, "the tree is of another store"));
        }
        check_key(at)?;
        let new = self.store.split(inner, at, name)?;
        Ok(Tree::new(&self.store, new))
    }
}
