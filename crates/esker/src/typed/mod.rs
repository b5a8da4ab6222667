//! Trees whose keys and values have types: a thin layer that encodes and decodes, and has no state.
//!
//! ```text
//! TypedTree<K, V>   put(K::Ref, &V::Ref)     get(K::Ref) -> V::Value     range -> (K::Key, V::Value)
//! codec             KeyCodec: order of bytes = order of keys             ValueCodec: any bytes
//! Tree              bytes -> bytes
//! ```
//!
//! The bytes of keys are those of [`keys`](crate::keys). Therefore a program that uses [`Tree`] directly, the command
//! line and merge operators can all read a typed tree.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::time::{Duration, SystemTime};

use crate::error::{Error, Result, shown};
use crate::options::Durability;
use crate::read::range::ScanRange;
use crate::tree::{Snapshot, Swap, Tree};
use crate::txn::Txn;
use crate::value::Value;
use crate::write::batch::Batch;

mod codec;
#[cfg(feature = "serde")]
mod message_pack;
mod pairs;
mod views;

pub use codec::{KeyCodec, KeyElement, KeyPrefix, ValueCodec};
#[cfg(feature = "serde")]
pub use message_pack::Serde;
pub use pairs::{TypedCursor, TypedRange, TypedTxnRange};
pub use views::{TypedBatch, TypedSnapshot, TypedTxn};

/// A pair of a [`TypedTree`].
pub type Pair<K, V> = (<K as KeyCodec>::Key, <V as ValueCodec>::Value);

/// A [`Tree`] whose keys and values have types: [`Db::open_typed`](crate::Db::open_typed) opens one. `K` is the codec of
/// its keys: a number, `String`, `Vec<u8>`, a tuple of these, or an own [`KeyCodec`]. `V` is the codec of its values:
/// a number, `String`, `Vec<u8>`, `()`, an own [`ValueCodec`], or, with the feature `serde`, `Serde<T>` for any type
/// `T` that serde can serialize.
///
/// Keys are passed as numbers, `&str`, `&[u8]`, or tuples of these, and sort as they do in Rust. Values are passed by
/// reference. [`TypedTree::tree`] is the tree itself, for calls that need no types.
///
/// # Errors
/// Calls that read fail with the error of the codec (`InvalidInput` for the built-in codecs) when bytes in the tree
/// cannot be of its types. (Any 8 bytes are a `u64`, and also an `i64`: the tag, which
/// [`Db::open_typed`](crate::Db::open_typed) compares, protects against this mistake.) The message names the tree and
/// the key. Otherwise they fail as the calls of [`Tree`] do.
///
/// # Example
/// ```
/// # fn main() -> esker::Result<()> {
/// # let db = esker::Db::open_in_memory(esker::Options::default())?;
/// let cities = db.open_typed::<(String, u32), String>("cities by country and rank")?;
/// cities.put(("fr", 1), "Paris")?;
/// cities.put(("fr", 2), "Marseille")?;
/// cities.put(("jp", 1), "Tokyo")?;
/// assert_eq!(cities.get(("jp", 1))?.as_deref(), Some("Tokyo"));
/// for pair in cities.prefix(("fr",))? {
///     let ((country, rank), city) = pair?;
///     println!("{country} {rank}: {city}");
/// }
/// assert_eq!(cities.range(("fr", 2)..)?.count(), 2);
/// # Ok(())
/// # }
/// ```
pub struct TypedTree<K, V> {
    tree: Tree,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for TypedTree<K, V> {
    fn clone(&self) -> Self {
        TypedTree { tree: self.tree.clone(), types: PhantomData }
    }
}

impl<K, V> fmt::Debug for TypedTree<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types = std::any::type_name::<(K, V)>();
        f.debug_struct("TypedTree").field("name", &self.tree.name()).field("types", &types).finish()
    }
}

/// The types of the keys and of the values in the tag of a tree, if the tag is one of [`tag_of`] or of the command line.
fn types_in(tag: &str) -> Option<(&str, &str)> {
    let (keys, values) = tag.split_once(' ').unwrap_or((tag, "text"));
    let elements = keys.strip_suffix(',').unwrap_or(keys).split(',');
    elements.chain([values]).all(|name| codec::NAMES.contains(&name)).then_some((keys, values))
}

