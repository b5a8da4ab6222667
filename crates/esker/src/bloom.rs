//! Which bits the Bloom filters set for a key.
//!
//! A filter is an array of blocks, and all bits of a key lie in one of them. Therefore a lookup touches one cache line.
//! The upper half of a key's hash chooses the block, the lower half the bits. A block is a [`Line`].
//!
//! ```text
//! hash   [ 63 .. 32: block ] [ 31 .. 29: word | 28 .. 23: bit | 22 .. 0: further probes ]
//! ```
//! Tables keep their filters on disk. Therefore these functions never change.

pub(crate) const LINE_BITS: u64 = 512;

/// A cache line of 64-bit words.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
pub(crate) struct Line<W>(pub(crate) [W; 8]);

/// The block of the key with this hash, among `count` blocks. `count` fits in 32 bits.
#[inline]
pub(crate) fn block_of(hash: u64, count: usize) -> usize {
    (((hash >> 32) * count as u64) >> 32) as usize
}

/// The bits of the key with this hash in its line: the word and the mask of each. Some of them may coincide.
#[inline]
pub(crate) fn line_bits(hash: u64, probes: u32) -> impl Iterator<Item = (usize, u64)> {
    let mut walk = hash as u32;
    (0..probes).map(move |_| {
        let bit = ((walk >> 29) as usize, 1 << (walk >> 23 & 63));
        // Each probe uses the upper nine bits; the multiplication renews them.
        walk = walk.wrapping_mul(0x9e37_79b9);
        bit
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::hash_key;

    #[test]
    fn the_bits_in_files_never_change() {
        let hash = 0x8000_0001_0123_4567;
        let bits = |hash| line_bits(hash, 4).map(|(word, mask)| (word, mask.trailing_zeros()));
        assert_eq!((block_of(hash, 1), block_of(hash, 3), block_of(u64::MAX, 1000)), (0, 1, 999));
        assert_eq!(bits(hash).collect::<Vec<_>>(), [(0, 2), (7, 50), (6, 22), (0, 1)]);
    }

    #[test]
    fn keys_use_all_blocks_and_all_bits_of_a_line_alike() {
        let (keys, mut blocks, mut bits) = (100_000, [0; 10], [0; LINE_BITS as usize]);
        for hash in (0..keys).map(|i: u32| hash_key(&i.to_be_bytes())) {
            blocks[block_of(hash, 10)] += 1;
            line_bits(hash, 6).for_each(|(word, mask)| bits[word * 64 + mask.trailing_zeros() as usize] += 1);
        }
        assert!(blocks.iter().all(|n| (9_500..10_500).contains(n)), "{blocks:?}");
        assert!(bits.iter().all(|n| (900..1_450).contains(n)), "{bits:?}");
    }
}
