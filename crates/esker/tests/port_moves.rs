//! Trees that move between stores: their numbers, what becomes of the store when a move was cut off, and of those that are repaired.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use esker::Durability;
use esker::fs::sim::SimFs;

mod common;

use common::port::{DIR, OTHER, filled, left_over, open, options};
use common::{contents, settle};

/// What an import that was killed has left keeps its numbers: a file that comes later is not taken for one of it.
#[test]
fn what_is_written_behind_an_import_that_was_cut_off_stays() {
    let (disk, db, _) = filled(11);
    db.export_tree("t", DIR).unwrap();
    db.close().unwrap();
    let prepare = || {
        let disk = disk.crash_keeping(0.0, 1);
        let other = open(&disk, OTHER);
        (disk, other)
    };
    let (probe, other) = prepare();
    let begin = probe.operations();
    other.import_tree(DIR, "t").unwrap();
    let calls = probe.operations() - begin;
    let mut marked = 0;
    for call in 0..calls {
        let (disk, other) = prepare();
        disk.set_crash_after(Some(begin + call));
        drop((other.import_tree(DIR, "t"), other));
        let mut disk = disk.kill();
        marked += left_over(&disk, OTHER).len();
        for key in ["first", "second"] {
            let other = open(&disk, OTHER);
            let imported = other.open_tree("t").unwrap().is_some();
            let mark = left_over(&disk, OTHER).len();
            assert_eq!(mark, usize::from(imported), "call {call}");
            let tree = other.default_tree();
            tree.put_with(key, vec![7; 5000], Durability::Power).unwrap();
            let killed = disk.kill();
            drop(other);
            disk = killed;
        }
        let other = open(&disk, OTHER);
        for key in ["first", "second"] {
            assert_eq!(other.default_tree().get_vec(key).unwrap(), Some(vec![7; 5000]), "call {call}");
        }
    }
    assert!(marked > 0, "no import was cut off behind its mark");
}

/// File numbers grow by what the tree has of files, however often it has come and gone.
#[test]
fn a_tree_that_moves_to_and_fro_costs_few_file_numbers() {
    let (disk, db, mut pairs) = filled(12);
    let dbs = [db, open(&disk, OTHER)];
    let greatest = |disk: &SimFs| {
        let number = |path: &std::path::PathBuf| path.file_stem()?.to_str()?.parse::<u64>().ok();
        let is_ours = |path: &&std::path::PathBuf| {
            ["table", "blob"].iter().any(|ext| path.extension() == Some((*ext).as_ref()))
        };
        disk.paths().iter().filter(is_ours).filter_map(number).max().unwrap()
    };
    let mut grown = Vec::new();
    for turn in 0..100_usize {
        let (from, to, dir) = (&dbs[turn % 2], &dbs[(turn + 1) % 2], format!("/move{turn}"));
        from.export_tree("t", &dir).unwrap();
        from.drop_tree("t").unwrap();
        let (tree, _) = to.import_tree(&dir, "t").unwrap();
        esker::destroy(&dir, &options(&disk)).unwrap();
        if turn >= 60 {
            // Pointers to files that are gone stay in tables, and new files come behind old ones.
            for len in [20, 4000] {
                let (key, value) = (format!("{:03}", 20 + (turn * 7 + len) % 380), vec![turn as u8; len]);
                tree.put(&key, &value).unwrap();
                pairs.insert(key.into_bytes(), value);
            }
        }
        if turn % 10 == 0 || turn > 90 {
            assert!(contents(&tree) == pairs, "move {turn}");
        }
        grown.push(greatest(&disk));
    }
    let (early, late) = (grown[30] - grown[10], grown[50] - grown[30]);
    assert!(late <= early + early / 4, "20 moves took {early} numbers, 20 later ones {late}");
    assert!(grown[99] < 100_000, "{} file numbers", grown[99]);
    for db in &dbs {
        assert_eq!(db.scrub().unwrap().findings, []);
        settle(db);
    }
    dbs[0].compact().unwrap();
    assert!(contents(&dbs[0].open_tree("t").unwrap().unwrap()) == pairs);
}
