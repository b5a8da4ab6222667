//! Rewrites a memtable in memory without the entries that no reader sees: without a sync and without a table. Reads pay
//! for that by the entries that they pass in vain ([`crate::state`]'s `PassedCost`).
//!
//! ```text
//! commit lock, no write under way:  notes the newest number and the read points; the memtable notes later entries
//! no lock:                          the copy gets the survivors up to that number, as in a flush, and most later ones
//! commit lock, no write under way:  the copy gets the rest and takes the memtable's place
//! ```
//!
//! An entry that survives keeps its sequence number. A tombstone goes if every read point comes after it and nothing
//! older than the memtable has its key. It stays if it records when a value has expired, because operands above it need
//! that time. Entries with pointers to huge values stay: the flush frees the values.
//!
//! Nothing changes on disk: until the flush, recovery makes the whole memtable from the log again. Reads that hold the
//! old memtable continue with it.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{Around, Flusher, Inputs, merged};
use crate::canary::broken;
use crate::checksum::hash_key;
use crate::compact::retain::{ReadPoints, Retention};
use crate::cursor::{Kind, MAX_SEQ, SeqNo};
use crate::env::JobKind;
use crate::error::Result;
use crate::events::event;
use crate::memtable::{Memtable, NewEntry};
use crate::state::{Mem, TreeInner, TreeState};
use crate::store::survivors::{LeftOut, Sink, Survivors};
use crate::version::table_info::LookAgain;

/// How many keys with tombstones may be found in tables for one copy. The tombstones after that stay.
const FOUND_MAX: usize = 4096;

/// The most new entries that the copy gets while no other thread may write.
const RECENT_FEW: usize = 256;

/// How many rounds copy new entries before that.
const RECENT_ROUNDS: usize = 8;

/// The trees whose memtables are to be copied.
#[derive(Debug, Default)]
pub(super) struct ToClean {
    trees: Mutex<Vec<Arc<TreeInner>>>,
}

impl Flusher {
    /// Makes the background clean the memtable of `tree`.
    pub(in crate::store) fn clean_later(&self, tree: &Arc<TreeInner>) {
        if !self.core.health.is_read_only() {
            self.to_clean.trees.lock().push(Arc::clone(tree));
            self.core.notify(JobKind::Flush);
        }
    }

    /// Cleans the memtables that wait for it. Returns whether there were any.
    pub(super) fn clean_some(&self) -> bool {
        let trees = std::mem::take(&mut *self.to_clean.trees.lock());
        for tree in &trees {
            let left_out = self.clean(tree);
            tree.passed_cost.note_copied(left_out);
            event!(DEBUG, "cleaned a memtable", { tree: tree.name.as_str(), left_out: left_out.unwrap_or(0) });
        }
        !trees.is_empty()
    }

    /// Cleans the memtable of `tree`. Returns how many entries are left out; `None` if it could not be cleaned now.
    fn clean(&self, tree: &Arc<TreeInner>) -> Option<usize> {
        if !self.has_memory_for_copy(tree) {
            return None;
        }
        let quiet = self.log.commit().lock_quiet();
        let (mem, mut points) = (tree.mem(), self.log.read_points().of(tree));
        if broken("clean-reader") {
            points.seqs = vec![points.newest()];
        }
        if tree.is_dropped() || mem.is_untouched() {
            return None;
        }
        mem.table.begin_recent();
        drop(quiet);
        // Later lookups must not find older versions than these did.
        let looked_up = self.finder.find_overwritten(points.newest());
        let copy = looked_up.ok().and_then(|_| self.copy_of(tree, &mem, points));
        let left_out = copy.and_then(|copy| self.install_copy(tree, &mem, copy));
        mem.table.end_recent();
        left_out
    }

    /// Whether the memtables and a copy of that of `tree` take no more memory than memtables may.
    fn has_memory_for_copy(&self, tree: &TreeInner) -> bool {
        let active: usize = self.versions.trees().iter().map(|tree| tree.mem().table.memory()).sum();
        let space = self.disk.space();
        let all = active + self.immutable.bytes() + tree.mem().table.memory();
        all <= space.memtable_limit() + space.immutable_max()
    }

