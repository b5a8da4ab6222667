//! Trees whose writes skip the log (durability rule 21), beside one whose writes do not: after a crash either holds all of
//! its own writes up to some moment, not before what was promised for it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use esker::env::Lane;
use esker::fs::sim::SimFs;
use esker::{Batch, Db, Durability, Options, ScanRange, Tree, TreeOptions};

use crate::common::{Rng, seeds};
use crate::life::STORE;
use crate::world::env;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a tree held after each write to it, and how much of that cannot be lost.
struct History {
    states: Vec<Pairs>,
    durable: usize,
}

impl History {
    fn of(pairs: Pairs) -> History {
        History { states: vec![pairs], durable: 0 }
    }

    fn now(&self) -> &Pairs {
        self.states.last().unwrap()
    }

    fn write(&mut self, change: impl FnOnce(&mut Pairs)) {
        let mut next = self.now().clone();
        change(&mut next);
        self.states.push(next);
    }

    fn make_durable(&mut self) {
        self.durable = self.states.len() - 1;
    }

    /// Goes on with what is left.
    fn settle(&mut self, found: &Pairs, all: bool, what: &str) {
        let from = if all { self.states.len() - 1 } else { self.durable };
        let at = self.states[from..].iter().position(|state| state == found);
        if at.is_none() {
            let missing = |state: &Pairs| {
                let differs = |key: &&Vec<u8>| state.get(*key) != found.get(*key);
                let keys = state.keys().chain(found.keys()).filter(differs);
                keys.map(|key| key.escape_ascii().to_string()).collect::<std::collections::BTreeSet<_>>()
            };
            for (number, state) in self.states.iter().enumerate() {
                println!("moment {number} differs in {:?}", missing(state));
            }
        }
        assert!(
            at.is_some(),
            "{what}: not what it held at any of {} moments from {from} on",
            self.states.len()
        );
        *self = History::of(found.clone());
    }
}

fn contents(tree: &Tree) -> Pairs {
    tree.scan(ScanRange::all()).unwrap().collect::<esker::Result<_>>().unwrap()
}

struct Life {
    rng: Rng,
    disk: SimFs,
    options: Options,
    db: Option<Db>,
    trees: Vec<Tree>,
    /// Of the tree with the log, then of the one without.
    histories: [History; 2],
    writes: u64,
    copies: u64,
}

/// Dead disks fail calls; nothing else does.
fn alive(disk: &SimFs, result: esker::Result<()>) -> bool {
    match result {
        Ok(()) => !disk.is_dead(),
        Err(error) => {
            assert!(disk.is_dead(), "{error:?}");
            false
        }
    }
}

impl Life {
    fn new(seed: u64) -> Life {
        let mut rng = Rng::new(seed);
        let disk = SimFs::new(rng.next());
        let mut options = Options::default().memory_budget(8 << 20);
        options.memtable_bytes = Some(*rng.pick(&[2 << 10, 16 << 10, 64 << 10]));
        options.table_bytes = 4 << 10;
        options.separate_at = *rng.pick(&[100, 1000, usize::MAX]);
        options.blob_file_bytes = *rng.pick(&[1, 10_000, 256 << 20]);
        let histories = [History::of(Pairs::new()), History::of(Pairs::new())];
        Life { rng, disk, options, db: None, trees: Vec::new(), histories, writes: 0, copies: 0 }
    }

    fn open(&mut self) {
        let options = self.options.clone().env(env(&self.disk, self.rng.next()));
        let db = Db::open(STORE, options).unwrap();
        let volatile = match db.open_tree("volatile").unwrap() {
            Some(tree) => tree,
            None => db.create_tree("volatile", TreeOptions::default().log(false)).unwrap(),
        };
        self.trees = vec![db.default_tree().clone(), volatile];
        self.db = Some(db);
    }

    fn look(&mut self, all: [bool; 2], what: &str) {
        for (index, tree) in self.trees.iter().enumerate() {
            let found = contents(tree);
            self.histories[index].settle(&found, all[index], &format!("{what}, {}", tree.name()));
        }
    }

    fn key(&mut self) -> Vec<u8> {
        format!("key{:02}", self.rng.below(30)).into_bytes()
    }

    fn write(&mut self, which: usize) -> bool {
        let mut batch = Batch::new();
        let mut next = self.histories[which].now().clone();
        for _ in 0..=self.rng.below(4) {
            let (key, tree) = (self.key(), self.trees[which].clone());
            match self.rng.below(12) {
                0..3 => {
                    batch.delete(&tree, &key).unwrap();
                    next.remove(&key);
                }
                3 => {
                    let end = self.key().max(key.clone());
                    batch.delete_range(&tree, &ScanRange::all().from(&key).before(&end)).unwrap();
                    next.retain(|other, _| *other < key || *other >= end);
                }
                _ => {
                    self.writes += 1;
                    let mut value = self.writes.to_le_bytes().to_vec();
                    value.resize(8 + self.rng.below(2000) as usize, 7);
                    if let Err(error) = batch.put(&tree, &key, &value) {
                        assert!(self.disk.is_dead(), "{error:?}");
                        return false;
                    }
                    next.insert(key, value);
                }
            }
        }
        let durability = if self.rng.one_in(8) { Durability::Power } else { Durability::Process };
        let db = self.db.as_ref().unwrap();
        let written = db.write_with(&batch, durability);
        self.histories[which].states.push(next);
        let alive = alive(&self.disk, written);
        if alive && durability == Durability::Power && !batch.is_empty() {
            self.histories[which].make_durable();
        }
        alive
    }

