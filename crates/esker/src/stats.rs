//! Figures about the store.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::finding::Finding;
use crate::trace::{OperationStats, WaitStats};
use crate::version::edit::TableInfo;

mod prometheus;

/// Counts since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    flushes: AtomicU64,
    flushed_bytes: AtomicU64,
    merges: AtomicU64,
    merged_bytes_in: AtomicU64,
    merged_bytes_out: AtomicU64,
    rule_drops: AtomicU64,
    rule_panics: AtomicU64,
}

fn bytes_of(tables: &[TableInfo]) -> u64 {
    tables.iter().map(|table| table.size).sum()
}

impl Counters {
    pub(crate) fn note_flush(&self, tables: &[TableInfo]) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.flushed_bytes.fetch_add(bytes_of(tables), Ordering::Relaxed);
    }

    pub(crate) fn note_merge(&self, bytes_in: u64, tables: &[TableInfo]) {
        self.merges.fetch_add(1, Ordering::Relaxed);
        self.merged_bytes_in.fetch_add(bytes_in, Ordering::Relaxed);
        self.merged_bytes_out.fetch_add(bytes_of(tables), Ordering::Relaxed);
    }

    /// Compaction rules have dropped entries in a flush or a merge.
    pub(crate) fn note_rule_drops(&self, dropped: u64) {
        self.rule_drops.fetch_add(dropped, Ordering::Relaxed);
    }

    /// A compaction rule has panicked.
    pub(crate) fn note_rule_panic(&self) {
        self.rule_panics.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn fill(&self, stats: &mut Stats) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        stats.flushes = read(&self.flushes);
        stats.flushed_bytes = read(&self.flushed_bytes);
        stats.merges = read(&self.merges);
        stats.merged_bytes_in = read(&self.merged_bytes_in);
        stats.merged_bytes_out = read(&self.merged_bytes_out);
        stats.rule_drops = read(&self.rule_drops);
        stats.rule_panics = read(&self.rule_panics);
    }
}

/// The state of a store at one moment. Figures are in bytes unless the name says otherwise. Counts begin when the store
/// is opened.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Each tree, by name.
    pub trees: Vec<TreeStats>,
    /// Table files in use. A shared file counts once.
    pub table_files: u64,
    /// Table files held open.
    pub open_tables: u64,
    /// The space that all files in the store's directory take on the disk, including other programs' files, and files
    /// in directories that a backup or a repair has made in it. It counts like `du`, without the directories themselves
    /// and without directories that others have made there.
    pub disk_bytes: u64,
    /// Log segments on disk, spare ones included.
    pub log_bytes: u64,
    /// The part of the log that recovery would have to read.
    pub log_live_bytes: u64,
    /// The manifest and its copy.
    pub manifest_bytes: u64,
    /// Whether the manifest has its copy. A copy that could not be written is tried again.
    pub manifest_copied: bool,
    /// How far the clock by which values expire is ahead of the machine's clock, in microseconds; 0 for less than a
    /// second. The machine's clock was that far ahead once: the store's clock never goes back.
    pub clock_ahead_us: u64,
    /// How often the machine's clock has leapt by a second or more, or the machine was suspended, since the store was opened;
    /// and 1 if the clock was set back or set right before, since the last opening.
    pub clock_leaps: u64,
    /// Blob files.
    pub blob_files: u64,
    /// Huge values that are needed: the newest ones, and those that snapshots see.
    pub blob_values: u64,
    /// The space that blob files take on the disk.
    pub blob_disk_bytes: u64,
    /// The reserve for a full disk.
    pub reserve_bytes: u64,
    /// Memory of memtables.
    pub memtable_bytes: u64,
    /// Memory of the buffer pool's blocks.
    pub pool_bytes: u64,
    /// The capacity of the buffer pool.
    pub pool_capacity: u64,
    /// Memory of open tables' filters and indexes.
    pub table_memory: u64,
    /// Block reads that the buffer pool answered.
    pub pool_hits: u64,
    /// Block reads that went to the file.
    pub pool_misses: u64,
    /// Open snapshots.
    pub snapshots: u64,
    /// Syncs of log segments.
    pub log_syncs: u64,
    /// Flushes of memtables.
    pub flushes: u64,
    /// Bytes that flushes wrote.
    pub flushed_bytes: u64,
    /// Merges of tables, without moves.
    pub merges: u64,
    /// Bytes that merges read.
    pub merged_bytes_in: u64,
    /// Bytes that merges wrote.
    pub merged_bytes_out: u64,
    /// Entries that compaction rules have dropped.
    pub rule_drops: u64,
    /// Panics of compaction rules. Each flush or merge was done again without the rule.
    pub rule_panics: u64,
    /// The total delay of writers because merges had fallen behind, in microseconds.
    pub throttled_us: u64,
    /// Log records that the opening replayed.
    pub replayed_records: u64,
    /// Whether the log ended in a torn record when the store was opened. That record was never acknowledged as synced,
    /// and was dropped.
    pub replayed_torn_tail: bool,
    /// Operations by kind, and how long they took.
    pub operations: Vec<OperationStats>,
    /// The waits of operations, and their reads from files, by cause.
    pub waits: Vec<WaitStats>,
    /// Bytes that scrubs have read: in the background and by [`Db::scrub`](crate::Db::scrub).
    pub scrubbed_bytes: u64,
    /// How many scrubs have read everything.
    pub scrubs: u64,
    /// The damaged places that the last complete scrub and the running ones have found. At most 200.
    pub damage: Vec<Finding>,
    /// The error that stopped background work, if any. Writes fail until the store is opened again or, on a full disk,
    /// until the disk has room.
    pub failure: Option<String>,
}

impl Stats {
    /// The fraction of block reads that the buffer pool answered, from 0 to 1; `None` before the first block read.
    pub fn pool_hit_rate(&self) -> Option<f64> {
        let reads = self.pool_hits + self.pool_misses;
        (reads > 0).then(|| self.pool_hits as f64 / reads as f64)
    }
}

/// The figures of one tree. Entries include older versions and tombstones until these are merged away.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct TreeStats {
    /// Its name.
    pub name: String,
    /// Its tag.
    pub tag: Option<String>,
    /// The compaction rule that it names.
    pub rule: Option<String>,
    /// Whether this opening has not registered that rule. Then all entries are kept.
    pub rule_is_missing: bool,
    /// Entries in memtables.
    pub memtable_entries: u64,
    /// Entries in tables.
    pub table_entries: u64,
    /// Tombstones among the entries in tables.
    pub tombstones: u64,
    /// Range tombstones that may still hide entries.
    pub range_tombstones: u64,
    /// Bytes of keys and values in tables, before compression.
    pub raw_bytes: u64,
    /// Bytes of table files; of shared files only this tree's part.
    pub table_bytes: u64,
    /// Bytes of filters in table files. Only the tree's own tables count.
    pub filter_bytes: u64,
    /// Bytes of block indexes in table files. Only the tree's own tables count.
    pub index_bytes: u64,
    /// Tables in each level, level 0 first.
    pub tables_by_level: Vec<u64>,
    /// Bytes in each level, level 0 first.
    pub bytes_by_level: Vec<u64>,
}
