//! Makes a store small again that was large: long log segments and what was set aside for them.
//!
//! An open store keeps some log segments for reuse, and five times the longest in reserve: up to 240 MB. That is little
//! beside the data that brought it about, and much when all of it was deleted and merged away.

use super::Store;
use super::blobs::Frees;
use super::reserve::is_full;
use crate::error::Result;

/// Segments up to this length are not worth it.
const SHORT: u64 = 1 << 20;

impl Store {
    /// Where all tables together are shorter than the log's longest segment, begins a short one, and gives back the long
    /// ones and what was set aside for them. If one still holds what is not in tables, the next call may do it.
    pub(super) fn shrink(&self) -> Result<()> {
        let longest = self.longest_segment();
        let trees: Vec<_> = self.structure.lock().trees.values().cloned().collect();
        let states: Vec<_> = trees.iter().map(|tree| tree.state.load_full()).collect();
        let tables: u64 =
            states.iter().flat_map(|state| state.levels.tables()).map(|(_, table)| table.info.size).sum();
        if longest <= SHORT || tables >= longest {
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
        self.reserve.shrink(self.longest_segment())?;
        // The log lane may have made a longer one meanwhile.
        self.reserve.cover(self.longest_segment())
    }

    /// Moves the log's floor as a flush of nothing would.
    fn move_floor(&self) -> Result<()> {
        let visible = self.commit.visible();
        self.sync_log(self.commit.published())?;
        self.settle_blobs(visible)?;
        let frees = Frees { dead_up_to: Some(visible), note_shadowed: true, ..Frees::default() };
        self.install_flush(&[], Vec::new(), &frees)
    }

    fn longest_segment(&self) -> u64 {
        self.wal.longest(&self.commit.lock().tail)
    }
}
