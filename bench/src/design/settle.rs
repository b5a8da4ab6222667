//! `settle`: how long a load over eight trees takes until nothing is left to merge, by the number of threads.

use crate::args::Args;
use crate::data::{Values, key16, mix};
use crate::process;
use crate::stores::Result;
use esker::{Batch, Db, Options, Tree};
use std::time::{Duration, Instant};

const TREES: u64 = 8;
const BATCH: u64 = 100;
const VALUE_BYTES: usize = 100;
/// Merges have ended when none has come, and the process has used no processor, for this long.
const STILL: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &Args) -> Result<()> {
    println!("{} random puts of 16 + {VALUE_BYTES} bytes over {TREES} trees", args.n);
    std::fs::create_dir_all(&args.dir)?;
    for memtable_bytes in [1 << 20, 8 << 20] {
        println!("memtables of {} MiB", memtable_bytes >> 20);
        for round in 0..args.rounds {
            for threads in [4, 5, 6] {
                one(args, round, threads, memtable_bytes)?;
            }
        }
    }
    Ok(())
}

fn one(args: &Args, round: u64, threads: usize, memtable_bytes: usize) -> Result<()> {
    let path = args.dir.join("settle");
    std::fs::remove_dir_all(&path).ok();
    let mut options = Options::default().memory_budget(256 << 20).threads(threads);
    options.memtable_bytes = Some(memtable_bytes);
    options.table_bytes = 4 << 20;
    let db = Db::open(&path, options)?;
    let trees: Vec<Tree> = (0..TREES).map(|i| db.tree(&format!("t{i}"))).collect::<esker::Result<_>>()?;
    let values = Values::new(args.seed + round, VALUE_BYTES);
    let (begun, cpu) = (Instant::now(), process::cpu_seconds());
    let mut batch = Batch::new();
    for first in (0..args.n).step_by(BATCH as usize) {
        batch.clear();
        for i in first..first + BATCH {
            let key = mix(i);
            batch.put(&trees[(key % TREES) as usize], key16(key), values.get(i))?;
        }
        db.write(&batch)?;
    }
    let loaded = begun.elapsed().as_secs_f64();
    db.flush()?;
    let settled = wait_until_still(&db)?.duration_since(begun).as_secs_f64();
    let stats = db.stats()?;
    println!(
        "{threads} threads: loaded in {loaded:.2} s, settled after {settled:.2} s, {:.1} s of processors, {} merges of {} MB, \
         throttled for {:.1} s",
        process::cpu_seconds() - cpu,
        stats.merges,
        stats.merged_bytes_in / 1_000_000,
        stats.throttled_us as f64 / 1e6
    );
    db.close()?;
    std::fs::remove_dir_all(&path)?;
    Ok(())
}

/// Returns since when nothing has been merged.
fn wait_until_still(db: &Db) -> Result<Instant> {
    let (mut merges, mut since) = (db.stats()?.merges, Instant::now());
    while since.elapsed() < STILL {
        let cpu = process::cpu_seconds();
        std::thread::sleep(LOOK);
        let now = db.stats()?.merges;
        // A merge may take longer than this looks.
        if now != merges || process::cpu_seconds() - cpu > LOOK.as_secs_f64() / 3.0 {
            (merges, since) = (now, Instant::now());
        }
    }
    Ok(since)
}
