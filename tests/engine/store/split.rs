//! Trees that are split: each half has its own keys, sees and counts no others, and may go without the other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use esker::env::{JobKind, StepExecutor};
use esker::fs::sim::SimFs;
use esker::{Db, ErrorKind, KeyMoved, Options, ScanRange, Snapshot, Tree, TreeOptions, TxnMode, TxnOptions};

use crate::common::{Rng, any_style, contents, seeds, settle, tables, tiny_options, world};
use crate::cursors::agree;

const STORE: &str = "/store";

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// A tree and what it should hold.
#[derive(Clone)]
struct Half {
    tree: Tree,
    pairs: Pairs,
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
    /// Trees that were one with it.
    family: usize,
}

struct Session {
    rng: Rng,
    disk: SimFs,
    options: Options,
    db: Db,
    halves: BTreeMap<String, Half>,
    /// What each tree's handle showed then. Not kept beyond the drop of a tree of the family.
    snapshots: Vec<(Snapshot, Vec<Half>)>,
    names: usize,
    copies: usize,
}

impl Session {
    fn new(seed: u64) -> Session {
        let mut rng = Rng::new(seed);
        let disk = SimFs::new(seed);
        let env = world(Arc::new(disk.clone()), seed, Some(Arc::new(StepExecutor)));
        let options = tiny_options(&mut rng, env);
        let db = Db::open(STORE, options.clone()).unwrap();
        let mut halves = BTreeMap::new();
        for family in 0..2 {
            let name = format!("t{family}");
            let options = TreeOptions::default().log(!rng.one_in(4));
            let tree = db.create_tree(&name, any_style(&mut rng, options)).unwrap();
            halves.insert(name, Half { tree, pairs: Pairs::new(), lower: Vec::new(), upper: None, family });
        }
        Session { rng, disk, options, db, halves, snapshots: Vec::new(), names: 2, copies: 0 }
    }

    fn name(&mut self) -> Option<String> {
        let names: Vec<&String> = self.halves.keys().collect();
        (!names.is_empty()).then(|| (*self.rng.pick(&names)).clone())
    }

    /// A key of the tree, as good as always.
    fn key(&mut self, name: &str) -> Vec<u8> {
        let half = &self.halves[name];
        let (lower, upper) = (half.lower.clone(), half.upper.clone());
        for _ in 0..50 {
            let key = format!("{:03}", self.rng.below(200)).into_bytes();
            if key >= lower && upper.as_ref().is_none_or(|upper| key < *upper) {
                return key;
            }
        }
        if lower.is_empty() { b"000".to_vec() } else { lower }
    }

    fn value(&mut self) -> Vec<u8> {
        let len = if self.rng.one_in(8) { self.rng.below(5000) } else { self.rng.below(60) };
        vec![self.rng.next() as u8; len as usize]
    }

    fn put(&mut self, name: &str) {
        let (key, value) = (self.key(name), self.value());
        let half = self.halves.get_mut(name).unwrap();
        half.tree.put(&key, &value).unwrap();
        half.pairs.insert(key, value);
    }

    fn delete_range(&mut self, name: &str) {
        let (from, end) = (self.key(name), self.key(name));
        let half = self.halves.get_mut(name).unwrap();
        half.tree.delete_range(&from..&end).unwrap();
        half.pairs.retain(|key, _| *key < from || *key >= end);
    }

    fn transfer(&mut self, name: &str) {
        let (from, to, keep) = (self.key(name), self.key(name), self.rng.one_in(2));
        let half = self.halves.get_mut(name).unwrap();
        let done = if keep { half.tree.copy(&from, &to) } else { half.tree.rename(&from, &to) };
        let value = half.pairs.get(&from).cloned();
        assert_eq!(done.unwrap(), value.is_some());
        if let Some(value) = value.filter(|_| from != to) {
            half.pairs.insert(to, value);
            if !keep {
                half.pairs.remove(&from);
            }
        }
    }

    fn ingest(&mut self, name: &str) {
        let mut pairs = Pairs::new();
        for _ in 0..self.rng.below(60) {
            pairs.insert(self.key(name), self.value());
        }
        let half = self.halves.get_mut(name).unwrap();
        let mut ingest = half.tree.ingest().unwrap();
        pairs.iter().for_each(|(key, value)| ingest.put(key, value).unwrap());
        ingest.commit().unwrap();
        half.pairs.extend(pairs);
    }

