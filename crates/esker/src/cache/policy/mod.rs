//! Which page leaves a full buffer pool: one trait, one file per policy.
//!
//! A shard of the pool keeps its pages in numbered slots; a policy sees only slot numbers, so that
//! every call is O(1) with arrays or linked indexes of its own. Policies that remember pages they have
//! evicted (2Q, ARC, S3-FIFO) know them by the hash that `inserted` passes.

use std::fmt::Debug;

mod clock;

pub(crate) use clock::Clock;

/// Decides evictions for one shard. Calls come under the shard's lock.
pub(crate) trait Policy: Send + Debug {
    /// `slot` was free and now holds the page that hashes to `hash`.
    fn inserted(&mut self, slot: u32, hash: u64);

    /// The page in `slot` was asked for.
    fn hit(&mut self, slot: u32);

    /// `slot` was freed for another reason than [`Policy::evict`].
    fn removed(&mut self, slot: u32);

    /// Chooses a victim and forgets it; `None` when no slot is taken.
    fn evict(&mut self) -> Option<u32>;
}
