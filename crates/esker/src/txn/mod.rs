//! Transactions: several reads and writes that take effect together, or not at all.
//!
//! ```text
//! begin     a read point is registered, so that merges keep what shows whether anything is newer
//! get, scan own writes first, then the store at the read point; noted in the read set
//! put       into the write set, in memory
//! commit    read set (and write set) checked against what was written since .... no lock of the store
//!           the batch is encoded, huge values go into blob files ............... no lock
//!           no write is under way; what was written meanwhile is checked ....... commit lock, quiet
//!           the batch is written like any other ................................ as any other
//! ```
//!
//! - A transaction that writes takes effect at one place in the sequence of all writes. There, everything that it
//!   relies on is as it has read it. This is backward validation (Kung and Robinson, "On Optimistic Methods for
//!   Concurrency Control", 1981). A write outside transactions counts as a transaction of its own.
//! - A serializable transaction relies on every key and range that it has read, absent keys included. Under snapshot
//!   isolation it relies on what it writes ("the first committer wins": Berenson and others, "A Critique of ANSI SQL
//!   Isolation Levels", 1995, section 4.2) and on what it read for update.
//! - Pessimistic transactions also take locks: [`locks`]. Serializable ones lock everything they read and read the
//!   newest value, which no other transaction can change before they end (strict two-phase locking). Under snapshot
//!   isolation they lock what they write and what they read for update. The check at commit stays: writers outside
//!   transactions and optimistic transactions take no locks, and a lock does not stop time. Among pessimistic
//!   transactions alone, only an expiry can make the check fail.
//! - The passing of time counts as a write. A transaction has one time for all its reads. A value that has expired
//!   since then counts as changed when the transaction commits ([`crate::read::snapshots`]).
//! - A merge into a key is a write that reads nothing. It applies to whatever is there when the transaction takes
//!   effect. The transaction's own reads find it applied to the value at its read point, and rely on that value.
//! - A transaction that writes nothing reads at one read point and needs no check. Serializable pessimistic ones are
//!   the exception: they may conflict because something has expired.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::canary::broken;
use crate::cursor::Expiry;
use crate::env::us_at;
use crate::error::{Error, ErrorKind, Result, shown};
use crate::keys;
use crate::operators::{ADD, APPEND, MergeOperators};
use crate::ranges::KeyRange;
use crate::read::range::ScanRange;
use crate::store::Owner;
use crate::trace::{Operation, Subject, perf_context};
use crate::tree::{Snapshot, Tree};
use crate::value::{PutOptions, Value, check_attributes};
use crate::version::edit::TreeId;
use crate::write::batch::check_key;

mod conditional;
mod locks;
mod options;
mod range;
mod reads;
mod scan;
#[cfg(test)]
mod tests;
mod writes;

pub(crate) use locks::LockTable;
use locks::{LockMode, Locks, Outcome};
pub use options::{Isolation, TxnMode, TxnOptions};
pub use range::TxnRange;
use reads::{ReadSet, Validation, check_key_unchanged, expired};
use scan::Reading;
pub use scan::TxnScan;
pub use writes::Savepoint;
use writes::{KeyChange, WriteSet};

const TRIES_MAX: u32 = 64;
/// The longest pause after the first try, in microseconds. It doubles with each try, up to [`PAUSE_US_MAX`].
const PAUSE_US: u64 = 50;
const PAUSE_US_MAX: u64 = 12_800;

