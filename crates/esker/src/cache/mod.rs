//! The buffer pool: pages of tables in memory, found by hash, evicted by S3-FIFO ([`s3_fifo`]).
//!
//! Guarantees: the pages charged to the pool plus the reserved bytes stay within the capacity (a page that
//! was handed out lives until its last holder drops it). A page is never changed. A hit takes one short lock
//! of one of 16 shards. Relies on its callers: they insert only verified bytes, and never reuse a table id.
//!
//! ```text
//! (table, number) --hash--> shard --> bucket --> Arc<[u8]>
//! ```
//!
//! Thread-safe. No lock is held while pages are freed.

use std::sync::Arc;

use parking_lot::Mutex;

mod ghosts;
mod list;
mod prefetch;
mod s3_fifo;
mod shard;

#[cfg(test)]
mod tests;

pub(crate) use prefetch::prefetch;
use shard::{Shard, Whereabouts};

/// A power of two, far above the number of threads that hit the pool at the same time.
const SHARDS: usize = 16;

/// Bytes that a page costs in addition to its own: slot, buckets, counts, allocator, and the policy's bytes for it.
const PAGE_OVERHEAD: usize = 96 + s3_fifo::PAGE_BYTES;

/// Newly written pages that no reader has requested may fill the pool up to one part in this many.
const UNASKED_PART: usize = 16;

/// Why pages that were just written are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    /// They may be read soon. They deserve room only in a nearly empty pool.
    Unasked,
    /// The data that they were written from was read. They deserve any free room.
    Wanted,
}

/// Verified bytes, shared and immutable.
pub(crate) type Page = Arc<[u8]>;

/// The origin of a page: a table and the number of the page in it, scrambled one-to-one into 64 bits. Therefore the
/// hash of a page is its identity: no two pages have the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PageId(u64);

impl PageId {
    const NUMBER_BITS: u32 = 28;
    /// Any odd number has an inverse modulo 2^64.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    const INVERSE: u64 = 0xf1de_83e1_9937_733d;

    /// Returns `None` if a number is out of range (36 bits for the table, 28 for the page); such a page is not cached.
    #[inline]
    pub(crate) fn new(table: u64, number: usize) -> Option<PageId> {
        let fits = table >> (64 - Self::NUMBER_BITS) == 0 && number as u64 >> Self::NUMBER_BITS == 0;
        fits.then_some(PageId::from_number(table << Self::NUMBER_BITS | number as u64))
    }

    /// The page with this number among all pages.
    #[inline]
    fn from_number(number: u64) -> PageId {
        let mixed = number.wrapping_mul(Self::FACTOR);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(Self::FACTOR);
        PageId(mixed ^ mixed >> 32)
    }

    fn from_hash(hash: u64) -> PageId {
        PageId(hash)
    }

    fn hash(self) -> u64 {
        self.0
    }

    /// The table, unscrambled.
    fn table(self) -> u64 {
        let mixed = (self.0 ^ self.0 >> 32).wrapping_mul(Self::INVERSE);
        (mixed ^ mixed >> 32).wrapping_mul(Self::INVERSE) >> Self::NUMBER_BITS
    }
}

/// Keeps the shards on separate cache lines, and rarely written fields apart from the lock.
#[derive(Debug)]
#[repr(align(128))]
struct Aligned {
    whereabouts: Whereabouts,
    shard: Mutex<Shard>,
}

impl Aligned {
    fn new(mut shard: Shard) -> Aligned {
        Aligned { whereabouts: Whereabouts::new(&mut shard), shard: Mutex::new(shard) }
    }

    fn insert(&self, shard: &mut Shard, id: PageId, page: &Page, evicted: &mut Vec<Page>) {
        shard.insert(id.hash(), Arc::clone(page), evicted);
        self.whereabouts.update(shard);
    }
}

#[derive(Debug)]
pub(crate) struct BufferPool {
    shards: Box<[Aligned]>,
    capacity: usize,
}

impl BufferPool {
    /// A pool of `capacity` bytes. One of 0 bytes keeps nothing.
    pub(crate) fn new(capacity: usize) -> Self {
        let shard = |_| Aligned::new(Shard::new(capacity / SHARDS));
        BufferPool { shards: (0..SHARDS).map(shard).collect(), capacity }
    }

