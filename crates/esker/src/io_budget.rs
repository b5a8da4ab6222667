//! Background I/O within its budget, `Options::background_io`.
//!
//! A merge sleeps until the budget has paid for the bytes that it and the merges next to it have read and written. The
//! rewriting of a file of huge values does its next step when the budget has paid for the last one. Unused budget is
//! not saved up, and a merge leaves no debt that others would have to wait for. The budget gives way where a wait would
//! cost more than it is worth: to users that wait for a merge to end, to writers that are slowed because merges have
//! fallen behind, to a full disk, to a store that closes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::env::Clock;
use crate::rate::RateLimit;

/// How long a merge sleeps before it checks whether it has become urgent.
const STEP_US: u64 = 20_000;

/// The longest delay of later merges by the bytes that [`IoBudget::note_merge`] counts.
const DEBT_MAX_US: u64 = 1_000_000;

/// The lowest rate: a store whose merges stand still fills up.
const RATE_MIN: u64 = 64 << 10;

#[derive(Debug)]
pub(crate) struct IoBudget {
    clock: Arc<dyn Clock>,
    /// Bytes a second; `None` without a budget.
    rate: Option<u64>,
    merges: RateLimit,
    reclaim: RateLimit,
    /// How many callers wait for a merge to end, or close the store.
    hurried: AtomicUsize,
}

/// Counts a caller that waits for a merge, until it is dropped.
pub(crate) struct Hurry<'a>(&'a AtomicUsize);

impl Drop for Hurry<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl IoBudget {
    /// A budget of `rate` bytes a second; `None` for no budget.
    pub(crate) fn new(clock: Arc<dyn Clock>, rate: Option<u64>) -> Self {
        let (merges, reclaim) = Default::default();
        let rate = rate.map(|rate| rate.max(RATE_MIN));
        IoBudget { clock, rate, merges, reclaim, hurried: AtomicUsize::new(0) }
    }

    /// While the result lives, merges do not wait for the budget: a caller waits for one to end.
    pub(crate) fn hurry(&self) -> Hurry<'_> {
        self.hurried.fetch_add(1, Ordering::Relaxed);
        Hurry(&self.hurried)
    }

    fn is_hurried(&self) -> bool {
        self.hurried.load(Ordering::Relaxed) > 0
    }

    /// Counts `bytes` that a merge has read or written, and waits until they are paid for. The wait ends early if
    /// `is_urgent` returns that the store needs the merge to end.
    pub(crate) fn pay_for_merge(&self, bytes: u64, is_urgent: impl Fn() -> bool) {
        let Some(rate) = self.rate else { return };
        let mut left = self.merges.spend(self.clock.monotonic_us(), bytes, rate);
        while left > 0 && !self.is_hurried() && !is_urgent() {
            let step = left.min(STEP_US);
            self.clock.sleep(Duration::from_micros(step));
            left -= step;
        }
        if left > 0 {
            self.merges.forgive(self.clock.monotonic_us(), 0);
        }
    }

    /// Counts `bytes` that a merge has read, without a wait.
    pub(crate) fn note_merge(&self, bytes: u64) {
        let Some(rate) = self.rate else { return };
        let now_us = self.clock.monotonic_us();
        // Other merges may be waiting to pay for their reads.
        let owed_us = self.merges.owed(now_us);
        self.merges.spend(now_us, bytes, rate);
        self.merges.forgive(now_us, owed_us.max(DEBT_MAX_US));
    }

    /// Counts `bytes` that were read or written to rewrite a file of huge values.
    pub(crate) fn note_reclaim(&self, bytes: u64) {
        if let Some(rate) = self.rate {
            self.reclaim.spend(self.clock.monotonic_us(), bytes, rate);
        }
    }

    /// How long the rewriting of files of huge values has to wait, if it has.
    pub(crate) fn reclaim_waits(&self, is_urgent: impl Fn() -> bool) -> Option<Duration> {
        self.rate?;
        let owed_us = self.reclaim.owed(self.clock.monotonic_us());
        let waits = owed_us > 0 && !self.is_hurried() && !is_urgent();
        waits.then_some(Duration::from_micros(owed_us))
    }
}
