//! Edits that record in the manifest the states of huge values: new files, references, freed values.

use std::collections::BTreeMap;

use super::{BlobGc, ByFile, Garbage, Overwritten, by_file};
use crate::blob::{BlobFileId, Pointer};
use crate::canary::broken;
use crate::cursor::SeqNo;
use crate::error::{Error, ErrorKind, Result};
use crate::version::blob_edits::{BlobEdit, BlobFileRecord, BlobFiles};
use crate::version::edit::{Edit, ManifestState, TreeId};

#[derive(Debug, Default)]
pub(crate) struct BlobEdits {
    edits: Vec<Edit>,
    pub(super) freed: ByFile,
}

impl BlobEdits {
    /// The edits, to make durable with others.
    pub(crate) fn take_edits(&mut self) -> Vec<Edit> {
        std::mem::take(&mut self.edits)
    }

    pub(crate) fn frees_any(&self) -> bool {
        !self.freed.is_empty()
    }
}

/// The effects of a change on huge values: which it frees, which its tables name, which only snapshots see afterwards.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BlobChanges<'a> {
    /// Frees values that were overwritten by logged writes up to this one: such writes are durable.
    pub(crate) durable_up_to: Option<SeqNo>,
    /// How far trees that skip the log are flushed with the same edits.
    pub(crate) flushed: &'a [(TreeId, SeqNo)],
    /// The pointers that a flush or a merge has dropped.
    pub(crate) dropped: &'a [Pointer],
    /// The pointers that only the tables of the edits name, and no log record.
    pub(crate) named: &'a [Pointer],
    /// References that only snapshots see once the edits are durable, because of a write.
    pub(crate) replaced: &'a [Overwritten],
    /// References that only snapshots see once the edits are durable, because a compaction rule has dropped their
    /// entries. No write has replaced them, so a transaction that began before may still copy the values.
    pub(crate) by_rule: &'a [Overwritten],
    /// Whether all values that only snapshots see are noted too.
    pub(crate) note_overwritten: bool,
}

impl BlobChanges<'_> {
    /// Whether the write that has overwritten a reference is durable, by `manifest` or with these edits.
    fn is_durable(&self, one: &Overwritten, manifest: &ManifestState) -> bool {
        if one.unlogged.is_some() {
            return one.is_flushed(manifest, self.flushed);
        }
        // 0: no write has to be durable.
        one.by == 0 || self.durable_up_to.is_some_and(|limit| one.by <= limit)
    }
}

impl BlobGc {
    /// Edits that bring `manifest` up to date about blob files and free the values that `changes` lists. The log is on
    /// the disk up to position `synced`. Called under the version lock.
    pub(crate) fn edits(
        &self,
        manifest: &ManifestState,
        synced: u64,
        changes: &BlobChanges<'_>,
    ) -> BlobEdits {
        let mut notes = self.notes(manifest, synced);
        let mut garbage = self.garbage.lock();
        let freed = self.free_due(&mut garbage, manifest, changes);
        let mut edits = Vec::new();
        for (&file, ordinals) in &freed {
            edits.push(BlobEdit::Free { file, ordinals: ordinals.clone() });
            if let Some(live) = self.blobs.get(file) {
                notes.insert(file, BlobEdit::Note(live.info(synced)));
            }
        }
        if changes.note_overwritten || !changes.replaced.is_empty() || broken("rule-copies") {
            edits.extend(self.note_overwritten(&garbage, manifest, changes, &notes));
        }
        if !broken("rule-copies") {
            changes.by_rule.iter().for_each(|one| self.blobs.leave_out(one));
        }
        edits.extend(self.reference_edits(&manifest.blobs.live, &notes, synced));
        BlobEdits { edits: notes.into_values().chain(edits).map(Edit::Blob).collect(), freed }
    }

    /// Edits for the files whose state differs from that in `manifest`.
    fn notes(&self, manifest: &ManifestState, synced: u64) -> BTreeMap<BlobFileId, BlobEdit> {
        let files = self.blobs.files();
        files.iter().for_each(|live| live.values.lock().note_synced(synced));
        let infos = files.iter().map(|live| live.info(synced));
        // A file without anything durable may be gone after a crash. Therefore the manifest does not name it.
        let news = infos.filter(|info| match manifest.blobs.live.get(&info.file) {
            Some(record) => record.info != *info,
            None => (info.pending.len() as u64) < info.entries,
        });
        news.map(|info| (info.file, BlobEdit::Note(info))).collect()
    }

