//! The present parts of a tree: one memtable that takes writes, older ones that wait to be flushed, and the tables.
//!
//! [`TreeInner::state`] holds an immutable value. A reader loads it once and needs no lock. Two kinds of change swap
//! it: a writer begins a new memtable (under the commit lock), and durable edits are derived into memory (under the
//! lock of [`versions::VersionSet`]). `rcu` keeps the two from undoing each other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::blob::BlobOwner;
use crate::canary::broken;
use crate::cursor::SeqNo;
use crate::error::{Error, ErrorKind, KeyMoved, Result};
use crate::log::replay::LogFloor;
use crate::memtable::{ChunkPool, Memtable};
use crate::options::{ExpiryClock, TreeOptions};
use crate::ranges::{KeyRange, RangeTombstones};
use crate::version::edit::TreeId;
use crate::version::levels::Levels;

mod delta;
mod group;
pub(crate) mod merging;
mod operand_times;
mod own_time;
mod passed_cost;
pub(crate) mod versions;

pub(crate) use group::Group;
use merging::Merging;
use operand_times::OperandTimes;
use own_time::OwnTime;
use passed_cost::PassedCost;
pub(crate) use passed_cost::{PassedInTables, PassedKeys};

/// A memtable and its place in the log. The fields are written under the commit lock.
#[derive(Debug)]
pub(crate) struct Mem {
    pub(crate) table: Arc<Memtable>,
    floor_segment: AtomicU64,
    floor_start: AtomicU64,
    last_seq: AtomicU64,
    end: AtomicU64,
    /// The greatest time that its writes carry.
    time_us: AtomicU64,
    /// How many of its entries copies have left out.
    left_out: usize,
}

impl Mem {
    pub(crate) fn new(chunks: Option<Arc<ChunkPool>>) -> Arc<Mem> {
        Mem::over(Memtable::over(chunks))
    }

    fn over(table: Memtable) -> Arc<Mem> {
        Arc::new(Mem {
            table: Arc::new(table),
            floor_segment: AtomicU64::new(u64::MAX),
            floor_start: AtomicU64::new(0),
            last_seq: AtomicU64::new(0),
            end: AtomicU64::new(0),
            time_us: AtomicU64::new(0),
            left_out: 0,
        })
    }

    /// How many entries were written to it, including entries that copies have left out.
    pub(crate) fn written(&self) -> u64 {
        (self.table.len() + self.left_out) as u64
    }

    /// The greatest time that its writes carry, in microseconds since 1970; 0 if they carry none.
    pub(crate) fn time_us(&self) -> u64 {
        self.time_us.load(Ordering::Acquire)
    }

    /// One of its writes carries `time_us`.
    pub(crate) fn note_time(&self, time_us: u64) {
        self.time_us.fetch_max(time_us, Ordering::AcqRel);
    }

    /// The same place in the log with a copy of the memtable. Under the commit lock, while no reservation is in progress.
    fn with_copy(&self, table: Memtable) -> Arc<Mem> {
        let copied = |field: &AtomicU64| AtomicU64::new(field.load(Ordering::Acquire));
        Arc::new(Mem {
            left_out: self.left_out + self.table.len().saturating_sub(table.len()),
            table: Arc::new(table),
            floor_segment: copied(&self.floor_segment),
            floor_start: copied(&self.floor_start),
            last_seq: copied(&self.last_seq),
            end: copied(&self.end),
            time_us: copied(&self.time_us),
        })
    }

    /// Notes a reservation whose last number is `last_seq`. `logged`: the segment that its record lies in, and the log
    /// position after it.
    pub(crate) fn note_write(&self, last_seq: SeqNo, logged: Option<(LogFloor, u64)>) {
        self.last_seq.store(last_seq, Ordering::Release);
        let Some((floor, end)) = logged else { return };
        if self.floor_segment.load(Ordering::Relaxed) == u64::MAX {
            self.floor_start.store(floor.start, Ordering::Relaxed);
            self.floor_segment.store(floor.segment, Ordering::Release);
        }
        self.end.store(end, Ordering::Release);
    }

    /// The segment that recovery would have to begin with for this memtable; `None` when none of its writes is in the
    /// log.
    pub(crate) fn floor(&self) -> Option<LogFloor> {
        let segment = self.floor_segment.load(Ordering::Acquire);
        (segment != u64::MAX).then(|| LogFloor { segment, start: self.floor_start.load(Ordering::Relaxed) })
    }

    pub(crate) fn is_untouched(&self) -> bool {
        self.last_seq() == 0
    }

    /// The largest sequence number reserved in it.
    pub(crate) fn last_seq(&self) -> SeqNo {
        self.last_seq.load(Ordering::Acquire)
    }