    /// The copy of `mem`, the memtable of `tree`, up to the newest of `points`; `None` if it does not take writes any more,
    /// or memory is short.
    pub(super) fn copy_of(&self, tree: &TreeInner, mem: &Arc<Mem>, points: ReadPoints) -> Option<Memtable> {
        // Operands that come after this have a later time than everything that is dropped. Those that came before are
        // found below.
        let around = &Around::begin(&self.log, tree, Inputs::Memtables(std::slice::from_ref(mem)), &points);
        let state = tree.state.load_full();
        if !Arc::ptr_eq(&state.mem, mem) {
            return None;
        }
        let (oldest, newest) = (points.seqs.first().copied().unwrap_or(0), points.newest());
        let retention = Retention::new(points, &state.ranges, mem.last_seq());
        let below = Below { state: &state, found_left: FOUND_MAX };
        let mut sink = CopySink { copy: mem.table.empty_copy(), newest, oldest, below, tombstone: None };
        let (operators, left_out) = (&self.core.options.merge_operators, &mut LeftOut::default());
        let (nothing_below, keeps_pointers, rule) = (false, true, None);
        let survivors =
            Survivors { operators, retention, nothing_below, around, keeps_pointers, left_out, rule };
        let mut merge = merged(std::slice::from_ref(mem)).ok()?;
        survivors.write_all(&mut merge, &|_| Ok(true), &mut sink).ok()?;
        sink.end_key().ok()?;
        for _ in 0..RECENT_ROUNDS {
            if mem.table.copy_recent(&sink.copy)? <= RECENT_FEW {
                break;
            }
        }
        Some(sink.copy)
    }

    /// Puts `copy` in the place of `mem`, if that still takes writes and the copy is smaller. Returns how many entries it
    /// leaves out.
    pub(super) fn install_copy(&self, tree: &TreeInner, mem: &Arc<Mem>, copy: Memtable) -> Option<usize> {
        let _quiet = self.log.commit().lock_quiet();
        if tree.is_dropped() || !Arc::ptr_eq(&tree.mem(), mem) {
            return None;
        }
        if !broken("clean-recent") {
            mem.table.copy_recent(&copy)?;
        }
        let left_out = mem.table.len().saturating_sub(copy.len());
        if left_out > 0 {
            tree.replace_mem(mem, copy);
        }
        Some(left_out)
    }
}

/// The entries older than a memtable in its tree.
struct Below<'a> {
    state: &'a TreeState,
    /// How many more keys may be found in tables.
    found_left: usize,
}

impl Below<'_> {
    /// Returns `false` only if nothing there has `key`.
    fn may_have(&mut self, key: &[u8]) -> bool {
        let hash = hash_key(key);
        if self.state.immutable.iter().any(|mem| mem.table.get(key, hash, MAX_SEQ).is_some()) {
            return true;
        }
        let mut tables = self.state.levels.covering(key);
        let may_have =
            tables.any(|table| self.found_left == 0 || !matches!(table.get(key, hash, MAX_SEQ), Ok(None)));
        self.found_left = self.found_left.saturating_sub(usize::from(may_have));
        may_have && !broken("clean-below")
    }
}

/// Where the entries go that survive.
struct CopySink<'a> {
    copy: Memtable,
    /// Later entries come otherwise.
    newest: SeqNo,
    /// The oldest read point.
    oldest: SeqNo,
    below: Below<'a>,
    /// A tombstone that no reader needs unless something older of its key follows.
    tombstone: Option<(Vec<u8>, SeqNo)>,
}

impl CopySink<'_> {
    fn put(&self, key: &[u8], seq: SeqNo, kind: Kind, stored: &[u8]) -> Result<()> {
        self.copy.insert_copy(&NewEntry::new(Memtable::random_height(), key, seq, kind, stored))
    }

    /// Nothing more of the last key follows.
    fn end_key(&mut self) -> Result<()> {
        match self.tombstone.take() {
            Some((key, seq)) if self.below.may_have(&key) => self.put(&key, seq, Kind::Delete, &[]),
            _ => Ok(()),
        }
    }
}

impl Sink for CopySink<'_> {
    fn write(&mut self, key: &[u8], seq: SeqNo, kind: Kind, stored: &[u8]) -> Result<()> {
        if seq > self.newest {
            return Ok(());
        }
        match self.tombstone.take() {
            Some((of, seq)) if of == key => self.put(key, seq, Kind::Delete, &[])?,
            other => {
                self.tombstone = other;
                self.end_key()?;
            }
        }
        // A tombstone that records when a value has expired stays, for the operands above it.
        let is_plain = stored.is_empty() || broken("clean-marked");
        if kind == Kind::Delete && is_plain && seq <= self.oldest {
            self.tombstone = Some((key.to_vec(), seq));
            return Ok(());
        }
        self.put(key, seq, kind, stored)
    }

    fn ends_before(&mut self, _: &[u8]) -> bool {
        false
    }

    fn end_table(&mut self, _: LookAgain) -> Result<()> {
        Ok(())
    }
}
