//! Space for the log's next segment: whether the disk has it, and where else it comes from.

use super::at_work::AtWork;
use super::{SPARE_WHEN_FULL, Store, flush};
use crate::error::Result;
use crate::space::is_full;

impl Store {
    /// Fits log segments and memtables to the disk; returns the greatest length of a segment.
    pub(super) fn fit_to_disk(&self) -> u64 {
        let log = self.wal.disk_bytes().saturating_add(self.commit.lock().tail.segment.end());
        self.space.fit(log, |len| self.wal.bound_len(len))
    }

    /// [`Store::has_space`]. If there is none, this first gives back what is kept for speed alone.
    pub(super) fn free_spares_for_space(&self) -> Result<bool> {
        if self.has_space() {
            return Ok(true);
        }
        self.wal.begin_short();
        self.wal.forget_history();
        self.remove_surplus(SPARE_WHEN_FULL)?;
        Ok(self.has_space())
    }

    /// Whether a segment may be made for a put with a record of `record_len` bytes.
    pub(super) fn admits_segment(&self, record_len: usize) -> Result<bool> {
        let admits = || {
            let need = self.log_need(record_len);
            need.new == 0 || self.space.has_room(need)
        };
        Ok(admits() || (self.free_spares_for_space()? && admits()))
    }

    /// Makes a log segment ready that has room for a record of `record_len` bytes, and sets aside what a
    /// store with such segments needs. `urgent`: it is needed for deletes, for which part of the reserve may
    /// be spent.
    pub(super) fn prepare_segment(&self, record_len: usize, urgent: bool) -> Result<()> {
        let _inside = self.blobs.gate.enter()?;
        let longest = self.fit_to_disk();
        let prepare = || {
            if let Some(len) = self.wal.missing_spare(record_len) {
                self.space.reserve().cover(len.min(longest))?;
            }
            self.wal.prepare_spare(record_len)
        };
        if urgent || self.admits_segment(record_len)? {
            match prepare() {
                Err(error) if is_full(&error) => self.fail(&error),
                result => return result,
            }
        }
        self.wal.begin_short();
        if !urgent {
            let error = self.full_error(record_len);
            // One that is longer than others may find no room where they do.
            if !self.has_space() {
                self.fail(&error);
            }
            return Err(error);
        }
        match self.prepare_out_of_reserve(record_len) {
            Err(error) if is_full(&error) && !AtWork::is_on(self) => self.prepare_alone(record_len),
            result => result,
        }
    }

    /// [`Store::prepare_out_of_reserve`] when no flush or merge is under way: one may have taken what was free, and the
    /// reserve, and gives back more at its end. None begins meanwhile, which could take that again.
    fn prepare_alone(&self, record_len: usize) -> Result<()> {
        let at_work = AtWork::on(self);
        let hurry = self.io_budget.hurry();
        let _no_merge = self.compacting.lock();
        drop(hurry);
        // What waits for it is turned into tables, which gives its log back.
        match self.space.with_reserve(|| flush::flush_immutable(self)) {
            Err(error) if !is_full(&error) => return Err(error),
            _ => {}
        }
        drop(at_work);
        let _no_flush = self.flushing.lock();
        self.remove_obsolete()?;
        self.prepare_out_of_reserve(record_len)
    }

    fn prepare_out_of_reserve(&self, record_len: usize) -> Result<()> {
        match self.wal.prepare_spare(record_len) {
            Err(error)
                if is_full(&error)
                    && self
                        .wal
                        .missing_spare(record_len)
                        .is_some_and(|len| self.space.reserve().spend(len)) =>
            {
                self.wal.prepare_spare(record_len)
            }
            result => result,
        }
    }

    /// Sets aside what the store needs, now that it is open.
    pub(crate) fn begin_reserve(&self) -> Result<()> {
        self.fit_to_disk();
        let segment = self.commit.lock().tail.segment.end();
        match self.space.reserve().cover(segment).and_then(|()| self.space.reserve().restore()) {
            Err(error) if is_full(&error) => self.fail(&error),
            result => return result,
        }
        Ok(())
    }
}
