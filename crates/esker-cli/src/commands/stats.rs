//! `esker stats`: figures about the store, aligned, as one JSON object or for Prometheus; why operations were slow.

use std::io::{IsTerminal, stdout};
use std::thread;
use std::time::{Duration, Instant};

use esker::{Db, ErrorKind, Stats, TreeStats, WhySlow};
use serde_json::{Map, Value, json};

use crate::args::{Global, Stats as Args, StatsFormat};
use crate::datatype::parts;
use crate::exit::{Outcome, note};
use crate::interrupt;
use crate::json;
use crate::output::Out;
use crate::store::{opening, options, read_only};

pub(crate) fn run(global: &Global, args: &Args) -> Outcome {
    match args.watch {
        None => print(global, args, &read_only(global)?),
        Some(interval) => watch(global, args, interval),
    }
}

/// Prints every `interval` until somebody interrupts it, or nobody reads any more.
fn watch(global: &Global, args: &Args, interval: Duration) -> Outcome {
    let mut waits_for_writer = false;
    loop {
        match &global.open {
            Some(db) => show(global, args, db)?,
            None => match Db::open_read_only(&global.db, options(global)) {
                Ok(db) => {
                    waits_for_writer = false;
                    show(global, args, &db)?;
                }
                Err(error) if error.kind() == ErrorKind::Locked => {
                    if !std::mem::replace(&mut waits_for_writer, true) {
                        note("another process has the store open for writing; waiting for it");
                    }
                }
                Err(error) => return Err(opening(global, error)),
            },
        }
        let until = Instant::now() + interval;
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            interrupt::check()?;
            thread::sleep(left.min(interrupt::LOOK_EVERY));
        }
    }
}

/// One of many pictures: in place of the one before at a terminal, behind an empty line elsewhere.
fn show(global: &Global, args: &Args, db: &Db) -> Outcome {
    if stdout().is_terminal() {
        Out::stdout()?.with(|out| out.write(b"\x1b[H\x1b[2J"))?;
    }
    print(global, args, db)?;
    let is_json = global.json || args.format == Some(StatsFormat::Json);
    if is_json || stdout().is_terminal() { Ok(()) } else { Out::stdout()?.with(|out| out.line("")) }
}

fn print(global: &Global, args: &Args, db: &Db) -> Outcome {
    let fallback = if global.json { StatsFormat::Json } else { StatsFormat::Text };
    let format = args.format.unwrap_or(fallback);
    if args.why {
        let why = db.why_slow();
        return Out::stdout()?.with(|out| match format {
            StatsFormat::Json => {
                json::object(out.buffer(), &why_figures(&why));
                Ok(())
            }
            _ => out.line(&why.to_string()),
        });
    }
    let stats = db.stats()?;
    Out::stdout()?.with(|out| match format {
        StatsFormat::Prometheus => out.write(stats.prometheus().as_bytes()),
        StatsFormat::Json => {
            json::object(out.buffer(), &Value::Object(figures(&stats)));
            Ok(())
        }
        StatsFormat::Text => {
            let mut rows = Vec::new();
            flatten("", &Value::Object(figures(&stats)), &mut rows);
            let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
            rows.iter().try_for_each(|(name, value)| out.line(&format!("{name:width$}  {value:>15}")))
        }
    })
}

fn why_figures(why: &WhySlow) -> Value {
    let spent = |spent: &esker::Spent| json!({ "cause": spent.cause.name(), "count": spent.count, "us": spent.us, "bytes": spent.bytes });
    let slow = |slow: &esker::SlowOperation| {
        json!({
            "operation": slow.operation.name(),
            "tree": slow.tree,
            "key": slow.key.escape_ascii().to_string(),
            "ended_us": slow.ended_us,
            "took_us": slow.took_us,
            "causes": slow.causes.iter().map(spent).collect::<Vec<_>>(),
        })
    };
    json!({
        "count": why.count,
        "took_us": why.took_us,
        "causes": why.causes.iter().map(spent).collect::<Vec<_>>(),
        "slowest": why.slowest.iter().map(slow).collect::<Vec<_>>(),
    })
}

/// Counts, and times in nanoseconds, by kind of operation.
fn operations(stats: &Stats) -> Map<String, Value> {
    let of_kind = |stats: &esker::OperationStats| {
        let quantile = |part| stats.latency.quantile(part);
        let figures = json!({
            "count": stats.count,
            "p50_ns": quantile(0.5),
            "p99_ns": quantile(0.99),
        });
        (stats.operation.name().to_owned(), figures)
    };
    stats.operations.iter().map(of_kind).collect()
}

/// Every figure under its name, the trees' own under `trees`.
fn figures(stats: &Stats) -> Map<String, Value> {
    let sum = |figure: fn(&TreeStats) -> u64| stats.trees.iter().map(figure).sum::<u64>();
    let trees: Map<String, Value> =
        stats.trees.iter().map(|tree| (tree.name.clone(), tree_figures(tree))).collect();
    let figures = json!({
        "disk_bytes": sum(|tree| tree.table_bytes) + stats.blob_disk_bytes + stats.log_bytes + stats.manifest_bytes
            + stats.reserve_bytes,
        "raw_bytes": sum(|tree| tree.raw_bytes),
        "table_bytes": sum(|tree| tree.table_bytes),
        "index_bytes": sum(|tree| tree.index_bytes),
        "filter_bytes": sum(|tree| tree.filter_bytes),
        "manifest_bytes": stats.manifest_bytes,
        "manifest_copied": stats.manifest_copied,
        "reserve_bytes": stats.reserve_bytes,
        "blob_disk_bytes": stats.blob_disk_bytes,
        "blob_files": stats.blob_files,
        "blob_values": stats.blob_values,
        "log_bytes": stats.log_bytes,
        "log_live_bytes": stats.log_live_bytes,
        "table_files": stats.table_files,
        "pool_policy": stats.pool_policy.name(),
        "pool_hits": stats.pool_hits,
        "pool_misses": stats.pool_misses,
        "pool_hit_rate": stats.pool_hit_rate(),
        "operations": operations(stats),
        "scrubs": stats.scrubs,
        "damaged_places": stats.damage.len(),
        "failure": stats.failure,
        "replayed_records": stats.replayed_records,
        "replayed_torn_tail": stats.replayed_torn_tail,
        "trees": trees,
    });
    match figures {
        Value::Object(figures) => figures,
        _ => Map::new(),
    }
}

fn tree_figures(tree: &TreeStats) -> Value {
    let (keys, values) = tree.tag.as_deref().map(parts).unzip();
    json!({
        "keys": keys,
        "values": values,
        "entries": tree.memtable_entries + tree.table_entries,
        "tombstones": tree.tombstones,
        "raw_bytes": tree.raw_bytes,
        "table_bytes": tree.table_bytes,
        "index_bytes": tree.index_bytes,
        "filter_bytes": tree.filter_bytes,
        "tables_by_level": tree.tables_by_level,
        "bytes_by_level": tree.bytes_by_level,
    })
}

/// Figures in groups become lines such as `trees.default.entries`.
fn flatten(path: &str, value: &Value, rows: &mut Vec<(String, String)>) {
    let Value::Object(figures) = value else {
        rows.push((path.to_owned(), value.to_string()));
        return;
    };
    for (name, value) in figures {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        flatten(&path, value, rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_become_dotted_names() {
        let mut rows = Vec::new();
        flatten("", &json!({ "a": 1, "b": { "c": "x", "d": 2.5 } }), &mut rows);
        let lines: Vec<_> = rows.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(lines, ["a=1", "b.c=\"x\"", "b.d=2.5"]);
    }
}
