//! Figures of a store, and why operations were slow: as text, as JSON and for Prometheus.

use esker::trace::WhySlow;
use esker::{Db, Stats, TreeStats};
use serde_json::{Map, Value, json};

use crate::args::{Global, Stats as Args, StatsFormat};
use crate::datatype::parts;
use crate::exit::Outcome;
use crate::json;
use crate::output::Out;

pub(super) fn print(global: &Global, args: &Args, db: &Db) -> Outcome {
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

pub(super) fn why_figures(why: &WhySlow) -> Value {
    let spent = |spent: &esker::trace::Spent| json!({ "cause": spent.cause.name(), "count": spent.count, "us": spent.us, "bytes": spent.bytes });
    let slow = |slow: &esker::trace::SlowOperation| {
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
    let of_kind = |stats: &esker::trace::OperationStats| {
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

/// What operations waited for, and read from files, by cause.
fn waits(stats: &Stats) -> Map<String, Value> {
    let of_cause = |wait: &esker::trace::WaitStats| {
        (wait.cause.name().to_owned(), json!({ "count": wait.count, "us": wait.us, "bytes": wait.bytes }))
    };
    stats.waits.iter().map(of_cause).collect()
}

/// The damaged places, in the form that `check` uses.
fn damage(stats: &Stats) -> Value {
    let place = |place: &esker::Finding| json!({ "file": place.file.display().to_string(), "offset": place.offset, "reason": place.reason });
    stats.damage.iter().map(place).collect()
}

/// Every figure under its name; the figures of trees are under `trees`.
pub(super) fn figures(stats: &Stats) -> Map<String, Value> {
    let sum = |figure: fn(&TreeStats) -> u64| stats.trees.iter().map(figure).sum::<u64>();
    let trees: Map<String, Value> =
        stats.trees.iter().map(|tree| (tree.name.clone(), tree_figures(tree))).collect();
    let of_disk = json!({
        "disk_bytes": stats.disk_bytes,
        "raw_bytes": sum(|tree| tree.raw_bytes),
        "table_bytes": sum(|tree| tree.table_bytes),
        "index_bytes": sum(|tree| tree.index_bytes),
        "filter_bytes": sum(|tree| tree.filter_bytes),
        "manifest_bytes": stats.manifest_bytes,
        "manifest_copied": stats.manifest_copied,
        "clock_ahead_us": stats.clock_ahead_us,
        "clock_leaps": stats.clock_leaps,
        "reserve_bytes": stats.reserve_bytes,
        "blob_disk_bytes": stats.blob_disk_bytes,
        "blob_files": stats.blob_files,
        "blob_values": stats.blob_values,
        "log_bytes": stats.log_bytes,
        "log_live_bytes": stats.log_live_bytes,
        "table_files": stats.table_files,
    });
    let of_memory = json!({
        "memtable_bytes": stats.memtable_bytes,
        "open_tables": stats.open_tables,
        "table_memory": stats.table_memory,
        "pool_bytes": stats.pool_bytes,
        "pool_capacity": stats.pool_capacity,
        "pool_hits": stats.pool_hits,
        "pool_misses": stats.pool_misses,
        "pool_hit_rate": stats.pool_hit_rate(),
        "snapshots": stats.snapshots,
    });
    let of_work = json!({
        "operations": operations(stats),
        "waits": waits(stats),
        "log_syncs": stats.log_syncs,
        "flushes": stats.flushes,
        "flushed_bytes": stats.flushed_bytes,
        "merges": stats.merges,
        "merged_bytes_in": stats.merged_bytes_in,
        "merged_bytes_out": stats.merged_bytes_out,
        "throttled_us": stats.throttled_us,
        "scrubs": stats.scrubs,
        "scrubbed_bytes": stats.scrubbed_bytes,
        "damaged_places": stats.damage.len(),
        "damage": damage(stats),
        "failure": stats.failure,
        "replayed_records": stats.replayed_records,
        "replayed_torn_tail": stats.replayed_torn_tail,
        "trees": trees,
    });
    let groups = [of_disk, of_memory, of_work];
    let groups = groups.into_iter().filter_map(|group| match group {
        Value::Object(figures) => Some(figures),
        _ => None,
    });
    groups.flatten().collect()
}

fn tree_figures(tree: &TreeStats) -> Value {
    let (keys, values) = tree.tag.as_deref().map(parts).unzip();
    json!({
        "keys": keys,
        "values": values,
        "entries": tree.memtable_entries + tree.table_entries,
        "memtable_entries": tree.memtable_entries,
        "table_entries": tree.table_entries,
        "tombstones": tree.tombstones,
        "range_tombstones": tree.range_tombstones,
        "raw_bytes": tree.raw_bytes,
        "table_bytes": tree.table_bytes,
        "index_bytes": tree.index_bytes,
        "filter_bytes": tree.filter_bytes,
        "tables_by_level": tree.tables_by_level,
        "bytes_by_level": tree.bytes_by_level,
    })
}

/// Groups of figures become lines such as `trees.default.entries`.
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
