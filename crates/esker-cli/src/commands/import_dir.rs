//! `esker import DIR`: one row per file. The key is the path below DIR, the value the content.
//!
//! In a directory that `esker export` wrote (it has a marker), paths are unescaped, so that the same rows come back. They are
//! keys in the notation of the marker, and a new tree gets its types.
//! Elsewhere a path is a key as it is, whatever bytes it has. Symbolic links are not followed, so there can be no loop
//! (DIR itself may be a link). Links, pipes, sockets and devices are left out, and so is the store itself, if it is
//! below DIR. Empty directories leave nothing.
//!
//! Only whole files count. A file that changes while it is read is read again; if it keeps changing, its key stays as
//! it was in the store, and the file is reported. A file that cannot be read is reported too. All others are imported.
//!
//! A file whose bytes are its key's value already is read but not written. So an interrupted import continues where it
//! stopped. (Times would not tell: `touch` and `cp -p` set them, and they have a coarse resolution.)

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use esker::ErrorKind;

use super::escape::{self, LONG, MARKER, UNFINISHED};
use super::export_dir::Marker;
use crate::args::{Global, Import};
use crate::datatype::{DataType, Types};
use crate::exit::{Failure, Outcome, note};
use crate::interrupt;
use crate::keyspace::PIECE;
use crate::progress::Progress;
use crate::steady::{Opened, SteadyFile, read_small};
use crate::store::Store;
use crate::stream::{Broken, Source};
use crate::summary::Summary;
use crate::writes::{Refused, Writes};

/// More bytes than any printed key takes.
const LONG_KEY_MAX: u64 = 1 << 20;

/// How often a file that others write to is read.
const ATTEMPTS: usize = 3;

pub(crate) fn run(global: &Global, args: &Import) -> Outcome {
    let dir = args.source.as_path();
    let marker = Marker::read(&dir.join(MARKER))?;
    let fallback = marker.as_ref().map_or(Types::TEXT, |marker| marker.types);
    let own = || if global.url.is_none() { fs::canonicalize(&global.db).ok() } else { None };
    if own().is_some_and(|own| fs::canonicalize(dir).is_ok_and(|dir| dir == own)) {
        return Err(Failure::usage(format!("{} is the store's own directory", dir.display())));
    }
    // A directory that cannot be read must not leave an empty store.
    listing(dir).map_err(|error| Failure::io("read", dir, &error))?;
    let store = Store::create(global, fallback)?;
    if let Some(marker) = &marker {
        check_types(global, dir, marker.types, &store)?;
    }
    let own = own();
    let summary = Summary::start();
    let mut files = Files {
        store,
        writes: Writes::new(),
        escaped: marker.is_some(),
        keep_going: args.keep_going,
        own,
        streamed: 0,
        unchanged: 0,
        malformed: 0,
        failed: 0,
        first: Vec::new(),
        links: LeftOut::default(),
        special: LeftOut::default(),
    };
    let done = files.walk(dir);
    let applied = files.writes.apply(&mut files.store);
    let finished = files.store.finish();
    // Rows of a failed batch are not there.
    let stored = files.streamed + files.writes.stored().puts;
    let parts = [(stored, "stored"), (files.unchanged, "unchanged")];
    summary.print("files", stored + files.unchanged, &parts);
    files.links.print("symbolic links");
    files.special.print("pipes, sockets or devices");
    done.and(applied).and(finished)?;
    match (files.failed, files.malformed) {
        (0, 0) => Ok(()),
        (0, _) => Err(Failure::usage_reported()),
        (count, _) => Err(Failure::store(format!(
            "{count} files or directories, named above, were not imported; the same command tries them again"
        ))),
    }
}

/// Refuses an export of another type: the tree would take its names or its bytes for something else. What is text or bytes there
/// may be read in the tree's type.
fn check_types(global: &Global, dir: &Path, exported: Types, store: &Store) -> Outcome {
    let differ = |exported: DataType, kept: DataType| !exported.takes_all() && exported != kept;
    let kept = store.kept;
    let (what, of_export, of_tree) = if global.keys.is_none() && differ(exported.keys, kept.keys) {
        ("keys", exported.keys, kept.keys)
    } else if global.values.is_none()
        && exported.values != DataType::Json
        && differ(exported.values, kept.values)
    {
        ("values", exported.values, kept.values)
    } else {
        return Ok(());
    };
    Err(Failure::usage(format!(
        "{} is an export with {of_export} {what}, and the tree {:?} has {of_tree} {what}: import it into a new tree (--tree NAME)",
        dir.display(),
        store.tree.name()
    )))
}

