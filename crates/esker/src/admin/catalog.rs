//! The contents of a directory of backups: one catalog for each backup, and the files that catalogs name.
//!
//! ```text
//! backup-000002                      the catalog of backup 2, lines of text, written last
//! 000012-00c0ffee00c0ffee.table      table 12 of the store, with this salt: shared by all backups that need it
//! 000013-5a175a175a175a17.blob       a sealed blob file, likewise
//! 000002-manifest-000001             backup 2 alone has: manifest, log segments, blob files without footer
//! ```
//! A table never changes. A sealed blob file gets no further value: a later state of it lacks only values that were
//! freed since, and no later backup needs those. Therefore number and salt identify a file, and the first copy of it
//! serves all later backups.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::BackupInfo;
use crate::blob::blob_number;
use crate::checksum::checksum;
use crate::codec::file_number;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Entry, NameKind, lock_temporary, not_a_file};
use crate::log::replay::segment_number;
use crate::open::{BACKUP_DIR, LOCK_FILE};
use crate::version::imported::ImportedFiles;
use crate::version::manifest::{manifest_number, manifest_path};
use crate::version::tables::table_number;

const FIRST_LINE: &str = "esker backup 1";
const TEMPORARY: &str = ".tmp";
/// The most bytes of a catalog. It has about a hundred bytes for each file.
const CATALOG_LEN_MAX: u64 = 1 << 30;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// Its name in a store.
    pub(super) name: String,
    /// Its name in the directory of backups.
    pub(super) stored: String,
    pub(super) len: u64,
    /// The checksum of the whole file, without a seed.
    pub(super) sum: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Catalog {
    pub(super) id: u64,
    /// Microseconds since 1970.
    pub(super) made_us: u64,
    /// The identity of the store; 0: unknown.
    pub(super) store: u64,
    pub(super) parts: Vec<Part>,
}

/// Whether a store gives this name to a file that backups hold.
fn is_store_name(name: &str) -> bool {
    table_number(name).or(blob_number(name)).or(segment_number(name)).is_some()
        || manifest_number(name) == Some(1)
        || ImportedFiles::of_mark(name).is_some()
}

/// Whether catalogs name files in this form.
pub(super) fn is_stored_name(stored: &str) -> bool {
    let Some((number, rest)) = stored.split_once('-') else { return false };
    let salted = |rest: &str| {
        let salt = rest.strip_suffix(".table").or(rest.strip_suffix(".blob"));
        salt.is_some_and(|salt| {
            u64::from_str_radix(salt, 16).is_ok_and(|number| format!("{number:016x}") == salt)
        })
    };
    file_number(number).is_some() && (is_store_name(rest) || salted(rest))
}

/// The name under which backups share the file `name` with this salt.
pub(super) fn shared_name(name: &str, salt: u64) -> String {
    match name.split_once('.') {
        Some((number, kind)) => format!("{number}-{salt:016x}.{kind}"),
        None => name.to_owned(),
    }
}

/// The name of a file that only backup `id` has.
pub(super) fn own_name(name: &str, id: u64) -> String {
    format!("{id:06}-{name}")
}

fn catalog_number(name: &str) -> Option<u64> {
    file_number(name.strip_prefix("backup-")?)
}

fn is_temporary(name: &str) -> bool {
    name.strip_suffix(TEMPORARY).is_some_and(|name| catalog_number(name).is_some())
}

pub(super) fn catalog_path(dir: &Path, id: u64) -> PathBuf {
    dir.join(format!("backup-{id:06}"))
}

pub(super) fn temporary_path(dir: &Path, id: u64) -> PathBuf {
    dir.join(format!("backup-{id:06}{TEMPORARY}"))
}

impl Catalog {
    fn encode(&self) -> String {
        let mut out = format!("{FIRST_LINE}\nmade {}\nstore {:016x}\n", self.made_us, self.store);
        for Part { name, stored, len, sum } in &self.parts {
            // A write to a string cannot fail.
            let _ = writeln!(out, "file {len} {sum:016x} {stored} {name}");
        }
        let _ = writeln!(out, "sum {:016x}", checksum(0, out.as_bytes()));
        out
    }

    fn decode(id: u64, text: &str) -> Option<Catalog> {
        let (body, last) = text.strip_suffix('\n')?.rsplit_once('\n')?;
        let body = &text[..body.len() + 1];
        if last != format!("sum {:016x}", checksum(0, body.as_bytes())) {
            return None;
        }
        let mut lines = body.lines();
        if lines.next()? != FIRST_LINE {
            return None;
        }
        let made_us = lines.next()?.strip_prefix("made ")?.parse().ok()?;
        let store = u64::from_str_radix(lines.next()?.strip_prefix("store ")?, 16).ok()?;
        let parts: Option<Vec<Part>> = lines.map(decode_part).collect();
        Some(Catalog { id, made_us, store, parts: parts? })
    }

