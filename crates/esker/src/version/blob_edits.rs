//! The manifest's records of blob files.
//!
//! The first edit after one of a file's values is no longer pending names the file. A later edit notes the file again
//! if its facts have changed. An edit removes it when no value in it is needed or pinned. For a file that is not sealed
//! yet, replay finds the values that the manifest does not name.

use std::collections::{BTreeMap, BTreeSet};

use super::edit::{FileId, file_id, put};
use crate::codec::{Decoder, put_varint};

/// One blob file as a flush saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlobFileInfo {
    pub(crate) file: FileId,
    /// The number in the file itself. It differs from `file` if the file was imported.
    pub(crate) origin: FileId,
    /// The file's random number, which its first page holds too.
    pub(crate) salt: u64,
    pub(crate) single: bool,
    /// Nothing is appended any more. The file ends with a footer, and all of it is synced.
    pub(crate) sealed: bool,
    /// How many blobs the file held. Later ones count only if the log names them.
    pub(crate) entries: u64,
    /// The blobs among them whose batch the log may still lose. They count only if the log names them.
    pub(crate) pending: BTreeSet<u64>,
}

/// The most references that a value can have in its life. Greater numbers are damaged or forged.
pub(crate) const REFERENCES_MAX: u64 = 1 << 48;

/// The entries that name one value after it was copied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReferenceRecord {
    pub(crate) next: u64,
    /// The references that count, each with the hash of its key. The first one has 0: the file holds its key.
    pub(crate) live: BTreeMap<u64, u64>,
    /// The references that the log may still lose. They count only if the log names them.
    pub(crate) pending: BTreeSet<u64>,
}

/// The sum of all edits about one blob file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlobFileRecord {
    pub(crate) info: BlobFileInfo,
    /// Blobs that nothing needs. Their bytes may be gone.
    pub(crate) freed: BTreeSet<u64>,
    /// Values that only snapshots need. No snapshot survives the process.
    pub(crate) overwritten: BTreeSet<u64>,
    pub(crate) references: BTreeMap<u64, ReferenceRecord>,
}

impl BlobFileRecord {
    /// Whether a blob counts although no log record names it.
    pub(crate) fn counts(&self, ordinal: u64) -> bool {
        let not_counting = [&self.freed, &self.overwritten, &self.info.pending];
        let references = self.references.get(&ordinal);
        let is_referenced = references.is_none_or(|references| !references.live.is_empty());
        is_referenced && !not_counting.iter().any(|set| set.contains(&ordinal))
    }

    /// Whether the file must hold the blob `ordinal`: it is committed and not freed. The log commits those `in_log`.
    pub(crate) fn is_expected(&self, ordinal: u64, in_log: &BTreeSet<u64>) -> bool {
        let settled = ordinal < self.info.entries && !self.info.pending.contains(&ordinal);
        (settled || in_log.contains(&ordinal)) && !self.freed.contains(&ordinal)
    }

    /// How many blobs [are expected](Self::is_expected). A damaged manifest may claim 2^64 entries. Therefore this does
    /// not count them one by one.
    pub(crate) fn expected(&self, in_log: &BTreeSet<u64>) -> u64 {
        let entries = self.info.entries;
        let unsettled =
            self.info.pending.union(&self.freed).filter(|&&ordinal| ordinal < entries).count() as u64;
        let is_settled = |ordinal: u64| ordinal < entries && !self.info.pending.contains(&ordinal);
        let logged =
            in_log.iter().filter(|&&ordinal| !is_settled(ordinal) && self.is_expected(ordinal, in_log));
        (entries - unsettled).saturating_add(logged.count() as u64)
    }

