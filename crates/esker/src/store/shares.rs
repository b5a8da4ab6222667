//! Huge values that several entries name, because one was copied or renamed: what the manifest is to know of them.
//!
//! A blob without a record has one entry. With one, it is freed when the last of its entries has ended; which
//! entry is meant is said by the number in its pointer ([`crate::blob::Shares`]).

use std::collections::BTreeMap;

use super::Store;
use super::blobs::{Ended, by_file};
use super::volatile::is_flushed;
use crate::blob::{BlobFileId, NewBlob, Pointer};
use crate::error::{Error, ErrorKind, Result};
use crate::version::blobs::{BlobEdit, BlobFileRecord, BlobFiles};
use crate::version::edit::{ManifestState, TreeId};

impl Store {
    /// One entry more for the huge value of `pointer`, that of `key` in a tree with the root `tree`; `None` when it was freed, because
    /// the entry that had the pointer is gone.
    pub(crate) fn share_blob(&self, tree: TreeId, key: &[u8], pointer: &Pointer) -> Result<Option<NewBlob>> {
        self.ensure_writable()?;
        Ok(self.blobs.share(tree, key, pointer))
    }

    /// Edits that say which entries name blobs, where a manifest that knows `known`, and is about to know `noted`,
    /// does not know it yet. The log is on the disk up to position `synced`.
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
            // Of a file that is not named, the log will tell again.
            if record.is_none() && !noted.contains_key(&file) {
                continue;
            }
            let knows = |ordinal| record.and_then(|record| record.shares.get(&ordinal));
            let news = live.life.lock().share_news(synced, knows).into_iter();
            edits.extend(news.map(|(ordinal, record)| BlobEdit::Shares { file, ordinal, record }));
        }
        edits
    }

    /// What a copy of the store is to know of blob files, whose log holds all that is published. Under the
    /// version lock, while no reservation is under way. Nothing is appended any more to the files that it
    /// names, and all of them are synced.
    pub(crate) fn blob_files_for_copy(&self, manifest: &ManifestState, end: u64) -> Result<BlobFiles> {
        self.seal_blobs(true)?;
        self.blobs.sync()?;
        let mut files = manifest.blobs.clone();
        let state = self.ending.state.lock();
        // What ended more than once may be in a file that is gone.
        let is_there = |file| self.blobs.get(file).is_some_and(|live| !live.is_open());
        let in_copy =
            |ended: &&Ended| ended.volatile.is_none_or(|tree| is_flushed(manifest, ended, tree, &[]));
        let ended = state.shadowed.iter().chain(&state.dead).filter(in_copy);
        let ended = ended.filter(|ended| is_there(ended.file));
        let (of_shares, ended): (Vec<&Ended>, Vec<&Ended>) =
            ended.partition(|ended| self.blobs.is_shared(ended.file, ended.ordinal));
        let ended = ended.into_iter().map(|ended| (ended.file, ended.ordinal));
        // One that was begun since the others were sealed holds nothing that was committed.
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
