//! `esker stats`: figures about the store, aligned or as one JSON object.

use esker::{Stats, TreeStats};
use serde_json::{Map, Value, json};

use crate::args::Global;
use crate::datatype::parts;
use crate::exit::Outcome;
use crate::json;
use crate::output::Out;
use crate::store::read_only;

pub(crate) fn run(global: &Global) -> Outcome {
    let figures = figures(&read_only(global)?.stats()?);
    Out::stdout()?.with(|out| {
        if global.json {
            json::object(out.buffer(), &Value::Object(figures));
            return Ok(());
        }
        let mut rows = Vec::new();
        flatten("", &Value::Object(figures), &mut rows);
        let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        rows.iter().try_for_each(|(name, value)| out.line(&format!("{name:width$}  {value:>15}")))
    })
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
