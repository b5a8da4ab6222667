//! SplitMix64: random choices that a seed repeats, for the simulated disk and for tests. Do not use it for secret
//! numbers or for a store's own numbers: those come from `env::Random`.

/// A stream of random choices.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Rng(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    /// True with `probability`: never at 0, always at 1.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        // 53 bits make a uniform f64 in [0, 1).
        ((self.next() >> 11) as f64) < probability * (1u64 << 53) as f64
    }

    /// As [`Rng::below`], for numbers of things in memory.
    #[cfg(test)]
    pub(crate) fn index(&mut self, bound: usize) -> usize {
        self.below(bound as u64) as usize
    }
}
