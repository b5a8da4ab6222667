//! Trees whose values expire by the time that their writes carry.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use esker::env::{Env, JobKind, StepExecutor};
use esker::fs::sim::SimFs;
use esker::operators::APPEND;
use esker::updates::What;
use esker::{Batch, Db, ErrorKind, ExpiryClock, Options, Tree, TreeOptions, TxnOptions, keys};

use crate::common::{HourClock, Rng, contents, seeds, settle, world};

const STORE: &str = "/store";

/// A store on `disk` whose clock is many years ahead of all times that the tests carry.
fn open(disk: &SimFs, separate_at: usize) -> Db {
    let env = world(Arc::new(disk.clone()), 1, Some(Arc::new(StepExecutor)));
    let env = Env { clock: HourClock::new(1_000_000), ..env };
    let mut options = Options::default().memory_budget(8 << 20).separate_at(separate_at).env(env);
    (options.memtable_bytes, options.table_bytes) = (Some(4 << 10), 4 << 10);
    Db::open(STORE, options).unwrap()
}

fn options() -> TreeOptions {
    TreeOptions::default().expiry_clock(ExpiryClock::Writes)
}

fn tree_of(db: &Db, name: &str, log: bool) -> Tree {
    let found = db.open_tree(name).unwrap();
    found.unwrap_or_else(|| db.create_tree(name, options().log(log).group("replica")).unwrap())
}

/// What a key has, and until when.
type Pairs = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

/// A command of the log that all replicas apply.
#[derive(Debug, Clone, PartialEq)]
enum Command {
    Put(Vec<u8>, Option<u64>),
    Delete,
    PutIfAbsent(Vec<u8>),
    Append(Vec<u8>),
    Rename(Vec<u8>),
    Pop,
    /// In a transaction: the key gets the value, and until when, of another, if that is there.
    Take(Vec<u8>),
    /// Time passes.
    Nothing,
}

#[derive(Debug, Clone)]
struct Entry {
    /// The time that its write is given.
    said: u64,
    /// The time at which it happens.
    time_us: u64,
    key: Vec<u8>,
    command: Command,
    /// What the tree holds when it was applied.
    after: Pairs,
    /// What the command has answered.
    answer: Option<Vec<u8>>,
    /// Whether the command surely writes to the tree. What writes nothing carries no time.
    writes: bool,
}

fn any_key(rng: &mut Rng) -> Vec<u8> {
    format!("{:02}", rng.below(40)).into_bytes()
}

fn any_value(rng: &mut Rng) -> Vec<u8> {
    let len = if rng.one_in(4) { rng.between(300, 900) } else { rng.between(1, 40) };
    vec![b'a' + rng.below(26) as u8; len]
}

fn lives(pair: &(Vec<u8>, Option<u64>), time_us: u64) -> bool {
    pair.1.is_none_or(|until| time_us < until)
}

/// The next entry behind one that was applied at `time_us` and left `pairs`.
fn next_entry(rng: &mut Rng, time_us: u64, mut pairs: Pairs) -> Entry {
    // A leader with a slower clock may follow; no time goes back behind the one that was carried.
    let said = (time_us + *rng.pick(&[0, 1, 100, 2000])).saturating_sub(*rng.pick(&[0, 0, 0, 500]));
    let time_us = said.max(time_us);
    let (key, other) = (any_key(rng), any_key(rng));
    let command = match rng.below(20) {
        0..9 => Command::Put(any_value(rng), rng.percent(70).then(|| time_us + rng.below(30_000))),
        9..11 => Command::Delete,
        11..13 => Command::PutIfAbsent(any_value(rng)),
        13..15 => Command::Append(any_value(rng)),
        15 => Command::Rename(other.clone()),
        16 => Command::Pop,
        17..19 => Command::Take(other.clone()),
        _ => Command::Nothing,
    };
    pairs.retain(|_, pair| lives(pair, time_us));
    let found = pairs.get(&key).cloned();
    let (mut answer, mut writes) = (found.as_ref().map(|(value, _)| value.clone()), true);
    match &command {
        Command::Put(value, until) => {
            answer = None;
            pairs.insert(key.clone(), (value.clone(), *until));
        }
        Command::Delete => {
            answer = None;
            pairs.remove(&key);
        }
        Command::PutIfAbsent(value) => {
            writes = found.is_none();
            pairs.entry(key.clone()).or_insert_with(|| (value.clone(), None));
        }
        Command::Append(value) => {
            let whole = [found.map(|(old, _)| old).unwrap_or_default(), value.clone()].concat();
            answer = Some(whole.clone());
            pairs.insert(key.clone(), (whole, None));
        }
        Command::Rename(to) => {
            writes = found.is_some() && *to != key;
            if let Some(pair) = found {
                pairs.remove(&key);
                pairs.insert(to.clone(), pair);
            }
        }
        Command::Pop => {
            answer = pairs.pop_first().map(|(key, _)| key);
            writes = answer.is_some();
        }
        Command::Take(from) => {
            answer = pairs.get(from).map(|(value, _)| value.clone());
            writes = answer.is_some();
            if let Some(pair) = pairs.get(from).cloned() {
                pairs.insert(key.clone(), pair);
            }
        }
        Command::Nothing => (answer, writes) = (None, false),
    }
    pairs.retain(|_, pair| lives(pair, time_us));
    Entry { said, time_us, key, command, after: pairs, answer, writes }
}

