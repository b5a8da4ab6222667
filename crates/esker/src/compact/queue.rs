//! The trees that may need a merge, the trees whose last merge found no room, how much running merges have still to
//! write, and when expired pairs are due for a merge.
//!
//! A merge writes its output before its inputs go. Therefore a disk that fills up reaches a merge that does not fit:
//!
//! - While the store takes puts, a background merge stops at the low-space mark: the rest is for flushes and deletes. Three
//!   quarters of the mark are lent to one merge at a time that gives space back. A put waits for the end of that merge before
//!   it is refused. On a full disk, a merge may use all that is free, and the reserve.
//! - The store does not begin such a merge again until there is an eighth more room, or until so much of its input was
//!   deleted that the rest may fit. Otherwise the merge would use up all free space again and again.
//! - If the disk reports room for the whole merge, a quota has refused it, or others took the room for a moment. No
//!   event shows when that is over, so the store begins the merge again after [`AGAIN_US`].
//! - A merge begins next to others only if the disk has room for the output of all of them. On a full disk, one merge
//!   runs at a time.
//!
//! A user requests [`Db::compact`](crate::Db::compact): the store always tries it, to the last byte.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::pick::Compaction;
use crate::state::TreeInner;
use crate::version::edit::TreeId;

/// How long a merge waits for which the disk reports room, in microseconds.
const AGAIN_US: u64 = 60_000_000;

/// See the module's comment. All methods may be called by many threads at the same time.
#[derive(Debug, Default)]
pub(crate) struct CompactionQueue {
    candidates: Mutex<BTreeMap<TreeId, Arc<TreeInner>>>,
    /// By tree, and whether the low-space mark was lent to the merge.
    stuck: Mutex<BTreeMap<(TreeId, bool), Attempt>>,
    running: Mutex<Outputs>,
    /// When the first table is due for a merge because pairs in it expire, in microseconds since 1970. A new table may
    /// lower it. Only a thread that then looks at all tables raises it.
    due_us: AtomicU64,
}

/// The output of the running merges.
#[derive(Debug, Default)]
struct Outputs {
    merges: usize,
    /// Bytes that they have still to write, about.
    left: u64,
}

/// A merge that runs, until this is dropped.
#[derive(Debug)]
pub(crate) struct Admitted {
    queue: Arc<CompactionQueue>,
    left: Cell<u64>,
}

impl Admitted {
    /// The merge has written `bytes` more.
    pub(crate) fn note_written(&self, bytes: u64) {
        let written = bytes.min(self.left.get());
        self.left.set(self.left.get() - written);
        self.queue.running.lock().left -= written;
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut running = self.queue.running.lock();
        running.merges -= 1;
        running.left -= self.left.get();
    }
}

/// The room and the needs of a merge if it begins now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    /// Bytes that it may take.
    room: u64,
    /// Bytes that it writes, about.
    output: u64,
    at_us: u64,
}

impl Attempt {
    /// `compaction` at the time `at_us` of the monotonic clock, with `room` bytes that it may take.
    pub(crate) fn new(compaction: &Compaction, room: u64, at_us: u64) -> Self {
        Attempt { room, output: output_bytes(compaction), at_us }
    }

    /// Whether a merge that failed as `self` may succeed as `now`.
    fn may_succeed(&self, now: &Attempt) -> bool {
        let has_more_room = now.room.saturating_sub(self.room) > self.room / 8;
        let has_less_to_do = now.output / 7 <= self.output / 8;
        let has_waited = now.at_us.saturating_sub(self.at_us) >= AGAIN_US;
        has_more_room || (now.output <= now.room && (has_less_to_do || has_waited))
    }
}

