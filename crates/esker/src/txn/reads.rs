//! Reads of a transaction.

use std::borrow::Cow;

use super::read_set::check_key_unchanged;
use super::{LockMode, Reading, Txn, TxnRange, TxnScan};
use crate::error::Result;
use crate::ranges::KeyRange;
use crate::read::range::ScanRange;
use crate::tree::{Snapshot, Tree};
use crate::value::Value;

/// Reading.
impl Txn {
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

    /// Calls `use_bytes` with the bytes of the value of `key`, and returns its result; `None` if the key is absent.
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

    /// The pair with the greatest key. The transaction has then read the keys from this one on. Otherwise as
    /// [`Txn::first`].
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn last(&self, tree: &Tree) -> Result<Option<(Vec<u8>, Value)>> {
        self.first_of(tree, ScanRange::all().reverse())
    }

    /// Whether no key has a value. This reads the same keys as [`Txn::first`].
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
        change.value(key, found, self.operators())
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
}
