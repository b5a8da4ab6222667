//! Writes of a transaction.

use std::time::{Duration, SystemTime};

use super::read_set::check_key_unchanged;
use super::write_set::{KeyChange, WriteSet};
use super::{LockMode, Txn};
use crate::cursor::Expiry;
use crate::env::us_at;
use crate::error::Result;
use crate::keys;
use crate::operators::{ADD, APPEND};
use crate::ranges::KeyRange;
use crate::read::range::ScanRange;
use crate::tree::Tree;
use crate::value::{PutOptions, Value, check_attributes};
use crate::write::batch::check_key;

/// Writing.
impl Txn {
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

    /// Gives `key` the value `value`, which is copied, with the expiry and attributes in `options`
    /// ([`Tree::put_opts`]).
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
    /// absent. The value counts as read for update ([`Txn::get_for_update`]); a huge one is not copied.
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

    /// Deletes `key`. It is not an error if the key is absent.
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
    /// Nothing is read, so a serializable transaction does not rely on the key's value: the operator changes the value
    /// that other writes have left there. Any number of optimistic transactions can add to the same counter at the same
    /// time, and each addition counts. Otherwise this is a write like any other. Under snapshot isolation, if two
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
    /// `InvalidInput` when the operator does not exist or refuses the operand; otherwise as [`Txn::put`]. If the
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
}
