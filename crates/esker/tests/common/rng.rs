//! Random choices that a seed reproduces (splitmix64), and the environment variables that choose seeds.
//!
//! - `ESKER_SEED`: the seed of the first case; later cases count up from it. A failure prints its own.
//! - `ESKER_CASES`: how much to do, in the unit of the test (operations or cases).

#![allow(dead_code, reason = "each test uses its share")]

#[path = "../../src/rng.rs"]
mod base;

pub(crate) use base::Rng;

impl Rng {
    /// In `low..=high`.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.index(high - low + 1)
    }

    /// True in `percent` of 100 cases.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).collect();
        bytes.truncate(len);
        bytes
    }
}

pub(crate) fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let parsed = text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16));
    Some(parsed.unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}")))
}

/// The seed of the first case.
pub(crate) fn seed(default: u64) -> u64 {
    variable("ESKER_SEED").unwrap_or(default)
}

/// How much to do.
pub(crate) fn cases(default: u64) -> u64 {
    variable("ESKER_CASES").unwrap_or(default)
}

/// The seeds to run: `cases` of them or as many as ESKER_CASES says, from ESKER_SEED on; of a test whose
/// seed is named without a number of cases, that one.
pub(crate) fn seeds(cases: u64) -> std::ops::Range<u64> {
    let first = variable("ESKER_SEED");
    let cases = variable("ESKER_CASES").unwrap_or(if first.is_some() { 1 } else { cases });
    let first = first.unwrap_or(0);
    first..first + cases
}

/// Whether the run is the one that counts: no variable makes it shorter.
pub(crate) fn is_full_run() -> bool {
    variable("ESKER_SEED").is_none() && variable("ESKER_CASES").is_none()
}
