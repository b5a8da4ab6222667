//! `esker import DIR`: a row a file. The key is the path below DIR, the value the content.
//!
//! In a directory that `esker export` wrote (it has a marker), paths are unescaped, so that the same
//! rows come back; anywhere else a path is a key as it stands. Links and devices are left out, and so
//! is the store itself, should it lie below DIR.
//!
//! A file whose bytes are its key's value already is read and not written. So an import that was cut short
//! goes on where it stopped. A file that is written to meanwhile becomes what was read of it, from its
//! beginning to its end.

use std::fs;
use std::path::{Path, PathBuf};

use esker::{Durability, ErrorKind};

use super::escape::{self, LONG, MARKER};
use super::export_dir::Marker;
use crate::args::Global;
use crate::exit::{Failure, Outcome, note};
use crate::keytype::KeyType;
use crate::progress::Progress;
use crate::store::Store;
use crate::stream::{PIECE, Source};
use crate::summary::Summary;
use crate::writes::{Refused, Writes};

pub(crate) fn run(global: &Global, dir: &Path) -> Outcome {
    let marker = Marker::read(&dir.join(MARKER))?;
    let fallback = marker.as_ref().map_or(KeyType::Text, |marker| marker.keys);
    let store = Store::create(global, fallback)?;
    let own = fs::canonicalize(&global.db).ok();
    if own.is_some() && own == fs::canonicalize(dir).ok() {
        return Err(Failure::usage(format!("{} is the store itself", dir.display())));
    }
    let summary = Summary::start();
    let mut files = Files {
        store,
        writes: Writes::new(),
        escaped: marker.is_some(),
        own,
        count: 0,
        unchanged: 0,
        first: Vec::new(),
        left_out: None,
        left: 0,
    };
    let done = files.walk(dir);
    let applied = files.writes.apply(&mut files.store);
    let finished = files.store.finish();
    let parts = [(files.count - files.unchanged, "stored"), (files.unchanged, "unchanged")];
    summary.print("files", files.count, &parts);
    if let Some(first) = files.left_out {
        let (left, first) = (files.left, first.display());
        note(&format!("{left} left out that are neither files nor directories, first {first}"));
    }
    done.and(applied).and(finished)
}

/// Takes files and puts rows.
struct Files {
    store: Store,
    writes: Writes,
    /// Whether an export wrote the directory.
    escaped: bool,
    /// The store's own directory.
    own: Option<PathBuf>,
    count: u64,
    /// How many of them were in the store already, byte for byte.
    unchanged: u64,
    /// Memory for the first piece of a file, reused from file to file.
    first: Vec<u8>,
    left_out: Option<PathBuf>,
    left: u64,
}

impl Files {
    /// Every file below `root`, each directory in the order of its names.
    fn walk(&mut self, root: &Path) -> Outcome {
        let progress = Progress::count("files");
        let mut pending = listing(root)?;
        while let Some(path) = pending.pop() {
            let meta = fs::symlink_metadata(&path).map_err(|error| Failure::io("read", &path, &error))?;
            if meta.is_dir() {
                if self.own.is_none() || fs::canonicalize(&path).ok() != self.own {
                    pending.extend(listing(&path)?);
                }
            } else if meta.is_file() {
                self.file(root, &path)?;
                progress.add(1);
            } else {
                self.left += 1;
                self.left_out.get_or_insert(path);
            }
        }
        Ok(())
    }

    fn file(&mut self, root: &Path, path: &Path) -> Outcome {
        let below = path.strip_prefix(root).unwrap_or(path);
        let bytes = below.as_os_str().as_encoded_bytes();
        let typed = match self.escaped {
            false => bytes.to_vec(),
            true if below == Path::new(MARKER) => return Ok(()),
            true => match long_key(below, path)? {
                LongKey::Is(key) => key,
                LongKey::OwnFile => return Ok(()),
                LongKey::No => escape::key_of(bytes).ok_or_else(|| {
                    Failure::usage(format!("{}: not a name that export writes", path.display()))
                })?,
            },
        };
        let mut source = Source::open(path)?;
        let mut first = std::mem::take(&mut self.first);
        source.next(&mut first)?;
        self.put(&typed, first, source, path).map_err(|refused| match refused {
            Refused::Malformed(reason) => Failure::usage(format!("{}: {reason}", path.display())),
            Refused::Failed(failure) => failure,
        })
    }

    /// Takes what the file `path` holds: `first`, and what `source` has behind it.
    fn put(&mut self, typed: &[u8], first: Vec<u8>, mut source: Source, path: &Path) -> Result<(), Refused> {
        let key = self.store.keys.to_bytes(typed)?;
        self.count += 1;
        let whole = first.len() < PIECE;
        if self.is_stored(&key, &first, &mut source, path)? {
            self.unchanged += 1;
            self.first = first;
        } else if whole {
            self.writes.put(&mut self.store, &key, &first)?;
            self.first = first;
        } else {
            // The comparison may have read on.
            let mut again = Source::open(path)?;
            let mut first = first;
            again.next(&mut first)?;
            self.writes.apply(&mut self.store)?;
            self.store.before_write()?;
            again.put(&self.store.tree, &key, first, Durability::Process)?;
        }
        Ok(())
    }

    /// Whether `key` has exactly the bytes of the file already. May read `source` to its end.
    fn is_stored(&mut self, key: &[u8], first: &[u8], source: &mut Source, path: &Path) -> Outcome<bool> {
        // Two files are one key in numbers (7 and 007) or below an altered export: then order matters.
        let distinct = !self.escaped && self.store.keys == KeyType::Text;
        if !distinct {
            self.writes.apply(&mut self.store)?;
        }
        let value = match self.store.tree.get(key) {
            Ok(Some(value)) => value,
            Ok(None) => return Ok(false),
            // What is damaged is replaced.
            Err(error) if error.kind() == ErrorKind::Corruption => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let len = if first.len() < PIECE {
            Ok(first.len() as u64)
        } else {
            fs::metadata(path).map(|meta| meta.len())
        };
        if len.map_err(|error| Failure::io("read", path, &error))? != value.len() {
            return Ok(false);
        }
        source.is(first, &value)
    }
}

/// Whether a file holds a row whose key is too long for a name.
enum LongKey {
    Is(Vec<u8>),
    /// It holds such a key itself.
    OwnFile,
    No,
}

fn long_key(below: &Path, path: &Path) -> Outcome<LongKey> {
    if !below.starts_with(LONG) {
        return Ok(LongKey::No);
    }
    if path.extension().is_some_and(|extension| extension == "key") {
        return Ok(LongKey::OwnFile);
    }
    let beside = path.with_extension("key");
    fs::read(&beside).map(LongKey::Is).map_err(|error| Failure::io("read", &beside, &error))
}

/// What is in a directory, last name first, so that popping gives the first.
fn listing(dir: &Path) -> Outcome<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).and_then(|entries| {
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<Vec<_>>>()
    });
    let mut entries = entries.map_err(|error| Failure::io("read", dir, &error))?;
    entries.sort_unstable_by(|a, b| b.cmp(a));
    Ok(entries)
}
