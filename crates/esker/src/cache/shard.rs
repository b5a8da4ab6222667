//! One shard of the pool: an open-addressing hash table that holds the pages themselves.
//!
//! ```text
//! buckets: [ hash u64, page, slot u32 ]...   32 bytes each, linear probing, at most 3/4 full
//! slots:   [ hash u64 ]...                   the numbers that the policy knows pages by
//! ```
//! A hash identifies its page (see [`PageId`]). Therefore a hit reads one cache line of the table. Freed slot numbers
//! are reused first.

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::prefetch::prefetch_address;
use super::s3_fifo::S3Fifo;
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

/// The place of a shard's buckets, for threads that do not hold its lock. They may only prefetch: what they read here
/// may be outdated, or half of it.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Whereabouts {
    buckets: AtomicPtr<Bucket>,
    mask: AtomicUsize,
}

impl Whereabouts {
    pub(super) fn new(shard: &mut Shard) -> Whereabouts {
        let mask = shard.buckets.len() - 1;
        Whereabouts { buckets: AtomicPtr::new(shard.buckets.as_mut_ptr()), mask: AtomicUsize::new(mask) }
    }

    /// The caller holds the lock of `shard`, and may have moved its buckets.
    pub(super) fn update(&self, shard: &mut Shard) {
        let mask = shard.buckets.len() - 1;
        // Most inserts move nothing, and others read this all the time.
        if self.mask.load(Ordering::Relaxed) != mask {
            self.buckets.store(shard.buckets.as_mut_ptr(), Ordering::Relaxed);
            self.mask.store(mask, Ordering::Relaxed);
        }
    }

    /// Where probing for a hash starts.
    #[inline]
    fn home(&self, hash: u64) -> *const Bucket {
        let at = home(hash, self.mask.load(Ordering::Relaxed));
        self.buckets.load(Ordering::Relaxed).cast_const().wrapping_add(at)
    }

    /// Prefetches the bucket of a page.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        prefetch_address(self.home(hash));
    }
}

#[inline]
fn prefetch_front(page: &Page) {
    for at in (0..FRONT).step_by(64) {
        prefetch(page, at);
    }
    // The count is in front of the bytes.
    prefetch_address(page.as_ptr().wrapping_sub(1));
}

/// The bucket where probing for a hash starts, of `mask + 1` buckets.
#[inline]
fn home(hash: u64, mask: usize) -> usize {
    (hash >> 32) as usize & mask
}

/// See the module. `used` and `limit` are bytes.
#[derive(Debug)]
pub(super) struct Shard {
    buckets: Vec<Bucket>,
    slots: Vec<u64>,
    free: Vec<u32>,
    policy: S3Fifo,
    used: usize,
    limit: usize,
    pub(super) hits: u64,
    pub(super) misses: u64,
}

impl Shard {
    pub(super) fn new(limit: usize) -> Self {
        Shard {
            buckets: vec![Bucket::default(); 16],
            slots: Vec::new(),
            free: Vec::new(),
            policy: S3Fifo::default(),
            used: 0,
            limit,
            hits: 0,
            misses: 0,
        }
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// The bytes of a page that count against the capacity.
    pub(super) fn charge(page_len: usize) -> usize {
        page_len + PAGE_OVERHEAD
    }

    /// Whether, with one more page, the pages still fit into one `part`-th of the limit.
    pub(super) fn fits_in_part(&self, page_len: usize, part: usize) -> bool {
        self.used.saturating_add(Shard::charge(page_len)) <= self.limit / part
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
        prefetch_front(page);
        let page = Arc::clone(page);
        self.hits += 1;
        self.policy.hit(bucket.slot);
        Some(page)
    }

    /// Prefetches the front of a page that a [`get`](Self::get) will soon request.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        if let Some(page) = &self.buckets[self.find(hash)].page {
            prefetch_front(page);
        }
    }

    /// Adds a page that is not here yet; moves the pages evicted for it into `evicted`.
    pub(super) fn insert(&mut self, hash: u64, page: Page, evicted: &mut Vec<Page>) {
        let charge = Shard::charge(page.len());
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

    /// Drops every page, and forgets the ghosts.
    pub(super) fn clear(&mut self, removed: &mut Vec<Page>) {
        removed.extend(self.buckets.iter_mut().filter_map(|bucket| bucket.page.take()));
        self.slots.clear();
        self.free.clear();
        self.used = 0;
        self.policy = S3Fifo::default();
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
            self.used -= Shard::charge(page.len());
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
            let displacement = bucket.wrapping_sub(home(self.buckets[bucket].hash, mask)) & mask;
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
        let mut at = home(hash, self.buckets.len() - 1);
        loop {
            let bucket = &self.buckets[at];
            if bucket.page.is_none() || bucket.hash == hash {
                return at;
            }
            at = (at + 1) & (self.buckets.len() - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefetched_bucket_is_the_one_of_the_page() {
        let mut shard = Shard::new(1 << 20);
        let whereabouts = Whereabouts::new(&mut shard);
        for number in 0..1000 {
            let hash = PageId::from_number(number).hash();
            shard.insert(hash, Arc::from([0; 16]), &mut Vec::new());
            whereabouts.update(&mut shard);
            let home = &raw const shard.buckets[home(hash, shard.buckets.len() - 1)];
            assert_eq!(whereabouts.home(hash), home, "with {} buckets", shard.buckets.len());
        }
        assert!(shard.buckets.len() > 1000);
    }
}
