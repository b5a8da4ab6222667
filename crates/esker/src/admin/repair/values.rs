//! Finds the keys whose huge values cannot be read any more, and puts a deletion in the place of each.
//!
//! ```text
//! damaged files     read once more: values that fail their check are freed; a file without a usable header goes
//! the log           an operation that names a lost value becomes a deletion
//! tables            an entry too, if readers would see it: the newest version of its key
//! ```
//! The deletion has the entry's number. Therefore no older version of the key is seen. An entry below a newer version
//! stays: a merge removes it.
//!
//! A value that was freed may be lost in this way too: a write had replaced it, and the repair found no trace of that
//! write.

use std::collections::{BTreeMap, BTreeSet};

use super::{Repair, log};
use crate::blob::{BlobFile, BlobFileId, Entry, Pointer, blob_path};
use crate::cursor::{Content, Kind, SeqNo};
use crate::error::{Error, ErrorKind, Result};
use crate::options::ExpiryClock;
use crate::ranges::{KeyRange, RangeTombstone};
use crate::table::Salvage;
use crate::version::blob_edits::{BlobEdit, BlobFileRecord, ORDINALS_MAX};
use crate::version::edit::{Edit, FileId, TableInfo, TreeId};
use crate::version::tables::table_path;
use crate::write::batch::{Op, Ops};

/// The most blob files that a repair keeps open.
const OPEN_MAX: usize = 64;

/// A blob file with a sound header.
pub(super) struct Opened {
    file: BlobFile,
    entries: Vec<Entry>,
    footer_is_sound: bool,
}

/// An entry of a table whose huge value cannot be read.
struct Candidate {
    tree: TreeId,
    key: Vec<u8>,
    seq: SeqNo,
    table: FileId,
    error: Error,
}

/// The keys that a newer part of the log sets or deletes.
#[derive(Default)]
pub(super) struct Settled {
    keys: BTreeMap<TreeId, BTreeSet<Vec<u8>>>,
    ranges: Vec<(TreeId, KeyRange)>,
}

impl Settled {
    fn note(&mut self, op: &Op<'_>) {
        match op.kind {
            Kind::Merge | Kind::Time => {}
            Kind::DeleteRange => {
                self.ranges.extend(KeyRange::decode(op.key, op.value).map(|range| (op.tree, range)));
            }
            _ => drop(self.keys.entry(op.tree).or_default().insert(op.key.to_vec())),
        }
    }

    pub(super) fn has(&self, tree: TreeId, key: &[u8]) -> bool {
        self.keys.get(&tree).is_some_and(|keys| keys.contains(key))
            || self.ranges.iter().any(|(of, range)| *of == tree && range.contains(key))
    }
}

