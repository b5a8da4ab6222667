//! Exports a tree, or a group of trees, to its own store, or imports it from one: the same files get second names,
//! and a manifest describes them.
//!
//! ```text
//! export   tree flushed, its writers wait: the copy's manifest is made -- files linked -- writers go on
//! import   files linked under new numbers -- a number taken above all in them -- log synced; edit -- shown
//! ```
//! - An exported store keeps the numbers of tree and files, and has no log. It has those blob files that hold a value
//!   that the tree needs. All other values in them are freed there.
//! - An imported tree keeps its sequence numbers. The same edit raises the store's counter beyond them. Moments that
//!   were registered before cannot see the tree ([`crate::state::KeyBounds`]).
//! - Huge values stay filed under the lineage of the tree that wrote them, and the imported tree takes that lineage. It
//!   may therefore share its lineage with other trees, as after a split.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Reshaper;
use super::drop_tree::{pointers_in, shares_lineage};
use super::group::{Whole, add_tags};
use crate::blob::LiveFile;
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

/// Trees to install: their files are in the store's directory, and nothing names them yet.
#[derive(Debug)]
pub(crate) struct Imported {
    /// They have one lineage.
    pub(crate) trees: Vec<ImportedTree>,
    pub(crate) blobs: Vec<ImportedBlobs>,
    /// No entry has a greater sequence number.
    pub(crate) greatest: SeqNo,
    /// The time that the store's clock must have reached, so that values that had expired in the source store stay
    /// expired.
    pub(crate) clock_us: u64,
}

/// A tree that is imported.
#[derive(Debug)]
pub(crate) struct ImportedTree {
    /// With the name that it gets here.
    pub(crate) record: TreeRecord,
    /// Each with its level.
    pub(crate) tables: Vec<(u8, TableInfo)>,
}

