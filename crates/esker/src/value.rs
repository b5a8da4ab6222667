//! A value that a read found, and the ways to read it: whole, in part, as a stream.
//!
//! A [`Value`] fixes the result of a lookup; its bytes are read when they are requested. Therefore every way of reading
//! may fail, and reading a part costs no more than the part.

use std::borrow::Cow;
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::SystemTime;

use crate::blob::{BlobSet, Pin, Pointer};
use crate::cursor::{Beside, Content, Expiry, Kind};
use crate::env::moment_at;
use crate::error::{Error, ErrorKind, Result, shown};
use crate::fs::{OpenFile, UserFile};

/// Bytes of a huge value that are in memory at a time while it is copied out.
const COPY_LEN: u64 = 1 << 20;

/// A value that a read found. It stays the same, regardless of later writes.
///
/// Its length is known; its bytes are read when they are requested. [`Tree::get_vec`](crate::Tree::get_vec) is shorter
/// for a small value that is wanted whole.
///
/// # Example
/// ```
/// # fn main() -> esker::Result<()> {
/// # let db = esker::Db::open_in_memory(esker::Options::default())?;
/// db.put("film", "a head and a long body")?;
/// let film = db.get("film")?.expect("it was put");
/// assert_eq!(film.len(), 22);
/// assert_eq!(film.read_at(2..6)?, b"head");
/// assert_eq!(&film.bytes()?[..], b"a head and a long body");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Value {
    place: Place,
    expiry: Option<Expiry>,
    rare: Option<Box<Rare>>,
}

/// Fields that few values have.
#[derive(Clone, Default)]
struct Rare {
    /// When the value below its operands expires, if it was made of operands.
    below: Option<Expiry>,
    attributes: Vec<u8>,
}

impl Rare {
    #[cold]
    fn of_attributes(attributes: &[u8]) -> Box<Rare> {
        Box::new(Rare { below: None, attributes: attributes.to_vec() })
    }
}

fn rare_of(attributes: &[u8]) -> Option<Box<Rare>> {
    if attributes.is_empty() { None } else { Some(Rare::of_attributes(attributes)) }
}

#[derive(Clone)]
enum Place {
    Inline(Vec<u8>),
    /// In a blob file, which the pin keeps.
    Blob(Arc<Pin>, Pointer),
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Value").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// A value that belongs to no store.
impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Value {
        Value { place: Place::Inline(bytes), expiry: None, rare: None }
    }
}

impl Value {
    #[inline]
    pub(crate) fn copy_of(entry: &Content<'_>) -> Value {
        let place = Place::Inline(entry.value.to_vec());
        Value { place, expiry: entry.expiry, rare: rare_of(entry.attributes) }
    }

