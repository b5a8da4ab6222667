//! Space on disk: how much the store may take, the sizes that follow from it, and the error of a put that lacks space.
//!
//! *Room* is the space that the store can take next to its tables and huge values: the free space, the reserve, and the
//! log's files. The store looks at it whenever it makes a log segment ready: before the log grows, and never in the
//! path of a put.
//!
//! ```text
//! s   longest log segment   room / 64, a power of two, at least 256 KiB, at most what the memory budget allows
//! M   full memtable         4s, at most what the memory budget allows; room / 16 where that is more and s the longest there is
//! 4M  low-space mark        or the longest table that there is, if that is more; at most 32 MiB
//! 5s  reserve               see `reserve.rs`
//! t   longest new table     (room + tables) / 128, at least 1 MiB, at most `Options::table_bytes`
//! ```
//!
//! A merge writes its output before its input goes. On a full disk it has the free space and the reserve for that,
//! which suffices for one table of the bottom level: no such table is longer than the mark.
//!
//! Flushes, merges and deletes must continue when puts cannot. Therefore their space is there before a put is accepted:
//!
//! - *Other programs take no space* (D18). Memtables hold at most 3M: one that takes writes and 2M that are immutable;
//!   then writers wait. A put gets a new log segment only if the low-space mark, and the missing part of the reserve,
//!   stay free in addition to it. Therefore, when puts are refused, the tables of all memtables find room below the
//!   mark, an M is left for the manifest and the log of deletes, and the reserve is whole. Each flush then gives back
//!   the log that it has made needless.
//! - *The mark is lent.* A merge that gives back more than it takes may have three quarters of the mark, one merge at a
//!   time. A put that finds too little room then is not refused before that merge has ended and the room was checked
//!   again. Therefore the first point holds whenever puts are refused.
//! - *Other programs take every byte* (D20, D21). Only the reserve is left. Its 4s hold the tables of one full
//!   memtable, since M <= 4s, unless `Options::memtable_bytes` is greater. Memtables are then flushed one after the
//!   other, and each flush gives back log. Deletes have 1s. An opening replays one segment after the other.
//! - A record longer than s has its own segment. The store takes it if the disk has room for it twice, as log and as
//!   table, in addition to all that.
//!
//! When the room shrinks, s and M shrink at the next look. The earlier, larger reserve covers the memtables of that
//! time. It is shortened only when the log has none of its longer segments any more (`store/flusher/shrink.rs`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::env::{Env, Gate};
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Options, TableLimits};

mod reserve;

pub(crate) use reserve::{RESERVE_FILE, Released, Reserve, give_up, reserve_path, size_for};

/// Segments of the greatest length that the room has space for.
const SEGMENTS: u64 = 64;
/// Full memtables that the room has space for.
const MEMTABLES: u64 = 16;
/// Tables of the greatest length that fit into the room together with the existing tables, if that length is more than
/// [`TABLE_MIN`].
const TABLES: u64 = 128;
/// The least bound of a table's size, in bytes. With shorter tables there would only be more of them.
const TABLE_MIN: u64 = 1 << 20;
/// The part of the low-space mark that the store does not lend. A flush that needs more takes the reserve, or waits for the merge.
const MARK_KEPT: u64 = 4;
/// The greatest size of a full memtable, in segments.
const SEGMENTS_PER_MEMTABLE: u64 = 4;

/// The log's needs for its next record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogNeed {
    /// The length of the segment that has to be made for it; 0 if one stands ready.
    pub(crate) new: u64,
    /// The greatest length of a segment that holds several records.
    pub(crate) usual_max: u64,
}

/// The room of a background merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MergeRoom {
    /// The free space above the low-space mark.
    AboveMark,
    /// That, and most of the mark, which is lent to the merge: it gives back more than it takes. Without this a store
    /// just above the mark could not give back its dead entries.
    IntoMark,
    /// All that is free, and the reserve, since puts are refused.
    All,
}

