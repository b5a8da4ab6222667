//! The bytes of blob files, and of the pointers to their values. Decoding accepts any bytes. Its results lie within
//! their file, so that later sums of offsets and lengths cannot overflow.
//!
//! ```text
//! header      magic 8, version u32, layout u8, chunk log2 u8, zero 2, file u64, salt u64, created us u64, check u64
//! descriptor  check u64, "blob" 4, key length u32, ordinal u64, value at u64, length u64, stored us u64,
//!             sums check u64, tree u32, zero 4, key, zeros to a multiple of 8
//! entry       ordinal u64, value at u64, length u64, stored us u64, sums check u64, key hash u64,
//!             descriptor at u64, tree u32, zero 4                                                    64 bytes
//! tail        magic 8, entries u64, footer at u64, checksum of the entries u64, file u64, salt u64,
//!             zero 8, check u64                                                                      64 bytes
//! ```
//! A rewrite of a file keeps its number, its salt, its chunk size and the ordinals of its values.

use super::BlobFileId;
use super::chunks::{CHUNK_LOG2_MAX, CHUNK_LOG2_MIN, sums_len};
use crate::checksum::checksum;
use crate::codec::{Decoder, FILE_NUMBER_MAX, put_varint, u32_at, u64_at};
use crate::cursor::{Content, Kind};
use crate::table::Flaw;
use crate::version::blob_edits::REFERENCES_MAX;

/// The length of the header page, which comes before the first value or descriptor.
pub(super) const PAGE: u64 = 4096;
pub(super) const FILE_LEN_MAX: u64 = 1 << 56;
pub(super) const KEY_MAX: usize = 1 << 17;
pub(super) const ENTRY: usize = 64;
/// The length of the tail, which ends a sealed file.
pub(super) const TAIL: usize = 64;
pub(super) const DESCRIPTOR: usize = 64;

pub(super) const HEADER: usize = 48;
const HEADER_MAGIC: &[u8; 8] = b"eskerBLB";
const TAIL_MAGIC: &[u8; 8] = b"eskerBLF";
pub(super) const DESCRIPTOR_MARK: &[u8; 4] = b"blob";
const VERSION: u32 = 1;

/// `at`, rounded up to a multiple of 8. For numbers up to [`FILE_LEN_MAX`].
pub(super) fn align8(at: u64) -> u64 {
    at.next_multiple_of(8)
}

/// The content of an entry whose value is in a blob file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pointer {
    /// The file that the value was written to. File and ordinal identify the value permanently.
    pub(crate) file: BlobFileId,
    pub(crate) ordinal: u64,
    pub(crate) len: u64,
    /// When it was stored: microseconds since 1970-01-01 UTC.
    pub(crate) stored_us: u64,
    pub(crate) sums_check: u64,
    /// Which of the entries that name the value this is: 0 is the first, others are copies. File, ordinal and reference
    /// belong to one entry permanently.
    pub(crate) reference: u64,
}

impl Pointer {
    /// The longest encoding, in bytes: five numbers of up to 10 bytes, and the check.
    pub(crate) const LEN_MAX: usize = 5 * 10 + 8;

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.file, self.ordinal, self.len, self.stored_us] {
            put_varint(out, number);
        }
        out.extend_from_slice(&self.sums_check.to_le_bytes());
        if self.reference != 0 {
            put_varint(out, self.reference);
        }
    }

    /// The pointer in an entry of kind `kind`, if it holds one.
    pub(crate) fn of_entry(kind: Kind, value: &[u8]) -> Option<Pointer> {
        let content = Content::open(kind, value);
        if content.kind == Kind::Blob { Pointer::decode(content.value) } else { None }
    }

    /// `None` if the bytes are not a pointer.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Pointer> {
        let mut decoder = Decoder::new(bytes);
        let mut pointer = Pointer {
            file: decoder.varint()?,
            ordinal: decoder.varint()?,
            len: decoder.varint()?,
            stored_us: decoder.varint()?,
            sums_check: decoder.u64()?,
            reference: 0,
        };
        if !decoder.is_empty() {
            pointer.reference = decoder.varint().filter(|&reference| reference != 0)?;
        }
        let plausible = pointer.file <= FILE_NUMBER_MAX && pointer.len <= FILE_LEN_MAX;
        let plausible = plausible && pointer.reference < REFERENCES_MAX;
        (plausible && decoder.is_empty()).then_some(pointer)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Layout {
    /// Many values, each after its descriptor.
    Shared = 0,
    /// One value, with its descriptor after it, because the length was not known at the beginning.
    Single = 1,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) layout: Layout,
    /// The binary logarithm of the chunk size of its values.
    pub(crate) chunk_log2: u8,
    /// The number of the file in the store that wrote it.
    pub(crate) number: u64,
    /// Identifies this file; part of every checksum in it.
    pub(crate) salt: u64,
    /// Microseconds since 1970-01-01 UTC.
    pub(crate) created_us: u64,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; PAGE as usize] {
        let mut page = [0; PAGE as usize];
        let mut out = Vec::with_capacity(HEADER);
        out.extend_from_slice(HEADER_MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[self.layout as u8, self.chunk_log2, 0, 0]);
        put_words(&mut out, &[self.number, self.salt, self.created_us]);
        let check = checksum(0, &out);
        put_words(&mut out, &[check]);
        page[..HEADER].copy_from_slice(&out);
        page
    }

    pub(super) fn decode(page: &[u8; PAGE as usize]) -> Result<Self, Flaw> {
        if &page[..8] != HEADER_MAGIC {
            return Err(Flaw::new(0, "the mark of an Esker blob file"));
        }
        if checksum(0, &page[..HEADER - 8]) != u64_at(page, HEADER - 8) {
            return Err(Flaw::new(0, "a header that matches its checksum"));
        }
        match u32_at(page, 8) {
            VERSION => {}
            version if version > VERSION => return Err(Flaw::Version { what: "blob file", version }),
            _ => return Err(Flaw::new(8, "a format version of 1 or more")),
        }
        let layout = match page[12] {
            0 => Layout::Shared,
            1 => Layout::Single,
            _ => return Err(Flaw::new(12, "a known layout")),
        };
        let [number, salt, created_us] = [16, 24, 32].map(|at| u64_at(page, at));
        let chunk_log2 = page[13];
        if !(CHUNK_LOG2_MIN..=CHUNK_LOG2_MAX).contains(&chunk_log2) {
            return Err(Flaw::new(13, "a known chunk size"));
        }
        if number > FILE_NUMBER_MAX {
            return Err(Flaw::new(16, "the number of a file"));
        }
        Ok(Header { layout, chunk_log2, number, salt, created_us })
    }
}

