//! A limit on bytes per second that several threads share.

use parking_lot::Mutex;

/// The time at which all bytes so far are paid for. Time that nobody uses is not saved up, so there are no bursts after a
/// pause.
#[derive(Debug, Default)]
pub(crate) struct RateLimit {
    /// In microseconds of a monotonic clock.
    paid_us: Mutex<u64>,
}

impl RateLimit {
    /// Counts `bytes` at `rate` bytes a second; a rate of 0 counts as 1. Returns the microseconds from `now_us` until they
    /// are paid for.
    pub(crate) fn spend(&self, now_us: u64, bytes: u64, rate: u64) -> u64 {
        let cost = u128::from(bytes) * 1_000_000 / u128::from(rate.max(1));
        let mut paid_us = self.paid_us.lock();
        *paid_us = (*paid_us).max(now_us).saturating_add(u64::try_from(cost).unwrap_or(u64::MAX));
        *paid_us - now_us
    }

    /// The microseconds from `now_us` until all bytes so far are paid for.
    pub(crate) fn owed(&self, now_us: u64) -> u64 {
        self.paid_us.lock().saturating_sub(now_us)
    }

    /// Forgives what takes longer than `most_us` from `now_us` to pay for.
    pub(crate) fn forgive(&self, now_us: u64, most_us: u64) {
        let mut paid_us = self.paid_us.lock();
        *paid_us = (*paid_us).min(now_us.saturating_add(most_us));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_paid_for_one_after_the_other() {
        let limit = RateLimit::default();
        assert_eq!(limit.spend(5_000_000, 1 << 20, 1 << 20), 1_000_000);
        assert_eq!(limit.spend(5_500_000, 1 << 19, 1 << 20), 1_000_000);
        // Unused time is not saved up.
        assert_eq!(limit.spend(9_000_000, 1 << 18, 1 << 20), 250_000);
        limit.forgive(9_000_000, 100_000);
        assert_eq!(limit.owed(9_000_000), 100_000);
        limit.forgive(9_050_000, 0);
        assert_eq!((limit.owed(9_050_000), limit.owed(9_000_000)), (0, 50_000));
        // Extremes.
        assert_eq!(limit.spend(9_050_000, 3, 0), 3_000_000);
        assert_eq!(limit.spend(9_050_000, u64::MAX, 1), u64::MAX - 9_050_000);
    }
}
