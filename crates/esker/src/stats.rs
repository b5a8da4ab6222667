//! What the store tells about itself.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::finding::Finding;
use crate::options::CachePolicy;
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

    pub(crate) fn fill(&self, stats: &mut Stats) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        stats.flushes = read(&self.flushes);
        stats.flushed_bytes = read(&self.flushed_bytes);
        stats.merges = read(&self.merges);
        stats.merged_bytes_in = read(&self.merged_bytes_in);
        stats.merged_bytes_out = read(&self.merged_bytes_out);
    }
}

/// The state of a store at one moment. Bytes unless the name says otherwise; counts are since the store
/// was opened.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Each tree, by name.
    pub trees: Vec<TreeStats>,
    /// Table files in use, shared ones once.
    pub table_files: u64,
    /// Table files held open.
    pub open_tables: u64,
    /// What the files in the store's directory take on the disk, whoever put them there, with those in directories that a
    /// backup or a repair has made in it: as `du` counts, without the directories themselves.
    pub disk_bytes: u64,
    /// Log segments on disk, spare ones included.
    pub log_bytes: u64,
    /// Log that recovery would have to read.
    pub log_live_bytes: u64,
    /// The manifest and its copy.
    pub manifest_bytes: u64,
    /// Whether the manifest has its copy: none is there where it could not be written. It is tried again.
    pub manifest_copied: bool,
    /// Files of huge values.
    pub blob_files: u64,
    /// Huge values that something needs: the newest ones, and those that snapshots see.
    pub blob_values: u64,
    /// The space that files of huge values take on the disk.
    pub blob_disk_bytes: u64,
    /// Set aside for a full disk.
    pub reserve_bytes: u64,
    /// Memory of memtables.
    pub memtable_bytes: u64,
    /// Which blocks leave the buffer pool when it is full.
    pub pool_policy: CachePolicy,
    /// Memory of the buffer pool's blocks.
    pub pool_bytes: u64,
    /// What the buffer pool may hold.
    pub pool_capacity: u64,
    /// Memory of open tables' filters and indexes.
    pub table_memory: u64,
    /// Block reads that the pool answered.
    pub pool_hits: u64,
    /// Block reads that went to the file.
    pub pool_misses: u64,
    /// Open snapshots.
    pub snapshots: u64,
    /// Syncs of log segments.
    pub log_syncs: u64,
    /// Flushes of memtables.
    pub flushes: u64,
    /// What they wrote.
    pub flushed_bytes: u64,
    /// Merges of tables (moves are not counted).
    pub merges: u64,
    /// What they read.
    pub merged_bytes_in: u64,
    /// What they wrote.
    pub merged_bytes_out: u64,
    /// Microseconds that writers were held up because merging was behind.
    pub throttled_us: u64,
    /// Records that opening replayed from the log.
    pub replayed_records: u64,
    /// Whether the log ended in a torn record when the store was opened: it was never acknowledged as
    /// synced, and was dropped.
    pub replayed_torn_tail: bool,
    /// Operations by kind, and how long they took.
    pub operations: Vec<OperationStats>,
    /// What operations waited for, and read from files, by cause.
    pub waits: Vec<WaitStats>,
    /// Bytes that were read to find damage, by the background and by [`Db::scrub`](crate::Db::scrub).
    pub scrubbed_bytes: u64,
    /// How often everything was read so.
    pub scrubs: u64,
    /// The damaged places that were found: by the last time through, and the one under way. At most 200.
    pub damage: Vec<Finding>,
    /// What stopped background work, if anything did: writes fail until the store is opened again.
    pub failure: Option<String>,
}

impl Stats {
    /// The part of block reads that the pool answered, from 0 to 1; `None` before the first one.
    pub fn pool_hit_rate(&self) -> Option<f64> {
        let reads = self.pool_hits + self.pool_misses;
        (reads > 0).then(|| self.pool_hits as f64 / reads as f64)
    }
}

/// One tree. Entries count older versions and tombstones until they are merged away.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct TreeStats {
    /// Its name.
    pub name: String,
    /// Its tag.
    pub tag: Option<String>,
    /// Entries in memtables.
    pub memtable_entries: u64,
    /// Entries in tables.
    pub table_entries: u64,
    /// Of these, tombstones.
    pub tombstones: u64,
    /// Deletions of ranges that merges have not passed everywhere yet.
    pub range_tombstones: u64,
    /// Keys and values in tables, before compression.
    pub raw_bytes: u64,
    /// Table files (this tree's parts of shared ones).
    pub table_bytes: u64,
    /// Of these, filters. Only tables of its own are counted.
    pub filter_bytes: u64,
    /// Of these, block indexes. Only tables of its own are counted.
    pub index_bytes: u64,
    /// Tables in each level, level 0 first.
    pub tables_by_level: Vec<u64>,
    /// Bytes in each level, level 0 first.
    pub bytes_by_level: Vec<u64>,
}
