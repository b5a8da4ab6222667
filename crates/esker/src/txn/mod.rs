//! Transactions: several reads and writes that take effect together, or not at all.
//!
//! ```text
//! begin     a read point is registered, so that merges keep the numbers of newer versions
//! get, scan own writes first, then the store at the read point; noted in the read set
//! put       into the write set, in memory
//! commit    read set (and write set) checked against the writes since then ..... no lock of the store
//!           the batch is encoded, huge values go into blob files ............... no lock
//!           no write is under way; the latest writes are checked ............... commit lock, quiet
//!           the batch is written like any other ................................ as any other
//! ```
//!
//! - A transaction that writes takes effect at one place in the sequence of all writes. At that place, everything that
//!   it relies on is as it has read it. This is backward validation (Kung and Robinson, "On Optimistic Methods for
//!   Concurrency Control", 1981). A write outside transactions counts as its own transaction.
//! - A serializable transaction relies on every key and range that it has read, absent keys included. Under snapshot
//!   isolation it relies on the keys that it writes ("the first committer wins": Berenson and others, "A Critique of ANSI
//!   SQL Isolation Levels", 1995, section 4.2) and on its reads for update.
//! - Pessimistic transactions also take locks: [`locks`]. Serializable ones lock everything they read and read the
//!   newest value, which no other transaction can change before they end (strict two-phase locking). Under snapshot
//!   isolation they lock the keys that they write or read for update. The check at commit stays: writers outside
//!   transactions and optimistic transactions take no locks, and a lock does not stop time. Among pessimistic
//!   transactions alone, only an expiry can make the check fail.
//! - The passing of time counts as a write. A transaction has one time for all its reads. A value that has expired
//!   since then counts as changed when the transaction commits ([`crate::read::snapshots`]).
//! - A merge into a key is a write that reads nothing. It applies to the value that the key has when the transaction
//!   takes effect. The transaction's own reads find it applied to the value at its read point, and rely on that value.
//! - A transaction that writes nothing reads at one read point and needs no check. Serializable pessimistic ones are
//!   the exception: they may conflict because something has expired.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::canary::broken;
use crate::error::{Error, ErrorKind, Result, shown};
use crate::operators::MergeOperators;
use crate::ranges::KeyRange;
use crate::store::Owner;
use crate::trace::{Operation, Subject, perf_context};
use crate::tree::{Snapshot, Tree};
use crate::version::edit::TreeId;

// These first: the documentation shows methods in the order of the modules.
mod reads;

mod writes;

mod conditional;
mod locks;
mod options;
mod range;
mod read_set;
mod scan;
#[cfg(test)]
mod tests;
mod write_set;

pub(crate) use locks::LockTable;
use locks::{LockMode, Locks, Outcome};
pub use options::{Isolation, TxnMode, TxnOptions};
pub use range::TxnRange;
use read_set::{ReadSet, Validation, expired};
use scan::Reading;
pub use scan::TxnScan;
pub use write_set::Savepoint;
use write_set::WriteSet;

const TRIES_MAX: u32 = 64;
/// The longest pause after the first try, in microseconds. It doubles with each try, up to [`PAUSE_US_MAX`].
const PAUSE_US: u64 = 50;
const PAUSE_US_MAX: u64 = 12_800;

/// Several reads and writes, over any trees of a store, that take effect together or not at all.
/// [`Db::begin`](crate::Db::begin) begins one; [`Db::transact`](crate::Db::transact) also repeats it if another write
/// conflicts. Dropping a transaction rolls it back. A transaction may move between threads, but only one thread has it
/// at a time. A thread with two pessimistic transactions may wait for itself until the time-out.
///
/// Only the methods of `Txn` take part in it. A write of the thread through a [`Tree`] or a [`Db`](crate::Db) takes
/// effect immediately, a rollback does not undo it, and the transaction conflicts with it as with any other write.
///
/// Reads see the transaction's own writes, and otherwise the store as it was when the transaction began. Pessimistic
/// transactions differ: their read point is that of the last lock before the first read; serializable ones read the
/// newest values, and their locks keep these unchanged. All reads use the time of that read point. A value that was
/// read and has expired at commit counts as changed, and the transaction conflicts as with another writer.
///
/// Until the commit everything is in memory, and not part of the store's memory budget: keys and values that are
/// written (huge ones too), keys that are read, bounds of scans, locks. Like a batch, a transaction holds less than 4
/// GiB. Values from [`Options::separate_at`](crate::Options::separate_at) on do not count: they go to their own files
/// at commit. An open transaction keeps old versions on the disk, as a snapshot does.
///
/// # Example
/// ```
/// use esker::{Db, ErrorKind, Options, TxnOptions};
///
/// # fn main() -> esker::Result<()> {
/// let db = Db::open_in_memory(Options::default())?;
/// let accounts = db.tree("accounts")?;
/// accounts.put("ann", "7")?;
/// accounts.put("bob", "0")?;
///
/// let txn = db.begin(TxnOptions::default())?;
/// if txn.get_vec(&accounts, "ann")?.as_deref() == Some(b"7") {
///     txn.put(&accounts, "ann", "0")?;
///     txn.put(&accounts, "bob", "7")?;
/// }
/// accounts.put("ann", "5")?; // somebody else, meanwhile
/// assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::Conflict);
/// assert_eq!(accounts.get_vec("bob")?.as_deref(), Some(&b"0"[..]));
/// # Ok(())
/// # }
/// ```
pub struct Txn {
    store: Arc<Owner>,
    options: TxnOptions,
    inner: RefCell<Inner>,
    /// Whether the last call that failed did so because of other transactions or writes.
    hindered: Cell<bool>,
    /// Dropped last, after the commit.
    locks: Locks,
}

