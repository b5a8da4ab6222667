//! The index of a table: which data block may hold a key, and where that block is.
//!
//! Each block has a separator. It is at least the block's last key and below the next block's first key. If
//! the versions of one key continue in the next block, it equals both.
//!
//! ```text
//! payload   count varint, then per block:
//!           shared varint (with the separator before), length varint, the rest's bytes, block length varint
//! memory    common prefix | 8-byte heads in a search tree | lengths | tails, for keys beyond the head
//! ```
//! Guarantees: blocks follow one another from offset 0; separators never decrease.

use std::cmp::Ordering;
use std::ops::Range;

use super::Flaw;
use super::block::{MAX_KEY, padded};
use super::block_builder::common_len;
use super::frame::TRAILER;
use super::search_tree::SearchTree;
use crate::codec::{Decoder, put_varint};

const HEAD: usize = 8;

#[derive(Debug)]
pub(super) struct Index {
    common: Box<[u8]>,
    heads: SearchTree,
    /// How many bytes of each head belong to the separator; the rest is padding.
    head_lens: Box<[u8]>,
    /// The end of each separator's tail in `tails`. Empty if no separator is longer than its head.
    tail_ends: Box<[u32]>,
    tails: Box<[u8]>,
    ends: Offsets,
}

/// The end of each block; four bytes each if the table is small enough.
#[derive(Debug)]
enum Offsets {
    Narrow(Box<[u32]>),
    Wide(Box<[u64]>),
}

impl Offsets {
    fn new(ends: Vec<u64>) -> Self {
        if ends.last().is_none_or(|&end| end <= u64::from(u32::MAX)) {
            Offsets::Narrow(ends.into_iter().map(|end| end as u32).collect())
        } else {
            Offsets::Wide(ends.into())
        }
    }

    #[inline]
    fn get(&self, i: usize) -> u64 {
        match self {
            Offsets::Narrow(ends) => u64::from(ends[i]),
            Offsets::Wide(ends) => ends[i],
        }
    }

    fn memory(&self) -> usize {
        match self {
            Offsets::Narrow(ends) => size_of_val::<[u32]>(ends),
            Offsets::Wide(ends) => size_of_val::<[u64]>(ends),
        }
    }
}

impl Index {
    pub(super) fn len(&self) -> usize {
        self.heads.len()
    }

    /// The place of block `i` in the file, trailer included.
    #[inline]
    pub(super) fn block(&self, i: usize) -> Range<u64> {
        let start = if i == 0 { 0 } else { self.ends.get(i - 1) };
        start..self.ends.get(i)
    }