/// The tag of a tree of these types, as the command line writes and reads it; `None` if the type of the keys has no
/// name.
pub(crate) fn tag_of<K: KeyCodec, V: ValueCodec>() -> Option<String> {
    let keys = K::type_name()?;
    Some(match V::TYPE_NAME {
        "text" => keys,
        values => format!("{keys} {values}"),
    })
}

impl<K: KeyCodec, V: ValueCodec> TypedTree<K, V> {
    /// `tree` with types. Nothing is written. This is for trees that were created with their own options, or that have
    /// no types yet.
    ///
    /// # Errors
    /// `InvalidInput` when the tree's tag names another type for its keys or its values. `Vec<u8>` fits all types, and
    /// so do codecs that name no type.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// use esker::{TreeOptions, TypedTree};
    /// let tree = db.create_tree("cache", TreeOptions::default().log(false))?;
    /// let cache: TypedTree<u64, String> = TypedTree::of(tree)?;
    /// cache.put(7, "seven")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn of(tree: Tree) -> Result<Self> {
        let tag = tree.tag().unwrap_or_default();
        if let Some((keys, values)) = types_in(&tag) {
            let of_keys = K::type_name().map(|wanted| ("keys", keys, wanted));
            for (what, found, wanted) in of_keys.into_iter().chain([("values", values, V::TYPE_NAME.into())])
            {
                if found != wanted && found != "hex" && wanted != "hex" {
                    let name = tree.name();
                    return Err(Error::invalid(format!(
                        "the {what} of tree \"{name}\" are of type {found}, not {wanted}, as its tag says"
                    )));
                }
            }
        }
        Ok(TypedTree { tree, types: PhantomData })
    }

    /// The tree itself.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The tree's name.
    pub fn name(&self) -> &str {
        self.tree.name()
    }

    // ---- writing -------------------------------------------------------------------------------------

    /// Gives `key` the value `value`: [`Tree::put`].
    ///
    /// # Errors
    /// As [`Tree::put`], and the error of the codec when it cannot encode the value.
    pub fn put(&self, key: K::Ref<'_>, value: &V::Ref) -> Result<()> {
        self.encoded(key, value, |key, value| self.tree.put(key, value))
    }

    /// Gives `key` the value `value` with the given durability: [`Tree::put_with`].
    ///
    /// # Errors
    /// As [`TypedTree::put`].
    pub fn put_with(&self, key: K::Ref<'_>, value: &V::Ref, durability: Durability) -> Result<()> {
        self.encoded(key, value, |key, value| self.tree.put_with(key, value, durability))
    }

    /// Gives `key` the value `value` for the time `ttl`: [`Tree::put_for`].
    ///
    /// # Errors
    /// As [`TypedTree::put`].
    pub fn put_for(&self, key: K::Ref<'_>, value: &V::Ref, ttl: Duration) -> Result<()> {
        self.encoded(key, value, |key, value| self.tree.put_for(key, value, ttl))
    }

    /// Gives `key` the value `value` until `moment`: [`Tree::put_until`].
    ///
    /// # Errors
    /// As [`TypedTree::put`].
    pub fn put_until(&self, key: K::Ref<'_>, value: &V::Ref, moment: SystemTime) -> Result<()> {
        self.encoded(key, value, |key, value| self.tree.put_until(key, value, moment))
    }

    /// Deletes `key`. It is not an error if the key is absent.
    ///
    /// # Errors
    /// As [`Tree::put`].
    pub fn delete(&self, key: K::Ref<'_>) -> Result<()> {
        K::encoded(key, |key| self.tree.delete(key))
    }

    /// Deletes `key` with the given durability: [`Tree::delete_with`].
    ///
    /// # Errors
    /// As [`Tree::put`].
    pub fn delete_with(&self, key: K::Ref<'_>, durability: Durability) -> Result<()> {
        K::encoded(key, |key| self.tree.delete_with(key, durability))
    }

    /// Deletes all keys of `range`: [`Tree::delete_range`].
    ///
    /// # Errors
    /// As [`Tree::put`].
    pub fn delete_range<'k>(&self, range: impl RangeBounds<K::Ref<'k>>) -> Result<()> {
        self.tree.delete_range(scan_range::<K>(&range))
    }

    /// Gives `key` the value `value`, and returns its earlier value: [`Tree::insert`]. If the earlier value does not
    /// decode, the key has the new value even so.
    ///
    /// # Errors
    /// As [`TypedTree::put`] and [`TypedTree::get`].
    pub fn insert(&self, key: K::Ref<'_>, value: &V::Ref) -> Result<Option<V::Value>> {
        self.encoded(key, value, |key, value| self.found(key, self.tree.insert(key, value)?))
    }

    /// Deletes `key`, and returns its earlier value: [`Tree::remove`]. If that value does not decode, the key is
    /// deleted even so.
    ///
    /// # Errors
    /// As [`TypedTree::delete`] and [`TypedTree::get`].
    pub fn remove(&self, key: K::Ref<'_>) -> Result<Option<V::Value>> {
        K::encoded(key, |key| self.found(key, self.tree.remove(key)?))
    }

    /// Gives `key` the value `value` if the key is absent. Otherwise returns its present value.
    ///
    /// # Errors
    /// As [`TypedTree::put`] and [`TypedTree::get`].
    pub fn put_if_absent(&self, key: K::Ref<'_>, value: &V::Ref) -> Result<Option<V::Value>> {
        self.encoded(key, value, |key, value| self.found(key, self.tree.put_if_absent(key, value)?))
    }

    /// Replaces the value of `key` by the result of `change` (`None`: absent), as [`Tree::update`] does. Returns the new
    /// value.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let stock = db.open_typed::<String, u32>("stock")?;
    /// stock.put("screws", &250)?;
    /// assert_eq!(stock.update("screws", |old| Some(old.unwrap_or(0) + 50))?, Some(300));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`TypedTree::put`] and [`TypedTree::get`].
    pub fn update(
        &self,
        key: K::Ref<'_>,
        mut change: impl FnMut(Option<V::Value>) -> Option<V::Value>,
    ) -> Result<Option<V::Value>> {
        self.try_update(key, |old| Ok::<_, Error>(change(old)))
    }

    /// Like [`TypedTree::update`], for a `change` that may fail. Then nothing is written.
    ///
    /// # Errors
    /// The error of `change`; otherwise as [`TypedTree::update`].
    pub fn try_update<E: From<Error>>(
        &self,
        key: K::Ref<'_>,
        mut change: impl FnMut(Option<V::Value>) -> Result<Option<V::Value>, E>,
    ) -> Result<Option<V::Value>, E> {
        let mut new = None;
        K::encoded(key, |key| {
            self.tree.try_update(key, |old| {
                new = change(old.map(|old| self.value_of(key, old)).transpose()?)?;
                Ok::<_, E>(self.to_bytes(key, new.as_ref())?)
            })
        })?;
        Ok(new)
    }

    /// Writes `new` (or deletes, for `None`) if the value of `key` has the bytes of `expected` (`None`: is absent):
    /// [`Tree::compare_and_swap`].
    ///
    /// # Errors
    /// As [`TypedTree::put`] and [`TypedTree::get`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// use esker::Swap;
    /// let doors = db.open_typed::<String, u32>("doors")?;
    /// assert!(doors.compare_and_swap("front", None, Some(&1))?.is_done());
    /// assert_eq!(doors.compare_and_swap("front", Some(&7), None)?, Swap::Found(Some(1)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn compare_and_swap(
        &self,
        key: K::Ref<'_>,
        expected: Option<&V::Ref>,
        new: Option<&V::Ref>,
    ) -> Result<Swap<V::Value>> {
        K::encoded(key, |key| {
            let bytes = |value: Option<&V::Ref>| value.map(|value| self.value_bytes(key, value)).transpose();
            let (expected, new) = (bytes(expected)?, bytes(new)?);
            Ok(match self.tree.compare_and_swap(key, expected.as_deref(), new.as_deref())? {
                Swap::Done => Swap::Done,
                Swap::Found(found) => Swap::Found(self.found(key, found)?),
            })
        })
    }

    // ---- reading -------------------------------------------------------------------------------------

    /// The value of `key`. It is decoded in place, without a copy.
    ///
    /// # Errors
    /// As [`Tree::get_with`], and the errors of the codec.
    pub fn get(&self, key: K::Ref<'_>) -> Result<Option<V::Value>> {
        K::encoded(key, |key| self.tree.get_with(key, |bytes| self.value_of(key, bytes))?.transpose())
    }

    /// The values of `keys`, all at one moment, in the order of the keys.
    ///
    /// # Errors
    /// As [`TypedTree::get`].
    pub fn get_many<'k>(&self, keys: impl IntoIterator<Item = K::Ref<'k>>) -> Result<Vec<Option<V::Value>>> {
        let keys: Vec<_> = keys.into_iter().map(Self::key_bytes).collect();
        let values = self.tree.get_many(&keys)?;
        keys.iter().zip(values).map(|(key, value)| self.found(key, value)).collect()
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn contains(&self, key: K::Ref<'_>) -> Result<bool> {
        K::encoded(key, |key| self.tree.contains(key))
    }

    /// The pairs in `range` at the current moment, from either end or from both: [`Tree::range`].
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn range<'k>(&self, range: impl RangeBounds<K::Ref<'k>>) -> Result<TypedRange<K, V>> {
        Ok(TypedRange::new(self, self.tree.range(scan_range::<K>(&range))?))
    }

    /// All pairs at the current moment.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn iter(&self) -> Result<TypedRange<K, V>> {
        Ok(TypedRange::new(self, self.tree.iter()?))
    }

    /// The pairs whose keys begin with `prefix`: the first elements of a tuple, or the beginning of a text or of bytes.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn prefix(&self, prefix: impl KeyPrefix<K>) -> Result<TypedRange<K, V>> {
        Ok(TypedRange::new(self, self.tree.prefix(prefix.to_bytes())?))
    }

    /// A cursor at the current moment. It is not at a pair yet.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn cursor(&self) -> Result<TypedCursor<K, V>> {
        Ok(TypedCursor::new(self, self.tree.cursor()?))
    }

    /// How many keys in `range` have a value, counted one by one.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn count<'k>(&self, range: impl RangeBounds<K::Ref<'k>>) -> Result<u64> {
        self.tree.count(scan_range::<K>(&range))
    }

    /// Whether no key has a value.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn is_empty(&self) -> Result<bool> {
        self.tree.is_empty()
    }

    /// The pair with the least key.
    ///
    /// # Errors
    /// As [`TypedTree::get`].
    pub fn first(&self) -> Result<Option<Pair<K, V>>> {
        self.pair(self.tree.first()?)
    }

    /// The pair with the greatest key.
    ///
    /// # Errors
    /// As [`TypedTree::get`].
    pub fn last(&self) -> Result<Option<Pair<K, V>>> {
        self.pair(self.tree.last()?)
    }

    /// Deletes the pair with the least key, and returns it: [`Tree::pop_first`], which describes the cost. If the pair
    /// does not decode, it is deleted even so.
    ///
    /// # Errors
    /// As [`TypedTree::put`] and [`TypedTree::get`].
    pub fn pop_first(&self) -> Result<Option<Pair<K, V>>> {
        self.pair(self.tree.pop_first()?)
    }

    /// Deletes the pair with the greatest key, and returns it. See [`TypedTree::pop_first`].
    ///
    /// # Errors
    /// As [`TypedTree::put`] and [`TypedTree::get`].
    pub fn pop_last(&self) -> Result<Option<Pair<K, V>>> {
        self.pair(self.tree.pop_last()?)
    }

    // ---- together with other trees ---------------------------------------------------------------------

    /// The tree as `snapshot` sees it.
    pub fn at(&self, snapshot: &Snapshot) -> TypedSnapshot<K, V> {
        TypedSnapshot::new(self.clone(), snapshot.clone())
    }

    /// The tree as a part of the transaction `txn`. A write through the [`TypedTree`] itself does not belong to any
    /// transaction: it takes effect immediately, a rollback does not undo it, and `txn` conflicts with it as with the
    /// writes of another thread. Therefore it is best to let the view shadow the tree, as here.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let accounts = db.open_typed::<String, i64>("accounts")?;
    /// accounts.put("ann", &7)?;
    /// db.transact(esker::TxnOptions::default(), |txn| -> esker::Result<()> {
    ///     let accounts = accounts.within(txn);
    ///     let all = accounts.get("ann")?.unwrap_or(0);
    ///     accounts.put("ann", &0)?;
    ///     accounts.put("bob", &all)
    /// })?;
    /// assert_eq!(accounts.get("bob")?, Some(7));
    /// # Ok(())
    /// # }
    /// ```
    pub fn within<'v>(&'v self, txn: &'v Txn) -> TypedTxn<'v, K, V> {
        TypedTxn::new(self, txn)
    }

    /// Adds changes of the tree to `batch`.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let names = db.open_typed::<u64, String>("names")?;
    /// let ids = db.open_typed::<String, u64>("ids")?;
    /// let mut batch = esker::Batch::new();
    /// names.add_to(&mut batch).put(7, "Ada")?;
    /// ids.add_to(&mut batch).put("Ada", &7)?;
    /// db.write(&batch)?;
    /// assert_eq!(ids.get("Ada")?, Some(7));
    /// # Ok(())
    /// # }
    /// ```
    pub fn add_to<'v>(&'v self, batch: &'v mut Batch) -> TypedBatch<'v, K, V> {
        TypedBatch::new(self, batch)
    }

    // ---- bytes and types -------------------------------------------------------------------------------

    /// Calls `write` with the bytes of `key` and `value`.
    fn encoded<T>(
        &self,
        key: K::Ref<'_>,
        value: &V::Ref,
        write: impl FnOnce(&[u8], &[u8]) -> Result<T>,
    ) -> Result<T> {
        K::encoded(key, |key| match V::encoded(value, |value| write(key, value)) {
            Ok(written) => written,
            Err(error) => Err(self.unfit(key, &error)),
        })
    }

    /// The bytes of `key`, for calls of [`TypedTree::tree`] that this layer does not offer: [`Tree::put_opts`],
    /// [`Tree::merge`] and others. [`KeyCodec::decode`] does the reverse.
    pub fn key_bytes(key: K::Ref<'_>) -> Vec<u8> {
        K::encoded(key, <[u8]>::to_vec)
    }

    /// The bytes of `new`, the value to be of `key`.
    fn to_bytes(&self, key: &[u8], new: Option<&V::Value>) -> Result<Option<Vec<u8>>> {
        new.map(|new| self.value_bytes(key, new.borrow())).transpose()
    }

    fn value_bytes(&self, key: &[u8], value: &V::Ref) -> Result<Vec<u8>> {
        V::encoded(value, <[u8]>::to_vec).map_err(|error| self.unfit(key, &error))
    }

    fn unfit(&self, key: &[u8], error: &Error) -> Error {
        let (key, name) = (shown(key), self.name());
        let message =
            format!("the value for key {key} of tree \"{name}\" has no encoding: {}", error.message());
        Error::new(error.kind(), message)
    }

    fn key_of(&self, key: &[u8]) -> Result<K::Key> {
        K::decode(key).map_err(|error| {
            let (key, name, why) = (shown(key), self.name(), error.message());
            let wanted = std::any::type_name::<K::Key>();
            Error::new(error.kind(), format!("key {key} of tree \"{name}\" is no {wanted}: {why}"))
        })
    }

    fn value_of(&self, key: &[u8], value: &[u8]) -> Result<V::Value> {
        V::decode(value).map_err(|error| {
            let (key, name, why) = (shown(key), self.name(), error.message());
            let wanted = std::any::type_name::<V::Value>();
            let message = format!("the value of key {key} of tree \"{name}\" is no {wanted}: {why}");
            Error::new(error.kind(), message)
        })
    }

    fn found(&self, key: &[u8], value: Option<Value>) -> Result<Option<V::Value>> {
        value.map(|value| self.value_of(key, &value.bytes()?)).transpose()
    }

    fn pair(&self, pair: Option<(Vec<u8>, Value)>) -> Result<Option<Pair<K, V>>> {
        let Some((key, value)) = pair else { return Ok(None) };
        Ok(Some((self.key_of(&key)?, self.value_of(&key, &value.bytes()?)?)))
    }
}

impl<K: KeyCodec> TypedTree<K, i64> {
    /// Adds `number` to the value of `key`, without reading it: [`Tree::add`].
    ///
    /// # Errors
    /// As [`Tree::merge`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let visits = db.open_typed::<String, i64>("visits")?;
    /// visits.add("page 1", 1)?;
    /// visits.add("page 1", 1)?;
    /// assert_eq!(visits.get("page 1")?, Some(2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn add(&self, key: K::Ref<'_>, number: i64) -> Result<()> {
        K::encoded(key, |key| self.tree.add(key, number))
    }
}

fn scan_range<'k, K: KeyCodec>(range: &impl RangeBounds<K::Ref<'k>>) -> ScanRange {
    let bytes = |bound: Bound<&K::Ref<'k>>| bound.map(|key| K::encoded(*key, <[u8]>::to_vec));
    ScanRange::from((bytes(range.start_bound()), bytes(range.end_bound())))
}
