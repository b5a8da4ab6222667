//! A directory in which a copy of a store is made. If the copy fails, only the call that created the directory removes
//! it.

use std::path::Path;

use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::open::remove_own_dir;

/// A new directory. Its path is resolved once, when it is created: later changes of links have no effect.
pub(super) struct NewDir<'a> {
    /// The environment of the directory that it is in.
    parent: Env,
    pub(super) env: Env,
    pub(super) dir: &'a Path,
}

impl<'a> NewDir<'a> {
    /// Creates the directory `dir`, as the process resolves its path, and its missing parents.
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

    /// Creates the directory `dir`, which lies in the directory of the environment `parent`.
    pub(super) fn make_below(parent: &Env, dir: &'a Path) -> Result<NewDir<'a>> {
        parent.fs.create_dir(dir).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => not_new(dir),
            _ => error,
        })?;
        let env = parent.within(dir)?;
        Ok(NewDir { parent: parent.clone(), env, dir })
    }

    /// Removes the directory with all files of a store in it. Reports nothing: the copy's error is the one to report.
    pub(super) fn discard(&self) {
        drop(remove_own_dir(&self.parent, self.dir));
    }
}

/// Refuses a directory that exists as the target of a copy.
pub(super) fn check_new(env: &Env, dir: &Path) -> Result<()> {
    if env.outside().fs.exists(dir)? { Err(not_new(dir)) } else { Ok(()) }
}

fn not_new(dir: &Path) -> Error {
    Error::new(ErrorKind::AlreadyExists, "this directory exists already, and a copy needs a new one").at(dir)
}
