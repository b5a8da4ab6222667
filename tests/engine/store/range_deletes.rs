//! Ranges of keys that are deleted at once: what becomes of their space, and who still sees them. (The model test reads
//! them in every way there is, the crash test loses power over them.)

use std::ops::Bound;
use std::sync::Arc;

use esker::env::{JobKind, StepExecutor};
use esker::fs::sim::SimFs;
use esker::{Db, ErrorKind, Options, ScanRange, TxnOptions};

use crate::common::{settle, world};

const STORE: &str = "/store";

fn open(disk: &SimFs) -> Db {
    let env = world(Arc::new(disk.clone()), 1, Some(Arc::new(StepExecutor)));
    let mut options = Options::default().memory_budget(8 << 20).separate_at(1000).env(env);
    options.table_bytes = 16 << 10;
    Db::open(STORE, options).unwrap()
}

/// Keys with small and huge values in turn.
fn put_some(db: &Db, numbers: std::ops::Range<u32>) {
    for i in numbers {
        db.put(key(i), vec![i as u8; if i % 2 == 0 { 30 } else { 2000 }]).unwrap();
    }
}

fn key(number: u32) -> String {
    format!("{number:05}")
}

fn below(number: u32) -> ScanRange {
    ScanRange::from(..key(number))
}

fn count(db: &Db) -> u64 {
    db.default_tree().count(ScanRange::all()).unwrap()
}

/// Entries in tables, range tombstones, and huge values.
fn kept(db: &Db) -> (u64, u64, u64) {
    let stats = db.stats().unwrap();
    let tree = &stats.trees[0];
    (tree.table_entries, tree.range_tombstones, stats.blob_values)
}

/// The pairs of a scan of the whole tree, and how many other entries it has passed.
fn walked(mut scan: esker::Scan) -> (u64, u64) {
    let mut pairs = 0;
    while scan.advance().unwrap() {
        pairs += 1;
    }
    (pairs, scan.passed())
}

/// Scans do not walk over what a range deletion hides: neither in memtables nor in tables, in both directions, however
/// many tables there are, and whether or not there are newer pairs around the range and in it.
#[test]
fn scans_leave_a_deleted_range() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    let tree = db.default_tree();
    let both = |snapshot: Option<&esker::Snapshot>| {
        [ScanRange::all(), ScanRange::all().reverse()].map(|range| match snapshot {
            Some(snapshot) => walked(snapshot.scan(tree, range).unwrap()),
            None => walked(tree.scan(range).unwrap()),
        })
    };
    // In many tables of a level, in one of level 0, and in a memtable.
    put_some(&db, 0..6000);
    db.compact().unwrap();
    for numbers in [1000..4000, 2000..5000] {
        numbers.for_each(|number| db.put(key(number), "short").unwrap());
        db.flush().unwrap();
    }
    let before = db.snapshot();
    tree.delete_range(ScanRange::from(key(500)..key(5500))).unwrap();
    let deleted = db.snapshot();
    for round in 0..3 {
        for (pairs, passed) in both(None) {
            assert_eq!(pairs, 1000 + round);
            assert!(passed < 200, "{passed} entries in round {round}");
        }
        assert_eq!(both(Some(&deleted)).map(|(pairs, _)| pairs), [1000; 2]);
        assert_eq!(both(Some(&before)).map(|(pairs, _)| pairs), [6000; 2]);
        // A newer pair in the midst of the deleted ones, in memory and in a table of its own.
        db.put(key(1500 + round as u32), "new").unwrap();
        db.flush().unwrap();
    }
    drop((before, deleted));
    // What is in the memtable alone.
    let other = db.tree("other").unwrap();
    (0..6000).for_each(|number| other.put(key(number), "short").unwrap());
    other.delete_range(..).unwrap();
    for range in [ScanRange::all(), ScanRange::all().reverse()] {
        let (pairs, passed) = walked(other.scan(range).unwrap());
        assert_eq!(pairs, 0);
        assert!(passed < 100, "{passed} entries");
    }
}

#[test]
fn tables_of_which_nothing_is_left_go_without_being_merged() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    put_some(&db, 0..4000);
    db.compact().unwrap();
    db.default_tree().delete_range(below(3000)).unwrap();
    assert_eq!(count(&db), 1000);
    db.flush().unwrap();
    settle(&db);
    let (entries, tombstones, huge) = kept(&db);
    assert!((1000..1500).contains(&entries), "{entries} entries are left");
    // The table at the border holds a few that it hides.
    assert_eq!((tombstones, huge), (1, 500));
    assert_eq!(count(&db), 1000);
    db.compact().unwrap();
    settle(&db);
    assert_eq!(kept(&db), (1000, 0, 500));
}

