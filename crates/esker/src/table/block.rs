//! A data block in memory: found by binary search over 4-byte heads, read in place.
//!
//! ```text
//! header   count u32, prefix_len u16, tag_width u8, len_width u8,
//!          base_len u32, offset_width u8 (2 or 4), zero u8 x 3, base_tag u64          24 bytes
//! prefix   the common prefix of all keys of the block
//! heads    u32 x count: the next 4 bytes of each key as a big-endian number, zero-padded
//! offsets  u16 or u32 x count: where each entry begins
//! entries  [tag - base_tag: tag_width] [suffix_len - base_len: len_width] [suffix after the head] [value]
//! slack    9 bytes that are not part of the block: its trailer in the file, or zeros
//! ```
//! Integers are little-endian. A key is prefix + suffix. A tag is `seq << 3 | kind`. Widths are 0 to 8
//! (tags) and 0 to 4 (lengths) bytes; 0 means that all entries have the base.
//!
//! Guarantees: a [`Block`] is checked as a whole when it is made. Therefore every position below `count` yields an
//! entry inside it, in strictly ascending order (by key, then newest first). A search touches the header's cache line,
//! a few lines of heads, and the entry.

use std::cmp::Ordering;
use std::hint::select_unpredictable;
use std::ops::{Deref, Range};
use std::sync::Arc;

use super::Flaw;
use crate::cache::prefetch;
use crate::canary::broken;
use crate::codec::{u16_at, u32_at, u64_at};
use crate::cursor::{Kind, MAX_SEQ, SeqNo};

pub(super) const HEADER: usize = 24;
/// Bytes after the block that may be read but mean nothing.
pub(super) const SLACK: usize = 9;
/// The longest key that a block may hold: the longest user key, preceded by a tree number in a shared table.
pub(super) const MAX_KEY: usize = 131_072 + 4;
pub(super) const HEAD: usize = 4;

/// A checked block, shared with the buffer pool.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    bytes: Arc<[u8]>,
}

/// The positions of a block's parts, parsed from its header in a few loads.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Layout {
    pub(super) count: usize,
    pub(super) prefix_len: usize,
    offsets_at: usize,
    wide: bool,
    tag_width: usize,
    tag_mask: u64,
    len_width: usize,
    len_mask: u64,
    base_len: usize,
    base_tag: u64,
    end: usize,
}

/// One entry's parts, as positions in the block's bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) tag: u64,
    pub(super) suffix_len: usize,
    pub(super) rest: usize,
    pub(super) value: usize,
    pub(super) end: usize,
}

impl Entry {
    /// The length of the suffix after the head.
    #[inline]
    pub(super) fn rest_len(&self) -> usize {
        self.suffix_len.saturating_sub(HEAD)
    }
}

#[inline]
pub(super) fn tag_of(seq: SeqNo, kind: Kind) -> u64 {
    seq << 3 | kind as u64
}

#[inline]
pub(super) fn seq_of(tag: u64) -> SeqNo {
    tag >> 3
}

/// The kind of a tag of a checked block.
#[inline]
pub(super) fn kind_of(tag: u64) -> Kind {
    Kind::of_tag((tag & 7) as u8)
}

/// The first four bytes of a suffix as a number with the same order.
#[inline]
pub(super) fn head_of(suffix: &[u8]) -> u32 {
    u32::from_be_bytes(padded(suffix))
}

/// The first `N` bytes of `bytes`, with zeros after a shorter one.
#[inline]
pub(super) fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or_else(|| {
        let mut padded = [0; N];
        padded[..bytes.len()].copy_from_slice(bytes);
        padded
    })
}

fn mask(width: usize) -> u64 {
    if width == 0 { 0 } else { u64::MAX >> (64 - 8 * width) }
}

impl Block {
    /// Takes the bytes of a block and its slack from the pool: these have already passed [`Block::check`].
    #[inline]
    pub(super) fn trusted(bytes: Arc<[u8]>) -> Self {
        Block { bytes }
    }

    /// Checks every byte that a later access relies on.
    pub(super) fn check(bytes: Arc<[u8]>) -> Result<Self, Flaw> {
        check(&bytes)?;
        Ok(Block { bytes })
    }

    pub(super) fn shared(&self) -> &Arc<[u8]> {
        &self.bytes
    }

    pub(super) fn into_shared(self) -> Arc<[u8]> {
        self.bytes
    }

    #[inline]
    pub(super) fn layout(&self) -> Layout {
        Layout::parse(&self.bytes)
    }
}

