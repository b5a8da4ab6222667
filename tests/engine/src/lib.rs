//! What randomized tests share: a seeded generator, where seeds come from, a world without real time or
//! real randomness, and option sets so small that every path of the store is taken within a few thousand
//! operations.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which their names explain"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use esker::env::{Clock, Env, Executor, JobKind, Random, StepExecutor};
use esker::fs::FileSystem;
use esker::fs::sim::SimFs;
use esker::{CompactionStyle, Db, FilterPrefix, MergeOperator, Options, ScanRange, Tree, TreeOptions};

pub mod cells;
pub mod export_import;
pub mod image;
pub mod row_markers;

pub use test_kit::{Rng, cases, is_full_run, is_quick, seed, seeds, variable};

/// A clock that moves only when somebody sleeps, and then at once.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl Clock for ManualClock {
    fn wall_us(&self) -> u64 {
        1_700_000_000_000_000 + self.monotonic_us()
    }

    fn monotonic_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn sleep(&self, duration: Duration) {
        self.0.fetch_add(duration.as_micros() as u64, Ordering::Relaxed);
    }
}

/// An hour in microseconds.
pub const HOUR_US: u64 = 3_600_000_000;

/// A clock whose hours pass when a test says so. Sleeping moves it by a thousandth of the time, lest it add up to hours.
#[derive(Debug, Default)]
pub struct HourClock {
    /// Since the clock was made.
    hours: AtomicU64,
    slept_us: AtomicU64,
    /// What the wall clock shows in the beginning.
    first_hour: AtomicU64,
}

impl HourClock {
    pub fn new(first_hour: u64) -> Arc<Self> {
        Arc::new(HourClock { first_hour: AtomicU64::new(first_hour), ..HourClock::default() })
    }

    pub fn pass(&self, hours: u64) {
        self.hours.fetch_add(hours, Ordering::Relaxed);
    }
}

impl Clock for HourClock {
    fn wall_us(&self) -> u64 {
        let hours = self.first_hour.load(Ordering::Relaxed) + self.hours.load(Ordering::Relaxed);
        1_700_000_000_000_000 + hours * HOUR_US
    }

    fn monotonic_us(&self) -> u64 {
        self.hours.load(Ordering::Relaxed) * HOUR_US + self.slept_us.load(Ordering::Relaxed)
    }

    fn sleep(&self, duration: Duration) {
        self.slept_us.fetch_add(duration.as_micros() as u64 / 1000, Ordering::Relaxed);
    }
}

/// So long something lives that is gone when `hours`, 1 or more, have passed, and not before the last of them.
pub fn ttl(hours: u64) -> Duration {
    Duration::from_micros(hours * HOUR_US - HOUR_US / 2)
}

/// Random numbers that a seed repeats.
#[derive(Debug)]
pub struct SeededRandom(AtomicU64);

impl Random for SeededRandom {
    fn next_u64(&self) -> u64 {
        test_kit::mix(self.0.fetch_add(test_kit::STEP, Ordering::Relaxed))
    }
}

/// A world on `fs` that repeats itself, as far as `executor` does (`None`: the store's own threads).
pub fn world(fs: Arc<dyn FileSystem>, seed: u64, executor: Option<Arc<dyn Executor>>) -> Env {
    Env {
        fs,
        clock: Arc::new(ManualClock::default()),
        random: Arc::new(SeededRandom(AtomicU64::new(seed))),
        executor,
    }
}

/// Options with budgets so small that a few thousand operations fill every level.
pub fn tiny_options(rng: &mut Rng, env: Env) -> Options {
    let mut options = Options::default().env(env).memory_budget(8 << 20);
    options.memtable_bytes = Some(*rng.pick(&[4, 8, 16, 32, 64]) << 10);
    options.table_bytes = *rng.pick(&[8, 16, 32, 64]) << 10;
    options.block_bytes = *rng.pick(&[128, 256, 1024, 4096]);
    options.filter_bits = *rng.pick(&[0, 1, 8, 20]);
    options.open_tables_max = *rng.pick(&[2, 3, 10, 512]);
    options.separate_at = *rng.pick(&[1, 20, 200, 2000, usize::MAX]);
    options.blob_file_bytes = *rng.pick(&[1, 20_000, 100_000, 256 << 20]);
    options.keeps_blocks = !rng.one_in(7);
    options.log_history = *rng.pick(&[0, 0, 600 << 10]);
    options.threads = *rng.pick(&[2, 3, 4]);
    options.background_io = *rng.pick(&[None, Some(1 << 20)]);
    options.merge_operator(Longest)
}

/// Options of a store on `disk` with huge values from 1,000 bytes on, of which nothing moves but by [`settle`].
pub fn stepped_options(disk: &SimFs) -> Options {
    let env = world(Arc::new(disk.clone()), 1, Some(Arc::new(StepExecutor)));
    Options::default().memory_budget(8 << 20).separate_at(1000).env(env)
}

/// Some way to merge the tables of a tree that has `options`.
pub fn any_style(rng: &mut Rng, options: TreeOptions) -> TreeOptions {
    let options = options.compaction(*rng.pick(CompactionStyle::ALL));
    let rules = [
        None,
        Some(FilterPrefix::length(1)),
        Some(FilterPrefix::length(4)),
        Some(FilterPrefix::length(8)),
        Some(FilterPrefix::through("/", 1)),
        Some(FilterPrefix::through([0], 2)),
    ];
    options.size_ratio(*rng.pick(&[2, 3, 4, 10])).filter_prefix(*rng.pick(&rules))
}

/// Does all background work that there is.
pub fn settle(db: &Db) {
    while JobKind::ALL.iter().any(|&job| db.step(job)) {}
}

/// All pairs of a tree.
pub fn contents(tree: &Tree) -> BTreeMap<Vec<u8>, Vec<u8>> {
    tree.scan(ScanRange::all()).unwrap().collect::<esker::Result<_>>().unwrap()
}

/// How many table files are in `dir`.
pub fn tables(disk: &SimFs, dir: &str) -> usize {
    let is_table = |path: &Path| path.starts_with(dir) && path.extension().is_some_and(|ext| ext == "table");
    disk.paths().iter().filter(|path| is_table(path)).count()
}

/// Keeps the longest of all, of several the last one. It does not tell how operands go together.
pub struct Longest;

impl Longest {
    pub const NAME: &str = "longest";
}

impl MergeOperator for Longest {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn apply(&self, value: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        let all = value.into_iter().chain(operands.iter().copied());
        Ok(all.max_by_key(|one| one.len()).unwrap_or_default().to_vec())
    }
}

/// Set in a process that runs one test alone: the directory that the test may use.
const ALONE: &str = "ESKER_TEST_ALONE";

/// Runs `test`, the body of the test with the path `name`, in a process of its own and with an empty directory. For tests
/// that measure or change what a whole process has: memory, limits, the working directory.
pub fn alone(name: &str, test: impl FnOnce(&Path)) {
    alone_with(name, &[], test);
}

/// [`alone`], with environment variables.
pub fn alone_with(name: &str, variables: &[(&str, &str)], test: impl FnOnce(&Path)) {
    if let Some(dir) = std::env::var_os(ALONE) {
        return test(Path::new(&dir));
    }
    let dir = tempfile::tempdir().unwrap();
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(ALONE, dir.path())
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = [child.stdout, child.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(child.status.success() && text.contains("1 passed"), "{text}");
    print!("{text}");
}
