//! A named keyspace: the handle that a user holds. [`crate::state`] has what is behind it.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::Guard;

use crate::blob::NewBlob;
use crate::canary::broken;
use crate::cursor::{Beside, Content, Expiry, Kind, SeqNo};
use crate::env::us_at;
use crate::error::{Error, Result};
use crate::options::Durability;
use crate::read::both_ends::Range;
use crate::read::get::{find_at, get_at};
use crate::read::meter::{ScanMeter, Scanned};
use crate::read::newer::Newer;
use crate::read::operands::merged_at;
use crate::read::range::ScanRange;
use crate::read::scan::Scan;
use crate::read::view::View;
use crate::state::{TreeInner, TreeState};
use crate::store::{Owner, Store};
use crate::table::BlockSlice;
use crate::trace::{Operation, Subject, perf_context};
use crate::value::{Metadata, PinnedValue, PutOptions, Value};
use crate::version::read_cost::ReadCost;
use crate::write::batch::{Batch, check_key};

mod batch;
mod cached;
mod conditional;
mod cursor;
mod durable;
mod encode;
mod ends;
mod estimate;
mod ingest;
mod merge_operator;
mod settings;
mod snapshot;
mod staging;
mod stream;
mod time;
mod transfer;

/// How many bytes of a large value or load are written between checks for free disk space.
const ROOM_EVERY: u64 = 16 << 20;

pub use conditional::Swap;
pub use cursor::Cursor;
pub use ingest::{Ingest, IngestUnsorted};
pub(crate) use settings::check_tag;
pub use snapshot::Snapshot;
pub use staging::{StagedValue, StagedWriter, Staging};
pub use stream::{StoredValue, ValueWriter};

/// A tree's content at a read point, with its number and time.
type Passing = (Arc<TreeState>, (SeqNo, u64));

/// A named keyspace of a store: a sorted map from keys to values. Cheap to clone; any number of threads may use it at
/// once. Readers take no locks and never wait for writers.
///
/// Keys are 1 to 131,072 bytes long and sorted bytewise; [`crate::keys`] encodes numbers and tuples so that their keys
/// sort as they do. A value is any bytes, of any length: [`Tree::put_from`] and [`Tree::writer`] take values that are
/// longer than memory.
#[derive(Clone)]
pub struct Tree {
    /// Dropped first: it may close the store.
    owner: Arc<Owner>,
    /// The owner's store, for direct access.
    store: Arc<Store>,
    inner: Arc<TreeInner>,
    /// The time that the handle was given ([`Tree::at_us`]).
    given_us: Option<u64>,
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").field("name", &self.inner.name).finish_non_exhaustive()
    }
}

/// The result of a read.
enum Answer<T> {
    Small(T),
    Whole(Value),
}

/// A copy of an entry with a pointer.
struct HugeEntry {
    expiry: Option<Expiry>,
    attributes: Vec<u8>,
    pointer: Vec<u8>,
}

impl HugeEntry {
    fn of(entry: &Content<'_>) -> HugeEntry {
        let (attributes, pointer) = (entry.attributes.to_vec(), entry.value.to_vec());
        HugeEntry { expiry: entry.expiry, attributes, pointer }
    }

    fn content(&self) -> Content<'_> {
        let (attributes, value) = (&self.attributes[..], &self.pointer[..]);
        Content { kind: Kind::Blob, expiry: self.expiry, attributes, value }
    }
}

impl<T> Answer<T> {
    /// What was made of a small value, or what `read` makes of a huge one.
    #[inline]
    fn or_read(self, read: impl FnOnce(Value) -> Result<T>) -> Result<T> {
        match self {
            Answer::Small(made) => Ok(made),
            Answer::Whole(value) => read(value),
        }
    }
}

impl Tree {
    pub(crate) fn new(owner: &Arc<Owner>, inner: Arc<TreeInner>) -> Tree {
        Tree { owner: Arc::clone(owner), store: Arc::clone(owner.store()), inner, given_us: None }
    }

    pub(crate) fn inner(&self) -> &Arc<TreeInner> {
        &self.inner
    }

    /// Refuses to use the tree with `other`, which is of the store `store`.
    pub(crate) fn check_store(&self, store: &Store, other: &str) -> Result<()> {
        if self.inner.store != store.id() {
            return Err(Error::invalid(format!("the tree belongs to another store than the {other}")));
        }
        Ok(())
    }

