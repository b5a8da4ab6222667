//! Finds the blob files at opening, and which of their blobs the log and the manifest name.
//!
//! A missing or damaged blob file does not keep the store from opening. Its values are lost; reading one of them
//! reports that. All others are served.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::Listing;
use crate::blob::gc::{Stage, Values};
use crate::blob::{BlobFile, BlobFileId, BlobSet, Entry, LazyFile, LiveFile, Pointer, blob_path};
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::ReadFile;
use crate::version::blob_edits::{BlobFileInfo, ORDINALS_MAX};
use crate::version::edit::{ManifestState, TreeId};

#[derive(Debug, Default)]
pub(super) struct Unneeded {
    pub(super) blobs: Vec<(BlobFileId, u64)>,
    /// Files that were removed, or created and never written to.
    pub(super) files: Vec<BlobFileId>,
    /// Damaged files that are named neither by the manifest nor by the replayed part of the log. A file whose removal
    /// was not durable comes back like this after a power loss.
    pub(super) damaged: RefCell<BTreeSet<BlobFileId>>,
}

pub(super) fn find(
    set: &BlobSet,
    env: &Env,
    dir: &Path,
    listing: &Listing,
    state: &ManifestState,
    read_only: bool,
) -> Result<Unneeded> {
    let mut unneeded = Unneeded::default();
    if !state.blobs.live.is_empty() || !listing.blobs.is_empty() {
        set.note_used();
    }
    let lineages: BTreeSet<TreeId> = state.trees.values().map(|tree| tree.lineage).collect();
    for (&id, record) in &state.blobs.live {
        let opened = if listing.blobs.binary_search(&id).is_ok() {
            damage_apart(open(set, id, Some(&record.info)))?
        } else {
            Err(Error::corruption(&blob_path(dir, id), 0, "a blob file is missing"))
        };
        unneeded.blobs.extend(record.overwritten.iter().map(|&ordinal| (id, ordinal)));
        let (file, entries, lazy) = match opened {
            Ok((file, entries, lazy)) => (Ok(file), entries, Some(lazy)),
            Err(damage) => (Err(damage), Vec::new(), None),
        };
        for entry in entries.iter().filter(|entry| !record.freed.contains(&entry.ordinal)) {
            set.filter.add(entry.key_hash);
            if !lineages.contains(&entry.tree) {
                unneeded.blobs.push((id, entry.ordinal));
            }
        }
        let info = &record.info;
        let pending = info.pending.iter().copied();
        let mut values = Values::found(info.sealed, info.entries, &record.freed, pending);
        for (&ordinal, record) in &record.references {
            // The file names only the first key.
            record.live.values().for_each(|&hash| set.filter.add(hash));
            values.set_references(ordinal, record);
        }
        values.add_found(entries.iter().map(|entry| entry.ordinal));
        let written = if info.sealed || read_only || file.is_err() {
            None
        } else {
            Some(env.fs.open_random(&blob_path(dir, id))?)
        };
        set.insert(LiveFile::found(info.into(), info.salt, info.single, file, values, written, lazy));
    }
    let unknown = listing.blobs.iter().filter(|id| !state.blobs.live.contains_key(id));
    for &id in unknown {
        if is_unneeded(env, dir, listing, state, id)? {
            unneeded.files.push(id);
            continue;
        }
        // If the log names it, a damaged file stays where it is, so that a person can examine it.
        let Ok((file, scan, lazy)) = damage_apart(open(set, id, None))? else {
            unneeded.damaged.get_mut().insert(id);
            continue;
        };
        if scan.is_empty() {
            // A stream, or the first value of a file, was cut off.
            unneeded.files.push(id);
            continue;
        }
        let mut values = Values::default();
        values.add_found(scan.iter().map(|entry| entry.ordinal));
        scan.iter().for_each(|entry| set.filter.add(entry.key_hash));
        unneeded.blobs.extend(lacking(&values, &scan).into_iter().map(|ordinal| (id, ordinal)));
        let (salt, single) = (file.header().salt, file.is_single());
        let written = if read_only { None } else { Some(env.fs.open_random(&blob_path(dir, id))?) };
        set.insert(LiveFile::found(id.into(), salt, single, Ok(file), values, written, Some(lazy)));
    }
    Ok(unneeded)
}

