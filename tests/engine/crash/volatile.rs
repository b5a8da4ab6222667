//! Trees whose writes skip the log (durability rule 21), beside such whose writes do not, and what becomes of a tree as a
//! whole: data that is ingested, trees that are split and dropped. After a crash each holds all of its own writes up to some
//! moment, not before what was promised for it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use esker::env::JobKind;
use esker::fs::sim::SimFs;
use esker::{Batch, Db, Durability, Options, ScanRange, Tree, TreeOptions};

use crate::common::{Rng, seeds};
use crate::life::STORE;
use crate::world::env;

pub(crate) type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a tree held after each write to it, and how much of that cannot be lost.
pub(crate) struct History {
    pub(crate) states: Vec<Pairs>,
    durable: usize,
}

impl History {
    pub(crate) fn of(pairs: Pairs) -> History {
        History { states: vec![pairs], durable: 0 }
    }

    pub(crate) fn now(&self) -> &Pairs {
        self.states.last().unwrap()
    }

    fn write(&mut self, change: impl FnOnce(&mut Pairs)) {
        let mut next = self.now().clone();
        change(&mut next);
        self.states.push(next);
    }

    pub(crate) fn make_durable(&mut self) {
        self.durable = self.states.len() - 1;
    }

    /// Whether a crash now may leave `found`.
    pub(crate) fn may_leave(&self, found: &Pairs) -> bool {
        self.states[self.durable..].contains(found)
    }

