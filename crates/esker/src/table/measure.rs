//! Opens the index of a table to `crate::measure`.

use super::index::{Index, IndexBuilder};
use super::search_tree::SearchTree;

/// The stored length that [`BlockIndex`] assumes for each block.
const BLOCK_BYTES: u64 = 4096;

/// Only the search tree over the heads of separators.
#[derive(Debug)]
pub struct BlockHeads(SearchTree);

impl BlockHeads {
    /// A tree over `sorted`, which must ascend.
    pub fn new(sorted: &[u64]) -> BlockHeads {
        BlockHeads(SearchTree::build(sorted))
    }

    /// The position of the first number that is at least `target`.
    #[inline]
    pub fn find(&self, target: u64) -> usize {
        self.0.lower_bound(target)
    }
}

/// A whole index, as a table's reader holds it.
#[derive(Debug)]
pub struct BlockIndex(Index);

impl BlockIndex {
    /// The index of a table whose blocks end with these keys, which must ascend.
    pub fn new<K: AsRef<[u8]>>(last_keys: &[K]) -> Option<BlockIndex> {
        let mut builder = IndexBuilder::default();
        for key in last_keys {
            builder.add(key.as_ref(), None, BLOCK_BYTES);
        }
        let mut payload = Vec::new();
        builder.finish(&mut payload);
        Index::decode(&payload, last_keys.len() as u64 * BLOCK_BYTES).ok().map(BlockIndex)
    }

    /// The first block that may hold `key`.
    #[inline]
    pub fn find(&self, key: &[u8]) -> usize {
        self.0.find(key)
    }
}
