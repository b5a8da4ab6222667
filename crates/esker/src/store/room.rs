//! What room the disk leaves, the sizes that follow from it, and what a put is told where it is not enough.
//!
//! *Room* is what the store can take beside its tables and huge values: what is free, the reserve, and the log's files.
//! It is looked at whenever a log segment is made ready, which is before the log grows and never in the path of a put.
//!
//! ```text
//! s   longest log segment   room / 64, a power of two, at least 256 KiB, at most what the memory budget allows
//! M   full memtable         4s, at most what the memory budget allows; room / 16 where that is more and s the longest there is
//! 4M  low-space mark        at most 32 MiB
//! 5s  reserve               see `reserve.rs`
//! ```
//!
//! The invariant is that what has to go on without puts has its space before a put is taken:
//!
//! - *Others take no space* (D18). Memtables hold at most 3M: one that is written and 2M that wait, then writers wait too.
//!   Puts get a new log segment only where the mark, and what the reserve lacks, stay free beside it, and are refused when
//!   less is free. So at that moment the tables of all memtables find room below the mark, an M is left for the manifest
//!   and the log of deletes, and the reserve is whole. Each flush then gives back the log that it has made needless.
//! - *Others take every byte* (D20, D21). The reserve alone is left. Its 4s hold the tables of one full memtable, since
//!   M <= 4s, but for an `Options::memtable_bytes` of more than that. Memtables are then flushed one after the other, and
//!   each gives back its log. Deletes have 1s. An opening replays one segment after the other.
//! - A record longer than s has a segment of its own. It is taken where the disk has room for it twice, as log and as
//!   table, beside all that.
//!
//! When room shrinks, s and M do so with the next look. What memtables hold then is covered by the reserve of before,
//! which is made shorter only when the log has none of its longer segments any more (`shrink.rs`).

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{SPARE_WHEN_FULL, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::options::Options;

/// Segments of the greatest length that the room has space for.
const SEGMENTS: u64 = 64;
/// Full memtables that the room has space for.
const MEMTABLES: u64 = 16;
/// Segments of whose length a full memtable is at most.
const SEGMENTS_PER_MEMTABLE: u64 = 4;

/// What follows the room that there is.
#[derive(Debug)]
pub(super) struct Sizes {
    /// A memtable of so many bytes is full.
    memtable: AtomicUsize,
}

impl Sizes {
    pub(super) fn new(options: &Options) -> Sizes {
        Sizes { memtable: AtomicUsize::new(options.memtable_limit()) }
    }
}

/// Bytes, as a message shows them.
pub(super) fn shown(bytes: u64) -> String {
    if bytes < 10 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) }
}

impl Store {
    /// A memtable of so many bytes is full.
    pub(super) fn memtable_limit(&self) -> usize {
        self.sizes.memtable.load(Ordering::Relaxed)
    }

    /// Bytes of memtables that may wait to be flushed before writers do.
    pub(super) fn waiting_max(&self) -> usize {
        self.memtable_limit() * 2
    }

    /// Bytes of log segments that recovery would read, beyond which the oldest memtables are flushed.
    pub(super) fn log_max(&self) -> u64 {
        (self.memtable_limit() as u64 * 4).max(4 << 20)
    }

    /// Free bytes of the disk below which puts are refused, so that flushing, merging and deletes go on.
    pub(super) fn low_space(&self) -> u64 {
        (self.memtable_limit() as u64 * 4).min(32 << 20)
    }

    /// Makes the sizes what the disk has room for; returns the greatest length of a log segment.
    pub(super) fn fit_to_disk(&self) -> u64 {
        // Where the file system does not tell, the memory budget alone counts.
        let free = self.env.fs.free_space(&self.dir).unwrap_or(u64::MAX);
        let log = self.wal.disk_bytes().saturating_add(self.commit.lock().tail.segment.end());
        let room = free.saturating_add(log).saturating_add(self.reserve.held());
        let segment = room / SEGMENTS;
        let longest = self.wal.bound_len(if segment == 0 { 0 } else { 1 << segment.ilog2() });
        let mut fitting = SEGMENTS_PER_MEMTABLE * longest;
        if longest == self.options.segment_len_max() {
            fitting = fitting.max(room / MEMTABLES);
        }
        let limit = usize::try_from(fitting).unwrap_or(usize::MAX).min(self.options.memtable_limit());
        // Writers read it with every write: it is written where it changes.
        if self.memtable_limit() != limit {
            self.sizes.memtable.store(limit, Ordering::Relaxed);
        }
        longest
    }

    /// Bytes that must be free for a put that needs a log segment of `new` bytes, 0 where one stands ready: the segment
    /// itself, the low-space mark, and what the reserve lacks then.
    fn needed_space(&self, new: u64) -> u64 {
        let usual = new.min(self.wal.len_bound());
        // The table of a record that is longer.
        let table = if new > usual { new } else { 0 };
        [new, table, self.low_space(), self.reserve.missing_for(usual)]
            .into_iter()
            .fold(0, u64::saturating_add)
    }

    fn has_space_for(&self, new: u64) -> bool {
        self.env.fs.free_space(&self.dir).is_ok_and(|free| free >= self.needed_space(new))
    }

    /// Whether the disk has room for puts.
    pub(super) fn has_space(&self) -> bool {
        self.has_space_for(self.wal.missing_spare(0).unwrap_or(0))
    }

    /// [`Store::has_space`], after giving back what is kept for speed alone.
    pub(super) fn has_space_at_last(&self) -> Result<bool> {
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
        let admits = || self.wal.missing_spare(record_len).is_none_or(|len| self.has_space_for(len));
        Ok(admits() || (self.has_space_at_last()? && admits()))
    }

    /// What the disk has free, as a message shows it.
    pub(super) fn shown_free(&self) -> String {
        self.env.fs.free_space(&self.dir).map_or_else(|_| "an unknown number of bytes".to_owned(), shown)
    }

    /// What a put is told on a full disk.
    pub(super) fn full_error(&self, record_len: usize) -> Error {
        let message = format!(
            "the disk is full: {} free, puts are refused below {}, and RESERVE holds {} more; reads and deletes go on",
            self.shown_free(),
            shown(self.needed_space(self.wal.missing_spare(record_len).unwrap_or(0))),
            shown(self.reserve.held())
        );
        Error::new(ErrorKind::OutOfSpace, message).at(&self.dir)
    }
}
