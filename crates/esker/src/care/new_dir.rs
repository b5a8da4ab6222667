//! A directory that a copy of a store is made in. Who has made it, and nobody else, removes it when the copy fails.

use std::path::Path;

use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::open::remove_own_dir;

/// A new directory, resolved when it was made: what becomes of links on the way to it and of its name changes nothing.
pub(super) struct NewDir<'a> {
    /// The directory that it is in.
    parent: Env,
    /// What files in it are made with.
    pub(super) env: Env,
    pub(super) dir: &'a Path,
}

impl<'a> NewDir<'a> {
    /// Makes the directory `dir`, as the process resolves it, and its missing parents.
    pub(super) fn make(env: &Env, dir: &'a Path) -> Result<NewDir<'a>> {
        let Some(parent) = dir.parent().filter(|_| dir.file_name().is_some()) else {
            return Err(not_new(dir));
        };
        let outside = env.outside();
        if !parent.as_os_str().is_empty() {
            outside.fs.create_dir_all(parent)?;
        }
        Self::make_below(&outside.within(parent)?, dir)
    }

    /// Makes the directory `dir`, which is below the one that `parent` is the world of.
    pub(super) fn make_below(parent: &Env, dir: &'a Path) -> Result<NewDir<'a>> {
        parent.fs.create_dir(dir).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => not_new(dir),
            _ => error,
        })?;
        let env = parent.within(dir)?;
        Ok(NewDir { parent: parent.clone(), env, dir })
    }

    /// Removes it with all files of a store that are in it. Nothing is reported: what made the copy fail is what to tell.
    pub(super) fn discard(&self) {
        drop(remove_own_dir(&self.parent, self.dir));
    }
}

/// Refuses a directory for a copy that exists.
pub(super) fn check_new(env: &Env, dir: &Path) -> Result<()> {
    if env.outside().fs.exists(dir)? { Err(not_new(dir)) } else { Ok(()) }
}

fn not_new(dir: &Path) -> Error {
    Error::new(ErrorKind::AlreadyExists, "a copy needs a directory that does not exist yet").at(dir)
}
