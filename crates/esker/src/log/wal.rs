//! The write-ahead log: a chain of segments, one sync at a time, and the management of segment files.
//!
//! ```text
//!  retired      sealed, synced    sealed            current        spare
//! +--------+   +--------+       +--------+       +--------+      +--------+
//! | reuse  |   | floor  |  ...  | to sync|       | tail-> |      | ready  |
//! +--------+   +--------+       +--------+       +--------+      +--------+
//! ```
//!
//! - The commit lock owns the tail (segment and offset). This file does the syncs; [`files`](super::files) knows the
//!   segment files, and which of them the history keeps below the floor.
//! - [`Wal::sync_to`] is the only path that syncs (group commit). One caller syncs everything published so far,
//!   oldest segment first, on the descriptors that wrote it (rule 3). Callers that arrive meanwhile wait for the next
//!   sync. The first failure poisons the log: no sync is ever retried (rule 8).
//! - A file is reused only after the manifest's floor has passed it (the caller ensures this) and [`History`] has
//!   released it, under a new epoch, and only if it has no second name. Segments start at 256 KiB and double as far as
//!   the disk has room (rule 9).

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

use super::files::{Files, Retired, SEGMENT_LEN_MIN, Sealed};
pub(crate) use super::files::{History, Readable, is_usual_len};
use super::replay::{LogFloor, segment_path};
use super::segment::{RECORDS_AT, Segment, SegmentHeader, SpareSegment, mount_mark};
use crate::canary::broken;
use crate::cursor::SeqNo;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::SyncFile;
use crate::fs::gone::remove_for_good;

/// Records of at least this average length go into bulk segments.
const BULK_RECORD_LEN: u64 = 16 << 10;

/// Where the next record goes. Protected by the commit lock.
#[derive(Debug)]
pub(crate) struct LogTail {
    pub(crate) segment: Arc<Segment>,
    pub(crate) offset: u64,
    /// How many records the segment holds.
    records: u64,
}

impl LogTail {
    /// Whether a record of `len` bytes fits into the current segment.
    pub(crate) fn has_room(&self, len: usize) -> bool {
        self.segment.end() - self.offset >= len as u64
    }

    /// The position in the whole log.
    pub(crate) fn position(&self) -> u64 {
        self.segment.position(self.offset)
    }

    /// Passes the next `len` bytes, which are one record's.
    pub(crate) fn advance(&mut self, len: u64) {
        self.offset += len;
        self.records += 1;
    }

    fn holds_bulk(&self) -> bool {
        self.records > 0 && (self.offset - RECORDS_AT) / self.records >= BULK_RECORD_LEN
    }
}

/// A segment, and the offset after its last record.
#[derive(Debug)]
pub(crate) struct LogPart {
    pub(crate) path: PathBuf,
    pub(crate) end: u64,
}

/// A segment with bytes that may not be synced. The segment is not kept mapped for the sync: syncing a mapped file
/// interrupts every core for every page.
#[derive(Debug, Clone)]
struct UnsyncedSegment {
    id: u64,
    start: u64,
    file: Arc<dyn SyncFile>,
}

impl UnsyncedSegment {
    fn of(segment: &Segment) -> Result<UnsyncedSegment> {
        let SegmentHeader { id, start, .. } = *segment.header();
        Ok(UnsyncedSegment { id, start, file: segment.sync_handle()? })
    }
}

#[derive(Debug, Default)]
struct SyncState {
    /// Segments with bytes that may not be synced, oldest first. The last one is the current segment.
    unsynced: VecDeque<UnsyncedSegment>,
    /// The segment that takes records.
    current: Option<Arc<Segment>>,
    /// The one before it, for [`Wal::unmap_left`]: that takes a third of a millisecond, and a rotation happens under the
    /// commit lock.
    left: Option<Arc<Segment>>,
    syncing: bool,
    failed: Option<Error>,
}

/// The length of a segment that can hold a record of `record_len` bytes.
fn len_for(record_len: usize) -> u64 {
    (RECORDS_AT + record_len as u64).next_multiple_of(RECORDS_AT)
}

