//! Data that comes in bulk: as if all of it had been put at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use esker::env::{JobKind, StepExecutor};
use esker::fs::FileSystem;
use esker::fs::sim::{Fault, FaultError, Op, SimFs};
use esker::{Db, ErrorKind, Options, ScanRange, Snapshot, Tree, TreeOptions, TxnOptions};

use crate::common::{Rng, any_style, contents, seeds, settle, tables, tiny_options, world};

const STORE: &str = "/store";

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// A store whose tree "t" a model follows.
struct Session {
    rng: Rng,
    disk: SimFs,
    options: Options,
    db: Db,
    tree: Tree,
    model: Pairs,
    snapshots: Vec<(Snapshot, Pairs)>,
}

impl Session {
    fn new(seed: u64) -> Session {
        let mut rng = Rng::new(seed);
        let disk = SimFs::new(seed);
        let env = world(Arc::new(disk.clone()), seed, Some(Arc::new(StepExecutor)));
        let options = tiny_options(&mut rng, env);
        let db = Db::open(STORE, options.clone()).unwrap();
        let style = any_style(&mut rng, TreeOptions::default()).log(!rng.one_in(4));
        let tree = db.create_tree("t", style).unwrap();
        Session { rng, disk, options, db, tree, model: Pairs::new(), snapshots: Vec::new() }
    }

    fn key(&mut self) -> Vec<u8> {
        format!("{:03}", self.rng.below(300)).into_bytes()
    }

    fn value(&mut self) -> Vec<u8> {
        let len = if self.rng.one_in(8) { self.rng.below(5000) } else { self.rng.below(60) };
        let byte = self.rng.next() as u8;
        vec![byte; len as usize]
    }

    fn put(&mut self) {
        let (key, value) = (self.key(), self.value());
        self.tree.put(&key, &value).unwrap();
        self.model.insert(key, value);
    }

    fn delete_range(&mut self) {
        let (from, end) = (self.key(), self.key());
        self.tree.delete_range(&from..&end).unwrap();
        self.model.retain(|key, _| *key < from || *key >= end);
    }

    fn ingest(&mut self) {
        let mut pairs = Pairs::new();
        let (from, to) = (self.rng.below(300), self.rng.below(300));
        for number in from.min(to)..from.max(to) {
            if !self.rng.one_in(3) {
                pairs.insert(format!("{number:03}").into_bytes(), self.value());
            }
        }
        let mut ingest = self.tree.ingest().unwrap();
        for (key, value) in &pairs {
            ingest.put(key, value).unwrap();
            if self.rng.one_in(20) {
                self.put();
            }
        }
        if self.rng.one_in(8) {
            return;
        }
        assert_eq!(ingest.commit().unwrap(), pairs.len() as u64);
        self.model.extend(pairs);
    }

    fn ingest_unsorted(&mut self) {
        let mut pairs = Pairs::new();
        let mut ingest = self.tree.ingest_unsorted().unwrap();
        for _ in 0..self.rng.below(600) {
            let (key, value) = (self.key(), self.value());
            ingest.put(&key, &value).unwrap();
            pairs.insert(key, value);
        }
        if self.rng.one_in(8) {
            return;
        }
        assert_eq!(ingest.commit().unwrap(), pairs.len() as u64);
        self.model.extend(pairs);
    }

    fn reopen(&mut self) {
        self.snapshots.clear();
        self.db.close().unwrap();
        assert!(esker::check(STORE, &self.options).unwrap().findings.is_empty());
        self.db = Db::open(STORE, self.options.clone()).unwrap();
        self.tree = self.db.open_tree("t").unwrap().unwrap();
    }

    fn step(&mut self) {
        match self.rng.below(40) {
            0..16 => self.put(),
            16..19 => {
                let key = self.key();
                self.tree.delete(&key).unwrap();
                self.model.remove(&key);
            }
            19 => self.delete_range(),
            20..23 => self.ingest(),
            23 => self.ingest_unsorted(),
            24 => self.snapshots.push((self.db.snapshot(), self.model.clone())),
            25 if !self.snapshots.is_empty() => {
                let at = self.rng.index(self.snapshots.len());
                self.snapshots.swap_remove(at);
            }
            26 => self.db.flush().unwrap(),
            27 if self.rng.one_in(4) => self.db.compact().unwrap(),
            28 if self.rng.one_in(4) => self.reopen(),
            29..34 => drop(self.db.step(*self.rng.pick(&JobKind::ALL))),
            34..37 => {
                let key = self.key();
                assert_eq!(self.tree.get_vec(&key).unwrap().as_ref(), self.model.get(&key));
            }
            _ => self.look(),
        }
    }

