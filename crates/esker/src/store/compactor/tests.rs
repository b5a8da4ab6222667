use std::collections::BTreeMap;

use super::*;
use crate::db::Db;
use crate::env::{Clock, Env, JobKind, StepExecutor};
use crate::fs::sim::SimFs;
use crate::options::{CompactionStyle, Options, TreeOptions};
use crate::read::range::ScanRange;
use crate::rng::Rng;
use crate::tree::Tree;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The most merges that run at the same time here.
const AT_ONCE: usize = 4;

/// Time stands still, and throttled writers do not wait.
#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn wall_us(&self) -> u64 {
        1_000_000
    }

    fn monotonic_us(&self) -> u64 {
        1_000_000
    }

    fn sleep(&self, _: std::time::Duration) {}
}

/// A store whose trees have several levels with a few thousand pairs each.
fn open(disk: &SimFs) -> Db {
    let (fs, executor) = (Arc::new(disk.clone()), Some(Arc::new(StepExecutor) as _));
    let env = Env { fs, executor, clock: Arc::new(Still), ..Env::system() };
    let mut options = Options::default().memory_budget(8 << 20).env(env).create(true);
    options.memtable_bytes = Some(1 << 10);
    options.table_bytes = 1 << 10;
    Db::open("/store", options).unwrap()
}

fn contents(tree: &Tree) -> Pairs {
    tree.scan(ScanRange::all()).unwrap().collect::<Result<_>>().unwrap()
}

/// Begins merges as threads would that begin one after the other.
fn begin_some(compactor: &Compactor) -> Vec<Step> {
    std::iter::from_fn(|| compactor.choose()).take(AT_ONCE).collect()
}

fn end(compactor: &Compactor, step: Step) {
    match step {
        Step::Merge(begun) => compactor.do_begun(begun).unwrap(),
        Step::Drop(tree, unmerged) => {
            compactor.drop_deleted(&tree).unwrap();
            drop(unmerged);
            compactor.compactions.add([tree]);
        }
    }
}

/// The merges of the same tree.
fn in_one_tree(steps: &[Step]) -> usize {
    let tree_of = |step: &Step| match step {
        Step::Merge(begun) => Some(begun.tree.id),
        Step::Drop(..) => None,
    };
    let trees: Vec<_> = steps.iter().filter_map(tree_of).collect();
    let count = |id| trees.iter().filter(|tree| **tree == id).count();
    trees.iter().map(|&id| count(id)).max().unwrap_or(0)
}

