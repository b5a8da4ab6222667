//! Writes values piece by piece.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use super::{ROOM_EVERY, Tree};
use crate::blob::BlobStream;
use crate::cursor::Kind;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{OpenFile, UserFile};
use crate::options::Durability;
use crate::state::TreeInner;
use crate::value::{PutOptions, Value};
use crate::write::batch::{Batch, HugeValue, check_key};

/// Bytes that are kept in memory before the value gets its own file.
const HELD_MAX: usize = 1 << 20;

/// Bytes per read from a source.
const READ_LEN: usize = 1 << 20;

/// Writes one value, of any length, piece by piece. The key gets the value when [`ValueWriter::commit`] returns. A
/// writer that is dropped before that leaves nothing in the store. Memory use stays below 4 MiB however long the value
/// is.
///
/// # Example
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let db = esker::Db::open_in_memory(esker::Options::default())?;
/// use std::io::Write;
/// let mut film = db.default_tree().writer("film")?;
/// for frame in 0..100_u32 {
///     film.write_all(&frame.to_le_bytes())?;
/// }
/// film.commit()?;
/// assert_eq!(db.get("film")?.expect("it was written").len(), 400);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ValueWriter {
    key: Vec<u8>,
    held: Vec<u8>,
    stream: Option<BlobStream>,
    len: u64,
    options: PutOptions,
    /// The written bytes have a gap.
    failed: bool,
    /// Dropped last: it may be the last handle, and `stream` must remove its file before the store closes.
    tree: Tree,
}

impl ValueWriter {
    fn new(tree: &Tree, key: &[u8]) -> Result<ValueWriter> {
        tree.store.disk().ensure_writable()?;
        Ok(ValueWriter {
            tree: tree.clone(),
            key: key.to_vec(),
            held: Vec::new(),
            stream: None,
            len: 0,
            options: PutOptions::default(),
            failed: false,
        })
    }

    /// The key has the value for the time `ttl` from now on ([`Tree::put_for`]).
    #[must_use]
    pub fn expiring_after(mut self, ttl: Duration) -> Self {
        self.options.set_expiry(Some(self.tree.expiry_after(ttl)));
        self
    }

    /// The value has these attributes ([`PutOptions::attributes`]). They may be set at the end, when a checksum of the
    /// value is known. The last call counts.
    ///
    /// # Errors
    /// `InvalidInput` when they are longer than 4 KiB.
    pub fn set_attributes(&mut self, attributes: impl AsRef<[u8]>) -> Result<()> {
        self.options.set_attributes(attributes.as_ref())
    }

    /// Sets the key of the value; the last call counts. This is for a key that is known only at the end
    /// ([`Tree::unnamed_writer`]).
    ///
    /// # Errors
    /// `InvalidInput` when the key is empty or too long.
    pub fn set_key(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        check_key(key.as_ref())?;
        self.key = key.as_ref().to_vec();
        Ok(())
    }

    /// The bytes written so far.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends the next bytes of the value.
    ///
    /// # Errors
    /// As [`Tree::put`]. The value cannot be committed after a failure.
    pub fn add(&mut self, bytes: &[u8]) -> Result<()> {
        self.check_whole()?;
        let added = self.add_whole(bytes);
        self.failed |= added.is_err();
        added
    }

