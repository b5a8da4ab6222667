//! What came from another store and keeps the numbers of that: pointers to huge values in tables. (Of files of huge values
//! [`super::blobs::BlobFileInfo`] has what stands in them.)
//!
//! An import links files as they are, so what stands in them cannot be changed: the manifest says how it
//! is to be read. Without the manifest a mark, an empty file, still tells which files were imported:
//!
//! ```text
//! 000120-000163.import    the tables and blob files with these numbers are another store's
//! ```

use std::path::{Path, PathBuf};

use super::edit::{FileId, file_id};
use crate::canary::broken;
use crate::codec::{Decoder, FILE_NUMBER_MAX, file_number, put_varint};
use crate::cursor::{Content, Kind};

/// How the numbers of blob files in a table's pointers become those of this store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Renumbered {
    /// What is added to each.
    pub(crate) by: FileId,
    /// The store that wrote the table knew no greater number: one from here on names nothing, lest it be that of a file which
    /// was not imported.
    pub(crate) below: FileId,
}

impl Renumbered {
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        put_varint(out, self.by);
        put_varint(out, self.below);
    }

    pub(super) fn decode(from: &mut Decoder<'_>) -> Option<Renumbered> {
        let (by, below) = (file_id(from)?, file_id(from)?);
        (by + below <= FILE_NUMBER_MAX).then_some(Renumbered { by, below })
    }

    /// What an entry of the table holds, where that is a pointer; one that makes no sense is left without its number, so that
    /// whoever follows it finds damage.
    pub(crate) fn apply(&self, kind: Kind, stored: &[u8]) -> Option<Vec<u8>> {
        let content = Content::open(kind, stored);
        if content.kind != Kind::Blob {
            return None;
        }
        let mut out = stored[..stored.len() - content.value.len()].to_vec();
        let mut pointer = Decoder::new(content.value);
        if let Some(file) = pointer.varint().filter(|&file| file < self.below) {
            put_varint(&mut out, if broken("import-values") { file } else { file + self.by });
            out.extend_from_slice(pointer.rest());
        }
        Some(out)
    }
}

/// The numbers that the files of one import have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ImportedFiles {
    pub(crate) first: FileId,
    pub(crate) last: FileId,
}

impl ImportedFiles {
    pub(crate) fn contains(&self, file: FileId) -> bool {
        (self.first..=self.last).contains(&file)
    }

    /// The path of the mark that says so, in `dir`.
    pub(crate) fn mark(&self, dir: &Path) -> PathBuf {
        dir.join(format!("{:06}-{:06}.import", self.first, self.last))
    }

    /// What a mark says that has this name.
    pub(crate) fn of_mark(name: &str) -> Option<ImportedFiles> {
        let (first, last) = name.strip_suffix(".import")?.split_once('-')?;
        let (first, last) = (file_number(first)?, file_number(last)?);
        (first <= last).then_some(ImportedFiles { first, last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_changed_and_the_rest_of_the_pointer_stays() {
        let renumbered = Renumbered { by: 1000, below: 300 };
        let mut expected = Vec::new();
        put_varint(&mut expected, 1299);
        expected.extend_from_slice(b"rest");
        let mut pointer = Vec::new();
        put_varint(&mut pointer, 299);
        pointer.extend_from_slice(b"rest");
        assert_eq!(renumbered.apply(Kind::Blob, &pointer), Some(expected.clone()));
        let until = |pointer: &[u8]| [&[7; 8], pointer].concat();
        assert_eq!(renumbered.apply(Kind::BlobUntil, &until(&pointer)), Some(until(&expected)));
        for kind in [Kind::Put, Kind::PutUntil, Kind::Merge, Kind::Delete] {
            assert_eq!(renumbered.apply(kind, &until(&pointer)), None);
        }
    }

    #[test]
    fn what_the_origin_cannot_have_written_points_nowhere() {
        let renumbered = Renumbered { by: 1000, below: 299 };
        let mut pointer = Vec::new();
        put_varint(&mut pointer, 299);
        assert_eq!(renumbered.apply(Kind::Blob, &pointer), Some(Vec::new()));
        assert_eq!(renumbered.apply(Kind::Blob, &[]), Some(Vec::new()));
        assert_eq!(renumbered.apply(Kind::BlobUntil, &[0xff; 8]), Some(vec![0xff; 8]));
    }

    #[test]
    fn marks_are_read_back_from_their_names() {
        for (first, last) in [(1, 1), (7, 1_234_567)] {
            let files = ImportedFiles { first, last };
            let name = files.mark(Path::new(""));
            assert_eq!(name.to_str().and_then(ImportedFiles::of_mark), Some(files));
        }
        for name in ["000002-000001.import", "000001.import", "1-2.import", "000001-000002.imports"] {
            assert_eq!(ImportedFiles::of_mark(name), None);
        }
    }

    #[test]
    fn forged_numbers_are_refused() {
        for (by, below, sound) in [(5, 6, true), (FILE_NUMBER_MAX, 0, true), (FILE_NUMBER_MAX, 1, false)] {
            let mut bytes = Vec::new();
            Renumbered { by, below }.encode(&mut bytes);
            assert_eq!(Renumbered::decode(&mut Decoder::new(&bytes)).is_some(), sound);
        }
    }
}
