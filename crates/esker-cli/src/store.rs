//! Opens the store, and finds the types of keys and values of a command's tree.
//!
//! A tree remembers these types in its tag, which is written just before the tree's first write here. A tree that a
//! program filled has no tag. It is read as text unless `--keys` and `--values` say otherwise, and only they give it a
//! tag. `hex` and `escaped` are notations for bytes, and go with every tree; bytes written in them must be of the
//! tree's type.

use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Instant;

use esker::{Db, ErrorKind, Options, ScanRange, Tree};
use esker_server::Offline;
use esker_table::{Error as TableError, Tables};

use crate::args::Global;
use crate::client::Database;
use crate::datatype::{DataError, DataType, Types};
use crate::exit::{Failure, Outcome, note};
use crate::interrupt;
use crate::keyspace::Keyspace;
use crate::output::behind_links;

/// A tree of an open store or a database of a server, and the form of its keys and values.
pub(crate) struct Store {
    pub(crate) tree: Keyspace,
    pub(crate) types: Types,
    /// The types that they have. They differ from `types` if `--keys` or `--values` only gives a notation.
    pub(crate) kept: Types,
    /// Whether keys and values differ in this way.
    keys_differ: bool,
    values_differ: bool,
    /// The tag to write before the first write, if the tree has none.
    tag: Option<Types>,
    /// Whether the shell has the store open, and keeps it open.
    stays_open: bool,
    /// Whether it was opened for reading only, so that there is nothing to sync.
    is_read_only: bool,
}

impl Store {
    /// Opens for reading; an absent store or tree is an error.
    pub(crate) fn read(global: &Global) -> Outcome<Self> {
        if let Some(database) = on_server(global)? {
            return Ok(Store::on_server(global, database, Types::TEXT));
        }
        Store::of(global, read_only(global)?, &For::Reading)
    }

    /// Opens for writing; an absent store or tree is an error.
    pub(crate) fn write(global: &Global) -> Outcome<Self> {
        if let Some(database) = on_server(global)? {
            return Ok(Store::on_server(global, database, Types::TEXT));
        }
        Store::of(global, existing(global)?, &For::Writing)
    }

    /// Opens for writing and creates what is absent. `fallback` are the types of a new tree without `--keys` or
    /// `--values`. If its keys are in a notation for bytes, they are so for any tree.
    pub(crate) fn create(global: &Global, fallback: Types) -> Outcome<Self> {
        if let Some(database) = on_server(global)? {
            return Ok(Store::on_server(global, database, fallback));
        }
        if let Some(db) = &global.open {
            return Store::of(global, db.clone(), &For::Creating(fallback));
        }
        let opened = patiently(global, || Ok(Db::open(&global.db, options(global))))?;
        let db = opened.map_err(|error| match error.kind() {
            // The command creates the store, so advice to create one would not help.
            ErrorKind::NotFound => Failure::store(error.to_string()),
            _ => opening(global, error),
        })?;
        Store::of(global, db, &For::Creating(fallback))
    }

    /// As [`Store::create`]. A store that cannot be written is opened for reading only.
    pub(crate) fn create_if_writable(global: &Global) -> Outcome<Self> {
        if global.url.is_some() || global.open.is_some() {
            return Store::create(global, Types::TEXT);
        }
        match writable(global, &options(global))? {
            (db, Access::Write) => Store::of(global, db, &For::Creating(Types::TEXT)),
            (db, Access::Read) => Store::of(global, db, &For::Reading),
        }
    }

    fn of(global: &Global, db: Db, purpose: &For) -> Outcome<Self> {
        let tree = match (purpose, db.open_tree(&global.tree)?) {
            (_, Some(tree)) => tree,
            (For::Creating(_), None) if Tables::reserves(&global.tree) || Offline::reserves(&global.tree) => {
                return Err(Failure::usage(format!(
                    "tables and servers make trees with names like {:?} for themselves: choose another name",
                    global.tree
                )));
            }
            (For::Creating(_), None) => db.tree(&global.tree)?,
            (_, None) => {
                let (name, path) = (&global.tree, global.db.display());
                return Err(Failure::store(format!(
                    "there is no tree {name:?} in {path} (see `esker trees`)"
                )));
            }
        };
        if !matches!(purpose, For::Reading) && Tables::made(&tree) {
            return Err(Failure::usage(format!(
                "the tree {:?} has the cells of a table, and `esker ql` changes these",
                tree.name()
            )));
        }
        let stored = stored_types(&tree)?;
        if let Some(stored) = stored {
            fits(global, &tree, stored)?;
        }
        let fallback = match purpose {
            For::Creating(types) => *types,
            For::Reading | For::Writing => Types::TEXT,
        };
        let base = stored.map_or(fallback, |stored| Types {
            keys: if fallback.keys.is_notation() { fallback.keys } else { stored.keys },
            ..stored
        });
        let types = global.types(base);
        let kept = stored.unwrap_or(types.kept());
        let asked = global.keys.is_some() || global.values.is_some();
        let is_new = stored.is_none() && (asked || is_empty(&tree)?);
        let tree = Keyspace::local(db, tree);
        // A database of a server has the types that its clients give it.
        let tag = match purpose {
            For::Creating(_) if is_new && !tree.is_database() => Some(kept),
            _ => None,
        };
        let (keys_differ, values_differ) = (types.keys != kept.keys, types.values != kept.values);
        let stays_open = global.open.is_some();
        let is_read_only = matches!(purpose, For::Reading);
        Ok(Store { tree, types, kept, keys_differ, values_differ, tag, stays_open, is_read_only })
    }

