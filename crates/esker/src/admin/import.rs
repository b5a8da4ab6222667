//! Imports the tree, or the group of trees, of a store in another directory into an open store, by hard links.
//!
//! ```text
//! read     the directory's manifest: one tree or one group, nothing left in the log
//! mark     that the numbers taken are those of an import; the mark is synced
//! link     tables and blob files under these numbers; their names are synced
//! install  one edit of the manifest makes them trees
//! ```
//! The other store is not trusted, and may be forged. An import refuses numbers that would leave this store too few,
//! and tables that are not those of the manifest. Of each table it reads only the end, and of each blob file only the
//! list of its values.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::export::TreeFiles;
use super::file_copy::copy_file;
use crate::blob::gc::Values;
use crate::blob::{BlobFile, Entry, LiveFile, blob_path};
use crate::canary::broken;
use crate::codec::FILE_NUMBER_MAX;
use crate::cursor::SeqNo;
use crate::env::{Env, Reached};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{LockMode, ReadFile};
use crate::log::replay::{Visit, Visited};
use crate::open::{DEFAULT_TREE, LOCK_FILE, OnDisk};
use crate::options::{ExpiryClock, TreeOptions, check_name};
use crate::store::{Imported, ImportedBlobs, ImportedTree, Store};
use crate::table::table_salt;
use crate::tree::check_tag;
use crate::version::blob_edits::{BlobFileInfo, BlobFileRecord, BlobFiles, ORDINALS_MAX};
use crate::version::edit::{FileId, ManifestState, TableInfo, TreeId};
use crate::version::imported::{ImportedFiles, Renumbered};
use crate::version::tables::table_path;
use crate::version::tree_record::TreeRecord;
use crate::write::batch::{Ops, numbers_taken};

/// How far one import may advance the store's sequence numbers.
const SEQS_MAX: SeqNo = 1 << 48;
/// The most file numbers that one import takes.
const FILES_MAX: u64 = FILE_NUMBER_MAX >> 8;

/// How far another store's clock may advance ours, in microseconds: a day. A forged clock must not expire everything.
const CLOCK_AHEAD_MAX_US: u64 = 24 * 3_600_000_000;

type Tables = Vec<(u8, TableInfo)>;

/// The form in which the trees of another store are imported.
#[derive(Debug, Clone, Copy)]
pub(crate) enum As<'a> {
    /// The only tree becomes a tree of this name, in no group.
    Tree(&'a str),
    /// All trees, which are of one group, become that group, and get these tags. With `replace`, they replace the
    /// group's trees, if it has any.
    Group { replace: bool, tags: &'a [(&'a str, &'a str)] },
}

/// Imports the trees of the store in `dir`. Returns the name of their group, if they have one.
pub(crate) fn import(store: &Store, dir: &Path, what: As<'_>) -> Result<(Option<String>, TreeFiles)> {
    let outside = store.env().outside();
    if !outside.fs.exists(dir)? {
        return Err(no_store(dir));
    }
    let env = &outside.within(dir)?;
    let _lock = env.fs.lock(&dir.join(LOCK_FILE), LockMode::Shared)?;
    let found = OnDisk::read(env, dir)?;
    if found.listing.manifest() == 0 {
        return Err(no_store(dir));
    }
    let trees = trees_for(&found.state, what, dir)?;
    let Some(lineage) = trees.first().map(|(_, record)| record.lineage) else {
        return Err(refused(dir, "there is no tree to import"));
    };
    check_log(env, &found, dir)?;
    let (mut imported, mut greatest, mut clock_us) = (Vec::new(), 0, 0);
    for (tree, record) in trees {
        let tables: Tables = found.state.tables_of(tree).map(|(level, info)| (level, info.clone())).collect();
        check_tables(env, dir, &tables)?;
        found.state.overlaps(dir, tree).into_iter().next().map_or(Ok(()), Err)?;
        greatest = greatest.max(greatest_number(store, &record, &tables, dir)?);
        clock_us = clock_us.max(clock_of(store, &found.state.clock, &record.options, &tables, dir)?);
        imported.push(ImportedTree { record, tables });
    }
    let group = imported.first().and_then(|tree| tree.record.options.group.clone());
    // A close waits until the import has installed the files or removed them. Otherwise another opening could give out
    // the same file numbers, and the import would remove that opening's files as its own.
    let _inside = store.blobs().gate.enter()?;
    let count = imported.iter().map(|tree| tree.tables.len() as u64).sum();
    let mut arrival = Arrival::begin(store, (env, dir), &found.state, count)?;
    let brought = arrival.bring(&mut imported, &found.state.blobs, lineage);
    let brought = brought.and_then(|blobs| {
        let (replace, tags) = match what {
            As::Tree(_) => (None, &[][..]),
            As::Group { replace, tags } => (group.as_deref().filter(|_| replace), tags),
        };
        let imported = Imported { trees: imported, blobs, greatest, clock_us };
        store.reshaper().import(imported, replace, tags)
    });
    brought.inspect_err(|_| arrival.undo())?;
    Ok((group, arrival.files))
}

fn no_store(dir: &Path) -> Error {
    Error::new(ErrorKind::NotFound, "there is no store here").at(dir)
}

fn refused(dir: &Path, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, message).at(dir)
}

