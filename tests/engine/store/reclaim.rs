//! Files of huge values of which little is needed are written anew: the space comes back, and nothing else changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use esker::env::{JobKind, StepExecutor};
use esker::fs::FileSystem;
use esker::fs::sim::{Fault, FaultError, Op, SimFs};
use esker::{Db, Options};

use crate::common::{Rng, settle, world};

const STORE: &str = "/store";
const FILE_BYTES: u64 = 400_000;

fn options(disk: &SimFs) -> Options {
    let env = world(Arc::new(disk.clone()), 1, Some(Arc::new(StepExecutor)));
    let mut options = Options::default().memory_budget(8 << 20).separate_at(1000).env(env);
    options.blob_file_bytes = FILE_BYTES;
    options
}

fn open(disk: &SimFs) -> Db {
    Db::open(STORE, options(disk)).unwrap()
}

/// What the blob files of a store take, and how many they are.
fn blob_files(disk: &SimFs, dir: &str) -> (u64, usize) {
    let paths = disk.paths().into_iter().filter(|path| path.starts_with(dir));
    let paths: Vec<_> = paths.filter(|path| path.to_string_lossy().contains(".blob")).collect();
    (paths.iter().map(|path| disk.allocated_bytes(path).unwrap()).sum(), paths.len())
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn agree(db: &Db, model: &Model) {
    for (key, value) in model {
        assert!(db.get_vec(key).unwrap().as_ref() == Some(value), "{}", key.escape_ascii());
    }
    assert_eq!(db.default_tree().count(esker::ScanRange::all()).unwrap(), model.len() as u64);
}

fn is_sound(disk: &SimFs, store: &str) {
    assert_eq!(esker::check(store, &options(disk)).unwrap().findings, []);
}

/// Puts `count` values of 1,000 to 4,000 bytes: none has whole blocks of its own, so holes give little back.
fn fill(db: &Db, model: &mut Model, rng: &mut Rng, count: u64) {
    for _ in 0..count {
        let key = format!("key{:04}", rng.below(600)).into_bytes();
        let value = vec![rng.below(256) as u8; 1000 + rng.index(3000)];
        db.put(&key, &value).unwrap();
        model.insert(key, value);
    }
}

#[test]
fn the_space_of_small_values_comes_back() {
    let disk = SimFs::new(1);
    let (mut model, mut rng) = (Model::new(), Rng::new(7));
    let db = open(&disk);
    for round in 0..12 {
        fill(&db, &mut model, &mut rng, 600);
        settle(&db);
        let needed: u64 = model.values().map(|value| value.len() as u64).sum();
        let (taken, _) = blob_files(&disk, STORE);
        assert!(taken < needed * 5 / 4 + 2 * FILE_BYTES, "round {round}: {taken} bytes for {needed}");
    }
    agree(&db, &model);
    db.close().unwrap();
    is_sound(&disk, STORE);
    let db = open(&disk);
    settle(&db);
    agree(&db, &model);
    for key in std::mem::take(&mut model).keys() {
        db.delete(key).unwrap();
    }
    settle(&db);
    db.close().unwrap();
    drop(open(&disk));
    let (taken, files) = blob_files(&disk, STORE);
    assert!(taken < 20_000 && files <= 1, "{taken} bytes in {files} files");
}

#[test]
fn a_file_that_is_written_to_goes_when_nothing_in_it_is_needed() {
    let disk = SimFs::new(1);
    let (mut model, mut rng) = (Model::new(), Rng::new(12));
    let db = open(&disk);
    for round in 0..5 {
        fill(&db, &mut model, &mut rng, 30);
        let held = db.get(model.keys().next().unwrap()).unwrap().unwrap();
        let bytes = held.bytes().unwrap().into_owned();
        for key in std::mem::take(&mut model).keys() {
            db.delete(key).unwrap();
        }
        settle(&db);
        assert_eq!(blob_files(&disk, STORE).1, 1, "round {round}: somebody reads");
        assert!(held.bytes().unwrap() == bytes);
        drop(held);
        settle(&db);
        assert_eq!(blob_files(&disk, STORE), (0, 0), "round {round}");
    }
    fill(&db, &mut model, &mut rng, 30);
    settle(&db);
    let left = disk.crash_keeping(0.5, 1);
    is_sound(&left, STORE);
    drop(db);
    let db = open(&disk);
    agree(&db, &model);
}

/// Nobody has sealed the files that were written to when the store died.
#[test]
fn the_space_of_files_that_a_crash_left_comes_back() {
    let mut disk = SimFs::new(1);
    let (mut model, mut rng) = (Model::new(), Rng::new(13));
    let mut db = open(&disk);
    for round in 0..25_u32 {
        fill(&db, &mut model, &mut rng, 100);
        db.sync().unwrap();
        if round % 4 == 3 {
            // A second name.
            db.checkpoint(format!("/copy{round}")).unwrap();
        }
        disk = disk.crash_keeping(f64::from(round % 3) / 2.0, round.into());
        drop(db);
        is_sound(&disk, STORE);
        db = open(&disk);
        agree(&db, &model);
        settle(&db);
        let needed: u64 = model.values().map(|value| value.len() as u64).sum();
        let (taken, _) = blob_files(&disk, STORE);
        assert!(taken < needed * 5 / 4 + FILE_BYTES, "round {round}: {taken} bytes for {needed}");
    }
    agree(&db, &model);
    db.close().unwrap();
    is_sound(&disk, STORE);
}

#[test]
fn what_a_checkpoint_has_too_is_left_to_it() {
    let disk = SimFs::new(1);
    let (mut model, mut rng) = (Model::new(), Rng::new(8));
    let db = open(&disk);
    fill(&db, &mut model, &mut rng, 1500);
    settle(&db);
    db.checkpoint("/copy").unwrap();
    let copied = model.clone();
    is_sound(&disk, "/copy");
    let held: Vec<_> = model.keys().map(|key| (key.clone(), db.get(key).unwrap().unwrap())).collect();
    for _ in 0..3 {
        fill(&db, &mut model, &mut rng, 600);
        settle(&db);
    }
    // The copy gives its own space back, which is that of files that are read here.
    let copy = Db::open("/copy", options(&disk)).unwrap();
    for key in copied.keys() {
        copy.delete(key).unwrap();
    }
    settle(&copy);
    copy.close().unwrap();
    drop(copy);
    for (key, value) in &held {
        assert!(value.bytes().unwrap() == copied[key], "who reads goes on with the old bytes");
    }
    drop(held);
    fill(&db, &mut model, &mut rng, 300);
    settle(&db);
    let needed: u64 = model.values().map(|value| value.len() as u64).sum();
    let (taken, _) = blob_files(&disk, STORE);
    assert!(taken < needed * 5 / 4 + 2 * FILE_BYTES, "{taken} bytes for {needed}");
    agree(&db, &model);
    db.close().unwrap();
}

/// Lets the blob job work until a file is being written anew; whether one is.
fn begin_rewriting(disk: &SimFs, db: &Db) -> bool {
    let is_under_way = || disk.paths().iter().any(|path| path.extension().is_some_and(|ext| ext == "tmp"));
    while !is_under_way() {
        if !JobKind::ALL.iter().any(|&job| db.step(job)) {
            return false;
        }
    }
    true
}

#[test]
fn values_may_go_while_their_file_is_written_anew() {
    for seed in 0..6 {
        let disk = SimFs::new(1);
        let (mut model, mut rng) = (Model::new(), Rng::new(seed));
        let db = open(&disk);
        let mut rewritten = 0;
        for _ in 0..8 {
            fill(&db, &mut model, &mut rng, 400);
            if !begin_rewriting(&disk, &db) {
                continue;
            }
            rewritten += 1;
            // Some go before they are moved, some after, and some are read meanwhile.
            for step in 0..rng.below(20) {
                let keys: Vec<_> = model.keys().cloned().collect();
                let held = db.get(rng.pick(&keys)).unwrap().unwrap();
                let bytes = held.bytes().unwrap().into_owned();
                for _ in 0..10 {
                    let key = rng.pick(&keys);
                    db.delete(key).unwrap();
                    model.remove(key);
                }
                db.step(JobKind::Blobs);
                assert!(held.bytes().unwrap() == bytes, "seed {seed}, step {step}");
            }
            if rng.percent(30) {
                // The file that was begun is given up, here or at the opening.
                if rng.percent(50) {
                    db.close().unwrap();
                    assert!(
                        !disk.paths().iter().any(|path| path.extension().is_some_and(|ext| ext == "tmp"))
                    );
                }
                break;
            }
            settle(&db);
            agree(&db, &model);
        }
        assert!(rewritten > 0, "seed {seed}: nothing was written anew");
        drop(db);
        let db = open(&disk);
        assert!(!disk.paths().iter().any(|path| path.extension().is_some_and(|ext| ext == "tmp")));
        settle(&db);
        agree(&db, &model);
        db.close().unwrap();
        is_sound(&disk, STORE);
    }
}

#[test]
fn a_damaged_value_keeps_its_file_as_it_is() {
    let disk = SimFs::new(1);
    let (mut model, mut rng) = (Model::new(), Rng::new(9));
    let db = open(&disk);
    fill(&db, &mut model, &mut rng, 900);
    settle(&db);
    db.close().unwrap();
    // A byte in the middle of each file: of a value, most likely.
    let files = disk.paths().into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "blob"));
    for path in files {
        let mut bytes = disk.read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        disk.write_all(&path, &bytes).unwrap();
    }
    let db = open(&disk);
    let before: Vec<bool> = model.keys().map(|key| db.get_vec(key).is_ok()).collect();
    assert!(before.iter().filter(|good| !**good).count() < 10);
    let mut later = Model::new();
    fill(&db, &mut later, &mut Rng::new(10), 900);
    settle(&db);
    for ((key, value), good) in model.iter().zip(before) {
        // What is damaged is said to be so, until it is overwritten.
        match (later.get(key), db.get_vec(key)) {
            (Some(new), found) => assert!(found.unwrap().as_ref() == Some(new)),
            (None, Ok(found)) => assert!(good && found.as_ref() == Some(value)),
            (None, Err(error)) => assert!(!good && error.kind() == esker::ErrorKind::Corruption),
        }
    }
    assert!(db.put("still", "writable").is_ok());
}