    pub(super) fn read(env: &Env, dir: &Path, id: u64) -> Result<Catalog> {
        let path = catalog_path(dir, id);
        let len = env.fs.file_len(&path)?;
        if len > CATALOG_LEN_MAX {
            let message =
                format!("the list of the backup's files has {len} bytes, more than any backup needs");
            return Err(Error::corruption(&path, 0, message));
        }
        let bytes = env.fs.read(&path)?;
        let decoded = std::str::from_utf8(&bytes).ok().and_then(|text| Catalog::decode(id, text));
        decoded.ok_or_else(|| {
            let message =
                "the list of the backup's files does not match its checksum; other backups in this directory \
                 can be restored; remove this file to make new ones";
            Error::corruption(&path, 0, message)
        })
    }

    /// Writes the catalog, which completes the backup. All its files are durable already.
    pub(super) fn write(&self, env: &Env, dir: &Path) -> Result<()> {
        let path = catalog_path(dir, self.id);
        let temporary = temporary_path(dir, self.id);
        let mut file = env.fs.create(&temporary)?;
        file.append(self.encode().as_bytes())?;
        file.sync()?;
        env.fs.rename(&temporary, &path)?;
        env.fs.sync_dir(dir)
    }

    pub(super) fn info(&self) -> BackupInfo {
        let bytes = self.parts.iter().map(|part| part.len).sum();
        BackupInfo { id: self.id, made_us: self.made_us, files: self.parts.len() as u64, bytes }
    }

    /// Whether the part is `manifest-000001` in a store.
    pub(super) fn is_manifest(part: &Part) -> bool {
        manifest_path(Path::new(""), 1).to_str() == Some(part.name.as_str())
    }
}

fn decode_part(line: &str) -> Option<Part> {
    let mut words = line.strip_prefix("file ")?.split(' ');
    let (len, sum) = (words.next()?.parse().ok()?, u64::from_str_radix(words.next()?, 16).ok()?);
    let (stored, name) = (words.next()?.to_owned(), words.next()?.to_owned());
    let known = words.next().is_none() && is_stored_name(&stored) && is_store_name(&name);
    known.then_some(Part { name, stored, len, sum })
}

#[derive(Debug, Default)]
pub(super) struct Shelf {
    /// The backups, oldest first.
    pub(super) ids: Vec<u64>,
    /// Files that a catalog names or has named.
    pub(super) stored: Vec<String>,
    pub(super) temporaries: Vec<String>,
    foreign: Option<String>,
}

impl Shelf {
    pub(super) fn read(env: &Env, dir: &Path) -> Result<Shelf> {
        let mut shelf = Shelf::default();
        for Entry { name, kind } in env.fs.entries(dir)? {
            if name == BACKUP_DIR && kind == NameKind::Directory {
                // The parts of a backup of a store that cannot be written, while they are made.
                continue;
            }
            let is_own = catalog_number(&name).is_some() || is_stored_name(&name) || is_temporary(&name);
            if is_own && kind != NameKind::File {
                return Err(not_a_file(&dir.join(&name), kind));
            }
            if let Some(id) = catalog_number(&name) {
                shelf.ids.push(id);
            } else if is_stored_name(&name) {
                shelf.stored.push(name);
            } else if is_temporary(&name) {
                shelf.temporaries.push(name);
            } else if name != LOCK_FILE && Path::new(&name) != lock_temporary(LOCK_FILE) {
                shelf.foreign = Some(name);
            }
        }
        shelf.ids.sort_unstable();
        if let (true, Some(name)) = (shelf.ids.is_empty(), &shelf.foreign) {
            let message = format!("this directory holds other files (such as \"{name}\") and no backups");
            return Err(Error::new(ErrorKind::InvalidInput, message).at(dir));
        }
        Ok(shelf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, stored: &str) -> Part {
        Part { name: name.to_owned(), stored: stored.to_owned(), len: 7, sum: u64::MAX }
    }

    #[test]
    fn catalogs_round_trip_and_every_other_byte_is_noticed() {
        let parts = vec![
            part("000012.table", "000012-00c0ffee00c0ffee.table"),
            part("000013.blob", "000002-000013.blob"),
            part("manifest-000001", "000002-manifest-000001"),
            part("wal-000003.log", "000002-wal-000003.log"),
        ];
        let catalog = Catalog { id: 2, made_us: 1_700_000_000_000_000, store: 0xabcd, parts };
        let text = catalog.encode();
        assert_eq!(Catalog::decode(2, &text), Some(catalog));
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            assert_eq!(std::str::from_utf8(&bytes).ok().and_then(|text| Catalog::decode(2, text)), None);
            assert_eq!(Catalog::decode(2, &text[..at]), None);
        }
    }

    #[test]
    fn no_name_leads_out_of_the_directory() {
        for name in ["../000001.table", "/etc/passwd", "000001-../x.table", "LOCK", "", "manifest-000002"] {
            assert!(!is_store_name(name), "{name}");
            assert!(!is_stored_name(name), "{name}");
        }
        assert!(!is_stored_name("000001-x0c0ffee00c0ffee.table") && !is_stored_name("000012.table"));
        assert_eq!(shared_name("000012.table", 0xc0ffee), "000012-0000000000c0ffee.table");
        assert!(
            is_stored_name(&shared_name("000012.table", 1)) && is_stored_name(&own_name("wal-000003.log", 4))
        );
    }
}
