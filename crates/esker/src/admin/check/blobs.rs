//! The part of `check` that reads blob files: every blob that a pointer may name, chunk by chunk.

use std::collections::btree_map::Entry::{Occupied, Vacant};
use std::collections::{BTreeMap, BTreeSet};

use super::Check;
use crate::blob::{BlobFile, BlobFileId, BlobName, Pointer, blob_path};
use crate::error::{Error, ErrorKind, Result};
use crate::log::record::HEADER_LEN;
use crate::log::replay::{Segments, Visit, Visited};
use crate::log::salvage::Salvaged;
use crate::open::Listing;
use crate::version::blob_edits::BlobFileRecord;
use crate::version::edit::{ManifestState, TreeId};
use crate::version::tree_record::TreeRecord;
use crate::write::batch::{Ops, numbers_taken};

/// The ordinals that `pointers` name in file `id`.
fn named_in(pointers: &[Pointer], id: BlobFileId) -> BTreeSet<u64> {
    pointers.iter().filter(|pointer| pointer.file == id).map(|pointer| pointer.ordinal).collect()
}

/// The data that recovery reads from the log.
#[derive(Default)]
pub(in crate::admin) struct Recovered {
    /// The pointers to blobs, with the trees and keys that they belong to.
    pub(in crate::admin) pointers: Vec<(TreeId, Vec<u8>, Pointer)>,
    /// How many entries are in no table.
    pub(in crate::admin) unflushed: u64,
}

/// Scanned blob files without a footer; `None` for one that cannot be read.
type Scanned = BTreeMap<BlobFileId, Option<BlobFile>>;

