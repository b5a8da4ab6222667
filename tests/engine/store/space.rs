//! The space bound: a store takes at most a quarter more than what is live, and a fixed amount.
//!
//! Background work is done to its end before each look, so nothing lags: what is left then is what the store would
//! keep for good. Where it works beside the writers, old values count until it has come by.

use std::collections::BTreeMap;
use std::sync::Arc;

use esker::env::StepExecutor;
use esker::fs::FileSystem;
use esker::fs::sim::SimFs;
use esker::{Db, Options, Snapshot};

use crate::common::{Rng, seeds, settle, world};

const STORE: &str = "/store";
/// What is live, about.
const LIVE: u64 = 16 << 20;
/// What is written over it.
const WRITTEN: u64 = 5 * LIVE;
/// What the store may take besides: reserve, log and tables of this memory budget, and a quarter of a blob file.
const BESIDES: u64 = 8 << 20;

fn open(disk: &SimFs) -> Db {
    let env = world(Arc::new(disk.clone()), 1, Some(Arc::new(StepExecutor)));
    let mut options = Options::default().memory_budget(8 << 20).env(env);
    options.blob_file_bytes = 2 << 20;
    Db::open(STORE, options).unwrap()
}

/// Allocated bytes of all files whose names have `part`.
fn taken(disk: &SimFs, part: &str) -> u64 {
    let paths = disk.paths().into_iter().filter(|path| path.starts_with(STORE));
    let paths = paths.filter(|path| path.to_string_lossy().contains(part));
    paths.map(|path| disk.allocated_bytes(&path).unwrap()).sum()
}

/// Key and length by number of the version; what a snapshot sees is looked up in a copy.
type Lens = BTreeMap<u64, (u64, u64)>;

struct Driver<'a> {
    db: &'a Db,
    rng: Rng,
    newest: Lens,
    seen: Lens,
    snapshot: Option<Snapshot>,
    version: u64,
    written: u64,
}

impl Driver<'_> {
    /// Values of every kind: in tables, in shared blob files, and some with a file of their own.
    fn len(&mut self) -> u64 {
        match self.rng.below(1000) {
            0 => (8 << 20) + self.rng.below(1 << 20),
            1..600 => 10 + self.rng.below(4000),
            _ => 32 << self.rng.below(4) << 10 | self.rng.below(32 << 10),
        }
    }

    fn newest_bytes(&self) -> u64 {
        self.newest.values().map(|&(_, len)| len).sum()
    }

    /// Bytes that somebody can see.
    fn live(&self) -> u64 {
        let only_seen = self.seen.iter().filter(|&(key, seen)| self.newest.get(key) != Some(seen));
        self.newest_bytes() + only_seen.map(|(_, &(_, len))| len).sum::<u64>()
    }

    fn step(&mut self) {
        let key = self.rng.below(1000);
        let is_there = self.newest.contains_key(&key);
        if is_there && (self.rng.percent(40) || self.newest_bytes() > LIVE) {
            self.db.delete(key.to_be_bytes()).unwrap();
            self.newest.remove(&key);
        } else if self.newest_bytes() <= LIVE {
            let len = self.len();
            self.db.put(key.to_be_bytes(), vec![key as u8; len as usize]).unwrap();
            self.version += 1;
            self.newest.insert(key, (self.version, len));
            self.written += len;
        }
    }

    fn hold(&mut self, wanted: bool) {
        if wanted && self.snapshot.is_none() {
            self.snapshot = Some(self.db.snapshot());
            self.seen = self.newest.clone();
        } else if !wanted {
            self.snapshot = None;
            self.seen.clear();
        }
    }
}

#[test]
fn the_directory_stays_within_its_bound() {
    for seed in seeds(4) {
        println!("seed {seed}");
        let disk = SimFs::new(seed);
        let db = open(&disk);
        let mut driver = Driver {
            db: &db,
            rng: Rng::new(seed),
            newest: Lens::new(),
            seen: Lens::new(),
            snapshot: None,
            version: 0,
            written: 0,
        };
        let mut looks = 0;
        while driver.written < WRITTEN {
            driver.hold((2..4).contains(&(driver.written * 10 / WRITTEN % 5)));
            (0..25).for_each(|_| driver.step());
            settle(&db);
            let (taken, live) = (taken(&disk, ""), driver.live());
            let bound = live * 5 / 4 + BESIDES;
            assert!(taken <= bound, "seed {seed}, look {looks}: {taken} bytes for {live}, more than {bound}");
            looks += 1;
        }
        assert!(looks > 20, "{looks}");
        driver.hold(false);
        for (key, &(_, len)) in &driver.newest {
            let found = db.get_vec(key.to_be_bytes()).unwrap();
            assert!(
                found
                    .is_some_and(|value| value.len() as u64 == len && value.iter().all(|&b| b == *key as u8))
            );
            db.delete(key.to_be_bytes()).unwrap();
        }
        settle(&db);
        let of_blobs = taken(&disk, ".blob");
        assert!(of_blobs < 100_000, "seed {seed}: blob files of nothing take {of_blobs} bytes");
        // Tables go by merges, which nothing asks for any more.
        db.compact().unwrap();
        settle(&db);
        let left = taken(&disk, "");
        assert!(left <= BESIDES, "seed {seed}: {left} bytes are left of nothing");
        drop(driver);
        db.close().unwrap();
    }
}

/// Nobody else does any background work here: whoever is held up does it.
#[test]
fn who_overwrites_is_held_up() {
    const KEYS: u64 = 100;
    const LEN: usize = 64 << 10;
    for seed in seeds(2) {
        println!("seed {seed}");
        let disk = SimFs::new(seed);
        let db = open(&disk);
        let mut rng = Rng::new(seed);
        let live = KEYS * LEN as u64;
        let mut snapshot = None;
        for round in 0..20 * KEYS {
            let key = if round < KEYS { round } else { rng.below(KEYS) };
            db.put(key.to_be_bytes(), vec![round as u8; LEN]).unwrap();
            // What it sees is not owed: who puts is not held up for what nobody could give back.
            match round {
                700 => snapshot = Some(db.snapshot()),
                800 => snapshot = None,
                _ => {}
            }
            let seen = if snapshot.is_some() { 2 * live } else { live };
            let taken = taken(&disk, ".blob");
            let bound = seen * 5 / 4 + (3 << 20);
            assert!(
                snapshot.is_some() || round.abs_diff(820) < 40 || taken <= bound,
                "seed {seed}, {round}: {taken}"
            );
            assert!(taken <= 2 * live * 5 / 4 + (3 << 20), "seed {seed}, {round}: {taken} with a snapshot");
        }
        (0..KEYS).for_each(|key| db.delete(key.to_be_bytes()).unwrap());
        db.close().unwrap();
    }
}
