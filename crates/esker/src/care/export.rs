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

use super::backup::new_staging;
use super::checkpoint::copy_marks;
use super::file_copy::copy_file;
use super::new_dir::NewDir;
use crate::blob::blob_path;
use crate::error::{ErrorKind, Result};
use crate::log::replay::segment_path;
use crate::log::segment::create_empty;
use crate::open::{BACKUP_DIR, LOCK_FILE};
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
    let target = NewDir::make(&store.env, dir)?;
    let made = match link(store, name, &target) {
        Err(error) if error.kind() == ErrorKind::Unsupported => copy(store, name, &target),
        linked => linked,
    };
    let finished = made.and_then(|(state, files)| finish(&target, state).map(|()| files));
    // The first error is the one to tell.
    finished.inspect_err(|_| target.discard())
}

/// Gives the tree's files second names in `target`.
fn link(store: &Store, name: &str, target: &NewDir<'_>) -> Result<(ManifestState, TreeFiles)> {
    let (fs, target_fs) = (&store.env.fs, &target.env.fs);
    store.while_exportable(name, |state| {
        let mut files = TreeFiles::default();
        for (from, to) in files_of(state, &store.dir, target.dir) {
            fs.hard_link_to(&from, &**target_fs, &to)?;
            files.note(target_fs.file_len(&to)?, false);
        }
        copy_marks(store, state, target)?;
        Ok(files)
    })
}

/// Copies the tree's files to `target`, where they cannot be linked.
fn copy(store: &Store, name: &str, target: &NewDir<'_>) -> Result<(ManifestState, TreeFiles)> {
    let _alone = store.backing_up.lock();
    let staging = store.dir.join(BACKUP_DIR);
    let (staging, _lock) = new_staging(store, &staging)?;
    let copied = link(store, name, &staging).and_then(|(state, _)| {
        let (env, mut files) = (&target.env, TreeFiles::default());
        for (from, to) in files_of(&state, staging.dir, target.dir) {
            if env.fs.exists(&to)? {
                env.fs.remove_file(&to)?;
            }
            let (len, _) = copy_file((&staging.env, &from), (env, &to))?;
            files.note(len, true);
        }
        copy_marks(store, &state, target)?;
        Ok((state, files))
    });
    // What cannot be removed now goes when the store is opened.
    staging.discard();
    copied
}

/// What a store that says `state` and lies in `from` has of tables and blob files, each with what it is called in `to`.
fn files_of(state: &ManifestState, from: &Path, to: &Path) -> Vec<(PathBuf, PathBuf)> {
    let tables = state.files().into_iter().map(|file| (table_path(from, file), table_path(to, file)));
    let blobs = state.blobs.live.keys().map(|&file| (blob_path(from, file), blob_path(to, file)));
    tables.chain(blobs).collect()
}

/// Makes a store of the files in `target`.
fn finish(target: &NewDir<'_>, state: ManifestState) -> Result<()> {
    let NewDir { env, dir, .. } = target;
    create_empty(env, &segment_path(dir, 1), state.last_seq + 1)?;
    drop(env.fs.create(&dir.join(LOCK_FILE))?);
    env.fs.sync_dir(dir)?;
    Manifest::create(env, dir, 1, state).map(drop)
}
