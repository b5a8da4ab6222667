//! Finds the keys of damaged huge values.

use std::collections::{BTreeMap, BTreeSet};

use super::{Repair, log};
use crate::blob::{BlobFile, BlobFileId, Pointer, blob_path};
use crate::error::{Error, ErrorKind, Result};
use crate::table::Salvage;
use crate::version::edit::{TableInfo, TreeId};
use crate::version::tables::table_path;

impl Repair<'_> {
    /// Reports the tree and key of every damaged huge value. `payloads` are the records of a log that was rewritten.
    pub(super) fn name_values(&mut self, payloads: &[Vec<u8>]) -> Result<()> {
        let known = self.state.blobs.live.keys().chain(&self.listing.blobs);
        let is_damaged = |id: &BlobFileId| self.damaged.contains(&blob_path(self.dir, *id));
        let damaged: BTreeSet<BlobFileId> = known.copied().filter(is_damaged).collect();
        if damaged.is_empty() {
            return Ok(());
        }
        let mut values = self.pointers_in_tables(&damaged)?;
        let logged = log::pointers(payloads).map(|(tree, key, pointer)| (tree, key.to_vec(), pointer));
        values.extend(logged.chain(self.logged.iter().cloned()));
        values.retain(|(_, _, pointer)| damaged.contains(&pointer.file) && self.is_needed(pointer));
        values.sort_unstable();
        values.dedup();
        let mut files: BTreeMap<BlobFileId, Result<BlobFile>> = BTreeMap::new();
        for id in damaged {
            match self.open_blobs(id).map(|(file, ..)| file) {
                Err(error) if !matches!(error.kind(), ErrorKind::Corruption | ErrorKind::NotFound) => {
                    return Err(error);
                }
                opened => drop(files.insert(id, opened)),
            }
        }
        for (tree, key, pointer) in values {
            let error = match files.get(&pointer.file) {
                Some(Ok(file)) => match file.verify(&pointer) {
                    Ok(()) => continue,
                    Err(error) if error.kind() != ErrorKind::Corruption => return Err(error),
                    Err(error) => error,
                },
                Some(Err(error)) if error.kind() == ErrorKind::Corruption => error.duplicate(),
                _ => Error::corruption(&blob_path(self.dir, pointer.file), 0, "a blob file is missing"),
            };
            self.lose(&error, Some(tree), Some((key.clone(), key)));
        }
        Ok(())
    }

    /// Whether the value may be needed: it was not freed.
    fn is_needed(&self, pointer: &Pointer) -> bool {
        let blobs = &self.state.blobs;
        let is_freed =
            blobs.live.get(&pointer.file).is_some_and(|file| file.freed.contains(&pointer.ordinal));
        !is_freed && !blobs.removed.contains_key(&pointer.file)
    }

    /// The pointers in tables to values in `files`.
    fn pointers_in_tables(&self, files: &BTreeSet<BlobFileId>) -> Result<Vec<(TreeId, Vec<u8>, Pointer)>> {
        let mut found: Vec<_> =
            self.pointers.iter().filter(|(_, _, pointer)| files.contains(&pointer.file)).cloned().collect();
        // If the manifest is lost, `self.pointers` has them all.
        for (&(tree, _, file), info) in self.state.tables.iter().filter(|_| self.pointers.is_empty()) {
            let opened = self.env.fs.open_read(&table_path(self.dir, file));
            let salvage = opened.and_then(|source| Salvage::open(source, Some(info.salt)));
            // Damage there was reported already.
            let Ok(salvage) = salvage else { continue };
            for (key, pointer) in pointers_of(salvage, info)? {
                if files.contains(&pointer.file) {
                    found.push((tree, key, pointer));
                }
            }
        }
        Ok(found)
    }
}

fn pointers_of(mut salvage: Salvage, info: &TableInfo) -> Result<Vec<(Vec<u8>, Pointer)>> {
    let (first, last) = (info.in_file(&info.smallest), info.in_file(&info.largest));
    let mut found = Vec::new();
    while salvage.advance()? && salvage.key() <= last.as_slice() {
        if salvage.key() < first.as_slice() {
            continue;
        }
        let kind = salvage.kind();
        let pointer = Pointer::of_entry(kind, &info.reread(kind, salvage.value()));
        if let (Some(pointer), Some(key)) = (pointer, info.strip(salvage.key())) {
            found.push((key.to_vec(), pointer));
        }
    }
    Ok(found)
}
