//! The commit pipeline: it gives every write a place in the log, in the memtables and in the sequence, and makes writes
//! visible in that order.
//!
//! ```text
//! writer A   reserve ---- copy to log ---- insert ---- publish (A visible)
//! writer B        reserve -- copy -- insert -- publish ... waits for A ... (B visible)
//!            |<- lock ->|                    |<- lock ->|
//! ```
//!
//! - Under the lock a writer reserves log space, memtable space and sequence numbers. Everything that can fail happens
//!   before the sequence numbers are taken. From then until publication nothing may fail, allocate or panic (rule 1).
//! - Outside the lock the writer copies its record and its entries. Several writers do this at the same time.
//! - A write becomes visible, and is acknowledged, only when every earlier reservation is: `visible` (a sequence
//!   number) and `published` (a log position) only ever cover a contiguous prefix.
//! - A write that skips the log takes sequence numbers too. The log counts only its own writes. If the next record's
//!   number is not the following one, a record in front of it gives the number (`gap` in [`super::batch`]).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::batch::{Batch, GAP_LEN, OpPlan, TreePart, gap};
use super::lookups::{Lookup, LookupQueue};
use crate::blob::NewBlob;
use crate::blob::VOLATILE;
use crate::canary::broken;
use crate::cursor::{MAX_SEQ, SeqNo};
use crate::env::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::events::event;
use crate::log::record;
use crate::log::replay::LogFloor;
use crate::log::segment::Segment;
use crate::log::wal::{LogTail, Wal};
use crate::memtable::{NewEntry, Region, TOGETHER};
use crate::state::Mem;

/// The state that the lock protects.
#[derive(Debug)]
pub(crate) struct CommitState {
    pub(crate) next_seq: SeqNo,
    /// The number that the log gives to the next write by counting. It is less than `next_seq` if writes have skipped
    /// the log since its last record.
    pub(crate) log_seq: SeqNo,
    pub(crate) tail: LogTail,
    /// Reservations that are not published yet, oldest first.
    queue: VecDeque<Ticket>,
    /// The number of the ticket at the front of `queue`.
    front: u64,
    /// How many threads wait for the queue to be empty. Meanwhile no thread reserves.
    quiet_wanted: usize,
    /// The store is closing. No write begins from now on.
    ended: bool,
}

#[derive(Debug)]
struct Ticket {
    last_seq: SeqNo,
    end: u64,
    /// The segment, and the offset in it at which the record ends; `None` without a record.
    segment_end: Option<(Arc<Segment>, u64)>,
    done: bool,
}

/// See the module's comment.
#[derive(Debug)]
pub(crate) struct Commit {
    state: Mutex<CommitState>,
    advanced: Condvar,
    visible: AtomicU64,
    /// Every record before this log position is whole, and its writes are visible. A `Power` write is acknowledged
    /// later, after its sync.
    pub(crate) published: AtomicU64,
    /// Writes that may have overwritten a huge value.
    pub(crate) lookups: LookupQueue,
    failed: AtomicBool,
}

/// The resources that a writer holds between reserving and publishing.
#[derive(Debug)]
struct Reservation {
    ticket: u64,
    first_seq: SeqNo,
    /// Its place in the log; `None` if it skips the log.
    logged: Option<Place>,
    /// The log position after it and after all earlier records.
    end: u64,
    mems: Vec<(Arc<Mem>, Region)>,
}

/// A record's place in the log.
#[derive(Debug)]
struct Place {
    segment: Arc<Segment>,
    offset: u64,
    position: u64,
    /// Whether a gap record comes first, with the number that this record begins with.
    gap: bool,
}

/// How often a thread checks whether the lock is free before it waits.
const LOOKS: usize = 64;

/// The length of a gap record, in bytes.
const GAP_RECORD_LEN: usize = record::HEADER_LEN + GAP_LEN;

/// A sequence number that is taken and not visible yet.
#[derive(Debug)]
pub(crate) struct Number {
    pub(crate) seq: SeqNo,
    /// The log position after all earlier records.
    pub(crate) end: u64,
    ticket: u64,
}

