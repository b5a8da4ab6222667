//! The commit pipeline: a place in the log, in the memtables and in the sequence for every write, and
//! visibility in that order.
//!
//! ```text
//! writer A   reserve ---- copy to log ---- insert ---- publish (A visible)
//! writer B        reserve -- copy -- insert -- publish ... waits for A ... (B visible)
//!            |<- lock ->|                    |<- lock ->|
//! ```
//!
//! - Under the lock a writer reserves log space, memtable space and sequence numbers. Everything that can
//!   fail happens before the sequence numbers are taken: from then to publication nothing may fail,
//!   allocate or panic (durability rule 1).
//! - Outside the lock it copies its record and its entries; writers do so at the same time.
//! - It becomes visible, and is acknowledged, only when every earlier reservation has: `visible` (a
//!   sequence number) and `published` (a log position) only ever cover a contiguous prefix.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::batch::Batch;
use super::watch::{Job, JobQueue};
use crate::canary::broken;
use crate::cursor::{Kind, MAX_SEQ, SeqNo};
use crate::error::{Error, ErrorKind, Result};
use crate::log::record;
use crate::log::replay::LogFloor;
use crate::log::segment::Segment;
use crate::log::wal::{LogTail, Wal};
use crate::memtable::Region;
use crate::state::Mem;

/// What the lock protects.
#[derive(Debug)]
pub(crate) struct CommitState {
    pub(crate) next_seq: SeqNo,
    pub(crate) tail: LogTail,
    /// Reservations that are not published yet, oldest first.
    queue: VecDeque<Ticket>,
    /// The number of the ticket at the front of `queue`.
    front: u64,
    /// How many wait for the queue to be empty; nobody reserves meanwhile.
    quiet_wanted: usize,
}

#[derive(Debug)]
struct Ticket {
    last_seq: SeqNo,
    end: u64,
    /// The segment, and the offset in it, at which the record ends.
    segment_end: (Arc<Segment>, u64),
    done: bool,
}

/// See the module's comment.
#[derive(Debug)]
pub(crate) struct Commit {
    state: Mutex<CommitState>,
    advanced: Condvar,
    visible: AtomicU64,
    /// The log position before which every record is whole and acknowledged.
    pub(crate) published: AtomicU64,
    /// Writes that may have ended the life of a huge value.
    pub(crate) jobs: JobQueue,
    failed: AtomicBool,
}

/// What a writer holds between reserving and publishing.
#[derive(Debug)]
struct Reservation {
    ticket: u64,
    first_seq: SeqNo,
    segment: Arc<Segment>,
    offset: u64,
    position: u64,
    mems: Vec<(Arc<Mem>, Region)>,
}

/// How a try to reserve ended.
#[derive(Debug)]
pub(crate) enum Committed {
    /// Written and visible; `end` is the log position behind it.
    Done { end: u64 },
    /// The log needs a spare segment with room for this many bytes: prepare one outside the lock, try again.
    NeedsSegment(usize),
}

impl Commit {
    pub(crate) fn new(next_seq: SeqNo, tail: LogTail) -> Commit {
        let position = tail.position();
        Commit {
            state: Mutex::new(CommitState {
                next_seq,
                tail,
                queue: VecDeque::new(),
                front: 0,
                quiet_wanted: 0,
            }),
            advanced: Condvar::new(),
            visible: AtomicU64::new(next_seq - 1),
            published: AtomicU64::new(position),
            jobs: JobQueue::default(),
            failed: AtomicBool::new(false),
        }
    }

    /// The newest sequence number that readers see. Everything at or before it is in the memtables.
    #[inline]
    pub(crate) fn visible(&self) -> SeqNo {
        self.visible.load(Ordering::Acquire)
    }

