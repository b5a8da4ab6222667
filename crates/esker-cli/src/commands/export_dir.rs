//! `esker export DIR/`: one file per row, and a marker file.
//!
//! - Nothing is written outside DIR: names come from `escape`, and a symbolic link in place of a directory below DIR is
//!   refused.
//! - A file gets its name only when it is whole: its bytes go to `%tmp` first, which is no key's name, and which only the
//!   user who runs the command may open. A file that it replaces leaves it its permissions.
//! - A name that the file system takes for another row's, as where it ignores case, is escaped (`names`).
//! - DIR is new or empty, or an export of the same tree. In the latter case only missing and different files are
//!   written, so an interrupted export continues where it stopped. Files there that belong to no row are reported and
//!   left.
//! - If the store knows when a value was stored, the file has that as its time of modification.
//! - A damaged value is reported and left out; the others are written.
//! - A file does not record when its value expires. The number of values that expire is reported at the end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use esker::{Error, ErrorKind};
use serde_json::{Value as Json, json};

use super::escape::{LONG, MARKER, UNFINISHED, path_of};
use super::export_notes::{say_left_out, say_untold, shown, unread, unread_after};
use super::names::Names;
use super::strangers;
use crate::datatype::{DataType, Types};
use crate::exit::{Failure, Outcome, note};
use crate::interrupt;
use crate::keyspace::{Rows, Want};
use crate::permissions::{PRIVATE, take_over};
use crate::progress::Progress;
use crate::ranges::KeyRange;
use crate::steady::{open_regular, read_small};
use crate::store::Store;
use crate::stream::{Broken, Source};

/// More bytes than a marker has.
const MARKER_MAX: u64 = 1 << 16;

/// The version of the layout, which the marker records.
const VERSION: u64 = 1;

pub(crate) fn run(store: &Store, dir: &Path) -> Outcome {
    let resumed = prepare(store, dir)?;
    let progress = Progress::count("files");
    let mut files = Directory { store, dir, names: Names::below(dir), long: 0, damaged: 0 };
    if !resumed {
        files.save(&dir.join(MARKER), Marker::of(store).to_json().as_bytes())?;
    }
    let (mut printed, mut untold, mut attributed) = (Vec::new(), 0, 0);
    let mut rows = store.tree.scan(KeyRange::ALL, false, Want::First(0))?;
    let mut last = Vec::new();
    while rows.advance().map_err(|error| unread_after(store, &last, error))? {
        interrupt::check()?;
        last.clear();
        last.extend_from_slice(rows.key());
        printed.clear();
        store.types.keys.print(rows.key(), &mut printed)?;
        match rows.check() {
            Ok(()) if rows.is_collection() => {}
            Ok(()) => {
                untold += u64::from(rows.expires_us().is_some());
                attributed += u64::from(rows.has_attributes());
                files.add(&printed, &rows)?;
            }
            Err(error) if error.kind() == ErrorKind::Corruption => files.damaged(&rows, &error),
            Err(error) => return Err(unread(store, rows.key(), error)),
        }
        progress.add(1);
    }
    if resumed {
        // A file that an interrupted export had begun, if nothing was left to write.
        remove(&dir.join(UNFINISHED))?;
        strangers::name(store, dir, files.long)?;
    }
    say_untold(untold);
    say_left_out(attributed, rows.collections());
    match files.damaged {
        0 => Ok(()),
        count => Err(Failure::store(format!("damaged values left out: {count} (see `esker check`)"))),
    }
}

/// Creates the directory, or checks that it is empty or holds an export of the same tree, which will be continued.
fn prepare(store: &Store, dir: &Path) -> Outcome<bool> {
    match fs::create_dir(dir) {
        Ok(()) => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(Failure::io("create", dir, &error)),
    }
    if let Some(marker) = Marker::read(&dir.join(MARKER))? {
        if marker == Marker::of(store) {
            return Ok(true);
        }
        return Err(Failure::usage(format!(
            "{} holds an export of the tree {:?} with {} keys; export into a new directory",
            dir.display(),
            marker.tree,
            marker.types.keys
        )));
    }
    let mut entries = fs::read_dir(dir).map_err(|error| Failure::io("read", dir, &error))?;
    // An export that was interrupted at once has left nothing else.
    match entries.find(|entry| entry.as_ref().is_ok_and(|entry| entry.file_name() != UNFINISHED)) {
        None => Ok(false),
        Some(_) => Err(Failure::usage(format!(
            "{} is neither empty nor an export; export into a new directory",
            dir.display()
        ))),
    }
}

struct Directory<'a> {
    store: &'a Store,
    dir: &'a Path,
    names: Names,
    /// How many keys were too long for a path.
    long: u64,
    /// How many values could not be read.
    damaged: u64,
}

