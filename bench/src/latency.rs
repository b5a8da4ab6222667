//! How long calls took: counts by classes, each at most 1/128 as wide as its times. A quantile is at most a class above the
//! exact one.
//!
//! ```text
//! nanoseconds   0 1 ... 255 | 256 258 ... 510 | 512 516 ... 1020 | ...   starts of classes
//! ```

use std::time::Duration;

/// Classes of a power of two: 2 to this power.
const PER_POWER_LOG2: u32 = 7;
const PER_POWER: usize = 1 << PER_POWER_LOG2;
const CLASSES: usize = (u64::BITS - PER_POWER_LOG2 + 1) as usize * PER_POWER;

/// Counts of latencies by class.
#[derive(Clone)]
pub(crate) struct Latencies {
    counts: Vec<u64>,
    count: u64,
    max_ns: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies { counts: vec![0; CLASSES], count: 0, max_ns: 0 }
    }
}

fn class_of(ns: u64) -> usize {
    let power = ns.max(1).ilog2().saturating_sub(PER_POWER_LOG2);
    power as usize * PER_POWER + (ns >> power) as usize
}

/// The greatest time of a class.
fn last_of(class: usize) -> u64 {
    let power = (class / PER_POWER).saturating_sub(1);
    let start = (class - power * PER_POWER) as u64;
    ((start + 1) << power).wrapping_sub(1)
}

impl Latencies {
    pub(crate) fn add(&mut self, latency: Duration) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        if let Some(count) = self.counts.get_mut(class_of(ns)) {
            *count += 1;
        }
        self.count += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    pub(crate) fn add_all(&mut self, other: &Latencies) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.count += other.count;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn max_us(&self) -> f64 {
        self.max_ns as f64 / 1e3
    }

    pub(crate) fn max_ms(&self) -> f64 {
        self.max_ns as f64 / 1e6
    }

    /// The time in microseconds that this part of the calls did not exceed; 0 if there were none.
    pub(crate) fn quantile_us(&self, part: f64) -> f64 {
        let rank = ((self.count as f64 * part).ceil() as u64).clamp(1, self.count.max(1));
        let mut below = 0;
        let class = self.counts.iter().position(|count| {
            below += count;
            below >= rank
        });
        class.map_or(0, |class| last_of(class).min(self.max_ns)) as f64 / 1e3
    }
}

/// Latencies by windows of time.
pub(crate) struct Windows {
    each: Duration,
    all: Vec<Latencies>,
}

impl Windows {
    pub(crate) fn of(each: Duration) -> Windows {
        Windows { each, all: Vec::new() }
    }

    /// Counts an operation that began, or was due, at `at` since the start of the first window.
    pub(crate) fn add(&mut self, at: Duration, latency: Duration) {
        let window = (at.as_nanos() / self.each.as_nanos().max(1)) as usize;
        while self.all.len() <= window {
            self.all.push(Latencies::default());
        }
        self.all[window].add(latency);
    }

    pub(crate) fn all(&self) -> &[Latencies] {
        &self.all
    }

    /// Operations a second from one time to another.
    pub(crate) fn rate(&self, from: Duration, to: Duration) -> f64 {
        let place = |time: Duration| (time.as_nanos() / self.each.as_nanos().max(1)) as usize;
        let (from, to) = (place(from), place(to).min(self.all.len()));
        if to <= from {
            return 0.0;
        }
        let count: u64 = self.all[from..to].iter().map(Latencies::count).sum();
        count as f64 / (self.each.as_secs_f64() * (to - from) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_each_other_without_gaps() {
        for class in 0..CLASSES - 1 {
            let last = last_of(class);
            assert_eq!((class_of(last), class_of(last + 1)), (class, class + 1), "{last}");
        }
        assert_eq!((class_of(u64::MAX), last_of(CLASSES - 1)), (CLASSES - 1, u64::MAX));
    }

    #[test]
    fn quantiles_are_at_most_a_class_above() {
        let mut latencies = Latencies::default();
        assert_eq!((latencies.quantile_us(0.5), latencies.max_us()), (0.0, 0.0));
        (1..=10_000).for_each(|us| latencies.add(Duration::from_micros(us)));
        for (part, us) in [(0.5, 5_000.0), (0.99, 9_900.0), (0.999, 9_990.0), (1.0, 10_000.0)] {
            let found = latencies.quantile_us(part);
            assert!(found >= us && found <= us * (1.0 + 1.0 / 128.0), "{part}: {found}");
        }
        assert_eq!((latencies.max_us(), latencies.count()), (10_000.0, 10_000));
    }

    #[test]
    fn windows_have_rates() {
        let mut windows = Windows::of(Duration::from_secs(10));
        (0..300).for_each(|at| windows.add(Duration::from_millis(at * 100), Duration::from_millis(1)));
        assert_eq!(windows.all().len(), 3);
        assert_eq!(windows.rate(Duration::from_secs(10), Duration::from_secs(30)), 10.0);
    }
}