    fn look(&mut self) {
        assert!(contents(&self.tree) == self.model);
        let backward: esker::Result<Pairs> = self.tree.scan(ScanRange::all().reverse()).unwrap().collect();
        assert!(backward.unwrap() == self.model);
        for (snapshot, pairs) in &self.snapshots {
            let seen: esker::Result<Pairs> = snapshot.scan(&self.tree, ScanRange::all()).unwrap().collect();
            assert!(seen.unwrap() == *pairs, "a snapshot sees something else than it saw");
        }
    }
}

#[test]
fn it_is_as_if_all_had_been_put_at_once() {
    for seed in seeds(60) {
        println!("ESKER_SEED={seed}");
        let mut session = Session::new(seed);
        (0..300).for_each(|_| session.step());
        session.look();
        session.reopen();
        session.look();
        session.tree.delete_range(ScanRange::all()).unwrap();
        session.db.compact().unwrap();
        settle(&session.db);
        assert_eq!(session.db.stats().unwrap().blob_values, 0, "values that nobody has keep their space");
        assert_eq!(tables(&session.disk, STORE), 0, "tables are left over");
    }
}

fn open(disk: &SimFs, change: impl FnOnce(&mut Options)) -> Db {
    let env = world(Arc::new(disk.clone()), 1, Some(Arc::new(StepExecutor)));
    let mut options = Options::default().memory_budget(8 << 20).separate_at(1000).env(env);
    change(&mut options);
    Db::open(STORE, options).unwrap()
}

#[test]
fn keys_out_of_order_are_refused_and_the_rest_goes_on() {
    let db = open(&SimFs::new(1), |_| ());
    let mut ingest = db.default_tree().ingest().unwrap();
    ingest.put("b", "1").unwrap();
    for key in ["a", "b", ""] {
        assert_eq!(ingest.put(key, "2").unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    ingest.put("c", vec![3; 2000]).unwrap();
    assert_eq!((ingest.len(), ingest.commit().unwrap()), (2, 2));
    assert_eq!(
        contents(db.default_tree()),
        Pairs::from([(b"b".into(), b"1".into()), (b"c".into(), vec![3; 2000])])
    );
}

#[test]
fn what_is_dropped_or_fails_leaves_nothing() {
    let disk = SimFs::new(1);
    let db = open(&disk, |options| options.memtable_bytes = Some(64 << 10));
    db.put("b", "before").unwrap();
    let fill = |unsorted: bool| -> esker::Result<_> {
        let (mut sorted, mut other) = (db.default_tree().ingest()?, db.default_tree().ingest_unsorted()?);
        for number in 0..3000_u32 {
            let value = if number.is_multiple_of(100) { vec![1; 3000] } else { vec![1; 60] };
            match unsorted {
                true => other.put((number * 7919 % 3001).to_be_bytes(), value)?,
                false => sorted.put(number.to_be_bytes(), value)?,
            }
        }
        Ok((sorted, other))
    };
    for unsorted in [true, false] {
        drop(fill(unsorted).unwrap());
        let (sorted, other) = fill(unsorted).unwrap();
        // The edit finds no room, and nothing has happened.
        disk.inject(Fault::new(Op::Append, "manifest").error(FaultError::NoSpace).forever());
        let failed = if unsorted { other.commit() } else { sorted.commit() };
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::OutOfSpace);
        disk.clear_faults();
        settle(&db);
        assert_eq!(contents(db.default_tree()).len(), 1);
        assert_eq!(db.stats().unwrap().blob_values, 0);
        let counted: u64 =
            db.stats().unwrap().trees.iter().flat_map(|tree| tree.tables_by_level.clone()).sum();
        assert_eq!(tables(&disk, STORE) as u64, counted, "tables that nothing names");
        db.put("b", "again").unwrap();
    }
    db.sync().unwrap();
    drop(db);
    let db = open(&disk.crash_keeping(0.0, 1), |_| ());
    assert_eq!(db.get_vec("b").unwrap().unwrap(), b"again");
}

#[test]
fn it_goes_below_what_it_does_not_meet() {
    let disk = SimFs::new(1);
    let db = open(&disk, |options| options.table_bytes = 64 << 10);
    let tree = db.default_tree();
    let ingest = |from: u32, to: u32| {
        let mut ingest = tree.ingest().unwrap();
        (from..to).for_each(|number| ingest.put(number.to_be_bytes(), [7; 100]).unwrap());
        ingest.commit().unwrap();
        db.stats().unwrap().trees.iter().find(|tree| tree.name == "default").unwrap().tables_by_level.clone()
    };
    let levels = ingest(0, 5000);
    assert!(levels[..6] == [0; 6] && levels[6] > 5, "{levels:?}");
    let before = levels[6];
    let levels = ingest(5000, 10_000);
    assert!(levels[..6] == [0; 6] && levels[6] > before, "{levels:?}");
    let levels = ingest(2000, 3000);
    assert!(levels[0] == 0 && levels[5] > 0, "over what is in the bottom level: {levels:?}");
    tree.put(2500_u32.to_be_bytes(), "newer").unwrap();
    let levels = ingest(2400, 2600);
    assert!(levels[0] > 0, "over what was in memory: {levels:?}");
    assert_eq!(tree.get_vec(2500_u32.to_be_bytes()).unwrap().unwrap(), [7; 100]);
    settle(&db);
    assert_eq!(tree.count(ScanRange::all()).unwrap(), 10_000);
}

#[test]
fn the_space_of_huge_values_that_it_replaces_comes_back() {
    let disk = SimFs::new(1);
    let db = open(&disk, |options| options.blob_file_bytes = 1 << 20);
    let tree = db.default_tree();
    for number in 0..50_u32 {
        tree.put(number.to_be_bytes(), vec![1; 100_000]).unwrap();
    }
    let mut ingest = tree.ingest().unwrap();
    for number in 0..50_u32 {
        ingest.put(number.to_be_bytes(), if number < 5 { vec![2; 100_000] } else { vec![2; 10] }).unwrap();
        // One that was not there when its key was ingested.
        tree.put(number.to_be_bytes(), vec![3; 100_000]).unwrap();
    }
    ingest.commit().unwrap();
    while db.step(JobKind::Blobs) {}
    assert_eq!(db.stats().unwrap().blob_values, 5, "without a merge");
    let used: u64 = disk.paths().iter().map(|path| disk.allocated_bytes(path).unwrap()).sum();
    assert!(used < 5 << 20, "{used} bytes");
}

#[test]
fn who_relies_on_what_it_replaces_conflicts() {
    let db = open(&SimFs::new(1), |_| ());
    let tree = db.tree("t").unwrap();
    let txn = db.begin(TxnOptions::default()).unwrap();
    assert!(txn.get(&tree, "b").unwrap().is_none());
    txn.put(&tree, "other", "1").unwrap();
    let mut ingest = tree.ingest().unwrap();
    ["a", "b"].iter().for_each(|key| ingest.put(key, "2").unwrap());
    ingest.commit().unwrap();
    assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::Conflict);
}

