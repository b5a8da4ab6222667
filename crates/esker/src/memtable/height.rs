//! Heights of new entries: 1 with probability 1/2, each further level half as likely.
//!
//! The usual quarter saves memory where every comparison touches a node. Here links carry bounds and only
//! steps touch nodes: a level costs one step on average at 1/2, three at 1/4. With twice the levels that
//! is still a third fewer nodes touched, paid with 11 more bytes per entry.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Above 2^16 entries the top level is walked: 16 warm nodes at a million entries.
pub(super) const MAX_HEIGHT: usize = 16;

thread_local! {
    /// This thread's generator; 0: not begun.
    static STATE: Cell<u64> = const { Cell::new(0) };
}

/// Begins this thread's heights anew: what it writes from now on lies in memory as it does after any other call with `seed`.
pub(super) fn begin(seed: u64) {
    STATE.set(seed);
}

/// A height for the next entry, from a generator of this thread's own.
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
        // The high bits of the product are the well-mixed ones; a zero bit makes a level.
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
