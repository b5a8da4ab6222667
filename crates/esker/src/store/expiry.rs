//! Removes expired entries: a table with many of them is merged even if nothing else requires that.

use std::sync::Arc;
use std::time::Duration;

use super::Store;
use crate::cursor::Expiry;
use crate::read::snapshots::Lasting;
use crate::state::TreeInner;
use crate::state::versions::Versions;
use crate::version::edit::{CLOCK_MAX, Edit};
use crate::version::levels::Levels;

/// How soon due tables are checked again if an old snapshot still reads them, in microseconds.
const AGAIN_US: u64 = 30_000_000;

/// When the first of the tables is due, if any ever is.
fn first_due(levels: &Levels) -> Option<u64> {
    levels.tables().filter_map(|(_, table)| table.info.due_us()).min()
}

impl Store {
    /// When a value expires that is written now with the lifetime `ttl`.
    pub(crate) fn expiry_after(&self, ttl: Duration) -> Expiry {
        self.clock.now_us().saturating_add(u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX))
    }

    /// For a write that depends on values that were read; the first of them expires at `expiry`.
    pub(crate) fn lasting(&self, expiry: Option<Expiry>) -> Lasting<'_> {
        Lasting::new(&self.snapshots, &self.commit, &self.clock, expiry)
    }

    /// The edit that records the clock in the manifest.
    pub(super) fn clock_edit(&self) -> Edit {
        Edit::Clock { us: self.clock.now_us().min(CLOCK_MAX) }
    }

    /// Whether some table holds entries that expire.
    pub(super) fn has_expiring(&self, versions: &Versions) -> bool {
        let expires = |tree: &Arc<TreeInner>| {
            tree.state.load().levels.tables().any(|(_, table)| table.info.expiring.count > 0)
        };
        versions.trees().any(expires)
    }

    /// Makes the trees with due tables candidates for a merge.
    pub(super) fn consider_expired(&self) {
        let now = self.clock.now_us();
        if !self.compactions.begin_due(now) {
            return;
        }
        let trees = self.versions.trees();
        let dues = trees.iter().filter_map(|tree| Some((first_due(&tree.state.load().levels)?, tree)));
        let (mut next, mut due_now) = (u64::MAX, Vec::new());
        for (due, tree) in dues {
            if due <= now {
                due_now.push(Arc::clone(tree));
                next = next.min(now.saturating_add(AGAIN_US));
            } else {
                next = next.min(due);
            }
        }
        self.compactions.note_due(next);
        self.compactions.add(due_now);
    }
}
