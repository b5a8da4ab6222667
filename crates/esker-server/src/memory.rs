//! The memory that connections take for what clients send and do not read, of each and of all; and maps that clients fill.

use std::borrow::Borrow;
use std::cell::Cell;
use std::collections::HashMap;
use std::hash::Hash;
use std::rc::Rc;

/// A map of so few entries keeps its room.
const ROOM_KEPT: usize = 1024;

/// Removes an entry that a client has brought. A client may make a map large once, so the map gives most of its room back when
/// it uses little of it. At most a sixteenth of the entries is moved then, so a removal costs the same on average.
pub(crate) fn remove<K, V, Q>(map: &mut HashMap<K, V>, key: &Q) -> Option<V>
where
    K: Borrow<Q> + Eq + Hash,
    Q: ?Sized + Eq + Hash,
{
    let removed = map.remove(key);
    if map.capacity() > ROOM_KEPT && map.len() < map.capacity() / 16 {
        map.shrink_to(2 * map.len());
    }
    removed
}

/// What all connections together take, and may take.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    used: Cell<usize>,
    /// The bytes of connections that are about to end.
    doomed: Cell<usize>,
    /// The most bytes that all may take.
    pub(crate) bytes_max: Cell<usize>,
    /// The most bytes of messages that wait for one of them.
    pub(crate) outbox_bytes_max: Cell<usize>,
}

impl Budget {
    pub(crate) fn used(&self) -> usize {
        self.used.get()
    }

    /// The bytes by which all other connections exceed the limit.
    #[inline]
    pub(crate) fn excess(&self) -> usize {
        self.used.get().saturating_sub(self.doomed.get()).saturating_sub(self.bytes_max.get())
    }
}

/// What one connection takes. It is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Rc<Budget>,
    buffers: Cell<usize>,
    outbox: Cell<usize>,
    is_doomed: Cell<bool>,
}

impl Share {
    pub(crate) fn of(budget: &Rc<Budget>) -> Share {
        Share {
            budget: Rc::clone(budget),
            buffers: Cell::default(),
            outbox: Cell::default(),
            is_doomed: Cell::default(),
        }
    }

    /// Notes what its buffers take now.
    #[inline]
    pub(crate) fn set_buffers(&self, bytes: usize) {
        if self.buffers.get() != bytes {
            self.change(&self.buffers, bytes);
        }
    }

    /// Notes what the messages take that wait for it. Returns whether they may take so much.
    pub(crate) fn set_outbox(&self, bytes: usize) -> bool {
        self.change(&self.outbox, bytes);
        bytes <= self.budget.outbox_bytes_max.get()
    }

    fn change(&self, part: &Cell<usize>, bytes: usize) {
        let before = part.replace(bytes);
        let change = |sum: &Cell<usize>| sum.set(sum.get().saturating_sub(before).saturating_add(bytes));
        change(&self.budget.used);
        if self.is_doomed.get() {
            change(&self.budget.doomed);
        }
    }

    /// The connection is about to end: nothing more has to end for what it takes.
    pub(crate) fn doom(&self) {
        if !self.is_doomed.replace(true) {
            self.budget.doomed.set(self.budget.doomed.get().saturating_add(self.bytes()));
        }
    }

    pub(crate) fn buffers(&self) -> usize {
        self.buffers.get()
    }

    pub(crate) fn outbox(&self) -> usize {
        self.outbox.get()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.buffers.get().saturating_add(self.outbox.get())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set_buffers(0);
        self.set_outbox(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_that_was_large_keeps_little() {
        let mut map = HashMap::new();
        let names = |count: usize| (0..count).map(|number| format!("name{number}"));
        map.extend(names(100_000).map(|name| (name, ())));
        for (removed, name) in (1..).zip(names(100_000)) {
            assert_eq!(remove(&mut map, name.as_str()), Some(()));
            let (room, left) = (map.capacity(), map.len());
            assert_eq!(left, 100_000 - removed);
            assert!(room < (16 * (left + 1)).max(ROOM_KEPT + 1), "room for {room}, {left} are left");
        }
        assert_eq!(remove(&mut map, "name"), None);
    }

    #[test]
    fn what_is_dropped_is_given_back() {
        let budget = Rc::<Budget>::default();
        budget.bytes_max.set(100);
        budget.outbox_bytes_max.set(50);
        let (one, other) = (Share::of(&budget), Share::of(&budget));
        one.set_buffers(60);
        assert!(one.set_outbox(50) && !one.set_outbox(51));
        other.set_buffers(1 << 40);
        assert!(budget.excess() > 1 << 39);
        other.doom();
        assert_eq!(budget.excess(), 11);
        other.set_buffers(1);
        assert_eq!(budget.excess(), 11);
        drop(one);
        assert_eq!((budget.excess(), budget.used()), (0, 1));
        drop(other);
        assert_eq!((budget.used(), budget.doomed.get()), (0, 0));
    }
}
