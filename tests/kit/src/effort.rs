//! How much a test does that draws at random or has a long list of cases, and from which seed. Every such test asks here.
//!
//! - `ESKER_EFFORT`: `full` (the default: the test's own amount, from its own seed), `quick` (a fifth of it, from a new seed
//!   in each run, so that many quick runs see more than one full run), or `hours` (fifty times as much, from a new seed).
//! - `ESKER_SEED`: the seed of the first case; later cases count up from it. A failure prints its own.
//! - `ESKER_CASES`: how much to do, in the unit of the test (operations or cases), whatever the effort.
//!
//! What a test requires of its own coverage it requires in a full run alone ([`is_full_run`]).

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq)]
enum Effort {
    Quick,
    Full,
    Hours,
}

fn effort() -> Effort {
    match std::env::var("ESKER_EFFORT").as_deref() {
        Err(_) | Ok("" | "full") => Effort::Full,
        Ok("quick") => Effort::Quick,
        Ok("hours") => Effort::Hours,
        Ok(other) => panic!("ESKER_EFFORT must be quick, full or hours, not {other:?}"),
    }
}

/// The number in an environment variable.
pub fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let parsed = text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16));
    Some(parsed.unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}")))
}

/// A seed that is new in each process and short enough to be typed.
fn new_seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| 1_000_000 + RandomState::new().hash_one(std::process::id()) % 1_000_000_000)
}

/// The seed of the first case: `full`, at full effort. It is printed, and a test that fails shows what it has printed.
pub fn seed(full: u64) -> u64 {
    let drawn = || if effort() == Effort::Full { full } else { new_seed() };
    let seed = variable("ESKER_SEED").unwrap_or_else(drawn);
    // At another effort the same seed may draw something else.
    println!("{}ESKER_SEED={seed}", if is_quick() { "ESKER_EFFORT=quick " } else { "" });
    seed
}

/// `full`, or the share of it that the effort asks for.
fn scaled(full: u64) -> u64 {
    match effort() {
        Effort::Quick => full.div_ceil(5),
        Effort::Full => full,
        Effort::Hours => full.saturating_mul(50),
    }
}

/// How much to do: `full`, at full effort.
pub fn cases(full: u64) -> u64 {
    variable("ESKER_CASES").unwrap_or_else(|| scaled(full))
}

/// The seeds to run: as many as [`cases`] says, from [`seed`] on; of a test whose seed is named without a number of cases,
/// that one. At full effort they count up from 0.
pub fn seeds(full: u64) -> std::ops::Range<u64> {
    let cases = variable("ESKER_CASES")
        .unwrap_or_else(|| if variable("ESKER_SEED").is_some() { 1 } else { scaled(full) });
    let first = seed(0);
    first..first + cases
}

/// The points at which a test makes something happen: all of them, or at quick effort every fifth, from one that the seed chooses.
pub fn places() -> impl Iterator<Item = u64> {
    let step = if is_quick() { 5 } else { 1 };
    (seed(0) % step..).step_by(step as usize)
}

/// The members of a list that a test goes through: all of them, or at quick effort every fifth and at least one, from one that the
/// seed chooses.
pub fn some_of<I: IntoIterator<IntoIter: ExactSizeIterator>>(all: I) -> impl Iterator<Item = I::Item> {
    let all = all.into_iter();
    let step = if is_quick() { 5.min(all.len()).max(1) } else { 1 };
    all.skip(seed(0) as usize % step).step_by(step)
}

/// How long a test goes on that does what it can in a time: `ESKER_SOAK_SECONDS`, or `full` at full effort.
pub fn duration(full: Duration) -> Duration {
    let scaled = || scaled(full.as_millis() as u64);
    Duration::from_millis(variable("ESKER_SOAK_SECONDS").map_or_else(scaled, |seconds| seconds * 1000))
}

/// Whether to do less where [`cases`] does not say how much. `ESKER_SEED` does not change the answer.
pub fn is_quick() -> bool {
    effort() == Effort::Quick
}

/// Whether the run is the one that counts: no variable makes it shorter.
pub fn is_full_run() -> bool {
    !is_quick() && variable("ESKER_SEED").is_none() && variable("ESKER_CASES").is_none()
}
