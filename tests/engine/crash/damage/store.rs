//! A store at rest with something of everything in it, and what must be found in it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use esker::env::JobKind;
use esker::fs::sim::SimFs;
use esker::{Batch, Compression, Db, Durability, Options, TreeOptions};

use crate::common::Rng;
use crate::history::{Bytes, Pairs, State};
use crate::world::env;

pub(crate) const STORE: &str = "/db";

/// Every value that a key of a tree ever had.
pub(crate) type Ever = BTreeMap<(String, Vec<u8>), BTreeSet<Vec<u8>>>;

thread_local! {
    /// Of the store that this thread has built last.
    static EVER: RefCell<Ever> = const { RefCell::new(Ever::new()) };
}

fn note(tree: &str, key: &str, value: &[u8]) {
    EVER.with_borrow_mut(|ever| {
        ever.entry((tree.to_owned(), key.as_bytes().to_vec())).or_default().insert(value.to_vec())
    });
}

/// What was written into the store that was built last, by this thread.
pub(crate) fn ever_written() -> Ever {
    EVER.with_borrow(Clone::clone)
}

/// How the last process left the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// Closed; the machine still runs.
    Closed,
    /// Closed, and the machine was started anew.
    Rebooted,
    /// Killed, the last write at `Process`; the machine still runs.
    Killed,
}

pub(crate) const EVERY_WAY: [Left; 3] = [Left::Closed, Left::Rebooted, Left::Killed];

pub(crate) fn options(disk: &SimFs) -> Options {
    let mut options = Options::default().memory_budget(8 << 20).env(env(disk, 9));
    options.memtable_bytes = Some(24 << 10);
    options.table_bytes = 16 << 10;
    options.block_bytes = 1 << 10;
    options.separate_at = 500;
    options
}

/// Trees of both kinds of tables, in several levels, overwritten and deleted keys, and a log with records
/// that are in no table.
pub(crate) fn build(seed: u64, left: Left) -> (SimFs, State) {
    EVER.with_borrow_mut(Ever::clear);
    let mut rng = Rng::new(seed);
    let disk = SimFs::new(rng.next());
    let mut state = State::new();
    let db = Db::open(STORE, options(&disk)).unwrap();
    db.create_tree("packed", TreeOptions::default().compression(Compression::Lz4)).unwrap();
    for name in ["small", "empty"] {
        db.tree(name).unwrap();
    }
    for name in db.tree_names() {
        state.insert(name, Pairs::new());
    }
    let mut number = 0;
    for round in 0..4 {
        for _ in 0..120 {
            write(&db, &mut state, &mut rng, &mut number);
        }
        if round < 3 {
            while db.step(JobKind::Log) || db.step(JobKind::Flush) {}
            while db.step(JobKind::Compact) {}
        }
    }
    put(&db, &mut state, "default", "last", b"at Process", Durability::Process);
    if left == Left::Killed {
        return (disk.kill(), state);
    }
    db.close().unwrap();
    drop(db);
    (if left == Left::Rebooted { disk.crash_keeping(1.0, 1) } else { disk.kill() }, state)
}

fn put(db: &Db, state: &mut State, tree: &str, key: &str, value: &[u8], durability: Durability) {
    db.open_tree(tree).unwrap().unwrap().put_with(key, value, durability).unwrap();
    note(tree, key, value);
    state.get_mut(tree).unwrap().insert(key.as_bytes().into(), value.into());
}

fn write(db: &Db, state: &mut State, rng: &mut Rng, number: &mut u64) {
    *number += 1;
    let tree = *rng.pick(&["default", "default", "packed", "packed", "small"]);
    let key = format!("key{:04}", rng.below(if tree == "small" { 5 } else { 150 }));
    let durability = if rng.one_in(8) { Durability::Power } else { Durability::Process };
    if rng.one_in(5) {
        let mut batch = Batch::new();
        let handle = db.open_tree(tree).unwrap().unwrap();
        batch.delete(&handle, &key).unwrap();
        batch.put(db.default_tree(), "batches", number.to_le_bytes()).unwrap();
        db.write_with(&batch, durability).unwrap();
        note("default", "batches", &number.to_le_bytes());
        state.get_mut(tree).unwrap().remove(key.as_bytes());
        state.get_mut("default").unwrap().insert(Bytes::from(*b"batches"), number.to_le_bytes().into());
        return;
    }
    let mut value = number.to_le_bytes().to_vec();
    value.resize(8 + rng.below(700) as usize, *number as u8 & 0x3f);
    put(db, state, tree, &key, &value, durability);
}
