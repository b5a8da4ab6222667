//! Policies that decide which page leaves a full pool, as their papers describe them. The store has S3-FIFO, whose code is
//! simulated where it is: in the buffer pool.
//!
//! Each is a pool of pages of one size. *Ghosts* are pages that have left and are remembered.

use super::queue::Queue;
use std::collections::{HashMap, VecDeque};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Keeps nothing.
    None,
    /// First in, first out.
    Fifo,
    /// The least recently used page leaves first.
    Lru,
    /// 2Q, the full version: T. Johnson, D. Shasha, VLDB 1994.
    TwoQ,
    /// ARC: N. Megiddo, D. Modha, FAST 2003.
    Arc,
    /// Clock: the next page that was not asked for since the hand last passed it leaves.
    Clock,
    /// S3-FIFO: J. Yang et al., SOSP 2023.
    S3Fifo,
}

impl Policy {
    pub(crate) const ALL: [Policy; 7] =
        [Policy::None, Policy::Fifo, Policy::Lru, Policy::TwoQ, Policy::Arc, Policy::Clock, Policy::S3Fifo];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Policy::None => "none",
            Policy::Fifo => "fifo",
            Policy::Lru => "lru",
            Policy::TwoQ => "2q",
            Policy::Arc => "arc",
            Policy::Clock => "clock",
            Policy::S3Fifo => "s3-fifo",
        }
    }
}

/// The result of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hits {
    /// Accesses whose page was in the pool.
    pub(crate) hits: u64,
    /// All accesses.
    pub(crate) accesses: u64,
}

impl Hits {
    /// The fraction of accesses that were hits, from 0 to 1; 0 if there were none.
    pub(crate) fn rate(self) -> f64 {
        self.hits as f64 / self.accesses.max(1) as f64
    }
}

/// Asks a pool with room for `room` pages for each of `pages`, and inserts each page that misses.
pub(crate) fn simulate(policy: Policy, room: usize, pages: impl Iterator<Item = u64>) -> Hits {
    let mut pool: Box<dyn Pool> = match policy {
        Policy::None => return Hits { hits: 0, accesses: pages.count() as u64 },
        Policy::Fifo => Box::new(OneQueue { is_lru: false, queue: Queue::default() }),
        Policy::Lru => Box::new(OneQueue { is_lru: true, queue: Queue::default() }),
        Policy::TwoQ => Box::new(TwoQ::default()),
        Policy::Arc => Box::new(Arc::default()),
        Policy::Clock => Box::new(Clock::default()),
        Policy::S3Fifo => return s3_fifo(room, pages),
    };
    let mut found = Hits { hits: 0, accesses: 0 };
    for page in pages {
        found.accesses += 1;
        if pool.hit(page) {
            found.hits += 1;
        } else if room > 0 {
            pool.insert(page, room);
        }
    }
    found
}

#[cfg(esker_measure)]
fn s3_fifo(room: usize, pages: impl Iterator<Item = u64>) -> Hits {
    let (hits, accesses) = esker::measure::pool_hits(room, pages);
    Hits { hits, accesses }
}

/// Without the store's internals there is nothing to simulate; [`super::run`] refuses to run then.
#[cfg(not(esker_measure))]
fn s3_fifo(_room: usize, pages: impl Iterator<Item = u64>) -> Hits {
    Hits { hits: 0, accesses: pages.count() as u64 }
}

trait Pool {
    /// Whether the page is in the pool; it is asked for.
    fn hit(&mut self, page: u64) -> bool;

    /// Inserts a page that missed. If the pool has `room` pages, one leaves.
    fn insert(&mut self, page: u64, room: usize);
}

/// FIFO (source 001 describes it) and LRU.
struct OneQueue {
    is_lru: bool,
    queue: Queue,
}

impl Pool for OneQueue {
    fn hit(&mut self, page: u64) -> bool {
        if self.is_lru { self.queue.raise(page) } else { self.queue.contains(page) }
    }

    fn insert(&mut self, page: u64, room: usize) {
        self.queue.truncate(room - 1);
        self.queue.push_front(page);
    }
}

/// Clock, as in source 004: a hand sweeps over the pages and spares once each page that was asked for since the last sweep. A
/// new page starts without its mark where the hand has just passed.
#[derive(Default)]
struct Clock {
    /// What the hand reaches next is at the back.
    pages: VecDeque<u64>,
    marked: HashMap<u64, bool>,
}

