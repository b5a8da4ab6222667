//! Random choices that a seed reproduces (SplitMix64; Steele, Lea, Flood, 2014): the generator of all tests and tools.

/// What the state of a stream grows by with each draw.
pub const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The draw of a stream in the state `state`: draw `i` of the seed `s` is that of the state `s + i * STEP`.
#[inline]
pub fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(STEP);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A stream of random choices. The engine's simulated disk has the same generator (`rng` there): the engine does not depend on
/// its tests.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    #[allow(clippy::should_implement_trait, reason = "a stream without an end")]
    pub fn next(&mut self) -> u64 {
        let drawn = mix(self.0);
        self.0 = self.0.wrapping_add(STEP);
        drawn
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    /// As [`Rng::below`], for numbers of things in memory.
    pub fn index(&mut self, bound: usize) -> usize {
        self.below(bound as u64) as usize
    }

    /// True with `probability`: never at 0, always at 1.
    pub fn chance(&mut self, probability: f64) -> bool {
        // 53 bits make a uniform f64 in [0, 1).
        ((self.next() >> 11) as f64) < probability * (1u64 << 53) as f64
    }

    /// In `low..=high`.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.index(high - low + 1)
    }

    /// As [`Rng::between`], for numbers that may be negative.
    pub fn between_i64(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as u64) as i64
    }

    /// True in `percent` of 100 cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A copy of one of `choices`.
    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        *self.pick(choices)
    }

    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.index(last + 1);
            items.swap(last, other);
        }
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        for word in bytes.chunks_mut(8) {
            word.copy_from_slice(&self.next().to_le_bytes()[..word.len()]);
        }
        bytes
    }
}
