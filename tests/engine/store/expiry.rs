//! Values that expire: what becomes of them and of their space. (The model test reads them in every way there is.)

use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use esker::env::{Clock, Env, StepExecutor};
use esker::fs::sim::SimFs;
use esker::{Batch, Db, Options, ScanRange, TxnOptions};

use crate::common::{HOUR_US, HourClock, settle, ttl, world};

const STORE: &str = "/store";

/// A store on `disk` by `clock`, of which nothing moves but by [`settle`].
fn open(disk: &SimFs, clock: &Arc<HourClock>) -> Db {
    let env = world(Arc::new(disk.clone()), 1, Some(Arc::new(StepExecutor)));
    let env = Env { clock: Arc::<HourClock>::clone(clock), ..env };
    Db::open(STORE, Options::default().memory_budget(8 << 20).separate_at(1000).env(env)).unwrap()
}

/// Entries in tables, and huge values.
fn kept(db: &Db) -> (u64, u64) {
    let stats = db.stats().unwrap();
    (stats.trees.iter().map(|tree| tree.table_entries).sum(), stats.blob_values)
}

/// So many values, small and huge ones in turn, that are gone when `hours` have passed.
fn put_some(db: &Db, count: u32, hours: u64) {
    for i in 0..count {
        let value = vec![i as u8; if i % 2 == 0 { 10 } else { 2000 }];
        db.default_tree().put_for(format!("{i:05}"), value, ttl(hours)).unwrap();
    }
}

#[test]
fn space_comes_back_though_nobody_writes() {
    let (disk, clock) = (SimFs::new(1), HourClock::new(0));
    let db = open(&disk, &clock);
    put_some(&db, 1000, 5);
    for lasting in 0..10 {
        db.put(format!("lasting {lasting}"), "").unwrap();
    }
    db.flush().unwrap();
    clock.pass(4);
    settle(&db);
    assert_eq!(kept(&db), (1010, 500));
    clock.pass(2);
    settle(&db);
    assert_eq!(kept(&db), (10, 0));
    assert_eq!(db.default_tree().count(ScanRange::all()).unwrap(), 10);
}

/// Half of what expires has to have done so: what is written anew so is at most as much again as was written.
#[test]
fn a_table_is_merged_when_half_of_it_has_expired() {
    let (disk, clock) = (SimFs::new(1), HourClock::new(0));
    let db = open(&disk, &clock);
    for i in 0..1000_u64 {
        db.default_tree().put_for(format!("{i:05}"), "", ttl(1 + i / 10)).unwrap();
    }
    db.flush().unwrap();
    clock.pass(40);
    settle(&db);
    assert_eq!(kept(&db), (1000, 0));
    clock.pass(11);
    settle(&db);
    let (entries, _) = kept(&db);
    assert!((480..500).contains(&entries), "{entries} are left");
    clock.pass(25);
    settle(&db);
    let (entries, _) = kept(&db);
    assert!((230..260).contains(&entries), "{entries} are left");
}

#[test]
fn what_a_snapshot_sees_does_not_expire() {
    let (disk, clock) = (SimFs::new(1), HourClock::new(0));
    let db = open(&disk, &clock);
    put_some(&db, 100, 5);
    let snapshot = db.snapshot();
    db.flush().unwrap();
    clock.pass(6);
    // Later moments do not see them, and may be registered beside it.
    let later = db.snapshot();
    db.compact().unwrap();
    settle(&db);
    assert_eq!(kept(&db), (100, 50));
    let tree = db.default_tree();
    for (key, value) in snapshot.scan(tree, ScanRange::all()).unwrap().map(Result::unwrap) {
        assert_eq!(snapshot.get_vec(tree, &key).unwrap().unwrap(), value);
        assert!(tree.get(&key).unwrap().is_none() && later.get(tree, &key).unwrap().is_none());
    }
    assert_eq!(snapshot.scan(tree, ScanRange::all().reverse()).unwrap().count(), 100);
    assert_eq!(later.scan(tree, ScanRange::all()).unwrap().count(), 0);
    drop(snapshot);
    db.compact().unwrap();
    settle(&db);
    assert_eq!(kept(&db), (0, 0));
}

