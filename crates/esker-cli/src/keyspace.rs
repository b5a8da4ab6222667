//! What the data commands work on: a tree of a store in a directory, or a database of a server (`--url`). Each command is
//! written once, against this.
//!
//! The two differ where a server's clients cannot do what a program can: a range that is deleted on a server goes in
//! several steps; a scan has no snapshot; and times of expiry are in milliseconds. A hash, a set, a sorted set or a list of a
//! server is not read or changed as bytes, also in the files of a store. There the empty key, which a tree does not have, is among
//! the rows all the same.

use std::fs::File;
use std::io::Write;
use std::ops::{Bound, Range};
use std::time::Duration;

use esker::operators::APPEND;
use esker::{Error, ErrorKind, Result, Scan, ScanRange, Tree, TxnOptions, Value, ValueWriter, keys};

use crate::client::wrong_type;
use crate::client::{self, Bulk, Database, Upload};
pub(crate) use crate::client::{Expiry, Want};
use crate::datatype::DataType;
use crate::exit::{Failure, Outcome};
use crate::offline::{self, EmptyKey};
use crate::ranges::{ByteRange, KeyRange};

/// A tree or a database.
pub(crate) enum Keyspace {
    /// A tree of an open store, and where its empty key is if a server has written to it as one of its databases.
    Local(esker::Db, Tree, Option<EmptyKey>),
    Server(Database),
}

/// Whether a value with these attributes, in a tree that a server has written to, is a hash, a set, a sorted set or a list.
/// The attributes begin with the kind, plus 128 if the collection is large.
fn are_of_collection(attributes: &[u8]) -> bool {
    attributes.first().is_some_and(|kind| matches!(kind & 0x7f, 1..=4))
}

/// The value. A collection is refused.
fn as_bytes(value: Value, is_database: bool) -> Result<Value> {
    if is_database && are_of_collection(value.attributes()) {
        return Err(wrong_type());
    }
    Ok(value)
}

impl Keyspace {
    /// `tree` of the store `db`. If the tree of elements belongs to a program, no server has served the store: a server refuses
    /// to start then.
    pub(crate) fn local(db: esker::Db, tree: Tree) -> Self {
        let empty_key = EmptyKey::of(&db, tree.name()).unwrap_or_default();
        Keyspace::Local(db, tree, empty_key)
    }

    /// Prepares writes of the empty key. With `makes_database`, a tree that may be a database of a server becomes one. Returns
    /// whether the empty key can be written.
    pub(crate) fn take_empty_key(&mut self, makes_database: bool) -> Result<bool> {
        match self {
            Keyspace::Local(_, _, None) if !makes_database => Ok(false),
            Keyspace::Local(db, tree, empty_key) => {
                *empty_key = EmptyKey::take(db, tree.name())?;
                Ok(empty_key.is_some())
            }
            Keyspace::Server(_) => Ok(true),
        }
    }

    /// Whether it is a database of a server, or a tree that a server has written to.
    pub(crate) fn is_database(&self) -> bool {
        match self {
            Keyspace::Local(.., empty_key) => empty_key.is_some(),
            Keyspace::Server(_) => true,
        }
    }

    /// The name of the tree, or of the tree that the database is in the server's store.
    pub(crate) fn name(&self) -> String {
        match self {
            Keyspace::Local(_, tree, _) => tree.name().to_owned(),
            Keyspace::Server(database) => database.name(),
        }
    }

    // ---- reads ---------------------------------------------------------------------------------------

