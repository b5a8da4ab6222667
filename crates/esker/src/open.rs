//! Opens a store: lock, manifest, replay of the log, a fresh log.
//!
//! ```text
//! lock -> manifest -> log segments from the manifest's floor on -> memtables
//!      -> new manifest (same state) -> fresh segment -> flush -> floor := fresh segment -> old files go
//! ```
//!
//! Everything that was replayed is durable in tables before the caller gets the store. Nothing is ever appended to a
//! replayed segment or manifest (rule 2). After a crash at any point the old log still counts, because the edit that
//! moves the floor is the one that names the tables.
//!
//! If the disk has no room for this, the opening gives up the store's reserve (rule 23). If there is still little room,
//! it works through the log a few segments at a time: `room`.
//!
//! A store that is opened for reading only replays the log into memory and writes nothing (rule 22). Its own log is a
//! scratch log in memory that no thread writes to.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::blob::{BlobFileId, BlobSet};
use crate::canary::broken;
use crate::cursor::SeqNo;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::events::{Began, event};
use crate::fs::gone::remove_for_good;
use crate::fs::{DirLock, FileSystem, LockMode, MemoryFs, give_back_free_memory};
use crate::log::replay::{LogFloor, ReplayReport, Segments};
use crate::log::segment::is_shared;
use crate::log::wal::{History, LogTail, Wal, is_usual_len};
use crate::memtable::{ChunkPool, Memtable};
use crate::options::{Options, TreeOptions};
use crate::space::Space;
use crate::state::versions::{Surroundings, VersionEdit, Versions};
use crate::store::{Core, Owner, Store};
use crate::version::edit::{Edit, ManifestState};
use crate::version::manifest::{Manifest, manifest_path, read_manifest};
use crate::version::tables::table_path;
use crate::write::commit::Commit;
use crate::write::lookups::Lookup;

mod blob_files;
mod directory;
mod history;
mod listing;
mod replay;
mod room;
mod strays;

use directory::{check_directory, resolve};
pub(crate) use listing::{
    BACKUP_DIR, LOCK_FILE, Listing, OwnDir, QUARANTINE, clear_backup_dir, remove_own_dir,
};
use strays::Strays;

pub(crate) const DEFAULT_TREE: &str = "default";

/// From this many trees on, memory that replay used for their memtables is given back to the system. For 10,000 trees
/// of a kilobyte that is 40 MB, which the allocator would keep.
const MANY_TREES: usize = 1000;

pub(crate) fn open(dir: &Path, mut options: Options, read_only: bool) -> Result<Arc<Owner>> {
    options.check()?;
    let began = Began::now(&*options.env.clock);
    let create = options.create && !read_only;
    options.env = resolve(&options.env, dir, create)?;
    let env = options.env.clone();
    check_directory(&env, dir, create)?;
    let mode = if read_only { LockMode::Shared } else { LockMode::Exclusive };
    let lock: Arc<dyn DirLock> = Arc::from(env.fs.lock(&dir.join(LOCK_FILE), mode)?);
    let mut found = OnDisk::read(&env, dir)?;
    if options.direct_io {
        check_direct(&env, dir, &found.listing)?;
    }
    if !read_only && found.listing.has_backup_dir {
        // Its links would keep the space of removed tables and freed huge values. If anything else is there, it stays,
        // and the next backup reports that.
        match clear_backup_dir(&env, dir) {
            Err(error) if error.kind() == ErrorKind::InvalidInput => {}
            cleared => drop(cleared?),
        }
    }
    if !read_only && room::make(dir, &options, &found)? {
        found = OnDisk::read(&env, dir)?;
    }
    // In a simulation, the same seed then gives the same store, regardless of earlier writes of this thread.
    Memtable::begin_heights(found.state.identity);
    let purpose = if read_only { Purpose::Read } else { Purpose::Write };
    let opening = Opening::new(dir, &options, &found, purpose)?;
    let replayed = opening.replay(&found.segments, &found.state)?;
    let store = opening.finish(found, replayed, purpose, Some(Arc::clone(&lock)))?;
    store.blobs().note_lock(lock);
    store.start()?;
    event!(INFO, "opened", {
        path: dir.display().to_string(),
        read_only: read_only,
        records: store.replayed().records,
        bytes: store.replayed().bytes,
        trees: store.versions().trees().len(),
        took_us: began.took_us(&*store.env().clock),
    });
    Ok(Owner::of(store))
}

