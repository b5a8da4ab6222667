//! Files that an opening removes, because the manifest that it has written does not need them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Found;
use crate::blob::{BlobFileId, blob_path};
use crate::env::Env;
use crate::error::Result;
use crate::fs::gone;
use crate::fs::gone::remove_for_good;
use crate::version::edit::ManifestState;
use crate::version::manifest::copy_path;
use crate::version::tables::table_path;

/// What is to go.
pub(super) struct Strays {
    files: Vec<PathBuf>,
    /// Log segments and blob files. Recovery reads each one that it finds, so a power loss must not bring one back with the
    /// bytes of another file.
    looked_into: Vec<PathBuf>,
    /// Marks of imports, of which then no file is left.
    marks: Vec<PathBuf>,
}

impl Strays {
    /// The files that a new manifest which says `state` does not need, but `kept`. Of those of huge values `blobs` go.
    pub(super) fn find(
        found: &Found,
        dir: &Path,
        state: &ManifestState,
        blobs: &BTreeSet<BlobFileId>,
        kept: &BTreeSet<PathBuf>,
    ) -> Strays {
        let (listing, needed) = (&found.listing, state.files());
        let segments = found.segments.dead(state.floor).into_iter().filter(|path| !kept.contains(path));
        // What an opening that was cut off left there is written over.
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

    /// Marks go last: a file of an import that comes back after a loss of power is known by its mark.
    pub(super) fn remove(mut self, env: &Env, dir: &Path) -> Result<()> {
        remove_all(env, self.files.into_iter())?;
        remove_for_good(&*env.fs, dir, &mut self.looked_into, |path| path)?;
        if self.marks.is_empty() {
            return Ok(());
        }
        env.fs.sync_dir(dir)?;
        remove_all(env, self.marks.into_iter())
    }
}

/// Removes files of which some may be gone.
fn remove_all(env: &Env, mut paths: impl Iterator<Item = PathBuf>) -> Result<()> {
    paths.try_for_each(|path| gone::remove_file(&*env.fs, &path))
}