    /// The first block whose separator is at least `key`; `len()` if `key` is greater than all of them.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> usize {
        let (front, rest) = key.split_at(self.common.len().min(key.len()));
        match front.cmp(&*self.common) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.len(),
            Ordering::Equal => {}
        }
        let head = head_of(rest);
        let first = self.heads.lower_bound(head);
        if first < self.len() && self.heads.at(first) == head {
            self.find_tied(first, head, rest)
        } else {
            first
        }
    }

    /// [`Index::find`] among the separators from `first` on that have this head.
    fn find_tied(&self, first: usize, head: u64, rest: &[u8]) -> usize {
        let (mut low, mut high) = (first, first + 1);
        if high < self.len() && self.heads.at(high) == head {
            high = self.heads.upper_bound(head);
        }
        while low < high {
            let middle = low.midpoint(high);
            if self.compare_tail(middle, rest) == Ordering::Less {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn compare_tail(&self, i: usize, rest: &[u8]) -> Ordering {
        let tail = self.tail(i);
        let len = usize::from(self.head_lens[i]) + tail.len();
        tail.cmp(rest.get(HEAD..).unwrap_or_default()).then(len.cmp(&rest.len()))
    }

    fn tail(&self, i: usize) -> &[u8] {
        let end = self.tail_ends.get(i).map_or(0, |&end| end as usize);
        let start =
            i.checked_sub(1).and_then(|before| self.tail_ends.get(before)).map_or(0, |&at| at as usize);
        &self.tails[start..end]
    }

    /// Whether separator `i` equals `key`: then the key's older versions may be in the next block.
    pub(super) fn separator_is(&self, i: usize, key: &[u8]) -> bool {
        key.strip_prefix(&*self.common).is_some_and(|rest| {
            self.heads.at(i) == head_of(rest) && self.compare_tail(i, rest) == Ordering::Equal
        })
    }

    pub(super) fn separator(&self, i: usize) -> Vec<u8> {
        let head = self.heads.at(i).to_be_bytes();
        [&self.common, &head[..usize::from(self.head_lens[i])], self.tail(i)].concat()
    }

    pub(super) fn memory(&self) -> usize {
        self.common.len()
            + self.heads.memory()
            + self.head_lens.len()
            + size_of_val::<[u32]>(&self.tail_ends)
            + self.tails.len()
            + self.ends.memory()
    }

    /// Reads an index whose blocks fill a file up to `data_end`.
    pub(super) fn decode(payload: &[u8], data_end: u64) -> Result<Self, Flaw> {
        let mut separators = Separators::default();
        let mut ends = Vec::new();
        let mut decoder = Decoder::new(payload);
        let flaw_at =
            |decoder: &Decoder<'_>, expected| Flaw::new(payload.len() - decoder.rest().len(), expected);
        let count = decoder.varint().ok_or_else(|| flaw_at(&decoder, "a count of blocks"))?;
        let mut end = 0_u64;
        for _ in 0..count {
            let entry = separators.read(&mut decoder);
            let len = entry.ok_or_else(|| flaw_at(&decoder, "a separator that does not descend"))?;
            let block_end = end.checked_add(len).filter(|&end| end <= data_end);
            end = match block_end {
                Some(block_end) if len > TRAILER as u64 => block_end,
                _ => return Err(flaw_at(&decoder, "a block inside the table")),
            };
            ends.push(end);
        }
        if end != data_end || !decoder.is_empty() {
            return Err(flaw_at(&decoder, "blocks that fill the table"));
        }
        separators.pack(Offsets::new(ends)).ok_or_else(|| Flaw::new(0, "an index below 4 GiB"))
    }
}

/// The first eight bytes of a key's rest as a number with the same order.
#[inline]
fn head_of(rest: &[u8]) -> u64 {
    u64::from_be_bytes(padded(rest))
}

/// Whole separators, one after another, while an index is decoded.
#[derive(Default)]
struct Separators {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Separators {
    fn get(&self, i: usize) -> &[u8] {
        let start = i.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[i]]
    }

    /// Appends the next separator; returns the length of its block.
    fn read(&mut self, decoder: &mut Decoder<'_>) -> Option<u64> {
        let before = self.ends.len().checked_sub(2).map_or(0, |before| self.ends[before]);
        let last = before..self.bytes.len();
        let shared = usize::try_from(decoder.varint()?).ok().filter(|&shared| shared <= last.len())?;
        let rest = decoder.slice()?;
        if shared + rest.len() > MAX_KEY || rest < &self.bytes[last.start + shared..last.end] {
            return None;
        }
        self.bytes.extend_from_within(last.start..last.start + shared);
        self.bytes.extend_from_slice(rest);
        self.ends.push(self.bytes.len());
        decoder.varint()
    }

    fn pack(self, ends: Offsets) -> Option<Index> {
        let count = self.ends.len();
        let common = match count {
            0 => &[],
            _ => &self.get(0)[..common_len(self.get(0), self.get(count - 1))],
        };
        let rest = |i| &self.get(i)[common.len()..];
        let heads: Vec<u64> = (0..count).map(|i| head_of(rest(i))).collect();
        let mut tails = Vec::new();
        let mut tail_ends = Vec::with_capacity(count);
        for i in 0..count {
            tails.extend_from_slice(rest(i).get(HEAD..).unwrap_or_default());
            tail_ends.push(u32::try_from(tails.len()).ok()?);
        }
        if tails.is_empty() {
            tail_ends = Vec::new();
        }
        Some(Index {
            common: common.into(),
            heads: SearchTree::build(&heads),
            head_lens: (0..count).map(|i| rest(i).len().min(HEAD) as u8).collect(),
            tail_ends: tail_ends.into(),
            tails: tails.into(),
            ends,
        })
    }
}

#[derive(Debug, Default)]
pub(super) struct IndexBuilder {
    entries: Vec<u8>,
    count: u64,
    last: Vec<u8>,
}

impl IndexBuilder {
    /// Adds a block that ends with `last_key` and takes `stored_len` bytes; `next_key` begins the next block.
    pub(super) fn add(&mut self, last_key: &[u8], next_key: Option<&[u8]>, stored_len: u64) {
        let separator = next_key.map_or_else(|| last_key.to_vec(), |next| shortest_between(last_key, next));
        let shared = common_len(&self.last, &separator);
        put_varint(&mut self.entries, shared as u64);
        put_varint(&mut self.entries, (separator.len() - shared) as u64);
        self.entries.extend_from_slice(&separator[shared..]);
        put_varint(&mut self.entries, stored_len);
        self.last = separator;
        self.count += 1;
    }

    pub(super) fn size(&self) -> usize {
        self.entries.len() + 16
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn finish(&self, out: &mut Vec<u8>) {
        put_varint(out, self.count);
        out.extend_from_slice(&self.entries);
    }
}

/// The shortest key that is at least `low` and less than `high`; `low` itself if the two are equal.
fn shortest_between(low: &[u8], high: &[u8]) -> Vec<u8> {
    let common = common_len(low, high);
    if common == low.len() || common == high.len() {
        return low.to_vec();
    }
    if high.len() > common + 1 {
        return high[..=common].to_vec();
    }
    // `high` ends at the differing byte. Therefore that byte of `low` may be raised only to a value below it.
    let raised_at = if low[common] + 1 < high[common] { Some(common) } else { None };
    let raised_at = raised_at.or_else(|| (common + 1..low.len()).find(|&at| low[at] != u8::MAX));
    match raised_at {
        Some(at) if at + 1 < low.len() => [&low[..at], &[low[at] + 1]].concat(),
        _ => low.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_are_short_and_between() {
        let cases: [(&[u8], &[u8], &[u8]); 8] = [
            (b"abcdef", b"abzz", b"abz"),
            (b"abcdef", b"abe", b"abd"),
            (b"abcdef", b"abd", b"abce"),
            (b"ab\xff\xff\x01zz", b"ac", b"ab\xff\xff\x02"),
            (b"ab", b"abc", b"ab"),
            (b"abc", b"abd", b"abc"),
            (b"same", b"same", b"same"),
            (b"a", b"b", b"a"),
        ];
        for (low, high, expected) in cases {
            assert_eq!(shortest_between(low, high), expected, "{low:?} {high:?}");
        }
    }

    #[test]
    fn every_separator_finds_its_block() {
        let mut keys: Vec<Vec<u8>> = (0..2000_u32)
            .map(|i| match i % 4 {
                0 => format!("common/{:05}", i / 7).into_bytes(),
                1 => format!("common/{:05}/a longer tail {i}", i / 7).into_bytes(),
                2 => [format!("common/{:05}", i / 7).as_bytes(), &[0; 3]].concat(),
                _ => format!("common/x{}", i % 100).into_bytes(),
            })
            .collect();
        keys.sort();
        let mut builder = IndexBuilder::default();
        for key in &keys {
            builder.add(key, None, 100);
        }
        let mut payload = Vec::new();
        builder.finish(&mut payload);
        let index = Index::decode(&payload, keys.len() as u64 * 100).expect("what was encoded");
        for (i, key) in keys.iter().enumerate() {
            assert_eq!(index.separator(i), *key);
            assert!(index.separator_is(i, key));
            for probe in [key.clone(), [key, &b"\0"[..]].concat(), key[..key.len() - 1].to_vec()] {
                assert_eq!(index.find(&probe), keys.partition_point(|k| *k < probe), "{probe:?}");
            }
        }
        for len in 0..payload.len() {
            assert!(Index::decode(&payload[..len], keys.len() as u64 * 100).is_err());
        }
    }
}