    /// The log position after the last record that touches it; 0 if no record does.
    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct TreeState {
    pub(crate) mem: Arc<Mem>,
    /// Newest first.
    pub(crate) immutable: Vec<Arc<Mem>>,
    pub(crate) levels: Arc<Levels>,
    pub(crate) ranges: Arc<RangeTombstones>,
    pub(crate) key_bounds: Arc<KeyBounds>,
}

impl TreeState {
    fn empty(mem: Arc<Mem>, key_bounds: KeyBounds) -> Arc<TreeState> {
        let (levels, ranges) = (Arc::default(), Arc::default());
        Arc::new(TreeState { mem, immutable: Vec::new(), levels, ranges, key_bounds: key_bounds.shared() })
    }
}

/// Which keys a tree has, and where its former keys are.
#[derive(Debug, Default)]
pub(crate) struct KeyBounds {
    pub(crate) range: KeyRange,
    /// The keys that were split off since the store was opened; disjoint.
    pub(crate) moved: Vec<Moved>,
    /// Read points below this number cannot read the tree: it was imported with this number, and its entries have older
    /// ones. 0 if it was not imported since the opening. A tree that is split off inherits it.
    pub(crate) since: SeqNo,
}

impl KeyBounds {
    /// Shared by trees: all unrestricted ones share one value.
    fn shared(self) -> Arc<KeyBounds> {
        static WHOLE: OnceLock<Arc<KeyBounds>> = OnceLock::new();
        if self.is_whole() && self.moved.is_empty() && self.since == 0 {
            return Arc::clone(WHOLE.get_or_init(Arc::default));
        }
        Arc::new(self)
    }

    /// Whether it may have any key.
    pub(crate) fn is_whole(&self) -> bool {
        self.range == KeyRange::default()
    }

    /// Refuses a key that the tree `name` does not have any more.
    pub(crate) fn check(&self, name: &str, key: &[u8]) -> Result<()> {
        if self.range.contains(key) {
            return Ok(());
        }
        let moved = self.moved.iter().find(|moved| moved.range.contains(key));
        let other =
            moved.map_or("another tree".to_owned(), |moved| format!("the tree \"{}\"", moved.to.name));
        let message = format!(
            "the key \"{}\" is outside the bounds that the tree \"{name}\" has since a split: {other} has it",
            key.escape_ascii()
        );
        let error = Error::new(ErrorKind::KeyMoved, message);
        Err(match moved {
            Some(Moved { range, to, .. }) => {
                let KeyRange { lower, upper } = range.clone();
                error.with_moved(KeyMoved { tree: to.name.clone(), lower, upper })
            }
            None => error,
        })
    }

    /// Refuses a moment at which the tree `name` was another store's.
    pub(crate) fn check_read_point(&self, name: &str, seq: SeqNo) -> Result<()> {
        if seq >= self.since || broken("import-snapshot") {
            return Ok(());
        }
        let message = format!("the tree \"{name}\" was imported after this snapshot");
        Err(Error::new(ErrorKind::SnapshotTooOld, message))
    }