    /// A small value that does not expire.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Value {
        Value::copy_of(&Content::open(Kind::Put, bytes))
    }

    /// The huge value of `key` to which the pointer in `entry` refers. Fails if the blob was freed. For a caller that
    /// has registered a moment that sees it this is damage; for others the value was overwritten.
    pub(crate) fn of_blob(blobs: &Arc<BlobSet>, key: &[u8], entry: &Content<'_>) -> Result<Value> {
        let Some(pointer) = Pointer::decode(entry.value) else {
            let message =
                format!("the value of {} is in a blob file, but its pointer cannot be decoded", shown(key));
            return Err(Error::new(ErrorKind::Corruption, message));
        };
        let Some(pin) = blobs.pin(&pointer) else {
            let message = format!("the value of {} is missing", shown(key));
            return Err(Error::corruption(&blobs.path_of(pointer.file), 0, message));
        };
        Ok(Value::of_pin(Arc::new(pin), pointer).beside(entry.beside()))
    }

    /// The huge value that `pointer` refers to and `pin` keeps.
    pub(crate) fn of_pin(pin: Arc<Pin>, pointer: Pointer) -> Value {
        Value { place: Place::Blob(pin, pointer), expiry: None, rare: None }
    }

    /// The same value with the expiry and attributes in `beside`.
    pub(crate) fn beside(self, beside: Beside<'_>) -> Value {
        let (expiry, attributes) = beside.parts();
        Value { place: self.place, expiry, rare: rare_of(attributes) }
    }

    /// The place of a huge value.
    pub(crate) fn pointer(&self) -> Option<&Pointer> {
        match &self.place {
            Place::Inline(_) => None,
            Place::Blob(_, pointer) => Some(pointer),
        }
    }

    /// Its expiry and attributes.
    pub(crate) fn put_options(&self) -> PutOptions {
        PutOptions::until(self.expiry).attributes(self.attributes())
    }

    /// The same value, computed from one that expires at `below`.
    pub(crate) fn made_of(self, below: Option<Expiry>) -> Value {
        let rare = below.map(|_| Box::new(Rare { below, attributes: Vec::new() }));
        Value { rare, ..self }
    }

    /// When the passing of time changes the value of its key.
    pub(crate) fn lapses_us(&self) -> Option<Expiry> {
        self.expiry.or_else(|| self.rare.as_ref()?.below)
    }

    /// When a huge value was stored, in microseconds since 1970. `None` for a small one, whose time is not kept.
    pub fn stored_us(&self) -> Option<u64> {
        match &self.place {
            Place::Inline(_) => None,
            Place::Blob(_, pointer) => Some(pointer.stored_us),
        }
    }

    /// [`Value::stored_us`] as a moment.
    pub fn stored_at(&self) -> Option<SystemTime> {
        self.stored_us().and_then(moment_at)
    }

    /// When the key's value expires, in microseconds since 1970; `None` if it does not expire. The value that was found
    /// stays readable.
    pub fn expires_us(&self) -> Option<u64> {
        self.expiry
    }

    /// [`Value::expires_us`] as a moment. `None` also if it is too far away for the system's [`SystemTime`].
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.expiry.and_then(moment_at)
    }

    /// The attributes that were stored with the value: empty if it has none. Reading them reads no byte of the value
    /// ([`PutOptions::attributes`]).
    pub fn attributes(&self) -> &[u8] {
        self.rare.as_ref().map_or(&[], |rare| &rare.attributes)
    }

    pub(crate) fn lend(&self) -> Lent<'_> {
        let bytes = match &self.place {
            Place::Inline(bytes) => Some(&bytes[..]),
            Place::Blob(..) => None,
        };
        Lent { bytes, expires_us: self.expires_us(), attributes: self.attributes() }
    }

    /// The metadata of the value, without its bytes.
    pub fn metadata(&self) -> Metadata {
        Metadata {
            len: self.len(),
            expires_us: self.expires_us(),
            stored_us: self.stored_us(),
            attributes: self.attributes().to_vec(),
        }
    }

    /// The length in bytes.
    #[inline]
    pub fn len(&self) -> u64 {
        match &self.place {
            Place::Inline(bytes) => bytes.len() as u64,
            Place::Blob(_, pointer) => pointer.len,
        }
    }

    /// Whether the value is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Requests the bytes from the disk, at most the first 8 MiB, if they are not in memory, and does not wait for
    /// them. To read many values, prefetch some before reading the first: a disk serves eight requests in little more
    /// time than one. This is a hint: nothing is verified, and errors appear when the value is read.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// # db.put("a", "1")?;
    /// let values = db.default_tree().get_many(["a", "b"])?;
    /// values.iter().flatten().for_each(esker::Value::prefetch);
    /// for value in values.iter().flatten() {
    ///     assert_eq!(value.bytes()?.len(), 1);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn prefetch(&self) {
        if let Place::Blob(pin, pointer) = &self.place {
            pin.ask_ahead(pointer);
        }
    }

    /// All bytes; borrowed if they are already in memory.
    ///
    /// # Errors
    /// `Corruption` or `Io` when they cannot be read.
    #[inline]
    pub fn bytes(&self) -> Result<Cow<'_, [u8]>> {
        match &self.place {
            Place::Inline(bytes) => Ok(Cow::Borrowed(bytes)),
            Place::Blob(..) => self.read_part(0, self.len()).map(Cow::Owned),
        }
    }

    /// All bytes; not copied if they are already in memory.
    ///
    /// # Errors
    /// As [`Value::bytes`].
    #[inline]
    pub fn into_vec(self) -> Result<Vec<u8>> {
        match self.place {
            Place::Inline(bytes) => Ok(bytes),
            Place::Blob(..) => self.read_part(0, self.len()),
        }
    }

    /// Appends all bytes to `buf`. After an error `buf` is unchanged.
    pub(crate) fn append_to(&self, buf: &mut Vec<u8>) -> Result<()> {
        let len = buf.len();
        self.append_part(0, self.len(), buf).inspect_err(|_| buf.truncate(len))
    }

    /// `len` bytes from `offset` on, all inside the value.
    fn read_part(&self, offset: u64, len: u64) -> Result<Vec<u8>> {
        let mut buf = Vec::new();
        self.append_part(offset, len, &mut buf)?;
        Ok(buf)
    }

    /// Appends `len` bytes from `offset` on, all inside the value, to `buf`.
    fn append_part(&self, offset: u64, len: u64, buf: &mut Vec<u8>) -> Result<()> {
        match &self.place {
            Place::Inline(bytes) => buf.extend_from_slice(&bytes[offset as usize..][..len as usize]),
            Place::Blob(pin, pointer) => pin.append_to(pointer, offset, len, buf)?,
        }
        Ok(())
    }

    /// Copies all bytes into `buf`, replacing its content. Allocates nothing if `buf` is large enough.
    ///
    /// # Errors
    /// As [`Value::bytes`].
    pub fn read_into(&self, buf: &mut Vec<u8>) -> Result<()> {
        buf.clear();
        self.append_to(buf)
    }

    /// The bytes in `range`, cut off at the end of the value; empty if the range begins after it.
    ///
    /// # Errors
    /// `InvalidInput` when the range ends before it begins; otherwise as [`Value::bytes`].
    pub fn read_at(&self, range: impl RangeBounds<u64>) -> Result<Vec<u8>> {
        // A bound beyond the largest number is beyond every value, as that number itself is.
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => u64::MAX,
        };
        if end < start {
            let message = format!("the range ends at {end}, before its start {start}");
            return Err(Error::invalid(message));
        }
        let (start, end) = (start.min(self.len()), end.min(self.len()));
        self.read_part(start, end - start)
    }

    /// Fills `buf` with the bytes from `offset` on.
    ///
    /// # Errors
    /// `InvalidInput` when the value has fewer bytes than that; otherwise as [`Value::bytes`].
    pub fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.len()) {
            let (wanted, len) = (buf.len(), self.len());
            let message = format!("{wanted} bytes from offset {offset} on go beyond a value of {len} bytes");
            return Err(Error::invalid(message));
        }
        match &self.place {
            Place::Inline(bytes) => buf.copy_from_slice(&bytes[offset as usize..][..buf.len()]),
            Place::Blob(pin, pointer) => pin.read_at(pointer, offset, buf)?,
        }
        Ok(())
    }

    /// Reads the value from its beginning, piece by piece.
    pub fn reader(&self) -> ValueReader<'_> {
        ValueReader { value: Cow::Borrowed(self), at: 0 }
    }

    /// Like [`Value::reader`], for a reader that outlives this handle.
    pub fn into_reader(self) -> ValueReader<'static> {
        ValueReader { value: Cow::Owned(self), at: 0 }
    }

    /// Writes all bytes to `out`; returns how many. For a file, [`Value::copy_to_file`] may be faster.
    ///
    /// # Errors
    /// As [`Value::bytes`]; an error of `out` becomes the source of an `Io` or `OutOfSpace`.
    pub fn copy_to(&self, mut out: impl Write) -> Result<u64> {
        self.write_from(0, &mut out)
    }

    /// Writes all bytes to a file from its position on; returns how many. On a file system in which files share blocks
    /// (XFS, btrfs) a huge value is not written and takes no additional space. It is only read to be verified, unless
    /// that was done before.
    ///
    /// # Errors
    /// As [`Value::copy_to`].
    pub fn copy_to_file(&self, file: &OpenFile) -> Result<u64> {
        let mut file = UserFile::of(file).map_err(not_written)?;
        let shared = match &self.place {
            Place::Blob(pin, pointer) if file.shares_blocks() => pin.copy_to(pointer, &file)?,
            _ => 0,
        };
        self.write_from(shared, &mut file)
    }

    /// Writes the bytes from `at` on to `out`; returns the length of the value.
    fn write_from(&self, mut at: u64, out: &mut dyn Write) -> Result<u64> {
        if let Place::Inline(bytes) = &self.place {
            out.write_all(bytes).map_err(not_written)?;
            return Ok(self.len());
        }
        let mut buf = Vec::new();
        while at < self.len() {
            buf.clear();
            let len = (self.len() - at).min(COPY_LEN);
            self.append_part(at, len, &mut buf)?;
            out.write_all(&buf).map_err(not_written)?;
            at += len;
        }
        Ok(self.len())
    }
}

