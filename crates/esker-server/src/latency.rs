//! How long commands took, in classes of which each is a sixteenth of a power of two wide.
//!
//! ```text
//! units of 1/64 us   0 1 2 ... 15 | 16 17 ... 31 | 32 34 ... 62 | 64 68 ... 124 | ...   ends of classes
//! ```
//! A quantile is the end of a class: at most 1/16 above the latency itself. Powers of two of a microsecond are ends of
//! classes, so counts up to them are exact.

/// Classes of a power of two: 2 to this power.
const PER_POWER_LOG2: u32 = 4;
const PER_POWER: usize = 1 << PER_POWER_LOG2;

/// Units of a microsecond: 2 to this power.
const UNITS_LOG2: u32 = 6;

/// Latencies from 2 to this power units on are in the last class: a minute.
const POWERS: u32 = 32;
const CLASSES: usize = (POWERS - PER_POWER_LOG2 + 1) as usize * PER_POWER;

/// Counts of latencies by class.
pub(crate) struct Histogram {
    counts: Box<[u64; CLASSES]>,
    sum_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: Box::new([0; CLASSES]), sum_ns: 0 }
    }
}

impl Clone for Histogram {
    fn clone(&self) -> Self {
        Histogram { counts: self.counts.clone(), sum_ns: self.sum_ns }
    }
}

#[inline]
fn class_of(units: u64) -> usize {
    if units < PER_POWER as u64 {
        return units as usize;
    }
    let log2 = units.ilog2();
    if log2 >= POWERS {
        return CLASSES - 1;
    }
    // The highest bit says the power, the four behind it the class.
    let within = (units >> (log2 - PER_POWER_LOG2)) as usize - PER_POWER;
    (log2 - PER_POWER_LOG2 + 1) as usize * PER_POWER + within
}

/// The first number of units behind a class.
fn end_of(class: usize) -> u64 {
    let (power, within) = (class / PER_POWER, class % PER_POWER);
    match power.checked_sub(1) {
        None => within as u64 + 1,
        Some(power) => ((PER_POWER + within + 1) as u64) << power,
    }
}

impl Histogram {
    #[inline]
    pub(crate) fn add(&mut self, ns: u64) {
        self.counts[class_of((ns << UNITS_LOG2) / 1000)] += 1;
        self.sum_ns = self.sum_ns.wrapping_add(ns);
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(crate) fn sum_seconds(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// The latency, in microseconds, that `part` of all (0 to 1) do not exceed.
    pub(crate) fn quantile_us(&self, part: f64) -> f64 {
        let wanted = (part * self.count() as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        let class = self.counts.iter().position(|count| {
            below += count;
            below >= wanted
        });
        class.map_or(0.0, |class| end_of(class) as f64 / f64::from(1 << UNITS_LOG2))
    }

    /// Powers of two of a microsecond, from 1 on, with the number of latencies below each. The last one counts all.
    pub(crate) fn by_powers(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut up_to = 0;
        let ends = self.counts.chunks_exact(PER_POWER).enumerate().map(move |(power, counts)| {
            up_to += counts.iter().sum::<u64>();
            (end_of((power + 1) * PER_POWER - 1), up_to)
        });
        ends.filter_map(|(units, count)| (units >= 1 << UNITS_LOG2).then_some((units >> UNITS_LOG2, count)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_each_other_without_gaps() {
        let mut last = 0;
        for class in 0..CLASSES - 1 {
            let end = end_of(class);
            assert!(end > last && (end - last) * 16 <= end.max(16), "{class}");
            assert_eq!((class_of(last), class_of(end - 1), class_of(end)), (class, class, class + 1));
            last = end;
        }
        assert_eq!(class_of(u64::MAX), CLASSES - 1);
    }

    #[test]
    fn quantiles_are_close() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile_us(0.5), 0.0);
        (1..=1000).for_each(|us| histogram.add(us * 1000));
        for (part, us) in [(0.5, 500.0), (0.99, 990.0), (0.999, 999.0), (1.0, 1000.0)] {
            let found = histogram.quantile_us(part);
            assert!(found >= us && found <= us * 17.0 / 16.0 + 0.1, "{part}: {found}");
        }
        histogram.add(u64::MAX);
        assert!(histogram.quantile_us(1.0) >= 60e6);
    }

    #[test]
    fn powers_count_what_is_below_them() {
        let mut histogram = Histogram::default();
        for ns in [0, 500, 999, 1000, 1999, 2000, 100_000] {
            histogram.add(ns);
        }
        let counts: Vec<(u64, u64)> = histogram.by_powers().collect();
        assert_eq!(counts[..3], [(1, 3), (2, 5), (4, 6)]);
        assert_eq!((counts[6], counts[7]), ((64, 6), (128, 7)));
        assert_eq!(counts.last().map(|(_, count)| *count), Some(histogram.count()));
    }
}
