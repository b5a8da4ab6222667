//! The write-ahead log: a chain of segments, one sync stream, and the care of segment files.
//!
//! ```text
//!  retired      sealed, synced    sealed            current        spare
//! +--------+   +--------+       +--------+       +--------+      +--------+
//! | reuse  |   | floor  |  ...  | to sync|       | tail-> |      | ready  |
//! +--------+   +--------+       +--------+       +--------+      +--------+
//! ```
//!
//! - The tail (segment and offset) belongs to the commit lock; this room keeps everything else.
//! - [`Wal::sync_to`] is the one sync stream (group commit): one caller syncs, on the descriptors that
//!   wrote, everything published so far, oldest segment first (rule 3); whoever arrives meanwhile waits for
//!   the next. The first failure poisons the log: no sync is ever retried (rule 8).
//! - A file is reused only after the manifest's floor has passed it (the caller's duty), under a new epoch.
//!   Segments start at 1 MiB and double (rule 9).

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

use super::replay::{LogFloor, segment_path};
use super::segment::{RECORDS_AT, Segment, SegmentHeader, SpareSegment};
use crate::canary::broken;
use crate::cursor::SeqNo;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::SyncFile;

/// The length of the first segment of a store.
const SEGMENT_LEN_MIN: u64 = 1 << 20;

/// Where the next record goes. Belongs to the commit lock.
#[derive(Debug)]
pub(crate) struct LogTail {
    pub(crate) segment: Arc<Segment>,
    pub(crate) offset: u64,
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
}

/// A sealed segment that recovery may still need.
#[derive(Debug)]
struct Sealed {
    id: u64,
    path: PathBuf,
    len: u64,
    /// The offset behind its last record.
    end: u64,
}

/// A segment, and the offset behind its last record.
#[derive(Debug)]
pub(crate) struct LogPart {
    pub(crate) path: PathBuf,
    pub(crate) end: u64,
}

#[derive(Debug)]
struct Files {
    sealed: VecDeque<Sealed>,
    retired: Vec<(PathBuf, u64)>,
    spare: Option<SpareSegment>,
    next_number: u64,
    next_len: u64,
}

/// A segment with bytes that may not be synced. It is not kept mapped for that: syncing a mapped file
/// interrupts every core for every page.
#[derive(Debug, Clone)]
struct Unsynced {
    start: u64,
    file: Arc<dyn SyncFile>,
}

impl Unsynced {
    fn of(segment: &Segment) -> Unsynced {
        Unsynced { start: segment.header().start, file: segment.sync_handle() }
    }
}

#[derive(Debug)]
struct SyncState {
    /// Segments with bytes that may not be synced, oldest first; the last one is the current one.
    unsynced: VecDeque<Unsynced>,
    /// The one that is stored into.
    current: Option<Arc<Segment>>,
    syncing: bool,
    failed: Option<Error>,
}

/// See the module's comment.
#[derive(Debug)]
pub(crate) struct Wal {
    env: Env,
    dir: PathBuf,
    boot_id: [u8; 16],
    len_max: u64,
    files: Mutex<Files>,
    sync: Mutex<SyncState>,
    sync_done: Condvar,
    /// Everything before this position is durable. Written under `sync`, read without it.
    synced: AtomicU64,
    /// How often a segment was synced.
    syncs: AtomicU64,
    /// The position at which recovery would begin.
    floor_start: AtomicU64,
    /// Whether somebody waited for a sync since the last rotation.
    waited_for: AtomicBool,
    /// The position at which this opening of the store began.
    began_at: u64,
}