/// A blob file that comes with imported trees.
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

    /// Lets `link` give second names to the files of `what`, while the files exist and do not change. `link` gets the
    /// state for the manifest of a store that has only these trees, with `tags` set.
    pub(crate) fn while_exportable<T>(
        &self,
        what: Whole<'_>,
        tags: &[(&str, &str)],
        link: impl FnOnce(&ManifestState) -> Result<T>,
    ) -> Result<(ManifestState, T)> {
        let _one_at_a_time = self.reshaping.lock();
        self.log.check_changeable()?;
        let trees = what.trees(&self.versions.lock())?;
        // This seals and syncs most of it while others write.
        self.log.seal_blobs(true)?;
        self.core.blobs.sync()?;
        let mut filed = Filed::new();
        for live in self.core.blobs.files().iter().filter(|live| live.values.lock().is_sealed()) {
            // A file that has gone meanwhile, or cannot be read, is handled below.
            filed.extend(self.filed_under(&trees, live).ok().map(|values| (live.id, values)));
        }
        self.while_paused(&trees, &|tree| !tree.is_flushed(), || {
            // Overwritten values do not belong in the copy.
            self.finder.find_overwritten(self.log.commit().visible())?;
            let named = self.named_apart(&trees)?;
            let versions = self.versions.lock();
            self.log.check_changeable()?;
            let mut state = self.state_of_copy(&versions, &trees, named.as_ref(), &filed)?;
            let mut set = Vec::new();
            add_tags(&mut set, &versions, tags)?;
            if let Some((name, _)) =
                tags.iter().find(|(name, _)| !trees.iter().any(|tree| tree.name == *name))
            {
                let message = format!("the export has no tree \"{name}\" to give a tag to");
                return Err(Error::new(ErrorKind::NotFound, message));
            }
            let contradiction = |what| Error::new(ErrorKind::Poisoned, what);
            set.iter().try_for_each(|edit| state.apply(edit)).map_err(contradiction)?;
            let linked = link(&state)?;
            Ok((state, linked))
        })
    }

    /// The values that the trees' pointers name, if only the pointers distinguish their huge values from those of other
    /// trees.
    fn named_apart(&self, trees: &[Arc<TreeInner>]) -> Result<Option<Named>> {
        if !self.core.blobs.is_used()
            || !shares_lineage(&self.versions.lock(), trees)
            || broken("export-lineage")
        {
            return Ok(None);
        }
        let mut named = Named::new();
        for tree in trees {
            for pointer in pointers_in(tree)? {
                named.entry((pointer.file, pointer.ordinal)).or_default().insert(pointer.reference);
            }
        }
        Ok(Some(named))
    }

    fn state_of_copy(
        &self,
        versions: &Versions,
        trees: &[Arc<TreeInner>],
        named: Option<&Named>,
        filed: &Filed,
    ) -> Result<ManifestState> {
        // Exports need a manifest: a store that is open for reading only was refused.
        let read_only = || Error::new(ErrorKind::ReadOnly, "the store was opened for reading only");
        let known = versions.known().ok_or_else(read_only)?;
        let (blobs, last_seq) = {
            let commit = self.log.commit().lock_quiet();
            let end = commit.tail.position();
            (self.finder.blob_files_of_copy(known, end)?, commit.next_seq - 1)
        };
        let (mut records, mut tables) = (BTreeMap::new(), BTreeMap::new());
        for tree in trees {
            let record = known.trees.get(&tree.id).ok_or_else(|| tree.dropped_error())?;
            records.insert(tree.id, TreeRecord { flushed: last_seq, ..record.clone() });
            let own = known.tables_of(tree.id);
            tables.extend(own.map(|(level, info)| ((tree.id, level, info.file), info.clone())));
        }
        Ok(ManifestState {
            tables,
            blobs: BlobFiles { live: self.blobs_of(trees, blobs, named, filed)?, ..BlobFiles::default() },
            trees: records,
            floor: LogFloor { segment: 1, start: 0 },
            log_synced: 0,
            next_file: known.next_file,
            next_tree: versions.next_tree(),
            last_seq,
            clock: self.core.reached_from(known.clock.us),
            identity: self.core.env().random.next_u64(),
        })
    }

    /// The values in a file under the lineage of one of `trees`.
    fn filed_under(&self, trees: &[Arc<TreeInner>], live: &LiveFile) -> Result<BTreeSet<u64>> {
        let entries = self.core.blobs.entries(live)?;
        let own = entries.iter().filter(|entry| trees.iter().any(|tree| tree.lineage == entry.tree));
        Ok(own.map(|entry| entry.ordinal).collect())
    }

    /// Those of `files` with a value under the lineage of one of `trees` that counts and, if `named` is given, is
    /// named. All other values in them are freed.
    fn blobs_of(
        &self,
        trees: &[Arc<TreeInner>],
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
                None => self.filed_under(trees, &live)?,
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

    /// Makes trees from the linked files, and sets `tags` in the same step. With `replace`, the trees replace those of
    /// the group with this name, if there are any; the replaced trees are dropped.
    pub(crate) fn import(
        &self,
        imported: Imported,
        replace: Option<&str>,
        tags: &[(&str, &str)],
    ) -> Result<()> {
        let _one_at_a_time = self.reshaping.lock();
        let replaced = replace.and_then(|group| Whole::Group(group).trees(&self.versions.lock()).ok());
        let replaced = replaced.unwrap_or_default();
        let _paused = self.pause_writes(&replaced);
        // Imported values may be filed under the lineage of the replaced ones: only pointers distinguish them.
        let own = self.own_pointers(&replaced)?;
        self.core.blobs.sync_names()?;
        let mut versions = self.versions.lock();
        self.log.check_changeable()?;
        let (mut edits, ids) = creating(&versions, &imported, &replaced)?;
        add_tags(&mut edits, &versions, tags)?;
        let least = if broken("import-numbers") { 0 } else { imported.greatest };
        let number = self.log.commit().take_number_above(least)?;
        self.install_dropping(&mut versions, &own, |versions, of_blobs| {
            edits.extend(of_blobs);
            let synced = self.log.sync_to(number.end).and_then(|()| self.core.blobs.sync_names());
            let installed =
                synced.and_then(|()| self.install_imported(versions, imported, (edits, ids), number.seq));
            self.log.commit().show_number(&number);
            installed
        })
    }

    fn install_imported(
        &self,
        versions: &mut Versions,
        imported: Imported,
        (mut edits, ids): (Vec<Edit>, NewTrees),
        seq: SeqNo,
    ) -> Result<()> {
        let of_blobs = imported.blobs.iter().map(|blobs| (blobs.record.info.file, blobs.record.clone()));
        let files = BlobFiles { live: of_blobs.collect(), ..BlobFiles::default() };
        edits.extend(files.to_edits().map(Edit::Blob));
        for (tree, ImportedTree { record, tables }) in (ids.first..).zip(imported.trees) {
            edits.push(Edit::Flushed { tree, seq, time_us: record.time_us });
            let ranges = record.ranges();
            edits.extend(ranges.map(|one| Edit::DeleteRange { tree, seq: one.seq, range: one.range }));
            edits.extend(tables.into_iter().map(|(level, table)| Edit::AddTable { tree, level, table }));
        }
        let next_file = self.core.tables.next_file.load(std::sync::atomic::Ordering::Relaxed);
        edits.push(Edit::Counters { next_file, next_tree: ids.next, last_seq: seq });
        edits.push(Edit::Clock(self.core.reached_from(imported.clock_us)));
        // This comes before any thread writes to the trees. A key in the filter without a huge value costs a lookup.
        let known = imported.blobs.iter().flat_map(|blobs| &blobs.key_hashes);
        known.filter(|_| !broken("import-filter")).for_each(|&hash| self.core.blobs.filter.add(hash));
        let blobs = imported.blobs.into_iter().map(|blobs| blobs.live).collect();
        let origin = Origin::Imported { seq };
        self.installer.apply(versions, &VersionEdit { origin, blobs, ..VersionEdit::of(edits) })?;
        self.core.clock.raise(imported.clock_us);
        Ok(())
    }
}