    /// The tree that had `key` at the moment `seq`, if it was split off since.
    pub(crate) fn moved_to(&self, key: &[u8], seq: SeqNo) -> Option<&Arc<TreeInner>> {
        let moved = self.moved.iter().find(|moved| moved.seq > seq && moved.range.contains(key));
        moved.map(|moved| &moved.to)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Moved {
    pub(crate) range: KeyRange,
    /// Moments before this number see them where they were.
    pub(crate) seq: SeqNo,
    pub(crate) to: Arc<TreeInner>,
}

/// What a memtable needs after a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterWrite {
    Nothing,
    Flush,
    /// [`TreeInner::learn`], which may make it faster.
    Learn,
}

#[derive(Debug)]
pub(crate) struct TreeInner {
    pub(crate) id: TreeId,
    /// The tree number under which its huge values are filed. A tree that was split off or imported took one over.
    pub(crate) lineage: TreeId,
    /// Which opened store it belongs to: handles of another one are refused.
    pub(crate) store: u64,
    pub(crate) name: String,
    /// Whether its writes go to the log. Its options set this, and never change it.
    pub(crate) log: bool,
    /// Its time, if its values do not expire by the store's clock. Its options set this, and never change it.
    pub(crate) own_time: Option<Box<OwnTime>>,
    /// Whether operands that are written have times.
    pub(crate) operand_times: OperandTimes,
    /// The group that it permanently belongs to.
    group: Option<Arc<Group>>,
    /// Most trees share the default ones.
    options: Mutex<Arc<TreeOptions>>,
    /// Whether the options name prefixes for filters: a scan then checks whether they let it skip tables.
    has_filter_prefix: AtomicBool,
    pub(crate) tag: Mutex<Option<String>>,
    pub(crate) state: ArcSwap<TreeState>,
    /// The running merges. They, and flushes that put tables below level 0, decide by the contents of the levels.
    /// Therefore they must not change each other's levels.
    pub(crate) merging: Merging,
    /// All writes to it up to this one are in tables, by the manifest.
    flushed: AtomicU64,
    dropped: AtomicBool,
    /// The cost of reads on useless entries in the memtable.
    pub(crate) passed_cost: PassedCost,
    /// The same in tables.
    pub(crate) passed_in_tables: PassedInTables,
    /// Writers wait. Set under the commit lock when no reservation is under way; cleared without it.
    paused: AtomicBool,
}

impl TreeInner {
    /// An empty tree that has all keys. Read points below `since` cannot read it.
    fn new(
        (id, lineage): (TreeId, TreeId),
        store: u64,
        name: &str,
        (options, group): (TreeOptions, Option<Arc<Group>>),
        since: SeqNo,
        chunks: &Arc<ChunkPool>,
    ) -> Arc<TreeInner> {
        let key_bounds = KeyBounds { since, ..KeyBounds::default() };
        let state = TreeState::empty(Mem::new(Some(Arc::clone(chunks))), key_bounds);
        Arc::new(TreeInner {
            id,
            lineage,
            store,
            name: name.to_owned(),
            log: options.log,
            own_time: (options.expiry_clock == ExpiryClock::Writes).then(Box::default),
            operand_times: OperandTimes::default(),
            group,
            has_filter_prefix: AtomicBool::new(options.filter_prefix.is_some()),
            options: Mutex::new(options.shared()),
            tag: Mutex::default(),
            state: ArcSwap::new(state),
            merging: Merging::default(),
            flushed: AtomicU64::new(0),
            passed_cost: PassedCost::default(),
            passed_in_tables: PassedInTables::default(),
            dropped: AtomicBool::new(false),
            paused: AtomicBool::new(false),
        })
    }

    pub(crate) fn options(&self) -> TreeOptions {
        TreeOptions::clone(&self.options.lock())
    }

    pub(crate) fn set_options(&self, options: &TreeOptions) {
        self.has_filter_prefix.store(options.filter_prefix.is_some(), Ordering::Relaxed);
        *self.options.lock() = options.clone().shared();
    }

    #[inline]
    pub(crate) fn has_filter_prefix(&self) -> bool {
        self.has_filter_prefix.load(Ordering::Relaxed)
    }

    pub(crate) fn group(&self) -> Option<&Arc<Group>> {
        self.group.as_ref()
    }

    /// The owner of the blob files that its huge values go to.
    pub(crate) fn blob_owner(&self) -> BlobOwner {
        self.group.as_ref().map_or(BlobOwner::NO_GROUP, |group| group.owner)
    }

    /// The group that it is flushed with: a flush of a tree that skips the log keeps batches whole (rule 21).
    fn flush_group(&self) -> Option<&Arc<Group>> {
        self.group.as_ref().filter(|_| !self.log)
    }

    /// The trees that are flushed whenever this one is, itself among them.
    pub(crate) fn flushed_together(self: &Arc<Self>) -> Vec<Arc<TreeInner>> {
        let group = self.flush_group().filter(|_| !broken("rule-21-group"));
        group.map_or_else(|| vec![Arc::clone(self)], |group| group.trees())
    }

    /// Whether every flush of one of the trees also flushes the other.
    pub(crate) fn is_flushed_with(&self, other: &TreeInner) -> bool {
        let same_group = |(one, other)| Arc::ptr_eq(one, other);
        std::ptr::eq(self, other) || self.flush_group().zip(other.flush_group()).is_some_and(same_group)
    }

    /// Bytes of memory that its next flush will write: with the memtables of the trees that are flushed with it.
    pub(crate) fn memory_to_flush(&self) -> usize {
        self.flush_group().map_or_else(|| self.state.load().mem.table.memory(), |group| group.memory())
    }

    /// The memtable that takes writes. It stays the same only under the commit lock.
    pub(crate) fn mem(&self) -> Arc<Mem> {
        Arc::clone(&self.state.load().mem)
    }

    /// Makes the memtable immutable and begins a new one. Under the commit lock.
    pub(crate) fn switch_mem(&self) {
        let fresh = Mem::over(self.mem().table.successor());
        self.state.rcu(|state| {
            let mut immutable = Vec::with_capacity(state.immutable.len() + 1);
            immutable.push(Arc::clone(&state.mem));
            immutable.extend(state.immutable.iter().cloned());
            TreeState { mem: Arc::clone(&fresh), immutable, ..TreeState::clone(state) }
        });
    }

