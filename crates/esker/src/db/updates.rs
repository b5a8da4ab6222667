//! Following what is written.

use super::Db;
use crate::error::Result;
use crate::updates::Updates;

impl Db {
    /// What was written behind moment `sequence` ([`Snapshot::sequence`](crate::Snapshot::sequence), [`Update::sequence`](crate::Update::sequence)), in
    /// order, and what is written from now on. It is read from the log: as far back as that reaches
    /// ([`Options::log_history`](crate::Options::log_history)). Trees that skip the log are not in it, nor is what is ingested; trees
    /// that are created, split or dropped show by the changes of their keys alone, and a merge may show as the put of what has
    /// come of it.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// use esker::What;
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
    /// `NotFound` when the log does not reach back so far, `InvalidInput` when the store has not come to `sequence`,
    /// `ReadOnly`, `Closed`, `Io`.
    pub fn updates_since(&self, sequence: u64) -> Result<Updates> {
        Updates::open(&self.store, sequence)
    }
}
