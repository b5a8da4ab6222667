//! The open store behind every handle: its parts, how they change together, and its background work.
//!
//! Locks, in the order in which they may be taken:
//! 1. `Closing::outcome`: one thread closes the store, others wait;
//! 2. `backing_up`, `reshaping`, `compacting`, `flushing`: one backup, one change of a tree as a whole, one merge and
//!    one flush at a time; then `TreeInner::below_level_0`;
//! 3. the round of [`BlobGc`], `Reclaim::state`, `Scrub::background`: one round of giving space back, one step of
//!    rewriting a blob file and one step of scrubbing at a time;
//! 4. `versions` ([`VersionSet`]): the manifest, and the trees that follow from it; held while an edit is made durable;
//! 5. the commit lock ([`Commit`]): sequence, log tail, which memtable takes writes.
//!
//! Reads take none of them. `docs/architecture.md` lists the locks below these.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::{Mutex, MutexGuard};

use crate::blob::BlobSet;
use crate::blob::gc::BlobGc;
use crate::cache::BufferPool;
use crate::compact::output::TableMaker;
use crate::compact::queue::CompactionQueue;
use crate::env::{Env, Executor, JobKind, SteadyClock, Worker};
use crate::error::{Error, Result};
use crate::flush::FlushQueue;
use crate::fs::DirLock;
use crate::health::Health;
use crate::io_budget::IoBudget;
use crate::log::replay::ReplayReport;
use crate::log::wal::Wal;
use crate::options::Options;
use crate::read::snapshots::SnapshotRegistry;
use crate::space::Space;
use crate::state::versions::{VersionSet, Versions};
use crate::stats::{Counters, Stats};
use crate::trace::Metrics;
use crate::version::tables::TableRegistry;
use crate::write::commit::Commit;
use crate::write::throttle::Throttle;

mod admission;
mod apply;
mod at_work;
mod background;
mod blob_gc;
mod closing;
pub(crate) mod compaction;
mod drop_tree;
mod expiry;
mod export_import;
mod flush;
mod gc_rounds;
mod ingest;
mod install;
mod log_space;
mod log_sync;
mod new_blobs;
mod obsolete;
mod owner;
mod ranges;
mod reclaim;
mod scrub;
mod shrink;
mod split;
mod survivors;
mod volatile;
mod write;
mod write_pause;

use closing::Closing;
pub(crate) use export_import::{Imported, ImportedBlobs};
pub(crate) use ingest::Ingested;
pub(crate) use owner::Owner;
use reclaim::Reclaim;
use scrub::Scrub;
use shrink::Idle;

/// How many retired log segments are kept for reuse.
const SPARE_SEGMENTS: usize = 8;
/// How many are kept on a full disk.
const SPARE_WHEN_FULL: usize = 1;

/// See the module's comment.
#[derive(Debug)]
pub(crate) struct Store {
    /// Identifies this opening of the store.
    id: u64,
    env: Env,
    dir: PathBuf,
    options: Options,
    health: Health,
    commit: Commit,
    wal: Wal,
    versions: VersionSet,
    snapshots: SnapshotRegistry,
    /// The clock by which values expire.
    clock: SteadyClock,
    registry: Arc<TableRegistry>,
    pool: Arc<BufferPool>,
    blobs: Arc<BlobSet>,
    blob_gc: BlobGc,
    reclaim: Reclaim,
    scrub: Scrub,
    idle: Idle,
    throttle: Throttle,
    io_budget: IoBudget,
    counters: Counters,
    metrics: Arc<Metrics>,
    replayed: ReplayReport,
    tables: Arc<TableMaker>,
    /// Held while a tree changes as a whole: an ingest, a split, an import, an export, a drop.
    reshaping: Mutex<()>,
    /// How often trees were split. It rises before the tree takes writes again.
    splits: AtomicU64,
    flushing: Mutex<()>,
    compacting: Mutex<()>,
    /// Held by the thread that removes obsolete tables. Others wait for it.
    removing: Mutex<()>,
    /// Held during a backup.
    backing_up: Mutex<()>,
    immutable: FlushQueue,
    compactions: CompactionQueue,
    executor: Arc<dyn Executor>,
    closing: Closing,
    space: Space,
    lock: Mutex<Option<Arc<dyn DirLock>>>,
}

/// The parts that the opening of a store has made.
pub(crate) struct Parts {
    pub(crate) id: u64,
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) read_only: bool,
    /// The latest known time of the store's clock, in microseconds since 1970.
    pub(crate) clock_us: u64,
    pub(crate) commit: Commit,
    pub(crate) wal: Wal,
    pub(crate) versions: Versions,
    pub(crate) registry: Arc<TableRegistry>,
    pub(crate) pool: Arc<BufferPool>,
    pub(crate) blobs: Arc<BlobSet>,
    pub(crate) replayed: ReplayReport,
    pub(crate) next_file: Arc<AtomicU64>,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) space: Space,
    /// `None` for a store whose opener holds the lock itself.
    pub(crate) lock: Option<Arc<dyn DirLock>>,
}