    fn split(&mut self, name: &str) {
        let at = self.key(name);
        if at == b"000" {
            // Nothing would be left of the first half that this test has a key for.
            return;
        }
        let half = self.halves[name].clone();
        self.names += 1;
        let new_name = format!("t{}", self.names);
        let split = self.db.split(&half.tree, &at, &new_name);
        if at <= half.lower {
            assert_eq!(split.unwrap_err().kind(), ErrorKind::InvalidInput);
            return;
        }
        let tree = split.unwrap();
        let pairs = self.halves.get_mut(name).unwrap().pairs.split_off(&at);
        let old = self.halves.get_mut(name).unwrap();
        let upper = old.upper.replace(at.clone());
        let refused = old.tree.put(&at, "late").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::KeyMoved);
        let expected = KeyMoved { tree: new_name.clone(), lower: at.clone(), upper: upper.clone() };
        assert_eq!(refused.moved(), Some(&expected));
        assert!(old.tree.get(&at).unwrap().is_none());
        self.halves.insert(new_name, Half { tree, pairs, lower: at, ..half });
    }

    fn drop_one(&mut self, name: &str) {
        let half = self.halves.remove(name).unwrap();
        self.db.drop_tree(name).unwrap();
        for (_, halves) in &mut self.snapshots {
            halves.retain(|other| other.family != half.family);
        }
    }

    fn reopen(&mut self) {
        self.snapshots.clear();
        self.db.close().unwrap();
        assert_eq!(esker::check(STORE, &self.options).unwrap().findings, []);
        self.db = Db::open(STORE, self.options.clone()).unwrap();
        for (name, half) in &mut self.halves {
            half.tree = self.db.open_tree(name).unwrap().unwrap();
        }
    }

    /// Dies and is opened again: what was synced is there.
    fn crash(&mut self) {
        self.db.sync().unwrap();
        self.snapshots.clear();
        self.halves.values_mut().for_each(|half| half.tree = self.db.default_tree().clone());
        self.disk = self.disk.crash(self.rng.next());
        let env = world(Arc::new(self.disk.clone()), self.rng.next(), Some(Arc::new(StepExecutor)));
        self.options = self.options.clone().env(env);
        assert_eq!(esker::check(STORE, &self.options).unwrap().findings, []);
        self.db = Db::open(STORE, self.options.clone()).unwrap();
        for (name, half) in &mut self.halves {
            half.tree = self.db.open_tree(name).unwrap().unwrap();
        }
    }

    fn checkpoint(&mut self) {
        self.copies += 1;
        let dir = format!("/copy{}", self.copies);
        self.db.checkpoint(&dir).unwrap();
        let copy = Db::open(&dir, self.options.clone()).unwrap();
        for (name, half) in &self.halves {
            assert!(contents(&copy.open_tree(name).unwrap().unwrap()) == half.pairs, "a checkpoint");
        }
    }

    fn step(&mut self) {
        let Some(name) = self.name() else { return };
        match self.rng.below(60) {
            0..22 => self.put(&name),
            22..26 => {
                let key = self.key(&name);
                let half = self.halves.get_mut(&name).unwrap();
                half.tree.delete(&key).unwrap();
                half.pairs.remove(&key);
            }
            26 | 27 => self.delete_range(&name),
            28..30 => self.transfer(&name),
            30..32 => self.ingest(&name),
            32..34 => self.split(&name),
            34 if self.rng.one_in(4) => self.drop_one(&name),
            35 => {
                let halves = self.halves.values().cloned().collect();
                self.snapshots.push((self.db.snapshot(), halves));
            }
            36 if !self.snapshots.is_empty() => {
                let at = self.rng.index(self.snapshots.len());
                self.snapshots.swap_remove(at);
            }
            37 => self.db.flush().unwrap(),
            38 if self.rng.one_in(4) => self.db.compact().unwrap(),
            39 if self.rng.one_in(4) => self.reopen(),
            40 if self.rng.one_in(4) => self.crash(),
            41 if self.rng.one_in(10) => self.checkpoint(),
            42..52 => drop(self.db.step(*self.rng.pick(&JobKind::ALL))),
            _ => self.look(),
        }
    }

    fn look(&mut self) {
        for (name, half) in &self.halves {
            assert!(contents(&half.tree) == half.pairs, "{name}");
            let backward: esker::Result<Pairs> =
                half.tree.scan(ScanRange::all().reverse()).unwrap().collect();
            assert!(backward.unwrap() == half.pairs, "{name} backward");
            let read = (half.tree.cursor().unwrap(), half.tree.iter().unwrap());
            agree(read, &half.pairs, &mut self.rng);
        }
        for (snapshot, halves) in &self.snapshots {
            for half in halves {
                let range = if self.rng.one_in(2) { ScanRange::all() } else { ScanRange::all().reverse() };
                let seen: esker::Result<Pairs> = snapshot.scan(&half.tree, range).unwrap().collect();
                assert!(seen.unwrap() == half.pairs, "a snapshot sees something else than it saw");
                let read = (snapshot.cursor(&half.tree).unwrap(), snapshot.range(&half.tree, ..).unwrap());
                agree(read, &half.pairs, &mut self.rng);
                let key = format!("{:03}", self.rng.below(200)).into_bytes();
                assert_eq!(snapshot.get_vec(&half.tree, &key).unwrap().as_ref(), half.pairs.get(&key));
            }
        }
    }
}

