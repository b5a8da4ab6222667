//! What the data commands work on: a tree of a store in a directory, or a database of a server (`--url`). Each command is
//! written once, against this.
//!
//! The two differ where a server's clients cannot do what a program can: a range that is deleted on a server goes in
//! several steps; a scan has no snapshot; times of expiry are in milliseconds; and a value with attributes, which is a
//! hash, a set, a sorted set or a list there, is not read as bytes.

use std::fs::File;
use std::io::Write;
use std::ops::{Bound, Range};
use std::time::Duration;

use esker::operators::APPEND;
use esker::{Error, ErrorKind, Result, Scan, Tree, TxnOptions, Value, ValueWriter, keys};

use crate::client::{self, Bulk, Database, Upload};
pub(crate) use crate::client::{Expiry, Want};
use crate::datatype::DataType;
use crate::exit::{Failure, Outcome};
use crate::ranges::{ByteRange, KeyRange};
use crate::stream::PIECE;

/// A tree or a database.
pub(crate) enum Keyspace {
    Local(esker::Db, Tree),
    Server(Database),
}

impl Keyspace {
    /// The name of the tree, or of the tree that the database is in the server's store.
    pub(crate) fn name(&self) -> String {
        match self {
            Keyspace::Local(_, tree) => tree.name().to_owned(),
            Keyspace::Server(database) => database.name(),
        }
    }

    // ---- reads ---------------------------------------------------------------------------------------

