//! Opening the store, and the key type of the tree a command works on.
//!
//! A tree remembers its key type in its tag, written just before the tree's first write here. A tree
//! that a program filled has none; it is read as text unless `--keys` says otherwise, and only an
//! explicit `--keys` gives it a tag.

use std::path::Path;

use esker::{Db, ErrorKind, Options, ScanRange, Tree};

use crate::args::Global;
use crate::exit::{Failure, Outcome};
use crate::keytype::KeyType;

/// A store that is open, one of its trees, and how that tree's keys look.
pub(crate) struct Store {
    pub(crate) db: Db,
    pub(crate) tree: Tree,
    pub(crate) keys: KeyType,
    /// The tag to write before the first write, where the tree has none.
    tag: Option<KeyType>,
}

impl Store {
    /// Opens for reading; an absent store or tree is an error.
    pub(crate) fn read(global: &Global) -> Outcome<Self> {
        Store::of(global, read_only(global)?, None)
    }

    /// Opens for writing; an absent store or tree is an error.
    pub(crate) fn write(global: &Global) -> Outcome<Self> {
        Store::of(global, existing(global)?, None)
    }

    /// Opens for writing and creates what is absent. `fallback` is the key type of a new tree where
    /// `--keys` is not given.
    pub(crate) fn create(global: &Global, fallback: KeyType) -> Outcome<Self> {
        let db = Db::open(&global.db, options(global)).map_err(|error| match error.kind() {
            // Advice to create a store would not help somebody who is about to.
            ErrorKind::NotFound => Failure::store(error.to_string()),
            _ => opening(global, error),
        })?;
        Store::of(global, db, Some(fallback))
    }

    fn of(global: &Global, db: Db, fallback: Option<KeyType>) -> Outcome<Self> {
        let tree = match (fallback, db.open_tree(&global.tree)?) {
            (_, Some(tree)) => tree,
            (Some(_), None) => db.tree(&global.tree)?,
            (None, None) => {
                let (name, path) = (&global.tree, global.db.display());
                return Err(Failure::store(format!(
                    "there is no tree {name:?} in {path} (see `esker trees`)"
                )));
            }
        };
        let stored = stored_keys(&tree)?;
        if let (Some(asked), Some(stored)) = (global.keys, stored)
            && asked != stored
        {
            let (name, asked, stored) = (tree.name(), asked.name(), stored.name());
            return Err(Failure::usage(format!("the tree {name:?} has {stored} keys, not {asked} (--keys)")));
        }
        let keys = global.keys.or(stored).or(fallback).unwrap_or(KeyType::Text);
        let tag = match (stored, fallback) {
            (None, Some(_)) if global.keys.is_some() || is_empty(&tree)? => Some(keys),
            _ => None,
        };
        Ok(Store { db, tree, keys, tag })
    }

    /// Fixes the key type of a tree that has none. To be called before the first write.
    pub(crate) fn before_write(&mut self) -> Outcome {
        if let Some(keys) = self.tag.take() {
            self.tree.set_tag(keys.name())?;
        }
        Ok(())
    }

    /// The stored bytes of a key typed on the command line.
    pub(crate) fn key(&self, typed: &[u8]) -> Outcome<Vec<u8>> {
        check_key(self.keys, typed)
    }

    /// Makes everything written survive power loss and closes the store.
    pub(crate) fn finish(self) -> Outcome {
        self.db.sync()?;
        self.db.close()?;
        Ok(())
    }
}

/// The stored bytes of a key typed on the command line.
pub(crate) fn check_key(keys: KeyType, typed: &[u8]) -> Outcome<Vec<u8>> {
    keys.to_bytes(typed)
        .map_err(|error| Failure::usage(format!("{:?}: {error}", String::from_utf8_lossy(typed))))
}

/// The key type in a tree's tag; `None` where it has no tag.
pub(crate) fn stored_keys(tree: &Tree) -> Outcome<Option<KeyType>> {
    let Some(tag) = tree.tag() else { return Ok(None) };
    match KeyType::named(&tag) {
        Some(keys) => Ok(Some(keys)),
        None => Err(Failure::store(format!(
            "the tree {:?} is tagged {tag:?}, which is no key type that this esker knows",
            tree.name()
        ))),
    }
}

/// The store, opened for reading.
pub(crate) fn read_only(global: &Global) -> Outcome<Db> {
    Db::open_read_only(&global.db, options(global)).map_err(|error| opening(global, error))
}

/// The store, opened for writing, never created.
pub(crate) fn existing(global: &Global) -> Outcome<Db> {
    Db::open(&global.db, options(global).create(false)).map_err(|error| opening(global, error))
}

/// The options every command opens a store with.
pub(crate) fn options(global: &Global) -> Options {
    match global.memory {
        Some(bytes) => Options::default().memory_budget(bytes),
        None => Options::default(),
    }
}

/// What to say when a store cannot be opened: always exit code 3.
pub(crate) fn opening(global: &Global, error: esker::Error) -> Failure {
    match error.kind() {
        ErrorKind::NotFound => missing(&global.db),
        ErrorKind::InvalidInput => Failure::store(error.to_string()),
        _ => error.into(),
    }
}

/// What to say where no store is: exit code 3.
pub(crate) fn missing(path: &Path) -> Failure {
    Failure::store(format!(
        "there is no store at {} (put, run and import create one; --db PATH names another)",
        path.display()
    ))
}

fn is_empty(tree: &Tree) -> Outcome<bool> {
    Ok(!tree.scan(ScanRange::all().keys_only())?.advance()?)
}
