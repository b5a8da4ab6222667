//! Files that an opening removes because its new manifest does not need them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::OnDisk;
use crate::blob::{BlobFileId, blob_path};
use crate::env::Env;
use crate::error::Result;
use crate::fs::gone;
use crate::fs::gone::remove_for_good;
use crate::version::edit::ManifestState;
use crate::version::manifest::copy_path;
use crate::version::tables::table_path;

pub(super) struct Strays {
    files: Vec<PathBuf>,
    /// Log segments and blob files: a power loss must not bring one back with the bytes of another file.
    looked_into: Vec<PathBuf>,
    /// Marks of imports that have no file left after this.
    marks: Vec<PathBuf>,
}

impl Strays {
    /// Finds the files that a new manifest with the state `state` does not need, except `kept`. Of the blob files,
    /// those in `blobs` are removed.
    pub(super) fn find(
        found: &OnDisk,
        dir: &Path,
        state: &ManifestState,
        blobs: &BTreeSet<BlobFileId>,
        kept: &BTreeSet<PathBuf>,
    ) -> Strays {
        let (listing, needed) = (&found.listing, state.files());
        let segments = found.segments.dead(state.floor).into_iter().filter(|path| !kept.contains(path));
        // This overwrites a copy that an interrupted opening has left there.
        let new_copy = copy_path(dir, listing.manifest() + 1);
        let manifests = listing.manifest_paths(dir).filter(|path| *path != new_copy);
        let tables = listing.tables.iter().filter(|file| !needed.contains(file));
        let tables = tables.map(|&file| table_path(dir, file));
        let temporaries = listing.temporaries.iter().cloned();
        let blob_files = blobs.iter().map(|&file| blob_path(dir, file));
        let stays = |file| {
            needed.contains(&file) || (listing.blobs.binary_search(&file).is_ok() && !blobs.contains(&file))
        };
        let marks = listing.imports_over(stays).map(|imported| imported.mark(dir)).collect();
        let files = manifests.chain(tables).chain(temporaries).collect();
        Strays { files, looked_into: segments.chain(blob_files).collect(), marks }
    }

    /// Marks are removed last: if a power loss brings a file of an import back, its mark identifies it.
    pub(super) fn remove(mut self, env: &Env, dir: &Path) -> Result<()> {
        let remove = |path: &PathBuf| gone::remove_file(&*env.fs, path);
        self.files.iter().try_for_each(remove)?;
        remove_for_good(&*env.fs, dir, &mut self.looked_into, |path| path)?;
        if self.marks.is_empty() {
            return Ok(());
        }
        env.fs.sync_dir(dir)?;
        self.marks.iter().try_for_each(remove)
    }
}
