//! The figures in the text format of Prometheus, version 0.0.4 (its documentation: "Exposition formats").

use std::fmt::Write;

use super::{Stats, TreeStats};

struct Text(String);

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

impl Text {
    /// Begins a family: `kind` is `counter`, `gauge` or `histogram`.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // A write to memory cannot fail.
        let _ = writeln!(self.0, "# HELP esker_{name} {help}\n# TYPE esker_{name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "esker_{name}{labels} {value}");
    }

    /// A figure without labels. By convention the names of counters end in `_total`.
    fn single(&mut self, name: &str, help: &str, value: impl std::fmt::Display) {
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    fn of_trees(&mut self, stats: &Stats, name: &str, help: &str, figure: fn(&TreeStats) -> u64) {
        self.family(name, "gauge", help);
        for tree in &stats.trees {
            self.sample(name, &[("tree", &tree.name)], figure(tree));
        }
    }

    fn operations(&mut self, stats: &Stats) {
        self.family("operations_total", "counter", "Operations, by kind.");
        for operation in &stats.operations {
            self.sample("operations_total", &[("operation", operation.operation.name())], operation.count);
        }
        self.family(
            "operation_seconds",
            "histogram",
            "How long operations took; one in 64 gets, writes and scans is timed.",
        );
        for operation in &stats.operations {
            let kind = ("operation", operation.operation.name());
            let mut up_to = 0;
            for (end, count) in operation.latency.classes() {
                up_to += count;
                let end = end.map_or("+Inf".to_owned(), |ns| seconds(ns).to_string());
                self.sample("operation_seconds_bucket", &[kind, ("le", &end)], up_to);
            }
            self.sample("operation_seconds_sum", &[kind], seconds(operation.latency.sum_ns));
            self.sample("operation_seconds_count", &[kind], up_to);
        }
    }

    fn waits(&mut self, stats: &Stats) {
        self.family("waits_total", "counter", "How often operations waited or read from files, by cause.");
        for wait in &stats.waits {
            self.sample("waits_total", &[("cause", wait.cause.name())], wait.count);
        }
        self.family("wait_seconds_total", "counter", "How long operations waited, by cause.");
        for wait in &stats.waits {
            self.sample("wait_seconds_total", &[("cause", wait.cause.name())], wait.us as f64 / 1e6);
        }
        self.family("wait_bytes_total", "counter", "Bytes that operations read from files, by cause.");
        for wait in &stats.waits {
            self.sample("wait_bytes_total", &[("cause", wait.cause.name())], wait.bytes);
        }
    }

    fn singles(&mut self, stats: &Stats) {
        let help = "How long writers were slowed because merges were behind.";
        self.single("throttled_seconds_total", help, stats.throttled_us as f64 / 1e6);
        let failed = u64::from(stats.failure.is_some());
        for (name, help, value) in [
            ("pool_hits_total", "Block reads that the buffer pool answered.", stats.pool_hits),
            ("pool_misses_total", "Block reads that went to the file.", stats.pool_misses),
            ("log_syncs_total", "Syncs of log segments.", stats.log_syncs),
            ("flushes_total", "Flushes of memtables.", stats.flushes),
            ("flushed_bytes_total", "Bytes that flushes wrote.", stats.flushed_bytes),
            ("merges_total", "Merges of tables.", stats.merges),
            ("merged_in_bytes_total", "Bytes that merges read.", stats.merged_bytes_in),
            ("merged_out_bytes_total", "Bytes that merges wrote.", stats.merged_bytes_out),
            ("rule_drops_total", "Entries that compaction rules have dropped.", stats.rule_drops),
            ("rule_panics_total", "Panics of compaction rules.", stats.rule_panics),
            ("scrubbed_bytes_total", "Bytes that scrubs read to find damage.", stats.scrubbed_bytes),
            ("scrubs_total", "Scrubs that have read everything.", stats.scrubs),
            (
                "failed",
                "1 if background work has failed: writes fail until the store is opened again.",
                failed,
            ),
            ("damaged_places", "Damaged places that were found.", stats.damage.len() as u64),
            ("table_files", "Table files in use.", stats.table_files),
            ("open_tables", "Table files held open.", stats.open_tables),
            ("table_memory_bytes", "Filters and indexes of open tables in memory.", stats.table_memory),
            (
                "disk_bytes",
                "Space that the files in the store's directory take on the disk.",
                stats.disk_bytes,
            ),
            ("log_bytes", "Log segments on disk.", stats.log_bytes),
            ("log_live_bytes", "Bytes of log that recovery would have to read.", stats.log_live_bytes),
            ("manifest_bytes", "Bytes of the manifest and its copy.", stats.manifest_bytes),
            ("manifest_copied", "1 if the manifest has its copy.", u64::from(stats.manifest_copied)),
            (
                "clock_ahead_microseconds",
                "How far the clock by which values expire is ahead of the machine's.",
                stats.clock_ahead_us,
            ),
            ("clock_leaps_total", "Leaps of the machine's clock by a second or more.", stats.clock_leaps),
            ("reserve_bytes", "Bytes set aside for a full disk.", stats.reserve_bytes),
            ("blob_files", "Files of huge values.", stats.blob_files),
            ("blob_values", "Huge values that are needed.", stats.blob_values),
            ("blob_disk_bytes", "Space that files of huge values take on the disk.", stats.blob_disk_bytes),
            ("memtable_bytes", "Memory of memtables.", stats.memtable_bytes),
            ("pool_bytes", "Memory of the buffer pool's blocks.", stats.pool_bytes),
            ("pool_capacity_bytes", "Capacity of the buffer pool.", stats.pool_capacity),
            ("snapshots", "Open snapshots.", stats.snapshots),
        ] {
            self.single(name, help, value);
        }
    }

    fn trees(&mut self, stats: &Stats) {
        self.of_trees(stats, "tree_memtable_entries", "Entries in memtables.", |tree| tree.memtable_entries);
        self.of_trees(stats, "tree_table_entries", "Entries in tables.", |tree| tree.table_entries);
        self.of_trees(stats, "tree_tombstones", "Tombstones among the entries in tables.", |tree| {
            tree.tombstones
        });
        self.of_trees(stats, "tree_table_bytes", "Bytes of table files.", |tree| tree.table_bytes);
        self.of_trees(stats, "tree_level_0_tables", "Tables in level 0.", |tree| {
            tree.tables_by_level.first().copied().unwrap_or(0)
        });
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl Stats {
    /// The figures in the text format of Prometheus, for a program that serves them.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// db.put("apple", "red")?;
    /// let text = db.stats()?.prometheus();
    /// assert!(text.contains("\nesker_operations_total{operation=\"write\"} 1\n"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn prometheus(&self) -> String {
        let mut text = Text(String::new());
        text.operations(self);
        text.waits(self);
        text.singles(self);
        text.trees(self);
        text.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_trees_are_escaped() {
        let tree = TreeStats { name: "a\"b\\c\nd".to_owned(), table_entries: 3, ..TreeStats::default() };
        let text = Stats { trees: vec![tree], ..Stats::default() }.prometheus();
        assert!(text.contains("esker_tree_table_entries{tree=\"a\\\"b\\\\c\\nd\"} 3\n"), "{text}");
    }
}
