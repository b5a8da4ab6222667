//! Measurements of single design decisions, each by one command; docs/measurements.md has their figures.
//!
//! `cache`, `chunks`, `index` and `memtable` look inside the library, which opens itself with `--cfg esker_measure` alone.

use crate::args::Args;
use crate::stores::Result;
use std::time::Instant;

pub(crate) mod budgets;
#[cfg(esker_measure)]
mod cache;
#[cfg(esker_measure)]
mod chunks;
pub(crate) mod churn;
pub(crate) mod cursor;
pub(crate) mod event_loop;
pub(crate) mod huge_reads;
pub(crate) mod huge_writes;
#[cfg(esker_measure)]
mod index;
#[cfg(esker_measure)]
mod memtable;
pub(crate) mod query_cache;
pub(crate) mod regions;
pub(crate) mod settle;
pub(crate) mod styles;
pub(crate) mod table_growth;
pub(crate) mod table_scan;
pub(crate) mod trees;

/// Repetitions of each measurement; the best one is shown.
const ROUNDS: u64 = 5;

/// Runs `cache`, `chunks`, `index` or `memtable`.
#[cfg(esker_measure)]
pub(crate) fn run(command: &str, args: &Args) -> Result<()> {
    match command {
        "cache" => cache::run(args),
        "chunks" => chunks::run(args),
        "index" => index::run(args),
        _ => memtable::run(args),
    }
}

#[cfg(not(esker_measure))]
pub(crate) fn run(command: &str, _args: &Args) -> Result<()> {
    Err(format!("{command} needs a build with RUSTFLAGS=\"--cfg esker_measure\"").into())
}

/// Nanoseconds of each of `count` operations that `work` does, best of all rounds; `prepare` is not counted.
#[cfg_attr(not(esker_measure), expect(dead_code, reason = "what needs it is not built"))]
fn best<S>(
    count: u64,
    mut prepare: impl FnMut() -> S,
    mut work: impl FnMut(&mut S) -> Result<()>,
) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let mut state = prepare();
        let begun = Instant::now();
        work(&mut state)?;
        best = best.min(begun.elapsed().as_nanos() as f64 / count as f64);
    }
    Ok(best)
}