/// See the module's comment. All methods may be called by many threads at the same time.
#[derive(Debug)]
pub(crate) struct Space {
    env: Env,
    dir: PathBuf,
    /// The greatest size of a memtable, by the memory budget.
    memtable_max: usize,
    /// The greatest length of a log segment, by the memory budget.
    segment_max: u64,
    /// The size of a full memtable, by the budget and the disk.
    memtable: AtomicUsize,
    /// The greatest size of a new table, by the disk.
    table: AtomicU64,
    /// The size of the longest table that there was at the last look.
    longest_table: AtomicU64,
    reserve: Reserve,
}

/// [`Space::immutable_max`] where a full memtable has `memtable` bytes.
pub(crate) fn immutable_max(memtable: usize) -> usize {
    memtable * 2
}

/// [`Space::low_mark`] where a full memtable has `memtable` bytes, and the longest table `table`.
pub(crate) fn low_mark(memtable: usize, table: u64) -> u64 {
    (memtable as u64 * 4).max(table).min(32 << 20)
}

/// The tables of the store.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tables {
    pub(crate) bytes: u64,
    /// The size of the longest one, in bytes.
    pub(crate) longest: u64,
}

/// Bytes, as a message shows them.
pub(crate) fn shown(bytes: u64) -> String {
    if bytes < 10 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) }
}

/// Whether `error` means that the disk has no room.
pub(crate) fn is_full(error: &Error) -> bool {
    error.kind() == ErrorKind::OutOfSpace
}

impl Space {
    /// The space of the store in `dir`. It finds the reserve as the last opening left it, and changes nothing outside
    /// `gate`. Without `has_reserve` nothing is set aside.
    pub(crate) fn find(options: &Options, dir: &Path, gate: &Arc<Gate>, has_reserve: bool) -> Result<Space> {
        let segment_max = options.segment_len_max();
        let reserved_max = if has_reserve { segment_max } else { 0 };
        Ok(Space {
            env: options.env.clone(),
            dir: dir.to_path_buf(),
            memtable_max: options.memtable_limit(),
            segment_max,
            memtable: AtomicUsize::new(options.memtable_limit()),
            table: AtomicU64::new(u64::MAX),
            longest_table: AtomicU64::new(0),
            reserve: Reserve::find(&options.env, dir, reserved_max, gate)?,
        })
    }

    // ---- sizes ---------------------------------------------------------------------------------------

    /// The size of a full memtable, in bytes.
    pub(crate) fn memtable_limit(&self) -> usize {
        self.memtable.load(Ordering::Relaxed)
    }

    /// Bytes of immutable memtables from which on writers wait.
    pub(crate) fn immutable_max(&self) -> usize {
        immutable_max(self.memtable_limit())
    }

    /// Bytes of log that recovery would read, from which on the oldest memtables are flushed; from half of it on, if they are
    /// small.
    pub(crate) fn log_max(&self) -> u64 {
        (self.memtable_limit() as u64 * 4).max(4 << 20)
    }

    /// The low-space mark: with fewer free bytes on the disk, puts are refused.
    pub(crate) fn low_mark(&self) -> u64 {
        low_mark(self.memtable_limit(), self.longest_table.load(Ordering::Relaxed))
    }

    /// Fits the sizes to the disk, while the log's files take `log` bytes and the store has `tables`. `bound` limits
    /// the length of new segments and returns the present limit; so does this.
    pub(crate) fn fit(&self, log: u64, tables: Tables, bound: impl FnOnce(u64) -> u64) -> u64 {
        // If the file system does not report it, only the memory budget counts.
        let free = self.free().unwrap_or(u64::MAX);
        let room = free.saturating_add(log).saturating_add(self.reserve.held());
        let segment = room / SEGMENTS;
        let longest = bound(if segment == 0 { 0 } else { 1 << segment.ilog2() });
        let mut fitting = SEGMENTS_PER_MEMTABLE * longest;
        if longest == self.segment_max {
            fitting = fitting.max(room / MEMTABLES);
        }
        let limit = usize::try_from(fitting).unwrap_or(usize::MAX).min(self.memtable_max);
        // Each write reads it. Therefore it is written only if it changes.
        if self.memtable_limit() != limit {
            self.memtable.store(limit, Ordering::Relaxed);
        }
        let table = (room.saturating_add(tables.bytes) / TABLES).max(TABLE_MIN);
        self.table.store(table, Ordering::Relaxed);
        self.longest_table.store(tables.longest, Ordering::Relaxed);
        longest
    }

