//! The open store behind every handle: what it holds, how its parts change together, its background work.
//!
//! Locks, in the order in which they may be taken:
//! 1. `Closing::outcome`: one thread closes the store, others wait;
//! 2. `backing_up`, `reshaping`, `compacting`, `flushing`: one backup, one change of a tree as a whole, one merge and one flush
//!    at a time; then `TreeInner::below_level_0`;
//! 3. `Ending::round`, `Reclaim::state`, `Scrub::background`: one round of giving space back, one step of writing a blob file
//!    anew and one of scrubbing at a time;
//! 4. `versions` ([`VersionSet`]): the manifest, and the trees that follow from it; held while an edit is made durable;
//! 5. the commit lock ([`Commit`]): sequence, log tail, which memtable takes writes.
//!
//! Reads take none of them. `docs/architecture.md` has those below them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex};

use crate::blob::BlobSet;
use crate::cache::BufferPool;
use crate::compact::output::TableMaker;
use crate::env::{Env, Executor, Lane, SteadyClock, Worker};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::DirLock;
use crate::log::replay::ReplayReport;
use crate::log::wal::Wal;
use crate::options::Options;
use crate::read::moments::SnapshotRegistry;
use crate::state::TreeInner;
use crate::state::versions::{VersionSet, Versions};
use crate::stats::Counters;
use crate::trace::Metrics;
use crate::version::edit::TreeId;
use crate::version::tables::TableRegistry;
use crate::write::commit::{Commit, poisoned};
use crate::write::throttle::Throttle;

mod background;
mod blobs;
mod closing;
mod debt;
mod drop_tree;
mod erase;
mod expiry;
mod flush;
mod hindered;
mod hold;
mod ingest;
mod install;
pub(crate) mod merge;
mod new_blobs;
mod owner;
mod pace;
mod port;
mod ranges;
mod reclaim;
pub(crate) mod reserve;
mod room;
mod scrub;
mod shares;
mod shrink;
mod split;
mod stuck;
mod survivors;
mod volatile;
mod write;

pub(crate) use blobs::Ending;
use closing::Closing;
use expiry::ExpiryWatch;
use flush::Waiting;
use hindered::Hindered;
pub(crate) use ingest::Ingested;
use owner::AtWork;
pub(crate) use owner::Owner;
use pace::Pace;
pub(crate) use port::{Imported, ImportedBlobs};
use reclaim::Reclaim;
use reserve::{Reserve, is_full, with_reserve};
use room::Sizes;
use scrub::Scrub;
use shrink::Idle;
use stuck::Stuck;

/// Retired log segments that are kept for reuse.
const SPARE_SEGMENTS: usize = 8;
/// The same on a full disk.
const SPARE_WHEN_FULL: usize = 1;

