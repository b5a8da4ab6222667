//! Writes that depend on the present value of their key.

use std::borrow::Cow;

use super::{Snapshot, Tree};
use crate::cursor::Beside;
use crate::error::{Error, Result};
use crate::value::Value;
use crate::write::batch::{Batch, check_key};

/// The result of [`Tree::compare_and_swap`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Swap<T = Value> {
    /// The key had the expected value, and has the new one.
    Done,
    /// Nothing was changed: the key had this value (`None` if it was absent).
    Found(Option<T>),
}

impl<T> Swap<T> {
    /// Whether the key has the new value.
    pub fn is_done(&self) -> bool {
        matches!(self, Swap::Done)
    }
}

/// The new value of a key.
enum New<'v> {
    Put(Cow<'v, [u8]>),
    Delete,
}

impl<'v> New<'v> {
    fn of(value: Option<impl Into<Cow<'v, [u8]>>>) -> New<'v> {
        value.map_or(New::Delete, |value| New::Put(value.into()))
    }
}

impl Tree {
    /// Writes `new` (or deletes, for `None`) if the value of `key` is `expected` (`None`: absent) at exactly that
    /// moment. If it is not, returns the present value. The values are compared without their expiry and attributes;
    /// the new value has neither.
    ///
    /// # Errors
    /// As [`Tree::put`] and [`Tree::get`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// use esker::Swap;
    /// let locks = db.tree("locks")?;
    /// assert!(locks.compare_and_swap("door", None, Some(b"Ann"))?.is_done());
    /// match locks.compare_and_swap("door", None, Some(b"Bob"))? {
    ///     Swap::Found(Some(holder)) => assert_eq!(holder.bytes()?[..], b"Ann"[..]),
    ///     other => panic!("{other:?}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Swap> {
        let mut matched = false;
        let found = self.modify(key.as_ref(), |current| {
            matched = match (current, expected) {
                (Some(value), Some(expected)) => {
                    value.len() == expected.len() as u64 && value.bytes()?[..] == *expected
                }
                (current, expected) => current.is_none() && expected.is_none(),
            };
            Ok::<_, Error>(matched.then(|| New::of(new)))
        })?;
        Ok(if matched { Swap::Done } else { Swap::Found(found) })
    }

    /// Replaces the value of `key` by the result of `change` (`None`: absent). If another write to the key comes in
    /// between, `change` is called again. Returns the new value, which has no expiry and no attributes.
    ///
    /// # Errors
    /// As [`Tree::put`] and [`Tree::get`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let counters = db.tree("counters")?;
    /// let add_one = |old: Option<&[u8]>| Some((old.map_or(0, |v| v[0]) + 1).to_le_bytes().to_vec());
    /// counters.update("visits", add_one)?;
    /// assert_eq!(counters.update("visits", add_one)?, Some(vec![2]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn update(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        self.try_update(key, |old| Ok::<_, Error>(change(old)))
    }

    /// Like [`Tree::update`], for a `change` that may fail. Then nothing is written.
    ///
    /// # Errors
    /// The error of `change`; otherwise as [`Tree::update`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// db.put("age", "42")?;
    /// let one_more = |old: Option<&[u8]>| -> Result<_, Box<dyn std::error::Error>> {
    ///     let age: u32 = std::str::from_utf8(old.unwrap_or(b"0"))?.parse()?;
    ///     Ok(Some((age + 1).to_string().into_bytes()))
    /// };
    /// assert_eq!(db.default_tree().try_update("age", one_more)?.as_deref(), Some(&b"43"[..]));
    /// db.put("age", "old")?;
    /// assert!(db.default_tree().try_update("age", one_more).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_update<E: From<Error>>(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<&[u8]>) -> std::result::Result<Option<Vec<u8>>, E>,
    ) -> std::result::Result<Option<Vec<u8>>, E> {
        let mut new = None;
        self.modify(key.as_ref(), |current| {
            let current = current.map(Value::bytes).transpose()?;
            new = change(current.as_deref())?;
            Ok::<_, E>(Some(New::of(new.clone())))
        })?;
        Ok(new)
    }

    /// Gives `key` the value `value`, without an expiry or attributes, and returns its earlier value. [`Tree::put`]
    /// does not read that, and is faster.
    ///
    /// # Errors
    /// As [`Tree::put`] and [`Tree::get`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let names = db.tree("names")?;
    /// assert!(names.insert("7", "Ada")?.is_none());
    /// assert_eq!(names.insert("7", "Bo")?.expect("it was there").bytes()?[..], b"Ada"[..]);
    /// assert_eq!(names.put_if_absent("7", "Cy")?.expect("it is there").bytes()?[..], b"Bo"[..]);
    /// assert_eq!(names.remove("7")?.expect("it was there").bytes()?[..], b"Bo"[..]);
    /// assert!(names.remove("7")?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.modify(key.as_ref(), |_| Ok(Some(New::of(Some(value.as_ref())))))
    }

    /// Deletes `key`, and returns its earlier value. [`Tree::delete`] does not read that, and is faster.
    ///
    /// # Errors
    /// As [`Tree::put`] and [`Tree::get`].
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.modify(key.as_ref(), |current| Ok(current.map(|_| New::Delete)))
    }

    /// Gives `key` the value `value` if the key is absent. Otherwise returns its present value.
    ///
    /// # Errors
    /// As [`Tree::put`] and [`Tree::get`].
    pub fn put_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.modify(key.as_ref(), |current| {
            Ok(if current.is_none() { Some(New::of(Some(value.as_ref()))) } else { None })
        })
    }

    /// Reads, calls `decide` (`None`: no change), and writes if no newer version has come meanwhile. Otherwise starts
    /// over. Returns the result of the last read.
    fn modify<'v, E: From<Error>>(
        &self,
        key: &[u8],
        mut decide: impl FnMut(Option<&Value>) -> std::result::Result<Option<New<'v>>, E>,
    ) -> std::result::Result<Option<Value>, E> {
        check_key(key)?;
        let durability = self.store.options().durability;
        loop {
            // The snapshot keeps merges from folding later versions into the bottom level, where they would lose the
            // sequence numbers that show them to be newer.
            let tree = self.at_fixed_time();
            let snapshot = Snapshot::for_one_call(&self.owner);
            let current = snapshot.get(&tree, key)?;
            let lasting = self.lasting(current.as_ref().and_then(Value::lapses_us));
            let Some(new) = decide(current.as_ref())? else {
                self.check_has(key)?;
                return Ok(current);
            };
            let seen = snapshot.seq();
            let unchanged = || Ok(self.is_unchanged(key, seen)? && lasting.holds());
            let is_written = match new {
                New::Put(value) => {
                    self.put_one_if(key, &value, Beside::Nothing, durability, Some(&unchanged))?
                }
                New::Delete => {
                    let mut batch = Batch::new();
                    batch.delete(self, key)?;
                    self.store.writes().write_if(&batch, durability, Some(&unchanged))?.is_some()
                }
            };
            if is_written {
                return Ok(current);
            }
        }
    }
}
