//! Operations on a whole store beside a map, with reopenings, kills and power cuts.
//!
//! Each operation is a byte that says what, and bytes for keys and values. Two trees; their keys have a letter in front in
//! the map. A kill loses nothing. A power cut leaves what the map was after some operation since the last sync.
#![no_main]

use std::collections::BTreeMap;

use esker::fs::sim::SimFs;
use esker::fuzzing::{settle, small_options};
use esker::{Batch, Db, Durability, ErrorKind, Options, ScanRange, Snapshot, Tree, TxnOptions};
use libfuzzer_sys::fuzz_target;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

const DIR: &str = "/store";

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    fn key(&mut self) -> Vec<u8> {
        let byte = self.byte().unwrap_or(0);
        // Some share beginnings, some are long.
        let mut key = format!("k{:02}", byte % 16).into_bytes();
        if byte & 64 != 0 {
            key.extend([b'x'; 100]);
        }
        if byte & 128 != 0 {
            key.push(0);
        }
        key
    }

    fn value(&mut self) -> Vec<u8> {
        let byte = self.byte().unwrap_or(0);
        // From 300 bytes on, values have files of their own.
        let len = [0, 1, 20, 299, 300, 301, 2000, 70_000][usize::from(byte % 8)];
        vec![byte; len]
    }
}

/// What there should be.
#[derive(Default)]
struct Model {
    now: Map,
    /// After each operation since the last sync, this one not included.
    before: Vec<Map>,
}

impl Model {
    fn put(&mut self, tree: u8, key: &[u8], value: &[u8]) {
        self.now.insert([&[tree], key].concat(), value.to_vec());
    }

    fn delete(&mut self, tree: u8, key: &[u8]) {
        self.now.remove(&[&[tree], key].concat());
    }

    fn get(&self, tree: u8, key: &[u8]) -> Option<&Vec<u8>> {
        self.now.get(&[&[tree], key].concat())
    }

    fn delete_range(&mut self, tree: u8, from: &[u8], to: &[u8]) {
        let (from, to) = ([&[tree], from].concat(), [&[tree], to].concat());
        self.now.retain(|key, _| *key < from || *key >= to);
    }

    fn synced(&mut self) {
        self.before.clear();
    }
}

struct Store {
    db: Option<Db>,
    trees: [Option<Tree>; 2],
}

const NAMES: [&str; 2] = ["a", "b"];

impl Store {
    fn open(options: Options) -> Store {
        let db = Db::open(DIR, options).expect("opens");
        let trees = NAMES.map(|name| Some(db.tree(name).expect("a tree")));
        Store { db: Some(db), trees }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("open")
    }

    fn tree(&self, which: u8) -> &Tree {
        self.trees[usize::from(which & 1)].as_ref().expect("open")
    }

    fn contents(&self) -> Map {
        let mut all = Map::new();
        for which in [0, 1] {
            for pair in self.tree(which).scan(ScanRange::all()).expect("a scan") {
                let (key, value) = pair.expect("a pair");
                all.insert([&[which], &key[..]].concat(), value.to_vec());
            }
        }
        all
    }

    fn drop_all(&mut self) {
        self.trees = [None, None];
        self.db = None;
    }
}

/// Everything, forwards and by key.
fn check(store: &Store, model: &Model) {
    let found = store.contents();
    assert!(found == model.now, "{:?} instead of {:?}", sizes(&found), sizes(&model.now));
}

/// After a power cut.
fn was_there(found: &Map, model: &Model) {
    let mut moments = model.before.iter().chain([&model.now]);
    let all = || model.before.iter().chain([&model.now]).map(sizes).collect::<Vec<_>>();
    assert!(moments.any(|map| map == found), "{:?} was never there: {:?}", sizes(found), all());
}

fn sizes(map: &Map) -> Vec<(String, usize)> {
    map.iter().map(|(key, value)| (key.escape_ascii().to_string(), value.len())).collect()
}

