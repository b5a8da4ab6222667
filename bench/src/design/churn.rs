//! `churn`: ten patterns in which entries come and go while as many stay. No round may cost more because of what was
//! deleted, overwritten or has expired before it.
//!
//! Each pattern is filled to its size. Then each round adds something, ends something, and reads. The table compares the
//! median of the last 1,000 rounds with that of the first 1,000, and shows the entries that a read passed in vain.

use crate::args::Args;
use crate::data::mix;
use crate::stores::Result;
use esker::env::{Clock, Env};
use esker::operators::ADD;
use esker::{Db, Options, ScanRange, Tree, keys};
use std::hint::black_box;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Rounds whose median is compared.
const COMPARED: usize = 1000;

/// Rows that a read takes.
const ROWS: u64 = 100;

const VALUE: [u8; 40] = [7; 40];

/// A pattern: its name, how it is filled, and what a round does. A round returns how many entries a read has passed.
struct Pattern {
    name: &'static str,
    fill: fn(&Bench, u64) -> Result<()>,
    round: fn(&Bench, u64) -> Result<u64>,
}

/// The system's clock, with walls that are `ahead_us` ahead.
#[derive(Debug)]
struct AheadClock {
    system: Arc<dyn Clock>,
    ahead_us: AtomicU64,
}

impl Clock for AheadClock {
    fn wall_us(&self) -> u64 {
        self.system.wall_us() + self.ahead_us.load(Ordering::Relaxed)
    }

    fn monotonic_us(&self) -> u64 {
        self.system.monotonic_us() + self.ahead_us.load(Ordering::Relaxed)
    }

    fn monotonic_ns(&self) -> u64 {
        self.system.monotonic_ns() + self.ahead_us.load(Ordering::Relaxed) * 1000
    }

    fn sleep(&self, duration: Duration) {
        self.system.sleep(duration);
    }

    fn park(&self, timeout: Duration) {
        self.system.park(timeout);
    }
}

struct Bench {
    tree: Tree,
    clock: Arc<AheadClock>,
    /// Entries that stay.
    size: u64,
}

const PATTERNS: [Pattern; 10] = [
    Pattern { name: "queue", fill: Bench::put_in_order, round: Bench::queue },
    Pattern { name: "stack", fill: Bench::put_in_order, round: Bench::stack },
    Pattern { name: "leaderboard", fill: Bench::put_scores, round: Bench::leaderboard },
    Pattern { name: "sliding window", fill: Bench::put_in_order, round: Bench::window },
    Pattern { name: "hash fields", fill: Bench::put_fields, round: Bench::fields },
    Pattern { name: "expiring keys", fill: Bench::put_expiring, round: Bench::expiring },
    Pattern { name: "overwrites", fill: Bench::put_in_order, round: Bench::overwrites },
    Pattern { name: "counters", fill: Bench::put_counters, round: Bench::counters },
    Pattern { name: "set members", fill: Bench::put_members, round: Bench::members },
    Pattern { name: "range deletes", fill: Bench::put_groups, round: Bench::groups },
];

pub(crate) fn run(args: &Args) -> Result<()> {
    println!("{} rounds of each pattern; microseconds of a round, medians of {COMPARED}", args.n);
    println!("| pattern | stay | filled | first | last | ratio | passed at most, last |");
    println!("|---|--:|---|--:|--:|--:|--:|");
    for size in [500, 20_000] {
        for (filled, in_tables) in [("in memory", false), ("in tables", true)] {
            for pattern in PATTERNS {
                measure(args, &pattern, size, filled, in_tables)?;
            }
        }
    }
    Ok(())
}

fn measure(args: &Args, pattern: &Pattern, size: u64, filled: &str, in_tables: bool) -> Result<()> {
    let path = args.dir.join("churn");
    std::fs::remove_dir_all(&path).ok();
    std::fs::create_dir_all(&args.dir)?;
    let env = Env::system();
    let clock = Arc::new(AheadClock { system: Arc::clone(&env.clock), ahead_us: AtomicU64::new(0) });
    let env = Env { clock: clock.clone(), ..env };
    let db = Db::open(&path, Options::default().env(env))?;
    let bench = Bench { tree: db.default_tree().clone(), clock, size };
    (pattern.fill)(&bench, size)?;
    if in_tables {
        db.compact()?;
    }
    let (mut took, mut passed) = (Vec::new(), Vec::new());
    for number in size..size + args.n {
        let begun = Instant::now();
        passed.push((pattern.round)(&bench, number)?);
        took.push(begun.elapsed().as_nanos() as f64 / 1000.0);
    }
    let compared = COMPARED.min(took.len());
    let (first, last) = (median(&took[..compared]), median(&took[took.len() - compared..]));
    let most = passed[passed.len() - compared..].iter().max().copied().unwrap_or(0);
    println!("| {} | {size} | {filled} | {first:.1} | {last:.1} | {:.2} | {most} |", pattern.name, last / first);
    drop(bench);
    db.close()?;
    std::fs::remove_dir_all(&path)?;
    Ok(())
}

