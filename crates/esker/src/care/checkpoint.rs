//! A copy of the store in another directory, made while others write.
//!
//! Under the structure lock, so that no table or segment goes away: every table of the current version is
//! linked, and every blob file, to which nothing is appended any more and in which no hole is punched while it
//! has two names (durability rule 14); the log from the floor on is copied up to a moment
//! at which everything in it is published, and a manifest is written that says the same as ours. The copy
//! is opened as after a crash: its log is replayed. It holds every write acknowledged before the call, and
//! a prefix of later ones; when the call returns, it survives power loss.

use std::path::{Component, Path, PathBuf};

use crate::blob::blob_path;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::log::segment::clear_marks;
use crate::log::wal::LogPart;
use crate::open::{LOCK_FILE, Listing, remove_flat_dir};
use crate::store::Store;
use crate::version::edit::ManifestState;
use crate::version::imported::ImportedFiles;
use crate::version::manifest::Manifest;
use crate::version::tables::table_path;

/// Bytes copied at once.
const COPY_LEN: usize = 1 << 20;

/// Refuses a directory for a copy that exists.
fn check_new(env: &Env, dir: &Path) -> Result<()> {
    if env.fs.exists(dir)? { Err(not_new(dir)) } else { Ok(()) }
}

/// Refuses a directory for a copy, a backup or an export that lies in the store's own, by its name: nothing but the store's
/// files belongs there, and what destroys or moves the store would take the copy along.
pub(crate) fn check_outside(store: &Store, dir: &Path) -> Result<()> {
    match (plain(&store.dir), plain(dir)) {
        (Some(own), Some(inside)) if inside.starts_with(&own) => {
            let message = "this is in the store's own directory, where nothing but its files may be";
            Err(Error::new(ErrorKind::InvalidInput, message).at(dir))
        }
        _ => Ok(()),
    }
}

/// The path from the root on, without `.` and `..`.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in std::path::absolute(path).ok()?.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    Some(plain)
}

fn not_new(dir: &Path) -> Error {
    Error::new(ErrorKind::AlreadyExists, "a copy needs a directory that does not exist yet").at(dir)
}

/// Makes the directory for a copy. Who has made it, and nobody else, removes it when the copy fails.
pub(super) fn make_new_dir(env: &Env, dir: &Path) -> Result<()> {
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.map_or(Ok(()), |parent| env.fs.create_dir_all(parent))?;
    env.fs.create_dir(dir).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => not_new(dir),
        _ => error,
    })
}

/// Makes the copy in `dir`, which must not exist; returns what its manifest says.
pub(crate) fn checkpoint(store: &Store, dir: &Path) -> Result<ManifestState> {
    check_new(&store.env, dir)?;
    store.flush()?;
    // Most of what has to be sealed and synced, while writers go on.
    store.seal_blobs(true)?;
    make_new_dir(&store.env, dir)?;
    // The first error is the one to tell.
    fill(store, dir).inspect_err(|_| drop(remove_flat_dir(&store.env, dir)))
}

/// Writes the files of the copy into the empty directory `dir`.
fn fill(store: &Store, dir: &Path) -> Result<ManifestState> {
    let fs = &store.env.fs;
    let structure = store.structure.lock();
    let Some(manifest) = &structure.manifest else {
        return Err(Error::new(ErrorKind::ReadOnly, "read only"));
    };
    for file in manifest.state.files() {
        fs.hard_link(&table_path(&store.dir, file), &table_path(dir, file))?;
    }
    let mut state = manifest.state.clone();
    let parts = {
        let commit = store.commit.lock_quiet();
        state.log_synced = commit.tail.position();
        state.blobs = store.blob_files_for_copy(&state, state.log_synced)?;
        store.wal.parts(state.floor, &commit.tail)
    };
    for &file in state.blobs.live.keys() {
        let path = blob_path(&store.dir, file);
        // A file that is gone has cost its values before: the copy names the same ones.
        if fs.exists(&path)? {
            fs.hard_link(&path, &blob_path(dir, file))?;
        }
    }
    // The floor cannot move while the structure lock is held, so no segment behind it is used anew.
    for part in parts {
        copy(store, &part, dir)?;
    }
    copy_marks(store, &state, dir)?;
    drop(structure);
    let manifest = Manifest::create(&store.env, dir, 1, state)?;
    drop(fs.create(&dir.join(LOCK_FILE))?);
    fs.sync_dir(dir)?;
    Ok(manifest.state)
}

/// Makes marks in `dir` for those files of a copy that says `state` which were imported.
pub(super) fn copy_marks(store: &Store, state: &ManifestState, dir: &Path) -> Result<()> {
    let (tables, blobs) = (state.files(), &state.blobs.live);
    let is_named =
        |imported: &ImportedFiles| tables.iter().chain(blobs.keys()).any(|&file| imported.contains(file));
    let imports = Listing::read(&store.env, &store.dir)?.imports;
    imports.iter().filter(|imported| is_named(imported)).try_for_each(|imported| {
        drop(store.env.fs.create(&imported.mark(dir))?);
        Ok(())
    })
}

/// Copies a segment up to its last record. The marks stay behind: they are about our manifest and about
/// writes that come later, and the copy's manifest says how far its log must go.
fn copy(store: &Store, part: &LogPart, dir: &Path) -> Result<()> {
    let path = part.path.as_path();
    let name = path.file_name().ok_or_else(|| Error::new(ErrorKind::Io, "a segment has no name").at(path))?;
    let source = store.env.fs.open_read(path)?;
    let mut target = store.env.fs.create(&dir.join(name))?;
    let mut buf = vec![0; COPY_LEN];
    let mut offset = 0;
    while offset < part.end {
        let len = COPY_LEN.min((part.end - offset) as usize);
        source.read_exact_at(&mut buf[..len], offset)?;
        if offset == 0 {
            clear_marks(&mut buf);
        }
        target.append(&buf[..len])?;
        offset += len as u64;
    }
    target.sync()
}