    /// Takes the beginning of a file as the beginning of the value without copying it, if the file system lets files
    /// share blocks until one of them changes (XFS, btrfs). Returns how many of the first `len` bytes of `file` were
    /// taken: all but less than a MiB. Returns 0 if the file system cannot do it, if the value already has bytes, or if
    /// it is not huge. The caller reads and adds the rest. The position of `file` does not matter, and stays the same
    /// except on Windows.
    ///
    /// The taken bytes are then read once, for their checksums. A program that changes `file` meanwhile leaves a
    /// mixture, as with every way of reading. Later changes of `file` do not affect the value.
    ///
    /// # Errors
    /// As [`ValueWriter::add`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// use std::io::{Seek, SeekFrom};
    /// let mut file = std::fs::File::open(std::env::current_exe()?)?;
    /// let mut film = db.default_tree().writer("film")?;
    /// let shared = film.share_file(&file, file.metadata()?.len())?;
    /// file.seek(SeekFrom::Start(shared))?;
    /// std::io::copy(&mut file, &mut film)?;
    /// film.commit()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn share_file(&mut self, file: &OpenFile, len: u64) -> Result<u64> {
        self.check_whole()?;
        let store = &self.tree.store;
        if !self.is_empty() || len <= HELD_MAX as u64 || store.options().separate_at == usize::MAX {
            return Ok(0);
        }
        let Ok(file) = UserFile::of(file) else { return Ok(0) };
        // Some file systems copy if they cannot share.
        store.writes().make_room_for_blob(len)?;
        let mut stream = store.blobs().stream()?;
        let shared = stream.share(&file, len).inspect_err(|_| self.failed = true)?;
        if shared > 0 {
            self.stream = Some(stream);
            self.len = shared;
        }
        Ok(shared)
    }

    fn check_whole(&self) -> Result<()> {
        self.tree.store.check_open()?;
        if self.failed {
            let message = "a part of the value could not be written: the value cannot be committed";
            return Err(Error::invalid(message));
        }
        Ok(())
    }

    fn add_whole(&mut self, bytes: &[u8]) -> Result<()> {
        let before = self.len / ROOM_EVERY;
        self.len += bytes.len() as u64;
        if self.stream.is_some() && self.len / ROOM_EVERY != before {
            self.tree.store.writes().make_room_for_blob(ROOM_EVERY.max(bytes.len() as u64))?;
        }
        if let Some(stream) = &mut self.stream {
            return stream.write(bytes);
        }
        let separate = self.tree.store.options().separate_at != usize::MAX;
        if self.held.len() + bytes.len() <= HELD_MAX || !separate {
            self.held.extend_from_slice(bytes);
            return Ok(());
        }
        self.tree.store.writes().make_room_for_blob(self.len)?;
        let stream = self.stream.insert(self.tree.store.blobs().stream()?);
        stream.write(&std::mem::take(&mut self.held))?;
        stream.write(bytes)
    }

    /// Gives the key the value, with the store's default durability.
    ///
    /// # Errors
    /// As [`Tree::put`]; the key keeps its earlier value. `InvalidInput` also when the writer was given no key.
    pub fn commit(self) -> Result<()> {
        let durability = self.tree.store.options().durability;
        self.commit_with(durability)
    }

    /// Like [`ValueWriter::commit`], with the given durability.
    ///
    /// # Errors
    /// As [`ValueWriter::commit`].
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        self.check_whole()?;
        check_key(&self.key)?;
        match self.stream {
            None => self.tree.put_one(&self.key, &self.held, self.options.beside(), durability),
            Some(stream) => {
                let blob = stream.finish(self.tree.inner.lineage, &self.key)?;
                self.tree.put_blob_if(&self.key, blob, self.options.beside(), durability, None).map(drop)
            }
        }
    }

    /// Ends the value without writing its key: batches can give it to any key of its tree, or of a tree of its group
    /// ([`Batch::put_stored`]). A crash frees a value that no written batch names.
    ///
    /// # Errors
    /// As [`ValueWriter::add`].
    pub fn finish(self) -> Result<StoredValue> {
        self.check_whole()?;
        let value = match self.stream {
            // Every key that gets it has the same one.
            None if self.tree.is_huge(self.held.len()) => {
                let blob = self.tree.store.writes().put_blob(&self.tree.inner, &self.key, &self.held)?;
                HugeValue::Stored(Arc::new(blob))
            }
            None => HugeValue::Bytes(Arc::new(self.held)),
            Some(stream) => HugeValue::Stored(Arc::new(stream.finish(self.tree.inner.lineage, &self.key)?)),
        };
        Ok(StoredValue { value, options: self.options, tree: self.tree })
    }
}

/// A value that was written piece by piece and waits for a key: [`ValueWriter::finish`]. Clones and batches share its
/// bytes, and each put of it adds a reference. When the last clone and the last batch with it are dropped, the value is
/// freed, unless some key has it. A clone keeps the store open, as every handle does; a batch does not.
///
/// # Example
/// ```
/// # fn main() -> esker::Result<()> {
/// # let db = esker::Db::open_in_memory(esker::Options::default())?;
/// let films = db.tree("films")?;
/// let mut film = films.writer("draft")?;
/// film.add(&[7; 1 << 20])?;
/// let film = film.finish()?;
/// let mut batch = esker::Batch::new();
/// batch.put_stored(&films, "final", &film)?;
/// batch.put_stored(&films, "backup", &film)?;
/// db.write(&batch)?;
/// assert_eq!(films.get("backup")?.expect("it was written").len(), 1 << 20);
/// assert!(!films.contains("draft")?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct StoredValue {
    value: HugeValue,
    options: PutOptions,
    /// Dropped last: it may be the last handle of the store.
    tree: Tree,
}