    /// A database has no tag: its keys and values have the types `fallback` unless `--keys` and `--values` say otherwise.
    fn on_server(global: &Global, database: Database, fallback: Types) -> Self {
        let types = global.types(fallback);
        let kept = types.kept();
        let (keys_differ, values_differ) = (types.keys != kept.keys, types.values != kept.values);
        let (tree, tag, stays_open) = (Keyspace::Server(database), None, true);
        Store { tree, types, kept, keys_differ, values_differ, tag, stays_open, is_read_only: false }
    }

    /// Records the types of a tree that has none. Call it before the first write.
    pub(crate) fn before_write(&mut self) -> Outcome {
        if let (Keyspace::Local(_, tree, _), Some(types)) = (&self.tree, self.tag.take()) {
            tree.set_tag(&types.tag())?;
        }
        Ok(())
    }

    /// The stored bytes of a key typed on the command line. A database of a server has the empty key, too.
    pub(crate) fn key(&self, typed: &[u8]) -> Outcome<Vec<u8>> {
        if typed.is_empty() && self.types.keys.takes_all() && self.tree.is_database() {
            return Ok(Vec::new());
        }
        let key = check_key(self.types.keys, typed)?;
        as_kept(self.kept.keys, &key).map_err(|error| wrong("key", typed, &error))?;
        Ok(key)
    }

    /// The stored bytes of a value typed on the command line, in `scratch` or `typed` itself.
    pub(crate) fn value<'a>(&self, typed: &'a [u8], scratch: &'a mut Vec<u8>) -> Outcome<&'a [u8]> {
        let value = check_value(self.types.values, typed, scratch)?;
        as_kept(self.kept.values, value).map_err(|error| wrong("value", typed, &error))?;
        Ok(value)
    }

    /// The stored bytes of a key from a file, in `scratch` or `typed` itself.
    #[inline]
    pub(crate) fn encode<'a>(
        &self,
        typed: &'a [u8],
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], DataError> {
        let key = self.types.keys.encode(typed, scratch)?;
        if self.keys_differ {
            as_kept(self.kept.keys, key)?;
        }
        Ok(key)
    }

    /// Whether `typed`, a key from a file, is the empty key, and the tree or the database takes that. With `makes_database`, a tree
    /// that may be a database of a server becomes one for it.
    pub(crate) fn takes_empty(&mut self, typed: &[u8], makes_database: bool) -> Outcome<bool> {
        if !typed.is_empty() || !self.types.keys.takes_all() || !self.kept.keys.takes_all() {
            return Ok(false);
        }
        Ok(self.tree.take_empty_key(makes_database)?)
    }

    /// The stored bytes of a value from a file, in `scratch` or `typed` itself.
    #[inline]
    pub(crate) fn encode_value<'a>(
        &self,
        typed: &'a [u8],
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], DataError> {
        let value = self.types.values.encode_value(typed, scratch)?;
        if self.values_differ {
            as_kept(self.kept.values, value)?;
        }
        Ok(value)
    }

    /// Makes everything written survive power loss, and closes the store unless the shell has it open.
    pub(crate) fn finish(self) -> Outcome {
        if !self.is_read_only {
            self.tree.sync()?;
        }
        match self.tree {
            Keyspace::Local(db, ..) if !self.stays_open => Ok(db.close()?),
            _ => Ok(()),
        }
    }
}

