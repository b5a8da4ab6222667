//! The changes of trees that a batch may hold.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::{StoredValue, Tree};
use crate::cursor::{Beside, Kind};
use crate::env::us_at;
use crate::error::{Error, ErrorKind, Result};
use crate::read::range::ScanRange;
use crate::value::{PutOptions, Value};
use crate::write::batch::{Batch, HugeValue};

impl Batch {
    /// Adds: `key` of `tree` gets `value`, which is copied.
    ///
    /// # Errors
    /// `InvalidInput` when the key is empty or longer than 128 KiB, or the batch would exceed 4 GiB in the log.
    /// Each operand counts with 9 bytes more than it has, for a time that it may get, and each huge value with the 58 bytes of
    /// the longest pointer.
    pub fn put(&mut self, tree: &Tree, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_until_us(tree, key, value, None)
    }

    /// Adds: `key` of `tree` gets `value` for the time `ttl` from now on ([`Tree::put_for`]).
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn put_for(
        &mut self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        self.put_until_us(tree, key, value, Some(tree.expiry_after(ttl)))
    }

    /// Adds: `key` of `tree` gets `value` until the store's clock shows `moment` ([`Tree::put_until`]).
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn put_until(
        &mut self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        moment: SystemTime,
    ) -> Result<()> {
        self.put_until_us(tree, key, value, Some(us_at(moment)))
    }

    /// Adds: `key` of `tree` gets `value` until the store's clock shows `expires_us`, in microseconds since 1970, or
    /// without end (`None`). [`Value::expires_us`](crate::Value::expires_us) returns this number, so values can be
    /// copied with their expiry. If that time has passed, the key becomes absent immediately, regardless of its earlier
    /// value.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let [from, to] = [(); 2].map(|()| esker::Db::open_in_memory(esker::Options::default()));
    /// # let (from, to) = (from?, to?);
    /// use std::time::Duration;
    /// from.default_tree().put_for("7f3a", "Ada", Duration::from_secs(3600))?;
    /// let value = from.get("7f3a")?.expect("an hour has not passed");
    /// let mut batch = esker::Batch::new();
    /// batch.put_until_us(to.default_tree(), "7f3a", value.bytes()?, value.expires_us())?;
    /// to.write(&batch)?;
    /// assert_eq!(to.get("7f3a")?.expect("nor here").expires_us(), value.expires_us());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn put_until_us(
        &mut self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires_us: Option<u64>,
    ) -> Result<()> {
        self.put_beside(tree, key.as_ref(), value.as_ref(), expires_us.into())
    }

    /// Adds: `key` of `tree` gets `value`, with the expiry and attributes in `options` ([`Tree::put_opts`]).
    ///
    /// # Errors
    /// As [`Batch::put`], and `InvalidInput` when the attributes are longer than 4 KiB.
    pub fn put_opts(
        &mut self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &PutOptions,
    ) -> Result<()> {
        self.put_beside(tree, key.as_ref(), value.as_ref(), options.checked()?)
    }

    #[inline]
    pub(crate) fn put_beside(
        &mut self,
        tree: &Tree,
        key: &[u8],
        value: &[u8],
        beside: Beside<'_>,
    ) -> Result<()> {
        if tree.is_huge(value.len()) {
            self.add_huge(tree.inner(), key, HugeValue::Bytes(Arc::new(value.to_vec())), beside)?;
        } else {
            self.add_beside(tree.inner(), Kind::Put, beside, key, value)?;
        }
        self.carry(tree)
    }

    /// Like [`Batch::put_until_us`], for a value that the batch may keep. A value that is stored outside the tree is not
    /// copied.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let film: std::sync::Arc<[u8]> = vec![7; 1 << 20].into();
    /// let mut batch = esker::Batch::new();
    /// batch.put_owned(db.default_tree(), "film", film.clone(), None)?;
    /// db.write(&batch)?;
    /// assert_eq!(db.get_vec("film")?.as_deref(), Some(&film[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn put_owned(
        &mut self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]> + Send + Sync + 'static,
        expires_us: Option<u64>,
    ) -> Result<()> {
        self.put_owned_beside(tree, key.as_ref(), value, expires_us.into())
    }

    pub(crate) fn put_owned_beside(
        &mut self,
        tree: &Tree,
        key: &[u8],
        value: impl AsRef<[u8]> + Send + Sync + 'static,
        beside: Beside<'_>,
    ) -> Result<()> {
        if tree.is_huge(value.as_ref().len()) {
            self.add_huge(tree.inner(), key, HugeValue::Bytes(Arc::new(value)), beside)?;
        } else {
            self.add_beside(tree.inner(), Kind::Put, beside, key, value.as_ref())?;
        }
        self.carry(tree)
    }

    /// Adds: `key` of `tree` also gets `value`, a huge value of the same tree that a registered snapshot sees, with
    /// `beside`.
    pub(crate) fn put_again(
        &mut self,
        tree: &Tree,
        key: &[u8],
        value: &Value,
        beside: Beside<'_>,
    ) -> Result<()> {
        let copied = match value.pointer() {
            Some(pointer) => tree.store.writes().copy_blob(tree.inner.lineage, key, pointer),
            None => None,
        };
        let lost = || {
            let message = format!("the value that \"{}\" was to get is gone", key.escape_ascii());
            Error::new(ErrorKind::Conflict, message)
        };
        let blob = copied.ok_or_else(lost)?;
        self.add_huge(tree.inner(), key, HugeValue::Stored(Arc::new(blob)), beside)?;
        self.carry(tree)
    }

    /// Adds: `key` of `tree` gets the value `stored`, whose bytes are not copied, with the expiry and the attributes
    /// that its writer has given it.
    ///
    /// # Errors
    /// As [`Batch::put`], and `InvalidInput` when the value was written for another tree.
    pub fn put_stored(&mut self, tree: &Tree, key: impl AsRef<[u8]>, stored: &StoredValue) -> Result<()> {
        stored.add_to(self, tree, key.as_ref())?;
        self.carry(tree)
    }

    /// Adds: all keys of `range` become absent, including those put earlier in the batch ([`Tree::delete_range`]).
    ///
    /// # Errors
    /// `InvalidInput` when the batch would exceed 4 GiB.
    pub fn delete_range(&mut self, tree: &Tree, range: impl Into<ScanRange>) -> Result<()> {
        self.add_range(tree.inner(), &range.into().keys)?;
        self.carry(tree)
    }

    /// Adds: `key` of `tree` becomes absent.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn delete(&mut self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(tree.inner(), Kind::Delete, key.as_ref(), &[])?;
        self.carry(tree)
    }

    /// Makes the batch carry the time that the handle `tree` was given ([`Tree::at_us`]), and write nothing to the
    /// tree. Does nothing if the tree does not take its time from its writes. The other methods carry the time too.
    ///
    /// # Errors
    /// `InvalidInput` when the batch is full.
    pub fn carry(&mut self, tree: &Tree) -> Result<()> {
        tree.given_us.map_or(Ok(()), |time_us| self.add_time(tree.inner(), time_us))
    }
}
