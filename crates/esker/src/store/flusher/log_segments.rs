//! Prepares log segments. If the disk has no room for one, a flush makes room.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Flusher;
use crate::env::JobKind;
use crate::error::Result;
use crate::space::is_full;
use crate::state::versions::ByTree;
use crate::store::at_work::AtWork;

/// Longest wait of one step of the log job for the merge that has the low-space mark. The job also syncs the log for clients.
const LENT_PAUSE: Duration = Duration::from_millis(5);

/// At most this many times a write flushes and waits for the merges of other threads before it is refused.
const ROUNDS_MAX: usize = 1000;

/// How long such a write waits for a merge to end before it assumes that the other threads are idle.
const MERGE_WAITS: u32 = 100;
const MERGE_PAUSE: Duration = Duration::from_millis(5);

impl Flusher {
    /// Makes a log segment with room for a record of `record_len` bytes, and sets aside the reserve that a store with
    /// such segments needs. `urgent`: it is needed for deletes, for which part of the reserve may be spent.
    pub(in crate::store) fn prepare_segment(&self, record_len: usize, urgent: bool) -> Result<()> {
        let is_ready = self.prepare_unless_lent(record_len, urgent)?;
        if is_ready { Ok(()) } else { Err(self.disk.full_error(record_len)) }
    }

    /// [`Flusher::prepare_segment`]. `false` if it is unknown whether there is room until a merge gives the low-space
    /// mark back, and this thread cannot wait for that because it does the store's work.
    fn prepare_unless_lent(&self, record_len: usize, urgent: bool) -> Result<bool> {
        let _inside = self.core.blobs.gate.enter()?;
        let longest = self.disk.fit_to_disk();
        let prepare = || self.prepare_if_admitted(record_len, urgent, longest);
        let is_short = |prepared: &Result<bool>| prepared.as_ref().map_or_else(is_full, |is_ready| !is_ready);
        let mut prepared = prepare();
        // The merge that has the low-space mark gives back more than it takes. After the wait, the mark is not lent
        // again before this is decided.
        let mut mark = None;
        if is_short(&prepared) && !self.core.health.has_failed() {
            mark = self.disk.keep_mark();
            prepared = prepare();
            if mark.is_none() && !urgent && is_short(&prepared) {
                return Ok(false);
            }
        }
        match prepared {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(error) if is_full(&error) => self.disk.fail(&error),
            Err(error) => return Err(error),
        }
        self.log.wal().begin_short();
        if !urgent {
            let error = self.disk.full_error(record_len);
            // A longer segment than usual may find no room where usual ones do.
            if !self.disk.has_space() {
                self.disk.fail(&error);
            }
            return Err(error);
        }
        drop(mark);
        let prepared = match self.disk.prepare_out_of_reserve(record_len) {
            Err(error) if is_full(&error) && !AtWork::is_on(&self.core) => self.prepare_by_work(record_len),
            result => result,
        };
        prepared.map(|()| true)
    }

    /// [`Flusher::prepare_segment`], with the free space. `longest`: the greatest length of a segment. `false` if puts
    /// have to be refused.
    fn prepare_if_admitted(&self, record_len: usize, urgent: bool, longest: u64) -> Result<bool> {
        let _one_at_a_time = self.disk.preparing().lock();
        // If another thread has just made a segment, the disk may have no room for a second one.
        if !self.log.wal().lacks_spare(record_len) {
            return Ok(true);
        }
        if !urgent && !self.disk.admits_segment(record_len)? {
            return Ok(false);
        }
        if let Some(len) = self.log.wal().missing_spare(record_len) {
            self.disk.space().reserve().cover(len.min(longest))?;
        }
        self.log.wal().prepare_spare(record_len)?;
        Ok(true)
    }

    /// [`Disk::prepare_out_of_reserve`](crate::store::Disk::prepare_out_of_reserve), after as much space-saving work as
    /// that needs.
    fn prepare_by_work(&self, record_len: usize) -> Result<()> {
        let mut full = None;
        let prepared = || match self.disk.prepare_out_of_reserve(record_len) {
            Err(error) if is_full(&error) => {
                full = Some(error);
                Ok(false)
            }
            result => result.map(|()| true),
        };
        let is_done = self.work_until(prepared)?;
        full.filter(|_| !is_done).map_or(Ok(()), Err)
    }