#[test]
fn what_has_expired_hides_what_was_there_before() {
    let (disk, clock) = (SimFs::new(1), HourClock::new(0));
    let db = open(&disk, &clock);
    for key in ["a", "b", "c"] {
        db.put(key, "old").unwrap();
    }
    db.compact().unwrap();
    db.default_tree().put_for("b", "new", ttl(2)).unwrap();
    // Above what it hides, where it is to stay as a tombstone.
    db.flush().unwrap();
    let keys = |db: &Db| db.scan(ScanRange::all()).unwrap().map(|pair| pair.unwrap().0).collect::<Vec<_>>();
    assert_eq!(keys(&db), [b"a", b"b", b"c"]);
    clock.pass(3);
    for _ in 0..3 {
        assert_eq!(keys(&db), [b"a", b"c"]);
        db.put("z", "").unwrap();
        db.delete("z").unwrap();
        db.flush().unwrap();
        settle(&db);
    }
    db.compact().unwrap();
    assert_eq!(keys(&db), [b"a", b"c"]);
}

#[test]
fn a_clock_that_is_set_back_brings_nothing_back() {
    let (disk, clock) = (SimFs::new(1), HourClock::new(100));
    let db = open(&disk, &clock);
    put_some(&db, 10, 5);
    clock.pass(6);
    assert!(db.get("00003").unwrap().is_none());
    db.close().unwrap();
    let clock = HourClock::new(0);
    for opening in 0..3 {
        let db = open(&disk, &clock);
        assert!(
            db.get("00003").unwrap().is_none() && db.get("00004").unwrap().is_none(),
            "opening {opening}"
        );
        // Its time goes on from where it was.
        db.default_tree().put_for("brief", "", ttl(2)).unwrap();
        assert!(db.contains("brief").unwrap());
        clock.pass(2);
        assert!(!db.contains("brief").unwrap());
        db.close().unwrap();
    }
}

const YEAR: u64 = 8766;

/// Opens the store when the machine's clock shows `hours` since 1970, as another process does.
fn open_at(disk: &SimFs, hours: u64) -> (Db, Arc<HourClock>) {
    let clock = HourClock::new(hours);
    (open(disk, &clock), clock)
}

/// The machine's clock was 30 years ahead during one opening. The time between the later openings counts all the same, also
/// after a kill.
#[test]
fn after_a_clock_that_was_ahead_the_time_between_openings_counts() {
    let (mut disk, right) = (SimFs::new(1), 55 * YEAR);
    let (db, _) = open_at(&disk, right + 30 * YEAR);
    db.default_tree().put_for("ahead", "", ttl(1)).unwrap();
    db.close().unwrap();
    drop(db);
    for (begin, is_killed) in [(right, false), (right + 100, true), (right + 2 * YEAR, false)] {
        let (db, _) = open_at(&disk, begin);
        let ahead_us = db.default_tree().clock_ahead_us();
        assert_eq!(db.stats().unwrap().clock_ahead_us, ahead_us);
        assert!(ahead_us.abs_diff(30 * YEAR * 3_600_000_000) < 3_600_000_000, "{ahead_us}");
        db.default_tree().put_for("limiter", "", ttl(5)).unwrap();
        if is_killed {
            disk = disk.kill();
        } else {
            db.close().unwrap();
        }
        drop(db);
        for (hours, lives) in [(1, true), (4, true), (6, false), (7, false)] {
            let (db, _) = open_at(&disk, begin + hours);
            assert_eq!(db.contains("limiter").unwrap(), lives, "{hours} hours after {begin}");
            db.close().unwrap();
        }
    }
}