fn seen(snapshot: &Snapshot, store: &Store) -> Map {
    let mut all = Map::new();
    for which in [0, 1] {
        for pair in snapshot.scan(store.tree(which), ScanRange::all()).expect("a scan") {
            let (key, value) = pair.expect("a pair");
            all.insert([&[which], &key[..]].concat(), value.to_vec());
        }
    }
    all
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let mut disk = SimFs::new(u64::from(input.byte().unwrap_or(0)));
    let mut store = Store::open(small_options(&disk));
    // Trees are durable when they are made.
    let mut model = Model::default();
    let mut snapshot: Option<(Snapshot, Map)> = None;
    for _ in 0..200 {
        let Some(op) = input.byte() else { break };
        let which = op >> 7;
        let tree = store.tree(which).clone();
        let before = model.now.clone();
        match op & 31 {
            0..=4 => {
                let (key, value) = (input.key(), input.value());
                tree.put(&key, &value).expect("a put");
                model.put(which, &key, &value);
            }
            5 | 6 => {
                let key = input.key();
                tree.delete(&key).expect("a delete");
                model.delete(which, &key);
            }
            7 => {
                let (from, to) = (input.key(), input.key());
                tree.delete_range(&from..&to).expect("a deletion");
                if from < to {
                    model.delete_range(which, &from, &to);
                }
            }
            8 => {
                let mut batch = Batch::new();
                for _ in 0..input.byte().unwrap_or(0) % 8 {
                    let (key, value) = (input.key(), input.value());
                    let which = (key.len() % 2) as u8;
                    batch.put(store.tree(which), &key, &value).expect("a batch");
                    model.put(which, &key, &value);
                }
                let key = input.key();
                batch.delete(&tree, &key).expect("a batch");
                model.delete(which, &key);
                store.db().write(&batch).expect("a write");
            }
            9 => {
                let (key, value) = (input.key(), input.value());
                tree.append(&key, &value).expect("a merge");
                let whole = [model.get(which, &key).map_or(&[][..], |old| old), &value].concat();
                model.put(which, &key, &whole);
            }
            10 => {
                let (key, value) = (input.key(), input.value());
                let expected =
                    if op & 32 == 0 { model.get(which, &key).cloned() } else { Some(b"no".to_vec()) };
                let swaps = expected.as_ref() == model.get(which, &key);
                let swapped = tree.compare_and_swap(&key, expected.as_deref(), Some(&value)).expect("a swap").is_done();
                assert_eq!(swapped, swaps);
                if swaps {
                    model.put(which, &key, &value);
                }
            }
            11 => {
                let (key, other, value) = (input.key(), input.key(), input.value());
                let txn = store.db().begin(TxnOptions::default()).expect("a transaction");
                let read = txn.get_vec(&tree, &key).expect("a read");
                assert_eq!(read.as_ref(), model.get(which, &key));
                txn.put(&tree, &other, &value).expect("a put");
                txn.delete(&tree, &key).expect("a delete");
                if op & 32 == 0 {
                    txn.commit().expect("a commit");
                    model.put(which, &other, &value);
                    model.delete(which, &key);
                }
            }
            12 => {
                let (from, to) = (input.key(), input.key());
                let moved = tree.rename(&from, &to).expect("a rename");
                let value = model.get(which, &from).cloned();
                assert_eq!(moved, value.is_some());
                if let Some(value) = value {
                    model.delete(which, &from);
                    model.put(which, &to, &value);
                }
            }
            13 | 14 => {
                let key = input.key();
                assert_eq!(tree.get_vec(&key).expect("a get").as_ref(), model.get(which, &key));
            }
            15 => check(&store, &model),
            16 => {
                if let Some((snapshot, map)) = &snapshot {
                    assert!(seen(snapshot, &store) == *map, "a snapshot changed");
                }
                snapshot = Some((store.db().snapshot(), model.now.clone()));
            }
            17 => store.db().flush().expect("a flush"),
            18 => settle(store.db()),
            19 => {
                store.db().compact().expect("a merge of all");
                settle(store.db());
            }
            20 => {
                let (key, value) = (input.key(), input.value());
                tree.put_with(&key, &value, Durability::Power).expect("a put");
                model.put(which, &key, &value);
                model.synced();
                continue;
            }
            21 => {
                store.db().sync().expect("a sync");
                model.synced();
                continue;
            }
            22 => store.db().clear_cache(),
            23 => {
                let mut steps = input.byte().unwrap_or(0) % 8;
                while steps > 0 && store.db().step(esker::env::JobKind::ALL[usize::from(steps % 4)]) {
                    steps -= 1;
                }
            }
            24 | 25 => {
                snapshot = None;
                drop(tree);
                store.db().close().expect("closes");
                store.drop_all();
                model.synced();
                store = Store::open(small_options(&disk));
                check(&store, &model);
                continue;
            }
            26 | 27 => {
                // A kill: what the dying process still does goes to the old disk.
                snapshot = None;
                let next = disk.kill();
                drop(tree);
                store.drop_all();
                disk = next;
                store = Store::open(small_options(&disk));
                check(&store, &model);
            }
            28 | 29 => {
                snapshot = None;
                let next = disk.crash(u64::from(input.byte().unwrap_or(0)));
                drop(tree);
                store.drop_all();
                disk = next;
                store = Store::open(small_options(&disk));
                let found = store.contents();
                was_there(&found, &model);
                model = Model { now: found, before: Vec::new() };
                // What replay has found is as safe as it was before.
                store.db().sync().expect("a sync");
                continue;
            }
            _ => {
                let report = esker::check(DIR, &small_options(&disk.fork()));
                let _ = report.map_err(|error| assert_eq!(error.kind(), ErrorKind::Locked, "{error}"));
            }
        }
        if model.now != before {
            model.before.push(before);
        }
    }
    check(&store, &model);
});
