//! Values that are lent or kept without a copy.

use std::sync::Arc;
use std::time::Duration;

use esker::operators::APPEND;
use esker::{Db, Options, Tree, TxnOptions};

use crate::allocated::allocations;
use crate::common::ManualClock;

const KEYS: u32 = 2000;

fn key(i: u32) -> [u8; 4] {
    i.to_be_bytes()
}

/// Reads every key three times without a copy; returns how often that allocated.
fn allocations_of(tree: &Tree, mut read: impl FnMut([u8; 4]) -> usize) -> usize {
    // All blocks come into the pool.
    assert_eq!(tree.scan(..).unwrap().count(), KEYS as usize);
    (0..KEYS).for_each(|i| drop(tree.get(key(i)).unwrap()));
    let before = allocations();
    let read: usize = (0..3 * KEYS).map(|i| read(key(i % KEYS))).sum();
    assert_eq!(read, 3 * 100 * KEYS as usize);
    allocations() - before
}

#[test]
fn small_values_in_memory_are_read_without_an_allocation() {
    let mut options = Options::default().memory_budget(64 << 20);
    // The store keeps notes of a slow read, and a read is slow if its thread loses the processor. By this clock none is.
    options.env.clock = Arc::new(ManualClock::default());
    let db = Db::open_in_memory(options).unwrap();
    let tree = db.default_tree();
    (0..KEYS).for_each(|i| tree.put(key(i), [i as u8; 100]).unwrap());
    for place in ["memtable", "table"] {
        let lent = allocations_of(tree, |key| tree.get_with(key, <[u8]>::len).unwrap().unwrap());
        assert_eq!(lent, 0, "get_with, {place}");
        let lent = allocations_of(tree, |key| {
            tree.get_lent(key, |value| value.bytes.map_or(0, <[u8]>::len)).unwrap().unwrap()
        });
        assert_eq!(lent, 0, "get_lent, {place}");
        let snapshot = db.snapshot();
        let lent = allocations_of(tree, |key| snapshot.get_with(tree, key, <[u8]>::len).unwrap().unwrap());
        assert_eq!(lent, 0, "get_with of a snapshot, {place}");
        let pinned = allocations_of(tree, |key| tree.get_pinned(key).unwrap().unwrap().clone().len());
        assert_eq!(pinned, if place == "table" { 0 } else { 3 * KEYS as usize }, "get_pinned, {place}");
        drop(snapshot);
        db.flush().unwrap();
    }
    db.close().unwrap();
}

/// A tree with values of every kind; its table is shared if there is another tree.
fn fill(tree: &Tree) -> Vec<(&'static str, Vec<u8>)> {
    tree.put("plain", "bytes").unwrap();
    tree.put("empty", "").unwrap();
    tree.put_for("expiring", "for an hour", Duration::from_secs(3600)).unwrap();
    tree.put("merged", "one, ").unwrap();
    tree.merge("merged", APPEND, "two").unwrap();
    tree.put("huge", vec![7; 5000]).unwrap();
    tree.put_for("huge and expiring", vec![8; 5000], Duration::from_secs(3600)).unwrap();
    vec![
        ("plain", b"bytes".to_vec()),
        ("empty", vec![]),
        ("expiring", b"for an hour".to_vec()),
        ("merged", b"one, two".to_vec()),
        ("huge", vec![7; 5000]),
        ("huge and expiring", vec![8; 5000]),
    ]
}

#[test]
fn what_is_pinned_stays_whatever_becomes_of_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().memory_budget(8 << 20).separate_at(1000);
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let (first, second) = (db.tree("first").unwrap(), db.tree("second").unwrap());
    let expected = [fill(&first), fill(&second)].concat();
    let mut kept = Vec::new();
    for _ in 0..2 {
        for tree in [&first, &second] {
            let snapshot = db.snapshot();
            for (key, value) in fill(tree) {
                assert_eq!(tree.get_with(key, <[u8]>::to_vec).unwrap().as_ref(), Some(&value), "{key}");
                assert_eq!(snapshot.get_with(tree, key, <[u8]>::to_vec).unwrap().as_ref(), Some(&value));
                let pinned = tree.get_pinned(key).unwrap().unwrap();
                assert_eq!(pinned, snapshot.get_pinned(tree, key).unwrap().unwrap());
                kept.push((value, pinned));
            }
            assert_eq!(tree.get_with("absent", <[u8]>::len).unwrap(), None);
            assert_eq!(tree.get_lent("absent", |_| ()).unwrap(), None);
            assert!(tree.get_pinned("absent").unwrap().is_none());
        }
        db.flush().unwrap();
    }
    assert_eq!(kept.len(), 2 * expected.len());
    for tree in [&first, &second] {
        tree.delete_range(..).unwrap();
    }
    db.compact().unwrap();
    db.close().unwrap();
    drop((first, second, db));
    assert!(kept.iter().all(|(value, pinned)| **pinned == **value));
}

/// What each way of reading of a transaction returns, own writes included.
#[test]
fn a_transaction_reads_in_every_way_what_it_will_have_written() {
    let db = Db::open_in_memory(Options::default()).unwrap();
    let tree = db.default_tree();
    for i in [2, 4, 6] {
        tree.put(key(i), [i as u8]).unwrap();
    }
    let txn = db.begin(TxnOptions::default()).unwrap();
    txn.put(tree, key(1), [1]).unwrap();
    txn.delete(tree, key(6)).unwrap();
    txn.put(tree, key(4), [40]).unwrap();
    assert_eq!(txn.get_with(tree, key(4), |bytes| bytes[0]).unwrap(), Some(40));
    assert_eq!(txn.get_with(tree, key(6), |bytes| bytes[0]).unwrap(), None);
    let many = txn.get_many(tree, [1, 2, 6].map(key)).unwrap();
    assert_eq!(many.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);
    assert!(txn.contains(tree, key(1)).unwrap() && !txn.contains(tree, key(6)).unwrap());
    assert_eq!(txn.count(tree, ..).unwrap(), 3);
    assert_eq!(txn.count(tree, ..key(4)).unwrap(), 2);
    let value = |end: Option<(Vec<u8>, esker::Value)>| end.unwrap().1.into_vec().unwrap();
    assert_eq!(value(txn.first(tree).unwrap()), [1]);
    assert_eq!(value(txn.last(tree).unwrap()), [40]);
    txn.delete_range(tree, ..).unwrap();
    assert!(txn.is_empty(tree).unwrap() && txn.first(tree).unwrap().is_none());
    txn.rollback();

    // What was read counts: here, that there is nothing behind 6.
    let txn = db.begin(TxnOptions::default()).unwrap();
    assert!(txn.last(tree).unwrap().is_some());
    txn.put(tree, key(0), []).unwrap();
    tree.put(key(9), []).unwrap();
    assert_eq!(txn.commit().unwrap_err().kind(), esker::ErrorKind::Conflict);
    // And here no more than the first key.
    let txn = db.begin(TxnOptions::default()).unwrap();
    assert!(!txn.is_empty(tree).unwrap());
    txn.put(tree, key(0), []).unwrap();
    tree.put(key(8), []).unwrap();
    txn.commit().unwrap();
}