#[test]
fn each_half_is_a_tree_of_its_own() {
    for seed in seeds(60) {
        println!("ESKER_SEED={seed}");
        let mut session = Session::new(seed);
        (0..400).for_each(|_| session.step());
        session.look();
        session.reopen();
        session.look();
        while let Some(name) = session.name() {
            session.drop_one(&name);
            if session.rng.one_in(2) {
                session.crash();
            }
            session.look();
        }
        settle(&session.db);
        assert_eq!(session.db.stats().unwrap().blob_values, 0, "values that nobody has keep their space");
        assert_eq!(tables(&session.disk, STORE), 0, "tables are left over");
    }
}

fn open(disk: &SimFs) -> Db {
    let env = world(Arc::new(disk.clone()), 1, Some(Arc::new(StepExecutor)));
    Db::open(STORE, Options::default().memory_budget(8 << 20).separate_at(1000).env(env)).unwrap()
}

/// No table is written, and each half counts its own.
#[test]
fn the_halves_share_their_tables() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    let tree = db.tree("t").unwrap();
    for number in 0..20_000_u32 {
        tree.put(number.to_be_bytes(), [7; 50]).unwrap();
    }
    db.compact().unwrap();
    let written = db.stats().unwrap();
    let right = db.split(&tree, 15_000_u32.to_be_bytes(), "right").unwrap();
    let stats = db.stats().unwrap();
    assert_eq!((stats.flushes, stats.merges), (written.flushes, written.merges));
    for (tree, expected) in [(&tree, 15_000), (&right, 5_000)] {
        let estimated = tree.approximate_count(ScanRange::all()).unwrap();
        assert!(estimated.abs_diff(expected) < 500, "{estimated} for {expected}");
        assert_eq!(tree.count(ScanRange::all()).unwrap(), expected);
    }
    assert_eq!(right.key_range(), ScanRange::from(15_000_u32.to_be_bytes()..));
    assert_eq!(tree.key_range(), ScanRange::from(..15_000_u32.to_be_bytes()));
    let before = tables(&disk, STORE);
    db.drop_tree("t").unwrap();
    settle(&db);
    assert!(tables(&disk, STORE) <= before, "{} tables", tables(&disk, STORE));
    db.compact().unwrap();
    assert_eq!(right.count(ScanRange::all()).unwrap(), 5_000);
    assert_eq!(right.approximate_count(ScanRange::all()).unwrap(), 5_000, "merging has written it anew");
}

#[test]
fn a_key_that_has_moved_is_not_taken_for_absent_by_writes() {
    let db = open(&SimFs::new(1));
    let tree = db.tree("t").unwrap();
    ["a", "z"].iter().for_each(|key| tree.put(key, "1").unwrap());
    let new = db.split(&tree, "k", "new").unwrap();
    let has_moved = |outcome: esker::Result<()>| {
        let error = outcome.expect_err("another tree has the key");
        assert_eq!(error.kind(), ErrorKind::KeyMoved, "{error}");
        assert_eq!(error.moved().unwrap().tree, "new");
    };
    has_moved(tree.rename("z", "b").map(drop));
    has_moved(tree.rename("z", "z").map(drop));
    has_moved(tree.copy("z", "b").map(drop));
    has_moved(tree.copy("a", "z").map(drop));
    has_moved(tree.set_expiry("z", None).map(drop));
    has_moved(tree.set_attributes("z", "x").map(drop));
    has_moved(tree.remove("z").map(drop));
    has_moved(tree.put_if_absent("z", "2").map(drop));
    has_moved(tree.compare_and_swap("z", Some(b"1"), None).map(drop));
    has_moved(tree.compare_and_swap("z", None, None).map(drop));
    has_moved(tree.update("z", |_| None).map(drop));
    assert!(!tree.rename("b", "c").unwrap(), "it has no such key, and nobody else has it");
    assert_eq!(new.get_vec("z").unwrap().unwrap(), b"1");
    assert_eq!(tree.count(ScanRange::all()).unwrap() + new.count(ScanRange::all()).unwrap(), 2);
}

