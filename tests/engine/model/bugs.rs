//! One short test for each defect that random runs (or reading with them in mind) have found, named after
//! what went wrong.

use std::sync::{Arc, Mutex};

use esker::env::{Env, JobKind, Random, StepExecutor};
use esker::fs::sim::{Fault, FaultError, Op, SimFs};
use esker::{Db, Options, ScanRange};

use crate::common::world;

/// A new store whose background work is stepped.
fn stepped() -> (Db, Env) {
    let env = world(Arc::new(SimFs::new(1)), 1, Some(Arc::new(StepExecutor)));
    (Db::open("/store", Options::default().env(env.clone())).unwrap(), env)
}

#[test]
fn compaction_keeps_the_tombstones_of_a_single_table() {
    let (db, _) = stepped();
    let other = db.tree("other").unwrap();
    db.delete("gone").unwrap();
    other.put("here", "").unwrap();
    db.compact().unwrap();
    for tree in db.stats().unwrap().trees {
        assert_eq!(
            (tree.tombstones, tree.table_entries),
            (0, u64::from(tree.name == "other")),
            "{}",
            tree.name
        );
    }
}

#[test]
fn a_merge_writes_a_table_across_one_that_it_leaves_out() {
    let (db, _) = stepped();
    // Three tables at the bottom; the middle one meets none of what comes next.
    for key in ["b", "m", "y"] {
        db.put(key, "old").unwrap();
        db.flush().unwrap();
    }
    for (one, two) in [("a", "c"), ("x", "z"), ("a", "c"), ("x", "z")] {
        db.put(one, "new").unwrap();
        db.put(two, "new").unwrap();
        db.flush().unwrap();
    }
    while db.step(JobKind::Compact) {}
    let keys = ["a", "b", "c", "m", "x", "y", "z"];
    for key in keys {
        assert!(db.contains(key).unwrap(), "{key}");
    }
    for range in [ScanRange::all(), ScanRange::all().reverse()] {
        let mut found: Vec<Vec<u8>> = db.scan(range).unwrap().map(|pair| pair.unwrap().0).collect();
        found.sort();
        assert_eq!(found, keys.map(|key| key.as_bytes().to_vec()));
    }
    let bottom = db.stats().unwrap().trees.remove(0).tables_by_level[6];
    assert_eq!(bottom, 3, "the merge's output keeps clear of the middle table");
}

#[test]
fn a_checkpoint_of_a_store_never_reopened_looks_damaged() {
    let (db, env) = stepped();
    for i in 0..20u8 {
        db.put([i + 1], [i]).unwrap();
        db.flush().unwrap();
    }
    db.checkpoint("/copy").unwrap();
    let copy = Db::open("/copy", Options::default().env(env)).unwrap();
    assert_eq!(copy.default_tree().count(ScanRange::all()).unwrap(), 20);
}

#[test]
fn the_longest_key_does_not_fit_into_a_shared_table() {
    let (db, _) = stepped();
    let other = db.tree("other").unwrap();
    let longest = vec![b'k'; esker::KEY_LEN_MAX];
    db.put(&longest, "v").unwrap();
    other.put(&longest, "v").unwrap();
    db.flush().unwrap();
    assert!(db.contains(&longest).unwrap() && other.contains(&longest).unwrap());
    assert_eq!(other.scan(ScanRange::prefix(&longest).reverse()).unwrap().count(), 1);
}

type Action = Box<dyn FnOnce() + Send>;

/// Does something once when the store asks for a random number: when it begins to write a table.
#[derive(Default)]
struct Interrupt(Mutex<Option<Action>>);

impl std::fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Interrupt")
    }
}

impl Random for Interrupt {
    fn next_u64(&self) -> u64 {
        let action = self.0.lock().unwrap().take();
        action.into_iter().for_each(|action| action());
        4
    }
}

#[test]
fn a_flush_puts_a_table_where_a_merge_at_work_is_about_to() {
    let interrupt = Arc::new(Interrupt::default());
    let (first, env) = stepped();
    drop(first);
    let env = Env { random: Arc::clone(&interrupt) as Arc<dyn Random>, ..env };
    let db = Db::open("/other", Options::default().env(env)).unwrap();
    for (one, two) in [("a", "c"), ("x", "z"), ("a", "c"), ("x", "z"), ("a", "c"), ("x", "z")] {
        db.put(one, "").unwrap();
        db.put(two, "").unwrap();
        db.flush().unwrap();
    }
    let inside = db.clone();
    *interrupt.0.lock().unwrap() = Some(Box::new(move || {
        // Meets no table there is, but lies amid what the merge will write.
        inside.put("m", "").unwrap();
        inside.flush().unwrap();
    }));
    while db.step(JobKind::Compact) {}
    assert!(interrupt.0.lock().unwrap().is_none(), "there was a merge");
    for key in ["a", "c", "m", "x", "z"] {
        assert!(db.contains(key).unwrap(), "{key}");
    }
}

#[test]
fn small_and_large_memtables_of_a_tree_are_flushed_in_their_order() {
    let disk = Arc::new(SimFs::new(1));
    let env = world(disk.clone(), 1, Some(Arc::new(StepExecutor)));
    let db = Db::open("/store", Options::default().env(env)).unwrap();
    // Only the middle one is too large to share a table. Flushes that fail leave all three to the last one.
    for (number, key, len) in [(1, "key", 1 << 10), (2, "key", 600 << 10), (3, "other", 1 << 10)] {
        db.put(key, vec![number; len]).unwrap();
        if number < 3 {
            disk.inject(Fault::new(Op::Create, ".table").error(FaultError::NoSpace).forever());
            db.flush().unwrap_err();
            disk.clear_faults();
        }
    }
    db.flush().unwrap();
    assert_eq!(db.get_vec("key").unwrap().unwrap()[0], 2);
    while db.step(JobKind::Compact) {}
    assert_eq!(db.get_vec("key").unwrap().unwrap()[0], 2);
}
