//! Traces: sequences of requested keys.

use super::Options;
use crate::data::Stream;
use crate::stores::Result;
use std::collections::HashMap;
use std::path::Path;

/// What a generated trace looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Zipf,
    Uniform,
    Loop,
    ScanZipf,
}

impl Kind {
    pub(super) const ALL: [Kind; 4] = [Kind::Zipf, Kind::Uniform, Kind::Loop, Kind::ScanZipf];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Zipf => "zipf",
            Kind::Uniform => "uniform",
            Kind::Loop => "loop",
            Kind::ScanZipf => "scan-zipf",
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) name: String,
    pub(super) keys: Vec<u64>,
    /// The number of different keys; in a generated trace, of possible keys.
    pub(super) distinct: u64,
}

/// The traces that the options request.
pub(super) fn all(options: &Options) -> Result<Vec<Trace>> {
    match &options.trace {
        Some(path) => Ok(vec![read(path)?]),
        None => Ok(options.kinds.iter().map(|kind| make(*kind, options)).collect()),
    }
}

/// Every line that is not empty is a key, without one carriage return at its end.
fn read(path: &Path) -> Result<Trace> {
    let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let lines = text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let mut numbers: HashMap<&[u8], u64> = HashMap::new();
    let mut keys = Vec::new();
    for key in lines.filter(|key| !key.is_empty()) {
        let next = numbers.len() as u64;
        keys.push(*numbers.entry(key).or_insert(next));
    }
    if keys.is_empty() {
        return Err(format!("{} has no keys; expected one key a line", path.display()).into());
    }
    let distinct = numbers.len() as u64;
    Ok(Trace { name: "file".to_owned(), keys, distinct })
}

fn make(kind: Kind, options: &Options) -> Trace {
    let (pages, gets) = (options.pages, options.gets);
    let mut draws = Stream::new(options.seed);
    let keys = match kind {
        Kind::Uniform => (0..gets).map(|_| draws.below(pages)).collect(),
        Kind::Loop => (0..gets).map(|i| i % pages).collect(),
        Kind::Zipf => {
            let zipf = Zipf::new(pages, options.theta, &mut draws);
            (0..gets).map(|_| zipf.draw(&mut draws)).collect()
        }
        Kind::ScanZipf => {
            let zipf = Zipf::new(pages, options.theta, &mut draws);
            scan_zipf(&zipf, &mut draws, pages, gets)
        }
    };
    Trace { name: kind.name().to_owned(), keys, distinct: pages }
}

/// Alternates between gets from `zipf` and a scan, each of a tenth of the pages. The scan continues where the last one
/// ended.
fn scan_zipf(zipf: &Zipf, draws: &mut Stream, pages: u64, gets: u64) -> Vec<u64> {
    let run = pages.div_ceil(10);
    let mut next = 0;
    let get = |i: u64| {
        if (i / run).is_multiple_of(2) {
            return zipf.draw(draws);
        }
        next = (next + 1) % pages;
        next
    };
    (0..gets).map(get).collect()
}

/// Pages with a Zipf distribution. Ranks are assigned to pages at random.
struct Zipf {
    /// The sums of the probabilities up to each rank, not normalised.
    sums: Vec<f64>,
    page_of: Vec<u64>,
}

impl Zipf {
    fn new(pages: u64, theta: f64, draws: &mut Stream) -> Zipf {
        let mut sum = 0.0;
        let mut sums = Vec::with_capacity(pages as usize);
        for rank in 1..=pages {
            sum += (rank as f64).powf(-theta);
            sums.push(sum);
        }
        let mut page_of: Vec<u64> = (0..pages).collect();
        for i in (1..page_of.len()).rev() {
            page_of.swap(i, draws.below(i as u64 + 1) as usize);
        }
        Zipf { sums, page_of }
    }

    fn draw(&self, draws: &mut Stream) -> u64 {
        let total = self.sums.last().copied().unwrap_or(0.0);
        // 53 bits make a uniform number from 0 to 1.
        let point = (draws.next() >> 11) as f64 / (1_u64 << 53) as f64 * total;
        let rank = self.sums.partition_point(|&sum| sum <= point);
        self.page_of[rank.min(self.page_of.len() - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(keys: &[u64], pages: usize) -> Vec<u64> {
        let mut counts = vec![0; pages];
        keys.iter().for_each(|&key| counts[key as usize] += 1);
        counts.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
        counts
    }

    #[test]
    fn zipf_asks_for_the_second_half_as_often_as_for_the_first() {
        let mut draws = Stream::new(1);
        let zipf = Zipf::new(100, 1.0, &mut draws);
        let keys: Vec<u64> = (0..100_000).map(|_| zipf.draw(&mut draws)).collect();
        let counts = counts(&keys, 100);
        // 100,000 / (1 + 1/2 + ... + 1/100) = 19,278
        assert!((18_800..19_800).contains(&counts[0]), "{counts:?}");
        assert!((9_300..10_000).contains(&counts[1]), "{counts:?}");
        assert!(counts[99] > 100, "{counts:?}");
    }

    #[test]
    fn scans_go_over_all_pages_between_gets() {
        let mut draws = Stream::new(2);
        let zipf = Zipf::new(100, 1.0, &mut draws);
        let keys = scan_zipf(&zipf, &mut draws, 100, 400);
        assert_eq!(keys[10..20], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(keys[30..33], [11, 12, 13]);
        assert_eq!(keys[190..200], [91, 92, 93, 94, 95, 96, 97, 98, 99, 0]);
    }

    #[test]
    fn a_files_lines_are_keys() {
        let file = std::env::temp_dir().join(format!("esker-bench-trace-{}", std::process::id()));
        std::fs::write(&file, "a\nb\r\n\na\nb").unwrap();
        let trace = read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!((trace.keys, trace.distinct), (vec![0, 1, 0, 1], 2));
    }
}