impl Layout {
    #[inline]
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let header = &bytes[..HEADER];
        let count = u32_at(header, 0) as usize;
        let prefix_len = usize::from(u16_at(header, 4));
        let (tag_width, len_width) = (usize::from(header[6]), usize::from(header[7]));
        Layout {
            count,
            prefix_len,
            offsets_at: HEADER + prefix_len + count * 4,
            wide: header[12] == 4,
            tag_width,
            tag_mask: mask(tag_width),
            len_width,
            len_mask: mask(len_width),
            base_len: u32_at(header, 8) as usize,
            base_tag: u64_at(header, 16),
            end: bytes.len() - SLACK,
        }
    }

    #[inline]
    pub(super) fn prefix<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[HEADER..HEADER + self.prefix_len]
    }

    #[inline]
    fn heads<'a>(&self, bytes: &'a [u8]) -> &'a [[u8; HEAD]] {
        bytes[HEADER + self.prefix_len..self.offsets_at].as_chunks::<HEAD>().0
    }

    #[inline]
    pub(super) fn head(&self, bytes: &[u8], i: usize) -> u32 {
        u32_at(bytes, HEADER + self.prefix_len + i * 4)
    }

    #[inline]
    fn start(&self, bytes: &[u8], i: usize) -> usize {
        if self.wide {
            u32_at(bytes, self.offsets_at + i * 4) as usize
        } else {
            usize::from(u16_at(bytes, self.offsets_at + i * 2))
        }
    }

    /// The entry at `i`, which must be less than `count`.
    #[inline]
    pub(super) fn entry(&self, bytes: &[u8], i: usize) -> Entry {
        let start = self.start(bytes, i);
        let end = if i + 1 < self.count { self.start(bytes, i + 1) } else { self.end };
        self.entry_between(bytes, start, end)
    }

    /// The entry that begins at `start`. At least 8 bytes of entry or slack follow. Therefore whole words can be read.
    #[inline]
    fn entry_between(&self, bytes: &[u8], start: usize, end: usize) -> Entry {
        let tag = self.base_tag + (u64_at(bytes, start) & self.tag_mask);
        let len_at = start + self.tag_width;
        let suffix_len = self.base_len + (u64_at(bytes, len_at) & self.len_mask) as usize;
        let rest = len_at + self.len_width;
        let value = rest + suffix_len.saturating_sub(HEAD);
        Entry { tag, suffix_len, rest, value, end }
    }

    /// The position of the first entry at or after `(key, seq)`, and whether it has exactly this key.
    #[inline]
    pub(super) fn search(&self, bytes: &[u8], key: &[u8], seq: SeqNo) -> (usize, bool) {
        let (front, suffix) = key.split_at(self.prefix_len.min(key.len()));
        match front.cmp(self.prefix(bytes)) {
            Ordering::Less => return (0, false),
            Ordering::Greater => return (self.count, false),
            Ordering::Equal => {}
        }
        let head = head_of(suffix);
        let heads = self.heads(bytes);
        let first = lower_bound(heads, head);
        if first < heads.len() && u32::from_le_bytes(heads[first]) == head {
            // The caller will want the value, which often ends on the next line.
            prefetch(bytes, self.start(bytes, first) + 64);
            self.search_ties(bytes, heads, first, suffix, seq)
        } else {
            (first, false)
        }
    }

    /// [`Layout::search`] among the entries from `first` on that have the head of `suffix`.
    #[inline]
    fn search_ties(
        &self,
        bytes: &[u8],
        heads: &[[u8; HEAD]],
        first: usize,
        suffix: &[u8],
        seq: SeqNo,
    ) -> (usize, bool) {
        let head = heads[first];
        let mut low = first;
        let mut high = first + 1;
        if high < heads.len() && heads[high] == head {
            high += heads[high..].partition_point(|other| *other == head);
        }
        let mut same_key = false;
        while low < high {
            let middle = low.midpoint(high);
            let entry = self.entry(bytes, middle);
            let order = compare_rest(&bytes[entry.rest..entry.value], entry.suffix_len, suffix);
            if order == Ordering::Less || (order == Ordering::Equal && seq_of(entry.tag) > seq) {
                low = middle + 1;
            } else {
                high = middle;
                same_key = order == Ordering::Equal;
            }
        }
        (low, same_key)
    }
}

/// Orders two suffixes with equal heads. The lengths distinguish zero padding from zero bytes.
#[inline]
fn compare_rest(rest: &[u8], suffix_len: usize, other: &[u8]) -> Ordering {
    let other_rest = other.get(HEAD..).unwrap_or_default();
    rest.cmp(other_rest).then(suffix_len.cmp(&other.len()))
}

/// The first position whose head is at least `head`, without a branch that could be mispredicted.
#[inline]
fn lower_bound(heads: &[[u8; HEAD]], head: u32) -> usize {
    let mut base = 0;
    let mut size = heads.len();
    while size > 1 {
        let half = size / 2;
        let before = u32::from_le_bytes(heads[base + half - 1]) < head;
        base = select_unpredictable(before, base + half, base);
        size -= half;
    }
    base + usize::from(size == 1 && u32::from_le_bytes(heads[base]) < head)
}

