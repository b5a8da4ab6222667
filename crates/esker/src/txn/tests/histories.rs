//! Runs random transactions from several threads over few keys of two trees, together with plain writes, flushes and
//! merges; [`checker`](super::checker) judges the reads and writes of each. Some writes append to a value without
//! reading it. A value is therefore a list of numbers: the last one identifies its writer, and the numbers before it
//! are the value that it was appended to.
//!
//! Time passes meanwhile. No transaction deletes a value that expires. If a reader finds that it is gone, the history
//! gets a delete after the value's own write, with no place among the other writes.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use super::checker::{Node, Version, judge};
use super::*;
use crate::env::Env;
use crate::operators::APPEND;
use crate::rng::Rng;

/// Keys of each of the two trees.
const KEYS: usize = 4;

/// A clock that advances by the time that threads have waited, and when a test moves it. A test that is delayed
/// therefore does not time out.
#[derive(Debug, Default)]
struct WaitingClock(AtomicU64);

impl WaitingClock {
    fn pass(&self, us: u64) {
        self.0.fetch_add(us, Ordering::Relaxed);
    }
}

impl Clock for WaitingClock {
    fn wall_us(&self) -> u64 {
        self.monotonic_us()
    }

    fn monotonic_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn sleep(&self, duration: Duration) {
        std::thread::park_timeout(duration.min(Duration::from_micros(100)));
        self.0.fetch_add(duration.as_micros() as u64, Ordering::Relaxed);
    }
}

/// Which writers take part in a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Company {
    Optimistic,
    /// Only pessimistic transactions: they never conflict when serializable.
    Pessimistic,
    /// Both kinds, plain puts, batches, reads of snapshots, flushes and merges.
    All,
}

/// The results of one or more histories.
#[derive(Debug, Default)]
struct Tally {
    commits: u64,
    conflicts: u64,
    /// Conflicts that the passing of time caused.
    expiries: u64,
    deadlocks: u64,
    skewed: u64,
}

/// A store in which one history after the other runs.
struct Place {
    db: Db,
    store: Arc<crate::store::Owner>,
    trees: [Tree; 2],
    clock: Arc<WaitingClock>,
}

/// One history.
struct History<'a> {
    place: &'a Place,
    number: u64,
    isolation: Isolation,
    company: Company,
    next_value: AtomicU64,
    /// At most one write deletes each key or gives it a time to live. This shows which write made the key absent.
    deleted: [AtomicBool; 2 * KEYS],
    /// The values that expire, by key.
    expiring: parking_lot::Mutex<BTreeMap<usize, u64>>,
    /// Numbers that were appended, each with the writer's own earlier version of the key; `None` if it had none.
    appended: parking_lot::Mutex<BTreeMap<u64, Option<Version>>>,
    tally: parking_lot::Mutex<Tally>,
}

/// A transaction's reads and writes so far.
#[derive(Default)]
struct Notes {
    reads: Vec<(usize, Version)>,
    own: BTreeMap<usize, Own>,
}

/// The effect of a transaction or batch on a key.
#[derive(Clone, Copy)]
struct Own {
    version: Version,
    /// How many numbers of the list are its own, and whether the numbers before them come from the store.
    numbers: usize,
    on_store: bool,
}

impl Own {
    fn given(version: Version) -> Own {
        Own { version, numbers: usize::from(version.is_some()), on_store: false }
    }
}

fn decode(value: Option<&[u8]>) -> Vec<u64> {
    let (numbers, rest) = value.unwrap_or_default().as_chunks();
    assert_eq!(rest, []);
    numbers.iter().map(|number| u64::from_le_bytes(*number)).collect()
}

fn last_of(value: Option<&[u8]>) -> Version {
    decode(value).last().copied()
}

