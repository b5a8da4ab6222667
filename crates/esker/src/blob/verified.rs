//! The sums of a value that is read in parts, and which of its chunks have passed.
//!
//! It takes 8 bytes and a bit per chunk, from the first read of a part until the last chunk has passed.

use super::chunks::Sums;
use crate::sync::{AtomicU64, Ordering};

#[derive(Debug)]
pub(super) struct Verified {
    pub(super) sums: Sums,
    bits: Box<[AtomicU64]>,
    left: AtomicU64,
}

impl Verified {
    pub(super) fn new(sums: Sums) -> Self {
        let words = sums.count().div_ceil(64);
        let bits = (0..words).map(|_| AtomicU64::new(0)).collect();
        let left = AtomicU64::new(sums.count());
        Verified { sums, bits, left }
    }

    pub(super) fn has(&self, index: u64) -> bool {
        self.bits[(index / 64) as usize].load(Ordering::Acquire) >> (index % 64) & 1 == 1
    }

    /// How many chunks from `first` on, and before `end`, are all in the same state as `first`: passed or not.
    pub(super) fn alike(&self, first: u64, end: u64) -> u64 {
        let passed = self.has(first);
        (first..end).take_while(|&index| self.has(index) == passed).count() as u64
    }

    /// Notes that chunk `index` has passed. Returns whether it was the last one.
    pub(super) fn set(&self, index: u64) -> bool {
        let bit = 1 << (index % 64);
        let before = self.bits[(index / 64) as usize].fetch_or(bit, Ordering::AcqRel);
        before & bit == 0 && self.left.fetch_sub(1, Ordering::AcqRel) == 1
    }
}
