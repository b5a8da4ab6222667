//! A typed tree as a part of an object that spans several trees: a snapshot, a transaction, a batch.

use std::ops::RangeBounds;
use std::time::{Duration, SystemTime};

use super::{
    KeyCodec, KeyPrefix, Pair, TypedCursor, TypedRange, TypedTree, TypedTxnRange, ValueCodec, scan_range,
};
use crate::error::{Error, Result};
use crate::keys;
use crate::operators::ADD;
use crate::tree::Snapshot;
use crate::txn::Txn;
use crate::write::batch::Batch;

/// A [`TypedTree`] as a snapshot sees it: [`TypedTree::at`].
#[derive(Debug)]
pub struct TypedSnapshot<K, V> {
    tree: TypedTree<K, V>,
    snapshot: Snapshot,
}

impl<K, V> Clone for TypedSnapshot<K, V> {
    fn clone(&self) -> Self {
        TypedSnapshot { tree: self.tree.clone(), snapshot: self.snapshot.clone() }
    }
}

impl<K: KeyCodec, V: ValueCodec> TypedSnapshot<K, V> {
    pub(super) fn new(tree: TypedTree<K, V>, snapshot: Snapshot) -> Self {
        TypedSnapshot { tree, snapshot }
    }

    /// The value of `key` at this moment.
    ///
    /// # Errors
    /// As [`Snapshot::get`], and the errors of the codec.
    pub fn get(&self, key: K::Ref<'_>) -> Result<Option<V::Value>> {
        let TypedSnapshot { tree, snapshot } = self;
        let decode = |key: &[u8]| snapshot.get_with(&tree.tree, key, |bytes| tree.value_of(key, bytes));
        K::encoded(key, |key| decode(key)?.transpose())
    }

    /// Whether `key` had a value at this moment.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn contains(&self, key: K::Ref<'_>) -> Result<bool> {
        K::encoded(key, |key| self.snapshot.contains(&self.tree.tree, key))
    }

    /// The values of `keys` at this moment, in the order of the keys.
    ///
    /// # Errors
    /// As [`TypedSnapshot::get`].
    pub fn get_many<'k>(&self, keys: impl IntoIterator<Item = K::Ref<'k>>) -> Result<Vec<Option<V::Value>>> {
        keys.into_iter().map(|key| self.get(key)).collect()
    }

    /// The pairs in `range` at this moment.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn range<'k>(&self, range: impl RangeBounds<K::Ref<'k>>) -> Result<TypedRange<K, V>> {
        Ok(TypedRange::new(&self.tree, self.snapshot.range(&self.tree.tree, scan_range::<K>(&range))?))
    }

    /// All pairs at this moment.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn iter(&self) -> Result<TypedRange<K, V>> {
        Ok(TypedRange::new(&self.tree, self.snapshot.iter(&self.tree.tree)?))
    }

    /// The pairs at this moment whose keys begin with `prefix`.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn prefix(&self, prefix: impl KeyPrefix<K>) -> Result<TypedRange<K, V>> {
        Ok(TypedRange::new(&self.tree, self.snapshot.prefix(&self.tree.tree, prefix.to_bytes())?))
    }

    /// A cursor at this moment. It is not at a pair yet.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn cursor(&self) -> Result<TypedCursor<K, V>> {
        Ok(TypedCursor::new(&self.tree, self.snapshot.cursor(&self.tree.tree)?))
    }

    /// Whether no key had a value at this moment.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn is_empty(&self) -> Result<bool> {
        self.snapshot.is_empty(&self.tree.tree)
    }

    /// How many keys in `range` had a value at this moment.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn count<'k>(&self, range: impl RangeBounds<K::Ref<'k>>) -> Result<u64> {
        self.snapshot.count(&self.tree.tree, scan_range::<K>(&range))
    }

    /// The pair with the least key at this moment.
    ///
    /// # Errors
    /// As [`TypedSnapshot::get`].
    pub fn first(&self) -> Result<Option<Pair<K, V>>> {
        self.tree.pair(self.snapshot.first(&self.tree.tree)?)
    }

    /// The pair with the greatest key at this moment.
    ///
    /// # Errors
    /// As [`TypedSnapshot::get`].
    pub fn last(&self) -> Result<Option<Pair<K, V>>> {
        self.tree.pair(self.snapshot.last(&self.tree.tree)?)
    }
}

