//! Which merges of a tree run, and which may run next to them.
//!
//! ```text
//! level 0   [ M1  a ............... z ]         M1 and M2 have no level in common.
//! level 4   [ M1  a ............... z ]
//! level 5        [ M2  c .. g ]  [ M3  k .. p ] M2 and M3 have no key in common.
//! level 6        [ M2  b .. h ]  [ M3  k .. q ]
//! ```
//! Merges of one tree may run at the same time if their *extents* do not meet. The extent of a merge is all levels from
//! its uppermost input to its output, and all keys from its smallest to its largest. Therefore:
//!
//! - No two merges read the same table, and their outputs do not overlap.
//! - What a merge has found at its beginning about older versions below its output stays true. Only merges move
//!   versions down while merges run, and a merge that brought older versions of these keys below the output, from
//!   within the extent or from above it, would have the level of the output in its own extent.
//!
//! One exception: a merge of runs within level 0 may run next to an older merge. It has found the older one's inputs
//! below it, and the older one never passes it.
//!
//! Other changes of the levels keep merges away with [`Merging::stop`] or [`Merging::try_stop`]: changes
//! of the tree as a whole, flushes that put tables below level 0, the forgetting of range tombstones.

use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::canary::broken;
use crate::cursor::SeqNo;
use crate::version::levels::Table;

/// The part of a tree that a merge reads and writes.
#[derive(Debug, Clone)]
pub(crate) struct Extent {
    levels: RangeInclusive<usize>,
    smallest: Vec<u8>,
    largest: Vec<u8>,
    oldest: SeqNo,
    newest: SeqNo,
    /// Bytes of the inputs that are above the level of the output.
    leaving: u64,
}

impl Extent {
    /// The extent of a merge of `inputs`, each with its level, into the level `target`.
    pub(crate) fn of(inputs: &[(usize, Arc<Table>)], target: usize) -> Extent {
        let infos = || inputs.iter().map(|(_, table)| &table.info);
        let above = inputs.iter().filter(|(level, _)| *level < target);
        Extent {
            levels: inputs.iter().map(|(level, _)| *level).min().unwrap_or(target)..=target,
            smallest: infos().map(|info| &info.smallest).min().cloned().unwrap_or_default(),
            largest: infos().map(|info| &info.largest).max().cloned().unwrap_or_default(),
            oldest: infos().map(|info| info.min_seq).min().unwrap_or(0),
            newest: infos().map(|info| info.max_seq).max().unwrap_or(0),
            leaving: above.map(|(_, table)| table.info.size).sum(),
        }
    }

    /// Whether merges of these extents must not run at the same time.
    pub(crate) fn meets(&self, other: &Extent) -> bool {
        let share_level =
            self.levels.start() <= other.levels.end() && other.levels.start() <= self.levels.end();
        let share_key = self.smallest <= other.largest && other.smallest <= self.largest;
        let is_apart = self.stays_above(other) || other.stays_above(self);
        share_level && share_key && !is_apart && !broken("merge-extents")
    }

    /// Whether this merge stays within level 0, and everything in it is newer than the other merge.
    fn stays_above(&self, other: &Extent) -> bool {
        *self.levels.end() == 0 && self.oldest > other.newest
    }

    /// The bytes that the merge takes away from `level`.
    pub(crate) fn leaving(&self, level: usize) -> u64 {
        if *self.levels.start() == level { self.leaving } else { 0 }
    }
}

/// Whether a merge of `extent` may run next to the `running` ones.
pub(crate) fn may_join(extent: &Extent, running: &[Extent]) -> bool {
    !running.iter().any(|other| other.meets(extent))
}

/// The running merges of a tree. All methods may be called by many threads at the same time.
#[derive(Debug, Default)]
pub(crate) struct Merging {
    state: Mutex<State>,
    /// A merge has ended, or merges may run again.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    running: Vec<Extent>,
    /// The identity of each of `running`.
    tickets: Vec<Ticket>,
    last: Ticket,
    /// A thread keeps merges away.
    stopped: bool,
    /// How many threads wait until no merge runs.
    waiting: usize,
    /// A merge was refused since the last call of [`Merging::take_refused`].
    refused: bool,
}

/// Identifies a running merge of a tree.
pub(crate) type Ticket = u64;

/// The running merges. While this is held, no merge begins or ends.
pub(crate) struct Held<'a>(MutexGuard<'a, State>, &'a Condvar);

