//! `source004`: that source's experiments (its section 3). Pairs of 4-byte numbers are put one by one in random order, with
//! a memtable of 1 MB and a buffer pool of 10 MB, up to 1 GB; at eight sizes on the way, each twice the last, random gets of
//! what is there and scans are timed. Its authors: "over 2.5 hours to run all three of them".

use crate::args::Args;
use crate::data::{Draws, mix};
use crate::plot::{Axis, Plot, Series, number};
use crate::stores::Result;
use esker::{CompactionStyle, Db, Options, Tree};
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Instant;

const PAIR_BYTES: u64 = 8;
const SIZES: u32 = 8;
const MEMTABLE_BYTES: usize = 1 << 20;
/// Of the budget the mapped log, memtables that wait, and filters and indexes take their parts besides the pool.
const BUDGET_BYTES: usize = 16 << 20;
const GETS: u64 = 20_000;
const SCANS: u64 = 200;
const ROWS_PER_SCAN: usize = 1000;

/// Throughput at one size, in pairs a second.
struct Row {
    pairs: u64,
    put: f64,
    get: f64,
    scan: f64,
}

/// The key of the i-th pair: random, and different from all others.
fn key(seed: u64, i: u64) -> [u8; 4] {
    // Each step maps the 32-bit numbers one to one.
    let mut x = (i as u32) ^ (mix(seed) as u32);
    for factor in [0x85eb_ca6b_u32, 0xc2b2_ae35] {
        x = (x ^ (x >> 16)).wrapping_mul(factor);
        x ^= x >> 13;
    }
    x.to_be_bytes()
}

/// The style of merging that is called `name`.
fn style_of(name: &str) -> Result<CompactionStyle> {
    match name {
        "leveled" => Ok(CompactionStyle::Leveled),
        "lazy-leveled" => Ok(CompactionStyle::LazyLeveled),
        "tiered" => Ok(CompactionStyle::Tiered),
        _ => Err(format!("--style: {name:?} is none of leveled, lazy-leveled, tiered").into()),
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let dir = args.dir.join("source004");
    std::fs::remove_dir_all(&dir).ok();
    std::fs::create_dir_all(&args.dir)?;
    let out = args.file.clone().unwrap_or_else(|| PathBuf::from("source004-results"));
    std::fs::create_dir_all(&out)?;
    let mut options = Options::default().memory_budget(BUDGET_BYTES).direct_io(args.direct);
    options.memtable_bytes = Some(MEMTABLE_BYTES);
    let db = Db::open(&dir, options)?;
    db.default_tree().set_options(db.default_tree().options().compaction(style_of(&args.style)?))?;
    let begun = Instant::now();
    let rows = measure(&db, args)?;
    let stats = db.stats()?;
    let table = table(&rows);
    print!("{table}");
    println!(
        "{:.0} s in all, merges included; buffer pool {:.1} MB, tables {:.0} MB, written by merges {:.1} GB",
        begun.elapsed().as_secs_f64(),
        stats.pool_capacity as f64 / 1e6,
        stats.trees.iter().map(|tree| tree.table_bytes).sum::<u64>() as f64 / 1e6,
        stats.merged_bytes_out as f64 / 1e9,
    );
    std::fs::write(out.join("table.md"), table)?;
    plot(&rows, &out)?;
    db.close()?;
    Ok(std::fs::remove_dir_all(&dir)?)
}

fn measure(db: &Db, args: &Args) -> Result<Vec<Row>> {
    let tree = db.default_tree();
    let (mut rows, mut done) = (Vec::new(), 0);
    for size in (0..SIZES).rev() {
        let pairs = args.n >> size;
        let begun = Instant::now();
        for i in done..pairs {
            tree.put(key(args.seed, i), (i as u32).to_le_bytes())?;
        }
        let put = (pairs - done) as f64 / begun.elapsed().as_secs_f64();
        done = pairs;
        rows.push(Row {
            pairs,
            put,
            get: gets(tree, args.seed, pairs)?,
            scan: scans(tree, args.seed, pairs)?,
        });
    }
    Ok(rows)
}

fn gets(tree: &Tree, seed: u64, pairs: u64) -> Result<f64> {
    let (draws, mut value) = (Draws::new(seed, 80), Vec::new());
    let begun = Instant::now();
    for draw in 0..GETS {
        let i = draws.below(draw, pairs);
        if !tree.get_into(key(seed, i), &mut value)? || value != (i as u32).to_le_bytes() {
            return Err(format!("pair {i} of {pairs} is not what was put").into());
        }
    }
    Ok(GETS as f64 / begun.elapsed().as_secs_f64())
}

fn scans(tree: &Tree, seed: u64, pairs: u64) -> Result<f64> {
    let (draws, mut rows) = (Draws::new(seed, 81), 0u64);
    let begun = Instant::now();
    for draw in 0..SCANS {
        let from = key(seed, draws.below(draw, pairs));
        let mut scan = tree.scan(from..)?;
        for _ in 0..ROWS_PER_SCAN {
            if !scan.advance()? {
                break;
            }
            rows += u64::from(std::hint::black_box(scan.pair()?).1.len() == 4);
        }
    }
    Ok(rows as f64 / begun.elapsed().as_secs_f64())
}

fn megabytes(row: &Row) -> String {
    format!("{} MB", number((row.pairs * PAIR_BYTES) as f64 / f64::from(1 << 20)))
}

fn table(rows: &[Row]) -> String {
    let mut out =
        String::from("| data | put, pairs/s | get, pairs/s | scan, pairs/s |\n| --: | --: | --: | --: |\n");
    for row in rows {
        let [put, get, scan] = [row.put, row.get, row.scan].map(number);
        writeln!(out, "| {} | {put} | {get} | {scan} |", megabytes(row)).ok();
    }
    out
}

fn plot(rows: &[Row], out: &std::path::Path) -> Result<()> {
    type Figure = fn(&Row) -> f64;
    let figures: [(&str, &str, Figure); 3] = [
        ("put", "Put, pairs/s, by data", |row| row.put),
        ("get", "Get, pairs/s, by data", |row| row.get),
        ("scan", "Scan, pairs/s, by data", |row| row.scan),
    ];
    for (file, title, figure) in figures {
        let points = rows.iter().map(|row| Some(figure(row))).collect();
        let series = vec![Series { name: "esker".to_owned(), points }];
        let plot = Plot {
            title,
            columns: rows.iter().map(megabytes).collect(),
            series,
            bars: false,
            axis: Axis::Decades,
        };
        std::fs::write(out.join(format!("{file}.svg")), plot.svg())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_different() {
        let keys: std::collections::BTreeSet<_> = (0..100_000).map(|i| key(7, i)).collect();
        assert_eq!(keys.len(), 100_000);
    }
}
