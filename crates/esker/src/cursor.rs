//! The common interface of everything that can be iterated in key order: memtables, tables, levels, merges.
//!
//! Entries are ordered by key (bytewise ascending), then by sequence number **descending**: the newest version of a key
//! comes first. No two entries of one source have the same key and sequence number.

use crate::error::Result;

/// A position in the history of a store. Every write takes the next one. At most [`MAX_SEQ`].
pub(crate) type SeqNo = u64;

/// The largest sequence number: 56 bits. A kind then fits next to it in one word.
pub(crate) const MAX_SEQ: SeqNo = (1 << 56) - 1;

/// The effect of an entry on its key.
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
    /// As `Put`, with an expiry (0 if the value does not expire) and attributes in front of the value ([`Beside`]).
    PutWith = 6,
    /// As `Blob`, with an expiry (0 if the value does not expire) and attributes in front of the pointer.
    BlobWith = 7,
    /// All keys of a range are absent from here on. Only batches have such entries, not memtables or tables
    /// ([`crate::ranges`]), whose tags have three bits for the kind.
    DeleteRange = 8,
    /// The write carries a time for its tree ([`crate::state::own_time`]), 8 bytes in the place of the value. It does
    /// not have a key. Only batches have such entries.
    Time = 9,
}

/// The time at which a value expires, in microseconds since 1970.
pub(crate) type Expiry = u64;

pub(crate) const EXPIRY_LEN: usize = size_of::<Expiry>();

/// The longest attributes of a value, in bytes.
pub const ATTRIBUTES_LEN_MAX: usize = 4 << 10;

/// The bytes before attributes: the expiry, and their length in two bytes.
const WITH_LEN: usize = EXPIRY_LEN + 2;

/// An entry's expiry and attributes, which are stored in front of the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Beside<'a> {
    #[default]
    Nothing,
    /// The value expires.
    Until(Expiry),
    /// The value has attributes, at least a byte, and may expire.
    With(Option<Expiry>, &'a [u8]),
}

impl From<Option<Expiry>> for Beside<'_> {
    #[inline]
    fn from(expiry: Option<Expiry>) -> Self {
        expiry.map_or(Beside::Nothing, Beside::Until)
    }
}

impl<'a> Beside<'a> {
    pub(crate) fn of(expiry: Option<Expiry>, attributes: &'a [u8]) -> Beside<'a> {
        if attributes.is_empty() { expiry.into() } else { Beside::With(expiry, attributes) }
    }

    /// The expiry and the attributes.
    pub(crate) fn parts(self) -> (Option<Expiry>, &'a [u8]) {
        match self {
            Beside::Nothing => (None, &[]),
            Beside::Until(expiry) => (Some(expiry), &[]),
            Beside::With(expiry, attributes) => (expiry, attributes),
        }
    }

    /// The bytes in front of the value if it has attributes. The attributes of an entry fit the length; a user's
    /// attributes are shorter.
    pub(crate) fn head_with(expiry: Option<Expiry>, attributes: &[u8]) -> Vec<u8> {
        let len = u16::try_from(attributes.len()).unwrap_or(u16::MAX);
        // A value that expires at 0 is as absent as one that expires at 1.
        let expiry = expiry.map_or(0, |expiry| expiry.max(1));
        let attributes = &attributes[..usize::from(len)];
        [&expiry.to_le_bytes()[..], &len.to_le_bytes(), attributes].concat()
    }
}

/// The contents of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Content<'a> {
    /// Never `PutUntil`, `BlobUntil`, `PutWith` or `BlobWith`.
    pub(crate) kind: Kind,
    /// When the entry becomes a tombstone.
    pub(crate) expiry: Option<Expiry>,
    /// Empty if the entry has no attributes.
    pub(crate) attributes: &'a [u8],
    /// The value, a pointer to it, or an operand.
    pub(crate) value: &'a [u8],
}

