//! Gives back the blocks of freed values: by holes, or by the removal of whole files.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{BlobGc, ByFile, Stage, by_file};
use crate::blob::{BlobFileId, BlobSet, LiveFile};
use crate::canary::broken;
use crate::error::{ErrorKind, Result};

impl BlobGc {
    /// Punches holes over the freed values that are not pinned. `punched` is called with the bytes of each file's
    /// values. Returns whether there was anything to punch, and the files in which no value is needed any more: the
    /// caller removes them.
    pub(crate) fn punch_freed(&self, punched: impl FnMut(u64)) -> Result<(bool, Vec<Arc<LiveFile>>)> {
        let mut freed = std::mem::take(&mut self.garbage.lock().freed);
        self.blobs.end_unreferenced();
        let unreferenced: Vec<Arc<LiveFile>> =
            self.blobs.files().into_iter().filter(|live| live.values.lock().are_unreferenced()).collect();
        let worked = !freed.is_empty();
        unreferenced.iter().for_each(|live| drop(freed.remove(&live.id)));
        self.punch_all(freed, punched).map(|()| (worked, unreferenced))
    }

    /// Punches holes over the values that were pinned when they were freed. Returns whether there were any.
    pub(crate) fn punch_unpinned(&self) -> Result<bool> {
        let unpinned = by_file(std::mem::take(&mut *self.blobs.unpinned.lock()));
        let worked = !unpinned.is_empty();
        self.punch_all(unpinned, drop).map(|()| worked)
    }

    /// Calls `punched` with the bytes of each file's values. After an error the rest waits for a later round.
    fn punch_all(&self, values: ByFile, mut punched: impl FnMut(u64)) -> Result<()> {
        let mut result = Ok(());
        for (file, ordinals) in values {
            if result.is_ok() {
                result = self.blobs.punch(file, ordinals.iter().copied()).map(&mut punched);
            }
            if result.is_err() {
                self.garbage.lock().add_freed(file, ordinals);
            }
        }
        result
    }
}

impl BlobSet {
    /// Gives back the blocks of freed values, except pinned ones: the drop of the last pin requests a round again.
    /// Returns how many bytes the others have, even if they cannot be punched: then only a rewrite regains them.
    fn punch(&self, file: BlobFileId, ordinals: impl Iterator<Item = u64>) -> Result<u64> {
        let Some(live) = self.get(file) else { return Ok(0) };
        let values = live.values.lock();
        // A value may come twice: its last pin may go between the edit that frees it and the round.
        let is_due = |ordinal: u64| values.stage(ordinal) == Stage::Freed && !values.has_pin(ordinal);
        let unpinned: Vec<u64> = ordinals.filter(|&ordinal| is_due(ordinal)).collect();
        let will_go = values.are_unreferenced();
        drop(values);
        // A file that will be removed needs no holes. In a file that a checkpoint shares, a hole would be damage.
        let Ok(readable) = live.readable() else { return Ok(0) };
        let places: Vec<(u64, u64)> =
            unpinned.iter().filter_map(|&ordinal| readable.locate(ordinal)).collect();
        let bytes = places.iter().map(|(_, len)| len).sum();
        self.punched.fetch_add(bytes, Ordering::Relaxed);
        let may_be_linked = !will_go && !broken("rule-14");
        if will_go || (may_be_linked && self.env.fs.link_count(&self.path_of(file))? > 1) {
            return Ok(bytes);
        }
        let mut holes: Vec<(u64, u64)> = places.into_iter().filter_map(hole_of).collect();
        holes.sort_unstable();
        match self.env.fs.punch_holes(&self.path_of(file), &holes) {
            Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(bytes),
            punched => punched?,
        }
        live.values.lock().note_punched(unpinned);
        Ok(bytes)
    }

    /// Whether the holes of the file are at least as large as its unneeded values.
    pub(super) fn is_punched(&self, live: &LiveFile) -> Result<bool> {
        let Ok(readable) = live.readable() else { return Ok(true) };
        let path = self.path_of(live.id);
        let holes = self.env.fs.file_len(&path)?.saturating_sub(self.env.fs.allocated_bytes(&path)?);
        let values = live.values.lock();
        let unneeded = values.unreferenced();
        let due = unneeded.filter_map(|ordinal| readable.locate(ordinal)).filter_map(hole_of);
        Ok(holes >= due.map(|(_, len)| len).sum())
    }
}

/// Offset and length of the whole blocks of a value with this offset and length, if it has any.
fn hole_of((offset, len): (u64, u64)) -> Option<(u64, u64)> {
    let (start, end) = (offset.next_multiple_of(4096), (offset + len) / 4096 * 4096);
    (start < end).then(|| (start, end - start))
}
