//! The space of what was deleted or replaced comes back though nothing asks for it, also while nothing is written; and
//! little is merged for that.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use esker::env::{Env, Executor, JobKind, StepExecutor, Worker};
use esker::fs::FileSystem;
use esker::fs::sim::SimFs;
use esker::{CompactionStyle, Db, Options, ScanRange, Stats, Tree, TreeOptions};

use crate::common::row_markers::{RowMarkers, cell, marker};
use crate::common::{Rng, settle, world};

const STORE: &str = "/store";
const VALUE: usize = 960;

/// A store whose background work and clock the test moves.
struct World {
    disk: SimFs,
    options: Options,
}

impl World {
    fn new() -> World {
        let disk = SimFs::new(1);
        let env = world(Arc::new(disk.clone()), 1, Some(Arc::new(StepExecutor)));
        let mut options = Options::default().memory_budget(8 << 20).separate_at(usize::MAX).env(env);
        options.memtable_bytes = Some(1 << 20);
        options.table_bytes = 1 << 20;
        World { disk, options }
    }

    fn env(&self) -> &Env {
        &self.options.env
    }

    fn open(&self) -> Db {
        Db::open(STORE, self.options.clone()).unwrap()
    }

    /// So many seconds pass without a write.
    fn pass(&self, db: &Db, seconds: u64) {
        for _ in 0..seconds {
            self.env().clock.sleep(Duration::from_secs(1));
            settle(db);
        }
    }

    /// All files with their bytes.
    fn files(&self) -> Vec<(PathBuf, u64)> {
        let paths = self.disk.paths().into_iter().filter(|path| path.starts_with(STORE));
        paths.map(|path| (path.clone(), self.disk.allocated_bytes(&path).unwrap())).collect()
    }
}

fn table_bytes(db: &Db) -> u64 {
    db.stats().unwrap().trees.iter().map(|tree| tree.table_bytes).sum()
}

fn key(i: u32) -> String {
    format!("key {i:08}")
}

fn put(tree: &Tree, rng: &mut Rng, i: u32, len: usize) {
    tree.put(key(i), rng.bytes(len)).unwrap();
}

fn fill(db: &Db, tree: &Tree, rows: u32) {
    let mut rng = Rng::new(7);
    for i in 0..rows {
        put(tree, &mut rng, i, VALUE);
        if i % 500 == 0 {
            settle(db);
        }
    }
    settle(db);
}

const ROWS: u32 = 16_000;