/// A file's data about one of its values, apart from the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) ordinal: u64,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) stored_us: u64,
    pub(crate) sums_check: u64,
    /// See [`key_hash`].
    pub(crate) key_hash: u64,
    /// Where the descriptor, which has the key, begins.
    pub(crate) desc_offset: u64,
    pub(crate) tree: u32,
}

/// The hash of a key that entries hold. It suffices to find the files that may have a value of the key.
pub(crate) fn key_hash(tree: u32, key: &[u8]) -> u64 {
    checksum(u64::from(tree), key)
}

pub(super) fn descriptor_len(key_len: usize) -> u64 {
    align8((DESCRIPTOR + key_len) as u64)
}

impl Entry {
    /// The pointer to this value in the file that is `file` in this store.
    pub(crate) fn pointer(&self, file: BlobFileId) -> Pointer {
        let Entry { ordinal, len, stored_us, sums_check, .. } = *self;
        Pointer { file, ordinal, len, stored_us, sums_check, reference: 0 }
    }

    pub(super) fn sums_offset(&self) -> u64 {
        align8(self.offset + self.len)
    }

    pub(super) fn end(&self, chunk_log2: u8) -> u64 {
        self.sums_offset() + sums_len(self.len, chunk_log2)
    }

    /// How many bytes the value takes in a file, with its descriptor, sums and entry.
    pub(super) fn footprint(&self, chunk_log2: u8) -> u64 {
        self.end(chunk_log2).saturating_sub(self.offset.min(self.desc_offset)) + ENTRY as u64
    }

    /// Whether value and sums lie after the header page and before `limit`, and all numbers are in bounds.
    fn fits(&self, header: &Header, limit: u64) -> bool {
        let bounded = limit <= FILE_LEN_MAX && self.offset <= limit && self.len <= limit;
        let placed = self.offset >= PAGE && self.offset.is_multiple_of(8);
        bounded && placed && self.end(header.chunk_log2) <= limit
    }

    /// The numbers that entries begin with. In a descriptor they follow the fields that only descriptors have.
    fn numbers(&self) -> [u64; 5] {
        [self.ordinal, self.offset, self.len, self.stored_us, self.sums_check]
    }

    /// Appends the descriptor, `key` included, for a file with the salt `file_salt`.
    pub(super) fn encode_descriptor(&self, key: &[u8], file_salt: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(DESCRIPTOR_MARK);
        out.extend_from_slice(&(key.len() as u32).to_le_bytes());
        put_words(out, &self.numbers());
        put_words(out, &[u64::from(self.tree)]);
        out.extend_from_slice(key);
        let check = checksum(file_salt, &out[start + 8..]);
        out[start..start + 8].copy_from_slice(&check.to_le_bytes());
        out.resize(start + descriptor_len(key.len()) as usize, 0);
    }

    /// The length of the descriptor that begins with `bytes`, from the key length in it.
    pub(super) fn descriptor_len_in(bytes: &[u8]) -> Option<u64> {
        let head = bytes.get(..DESCRIPTOR).filter(|head| &head[8..12] == DESCRIPTOR_MARK)?;
        let key_len = u32_at(head, 12) as usize;
        (key_len <= KEY_MAX).then(|| descriptor_len(key_len))
    }

