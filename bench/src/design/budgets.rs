//! `budgets`: what the budgets for background I/O and threads do. One thread puts 150,000 pairs a second over what is there, which
//! keeps merges busy; another one gets as fast as it can, and is timed.

use crate::args::Args;
use crate::data::{Draws, Values, key16};
use crate::latency::Latencies;
use crate::measure::wait_until_quiet;
use crate::stores::Result;
use esker::{Db, Options, Stats};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const VALUE_BYTES: usize = 100;
const BUDGET_BYTES: usize = 64 << 20;
const PUTS_PER_SECOND: u64 = 150_000;
const SECONDS: u64 = 15;

/// A name, bytes a second in the background, and threads.
const BUDGETS: [(&str, Option<u64>, usize); 4] = [
    ("no bound, 4 threads", None, 4),
    ("no bound, 2 threads", None, 2),
    ("32 MiB/s, 4 threads", Some(32 << 20), 4),
    ("8 MiB/s, 4 threads", Some(8 << 20), 4),
];

/// Puts as many pairs a second as it should, or fewer; returns how many.
fn puts(db: &Db, args: &Args, values: &Values) -> Result<u64> {
    let (draws, begun, mut count) = (Draws::new(args.seed, 95), Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(SECONDS) {
        let due = begun.elapsed().as_micros() as u64 * PUTS_PER_SECOND / 1_000_000;
        for i in count..due {
            db.put(key16(draws.below(i, args.n)), values.get(i))?;
        }
        count = count.max(due);
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(count)
}

/// Gets until `done`.
fn gets(db: &Db, args: &Args, done: &AtomicBool) -> Result<Latencies> {
    let (draws, mut latencies) = (Draws::new(args.seed, 96), Latencies::default());
    for i in 0.. {
        if done.load(Ordering::Relaxed) {
            break;
        }
        let begun = Instant::now();
        std::hint::black_box(db.get(key16(draws.below(i, args.n)))?);
        latencies.add(begun.elapsed());
    }
    Ok(latencies)
}

fn row(args: &Args, (name, background_io, threads): (&str, Option<u64>, usize)) -> Result<()> {
    let dir = args.dir.join("budgets");
    std::fs::remove_dir_all(&dir).ok();
    let options =
        Options::default().memory_budget(BUDGET_BYTES).background_io(background_io).threads(threads);
    let (db, values) = (Db::open(&dir, options)?, Values::new(args.seed, VALUE_BYTES));
    (0..args.n).try_for_each(|i| db.put(key16(i), values.get(i)))?;
    db.compact()?;
    wait_until_quiet(&dir, || false)?;
    let (before, done) = (db.stats()?, AtomicBool::new(false));
    let (put, latencies) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| gets(&db, args, &done));
        let put = puts(&db, args, &values);
        done.store(true, Ordering::Relaxed);
        (put, reader.join().map_err(|_| "the reader panicked"))
    });
    let (put, latencies, after) = (put?, latencies??, db.stats()?);
    let bytes = |stats: &Stats| stats.merged_bytes_in + stats.merged_bytes_out;
    let count = latencies.count();
    let (median, most) = (latencies.quantile_us(0.5), latencies.quantile_us(0.99));
    let longest = latencies.max_us();
    println!(
        "| {name} | {} | {:.0} | {median:.1} | {most:.0} | {longest:.0} | {:.0} |",
        put / SECONDS,
        count as f64 / SECONDS as f64 / 1e3,
        (bytes(&after) - bytes(&before)) as f64 / SECONDS as f64 / 1e6,
    );
    db.close()?;
    Ok(std::fs::remove_dir_all(&dir)?)
}

pub(crate) fn run(args: &Args) -> Result<()> {
    std::fs::create_dir_all(&args.dir)?;
    println!(
        "{} pairs of {} bytes, {PUTS_PER_SECOND} puts a second over them for {SECONDS} s",
        args.n,
        16 + VALUE_BYTES
    );
    println!("| budgets | puts a second | gets, k/s | median us | 99 % | longest | merges, MB/s |");
    println!("| --- | --: | --: | --: | --: | --: | --: |");
    BUDGETS.iter().try_for_each(|budget| row(args, *budget))
}
