//! Trees with a compaction rule: what readers make of them, and of snapshots, is the same before and after any flush or
//! merge, as if the rule never dropped anything. Markers that mask other keys, times to live, and facts outside the
//! store are all in `cells.rs`.

use std::sync::Arc;

use esker::env::{Clock, Env, StepExecutor};
use esker::fs::sim::SimFs;
use esker::{Db, Snapshot, Tree, TreeOptions};

use crate::common::cells::{Cells, Pairs, ROWS, cell, marker};
use crate::common::{HourClock, Rng, any_style, cases, contents, seed, settle, tiny_options, world};
use crate::ops::JOBS;

/// Operations of a case.
const OPS: u64 = 400;
/// Cases by default.
const CASES: u64 = 60;
/// One case for so many operations of the whole target.
const SHARE: u64 = 10_000;

/// A snapshot, what was there when it was taken, what it showed, and the time.
struct Taken {
    snapshot: Snapshot,
    model: Pairs,
    raw: Vec<Pairs>,
    now_us: u64,
}

struct Case {
    rng: Rng,
    disk: SimFs,
    clock: Arc<HourClock>,
    cells: Cells,
    db: Option<Db>,
    /// By their first rows.
    trees: Vec<(u8, Tree)>,
    /// As if the rule never dropped anything.
    model: Pairs,
    snapshots: Vec<Taken>,
    versions: u64,
    /// From this length on, values are huge.
    separate_at: usize,
}

impl Case {
    fn new(seed: u64) -> Case {
        let mut rng = Rng::new(seed);
        let disk = SimFs::new(rng.next());
        let (clock, cells, trees) = (HourClock::new(0), Cells::default(), Vec::new());
        let (model, snapshots) = (Pairs::new(), Vec::new());
        // Never so little that the rule cannot read markers.
        let separate_at = *rng.pick(&[20, 200, 2000, usize::MAX]);
        let mut case =
            Case { rng, disk, clock, cells, db: None, trees, model, snapshots, versions: 0, separate_at };
        case.open(true);
        let options = TreeOptions::default().rule(Cells::NAME).log(case.rng.one_in(2));
        let options = any_style(&mut case.rng, options);
        case.trees.push((0, case.db().create_tree("cells", options).unwrap()));
        case
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn open(&mut self, with_rule: bool) {
        let env = world(Arc::new(self.disk.clone()), self.rng.next(), Some(Arc::new(StepExecutor)));
        let env = Env { clock: Arc::<HourClock>::clone(&self.clock), ..env };
        let mut options = tiny_options(&mut self.rng, env);
        options.memtable_bytes = Some(4 << 10);
        options.table_bytes = 2 << 10;
        options.separate_at = self.separate_at;
        if with_rule {
            options = options.compaction_rule(self.cells.clone());
        }
        let db = Db::open("/store", options).unwrap();
        for (_, tree) in &mut self.trees {
            *tree = db.tree(tree.name()).unwrap();
        }
        self.db = Some(db);
    }

    fn tree_of(&self, row: u8) -> &Tree {
        &self.trees.iter().rev().find(|(first, _)| *first <= row).unwrap().1
    }

    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.tree_of(key[0]).put(&key, &value).unwrap();
        self.model.insert(key, value);
    }

