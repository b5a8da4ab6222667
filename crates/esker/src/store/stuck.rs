//! Merges for which the disk has no room: they leave what is free to puts and deletes, and wait.
//!
//! A merge writes its output before its inputs go, so on a disk that fills up there comes one that does not fit.
//!
//! - While puts are taken, a merge of the background stops at the low-space mark: what is below is for flushes and deletes.
//!   Puts are not refused for it. On a full disk it may use all that is free, and the reserve.
//! - It is not begun again until there is more room for it, by an eighth, or until of its inputs that much was deleted that
//!   the rest may fit. Otherwise it would write all that is free again and again.
//!
//! [`Db::compact`](crate::Db::compact) is what somebody asked for: it is tried in any case, to the last byte.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::Store;
use crate::compact::pick::Compaction;
use crate::error::Result;
use crate::state::TreeInner;
use crate::version::edit::TreeId;

/// The trees of which a merge has found no room, and what it had.
#[derive(Debug, Default)]
pub(super) struct Stuck(Mutex<BTreeMap<TreeId, Attempt>>);

#[derive(Debug, Clone, Copy)]
pub(super) struct Attempt {
    /// Bytes that it could take.
    room: u64,
    /// Bytes that it was to write, about.
    output: u64,
}

impl Attempt {
    fn of(room: u64, compaction: &Compaction) -> Attempt {
        Attempt { room, output: output_of(compaction) }
    }

    /// Whether a merge may succeed where `self` has failed.
    fn is_passed_by(&self, now: &Attempt) -> bool {
        now.room / 9 >= self.room / 8 || (now.output <= now.room && now.output / 7 <= self.output / 8)
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
        let free = self.env.fs.free_space(&self.dir).unwrap_or(u64::MAX);
        let kept = if self.failure().is_some() { 0 } else { self.low_space() };
        free.saturating_sub(kept)
    }

    /// What `compaction` has if it is begun now.
    pub(super) fn attempt(&self, compaction: &Compaction) -> Attempt {
        Attempt::of(self.room_for_merge(), compaction)
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

    /// A merge of `tree` has found no room, or has.
    pub(super) fn note_stuck(&self, tree: &TreeInner, failed: Option<Attempt>) {
        let mut stuck = self.stuck.0.lock();
        match failed {
            Some(attempt) => drop(stuck.insert(tree.id, attempt)),
            None => drop(stuck.remove(&tree.id)),
        }
    }

    /// Whether a merge of the background may go on writing.
    pub(super) fn check_room_for_merge(&self) -> Result<()> {
        if self.failure().is_none() && self.room_for_merge() == 0 {
            return Err(self.full_error(0));
        }
        Ok(())
    }
}