impl History<'_> {
    /// Keys 0 to `KEYS` of the first tree, then those of the second. Even keys exist from the beginning and may be
    /// deleted; odd ones do not exist at first.
    fn key(&self, key: usize) -> (&Tree, Vec<u8>) {
        (&self.place.trees[key / KEYS], format!("{}/{}", self.number, key % KEYS).into_bytes())
    }

    fn fresh(&self) -> u64 {
        self.next_value.fetch_add(1, Ordering::Relaxed)
    }

    /// A new value or, rarely, `None`.
    fn choose_version(&self, rng: &mut Rng, key: usize) -> Version {
        let delete =
            key.is_multiple_of(2) && rng.chance(0.1) && !self.deleted[key].swap(true, Ordering::Relaxed);
        (!delete).then(|| self.fresh())
    }

    /// Whether `key` may get a value that expires. No write appends to such keys.
    fn may_expire(key: usize) -> bool {
        key.is_multiple_of(4)
    }

    /// How long `value` of `key` is to last; `None`: permanently.
    fn choose_ttl(&self, rng: &mut Rng, key: usize, value: u64) -> Option<Duration> {
        let expires =
            Self::may_expire(key) && rng.chance(0.5) && !self.deleted[key].swap(true, Ordering::Relaxed);
        expires.then(|| {
            self.expiring.lock().insert(key, value);
            Duration::from_micros(20 + rng.next() % 400)
        })
    }

    fn begin(&self, rng: &mut Rng) -> Vec<Node> {
        let mut writes = Vec::new();
        for key in 0..2 * KEYS {
            let version = (key.is_multiple_of(2)).then(|| self.fresh());
            if let Some(value) = version {
                let (tree, name) = self.key(key);
                match self.choose_ttl(rng, key, value) {
                    Some(ttl) => tree.put_for(name, value.to_le_bytes(), ttl).unwrap(),
                    None => tree.put(name, value.to_le_bytes()).unwrap(),
                }
            }
            writes.push((key, version));
        }
        vec![Node { place: Some(0), writes, ..Node::default() }]
    }

    fn note_read(notes: &mut Notes, key: usize, found: Option<&[u8]>) {
        let found = decode(found);
        let own = notes.own.get(&key).copied().unwrap_or(Own { version: None, numbers: 0, on_store: true });
        if own.numbers > 0 || !own.on_store {
            assert_eq!(own.version, found.last().copied(), "an own write of key {key}");
        }
        let below = found.len().checked_sub(own.numbers).expect("what was appended to something lies on it");
        match own.on_store {
            true => notes.reads.push((key, found[..below].last().copied())),
            false => assert_eq!(below, 0, "an own write of key {key}"),
        }
    }

    /// Records that `value` was appended to `key`.
    fn note_appended(&self, own: &mut BTreeMap<usize, Own>, key: usize, value: u64) {
        let before = own.get(&key).copied();
        self.appended.lock().insert(value, before.map(|before| before.version));
        let before = before.unwrap_or(Own { version: None, numbers: 0, on_store: true });
        own.insert(key, Own { version: Some(value), numbers: before.numbers + 1, ..before });
    }

    /// The list that ends with `version`, which was written over `stored`.
    fn list(&self, version: Version, stored: &[u64]) -> Vec<u64> {
        let Some(value) = version else { return Vec::new() };
        let before = self.appended.lock().get(&value).copied();
        let mut list = match before {
            None => Vec::new(),
            Some(None) => stored.to_vec(),
            Some(Some(own)) => self.list(own, stored),
        };
        list.push(value);
        list
    }

    fn put(&self, txn: &Txn, rng: &mut Rng, notes: &mut Notes, key: usize) -> Result<()> {
        let version = self.choose_version(rng, key);
        let (tree, name) = self.key(key);
        match version {
            Some(value) if rng.chance(0.4) && !Self::may_expire(key) => {
                txn.append(tree, name, value.to_le_bytes())?;
                self.note_appended(&mut notes.own, key, value);
                return Ok(());
            }
            Some(value) => match self.choose_ttl(rng, key, value) {
                Some(ttl) => txn.put_for(tree, name, value.to_le_bytes(), ttl)?,
                None => txn.put(tree, name, value.to_le_bytes())?,
            },
            None => txn.delete(tree, name)?,
        }
        notes.own.insert(key, Own::given(version));
        Ok(())
    }

    fn scan(&self, txn: &Txn, rng: &mut Rng, notes: &mut Notes) -> Result<()> {
        let first = rng.index(2 * KEYS);
        let last = first + rng.index(KEYS - first % KEYS);
        let (tree, lower) = self.key(first);
        let (_, upper) = self.key(last);
        let reverse = rng.chance(0.5);
        let range = ScanRange::from(lower..=upper);
        let range = if reverse { range.reverse() } else { range };
        let mut scan =
            if rng.chance(0.2) { txn.scan_for_update(tree, range)? } else { txn.scan(tree, range)? };
        let mut stop = if rng.chance(0.3) { rng.index(3) } else { usize::MAX };
        let mut walked: Vec<usize> = (first..=last).collect();
        if reverse {
            walked.reverse();
        }
        // A key that the scan passes over is absent.
        let mut walked = walked.into_iter();
        while stop > 0 && scan.advance()? {
            let found = scan.key().to_vec();
            let key = walked.by_ref().find(|&key| {
                let here = self.key(key).1 == found;
                if !here {
                    Self::note_read(notes, key, None);
                }
                here
            });
            let key = key.expect("keys in order, each once");
            Self::note_read(notes, key, Some(scan.value()?));
            stop -= 1;
        }
        if stop > 0 {
            walked.for_each(|key| Self::note_read(notes, key, None));
        }
        Ok(())
    }

    fn work(&self, txn: &Txn, rng: &mut Rng) -> Result<Notes> {
        let mut notes = Notes::default();
        let mut savepoint = None;
        for _ in 0..2 + rng.index(5) {
            let key = rng.index(2 * KEYS);
            let (tree, name) = self.key(key);
            match rng.index(20) {
                0..6 => Self::note_read(&mut notes, key, txn.get_vec(tree, name)?.as_deref()),
                6..8 => {
                    let found = txn.get_for_update(tree, name)?.map(|value| value.into_vec().unwrap());
                    Self::note_read(&mut notes, key, found.as_deref());
                }
                8..14 => self.put(txn, rng, &mut notes, key)?,
                14..18 => self.scan(txn, rng, &mut notes)?,
                18 => savepoint = Some((txn.savepoint(), notes.own.clone())),
                _ => {
                    if let Some((point, own)) = &savepoint {
                        txn.rollback_to(*point)?;
                        notes.own.clone_from(own);
                    }
                }
            }
            if rng.chance(0.5) {
                std::thread::yield_now();
            }
            self.place.clock.pass(rng.next() % 20);
        }
        Ok(notes)
    }

    /// Runs a transaction; returns its reads and writes if it committed.
    fn transaction(&self, rng: &mut Rng) -> Option<Node> {
        let mode = match self.company {
            Company::Optimistic => TxnMode::Optimistic,
            Company::Pessimistic => TxnMode::Pessimistic,
            Company::All => MODES[rng.index(2)],
        };
        let options = options(mode, self.isolation).lock_timeout(Duration::from_secs(600));
        let txn = self.place.db.begin(options).unwrap();
        let done = self.work(&txn, rng).and_then(|notes| {
            if rng.chance(0.05) {
                txn.rollback();
                return Ok(None);
            }
            Ok(Some((txn.commit_at()?, notes)))
        });
        let mut tally = self.tally.lock();
        match done.map_err(|error| (error.kind(), error)) {
            Ok(None) => None,
            Ok(Some((place, notes))) => {
                tally.commits += 1;
                let writes = written(notes.own);
                assert_eq!(place.is_some(), !writes.is_empty());
                Some(Node { place, reads: notes.reads, writes, ..Node::default() })
            }
            Err((ErrorKind::Conflict, error)) => {
                let alone = self.company == Company::Pessimistic && self.isolation == Isolation::Serializable;
                let has_expired = error.message().contains("has expired");
                assert!(!alone || has_expired, "locks did not keep it as it was: {error}");
                tally.expiries += u64::from(has_expired);
                tally.conflicts += 1;
                None
            }
            Err((ErrorKind::Deadlock, _)) if mode == TxnMode::Pessimistic => {
                tally.deadlocks += 1;
                None
            }
            Err((_, error)) => panic!("{error:?}"),
        }
    }

    /// Writes and reads outside of transactions.
    fn plain(&self, rng: &mut Rng) -> Option<Node> {
        if rng.chance(0.3) {
            let (snapshot, mut node) = (self.place.db.snapshot(), Node::default());
            for key in (0..2 * KEYS).filter(|_| rng.chance(0.5)) {
                let (tree, name) = self.key(key);
                let found = snapshot.get_vec(tree, name).unwrap();
                node.reads.push((key, last_of(found.as_deref())));
                std::thread::yield_now();
            }
            return Some(node);
        }
        let mut batch = Batch::new();
        let mut own = BTreeMap::new();
        for _ in 0..1 + rng.index(3) {
            let key = rng.index(2 * KEYS);
            let version = self.choose_version(rng, key);
            let (tree, name) = self.key(key);
            match version {
                Some(value) if rng.chance(0.4) && !Self::may_expire(key) => {
                    batch.merge(tree, name, APPEND, value.to_le_bytes()).unwrap();
                    self.note_appended(&mut own, key, value);
                    continue;
                }
                Some(value) => match self.choose_ttl(rng, key, value) {
                    Some(ttl) => batch.put_for(tree, name, value.to_le_bytes(), ttl).unwrap(),
                    None => batch.put(tree, name, value.to_le_bytes()).unwrap(),
                },
                None => batch.delete(tree, name).unwrap(),
            }
            own.insert(key, Own::given(version));
        }
        let store = &self.place.store;
        let place = store.writes().write_if(&batch, store.options().durability, None).unwrap();
        Some(Node { place, writes: written(own), ..Node::default() })
    }

    fn session(&self, session: usize, seed: u64) -> Vec<Node> {
        let mut rng = Rng::new(seed);
        let mut nodes = Vec::new();
        for _ in 0..2 + rng.index(4) {
            let plain = self.company == Company::All && rng.chance(0.3);
            if plain && rng.chance(0.02) {
                self.place.db.flush().unwrap();
            }
            if plain && rng.chance(0.01) {
                self.place.db.compact().unwrap();
            }
            let node = if plain { self.plain(&mut rng) } else { self.transaction(&mut rng) };
            nodes.extend(node.map(|node| Node { session, ..node }));
        }
        nodes
    }

    /// Adds the expiries that readers have observed, each after the write of its value.
    fn add_expiries(&self, nodes: &mut Vec<Node>) {
        nodes.iter_mut().for_each(|node| node.place = node.place.map(|place| 2 * place));
        for (&key, &value) in &*self.expiring.lock() {
            let wrote = |version| move |node: &&Node| node.writes.contains(&(key, version));
            let place = nodes.iter().find(wrote(Some(value))).and_then(|node| node.place);
            let deleted = nodes.iter().any(|node| wrote(None)(&node));
            let is_missed = nodes.iter().any(|node| node.reads.contains(&(key, None)));
            if let Some(place) = place.filter(|_| is_missed && !deleted) {
                let (session, writes) = (usize::MAX - key, vec![(key, None)]);
                let expiry =
                    Node { session, place: Some(place + 1), writes, is_expiry: true, ..Node::default() };
                nodes.push(expiry);
            }
        }
    }

    fn run(&self, seed: u64) {
        let mut rng = Rng::new(seed);
        let mut nodes = self.begin(&mut rng);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (1..=2 + rng.index(7))
                .map(|session| {
                    let seed = rng.next();
                    scope.spawn(move || self.session(session, seed))
                })
                .collect();
            for thread in threads {
                nodes.extend(thread.join().unwrap());
            }
        });
        self.add_expiries(&mut nodes);
        if let Err(found) = judge(&nodes, self.isolation) {
            panic!("seed {seed}, {:?}, {:?}: {found}", self.isolation, self.company);
        }
        self.tally.lock().skewed += u64::from(judge(&nodes, Isolation::Serializable).is_err());
        // The final value must be the result of each key's writers, one after the other.
        for key in 0..2 * KEYS {
            let writes = nodes.iter().filter_map(|node| {
                let (_, version) = node.writes.iter().find(|(written, _)| *written == key)?;
                Some((node.place, *version))
            });
            let mut writes: Vec<_> = writes.collect();
            writes.sort_unstable();
            let list = writes.iter().fold(Vec::new(), |stored, (_, version)| self.list(*version, &stored));
            let (tree, name) = self.key(key);
            let found = tree.get_vec(name).unwrap();
            // The value may have expired without any reader noticing.
            let may_be_gone = list.last().copied() == self.expiring.lock().get(&key).copied();
            assert!(
                decode(found.as_deref()) == list || (found.is_none() && may_be_gone),
                "seed {seed}, key {key}: {found:?} for {list:?}"
            );
        }
    }
}

