//! Removes expired entries: a table with many of them is merged even if nothing else requires that. So is a table at
//! which the tree's compaction rule wants to look again.

use std::sync::Arc;

use super::Compactor;
use crate::env::JobKind;
use crate::state::TreeInner;
use crate::version::table_info::Due;

/// How soon due tables are checked again if an old snapshot still reads them, in microseconds.
const AGAIN_US: u64 = 30_000_000;

impl Compactor {
    /// Makes the trees with due tables candidates for a merge.
    pub(in crate::store) fn consider_expired(&self) {
        let now = self.core.clock.now_us();
        if !self.compactions.begin_due(now) {
            return;
        }
        let trees = self.versions.trees();
        let (mut next, mut due_now) = (u64::MAX, Vec::new());
        for tree in &trees {
            let due = self.first_due(tree);
            let has_come = |due: Option<u64>, time_us: u64| due.is_some_and(|due| due <= time_us);
            if has_come(due.tree_us, self.core.time_of(tree)) || has_come(due.clock_us, now) {
                due_now.push(Arc::clone(tree));
                next = next.min(now.saturating_add(AGAIN_US));
                continue;
            }
            // A time of its own moves with the tree's flushes, each of which calls for another look.
            let by_tree_us = due.tree_us.filter(|_| tree.own_time.is_none());
            next = by_tree_us.into_iter().chain(due.clock_us).fold(next, u64::min);
        }
        self.compactions.note_due(next);
        self.compactions.add(due_now);
    }

    /// When the first table of `tree` is due, if any ever is.
    fn first_due(&self, tree: &TreeInner) -> Due {
        let has_rule = self.core.has_rule_of(tree);
        Due::first(tree.state.load().levels.tables().map(|(_, table)| table.info.due(has_rule)))
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
