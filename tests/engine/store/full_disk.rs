//! A disk that is full, and then is not: puts are refused early and taken again, without opening the store
//! again; reads and deletes go on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use esker::env::{Env, JobKind, StepExecutor};
use esker::fs::FileSystem;
use esker::fs::sim::{Fault, FaultError, Op, SimFs};
use esker::{Batch, Db, ErrorKind, Options, ScanRange, TreeOptions};

use crate::common::row_markers::{RowMarkers, cell, marker};
use crate::common::{Rng, contents, settle, world};

#[test]
fn puts_are_refused_and_taken_again() {
    let disk = SimFs::new(1);
    let env = Env { fs: Arc::new(disk.clone()), ..Env::system() };
    let db = Db::open("store", Options::default().memory_budget(8 << 20).env(env)).unwrap();
    let value = |i: u32| vec![i as u8; 4000];

    disk.set_capacity(Some(24 << 20));
    let mut written = 0u32;
    let refused = loop {
        match db.put(written.to_be_bytes(), value(written)) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 20_000, "the disk never became full");
    };
    assert_eq!(refused.kind(), ErrorKind::OutOfSpace, "{refused:?}");
    for part in ["KiB free", "refused below", "RESERVE holds", "reads and deletes go on"] {
        assert!(refused.message().contains(part), "{refused}");
    }

    for i in 0..written {
        assert_eq!(db.get_vec(i.to_be_bytes()).unwrap().as_deref(), Some(&value(i)[..]), "{i} of {written}");
    }
    for i in 0..10u32 {
        db.delete(i.to_be_bytes()).unwrap();
    }
    // Others take what the store gives back. What the log has room for is taken until then.
    let still_refused = (0..20_000).find_map(|_| {
        disk.set_capacity(Some(disk.used()));
        db.put("more", value(1)).err()
    });
    assert_eq!(still_refused.unwrap().kind(), ErrorKind::OutOfSpace);

    disk.set_capacity(None);
    db.put("more", "room again").unwrap();
    assert_eq!(db.default_tree().count(ScanRange::all()).unwrap(), u64::from(written) - 10 + 1);
    db.flush().unwrap();
    db.compact().unwrap();
    db.close().unwrap();

    let env = Env { fs: Arc::new(disk), ..Env::system() };
    let db = Db::open("store", Options::default().env(env)).unwrap();
    assert_eq!(db.get_vec("more").unwrap().as_deref(), Some(&b"room again"[..]));
    assert_eq!(db.default_tree().count(ScanRange::all()).unwrap(), u64::from(written) - 10 + 1);
}

/// A huge value is taken only if the next put is taken too.
#[test]
fn a_huge_value_leaves_room_for_a_put() {
    for seed in 0..40_u64 {
        let disk = SimFs::new(seed);
        let env = Env { fs: Arc::new(disk.clone()), executor: Some(Arc::new(StepExecutor)), ..Env::system() };
        let db = Db::open("store", Options::default().memory_budget(8 << 20).env(env)).unwrap();
        disk.set_capacity(Some((24 << 20) + seed * 100_000));
        let mut taken = 0_u64;
        // Lengths that leave the disk as full as it can become.
        for len in (0..20).map(|round| (1_usize << 20) >> round.min(4)) {
            while db.put(format!("huge {taken}"), vec![1; len + 7 * seed as usize]).is_ok() {
                taken += 1;
                db.put(format!("small {taken}"), [2; 10_000])
                    .unwrap_or_else(|error| panic!("{seed}, {taken}: {error}"));
                assert!(taken < 1000, "the disk never became full");
            }
        }
        assert!(taken > 5, "{taken}");
        db.close().unwrap();
    }
}

/// Others take the last byte. What gives space back goes on out of the reserve, until there is room for
/// puts again.
#[test]
fn deletes_free_a_disk_that_others_filled() {
    let disk = SimFs::new(2);
    let env = Env { fs: Arc::new(disk.clone()), ..Env::system() };
    let options = Options::default().memory_budget(8 << 20).env(env);
    let db = Db::open("store", options.clone()).unwrap();
    let keys = 60_000u32;
    for i in 0..keys {
        db.put(i.to_be_bytes(), [7; 300]).unwrap();
    }
    assert!(db.stats().unwrap().reserve_bytes >= 5 << 20);
    disk.set_capacity(Some(disk.used()));
    // Until the store has noticed, it may use what it has prepared.
    let refused = (0..10_000u32).find_map(|i| db.put(i.to_be_bytes(), [8; 3000]).err());
    assert_eq!(refused.unwrap().kind(), ErrorKind::OutOfSpace);
    for i in 0..keys {
        db.delete(i.to_be_bytes()).unwrap();
    }
    db.sync().unwrap();
    db.flush().unwrap();
    db.compact().unwrap();
    db.put("room", "again").unwrap();
    assert!(db.stats().unwrap().reserve_bytes >= 5 << 20, "set aside again");
    db.close().unwrap();
    drop(db);
    disk.set_capacity(Some(disk.used()));
    let db = Db::open("store", options).unwrap();
    assert_eq!(db.default_tree().count(ScanRange::all()).unwrap(), 1);
}

