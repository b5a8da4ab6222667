//! Which page leaves a full buffer pool: one trait, one file per policy.
//!
//! A shard of the pool keeps its pages in numbered slots; a policy sees slot numbers, and hashes where it
//! remembers pages that have left (ghosts). Every call is O(1) with arrays and linked lists of its own;
//! the sweeps of Clock and S3-FIFO are so on average, since each step takes back what a hit or an insertion gave.
//!
//! The pool is charged in bytes, while 2Q, ARC and S3-FIFO divide a number of pages. That number, a policy's
//! *room*, is how many pages were there when it was last asked for a victim, or are there now if those are
//! more: with pages of one size it is the capacity. A policy has at most as many ghosts as pages, so
//! [`Policy::page_bytes`], which is charged with each page, covers them.

use std::fmt::Debug;

use crate::options::CachePolicy;

mod arc;
mod chosen;
mod clock;
mod fifo;
mod ghosts;
mod list;
mod lru;
mod s3_fifo;
mod two_q;

#[cfg(test)]
mod tests;

pub(crate) use chosen::Chosen;

/// Decides evictions for one shard. Calls come under the shard's lock.
pub(crate) trait Policy: Send + Debug {
    /// Bytes that the policy keeps for each page, with its share of the ghosts.
    fn page_bytes(&self) -> usize;

    /// The page that hashes to `hash` missed and will be inserted: what is evicted until then makes room
    /// for it.
    fn arriving(&mut self, _hash: u64) {}

    /// `slot` was free and now holds the page that was arriving.
    fn inserted(&mut self, slot: u32);

    /// The page in `slot` was asked for.
    fn hit(&mut self, slot: u32);

    /// `slot` was freed for another reason than [`Policy::evict`].
    fn removed(&mut self, slot: u32);

    /// Chooses a victim and forgets it; `None` when no slot is taken. `hashes` has the pages' hashes by slot.
    fn evict(&mut self, hashes: &[u64]) -> Option<u32>;

    /// Pages that have left and are remembered.
    #[cfg(test)]
    fn ghosts(&self) -> Vec<u64> {
        Vec::new()
    }
}

impl CachePolicy {
    fn boxed(self) -> Box<dyn Policy> {
        match self {
            CachePolicy::Fifo => Box::new(fifo::Fifo::default()),
            CachePolicy::Lru => Box::new(lru::Lru::default()),
            CachePolicy::TwoQ => Box::new(two_q::TwoQ::default()),
            CachePolicy::Arc => Box::new(arc::Adaptive::default()),
            CachePolicy::S3Fifo => Box::new(s3_fifo::S3Fifo::default()),
            // Without a policy nothing is kept, so nothing is ever evicted.
            CachePolicy::Clock | CachePolicy::None => Box::new(clock::Clock::default()),
        }
    }
}
