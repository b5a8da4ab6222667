//! Knows the newest entry of each key, so that a get need not search the list.
//!
//! A search of a full memtable costs about ten cache misses, one after the other. A look at this hash table costs one, and
//! one more for the entry, if the key is there.
//!
//! ```text
//! slot = 0 or [ 63 .. 48: lower 16 bits of the key's hash | 47 .. 0: address of the newest entry of the key ]
//! ```
//!
//! The upper half of a key's hash chooses its first slot; the key has the first slot from there on that was free when it
//! came, fewer than the table's `reach` on. A slot once taken stays with its key and only changes to newer entries. So all look
//! for a key at the same slots, and nobody waits. A key that finds no slot makes the table *leaky*: from then on a key that
//! meets no free slot may be in the list all the same.
//!
//! A table never grows. It is sized for as many keys as the memtable before had. A memtable that has none, or a leaky one,
//! gets one for the rest of its life when a part of it is full ([`Memtable::begin_index`]): the keys that come then are in
//! that, and the others in the old one or in the list alone. Without an old one, a key that is not there needs a search.
//!
//! Relies on: an insert adds its entry when it is linked in and before it returns. So a thread that knows of the entry
//! finds it, or a newer one, in the slot. Only the holder of the commit lock begins a table, and a late one while no insert
//! is under way.

use std::sync::OnceLock;

use super::Memtable;
use super::node::{Node, NodePtr, NodeRef, prefetch};
use crate::bloom::block_of;
use crate::canary::broken;
use crate::sync::{AtomicBool, AtomicPtr, Ordering};

/// Below this many entries, a search is as fast.
const ENTRIES_MIN: usize = 64;

/// A key is in one of so many slots at most; mostly in the first or the second. Of 400,000 keys, the one furthest from its first
/// slot is 67 slots away if that many were expected, and 171 if a quarter more came than were expected (simulated): a few
/// find no slot then.
const REACH: usize = if cfg!(esker_shuttle) { 1 } else { 128 };

/// A small table has a reach of an eighth of its slots, but at least of so many: with a tenth more keys than were expected,
/// one table in a hundred has no place for all of them then (simulated).
const REACH_MIN: usize = if cfg!(esker_shuttle) { 1 } else { 48 };

/// After so many slots with the mark of a key's hash, but with other keys, the key gets none. By chance one in 65,536 slots is
/// such a one; keys that someone has chosen to have one hash would fill all slots with them.
const STRANGERS_MAX: usize = 4;

/// The bit of a slot at which the part of the hash begins. Addresses that reach so far are not taken.
const TAG_SHIFT: u32 = 48;

/// The part of a full memtable after which it gets a late table, if it has no good one.
const LATE: usize = 8;

/// The tables of a memtable.
#[derive(Default)]
pub(super) struct KeyIndex {
    /// Decided by the first reservation: a table that began later would not know the keys before it.
    early: OnceLock<Option<HashTable>>,
    late: OnceLock<Box<HashTable>>,
    /// Whether the memory for a late table was not there.
    is_refused: AtomicBool,
}

/// What is known of a key.
pub(super) enum Found<'a> {
    /// Its newest entry among those whose inserts have returned, or a newer one.
    Newest(NodeRef<'a>),
    /// It has no entry whose insert has returned.
    Nothing,
    /// It may have entries.
    Unknown,
}

impl KeyIndex {
    /// Begins the first table, for about `keys` keys, if it is worth its memory and the memory is there. Only the first call
    /// does anything, which comes before any insert.
    #[inline]
    pub(super) fn begin(&self, keys: usize) {
        self.early.get_or_init(|| (keys >= ENTRIES_MIN).then(|| HashTable::for_keys(keys)).flatten());
    }

    #[inline]
    fn early(&self) -> Option<&HashTable> {
        self.early.get()?.as_ref()
    }

    /// Whether it knows little of the keys that come, and a late table may help.
    #[inline]
    fn wants_late(&self) -> bool {
        self.late.get().is_none()
            && self.early().is_none_or(HashTable::is_leaky)
            && !self.is_refused.load(Ordering::Relaxed)
    }

