//! A static B-tree over sorted numbers. It finds the first number at or above a given one.
//!
//! ```text
//! root    [ max of node 0 | max of node 1 | ... ]      8 numbers = one cache line a node
//! ...
//! leaves  [ all numbers, in order, padded with u64::MAX ]
//! ```
//! A number in an upper node is the greatest number of one node of the level below. A search touches one line
//! per level and takes no branch that depends on the numbers: `rank` within a node is the child's number.

const FANOUT: usize = 8;

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Node([u64; FANOUT]);

impl Node {
    #[inline]
    fn rank(&self, target: u64) -> usize {
        self.0.iter().map(|&number| usize::from(number < target)).sum()
    }
}

#[derive(Debug)]
pub(super) struct SearchTree {
    nodes: Box<[Node]>,
    /// The beginning of each level in `nodes`, the root's first.
    levels: Box<[usize]>,
    len: usize,
    max: u64,
}

impl SearchTree {
    /// Builds a tree over `sorted`, which ascends; equal numbers are allowed.
    pub(super) fn build(sorted: &[u64]) -> Self {
        let mut bottom_up: Vec<Vec<Node>> = vec![nodes_of(sorted)];
        while let Some(below) = bottom_up.last().filter(|level| level.len() > 1) {
            let maxima: Vec<u64> = below.iter().map(|node| node.0[FANOUT - 1]).collect();
            bottom_up.push(nodes_of(&maxima));
        }
        let mut levels = Vec::new();
        let mut nodes = Vec::with_capacity(bottom_up.iter().map(Vec::len).sum());
        for level in bottom_up.iter().rev() {
            levels.push(nodes.len());
            nodes.extend_from_slice(level);
        }
        SearchTree {
            nodes: nodes.into(),
            levels: levels.into(),
            len: sorted.len(),
            max: sorted.last().copied().unwrap_or(0),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The position of the first number that is at least `target`; `len()` if all numbers are less.
    #[inline]
    pub(super) fn lower_bound(&self, target: u64) -> usize {
        if target > self.max || self.len == 0 {
            return self.len;
        }
        let mut node = 0;
        for &level in &self.levels {
            node = node * FANOUT + self.nodes[level + node].rank(target);
        }
        node
    }

    /// The position of the first number greater than `target`; `len()` if no number is.
    pub(super) fn upper_bound(&self, target: u64) -> usize {
        target.checked_add(1).map_or(self.len, |next| self.lower_bound(next))
    }

    #[inline]
    pub(super) fn at(&self, position: usize) -> u64 {
        let leaves = self.levels[self.levels.len() - 1];
        self.nodes[leaves + position / FANOUT].0[position % FANOUT]
    }

    pub(super) fn memory(&self) -> usize {
        self.nodes.len() * size_of::<Node>()
    }
}

fn nodes_of(numbers: &[u64]) -> Vec<Node> {
    let node = |chunk: &[u64]| {
        let mut node = Node([u64::MAX; FANOUT]);
        node.0[..chunk.len()].copy_from_slice(chunk);
        node
    };
    numbers.chunks(FANOUT).map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_a_linear_search_finds() {
        for len in (0..200).chain([511, 512, 513, 4096, 4097]) {
            let sorted: Vec<u64> = (0..len).map(|i| (i as u64 / 3) * 10).collect();
            let tree = SearchTree::build(&sorted);
            assert_eq!(tree.len(), len);
            for (i, &number) in sorted.iter().enumerate() {
                assert_eq!(tree.at(i), number);
            }
            for target in (0..len as u64 * 4).chain([u64::MAX - 1, u64::MAX]) {
                assert_eq!(tree.lower_bound(target), sorted.partition_point(|&n| n < target), "{target}");
                assert_eq!(tree.upper_bound(target), sorted.partition_point(|&n| n <= target), "{target}");
            }
        }
    }

    #[test]
    fn the_greatest_number_is_not_mistaken_for_padding() {
        let tree = SearchTree::build(&[1, u64::MAX, u64::MAX]);
        assert_eq!([tree.lower_bound(2), tree.lower_bound(u64::MAX), tree.upper_bound(u64::MAX)], [1, 1, 3]);
    }
}