/// Refuses to write `path`, a file or a directory, in the store's own directory: it could be one of the store's files.
/// The path may be a link, and directories on the way to it may be missing.
pub(crate) fn check_outside(global: &Global, path: &Path) -> Outcome {
    if global.url.is_some() {
        return Ok(());
    }
    let target = behind_links(path).map_err(|error| Failure::io("write", path, &error))?;
    let existing =
        |dir: &Path| fs::canonicalize(if dir.as_os_str().is_empty() { Path::new(".") } else { dir }).ok();
    match (fs::canonicalize(&global.db), target.ancestors().skip(1).find_map(existing)) {
        (Ok(store), Some(parent)) if parent.starts_with(&store) => Err(Failure::usage(format!(
            "{} is in the store's own directory, where only the store may write: choose another place",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// The database of `--url`, if there is one: that of the URL, unless `--tree` names one.
fn on_server(global: &Global) -> Outcome<Option<Database>> {
    let Some(url) = &global.url else { return Ok(None) };
    if url.thrift().is_some() {
        return Err(Failure::usage(
            "a thrift:// URL is for `esker ql`: other commands work on redis:// and unix: URLs",
        ));
    }
    let number = match global.tree.strip_prefix("db") {
        _ if global.tree == "default" => url.database.unwrap_or(0),
        Some(digits) => tree_number(digits).ok_or_else(|| no_tree(&global.tree))?,
        None => return Err(no_tree(&global.tree)),
    };
    if let Some(of_url) = url.database.filter(|of_url| *of_url != number) {
        let tree = &global.tree;
        return Err(Failure::usage(format!("--tree {tree:?} and the URL's database {of_url} differ")));
    }
    Ok(Some(match &global.connected {
        Some(database) => database.other(number),
        None => Database::new(url.clone(), number, global.wait),
    }))
}

/// A database of the server at `--url`, which has answered.
pub(crate) fn connect(global: &Global) -> Outcome<Database> {
    let database = on_server(global)?.ok_or_else(|| Failure::usage("--url names no server"))?;
    database.greet()?;
    Ok(database)
}

/// The number of the database whose tree is called `db` and these digits.
fn tree_number(digits: &str) -> Option<u16> {
    let number = digits.parse().ok().filter(|number| *number > 0)?;
    (u16::to_string(&number) == digits).then_some(number)
}

fn no_tree(name: &str) -> Failure {
    Failure::usage(format!(
        "a server has databases and no tree {name:?}: --tree default, db1, db2, ... names one (--db DIR reads any tree \
         when no server has the store open)"
    ))
}

/// Closes what [`existing`] has opened, unless the shell has it open.
pub(crate) fn close(global: &Global, db: &Db) -> Outcome {
    if global.open.is_none() {
        db.close()?;
    }
    Ok(())
}

/// The purpose of opening a store.
enum For {
    Reading,
    Writing,
    /// Writing, and creating a missing tree with these types.
    Creating(Types),
}

/// Refuses requested types that are not those of the tree.
fn fits(global: &Global, tree: &Tree, stored: Types) -> Outcome {
    let differs = |what: &str, asked: DataType, stored: DataType| {
        let name = tree.name();
        Err(Failure::usage(format!("the tree {name:?} has {stored} {what}, not {asked} (--{what})")))
    };
    let fits = |asked: DataType, stored| asked == stored || asked.is_notation();
    match (global.keys, global.values) {
        (Some(asked), _) if !fits(asked, stored.keys) => differs("keys", asked, stored.keys),
        (_, Some(asked)) if !fits(asked, stored.values) => differs("values", asked, stored.values),
        _ => Ok(()),
    }
}

/// Refuses a key typed on the command line before a store is made for it.
pub(crate) fn check_first_key(global: &Global, types: Types, typed: &[u8]) -> Outcome {
    match typed {
        [] if global.url.is_some() => Ok(()),
        // A store that is there may be one of a server.
        [] => match Store::read(global) {
            Ok(store) => store.key(typed).map(drop),
            Err(_) => check_key(types.keys, typed).map(drop),
        },
        _ => check_key(types.keys, typed).map(drop),
    }
}

/// The stored bytes of a key typed on the command line.
fn check_key(keys: DataType, typed: &[u8]) -> Outcome<Vec<u8>> {
    keys.to_bytes(typed).map_err(|error| wrong("key", typed, &error))
}

/// Whether `bytes` are of the tree's type, in whatever notation they were typed.
fn as_kept(kept: DataType, bytes: &[u8]) -> Result<(), DataError> {
    if kept.has(bytes) { Ok(()) } else { Err(DataError::NotAsStored(kept.to_string())) }
}

fn wrong(what: &str, typed: &[u8], error: &DataError) -> Failure {
    Failure::usage(format!("{:?}: the {what} {error}", String::from_utf8_lossy(typed)))
}

/// The stored bytes of a value typed on the command line, in `scratch` or `typed` itself.
pub(crate) fn check_value<'a>(
    values: DataType,
    typed: &'a [u8],
    scratch: &'a mut Vec<u8>,
) -> Outcome<&'a [u8]> {
    values.encode_value(typed, scratch).map_err(|error| wrong("value", typed, &error))
}

/// The types in a tree's tag; `None` if it has no tag.
fn stored_types(tree: &Tree) -> Outcome<Option<Types>> {
    let Some(tag) = tree.tag() else { return Ok(None) };
    match Types::of_tag(&tag) {
        Some(types) => Ok(Some(types)),
        None => Err(Failure::store(format!(
            "the tree {:?} has the tag {tag:?}, which does not name types that this version of esker knows",
            tree.name()
        ))),
    }
}

/// The store, opened for reading.
pub(crate) fn read_only(global: &Global) -> Outcome<Db> {
    if let Some(db) = &global.open {
        return Ok(db.clone());
    }
    let opened = patiently(global, || Ok(Db::open_read_only(&global.db, options(global))))?;
    opened.map_err(|error| opening(global, error))
}

/// The store, opened for writing, never created.
pub(crate) fn existing(global: &Global) -> Outcome<Db> {
    if let Some(db) = &global.open {
        return Ok(db.clone());
    }
    let opened = patiently(global, || Ok(Db::open(&global.db, options(global).create(false))))?;
    opened.map_err(|error| opening(global, error))
}

/// The store, opened for writing if that is possible, never created.
pub(crate) fn readable(global: &Global) -> Outcome<Db> {
    if let Some(db) = &global.open {
        return Ok(db.clone());
    }
    writable(global, &options(global).create(false)).map(|(db, _)| db)
}

/// What a store was opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// The store, opened for writing. If its files cannot be written, because of a read-only file system or the permissions
/// of another user, it is opened for reading only: what only reads works.
pub(crate) fn writable(global: &Global, options: &Options) -> Outcome<(Db, Access)> {
    let opened = patiently(global, || Ok(open_writable(&global.db, options)))?;
    let (db, access) = opened.map_err(|error| match error.kind() {
        // The command creates the store, so advice to create one would not help.
        ErrorKind::NotFound if options.create => Failure::store(error.to_string()),
        _ => opening(global, error),
    })?;
    if access == Access::Read {
        note_read_only(global);
    }
    Ok((db, access))
}

fn open_writable(path: &Path, options: &Options) -> esker::Result<(Db, Access)> {
    let refused = match Db::open(path, options.clone()) {
        Ok(db) => return Ok((db, Access::Write)),
        Err(error) if is_unwritable(&error) => error,
        Err(error) => return Err(error),
    };
    match Db::open_read_only(path, options.clone()) {
        Ok(db) => Ok((db, Access::Read)),
        // There is no store: it cannot be created.
        Err(error) if error.kind() == ErrorKind::NotFound => Err(refused),
        Err(error) => Err(error),
    }
}

/// Whether `error` says that the store may be read and not written.
fn is_unwritable(error: &esker::Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|error| {
        matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
    })
}

fn note_read_only(global: &Global) {
    note(&format!("{} cannot be written here, so it is opened for reading only", global.db.display()));
}

/// Opens the tables of the store, and creates it if it is absent.
pub(crate) fn tables(global: &Global, query_cache: usize) -> Outcome<Tables> {
    tables_with(global, options(global), query_cache)
}

/// As [`tables`], with options of the store.
pub(crate) fn tables_with(global: &Global, mut options: Options, query_cache: usize) -> Outcome<Tables> {
    // The store needs the rest.
    if query_cache > options.memory_budget / 2 {
        let half = options.memory_budget / 2;
        return Err(Failure::usage(format!(
            "a query cache of {query_cache} bytes is more than half of the memory: {half} (--memory)"
        )));
    }
    options.memory_budget -= query_cache;
    let tables = open_tables(global, || Tables::open(&global.db, options.clone()))?;
    let tables = tables.map_err(|error| opening(global, error))?;
    tables.set_query_cache(query_cache);
    Ok(tables)
}

/// As [`tables`]. Tables that cannot be written are opened for reading only.
pub(crate) fn tables_if_writable(global: &Global) -> Outcome<Tables> {
    let opened = open_tables(global, || Tables::open(&global.db, options(global)))?;
    opened.or_else(|error| tables_to_read(global, error))
}

/// As [`tables_if_writable`]; `None` if there is no store.
pub(crate) fn tables_if_there(global: &Global) -> Outcome<Option<Tables>> {
    match open_tables(global, || Tables::open(&global.db, options(global).create(false)))? {
        Ok(tables) => Ok(Some(tables)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => tables_to_read(global, error).map(Some),
    }
}

/// The tables, which could not be opened for writing because of `refused`, for reading only.
fn tables_to_read(global: &Global, refused: esker::Error) -> Outcome<Tables> {
    if !is_unwritable(&refused) {
        return Err(opening(global, refused));
    }
    match open_tables(global, || Tables::open_read_only(&global.db, options(global)))? {
        Ok(tables) => {
            note_read_only(global);
            Ok(tables)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Err(Failure::store(format!(
            "{} has no tables, and none can be made: {refused}",
            global.db.display()
        ))),
        Err(error) => Err(opening(global, error)),
    }
}

/// The tables that `open` opens, as soon as no other process holds the store.
fn open_tables(
    global: &Global,
    open: impl Fn() -> esker_table::Result<Tables>,
) -> Outcome<esker::Result<Tables>> {
    patiently(global, || match open() {
        Ok(tables) => Ok(Ok(tables)),
        Err(TableError::Store(error)) => Ok(Err(error)),
        Err(error) => Err(Failure::store(error.to_string())),
    })
}

/// Does `work`. While that fails because another process holds the store, repeats it, for as long as `--wait` says.
///
/// The kernel could wait for the lock too, but not until a given time, nor until Ctrl-C. This way, waiting for another
/// process takes at most a twentieth of a second longer.
pub(crate) fn patiently<T>(
    global: &Global,
    mut work: impl FnMut() -> Outcome<esker::Result<T>>,
) -> Outcome<esker::Result<T>> {
    // If no clock reaches the time, the wait has no end.
    let until = global.wait.map(|wait| Instant::now().checked_add(wait));
    let mut is_said = false;
    loop {
        let error = match work()? {
            Err(error) if error.kind() == ErrorKind::Locked => error,
            done => return Ok(done),
        };
        let left = match until {
            None => return Ok(Err(error)),
            Some(None) => interrupt::LOOK_EVERY,
            Some(Some(until)) => until.saturating_duration_since(Instant::now()),
        };
        if left.is_zero() {
            return Ok(Err(error));
        }
        if !std::mem::replace(&mut is_said, true) {
            note(&format!("waiting: {}", error.message()));
        }
        interrupt::check()?;
        thread::sleep(left.min(interrupt::LOOK_EVERY));
    }
}

/// The options with which every command opens a store.
pub(crate) fn options(global: &Global) -> Options {
    match global.memory {
        Some(bytes) => Options::default().memory_budget(bytes),
        None => Options::default(),
    }
}

/// The library's minimum. Lower requests are raised to it.
const MEMORY_MIN: usize = 8 << 20;

/// Reports if the memory budget differs from the requested one.
pub(crate) fn say_memory(asked: Option<usize>) {
    if let Some(bytes) = asked.filter(|bytes| *bytes < MEMORY_MIN) {
        note(&format!("{bytes} bytes of memory are too few; esker uses the minimum, 8 MiB (8388608 bytes)"));
    }
}

/// The failure if a store cannot be opened: always exit code 3.
pub(crate) fn opening(global: &Global, error: esker::Error) -> Failure {
    match error.kind() {
        ErrorKind::NotFound => missing_for(global),
        ErrorKind::InvalidInput => Failure::store(error.to_string()),
        ErrorKind::Cancelled => Failure::interrupted("interrupted"),
        // The message names the command that has the store open.
        ErrorKind::Locked if error.message().contains(" serve") => {
            Failure::store(format!("{error}, or ask that server: --url redis://HOST:PORT"))
        }
        ErrorKind::Locked if global.wait.is_none() => {
            Failure::store(format!("{error} (with --wait 10s, the command waits up to ten seconds)"))
        }
        _ => error.into(),
    }
}

/// The failure if there is no store where a command looks for one, or no directory for it.
pub(crate) fn missing_for(global: &Global) -> Failure {
    match global.db.parent() {
        // Commands that create a store do not create what it is to be in.
        Some(parent) if !parent.as_os_str().is_empty() && !parent.exists() => {
            Failure::store(format!("there is no directory {} for a store to be in", parent.display()))
        }
        _ => missing(&global.db),
    }
}

/// The failure if there is no store: exit code 3.
pub(crate) fn missing(path: &Path) -> Failure {
    Failure::store(format!(
        "there is no store at {} (put, merge, run, import, serve, thrift, CREATE TABLE in ql and the shell's open create one; --db PATH \
         names another)",
        path.display()
    ))
}

fn is_empty(tree: &Tree) -> Outcome<bool> {
    Ok(!tree.scan(ScanRange::all().keys_only())?.advance()?)
}