/// The trees to import, with their new records here. Opening an export creates an empty default tree in it, which does
/// not count.
fn trees_for(state: &ManifestState, what: As<'_>, dir: &Path) -> Result<Vec<(TreeId, TreeRecord)>> {
    let is_empty = |tree: TreeId| state.tables_of(tree).next().is_none();
    let mut trees: Vec<(TreeId, &TreeRecord)> =
        state.trees.iter().map(|(&tree, record)| (tree, record)).collect();
    if trees.len() > 1 {
        trees.retain(|(tree, record)| record.name != DEFAULT_TREE || !is_empty(*tree));
    }
    let names = || trees.iter().map(|(_, record)| record.name.as_str()).collect::<Vec<_>>().join(", ");
    match (what, trees.as_slice()) {
        (As::Tree(name), [(tree, record)]) => {
            let options = TreeOptions { group: None, ..record.options.clone() };
            Ok(vec![(*tree, TreeRecord { name: name.to_owned(), options, ..(*record).clone() })])
        }
        (As::Tree(_), several) => {
            let message = format!(
                "only a store with one tree can be imported as a tree, and this one has {} ({}): open it and export \
                 the tree that you want",
                several.len(),
                names()
            );
            Err(refused(dir, message))
        }
        (As::Group { .. }, several) => {
            let of = |record: &TreeRecord| (record.options.group.clone(), record.options.log, record.lineage);
            let first = several.first().map(|(_, record)| of(record));
            let is_group = first.as_ref().is_some_and(|(group, ..)| group.is_some())
                && several.iter().all(|(_, record)| Some(of(record)) == first);
            let distinct: BTreeSet<&str> = several.iter().map(|(_, record)| record.name.as_str()).collect();
            if !is_group || distinct.len() < several.len() {
                let message = format!("the trees of this store ({}) are not those of one group", names());
                return Err(refused(dir, message));
            }
            for (_, record) in several {
                check_name("tree", &record.name)?;
                record.tag.as_deref().map_or(Ok(()), check_tag)?;
            }
            Ok(several.iter().map(|&(tree, record)| (tree, record.clone())).collect())
        }
    }
}

/// Refuses a store whose log holds writes that its tables lack.
fn check_log(env: &Env, found: &OnDisk, dir: &Path) -> Result<()> {
    let mut left = false;
    let mut visit = |record: Visit<'_>| {
        let is_left = |(seq, tree): (SeqNo, TreeId)| {
            found.state.trees.get(&tree).is_some_and(|record| seq > record.flushed)
        };
        left |= (record.first_seq..).zip(Ops::of(record.payload).map(|op| op.tree)).any(is_left);
        let taken = numbers_taken(record.payload, record.first_seq);
        Ok(taken.map_or(Visited::Nonsense, Visited::Taken))
    };
    found.segments.replay(&*env.fs, found.state.floor, found.state.log_synced, &mut visit)?;
    if left && !broken("import-log") {
        let message =
            "the log of this store holds writes that are not in its tables yet: open the store and close it";
        return Err(refused(dir, message));
    }
    Ok(())
}

