//! Restores a store from a backup.
//!
//! Everything except the manifest is copied, verified and synced first. The manifest gets its name last. After a crash
//! before that, the directory does not open as a store.

use std::path::Path;

use super::backup::{BackupInfo, lock};
use super::catalog::{Catalog, Part, Shelf};
use super::file_copy::copy_file;
use super::new_dir::NewDir;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Cancel, LockMode};
use crate::open::LOCK_FILE;
use crate::options::Options;

/// Makes a store in the directory `target`, which must not exist, from backup number `id` in `dir` (`None`: the
/// newest). Every byte of the backup is verified. When this returns, the store survives power loss, and opens like any
/// other. After an error no part of it is left. After a crash, a directory may be left that does not open as a store.
///
/// # Errors
/// `AlreadyExists` when `target` exists; `NotFound` when the backup does not exist; `Corruption`, naming the file, when
/// a file of the backup is damaged or missing; `Locked` while a backup is being made; `Io`; `OutOfSpace`.
///
/// # Example
/// ```
/// # fn main() -> esker::Result<()> {
/// # let root = tempfile::tempdir().expect("a temporary directory");
/// # let (path, backups) = (root.path().join("store"), root.path().join("backups"));
/// let options = esker::Options::default();
/// let db = esker::Db::open(&path, options.clone())?;
/// db.put("key", "old")?;
/// db.backup(&backups)?;
/// db.put("key", "new")?;
/// esker::restore(&backups, None, root.path().join("restored"), &options)?;
/// let restored = esker::Db::open(root.path().join("restored"), options)?;
/// assert_eq!(restored.get_vec("key")?.as_deref(), Some(&b"old"[..]));
/// # Ok(())
/// # }
/// ```
pub fn restore(
    dir: impl AsRef<Path>,
    id: Option<u64>,
    target: impl AsRef<Path>,
    options: &Options,
) -> Result<BackupInfo> {
    restore_until(dir, id, target, options, || false)
}

/// As [`restore`], until `cancelled` returns true. It is called before each read of the backup, in the calling thread.
///
/// # Errors
/// As [`restore`], and `Cancelled`: then nothing is left of the store.
pub fn restore_until(
    dir: impl AsRef<Path>,
    id: Option<u64>,
    target: impl AsRef<Path>,
    options: &Options,
    cancelled: impl Fn() -> bool + Send + Sync + 'static,
) -> Result<BackupInfo> {
    let dir = dir.as_ref();
    // Only reads are cancelled: the calls that remove the written files must still work.
    let env = options.env.until(&Cancel::when(cancelled)).within(dir)?;
    let shelf = Shelf::read(&env, dir)?;
    let _lock = lock(&env, dir, LockMode::Shared)?;
    let wanted = id.map_or_else(|| "backup".to_owned(), |id| format!("backup {id}"));
    let id = id.or(shelf.ids.last().copied()).filter(|id| shelf.ids.contains(id));
    let id =
        id.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no {wanted} here")).at(dir))?;
    let catalog = Catalog::read(&env, dir, id)?;
    // Of two restores to one directory, the one that creates it continues.
    let target = NewDir::make(&options.env, target.as_ref())?;
    fill(&env, dir, &catalog, &target).inspect_err(|_| target.discard())?;
    Ok(catalog.info())
}

fn fill(env: &Env, dir: &Path, catalog: &Catalog, target: &NewDir<'_>) -> Result<()> {
    let NewDir { env: to, dir: new, .. } = target;
    let (last, rest): (Vec<&Part>, Vec<&Part>) =
        catalog.parts.iter().partition(|part| Catalog::is_manifest(part));
    for part in rest {
        copy_verified(env, &dir.join(&part.stored), part, (to, &new.join(&part.name)))?;
    }
    drop(to.fs.create(&new.join(LOCK_FILE))?);
    for part in last {
        let temporary = new.join(format!("{}.tmp", part.name));
        copy_verified(env, &dir.join(&part.stored), part, (to, &temporary))?;
        to.fs.sync_dir(new)?;
        to.fs.rename(&temporary, &new.join(&part.name))?;
    }
    to.fs.sync_dir(new)
}

fn copy_verified(env: &Env, stored: &Path, part: &Part, to: (&Env, &Path)) -> Result<()> {
    let copied = copy_file((env, stored), to).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::corruption(stored, 0, "a file of the backup is missing"),
        _ => error,
    })?;
    if copied == (part.len, part.sum) {
        return Ok(());
    }
    let (expected, found) = (part.len, copied.0);
    let message = format!(
        "a file of the backup does not match its checksum ({found} bytes, expected {expected}); another \
         backup may be sound"
    );
    Err(Error::corruption(stored, 0, message))
}
