//! Backups of an open store. Several backups share one directory, usually on another disk.
//!
//! ```text
//! checkpoint   STORE/backup.tmp: the store at one moment, by hard links; writes go on from here
//! copy         files that the directory lacks, each file synced, with the checksum of all its bytes
//! catalog      written, synced and renamed last: before that nothing has happened
//! ```
//! A backup that fails removes its copies. A killed one leaves files that no catalog names, which the next backup
//! removes. Its links stay in the store until the store is opened, or until its next backup.
//!
//! A store that is open for reading only is at rest, and may be on read-only media. Its files are copied from their
//! places. The files that only the copy has are first made in `backup.tmp` of the directory of backups.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::at_rest::AtRest;
use super::catalog::{Catalog, Part, Shelf, catalog_path, own_name, shared_name, temporary_path};
use super::checkpoint;
use super::file_copy::copy_file;
use super::new_dir::NewDir;
use crate::blob::blob_path;
use crate::env::{Env, moment_at};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{DirLock, LockMode, gone};
use crate::open::{BACKUP_DIR, LOCK_FILE, clear_backup_dir};
use crate::options::Options;
use crate::store::Store;
use crate::version::edit::ManifestState;
use crate::version::manifest::{copy_number, manifest_number};
use crate::version::tables::table_path;

/// The result of [`Db::backup`](crate::Db::backup).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupReport {
    /// The backup's number in its directory, for [`restore`](crate::restore).
    pub id: u64,
    /// The number of its files.
    pub files: u64,
    /// Their total size in bytes.
    pub bytes: u64,
    /// The number of files that were copied because no earlier backup had them.
    pub copied_files: u64,
    /// The size of the copied files in bytes.
    pub copied_bytes: u64,
}

/// A backup in a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupInfo {
    /// Its number.
    pub id: u64,
    /// When it was made, in microseconds since 1970.
    pub made_us: u64,
    /// The number of its files.
    pub files: u64,
    /// Their total size in bytes. A file that several backups share counts in each.
    pub bytes: u64,
}

impl BackupInfo {
    /// [`BackupInfo::made_us`] as a moment. `None` if it is too far away for the system's [`SystemTime`].
    pub fn made_at(&self) -> Option<SystemTime> {
        moment_at(self.made_us)
    }
}

/// Lists the backups in `dir`, oldest first.
///
/// # Errors
/// `NotFound` if the directory does not exist, `InvalidInput` if it holds something else, `Corruption` if the catalog
/// of a backup is damaged, `Io`.
pub fn backups(dir: impl AsRef<Path>, options: &Options) -> Result<Vec<BackupInfo>> {
    let dir = dir.as_ref();
    let env = options.env.within(dir)?;
    Ok(read_all(&env, dir, &Shelf::read(&env, dir)?)?.iter().map(Catalog::info).collect())
}

/// Removes all but the newest `keep` backups (at least 1) in `dir`, and the files that only they needed. Returns how
/// many backups were removed.
///
/// # Errors
/// As [`backups`], and `Locked` while a backup is being made or restored.
pub fn forget_backups(dir: impl AsRef<Path>, keep: usize, options: &Options) -> Result<usize> {
    let dir = dir.as_ref();
    let env = &options.env.within(dir)?;
    // This comes before the lock, which may replace the lock file: `dir` may not be a directory of backups.
    Shelf::read(env, dir)?;
    let _lock = lock(env, dir, LockMode::Exclusive)?;
    let mut catalogs = read_all(env, dir, &Shelf::read(env, dir)?)?;
    let kept = catalogs.split_off(catalogs.len().saturating_sub(keep.max(1)));
    for old in &catalogs {
        // The rename prevents a crash from bringing the name back with other bytes (see `fs/gone.rs`).
        env.fs.rename(&catalog_path(dir, old.id), &temporary_path(dir, old.id))?;
    }
    // A catalog must be gone before its files.
    env.fs.sync_dir(dir)?;
    remove_unnamed(env, dir, &kept)?;
    Ok(catalogs.len())
}

