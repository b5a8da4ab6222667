//! Finds or creates the directory of a store to open, and resolves its path once.

use std::path::Path;

use super::listing::Listing;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};

/// The environment of the store in `dir`, whose path is resolved here, once. `create`: creates a missing directory.
pub(super) fn resolve(env: &Env, dir: &Path, create: bool) -> Result<Env> {
    if env.fs.exists(dir)? {
        return env.within(dir);
    }
    if !create {
        return Err(no_store(dir));
    }
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent
        && !env.fs.exists(parent)?
    {
        // This is more likely a typing error than a wish for several directories.
        return Err(Error::new(ErrorKind::NotFound, "this directory does not exist").at(parent));
    }
    env.fs.create_dir_all(dir)?;
    if let Some(parent) = parent {
        env.fs.sync_dir(parent)?;
    }
    env.within(dir)
}

fn no_store(dir: &Path) -> Error {
    let message = "there is no store here; to make one, open it with `create`";
    Error::new(ErrorKind::NotFound, message).at(dir)
}

/// Refuses a directory that is not a store and must not become one.
pub(super) fn check_directory(env: &Env, dir: &Path, create: bool) -> Result<()> {
    let listing = Listing::read(env, dir)?;
    if listing.manifest() != 0 {
        return Ok(());
    }
    if !listing.is_unfinished(env)? {
        let message = "the manifest is missing: this was a store, and its other files are still here";
        return Err(Error::corruption(dir, 0, message));
    }
    if !create {
        return Err(no_store(dir));
    }
    match listing.foreign.first() {
        None => Ok(()),
        Some(name) => {
            let message = format!("this directory holds other files (such as \"{name}\") and is not a store");
            Err(Error::new(ErrorKind::InvalidInput, message).at(dir))
        }
    }
}