/// A long log, and no byte left: it is turned into tables a few segments at a time.
#[test]
fn a_long_log_is_replayed_within_the_reserve() {
    let disk = SimFs::new(3);
    let env = Env { fs: Arc::new(disk.clone()), executor: Some(Arc::new(StepExecutor)), ..Env::system() };
    let mut options = Options::default().memory_budget(8 << 20).env(env);
    options.memtable_bytes = Some(16 << 20);
    let db = Db::open("store", options.clone()).unwrap();
    let other = db.tree("other").unwrap();
    for i in 0..24_000u32 {
        let tree = if i % 3 == 0 { &other } else { db.default_tree() };
        tree.put((i % 20_000).to_be_bytes(), vec![i as u8; 500 + i as usize % 100]).unwrap();
    }
    let live = db.stats().unwrap().log_live_bytes;
    assert!(live > 12 << 20, "{live}");
    for disk in [disk.kill(), disk.crash_keeping(1.0, 1)] {
        disk.set_capacity(Some(disk.used()));
        let env = Env { fs: Arc::new(disk.clone()), executor: Some(Arc::new(StepExecutor)), ..Env::system() };
        let db = Db::open("store", options.clone().env(env.clone())).unwrap();
        let other = db.tree("other").unwrap();
        for i in 4_000..24_000u32 {
            let tree = if i % 3 == 0 { &other } else { db.default_tree() };
            let value = vec![i as u8; 500 + i as usize % 100];
            assert_eq!(tree.get_vec((i % 20_000).to_be_bytes()).unwrap().as_deref(), Some(&value[..]), "{i}");
        }
        assert!(db.stats().unwrap().table_files > 6, "several parts");
    }
}

/// What a large store keeps for its log goes when all is deleted, and comes back with the data.
#[test]
fn a_store_that_was_emptied_is_small_again() {
    let disk = SimFs::new(4);
    let env = Env { fs: Arc::new(disk.clone()), executor: Some(Arc::new(StepExecutor)), ..Env::system() };
    let options = Options::default().memory_budget(128 << 20).separate_at(usize::MAX).env(env);
    let mut db = Db::open("store", options.clone()).unwrap();
    for round in 0..3u32 {
        let count = 400u32;
        for i in 0..count {
            db.put(i.to_be_bytes(), vec![round as u8; 100_000]).unwrap();
            while JobKind::ALL.iter().any(|&job| db.step(job)) {}
        }
        assert!(db.stats().unwrap().reserve_bytes >= 20 << 20, "round {round}");
        for i in 1..count {
            db.delete(i.to_be_bytes()).unwrap();
        }
        // With and without something to flush.
        if round == 1 {
            db.flush().unwrap();
        }
        db.compact().unwrap();
        while JobKind::ALL.iter().any(|&job| db.step(job)) {}
        assert!(disk.used() < 4 << 20, "round {round}: {} bytes", disk.used());
        db.put("later", round.to_be_bytes()).unwrap();
        if round == 2 {
            db.sync().unwrap();
            let left = disk.crash_keeping(0.0, 1);
            let env = Env { fs: Arc::new(left), ..Env::system() };
            assert_eq!(esker::check("store", &options.clone().env(env.clone())).unwrap().findings, []);
            db = Db::open("store", options.clone().env(env)).unwrap();
        }
        assert_eq!(db.get_vec("later").unwrap().as_deref(), Some(&round.to_be_bytes()[..]));
        assert_eq!(db.get_vec(0u32.to_be_bytes()).unwrap(), Some(vec![round as u8; 100_000]));
        assert_eq!(db.default_tree().count(ScanRange::all()).unwrap(), 2);
    }
}

