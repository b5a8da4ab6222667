//! A toy region: two stores apply one log of encoded batches, which the test keeps. Huge values are staged ahead in both.
//! Either store is killed and comes back at random, also in the middle of a call. The log is cut as far as one of them
//! needs no more of it; the other catches up by a copy of the region. At the same index both hold the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use esker::env::JobKind;
use esker::fs::FileSystem;
use esker::fs::sim::SimFs;
use esker::{Batch, Db, Options, ScanRange, Staging, Tree, TreeOptions, keys};

use crate::common::{Rng, is_full_run, seeds};
use crate::life::STORE;
use crate::world::env;

/// The trees of the region. Their places in this list are their slots in the log.
const TREES: [&str; 4] = ["rows", "links", "state", "staging"];
/// The key of the index of the entry that was applied last.
const APPLIED: &str = "applied";
const REGION: &str = "region";

/// What the rows and the links are to hold: each key follows the slot of its tree.
type Pairs = BTreeMap<(usize, Vec<u8>), Vec<u8>>;

/// An entry of the log.
struct Entry {
    batch: Vec<u8>,
    /// What both stores hold when they have applied it.
    after: Pairs,
}

struct Log {
    /// The entry at place n has the index `cut + n + 1`.
    entries: Vec<Entry>,
    cut: u64,
    /// What the entries that were cut have made.
    before: Pairs,
}

impl Log {
    fn last(&self) -> u64 {
        self.cut + self.entries.len() as u64
    }

    fn at(&self, index: u64) -> &Entry {
        &self.entries[(index - self.cut - 1) as usize]
    }

    fn after(&self, index: u64) -> &Pairs {
        if index == self.cut { &self.before } else { &self.at(index).after }
    }

    fn cut_to(&mut self, index: u64) {
        while self.cut < index {
            self.before = self.entries.remove(0).after;
            self.cut += 1;
        }
    }
}

struct Node {
    disk: SimFs,
    options: Options,
    db: Option<Db>,
    /// No crash may leave it before this entry.
    durable: u64,
    opened: u64,
}

/// The rest of the episode's work on this node is over: its disk is dead.
struct Dead;

type Alive<T> = Result<T, Dead>;

impl Node {
    fn new(rng: &mut Rng) -> Node {
        let mut options = Options::default().memory_budget(8 << 20);
        options.memtable_bytes = Some(*rng.pick(&[2 << 10, 16 << 10, 64 << 10]));
        options.table_bytes = 4 << 10;
        // What is huge in one store may be small in the other.
        options.separate_at = *rng.pick(&[300, 1000, usize::MAX]);
        options.blob_file_bytes = *rng.pick(&[10_000, 256 << 20]);
        Node { disk: SimFs::new(rng.next()), options, db: None, durable: 0, opened: 0 }
    }

    fn db(&self) -> Db {
        self.db.clone().unwrap()
    }

    /// Calls may fail because the disk is dead, and for no other reason.
    fn alive<T>(&self, result: esker::Result<T>) -> Alive<T> {
        match result {
            Ok(value) if !self.disk.is_dead() => Ok(value),
            Err(error) if !self.disk.is_dead() => panic!("{error:?}"),
            _ => Err(Dead),
        }
    }

    fn open(&mut self) {
        self.opened += 1;
        let options = self.options.clone().env(env(&self.disk, self.opened));
        let db = Db::open(STORE, options).unwrap();
        for name in TREES {
            if db.open_tree(name).unwrap().is_none() {
                assert!(self.durable == 0, "{name} is gone");
                db.create_tree(name, TreeOptions::default().log(false).group(REGION)).unwrap();
            }
        }
        self.db = Some(db);
        let applied = self.applied();
        assert!(applied >= self.durable, "{applied} after a crash, {} was promised", self.durable);
    }

    fn tree(&self, slot: usize) -> Tree {
        self.db().open_tree(TREES[slot]).unwrap().unwrap()
    }

    fn staging(&self) -> Staging {
        Staging::new(&self.tree(3))
    }

    fn applied(&self) -> u64 {
        self.tree(2).get_vec(APPLIED).unwrap().map_or(0, |bytes| keys::decode_u64(&bytes).unwrap())
    }

    /// Crashes, or is killed.
    fn restart(&mut self, rng: &mut Rng) {
        let next = match rng.below(3) {
            0 if !self.disk.is_dead() => self.disk.kill(),
            1 => self.disk.crash_keeping(0.0, rng.next()),
            _ => self.disk.crash(rng.next()),
        };
        self.db = None;
        self.disk = next;
        self.open();
    }

    fn stage(&self, id: &str, value: &[u8]) -> Alive<()> {
        self.alive(self.staging().put(id, value)).map(drop)
    }