    /// The value of `key`.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Held>> {
        match self {
            Keyspace::Local(_, tree, empty_key) => {
                let (place, key) = placed(tree, empty_key, key);
                let Some(value) = place.get(key)? else { return Ok(None) };
                Ok(Some(Held::whole(as_bytes(value, empty_key.is_some())?, tree.clock_ahead_us())))
            }
            Keyspace::Server(database) => Ok(database.get(key)?.map(Held::Server)),
        }
    }

    /// A part of the value of `key`.
    pub(crate) fn get_range(&self, key: &[u8], range: ByteRange) -> Outcome<Option<Held>> {
        match self {
            Keyspace::Local(_, tree, empty_key) => {
                let (place, key) = placed(tree, empty_key, key);
                let Some(value) = place.get(key)? else { return Ok(None) };
                let value = as_bytes(value, empty_key.is_some())?;
                let range = range.of(value.len())?;
                Ok(Some(Held::local(value, range, tree.clock_ahead_us())))
            }
            Keyspace::Server(database) => {
                let fits = |len| range.of(len).map(|range| range.end - range.start);
                Ok(database.get_range(key, range.inclusive(), fits)?.map(Held::Server))
            }
        }
    }

    /// Puts the value of `key` into `value`. Returns whether there is one.
    #[inline]
    pub(crate) fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        match self {
            Keyspace::Local(_, tree, None) => tree.get_into(key, value),
            Keyspace::Local(..) | Keyspace::Server(_) => match self.get(key)? {
                Some(held) => held.all().map(|all| *value = all).map(|()| true),
                None => Ok(false),
            },
        }
    }

    /// Whether there is such a key.
    pub(crate) fn contains(&self, key: &[u8]) -> Result<bool> {
        match self {
            Keyspace::Local(_, tree, empty_key) => {
                let (tree, key) = placed(tree, empty_key, key);
                tree.contains(key)
            }
            Keyspace::Server(database) => database.contains(key),
        }
    }

    /// The rows of a range, of which at least `want` is needed.
    pub(crate) fn scan(&self, range: KeyRange, reverse: bool, want: Want) -> Result<Rows> {
        match self {
            Keyspace::Local(_, tree, empty_key) => {
                let wanted = |range: ScanRange| if want == Want::Nothing { range.keys_only() } else { range };
                let of_empty = empty_key.as_ref().filter(|_| range.lower.is_empty()).map(|of| {
                    let only = (Bound::Included(of.key.to_vec()), Bound::Included(of.key.to_vec()));
                    of.tree.scan(wanted(only.into()))
                });
                let range = if reverse { range.of_scan().reverse() } else { range.of_scan() };
                Ok(Rows::Local(LocalRows {
                    rows: tree.scan(wanted(range))?,
                    of_empty: of_empty.transpose()?.map(Box::new),
                    is_at_empty: false,
                    is_reverse: reverse,
                    ahead_us: tree.clock_ahead_us(),
                    is_database: empty_key.is_some(),
                    collections: 0,
                }))
            }
            Keyspace::Server(database) => {
                Ok(Rows::Server(client::Rows::new(database.clone(), range, reverse, want)))
            }
        }
    }

    // ---- writes --------------------------------------------------------------------------------------

    /// Stores a value.
    pub(crate) fn put(&self, key: &[u8], value: &[u8], expiry: Expiry) -> Result<()> {
        match (self, expiry) {
            (Keyspace::Local(_, tree, empty_key), Expiry::Never) => {
                let (tree, key) = placed(tree, empty_key, key);
                tree.put(key, value)
            }
            (Keyspace::Local(db, tree, empty_key), _) => {
                let (tree, key) = placed(tree, empty_key, key);
                let mut batch = esker::Batch::new();
                match expiry {
                    Expiry::Never => batch.put(tree, key, value)?,
                    Expiry::After(time) => batch.put_for(tree, key, value, time)?,
                    Expiry::At(us) => {
                        let us = us.saturating_add(tree.clock_ahead_us());
                        batch.put_until_us(tree, key, value, Some(us))?;
                    }
                }
                db.write(&batch).map(drop)
            }
            (Keyspace::Server(database), _) => database.put(key, value, expiry),
        }
    }

    /// Begins a value that comes piece by piece, and expires after `ttl`. `len`: how many bytes it will have, if that is
    /// known.
    pub(crate) fn writer(&self, key: &[u8], len: Option<u64>, ttl: Option<Duration>) -> Result<Writer> {
        match (self, ttl) {
            (Keyspace::Local(_, tree, empty_key), None) => {
                let (tree, key) = placed(tree, empty_key, key);
                Ok(Writer::Local(Box::new(tree.writer(key)?)))
            }
            (Keyspace::Local(_, tree, empty_key), Some(ttl)) => {
                let (tree, key) = placed(tree, empty_key, key);
                Ok(Writer::Local(Box::new(tree.writer(key)?.expiring_after(ttl))))
            }
            (Keyspace::Server(database), _) => {
                let expiry = ttl.map_or(Expiry::Never, Expiry::After);
                Ok(Writer::Server(database.upload(key, len, expiry)?))
            }
        }
    }

    /// A batch without writes.
    pub(crate) fn batch(&self) -> Batch {
        match self {
            Keyspace::Local(..) => Batch::Local(esker::Batch::new()),
            Keyspace::Server(_) => Batch::Server(client::Batch::default()),
        }
    }

    /// Applies a batch that [`Keyspace::batch`] has made.
    pub(crate) fn write(&self, batch: &Batch) -> Result<()> {
        match (self, batch) {
            (Keyspace::Local(db, ..), Batch::Local(batch)) => db.write(batch).map(drop),
            (Keyspace::Server(database), Batch::Server(batch)) => database.write(batch),
            _ => Err(other_keyspace()),
        }
    }

    /// Deletes a key.
    pub(crate) fn delete(&self, key: &[u8]) -> Result<()> {
        match self {
            Keyspace::Local(_, tree, empty_key) => {
                let (tree, key) = placed(tree, empty_key, key);
                tree.delete(key)
            }
            Keyspace::Server(database) => database.delete(key),
        }
    }

    /// Deletes a range of keys.
    pub(crate) fn delete_range(&self, range: &KeyRange) -> Result<()> {
        match self {
            Keyspace::Local(_, tree, empty_key) => {
                if let Some(of) = empty_key.as_ref().filter(|_| range.lower.is_empty()) {
                    of.tree.delete(of.key)?;
                }
                tree.delete_range(range.of_scan())
            }
            Keyspace::Server(database) => match &range.upper {
                Bound::Unbounded if range.lower.is_empty() => database.clear(),
                Bound::Unbounded => database.delete_range(&range.lower, b""),
                Bound::Included(last) => database.delete_range(&range.lower, last),
                Bound::Excluded(end) => database.delete_range(&range.lower, &client::before(end)),
            },
        }
    }

    /// Gives the value of `from` to `to`; with `keep`, `from` keeps it too. Returns whether there is one.
    pub(crate) fn transfer(&self, from: &[u8], to: &[u8], keep: bool) -> Result<bool> {
        match self {
            Keyspace::Local(db, tree, Some(_))
                if from.is_empty()
                    || to.is_empty()
                    || tree.get(from)?.is_some_and(|value| are_of_collection(value.attributes())) =>
            {
                offline::transfer(db, tree.name(), from, to, keep)
            }
            Keyspace::Local(_, tree, _) if keep => tree.copy(from, to),
            Keyspace::Local(_, tree, _) => tree.rename(from, to),
            Keyspace::Server(database) => database.transfer(from, to, keep),
        }
    }

    /// Appends to the value of `key`.
    pub(crate) fn append(&self, key: &[u8], appended: &[u8]) -> Result<()> {
        match self {
            Keyspace::Local(db, tree, Some(_)) => {
                offline::change(db, tree.name(), &[b"APPEND", key, appended]).map_err(of_type)
            }
            Keyspace::Local(db, tree, None) => {
                let mut batch = esker::Batch::new();
                batch.merge(tree, key, APPEND, appended)?;
                db.write(&batch).map(drop)
            }
            Keyspace::Server(database) => database.append(key, appended),
        }
    }

    /// The type that values have to which [`Keyspace::add`] adds.
    pub(crate) fn numbers(&self) -> DataType {
        if self.is_database() { DataType::Text } else { DataType::I64 }
    }

    /// Adds to the value of `key`, a number, unless the sum overflows i64: the library's sums wrap around. The read and
    /// the write are atomic, so no other addition comes between them.
    pub(crate) fn add(&self, key: &[u8], number: i64) -> Outcome {
        let (db, tree) = match self {
            Keyspace::Local(db, tree, Some(_)) => {
                let number = number.to_string();
                let command: [&[u8]; 3] = [b"INCRBY", key, number.as_bytes()];
                return Ok(offline::change(db, tree.name(), &command).map_err(of_type)?);
            }
            Keyspace::Local(db, tree, None) => (db, tree),
            Keyspace::Server(database) => return Ok(database.add(key, number)?),
        };
        db.transact(TxnOptions::default(), |txn| {
            let value = txn.get_vec(tree, key)?;
            let before = value.as_deref().map_or(Ok(0), keys::decode_i64)?;
            if before.checked_add(number).is_none() {
                let message =
                    format!("the sum of {before} and {number} does not fit in i64; nothing was added");
                return Err(Failure::usage(message));
            }
            Ok(txn.add(tree, key, number)?)
        })
    }

    /// Makes everything written survive power loss.
    pub(crate) fn sync(&self) -> Result<()> {
        match self {
            Keyspace::Local(db, ..) => db.sync(),
            Keyspace::Server(database) => database.sync(),
        }
    }
}