impl Wal {
    /// A log that continues at `at` with sequence number `first_seq`, in a fresh segment file with number
    /// `next_number` (rule 2: never in a replayed one).
    pub(crate) fn start(
        env: &Env,
        dir: &Path,
        len_max: u64,
        next_number: u64,
        at: LogFloor,
        first_seq: SeqNo,
    ) -> Result<(Wal, LogTail)> {
        let wal = Wal {
            env: env.clone(),
            dir: dir.to_path_buf(),
            boot_id: env.fs.boot_id(),
            len_max: len_max.max(SEGMENT_LEN_MIN),
            files: Mutex::new(Files {
                sealed: VecDeque::new(),
                retired: Vec::new(),
                spare: None,
                next_number,
                next_len: if broken("rule-9") { len_max } else { SEGMENT_LEN_MIN },
            }),
            sync: Mutex::new(SyncState {
                unsynced: VecDeque::new(),
                current: None,
                syncing: false,
                failed: None,
            }),
            sync_done: Condvar::new(),
            synced: AtomicU64::new(at.start),
            syncs: AtomicU64::new(0),
            floor_start: AtomicU64::new(at.start),
            waited_for: AtomicBool::new(false),
            began_at: at.start,
        };
        wal.prepare_spare(0)?;
        let spare =
            wal.take_spare(0).ok_or_else(|| Error::new(ErrorKind::Io, "the log has no spare segment"))?;
        let segment = Arc::new(Segment::start(spare, wal.header(at.segment, first_seq, at.start))?);
        wal.make_current(&segment);
        Ok((wal, LogTail { segment, offset: RECORDS_AT }))
    }

    fn make_current(&self, segment: &Arc<Segment>) {
        let mut state = self.sync.lock();
        state.unsynced.push_back(Unsynced::of(segment));
        forget_synced(&mut state.unsynced, self.synced());
        state.current = Some(Arc::clone(segment));
    }

    fn header(&self, id: u64, first_seq: SeqNo, start: u64) -> SegmentHeader {
        let epoch = if broken("rule-6") { 6 } else { self.env.random.next_u64() };
        SegmentHeader { id, epoch, first_seq, start, boot_id: self.boot_id }
    }

    /// Makes sure that a spare segment with room for a record of `record_len` bytes stands ready.
    /// May write for some time: never under the commit lock.
    pub(crate) fn prepare_spare(&self, record_len: usize) -> Result<()> {
        let need = (RECORDS_AT + record_len as u64).next_multiple_of(RECORDS_AT);
        let (reuse, number, len) = {
            let mut files = self.files.lock();
            if files.spare.as_ref().is_some_and(|spare| spare.file.len() >= need) {
                return Ok(());
            }
            let len = files.next_len.max(need);
            match files.retired.iter().position(|&(_, retired_len)| retired_len >= len) {
                Some(index) => (Some(files.retired.swap_remove(index).0), 0, len),
                None => {
                    files.next_number += 1;
                    files.next_len = (files.next_len * 2).min(self.len_max);
                    (None, files.next_number - 1, len)
                }
            }
        };
        let spare = match reuse {
            Some(path) => SpareSegment { file: self.env.fs.open_mapped(&path)? },
            None => SpareSegment::create(&*self.env.fs, &segment_path(&self.dir, number), len)?,
        };
        if !self.waited_for.swap(false, Ordering::Relaxed) {
            // Takes the page faults ahead of the writers. It dirties the pages, so the next sync writes all
            // of them: not where somebody waits for syncs.
            spare.file.warm(0, spare.file.len());
        }
        let mut files = self.files.lock();
        if let Some(smaller) = files.spare.replace(spare) {
            let retired = (smaller.file.path().to_path_buf(), smaller.file.len());
            files.retired.push(retired);
        }
        Ok(())
    }

    /// Whether the next rotation would find a spare segment.
    pub(crate) fn has_spare(&self) -> bool {
        self.files.lock().spare.is_some()
    }

    fn take_spare(&self, record_len: usize) -> Option<SpareSegment> {
        let mut files = self.files.lock();
        let fits = files.spare.as_ref()?.file.len() >= RECORDS_AT + record_len as u64;
        if fits { files.spare.take() } else { None }
    }

    /// Seals the tail's segment and goes on in the spare one; `false` when none is ready that has room for
    /// `record_len` bytes. Under the commit lock.
    pub(crate) fn rotate(&self, tail: &mut LogTail, first_seq: SeqNo, record_len: usize) -> Result<bool> {
        let Some(spare) = self.take_spare(record_len) else { return Ok(false) };
        let id = tail.segment.header().id + 1;
        let segment = Arc::new(Segment::start(spare, self.header(id, first_seq, tail.position()))?);
        self.files.lock().sealed.push_back(Sealed {
            id: id - 1,
            path: tail.segment.path(),
            len: tail.segment.end(),
            end: tail.offset,
        });
        self.make_current(&segment);
        *tail = LogTail { segment, offset: RECORDS_AT };
        Ok(true)
    }

