//! Calls for threads that serve many clients: they fail instead of waiting.

use super::Db;
use crate::error::{Error, Result};
use crate::fs::no_wait;
use crate::store::{Owner, Placed};
use crate::write::batch::Batch;

/// A write that was made: [`Db::is_durable`] returns whether it survives power loss.
#[derive(Debug, Clone)]
pub struct WriteToken {
    /// The opened store that it belongs to.
    store: u64,
    placed: Placed,
}

impl WriteToken {
    pub(super) fn new(store: &Owner, placed: Placed) -> WriteToken {
        WriteToken { store: store.id(), placed }
    }
}

/// Runs `reads`, in which no call waits for the disk: a read, scan or cursor step that would have to wait fails with
/// [`ErrorKind::NeedsIo`](crate::ErrorKind) instead. [`Tree::get_cached`](crate::Tree::get_cached) is this for one read.
/// It holds for this thread, and not for writes.
///
/// This lets a thread that serves many clients do the reads that memory can answer, and leave the rest to other
/// threads.
///
/// # Example
/// ```
/// # fn main() -> esker::Result<()> {
/// # let db = esker::Db::open_in_memory(esker::Options::default())?;
/// use esker::ErrorKind;
/// let tree = db.default_tree();
/// tree.put("ada", "1")?;
/// let count = match esker::without_io(|| tree.count(..)) {
///     Err(error) if error.kind() == ErrorKind::NeedsIo => tree.count(..)?, // on another thread
///     counted => counted?,
/// };
/// assert_eq!(count, 1);
/// # Ok(())
/// # }
/// ```
pub fn without_io<T>(reads: impl FnOnce() -> T) -> T {
    no_wait::without_io(reads)
}

impl Db {
    /// Writes `batch` as [`Db::write`] does with [`Durability::Process`](crate::Durability::Process), but refuses a
    /// batch that would have to wait for a flush, a merge, a log segment, a file or another call. It still waits for
    /// the writes in front of it, and for the commit lock when its memtable is full: that takes microseconds, unless
    /// the system takes the processor away from one of them.
    ///
    /// This lets one thread acknowledge thousands of writers: it writes their batches, calls [`Db::request_sync`] once,
    /// and acknowledges each when [`Db::is_durable`] returns `true` for its token. A [`Listener`](crate::Listener) is
    /// told about syncs, and when a refused batch may be tried again.
    ///
    /// # Errors
    /// `Busy` when it would have to wait: [`Error::busy`](crate::Error::busy) returns the reason. `NeedsIo` when the
    /// batch has huge values that are in no file yet: stage them ([`Staging`](crate::Staging)), or write the batch on
    /// another thread. `OutOfSpace` on a full disk also for deletes for which [`Db::write`] would first make room.
    /// Otherwise as [`Db::write`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// use std::sync::mpsc;
    /// use esker::{Batch, Db, Listener, Options};
    ///
    /// struct Wake(mpsc::Sender<()>);
    /// impl Listener for Wake {
    ///     fn synced(&self) {
    ///         let _ = self.0.send(());
    ///     }
    /// }
    ///
    /// let (wake, woken) = mpsc::channel();
    /// let db = Db::open_in_memory(Options::default().listener(Wake(wake)))?;
    /// let mut waiting = Vec::new();
    /// for client in 0..1000_u32 {
    ///     let mut batch = Batch::new();
    ///     batch.put(db.default_tree(), client.to_be_bytes(), "its value")?;
    ///     waiting.push((client, db.try_write(&batch)?));
    /// }
    /// db.request_sync();
    /// while !waiting.is_empty() {
    ///     woken.recv().expect("the store is open");
    ///     waiting.retain(|(_client, token)| !db.is_durable(token).expect("the disk works"));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_write(&self, batch: &Batch) -> Result<WriteToken> {
        self.store.writes().try_write(batch).map(|placed| WriteToken::new(&self.store, placed))
    }

    /// Whether a write survives power loss. It never sleeps. For trees without the log, that is when they are flushed.
    ///
    /// # Errors
    /// `Poisoned` when the store has failed: the write may never be durable. `TreeDropped` when a tree without the log was
    /// dropped before its write was flushed. `InvalidInput` when the write was made by
    /// another store, or an earlier opening of this one.
    pub fn is_durable(&self, token: &WriteToken) -> Result<bool> {
        if token.store != self.store.id() {
            return Err(Error::invalid(
                "the write was made by another store, or an earlier opening of this one",
            ));
        }
        let is_durable = match &token.placed.unlogged {
            Some((tree, seq)) if tree.flushed_up_to() >= *seq => true,
            Some((tree, _)) if tree.is_dropped() => return Err(tree.dropped_error()),
            Some(_) => false,
            None => self.store.log().wal().synced() >= token.placed.end,
        };
        if !is_durable {
            self.store.log().check_changeable()?;
        }
        Ok(is_durable)
    }

    /// Makes the background sync everything that was written to the log before, and returns immediately. Requests that
    /// come during a sync share the next one. The listener is told about the end
    /// ([`Listener::synced`](crate::Listener::synced)).
    pub fn request_sync(&self) {
        self.store.log().request_sync();
    }
}