    /// The tree's name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The keys that the tree may hold: all, unless it was split ([`Db::split`](crate::Db::split)).
    pub fn key_range(&self) -> ScanRange {
        ScanRange::of(self.inner.state.load().key_bounds.range.clone())
    }

    // ---- writing -------------------------------------------------------------------------------------

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

    /// Deletes `key`. An absent key is no error.
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

    /// Gives `key` the value `value` for the time `ttl`. Then the key is absent, as if it had been deleted at that
    /// moment, whatever it had before. A merge frees the space. A `ttl` that cannot be counted in microseconds since
    /// 1970 has no end.
    ///
    /// Time is the machine's, but never goes back: if its clock is set back, the store's clock goes on from where it
    /// was.
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

    /// Like [`Tree::put_for`], until the store's clock shows `moment`. If that has passed, the key becomes absent at
    /// once. Microseconds count; what is finer is cut off.
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

    /// Gives `key` the value `value`, with what `options` store beside it: its expiry and its attributes
    /// ([`PutOptions`]). Every other put of the key replaces these too: a value has no attributes but those that were
    /// put with it.
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
    fn is_huge(&self, len: usize) -> bool {
        len >= self.store.options().separate_at.max(1)
    }

    fn put_one(&self, key: &[u8], value: &[u8], beside: Beside<'_>, durability: Durability) -> Result<()> {
        self.put_one_if(key, value, beside, durability, None).map(drop)
    }

