//! Removes files, and tolerates files that are already gone.
//!
//! Another thread or process may remove some files at any moment; then a missing file is not an error.
//!
//! A power loss brings back a name whose removal was not durable. By then the file may hold another file's bytes: a
//! file system whose journal does not order data (ext4 with `data=writeback`) gives the blocks of a removed file to the
//! next one immediately. Therefore a file that recovery would read under its name is first renamed to a name that
//! recovery does not read.
//!
//! ```text
//! wal-000007.log  ->  wal-000007.log.old     renamed
//!                                            the directory is synced
//!                                            removed
//! ```
//! A process that dies between the two leaves the second name. The next one that finds it syncs the directory and
//! removes it.

use std::path::{Path, PathBuf};

use super::FileSystem;
use crate::canary::broken;
use crate::error::{ErrorKind, Result};

/// `result`, or `none` if the file does not exist.
fn or_gone<T>(result: Result<T>, none: T) -> Result<T> {
    result.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(none) } else { Err(error) })
}

/// Removes a file; it may already be gone.
pub(crate) fn remove_file(fs: &dyn FileSystem, path: &Path) -> Result<()> {
    or_gone(fs.remove_file(path), ())
}

/// Removes an empty directory; it may already be gone.
pub(crate) fn remove_dir(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    or_gone(fs.remove_dir(dir), ())
}

/// Removes with `remove` all of `files` that it can. The others stay in `files`.
///
/// # Errors
/// Why the first of the remaining files could not be removed.
pub(crate) fn remove_each<T>(files: &mut Vec<T>, remove: impl Fn(&T) -> Result<()>) -> Result<()> {
    let mut removed = Ok(());
    files.retain(|file| match or_gone(remove(file), ()) {
        Ok(()) => false,
        Err(error) => {
            if removed.is_ok() {
                removed = Err(error);
            }
            true
        }
    });
    removed
}

/// The bytes that the regular file at `path` takes on the disk; 0 if it does not exist.
pub(crate) fn allocated_bytes(fs: &dyn FileSystem, path: &Path) -> Result<u64> {
    let allocated = || if fs.is_regular(path)? { fs.allocated_bytes(path) } else { Ok(0) };
    or_gone(allocated(), 0)
}

/// The suffix of the second name of a file that is about to be removed.
const RETIRED: &str = ".old";

/// The original name of a file that is called `name` because it is about to be removed.
pub(crate) fn before_retirement(name: &str) -> Option<&str> {
    name.strip_suffix(RETIRED)
}

/// The name that the file `path` gets before it is removed.
pub(crate) fn retired_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(RETIRED);
    PathBuf::from(name)
}

/// Removes all of `files` in `dir` that it can; some may be gone, or halfway so. After a power loss each file is whole,
/// or gone, or under its second name. The others stay in `files`, which the caller may use only to call this again.
///
/// # Errors
/// Why the first of the remaining files could not be removed.
pub(crate) fn remove_for_good<T>(
    fs: &dyn FileSystem,
    dir: &Path,
    files: &mut Vec<T>,
    path: impl Fn(&T) -> &Path,
) -> Result<()> {
    let mut renamed = Vec::with_capacity(files.len());
    let mut all_renamed = Ok(());
    for file in std::mem::take(files) {
        match or_gone(fs.rename(path(&file), &retired_path(path(&file))), ()) {
            Ok(()) => renamed.push(file),
            Err(error) => {
                files.push(file);
                all_renamed = all_renamed.and(Err(error));
            }
        }
    }
    let synced = if renamed.is_empty() || broken("retire") { Ok(()) } else { fs.sync_dir(dir) };
    let removed =
        synced.and_then(|()| remove_each(&mut renamed, |file| fs.remove_file(&retired_path(path(file)))));
    files.append(&mut renamed);
    all_renamed.and(removed)
}

/// Removes the new file `path`, which could not be prepared. The cause of the failure may affect the directory too:
/// then the file may be left under one of its names, for the next opening.
pub(in crate::fs) fn give_up(fs: &dyn FileSystem, path: &Path) {
    if let Some(dir) = path.parent()
        && remove_for_good(fs, dir, &mut vec![path], |path| path).is_err()
    {
        drop(fs.remove_file(path));
    }
}
