//! Backups: every one of a growing and shrinking store is restored as it was; a further one copies what is new alone; an
//! interruption at any call leaves the earlier ones whole; damage is named.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use esker::env::{JobKind, StepExecutor};
use esker::fs::FileSystem;
use esker::fs::sim::{Fault, Op, SimFs};
use esker::{BackupReport, Db, ErrorKind, Options, ScanRange};

use crate::common::{Rng, world};

const STORE: &str = "/store";
const SHELF: &str = "/backups";
const TARGET: &str = "/restored";

fn options(disk: &SimFs) -> Options {
    let env = world(Arc::new(disk.clone()), 1, Some(Arc::new(StepExecutor)));
    let mut options = Options::default().memory_budget(8 << 20).separate_at(1000).env(env);
    options.memtable_bytes = Some(16 << 10);
    options.table_bytes = 16 << 10;
    options.blob_file_bytes = 100_000;
    options
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Overwrites and deletes small and huge values, so that tables are merged, and blob files get holes, are written anew and
/// go.
fn work(db: &Db, model: &mut Model, rng: &mut Rng, times: u64) {
    for _ in 0..times {
        let key = format!("key{:03}", rng.below(150)).into_bytes();
        if rng.one_in(4) {
            db.delete(&key).unwrap();
            model.remove(&key);
        } else {
            let len = if rng.one_in(3) { 1000 + rng.index(20_000) } else { rng.index(200) };
            let value = rng.bytes(len);
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        if rng.one_in(10) {
            for job in JobKind::ALL.repeat(4) {
                db.step(job);
            }
        }
    }
}

fn content(db: &Db) -> Model {
    let scan = db.scan(ScanRange::all()).unwrap();
    scan.map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

/// Restores a backup and compares it with what was in the store when it was made.
fn is_whole(disk: &SimFs, id: Option<u64>, model: &Model) {
    let disk = disk.fork();
    esker::restore(SHELF, id, TARGET, &options(&disk)).unwrap();
    // What restore returned from survives power loss.
    let disk = disk.crash_keeping(0.0, 1);
    assert_eq!(esker::check(TARGET, &options(&disk)).unwrap().findings, []);
    let db = Db::open(TARGET, options(&disk)).unwrap();
    assert!(content(&db) == *model, "backup {id:?} is another store");
    db.put("it", "takes writes").unwrap();
    db.compact().unwrap();
    db.close().unwrap();
    assert_eq!(esker::check(TARGET, &options(&disk)).unwrap().findings, []);
}

fn shelf(disk: &SimFs) -> BTreeMap<PathBuf, u64> {
    let paths = disk.paths().into_iter().filter(|path| path.starts_with(SHELF));
    paths.map(|path| (path.clone(), disk.file_len(&path).unwrap())).collect()
}

fn named(path: &Path, what: &str) -> bool {
    path.file_name().unwrap().to_string_lossy().contains(what)
}

#[test]
fn every_backup_is_the_store_of_its_moment_and_copies_what_is_new() {
    for seed in crate::common::seeds(12) {
        eprintln!("ESKER_SEED={seed}");
        let mut rng = Rng::new(seed);
        let mut disk = SimFs::new(seed);
        let mut db = Db::open(STORE, options(&disk)).unwrap();
        let (mut model, mut made) = (Model::new(), Vec::new());
        for _ in 0..6 {
            let times = rng.below(200);
            work(&db, &mut model, &mut rng, times);
            let before = shelf(&disk);
            let report = db.backup(SHELF).unwrap();
            copies_what_is_new(&before, &shelf(&disk), &report);
            made.push((report.id, model.clone()));
            if rng.one_in(3) {
                // Files that a crash has left without footer are backed up too.
                disk = if rng.one_in(2) { disk.kill() } else { disk.crash_keeping(1.0, seed) };
                db = Db::open(STORE, options(&disk)).unwrap();
            }
        }
        let listed: Vec<u64> =
            esker::backups(SHELF, &options(&disk)).unwrap().iter().map(|info| info.id).collect();
        assert_eq!(listed, made.iter().map(|(id, _)| *id).collect::<Vec<_>>());
        made.iter().for_each(|(id, model)| is_whole(&disk, Some(*id), model));
        assert_eq!(esker::forget_backups(SHELF, 2, &options(&disk)).unwrap(), made.len() - 2);
        made.iter().skip(4).for_each(|(id, model)| is_whole(&disk, Some(*id), model));
        is_whole(&disk, None, &model);
        assert_eq!(esker::forget_backups(SHELF, 0, &options(&disk)).unwrap(), 1);
        let kept = esker::backups(SHELF, &options(&disk)).unwrap();
        assert_eq!(kept.len(), 1);
        assert_eq!(shelf(&disk).len() as u64, kept[0].files + 2, "its files, the list of them, the lock");
    }
}

fn copies_what_is_new(
    before: &BTreeMap<PathBuf, u64>,
    after: &BTreeMap<PathBuf, u64>,
    report: &BackupReport,
) {
    assert!(
        before.iter().all(|(path, len)| after.get(path) == Some(len)),
        "an earlier backup's file has changed"
    );
    let new = after.iter().filter(|(path, _)| !before.contains_key(*path));
    let new: Vec<_> = new.filter(|(path, _)| !named(path, "backup-") && !named(path, "LOCK")).collect();
    assert_eq!(new.len() as u64, report.copied_files);
    assert_eq!(new.iter().map(|(_, len)| **len).sum::<u64>(), report.copied_bytes);
}

#[test]
fn a_backup_of_what_has_not_changed_copies_next_to_nothing() {
    let disk = SimFs::new(1);
    let db = Db::open(STORE, options(&disk)).unwrap();
    work(&db, &mut Model::new(), &mut Rng::new(1), 600);
    let first = db.backup(SHELF).unwrap();
    assert_eq!((first.id, first.files, first.bytes), (1, first.copied_files, first.copied_bytes));
    assert!(first.bytes > 500_000, "{first:?}");
    let used = disk.used();
    let second = db.backup(SHELF).unwrap();
    // The manifest and what is in the last segment of the log.
    assert_eq!((second.id, second.copied_files), (2, 2));
    assert!(disk.used() - used < 80 << 10, "{second:?}");
}

/// A store with a backup and changes since, so that the next one has something of everything to copy.
fn changed_since(seed: u64) -> (SimFs, Db, Model, Model) {
    let disk = SimFs::new(seed);
    let mut rng = Rng::new(seed);
    let db = Db::open(STORE, options(&disk)).unwrap();
    let mut model = Model::new();
    work(&db, &mut model, &mut rng, 60);
    db.backup(SHELF).unwrap();
    let first = model.clone();
    work(&db, &mut model, &mut rng, 40);
    (disk, db, first, model)
}

#[test]
fn an_interrupted_backup_leaves_the_earlier_ones_whole() {
    let (disk, db, ..) = changed_since(3);
    let begin = disk.operations();
    db.backup(SHELF).unwrap();
    let calls = disk.operations() - begin;
    assert!(calls > 50, "{calls} calls");
    let mut made = 0;
    for call in 0..calls {
        let (disk, db, first, model) = changed_since(3);
        disk.set_crash_after(Some(begin + call));
        let result = db.backup(SHELF);
        assert!(
            disk.is_dead() && (result.is_err() || call + 20 > calls),
            "call {call} of {calls}: {result:?}"
        );
        let disk = if call % 3 == 0 { disk.kill() } else { disk.crash(call) };
        let listed = esker::backups(SHELF, &options(&disk)).unwrap();
        if call % 4 == 0 {
            is_whole(&disk, Some(1), &first);
        }
        if listed.len() == 2 {
            is_whole(&disk, Some(2), &model);
            made += 1;
        }
        let db = Db::open(STORE, options(&disk)).unwrap();
        assert!(!disk.exists(Path::new("/store/backup.tmp")).unwrap(), "call {call}: links stay");
        let again = db.backup(SHELF).unwrap();
        assert_eq!(again.id as usize, listed.len() + 1);
        nothing_is_left_over(&disk);
        if call % 4 == 0 {
            // Only what a writer at `Process` could lose is missing.
            is_whole(&disk, None, &content(&db));
        }
    }
    assert!(made > 0, "no crash came behind the last rename");
}

/// Every file on the shelf is one that some backup names.
fn nothing_is_left_over(disk: &SimFs) {
    let mut needed: BTreeSet<String> = BTreeSet::from(["LOCK".to_owned()]);
    for path in shelf(disk).keys().filter(|path| named(path, "backup-")) {
        needed.insert(path.file_name().unwrap().to_string_lossy().into_owned());
        let text = String::from_utf8(disk.read_all(path).unwrap()).unwrap();
        needed.extend(
            text.lines().filter_map(|line| Some(line.strip_prefix("file ")?.split(' ').nth(2)?.to_owned())),
        );
    }
    let there: BTreeSet<String> =
        shelf(disk).keys().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(there, needed);
}

#[test]
fn an_interrupted_restore_is_no_store() {
    let (disk, _db, first, _) = changed_since(4);
    let whole = disk.fork();
    esker::restore(SHELF, None, TARGET, &options(&whole)).unwrap();
    let calls = whole.operations();
    assert!(calls > 20, "{calls} calls");
    for call in 0..calls {
        let disk = disk.fork();
        disk.set_crash_after(Some(call));
        assert!(esker::restore(SHELF, None, TARGET, &options(&disk)).is_err(), "call {call}");
        let disk = disk.crash(call);
        // Whatever opens is the whole store.
        match Db::open(TARGET, options(&disk).create(false)) {
            Ok(db) => assert!(content(&db) == first, "call {call}: half a store"),
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::Corruption | ErrorKind::NotFound), "{error:?}");
            }
        }
    }
}

