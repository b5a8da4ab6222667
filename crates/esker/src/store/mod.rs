//! The open store that all handles use: its parts, and its background work.
//!
//! ```text
//! Store        closes, and divides the background work among the parts
//!   Scrub                    reads all files now and then
//!   WritePath  Reshaper      writes; ingests, splits, drops, exports, imports
//!   Collector  Compactor     gives back the space of huge values; merges tables
//!   Flusher                  turns memtables into tables; prepares log segments; shrinks an idle store
//!   Installer                makes edits durable and visible, and queues the work that they make due
//!   GarbageFinder            finds overwritten huge values, and builds the edits of blob files
//!   Disk                     admits writes while the disk has room; removes obsolete files
//!   CommitLog                the commit pipeline, and syncs of the log
//!   Core                     what every part needs: options, files, clock, health
//! ```
//!
//! A part calls only parts below it, which it has as fields. One exception: where no thread does the background work, a
//! thread that waits for it in `Disk::wait_until` does it, through `Core::work_here`.
//!
//! Locks, in the order in which they may be taken:
//! 1. `Closing::outcome`: one thread closes the store, others wait;
//! 2. `Store::backing_up`, `Reshaper::reshaping`: one backup and one change of a tree as a whole at a time; then
//!    `Installer::merging`, which all merges share, and `Flusher::flushing`: one flush at a time; then
//!    `Compactor::choosing`, and `TreeInner::merging`: which merges of a tree run;
//! 3. the round of [`BlobGc`](crate::blob::gc::BlobGc), `Collector::reclaim`, `Scrub::background`: one round of giving
//!    space back, one step of rewriting a blob file and one step of scrubbing at a time;
//! 4. `versions` ([`VersionSet`]): the manifest, and the trees that follow from it; held while an edit is made durable;
//! 5. the commit lock ([`Commit`]): sequence, log tail, which memtable takes writes.
//!
//! Reads take none of these locks. `docs/threads.md` of this crate lists the locks below these.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};

use crate::env::Worker;
use crate::error::Result;
use crate::finding::CheckReport;
use crate::fs::DirLock;
use crate::log::replay::ReplayReport;
use crate::log::wal::Wal;
use crate::space::Space;
use crate::state::versions::{VersionSet, Versions};
use crate::stats::Stats;
use crate::write::commit::Commit;

mod alone;
mod around;
mod at_work;
mod background;
mod closing;
mod collector;
mod commit_log;
mod compactor;
mod core;
mod disk;
mod flusher;
mod garbage_finder;
mod installer;
mod owner;
mod reshaper;
mod scrub;
mod survivors;
mod write_path;

pub(crate) use self::core::Core;
use closing::Closing;
use collector::Collector;
use commit_log::CommitLog;
use compactor::Compactor;
use disk::Disk;
use flusher::Flusher;
use garbage_finder::GarbageFinder;
use installer::Installer;
pub(crate) use owner::Owner;
use reshaper::Reshaper;
pub(crate) use reshaper::{Imported, ImportedBlobs, ImportedTree, Ingested, SplitAt, Whole};
use scrub::Scrub;
pub(crate) use write_path::Placed;
use write_path::WritePath;

/// See the module's comment.
pub(crate) struct Store {
    core: Arc<Core>,
    log: Arc<CommitLog>,
    disk: Arc<Disk>,
    finder: Arc<GarbageFinder>,
    installer: Arc<Installer>,
    flusher: Arc<Flusher>,
    compactor: Compactor,
    collector: Arc<Collector>,
    writes: WritePath,
    reshaper: Reshaper,
    scrub: Scrub,
    versions: Arc<VersionSet>,
    replayed: ReplayReport,
    /// Held during a backup.
    backing_up: Mutex<()>,
    closing: Closing,
    /// `None` for a store whose opener holds the lock itself.
    lock: Mutex<Option<Arc<dyn DirLock>>>,
}

