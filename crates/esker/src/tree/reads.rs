//! Reads of the current moment.

use std::cell::Cell;
use std::sync::Arc;

use arc_swap::Guard;

use super::{Cursor, Snapshot, Tree};
use crate::canary::broken;
use crate::cursor::{Content, Expiry, Kind, SeqNo};
use crate::error::Result;
use crate::operators::is_timed;
use crate::read::both_ends::Range;
use crate::read::get::{find_at, get_at};
use crate::read::meter::{ScanMeter, Scanned};
use crate::read::newer::Newer;
use crate::read::operands::merged_at;
use crate::read::range::ScanRange;
use crate::read::scan::Scan;
use crate::read::view::View;
use crate::state::TreeState;
use crate::table::BlockSlice;
use crate::trace::{Operation, Subject, perf_context};
use crate::value::{Lent, Metadata, PinnedValue, Value};
use crate::version::read_cost::ReadCost;

/// A tree's content at a read point, with its number and time.
type Passing = (Arc<TreeState>, (SeqNo, u64));

/// The result of a read.
pub(super) enum Answer<T> {
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
    /// The result for a small value, or the result of `read` for a huge one.
    #[inline]
    pub(super) fn or_read(self, read: impl FnOnce(Value) -> Result<T>) -> Result<T> {
        match self {
            Answer::Small(made) => Ok(made),
            Answer::Whole(value) => read(value),
        }
    }
}

/// Reading.
impl Tree {
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

    /// Fails with `KeyMoved` if the key belongs to another tree since a split. A write that does nothing because the
    /// key seems absent calls this afterwards: a key that has moved is absent here, but may have a value in the other
    /// tree.
    pub(super) fn check_has(&self, key: &[u8]) -> Result<()> {
        self.readable_state()?.key_bounds.check(&self.inner.name, key)
    }

    /// The tree's state and a sequence number that fit together: for all keys, the state holds every write up to that
    /// number.
    pub(super) fn consistent_state(&self) -> Result<(Arc<TreeState>, SeqNo)> {
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
        Ok(!Newer::than(seen, &self.inner, &*self.readable_state()?).has_key(key, seen)?)
    }

    /// Like [`Tree::consistent_state`], with a time at which this was the newest number. `None` if the read point must
    /// be registered: the tree may have huge values, which only a registered snapshot keeps, or a `Lasting` write is
    /// under way.
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
    pub(super) fn measured<T>(&self, key: &[u8], work: impl FnOnce() -> T) -> T {
        self.store.metrics().measure(Operation::Get, move || Subject::of(&self.inner.name, key), work)
    }

    /// The value of a key whose newest version is an operand, or has expired. The read point is registered, so that a
    /// huge value below stays. No newer version was visible at its time.
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

    /// Calls `use_bytes` with the bytes of the value of `key`, and returns its result; `None` if the key is absent.
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

    /// Calls `use_value` with the value of `key`, its expiry and its attributes, and returns its result; `None` if the
    /// key is absent. Nothing is copied, and a huge value is not read.
    ///
    /// The call counts as a part of the read, also in the statistics.
    ///
    /// # Errors
    /// As [`Tree::get`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let pages = db.tree("pages")?;
    /// pages.put_opts("index", "<p>hello", &esker::PutOptions::default().attributes("text/html"))?;
    /// let is_html = pages.get_lent("index", |page| page.attributes == b"text/html" && page.bytes.is_some())?;
    /// assert_eq!(is_html, Some(true));
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn get_lent<T>(
        &self,
        key: impl AsRef<[u8]>,
        use_value: impl FnOnce(Lent<'_>) -> T,
    ) -> Result<Option<T>> {
        let mut use_value = Some(use_value);
        let mut used = |lent: Lent<'_>| use_value.take().map(|use_value| use_value(lent));
        match self.get_now(key.as_ref(), |entry, _| used(Lent::of_entry(entry)))? {
            None => Ok(None),
            Some(Answer::Small(made)) => Ok(made),
            Some(Answer::Whole(value)) => Ok(used(value.lend())),
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

    /// The metadata of the value of `key`: its length, its expiry and its attributes. Its bytes are not read. A value
    /// that consists of operands is computed.
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
            _ => Ok(Some(Value::copy_of(entry))),
        };
        let get = |key: &[u8]| {
            let found = get_at(&state, key, seq, || time, |entry| value_of(key, &entry))?;
            found.unwrap_or(Ok(None))
        };
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
            let found = get_at(&state, key, self.store.commit().visible(), now, |entry| {
                // The time decides whether the value below such an operand still counts.
                entry.kind != Kind::Merge || !is_timed(entry.value)
            })?;
            match found {
                Some(true) => Ok(true),
                None if !expires.get() => Ok(false),
                _ => {
                    let tree = self.at_fixed_time();
                    Snapshot::for_one_call(&self.owner).contains(&tree, key)
                }
            }
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

    /// A cursor over the tree at the current moment. It is not at a pair yet.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn cursor(&self) -> Result<Cursor> {
        Cursor::new(self.view()?, Some(self.clone()))
    }

    /// The tree at the current moment.
    pub(super) fn view(&self) -> Result<View> {
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