fn written(own: BTreeMap<usize, Own>) -> Vec<(usize, Version)> {
    own.into_iter().map(|(key, own)| (key, own.version)).collect()
}

/// Runs `count` histories of one kind; `count` is small enough for one store.
fn histories(count: u64, isolation: Isolation, company: Company, total: &mut Tally) {
    let clock = Arc::new(WaitingClock::default());
    let env = Env { clock: Arc::<WaitingClock>::clone(&clock), ..Env::system() };
    let db = Db::open_in_memory(Options::default().memory_budget(8 << 20).env(env)).unwrap();
    let trees = ["a", "b"].map(|name| db.tree(name).unwrap());
    let store = Arc::clone(&db.begin(TxnOptions::default()).unwrap().store);
    let place = Place { db, store, trees, clock };
    let first = test_kit::seed(0);
    for number in 0..count {
        let history = History {
            place: &place,
            number,
            isolation,
            company,
            next_value: AtomicU64::new(0),
            deleted: std::array::from_fn(|_| AtomicBool::new(false)),
            expiring: parking_lot::Mutex::default(),
            appended: parking_lot::Mutex::default(),
            tally: parking_lot::Mutex::default(),
        };
        history.run((first + number) * 6 + isolation as u64 * 3 + company as u64);
        let tally = history.tally.into_inner();
        total.commits += tally.commits;
        total.conflicts += tally.conflicts;
        total.expiries += tally.expiries;
        total.deadlocks += tally.deadlocks;
        total.skewed += tally.skewed;
    }
    assert!(place.db.begin(TxnOptions::default()).unwrap().locks.nobody_holds_any());
}

/// 4,000 histories at full effort: enough of them hit the window between the two checks of a commit.
fn all_company(isolation: Isolation) -> Tally {
    let mut total = Tally::default();
    histories(test_kit::cases(1500), isolation, Company::Optimistic, &mut total);
    histories(test_kit::cases(500), isolation, Company::Pessimistic, &mut total);
    histories(test_kit::cases(2000), isolation, Company::All, &mut total);
    println!("{isolation:?}: {total:?}");
    // Transactions that never conflict would prove nothing.
    let conflicts = total.conflicts > total.expiries && total.expiries > 0;
    assert!(!test_kit::is_full_run() || total.commits > 0 && conflicts && total.deadlocks > 0, "{total:?}");
    total
}

#[test]
fn random_histories_are_serializable() {
    all_company(Isolation::Serializable);
}

#[test]
fn random_histories_are_of_snapshot_isolation_and_some_are_skewed() {
    let total = all_company(Isolation::Snapshot);
    assert!(!test_kit::is_full_run() || total.skewed > 0, "{total:?}");
}