/// Bytes that a merge writes, about. Each tombstone removes another entry.
pub(crate) fn output_bytes(compaction: &Compaction) -> u64 {
    let (mut entries, mut tombstones) = (0_u128, 0_u128);
    for (_, table) in &compaction.inputs {
        entries += u128::from(table.info.entries);
        tombstones += u128::from(table.info.tombstones);
    }
    let left = entries.saturating_sub(2 * tombstones);
    let bytes = u128::from(compaction.bytes()) * left / entries.saturating_sub(tombstones).max(1);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

impl CompactionQueue {
    pub(crate) fn new<'a>(trees: impl Iterator<Item = &'a Arc<TreeInner>>) -> Self {
        let queue = CompactionQueue::default();
        queue.add(trees.cloned());
        queue
    }

    // ---- candidates ----------------------------------------------------------------------------------

    /// Adds `trees` to the candidates.
    pub(crate) fn add(&self, trees: impl IntoIterator<Item = Arc<TreeInner>>) {
        self.candidates.lock().extend(trees.into_iter().map(|tree| (tree.id, tree)));
    }

    /// Takes all candidates, except dropped trees.
    pub(crate) fn take(&self) -> Vec<Arc<TreeInner>> {
        let taken = std::mem::take(&mut *self.candidates.lock());
        taken.into_values().filter(|tree| !tree.is_dropped()).collect()
    }

    /// All candidates, except dropped trees.
    pub(crate) fn candidates(&self) -> Vec<Arc<TreeInner>> {
        self.candidates.lock().values().filter(|tree| !tree.is_dropped()).cloned().collect()
    }

    /// The greatest `measure` of a candidate whose merges have room; 0 without one.
    pub(crate) fn most(&self, measure: impl Fn(&TreeInner) -> usize) -> usize {
        let (candidates, stuck) = (self.candidates.lock(), self.stuck.lock());
        let unstuck = candidates.values().filter(|tree| !stuck.contains_key(&(tree.id, false)));
        unstuck.map(|tree| measure(tree)).max().unwrap_or(0)
    }

    pub(crate) fn forget(&self, tree: &TreeInner) {
        self.candidates.lock().remove(&tree.id);
        self.stuck.lock().retain(|(id, _), _| *id != tree.id);
    }

    /// Forgets all candidates, because the store is closed.
    pub(crate) fn clear(&self) {
        self.candidates.lock().clear();
    }

    // ---- merges without room -------------------------------------------------------------------------

    /// Notes that `attempt` for `tree` has found no room, and has removed its output.
    pub(crate) fn note_stuck(&self, tree: &TreeInner, has_mark: bool, attempt: Attempt) {
        self.stuck.lock().insert((tree.id, has_mark), attempt);
    }

    pub(crate) fn clear_stuck(&self, tree: &TreeInner, has_mark: bool) {
        self.stuck.lock().remove(&(tree.id, has_mark));
    }

    pub(crate) fn was_stuck(&self, tree: &TreeInner, has_mark: bool) -> bool {
        self.stuck.lock().contains_key(&(tree.id, has_mark))
    }

    /// Whether `attempt` would find no room, as the last one for `tree` of its kind did not.
    pub(crate) fn is_stuck(&self, tree: &TreeInner, has_mark: bool, attempt: &Attempt) -> bool {
        self.stuck.lock().get(&(tree.id, has_mark)).is_some_and(|before| !before.may_succeed(attempt))
    }

    // ---- merges that run -----------------------------------------------------------------------------

    /// Bytes that the running merges have still to write, about.
    pub(crate) fn unwritten(&self) -> u64 {
        self.running.lock().left
    }

    /// A merge that writes about `output` bytes begins, unless others run and `room`, bytes that merges may take, is
    /// too small for all of them.
    pub(crate) fn admit(self: &Arc<Self>, output: u64, room: impl FnOnce() -> u64) -> Option<Admitted> {
        let mut running = self.running.lock();
        if running.merges > 0 && room() < running.left.saturating_add(output) {
            return None;
        }
        running.merges += 1;
        // The sum is larger than any disk.
        let output = output.min(u64::MAX - running.left);
        running.left += output;
        drop(running);
        Some(Admitted { queue: Arc::clone(self), left: Cell::new(output) })
    }

    // ---- what expires --------------------------------------------------------------------------------

    /// A new table is due for a merge at `due_us`.
    pub(crate) fn note_due(&self, due_us: u64) {
        self.due_us.fetch_min(due_us, Ordering::AcqRel);
    }

    /// Whether a table may be due at `now_us`. If so, the caller looks at all tables, and calls
    /// [`CompactionQueue::note_due`] with the next time.
    pub(crate) fn begin_due(&self, now_us: u64) -> bool {
        if now_us < self.due_us.load(Ordering::Acquire) {
            return false;
        }
        // Before the caller looks: a table that comes meanwhile lowers it again.
        self.due_us.store(u64::MAX, Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_run_at_once_where_all_of_them_have_room() {
        let queue = Arc::<CompactionQueue>::default();
        let first = queue.admit(1000, || 0).unwrap();
        assert!(queue.admit(500, || 1499).is_none());
        first.note_written(400);
        let second = queue.admit(500, || 1100).unwrap();
        assert_eq!(queue.unwritten(), 1100);
        // More than was expected.
        first.note_written(700);
        assert_eq!(queue.unwritten(), 500);
        drop(second);
        let third = queue.admit(u64::MAX, || u64::MAX).unwrap();
        drop((first, third));
        assert_eq!((queue.unwritten(), queue.running.lock().merges), (0, 0));
    }

    #[test]
    fn a_merge_is_begun_again_when_something_has_changed() {
        let failed = |room, output| Attempt { room, output, at_us: 5 };
        let now = |room, output, after_us| Attempt { room, output, at_us: 5 + after_us };
        // Too little room, however long it waits, and then an eighth more.
        assert!(!failed(800, 2000).may_succeed(&now(800, 2000, 0)));
        assert!(!failed(800, 2000).may_succeed(&now(900, 2000, u64::MAX - 5)));
        assert!(failed(800, 2000).may_succeed(&now(901, 2000, 0)));
        // Less to do, but still too much; then little enough.
        assert!(!failed(800, 2000).may_succeed(&now(800, 1000, 0)));
        assert!(failed(800, 2000).may_succeed(&now(800, 700, 0)));
        // Room enough.
        assert!(!failed(800, 700).may_succeed(&now(800, 700, AGAIN_US - 1)));
        assert!(failed(800, 700).may_succeed(&now(800, 700, AGAIN_US)));
        // Extremes.
        assert!(!failed(0, 1).may_succeed(&now(0, 1, AGAIN_US)));
        assert!(!failed(u64::MAX, 1 << 20).may_succeed(&now(u64::MAX, 1 << 20, 0)));
        assert!(failed(u64::MAX, 1).may_succeed(&now(u64::MAX, 1, AGAIN_US)));
    }
}
