//! Latencies by windows of time, without keeping each of them: 32 buckets for each power of two of nanoseconds, so a
//! percentile is at most 3 % off.

use std::time::Duration;

const BITS: u32 = 5;

/// Latencies of one window.
#[derive(Clone)]
pub(super) struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: vec![0; 64 << BITS], count: 0, max_ns: 0 }
    }
}

fn bucket(ns: u64) -> usize {
    let power = 63 - (ns | 1 << BITS).leading_zeros();
    (((power - BITS) as usize) << BITS) + (ns >> (power - BITS)) as usize
}

/// The greatest latency of a bucket.
fn top(bucket: usize) -> u64 {
    let (power, rest) = (bucket >> BITS, bucket & ((1 << BITS) - 1));
    match power {
        0 => rest as u64,
        power => {
            ((1 << BITS) + rest as u64 + 1).checked_shl(power as u32 - 1).map_or(u64::MAX, |top| top - 1)
        }
    }
}

impl Histogram {
    pub(super) fn add(&mut self, latency: Duration) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(ns)] += 1;
        self.count += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The latency that so many of 1,000 stay within, in milliseconds.
    pub(super) fn ms(&self, permille: f64) -> f64 {
        let wanted = (self.count as f64 * permille / 1000.0).ceil() as u64;
        let mut seen = 0;
        let found = self.buckets.iter().position(|count| {
            seen += count;
            seen >= wanted.max(1)
        });
        found.map_or(0.0, |bucket| top(bucket).min(self.max_ns) as f64 / 1e6)
    }

    pub(super) fn max_ms(&self) -> f64 {
        self.max_ns as f64 / 1e6
    }
}

/// Latencies by windows.
pub(super) struct Windows {
    each: Duration,
    all: Vec<Histogram>,
}

impl Windows {
    pub(super) fn of(each: Duration) -> Windows {
        Windows { each, all: Vec::new() }
    }

    /// Notes an operation that began, or was to begin, at `at` since the first window's begin.
    pub(super) fn add(&mut self, at: Duration, latency: Duration) {
        let window = (at.as_nanos() / self.each.as_nanos().max(1)) as usize;
        while self.all.len() <= window {
            self.all.push(Histogram::default());
        }
        self.all[window].add(latency);
    }

    pub(super) fn all(&self) -> &[Histogram] {
        &self.all
    }

    /// Operations a second from one time to another.
    pub(super) fn rate(&self, from: Duration, to: Duration) -> f64 {
        let place = |time: Duration| (time.as_nanos() / self.each.as_nanos().max(1)) as usize;
        let (from, to) = (place(from), place(to).min(self.all.len()));
        if to <= from {
            return 0.0;
        }
        let count: u64 = self.all[from..to].iter().map(Histogram::count).sum();
        count as f64 / (self.each.as_secs_f64() * (to - from) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_near() {
        let mut histogram = Histogram::default();
        (1..=100_000_u64).for_each(|us| histogram.add(Duration::from_micros(us)));
        for (permille, ms) in [(500.0, 50.0), (990.0, 99.0), (999.0, 99.9), (1000.0, 100.0)] {
            let found = histogram.ms(permille);
            assert!((found - ms).abs() < ms * 0.04, "{found} for {ms}");
        }
        assert_eq!(histogram.max_ms(), 100.0);
        for ns in [0, 1, 31, 32, 33, 63, 64, 1000, u64::MAX] {
            assert!(top(bucket(ns)) >= ns, "{ns}");
        }
    }

    #[test]
    fn windows_have_rates() {
        let mut windows = Windows::of(Duration::from_secs(10));
        (0..300).for_each(|at| windows.add(Duration::from_millis(at * 100), Duration::from_millis(1)));
        assert_eq!(windows.all().len(), 3);
        assert_eq!(windows.rate(Duration::from_secs(10), Duration::from_secs(30)), 10.0);
    }
}