    /// Applies the next entry.
    fn apply(&self, log: &Log) -> Alive<()> {
        let index = self.applied() + 1;
        let mut batch = Batch::decode(&log.at(index).batch, |slot| Some(self.tree(slot as usize))).unwrap();
        for awaited in batch.awaited() {
            let staged = self.alive(self.staging().get(&awaited.id))?;
            let staged = staged
                .unwrap_or_else(|| panic!("{} of entry {index} is not staged", awaited.id.escape_ascii()));
            assert!(batch.attach(&staged).unwrap());
        }
        batch.put(&self.tree(2), APPLIED, keys::u64(index)).unwrap();
        self.alive(self.db().write(&batch)).map(drop)
    }

    /// Notes how far no crash can take the node back.
    fn note_durable(&mut self) {
        let durable = self.tree(2).get_durable(APPLIED).unwrap();
        let durable = durable.map_or(0, |value| keys::decode_u64(&value.into_vec().unwrap()).unwrap());
        assert!(durable >= self.durable && durable <= self.applied());
        self.durable = durable;
    }

    fn check(&self, log: &Log) {
        let applied = self.applied();
        let mut found = Pairs::new();
        for slot in 0..2 {
            for pair in self.tree(slot).scan(ScanRange::all()).unwrap() {
                let (key, value) = pair.unwrap();
                found.insert((slot, key), value);
            }
        }
        assert!(found == *log.after(applied), "not what entry {applied} leaves");
    }

    /// Does background work.
    fn step(&self, rng: &mut Rng) -> Alive<()> {
        self.db().step(*rng.pick(&JobKind::ALL));
        self.alive(Ok(()))
    }
}

struct Region {
    rng: Rng,
    nodes: [Node; 2],
    log: Log,
    count: u64,
    done: Done,
}

/// How often things have happened.
#[derive(Debug, Default, Clone, Copy)]
struct Done {
    entries: u64,
    restarts: u64,
    copies: u64,
    staged: u64,
}

impl Region {
    fn new(seed: u64) -> Region {
        let mut rng = Rng::new(seed);
        let mut nodes = [Node::new(&mut rng), Node::new(&mut rng)];
        nodes.iter_mut().for_each(Node::open);
        let log = Log { entries: Vec::new(), cut: 0, before: Pairs::new() };
        Region { rng, nodes, log, count: 0, done: Done::default() }
    }

    fn key(&mut self) -> Vec<u8> {
        format!("key{:02}", self.rng.below(20)).into_bytes()
    }

    fn restart(&mut self, number: usize) {
        self.done.restarts += 1;
        self.nodes[number].restart(&mut self.rng);
    }

    /// Stages `value` in both stores, whatever becomes of them meanwhile.
    fn stage(&mut self, id: &str, value: &[u8]) {
        for number in 0..2 {
            while self.nodes[number].stage(id, value).is_err() {
                self.restart(number);
            }
        }
        self.done.staged += 1;
    }

    /// Appends an entry to the log. One of the stores encodes it.
    fn propose(&mut self) {
        let leader = self.rng.index(2);
        let mut after = self.log.after(self.log.last()).clone();
        let mut batch = Batch::new();
        for _ in 0..=self.rng.below(4) {
            let (slot, key) = (self.rng.index(2), self.key());
            match self.rng.below(8) {
                0 => {
                    batch.delete(&self.nodes[leader].tree(slot), &key).unwrap();
                    after.remove(&(slot, key));
                }
                1 => {
                    let end = self.key().max(key.clone());
                    batch.delete_range(&self.nodes[leader].tree(slot), &key..&end).unwrap();
                    after.retain(|(other, found), _| *other != slot || *found < key || *found >= end);
                }
                2 => {
                    batch.merge(&self.nodes[leader].tree(slot), &key, esker::operators::APPEND, "+").unwrap();
                    after.entry((slot, key)).or_default().push(b'+');
                }
                3 | 4 => {
                    self.count += 1;
                    let (id, mut value) =
                        (format!("value {}", self.count), self.count.to_le_bytes().to_vec());
                    value.resize(8 + self.rng.below(3000) as usize, 7);
                    self.stage(&id, &value);
                    let staged = self.nodes[leader].staging().get(&id).unwrap().unwrap();
                    let (rows, other) = (self.nodes[leader].tree(slot), self.nodes[leader].tree(1 - slot));
                    batch.put_staged(&rows, &key, &staged, None).unwrap();
                    after.insert((slot, key.clone()), value.clone());
                    if self.rng.one_in(3) {
                        batch.put_staged(&other, &key, &staged, None).unwrap();
                        after.insert((1 - slot, key), value);
                    }
                }
                _ => {
                    self.count += 1;
                    let value = self.count.to_le_bytes().to_vec();
                    batch.put(&self.nodes[leader].tree(slot), &key, &value).unwrap();
                    after.insert((slot, key), value);
                }
            }
        }
        let slot = |name: &str| TREES.iter().position(|tree| *tree == name).map(|slot| slot as u32);
        self.done.entries += 1;
        self.log.entries.push(Entry { batch: batch.encode(slot).unwrap(), after });
    }