/// A file system that writes nothing in place may need room to remove a file. What could not be removed is removed later,
/// and not forgotten.
#[test]
fn what_cannot_be_removed_now_is_removed_later() {
    let errors = [
        (FaultError::NoSpace, ErrorKind::OutOfSpace),
        (FaultError::OutOfResources, ErrorKind::OutOfResources),
    ];
    for ((fault, kind), part) in errors.into_iter().flat_map(|error| [(error, ".table"), (error, "wal-")]) {
        let disk = SimFs::new(5);
        let env = Env { fs: Arc::new(disk.clone()), executor: Some(Arc::new(StepExecutor)), ..Env::system() };
        let db = Db::open("store", Options::default().memory_budget(64 << 20).env(env)).unwrap();
        for round in 0..16u32 {
            for i in 0..300u32 {
                db.put(i.to_be_bytes(), [round as u8; 1000]).unwrap();
            }
            db.flush().unwrap();
        }
        disk.inject(Fault::new(Op::Remove, part).error(fault));
        assert_eq!(db.compact().unwrap_err().kind(), kind, "{part}");
        assert_eq!(disk.faults_hit(), 1, "{part}");
        disk.clear_faults();
        db.put("more", "goes on").unwrap();
        db.compact().unwrap();
        let of = |part: &str| {
            disk.paths().into_iter().filter(|path| path.to_string_lossy().contains(part)).collect::<Vec<_>>()
        };
        let stats = db.stats().unwrap();
        assert_eq!(of(".table").len() as u64, stats.table_files, "{part}");
        let log: u64 = of("wal-").iter().map(|path| disk.allocated_bytes(path).unwrap()).sum();
        assert_eq!(log, stats.log_bytes, "{part}");
    }
}

/// What is merged is written before it goes: a disk that is nearly full may have no room for that.
#[test]
fn a_compaction_without_room_says_what_it_needs_and_costs_nothing() {
    let disk = SimFs::new(1);
    let env = Env { fs: Arc::new(disk.clone()), executor: Some(Arc::new(StepExecutor)), ..Env::system() };
    let db = Db::open("store", Options::default().memory_budget(8 << 20).env(env)).unwrap();
    let value = |i: u32| {
        (0..300u32).map(|at| (i.wrapping_mul(0x9E37_79B9) >> (at % 24)) as u8 ^ at as u8).collect::<Vec<_>>()
    };
    let keys = 60_000u32;
    for i in 0..keys {
        db.put(i.to_be_bytes(), value(i)).unwrap();
    }
    db.flush().unwrap();
    while JobKind::ALL.iter().any(|&job| db.step(job)) {}
    for i in (0..keys).step_by(2) {
        db.delete(i.to_be_bytes()).unwrap();
    }
    db.flush().unwrap();
    disk.set_capacity(Some(disk.used() + (1 << 20)));
    let error = db.compact().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    for part in ["free", "RESERVE holds", "\"default\" writes about", "nothing is lost", "compact again"] {
        assert!(error.message().contains(part), "{error}");
    }
    assert!(db.stats().unwrap().reserve_bytes > 0, "the reserve is there again");
    for i in 0..keys {
        assert_eq!(db.get_vec(i.to_be_bytes()).unwrap(), (i % 2 == 1).then(|| value(i)), "{i}");
    }
    disk.set_capacity(None);
    db.compact().unwrap();
    assert_eq!(db.default_tree().count(ScanRange::all()).unwrap(), u64::from(keys) / 2);
}

/// What skips the log is in memory alone. Where others have taken every byte, closing has room for some of it out of the
/// reserve, and says what it has lost.
#[test]
fn closing_says_what_trees_without_the_log_have_lost_on_a_full_disk() {
    for more in [0, 64 << 20] {
        let disk = SimFs::new(1);
        let env = Env { fs: Arc::new(disk.clone()), executor: Some(Arc::new(StepExecutor)), ..Env::system() };
        let options = Options::default().memory_budget(64 << 20).env(env);
        let db = Db::open("store", options.clone()).unwrap();
        db.put("logged", "1").unwrap();
        let tree = |n: u8| db.create_tree(&format!("quick{n}"), TreeOptions::default().log(false)).unwrap();
        let trees: Vec<_> = (0..12).map(tree).collect();
        for (n, tree) in trees.iter().enumerate() {
            for i in 0..900u32 {
                let value: Vec<u8> = (0..1000u32)
                    .map(|at| (i.wrapping_mul(at).wrapping_add(n as u32 * 77) >> 3) as u8)
                    .collect();
                tree.put(i.to_be_bytes(), value).unwrap();
            }
        }
        disk.set_capacity(Some(disk.used() + more));
        let closed = db.close();
        drop((trees, db));
        disk.set_capacity(None);
        let db = Db::open("store", options).unwrap();
        assert_eq!(db.get_vec("logged").unwrap().unwrap(), b"1");
        let trees = (0..12).map(|n| db.open_tree(&format!("quick{n}")).unwrap().unwrap());
        let kept: Vec<u64> = trees.map(|tree| tree.count(ScanRange::all()).unwrap()).collect();
        let lost = kept.iter().filter(|&&count| count < 900).count();
        match closed {
            Ok(()) => assert_eq!((lost, more > 0), (0, true), "{kept:?}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
                assert!(more == 0 && lost > 0, "{error}: {kept:?}");
                for (n, &count) in kept.iter().enumerate().filter(|(_, count)| **count < 900) {
                    assert_eq!(count, 0);
                    assert!(error.message().contains(&format!("\"quick{n}\"")), "{error}");
                }
                assert!(error.message().contains("is lost"), "{error}");
            }
        }
    }
}