/// Threads write and read while others ingest the same keys: either is there whole, and nothing older comes back.
#[test]
fn others_write_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.memtable_bytes = Some(64 << 10);
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let tree = db.tree("t").unwrap();
    let (done, last) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0_u64;
            while !done.load(Ordering::Relaxed) {
                number += 1;
                tree.put("count", number.to_be_bytes()).unwrap();
                last.store(number, Ordering::Release);
                db.put("other", "1").unwrap();
            }
        });
        scope.spawn(|| {
            let mut seen = 0;
            while !done.load(Ordering::Relaxed) {
                let pairs = contents(&tree);
                let rounds: Vec<&Vec<u8>> =
                    pairs.iter().filter(|(key, _)| key[0] == b'k').map(|(_, value)| value).collect();
                assert!(rounds.windows(2).all(|pair| pair[0] == pair[1]), "half of what was ingested");
                let round = rounds.first().map_or(0, |round| round[0]);
                assert!(round >= seen, "what was ingested before has come back");
                seen = round;
                let least = last.load(Ordering::Acquire);
                let count = tree
                    .get_vec("count")
                    .unwrap()
                    .map_or(0, |value| u64::from_be_bytes(value.try_into().unwrap()));
                assert!(count >= least, "a write was lost: {count} for {least}");
            }
        });
        for round in 1..40_u8 {
            let mut ingest = tree.ingest().unwrap();
            (0..100).for_each(|number| ingest.put(format!("k{number:03}"), [round]).unwrap());
            ingest.commit().unwrap();
            let seen = tree.get_vec("k050").unwrap().unwrap();
            assert_eq!(seen, [round]);
            if round.is_multiple_of(5) {
                db.compact().unwrap();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}
