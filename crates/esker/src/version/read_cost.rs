//! The cost of reads on the unmerged runs of a tree's level 0, in bytes of merging that it pays for.
//!
//! One more run costs a scan about a microsecond (an index, a block, a place in the merge) and a get an eighth of that
//! (a filter). A merge rewrites some 250 bytes in a microsecond, in the background. With [`SCAN_PAYS`], one microsecond
//! of a reader is worth four microseconds of merging. When reads have paid for the merge of level 0, `compact/pick.rs`
//! starts it before its usual trigger.
//!
//! Guarantees: the count is deterministic for one thread, and exact for many. A scan costs one atomic addition. A get
//! costs one if its key is among an eighth of all keys.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How many bytes of merging a scan pays for each run.
const SCAN_PAYS: u64 = 1 << 10;

/// Gets of one key in this many pay, as much as a scan.
const GETS_PER_PAYMENT: u64 = 8;

/// Below this sum a merge is not due.
const DUE_MIN: u64 = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct ReadCost {
    /// The sum has grown by a quarter since the last check.
    due: AtomicBool,
    paid: Alone,
}

/// On its own cache line: every scan writes it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Alone(AtomicU64);

impl ReadCost {
    #[inline]
    pub(crate) fn note_scan(&self, runs: usize) {
        self.pay(runs as u64 * SCAN_PAYS);
    }

    /// Notes that a get of the key with this hash passed `runs` runs in vain.
    #[inline]
    pub(crate) fn note_get(&self, hash: u64, runs: usize) {
        if hash.is_multiple_of(GETS_PER_PAYMENT) && runs > 0 {
            self.pay(runs as u64 * SCAN_PAYS);
        }
    }

    #[inline]
    fn pay(&self, bytes: u64) {
        let before = self.paid.0.fetch_add(bytes, Ordering::Relaxed);
        let after = before.saturating_add(bytes);
        if after >= DUE_MIN && (before < DUE_MIN || quarter(before) != quarter(after)) {
            self.due.store(true, Ordering::Relaxed);
        }
    }

    /// Whether to check if the sum is enough. Returns `true` once for each growth.
    #[inline]
    pub(crate) fn take_due(&self) -> bool {
        self.due.load(Ordering::Relaxed) && self.due.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn paid(&self) -> u64 {
        self.paid.0.load(Ordering::Relaxed)
    }
}

/// The three highest bits and their place. This changes whenever the number has grown by a quarter, or less.
fn quarter(bytes: u64) -> (u32, u64) {
    let top = bytes.max(4).ilog2();
    (top, bytes >> (top - 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_once_for_each_quarter_that_the_sum_grows() {
        let cost = ReadCost::default();
        let mut looked_at = Vec::new();
        for _ in 0..4096 {
            cost.note_scan(1);
            if cost.take_due() {
                looked_at.push(cost.paid() / SCAN_PAYS);
                assert!(!cost.take_due());
            }
        }
        assert_eq!(looked_at, [1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096]);
    }

    #[test]
    fn gets_pay_by_their_keys_hash() {
        let cost = ReadCost::default();
        (0..1600).for_each(|hash| cost.note_get(hash, 2));
        assert_eq!(cost.paid(), 200 * 2 * SCAN_PAYS);
        cost.note_get(0, 0);
        assert_eq!(cost.paid(), 400 * SCAN_PAYS);
    }
}