/// A store that has filled a disk, with what happens to its rows.
struct Filled {
    disk: SimFs,
    env: Env,
    db: Db,
    rng: Rng,
    rows: u32,
}

impl Filled {
    fn new(capacity: u64) -> Filled {
        let filled = Filled::unsettled(capacity, 200);
        settle(&filled.db);
        filled
    }

    /// The store settles after so many rows each, and not at the end.
    fn unsettled(capacity: u64, settled_each: u32) -> Filled {
        let disk = SimFs::new(5);
        let env = world(Arc::new(disk.clone()), 5, Some(Arc::new(StepExecutor)));
        let options = Options::default().memory_budget(8 << 20).separate_at(usize::MAX).env(env.clone());
        let db = Db::open("/store", options).unwrap();
        disk.set_capacity(Some(capacity));
        let mut filled = Filled { disk, env, db, rng: Rng::new(11), rows: 0 };
        let refused = loop {
            let value = filled.value();
            let put = filled.db.default_tree().put_for(row(filled.rows), value, Duration::from_secs(3600));
            if let Err(error) = put {
                break error;
            }
            filled.rows += 1;
            if filled.rows.is_multiple_of(settled_each) {
                settle(&filled.db);
            }
        };
        assert_eq!(refused.kind(), ErrorKind::OutOfSpace);
        filled
    }

    fn value(&mut self) -> Vec<u8> {
        self.rng.bytes(1000)
    }

    /// So many seconds pass in which nothing is written.
    fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            self.env.clock.sleep(Duration::from_secs(1));
            settle(&self.db);
        }
    }
}

fn row(i: u32) -> String {
    format!("row {i:08}")
}

/// A disk that the store's own rows fill gives their space back when they are deleted or expire: without a write, and
/// without a new opening.
#[test]
fn a_disk_that_was_filled_recovers_from_what_ends_alone() {
    const STEP: u32 = 500;
    type End = fn(&Filled);
    let ways: [(&str, End); 7] = [
        ("one range", |filled| filled.db.default_tree().delete_range(ScanRange::all()).unwrap()),
        ("points", |filled| (0..filled.rows).for_each(|i| filled.db.delete(row(i)).unwrap())),
        ("points in another order", |filled| {
            let step = (filled.rows / 3..).find(|step| !filled.rows.is_multiple_of(*step)).unwrap();
            (0..filled.rows).for_each(|i| filled.db.delete(row(i * step % filled.rows)).unwrap());
            (0..filled.rows).for_each(|i| filled.db.delete(row(i)).unwrap());
        }),
        ("some ranges", |filled| {
            for i in (0..filled.rows).step_by(STEP as usize) {
                filled.db.default_tree().delete_range(row(i)..row(i + STEP)).unwrap();
            }
        }),
        ("every second row", |filled| {
            (0..filled.rows).step_by(2).for_each(|i| filled.db.delete(row(i)).unwrap());
        }),
        ("the first half", |filled| (0..filled.rows / 2).for_each(|i| filled.db.delete(row(i)).unwrap())),
        ("expiry", |filled| filled.env.clock.sleep(Duration::from_secs(3600))),
    ];
    // A disk that the store fills itself, and one of which others take the last byte.
    let cases: Vec<(&str, End, bool)> =
        ways.iter().flat_map(|&(way, end)| [(way, end, false), (way, end, true)]).collect();
    for (way, end, others) in test_kit::some_of(cases) {
        let mut filled = Filled::new(24 << 20);
        if others {
            filled.disk.set_capacity(Some(filled.disk.used()));
        }
        end(&filled);
        let count = |filled: &Filled| filled.db.default_tree().count(ScanRange::all()).unwrap();
        let left = count(&filled);
        // Nothing is written and nothing is asked for.
        filled.pass(15);
        let tables: u64 = filled.db.stats().unwrap().trees.iter().map(|tree| tree.table_bytes).sum();
        let live = left * 1100;
        assert!(tables <= live + (1 << 20), "{way}, others {others}: {tables} bytes for {live}");
        filled.db.checkpoint("/copy").unwrap_or_else(|error| panic!("{way}, others {others}: {error}"));
        for i in 0..2000 {
            let value = filled.value();
            filled
                .db
                .put(format!("new {i}"), value)
                .unwrap_or_else(|error| panic!("{way}, {others}: {error}"));
        }
        assert_eq!(count(&filled), left + 2000, "{way}, others {others}");
        if left == 0 {
            filled.db.default_tree().delete_range(ScanRange::all()).unwrap();
            filled.pass(90);
            let taken = filled.disk.used();
            assert!(taken <= 8_000_000, "{way}, others {others}: {taken} bytes");
        }
        filled.db.close().unwrap();
    }
}

