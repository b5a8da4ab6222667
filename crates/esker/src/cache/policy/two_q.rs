//! 2Q, the full version: T. Johnson, D. Shasha, *2Q: A Low Overhead High Performance Buffer Management
//! Replacement Algorithm*, VLDB 1994.
//!
//! ```text
//! new page --> recent (FIFO, a quarter) --> ghosts (hashes, half as many as pages)
//!                                              | asked for again
//!                                              v
//!                                           frequent (LRU) --> forgotten
//! ```
//! A page must be asked for again after it left `recent`: several reads in a row say nothing about it. The
//! shares are the paper's: Kin 25 % and Kout 50 % of the room. The paper calls the queues A1in, A1out and Am.

use super::Policy;
use super::ghosts::{GHOST_BYTES, Ghosts};
use super::list::{Links, List};

#[derive(Debug, Default)]
pub(crate) struct TwoQ {
    links: Links,
    recent: List,
    frequent: List,
    /// By slot: whether the page is in `frequent`.
    is_frequent: Vec<bool>,
    ghosts: Ghosts,
    /// Whether the arriving page was a ghost.
    known: bool,
    room: usize,
}

impl TwoQ {
    fn pages(&self) -> usize {
        self.recent.len() + self.frequent.len()
    }

    fn take_out(&mut self, slot: u32) {
        let list = if self.is_frequent[slot as usize] { &mut self.frequent } else { &mut self.recent };
        list.remove(&mut self.links, slot);
    }
}

impl Policy for TwoQ {
    fn page_bytes(&self) -> usize {
        8 + 1 + GHOST_BYTES / 2
    }

    fn arriving(&mut self, hash: u64) {
        self.known = self.ghosts.take(hash);
    }

    fn inserted(&mut self, slot: u32) {
        if slot as usize >= self.is_frequent.len() {
            self.is_frequent.resize(slot as usize + 1, false);
        }
        self.is_frequent[slot as usize] = self.known;
        let list = if self.known { &mut self.frequent } else { &mut self.recent };
        list.push_front(&mut self.links, slot);
        self.room = self.room.max(self.pages());
    }

    #[inline]
    fn hit(&mut self, slot: u32) {
        if self.is_frequent[slot as usize] {
            self.frequent.move_to_front(&mut self.links, slot);
        }
    }

    fn removed(&mut self, slot: u32) {
        self.take_out(slot);
        self.room = self.pages();
        self.ghosts.trim(self.room / 2);
    }

    fn evict(&mut self, hashes: &[u64]) -> Option<u32> {
        self.room = self.pages();
        if self.recent.len() > self.room / 4 || self.frequent.len() == 0 {
            let slot = self.recent.pop_back(&mut self.links)?;
            self.ghosts.push(hashes[slot as usize]);
            self.ghosts.trim(self.room / 2);
            return Some(slot);
        }
        self.ghosts.trim(self.room / 2);
        self.frequent.pop_back(&mut self.links)
    }

    #[cfg(test)]
    fn ghosts(&self) -> Vec<u64> {
        self.ghosts.hashes()
    }
}
