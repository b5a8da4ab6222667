//! Exports a tree to a store of its own, or imports it from one: the same files get second names, and a manifest
//! describes them.
//!
//! ```text
//! export   tree flushed, its writers wait: what the copy's manifest is to say -- files linked -- writers go on
//! import   files linked under new numbers -- a number taken above all in them -- log synced; edit -- shown
//! ```
//! - An exported store keeps the numbers of tree and files, and has no log. It has those blob files that hold a value
//!   that the tree needs. All other values in them are freed there.
//! - An imported tree keeps its sequence numbers. The same edit raises the store's counter beyond them. Moments that
//!   were registered before cannot see the tree ([`crate::state::KeyBounds`]).
//! - Huge values stay filed under the lineage of the tree that wrote them, and the imported tree takes that lineage.
//!   So it may share its lineage with other trees, as after a split.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Reshaper;
use super::drop_tree::{pointers_in, shares_lineage};
use crate::blob::LiveFile;
use crate::blob::gc::BlobChanges;
use crate::canary::broken;
use crate::cursor::SeqNo;
use crate::error::{Error, ErrorKind, Result};
use crate::log::replay::LogFloor;
use crate::state::TreeInner;
use crate::state::versions::{Origin, VersionEdit, Versions};
use crate::version::blob_edits::{BlobFileRecord, BlobFiles};
use crate::version::edit::{Edit, FileId, ManifestState, TableInfo, TreeId};
use crate::version::tree_record::TreeRecord;

/// How far one import may advance the numbers of trees.
const LINEAGES_MAX: TreeId = 1 << 24;

/// The values that a tree's pointers name, each with the references that name it.
type Named = BTreeMap<(FileId, u64), BTreeSet<u64>>;

/// The values under a tree's lineage, by file. A sealed file gets no more of them.
type Filed = BTreeMap<FileId, BTreeSet<u64>>;

/// A tree to install: its files are in the store's directory, and nothing names them yet.
#[derive(Debug)]
pub(crate) struct Imported {
    pub(crate) record: TreeRecord,
    /// Each with its level.
    pub(crate) tables: Vec<(u8, TableInfo)>,
    pub(crate) blobs: Vec<ImportedBlobs>,
    /// No entry has a greater sequence number.
    pub(crate) greatest: SeqNo,
    /// The time that the store's clock must have reached, so that what had expired in the source store stays expired.
    pub(crate) clock_us: u64,
}

/// A blob file that comes with an imported tree.
#[derive(Debug)]
pub(crate) struct ImportedBlobs {
    pub(crate) live: Arc<LiveFile>,
    /// The manifest's record of it.
    pub(crate) record: BlobFileRecord,
    /// The hashes of the keys that have its values.
    pub(crate) key_hashes: Vec<u64>,
}

impl Reshaper {
    // ---- leaving -------------------------------------------------------------------------------------

    /// Lets `link` give second names to the files of the tree called `name`, while the files are there and do not
    /// change. `link` gets the state for the manifest of a store with this tree alone.
    pub(crate) fn while_exportable<T>(
        &self,
        name: &str,
        link: impl FnOnce(&ManifestState) -> Result<T>,
    ) -> Result<(ManifestState, T)> {
        let _one_at_a_time = self.reshaping.lock();
        self.log.check_changeable()?;
        let tree = self.versions.lock().tree_called(name)?;
        // This seals and syncs most of it while others write.
        self.log.seal_blobs(true)?;
        self.core.blobs.sync()?;
        let mut filed = Filed::new();
        for live in self.core.blobs.files().iter().filter(|live| live.values.lock().is_sealed()) {
            // A file that is gone meanwhile, or cannot be read, is handled below.
            filed.extend(self.filed_under(tree.lineage, live).ok().map(|values| (live.id, values)));
        }
        self.while_paused(&tree, &|| Ok(!tree.is_flushed()), || {
            // Overwritten values do not belong in the copy.
            self.finder.find_overwritten(self.log.commit().visible())?;
            let named = self.named_apart(&tree)?;
            let versions = self.versions.lock();
            self.log.check_changeable()?;
            let state = self.state_of_copy(&versions, &tree, named.as_ref(), &filed)?;
            let linked = link(&state)?;
            Ok((state, linked))
        })
    }

