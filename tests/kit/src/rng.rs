//! Random choices that a seed reproduces (splitmix64), and the environment variables that choose seeds.
//!
//! - `ESKER_SEED`: the seed of the first case; later cases count up from it. A failure prints its own.
//! - `ESKER_CASES`: how much to do, in the unit of the test (operations or cases).

/// A stream of random choices. It is the generator that the engine has for its simulated disk.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    #[allow(clippy::should_implement_trait, reason = "a stream without an end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
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

    /// True in `percent` of 100 cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).collect();
        bytes.truncate(len);
        bytes
    }
}

pub fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let parsed = text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16));
    Some(parsed.unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}")))
}

/// The seed of the first case.
pub fn seed(default: u64) -> u64 {
    variable("ESKER_SEED").unwrap_or(default)
}

/// How much to do.
pub fn cases(default: u64) -> u64 {
    variable("ESKER_CASES").unwrap_or(default)
}

/// The seeds to run: `cases` of them or as many as ESKER_CASES says, from ESKER_SEED on; of a test whose
/// seed is named without a number of cases, that one.
pub fn seeds(cases: u64) -> std::ops::Range<u64> {
    let first = variable("ESKER_SEED");
    let cases = variable("ESKER_CASES").unwrap_or(if first.is_some() { 1 } else { cases });
    let first = first.unwrap_or(0);
    first..first + cases
}

/// Whether the run is the one that counts: no variable makes it shorter.
pub fn is_full_run() -> bool {
    variable("ESKER_SEED").is_none() && variable("ESKER_CASES").is_none()
}
