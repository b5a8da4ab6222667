//! What commands have written and nobody has committed yet: one batch.
//!
//! ```text
//! Writes   trees emptied, then ranges deleted, then one Op for each key (PendingOps, a tree's)
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use indexmap::IndexMap;
use indexmap::map::raw_entry_v1::{RawEntryApiV1, RawEntryMut};

use crate::entry::{Bounds, EMPTY_KEY, Entry, Slot, Space, Value};
use crate::model::key_of_element;

/// A write to one key.
#[derive(Debug, Clone)]
pub enum Op {
    /// The key gets this entry.
    Put(Entry),
    /// The key and its entry go.
    Delete,
}

/// What was written to a state of the store: a batch that has not been committed. Several threads may read it when nothing is
/// added to it any more.
#[derive(Debug, Default)]
pub struct Writes {
    /// These trees are emptied first.
    cleared: Vec<Slot>,
    ops: BTreeMap<Slot, PendingOps>,
    /// Ranges that are deleted, each of which nobody reads any more: elements of a collection that is gone.
    ranges: Vec<(Slot, Vec<u8>, Option<Vec<u8>>)>,
    /// What undoes the last command's writes, newest last.
    journal: Vec<Undo>,
    bytes: usize,
    /// What `bytes` was when the last command began.
    begun_bytes: usize,
    /// See [`Writes::take_relied_on`].
    is_relied_on: AtomicBool,
    /// Whether a command has written that does more than free space.
    may_grow: bool,
}

/// About how many bytes of memory a write to `key` takes.
fn memory_of(key: &[u8], op: &Op) -> usize {
    let value_bytes = match op {
        Op::Put(entry) => {
            entry.attributes.len() + if let Value::Bytes(bytes) = &entry.value { bytes.len() } else { 0 }
        }
        Op::Delete => 0,
    };
    key.len() + value_bytes + 128
}

#[derive(Debug)]
enum Undo {
    Key(Slot, Arc<[u8]>, Option<Op>),
    Cleared(Slot, PendingOps),
    Range,
}

/// The writes to one tree's keys, in the order in which keys were first written, more or less.
///
/// Commands mostly name their keys, and these often begin alike: a hash finds one several times as fast as comparisons do.
/// Its seed is random, so that nobody makes keys of one hash, and shows in nothing that comes of it.
#[derive(Debug, Default)]
struct PendingOps {
    by_key: IndexMap<Arc<[u8]>, Op>,
    /// How many ranges were read while the keys were not sorted.
    ranges: AtomicUsize,
    /// The same keys, from the moment on at which so many ranges were read that it is worth it.
    sorted: OnceLock<BTreeSet<Arc<[u8]>>>,
}

/// To look at all keys for so many ranges costs about as much as to sort them.
const RANGES_UNSORTED: usize = 4;

impl PendingOps {
    /// Returns the key, and what was written to it before.
    fn insert(&mut self, key: &[u8], op: Op) -> (Arc<[u8]>, Option<Op>) {
        let hash = self.by_key.hasher().hash_one(key);
        match self.by_key.raw_entry_mut_v1().from_key_hashed_nocheck(hash, key) {
            RawEntryMut::Occupied(mut there) => (Arc::clone(there.key()), Some(there.insert(op))),
            RawEntryMut::Vacant(place) => {
                let key = Arc::from(key);
                if let Some(sorted) = self.sorted.get_mut() {
                    sorted.insert(Arc::clone(&key));
                }
                place.insert_hashed_nocheck(hash, Arc::clone(&key), op);
                (key, None)
            }
        }
    }

    fn remove(&mut self, key: &[u8]) -> Option<Op> {
        if let Some(sorted) = self.sorted.get_mut() {
            sorted.remove(key);
        }
        self.by_key.swap_remove(key)
    }