    #[inline]
    pub(crate) fn get(&self, id: PageId) -> Option<Page> {
        self.shard(id).shard.lock().get(id.hash())
    }

    /// The caller will soon [`get`](Self::get) a page: fetches where that looks for it into the processor's cache.
    #[inline]
    pub(crate) fn prefetch_bucket(&self, id: PageId) {
        self.shard(id).whereabouts.prefetch(id.hash());
    }

    /// The caller will soon [`get`](Self::get) a page: fetches its front into the processor's cache.
    #[inline]
    pub(crate) fn prefetch_page(&self, id: PageId) {
        self.shard(id).shard.lock().prefetch(id.hash());
    }

    /// Inserts `page`, evicting others when the pool is full. Does nothing if the pool has this page.
    pub(crate) fn insert(&self, id: PageId, page: &Page) {
        let mut evicted = Vec::new();
        let aligned = self.shard(id);
        aligned.insert(&mut aligned.shard.lock(), id, page, &mut evicted);
    }

    /// Inserts `page` only if nothing has to leave for it: scans must not flush the pool.
    pub(crate) fn insert_if_room(&self, id: PageId, page: &Page) {
        let aligned = self.shard(id);
        let mut shard = aligned.shard.lock();
        if shard.fits_in_part(page.len(), 1) {
            aligned.insert(&mut shard, id, page, &mut Vec::new());
        }
    }

    /// Whether to insert a page of `bytes` bytes that was just written.
    pub(crate) fn wants(&self, id: PageId, bytes: usize, offer: Offer) -> bool {
        let part = match offer {
            Offer::Unasked => UNASKED_PART,
            Offer::Wanted => 1,
        };
        self.shard(id).shard.lock().fits_in_part(bytes, part)
    }

    /// Drops every page of a table. O(pages in the pool).
    pub(crate) fn remove_table(&self, table: u64) {
        for shard in &self.shards {
            let mut removed = Vec::new();
            shard.shard.lock().remove_table(table, &mut removed);
        }
    }

    /// Drops every page. O(pages in the pool).
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            let mut removed = Vec::new();
            shard.shard.lock().clear(&mut removed);
        }
    }

    /// Sets aside `bytes` of the capacity for memory that others hold and count (filters, indexes).
    pub(crate) fn set_reserved(&self, bytes: usize) {
        let limit = self.capacity.saturating_sub(bytes) / SHARDS;
        for shard in &self.shards {
            let mut evicted = Vec::new();
            shard.shard.lock().set_limit(limit, &mut evicted);
        }
    }

    /// The capacity in bytes, including reserved bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes that pages hold now, without reserved bytes.
    pub(crate) fn used(&self) -> usize {
        self.shards.iter().map(|shard| shard.shard.lock().used()).sum()
    }

    /// How many lookups found their page, and how many did not, since the pool was made.
    pub(crate) fn hits_and_misses(&self) -> (u64, u64) {
        self.shards.iter().fold((0, 0), |(hits, misses), shard| {
            let shard = shard.shard.lock();
            (hits + shard.hits, misses + shard.misses)
        })
    }

    #[inline]
    fn shard(&self, id: PageId) -> &Aligned {
        &self.shards[id.hash() as usize % SHARDS]
    }
}

/// How many accesses of `pages` find their page in a shard with room for `room` pages, and how many accesses there are. Each
/// page that is missing is inserted. For bench/: no other policy is simulated by the pool's own code.
#[cfg(any(test, esker_measure))]
pub(crate) fn simulated_hits(room: usize, pages: impl IntoIterator<Item = u64>) -> (u64, u64) {
    let page = Page::from([]);
    let mut shard = Shard::new(Shard::charge(0).saturating_mul(room));
    let (mut accesses, mut evicted) = (0, Vec::new());
    for number in pages {
        accesses += 1;
        let hash = PageId::from_number(number).hash();
        if shard.get(hash).is_none() {
            shard.insert(hash, Page::clone(&page), &mut evicted);
            evicted.clear();
        }
    }
    (shard.hits, accesses)
}
