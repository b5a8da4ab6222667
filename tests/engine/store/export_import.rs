//! Trees that are exported into directories of their own and imported from there: either side holds what it should, whatever
//! becomes of the other, and when all of it is gone no table and no huge value is left.

use std::collections::BTreeMap;
use std::sync::Arc;

use esker::env::{Env, JobKind, StepExecutor};
use esker::fs::sim::SimFs;
use esker::{Db, ErrorKind, Options, ScanRange, Snapshot, Tree, TreeOptions};

use crate::common::{HourClock, Longest, Rng, contents, seeds, settle, tables, tiny_options, ttl, world};

const STORES: [&str; 2] = ["/a", "/b"];

/// A value, and the hour at which it is gone.
type Pairs = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

type Plain = BTreeMap<Vec<u8>, Vec<u8>>;

/// A tree, here or exported, and what it should hold.
#[derive(Clone)]
struct Held {
    pairs: Pairs,
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
}

impl Held {
    /// What is to be seen at an hour.
    fn at(&self, hour: u64) -> Plain {
        let lives = |until: &Option<u64>| until.is_none_or(|until| hour < until);
        let living = self.pairs.iter().filter(|(_, (_, until))| lives(until));
        living.map(|(key, (value, _))| (key.clone(), value.clone())).collect()
    }
}

struct Session {
    rng: Rng,
    disk: SimFs,
    clock: Arc<HourClock>,
    hour: u64,
    options: Options,
    dbs: Vec<Db>,
    /// By store and name.
    trees: BTreeMap<(usize, String), (Tree, Held)>,
    snapshots: Vec<(Snapshot, Tree, usize, Plain)>,
    /// By directory.
    exports: BTreeMap<String, Held>,
    names: usize,
    copies: usize,
}

fn env(disk: &SimFs, clock: &Arc<HourClock>, seed: u64) -> Env {
    let env = world(Arc::new(disk.clone()), seed, Some(Arc::new(StepExecutor)));
    Env { clock: Arc::<HourClock>::clone(clock), ..env }
}

impl Session {
    fn new(seed: u64) -> Session {
        let (mut rng, disk, clock) = (Rng::new(seed), SimFs::new(seed), HourClock::new(0));
        let options = tiny_options(&mut rng, env(&disk, &clock, seed));
        let dbs = STORES.iter().map(|dir| Db::open(dir, options.clone()).unwrap()).collect();
        let (trees, snapshots, exports) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        let mut session = Session {
            rng,
            disk,
            clock,
            hour: 0,
            options,
            dbs,
            trees,
            snapshots,
            exports,
            names: 0,
            copies: 0,
        };
        (0..3).for_each(|_| session.create());
        session
    }

    fn new_name(&mut self) -> String {
        self.names += 1;
        format!("t{}", self.names)
    }

    fn create(&mut self) {
        let (name, store, logged) = (self.new_name(), self.rng.index(2), !self.rng.one_in(4));
        let tree = self.dbs[store].create_tree(&name, TreeOptions::default().log(logged)).unwrap();
        tree.set_tag(&name).unwrap();
        let held = Held { pairs: Pairs::new(), lower: Vec::new(), upper: None };
        self.trees.insert((store, name), (tree, held));
    }

    fn pick(&mut self) -> (usize, String) {
        let names: Vec<_> = self.trees.keys().cloned().collect();
        self.rng.pick(&names).clone()
    }

    /// A key of the tree, as good as always.
    fn key(&mut self, held: &Held) -> Vec<u8> {
        for _ in 0..50 {
            let key = format!("{:03}", self.rng.below(150)).into_bytes();
            if key >= held.lower && held.upper.as_ref().is_none_or(|upper| key < *upper) {
                return key;
            }
        }
        if held.lower.is_empty() { b"000".to_vec() } else { held.lower.clone() }
    }

    fn value(&mut self) -> Vec<u8> {
        let len = if self.rng.one_in(6) { self.rng.below(5000) } else { self.rng.below(60) };
        vec![self.rng.next() as u8; len as usize]
    }

    fn write(&mut self, at: &(usize, String)) {
        let (tree, mut held) = self.trees[at].clone();
        let (key, value) = (self.key(&held), self.value());
        let living = held.at(self.hour).remove(&key);
        let expires = held.pairs.get(&key).is_some_and(|(_, until)| until.is_some());
        match self.rng.below(20) {
            0..3 => {
                tree.delete(&key).unwrap();
                held.pairs.remove(&key);
            }
            3 => {
                let end = self.key(&held);
                tree.delete_range(&key..&end).unwrap();
                held.pairs.retain(|other, _| *other < key || *other >= end);
            }
            4 | 5 => {
                let hours = self.rng.below(3) + 1;
                tree.put_for(&key, &value, ttl(hours)).unwrap();
                held.pairs.insert(key, (value, Some(self.hour + hours)));
            }
            6 | 7 if !expires => {
                tree.merge(&key, Longest::NAME, &value).unwrap();
                let longest = living.filter(|living| living.len() > value.len()).unwrap_or(value);
                held.pairs.insert(key, (longest, None));
            }
            8 | 9 if !expires => {
                let to = self.key(&held);
                assert_eq!(tree.copy(&key, &to).unwrap(), living.is_some());
                living.into_iter().for_each(|value| drop(held.pairs.insert(to.clone(), (value, None))));
            }
            10 => {
                let mut pairs = BTreeMap::new();
                (0..self.rng.below(40)).for_each(|_| drop(pairs.insert(self.key(&held), self.value())));
                let mut ingest = tree.ingest().unwrap();
                pairs.iter().for_each(|(key, value)| ingest.put(key, value).unwrap());
                ingest.commit().unwrap();
                held.pairs.extend(pairs.into_iter().map(|(key, value)| (key, (value, None))));
            }
            _ => {
                tree.put(&key, &value).unwrap();
                held.pairs.insert(key, (value, None));
            }
        }
        self.trees.get_mut(at).unwrap().1 = held;
    }