/// A name, and a way to end all rows of a tree.
type Way = (&'static str, fn(&Tree));

const WAYS: &[Way] = &[
    ("points", |tree| (0..ROWS).for_each(|i| tree.delete(key(i)).unwrap())),
    ("one range", |tree| tree.delete_range(ScanRange::all()).unwrap()),
    ("many ranges", |tree| {
        for i in (0..ROWS).step_by(10) {
            tree.delete_range(key(i)..key(i + 10)).unwrap();
        }
    }),
    ("short values", |tree| (0..ROWS).for_each(|i| tree.put(key(i), "x").unwrap())),
];

#[test]
fn what_was_ended_gives_its_space_back_while_nothing_is_written() {
    let (is_full, mut rng) = (test_kit::is_full_run(), Rng::new(test_kit::seed(0)));
    for &style in CompactionStyle::ALL {
        for (way, end) in WAYS {
            for reopened in [false, true].into_iter().filter(|_| is_full || rng.one_in(2)) {
                let world = World::new();
                let mut db = world.open();
                let tree = db.create_tree("rows", TreeOptions::default().compaction(style)).unwrap();
                fill(&db, &tree, ROWS);
                if style == CompactionStyle::Leveled {
                    db.compact().unwrap();
                }
                let before = table_bytes(&db);
                assert!(before > u64::from(ROWS) * 900, "{before}");
                end(&tree);
                settle(&db);
                if reopened {
                    drop(tree);
                    db.close().unwrap();
                    db = world.open();
                }
                world.pass(&db, 8);
                let left = table_bytes(&db);
                assert!(left <= before / 20, "{style:?}, {way}, reopened {reopened}: {left} of {before}");
                world.pass(&db, 82);
                let (left, files) = (table_bytes(&db), world.files());
                let taken: u64 = files.iter().map(|(_, bytes)| bytes).sum();
                assert!(left <= 400_000 && taken <= 8_000_000, "{style:?}, {way}: {left}, {files:?}");
            }
        }
    }
}

fn merged(stats: &Stats) -> u64 {
    stats.merged_bytes_in + stats.merged_bytes_out
}

/// A part of the rows was deleted, so that a fifth of what is read is dead, or less.
#[test]
fn a_merge_for_space_gives_back_a_fifth_of_what_it_reads() {
    for (percent, is_merged) in [(0, false), (5, false), (15, false), (30, true), (60, true)] {
        let world = World::new();
        let db = world.open();
        let tree = db.default_tree();
        fill(&db, tree, ROWS);
        db.compact().unwrap();
        let before = db.stats().unwrap();
        let mut rng = Rng::new(percent);
        let deleted =
            (0..ROWS).filter(|_| rng.percent(percent)).map(|i| tree.delete(key(i)).unwrap()).count();
        world.pass(&db, 60);
        let after = db.stats().unwrap();
        assert_eq!(after.merges > before.merges, is_merged, "{percent} %");
        if is_merged {
            let (read, written) = (
                after.merged_bytes_in - before.merged_bytes_in,
                after.merged_bytes_out - before.merged_bytes_out,
            );
            assert!((read - written) * 5 >= read, "{percent} %: {written} of {read}");
        }
        let live = (u64::from(ROWS) - deleted as u64) * VALUE as u64;
        let left = table_bytes(&db);
        assert!(left <= live * 5 / 4 + (1 << 20), "{percent} %: {left} for {live}");
        assert_eq!(tree.count(ScanRange::all()).unwrap(), u64::from(ROWS) - deleted as u64);
    }
}

/// What was written in order lies in tables that overlap little. A merge of them reads much of what stays.
#[test]
fn a_part_of_what_was_written_in_order_gives_its_space_back() {
    for (rows, part) in [(ROWS, 2), (ROWS, 3), (ROWS * 3 / 4, 2), (ROWS + 700, 3)] {
        let world = World::new();
        let db = world.open();
        let tree = db.default_tree();
        fill(&db, tree, rows);
        let deleted = (0..rows).step_by(part).map(|i| tree.delete(key(i)).unwrap()).count();
        world.pass(&db, 60);
        let live = (u64::from(rows) - deleted as u64) * VALUE as u64;
        let left = table_bytes(&db);
        assert!(left <= live * 5 / 4 + (1 << 20), "{rows}, one in {part}: {left} for {live}");
        assert_eq!(tree.count(ScanRange::all()).unwrap(), u64::from(rows) - deleted as u64);
    }
}

/// Some short entries hide many others, in rows of one cell and in a row that is longer than what an estimate reads.
#[test]
fn what_a_rule_has_masked_gives_its_space_back() {
    let cases = [(1_u32, 16_000_u32), (20, 800), (1000, 16), (8000, 2), (16_000, 1)];
    // How many rows of a hundred are masked.
    let parts = [100_u32, 50, 30, 10];
    let all = cases.iter().flat_map(|&(rows, cells)| parts.iter().map(move |&part| (rows, cells, part)));
    let all: Vec<_> = all.filter(|(rows, _, percent)| rows * percent >= 100).collect();
    for &(rows, cells, percent) in test_kit::some_of(&all) {
        for is_compacted in [false, true] {
            let world = World::new();
            let options = world.options.clone().compaction_rule(RowMarkers);
            let db = Db::open(STORE, options).unwrap();
            let tree = db.create_tree("rows", TreeOptions::default().rule("row markers")).unwrap();
            let mut rng = Rng::new(u64::from(rows));
            for row in 0..rows {
                for number in 0..cells {
                    tree.put(cell(row, number), rng.bytes(VALUE)).unwrap();
                    if number % 500 == 0 {
                        settle(&db);
                    }
                }
            }
            world.pass(&db, 10);
            if is_compacted {
                db.compact().unwrap();
            }
            let (before, stats) = (table_bytes(&db), db.stats().unwrap());
            let masked: Vec<u32> = (0..rows).filter(|row| row * 7 % rows * 100 < percent * rows).collect();
            for row in &masked {
                tree.put(marker(*row), "").unwrap();
            }
            world.pass(&db, 60);
            let name = format!("{rows} rows of {cells}, {} masked, compacted {is_compacted}", masked.len());
            let live = (u64::from(rows) - masked.len() as u64) * u64::from(cells) * VALUE as u64;
            let left = table_bytes(&db);
            assert!(left <= live * 5 / 4 + (1 << 20), "{name}: {left} of {before} for {live}");
            if is_compacted {
                let now = db.stats().unwrap();
                let (read, written) = (
                    now.merged_bytes_in - stats.merged_bytes_in,
                    now.merged_bytes_out - stats.merged_bytes_out,
                );
                assert!((read - written) * 5 >= read, "{name}: {written} of {read}");
            }
            assert!(db.scrub().unwrap().findings.is_empty());
        }
    }
}

/// Ordinary merges remove what was replaced by as much. If nothing more is written, no ordinary merge follows.
#[test]
fn what_was_replaced_goes_after_a_while() {
    for is_whole in [false, true] {
        let world = World::new();
        let db = world.open();
        let (tree, mut rng) = (db.default_tree(), Rng::new(8));
        fill(&db, tree, ROWS);
        db.compact().unwrap();
        (0..ROWS).filter(|i| is_whole || i % 2 == 0).for_each(|i| put(tree, &mut rng, i, VALUE));
        world.pass(&db, 80);
        let (left, live) = (table_bytes(&db), u64::from(ROWS) * VALUE as u64);
        assert!(left <= live * 5 / 4 + (1 << 20), "{is_whole}: {left} for {live}");
        let before = merged(&db.stats().unwrap());
        world.pass(&db, 1000);
        assert_eq!(merged(&db.stats().unwrap()), before);
    }
}

#[test]
fn a_few_small_deletes_cause_no_flush() {
    let world = World::new();
    let db = world.open();
    fill(&db, db.default_tree(), ROWS);
    db.compact().unwrap();
    let flushes = db.stats().unwrap().flushes;
    for i in 0..100 {
        db.delete(key(i * 3)).unwrap();
        world.pass(&db, 3);
    }
    db.default_tree().delete_range(key(5)..key(20)).unwrap();
    world.pass(&db, 60);
    assert_eq!(db.stats().unwrap().flushes, flushes);
}

/// The search for dead entries reads blocks that no reader has requested. If these are damaged, reads and checks report it, and
/// writes go on.
#[test]
fn damage_that_only_a_look_meets_ends_nothing() {
    let world = World::new();
    let db = world.open();
    fill(&db, db.default_tree(), ROWS);
    db.compact().unwrap();
    db.close().unwrap();
    for (path, len) in
        world.files().into_iter().filter(|(path, _)| path.extension().is_some_and(|end| end == "table"))
    {
        // Blocks of entries. What lies at the end is read by an opening.
        (0..len / 2).step_by(1000).for_each(|at| world.disk.flip_byte(&path, at, 1).unwrap());
    }
    let db = world.open();
    // Of the bytes, too few are dead for a merge.
    (0..ROWS).step_by(7).for_each(|i| db.default_tree().delete(key(i)).unwrap());
    db.flush().unwrap();
    world.pass(&db, 60);
    assert_eq!(db.stats().unwrap().failure, None);
    db.default_tree().put("more", "x").unwrap();
    assert!(!db.scrub().unwrap().findings.is_empty());
}

/// What a snapshot sees stays, and goes with the snapshot.
#[test]
fn what_a_snapshot_has_seen_goes_with_it() {
    for (way, end) in WAYS {
        let world = World::new();
        let db = world.open();
        let tree = db.default_tree();
        fill(&db, tree, ROWS);
        db.compact().unwrap();
        let before = table_bytes(&db);
        let snapshot = db.snapshot();
        end(tree);
        db.flush().unwrap();
        world.pass(&db, 30);
        let merged_before = merged(&db.stats().unwrap());
        world.pass(&db, 30);
        assert_eq!(merged(&db.stats().unwrap()), merged_before, "{way}");
        assert!(table_bytes(&db) >= before, "{way}");
        assert_eq!(snapshot.count(tree, ScanRange::all()).unwrap(), u64::from(ROWS));
        drop(snapshot);
        world.pass(&db, 40);
        let left = table_bytes(&db);
        assert!(left <= 400_000, "{way}: {left} of {before}");
    }
}

/// Also one that is gone before it is seen twice. (What was measured beside it was kept, and nothing was merged until a write.)
#[test]
fn what_a_passing_snapshot_has_seen_goes_with_it() {
    for (way, end) in &WAYS[..2] {
        for seconds in 1..4 {
            let world = World::new();
            let db = world.open();
            let tree = db.default_tree();
            fill(&db, tree, ROWS);
            db.compact().unwrap();
            let before = table_bytes(&db);
            let snapshot = db.snapshot();
            end(tree);
            db.flush().unwrap();
            world.pass(&db, seconds);
            drop(snapshot);
            world.pass(&db, 40);
            let left = table_bytes(&db);
            assert!(left <= 400_000, "{way}, {seconds} s: {left} of {before}");
        }
    }
}

/// Runs a job when the store has notified it of work, or when the time comes for which the job has asked: as threads do, but
/// by the test's clock.
#[derive(Default)]
struct OnDemand {
    worker: Mutex<Option<Weak<dyn Worker>>>,
    /// For each job: when it is due, in microseconds of the clock.
    due_us: Mutex<[u64; 4]>,
}

impl std::fmt::Debug for OnDemand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnDemand")
    }
}