/// Where the entry of `key` is.
#[inline]
fn placed<'a>(tree: &'a Tree, empty_key: &'a Option<EmptyKey>, key: &'a [u8]) -> (&'a Tree, &'a [u8]) {
    match empty_key {
        Some(of) if key.is_empty() => (&of.tree, of.key),
        _ => (tree, key),
    }
}

/// The failure `error` of a command, as the command line words it.
fn of_type(error: Error) -> Error {
    if error.message().starts_with("WRONGTYPE") { wrong_type() } else { error }
}

fn other_keyspace() -> Error {
    Error::new(ErrorKind::InvalidInput, "the batch belongs to another keyspace")
}

/// How many bytes of a value or a file are in memory at once.
pub(crate) const PIECE: usize = 1 << 20;

/// The bytes of a value or of a part of it. They are read once, from the first to the last.
pub(crate) enum Held {
    /// `ahead_us`: how far the clock of the tree is ahead of the machine's.
    Local {
        value: Value,
        len: u64,
        left: Range<u64>,
        ahead_us: u64,
    },
    Server(Bulk),
}

impl Held {
    fn local(value: Value, left: Range<u64>, ahead_us: u64) -> Self {
        Held::Local { value, len: left.end - left.start, left, ahead_us }
    }

    fn whole(value: Value, ahead_us: u64) -> Self {
        let len = value.len();
        Held::local(value, 0..len, ahead_us)
    }

