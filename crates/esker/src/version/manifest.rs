//! The manifest: a record log of edits. Every opening begins a new one, and so does a commit when the manifest has
//! grown long.
//!
//! A new manifest is written next to the old one, under a temporary name. Its first record holds the whole state. It is
//! synced and renamed to its number, and the directory is synced; only then is the old one removed. Therefore the
//! manifest with the highest number is whole as far as its first record. A later record counts once it is synced.
//!
//! Before each edit the manifest's name is looked up (rule 31). If it leads to another file, or to none, another
//! process has taken the store's files away, and nothing more is acknowledged.
//!
//! The manifest is kept twice. The copy gets each record after the manifest has it and before anything acts on it.
//! Therefore the copy is whole, or lacks one edit that has had no effect yet. Only `check`, `repair` and `dump` read
//! the copy. If the copy cannot be written, for example on a full disk, the store continues without one.

use std::path::{Path, PathBuf};

use super::edit::{Edit, ManifestState};
use crate::canary::broken;
use crate::codec::file_number;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{gone, temporary_of};
use crate::log::stream::{Stream, StreamContents, StreamWriter, read_epoch, read_stream};

/// A new manifest is begun when this one is longer than twice its first record plus this many bytes.
const GROWTH_MAX: u64 = 1 << 20;

/// After this many commits without a copy, a new manifest with a copy is tried.
const COMMITS_WITHOUT_COPY: u64 = 64;

#[derive(Debug)]
pub(crate) struct Manifest {
    env: Env,
    dir: PathBuf,
    number: u64,
    writer: StreamWriter,
    /// Identifies the file of this manifest.
    identity: (u64, u64),
    copy: Option<StreamWriter>,
    edits_without_copy: u64,
    len_at_start: u64,
    pub(crate) state: ManifestState,
    failed: Option<Error>,
}

pub(crate) fn manifest_number(name: &str) -> Option<u64> {
    file_number(name.strip_prefix("manifest-")?)
}

pub(crate) fn copy_number(name: &str) -> Option<u64> {
    manifest_number(name.strip_suffix(".copy")?)
}

/// Whether `name` is a temporary name of a manifest or a copy: the process died while it wrote the file.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.strip_suffix(".tmp").is_some_and(|rest| manifest_number(rest).or(copy_number(rest)).is_some())
}

pub(crate) fn manifest_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("manifest-{number:06}"))
}

pub(crate) fn copy_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("manifest-{number:06}.copy"))
}

/// Writes a manifest, or a copy, and makes it durable under the temporary name of `path`.
fn write_unnamed(env: &Env, path: &Path, epoch: u64, payload: &[u8]) -> Result<StreamWriter> {
    let temporary = temporary_of(path);
    gone::remove_file(&*env.fs, &temporary)?;
    let written = StreamWriter::create(&*env.fs, &temporary, epoch).and_then(|mut writer| {
        writer.append(payload)?;
        writer.sync().map(|()| writer)
    });
    // This frees its space for other files. If the file was not created, nothing is removed.
    written.inspect_err(|_| drop(env.fs.remove_file(&temporary)))
}

/// Writes manifest `number`, and its copy if possible.
fn write_new(
    env: &Env,
    dir: &Path,
    number: u64,
    state: &ManifestState,
) -> Result<(StreamWriter, Option<StreamWriter>)> {
    let (payload, epoch) = (Edit::encode_all(state.to_edits()), env.random.next_u64());
    let (path, copy_path) = (manifest_path(dir, number), copy_path(dir, number));
    let manifest = write_unnamed(env, &path, epoch, &payload)?;
    // Only a repair needs the copy. Therefore a full disk does not stop the manifest.
    let copy = write_unnamed(env, &copy_path, epoch, &payload).ok();
    if env.fs.exists(&copy_path)? {
        // A copy from an opening that was cut off before its manifest existed.
        env.fs.remove_file(&copy_path)?;
        env.fs.sync_dir(dir)?;
    }
    env.fs.rename(&temporary_of(&path), &path)?;
    if copy.is_some() {
        env.fs.rename(&temporary_of(&copy_path), &copy_path)?;
    }
    env.fs.sync_dir(dir)?;
    Ok((manifest, copy))
}

