//! A typed tree as a part of what has several trees: a snapshot, a transaction, a batch.

use std::ops::RangeBounds;
use std::time::Duration;

use super::{KeyCodec, KeyPrefix, Pair, TypedRange, TypedTree, ValueCodec, scan_range};
use crate::error::Result;
use crate::tree::Snapshot;
use crate::txn::Txn;
use crate::write::batch::Batch;

/// A [`TypedTree`] as a snapshot sees it: [`TypedTree::at`].
#[derive(Debug)]
pub struct TypedSnapshot<'v, K, V> {
    tree: &'v TypedTree<K, V>,
    snapshot: &'v Snapshot,
}

impl<'v, K: KeyCodec, V: ValueCodec> TypedSnapshot<'v, K, V> {
    pub(super) fn new(tree: &'v TypedTree<K, V>, snapshot: &'v Snapshot) -> Self {
        TypedSnapshot { tree, snapshot }
    }

    /// The value of `key` at this moment.
    ///
    /// # Errors
    /// As [`Snapshot::get`], and those of the codec.
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

    /// The pairs in `range` at this moment.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn range<'k>(&self, range: impl RangeBounds<K::Ref<'k>>) -> Result<TypedRange<K, V>> {
        Ok(TypedRange::new(self.tree, self.snapshot.range(&self.tree.tree, scan_range::<K>(&range))?))
    }

    /// All pairs at this moment.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn iter(&self) -> Result<TypedRange<K, V>> {
        Ok(TypedRange::new(self.tree, self.snapshot.iter(&self.tree.tree)?))
    }

    /// The pairs at this moment whose keys begin with `prefix`.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn prefix(&self, prefix: impl KeyPrefix<K>) -> Result<TypedRange<K, V>> {
        Ok(TypedRange::new(self.tree, self.snapshot.prefix(&self.tree.tree, prefix.to_bytes())?))
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
    /// As [`Txn::get`], and those of the codec.
    pub fn get(&self, key: K::Ref<'_>) -> Result<Option<V::Value>> {
        K::encoded(key, |key| self.tree.found(key, self.txn.get(&self.tree.tree, key)?))
    }

    /// The value of `key`, protected as if the transaction wrote the key: [`Txn::get_for_update`].
    ///
    /// # Errors
    /// As [`Txn::get_for_update`], and those of the codec.
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

    /// The pairs in `range`, ascending: [`Txn::scan`]. After an error there are no more.
    ///
    /// # Errors
    /// As [`Txn::get`], and for each pair those of the codec.
    pub fn range<'k, R>(
        &self,
        range: R,
    ) -> Result<impl Iterator<Item = Result<Pair<K, V>>> + use<'v, 'k, K, V, R>>
    where
        R: RangeBounds<K::Ref<'k>>,
    {
        let tree = self.tree;
        let mut scan = Some(self.txn.scan(&tree.tree, scan_range::<K>(&range))?);
        Ok(std::iter::from_fn(move || {
            let pair = scan.as_mut()?.next();
            let pair = pair.map(|pair| {
                let (key, value) = pair?;
                Ok((tree.key_of(&key)?, tree.value_of(&key, &value)?))
            });
            if !matches!(pair, Some(Ok(_))) {
                scan = None;
            }
            pair
        }))
    }

    /// Gives `key` the value `value`: [`Txn::put`].
    ///
    /// # Errors
    /// As [`Txn::put`], and those of the codec.
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
    /// As [`Batch::put`], and those of the codec.
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