impl Merging {
    /// Keeps merges from beginning and ending until the result is dropped.
    pub(crate) fn hold(&self) -> Held<'_> {
        Held(self.state.lock(), &self.changed)
    }

    pub(crate) fn running(&self) -> Vec<Extent> {
        self.state.lock().running.clone()
    }

    /// Whether the merge `ticket` is the only one.
    pub(crate) fn is_alone(&self, ticket: Ticket) -> bool {
        self.state.lock().tickets == [ticket]
    }

    /// The merge `ticket` has ended.
    pub(crate) fn end(&self, ticket: Ticket) {
        let mut state = self.state.lock();
        if let Some(at) = state.tickets.iter().position(|one| *one == ticket) {
            state.tickets.swap_remove(at);
            state.running.swap_remove(at);
        }
        self.changed.notify_all();
    }

    /// Whether a merge was refused since the last call.
    pub(crate) fn take_refused(&self) -> bool {
        std::mem::take(&mut self.state.lock().refused)
    }

    /// Waits until no merge runs, and keeps merges away until [`Merging::go_on`]. While a thread waits, only merges
    /// begin that a running merge of the tree does itself.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.waiting += 1;
        while state.stopped || !state.running.is_empty() {
            self.changed.wait(&mut state);
        }
        state.waiting -= 1;
        state.stopped = true;
    }

    /// [`Merging::stop`] without a wait. Returns whether no merge runs.
    pub(crate) fn try_stop(&self) -> bool {
        let mut state = self.state.lock();
        let may_stop = !state.stopped && state.running.is_empty();
        state.stopped |= may_stop;
        may_stop
    }

    /// Ends the effect of [`Merging::stop`].
    pub(crate) fn go_on(&self) {
        self.hold().go_on();
    }
}

impl Held<'_> {
    pub(crate) fn running(&self) -> &[Extent] {
        &self.0.running
    }

    /// Whether merges may begin. `within`: a running merge of the tree does it itself.
    pub(crate) fn may_begin(&self, within: bool) -> bool {
        !self.0.stopped && (within || self.0.waiting == 0)
    }

    /// Begins a merge of `extent`, which [`may_join`] the running ones.
    pub(crate) fn begin(&mut self, extent: Extent) -> Ticket {
        let state = &mut *self.0;
        state.last += 1;
        state.running.push(extent);
        state.tickets.push(state.last);
        state.last
    }

    /// Ends the effect of [`Merging::stop`].
    pub(crate) fn go_on(&mut self) {
        self.0.stopped = false;
        self.1.notify_all();
    }

    /// Notes that a merge does not begin because of others, or because merges are kept away.
    pub(crate) fn refuse(&mut self) {
        self.0.refused = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(levels: RangeInclusive<usize>, keys: [&str; 2], seqs: [SeqNo; 2]) -> Extent {
        let [smallest, largest] = keys.map(|key| key.as_bytes().to_vec());
        let [oldest, newest] = seqs;
        Extent { levels, smallest, largest, oldest, newest, leaving: 0 }
    }

    #[test]
    fn merges_meet_where_they_share_a_level_and_a_key() {
        let merge = extent(2..=3, ["c", "m"], [5, 9]);
        for (levels, keys, meets) in [
            (2..=3, ["m", "z"], true),
            (3..=4, ["a", "c"], true),
            (0..=6, ["d", "e"], true),
            (2..=3, ["n", "z"], false),
            (0..=1, ["a", "z"], false),
            (4..=5, ["a", "z"], false),
        ] {
            let other = extent(levels, keys, [1, 20]);
            assert_eq!((merge.meets(&other), other.meets(&merge)), (meets, meets), "{other:?}");
        }
    }

    #[test]
    fn newer_runs_of_level_0_are_merged_beside_older_ones() {
        let older = extent(0..=6, ["a", "z"], [1, 9]);
        let meets = |levels, seqs| {
            let newer = extent(levels, ["a", "z"], seqs);
            assert_eq!(older.meets(&newer), newer.meets(&older));
            older.meets(&newer)
        };
        assert!(!meets(0..=0, [10, 20]));
        assert!(meets(0..=0, [9, 20]));
        // It would pass the older one.
        assert!(meets(0..=6, [10, 20]));
    }

    #[test]
    fn merges_are_kept_away_and_come_back() {
        let merging = Merging::default();
        let ticket = merging.hold().begin(extent(0..=0, ["a", "b"], [1, 1]));
        assert!(!merging.try_stop() && merging.is_alone(ticket));
        std::thread::scope(|scope| {
            scope.spawn(|| merging.stop());
            while merging.hold().may_begin(false) {
                std::thread::yield_now();
            }
            assert!(merging.hold().may_begin(true));
            merging.hold().refuse();
            merging.end(ticket);
        });
        assert!(merging.take_refused() && !merging.take_refused());
        assert!(!merging.hold().may_begin(true) && !merging.try_stop());
        merging.go_on();
        assert!(merging.hold().may_begin(false) && merging.try_stop());
    }
}
