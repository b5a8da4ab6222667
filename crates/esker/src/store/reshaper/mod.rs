//! Changes trees as a whole: ingests, splits, drops, exports, imports. All but imports and most drops pause the writers
//! to the tree. Other writers go on.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{CommitLog, Core, Flusher, GarbageFinder, Installer};
use crate::error::Result;
use crate::state::TreeInner;
use crate::state::versions::VersionSet;

mod drop_tree;
mod export_import;
mod ingest;
mod split;

pub(crate) use export_import::{Imported, ImportedBlobs};
pub(crate) use ingest::Ingested;

/// How often a pause may end early because a merge of the tree has begun. After that, writers wait for the merge.
const TRIES_MAX: usize = 4;

/// A tree takes no writes until this is dropped.
pub(super) struct WritePause<'a> {
    core: &'a Core,
    tree: Arc<TreeInner>,
}

impl Drop for WritePause<'_> {
    fn drop(&mut self) {
        self.tree.set_paused(false);
        self.core.health.signal();
    }
}

/// Changes trees as a whole: ingests, splits, drops, exports and imports them.
pub(crate) struct Reshaper {
    core: Arc<Core>,
    log: Arc<CommitLog>,
    finder: Arc<GarbageFinder>,
    installer: Arc<Installer>,
    flusher: Arc<Flusher>,
    versions: Arc<VersionSet>,
    /// Held while a tree changes as a whole.
    reshaping: Mutex<()>,
}

impl Reshaper {
    pub(super) fn new(
        core: &Arc<Core>,
        log: &Arc<CommitLog>,
        finder: &Arc<GarbageFinder>,
        installer: &Arc<Installer>,
        flusher: &Arc<Flusher>,
        versions: &Arc<VersionSet>,
    ) -> Reshaper {
        Reshaper {
            core: Arc::clone(core),
            log: Arc::clone(log),
            finder: Arc::clone(finder),
            installer: Arc::clone(installer),
            flusher: Arc::clone(flusher),
            versions: Arc::clone(versions),
            reshaping: Mutex::new(()),
        }
    }

    /// Runs `change` while nobody writes to `tree`, no merge of it is running, and its memtables hold nothing that
    /// `must_be_flushed`. Most of the flushing happens while others still write. Called under `Reshaper::reshaping`.
    fn while_paused<T>(
        &self,
        tree: &Arc<TreeInner>,
        must_be_flushed: &dyn Fn() -> Result<bool>,
        change: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let _hurry = self.core.io_budget.hurry();
        let mut tries = 0;
        loop {
            if must_be_flushed()? {
                self.flusher.flush_trees(std::iter::once(tree))?;
            }
            // Wait for a running merge.
            drop(tree.below_level_0.lock());
            let paused = self.pause_writes(tree);
            if must_be_flushed()? {
                self.flusher.flush_trees(std::iter::once(tree))?;
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

    /// Makes writes to `tree` wait from now on. Writes that have begun are visible when this returns. Called under
    /// `Reshaper::reshaping`.
    fn pause_writes(&self, tree: &Arc<TreeInner>) -> WritePause<'_> {
        let _quiet = self.log.commit().lock_quiet();
        tree.set_paused(true);
        WritePause { core: &self.core, tree: Arc::clone(tree) }
    }
}
