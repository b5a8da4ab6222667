//! The manifest: a record log of edits, begun anew at every opening and whenever it has grown long.
//!
//! A new manifest is written beside the old one under a temporary name: first record the whole state,
//! synced, then renamed to its number, directory synced, and only then is the old one removed. So the one
//! with the highest number is whole as far as its first record; later records count once synced.
//!
//! It is kept twice. The copy gets the same bytes, each record behind the manifest and before anybody acts upon it. So it is whole,
//! or lacks one edit of which nothing has come yet. Only `check` and `repair` read it. Where it cannot be written, on a full disk
//! for one, there is none.

use std::path::{Path, PathBuf};

use super::edit::{Edit, ManifestState};
use crate::canary::broken;
use crate::codec::file_number;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::log::stream::{Stream, StreamContents, StreamWriter, read_epoch, read_stream};

/// A manifest is begun anew when it is this much longer than its first record.
const GROWTH_MAX: u64 = 1 << 20;

/// So many edits behind the one of which the copy could not be written, another copy is tried.
const EDITS_WITHOUT_COPY: u64 = 64;

/// The open manifest.
#[derive(Debug)]
pub(crate) struct Manifest {
    env: Env,
    dir: PathBuf,
    number: u64,
    writer: StreamWriter,
    copy: Option<StreamWriter>,
    edits_without_copy: u64,
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

/// A manifest, or a copy, that is durable under a temporary name.
struct Unnamed {
    writer: StreamWriter,
    temporary: PathBuf,
}

impl Unnamed {
    fn write(env: &Env, path: &Path, epoch: u64, payload: &[u8]) -> Result<Unnamed> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        let temporary = PathBuf::from(temporary);
        if env.fs.exists(&temporary)? {
            env.fs.remove_file(&temporary)?;
        }
        let written = StreamWriter::create(&*env.fs, &temporary, epoch).and_then(|mut writer| {
            writer.append(payload)?;
            writer.sync().map(|()| writer)
        });
        if written.is_err() {
            // Others need what it has. Where it was not even created, there is nothing to remove.
            drop(env.fs.remove_file(&temporary));
        }
        Ok(Unnamed { writer: written?, temporary })
    }

    fn name(self, env: &Env, path: &Path) -> Result<StreamWriter> {
        env.fs.rename(&self.temporary, path)?;
        Ok(self.writer)
    }
}

/// Writes manifest `number`, and its copy if that can be written.
fn write_new(
    env: &Env,
    dir: &Path,
    number: u64,
    state: &ManifestState,
) -> Result<(StreamWriter, Option<StreamWriter>)> {
    let (payload, epoch) = (Edit::encode_all(&state.to_edits()), env.random.next_u64());
    let (path, copy_path) = (manifest_path(dir, number), copy_path(dir, number));
    let manifest = Unnamed::write(env, &path, epoch, &payload)?;
    // Nothing needs it but a repair: a disk without room for it is no reason to stop.
    let copy = Unnamed::write(env, &copy_path, epoch, &payload).ok();
    if env.fs.exists(&copy_path)? {
        // Of an opening that was cut off before there was such a manifest.
        env.fs.remove_file(&copy_path)?;
        env.fs.sync_dir(dir)?;
    }
    let writer = manifest.name(env, &path)?;
    let copy = copy.map(|copy| copy.name(env, &copy_path)).transpose()?;
    env.fs.sync_dir(dir)?;
    Ok((writer, copy))
}

/// What a manifest says.
pub(crate) struct Contents {
    pub(crate) state: ManifestState,
    /// Where its last record begins.
    pub(crate) last: u64,
    /// Where that ends.
    pub(crate) end: u64,
}

fn add_up(contents: &StreamContents, path: &Path) -> Result<Contents> {
    let Some(&(last, _)) = contents.records.last() else {
        return Err(Error::corruption(path, 4096, "the manifest's first record is damaged"));
    };
    let mut state = ManifestState::default();
    for (offset, payload) in &contents.records {
        let edits = Edit::decode_all(payload)
            .ok_or_else(|| Error::corruption(path, *offset, "a manifest record cannot be decoded"))?;
        for edit in &edits {
            state.apply(edit).map_err(|message| Error::corruption(path, *offset, message))?;
        }
    }
    Ok(Contents { state, last, end: contents.end })
}