/// Values of many lengths fill the disk. Most are deleted, at random, while others are written. So the store ends just above the
/// low-space mark: puts are taken, and merges have no room but that of the mark.
#[test]
fn what_is_dead_just_above_the_mark_comes_back() {
    for seed in test_kit::seeds(5) {
        let disk = SimFs::new(seed);
        let env = world(Arc::new(disk.clone()), seed, Some(Arc::new(StepExecutor)));
        let options = Options::default().memory_budget(64 << 20).env(env.clone());
        let db = Db::open("/store", options).unwrap();
        disk.set_capacity(Some(24 << 20));
        let (mut rng, mut rows) = (Rng::new(seed), Vec::new());
        let put = |name: &str, rng: &mut Rng, len: usize| -> esker::Result<(Vec<u8>, Vec<u8>)> {
            let key = format!("{name} {:016x}", rng.next()).into_bytes();
            let value = rng.bytes(len);
            db.put(&key, &value).map(|()| (key, value))
        };
        let mut refused = 0;
        while refused < 20 {
            let len = *rng.pick(&[100, 1000, 10_000]);
            match put("row", &mut rng, len) {
                Ok(row) => rows.push(row),
                Err(_) => refused += 1,
            }
            if rng.index(100) == 0 {
                settle(&db);
            }
        }
        rows.sort_by_cached_key(|_| rng.next());
        let mut kept: BTreeMap<_, _> = rows.split_off(rows.len() * 7 / 10).into_iter().collect();
        for (number, (key, _)) in rows.iter().enumerate() {
            db.delete(key).unwrap();
            if number % 5 == 0 {
                kept.extend(put("other", &mut rng, 1000));
            }
            if rng.index(100) == 0 {
                settle(&db);
                env.clock.sleep(Duration::from_millis(10));
            }
        }
        for _ in 0..15 {
            env.clock.sleep(Duration::from_secs(1));
            settle(&db);
        }
        let tables: u64 = db.stats().unwrap().trees.iter().map(|tree| tree.table_bytes).sum();
        let live: u64 = kept.values().map(|value| value.len() as u64).sum();
        assert!(tables <= live * 5 / 4 + (1 << 20), "ESKER_SEED={seed}: {tables} bytes for {live}");
        assert!(contents(db.default_tree()) == kept, "ESKER_SEED={seed}: a scan differs");
        for (key, _) in &rows {
            assert_eq!(db.get_vec(key).unwrap(), None, "ESKER_SEED={seed}: {key:?}");
        }
        for (key, value) in &kept {
            assert!(db.get_vec(key).unwrap().as_ref() == Some(value), "ESKER_SEED={seed}: {key:?}");
        }
        // A value that does not go into the log is taken too.
        db.put("huge", vec![1; 100_000]).unwrap_or_else(|error| panic!("ESKER_SEED={seed}: {error}"));
        db.close().unwrap();
    }
}

/// The disk was filled, the store was opened again, and then rows are deleted. The disk counts as full no more, but has no
/// room for ordinary merges. Tables of tombstones lie one after another over few large tables: no merge of one of them
/// leaves out enough, and all of them together do.
#[test]
fn a_disk_that_was_filled_before_an_opening_recovers_from_deletes() {
    const ROWS: u32 = 8_000;
    const PIECES: usize = 12;
    // A part of the tree that is merged alone has at least one table of the bottom level.
    for (kept_of_four, table_bytes) in [(0, 64 << 20), (2, 1 << 20)] {
        let disk = SimFs::new(5);
        let open = |disk: &SimFs| {
            let env = world(Arc::new(disk.clone()), 5, Some(Arc::new(StepExecutor)));
            let mut options =
                Options::default().memory_budget(8 << 20).separate_at(usize::MAX).env(env.clone());
            options.table_bytes = table_bytes;
            (Db::open("/store", options).unwrap(), env)
        };
        let (db, _) = open(&disk);
        let mut rng = Rng::new(11);
        let mut value = || rng.bytes(1000);
        let mut rows: Vec<String> = (0..ROWS).map(row).collect();
        rows.iter().for_each(|row| db.put(row, value()).unwrap());
        db.compact().unwrap();
        disk.set_capacity(Some(disk.used() + (10 << 20)));
        // Each table of more rows reaches over all of them.
        for more in 0.. {
            let key = format!("{}+{more}", row(more * 7 % ROWS));
            if db.put(&key, value()).is_err() {
                break;
            }
            rows.push(key);
            if more.is_multiple_of(200) {
                settle(&db);
            }
        }
        rows.sort_unstable();
        drop(db);
        let (db, env) = open(&disk);
        for piece in rows.chunks(rows.len().div_ceil(PIECES)) {
            let ended = piece.iter().enumerate().filter(|(at, _)| at % 4 >= kept_of_four);
            ended.for_each(|(_, row)| db.delete(row).unwrap());
            db.flush().unwrap();
        }
        // The disk is not full by its mark.
        db.put("room", "again").unwrap();
        for _ in 0..15 {
            env.clock.sleep(Duration::from_secs(1));
            settle(&db);
        }
        let tables: u64 = db.stats().unwrap().trees.iter().map(|tree| tree.table_bytes).sum();
        let live = db.default_tree().count(ScanRange::all()).unwrap() * 1100;
        assert!(tables <= live + live / 4 + (1 << 20), "{kept_of_four} of 4 kept: {tables} bytes for {live}");
    }
}