    /// Gives `key` the value `value` if `condition` holds while no other write is in progress. Returns whether it did.
    fn put_one_if(
        &self,
        key: &[u8],
        value: &[u8],
        beside: Beside<'_>,
        durability: Durability,
        condition: Option<&dyn Fn() -> Result<bool>>,
    ) -> Result<bool> {
        if self.is_huge(value.len()) {
            check_key(key)?;
            // A write that is refused should write no huge value.
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
    fn put_blob_if(
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
    /// ([`Tree::key_range`]). A range with none of the tree's keys is refused. Keys of the range that belong to another
    /// tree stay.
    ///
    /// It takes as long as one write, however many keys there are. Until merges have passed everything that it hides,
    /// each read of the tree costs one lookup more, and scans pass over the hidden entries;
    /// [`Db::compact`](crate::Db::compact) merges them all. Tables that become empty are removed at once, and huge
    /// values within seconds.
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

    // ---- reading -------------------------------------------------------------------------------------

    /// The current state of the tree. If it is loaded before a sequence number, it holds everything that a single read
    /// at that number may return.
    #[inline]
    pub(crate) fn readable_state(&self) -> Result<Guard<Arc<TreeState>>> {
        let state = self.inner.state.load();
        // In this order: closing the store and dropping the tree empty the state.
        self.store.check_open()?;
        if self.inner.is_dropped() {
            return Err(self.inner.dropped_error());
        }
        if state.levels.read_cost().is_some_and(ReadCost::take_due) {
            self.store.compactor().consider_merging(&self.inner);
        }
        Ok(state)
    }

    /// The tree's state and a sequence number that fit together: for all keys, the state holds every write up to that
    /// number.
    fn consistent_state(&self) -> Result<(Arc<TreeState>, SeqNo)> {
        loop {
            let state = Guard::into_inner(self.readable_state()?);
            let seq = self.store.commit().visible();
            // Otherwise a memtable begun in between may hold writes at or before `seq` that `state` lacks.
            if Arc::ptr_eq(&state, &self.inner.state.load()) {
                return Ok((state, seq));
            }
        }
    }

    /// Whether `key` has no version newer than `seen`, a registered snapshot.
    pub(crate) fn is_unchanged(&self, key: &[u8], seen: SeqNo) -> Result<bool> {
        Ok(!Newer::than(seen, &*self.readable_state()?).has_key(key, seen)?)
    }

    /// Like [`Tree::consistent_state`], with a time at which there was no newer number. `None` if the read point must
    /// be registered: there are huge values, which only a registered snapshot keeps, or a `Lasting` write is under way.
    fn passing_read_point(&self) -> Result<Option<Passing>> {
        loop {
            let fixed_us = self.fixed_us();
            let (state, seen) = self.consistent_state()?;
            if self.store.blobs().is_used() {
                return Ok(None);
            }
            match self.store.snapshots().unregistered_read_point(self.store.commit(), self.store.clock()) {
                Some((seq, time)) if seq == seen => {
                    return Ok(Some((state, (seq, fixed_us.unwrap_or(time)))));
                }
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    /// The newest value: the result of `use_value` for a small one, or a handle of a huge one.
    #[inline]
    fn get_now<T>(
        &self,
        key: &[u8],
        use_value: impl FnOnce(&Content<'_>, Option<&BlockSlice>) -> T,
    ) -> Result<Option<Answer<T>>> {
        let metrics = self.store.metrics();
        metrics.begin(Operation::Get);
        let expires = Cell::new(false);
        let now = || {
            expires.set(true);
            self.now_us()
        };
        let found = self.readable_state().and_then(|state| {
            let seen = self.store.commit().visible();
            let seen = if broken("stale-read") { seen.saturating_sub(2) } else { seen };
            find_at(&state, key, seen, now, |entry, block| match entry.kind {
                Kind::Blob => Err(Some(HugeEntry::of(&entry))),
                Kind::Merge => Err(None),
                _ => Ok(use_value(&entry, block)),
            })
        });
        // This is done here and not by `measure`, which would have to move the result.
        if perf_context::are_there() {
            metrics.end(Operation::Get, || Subject::of(&self.inner.name, key));
        }
        Ok(match found? {
            // A write that was not visible yet may have replaced it before it expired.
            None if expires.get() => self.get_at_one_read_point(key)?.map(Answer::Whole),
            None => None,
            Some(Ok(used)) => Some(Answer::Small(used)),
            Some(Err(Some(entry))) => self.get_huge(key, &entry)?.map(Answer::Whole),
            Some(Err(None)) => self.get_at_one_read_point(key)?.map(Answer::Whole),
        })
    }

    /// Runs `work`, a get of `key`, and measures it.
    #[inline]
    fn measured<T>(&self, key: &[u8], work: impl FnOnce() -> T) -> T {
        self.store.metrics().measure(Operation::Get, move || Subject::of(&self.inner.name, key), work)
    }

    /// The value of a key whose newest version is an operand, or has expired. The read point is registered, so that a
    /// huge value below stays. Its time is one at which nothing newer was visible.
    #[cold]
    fn get_at_one_read_point(&self, key: &[u8]) -> Result<Option<Value>> {
        // This is part of a get that has already been counted.
        perf_context::begin();
        let tree = self.at_fixed_time();
        let found = Snapshot::for_one_call(&self.owner).find(&tree, key);
        if perf_context::are_there() {
            self.store.metrics().end(Operation::Get, || Subject::of(&self.inner.name, key));
        }
        found
    }

    /// The huge value of `entry`. If it was overwritten and freed meanwhile, the current value of `key`.
    #[cold]
    fn get_huge(&self, key: &[u8], entry: &HugeEntry) -> Result<Option<Value>> {
        match Value::of_blob(self.store.blobs(), key, &entry.content()) {
            // Values that a registered snapshot sees are not freed.
            Err(_) => {
                let tree = self.at_fixed_time();
                Snapshot::for_one_call(&self.owner).find(&tree, key)
            }
            found => found.map(Some),
        }
    }

    /// The value of `key`, as a handle that reads a huge value whole, in part or as a stream. For the bytes of a small
    /// one, [`Tree::get_vec`], [`Tree::get_with`] and [`Tree::get_pinned`] take a step less.
    ///
    /// # Errors
    /// `Corruption` or `Io` when a table cannot be read, `Closed` when the store is closed, `TreeDropped` when the tree
    /// was dropped.
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        Ok(self.get_now(key.as_ref(), |entry, _| Value::copy_of(entry))?.map(|found| match found {
            Answer::Small(value) | Answer::Whole(value) => value,
        }))
    }

    /// The bytes of the value of `key`.
    ///
    /// # Errors
    /// As [`Tree::get`].
    #[inline]
    pub fn get_vec(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        match self.get_now(key.as_ref(), |entry, _| entry.value.to_vec())? {
            None => Ok(None),
            Some(Answer::Small(bytes)) => Ok(Some(bytes)),
            Some(Answer::Whole(value)) => value.into_vec().map(Some),
        }
    }

    /// Copies the value of `key` into `buf`, replacing its content; `false` (and an empty `buf`) if the key is absent.
    /// Allocates nothing if `buf` is large enough.
    ///
    /// # Errors
    /// As [`Tree::get`].
    #[inline]
    pub fn get_into(&self, key: impl AsRef<[u8]>, buf: &mut Vec<u8>) -> Result<bool> {
        buf.clear();
        match self.get_now(key.as_ref(), |entry, _| buf.extend_from_slice(entry.value))? {
            None => Ok(false),
            Some(Answer::Small(())) => Ok(true),
            Some(Answer::Whole(value)) => value.read_into(buf).map(|()| true),
        }
    }

    /// Calls `use_bytes` with the bytes of the value of `key`, and returns what it returns; `None` if the key is absent.
    /// A value in a table or in memory is lent and not copied. A huge one is read first.
    ///
    /// The call counts as a part of the read, also in the statistics.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let stock = db.tree("stock")?;
    /// stock.put("screws", 250_u32.to_le_bytes())?;
    /// let count = |bytes: &[u8]| Some(u32::from_le_bytes(bytes.try_into().ok()?));
    /// assert_eq!(stock.get_with("screws", count)?.flatten(), Some(250));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Tree::get`], and as [`Value::bytes`] for a huge value.
    #[inline]
    pub fn get_with<T>(
        &self,
        key: impl AsRef<[u8]>,
        use_bytes: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        let mut use_bytes = Some(use_bytes);
        let mut used = |bytes: &[u8]| use_bytes.take().map(|use_bytes| use_bytes(bytes));
        match self.get_now(key.as_ref(), |entry, _| used(entry.value))? {
            None => Ok(None),
            Some(Answer::Small(made)) => Ok(made),
            Some(Answer::Whole(value)) => Ok(used(&value.bytes()?)),
        }
    }

    /// The bytes of the value of `key` in a handle that can be kept and cloned. A value in a table is not copied: see
    /// [`PinnedValue`].
    ///
    /// # Errors
    /// As [`Tree::get_with`].
    #[inline]
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedValue>> {
        let found = self.get_now(key.as_ref(), PinnedValue::of_entry)?;
        found.map(|found| found.or_read(PinnedValue::read)).transpose()
    }

    /// What is known of the value of `key` without its bytes: its length, its expiry and its attributes. A value that
    /// consists of operands is computed.
    ///
    /// # Errors
    /// As [`Tree::get`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// use esker::PutOptions;
    /// let films = db.tree("films")?;
    /// films.put_opts("film", vec![7; 1 << 20], &PutOptions::default().attributes("video/webm"))?;
    /// // Neither call reads the film or writes it anew.
    /// assert!(films.set_expiry("film", Some(4_000_000_000_000_000))?);
    /// let film = films.metadata("film")?.expect("it was put");
    /// assert_eq!((film.len, film.expires_us), (1 << 20, Some(4_000_000_000_000_000)));
    /// assert_eq!(film.attributes, b"video/webm");
    /// # Ok(())
    /// # }
    /// ```
    pub fn metadata(&self, key: impl AsRef<[u8]>) -> Result<Option<Metadata>> {
        let found = self.get_now(key.as_ref(), |entry, _| Metadata::of_entry(entry))?;
        found.map(|found| found.or_read(|value| Ok(value.metadata()))).transpose()
    }

    /// The values of `keys`, all at one moment, in the order of the keys.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn get_many(&self, keys: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<Vec<Option<Value>>> {
        let Some((state, (seq, time))) = self.passing_read_point()? else {
            let tree = self.at_fixed_time();
            let snapshot = Snapshot::for_one_call(&self.owner);
            return keys.into_iter().map(|key| snapshot.get(&tree, key)).collect();
        };
        let operators = &self.store.options().merge_operators;
        let value_of = |key: &[u8], entry: &Content<'_>| match entry.kind {
            Kind::Merge => merged_at(&state, key, (seq, time), operators, self.store.blobs()),
            _ => Ok(Value::copy_of(entry)),
        };
        let get = |key: &[u8]| get_at(&state, key, seq, || time, |entry| value_of(key, &entry))?.transpose();
        keys.into_iter().map(|key| self.measured(key.as_ref(), || get(key.as_ref()))).collect()
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As [`Tree::get`].
    #[inline]
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        self.measured(key, || {
            let (state, expires) = (self.readable_state()?, Cell::new(false));
            let now = || {
                expires.set(true);
                self.now_us()
            };
            let found = get_at(&state, key, self.store.commit().visible(), now, |_| ())?.is_some();
            if found || !expires.get() { Ok(found) } else { Ok(self.get_at_one_read_point(key)?.is_some()) }
        })
    }

    /// The pairs in `range` at the current moment, in one direction.
    ///
    /// # Errors
    /// As [`Tree::get`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// use esker::ScanRange;
    /// let log = db.tree("log")?;
    /// log.put("2026-11-01", "a line")?;
    /// log.put("2026-11-02", "another")?;
    /// let mut newest_first = log.scan(ScanRange::from("2026-11-01"..).reverse())?;
    /// while newest_first.advance()? {
    ///     let (day, line) = newest_first.pair()?;
    ///     println!("{day:?} {line:?}");
    /// }
    /// assert_eq!(log.scan(..="2026-11-01")?.count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn scan(&self, range: impl Into<ScanRange>) -> Result<Scan> {
        self.scan_of(range.into())
    }

    fn scan_of(&self, range: ScanRange) -> Result<Scan> {
        let Some((state, (seq, time))) = self.passing_read_point()? else {
            let tree = self.at_fixed_time();
            return Snapshot::for_one_call(&self.owner).scan(&tree, range);
        };
        let meter = ScanMeter::begin(self.scanned(), &self.inner);
        Scan::new(&[state], (seq, time), range, None, meter)
    }

    /// The pairs in `range` at the current moment, from either end or from both. For one direction, [`Tree::scan`] does
    /// less.
    ///
    /// # Errors
    /// As [`Tree::get`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let words = db.tree("words")?;
    /// for word in ["ant", "bee", "cat", "dog"] {
    ///     words.put(word, [])?;
    /// }
    /// let mut range = words.range("b".."d")?;
    /// assert_eq!(range.next_back_ref()?.map(|(word, _)| word), Some(&b"cat"[..]));
    /// assert_eq!(range.next_ref()?.map(|(word, _)| word), Some(&b"bee"[..]));
    /// assert!(range.next_back_ref()?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn range(&self, range: impl Into<ScanRange>) -> Result<Range> {
        Ok(Range::new(self.view()?, range.into()))
    }

    /// All pairs at the current moment: [`Tree::range`] of all keys.
    ///
    /// # Errors
    /// As [`Tree::get`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// db.put("ant", "6 legs")?;
    /// for pair in db.default_tree().iter()? {
    ///     let (key, value) = pair?;
    ///     assert_eq!((&key[..], &value[..]), (&b"ant"[..], &b"6 legs"[..]));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn iter(&self) -> Result<Range> {
        self.range(..)
    }

    /// The pairs whose keys begin with `prefix`: [`Tree::range`] of [`ScanRange::prefix`].
    ///
    /// # Errors
    /// As [`Tree::get`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let mails = db.tree("mails")?;
    /// mails.put("ann/1", "hello")?;
    /// mails.put("bob/1", "hello")?;
    /// mails.put("bob/2", "hello again")?;
    /// let newest = mails.prefix("bob/")?.next_back().expect("there are two")?;
    /// assert_eq!(newest.1, b"hello again");
    /// # Ok(())
    /// # }
    /// ```
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Range> {
        self.range(ScanRange::prefix(prefix))
    }

    /// A cursor over the tree at the current moment. It is at no pair yet.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn cursor(&self) -> Result<Cursor> {
        Cursor::new(self.view()?, Some(self.clone()))
    }

    /// The tree at the current moment.
    fn view(&self) -> Result<View> {
        let Some((state, point)) = self.passing_read_point()? else {
            let tree = self.at_fixed_time();
            return Snapshot::for_one_call(&self.owner).view(&tree);
        };
        let (store, tree) = (self.scanned(), Arc::clone(&self.inner));
        Ok(View { store, tree, states: vec![state], point, held: None })
    }

    fn scanned(&self) -> Arc<dyn Scanned> {
        Arc::clone(&self.owner) as Arc<dyn Scanned>
    }

    /// How many keys in `range` have a value, counted one by one.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn count(&self, range: impl Into<ScanRange>) -> Result<u64> {
        self.scan_of(range.into().keys_only())?.count_left()
    }
}
