//! Begins and ends merges of a tree, and keeps them away. When the cause that has kept a merge from beginning ends, the
//! threads that merge are woken.

use std::sync::Arc;

use super::super::Core;
use super::Installer;
use crate::compact::pick::Compaction;
use crate::env::JobKind;
use crate::state::TreeInner;
use crate::state::merging::{Held, Ticket};

/// A merge of a tree that runs until this is dropped.
pub(in crate::store) struct RunningMerge {
    core: Arc<Core>,
    tree: Arc<TreeInner>,
    ticket: Ticket,
}

impl RunningMerge {
    /// Whether no other merge of the tree runs.
    pub(in crate::store) fn is_alone(&self) -> bool {
        self.tree.merging.is_alone(self.ticket)
    }

    /// Ends the merge. Merges that it has kept from beginning are tried immediately. A drop, which follows a failure,
    /// does not do that: the failed merge may have lacked something that is still lacking.
    pub(in crate::store) fn end(self) {
        let (core, tree) = (Arc::clone(&self.core), Arc::clone(&self.tree));
        drop(self);
        if tree.merging.take_refused() {
            core.notify(JobKind::Compact);
        }
    }
}

impl Drop for RunningMerge {
    fn drop(&mut self) {
        self.tree.merging.end(self.ticket);
    }
}

/// No merge of a tree runs until this is dropped.
pub(in crate::store) struct Unmerged {
    core: Arc<Core>,
    tree: Arc<TreeInner>,
    is_over: bool,
}

impl Unmerged {
    /// Begins `compaction` before any other merge of the tree.
    pub(in crate::store) fn begin(mut self, compaction: &Compaction) -> RunningMerge {
        let mut held = self.tree.merging.hold();
        held.go_on();
        let ticket = held.begin(compaction.extent());
        drop(held);
        self.is_over = true;
        RunningMerge { core: Arc::clone(&self.core), tree: Arc::clone(&self.tree), ticket }
    }
}

impl Drop for Unmerged {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.tree.merging.go_on();
        if self.tree.merging.take_refused() {
            self.core.notify(JobKind::Compact);
        }
    }
}

impl Installer {
    /// Begins a merge of `tree`. `held` are the merges of the tree that run.
    pub(in crate::store) fn begin_merge_of(
        &self,
        tree: &Arc<TreeInner>,
        held: &mut Held<'_>,
        compaction: &Compaction,
    ) -> RunningMerge {
        let ticket = held.begin(compaction.extent());
        RunningMerge { core: Arc::clone(&self.core), tree: Arc::clone(tree), ticket }
    }

    /// Waits until no merge of `tree` runs, and keeps merges of it away until the result is dropped.
    pub(in crate::store) fn keep_unmerged(&self, tree: &Arc<TreeInner>) -> Unmerged {
        tree.merging.stop();
        Unmerged { core: Arc::clone(&self.core), tree: Arc::clone(tree), is_over: false }
    }

    /// [`Installer::keep_unmerged`] without a wait: `None` if a merge runs, or another thread keeps merges away.
    pub(in crate::store) fn try_keep_unmerged(&self, tree: &Arc<TreeInner>) -> Option<Unmerged> {
        let stopped = tree.merging.try_stop();
        stopped.then(|| Unmerged { core: Arc::clone(&self.core), tree: Arc::clone(tree), is_over: false })
    }
}
