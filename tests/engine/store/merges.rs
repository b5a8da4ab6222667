//! Values that are changed without being read: what is left of the operands, and what is refused. (The model test reads
//! such values in every way there is, the crash test loses power over them.)

use std::time::Duration;

use esker::fs::sim::SimFs;
use esker::operators::{ADD, APPEND};
use esker::{Batch, Db, ErrorKind, MergeOperator, ScanRange, keys};

use crate::allocated::allocations;
use crate::common::{Longest, settle, stepped_options};

const STORE: &str = "/store";

fn number(db: &Db, key: &str) -> i64 {
    keys::decode_i64(&db.get(key).unwrap().unwrap().bytes().unwrap()).unwrap()
}

/// Entries in tables, and huge values.
fn kept(db: &Db) -> (u64, u64) {
    let stats = db.stats().unwrap();
    (stats.trees.iter().map(|tree| tree.table_entries).sum(), stats.blob_values)
}

#[test]
fn what_was_counted_often_is_one_entry() {
    let db = Db::open(STORE, stepped_options(&SimFs::new(1))).unwrap();
    let tree = db.default_tree();
    for i in 0..3000 {
        tree.add(["a", "b", "c"][i % 3], 20).unwrap();
    }
    assert_eq!(number(&db, "a"), 20_000);
    db.flush().unwrap();
    assert_eq!((kept(&db).0, number(&db, "b")), (3, 20_000));
    // Not in the bottom level this time: operands are put together though nobody knows of what value.
    let snapshot = db.snapshot();
    for _ in 0..1000 {
        tree.add("b", -1).unwrap();
    }
    db.flush().unwrap();
    assert_eq!((kept(&db).0, number(&db, "b")), (4, 19_000));
    assert_eq!(keys::decode_i64(&snapshot.get_vec(tree, "b").unwrap().unwrap()).unwrap(), 20_000);
    drop(snapshot);
    db.compact().unwrap();
    assert_eq!((kept(&db).0, number(&db, "b")), (3, 19_000));
}

/// A merge sometimes checks whether its operands should become a value. The check of a long chain that cannot become one
/// must not read all of it.
#[test]
fn a_merge_costs_the_same_however_many_operands_lie_below() {
    let db = Db::open_in_memory(stepped_options(&SimFs::new(1)).memory_budget(256 << 20)).unwrap();
    let tree = db.default_tree();
    tree.put_for("limit", keys::i64(0), Duration::from_secs(3600)).unwrap();
    let mut batch = Batch::new();
    for _ in 0..100_000 {
        batch.merge(tree, "log", APPEND, "12345678").unwrap();
        batch.merge(tree, "limit", ADD, keys::i64(1)).unwrap();
    }
    db.write(&batch).unwrap();
    let rounds = 2000;
    let before = allocations();
    for _ in 0..rounds {
        tree.append("log", "12345678").unwrap();
        tree.add("limit", 1).unwrap();
    }
    // Each operand that is read is copied.
    let steps = allocations() - before;
    assert!(steps < rounds * 200, "{steps} allocations for {rounds} pairs of merges");
    assert_eq!(tree.get("log").unwrap().unwrap().len(), 8 * (100_000 + rounds as u64));
    assert_eq!(number(&db, "limit"), 100_000 + rounds as i64);
}

#[test]
fn long_operands_do_not_gather_in_memory() {
    let db = Db::open(STORE, stepped_options(&SimFs::new(1))).unwrap();
    let tree = db.default_tree();
    let mut expected = Vec::new();
    for i in 0..4000u32 {
        let piece = [i as u8; 900];
        tree.append("long", piece).unwrap();
        expected.extend(piece);
        if i.is_multiple_of(1100) {
            db.flush().unwrap();
        }
    }
    db.compact().unwrap();
    assert!(tree.get_vec("long").unwrap().unwrap() == expected);
}

#[test]
fn what_was_deleted_with_its_range_is_not_merged_into() {
    let db = Db::open(STORE, stepped_options(&SimFs::new(1))).unwrap();
    let tree = db.default_tree();
    for part in ["old", "new"] {
        tree.append("k", part).unwrap();
        let snapshot = db.snapshot();
        if part == "old" {
            tree.delete_range(ScanRange::all()).unwrap();
        }
        assert_eq!(snapshot.get_vec(tree, "k").unwrap().unwrap(), part.as_bytes());
    }
    for _ in 0..2 {
        assert_eq!(tree.get_vec("k").unwrap().unwrap(), b"new");
        for range in [ScanRange::all(), ScanRange::all().reverse()] {
            let pairs: Vec<_> = tree.scan(range).unwrap().map(Result::unwrap).collect();
            assert_eq!(pairs, [(b"k".to_vec(), b"new".to_vec())]);
        }
        db.flush().unwrap();
    }
}

