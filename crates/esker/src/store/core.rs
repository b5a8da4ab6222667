//! What every part of an open store needs: its directory, its options, its files, and the state of its health.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use crate::blob::BlobSet;
use crate::cache::BufferPool;
use crate::compact::output::TableMaker;
use crate::compact::retain::ReadPoints;
use crate::compact::rule::{Scope, later_us};
use crate::env::{Env, Executor, JobKind, Reached, SteadyClock, ThreadExecutor, Worker};
use crate::error::{Error, Result};
use crate::events::event;
use crate::health::Health;
use crate::io_budget::IoBudget;
use crate::options::Options;
use crate::read::snapshots::SnapshotRegistry;
use crate::space;
use crate::state::TreeInner;
use crate::stats::Counters;
use crate::trace::Metrics;
use crate::version::edit::{CLOCK_AHEAD_MAX, Edit};
use crate::version::table_info::{LookAgain, LookNow};
use crate::version::tables::TableRegistry;
use crate::write::throttle::Throttle;

/// See the module's comment.
pub(crate) struct Core {
    /// Identifies this opening of the store.
    pub(super) id: u64,
    pub(super) dir: PathBuf,
    pub(super) options: Options,
    pub(super) health: Health,
    pub(super) executor: Arc<dyn Executor>,
    /// Whether a write that does not wait was refused since the last "try again" call to the listener.
    refused: AtomicBool,
    /// Whether the next write wakes the merge job, which then looks for entries that writes have made dead.
    awaits_write: AtomicBool,
    /// The store, for callers that do its background work themselves.
    worker: OnceLock<Weak<dyn Worker>>,
    /// The clock by which values expire.
    pub(super) clock: SteadyClock,
    pub(super) io_budget: IoBudget,
    pub(super) throttle: Throttle,
    pub(super) counters: Counters,
    pub(super) snapshots: SnapshotRegistry,
    pub(super) registry: Arc<TableRegistry>,
    pub(super) pool: Arc<BufferPool>,
    pub(super) blobs: Arc<BlobSet>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) tables: Arc<TableMaker>,
}

