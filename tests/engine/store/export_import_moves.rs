//! Trees that move between stores: their numbers, what becomes of the store when a move was cut off, and of those that are repaired.

use std::collections::BTreeSet;
use std::{fs, thread};

use esker::env::Env;
use esker::fs::FileSystem;
use esker::fs::sim::SimFs;
use esker::rules::{RuleContext, RuleDecision, RuleEntry, RuleRun};
use esker::{CompactionRule, Db, Durability, ErrorKind, Options, Tree, TreeOptions};

use crate::common::export_import::{DIR, OTHER, STORE, filled, left_over, open, options};
use crate::common::{HOUR_US, HourClock, contents, settle, ttl};

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

/// Without a manifest, what a tree's huge values are filed under is known by the files alone.
#[test]
fn repair_keeps_huge_values_that_are_filed_under_another_tree() {
    for is_split in [false, true] {
        let (disk, db, _) = filled(13);
        db.export_tree("t", DIR).unwrap();
        let db = open(&disk, OTHER);
        let tree = if is_split {
            let old = db.tree("old").unwrap();
            let new = db.split(&old, "300", "new").unwrap();
            drop(old);
            db.drop_tree("old").unwrap();
            new
        } else {
            // It has the number that the tree had.
            db.tree("mine").unwrap();
            db.drop_tree("mine").unwrap();
            db.import_tree(DIR, "t").unwrap().0
        };
        for number in 0..20_u8 {
            tree.put(format!("3{number:02}"), vec![number; 5000]).unwrap();
        }
        db.flush().unwrap();
        db.compact().unwrap();
        tree.put("399", vec![99; 5000]).unwrap();
        let expected = contents(&tree);
        db.flush().unwrap();
        drop(tree);
        db.close().unwrap();
        let is_manifest = |path: &&std::path::PathBuf| {
            path.starts_with(OTHER) && path.to_string_lossy().contains("manifest-")
        };
        disk.paths().iter().filter(is_manifest).for_each(|path| disk.remove_file(path).unwrap());
        assert!(esker::repair(OTHER, &options(&disk)).unwrap().rebuilt);
        for _ in 0..2 {
            let db = open(&disk, OTHER);
            let name = db.tree_names().into_iter().find(|name| name.starts_with("recovered")).unwrap();
            let tree = db.open_tree(&name).unwrap().unwrap();
            let left =
                expected.iter().filter(|(key, value)| tree.get_vec(key).unwrap() == Some(value.to_vec()));
            assert_eq!(left.count(), expected.len(), "split: {is_split}");
            settle(&db);
            drop(tree);
            db.close().unwrap();
        }
    }
}

/// What had expired by the clock of the store that a tree comes from does not live again.
#[test]
fn what_had_expired_before_an_import_stays_gone() {
    let disk = SimFs::new(14);
    let at = |hours: u64| {
        let options = options(&disk);
        let env = Env { clock: HourClock::new(hours), ..options.env.clone() };
        options.env(env)
    };
    let (early, late) = (Db::open(STORE, at(0)).unwrap(), Db::open(OTHER, at(0)).unwrap());
    let tree = late.tree("t").unwrap();
    tree.put_for("brief", "1", ttl(2)).unwrap();
    tree.put_for("long", "2", ttl(40)).unwrap();
    late.flush().unwrap();
    late.close().unwrap();
    for (hours, directory) in [(20, "/ahead"), (30, "/far")] {
        let late = Db::open(OTHER, at(hours)).unwrap();
        late.export_tree("t", directory).unwrap();
        assert_eq!(late.open_tree("t").unwrap().unwrap().get_vec("brief").unwrap(), None);
        late.close().unwrap();
    }
    let error = early.import_tree("/far", "t").unwrap_err();
    assert!(error.kind() == ErrorKind::InvalidInput && error.message().contains("clock"), "{error}");
    let (tree, _) = early.import_tree("/ahead", "t").unwrap();
    let check = |tree: &Tree| {
        assert_eq!(tree.get_vec("brief").unwrap(), None);
        assert_eq!(tree.get_vec("long").unwrap(), Some(b"2".to_vec()));
    };
    check(&tree);
    drop((tree, early));
    let disk = disk.crash_keeping(0.0, 1);
    let env = Env { clock: HourClock::new(0), ..options(&disk).env.clone() };
    let early = Db::open(STORE, options(&disk).env(env)).unwrap();
    check(&early.open_tree("t").unwrap().unwrap());
}

