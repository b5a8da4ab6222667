//! The end of a table file: properties, and a footer of fixed length that holds the places of all sections.
//!
//! ```text
//! footer  filter_at u64, index_at u64, properties_at u64, file_len u64, salt u64,
//!         version u32, zero u32, checksum u64, magic 8 bytes                           64 bytes
//! ```
//! Sections follow one another: data, filter (absent when `filter_at` = `index_at`), index, properties,
//! footer. Later versions keep the footer's length, checksum, version and magic.

use super::Flaw;
use super::block::MAX_KEY;
use super::expiring::Expiring;
use crate::checksum::checksum;
use crate::codec::{Decoder, put_slice, put_varint, u32_at, u64_at};
use crate::cursor::{Kind, MAX_SEQ, SeqNo};
use crate::options::FilterPrefix;

pub(super) const FOOTER: usize = 64;
/// The last bytes of every table.
pub(crate) const MAGIC: &[u8; 8] = b"eskertbl";
const VERSION: u32 = 1;
const SUM_AT: usize = 48;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) filter_at: u64,
    pub(super) index_at: u64,
    pub(super) properties_at: u64,
    pub(super) file_len: u64,
    pub(super) salt: u64,
}

impl Footer {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        for word in [self.filter_at, self.index_at, self.properties_at, self.file_len, self.salt] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        let sum = checksum(0, &out[start..]);
        out.extend_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(MAGIC);
    }

    /// Reads the last bytes of a file that is `file_len` long.
    pub(super) fn decode(bytes: &[u8; FOOTER], file_len: u64) -> Result<Self, Flaw> {
        if &bytes[SUM_AT + 8..] != MAGIC {
            return Err(Flaw::new(SUM_AT + 8, "the mark of an Esker table"));
        }
        if checksum(0, &bytes[..SUM_AT]) != u64_at(bytes, SUM_AT) {
            return Err(Flaw::new(0, "a footer that matches its checksum"));
        }
        match u32_at(bytes, 40) {
            VERSION => {}
            version if version > VERSION => return Err(Flaw::Version { what: "table", version }),
            _ => return Err(Flaw::new(40, "a format version of 1 or more")),
        }
        let footer = Footer {
            filter_at: u64_at(bytes, 0),
            index_at: u64_at(bytes, 8),
            properties_at: u64_at(bytes, 16),
            file_len: u64_at(bytes, 24),
            salt: u64_at(bytes, 32),
        };
        let sections = [footer.filter_at, footer.index_at, footer.properties_at, file_len - FOOTER as u64];
        if footer.file_len != file_len || !sections.is_sorted() {
            return Err(Flaw::new(0, "sections that fill the file"));
        }
        Ok(footer)
    }
}

/// A table's description of itself. Keys are user keys; both bounds are inclusive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Properties {
    /// Entries, tombstones included.
    pub(crate) entries: u64,
    /// Entries that record that a key is absent.
    pub(crate) tombstones: u64,
    pub(crate) raw_bytes: u64,
    pub(crate) expiring: Expiring,
    pub(crate) blocks: u64,
    pub(crate) min_seq: SeqNo,
    pub(crate) max_seq: SeqNo,
    pub(crate) smallest: Vec<u8>,
    pub(crate) largest: Vec<u8>,
    pub(crate) owner: Owner,
    /// Which prefixes of its keys the filter holds.
    pub(crate) filter_prefix: Option<FilterPrefix>,
}

/// The owner of the table. Otherwise only the manifest knows it; repair needs it when the manifest is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Owner {
    /// The tree's number. `None` if several trees share the table: then its keys begin with their numbers.
    pub(crate) tree: Option<u32>,
    /// Range tombstones up to this number hide nothing in the table.
    pub(crate) cleared: SeqNo,
}

impl Owner {
    fn encode(self, out: &mut Vec<u8>) {
        put_varint(out, self.tree.map_or(0, |tree| u64::from(tree) + 1));
        put_varint(out, self.cleared);
    }

    fn decode(decoder: &mut Decoder<'_>) -> Option<Self> {
        let tree = match decoder.varint()? {
            0 => None,
            number => Some(u32::try_from(number - 1).ok().filter(|&tree| tree < u32::MAX)?),
        };
        Some(Owner { tree, cleared: decoder.varint().filter(|&seq| seq <= MAX_SEQ)? })
    }
}

impl Properties {
    /// Counts an entry that comes after all others. The caller keeps `largest`.
    #[inline]
    pub(crate) fn note(&mut self, key: &[u8], seq: SeqNo, kind: Kind, value: &[u8]) {
        if self.entries == 0 {
            self.smallest = key.to_vec();
            self.min_seq = seq;
        }
        self.entries += 1;
        self.tombstones += u64::from(kind == Kind::Delete);
        self.expiring.note(kind, value);
        self.raw_bytes += (key.len() + value.len()) as u64;
        self.min_seq = self.min_seq.min(seq);
        self.max_seq = self.max_seq.max(seq);
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.entries, self.tombstones, self.raw_bytes, self.blocks, self.min_seq, self.max_seq]
        {
            put_varint(out, number);
        }
        put_slice(out, &self.smallest);
        put_slice(out, &self.largest);
        self.expiring.encode(out);
        self.owner.encode(out);
        FilterPrefix::encode(self.filter_prefix, out);
    }

    pub(super) fn decode(payload: &[u8]) -> Result<Self, Flaw> {
        let mut decoder = Decoder::new(payload);
        let read = Self::read(&mut decoder).filter(|_| decoder.is_empty());
        let properties = read.ok_or_else(|| Flaw::new(0, "the properties of a table"))?;
        let plausible = properties.tombstones <= properties.entries
            && properties.expiring.count <= properties.entries
            && properties.max_seq <= MAX_SEQ
            && properties.smallest <= properties.largest
            && properties.smallest.len().max(properties.largest.len()) <= MAX_KEY;
        if plausible { Ok(properties) } else { Err(Flaw::new(0, "properties that agree with each other")) }
    }

    fn read(decoder: &mut Decoder<'_>) -> Option<Self> {
        Some(Properties {
            entries: decoder.varint()?,
            tombstones: decoder.varint()?,
            raw_bytes: decoder.varint()?,
            blocks: decoder.varint()?,
            min_seq: decoder.varint()?,
            max_seq: decoder.varint()?,
            smallest: decoder.slice()?.to_vec(),
            largest: decoder.slice()?.to_vec(),
            expiring: Expiring::decode(decoder)?,
            owner: Owner::decode(decoder)?,
            filter_prefix: FilterPrefix::decode(decoder)?,
        })
    }
}