/// Writes at random to trees of all styles. Repeatedly begins as many merges as may run at the same time, writes and
/// flushes meanwhile, and ends them in any order, on one thread or on several. No entry may be lost or come back.
#[test]
fn merges_at_once_change_nothing_that_is_read() {
    let (mut most_in_all, mut most_in_one) = (0, 0);
    // How many merges run at the same time also depends on the order in which threads end theirs.
    let (first, amount) = (test_kit::seed(0), test_kit::cases(80));
    let (rounds, least) = (amount.min(80), amount.div_ceil(20));
    let are_many = |in_all, in_one| in_all >= 3 && in_one >= 2;
    for seed in first..first + 40 {
        if seed - first >= least && (are_many(most_in_all, most_in_one) || !test_kit::is_full_run()) {
            break;
        }
        println!("seed {seed}");
        let disk = SimFs::new(seed);
        disk.set_writeback(0.0);
        let (db, mut rng) = (open(&disk), Rng::new(seed));
        let styles = [CompactionStyle::Leveled, CompactionStyle::Tiered, CompactionStyle::LazyLeveled];
        let trees: Vec<Tree> = (0..6)
            .map(|i| {
                let options =
                    TreeOptions::default().compaction(styles[i % 3]).size_ratio(2 + i as u8 / 3 * 2);
                db.create_tree(&format!("t{i}"), options).unwrap()
            })
            .collect();
        let mut models = vec![Pairs::new(); trees.len()];
        let write = |rng: &mut Rng, models: &mut Vec<Pairs>| {
            for _ in 0..rng.below(200) {
                let at = rng.index(trees.len());
                let key = (rng.below(3_000) as u32).wrapping_mul(0x9e37_79b1).to_be_bytes().to_vec();
                match rng.index(200) {
                    0 => {
                        let upper = [key[0].saturating_add(8)];
                        trees[at].delete_range(key.clone()..upper.to_vec()).unwrap();
                        models[at].retain(|other, _| *other < key || other[..] >= upper[..]);
                    }
                    1..60 => {
                        trees[at].delete(&key).unwrap();
                        models[at].remove(&key);
                    }
                    _ => {
                        let value = rng.next().to_be_bytes().repeat(4);
                        trees[at].put(&key, &value).unwrap();
                        models[at].insert(key, value);
                    }
                }
            }
            if rng.index(2) == 0 {
                db.flush().unwrap();
            }
        };
        for round in 0..rounds {
            write(&mut rng, &mut models);
            let compactor = db.store().compactor();
            let snapshot = (rng.index(3) == 0).then(|| (db.snapshot(), models.clone()));
            let mut steps = begin_some(compactor);
            (most_in_all, most_in_one) = (most_in_all.max(steps.len()), most_in_one.max(in_one_tree(&steps)));
            write(&mut rng, &mut models);
            if rng.index(2) == 0 {
                std::thread::scope(|scope| {
                    steps.drain(..).for_each(|step| drop(scope.spawn(|| end(compactor, step))));
                });
            }
            while !steps.is_empty() {
                let step = steps.swap_remove(rng.index(steps.len()));
                end(compactor, step);
                write(&mut rng, &mut models);
            }
            compactor.forget_ranges().unwrap();
            db.store().disk().remove_obsolete().unwrap();
            for (i, (tree, model)) in trees.iter().zip(&models).enumerate() {
                assert_eq!(&contents(tree), model, "seed {seed}, round {round}, tree {i}");
            }
            if let Some((snapshot, models)) = snapshot {
                for (tree, model) in trees.iter().zip(&models) {
                    let pairs: Pairs =
                        snapshot.scan(tree, ScanRange::all()).unwrap().collect::<Result<_>>().unwrap();
                    assert_eq!(&pairs, model, "seed {seed}, round {round}");
                }
            }
        }
        db.close().unwrap();
        let db = open(&disk);
        for (i, model) in models.iter().enumerate() {
            assert_eq!(&contents(&db.tree(&format!("t{i}")).unwrap()), model, "seed {seed}");
        }
        db.close().unwrap();
    }
    if test_kit::is_full_run() {
        let many = are_many(most_in_all, most_in_one);
        assert!(many, "{most_in_all} merges at once, {most_in_one} of one tree");
    }
}

/// Two ranges of one tree, on threads that wait for each other: each merge has begun before any ends.
#[test]
fn two_ranges_of_a_tree_are_merged_at_once() {
    let db = open(&SimFs::new(1));
    let (tree, compactor) = (db.default_tree().clone(), db.store().compactor());
    let mut model = Pairs::new();
    let mut begun = Vec::new();
    for i in 0..60_000_u32 {
        let key = i.wrapping_mul(0x9e37_79b1).to_be_bytes();
        tree.put(key, [i as u8; 40]).unwrap();
        model.insert(key.to_vec(), vec![i as u8; 40]);
        if i % 500 == 499 {
            db.flush().unwrap();
            begun = begin_some(compactor);
            if in_one_tree(&begun) >= 2 {
                break;
            }
            while !begun.is_empty() {
                begun.drain(..).for_each(|step| end(compactor, step));
                begun = begin_some(compactor);
            }
            db.store().disk().remove_obsolete().unwrap();
        }
    }
    assert!(in_one_tree(&begun) >= 2, "the merges of a tree met again and again");
    let all_run = std::sync::Barrier::new(begun.len());
    std::thread::scope(|scope| {
        for step in begun {
            let all_run = &all_run;
            scope.spawn(move || {
                all_run.wait();
                end(compactor, step);
            });
        }
    });
    assert_eq!(contents(&tree), model);
    db.close().unwrap();
}