/// A merge writes a table of the bottom level anew before the old one goes. So none is longer than what a full disk has left,
/// also if it was written when there was room.
#[test]
fn each_table_on_a_full_disk_fits_into_what_is_left() {
    for capacity in [24 << 20, 48 << 20] {
        let disk = SimFs::new(5);
        let env = world(Arc::new(disk.clone()), 5, Some(Arc::new(StepExecutor)));
        let options = Options::default().memory_budget(64 << 20).separate_at(usize::MAX).env(env);
        let db = Db::open("/store", options).unwrap();
        disk.set_capacity(Some(capacity));
        let (mut rng, mut rows) = (Rng::new(11), 0_u64);
        loop {
            let value = rng.bytes(1000);
            if db.put(rows.to_be_bytes(), value).is_err() {
                break;
            }
            rows += 1;
            if rows == capacity / 2500 {
                db.compact().unwrap();
            }
        }
        settle(&db);
        let len = |path: &Path| disk.file_len(path).unwrap();
        let paths = disk.paths();
        let tables = paths.iter().filter(|path| path.extension().is_some_and(|kind| kind == "table"));
        let longest = tables.map(|path| len(path)).max().unwrap();
        let left = capacity - disk.used() + len(Path::new("/store/RESERVE"));
        assert!(longest <= left, "a table of {longest} bytes, and {left} are left of {capacity}");
        db.close().unwrap();
    }
}

/// Tables that were written when there was room may be long. Puts are refused while a table of that length still fits, so its
/// merge does too.
#[test]
fn long_tables_are_merged_on_a_disk_that_became_full() {
    const ROWS: u64 = 30_000;
    let disk = SimFs::new(7);
    let env = world(Arc::new(disk.clone()), 7, Some(Arc::new(StepExecutor)));
    let options = Options::default().memory_budget(64 << 20).separate_at(usize::MAX).env(env);
    let db = Db::open("/store", options).unwrap();
    let mut rng = Rng::new(12);
    let mut value = || rng.bytes(1000);
    (0..ROWS).for_each(|row| db.put(row.to_be_bytes(), value()).unwrap());
    db.compact().unwrap();
    let len = |path: &PathBuf| disk.file_len(path).unwrap();
    let paths = disk.paths();
    let tables = paths.iter().filter(|path| path.extension().is_some_and(|kind| kind == "table"));
    let longest = tables.map(len).max().unwrap();
    assert!(longest > 16 << 20, "the longest table has {longest} bytes");

    disk.set_capacity(Some(disk.used() + (64 << 20)));
    let refused = (0..100_000_u64).find_map(|row| db.put((ROWS + row).to_be_bytes(), value()).err());
    assert_eq!(refused.unwrap().kind(), ErrorKind::OutOfSpace);
    settle(&db);
    let used = disk.used();
    (0..ROWS).step_by(2).for_each(|row| db.delete(row.to_be_bytes()).unwrap());
    settle(&db);
    let given_back = used.saturating_sub(disk.used());
    assert!(given_back > 14 << 20, "{given_back} of {used} bytes, and the longest table has {longest}");
    db.put("more", value()).unwrap();
}

