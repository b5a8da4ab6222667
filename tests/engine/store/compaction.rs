//! The styles of merging: what a tree's tables come to, whatever its style, and that the same is read from all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use esker::env::{JobKind, StepExecutor};
use esker::fs::sim::SimFs;
use esker::{CompactionStyle, Db, ErrorKind, MergeOperator, Options, ScanRange, Stats, Tree, TreeOptions};

use crate::common::{Rng, any_style, contents, seeds, settle, tiny_options, world};

const STORE: &str = "/store";
const BOTTOM: usize = 6;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(disk: &SimFs) -> Db {
    open_with(disk, |options| options)
}

fn open_with(disk: &SimFs, change: impl FnOnce(Options) -> Options) -> Db {
    let env = world(Arc::new(disk.clone()), 9, Some(Arc::new(StepExecutor)));
    let mut options = Options::default().env(env).memory_budget(8 << 20);
    options.memtable_bytes = Some(32 << 10);
    options.table_bytes = 64 << 10;
    Db::open(STORE, change(options)).unwrap()
}

fn tree_of(db: &Db, style: CompactionStyle, ratio: u8) -> Tree {
    db.create_tree("t", TreeOptions::default().compaction(style).size_ratio(ratio)).unwrap()
}

/// Puts the keys of `numbers`, scattered, and does all background work as it comes.
fn fill(db: &Db, tree: &Tree, numbers: impl Iterator<Item = u64>) {
    for (i, number) in numbers.enumerate() {
        let key = (number as u32).wrapping_mul(0x9e37_79b1);
        tree.put(key.to_be_bytes(), [i as u8; 100]).unwrap();
        if i % 50 == 0 {
            settle(db);
        }
    }
    tree.flush().unwrap();
    settle(db);
}

fn of(stats: &Stats) -> (Vec<u64>, Vec<u64>) {
    let tree = stats.trees.iter().find(|tree| tree.name == "t").unwrap();
    (tree.bytes_by_level.clone(), tree.tables_by_level.clone())
}

#[test]
fn tiered_writes_least_and_leveled_most() {
    let written =
        [CompactionStyle::Tiered, CompactionStyle::LazyLeveled, CompactionStyle::Leveled].map(|style| {
            let db = open(&SimFs::new(1));
            let tree = tree_of(&db, style, 10);
            fill(&db, &tree, 0..40_000);
            assert_eq!(tree.count(ScanRange::all()).unwrap(), 40_000);
            db.stats().unwrap().merged_bytes_out
        });
    assert!(written.is_sorted(), "{written:?}");
    assert!(written[0] * 2 < written[2], "{written:?}");
}

#[test]
fn the_bottom_of_a_lazy_tree_holds_most() {
    let db = open(&SimFs::new(2));
    let tree = tree_of(&db, CompactionStyle::LazyLeveled, 4);
    let mut rng = Rng::new(2);
    for _ in 0..20 {
        fill(&db, &tree, (0..4_000).map(|_| rng.below(20_000)));
        let (bytes, _) = of(&db.stats().unwrap());
        // A fourth, and what three flushes bring, since merging waits for a fourth one.
        let above: u64 = bytes[..BOTTOM].iter().sum();
        assert!(above <= bytes[BOTTOM] / 4 + (128 << 10), "{bytes:?}");
        assert!(bytes[1..BOTTOM].iter().all(|&bytes| bytes == 0), "{bytes:?}");
    }
}

#[test]
fn keys_in_order_are_never_rewritten_and_one_run() {
    for style in [CompactionStyle::Tiered, CompactionStyle::LazyLeveled] {
        let db = open(&SimFs::new(3));
        let tree = tree_of(&db, style, 2);
        for i in 0..20_000_u32 {
            tree.put(i.to_be_bytes(), [7; 100]).unwrap();
            settle(&db);
        }
        db.flush().unwrap();
        settle(&db);
        let stats = db.stats().unwrap();
        assert_eq!(stats.merged_bytes_out, 0, "{style:?}: {:?}", of(&stats));
        let (_, trace) = db.trace(|| tree.scan(ScanRange::all()).unwrap().count());
        assert!(trace.to_string().contains("scan over 1 "), "{trace}");
    }
}

