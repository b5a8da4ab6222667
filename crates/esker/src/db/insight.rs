//! Insight into a running store: figures, damage, traces of operations and the causes of slow ones.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::Db;
use crate::env::Env;
use crate::error::{ErrorKind, Result};
use crate::finding::CheckReport;
use crate::fs::gone;
use crate::open::{BACKUP_DIR, Listing};
use crate::space::reserve_path;
use crate::state::TreeInner;
use crate::stats::{Stats, TreeStats};
use crate::trace::perf_context::Recorder;
use crate::trace::{Trace, WhySlow};
use crate::version::levels::LEVELS;

impl Db {
    /// Reads all tables and huge values now, from the files, while others read and write, and reports damage.
    /// [`check`](crate::check) also reads log and manifest, but needs the store for itself. In the background the same
    /// happens once a week ([`Options::scrub_rate`](crate::Options::scrub_rate)). [`Stats::damage`] has the findings of
    /// both.
    ///
    /// # Errors
    /// `Closed`. Damage is not an error: it is in the report.
    pub fn scrub(&self) -> Result<CheckReport> {
        self.store.scrub()
    }

    /// Size of the log segments on disk, in bytes: the same figure as in [`Db::stats`], without the cost of the others. 0 if the
    /// store was opened only for reading.
    pub fn log_bytes(&self) -> u64 {
        if self.store.is_read_only() {
            return 0;
        }
        self.store.wal().disk_bytes() + self.store.commit().lock().tail.segment.end()
    }

    /// Figures about the store's contents and its work since it was opened.
    ///
    /// # Errors
    /// `Io` when a table cannot be opened. Figures that only a damaged table knows are left out.
    pub fn stats(&self) -> Result<Stats> {
        let store = &self.store;
        let mut stats = Stats::default();
        let trees: Vec<Arc<TreeInner>> = {
            let versions = store.versions().lock();
            stats.table_files = versions.table_files() as u64;
            (stats.manifest_bytes, stats.manifest_copied) = match versions.manifest() {
                Some(manifest) => (manifest.disk_bytes(), manifest.has_copy()),
                None => {
                    let listing = Listing::read(store.env(), store.dir())?;
                    let lens = listing.manifest_paths(store.dir()).map(|path| store.env().fs.file_len(&path));
                    (lens.sum::<Result<u64>>()?, listing.copies.contains(&listing.manifest()))
                }
            };
            versions.by_name().map(|(_, tree)| Arc::clone(tree)).collect()
        };
        store.clock().now_us();
        (stats.clock_ahead_us, stats.clock_leaps) = (store.clock().offset_us(), store.clock().leaps());
        for tree in &trees {
            stats.memtable_bytes += tree.mem().table.memory() as u64;
            let mut figures = tree_stats(tree)?;
            figures.rule_is_missing =
                figures.rule.is_some() && !store.options().compaction_rules.has(figures.rule.as_deref());
            stats.trees.push(figures);
        }
        stats.open_tables = store.registry().open_count() as u64;
        stats.log_bytes = if store.is_read_only() {
            let paths = Listing::read(store.env(), store.dir())?.segments;
            let lens = paths.iter().map(|(_, path)| store.env().fs.file_len(path));
            lens.sum::<Result<u64>>()?
        } else {
            self.log_bytes()
        };
        stats.disk_bytes = taken(store.env(), store.dir())?;
        for live in store.blobs().files() {
            stats.blob_files += 1;
            stats.blob_values += live.values.lock().referenced_count();
            // A missing file takes no space.
            stats.blob_disk_bytes +=
                store.env().fs.allocated_bytes(&store.blobs().path_of(live.id)).unwrap_or_default();
        }
        stats.reserve_bytes = if store.is_read_only() {
            // A reader neither uses nor opens it.
            store.env().fs.file_len(&reserve_path(store.dir())).unwrap_or_default()
        } else {
            store.reserved_bytes()
        };
        stats.log_live_bytes = store.commit().published().saturating_sub(store.wal().floor_start());
        stats.pool_bytes = store.pool().used() as u64;
        stats.pool_capacity = store.pool().capacity() as u64;
        stats.table_memory = store.registry().memory() as u64;
        (stats.pool_hits, stats.pool_misses) = store.pool().hits_and_misses();
        stats.snapshots = store.snapshots().count() as u64;
        stats.log_syncs = store.wal().sync_count();
        stats.replayed_records = store.replayed().records;
        stats.replayed_torn_tail = store.replayed().torn.is_some();
        stats.failure = store.failure().map(|error| error.to_string());
        stats.operations = store.metrics().operations();
        stats.waits = store.metrics().waits();
        store.fill_stats(&mut stats);
        Ok(stats)
    }

