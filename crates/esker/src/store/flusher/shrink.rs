//! Makes a store that was large small again: gives back long log segments and their reserve.
//!
//! An open store keeps some log segments for reuse, and five times the longest in reserve: up to 240 MB. That is little
//! compared with the data that caused it. It is much if all of the data was deleted and merged away, or was one row
//! that was written again and again. If the reserve is longer than all tables, or nearly all of the store is log, both
//! are shortened: by `Compactor::compact`, by a close, and by the background when little or nothing was written for
//! [`IDLE_US`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Flusher;
use crate::blob::gc::BlobChanges;
use crate::error::Result;
use crate::space::{is_full, size_for};
use crate::write::commit::tell_failed;

/// Segments up to this length are not worth shortening.
const SHORT: u64 = 1 << 20;
/// A log of at most this length is not worth shortening either.
const SHORT_LOG: u64 = 2 << 20;
/// How long a store to which little is written is left as it is, in microseconds.
const IDLE_US: u64 = 8_000_000;
/// The most writes and bytes of log that count as little.
const LITTLE_WRITES: u64 = 100;
const LITTLE_LOG: u64 = 64 << 10;

/// The time since little or nothing was written.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// The last visible sequence number and the end of the log when that time began ...
    seq: AtomicU64,
    log_end: AtomicU64,
    /// ... and the moment.
    since_us: AtomicU64,
    /// How much of [`IDLE_US`] is left; 0 if the store is idle.
    left_us: AtomicU64,
}

impl Idle {
    /// Notes where the log is at `now_us`. Returns whether little was written for [`IDLE_US`].
    fn note(&self, seq: u64, log_end: u64, now_us: u64) -> bool {
        let is_little = seq.saturating_sub(self.seq.load(Ordering::Relaxed)) <= LITTLE_WRITES
            && log_end.saturating_sub(self.log_end.load(Ordering::Relaxed)) <= LITTLE_LOG;
        if !is_little {
            self.seq.store(seq, Ordering::Relaxed);
            self.log_end.store(log_end, Ordering::Relaxed);
            self.since_us.store(now_us, Ordering::Relaxed);
        }
        let idle_us = now_us.saturating_sub(self.since_us.load(Ordering::Relaxed));
        self.left_us.store(IDLE_US.saturating_sub(idle_us), Ordering::Relaxed);
        idle_us >= IDLE_US
    }
}

impl Flusher {
    /// If the reserve is larger than all tables, begins a short log segment, and gives back the long ones and their
    /// reserve. If one of these still holds data that is not in tables, the next call may do it.
    pub(in crate::store) fn shrink(&self) -> Result<()> {
        if !self.is_worth_shrinking() {
            return Ok(());
        }
        let _no_flush = self.flushing.lock();
        // A close waits for this lock; after it the directory may belong to another opening.
        self.log.check_changeable()?;
        self.log.wal().begin_short();
        self.log.wal().retire_spare();
        self.disk.remove_surplus(0)?;
        match self.log.wal().prepare_spare(0) {
            Err(error) if is_full(&error) => return Ok(()),
            prepared => prepared?,
        }
        let mut state = self.log.commit().lock();
        let log_seq = state.log_seq;
        let rotated = self.log.wal().rotate(&mut state.tail, log_seq, 0);
        let failure = rotated.err().filter(|_| self.log.commit().fail());
        drop(state);
        failure.iter().for_each(tell_failed);
        self.log.wal().unmap_left();
        self.move_floor()?;
        self.disk.remove_surplus(0)?;
        self.disk.space().reserve().shrink(self.longest_segment())?;
        // The log job may have made a longer one meanwhile.
        self.disk.space().reserve().cover(self.longest_segment())
    }

    fn is_worth_shrinking(&self) -> bool {
        let longest = self.longest_segment().max(self.disk.space().reserve().covered());
        let log = self.disk.log_bytes();
        // If the log has only short segments, nothing is flushed while there is data: that would make small tables.
        let limit = if longest > SHORT {
            size_for(longest)
        } else if log > SHORT_LOG {
            SHORT
        } else {
            return false;
        };
        let trees = self.versions.trees();
        let states: Vec<_> = trees.iter().map(|tree| tree.state.load_full()).collect();
        let tables = states.iter().flat_map(|state| state.levels.tables()).map(|(_, table)| table.info.size);
        tables.sum::<u64>() < limit
    }

    /// [`Flusher::shrink`], if little was written for some time.
    pub(in crate::store) fn shrink_when_idle(&self) -> Result<()> {
        let (seq, log_end) = (self.log.commit().visible(), self.log.commit().published());
        let is_idle = self.idle.note(seq, log_end, self.core.env().clock.monotonic_us());
        if is_idle { self.flush_and_shrink() } else { Ok(()) }
    }

    /// After how long [`Flusher::shrink_when_idle`] is due, if the store is not idle yet.
    pub(in crate::store) fn shrink_again(&self) -> Option<Duration> {
        let left_us = self.idle.left_us.load(Ordering::Relaxed);
        (left_us > 0).then_some(Duration::from_micros(left_us))
    }

    /// [`Flusher::shrink`], after a flush of everything that only the log holds. On a full disk it does nothing.
    pub(in crate::store) fn flush_and_shrink(&self) -> Result<()> {
        if self.core.health.has_failed() || !self.is_worth_shrinking() {
            return Ok(());
        }
        match self.flush().and_then(|()| self.shrink()) {
            Err(error) if is_full(&error) => Ok(()),
            done => done,
        }
    }

    /// Moves the log's floor, as an empty flush would.
    fn move_floor(&self) -> Result<()> {
        let visible = self.log.commit().visible();
        self.log.sync_published()?;
        self.finder.find_overwritten(visible)?;
        let changes =
            BlobChanges { durable_up_to: Some(visible), note_overwritten: true, ..BlobChanges::default() };
        self.installer.install_flush(&[], Vec::new(), &changes)
    }

    fn longest_segment(&self) -> u64 {
        self.log.wal().longest(&self.log.commit().lock().tail)
    }
}
