//! One shard of the pool: an open-addressing hash table that holds the pages themselves.
//!
//! ```text
//! buckets: [ hash u64, page, slot u32 ]...   32 bytes each, linear probing, at most 3/4 full
//! slots:   [ hash u64 ]...                   the numbers that the policy knows pages by
//! ```
//! A hash identifies its page (see [`PageId`]), so a hit reads one cache line of the table. Freed slot
//! numbers are reused first.

use std::sync::Arc;

use super::policy::Chosen;
use super::{PAGE_OVERHEAD, Page, PageId, prefetch};

/// How much of a page is prefetched while its reference count is raised: the part that a search reads first.
const FRONT: usize = 320;

#[derive(Debug, Clone, Default)]
#[repr(align(32))]
struct Bucket {
    hash: u64,
    /// `None` in an empty bucket.
    page: Option<Page>,
    slot: u32,
}

/// See the module. `used` and `limit` are bytes.
#[derive(Debug)]
pub(super) struct Shard {
    buckets: Vec<Bucket>,
    slots: Vec<u64>,
    free: Vec<u32>,
    policy: Chosen,
    used: usize,
    limit: usize,
    pub(super) hits: u64,
    pub(super) misses: u64,
}

impl Shard {
    pub(super) fn new(limit: usize, policy: Chosen) -> Self {
        Shard {
            buckets: vec![Bucket::default(); 16],
            slots: Vec::new(),
            free: Vec::new(),
            policy,
            used: 0,
            limit,
            hits: 0,
            misses: 0,
        }
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// What a page counts against the capacity: its bytes, its bucket and slot, the allocator's share, and
    /// the policy's bytes.
    pub(super) fn charge(&self, page_len: usize) -> usize {
        page_len + PAGE_OVERHEAD + self.policy.page_bytes()
    }

    /// Whether, with one more page, the pages still fit into one `part`-th of the limit.
    pub(super) fn fits_in_part(&self, page_len: usize, part: usize) -> bool {
        self.used.saturating_add(self.charge(page_len)) <= self.limit / part
    }

    #[inline]
    pub(super) fn get(&mut self, hash: u64) -> Option<Page> {
        let bucket = &self.buckets[self.find(hash)];
        let Some(page) = &bucket.page else {
            self.misses += 1;
            return None;
        };
        // The reference count is the first line to miss. Without these prefetches, nothing after it would
        // start before it arrives.
        for at in (0..FRONT).step_by(64) {
            prefetch(page, at);
        }
        let page = Arc::clone(page);
        self.hits += 1;
        self.policy.hit(bucket.slot);
        Some(page)
    }

    /// Adds a page that is not here yet; moves the pages evicted for it into `evicted`.
    pub(super) fn insert(&mut self, hash: u64, page: Page, evicted: &mut Vec<Page>) {
        let charge = self.charge(page.len());
        if charge > self.limit || self.buckets[self.find(hash)].page.is_some() {
            return;
        }
        self.policy.arriving(hash);
        self.evict_to(self.limit - charge, evicted);
        if (self.slots.len() - self.free.len() + 1) * 4 > self.buckets.len() * 3 {
            self.grow();
        }
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        match self.slots.get_mut(slot as usize) {
            Some(free) => *free = hash,
            None => self.slots.push(hash),
        }
        let empty = self.find(hash);
        self.buckets[empty] = Bucket { hash, page: Some(page), slot };
        self.used += charge;
        self.policy.inserted(slot);
    }

    /// Drops every page of a table; the caller frees them outside the lock.
    pub(super) fn remove_table(&mut self, table: u64, removed: &mut Vec<Page>) {
        let of_table =
            |bucket: &&Bucket| bucket.page.is_some() && PageId::from_hash(bucket.hash).table() == table;
        let doomed: Vec<(u64, u32)> =
            self.buckets.iter().filter(of_table).map(|bucket| (bucket.hash, bucket.slot)).collect();
        for (hash, slot) in doomed {
            self.policy.removed(slot);
            self.release(slot, hash, removed);
        }
    }

    /// Drops every page and replaces the policy, which may remember others, by the new one `policy`.
    pub(super) fn clear(&mut self, policy: Chosen, removed: &mut Vec<Page>) {
        removed.extend(self.buckets.iter_mut().filter_map(|bucket| bucket.page.take()));
        self.slots.clear();
        self.free.clear();
        self.used = 0;
        self.policy = policy;
    }

    /// Changes the byte limit and evicts down to it.
    pub(super) fn set_limit(&mut self, limit: usize, evicted: &mut Vec<Page>) {
        self.limit = limit;
        self.evict_to(limit, evicted);
    }

    fn evict_to(&mut self, target: usize, evicted: &mut Vec<Page>) {
        while self.used > target {
            let Some(slot) = self.policy.evict(&self.slots) else { return };
            self.release(slot, self.slots[slot as usize], evicted);
        }
    }

    /// Removes the page of `hash`, which has the number `slot`.
    fn release(&mut self, slot: u32, hash: u64, out: &mut Vec<Page>) {
        let bucket = self.find(hash);
        if let Some(page) = self.buckets[bucket].page.take() {
            self.used -= self.charge(page.len());
            out.push(page);
            self.free.push(slot);
            self.close_gap(bucket);
        }
    }

    /// Moves later pages of the run into the emptied bucket, so that probing meets no hole.
    fn close_gap(&mut self, mut gap: usize) {
        let mask = self.buckets.len() - 1;
        let mut bucket = (gap + 1) & mask;
        while self.buckets[bucket].page.is_some() {
            let displacement = bucket.wrapping_sub(self.home(self.buckets[bucket].hash)) & mask;
            if displacement >= (bucket.wrapping_sub(gap) & mask) {
                self.buckets.swap(gap, bucket);
                gap = bucket;
            }
            bucket = (bucket + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let doubled = vec![Bucket::default(); self.buckets.len() * 2];
        let old = std::mem::replace(&mut self.buckets, doubled);
        for bucket in old.into_iter().filter(|bucket| bucket.page.is_some()) {
            let empty = self.find(bucket.hash);
            self.buckets[empty] = bucket;
        }
    }

    /// The bucket of the page, or the empty one where it belongs.
    #[inline]
    fn find(&self, hash: u64) -> usize {
        let mut at = self.home(hash);
        loop {
            let bucket = &self.buckets[at];
            if bucket.page.is_none() || bucket.hash == hash {
                return at;
            }
            at = (at + 1) & (self.buckets.len() - 1);
        }
    }

    /// Where probing for a hash starts.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.buckets.len() - 1)
    }
}