    /// Frees all blobs except `ordinals`, which count although no log names them.
    pub(crate) fn keep_only(&mut self, ordinals: &BTreeSet<u64>) {
        self.info.pending.clear();
        self.overwritten.clear();
        self.freed
            .extend((0..self.info.entries.min(ORDINALS_MAX)).filter(|ordinal| !ordinals.contains(ordinal)));
        self.references.retain(|ordinal, references| {
            references.pending.clear();
            ordinals.contains(ordinal)
        });
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BlobFiles {
    pub(crate) live: BTreeMap<FileId, BlobFileRecord>,
    /// Removed files, each with the log position before which records may still name it.
    pub(crate) removed: BTreeMap<FileId, u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BlobEdit {
    /// A new file, or new facts about a known one.
    Note(BlobFileInfo),
    /// Nothing needs these values. Their blocks may be given back once this edit is durable.
    Free { file: FileId, ordinals: BTreeSet<u64> },
    /// Only open snapshots need these values.
    Overwrite { file: FileId, ordinals: BTreeSet<u64> },
    /// The entries that name a copied value. Each edit replaces the whole record.
    References { file: FileId, ordinal: u64, record: ReferenceRecord },
    /// Nothing needs the file. No log record at or after `position` names it.
    Remove { file: FileId, position: u64 },
}

/// The most values that one blob file can have. A greater number is damaged or forged.
pub(crate) const ORDINALS_MAX: u64 = 1 << 24;

const NOTE: u8 = 0;
const FREE: u8 = 1;
const OVERWRITE: u8 = 2;
const REMOVE: u8 = 3;
const REFERENCES: u8 = 4;

const SINGLE: u8 = 1;
const SEALED: u8 = 2;
const IMPORTED: u8 = 4;

/// Ascending numbers, each as its difference from the one before.
fn put_set(out: &mut Vec<u8>, set: &BTreeSet<u64>) {
    put_varint(out, set.len() as u64);
    let mut last = 0;
    for &number in set {
        put_varint(out, number - last);
        last = number;
    }
}

fn get_set(from: &mut Decoder<'_>) -> Option<BTreeSet<u64>> {
    let count = from.varint()?;
    let (mut set, mut last) = (BTreeSet::new(), 0_u64);
    for _ in 0..count {
        last = last.checked_add(from.varint()?)?;
        set.insert(last);
    }
    (set.len() as u64 == count).then_some(set)
}

impl BlobEdit {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            BlobEdit::Note(info) => {
                put(out, NOTE, &[info.file]);
                out.extend_from_slice(&info.salt.to_le_bytes());
                let is_imported = info.origin != info.file;
                let flags = [(info.single, SINGLE), (info.sealed, SEALED), (is_imported, IMPORTED)];
                out.push(flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum());
                if is_imported {
                    put_varint(out, info.origin);
                }
                put_varint(out, info.entries);
                put_set(out, &info.pending);
            }
            BlobEdit::Free { file, ordinals } => {
                put(out, FREE, &[*file]);
                put_set(out, ordinals);
            }
            BlobEdit::Overwrite { file, ordinals } => {
                put(out, OVERWRITE, &[*file]);
                put_set(out, ordinals);
            }
            BlobEdit::References { file, ordinal, record } => {
                put(out, REFERENCES, &[*file, *ordinal, record.next]);
                put_set(out, &record.live.keys().copied().collect());
                record.live.values().for_each(|hash| out.extend_from_slice(&hash.to_le_bytes()));
                put_set(out, &record.pending);
            }
            BlobEdit::Remove { file, position } => put(out, REMOVE, &[*file, *position]),
        }
    }

    pub(crate) fn decode(from: &mut Decoder<'_>) -> Option<BlobEdit> {
        let (kind, file) = (from.u8()?, file_id(from)?);
        Some(match kind {
            NOTE => {
                let salt = from.u64()?;
                let flags = from.u8().filter(|flags| flags & !(SINGLE | SEALED | IMPORTED) == 0)?;
                let origin = if flags & IMPORTED != 0 { file_id(from)? } else { file };
                let (entries, pending) = (from.varint()?, get_set(from)?);
                let (single, sealed) = (flags & SINGLE != 0, flags & SEALED != 0);
                BlobEdit::Note(BlobFileInfo { file, origin, salt, single, sealed, entries, pending })
            }
            FREE => BlobEdit::Free { file, ordinals: get_set(from)? },
            OVERWRITE => BlobEdit::Overwrite { file, ordinals: get_set(from)? },
            REFERENCES => {
                let (ordinal, next) = (from.varint()?, from.varint()?);
                let mut live = BTreeMap::new();
                for reference in get_set(from)? {
                    live.insert(reference, from.u64()?);
                }
                let record = ReferenceRecord { next, live, pending: get_set(from)? };
                let last = record.live.keys().next_back().max(record.pending.last());
                let bounded = next <= REFERENCES_MAX && last.is_none_or(|&reference| reference < next);
                bounded.then_some(BlobEdit::References { file, ordinal, record })?
            }
            REMOVE => BlobEdit::Remove { file, position: from.varint()? },
            _ => return None,
        })
    }
}

impl BlobFiles {
    /// Applies `edit`. If it contradicts the state, returns the contradiction.
    pub(crate) fn apply(&mut self, edit: &BlobEdit) -> Result<(), String> {
        match edit {
            BlobEdit::Note(info) => {
                let record = self.live.entry(info.file).or_insert_with(|| BlobFileRecord {
                    info: info.clone(),
                    freed: BTreeSet::new(),
                    overwritten: BTreeSet::new(),
                    references: BTreeMap::new(),
                });
                let known = &record.info;
                if (known.salt, known.single, known.origin) != (info.salt, info.single, info.origin) {
                    return Err(format!("blob file {} is named twice", info.file));
                }
                record.info = info.clone();
            }
            BlobEdit::Free { file, ordinals } => {
                let record = self.known(*file)?;
                record.freed.extend(ordinals);
                record.overwritten.retain(|ordinal| !ordinals.contains(ordinal));
                record.references.retain(|ordinal, _| !ordinals.contains(ordinal));
            }
            BlobEdit::Overwrite { file, ordinals } => self.known(*file)?.overwritten.extend(ordinals),
            BlobEdit::References { file, ordinal, record } => {
                self.known(*file)?.references.insert(*ordinal, record.clone());
            }
            BlobEdit::Remove { file, position } => {
                self.live.remove(file);
                self.removed.insert(*file, *position);
            }
        }
        Ok(())
    }

