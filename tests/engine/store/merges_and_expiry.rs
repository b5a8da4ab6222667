//! What is merged into a value that expires: it ends with the value, whenever flushes and merges run. (The model test
//! reads such values in every way there is.)

use std::collections::BTreeMap;
use std::sync::Arc;

use esker::env::{Clock, Env, JobKind};
use esker::fs::sim::SimFs;
use esker::operators::{ADD, APPEND};
use esker::updates::What;
use esker::{
    Batch, CompactionStyle, Db, ErrorKind, ExpiryClock, Options, PutOptions, ScanRange, Snapshot, Tree,
    TreeOptions, TxnOptions, keys,
};

use crate::common::{HourClock, Longest, Rng, seeds, settle, stepped_options, ttl};

const STORE: &str = "/store";

fn options(disk: &SimFs, clock: &Arc<HourClock>) -> Options {
    let mut options = stepped_options(disk).merge_operator(Longest);
    options.env = Env { clock: Arc::<HourClock>::clone(clock), ..options.env };
    options
}

fn open(disk: &SimFs, clock: &Arc<HourClock>) -> Db {
    Db::open(STORE, options(disk, clock)).unwrap()
}

fn new() -> (SimFs, Arc<HourClock>, Db) {
    let (disk, clock) = (SimFs::new(1), HourClock::new(0));
    let db = open(&disk, &clock);
    (disk, clock, db)
}

fn number(tree: &Tree, key: &str) -> Option<i64> {
    tree.get_vec(key).unwrap().map(|bytes| keys::decode_i64(&bytes).unwrap())
}

fn text(tree: &Tree, key: &str) -> Option<String> {
    tree.get_vec(key).unwrap().map(|bytes| String::from_utf8(bytes).unwrap())
}

fn entries(db: &Db) -> u64 {
    db.stats().unwrap().trees.iter().map(|tree| tree.table_entries).sum()
}

#[test]
fn a_limiter_resets() {
    for compacts in [false, true] {
        let (_, clock, db) = new();
        let tree = db.default_tree();
        let step = |db: &Db| {
            if compacts {
                db.compact().unwrap();
            }
        };
        tree.put_for("n", keys::i64(1), ttl(2)).unwrap();
        for _ in 0..3 {
            tree.add("n", 1).unwrap();
            step(&db);
        }
        assert_eq!(number(tree, "n"), Some(4));
        // What the merges make expires with the value.
        assert_eq!(
            tree.get("n").unwrap().unwrap().expires_us(),
            Some(clock.wall_us() + ttl(2).as_micros() as u64)
        );
        clock.pass(2);
        assert_eq!(number(tree, "n"), None);
        assert!(!tree.contains("n").unwrap() && tree.metadata("n").unwrap().is_none());
        assert!(tree.count(ScanRange::all()).unwrap() == 0 && tree.first().unwrap().is_none());
        step(&db);
        tree.add("n", 1).unwrap();
        step(&db);
        assert_eq!(number(tree, "n"), Some(1));
        clock.pass(1000);
        step(&db);
        assert_eq!(number(tree, "n"), Some(1));
        settle(&db);
        db.compact().unwrap();
        assert_eq!((number(tree, "n"), entries(&db)), (Some(1), 1));
    }
}

/// The merge that drops the expired value does not read the operands above it.
#[test]
fn a_value_that_was_dropped_still_ends_its_operands() {
    let (disk, clock, db) = new();
    let tree = db.default_tree();
    for huge in [false, true] {
        let value = vec![b'v'; if huge { 5000 } else { 1 }];
        tree.put_for("k", &value, ttl(2)).unwrap();
        tree.put("m", "").unwrap();
        db.compact().unwrap();
        tree.append("k", "!").unwrap();
        // Only what is in the bottom level is merged: half of it has expired.
        clock.pass(2);
        while db.step(JobKind::Compact) {}
        assert_eq!(text(tree, "k"), None);
        db.flush().unwrap();
        assert_eq!(text(tree, "k"), None);
        assert_eq!(tree.scan(ScanRange::all().keys_only().reverse()).unwrap().count(), 1);
        tree.append("k", "?").unwrap();
        assert_eq!(text(tree, "k").as_deref(), Some("?"));
        db.compact().unwrap();
        settle(&db);
        assert_eq!(text(tree, "k").as_deref(), Some("?"));
        assert_eq!((entries(&db), db.stats().unwrap().blob_values), (2, 0));
        tree.delete("k").unwrap();
    }
    drop(db);
    assert_eq!(open(&disk, &clock).default_tree().count(ScanRange::all()).unwrap(), 1);
}

