//! Values as memory that is viewed in place.
//!
//! A map shows bytes that must not change. The pin keeps this store from freeing them. The directory's lock keeps out
//! every other store, also when this store is closed meanwhile.

use std::fmt;
use std::ops::Deref;

use super::{Place, Value};
use crate::blob::PinnedMap;
use crate::error::Result;

/// The bytes of a [`Value`] in memory, from [`Value::map`]. They stay the same while the map lives, regardless of later
/// writes and deletes, even when the store is closed. While the map lives, the directory cannot be opened for writing
/// again.
///
/// The bytes of a huge value are those of the page cache. The kernel reads them from the disk when they are accessed
/// and can reclaim their memory. Once they are in memory, accessing them costs neither a copy nor a system call.
///
/// A load from memory cannot return an error. **If the disk fails to deliver a page, or if another program cuts the
/// file short, the process is killed by a signal (SIGBUS).** A program that cannot accept that must read instead.
pub struct ValueMap(Bytes);

enum Bytes {
    /// Of a value that was already in memory.
    Here(Vec<u8>),
    InPlace(PinnedMap),
}

impl Value {
    /// Shows all bytes without copying them. Bytes that were not verified since the store was opened are verified
    /// first: the first map of a value reads all of it, later ones read nothing.
    ///
    /// # Errors
    /// As [`Value::bytes`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().expect("a temporary directory");
    /// # let path = dir.path().join("store");
    /// let db = esker::Db::open(&path, esker::Options::default())?;
    /// db.put("film", vec![7; 5_000_000])?;
    /// if let Some(film) = db.get("film")? {
    ///     let film = film.map()?;
    ///     db.delete("film")?;
    ///     assert_eq!(film[4_000_000..4_000_003], [7, 7, 7]);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn map(self) -> Result<ValueMap> {
        self.shown(true)
    }

    /// Like [`Value::map`], but verifies nothing, and therefore reads nothing in advance. Damage of the file appears as
    /// wrong bytes. [`Value::read_at`] verifies exactly the bytes that it reads.
    ///
    /// # Errors
    /// `Corruption` when the file is too short; `Io` when it cannot be mapped.
    pub fn map_unverified(self) -> Result<ValueMap> {
        self.shown(false)
    }

    fn shown(self, verify: bool) -> Result<ValueMap> {
        match self.place {
            Place::Inline(bytes) => Ok(ValueMap(Bytes::Here(bytes))),
            Place::Blob(pin, pointer) => Ok(ValueMap(Bytes::InPlace(pin.map(&pointer, verify)?))),
        }
    }
}

impl Deref for ValueMap {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Here(bytes) => bytes,
            Bytes::InPlace(map) => &map.bytes,
        }
    }
}

impl AsRef<[u8]> for ValueMap {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for ValueMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValueMap").field("len", &self.len()).finish_non_exhaustive()
    }
}