/// Writes that free space, though they also put, are taken while the part of the reserve for deletes lasts. What is left
/// suffices for deletes and for an opening.
#[test]
fn writes_that_free_space_are_taken_while_the_share_for_deletes_lasts() {
    for value_len in [0, 100, 3000] {
        let filled = Filled::new(24 << 20);
        filled.disk.set_capacity(Some(filled.disk.used()));
        let tree = filled.db.default_tree();
        let refused = (0..10_000).find_map(|i| filled.db.put(format!("more {i}"), [1; 1000]).err());
        assert_eq!(refused.unwrap().kind(), ErrorKind::OutOfSpace);
        let expiring = |i: u32| {
            let mut batch = Batch::new();
            batch.put_for(tree, row(i % filled.rows), vec![3; value_len], Duration::from_secs(60)).unwrap();
            batch
        };
        assert_eq!(
            filled.db.write(&expiring(0)).unwrap_err().kind(),
            ErrorKind::OutOfSpace,
            "it is not marked"
        );
        let (mut taken, mut bytes) = (0_u32, 0);
        let refused = loop {
            let mut batch = expiring(taken);
            batch.mark_as_freeing();
            let len = batch.size_bytes() as u64;
            match filled.db.write(&batch) {
                Ok(_) => (taken, bytes) = (taken + 1, bytes + len),
                Err(error) => break error,
            }
            if bytes > 64 << 20 {
                panic!("{value_len}: {taken} were taken, and there is no end");
            }
        };
        assert_eq!(refused.kind(), ErrorKind::OutOfSpace);
        assert!(taken >= 100, "{value_len}: only {taken} were taken");
        // One that is too long for the share is refused however whole that is.
        let mut long = Batch::new();
        long.put(tree, "long", vec![1; 1 << 20]).unwrap();
        long.mark_as_freeing();
        assert_eq!(filled.db.write(&long).unwrap_err().kind(), ErrorKind::OutOfSpace);
        long.clear();
        long.put(tree, "after", "clear").unwrap();
        assert_eq!(filled.db.write(&long).unwrap_err().kind(), ErrorKind::OutOfSpace, "the mark is gone");

        // A kill: the store opens on the same disk.
        settle(&filled.db);
        let left = filled.disk.kill();
        left.set_capacity(Some(left.used()));
        let env = world(Arc::new(left.clone()), 5, Some(Arc::new(StepExecutor)));
        let options = Options::default().memory_budget(8 << 20).separate_at(usize::MAX).env(env);
        let db = Db::open("/store", options).unwrap_or_else(|error| panic!("{value_len}, {taken}: {error}"));
        assert_eq!(db.get_vec(row(0)).unwrap(), Some(vec![3; value_len]));
        drop(db);

        // Without a new opening deletes go on, and then there is room.
        filled.disk.set_capacity(Some(filled.disk.used()));
        (0..filled.rows).for_each(|i| filled.db.delete(row(i)).unwrap());
        filled.pass(15);
        filled.db.put("room", "again").unwrap();
        filled.db.close().unwrap();
    }
}

/// Long batches of deletes take the log's share of the reserve long before their memtable is full, and a note of how much is left
/// goes with some of them, as a server keeps one for each collection.
#[test]
fn long_batches_of_deletes_are_taken_on_a_full_disk() {
    let disk = SimFs::new(2);
    let env = Env { fs: Arc::new(disk.clone()), ..Env::system() };
    let db = Db::open("store", Options::default().memory_budget(8 << 20).env(env)).unwrap();
    let tree = db.default_tree();
    let key = |i: u32| format!("{i:01000}");
    let keys = 20_000_u32;
    for i in 0..keys {
        db.put(key(i), "").unwrap();
    }
    disk.set_capacity(Some(disk.used()));
    let refused = (0..10_000).find_map(|i| db.put(format!("more {i}"), [8; 3000]).err());
    assert_eq!(refused.unwrap().kind(), ErrorKind::OutOfSpace);
    let share = usize::try_from(disk.file_len(Path::new("store/RESERVE")).unwrap() / 5).unwrap();
    let seed = test_kit::seed(1);
    let (mut rng, mut next) = (Rng::new(seed), 0);
    while next < keys {
        let mut batch = Batch::new();
        let len = 1 + rng.index(share * 3 / 4);
        while next < keys && batch.size_bytes() < len {
            batch.delete(tree, key(next)).unwrap();
            next += 1;
        }
        if rng.index(2) == 0 {
            batch.put(tree, "left", (keys - next).to_be_bytes()).unwrap();
            batch.mark_as_freeing();
        }
        db.write(&batch).unwrap_or_else(|error| panic!("ESKER_SEED={seed}: {next}, {len}: {error}"));
    }
    assert_eq!(tree.count(ScanRange::prefix("0")).unwrap(), 0);
    disk.set_capacity(None);
    db.put("room", "again").unwrap();
    db.close().unwrap();
}

