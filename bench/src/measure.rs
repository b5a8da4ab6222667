//! Timing a phase: wall time, sampled latencies, CPU, memory, bytes on disk, and what else the machine did meanwhile.

use crate::latency::Latencies;
use crate::process;
use crate::stores::{Result, Store};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Phases of more calls than this time every 16th call alone, shorter ones each.
const TIME_ALL_BELOW: u64 = 16_000;
/// A store is quiet when nothing has happened for this long.
const QUIET: Duration = Duration::from_millis(300);
/// No store may keep the driver waiting longer.
const SETTLE_LIMIT: Duration = Duration::from_secs(300);

/// One measured phase of one store: a line from a child process to the one that prints the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Record {
    pub store: String,
    pub group: String,
    pub workload: String,
    pub round: u64,
    /// Operations, or rows where the workload counts rows.
    pub ops: u64,
    pub seconds: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
    /// Seconds of CPU of the measured process, background threads included.
    pub cpu_seconds: f64,
    /// Cores that everything else on the machine kept busy meanwhile.
    pub other_cores: f64,
    /// Bytes that went to the device in this phase.
    pub written_bytes: u64,
    /// Peaks since the process began.
    pub rss_bytes: u64,
    pub anon_bytes: u64,
    /// Bytes allocated for the store's files at the end of the phase.
    pub disk_bytes: u64,
}

impl Record {
    /// Thousands of operations a second.
    pub(crate) fn kops(&self) -> f64 {
        self.ops as f64 / self.seconds.max(1e-9) / 1e3
    }

    /// The record as tab-separated fields, which `parse` reads back.
    pub(crate) fn line(&self) -> String {
        let Record { store, group, workload, round, ops, seconds, p50_us, p99_us, max_us, .. } = self;
        let Record { cpu_seconds, other_cores, written_bytes, rss_bytes, anon_bytes, disk_bytes, .. } = self;
        format!(
            "{store}\t{group}\t{workload}\t{round}\t{ops}\t{seconds:.6}\t{p50_us:.3}\t{p99_us:.3}\t{max_us:.3}\t\
             {cpu_seconds:.2}\t{other_cores:.2}\t{written_bytes}\t{rss_bytes}\t{anon_bytes}\t{disk_bytes}"
        )
    }

    pub(crate) fn parse(line: &str) -> Option<Record> {
        let mut fields = line.split('\t');
        let mut text = || fields.next().map(str::to_owned);
        let (store, group, workload) = (text()?, text()?, text()?);
        let mut fields = fields.map(str::parse::<f64>);
        let mut number = || fields.next()?.ok();
        Some(Record {
            store,
            group,
            workload,
            round: number()? as u64,
            ops: number()? as u64,
            seconds: number()?,
            p50_us: number()?,
            p99_us: number()?,
            max_us: number()?,
            cpu_seconds: number()?,
            other_cores: number()?,
            written_bytes: number()? as u64,
            rss_bytes: number()? as u64,
            anon_bytes: number()? as u64,
            disk_bytes: number()? as u64,
        })
    }

    /// The record as one JSON object; names hold nothing that would need escaping.
    pub(crate) fn json(&self, settings: &str) -> String {
        let kops = self.kops();
        let Record { store, group, workload, round, ops, seconds, p50_us, p99_us, max_us, .. } = self;
        let Record { cpu_seconds, other_cores, written_bytes, rss_bytes, anon_bytes, disk_bytes, .. } = self;
        format!(
            "{{\"store\":\"{store}\",\"settings\":\"{settings}\",\"group\":\"{group}\",\"workload\":\"{workload}\",\
             \"round\":{round},\"ops\":{ops},\"seconds\":{seconds:.6},\"kops\":{kops:.3},\"p50_us\":{p50_us:.3},\
             \"p99_us\":{p99_us:.3},\"max_us\":{max_us:.3},\"cpu_seconds\":{cpu_seconds:.2},\
             \"other_cores\":{other_cores:.2},\"written_bytes\":{written_bytes},\"peak_rss_bytes\":{rss_bytes},\
             \"peak_anon_bytes\":{anon_bytes},\"disk_bytes\":{disk_bytes}}}"
        )
    }
}

/// Runs phases of one group in this process and prints a record for each.
pub(crate) struct Recorder {
    pub store: String,
    pub group: String,
    pub round: u64,
    /// Where the store's files are.
    pub dir: PathBuf,
    pub anon: process::AnonWatch,
}

impl Recorder {
    /// Calls `op` with 0, 1, ... `calls` - 1; each returns how many operations (or rows) it did.
    pub(crate) fn run(
        &self,
        workload: &str,
        calls: u64,
        mut op: impl FnMut(u64) -> Result<u64>,
    ) -> Result<()> {
        let stride = if calls < TIME_ALL_BELOW { 1 } else { 16 };
        let mut latencies = Latencies::default();
        let phase = Phase::start();
        let mut ops = 0;
        for i in 0..calls {
            if i % stride == 0 {
                let begun = Instant::now();
                ops += op(i)?;
                latencies.add(begun.elapsed());
            } else {
                ops += op(i)?;
            }
        }
        self.finish(workload, &phase, ops, &latencies);
        Ok(())
    }