    /// How many bytes there are, those that have been read included.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Held::Local { len, .. } => *len,
            Held::Server(bulk) => bulk.len(),
        }
    }

    /// When the value expires by the machine's clock, in microseconds since 1970.
    pub(crate) fn expires_us(&self) -> Option<u64> {
        match self {
            Held::Local { value, ahead_us, .. } => value.expires_us().map(|us| us.saturating_sub(*ahead_us)),
            Held::Server(bulk) => bulk.expires_us(),
        }
    }

    /// When the value was stored, in microseconds since 1970, if that is known.
    pub(crate) fn stored_us(&self) -> Option<u64> {
        match self {
            Held::Local { value, .. } => value.stored_us(),
            Held::Server(_) => None,
        }
    }

    /// Fills `buffer` with the next bytes, at most `max`: with none at the end.
    pub(crate) fn next(&mut self, max: usize, buffer: &mut Vec<u8>) -> Result<()> {
        match self {
            Held::Local { value, left, .. } => {
                let count = (left.end - left.start).min(max as u64);
                buffer.resize(count as usize, 0);
                value.read_exact_at(left.start, buffer)?;
                left.start += count;
                Ok(())
            }
            Held::Server(bulk) => bulk.next(max, buffer),
        }
    }

    /// All bytes that have not been read, which must fit in memory.
    pub(crate) fn all(mut self) -> Result<Vec<u8>> {
        if let Held::Local { value, left, .. } = &self {
            return value.read_at(left.clone());
        }
        let (mut all, mut piece) = (Vec::new(), Vec::new());
        loop {
            self.next(PIECE, &mut piece)?;
            if piece.is_empty() {
                return Ok(all);
            }
            let grown = all.try_reserve(piece.len());
            grown.map_err(|_| Error::new(ErrorKind::OutOfResources, "the value does not fit in memory"))?;
            all.extend_from_slice(&piece);
        }
    }

    /// Passes all bytes that have not been read to `take` in order.
    pub(crate) fn pieces(mut self, mut take: impl FnMut(&[u8]) -> Outcome) -> Outcome {
        let mut piece = Vec::new();
        loop {
            self.next(PIECE, &mut piece)?;
            if piece.is_empty() {
                return Ok(());
            }
            take(&piece)?;
        }
    }

    /// Writes a whole value to `file`.
    pub(crate) fn copy_to_file(mut self, mut file: &File) -> Result<()> {
        if let Held::Local { value, .. } = &self {
            return value.copy_to_file(file).map(drop);
        }
        let mut piece = Vec::new();
        loop {
            self.next(PIECE, &mut piece)?;
            if piece.is_empty() {
                return Ok(());
            }
            file.write_all(&piece).map_err(|error| Error::new(ErrorKind::Io, error.to_string()))?;
        }
    }
}

