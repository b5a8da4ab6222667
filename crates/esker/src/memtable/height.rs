//! Heights of new entries: 1 with probability 1/2, each further level half as likely.
//!
//! The usual probability of a quarter saves memory where every comparison touches a node. Here links carry bounds, and
//! only steps touch nodes: a level costs one step on average at 1/2 and three at 1/4. Therefore 1/2 touches a third
//! fewer nodes in spite of twice the levels, and costs 11 more bytes per entry.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Above 2^16 entries a search walks along the top level: 16 cached nodes at a million entries.
pub(super) const MAX_HEIGHT: usize = 16;

thread_local! {
    /// This thread's generator; 0 before its first use.
    static STATE: Cell<u64> = const { Cell::new(0) };
}

/// Restarts this thread's heights from `seed`. After each call with the same `seed`, the same writes lay out memory in
/// the same way.
pub(super) fn begin(seed: u64) {
    STATE.set(seed);
}

/// A height for the next entry, from this thread's generator.
#[inline]
pub(super) fn random() -> u8 {
    STATE.with(|state| {
        let mut x = state.get();
        if x == 0 {
            x = seed();
        }
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        state.set(x);
        // The high bits of the product are the well-mixed ones. Each leading zero bit adds a level.
        let bits = x.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
        let levels = bits.trailing_zeros().min(MAX_HEIGHT as u32 - 1);
        levels as u8 + 1
    })
}

/// A different seed, never zero, for each thread.
#[cold]
fn seed() -> u64 {
    static THREADS: AtomicU64 = AtomicU64::new(1);
    THREADS.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
