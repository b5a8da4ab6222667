//! Finds the newest entry of each key, so that a get need not search the list.
//!
//! A search of a full memtable costs about ten cache misses, one after the other. A lookup in this hash table costs one
//! for the slot and one for the entry, if the key is there. If it is not, the lookup usually costs none: it reads only
//! the marks, 1.7 bytes a key, and most gets request keys that are elsewhere.
//!
//! ```text
//! group = 8 slots: [ marks: 8 bytes, a slot without a key has 0 ]   [ 8 addresses of the newest entries of the keys ]
//! ```
//!
//! The upper half of a key's hash chooses its first group; the key has the first slot from there on that was free when
//! it came, fewer than the table's `reach` groups on. The slots of a group are taken in order. A slot once taken stays
//! with its key and only changes to newer entries. Therefore all threads look for a key at the same slots, and no
//! thread waits. A key that finds no slot makes the table *leaky*: from then on a key that meets no free slot may still
//! be in the list.
//!
//! An insert takes a slot in two steps: it sets the mark, then the address. In between, another key with this mark may set its
//! address, and the first one continues with the next slot.
//!
//! A table never grows. It is sized for as many keys as the previous memtable had. A memtable that has no table, or a
//! leaky one, gets one for the rest of its life when a part of it is full ([`Memtable::begin_index`]): that table has
//! the later keys. The others are in the old table or in the list alone. Without an old table, an absent key needs a
//! search.
//!
//! Relies on: an insert adds its entry when it is linked in and before it returns. Therefore a thread that knows of the
//! entry finds it, or a newer one, in the slot. Only the holder of the commit lock begins a table, and a late one while
//! no insert is under way.

use std::sync::OnceLock;

use super::Memtable;
use super::node::{Node, NodePtr, NodeRef, prefetch};
use crate::bloom::block_of;
use crate::canary::broken;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// Below this many entries, a search is as fast.
const ENTRIES_MIN: usize = 64;

/// The slots of a group: as many as a word has bytes for their marks. The scheduler of the tests gets by with two.
const GROUP: usize = if cfg!(esker_shuttle) { 2 } else { 8 };

/// The most groups that a key may be in; usually it is in the first. Of 400,000 keys, the one furthest from its first
/// group is 7 away if that many were expected, and 18 if a quarter more came than were expected (simulated).
const REACH: usize = if cfg!(esker_shuttle) { 2 } else { 24 };

/// The least reach of a small table, whose reach is an eighth of its groups: with a tenth more keys than were expected,
/// fewer than one table in a hundred has no place for all of them then (simulated).
const REACH_MIN: usize = if cfg!(esker_shuttle) { 2 } else { 6 };

/// After this many slots with its mark, but with other keys, a key gets no slot. By chance one slot in 255 has the
/// mark; keys that an attacker has chosen to have one hash would fill all slots with it.
const STRANGERS_MAX: usize = if cfg!(esker_shuttle) { 2 } else { 8 };

/// The part of a full memtable after which it gets a late table, if it has no good one.
const LATE: usize = 8;

/// The tables of a memtable.
#[derive(Default)]
pub(super) struct KeyIndex {
    /// Decided by the first reservation: a table that began later would not know the keys before it.
    early: OnceLock<Option<HashTable>>,
    late: OnceLock<Box<HashTable>>,
    /// Whether the memory for a late table was lacking.
    is_refused: AtomicBool,
}

/// The result of a lookup of a key.
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

    /// Whether it knows little of the later keys, and a late table may help.
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

    /// Prefetches the memory that [`KeyIndex::add`] will need for a key of this hash.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        if let Some(table) = self.newest() {
            let first = table.first_group(hash);
            prefetch(std::ptr::from_ref(&table.marks[first]).cast());
            prefetch(std::ptr::from_ref(&table.slots[first]).cast());
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
        tables.into_iter().flatten().map(HashTable::memory).sum()
    }
}

/// One hash table.
struct HashTable {
    /// The marks of each group, its first slot in the lowest byte.
    marks: Box<[AtomicU64]>,
    /// The newest entry of each slot's key; null while the slot has none.
    slots: Box<[Slots]>,
    /// A key is in one of this many groups.
    reach: u32,
    /// Whether a key has found no slot.
    is_leaky: AtomicBool,
}