    fn split(&mut self, at: &(usize, String)) {
        let (tree, held) = self.trees[at].clone();
        let key = self.key(&held);
        if key == b"000" || key <= held.lower {
            return;
        }
        let name = self.new_name();
        let new = self.dbs[at.0].split(&tree, &key, &name).unwrap();
        let old = &mut self.trees.get_mut(at).unwrap().1;
        let pairs = old.pairs.split_off(&key);
        old.upper = Some(key.clone());
        self.trees.insert((at.0, name), (new, Held { pairs, lower: key, ..held }));
    }

    fn export(&mut self, at: &(usize, String)) {
        let dir = format!("/export{}", self.exports.len());
        let before = self.dbs[at.0].stats().unwrap().merges;
        let files = self.dbs[at.0].export_tree(&at.1, &dir).unwrap();
        assert_eq!(files.copied_files, 0);
        assert_eq!(self.dbs[at.0].stats().unwrap().merges, before);
        assert_eq!(esker::check(&dir, &self.options).unwrap().findings, []);
        self.exports.insert(dir, self.trees[at].1.clone());
    }

    fn import(&mut self) {
        let dirs: Vec<String> = self.exports.keys().cloned().collect();
        if dirs.is_empty() {
            return;
        }
        let (dir, store, name) = (self.rng.pick(&dirs).clone(), self.rng.index(2), self.new_name());
        let snapshot = self.dbs[store].snapshot();
        let (tree, files) = self.dbs[store].import_tree(&dir, &name).unwrap();
        assert_eq!(files.copied_files, 0);
        assert_eq!(snapshot.get(&tree, "000").unwrap_err().kind(), ErrorKind::SnapshotTooOld);
        assert!(snapshot.scan(&tree, ScanRange::all()).is_err());
        let held = self.exports[&dir].clone();
        assert!(tree.tag().is_some());
        assert!(contents(&tree) == held.at(self.hour), "an import of {dir}");
        self.trees.insert((store, name), (tree, held));
    }

    /// Opens an export as a store, and leaves it so that it can be imported.
    fn open_export(&mut self) {
        let dirs: Vec<String> = self.exports.keys().cloned().collect();
        if dirs.is_empty() {
            return;
        }
        let dir = self.rng.pick(&dirs).clone();
        let mut held = self.exports[&dir].clone();
        let db = Db::open(&dir, self.options.clone()).unwrap();
        let name = db.tree_names().into_iter().find(|name| name != "default").unwrap();
        let tree = db.open_tree(&name).unwrap().unwrap();
        assert!(contents(&tree) == held.at(self.hour), "{dir} as a store");
        for _ in 0..self.rng.below(20) {
            let (key, value) = (self.key(&held), self.value());
            tree.put(&key, &value).unwrap();
            held.pairs.insert(key, (value, None));
        }
        if self.rng.one_in(2) {
            settle(&db);
        }
        if self.rng.one_in(4) {
            db.compact().unwrap();
        }
        db.close().unwrap();
        drop((tree, db));
        let store = self.rng.index(2);
        if let Err(error) = self.dbs[store].import_tree(&dir, "early") {
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            Db::open(&dir, self.options.clone()).unwrap().close().unwrap();
        } else {
            self.dbs[store].drop_tree("early").unwrap();
        }
        assert_eq!(esker::check(&dir, &self.options).unwrap().findings, []);
        self.exports.insert(dir, held);
    }

    /// A copy of a store holds what the store holds, and has its own life.
    fn copy_store(&mut self, store: usize) {
        self.copies += 1;
        let (dir, options) = (format!("/copy{}", self.copies), self.options.clone());
        if self.rng.one_in(2) {
            self.dbs[store].checkpoint(&dir).unwrap();
        } else {
            let shelf = format!("/shelf{}", self.copies);
            self.dbs[store].backup(&shelf).unwrap();
            esker::restore(&shelf, None, &dir, &options).unwrap();
        }
        assert_eq!(esker::check(&dir, &options).unwrap().findings, []);
        let copy = Db::open(&dir, options).unwrap();
        let mine = self.trees.iter().filter(|((of, _), _)| *of == store);
        for ((_, name), (_, held)) in mine {
            let tree = copy.open_tree(name).unwrap().unwrap();
            assert!(contents(&tree) == held.at(self.hour), "{name} in a copy");
            drop(tree);
            copy.drop_tree(name).unwrap();
        }
        settle(&copy);
        assert_eq!(copy.stats().unwrap().blob_values, 0);
    }

