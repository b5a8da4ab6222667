//! Changing values without reading them.

use super::{Snapshot, Tree};
use crate::cursor::Kind;
use crate::error::Result;
use crate::keys;
use crate::operators::{ADD, APPEND};
use crate::options::Durability;
use crate::read::operands::{Counted, gather_within};
use crate::write::batch::Batch;

/// One merge in this many (a power of two) checks whether its key's operands should become a value.
const SETTLED_ONCE_IN: u64 = 64;

/// The most operands that such a check reads, for each merge since the last check. The check of one merge in 64 reads
/// 256, that of one in 128 reads 512, and so on. Therefore a chain that cannot become a value costs each merge a few
/// reads for each doubling of its length, and a chain that can is found, however long it is.
const READ_PER_MERGE: u64 = 4;

/// The bytes that such a check reads for each operand that it may read.
const BYTES_PER_READ: usize = 64;

/// Fewer operands than this stay as they are.
const SETTLED_FROM: usize = 32;

/// Values longer than this, in bytes, stay as they are: writing them would cost more than reading their operands.
const SETTLED_MAX: usize = 1024;

/// The most operands that a check reads. `chance` is the random number that has led to the check. A check that is half
/// as likely reads twice as many.
fn read_at_most(chance: u64) -> usize {
    let once_in = 1_u64.checked_shl(chance.trailing_zeros()).unwrap_or(1 << 63);
    usize::try_from(once_in.saturating_mul(READ_PER_MERGE)).unwrap_or(usize::MAX)
}

impl Tree {
    /// Changes the value of `key` by `operand` with the merge operator `operator`. This reads nothing and takes as long
    /// as a put. The value is computed when the key is read; flushes and merges compute it permanently.
    ///
    /// [`ADD`] and [`APPEND`] are always available. [`Options::merge_operator`](crate::Options::merge_operator) adds
    /// others; every later opening of the store must add them too. A time to live belongs to the value: operands merged
    /// while it lives end with it, and later ones count as if the key had been absent. A merged value has no
    /// attributes. The computed value is held in memory, however long it is, and stays in the tables: use [`Tree::put`]
    /// for long values. A merge may also write the computed value of the key; for a transaction that has read the key
    /// this is a change. In a transaction use [`Txn::merge`](crate::Txn::merge).
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let log = db.tree("log")?;
    /// log.merge("today", esker::operators::APPEND, "started\n")?;
    /// log.merge("today", esker::operators::APPEND, "stopped\n")?;
    /// assert_eq!(log.get_vec("today")?.as_deref(), Some(&b"started\nstopped\n"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` when the operator does not exist or refuses the operand; otherwise as [`Tree::put`]. If the
    /// operator cannot change the value, every reader of the key gets `InvalidInput`, and so does a range that copies
    /// its pairs when it comes to the key. A put or a deletion of the key ends that.
    pub fn merge(&self, key: impl AsRef<[u8]>, operator: &str, operand: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        Batch::with_scratch(|batch| {
            batch.merge(self, key, operator, operand)?;
            self.store.writes().write(batch, self.store.options().durability)
        })?;
        let chance = self.store.env().random.next_u64();
        if chance.is_multiple_of(SETTLED_ONCE_IN) {
            // The operand is written; this only helps later readers.
            drop(self.settle(key, read_at_most(chance)));
        }
        Ok(())
    }

    /// Writes the value of `key` if it consists of many operands. Then a reader of a counter need not read every
    /// addition since the last flush. Reads at most `read_max` operands.
    fn settle(&self, key: &[u8], read_max: usize) -> Result<()> {
        let snapshot = Snapshot::for_one_call(&self.owner);
        let seen = snapshot.seq();
        let limits = (read_max, read_max.saturating_mul(BYTES_PER_READ));
        let chain = gather_within(&*self.readable_state()?, key, seen, limits)?;
        let Some((operands, base)) = chain else { return Ok(()) };
        // If the handle was given a time, this check must not judge by it: 0 is before every expiry.
        let time_us = if self.given_us().is_some() { 0 } else { snapshot.time_of(self) };
        let base = base.as_ref().map(|(_, kind, stored)| (*kind, stored.as_slice()));
        let Some(counted) = Counted::of(&operands, base, time_us) else { return Ok(()) };
        let (expiry, below) = (counted.expiry(), counted.base);
        let is_plain = below.is_none_or(|entry| entry.kind == Kind::Put) && counted.lapses_us() == expiry;
        if operands.len() < SETTLED_FROM || !is_plain {
            return Ok(());
        }
        let value = below.map(|entry| entry.value);
        let value = self.store.options().merge_operators.apply(key, value, &counted.operands)?;
        if value.len() > SETTLED_MAX.min(self.store.options().separate_at.saturating_sub(1)) {
            return Ok(());
        }
        let unchanged = || self.is_unchanged(key, seen);
        Batch::with_scratch(|batch| {
            batch.add_beside(&self.inner, Kind::Put, expiry.into(), key, &value)?;
            self.store.writes().write_if(batch, Durability::Process, Some(&unchanged)).map(drop)
        })
    }

    /// Adds `number` to the value of `key`; an absent key has 0. [`Tree::merge`] with [`ADD`]. Sums wrap around.
    ///
    /// The value is 8 bytes that [`keys::i64`] encodes: big-endian with the sign bit flipped. Set a counter by
    /// `put(key, keys::i64(7))`, and not by the bytes of [`i64::to_be_bytes`], which would count as a number far below
    /// zero. A value of any other length cannot be added to: see the errors of [`Tree::merge`]. A tree of
    /// [`Db::open_typed::<K, i64>`](crate::Db::open_typed) does this automatically.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let visits = db.tree("visits")?;
    /// visits.add("index.html", 3)?;
    /// visits.add("index.html", -1)?;
    /// let count = visits.get_vec("index.html")?.expect("it was added to");
    /// assert_eq!(esker::keys::decode_i64(&count)?, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Tree::merge`].
    pub fn add(&self, key: impl AsRef<[u8]>, number: i64) -> Result<()> {
        self.merge(key, ADD, keys::i64(number))
    }

    /// Appends `bytes` to the value of `key`; an absent key counts as empty. [`Tree::merge`] with [`APPEND`].
    ///
    /// # Errors
    /// As [`Tree::merge`].
    pub fn append(&self, key: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Result<()> {
        self.merge(key, APPEND, bytes)
    }
}

impl Batch {
    /// Adds: the operator changes the value of `key` of `tree` by `operand` ([`Tree::merge`]).
    ///
    /// # Errors
    /// As [`Batch::put`], and as [`Tree::merge`] for operators.
    pub fn merge(
        &mut self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        operator: &str,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        let stored = tree.store.options().merge_operators.encode(operator, operand.as_ref())?;
        self.add(tree.inner(), Kind::Merge, key.as_ref(), &stored)?;
        self.happen_at(tree.inner(), tree.given_us());
        self.carry(tree)
    }
}
