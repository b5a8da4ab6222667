//! The manifest: a record log of edits, begun anew at every opening and whenever it has grown long.
//!
//! A new manifest is written beside the old one under a temporary name: first record the whole state,
//! synced, then renamed to its number, directory synced, and only then is the old one removed. So the one
//! with the highest number is whole as far as its first record; later records count once synced.

use std::path::{Path, PathBuf};

use super::edit::{Edit, ManifestState};
use crate::codec::file_number;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::log::stream::{StreamWriter, read_stream, read_stream_prefix};

/// A manifest is begun anew when it is this much longer than its first record.
const GROWTH_MAX: u64 = 1 << 20;

/// The open manifest.
#[derive(Debug)]
pub(crate) struct Manifest {
    env: Env,
    dir: PathBuf,
    number: u64,
    writer: StreamWriter,
    len_at_start: u64,
    pub(crate) state: ManifestState,
    failed: Option<Error>,
}

/// The number in a manifest's file name.
pub(crate) fn manifest_number(name: &str) -> Option<u64> {
    file_number(name.strip_prefix("manifest-")?)
}

/// Whether `name` is that of a manifest which was being written when its writer died.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.strip_suffix(".tmp").is_some_and(|rest| manifest_number(rest).is_some())
}

/// The path of manifest `number` in `dir`.
pub(crate) fn manifest_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("manifest-{number:06}"))
}

fn write_new(env: &Env, dir: &Path, number: u64, state: &ManifestState) -> Result<StreamWriter> {
    let path = manifest_path(dir, number);
    let temporary = path.with_extension("tmp");
    if env.fs.exists(&temporary)? {
        env.fs.remove_file(&temporary)?;
    }
    let mut writer = StreamWriter::create(&*env.fs, &temporary, env.random.next_u64())?;
    writer.append(&Edit::encode_all(&state.to_edits()))?;
    writer.sync()?;
    env.fs.rename(&temporary, &path)?;
    env.fs.sync_dir(dir)?;
    Ok(writer)
}

/// Reads the state of manifest `number`, of which `known_synced` bytes at least were synced. Also returns
/// where a torn tail begins.
pub(crate) fn read_manifest(
    env: &Env,
    dir: &Path,
    number: u64,
    known_synced: u64,
) -> Result<(ManifestState, Option<u64>)> {
    let path = manifest_path(dir, number);
    let contents = read_stream(&*env.fs, &path, known_synced)?;
    if contents.records.is_empty() {
        return Err(Error::corruption(&path, 4096, "the manifest's first record is damaged"));
    }
    let mut state = ManifestState::default();
    for (offset, payload) in &contents.records {
        let edits = Edit::decode_all(payload)
            .ok_or_else(|| Error::corruption(&path, *offset, "a manifest record cannot be decoded"))?;
        for edit in &edits {
            state.apply(edit).map_err(|message| Error::corruption(&path, *offset, message))?;
        }
    }
    Ok((state, contents.torn_at))
}

/// What manifest `number` says up to its first damaged record; `None` where that is the first.
pub(crate) fn read_manifest_prefix(env: &Env, dir: &Path, number: u64) -> Result<Option<ManifestState>> {
    let payloads = read_stream_prefix(&*env.fs, &manifest_path(dir, number))?;
    let mut state = ManifestState::default();
    let edits = payloads.iter().map_while(|payload| Edit::decode_all(payload)).flatten();
    let applied = edits.map_while(|edit| state.apply(&edit).ok()).count();
    Ok((applied > 0).then_some(state))
}

impl Manifest {
    /// Begins manifest `number` with `state`.
    pub(crate) fn create(env: &Env, dir: &Path, number: u64, state: ManifestState) -> Result<Manifest> {
        let writer = write_new(env, dir, number, &state)?;
        let len_at_start = writer.len();
        let (env, dir) = (env.clone(), dir.to_path_buf());
        Ok(Manifest { env, dir, number, writer, len_at_start, state, failed: None })
    }

    /// This manifest's number, and how many bytes of it are synced.
    pub(crate) fn synced(&self) -> (u64, u64) {
        (self.number, self.writer.len())
    }

    /// Makes `edits` durable, all or none. After an error the store takes no more changes: whether the
    /// edit is on disk is known only when the store is opened again.
    pub(crate) fn commit(&mut self, edits: &[Edit]) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.duplicate());
        }
        let before = self.writer.len();
        let written = self.writer.append(&Edit::encode_all(edits)).and_then(|()| self.writer.sync());
        if let Err(error) = written {
            if error.kind() == ErrorKind::OutOfSpace && self.writer.len() == before {
                // The file system has taken the append back: nothing has happened.
                return Err(error);
            }
            self.poison(&format!("writing the manifest failed ({error})"));
            return Err(error);
        }
        for edit in edits {
            if let Err(message) = self.state.apply(edit) {
                return Err(self.poison(&format!("a change contradicts the manifest: {message}")));
            }
        }
        if self.writer.len() > self.len_at_start * 2 + GROWTH_MAX {
            self.begin_anew()?;
        }
        Ok(())
    }

    fn poison(&mut self, what: &str) -> Error {
        let error = Error::new(ErrorKind::Poisoned, format!("{what}; reopen the store"));
        self.failed = Some(error.duplicate());
        error
    }

    /// Replaces a long manifest by a short one. A disk too full for that is no reason to stop: the long
    /// one goes on, unless the new name may have become visible.
    fn begin_anew(&mut self) -> Result<()> {
        let old = manifest_path(&self.dir, self.number);
        match write_new(&self.env, &self.dir, self.number + 1, &self.state) {
            Ok(writer) => {
                self.number += 1;
                self.len_at_start = writer.len();
                self.writer = writer;
                // The old one is in nobody's way, and goes when the store is opened again.
                drop(self.env.fs.remove_file(&old));
                Ok(())
            }
            Err(error) => match self.env.fs.exists(&manifest_path(&self.dir, self.number + 1)) {
                Ok(false) => Ok(()),
                _ => Err(self.poison(&format!("beginning a new manifest failed ({error})"))),
            },
        }
    }

    /// Why the manifest takes no more changes, if it does not.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failed.as_ref().map(Error::duplicate)
    }
}
