//! What reads cost and bring about, seen in the store's counts: a merge of the runs that they have to pass, and only so
//! much of it as they pay for.

use std::sync::Arc;

use esker::env::{Env, StepExecutor};
use esker::trace::Step;
use esker::{Compression, Db, Options, ScanRange, TreeOptions};

use crate::common::settle;

const KEYS: u32 = 4000;

fn stepped() -> Options {
    Options::default().env(Env { executor: Some(Arc::new(StepExecutor)), ..Env::system() })
}

/// Writes every key and makes a table of it; each run overlaps all others.
fn write_run(db: &Db, run: u32) {
    for i in 0..KEYS {
        db.put(i.to_be_bytes(), format!("value {i} of run {run}, {}", "long ".repeat(8))).unwrap();
    }
    db.flush().unwrap();
    settle(db);
}

fn runs(db: &Db) -> u64 {
    db.stats().unwrap().trees[0].tables_by_level[0]
}

/// Scans until the runs are merged; returns after how many scans, or `None` if `most` were not enough.
fn scans_until_merged(db: &Db, most: u32) -> Option<u32> {
    (1..=most).find(|i| {
        let mut scan = db.scan((i % KEYS).to_be_bytes()..).unwrap();
        assert!(scan.advance().unwrap());
        settle(db);
        runs(db) == 0
    })
}

#[test]
fn seeks_of_a_cursor_pay_for_a_merge_as_scans_do() {
    let store = tempfile::tempdir().unwrap();
    let db = Db::open(store.path(), stepped()).unwrap();
    (0..=2).for_each(|run| write_run(&db, run));
    assert_eq!(runs(&db), 2);
    let mut cursor = db.default_tree().cursor().unwrap();
    let merged = (0..10_000_u32).find(|i| {
        cursor.refresh().unwrap();
        assert!(cursor.seek((i % KEYS).to_be_bytes()).unwrap());
        settle(&db);
        runs(&db) == 0
    });
    assert!(merged.is_some(), "10,000 seeks have not paid for a merge");
    db.close().unwrap();
}

#[test]
fn scans_pay_for_a_merge_of_two_runs_and_of_three() {
    let store = tempfile::tempdir().unwrap();
    let db = Db::open(store.path(), stepped()).unwrap();
    write_run(&db, 0);
    assert_eq!(runs(&db), 0, "what meets nothing goes to the bottom");
    for more in [2, 3] {
        (1..=more).for_each(|run| write_run(&db, run));
        assert_eq!(runs(&db), u64::from(more));
        let before = db.stats().unwrap();
        let scans = scans_until_merged(&db, 10_000).unwrap();
        let after = db.stats().unwrap();
        assert_eq!(after.merges, before.merges + 1);
        let paid = u64::from(scans * more) << 10;
        let read = after.merged_bytes_in - before.merged_bytes_in;
        // What is due is looked at from 1 MiB on.
        assert!(read <= paid && paid <= (read * 5 / 4).max(1 << 20) + 4096, "{read} bytes for {paid}");
        assert_eq!(db.default_tree().count(ScanRange::all()).unwrap(), u64::from(KEYS));
        assert_eq!(scans_until_idle(&db), after.merges, "what is merged stays so");
    }
    db.close().unwrap();
}

/// Merges so far, when many scans more have come.
fn scans_until_idle(db: &Db) -> u64 {
    for _ in 0..5000 {
        db.scan(ScanRange::all()).unwrap().advance().unwrap();
    }
    settle(db);
    db.stats().unwrap().merges
}

#[test]
fn a_single_run_is_left_alone() {
    let store = tempfile::tempdir().unwrap();
    let db = Db::open(store.path(), stepped()).unwrap();
    write_run(&db, 0);
    write_run(&db, 1);
    assert_eq!(scans_until_merged(&db, 5000), None);
    assert_eq!(runs(&db), 1);
    db.close().unwrap();
}

#[test]
fn gets_and_snapshots_pay_too() {
    let store = tempfile::tempdir().unwrap();
    let db = Db::open(store.path(), stepped()).unwrap();
    (0..3).for_each(|run| write_run(&db, run));
    assert_eq!(runs(&db), 2);
    let (tree, snapshot) = (db.default_tree(), db.snapshot());
    let mut gets = 0;
    while runs(&db) > 0 {
        for i in 0..KEYS {
            // Between the keys, so that no run has it.
            let absent = [&i.to_be_bytes()[..], b"-"].concat();
            assert!(snapshot.get(tree, &absent).unwrap().is_none());
            gets += 1;
        }
        settle(&db);
        assert!(gets < 1_000_000, "gets bring about no merge");
    }
    db.close().unwrap();
}