    /// Decodes the descriptor `bytes`, which lies at `desc_offset` of a file with `header` and `limit` bytes.
    pub(super) fn decode_descriptor<'a>(
        bytes: &'a [u8],
        header: &Header,
        desc_offset: u64,
        limit: u64,
    ) -> Option<(Entry, &'a [u8])> {
        let len = Self::descriptor_len_in(bytes).filter(|&len| len == bytes.len() as u64)?;
        let (descriptor, key) = bytes.split_at_checked(DESCRIPTOR)?;
        let (key, _padding) = key.split_at_checked(u32_at(descriptor, 12) as usize)?;
        if checksum(header.salt, &bytes[8..DESCRIPTOR + key.len()]) != u64_at(descriptor, 0) {
            return None;
        }
        let tree = u32_at(descriptor, 56);
        let entry = Entry::of_numbers(&descriptor[16..], key_hash(tree, key), desc_offset, tree);
        let in_place = |entry: &Entry| match header.layout {
            Layout::Shared => (desc_offset + len..desc_offset + len + PAGE).contains(&entry.offset),
            Layout::Single => entry.offset == PAGE && entry.end(header.chunk_log2) == desc_offset,
        };
        (desc_offset <= limit && entry.fits(header, limit) && in_place(&entry)).then_some((entry, key))
    }

    /// Decodes the entry whose [`Entry::numbers`] are at the beginning of `bytes`.
    fn of_numbers(bytes: &[u8], key_hash: u64, desc_offset: u64, tree: u32) -> Entry {
        let [ordinal, offset, len, stored_us, sums_check] = std::array::from_fn(|i| u64_at(bytes, 8 * i));
        Entry { ordinal, offset, len, stored_us, sums_check, key_hash, desc_offset, tree }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_words(out, &self.numbers());
        put_words(out, &[self.key_hash, self.desc_offset, u64::from(self.tree)]);
    }

    /// Decodes an entry of a file with `header` whose footer begins at `limit`.
    fn decode(bytes: &[u8; ENTRY], header: &Header, limit: u64) -> Option<Entry> {
        let entry = Entry::of_numbers(bytes, u64_at(bytes, 40), u64_at(bytes, 48), u32_at(bytes, 56));
        let described = entry.desc_offset >= PAGE
            && entry.desc_offset <= limit.saturating_sub(DESCRIPTOR as u64)
            && entry.desc_offset.is_multiple_of(8);
        (described && entry.fits(header, limit)).then_some(entry)
    }
}

fn put_words(out: &mut Vec<u8>, words: &[u64]) {
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tail {
    pub(super) entries: u64,
    pub(super) footer_at: u64,
    entries_check: u64,
}

/// The footer of a file: the entries, which must be in order, and the tail.
pub(super) fn encode_footer(header: &Header, footer_at: u64, entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(entries.len() * ENTRY + TAIL);
    for entry in entries {
        entry.encode(&mut out);
    }
    let entries_check = checksum(header.salt, &out);
    let start = out.len();
    out.extend_from_slice(TAIL_MAGIC);
    let words = [entries.len() as u64, footer_at, entries_check, header.number, header.salt, 0];
    put_words(&mut out, &words);
    let check = checksum(0, &out[start..]);
    put_words(&mut out, &[check]);
    out
}

impl Tail {
    /// Decodes the last bytes of a file with `header` that is `file_len` bytes long.
    pub(super) fn decode(bytes: &[u8; TAIL], header: &Header, file_len: u64) -> Result<Self, Flaw> {
        if &bytes[..8] != TAIL_MAGIC {
            return Err(Flaw::new(0, "the mark that ends a sealed blob file"));
        }
        if checksum(0, &bytes[..TAIL - 8]) != u64_at(bytes, TAIL - 8) {
            return Err(Flaw::new(0, "a footer that matches its checksum"));
        }
        if (u64_at(bytes, 32), u64_at(bytes, 40)) != (header.number, header.salt) {
            return Err(Flaw::new(32, "the footer of this file"));
        }
        let tail = Tail {
            entries: u64_at(bytes, 8),
            footer_at: u64_at(bytes, 16),
            entries_check: u64_at(bytes, 24),
        };
        let end = tail.entries.checked_mul(ENTRY as u64).and_then(|len| len.checked_add(tail.footer_at));
        if end.and_then(|end| end.checked_add(TAIL as u64)) != Some(file_len)
            || tail.footer_at < PAGE
            || file_len > FILE_LEN_MAX
        {
            return Err(Flaw::new(8, "entries that fill the file"));
        }
        Ok(tail)
    }

    pub(super) fn decode_entries(&self, bytes: &[u8], header: &Header) -> Result<Vec<Entry>, Flaw> {
        if checksum(header.salt, bytes) != self.entries_check {
            return Err(Flaw::new(0, "entries that match their checksum"));
        }
        let mut entries: Vec<Entry> = Vec::with_capacity(bytes.len() / ENTRY);
        for (i, bytes) in bytes.as_chunks::<ENTRY>().0.iter().enumerate() {
            let entry = Entry::decode(bytes, header, self.footer_at);
            let entry = entry.ok_or_else(|| Flaw::new(i * ENTRY, "the entry of a value in this file"))?;
            if entries.last().is_some_and(|last| last.ordinal >= entry.ordinal) {
                return Err(Flaw::new(i * ENTRY, "entries in order"));
            }
            entries.push(entry);
        }
        Ok(entries)
    }
}