/// See the module's comment.
#[derive(Debug)]
pub(crate) struct Store {
    /// Tells the handles of different open stores apart.
    pub(crate) id: u64,
    pub(crate) env: Env,
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) read_only: bool,
    pub(crate) commit: Commit,
    pub(crate) wal: Wal,
    pub(crate) versions: VersionSet,
    pub(crate) snapshots: SnapshotRegistry,
    /// By which values expire.
    pub(crate) clock: SteadyClock,
    /// When a table is due to be merged for what has expired in it.
    expiry: ExpiryWatch,
    pub(crate) registry: Arc<TableRegistry>,
    pub(crate) pool: Arc<BufferPool>,
    pub(crate) blobs: Arc<BlobSet>,
    pub(crate) ending: Ending,
    reclaim: Reclaim,
    pub(crate) scrub: Scrub,
    idle: Idle,
    sizes: Sizes,
    stuck: Stuck,
    pub(crate) throttle: Throttle,
    pace: Pace,
    pub(crate) counters: Counters,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) replayed: ReplayReport,
    pub(crate) tables: Arc<TableMaker>,
    /// One tree at a time is changed as a whole: something is ingested, or it is split.
    reshaping: Mutex<()>,
    /// How often trees were split. Raised before the tree takes writes again.
    splits: AtomicU64,
    pub(crate) flushing: Mutex<()>,
    pub(crate) compacting: Mutex<()>,
    /// One thread at a time removes obsolete tables, and others wait for it.
    removing: Mutex<()>,
    /// One backup at a time.
    pub(crate) backing_up: Mutex<()>,
    /// Bytes of the memtables that wait to be flushed.
    pub(crate) waiting_bytes: AtomicUsize,
    /// Memtables set aside, oldest first.
    waiting: Mutex<Vec<Waiting>>,
    candidates: Mutex<BTreeMap<TreeId, Arc<TreeInner>>>,
    /// Signalled when background work has made progress or failed; guards nothing but the wait.
    progress: (Mutex<()>, Condvar),
    executor: Arc<dyn Executor>,
    /// What stopped the background work, if anything did.
    failure: Mutex<Option<Error>>,
    /// What it lacks for a moment, if anything.
    hindered: Hindered,
    closing: Closing,
    pub(crate) reserve: Reserve,
    lock: Mutex<Option<Arc<dyn DirLock>>>,
}

/// What opening a store has put together.
pub(crate) struct Parts {
    pub(crate) id: u64,
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) read_only: bool,
    /// What the store's clock is known to have shown, in microseconds since 1970.
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
    pub(crate) reserve: Reserve,
    /// `None` for a store whose opener holds the lock itself.
    pub(crate) lock: Option<Arc<dyn DirLock>>,
}

