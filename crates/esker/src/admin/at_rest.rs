//! Copies a store that is open for reading only. No process writes to its files meanwhile. Therefore they are copied as
//! they are. The copy is opened as after a crash: its log is replayed, as it was here.

use std::path::Path;
use std::sync::Arc;

use super::checkpoint::{copy_marks, copy_segment};
use super::file_copy::copy_file;
use super::new_dir::{NewDir, check_new};
use crate::blob::blob_path;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::DirLock;
use crate::log::wal::LogPart;
use crate::open::{LOCK_FILE, OnDisk};
use crate::store::Store;
use crate::version::edit::ManifestState;
use crate::version::manifest::Manifest;
use crate::version::tables::table_path;

/// Makes a copy of a store at rest in `dir`, which must not exist.
pub(crate) fn checkpoint(store: &Store, dir: &Path) -> Result<()> {
    check_new(store.env(), dir)?;
    let at_rest = AtRest::read(store)?;
    let target = NewDir::make(store.env(), dir)?;
    // Report the first error.
    at_rest.copy(store, &target).map(drop).inspect_err(|_| target.discard())
}

/// The files of a store at rest.
pub(super) struct AtRest {
    disk: OnDisk,
    /// Keeps writers out, even if the store is closed meanwhile.
    _lock: Option<Arc<dyn DirLock>>,
}

impl AtRest {
    pub(super) fn read(store: &Store) -> Result<AtRest> {
        let lock = store.blobs().locked()?;
        let mut disk = OnDisk::read(store.env(), store.dir())?;
        // The copy must contain all replayed records.
        disk.state.log_synced = disk.state.log_synced.max(store.replayed().position);
        Ok(AtRest { disk, _lock: lock })
    }

    /// The number that a store shares with its copies.
    pub(super) fn identity(&self) -> u64 {
        self.disk.state.identity
    }

    /// Leaves out all other trees.
    pub(super) fn keep_tree(&mut self, name: &str) -> Result<()> {
        let state = &mut self.disk.state;
        state.trees.retain(|_, record| record.name == name);
        let Some(&kept) = state.trees.keys().next() else {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no tree \"{name}\"")));
        };
        state.tables.retain(|&(tree, ..), _| tree == kept);
        Ok(())
    }

    /// The names of tables and blob files, which the copy has unchanged. The log may point into blob files that the
    /// manifest does not name yet.
    pub(super) fn names(&self) -> Vec<String> {
        let tables = self.disk.state.files().into_iter().map(|file| table_path("".as_ref(), file));
        let blobs = self.disk.listing.blobs.iter().map(|&file| blob_path("".as_ref(), file));
        tables.chain(blobs).map(|path| path.to_string_lossy().into_owned()).collect()
    }

    /// Makes the copy in `target`. Its files are copied: where the store cannot be written, they cannot get second names.
    /// Returns how many tables and blob files it has, and their size in bytes.
    pub(super) fn copy(self, store: &Store, target: &NewDir<'_>) -> Result<(u64, u64)> {
        let (mut files, mut bytes) = (0, 0);
        for file in self.names() {
            let (from, to) = (store.dir().join(&file), target.dir.join(&file));
            bytes += copy_file((store.env(), &from), (&target.env, &to))?.0;
            files += 1;
        }
        self.fill(store, target)?;
        Ok((files, bytes))
    }

    /// Makes everything else in `target`. Returns the state in its manifest.
    pub(super) fn fill(self, store: &Store, target: &NewDir<'_>) -> Result<ManifestState> {
        let OnDisk { listing, state, .. } = self.disk;
        for (number, path) in listing.segments {
            if number >= state.floor.segment {
                let end = store.env().fs.file_len(&path)?;
                copy_segment(store, &LogPart { path, end }, target)?;
            }
        }
        copy_marks(store, &state, target)?;
        let manifest = Manifest::create(&target.env, target.dir, 1, state)?;
        if !target.env.fs.exists(&target.dir.join(LOCK_FILE))? {
            drop(target.env.fs.create(&target.dir.join(LOCK_FILE))?);
        }
        target.env.fs.sync_dir(target.dir)?;
        Ok(manifest.state)
    }
}
