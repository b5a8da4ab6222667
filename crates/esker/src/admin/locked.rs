//! Locks a store for work on its files, while no other handle may change them.

use std::path::Path;

use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{DirLock, LockMode};
use crate::open::{LOCK_FILE, Listing};

/// Takes the lock of the store in `dir`, and then lists its files. Creates a lock file only if `dir` is a store.
///
/// # Errors
/// `NotFound` when the store does not exist, `Locked`, `Io`.
pub(super) fn lock(env: &Env, dir: &Path, mode: LockMode) -> Result<(Box<dyn DirLock>, Listing)> {
    let store = || {
        let listing = Listing::read(env, dir)?;
        match listing.is_unfinished(env)? {
            true => Err(Error::new(ErrorKind::NotFound, "there is no store here").at(dir)),
            false => Ok(listing),
        }
    };
    store()?;
    let lock = env.fs.lock(&dir.join(LOCK_FILE), mode)?;
    // The process that held the lock may have created and removed files after the first listing.
    Ok((lock, store()?))
}
