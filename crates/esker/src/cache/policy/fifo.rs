//! FIFO: the page that came first leaves first, however often it was asked for. Source 001 describes it.

use super::Policy;
use super::list::{Links, List};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Fifo {
    links: Links,
    queue: List,
}

impl Policy for Fifo {
    fn page_bytes(&self) -> usize {
        8
    }

    fn inserted(&mut self, slot: u32) {
        self.queue.push_front(&mut self.links, slot);
    }

    fn hit(&mut self, _slot: u32) {}

    fn removed(&mut self, slot: u32) {
        self.queue.remove(&mut self.links, slot);
    }

    fn evict(&mut self, _hashes: &[u64]) -> Option<u32> {
        self.queue.pop_back(&mut self.links)
    }
}
