//! The entries that come while a memtable is copied. The copy gets them afterwards ([`Memtable::copy_recent`]).
//!
//! ```text
//! no insert runs:     begin_recent
//! inserts go on:      the copy is made of the entries up to a number; copy_recent adds some of the others
//! no insert runs:     copy_recent adds the rest; end_recent
//! ```
//!
//! An insert must not allocate. Therefore a reservation makes room in the list for as many entries as it may be for. If
//! memory is short, or the list becomes long, the list and the copy are given up.

use parking_lot::Mutex;

use super::Memtable;
use super::node::{self, NodePtr, NodeRef};
use super::together::NewEntry;
use crate::error::Result;
use crate::sync::{AtomicBool, Ordering};

/// The most entries that reservations may make room for. A reservation of large values makes room for many more than come.
const PROMISED_MAX: usize = 1 << 20;

/// See the module's comment.
#[derive(Default)]
pub(super) struct Recent {
    is_on: AtomicBool,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    nodes: Vec<NodePtr>,
    /// How many entries may still come by reservations that were made.
    promised: usize,
    is_given_up: bool,
}

impl List {
    fn give_up(&mut self) {
        (self.nodes, self.is_given_up) = (Vec::new(), true);
    }
}

impl Recent {
    /// Makes room for the entries of a reservation of `bytes`. Calls must not overlap.
    #[inline]
    pub(super) fn promise(&self, bytes: usize) {
        if self.is_on.load(Ordering::Relaxed) {
            self.make_room(bytes / node::size(1, 0, 0));
        }
    }

    #[cold]
    fn make_room(&self, count: usize) {
        let mut list = self.list.lock();
        list.promised = list.promised.saturating_add(count);
        let promised = list.promised;
        if promised > PROMISED_MAX || list.is_given_up || list.nodes.try_reserve(promised).is_err() {
            list.give_up();
        }
    }

    /// Notes an entry that was inserted.
    #[inline]
    pub(super) fn note(&self, node: NodeRef<'_>) {
        if self.is_on.load(Ordering::Relaxed) {
            self.add(node);
        }
    }

    #[cold]
    fn add(&self, node: NodeRef<'_>) {
        let mut list = self.list.lock();
        if list.nodes.len() < list.nodes.capacity() {
            list.promised = list.promised.saturating_sub(1);
            list.nodes.push(node.ptr());
        } else {
            list.give_up();
        }
    }

    /// The entries noted since the last call; `None` if the list was given up.
    fn take(&self) -> Option<Vec<NodePtr>> {
        let mut list = self.list.lock();
        if list.is_given_up {
            return None;
        }
        let mut rest = Vec::new();
        // Entries of reservations that were made may come before the next one makes room.
        rest.try_reserve(list.promised).ok()?;
        Some(std::mem::replace(&mut list.nodes, rest))
    }
}

impl Memtable {
    /// Begins to note the entries that come. The caller ensures that no insert runs meanwhile, and that one copy is made at
    /// a time.
    pub(crate) fn begin_recent(&self) {
        *self.recent.list.lock() = List::default();
        self.recent.is_on.store(true, Ordering::Relaxed);
    }

    /// Ends the noting of entries.
    pub(crate) fn end_recent(&self) {
        self.recent.is_on.store(false, Ordering::Relaxed);
        *self.recent.list.lock() = List::default();
    }

    /// An empty memtable for a copy: it expects keys like this one's, and as many, and takes memory from the same pool.
    pub(crate) fn empty_copy(&self) -> Memtable {
        Memtable { expected: self.expected, ..self.expecting(self.heads_of_keys()) }
    }

    /// Inserts an entry in its own reservation. The caller ensures that no other reservation of this memtable is being
    /// made.
    pub(crate) fn insert_copy(&self, entry: &NewEntry<'_>) -> Result<()> {
        let mut region = self.reserve(entry.size())?;
        self.insert(&mut region, entry);
        Ok(())
    }

    /// Adds the entries to `copy` that were noted since the last call. Returns how many there were; `None` if memory is
    /// short, and the copy has to be given up.
    pub(crate) fn copy_recent(&self, copy: &Memtable) -> Option<usize> {
        let nodes = self.recent.take()?;
        for node in &nodes {
            // SAFETY: the nodes are this memtable's, which is borrowed.
            let node = unsafe { node.as_ref() };
            let height = Memtable::random_height();
            copy.insert_copy(&NewEntry::new(height, node.key(), node.seq(), node.kind(), node.value()))
                .ok()?;
        }
        copy.note_newest(self.newest());
        Some(nodes.len())
    }
}
