//! Builds data blocks; `block.rs` has the picture.
//!
//! Entries come in ascending order. The builder gathers them first, because a block's common prefix and
//! widths are known only at its end. It then writes them once, straight into the file's write buffer.

use super::block::{HEAD, HEADER, SLACK, head_of};

const MAX_PREFIX: usize = u16::MAX as usize;

#[derive(Debug)]
struct Pending {
    key_end: usize,
    value_end: usize,
    tag: u64,
}

/// Gathers the entries of one block. It is reused from block to block.
#[derive(Debug, Default)]
pub(super) struct BlockBuilder {
    keys: Vec<u8>,
    values: Vec<u8>,
    pending: Vec<Pending>,
    /// The length of the common prefix of all keys so far.
    prefix_len: usize,
    tags: Bounds,
    lens: Bounds,
}

impl BlockBuilder {
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// About how many bytes the entries so far take, without the savings of their common prefix.
    pub(super) fn size(&self) -> usize {
        self.values.len() + self.keys.len() + self.pending.len() * 4
    }

    /// Adds an entry after the others if the block then takes at most about `limit` bytes; never the first one.
    #[inline]
    pub(super) fn add_within(&mut self, limit: usize, key: &[u8], tag: u64, value: &[u8]) -> bool {
        if self.is_empty() {
            return false;
        }
        let prefix_len = common_len(&self.keys[..self.prefix_len], key);
        let (tags, lens) = (self.tags.with(tag), self.lens.with(key.len() as u64));
        let count = self.pending.len() + 1;
        let suffixes = self.keys.len() + key.len() - count * prefix_len;
        let widths = width(tags.spread()) + width(lens.spread());
        let tables = HEADER + prefix_len + count * (HEAD + 2 + widths) + SLACK;
        // Heads take the first four bytes of the suffixes.
        let entries = suffixes.saturating_sub(count * HEAD) + self.values.len().saturating_add(value.len());
        if tables + entries > limit {
            return false;
        }
        (self.prefix_len, self.tags, self.lens) = (prefix_len, tags, lens);
        self.push(key, tag, value);
        true
    }

    pub(super) fn add(&mut self, key: &[u8], tag: u64, value: &[u8]) {
        self.prefix_len = key.len();
        self.tags = self.tags.with(tag);
        self.lens = self.lens.with(key.len() as u64);
        self.push(key, tag, value);
    }

    #[inline]
    fn push(&mut self, key: &[u8], tag: u64, value: &[u8]) {
        self.keys.extend_from_slice(key);
        self.values.extend_from_slice(value);
        self.pending.push(Pending { key_end: self.keys.len(), value_end: self.values.len(), tag });
    }

    /// Appends the block to `out` and starts the next one. The builder must not be empty.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        encode(out, self.pending.len(), |i| {
            let (key_at, value_at) = match i.checked_sub(1).and_then(|before| self.pending.get(before)) {
                Some(before) => (before.key_end, before.value_end),
                None => (0, 0),
            };
            let entry = &self.pending[i];
            (&self.keys[key_at..entry.key_end], entry.tag, &self.values[value_at..entry.value_end])
        });
        self.keys.clear();
        self.values.clear();
        self.pending.clear();
        self.tags = Bounds::default();
        self.lens = Bounds::default();
    }
}

/// Appends a block with this single entry, without an intermediate copy of its value.
pub(super) fn encode_single(out: &mut Vec<u8>, key: &[u8], tag: u64, value: &[u8]) {
    encode(out, 1, |_| (key, tag, value));
}

pub(super) fn common_len(a: &[u8], b: &[u8]) -> usize {
    let mut words = 0;
    for (a, b) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        let differing = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differing != 0 {
            return words + differing.trailing_zeros() as usize / 8;
        }
        words += 8;
    }
    words + a[words..].iter().zip(&b[words..]).take_while(|(a, b)| a == b).count()
}

#[derive(Debug, Clone, Copy)]
struct Bounds {
    min: u64,
    max: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { min: u64::MAX, max: 0 }
    }
}

impl Bounds {
    fn with(self, value: u64) -> Self {
        Bounds { min: self.min.min(value), max: self.max.max(value) }
    }

    fn spread(self) -> u64 {
        self.max.saturating_sub(self.min)
    }
}

fn width(max: u64) -> usize {
    (64 - max.leading_zeros() as usize).div_ceil(8)
}

fn encode<'a>(out: &mut Vec<u8>, count: usize, entry: impl Fn(usize) -> (&'a [u8], u64, &'a [u8])) {
    let (first, last) = (entry(0).0, entry(count - 1).0);
    let prefix_len = common_len(first, last).min(MAX_PREFIX);
    let (mut tags, mut lens) = (Bounds::default(), Bounds::default());
    let mut last_start = 0;
    for i in 0..count {
        let (key, tag, value) = entry(i);
        tags = tags.with(tag);
        lens = lens.with((key.len() - prefix_len) as u64);
        if i + 1 < count {
            last_start += (key.len() - prefix_len).saturating_sub(HEAD) + value.len();
        }
    }
    let (tag_width, len_width) = (width(tags.spread()), width(lens.spread()));
    last_start += HEADER + prefix_len + count * (HEAD + 2) + (count - 1) * (tag_width + len_width);
    let offset_width = if last_start <= usize::from(u16::MAX) { 2 } else { 4 };

    let start = out.len();
    out.extend_from_slice(&(count as u32).to_le_bytes());
    out.extend_from_slice(&(prefix_len as u16).to_le_bytes());
    out.extend_from_slice(&[tag_width as u8, len_width as u8]);
    out.extend_from_slice(&(lens.min as u32).to_le_bytes());
    out.extend_from_slice(&[offset_width as u8, 0, 0, 0]);
    out.extend_from_slice(&tags.min.to_le_bytes());
    out.extend_from_slice(&first[..prefix_len]);
    for i in 0..count {
        out.extend_from_slice(&head_of(&entry(i).0[prefix_len..]).to_le_bytes());
    }
    let offsets_at = out.len();
    out.resize(offsets_at + count * offset_width, 0);
    for i in 0..count {
        let (key, tag, value) = entry(i);
        let offset = ((out.len() - start) as u32).to_le_bytes();
        let slot = offsets_at + i * offset_width;
        out[slot..slot + offset_width].copy_from_slice(&offset[..offset_width]);
        let suffix = &key[prefix_len..];
        out.extend_from_slice(&(tag - tags.min).to_le_bytes()[..tag_width]);
        out.extend_from_slice(&(suffix.len() as u64 - lens.min).to_le_bytes()[..len_width]);
        out.extend_from_slice(suffix.get(HEAD..).unwrap_or_default());
        out.extend_from_slice(value);
    }
}