/// Reads what a manifest, or a copy, in `path` says, of which `known_synced` bytes at least were synced.
pub(crate) fn read_manifest(env: &Env, path: &Path, known_synced: u64) -> Result<Contents> {
    add_up(&read_stream(&*env.fs, path, known_synced)?, path)
}

/// What is left of a manifest and its copy.
pub(crate) enum Remains {
    /// All that it said.
    Whole(ManifestState),
    /// What it said before the first record that is damaged in both.
    Prefix(ManifestState),
    Nothing,
}

/// Reads what is left of the manifest in `path`, or in several `paths`, of which `known_synced` bytes at least were synced: each
/// record from where it is whole. What is damaged goes to `damage`.
pub(crate) fn read_remains(
    env: &Env,
    paths: &[PathBuf],
    known_synced: u64,
    damage: &mut Vec<Error>,
) -> Remains {
    let mut headers = Vec::new();
    let Some(mut stream) = Stream::read(&*env.fs, paths, &mut headers) else {
        damage.append(&mut headers);
        return Remains::Nothing;
    };
    damage.extend(paths.iter().filter_map(|path| read_manifest(env, path, known_synced).err()));
    let whole = stream.contents(known_synced).and_then(|contents| add_up(&contents, &paths[0]));
    if let Ok(contents) = whole {
        return Remains::Whole(contents.state);
    }
    let mut state = ManifestState::default();
    let records = match stream.prefix() {
        Ok(contents) => contents.records,
        Err(error) => {
            damage.push(error);
            return Remains::Nothing;
        }
    };
    let edits = records.iter().map_while(|(_, payload)| Edit::decode_all(payload)).flatten();
    match edits.map_while(|edit| state.apply(&edit).ok()).count() {
        0 => Remains::Nothing,
        _ => Remains::Prefix(state),
    }
}

/// Whether the copy of manifest `number` is of another one: a power cut may have left such a one, whose manifest never came to
/// be.
pub(crate) fn is_of_another(env: &Env, dir: &Path, number: u64) -> bool {
    let epoch = |path: &Path| read_epoch(&*env.fs, path);
    match (epoch(&manifest_path(dir, number)), epoch(&copy_path(dir, number))) {
        (Ok(manifest), Ok(copy)) => manifest != copy,
        _ => false,
    }
}

impl Manifest {
    /// Begins manifest `number` with `state`.
    pub(crate) fn create(env: &Env, dir: &Path, number: u64, state: ManifestState) -> Result<Manifest> {
        let (writer, copy) = write_new(env, dir, number, &state)?;
        let len_at_start = writer.len();
        let (env, dir) = (env.clone(), dir.to_path_buf());
        Ok(Manifest {
            env,
            dir,
            number,
            writer,
            copy,
            edits_without_copy: 0,
            len_at_start,
            state,
            failed: None,
        })
    }

    /// This manifest's number, and how many bytes of it are synced.
    pub(crate) fn synced(&self) -> (u64, u64) {
        (self.number, self.writer.len())
    }

    /// The bytes of the manifest and its copy.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.writer.len() + self.copy.as_ref().map_or(0, StreamWriter::len)
    }

    /// Whether there is a copy.
    pub(crate) fn has_copy(&self) -> bool {
        self.copy.is_some()
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
        if self.is_due() {
            self.edits_without_copy = 0;
            self.begin_anew()?;
        }
        Ok(())
    }

    /// Writes what the manifest has into its copy. Where that fails, for want of room or otherwise, the copy goes: one that
    /// stayed behind could be taken for whole.
    fn commit_copy(&mut self, payload: &[u8]) -> Result<()> {
        let Some(copy) = self.copy.as_mut().filter(|_| !broken("manifest-copy")) else { return Ok(()) };
        if copy.append(payload).and_then(|()| copy.sync()).is_ok() {
            return Ok(());
        }
        self.copy = None;
        self.edits_without_copy = 0;
        self.env.fs.remove_file(&copy_path(&self.dir, self.number))?;
        self.env.fs.sync_dir(&self.dir)
    }

    /// Whether it is time to write the manifest anew: it has grown long, or has had no copy for some time.
    fn is_due(&mut self) -> bool {
        self.edits_without_copy += u64::from(self.copy.is_none());
        let wants_copy = self.edits_without_copy >= EDITS_WITHOUT_COPY;
        wants_copy || self.writer.len() > self.len_at_start * 2 + GROWTH_MAX
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