#[test]
fn operands_that_have_ended_leave_nothing() {
    let (_, clock, db) = new();
    let tree = db.default_tree();
    for i in 0..100 {
        tree.put_for(format!("{i:03}"), keys::i64(0), ttl(1)).unwrap();
    }
    db.flush().unwrap();
    for i in 0..100 {
        tree.add(format!("{i:03}"), 1).unwrap();
    }
    db.flush().unwrap();
    clock.pass(2);
    db.compact().unwrap();
    assert_eq!(entries(&db), 0);
}

/// A flush that does not meet the value combines no operands that it divides.
#[test]
fn operands_are_not_combined_across_an_expiry() {
    for count in [1_usize, 4] {
        let (_, clock, db) = new();
        let tree = db.default_tree();
        let append = |text: &str| {
            let mut batch = Batch::new();
            (0..count).for_each(|_| batch.merge(tree, "k", APPEND, text).unwrap());
            db.write(&batch).unwrap();
        };
        tree.put_for("k", "v", ttl(2)).unwrap();
        db.compact().unwrap();
        append("a");
        let before = db.snapshot();
        clock.pass(1);
        append("b");
        clock.pass(1);
        append("c");
        for _ in 0..2 {
            assert_eq!(text(tree, "k"), Some("c".repeat(count)));
            let seen = before.get_vec(tree, "k").unwrap().unwrap();
            assert_eq!(seen, format!("v{}", "a".repeat(count)).into_bytes());
            db.flush().unwrap();
        }
        drop(before);
        append("d");
        db.flush().unwrap();
        for _ in 0..2 {
            assert_eq!(text(tree, "k"), Some(["c", "d"].map(|text| text.repeat(count)).concat()));
            db.compact().unwrap();
        }
        assert_eq!(entries(&db), 1);
    }
}

/// Ten thousand additions, an hour apart. A flush meets only operands, and looks up what is below them.
#[test]
fn a_counter_next_to_values_that_expire_stays_short() {
    let (_, clock, db) = new();
    let tree = db.default_tree();
    tree.put_for("session", "", ttl(1)).unwrap();
    tree.put("set", keys::i64(0)).unwrap();
    tree.put_for("limit", keys::i64(0), ttl(1_000_000)).unwrap();
    for round in 0..20 {
        for _ in 0..500 {
            let mut batch = Batch::new();
            for key in ["set", "limit", "unset"] {
                batch.merge(tree, key, ADD, keys::i64(1)).unwrap();
            }
            db.write(&batch).unwrap();
            clock.pass(1);
        }
        db.flush().unwrap();
        let most = 3 * (round + 2);
        assert!(entries(&db) <= most, "{} entries after {round} flushes", entries(&db));
        if round % 5 == 4 {
            settle(&db);
        }
    }
    for key in ["set", "limit", "unset"] {
        assert_eq!(number(tree, key), Some(10_000), "{key}");
    }
    db.compact().unwrap();
    assert_eq!(entries(&db), 3);
}

#[test]
fn a_tree_without_values_that_expire_has_no_times() {
    let (disk, clock, db) = new();
    let (plain, timed) = (db.tree("plain").unwrap(), db.tree("timed").unwrap());
    timed.put_for("session", "", ttl(1)).unwrap();
    let since = db.snapshot().sequence();
    for tree in [&plain, &timed] {
        tree.add("n", 1).unwrap();
    }
    let mut updates = db.updates_since(since).unwrap();
    let mut times = Vec::new();
    while let Some(update) = updates.next().unwrap() {
        for change in update.changes {
            assert!(matches!(change.what, What::Merge(..)));
            times.push((change.tree.to_string(), change.operand_us));
        }
    }
    assert_eq!(times, [("plain".to_owned(), None), ("timed".to_owned(), Some(clock.wall_us()))]);
    drop(updates);
    // Nor does an opening change that, whatever is in the log and in tables.
    drop((plain, timed, db));
    for _ in 0..2 {
        let db = open(&disk, &clock);
        let timed = db.tree("timed").unwrap();
        timed.put_for("limit", keys::i64(1), ttl(1)).unwrap();
        timed.add("limit", 1).unwrap();
        db.flush().unwrap();
        clock.pass(1);
        assert_eq!(number(&timed, "limit"), None);
        assert_eq!(number(&timed, "n"), Some(1));
    }
}

