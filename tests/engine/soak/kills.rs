//! Histories whose lives end by `SIGKILL`, on any file system.

use std::path::PathBuf;

use crate::history::{Budget, Counts, History, Life, OPERATIONS_MIN, side_by_side};
use crate::judge::{Bounds, End, Outcome};
use test_kit::{Rng, seed};

/// Deaths of one history.
const DEATHS: u64 = 20;

/// Histories at a time: while one waits for the disk, another works.
const AT_ONCE: u64 = 2;

/// One life, and the look at what is left of it.
fn live_and_die(history: &mut History, rng: &mut Rng) -> Outcome<()> {
    let mut life = Life::begin(&history.knobs, history.end, &history.places);
    life.started()?;
    if rng.one_in(6) {
        // In opening, or soon after it.
        for _ in 0..rng.below(300_000) {
            std::hint::spin_loop();
        }
        let has_opened = life.kill()?;
        history.counts.kills += 1;
        history.counts.kills_in_opening += u64::from(!has_opened);
        history.ended(End::Kill, has_opened);
    } else {
        let most = if rng.one_in(4) { 1_000 } else { 160 };
        let count = 1 + rng.below(most);
        life.acknowledged(count)?;
        history.operations += count;
        if rng.one_in(12) {
            life.end_in_peace()?;
            history.counts.closed += 1;
            history.ended(End::None, true);
        } else {
            let has_opened = life.kill()?;
            history.counts.kills += 1;
            history.ended(End::Kill, has_opened);
        }
    }
    // Mostly the next child is the first to open what the death has left.
    let store = history.places.store();
    if rng.one_in(4) {
        history.check(&store)?;
    }
    if rng.one_in(4) {
        let reading = history.board();
        let read_only = rng.one_in(2);
        history.judge(&store, &Bounds::new(history.end, &reading, &reading), read_only)?;
    }
    Ok(())
}

fn live_through(seed: u64, dir: PathBuf) -> Outcome<Counts> {
    let mut history = History::new(seed, dir.join("disk"), dir);
    let mut rng = Rng::new(seed ^ 0xdead);
    let mut lives = 0;
    while lives < DEATHS || history.operations < OPERATIONS_MIN {
        live_and_die(&mut history, &mut rng).map_err(|what| history.found(&what))?;
        lives += 1;
    }
    history.count();
    std::fs::remove_dir_all(&history.places.notes).expect("the store can be removed");
    Ok(history.counts)
}

/// Where stores lie that die: on the disk of the build, unless `ESKER_SOAK_DIR` names a directory.
pub(crate) fn ground() -> PathBuf {
    let named = std::env::var_os("ESKER_SOAK_DIR").map(PathBuf::from);
    named.unwrap_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR"))).join("soak")
}

pub(crate) fn run(seconds: u64) {
    let budget = Budget::new(seconds);
    let first = seed(1);
    println!("ESKER_SEED={first}");
    let live = |seed| live_through(seed, ground().join(format!("kills-{}-{seed}", std::process::id())));
    let (sum, outcome) = side_by_side(AT_ONCE, first, &budget, live);
    sum.conclude("kills", outcome).unwrap_or_else(|what| panic!("{what}"));
}