#[test]
fn what_a_small_store_has_flushed_is_in_memory() {
    for compression in [Compression::None, Compression::Lz4] {
        let store = tempfile::tempdir().unwrap();
        let db = Db::open(store.path(), stepped()).unwrap();
        let tree = db.create_tree("tree", TreeOptions::default().compression(compression)).unwrap();
        let value = |i: u32| format!("value {i}, {}", "long ".repeat(20 + i as usize % 7));
        (0..KEYS).for_each(|i| tree.put(i.to_be_bytes(), value(i)).unwrap());
        db.flush().unwrap();
        for i in 0..KEYS {
            assert_eq!(tree.get_vec(i.to_be_bytes()).unwrap().as_deref(), Some(value(i).as_bytes()));
        }
        let stats = db.stats().unwrap();
        assert_eq!((stats.memtable_bytes, stats.pool_misses), (0, 0));
        assert!(stats.pool_hits >= u64::from(KEYS) && stats.pool_bytes > 0);
        assert_eq!(tree.count(ScanRange::all()).unwrap(), u64::from(KEYS));
        db.close().unwrap();
    }
}

#[test]
fn an_emptied_cache_is_filled_again_and_one_that_keeps_nothing_answers_alike() {
    for keeps_blocks in [true, false] {
        let store = tempfile::tempdir().unwrap();
        let mut options = stepped();
        options.keeps_blocks = keeps_blocks;
        let db = Db::open(store.path(), options).unwrap();
        (0..KEYS).for_each(|i| db.put(i.to_be_bytes(), i.to_string()).unwrap());
        db.flush().unwrap();
        let read = || {
            let before = db.stats().unwrap();
            for i in 0..KEYS {
                assert_eq!(db.get_vec(i.to_be_bytes()).unwrap(), Some(i.to_string().into_bytes()));
            }
            let after = db.stats().unwrap();
            (after.pool_hits - before.pool_hits, after.pool_misses - before.pool_misses)
        };
        db.clear_cache();
        assert_eq!(db.stats().unwrap().pool_bytes, 0);
        let (hits, misses) = read();
        let (hits_again, misses_again) = read();
        db.clear_cache();
        let (hits_cleared, misses_cleared) = read();
        assert_eq!((hits_cleared, misses_cleared), (hits, misses));
        let rate = db.stats().unwrap().pool_hit_rate().unwrap();
        if keeps_blocks {
            assert!(misses > 0 && hits_again > 0 && misses_again == 0);
            assert!(rate > 0.0 && rate < 1.0, "{rate}");
        } else {
            assert_eq!((hits, hits_again, rate), (0, 0, 0.0));
        }
        db.close().unwrap();
    }
}

#[test]
fn filters_that_do_not_fit_are_not_read_again_and_again() {
    const MANY: u32 = 300_000;
    let store = tempfile::tempdir().unwrap();
    let mut options = stepped().memory_budget(8 << 20);
    options.filter_bits = 96;
    let db = Db::open(store.path(), options).unwrap();
    let key = |i: u32| i.wrapping_mul(0x9e37_79b1).to_be_bytes();
    for i in 0..MANY {
        db.put(key(i), i.to_be_bytes()).unwrap();
        if i % 1000 == 0 {
            settle(&db);
        }
    }
    db.flush().unwrap();
    settle(&db);
    let stats = db.stats().unwrap();
    let filters = stats.trees[0].filter_bytes;
    assert!(filters > stats.pool_capacity / 2, "{filters} bytes of filters, pool of {}", stats.pool_capacity);
    let mut opened = Vec::new();
    for _pass in 0..3 {
        let bytes = (0..MANY).step_by(97).map(|i| {
            let (found, trace) = db.trace(|| db.get_vec(key(i)).unwrap());
            assert_eq!(found, Some(i.to_be_bytes().to_vec()));
            trace
                .steps
                .iter()
                .map(|step| if let Step::OpenTable { bytes, .. } = step { *bytes } else { 0 })
                .sum::<u64>()
        });
        opened.push(bytes.sum::<u64>());
        settle(&db);
    }
    assert_eq!(opened[2], 0, "of open tables were read {opened:?}");
    let table_memory = db.stats().unwrap().table_memory;
    assert!(table_memory <= filters, "{table_memory} bytes of memory");
    db.close().unwrap();
}