    /// Limits at which a merge begins the next table, where the options have `limits`.
    pub(crate) fn table_limits(&self, limits: TableLimits) -> TableLimits {
        TableLimits { bytes: limits.bytes.min(self.table.load(Ordering::Relaxed)), ..limits }
    }

    // ---- room ----------------------------------------------------------------------------------------

    /// Free bytes of the disk.
    pub(crate) fn free(&self) -> Result<u64> {
        self.env.fs.free_space(&self.dir)
    }

    /// Bytes that must be free for a put: the segment that the log needs, the low-space mark, and the part that the
    /// reserve lacks then.
    pub(crate) fn needed(&self, log: LogNeed) -> u64 {
        let usual = log.new.min(log.usual_max);
        // The table of a record that is longer.
        let table = if log.new > usual { log.new } else { 0 };
        [log.new, table, self.low_mark(), self.reserve.missing_for(usual)]
            .into_iter()
            .fold(0, u64::saturating_add)
    }

    /// Whether the disk has room for a put.
    pub(crate) fn has_room(&self, log: LogNeed) -> bool {
        self.free().is_ok_and(|free| free >= self.needed(log))
    }

    /// Bytes that a background merge may take.
    pub(crate) fn for_merges(&self, room: MergeRoom) -> u64 {
        let (free, mark) = (self.free().unwrap_or(u64::MAX), self.low_mark());
        match room {
            MergeRoom::AboveMark => free.saturating_sub(mark),
            MergeRoom::IntoMark => free.saturating_sub(mark / MARK_KEPT),
            MergeRoom::All => free.saturating_add(self.reserve.held()),
        }
    }

    /// The free space, as a message shows it.
    pub(crate) fn shown_free(&self) -> String {
        self.free().map_or_else(|_| "an unknown number of bytes".to_owned(), shown)
    }

    /// The error of a put on a full disk.
    pub(crate) fn full_error(&self, log: LogNeed) -> Error {
        let message = format!(
            "the disk is full: {} free, puts are refused below {}, and RESERVE holds {} more; reads and deletes go on",
            self.shown_free(),
            shown(self.needed(log)),
            shown(self.reserve.held())
        );
        Error::new(ErrorKind::OutOfSpace, message).at(&self.dir)
    }

    // ---- the reserve ---------------------------------------------------------------------------------

    /// The space that is set aside.
    pub(crate) fn reserve(&self) -> &Reserve {
        &self.reserve
    }

    /// Whether the part of the reserve that is set aside for deletes has something left, or was not needed yet.
    pub(crate) fn has_share(&self) -> bool {
        self.reserve.has_share(self.free().unwrap_or(0))
    }

    /// Whether the disk has room for the whole reserve, and half of it more.
    pub(crate) fn has_plenty(&self) -> bool {
        self.reserve.has_plenty(self.free().unwrap_or(0))
    }

    /// Releases the reserve for work that lasts until the result is dropped; `None` if it is released already.
    pub(crate) fn release_reserve(&self) -> Option<Released<'_>> {
        self.reserve.release(self.reserve.releases())
    }

    /// Does `work`; if the disk has no room for it, once more without the reserve.
    pub(crate) fn with_reserve<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        let releases = self.reserve.releases();
        match work() {
            Err(error) if is_full(&error) => match self.reserve.release(releases) {
                Some(_released) => work(),
                None => Err(error),
            },
            result => result,
        }
    }
}
