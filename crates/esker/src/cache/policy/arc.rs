//! ARC: N. Megiddo, D. Modha, *ARC: A Self-Tuning, Low Overhead Replacement Cache*, FAST 2003. Source 003
//! describes it.
//!
//! ```text
//! new page -----------> once (LRU) ----> once_ghosts
//! asked for again ----> often (LRU) ---> often_ghosts
//! ```
//! `once` aims at `target` pages. A miss of a page that a ghost remembers adjusts the target: up if a longer
//! `once` would have made it a hit, down otherwise. The paper's names are T1, T2, B1, B2 and p.

use super::Policy;
use super::ghosts::{GHOST_BYTES, Ghosts};
use super::list::{Links, List};

/// What is known of the arriving page.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Arriving {
    #[default]
    New,
    LeftOnce,
    LeftOften,
}

#[derive(Debug, Default)]
pub(crate) struct Adaptive {
    links: Links,
    once: List,
    often: List,
    /// By slot: whether the page is in `often`.
    is_often: Vec<bool>,
    once_ghosts: Ghosts,
    often_ghosts: Ghosts,
    arriving: Arriving,
    target: usize,
    room: usize,
}

impl Adaptive {
    fn pages(&self) -> usize {
        self.once.len() + self.often.len()
    }

    /// Keeps the paper's limits: `once` and its ghosts have at most `room` pages, and so have all ghosts.
    fn trim(&mut self) {
        self.once_ghosts.trim(self.room.saturating_sub(self.once.len()));
        self.often_ghosts.trim(self.room - self.once_ghosts.len());
        self.target = self.target.min(self.room);
    }

    /// The paper's REPLACE.
    fn evict_by_target(&mut self, hashes: &[u64]) -> Option<u32> {
        let once = self.once.len();
        let from_once = once > self.target || (once == self.target && self.arriving == Arriving::LeftOften);
        if (from_once && once > 0) || self.often.len() == 0 {
            let slot = self.once.pop_back(&mut self.links)?;
            self.once_ghosts.push(hashes[slot as usize]);
            return Some(slot);
        }
        let slot = self.often.pop_back(&mut self.links)?;
        self.often_ghosts.push(hashes[slot as usize]);
        Some(slot)
    }
}

impl Policy for Adaptive {
    fn page_bytes(&self) -> usize {
        8 + 1 + GHOST_BYTES
    }

    fn arriving(&mut self, hash: u64) {
        let (once, often) = (self.once_ghosts.len(), self.often_ghosts.len());
        self.arriving = if self.once_ghosts.take(hash) {
            self.target = (self.target + (often / once).max(1)).min(self.room);
            Arriving::LeftOnce
        } else if self.often_ghosts.take(hash) {
            self.target = self.target.saturating_sub((once / often).max(1));
            Arriving::LeftOften
        } else {
            Arriving::New
        };
    }

    fn inserted(&mut self, slot: u32) {
        if slot as usize >= self.is_often.len() {
            self.is_often.resize(slot as usize + 1, false);
        }
        let known = std::mem::take(&mut self.arriving) != Arriving::New;
        self.is_often[slot as usize] = known;
        let list = if known { &mut self.often } else { &mut self.once };
        list.push_front(&mut self.links, slot);
        self.room = self.room.max(self.pages());
    }

    #[inline]
    fn hit(&mut self, slot: u32) {
        if std::mem::replace(&mut self.is_often[slot as usize], true) {
            self.often.move_to_front(&mut self.links, slot);
        } else {
            self.once.remove(&mut self.links, slot);
            self.often.push_front(&mut self.links, slot);
        }
    }

    fn removed(&mut self, slot: u32) {
        let list = if self.is_often[slot as usize] { &mut self.often } else { &mut self.once };
        list.remove(&mut self.links, slot);
        self.room = self.pages();
        self.trim();
    }

    fn evict(&mut self, hashes: &[u64]) -> Option<u32> {
        self.room = self.pages();
        let once = self.once.len();
        if self.arriving == Arriving::New && once == self.room {
            // All pages were asked for once. None of them deserves a ghost when it leaves.
            self.trim();
            return self.once.pop_back(&mut self.links);
        }
        if self.arriving == Arriving::New {
            // The paper's case IV: a new page takes the place of the oldest ghost.
            if once + self.once_ghosts.len() >= self.room {
                self.once_ghosts.pop();
            } else if self.once_ghosts.len() + self.often_ghosts.len() >= self.room {
                self.often_ghosts.pop();
            }
        }
        let victim = self.evict_by_target(hashes);
        self.trim();
        victim
    }

    #[cfg(test)]
    fn ghosts(&self) -> Vec<u64> {
        [self.once_ghosts.hashes(), self.often_ghosts.hashes()].concat()
    }
}