#[derive(Debug)]
pub(crate) struct Wal {
    env: Env,
    dir: PathBuf,
    /// [`mount_mark`] of the directory.
    mount: [u8; 16],
    len_max: u64,
    files: Mutex<Files>,
    /// Whether `files` has a spare segment: each write checks it. Written under the lock of `files`.
    has_spare: AtomicBool,
    sync: Mutex<SyncState>,
    sync_done: Condvar,
    /// Everything before this position is durable. Written under `sync`, read without it.
    synced: AtomicU64,
    /// How often a segment was synced.
    syncs: AtomicU64,
    /// The position at which recovery would begin.
    floor_start: AtomicU64,
    /// Whether any thread has waited for a sync since the last rotation.
    waited_for: AtomicBool,
    /// Whether the last segment held large records.
    bulk: AtomicBool,
    /// The position at which this opening of the store began.
    began_at: u64,
}

impl Wal {
    /// A log that continues at `at` with sequence number `first_seq`. It uses a fresh segment file with number
    /// `next_number` (rule 2: never a replayed one) or the file `reuse`, which holds no record of its last use.
    /// `history` ends where the log begins.
    pub(crate) fn start(
        env: &Env,
        dir: &Path,
        len_max: u64,
        next_number: u64,
        (at, first_seq): (LogFloor, SeqNo),
        reuse: Option<(PathBuf, u64)>,
        history: History,
    ) -> Result<(Wal, LogTail)> {
        let wal = Wal {
            env: env.clone(),
            dir: dir.to_path_buf(),
            mount: mount_mark(&*env.fs, dir),
            len_max: len_max.max(SEGMENT_LEN_MIN),
            files: Mutex::new(Files {
                history,
                retired: reuse
                    .into_iter()
                    .map(|(path, len)| Retired { path, len, bulk: false, left: false })
                    .collect(),
                next_number,
                next_len: if broken("rule-9") { len_max } else { SEGMENT_LEN_MIN },
                len_bound: len_max.max(SEGMENT_LEN_MIN),
                ..Files::default()
            }),
            has_spare: AtomicBool::new(false),
            sync: Mutex::default(),
            sync_done: Condvar::new(),
            synced: AtomicU64::new(at.start),
            syncs: AtomicU64::new(0),
            floor_start: AtomicU64::new(at.start),
            waited_for: AtomicBool::new(false),
            bulk: AtomicBool::new(false),
            began_at: at.start,
        };
        wal.prepare_spare(0)?;
        let spare =
            wal.take_spare(0).ok_or_else(|| Error::new(ErrorKind::Io, "the log has no spare segment"))?;
        let segment = Arc::new(Segment::start(spare, wal.header(at.segment, first_seq, at.start))?);
        wal.make_current(&segment, UnsyncedSegment::of(&segment)?);
        Ok((wal, LogTail { segment, offset: RECORDS_AT, records: 0 }))
    }

    fn make_current(&self, segment: &Arc<Segment>, unsynced: UnsyncedSegment) {
        let mut state = self.sync.lock();
        state.unsynced.push_back(unsynced);
        forget_synced(&mut state.unsynced, self.synced());
        state.left = state.current.replace(Arc::clone(segment));
    }

    fn header(&self, id: u64, first_seq: SeqNo, start: u64) -> SegmentHeader {
        let epoch = if broken("rule-6") { 6 } else { self.env.random.next_u64() };
        SegmentHeader { id, epoch, first_seq, start, mount: self.mount }
    }

    /// Ensures that a spare segment with room for a record of `record_len` bytes is ready. This may write for some
    /// time: never call it under the commit lock.
    pub(crate) fn prepare_spare(&self, record_len: usize) -> Result<()> {
        let (retired, len, waited_for, bulk) = {
            let mut files = self.files.lock();
            let Some((len, bulk)) = self.wanted_spare(&files, record_len) else { return Ok(()) };
            let waited_for = self.waited_for.swap(false, Ordering::Relaxed);
            (files.take_retired(len, bulk), len, waited_for, bulk)
        };
        let reused = retired.map_or(Ok(None), |retired| self.reuse(retired, bulk))?;
        let spare = reused.map_or_else(|| self.create(len, bulk), Ok)?;
        if !bulk && !waited_for {
            // Takes the page faults before the writers do. This dirties the pages, so the next sync writes all of them.
            // Do not do this when threads wait for syncs.
            spare.file.warm(0, spare.file.len());
        }
        let mut files = self.files.lock();
        if let Some(smaller) = files.spare.replace(spare) {
            files.retired.push(Retired::of(&smaller));
        }
        self.note_spare(&files);
        drop(files);
        self.unmap_left();
        Ok(())
    }