/// A write that does not wait cannot note in the manifest that operands have times.
#[test]
fn the_first_operand_with_a_time_may_wait() {
    let (_, _, db) = new();
    let tree = db.default_tree();
    tree.put_for("n", keys::i64(1), ttl(1)).unwrap();
    let mut batch = Batch::new();
    batch.merge(tree, "n", ADD, keys::i64(1)).unwrap();
    assert_eq!(db.try_write(&batch).unwrap_err().kind(), ErrorKind::NeedsIo);
    db.write(&batch).unwrap();
    db.try_write(&batch).unwrap();
    assert_eq!(number(tree, "n"), Some(3));
}

#[test]
fn what_brings_expiring_values_brings_times() {
    let (disk, clock, db) = new();
    // A bulk load.
    let loaded = db.tree("loaded").unwrap();
    let mut ingest = loaded.ingest().unwrap();
    let until = clock.wall_us() + ttl(2).as_micros() as u64;
    ingest.put_opts("n", keys::i64(1), &PutOptions::default().expires_us(Some(until))).unwrap();
    ingest.commit().unwrap();
    // A split, and an export and an import.
    loaded.put("a", "").unwrap();
    let split = db.split(&loaded, "b", "split").unwrap();
    split.add("n", 1).unwrap();
    db.export_tree("split", "/exported").unwrap();
    let (imported, _) = db.import_tree("/exported", "imported").unwrap();
    // A checkpoint, and a reader of the store.
    imported.add("n", 1).unwrap();
    db.checkpoint("/copy").unwrap();
    let copy = Db::open("/copy", options(&disk, &clock)).unwrap();
    for db in [&db, &copy] {
        for (name, expected) in [("split", 2), ("imported", 3)] {
            let tree = db.tree(name).unwrap();
            assert_eq!(number(&tree, "n"), Some(expected), "{name}");
            tree.add("n", 1).unwrap();
        }
    }
    clock.pass(2);
    for db in [&db, &copy] {
        for name in ["split", "imported"] {
            assert_eq!(number(&db.tree(name).unwrap(), "n"), None, "{name}");
        }
    }
    drop((loaded, split, imported, db));
    let reader = Db::open_read_only(STORE, options(&disk, &clock)).unwrap();
    assert_eq!(number(&reader.open_tree("split").unwrap().unwrap(), "n"), None);
}

#[test]
fn times_survive_a_power_cut() {
    let mut is_over = false;
    for call in 0.. {
        let (disk, clock) = (SimFs::new(call), HourClock::new(0));
        let db = open(&disk, &clock);
        disk.set_crash_after(Some(call));
        let write = || -> esker::Result<()> {
            let tree = db.default_tree();
            tree.put_for("n", keys::i64(1), ttl(2))?;
            tree.add("n", 1)?;
            db.flush()?;
            tree.add("n", 1)?;
            db.sync()?;
            db.compact()
        };
        if write().is_ok() && !disk.is_dead() {
            is_over = true;
        }
        for after in [disk.crash(call), disk.kill()] {
            let clock = HourClock::new(0);
            let db = open(&after, &clock);
            let tree = db.default_tree();
            let found = number(tree, "n");
            assert!(found.is_none_or(|found| (1..4).contains(&found)), "{found:?} after call {call}");
            tree.add("n", 1).unwrap();
            assert_eq!(number(tree, "n"), Some(found.unwrap_or(0) + 1), "call {call}");
            clock.pass(2);
            db.flush().unwrap();
            let expected = if found.is_some() { None } else { Some(1) };
            assert_eq!(number(tree, "n"), expected, "call {call}");
        }
        drop(db);
        if is_over {
            return;
        }
    }
}

