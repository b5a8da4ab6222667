//! The commands against a real Redis 7.0: random commands from a seed go to both, and replies, events and states must be
//! the same.
//!
//! ```text
//! forms --Generator--> commands --Pair--> Redis, Memory: differences --shrink--> a short list of commands
//! ```
//! `ESKER_CASES` is the number of commands. `ESKER_SEED` is the seed of the first [`EPOCH`] of them; the seeds of later ones
//! count up from it. A difference tells the seed that repeats it with one epoch.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test that cannot go on should stop; Redis has a clock and files of its own"
)]

mod compare;
mod deliberate;
mod forms;
mod generator;
mod pair;
mod redis;
mod shrink;

use std::collections::BTreeSet;
use std::io::Write;

use compare::Difference;
use generator::{GRID_S, Generator};
use pair::{Pair, Step, written};
use redis::Server;
use shrink::{count_elements, report, sign};

/// So many commands, then both sides begin anew.
const EPOCH: u64 = 1500;
/// So many commands, then states are compared.
const LOOK: usize = 250;
/// A run ends after so many differences.
const MOST_DIFFERENCES: usize = 8;

fn skip(test: &str, why: &str) {
    println!("skipped {test}: {why}");
    if let Some(path) = std::env::var_os("ESKER_SKIPPED") {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(file, "{test}: {why}").unwrap();
    }
}

#[test]
fn commands_do_what_they_do_in_redis() {
    let server = match Server::start("7.0") {
        Ok(server) => server,
        Err(why) => return skip("commands_do_what_they_do_in_redis", &why),
    };
    let (seed, commands) = (test_kit::seed(1), test_kit::cases(20_000));
    let mut pair = Pair::new(&server);
    every_command_has_a_form(&mut pair);
    let mut told = BTreeSet::new();
    for seed in seed..seed + commands.div_ceil(EPOCH) {
        let mut generator = Generator::new(seed);
        if let Some((steps, keys, difference)) = epoch(&mut pair, &mut generator)
            && told.insert(sign(&steps, &difference))
        {
            report(&mut pair, seed, &steps, &keys, &difference);
        }
        if told.len() == MOST_DIFFERENCES {
            break;
        }
    }
    assert!(told.is_empty(), "{} differences from Redis", told.len());
    if commands >= 20_000 {
        let fails = |replies: &[u64; 2]| replies[0] == 0;
        let failing: Vec<&String> =
            pair.replies.iter().filter(|(_, replies)| fails(replies)).map(|(name, _)| name).collect();
        assert!(failing.is_empty(), "only errors in {commands} commands: {failing:?}");
        assert!(pair.elements_max > 0, "no large collections in {commands} commands");
    }
}

/// All commands that Redis has too are tested here, and tell the same of themselves.
fn every_command_has_a_form(pair: &mut Pair) {
    let names: BTreeSet<String> = Generator::names().collect();
    for spec in esker_redis::specs().filter(|spec| !spec.is_of_server()) {
        let Some((arity, writes)) = pair.spec(spec.name) else { continue };
        assert!(names.contains(spec.name), "{} has no form", spec.name);
        let own = (i64::from(spec.arity), spec.flags.writes);
        assert_eq!(own, (arity, writes), "arity of {}, and whether it writes", spec.name);
    }
    let unknown: Vec<&String> =
        names.iter().filter(|name| esker_redis::spec(name.as_bytes()).is_none()).collect();
    assert!(unknown.is_empty(), "forms of unknown commands: {unknown:?}");
}

type Found = (Vec<Step>, Vec<Vec<u8>>, Difference);

/// Does so many commands on both sides, beginning with nothing. Returns what was done up to the first difference, and the
/// keys that it may be about.
fn epoch(pair: &mut Pair, generator: &mut Generator) -> Option<Found> {
    pair.reset();
    let mut steps = Vec::new();
    // Elements of collections that have expired stay until the server sweeps: what is left is counted without them.
    let may_advance = generator.rng.percent(50);
    for at in 1..=EPOCH as usize {
        let resp3 = generator.rng.percent(50);
        let step = match generator.rng.index(400) {
            0 => Step::Select(generator.rng.index(3) as u16),
            1 if may_advance => Step::Advance(generator.rng.between_i64(1, 4) * GRID_S),
            2..20 => Step::Transaction(true),
            20..50 => Step::Transaction(false),
            _ => {
                let reads = generator.rng.percent(30).then(|| generator.rng.between_i64(0, 12) as u64);
                Step::Command { args: generator.command(), resp3, reads }
            }
        };
        steps.push(step);
        if let Err(difference) = pair.step(&steps[at - 1]) {
            let keys =
                if let Step::Command { args, .. } = &steps[at - 1] { written(&args[1..], 0) } else { vec![] };
            return Some((steps, keys, difference));
        }
        generator.ahead_s = pair.ahead_s;
        if at % LOOK == 0
            && let Err((key, difference)) = pair.compare_all()
        {
            return Some((steps, vec![key], difference));
        }
    }
    if may_advance {
        return None;
    }
    count_elements(pair).map(|difference| (steps, Vec::new(), difference))
}
