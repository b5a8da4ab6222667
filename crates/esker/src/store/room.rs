//! What room the disk has, and what the store makes of it.
//!
//! - Log segments are at most a [`PARTS`]th of what is free or could be, and the reserve is in proportion to them.
//! - Puts are refused below the *low-space mark*: what it takes to turn the memtables into tables. Before that, they
//!   are flushed though they are not full, so that on a disk with little room the mark is low too.

use std::sync::atomic::Ordering;

use super::{SPARE_WHEN_FULL, Store};
use crate::error::{Error, ErrorKind, Result};

/// A log segment takes at most one part in so many of the room that there is. With what is set aside for it and the next one
/// that is an eighth.
const PARTS: u64 = 64;
/// Tables may take so many times the bytes of the log that they are made from.
const TABLES_PER_LOG: u64 = 3;
/// For what does not depend on the memtables: a manifest, a segment, a merge of little.
const LOW_MIN: u64 = 1 << 20;
/// Log of fewer bytes is not worth a flush before its time.
const FLUSHED_EARLY: u64 = 128 << 10;

/// Bytes, as a message shows them.
fn shown(bytes: u64) -> String {
    if bytes < 10 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) }
}

impl Store {
    /// What memtables hold that are not in tables, about: as bytes of the log, or of memory where they wait.
    fn unflushed(&self) -> u64 {
        let in_log = self.commit.published().saturating_sub(self.wal.floor_start());
        in_log.max(self.waiting_bytes.load(Ordering::Relaxed) as u64)
    }

    /// Free bytes of the disk below which puts are refused, so that flushing, merging and deletes go on.
    pub(super) fn low_space(&self) -> u64 {
        let needed = LOW_MIN.saturating_add(TABLES_PER_LOG.saturating_mul(self.unflushed()));
        needed.min(self.options.low_space())
    }

    /// Free bytes that it takes for puts to be taken.
    fn needed_space(&self) -> u64 {
        self.low_space().saturating_add(self.reserve.missing())
    }

    /// Whether the disk has room above the mark at which puts are refused, beside what the reserve lacks.
    pub(super) fn has_space(&self) -> bool {
        self.env.fs.free_space(&self.dir).is_ok_and(|free| free >= self.needed_space())
    }

    /// Flushes what memtables hold, which lowers the mark; whether there is room then.
    pub(super) fn make_space(&self) -> Result<bool> {
        if self.unflushed() < FLUSHED_EARLY || self.failure().is_some() {
            return Ok(false);
        }
        loop {
            self.flush()?;
            self.remove_surplus(SPARE_WHEN_FULL)?;
            if self.has_space() {
                return Ok(true);
            }
            // Writers may have been as fast: once more, as long as what they have written is sure to find room as tables.
            let (free, unflushed) = (self.env.fs.free_space(&self.dir)?, self.unflushed());
            if unflushed < FLUSHED_EARLY || free < LOW_MIN + self.reserve.missing() + unflushed {
                return Ok(false);
            }
        }
    }

    /// Bounds the length of log segments by what the disk has room for; returns it.
    pub(super) fn bound_segments(&self) -> u64 {
        let free = self.env.fs.free_space(&self.dir).unwrap_or(u64::MAX);
        let own = self.reserve.held().saturating_add(self.wal.disk_bytes());
        let part = free.saturating_add(own) / PARTS;
        let len = if part == 0 { 0 } else { 1 << part.ilog2() };
        self.wal.bound_len(len)
    }

    /// What a put is told on a full disk.
    pub(super) fn full_error(&self) -> Error {
        let free = self.env.fs.free_space(&self.dir).map_or_else(|_| "an unknown part".to_owned(), shown);
        let message = format!(
            "the disk is full: {free} of it is free, and puts are refused until {} are (beside {} that are set aside in \
             RESERVE); reads and deletes go on",
            shown(self.needed_space()),
            shown(self.reserve.held())
        );
        Error::new(ErrorKind::OutOfSpace, message).at(&self.dir)
    }
}