    /// The values that the tree's pointers name, if only these tell its huge values from another tree's.
    fn named_apart(&self, tree: &TreeInner) -> Result<Option<Named>> {
        if !self.core.blobs.is_used()
            || !shares_lineage(&self.versions.lock(), tree)
            || broken("export-lineage")
        {
            return Ok(None);
        }
        let mut named = Named::new();
        for pointer in pointers_in(tree)? {
            named.entry((pointer.file, pointer.ordinal)).or_default().insert(pointer.reference);
        }
        Ok(Some(named))
    }

    fn state_of_copy(
        &self,
        versions: &Versions,
        tree: &TreeInner,
        named: Option<&Named>,
        filed: &Filed,
    ) -> Result<ManifestState> {
        let record = versions.known().and_then(|known| Some((known, known.trees.get(&tree.id)?)));
        let Some((known, record)) = record else { return Err(tree.dropped_error()) };
        let (blobs, last_seq) = {
            let commit = self.log.commit().lock_quiet();
            let end = commit.tail.position();
            (self.finder.blob_files_of_copy(known, end)?, commit.next_seq - 1)
        };
        let record = TreeRecord { flushed: last_seq, ..record.clone() };
        let tables = known.tables_of(tree.id);
        Ok(ManifestState {
            tables: tables.map(|(level, info)| ((tree.id, level, info.file), info.clone())).collect(),
            blobs: BlobFiles {
                live: self.blobs_of(tree.lineage, blobs, named, filed)?,
                ..BlobFiles::default()
            },
            trees: BTreeMap::from([(tree.id, record)]),
            floor: LogFloor { segment: 1, start: 0 },
            log_synced: 0,
            next_file: known.next_file,
            next_tree: versions.next_tree(),
            last_seq,
            clock_us: known.clock_us.max(self.core.clock.now_us()),
            identity: self.core.env().random.next_u64(),
        })
    }

    /// The values in a file under `lineage`.
    fn filed_under(&self, lineage: TreeId, live: &LiveFile) -> Result<BTreeSet<u64>> {
        let entries = self.core.blobs.entries(live)?;
        Ok(entries.iter().filter(|entry| entry.tree == lineage).map(|entry| entry.ordinal).collect())
    }

    /// Those of `files` with a value under `lineage` that counts and, if `named` is given, is named. All other values
    /// in them are freed.
    fn blobs_of(
        &self,
        lineage: TreeId,
        files: BlobFiles,
        named: Option<&Named>,
        filed: &Filed,
    ) -> Result<BTreeMap<FileId, BlobFileRecord>> {
        let mut kept = BTreeMap::new();
        for (file, mut record) in files.live {
            // A file that cannot be read here cannot be read there either.
            let Some(live) = self.core.blobs.get(file).filter(|live| live.readable().is_ok()) else {
                continue;
            };
            let mut of_tree = match filed.get(&file) {
                Some(known) => known.clone(),
                None => self.filed_under(lineage, &live)?,
            };
            of_tree.retain(|&ordinal| {
                let counts = ordinal < record.info.entries && record.counts(ordinal);
                counts && named.is_none_or(|named| keep_named(&mut record, named, ordinal))
            });
            if of_tree.is_empty() {
                continue;
            }
            record.keep_only(&of_tree);
            kept.insert(file, record);
        }
        Ok(kept)
    }

    // ---- coming --------------------------------------------------------------------------------------

