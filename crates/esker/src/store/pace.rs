//! Background I/O within its budget, `Options::background_io`.
//!
//! Merges sleep until what they have read and written is paid for; files of huge values are not written anew before the last
//! step is. Nothing is saved up, and no debt is left behind that others would have to wait for. The bound gives way to
//! whoever would wait for longer than it is worth: users that wait for a merge to end, writers that are slowed because merges
//! are behind, a disk that is full, a store that closes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::Store;

/// How long a merge is held up before it is looked whether something has changed.
const STEP_US: u64 = 20_000;

/// What is counted without a wait is paid for by the next ones within so long.
const DEBT_MAX_US: u64 = 1_000_000;

/// The lowest rate: a store whose merges stand still fills up.
const RATE_MIN: u64 = 64 << 10;

/// When all so far is paid for, in microseconds of the monotonic clock.
#[derive(Debug, Default)]
struct Account(Mutex<u64>);

impl Account {
    /// Counts `bytes`; returns after how many microseconds from `now_us` on they are paid for.
    fn spend(&self, now_us: u64, bytes: u64, rate: u64) -> u64 {
        let cost = u128::from(bytes) * 1_000_000 / u128::from(rate.max(RATE_MIN));
        let mut paid_us = self.0.lock();
        *paid_us = (*paid_us).max(now_us).saturating_add(u64::try_from(cost).unwrap_or(u64::MAX));
        *paid_us - now_us
    }

    /// Nobody waits for longer than `most_us` from `now_us` on.
    fn forgive(&self, now_us: u64, most_us: u64) {
        let mut paid_us = self.0.lock();
        *paid_us = (*paid_us).min(now_us.saturating_add(most_us));
    }

    fn owed(&self, now_us: u64) -> u64 {
        self.0.lock().saturating_sub(now_us)
    }
}

/// See the module's comment.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    merges: Account,
    reclaim: Account,
    /// How many wait for a merge to end, or close the store.
    hurried: AtomicUsize,
}

/// One more, until it is dropped.
pub(super) struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Store {
    /// No merge is held up until this is dropped: somebody waits for one to end.
    pub(super) fn hurry(&self) -> Counted<'_> {
        Counted::new(&self.pace.hurried)
    }

    /// Whether nothing is to be held up.
    fn is_hurried(&self) -> bool {
        self.is_closing()
            || self.pace.hurried.load(Ordering::Relaxed) > 0
            || self.throttle.is_slowing()
            || self.failure().is_some()
    }

    /// Counts `bytes` that a merge has read or written, and waits until they are paid for.
    pub(super) fn pay_for_merge(&self, bytes: u64) {
        let Some(rate) = self.options.background_io else { return };
        let clock = &self.env.clock;
        let mut left = self.pace.merges.spend(clock.monotonic_us(), bytes, rate);
        while left > 0 && !self.is_hurried() {
            let step = left.min(STEP_US);
            clock.sleep(Duration::from_micros(step));
            left -= step;
        }
        self.pace.merges.forgive(clock.monotonic_us(), 0);
    }

    /// Counts `bytes` that a merge has read beside.
    pub(super) fn note_merge(&self, bytes: u64) {
        let Some(rate) = self.options.background_io else { return };
        let now_us = self.env.clock.monotonic_us();
        self.pace.merges.spend(now_us, bytes, rate);
        self.pace.merges.forgive(now_us, DEBT_MAX_US);
    }

    /// Counts `bytes` that were read or written for a file that is written anew.
    pub(super) fn note_reclaim(&self, bytes: u64) {
        if let Some(rate) = self.options.background_io {
            self.pace.reclaim.spend(self.env.clock.monotonic_us(), bytes, rate);
        }
    }

    /// How long no file is to be written anew, if there is a wait.
    pub(super) fn reclaim_waits(&self) -> Option<Duration> {
        self.options.background_io?;
        let owed_us = self.pace.reclaim.owed(self.env.clock.monotonic_us());
        let waits = owed_us > 0 && !self.executor.is_stepped() && !self.is_hurried();
        waits.then_some(Duration::from_micros(owed_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_spent_is_paid_for_in_turn() {
        let account = Account::default();
        assert_eq!(account.spend(5_000_000, 1 << 20, 1 << 20), 1_000_000);
        assert_eq!(account.spend(5_500_000, 1 << 19, 1 << 20), 1_000_000);
        // What was not used is not saved up.
        assert_eq!(account.spend(9_000_000, 1 << 18, 1 << 20), 250_000);
        assert_eq!(account.spend(9_250_000, 64 << 10, 1), 1_000_000);
        account.forgive(9_250_000, 400_000);
        assert_eq!(account.owed(9_250_000), 400_000);
        account.forgive(9_300_000, 0);
        assert_eq!((account.owed(9_300_000), account.owed(9_200_000)), (0, 100_000));
    }
}