    /// Runs `work`, and records the work that this store, or any other, does for it on this thread: which memtables and
    /// tables were searched, which filters excluded a key, which blocks came from the buffer pool and which from files,
    /// and the waits. A nested trace records its part alone. Traced calls take some microseconds longer.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// db.put("apple", "red")?;
    /// let (found, trace) = db.trace(|| db.get_vec("apple"));
    /// assert_eq!(found?.as_deref(), Some(&b"red"[..]));
    /// assert_eq!((trace.memtables, trace.file_reads), (1, 0), "{trace}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn trace<T>(&self, work: impl FnOnce() -> T) -> (T, Trace) {
        let (recorder, clock) = (Recorder::begin(), &self.store.env().clock);
        let began = clock.monotonic_us();
        let done = work();
        let mut trace = recorder.end();
        trace.took_us = clock.monotonic_us().saturating_sub(began);
        (done, trace)
    }

    /// The operations of this store that took a millisecond or more in the last ten minutes: how many there were, their
    /// waits and reads, and the slowest of each minute. Printed, it explains why the store is slow.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let why = db.why_slow();
    /// if why.count > 1000 {
    ///     eprintln!("{why}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn why_slow(&self) -> WhySlow {
        self.store.metrics().why_slow()
    }
}

/// The space that all files in the store's directory take on the disk, including files in directories that a backup or
/// a repair has made in it. A file that a backup has only linked counts once.
fn taken(env: &Env, dir: &Path) -> Result<u64> {
    let listing = Listing::read(env, dir)?;
    let staging = listing.has_backup_dir.then(|| dir.join(BACKUP_DIR));
    let allocated = |path: &Path| gone::allocated_bytes(&*env.fs, path);
    let own: BTreeSet<String> = env.fs.list(dir)?.into_iter().collect();
    let mut sum = 0_u64;
    for name in &own {
        sum = sum.saturating_add(allocated(&dir.join(name))?);
    }
    for dir in staging.iter().chain(&listing.quarantines) {
        let is_staging = staging.as_ref() == Some(dir);
        for name in env.fs.list(dir)? {
            let path = dir.join(&name);
            let has_links = || env.fs.link_count(&path).is_ok_and(|names| names > 1);
            let is_counted = is_staging && own.contains(&name) && has_links();
            sum = sum.saturating_add(if is_counted { 0 } else { allocated(&path)? });
        }
    }
    Ok(sum)
}

fn tree_stats(tree: &TreeInner) -> Result<TreeStats> {
    let state = tree.state.load_full();
    let mut stats = TreeStats {
        name: tree.name.clone(),
        tag: tree.tag.lock().clone(),
        rule: tree.options().rule,
        tables_by_level: vec![0; LEVELS],
        bytes_by_level: vec![0; LEVELS],
        ..TreeStats::default()
    };
    let mems = std::iter::once(&state.mem).chain(&state.immutable);
    stats.range_tombstones = state.ranges.list().len() as u64;
    stats.memtable_entries = mems.map(|mem| mem.table.len() as u64).sum();
    for (level, table) in state.levels.tables() {
        stats.table_entries += table.info.entries;
        stats.tombstones += table.info.tombstones;
        stats.raw_bytes += table.info.raw_bytes;
        stats.table_bytes += table.info.size;
        stats.tables_by_level[level] += 1;
        stats.bytes_by_level[level] += table.info.size;
        if table.info.prefix.is_none() && !table.info.clipped {
            let (filter, index) = match table.file.with_reader(|reader| Ok(reader.metadata_bytes())) {
                // An operator needs the other figures all the more then.
                Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::NotFound) => (0, 0),
                lengths => lengths?,
            };
            stats.filter_bytes += filter;
            stats.index_bytes += index;
        }
    }
    Ok(stats)
}
