//! The path of a write through the store: admission, the commit pipeline, and the work that the write makes due.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Collector, CommitLog, Core, Disk, Flusher, Installer};
use crate::blob::NewBlob;
use crate::cursor::{Kind, SeqNo};
use crate::env::JobKind;
use crate::error::{BusyUntil, Error, ErrorKind, Result};
use crate::log::record;
use crate::options::Durability;
use crate::ranges::KeyRange;
use crate::space::is_full;
use crate::state::{AfterWrite, KeyBounds, TreeInner};
use crate::trace::{Cause, Operation, Step, Subject, perf_context};
use crate::write::batch::{Batch, HugeValue};
use crate::write::commit::{Committed, NewRecord};

mod new_blobs;
#[cfg(test)]
mod tests;
mod times;

/// Refuses a batch with keys outside of their trees' present bounds.
fn check_key_bounds(batch: &Batch) -> Result<()> {
    let are_whole = batch.parts().iter().all(|part| part.tree.state.load().key_bounds.is_whole());
    if are_whole { Ok(()) } else { check_each_key(batch) }
}

#[inline(never)]
fn check_each_key(batch: &Batch) -> Result<()> {
    let bounds: Vec<Arc<KeyBounds>> =
        batch.parts().iter().map(|part| Arc::clone(&part.tree.state.load().key_bounds)).collect();
    for (plan, op) in batch.planned_ops().filter(|(_, op)| op.kind != Kind::Time) {
        let (key_bounds, name) = (&bounds[plan.part()], &batch.parts()[plan.part()].tree.name);
        match KeyRange::decode(op.key, op.value).filter(|_| op.kind == Kind::DeleteRange) {
            // A range counts as far as the tree has it.
            Some(range) if key_bounds.range.common(&range).is_some() => {}
            _ => key_bounds.check(name, op.key)?,
        }
    }
    Ok(())
}

/// The tree and key of the first write in `batch`.
fn subject(batch: &Batch) -> Subject {
    let first = batch.planned_ops().find(|(_, op)| op.kind != Kind::Time);
    first.map_or_else(Subject::none, |(plan, op)| Subject::of(&batch.parts()[plan.part()].tree.name, op.key))
}

/// Whether a write may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    Yes,
    No,
}

/// How long a write that does not wait tries to take the commit lock. Other threads hold the lock for microseconds.
const LOCK_AT_MOST: Duration = Duration::from_micros(500);

/// The position of a write.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    /// The log position after it and after all earlier records.
    pub(crate) end: u64,
    /// Of a write that skips the log: one of its trees, and its last sequence number. All its trees are flushed together.
    pub(crate) unlogged: Option<(Arc<TreeInner>, SeqNo)>,
}

/// Takes batches and huge values.
pub(crate) struct WritePath {
    core: Arc<Core>,
    log: Arc<CommitLog>,
    disk: Arc<Disk>,
    installer: Arc<Installer>,
    flusher: Arc<Flusher>,
    collector: Arc<Collector>,
}

impl WritePath {
    pub(super) fn new(
        core: &Arc<Core>,
        log: &Arc<CommitLog>,
        disk: &Arc<Disk>,
        installer: &Arc<Installer>,
        flusher: &Arc<Flusher>,
        collector: &Arc<Collector>,
    ) -> WritePath {
        WritePath {
            core: Arc::clone(core),
            log: Arc::clone(log),
            disk: Arc::clone(disk),
            installer: Arc::clone(installer),
            flusher: Arc::clone(flusher),
            collector: Arc::clone(collector),
        }
    }

    /// Writes `batch` with `durability`.
    pub(crate) fn write(&self, batch: &Batch, durability: Durability) -> Result<()> {
        self.write_if(batch, durability, None).map(drop)
    }

    /// Writes `batch` with `durability`, and returns its position.
    pub(crate) fn write_placed(&self, batch: &Batch, durability: Durability) -> Result<Placed> {
        self.measured(batch, || {
            let placed = self.write_whole(batch, &mut Vec::new(), durability, None, Waits::Yes)?;
            Ok(placed.unwrap_or_else(|| self.nothing_written()))
        })
    }

