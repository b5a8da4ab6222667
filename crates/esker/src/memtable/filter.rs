//! Knows which keys a memtable may hold, so that a get of any other key need not search it.
//!
//! A search of a full memtable costs about ten cache misses, and most gets ask for keys that are elsewhere.
//! Each key sets four bits in one 64-bit word. So an insert or a get touches one cache line; at ten bits a
//! key, about 3 % of absent keys pass. The filter is sized for as many keys as the previous memtable held;
//! more keys make it less selective, never wrong.
//!
//! Relies on: an insert sets the bits before it returns, so a thread that knows of the entry sees them.

use super::node::prefetch;
use crate::bloom::block_of;
use crate::sync::{AtomicU64, Ordering};

/// Below this many entries, a search is as fast as the filter.
const ENTRIES_MIN: usize = 64;

/// With this many keys per word, a key has about ten bits.
const KEYS_PER_WORD: usize = 6;

pub(super) struct KeyFilter {
    words: Box<[AtomicU64]>,
}

impl KeyFilter {
    /// A filter for about `entries` keys; `None` if it is not worth its memory or memory is short.
    pub(super) fn for_entries(entries: usize) -> Option<KeyFilter> {
        if entries < ENTRIES_MIN {
            return None;
        }
        let count = entries / KEYS_PER_WORD;
        let mut words = Vec::new();
        words.try_reserve_exact(count).ok()?;
        words.resize_with(count, || AtomicU64::new(0));
        Some(KeyFilter { words: words.into_boxed_slice() })
    }

    /// Starts adding the key of this hash by prefetching its word.
    #[inline]
    pub(super) fn mark(&self, hash: u64) -> Mark<'_> {
        let word = self.word(hash);
        prefetch(std::ptr::from_ref(word).cast());
        Mark { word, bits: bits(hash) }
    }

    /// Returns `false` only if no key of this hash was added.
    #[inline]
    pub(super) fn may_contain(&self, hash: u64) -> bool {
        let bits = bits(hash);
        self.word(hash).load(Ordering::Relaxed) & bits == bits
    }

    #[inline]
    fn word(&self, hash: u64) -> &AtomicU64 {
        &self.words[block_of(hash, self.words.len())]
    }
}

/// A key that is about to be added to the filter.
pub(super) struct Mark<'a> {
    word: &'a AtomicU64,
    bits: u64,
}

impl Mark<'_> {
    /// Adds the key.
    #[inline]
    pub(super) fn set(self) {
        if self.word.load(Ordering::Relaxed) & self.bits != self.bits {
            self.word.fetch_or(self.bits, Ordering::Relaxed);
        }
    }
}

/// The four bits of a key, chosen by the lower half of its hash; some of them may coincide.
#[inline]
fn bits(hash: u64) -> u64 {
    (0..4).fold(0, |bits, i| bits | 1 << (hash >> (i * 6) & 63))
}

#[cfg(not(esker_shuttle))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::hash_key;

    #[test]
    fn what_was_noted_is_found_and_little_else() {
        let keys = if cfg!(miri) { 1_000 } else { 100_000 };
        let filter = KeyFilter::for_entries(keys as usize).expect("large enough");
        let hash = |i: u32| hash_key(&i.to_be_bytes());
        (0..keys).for_each(|i| filter.mark(hash(i)).set());
        assert!((0..keys).all(|i| filter.may_contain(hash(i))));
        let wrong = (keys..2 * keys).filter(|&i| filter.may_contain(hash(i))).count();
        assert!(wrong < keys as usize / 25, "{wrong} of {keys} absent keys are let through");
    }

    #[test]
    fn a_small_memtable_has_none() {
        assert!(KeyFilter::for_entries(ENTRIES_MIN - 1).is_none());
    }
}
