//! Reads that never wait for the disk.

use super::Tree;
use crate::error::Result;
use crate::fs::no_wait::without_io;
use crate::value::Value;

impl Tree {
    /// [`Tree::get`] if memory has the answer: memtables, filters, the buffer pool, or the system's page cache.
    /// Otherwise it fails, without a wait for the disk. A thread that serves many clients leaves such keys to other
    /// threads.
    ///
    /// A huge value is found but not read: reading it waits for the disk.
    ///
    /// # Errors
    /// `NeedsIo` when it would have to wait for a disk; otherwise as [`Tree::get`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// use esker::ErrorKind;
    /// let tree = db.default_tree();
    /// tree.put("ada", "1")?;
    /// let value = match tree.get_cached("ada") {
    ///     Err(error) if error.kind() == ErrorKind::NeedsIo => tree.get("ada")?, // on another thread
    ///     found => found?,
    /// };
    /// assert_eq!(value.expect("it was put").bytes()?[..], *b"1");
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_cached(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        without_io(|| self.get(key))
    }
}