    /// Writes `batch` if that requires no wait, not even for a file; otherwise fails with `Busy` or `NeedsIo`.
    pub(crate) fn try_write(&self, batch: &Batch) -> Result<Placed> {
        self.measured(batch, || {
            let separate_at = self.core.options.separate_at.max(1);
            let needs_file = |value: &HugeValue| match value {
                HugeValue::Bytes(_) => true,
                HugeValue::Staged(staged) => match &staged.value {
                    HugeValue::Bytes(bytes) => (**bytes).as_ref().len() >= separate_at,
                    _ => false,
                },
                _ => false,
            };
            if batch.huge().any(|(_, _, value)| needs_file(value)) {
                let message = "the batch has a huge value, which has to be written first: stage it, or write the batch \
                               by a call that may wait";
                return Err(Error::new(ErrorKind::NeedsIo, message));
            }
            let write = || self.write_whole(batch, &mut Vec::new(), Durability::Process, None, Waits::No);
            let placed = match write() {
                Err(error) if error.kind() == ErrorKind::Busy => {
                    // The event that it waits for may have happened before this was noted, when the listener was not
                    // told.
                    self.core.note_refused();
                    write()?
                }
                written => written?,
            };
            Ok(placed.unwrap_or_else(|| self.nothing_written()))
        })
    }

    /// The place of an empty batch.
    fn nothing_written(&self) -> Placed {
        Placed { end: self.log.commit().published(), unlogged: None }
    }

    fn measured<T>(&self, batch: &Batch, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.core.metrics.measure(Operation::Write, || subject(batch), work)
    }

    /// Writes `batch` if `condition` holds. It is called while no other write is in progress. Returns the log position
    /// after the write, which orders writes; `None` if the condition did not hold.
    pub(crate) fn write_if(
        &self,
        batch: &Batch,
        durability: Durability,
        condition: Option<&dyn Fn() -> Result<bool>>,
    ) -> Result<Option<u64>> {
        self.write_blobs_if(batch, Vec::new(), durability, condition)
    }

    /// [`WritePath::write_if`] of a batch with pointers to `blobs`, which are freed if it is not written.
    pub(crate) fn write_blobs_if(
        &self,
        batch: &Batch,
        mut blobs: Vec<NewBlob>,
        durability: Durability,
        condition: Option<&dyn Fn() -> Result<bool>>,
    ) -> Result<Option<u64>> {
        self.measured(batch, || {
            let placed = self.write_whole(batch, &mut blobs, durability, condition, Waits::Yes)?;
            Ok(placed.map(|placed| placed.end))
        })
    }

    /// Writes a batch, with its huge values and those of `blobs`. `None` if `condition` does not hold.
    fn write_whole(
        &self,
        batch: &Batch,
        blobs: &mut Vec<NewBlob>,
        durability: Durability,
        condition: Option<&dyn Fn() -> Result<bool>>,
        waits: Waits,
    ) -> Result<Option<Placed>> {
        if !self.admits(batch, waits)? {
            return Ok(Some(self.nothing_written()));
        }
        if !batch.has_huge() {
            return self.write_separated(batch, blobs, durability, condition, waits);
        }
        // A write that is refused should write no huge value, and give out no reference.
        batch.is_logged()?;
        check_key_bounds(batch)?;
        if let Some(part) = batch.parts().iter().find(|part| part.tree.is_dropped()) {
            return Err(part.tree.dropped_error());
        }
        if waits == Waits::No {
            self.check_ready(batch)?;
        }
        let (batch, new) = self.separate(batch)?;
        blobs.extend(new);
        self.write_separated(&batch, blobs, durability, condition, waits)
    }

