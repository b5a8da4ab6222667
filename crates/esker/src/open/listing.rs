//! What lies in a store's directory. A name counts only as we would write it: other files are not ours.

use std::path::{Path, PathBuf};

use crate::blob::{blob_number, is_temporary_blob};
use crate::env::Env;
use crate::error::Result;
use crate::log::replay::segment_number;
use crate::log::segment::is_unwritten;
use crate::store::reserve::RESERVE_FILE;
use crate::version::edit::FileId;
use crate::version::imported::ImportedFiles;
use crate::version::manifest::{copy_number, copy_path, is_temporary, manifest_number, manifest_path};
use crate::version::tables::table_number;

/// The file that is locked, never written.
pub(crate) const LOCK_FILE: &str = "LOCK";

/// The directory in a store's own in which a backup under way keeps what it copies.
pub(crate) const BACKUP_DIR: &str = "backup.tmp";

/// What the directories begin with in which repairs have put what they had no use for; a number follows.
pub(crate) const QUARANTINE: &str = "quarantine-";

fn is_quarantine(name: &str) -> bool {
    let number = name.strip_prefix(QUARANTINE);
    number.is_some_and(|text| text.parse::<u64>().is_ok_and(|number| number.to_string() == text))
}

/// Removes a directory of ours and the files in it, if it is there.
pub(crate) fn remove_flat_dir(env: &Env, dir: &Path) -> Result<()> {
    if !env.fs.exists(dir)? {
        return Ok(());
    }
    for name in env.fs.list(dir)? {
        env.fs.remove_file(&dir.join(name))?;
    }
    env.fs.remove_dir(dir)
}

/// What lies in a store's directory, by kind.
#[derive(Debug, Default, Clone)]
pub(crate) struct Listing {
    pub(crate) manifests: Vec<u64>,
    /// The copies of manifests.
    pub(crate) copies: Vec<u64>,
    pub(crate) tables: Vec<FileId>,
    pub(crate) blobs: Vec<FileId>,
    pub(crate) segments: Vec<(u64, PathBuf)>,
    pub(crate) temporaries: Vec<PathBuf>,
    /// What was imported.
    pub(crate) imports: Vec<ImportedFiles>,
    /// Whether a backup was killed and has left what it was copying.
    pub(crate) has_backup_dir: bool,
    /// What repairs have set aside.
    pub(crate) quarantines: Vec<PathBuf>,
    pub(crate) foreign: Vec<String>,
}

impl Listing {
    pub(crate) fn read(env: &Env, dir: &Path) -> Result<Listing> {
        let mut listing = Listing::default();
        for name in env.fs.list(dir)? {
            let path = dir.join(&name);
            if name == BACKUP_DIR {
                listing.has_backup_dir = true;
            } else if is_quarantine(&name) {
                listing.quarantines.push(path);
            } else if name == LOCK_FILE || name == RESERVE_FILE {
            } else if is_temporary(&name) || is_temporary_blob(&name) {
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

    /// The number of the manifest in force, 0 where there is none.
    pub(crate) fn manifest(&self) -> u64 {
        self.manifests.last().copied().unwrap_or(0)
    }

    /// The paths of manifests and their copies, in `dir`.
    pub(crate) fn manifest_paths(&self, dir: &Path) -> impl Iterator<Item = PathBuf> {
        let manifests = self.manifests.iter().map(|&number| manifest_path(dir, number));
        manifests.chain(self.copies.iter().map(|&number| copy_path(dir, number)))
    }

    /// Whether a table or blob file with this number was imported.
    pub(crate) fn is_imported(&self, file: FileId) -> bool {
        self.imports.iter().any(|imported| imported.contains(file))
    }

    /// The imports of which no file is left when those go that are not `needed`.
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

    /// The number for the next table or blob file, as far as the names tell. Those of a mark are taken, whether or not they have
    /// files yet: one with such a number would count as imported.
    pub(crate) fn next_file(&self) -> FileId {
        let files = [self.tables.last(), self.blobs.last()].into_iter().flatten().copied();
        let marked = self.imports.iter().map(|imported| imported.last);
        files.chain(marked).max().map_or(1, |last| last + 1)
    }

    /// Whether no store was ever finished here: there is at most what a creation that was cut short left
    /// behind: of a manifest and its copy, the copy's name may be what has survived. A store's manifest is durable before
    /// anything is written into its log.
    pub(crate) fn is_unfinished(&self, env: &Env) -> Result<bool> {
        if !self.manifests.is_empty() || !self.tables.is_empty() || !self.blobs.is_empty() {
            return Ok(false);
        }
        for (_, path) in &self.segments {
            if !is_unwritten(&env.fs.read(path)?) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