/// Members of a large set are removed in any order, each batch with a note of how many are left. Their tombstones are as long as
/// what they delete, so room for the next ones comes only from merges, which other threads do too: what these have of the
/// reserve for a moment counts as there.
#[test]
fn long_keys_are_deleted_in_any_order_on_a_full_disk() {
    let disk = SimFs::new(3);
    let env = Env { fs: Arc::new(disk.clone()), ..Env::system() };
    let db = Db::open("store", Options::default().memory_budget(64 << 20).env(env)).unwrap();
    let tree = db.default_tree();
    disk.set_capacity(Some(160 << 20));
    let seed = test_kit::seed(4);
    let mut rng = Rng::new(seed);
    let mut keys = Vec::new();
    let refused = loop {
        let key = rng.bytes(1000);
        if let Err(error) = db.put(&key, "") {
            break error;
        }
        keys.push(key);
        assert!(keys.len() < 300_000, "the disk never became full");
    };
    assert_eq!(refused.kind(), ErrorKind::OutOfSpace);
    let deleted = keys.len() / if test_kit::is_full_run() { 4 } else { 16 };
    let mut at = 0;
    while at < deleted {
        let mut batch = Batch::new();
        let next = (at + [1, 100, 500][rng.index(3)]).min(deleted);
        keys[at..next].iter().for_each(|key| batch.delete(tree, key).unwrap());
        batch.put(tree, "left", (keys.len() - next).to_be_bytes()).unwrap();
        batch.mark_as_freeing();
        db.write(&batch).unwrap_or_else(|error| panic!("ESKER_SEED={seed}: {at} of {}: {error}", keys.len()));
        at = next;
    }
    assert_eq!(tree.count(ScanRange::all()).unwrap(), (keys.len() - deleted) as u64 + 1);
    db.close().unwrap();
}

/// The deletes of tables are puts of markers, which a rule goes by. They are taken as deletes are, and what they mask goes.
#[test]
fn markers_are_taken_on_a_full_disk_and_free_it() {
    let cases = [(20_u64, 1_u32), (60, 1), (20, 10), (60, 400)];
    for &(capacity, cells) in test_kit::some_of(&cases) {
        for part in [1, 2] {
            let seed = test_kit::seed(3);
            let (disk, mut rng) = (SimFs::new(5), Rng::new(seed));
            let env = world(Arc::new(disk.clone()), 5, Some(Arc::new(StepExecutor)));
            let options = Options::default().memory_budget(8 << 20).separate_at(usize::MAX).env(env.clone());
            let db = Db::open("/store", options.compaction_rule(RowMarkers)).unwrap();
            let tree = db.create_tree("rows", TreeOptions::default().rule("row markers")).unwrap();
            disk.set_capacity(Some(capacity << 20));
            let (mut rows, mut refused) = (0, None);
            while refused.is_none() {
                refused = (0..cells).find_map(|number| tree.put(cell(rows, number), rng.bytes(1000)).err());
                rows += 1;
                if rows.is_multiple_of(200) {
                    settle(&db);
                }
            }
            assert_eq!(refused.unwrap().kind(), ErrorKind::OutOfSpace);
            let pass = |seconds: u64| {
                for _ in 0..seconds {
                    env.clock.sleep(Duration::from_secs(1));
                    settle(&db);
                }
            };
            // Merges may have used the reserve, and have given it back.
            pass(3);
            disk.set_capacity(Some(disk.used()));
            let name = format!("ESKER_SEED={seed}: {capacity} MiB, {rows} rows of {cells}, one in {part}");
            let mut batch = Batch::new();
            let masked: Vec<u32> = (0..rows).filter(|row| row % part == 0).collect();
            for (at, row) in masked.iter().enumerate() {
                batch.clear();
                batch.put(&tree, marker(*row), "").unwrap();
                batch.mark_as_deleting();
                db.write(&batch).unwrap_or_else(|error| panic!("{name}, marker {at}: {error}"));
            }
            pass(90);
            let tables: u64 = db.stats().unwrap().trees.iter().map(|tree| tree.table_bytes).sum();
            let live = u64::from(rows) * u64::from(cells) * 1100 / u64::from(part) * u64::from(part - 1);
            assert!(tables <= live + live / 4 + (1 << 20), "{name}: {tables} bytes for {live}");
            for number in 0..3000 {
                let put = tree.put(cell(rows + 1, number), rng.bytes(1000));
                put.unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            db.close().unwrap();
        }
    }
}

/// The flush has had the reserve and has made a log segment needless. That counts, though it is not removed yet.
#[test]
fn a_write_that_frees_space_is_taken_right_after_a_flush() {
    let filled = Filled::unsettled(24 << 20, 3000);
    let reserve = || filled.disk.file_len(Path::new("/store/RESERVE")).unwrap();
    let (whole, segment) = (reserve(), 256 << 10);
    assert_eq!(whole, 5 * segment);
    filled.disk.set_capacity(Some(filled.disk.used()));
    filled.db.flush().unwrap();
    assert_eq!(reserve(), 0, "it is used");
    // Alone, what others leave is less than the part for opening.
    filled.disk.set_capacity(Some(filled.disk.used() + 3 * segment + 1000));
    let mut batch = Batch::new();
    batch.put_for(filled.db.default_tree(), row(0), "", Duration::from_secs(60)).unwrap();
    batch.mark_as_freeing();
    filled.db.write(&batch).unwrap();
    filled.db.close().unwrap();
}
