//! A copy of the store in another directory, made while writers continue.
//!
//! The version lock is held, so that no table or segment is removed. Every table of the current version is linked.
//! Every blob file is linked: nothing is appended to it any more, and no hole is punched while it has two names
//! (rule 14). The log is copied from the floor up to a moment at which all of it is published. A manifest with the same
//! state is written.
//!
//! The copy is opened as after a crash: its log is replayed. It holds every write acknowledged before the call and a
//! prefix of later ones. When the call returns, it survives power loss.

use std::path::Path;

use super::file_copy::copy_beginning;
use super::new_dir::{NewDir, check_new};
use crate::blob::blob_path;
use crate::error::{Error, ErrorKind, Result};
use crate::log::segment::clear_marks;
use crate::log::wal::LogPart;
use crate::open::{LOCK_FILE, Listing};
use crate::store::Store;
use crate::version::edit::ManifestState;
use crate::version::imported::ImportedFiles;
use crate::version::manifest::Manifest;
use crate::version::tables::table_path;

/// Refuses a directory for a copy, a backup or an export that lies inside the store's directory. Only the store's files
/// belong there, and a call that destroys or moves the store would take the copy along.
pub(crate) fn check_outside(store: &Store, dir: &Path) -> Result<()> {
    if store.env().fs.holds(store.dir(), dir)? {
        let message = "this is in the store's own directory, where only the store's files may be";
        return Err(Error::new(ErrorKind::InvalidInput, message).at(dir));
    }
    Ok(())
}

/// Makes the copy in `dir`, which must not exist.
pub(crate) fn checkpoint(store: &Store, dir: &Path) -> Result<()> {
    check_new(store.env(), dir)?;
    prepare(store)?;
    let target = NewDir::make(store.env(), dir)?;
    // Report the first error.
    fill(store, &target).map(drop).inspect_err(|_| target.discard())
}

/// Seals and syncs most of the files that a copy needs, while writers continue.
pub(super) fn prepare(store: &Store) -> Result<()> {
    store.flusher().flush()?;
    store.log().seal_blobs(true).map(drop)
}

pub(super) fn fill(store: &Store, target: &NewDir<'_>) -> Result<ManifestState> {
    let (fs, dir, target_fs) = (&store.env().fs, target.dir, &target.env.fs);
    let versions = store.versions().lock();
    let Some(known) = versions.known() else {
        return Err(Error::new(ErrorKind::ReadOnly, "the store was opened for reading only"));
    };
    for file in known.files() {
        fs.hard_link_to(&table_path(store.dir(), file), &**target_fs, &table_path(dir, file))?;
    }
    let mut state = known.clone();
    // The manifest may have noted the clock long ago. The copy continues from the present time.
    state.clock = store.reached_from(state.clock.us);
    let parts = {
        let commit = store.commit().lock_quiet();
        state.log_synced = commit.tail.position();
        state.blobs = store.finder().blob_files_of_copy(&state, state.log_synced)?;
        store.wal().parts(state.floor, &commit.tail)
    };
    for &file in state.blobs.live.keys() {
        let path = blob_path(store.dir(), file);
        // If a file is missing, its values were lost before. The copy names them too.
        if fs.exists(&path)? {
            fs.hard_link_to(&path, &**target_fs, &blob_path(dir, file))?;
        }
    }
    // The floor cannot move while the version lock is held, so no segment from the floor on is reused.
    for part in parts {
        copy_segment(store, &part, target)?;
    }
    copy_marks(store, &state, target)?;
    drop(versions);
    let manifest = Manifest::create(&target.env, dir, 1, state)?;
    // A backup's copy already has a lock file, and the backup holds it.
    if !target_fs.exists(&dir.join(LOCK_FILE))? {
        drop(target_fs.create(&dir.join(LOCK_FILE))?);
    }
    target_fs.sync_dir(dir)?;
    Ok(manifest.state)
}

/// Makes import marks in `target` for the imported files of a copy with the state `state`.
pub(super) fn copy_marks(store: &Store, state: &ManifestState, target: &NewDir<'_>) -> Result<()> {
    let (tables, blobs) = (state.files(), &state.blobs.live);
    let is_named =
        |imported: &ImportedFiles| tables.iter().chain(blobs.keys()).any(|&file| imported.contains(file));
    let imports = Listing::read(store.env(), store.dir())?.imports;
    imports.iter().filter(|imported| is_named(imported)).try_for_each(|imported| {
        drop(target.env.fs.create(&imported.mark(target.dir))?);
        Ok(())
    })
}

/// Copies a segment up to its last record. The marks are cleared: they describe our manifest and later writes. The
/// copy's manifest records how far its log must go.
pub(super) fn copy_segment(store: &Store, part: &LogPart, to: &NewDir<'_>) -> Result<()> {
    let path = part.path.as_path();
    let name = path.file_name().ok_or_else(|| Error::new(ErrorKind::Io, "a segment has no name").at(path))?;
    let source = store.env().fs.open_read(path)?;
    copy_beginning(&*source, part.end, (&to.env, &to.dir.join(name)), clear_marks).map(drop)
}
