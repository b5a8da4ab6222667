//! LRU: the least recently used page leaves first.

use super::Policy;
use super::list::{Links, List};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Lru {
    links: Links,
    queue: List,
}

impl Policy for Lru {
    fn page_bytes(&self) -> usize {
        8
    }

    fn inserted(&mut self, slot: u32) {
        self.queue.push_front(&mut self.links, slot);
    }

    #[inline]
    fn hit(&mut self, slot: u32) {
        self.queue.move_to_front(&mut self.links, slot);
    }

    fn removed(&mut self, slot: u32) {
        self.queue.remove(&mut self.links, slot);
    }

    fn evict(&mut self, _hashes: &[u64]) -> Option<u32> {
        self.queue.pop_back(&mut self.links)
    }
}
