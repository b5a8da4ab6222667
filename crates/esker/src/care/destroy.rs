//! Removing a store.

use std::path::Path;

use crate::blob::blob_path;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::LockMode;
use crate::open::{BACKUP_DIR, LOCK_FILE, Listing, remove_flat_dir};
use crate::options::Options;
use crate::store::reserve::reserve_path;
use crate::version::tables::table_path;

/// Removes the store in `path` for good: its own files, what repairs have set aside, and the directory if nothing else is
/// in it.
///
/// # Errors
/// `NotFound` when there is no store, `Locked` when it is open, `Io`.
pub fn destroy(path: impl AsRef<Path>, options: &Options) -> Result<()> {
    let (fs, dir) = (&options.env.fs, path.as_ref());
    let listing = Listing::read(&options.env, dir)?;
    if listing.is_unfinished(&options.env)? {
        return Err(Error::new(ErrorKind::NotFound, "there is no store here").at(dir));
    }
    let lock = fs.lock(&dir.join(LOCK_FILE), LockMode::Exclusive)?;
    // The manifests go first: what is left after a crash is no store that could be opened by mistake.
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
    let directories = listing.quarantines.iter().cloned().chain([dir.join(BACKUP_DIR)]);
    directories.into_iter().try_for_each(|dir| remove_flat_dir(&options.env, &dir))?;
    fs.remove_file(&dir.join(LOCK_FILE))?;
    drop(lock);
    fs.sync_dir(dir)?;
    if listing.foreign.is_empty() { fs.remove_dir(dir) } else { Ok(()) }
}