    /// Unmaps the segment that the last rotation has left. A file that is removed keeps its space while it is mapped.
    /// Therefore this comes before files are removed.
    pub(crate) fn unmap_left(&self) {
        let left = self.sync.lock().left.take();
        drop(left);
    }

    /// Prepares `retired` for reuse; `None` if the file has a second name. Then that name keeps the file.
    fn reuse(&self, retired: Retired, bulk: bool) -> Result<Option<SpareSegment>> {
        let spare = SpareSegment::reuse(&*self.env.fs, &retired.path, bulk);
        if spare.is_err() {
            // The file is still the log's, to reuse or to remove.
            self.files.lock().retired.push(retired);
        }
        spare
    }

    fn create(&self, len: u64, bulk: bool) -> Result<SpareSegment> {
        let number = self.files.lock().begin();
        SpareSegment::create(&*self.env.fs, &segment_path(&self.dir, number), len, bulk)
    }

    /// The length of the spare segment that a record of `record_len` bytes needs, and whether it should be for bulk;
    /// `None` if a suitable one exists.
    fn wanted_spare(&self, files: &Files, record_len: usize) -> Option<(u64, bool)> {
        debug_assert_eq!(self.has_spare(), files.spare.is_some(), "each change is noted");
        let need = len_for(record_len);
        if files.spare.as_ref().is_some_and(|spare| spare.file.len() >= need) {
            return None;
        }
        let large_before = self.bulk.load(Ordering::Relaxed) && !self.waited_for.load(Ordering::Relaxed);
        Some((files.next_len.max(need), record_len as u64 >= BULK_RECORD_LEN || large_before))
    }

    /// The length of the file that [`Wal::prepare_spare`] would create; `None` if it would not create one.
    pub(crate) fn missing_spare(&self, record_len: usize) -> Option<u64> {
        let files = self.files.lock();
        let (len, bulk) = self.wanted_spare(&files, record_len)?;
        (!files.retired.iter().any(|retired| retired.suits(len, bulk))).then_some(len)
    }

    /// Whether no spare segment has room for a record of `record_len` bytes.
    pub(crate) fn lacks_spare(&self, record_len: usize) -> bool {
        self.wanted_spare(&self.files.lock(), record_len).is_some()
    }

    /// Limits new files to `len` bytes because the disk is small; a longer record still gets a longer file. Returns the
    /// present limit.
    pub(crate) fn bound_len(&self, len: u64) -> u64 {
        self.files.lock().bound(len.clamp(SEGMENT_LEN_MIN, self.len_max))
    }

    /// The limit on the length of new files.
    pub(crate) fn len_bound(&self) -> u64 {
        self.files.lock().len_bound
    }

    /// Makes new files short again, because the disk is full.
    pub(crate) fn begin_short(&self) {
        self.files.lock().next_len = SEGMENT_LEN_MIN;
    }

    /// Ends writing; returns the files that no recovery needs, for removal.
    pub(crate) fn close(&self) -> Vec<PathBuf> {
        let mut files = self.files.lock();
        let spare = files.spare.take().map(|spare| spare.file.path().to_path_buf());
        self.note_spare(&files);
        let Files { retired, going, .. } = &mut *files;
        retired.drain(..).chain(going.drain(..)).map(|file| file.path).chain(spare).collect()
    }

    /// Releases the open segments when the store closes. Bytes that are not durable by then are lost.
    pub(crate) fn release(&self, tail: &mut LogTail) {
        tail.segment = Arc::new(tail.segment.released());
        let mut state = self.sync.lock();
        state.unsynced.clear();
        (state.current, state.left) = (None, None);
        let closed = || Error::new(ErrorKind::Closed, "the store is closed").at(&self.dir);
        state.failed.get_or_insert_with(closed);
    }

    /// Follows each change of the spare segment in `files`, which is locked.
    fn note_spare(&self, files: &Files) {
        self.has_spare.store(files.spare.is_some(), Ordering::Release);
    }

    /// Whether the next rotation would find a spare segment.
    pub(crate) fn has_spare(&self) -> bool {
        self.has_spare.load(Ordering::Acquire)
    }

    fn take_spare(&self, record_len: usize) -> Option<SpareSegment> {
        let mut files = self.files.lock();
        let fits = files.spare.as_ref()?.file.len() >= RECORDS_AT + record_len as u64;
        if !fits {
            return None;
        }
        let spare = files.spare.take();
        self.note_spare(&files);
        spare
    }

