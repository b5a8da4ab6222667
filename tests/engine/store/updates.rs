//! A copy that follows a store by what was written to it: it becomes the same, whatever is flushed, merged, closed and
//! opened meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use esker::env::{JobKind, StepExecutor};
use esker::fs::sim::SimFs;
use esker::updates::{Update, Updates, What};
use esker::{Batch, Db, ErrorKind, Options, ScanRange, TreeOptions};

use crate::common::{Rng, seed, world};

const STORE: &str = "/store";
const TREES: [&str; 3] = ["default", "a", "b"];

fn options(disk: &SimFs) -> Options {
    let env = world(Arc::new(disk.clone()), 1, Some(Arc::new(StepExecutor)));
    let mut options = Options::default().memory_budget(8 << 20).separate_at(1000).env(env);
    options.memtable_bytes = Some(64 << 10);
    options
}

fn content(db: &Db) -> Vec<(String, Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    for name in db.tree_names() {
        let tree = db.open_tree(&name).unwrap().unwrap();
        all.extend(
            tree.scan(ScanRange::all()).unwrap().map(Result::unwrap).map(|(k, v)| (name.clone(), k, v)),
        );
    }
    all
}

/// Does to `copy` what the update says.
fn follow(copy: &Db, update: &Update) {
    let mut batch = Batch::new();
    for change in &update.changes {
        let tree = copy.tree(&change.tree).unwrap();
        match &change.what {
            What::Put(key, value) => batch.put(&tree, key, value.bytes().unwrap()),
            What::Replaced(key) | What::Delete(key) => batch.delete(&tree, key),
            What::DeleteRange(range) => batch.delete_range(&tree, range),
            What::Merge(key, operator, operand) => batch.merge(&tree, key, operator, operand),
            other => unreachable!("{other:?}"),
        }
        .unwrap();
    }
    copy.write(&batch).unwrap();
}

fn catch_up(copy: &Db, updates: &mut Updates, at: &mut u64) {
    while let Some(update) = updates.next().unwrap() {
        assert!(update.sequence > *at, "{} comes after {at}", update.sequence);
        *at = update.sequence;
        follow(copy, &update);
    }
}

fn key(rng: &mut Rng) -> Vec<u8> {
    format!("key{:03}", rng.index(200)).into_bytes()
}

fn write(db: &Db, rng: &mut Rng) {
    let tree = db.tree(TREES[rng.index(3)]).unwrap();
    let value = vec![rng.next() as u8; if rng.one_in(8) { 2000 } else { rng.index(300) }];
    match rng.index(20) {
        0..8 => tree.put(key(rng), value).unwrap(),
        8..11 => tree.delete(key(rng)).unwrap(),
        11 if rng.one_in(5) => tree.delete_range(key(rng)..=key(rng)).unwrap(),
        11..15 => tree.append(key(rng), &value[..value.len().min(20)]).unwrap(),
        15 => drop(tree.rename(key(rng), key(rng)).unwrap()),
        _ => {
            let mut batch = Batch::new();
            for _ in 0..rng.between(0, 5) {
                batch.put(&tree, key(rng), &value).unwrap();
                batch.delete(&db.tree(TREES[rng.index(3)]).unwrap(), key(rng)).unwrap();
            }
            db.write(&batch).unwrap();
        }
    }
}

#[test]
fn a_copy_that_follows_becomes_the_same_over_openings_too() {
    let seed = seed(0x0bda);
    eprintln!("ESKER_SEED={seed}");
    let mut rng = Rng::new(seed);
    let mut disk = SimFs::new(seed);
    let open = |disk: &SimFs| Db::open(STORE, options(disk).log_history(64 << 20)).unwrap();
    let copy = Db::open_in_memory(Options::default()).unwrap();
    let mut db = open(&disk);
    let (mut updates, mut at) = (db.updates_since(0).unwrap(), 0);
    for round in 0..60 {
        for _ in 0..rng.between(1, 200) {
            write(&db, &mut rng);
            // What skips the log is not told, and its numbers are missing.
            if rng.one_in(30) {
                let scratch = TreeOptions::default().log(false);
                let scratch = db
                    .open_tree("scratch")
                    .unwrap()
                    .unwrap_or_else(|| db.create_tree("scratch", scratch).unwrap());
                scratch.put("k", "v").unwrap();
            }
        }
        match rng.index(6) {
            0 => db.flush().unwrap(),
            1 => db.compact().unwrap(),
            2 => while JobKind::ALL.iter().any(|&job| db.step(job)) {},
            _ => {}
        }
        if rng.one_in(3) {
            catch_up(&copy, &mut updates, &mut at);
        }
        if rng.one_in(8) {
            drop(updates);
            if rng.one_in(2) {
                // The process dies.
                disk = disk.kill();
            } else {
                db.close().unwrap();
            }
            db = open(&disk);
            updates = db.updates_since(at).unwrap();
        }
        if round % 10 == 9 {
            if let Some(scratch) = db.open_tree("scratch").unwrap() {
                db.drop_tree(scratch.name()).unwrap();
            }
            catch_up(&copy, &mut updates, &mut at);
            assert!(content(&db) == content(&copy), "round {round}");
        }
    }
}