    /// Everything before this position is durable.
    pub(crate) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// The position at which this opening of the store began. What lies before was replayed.
    pub(crate) fn began_at(&self) -> u64 {
        self.began_at
    }

    /// How many times a segment was synced since the store was opened.
    pub(crate) fn sync_count(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Whether a sealed segment waits to be synced.
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

    /// Returns when everything before `target` is durable. `published` is the position up to which records
    /// are whole: at least `target`, and read anew when a sync begins, so that one sync serves all who wait.
    pub(crate) fn sync_to(&self, target: u64, published: &AtomicU64) -> Result<()> {
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
        let goal = published.load(Ordering::Acquire);
        let segments: Vec<Unsynced> =
            state.unsynced.iter().filter(|segment| segment.start < goal).cloned().collect();
        drop(state);

        let result = segments.iter().try_for_each(|segment| segment.file.sync());
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

    /// Somebody waits for a sync: log pages are better left clean.
    pub(crate) fn note_waiter(&self) {
        if !self.waited_for.load(Ordering::Relaxed) {
            self.waited_for.store(true, Ordering::Relaxed);
        }
    }

    /// Notes in the current segment that `len` bytes of manifest number `manifest` are synced.
    pub(crate) fn mark_manifest(&self, manifest: u64, len: u64) -> Result<()> {
        let current = self.sync.lock().current.clone();
        current.map_or(Ok(()), |segment| segment.mark_manifest(manifest, len))
    }

    /// The manifest's floor has durably passed to `floor`: the segments before it may be reused.
    pub(crate) fn retire(&self, floor: LogFloor) {
        self.floor_start.store(floor.start, Ordering::Relaxed);
        let mut files = self.files.lock();
        while files.sealed.front().is_some_and(|sealed| sealed.id < floor.segment) {
            if let Some(sealed) = files.sealed.pop_front() {
                files.retired.push((sealed.path, sealed.len));
            }
        }
    }

    /// Retired files beyond the few that are kept for reuse, for the caller to remove.
    pub(crate) fn take_surplus(&self, keep: usize) -> Vec<PathBuf> {
        let mut files = self.files.lock();
        // The largest are kept, since the small ones of a store's first minutes are never big enough again;
        // but not those that were made for one huge record.
        let len_max = self.len_max;
        files.retired.sort_by_key(|&(_, len)| (len > len_max, std::cmp::Reverse(len)));
        let usual = files.retired.partition_point(|&(_, len)| len <= len_max);
        let keep = keep.min(usual);
        files.retired.split_off(keep).into_iter().map(|(path, _)| path).collect()
    }

    /// What recovery would read from `floor` on, oldest first, the current segment last.
    pub(crate) fn parts(&self, floor: LogFloor, tail: &LogTail) -> Vec<LogPart> {
        let files = self.files.lock();
        let sealed = files.sealed.iter().filter(|sealed| sealed.id >= floor.segment);
        let current = LogPart { path: tail.segment.path(), end: tail.offset };
        sealed.map(|sealed| LogPart { path: sealed.path.clone(), end: sealed.end }).chain([current]).collect()
    }

    /// Bytes in segment files, whatever they are used for.
    pub(crate) fn disk_bytes(&self) -> u64 {
        let files = self.files.lock();
        let sealed: u64 = files.sealed.iter().map(|sealed| sealed.len).sum();
        let retired: u64 = files.retired.iter().map(|(_, len)| len).sum();
        sealed + retired + files.spare.as_ref().map_or(0, |spare| spare.file.len())
    }
}

/// Takes out the sealed segments that are on the disk when the log is up to `synced`. One without records is
/// not, although all positions before its end are: nobody has synced its header yet, and replay needs it.
fn forget_synced(unsynced: &mut VecDeque<Unsynced>, synced: u64) {
    while unsynced.len() > 1 && unsynced[0].start < synced && unsynced[1].start <= synced {
        unsynced.pop_front();
    }
}
