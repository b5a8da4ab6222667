//! Values that a cursor or a range lends until it moves on.

use std::borrow::Cow;
use std::time::SystemTime;

use super::scan::Scan;
use crate::error::Result;
use crate::value::Value;

/// The value of the pair at which a [`Cursor`](crate::Cursor) or a [`Range`](crate::Range) is, until that moves on. A
/// value in a table or in memory is lent and not copied. A huge one is read when its bytes are requested.
///
/// # Example
/// ```
/// # fn main() -> esker::Result<()> {
/// # let db = esker::Db::open_in_memory(esker::Options::default())?;
/// let films = db.tree("films")?;
/// films.put("grey", vec![7; 1 << 20])?;
/// let mut all = films.iter()?;
/// while let Some((_, value)) = all.next_ref()? {
///     assert_eq!(value.len(), 1 << 20);
///     let mut copy = Vec::new();
///     value.append_to(&mut copy)?;
///     assert_eq!(copy, [7; 1 << 20]);
///     let film = value.to_value()?; // to keep, or to read in part
///     assert_eq!(film.read_at(..2)?, [7, 7]);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ValueRef<'a> {
    scan: &'a Scan,
}

impl<'a> ValueRef<'a> {
    #[inline]
    pub(crate) fn of(scan: &'a Scan) -> ValueRef<'a> {
        ValueRef { scan }
    }

    /// The length in bytes, without reading them.
    #[inline]
    pub fn len(&self) -> u64 {
        self.scan.value_len()
    }

    /// Whether the value is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// When the value expires, as [`Value::expires_us`] returns it.
    #[inline]
    pub fn expires_us(&self) -> Option<u64> {
        self.scan.expires_us()
    }

    /// When the value expires, as [`Value::expires_at`] returns it.
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.scan.expires_at()
    }

    /// The attributes of the value, as [`Value::attributes`] returns them.
    #[inline]
    pub fn attributes(&self) -> &[u8] {
        self.scan.attributes()
    }

    /// All bytes: borrowed, unless the value is huge. A huge one is read anew by every call.
    ///
    /// # Errors
    /// `Corruption` or `Io` when a huge value cannot be read. `InvalidInput` or `Unsupported` when operands cannot be
    /// applied ([`Tree::merge`](crate::Tree::merge)).
    #[inline]
    pub fn bytes(&self) -> Result<Cow<'a, [u8]>> {
        self.scan.bytes()
    }

    /// Appends all bytes to `out`. A huge value is read directly into its place there, which allocates nothing if `out`
    /// has the capacity.
    ///
    /// # Errors
    /// As [`ValueRef::bytes`]. Then `out` is unchanged.
    #[inline]
    pub fn append_to(&self, out: &mut Vec<u8>) -> Result<()> {
        self.scan.append_to(out)
    }

    /// The value as [`Tree::get`](crate::Tree::get) returns it: to keep, or to read in part.
    ///
    /// # Errors
    /// `Corruption` when a huge value is not where it should be; otherwise as [`ValueRef::bytes`].
    pub fn to_value(&self) -> Result<Value> {
        self.scan.handle()
    }
}
