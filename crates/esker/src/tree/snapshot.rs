//! The whole store at one moment: a user's snapshot.

use std::sync::Arc;

use arc_swap::Guard;

use super::reads::Answer;
use super::{Cursor, StoredValue, Tree};
use crate::cursor::{Content, Kind, SeqNo};
use crate::error::Result;
use crate::read::both_ends::Range;
use crate::read::get::{find_at, get_at};
use crate::read::meter::{ScanMeter, Scanned};
use crate::read::operands::{lives_at, merged_at};
use crate::read::range::ScanRange;
use crate::read::scan::Scan;
use crate::read::view::{Held, View};
use crate::state::{TreeInner, TreeState};
use crate::store::Owner;
use crate::table::BlockSlice;
use crate::value::{Metadata, PinnedValue, Value};

/// A registered read point; its drop releases it.
#[derive(Debug)]
struct ReadPoint {
    store: Arc<Owner>,
    seq: SeqNo,
    /// Values that have expired by this time are absent; values that expire later stay.
    time_us: u64,
    /// Whether it is a user's snapshot, and not one for a single call.
    counted: bool,
}

impl Drop for ReadPoint {
    fn drop(&mut self) {
        self.store.snapshots().release(self.seq, self.time_us);
        if self.counted {
            self.store.snapshots().note_closed();
        }
        // Huge values that only this snapshot could see may now be freed.
        self.store.finder().snapshot_released();
    }
}

/// The whole store at one moment: later writes are not seen, and nothing expires. A snapshot is cheap to take, to clone
/// and to keep, except that old versions stay on disk until it is dropped.
#[derive(Debug, Clone)]
pub struct Snapshot {
    point: Arc<ReadPoint>,
}

impl Snapshot {
    pub(crate) fn new(store: &Arc<Owner>) -> Snapshot {
        store.snapshots().note_opened();
        Snapshot::at(store, store.snapshots().register(store.commit(), store.clock()), true)
    }

    /// A snapshot for the time of a call or a scan.
    pub(crate) fn for_one_call(store: &Arc<Owner>) -> Snapshot {
        Snapshot::at(store, store.snapshots().register(store.commit(), store.clock()), false)
    }

    /// A snapshot of the newest state, at a time that another snapshot holds.
    pub(crate) fn for_one_call_at(store: &Arc<Owner>, time_us: u64) -> Snapshot {
        Snapshot::at(store, (store.snapshots().register_at(store.commit(), time_us), time_us), false)
    }

    fn at(store: &Arc<Owner>, (seq, time_us): (SeqNo, u64), counted: bool) -> Snapshot {
        Snapshot { point: Arc::new(ReadPoint { store: Arc::clone(store), seq, time_us, counted }) }
    }

    /// The time of the snapshot, in microseconds since 1970.
    pub(crate) fn time_us(&self) -> u64 {
        self.point.time_us
    }

    pub(crate) fn seq(&self) -> SeqNo {
        self.point.seq
    }

    /// The number of the last write that it sees. [`Db::updates_since`](crate::Db::updates_since) returns later ones.
    pub fn sequence(&self) -> u64 {
        self.point.seq
    }

    /// The time by which values of `tree` expire for this snapshot, in microseconds since 1970.
    pub(crate) fn time_of(&self, tree: &Tree) -> u64 {
        tree.fixed_in_snapshot_us().unwrap_or(self.point.time_us)
    }

    fn state_of(&self, tree: &Tree) -> Result<Guard<Arc<TreeState>>> {
        tree.check_store(&self.point.store, "snapshot")?;
        let state = tree.readable_state()?;
        state.key_bounds.check_read_point(&tree.inner().name, self.point.seq)?;
        Ok(state)
    }

    /// The state in which to look up `key`. If the tree was split meanwhile, another tree may hold the key now.
    fn state_with(&self, tree: &Tree, key: &[u8]) -> Result<Arc<TreeState>> {
        let mut state = Guard::into_inner(self.state_of(tree)?);
        while let Some(moved) = state.key_bounds.moved_to(key, self.point.seq).cloned() {
            state = self.state_of_moved(&moved)?;
        }
        Ok(state)
    }

    fn state_of_moved(&self, tree: &TreeInner) -> Result<Arc<TreeState>> {
        let state = tree.state.load_full();
        self.point.store.check_open()?;
        if tree.is_dropped() { Err(tree.dropped_error()) } else { Ok(state) }
    }

