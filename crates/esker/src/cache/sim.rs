//! Simulates a buffer pool on a sequence of accesses, without a store: it runs the pool's own code over empty
//! pages.
//!
//! # Example
//! ```
//! use esker::CachePolicy;
//! use esker::cache_sim::simulate;
//!
//! // Three pages in turn and room for two: LRU always drops the one that comes next.
//! let keys = || (0..300).map(|i| i % 3);
//! assert_eq!(simulate(CachePolicy::Lru, 2, keys()).hits, 0);
//! assert_eq!(simulate(CachePolicy::Lru, 3, keys()).hits, 297);
//! ```

use super::policy::Chosen;
use super::shard::Shard;
use super::{Page, PageId};
use crate::options::CachePolicy;

/// The result of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hits {
    /// Accesses whose page was in the pool.
    pub hits: u64,
    /// All accesses.
    pub accesses: u64,
}

impl Hits {
    /// The fraction of accesses that were hits, from 0 to 1; 0 if there were none.
    pub fn rate(&self) -> f64 {
        self.hits as f64 / self.accesses.max(1) as f64
    }
}

/// Asks a pool with room for `capacity_pages` pages of equal length for each of `keys`, and inserts each page
/// that misses. The simulated pool is one shard. A store's pool has 16, each with a sixteenth of the room and
/// of the pages.
///
/// Takes about 200 bytes for each page that is kept.
pub fn simulate(policy: CachePolicy, capacity_pages: usize, keys: impl IntoIterator<Item = u64>) -> Hits {
    let page: Page = Page::from([]);
    let mut shard = Shard::new(0, Chosen::new(policy));
    let mut evicted = Vec::new();
    if policy != CachePolicy::None {
        shard.set_limit(shard.charge(0).saturating_mul(capacity_pages), &mut evicted);
    }
    let mut accesses = 0;
    for key in keys {
        accesses += 1;
        let hash = PageId::from_number(key).hash();
        if shard.get(hash).is_none() {
            shard.insert(hash, Page::clone(&page), &mut evicted);
            evicted.clear();
        }
    }
    Hits { hits: shard.hits, accesses }
}
