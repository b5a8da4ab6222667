use std::collections::BTreeMap;

use super::*;
use crate::db::Db;
use crate::env::{Clock, Env, StepExecutor};
use crate::fs::sim::SimFs;
use crate::options::{CompactionStyle, Options, TreeOptions};
use crate::read::range::ScanRange;
use crate::rng::Rng;
use crate::tree::Tree;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Most merges that run at once here.
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

/// A store whose trees have several levels with a few thousand pairs.
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

/// Writes at random to trees of all styles. Again and again begins as many merges as may run at once, writes and
/// flushes meanwhile, and ends them in any order, on one thread or at once. Nothing may be lost, nor come back.
#[test]
fn merges_at_once_change_nothing_that_is_read() {
    let (mut most_in_all, mut most_in_one) = (0, 0);
    // How many merges there are at once also depends on the order in which threads end theirs.
    let (first, least) = (test_kit::seed(0), test_kit::cases(4));
    for seed in first..first + 40 {
        if seed - first >= least && most_in_all >= 3 && most_in_one >= 2 {
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
        for round in 0..80 {
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
    assert!(most_in_all >= 3 && most_in_one >= 2, "{most_in_all} merges at once, {most_in_one} of one tree");
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
