//! What the tests of all packages share: random choices and how many of them to try, clients for Redis' protocol and for Thrift that
//! share no code with the servers, and a store whose clock is ahead. It needs no other package, so that each may use it.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "helpers of tests"
)]

mod clock;
mod effort;
pub mod redis;
mod rng;
pub mod thrift;

pub use clock::AHEAD_MIN_US;
pub use effort::{cases, duration, is_full_run, is_quick, places, seed, seeds, some_of, variable};
pub use rng::{Rng, STEP, mix};

/// A short sleep, for a loop that waits for something. Without it, the loop takes the processor from what it waits for.
pub fn pause() {
    std::thread::sleep(std::time::Duration::from_micros(200));
}
