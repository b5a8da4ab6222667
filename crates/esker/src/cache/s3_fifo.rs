//! S3-FIFO: J. Yang et al., *FIFO Queues Are All You Need for Cache Eviction*, SOSP 2023.
//!
//! ```text
//! new page --> small (a tenth) --two hits---------> main --no hit---------> forgotten
//!                 | otherwise                         ^  '--hit: to the front again
//!                 v                                   |
//!              ghosts (hashes) ----requested again----'
//! ```
//! All three are FIFO queues. Therefore a hit only raises a count, up to 3. Most pages that are read once leave early,
//! out of `small`. There are as many ghosts as `main` may have pages.
//!
//! A shard keeps its pages in numbered slots. The policy sees slot numbers, and the hashes of ghosts. Every call takes
//! constant time: [`S3Fifo::evict`] on average, since each of its steps undoes the effect of a hit or an insertion.
//!
//! The pool is charged in bytes, while the policy divides a number of pages, its *room*: the number of pages when it
//! last chose a victim, or the number now if that is greater. With pages of one size it is the capacity. It has at most
//! as many ghosts as pages. Therefore [`PAGE_BYTES`], which is charged with each page, covers them.
//!
//! It has the best hit rates on average of those in `bench/` (`docs/cache.md`), and a hit writes one byte.

use super::ghosts::{GHOST_BYTES, Ghosts};
use super::list::{Links, List};

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

/// Bytes that the policy keeps for each page, its share of the ghosts included.
pub(super) const PAGE_BYTES: usize = 8 + 1 + GHOST_BYTES;

const COUNT_MAX: u8 = 3;
/// The bit next to the count of a page in `main`.
const IN_MAIN: u8 = 0x80;

#[derive(Debug, Default)]
pub(super) struct S3Fifo {
    /// By slot: the hits of the page, and [`IN_MAIN`]. This is separate from the links, so that a hit reads and writes
    /// one byte.
    counts: Vec<u8>,
    links: Links,
    small: List,
    main: List,
    ghosts: Ghosts,
    /// Whether the arriving page was a ghost.
    known: bool,
    room: usize,
}

impl S3Fifo {
    fn pages(&self) -> usize {
        self.small.len() + self.main.len()
    }

    /// How many pages `small` may have.
    fn small_max(&self) -> usize {
        (self.room / 10).max(1)
    }

    /// Evicts the first page of `small` that had fewer than two hits; moves the pages before it to `main`.
    fn evict_small(&mut self, hashes: &[u64]) -> Option<u32> {
        while self.small.len() >= self.small_max() || self.main.len() == 0 {
            let slot = self.small.pop_back(&mut self.links)?;
            let count = &mut self.counts[slot as usize];
            if *count > 1 {
                *count = IN_MAIN;
                self.main.push_front(&mut self.links, slot);
                continue;
            }
            self.ghosts.push(hashes[slot as usize]);
            return Some(slot);
        }
        None
    }

    /// Evicts the first page of `main` that had no hit since it was last at the front.
    fn evict_main(&mut self) -> Option<u32> {
        loop {
            let slot = self.main.pop_back(&mut self.links)?;
            let count = &mut self.counts[slot as usize];
            if *count == IN_MAIN {
                return Some(slot);
            }
            *count -= 1;
            self.main.push_front(&mut self.links, slot);
        }
    }

    fn trim(&mut self) {
        self.ghosts.trim(self.room.saturating_sub(self.small_max()));
    }

    /// The page that hashes to `hash` missed and will be inserted. Evictions before that make room for it.
    pub(super) fn arriving(&mut self, hash: u64) {
        self.known = self.ghosts.take(hash);
    }

    /// `slot` was free and now holds the arriving page.
    pub(super) fn inserted(&mut self, slot: u32) {
        if slot as usize >= self.counts.len() {
            self.counts.resize(slot as usize + 1, 0);
        }
        if self.known {
            self.counts[slot as usize] = IN_MAIN;
            self.main.push_front(&mut self.links, slot);
        } else {
            self.counts[slot as usize] = 0;
            self.small.push_front(&mut self.links, slot);
        }
        self.room = self.room.max(self.pages());
    }

    /// The page in `slot` had a hit.
    #[inline]
    pub(super) fn hit(&mut self, slot: u32) {
        if let Some(count) = self.counts.get_mut(slot as usize)
            && *count & !IN_MAIN < COUNT_MAX
        {
            *count += 1;
        }
    }

    /// `slot` was freed for a reason other than [`S3Fifo::evict`].
    pub(super) fn removed(&mut self, slot: u32) {
        let in_main = self.counts[slot as usize] & IN_MAIN != 0;
        let list = if in_main { &mut self.main } else { &mut self.small };
        list.remove(&mut self.links, slot);
        self.room = self.pages();
        self.trim();
    }

    /// Chooses a victim and forgets it; `None` if no slot is taken. `hashes` has the pages' hashes by slot.
    pub(super) fn evict(&mut self, hashes: &[u64]) -> Option<u32> {
        self.room = self.pages();
        let victim = self.evict_small(hashes).or_else(|| self.evict_main());
        self.trim();
        victim
    }

    /// The ghosts: remembered pages that have left.
    #[cfg(test)]
    fn ghosts(&self) -> Vec<u64> {
        self.ghosts.hashes()
    }
}