#[test]
fn the_space_of_huge_values_comes_back_at_once() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    put_some(&db, 0..100);
    db.flush().unwrap();
    put_some(&db, 100..200);
    db.default_tree().delete_range(ScanRange::prefix("000").reverse()).unwrap();
    while db.step(JobKind::Blobs) {}
    assert_eq!((count(&db), kept(&db).2), (100, 50));
    // After a crash too.
    db.default_tree().delete_range(key(150)..).unwrap();
    let disk = disk.kill();
    drop(db);
    let db = open(&disk);
    settle(&db);
    assert_eq!((count(&db), kept(&db).2), (50, 25));
}

#[test]
fn a_snapshot_sees_what_was_there_and_then_it_goes() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    put_some(&db, 0..1000);
    db.compact().unwrap();
    let snapshot = db.snapshot();
    db.default_tree().delete_range(ScanRange::all()).unwrap();
    put_some(&db, 10..20);
    for _ in 0..2 {
        db.flush().unwrap();
        settle(&db);
        let tree = db.default_tree();
        assert_eq!(snapshot.scan(tree, ScanRange::all()).unwrap().count(), 1000);
        assert_eq!(snapshot.scan(tree, ScanRange::all().reverse()).unwrap().count(), 1000);
        assert_eq!(snapshot.get(tree, key(5)).unwrap().unwrap().len(), 2000);
        assert_eq!(count(&db), 10);
        db.compact().unwrap();
    }
    drop(snapshot);
    settle(&db);
    db.compact().unwrap();
    settle(&db);
    assert_eq!((count(&db), kept(&db)), (10, (10, 0, 5)));
}

/// A queue of which the beginning is deleted again and again: the last deletion says all that the others said.
#[test]
fn deletions_that_later_ones_enclose_are_forgotten() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    // Something that no merge comes by at.
    db.put("00000x", "").unwrap();
    db.put("zzz", "").unwrap();
    db.compact().unwrap();
    for round in 0..200 {
        put_some(&db, round * 10..round * 10 + 10);
        db.default_tree().delete_range(below(round * 10 + 5)).unwrap();
        if round % 5 == 0 {
            db.flush().unwrap();
            settle(&db);
            let (_, tombstones, _) = kept(&db);
            assert!(tombstones <= 1, "{tombstones} after round {round}");
        }
    }
    assert_eq!(count(&db), 6);
}

#[test]
fn reopening_finds_them_wherever_they_are() {
    let disk = SimFs::new(1);
    let mut db = open(&disk);
    put_some(&db, 0..100);
    db.compact().unwrap();
    for step in 1..=9 {
        db.default_tree().delete_range(below(step * 10)).unwrap();
        put_some(&db, 0..1);
        if step % 3 == 0 {
            db.flush().unwrap();
        }
        db.close().unwrap();
        db = open(&disk);
        assert_eq!(count(&db), u64::from(100 - step * 10) + 1, "step {step}");
    }
}

#[test]
fn odd_bounds_delete_what_a_scan_would_show() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    let longest = vec![b'k'; esker::KEY_LEN_MAX];
    let longer = [&longest[..], b"k"].concat();
    let fill = || {
        db.put(&longest, "").unwrap();
        put_some(&db, 0..10);
    };
    let ranges = [
        ScanRange::from("b"..="a"),
        ScanRange::from((Bound::Excluded(key(3)), Bound::Excluded(key(4)))),
        ScanRange::from((Bound::Excluded(key(3)), Bound::Included(key(4)))),
        ScanRange::from(&longer..),
        ScanRange::from((Bound::Excluded(key(9).into_bytes()), Bound::Included(longer.clone()))),
        ScanRange::from(..&longer),
        ScanRange::from((Bound::Excluded(&longest), Bound::Unbounded)),
        ScanRange::from(""..=""),
        ScanRange::prefix("").reverse().keys_only(),
    ];
    for range in ranges {
        fill();
        let shown = db.default_tree().count(range.clone()).unwrap();
        let all = count(&db);
        db.default_tree().delete_range(&range).unwrap();
        assert_eq!(
            (count(&db), db.default_tree().count(range.clone()).unwrap()),
            (all - shown, 0),
            "{range:?}"
        );
    }
}

#[test]
fn a_transaction_that_has_read_what_is_deleted_conflicts() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    let tree = db.default_tree();
    put_some(&db, 0..10);
    for (reads_range, flushed) in [(false, false), (false, true), (true, false), (true, true)] {
        let txn = db.begin(TxnOptions::default()).unwrap();
        if reads_range {
            let mut scan = txn.scan(tree, key(3)..=key(8)).unwrap();
            while scan.advance().unwrap() {}
        } else {
            txn.get(tree, key(5)).unwrap();
        }
        txn.put(tree, "result", "").unwrap();
        tree.delete_range(key(5)..key(6)).unwrap();
        if flushed {
            db.flush().unwrap();
            settle(&db);
        }
        assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::Conflict, "{reads_range} {flushed}");
    }
}
