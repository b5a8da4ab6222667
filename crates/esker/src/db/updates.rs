//! Following the changes of a store.

use super::Db;
use crate::error::Result;
use crate::updates::Updates;

impl Db {
    /// The writes with sequence numbers greater than `sequence` ([`Snapshot::sequence`](crate::Snapshot::sequence),
    /// [`Update::sequence`](crate::Update::sequence)), in order, and all later ones. They are read from the log, as far
    /// back as it reaches ([`Options::log_history`](crate::Options::log_history)). Writes to trees that skip the log
    /// are missing, and so are ingested tables. A tree that is created, split or dropped shows only by the changes of
    /// its keys. A merge may show as a put of its result.
    ///
    /// After a power cut the store may give the numbers of lost writes to other writes. A copy that has the lost writes
    /// does not notice. To prevent that, follow with [`Updates::durable`].
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
    /// `NotFound` when the log does not reach back that far, `InvalidInput` when the store has not reached `sequence`,
    /// `Corruption` when the log is damaged, `ReadOnly`, `Closed`, `Io`.
    pub fn updates_since(&self, sequence: u64) -> Result<Updates> {
        Updates::open(&self.store, sequence)
    }
}