/// A [`TypedTree`] as a part of a transaction: [`TypedTree::within`].
#[derive(Debug)]
pub struct TypedTxn<'v, K, V> {
    tree: &'v TypedTree<K, V>,
    txn: &'v Txn,
}

impl<'v, K: KeyCodec, V: ValueCodec> TypedTxn<'v, K, V> {
    pub(super) fn new(tree: &'v TypedTree<K, V>, txn: &'v Txn) -> Self {
        TypedTxn { tree, txn }
    }

    /// The value of `key`: [`Txn::get`].
    ///
    /// # Errors
    /// As [`Txn::get`], and the errors of the codec.
    pub fn get(&self, key: K::Ref<'_>) -> Result<Option<V::Value>> {
        K::encoded(key, |key| self.tree.found(key, self.txn.get(&self.tree.tree, key)?))
    }

    /// The value of `key`, protected as if the transaction wrote the key: [`Txn::get_for_update`].
    ///
    /// # Errors
    /// As [`Txn::get_for_update`], and the errors of the codec.
    pub fn get_for_update(&self, key: K::Ref<'_>) -> Result<Option<V::Value>> {
        K::encoded(key, |key| self.tree.found(key, self.txn.get_for_update(&self.tree.tree, key)?))
    }

    /// Whether `key` has a value: [`Txn::contains`].
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn contains(&self, key: K::Ref<'_>) -> Result<bool> {
        K::encoded(key, |key| self.txn.contains(&self.tree.tree, key))
    }