    /// Refuses a batch that this store cannot write now. `false` if the batch is empty.
    fn admits(&self, batch: &Batch, waits: Waits) -> Result<bool> {
        self.check_admits(batch, waits)?;
        if batch.is_empty() {
            return Ok(false);
        }
        if batch.parts().iter().any(|part| part.tree.store != self.core.id) {
            let message = "the batch holds a tree of another store, or of an earlier opening of this one";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        Ok(true)
    }

    /// Fails if merges fall behind because they lack descriptors or memory. Slowing the writer more and more would not
    /// show it the cause.
    fn check_merging(&self) -> Result<()> {
        let lacking = if self.core.throttle.is_outrun() {
            self.core.health.shortage_in(JobKind::Compact)
        } else {
            None
        };
        lacking.map_or(Ok(()), Err)
    }

    /// Writes a batch that holds pointers in the places of its huge values. The values of `blobs` count from then on.
    fn write_separated(
        &self,
        batch: &Batch,
        blobs: &mut [NewBlob],
        durability: Durability,
        condition: Option<&dyn Fn() -> Result<bool>>,
        waits: Waits,
    ) -> Result<Option<Placed>> {
        let is_logged = batch.is_logged()?;
        let header_of = |batch: &Batch| is_logged.then(|| record::header_for(batch.payload()));
        let mut timed = self.timed(batch, waits)?;
        let mut header = header_of(timed.batch());
        let mut seen = self.core.blobs.filter.additions();
        let mut lookups = self.lookups_of(batch);
        if self.core.throttle.is_slowing() {
            self.check_merging()?;
            if waits == Waits::Yes {
                self.core.throttle.admit(&*self.core.env().clock, batch.size_bytes());
            }
        }
        if waits == Waits::No {
            self.check_ready(batch)?;
        }
        let mut has_lookups = !lookups.is_empty();
        let mut splits = self.installer.splits().load(Ordering::Acquire);
        check_key_bounds(batch)?;
        let (end, last_seq) = loop {
            if waits == Waits::Yes {
                self.wait_for_memtables(batch)?;
            }
            let state = match condition {
                None if waits == Waits::No => {
                    let busy = || Error::busy_until(BusyUntil::Written);
                    self.log.commit().lock_within(LOCK_AT_MOST).ok_or_else(busy)?
                }
                None => self.log.commit().lock(),
                Some(condition) => {
                    let state = self.log.commit().lock_quiet();
                    if !condition()? {
                        return Ok(None);
                    }
                    state
                }
            };
            if seen != self.core.blobs.filter.additions() {
                // One of the keys may have got a huge value meanwhile.
                seen = self.core.blobs.filter.additions();
                lookups = self.lookups_of(batch);
                has_lookups = !lookups.is_empty();
            }
            if splits != self.installer.splits().load(Ordering::Acquire) {
                splits = self.installer.splits().load(Ordering::Acquire);
                check_key_bounds(batch)?;
            }
            if !timed.is_right() {
                drop(state);
                timed = self.timed(batch, waits)?;
                header = header_of(timed.batch());
                continue;
            }
            let batch = timed.batch();
            let record =
                NewRecord { batch, blobs: &mut *blobs, header, unmarked: durability == Durability::Power };
            match self.log.commit().commit(state, self.log.wal(), record, &mut lookups) {
                Ok(Committed::Done { end, last_seq }) => break (end, last_seq),
                Ok(Committed::Paused) if waits == Waits::No => {
                    return Err(Error::busy_until(BusyUntil::TreeChanged));
                }
                Ok(Committed::NeedsSegment(len)) if waits == Waits::No => {
                    self.flusher.want_segment(len);
                    // On a full disk no segment comes: a call that waits takes it out of the reserve.
                    self.disk.ensure_writable()?;
                    return Err(Error::busy_until(BusyUntil::LogSegment));
                }
                Ok(Committed::Paused) => {
                    perf_context::waiting(&*self.core.env().clock, Cause::Ingest, || {
                        self.wait_while_paused(batch);
                    });
                }
                Ok(Committed::NeedsSegment(len)) => {
                    let prepare = || {
                        let urgent = self.gives_back_in_time(batch)?;
                        self.flusher.prepare_segment(len, urgent)
                    };
                    perf_context::waiting(&*self.core.env().clock, Cause::Segment, prepare)?;
                }
                Err(_) if self.core.health.is_closing() => return Err(self.core.health.closed_error()),
                Err(error) => return Err(error),
            }
        };
        if waits == Waits::No {
            self.core.throttle.charge(&*self.core.env().clock, batch.size_bytes());
        }
        self.after_write(batch);
        if has_lookups {
            self.core.notify(JobKind::Blobs);
        }
        if durability == Durability::Power {
            let make_durable = || match header {
                Some(_) => {
                    self.log.wal().note_waiter();
                    self.log.sync_to(end)
                }
                None => self.flusher.flush_trees(batch.parts().iter().map(|part| &part.tree)),
            };
            perf_context::waiting(&*self.core.env().clock, Cause::Sync, make_durable)?;
        }
        let written = timed.batch().payload().len();
        perf_context::step(|| Step::Write { bytes: (record::HEADER_LEN + written) as u64 });
        let unlogged = || batch.parts().first().map(|part| (Arc::clone(&part.tree), last_seq));
        Ok(Some(Placed { end, unlogged: if header.is_some() { None } else { unlogged() } }))
    }

    /// Refuses a batch that cannot be written. On a full disk deletes continue, since they free space.
    fn check_admits(&self, batch: &Batch, waits: Waits) -> Result<()> {
        if self.core.health.has_failed() && self.gives_back(batch) {
            return self.log.check_changeable();
        }
        match self.disk.ensure_writable() {
            // Another thread has met the full disk since.
            Err(error) if is_full(&error) && self.gives_back(batch) => self.log.check_changeable(),
            Err(error) if is_full(&error) && waits == Waits::Yes && self.gives_back_in_time(batch)? => {
                self.log.check_changeable()
            }
            admitted => admitted,
        }
    }

    /// [`WritePath::gives_back`]. If removals have taken the log's share of the reserve, or a merge has it now, a batch
    /// that deletes something first waits until the share is back.
    fn gives_back_in_time(&self, batch: &Batch) -> Result<bool> {
        if self.gives_back(batch) {
            return Ok(true);
        }
        Ok(batch.has_deletes() && self.may_give_back(batch) && self.flusher.regain_share()?)
    }

    /// Whether a full disk takes the batch, because it frees space.
    fn gives_back(&self, batch: &Batch) -> bool {
        batch.only_deletes() || (self.may_give_back(batch) && self.disk.has_share())
    }

    /// Whether a full disk takes the batch if the log's share of the reserve is there.
    fn may_give_back(&self, batch: &Batch) -> bool {
        batch.is_freeing() && self.disk.fits_share(batch.put_bytes())
    }

    /// Makes full memtables immutable, lets other memtables learn from their keys, and notifies the jobs that the write
    /// has made work for.
    fn after_write(&self, batch: &Batch) {
        let limit = self.disk.space().memtable_limit();
        for part in batch.parts() {
            match part.tree.after_write(limit) {
                AfterWrite::Flush => self.flusher.switch_memtable(&part.tree, limit),
                AfterWrite::Learn => {
                    if let Some(_quiet) = self.log.commit().try_lock_quiet() {
                        part.tree.learn(limit);
                    }
                }
                AfterWrite::Nothing => {}
            }
        }
        if !self.log.wal().has_spare() {
            // A segment was begun: the next one has to be prepared, and the log may have outgrown its budget.
            self.core.notify(JobKind::Log);
            self.core.notify(JobKind::Flush);
        }
        self.core.note_written();
    }

    /// Refuses a batch that would have to wait before it takes the commit lock.
    fn check_ready(&self, batch: &Batch) -> Result<()> {
        if batch.is_paused() {
            return Err(Error::busy_until(BusyUntil::TreeChanged));
        }
        if !self.core.throttle.admits(&*self.core.env().clock) {
            return Err(Error::busy_until(BusyUntil::Merged));
        }
        if self.installer.immutable().bytes() >= self.disk.space().immutable_max() {
            self.core.notify(JobKind::Flush);
            return Err(Error::busy_until(BusyUntil::Flushed));
        }
        Ok(())
    }

    /// Delays a writer while the waiting memtables are at their limit.
    fn wait_for_memtables(&self, batch: &Batch) -> Result<()> {
        let limit = self.disk.space().immutable_max();
        let full = || self.installer.immutable().bytes() >= limit;
        if !full() {
            return Ok(());
        }
        self.core.notify(JobKind::Flush);
        perf_context::waiting(&*self.core.env().clock, Cause::Memtables, || {
            match self.disk.wait_until(|| !full()) {
                // The background may have given up. A delete tries whether a flush is possible.
                Err(error) if is_full(&error) && self.gives_back_in_time(batch)? => {
                    while full() && self.flusher.flush_some()? {}
                    Ok(())
                }
                waited => waited,
            }
        })
    }

    /// Waits until no tree of the batch is paused.
    fn wait_while_paused(&self, batch: &Batch) {
        // It never fails.
        let _ = self.core.health.wait(|| Ok(!batch.is_paused()));
    }
}
