//! Everything at once, on real threads and real files, with kills and power cuts: four writers, an administrator, a watcher
//! of snapshots and a follower of the log in one process, which dies; what it leaves is judged, and the next one goes on.
//!
//! ```text
//! parent  spawn ---- wait for the k-th acknowledgement ---- kill ---- check, open for reading, judge ---- spawn ...
//! child        open, judge, work ........................ x
//!              |                                          (power cuts: the file system's image is cloned meanwhile)
//!              4 writers: batches over trees, transfers, compare-and-swap, merges, ranges, expiry, streams, renames
//!              administrator: flush, compact, split, ingest, export, import, checkpoint, backup, settings, scrub
//!              watcher: judges the whole store at snapshots; follower: reads the log behind the writers
//! ```
//!
//! What a store may hold is said in `plan` (what the writers do) and `judge` (what must come of it); what was acknowledged is
//! noted on a `board` beside the store. The threads' timing differs from run to run: a seed repeats what is done, not when.
//! A failure therefore keeps the store, or the image of its file system, and everything that is known of it.
//!
//! - `ESKER_SEED`: of the first history. `ESKER_SOAK_SECONDS`: how long each test goes on.
//! - `ESKER_SOAK_DIR`: where stores and images lie. `ESKER_SOAK_KEPT`: a kept history to judge again.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of real files and processes"
)]

mod admin;
mod board;
mod child;
mod cuts;
mod disk;
mod history;
mod judge;
mod kill;
mod kills;
mod plan;
mod store;
mod writer;

use std::path::{Path, PathBuf};

use history::History;
use judge::Bounds;

/// Each test goes on for so many seconds.
const SECONDS: u64 = 20;

#[test]
fn the_process_that_dies() {
    if let Ok(order) = std::env::var(child::CHILD) {
        child::run(&order);
    }
}

#[test]
fn kills_amid_everything() {
    if std::env::var_os(child::CHILD).is_none() {
        kills::run(SECONDS);
    }
}

#[test]
fn power_cuts_amid_everything() {
    if std::env::var_os(child::CHILD).is_none() {
        disk::with_own_mounts("power_cuts_amid_everything", |disk| cuts::run(disk, SECONDS));
    }
}

#[test]
fn a_kept_history_is_judged_again() {
    let Some(notes) = std::env::var_os("ESKER_SOAK_KEPT").map(PathBuf::from) else { return };
    let base = std::env::var_os("ESKER_SOAK_BASE").map_or_else(|| notes.join("disk"), PathBuf::from);
    let mut history = History::kept(&notes, base).expect("a kept history");
    let store = history.places.store();
    judge_again(&mut history, &store).unwrap();
}

fn judge_again(history: &mut History, store: &Path) -> judge::Outcome<()> {
    let reading = history.board();
    history.check(store)?;
    history.judge(store, &Bounds::new(judge::End::Power, &reading, &reading), true)
}