/// A machine without a clock of its own begins in 1970, and is set right later: nothing expires early.
#[test]
fn a_clock_that_begins_in_1970_and_is_set_right_expires_nothing_early() {
    let (disk, right) = (SimFs::new(1), 55 * YEAR);
    let (db, _) = open_at(&disk, right);
    db.default_tree().put_for("short", "", ttl(5)).unwrap();
    db.default_tree().put_for("long", "", ttl(2 * YEAR)).unwrap();
    db.close().unwrap();
    drop(db);
    for hours in [0, right + 1, 1, right + 2, 0, right + 2] {
        let (db, _) = open_at(&disk, hours);
        assert!(db.contains("short").unwrap() && db.contains("long").unwrap(), "at {hours}");
        db.close().unwrap();
    }
    let (db, clock) = open_at(&disk, right + 6);
    assert!(!db.contains("short").unwrap() && db.contains("long").unwrap());
    assert_eq!(db.default_tree().clock_ahead_us(), 0);
    clock.pass(2 * YEAR);
    assert!(!db.contains("long").unwrap());
}

/// The same machine, with a store whose clock is 30 years ahead since once before.
#[test]
fn a_clock_that_begins_in_1970_expires_nothing_early_in_a_store_that_is_ahead() {
    let (disk, right) = (SimFs::new(1), 55 * YEAR);
    let (db, _) = open_at(&disk, right + 30 * YEAR);
    db.put("ahead", "").unwrap();
    db.close().unwrap();
    drop(db);
    let (db, _) = open_at(&disk, right);
    db.default_tree().put_for("short", "", ttl(5)).unwrap();
    db.default_tree().put_for("long", "", ttl(2 * YEAR)).unwrap();
    db.close().unwrap();
    drop(db);
    for hours in [0, right + 1, 1, 2, right + 2, 0, right + 3, right + 4] {
        let (db, _) = open_at(&disk, hours);
        assert!(db.contains("short").unwrap() && db.contains("long").unwrap(), "at {hours}");
        db.close().unwrap();
    }
    for (hours, long_lives) in
        [(right + 6, true), (right + YEAR, true), (0, true), (right + 2 * YEAR + 1, false)]
    {
        let (db, _) = open_at(&disk, hours);
        assert!(!db.contains("short").unwrap(), "at {hours}");
        assert_eq!(db.contains("long").unwrap(), long_lives, "at {hours}");
        db.close().unwrap();
    }
}

/// Readers, checkpoints and restored backups of a store whose clock is ahead.
#[test]
fn copies_and_readers_count_the_time_between_openings() {
    let (disk, right) = (SimFs::new(1), 55 * YEAR);
    let options_at = |hours: u64| {
        let env = world(Arc::new(disk.clone()), 1, Some(Arc::new(StepExecutor)));
        let env = Env { clock: HourClock::new(hours), ..env };
        Options::default().memory_budget(8 << 20).env(env)
    };
    let db = Db::open(STORE, options_at(right + 30 * YEAR)).unwrap();
    db.put("ahead", "").unwrap();
    db.close().unwrap();
    drop(db);
    let db = Db::open(STORE, options_at(right)).unwrap();
    db.default_tree().put_for("limiter", "", ttl(5)).unwrap();
    // Another store of the same process has a clock of its own.
    let other = Db::open("/other", options_at(right)).unwrap();
    other.put("k", "").unwrap();
    assert_eq!(other.stats().unwrap().clock_ahead_us, 0);
    db.checkpoint("/checkpoint").unwrap();
    db.backup("/backups").unwrap();
    db.close().unwrap();
    drop(db);
    esker::restore("/backups", None, "/restored", &options_at(right + 1)).unwrap();
    for (hours, lives) in [(3, true), (4, true), (6, false)] {
        for (dir, is_read_only) in
            [(STORE, true), ("/checkpoint", true), ("/checkpoint", false), ("/restored", false)]
        {
            let options = options_at(right + hours);
            let opened = if is_read_only { Db::open_read_only(dir, options) } else { Db::open(dir, options) };
            let db = opened.unwrap();
            assert_eq!(db.contains("limiter").unwrap(), lives, "{dir} after {hours} hours");
            assert!(db.stats().unwrap().clock_ahead_us > 29 * YEAR * HOUR_US, "{dir}");
            db.close().unwrap();
        }
    }
}