/// Applies an entry in a transaction. `applied`, a tree of the same group, gets its index.
fn apply_whole(db: &Db, tree: &Tree, applied: &Tree, index: u64, entry: &Entry) {
    let (tree, key) = (&tree.at_us(entry.said), &entry.key);
    let txn = db.begin(TxnOptions::default()).unwrap();
    let put = |to: &[u8], value: &[u8], until: Option<u64>| match until {
        Some(until) => txn.put_until(tree, to, value, UNIX_EPOCH + Duration::from_micros(until)).unwrap(),
        None => txn.put(tree, to, value).unwrap(),
    };
    let read = |key: &[u8]| {
        let found = txn.get(tree, key).unwrap();
        found.map(|value| (value.bytes().unwrap().into_owned(), value.expires_us()))
    };
    let mut answer = read(key);
    match &entry.command {
        Command::Put(value, until) => {
            answer = None;
            put(key, value, *until);
        }
        Command::Delete => {
            answer = None;
            txn.delete(tree, key).unwrap();
        }
        Command::PutIfAbsent(value) => {
            if answer.is_none() {
                put(key, value, None);
            }
        }
        Command::Append(value) => {
            txn.merge(tree, key, APPEND, value).unwrap();
            let whole = read(key).unwrap().0;
            put(key, &whole, None);
            answer = Some((whole, None));
        }
        Command::Rename(to) => {
            if let Some((value, until)) = &answer {
                txn.delete(tree, key).unwrap();
                put(to, value, *until);
            }
        }
        Command::Pop => {
            answer = txn.first(tree).unwrap().map(|(key, _)| (key, None));
            answer.iter().for_each(|(key, _)| txn.delete(tree, key).unwrap());
        }
        Command::Take(from) => {
            answer = read(from);
            answer.iter().for_each(|(value, until)| put(key, value, *until));
        }
        Command::Nothing => answer = None,
    }
    assert_eq!(answer.map(|(value, _)| value), entry.answer, "{entry:?}");
    txn.put(applied, "applied", keys::u64(index)).unwrap();
    if !entry.writes {
        // A write carries the time, whatever it writes.
        txn.delete(tree, "none").unwrap();
    }
    txn.commit().unwrap();
}

/// Applies an entry by calls of the tree.
fn apply(db: &Db, tree: &Tree, entry: &Entry) {
    let tree = tree.at_us(entry.said);
    let bytes = |value: Option<esker::Value>| value.map(|value| value.into_vec().unwrap());
    let answer = match &entry.command {
        Command::Put(value, until) => {
            let mut batch = Batch::new();
            batch.put_until_us(&tree, &entry.key, value, *until).unwrap();
            if value.len() < 300 {
                // As it comes from a log that is kept elsewhere.
                let encoded = batch.encode(|_| Some(0)).unwrap();
                batch = Batch::decode(&encoded, |_| Some(tree.at_us(0))).unwrap();
            }
            db.write(&batch).unwrap();
            None
        }
        Command::Delete => {
            tree.delete(&entry.key).unwrap();
            None
        }
        Command::PutIfAbsent(value) => bytes(tree.put_if_absent(&entry.key, value).unwrap()),
        Command::Append(value) => {
            let append = |old: Option<&[u8]>| Some([old.unwrap_or_default(), value].concat());
            tree.update(&entry.key, append).unwrap()
        }
        Command::Rename(to) => {
            let found = tree.get_vec(&entry.key).unwrap();
            assert_eq!(tree.rename(&entry.key, to).unwrap(), found.is_some());
            found
        }
        Command::Pop => tree.pop_first().unwrap().map(|(key, _)| key),
        Command::Take(from) => {
            let txn = db.begin(TxnOptions::default()).unwrap();
            let found = txn.get(&tree, from).unwrap();
            if let Some(value) = &found {
                let bytes = value.bytes().unwrap();
                match value.expires_at() {
                    Some(until) => txn.put_until(&tree, &entry.key, &bytes, until).unwrap(),
                    None => txn.put(&tree, &entry.key, &bytes).unwrap(),
                }
            }
            txn.commit().unwrap();
            bytes(found)
        }
        Command::Nothing => None,
    };
    if !entry.writes {
        let mut batch = Batch::new();
        batch.carry(&tree).unwrap();
        db.write(&batch).unwrap();
    }
    assert_eq!(answer, entry.answer, "{entry:?}");
}

