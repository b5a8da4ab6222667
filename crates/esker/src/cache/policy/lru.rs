//! FIFO and LRU: one queue, which pages leave at the back. FIFO (source 001 describes it) drops the page that came
//! first, however often it was asked for. LRU moves a page to the front when it is asked for, so it drops the least
//! recently used one.

use super::Policy;
use super::list::{Links, List};

#[derive(Debug, Default)]
pub(crate) struct OneQueue {
    links: Links,
    queue: List,
    is_lru: bool,
}

impl OneQueue {
    pub(super) fn lru() -> OneQueue {
        OneQueue { is_lru: true, ..OneQueue::default() }
    }
}

impl Policy for OneQueue {
    fn page_bytes(&self) -> usize {
        8
    }

    fn inserted(&mut self, slot: u32) {
        self.queue.push_front(&mut self.links, slot);
    }

    #[inline]
    fn hit(&mut self, slot: u32) {
        if self.is_lru {
            self.queue.move_to_front(&mut self.links, slot);
        }
    }

    fn removed(&mut self, slot: u32) {
        self.queue.remove(&mut self.links, slot);
    }

    fn evict(&mut self, _hashes: &[u64]) -> Option<u32> {
        self.queue.pop_back(&mut self.links)
    }
}