#[test]
fn copied_from_another_store_they_expire_at_the_same_moment() {
    let (disk, clock) = (SimFs::new(1), HourClock::new(0));
    let db = open(&disk, &clock);
    put_some(&db, 100, 5);
    db.put("lasting", "").unwrap();
    let other = open(&SimFs::new(2), &clock);
    other.put("00001", "old").unwrap();
    clock.pass(2);
    let mut rows = db.scan(ScanRange::all()).unwrap();
    let mut batch = Batch::new();
    while rows.advance().unwrap() {
        assert_eq!(rows.expires_us(), db.get(rows.key()).unwrap().unwrap().expires_us());
        let (key, expires_us) = (rows.key().to_vec(), rows.expires_us());
        batch.put_until_us(other.default_tree(), key, rows.value().unwrap(), expires_us).unwrap();
    }
    // A time that has passed.
    batch.put_until_us(other.default_tree(), "00001", "never seen", Some(1)).unwrap();
    other.write(&batch).unwrap();
    assert_eq!(other.default_tree().count(ScanRange::all()).unwrap(), 100);
    assert!(other.get("00001").unwrap().is_none());
    let expires = |db: &Db| db.get("00003").unwrap().unwrap().expires_us();
    assert_eq!(expires(&other), expires(&db));
    other.flush().unwrap();
    clock.pass(4);
    assert_eq!(other.default_tree().count(ScanRange::all()).unwrap(), 1);
}

#[test]
fn a_moment_and_its_microseconds_are_the_same_expiry() {
    let (disk, clock) = (SimFs::new(1), HourClock::new(0));
    let db = open(&disk, &clock);
    let tree = db.default_tree();
    tree.put_for("model", "", ttl(5)).unwrap();
    let model = tree.get("model").unwrap().unwrap();
    let (us, moment) = (model.expires_us().unwrap(), model.expires_at().unwrap());
    assert_eq!(moment, UNIX_EPOCH + Duration::from_micros(us));

    tree.put_until("tree", "", moment).unwrap();
    let mut batch = Batch::new();
    batch.put_until(tree, "batch", vec![7; 2000], moment + Duration::from_nanos(999)).unwrap();
    db.write(&batch).unwrap();
    let txn = db.begin(TxnOptions::default()).unwrap();
    txn.put_until(tree, "txn", "", moment).unwrap();
    txn.put_until(tree, "past", "", UNIX_EPOCH - Duration::from_secs(1)).unwrap();
    txn.commit().unwrap();
    let mut rows = db.scan(..).unwrap();
    let mut seen = 0;
    while rows.advance().unwrap() {
        assert_eq!((rows.expires_us(), rows.expires_at()), (Some(us), Some(moment)));
        seen += 1;
    }
    assert_eq!(seen, 4);
    let stored = tree.get("batch").unwrap().unwrap();
    assert_eq!(stored.stored_at(), stored.stored_us().map(|us| UNIX_EPOCH + Duration::from_micros(us)));
    clock.pass(4);
    assert_eq!(tree.count(..).unwrap(), 4);
    clock.pass(1);
    assert_eq!(tree.count(..).unwrap(), 0);
}

#[test]
fn renamed_and_copied_values_expire_when_they_would_have() {
    let (disk, clock) = (SimFs::new(1), HourClock::new(0));
    let db = open(&disk, &clock);
    put_some(&db, 4, 5);
    let tree = db.default_tree();
    assert!(tree.rename("00000", "a").unwrap() && tree.rename("00001", "b").unwrap());
    assert!(tree.copy("00002", "c").unwrap() && tree.copy("00003", "d").unwrap());
    clock.pass(4);
    assert_eq!(tree.count(ScanRange::all()).unwrap(), 6);
    clock.pass(1);
    assert_eq!(tree.count(ScanRange::all()).unwrap(), 0);
    assert!(!tree.copy("a", "e").unwrap() && !tree.rename("b", "f").unwrap());
}