/// Everything that `tree` holds at `time_us`, read in several ways.
fn held(tree: &Tree, time_us: u64, snapshot: &esker::Snapshot) -> Pairs {
    let tree = tree.at_us(time_us);
    let mut all = Pairs::new();
    let mut cursor = tree.cursor().unwrap();
    let mut found = cursor.first().unwrap();
    while found {
        let key = cursor.key().to_vec();
        let value = tree.get(&key).unwrap().unwrap();
        assert_eq!(value.bytes().unwrap(), snapshot.get(&tree, &key).unwrap().unwrap().bytes().unwrap());
        all.insert(key, (value.bytes().unwrap().into_owned(), value.expires_us()));
        found = cursor.next().unwrap();
    }
    assert_eq!(tree.count(..).unwrap(), all.len() as u64);
    assert_eq!(snapshot.count(&tree, ..).unwrap(), all.len() as u64);
    for number in 0..40 {
        let key = format!("{number:02}").into_bytes();
        let is_there = all.contains_key(&key);
        assert_eq!((tree.contains(&key).unwrap(), tree.get(&key).unwrap().is_some()), (is_there, is_there));
    }
    all
}

/// Replicas crash, flush and merge whenever they like, and apply again what they have lost. At each entry they agree.
#[test]
fn replicas_agree_on_what_has_expired() {
    for seed in seeds(40) {
        println!("ESKER_SEED={seed}");
        let mut rng = Rng::new(seed);
        let (log, crashes) = (rng.one_in(3), rng.one_in(2));
        let separate_at = *rng.pick(&[200, 5000]);
        let mut disk = SimFs::new(seed);
        let mut db = open(&disk, separate_at);
        let (mut time_us, mut pairs) = (1000, Pairs::new());
        let mut entries: Vec<Entry> = Vec::new();
        let mut index = 0;
        // Each with its index.
        let mut snapshots: Vec<(esker::Snapshot, usize)> = Vec::new();
        for _ in 0..400 {
            let (tree, applied) = (tree_of(&db, "t", log), tree_of(&db, "state", log));
            if index == entries.len() {
                let entry = next_entry(&mut rng, time_us, std::mem::take(&mut pairs));
                (time_us, pairs) = (entry.time_us, entry.after.clone());
                entries.push(entry);
            }
            println!("{index} {:?}", &entries[index].command);
            println!("   {} {} {:?}", entries[index].said, entries[index].time_us, entries[index].key);
            match crashes {
                true => apply_whole(&db, &tree, &applied, index as u64 + 1, &entries[index]),
                false => apply(&db, &tree, &entries[index]),
            }
            index += 1;
            match rng.below(24) {
                0 => db.flush().unwrap(),
                1 => db.compact().unwrap(),
                2..8 => drop(db.step(*rng.pick(&JobKind::ALL))),
                8 => settle(&db),
                9 => snapshots.push((db.snapshot(), index)),
                10 if !snapshots.is_empty() => {
                    let at = rng.index(snapshots.len());
                    drop(snapshots.swap_remove(at));
                }
                11 if rng.one_in(3) => {
                    snapshots.clear();
                    if crashes {
                        let next = if rng.one_in(2) { disk.crash(rng.next()) } else { disk.kill() };
                        disk = next;
                    } else {
                        db.close().unwrap();
                    }
                    drop((tree, applied, db));
                    db = open(&disk, separate_at);
                    if crashes {
                        let applied = tree_of(&db, "state", log).get_vec("applied").unwrap();
                        index = applied.map_or(0, |bytes| keys::decode_u64(&bytes).unwrap() as usize);
                    }
                }
                _ => {}
            }
            if let Some(entry) = index.checked_sub(1).map(|last| &entries[last]) {
                let tree = tree_of(&db, "t", log);
                assert!(held(&tree, entry.time_us, &db.snapshot()) == entry.after, "at {index}: {entry:?}");
                // A later time without a write.
                let later = entry.time_us + rng.below(5000);
                let mut expected = entry.after.clone();
                expected.retain(|_, pair| lives(pair, later));
                assert_eq!(contents(&tree.at_us(later)).len(), expected.len());
            }
            for (snapshot, at) in &snapshots {
                let Some(entry) = at.checked_sub(1).map(|last| &entries[last]) else { continue };
                let tree = tree_of(&db, "t", log).at_us(entry.time_us);
                let seen: BTreeMap<_, _> =
                    snapshot.scan(&tree, ..).unwrap().collect::<esker::Result<_>>().unwrap();
                let expected = entry.after.iter().map(|(key, (value, _))| (key.clone(), value.clone()));
                assert!(seen == expected.collect(), "a snapshot at {at}");
            }
        }
        // All that has expired goes, when the flushes have taken the time along.
        snapshots.clear();
        let tree = tree_of(&db, "t", log);
        let mut batch = Batch::new();
        batch.carry(&tree.at_us(1 << 50)).unwrap();
        db.write(&batch).unwrap();
        db.flush().unwrap();
        db.compact().unwrap();
        settle(&db);
        let held = index.checked_sub(1).map_or_else(Pairs::new, |last| entries[last].after.clone());
        let lasting = held.values().filter(|(_, until)| until.is_none()).count() as u64;
        let stats = db.stats().unwrap();
        assert_eq!(stats.trees.iter().find(|one| one.name == "t").unwrap().table_entries, lasting);
    }
}