    /// Removes the references in `garbage` whose overwriting is durable, and the references that a merge has dropped.
    /// Returns the values whose last reference was removed and that `manifest` does not have as freed.
    fn free_due(&self, garbage: &mut Garbage, manifest: &ManifestState, changes: &BlobChanges<'_>) -> ByFile {
        let due = garbage.unseen.extract_if(.., |one| changes.is_durable(one, manifest));
        let due = due.map(|one| (one.file, one.ordinal, one.reference));
        let dropped =
            changes.dropped.iter().map(|pointer| (pointer.file, pointer.ordinal, Some(pointer.reference)));
        let last = due
            .chain(dropped)
            .filter(|&(file, ordinal, reference)| self.blobs.remove_reference(file, ordinal, reference));
        let known = &manifest.blobs.live;
        let is_new = |&(file, ordinal): &(BlobFileId, u64)| {
            self.blobs.get(file).is_some()
                && known.get(&file).is_none_or(|record| !record.freed.contains(&ordinal))
        };
        let freed = by_file(last.map(|(file, ordinal, _)| (file, ordinal)).filter(is_new));
        for (&file, ordinals) in &freed {
            ordinals.iter().for_each(|&ordinal| self.blobs.unreference(file, ordinal));
        }
        freed
    }

    /// Edits that record which values only snapshots see.
    fn note_overwritten(
        &self,
        garbage: &Garbage,
        manifest: &ManifestState,
        changes: &BlobChanges<'_>,
        notes: &BTreeMap<BlobFileId, BlobEdit>,
    ) -> Vec<BlobEdit> {
        // If the overwriting write may still be lost, the log shows both after a crash.
        let durable = garbage
            .overwritten
            .iter()
            .filter(|one| changes.note_overwritten && changes.is_durable(one, manifest));
        let overwritten = durable
            .chain(changes.replaced)
            .chain(changes.by_rule.iter().filter(|_| broken("rule-copies")))
            .filter(|one| !self.blobs.set_overwritten(one, true))
            .map(|one| (one.file, one.ordinal));
        // If the manifest does not name a file, the log shows this again after a crash.
        let is_new = |&(file, ordinal): &(BlobFileId, u64)| match manifest.blobs.live.get(&file) {
            Some(record) => !record.overwritten.contains(&ordinal),
            None => notes.contains_key(&file),
        };
        let files = by_file(overwritten.filter(is_new)).into_iter();
        files.map(|(file, ordinals)| BlobEdit::Overwrite { file, ordinals }).collect()
    }

    /// Edits for the references of copied values that differ from `known`, the manifest's state. A file gets no edit if
    /// it is neither in `known` nor in `noted`, the notes of the same change. The log is on the disk up to position
    /// `synced`.
    fn reference_edits(
        &self,
        known: &BTreeMap<BlobFileId, BlobFileRecord>,
        noted: &BTreeMap<BlobFileId, BlobEdit>,
        synced: u64,
    ) -> Vec<BlobEdit> {
        let mut edits = Vec::new();
        for live in self.blobs.files() {
            let file = live.id;
            let record = known.get(&file);
            // If the manifest does not name a file, the log shows this again after a crash.
            if record.is_none() && !noted.contains_key(&file) {
                continue;
            }
            let knows = |ordinal| record.and_then(|record| record.references.get(&ordinal));
            let news = live.values.lock().reference_news(synced, knows).into_iter();
            edits.extend(news.map(|(ordinal, record)| BlobEdit::References { file, ordinal, record }));
        }
        edits
    }

    /// The blob files for the manifest of a copy of the store whose log holds everything published, up to position
    /// `end`. Called under the version lock, while no reservation is in progress. Nothing is appended to these files
    /// any more, and all of them are synced.
    pub(crate) fn files_of_copy(&self, manifest: &ManifestState, end: u64) -> Result<BlobFiles> {
        self.blobs.sync()?;
        let mut files = manifest.blobs.clone();
        let garbage = self.garbage.lock();
        // A value that was overwritten more than once may be in a file that is gone.
        let is_there = |file| self.blobs.get(file).is_some_and(|live| !live.is_open());
        let gone = garbage.overwritten.iter().chain(&garbage.unseen);
        let gone = gone.filter(|one| one.is_flushed(manifest, &[]) && is_there(one.file));
        let (of_copied, gone): (Vec<&Overwritten>, Vec<&Overwritten>) =
            gone.partition(|one| self.blobs.is_shared(one.file, one.ordinal));
        let gone = by_file(gone.into_iter().map(|one| (one.file, one.ordinal))).into_iter();
        // A file that was begun after the seal holds nothing committed.
        let whole = self.blobs.files().into_iter().filter(|live| !live.is_open());
        let notes = whole.map(|live| BlobEdit::Note(live.info(end)));
        let overwrites = gone.map(|(file, ordinals)| BlobEdit::Overwrite { file, ordinals });
        let contradiction = |what| Error::new(ErrorKind::Poisoned, what);
        notes.chain(overwrites).try_for_each(|edit| files.apply(&edit)).map_err(contradiction)?;
        let references = self.reference_edits(&files.live, &BTreeMap::new(), end);
        references.iter().try_for_each(|edit| files.apply(edit)).map_err(contradiction)?;
        for one in of_copied {
            files.remove_reference(one.file, one.ordinal, one.reference);
        }
        Ok(files)
    }
}