type Work = Box<dyn FnOnce() + Send>;

/// A clock at which something happens when it is looked at next.
struct MeddlingClock {
    clock: Arc<HourClock>,
    then: Mutex<Option<Work>>,
}

impl std::fmt::Debug for MeddlingClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.clock.fmt(f)
    }
}

impl Clock for MeddlingClock {
    fn wall_us(&self) -> u64 {
        let then = self.then.lock().unwrap().take();
        if let Some(work) = then {
            work();
        }
        self.clock.wall_us()
    }

    fn monotonic_us(&self) -> u64 {
        self.clock.monotonic_us()
    }

    fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration);
    }
}

/// A value is written over before it expires, while somebody who has seen it looks at the clock: the key has a value at every
/// moment, so it is never said to have none.
#[test]
fn a_key_that_was_written_over_in_time_is_never_missing() {
    type Read = fn(&Db) -> bool;
    let reads: [(&str, Read); 7] = [
        ("get", |db| db.get("key").unwrap().is_some()),
        ("get_vec", |db| db.get_vec("key").unwrap().is_some()),
        ("get_into", |db| db.default_tree().get_into("key", &mut Vec::new()).unwrap()),
        ("contains", |db| db.contains("key").unwrap()),
        ("get_many", |db| db.default_tree().get_many(["key"]).unwrap()[0].is_some()),
        ("scan", |db| db.scan(ScanRange::all()).unwrap().count() == 1),
        ("snapshot", |db| {
            let snapshot = db.snapshot();
            snapshot.contains(db.default_tree(), "key").unwrap()
        }),
    ];
    for flushed in [false, true] {
        for (name, read) in reads {
            let hours = HourClock::new(0);
            let clock = Arc::new(MeddlingClock { clock: Arc::clone(&hours), then: Mutex::default() });
            let env = world(Arc::new(SimFs::new(1)), 1, Some(Arc::new(StepExecutor)));
            let env = Env { clock: Arc::<MeddlingClock>::clone(&clock), ..env };
            let db = Db::open(STORE, Options::default().memory_budget(8 << 20).env(env)).unwrap();
            db.default_tree().put_for("key", "old", ttl(2)).unwrap();
            if flushed {
                db.flush().unwrap();
            }
            let writer = db.clone();
            let write = move || {
                writer.put("key", "new").unwrap();
                hours.pass(3);
            };
            *clock.then.lock().unwrap() = Some(Box::new(write));
            assert!(read(&db), "{name}");
            assert!(clock.then.lock().unwrap().is_none(), "{name} did not look at the clock");
        }
    }
}

/// Between two notes of the clock in the manifest, the machine's clock may go on by so much that it could have been set right. The
/// store knows better, and so do its copies.
#[test]
fn copies_of_a_store_that_is_ahead_go_on_from_now() {
    let disk = SimFs::new(1);
    let ahead = open(&disk, &HourClock::new(9));
    ahead.put("begun", "").unwrap();
    ahead.close().unwrap();
    let clock = HourClock::new(0);
    let db = open(&disk, &clock);
    db.default_tree().put_for("a", "x", ttl(5)).unwrap();
    db.flush().unwrap();
    clock.pass(5);
    assert_eq!(db.get_vec("a").unwrap(), None);
    let env = world(Arc::new(disk.clone()), 1, Some(Arc::new(StepExecutor)));
    let options = Options::default().env(Env { clock, ..env });
    db.checkpoint("/copy").unwrap();
    let backup = db.backup("/shelf").unwrap();
    esker::restore("/shelf", Some(backup.id), "/restored", &options).unwrap();
    for copy in ["/copy", "/restored"] {
        let copied = Db::open(copy, options.clone()).unwrap();
        assert_eq!(copied.get_vec("a").unwrap(), None, "{copy}");
        assert!(copied.contains("begun").unwrap());
        copied.close().unwrap();
    }
    db.close().unwrap();
}