/// The rows of a range.
pub(crate) enum Rows {
    Local(LocalRows),
    Server(client::Rows),
}

/// The rows of a range of a tree.
pub(crate) struct LocalRows {
    rows: Scan,
    /// The entry of the empty key, if that may be among the rows: the first one.
    of_empty: Option<Box<Scan>>,
    is_at_empty: bool,
    is_reverse: bool,
    /// How far the clock of the tree is ahead of the machine's, in microseconds.
    ahead_us: u64,
    /// Whether a server has written to the tree.
    is_database: bool,
    /// How many rows so far were collections.
    collections: u64,
}

impl LocalRows {
    #[inline]
    fn advance(&mut self) -> Result<bool> {
        if self.of_empty.is_none() {
            return self.rows.advance();
        }
        self.advance_by_empty()
    }

    fn advance_by_empty(&mut self) -> Result<bool> {
        let was_at_empty = std::mem::take(&mut self.is_at_empty);
        if was_at_empty {
            self.of_empty = None;
        }
        if was_at_empty && self.is_reverse {
            return Ok(false);
        }
        if self.is_reverse && self.rows.advance()? {
            return Ok(true);
        }
        if let Some(of_empty) = &mut self.of_empty {
            self.is_at_empty = of_empty.advance()?;
            if self.is_at_empty {
                return Ok(true);
            }
            self.of_empty = None;
        }
        if self.is_reverse { Ok(false) } else { self.rows.advance() }
    }

    /// What is at the row.
    #[inline]
    fn scan(&self) -> &Scan {
        match &self.of_empty {
            Some(of_empty) if self.is_at_empty => of_empty.as_ref(),
            _ => &self.rows,
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        if self.is_at_empty { &[] } else { self.rows.key() }
    }

    #[inline]
    fn pair(&mut self) -> Result<(&[u8], &[u8])> {
        match &mut self.of_empty {
            Some(of_empty) if self.is_at_empty => of_empty.pair().map(|(_, value)| (&[][..], value)),
            _ => self.rows.pair(),
        }
    }

    fn is_collection(&self) -> bool {
        self.is_database && are_of_collection(self.scan().attributes())
    }
}

impl Rows {
    /// Moves to the next row. Returns whether there is one.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool> {
        match self {
            Rows::Local(local) => {
                let is_there = local.advance()?;
                local.collections += u64::from(is_there && local.is_collection());
                Ok(is_there)
            }
            Rows::Server(rows) => rows.advance(),
        }
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        match self {
            Rows::Local(local) => local.key(),
            Rows::Server(rows) => rows.key(),
        }
    }

    /// The key and the value; not all of the value unless [`Want::All`] was said.
    #[inline]
    pub(crate) fn pair(&mut self) -> Result<(&[u8], &[u8])> {
        match self {
            Rows::Local(local) => {
                if local.is_collection() {
                    return Ok((local.key(), b""));
                }
                local.pair()
            }
            Rows::Server(rows) => Ok((rows.key(), rows.first())),
        }
    }

    /// The first bytes of the value: at least `count`, or all of them.
    pub(crate) fn first(&self, count: u64) -> Result<Vec<u8>> {
        match self {
            Rows::Local(local) if local.is_collection() => Ok(Vec::new()),
            Rows::Local(local) => local.scan().handle()?.read_at(..local.scan().value_len().min(count)),
            Rows::Server(rows) => Ok(rows.first().to_vec()),
        }
    }

    pub(crate) fn value_len(&self) -> u64 {
        match self {
            Rows::Local(local) if local.is_collection() => 0,
            Rows::Local(local) => local.scan().value_len(),
            Rows::Server(rows) => rows.value_len(),
        }
    }

    /// When the value expires by the machine's clock, in microseconds since 1970.
    pub(crate) fn expires_us(&self) -> Option<u64> {
        match self {
            Rows::Local(local) => local.scan().expires_us().map(|us| us.saturating_sub(local.ahead_us)),
            Rows::Server(rows) => rows.expires_us(),
        }
    }

    /// Whether the value has attributes beside bytes that can be read.
    pub(crate) fn has_attributes(&self) -> bool {
        match self {
            Rows::Local(local) => !local.scan().attributes().is_empty(),
            Rows::Server(_) => false,
        }
    }