#[test]
fn a_restore_that_is_cancelled_leaves_nothing_behind() {
    let (disk, _db, first, _) = changed_since(6);
    let restore = |disk: &SimFs, n: u64| {
        let asked = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&asked);
        let cancelled = move || count.fetch_add(1, Ordering::Relaxed) >= n;
        let done = esker::restore_until(SHELF, None, TARGET, &options(disk), cancelled);
        (done.map_err(|error| error.kind()), asked.load(Ordering::Relaxed))
    };
    let (whole, questions) = restore(&disk.fork(), u64::MAX);
    assert!(whole.is_ok() && questions > 10, "{questions}");
    for n in 0..questions {
        let disk = disk.fork();
        assert_eq!(restore(&disk, n).0, Err(ErrorKind::Cancelled), "question {n}");
        assert!(!disk.exists(Path::new(TARGET)).unwrap(), "question {n}");
        // The lock is free, too.
        esker::restore(SHELF, None, TARGET, &options(&disk)).unwrap();
        assert!(content(&Db::open(TARGET, options(&disk)).unwrap()) == first, "question {n}");
    }
}

#[test]
fn a_restore_or_backup_that_fails_takes_away_what_it_has_made() {
    let (disk, db, first, _) = changed_since(5);
    for op in [Op::Create, Op::WriteAt, Op::Sync, Op::SyncDir, Op::Rename, Op::Read, Op::SetLen] {
        for nth in [1, 2, 5] {
            let disk = disk.fork();
            disk.inject(Fault::new(op, TARGET).nth(nth));
            let restored = esker::restore(SHELF, None, TARGET, &options(&disk));
            if disk.faults_hit() > 0 {
                assert!(restored.is_err());
                assert!(!disk.exists(Path::new(TARGET)).unwrap(), "{op:?} {nth}");
            }
        }
    }
    let mut failed = 0;
    loop {
        disk.inject(Fault::new(Op::WriteAt, SHELF).nth(failed + 1));
        let made = db.backup(SHELF);
        disk.clear_faults();
        assert!(!disk.exists(Path::new("/store/backup.tmp")).unwrap());
        is_whole(&disk, Some(1), &first);
        match made {
            Ok(report) => break assert_eq!((report.id, failed > 2), (2, true)),
            Err(_) => failed += 1,
        }
    }
    nothing_is_left_over(&disk);
}