/// Refuses a store whose tables cannot be read and written with direct I/O. Tries this with an existing file.
fn check_direct(env: &Env, dir: &Path, listing: &Listing) -> Result<()> {
    let file = match listing.manifest() {
        0 => dir.join(LOCK_FILE),
        number => manifest_path(dir, number),
    };
    match env.fs.open_direct(&file) {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            let message = format!("{}: open the store without `direct_io`, or move it", error.message());
            Err(Error::new(ErrorKind::Unsupported, message).at(dir))
        }
        tried => tried.map(drop),
    }
}

/// The contents of a store's directory and the state in its manifest.
pub(crate) struct OnDisk {
    pub(crate) listing: Listing,
    pub(crate) segments: Segments,
    pub(crate) state: ManifestState,
}

impl OnDisk {
    pub(crate) fn read(env: &Env, dir: &Path) -> Result<OnDisk> {
        let listing = Listing::read(env, dir)?;
        let paths = listing.segments.iter().map(|(_, path)| path.clone()).collect();
        let segments = Segments::open(&*env.fs, dir, paths)?;
        let state = match listing.manifest() {
            0 => ManifestState {
                next_file: 1,
                next_tree: 1,
                identity: env.random.next_u64(),
                ..ManifestState::default()
            },
            number => {
                let known = segments.manifest_synced(number);
                if segments.paths.is_empty() {
                    return Err(Error::corruption(dir, 0, "every log segment is missing"));
                }
                read_manifest(env, &manifest_path(dir, number), known)?.state
            }
        };
        Ok(OnDisk { listing, segments, state })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Read,
    Write,
    /// Only to make the first part of the log durable in tables.
    Shorten,
}

/// A store that is being opened.
struct Opening {
    core: Arc<Core>,
    unneeded: blob_files::Unneeded,
    /// Writes that may have overwritten a huge value.
    lookups: RefCell<Vec<Lookup>>,
    versions: Versions,
}

struct Replayed {
    report: ReplayReport,
    next_seq: SeqNo,
    /// The number that the log would give to the next write by counting.
    log_seq: SeqNo,
}

impl Opening {
    fn new(dir: &Path, options: &Options, found: &OnDisk, purpose: Purpose) -> Result<Opening> {
        let OnDisk { listing, state, .. } = found;
        let read_only = purpose == Purpose::Read;
        check_tables(dir, listing, state)?;
        let next_file = state.next_file.max(listing.next_file());
        let core = Core::new(dir, options.clone(), read_only, next_file, state.clock.clone());
        let versions = Versions::recover(
            state,
            Surroundings {
                store: core.id(),
                registry: Arc::clone(core.registry()),
                blobs: Arc::clone(core.blobs()),
                chunks: Arc::new(ChunkPool::new(options.memtable_limit())),
            },
        );
        let unneeded = blob_files::find(core.blobs(), core.env(), dir, listing, state, read_only)?;
        Ok(Opening { core, unneeded, lookups: RefCell::default(), versions })
    }