    /// Whether the value is a hash, a set, a sorted set or a list of a server. It is shown as empty.
    pub(crate) fn is_collection(&self) -> bool {
        match self {
            Rows::Local(local) => local.is_collection(),
            Rows::Server(rows) => rows.is_collection(),
        }
    }

    /// Fails if the value is damaged in a way that shows before its bytes are read.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Rows::Local(local) => local.scan().handle().map(drop),
            Rows::Server(_) => Ok(()),
        }
    }

    /// When the value was stored, in microseconds since 1970, if that is known.
    pub(crate) fn stored_us(&self) -> Result<Option<u64>> {
        match self {
            Rows::Local(local) => Ok(local.scan().handle()?.stored_us()),
            Rows::Server(_) => Ok(None),
        }
    }

    /// The value, to be read from its beginning; `None` if another client has deleted it since, or if it is not bytes.
    pub(crate) fn open(&self) -> Result<Option<Held>> {
        match self {
            Rows::Local(local) if local.is_collection() => Ok(None),
            Rows::Local(local) => Ok(Some(Held::whole(local.scan().handle()?, local.ahead_us))),
            Rows::Server(rows) if rows.is_collection() => Ok(None),
            Rows::Server(rows) => Ok(rows.read()?.map(Held::Server)),
        }
    }

    /// How many rows so far were [`Rows::is_collection`].
    pub(crate) fn collections(&self) -> u64 {
        match self {
            Rows::Local(local) => local.collections,
            Rows::Server(rows) => rows.collections(),
        }
    }
}

/// A value on its way. Dropped before it is committed, it leaves nothing behind.
pub(crate) enum Writer {
    Local(Box<ValueWriter>),
    Server(Upload),
}

impl Writer {
    /// Adds bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Writer::Local(writer) => writer.add(bytes),
            Writer::Server(upload) => upload.add(bytes),
        }
    }

    /// How many bytes there are so far.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Writer::Local(writer) => writer.len(),
            Writer::Server(upload) => upload.len(),
        }
    }

    /// Takes the first bytes of a file without copying them, if the file system can do that. Returns how many it took.
    pub(crate) fn share_file(&mut self, file: &File, len: u64) -> Result<u64> {
        match self {
            Writer::Local(writer) => writer.share_file(file, len),
            Writer::Server(_) => Ok(0),
        }
    }

    /// Gives the key its value.
    pub(crate) fn commit(self) -> Result<()> {
        match self {
            Writer::Local(writer) => writer.commit(),
            Writer::Server(upload) => upload.commit(),
        }
    }
}

/// Writes that take effect together.
pub(crate) enum Batch {
    Local(esker::Batch),
    Server(client::Batch),
}

impl Batch {
    /// How many writes there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Batch::Local(batch) => batch.len(),
            Batch::Server(batch) => batch.len(),
        }
    }

    /// How many bytes they take.
    #[inline]
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Batch::Local(batch) => batch.memory_bytes(),
            Batch::Server(batch) => batch.memory_bytes(),
        }
    }

    /// Forgets the writes.
    pub(crate) fn clear(&mut self) {
        match self {
            Batch::Local(batch) => batch.clear(),
            Batch::Server(batch) => batch.clear(),
        }
    }

    /// Adds a put into `keyspace`, until `expires_us` if that is given.
    #[inline]
    pub(crate) fn put(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        value: &[u8],
        expires_us: Option<u64>,
    ) -> Result<()> {
        match (self, keyspace) {
            (Batch::Local(batch), Keyspace::Local(_, tree, empty_key)) => {
                let (tree, key) = placed(tree, empty_key, key);
                let expires_us = expires_us.map(|us| us.saturating_add(tree.clock_ahead_us()));
                batch.put_until_us(tree, key, value, expires_us)
            }
            (Batch::Server(batch), _) => batch.put(key, value, expires_us.map_or(Expiry::Never, Expiry::At)),
            _ => Err(other_keyspace()),
        }
    }

    /// Adds a delete in `keyspace`.
    #[inline]
    pub(crate) fn delete(&mut self, keyspace: &Keyspace, key: &[u8]) -> Result<()> {
        match (self, keyspace) {
            (Batch::Local(batch), Keyspace::Local(_, tree, empty_key)) => {
                let (tree, key) = placed(tree, empty_key, key);
                batch.delete(tree, key)
            }
            (Batch::Server(batch), _) => batch.delete(key),
            _ => Err(other_keyspace()),
        }
    }
}
