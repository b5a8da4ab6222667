//! Gives back the space that holes cannot: rewrites shared blob files of which little is needed.
//!
//! A hole frees whole blocks only. No hole is punched in a file with a second name (rule 14). Some file systems have no
//! holes. Therefore some space of freed values remains. It is kept below a tenth of the needed space plus a quarter of
//! a blob file's greatest length. Above that, the store rewrites the files that gain most for each byte written, until
//! half of that limit is left. Values keep their names, so only the file changes ([`crate::blob::rewrite`]).
//!
//! The blob job does this, some MiB at a time, between its other work. Values that are freed during a rewrite are
//! punched again in the new file (rule 15).

use std::collections::BTreeSet;
use std::time::Duration;

use super::Collector;
use crate::blob::BlobFileId;
use crate::blob::rewrite::{Replaced, Rewrite};
use crate::error::{Error, ErrorKind, Result};
use crate::space::is_full;

/// A rewrite of a whole file takes this many steps. Between two of them the blob job does its other work.
const STEPS: u64 = 16;

/// The state of reclaim. Only the blob job and the close of the store touch it.
#[derive(Debug, Default)]
pub(super) struct ReclaimState {
    current: Option<Rewrite>,
    /// Whether there was too much garbage, and there still is more than half of the limit.
    under_way: bool,
    /// Files that cannot be read or copied. They stay as they are.
    left: BTreeSet<BlobFileId>,
    /// Files that were being read and had a copy. They are left for later and must not delay the others.
    busy: BTreeSet<BlobFileId>,
}

impl ReclaimState {
    /// Leaves a file that cannot be rewritten as it is: the store can do without the rewrite. A full disk is an error,
    /// which ends reclaim for now.
    fn leave(&mut self, file: BlobFileId, error: Error) -> Result<()> {
        if is_full(&error) {
            return Err(error);
        }
        self.left.insert(file);
        Ok(())
    }
}

impl Collector {
    /// Abandons a running rewrite, while the directory still belongs to the store.
    pub(in crate::store) fn end_reclaim(&self) {
        self.reclaim.lock().current.take();
    }

    /// Does one step of reclaim. `false` if there is nothing to do, or if the budget has not paid for the last step
    /// yet.
    pub(super) fn reclaim_blobs(&self) -> Result<bool> {
        if self.reclaim_waits().is_some() {
            return Ok(false);
        }
        let mut state = self.reclaim.lock();
        let worked = match state.current.take() {
            Some(rewrite) => self.go_on_with(rewrite, &mut state),
            None => self.begin_if_due(&mut state),
        };
        match worked {
            // Nothing is lost, and deletes may free space.
            Err(error) if error.kind() == ErrorKind::OutOfSpace => {
                // The merge that has the low-space mark wakes the job at its end.
                state.under_way &= self.disk.may_mark_be_lent();
                Ok(false)
            }
            worked => worked,
        }
    }

    fn begin_if_due(&self, state: &mut ReclaimState) -> Result<bool> {
        let unit = self.core.options.blob_file_bytes / 4;
        if !state.under_way && !self.core.blobs.take_punched(unit / 4) {
            return Ok(false);
        }
        if !state.under_way {
            state.busy.clear();
        }
        let mut may_go = self.known_blob_files();
        may_go.retain(|file| !state.left.contains(file) && !state.busy.contains(file));
        let sum = self.core.blobs.garbage_bytes(&may_go)?;
        let limit = unit + sum.needed / 10;
        state.under_way = sum.garbage > if state.under_way { limit / 2 } else { limit };
        let Some((live, needed)) = sum.worst.filter(|_| state.under_way) else {
            state.under_way = false;
            return Ok(false);
        };
        if self.core.blobs.is_held_up(&live)? {
            state.busy.insert(live.id);
            return Ok(true);
        }
        let gone = self.gone_from(live.id).unwrap_or_default();
        self.disk.check_room_for_blob(needed)?;
        match self.core.blobs.begin_rewrite(&live, |ordinal| gone.contains(&ordinal)) {
            Ok(rewrite) => state.current = Some(rewrite),
            Err(error) => state.leave(live.id, error)?,
        }
        Ok(true)
    }

    fn go_on_with(&self, mut rewrite: Rewrite, state: &mut ReclaimState) -> Result<bool> {
        let file = rewrite.file();
        // All its values may have been freed since.
        let Some(gone) = self.gone_from(file) else { return Ok(true) };
        let bytes = self.core.options.blob_file_bytes.div_ceil(STEPS);
        // Read, and written.
        self.core.io_budget.note_reclaim(2 * bytes);
        match rewrite.step(bytes, |ordinal| gone.contains(&ordinal)) {
            Ok(true) => state.current = Some(rewrite),
            Ok(false) => match self.finish_rewrite(rewrite) {
                Ok(Some(replaced)) => {
                    self.finder.blob_gc().after_rewrite(file, replaced.ordinals.iter().copied());
                    replaced.finish(&self.core.dir)?;
                }
                Ok(None) => drop(state.busy.insert(file)),
                Err(error) => state.leave(file, error)?,
            },
            Err(error) => state.leave(file, error)?,
        }
        Ok(true)
    }

    /// Puts the new file in the old one's place.
    fn finish_rewrite(&self, mut rewrite: Rewrite) -> Result<Option<Replaced>> {
        rewrite.seal()?;
        // Checkpoints link files under this lock.
        let _nobody_links = self.versions.lock();
        rewrite.take_place(&self.core.blobs.handles)
    }

    /// The files that the manifest names. For other files the manifest does not record which values are freed.
    fn known_blob_files(&self) -> BTreeSet<BlobFileId> {
        let versions = self.versions.lock();
        versions.known().into_iter().flat_map(|known| known.blobs.live.keys().copied()).collect()
    }

    /// The values of `file` that are freed in the manifest and that no reader uses.
    fn gone_from(&self, file: BlobFileId) -> Option<BTreeSet<u64>> {
        let versions = self.versions.lock();
        let record = versions.known()?.blobs.live.get(&file)?;
        let live = self.core.blobs.get(file)?;
        let values = live.values.lock();
        Some(record.freed.iter().copied().filter(|&ordinal| values.is_unneeded(ordinal)).collect())
    }

    /// How long the next step of a rewrite has to wait, if at all.
    pub(in crate::store) fn reclaim_waits(&self) -> Option<Duration> {
        self.core.io_budget.reclaim_waits(|| self.core.executor.is_stepped() || self.core.is_urgent())
    }
}
