//! Makes a store small again that was large: long log segments and what was set aside for them.
//!
//! An open store keeps some log segments for reuse, and five times the longest in reserve: up to 240 MB. That is little
//! beside the data that brought it about, and much when all of it was deleted and merged away, or was one row that was
//! written again and again. Where the reserve is longer than all tables, it is shortened: by [`Store::compact`], by closing,
//! and by the background when nothing was written for [`IDLE_US`].

use std::sync::atomic::{AtomicU64, Ordering};

use super::Store;
use super::blobs::Frees;
use crate::error::Result;
use crate::space::{is_full, size_for};

/// Segments up to this length are not worth it.
const SHORT: u64 = 1 << 20;
/// So long, in microseconds, a store without writes is left as it is.
const IDLE_US: u64 = 10_000_000;

/// Since when nothing was written.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// The last number that was visible,
    seq: AtomicU64,
    /// and when that was first seen.
    since_us: AtomicU64,
}

impl Store {
    /// Where more is set aside than all tables take, begins a short log segment, and gives back the long
    /// ones and what was set aside for them. If one still holds what is not in tables, the next call may do it.
    pub(super) fn shrink(&self) -> Result<()> {
        if !self.is_worth_shrinking() {
            return Ok(());
        }
        let _no_flush = self.flushing.lock();
        // Closing waits for that lock, and then the directory may be another opening's.
        self.check_changeable()?;
        self.wal.begin_short();
        self.wal.retire_spare();
        self.remove_surplus(0)?;
        match self.wal.prepare_spare(0) {
            Err(error) if is_full(&error) => return Ok(()),
            prepared => prepared?,
        }
        let mut state = self.commit.lock();
        let log_seq = state.log_seq;
        if self.wal.rotate(&mut state.tail, log_seq, 0).is_err() {
            self.commit.poison();
        }
        drop(state);
        self.move_floor()?;
        self.remove_surplus(0)?;
        self.space.reserve().shrink(self.longest_segment())?;
        // The log lane may have made a longer one meanwhile.
        self.space.reserve().cover(self.longest_segment())
    }

    fn is_worth_shrinking(&self) -> bool {
        let longest = self.longest_segment().max(self.space.reserve().covered());
        if longest <= SHORT {
            return false;
        }
        let trees = self.versions.trees();
        let states: Vec<_> = trees.iter().map(|tree| tree.state.load_full()).collect();
        let tables = states.iter().flat_map(|state| state.levels.tables()).map(|(_, table)| table.info.size);
        tables.sum::<u64>() < size_for(longest)
    }

    /// [`Store::shrink`] where nothing was written for some time.
    pub(super) fn shrink_when_idle(&self) -> Result<()> {
        let (seq, now) = (self.commit.visible(), self.env.clock.monotonic_us());
        if self.idle.seq.swap(seq, Ordering::Relaxed) != seq {
            self.idle.since_us.store(now, Ordering::Relaxed);
        }
        let is_idle = now.saturating_sub(self.idle.since_us.load(Ordering::Relaxed)) >= IDLE_US;
        if is_idle { self.flush_and_shrink() } else { Ok(()) }
    }

    /// [`Store::shrink`], after a flush of what the log holds. On a full disk nothing of that is done.
    pub(super) fn flush_and_shrink(&self) -> Result<()> {
        if self.health.has_failed() || !self.is_worth_shrinking() {
            return Ok(());
        }
        match self.flush().and_then(|()| self.shrink()) {
            Err(error) if is_full(&error) => Ok(()),
            done => done,
        }
    }

    /// Moves the log's floor as a flush of nothing would.
    fn move_floor(&self) -> Result<()> {
        let visible = self.commit.visible();
        self.sync_log(self.commit.published())?;
        self.settle_blobs(visible)?;
        let frees = Frees { dead_up_to: Some(visible), note_shadowed: true, ..Frees::default() };
        self.install_flush(&[], Vec::new(), &frees)
    }

    pub(super) fn longest_segment(&self) -> u64 {
        self.wal.longest(&self.commit.lock().tail)
    }
}
