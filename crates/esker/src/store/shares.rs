//! Huge values that several entries name, because one was copied or renamed: the manifest's records of them.
//!
//! A blob without a record has one entry. A blob with a record is freed when the last of its entries has ended. The
//! number in a pointer tells which entry it belongs to ([`crate::blob::Shares`]).

use std::collections::BTreeMap;

use super::Store;
use super::blob_gc::{Ended, by_file};
use super::volatile::is_flushed;
use crate::blob::{BlobFileId, NewBlob, Pointer};
use crate::error::{Error, ErrorKind, Result};
use crate::version::blob_edits::{BlobEdit, BlobFileRecord, BlobFiles};
use crate::version::edit::{ManifestState, TreeId};

impl Store {
    /// Adds an entry, that of `key` in a tree with the root `tree`, to the huge value of `pointer`. `None` if the value
    /// was freed, because the entry that had the pointer is gone.
    pub(crate) fn share_blob(&self, tree: TreeId, key: &[u8], pointer: &Pointer) -> Result<Option<NewBlob>> {
        self.ensure_writable()?;
        Ok(self.blobs.share(tree, key, pointer))
    }

    /// Edits that record which entries name blobs, as far as a manifest that knows `known`, and is about to know
    /// `noted`, does not know it yet. The log is on the disk up to position `synced`.
    pub(super) fn share_edits(
        &self,
        known: &BTreeMap<BlobFileId, BlobFileRecord>,
        noted: &BTreeMap<BlobFileId, BlobEdit>,
        synced: u64,
    ) -> Vec<BlobEdit> {
        let mut edits = Vec::new();
        for live in self.blobs.files() {
            let file = live.id;
            let record = known.get(&file);
            // If a file is not named, the log will tell again.
            if record.is_none() && !noted.contains_key(&file) {
                continue;
            }
            let knows = |ordinal| record.and_then(|record| record.shares.get(&ordinal));
            let news = live.life.lock().share_news(synced, knows).into_iter();
            edits.extend(news.map(|(ordinal, record)| BlobEdit::Shares { file, ordinal, record }));
        }
        edits
    }

    /// The blob files for the manifest of a copy whose log holds everything published. Called under the version lock,
    /// while no reservation is in progress. Nothing is appended to these files any more, and all of them are synced.
    pub(crate) fn blob_files_for_copy(&self, manifest: &ManifestState, end: u64) -> Result<BlobFiles> {
        self.seal_blobs(true)?;
        self.blobs.sync()?;
        let mut files = manifest.blobs.clone();
        let state = self.ending.state.lock();
        // A value that ended more than once may be in a file that is gone.
        let is_there = |file| self.blobs.get(file).is_some_and(|live| !live.is_open());
        let in_copy =
            |ended: &&Ended| ended.volatile.is_none_or(|tree| is_flushed(manifest, ended, tree, &[]));
        let ended = state.shadowed.iter().chain(&state.dead).filter(in_copy);
        let ended = ended.filter(|ended| is_there(ended.file));
        let (of_shares, ended): (Vec<&Ended>, Vec<&Ended>) =
            ended.partition(|ended| self.blobs.is_shared(ended.file, ended.ordinal));
        let ended = ended.into_iter().map(|ended| (ended.file, ended.ordinal));
        // A file that was begun after the seal holds nothing committed.
        let whole = self.blobs.files().into_iter().filter(|live| !live.is_open());
        let notes = whole.map(|live| BlobEdit::Note(live.info(end)));
        let shadows = by_file(ended).into_iter().map(|(file, ordinals)| BlobEdit::Shadow { file, ordinals });
        let contradiction = |what| Error::new(ErrorKind::Poisoned, what);
        notes.chain(shadows).try_for_each(|edit| files.apply(&edit)).map_err(contradiction)?;
        let named = BTreeMap::new();
        let shares = self.share_edits(&files.live, &named, end);
        shares.iter().try_for_each(|edit| files.apply(edit)).map_err(contradiction)?;
        for ended in of_shares {
            files.end_share(ended.file, ended.ordinal, ended.share);
        }
        Ok(files)
    }
}