/// Locks `dir` against other backups and restores.
pub(super) fn lock(env: &Env, dir: &Path, mode: LockMode) -> Result<Box<dyn DirLock>> {
    env.fs.lock(&dir.join(LOCK_FILE), mode).map_err(|error| match error.kind() {
        ErrorKind::Locked => {
            let message = "another backup into this directory, or a restore from it, is running";
            Error::new(ErrorKind::Locked, message).at(dir)
        }
        _ => error,
    })
}

fn read_all(env: &Env, dir: &Path, shelf: &Shelf) -> Result<Vec<Catalog>> {
    shelf.ids.iter().map(|&id| Catalog::read(env, dir, id)).collect()
}

/// Removes the files that interrupted and forgotten backups have left in `dir`.
fn remove_unnamed(env: &Env, dir: &Path, catalogs: &[Catalog]) -> Result<()> {
    let shelf = Shelf::read(env, dir)?;
    let parts = catalogs.iter().flat_map(|catalog| &catalog.parts);
    let named: BTreeSet<&str> = parts.map(|part| part.stored.as_str()).collect();
    let unnamed = shelf.stored.iter().filter(|stored| !named.contains(stored.as_str()));
    unnamed.chain(&shelf.temporaries).try_for_each(|name| env.fs.remove_file(&dir.join(name)))
}

/// A directory inside the store's directory for links to the files to copy. Dropping it removes the directory.
pub(super) struct Staging<'a> {
    pub(super) new: NewDir<'a>,
    /// An opening leaves a locked directory alone: the store may be closed, and opened again, while a backup copies.
    lock: Option<Box<dyn DirLock>>,
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        // The next opening of the store removes files that cannot be removed now.
        self.new.discard();
        self.lock = None;
    }
}