/// The slots of a group. They may lie in two cache lines: memory that is aligned further than the system's does not
/// come as zeros that no thread has written.
type Slots = [AtomicPtr<Node>; GROUP];

impl HashTable {
    /// Returns `None` if memory is short.
    fn for_keys(keys: usize) -> Option<HashTable> {
        // Three fifths full.
        let count = (keys / (3 * GROUP)).saturating_mul(5).clamp(1, u32::MAX as usize);
        let reach = (count / 8).clamp(REACH_MIN, REACH);
        Some(HashTable {
            marks: zeros::marks(count + reach)?,
            slots: zeros::slots(count + reach)?,
            reach: reach as u32,
            is_leaky: AtomicBool::new(false),
        })
    }

    /// Bytes.
    fn memory(&self) -> usize {
        size_of_val(&*self.marks) + size_of_val(&*self.slots)
    }

    fn is_leaky(&self) -> bool {
        self.is_leaky.load(Ordering::Acquire)
    }

    /// The groups of keys with this hash.
    #[inline]
    fn groups(&self, hash: u64) -> impl Iterator<Item = (&AtomicU64, &Slots)> {
        let first = self.first_group(hash);
        let groups = first..first + self.reach as usize;
        self.marks[groups.clone()].iter().zip(&self.slots[groups])
    }

    #[inline]
    fn first_group(&self, hash: u64) -> usize {
        block_of(hash, self.marks.len() - self.reach as usize)
    }

    /// Returns whether there was another entry of the key.
    #[inline]
    fn add(&self, hash: u64, node: NodeRef<'_>) -> bool {
        let mark = mark(hash);
        let mut strangers = 0;
        for (marks, slots) in self.groups(hash) {
            let (mut held, mut passed) = (marks.load(Ordering::Acquire), 0);
            loop {
                let taken = taken(held);
                for place in places(held, mark).filter(|&place| place >= passed) {
                    match offer(&slots[place], node) {
                        Some(again) => return again,
                        None => strangers += 1,
                    }
                }
                if strangers >= STRANGERS_MAX || taken == GROUP {
                    break;
                }
                passed = taken;
                // The slot that this takes is looked at like one that was taken before.
                let more = held | (mark << (8 * taken));
                held = match marks.compare_exchange(held, more, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => more,
                    Err(now) => now,
                };
            }
            if strangers >= STRANGERS_MAX {
                break;
            }
        }
        self.is_leaky.store(true, Ordering::Release);
        false
    }

