//! The time of a tree whose values expire by the times in its writes, and not by the store's clock.
//!
//! Replicas that apply the same log must agree, at each entry of the log, on which values have expired. Therefore a
//! merge drops by no later time than any read can use: a time that a write of the tree has carried, that is in tables
//! (a crash takes back the others, and their log is applied again), and that every registered read point comes after.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::canary::broken;
use crate::cursor::SeqNo;

/// See the module's comment. Times are in microseconds since 1970.
#[derive(Debug, Default)]
pub(crate) struct OwnTime {
    /// The greatest time that a write has carried.
    carried: AtomicU64,
    in_tables: Mutex<InTables>,
}

#[derive(Debug, Default)]
struct InTables {
    /// The time by which merges may drop.
    settled: u64,
    /// Later times, and the numbers from which on read points come after them, both ascending: one for each flush since
    /// the oldest registered read point.
    later: Vec<(SeqNo, u64)>,
}

impl OwnTime {
    /// The time by which values expire for a read without its own time.
    pub(crate) fn carried(&self) -> u64 {
        self.carried.load(Ordering::Acquire)
    }

    /// A write carries `time_us`.
    pub(crate) fn carry(&self, time_us: u64) {
        self.carried.fetch_max(time_us, Ordering::AcqRel);
    }

    /// All writes up to `seq`, which carried up to `time_us`, are in tables.
    pub(crate) fn note_flushed(&self, seq: SeqNo, time_us: u64) {
        self.carry(time_us);
        let mut in_tables = self.in_tables.lock();
        let newest = in_tables.later.last().map_or(in_tables.settled, |(_, newest)| *newest);
        if time_us > newest {
            in_tables.later.push((seq, time_us));
        }
    }

    /// The greatest time that writes in tables have carried.
    pub(crate) fn flushed(&self) -> u64 {
        let in_tables = self.in_tables.lock();
        in_tables.later.last().map_or(in_tables.settled, |(_, newest)| *newest)
    }

    /// The time by which a merge may drop if the oldest read point that must stay readable is `oldest`.
    pub(crate) fn settled(&self, oldest: SeqNo) -> u64 {
        if broken("own-time") {
            return self.carried();
        }
        let mut in_tables = self.in_tables.lock();
        let passed = in_tables.later.partition_point(|(seq, _)| *seq <= oldest);
        if let Some((_, time_us)) = in_tables.later[..passed].last().copied() {
            in_tables.settled = time_us;
            in_tables.later.drain(..passed);
        }
        in_tables.settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_drops_by_what_is_in_tables_and_before_every_read_point() {
        let time = OwnTime::default();
        time.carry(70);
        assert_eq!((time.carried(), time.settled(100)), (70, 0));
        time.note_flushed(10, 50);
        time.note_flushed(20, 40);
        time.note_flushed(30, 60);
        assert_eq!((time.settled(9), time.flushed()), (0, 60));
        assert_eq!(time.settled(29), 50);
        // An older read point cannot come again.
        assert_eq!(time.settled(9), 50);
        assert_eq!((time.settled(30), time.carried()), (60, 70));
        time.note_flushed(40, 80);
        assert_eq!((time.carried(), time.settled(40)), (80, 80));
    }
}
