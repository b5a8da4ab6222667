//! Figures that documents name are those that the command line prints.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::support::esker;
use serde_json::Value;

/// The words between backticks that are names of figures.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |word: &&str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    text.split('`').skip(1).step_by(2).filter(is_name)
}

/// The names of all fields, those of a tree among them.
fn fields(value: &Value, found: &mut BTreeSet<String>) {
    if let Value::Object(object) = value {
        for (name, value) in object {
            found.insert(name.clone());
            fields(value, found);
        }
    }
}

#[test]
fn every_figure_that_operations_names_is_printed() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    let document = fs::read_to_string(document).unwrap();
    let table = document.split_once("| figure | look at it when |").expect("the table of figures").1;
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let in_table = rows.flat_map(|row| names(row.split('|').nth(1).unwrap()));
    let named = document.split("Stats::").skip(1).filter_map(|rest| {
        rest.split(|c: char| !c.is_ascii_lowercase() && c != '_').next().filter(|name| !name.is_empty())
    });
    // This one prints all others.
    let named: BTreeSet<&str> = in_table.chain(named).filter(|name| *name != "prometheus").collect();
    assert!(named.len() > 15, "{named:?}");

    let dir = tempfile::tempdir().unwrap();
    assert_eq!(esker(dir.path(), "put a 1").code, 0);
    let printed: Value = serde_json::from_str(&esker(dir.path(), "stats --json").stdout()).unwrap();
    let mut figures = BTreeSet::new();
    fields(&printed, &mut figures);
    let missing: Vec<_> = named.iter().filter(|name| !figures.contains(**name)).collect();
    assert!(missing.is_empty(), "not in `stats --json`: {missing:?}");

    // Counts and sums are in Prometheus' text by their names, with the unit behind them.
    let text = esker(dir.path(), "stats --format prometheus").stdout();
    let families: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE esker_")?.split(' ').next()).collect();
    for (figure, family) in [
        ("failure", "failed"),
        ("operations", "operations_total"),
        ("waits", "waits_total"),
        ("damage", "damaged_places"),
        ("manifest_copied", "manifest_copied"),
        ("clock_ahead_us", "clock_ahead_microseconds"),
        ("clock_leaps", "clock_leaps_total"),
        ("throttled_us", "throttled_seconds_total"),
        ("pool_hits", "pool_hits_total"),
        ("pool_misses", "pool_misses_total"),
        ("log_live_bytes", "log_live_bytes"),
        ("snapshots", "snapshots"),
        ("blob_disk_bytes", "blob_disk_bytes"),
        ("table_bytes", "tree_table_bytes"),
        ("merged_bytes_out", "merged_out_bytes_total"),
        ("flushed_bytes", "flushed_bytes_total"),
        ("tombstones", "tree_tombstones"),
        ("table_entries", "tree_table_entries"),
    ] {
        assert!(figures.contains(figure) && families.contains(family), "{figure}: {family}: {families:?}");
    }
}
