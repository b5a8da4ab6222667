//! The blob files of an open store: writes values into them, syncs them, and pins values for readers. [`super::gc`] has
//! the life of each value.
//!
//! - A value is appended to a shared file that its writer has borrowed alone. A long value gets its own file. The bytes
//!   are written before the log record that points to them.
//! - `dirty` files hold unsynced bytes that a published record may point to. A sync of the log syncs them first
//!   (rule 4).
//! - An unreferenced value cannot be pinned any more. Its blocks are given back when its last pin is dropped. A reader
//!   that comes too late looks again and finds a newer version.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex, RwLock};

use super::appenders::Appenders;
use super::filter::KeyFilter;
use super::{
    BlobFile, BlobFileId, CHUNK_LOG2, Entry, Handles, Header, Layout, LiveFile, Pin, Pointer, blob_path,
};
use crate::canary::broken;
use crate::env::{Env, Executor, Gate};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{DirLock, ReadFile};
use crate::options::{Durability, Options};
use crate::trace::Metrics;
use crate::version::blob_edits::ORDINALS_MAX;

#[derive(Debug)]
pub(crate) struct BlobSet {
    pub(super) env: Env,
    dir: PathBuf,
    /// Values are written inside this gate. It is shut when the store is closed.
    pub(crate) gate: Arc<Gate>,
    next_file: Arc<AtomicU64>,
    pub(super) executor: Arc<dyn Executor>,
    pub(crate) metrics: Arc<Metrics>,
    /// Whether writers wait for syncs, as far as the store knows.
    pub(super) sync_follows: bool,
    /// A shared file of this many bytes takes no further value.
    pub(super) shared_len_max: u64,
    /// A shared file of this many values takes no further value either: readers take a greater number for damage.
    pub(super) shared_count_max: u64,
    pub(crate) handles: Arc<Handles>,
    files: RwLock<BTreeMap<BlobFileId, Arc<LiveFile>>>,
    pub(super) appenders: Mutex<Appenders>,
    pub(super) returned: Condvar,
    pub(crate) filter: KeyFilter,
    used: AtomicBool,
    /// Whether a new file exists whose name is not durable yet.
    pub(super) new_name: AtomicBool,
    syncing_names: Mutex<()>,
    /// Values whose write has failed, and values whose last handle was dropped.
    pub(super) unwritten: Mutex<Vec<Pointer>>,
    /// Freed values whose last pin was dropped.
    pub(super) unpinned: Mutex<Vec<(BlobFileId, u64)>>,
    /// The error of a failed sync, which is not repeated (rule 8).
    failed: Mutex<Option<Error>>,
    /// How many bytes of values were scheduled for punching since the last call of [`BlobSet::take_punched`] that took
    /// them.
    pub(super) punched: AtomicU64,
    pub(super) syncing: Mutex<()>,
    /// The `dirty` files. With this list, a sync need not look at all files.
    dirty: Mutex<Vec<Arc<LiveFile>>>,
    /// Whether the store is closed: the values of a handle may be gone.
    closed: AtomicBool,
    /// Keeps other openings out of the directory until the store is closed and no map is left.
    pub(super) lock: Mutex<Option<Arc<dyn DirLock>>>,
}

impl BlobSet {
    pub(crate) fn new(
        env: &Env,
        dir: &Path,
        next_file: Arc<AtomicU64>,
        executor: Arc<dyn Executor>,
        metrics: Arc<Metrics>,
        options: &Options,
    ) -> BlobSet {
        BlobSet {
            env: env.clone(),
            dir: dir.to_path_buf(),
            gate: Gate::new(dir),
            next_file,
            executor,
            metrics,
            sync_follows: options.durability == Durability::Power,
            shared_len_max: options.blob_file_bytes,
            shared_count_max: ORDINALS_MAX,
            handles: Handles::new(&env.fs),
            files: RwLock::default(),
            appenders: Mutex::default(),
            returned: Condvar::new(),
            filter: KeyFilter::default(),
            used: AtomicBool::new(false),
            new_name: AtomicBool::new(false),
            syncing_names: Mutex::default(),
            unwritten: Mutex::default(),
            unpinned: Mutex::default(),
            failed: Mutex::default(),
            // How many bytes earlier openings have punched is unknown.
            punched: AtomicU64::new(u64::MAX / 2),
            syncing: Mutex::default(),
            dirty: Mutex::default(),
            closed: AtomicBool::new(false),
            lock: Mutex::default(),
        }
    }

    /// Notes that entries may point to blobs from now on.
    pub(crate) fn note_used(&self) {
        self.used.store(true, Ordering::Release);
    }

