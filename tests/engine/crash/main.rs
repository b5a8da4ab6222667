//! Crashes: whatever is lost, the store is the state behind some prefix of what was done to it, at least
//! up to what was promised (`docs/guarantees.md`).
//!
//! A run is reproduced by its seed: `ESKER_SEED=17 cargo test --test crash`. `ESKER_CASES` sets how many
//! lives are lived; each goes through several power cuts.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use engine_tests as common;

mod compaction_rules;
mod counts;
mod damage;
mod faults;
mod groups;
mod history;
mod life;
mod region;
mod rules;
mod volatile;
mod world;

use counts::Counts;
use life::{Life, Outcome};

/// Power cuts per life.
const CRASHES: u64 = 8;

fn live(mut life: Life) -> (Counts, Outcome<()>) {
    let outcome = (|| {
        life.recover(&mut true)?;
        while life.counts.crashes < CRASHES {
            let most = 5 * life.knobs.steps;
            let after = life.rng.below(most);
            life.work(Some(after))?;
            life.perish_and_recover()?;
        }
        Ok(())
    })();
    (life.counts, outcome)
}

#[test]
fn ten_thousand_crashes_leave_a_prefix() {
    let mut counts = Counts::default();
    for seed in common::seeds(10_000 / CRASHES) {
        let (lived, outcome) = live(Life::new(seed));
        counts.add(&lived);
        if let Err(what) = outcome {
            panic!("after {} crashes, in the life with ESKER_SEED={seed}: {what}", counts.crashes);
        }
    }
    println!("{counts:?}");
    if common::is_full_run() {
        assert!(counts.crashes >= 10_000);
        let seen = [
            counts.kills,
            counts.crashes_in_recovery,
            counts.events_lost,
            counts.torn_tails,
            counts.rotated,
            counts.recycled,
            counts.merges,
            counts.checkpoints_opened,
            counts.read_only_openings,
            counts.checks,
        ];
        assert!(seen.iter().all(|&count| count >= 100), "the test has lost its teeth: {counts:?}");
    }
}

#[test]
fn writes_longer_than_a_segment_survive_crashes() {
    // 395: the name of a blob file that an opening had removed came back with the bytes of another file. 415: that of
    // one that the manifest had forgotten.
    for seed in common::seeds(80).chain([395, 415]) {
        let (_, outcome) = live(Life::of(seed, world::Knobs::huge));
        if let Err(what) = outcome {
            panic!("in the life with ESKER_SEED={seed}: {what}");
        }
    }
}