/// A rule that does not want to see any table again.
struct KeepsAll;

impl CompactionRule for KeepsAll {
    fn name(&self) -> &str {
        "keeps all"
    }

    fn begin(&self, _: &str) -> Box<dyn RuleRun + '_> {
        Box::new(KeepsAll)
    }
}

impl RuleRun for KeepsAll {
    fn entry(&mut self, _: &RuleContext<'_>, _: &RuleEntry<'_>) -> RuleDecision {
        RuleDecision::Keep
    }
}

/// What a compaction rule has dropped by the time stays garbage: the store's clock is put forward to that time.
#[test]
fn a_tree_with_a_compaction_rule_brings_its_time_along() {
    let disk = SimFs::new(14);
    let at = |hours: u64| {
        let options = options(&disk);
        let env = Env { clock: HourClock::new(hours), ..options.env.clone() };
        options.env(env).compaction_rule(KeepsAll)
    };
    let (late, early) = (Db::open(OTHER, at(20)).unwrap(), Db::open(STORE, at(0)).unwrap());
    let import = |name: &str, options: TreeOptions| {
        late.create_tree(name, options).unwrap().put("k", "1").unwrap();
        let (dir, before_us) = (format!("/export-{name}"), early.default_tree().time_us());
        late.export_tree(name, &dir).unwrap();
        early.import_tree(&dir, name).unwrap().0.time_us() - before_us
    };
    assert_eq!(import("plain", TreeOptions::default()), 0);
    assert_eq!(import("ruled", TreeOptions::default().rule("keeps all")), 20 * HOUR_US);
}

/// Each import may put the clock forward, but all of them together by a day and no more.
#[test]
fn imports_one_after_the_other_put_the_clock_forward_by_a_day_in_all() {
    let disk = SimFs::new(24);
    let at = |hours: u64| {
        let options = options(&disk);
        let env = Env { clock: HourClock::new(hours), ..options.env.clone() };
        options.env(env)
    };
    let late = Db::open(OTHER, at(0)).unwrap();
    late.tree("t").unwrap().put_for("k", "1", ttl(1000)).unwrap();
    late.close().unwrap();
    let early = Db::open(STORE, at(0)).unwrap();
    early.default_tree().put_for("mine", "1", ttl(30)).unwrap();
    let mut taken = Vec::new();
    for hours in [10, 20, 30, 40, 50, 23] {
        let directory = format!("/export-{hours}");
        let late = Db::open("/later", at(hours)).unwrap();
        late.tree("t").unwrap().put_for("k", "1", ttl(1000)).unwrap();
        late.export_tree("t", &directory).unwrap();
        late.close().unwrap();
        drop(late);
        for path in disk.paths().into_iter().filter(|path| path.starts_with("/later")) {
            disk.remove_file(&path).unwrap();
        }
        match early.import_tree(&directory, &format!("t{hours}")) {
            Ok(_) => taken.push(hours),
            Err(error) => assert!(error.message().contains("clock"), "{error}"),
        }
    }
    assert_eq!(taken, [10, 20, 23]);
    assert!(early.contains("mine").unwrap(), "the clock has run away");
}

/// In a store whose clock is 30 years ahead, what was written elsewhere expires 30 years early.
#[test]
fn a_store_whose_clock_is_ahead_takes_no_tree_that_would_expire_early() {
    const YEARS: u64 = 30 * 8766;
    let disk = SimFs::new(25);
    let at = |hours: u64| {
        let options = options(&disk);
        let env = Env { clock: HourClock::new(hours), ..options.env.clone() };
        options.env(env)
    };
    for (hours, dir) in [(YEARS, STORE), (0, OTHER), (YEARS, "/ahead-too")] {
        let db = Db::open(dir, at(hours)).unwrap();
        db.put("k", "1").unwrap();
        db.close().unwrap();
        drop(db);
        if dir != STORE {
            let db = Db::open(dir, at(0)).unwrap();
            db.tree("t").unwrap().put_for("k", "1", ttl(1000)).unwrap();
            db.tree("plain").unwrap().put("k", "1").unwrap();
            for name in ["t", "plain"] {
                db.export_tree(name, format!("/of{dir}-{name}")).unwrap();
            }
            db.close().unwrap();
        }
    }
    let ahead = Db::open(STORE, at(1)).unwrap();
    assert!(ahead.stats().unwrap().clock_ahead_us > 29 * 8766 * HOUR_US);
    let error = ahead.import_tree(format!("/of{OTHER}-t"), "t").unwrap_err();
    assert!(error.kind() == ErrorKind::InvalidInput && error.message().contains("clock"), "{error}");
    ahead.import_tree(format!("/of{OTHER}-plain"), "plain").unwrap();
    let (tree, _) = ahead.import_tree("/of/ahead-too-t", "t").unwrap();
    assert_eq!(tree.get_vec("k").unwrap(), Some(b"1".to_vec()));
}