/// Refuses tables that are missing or truncated.
fn check_tables(env: &Env, dir: &Path, tables: &[(u8, TableInfo)]) -> Result<()> {
    for (_, info) in tables {
        let path = table_path(dir, info.file);
        let file = env.fs.open_read(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::corruption(&path, 0, "a table is missing"),
            _ => error,
        })?;
        if table_salt(&*file)? != info.salt {
            let message = "this is not the table that the manifest names";
            return Err(Error::corruption(&path, 0, message));
        }
    }
    Ok(())
}

fn greatest_number(
    store: &Store,
    record: &TreeRecord,
    tables: &[(u8, TableInfo)],
    dir: &Path,
) -> Result<SeqNo> {
    let in_tables = tables.iter().map(|(_, info)| info.max_seq.max(info.cleared));
    let greatest = in_tables.chain(record.deleted_ranges.keys().copied()).max().unwrap_or(0);
    if greatest.saturating_sub(store.commit().visible()) > SEQS_MAX {
        let message = format!(
            "this store's sequence numbers go up to {greatest}: too few would be left for new writes"
        );
        return Err(Error::new(ErrorKind::Unsupported, message).at(dir));
    }
    Ok(greatest)
}

/// The time that the store's clock must have reached when it has the tree; 0 if no entry of the tree expires and it has
/// no compaction rule, which may go by it.
fn clock_of(
    store: &Store,
    clock: &Reached,
    options: &TreeOptions,
    tables: &[(u8, TableInfo)],
    dir: &Path,
) -> Result<u64> {
    let goes_by_time = |info: &TableInfo| info.expiring.count > 0 || info.look_again.is_wanted();
    let expires = tables.iter().any(|(_, info)| goes_by_time(info));
    if options.rule.is_none() && !expires {
        return Ok(0);
    }
    let clock_us = clock.us;
    store.clock().now_us();
    let further = store.clock().offset_us().saturating_sub(clock.offset.us());
    if expires && options.expiry_clock == ExpiryClock::Store && further > CLOCK_AHEAD_MAX_US {
        let message = format!(
            "the clock of the store that imports is {} hours further ahead of the machine's clock than this store's: entries \
             that expire would expire too early; copy them with `esker export` and `esker import`, which convert the times",
            further / 3_600_000_000
        );
        return Err(refused(dir, message));
    }
    // Compares with the machine's clock: an earlier import may have advanced the store's own.
    let ahead = clock_us.saturating_sub(store.env().clock.wall_us());
    if clock_us > store.clock().now_us() && ahead > CLOCK_AHEAD_MAX_US {
        let message = format!(
            "this store's clock was {} hours ahead of the time on this machine: entries that expire would \
             expire too early; correct this machine's clock if it is behind, or wait",
            ahead / 3_600_000_000
        );
        return Err(refused(dir, message));
    }
    Ok(clock_us)
}

struct Arrival<'a> {
    store: &'a Store,
    /// The environment and the directory that they come from.
    source: &'a Env,
    dir: &'a Path,
    by: Renumbered,
    /// The numbers of all files of the import.
    numbers: ImportedFiles,
    /// The number of the first table.
    first_table: FileId,
    /// The paths that may have been created, the mark first.
    made: Vec<PathBuf>,
    /// Those of them that were linked and are needed.
    linked: Vec<PathBuf>,
    files: TreeFiles,
}