#[test]
fn damage_in_a_backup_is_named() {
    let (disk, db, first, model) = changed_since(6);
    db.backup(SHELF).unwrap();
    let mut rng = Rng::new(6);
    for (path, len) in shelf(&disk).into_iter().filter(|(_, len)| *len > 0) {
        for cut in [false, true] {
            let disk = disk.fork();
            match cut {
                true => disk.truncate(&path, rng.below(len)).unwrap(),
                false => disk.flip_byte(&path, rng.below(len), 1).unwrap(),
            }
            let mut told = 0;
            for (id, model) in [(1, &first), (2, &model)] {
                match esker::restore(SHELF, Some(id), TARGET, &options(&disk.fork())) {
                    Ok(_) => is_whole(&disk, Some(id), model),
                    Err(error) => {
                        let place = (error.kind(), error.path());
                        assert_eq!(place, (ErrorKind::Corruption, Some(path.as_path())), "{error}");
                        told += 1;
                    }
                }
            }
            assert!(told > 0, "{} is needed by nobody", path.display());
            disk.remove_file(&path).unwrap();
            assert!(esker::restore(SHELF, None, TARGET, &options(&disk)).is_err() || told == 1);
        }
    }
}

#[test]
fn a_directory_has_the_backups_of_one_store() {
    let disk = SimFs::new(8);
    let with_seed = |seed| {
        let env = world(Arc::new(disk.clone()), seed, Some(Arc::new(StepExecutor)));
        options(&disk).env(env)
    };
    let db = Db::open(STORE, with_seed(1)).unwrap();
    db.put("key", "value").unwrap();
    db.backup(SHELF).unwrap();
    let other = Db::open("/other", with_seed(2)).unwrap();
    let error = other.backup(SHELF).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.message().contains("another store"), "{error}");
    db.export_tree("default", "/exported").unwrap();
    let exported = Db::open("/exported", with_seed(3)).unwrap();
    assert_eq!(exported.backup(SHELF).unwrap_err().kind(), ErrorKind::InvalidInput);
    let shelf = shelf(&disk);

    // Nothing was touched; what is the same store goes on: opened again, restored, copied, rebuilt without its tables.
    assert_eq!(shelf.keys().filter(|path| named(path, "backup-")).count(), 1);
    db.close().unwrap();
    let db = Db::open(STORE, with_seed(4)).unwrap();
    db.checkpoint("/copy").unwrap();
    esker::restore(SHELF, None, TARGET, &with_seed(5)).unwrap();
    db.delete("key").unwrap();
    db.compact().unwrap();
    assert_eq!(db.backup(SHELF).unwrap().id, 2);
    for (id, path) in [(3, "/copy"), (4, TARGET)] {
        assert_eq!(Db::open(path, with_seed(id)).unwrap().backup(SHELF).unwrap().id, id);
    }

    // Nor is a store refused that does not know any more which one it is.
    db.close().unwrap();
    for name in disk.list(Path::new(STORE)).unwrap().iter().filter(|name| name.starts_with("manifest")) {
        disk.remove_file(&Path::new(STORE).join(name)).unwrap();
    }
    esker::repair(STORE, &with_seed(6)).unwrap();
    let db = Db::open(STORE, with_seed(7)).unwrap();
    assert_eq!(db.backup(SHELF).unwrap().id, 5);
    assert_eq!(other.backup(SHELF).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn no_copy_is_made_in_the_store_itself() {
    let disk = SimFs::new(9);
    let db = Db::open(STORE, options(&disk)).unwrap();
    db.put("key", "value").unwrap();
    let before = disk.list(Path::new(STORE)).unwrap();
    for inside in ["/store", "/store/", "/store/x", "/./store/x/y", "/else/../store/x"] {
        assert_eq!(db.backup(inside).unwrap_err().kind(), ErrorKind::InvalidInput, "{inside}");
        assert_eq!(db.checkpoint(inside).unwrap_err().kind(), ErrorKind::InvalidInput, "{inside}");
        assert_eq!(
            db.export_tree("default", inside).unwrap_err().kind(),
            ErrorKind::InvalidInput,
            "{inside}"
        );
    }
    assert_eq!(disk.list(Path::new(STORE)).unwrap(), before);
    db.backup("/store/../backups").unwrap();
    db.checkpoint("/stored").unwrap();
}

#[test]
fn other_directories_are_left_alone() {
    let disk = SimFs::new(7);
    let db = Db::open(STORE, options(&disk)).unwrap();
    db.put("key", "value").unwrap();
    disk.write_all("/letters/one.txt", b"dear").unwrap();
    assert_eq!(db.backup("/letters").unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(db.backup(STORE).unwrap_err().kind(), ErrorKind::InvalidInput);
    db.backup(SHELF).unwrap();
    let restore = |id, target: &str| esker::restore(SHELF, id, target, &options(&disk)).unwrap_err().kind();
    assert_eq!(restore(None, "/letters"), ErrorKind::AlreadyExists);
    assert_eq!(restore(Some(2), TARGET), ErrorKind::NotFound);
    assert!(!disk.exists(Path::new(TARGET)).unwrap());
    db.close().unwrap();
    esker::destroy(STORE, &options(&disk)).unwrap();
    is_whole(&disk, None, &BTreeMap::from([(b"key".to_vec(), b"value".to_vec())]));
}

/// A file system may give the blocks of a removed list away before the removal is durable.
#[test]
fn a_backup_that_was_being_forgotten_is_there_or_not_after_a_power_cut() {
    let disk = SimFs::new(1);
    let (mut model, mut rng) = (Model::new(), Rng::new(5));
    let db = Db::open(STORE, options(&disk)).unwrap();
    for _ in 0..3 {
        work(&db, &mut model, &mut rng, 40);
        db.backup(SHELF).unwrap();
    }
    for nth in 1.. {
        let disk = disk.fork();
        disk.inject(Fault::new(Op::SyncDir, SHELF).nth(nth));
        let forgotten = esker::forget_backups(SHELF, 1, &options(&disk));
        assert_eq!(forgotten.is_ok(), disk.faults_hit() == 0);
        for seed in 0..20 {
            let left = disk.kill().crash(seed);
            let listed = esker::backups(SHELF, &options(&left)).unwrap();
            assert!((1..=3).contains(&listed.len()), "{listed:?}");
            for info in &listed {
                esker::restore(SHELF, Some(info.id), TARGET, &options(&left.fork())).unwrap();
            }
            is_whole(&left, None, &model);
            esker::forget_backups(SHELF, 1, &options(&left)).unwrap();
            is_whole(&left, None, &model);
        }
        if forgotten.is_ok() {
            assert!(nth > 1);
            break;
        }
    }
}
