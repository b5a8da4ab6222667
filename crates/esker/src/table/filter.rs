//! A blocked Bloom filter over key hashes: all bits of a key lie in one cache line.
//!
//! ```text
//! payload: probes u32, lines u32, lines x 64 bytes (u64 little-endian x 8)
//! ```
//! The filter never reports an added key as absent.

use super::Flaw;
use crate::bloom::{LINE_BITS, Line, block_of, line_bits};
use crate::codec::{u32_at, u64_at};

const HEADER: usize = 8;

#[derive(Debug)]
pub(super) struct Filter {
    probes: u32,
    lines: Box<[Line<u64>]>,
}

impl Filter {
    /// A filter of `tenths_of_bits` / 10 bits for each hash.
    pub(super) fn build(hashes: &[u64], tenths_of_bits: u32) -> Self {
        let bits = (hashes.len() as u64).saturating_mul(u64::from(tenths_of_bits)) / 10;
        let count = bits.div_ceil(LINE_BITS).clamp(1, u64::from(u32::MAX));
        let (probes, mut lines) = (probes(tenths_of_bits), vec![Line::default(); count as usize]);
        for &hash in hashes {
            let line: &mut [u64; 8] = &mut lines[block_of(hash, count as usize)].0;
            line_bits(hash, probes).for_each(|(word, mask)| line[word] |= mask);
        }
        Filter { probes, lines: lines.into() }
    }

    /// Returns `false` only if no key of that hash was added.
    #[inline]
    pub(super) fn may_contain(&self, hash: u64) -> bool {
        let line = &self.lines[block_of(hash, self.lines.len())].0;
        let mut missing = 0;
        for (word, mask) in line_bits(hash, self.probes) {
            missing |= !line[word] & mask;
        }
        missing == 0
    }

    pub(super) fn memory(&self) -> usize {
        self.lines.len() * size_of::<Line<u64>>()
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.probes.to_le_bytes());
        out.extend_from_slice(&(self.lines.len() as u32).to_le_bytes());
        for word in self.lines.iter().flat_map(|line| line.0) {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    pub(super) fn decode(payload: &[u8]) -> Result<Self, Flaw> {
        let flaw = Flaw::new(0, "a filter of whole lines");
        let Some(body) = payload.get(HEADER..) else { return Err(flaw) };
        let (probes, count) = (u32_at(payload, 0), u32_at(payload, 4) as usize);
        let (chunks, rest) = body.as_chunks::<64>();
        if !(1..=MAX_PROBES).contains(&probes) || chunks.len() != count || count == 0 || !rest.is_empty() {
            return Err(flaw);
        }
        let lines = chunks.iter().map(|chunk| Line(std::array::from_fn(|i| u64_at(chunk, i * 8))));
        Ok(Filter { probes, lines: lines.collect() })
    }
}

const MAX_PROBES: u32 = 16;

/// The number of bits per key that lets the fewest absent keys pass in a filter whose keys use one line each.
fn probes(tenths_of_bits: u32) -> u32 {
    (tenths_of_bits * 69 / 1000).clamp(1, MAX_PROBES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::hash_key;

    fn hashes(from: u64, count: u64) -> Vec<u64> {
        (from..from + count).map(|i| hash_key(&i.to_be_bytes())).collect()
    }

    #[test]
    fn all_keys_are_found_and_few_others() {
        let added = hashes(0, 100_000);
        let absent = hashes(1 << 40, 200_000);
        for (tenths, limit) in
            [(40, 0.17), (80, 0.034), (100, 0.014), (105, 0.012), (140, 0.004), (200, 0.001)]
        {
            let filter = Filter::build(&added, tenths);
            let mut bytes = Vec::new();
            filter.encode(&mut bytes);
            let decoded = Filter::decode(&bytes).expect("what was encoded");
            assert!(added.iter().all(|&hash| decoded.may_contain(hash)));
            let hits = absent.iter().filter(|&&hash| decoded.may_contain(hash)).count();
            let rate = hits as f64 / absent.len() as f64;
            println!("{:.1} bits: {:.3} % false positives", f64::from(tenths) / 10.0, rate * 100.0);
            assert!(rate < limit, "{tenths}: {rate}");
        }
    }

    #[test]
    fn damaged_filters_are_refused() {
        let mut bytes = Vec::new();
        Filter::build(&hashes(0, 1000), 100).encode(&mut bytes);
        for len in 0..bytes.len() {
            assert!(Filter::decode(&bytes[..len]).is_err(), "{len}");
        }
        bytes[0] = 0;
        assert!(Filter::decode(&bytes).is_err());
    }
}
