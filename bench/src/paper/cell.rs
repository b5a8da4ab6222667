//! One measured figure: a line from the process that measured it to the one that makes tables.

use crate::process;
use std::time::{Duration, Instant};

/// Of each hundred measurements, so many are dropped at either end, as in the paper.
const DROPPED_PERCENT: usize = 7;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) store: String,
    /// A size's name, or a mix's.
    pub(super) row: String,
    pub(super) what: String,
    pub(super) count: u64,
    /// Bytes of one operation.
    pub(super) bytes: u64,
    /// The mean of what is left without the fastest and the slowest 7 %.
    pub(super) mean_us: f64,
    /// The mean of all. Who reads ahead, or makes writers wait now and then, has few slow operations that count.
    pub(super) all_us: f64,
    pub(super) median_us: f64,
    pub(super) worst_us: f64,
    /// Whatever else belongs to `what`: MB that are left, MB of memory, seconds of background work.
    pub(super) extra: f64,
    /// Cores that everything else on the machine kept busy meanwhile.
    pub(super) other_cores: f64,
}

impl Cell {
    /// The paper's unit: bytes per millisecond. 1,000 are a MB/s.
    pub(super) fn bytes_per_ms(&self) -> f64 {
        self.bytes as f64 * 1e3 / self.mean_us.max(1e-3)
    }

    /// The same of all operations.
    pub(super) fn all_bytes_per_ms(&self) -> f64 {
        self.bytes as f64 * 1e3 / self.all_us.max(1e-3)
    }

    pub(super) fn line(&self) -> String {
        let Cell { store, row, what, count, bytes, mean_us, all_us, .. } = self;
        let Cell { median_us, worst_us, extra, other_cores, .. } = self;
        format!(
            "{store}\t{row}\t{what}\t{count}\t{bytes}\t{mean_us:.3}\t{all_us:.3}\t{median_us:.3}\t{worst_us:.3}\t\
             {extra:.3}\t{other_cores:.2}"
        )
    }

    pub(super) fn parse(line: &str) -> Option<Cell> {
        let mut fields = line.split('\t');
        let mut text = || fields.next().map(str::to_owned);
        let (store, row, what) = (text()?, text()?, text()?);
        let mut numbers = fields.map(str::parse::<f64>);
        let mut number = || numbers.next()?.ok();
        Some(Cell {
            store,
            row,
            what,
            count: number()? as u64,
            bytes: number()? as u64,
            mean_us: number()?,
            all_us: number()?,
            median_us: number()?,
            worst_us: number()?,
            extra: number()?,
            other_cores: number()?,
        })
    }
}

/// Times single operations of one kind.
pub(super) struct Watch {
    times: Vec<Duration>,
    begun: Instant,
    cpu: f64,
    machine_cpu: f64,
}

impl Watch {
    pub(super) fn start() -> Watch {
        Watch {
            times: Vec::new(),
            cpu: process::cpu_seconds(),
            machine_cpu: process::machine_cpu_seconds(),
            begun: Instant::now(),
        }
    }

    pub(super) fn time<T>(&mut self, operation: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let result = operation();
        self.times.push(begun.elapsed());
        result
    }

    /// All times summed up.
    pub(super) fn total(&self) -> Duration {
        self.times.iter().sum()
    }

    /// The cell of what was timed; its names are left open.
    pub(super) fn finish(mut self, bytes: u64) -> Cell {
        let seconds = self.begun.elapsed().as_secs_f64();
        let cpu = process::cpu_seconds() - self.cpu;
        let others = process::machine_cpu_seconds() - self.machine_cpu - cpu;
        let all_us = self.total().as_secs_f64() * 1e6 / self.times.len().max(1) as f64;
        self.times.sort_unstable();
        let us = |time: &Duration| time.as_secs_f64() * 1e6;
        Cell {
            store: String::new(),
            row: String::new(),
            what: String::new(),
            count: self.times.len() as u64,
            bytes,
            mean_us: trimmed_mean(&self.times.iter().map(us).collect::<Vec<_>>()),
            all_us,
            median_us: self.times.get(self.times.len() / 2).map_or(0.0, us),
            worst_us: self.times.last().map_or(0.0, us),
            extra: 0.0,
            other_cores: (others / seconds.max(1e-3)).max(0.0),
        }
    }
}

/// The mean of sorted figures without the first and the last 7 %.
fn trimmed_mean(sorted: &[f64]) -> f64 {
    let drop = sorted.len() * DROPPED_PERCENT / 100;
    let kept = &sorted[drop..sorted.len() - drop];
    kept.iter().sum::<f64>() / kept.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_survives_its_line() {
        let mut watch = Watch::start();
        assert_eq!(watch.time(|| 7), 7);
        let mut cell = watch.finish(1 << 20);
        (cell.store, cell.row, cell.what) = ("esker".into(), "1MB".into(), "put".into());
        (cell.mean_us, cell.all_us, cell.other_cores) = (500.0, 500.0, 0.5);
        (cell.median_us, cell.worst_us) = (500.0, 500.0);
        assert_eq!(Cell::parse(&cell.line()), Some(cell.clone()));
        assert_eq!(cell.bytes_per_ms(), 2_097_152.0);
        assert_eq!(Cell::parse("store\t1MB"), None);
    }

    #[test]
    fn seven_of_a_hundred_go_at_either_end() {
        let mut figures = vec![1.0; 100];
        figures[93..].fill(1e9);
        assert_eq!(trimmed_mean(&figures), 1.0);
        figures[92] = 87.0;
        assert_eq!(trimmed_mean(&figures), 2.0);
        assert_eq!(trimmed_mean(&[1.0, 3.0]), 2.0);
        assert_eq!(trimmed_mean(&[]), 0.0);
    }
}