/// Fails unless the order is right and every access that a [`Layout`] offers stays inside `bytes`.
fn check(bytes: &[u8]) -> Result<(), Flaw> {
    if bytes.len() < HEADER + SLACK {
        return Err(Flaw::new(0, "a block header"));
    }
    let layout = check_header(bytes)?;
    let mut start = layout.start(bytes, 0);
    let entries_at = layout.offsets_at + layout.count * if layout.wide { 4 } else { 2 };
    if start != entries_at {
        return Err(Flaw::new(layout.offsets_at, "the first entry behind the offsets"));
    }
    let mut before: Option<(u32, Entry)> = None;
    for i in 0..layout.count {
        let end = if i + 1 < layout.count { layout.start(bytes, i + 1) } else { layout.end };
        if end > layout.end || end < start || end - start < layout.tag_width + layout.len_width {
            return Err(Flaw::new(start, "an entry inside its block"));
        }
        let (head, entry) = (layout.head(bytes, i), check_entry(bytes, &layout, i, start, end)?);
        if let Some((head_before, entry_before)) = before {
            let order = head_before.cmp(&head).then_with(|| {
                bytes[entry_before.rest..entry_before.value]
                    .cmp(&bytes[entry.rest..entry.value])
                    .then(entry_before.suffix_len.cmp(&entry.suffix_len))
                    .then(seq_of(entry.tag).cmp(&seq_of(entry_before.tag)))
            });
            if order != Ordering::Less {
                return Err(Flaw::new(start, "a key greater than the one before it"));
            }
        }
        before = Some((head, entry));
        start = end;
    }
    Ok(())
}

fn check_header(bytes: &[u8]) -> Result<Layout, Flaw> {
    let (tag_width, len_width, offset_width) = (bytes[6], bytes[7], bytes[12]);
    let known = tag_width <= 8 && len_width <= 4 && matches!(offset_width, 2 | 4) && bytes[13..16] == [0; 3];
    if !known {
        return Err(Flaw::new(6, "field widths of a block"));
    }
    let tables_at = (HEADER + usize::from(u16_at(bytes, 4))) as u64;
    let tables_len = u64::from(u32_at(bytes, 0)) * (4 + u64::from(offset_width));
    if tables_len == 0 || tables_at + tables_len > (bytes.len() - SLACK) as u64 {
        return Err(Flaw::new(0, "a count of entries that fit their block"));
    }
    let layout = Layout::parse(bytes);
    if layout.base_tag > tag_of(MAX_SEQ, Kind::BlobWith) || layout.base_len > MAX_KEY {
        return Err(Flaw::new(8, "a base length and sequence number within the limits"));
    }
    Ok(layout)
}

/// The range `start..end` holds at least the fixed part of the entry.
#[inline]
fn check_entry(bytes: &[u8], layout: &Layout, i: usize, start: usize, end: usize) -> Result<Entry, Flaw> {
    let delta = u64_at(bytes, start) & layout.tag_mask;
    let tag = layout.base_tag.checked_add(delta);
    let Some(tag) = tag.filter(|tag| seq_of(*tag) <= MAX_SEQ) else {
        return Err(Flaw::new(start, "a sequence number"));
    };
    let entry = layout.entry_between(bytes, start, end);
    if broken("block-entry") {
        return Ok(entry);
    }
    if !bytes.get(entry.value..end).is_some_and(|stored| kind_of(tag).is_whole(stored)) {
        return Err(Flaw::new(start, "the expiry and the attributes before the value"));
    }
    if layout.prefix_len + entry.suffix_len > MAX_KEY || entry.value > end {
        return Err(Flaw::new(start, "a key inside its entry"));
    }
    let padding = layout.head(bytes, i).checked_shl(8 * entry.suffix_len as u32).unwrap_or(0);
    if entry.suffix_len < HEAD && padding != 0 {
        return Err(Flaw::new(start, "zeros behind a short key's head"));
    }
    Ok(entry)
}

/// A value that keeps its block in memory. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct BlockSlice {
    bytes: Arc<[u8]>,
    range: Range<usize>,
}

impl BlockSlice {
    #[inline]
    pub(super) fn new(block: Block, range: Range<usize>) -> Self {
        BlockSlice { bytes: block.into_shared(), range }
    }

    /// A slice of bytes that no block holds in this form.
    pub(crate) fn of(bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        BlockSlice { range: 0..bytes.len(), bytes }
    }

    /// Its last `len` bytes; all if it has fewer. They keep the same block.
    pub(crate) fn last(&self, len: usize) -> Self {
        let start = self.range.end.saturating_sub(len).max(self.range.start);
        BlockSlice { bytes: Arc::clone(&self.bytes), range: start..self.range.end }
    }
}

impl Deref for BlockSlice {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[self.range.clone()]
    }
}

impl Deref for Block {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}
