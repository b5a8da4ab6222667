//! `styles`: what the styles of merging cost: writing, reading, space. Each style is given the same: pairs of 16 + 100 bytes
//! put in random order, then as many again over them.

use crate::args::Args;
use crate::data::{Draws, Values, key_between, key16};
use crate::measure::wait_until_quiet;
use crate::stores::Result;
use esker::{CompactionStyle, Db, Options, ScanRange, Tree, TreeOptions};
use std::time::Instant;

const VALUE_BYTES: usize = 100;
const PAIR_BYTES: u64 = 16 + VALUE_BYTES as u64;
/// A sixteenth of it is a memtable's: some hundred of these are flushed by each default run.
const BUDGET_BYTES: usize = 128 << 20;
const READS: u64 = 200_000;
const SCANS: u64 = 5_000;
const ROWS_PER_SCAN: usize = 100;

const STYLES: [(&str, CompactionStyle, u8); 6] = [
    ("leveled, 10", CompactionStyle::Leveled, 10),
    ("leveled, 4", CompactionStyle::Leveled, 4),
    ("lazy-leveled, 10", CompactionStyle::LazyLeveled, 10),
    ("lazy-leveled, 4", CompactionStyle::LazyLeveled, 4),
    ("tiered, 4", CompactionStyle::Tiered, 4),
    ("tiered, 10", CompactionStyle::Tiered, 10),
];

/// Bytes of all tables.
fn table_bytes(db: &Db) -> Result<u64> {
    Ok(db.stats()?.trees.iter().map(|tree| tree.table_bytes).sum())
}

/// Puts all pairs.
fn fill(tree: &Tree, args: &Args, values: &Values) -> Result<()> {
    let draws = Draws::new(args.seed, 90);
    Ok((0..2 * args.n).try_for_each(|i| tree.put(key16(draws.below(i, args.n)), values.get(i)))?)
}

/// Microseconds of one `work`, and the blocks that it asks for.
fn each(db: &Db, count: u64, mut work: impl FnMut(u64) -> Result<()>) -> Result<(f64, f64)> {
    let asked = || db.stats().map(|stats| stats.pool_hits + stats.pool_misses);
    let (before, begun) = (asked()?, Instant::now());
    (0..count).try_for_each(&mut work)?;
    let us = begun.elapsed().as_secs_f64() * 1e6 / count as f64;
    Ok((us, (asked()? - before) as f64 / count as f64))
}

fn row(args: &Args, (name, style, ratio): (&str, CompactionStyle, u8)) -> Result<()> {
    let dir = args.dir.join("styles");
    std::fs::remove_dir_all(&dir).ok();
    let db = Db::open(&dir, Options::default().memory_budget(BUDGET_BYTES))?;
    let tree = db.create_tree("t", TreeOptions::default().compaction(style).size_ratio(ratio))?;
    let values = Values::new(args.seed, VALUE_BYTES);
    let begun = Instant::now();
    fill(&tree, args, &values)?;
    let rate = (2 * args.n) as f64 / begun.elapsed().as_secs_f64();
    wait_until_quiet(&dir, || false)?;
    let stats = db.stats()?;
    let written = (stats.flushed_bytes + stats.merged_bytes_out) as f64 / (2 * args.n * PAIR_BYTES) as f64;
    let live = tree.count(ScanRange::all())? * PAIR_BYTES;
    let draws = Draws::new(args.seed, 91);
    let (get, get_blocks) = each(&db, READS, |i| {
        std::hint::black_box(tree.get(key16(draws.below(i, args.n)))?);
        Ok(())
    })?;
    let (absent, absent_blocks) =
        each(&db, READS, |i| match tree.get(key_between(draws.below(i, args.n)))? {
            None => Ok(()),
            Some(_) => Err("an absent key is there".into()),
        })?;
    let (scan, _) = each(&db, SCANS, |i| {
        let mut scan = tree.scan(key16(draws.below(i, args.n))..)?;
        for _ in 0..ROWS_PER_SCAN {
            if !scan.advance()? {
                break;
            }
            std::hint::black_box(scan.pair()?);
        }
        Ok(())
    })?;
    let space = table_bytes(&db)? as f64 / live as f64;
    println!(
        "| {name} | {:.0} | {written:.1} | {get:.1} ({get_blocks:.2}) | {absent:.1} ({absent_blocks:.2}) | {scan:.0} | {space:.2} |",
        rate / 1e3
    );
    db.close()?;
    Ok(std::fs::remove_dir_all(&dir)?)
}

pub(crate) fn run(args: &Args) -> Result<()> {
    std::fs::create_dir_all(&args.dir)?;
    println!("{} pairs of {PAIR_BYTES} bytes put, of {} keys", 2 * args.n, args.n);
    println!(
        "| style, size ratio | put, k/s | written : put | get, us (blocks) | absent, us (blocks) | scan of {ROWS_PER_SCAN}, us | space : live |"
    );
    println!("| --- | --: | --: | --: | --: | --: | --: |");
    STYLES.iter().try_for_each(|style| row(args, *style))
}