fn not_written(source: std::io::Error) -> Error {
    Error::stream("write the value to its target", source)
}

/// Reads a [`Value`] as a stream. Seeking beyond the end is not an error; reads there return no bytes.
///
/// Errors are those of reading a value, as [`std::io::Error`]: the [`Error`] itself is inside.
#[derive(Debug, Clone)]
pub struct ValueReader<'a> {
    value: Cow<'a, Value>,
    at: u64,
}

impl Read for ValueReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let left = usize::try_from(self.value.len().saturating_sub(self.at)).unwrap_or(usize::MAX);
        let count = left.min(buf.len());
        if count > 0 {
            self.value.read_exact_at(self.at, &mut buf[..count])?;
            self.at += count as u64;
        }
        Ok(count)
    }
}

impl Seek for ValueReader<'_> {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(ahead) => self.value.len().checked_add_signed(ahead),
            SeekFrom::Current(ahead) => self.at.checked_add_signed(ahead),
        };
        let message = "the position is before the beginning of the value, or too large";
        self.at = at.ok_or_else(|| Error::invalid(message))?;
        Ok(self.at)
    }
}

mod beside;
mod map;
mod pinned;
#[cfg(test)]
mod tests;

pub(crate) use beside::check_attributes;
pub use beside::{Lent, Metadata, PutOptions};
pub use map::ValueMap;
pub use pinned::PinnedValue;
