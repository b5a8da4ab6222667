//! Which trees have tables that were cut for merges without room ([`crate::compact::space`]), and how long the pieces stay.
//!
//! Nothing joins the pieces while the merges come that the tables were cut for, nor later before the tree has new tables.
//! Otherwise a merge that is not worth it after all could be cut for again and again.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::compact::pick::BOTTOM;
use crate::cursor::SeqNo;
use crate::version::edit::TreeId;
use crate::version::levels::Levels;

/// A tree that is written to may be measured endlessly. Therefore its pieces may be joined this many microseconds after
/// a cut.
const CUT_US: u64 = 60_000_000;

#[derive(Debug)]
struct Cut {
    /// The newest entry in a table then.
    newest: SeqNo,
    /// By the monotonic clock.
    at_us: u64,
    /// Whether the merges are done that were worth it.
    is_done: bool,
}

/// The properties of a tree's tables that decide whether pieces have to stay.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pieces {
    /// Whether tables lie above the bottom level.
    has_upper: bool,
    /// Bytes of all tables.
    bytes: u64,
    /// The number of the newest entry in a table.
    newest: SeqNo,
}

impl Pieces {
    pub(super) fn of(levels: &Levels) -> Pieces {
        Pieces {
            has_upper: levels.tables().any(|(level, _)| level < BOTTOM),
            bytes: levels.bytes_in_all(),
            newest: levels.tables().map(|(_, table)| table.info.max_seq).max().unwrap_or(0),
        }
    }
}

/// See the module's comment. All methods may be called by many threads at the same time.
#[derive(Debug, Default)]
pub(super) struct Cuts(Mutex<BTreeMap<TreeId, Cut>>);

impl Cuts {
    /// Whether tables of `tree` were cut, and their pieces have to stay.
    pub(super) fn has(&self, tree: TreeId) -> bool {
        self.0.lock().contains_key(&tree)
    }

    /// Whether merges are still to come for which tables of `tree` were cut.
    pub(super) fn is_cutting(&self, tree: TreeId) -> bool {
        self.0.lock().get(&tree).is_some_and(|cut| !cut.is_done)
    }

    /// [`Cuts::is_cutting`] of any tree.
    pub(super) fn is_cutting_any(&self) -> bool {
        self.0.lock().values().any(|cut| !cut.is_done)
    }

    /// Tables of `tree` are about to be cut.
    pub(super) fn add(&self, tree: TreeId, before: Pieces, now_us: u64) {
        self.0.lock().insert(tree, Cut { newest: before.newest, at_us: now_us, is_done: false });
    }

    /// Forgets the cuts of `tree` if no merge will follow that its tables were cut for, or if no merge needs the cuts:
    /// `room` bytes suffice for a merge of all. `is_done`: no merge for space is worth it now.
    pub(super) fn end(&self, tree: TreeId, now: Pieces, room: u64, is_done: bool, now_us: u64) {
        let mut cuts = self.0.lock();
        let Some(cut) = cuts.get_mut(&tree) else { return };
        cut.is_done |= is_done || now_us.saturating_sub(cut.at_us) >= CUT_US;
        if !now.has_upper || now.bytes <= room || (cut.is_done && now.newest > cut.newest) {
            cuts.remove(&tree);
        }
    }

    /// Forgets the cuts of trees that are not there any more.
    pub(super) fn retain(&self, is_there: impl Fn(TreeId) -> bool) {
        self.0.lock().retain(|tree, _| is_there(*tree));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: u64 = 100;
    const PIECES: Pieces = Pieces { has_upper: true, bytes: 1000, newest: 50 };

    /// The state of tree 1 a moment after tables of it were cut, when `end` was called with these.
    fn after(ends: &[(Pieces, u64, bool, u64)]) -> (bool, bool) {
        let cuts = Cuts::default();
        cuts.add(1, PIECES, 7);
        for (now, room, is_done, after_us) in ends {
            cuts.end(1, *now, *room, *is_done, 7 + after_us);
        }
        assert_eq!(cuts.is_cutting(1), cuts.is_cutting_any());
        assert!(!cuts.has(2) && !cuts.is_cutting(2));
        (cuts.has(1), cuts.is_cutting(1))
    }

    #[test]
    fn pieces_stay_until_their_merges_are_done_and_the_tree_has_new_tables() {
        let with_new = Pieces { newest: 51, ..PIECES };
        assert_eq!(after(&[]), (true, true));
        assert_eq!(after(&[(with_new, ROOM, false, 0)]), (true, true), "the merges are still to come");
        // Joined now, they would be cut for the same merges again.
        assert_eq!(after(&[(PIECES, ROOM, true, 0)]), (true, false));
        assert_eq!(after(&[(PIECES, ROOM, true, 0), (with_new, ROOM, false, 0)]), (false, false));
    }

    #[test]
    fn pieces_do_not_stay_where_nothing_needs_them() {
        let merged = Pieces { has_upper: false, ..PIECES };
        assert_eq!(after(&[(merged, ROOM, false, 0)]), (false, false));
        assert_eq!(after(&[(PIECES, PIECES.bytes, false, 0)]), (false, false), "a merge of all has room");
        assert_eq!(after(&[(PIECES, PIECES.bytes - 1, false, 0)]), (true, true));
        let cuts = Cuts::default();
        cuts.add(1, PIECES, 0);
        cuts.add(2, PIECES, 0);
        cuts.retain(|tree| tree == 2);
        assert!(!cuts.has(1) && cuts.has(2) && cuts.is_cutting_any());
    }

    /// Its merges may be measured endlessly, and nothing else would ever join the pieces.
    #[test]
    fn pieces_of_a_tree_that_is_written_to_may_be_joined_after_a_while() {
        let with_new = Pieces { newest: 51, ..PIECES };
        assert_eq!(after(&[(with_new, ROOM, false, CUT_US - 1)]), (true, true));
        assert_eq!(after(&[(with_new, ROOM, false, CUT_US)]), (false, false));
        assert_eq!(after(&[(PIECES, ROOM, false, CUT_US)]), (true, false), "it has no new tables");
    }

    /// A cut after another begins the wait anew.
    #[test]
    fn a_second_cut_counts_from_its_own_time() {
        let cuts = Cuts::default();
        cuts.add(1, PIECES, 0);
        cuts.end(1, PIECES, ROOM, true, 1);
        let later = Pieces { newest: 60, ..PIECES };
        cuts.add(1, later, CUT_US);
        cuts.end(1, later, ROOM, false, CUT_US + 1);
        assert!(cuts.has(1) && cuts.is_cutting(1));
    }
}
