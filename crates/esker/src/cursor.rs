//! The common interface of everything that can be iterated in key order: memtables, tables, levels, merges.
//!
//! Entries are ordered by key (bytewise ascending), then by sequence number **descending**: the newest version of a key
//! comes first. No two entries of one source have the same key and sequence number.

use crate::error::Result;

/// A position in the history of a store. Every write takes the next one. At most [`MAX_SEQ`].
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
    /// The key has a value in a blob file; the entry holds the pointer to it ([`crate::blob::Pointer`]).
    Blob = 2,
    /// As `Put`, until the time in front of the value ([`Content::open`]). From then on the key is absent.
    PutUntil = 3,
    /// As `Blob`, until the time in front of the pointer.
    BlobUntil = 4,
    /// The key has the value that an operator makes from its earlier value and this operand ([`crate::operators`]).
    Merge = 5,
    /// All keys of a range are absent from here on. Only batches have such entries, not memtables or tables
    /// ([`crate::ranges`]).
    DeleteRange = 6,
}

/// The time at which a value expires, in microseconds since 1970.
pub(crate) type Expiry = u64;

pub(crate) const EXPIRY_LEN: usize = size_of::<Expiry>();

/// The contents of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Content<'a> {
    /// Never `PutUntil` or `BlobUntil`.
    pub(crate) kind: Kind,
    /// When the entry becomes a tombstone.
    pub(crate) expiry: Option<Expiry>,
    /// The value, a pointer to it, or an operand.
    pub(crate) value: &'a [u8],
}

impl<'a> Content<'a> {
    /// Takes apart an entry of a source. (Entries from files were checked to be long enough for their expiry.)
    #[inline]
    pub(crate) fn open(kind: Kind, stored: &'a [u8]) -> Content<'a> {
        let lasting = match kind {
            Kind::Delete | Kind::Put | Kind::Blob | Kind::Merge | Kind::DeleteRange => {
                return Content { kind, expiry: None, value: stored };
            }
            Kind::PutUntil => Kind::Put,
            Kind::BlobUntil => Kind::Blob,
        };
        let (expiry, value) = stored.split_first_chunk().unwrap_or((&[0; EXPIRY_LEN], &[]));
        Content { kind: lasting, expiry: Some(Expiry::from_le_bytes(*expiry)), value }
    }

    /// Whether the key has a value at the time that `now` returns. It is called only if the time matters.
    #[inline]
    pub(crate) fn lives(&self, now: impl FnOnce() -> u64) -> bool {
        matches!(self.kind, Kind::Put | Kind::Blob | Kind::Merge)
            && self.expiry.is_none_or(|expiry| now() < expiry)
    }
}

impl Kind {
    /// The kind in the low bits of a checked tag.
    #[inline]
    pub(crate) fn of_tag(bits: u8) -> Kind {
        Kind::from_u8(bits).unwrap_or(Kind::Put)
    }

    /// The greatest number of an entry's kind.
    pub(crate) const MAX: u8 = Kind::Merge as u8;

    /// The least number of bytes that an entry holds beside its key.
    pub(crate) fn stored_min(self) -> usize {
        if matches!(self, Kind::PutUntil | Kind::BlobUntil) { EXPIRY_LEN } else { 0 }
    }

    /// The kind of an entry with the same contents that expires.
    pub(crate) fn until(self) -> Kind {
        match self {
            Kind::Put => Kind::PutUntil,
            Kind::Blob => Kind::BlobUntil,
            other => other,
        }
    }

    #[inline]
    pub(crate) fn from_u8(byte: u8) -> Option<Kind> {
        match byte {
            0 => Some(Kind::Delete),
            1 => Some(Kind::Put),
            2 => Some(Kind::Blob),
            3 => Some(Kind::PutUntil),
            4 => Some(Kind::BlobUntil),
            5 => Some(Kind::Merge),
            6 => Some(Kind::DeleteRange),
            _ => None,
        }
    }
}

/// Iterates over entries in order. A cursor starts invalid. Moving off either end makes it invalid again.
///
/// `key`, `seq`, `kind` and `value` may be called only while `valid()`; `next` and `prev` likewise. After an error the
/// cursor is invalid.
pub(crate) trait Cursor {
    fn valid(&self) -> bool;

    fn seek_to_first(&mut self) -> Result<()>;

    fn seek_to_last(&mut self) -> Result<()>;

    /// Moves to the first entry at or after `(key, seq)`: a greater key, or this key at `seq` or older.
    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()>;

    /// Moves to the last entry strictly before `(key, seq)`: a smaller key, or this key newer than `seq`.
    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()>;

    fn next(&mut self) -> Result<()>;

    fn prev(&mut self) -> Result<()>;

    fn key(&self) -> &[u8];

    fn seq(&self) -> SeqNo;

    fn kind(&self) -> Kind;

    fn value(&self) -> &[u8];
}