    #[inline]
    fn look(&self, hash: u64, is_it: impl Fn(NodeRef<'_>) -> bool) -> Found<'_> {
        let mark = mark(hash);
        let mut strangers = 0;
        for (marks, slots) in self.groups(hash) {
            let held = marks.load(Ordering::Acquire);
            for place in places(held, mark) {
                // If it is null, the insert that has taken it has not returned.
                if let Some(node) = NodePtr::new(slots[place].load(Ordering::Acquire)) {
                    // SAFETY: entries stay as long as the memtable, whose table this is.
                    let node = unsafe { node.as_ref() };
                    if is_it(node) {
                        return Found::Newest(node);
                    }
                    strangers += 1;
                }
            }
            if strangers >= STRANGERS_MAX {
                break;
            }
            if taken(held) < GROUP {
                // With so few other keys, the key would have taken the next slot.
                return Found::Nothing;
            }
        }
        if self.is_leaky() { Found::Unknown } else { Found::Nothing }
    }
}

/// Puts an entry into a slot with the mark of its key, if no other key has the slot and it holds no newer entry.
/// Returns whether it met another entry of the key; `None` if another key has the slot.
#[inline]
fn offer(slot: &AtomicPtr<Node>, node: NodeRef<'_>) -> Option<bool> {
    let mut held = slot.load(Ordering::Acquire);
    loop {
        if let Some(other) = NodePtr::new(held) {
            // SAFETY: entries stay as long as the memtable, whose table this is.
            let other = unsafe { other.as_ref() };
            if other.key() != node.key() {
                return None;
            }
            if other.tag() > node.tag() && !broken("index-order") {
                return Some(true);
            }
        }
        // This shows the entry. Therefore all threads that read the slot must find the entry complete and linked in.
        match slot.compare_exchange(held, node.ptr().as_ptr(), Ordering::AcqRel, Ordering::Acquire) {
            Ok(old) => return Some(!old.is_null()),
            Err(now) => held = now,
        }
    }
}

/// The mark of a key with this hash; never 0.
#[inline]
fn mark(hash: u64) -> u64 {
    (hash & 0xff).max(1)
}

/// How many slots of a group are taken, given its marks.
#[inline]
fn taken(marks: u64) -> usize {
    8 - marks.leading_zeros() as usize / 8
}

/// The slots of a group that have this mark, in order.
#[inline]
fn places(marks: u64, mark: u64) -> impl Iterator<Item = usize> {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let differing = marks ^ (mark * 0x0101_0101_0101_0101);
    // The upper bit of each byte that is 0.
    let mut equal = !(((differing & LOW) + LOW) | differing | LOW);
    std::iter::from_fn(move || {
        let place = (equal != 0).then(|| equal.trailing_zeros() as usize / 8)?;
        equal &= equal - 1;
        Some(place)
    })
}

/// Memory that the system gives as zeros is touched only where it is used.
#[cfg(not(esker_shuttle))]
mod zeros {
    use std::alloc::{Layout, alloc_zeroed};

    use super::{AtomicU64, Slots};

    pub(super) fn marks(count: usize) -> Option<Box<[AtomicU64]>> {
        // SAFETY: zeros are a number.
        unsafe { zeroed(count) }
    }

    pub(super) fn slots(count: usize) -> Option<Box<[Slots]>> {
        // SAFETY: zeros are null pointers.
        unsafe { zeroed(count) }
    }

    /// Returns `None` if memory is short or `count` is 0.
    ///
    /// # Safety
    ///
    /// A `T` may be all zeros, and has a size.
    unsafe fn zeroed<T>(count: usize) -> Option<Box<[T]>> {
        let layout = Layout::array::<T>(count).ok().filter(|layout| layout.size() > 0)?;
        // SAFETY: the layout is not empty.
        let at = std::ptr::NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let all = std::ptr::slice_from_raw_parts_mut(at.as_ptr().cast::<T>(), count);
        // SAFETY: allocated with the layout that the box frees it with; the caller vouches for the zeros.
        Some(unsafe { Box::from_raw(all) })
    }
}

/// The scheduler's atomics are not made of zeros.
#[cfg(esker_shuttle)]
mod zeros {
    use super::{AtomicPtr, AtomicU64, Slots};

    pub(super) fn marks(count: usize) -> Option<Box<[AtomicU64]>> {
        Some((0..count).map(|_| AtomicU64::new(0)).collect())
    }

    pub(super) fn slots(count: usize) -> Option<Box<[Slots]>> {
        Some((0..count).map(|_| Slots::default()).collect())
    }
}

impl Memtable {
    /// Whether [`Memtable::learned`] or [`Memtable::begin_index`] may make the memtable faster, which is full with `limit`
    /// bytes.
    #[inline]
    pub(crate) fn may_improve(&self, limit: usize) -> bool {
        self.may_learn() || self.wants_index(limit)
    }

    /// Whether it is time to call [`Memtable::begin_index`]. The memtable is full with `limit` bytes.
    #[inline]
    pub(crate) fn wants_index(&self, limit: usize) -> bool {
        self.index.wants_late() && self.arena.allocated() >= limit / LATE && self.len() >= ENTRIES_MIN
    }

    /// Begins an index for the later keys, until the memtable has `limit` bytes, if it [`Memtable::wants_index`]. The
    /// caller ensures that no thread inserts meanwhile.
    pub(crate) fn begin_index(&self, limit: usize) {
        if !self.wants_index(limit) {
            return;
        }
        // It assumes as many keys per byte as so far, but has slots for at most an eighth of the limit.
        let (entries, bytes) = (self.len() as u128, self.arena.allocated().max(1));
        let keys = (entries * limit.saturating_sub(bytes) as u128 / bytes as u128) as usize;
        let groups_max = limit / 8 / (size_of::<Slots>() + size_of::<AtomicU64>());
        self.index.begin_late(keys.min(groups_max * GROUP / 5 * 3));
    }
}