/// A store with one tree, whose 2,000 pairs lie in tables.
fn full() -> (Db, Tree) {
    let env = Env { executor: Some(Arc::new(StepExecutor)), clock: Arc::new(Still), ..Env::system() };
    let mut options = Options::default().env(env);
    options.table_bytes = 16 << 10;
    let db = Db::open_in_memory(options).unwrap();
    let tree = db.default_tree().clone();
    for key in 0..2000_u32 {
        tree.put(key.to_be_bytes(), [7; 40]).unwrap();
    }
    db.compact().unwrap();
    (db, tree)
}

fn work(db: &Db) {
    while JobKind::ALL.iter().any(|job| db.step(*job)) {}
}

/// How many entries a scan passes until its first pair.
fn passed_to_first(tree: &Tree, backward: bool) -> u64 {
    let range = if backward { ScanRange::all().reverse() } else { ScanRange::all() };
    let mut scan = tree.scan(range).unwrap();
    scan.advance().unwrap();
    scan.passed()
}

/// A queue that lies in tables, from either end: a walk to its first pair passes few dead entries, however many there
/// were, and merges read little for each that has gone.
#[test]
fn walks_that_pass_dead_entries_have_tables_merged() {
    for backward in [false, true] {
        let (db, tree) = full();
        let before = db.stats().unwrap();
        let mut most = 0;
        for round in 0..2000_u32 {
            let key = if backward { 1999 - round } else { round };
            most = most.max(passed_to_first(&tree, backward));
            tree.delete(key.to_be_bytes()).unwrap();
            work(&db);
        }
        let stats = db.stats().unwrap();
        let (merges, read) = (stats.merges - before.merges, stats.merged_bytes_in - before.merged_bytes_in);
        assert!(most < 200, "{most} entries passed, {merges} merges");
        assert!((10..400).contains(&merges), "{merges} merges");
        assert!(read < 4 << 20, "{read} bytes read by merges");
        assert_eq!(tree.count(..).unwrap(), 0);
    }
}

/// The same with a queue of groups, each deleted as a range. The memtable has no entries in these ranges.
#[test]
fn walks_that_pass_deleted_ranges_have_tables_merged() {
    let (db, tree) = full();
    let before = db.stats().unwrap();
    let mut most = 0;
    for group in 0..200_u32 {
        most = most.max(passed_to_first(&tree, false));
        tree.delete_range((10 * group).to_be_bytes()..(10 * group + 10).to_be_bytes()).unwrap();
        work(&db);
    }
    let stats = db.stats().unwrap();
    let (merges, read) = (stats.merges - before.merges, stats.merged_bytes_in - before.merged_bytes_in);
    assert!(most < 500, "{most} entries passed, {merges} merges");
    assert!((3..200).contains(&merges), "{merges} merges");
    assert!(read < 4 << 20, "{read} bytes read by merges");
    assert_eq!(tree.count(..).unwrap(), 0);
}

/// Entries that a snapshot needs are merged a few times in vain, and once more after the snapshot has gone.
#[test]
fn what_a_snapshot_needs_is_not_merged_again_and_again() {
    let (db, tree) = full();
    let snapshot = db.snapshot();
    for key in 0..1000_u32 {
        tree.delete(key.to_be_bytes()).unwrap();
    }
    let before = db.stats().unwrap().merges;
    for _ in 0..500 {
        assert!(passed_to_first(&tree, false) >= 1000);
        work(&db);
    }
    let merges = db.stats().unwrap().merges - before;
    assert!(merges <= 2, "{merges} merges");
    assert_eq!(snapshot.scan(&tree, ..).unwrap().count(), 2000);
    drop(snapshot);
    for _ in 0..20 {
        passed_to_first(&tree, false);
        work(&db);
    }
    assert!(passed_to_first(&tree, false) < 100);
    assert_eq!(tree.count(..).unwrap(), 1000);
}

