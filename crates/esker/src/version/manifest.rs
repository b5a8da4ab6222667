//! The manifest: a record log of edits, begun anew at every opening and whenever it has grown long.
//!
//! A new manifest is written beside the old one under a temporary name: first record the whole state,
//! synced, then renamed to its number, directory synced, and only then is the old one removed. So the one
//! with the highest number is whole as far as its first record; later records count once synced.
//!
//! It is kept twice. The copy gets each record behind the manifest and before anybody acts upon it, so what it says is what the
//! manifest says, or said before an edit of which nothing has come yet. Only `check` and `repair` read it. Where the disk is
//! too full for a copy there is none.

use std::path::{Path, PathBuf};

use super::edit::{Edit, ManifestState};
use crate::canary::broken;
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
    copy: Option<StreamWriter>,
    len_at_start: u64,
    pub(crate) state: ManifestState,
    failed: Option<Error>,
}

/// The number in a manifest's file name.
pub(crate) fn manifest_number(name: &str) -> Option<u64> {
    file_number(name.strip_prefix("manifest-")?)
}

/// The number in the file name of a manifest's copy.
pub(crate) fn copy_number(name: &str) -> Option<u64> {
    manifest_number(name.strip_suffix(".copy")?)
}

/// Whether `name` is that of a manifest, or a copy, which was being written when its writer died.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.strip_suffix(".tmp").is_some_and(|rest| manifest_number(rest).or(copy_number(rest)).is_some())
}

/// The path of manifest `number` in `dir`.
pub(crate) fn manifest_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("manifest-{number:06}"))
}

/// The path of the copy of manifest `number` in `dir`.
pub(crate) fn copy_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("manifest-{number:06}.copy"))
}

/// Under a temporary name, durable.
struct Unnamed {
    writer: StreamWriter,
    temporary: PathBuf,
}

impl Unnamed {
    fn write(env: &Env, path: &Path, payload: &[u8]) -> Result<Unnamed> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        let temporary = PathBuf::from(temporary);
        if env.fs.exists(&temporary)? {
            env.fs.remove_file(&temporary)?;
        }
        let written =
            StreamWriter::create(&*env.fs, &temporary, env.random.next_u64()).and_then(|mut writer| {
                writer.append(payload)?;
                writer.sync().map(|()| writer)
            });
        if written.as_ref().is_err_and(|error| error.kind() == ErrorKind::OutOfSpace) {
            // Others need what it has.
            env.fs.remove_file(&temporary)?;
        }
        Ok(Unnamed { writer: written?, temporary })
    }

    fn name(self, env: &Env, path: &Path) -> Result<StreamWriter> {
        env.fs.rename(&self.temporary, path)?;
        Ok(self.writer)
    }
}

/// Writes manifest `number`, and its copy if there is room.
fn write_new(
    env: &Env,
    dir: &Path,
    number: u64,
    state: &ManifestState,
) -> Result<(StreamWriter, Option<StreamWriter>)> {
    let payload = Edit::encode_all(&state.to_edits());
    let (path, copy_path) = (manifest_path(dir, number), copy_path(dir, number));
    let manifest = Unnamed::write(env, &path, &payload)?;
    let copy = match Unnamed::write(env, &copy_path, &payload) {
        Err(error) if error.kind() == ErrorKind::OutOfSpace => None,
        written => Some(written?),
    };
    if copy.is_none() && env.fs.exists(&copy_path)? {
        // It was made by an opening that was cut off before there was such a manifest.
        env.fs.remove_file(&copy_path)?;
    }
    let writer = manifest.name(env, &path)?;
    let copy = copy.map(|copy| copy.name(env, &copy_path)).transpose()?;
    env.fs.sync_dir(dir)?;
    Ok((writer, copy))
}

/// Reads the state that a manifest, or a copy, in `path` adds up to, of which `known_synced` bytes at least were
/// synced. Also returns where a torn tail begins.
pub(crate) fn read_manifest(
    env: &Env,
    path: &Path,
    known_synced: u64,
) -> Result<(ManifestState, Option<u64>)> {
    let contents = read_stream(&*env.fs, path, known_synced)?;
    if contents.records.is_empty() {
        return Err(Error::corruption(path, 4096, "the manifest's first record is damaged"));
    }
    let mut state = ManifestState::default();
    for (offset, payload) in &contents.records {
        let edits = Edit::decode_all(payload)
            .ok_or_else(|| Error::corruption(path, *offset, "a manifest record cannot be decoded"))?;
        for edit in &edits {
            state.apply(edit).map_err(|message| Error::corruption(path, *offset, message))?;
        }
    }
    Ok((state, contents.torn_at))
}