impl Store {
    pub(crate) fn new(parts: Parts) -> Arc<Store> {
        let candidates = parts.versions.trees().map(|tree| (tree.id, Arc::clone(tree))).collect();
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
            dir: parts.dir,
            sizes: Sizes::new(&parts.options),
            stuck: Stuck::default(),
            options: parts.options,
            read_only: parts.read_only,
            commit: parts.commit,
            wal: parts.wal,
            versions: VersionSet::new(parts.versions),
            snapshots: SnapshotRegistry::default(),
            clock,
            expiry: ExpiryWatch::default(),
            registry: parts.registry,
            pool: parts.pool,
            metrics: Arc::clone(&parts.blobs.metrics),
            blobs: parts.blobs,
            ending: Ending::default(),
            reclaim: Reclaim::default(),
            scrub: Scrub::default(),
            idle: Idle::default(),
            throttle: Throttle::default(),
            pace: Pace::default(),
            counters: Counters::default(),
            replayed: parts.replayed,
            tables,
            reshaping: Mutex::new(()),
            splits: AtomicU64::new(0),
            flushing: Mutex::new(()),
            compacting: Mutex::new(()),
            removing: Mutex::new(()),
            backing_up: Mutex::new(()),
            waiting_bytes: AtomicUsize::new(0),
            waiting: Mutex::new(Vec::new()),
            candidates: Mutex::new(candidates),
            progress: (Mutex::new(()), Condvar::new()),
            executor: parts.executor,
            failure: Mutex::new(None),
            hindered: Hindered::default(),
            closing: Closing::default(),
            reserve: parts.reserve,
            lock: Mutex::new(parts.lock),
        })
    }

    /// Begins the background work.
    pub(crate) fn start(self: &Arc<Self>) -> Result<()> {
        if !self.read_only {
            let weak: std::sync::Weak<dyn Worker> = Arc::<Store>::downgrade(self);
            self.executor.start(weak)?;
            Lane::ALL.iter().for_each(|&lane| self.executor.notify(lane));
        }
        Ok(())
    }

    // ---- waiting and progress ----------------------------------------------------------------------

    /// Waits until `done`, running the background work itself where nobody else does. Fails when that lacks descriptors or
    /// memory meanwhile.
    pub(crate) fn wait_until(&self, done: impl Fn() -> bool) -> Result<()> {
        let times = self.hindered.times();
        if self.executor.is_stepped() {
            while !done() {
                self.check_writable()?;
                if !Lane::ALL.iter().any(|&lane| self.run_one(lane)) && !done() {
                    let error = self.failure().or_else(|| self.hindered.since(times));
                    return Err(error.unwrap_or_else(poisoned));
                }
            }
            return Ok(());
        }
        let mut guard = self.progress.0.lock();
        while !done() {
            self.check_writable()?;
            if let Some(error) = self.hindered.since(times) {
                return Err(error);
            }
            self.progress.1.wait(&mut guard);
        }
        Ok(())
    }

    fn signal_progress(&self) {
        drop(self.progress.0.lock());
        self.progress.1.notify_all();
    }

    /// Why the store takes no puts, if it does not.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_changeable()?;
        match self.failure() {
            Some(_) if self.has_space() => self.resume()?,
            // What is free now, and not what was free at first.
            Some(_) => return Err(self.full_error(0)),
            None => {}
        }
        Ok(())
    }

    /// Why nothing in the store can be changed or made durable, if so. A full disk is no reason.
    pub(crate) fn check_changeable(&self) -> Result<()> {
        if self.is_closing() {
            return Err(self.closed_error());
        }
        if self.read_only {
            return Err(Error::new(ErrorKind::ReadOnly, "the store was opened for reading only"));
        }
        match self.failure() {
            Some(error) if error.kind() != ErrorKind::OutOfSpace => Err(error),
            _ => self.commit.check(),
        }
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closing() { Err(self.closed_error()) } else { Ok(()) }
    }

    /// The memtables that wait to be flushed, oldest first.
    pub(crate) fn waiting_memtables(&self) -> Vec<Waiting> {
        self.waiting.lock().iter().filter(|(tree, _)| !tree.is_dropped()).cloned().collect()
    }

    /// Forgets the memtables of a tree that was dropped.
    pub(crate) fn forget_waiting(&self, tree: &Arc<TreeInner>) {
        let mut waiting = self.waiting.lock();
        let mine = |other: &Waiting| Arc::ptr_eq(&other.0, tree);
        let bytes: usize = waiting.iter().filter(|w| mine(w)).map(|(_, mem)| mem.table.memory()).sum();
        waiting.retain(|w| !mine(w));
        self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        drop(waiting);
        self.signal_progress();
    }

    /// Sets every memtable aside and returns when all that waited are flushed.
    pub(crate) fn flush(&self) -> Result<()> {
        self.check_changeable()?;
        self.versions.trees().iter().for_each(|tree| self.set_aside(tree, 0));
        while self.flush_some().map_err(|error| self.failed(error))? {}
        Ok(())
    }

    fn flush_some(&self) -> Result<bool> {
        let _at_work = AtWork::on(self);
        let flush = || with_reserve(&self.reserve, || flush::flush_some(self));
        flush().or_else(|error| {
            if !is_full(&error) {
                return Err(error);
            }
            // A merge under way may have taken the reserve: it gives back more at its end.
            let hurry = self.hurry();
            let _no_merge = self.compacting.lock();
            drop(hurry);
            self.remove_obsolete()?;
            flush()
        })
    }

    /// Flushes, merges every tree into its bottom level, and removes what is no longer used; a store in which little is
    /// left gets as small as it is.
    pub(crate) fn compact(&self) -> Result<()> {
        self.flush()?;
        let _at_work = AtWork::on(self);
        for tree in self.versions.trees().iter().filter(|tree| !tree.is_dropped()) {
            match with_reserve(&self.reserve, || merge::compact_all(self, tree)) {
                Err(error) if is_full(&error) => {
                    // The reserve is filled up.
                    self.remove_obsolete()?;
                    return Err(self.full_for_merge(tree));
                }
                merged => merged?,
            }
        }
        self.shrink()?;
        self.remove_obsolete()
    }
}
