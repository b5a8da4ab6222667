//! Removes expired entries: a table with many of them is merged even if nothing else requires that. So is a table at
//! which the tree's compaction rule wants to look again.

use std::sync::Arc;

use super::Compactor;
use crate::env::JobKind;
use crate::state::TreeInner;
use crate::version::levels::Levels;

/// How soon due tables are checked again if an old snapshot still reads them, in microseconds.
const AGAIN_US: u64 = 30_000_000;

/// When the first of the tables is due, if any ever is. `has_rule`: the tree's compaction rule is there.
fn first_due(levels: &Levels, has_rule: bool) -> Option<u64> {
    levels.tables().filter_map(|(_, table)| table.info.due_us(has_rule)).min()
}

impl Compactor {
    /// Makes the trees with due tables candidates for a merge.
    pub(in crate::store) fn consider_expired(&self) {
        let now = self.core.clock.now_us();
        if !self.compactions.begin_due(now) {
            return;
        }
        let trees = self.versions.trees();
        let due_of = |tree: &TreeInner| first_due(&tree.state.load().levels, self.core.has_rule_of(tree));
        let dues = trees.iter().filter_map(|tree| Some((due_of(tree)?, tree)));
        let (mut next, mut due_now) = (u64::MAX, Vec::new());
        for (due, tree) in dues {
            if let Some(own) = &tree.own_time {
                // Its time moves with its flushes, each of which calls for another look.
                if due <= own.flushed() {
                    due_now.push(Arc::clone(tree));
                    next = next.min(now.saturating_add(AGAIN_US));
                }
            } else if due <= now {
                due_now.push(Arc::clone(tree));
                next = next.min(now.saturating_add(AGAIN_US));
            } else {
                next = next.min(due);
            }
        }
        self.compactions.note_due(next);
        self.compactions.add(due_now);
    }

    /// Reads of `tree` may have paid for a merge.
    #[cold]
    pub(crate) fn consider_merging(&self, tree: &Arc<TreeInner>) {
        if !self.core.health.is_read_only() {
            self.compactions.add([Arc::clone(tree)]);
            self.core.notify(JobKind::Compact);
        }
    }
}