impl fmt::Debug for Txn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Txn").field("options", &self.options).finish_non_exhaustive()
    }
}

struct Inner {
    /// Everything that the transaction relies on was read at this read point or later.
    snapshot: Snapshot,
    /// Whether the read point is fixed. Before that a lock moves it forward.
    is_fixed: bool,
    reads: ReadSet,
    writes: WriteSet,
    /// The times at which trees are read that take theirs from their writes.
    times: BTreeMap<TreeId, u64>,
}

/// Whether a transaction that failed with `error` may succeed when it is repeated. A transaction that waited for a lock
/// in vain has waited long enough.
fn is_transient(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Deadlock | ErrorKind::SnapshotTooOld)
}

impl Txn {
    pub(crate) fn begin(store: &Arc<Owner>, locks: &Arc<LockTable>, options: TxnOptions) -> Result<Txn> {
        store.check_open()?;
        let inner = Inner {
            snapshot: Snapshot::new(store),
            is_fixed: options.mode == TxnMode::Optimistic,
            reads: ReadSet::default(),
            writes: WriteSet::default(),
            times: BTreeMap::new(),
        };
        let (store, locks) = (Arc::clone(store), Locks::new(locks));
        Ok(Txn { store, options, inner: RefCell::new(inner), hindered: Cell::new(false), locks })
    }

    /// Runs `work` in transactions until one commits or fails with an error that a retry cannot help.
    pub(crate) fn transact<T, E: From<Error>>(
        store: &Arc<Owner>,
        locks: &Arc<LockTable>,
        options: TxnOptions,
        mut work: impl FnMut(&Txn) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let mut tries = 0;
        loop {
            let txn = Txn::begin(store, locks, options)?;
            tries += 1;
            let (error, retry) = match work(&txn) {
                Ok(made) => match txn.commit() {
                    Ok(()) => return Ok(made),
                    Err(error) => {
                        let retry = is_transient(&error);
                        (error.into(), retry)
                    }
                },
                // The work may have turned the error of a call into any other. Therefore the transaction remembers the
                // cause.
                Err(error) => (error, txn.hindered.get()),
            };
            if tries == TRIES_MAX || !retry {
                return Err(error);
            }
            // A random time prevents two conflicting transactions from meeting again.
            let longest = (PAUSE_US << (tries - 1).min(16)).min(PAUSE_US_MAX);
            let pause = store.env().random.next_u64() % (longest + 1);
            store.env().clock.sleep(Duration::from_micros(pause));
        }
    }

