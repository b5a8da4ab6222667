//! Changes trees as a whole, or groups of trees: creates, ingests, splits, drops, exports, imports. All but imports and
//! most drops pause the writers to the trees. Other writers continue.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{CommitLog, Core, Flusher, GarbageFinder, Installer};
use crate::error::Result;
use crate::state::TreeInner;
use crate::state::versions::VersionSet;

mod drop_tree;
mod export_import;
mod group;
mod ingest;
mod split;

pub(crate) use export_import::{Imported, ImportedBlobs, ImportedTree};
pub(crate) use group::Whole;
pub(crate) use ingest::Ingested;
pub(crate) use split::SplitAt;

/// Some trees take no writes until this is dropped.
pub(super) struct WritePause<'a> {
    core: &'a Core,
    trees: &'a [Arc<TreeInner>],
}

impl Drop for WritePause<'_> {
    fn drop(&mut self) {
        self.trees.iter().for_each(|tree| tree.set_paused(false));
        self.core.health.signal();
        self.core.tell_ready();
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

    /// Runs `change` while no thread writes to `trees`, no merge of them is running, and their memtables hold nothing
    /// that `must_be_flushed`. Most of the flushing happens while others still write. Called under
    /// `Reshaper::reshaping`.
    fn while_paused<T>(
        &self,
        trees: &[Arc<TreeInner>],
        must_be_flushed: &dyn Fn(&TreeInner) -> bool,
        change: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let _hurry = self.core.io_budget.hurry();
        let due = || trees.iter().filter(|tree| must_be_flushed(tree));
        self.flusher.flush_trees(due())?;
        // Waits for running merges, before writers have to wait.
        let _unmerged: Vec<_> = trees.iter().map(|tree| self.installer.keep_unmerged(tree)).collect();
        let _paused = self.pause_writes(trees);
        self.flusher.flush_trees(due())?;
        change()
    }

    /// Makes writes to `trees` wait from now on. Writes that have begun are visible when this returns. Called under
    /// `Reshaper::reshaping`.
    fn pause_writes<'a>(&'a self, trees: &'a [Arc<TreeInner>]) -> WritePause<'a> {
        let _quiet = self.log.commit().lock_quiet();
        trees.iter().for_each(|tree| tree.set_paused(true));
        WritePause { core: &self.core, trees }
    }
}
