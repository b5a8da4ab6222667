//! What a store still does before it closes: it gives back the space of huge values that have ended.
//!
//! A process that deletes and goes, as the command line does, would leave that to the next opening otherwise.

use super::Store;

/// How long closing a store gives space back, in microseconds.
const CLOSING_US: u64 = 2_000_000;

impl Store {
    /// Gives back the space of what has ended, so that a process that deletes and goes leaves none behind: for
    /// two seconds, then the next opening does the rest. What only snapshots see is left to that too.
    pub(super) fn give_back_when_closing(&self) {
        let clock = &self.env.clock;
        let until = clock.monotonic_us() + CLOSING_US;
        // Whoever closes the store waits for the round, so `is_closing` is asked under it.
        let mut round = self.ending.round.lock();
        while self.has_ended_blobs() && clock.monotonic_us() < until && !self.is_closing() {
            if !matches!(self.give_back(&mut round), Ok(true)) {
                break;
            }
        }
    }
}