#[test]
fn the_store_s_clock_says_nothing_and_the_tree_s_time_survives() {
    for log in [true, false] {
        let disk = SimFs::new(1);
        let db = open(&disk, 1000);
        let tree = tree_of(&db, "t", log);
        tree.at_us(1000).put_for("a", "1", Duration::from_micros(500)).unwrap();
        tree.at_us(1000).put_for("b", vec![1; 2000], Duration::from_micros(700)).unwrap();
        db.compact().unwrap();
        settle(&db);
        assert_eq!(tree.count(..).unwrap(), 2);
        assert_eq!((tree.time_us(), tree.at_us(7).time_us(), tree.at_us(1007).time_us()), (1000, 1000, 1007));
        assert_eq!(tree.get("a").unwrap().unwrap().expires_us(), Some(1500));
        tree.at_us(1500).put("c", "3").unwrap();
        assert_eq!((tree.contains("a").unwrap(), tree.count(..).unwrap()), (false, 2));
        // No time before the one that was carried counts, but in a snapshot.
        assert!(!tree.at_us(1499).contains("a").unwrap());
        assert!(db.snapshot().contains(&tree.at_us(1499), "a").unwrap());
        if !log {
            tree.flush().unwrap();
        }
        let disk = disk.kill();
        drop((tree, db));
        let db = open(&disk, 1000);
        let tree = tree_of(&db, "t", log);
        assert_eq!((tree.time_us(), tree.contains("a").unwrap()), (1500, false));
        // A split and an export take it along.
        let other = db.split(&tree, "b", "u").unwrap();
        assert_eq!(other.time_us(), 1500);
        tree.at_us(1 << 40).delete("aa").unwrap();
        assert_eq!((tree.time_us(), other.time_us()), (1 << 40, 1500));
        tree.flush().unwrap();
        settle(&db);
        assert!(!tree.at_us(1499).contains("a").unwrap(), "it has expired in the tree's tables");
        assert_eq!(db.stats().unwrap().blob_values, 1);
        other.at_us(1700).delete("x").unwrap();
        db.flush().unwrap();
        settle(&db);
        assert_eq!(db.stats().unwrap().blob_values, 0);
    }
}