impl Directory<'_> {
    fn add(&mut self, key: &[u8], row: &Rows) -> Outcome {
        match path_of(self.dir, key, |path, part| self.names.claim(path, part))? {
            Some(path) => self.value(&path, row),
            None => self.add_long(key, row),
        }
    }

    fn add_long(&mut self, key: &[u8], row: &Rows) -> Outcome {
        self.long += 1;
        let dir = self.dir.join(LONG);
        self.names.directory(&dir)?;
        let path = dir.join(self.long.to_string());
        let (of_key, of_value) = (path.with_extension("key"), path.with_extension("value"));
        if read_small(&of_key, key.len() as u64).ok().as_deref() != Some(key) {
            // Another key's value must not be mistaken for this one's.
            remove(&of_value)?;
            self.save(&of_key, key)?;
        }
        self.value(&of_value, row)?;
        if fs::symlink_metadata(&of_value).is_err() {
            remove(&of_key)?;
        }
        Ok(())
    }

    /// Gives the file `path` exactly the bytes of the row's value. If these are damaged, that is reported and the existing
    /// file is left: it may be the only good copy. A value that another client has deleted since gets no file.
    fn value(&mut self, path: &Path, row: &Rows) -> Outcome {
        let held = holds(path, row).map_err(|failure| {
            failure
                .because_of_store(|| format!("the value of {} cannot be read", shown(self.store, row.key())))
        });
        if held? {
            return Ok(());
        }
        let opened = row.open().map_err(|error| unread(self.store, row.key(), error));
        let Some(value) = opened? else { return Ok(()) };
        let stored = value.stored_us().map(|us| UNIX_EPOCH + Duration::from_micros(us));
        let written = self.write(path, |file| {
            value.copy_to_file(&*file)?;
            // A time that the file system refuses does not stop the export.
            drop(stored.map(|time| file.set_modified(time)));
            Ok(())
        });
        match written {
            Err(Unwritten::Value(error)) if error.kind() == ErrorKind::Corruption => {
                self.damaged(row, &error);
                Ok(())
            }
            Err(Unwritten::Value(error)) => {
                let key = shown(self.store, row.key());
                Err(Failure::store(format!("cannot write the value of {key} to {}: {error}", path.display())))
            }
            Err(Unwritten::File(failure)) => Err(failure),
            Ok(()) => Ok(()),
        }
    }

    /// Gives the file `path` the bytes `content`.
    fn save(&self, path: &Path, content: &[u8]) -> Outcome {
        let failed = |error: io::Error| Failure::io("write", path, &error);
        match self.write(path, |file| file.write_all(content).map_err(|error| Unwritten::File(failed(error))))
        {
            Ok(()) => Ok(()),
            Err(Unwritten::File(failure)) => Err(failure),
            Err(Unwritten::Value(error)) => Err(error.into()),
        }
    }

    /// Creates a file under a name of no key, and gives it its own name when `write` has succeeded. Otherwise nothing of
    /// it is left.
    fn write(
        &self,
        path: &Path,
        write: impl FnOnce(&mut File) -> Result<(), Unwritten>,
    ) -> Result<(), Unwritten> {
        let unfinished = self.dir.join(UNFINISHED);
        remove(&unfinished)?;
        let made = OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(&unfinished);
        let mut file = made.map_err(|error| Failure::io("create", &unfinished, &error))?;
        let named = |file: &File| {
            take_over(file, path)?;
            fs::rename(&unfinished, path)
        };
        let written = write(&mut file)
            .and_then(|()| Ok(named(&file).map_err(|error| Failure::io("make", path, &error))?));
        if written.is_err() {
            // The first error is the one to report.
            drop(remove(&unfinished));
        }
        written
    }

    fn damaged(&mut self, row: &Rows, error: &Error) {
        self.damaged += 1;
        note(&format!("the value of {} is left out: {error}", shown(self.store, row.key())));
    }
}

/// Why a file was not written.
enum Unwritten {
    File(Failure),
    /// The value could not be read, or its bytes could not be written.
    Value(Error),
}

impl From<Failure> for Unwritten {
    fn from(failure: Failure) -> Self {
        Unwritten::File(failure)
    }
}

impl From<Error> for Unwritten {
    fn from(error: Error) -> Self {
        Unwritten::Value(error)
    }
}

/// Whether the file `path` already has exactly the bytes of the row's value.
fn holds(path: &Path, row: &Rows) -> Outcome<bool> {
    // A link is replaced like any other file.
    if !fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() == row.value_len()) {
        return Ok(false);
    }
    let Ok(Some(file)) = open_regular(path) else { return Ok(false) };
    let Some(value) = row.open()? else { return Ok(false) };
    let mut source = Source::new(file, &path.display());
    let mut first = Vec::new();
    let compared = source.next(&mut first).map_err(Broken::Source).and_then(|()| source.is(&first, value));
    match compared {
        Ok(same) => Ok(same),
        Err(Broken::Source(_)) => Ok(false),
        Err(Broken::Store(failure)) => Err(failure),
    }
}

/// Removes a file that may be there.
fn remove(path: &Path) -> Outcome {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::io("remove", path, &error)),
        _ => Ok(()),
    }
}

/// The contents of the marker file.
#[derive(PartialEq, Eq)]
pub(super) struct Marker {
    tree: String,
    /// The type of the keys in file names, and of the bytes in files.
    pub(super) types: Types,
}

impl Marker {
    /// The marker in the file `path`; `None` if there is none.
    pub(super) fn read(path: &Path) -> Outcome<Option<Self>> {
        let text = match read_small(path, MARKER_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Failure::io("read", path, &error)),
        };
        let strange = || {
            Failure::usage(format!(
                "{}: this is not an export marker that this version of esker knows",
                path.display()
            ))
        };
        let marker: Json = serde_json::from_slice(&text).map_err(|_| strange())?;
        let named = |field: &str| marker.get(field).and_then(Json::as_str).and_then(DataType::named);
        let types = named("keys").zip(named("values")).map(|(keys, values)| Types { keys, values });
        let tree = marker.get("tree").and_then(Json::as_str);
        match (marker.get("esker_export").and_then(Json::as_u64), tree, types) {
            (Some(VERSION), Some(tree), Some(types)) => Ok(Some(Marker { tree: tree.to_owned(), types })),
            _ => Err(strange()),
        }
    }

    fn of(store: &Store) -> Self {
        Marker { tree: store.tree.name(), types: store.types }
    }

    fn to_json(&self) -> String {
        let (keys, values) = (self.types.keys.to_string(), self.types.values.to_string());
        let marker = json!({ "esker_export": VERSION, "tree": self.tree, "keys": keys, "values": values });
        format!("{marker}\n")
    }
}
