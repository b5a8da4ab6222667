//! Handles that keep blobs alive: of a blob that is not committed yet, of one that is being written, and of one that is
//! being read.

use std::sync::Arc;

use super::gc::{InTable, Stage};
use super::{BlobSet, Entry, LiveFile, Pointer, SingleWriter, key_hash};
use crate::env::JobKind;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{DirLock, Mapping, UserFile, no_wait};
use crate::trace::{Cause, Operation, Step, Subject, perf_context};

/// Reads of at least this many bytes take long enough to be timed one by one.
const NOTED_FROM: u64 = 64 << 10;

/// A value or a further reference that is not committed yet. Dropped uncommitted, it counts as unwritten.
#[derive(Debug)]
pub(crate) struct NewBlob {
    pub(crate) pointer: Pointer,
    /// Keeps its bytes until this is dropped.
    pub(crate) pin: Arc<Pin>,
    committed: bool,
}

impl NewBlob {
    pub(super) fn new(set: &Arc<BlobSet>, live: Arc<LiveFile>, entry: &Entry) -> NewBlob {
        live.values.lock().pin_new(entry.ordinal);
        let pointer = entry.pointer(live.id);
        let pin = Arc::new(Pin { set: Arc::clone(set), live, ordinal: entry.ordinal });
        NewBlob { pointer, pin, committed: false }
    }

    /// The reference of `pointer` to a value that `pin` keeps.
    pub(super) fn copied(pointer: Pointer, pin: Pin) -> NewBlob {
        NewBlob { pointer, pin: Arc::new(pin), committed: false }
    }

    /// Notes that the log names the blob, in a record that ends at position `end` ([`VOLATILE`]: a table will name it).
    /// `None` if it is unknown whether the log names it.
    pub(crate) fn commit(&mut self, end: Option<u64>) {
        self.committed = true;
        self.pin.live.values.lock().commit(&self.pointer, end);
    }

    /// Undoes the commit: the value counts as unwritten when this is dropped.
    pub(crate) fn withdraw(&mut self) {
        self.commit(None);
        self.committed = false;
    }
}

impl Drop for NewBlob {
    fn drop(&mut self) {
        if !self.committed {
            let set = &self.pin.set;
            set.unwritten.lock().push(self.pointer);
            set.executor.notify(JobKind::Blobs);
        }
    }
}

/// The log position of a write that skips the log: it is never on the disk.
pub(crate) const VOLATILE: u64 = u64::MAX;

impl BlobSet {
    /// Notes that tables name these values. This makes the values count. Returns the changes.
    pub(crate) fn note_in_tables(&self, pointers: &[Pointer]) -> Vec<(Arc<LiveFile>, InTable)> {
        let put = |pointer: &Pointer| {
            let live = self.get(pointer.file)?;
            let change = live.values.lock().put_in_table(pointer)?;
            Some((live, change))
        };
        pointers.iter().filter_map(put).collect()
    }

    /// Undoes [`BlobSet::note_in_tables`] after the tables have failed.
    pub(crate) fn note_not_in_tables(&self, changed: &[(Arc<LiveFile>, InTable)]) {
        changed.iter().for_each(|(live, change)| live.values.lock().undo_in_table(change));
    }
}

/// A value that is being written to its own file. If it is dropped unfinished, it removes the file.
#[derive(Debug)]
pub(crate) struct BlobStream {
    pub(super) set: Arc<BlobSet>,
    pub(super) writer: Option<SingleWriter>,
}

impl BlobStream {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let _inside = self.set.gate.enter()?;
        self.writer.as_mut().map_or(Ok(()), |writer| writer.write(bytes, &*self.set.executor))
    }

    pub(crate) fn share(&mut self, source: &UserFile, len: u64) -> Result<u64> {
        let _inside = self.set.gate.enter()?;
        self.writer.as_mut().map_or(Ok(0), |writer| writer.share(source, len))
    }

    pub(crate) fn finish(mut self, tree: u32, key: &[u8]) -> Result<NewBlob> {
        let set = Arc::clone(&self.set);
        let _inside = set.gate.enter()?;
        let now = set.env.clock.wall_us();
        let ended = || Error::new(ErrorKind::InvalidInput, "the value has ended");
        let finished = self.writer.take().ok_or_else(ended)?.finish(tree, key, now)?;
        let live = LiveFile::begun(&finished.blob, &finished.file);
        let mut values = live.values.lock();
        values.add(finished.entry.ordinal);
        values.seal();
        drop(values);
        self.set.insert(Arc::clone(&live));
        self.set.filter.add(key_hash(tree, key));
        Ok(NewBlob::new(&self.set, live, &finished.entry))
    }
}

