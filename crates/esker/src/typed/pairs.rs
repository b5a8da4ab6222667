//! The pairs of a typed tree: ranges and cursors that decode the bytes that the tree's own ranges and cursors lend.

use std::fmt;
use std::iter::FusedIterator;

use super::{KeyCodec, Pair, TypedTree, ValueCodec};
use crate::error::Result;
use crate::read::both_ends::Range;
use crate::read::lent::ValueRef;
use crate::tree::Cursor;
use crate::txn::TxnRange;

/// The pairs of a range of a [`TypedTree`] in the order of their keys, from either end or from both. An error ends the
/// iteration.
pub struct TypedRange<K, V> {
    tree: TypedTree<K, V>,
    range: Range,
    is_over: bool,
}

impl<K, V> fmt::Debug for TypedRange<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedRange").field("tree", &self.tree).field("range", &self.range).finish()
    }
}

impl<K, V> TypedRange<K, V> {
    pub(super) fn new(tree: &TypedTree<K, V>, range: Range) -> Self {
        TypedRange { tree: tree.clone(), range, is_over: false }
    }
}

impl<K: KeyCodec, V: ValueCodec> TypedRange<K, V> {
    fn step<F>(&mut self, step: F) -> Option<Result<Pair<K, V>>>
    where
        F: FnOnce(&mut Range) -> Result<Option<(&[u8], ValueRef<'_>)>>,
    {
        if self.is_over {
            return None;
        }
        let pair = match step(&mut self.range) {
            Ok(Some((key, value))) => decoded(&self.tree, key, value).map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        self.is_over = !matches!(pair, Ok(Some(_)));
        pair.transpose()
    }
}

fn decoded<K: KeyCodec, V: ValueCodec>(
    tree: &TypedTree<K, V>,
    key: &[u8],
    value: ValueRef<'_>,
) -> Result<Pair<K, V>> {
    Ok((tree.key_of(key)?, tree.value_of(key, &value.bytes()?)?))
}

impl<K: KeyCodec, V: ValueCodec> Iterator for TypedRange<K, V> {
    type Item = Result<Pair<K, V>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(Range::next_ref)
    }
}

impl<K: KeyCodec, V: ValueCodec> DoubleEndedIterator for TypedRange<K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(Range::next_back_ref)
    }
}

impl<K: KeyCodec, V: ValueCodec> FusedIterator for TypedRange<K, V> {}

/// The pairs of a range of a [`TypedTree`] as a transaction sees them, in the order of their keys, from either end or
/// from both ([`TxnRange`]). An error ends the iteration.
pub struct TypedTxnRange<'v, K, V> {
    tree: &'v TypedTree<K, V>,
    range: TxnRange<'v>,
    is_over: bool,
}

impl<K, V> fmt::Debug for TypedTxnRange<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedTxnRange").field("tree", &self.tree).finish_non_exhaustive()
    }
}

impl<'v, K: KeyCodec, V: ValueCodec> TypedTxnRange<'v, K, V> {
    pub(super) fn new(tree: &'v TypedTree<K, V>, range: TxnRange<'v>) -> Self {
        TypedTxnRange { tree, range, is_over: false }
    }

    fn decoded(&mut self, pair: Option<Result<(Vec<u8>, Vec<u8>)>>) -> Option<Result<Pair<K, V>>> {
        let decode = |(key, value): (Vec<u8>, Vec<u8>)| {
            Ok((self.tree.key_of(&key)?, self.tree.value_of(&key, &value)?))
        };
        let pair = pair?.and_then(decode);
        self.is_over = pair.is_err();
        Some(pair)
    }
}

impl<K: KeyCodec, V: ValueCodec> Iterator for TypedTxnRange<'_, K, V> {
    type Item = Result<Pair<K, V>>;

    fn next(&mut self) -> Option<Self::Item> {
        let pair = if self.is_over { None } else { self.range.next() };
        self.decoded(pair)
    }
}

