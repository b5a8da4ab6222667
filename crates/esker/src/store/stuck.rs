//! Merges for which the disk has no room: they leave what is free to puts and deletes, and wait.
//!
//! A merge writes its output before its inputs go, so on a disk that fills up there comes one that does not fit.
//!
//! - While puts are taken, a merge of the background stops at the low-space mark: what is below is for flushes and deletes.
//!   Puts are not refused for it. On a full disk it may use all that is free, and the reserve.
//! - It is not begun again until there is more room than when it failed, by an eighth, or until of its inputs that much was
//!   deleted that the rest may fit. Otherwise it would write all that is free again and again.
//! - Where the disk says that it has room for all of it, a quota has refused it, or others were there for a moment. Nothing
//!   tells when that is over, so it is begun again after [`AGAIN_US`].
//!
//! [`Db::compact`](crate::Db::compact) is what somebody asked for: it is tried in any case, to the last byte.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::{Store, merge};
use crate::compact::pick::Compaction;
use crate::error::{Error, ErrorKind, Result};
use crate::space::shown;
use crate::state::TreeInner;
use crate::version::edit::TreeId;

/// So long, in microseconds, a merge waits for which the disk has room, as far as it says.
const AGAIN_US: u64 = 60_000_000;

/// The trees of which a merge has found no room, and what it had.
#[derive(Debug, Default)]
pub(super) struct Stuck(Mutex<BTreeMap<TreeId, Attempt>>);

#[derive(Debug, Clone, Copy)]
pub(super) struct Attempt {
    /// Bytes that it could take.
    room: u64,
    /// Bytes that it was to write, about.
    output: u64,
    /// The monotonic time.
    at_us: u64,
}

impl Attempt {
    /// Whether a merge may succeed where `self` has failed.
    fn is_passed_by(&self, now: &Attempt) -> bool {
        let has_more_room = now.room.saturating_sub(self.room) > self.room / 8;
        let has_less_to_do = now.output / 7 <= self.output / 8;
        let has_waited = now.at_us.saturating_sub(self.at_us) >= AGAIN_US;
        has_more_room || (now.output <= now.room && (has_less_to_do || has_waited))
    }
}

/// Bytes that a merge writes, about: each tombstone takes an entry along.
fn output_of(compaction: &Compaction) -> u64 {
    let (mut entries, mut tombstones) = (0_u128, 0_u128);
    for (_, table) in &compaction.inputs {
        entries += u128::from(table.info.entries);
        tombstones += u128::from(table.info.tombstones);
    }
    let left = entries.saturating_sub(2 * tombstones);
    let bytes = u128::from(compaction.bytes()) * left / entries.saturating_sub(tombstones).max(1);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

impl Store {
    /// Bytes that a merge of the background can take.
    fn room_for_merge(&self) -> u64 {
        self.space.for_merges(self.health.has_failed())
    }

    /// What `compaction` has if it is begun now.
    fn attempt(&self, compaction: &Compaction) -> Attempt {
        let (room, output) = (self.room_for_merge(), output_of(compaction));
        Attempt { room, output, at_us: self.env.clock.monotonic_us() }
    }

    /// Whether the last merge of `tree` has found no room.
    pub(super) fn was_stuck(&self, tree: &TreeInner) -> bool {
        self.stuck.0.lock().contains_key(&tree.id)
    }

    /// Whether `compaction` would find no room, as the last one of `tree` did not.
    pub(super) fn is_stuck(&self, tree: &TreeInner, compaction: &Compaction) -> bool {
        let before = self.stuck.0.lock().get(&tree.id).copied();
        before.is_some_and(|before| !compaction.is_move() && !before.is_passed_by(&self.attempt(compaction)))
    }

    /// `compaction` of `tree` has found no room, and has removed again what it wrote.
    pub(super) fn note_stuck(&self, tree: &TreeInner, compaction: &Compaction) {
        // The room of now: others may have taken what there was when it began.
        let attempt = self.attempt(compaction);
        self.stuck.0.lock().insert(tree.id, attempt);
    }

    /// A merge of `tree` has found room.
    pub(super) fn note_not_stuck(&self, tree: &TreeInner) {
        self.stuck.0.lock().remove(&tree.id);
    }

    /// The error of a `compact` that finds no room for merging all of `tree`.
    pub(super) fn full_for_merge(&self, tree: &TreeInner) -> Error {
        let output = merge::all_of(self, tree).1.map_or(0, |compaction| output_of(&compaction));
        let message = format!(
            "the disk is full: {} free, RESERVE holds {} more, and merging the tree \"{}\" writes about {} before what it \
             has read can go; nothing is lost, and the store goes on: make room on the disk, then compact again",
            self.space.shown_free(),
            shown(self.space.reserve().held()),
            tree.name,
            shown(output)
        );
        Error::new(ErrorKind::OutOfSpace, message).at(&self.dir)
    }

    /// Whether a merge of the background may go on writing.
    pub(super) fn check_room_for_merge(&self) -> Result<()> {
        if !self.health.has_failed() && self.room_for_merge() == 0 {
            return Err(self.full_error(0));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_is_begun_again_when_something_has_changed() {
        let failed = |room, output| Attempt { room, output, at_us: 5 };
        let now = |room, output, after_us| Attempt { room, output, at_us: 5 + after_us };
        // Too little room, however long it waits, and an eighth more.
        assert!(!failed(800, 2000).is_passed_by(&now(800, 2000, 0)));
        assert!(!failed(800, 2000).is_passed_by(&now(900, 2000, u64::MAX - 5)));
        assert!(failed(800, 2000).is_passed_by(&now(901, 2000, 0)));
        // Less to do, but too much still, and little enough.
        assert!(!failed(800, 2000).is_passed_by(&now(800, 1000, 0)));
        assert!(failed(800, 2000).is_passed_by(&now(800, 700, 0)));
        // Room enough.
        assert!(!failed(800, 700).is_passed_by(&now(800, 700, AGAIN_US - 1)));
        assert!(failed(800, 700).is_passed_by(&now(800, 700, AGAIN_US)));
        // Extremes.
        assert!(!failed(0, 1).is_passed_by(&now(0, 1, AGAIN_US)));
        assert!(!failed(u64::MAX, 1 << 20).is_passed_by(&now(u64::MAX, 1 << 20, 0)));
        assert!(failed(u64::MAX, 1).is_passed_by(&now(u64::MAX, 1, AGAIN_US)));
    }
}