/// Values that were overwritten after they had been flushed do not cost later walks anything.
#[test]
fn walks_that_pass_older_versions_have_them_merged() {
    let (db, tree) = full();
    for round in 1..4_u8 {
        for key in 0..100_u32 {
            tree.put(key.to_be_bytes(), [round; 40]).unwrap();
        }
        db.flush().unwrap();
    }
    let passed = |tree: &Tree| {
        let mut scan = tree.scan(..100_u32.to_be_bytes()).unwrap();
        while scan.advance().unwrap() {}
        scan.passed()
    };
    for _ in 0..20 {
        passed(&tree);
        work(&db);
    }
    assert_eq!(passed(&tree), 0);
}

/// Groups of 100 pairs of 10 KB. In all but the last, as many keys as that are deleted that do not exist: each
/// such merge looks better than the merge of the last group, of which more than half is deleted.
#[test]
fn merges_that_give_nothing_back_do_not_hide_one_that_does() {
    const GROUPS: u32 = 100;
    let env = Env { executor: Some(Arc::new(StepExecutor)), clock: Arc::new(Still), ..Env::system() };
    let mut options = Options::default().env(env).separate_at(usize::MAX);
    options.table_bytes = 1 << 20;
    let db = Db::open_in_memory(options).unwrap();
    let (tree, mut rng) = (db.default_tree().clone(), Rng::new(3));
    for group in 0..GROUPS {
        for i in 0..100 {
            let value: Vec<u8> = (0..10_000).map(|_| rng.next() as u8).collect();
            tree.put(format!("{group:03} {i:03}"), value).unwrap();
        }
    }
    db.compact().unwrap();
    for group in 0..GROUPS {
        let is_last = group == GROUPS - 1;
        for i in 0..if is_last { 60 } else { 100 } {
            tree.delete(format!("{group:03} {i:03}{}", if is_last { "" } else { " none" })).unwrap();
        }
        db.flush().unwrap();
    }
    let compactor = db.store().compactor();
    let bytes = || tree.inner().state.load().levels.tables().map(|(_, table)| table.info.size).sum::<u64>();
    let before = bytes();
    for _ in 0..GROUPS {
        compactor.space.look_soon();
        compactor.merge_for_space().unwrap();
    }
    assert!(bytes() < before - 550_000, "{} of {before} bytes", bytes());
}

/// Each part of a tree has a table of dead entries above the bottom level, and tombstones of all parts lie above these. A
/// merge of a part writes next to nothing, so little room suffices for the cut before it.
#[test]
fn what_is_dead_above_the_bottom_level_needs_no_room() {
    let env = Env { executor: Some(Arc::new(StepExecutor)), clock: Arc::new(Still), ..Env::system() };
    let mut options = Options::default().env(env).separate_at(usize::MAX);
    options.table_bytes = 1 << 20;
    let db = Db::open_in_memory(options).unwrap();
    let (tree, mut rng) = (db.default_tree().clone(), Rng::new(3));
    let mut put = |key: Vec<u8>| {
        let value: Vec<u8> = (0..10_000).map(|_| rng.next() as u8).collect();
        tree.put(key, value).unwrap();
    };
    (0..300).for_each(|i| put(format!("{i:03}").into_bytes()));
    db.compact().unwrap();
    let bottom = Arc::clone(&tree.inner().state.load().levels);
    assert!(bottom.level(BOTTOM).len() > 1);
    for table in bottom.level(BOTTOM) {
        (0..100).for_each(|i| put([&table.info.smallest[..], format!(" {i:03}").as_bytes()].concat()));
        db.flush().unwrap();
    }
    for key in contents(&tree).into_keys() {
        tree.delete(key).unwrap();
    }
    db.flush().unwrap();
    let compactor = db.store().compactor();
    compactor.space.look_soon();
    // As if no merge of the whole tree had room.
    let look = compactor.space.look(256 << 10, |_| false, |_, _| false).unwrap();
    assert!(matches!(look, Look::Found(found) if found.compaction.cut.is_some()));
}