    /// Calls `op(thread, i)` from `threads` threads until `time` is over, timing each call; a thread stops after
    /// `calls_max` calls too. Each call is one operation.
    pub(crate) fn run_threads(
        &self,
        workload: &str,
        threads: u64,
        time: Duration,
        calls_max: u64,
        op: impl Fn(u64, u64) -> Result<()> + Sync,
    ) -> Result<()> {
        let all = Mutex::new((Latencies::default(), Ok(())));
        let stop = AtomicBool::new(false);
        let work = |thread| {
            let mut latencies = Latencies::default();
            let (started, mut outcome) = (Instant::now(), Ok(()));
            for i in 0..calls_max {
                let begun = Instant::now();
                outcome = op(thread, i);
                latencies.add(begun.elapsed());
                if outcome.is_err() || started.elapsed() > time || stop.load(Ordering::Relaxed) {
                    break;
                }
            }
            stop.store(true, Ordering::Relaxed);
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.0.add_all(&latencies);
            if outcome.is_err() {
                all.1 = outcome;
            }
        };
        let phase = Phase::start();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let work = &work;
                scope.spawn(move || work(thread));
            }
        });
        let (latencies, outcome) = all.into_inner().unwrap_or_else(PoisonError::into_inner);
        outcome?;
        self.finish(workload, &phase, latencies.count(), &latencies);
        Ok(())
    }

    /// Waits until the store has nothing to do in the background: its files stand still, it uses no CPU, and it
    /// does not itself say that something is pending. Recorded as a phase of one operation, the last quiet 0.3 s
    /// included.
    pub(crate) fn settle(&self, workload: &str, store: &dyn Store) -> Result<()> {
        let phase = Phase::start();
        wait_until_quiet(&self.dir, || store.busy())?;
        self.finish(workload, &phase, 1, &Latencies::default());
        Ok(())
    }

    fn finish(&self, workload: &str, phase: &Phase, ops: u64, latencies: &Latencies) {
        let seconds = phase.begun.elapsed().as_secs_f64();
        let cpu_seconds = process::cpu_seconds() - phase.cpu;
        let others = process::machine_cpu_seconds() - phase.machine_cpu - cpu_seconds;
        let record = Record {
            store: self.store.clone(),
            group: self.group.clone(),
            workload: workload.to_owned(),
            round: self.round,
            ops,
            seconds,
            p50_us: latencies.quantile_us(0.5),
            p99_us: latencies.quantile_us(0.99),
            max_us: latencies.max_us(),
            cpu_seconds,
            other_cores: (others / seconds).max(0.0),
            written_bytes: process::written_bytes().saturating_sub(phase.written),
            rss_bytes: process::peak_rss_bytes(),
            anon_bytes: self.anon.peak_bytes(),
            disk_bytes: process::disk_usage(&self.dir).0,
        };
        println!("{}", record.line());
    }
}

/// The counters at a phase's beginning.
struct Phase {
    begun: Instant,
    cpu: f64,
    machine_cpu: f64,
    written: u64,
}

impl Phase {
    fn start() -> Phase {
        Phase {
            cpu: process::cpu_seconds(),
            machine_cpu: process::machine_cpu_seconds(),
            written: process::written_bytes(),
            begun: Instant::now(),
        }
    }
}

/// Waits until the files in `dir` stand still, this process uses no CPU, and the store there is not `busy`.
pub(crate) fn wait_until_quiet(dir: &Path, busy: impl Fn() -> bool) -> Result<()> {
    let (begun, mut quiet_since) = (Instant::now(), Instant::now());
    let mut seen = (process::disk_usage(dir), process::cpu_seconds());
    while quiet_since.elapsed() < QUIET {
        std::thread::sleep(Duration::from_millis(20));
        let now = (process::disk_usage(dir), process::cpu_seconds());
        // Two ticks of CPU are what watching itself may use.
        if now.0 != seen.0 || now.1 - seen.1 > 0.02 || busy() {
            quiet_since = Instant::now();
            seen = now;
        }
        if begun.elapsed() > SETTLE_LIMIT {
            return Err(format!("still busy after {SETTLE_LIMIT:?}").into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_its_line() {
        let record = Record {
            store: "none".into(),
            group: "seq".into(),
            workload: "fillseq".into(),
            round: 2,
            ops: 5_000_000,
            seconds: 1.25,
            p99_us: 3.5,
            disk_bytes: 1 << 40,
            ..Record::default()
        };
        assert_eq!(Record::parse(&record.line()), Some(record.clone()));
        assert_eq!(record.kops(), 4000.0);
        assert!(Record::parse("a line of something else").is_none());
    }
}