#[test]
fn who_falls_behind_is_told() {
    let disk = SimFs::new(1);
    let db = Db::open(STORE, options(&disk)).unwrap();
    let mut early = db.updates_since(0).unwrap();
    for i in 0..20_000u32 {
        db.put(i.to_be_bytes(), [7; 100]).unwrap();
        if i % 1000 == 0 {
            while JobKind::ALL.iter().any(|&job| db.step(job)) {}
        }
    }
    let error = loop {
        match early.next() {
            Ok(update) => assert!(update.is_some(), "it is behind"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(db.updates_since(5).unwrap_err().kind(), ErrorKind::NotFound);
    let now = db.snapshot().sequence();
    assert_eq!(db.updates_since(now + 1).unwrap_err().kind(), ErrorKind::InvalidInput);
    let mut updates = db.updates_since(now).unwrap();
    assert!(updates.next().unwrap().is_none());
    assert!(!updates.wait(Duration::ZERO));
    db.put("k", "v").unwrap();
    assert!(updates.wait(Duration::ZERO));
    let update = updates.next().unwrap().unwrap();
    assert_eq!((update.sequence, update.changes.len(), &*update.changes[0].tree), (now + 1, 1, "default"));
    db.close().unwrap();
    assert_eq!(updates.next().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn what_may_be_lost_is_not_told_to_who_does_not_want_it() {
    let disk = SimFs::new(1);
    let db = Db::open(STORE, options(&disk)).unwrap();
    let (mut updates, mut durable) = (db.updates_since(0).unwrap(), db.updates_since(0).unwrap().durable());
    db.put("k", "v").unwrap();
    assert!(updates.next().unwrap().is_some());
    assert!(durable.next().unwrap().is_none());
    db.sync().unwrap();
    assert!(durable.next().unwrap().is_some());
}

#[test]
fn a_value_that_is_gone_is_followed_by_what_replaced_it() {
    let disk = SimFs::new(1);
    let db = Db::open(STORE, options(&disk)).unwrap();
    let mut updates = db.updates_since(0).unwrap();
    db.put("k", vec![1; 5000]).unwrap();
    db.put("k", vec![2; 5000]).unwrap();
    while db.step(JobKind::Blobs) {}
    let mut next = || updates.next().unwrap().unwrap().changes.remove(0).what;
    assert!(matches!(next(), What::Replaced(key) if key == b"k"));
    assert!(matches!(next(), What::Put(_, value) if value.bytes().unwrap()[..] == [2; 5000]));
}

#[test]
fn a_follower_of_many_writers_sees_every_write_once_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().memory_budget(8 << 20).log_history(1 << 30);
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let copy = Db::open_in_memory(Options::default()).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let follower = scope.spawn(|| {
            let (mut updates, mut at) = (db.updates_since(0).unwrap(), 0);
            loop {
                let last = done.load(Ordering::SeqCst);
                catch_up(&copy, &mut updates, &mut at);
                if last {
                    return at;
                }
                updates.wait(Duration::from_millis(10));
            }
        });
        let writers: Vec<_> = (0..3u8)
            .map(|writer| {
                let db = &db;
                scope.spawn(move || {
                    for i in 0..15_000u32 {
                        let value = vec![writer; if i % 500 == 0 { 50_000 } else { 100 }];
                        db.put((i % 4000).to_be_bytes(), &value).unwrap();
                        db.default_tree()
                            .append([&[writer][..], &(i % 70).to_be_bytes()].concat(), [writer])
                            .unwrap();
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::SeqCst);
        assert_eq!(follower.join().unwrap(), db.snapshot().sequence());
    });
    assert!(content(&db) == content(&copy));
}

/// Damage to any byte of a record is reported as such, and not as a log that was not kept.
#[test]
fn a_damaged_record_is_told_from_one_that_is_gone() {
    let disk = SimFs::new(1);
    let db = Db::open(STORE, options(&disk)).unwrap();
    (0..3).for_each(|i| db.put(format!("the key {i}"), [7; 100]).unwrap());
    db.sync().unwrap();
    let is_log = |path: &std::path::PathBuf| path.to_string_lossy().contains("/wal-");
    let holds = |path: &std::path::PathBuf, text: &[u8]| {
        let bytes = disk.read_all(path).unwrap();
        bytes.windows(text.len()).position(|window| window == text)
    };
    let logs: Vec<_> = disk.paths().into_iter().filter(is_log).collect();
    let (path, key) = logs.iter().find_map(|path| Some((path, holds(path, b"the key 1")?))).unwrap();
    // The second record begins after the first one's value.
    let begin = holds(path, b"the key 0").unwrap() + b"the key 0".len() + 1 + 100;
    assert!((16..64).contains(&(key - begin)), "{begin} {key}");
    for at in begin as u64..key as u64 + 9 {
        disk.flip_byte(path, at, 0x55).unwrap();
        let mut updates = db.updates_since(0).unwrap();
        assert_eq!(updates.next().unwrap().unwrap().sequence, 1, "byte {at}");
        let error = updates.next().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at}: {error}");
        disk.flip_byte(path, at, 0x55).unwrap();
    }
    assert!(db.updates_since(0).unwrap().next().unwrap().is_some());
}