#[test]
fn without_its_operator_a_value_is_kept_and_named() {
    let disk = SimFs::new(1);
    let db = Db::open(STORE, stepped_options(&disk).merge_operator(Longest)).unwrap();
    db.put("animal", "ant").unwrap();
    db.compact().unwrap();
    // In a table of its own, above the value.
    for word in ["ox", "hedgehog", "cat"] {
        db.default_tree().merge("animal", Longest::NAME, word).unwrap();
    }
    db.put("zebra", "stripes").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let db = Db::open(STORE, stepped_options(&disk)).unwrap();
    let tree = db.default_tree();
    assert_eq!(tree.merge("animal", Longest::NAME, "dog").unwrap_err().kind(), ErrorKind::InvalidInput);
    db.compact().unwrap();
    let error = tree.get("animal").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("\"longest\""), "{error}");
    assert!(tree.contains("animal").unwrap());
    // A scan names it too, and goes on.
    for range in [ScanRange::all(), ScanRange::all().reverse()] {
        let mut scan = tree.scan(range).unwrap();
        let mut seen = Vec::new();
        while scan.advance().unwrap() {
            seen.push((scan.key().to_vec(), scan.value().is_ok(), scan.handle().is_ok()));
        }
        seen.sort();
        assert_eq!(seen, [(b"animal".to_vec(), false, false), (b"zebra".to_vec(), true, true)]);
    }
    db.close().unwrap();
    let db = Db::open(STORE, stepped_options(&disk).merge_operator(Longest)).unwrap();
    assert_eq!(db.default_tree().get_vec("animal").unwrap().unwrap(), b"hedgehog");
}

#[test]
fn a_value_that_cannot_be_changed_is_kept_and_can_be_replaced() {
    let db = Db::open(STORE, stepped_options(&SimFs::new(1))).unwrap();
    let tree = db.default_tree();
    assert_eq!(tree.merge("k", ADD, "short").unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(tree.merge("", APPEND, "x").unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!(!tree.contains("k").unwrap());
    tree.put("k", "text").unwrap();
    tree.add("k", 1).unwrap();
    for _ in 0..2 {
        assert_eq!(tree.get("k").unwrap_err().kind(), ErrorKind::InvalidInput);
        db.compact().unwrap();
    }
    tree.put("k", keys::i64(4)).unwrap();
    tree.add("k", 1).unwrap();
    db.compact().unwrap();
    assert_eq!((kept(&db).0, number(&db, "k")), (1, 5));
}

#[test]
fn a_damaged_value_below_operands_is_named_and_scans_go_on() {
    let disk = SimFs::new(1);
    let db = Db::open(STORE, stepped_options(&disk)).unwrap();
    db.put("k", vec![7; 5000]).unwrap();
    db.compact().unwrap();
    db.close().unwrap();
    let path = disk.paths().into_iter().find(|path| path.to_string_lossy().ends_with(".blob")).unwrap();
    disk.flip_byte(&path, 4096 + 100, 1).unwrap();
    let db = Db::open(STORE, stepped_options(&disk)).unwrap();
    let tree = db.default_tree();
    tree.append("k", "more").unwrap();
    for key in ["j", "l"] {
        tree.put(key, "sound").unwrap();
    }
    assert_eq!(tree.get("k").unwrap_err().kind(), ErrorKind::Corruption);
    for (range, keys) in [(ScanRange::all(), ["j", "k", "l"]), (ScanRange::all().reverse(), ["l", "k", "j"])]
    {
        let mut scan = tree.scan(range).unwrap();
        for key in keys {
            assert!(scan.advance().unwrap());
            assert_eq!(scan.value().is_ok(), key != "k");
            assert_eq!(scan.key(), key.as_bytes());
        }
        assert!(!scan.advance().unwrap());
    }
}

struct Panics;

impl MergeOperator for Panics {
    fn name(&self) -> &str {
        "panics"
    }

    fn apply(&self, _: Option<&[u8]>, _: &[&[u8]]) -> Result<Vec<u8>, String> {
        panic!("an operator with a mistake")
    }

    fn combine(&self, _: &[&[u8]]) -> Option<Vec<u8>> {
        panic!("an operator with a mistake")
    }
}

#[test]
fn an_operator_that_panics_harms_nothing_but_its_keys() {
    let db = Db::open(STORE, stepped_options(&SimFs::new(1)).merge_operator(Panics)).unwrap();
    let tree = db.default_tree();
    for _ in 0..3 {
        tree.merge("k", "panics", "x").unwrap();
    }
    db.compact().unwrap();
    assert_eq!(tree.get("k").unwrap_err().kind(), ErrorKind::InvalidInput);
    tree.put("k", "v").unwrap();
    db.compact().unwrap();
    assert_eq!(tree.get_vec("k").unwrap().unwrap(), b"v");
}

#[test]
fn a_huge_value_below_operands_stays_until_it_is_replaced() {
    let db = Db::open(STORE, stepped_options(&SimFs::new(1))).unwrap();
    let tree = db.default_tree();
    tree.put("k", vec![7; 5000]).unwrap();
    tree.append("k", "!").unwrap();
    db.compact().unwrap();
    settle(&db);
    tree.append("k", "?").unwrap();
    let whole = [&[7; 5000][..], b"!?"].concat();
    assert_eq!(tree.get_vec("k").unwrap().unwrap(), whole);
    assert_eq!(tree.get_many(["k"]).unwrap()[0].as_ref().unwrap().bytes().unwrap(), whole);
    assert_eq!(kept(&db).1, 1);
    // A copy is written whole.
    assert!(tree.copy("k", "l").unwrap());
    assert_eq!(tree.get_vec("l").unwrap().unwrap(), whole);
    tree.delete("l").unwrap();
    tree.put("k", "small").unwrap();
    settle(&db);
    assert_eq!(kept(&db).1, 0);
    tree.append("k", "!").unwrap();
    assert_eq!(tree.get_vec("k").unwrap().unwrap(), b"small!");
}