/// The power fails at any instant while files are written anew: nothing that was durable before is lost.
#[test]
fn power_may_fail_while_a_file_is_written_anew() {
    for at in test_kit::places() {
        let mut disk = SimFs::new(3);
        let (mut model, mut rng) = (Model::new(), Rng::new(9));
        let mut db = open(&disk);
        fill(&db, &mut model, &mut rng, 500);
        settle(&db);
        if at / 6 % 2 == 1 {
            // Files that nobody has sealed.
            db.sync().unwrap();
            disk = disk.crash_keeping(0.0, at);
            drop(db);
            db = open(&disk);
            settle(&db);
        }
        fill(&db, &mut model, &mut rng, 300);
        db.sync().unwrap();
        disk.set_crash_after(Some(disk.operations() + at));
        while !disk.is_dead() && JobKind::ALL.iter().any(|&job| db.step(job)) {}
        let died = disk.is_dead();
        let left = disk.crash_keeping(if at % 2 == 0 { 0.0 } else { 0.5 }, at);
        drop(db);
        is_sound(&left, STORE);
        let db = open(&left);
        agree(&db, &model);
        if !died {
            assert!(at > 100, "{at}");
            break;
        }
    }
}

/// The process may die between the new file's rename and the sync of the directory, and then the power may fail: the old
/// file is back under its name, and its blocks must be its own.
#[test]
fn a_kill_and_then_a_power_cut_leave_a_file_that_was_being_replaced_whole() {
    for nth in 1.. {
        let disk = SimFs::new(3);
        let (mut model, mut rng) = (Model::new(), Rng::new(9));
        let db = open(&disk);
        fill(&db, &mut model, &mut rng, 500);
        settle(&db);
        fill(&db, &mut model, &mut rng, 300);
        db.sync().unwrap();
        disk.inject(Fault::new(Op::SyncDir, STORE).nth(nth).forever());
        while JobKind::ALL.iter().any(|&job| db.step(job)) {}
        let was_hit = disk.faults_hit() > 0;
        let killed = disk.kill();
        for (kept, seed) in [(0.0, nth), (0.0, nth + 1000), (0.5, nth), (1.0, nth)] {
            let left = killed.crash_keeping(kept, seed);
            is_sound(&left, STORE);
            let db = open(&left);
            agree(&db, &model);
            settle(&db);
            drop(db);
            is_sound(&left, STORE);
        }
        drop(db);
        if !was_hit {
            assert!(nth > 3, "{nth}");
            break;
        }
    }
}

/// As on FAT.
#[test]
fn a_file_is_written_anew_where_files_have_one_name_alone() {
    let disk = SimFs::new(1);
    let (mut model, mut rng) = (Model::new(), Rng::new(7));
    let db = open(&disk);
    disk.inject(Fault::new(Op::Link, STORE).error(FaultError::OtherDevice).forever());
    for round in 0..6 {
        fill(&db, &mut model, &mut rng, 600);
        settle(&db);
        let needed: u64 = model.values().map(|value| value.len() as u64).sum();
        let (taken, _) = blob_files(&disk, STORE);
        assert!(taken < needed * 5 / 4 + 2 * FILE_BYTES, "round {round}: {taken} bytes for {needed}");
    }
    assert!(disk.faults_hit() > 0);
    agree(&db, &model);
    let left = disk.crash_keeping(0.0, 1);
    drop(db);
    is_sound(&left, STORE);
}