impl Store {
    pub(crate) fn new(parts: Parts) -> Arc<Store> {
        let compactions = CompactionQueue::new(parts.versions.trees());
        let clock = SteadyClock::new(Arc::clone(&parts.options.env.clock), parts.clock_us);
        let tables = Arc::new(TableMaker {
            env: parts.options.env.clone(),
            dir: parts.dir.clone(),
            next_file: parts.next_file,
            block_bytes: parts.options.block_bytes,
            direct: parts.options.direct_io,
            pool: Arc::clone(&parts.pool),
            gate: Arc::clone(&parts.blobs.gate),
        });
        Arc::new(Store {
            id: parts.id,
            env: parts.options.env.clone(),
            health: Health::new(parts.dir.clone(), parts.read_only),
            dir: parts.dir,
            io_budget: IoBudget::new(Arc::clone(&parts.options.env.clock), parts.options.background_io),
            options: parts.options,
            commit: parts.commit,
            wal: parts.wal,
            versions: VersionSet::new(parts.versions),
            snapshots: SnapshotRegistry::default(),
            clock,
            registry: parts.registry,
            pool: parts.pool,
            metrics: Arc::clone(&parts.blobs.metrics),
            blob_gc: BlobGc::new(&parts.blobs),
            blobs: parts.blobs,
            reclaim: Reclaim::default(),
            scrub: Scrub::default(),
            idle: Idle::default(),
            throttle: Throttle::default(),
            counters: Counters::default(),
            replayed: parts.replayed,
            tables,
            reshaping: Mutex::new(()),
            splits: AtomicU64::new(0),
            flushing: Mutex::new(()),
            compacting: Mutex::new(()),
            removing: Mutex::new(()),
            backing_up: Mutex::new(()),
            immutable: FlushQueue::default(),
            compactions,
            executor: parts.executor,
            closing: Closing::default(),
            space: parts.space,
            lock: Mutex::new(parts.lock),
        })
    }

    /// Begins the background work.
    pub(crate) fn start(self: &Arc<Self>) -> Result<()> {
        if !self.health.is_read_only() {
            let weak: std::sync::Weak<dyn Worker> = Arc::<Store>::downgrade(self);
            self.executor.start(weak)?;
            JobKind::ALL.iter().for_each(|&job| self.executor.notify(job));
        }
        Ok(())
    }

    // ---- the parts, for handles and maintenance --------------------------------------------------------

    /// Identifies this opening of the store.
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    #[inline]
    pub(crate) fn env(&self) -> &Env {
        &self.env
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
    pub(crate) fn commit(&self) -> &Commit {
        &self.commit
    }

    #[inline]
    pub(crate) fn wal(&self) -> &Wal {
        &self.wal
    }

    #[inline]
    pub(crate) fn versions(&self) -> &VersionSet {
        &self.versions
    }

    #[inline]
    pub(crate) fn snapshots(&self) -> &SnapshotRegistry {
        &self.snapshots
    }

    /// The clock by which values expire.
    #[inline]
    pub(crate) fn clock(&self) -> &SteadyClock {
        &self.clock
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

    /// What the opening found in the log.
    #[inline]
    pub(crate) fn replayed(&self) -> &ReplayReport {
        &self.replayed
    }

    /// Waits until no other thread makes a backup, or an export to another file system, and keeps others from it.
    pub(crate) fn begin_backup(&self) -> MutexGuard<'_, ()> {
        self.backing_up.lock()
    }

    /// Puts what the store has counted into `stats`.
    pub(crate) fn fill_stats(&self, stats: &mut Stats) {
        stats.throttled_us = self.throttle.slept_us();
        self.scrub.fill(stats);
        self.counters.fill(stats);
    }

    // ---- waiting and progress ----------------------------------------------------------------------

    /// Fails if nothing in the store can be changed or made durable. A full disk is no reason.
    pub(crate) fn check_changeable(&self) -> Result<()> {
        self.health.check()?;
        self.commit.check()
    }

    /// Fails if the store is closing or closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.health.check_open()
    }

    /// Whether the store was opened for reading only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.health.is_read_only()
    }

    /// What stopped the background work, if anything did.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.health.failure()
    }

    /// Bytes that are set aside for a full disk.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.space.reserve().held()
    }

    /// Bytes of the memtables that wait for a flush.
    pub(crate) fn immutable_bytes(&self) -> usize {
        self.immutable.bytes()
    }

    /// There may be work in `job`.
    pub(crate) fn notify(&self, job: JobKind) {
        self.executor.notify(job);
    }

    /// Whether merges and the rewriting of files of huge values are not to be held up.
    pub(super) fn is_urgent(&self) -> bool {
        self.health.is_closing() || self.throttle.is_slowing() || self.health.has_failed()
    }
}
