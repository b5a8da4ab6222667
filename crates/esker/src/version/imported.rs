//! How to read the file numbers of another store in imported files: pointers to huge values in tables. (For blob files,
//! [`super::blob_edits::BlobFileInfo`] has the number in the file itself.)
//!
//! An import links files as they are. Therefore it cannot change the numbers in them. The manifest records how to read
//! them. If the manifest is lost, a mark still shows which files were imported. The mark is an empty file:
//!
//! ```text
//! 000120-000163.import    the tables and blob files with these numbers are another store's
//! ```

use std::path::{Path, PathBuf};

use super::edit::{FileId, file_id};
use crate::canary::broken;
use crate::codec::{Decoder, FILE_NUMBER_MAX, file_number, put_varint};
use crate::cursor::{Content, Kind};

/// How the blob file numbers in a table's pointers map to numbers of this store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Renumbered {
    /// The smallest number of a blob file in the store that wrote the table.
    pub(crate) first: FileId,
    pub(crate) count: u64,
    pub(crate) to: FileId,
    /// The number that all others map to: their files were gone before the tree was imported. No file here has this
    /// number. Therefore such a pointer cannot lead to a file that was not imported.
    pub(crate) none: FileId,
}

impl Renumbered {
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        [self.first, self.count, self.to, self.none].into_iter().for_each(|number| put_varint(out, number));
    }

    pub(super) fn decode(from: &mut Decoder<'_>) -> Option<Renumbered> {
        let (first, count, to, none) = (file_id(from)?, file_id(from)?, file_id(from)?, file_id(from)?);
        let fits = first.max(to) + count <= FILE_NUMBER_MAX;
        fits.then_some(Renumbered { first, count, to, none })
    }

    /// The number here of the file that had the number `file` there.
    pub(crate) fn number(&self, file: FileId) -> FileId {
        match file.checked_sub(self.first) {
            Some(at) if at < self.count => self.to + at,
            _ => self.none,
        }
    }

    /// Composes two mappings: first `earlier`, which the source store already applies because it imported the table
    /// itself, then this one.
    pub(crate) fn behind(&self, earlier: Renumbered) -> Renumbered {
        let begin = earlier.to.max(self.first);
        let end = (earlier.to + earlier.count).min(self.first + self.count);
        if begin >= end {
            return Renumbered { count: 0, ..*self };
        }
        let first = earlier.first + (begin - earlier.to);
        Renumbered { first, count: end - begin, to: self.number(begin), none: self.none }
    }

    /// The renumbered value of an entry that holds a pointer; `None` for other entries. A pointer that cannot be
    /// decoded gets no number, so following it finds damage.
    pub(crate) fn apply(&self, kind: Kind, stored: &[u8]) -> Option<Vec<u8>> {
        let content = Content::open(kind, stored);
        if content.kind != Kind::Blob {
            return None;
        }
        let mut out = stored[..stored.len() - content.value.len()].to_vec();
        let mut pointer = Decoder::new(content.value);
        if let Some(file) = pointer.varint() {
            put_varint(&mut out, if broken("import-values") { file } else { self.number(file) });
            out.extend_from_slice(pointer.rest());
        }
        Some(out)
    }
}

/// The range of numbers that the files of one import have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ImportedFiles {
    pub(crate) first: FileId,
    pub(crate) last: FileId,
}

impl ImportedFiles {
    pub(crate) fn contains(&self, file: FileId) -> bool {
        (self.first..=self.last).contains(&file)
    }

    /// The path of the import's mark in `dir`.
    pub(crate) fn mark(&self, dir: &Path) -> PathBuf {
        dir.join(format!("{:06}-{:06}.import", self.first, self.last))
    }

    /// The range of a mark with this name.
    pub(crate) fn of_mark(name: &str) -> Option<ImportedFiles> {
        let (first, last) = name.strip_suffix(".import")?.split_once('-')?;
        let (first, last) = (file_number(first)?, file_number(last)?);
        (first <= last).then_some(ImportedFiles { first, last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: FileId, count: u64, to: FileId) -> Renumbered {
        Renumbered { first, count, to, none: to - 1 }
    }

    #[test]
    fn a_number_is_changed_and_the_rest_of_the_pointer_stays() {
        let renumbered = range(200, 100, 1000);
        let pointer = |file| {
            let mut pointer = Vec::new();
            put_varint(&mut pointer, file);
            [&pointer, b"rest".as_slice()].concat()
        };
        // Files that were gone there get the number of no file.
        for (file, here) in [(200, 1000), (299, 1099), (199, 999), (300, 999), (u64::MAX, 999)] {
            assert_eq!(renumbered.apply(Kind::Blob, &pointer(file)), Some(pointer(here)));
            let until = |pointer: &[u8]| [&[7; 8], pointer].concat();
            assert_eq!(
                renumbered.apply(Kind::BlobUntil, &until(&pointer(file))),
                Some(until(&pointer(here)))
            );
            for kind in [Kind::Put, Kind::PutUntil, Kind::Merge, Kind::Delete] {
                assert_eq!(renumbered.apply(kind, &until(&pointer(file))), None);
            }
        }
        assert_eq!(renumbered.apply(Kind::Blob, &[]), Some(Vec::new()));
        assert_eq!(renumbered.apply(Kind::BlobUntil, &[0xff; 8]), Some(vec![0xff; 8]));
    }

    #[test]
    fn one_import_behind_another_is_like_one() {
        for (first, count, to) in
            [(500, 50, 2000), (490, 20, 2000), (540, 50, 2000), (510, 3, 20), (900, 9, 7)]
        {
            let (earlier, later) = (range(100, 50, 500), range(first, count, to));
            let both = later.behind(earlier);
            for file in 0..1000 {
                // A file that the first mapping counts as gone stays gone, even if the second one covers the number of
                // no file.
                let is_there = (100..150).contains(&file);
                let expected = if is_there { later.number(earlier.number(file)) } else { later.none };
                assert_eq!(both.number(file), expected, "{file} by {later:?}");
            }
        }
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
        const MAX: u64 = FILE_NUMBER_MAX;
        for (numbers, sound) in [
            ([5, 6, 7, 8], true),
            ([MAX, 0, MAX, MAX], true),
            ([MAX, 1, 1, 1], false),
            ([1, 1, MAX, 1], false),
            ([1, 1, 1, MAX + 1], false),
        ] {
            let [first, count, to, none] = numbers;
            let mut bytes = Vec::new();
            Renumbered { first, count, to, none }.encode(&mut bytes);
            assert_eq!(Renumbered::decode(&mut Decoder::new(&bytes)).is_some(), sound);
        }
    }
}
