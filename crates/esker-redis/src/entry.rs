//! What lies in a store: entries, and where they are.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::fault::ReadError;

/// The most bytes of a key of the store.
pub(crate) const KEY_BYTES_MAX: usize = 128 << 10;

/// The key of the empty key's entry in the tree Elements. Each other key there begins with a client's key, in which a zero is
/// followed by 0xff, and then has a zero followed by 1 or 2.
pub const EMPTY_KEY: &[u8] = &[0, 0];

/// Which of a database's two trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// The keys that clients know.
    Keys,
    /// The elements of large collections.
    Elements,
}

/// A tree: one of a database's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// The number of the database.
    pub database: u16,
    /// Which of its trees.
    pub space: Space,
}

/// A value that is too long to be held in memory for no reason.
pub trait Huge: Send + Sync {
    /// Its length in bytes.
    fn len(&self) -> u64;

    /// Whether it has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `len` bytes of it from `offset` on; all of them exist.
    ///
    /// # Errors
    /// [`ReadError`] when they cannot be read.
    fn read_at(&self, offset: u64, len: usize) -> Result<Vec<u8>, ReadError>;

    /// Fills `buf` from `offset` on, as [`Huge::read_at`] reads. Whoever reads one part after another takes no new memory
    /// for each.
    ///
    /// # Errors
    /// [`ReadError`] when they cannot be read.
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        buf.copy_from_slice(&self.read_at(offset, buf.len())?);
        Ok(())
    }

    /// Whether a batch can take it as it is. If not, a command that writes it is evaluated on another thread.
    fn is_ready(&self) -> bool;

    /// For whoever has made it, who knows what it is.
    fn as_any(&self) -> &dyn Any;
}

/// An argument that is not in memory: its place among a command's arguments, where no bytes are, and its value.
pub type Long = (usize, Arc<dyn Huge>);

impl fmt::Debug for dyn Huge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

/// A value.
#[derive(Debug, Clone)]
pub enum Value {
    /// Its bytes.
    Bytes(Vec<u8>),
    /// Where its bytes are.
    Huge(Arc<dyn Huge>),
}

impl Value {
    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Value::Bytes(bytes) => bytes.len() as u64,
            Value::Huge(huge) => huge.len(),
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of its bytes.
    ///
    /// # Errors
    /// [`ReadError`] when they cannot be read.
    pub fn into_bytes(self) -> Result<Vec<u8>, ReadError> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Huge(huge) => huge.read_at(0, usize::try_from(huge.len()).unwrap_or(usize::MAX)),
        }
    }
}

/// What a key has.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its value.
    pub value: Value,
    /// What stands beside the value; empty for strings.
    pub attributes: Vec<u8>,
    /// When it expires, in microseconds since 1970; `None`: never.
    pub expires_us: Option<u64>,
}

/// Keys from `lower` on and below `upper`; `None`: to the end.
#[derive(Debug, Clone, Copy)]
pub struct Bounds<'a> {
    /// The first key that counts.
    pub lower: &'a [u8],
    /// The first key behind them.
    pub upper: Option<&'a [u8]>,
}

impl Bounds<'_> {
    /// All keys.
    pub const ALL: Bounds<'static> = Bounds { lower: &[], upper: None };
}

/// The first key behind all that begin with `prefix`, if there is one.
pub(crate) fn behind(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut behind = prefix[..=last].to_vec();
    behind[last] += 1;
    Some(behind)
}