    /// All states that made up the tree at this moment, including the states of trees that were split off later.
    fn states_of(&self, state: Arc<TreeState>, all: &mut Vec<Arc<TreeState>>) -> Result<()> {
        for moved in state.key_bounds.moved.iter().filter(|moved| moved.seq > self.point.seq) {
            self.states_of(self.state_of_moved(&moved.to)?, all)?;
        }
        all.push(state);
        Ok(())
    }

    /// The value of `key` in `tree` at this moment.
    ///
    /// # Errors
    /// `Corruption` or `Io` when a table cannot be read, `TreeDropped` when the tree was dropped,
    /// `SnapshotTooOld` when it was imported after the snapshot was taken.
    pub fn get(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let key = key.as_ref();
        tree.measured(key, || self.find(tree, key))
    }

    /// The value of `key` in `tree` at this moment, with its expiry and its attributes, in a form that batches can give
    /// to other keys ([`Batch::put_stored`](crate::Batch::put_stored)). A huge value is neither read nor written,
    /// because its bytes stay in place; others are copied. The result keeps the value, even if the snapshot ends and
    /// the key changes.
    ///
    /// # Errors
    /// As [`Snapshot::get`], and `ReadOnly` when the store cannot be written to.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let films = db.tree("films")?;
    /// films.put("draft", vec![7; 1 << 20])?;
    /// // Moves it, and says so elsewhere, as one step.
    /// let film = db.snapshot().stored(&films, "draft")?.expect("it was put");
    /// let mut batch = esker::Batch::new();
    /// batch.put_stored(&films, "final", &film)?;
    /// batch.delete(&films, "draft")?;
    /// batch.put(db.default_tree(), "log", "the film is final")?;
    /// db.write(&batch)?;
    /// assert_eq!(films.get("final")?.expect("it was moved").len(), 1 << 20);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stored(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<Option<StoredValue>> {
        let key = key.as_ref();
        let seen = tree.measured(key, || self.find(tree, key))?;
        seen.map(|seen| StoredValue::of_seen(tree, key, seen)).transpose()
    }

    /// Like [`Snapshot::get`], as part of another operation.
    pub(super) fn find(&self, tree: &Tree, key: &[u8]) -> Result<Option<Value>> {
        let found = self.look_up(tree, key, |entry, _| Value::copy_of(entry))?;
        found.map(|found| found.or_read(Ok)).transpose()
    }

    /// The result of `use_value` for a small value. Others are whole.
    #[inline]
    fn look_up<T>(
        &self,
        tree: &Tree,
        key: &[u8],
        use_value: impl FnOnce(&Content<'_>, Option<&BlockSlice>) -> T,
    ) -> Result<Option<Answer<T>>> {
        let state = self.state_with(tree, key)?;
        let (store, at) = (&self.point.store, (self.point.seq, self.time_of(tree)));
        let whole = |value: Result<Option<Value>>| value.map(|value| value.map(Answer::Whole));
        let found = find_at(
            &state,
            key,
            at.0,
            || at.1,
            |entry, block| match entry.kind {
                Kind::Blob => whole(Value::of_blob(store.blobs(), key, &entry).map(Some)),
                Kind::Merge => {
                    whole(merged_at(&state, key, at, &store.options().merge_operators, store.blobs()))
                }
                _ => Ok(Some(Answer::Small(use_value(&entry, block)))),
            },
        )?;
        found.unwrap_or(Ok(None))
    }

    /// The bytes of the value of `key` in `tree` at this moment.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn get_vec(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get(tree, key)?.map(Value::into_vec).transpose()
    }

    /// The metadata of the value of `key` in `tree` at this moment, as [`Tree::metadata`] returns it.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn metadata(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<Option<Metadata>> {
        let key = key.as_ref();
        let found = tree.measured(key, || self.look_up(tree, key, |entry, _| Metadata::of_entry(entry)))?;
        found.map(|found| found.or_read(|value| Ok(value.metadata()))).transpose()
    }

    /// Copies the value of `key` in `tree` at this moment into `buf`, as [`Tree::get_into`] does.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn get_into(&self, tree: &Tree, key: impl AsRef<[u8]>, buf: &mut Vec<u8>) -> Result<bool> {
        buf.clear();
        let key = key.as_ref();
        let append = |entry: &Content<'_>, _: Option<&BlockSlice>| buf.extend_from_slice(entry.value);
        match tree.measured(key, || self.look_up(tree, key, append))? {
            None => Ok(false),
            Some(Answer::Small(())) => Ok(true),
            Some(Answer::Whole(value)) => value.read_into(buf).map(|()| true),
        }
    }

    /// Calls `use_bytes` with the bytes of the value of `key` in `tree` at this moment, as [`Tree::get_with`] does.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let tree = db.default_tree();
    /// tree.put("ant", "6 legs")?;
    /// let before = db.snapshot();
    /// tree.put("ant", "six legs")?;
    /// assert_eq!(before.get_with(tree, "ant", |legs| legs[0])?, Some(b'6'));
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_with<T>(
        &self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        use_bytes: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        let key = key.as_ref();
        let mut use_bytes = Some(use_bytes);
        let mut used = |bytes: &[u8]| use_bytes.take().map(|use_bytes| use_bytes(bytes));
        match tree.measured(key, || self.look_up(tree, key, |entry, _| used(entry.value)))? {
            None => Ok(None),
            Some(Answer::Small(made)) => Ok(made),
            Some(Answer::Whole(value)) => Ok(used(&value.bytes()?)),
        }
    }

    /// The bytes of the value of `key` in `tree` at this moment, as [`Tree::get_pinned`] returns them.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn get_pinned(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<Option<PinnedValue>> {
        let key = key.as_ref();
        let found = tree.measured(key, || self.look_up(tree, key, PinnedValue::of_entry))?;
        found.map(|found| found.or_read(PinnedValue::read)).transpose()
    }

    /// The values of `keys` in `tree` at this moment, in the order of the keys.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn get_many(
        &self,
        tree: &Tree,
        keys: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Result<Vec<Option<Value>>> {
        keys.into_iter().map(|key| self.get(tree, key)).collect()
    }

    /// Whether `key` of `tree` had a value at this moment.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn contains(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        tree.measured(key, || {
            let state = self.state_with(tree, key)?;
            let at = (self.point.seq, self.time_of(tree));
            let found = get_at(
                &state,
                key,
                at.0,
                || at.1,
                |entry| match entry.kind {
                    Kind::Merge => lives_at(&state, key, entry.value, at),
                    _ => Ok(true),
                },
            )?;
            found.unwrap_or(Ok(false))
        })
    }

    /// The pairs of `tree` in `range` at this moment, in one direction.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn scan(&self, tree: &Tree, range: impl Into<ScanRange>) -> Result<Scan> {
        let View { store, tree, states, point, held } = self.view(tree)?;
        Scan::new(&states, point, range.into(), held, ScanMeter::begin(store, &tree))
    }

    /// The pairs of `tree` in `range` at this moment, from either end or from both, as [`Tree::range`] lends them.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let tree = db.default_tree();
    /// tree.put("ant", "6 legs")?;
    /// let before = db.snapshot();
    /// tree.put("bee", "6 legs")?;
    /// assert_eq!(before.range(tree, ..)?.count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn range(&self, tree: &Tree, range: impl Into<ScanRange>) -> Result<Range> {
        Ok(Range::new(self.view(tree)?, range.into()))
    }

    /// All pairs of `tree` at this moment: [`Snapshot::range`] of all keys.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn iter(&self, tree: &Tree) -> Result<Range> {
        self.range(tree, ..)
    }

    /// The pairs of `tree` at this moment whose keys begin with `prefix`.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn prefix(&self, tree: &Tree, prefix: impl AsRef<[u8]>) -> Result<Range> {
        self.range(tree, ScanRange::prefix(prefix))
    }

    /// How many keys of `tree` in `range` had a value at this moment, counted one by one.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn count(&self, tree: &Tree, range: impl Into<ScanRange>) -> Result<u64> {
        self.scan(tree, range.into().keys_only())?.count_left()
    }

    /// A cursor over `tree` at this moment. It is not at a pair yet.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn cursor(&self, tree: &Tree) -> Result<Cursor> {
        Cursor::new(self.view(tree)?, None)
    }

    /// The tree at this moment.
    pub(super) fn view(&self, tree: &Tree) -> Result<View> {
        let mut states = Vec::new();
        self.states_of(Guard::into_inner(self.state_of(tree)?), &mut states)?;
        let point = &self.point;
        Ok(View {
            store: Arc::clone(&point.store) as Arc<dyn Scanned>,
            tree: Arc::clone(tree.inner()),
            states,
            point: (point.seq, self.time_of(tree)),
            held: Some(Arc::clone(point) as Held),
        })
    }
}
