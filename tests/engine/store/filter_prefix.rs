//! Filters that hold prefixes of keys: which tables a scan skips, and that it never skips one that it needs.

use std::sync::Arc;

use esker::env::StepExecutor;
use esker::fs::sim::SimFs;
use esker::keys::tuple;
use esker::{CompactionStyle, Db, ErrorKind, FilterPrefix, Options, ScanRange, Tree, TreeOptions};

use crate::common::{Rng, settle, world};

const STORE: &str = "/store";

fn options(disk: &SimFs) -> Options {
    let env = world(Arc::new(disk.clone()), 1, Some(Arc::new(StepExecutor)));
    Options::default().memory_budget(8 << 20).env(env).block_bytes(512)
}

fn open(disk: &SimFs) -> Db {
    Db::open(STORE, options(disk)).unwrap()
}

fn cell(row: u32, version: u64) -> Vec<u8> {
    tuple(&(format!("row {row:05}"), version))
}

fn row(row: u32) -> ScanRange {
    ScanRange::prefix(tuple(&(format!("row {row:05}"),)))
}

/// Many tables, each with versions of a few rows of all the key range.
fn fill(db: &Db, rule: Option<FilterPrefix>) -> Tree {
    let style = TreeOptions::default().compaction(CompactionStyle::Tiered).size_ratio(32);
    let tree = db.create_tree("cells", style.filter_prefix(rule)).unwrap();
    for table in 0..20 {
        for i in 0..50 {
            tree.put(cell(i * 20 + table, 7), "7").unwrap();
            tree.put(cell(i * 20 + table, 9), "9").unwrap();
        }
        tree.flush().unwrap();
    }
    assert!(db.stats().unwrap().table_files >= 20);
    tree
}

/// How often blocks were asked for by one scan of each of 100 rows, all of which have two versions.
fn asked(db: &Db, tree: &Tree) -> u64 {
    let before = db.stats().unwrap();
    for i in 0..100 {
        for range in [row(i * 7), row(i * 7).reverse()] {
            let mut versions: Vec<Vec<u8>> = tree.scan(range).unwrap().map(|pair| pair.unwrap().1).collect();
            versions.sort();
            assert_eq!(versions, [b"7", b"9"], "row {i}");
        }
        assert_eq!(tree.prefix(tuple(&(format!("row {:05}", i * 7),))).unwrap().rev().count(), 2);
        assert_eq!(tree.count(row(i * 7 + 1_000_000)).unwrap(), 0);
    }
    let now = db.stats().unwrap();
    now.pool_hits + now.pool_misses - before.pool_hits - before.pool_misses
}

#[test]
fn a_scan_of_one_row_reads_the_tables_that_have_it() {
    let (plain, prefixed) = (SimFs::new(1), SimFs::new(1));
    let without = open(&plain);
    let without = asked(&without, &fill(&without, None));
    let db = open(&prefixed);
    let tree = fill(&db, Some(FilterPrefix::elements(1)));
    let with = asked(&db, &tree);
    println!("{without} blocks without prefixes, {with} with them");
    assert!(with * 8 < without, "{with} of {without} blocks");
    let (found, trace) = db.trace(|| tree.count(row(7)).unwrap());
    assert_eq!(found, 2, "{trace}");
    // Gets use the filters as before, and ranges over several rows read what they have to.
    assert_eq!(tree.get_vec(cell(7, 9)).unwrap().unwrap(), b"9");
    assert_eq!(tree.get_vec(cell(7, 8)).unwrap(), None);
    assert_eq!(tree.count(tuple(&("row 00007",))..tuple(&("row 00009",))).unwrap(), 4);
    assert_eq!(tree.count(ScanRange::all()).unwrap(), 2000);
    db.compact().unwrap();
    settle(&db);
    assert_eq!(tree.count(row(7)).unwrap(), 2);
    assert_eq!(db.scrub().unwrap().findings, []);
    db.close().unwrap();
    assert_eq!(esker::check(STORE, &options(&prefixed)).unwrap().findings, []);
    let tree = open(&prefixed).open_tree("cells").unwrap().unwrap();
    assert_eq!(tree.options().filter_prefix, Some(FilterPrefix::elements(1)));
    assert_eq!(tree.count(row(7)).unwrap(), 2);
}

/// Tables keep the rule that they were written by.
#[test]
fn tables_by_different_rules_are_read_together() {
    let rules = [
        None,
        Some(FilterPrefix::length(1)),
        Some(FilterPrefix::length(3)),
        Some(FilterPrefix::through("/", 1)),
        Some(FilterPrefix::through("/", 2)),
        Some(FilterPrefix::elements(1)),
    ];
    for seed in 0..20 {
        let (mut rng, disk) = (Rng::new(seed), SimFs::new(seed));
        let mut db = open(&disk);
        let mut model = std::collections::BTreeMap::new();
        let style = TreeOptions::default().compaction(CompactionStyle::Tiered).size_ratio(8);
        db.create_tree("t", style).unwrap();
        for _ in 0..12 {
            let tree = db.open_tree("t").unwrap().unwrap();
            tree.set_options(tree.options().filter_prefix(*rng.pick(&rules))).unwrap();
            for _ in 0..rng.between(1, 40) {
                let len = rng.between(1, 7);
                let key: Vec<u8> = (0..len).map(|_| *rng.pick(b"a/b\0")).collect();
                match rng.one_in(5) {
                    true => {
                        tree.delete(&key).unwrap();
                        model.remove(&key);
                    }
                    false => {
                        tree.put(&key, &key).unwrap();
                        model.insert(key.clone(), key);
                    }
                }
            }
            tree.flush().unwrap();
            if rng.one_in(4) {
                settle(&db);
            }
            if rng.one_in(4) {
                drop(tree);
                db.close().unwrap();
                db = open(&disk);
            }
            let tree = db.open_tree("t").unwrap().unwrap();
            for _ in 0..40 {
                let len = rng.between(0, 5);
                let prefix: Vec<u8> = (0..len).map(|_| *rng.pick(b"a/b\0")).collect();
                let expected: Vec<_> = model.keys().filter(|key| key.starts_with(&prefix)).cloned().collect();
                let range = ScanRange::prefix(&prefix);
                let keys =
                    |range| -> Vec<_> { tree.scan(range).unwrap().map(|pair| pair.unwrap().0).collect() };
                assert_eq!(keys(range.clone()), expected, "seed {seed}, {prefix:?}");
                let mut backward = keys(range.reverse());
                backward.reverse();
                assert_eq!(backward, expected, "seed {seed}, {prefix:?} backward");
                let upper = [&prefix[..], b"a0"].concat();
                let between: Vec<_> =
                    model.range(prefix.clone()..upper.clone()).map(|(key, _)| key.clone()).collect();
                assert_eq!(keys(ScanRange::from(prefix..upper)), between, "seed {seed}");
            }
        }
    }
}

#[test]
fn a_rule_must_have_a_meaning() {
    let db = open(&SimFs::new(1));
    for rule in [
        FilterPrefix::length(0),
        FilterPrefix::through("", 1),
        FilterPrefix::through("/", 0),
        FilterPrefix::through("123456789", 1),
    ] {
        let refused = db.create_tree("t", TreeOptions::default().filter_prefix(rule)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{rule:?}");
    }
}