    /// The values of `keys`, in the order of the keys: [`Txn::get_many`].
    ///
    /// # Errors
    /// As [`TypedTxn::get`].
    pub fn get_many<'k>(&self, keys: impl IntoIterator<Item = K::Ref<'k>>) -> Result<Vec<Option<V::Value>>> {
        keys.into_iter().map(|key| self.get(key)).collect()
    }

    /// The pairs in `range`, from either end or from both: [`Txn::range`].
    ///
    /// # Errors
    /// As [`Txn::get`], and for each pair the errors of the codec.
    pub fn range<'k>(&self, range: impl RangeBounds<K::Ref<'k>>) -> Result<TypedTxnRange<'v, K, V>> {
        let range = self.txn.range(&self.tree.tree, scan_range::<K>(&range))?;
        Ok(TypedTxnRange::new(self.tree, range))
    }

    /// The pairs in `range`, protected as by [`TypedTxn::get_for_update`]: [`Txn::range_for_update`].
    ///
    /// # Errors
    /// As [`Txn::get_for_update`], and for each pair the errors of the codec.
    pub fn range_for_update<'k>(
        &self,
        range: impl RangeBounds<K::Ref<'k>>,
    ) -> Result<TypedTxnRange<'v, K, V>> {
        let range = self.txn.range_for_update(&self.tree.tree, scan_range::<K>(&range))?;
        Ok(TypedTxnRange::new(self.tree, range))
    }

    /// All pairs.
    ///
    /// # Errors
    /// As [`TypedTxn::range`].
    pub fn iter(&self) -> Result<TypedTxnRange<'v, K, V>> {
        Ok(TypedTxnRange::new(self.tree, self.txn.iter(&self.tree.tree)?))
    }

    /// The pairs whose keys begin with `prefix`, as [`TypedTree::prefix`] takes it.
    ///
    /// # Errors
    /// As [`TypedTxn::range`].
    pub fn prefix(&self, prefix: impl KeyPrefix<K>) -> Result<TypedTxnRange<'v, K, V>> {
        Ok(TypedTxnRange::new(self.tree, self.txn.prefix(&self.tree.tree, prefix.to_bytes())?))
    }

    /// How many keys in `range` have a value: [`Txn::count`].
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn count<'k>(&self, range: impl RangeBounds<K::Ref<'k>>) -> Result<u64> {
        self.txn.count(&self.tree.tree, scan_range::<K>(&range))
    }

    /// Whether no key has a value: [`Txn::is_empty`].
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn is_empty(&self) -> Result<bool> {
        self.txn.is_empty(&self.tree.tree)
    }

    /// The pair with the least key: [`Txn::first`].
    ///
    /// # Errors
    /// As [`TypedTxn::get`].
    pub fn first(&self) -> Result<Option<Pair<K, V>>> {
        self.tree.pair(self.txn.first(&self.tree.tree)?)
    }

    /// The pair with the greatest key: [`Txn::last`].
    ///
    /// # Errors
    /// As [`TypedTxn::get`].
    pub fn last(&self) -> Result<Option<Pair<K, V>>> {
        self.tree.pair(self.txn.last(&self.tree.tree)?)
    }

    /// Deletes the pair with the least key, and returns it: [`Txn::pop_first`]. If the pair does not decode, it is
    /// deleted even so.
    ///
    /// # Errors
    /// As [`TypedTxn::put`] and [`TypedTxn::get_for_update`].
    pub fn pop_first(&self) -> Result<Option<Pair<K, V>>> {
        self.tree.pair(self.txn.pop_first(&self.tree.tree)?)
    }

    /// Deletes the pair with the greatest key, and returns it: [`Txn::pop_last`]. See [`TypedTxn::pop_first`].
    ///
    /// # Errors
    /// As [`TypedTxn::pop_first`].
    pub fn pop_last(&self) -> Result<Option<Pair<K, V>>> {
        self.tree.pair(self.txn.pop_last(&self.tree.tree)?)
    }

    /// Gives `key` the value `value`: [`Txn::put`].
    ///
    /// # Errors
    /// As [`Txn::put`], and the errors of the codec.
    pub fn put(&self, key: K::Ref<'_>, value: &V::Ref) -> Result<()> {
        self.tree.encoded(key, value, |key, value| self.txn.put(&self.tree.tree, key, value))
    }

    /// Gives `key` the value `value` for the time `ttl`: [`Txn::put_for`].
    ///
    /// # Errors
    /// As [`TypedTxn::put`].
    pub fn put_for(&self, key: K::Ref<'_>, value: &V::Ref, ttl: Duration) -> Result<()> {
        self.tree.encoded(key, value, |key, value| self.txn.put_for(&self.tree.tree, key, value, ttl))
    }

    /// Gives `key` the value `value` until `moment`: [`Txn::put_until`].
    ///
    /// # Errors
    /// As [`TypedTxn::put`].
    pub fn put_until(&self, key: K::Ref<'_>, value: &V::Ref, moment: SystemTime) -> Result<()> {
        self.tree.encoded(key, value, |key, value| self.txn.put_until(&self.tree.tree, key, value, moment))
    }

    /// Gives `key` the value `value`, and returns its earlier value: [`Txn::insert`].
    ///
    /// # Errors
    /// As [`TypedTxn::put`] and [`TypedTxn::get_for_update`].
    pub fn insert(&self, key: K::Ref<'_>, value: &V::Ref) -> Result<Option<V::Value>> {
        let insert = |key: &[u8], value: &[u8]| self.txn.insert(&self.tree.tree, key, value);
        self.tree.encoded(key, value, |key, value| self.tree.found(key, insert(key, value)?))
    }

    /// Deletes `key`, and returns its earlier value: [`Txn::remove`].
    ///
    /// # Errors
    /// As [`TypedTxn::insert`].
    pub fn remove(&self, key: K::Ref<'_>) -> Result<Option<V::Value>> {
        K::encoded(key, |key| self.tree.found(key, self.txn.remove(&self.tree.tree, key)?))
    }

    /// Gives `key` the value `value` if the key is absent. Otherwise returns its present value: [`Txn::put_if_absent`].
    ///
    /// # Errors
    /// As [`TypedTxn::insert`].
    pub fn put_if_absent(&self, key: K::Ref<'_>, value: &V::Ref) -> Result<Option<V::Value>> {
        let put = |key: &[u8], value: &[u8]| self.txn.put_if_absent(&self.tree.tree, key, value);
        self.tree.encoded(key, value, |key, value| self.tree.found(key, put(key, value)?))
    }

    /// Replaces the value of `key` by the result of `change` (`None`: absent): [`Txn::update`]. Returns the new value.
    ///
    /// # Errors
    /// As [`TypedTxn::insert`].
    pub fn update(
        &self,
        key: K::Ref<'_>,
        change: impl FnOnce(Option<V::Value>) -> Option<V::Value>,
    ) -> Result<Option<V::Value>> {
        self.try_update(key, |old| Ok::<_, Error>(change(old)))
    }

    /// Like [`TypedTxn::update`], for a `change` that may fail. Then it writes nothing.
    ///
    /// # Errors
    /// The error of `change`; otherwise as [`TypedTxn::insert`].
    pub fn try_update<E: From<Error>>(
        &self,
        key: K::Ref<'_>,
        change: impl FnOnce(Option<V::Value>) -> Result<Option<V::Value>, E>,
    ) -> Result<Option<V::Value>, E> {
        let mut new = None;
        K::encoded(key, |key| {
            self.txn.try_update(&self.tree.tree, key, |old| {
                new = change(old.map(|old| self.tree.value_of(key, old)).transpose()?)?;
                Ok::<_, E>(self.tree.to_bytes(key, new.as_ref())?)
            })
        })?;
        Ok(new)
    }

    /// Deletes `key`: [`Txn::delete`].
    ///
    /// # Errors
    /// As [`Txn::put`].
    pub fn delete(&self, key: K::Ref<'_>) -> Result<()> {
        K::encoded(key, |key| self.txn.delete(&self.tree.tree, key))
    }

    /// Deletes all keys of `range`: [`Txn::delete_range`].
    ///
    /// # Errors
    /// As [`Txn::put`].
    pub fn delete_range<'k>(&self, range: impl RangeBounds<K::Ref<'k>>) -> Result<()> {
        self.txn.delete_range(&self.tree.tree, scan_range::<K>(&range))
    }
}