#[test]
fn of_other_trees_a_given_time_is_for_reads_and_conditions() {
    let db = open(&SimFs::new(1), 1000);
    let (tree, now_us) = (db.default_tree(), db.default_tree().time_us());
    tree.put_for("a", "1", Duration::from_secs(60)).unwrap();
    assert!(tree.contains("a").unwrap());
    let later = tree.at_us(now_us + 60_000_000);
    assert!(!later.contains("a").unwrap() && later.get("a").unwrap().is_none());
    assert_eq!((later.count(..).unwrap(), tree.count(..).unwrap()), (0, 1));
    assert!(db.snapshot().get(&later, "a").unwrap().is_none());
    assert!(later.put_if_absent("a", "2").unwrap().is_none());
    assert_eq!(tree.get_vec("a").unwrap().as_deref(), Some(&b"2"[..]));
    let refused = db.default_tree().set_options(options()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
}

#[test]
fn what_is_rolled_back_carries_no_time() {
    let db = open(&SimFs::new(1), 1000);
    let (tree, other) = (tree_of(&db, "t", true), db.default_tree());
    let txn = db.begin(TxnOptions::default()).unwrap();
    txn.put(&tree.at_us(5), "a", "1").unwrap();
    let savepoint = txn.savepoint();
    txn.put(&tree.at_us(1000), "b", "2").unwrap();
    txn.rollback_to(savepoint).unwrap();
    txn.put(other, "c", "3").unwrap();
    txn.commit().unwrap();
    assert_eq!(tree.time_us(), 5);
    let txn = db.begin(TxnOptions::default()).unwrap();
    let savepoint = txn.savepoint();
    txn.put(&tree.at_us(1000), "b", "2").unwrap();
    txn.rollback_to(savepoint).unwrap();
    txn.put(other, "c", "4").unwrap();
    txn.commit().unwrap();
    assert_eq!(tree.time_us(), 5);
}

/// A transaction relies on what it has read at its own time.
#[test]
fn a_time_that_comes_before_the_commit_is_a_conflict() {
    let db = open(&SimFs::new(1), 1000);
    let tree = tree_of(&db, "t", true);
    tree.at_us(10).put_for("lease", "Ann", Duration::from_micros(90)).unwrap();
    for (time_us, commits) in [(99, true), (100, false)] {
        let txn = db.begin(TxnOptions::default()).unwrap();
        assert_eq!(txn.get_vec(&tree, "lease").unwrap().as_deref(), Some(&b"Ann"[..]));
        txn.put(&tree, "seen", "yes").unwrap();
        tree.at_us(time_us).put("other", "write").unwrap();
        // It has one time for all that it reads.
        assert!(txn.contains(&tree, "lease").unwrap());
        assert_eq!(txn.commit().is_ok(), commits);
    }
    assert!(tree.put_if_absent("lease", "Bob").unwrap().is_none());
}

/// A reader without a time sees an expiry only with the write that has carried the time.
#[test]
fn a_key_that_is_renewed_in_time_is_never_missing() {
    let db = Db::open_in_memory(Options::default().memory_budget(8 << 20)).unwrap();
    let tree = db.create_tree("t", options()).unwrap();
    tree.at_us(0).put_for("lease", "0", Duration::from_micros(2)).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for time_us in 1..20_000 {
                tree.at_us(time_us).put_for("lease", "1", Duration::from_micros(1)).unwrap();
            }
        });
        while !writer.is_finished() {
            assert!(tree.contains("lease").unwrap());
            assert!(tree.get("lease").unwrap().is_some());
            assert_eq!(tree.count(..).unwrap(), 1);
            assert!(tree.first().unwrap().is_some());
        }
    });
}

#[test]
fn changes_tell_the_time() {
    let env = world(Arc::new(SimFs::new(1)), 1, Some(Arc::new(StepExecutor)));
    let db =
        Db::open(STORE, Options::default().memory_budget(8 << 20).log_history(1 << 20).env(env)).unwrap();
    let tree = tree_of(&db, "t", true);
    let mut updates = db.updates_since(db.snapshot().sequence()).unwrap();
    tree.at_us(7).put("a", "1").unwrap();
    let update = updates.next().unwrap().unwrap();
    let has_time = |change: &esker::updates::Change| matches!(change.what, What::Time(7));
    assert!(update.changes.len() == 2 && update.changes.iter().any(has_time), "{update:?}");
}

#[test]
fn a_put_that_is_refused_carries_no_time() {
    let db = open(&SimFs::new(1), 1000);
    let tree = tree_of(&db, "t", true).at_us(7);
    let mut batch = Batch::new();
    assert!(batch.put(&tree, "", "1").is_err() && batch.delete(&tree, "").is_err());
    assert!(batch.merge(&tree, "", APPEND, "1").is_err() && batch.put(&tree, "", [1; 2000]).is_err());
    assert!(batch.is_empty());
    batch.put(&tree, "a", "1").unwrap();
    assert_eq!(batch.len(), 2);
}