/// Several reads and writes, over any trees of a store, that take effect together or not at all.
/// [`Db::begin`](crate::Db::begin) begins one; [`Db::transact`](crate::Db::transact) also repeats it if another write
/// conflicts. Dropping a transaction rolls it back. A transaction may move between threads, but only one thread has it
/// at a time. A thread with two pessimistic transactions may wait for itself until the time-out.
///
/// Only the methods of `Txn` take part in it. What the thread writes meanwhile through a [`Tree`] or a
/// [`Db`](crate::Db) is written at once, a rollback does not undo it, and the transaction conflicts with it as with any
/// other write.
///
/// Reads see the transaction's own writes, and otherwise the store as it was when the transaction began. Pessimistic
/// transactions differ: their read point is that of the last lock before the first read; serializable ones read the
/// newest values, and their locks keep these unchanged. All reads use the time of that read point. A value that was
/// read and has expired at commit counts as changed, and the transaction conflicts as with another writer.
///
/// Until the commit everything is in memory, and not part of the store's memory budget: keys and values that are
/// written (huge ones too), keys that are read, bounds of scans, locks. Like a batch, a transaction holds less than 4
/// GiB. Values from [`Options::separate_at`](crate::Options::separate_at) on do not count: they go to files of their
/// own at commit. An open transaction keeps old versions on the disk, as a snapshot does.
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
    /// The last call that failed did so because of other transactions or writes.
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
    /// Whether the read point is fixed. Until then a lock moves it forward.
    is_fixed: bool,
    reads: ReadSet,
    writes: WriteSet,
    /// The times at which trees are read that take theirs from their writes.
    times: BTreeMap<TreeId, u64>,
}