    fn transfer(&mut self, which: usize) -> bool {
        let (from, to, keep) = (self.key(), self.key(), self.rng.one_in(2));
        let tree = &self.trees[which];
        let done = if keep { tree.copy(&from, &to) } else { tree.rename(&from, &to) };
        self.histories[which].write(|pairs| {
            if let Some(value) = pairs.get(&from).cloned()
                && from != to
            {
                pairs.insert(to, value);
                if !keep {
                    pairs.remove(&from);
                }
            }
        });
        alive(&self.disk, done.map(drop))
    }

    fn step(&mut self) -> bool {
        let db = self.db.clone().unwrap();
        match self.rng.below(40) {
            0..26 => {
                let which = self.rng.index(2);
                self.write(which)
            }
            26..29 => {
                let which = self.rng.index(2);
                self.transfer(which)
            }
            29 => {
                let alive = alive(&self.disk, self.trees[1].flush());
                if alive {
                    self.histories[1].make_durable();
                }
                alive
            }
            30 => {
                let alive = alive(&self.disk, db.sync());
                if alive {
                    self.histories.iter_mut().for_each(History::make_durable);
                }
                alive
            }
            31 => {
                let alive = alive(&self.disk, db.compact());
                if alive {
                    self.histories.iter_mut().for_each(History::make_durable);
                }
                alive
            }
            32 => self.copy(&db),
            33 => {
                let which = self.rng.index(2);
                self.ingest(which)
            }
            _ => {
                db.step(*self.rng.pick(&Lane::ALL));
                !self.disk.is_dead()
            }
        }
    }

    /// What is ingested is there at once, and with it all that was written before.
    fn ingest(&mut self, which: usize) -> bool {
        let (from, end) = (self.key(), self.key());
        let value = vec![9; *self.rng.pick(&[10, 2000])];
        let pairs = (0..30).map(|number| format!("key{number:02}").into_bytes());
        let pairs: Pairs =
            pairs.filter(|key| (&from..&end).contains(&key)).map(|key| (key, value.clone())).collect();
        let fill = || {
            let mut ingest = self.trees[which].ingest()?;
            pairs.iter().try_for_each(|(key, value)| ingest.put(key, value))?;
            ingest.commit()
        };
        let done = fill();
        self.histories[which].write(|now| now.extend(pairs.clone()));
        let alive = alive(&self.disk, done.map(drop));
        if alive && !pairs.is_empty() {
            self.histories[which].make_durable();
            self.histories[0].make_durable();
        }
        alive
    }

    /// A checkpoint holds what was written before.
    fn copy(&mut self, db: &Db) -> bool {
        self.copies += 1;
        let dir = PathBuf::from(format!("/copies/{}", self.copies));
        if !alive(&self.disk, db.checkpoint(&dir)) {
            return false;
        }
        let options = self.options.clone().env(env(&self.disk.crash(1), 1));
        let copy = Db::open(dir, options).unwrap();
        for (index, name) in ["default", "volatile"].iter().enumerate() {
            let tree = copy.open_tree(name).unwrap().unwrap();
            assert!(contents(&tree) == *self.histories[index].now(), "a checkpoint, {name}");
        }
        true
    }

    /// Ends the store in some way; whether each tree must hold everything then.
    fn end(&mut self, alive: bool) -> [bool; 2] {
        let (seed, choice) = (self.rng.next(), self.rng.below(4));
        if alive && choice == 0 {
            self.db.take().unwrap().close().unwrap();
            self.trees.clear();
            return [true, true];
        }
        let killed = alive && choice == 1;
        let next = match choice {
            _ if killed => self.disk.kill(),
            2 => self.disk.crash_keeping(0.0, seed),
            _ => self.disk.crash(seed),
        };
        self.trees.clear();
        self.db = None;
        self.disk = next;
        [killed, false]
    }
}

#[test]
fn a_tree_without_the_log_holds_what_it_held_at_some_moment() {
    for seed in seeds(150) {
        println!("ESKER_SEED={seed}");
        let mut life = Life::new(seed);
        life.open();
        for _ in 0..8 {
            let after = life.rng.below(400);
            life.disk.set_crash_after(Some(life.disk.operations() + after).filter(|_| after < 200));
            let steps = life.rng.below(150);
            let alive = (0..steps).all(|_| life.step());
            life.disk.set_crash_after(None);
            let all = life.end(alive);
            let report = esker::check(STORE, &life.options.clone().env(env(&life.disk, 1))).unwrap();
            assert!(report.findings.is_empty(), "seed {seed}: {:?}", report.findings);
            life.open();
            life.look(all, &format!("seed {seed}"));
        }
        nothing_is_left(&mut life);
    }
}

/// The space of what was deleted comes back.
fn nothing_is_left(life: &mut Life) {
    let db = life.db.clone().unwrap();
    for tree in &life.trees {
        tree.delete_range(&ScanRange::all()).unwrap();
    }
    db.compact().unwrap();
    while db.step(Lane::Blobs) {}
    assert_eq!(db.stats().unwrap().blob_values, 0, "values that nobody has keep their space");
}