    /// Gives the log's share of the reserve back, and half a reserve more, as far as flushes and merges can. With the
    /// share alone, each of the next deletes would wait for merges again. Returns whether the share is there. A part of
    /// it that a flush or a merge uses for a moment counts as there. Does no work on a thread that does the store's
    /// work.
    pub(in crate::store) fn regain_share(&self) -> Result<bool> {
        if AtWork::is_on(&self.core) {
            return Ok(self.disk.has_share());
        }
        if !self.work_until(|| Ok(self.disk.space().has_plenty()))? {
            let _no_merge = self.end_merges();
            let _no_flush = self.flushing.lock();
            return Ok(self.disk.has_share());
        }
        Ok(true)
    }

    /// Waits until no merge runs, and keeps merges from beginning until the result is dropped.
    fn end_merges(&self) -> impl Sized + use<'_> {
        let _at_work = AtWork::on(&self.core);
        let _hurry = self.core.io_budget.hurry();
        self.installer.end_merges()
    }

    /// Merges and flushes until `done`, or until nothing is left to do. Returns whether it is done. Merges come first: deletes of
    /// long keys make tables of about their own length, which only merges remove, and more flushes would leave merges no room.
    fn work_until(&self, mut done: impl FnMut() -> Result<bool>) -> Result<bool> {
        let (mut idle, mut merges) = (0, 0);
        for _ in 0..ROUNDS_MAX {
            while self.core.merge_here() {
                if done()? {
                    return Ok(true);
                }
            }
            if self.flush_alone(&mut done)? {
                return Ok(true);
            }
            // Tries a second time, since another thread may just have been doing the work; and again while others
            // merge.
            let before = std::mem::replace(&mut merges, self.installer.merges());
            idle = if self.core.work_here() || merges != before { 0 } else { idle + 1 };
            if idle == 2 {
                if !self.await_merge(merges) {
                    break;
                }
                idle = 0;
            }
        }
        Ok(false)
    }

    /// Waits for the end of a merge, if other threads may do one: they may just be looking for it. `merges` were done before.
    fn await_merge(&self, merges: u64) -> bool {
        let waits = if self.core.is_stepped() { 0 } else { MERGE_WAITS };
        (0..waits).any(|_| {
            self.core.env().clock.sleep(MERGE_PAUSE);
            self.installer.merges() != merges
        })
    }

    /// Flushes until `done`, or until nothing is left to flush. Returns whether it is done. No merge runs meanwhile: a
    /// running one may have taken the free space and the reserve, and gives back more at its end; a new one could take
    /// that again.
    fn flush_alone(&self, mut done: impl FnMut() -> Result<bool>) -> Result<bool> {
        let _no_merge = self.end_merges();
        let mut is_switched = false;
        loop {
            // The immutable memtables are turned into tables first, which gives their log back.
            let at_work = AtWork::on(&self.core);
            let flushed = match self.disk.space().with_reserve(|| self.flush_immutable()) {
                Ok(flushed) => flushed,
                Err(error) if is_full(&error) => ByTree::new(),
                Err(error) => return Err(error),
            };
            self.tell_flushed(&flushed);
            drop(at_work);
            let no_flush = self.flushing.lock();
            self.disk.remove_obsolete()?;
            if done()? {
                return Ok(true);
            }
            drop(no_flush);
            if flushed.is_empty() {
                if is_switched {
                    return Ok(false);
                }
                // A few long batches have taken the log's share of the reserve, and their memtable is not full yet.
                self.versions.trees().iter().for_each(|tree| self.switch_memtable(tree, 0));
                is_switched = true;
            }
        }
    }

    /// Makes the log job prepare a segment with room for a record of `record_len` bytes.
    pub(in crate::store) fn want_segment(&self, record_len: usize) {
        self.wanted_record.fetch_max(record_len, Ordering::AcqRel);
        self.core.notify(JobKind::Log);
    }

    pub(in crate::store) fn run_log_job(&self) -> Result<bool> {
        let mut worked = self.log.sync_if_requested()?;
        let wanted = self.wanted_record.swap(0, Ordering::AcqRel);
        if !self.log.wal().has_spare() || (wanted > 0 && self.log.wal().lacks_spare(wanted)) {
            match self.prepare_unless_lent(wanted, false) {
                Ok(true) => worked = true,
                Ok(false) => {
                    self.wanted_record.fetch_max(wanted, Ordering::AcqRel);
                    // The merge wakes this job at its end. Clients that are told to try again after each step wait a
                    // moment.
                    self.disk.await_mark(LENT_PAUSE);
                }
                Err(error) => {
                    self.wanted_record.fetch_max(wanted, Ordering::AcqRel);
                    return Err(error);
                }
            }
        }
        if self.log.wal().has_sealed_unsynced() {
            self.log.sync_to(self.log.wal().current_start())?;
            worked = true;
        }
        Ok(worked)
    }
}