/// Entries that are neither files nor directories: their number, and the first one.
#[derive(Default)]
struct LeftOut {
    count: u64,
    first: Option<PathBuf>,
}

impl LeftOut {
    fn add(&mut self, path: PathBuf) {
        self.count += 1;
        self.first.get_or_insert(path);
    }

    fn print(&self, what: &str) {
        if let Some(first) = &self.first {
            note(&format!("{} {what} left out; the first is {}", self.count, first.display()));
        }
    }
}

/// Takes files and puts rows.
struct Files {
    store: Store,
    writes: Writes,
    /// Whether an export wrote the directory.
    escaped: bool,
    keep_going: bool,
    /// The store's own directory.
    own: Option<PathBuf>,
    /// How many files were stored as streams. `writes` counts the others.
    streamed: u64,
    /// How many were in the store already, byte for byte.
    unchanged: u64,
    /// How many have names that are not keys.
    malformed: u64,
    /// How many could not be read, or changed while they were read.
    failed: u64,
    /// Memory for the first piece of a file, reused for each file.
    first: Vec<u8>,
    links: LeftOut,
    special: LeftOut,
}

/// The result of importing a file.
enum Taken {
    Stored,
    Unchanged,
    /// It changed while it was read.
    Changed,
    /// It is not a regular file.
    Other,
}

/// Why a file could not be imported.
enum Trouble {
    Source(io::Error),
    Refused(Refused),
}

impl<T: Into<Refused>> From<T> for Trouble {
    fn from(refused: T) -> Self {
        Trouble::Refused(refused.into())
    }
}

impl From<Broken> for Trouble {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Source(error) => Trouble::Source(error),
            Broken::Store(failure) => Trouble::Refused(Refused::Failed(failure)),
        }
    }
}

impl Files {
    /// Visits every file below `root`, each directory in the order of its names.
    fn walk(&mut self, root: &Path) -> Outcome {
        let progress = Progress::count("files");
        let mut pending = listing(root).map_err(|error| Failure::io("read", root, &error))?;
        while let Some(path) = pending.pop() {
            interrupt::check()?;
            let kind = match fs::symlink_metadata(&path) {
                Ok(meta) => meta.file_type(),
                Err(error) => {
                    self.cannot_read(&path, &error);
                    continue;
                }
            };
            if kind.is_dir() {
                if self.own.is_none() || fs::canonicalize(&path).ok() != self.own {
                    match listing(&path) {
                        Ok(inside) => pending.extend(inside),
                        Err(error) => self.cannot_read(&path, &error),
                    }
                }
            } else if kind.is_file() {
                self.file(root, &path)?;
                progress.add(1);
            } else if kind.is_symlink() {
                self.links.add(path);
            } else {
                self.special.add(path);
            }
        }
        Ok(())
    }

    /// Reports the file, and continues with the others.
    fn cannot_read(&mut self, path: &Path, error: &io::Error) {
        self.failed += 1;
        note(&format!("cannot read {}: {error}", path.display()));
    }

    /// The key of the file `below` the root; `None` for a file that belongs to the export itself.
    fn key_of(&self, below: &Path, path: &Path) -> Result<Option<Vec<u8>>, Trouble> {
        let bytes = below.as_os_str().as_encoded_bytes();
        if !self.escaped {
            return Ok(Some(bytes.to_vec()));
        }
        if below == Path::new(MARKER) || below == Path::new(UNFINISHED) {
            return Ok(None);
        }
        match long_key(below, path).map_err(Trouble::Source)? {
            LongKey::Is(key) => Ok(Some(key)),
            LongKey::OwnFile => Ok(None),
            LongKey::No => match escape::key_of(bytes) {
                Some(key) => Ok(Some(key)),
                None => {
                    Err(Refused::Malformed("this is not a file name that `esker export` writes".to_owned())
                        .into())
                }
            },
        }
    }

    fn file(&mut self, root: &Path, path: &Path) -> Outcome {
        let below = path.strip_prefix(root).unwrap_or(path);
        match self.take(below, path) {
            Ok(Some(Taken::Stored)) => {}
            Ok(Some(Taken::Unchanged)) => self.unchanged += 1,
            Ok(Some(Taken::Changed)) => {
                self.failed += 1;
                note(&format!("{}: changed while it was read, so it was not stored", path.display()));
            }
            Ok(Some(Taken::Other)) => self.special.add(path.to_owned()),
            Ok(None) => {}
            Err(Trouble::Source(error)) => self.cannot_read(path, &error),
            Err(Trouble::Refused(Refused::Failed(failure))) => return Err(failure),
            Err(Trouble::Refused(Refused::Malformed(reason))) => {
                let message = format!("{}: {reason}", path.display());
                if !self.keep_going {
                    return Err(Failure::usage(message));
                }
                note(&message);
                self.malformed += 1;
            }
        }
        Ok(())
    }