/// The changes of a [`TypedTree`] that a batch gets: [`TypedTree::add_to`].
#[derive(Debug)]
pub struct TypedBatch<'v, K, V> {
    tree: &'v TypedTree<K, V>,
    batch: &'v mut Batch,
}

impl<'v, K: KeyCodec, V: ValueCodec> TypedBatch<'v, K, V> {
    pub(super) fn new(tree: &'v TypedTree<K, V>, batch: &'v mut Batch) -> Self {
        TypedBatch { tree, batch }
    }

    /// Adds: `key` gets `value`.
    ///
    /// # Errors
    /// As [`Batch::put`], and the errors of the codec.
    pub fn put(&mut self, key: K::Ref<'_>, value: &V::Ref) -> Result<()> {
        let TypedBatch { tree, batch } = self;
        tree.encoded(key, value, |key, value| batch.put(&tree.tree, key, value))
    }

    /// Adds: `key` gets `value` for the time `ttl` from now on.
    ///
    /// # Errors
    /// As [`TypedBatch::put`].
    pub fn put_for(&mut self, key: K::Ref<'_>, value: &V::Ref, ttl: Duration) -> Result<()> {
        let TypedBatch { tree, batch } = self;
        tree.encoded(key, value, |key, value| batch.put_for(&tree.tree, key, value, ttl))
    }

    /// Adds: `key` becomes absent.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn delete(&mut self, key: K::Ref<'_>) -> Result<()> {
        K::encoded(key, |key| self.batch.delete(&self.tree.tree, key))
    }

    /// Adds: all keys of `range` become absent.
    ///
    /// # Errors
    /// As [`Batch::delete_range`].
    pub fn delete_range<'k>(&mut self, range: impl RangeBounds<K::Ref<'k>>) -> Result<()> {
        self.batch.delete_range(&self.tree.tree, scan_range::<K>(&range))
    }
}

impl<K: KeyCodec> TypedTxn<'_, K, i64> {
    /// Adds `number` to the value of `key`, without reading it: [`Txn::add`].
    ///
    /// # Errors
    /// As [`Txn::merge`].
    pub fn add(&self, key: K::Ref<'_>, number: i64) -> Result<()> {
        K::encoded(key, |key| self.txn.add(&self.tree.tree, key, number))
    }
}

impl<K: KeyCodec> TypedBatch<'_, K, i64> {
    /// Adds: `number` is added to the value of `key`.
    ///
    /// # Errors
    /// As [`Batch::merge`].
    pub fn add(&mut self, key: K::Ref<'_>, number: i64) -> Result<()> {
        K::encoded(key, |key| self.batch.merge(&self.tree.tree, key, ADD, keys::i64(number)))
    }
}
