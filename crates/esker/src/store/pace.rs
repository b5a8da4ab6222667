//! Background I/O within its budget, `Options::background_io`: merges, and files of huge values that are written anew, are held
//! up until what they have read and written is paid for.

use std::time::Duration;

use parking_lot::Mutex;

use super::Store;
use crate::env::Lane;

/// How long one is held up before it is looked whether the store is closing, and what else its thread has to do.
const STEP_US: u64 = 20_000;

/// The lowest rate: a store whose merges stand still fills up.
const RATE_MIN: u64 = 64 << 10;

/// When all so far is paid for, in microseconds of the monotonic clock.
#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<u64>);

impl Pace {
    /// Counts `bytes`; returns after how many microseconds from `now_us` on they are paid for.
    fn spend(&self, now_us: u64, bytes: u64, rate: u64) -> u64 {
        let cost = u128::from(bytes) * 1_000_000 / u128::from(rate.max(RATE_MIN));
        let mut paid_us = self.0.lock();
        *paid_us = (*paid_us).max(now_us).saturating_add(u64::try_from(cost).unwrap_or(u64::MAX));
        *paid_us - now_us
    }
}

impl Store {
    /// Counts `bytes` that were read or written in the background without holding anything up.
    pub(super) fn note_background_io(&self, bytes: u64) {
        if let Some(rate) = self.options.background_io {
            self.pace.spend(self.env.clock.monotonic_us(), bytes, rate);
        }
    }

    /// Counts `bytes` that were read or written in `lane`, and waits until they are paid for.
    pub(super) fn pay_for(&self, bytes: u64, lane: Lane) {
        let Some(rate) = self.options.background_io else { return };
        let mut left = self.pace.spend(self.env.clock.monotonic_us(), bytes, rate);
        while left > 0 && !self.is_closing() {
            let step = left.min(STEP_US);
            self.env.clock.sleep(Duration::from_micros(step));
            left -= step;
            self.executor.meanwhile(self, lane);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_spent_is_paid_for_in_turn() {
        let pace = Pace::default();
        assert_eq!(pace.spend(5_000_000, 1 << 20, 1 << 20), 1_000_000);
        assert_eq!(pace.spend(5_500_000, 1 << 19, 1 << 20), 1_000_000);
        // What was not used is not saved up.
        assert_eq!(pace.spend(9_000_000, 1 << 18, 1 << 20), 250_000);
        assert_eq!(pace.spend(9_250_000, 64 << 10, 1), 1_000_000);
    }
}
