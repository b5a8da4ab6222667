//! The immutable memtables of all trees, which wait for a flush.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::canary::broken;
use crate::state::{Mem, TreeInner};

/// An immutable memtable and its tree.
pub(crate) type Immutable = (Arc<TreeInner>, Arc<Mem>);

/// See the module's comment. All methods may be called by many threads at the same time.
#[derive(Debug, Default)]
pub(crate) struct FlushQueue {
    /// Oldest first: sets of memtables that became immutable together, and have to be flushed together (rule 21). No
    /// set is empty.
    sets: Mutex<Vec<Vec<Immutable>>>,
    /// Bytes of memory that they take. Changed under the lock, but writers may read it without the lock.
    bytes: AtomicUsize,
}

impl FlushQueue {
    /// Adds the newest memtables, which became immutable together.
    pub(crate) fn push(&self, set: Vec<Immutable>) {
        let bytes = set.iter().map(|(_, mem)| mem.table.memory()).sum();
        let mut sets = self.sets.lock();
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if broken("rule-21-full") {
            sets.extend(set.into_iter().map(|one| vec![one]));
        } else {
            sets.push(set);
        }
    }

    /// Bytes of memory that the memtables take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The memtables of trees that still exist, in sets, oldest first.
    pub(crate) fn sets(&self) -> Vec<Vec<Immutable>> {
        let sets = self.sets.lock();
        let there = |set: &Vec<Immutable>| -> Vec<Immutable> {
            set.iter().filter(|(tree, _)| !tree.is_dropped()).cloned().collect()
        };
        sets.iter().map(there).filter(|set| !set.is_empty()).collect()
    }

    /// Removes memtables that are in tables now.
    pub(crate) fn remove(&self, flushed: &Flushed) {
        self.retain(|(_, mem)| !flushed.contains(mem));
    }

    /// Removes the memtables of a tree that was dropped.
    pub(crate) fn remove_tree(&self, tree: &Arc<TreeInner>) {
        self.retain(|(other, _)| !Arc::ptr_eq(other, tree));
    }

    /// Removes all memtables.
    pub(crate) fn clear(&self) {
        self.retain(|_| false);
    }

    fn retain(&self, stays: impl Fn(&Immutable) -> bool) {
        let mut sets = self.sets.lock();
        let removed: Vec<Immutable> =
            sets.iter_mut().flat_map(|set| set.extract_if(.., |entry| !stays(entry))).collect();
        sets.retain(|set| !set.is_empty());
        let bytes = removed.iter().map(|(_, mem)| mem.table.memory()).sum();
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        drop(sets);
        // This is done outside the lock: it may free memory, and writers would have to wait for that.
        drop(removed);
    }
}

/// The memtables that a flush has written to tables. A lookup takes constant time, however many there are.
#[derive(Debug, Default)]
pub(crate) struct Flushed(HashSet<*const Mem>);

impl Flushed {
    /// The memtables in `by_tree`, which outlive the result.
    pub(crate) fn new(by_tree: &[(Arc<TreeInner>, Vec<Arc<Mem>>)]) -> Self {
        Flushed(by_tree.iter().flat_map(|(_, mems)| mems).map(Arc::as_ptr).collect())
    }

    pub(crate) fn contains(&self, mem: &Arc<Mem>) -> bool {
        self.0.contains(&Arc::as_ptr(mem))
    }
}