    /// Notes that a reference (`None`: every reference) of a copied value no longer counts.
    pub(crate) fn remove_reference(&mut self, file: FileId, ordinal: u64, reference: Option<u64>) {
        if let Some(record) = self.live.get_mut(&file).and_then(|record| record.references.get_mut(&ordinal))
        {
            match reference {
                Some(reference) => drop(record.live.remove(&reference)),
                None => record.live.clear(),
            }
        }
    }

    fn known(&mut self, file: FileId) -> Result<&mut BlobFileRecord, String> {
        self.live.get_mut(&file).ok_or_else(|| format!("blob file {file} is changed but unknown"))
    }

    /// Forgets removed files that only the log before `start` names: recovery begins at `start` from now on.
    pub(crate) fn forget_before(&mut self, start: u64) {
        self.removed.retain(|_, position| *position > start);
    }

    /// Edits that add up to this state.
    pub(crate) fn to_edits(&self) -> impl Iterator<Item = BlobEdit> + '_ {
        let live = self.live.iter().flat_map(|(&file, record)| {
            let some = |ordinals: &BTreeSet<u64>| (!ordinals.is_empty()).then(|| ordinals.clone());
            let free = some(&record.freed).map(|ordinals| BlobEdit::Free { file, ordinals });
            let overwrite = some(&record.overwritten).map(|ordinals| BlobEdit::Overwrite { file, ordinals });
            let references = record.references.iter().map(move |(&ordinal, record)| BlobEdit::References {
                file,
                ordinal,
                record: record.clone(),
            });
            [Some(BlobEdit::Note(record.info.clone())), free, overwrite]
                .into_iter()
                .flatten()
                .chain(references)
        });
        let removed = self.removed.iter();
        live.chain(removed.map(|(&file, &position)| BlobEdit::Remove { file, position }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(numbers: &[u64]) -> BTreeSet<u64> {
        numbers.iter().copied().collect()
    }

    fn info(file: FileId, sealed: bool, entries: u64, pending: &[u64]) -> BlobFileInfo {
        let origin = if file == 8 { 300 } else { file };
        BlobFileInfo { file, origin, salt: !file, single: false, sealed, entries, pending: set(pending) }
    }

    fn references(live: &[(u64, u64)], pending: &[u64]) -> ReferenceRecord {
        ReferenceRecord { next: 401, live: live.iter().copied().collect(), pending: set(pending) }
    }

    fn sample() -> Vec<BlobEdit> {
        vec![
            BlobEdit::Note(info(7, false, 3, &[0, 2])),
            BlobEdit::Note(info(8, true, 1, &[])),
            BlobEdit::Overwrite { file: 7, ordinals: set(&[1, 300]) },
            BlobEdit::Note(info(7, true, 400, &[399])),
            BlobEdit::Free { file: 7, ordinals: set(&[0, 1, 255]) },
            BlobEdit::References {
                file: 7,
                ordinal: 2,
                record: references(&[(0, 0), (300, u64::MAX)], &[2, 400]),
            },
            BlobEdit::References { file: 7, ordinal: 255, record: references(&[(0, 0)], &[]) },
            BlobEdit::Free { file: 7, ordinals: set(&[0, 1, 255]) },
            BlobEdit::Remove { file: 8, position: 1 << 40 },
        ]
    }

    #[test]
    fn edits_round_trip_and_refuse_every_cut() {
        for edit in sample() {
            let mut bytes = Vec::new();
            edit.encode(&mut bytes);
            assert_eq!(BlobEdit::decode(&mut Decoder::new(&bytes)), Some(edit));
            for len in 0..bytes.len() {
                assert_eq!(BlobEdit::decode(&mut Decoder::new(&bytes[..len])), None);
            }
        }
    }

    #[test]
    fn references_without_bounds_are_refused() {
        let decodes = |record: ReferenceRecord| {
            let mut bytes = Vec::new();
            BlobEdit::References { file: 7, ordinal: 2, record }.encode(&mut bytes);
            BlobEdit::decode(&mut Decoder::new(&bytes)).is_some()
        };
        assert!(decodes(ReferenceRecord {
            next: REFERENCES_MAX,
            ..references(&[(0, 0)], &[REFERENCES_MAX - 1])
        }));
        assert!(!decodes(ReferenceRecord { next: REFERENCES_MAX + 1, ..references(&[(0, 0)], &[]) }));
        assert!(!decodes(ReferenceRecord { next: 1, ..references(&[(0, 0), (1, 9)], &[]) }));
        assert!(!decodes(ReferenceRecord { next: 1, ..references(&[(0, 0)], &[u64::MAX]) }));
    }

    #[test]
    fn a_state_is_rebuilt_from_its_own_edits() {
        let mut files = BlobFiles::default();
        sample().iter().for_each(|edit| files.apply(edit).unwrap());
        let record = &files.live[&7];
        assert_eq!((record.info.entries, &record.freed), (400, &set(&[0, 1, 255])));
        assert_eq!(record.overwritten, set(&[300]), "what is freed is no longer overwritten");
        assert_eq!(record.references.keys().collect::<Vec<_>>(), [&2], "what is freed has no references");
        let mut rebuilt = BlobFiles::default();
        files.to_edits().for_each(|edit| rebuilt.apply(&edit).unwrap());
        assert_eq!(files, rebuilt);
        files.forget_before(1 << 40);
        assert!(files.removed.is_empty());
        assert!(files.apply(&BlobEdit::Free { file: 9, ordinals: set(&[0]) }).is_err());
        assert!(files.apply(&BlobEdit::Note(BlobFileInfo { salt: 0, ..info(7, true, 1, &[]) })).is_err());
    }

    /// Found by the fuzzer: the count was made one by one, up to the number that a manifest claims.
    #[test]
    fn as_many_values_are_expected_as_there_are_expected_ones() {
        let mut rng = crate::rng::Rng::new(7);
        for _ in 0..2_000 {
            let mut some = |below: u64| -> BTreeSet<u64> {
                (0..below).filter(|_| rng.next().is_multiple_of(3)).collect()
            };
            let (pending, freed, in_log) = (some(12), some(12), some(14));
            let entries = rng.next() % 10;
            let info = BlobFileInfo { pending, ..info(1, true, entries, &[]) };
            let mut record =
                BlobFileRecord { info, freed, overwritten: BTreeSet::new(), references: BTreeMap::new() };
            let counted = (0..20).filter(|&ordinal| record.is_expected(ordinal, &in_log)).count() as u64;
            assert_eq!(record.expected(&in_log), counted, "{record:?} {in_log:?}");
            record.info.entries = u64::MAX;
            assert!(record.expected(&in_log) > u64::MAX - 40);
            assert!(record.expected(&[u64::MAX].into()) > u64::MAX - 40);
        }
    }
}