impl Store {
    pub(crate) fn new(
        core: Arc<Core>,
        (commit, wal): (Commit, Wal),
        versions: Versions,
        space: Space,
        replayed: ReplayReport,
        lock: Option<Arc<dyn DirLock>>,
    ) -> Arc<Store> {
        let versions = Arc::new(VersionSet::new(versions));
        let log = Arc::new(CommitLog::new(&core, commit, wal));
        let disk = Arc::new(Disk::new(&core, &log, &versions, space));
        let finder = Arc::new(GarbageFinder::new(&core, &log));
        let installer = Arc::new(Installer::new(&core, &log, &disk, &finder, &versions));
        let flusher = Arc::new(Flusher::new(&core, &log, &disk, &finder, &installer, &versions));
        let compactor = Compactor::new(&core, &log, &disk, &installer, &flusher, &versions);
        let collector =
            Arc::new(Collector::new(&core, &log, &disk, &finder, &installer, &flusher, &versions));
        let writes = WritePath::new(&core, &log, &disk, &installer, &flusher, &collector);
        let reshaper = Reshaper::new(&core, &log, &finder, &installer, &flusher, &versions);
        let scrub = Scrub::new(&core, &versions);
        let (closing, backing_up, lock) = (Closing::default(), Mutex::new(()), Mutex::new(lock));
        Arc::new(Store {
            core,
            log,
            disk,
            finder,
            installer,
            flusher,
            compactor,
            collector,
            writes,
            reshaper,
            scrub,
            versions,
            replayed,
            backing_up,
            closing,
            lock,
        })
    }

    /// Begins the background work.
    pub(crate) fn start(self: &Arc<Self>) -> Result<()> {
        if !self.core.health.is_read_only() {
            self.core.start(Arc::<Store>::downgrade(self) as Weak<dyn Worker>)?;
        }
        Ok(())
    }

    // ---- the parts, for handles and maintenance --------------------------------------------------------

    #[inline]
    pub(crate) fn log(&self) -> &CommitLog {
        &self.log
    }

    #[inline]
    pub(crate) fn commit(&self) -> &Commit {
        self.log.commit()
    }

    #[inline]
    pub(crate) fn wal(&self) -> &Wal {
        self.log.wal()
    }

    #[inline]
    pub(crate) fn disk(&self) -> &Disk {
        &self.disk
    }

    #[inline]
    pub(crate) fn finder(&self) -> &GarbageFinder {
        &self.finder
    }

    #[inline]
    pub(crate) fn installer(&self) -> &Installer {
        &self.installer
    }

    #[inline]
    pub(crate) fn flusher(&self) -> &Flusher {
        &self.flusher
    }

    #[inline]
    pub(crate) fn compactor(&self) -> &Compactor {
        &self.compactor
    }

    #[inline]
    pub(crate) fn writes(&self) -> &WritePath {
        &self.writes
    }

    #[inline]
    pub(crate) fn reshaper(&self) -> &Reshaper {
        &self.reshaper
    }

    #[inline]
    pub(crate) fn versions(&self) -> &VersionSet {
        &self.versions
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

    /// Reads everything now, and reports the damage.
    pub(crate) fn scrub(&self) -> Result<CheckReport> {
        self.scrub.run()
    }

    /// Puts the store's counters into `stats`.
    pub(crate) fn fill_stats(&self, stats: &mut Stats) {
        stats.memtable_bytes += self.installer.immutable().bytes() as u64;
        stats.throttled_us = self.core.throttle.slept_us();
        self.scrub.fill(stats);
        self.core.counters.fill(stats);
    }

    /// Bytes that are set aside for a full disk.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.disk.space().reserve().held()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("dir", &self.core.dir).finish_non_exhaustive()
    }
}

/// What every part needs, handles find on the store itself.
impl Deref for Store {
    type Target = Core;

    #[inline]
    fn deref(&self) -> &Core {
        &self.core
    }
}