impl Executor for OnDemand {
    fn start(&self, worker: Weak<dyn Worker>) -> esker::Result<()> {
        *self.worker.lock().unwrap() = Some(worker);
        Ok(())
    }

    fn notify(&self, job: JobKind) {
        self.due_us.lock().unwrap()[job as usize] = 0;
    }

    fn is_stepped(&self) -> bool {
        true
    }

    fn stop(&self) {}
}

impl OnDemand {
    fn run(&self, env: &Env) {
        let Some(worker) = self.worker.lock().unwrap().as_ref().and_then(Weak::upgrade) else { return };
        let now_us = env.clock.monotonic_us();
        while let Some(&job) =
            JobKind::ALL.iter().find(|&&job| self.due_us.lock().unwrap()[job as usize] <= now_us)
        {
            self.due_us.lock().unwrap()[job as usize] = u64::MAX;
            let worked = worker.run_one(job);
            let again =
                if worked { Duration::ZERO } else { worker.ask_again(job).max(Duration::from_millis(1)) };
            let due_us = &mut self.due_us.lock().unwrap()[job as usize];
            *due_us = (*due_us).min(now_us.saturating_add(again.as_micros() as u64));
        }
    }
}

/// The files of the log and its reserve are as large as the data was. They go too, also if something is written now and
/// then; and the background asks for the time that this takes.
#[test]
fn the_log_of_what_was_ended_is_given_back_soon() {
    const LARGE: u32 = 400;
    let large = |tree: &Tree, i: u32| tree.put(key(i), vec![i as u8; 100_000]).unwrap();
    let ways: [Way; 3] = [
        ("points", |tree| (0..LARGE).for_each(|i| tree.delete(key(i)).unwrap())),
        ("a range", |tree| tree.delete_range(ScanRange::all()).unwrap()),
        ("short values", |tree| (0..LARGE).for_each(|i| tree.put(key(i), "x").unwrap())),
    ];
    for (way, end) in ways {
        for (writes, flushed) in [(false, false), (false, true), (true, false), (true, true)] {
            let (disk, executor) = (SimFs::new(1), Arc::new(OnDemand::default()));
            let env = world(Arc::new(disk.clone()), 1, Some(Arc::clone(&executor) as Arc<dyn Executor>));
            let options =
                Options::default().memory_budget(128 << 20).separate_at(usize::MAX).env(env.clone());
            let db = Db::open(STORE, options).unwrap();
            for i in 0..LARGE {
                large(db.default_tree(), i);
                executor.run(&env);
            }
            if flushed {
                db.flush().unwrap();
            }
            executor.run(&env);
            let before = disk.used();
            assert!(before > 60_000_000, "{before}");
            end(db.default_tree());
            for second in 0..15 {
                executor.run(&env);
                env.clock.sleep(Duration::from_secs(1));
                if writes {
                    db.put("now and then", format!("{second}")).unwrap();
                }
            }
            executor.run(&env);
            let after = disk.used();
            assert!(
                after <= before / 10,
                "{way}, writes {writes}, flushed {flushed}: {after} of {before} bytes"
            );
            assert_eq!(db.get_vec("now and then").unwrap().is_some(), writes);
            db.close().unwrap();
        }
    }
}

