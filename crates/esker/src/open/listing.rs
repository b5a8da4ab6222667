//! Lists a store's directory. Only names in exactly the form that Esker writes count; other files are not ours.

use std::path::{Path, PathBuf};

use crate::blob::{blob_number, is_temporary_blob};
use crate::codec::FILE_NUMBER_STRANGE;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::gone::before_retirement;
use crate::fs::{Entry, LockMode, NameKind, gone, lock_temporary, not_a_directory, not_a_file};
use crate::log::replay::segment_number;
use crate::log::segment::is_unwritten;
use crate::space::RESERVE_FILE;
use crate::version::edit::FileId;
use crate::version::imported::ImportedFiles;
use crate::version::manifest::{copy_number, copy_path, is_temporary, manifest_number, manifest_path};
use crate::version::tables::table_number;

/// The file that is locked. A writer notes in it which process holds the lock.
pub(crate) const LOCK_FILE: &str = "LOCK";

/// The directory inside a store's directory in which a backup keeps its copies.
pub(crate) const BACKUP_DIR: &str = "backup.tmp";

/// The first part of the names of the directories in which repairs put unused files. A number follows.
pub(crate) const QUARANTINE: &str = "quarantine-";

fn is_quarantine(name: &str) -> bool {
    let number = name.strip_prefix(QUARANTINE);
    number.is_some_and(|text| text.parse::<u64>().is_ok_and(|number| number.to_string() == text))
}

/// Whether a file has this name only while it is written, replaced or removed. It keeps the name if the process ends in
/// that time. The file may be removed after the directory was synced, but not before.
fn is_passing_name(name: &str) -> bool {
    let retired = before_retirement(name);
    let is_retired = retired.is_some_and(|name| blob_number(name).or(segment_number(name)).is_some());
    is_temporary(name)
        || is_temporary_blob(name)
        || is_retired
        || Path::new(name) == lock_temporary(LOCK_FILE)
}

/// Whether a store gives this name to a file.
fn is_file_name(name: &str) -> bool {
    let numbered = [manifest_number, copy_number, table_number, blob_number, segment_number];
    name == LOCK_FILE
        || name == RESERVE_FILE
        || is_passing_name(name)
        || numbered.iter().any(|number| number(name).is_some())
        || ImportedFiles::of_mark(name).is_some()
}

/// Refuses a file with a number so great that the store could not give out greater ones. The number of a manifest's
/// copy does not count: nothing takes its number from a copy.
fn check_number(dir: &Path, name: &str) -> Result<()> {
    let numbered = [manifest_number, table_number, blob_number, segment_number];
    let marked = || ImportedFiles::of_mark(name).map(|imported| imported.last);
    let number = numbered.iter().find_map(|number| number(name)).or_else(marked);
    if number.is_none_or(|number| number < FILE_NUMBER_STRANGE) {
        return Ok(());
    }
    let message = "the number of this file is greater than any that a store gives, and leaves too few for new files: \
                   move the file away";
    Err(Error::new(ErrorKind::InvalidInput, message).at(&dir.join(name)))
}

/// Refuses an entry that has the name of one of our files or directories but is something else. This comes before any
/// change.
fn check_kind(dir: &Path, entry: &Entry) -> Result<()> {
    let path = || dir.join(&entry.name);
    let is_dir_name = entry.name == BACKUP_DIR || is_quarantine(&entry.name);
    match entry.kind {
        NameKind::Directory if is_dir_name => Ok(()),
        found if is_dir_name => Err(not_a_directory(&path(), found)),
        NameKind::File => Ok(()),
        found if is_file_name(&entry.name) => Err(not_a_file(&path(), found)),
        _ => Ok(()),
    }
}

/// A directory inside the store's directory, with only files that the store has made.
pub(crate) struct OwnDir<'a> {
    env: &'a Env,
    dir: &'a Path,
    files: Vec<PathBuf>,
}

impl<'a> OwnDir<'a> {
    /// The directory and its files; `None` if it does not exist. Refuses a directory that contains anything else.
    pub(crate) fn find(env: &'a Env, dir: &'a Path) -> Result<Option<OwnDir<'a>>> {
        if !env.fs.exists(dir)? {
            return Ok(None);
        }
        let mut files = Vec::new();
        for entry in env.fs.entries(dir)? {
            check_kind(dir, &entry)?;
            let path = dir.join(&entry.name);
            if !is_file_name(&entry.name) {
                let message = "this is not a file of a store, but lies in a directory that the store would remove: \
                     move it away";
                return Err(Error::new(ErrorKind::InvalidInput, message).at(&path));
            }
            files.push(path);
        }
        Ok(Some(OwnDir { env, dir, files }))
    }

    /// Removes the directory and its files, the lock last: another process that finds the directory without a lock
    /// would create one and remove the rest.
    pub(crate) fn remove(self) -> Result<()> {
        let lock = self.dir.join(LOCK_FILE);
        let (last, first): (Vec<_>, Vec<_>) = self.files.iter().partition(|path| **path == lock);
        let fs = &*self.env.fs;
        first.into_iter().chain(last).try_for_each(|path| gone::remove_file(fs, path))?;
        gone::remove_dir(fs, self.dir)
    }
}

