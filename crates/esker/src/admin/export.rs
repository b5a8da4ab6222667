//! Exports one tree of an open store as a store in another directory, by hard links.
//!
//! ```text
//! writers wait  tables, blob files and marks linked
//! they go on    an empty log written; names synced; manifest
//! ```
//! The manifest comes last. Before it is there, the directory does not open as a store; once it is there, nothing is
//! missing. If the directory is on another file system, the links are first made in the store's own directory, and the
//! files are copied from there. This shortens the wait of the writers.

use std::path::{Path, PathBuf};

use super::at_rest::AtRest;
use super::backup::Staging;
use super::checkpoint::copy_marks;
use super::file_copy::copy_file;
use super::new_dir::{NewDir, check_new};
use crate::blob::blob_path;
use crate::error::{ErrorKind, Result};
use crate::fs::gone;
use crate::log::replay::segment_path;
use crate::log::segment::create_empty;
use crate::open::{BACKUP_DIR, LOCK_FILE};
use crate::options::Options;
use crate::store::{Store, Whole};
use crate::version::edit::ManifestState;
use crate::version::manifest::Manifest;
use crate::version::tables::table_path;

/// The files that were exported or imported with a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeFiles {
    /// The number of tables and blob files.
    pub files: u64,
    /// Their total size in bytes.
    pub bytes: u64,
    /// The number of files that were copied; if it is 0, all were linked. Files are copied between file systems, and from a store
    /// that is open only for reading, with its log.
    pub copied_files: u64,
    /// The size of the copied files in bytes. With the log, it can be more than `bytes`.
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

/// Makes a store in `dir`, which must not exist, from the trees of `what`, with `tags`.
pub(crate) fn export(store: &Store, what: Whole<'_>, tags: &[(&str, &str)], dir: &Path) -> Result<TreeFiles> {
    let target = NewDir::make(store.env(), dir)?;
    let made = match link(store, what, tags, &target) {
        Err(error) if error.kind() == ErrorKind::Unsupported => copy(store, what, tags, &target),
        linked => linked,
    };
    let finished = made.and_then(|(state, files)| finish(&target, state).map(|()| files));
    // Report the first error.
    finished.inspect_err(|_| target.discard())
}

/// As [`export`] of the tree `name`, for a store that is open for reading only. Some of its writes may be only in its
/// log, and its directory cannot be written to. Therefore the tree is first copied, with the log, to its own store next
/// to `dir`.
pub(crate) fn export_at_rest(store: &Store, name: &str, dir: &Path) -> Result<TreeFiles> {
    check_new(store.env(), dir)?;
    // Without a slash at the end, which would lead into the directory.
    let mut beside = dir.components().collect::<PathBuf>().into_os_string();
    beside.push(".copy.tmp");
    let beside = PathBuf::from(beside);
    let copy = NewDir::make(store.env(), &beside)?;
    let exported = copy_tree(store, name, &copy).and_then(|copied| {
        let env = store.env().outside();
        let opened = crate::open::open(&beside, Options { env, ..store.options().clone() }, false)?;
        let linked = export(&opened, Whole::Tree(name), &[], dir)?;
        Ok(TreeFiles { copied_files: copied.0, copied_bytes: copied.1, ..linked })
    });
    copy.discard();
    exported
}

/// Copies the files of a store at rest that the tree `name` needs. Returns their number and their size in bytes.
fn copy_tree(store: &Store, name: &str, copy: &NewDir<'_>) -> Result<(u64, u64)> {
    let mut at_rest = AtRest::read(store)?;
    at_rest.keep_tree(name)?;
    at_rest.copy(store, copy)
}

/// Gives the trees' files second names in `target`.
fn link(
    store: &Store,
    what: Whole<'_>,
    tags: &[(&str, &str)],
    target: &NewDir<'_>,
) -> Result<(ManifestState, TreeFiles)> {
    let (fs, target_fs) = (&store.env().fs, &target.env.fs);
    store.reshaper().while_exportable(what, tags, |state| {
        let mut files = TreeFiles::default();
        for (from, to) in files_of(state, store.dir(), target.dir) {
            fs.hard_link_to(&from, &**target_fs, &to)?;
            files.note(target_fs.file_len(&to)?, false);
        }
        copy_marks(store, state, target)?;
        Ok(files)
    })
}

/// Copies the trees' files to `target`, if they cannot be linked.
fn copy(
    store: &Store,
    what: Whole<'_>,
    tags: &[(&str, &str)],
    target: &NewDir<'_>,
) -> Result<(ManifestState, TreeFiles)> {
    let _alone = store.begin_backup();
    let staging = store.dir().join(BACKUP_DIR);
    let staging = Staging::make((store.env(), store.dir()), &staging)?;
    let (state, _) = link(store, what, tags, &staging.new)?;
    let (env, mut files) = (&target.env, TreeFiles::default());
    for (from, to) in files_of(&state, staging.new.dir, target.dir) {
        gone::remove_file(&*env.fs, &to)?;
        let (len, _) = copy_file((&staging.new.env, &from), (env, &to))?;
        files.note(len, true);
    }
    copy_marks(store, &state, target)?;
    Ok((state, files))
}

/// The tables and blob files of a store with the state `state` in `from`, each with its path in `to`.
fn files_of(state: &ManifestState, from: &Path, to: &Path) -> Vec<(PathBuf, PathBuf)> {
    let tables = state.files().into_iter().map(|file| (table_path(from, file), table_path(to, file)));
    let blobs = state.blobs.live.keys().map(|&file| (blob_path(from, file), blob_path(to, file)));
    tables.chain(blobs).collect()
}

/// Adds to `target` the files that make it a store.
fn finish(target: &NewDir<'_>, state: ManifestState) -> Result<()> {
    let NewDir { env, dir, .. } = target;
    create_empty(env, &segment_path(dir, 1), state.last_seq + 1)?;
    drop(env.fs.create(&dir.join(LOCK_FILE))?);
    env.fs.sync_dir(dir)?;
    Manifest::create(env, dir, 1, state).map(drop)
}
