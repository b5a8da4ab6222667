//! Space for the log's next segment: whether the disk has it, and where else it can come from.

use super::{Disk, SPARE_WHEN_FULL};
use crate::error::Result;
use crate::space::{Tables, is_full};

impl Disk {
    /// Fits log segments and memtables to the disk; returns the greatest length of a segment.
    pub(in crate::store) fn fit_to_disk(&self) -> u64 {
        self.space.fit(self.log_bytes(), self.tables(), |len| self.log.wal().bound_len(len))
    }

    /// The sizes of the present tables.
    fn tables(&self) -> Tables {
        let mut tables = Tables::default();
        for tree in self.versions.trees() {
            for (_, table) in tree.state.load().levels.tables() {
                tables.bytes = tables.bytes.saturating_add(table.info.size);
                tables.longest = tables.longest.max(table.info.size);
            }
        }
        tables
    }

    /// Bytes of all files of the log.
    pub(in crate::store) fn log_bytes(&self) -> u64 {
        self.log.wal().disk_bytes().saturating_add(self.log.commit().lock().tail.segment.end())
    }

    /// [`Disk::has_space`]. If there is no room, this first gives back files that are kept only for speed.
    pub(in crate::store) fn free_spares_for_space(&self) -> Result<bool> {
        if self.has_space() {
            return Ok(true);
        }
        self.log.wal().begin_short();
        self.log.wal().forget_history();
        self.remove_surplus(SPARE_WHEN_FULL)?;
        Ok(self.has_space())
    }

    /// Whether a segment may be made for a put with a record of `record_len` bytes.
    pub(in crate::store) fn admits_segment(&self, record_len: usize) -> Result<bool> {
        let admits = || {
            let need = self.log_need(record_len);
            need.new == 0 || self.space.has_room(need)
        };
        Ok(admits() || (self.free_spares_for_space()? && admits()))
    }

    /// Whether the part of the reserve that is set aside for deletes is long enough for a batch that also puts `put_bytes` bytes.
    /// Huge values do not count: a full disk refuses them where their bytes are written.
    pub(in crate::store) fn fits_share(&self, put_bytes: usize) -> bool {
        put_bytes as u64 <= self.log.wal().len_bound() / 2
    }

    /// Whether that part of the reserve is there.
    pub(in crate::store) fn has_share(&self) -> bool {
        // A flush or merge that has just ended may have used the reserve. The files that it made obsolete count as free
        // space only when they are removed.
        let comes_back = || self.remove_obsolete().is_ok() && self.space.has_share();
        self.space.has_share() || comes_back()
    }

    pub(in crate::store) fn prepare_out_of_reserve(&self, record_len: usize) -> Result<()> {
        match self.log.wal().prepare_spare(record_len) {
            Err(error)
                if is_full(&error)
                    && self
                        .log
                        .wal()
                        .missing_spare(record_len)
                        .is_some_and(|len| self.space.reserve().spend(len)) =>
            {
                self.log.wal().prepare_spare(record_len)
            }
            result => result,
        }
    }

    /// Sets aside the reserve, now that the store is open.
    pub(crate) fn begin_reserve(&self) -> Result<()> {
        self.fit_to_disk();
        let segment = self.log.commit().lock().tail.segment.end();
        match self.space.reserve().cover(segment).and_then(|()| self.space.reserve().restore()) {
            Err(error) if is_full(&error) => self.fail(&error),
            result => return result,
        }
        Ok(())
    }
}
