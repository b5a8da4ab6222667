//! Gives back the space that holes cannot: shared blob files of which little is needed are written anew.
//!
//! A hole takes whole blocks, no hole is punched where the file has a second name (durability rule 14), and some
//! file systems know no holes. What is left of freed values so is kept below a tenth of what is needed, and a quarter
//! of a blob file's greatest length: then the file from which most is won for each byte that is written goes first,
//! until half of that is left. Values keep their names, so nothing but the file changes ([`crate::blob::rewrite`]).
//!
//! The blob lane does it, some MiB between two looks at what else there is to do. What is freed meanwhile is erased
//! again where it was moved (rule 15).

use std::collections::BTreeSet;

use parking_lot::Mutex;

use super::Store;
use crate::blob::BlobFileId;
use crate::blob::rewrite::{Replaced, Rewrite};
use crate::error::{Error, ErrorKind, Result};
use crate::space::is_full;

/// So many steps write a whole file anew; between two of them the blob lane looks at its other work.
const STEPS: u64 = 16;

/// What is being done about wasted space. Only the blob lane and the closing of the store touch it.
#[derive(Debug, Default)]
pub(crate) struct Reclaim {
    state: Mutex<ReclaimState>,
}

#[derive(Debug, Default)]
struct ReclaimState {
    current: Option<Rewrite>,
    /// There was too much waste, and there is not little enough yet.
    under_way: bool,
    /// Files that cannot be read or copied: they stay as they are.
    left: BTreeSet<BlobFileId>,
    /// Files that were read while they had a copy: another time, and till then they must not keep the others.
    busy: BTreeSet<BlobFileId>,
}

impl ReclaimState {
    /// Leaves a file as it is that cannot be written anew. That is no reason to stop the store, which can do
    /// without; a full disk is one to stop.
    fn leave(&mut self, file: BlobFileId, error: Error) -> Result<()> {
        if is_full(&error) {
            return Err(error);
        }
        self.left.insert(file);
        Ok(())
    }
}

impl Reclaim {
    /// Gives up what is under way, while the directory is still the store's own.
    pub(super) fn end(&self) {
        self.state.lock().current.take();
    }
}

impl Store {
    /// Does a step of what there is to do; `false` when there is nothing, or what was done is not paid for.
    pub(super) fn reclaim_blobs(&self) -> Result<bool> {
        if self.reclaim_waits().is_some() {
            return Ok(false);
        }
        let mut state = self.reclaim.state.lock();
        let worked = match state.current.take() {
            Some(rewrite) => self.go_on_with(rewrite, &mut state),
            None => self.begin_if_due(&mut state),
        };
        match worked {
            // Nothing is lost, and deletes may bring the room.
            Err(error) if error.kind() == ErrorKind::OutOfSpace => {
                state.under_way = false;
                Ok(false)
            }
            worked => worked,
        }
    }

    fn begin_if_due(&self, state: &mut ReclaimState) -> Result<bool> {
        let unit = self.options.blob_file_bytes / 4;
        if !state.under_way && !self.blobs.has_erased(unit / 4) {
            return Ok(false);
        }
        if !state.under_way {
            state.busy.clear();
        }
        let mut may_go = self.known_blob_files();
        may_go.retain(|file| !state.left.contains(file) && !state.busy.contains(file));
        let waste = self.blobs.waste(&may_go)?;
        let limit = unit + waste.needed / 10;
        state.under_way = waste.bytes > if state.under_way { limit / 2 } else { limit };
        let Some((live, needed)) = waste.worst.filter(|_| state.under_way) else {
            state.under_way = false;
            return Ok(false);
        };
        if self.blobs.is_held_up(&live)? {
            state.busy.insert(live.id);
            return Ok(true);
        }
        let gone = self.gone_from(live.id).unwrap_or_default();
        self.check_room_for_blob(needed)?;
        match self.blobs.begin_rewrite(&live, |ordinal| gone.contains(&ordinal)) {
            Ok(rewrite) => state.current = Some(rewrite),
            Err(error) => state.leave(live.id, error)?,
        }
        Ok(true)
    }

    fn go_on_with(&self, mut rewrite: Rewrite, state: &mut ReclaimState) -> Result<bool> {
        let file = rewrite.file();
        // All its values may have been freed since.
        let Some(gone) = self.gone_from(file) else { return Ok(true) };
        let bytes = self.options.blob_file_bytes.div_ceil(STEPS);
        // Read, and written.
        self.io_budget.note_reclaim(2 * bytes);
        match rewrite.step(bytes, |ordinal| gone.contains(&ordinal)) {
            Ok(true) => state.current = Some(rewrite),
            Ok(false) => match self.finish_rewrite(rewrite) {
                Ok(Some(replaced)) => {
                    let there = replaced.ordinals.iter().copied();
                    self.ending.erase_again(file, there.filter(|ordinal| gone.contains(ordinal)));
                    replaced.settle(&self.dir)?;
                }
                Ok(None) => drop(state.busy.insert(file)),
                Err(error) => state.leave(file, error)?,
            },
            Err(error) => state.leave(file, error)?,
        }
        Ok(true)
    }

    /// Puts the file that was written in its place.
    fn finish_rewrite(&self, mut rewrite: Rewrite) -> Result<Option<Replaced>> {
        rewrite.seal()?;
        // Checkpoints link under it.
        let _nobody_links = self.versions.lock();
        rewrite.take_place(&self.blobs.handles)
    }

    /// What the manifest knows: of others it does not say what is freed.
    fn known_blob_files(&self) -> BTreeSet<BlobFileId> {
        let versions = self.versions.lock();
        versions.known().into_iter().flat_map(|known| known.blobs.live.keys().copied()).collect()
    }

    /// The values of `file` that are freed in the manifest, and that nobody reads.
    fn gone_from(&self, file: BlobFileId) -> Option<BTreeSet<u64>> {
        let versions = self.versions.lock();
        let record = versions.known()?.blobs.live.get(&file)?;
        let live = self.blobs.get(file)?;
        let life = live.life.lock();
        Some(record.freed.iter().copied().filter(|&ordinal| life.is_gone(ordinal)).collect())
    }
}
