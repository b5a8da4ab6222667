//! Records a scan in the statistics of its store. Each seek of a cursor is a scan there.

use std::sync::Arc;

use crate::blob::BlobSet;
use crate::operators::MergeOperators;
use crate::state::{PassedKeys, TreeInner};
use crate::trace::{Metrics, Notes, Operation, Subject, perf_context};

/// The store that a scan reads. The scan keeps it open.
pub(crate) trait Scanned: Send + Sync {
    fn metrics(&self) -> &Metrics;

    fn operators(&self) -> &MergeOperators;

    fn blobs(&self) -> &Arc<BlobSet>;

    /// Reads have paid for a copy of the memtable of `tree` without the entries that no reader sees.
    fn clean(&self, tree: &Arc<TreeInner>);

    /// Reads may have paid for a merge of the tables of `tree` where they have passed most.
    fn merge_passed(&self, tree: &Arc<TreeInner>);
}

/// Measures one scan, or one after the other. When one ends, its notes are recorded as one operation.
pub(crate) struct ScanMeter {
    store: Arc<dyn Scanned>,
    tree: Arc<TreeInner>,
    /// When the scan began, if it is timed. Cleared when its first entry has been looked for.
    began_ns: Option<u64>,
    /// The waits and reads of the scan's steps, and how many nanoseconds these steps took.
    noted: Option<Box<(Notes, u64)>>,
    passed: Passed,
}

/// After this many entries of tables that are not pairs, a scan notes its position. The entries that it passes between
/// two positions cost little.
const PLACES_APART: u64 = if cfg!(debug_assertions) { 8 } else { 64 };

/// How many entries a scan has passed that were not pairs.
#[derive(Debug, Default)]
struct Passed {
    all: u64,
    /// How many of them were in memtables since the last report to the tree.
    in_memory: u64,
    /// How many of them were in tables, since the same report.
    in_tables: u64,
    /// The range of keys of the latter, if there were several.
    keys: Option<Box<PassedKeys>>,
}

impl ScanMeter {
    pub(crate) fn begin(store: Arc<dyn Scanned>, tree: &Arc<TreeInner>) -> ScanMeter {
        let mut meter = ScanMeter::silent(store, tree);
        meter.count();
        meter
    }

    /// For work that is not a scan of its own, or not yet.
    pub(crate) fn silent(store: Arc<dyn Scanned>, tree: &Arc<TreeInner>) -> ScanMeter {
        ScanMeter { store, tree: Arc::clone(tree), began_ns: None, noted: None, passed: Passed::default() }
    }

    /// Ends one scan and begins another.
    #[inline]
    pub(crate) fn begin_again(&mut self) {
        if self.noted.is_some() {
            self.record();
        }
        if self.passed.in_memory > 0 || self.passed.in_tables > 0 {
            self.tell_passed();
        }
        self.count();
    }

    #[inline]
    fn count(&mut self) {
        let metrics = self.store.metrics();
        self.began_ns = metrics.count(Operation::Scan).then(|| metrics.clock.monotonic_ns());
    }

    fn record(&mut self) {
        if let Some(noted) = self.noted.take() {
            let subject = || Subject::of(&self.tree.name, &[]);
            self.store.metrics().add(Operation::Scan, noted.1, &noted.0, subject);
        }
    }

    /// Counts an entry of `key` that is not a pair. Returns how many there were.
    #[inline]
    pub(crate) fn pass(&mut self, is_in_memory: bool, key: &[u8]) -> u64 {
        self.pay(is_in_memory, key);
        self.passed.all += 1;
        self.passed.all
    }

    /// Notes an entry of `key` that would cost nothing after a cleaning or a merge.
    #[inline]
    pub(crate) fn pay(&mut self, is_in_memory: bool, key: &[u8]) {
        let passed = &mut self.passed;
        if is_in_memory {
            passed.in_memory += 1;
        } else {
            passed.in_tables += 1;
            if passed.in_tables.is_multiple_of(PLACES_APART) {
                passed.keys.get_or_insert_default().reach(key);
            }
        }
    }

    /// Reports to the tree the entries that were passed in vain since the last call.
    fn tell_passed(&mut self) {
        let passed = &mut self.passed;
        let (in_memory, in_tables) =
            (std::mem::take(&mut passed.in_memory), std::mem::take(&mut passed.in_tables));
        if in_memory > 0 && self.tree.passed_cost.note(in_memory, self.tree.state.load().mem.table.len()) {
            self.store.clean(&self.tree);
        }
        let Some(keys) = passed.keys.as_mut().filter(|_| in_tables >= PLACES_APART) else { return };
        keys.passed = in_tables;
        if self.tree.passed_in_tables.note(keys) {
            self.store.merge_passed(&self.tree);
        }
        keys.clear();
    }

    /// How many entries that are not pairs were passed.
    pub(crate) fn passed(&self) -> u64 {
        self.passed.all
    }

    /// Whether filters of the tree's tables may have prefixes of keys.
    pub(crate) fn has_filter_prefix(&self) -> bool {
        self.tree.has_filter_prefix()
    }

    pub(crate) fn store(&self) -> &dyn Scanned {
        &*self.store
    }

    /// Runs `work`, a part of the scan, and collects its notes.
    pub(crate) fn measured<T>(&mut self, work: impl FnOnce() -> T) -> T {
        perf_context::begin();
        let done = work();
        if perf_context::are_there() {
            self.note();
        }
        done
    }

    /// Collects the notes of a step that has just ended.
    #[cold]
    pub(crate) fn note(&mut self) {
        let new = perf_context::take();
        let took = self.store.metrics().clock.monotonic_ns().saturating_sub(new.began_ns);
        let (sum, sum_took) = &mut **self.noted.get_or_insert_default();
        sum.add(&new);
        *sum_took += took;
    }

    /// Records the latency until the first entry was looked for.
    pub(crate) fn has_begun(&mut self) {
        if let Some(began) = self.began_ns.take() {
            let took = self.store.metrics().clock.monotonic_ns().saturating_sub(began);
            self.store.metrics().add_latency(Operation::Scan, took);
        }
    }
}

impl Drop for ScanMeter {
    fn drop(&mut self) {
        self.record();
        if self.passed.in_memory > 0 || self.passed.in_tables > 0 {
            self.tell_passed();
        }
    }
}