/// Whether a transaction that failed with `error` may succeed when it is repeated. One that waited for a lock in vain has
/// waited long enough.
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
                // The work may have turned the error of a call into any other, so the transaction remembers the cause.
                Err(error) => (error, txn.hindered.get()),
            };
            if tries == TRIES_MAX || !retry {
                return Err(error);
            }
            // A random time, so that two conflicting transactions do not meet again.
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

    // ---- reading -------------------------------------------------------------------------------------

    /// The value of `key`.
    ///
    /// # Errors
    /// As [`Tree::get`]. `InvalidInput` when the tree belongs to another store. `Deadlock` and `LockTimeout` when a
    /// serializable pessimistic transaction does not get the lock. Its writes and locks are then unchanged, and it is
    /// best rolled back.
    pub fn get(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.noted(self.read_key(tree, key.as_ref(), false))
    }

    /// The bytes of the value of `key`.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn get_vec(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get(tree, key)?.map(Value::into_vec).transpose()
    }

    /// Calls `use_bytes` with the bytes of the value of `key`, and returns what it returns; `None` if the key is absent.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn get_with<T>(
        &self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        use_bytes: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        let Some(value) = self.get(tree, key)? else { return Ok(None) };
        Ok(Some(use_bytes(&value.bytes()?)))
    }

    /// The values of `keys`, in the order of the keys.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn get_many(
        &self,
        tree: &Tree,
        keys: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Result<Vec<Option<Value>>> {
        keys.into_iter().map(|key| self.get(tree, key)).collect()
    }

    /// Whether `key` has a value. This counts as a read of the value.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn contains(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(tree, key)?.is_some())
    }

    /// The value of `key`, protected as if the transaction wrote the key: if it writes anything, it commits only if no
    /// other write has changed the key. A pessimistic transaction first locks the key exclusively, so that of two
    /// transactions that read and then write it, the second waits.
    ///
    /// # Errors
    /// As [`Txn::get`]. `Conflict` when a pessimistic transaction under snapshot isolation has already read, and the
    /// key was changed since.
    pub fn get_for_update(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.noted(self.read_key(tree, key.as_ref(), true))
    }

    /// The pairs in `range`. Only the keys that the scan has passed count as read. A serializable pessimistic
    /// transaction locks the whole range against writers.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn scan(&self, tree: &Tree, range: impl Into<ScanRange>) -> Result<TxnScan<'_>> {
        self.noted(self.reading(tree, range.into(), false)?.into_scan())
    }

    /// The pairs in `range`, protected as by [`Txn::get_for_update`], absent keys included. A pessimistic transaction
    /// locks the whole range exclusively.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn scan_for_update(&self, tree: &Tree, range: impl Into<ScanRange>) -> Result<TxnScan<'_>> {
        self.noted(self.reading(tree, range.into(), true)?.into_scan())
    }

    /// The pairs in `range`, from either end or from both. Otherwise as [`Txn::scan`], which does less.
    ///
    /// # Errors
    /// As [`Txn::get`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let mails = db.tree("mails")?;
    /// mails.put("ann/1", "hello")?;
    /// mails.put("bob/1", "hello")?;
    /// let txn = db.begin(esker::TxnOptions::default())?;
    /// txn.put(&mails, "ann/2", "hello again")?;
    /// let newest = txn.prefix(&mails, "ann/")?.next_back().transpose()?;
    /// assert_eq!(newest, Some((b"ann/2".to_vec(), b"hello again".to_vec())));
    /// assert_eq!(txn.iter(&mails)?.count(), 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn range(&self, tree: &Tree, range: impl Into<ScanRange>) -> Result<TxnRange<'_>> {
        Ok(TxnRange::new(self.reading(tree, range.into(), false)?))
    }

    /// The pairs in `range`, from either end or from both, protected as by [`Txn::scan_for_update`].
    ///
    /// # Errors
    /// As [`Txn::get_for_update`].
    pub fn range_for_update(&self, tree: &Tree, range: impl Into<ScanRange>) -> Result<TxnRange<'_>> {
        Ok(TxnRange::new(self.reading(tree, range.into(), true)?))
    }

    /// All pairs: [`Txn::range`] of all keys.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn iter(&self, tree: &Tree) -> Result<TxnRange<'_>> {
        self.range(tree, ..)
    }

    /// The pairs whose keys begin with `prefix`: [`Txn::range`] of [`ScanRange::prefix`].
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn prefix(&self, tree: &Tree, prefix: impl AsRef<[u8]>) -> Result<TxnRange<'_>> {
        self.range(tree, ScanRange::prefix(prefix))
    }

    /// How many keys in `range` have a value, counted one by one. This counts as a read of the range.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn count(&self, tree: &Tree, range: impl Into<ScanRange>) -> Result<u64> {
        let mut scan = self.scan(tree, range.into().keys_only())?;
        let mut count = 0;
        while scan.advance()? {
            count += 1;
        }
        Ok(count)
    }

    /// The pair with the least key. It passes over the entries that were deleted before it, as [`Tree::pop_first`] does.
    /// The transaction has then read the keys up to this one. A serializable pessimistic
    /// one locks the whole tree against writers.
    ///
    /// # Errors
    /// As [`Txn::get`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let tree = db.default_tree();
    /// tree.put("bee", "6 legs")?;
    /// let txn = db.begin(esker::TxnOptions::default())?;
    /// txn.put(tree, "ant", "6 legs")?;
    /// assert_eq!(txn.first(tree)?.map(|(key, _)| key), Some(b"ant".to_vec()));
    /// assert_eq!(txn.count(tree, ..)?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn first(&self, tree: &Tree) -> Result<Option<(Vec<u8>, Value)>> {
        self.first_of(tree, ScanRange::all())
    }

    /// The pair with the greatest key. The transaction has then read the keys from this one on, otherwise as
    /// [`Txn::first`] says.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn last(&self, tree: &Tree) -> Result<Option<(Vec<u8>, Value)>> {
        self.first_of(tree, ScanRange::all().reverse())
    }

    /// Whether no key has a value. What this reads is what [`Txn::first`] reads.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn is_empty(&self, tree: &Tree) -> Result<bool> {
        Ok(!self.scan(tree, ScanRange::all().keys_only())?.advance()?)
    }

    fn first_of(&self, tree: &Tree, range: ScanRange) -> Result<Option<(Vec<u8>, Value)>> {
        self.scan(tree, range)?.first()
    }

    fn read_key(&self, tree: &Tree, key: &[u8], for_update: bool) -> Result<Option<Value>> {
        tree.check_store(&self.store, "transaction")?;
        let own = self.inner.borrow().writes.get(tree.inner().id, key);
        if let Some(change) = own.as_ref().filter(|change| !change.is_on_store()) {
            return change.value(key, None, self.operators());
        }
        let snapshot = self.read_point_for(tree, || KeyRange::one_key(key), for_update)?;
        let tree = &*self.timed(tree);
        let found = snapshot.get(tree, key)?;
        if self.is_serializable() || for_update {
            if self.is_pessimistic() && !self.is_serializable() {
                check_key_unchanged(tree, key, snapshot.seq())?;
            }
            self.inner.borrow_mut().reads.note_key(tree, key, snapshot.seq());
        }
        let lapse = found.as_ref().and_then(Value::lapses_us).filter(|_| tree.goes_on());
        if let Some(expiry) = lapse {
            let relied = self.is_serializable() || for_update;
            self.inner.borrow_mut().reads.note_lapse(tree, key, expiry, relied);
        }
        let Some(change) = own else { return Ok(found) };
        let stored = found.map(Value::into_vec).transpose()?;
        change.value(key, stored.as_deref(), self.operators())
    }

    /// Takes the locks that reading `range` needs.
    fn reading(&self, tree: &Tree, range: ScanRange, for_update: bool) -> Result<Reading<'_>> {
        tree.check_store(&self.store, "transaction")?;
        let snapshot = self.noted(self.read_point_for(tree, || range.keys.clone(), for_update))?;
        let tree = self.timed(tree).into_owned();
        let own = self.inner.borrow().writes.changes(tree.inner().id).cloned();
        let is_noted = self.is_serializable() || for_update;
        Ok(Reading { txn: self, tree, range, snapshot, own, is_noted })
    }

    /// `tree` at the one time at which the transaction reads it, if it takes its time from its writes.
    fn timed<'a>(&self, tree: &'a Tree) -> Cow<'a, Tree> {
        if !tree.has_own_time() {
            return Cow::Borrowed(tree);
        }
        let mut inner = self.inner.borrow_mut();
        let time_us = inner.times.entry(tree.inner().id).or_insert_with(|| tree.time_us());
        *time_us = tree.given_us().map_or(*time_us, |given| given.max(*time_us));
        Cow::Owned(tree.at_us(*time_us))
    }

    /// Takes the locks that a read needs, and returns the read point.
    fn read_point_for(
        &self,
        tree: &Tree,
        keys: impl FnOnce() -> KeyRange,
        for_update: bool,
    ) -> Result<Snapshot> {
        if self.is_pessimistic() && (self.is_serializable() || for_update) {
            self.lock(tree, keys(), if for_update { LockMode::Exclusive } else { LockMode::Shared })?;
        }
        let mut inner = self.inner.borrow_mut();
        inner.is_fixed = true;
        if self.is_pessimistic() && self.is_serializable() {
            return Ok(Snapshot::for_one_call_at(&self.store, inner.snapshot.time_us()));
        }
        Ok(inner.snapshot.clone())
    }

    // ---- writing -------------------------------------------------------------------------------------

    /// Gives `key` the value `value`, which is copied. A pessimistic transaction locks the key exclusively.
    ///
    /// # Errors
    /// `InvalidInput` when the key is empty or too long, or the tree belongs to another store. In a pessimistic
    /// transaction also `Deadlock` and `LockTimeout`, and, under snapshot isolation, `Conflict` when the key was
    /// changed since the transaction's first read.
    pub fn put(&self, tree: &Tree, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let change = KeyChange::put(value.as_ref(), PutOptions::default());
        self.change(tree, key.as_ref(), |writes| writes.set(tree, key.as_ref(), change))
    }

    /// Gives `key` the value `value`, which is copied, for the time `ttl` from now on ([`Tree::put_for`]). The
    /// transaction's own reads do not see it expire.
    ///
    /// # Errors
    /// As [`Txn::put`].
    pub fn put_for(
        &self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        self.put_expiring(tree, key.as_ref(), value.as_ref(), tree.expiry_after(ttl))
    }

    /// Like [`Txn::put_for`], until the store's clock shows `moment` ([`Tree::put_until`]).
    ///
    /// # Errors
    /// As [`Txn::put`].
    pub fn put_until(
        &self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        moment: SystemTime,
    ) -> Result<()> {
        self.put_expiring(tree, key.as_ref(), value.as_ref(), us_at(moment))
    }

    fn put_expiring(&self, tree: &Tree, key: &[u8], value: &[u8], expiry: Expiry) -> Result<()> {
        self.put_opts(tree, key, value, &PutOptions::until(Some(expiry)))
    }

    /// Gives `key` the value `value`, which is copied, with what `options` store beside it ([`Tree::put_opts`]).
    ///
    /// # Errors
    /// As [`Txn::put`], and `InvalidInput` when the attributes are longer than 4 KiB.
    pub fn put_opts(
        &self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &PutOptions,
    ) -> Result<()> {
        options.checked()?;
        let (key, change) = (key.as_ref(), KeyChange::put(value.as_ref(), options.clone()));
        self.change(tree, key, |writes| writes.set(tree, key, change))
    }

    /// Moves the value of `from` to `to`, as [`Tree::rename`] does. Returns `false`, and changes nothing, if `from` is
    /// absent. The value counts as read for update ([`Txn::get_for_update`]); a huge one stays where it is.
    ///
    /// # Errors
    /// As [`Txn::put`] and [`Txn::get_for_update`]. The commit fails with `Conflict` when a huge value is gone.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let (films, index) = (db.tree("films")?, db.tree("index")?);
    /// films.put("draft", vec![7; 1 << 20])?;
    /// let txn = db.begin(esker::TxnOptions::default())?;
    /// assert!(txn.rename(&films, "draft", "final")?);
    /// txn.put(&index, "newest", "final")?;
    /// txn.commit()?;
    /// assert_eq!(films.get("final")?.expect("it was renamed").len(), 1 << 20);
    /// # Ok(())
    /// # }
    /// ```
    pub fn rename(&self, tree: &Tree, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<bool> {
        self.transfer(tree, from.as_ref(), to.as_ref(), true)
    }

    /// Gives `to` the value of `from`, which keeps it, as [`Tree::copy`] does. Otherwise as [`Txn::rename`].
    ///
    /// # Errors
    /// As [`Txn::rename`].
    pub fn copy(&self, tree: &Tree, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<bool> {
        self.transfer(tree, from.as_ref(), to.as_ref(), false)
    }

    fn transfer(&self, tree: &Tree, from: &[u8], to: &[u8], moves: bool) -> Result<bool> {
        check_key(to)?;
        let Some(value) = self.get_for_update(tree, from)? else { return Ok(false) };
        if from != to {
            self.put_read(tree, to, value.clone(), value.put_options())?;
            if moves {
                self.delete(tree, from)?;
            }
        }
        Ok(true)
    }

    /// The value of `key` expires at `expires_us`, or never (`None`), as with [`Tree::set_expiry`]. Returns `false`, and
    /// changes nothing, if the key is absent. Otherwise as [`Txn::rename`].
    ///
    /// # Errors
    /// As [`Txn::rename`].
    pub fn set_expiry(
        &self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        expires_us: impl Into<Option<u64>>,
    ) -> Result<bool> {
        let key = key.as_ref();
        let Some(value) = self.get_for_update(tree, key)? else { return Ok(false) };
        let options = value.put_options().expires_us(expires_us);
        self.put_read(tree, key, value, options)?;
        Ok(true)
    }

    /// The value of `key` has the attributes `attributes`, as with [`Tree::set_attributes`]. Returns `false`, and
    /// changes nothing, if the key is absent. Otherwise as [`Txn::rename`].
    ///
    /// # Errors
    /// As [`Txn::rename`], and `InvalidInput` when the attributes are longer than 4 KiB.
    pub fn set_attributes(
        &self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        attributes: impl AsRef<[u8]>,
    ) -> Result<bool> {
        let key = key.as_ref();
        check_attributes(attributes.as_ref())?;
        let Some(value) = self.get_for_update(tree, key)? else { return Ok(false) };
        let options = value.put_options().attributes(attributes);
        self.put_read(tree, key, value, options)?;
        Ok(true)
    }

    /// Gives `key` a value that this transaction has read in the same tree.
    fn put_read(&self, tree: &Tree, key: &[u8], value: Value, options: PutOptions) -> Result<()> {
        let change = KeyChange::of_value(value, options)?;
        self.change(tree, key, |writes| writes.set(tree, key, change))
    }

    /// Deletes all keys of `range` ([`Tree::delete_range`]). A pessimistic transaction locks the range exclusively.
    /// Under snapshot isolation it conflicts if anything in the range was put or deleted since the transaction's
    /// moment.
    ///
    /// # Errors
    /// As [`Txn::put`].
    pub fn delete_range(&self, tree: &Tree, range: impl Into<ScanRange>) -> Result<()> {
        tree.check_store(&self.store, "transaction")?;
        let keys = range.into().keys;
        if self.is_pessimistic() {
            self.noted(self.lock(tree, keys.clone(), LockMode::Exclusive))?;
        }
        let mut inner = self.inner.borrow_mut();
        if !self.is_serializable() {
            let snapshot = inner.snapshot.seq();
            inner.reads.note_range(tree, keys.clone(), snapshot);
        }
        if !keys.is_empty() {
            inner.writes.delete_range(tree, keys);
        }
        Ok(())
    }

    /// Deletes `key`. An absent key is no error.
    ///
    /// # Errors
    /// As [`Txn::put`].
    pub fn delete(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<()> {
        self.change(tree, key.as_ref(), |writes| writes.set(tree, key.as_ref(), KeyChange::DELETE))
    }

    /// Changes the value of `key` by `operand` with the merge operator `operator`, as [`Tree::merge`] does, when the
    /// transaction commits. The transaction's own reads already see the change. Such a read also counts as a read of
    /// the store's value.
    ///
    /// Nothing is read, so a serializable transaction does not rely on the key's value: the operator changes whatever
    /// other writes have left there. Any number of optimistic transactions can add to the same counter side by side,
    /// and each addition counts. Otherwise this is a write like any other. Under snapshot isolation, if two
    /// transactions overlap and write the key, only one of them commits. A pessimistic transaction locks the key
    /// exclusively.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let (orders, counts) = (db.tree("orders")?, db.tree("counts")?);
    /// let txn = db.begin(esker::TxnOptions::default())?;
    /// txn.put(&orders, "7", "two apples")?;
    /// txn.add(&counts, "apples", 2)?;
    /// counts.add("apples", 5)?; // somebody else, meanwhile
    /// txn.commit()?;
    /// let count = counts.get_vec("apples")?.expect("it was added to");
    /// assert_eq!(esker::keys::decode_i64(&count)?, 7);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` when there is no such operator or it refuses the operand; otherwise as [`Txn::put`]. If the
    /// operator cannot change the value, every reader of the key gets `InvalidInput`, this transaction included.
    pub fn merge(
        &self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        operator: &str,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (key, operators) = (key.as_ref(), self.operators());
        let operand = operators.encode(operator, operand.as_ref())?;
        self.change(tree, key, |writes| writes.merge(tree, key, operand, operators))
    }

    /// Adds `number` to the value of `key`, which [`keys::i64`] encodes: [`Txn::merge`] with [`ADD`].
    ///
    /// # Errors
    /// As [`Txn::merge`].
    pub fn add(&self, tree: &Tree, key: impl AsRef<[u8]>, number: i64) -> Result<()> {
        self.merge(tree, key, ADD, keys::i64(number))
    }

    /// Appends `bytes` to the value of `key`: [`Txn::merge`] with [`APPEND`].
    ///
    /// # Errors
    /// As [`Txn::merge`].
    pub fn append(&self, tree: &Tree, key: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Result<()> {
        self.merge(tree, key, APPEND, bytes)
    }

    fn change(&self, tree: &Tree, key: &[u8], change: impl FnOnce(&mut WriteSet)) -> Result<()> {
        check_key(key)?;
        tree.check_store(&self.store, "transaction")?;
        if self.is_pessimistic() {
            self.noted(self.lock(tree, KeyRange::one_key(key), LockMode::Exclusive))?;
            if !self.is_serializable() {
                self.noted(check_key_unchanged(tree, key, self.inner.borrow().snapshot.seq()))?;
            }
        }
        change(&mut self.inner.borrow_mut().writes);
        Ok(())
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

    /// Undoes what was written since `savepoint`. The savepoint itself stays; later ones are discarded. Reads since
    /// then still count, because the caller knows their results. Locks are kept.
    ///
    /// # Errors
    /// `InvalidInput` when the savepoint belongs to another transaction or was discarded.
    pub fn rollback_to(&self, savepoint: Savepoint) -> Result<()> {
        if savepoint.txn != self.locks.owner() {
            return Err(Error::invalid("the savepoint belongs to another transaction"));
        }
        self.inner.borrow_mut().writes.rollback_to(savepoint)
    }

    // ---- the end -------------------------------------------------------------------------------------

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
            // All reads are of one moment, except those of values that locks kept unchanged.
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
        // Everything up to here is in the memtables, so the check sees it.
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