    /// What the memtable, which is full with `limit` bytes, needs after a write. Every write calls this, so it loads
    /// the state once.
    #[inline]
    pub(crate) fn after_write(&self, limit: usize) -> AfterWrite {
        let state = self.state.load();
        let table = &state.mem.table;
        if self.flush_group().map_or_else(|| table.memory(), |group| group.memory()) >= limit {
            AfterWrite::Flush
        } else if table.may_improve(limit) {
            AfterWrite::Learn
        } else {
            AfterWrite::Nothing
        }
    }

    /// Puts a copy in the place of the memtable, or begins an index for it, if that makes it faster. Called under the
    /// commit lock, while no reservation is in progress: the memtable holds all writes that a reader may see, and gets
    /// no more.
    pub(crate) fn learn(&self, limit: usize) {
        let mem = self.mem();
        if !mem.table.may_learn() {
            return mem.table.begin_index(limit);
        }
        if let Some(copy) = mem.table.learned() {
            self.replace_mem(&mem, copy);
        }
    }

    /// Puts `copy` in the place of the memtable `mem`, if that still takes writes. For readers it holds the same. Under the
    /// commit lock, while no reservation is in progress.
    pub(crate) fn replace_mem(&self, mem: &Arc<Mem>, copy: Memtable) {
        let copy = mem.with_copy(copy);
        // A store that closes takes its memtables away without the lock.
        self.state.rcu(|state| {
            let mem = if Arc::ptr_eq(&state.mem, mem) { &copy } else { &state.mem };
            TreeState { mem: Arc::clone(mem), ..TreeState::clone(state) }
        });
    }

    /// Shows the changed parts together, and takes the flushed memtables out. Called under the version lock; where
    /// range tombstones change, also under the commit lock, so that none is added meanwhile.
    fn install(
        &self,
        levels: Option<&Arc<Levels>>,
        ranges: Option<&Arc<RangeTombstones>>,
        key_bounds: Option<&Arc<KeyBounds>>,
        flushed: &[Arc<Mem>],
    ) {
        if levels.is_none() && ranges.is_none() && key_bounds.is_none() && flushed.is_empty() {
            return;
        }
        self.state.rcu(|state| {
            let is_flushed = |mem: &Arc<Mem>| flushed.iter().any(|other| Arc::ptr_eq(mem, other));
            TreeState {
                mem: Arc::clone(&state.mem),
                immutable: state.immutable.iter().filter(|mem| !is_flushed(mem)).cloned().collect(),
                levels: Arc::clone(levels.unwrap_or(&state.levels)),
                ranges: Arc::clone(ranges.unwrap_or(&state.ranges)),
                key_bounds: Arc::clone(key_bounds.unwrap_or(&state.key_bounds)),
            }
        });
    }

    /// Whether all of it is in tables. This stays true only while writes to the tree are paused.
    pub(crate) fn is_flushed(&self) -> bool {
        let state = self.state.load();
        state.mem.is_untouched() && state.immutable.is_empty()
    }

    /// The sequence number up to which all writes to it are in tables. A state that was loaded before has them all, in
    /// tables or in memtables.
    pub(crate) fn flushed_up_to(&self) -> SeqNo {
        self.flushed.load(Ordering::Acquire)
    }

    /// Whether some of it is in memory alone: its writes skip the log, and were not all flushed.
    pub(crate) fn is_volatile(&self) -> bool {
        !self.log && !self.is_flushed()
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// Whether writes have to wait. The answer is certain only under the commit lock.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }

    pub(crate) fn set_paused(&self, paused: bool) {
        self.paused.store(paused, Ordering::Release);
    }

    /// Empties the tree permanently; returns its state. Called under version and commit lock.
    fn mark_dropped(&self) -> Arc<TreeState> {
        self.dropped.store(true, Ordering::Release);
        self.state.swap(TreeState::empty(Mem::new(None), KeyBounds::default()))
    }

    /// Releases memtables and tables, because the store is closed. A state that is loaded after this is not the content
    /// of the tree.
    fn release(&self) {
        let range = self.state.load().key_bounds.range.clone();
        let key_bounds = KeyBounds { range, ..KeyBounds::default() };
        self.state.store(TreeState::empty(Mem::new(None), key_bounds));
    }

    pub(crate) fn dropped_error(&self) -> Error {
        Error::new(ErrorKind::TreeDropped, format!("the tree \"{}\" was dropped", self.name))
    }
}