/// The numbers of trees that are imported.
struct NewTrees {
    first: TreeId,
    /// The least that a later tree may get.
    next: TreeId,
}

/// The edits that drop `replaced` and create the imported trees, still empty.
fn creating(
    versions: &Versions,
    imported: &Imported,
    replaced: &[Arc<TreeInner>],
) -> Result<(Vec<Edit>, NewTrees)> {
    if let Some(gone) = replaced.iter().find(|tree| tree.is_dropped()) {
        return Err(gone.dropped_error());
    }
    let first = versions.next_tree();
    let mut edits: Vec<Edit> = replaced.iter().map(|tree| Edit::DropTree { tree: tree.id }).collect();
    let mut lineage = first;
    let mut next = first;
    for (tree, ImportedTree { record, .. }) in (first..).zip(&imported.trees) {
        if !replaced.iter().any(|old| old.name == record.name) {
            versions.check_free(&record.name)?;
        }
        if let Some(group) = record.options.group.as_deref().filter(|_| replaced.is_empty()) {
            versions.check_group_free(group)?;
        }
        // Without values under another lineage, the trees share theirs with no others.
        if !imported.blobs.is_empty() {
            lineage = record.lineage;
        }
        let (name, options) = (record.name.clone(), record.options.clone());
        edits.push(Edit::CreateTree { tree, name, options });
        edits.push(Edit::KeyBounds { tree, lineage, range: record.range.clone() });
        edits.extend(record.tag.iter().map(|tag| Edit::SetTag { tree, tag: tag.clone() }));
        edits.extend(record.operand_times.then_some(Edit::OperandTimes { tree }));
        next = tree + 1;
    }
    if lineage.saturating_sub(first) > LINEAGES_MAX {
        return Err(Error::new(ErrorKind::Unsupported, "its huge values are filed under too great a number"));
    }
    // No future tree may get this lineage either.
    Ok((edits, NewTrees { first, next: next.max(lineage + 1) }))
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