    /// Imports the contents of the file `path`.
    fn take(&mut self, below: &Path, path: &Path) -> Result<Option<Taken>, Trouble> {
        let Some(typed) = self.key_of(below, path)? else { return Ok(None) };
        let mut scratch = Vec::new();
        // Only an export names the empty key.
        let key = match self.store.takes_empty(&typed, true).map_err(Refused::from)? {
            true => Vec::new(),
            false => self.store.encode(&typed, &mut scratch)?.to_vec(),
        };
        for _ in 0..ATTEMPTS {
            let file = match SteadyFile::open(path).map_err(Trouble::Source)? {
                Opened::File(file) => file,
                Opened::Busy => continue,
                Opened::Other => return Ok(Some(Taken::Other)),
            };
            match self.attempt(&key, Source::new(file, &path.display()))? {
                Taken::Changed => {}
                taken => return Ok(Some(taken)),
            }
        }
        Ok(Some(Taken::Changed))
    }

    fn attempt(&mut self, key: &[u8], mut source: Source<SteadyFile>) -> Result<Taken, Trouble> {
        let mut first = std::mem::take(&mut self.first);
        source.next(&mut first).map_err(Trouble::Source)?;
        let len = source.inner().len();
        let values = self.store.kept.values;
        if values.width().is_some_and(|width| width as u64 != len) || !values.has(&first) {
            let reason = format!("its {len} bytes are not {values} in its stored form");
            return Err(Refused::Malformed(reason).into());
        }
        let is_steady = |source: &Source<SteadyFile>| source.inner().is_steady().map_err(Trouble::Source);
        if self.is_stored(key, len, &first, &mut source)? {
            self.first = first;
            return Ok(if is_steady(&source)? { Taken::Unchanged } else { Taken::Changed });
        }
        if len < PIECE as u64 {
            let taken = if first.len() as u64 == len && is_steady(&source)? {
                self.writes.put(&mut self.store, key, &first)?;
                Taken::Stored
            } else {
                Taken::Changed
            };
            self.first = first;
            return Ok(taken);
        }
        self.writes.apply(&mut self.store)?;
        self.store.before_write()?;
        let mut writer = self.store.tree.writer(key, Some(len), None)?;
        let shared = writer.share_file(source.inner().file(), len)?;
        // The comparison may have moved the file's position.
        source.go_to(shared).map_err(Trouble::Source)?;
        source.next(&mut first).map_err(Trouble::Source)?;
        source.pour(first, &mut writer)?;
        if writer.len() != len || !is_steady(&source)? {
            return Ok(Taken::Changed);
        }
        writer.commit()?;
        self.streamed += 1;
        Ok(Taken::Stored)
    }

    /// Whether `key` already has exactly the `len` bytes of the file. May read `source` to its end.
    fn is_stored(
        &mut self,
        key: &[u8],
        len: u64,
        first: &[u8],
        source: &mut Source<SteadyFile>,
    ) -> Result<bool, Trouble> {
        // Two files may have the same key if keys are numbers (7 and 007), or in an altered export. Then order matters.
        let distinct = !self.escaped && self.store.types.keys == DataType::Text;
        if !distinct {
            self.writes.apply(&mut self.store)?;
        }
        let value = match self.store.tree.get(key) {
            Ok(Some(value)) => value,
            Ok(None) => return Ok(false),
            // A damaged value is replaced, and so is a collection.
            Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::InvalidInput) => {
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        Ok(value.len() == len && source.is(first, value)?)
    }
}

/// Whether a file belongs to a row whose key is too long for a name.
enum LongKey {
    Is(Vec<u8>),
    /// The file holds such a key.
    OwnFile,
    No,
}

fn long_key(below: &Path, path: &Path) -> io::Result<LongKey> {
    if !below.starts_with(LONG) {
        return Ok(LongKey::No);
    }
    if path.extension().is_some_and(|extension| extension == "key") {
        return Ok(LongKey::OwnFile);
    }
    // An export has put it beside the value. If something else has the name, it must neither lead elsewhere nor block.
    let beside = path.with_extension("key");
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("its key, in {}: {error}", beside.display()));
    read_small(&beside, LONG_KEY_MAX).map(LongKey::Is).map_err(named)
}

/// The entries of a directory, last name first, so that `pop` returns the first.
fn listing(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir)?;
    let mut entries = entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort_unstable_by(|a, b| b.cmp(a));
    Ok(entries)
}