impl<K: KeyCodec, V: ValueCodec> DoubleEndedIterator for TypedTxnRange<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let pair = if self.is_over { None } else { self.range.next_back() };
        self.decoded(pair)
    }
}

impl<K: KeyCodec, V: ValueCodec> FusedIterator for TypedTxnRange<'_, K, V> {}

/// A [`Cursor`] over a [`TypedTree`]. Keys and values are decoded when they are requested.
///
/// # Example
/// ```
/// # fn main() -> esker::Result<()> {
/// # let db = esker::Db::open_in_memory(esker::Options::default())?;
/// let squares = db.open_typed::<i32, i32>("squares")?;
/// for i in -3..=3 {
///     squares.put(i, &(i * i))?;
/// }
/// let mut cursor = squares.cursor()?;
/// assert!(cursor.seek(-1)? && cursor.prev()?);
/// assert_eq!((cursor.key()?, cursor.value()?), (Some(-2), Some(4)));
/// # Ok(())
/// # }
/// ```
pub struct TypedCursor<K, V> {
    tree: TypedTree<K, V>,
    cursor: Cursor,
}

impl<K, V> fmt::Debug for TypedCursor<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedCursor").field("tree", &self.tree).finish_non_exhaustive()
    }
}

impl<K, V> TypedCursor<K, V> {
    pub(super) fn new(tree: &TypedTree<K, V>, cursor: Cursor) -> Self {
        TypedCursor { tree: tree.clone(), cursor }
    }

    /// Moves to the first pair: [`Cursor::first`].
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn first(&mut self) -> Result<bool> {
        self.cursor.first()
    }

    /// Moves to the last pair: [`Cursor::last`].
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn last(&mut self) -> Result<bool> {
        self.cursor.last()
    }

    /// Moves to the next pair: [`Cursor::next`].
    ///
    /// # Errors
    /// As [`Cursor::first`].
    #[expect(clippy::should_implement_trait, reason = "it moves, as that of a cursor over bytes does")]
    pub fn next(&mut self) -> Result<bool> {
        self.cursor.next()
    }

    /// Moves to the pair before: [`Cursor::prev`].
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn prev(&mut self) -> Result<bool> {
        self.cursor.prev()
    }

    /// Moves to the current moment of the tree: [`Cursor::refresh`].
    ///
    /// # Errors
    /// As [`Cursor::refresh`].
    pub fn refresh(&mut self) -> Result<()> {
        self.cursor.refresh()
    }
}

impl<K: KeyCodec, V: ValueCodec> TypedCursor<K, V> {
    /// Moves to the first pair whose key is at or after `key`: [`Cursor::seek`].
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn seek(&mut self, key: K::Ref<'_>) -> Result<bool> {
        K::encoded(key, |key| self.cursor.seek(key))
    }

    /// Moves to the last pair whose key is at or before `key`: [`Cursor::seek_for_prev`].
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn seek_for_prev(&mut self, key: K::Ref<'_>) -> Result<bool> {
        K::encoded(key, |key| self.cursor.seek_for_prev(key))
    }

    /// The key of the pair; `None` if the cursor is not at a pair.
    ///
    /// # Errors
    /// The errors of the codec.
    pub fn key(&self) -> Result<Option<K::Key>> {
        self.bytes().map(|key| self.tree.key_of(key)).transpose()
    }

    /// The value of the pair; `None` if the cursor is not at a pair.
    ///
    /// # Errors
    /// As [`ValueRef::bytes`], and the errors of the codec.
    pub fn value(&self) -> Result<Option<V::Value>> {
        self.bytes().map(|key| self.tree.value_of(key, &self.cursor.value().bytes()?)).transpose()
    }

    /// The bytes of the key: at least one.
    fn bytes(&self) -> Option<&[u8]> {
        Some(self.cursor.key()).filter(|key| !key.is_empty())
    }
}