fn median(took: &[f64]) -> f64 {
    let mut sorted = took.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Eight bytes that sort as the number does.
fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

impl Bench {
    /// Puts the pairs that stay: `key` of each number below `size`.
    fn put_all<K: AsRef<[u8]>>(&self, size: u64, key: impl Fn(u64) -> K) -> Result<()> {
        for number in 0..size {
            self.tree.put(key(number), VALUE)?;
        }
        Ok(())
    }

    /// Reads the first rows of a range. Returns how many entries that are not rows it passed.
    fn read(&self, range: impl RangeBounds<[u8; 8]>) -> Result<u64> {
        let mut scan = self.tree.scan(ScanRange::from((range.start_bound(), range.end_bound())))?;
        let mut rows = 0;
        while rows < ROWS && scan.advance()? {
            black_box(scan.pair()?);
            rows += 1;
        }
        Ok(scan.passed())
    }

    fn put_in_order(&self, size: u64) -> Result<()> {
        self.put_all(size, key)
    }

    fn queue(&self, number: u64) -> Result<u64> {
        self.tree.put(key(number), VALUE)?;
        black_box(self.tree.pop_first()?);
        Ok(0)
    }

    fn stack(&self, number: u64) -> Result<u64> {
        // Sometimes it grows by several, and shrinks again.
        let several = 1 + mix(number) % 8;
        for place in 0..several {
            self.tree.put(key(number * 8 + place), VALUE)?;
        }
        for _ in 0..several {
            black_box(self.tree.pop_last()?);
        }
        Ok(0)
    }

    fn score(number: u64) -> [u8; 16] {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&(mix(number) % 5000).to_be_bytes());
        key[8..].copy_from_slice(&number.to_be_bytes());
        key
    }

    fn put_scores(&self, size: u64) -> Result<()> {
        self.put_all(size, Bench::score)
    }

    /// Adds a score, and removes the greatest.
    fn leaderboard(&self, number: u64) -> Result<u64> {
        self.tree.put(Bench::score(number), VALUE)?;
        let mut scan = self.tree.scan(ScanRange::all().reverse())?;
        if scan.advance()? {
            self.tree.delete(scan.key())?;
        }
        Ok(scan.passed())
    }

    /// Adds at one end, removes what has left the window, and reads the oldest that stay.
    fn window(&self, number: u64) -> Result<u64> {
        self.tree.put(key(number), VALUE)?;
        let begin = key(number + 1 - self.size);
        let mut scan = self.tree.scan(ScanRange::from(..&begin))?;
        while scan.advance()? {
            self.tree.delete(scan.key())?;
        }
        Ok(scan.passed() + self.read(begin..)?)
    }

    fn field(number: u64) -> [u8; 8] {
        key(mix(number))
    }

    fn put_fields(&self, size: u64) -> Result<()> {
        self.put_all(size, Bench::field)
    }

    /// A field comes and another one goes, wherever they are in the order; all, or the first of them, are read.
    fn fields(&self, number: u64) -> Result<u64> {
        self.tree.put(Bench::field(number), VALUE)?;
        self.tree.delete(Bench::field(number - self.size))?;
        self.read(..)
    }

    fn put_for_rounds(&self, number: u64) -> Result<()> {
        Ok(self.tree.put_for(Bench::field(number), VALUE, Duration::from_millis(self.size))?)
    }

    fn put_expiring(&self, size: u64) -> Result<()> {
        for number in 0..size {
            self.put_for_rounds(number)?;
            self.clock.ahead_us.fetch_add(1000, Ordering::Relaxed);
        }
        Ok(())
    }

    /// As many milliseconds after it came as there are keys, a key expires.
    fn expiring(&self, number: u64) -> Result<u64> {
        self.put_for_rounds(number)?;
        self.clock.ahead_us.fetch_add(1000, Ordering::Relaxed);
        self.read(..)
    }

    fn overwrites(&self, number: u64) -> Result<u64> {
        // Mostly the same few.
        let place = mix(number) % if mix(number + 1).is_multiple_of(2) { ROWS } else { self.size };
        self.tree.put(key(place), VALUE)?;
        self.read(..)
    }

    fn put_counters(&self, size: u64) -> Result<()> {
        for number in 0..size {
            self.tree.merge(key(number), ADD, keys::i64(1))?;
        }
        Ok(())
    }

    fn counters(&self, number: u64) -> Result<u64> {
        let place = key(mix(number) % self.size.min(ROWS));
        self.tree.merge(place, ADD, keys::i64(1))?;
        black_box(self.tree.get_vec(place)?);
        self.read(..)
    }

    fn put_members(&self, size: u64) -> Result<()> {
        self.put_all(size, |number| key(2 * number))
    }

    /// Of twice as many possible members one comes and one goes at random.
    fn members(&self, number: u64) -> Result<u64> {
        self.tree.put(key(mix(number) % (2 * self.size)), VALUE)?;
        self.tree.delete(key(mix(!number) % (2 * self.size)))?;
        self.read(..)
    }

    fn put_groups(&self, size: u64) -> Result<()> {
        self.put_all(size, key)
    }

    /// A group comes, and the oldest one is deleted as a range.
    fn groups(&self, number: u64) -> Result<u64> {
        let group = (number - self.size) * 10;
        for place in 0..10 {
            self.tree.put(key(self.size + group + place), VALUE)?;
        }
        self.tree.delete_range(key(group)..key(group + 10))?;
        self.read(..)
    }
}
