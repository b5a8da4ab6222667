//! Slows writers smoothly while merges fall behind, so that writers never have to stop for seconds.
//!
//! Above a first threshold of unmerged runs, writers share a rate in bytes per second. It halves with every further
//! run, down to a rate that merges should keep up with. If merges do not keep up, the rate halves again from a second
//! threshold on: a scan opens a table of each run, and must not need more descriptors and memory than the process has.
//!
//! A writer that is ahead of the rate sleeps for the difference. Sleeps are collected to about a millisecond, since
//! shorter ones cost more time than they hold a writer up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::env::Clock;
use crate::events::event;
use crate::rate::RateLimit;
use crate::trace::{Cause, perf_context};

/// From this many unmerged runs in a tree on, writers are slowed.
pub(crate) const SLOW_RUNS: usize = 10;

/// The rate at [`SLOW_RUNS`].
const RATE_MAX: u64 = 128 << 20;

/// The lowest rate below [`MANY_RUNS`].
const RATE_MIN: u64 = 2 << 20;

/// From this many unmerged runs on, the rate falls below [`RATE_MIN`].
const MANY_RUNS: usize = 32;

/// The lowest rate of all. Writers are slowed, never stopped.
const RATE_LEAST: u64 = 4 << 10;

/// The shortest and the longest delay of one write.
const SLEEP_MIN_US: u64 = 1_000;
const SLEEP_MAX_US: u64 = 50_000;

/// See the module's comment. Many threads may call all methods at the same time.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    /// Bytes per second; 0: no limit.
    rate: AtomicU64,
    limit: RateLimit,
    slept_us: AtomicU64,
}

impl Throttle {
    /// Sets the rate. The tree with the most unmerged runs has `runs` of them.
    pub(crate) fn set_runs(&self, runs: usize) {
        let rate = rate_of(runs);
        let old = self.rate.swap(rate, Ordering::Relaxed);
        if old == 0 && rate != 0 {
            event!(WARN, "writers are slowed", { runs: runs, bytes_per_second: rate });
        } else if old != 0 && rate == 0 {
            event!(INFO, "writers are no longer slowed", { runs: runs });
        }
    }

    /// Whether writers are slowed.
    pub(crate) fn is_slowing(&self) -> bool {
        self.rate.load(Ordering::Relaxed) != 0
    }

    /// Whether the rate is below [`RATE_MIN`]: merges fall behind even so.
    #[inline]
    pub(crate) fn is_outrun(&self) -> bool {
        (1..RATE_MIN).contains(&self.rate.load(Ordering::Relaxed))
    }

    /// Delays a writer of `bytes` bytes for as long as the rate requires.
    #[inline]
    pub(crate) fn admit(&self, clock: &dyn Clock, bytes: usize) {
        let rate = self.rate.load(Ordering::Relaxed);
        if rate != 0 {
            self.hold_up(clock, bytes as u64, rate);
        }
    }

    /// Whether the rate admits a writer without a delay. A writer that is admitted is charged once it has written.
    pub(crate) fn admits(&self, clock: &dyn Clock) -> bool {
        let rate = self.rate.load(Ordering::Relaxed);
        rate == 0 || self.limit.spend(clock.monotonic_us(), 0, rate) < SLEEP_MIN_US
    }

    /// Charges a writer that was admitted for `bytes` bytes.
    #[inline]
    pub(crate) fn charge(&self, clock: &dyn Clock, bytes: usize) {
        let rate = self.rate.load(Ordering::Relaxed);
        if rate != 0 {
            self.limit.spend(clock.monotonic_us(), bytes as u64, rate);
        }
    }

    fn hold_up(&self, clock: &dyn Clock, bytes: u64, rate: u64) {
        let wait = self.limit.spend(clock.monotonic_us(), bytes, rate);
        if wait >= SLEEP_MIN_US {
            let wait = wait.min(SLEEP_MAX_US);
            self.slept_us.fetch_add(wait, Ordering::Relaxed);
            perf_context::waiting(clock, Cause::Throttled, || clock.sleep(Duration::from_micros(wait)));
        }
    }

    /// The total delay of writers, in microseconds.
    pub(crate) fn slept_us(&self) -> u64 {
        self.slept_us.load(Ordering::Relaxed)
    }
}

/// Bytes per second that writers share at `runs` unmerged runs; 0: no limit.
fn rate_of(runs: usize) -> u64 {
    if runs < SLOW_RUNS {
        return 0;
    }
    let halved = |rate: u64, from: usize| rate >> runs.saturating_sub(from).min(32);
    match runs {
        ..MANY_RUNS => halved(RATE_MAX, SLOW_RUNS).max(RATE_MIN),
        _ => halved(RATE_MIN, MANY_RUNS).max(RATE_LEAST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_falls_with_the_runs_and_writers_are_never_stopped() {
        assert_eq!([0, 9].map(rate_of), [0, 0]);
        assert_eq!([10, 11, 13].map(rate_of), [128 << 20, 64 << 20, 16 << 20]);
        assert_eq!([16, 20, 32].map(rate_of), [2 << 20; 3]);
        assert_eq!([33, 36, 41].map(rate_of), [1 << 20, 128 << 10, 4 << 10]);
        assert_eq!([42, 100, usize::MAX].map(rate_of), [4 << 10; 3]);
        let throttle = Throttle::default();
        let outrun = [0, 9, 10, 32, 33, usize::MAX].map(|runs| {
            throttle.set_runs(runs);
            throttle.is_outrun()
        });
        assert_eq!(outrun, [false, false, false, false, true, true]);
    }
}
