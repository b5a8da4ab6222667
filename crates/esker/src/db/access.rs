//! Batches, transactions, snapshots, and durability.

use super::{Db, WriteToken};
use crate::error::{Error, Result};
use crate::options::Durability;
use crate::trace::{Cause, Operation, Subject, perf_context};
use crate::tree::Snapshot;
use crate::txn::{Txn, TxnOptions};
use crate::updates::Updates;
use crate::write::batch::Batch;

/// Batches, transactions, snapshots, durability.
impl Db {
    /// Applies `batch`, all or nothing, with the store's default durability.
    ///
    /// # Errors
    /// `InvalidInput` when it holds a tree of another store, or when staged values bring it to 4 GiB or more in the
    /// log: everything else counts when it is added to the batch. Otherwise as [`Tree::put`](crate::Tree::put).
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
    /// It is repeated, at most 64 times, with pauses of at most 13 ms, if the commit fails with `Conflict`, or if
    /// `work` fails and the last call of the transaction that failed did so with `Conflict`, `Deadlock` or
    /// `SnapshotTooOld`. Therefore `work` may run several times, and should have no other effects that matter if it
    /// runs again: in `work`, write through the transaction alone, not through a [`Tree`](crate::Tree). The closure's
    /// error type has to be named, as here: the compiler cannot infer it from `?` alone.
    ///
    /// # Errors
    /// The errors of `work` and of [`Txn::commit`] in the last try.
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

    /// Makes all acknowledged writes survive power loss. This writes tables for the memtables of trees without the log
    /// ([`TreeOptions::log`](crate::TreeOptions::log)).
    ///
    /// # Errors
    /// `Poisoned` when the disk failed: reopen the store; `OutOfSpace` when the disk has no room for such tables.
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
}
