//! Puts and deletions.

use std::time::{Duration, SystemTime};

use super::Tree;
use crate::blob::NewBlob;
use crate::cursor::{Beside, Kind};
use crate::env::us_at;
use crate::error::Result;
use crate::options::Durability;
use crate::read::range::ScanRange;
use crate::value::PutOptions;
use crate::write::batch::{Batch, check_key};

/// Writing.
impl Tree {
    /// Gives `key` the value `value`, with the store's default durability.
    ///
    /// # Errors
    /// `InvalidInput` when the key is empty or too long; `KeyMoved` and `TreeDropped` when the tree does not have the key
    /// any more; `Poisoned`, `ReadOnly`, `Closed`, `OutOfSpace` when the store takes no writes; `Io` when the disk fails.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, self.store.options().durability)
    }

    /// Like [`Tree::put`], with the given durability.
    ///
    /// # Errors
    /// As [`Tree::put`].
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Result<()> {
        self.put_one(key.as_ref(), value.as_ref(), Beside::Nothing, durability)
    }

    /// Deletes `key`. It is not an error if the key is absent.
    ///
    /// # Errors
    /// As [`Tree::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, self.store.options().durability)
    }

    /// Like [`Tree::delete`], with the given durability.
    ///
    /// # Errors
    /// As [`Tree::put`].
    pub fn delete_with(&self, key: impl AsRef<[u8]>, durability: Durability) -> Result<()> {
        Batch::with_scratch(|batch| {
            batch.delete(self, key)?;
            self.store.writes().write(batch, durability)
        })
    }

    /// Gives `key` the value `value` for the time `ttl`. After that the key is absent, as if it had been deleted at
    /// that moment, regardless of its earlier value. A merge frees the space. A `ttl` that cannot be counted in
    /// microseconds since 1970 has no end.
    ///
    /// Time is the machine's, but never goes back: if the machine's clock is set back, the store's clock continues from
    /// its last time.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// use std::time::Duration;
    /// let sessions = db.tree("sessions")?;
    /// sessions.put_for("7f3a", "Ada", Duration::from_secs(3600))?;
    /// assert!(sessions.get("7f3a")?.expect("an hour has not passed").expires_us().is_some());
    /// sessions.put_for("91cc", "Bo", Duration::ZERO)?;
    /// assert!(!sessions.contains("91cc")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Tree::put`].
    pub fn put_for(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, ttl: Duration) -> Result<()> {
        let until = Beside::Until(self.expiry_after(ttl));
        self.put_one(key.as_ref(), value.as_ref(), until, self.store.options().durability)
    }

    /// Like [`Tree::put_for`], until the store's clock shows `moment`. If that has passed, the key becomes absent
    /// immediately. The moment is rounded down to microseconds.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// use std::time::{Duration, SystemTime};
    /// let leases = db.tree("leases")?;
    /// let evening = SystemTime::now() + Duration::from_secs(8 * 3600);
    /// leases.put_until("desk 4", "Ada", evening)?;
    /// let ends = leases.get("desk 4")?.and_then(|lease| lease.expires_at());
    /// assert!(ends.is_some_and(|ends| ends <= evening));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Tree::put`].
    pub fn put_until(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        moment: SystemTime,
    ) -> Result<()> {
        let durability = self.store.options().durability;
        self.put_one(key.as_ref(), value.as_ref(), Beside::Until(us_at(moment)), durability)
    }

    /// Gives `key` the value `value`, with the expiry and attributes in `options` ([`PutOptions`]). Every other put of
    /// the key replaces these too: a value has only the attributes that were put with it.
    ///
    /// # Errors
    /// As [`Tree::put`], and `InvalidInput` when the attributes are longer than 4 KiB.
    pub fn put_opts(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &PutOptions,
    ) -> Result<()> {
        let durability = self.store.options().durability;
        self.put_one(key.as_ref(), value.as_ref(), options.checked()?, durability)
    }

    /// Whether a value of `len` bytes is stored outside the tree.
    pub(super) fn is_huge(&self, len: usize) -> bool {
        len >= self.store.options().separate_at.max(1)
    }

    pub(super) fn put_one(
        &self,
        key: &[u8],
        value: &[u8],
        beside: Beside<'_>,
        durability: Durability,
    ) -> Result<()> {
        self.put_one_if(key, value, beside, durability, None).map(drop)
    }

    /// Gives `key` the value `value` if `condition` holds while no other write is in progress. Returns whether it did.
    pub(super) fn put_one_if(
        &self,
        key: &[u8],
        value: &[u8],
        beside: Beside<'_>,
        durability: Durability,
        condition: Option<&dyn Fn() -> Result<bool>>,
    ) -> Result<bool> {
        if self.is_huge(value.len()) {
            check_key(key)?;
            // A write that is refused should not write a huge value.
            self.inner.state.load().key_bounds.check(&self.inner.name, key)?;
            if self.inner.is_dropped() {
                return Err(self.inner.dropped_error());
            }
            // It goes to its file without a copy.
            let blob = self.store.writes().put_blob(&self.inner, key, value)?;
            return self.put_blob_if(key, blob, beside, durability, condition);
        }
        Batch::with_scratch(|batch| {
            batch.carry(self)?;
            batch.add_beside(&self.inner, Kind::Put, beside, key, value)?;
            self.store.writes().write_if(batch, durability, condition).map(|end| end.is_some())
        })
    }

    /// [`Tree::put_one_if`] of the huge value `blob`.
    pub(super) fn put_blob_if(
        &self,
        key: &[u8],
        blob: NewBlob,
        beside: Beside<'_>,
        durability: Durability,
        condition: Option<&dyn Fn() -> Result<bool>>,
    ) -> Result<bool> {
        let mut batch = Batch::new();
        batch.carry(self)?;
        batch.add_pointer(&self.inner, key, &blob.pointer, beside)?;
        let written = self.store.writes().write_blobs_if(&batch, vec![blob], durability, condition)?;
        Ok(written.is_some())
    }

    /// Deletes all keys of `range`; its direction does not matter. Later puts in the range are not affected. A range
    /// that is empty or has reversed bounds changes nothing.
    ///
    /// In a tree that was split, or is being split, this deletes the keys that the tree has at that time
    /// ([`Tree::key_range`]). A range without any of the tree's keys is refused. Keys of the range that belong to
    /// another tree stay.
    ///
    /// It takes as long as one write, however many keys there are. Until merges have passed all hidden entries, each
    /// read of the tree costs one lookup more. Scans leave the range after some of the hidden entries, except that they
    /// may have to pass those in the memory that takes new writes. [`Db::compact`](crate::Db::compact) merges them all.
    /// Tables that become empty are removed immediately, and huge values within seconds.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// use esker::ScanRange;
    /// let log = db.tree("log")?;
    /// for day in 1..=9 {
    ///     log.put(format!("2026-11-0{day}"), "a line")?;
    /// }
    /// log.delete_range(.."2026-11-08")?;
    /// assert_eq!(log.count(ScanRange::prefix("2026-"))?, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Tree::put`].
    pub fn delete_range(&self, range: impl Into<ScanRange>) -> Result<()> {
        let mut batch = Batch::new();
        batch.delete_range(self, range)?;
        self.store.writes().write(&batch, self.store.options().durability)
    }

    /// Writes the tree's memtables into tables. This is needed only if its writes skip the log
    /// ([`TreeOptions::log`](crate::TreeOptions::log)): all earlier writes then survive power loss.
    ///
    /// # Errors
    /// `Io` or `OutOfSpace`; the data stays in memory. `TreeDropped` when the tree was dropped.
    pub fn flush(&self) -> Result<()> {
        self.store.log().check_changeable()?;
        if self.inner.is_dropped() {
            return Err(self.inner.dropped_error());
        }
        self.store.flusher().flush_trees(std::iter::once(&self.inner))
    }

    /// Flushes the tree, merges it into one sorted run, and drops the versions that its readers can no longer see.
    /// [`Db::compact`](crate::Db::compact) does that for all trees. Returns when the space is free.
    ///
    /// # Errors
    /// As [`Tree::flush`], and `Corruption` when a table cannot be read.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let logs = db.tree("logs")?;
    /// (0..1000_u32).try_for_each(|number| logs.put(number.to_be_bytes(), [7; 1000]))?;
    /// logs.delete_range(..)?;
    /// logs.compact()?;
    /// assert!(db.stats()?.trees.iter().all(|tree| tree.table_entries == 0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn compact(&self) -> Result<()> {
        self.store.log().check_changeable()?;
        if self.inner.is_dropped() {
            return Err(self.inner.dropped_error());
        }
        self.store.compactor().compact_tree(&self.inner)
    }
}
