//! A database of a server in the files of a store: its commands are done without the server.

use std::hash::{BuildHasher, Hasher, RandomState};

use esker::{Db, Error, ErrorKind, Result, Tree};
use esker_server::Offline;

/// The database whose keys are in the tree with this name; `None` if a database cannot have this tree.
pub(crate) fn of(db: &Db, tree: &str) -> Result<Option<Offline>> {
    Offline::open(db, tree, RandomState::new().build_hasher().finish())
}

/// The same, if a server has written to it.
pub(crate) fn open(db: &Db, tree: &str) -> Result<Option<Offline>> {
    Ok(of(db, tree)?.filter(Offline::has_collections))
}

/// Where the entry of a database's empty key is: a tree has no empty key.
#[derive(Clone)]
pub(crate) struct EmptyKey {
    pub(crate) tree: Tree,
    pub(crate) key: &'static [u8],
}

impl EmptyKey {
    /// That of the database whose keys are in the tree with this name; `None` if no server has written to it.
    pub(crate) fn of(db: &Db, tree: &str) -> Result<Option<Self>> {
        let found = of(db, tree)?;
        let place = found.as_ref().and_then(Offline::empty_key);
        Ok(place.map(|(tree, key)| EmptyKey { tree: tree.clone(), key }))
    }

    /// The same, to write it. The tree becomes a database; `None` if it cannot be one.
    pub(crate) fn take(db: &Db, tree: &str) -> Result<Option<Self>> {
        of(db, tree)?.map_or(Ok(()), |found| found.take_empty_key())?;
        EmptyKey::of(db, tree)
    }
}

/// Gives the value of `from` to `to`; with `keep`, `from` keeps it too. Returns whether there is one.
pub(crate) fn transfer(db: &Db, tree: &str, from: &[u8], to: &[u8], keep: bool) -> Result<bool> {
    if from == to {
        return Ok(true);
    }
    let command: &[&[u8]] = if keep { &[b"COPY", from, to, b"REPLACE"] } else { &[b"RENAME", from, to] };
    match reply_to(db, tree, command) {
        Ok(reply) => Ok(reply != b":0\r\n"),
        Err(error) if error.message() == "ERR no such key" => Ok(false),
        Err(error) => Err(error),
    }
}

/// Does a command that changes a value.
pub(crate) fn change(db: &Db, tree: &str, command: &[&[u8]]) -> Result<()> {
    reply_to(db, tree, command).map(drop)
}

/// The reply to a command. An error reply is an error with its text.
fn reply_to(db: &Db, tree: &str, command: &[&[u8]]) -> Result<Vec<u8>> {
    let refused = |text: &str| Error::new(ErrorKind::InvalidInput, text);
    let mut database = open(db, tree)?.ok_or_else(|| refused("no server has written to the tree"))?;
    let command: Vec<_> = command.iter().map(|argument| argument.to_vec()).collect();
    let reply = database.call(&[command])?.pop().unwrap_or_default();
    match reply.strip_prefix(b"-") {
        Some(text) => Err(refused(String::from_utf8_lossy(text).trim_end())),
        None => Ok(reply),
    }
}