    /// Those within `bounds`, ascending. `bounds` has its upper end behind its lower one.
    fn range(&self, bounds: Bounds<'_>) -> Box<dyn DoubleEndedIterator<Item = (&Arc<[u8]>, &Op)> + '_> {
        if self.by_key.is_empty() {
            return Box::new(std::iter::empty());
        }
        let ranges = self.ranges.load(Ordering::Relaxed);
        if self.sorted.get().is_none() && ranges < RANGES_UNSORTED {
            self.ranges.store(ranges + 1, Ordering::Relaxed);
            let is_within =
                |key: &[u8]| *key >= *bounds.lower && bounds.upper.is_none_or(|upper| *key < *upper);
            let mut found: Vec<_> = self.by_key.iter().filter(|(key, _)| is_within(key)).collect();
            found.sort_unstable_by_key(|(key, _)| *key);
            return Box::new(found.into_iter());
        }
        let sorted = self.sorted.get_or_init(|| self.by_key.keys().cloned().collect());
        let upper = bounds.upper.map_or(Bound::Unbounded, Bound::Excluded);
        let keys = sorted.range::<[u8], _>((Bound::Included(bounds.lower), upper));
        Box::new(keys.filter_map(|key| Some((key, self.by_key.get(key)?))))
    }
}

impl Writes {
    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.cleared.is_empty()
            && self.ranges.is_empty()
            && self.ops.values().all(|ops| ops.by_key.is_empty())
    }

    /// Whether a command since the last call has written, or has read something that was written: its reply counts only
    /// if the writes are committed.
    pub fn take_relied_on(&self) -> bool {
        let is_relied_on = self.is_relied_on.load(Ordering::Relaxed);
        self.is_relied_on.store(false, Ordering::Relaxed);
        is_relied_on
    }

    /// The command relies on the writes.
    pub(crate) fn rely(&self) {
        self.is_relied_on.store(true, Ordering::Relaxed);
    }

    /// About how much memory the writes take, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// The trees that are emptied before the rest takes place.
    pub fn cleared(&self) -> &[Slot] {
        &self.cleared
    }

    /// The ranges that are deleted, each from a key on and below another one.
    pub fn ranges(&self) -> impl Iterator<Item = (Slot, Bounds<'_>)> {
        self.ranges.iter().map(|(slot, lower, upper)| (*slot, Bounds { lower, upper: upper.as_deref() }))
    }

    /// How many writes to keys there are.
    pub fn count(&self) -> usize {
        self.ops.values().map(|ops| ops.by_key.len()).sum()
    }

    /// The writes to keys, each of which occurs once.
    pub fn ops(&self) -> impl Iterator<Item = (Slot, &[u8], &Op)> {
        self.ops.iter().flat_map(|(slot, ops)| ops.by_key.iter().map(|(key, op)| (*slot, &**key, op)))
    }

    /// The writes to clients' keys, each with its database.
    pub fn key_ops(&self) -> impl Iterator<Item = (u16, &[u8], &Op)> {
        self.ops().filter_map(|(slot, key, op)| match slot.space {
            Space::Keys => Some((slot.database, key, op)),
            Space::Elements if key == EMPTY_KEY => Some((slot.database, &key[..0], op)),
            Space::Elements => None,
        })
    }