/// The record to commit.
#[derive(Debug)]
pub(crate) struct NewRecord<'a> {
    /// It holds pointers in the places of its huge values.
    pub(crate) batch: &'a Batch,
    /// The values that the batch points to. The commit notes in each that the log names it.
    pub(crate) blobs: &'a mut [NewBlob],
    /// The header of its log record; `None` if the batch skips the log.
    pub(crate) header: Option<[u8; record::HEADER_LEN]>,
    /// The log's published mark stays as it is: the caller is about to sync.
    pub(crate) unmarked: bool,
}

/// The result of an attempt to commit.
#[derive(Debug)]
pub(crate) enum Committed {
    /// The write is in the log and visible. `end` is the log position after it and after all earlier records, `last_seq`
    /// its last sequence number.
    Done { end: u64, last_seq: SeqNo },
    /// A tree takes no writes now. Wait until it does, then try again.
    Paused,
    /// The log needs a spare segment with room for this many bytes. Prepare one outside the lock, then try again.
    NeedsSegment(usize),
}

impl Commit {
    pub(crate) fn new(next_seq: SeqNo, log_seq: SeqNo, tail: LogTail) -> Commit {
        let position = tail.position();
        Commit {
            state: Mutex::new(CommitState {
                next_seq,
                log_seq,
                tail,
                queue: VecDeque::new(),
                front: 0,
                quiet_wanted: 0,
                ended: false,
            }),
            advanced: Condvar::new(),
            visible: AtomicU64::new(next_seq - 1),
            published: AtomicU64::new(position),
            lookups: LookupQueue::default(),
            failed: AtomicBool::new(false),
        }
    }

    /// The newest sequence number that readers see. All writes up to it are in the memtables.
    #[inline]
    pub(crate) fn visible(&self) -> SeqNo {
        self.visible.load(Ordering::Acquire)
    }