#[test]
fn options_are_kept_and_refused_out_of_range() {
    let disk = SimFs::new(4);
    let style = TreeOptions::default().compaction(CompactionStyle::Tiered).size_ratio(7);
    {
        let db = open(&disk);
        let tree = db.create_tree("t", style.clone()).unwrap();
        db.default_tree().set_options(style.clone().size_ratio(3)).unwrap();
        for bad in [style.clone().size_ratio(1), style.clone().size_ratio(33), style.clone().log(false)] {
            assert_eq!(tree.set_options(bad).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        let refused = db.create_tree("u", style.clone().size_ratio(0));
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
        db.close().unwrap();
    }
    let db = open(&disk);
    assert_eq!(db.tree("t").unwrap().options(), style);
    assert_eq!(db.default_tree().options(), style.size_ratio(3));
}

#[test]
fn a_long_merge_is_interrupted_for_short_ones() {
    let db = open(&SimFs::new(5));
    let (tree, other) = (tree_of(&db, CompactionStyle::Tiered, 10), db.default_tree());
    let runs = |tree: &Tree, numbers: std::ops::Range<u32>, step: usize| {
        for i in numbers {
            for k in (i..i + 100).step_by(step) {
                tree.put(k.wrapping_mul(0x9e37_79b1).to_be_bytes(), [7; 100]).unwrap();
            }
            tree.flush().unwrap();
        }
    };
    // Thirty runs are three times as urgent as four small ones of a leveled tree.
    runs(&tree, 0..30, 1);
    runs(other, 0..5, 10);
    let level_0 = || {
        let stats = db.stats().unwrap();
        stats.trees.iter().map(|tree| tree.tables_by_level[0]).collect::<Vec<_>>()
    };
    // The first of each met nothing, and is at the bottom.
    assert_eq!(level_0(), [4, 29]);
    assert!(db.step(JobKind::Compact));
    assert_eq!(level_0(), [0, 0], "the short merge has waited for the long one");
    assert_eq!(db.stats().unwrap().merges, 2);
}

/// Has runs written to a tree when it is applied first, which is while others are being merged.
struct Meanwhile(Arc<Mutex<Option<Tree>>>);

impl MergeOperator for Meanwhile {
    fn name(&self) -> &str {
        "meanwhile"
    }

    fn apply(&self, _: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        if let Some(tree) = self.0.lock().unwrap().take() {
            for run in 0..5_u32 {
                (0..50_u32).for_each(|i| tree.put((i * 7 + run).to_be_bytes(), [run as u8; 100]).unwrap());
                tree.flush().unwrap();
            }
        }
        Ok(operands.concat())
    }
}

#[test]
fn newer_runs_of_a_tree_are_merged_while_older_ones_are() {
    let waiting = Arc::new(Mutex::new(None));
    let db = open_with(&SimFs::new(6), |options| options.merge_operator(Meanwhile(Arc::clone(&waiting))));
    let tree = tree_of(&db, CompactionStyle::Tiered, 4);
    let mut model = Pairs::new();
    for run in 0..20_u32 {
        for i in 0..100_u32 {
            let key = (1_000 + i * 13 + run).to_be_bytes();
            tree.put(key, [run as u8; 100]).unwrap();
            model.insert(key.to_vec(), vec![run as u8; 100]);
        }
        tree.merge(0_u32.to_be_bytes(), "meanwhile", "x").unwrap();
        tree.flush().unwrap();
    }
    *waiting.lock().unwrap() = Some(tree.clone());
    assert!(db.step(JobKind::Compact));
    assert!(waiting.lock().unwrap().is_none());
    let (_, tables) = of(&db.stats().unwrap());
    assert_eq!((db.stats().unwrap().merges, tables[0]), (2, 1), "five new runs are one by now");
    for run in 0..5_u32 {
        model.extend((0..50_u32).map(|i| ((i * 7 + run).to_be_bytes().to_vec(), vec![run as u8; 100])));
    }
    assert_eq!(contents(&tree), model);
    settle(&db);
    assert_eq!(contents(&tree), model);
}

/// What was written before an ingest is older, though its key is not among those that were ingested: it must not be flushed
/// into a run that counts as older than what the ingested tables are merged with.
#[test]
fn what_was_in_memory_before_an_ingest_comes_before_it() {
    let db = open(&SimFs::new(7));
    let tree = tree_of(&db, CompactionStyle::Tiered, 2);
    let key = |i: u32| i.to_be_bytes();
    let run = |numbers: std::ops::Range<u32>| {
        numbers.for_each(|i| tree.put(key(i), [0; 100]).unwrap());
        tree.flush().unwrap();
    };
    run(1_000..1_200);
    run(1_000..1_080);
    tree.put(key(1), "first").unwrap();
    tree.put(key(1_079), "new").unwrap();
    let mut ingest = tree.ingest().unwrap();
    (1_000..1_060).for_each(|i| ingest.put(key(i), [1; 100]).unwrap());
    ingest.commit().unwrap();
    settle(&db);
    tree.flush().unwrap();
    assert_eq!(tree.get_vec(key(1_079)).unwrap().as_deref(), Some(&b"new"[..]));
    for _ in 0..4 {
        tree.put(key(2), "another run").unwrap();
        tree.flush().unwrap();
        settle(&db);
    }
    assert_eq!(tree.get_vec(key(1_079)).unwrap().as_deref(), Some(&b"new"[..]));
}

/// Ways of merging change under way; a model follows.
#[test]
fn whatever_the_style_the_same_is_read() {
    for seed in seeds(10) {
        println!("seed {seed}");
        let (disk, mut rng) = (SimFs::new(seed), Rng::new(seed));
        let mut model = Pairs::new();
        for _life in 0..3 {
            let env = world(Arc::new(disk.clone()), seed, Some(Arc::new(StepExecutor)));
            let db = Db::open(STORE, tiny_options(&mut rng, env)).unwrap();
            let tree = db.default_tree();
            for step in 0..3_000_u64 {
                let key = rng.below(2_000).to_be_bytes().to_vec();
                match rng.below(100) {
                    0..70 => {
                        let value = vec![step as u8; rng.index(120)];
                        tree.put(&key, &value).unwrap();
                        model.insert(key, value);
                    }
                    70..90 => {
                        tree.delete(&key).unwrap();
                        model.remove(&key);
                    }
                    90..98 => drop((0..rng.below(4)).all(|_| JobKind::ALL.iter().any(|&job| db.step(job)))),
                    98 => tree.set_options(any_style(&mut rng, tree.options())).unwrap(),
                    _ => assert_eq!(tree.get_vec(&key).unwrap(), model.get(&key).cloned()),
                }
            }
            assert_eq!(contents(tree), model);
            settle(&db);
            assert_eq!(contents(tree), model);
            db.close().unwrap();
        }
    }
}

/// One pair by each of many programs, which end before their background work begins.
#[test]
fn programs_that_put_one_pair_and_end_leave_few_tables() {
    for style in CompactionStyle::ALL {
        let disk = SimFs::new(3);
        tree_of(&open(&disk), *style, 4);
        for i in 0..150_u32 {
            let db = open(&disk);
            db.tree("t").unwrap().put(i.wrapping_mul(0x9e37_79b1).to_be_bytes(), i.to_be_bytes()).unwrap();
            db.close().unwrap();
        }
        let db = open(&disk);
        let (_, tables) = of(&db.stats().unwrap());
        assert!(tables.iter().sum::<u64>() < 25, "{style:?}: {tables:?}");
        assert_eq!(db.tree("t").unwrap().count(ScanRange::all()).unwrap(), 150);
    }
}

/// An opening that finds much to merge leaves it to the background.
#[test]
fn an_opening_does_no_long_merge() {
    let disk = SimFs::new(4);
    let db = open_with(&disk, |mut options| {
        options.memtable_bytes = Some(4 << 20);
        options
    });
    let tree = tree_of(&db, CompactionStyle::Leveled, 10);
    let mut rng = Rng::new(4);
    for _ in 0..12 {
        for _ in 0..2_000 {
            tree.put(rng.below(1 << 40).to_be_bytes(), rng.bytes(800)).unwrap();
        }
        tree.flush().unwrap();
    }
    db.close().unwrap();
    let db = open(&disk);
    assert_eq!(db.stats().unwrap().merges, 0);
    settle(&db);
    assert!(db.stats().unwrap().merges > 0);
}
