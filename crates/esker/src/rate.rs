//! A limit on bytes per second that several threads share.

use parking_lot::Mutex;

/// The time at which all bytes so far are paid for. Unused time is not saved up, or only as much as the caller allows.
/// This prevents bursts after a pause.
#[derive(Debug, Default)]
pub(crate) struct RateLimit {
    /// In microseconds of a monotonic clock.
    paid_us: Mutex<u64>,
}

impl RateLimit {
    /// Counts `bytes` at `rate` bytes a second; a rate of 0 counts as 1. Returns the microseconds from `now_us` until
    /// they are paid for.
    pub(crate) fn spend(&self, now_us: u64, bytes: u64, rate: u64) -> u64 {
        let cost = u128::from(bytes) * 1_000_000 / u128::from(rate.max(1));
        let mut paid_us = self.paid_us.lock();
        *paid_us = (*paid_us).max(now_us).saturating_add(u64::try_from(cost).unwrap_or(u64::MAX));
        *paid_us - now_us
    }

    /// The microseconds before `now_us` in which nothing had to be paid for, at most `most_us`.
    pub(crate) fn unused(&self, now_us: u64, most_us: u64) -> u64 {
        now_us.saturating_sub(*self.paid_us.lock()).min(most_us)
    }

    /// [`RateLimit::spend`], which first uses up to `credit_us` of the time before `now_us` that was not used.
    pub(crate) fn spend_with_credit(&self, now_us: u64, credit_us: u64, bytes: u64, rate: u64) {
        self.spend(now_us.saturating_sub(credit_us), bytes, rate);
    }

    /// The microseconds from `now_us` until all bytes so far are paid for.
    pub(crate) fn owed(&self, now_us: u64) -> u64 {
        self.paid_us.lock().saturating_sub(now_us)
    }

    /// Forgives the part that takes longer than `most_us` from `now_us` to pay for.
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
        // Unused time as credit, up to a bound.
        assert_eq!((limit.unused(9_100_000, 20_000), limit.unused(9_049_000, 20_000)), (20_000, 0));
        limit.spend_with_credit(9_100_000, 20_000, 30, 1_000);
        assert_eq!((limit.owed(9_100_000), limit.unused(9_100_000, 20_000)), (10_000, 0));
        limit.forgive(9_050_000, 0);
        // Extremes.
        assert_eq!(limit.spend(9_050_000, 3, 0), 3_000_000);
        assert_eq!(limit.spend(9_050_000, u64::MAX, 1), u64::MAX - 9_050_000);
    }
}
