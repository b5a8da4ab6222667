//! A tree that takes no writes for a moment, because it changes as a whole: who writes to it waits, others do not.

use std::sync::Arc;

use super::Store;
use crate::state::TreeInner;
use crate::write::batch::Batch;

/// Holds a tree up until it is dropped.
#[derive(Debug)]
pub(super) struct Hold<'a> {
    store: &'a Store,
    tree: Arc<TreeInner>,
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.tree.set_held(false);
        self.store.signal_progress();
    }
}

impl Store {
    /// Has writes to `tree` wait from now on; those that were begun are visible when this returns. Under `reshaping`.
    pub(super) fn hold(&self, tree: &Arc<TreeInner>) -> Hold<'_> {
        let _quiet = self.commit.lock_quiet();
        tree.set_held(true);
        Hold { store: self, tree: Arc::clone(tree) }
    }

    /// Returns when no tree of the batch is held.
    pub(super) fn wait_while_held(&self, batch: &Batch) {
        let mut guard = self.progress.0.lock();
        while batch.is_held() {
            self.progress.1.wait(&mut guard);
        }
    }
}