impl<'a> Arrival<'a> {
    /// Takes file numbers: one for each table, one for files that are gone, and a range for the blob files that keeps
    /// the distances between their numbers.
    fn begin(
        store: &'a Store,
        (source, dir): (&'a Env, &'a Path),
        state: &ManifestState,
        of_tables: u64,
    ) -> Result<Arrival<'a>> {
        let next_file = &store.tables().next_file;
        let of_blobs = &state.blobs.live;
        let (smallest, count) = match (of_blobs.first_key_value(), of_blobs.last_key_value()) {
            (Some((&smallest, _)), Some((&greatest, _))) => (smallest, greatest - smallest + 1),
            _ => (0, 0),
        };
        if count > FILES_MAX || next_file.load(Ordering::Relaxed) > FILE_NUMBER_MAX - 2 * FILES_MAX {
            let message = "this store's file numbers span too wide a range, or the store that imports it has too few \
                 file numbers left";
            return Err(Error::new(ErrorKind::Unsupported, message).at(dir));
        }
        let first_table = next_file.fetch_add(of_tables + 1 + count, Ordering::Relaxed);
        let none = first_table + of_tables;
        let numbers = ImportedFiles { first: first_table, last: none + count };
        let by = Renumbered { first: smallest, count, to: none + 1, none };
        Ok(Arrival {
            store,
            source,
            dir,
            by,
            numbers,
            first_table,
            made: Vec::new(),
            linked: Vec::new(),
            files: TreeFiles::default(),
        })
    }

    /// Links or copies the files and makes their names durable. Changes the tables of `trees` to their records in this
    /// store's manifest, and returns the records of the blob files.
    fn bring(
        &mut self,
        trees: &mut [ImportedTree],
        blobs: &BlobFiles,
        lineage: TreeId,
    ) -> Result<Vec<ImportedBlobs>> {
        let (fs, dir) = (&self.store.env().fs, self.store.dir());
        let mark = self.numbers.mark(dir);
        drop(fs.create(&mark)?);
        self.made.push(mark);
        // The mark must be durable before any file of the import.
        fs.sync_dir(dir)?;
        let mut named: BTreeMap<FileId, FileId> = BTreeMap::new();
        for (_, info) in trees.iter_mut().flat_map(|tree| &mut tree.tables) {
            let next = self.first_table + named.len() as u64;
            let file = *named.entry(info.file).or_insert(next);
            if file == next {
                let (len, copied) = self.take(&table_path(self.dir, info.file), &table_path(dir, file))?;
                self.files.note(len, copied);
            }
            *info = self.renumbered(info, file);
        }
        let mut of_blobs = Vec::with_capacity(blobs.live.len());
        for record in blobs.live.values() {
            of_blobs.extend(self.bring_blobs(record, lineage)?);
        }
        if !broken("import-names") {
            fs.sync_dir(dir)?;
        }
        // Their writer may not have synced them. If it has, these syncs cost nothing, as no other metadata of the files
        // is left to write.
        self.linked.iter().try_for_each(|path| fs.open_random(path)?.sync())?;
        Ok(of_blobs)
    }

    /// Links or copies a blob file, if the tree with `lineage` needs one of its values.
    fn bring_blobs(&mut self, record: &BlobFileRecord, lineage: TreeId) -> Result<Option<ImportedBlobs>> {
        let mut record = record.clone();
        let (from, file) = (blob_path(self.dir, record.info.file), self.by.number(record.info.file));
        if !self.source.fs.exists(&from)? {
            return Err(Error::corruption(&from, 0, "a blob file is missing"));
        }
        let (len, copied) = self.take(&from, &blob_path(self.store.dir(), file))?;
        record.info.file = file;
        let imported = self.read_blobs(record, lineage)?;
        match imported {
            Some(_) => self.files.note(len, copied),
            // No entry needs the file.
            None => {
                let path = blob_path(self.store.dir(), file);
                self.linked.retain(|linked| *linked != path);
                self.store.env().fs.remove_file(&path)?;
            }
        }
        Ok(imported)
    }

    /// Opens a blob file of the import and finds out which of its values count.
    fn read_blobs(&self, mut record: BlobFileRecord, lineage: TreeId) -> Result<Option<ImportedBlobs>> {
        let path = blob_path(self.store.dir(), record.info.file);
        let lazy = self.store.blobs().handles.file(&path)?;
        let source = Arc::clone(&lazy) as Arc<dyn ReadFile>;
        let (file, entries, _) = BlobFile::open_known(&source, &record.info)?;
        let last = entries.iter().map(|entry| entry.ordinal).max();
        let count = record.info.entries.max(last.map_or(0, |last| last.saturating_add(1)));
        if count > ORDINALS_MAX {
            return Err(Error::corruption(&path, 0, "expected fewer values in a blob file"));
        }
        let needed = |entry: &&Entry| {
            entry.tree == lineage && entry.ordinal < record.info.entries && record.counts(entry.ordinal)
        };
        let needed: Vec<&Entry> = entries.iter().filter(needed).collect();
        let mut key_hashes: Vec<u64> = needed.iter().map(|entry| entry.key_hash).collect();
        let ordinals: BTreeSet<u64> = needed.iter().map(|entry| entry.ordinal).collect();
        if ordinals.is_empty() {
            return Ok(None);
        }
        record.info.entries = count;
        record.keep_only(&ordinals);
        let BlobFileInfo { salt, single, sealed, entries, .. } = record.info;
        let mut values = Values::found(sealed, entries, &record.freed, []);
        for (&ordinal, references) in &record.references {
            key_hashes.extend(references.live.values());
            values.set_references(ordinal, references);
        }
        let file = Ok(Arc::new(file));
        let live = LiveFile::found((&record.info).into(), salt, single, file, values, None, Some(lazy));
        Ok(Some(ImportedBlobs { live, record, key_hashes }))
    }

    /// Links the file `from` to the new name `to`, or copies it there. Returns its length, and whether it was copied.
    fn take(&mut self, from: &Path, to: &Path) -> Result<(u64, bool)> {
        let env = self.store.env();
        self.made.push(to.to_path_buf());
        let copied = match self.source.fs.hard_link_to(from, &*env.fs, to) {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                copy_file((self.source, from), (env, to))?;
                true
            }
            linked => {
                linked?;
                self.linked.push(to.to_path_buf());
                false
            }
        };
        // The name may be a symbolic link, or something that is not a file: holes would be punched in a file that
        // others use.
        if !env.fs.is_regular(to)? {
            return Err(refused(
                from,
                "this is a symbolic link, or not a regular file; put the file itself here",
            ));
        }
        Ok((env.fs.file_len(to)?, copied))
    }

    /// The record in this store's manifest of a table that has the number `file` here.
    fn renumbered(&self, info: &TableInfo, file: FileId) -> TableInfo {
        // The source store may have imported the table too.
        let renumbered = info.renumbered.as_deref().map_or(self.by, |&before| self.by.behind(before));
        let look_again = info.look_again.elsewhere();
        TableInfo { file, renumbered: Some(Box::new(renumbered)), look_again, ..info.clone() }
    }

    /// Removes the files again if it is certain that no edit names them. If the store is poisoned, the next opening
    /// decides. The mark is removed once the files cannot come back.
    fn undo(&self) {
        let (fs, Some((mark, files))) = (&self.store.env().fs, self.made.split_first()) else { return };
        if self.store.commit().check().is_ok() {
            files.iter().for_each(|path| drop(fs.remove_file(path)));
            if files.is_empty() || fs.sync_dir(self.store.dir()).is_ok() {
                drop(fs.remove_file(mark));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Db;
    use crate::fs::MemoryFs;
    use crate::options::Options;
    use crate::version::manifest::Manifest;

    #[test]
    fn a_manifest_that_claims_more_values_than_any_file_has_is_not_believed() {
        let env = Env { fs: Arc::new(MemoryFs::new()), ..Env::system() };
        let options = Options::default().memory_budget(8 << 20).separate_at(1000).env(env.clone());
        let db = Db::open("/store", options).unwrap();
        let films = db.create_tree("films", TreeOptions::default()).unwrap();
        films.put("film", vec![7; 2000]).unwrap();
        let out = Path::new("/out");
        db.export_tree("films", out).unwrap();
        let found = OnDisk::read(&env, out).unwrap();
        let mut number = found.listing.manifest();
        let mut import = |entries: Option<u64>| {
            let mut state = found.state.clone();
            assert_eq!(state.blobs.live.len(), 1);
            for record in state.blobs.live.values_mut() {
                record.info.entries = entries.unwrap_or(record.info.entries);
            }
            number += 1;
            drop(Manifest::create(&env, out, number, state).unwrap());
            db.import_tree(out, "imported")
        };
        for entries in [ORDINALS_MAX + 1, 1 << 60, u64::MAX] {
            let error = import(Some(entries)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{entries}: {error}");
            assert!(error.message().contains("expected fewer values"), "{entries}: {error}");
        }
        let (imported, _) = import(None).unwrap();
        assert_eq!(imported.get_vec("film").unwrap().unwrap(), vec![7; 2000]);
    }
}
