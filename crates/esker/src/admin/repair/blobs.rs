//! Without a sound manifest: finds out which huge values count, from the pointers that are left.

use std::collections::{BTreeMap, BTreeSet};

use super::{Repair, log};
use crate::blob::{BlobFile, BlobFileId, BlobName, Entry, Pointer, blob_path, key_hash};
use crate::error::{Error, Result};
use crate::version::blob_edits::{BlobEdit, BlobFileInfo, ORDINALS_MAX, ReferenceRecord};
use crate::version::edit::{Edit, TreeId};

/// For each value of a file, the entries that name it: their references, and the hashes of their keys.
type Named = BTreeMap<u64, BTreeMap<u64, u64>>;

impl Repair<'_> {
    /// Notes for every blob file which of its values the tables and the log (`payloads`) name.
    pub(super) fn note_blobs(&mut self, payloads: &[Vec<u8>]) -> Result<()> {
        self.note_lineages(payloads)?;
        let mut named: BTreeMap<BlobFileId, Named> = BTreeMap::new();
        let mut name = |pointer: &Pointer, hash: u64| {
            let references = named.entry(pointer.file).or_default().entry(pointer.ordinal).or_default();
            references.insert(pointer.reference, if pointer.reference == 0 { 0 } else { hash });
        };
        let lineage = |tree: TreeId| self.state.trees.get(&tree).map_or(tree, |record| record.lineage);
        for (tree, key, pointer) in &self.pointers {
            name(pointer, key_hash(lineage(*tree), key));
        }
        for (tree, key, pointer) in log::pointers(payloads) {
            name(&pointer, key_hash(lineage(tree), key));
        }
        // File numbers in pointers are not given out again.
        let next = named.keys().next_back().map_or(0, |last| last + 1);
        self.state.next_file = self.state.next_file.max(next);
        for id in self.listing.blobs.clone() {
            let opened = self.open_blobs(id);
            let Some((file, entries, damage)) = self.lose_damage(opened)? else { continue };
            let named = named.remove(&id).unwrap_or_default();
            let ordinals = entries.iter().map(|entry| entry.ordinal).chain(named.keys().copied());
            let count = ordinals.max().map_or(0, |last| last.saturating_add(1));
            let info = BlobFileInfo {
                file: id,
                origin: file.header().number,
                salt: file.header().salt,
                single: file.is_single(),
                sealed: damage.is_none(),
                entries: count,
                pending: BTreeSet::new(),
            };
            self.note_blob_file(info, &named)?;
        }
        Ok(())
    }

    /// Finds the lineage under which a tree's huge values are filed. It is not the tree's own number if the tree was
    /// split off another or imported. Then only the blob files show it. Without this an opening would free values under
    /// a number that no tree has.
    fn note_lineages(&mut self, payloads: &[Vec<u8>]) -> Result<()> {
        let mut owners: BTreeMap<BlobFileId, BTreeMap<u64, BTreeSet<TreeId>>> = BTreeMap::new();
        let in_tables = self.pointers.iter().map(|(tree, _, pointer)| (*tree, *pointer));
        let in_log = log::pointers(payloads).map(|(tree, _, pointer)| (tree, pointer));
        for (tree, pointer) in in_tables.chain(in_log) {
            owners.entry(pointer.file).or_default().entry(pointer.ordinal).or_default().insert(tree);
        }
        // How many values of each tree are filed under which lineage. The majority decides: a stray value is damage.
        let mut filed: BTreeMap<TreeId, BTreeMap<TreeId, u64>> = BTreeMap::new();
        for &id in &self.listing.blobs {
            let Some(owners) = owners.get(&id) else { continue };
            // A file that cannot be read is reported later.
            let Ok((_, entries, _)) = self.open_blobs(id) else { continue };
            for entry in entries.iter().filter(|entry| (1..TreeId::MAX - 1).contains(&entry.tree)) {
                for &tree in owners.get(&entry.ordinal).into_iter().flatten() {
                    *filed.entry(tree).or_default().entry(entry.tree).or_default() += 1;
                }
            }
        }
        for (tree, lineages) in filed {
            let most = lineages.into_iter().max_by_key(|&(_, count)| count);
            let (Some((lineage, _)), Some(record)) = (most, self.state.trees.get(&tree)) else { continue };
            if lineage != record.lineage {
                let range = record.range.clone();
                self.apply(&Edit::KeyBounds { tree, lineage, range })?;
                // No future tree must be taken for one of this lineage.
                self.state.next_tree = self.state.next_tree.max(lineage + 1);
            }
        }
        Ok(())
    }

    /// Opens a blob file. If it was imported, any number in it is accepted: nothing else knows that number.
    pub(super) fn open_blobs(&self, id: BlobFileId) -> Result<(BlobFile, Vec<Entry>, Option<Error>)> {
        let source = self.env.fs.open_read(&blob_path(self.dir, id))?;
        let origin = if self.listing.is_imported(id) { BlobFile::origin_of(&*source)? } else { id };
        BlobFile::open_damaged(&source, BlobName { file: id, origin })
    }

    fn note_blob_file(&mut self, info: BlobFileInfo, named: &Named) -> Result<()> {
        let file = info.file;
        let unnamed = unnamed(info.entries, named);
        let mut edits = vec![BlobEdit::Note(info), BlobEdit::Free { file, ordinals: unnamed }];
        let is_copied = |references: &BTreeMap<u64, u64>| references.keys().any(|&reference| reference != 0);
        for (&ordinal, references) in named.iter().filter(|(_, references)| is_copied(references)) {
            let next = references.keys().next_back().map_or(1, |last| last + 1);
            let record = ReferenceRecord { next, live: references.clone(), pending: BTreeSet::new() };
            edits.push(BlobEdit::References { file, ordinal, record });
        }
        edits.into_iter().try_for_each(|edit| self.apply(&Edit::Blob(edit)))
    }
}

/// The values of a file with `entries` values that nothing names. A damaged pointer may claim any number of values.
fn unnamed(entries: u64, named: &Named) -> BTreeSet<u64> {
    (0..entries.min(ORDINALS_MAX)).filter(|ordinal| !named.contains_key(ordinal)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_more_values_than_any_has_is_not_believed() {
        let named: Named = [(3, BTreeMap::new()), (1 << 60, BTreeMap::new())].into();
        assert_eq!(unnamed((1 << 60) + 1, &named).len() as u64, ORDINALS_MAX - 1);
        assert_eq!(unnamed(5, &named), [0, 1, 2, 4].into());
    }
}