/// The footer of a file that has nothing of the tree, too, is read: where it is damaged, the descriptors are.
#[test]
fn a_damaged_footer_keeps_no_tree_from_being_exported() {
    let (disk, db, pairs) = filled(15);
    db.close().unwrap();
    let is_blob = |path: &std::path::PathBuf| path.extension() == Some("blob".as_ref());
    for path in disk.paths().into_iter().filter(is_blob) {
        let len = disk.read_all(&path).unwrap().len() as u64;
        disk.flip_byte(&path, len - 20, 1).unwrap();
    }
    assert!(!esker::check(STORE, &options(&disk)).unwrap().findings.is_empty());
    let db = open(&disk, STORE);
    db.export_tree("t", DIR).unwrap();
    let copy = open(&disk, DIR);
    assert!(contents(&copy.open_tree("t").unwrap().unwrap()) == pairs);
}

/// Of two copies into one directory one is made, and the other does not take it away.
#[test]
fn one_of_two_copies_into_one_directory_is_made() {
    let (disk, db, pairs) = filled(16);
    for turn in 0..60 {
        let dir = format!("/both{turn}");
        let made = thread::scope(|scope| {
            let export = scope.spawn(|| db.export_tree("t", &dir).map(drop));
            let other = scope.spawn(|| match turn % 2 {
                0 => db.export_tree("t", &dir).map(drop),
                _ => db.checkpoint(&dir),
            });
            [export.join().unwrap(), other.join().unwrap()]
        });
        let failed: Vec<_> = made.iter().filter_map(|made| made.as_ref().err()).collect();
        assert!(failed.len() == 1 && failed[0].kind() == ErrorKind::AlreadyExists, "{failed:?}");
        let copy = open(&disk, &dir);
        assert!(contents(&copy.open_tree("t").unwrap().unwrap()) == pairs);
        copy.close().unwrap();
        esker::destroy(&dir, &options(&disk)).unwrap();
    }
}

/// Through a symbolic link the import would share, and punch holes in, a file that is another's.
#[cfg(unix)]
#[test]
#[allow(clippy::disallowed_methods, reason = "the store is on the real disk")]
fn symbolic_links_are_not_imported() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let open = |name: &str| Db::open(at(name), Options::default().separate_at(1000)).unwrap();
    let (db, other) = (open("store"), open("other"));
    let tree = db.tree("t").unwrap();
    for number in 0..50_usize {
        tree.put(number.to_be_bytes(), vec![number as u8; number * 100]).unwrap();
    }
    db.export_tree("t", at("exported")).unwrap();
    let names = |dir: &str| {
        let names = fs::read_dir(at(dir)).unwrap().map(|entry| entry.unwrap().path());
        names.collect::<BTreeSet<_>>()
    };
    let before = names("other");
    for ext in ["table", "blob"] {
        let paths = names("exported");
        let path = paths.iter().find(|path| path.extension() == Some(ext.as_ref())).unwrap();
        fs::rename(path, at("elsewhere")).unwrap();
        std::os::unix::fs::symlink(at("elsewhere"), path).unwrap();
        assert_eq!(other.import_tree(at("exported"), "t").unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(names("other"), before);
        fs::remove_file(path).unwrap();
        fs::rename(at("elsewhere"), path).unwrap();
    }
    let (imported, _) = other.import_tree(at("exported"), "t").unwrap();
    assert!(contents(&imported) == contents(&tree));
}
