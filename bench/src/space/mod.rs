//! `space`: what a store's directory takes beside what is live, while values are overwritten and deleted as fast as
//! the store takes them, and after all were deleted.
//!
//! A thread drives the store; this one samples. Of what is live before and after the walk over the directory the
//! lesser counts, and what was deleted or overwritten counts no more from the return of the call on.

use crate::stores::Result;
use account::Account;
use driver::{Driver, key_count};
use esker::Db;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use usage::Usage;

mod account;
mod driver;
mod usage;

const USAGE: &str = "\
esker-bench space [OPTIONS]

  Values of 100 bytes to 19.7 MB are put until there are enough of them, then overwritten and deleted (60:40, and
  deleted keys put again), then all deleted; a snapshot is held twice meanwhile. Fails when the store's directory
  ever takes more than 1.25 times what is live and 256 MiB (what a snapshot kept is live for two seconds more), or 64
  MiB two seconds after the last delete: where some values are small and wait for merges, its blob files, and all of
  it after `compact`.

  --live BYTES         that are there meanwhile (default 2,000,000,000)
  --write BYTES        to be put when they are (default 10,000,000,000)
  --small PERCENT      of the bytes, in values below 32 KiB (default 5)
  --seed S             of keys, sizes and values (default 1)
  --every MS           milliseconds between samples (default 100); a line for the worst of each second is printed
  --separate-at BYTES  the store's option; `max`: every value is inline
  --dir DIR            where the store goes (default: esker-bench in the temporary directory)
";

/// The promise: so much for each byte that is live,
const FACTOR: f64 = 1.25;
/// and so much besides.
const BESIDES: u64 = 256 << 20;
/// When everything was deleted, so much may be left
const LEFT_MAX: u64 = 64 << 20;
/// after this.
const LEFT_AFTER: Duration = Duration::from_secs(2);
/// How long it is looked at what is left, for the report, and how often that is printed.
const LOOK_FOR: Duration = Duration::from_secs(15);
const SHOW_EVERY: Duration = Duration::from_millis(500);

pub(super) struct Options {
    pub(super) live: u64,
    pub(super) write: u64,
    pub(super) seed: u64,
    /// Of the bytes put, such a part is of values below 32 KiB.
    pub(super) small: f64,
    every: Duration,
    separate_at: Option<usize>,
    dir: PathBuf,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            live: 2_000_000_000,
            write: 10_000_000_000,
            seed: 1,
            small: 0.05,
            every: Duration::from_millis(100),
            separate_at: None,
            dir: std::env::temp_dir().join("esker-bench"),
        }
    }
}

impl Options {
    fn parse(words: &[String]) -> Result<Options> {
        let mut options = Options::default();
        let mut words = words.iter();
        while let Some(name) = words.next() {
            let value = words.next().ok_or(USAGE)?;
            let number = || {
                let plain = value.replace([',', '_'], "");
                plain.parse::<u64>().map_err(|_| format!("{name}: {value:?} is no number"))
            };
            match &name[..] {
                "--live" => options.live = number()?.max(1 << 20),
                "--write" => options.write = number()?.max(1),
                "--seed" => options.seed = number()?,
                "--small" => options.small = number()?.min(100) as f64 / 100.0,
                "--every" => options.every = Duration::from_millis(number()?.max(1)),
                "--separate-at" if value == "max" => options.separate_at = Some(usize::MAX),
                "--separate-at" => options.separate_at = Some(number()?.max(1) as usize),
                "--dir" => options.dir = value.into(),
                _ => return Err(format!("no option {name}\n\n{USAGE}").into()),
            }
        }
        Ok(options)
    }
}

/// What was seen at one moment.
#[derive(Clone, Copy)]
struct Sample {
    at: Duration,
    written: u64,
    live: u64,
    usage: Usage,
}

impl Sample {
    fn take(dir: &Path, account: &Mutex<Account>, begun: Instant) -> Result<Sample> {
        let look = || {
            let account = account.lock().unwrap_or_else(PoisonError::into_inner);
            (account.live(Instant::now()), account.written())
        };
        let (before, _) = look();
        let usage = Usage::of(dir)?;
        let (after, written) = look();
        Ok(Sample { at: begun.elapsed(), written, live: before.min(after), usage })
    }

    fn bound(&self) -> u64 {
        (self.live as f64 * FACTOR) as u64 + BESIDES
    }

    /// Bytes beyond the bound; less than zero where it is kept.
    fn excess(&self) -> i64 {
        self.usage.total() as i64 - self.bound() as i64
    }

    fn print(&self) {
        let mb = |bytes: u64| bytes / 1_000_000;
        let Usage { blobs, tables, log, reserve, .. } = self.usage;
        let (live, total) = (self.live, self.usage.total());
        let ratio = if live == 0 { "-".to_owned() } else { format!("{:.3}", total as f64 / live as f64) };
        let broken = if self.excess() > 0 { "  BROKEN" } else { "" };
        println!(
            "{:>6.1}{:>9}{:>8}{:>8}{:>8}{:>9}{:>9}{:>8}{:>8}{:>8}{broken}",
            self.at.as_secs_f64(),
            mb(self.written),
            mb(live),
            mb(total),
            mb(self.bound()),
            ratio,
            mb(blobs),
            mb(tables),
            mb(log),
            mb(reserve),
        );
    }
}

/// All samples, the worst of each second printed.
#[derive(Default)]
struct Samples {
    count: u64,
    second: Option<Sample>,
    /// The one that comes nearest to the bound or is farthest beyond it.
    worst: Option<Sample>,
}