    /// Goes on with what is left.
    pub(crate) fn settle(&mut self, found: &Pairs, all: bool, what: &str) {
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

pub(crate) fn contents(tree: &Tree) -> Pairs {
    tree.scan(ScanRange::all()).unwrap().collect::<esker::Result<_>>().unwrap()
}

/// A tree, and what it held.
struct Known {
    name: String,
    logged: bool,
    history: History,
    /// Its keys are from this one on,
    lower: Vec<u8>,
    /// and before this one.
    upper: Option<Vec<u8>>,
    tree: Option<Tree>,
}

impl Known {
    fn new(name: &str, logged: bool) -> Known {
        let history = History::of(Pairs::new());
        Known { name: name.to_owned(), logged, history, lower: Vec::new(), upper: None, tree: None }
    }

    fn tree(&self) -> Tree {
        self.tree.clone().unwrap()
    }
}

/// What was under way when the power failed.
enum Change {
    /// The tree at this place was to be split.
    Split { old: usize, new: String, at: Vec<u8> },
    /// It was to be dropped.
    Drop(usize),
}

struct Life {
    rng: Rng,
    disk: SimFs,
    options: Options,
    db: Option<Db>,
    trees: Vec<Known>,
    unclear: Option<Change>,
    writes: u64,
    copies: u64,
    names: u64,
}

/// Dead disks fail calls; nothing else does.
pub(crate) fn alive(disk: &SimFs, result: esker::Result<()>) -> bool {
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
        let trees = vec![Known::new("default", true), Known::new("volatile", false)];
        Life { rng, disk, options, db: None, trees, unclear: None, writes: 0, copies: 0, names: 0 }
    }

    fn open(&mut self) {
        let options = self.options.clone().env(env(&self.disk, self.rng.next()));
        let db = Db::open(STORE, options).unwrap();
        if db.open_tree("volatile").unwrap().is_none() && self.names == 0 {
            db.create_tree("volatile", TreeOptions::default().log(false)).unwrap();
        }
        match self.unclear.take() {
            Some(Change::Split { old, new, at }) if db.open_tree(&new).unwrap().is_some() => {
                self.note_split(old, &new, &at);
            }
            Some(Change::Drop(which)) if db.open_tree(&self.trees[which].name).unwrap().is_none() => {
                self.trees.remove(which);
            }
            _ => {}
        }
        for known in &mut self.trees {
            known.tree = db.open_tree(&known.name).unwrap();
        }
        assert_eq!(db.tree_names().len(), self.trees.len(), "{:?}", db.tree_names());
        self.db = Some(db);
    }

    /// What is there; `all`: nothing can have been lost of what went to the log, or of the rest.
    fn look(&mut self, all: [bool; 2], what: &str) {
        for known in &mut self.trees {
            let found = contents(&known.tree());
            let all = all[usize::from(!known.logged)];
            known.history.settle(&found, all, &format!("{what}, {}", known.name));
        }
    }

    fn make_durable(&mut self, logged: bool, rest: bool) {
        for known in &mut self.trees {
            if if known.logged { logged } else { rest } {
                known.history.make_durable();
            }
        }
    }

    fn note_split(&mut self, old: usize, name: &str, at: &[u8]) {
        let known = &mut self.trees[old];
        let mut low = known.history.now().clone();
        let high = low.split_off(at);
        known.history = History::of(low);
        let new = Known {
            history: History::of(high),
            lower: at.to_vec(),
            upper: known.upper.replace(at.to_vec()),
            ..Known::new(name, known.logged)
        };
        self.trees.push(new);
    }

    fn split(&mut self, which: usize) -> bool {
        let at = self.key(which);
        if at == b"key00" || at == self.trees[which].lower {
            return true;
        }
        self.names += 1;
        let name = format!("half{}", self.names);
        let db = self.db.clone().unwrap();
        let split = db.split(&self.trees[which].tree(), &at, &name);
        let new = split.as_ref().ok().cloned();
        if !alive(&self.disk, split.map(drop)) {
            self.unclear = Some(Change::Split { old: which, new: name, at });
            return false;
        }
        self.note_split(which, &name, &at);
        self.trees.last_mut().unwrap().tree = new;
        self.make_durable(true, false);
        true
    }

    fn drop_one(&mut self, which: usize) -> bool {
        if which == 0 {
            return true;
        }
        self.names += 1;
        let name = self.trees[which].name.clone();
        if !alive(&self.disk, self.db.clone().unwrap().drop_tree(&name)) {
            self.unclear = Some(Change::Drop(which));
            return false;
        }
        self.trees.remove(which);
        true
    }

    /// A key of the tree.
    fn key(&mut self, which: usize) -> Vec<u8> {
        let (lower, upper) = (self.trees[which].lower.clone(), self.trees[which].upper.clone());
        for _ in 0..100 {
            let key = format!("key{:02}", self.rng.below(30)).into_bytes();
            if key >= lower && upper.as_ref().is_none_or(|upper| key < *upper) {
                return key;
            }
        }
        if lower.is_empty() { b"key00".to_vec() } else { lower }
    }

    fn write(&mut self, which: usize) -> bool {
        let mut batch = Batch::new();
        let mut next = self.trees[which].history.now().clone();
        for _ in 0..=self.rng.below(4) {
            let (key, tree) = (self.key(which), self.trees[which].tree());
            match self.rng.below(12) {
                0..3 => {
                    batch.delete(&tree, &key).unwrap();
                    next.remove(&key);
                }
                3 => {
                    let end = self.key(which).max(key.clone());
                    batch.delete_range(&tree, &key..&end).unwrap();
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
        self.trees[which].history.states.push(next);
        let alive = alive(&self.disk, written.map(drop));
        if alive && durability == Durability::Power && !batch.is_empty() {
            self.trees[which].history.make_durable();
        }
        alive
    }

    fn transfer(&mut self, which: usize) -> bool {
        let (from, to, keep) = (self.key(which), self.key(which), self.rng.one_in(2));
        let tree = self.trees[which].tree();
        let done = if keep { tree.copy(&from, &to) } else { tree.rename(&from, &to) };
        self.trees[which].history.write(|pairs| {
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
        let which = self.rng.index(self.trees.len());
        match self.rng.below(42) {
            0..26 => self.write(which),
            26..29 => self.transfer(which),
            29 => {
                let alive = alive(&self.disk, self.trees[which].tree().flush());
                if alive {
                    self.trees[which].history.make_durable();
                }
                alive
            }
            30 => self.all_durable(|| db.sync()),
            31 => self.all_durable(|| db.compact()),
            32 => self.copy(&db),
            33 => self.ingest(which),
            34 | 35 => self.split(which),
            36 if self.rng.one_in(2) => self.drop_one(which),
            _ => {
                db.step(*self.rng.pick(&JobKind::ALL));
                !self.disk.is_dead()
            }
        }
    }

    fn all_durable(&mut self, call: impl FnOnce() -> esker::Result<()>) -> bool {
        let alive = alive(&self.disk, call());
        if alive {
            self.make_durable(true, true);
        }
        alive
    }

    /// What is ingested is there at once, and with it all that was written before.
    fn ingest(&mut self, which: usize) -> bool {
        let (from, end) = (self.key(which), self.key(which));
        let value = vec![9; *self.rng.pick(&[10, 2000])];
        let pairs = (0..30).map(|number| format!("key{number:02}").into_bytes());
        let pairs: Pairs =
            pairs.filter(|key| (&from..&end).contains(&key)).map(|key| (key, value.clone())).collect();
        let fill = || {
            let mut ingest = self.trees[which].tree().ingest()?;
            pairs.iter().try_for_each(|(key, value)| ingest.put(key, value))?;
            ingest.commit()
        };
        let done = fill();
        self.trees[which].history.write(|now| now.extend(pairs.clone()));
        let alive = alive(&self.disk, done.map(drop));
        if alive && !pairs.is_empty() {
            self.trees[which].history.make_durable();
            self.make_durable(true, false);
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
        for known in &self.trees {
            let tree = copy.open_tree(&known.name).unwrap().unwrap();
            assert!(contents(&tree) == *known.history.now(), "a checkpoint, {}", known.name);
        }
        true
    }

    /// Ends the store in some way; whether each tree must hold everything then.
    fn end(&mut self, alive: bool) -> [bool; 2] {
        let (seed, choice) = (self.rng.next(), self.rng.below(4));
        if alive && choice == 0 {
            self.db.take().unwrap().close().unwrap();
            self.trees.iter_mut().for_each(|known| known.tree = None);
            return [true, true];
        }
        let killed = alive && choice == 1;
        let next = match choice {
            _ if killed => self.disk.kill(),
            2 => self.disk.crash_keeping(0.0, seed),
            _ => self.disk.crash(seed),
        };
        self.trees.iter_mut().for_each(|known| known.tree = None);
        self.db = None;
        self.disk = next;
        [killed, false]
    }
}

/// A store on a simulated disk that does random things until it ends.
pub(crate) trait Mortal {
    fn rng(&mut self) -> &mut Rng;
    fn disk(&self) -> &SimFs;
    fn begin(&mut self);
    /// Does something. `false`: the disk is dead.
    fn act(&mut self) -> bool;
    /// Ends the store in some way, opens it again, and compares what is there with what has to be.
    fn end_and_look(&mut self, alive: bool, what: &str);
}

/// Crashes, kills and closes of one store, in the middle of anything. What is left passes a check each time.
pub(crate) fn end_eight_times(life: &mut impl Mortal, seed: u64) {
    life.begin();
    for _ in 0..8 {
        let after = life.rng().below(400);
        let crash = Some(life.disk().operations() + after).filter(|_| after < 200);
        life.disk().set_crash_after(crash);
        let steps = life.rng().below(150);
        let alive = (0..steps).all(|_| life.act());
        life.disk().set_crash_after(None);
        life.end_and_look(alive, &format!("seed {seed}"));
    }
}

/// The check of what an ended store has left.
pub(crate) fn is_sound(disk: &SimFs, options: &Options, what: &str) {
    let report = esker::check(STORE, &options.clone().env(env(disk, 1))).unwrap();
    assert!(report.findings.is_empty(), "{what}: {:?}", report.findings);
}

/// The space of all that was deleted comes back.
pub(crate) fn no_huge_value_is_left(db: &Db) {
    db.compact().unwrap();
    while db.step(JobKind::Blobs) {}
    assert_eq!(db.stats().unwrap().blob_values, 0, "values that nobody has keep their space");
}

impl Mortal for Life {
    fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    fn disk(&self) -> &SimFs {
        &self.disk
    }

    fn begin(&mut self) {
        self.open();
    }

    fn act(&mut self) -> bool {
        self.step()
    }

    fn end_and_look(&mut self, alive: bool, what: &str) {
        let all = self.end(alive);
        is_sound(&self.disk, &self.options, what);
        self.open();
        self.look(all, what);
    }
}

#[test]
fn a_tree_without_the_log_holds_what_it_held_at_some_moment() {
    // 314: a put waited for space that had been given back already.
    for seed in seeds(150).chain([314]) {
        println!("ESKER_SEED={seed}");
        let mut life = Life::new(seed);
        end_eight_times(&mut life, seed);
        nothing_is_left(&mut life);
    }
}

/// The space of what was deleted comes back.
fn nothing_is_left(life: &mut Life) {
    let db = life.db.clone().unwrap();
    for known in &life.trees {
        known.tree().delete_range(ScanRange::all()).unwrap();
    }
    no_huge_value_is_left(&db);
}