    fn drop_one(&mut self, at: &(usize, String)) {
        self.snapshots.retain(|(_, _, store, _)| *store != at.0);
        self.trees.remove(at).unwrap();
        self.dbs[at.0].drop_tree(&at.1).unwrap();
    }

    fn reopen(&mut self, crash: bool) {
        self.snapshots.clear();
        if crash {
            self.dbs.iter().for_each(|db| db.sync().unwrap());
            let default = self.dbs[0].default_tree().clone();
            self.trees.values_mut().for_each(|(tree, _)| *tree = default.clone());
            self.disk = self.disk.crash(self.rng.next());
            let env = env(&self.disk, &self.clock, self.rng.next());
            self.options = self.options.clone().env(env);
        } else {
            self.dbs.iter().for_each(|db| db.close().unwrap());
        }
        for (store, dir) in STORES.iter().enumerate() {
            assert_eq!(esker::check(dir, &self.options).unwrap().findings, []);
            self.dbs[store] = Db::open(dir, self.options.clone()).unwrap();
        }
        for ((store, name), (tree, _)) in &mut self.trees {
            *tree = self.dbs[*store].open_tree(name).unwrap().unwrap();
        }
    }

    fn step(&mut self) {
        if self.trees.is_empty() {
            self.create();
        }
        let at = self.pick();
        match self.rng.below(80) {
            0..40 => self.write(&at),
            40 => self.split(&at),
            41 | 42 if self.exports.len() < 12 => self.export(&at),
            43 | 44 => self.import(),
            45 if self.rng.one_in(3) => self.open_export(),
            46 if self.rng.one_in(2) => self.drop_one(&at),
            47 => {
                let (tree, held) = self.trees[&at].clone();
                let seen = held.at(self.hour);
                self.snapshots.push((self.dbs[at.0].snapshot(), tree, at.0, seen));
            }
            48 if !self.snapshots.is_empty() => {
                let at = self.rng.index(self.snapshots.len());
                self.snapshots.swap_remove(at);
            }
            49 => self.dbs[at.0].flush().unwrap(),
            50 if self.rng.one_in(4) => self.dbs[at.0].compact().unwrap(),
            51 if self.rng.one_in(4) => self.reopen(false),
            52 if self.rng.one_in(4) => self.reopen(true),
            53 if self.rng.one_in(4) => {
                self.clock.pass(1);
                self.hour += 1;
            }
            54 if self.rng.one_in(4) => self.create(),
            55 if self.rng.one_in(4) => self.copy_store(at.0),
            56 => assert_eq!(self.dbs[at.0].scrub().unwrap().findings, []),
            57..70 => drop(self.dbs[at.0].step(*self.rng.pick(&JobKind::ALL))),
            _ => self.look(),
        }
    }

    fn look(&self) {
        for ((store, name), (tree, held)) in &self.trees {
            assert!(contents(tree) == held.at(self.hour), "{name} in store {store}");
        }
        for (snapshot, tree, _, seen) in &self.snapshots {
            let scan = snapshot.scan(tree, ScanRange::all()).unwrap();
            assert!(scan.collect::<esker::Result<Plain>>().unwrap() == *seen, "a snapshot");
            for key in ["000", "020", "077", "149"] {
                let found = snapshot.get_vec(tree, key).unwrap();
                assert_eq!(found.as_ref(), seen.get(key.as_bytes()));
            }
        }
    }
}

#[test]
fn exports_and_imports_hold_what_the_tree_held() {
    for seed in seeds(60) {
        println!("ESKER_SEED={seed}");
        let mut session = Session::new(seed);
        (0..500).for_each(|_| session.step());
        session.look();
        session.reopen(false);
        session.look();
        while let Some(at) = session.trees.keys().next().cloned() {
            let at = if session.rng.one_in(2) { session.pick() } else { at };
            session.drop_one(&at);
            if session.rng.one_in(6) {
                session.reopen(true);
            }
            session.look();
        }
        for (store, dir) in STORES.iter().enumerate() {
            settle(&session.dbs[store]);
            let left = session.dbs[store].stats().unwrap().blob_values;
            assert_eq!(left, 0, "values that nobody has keep their space in {dir}");
            assert_eq!(tables(&session.disk, dir), 0, "tables are left over in {dir}");
        }
        session.reopen(false);
        let is_mark = |path: &std::path::PathBuf| {
            path.extension().is_some_and(|ext| ext == "import")
                && STORES.iter().any(|dir| path.starts_with(dir))
        };
        assert_eq!(session.disk.paths().into_iter().filter(is_mark).count(), 0, "marks are left over");
    }
}