    /// Everything before this log position is acknowledged.
    pub(crate) fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// Takes the lock for changes that must not interleave with reservations.
    pub(crate) fn lock(&self) -> MutexGuard<'_, CommitState> {
        let mut state = self.state.lock();
        // A thread that waits for an empty queue would wait forever if reservations kept coming.
        while state.quiet_wanted > 0 {
            self.advanced.wait(&mut state);
        }
        state
    }

    /// Takes the lock if it is free within `at_most`, and no thread waits for an empty queue.
    pub(crate) fn lock_within(&self, at_most: Duration) -> Option<MutexGuard<'_, CommitState>> {
        let state = self.try_for_a_moment().or_else(|| self.state.try_lock_for(at_most))?;
        (state.quiet_wanted == 0).then_some(state)
    }

    /// Takes the lock if it is free within a microsecond or two. Others hold it for less, and a thread that waits in the
    /// way of the lock itself may give its processor away, for milliseconds.
    fn try_for_a_moment(&self) -> Option<MutexGuard<'_, CommitState>> {
        (0..LOOKS).find_map(|_| {
            std::hint::spin_loop();
            self.state.try_lock()
        })
    }

    /// Takes the lock for a short change that must not interleave with reservations. It does not give way to threads
    /// that wait for an empty queue: these may wait for a number that the caller has taken.
    pub(crate) fn lock_briefly(&self) -> MutexGuard<'_, CommitState> {
        self.state.lock()
    }

    /// Takes the lock when no reservation is in progress: everything is published.
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

    /// Takes the lock if it is free and no reservation is in progress.
    pub(crate) fn try_lock_quiet(&self) -> Option<MutexGuard<'_, CommitState>> {
        self.state.try_lock().filter(|state| state.queue.is_empty())
    }

    /// Whether a thread waits for the queue to be empty.
    #[cfg(test)]
    pub(crate) fn is_quiet_wanted(&self) -> bool {
        self.state.lock().quiet_wanted > 0
    }

    /// Waits until everything up to `seq` is visible.
    pub(crate) fn wait_visible(&self, seq: SeqNo) {
        let mut state = self.state.lock();
        while self.visible() < seq {
            self.advanced.wait(&mut state);
        }
    }

    /// Waits until something after `position` is published, for at most `at_most`. Returns whether it is.
    pub(crate) fn wait_published(&self, position: u64, at_most: Duration, clock: &dyn Clock) -> bool {
        let begun = clock.monotonic_us();
        let mut state = self.state.lock();
        while self.published() <= position && !state.ended {
            let left = at_most.saturating_sub(Duration::from_micros(clock.monotonic_us() - begun));
            if self.advanced.wait_for(&mut state, left).timed_out() {
                break;
            }
        }
        self.published() > position
    }

    /// Fails once the store is poisoned. The log may have a hole then. Nothing that was written after the hole may
    /// become durable in another way either.
    pub(crate) fn check(&self) -> Result<()> {
        if self.failed.load(Ordering::Acquire) { Err(poisoned()) } else { Ok(()) }
    }

    /// Refuses all further writes, and reports the cause.
    pub(crate) fn poison(&self, cause: &Error) {
        if self.fail() {
            tell_failed(cause);
        }
    }

    /// Refuses all further writes. Returns whether the caller has to report the cause by [`tell_failed`]. It does so
    /// when it holds no lock and no writer waits for it: the report may be slow, or panic.
    pub(crate) fn fail(&self) -> bool {
        !self.failed.swap(true, Ordering::AcqRel)
    }

    /// Refuses all further writes, because the store is closing.
    pub(crate) fn refuse(&self) {
        self.failed.store(true, Ordering::Release);
    }

    /// Refuses new writes. When this returns, all writes that had begun are published.
    pub(crate) fn end_writes(&self) {
        self.lock_quiet().ended = true;
        self.advanced.notify_all();
    }

    /// Writes a batch to the log and the memtables, and makes it visible. `lookups`, numbered by their places in the
    /// batch, are queued for the search for huge values to free. `state` is the held lock.
    pub(crate) fn commit(
        &self,
        mut state: MutexGuard<'_, CommitState>,
        wal: &Wal,
        record: NewRecord<'_>,
        lookups: &mut Vec<Lookup>,
    ) -> Result<Committed> {
        let NewRecord { batch, blobs, header, unmarked } = record;
        self.check()?;
        if batch.is_paused() {
            return Ok(Committed::Paused);
        }
        let len = header.map(|header| header.len() + batch.payload().len());
        if let Some(len) = len
            && !state.tail.has_room(GAP_RECORD_LEN + len)
        {
            let log_seq = state.log_seq;
            let len = GAP_RECORD_LEN + len;
            // A segment whose first use failed has the number that the next one would get.
            match wal.rotate(&mut state.tail, log_seq, len) {
                Ok(true) => {}
                Ok(false) => return Ok(Committed::NeedsSegment(len)),
                Err(error) => {
                    let is_first = self.fail();
                    drop(state);
                    if is_first {
                        tell_failed(&error);
                    }
                    return Err(error);
                }
            }
        }
        let room = self.lookups.reserve(lookups);
        let mut reservation = reserve(&mut state, batch, len)?;
        if let Some(room) = room {
            room.fill(reservation.first_seq);
        }
        batch.note_ranges(reservation.first_seq);
        drop(state);

        // The memtables fetch these places while the record is copied.
        let mut ahead = batch.plans();
        let prefetch = |plan: OpPlan| reservation.mems[plan.part()].0.table.prefetch(plan.hash);
        ahead.by_ref().take(TOGETHER).for_each(prefetch);
        let logged = match (&reservation.logged, header) {
            (Some(place), Some(header)) => {
                store(place, header, batch.payload(), reservation.first_seq, wal.synced())
            }
            _ => Ok(()),
        };
        // This fails only on file systems whose files cannot be mapped. The write is lost, and the log after it too.
        // Nothing from here on is acknowledged or flushed, but writers that wait for their turn continue.
        let is_first_failure = logged.is_err() && self.fail();
        insert(batch, reservation.first_seq, &mut reservation.mems, ahead);
        let (end, last_seq) = (reservation.end, reservation.first_seq + batch.len() as u64 - 1);
        // This comes before anything can flush the batch: a flush must know its huge values as committed. A batch that
        // skips the log never reaches the disk by way of the log.
        let position = if reservation.logged.is_some() { end } else { VOLATILE };
        blobs.iter_mut().for_each(|blob| blob.commit(logged.is_ok().then_some(position)));
        self.publish(reservation.ticket, unmarked);
        // Readers load the time first: a reader that sees the time also sees the write.
        batch.parts().iter().for_each(TreePart::carry);
        if is_first_failure && let Err(error) = &logged {
            tell_failed(error);
        }
        logged?;
        // If an earlier record is not in the log, this one is lost too.
        self.check()?;
        Ok(Committed::Done { end, last_seq })
    }

    /// Takes the next sequence number for something that is neither in the log nor in a memtable. All earlier writes
    /// are published. Later ones wait for [`Commit::show_number`], which has to follow.
    pub(crate) fn take_number(&self) -> Result<Number> {
        self.take_number_above(0)
    }

    /// [`Commit::take_number`], with a number greater than `least`.
    pub(crate) fn take_number_above(&self, least: SeqNo) -> Result<Number> {
        let mut state = self.lock_quiet();
        self.check()?;
        if state.ended {
            return Err(Error::new(ErrorKind::Closed, "the store is closed"));
        }
        let seq = state.next_seq.max(least.saturating_add(1));
        if seq >= MAX_SEQ {
            return Err(Error::new(ErrorKind::Unsupported, "the store has used up its sequence numbers"));
        }
        let end = state.tail.position();
        state.next_seq = seq + 1;
        let ticket = state.front + state.queue.len() as u64;
        state.queue.push_back(Ticket { last_seq: seq, end, segment_end: None, done: false });
        Ok(Number { seq, end, ticket })
    }

    /// Makes the number visible. The change that has this number is complete, or will never exist.
    pub(crate) fn show_number(&self, number: &Number) {
        self.publish(number.ticket, false);
    }

    /// Marks the reservation as done and waits until it is visible.
    fn publish(&self, ticket: u64, unmarked: bool) {
        let mut state =
            self.state.try_lock().or_else(|| self.try_for_a_moment()).unwrap_or_else(|| self.state.lock());
        let index = (ticket - state.front) as usize;
        state.queue[index].done = true;
        let mut untold = None;
        if index == 0 {
            let (mut last, mut last_record) = (None, None);
            while state.queue.front().is_some_and(|front| front.done) {
                last = state.queue.pop_front();
                state.front += 1;
                last_record = last.as_mut().and_then(|done| done.segment_end.take()).or(last_record);
            }
            if let Some(done) = last {
                // A writer that failed has poisoned the store before it came here.
                let whole = !self.failed.load(Ordering::Acquire);
                if let Some((segment, offset)) = last_record.filter(|_| whole && !unmarked)
                    && let Err(error) = segment.mark_published(offset)
                    && self.fail()
                {
                    untold = Some(error);
                }
                // In this order, a sync of the published records covers everything that was visible when the sync was
                // requested.
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
        drop(state);
        untold.iter().for_each(tell_failed);
    }
}

/// Reports why the store takes no more writes.
pub(crate) fn tell_failed(cause: &Error) {
    event!(ERROR, "failed", { error: cause.to_string() });
}

/// The error of a poisoned store.
pub(crate) fn poisoned() -> Error {
    Error::new(
        ErrorKind::Poisoned,
        "an earlier write or sync failed; reopen the store to recover what was acknowledged",
    )
}

/// Takes memtable space, which may fail. Then takes sequence numbers and, if there is a record, log space for its `len`
/// bytes; these cannot fail.
fn reserve(state: &mut CommitState, batch: &Batch, len: Option<usize>) -> Result<Reservation> {
    let count = batch.len() as u64;
    if state.ended {
        return Err(Error::new(ErrorKind::Closed, "the store is closed"));
    }
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
    let (first_seq, last_seq) = (state.next_seq, state.next_seq + count - 1);
    state.next_seq += count;
    let logged = len.map(|len| take_place(state, len as u64, first_seq));
    let end = state.tail.position();
    let floor = logged.as_ref().map(|place| {
        let header = place.segment.header();
        (LogFloor { segment: header.id, start: header.start }, end)
    });
    for ((mem, _), part) in mems.iter().zip(batch.parts()) {
        mem.note_write(last_seq, floor);
        if part.has_entries {
            mem.table.note_newest(last_seq);
        }
    }
    let ticket = state.front + state.queue.len() as u64;
    let segment_end = logged.as_ref().map(|place| (Arc::clone(&place.segment), state.tail.offset));
    state.queue.push_back(Ticket { last_seq, end, segment_end, done: false });
    Ok(Reservation { ticket, first_seq, logged, end, mems })
}

/// Copies the entries of `batch`, whose first number is `first_seq`, to the memtables of its parts. Allocates nothing.
/// `ahead`: the entries that the memtables do not expect yet.
fn insert(
    batch: &Batch,
    first_seq: SeqNo,
    mems: &mut [(Arc<Mem>, Region)],
    mut ahead: impl Iterator<Item = OpPlan>,
) {
    let mut waiting = [NewEntry::NONE; TOGETHER];
    let (mut count, mut of_part) = (0, 0);
    // Whether entries of the part lie far from each other, and after how many entries this is checked again.
    let (mut is_scattered, mut ask_after) = (false, 0);
    for (seq, (plan, op)) in (first_seq..).zip(batch.planned_ops()) {
        if let Some(plan) = ahead.next() {
            mems[plan.part()].0.table.prefetch(plan.hash);
        }
        let (part, height, hash) = (plan.part(), plan.height, plan.hash);
        if let Some(time_us) = op.time_us() {
            mems[part].0.note_time(time_us);
        }
        if !op.kind.is_entry() {
            continue;
        }
        if count == TOGETHER || part != of_part {
            let (mem, region) = &mut mems[of_part];
            mem.table.insert_together(region, &waiting[..count]);
            count = 0;
        }
        if part != of_part {
            (of_part, ask_after) = (part, 0);
        }
        let entry = NewEntry { height, key: op.key, hash, seq, kind: op.kind, value: op.value };
        let (mem, region) = &mut mems[part];
        if ask_after > 0 && is_scattered {
            waiting[count] = entry;
            count += 1;
        } else {
            mem.table.insert(region, &entry);
        }
        if ask_after == 0 {
            is_scattered = batch.len() >= TOGETHER / 2 && mem.table.is_scattered();
            ask_after = 4 * TOGETHER;
        }
        ask_after -= 1;
    }
    if count > 0 {
        let (mem, region) = &mut mems[of_part];
        mem.table.insert_together(region, &waiting[..count]);
    }
}

/// Takes the next place in the log for a record of `len` bytes whose first number is `first_seq`. The numbers are
/// already taken.
fn take_place(state: &mut CommitState, len: u64, first_seq: SeqNo) -> Place {
    let gap = state.log_seq != first_seq && !broken("rule-21-gap");
    let segment = Arc::clone(&state.tail.segment);
    let place = Place { segment, offset: state.tail.offset, position: state.tail.position(), gap };
    if gap {
        state.tail.advance(GAP_RECORD_LEN as u64);
    }
    state.tail.advance(len);
    state.log_seq = state.next_seq;
    place
}

/// Writes a record to its place in the log. It begins with `header`, and its first number is `first_seq`. The log was
/// synced up to the position `synced`.
fn store(
    place: &Place,
    mut header: [u8; record::HEADER_LEN],
    payload: &[u8],
    first_seq: SeqNo,
    synced: u64,
) -> Result<()> {
    let (epoch, mut offset, mut position) = (place.segment.header().epoch, place.offset, place.position);
    if place.gap {
        let payload = gap(first_seq);
        let mut header = record::header_for(&payload);
        record::seal(&mut header, epoch, offset, position.saturating_sub(synced));
        let mut bytes = [0; GAP_RECORD_LEN];
        bytes[..header.len()].copy_from_slice(&header);
        bytes[header.len()..].copy_from_slice(&payload);
        place.segment.store(offset, &bytes)?;
        (offset, position) = (offset + bytes.len() as u64, position + bytes.len() as u64);
    }
    record::seal(&mut header, epoch, offset, position.saturating_sub(synced));
    place.segment.store(offset, &header)?;
    place.segment.store(offset + header.len() as u64, payload)
}
