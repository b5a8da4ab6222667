//! Decides which page leaves a full buffer pool: one trait, one file per policy.
//!
//! A shard of the pool keeps its pages in numbered slots. A policy sees slot numbers, and hashes if it
//! remembers pages that have left (ghosts). Every call is O(1), with the policy's own arrays and linked
//! lists. For the sweeps of Clock and S3-FIFO this holds on average, since each step undoes what a hit or an
//! insertion did.
//!
//! The pool is charged in bytes, while 2Q, ARC and S3-FIFO divide a number of pages. That number, a policy's
//! *room*, is the number of pages when the policy was last asked for a victim, or the number now if that is
//! greater. With pages of one size it is the capacity. A policy has at most as many ghosts as pages, so
//! [`Policy::page_bytes`], which is charged with each page, covers them.

use std::fmt::Debug;

use crate::options::CachePolicy;

mod arc;
mod chosen;
mod clock;
mod ghosts;
mod list;
mod lru;
mod s3_fifo;
mod two_q;

#[cfg(test)]
mod tests;

pub(crate) use chosen::Chosen;

/// Decides evictions for one shard. Every call holds the shard's lock.
pub(crate) trait Policy: Send + Debug {
    /// Bytes that the policy keeps for each page, including its share of the ghosts.
    fn page_bytes(&self) -> usize;

    /// The page that hashes to `hash` missed and will be inserted. Evictions until then make room for it.
    fn arriving(&mut self, _hash: u64) {}

    /// `slot` was free and now holds the arriving page.
    fn inserted(&mut self, slot: u32);

    /// The page in `slot` was asked for.
    fn hit(&mut self, slot: u32);

    /// `slot` was freed for a reason other than [`Policy::evict`].
    fn removed(&mut self, slot: u32);

    /// Chooses a victim and forgets it; `None` if no slot is taken. `hashes` has the pages' hashes by slot.
    fn evict(&mut self, hashes: &[u64]) -> Option<u32>;

    /// The ghosts: remembered pages that have left.
    #[cfg(test)]
    fn ghosts(&self) -> Vec<u64> {
        Vec::new()
    }
}

fn new_policy(policy: CachePolicy) -> Box<dyn Policy> {
    match policy {
        CachePolicy::Fifo => Box::new(lru::OneQueue::default()),
        CachePolicy::Lru => Box::new(lru::OneQueue::lru()),
        CachePolicy::TwoQ => Box::new(two_q::TwoQ::default()),
        CachePolicy::Arc => Box::new(arc::Adaptive::default()),
        CachePolicy::S3Fifo => Box::new(s3_fifo::S3Fifo::default()),
        // With `None` nothing is kept, so nothing is ever evicted.
        CachePolicy::Clock | CachePolicy::None => Box::new(clock::Clock::default()),
    }
}