#[test]
fn a_transaction_and_a_copy_keep_the_expiry() {
    let (_, clock, db) = new();
    let tree = db.default_tree();
    tree.put_for("n", keys::i64(1), ttl(2)).unwrap();
    let until = tree.get("n").unwrap().unwrap().expires_us();
    let txn = db.begin(TxnOptions::default()).unwrap();
    txn.merge(tree, "n", ADD, keys::i64(1)).unwrap();
    assert_eq!(txn.get(tree, "n").unwrap().unwrap().expires_us(), until);
    txn.commit().unwrap();
    assert!(tree.copy("n", "copy").unwrap());
    tree.set_attributes("copy", "x").unwrap();
    tree.add("copy", 1).unwrap();
    for (key, expected) in [("n", 2), ("copy", 3)] {
        assert_eq!(
            (number(tree, key), tree.get(key).unwrap().unwrap().expires_us()),
            (Some(expected), until)
        );
    }
    // Written when it had expired.
    let late = db.begin(TxnOptions::default()).unwrap();
    late.merge(tree, "n", ADD, keys::i64(10)).unwrap();
    clock.pass(2);
    late.commit().unwrap();
    assert_eq!((number(tree, "n"), number(tree, "copy")), (Some(10), None));
}

/// A question about a key, and whether it was found.
type Question = (&'static str, fn(&Tree) -> esker::Result<bool>);

/// The newest version of the key is an operand. Its entry has no expiry: that of the value below it decides.
#[test]
fn what_has_ended_is_absent_for_each_call() {
    let questions: [Question; 24] = [
        ("get", |tree| Ok(tree.get("n")?.is_some())),
        ("get_into", |tree| tree.get_into("n", &mut Vec::new())),
        ("get_pinned", |tree| Ok(tree.get_pinned("n")?.is_some())),
        ("get_with", |tree| Ok(tree.get_with("n", |_| ())?.is_some())),
        ("get_many", |tree| Ok(tree.get_many(["n"])?[0].is_some())),
        ("metadata", |tree| Ok(tree.metadata("n")?.is_some())),
        ("contains", |tree| tree.contains("n")),
        ("count", |tree| Ok(tree.count(ScanRange::all())? == 1)),
        ("is_empty", |tree| Ok(!tree.is_empty()?)),
        ("first", |tree| Ok(tree.first()?.is_some())),
        ("last", |tree| Ok(tree.last()?.is_some())),
        ("a cursor", |tree| tree.cursor()?.seek("n")),
        ("a scan", |tree| tree.scan(ScanRange::all())?.advance()),
        ("a scan of keys", |tree| tree.scan(ScanRange::all().keys_only())?.advance()),
        ("rename to itself", |tree| tree.rename("n", "n")),
        ("copy to itself", |tree| tree.copy("n", "n")),
        ("set_attributes", |tree| tree.set_attributes("n", "x")),
        ("set_expiry", |tree| tree.set_expiry("n", None)),
        ("copy", |tree| tree.copy("n", "m")),
        ("rename", |tree| tree.rename("n", "m")),
        ("remove", |tree| Ok(tree.remove("n")?.is_some())),
        ("put_if_absent", |tree| Ok(tree.put_if_absent("n", "x")?.is_some())),
        ("insert", |tree| Ok(tree.insert("n", "x")?.is_some())),
        ("pop_first", |tree| Ok(tree.pop_first()?.is_some())),
    ];
    for flushes in [false, true] {
        for (what, is_there) in questions {
            for ended in [false, true] {
                let (_, clock, db) = new();
                let tree = db.default_tree();
                tree.put_for("n", keys::i64(1), ttl(2)).unwrap();
                tree.add("n", 1).unwrap();
                if flushes {
                    db.flush().unwrap();
                }
                clock.pass(if ended { 3 } else { 1 });
                assert_eq!(is_there(tree).unwrap(), !ended, "{what}, flushed {flushes}");
            }
        }
    }
}

/// A copy that is written from the changes, later, has the same values if it takes its time from them.
#[test]
fn a_copy_by_changes_has_the_same_values() {
    let (_, clock, db) = new();
    let tree = db.default_tree();
    tree.put_for("n", keys::i64(1), ttl(2)).unwrap();
    tree.add("n", 1).unwrap();
    clock.pass(3);
    tree.add("n", 5).unwrap();
    clock.pass(1);
    let copy = db.create_tree("copy", TreeOptions::default().expiry_clock(ExpiryClock::Writes)).unwrap();
    let mut updates = db.updates_since(0).unwrap();
    while let Some(update) = updates.next().unwrap() {
        for change in update.changes.into_iter().filter(|change| &*change.tree == "default") {
            match change.what {
                What::Put(key, value) => {
                    let mut batch = Batch::new();
                    batch.put_until_us(&copy, key, value.bytes().unwrap(), value.expires_us()).unwrap();
                    db.write(&batch).unwrap();
                }
                What::Merge(key, operator, operand) => {
                    copy.at_us(change.operand_us.unwrap()).merge(key, &operator, operand).unwrap();
                }
                other => unreachable!("{other:?}"),
            }
        }
    }
    assert_eq!((number(tree, "n"), number(&copy, "n")), (Some(5), Some(5)));
}

// ---- whenever flushes and merges run --------------------------------------------------------------

#[derive(Debug, Clone)]
enum Step {
    Put { key: usize, len: usize, hours: Option<u64>, attributes: bool },
    Merge { key: usize, operator: &'static str, count: usize },
    Delete(usize),
    DeleteRange(usize),
    Load { key: usize, hours: u64 },
    Pass,
    Snapshot,
    Release,
}

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

fn history(rng: &mut Rng) -> Vec<Step> {
    let mut steps = Vec::new();
    for _ in 0..70 {
        let key = rng.below(KEYS.len() as u64) as usize;
        let hours = 1 + rng.below(6);
        steps.push(match rng.below(20) {
            0..=3 => Step::Put {
                key,
                len: *rng.pick(&[1, 3, 3, 1200]),
                hours: rng.percent(70).then_some(hours),
                attributes: rng.percent(15),
            },
            4..=11 => Step::Merge {
                key,
                operator: [APPEND, APPEND, Longest::NAME][rng.index(3)],
                count: *rng.pick(&[1, 1, 2, 6]),
            },
            12 => Step::Delete(key),
            13 => Step::DeleteRange(key),
            14 => Step::Load { key, hours },
            15 => Step::Snapshot,
            16 => Step::Release,
            _ => Step::Pass,
        });
    }
    steps
}

type Pairs = BTreeMap<String, Vec<u8>>;

/// The rule: for each key a value, and when it ends.
#[derive(Debug, Default)]
struct Model(BTreeMap<String, (Vec<u8>, Option<u64>)>);

impl Model {
    fn pairs(&self, hour: u64) -> Pairs {
        let lives =
            |(_, (_, until)): &(&String, &(Vec<u8>, Option<u64>))| until.is_none_or(|until| hour < until);
        self.0.iter().filter(lives).map(|(key, (value, _))| (key.clone(), value.clone())).collect()
    }

    fn merge(&mut self, hour: u64, key: &str, operator: &str, operand: &[u8]) {
        let entry = self.0.entry(key.to_owned()).or_default();
        if entry.1.is_some_and(|until| hour >= until) {
            *entry = (Vec::new(), None);
        }
        match operator {
            APPEND => entry.0.extend_from_slice(operand),
            _ if operand.len() >= entry.0.len() => entry.0 = operand.to_vec(),
            _ => {}
        }
    }
}

/// Everything in `tree`, read in several ways, which have to agree.
fn read(tree: &Tree, snapshot: Option<&Snapshot>) -> Pairs {
    let scan = |range: ScanRange| match snapshot {
        Some(snapshot) => snapshot.scan(tree, range).unwrap(),
        None => tree.scan(range).unwrap(),
    };
    let get = |key: &str| match snapshot {
        Some(snapshot) => (snapshot.get_vec(tree, key).unwrap(), snapshot.contains(tree, key).unwrap()),
        None => (tree.get_vec(key).unwrap(), tree.contains(key).unwrap()),
    };
    let text = |key: Vec<u8>| String::from_utf8(key).unwrap();
    let pairs: Pairs =
        scan(ScanRange::all()).map(Result::unwrap).map(|(key, value)| (text(key), value)).collect();
    let back: Pairs =
        scan(ScanRange::all().reverse()).map(Result::unwrap).map(|(key, value)| (text(key), value)).collect();
    assert_eq!(back, pairs, "backward");
    for keys_only in [ScanRange::all().keys_only(), ScanRange::all().keys_only().reverse()] {
        assert_eq!(scan(keys_only).count(), pairs.len(), "keys");
    }
    for key in KEYS {
        let found = get(key);
        assert_eq!(found, (pairs.get(key).cloned(), pairs.contains_key(key)), "{key}");
    }
    pairs
}

/// One run of a history: `rng` says when background work runs.
fn run(history: &[Step], rng: &mut Rng, schedule: u64) -> Vec<Pairs> {
    let (disk, clock, db) = new();
    let mut db = Some(db);
    let style = *rng.pick(CompactionStyle::ALL);
    let set = |db: &Db| {
        db.default_tree().set_options(TreeOptions::default().compaction(style).size_ratio(2)).unwrap();
    };
    db.iter().for_each(set);
    let (mut model, mut snapshots, mut seen, mut hour) = (Model::default(), Vec::new(), Vec::new(), 0);
    for (place, step) in history.iter().enumerate() {
        let store = db.as_ref().unwrap();
        let tree = store.default_tree();
        match step {
            Step::Put { key, len, hours, attributes } => {
                let (key, value) = (KEYS[*key], vec![b'a' + (place % 26) as u8; *len]);
                let expiry = hours.map(|hours| clock.wall_us() + ttl(hours).as_micros() as u64);
                let attributes: &[u8] = if *attributes { b"beside" } else { b"" };
                tree.put_opts(key, &value, &PutOptions::default().expires_us(expiry).attributes(attributes))
                    .unwrap();
                model.0.insert(key.to_owned(), (value, hours.map(|hours| hour + hours)));
            }
            Step::Merge { key, operator, count } => {
                let mut batch = Batch::new();
                for i in 0..*count {
                    let operand = format!("{place}.{i} ");
                    model.merge(hour, KEYS[*key], operator, operand.as_bytes());
                    batch.merge(tree, KEYS[*key], operator, operand).unwrap();
                }
                store.write(&batch).unwrap();
            }
            Step::Delete(key) => {
                tree.delete(KEYS[*key]).unwrap();
                model.0.remove(KEYS[*key]);
            }
            Step::DeleteRange(key) => {
                tree.delete_range(ScanRange::from(KEYS[*key]..)).unwrap();
                model.0.retain(|other, _| other.as_str() < KEYS[*key]);
            }
            Step::Load { key, hours } => {
                let mut ingest = tree.ingest().unwrap();
                let until = clock.wall_us() + ttl(*hours).as_micros() as u64;
                let options = PutOptions::default().expires_us(Some(until));
                ingest.put_opts(KEYS[*key], "loaded ", &options).unwrap();
                ingest.commit().unwrap();
                model.0.insert(KEYS[*key].to_owned(), (b"loaded ".to_vec(), Some(hour + hours)));
            }
            Step::Pass => {
                clock.pass(1);
                hour += 1;
            }
            Step::Snapshot => snapshots.push((store.snapshot(), model.pairs(hour))),
            Step::Release if snapshots.is_empty() => {}
            Step::Release => drop(snapshots.remove(rng.below(snapshots.len() as u64) as usize)),
        }
        // The more seldom, the more operands lie in one memtable.
        match rng.below(12 * schedule) {
            0 => store.flush().unwrap(),
            1 => store.compact().unwrap(),
            2 => settle(store),
            3..=5 => {
                for _ in 0..1 + rng.below(3) {
                    store.step(*rng.pick(&JobKind::ALL));
                }
            }
            6 => {
                store.flush().unwrap();
                store.step(JobKind::Compact);
            }
            7 if snapshots.is_empty() => {
                drop(db.take());
                db = Some(open(&disk, &clock));
            }
            _ => {}
        }
        let tree = db.as_ref().unwrap().default_tree();
        let pairs = read(tree, None);
        assert_eq!(pairs, model.pairs(hour), "schedule {schedule}, after step {place}, {step:?}");
        seen.push(pairs);
        for (snapshot, expected) in &snapshots {
            assert_eq!(
                &read(tree, Some(snapshot)),
                expected,
                "a snapshot, schedule {schedule}, step {place}"
            );
        }
    }
    drop(snapshots);
    let db = db.unwrap();
    clock.pass(10);
    for key in model.pairs(hour + 10).keys() {
        db.delete(key).unwrap();
    }
    db.compact().unwrap();
    settle(&db);
    db.compact().unwrap();
    assert_eq!(entries(&db), 0, "entries that are left, schedule {schedule}");
    seen
}

#[test]
fn results_do_not_depend_on_when_merges_run() {
    for seed in seeds(60) {
        let history = history(&mut Rng::new(seed));
        let mut first = None;
        for schedule in 1..6 {
            let seen = run(&history, &mut Rng::new(seed * 100 + schedule), schedule);
            assert_eq!(first.get_or_insert(seen.clone()), &seen, "seed {seed}, schedule {schedule}");
        }
    }
}
