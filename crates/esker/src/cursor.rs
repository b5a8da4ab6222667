//! The common shape of everything that can be walked in key order: memtables, tables, levels, merges.
//!
//! Entries are ordered by key (bytewise ascending), then by sequence number **descending**: the newest
//! version of a key comes first. No two entries share key and sequence number within one source.

use crate::error::Result;

/// A position in the history of a store; every write takes the next. At most [`MAX_SEQ`].
pub(crate) type SeqNo = u64;

/// The largest sequence number: 56 bits, so that a kind fits beside it in one word.
pub(crate) const MAX_SEQ: SeqNo = (1 << 56) - 1;

/// What an entry does to its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The key is absent from here on (a tombstone); the value is empty.
    Delete = 0,
    /// The key has this value.
    Put = 1,
    /// The key has the value that lies in a blob file; here stands where ([`crate::blob::Pointer`]).
    Blob = 2,
}

impl Kind {
    /// The kind in the low bits of a checked tag.
    #[inline]
    pub(crate) fn of_tag(bits: u8) -> Kind {
        match bits {
            0 => Kind::Delete,
            2 => Kind::Blob,
            _ => Kind::Put,
        }
    }

    pub(crate) fn from_u8(byte: u8) -> Option<Kind> {
        match byte {
            0 => Some(Kind::Delete),
            1 => Some(Kind::Put),
            2 => Some(Kind::Blob),
            _ => None,
        }
    }
}

/// Walks entries in order. A cursor starts invalid; moving off either end makes it invalid again.
///
/// `key`, `seq`, `kind` and `value` may be called only while `valid()`; `next` and `prev` likewise.
/// After an error the cursor is invalid.
pub(crate) trait Cursor {
    fn valid(&self) -> bool;

    fn seek_to_first(&mut self) -> Result<()>;

    fn seek_to_last(&mut self) -> Result<()>;

    /// To the first entry at or after `(key, seq)`: a greater key, or this key at `seq` or older.
    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()>;

    /// To the last entry strictly before `(key, seq)`: a smaller key, or this key newer than `seq`.
    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()>;

    fn next(&mut self) -> Result<()>;

    fn prev(&mut self) -> Result<()>;

    fn key(&self) -> &[u8];

    fn seq(&self) -> SeqNo;

    fn kind(&self) -> Kind;

    fn value(&self) -> &[u8];
}