/// What a manifest, or a copy, in `path` says up to its first damaged record, and how many edits that were;
/// `None` where it is the first.
pub(crate) fn read_manifest_prefix(env: &Env, path: &Path) -> Result<Option<(ManifestState, usize)>> {
    let payloads = read_stream_prefix(&*env.fs, path)?;
    let mut state = ManifestState::default();
    let edits = payloads.iter().map_while(|payload| Edit::decode_all(payload)).flatten();
    let applied = edits.map_while(|edit| state.apply(&edit).ok()).count();
    Ok((applied > 0).then_some((state, applied)))
}

/// Whether a manifest's copy says what it says, but for its last record: that may not have come there.
pub(crate) fn copy_agrees(env: &Env, dir: &Path, number: u64) -> Result<bool> {
    let manifest = read_stream_prefix(&*env.fs, &manifest_path(dir, number))?;
    let copy = read_stream_prefix(&*env.fs, &copy_path(dir, number))?;
    Ok(copy.len() + 1 >= manifest.len() && manifest.starts_with(&copy))
}

impl Manifest {
    /// Begins manifest `number` with `state`.
    pub(crate) fn create(env: &Env, dir: &Path, number: u64, state: ManifestState) -> Result<Manifest> {
        let (writer, copy) = write_new(env, dir, number, &state)?;
        let len_at_start = writer.len();
        let (env, dir) = (env.clone(), dir.to_path_buf());
        Ok(Manifest { env, dir, number, writer, copy, len_at_start, state, failed: None })
    }

    /// This manifest's number, and how many bytes of it are synced.
    pub(crate) fn synced(&self) -> (u64, u64) {
        (self.number, self.writer.len())
    }

    /// The bytes of the manifest and its copy.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.writer.len() + self.copy.as_ref().map_or(0, StreamWriter::len)
    }

    /// Makes `edits` durable, all or none. After an error the store takes no more changes: whether the
    /// edit is on disk is known only when the store is opened again.
    pub(crate) fn commit(&mut self, edits: &[Edit]) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.duplicate());
        }
        let before = self.writer.len();
        let payload = Edit::encode_all(edits);
        let written = self.writer.append(&payload).and_then(|()| self.writer.sync());
        if let Err(error) = written {
            if error.kind() == ErrorKind::OutOfSpace && self.writer.len() == before {
                // The file system has taken the append back: nothing has happened.
                return Err(error);
            }
            self.poison(&format!("writing the manifest failed ({error})"));
            return Err(error);
        }
        if let Err(error) = self.commit_copy(&payload) {
            return Err(self.poison(&format!("writing the manifest's copy failed ({error})")));
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

    /// Writes what the manifest has into its copy. Where there is no room, the copy goes: one that stayed behind could be taken for
    /// whole.
    fn commit_copy(&mut self, payload: &[u8]) -> Result<()> {
        let Some(copy) = self.copy.as_mut().filter(|_| !broken("manifest-copy")) else { return Ok(()) };
        match copy.append(payload).and_then(|()| copy.sync()) {
            Err(error) if error.kind() == ErrorKind::OutOfSpace => {
                self.copy = None;
                self.env.fs.remove_file(&copy_path(&self.dir, self.number))?;
                self.env.fs.sync_dir(&self.dir)
            }
            written => written,
        }
    }

    fn poison(&mut self, what: &str) -> Error {
        let error = Error::new(ErrorKind::Poisoned, format!("{what}; reopen the store"));
        self.failed = Some(error.duplicate());
        error
    }

    /// Replaces a long manifest by a short one. A disk too full for that is no reason to stop: the long
    /// one goes on, unless the new name may have become visible.
    fn begin_anew(&mut self) -> Result<()> {
        let old = [manifest_path, copy_path].map(|path| path(&self.dir, self.number));
        match write_new(&self.env, &self.dir, self.number + 1, &self.state) {
            Ok((writer, copy)) => {
                self.number += 1;
                self.len_at_start = writer.len();
                (self.writer, self.copy) = (writer, copy);
                // The old ones are in nobody's way, and go when the store is opened again.
                old.iter().for_each(|path| drop(self.env.fs.remove_file(path)));
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
