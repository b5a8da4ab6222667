//! Writes of a transaction that depend on the present value. Each reads for update ([`Txn::get_for_update`]).

use super::Txn;
use crate::error::{Error, Result};
use crate::read::range::ScanRange;
use crate::tree::Tree;
use crate::value::Value;

impl Txn {
    /// Gives `key` the value `value`, without an expiry or attributes, and returns its earlier value, which counts as
    /// read for update ([`Txn::get_for_update`]). [`Txn::put`] does not read.
    ///
    /// # Errors
    /// As [`Txn::put`] and [`Txn::get_for_update`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let (desks, log) = (db.tree("desks")?, db.tree("log")?);
    /// let txn = db.begin(esker::TxnOptions::default())?;
    /// if txn.put_if_absent(&desks, "4", "Ann")?.is_none() {
    ///     let one_more = |count: Option<&[u8]>| Some(vec![count.map_or(0, |count| count[0]) + 1]);
    ///     txn.update(&log, "desks taken", one_more)?;
    /// }
    /// txn.commit()?;
    /// assert_eq!(log.get_vec("desks taken")?, Some(vec![1]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert(
        &self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Option<Value>> {
        let old = self.get_for_update(tree, key.as_ref())?;
        self.put(tree, key, value)?;
        Ok(old)
    }

    /// Deletes `key`, and returns its earlier value, which counts as read for update.
    ///
    /// # Errors
    /// As [`Txn::insert`].
    pub fn remove(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let old = self.get_for_update(tree, key.as_ref())?;
        if old.is_some() {
            self.delete(tree, key)?;
        }
        Ok(old)
    }

    /// Gives `key` the value `value` if the key is absent. Otherwise returns its present value. Either counts as read
    /// for update.
    ///
    /// # Errors
    /// As [`Txn::insert`].
    pub fn put_if_absent(
        &self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Option<Value>> {
        let found = self.get_for_update(tree, key.as_ref())?;
        if found.is_none() {
            self.put(tree, key, value)?;
        }
        Ok(found)
    }

    /// Replaces the value of `key`, read for update, by the result of `change` (`None`: absent). Returns the new value,
    /// which has no expiry and no attributes.
    ///
    /// # Errors
    /// As [`Txn::insert`].
    pub fn update(
        &self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        change: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        self.try_update(tree, key, |old| Ok::<_, Error>(change(old)))
    }

    /// Like [`Txn::update`], for a `change` that may fail. Then it writes nothing.
    ///
    /// # Errors
    /// The error of `change`; otherwise as [`Txn::insert`].
    pub fn try_update<E: From<Error>>(
        &self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        change: impl FnOnce(Option<&[u8]>) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<Option<Vec<u8>>, E> {
        let old = self.get_for_update(tree, key.as_ref())?;
        let bytes = old.as_ref().map(Value::bytes).transpose()?;
        let new = change(bytes.as_deref())?;
        match &new {
            Some(new) => self.put(tree, key, new)?,
            None if old.is_some() => self.delete(tree, key)?,
            None => {}
        }
        Ok(new)
    }

    /// Deletes the pair with the least key, and returns it. The keys up to this one count as read for update. A
    /// pessimistic transaction locks the whole tree exclusively.
    ///
    /// It passes over the entries that were deleted before it, as [`Tree::pop_first`] does.
    ///
    /// # Errors
    /// As [`Txn::insert`].
    pub fn pop_first(&self, tree: &Tree) -> Result<Option<(Vec<u8>, Value)>> {
        self.pop(tree, ScanRange::all())
    }

    /// Deletes the pair with the greatest key, and returns it. The keys from this one on count as read for update.
    /// Otherwise as [`Txn::pop_first`].
    ///
    /// # Errors
    /// As [`Txn::insert`].
    pub fn pop_last(&self, tree: &Tree) -> Result<Option<(Vec<u8>, Value)>> {
        self.pop(tree, ScanRange::all().reverse())
    }

    fn pop(&self, tree: &Tree, range: ScanRange) -> Result<Option<(Vec<u8>, Value)>> {
        let Some((key, value)) = self.scan_for_update(tree, range)?.first()? else { return Ok(None) };
        self.delete(tree, &key)?;
        Ok(Some((key, value)))
    }
}