    fn put_cell(&mut self) {
        let (row, column) = (self.rng.below(ROWS) as u8, self.rng.below(3) as u8);
        let passed = (self.clock.wall_us() - 1_700_000_000_000_000) / crate::common::HOUR_US;
        let hour = if self.rng.one_in(3) { passed + 1 + self.rng.below(20) } else { 0 };
        self.versions += 1;
        let key = cell(row, column, self.versions, self.cells.generation(row), hour.min(255) as u8);
        let len = *self.rng.pick(&[0, 8, 30, 300, 3000]);
        self.put(key, vec![self.versions as u8; len]);
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..55 => self.put_cell(),
            55..63 => {
                let row = self.rng.below(ROWS) as u8;
                self.versions += 1;
                self.put(marker(row), self.versions.to_be_bytes().to_vec());
            }
            63..68 => {
                // Some cell that readers see, again, or none any more. A cell that a marker masks could be seen if it
                // were written again: the marker may be gone. Markers stay: without one, its cells would come back.
                let shown = self.cells.filtered(&self.model, self.clock.wall_us());
                let at = self.rng.below(shown.len().max(1) as u64) as usize;
                let Some(key) = shown.into_keys().nth(at) else { return };
                if self.rng.one_in(2) {
                    self.put(key, b"again".to_vec());
                } else {
                    self.tree_of(key[0]).delete(&key).unwrap();
                    self.model.remove(&key);
                }
            }
            68..70 => {
                let row = self.rng.below(ROWS) as u8;
                self.tree_of(row).delete_range([row]..[row + 1]).unwrap();
                self.model.retain(|key, _| key[0] != row);
            }
            70..73 => {
                // A late write: a marker that is still there masks it, and may not go before it does.
                let row = self.rng.below(ROWS) as u8;
                let Some(masked) = self.tree_of(row).get_vec(marker(row)).unwrap() else { return };
                let masked = u64::from_be_bytes(masked.try_into().unwrap());
                let version = 1 + self.rng.below(masked);
                let key = cell(row, 7, version, self.cells.generation(row), 0);
                self.put(key.clone(), b"late".to_vec());
                // A put that needs memory flushes first, and that may have dropped the marker.
                if !self.tree_of(row).contains(marker(row)).unwrap() {
                    self.tree_of(row).delete(&key).unwrap();
                    self.model.remove(&key);
                }
            }
            73 => self.cells.next_generation(self.rng.below(ROWS) as u8),
            74..77 => self.clock.pass(self.rng.below(4)),
            77..82 => self.db().flush().unwrap(),
            82..84 => self.db().compact().unwrap(),
            84..88 => {
                let job = JOBS[self.rng.below(JOBS.len() as u64) as usize];
                for &job in job {
                    self.db().step(job);
                }
            }
            88..90 => settle(self.db()),
            90..94 if self.snapshots.len() < 3 => {
                let snapshot = self.db().snapshot();
                let raw = self.trees.iter().map(|(_, tree)| of_snapshot(&snapshot, tree)).collect();
                let (model, now_us) = (self.model.clone(), self.clock.wall_us());
                self.snapshots.push(Taken { snapshot, model, raw, now_us });
            }
            90..96 if !self.snapshots.is_empty() => {
                let at = self.rng.below(self.snapshots.len() as u64) as usize;
                drop(self.snapshots.remove(at));
            }
            96..97 if self.trees.len() < 3 && self.snapshots.is_empty() => {
                let (last, tree) = self.trees.last().unwrap();
                let at = last + 1 + self.rng.below(ROWS - u64::from(*last)) as u8;
                let new = self.db().split(tree, [at], &format!("from {at}")).unwrap();
                self.trees.push((at, new));
            }
            97 => {
                self.snapshots.clear();
                self.db.take().unwrap().close().unwrap();
                let with_rule = !self.rng.one_in(3);
                self.open(with_rule);
            }
            _ => {}
        }
    }

    fn check(&self) {
        let found: Pairs = self.trees.iter().flat_map(|(_, tree)| contents(tree)).collect();
        let now_us = self.clock.wall_us();
        same(&self.cells.filtered(&found, now_us), &self.cells.filtered(&self.model, now_us), "the trees");
        for (key, value) in &found {
            assert_eq!(self.model.get(key), Some(value), "it is there, and was never written so");
            assert_eq!(self.tree_of(key[0]).get_vec(key).unwrap().as_ref(), Some(value));
        }
        for taken in &self.snapshots {
            let of_trees = self.trees.iter().map(|(_, tree)| of_snapshot(&taken.snapshot, tree));
            let raw: Vec<Pairs> = of_trees.collect();
            let lasting = |pairs: &Pairs| -> Pairs {
                let lasting = pairs.iter().filter(|(key, _)| !Cells::is_over(key, taken.now_us));
                lasting.map(|(key, value)| (key.clone(), value.clone())).collect()
            };
            for (now, before) in raw.iter().zip(&taken.raw) {
                same(&lasting(now), &lasting(before), "all that a snapshot sees and that is not over");
            }
            let raw = raw.into_iter().flatten().collect();
            let expected = self.cells.filtered(&taken.model, taken.now_us);
            same(&self.cells.filtered(&raw, taken.now_us), &expected, "a snapshot");
        }
    }
}

/// Names the keys that differ: values are long.
fn same(found: &Pairs, expected: &Pairs, what: &str) {
    let differ = |a: &Pairs, b: &Pairs| -> Vec<Vec<u8>> {
        a.iter().filter(|(key, value)| b.get(*key) != Some(value)).map(|(key, _)| key.clone()).collect()
    };
    let (more, less) = (differ(found, expected), differ(expected, found));
    assert!(more.is_empty() && less.is_empty(), "{what}: too many or wrong {more:?}, missing {less:?}");
}

fn of_snapshot(snapshot: &Snapshot, tree: &Tree) -> Pairs {
    snapshot.scan(tree, ..).unwrap().collect::<esker::Result<_>>().unwrap()
}

#[test]
fn what_readers_filter_is_the_same_before_and_after_any_merge() {
    let (mut drops, mut merges) = (0, 0);
    // A share of the operations of the whole target.
    let some = (cases(CASES * SHARE) / SHARE).max(1);
    let first = seed(0);
    for seed in first..first + some {
        println!("ESKER_SEED={seed}");
        let mut case = Case::new(seed);
        for _ in 0..OPS {
            case.step();
            if case.rng.one_in(10) {
                case.check();
            }
        }
        case.check();
        let stats = case.db().stats().unwrap();
        (drops, merges) = (drops + stats.rule_drops, merges + stats.merges);
        assert_eq!(stats.rule_panics, 0);
        // In the end nothing is left but what readers see.
        case.snapshots.clear();
        case.db.take().unwrap().close().unwrap();
        case.open(true);
        for _ in 0..2 {
            case.db().compact().unwrap();
        }
        settle(case.db());
        case.check();
        let found: Pairs = case.trees.iter().flat_map(|(_, tree)| contents(tree)).collect();
        let shown = case.cells.filtered(&case.model, case.clock.wall_us());
        same(&found, &shown, "what is left in the end");
        settle(case.db());
        let huge = found.values().filter(|value| value.len() >= case.separate_at).count() as u64;
        assert_eq!(case.db().stats().unwrap().blob_values, huge, "huge values that are needed");
        case.db.take().unwrap().close().unwrap();
    }
    assert!(drops > 0 && merges > 0, "the test has lost its teeth: {drops} drops, {merges} merges");
}