impl<'a> Content<'a> {
    /// Takes apart an entry of a source. (Entries from files were checked: [`Kind::is_whole`].)
    #[inline]
    pub(crate) fn open(kind: Kind, stored: &'a [u8]) -> Content<'a> {
        let lasting = match kind {
            Kind::Delete | Kind::Put | Kind::Blob | Kind::Merge | Kind::DeleteRange | Kind::Time => {
                return Content { kind, expiry: None, attributes: &[], value: stored };
            }
            Kind::PutUntil => Kind::Put,
            Kind::BlobUntil => Kind::Blob,
            Kind::PutWith => return Content::open_with(Kind::Put, stored),
            Kind::BlobWith => return Content::open_with(Kind::Blob, stored),
        };
        let (expiry, value) = stored.split_first_chunk().unwrap_or((&[0; EXPIRY_LEN], &[]));
        Content { kind: lasting, expiry: Some(Expiry::from_le_bytes(*expiry)), attributes: &[], value }
    }

    #[cold]
    fn open_with(kind: Kind, stored: &'a [u8]) -> Content<'a> {
        let (expiry, rest) = stored.split_first_chunk().unwrap_or((&[0; EXPIRY_LEN], &[]));
        let (len, rest) = rest.split_first_chunk().unwrap_or((&[0; 2], &[]));
        let expiry = Some(Expiry::from_le_bytes(*expiry)).filter(|&expiry| expiry != 0);
        // A scan of keys cuts them off, and does not show them.
        let (attributes, value) =
            rest.split_at_checked(u16::from_le_bytes(*len).into()).unwrap_or((rest, &[]));
        Content { kind, expiry, attributes, value }
    }

    pub(crate) fn beside(&self) -> Beside<'a> {
        Beside::of(self.expiry, self.attributes)
    }

    /// When the value expired that a merge has replaced by this tombstone, if the tombstone records it: operands above
    /// it may have been merged into that value.
    #[inline]
    pub(crate) fn ended_us(&self) -> Option<Expiry> {
        let stored = (self.kind == Kind::Delete && !self.value.is_empty()).then_some(self.value)?;
        stored.try_into().ok().map(Expiry::from_le_bytes)
    }

    /// Whether the key has a value at the time that `now` returns. It is called only if the time matters.
    #[inline]
    pub(crate) fn lives(&self, now: impl FnOnce() -> u64) -> bool {
        matches!(self.kind, Kind::Put | Kind::Blob | Kind::Merge)
            && self.expiry.is_none_or(|expiry| now() < expiry)
    }
}

impl Kind {
    /// The kind in the three low bits of a tag: each of their values is a kind of entry.
    #[inline]
    pub(crate) fn of_tag(bits: u8) -> Kind {
        Kind::from_u8(bits).unwrap_or(Kind::Put)
    }

    /// Whether memtables and tables have such entries.
    #[inline]
    pub(crate) fn is_entry(self) -> bool {
        !matches!(self, Kind::DeleteRange | Kind::Time)
    }

    /// The least number of bytes that an entry holds in addition to its key.
    pub(crate) fn stored_min(self) -> usize {
        match self {
            Kind::PutUntil | Kind::BlobUntil => EXPIRY_LEN,
            Kind::PutWith | Kind::BlobWith => WITH_LEN,
            _ => 0,
        }
    }

    /// Whether `stored` holds all that an entry of this kind has in front of its value.
    #[inline]
    pub(crate) fn is_whole(self, stored: &[u8]) -> bool {
        let fits = || stored.get(EXPIRY_LEN..).and_then(|rest| rest.split_first_chunk());
        stored.len() >= self.stored_min()
            && (!matches!(self, Kind::PutWith | Kind::BlobWith)
                || fits().is_some_and(|(len, rest)| rest.len() >= usize::from(u16::from_le_bytes(*len))))
    }

    /// The kind of an entry of `self`, which is a put or a huge value, with `beside` in front of its value.
    #[inline]
    pub(crate) fn with(self, beside: &Beside<'_>) -> Kind {
        match (self, beside) {
            (Kind::Put, Beside::Until(_)) => Kind::PutUntil,
            (Kind::Blob, Beside::Until(_)) => Kind::BlobUntil,
            (Kind::Put, Beside::With(..)) => Kind::PutWith,
            (Kind::Blob, Beside::With(..)) => Kind::BlobWith,
            _ => self,
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
            6 => Some(Kind::PutWith),
            7 => Some(Kind::BlobWith),
            8 => Some(Kind::DeleteRange),
            9 => Some(Kind::Time),
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