    /// Whether any entry may point to a blob.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.used.load(Ordering::Acquire)
    }

    pub(crate) fn insert(&self, live: Arc<LiveFile>) {
        self.note_used();
        if live.unsynced.load(Ordering::Acquire) {
            self.note_dirty(&live);
        }
        self.files.write().insert(live.id, live);
    }

    /// Notes that the file has new bytes that a record may point to.
    pub(super) fn note_dirty(&self, live: &Arc<LiveFile>) {
        live.unsynced.store(true, Ordering::Release);
        if !live.dirty.swap(true, Ordering::AcqRel) {
            self.dirty.lock().push(Arc::clone(live));
        }
    }

    pub(crate) fn get(&self, file: BlobFileId) -> Option<Arc<LiveFile>> {
        self.files.read().get(&file).cloned()
    }

    pub(crate) fn entries(&self, live: &LiveFile) -> Result<Vec<Entry>> {
        let file = live.readable()?;
        if live.values.lock().is_sealed() {
            match file.entries() {
                // The descriptors have the same information.
                Err(error) if error.kind() == ErrorKind::Corruption => {}
                entries => return entries,
            }
        }
        let again = self.env.fs.open_read(&self.path_of(live.id))?;
        Ok(BlobFile::scan(again, live.name())?.1.entries)
    }

    /// Notes that the store is closed. Handles of values that are left cannot be read any more.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.lock.lock().take();
    }

    /// Closes all files. Values that are still held keep their `LiveFile`, without its descriptors.
    pub(crate) fn close_files(&self) {
        let files = std::mem::take(&mut *self.files.write());
        files.values().for_each(|live| live.close(self.closed_error()));
        self.dirty.lock().clear();
        self.appenders.lock().close();
        self.handles.close();
    }

    fn closed_error(&self) -> Error {
        Error::new(ErrorKind::Closed, "the store of this value is closed").at(&self.dir)
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(self.closed_error());
        }
        Ok(())
    }

    pub(crate) fn path_of(&self, file: BlobFileId) -> PathBuf {
        blob_path(&self.dir, file)
    }

    pub(crate) fn files(&self) -> Vec<Arc<LiveFile>> {
        self.files.read().values().cloned().collect()
    }

    /// Removes from the set a file that is no longer part of the store and that no reader uses.
    pub(crate) fn forget(&self, file: BlobFileId) {
        self.files.write().remove(&file);
    }

    // ---- writing -------------------------------------------------------------------------------------

    /// The header of a new file.
    pub(super) fn new_header(&self, layout: Layout) -> Header {
        let mut id = self.next_file.fetch_add(1, Ordering::Relaxed);
        if broken("rule-11") {
            let is_free = |id: &BlobFileId| !self.env.fs.exists(&self.path_of(*id)).unwrap_or(true);
            id = (1..id).find(is_free).unwrap_or(id);
        }
        let (salt, created_us) = (self.env.random.next_u64(), self.env.clock.wall_us());
        Header { layout, chunk_log2: CHUNK_LOG2, number: id, salt, created_us }
    }

    /// Makes everything durable that records published before this call point to.
    pub(crate) fn sync(&self) -> Result<()> {
        // A thread that waits here finds the syncs of the other one done.
        let _one_at_a_time = self.syncing.lock();
        self.check()?;
        self.sync_dirty().inspect_err(|error| self.fail(error))
    }

    pub(super) fn check(&self) -> Result<()> {
        self.failed.lock().as_ref().map_or(Ok(()), |error| Err(error.duplicate()))
    }

    pub(super) fn fail(&self, error: &Error) {
        let message = format!("a sync of a blob file failed ({error}); reopen the store");
        *self.failed.lock() = Some(Error::new(ErrorKind::Poisoned, message));
    }

    fn sync_dirty(&self) -> Result<()> {
        let dirty = std::mem::take(&mut *self.dirty.lock());
        let synced = dirty.iter().try_for_each(|live| {
            // A later write adds the file again. Earlier writes are synced now.
            live.dirty.store(false, Ordering::SeqCst);
            let written = live.written.lock().clone();
            written.map_or(Ok(()), |file| file.sync())?;
            live.unsynced.store(false, Ordering::Release);
            live.close_writer_if_found();
            Ok(())
        });
        // After a failure the rest stays `unsynced`, and no sync is repeated.
        synced?;
        self.sync_names()
    }

    pub(crate) fn sync_names(&self) -> Result<()> {
        // A thread that finds nothing to sync must wait for the one that is syncing.
        let _one_at_a_time = self.syncing_names.lock();
        if self.new_name.swap(false, Ordering::AcqRel) {
            let synced = self.env.fs.sync_dir(&self.dir);
            return synced.inspect_err(|_| self.new_name.store(true, Ordering::Release));
        }
        Ok(())
    }

    // ---- reading -------------------------------------------------------------------------------------

    /// Keeps the value's bytes in place; `None` if no reader can find it any more.
    pub(crate) fn pin(self: &Arc<Self>, pointer: &Pointer) -> Option<Pin> {
        let live = self.get(pointer.file)?;
        let is_pinned = live.values.lock().pin(pointer.ordinal);
        is_pinned.then(|| Pin { set: Arc::clone(self), live, ordinal: pointer.ordinal })
    }

    // ---- giving back ---------------------------------------------------------------------------------

    /// The last reference of the value is gone: from now on it cannot be pinned.
    pub(super) fn unreference(&self, file: BlobFileId, ordinal: u64) {
        if let Some(live) = self.get(file) {
            live.values.lock().unreference(ordinal);
        }
    }

    /// Closes the descriptors of files that are not written any more, if they can be opened again for reading.
    pub(crate) fn close_writers(&self) {
        for live in self.files().iter().filter(|live| live.needs_no_writer()) {
            let Ok(lazy) = self.handles.file(&self.path_of(live.id)) else { continue };
            if let Ok(file) = BlobFile::open_sealed(Arc::clone(&lazy) as Arc<dyn ReadFile>, live.name()) {
                live.read_from(file, lazy);
            }
        }
    }
}