    pub(super) fn begin_late(&self, keys: usize) {
        match HashTable::for_keys(keys) {
            Some(table) => drop(self.late.set(Box::new(table))),
            None => self.is_refused.store(true, Ordering::Relaxed),
        }
    }

    #[cfg(test)]
    pub(super) fn has_late(&self) -> bool {
        self.late.get().is_some()
    }

    /// The table for new entries.
    #[inline]
    fn newest(&self) -> Option<&HashTable> {
        self.late.get().map(Box::as_ref).or_else(|| self.early())
    }

    /// Fetches what [`KeyIndex::add`] will need for a key of this hash.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        if let Some(table) = self.newest() {
            prefetch(std::ptr::from_ref(&table.slots[table.first_slot(hash)]).cast());
        }
    }

    /// Adds an entry that is linked in. `hash` is that of its key. Returns whether it met another entry of the key.
    #[inline]
    pub(super) fn add(&self, hash: u64, node: NodeRef<'_>) -> bool {
        self.newest().is_some_and(|table| table.add(hash, node))
    }

    #[inline]
    pub(super) fn find(&self, key: &[u8], hash: u64) -> Found<'_> {
        self.look(hash, |node| node.key() == key)
    }

    /// Returns `false` only if no key has this hash.
    #[inline]
    pub(super) fn may_contain(&self, hash: u64) -> bool {
        !matches!(self.look(hash, |_| true), Found::Nothing)
    }

    #[inline]
    fn look(&self, hash: u64, is_it: impl Fn(NodeRef<'_>) -> bool) -> Found<'_> {
        if let Some(late) = self.late.get() {
            match late.look(hash, &is_it) {
                Found::Nothing => {}
                found => return found,
            }
        }
        self.early().map_or(Found::Unknown, |early| early.look(hash, &is_it))
    }

    /// Bytes of memory. Changes only while the memtable takes writes, under the commit lock or in an opening.
    pub(super) fn memory(&self) -> usize {
        let tables = [self.early(), self.late.get().map(Box::as_ref)];
        tables.into_iter().flatten().map(|table| size_of_val(&*table.slots)).sum()
    }
}

/// One hash table.
struct HashTable {
    slots: Box<[AtomicPtr<Node>]>,
    /// A key is in one of so many slots.
    reach: u32,
    /// Whether a key has found no slot.
    is_leaky: AtomicBool,
    /// Whether an entry has an address that no slot holds: the slot of its key may show an older one.
    is_blind: AtomicBool,
}

impl HashTable {
    /// `None` if memory is short.
    fn for_keys(keys: usize) -> Option<HashTable> {
        // Three fifths full.
        let count = (keys / 3).saturating_mul(5).clamp(1, u32::MAX as usize);
        let reach = (count / 8).clamp(REACH_MIN, REACH);
        Some(HashTable {
            slots: free_slots(count + reach)?,
            reach: reach as u32,
            is_leaky: AtomicBool::new(false),
            is_blind: AtomicBool::new(false),
        })
    }

    fn is_leaky(&self) -> bool {
        self.is_leaky.load(Ordering::Acquire)
    }

    /// The slots of keys with this hash.
    #[inline]
    fn slots(&self, hash: u64) -> &[AtomicPtr<Node>] {
        let first = self.first_slot(hash);
        &self.slots[first..first + self.reach as usize]
    }

    #[inline]
    fn first_slot(&self, hash: u64) -> usize {
        block_of(hash, self.slots.len() - self.reach as usize)
    }

    /// Returns whether there was another entry of the key.
    #[inline]
    fn add(&self, hash: u64, node: NodeRef<'_>) -> bool {
        let Some(marked) = marked(node, hash) else {
            self.is_blind.store(true, Ordering::Release);
            return false;
        };
        let mut strangers = 0;
        for slot in self.slots(hash) {
            let mut held = slot.load(Ordering::Acquire);
            loop {
                if let Some(other) = NodePtr::new(unmarked(held)) {
                    if mark_of(held) != mark(hash) {
                        break;
                    }
                    // SAFETY: entries stay as long as the memtable, whose table this is.
                    let other = unsafe { other.as_ref() };
                    if other.key() != node.key() {
                        strangers += 1;
                        break;
                    }
                    if other.tag() > node.tag() && !broken("index-order") {
                        return true;
                    }
                }
                // It shows the entry, so all who read the slot must find the entry complete and linked in.
                match slot.compare_exchange(held, marked, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(old) => return !old.is_null(),
                    Err(now) => held = now,
                }
            }
            if strangers == STRANGERS_MAX {
                break;
            }
        }
        self.is_leaky.store(true, Ordering::Release);
        false
    }

    #[inline]
    fn look(&self, hash: u64, is_it: impl Fn(NodeRef<'_>) -> bool) -> Found<'_> {
        if self.is_blind.load(Ordering::Acquire) {
            return Found::Unknown;
        }
        let mut strangers = 0;
        for slot in self.slots(hash) {
            let held = slot.load(Ordering::Acquire);
            let Some(node) = NodePtr::new(unmarked(held)) else {
                // The key would have taken this slot.
                return Found::Nothing;
            };
            if mark_of(held) == mark(hash) {
                // SAFETY: entries stay as long as the memtable, whose table this is.
                let node = unsafe { node.as_ref() };
                if is_it(node) {
                    return Found::Newest(node);
                }
                strangers += 1;
                if strangers == STRANGERS_MAX {
                    break;
                }
            }
        }
        if self.is_leaky() { Found::Unknown } else { Found::Nothing }
    }
}

#[inline]
fn mark(hash: u64) -> usize {
    hash as usize & 0xffff
}

#[inline]
fn mark_of(slot: *mut Node) -> usize {
    slot.addr() >> TAG_SHIFT
}

#[inline]
fn unmarked(slot: *mut Node) -> *mut Node {
    slot.map_addr(|addr| addr & ((1 << TAG_SHIFT) - 1))
}

/// A slot for `node`, with a key of this hash. `None` if its address is too large.
#[inline]
fn marked(node: NodeRef<'_>, hash: u64) -> Option<*mut Node> {
    let node = node.ptr().as_ptr();
    (node.addr() >> TAG_SHIFT == 0).then(|| node.map_addr(|addr| addr | mark(hash) << TAG_SHIFT))
}

/// Memory that the system gives as zeros is touched only where it is used.
#[cfg(not(esker_shuttle))]
fn free_slots(count: usize) -> Option<Box<[AtomicPtr<Node>]>> {
    use std::alloc::{Layout, alloc_zeroed};
    let layout = Layout::array::<AtomicPtr<Node>>(count).ok()?;
    // SAFETY: the layout is not empty: a table has more than `REACH_MIN` slots.
    let at = std::ptr::NonNull::new(unsafe { alloc_zeroed(layout) })?;
    let slots = std::ptr::slice_from_raw_parts_mut(at.as_ptr().cast::<AtomicPtr<Node>>(), count);
    // SAFETY: allocated with the layout that the box frees it with; zeros are null pointers.
    Some(unsafe { Box::from_raw(slots) })
}

/// The scheduler's atomics are not made of zeros.
#[cfg(esker_shuttle)]
fn free_slots(count: usize) -> Option<Box<[AtomicPtr<Node>]>> {
    Some((0..count).map(|_| AtomicPtr::default()).collect())
}

impl Memtable {
    /// Whether it is time to call [`Memtable::begin_index`]. The memtable is full with `limit` bytes.
    #[inline]
    pub(crate) fn wants_index(&self, limit: usize) -> bool {
        self.index.wants_late() && self.arena.allocated() >= limit / LATE && self.len() >= ENTRIES_MIN
    }

    /// Begins an index for the keys that come, until the memtable has `limit` bytes, if it [`Memtable::wants_index`]. The
    /// caller sees to it that nobody inserts meanwhile.
    pub(crate) fn begin_index(&self, limit: usize) {
        if !self.wants_index(limit) {
            return;
        }
        // As many to a byte as so far, but with slots for at most an eighth of the limit.
        let (entries, bytes) = (self.len() as u128, self.arena.allocated().max(1));
        let keys = (entries * limit.saturating_sub(bytes) as u128 / bytes as u128) as usize;
        self.index.begin_late(keys.min(limit / 8 / size_of::<AtomicPtr<Node>>() / 5 * 3));
    }
}