/// Removes a directory of ours and its files, if it exists.
pub(crate) fn remove_own_dir(env: &Env, dir: &Path) -> Result<()> {
    OwnDir::find(env, dir)?.map_or(Ok(()), OwnDir::remove)
}

/// Removes the files of a killed backup. Returns `false` if a backup is still running, although its store was closed:
/// it keeps its files. Files that are not ours are an error, and nothing is removed.
pub(crate) fn clear_backup_dir(env: &Env, store: &Path) -> Result<bool> {
    let dir = store.join(BACKUP_DIR);
    let Some(own) = OwnDir::find(env, &dir)? else { return Ok(true) };
    let mut lock = match env.fs.lock(&dir.join(LOCK_FILE), LockMode::Exclusive) {
        Err(error) if error.kind() == ErrorKind::Locked => return Ok(false),
        lock => lock?,
    };
    drop(own);
    lock.release_name();
    remove_own_dir(env, &dir).map(|()| true)
}

#[derive(Debug, Default, Clone)]
pub(crate) struct Listing {
    pub(crate) manifests: Vec<u64>,
    pub(crate) copies: Vec<u64>,
    pub(crate) tables: Vec<FileId>,
    pub(crate) blobs: Vec<FileId>,
    pub(crate) segments: Vec<(u64, PathBuf)>,
    pub(crate) temporaries: Vec<PathBuf>,
    /// The imports, from their marks.
    pub(crate) imports: Vec<ImportedFiles>,
    pub(crate) has_backup_dir: bool,
    pub(crate) quarantines: Vec<PathBuf>,
    pub(crate) foreign: Vec<String>,
}

impl Listing {
    pub(crate) fn read(env: &Env, dir: &Path) -> Result<Listing> {
        let mut listing = Listing::default();
        for entry in env.fs.entries(dir)? {
            check_kind(dir, &entry)?;
            let name = entry.name;
            check_number(dir, &name)?;
            let path = dir.join(&name);
            if name == BACKUP_DIR {
                listing.has_backup_dir = true;
            } else if is_quarantine(&name) {
                listing.quarantines.push(path);
            } else if name == LOCK_FILE || name == RESERVE_FILE {
            } else if is_passing_name(&name) {
                listing.temporaries.push(path);
            } else if let Some(number) = manifest_number(&name) {
                listing.manifests.push(number);
            } else if let Some(number) = copy_number(&name) {
                listing.copies.push(number);
            } else if let Some(number) = table_number(&name) {
                listing.tables.push(number);
            } else if let Some(number) = blob_number(&name) {
                listing.blobs.push(number);
            } else if let Some(number) = segment_number(&name) {
                listing.segments.push((number, path));
            } else if let Some(imported) = ImportedFiles::of_mark(&name) {
                listing.imports.push(imported);
            } else {
                listing.foreign.push(name);
            }
        }
        listing.manifests.sort_unstable();
        listing.copies.sort_unstable();
        listing.tables.sort_unstable();
        listing.blobs.sort_unstable();
        listing.segments.sort();
        Ok(listing)
    }

    /// The number of the current manifest, 0 if the directory has no manifest.
    pub(crate) fn manifest(&self) -> u64 {
        self.manifests.last().copied().unwrap_or(0)
    }

    pub(crate) fn manifest_paths(&self, dir: &Path) -> impl Iterator<Item = PathBuf> {
        let manifests = self.manifests.iter().map(|&number| manifest_path(dir, number));
        manifests.chain(self.copies.iter().map(|&number| copy_path(dir, number)))
    }

    /// Whether a table or blob file with this number was imported.
    pub(crate) fn is_imported(&self, file: FileId) -> bool {
        self.imports.iter().any(|imported| imported.contains(file))
    }

    /// The imports that have no file left after the removal of all files that are not `needed`.
    pub(crate) fn imports_over(
        &self,
        needed: impl Fn(FileId) -> bool,
    ) -> impl Iterator<Item = &ImportedFiles> {
        let has_file = move |imported: &ImportedFiles| {
            let mut files = self.tables.iter().chain(&self.blobs);
            files.any(|&file| imported.contains(file) && needed(file))
        };
        self.imports.iter().filter(move |imported| !has_file(imported))
    }

    /// The number for the next table or blob file, as far as the names show it. All numbers of an import mark are
    /// taken, even if no such files exist: a new file with such a number would count as imported.
    pub(crate) fn next_file(&self) -> FileId {
        let files = [self.tables.last(), self.blobs.last()].into_iter().flatten().copied();
        let marked = self.imports.iter().map(|imported| imported.last);
        files.chain(marked).max().map_or(1, |last| last + 1)
    }

    /// Whether no store was ever completed here: the directory holds at most the files of an interrupted creation. One
    /// of them may be the copy of a manifest without the manifest. A store's manifest is durable before anything is
    /// written to its log.
    pub(crate) fn is_unfinished(&self, env: &Env) -> Result<bool> {
        if !self.manifests.is_empty() || !self.tables.is_empty() || !self.blobs.is_empty() {
            return Ok(false);
        }
        for (_, path) in &self.segments {
            if !is_unwritten(&*env.fs.open_read(path)?)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