#[test]
fn what_was_read_before_conflicts_and_what_moves_is_refused() {
    let db = open(&SimFs::new(1));
    let tree = db.tree("t").unwrap();
    ["a", "m", "z"].iter().for_each(|key| tree.put(key, "1").unwrap());
    let begin = || db.begin(TxnOptions::default()).unwrap();
    let (reader, scanner, writer, bystander) = (begin(), begin(), begin(), begin());
    assert!(reader.get(&tree, "z").unwrap().is_some());
    assert_eq!(scanner.scan(&tree, ScanRange::all()).unwrap().count(), 3);
    assert!(bystander.get(&tree, "a").unwrap().is_some());
    writer.put(&tree, "z", "2").unwrap();
    let new = db.split(&tree, "k", "new").unwrap();
    new.put("z", "3").unwrap();
    assert_eq!(reader.get_vec(&tree, "z").unwrap().unwrap(), b"1", "its moment is before the split");
    for txn in [&reader, &scanner, &bystander] {
        txn.put(&tree, "b", "1").unwrap();
    }
    assert_eq!(reader.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(scanner.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(writer.commit().unwrap_err().kind(), ErrorKind::KeyMoved);
    bystander.commit().unwrap();
    for (key, value) in [("k", "1"), ("z", "1")] {
        assert_eq!(tree.put(key, value).unwrap_err().kind(), ErrorKind::KeyMoved);
        assert!(tree.update(key, |_| Some(vec![1])).is_err());
        assert!(tree.rename("a", key).is_err());
    }
    assert!(new.put("a", "1").is_err());
    assert!(new.delete_range(.."j").is_err());
    new.delete_range(ScanRange::all()).unwrap();
    assert_eq!((tree.count(ScanRange::all()).unwrap(), new.count(ScanRange::all()).unwrap()), (2, 0));
    assert_eq!(db.split(&tree, "b", "new").unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(db.split(&tree, "k", "other").unwrap_err().kind(), ErrorKind::InvalidInput);
    let locked = db.begin(TxnOptions::default().mode(TxnMode::Pessimistic)).unwrap();
    locked.put(&new, "z", "4").unwrap();
    locked.commit().unwrap();
}

/// As the soak found it (seed 141198): a handle from before the split deletes of a range what its tree has, and shows by its
/// own range that something is left to do.
#[test]
fn of_a_range_each_half_deletes_its_own_part() {
    let disk = SimFs::new(11);
    let db = open(&disk);
    let tree = db.tree("t").unwrap();
    for key in ["b", "f", "n", "r", "z"] {
        tree.put(key, "1").unwrap();
    }
    let range = ScanRange::from("c".."t");
    let new = db.split(&tree, "m", "new").unwrap();
    tree.delete_range(&range).unwrap();
    assert_eq!((tree.count(ScanRange::all()).unwrap(), new.count(ScanRange::all()).unwrap()), (1, 3));
    assert!(!tree.contains("f").unwrap() && new.contains("n").unwrap());
    assert_eq!(tree.key_range(), ScanRange::from(.."m"));
    new.delete_range(&range).unwrap();
    assert!(new.contains("z").unwrap() && new.count(ScanRange::all()).unwrap() == 1);
}

/// Threads go on writing to a tree that is being split: what was acknowledged is in one of the halves.
#[test]
fn others_write_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.memtable_bytes = Some(64 << 10);
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let tree = db.tree("t").unwrap();
    let done = AtomicBool::new(false);
    let mut halves = vec![(0_u32, tree.clone())];
    let written: Vec<BTreeMap<u32, u32>> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2_u32)
            .map(|writer| {
                let (tree, done) = (tree.clone(), &done);
                scope.spawn(move || {
                    let (mut written, mut round) = (BTreeMap::new(), 0_u32);
                    while !done.load(Ordering::Relaxed) {
                        round += 1;
                        let number = round.wrapping_mul(2_654_435_761) % 1000 * 2 + writer;
                        match tree.put(number.to_be_bytes(), round.to_be_bytes()) {
                            Ok(()) => drop(written.insert(number, round)),
                            Err(error) => assert_eq!(error.kind(), ErrorKind::KeyMoved),
                        }
                    }
                    written
                })
            })
            .collect();
        for at in (100..2000).rev().step_by(100) {
            halves.push((at, db.split(&tree, at.to_be_bytes(), &format!("from {at}")).unwrap()));
        }
        done.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    for (number, round) in written.iter().flatten() {
        let (_, half) = halves.iter().filter(|(at, _)| at <= number).max_by_key(|(at, _)| *at).unwrap();
        assert_eq!(half.get_vec(number.to_be_bytes()).unwrap().unwrap(), round.to_be_bytes(), "{number}");
    }
}
