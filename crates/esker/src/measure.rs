//! Internals opened to the design measurements of `bench/`, built in by `--cfg esker_measure` alone. No part of the
//! interface: anything here may change or go with any commit.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::cursor::{Kind, MAX_SEQ};
use crate::error::Result;
use crate::memtable::{ChunkPool, Memtable};
pub use crate::table::measure::{BlockHeads, BlockIndex};

/// A memtable, with a lock around reservations, as the store has one.
#[derive(Debug)]
pub struct SkipList {
    table: Memtable,
    reserving: Mutex<()>,
}

impl SkipList {
    /// An empty one. It and its successors share a pool of at most `pool_bytes` of free memory.
    pub fn new(pool_bytes: usize) -> SkipList {
        SkipList::over(Memtable::with(&[], Some(Arc::new(ChunkPool::new(pool_bytes)))))
    }

    /// The empty one that a store would go on with when this one is full.
    pub fn successor(&self) -> SkipList {
        SkipList::over(self.table.successor())
    }

    fn over(table: Memtable) -> SkipList {
        SkipList { table, reserving: Mutex::new(()) }
    }

    /// Adds a version of `key`; no other of this key may have the same `seq`.
    pub fn put(&self, key: &[u8], seq: u64, value: &[u8]) -> Result<()> {
        let height = Memtable::random_height();
        let bytes = Memtable::entry_size(height, key.len(), value.len());
        let mut region = {
            let _alone = self.reserving.lock();
            self.table.reserve(bytes)?
        };
        self.table.insert(&mut region, height, key, seq, Kind::Put, value);
        Ok(())
    }

    /// The newest value of `key`.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.table.get(key, MAX_SEQ).map(|(_, _, value)| value)
    }
}