    /// Notes whether a retry may help against the error of a call.
    fn noted<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.hindered.set(is_transient(error));
        }
        result
    }

    fn is_pessimistic(&self) -> bool {
        self.options.mode == TxnMode::Pessimistic
    }

    fn is_serializable(&self) -> bool {
        self.options.isolation == Isolation::Serializable
    }

    fn operators(&self) -> &MergeOperators {
        &self.store.options().merge_operators
    }

    /// Takes a lock. If it has to wait, the wait counts as an operation.
    fn lock(&self, tree: &Tree, keys: KeyRange, mode: LockMode) -> Result<()> {
        let what = keys.only_key().map_or("a range".to_owned(), |key| format!("key {}", shown(key)));
        let (timeout, clock) = (self.options.lock_timeout, &*self.store.env().clock);
        perf_context::begin();
        let outcome = self.locks.take(tree.inner().id, keys, mode, timeout, clock);
        if perf_context::are_there() {
            let metrics = self.store.metrics();
            metrics.count(Operation::Lock);
            metrics.end(Operation::Lock, || Subject::of(tree.name(), &[]));
        }
        let name = tree.name();
        match outcome {
            Outcome::Held | Outcome::HeldBefore => {}
            Outcome::Deadlock => {
                let message = format!(
                    "waiting for the lock on {what} of tree \"{name}\" would close a cycle of transactions \
                     that wait for each other; roll this one back"
                );
                return Err(Error::new(ErrorKind::Deadlock, message));
            }
            Outcome::TimedOut => {
                let message = format!(
                    "another transaction has kept {what} of tree \"{name}\" locked for more than {} ms",
                    timeout.as_millis()
                );
                return Err(Error::new(ErrorKind::LockTimeout, message));
            }
        }
        let mut inner = self.inner.borrow_mut();
        if !inner.is_fixed {
            // Changes made while this transaction waited must not count as conflicts.
            inner.snapshot = Snapshot::new(&self.store);
        }
        Ok(())
    }

    /// Remembers this point, for [`Txn::rollback_to`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// # let tree = db.default_tree();
    /// let txn = db.begin(esker::TxnOptions::default())?;
    /// txn.put(tree, "a", "1")?;
    /// let before = txn.savepoint();
    /// txn.put(tree, "b", "2")?;
    /// txn.rollback_to(before)?;
    /// txn.commit()?;
    /// assert!(tree.contains("a")? && !tree.contains("b")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn savepoint(&self) -> Savepoint {
        self.inner.borrow_mut().writes.savepoint(self.locks.owner())
    }

    /// Undoes all writes since `savepoint`. The savepoint itself stays; later ones are discarded. Reads since then
    /// still count, because the caller knows their results. Locks are kept.
    ///
    /// # Errors
    /// `InvalidInput` when the savepoint belongs to another transaction or was discarded.
    pub fn rollback_to(&self, savepoint: Savepoint) -> Result<()> {
        if savepoint.txn != self.locks.owner() {
            return Err(Error::invalid("the savepoint belongs to another transaction"));
        }
        self.inner.borrow_mut().writes.rollback_to(savepoint)
    }

    /// Writes everything atomically, if nothing that the transaction relies on was changed. Then it releases the locks.
    ///
    /// # Errors
    /// `Conflict` when another write came first: nothing was written, and the message names the key. Otherwise as
    /// [`Db::write`](crate::Db::write).
    pub fn commit(self) -> Result<()> {
        self.commit_at().map(drop)
    }

    /// Undoes everything, as dropping the transaction does.
    pub fn rollback(self) {}

    /// Commits. If the transaction wrote anything, returns its place among all writes: a position in the log.
    pub(crate) fn commit_at(self) -> Result<Option<u64>> {
        let Inner { snapshot, reads, writes, .. } = &*self.inner.borrow();
        let written = (!self.is_serializable()).then_some((writes, snapshot.seq()));
        let validation = Validation { reads, written };
        let lapse = reads.first_lapse(writes);
        if writes.is_empty() {
            // All reads are of one moment, except reads of values that locks kept unchanged.
            if self.is_pessimistic() && self.is_serializable() {
                let now = Snapshot::for_one_call(&self.store);
                validation.check(0)?;
                if let Some((expiry, tree, key)) = lapse
                    && expiry <= now.time_us()
                {
                    return Err(expired(tree, key));
                }
            }
            return Ok(None);
        }
        let durability = self.options.durability.unwrap_or(self.store.options().durability);
        if validation.is_empty() {
            return self.store.writes().write_if(&writes.to_batch()?, durability, None);
        }
        // Everything up to here is in the memtables. Therefore the check sees it.
        let seen = self.store.commit().visible();
        validation.check(0)?;
        let batch = writes.to_batch()?;
        let lasting = self.store.log().lasting(lapse.map(|(expiry, ..)| expiry));
        let unchanged = || {
            if !broken("txn-atomic") {
                validation.check(seen)?;
            }
            if let Some((tree, key)) = reads.lapsed(writes) {
                return Err(expired(tree, key));
            }
            match lapse {
                Some((_, tree, key)) if !lasting.holds() => Err(expired(tree, key)),
                _ => Ok(true),
            }
        };
        self.store.writes().write_if(&batch, durability, Some(&unchanged))
    }
}
