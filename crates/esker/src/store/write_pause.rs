//! A pause of the writes to one tree, because the tree changes as a whole. Only writers to this tree wait.

use std::sync::Arc;

use super::Store;
use crate::error::Result;
use crate::state::TreeInner;
use crate::write::batch::Batch;

/// How often a pause ends early because a merge of it has begun. After that many times the merge is awaited
/// although writers wait too.
const TRIES_MAX: usize = 4;

/// A tree takes no writes until this is dropped.
#[derive(Debug)]
pub(super) struct WritePause<'a> {
    store: &'a Store,
    tree: Arc<TreeInner>,
}

impl Drop for WritePause<'_> {
    fn drop(&mut self) {
        self.tree.set_paused(false);
        self.store.health.signal();
    }
}

impl Store {
    /// Makes writes to `tree` wait from now on. Writes that have begun are visible when this returns. Called under
    /// `reshaping`.
    pub(super) fn pause_writes(&self, tree: &Arc<TreeInner>) -> WritePause<'_> {
        let _quiet = self.commit.lock_quiet();
        tree.set_paused(true);
        WritePause { store: self, tree: Arc::clone(tree) }
    }

    /// Waits until no tree of the batch is paused.
    pub(super) fn wait_while_paused(&self, batch: &Batch) {
        // It never fails.
        let _ = self.health.wait(|| Ok(!batch.is_paused()));
    }

    /// Runs `change` while nobody writes to `tree`, no merge of it is running, and its memtables hold nothing that
    /// `must_be_flushed`. Most of the flushing happens while others still write. Called under `reshaping`.
    pub(super) fn while_paused<T>(
        &self,
        tree: &Arc<TreeInner>,
        must_be_flushed: &dyn Fn() -> Result<bool>,
        change: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let _hurry = self.io_budget.hurry();
        let mut tries = 0;
        loop {
            if must_be_flushed()? {
                self.flush_trees(std::iter::once(tree))?;
            }
            // Wait for a running merge.
            drop(tree.below_level_0.lock());
            let paused = self.pause_writes(tree);
            if must_be_flushed()? {
                self.flush_trees(std::iter::once(tree))?;
            }
            tries += 1;
            let unmerged = match tree.below_level_0.try_lock() {
                None if tries < TRIES_MAX => None,
                None => Some(tree.below_level_0.lock()),
                unmerged => unmerged,
            };
            if unmerged.is_some() {
                return change();
            }
            drop(paused);
        }
    }
}