impl Samples {
    fn add(&mut self, sample: Sample) {
        self.count += 1;
        if self.second.is_some_and(|worst| worst.at.as_secs() != sample.at.as_secs()) {
            self.print_second();
        }
        for worst in [&mut self.second, &mut self.worst] {
            if worst.is_none_or(|worst| sample.excess() > worst.excess()) {
                *worst = Some(sample);
            }
        }
    }

    fn print_second(&mut self) {
        if let Some(worst) = self.second.take() {
            worst.print();
        }
    }
}

pub(crate) fn run(words: &[String]) -> Result<()> {
    if words.iter().any(|word| word == "--help" || word == "help") {
        print!("{USAGE}");
        return Ok(());
    }
    let options = Options::parse(words)?;
    let dir = options.dir.join("space");
    std::fs::remove_dir_all(&dir).ok();
    std::fs::create_dir_all(&options.dir)?;
    let measured = measure(&options, &dir);
    std::fs::remove_dir_all(&dir)?;
    let broken = measured?;
    if broken.is_empty() { Ok(()) } else { Err(broken.join("; ").into()) }
}

/// Which promises did not hold.
fn measure(options: &Options, dir: &Path) -> Result<Vec<String>> {
    let mut store = esker::Options::default();
    if let Some(bytes) = options.separate_at {
        store = store.separate_at(bytes);
    }
    let db = Db::open(dir, store)?;
    let account = Mutex::new(Account::new(key_count(options.live, options.small)));
    println!("bytes in MB; the parts of the directory behind it\n");
    println!("     s  written    live     dir   bound dir:live    blobs  tables     log reserve");
    let mut samples = Samples::default();
    let begun = Instant::now();
    let mut driver = std::thread::scope(|scope| -> Result<Driver<'_>> {
        let thread = scope.spawn(|| -> Result<Driver<'_>> {
            let mut driver = Driver::new(&db, options, &account);
            driver.fill()?;
            driver.churn(options.write)?;
            Ok(driver)
        });
        while !thread.is_finished() {
            samples.add(Sample::take(dir, &account, begun)?);
            std::thread::sleep(options.every);
        }
        thread.join().map_err(|_| "the driver panicked")?
    })?;
    let last = Sample::take(dir, &account, begun)?;
    samples.add(last);
    samples.print_second();
    let mut broken = Vec::new();
    if let Some(worst) = samples.worst {
        println!("\n{} samples, the worst of which is", samples.count);
        worst.print();
        let (excess, at) = (worst.excess() as f64 / 1e6, worst.at.as_secs_f64());
        println!("{excess:.0} MB beyond the bound (negative: within it)");
        if worst.excess() > 0 {
            broken.push(format!("the bound was broken by {excess:.0} MB after {at:.1} s"));
        }
    }
    println!("{:.0} MB a second were put", last.written as f64 / 1e6 / last.at.as_secs_f64());
    driver.verify()?;
    driver.delete_all()?;
    println!("\neverything was deleted");
    let waits_for_merges = options.small > 0.0 || options.separate_at.is_some();
    broken.extend(wait_for_space(
        dir,
        &account,
        |usage| {
            if waits_for_merges { usage.blobs } else { usage.total() }
        },
    )?);
    drop(driver);
    if waits_for_merges {
        println!("\nand merged");
        db.compact()?;
        broken.extend(wait_for_space(dir, &account, Usage::total)?);
    }
    db.close()?;
    println!("{:.1} MB left by the closed store", Usage::of(dir)?.total() as f64 / 1e6);
    Ok(broken)
}

/// Watches what is `left` when everything was deleted; what did not hold of the promise.
fn wait_for_space(
    dir: &Path,
    account: &Mutex<Account>,
    left_of: impl Fn(&Usage) -> u64,
) -> Result<Option<String>> {
    let begun = Instant::now();
    let mut in_time = None;
    let mut shown = None;
    loop {
        let sample = Sample::take(dir, account, begun)?;
        let left = left_of(&sample.usage);
        let due = shown.is_none_or(|(at, before)| sample.at - at > SHOW_EVERY && left != before);
        if due || left <= LEFT_MAX {
            sample.print();
            shown = Some((sample.at, left));
        }
        if sample.at <= LEFT_AFTER {
            in_time = Some(left);
        }
        if left <= LEFT_MAX || sample.at > LOOK_FOR {
            println!("{:.1} MB left after {:.2} s", left as f64 / 1e6, sample.at.as_secs_f64());
            let left = in_time.unwrap_or(left);
            let broken = format!("{:.0} MB were left two seconds after all was deleted", left as f64 / 1e6);
            return Ok((left > LEFT_MAX).then_some(broken));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_the_bound() -> Result<()> {
        let words = "--live 3_000_000 --separate-at max --seed 7".split(' ').map(str::to_owned);
        let options = Options::parse(&words.collect::<Vec<_>>())?;
        assert_eq!((options.live, options.separate_at, options.seed), (3_000_000, Some(usize::MAX), 7));
        assert!(Options::parse(&["--live".to_owned()]).is_err());
        let usage = Usage { blobs: BESIDES + 125, ..Usage::default() };
        let sample = Sample { at: Duration::ZERO, written: 0, live: 100, usage };
        assert_eq!(sample.excess(), 0);
        let mut samples = Samples::default();
        samples.add(Sample { usage: Usage { tables: 1, ..usage }, ..sample });
        samples.add(sample);
        assert_eq!(samples.worst.map(|worst| worst.excess()), Some(1));
        Ok(())
    }
}