/// A name, and a pattern of writes in rounds.
type Pattern = (&'static str, fn(&Tree, &mut Rng, u32));

const PATTERNS: &[Pattern] = &[
    ("growth in order", |tree, rng, round| {
        (0..1000).for_each(|i| put(tree, rng, round * 1000 + i, VALUE));
    }),
    ("growth at random", |tree, rng, _| {
        (0..1000).for_each(|_| {
            let i = rng.next() as u32;
            put(tree, rng, i, VALUE);
        });
    }),
    ("growth in small steps", |tree, rng, round| {
        (0..50).for_each(|i| put(tree, rng, round * 50 + i, VALUE));
    }),
    ("overwrites", |tree, rng, _| {
        (0..1000).for_each(|_| {
            let i = rng.below(8000) as u32;
            put(tree, rng, i, VALUE);
        });
    }),
    ("overwrites of few", |tree, rng, _| {
        (0..1000).for_each(|_| {
            let i = rng.below(500) as u32;
            put(tree, rng, i, VALUE);
        });
    }),
    ("overwrites in order", |tree, rng, round| {
        (0..1000).for_each(|i| put(tree, rng, (round * 1000 + i) % 8000, VALUE));
    }),
    ("5 % deletes", |tree, rng, round| {
        for i in 0..1000 {
            let i =
                if i % 20 == 0 { rng.below(1 + u64::from(round) * 1000) as u32 } else { round * 1000 + i };
            if i < round * 1000 { tree.delete(key(i)).unwrap() } else { put(tree, rng, i, VALUE) }
        }
    }),
    ("a queue", |tree, rng, round| {
        for i in round * 1000..round * 1000 + 1000 {
            put(tree, rng, i + 4000, VALUE);
            tree.delete(key(i)).unwrap();
        }
    }),
    ("a short queue", |tree, rng, round| {
        for i in round * 1000..round * 1000 + 1000 {
            put(tree, rng, i, VALUE);
            tree.delete(key(i)).unwrap();
        }
    }),
    ("lengths that change", |tree, rng, _| {
        (0..1000).for_each(|_| {
            let (i, len) = (rng.below(4000) as u32, rng.below(2 * VALUE as u64) as usize);
            put(tree, rng, i, len);
        });
    }),
];

/// The same writes with and without pauses: without time that passes, nothing is merged for space.
#[test]
fn pauses_cost_little() {
    let rounds = test_kit::cases(60).max(20) as u32;
    for (pattern, write) in test_kit::some_of(PATTERNS) {
        let [without, with] = [0, 10].map(|pause| {
            let world = World::new();
            let db = world.open();
            let (tree, mut rng) = (db.default_tree(), Rng::new(3));
            for round in 0..rounds {
                write(tree, &mut rng, round);
                settle(&db);
                world.pass(&db, pause);
            }
            merged(&db.stats().unwrap())
        });
        println!("{pattern}: {without} without pauses, {with} with them");
        assert!(with <= without * 5 / 4 + (1 << 20), "{pattern}: {without}, with pauses {with}");
    }
}