impl<'a> Staging<'a> {
    /// Makes the directory `dir`, the [`BACKUP_DIR`] in the directory `home` of `env`, and locks it.
    pub(super) fn make((env, home): (&Env, &Path), dir: &'a Path) -> Result<Staging<'a>> {
        if !clear_backup_dir(env, home)? {
            let message =
                "a backup that began before the store was opened again is still running: wait for it";
            return Err(Error::new(ErrorKind::Locked, message).at(dir));
        }
        let new = NewDir::make_below(env, dir)?;
        // On failure nothing is removed: an opening may have cleared the directory and made its own. Ours is empty, and
        // the next opening clears it.
        let lock = new.env.fs.lock(&dir.join(LOCK_FILE), LockMode::Exclusive)?;
        Ok(Staging { new, lock: Some(lock) })
    }

    /// The files of a checkpoint with the state `state` in it and of `in_place`, which lie in the store, each with its name
    /// in the directory of backups.
    fn files(&self, state: &ManifestState, in_place: &[String], id: u64) -> Result<Vec<(String, String)>> {
        let tables = state.tables.values().map(|info| (table_path(Path::new(""), info.file), info.salt));
        let sealed = state.blobs.live.iter().filter(|(_, record)| record.info.sealed);
        let blobs = sealed.map(|(&file, record)| (blob_path(Path::new(""), file), record.info.salt));
        let salts: BTreeMap<PathBuf, u64> = tables.chain(blobs).collect();
        let mut names = self.new.env.fs.list(self.new.dir)?;
        // A backup needs no copy of the manifest: it has checksums of whole files.
        names.retain(|name| name != LOCK_FILE && copy_number(name).is_none());
        names.extend_from_slice(in_place);
        // The manifest comes last: a directory without one is not a store.
        names.sort_by_key(|name| (manifest_number(name).is_some(), name.clone()));
        let stored = names.into_iter().map(|name| {
            let salt = salts.get(Path::new(&name));
            let stored = salt.map_or_else(|| own_name(&name, id), |&salt| shared_name(&name, salt));
            (name, stored)
        });
        Ok(stored.collect())
    }
}

pub(crate) fn backup(store: &Store, dir: &Path) -> Result<BackupReport> {
    let outside = store.env().outside();
    outside.fs.create_dir_all(dir)?;
    let env = &outside.within(dir)?;
    let shelf = Shelf::read(env, dir)?;
    let _lock = lock(env, dir, LockMode::Exclusive)?;
    let catalogs = read_all(env, dir, &shelf)?;
    check_same_store(store, dir, &catalogs)?;
    remove_unnamed(env, dir, &catalogs)?;
    let parts = catalogs.iter().flat_map(|catalog| &catalog.parts);
    let mut known: BTreeMap<&str, &Part> = parts.map(|part| (part.stored.as_str(), part)).collect();
    // A part that was lost is copied again if the store still has it.
    known.retain(|stored, part| env.fs.file_len(&dir.join(stored)).is_ok_and(|len| len == part.len));

    let id = shelf.ids.last().map_or(1, |last| last + 1);
    copy(store, (env, dir), &known, id).inspect_err(|_| remove_partial(env, dir))
}

/// Removes the files of a backup that has failed: on a full disk they would keep the space. The next backup removes
/// files that cannot be removed now. Reports nothing: the backup's error is the one to report.
fn remove_partial(env: &Env, dir: &Path) {
    // The catalog may have got its name before the error: then its files are named.
    let left = Shelf::read(env, dir).and_then(|shelf| read_all(env, dir, &shelf));
    drop(left.and_then(|catalogs| remove_unnamed(env, dir, &catalogs)));
}

/// Copies the files of the store that are not `known`, and writes the catalog of backup `id`.
fn copy(
    store: &Store,
    (env, dir): (&Env, &Path),
    known: &BTreeMap<&str, &Part>,
    id: u64,
) -> Result<BackupReport> {
    let _alone = store.begin_backup();
    let home = if store.is_read_only() { (env, dir) } else { (store.env(), store.dir()) };
    let staging_dir = home.1.join(BACKUP_DIR);
    let (staging, state, in_place);
    if store.is_read_only() {
        staging = Staging::make(home, &staging_dir)?;
        let at_rest = AtRest::read(store)?;
        in_place = at_rest.names();
        state = at_rest.fill(store, &staging.new)?;
    } else {
        checkpoint::prepare(store)?;
        staging = Staging::make(home, &staging_dir)?;
        state = checkpoint::fill(store, &staging.new)?;
        in_place = Vec::new();
    }
    let in_place_names: BTreeSet<&str> = in_place.iter().map(String::as_str).collect();
    let mut catalog = Catalog { id, made_us: env.clock.wall_us(), store: state.identity, parts: Vec::new() };
    let mut report = BackupReport { id, ..BackupReport::default() };
    for (name, stored) in staging.files(&state, &in_place, id)? {
        let (len, sum) = match known.get(stored.as_str()) {
            Some(part) => (part.len, part.sum),
            None => {
                let target = dir.join(&stored);
                // `target` may be a copy that was cut short or lengthened since.
                gone::remove_file(&*env.fs, &target)?;
                let from = match in_place_names.contains(name.as_str()) {
                    true => (store.env(), store.dir().join(&name)),
                    false => (&staging.new.env, staging_dir.join(&name)),
                };
                let copied = copy_file((from.0, &from.1), (env, &target))?;
                report.copied_files += 1;
                report.copied_bytes += copied.0;
                copied
            }
        };
        catalog.parts.push(Part { name, stored, len, sum });
    }
    env.fs.sync_dir(dir)?;
    catalog.write(env, dir)?;
    let BackupInfo { files, bytes, .. } = catalog.info();
    Ok(BackupReport { files, bytes, ..report })
}

/// Refuses a directory with backups of another store. Otherwise [`forget_backups`] would remove backups of one of the
/// two stores. A restored store, or a checkpoint, counts as the same store.
fn check_same_store(store: &Store, dir: &Path, catalogs: &[Catalog]) -> Result<()> {
    let known = store.versions().lock().known().map(|known| known.identity);
    let identity = match known {
        Some(identity) => identity,
        None => AtRest::read(store)?.identity(),
    };
    let newest = catalogs.iter().rev().find(|catalog| catalog.store != 0);
    match newest {
        Some(newest) if identity != 0 && newest.store != identity => {
            let message = format!(
                "backup {} in this directory is of another store; each store needs a directory of backups of its own",
                newest.id
            );
            Err(Error::new(ErrorKind::InvalidInput, message).at(dir))
        }
        _ => Ok(()),
    }
}