    /// Cuts the log as far as the store does not need it. The other may have to catch up by a copy.
    fn cut(&mut self, number: usize) {
        self.nodes[number].note_durable();
        let durable = self.nodes[number].durable;
        self.log.cut_to(durable);
    }

    /// Brings a store that the log does not reach any more to the state of the other.
    fn catch_up(&mut self, number: usize) -> Alive<()> {
        self.count += 1;
        let dir = PathBuf::from(format!("/copies/{}", self.count));
        let from = &self.nodes[1 - number];
        let index = from.applied().to_string();
        let exported = from.db().export_group(REGION, &dir, &[("state", &index)]);
        if from.alive(exported.map(drop)).is_err() {
            self.restart(1 - number);
            return Ok(());
        }
        let to = &self.nodes[number];
        to.alive(send(&from.disk, &to.disk, &dir))?;
        to.alive(to.db().replace_group(&dir, &[]))?;
        assert_eq!(to.tree(2).tag().unwrap(), index);
        assert_eq!(to.applied().to_string(), index);
        self.nodes[number].durable = 0;
        self.nodes[number].note_durable();
        assert_eq!(self.nodes[number].durable.to_string(), index, "a copy is durable");
        self.done.copies += 1;
        Ok(())
    }

    fn act(&mut self, number: usize) -> Alive<()> {
        let applied = self.nodes[number].applied();
        if applied < self.log.cut {
            return self.catch_up(number);
        }
        match self.rng.below(24) {
            0..10 if applied < self.log.last() => self.nodes[number].apply(&self.log)?,
            10 => {
                let flushed = self.nodes[number].tree(self.rng.index(4)).flush();
                self.nodes[number].alive(flushed)?;
                self.nodes[number].note_durable();
                assert_eq!(self.nodes[number].durable, self.nodes[number].applied());
            }
            11 => self.cut(number),
            12 => self.restart(number),
            13 if self.nodes[1 - number].applied() >= applied => self.catch_up(number)?,
            14 => self.nodes[number].check(&self.log),
            _ => self.nodes[number].step(&mut self.rng)?,
        }
        Ok(())
    }

    fn episode(&mut self) {
        for _ in 0..40 + self.rng.below(60) {
            if self.rng.one_in(4) {
                self.propose();
            }
            let number = self.rng.index(2);
            let node = &self.nodes[number];
            let crash = node.disk.operations() + self.rng.below(60);
            node.disk.set_crash_after(Some(crash).filter(|_| self.rng.one_in(4)));
            let acted = self.act(number);
            self.nodes[number].disk.set_crash_after(None);
            if acted.is_err() || self.nodes[number].disk.is_dead() {
                self.restart(number);
            }
        }
        for number in 0..2 {
            while self.nodes[number].applied() < self.log.last() {
                let caught_up = match self.nodes[number].applied() < self.log.cut {
                    true => self.catch_up(number),
                    false => self.nodes[number].apply(&self.log),
                };
                assert!(caught_up.is_ok());
            }
            self.nodes[number].check(&self.log);
            assert!(
                self.nodes[number].staging().ids().unwrap().is_empty(),
                "what was applied is still staged"
            );
        }
    }
}

/// Copies a directory from one disk to another.
fn send(from: &SimFs, to: &SimFs, dir: &Path) -> esker::Result<()> {
    to.create_dir_all(dir)?;
    for name in from.list(dir)? {
        let path = dir.join(name);
        let mut file = to.create(&path)?;
        file.append(&from.read(&path)?)?;
        file.sync()?;
    }
    to.sync_dir(dir)
}

#[test]
fn two_stores_that_apply_one_log_are_alike() {
    let mut all = Done::default();
    for seed in seeds(150) {
        println!("ESKER_SEED={seed}");
        let mut region = Region::new(seed);
        region.episode();
        let Done { entries, restarts, copies, staged } = region.done;
        all = Done {
            entries: all.entries + entries,
            restarts: all.restarts + restarts,
            copies: all.copies + copies,
            staged: all.staged + staged,
        };
    }
    println!("{all:?}");
    if is_full_run() {
        assert!(all.entries > 1000 && all.restarts > 100 && all.copies > 100 && all.staged > 500, "{all:?}");
    }
}