/// Whether a file that the manifest does not name is known to hold nothing that counts.
fn is_unneeded(
    env: &Env,
    dir: &Path,
    listing: &Listing,
    state: &ManifestState,
    id: BlobFileId,
) -> Result<bool> {
    // Nothing is appended to an imported file, and the edit that would have named this one was never made.
    let is_over = state.blobs.removed.contains_key(&id) || listing.is_imported(id);
    Ok(is_over || is_blank(env, &blob_path(dir, id))?)
}

/// Whether the first page of a blob file was never written.
fn is_blank(env: &Env, path: &Path) -> Result<bool> {
    let file = env.fs.open_read(path)?;
    let mut mark = [0; 8];
    if file.len() < 4096 {
        return Ok(true);
    }
    file.read_exact_at(&mut mark, 0)?;
    Ok(mark == [0; 8])
}

/// The ordinals that the file lacks. It was rewritten without freed values and then removed, and a power loss has
/// brought its name back: the missing values were freed.
fn lacking(values: &Values, entries: &[Entry]) -> Vec<u64> {
    let found: BTreeSet<u64> = entries.iter().map(|entry| entry.ordinal).collect();
    (0..values.entries().min(ORDINALS_MAX)).filter(|ordinal| !found.contains(ordinal)).collect()
}

/// Separates damage, which is a value here, from other errors, which end the opening.
fn damage_apart<T>(result: Result<T>) -> Result<std::result::Result<T, Error>> {
    match result {
        Err(error) if error.kind() != ErrorKind::Corruption => Err(error),
        other => Ok(other),
    }
}

/// An open blob file, its entries, and the handle that may be closed.
type Opened = (Arc<BlobFile>, Vec<Entry>, Arc<LazyFile>);

/// Opens the file `id`; by its descriptors, if the manifest does not describe it by `info`.
fn open(set: &BlobSet, id: BlobFileId, info: Option<&BlobFileInfo>) -> Result<Opened> {
    let lazy = set.handles.file(&set.path_of(id))?;
    let source = Arc::clone(&lazy) as Arc<dyn ReadFile>;
    // A damaged footer loses only what the descriptors do not have either.
    let (file, entries) = match info {
        Some(info) => BlobFile::open_known(&source, info).map(|(file, entries, _)| (file, entries))?,
        None => BlobFile::scan(source, id).map(|(file, scan)| (file, scan.entries))?,
    };
    Ok((Arc::new(file), entries, lazy))
}

/// Whether the blob that a log record points to is there, or is known to be unneeded. `kept`: a crash cannot have torn
/// the blob, because the record is synced (rule 4), or because it was acknowledged in the current mount of the file
/// system (rule 29), so the page cache has it. A blob that is missing even so is damage: one value is lost, and the
/// replay continues.
pub(super) fn is_there(set: &BlobSet, state: &ManifestState, pointer: &Pointer, kept: bool) -> bool {
    if kept || state.blobs.removed.contains_key(&pointer.file) {
        return true;
    }
    let Some(live) = set.get(pointer.file) else { return false };
    let values = live.values.lock();
    let is_settled = values.is_sealed() || values.stage(pointer.ordinal) > Stage::Referenced;
    drop(values);
    if is_settled {
        return true;
    }
    live.readable().and_then(|file| file.verify(pointer)).is_ok()
}

/// Notes that the log names the blob, in an entry whose key has the hash `key_hash`. This makes the blob count.
pub(super) fn claim(set: &BlobSet, unneeded: &Unneeded, pointer: &Pointer, key_hash: u64) {
    unneeded.damaged.borrow_mut().remove(&pointer.file);
    if let Some(live) = set.get(pointer.file) {
        let is_copy = live.values.lock().claim(pointer, key_hash);
        if is_copy {
            set.filter.add(key_hash);
        }
    }
}

/// Blobs that no record names after the replay of the whole log: written ones and copied ones.
pub(super) fn never_named(set: &BlobSet) -> Vec<(BlobFileId, u64)> {
    let mut blobs = Vec::new();
    for live in set.files() {
        let mut values = live.values.lock();
        let gone = values.decide_references();
        blobs.extend(values.pending().chain(gone).map(|ordinal| (live.id, ordinal)));
    }
    blobs
}
