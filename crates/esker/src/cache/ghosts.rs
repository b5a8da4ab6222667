//! Ghosts: pages that have left the pool, in the order in which they left, found by hash.
//!
//! ```text
//! heads: [ node u32 ]...                        one for each chain, as many as nodes or up to twice that
//! nodes: [ hash u64, next in the chain u32 ]... and, in `links`, the place in the queue
//! ```

use super::list::{Links, List};

/// Bytes per ghost: its node, its links and its share of the chains' heads.
pub(super) const GHOST_BYTES: usize = 16 + 8 + 8;

/// No node.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Node {
    hash: u64,
    /// The next node of the same chain, or of the free nodes.
    next: u32,
}

/// See the module. A hash identifies a page; each is here at most once.
#[derive(Debug)]
pub(super) struct Ghosts {
    heads: Vec<u32>,
    nodes: Vec<Node>,
    links: Links,
    queue: List,
    free: u32,
}

impl Default for Ghosts {
    fn default() -> Self {
        Ghosts {
            heads: vec![NONE],
            nodes: Vec::new(),
            links: Links::default(),
            queue: List::default(),
            free: NONE,
        }
    }
}

impl Ghosts {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Adds a ghost, which must not be here yet.
    pub(super) fn push(&mut self, hash: u64) {
        if self.len() == self.heads.len() {
            self.grow();
        }
        let chain = self.chain(hash);
        let new = Node { hash, next: self.heads[chain] };
        let node = match self.nodes.get_mut(self.free as usize) {
            Some(free) => {
                let node = self.free;
                self.free = free.next;
                *free = new;
                node
            }
            None => {
                self.nodes.push(new);
                self.nodes.len() as u32 - 1
            }
        };
        self.heads[chain] = node;
        self.queue.push_front(&mut self.links, node);
    }

    /// Removes a ghost, which must be here.
    fn forget(&mut self, node: u32) {
        let Node { hash, next } = self.nodes[node as usize];
        let chain = self.chain(hash);
        if self.heads[chain] == node {
            self.heads[chain] = next;
        } else {
            let mut before = self.heads[chain] as usize;
            while self.nodes[before].next != node {
                before = self.nodes[before].next as usize;
            }
            self.nodes[before].next = next;
        }
        self.queue.remove(&mut self.links, node);
        self.nodes[node as usize].next = self.free;
        self.free = node;
    }

    /// Removes a ghost; returns whether it was here.
    pub(super) fn take(&mut self, hash: u64) -> bool {
        let mut node = self.heads[self.chain(hash)];
        while let Some(Node { hash: other, next }) = self.nodes.get(node as usize) {
            if *other == hash {
                self.forget(node);
                return true;
            }
            node = *next;
        }
        false
    }

    pub(super) fn pop(&mut self) {
        if let Some(node) = self.queue.back() {
            self.forget(node);
        }
    }

    /// Removes the oldest ghosts until at most `max` are left.
    pub(super) fn trim(&mut self, max: usize) {
        while self.len() > max {
            self.pop();
        }
    }

    fn grow(&mut self) {
        self.heads = vec![NONE; self.heads.len() * 2];
        // There are as many ghosts as there were chains, and no free node: a node is added only when no node is free.
        for node in 0..self.nodes.len() {
            let chain = self.chain(self.nodes[node].hash);
            self.nodes[node].next = self.heads[chain];
            self.heads[chain] = node as u32;
        }
    }

    /// The chain comes from the upper half of the hash, as the bucket in the pool's table does. The lowest
    /// bits choose the shard.
    fn chain(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.heads.len() - 1)
    }

    /// The hashes, newest ghost first.
    #[cfg(test)]
    pub(super) fn hashes(&self) -> Vec<u64> {
        self.queue.nodes(&self.links).iter().map(|&node| self.nodes[node as usize].hash).collect()
    }
}