    /// The value of `key`.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Held>> {
        match self {
            Keyspace::Local(_, tree) => {
                Ok(tree.get(key)?.map(|value| Held::whole(value, tree.clock_ahead_us())))
            }
            Keyspace::Server(database) => Ok(database.get(key)?.map(Held::Server)),
        }
    }

    /// A part of the value of `key`.
    pub(crate) fn get_range(&self, key: &[u8], range: ByteRange) -> Outcome<Option<Held>> {
        match self {
            Keyspace::Local(_, tree) => {
                let Some(value) = tree.get(key)? else { return Ok(None) };
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
            Keyspace::Local(_, tree) => tree.get_into(key, value),
            Keyspace::Server(_) => match self.get(key)? {
                Some(held) => held.all().map(|all| *value = all).map(|()| true),
                None => Ok(false),
            },
        }
    }

    /// Whether there is such a key.
    pub(crate) fn contains(&self, key: &[u8]) -> Result<bool> {
        match self {
            Keyspace::Local(_, tree) => tree.contains(key),
            Keyspace::Server(database) => database.contains(key),
        }
    }

    /// The rows of a range, of which at least `want` is needed.
    pub(crate) fn scan(&self, range: KeyRange, reverse: bool, want: Want) -> Result<Rows> {
        match self {
            Keyspace::Local(_, tree) => {
                let mut range = range.of_scan();
                if reverse {
                    range = range.reverse();
                }
                if want == Want::Nothing {
                    range = range.keys_only();
                }
                Ok(Rows::Local(tree.scan(range)?, tree.clock_ahead_us()))
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
            (Keyspace::Local(_, tree), Expiry::Never) => tree.put(key, value),
            (Keyspace::Local(db, tree), _) => {
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
            (Keyspace::Local(_, tree), None) => Ok(Writer::Local(Box::new(tree.writer(key)?))),
            (Keyspace::Local(_, tree), Some(ttl)) => {
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
            (Keyspace::Local(db, _), Batch::Local(batch)) => db.write(batch).map(drop),
            (Keyspace::Server(database), Batch::Server(batch)) => database.write(batch),
            _ => Err(other_keyspace()),
        }
    }

    /// Deletes a key.
    pub(crate) fn delete(&self, key: &[u8]) -> Result<()> {
        match self {
            Keyspace::Local(_, tree) => tree.delete(key),
            Keyspace::Server(database) => database.delete(key),
        }
    }

    /// Deletes a range of keys.
    pub(crate) fn delete_range(&self, range: &KeyRange) -> Result<()> {
        match self {
            Keyspace::Local(_, tree) => tree.delete_range(range.of_scan()),
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
            Keyspace::Local(_, tree) if keep => tree.copy(from, to),
            Keyspace::Local(_, tree) => tree.rename(from, to),
            Keyspace::Server(database) => database.transfer(from, to, keep),
        }
    }

    /// Appends to the value of `key`.
    pub(crate) fn append(&self, key: &[u8], appended: &[u8]) -> Result<()> {
        match self {
            Keyspace::Local(db, tree) => {
                let mut batch = esker::Batch::new();
                batch.merge(tree, key, APPEND, appended)?;
                db.write(&batch).map(drop)
            }
            Keyspace::Server(database) => database.append(key, appended),
        }
    }

    /// The type that values have to which [`Keyspace::add`] adds.
    pub(crate) fn numbers(&self) -> DataType {
        match self {
            Keyspace::Local(..) => DataType::I64,
            Keyspace::Server(_) => DataType::Text,
        }
    }

    /// Adds to the value of `key`, a number, unless the sum overflows i64: the library's sums wrap around. The read and
    /// the write are atomic, so no other addition comes between them.
    pub(crate) fn add(&self, key: &[u8], number: i64) -> Outcome {
        let (db, tree) = match self {
            Keyspace::Local(db, tree) => (db, tree),
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
            Keyspace::Local(db, _) => db.sync(),
            Keyspace::Server(database) => database.sync(),
        }
    }
}

fn other_keyspace() -> Error {
    Error::new(ErrorKind::InvalidInput, "the batch belongs to another keyspace")
}

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
    /// The rows, and how far the clock of the tree is ahead of the machine's, in microseconds.
    Local(Scan, u64),
    Server(client::Rows),
}

impl Rows {
    /// Moves to the next row. Returns whether there is one.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool> {
        match self {
            Rows::Local(rows, _) => rows.advance(),
            Rows::Server(rows) => rows.advance(),
        }
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        match self {
            Rows::Local(rows, _) => rows.key(),
            Rows::Server(rows) => rows.key(),
        }
    }

    /// The key and the value; not all of the value unless [`Want::All`] was said.
    #[inline]
    pub(crate) fn pair(&mut self) -> Result<(&[u8], &[u8])> {
        match self {
            Rows::Local(rows, _) => rows.pair(),
            Rows::Server(rows) => Ok((rows.key(), rows.first())),
        }
    }

    /// The first bytes of the value: at least `count`, or all of them.
    pub(crate) fn first(&self, count: u64) -> Result<Vec<u8>> {
        match self {
            Rows::Local(rows, _) => rows.handle()?.read_at(..rows.value_len().min(count)),
            Rows::Server(rows) => Ok(rows.first().to_vec()),
        }
    }

    pub(crate) fn value_len(&self) -> u64 {
        match self {
            Rows::Local(rows, _) => rows.value_len(),
            Rows::Server(rows) => rows.value_len(),
        }
    }

    /// When the value expires by the machine's clock, in microseconds since 1970.
    pub(crate) fn expires_us(&self) -> Option<u64> {
        match self {
            Rows::Local(rows, ahead_us) => rows.expires_us().map(|us| us.saturating_sub(*ahead_us)),
            Rows::Server(rows) => rows.expires_us(),
        }
    }

    /// Whether the value has attributes beside bytes that can be read.
    pub(crate) fn has_attributes(&self) -> bool {
        match self {
            Rows::Local(rows, _) => !rows.attributes().is_empty(),
            Rows::Server(_) => false,
        }
    }

    /// Whether the value may be a collection of a database, to be asked of `collections`.
    pub(crate) fn may_be_collection(&self) -> bool {
        match self {
            // The attributes begin with the kind, plus 128 if the collection is large.
            Rows::Local(rows, _) => {
                rows.attributes().first().is_some_and(|kind| matches!(kind & 0x7f, 1..=4))
            }
            Rows::Server(rows) => rows.is_collection(),
        }
    }

    /// Whether the value is a hash, a set, a sorted set or a list of a server. It is shown as empty.
    pub(crate) fn is_collection(&self) -> bool {
        match self {
            Rows::Local(..) => false,
            Rows::Server(rows) => rows.is_collection(),
        }
    }

    /// Fails if the value is damaged in a way that shows before its bytes are read.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Rows::Local(rows, _) => rows.handle().map(drop),
            Rows::Server(_) => Ok(()),
        }
    }

    /// When the value was stored, in microseconds since 1970, if that is known.
    pub(crate) fn stored_us(&self) -> Result<Option<u64>> {
        match self {
            Rows::Local(rows, _) => Ok(rows.handle()?.stored_us()),
            Rows::Server(_) => Ok(None),
        }
    }

    /// The value, to be read from its beginning; `None` if another client has deleted it since, or if it is not bytes.
    pub(crate) fn open(&self) -> Result<Option<Held>> {
        match self {
            Rows::Local(rows, ahead_us) => Ok(Some(Held::whole(rows.handle()?, *ahead_us))),
            Rows::Server(rows) if rows.is_collection() => Ok(None),
            Rows::Server(rows) => Ok(rows.read()?.map(Held::Server)),
        }
    }

    /// How many rows so far were [`Rows::is_collection`].
    pub(crate) fn collections(&self) -> u64 {
        match self {
            Rows::Local(..) => 0,
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
            (Batch::Local(batch), Keyspace::Local(_, tree)) => {
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
            (Batch::Local(batch), Keyspace::Local(_, tree)) => batch.delete(tree, key),
            (Batch::Server(batch), _) => batch.delete(key),
            _ => Err(other_keyspace()),
        }
    }
}