    fn finish(
        self,
        mut found: OnDisk,
        replayed: Replayed,
        purpose: Purpose,
        lock: Option<Arc<dyn DirLock>>,
    ) -> Result<Arc<Store>> {
        let Opening { core, mut versions, .. } = self;
        let (env, dir, options, blobs) = (core.env(), core.dir(), core.options(), core.blobs());
        let mut blobs_to_go: BTreeSet<BlobFileId> = self.unneeded.files.iter().copied().collect();
        if purpose == Purpose::Write {
            // `Shorten` does not know which blobs the rest of the log names.
            blobs_to_go.append(&mut self.unneeded.damaged.take());
        }
        let unclaimed = unclaimed(self.unneeded, blobs, purpose);
        let (mut state, read_only) = (std::mem::take(&mut found.state), purpose == Purpose::Read);
        let (found, listing) = (&found, &found.listing);
        let reuse = match purpose {
            Purpose::Write => reusable(env, found, &replayed.report, options.segment_len_max())?,
            Purpose::Read | Purpose::Shorten => None,
        };
        let fresh = fresh_floor(&replayed, state.floor, reuse.is_some());
        if !read_only {
            if replayed.report.records == 0 {
                state.floor = fresh;
            }
            core.note_offset(&mut state.clock);
            state.next_file = core.tables().next_file.load(Ordering::Relaxed);
            state.last_seq = state.last_seq.max(replayed.next_seq - 1);
        }
        let at = (fresh, replayed.log_seq);
        let (wal, tail, kept) = start_log(env, dir, options, found, purpose, at, reuse)?;
        if read_only {
            // Readers see an empty default tree if the store has none.
            versions.show(default_tree(&versions).as_slice());
        } else {
            let unneeded = Strays::find(found, dir, &state, &blobs_to_go, &kept);
            // If the end of the manifest was lost, the log may still have times.
            for tree in versions.trees().filter(|tree| tree.operand_times.are_noted()) {
                state.trees.entry(tree.id).and_modify(|record| record.operand_times = true);
            }
            let manifest = Manifest::create(env, dir, listing.manifest() + 1, state)?;
            let (number, len) = manifest.synced();
            wal.mark_manifest(number, len)?;
            versions.go_on_with(manifest);
            // This makes room for the next steps.
            unneeded.remove(env, dir)?;
        }
        let space = Space::find(options, dir, &blobs.gate, purpose == Purpose::Write)?;
        let commit = Commit::new(replayed.next_seq, replayed.log_seq, tail);
        let store = Store::new(core, (commit, wal), versions, space, replayed.report, lock);
        if !read_only {
            store.finder().adopt_garbage(unclaimed)?;
            self.lookups.into_inner().into_iter().for_each(|lookup| store.commit().lookups.add(lookup));
            complete(&store, fresh)?;
            conclude(&store, listing, &kept)?;
            if purpose == Purpose::Write {
                store.compactor().merge_what_was_left();
            }
        }
        Ok(store)
    }
}

/// The blobs to free, because neither the manifest nor the log names them.
fn unclaimed(unneeded: blob_files::Unneeded, set: &BlobSet, purpose: Purpose) -> Vec<(BlobFileId, u64)> {
    match purpose {
        Purpose::Write if broken("rule-13") => Vec::new(),
        Purpose::Write => unneeded.blobs.into_iter().chain(blob_files::never_named(set)).collect(),
        // `Shorten` does not know which blobs the rest of the log names. A reader frees nothing.
        Purpose::Shorten | Purpose::Read => Vec::new(),
    }
}

/// The new log, and the files of the old log that must not be removed.
fn start_log(
    env: &Env,
    dir: &Path,
    options: &Options,
    found: &OnDisk,
    purpose: Purpose,
    at: (LogFloor, SeqNo),
    reuse: Option<(PathBuf, u64)>,
) -> Result<(Wal, LogTail, BTreeSet<PathBuf>)> {
    let (log_env, history) = match purpose {
        Purpose::Write => (env.clone(), history::left(env, dir, options, &found.segments, at.0)?),
        Purpose::Read | Purpose::Shorten => (scratch(env, dir)?, Vec::new()),
    };
    let kept = reuse.iter().map(|(path, _)| path).chain(history.iter().map(|(_, path, _)| path));
    let kept = kept.cloned().collect();
    let history = History::of(history, at.0.start, options.log_history);
    let number = found.listing.segments.iter().map(|(number, _)| number + 1).max().unwrap_or(1);
    let (wal, tail) = Wal::start(&log_env, dir, options.segment_len_max(), number, at, reuse, history)?;
    Ok((wal, tail, kept))
}

/// The number of the new segment, and the log position at which it starts.
fn fresh_floor(replayed: &Replayed, floor: LogFloor, reused: bool) -> LogFloor {
    let last = replayed.report.last_id.max(floor.segment);
    LogFloor { segment: if reused { last } else { last + 1 }, start: replayed.report.position }
}

/// The file of the last segment, if nothing was written to it and it has no second name. Reusing it takes no space. An
/// opening that was killed leaves such a file.
fn reusable(
    env: &Env,
    found: &OnDisk,
    report: &ReplayReport,
    len_max: u64,
) -> Result<Option<(PathBuf, u64)>> {
    found.segments.sync_unused(&*env.fs)?;
    let Some(path) = &report.untouched else { return Ok(None) };
    let len = env.fs.file_len(path)?;
    // A copy of the store may have holes, into which a store through the mapping could fail.
    let is_whole = env.fs.allocated_bytes(path)? >= len;
    let suits = is_whole && is_usual_len(len, len_max) && !is_shared(&*env.fs, path)?;
    Ok(suits.then(|| (path.clone(), len)))
}

/// The environment of a store that is opened for reading only, with a scratch file system for its log.
fn scratch(env: &Env, dir: &Path) -> Result<Env> {
    if broken("rule-22") {
        return Ok(env.clone());
    }
    let scratch = MemoryFs::new();
    scratch.create_dir_all(dir)?;
    Ok(Env { fs: Arc::new(scratch), ..env.clone() })
}

/// Refuses a store that lacks a table in its manifest.
fn check_tables(dir: &Path, listing: &Listing, state: &ManifestState) -> Result<()> {
    for (tree, _, file) in state.tables.keys() {
        if listing.tables.binary_search(file).is_err() {
            let name = state.trees.get(tree).map_or("", |record| record.name.as_str());
            let message = format!("a table of the tree \"{name}\" is missing");
            return Err(Error::corruption(&table_path(dir, *file), 0, message));
        }
    }
    Ok(())
}

fn default_tree(versions: &Versions) -> Option<Edit> {
    let (tree, name) = (versions.next_tree(), DEFAULT_TREE.to_owned());
    let is_missing = versions.find(DEFAULT_TREE).is_none();
    is_missing.then(|| Edit::CreateTree { tree, name, options: TreeOptions::default() })
}

/// Removes the replayed segments except `kept`, gives back memory that only the replay needed, and begins the reserve.
fn conclude(store: &Store, listing: &Listing, kept: &BTreeSet<PathBuf>) -> Result<()> {
    let old = listing.segments.iter().map(|(_, path)| path.clone());
    let is_old = |path: &PathBuf| !kept.contains(path) && !broken("rule-2");
    remove_for_good(&*store.env().fs, store.dir(), &mut old.filter(is_old).collect(), |path: &PathBuf| path)?;
    if store.replayed().records > 0 && store.versions().lock().trees().len() >= MANY_TREES {
        give_back_free_memory();
    }
    store.disk().begin_reserve()
}

/// Makes the replayed records durable, and moves the floor to the fresh segment.
fn complete(store: &Arc<Store>, fresh: LogFloor) -> Result<()> {
    if broken("rule-2") && store.versions().lock().find(DEFAULT_TREE).is_some() {
        return Ok(());
    }
    // Huge values that the log points to become durable before tables do. The log itself counts as synced already.
    store.blobs().sync()?;
    store.flusher().flush()?;
    store.finder().find_overwritten(store.commit().visible())?;
    let mut versions = store.versions().lock();
    let Some(floor) = versions.known().map(|known| known.floor) else { return Ok(()) };
    // Blobs without an owner are freed only once the log that might name them is out of use. Otherwise a second
    // recovery would accept a record whose blob is missing.
    let mut blobs = store.finder().blob_edits_of_opening(&versions);
    let mut edits = blobs.take_edits();
    if floor != fresh {
        edits.push(Edit::Floor(fresh));
    }
    edits.extend(default_tree(&versions));
    let committed = if edits.is_empty() {
        Ok(())
    } else {
        store.installer().apply(&mut versions, &VersionEdit::of(edits))
    };
    drop(versions);
    store.finder().after_blob_edits(blobs, committed.is_ok());
    committed?;
    store.wal().retire(fresh);
    Ok(())
}
