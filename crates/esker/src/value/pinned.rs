//! Values that keep their block of the buffer pool.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

use super::Value;
use crate::cursor::Content;
use crate::error::Result;
use crate::table::BlockSlice;

/// The bytes of a value, from [`Tree::get_pinned`](crate::Tree::get_pinned). They stay the same and can be kept for any
/// time, sent to other threads, and cloned without a copy.
///
/// A value in a table is not copied: the handle keeps its block in memory
/// ([`Options::block_bytes`](crate::Options::block_bytes)), even when the buffer pool has evicted it. Then the block no
/// longer counts against the memory budget. Therefore copy values that are kept for long. A value that was not flushed
/// yet is copied once, because a memtable is too large to be kept for one value. A huge value is copied too: it is read
/// whole.
///
/// # Example
/// ```
/// # fn main() -> esker::Result<()> {
/// # let db = esker::Db::open_in_memory(esker::Options::default())?;
/// let pages = db.tree("pages")?;
/// pages.put("index", "<html>")?;
/// let page = pages.get_pinned("index")?.expect("it was put");
/// pages.put("index", "<!doctype html>")?;
/// let sender = std::thread::spawn(move || assert_eq!(&page[..], b"<html>"));
/// sender.join().expect("it was the old page");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PinnedValue {
    bytes: BlockSlice,
}

impl PinnedValue {
    /// The value of `entry`. If `block` is given, it ends with the value.
    #[inline]
    pub(crate) fn of_entry(entry: &Content<'_>, block: Option<&BlockSlice>) -> PinnedValue {
        let bytes = match block {
            Some(block) => block.last(entry.value.len()),
            None => BlockSlice::of(entry.value),
        };
        PinnedValue { bytes }
    }

    pub(crate) fn read(value: Value) -> Result<PinnedValue> {
        Ok(PinnedValue { bytes: BlockSlice::of(value.into_vec()?) })
    }
}

impl Deref for PinnedValue {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsRef<[u8]> for PinnedValue {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Borrow<[u8]> for PinnedValue {
    #[inline]
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for PinnedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedValue").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl PartialEq for PinnedValue {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for PinnedValue {}

impl PartialOrd for PinnedValue {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PinnedValue {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

impl std::hash::Hash for PinnedValue {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}