/// Gives each opening of a store in this process its own number.
fn next_store_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Core {
    /// The core of a store in `dir`. The next file gets the number `next_file`. The clock continues from
    /// `reached`.
    pub(crate) fn new(
        dir: &Path,
        options: Options,
        read_only: bool,
        next_file: u64,
        reached: Reached,
    ) -> Arc<Core> {
        let env = &options.env;
        let mapped = 2 * options.segment_len_max() as usize;
        let memtables = space::immutable_max(options.memtable_limit()) + options.memtable_limit();
        let pool_bytes = options.memory().saturating_sub(memtables + mapped).max(options.memory() / 8);
        let pool = Arc::new(BufferPool::new(if options.keeps_blocks { pool_bytes } else { 0 }));
        let registry = TableRegistry::new(&options, dir, Arc::clone(&pool), pool_bytes / 2);
        let default_executor = || Arc::new(ThreadExecutor::new(options.threads)) as Arc<dyn Executor>;
        let executor = env.executor.clone().unwrap_or_else(default_executor);
        let next_file = Arc::new(AtomicU64::new(next_file));
        let (numbers, signal) = (Arc::clone(&next_file), Arc::clone(&executor));
        let blobs = Arc::new(BlobSet::new(env, dir, numbers, signal, Metrics::new(&env.clock), &options));
        let tables = Arc::new(TableMaker {
            env: env.clone(),
            dir: dir.to_path_buf(),
            next_file,
            block_bytes: options.block_bytes,
            direct: options.direct_io,
            pool: Arc::clone(&pool),
            gate: Arc::clone(&blobs.gate),
        });
        Arc::new(Core {
            id: next_store_id(),
            dir: dir.to_path_buf(),
            health: Health::new(dir.to_path_buf(), read_only),
            executor,
            worker: OnceLock::new(),
            clock: SteadyClock::new(Arc::clone(&env.clock), reached),
            io_budget: IoBudget::new(Arc::clone(&env.clock), options.background_io),
            throttle: Throttle::default(),
            counters: Counters::default(),
            snapshots: SnapshotRegistry::default(),
            registry,
            pool,
            metrics: Arc::clone(&blobs.metrics),
            blobs,
            tables,
            refused: AtomicBool::new(false),
            awaits_write: AtomicBool::new(false),
            options,
        })
    }

    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    #[inline]
    pub(crate) fn env(&self) -> &Env {
        &self.options.env
    }

    #[inline]
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    #[inline]
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    #[inline]
    pub(crate) fn clock(&self) -> &SteadyClock {
        &self.clock
    }

    /// The time of `tree`, in microseconds since 1970, as far as its tables know it.
    pub(super) fn time_of(&self, tree: &TreeInner) -> u64 {
        tree.own_time.as_ref().map_or_else(|| self.clock.now_us(), |own| own.flushed())
    }

    /// Whether `tree` names a compaction rule, and this opening has registered it.
    pub(super) fn has_rule_of(&self, tree: &TreeInner) -> bool {
        self.options.compaction_rules.has(tree.options().rule.as_deref())
    }

    /// The scope of a run of the rule of `tree`, whose inputs are to be looked at again at `inherited_us`. `points`
    /// were taken after the run had begun.
    pub(super) fn rule_scope(
        &self,
        tree: &TreeInner,
        points: &ReadPoints,
        inherited_us: Option<u64>,
    ) -> Scope {
        Scope {
            newest_snapshot: self.snapshots.newest_registered(),
            oldest: points.seqs.first().copied().unwrap_or(0),
            visible: points.newest(),
            tree_us: self.time_of(tree),
            clock_us: self.clock.now_us(),
            inherited_us,
        }
    }

    /// How to decide whether a rule is to see tables again whose tree has the time `tree_us`.
    pub(super) fn look_now(&self, tree_us: u64) -> LookNow {
        LookNow {
            tree_us,
            clock_us: self.clock.now_us(),
            newest_snapshot: self.snapshots.newest_registered(),
        }
    }

    /// When the rule of `tree`, if it names one, is to see a table that was made without it.
    pub(super) fn look_later(&self, tree: &TreeInner) -> LookAgain {
        LookAgain::new(tree.options().rule.map(|_| later_us(self.time_of(tree))), None)
    }

    #[inline]
    pub(crate) fn snapshots(&self) -> &SnapshotRegistry {
        &self.snapshots
    }

    #[inline]
    pub(crate) fn registry(&self) -> &Arc<TableRegistry> {
        &self.registry
    }

    #[inline]
    pub(crate) fn pool(&self) -> &Arc<BufferPool> {
        &self.pool
    }

    #[inline]
    pub(crate) fn blobs(&self) -> &Arc<BlobSet> {
        &self.blobs
    }

    #[inline]
    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Makes tables.
    #[inline]
    pub(crate) fn tables(&self) -> &Arc<TableMaker> {
        &self.tables
    }

    /// Does one step of background work on this thread, because the executor has no threads. Returns whether there was
    /// work.
    pub(super) fn work_here(&self) -> bool {
        let worker = self.worker.get().and_then(Weak::upgrade);
        worker.is_some_and(|worker| JobKind::ALL.iter().any(|&job| worker.run_one(job)))
    }

    /// Does one merge on this thread. Returns whether there was one.
    pub(super) fn merge_here(&self) -> bool {
        self.worker.get().and_then(Weak::upgrade).is_some_and(|worker| worker.run_one(JobKind::Compact))
    }

    /// Whether the executor has no threads: work is done only by calls.
    pub(super) fn is_stepped(&self) -> bool {
        self.executor.is_stepped()
    }

    /// There may be work in `job`.
    pub(crate) fn notify(&self, job: JobKind) {
        self.executor.notify(job);
    }

    /// Whether nothing may delay merges and the rewriting of blob files.
    pub(super) fn is_urgent(&self) -> bool {
        self.health.is_closing() || self.throttle.is_slowing() || self.health.has_failed()
    }

    /// The next write wakes the merge job.
    pub(super) fn await_write(&self) {
        self.awaits_write.store(true, Ordering::Relaxed);
    }

    /// Wakes the merge job if it waits for a write.
    #[inline]
    pub(super) fn note_written(&self) {
        if self.awaits_write.load(Ordering::Relaxed) && self.awaits_write.swap(false, Ordering::Relaxed) {
            self.notify(JobKind::Compact);
        }
    }

    /// Notes that a write which does not wait was refused.
    pub(super) fn note_refused(&self) {
        self.refused.store(true, Ordering::SeqCst);
    }

    /// Tells the listener, if writes were refused, that they may be tried again.
    pub(super) fn tell_ready(&self) {
        if self.refused.load(Ordering::SeqCst)
            && self.refused.swap(false, Ordering::SeqCst)
            && let Some(listener) = &self.options.listener
        {
            listener.ready();
        }
    }

    /// Fails if the store is closing or closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.health.check_open()
    }

    /// Whether the store was opened for reading only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.health.is_read_only()
    }

    /// The error that stopped the background work, if it has stopped.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.health.failure()
    }

    /// The edit that records the clock in the manifest.
    pub(super) fn clock_edit(&self) -> Edit {
        Edit::Clock(self.reached_from(0))
    }

    /// The time that the store's clock shows now, and at least `us`.
    pub(crate) fn reached_from(&self, us: u64) -> Reached {
        let mut reached = self.clock.reached().raised(us);
        if self.clock.has_leapt() {
            event!(WARN, "clock leapt", { ahead_us: self.clock.offset_us() });
        }
        reached.us = reached.us.min(CLOCK_AHEAD_MAX);
        reached
    }

    /// Updates `noted` if the store's clock is ahead of the machine's: after a crash too, the next opening is to count the
    /// time since this one.
    pub(crate) fn note_offset(&self, noted: &mut Reached) {
        if self.clock.offset_us() > 0 {
            event!(WARN, "clock ahead", { ahead_us: self.clock.offset_us() });
            *noted = self.reached_from(noted.us);
        }
    }

    /// Begins the background work, which `worker` does.
    pub(super) fn start(&self, worker: Weak<dyn Worker>) -> Result<()> {
        // A store is started once.
        let _ = self.worker.set(Weak::clone(&worker));
        self.executor.start(worker)?;
        JobKind::ALL.iter().for_each(|&job| self.notify(job));
        Ok(())
    }
}