    /// The log position before which everything is acknowledged.
    pub(crate) fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// Takes the lock, for changes that must not interleave with reservations.
    pub(crate) fn lock(&self) -> MutexGuard<'_, CommitState> {
        let mut state = self.state.lock();
        // Whoever waits for quiet would wait for ever if reservations kept coming.
        while state.quiet_wanted > 0 {
            self.advanced.wait(&mut state);
        }
        state
    }

    /// Takes the lock when no reservation is under way: everything is published.
    pub(crate) fn lock_quiet(&self) -> MutexGuard<'_, CommitState> {
        let mut state = self.state.lock();
        state.quiet_wanted += 1;
        while !state.queue.is_empty() {
            self.advanced.wait(&mut state);
        }
        state.quiet_wanted -= 1;
        self.advanced.notify_all();
        state
    }

    /// Returns when everything up to `seq` is visible.
    pub(crate) fn wait_visible(&self, seq: SeqNo) {
        let mut state = self.state.lock();
        while self.visible() < seq {
            self.advanced.wait(&mut state);
        }
    }

    /// Fails once writes are refused. The log may have a hole then: nothing that was written since may be
    /// made durable by another way either.
    pub(crate) fn check(&self) -> Result<()> {
        if self.failed.load(Ordering::Acquire) { Err(poisoned()) } else { Ok(()) }
    }

    /// Refuses all further writes.
    pub(crate) fn poison(&self) {
        self.failed.store(true, Ordering::Release);
    }

    /// Writes `batch`, whose log record begins with `header`: log, memtables, visibility. `unmarked` leaves
    /// the log's published mark alone (the caller is about to sync). `jobs`, numbered by their places in the
    /// batch, are left for whoever looks for huge values to free. `state` is the lock, held.
    pub(crate) fn commit(
        &self,
        mut state: MutexGuard<'_, CommitState>,
        wal: &Wal,
        batch: &Batch,
        mut header: [u8; record::HEADER_LEN],
        unmarked: bool,
        jobs: &mut Vec<Job>,
    ) -> Result<Committed> {
        let len = record::HEADER_LEN + batch.payload().len();
        self.check()?;
        if !state.tail.has_room(len) {
            let next_seq = state.next_seq;
            // A segment whose use began and failed carries the number that the next one would get.
            if !wal.rotate(&mut state.tail, next_seq, len).inspect_err(|_| self.poison())? {
                return Ok(Committed::NeedsSegment(len));
            }
        }
        let room = self.jobs.room(jobs);
        let mut reservation = reserve(&mut state, batch, len as u64)?;
        if let Some(room) = room {
            room.fill(reservation.first_seq);
        }
        batch.note_ranges(reservation.first_seq);
        drop(state);

        let synced = wal.synced();
        let lag = reservation.position.saturating_sub(synced);
        record::seal(&mut header, reservation.segment.header().epoch, reservation.offset, lag);
        let logged = reservation.segment.store(reservation.offset, &header).and_then(|()| {
            reservation.segment.store(reservation.offset + header.len() as u64, batch.payload())
        });
        if logged.is_err() {
            // Only where the file system cannot be mapped. The write is lost, and so is the log behind it:
            // nothing from here on is acknowledged or flushed, but those who wait for their turn go on.
            self.poison();
        }
        for (seq, (part, height, op)) in (reservation.first_seq..).zip(batch.planned_ops()) {
            let (mem, region) = &mut reservation.mems[part];
            if op.kind != Kind::DeleteRange {
                mem.table.insert(region, height, op.key, seq, op.kind, op.value);
            }
        }
        let end = reservation.position + len as u64;
        // Before anybody can flush it: what a flush takes must be known as committed.
        batch.note_commit(logged.is_ok().then_some(end));
        self.publish(reservation.ticket, unmarked);
        logged?;
        // Behind a record that is not in the log, this one is lost too.
        self.check()?;
        Ok(Committed::Done { end })
    }

    /// Marks the reservation as done and returns when it is visible.
    fn publish(&self, ticket: u64, unmarked: bool) {
        let mut state = self.state.lock();
        let index = (ticket - state.front) as usize;
        state.queue[index].done = true;
        if index == 0 {
            let mut last = None;
            while state.queue.front().is_some_and(|front| front.done) {
                last = state.queue.pop_front();
                state.front += 1;
            }
            if let Some(done) = last {
                // A writer that failed said so before it came here.
                let whole = !self.failed.load(Ordering::Acquire);
                let (segment, offset) = &done.segment_end;
                if whole && !unmarked && segment.mark_published(*offset).is_err() {
                    self.poison();
                }
                // In this order: a sync of what is published covers what was visible before it was asked for.
                if whole {
                    self.published.store(done.end, Ordering::Release);
                }
                self.visible.store(done.last_seq, Ordering::Release);
                self.advanced.notify_all();
            }
        }
        while state.front <= ticket && !broken("rule-1") {
            self.advanced.wait(&mut state);
        }
    }
}

/// The error of a store that takes no more writes.
pub(crate) fn poisoned() -> Error {
    Error::new(
        ErrorKind::Poisoned,
        "an earlier write or sync failed; reopen the store to recover what was acknowledged",
    )
}

/// Takes memtable space (which may fail), then log space and sequence numbers (which cannot).
fn reserve(state: &mut CommitState, batch: &Batch, len: u64) -> Result<Reservation> {
    let count = batch.len() as u64;
    if state.next_seq + count > MAX_SEQ {
        return Err(Error::new(ErrorKind::Unsupported, "the store has used up its sequence numbers"));
    }
    let mut mems = Vec::with_capacity(batch.parts().len());
    for part in batch.parts() {
        if part.tree.is_dropped() {
            return Err(part.tree.dropped_error());
        }
        let mem = part.tree.mem();
        let region = mem.table.reserve(part.memory)?;
        mems.push((mem, region));
    }
    let segment = Arc::clone(&state.tail.segment);
    let (offset, position) = (state.tail.offset, state.tail.position());
    let floor = LogFloor { segment: segment.header().id, start: segment.header().start };
    let (first_seq, last_seq) = (state.next_seq, state.next_seq + count - 1);
    for (mem, _) in &mems {
        mem.note_write(floor, last_seq, position + len);
    }
    state.next_seq += count;
    state.tail.advance(len);
    let ticket = state.front + state.queue.len() as u64;
    let segment_end = (Arc::clone(&segment), offset + len);
    state.queue.push_back(Ticket { last_seq, end: position + len, segment_end, done: false });
    Ok(Reservation { ticket, first_seq, segment, offset, position, mems })
}