impl Drop for BlobStream {
    fn drop(&mut self) {
        let Some(writer) = self.writer.take() else { return };
        match self.set.gate.enter() {
            Ok(_inside) => drop(writer),
            Err(_) => writer.leave(),
        }
    }
}

/// Keeps a blob's bytes in place until it is dropped.
#[derive(Debug)]
pub(crate) struct Pin {
    pub(super) set: Arc<BlobSet>,
    pub(crate) live: Arc<LiveFile>,
    pub(super) ordinal: u64,
}

impl Pin {
    /// Copies the pinned blob of `pointer` to `target` as far as blocks can be shared. Returns how many bytes.
    pub(crate) fn copy_to(&self, pointer: &Pointer, target: &UserFile) -> Result<u64> {
        self.measured(pointer.len, || self.live.readable()?.copy_to(pointer, target))
    }

    pub(crate) fn map(self: &Arc<Self>, pointer: &Pointer, verify: bool) -> Result<PinnedMap> {
        let lock = self.set.locked()?;
        let bytes = self.measured(pointer.len, || self.live.readable()?.map(pointer, verify))?;
        Ok(PinnedMap { bytes, _pin: Arc::clone(self), _lock: lock })
    }

    /// Starts to read the pinned blob of `pointer` from the disk, if it is not in memory.
    pub(crate) fn ask_ahead(&self, pointer: &Pointer) {
        if let Ok(file) = self.live.readable() {
            file.ask_ahead_of(pointer);
        }
    }

    /// Fills `buf` with bytes of the pinned blob of `pointer`, from `offset` on.
    pub(crate) fn read_at(&self, pointer: &Pointer, offset: u64, buf: &mut [u8]) -> Result<()> {
        let executor = &*self.set.executor;
        self.measured(buf.len() as u64, || self.live.readable()?.read_at(pointer, offset, buf, executor))
    }

    /// Appends `len` bytes of the pinned blob of `pointer`, from `offset` on, to `out`.
    pub(crate) fn append_to(
        &self,
        pointer: &Pointer,
        offset: u64,
        len: u64,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let executor = &*self.set.executor;
        self.measured(len, || self.live.readable()?.append_to(pointer, offset, len, out, executor))
    }

    /// Runs and measures `read`, which reads `len` bytes of the value. Fails if the store was closed meanwhile: before
    /// the close the pin has kept the bytes, but a later opening of the store does not know the pin.
    fn measured<T>(&self, len: u64, read: impl FnOnce() -> Result<T>) -> Result<T> {
        no_wait::check()?;
        let metrics = &self.set.metrics;
        metrics
            .measure(Operation::Value, Subject::none, || {
                perf_context::step(|| Step::Value { bytes: len });
                if len >= NOTED_FROM {
                    perf_context::expect(&*metrics.clock);
                    perf_context::note(Cause::Values, 0, len);
                }
                read()
            })
            .and_then(|read| self.set.check_open().map(|()| read))
    }
}

impl BlobSet {
    /// Notes the lock of the directory. Maps of values hold it too.
    pub(crate) fn note_lock(&self, lock: Arc<dyn DirLock>) {
        *self.lock.lock() = Some(lock);
    }

    /// The lock of the directory, for a map or a copy that outlives the store.
    pub(crate) fn locked(&self) -> Result<Option<Arc<dyn DirLock>>> {
        let lock = self.lock.lock().clone();
        // A close sets `closed` first and takes the lock out after that.
        self.check_open().map(|()| lock)
    }
}

/// A blob's bytes in place. While it lives, they are not given back: the store has them pinned, and the lock keeps
/// other openings out.
#[derive(Debug)]
pub(crate) struct PinnedMap {
    // Dropped in this order.
    pub(crate) bytes: Mapping,
    _pin: Arc<Pin>,
    _lock: Option<Arc<dyn DirLock>>,
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut values = self.live.values.lock();
        let Some(stage) = values.unpin(self.ordinal) else { return };
        let is_freed = stage == Stage::Freed;
        // A file that has only unreferenced values is removed when none of them is pinned.
        let is_worth_a_round = is_freed || (values.are_unreferenced() && !values.is_pinned());
        drop(values);
        if is_freed {
            self.set.unpinned.lock().push((self.live.id, self.ordinal));
        }
        if is_worth_a_round {
            self.set.executor.notify(JobKind::Blobs);
        }
    }
}
