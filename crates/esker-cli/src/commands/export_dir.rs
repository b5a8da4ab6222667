//! `esker export DIR/`: a file a row, in a new or empty directory, and a marker that says so.
//!
//! Nothing is written outside DIR: names come from `escape`, files are created, never opened, and the
//! directory holds nothing of anybody else's. A damaged value is named and left out; the others are written.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use esker::{Error, ErrorKind, ScanRange, Value};
use serde_json::{Value as Json, json};

use super::escape::{LONG, MARKER, path_of};
use crate::exit::{Failure, Outcome, note};
use crate::keytype::KeyType;
use crate::progress::Progress;
use crate::store::Store;

/// The version of the layout that the marker names.
const VERSION: u64 = 1;

pub(crate) fn run(store: &Store, dir: &Path) -> Outcome {
    prepare(dir)?;
    save(&dir.join(MARKER), Marker { keys: store.keys }.to_json(store.tree.name()).as_bytes())?;
    let progress = Progress::count("files");
    let mut files = Directory { dir, made: HashSet::from([dir.to_path_buf()]), long: 0, damaged: 0 };
    let mut printed = Vec::new();
    let mut rows = store.tree.scan(ScanRange::all())?;
    while rows.advance()? {
        printed.clear();
        store.keys.print(rows.key(), &mut printed)?;
        match rows.handle() {
            Ok(value) => files.add(&printed, &value)?,
            Err(error) if error.kind() == ErrorKind::Corruption => files.damaged(&error),
            Err(error) => return Err(error.into()),
        }
        progress.add(1);
    }
    match files.damaged {
        0 => Ok(()),
        count => Err(Failure::store(format!("{count} damaged values are missing (see `esker check`)"))),
    }
}

/// Makes the directory, or sees that it is empty.
fn prepare(dir: &Path) -> Outcome {
    match fs::create_dir(dir) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(Failure::io("create", dir, &error)),
    }
    let mut entries = fs::read_dir(dir).map_err(|error| Failure::io("read", dir, &error))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => {
            Err(Failure::usage(format!("{} is not empty; export into a new directory", dir.display())))
        }
    }
}

struct Directory<'a> {
    dir: &'a Path,
    /// Directories that exist: asked for each row, but made once.
    made: HashSet<PathBuf>,
    /// How many keys were too long for a path.
    long: u64,
    /// How many values could not be read.
    damaged: u64,
}

impl Directory<'_> {
    fn add(&mut self, key: &[u8], value: &Value) -> Outcome {
        // A directory made here is no file, so only a new name asks the file system.
        let is_file = |path: &Path| {
            !self.made.contains(path) && fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file())
        };
        let Some(path) = path_of(self.dir, key, is_file) else { return self.add_long(key, value) };
        self.parents(&path)?;
        self.value(&path, value)
    }

    fn add_long(&mut self, key: &[u8], value: &Value) -> Outcome {
        self.long += 1;
        let path = self.dir.join(LONG).join(self.long.to_string());
        self.parents(&path)?;
        let held = path.with_extension("key");
        save(&held, key)?;
        let damaged = self.damaged;
        self.value(&path.with_extension("value"), value)?;
        if self.damaged > damaged {
            fs::remove_file(&held).map_err(|error| Failure::io("remove", &held, &error))?;
        }
        Ok(())
    }

    /// Writes a value to a new file, or names it and leaves no file where it is damaged.
    fn value(&mut self, path: &Path, value: &Value) -> Outcome {
        let failed = |error| Failure::io("write", path, &error);
        let mut file = File::create_new(path).map_err(failed)?;
        let Err(error) = value.copy_to(&mut file) else { return Ok(()) };
        if error.kind() == ErrorKind::Corruption {
            self.damaged(&error);
            return fs::remove_file(path).map_err(failed);
        }
        Err(Failure::store(format!("cannot write {}: {error}", path.display())))
    }

    fn damaged(&mut self, error: &Error) {
        self.damaged += 1;
        note(&error.to_string());
    }

    fn parents(&mut self, path: &Path) -> Outcome {
        let Some(parent) = path.parent() else { return Ok(()) };
        if !self.made.contains(parent) {
            fs::create_dir_all(parent).map_err(|error| Failure::io("create", parent, &error))?;
            let below = parent.ancestors().take_while(|made| *made != self.dir);
            self.made.extend(below.map(Path::to_path_buf));
        }
        Ok(())
    }
}

/// Writes a file that must not exist yet.
fn save(path: &Path, content: &[u8]) -> Outcome {
    let written = File::create_new(path).and_then(|mut file| file.write_all(content));
    written.map_err(|error| Failure::io("write", path, &error))
}

/// What the marker file says.
pub(super) struct Marker {
    /// How the keys in file names are typed.
    pub(super) keys: KeyType,
}

impl Marker {
    /// The marker in the file `path`; `None` where there is none.
    pub(super) fn read(path: &Path) -> Outcome<Option<Self>> {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Failure::io("read", path, &error)),
        };
        let strange = || {
            Failure::usage(format!("{}: not the marker of an export that this esker knows", path.display()))
        };
        let marker: Json = serde_json::from_slice(&text).map_err(|_| strange())?;
        let keys = marker.get("keys").and_then(Json::as_str).and_then(KeyType::named);
        match (marker.get("esker_export").and_then(Json::as_u64), keys) {
            (Some(VERSION), Some(keys)) => Ok(Some(Marker { keys })),
            _ => Err(strange()),
        }
    }

    fn to_json(&self, tree: &str) -> String {
        format!("{}\n", json!({ "esker_export": VERSION, "tree": tree, "keys": self.keys.name() }))
    }
}
