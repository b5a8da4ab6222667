//! Doubly linked lists of numbered nodes: the queues of the eviction policy.
//!
//! [`Links`] holds the links of all nodes of a policy, 8 bytes each. A node is in at most one [`List`] at a
//! time. A caller takes a node only out of the list that holds it.

/// No node.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Link {
    /// The neighbour towards the front.
    newer: u32,
    /// The neighbour towards the back.
    older: u32,
}

/// The neighbours of each node.
#[derive(Debug, Default)]
pub(super) struct Links(Vec<Link>);

/// A queue: nodes enter at the front and leave at the back.
#[derive(Debug)]
pub(super) struct List {
    front: u32,
    back: u32,
    len: usize,
}

impl Default for List {
    fn default() -> Self {
        List { front: NONE, back: NONE, len: 0 }
    }
}

impl List {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The node at the back, which has been here longest.
    pub(super) fn back(&self) -> Option<u32> {
        (self.back != NONE).then_some(self.back)
    }

    pub(super) fn push_front(&mut self, links: &mut Links, node: u32) {
        if node as usize >= links.0.len() {
            links.0.resize(node as usize + 1, Link { newer: NONE, older: NONE });
        }
        links.0[node as usize] = Link { newer: NONE, older: self.front };
        match links.0.get_mut(self.front as usize) {
            Some(second) => second.newer = node,
            None => self.back = node,
        }
        self.front = node;
        self.len += 1;
    }

    pub(super) fn remove(&mut self, links: &mut Links, node: u32) {
        let Link { newer, older } = links.0[node as usize];
        match links.0.get_mut(newer as usize) {
            Some(before) => before.older = older,
            None => self.front = older,
        }
        match links.0.get_mut(older as usize) {
            Some(after) => after.newer = newer,
            None => self.back = newer,
        }
        self.len -= 1;
    }

    pub(super) fn pop_back(&mut self, links: &mut Links) -> Option<u32> {
        let node = self.back()?;
        self.remove(links, node);
        Some(node)
    }

    /// The nodes from front to back.
    #[cfg(test)]
    pub(super) fn nodes(&self, links: &Links) -> Vec<u32> {
        let next = |&node: &u32| links.0.get(node as usize).map(|link| link.older);
        std::iter::successors(Some(self.front), next).filter(|&node| node != NONE).collect()
    }
}