    /// The writes to keys of a tree within `bounds`, ascending. The lower end of `bounds` is before the upper one.
    pub fn range<'a>(
        &'a self,
        slot: Slot,
        bounds: Bounds<'_>,
    ) -> impl DoubleEndedIterator<Item = (&'a Arc<[u8]>, &'a Op)> {
        self.ops.get(&slot).into_iter().flat_map(move |ops| ops.range(bounds))
    }

    /// The keys that were written to, and those of collections with elements that were, each with its database.
    pub fn keys(&self) -> Vec<(u16, Vec<u8>)> {
        let key_of = |(slot, key, _): (Slot, &[u8], _)| match slot.space {
            Space::Keys => Some((slot.database, key.to_vec())),
            Space::Elements => key_of_element(key).map(|key| (slot.database, key)),
        };
        let mut keys: Vec<(u16, Vec<u8>)> = self.ops().filter_map(key_of).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Writes::default();
    }

    /// Begins a command: [`Writes::undo`] goes back to here.
    pub(crate) fn begin(&mut self) {
        self.journal.clear();
        self.begun_bytes = self.bytes;
    }

    /// The command that has begun may make the store grow, if it has written.
    pub(crate) fn note_growth(&mut self) {
        self.may_grow |= !self.journal.is_empty();
    }

    /// Whether every command that has written only removes something, or lets keys expire or stay.
    pub fn only_free_space(&self) -> bool {
        !self.may_grow
    }

    /// Takes back what was written since [`Writes::begin`].
    pub(crate) fn undo(&mut self) {
        self.bytes = self.begun_bytes;
        while let Some(undo) = self.journal.pop() {
            match undo {
                Undo::Key(slot, key, Some(op)) => drop(self.ops.entry(slot).or_default().insert(&key, op)),
                Undo::Key(slot, key, None) => drop(self.ops.entry(slot).or_default().remove(&key)),
                Undo::Cleared(slot, ops) => {
                    self.cleared.pop();
                    self.ops.insert(slot, ops);
                }
                Undo::Range => drop(self.ranges.pop()),
            }
        }
    }

    pub(crate) fn write(&mut self, slot: Slot, key: &[u8], op: Op) {
        self.rely();
        self.bytes += memory_of(key, &op);
        let (key, before) = self.ops.entry(slot).or_default().insert(key, op);
        // What it replaces goes as soon as the command cannot be undone any more.
        self.bytes -= before.as_ref().map_or(0, |before| memory_of(&key, before)).min(self.bytes);
        self.journal.push(Undo::Key(slot, key, before));
    }

    pub(crate) fn delete_range(&mut self, slot: Slot, lower: Vec<u8>, upper: Option<Vec<u8>>) {
        // Ranges are deleted first, so what was put into this one goes here.
        self.forget_range(slot, Bounds { lower: &lower, upper: upper.as_deref() });
        self.bytes += lower.len() + upper.as_ref().map_or(0, Vec::len) + 64;
        self.ranges.push((slot, lower, upper));
        self.journal.push(Undo::Range);
    }

    /// Forgets what was written within `bounds`.
    pub(crate) fn forget_range(&mut self, slot: Slot, bounds: Bounds<'_>) {
        self.rely();
        let ops = self.ops.entry(slot).or_default();
        let keys: Vec<Arc<[u8]>> = ops.range(bounds).map(|(key, _)| Arc::clone(key)).collect();
        for key in keys {
            let op = ops.remove(&key);
            self.bytes -= op.as_ref().map_or(0, |op| memory_of(&key, op)).min(self.bytes);
            self.journal.push(Undo::Key(slot, key, op));
        }
    }

    pub(crate) fn empty(&mut self, slot: Slot) {
        self.rely();
        let ops = self.ops.remove(&slot).unwrap_or_default();
        let bytes: usize = ops.by_key.iter().map(|(key, op)| memory_of(key, op)).sum();
        self.bytes -= bytes.min(self.bytes);
        self.cleared.push(slot);
        self.journal.push(Undo::Cleared(slot, ops));
    }

    /// Gives the entry that is written to `key` another value, of the same bytes.
    pub fn set_value(&mut self, slot: Slot, key: &[u8], same: Value) {
        if let Some(Op::Put(entry)) = self.ops.get_mut(&slot).and_then(|ops| ops.by_key.get_mut(key)) {
            entry.value = same;
        }
    }

    /// What is written to `key`.
    #[inline]
    pub fn op(&self, slot: Slot, key: &[u8]) -> Option<&Op> {
        let op = self.ops.get(&slot)?.by_key.get(key)?;
        self.rely();
        Some(op)
    }

    /// Whether the tree is emptied first: nothing of the state below shows.
    pub fn hides_all(&self, slot: Slot) -> bool {
        let is_cleared = self.cleared.contains(&slot);
        if is_cleared {
            self.rely();
        }
        is_cleared
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Space;

    const KEYS: Slot = Slot { database: 0, space: Space::Keys };
    const ELEMENTS: Slot = Slot { database: 0, space: Space::Elements };

    fn put(value: u64) -> Op {
        let value = Value::Bytes(value.to_be_bytes().to_vec());
        Op::Put(Entry { value, attributes: Vec::new(), expires_us: None })
    }

    #[test]
    fn the_keys_of_writes_are_also_those_of_elements() {
        let mut writes = Writes::default();
        writes.write(ELEMENTS, b"hash\0\x01\0\0\0\0\0\0\0\x07a", put(1));
        writes.write(KEYS, b"string", put(1));
        writes.write(ELEMENTS, b"hash\0\x01\0\0\0\0\0\0\0\x07b", Op::Delete);
        writes.write(ELEMENTS, b"zero\0\xff\0\x01\0\0\0\0\0\0\0\x08a", put(1));
        assert_eq!(writes.keys(), [&b"hash"[..], b"string", b"zero\0"].map(|key| (0, key.to_vec())));
    }

    type Model = BTreeMap<Vec<u8>, String>;

    /// What a range takes whose ends have one byte each.
    const RANGE_BYTES: usize = 66;

    /// Compares everything that can be asked about the tree with what should be there.
    fn compare(writes: &Writes, model: &Model, from: &[u8], to: &[u8]) {
        let shown = |op: &Op| format!("{op:?}");
        let all: Model = writes.ops().map(|(_, key, op)| (key.to_vec(), shown(op))).collect();
        assert!(all == *model && writes.ops().count() == model.len(), "{all:?}, not {model:?}");
        for number in 0..=u8::MAX {
            assert_eq!(writes.op(KEYS, &[number]).map(shown), model.get(&[number][..]).cloned());
        }
        let bounds = Bounds { lower: from, upper: Some(to) };
        let part = |bounds| writes.range(KEYS, bounds).map(|(key, op)| (key.to_vec(), shown(op)));
        let expected = model.range(from.to_vec()..to.to_vec()).map(|(key, op)| (key.clone(), op.clone()));
        assert!(part(bounds).eq(expected.clone()) && part(bounds).rev().eq(expected.rev()), "another range");
        let rest = model.range(from.to_vec()..).map(|(key, op)| (key.clone(), op.clone()));
        assert!(part(Bounds { upper: None, ..bounds }).eq(rest), "another end");
    }

    #[test]
    fn writes_are_those_of_a_map_however_they_are_walked_and_undone() {
        for seed in test_kit::seeds(200) {
            println!("seed {seed}");
            let mut rng = test_kit::Rng::new(seed);
            let mut random = |below: u64| rng.below(below);
            let (mut writes, mut model) = (Writes::default(), Model::new());
            for number in 0..60 {
                let before = model.clone();
                let state_of = |writes: &Writes| {
                    (writes.memory_bytes(), writes.cleared().len(), writes.ranges().count())
                };
                let state_before = state_of(&writes);
                writes.begin();
                for _ in 0..random(5) {
                    let key = vec![random(40) as u8];
                    match random(12) {
                        0 => {
                            writes.empty(KEYS);
                            model.clear();
                        }
                        1 => {
                            let end = vec![key[0] + 1 + random(8) as u8];
                            model.retain(|held, _| *held < key || *held >= end);
                            writes.delete_range(KEYS, key, Some(end));
                        }
                        kind => {
                            let op = if kind < 4 { Op::Delete } else { put(number) };
                            model.insert(key.clone(), format!("{op:?}"));
                            writes.write(KEYS, &key, op);
                        }
                    }
                }
                if random(3) == 0 {
                    writes.undo();
                    model = before;
                    assert_eq!(state_of(&writes), state_before);
                }
                let of_ops: usize = writes.ops().map(|(_, key, op)| memory_of(key, op)).sum();
                assert_eq!(writes.memory_bytes(), of_ops + writes.ranges().count() * RANGE_BYTES);
                // Mostly nobody walks for a while.
                if random(6) == 0 {
                    let from = random(40) as u8;
                    compare(&writes, &model, &[from], &[from + 1 + random(20) as u8]);
                }
            }
        }
    }
}