/// A value that a batch may have, to be read. Empty if it still has to be staged.
pub(super) fn value_of(huge: &HugeValue) -> Value {
    match huge {
        HugeValue::Stored(blob) => Value::of_pin(Arc::clone(&blob.pin), blob.pointer),
        HugeValue::Bytes(bytes) => Value::of_bytes((**bytes).as_ref()),
        HugeValue::Staged(staged) => value_of(&staged.value),
        HugeValue::Awaited(_) => Value::of_bytes(&[]),
    }
}

/// Refuses to give a value of the tree `own` to a key of the tree `other`, if they do not share huge values.
pub(super) fn check_lineage(own: &TreeInner, other: &TreeInner) -> Result<()> {
    if (own.store, own.lineage) == (other.store, other.lineage) {
        return Ok(());
    }
    let message = format!(
        "the value was written for the tree \"{}\": the tree \"{}\", which is not of its group, cannot have it",
        own.name, other.name
    );
    Err(Error::invalid(message))
}

impl StoredValue {
    /// The value that a snapshot sees, which keeps it meanwhile.
    pub(super) fn of_seen(tree: &Tree, key: &[u8], seen: Value) -> Result<StoredValue> {
        let options = seen.put_options();
        let shared = match seen.pointer() {
            Some(pointer) => tree.store.writes().copy_blob(tree.inner.lineage, key, pointer),
            None => None,
        };
        let value = match shared {
            Some(blob) => HugeValue::Stored(Arc::new(blob)),
            None => HugeValue::Bytes(Arc::new(seen.into_vec()?)),
        };
        Ok(StoredValue { value, options, tree: tree.clone() })
    }

    /// The same value with `options` in place of its own: keys that get it then expire at this time, and have these
    /// attributes.
    #[must_use]
    pub fn with_options(mut self, options: PutOptions) -> StoredValue {
        self.options = options;
        self
    }

    /// The value, to be read: whole, in part or as a stream.
    pub fn value(&self) -> Value {
        value_of(&self.value).beside(self.options.beside())
    }

    pub(super) fn into_value(self) -> HugeValue {
        self.value
    }

    pub(super) fn add_to(&self, batch: &mut Batch, tree: &Tree, key: &[u8]) -> Result<()> {
        let other = &tree.inner;
        check_lineage(&self.tree.inner, other)?;
        match &self.value {
            HugeValue::Bytes(bytes) if !tree.is_huge((**bytes).as_ref().len()) => {
                batch.add_beside(other, Kind::Put, self.options.beside(), key, (**bytes).as_ref())
            }
            value => batch.add_huge(other, key, value.clone(), self.options.beside()),
        }
    }
}

impl Write for ValueWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.add(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Tree {
    /// Begins to write a value of `key`, of any length, piece by piece.
    ///
    /// # Errors
    /// As [`Tree::put`].
    pub fn writer(&self, key: impl AsRef<[u8]>) -> Result<ValueWriter> {
        check_key(key.as_ref())?;
        ValueWriter::new(self, key.as_ref())
    }

    /// Begins to write a value, piece by piece, whose key is not known yet: for example, a value that is named by a
    /// checksum of its bytes. [`ValueWriter::set_key`] sets the key before the commit. [`ValueWriter::finish`] instead
    /// makes it a value that batches give to any keys.
    ///
    /// # Errors
    /// As [`Tree::put`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let objects = db.tree("objects")?;
    /// let (mut object, mut sum) = (objects.unnamed_writer()?, 0_u64);
    /// for piece in [b"a long", b" value"] {
    ///     sum = piece.iter().fold(sum, |sum, byte| sum * 31 + u64::from(*byte));
    ///     object.add(piece)?;
    /// }
    /// object.set_key(sum.to_be_bytes())?;
    /// object.set_attributes("text/plain")?;
    /// object.commit()?;
    /// assert_eq!(objects.get_vec(sum.to_be_bytes())?.as_deref(), Some(&b"a long value"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn unnamed_writer(&self) -> Result<ValueWriter> {
        ValueWriter::new(self, &[])
    }

    /// Gives `key` all bytes that `source` returns; returns how many. If reading fails, the key keeps its earlier
    /// value.
    ///
    /// # Errors
    /// As [`Tree::put`]; an error of `source` becomes the source of an `Io`.
    pub fn put_from(&self, key: impl AsRef<[u8]>, mut source: impl Read) -> Result<u64> {
        let mut writer = self.writer(key)?;
        let mut buf = vec![0; READ_LEN];
        loop {
            let count = match source.read(&mut buf) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Error::stream("read the source of a value", error)),
            };
            let read = buf.get(..count).ok_or_else(|| {
                Error::new(ErrorKind::Io, "the source of a value reports more bytes than there was room for")
            })?;
            writer.add(read)?;
        }
        let len = writer.len();
        writer.commit()?;
        Ok(len)
    }
}
