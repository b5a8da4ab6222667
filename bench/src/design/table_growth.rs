//! `table-growth`: a table of so many cells is loaded, merged and read: time, space and memory.

use crate::args::Args;
use crate::data::{Draws, Values, key16, mix};
use crate::process::{disk_usage, peak_rss_bytes};
use crate::stores::Result;
use esker::Options;
use esker_table::{Family, Read, RowMutation, Schema, Table, Tables};
use std::hint::black_box;
use std::time::Instant;

const CELLS_OF_ROW: u64 = 10;
const ROWS_OF_BATCH: u64 = 100;
const VALUE_BYTES: usize = 100;
const GETS: u64 = 100_000;
/// The store's memory, in bytes; the process has buffers and the cache of open files beside it.
const BUDGET: usize = 1 << 30;

fn seconds(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed().as_secs_f64())
}

fn load(args: &Args, table: &Table) -> Result<()> {
    let values = Values::new(args.seed, VALUE_BYTES);
    let rows = args.n / CELLS_OF_ROW;
    for first in (0..rows).step_by(ROWS_OF_BATCH as usize) {
        let row = |row: u64| {
            let mutation = RowMutation::new(key16(mix(row)));
            (0..CELLS_OF_ROW).fold(mutation, |mutation, cell| {
                mutation.put("f", format!("column-{cell}"), values.get(row * CELLS_OF_ROW + cell))
            })
        };
        let batch: Vec<_> = (first..rows.min(first + ROWS_OF_BATCH)).map(row).collect();
        table.mutate_rows(&batch)?;
    }
    Ok(())
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let path = args.dir.join("table-growth");
    std::fs::remove_dir_all(&path).ok();
    std::fs::create_dir_all(&args.dir)?;
    let tables = Tables::open(&path, Options::default().memory_budget(BUDGET))?;
    let table = tables.create("t", Schema::new().group("all", [Family::new("f").max_versions(1)]))?;
    let loaded = seconds(|| load(args, &table))?;
    let (before, _) = disk_usage(&path);
    let merged = seconds(|| Ok(table.compact()?))?;
    let (after, _) = disk_usage(&path);
    let mut cells = 0_u64;
    let scanned = seconds(|| {
        let mut scan = table.scan("", "", &Read::all())?;
        while scan.advance()? {
            black_box(scan.value());
            cells += 1;
        }
        Ok(())
    })?;
    let draws = Draws::new(args.seed, 1);
    let rows = args.n / CELLS_OF_ROW;
    let got = seconds(|| {
        (0..GETS).try_for_each(|get| {
            let cells = table.get(key16(mix(draws.below(get, rows))), &Read::all())?;
            black_box(cells);
            Ok(())
        })
    })?;
    let (mib, n) = (1_048_576.0, args.n as f64);
    println!(
        "{} cells of {VALUE_BYTES} bytes, {CELLS_OF_ROW} in a row, {} found: loaded in {loaded:.1} s ({:.0} cells/s), \
         {:.0} MiB; merged in {merged:.1} s, {:.0} MiB ({:.1} bytes a cell); scanned in {scanned:.1} s ({:.0} cells/s); \
         gets of a row {:.1} us; peak memory {:.0} MiB",
        args.n,
        cells,
        n / loaded,
        before as f64 / mib,
        after as f64 / mib,
        after as f64 / n,
        n / scanned,
        got * 1e6 / GETS as f64,
        peak_rss_bytes() as f64 / mib,
    );
    drop((table, tables));
    std::fs::remove_dir_all(&path)?;
    Ok(())
}
