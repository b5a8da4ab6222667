//! Applies changes of versions: makes edits durable in the manifest, shows them to readers through
//! [`crate::state::versions`], and notes the work that they make due.

use super::Store;
use crate::compact::pick;
use crate::cursor::SeqNo;
use crate::env::JobKind;
use crate::error::Result;
use crate::state::TreeInner;
use crate::state::versions::{Applied, Change, Versions};
use crate::version::edit::Edit;
use crate::version::manifest::Manifest;

impl Store {
    /// Makes `change` durable and shows it.
    pub(crate) fn apply(&self, versions: &mut Versions, change: &Change<'_>) -> Result<()> {
        self.health.check_open()?;
        self.apply_when_closing(versions, change)
    }

    /// [`Store::apply`] for the last edits of a store that is closing.
    pub(super) fn apply_when_closing(&self, versions: &mut Versions, change: &Change<'_>) -> Result<()> {
        let commit = |manifest: &mut Manifest, edits: &[Edit]| self.commit_edits(manifest, edits);
        let applied = versions.apply(change, commit, || self.commit.lock_briefly())?;
        self.follow(applied);
        Ok(())
    }

    /// Writes `edits` to the manifest and notes in the log how far it is synced.
    fn commit_edits(&self, manifest: &mut Manifest, edits: &[Edit]) -> Result<()> {
        let result = self.space.with_reserve(|| manifest.commit(edits));
        if manifest.failure().is_some() {
            self.commit.poison();
        }
        result?;
        let (number, len) = manifest.synced();
        if self.wal.mark_manifest(number, len).is_err() {
            // The edits count all the same, so they are shown.
            self.commit.poison();
        }
        Ok(())
    }

    /// Does what a change of versions makes due. Called under the version lock.
    fn follow(&self, applied: Applied) {
        let Applied { changed, dropped, orphans, due_us } = applied;
        due_us.into_iter().for_each(|due_us| self.compactions.note_due(due_us));
        orphans.into_iter().for_each(|file| self.discard_file(file));
        for tree in &dropped {
            self.immutable.remove_tree(tree);
            self.compactions.forget(tree);
            self.health.signal();
            if !tree.log {
                // With the tree, everything that could come back is gone.
                self.note_flushed(&[(tree.id, SeqNo::MAX)]);
            }
        }
        // The same job removes the tables of dropped trees.
        let has_work = !changed.is_empty() || !dropped.is_empty();
        if !changed.is_empty() {
            self.compactions.add(changed);
            self.update_throttle();
        }
        if has_work {
            self.notify(JobKind::Compact);
        }
    }

    /// Slows writers according to how far merges are behind.
    fn update_throttle(&self) {
        let behind = |tree: &TreeInner| pick::runs_behind(&tree.state.load().levels, &tree.options());
        // A wait helps no merge that has no room.
        self.throttle.set_runs(self.compactions.most(behind));
    }
}