impl Check<'_> {
    /// Reads the records that recovery accepts. Recovery ends the log before a record whose blob a crash has torn (rule
    /// 4): that is a torn tail, not damage. Calls `each` with each record.
    pub(in crate::admin) fn recovered(
        &self,
        segments: &Segments,
        state: &ManifestState,
        each: &mut dyn FnMut(Salvaged),
    ) -> Result<Recovered> {
        let (mut recovered, mut scanned) = (Recovered::default(), Scanned::new());
        let mut end = state.floor.start;
        let mut visit = |record: Visit<'_>| {
            end += (HEADER_LEN + record.payload.len()) as u64;
            let kept = record.acknowledged || end <= state.log_synced;
            let before = recovered.pointers.len();
            recovered.pointers.extend(Ops::of(record.payload).filter_map(|op| {
                Pointer::of_entry(op.kind, op.value).map(|pointer| (op.tree, op.key.to_vec(), pointer))
            }));
            for (_, _, pointer) in &recovered.pointers[before..] {
                if !kept && !self.is_there(state, pointer, &mut scanned)? {
                    recovered.pointers.truncate(before);
                    return Ok(Visited::EndsHere);
                }
            }
            each(Salvaged { first_seq: record.first_seq, payload: record.payload.to_vec() });
            let is_unflushed =
                |seq, tree| state.trees.get(&tree).is_some_and(|tree: &TreeRecord| seq > tree.flushed);
            let numbered = (record.first_seq..).zip(Ops::of(record.payload));
            recovered.unflushed += numbered.filter(|(seq, op)| is_unflushed(*seq, op.tree)).count() as u64;
            let taken = numbers_taken(record.payload, record.first_seq);
            Ok(taken.map_or(Visited::Nonsense, Visited::Taken))
        };
        segments.replay(&*self.env.fs, state.floor, state.log_synced, &mut visit)?;
        Ok(recovered)
    }

    /// Whether recovery finds the blob of a record that a crash may have torn.
    fn is_there(&self, state: &ManifestState, pointer: &Pointer, scanned: &mut Scanned) -> Result<bool> {
        let known = state.blobs.live.get(&pointer.file);
        let settled = known.is_some_and(|file| file.info.sealed || file.freed.contains(&pointer.ordinal));
        if settled || state.blobs.removed.contains_key(&pointer.file) {
            return Ok(true);
        }
        let file = match scanned.entry(pointer.file) {
            Occupied(file) => file.into_mut(),
            Vacant(place) => {
                place.insert(self.scan(known.map_or(pointer.file.into(), |file| (&file.info).into()))?)
            }
        };
        Ok(file.as_ref().is_some_and(|file| file.verify(pointer).is_ok()))
    }

    fn scan(&self, name: BlobName) -> Result<Option<BlobFile>> {
        let path = blob_path(self.dir, name.file);
        if !self.env.fs.exists(&path)? {
            return Ok(None);
        }
        match BlobFile::scan(self.env.fs.open_read(&path)?, name) {
            Err(error) if error.kind() == ErrorKind::Corruption => Ok(None),
            scanned => scanned.map(|(file, _)| Some(file)),
        }
    }

    /// Reads the blobs that count in the manifest, and blobs that only the log (`pointers`) names.
    pub(super) fn blobs(&mut self, listing: &Listing, state: Option<&ManifestState>, pointers: &[Pointer]) {
        let none = BTreeMap::new();
        let known = state.map_or(&none, |state| &state.blobs.live);
        for (&id, record) in known {
            let is_there = listing.blobs.binary_search(&id).is_ok();
            if let Err(error) = self.known_blobs(id, is_there, record, &named_in(pointers, id)) {
                self.found(&error);
            }
        }
        let is_new = |pointer: &&Pointer| {
            !known.contains_key(&pointer.file)
                && !state.is_some_and(|state| state.blobs.removed.contains_key(&pointer.file))
        };
        let mut named: BTreeMap<BlobFileId, Vec<Pointer>> = BTreeMap::new();
        for pointer in pointers.iter().filter(is_new) {
            named.entry(pointer.file).or_default().push(*pointer);
        }
        for (id, pointers) in named {
            if let Err(error) = self.new_blobs(id, &pointers) {
                self.found(&error);
            }
        }
    }

    fn known_blobs(
        &mut self,
        id: BlobFileId,
        is_there: bool,
        record: &BlobFileRecord,
        in_log: &BTreeSet<u64>,
    ) -> Result<()> {
        let path = blob_path(self.dir, id);
        let undecided = record.info.entries == record.info.pending.len() as u64;
        if (undecided || record.freed.len() as u64 >= record.info.entries) && in_log.is_empty() {
            // No value in the file counts. Therefore the file may be gone.
            return Ok(());
        }
        if !is_there {
            return Err(Error::corruption(&path, 0, "a blob file is missing"));
        }
        self.note_file(&path);
        let source = self.env.fs.open_read(&path)?;
        let (file, entries, damage) = BlobFile::open_known(&source, &record.info)?;
        damage.iter().for_each(|damage| self.found(damage));
        let there: Vec<&crate::blob::Entry> =
            entries.iter().filter(|entry| record.is_expected(entry.ordinal, in_log)).collect();
        for entry in &there {
            self.verify(&file, &entry.pointer(id));
        }
        let (found, expected) = (there.len() as u64, record.expected(in_log));
        if found < expected {
            let message = format!("{} of {expected} values of a blob file are missing", expected - found);
            return Err(Error::corruption(&path, 0, message));
        }
        Ok(())
    }

    fn new_blobs(&mut self, id: BlobFileId, pointers: &[Pointer]) -> Result<()> {
        let path = blob_path(self.dir, id);
        if !self.env.fs.exists(&path)? {
            return Err(Error::corruption(&path, 0, "a blob file is missing"));
        }
        let (file, _) = BlobFile::scan(self.env.fs.open_read(&path)?, id)?;
        self.note_file(&path);
        pointers.iter().for_each(|pointer| self.verify(&file, pointer));
        Ok(())
    }

    fn verify(&mut self, file: &BlobFile, pointer: &Pointer) {
        match file.verify(pointer) {
            Ok(()) => self.report.blobs += 1,
            Err(error) => self.found(&error),
        }
    }
}
