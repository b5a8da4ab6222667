//! Removes a store.

use std::path::Path;

use super::locked;
use crate::blob::blob_path;
use crate::env::Env;
use crate::error::Result;
use crate::fs::{Entry, LockMode, NameKind};
use crate::open::{BACKUP_DIR, LOCK_FILE, OwnDir};
use crate::options::Options;
use crate::space::reserve_path;
use crate::version::tables::table_path;

/// Removes the store in `path` permanently: its own files, the quarantines of repairs, and the directory. The directory
/// stays if it contains anything else or if `path` is a link to it. `options` are those with which the store is opened;
/// [`Options::default`] serves.
///
/// # Errors
/// `NotFound` when the store does not exist. `Locked` when it is open. `InvalidInput`, naming it, when something that
/// is not a file has the name of one of the store's files, or lies in a directory of the store's: then nothing is
/// removed. `Io`.
pub fn destroy(path: impl AsRef<Path>, options: &Options) -> Result<()> {
    let dir = path.as_ref();
    let env = options.env.within(dir)?;
    let fs = &env.fs;
    let (mut lock, listing) = locked::lock(&env, dir, LockMode::Exclusive)?;
    // Foreign files are found before anything is removed.
    let staging = dir.join(BACKUP_DIR);
    let mut directories = Vec::new();
    for own in listing.quarantines.iter().chain([&staging]) {
        directories.extend(OwnDir::find(&env, own)?);
    }
    // The manifests are removed first. After a crash, no store is left that could be opened by mistake.
    let manifests = listing.manifest_paths(dir);
    let segments = listing.segments.iter().map(|(_, path)| path.clone());
    let tables = listing.tables.iter().map(|&file| table_path(dir, file));
    let blobs = listing.blobs.iter().map(|&file| blob_path(dir, file));
    let temporaries = listing.temporaries.iter().cloned();
    let marks = listing.imports.iter().map(|imported| imported.mark(dir));
    let reserve = fs.exists(&reserve_path(dir))?.then(|| reserve_path(dir));
    for path in
        manifests.chain(segments).chain(tables).chain(blobs).chain(temporaries).chain(marks).chain(reserve)
    {
        fs.remove_file(&path)?;
    }
    directories.into_iter().try_for_each(OwnDir::remove)?;
    lock.release_name();
    fs.remove_file(&dir.join(LOCK_FILE))?;
    drop(lock);
    fs.sync_dir(dir)?;
    if listing.foreign.is_empty() { remove_emptied(&options.env, dir) } else { Ok(()) }
}

/// Removes the empty directory `dir`. If it is a link, the link and its target stay: they are not ours.
fn remove_emptied(env: &Env, dir: &Path) -> Result<()> {
    let Err(error) = env.fs.remove_dir(dir) else { return Ok(()) };
    let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else { return Err(error) };
    // In both, bytes that are not UTF-8 are replaced.
    let is_link = |entry: &Entry| entry.kind == NameKind::Link && name.to_string_lossy() == entry.name;
    if env.fs.entries(parent)?.iter().any(is_link) { Ok(()) } else { Err(error) }
}