pub(crate) struct Contents {
    pub(crate) state: ManifestState,
    /// Where its last record begins.
    pub(crate) last: u64,
    /// Where its last record ends.
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

/// Reads the manifest, or the copy, in `path`. At least `known_synced` bytes of it were synced.
pub(crate) fn read_manifest(env: &Env, path: &Path, known_synced: u64) -> Result<Contents> {
    add_up(&read_stream(&*env.fs, path, known_synced)?, path)
}

pub(crate) enum Remains {
    /// Its whole contents.
    Whole(ManifestState),
    /// Its contents before the first record that is damaged in both files.
    Prefix(ManifestState),
    Nothing,
}

/// Reads the whole records of the manifest in `paths`: the manifest, its copy, or both. At least `known_synced` bytes
/// were synced. Each record is taken from the file in which it is whole. Damage goes to `damage`.
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

/// Whether the copy of manifest `number` belongs to another manifest. A power cut may leave a copy whose manifest was
/// never named.
pub(crate) fn is_of_another(env: &Env, dir: &Path, number: u64) -> bool {
    let epoch = |path: &Path| read_epoch(&*env.fs, path);
    match (epoch(&manifest_path(dir, number)), epoch(&copy_path(dir, number))) {
        (Ok(manifest), Ok(copy)) => manifest != copy,
        _ => false,
    }
}

impl Manifest {
    pub(crate) fn create(env: &Env, dir: &Path, number: u64, state: ManifestState) -> Result<Manifest> {
        let (writer, copy) = write_new(env, dir, number, &state)?;
        Ok(Manifest {
            env: env.clone(),
            dir: dir.to_path_buf(),
            number,
            identity: env.fs.file_mark(&manifest_path(dir, number))?.identity,
            len_at_start: writer.len(),
            writer,
            copy,
            edits_without_copy: 0,
            state,
            failed: None,
        })
    }

    /// This manifest's number, and how many bytes of it are synced.
    pub(crate) fn synced(&self) -> (u64, u64) {
        (self.number, self.writer.len())
    }

    /// The length of the manifest and its copy together.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.writer.len() + self.copy.as_ref().map_or(0, StreamWriter::len)
    }

    pub(crate) fn has_copy(&self) -> bool {
        self.copy.is_some()
    }

    /// Makes `edits` durable, all or none. After an error the store takes no more changes: only the next opening can
    /// find whether the edits are on the disk. The exception is a full disk where the append was undone: then nothing
    /// has happened.
    pub(crate) fn commit(&mut self, edits: &[Edit]) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.duplicate());
        }
        self.check_place()?;
        let before = self.writer.len();
        let payload = Edit::encode_all(edits);
        let written = self.writer.append(&payload).and_then(|()| self.writer.sync());
        if let Err(error) = written {
            // If the file system has undone the append, nothing has happened.
            if error.kind() != ErrorKind::OutOfSpace || self.writer.len() != before {
                self.poison(&format!("writing the manifest failed ({error})"));
            }
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

    /// Fails if the manifest's name in the store's directory does not lead to the file that this store writes, as it wrote
    /// it.
    fn check_place(&mut self) -> Result<()> {
        let path = manifest_path(&self.dir, self.number);
        let what = match self.env.fs.file_mark(&path) {
            _ if broken("rule-31") => return Ok(()),
            Ok(mark) if mark.identity != self.identity => "another file has taken the place of the manifest",
            Ok(mark) if mark.len != self.writer.len() => "another program has written to the manifest",
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                "another program has removed or renamed the manifest or the store's directory"
            }
            Err(error) => return Err(error),
        };
        Err(self.poison(what).at(&path))
    }

    /// Appends to the copy the records that the manifest has. If that fails, the copy is removed: a copy that lagged
    /// behind could be mistaken for a whole one.
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

    /// Whether to begin a new manifest: this one has grown long, or has had no copy for some time.
    fn is_due(&mut self) -> bool {
        self.edits_without_copy += u64::from(self.copy.is_none());
        let wants_copy = self.edits_without_copy >= COMMITS_WITHOUT_COPY;
        wants_copy || self.writer.len() > self.len_at_start * 2 + GROWTH_MAX
    }

    fn poison(&mut self, what: &str) -> Error {
        let error = Error::new(ErrorKind::Poisoned, format!("{what}; reopen the store"));
        self.failed = Some(error.duplicate());
        error
    }

    /// Replaces a long manifest with a short one. If the disk is too full for that, the long one stays in use, unless
    /// the new name may have become visible.
    fn begin_anew(&mut self) -> Result<()> {
        let old = [manifest_path, copy_path].map(|path| path(&self.dir, self.number));
        match write_new(&self.env, &self.dir, self.number + 1, &self.state) {
            Ok((writer, copy)) => {
                self.number += 1;
                self.len_at_start = writer.len();
                (self.writer, self.copy) = (writer, copy);
                let mark = self.env.fs.file_mark(&manifest_path(&self.dir, self.number));
                let lost = |error| self.poison(&format!("looking at the new manifest failed ({error})"));
                self.identity = mark.map_err(lost)?.identity;
                // The next opening removes the old ones if this fails.
                old.iter().for_each(|path| drop(self.env.fs.remove_file(path)));
                Ok(())
            }
            Err(error) => match self.env.fs.exists(&manifest_path(&self.dir, self.number + 1)) {
                Ok(false) => Ok(()),
                _ => Err(self.poison(&format!("beginning a new manifest failed ({error})"))),
            },
        }
    }

    /// The error after which the manifest takes no more changes, if one occurred.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failed.as_ref().map(Error::duplicate)
    }
}
