//! One tree of an open store as a store in another directory, by hard links.
//!
//! ```text
//! tree held     tables, blob files and marks linked
//! let go        an empty log written; names synced; manifest
//! ```
//! The manifest comes last: before it is there, nothing can be opened in the directory, and after it nothing is missing. Where
//! the directory is on another file system, the links are made in the store's own first, and the files copied from there, so
//! that nobody waits for that.

use std::path::{Path, PathBuf};

use super::checkpoint::{copy_marks, make_new_dir};
use super::file_copy::copy_file;
use crate::blob::blob_path;
use crate::env::Env;
use crate::error::{ErrorKind, Result};
use crate::log::replay::segment_path;
use crate::log::segment::create_empty;
use crate::open::{BACKUP_DIR, LOCK_FILE, remove_flat_dir};
use crate::store::Store;
use crate::version::edit::ManifestState;
use crate::version::manifest::Manifest;
use crate::version::tables::table_path;

/// The files that were exported or imported with a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeFiles {
    /// Tables and files of huge values.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that were copied, because the directories are on different file systems. The others have a second name now.
    pub copied_files: u64,
    /// Their bytes.
    pub copied_bytes: u64,
}

impl TreeFiles {
    pub(super) fn note(&mut self, len: u64, copied: bool) {
        self.files += 1;
        self.bytes += len;
        self.copied_files += u64::from(copied);
        self.copied_bytes += if copied { len } else { 0 };
    }
}

/// Makes a store in `dir`, which must not exist, of the tree called `name`.
pub(crate) fn export(store: &Store, name: &str, dir: &Path) -> Result<TreeFiles> {
    let env = &store.env;
    make_new_dir(env, dir)?;
    let made = match link(store, name, dir) {
        Err(error) if error.kind() == ErrorKind::Unsupported => copy(store, name, dir),
        linked => linked,
    };
    let finished = made.and_then(|(state, files)| finish(env, dir, state).map(|()| files));
    // The first error is the one to tell.
    finished.inspect_err(|_| drop(remove_flat_dir(env, dir)))
}

/// Gives the tree's files second names in `dir`.
fn link(store: &Store, name: &str, dir: &Path) -> Result<(ManifestState, TreeFiles)> {
    let fs = &store.env.fs;
    store.while_exportable(name, |state| {
        let mut files = TreeFiles::default();
        for (from, to) in files_of(state, &store.dir, dir) {
            fs.hard_link(&from, &to)?;
            files.note(fs.file_len(&to)?, false);
        }
        copy_marks(store, state, dir)?;
        Ok(files)
    })
}

/// Copies the tree's files to `dir`, where they cannot be linked.
fn copy(store: &Store, name: &str, dir: &Path) -> Result<(ManifestState, TreeFiles)> {
    let env = &store.env;
    let _alone = store.backing_up.lock();
    let staging = store.dir.join(BACKUP_DIR);
    remove_flat_dir(env, &staging)?;
    env.fs.create_dir_all(&staging)?;
    let linked = link(store, name, &staging);
    let copied = linked.and_then(|(state, _)| {
        let mut files = TreeFiles::default();
        for (from, to) in files_of(&state, &staging, dir) {
            if env.fs.exists(&to)? {
                env.fs.remove_file(&to)?;
            }
            let (len, _) = copy_file(env, &from, &to)?;
            files.note(len, true);
        }
        copy_marks(store, &state, dir)?;
        Ok((state, files))
    });
    // What cannot be removed now goes when the store is opened.
    drop(remove_flat_dir(env, &staging));
    copied
}

/// What a store that says `state` and lies in `from` has of tables and blob files, each with what it is called in `to`.
fn files_of(state: &ManifestState, from: &Path, to: &Path) -> Vec<(PathBuf, PathBuf)> {
    let tables = state.files().into_iter().map(|file| (table_path(from, file), table_path(to, file)));
    let blobs = state.blobs.live.keys().map(|&file| (blob_path(from, file), blob_path(to, file)));
    tables.chain(blobs).collect()
}

/// Makes a store of the files in `dir`.
fn finish(env: &Env, dir: &Path, state: ManifestState) -> Result<()> {
    create_empty(env, &segment_path(dir, 1), state.last_seq + 1)?;
    drop(env.fs.create(&dir.join(LOCK_FILE))?);
    env.fs.sync_dir(dir)?;
    Manifest::create(env, dir, 1, state).map(drop)
}