impl Pool for Clock {
    fn hit(&mut self, page: u64) -> bool {
        let mark = self.marked.get_mut(&page);
        mark.map(|mark| *mark = true).is_some()
    }

    fn insert(&mut self, page: u64, room: usize) {
        while self.marked.len() >= room {
            let Some(next) = self.pages.pop_back() else { break };
            if self.marked.insert(next, false) == Some(true) {
                self.pages.push_front(next);
            } else {
                self.marked.remove(&next);
            }
        }
        self.marked.insert(page, false);
        self.pages.push_front(page);
    }
}

/// ```text
/// new page --> recent (FIFO, a quarter) --> ghosts (half as many as pages)
///                                              | asked for again
///                                              v
///                                           frequent (LRU) --> forgotten
/// ```
/// A page must be asked for again after it left `recent`: several reads in a row say nothing about it. The shares are the
/// paper's: Kin 25 % and Kout 50 % of the room. The paper calls the queues A1in, A1out and Am.
#[derive(Default)]
struct TwoQ {
    recent: Queue,
    ghosts: Queue,
    frequent: Queue,
}

impl Pool for TwoQ {
    fn hit(&mut self, page: u64) -> bool {
        self.frequent.raise(page) || self.recent.contains(page)
    }

    fn insert(&mut self, page: u64, room: usize) {
        let was_ghost = self.ghosts.take(page);
        if self.recent.len() + self.frequent.len() >= room {
            if self.recent.len() > room / 4 || self.frequent.len() == 0 {
                self.recent.pop_back().into_iter().for_each(|page| self.ghosts.push_front(page));
            } else {
                self.frequent.pop_back();
            }
            self.ghosts.truncate(room / 2);
        }
        if was_ghost { &mut self.frequent } else { &mut self.recent }.push_front(page);
    }
}

/// ```text
/// new page -----------> once (LRU) ----> once_ghosts
/// asked for again ----> often (LRU) ---> often_ghosts
/// ```
/// `once` aims at `target` pages. A miss of a page that a ghost remembers adjusts the target: up if a longer `once` would have
/// made it a hit, down otherwise. The paper's names are T1, T2, B1, B2 and p. Source 003 describes it.
#[derive(Default)]
struct Arc {
    once: Queue,
    often: Queue,
    once_ghosts: Queue,
    often_ghosts: Queue,
    target: usize,
}

impl Arc {
    /// The paper's REPLACE.
    fn replace(&mut self, left_often: bool) {
        let once = self.once.len();
        let from_once = once > self.target || (once == self.target && left_often);
        let (from, ghosts) = if (from_once && once > 0) || self.often.len() == 0 {
            (&mut self.once, &mut self.once_ghosts)
        } else {
            (&mut self.often, &mut self.often_ghosts)
        };
        from.pop_back().into_iter().for_each(|page| ghosts.push_front(page));
    }
}

impl Pool for Arc {
    fn hit(&mut self, page: u64) -> bool {
        if self.once.take(page) {
            self.often.push_front(page);
            return true;
        }
        self.often.raise(page)
    }

    fn insert(&mut self, page: u64, room: usize) {
        let (once, often) = (self.once_ghosts.len(), self.often_ghosts.len());
        let left_once = self.once_ghosts.take(page);
        let left_often = !left_once && self.often_ghosts.take(page);
        if left_once {
            self.target = (self.target + (often / once).max(1)).min(room);
        } else if left_often {
            self.target = self.target.saturating_sub((once / often).max(1));
        }
        let is_known = left_once || left_often;
        if self.once.len() + self.often.len() >= room {
            let once = self.once.len();
            if !is_known && once >= room {
                // All pages were asked for once. None of them deserves a ghost when it leaves.
                self.once.pop_back();
            } else {
                // The paper's case IV: a new page takes the place of the oldest ghost.
                if !is_known && once + self.once_ghosts.len() >= room {
                    self.once_ghosts.pop_back();
                } else if !is_known && self.once_ghosts.len() + self.often_ghosts.len() >= room {
                    self.often_ghosts.pop_back();
                }
                self.replace(left_often);
            }
            // The paper's limits: `once` and its ghosts have at most `room` pages, and so have all ghosts.
            self.once_ghosts.truncate(room.saturating_sub(self.once.len()));
            self.often_ghosts.truncate(room - self.once_ghosts.len());
        }
        if is_known { &mut self.often } else { &mut self.once }.push_front(page);
    }
}

#[cfg(test)]
mod tests;
