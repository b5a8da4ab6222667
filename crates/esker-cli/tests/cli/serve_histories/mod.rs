//! Histories of concurrent clients of a server that is killed amid them and started again: each command, and each
//! transaction, takes effect at one instant between its call and its reply, and what was acknowledged stays.
//!
//! `ESKER_SEED` chooses the commands, `ESKER_HISTORIES` says how many histories there are, and `ESKER_HISTORIES_OUT` names
//! a file that gets all of them, for another checker (`scripts/proof server`).

mod check;
mod clients;
mod model;

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use check::{Operation, Verdict, check};
use clients::{Clerk, History, OPERATIONS, Servers};

use crate::serve::{Serving, serve};
use crate::support::Rng;

/// So many clients share their keys. The search for an order takes longer the more there are, and much longer the more
/// replies a kill has swallowed.
const GROUP: usize = 10;
const GROUP_THAT_IS_KILLED: usize = 5;

/// A line for each operation, as `tools/linearizability` reads it.
fn lines(history: u64, group: usize, operations: &[Operation]) -> String {
    let mut text = String::new();
    for operation in operations {
        let line = serde_json::json!({
            "h": history * 100 + group as u64,
            "t": operation.called,
            // Numbers of JSON are doubles for some; an operation that never ends has none.
            "end": (operation.ended != u64::MAX).then_some(operation.ended),
            "c": operation.commands,
            "r": operation.replies,
        });
        text += &format!("{line}\n");
    }
    text
}

/// Runs a history: so many clients, whose server is killed so many times meanwhile. Returns the operations of each group.
fn record(
    serving: &mut Serving,
    servers: &Servers,
    clock: Instant,
    history: u64,
    (clients, kills): (usize, u64),
    rng: &mut Rng,
    restart: &dyn Fn() -> Serving,
) -> Vec<Vec<Operation>> {
    let answered = AtomicUsize::new(0);
    let size = if kills == 0 { GROUP } else { GROUP_THAT_IS_KILLED };
    let groups: Vec<History> = (0..clients.div_ceil(size))
        .map(|group| History { servers, clock, prefix: format!("{history}.{group}"), answered: &answered })
        .collect();
    let records: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..clients)
            .map(|id| {
                let clerk = Clerk::new(&groups[id / size], id, Rng::new(rng.next()));
                scope.spawn(move || clerk.run())
            })
            .collect();
        for kill in 1..=kills {
            // At any place of its part of the history.
            let part = (clients * OPERATIONS / (kills as usize + 1)).max(1);
            let after = (kill as usize - 1) * part + rng.index(part);
            while answered.load(Ordering::Relaxed) < after
                && running.iter().any(|client| !client.is_finished())
            {
                test_kit::pause();
            }
            serving.kill();
            servers.note_death(clock.elapsed().as_nanos() as u64);
            *serving = restart();
            servers.add(&serving.addresses);
        }
        running.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let mut operations: Vec<Vec<Operation>> = groups.iter().map(|_| Vec::new()).collect();
    for (id, record) in records.into_iter().enumerate() {
        operations[id / size].extend(record.into_operations(servers));
    }
    operations
}

#[test]
fn histories_are_linearizable_through_kills() {
    let seed = test_kit::seed(17);
    let histories = test_kit::variable("ESKER_HISTORIES").unwrap_or_else(|| test_kit::cases(20));
    let dir = tempfile::tempdir().unwrap();
    let mut out = std::env::var_os("ESKER_HISTORIES_OUT").map(|path| File::create(path).unwrap());
    let restart = || serve(dir.path(), "");
    let (mut rng, servers, clock) = (Rng::new(seed), Servers::default(), Instant::now());
    let mut serving = restart();
    servers.add(&serving.addresses);
    let (mut killed, mut done, mut lost) = (0, 0, 0);
    for history in 0..histories {
        let clients = [2, 4, 6, 10, 20, 100][if rng.below(8) == 0 { 5 } else { rng.index(5) }];
        let kills = [0, 0, 1, 1, 1, 2][rng.index(6)];
        killed += kills;
        let groups = record(&mut serving, &servers, clock, history, (clients, kills), &mut rng, &restart);
        for (group, operations) in groups.iter().enumerate() {
            done += operations.len();
            lost += operations.iter().filter(|operation| operation.replies.is_none()).count();
            if let Some(out) = &mut out {
                out.write_all(lines(history, group, operations).as_bytes()).unwrap();
            }
            let verdict = check(operations);
            if verdict != Verdict::Linearizable {
                let kept = std::env::temp_dir().join(format!("esker-history-{seed}-{history}-{group}"));
                std::fs::write(&kept, lines(history, group, operations)).unwrap();
                panic!(
                    "ESKER_SEED={seed}: history {history} of {clients} clients: {verdict:?}: {}",
                    kept.display()
                );
            }
        }
    }
    let in_pool = serving.client().figure("commands_in_pool");
    println!(
        "{histories} histories, {done} operations, {lost} without a reply, {killed} kills, {in_pool} last in the pool"
    );
    assert!(killed == 0 || lost > 0, "no kill has met anybody");
}