impl Repair<'_> {
    /// Deletes the keys of lost values, and reports them. `payloads` are the records of a log that has to be rewritten.
    /// Returns the records of the new log, if one is needed: a sound log that names lost values is rewritten too.
    pub(super) fn mend_values(&mut self, payloads: Option<Vec<Vec<u8>>>) -> Result<Option<Vec<Vec<u8>>>> {
        let known = self.state.blobs.live.keys().chain(&self.listing.blobs);
        let named = self.logged.iter().map(|(_, _, pointer)| &pointer.file);
        let is_damaged = |id: &BlobFileId| self.damaged.contains(&blob_path(self.dir, *id));
        let damaged: BTreeSet<BlobFileId> = known.chain(named).copied().filter(is_damaged).collect();
        self.has_lost_writes = payloads.is_some() || !self.unused.is_empty();
        if damaged.is_empty() && !self.has_lost_writes {
            return Ok(payloads);
        }
        let candidates = self.candidates(&damaged)?;
        let is_logged = || self.logged.iter().any(|(_, _, pointer)| damaged.contains(&pointer.file));
        let known = match &payloads {
            Some(payloads) => payloads.clone(),
            None if candidates.is_empty() && !is_logged() => Vec::new(),
            None => self.sound_payloads()?,
        };
        let (settled, mended) = self.mend_payloads(&known, &damaged)?;
        self.mend_entries(candidates, &settled)?;
        self.mend_files(&damaged)?;
        Ok(mended.or(payloads))
    }

    /// The reason why the value of `pointer` cannot be read; `None` if it can be read, or is not needed. Only the
    /// `damaged` files are read, unless the manifest is lost.
    fn loss_of(&mut self, pointer: &Pointer, damaged: &BTreeSet<BlobFileId>) -> Result<Option<Error>> {
        if self.report.rebuilt {
            return self.unreadable(pointer);
        }
        let blobs = &self.state.blobs;
        let is_freed = match blobs.live.get(&pointer.file) {
            Some(record) => record.freed.contains(&pointer.ordinal),
            None => blobs.removed.contains_key(&pointer.file),
        };
        let is_there = self.listing.blobs.binary_search(&pointer.file).is_ok();
        if is_freed || (!is_there && !damaged.contains(&pointer.file)) {
            let message = "the space of the value was given back, because it had been overwritten or deleted: \
                           that write is lost";
            let lost = || Error::corruption(&blob_path(self.dir, pointer.file), 0, message);
            return Ok(self.has_lost_writes.then(lost));
        }
        if damaged.contains(&pointer.file) { self.unreadable(pointer) } else { Ok(None) }
    }

    /// The reason why the value of `pointer` cannot be read; `None` if it can.
    pub(super) fn unreadable(&mut self, pointer: &Pointer) -> Result<Option<Error>> {
        let verified = match self.blob_file(pointer.file)? {
            Ok(opened) => opened.file.verify(pointer),
            Err(error) => Err(error.duplicate()),
        };
        match verified {
            Ok(()) => Ok(None),
            Err(error) if error.kind() == ErrorKind::Corruption => Ok(Some(error)),
            Err(error) => Err(error),
        }
    }

    /// A blob file; the inner error is the reason why none of its values can be read.
    fn blob_file(&mut self, id: BlobFileId) -> Result<&std::result::Result<Opened, Error>> {
        if !self.opened.contains_key(&id) && self.opened.len() >= OPEN_MAX {
            self.opened.clear();
        }
        let opened = match self.opened.remove(&id) {
            Some(opened) => opened,
            None => match self.open_blob_file(id) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    Err(Error::corruption(&blob_path(self.dir, id), 0, "a blob file is missing"))
                }
                Err(error) if error.kind() != ErrorKind::Corruption => return Err(error),
                opened => opened,
            },
        };
        Ok(self.opened.entry(id).or_insert(opened))
    }

    fn open_blob_file(&self, id: BlobFileId) -> Result<Opened> {
        let (file, entries, damage) = match self.state.blobs.live.get(&id) {
            Some(record) => {
                BlobFile::open_known(&self.env.fs.open_read(&blob_path(self.dir, id))?, &record.info)?
            }
            None => self.open_blobs(id)?,
        };
        Ok(Opened { file, entries, footer_is_sound: damage.is_none() })
    }

    /// The living entries of tables whose values are lost.
    fn candidates(&mut self, damaged: &BTreeSet<BlobFileId>) -> Result<Vec<Candidate>> {
        let mut found = Vec::new();
        self.each_entry(&mut |repair, tree, info, salvage| {
            let (kind, seq) = (salvage.kind(), info.number().unwrap_or(salvage.seq()));
            let value = info.reread(kind, salvage.value());
            let (Some(pointer), Some(key)) = (Pointer::of_entry(kind, &value), info.strip(salvage.key()))
            else {
                return Ok(());
            };
            if !Content::open(kind, &value).lives(|| repair.time_of(tree))
                || repair.is_range_deleted(tree, info, key, seq)
            {
                return Ok(());
            }
            let lost = repair.loss_of(&pointer, damaged)?;
            let (key, table) = (key.to_vec(), info.file);
            found.extend(lost.map(|error| Candidate { tree, key, seq, table, error }));
            Ok(())
        })?;
        Ok(found)
    }

    /// The time that decides whether values have expired for readers of `tree`, in microseconds since 1970.
    pub(super) fn time_of(&self, tree: TreeId) -> u64 {
        match self.state.trees.get(&tree) {
            Some(record) if record.options.expiry_clock == ExpiryClock::Writes => record.time_us,
            _ => self.state.clock.at(self.env.clock.wall_us()),
        }
    }

    fn is_range_deleted(&self, tree: TreeId, info: &TableInfo, key: &[u8], seq: SeqNo) -> bool {
        let hides = |range: RangeTombstone| range.seq > seq.max(info.cleared) && range.range.contains(key);
        self.state.trees.get(&tree).is_some_and(|record| record.ranges().any(hides))
    }

    /// Calls `visit` at each entry of each tree's tables.
    fn each_entry(
        &mut self,
        visit: &mut dyn FnMut(&mut Self, TreeId, &TableInfo, &Salvage) -> Result<()>,
    ) -> Result<()> {
        let tables: Vec<(TreeId, TableInfo)> =
            self.state.tables.iter().map(|(&(tree, ..), info)| (tree, info.clone())).collect();
        for (tree, info) in tables {
            let source = self.env.fs.open_read(&table_path(self.dir, info.file))?;
            let mut salvage = Salvage::open(source, Some(info.salt))?;
            let (first, last) = (info.in_file(&info.smallest), info.in_file(&info.largest));
            while salvage.advance()? && salvage.key() <= last.as_slice() {
                if salvage.key() >= first.as_slice() {
                    visit(self, tree, &info, &salvage)?;
                }
            }
        }
        Ok(())
    }

    /// The records of a sound log that recovery accepts, without operations that are in tables.
    fn sound_payloads(&self) -> Result<Vec<Vec<u8>>> {
        let mut records = Vec::new();
        self.recovered(&mut |record| records.push(record))?;
        Ok(self.unflushed(&records))
    }

    /// Puts deletions in the place of operations in `payloads` whose values are lost. Returns which keys the log sets
    /// or deletes, and the new records if any has changed.
    pub(super) fn mend_payloads(
        &mut self,
        payloads: &[Vec<u8>],
        damaged: &BTreeSet<BlobFileId>,
    ) -> Result<(Settled, Option<Vec<Vec<u8>>>)> {
        let (mut settled, mut mended) = (Settled::default(), BTreeMap::new());
        for (at, payload) in payloads.iter().enumerate().rev() {
            let mut ops: Vec<Op<'_>> = Ops::of(payload).collect();
            let mut has_changed = false;
            for op in ops.iter_mut().rev() {
                let pointer = Pointer::of_entry(op.kind, op.value);
                let lost = pointer.map_or(Ok(None), |pointer| self.loss_of(&pointer, damaged))?;
                if let Some(error) = lost {
                    if !settled.has(op.tree, op.key) {
                        self.lose(&error, Some(op.tree), Some((op.key.to_vec(), op.key.to_vec())));
                    }
                    (op.kind, op.value, has_changed) = (Kind::Delete, &[], true);
                }
                settled.note(op);
            }
            if has_changed {
                mended.insert(at, log::encode(&ops));
            }
        }
        if mended.is_empty() {
            return Ok((settled, None));
        }
        let all = payloads.iter().enumerate();
        let all = all.map(|(at, payload)| mended.remove(&at).unwrap_or_else(|| payload.clone())).collect();
        Ok((settled, Some(all)))
    }

    /// Rewrites the tables of the candidates that readers would see.
    fn mend_entries(&mut self, mut candidates: Vec<Candidate>, settled: &Settled) -> Result<()> {
        let mut newest: BTreeMap<TreeId, BTreeMap<Vec<u8>, SeqNo>> = BTreeMap::new();
        for candidate in &candidates {
            newest.entry(candidate.tree).or_default().insert(candidate.key.clone(), 0);
        }
        if candidates.is_empty() {
            return Ok(());
        }
        self.each_entry(&mut |_, tree, info, salvage| {
            let keys = newest.get_mut(&tree).filter(|_| salvage.kind() != Kind::Merge);
            let key = info.strip(salvage.key());
            if let Some(seq) = keys.zip(key).and_then(|(keys, key)| keys.get_mut(key)) {
                *seq = info.number().unwrap_or(salvage.seq()).max(*seq);
            }
            Ok(())
        })?;
        candidates.retain(|one| {
            let newest = newest.get(&one.tree).and_then(|keys| keys.get(&one.key));
            newest == Some(&one.seq) && !settled.has(one.tree, &one.key)
        });
        let mut tables: BTreeSet<FileId> = BTreeSet::new();
        for Candidate { tree, key, seq, table, error } in candidates {
            self.lose(&error, Some(tree), Some((key.clone(), key.clone())));
            self.lost.insert((tree, key, seq));
            tables.insert(table);
        }
        self.mend_tables(&tables)
    }

    /// Frees the lost values of damaged files.
    fn mend_files(&mut self, damaged: &BTreeSet<BlobFileId>) -> Result<()> {
        for &file in damaged {
            let record = self.state.blobs.live.get(&file).cloned();
            let found = match self.blob_file(file)? {
                Ok(opened) => Some((opened.readable(file)?, opened.footer_is_sound)),
                Err(_) => None,
            };
            let Some((readable, footer_is_sound)) = found else {
                self.unused.insert(blob_path(self.dir, file));
                if record.is_some() {
                    let position = self.segments.behind(&*self.env.fs)?.start;
                    self.apply(&Edit::Blob(BlobEdit::Remove { file, position }))?;
                    self.needs_manifest = true;
                }
                continue;
            };
            let Some(record) = record else { continue };
            let BlobFileRecord { mut info, .. } = record.clone();
            let expected = |ordinal: &u64| record.is_expected(*ordinal, &BTreeSet::new());
            let ordinals = (0..info.entries.min(ORDINALS_MAX)).filter(expected);
            let ordinals: BTreeSet<u64> = ordinals.filter(|ordinal| !readable.contains(ordinal)).collect();
            // An opening takes the values of a file that is not sealed from their descriptors.
            info.sealed &= footer_is_sound;
            self.apply(&Edit::Blob(BlobEdit::Note(info)))?;
            self.apply(&Edit::Blob(BlobEdit::Free { file, ordinals }))?;
            self.needs_manifest = true;
            self.frees_values = true;
        }
        self.name_files(damaged);
        Ok(())
    }
}

impl Repair<'_> {
    /// Reports the damage in files that is not part of a lost key's value.
    fn name_files(&mut self, damaged: &BTreeSet<BlobFileId>) {
        for &file in damaged {
            let path = blob_path(self.dir, file);
            let is_named = self.report.losses.iter().any(|loss| loss.file == path);
            let comment = if is_named { "" } else { "; no key is lost" };
            for finding in self.findings.clone().iter().filter(|finding| finding.file == path) {
                let message = format!("{}{comment}", finding.reason);
                self.lose(&Error::corruption(&path, finding.offset, message), None, None);
            }
        }
    }
}

impl Opened {
    /// The ordinals of the values that pass their checks.
    fn readable(&self, id: BlobFileId) -> Result<BTreeSet<u64>> {
        let mut readable = BTreeSet::new();
        for entry in &self.entries {
            match self.file.verify(&entry.pointer(id)) {
                Ok(()) => drop(readable.insert(entry.ordinal)),
                Err(error) if error.kind() == ErrorKind::Corruption => {}
                Err(error) => return Err(error),
            }
        }
        Ok(readable)
    }
}