    /// Seals the tail's segment and continues in the spare one; `false` if no spare has room for `record_len` bytes.
    /// Call it under the commit lock. The next flush or [`Wal::prepare_spare`] unmaps the old segment
    /// ([`Wal::unmap_left`]).
    pub(crate) fn rotate(&self, tail: &mut LogTail, first_seq: SeqNo, record_len: usize) -> Result<bool> {
        let Some(spare) = self.take_spare(record_len) else { return Ok(false) };
        let id = tail.segment.header().id + 1;
        let segment = Arc::new(Segment::start(spare, self.header(id, first_seq, tail.position()))?);
        let unsynced = UnsyncedSegment::of(&segment)?;
        self.files.lock().sealed.push_back(Sealed {
            header: *tail.segment.header(),
            file: Retired {
                path: tail.segment.path(),
                len: tail.segment.end(),
                bulk: tail.segment.bulk,
                left: false,
            },
            end: tail.offset,
        });
        self.bulk.store(tail.holds_bulk(), Ordering::Relaxed);
        self.make_current(&segment, unsynced);
        *tail = LogTail { segment, offset: RECORDS_AT, records: 0 };
        Ok(true)
    }

    /// The position before which everything is durable.
    pub(crate) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// The position at which this opening of the store began. Everything before it was replayed.
    pub(crate) fn began_at(&self) -> u64 {
        self.began_at
    }

