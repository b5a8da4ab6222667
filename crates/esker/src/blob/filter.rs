//! A filter of the keys that may ever have held a blob. Each write checks it, so that only such keys are looked up for
//! an old blob (rule 12).
//!
//! It is a Bloom filter that grows: layers of 64-byte lines, each layer twice as large as the one before. A key sets
//! and tests six bits of one line per layer. At 16 bits per key, fewer than one other key in a hundred is a false
//! positive. False negatives do not occur. Nothing is ever removed; keys of freed blobs disappear when the store is
//! opened again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;

use crate::bloom::{LINE_BITS, Line, block_of, line_bits};

const BITS_PER_KEY: usize = 16;
const PROBES: u32 = 6;
const FIRST_KEYS: usize = 4096;

#[derive(Debug)]
struct Layer {
    lines: Box<[Line<AtomicU64>]>,
    keys_max: usize,
    keys: AtomicUsize,
}

impl Layer {
    fn new(keys_max: usize) -> Arc<Layer> {
        let lines = (keys_max * BITS_PER_KEY).div_ceil(LINE_BITS as usize);
        let lines = (0..lines).map(|_| Line::default()).collect();
        Arc::new(Layer { lines, keys_max, keys: AtomicUsize::new(0) })
    }

    /// The words with a bit of `hash`, and the masks of these bits.
    fn probes(&self, hash: u64) -> impl Iterator<Item = (&AtomicU64, u64)> {
        let line = &self.lines[block_of(hash, self.lines.len())].0;
        line_bits(hash, PROBES).map(|(word, mask)| (&line[word], mask))
    }
}

/// See the module's comment. Any number of threads may add and test keys at the same time: words only gain bits.
#[derive(Debug, Default)]
pub(crate) struct KeyFilter {
    /// Oldest and smallest first.
    layers: ArcSwap<Vec<Arc<Layer>>>,
    additions: AtomicU64,
}

impl KeyFilter {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.layers.load().is_empty()
    }

    /// Changes with every key that is added. A caller that finds it unchanged need not check its keys again.
    #[inline]
    pub(crate) fn additions(&self) -> u64 {
        self.additions.load(Ordering::Acquire)
    }

    /// Adds `hash`: from now on [`KeyFilter::may_contain`] returns `true` for it.
    pub(crate) fn add(&self, hash: u64) {
        if self.may_contain(hash) {
            return;
        }
        let mut layers = self.layers.load_full();
        while layers.last().is_none_or(|last| last.keys.load(Ordering::Relaxed) >= last.keys_max) {
            let keys_max = layers.last().map_or(FIRST_KEYS, |last| last.keys_max * 2);
            let mut grown = Vec::clone(&layers);
            grown.push(Layer::new(keys_max));
            // If two threads add a layer, the second one uses the first one's.
            self.layers.compare_and_swap(&layers, Arc::new(grown));
            layers = self.layers.load_full();
        }
        if let Some(last) = layers.last() {
            for (word, mask) in last.probes(hash) {
                word.fetch_or(mask, Ordering::Relaxed);
            }
            last.keys.fetch_add(1, Ordering::Relaxed);
            self.additions.fetch_add(1, Ordering::Release);
        }
    }

    /// Whether `hash` was added, or shares its bits with others that were. A thread that has seen the value that a key
    /// was added for gets `true`.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        let layers = self.layers.load();
        let mut layers = layers.iter();
        layers.any(|layer| layer.probes(hash).all(|(word, mask)| word.load(Ordering::Relaxed) & mask != 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::key_hash;

    #[test]
    fn what_was_added_is_found_and_few_others() {
        let filter = KeyFilter::default();
        assert!(filter.is_empty() && !filter.may_contain(7));
        let hash = |number: u32| key_hash(3, &number.to_be_bytes());
        for number in 0..100_000 {
            filter.add(hash(number));
        }
        assert!((0..100_000).all(|number| filter.may_contain(hash(number))));
        let wrong = (100_000..200_000).filter(|&number| filter.may_contain(hash(number))).count();
        assert!(wrong < 5_000, "{wrong} of 100,000 keys that were never added are let through");
    }
}