    /// Makes a tree called `name` from the linked files.
    pub(crate) fn import(&self, name: &str, imported: Imported) -> Result<Arc<TreeInner>> {
        let _one_at_a_time = self.reshaping.lock();
        // This syncs most of it while others write.
        let visible = self.log.commit().visible();
        self.finder.find_overwritten(visible)?;
        self.log.sync_published()?;
        self.core.blobs.sync_names()?;
        let mut versions = self.versions.lock();
        self.log.check_changeable()?;
        versions.check_free(name)?;
        let least = if broken("import-numbers") { 0 } else { imported.greatest };
        let number = self.log.commit().take_number_above(least)?;
        // After a crash nothing else would tell which values under the same lineage were overwritten before, so the
        // edit does.
        let changes =
            BlobChanges { durable_up_to: Some(visible), note_overwritten: true, ..BlobChanges::default() };
        let mut blobs = self.finder.blob_edits(&versions, &changes);
        let edits = blobs.take_edits();
        let synced = self.log.sync_to(number.end).and_then(|()| self.core.blobs.sync_names());
        let tree =
            synced.and_then(|()| self.install_imported(&mut versions, name, imported, (number.seq, edits)));
        self.finder.after_blob_edits(blobs, tree.is_ok());
        self.log.commit().show_number(&number);
        tree
    }

    fn install_imported(
        &self,
        versions: &mut Versions,
        name: &str,
        imported: Imported,
        (seq, mut edits): (SeqNo, Vec<Edit>),
    ) -> Result<Arc<TreeInner>> {
        let (id, record) = (versions.next_tree(), &imported.record);
        // Without values under another lineage, the tree shares its lineage with none.
        let lineage = if imported.blobs.is_empty() { id } else { record.lineage };
        if lineage.saturating_sub(id) > LINEAGES_MAX {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "its huge values are filed under too great a number",
            ));
        }
        // No future tree may get this lineage either.
        let next_tree = id.max(lineage) + 1;
        edits.extend([
            Edit::CreateTree { tree: id, name: name.to_owned(), options: record.options.clone() },
            Edit::KeyBounds { tree: id, lineage, range: record.range.clone() },
            Edit::Flushed { tree: id, seq },
        ]);
        let of_blobs = imported.blobs.iter().map(|blobs| (blobs.record.info.file, blobs.record.clone()));
        let files = BlobFiles { live: of_blobs.collect(), ..BlobFiles::default() };
        edits.extend(files.to_edits().map(Edit::Blob));
        edits.extend(record.tag.iter().map(|tag| Edit::SetTag { tree: id, tag: tag.clone() }));
        let ranges = record.ranges();
        edits.extend(ranges.map(|one| Edit::DeleteRange { tree: id, seq: one.seq, range: one.range }));
        let tables = imported.tables.into_iter();
        edits.extend(tables.map(|(level, table)| Edit::AddTable { tree: id, level, table }));
        let next_file = self.core.tables.next_file.load(std::sync::atomic::Ordering::Relaxed);
        edits.push(Edit::Counters { next_file, next_tree, last_seq: seq });
        edits.extend([self.core.clock_edit(), Edit::Clock { us: imported.clock_us }]);
        // This comes before anybody writes to the tree. A key in the filter without a huge value costs a lookup.
        let known = imported.blobs.iter().flat_map(|blobs| &blobs.key_hashes);
        known.filter(|_| !broken("import-filter")).for_each(|&hash| self.core.blobs.filter.add(hash));
        let blobs = imported.blobs.into_iter().map(|blobs| blobs.live).collect();
        let origin = Origin::Imported { seq };
        self.installer.apply(versions, &VersionEdit { origin, blobs, ..VersionEdit::of(edits) })?;
        self.core.clock.raise(imported.clock_us);
        versions.tree_called(name)
    }
}

/// Whether a `named` entry has the value. Other entries in `record` no longer count.
fn keep_named(record: &mut BlobFileRecord, named: &Named, ordinal: u64) -> bool {
    let Some(entries) = named.get(&(record.info.file, ordinal)) else { return false };
    match record.references.get_mut(&ordinal) {
        Some(references) => {
            references.live.retain(|reference, _| entries.contains(reference));
            !references.live.is_empty()
        }
        None => true,
    }
}