    /// How many segment syncs there were since the store was opened.
    pub(crate) fn sync_count(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Whether a sealed segment waits for a sync.
    pub(crate) fn has_sealed_unsynced(&self) -> bool {
        let state = self.sync.lock();
        state.unsynced.len() > 1 && state.unsynced.back().is_some_and(|current| current.start > self.synced())
    }

    /// The position at which recovery would begin.
    pub(crate) fn floor_start(&self) -> u64 {
        self.floor_start.load(Ordering::Relaxed)
    }

    /// The position at which the current segment starts.
    pub(crate) fn current_start(&self) -> u64 {
        self.sync.lock().unsynced.back().map_or(0, |segment| segment.start)
    }

    /// Returns when everything before `target` is durable. `published` is the position up to which records are whole,
    /// at least `target`. It is read again when a sync begins, so that one sync serves all waiting threads.
    ///
    /// If `target` lies in sealed segments and no thread waits for the current one, the current one is not synced. All
    /// its pages are dirty, even those without records ([`Wal::prepare_spare`]): they would go to the disk twice, and
    /// each would take a page fault again.
    ///
    /// `first` makes durable the data outside the log that records point to (rule 4).
    pub(crate) fn sync_to(
        &self,
        target: u64,
        published: &AtomicU64,
        first: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let mut state = self.sync.lock();
        loop {
            if let Some(error) = &state.failed {
                return Err(error.duplicate());
            }
            if self.synced() >= target {
                return Ok(());
            }
            if !state.syncing {
                break;
            }
            self.sync_done.wait(&mut state);
        }
        state.syncing = true;
        let current_start = state.unsynced.back().map_or(0, |current| current.start);
        let mut goal = published.load(Ordering::Acquire);
        if target <= current_start && !self.waited_for.load(Ordering::Relaxed) {
            goal = goal.min(current_start);
        }
        let segments: Vec<UnsyncedSegment> =
            state.unsynced.iter().filter(|segment| segment.start < goal).cloned().collect();
        drop(state);

        let result = first().and_then(|()| segments.iter().try_for_each(|segment| segment.file.sync()));
        self.syncs.fetch_add(segments.len() as u64, Ordering::Relaxed);

        let mut state = self.sync.lock();
        state.syncing = false;
        let result = match result {
            Ok(()) => {
                self.synced.fetch_max(goal, Ordering::Release);
                forget_synced(&mut state.unsynced, goal);
                Ok(())
            }
            Err(error) => {
                let message = format!("a sync of the log failed ({error}); reopen the store");
                let poison = Error::new(ErrorKind::Poisoned, message);
                if !broken("rule-8") {
                    state.failed = Some(poison.duplicate());
                }
                Err(poison)
            }
        };
        drop(state);
        self.sync_done.notify_all();
        result
    }

    /// Notes that a thread waits for a sync. Log pages are better left clean then.
    pub(crate) fn note_waiter(&self) {
        if !self.waited_for.load(Ordering::Relaxed) {
            self.waited_for.store(true, Ordering::Relaxed);
        }
    }

    /// Marks in the current segment that `len` bytes of manifest number `manifest` are synced.
    pub(crate) fn mark_manifest(&self, manifest: u64, len: u64) -> Result<()> {
        let current = self.sync.lock().current.clone();
        current.map_or(Ok(()), |segment| segment.mark_manifest(manifest, len))
    }

    /// Retires the segments before `floor`, which the durable manifest no longer needs.
    pub(crate) fn retire(&self, floor: LogFloor) {
        self.floor_start.store(floor.start, Ordering::Relaxed);
        self.files.lock().retire(floor.segment);
        // A segment without records would stay open, and keep its space, until the next sync.
        let (mut state, synced) = (self.sync.lock(), self.synced());
        let unsynced = &mut state.unsynced;
        while unsynced.len() > 1 && unsynced[0].id < floor.segment && unsynced[1].start <= synced {
            unsynced.pop_front();
        }
    }

    /// Releases the segments that only [`Wal::readable`] needs, because the disk is full.
    pub(crate) fn forget_history(&self) {
        let mut files = self.files.lock();
        let forgotten = files.history.forget();
        files.retired.extend(forgotten);
    }

    /// The readable segments, oldest first, the current one last.
    pub(crate) fn readable(&self) -> Vec<Readable> {
        // Read the current one first. Then a segment that is sealed meanwhile is listed twice, and none is missed.
        let current = self.sync.lock().current.clone();
        let files = self.files.lock();
        let whole = files.history.segments().chain(&files.sealed);
        let mut all: Vec<Readable> = whole.map(Readable::of).collect();
        let current =
            current.filter(|segment| all.last().is_none_or(|last| last.header.id < segment.header().id));
        all.extend(current.map(|segment| Readable {
            header: *segment.header(),
            path: segment.path(),
            end: None,
        }));
        all
    }

    /// Removes the retired files beyond the few kept for reuse. The next call retries files that cannot be removed now.
    pub(crate) fn remove_surplus(&self, keep: usize) -> Result<()> {
        let mut surplus =
            self.files.lock().take_surplus(keep, self.len_max, self.bulk.load(Ordering::Relaxed));
        let removed = remove_for_good(&*self.env.fs, &self.dir, &mut surplus, |file| &file.path);
        self.files.lock().going.append(&mut surplus);
        removed
    }

    /// The length of the longest segment of any use.
    pub(crate) fn longest(&self, tail: &LogTail) -> u64 {
        let files = self.files.lock();
        let kept = files.sealed.iter().map(|sealed| &sealed.file).chain(&files.retired).map(|file| file.len);
        let spare = files.spare.iter().map(|spare| spare.file.len());
        kept.chain(spare).fold(tail.segment.end(), u64::max)
    }

    /// Retires the spare segment if it is longer than a store's first segment; [`Wal::remove_surplus`] then removes
    /// it.
    pub(crate) fn retire_spare(&self) {
        let mut files = self.files.lock();
        if let Some(spare) = files.spare.take_if(|spare| spare.file.len() > SEGMENT_LEN_MIN) {
            files.retired.push(Retired::of(&spare));
            self.note_spare(&files);
        }
    }

    /// The files that recovery would read from `floor` on, oldest first, the current segment last.
    pub(crate) fn parts(&self, floor: LogFloor, tail: &LogTail) -> Vec<LogPart> {
        let files = self.files.lock();
        let sealed = files.sealed.iter().filter(|sealed| sealed.header.id >= floor.segment);
        let current = LogPart { path: tail.segment.path(), end: tail.offset };
        sealed
            .map(|sealed| LogPart { path: sealed.file.path.clone(), end: sealed.end })
            .chain([current])
            .collect()
    }

    /// Bytes in segment files of any use.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.files.lock().bytes()
    }
}

/// Drops the sealed segments that are durable when the log is synced up to `synced`. A segment without records stays,
/// although all positions before its end are synced: no sync has covered its header yet, and replay needs it.
fn forget_synced(unsynced: &mut VecDeque<UnsyncedSegment>, synced: u64) {
    while unsynced.len() > 1 && unsynced[0].start < synced && unsynced[1].start <= synced {
        unsynced.pop_front();
    }
}
