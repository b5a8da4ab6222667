//! How long operations took, in classes that double.

use std::sync::atomic::{AtomicU64, Ordering};

/// The first class ends at 2^8 ns, the last but one at 2^34 ns: 17 s.
const FIRST_LOG2: u32 = 8;
const CLASSES: usize = 28;

/// Counts by class. Any number of threads may add.
#[derive(Debug, Default)]
pub(super) struct Classes {
    counts: [AtomicU64; CLASSES],
    sum_ns: AtomicU64,
}

fn class_of(ns: u64) -> usize {
    // The least power of two that is not below.
    let log2 = u64::BITS - ns.saturating_sub(1).leading_zeros();
    (log2.saturating_sub(FIRST_LOG2) as usize).min(CLASSES - 1)
}

impl Classes {
    pub(super) fn add(&self, ns: u64) {
        self.counts[class_of(ns)].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Latency {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Latency { counts: self.counts.iter().map(read).collect(), sum_ns: read(&self.sum_ns) }
    }
}

/// The latencies of the operations that were timed: one in 64 where timing has a cost, otherwise all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Latency {
    counts: Vec<u64>,
    /// The sum of these latencies, in nanoseconds.
    pub sum_ns: u64,
}

impl Latency {
    /// How many were timed.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The classes, shortest first: the longest latency of each in nanoseconds (`None` for the last), and the number of
    /// operations in it.
    pub fn classes(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let last = self.counts.len().saturating_sub(1);
        let end = move |class: usize| (class < last).then(|| 1 << (FIRST_LOG2 + class as u32));
        self.counts.iter().enumerate().map(move |(class, &count)| (end(class), count))
    }

    /// An upper bound, in nanoseconds, of the latency at `quantile` (0 to 1), at most twice the latency itself. `None`
    /// if no operation was timed, or if the latency is beyond 17 seconds.
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        let wanted = (quantile.clamp(0.0, 1.0) * self.count() as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        let mut classes = self.classes();
        let (end, _) = classes.find(|(_, count)| {
            below += count;
            below >= wanted
        })?;
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_double() {
        let classes: Vec<usize> =
            [0, 1, 256, 257, 512, 513, 1 << 34, (1 << 34) + 1, u64::MAX].into_iter().map(class_of).collect();
        assert_eq!(classes, [0, 0, 0, 1, 1, 2, 26, 27, 27]);
    }

    #[test]
    fn quantiles_are_the_ends_of_classes() {
        let classes = Classes::default();
        assert_eq!(classes.read().quantile(0.5), None);
        (0..90).for_each(|_| classes.add(200));
        (0..9).for_each(|_| classes.add(1_000));
        classes.add(1 << 40);
        let latency = classes.read();
        assert_eq!(latency.count(), 100);
        let quantiles = [0.0, 0.5, 0.9, 0.91, 0.99, 1.0].map(|part| latency.quantile(part));
        assert_eq!(quantiles, [Some(256), Some(256), Some(256), Some(1024), Some(1024), None]);
    }
}
