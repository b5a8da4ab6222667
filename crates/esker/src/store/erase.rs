//! Gives back the bytes of blobs that are freed in the manifest, by holes or whole files.

use std::sync::Arc;

use super::Store;
use crate::blob::{BlobFileId, LiveFile};
use crate::error::{ErrorKind, Result};
use crate::state::versions::Change;
use crate::version::blob_edits::BlobEdit;
use crate::version::edit::Edit;

impl Store {
    pub(super) fn erase_the_freed(&self) -> Result<bool> {
        let freed = self.ending.take_freed();
        self.blobs.end_spent();
        let over: Vec<Arc<LiveFile>> =
            self.blobs.files().into_iter().filter(|live| live.life.lock().is_over()).collect();
        let worked = !freed.is_empty();
        let is_over = |file: &BlobFileId| over.iter().any(|live| live.id == *file);
        let mut result = Ok(());
        for (file, ordinals) in freed.into_iter().filter(|(file, _)| !is_over(file)) {
            if result.is_ok() {
                result = self.blobs.erase(file, ordinals.iter().copied()).map(|bytes| self.has_paid(bytes));
            }
            if result.is_err() {
                self.ending.erase_again(file, ordinals.into_iter());
            }
        }
        result?;
        Ok(self.remove_files(&over)? | worked)
    }

    /// Removes those of `files` whose blobs are all freed in the manifest and that nobody reads. A file that is being
    /// read keeps its name: while a file has two names, nobody punches it through the other one.
    fn remove_files(&self, files: &[Arc<LiveFile>]) -> Result<bool> {
        if files.is_empty() {
            return Ok(false);
        }
        let mut versions = self.versions.lock();
        let Some(known) = versions.known().map(|known| &known.blobs.live) else { return Ok(false) };
        let is_freed = |live: &&Arc<LiveFile>| {
            let life = live.life.lock();
            let is_over = life.is_over() && !life.is_pinned();
            known.get(&live.id).is_some_and(|record| is_over && life.freed.is_subset(&record.freed))
        };
        let gone: Vec<BlobFileId> = files.iter().filter(is_freed).map(|live| live.id).collect();
        if gone.is_empty() {
            return Ok(false);
        }
        let position = self.commit.published();
        let edits = gone.iter().map(|&file| Edit::Blob(BlobEdit::Remove { file, position }));
        self.apply(&mut versions, &Change::of(edits.collect()))?;
        drop(versions);
        for file in gone {
            let path = self.blobs.path_of(file);
            let bytes = self.env.fs.allocated_bytes(&path).unwrap_or(0);
            match self.env.fs.remove_file(&path) {
                // Its values were lost before.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                removed => removed.map(|()| self.has_paid(bytes))?,
            }
        }
        Ok(true)
    }
}
