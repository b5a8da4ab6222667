//! Runs interleaved transactions on one thread, decided by a seed, and compares them with sorted maps: what each one
//! sees, and which may commit, also when values expire meanwhile.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::time::Duration;

use super::*;
use crate::keys;
use crate::operators::{ADD, APPEND};
use crate::rng::Rng;
use crate::value::Value;

type Map = BTreeMap<(usize, Vec<u8>), Vec<u8>>;
/// The store's content, including expired values.
type Kept = BTreeMap<Place, Stored>;
/// A key of one of the trees.
type Place = (usize, Vec<u8>);
type Writes = BTreeMap<Place, Own>;

const KEYS: usize = 12;

/// A transaction's own write to a key, and the operands merged into it.
#[derive(Clone)]
struct Own {
    /// `None` if the transaction did not write it, so that the store's value counts. `Some(None)` if the key was
    /// deleted.
    given: Option<Option<Vec<u8>>>,
    /// When the written value expires, in microseconds.
    expiry: Option<u64>,
    operands: Vec<Vec<u8>>,
}

/// The store's content for a key.
#[derive(Clone, Default)]
struct Stored {
    given: Option<Vec<u8>>,
    expiry: Option<u64>,
    /// Each with the time when it was committed.
    operands: Vec<(u64, Vec<u8>)>,
}

impl Stored {
    /// Whether the written value expires between two times.
    fn lapses(&self, after: u64, until: u64) -> bool {
        self.given.is_some() && self.expiry.is_some_and(|expiry| after < expiry && expiry <= until)
    }

    /// The value of a key of tree `tree` at a time.
    fn at(&self, tree: usize, time: u64) -> Option<Vec<u8>> {
        // Operands from before an expiry end with the value; later ones begin anew.
        let (given, from) = match self.expiry.filter(|&expiry| expiry <= time) {
            Some(expiry) => (None, expiry),
            None => (self.given.clone(), 0),
        };
        let operands = self.operands.iter().filter(|(time, _)| *time >= from);
        let operands = operands.map(|(_, operand)| operand.clone()).collect();
        Own { given: Some(given), expiry: None, operands }.over(tree, None)
    }
}

fn at(kept: &Kept, time: u64) -> Map {
    kept.iter().filter_map(|(place, stored)| Some((place.clone(), stored.at(place.0, time)?))).collect()
}

impl Own {
    fn given(value: Option<Vec<u8>>) -> Own {
        Own { given: Some(value), expiry: None, operands: Vec::new() }
    }

    /// The value of a key of tree `tree` after this write, if the store holds `stored`.
    fn over(&self, tree: usize, stored: Option<&Vec<u8>>) -> Option<Vec<u8>> {
        let below = self.given.clone().unwrap_or_else(|| stored.cloned());
        self.operands.iter().fold(below, |value, operand| {
            Some(match (OPERATORS[tree], value) {
                (_, None) => operand.clone(),
                (ADD, Some(value)) => {
                    let [sum, more] = [&value, operand].map(|bytes| keys::decode_i64(bytes).unwrap());
                    keys::i64(sum.wrapping_add(more)).to_vec()
                }
                (_, Some(value)) => [value, operand.clone()].concat(),
            })
        })
    }
}

/// The merge operators of the two trees.
const OPERATORS: [&str; 2] = [APPEND, ADD];

/// The expected behaviour of a transaction.
struct Model {
    options: TxnOptions,
    txn: Txn,
    /// The store's content when it began, without its own writes.
    seen: Map,
    /// All entries of the store at that time, and the time.
    kept: Kept,
    began: u64,
    own: Writes,
    /// The keys that it relies on.
    read: BTreeSet<Place>,
    /// The keys that it relies on without having read them.
    guarded: BTreeSet<Place>,
    /// The keys that it has looked at.
    looked: BTreeSet<Place>,
    /// The keys that other transactions have written since it began.
    others: BTreeSet<Place>,
    savepoints: Vec<(Savepoint, Writes)>,
}

fn all_places() -> impl Iterator<Item = Place> {
    (0..2).flat_map(|tree| (0..KEYS).map(move |key| (tree, name(key))))
}

fn name(key: usize) -> Vec<u8> {
    format!("k{key:02}").into_bytes()
}

/// How long a value lasts, in microseconds: some steps or some hundreds.
fn ttl(rng: &mut Rng) -> u64 {
    let scale = if rng.chance(0.5) { 50 } else { 1000 };
    1 + rng.next() % scale
}

fn random_range(rng: &mut Rng) -> ScanRange {
    let mut bound = || match rng.index(3) {
        0 => Bound::Included(name(rng.index(KEYS))),
        1 => Bound::Excluded(name(rng.index(KEYS))),
        _ => Bound::Unbounded,
    };
    ScanRange::from((bound(), bound()))
}

/// A key, and the operand that is merged into it.
fn random_merge(rng: &mut Rng) -> (Place, Vec<u8>) {
    let place = (rng.index(2), name(rng.index(KEYS)));
    let len = if OPERATORS[place.0] == ADD { 8 } else { rng.index(20) };
    (place, (0..len).map(|_| rng.next() as u8).collect())
}

impl Model {
    fn relies(&self, for_update: bool) -> bool {
        for_update || self.options.isolation == Isolation::Serializable
    }

    fn view(&self) -> Map {
        let mut view = self.seen.clone();
        for (place, own) in &self.own {
            match own.over(place.0, self.seen.get(place)) {
                Some(value) => view.insert(place.clone(), value),
                None => view.remove(place),
            };
        }
        view
    }

    fn get(&mut self, trees: &[Tree; 2], rng: &mut Rng) {
        let place = (rng.index(2), name(rng.index(KEYS)));
        let for_update = rng.chance(0.3);
        let tree = &trees[place.0];
        let found =
            if for_update { self.txn.get_for_update(tree, &place.1) } else { self.txn.get(tree, &place.1) };
        assert_eq!(found.unwrap().map(|value| value.into_vec().unwrap()), self.view().get(&place).cloned());
        // A merge into a key that the transaction did not write also reads the store's value.
        if self.own.get(&place).is_none_or(|own| own.given.is_none()) {
            self.note(for_update, [place]);
        }
    }

    fn note(&mut self, for_update: bool, places: impl IntoIterator<Item = Place>) {
        let places: Vec<Place> = places.into_iter().collect();
        self.looked.extend(places.iter().cloned());
        if self.relies(for_update) {
            self.read.extend(places);
        }
    }

    fn write(&mut self, trees: &[Tree; 2], rng: &mut Rng, now: u64) {
        let place = (rng.index(2), name(rng.index(KEYS)));
        let value = rng.chance(0.7).then(|| rng.next().to_le_bytes().to_vec());
        let ttl = (value.is_some() && rng.chance(0.4)).then(|| ttl(rng));
        match (&value, ttl) {
            (Some(value), Some(ttl)) => {
                self.txn.put_for(&trees[place.0], &place.1, value, Duration::from_micros(ttl)).unwrap();
            }
            (Some(value), None) => self.txn.put(&trees[place.0], &place.1, value).unwrap(),
            (None, _) => self.txn.delete(&trees[place.0], &place.1).unwrap(),
        }
        self.own.insert(place, Own { expiry: ttl.map(|ttl| now + ttl), ..Own::given(value) });
    }

    /// Renames or copies a value, or changes its expiry.
    fn transfer(&mut self, trees: &[Tree; 2], rng: &mut Rng, now: u64) {
        let (tree, from, to) = (rng.index(2), name(rng.index(KEYS)), name(rng.index(KEYS)));
        let place = (tree, from.clone());
        let value = self.view().get(&place).cloned();
        let own = self.own.get(&place);
        let expiry = match own {
            Some(own) if own.given.is_some() => own.expiry,
            _ => {
                let stored = self.kept.get(&place).and_then(|stored| stored.expiry);
                stored.filter(|&expiry| self.began < expiry)
            }
        };
        let is_read = own.is_none_or(|own| own.given.is_none());
        let (tree, found) = (&trees[tree], value.is_some());
        match rng.index(3) {
            0 => {
                assert_eq!(self.txn.rename(tree, &from, &to).unwrap(), found);
                if found && from != to {
                    self.own.insert(place.clone(), Own::given(None));
                    self.own.insert((place.0, to), Own { expiry, ..Own::given(value) });
                }
            }
            1 => {
                assert_eq!(self.txn.copy(tree, &from, &to).unwrap(), found);
                if found && from != to {
                    self.own.insert((place.0, to), Own { expiry, ..Own::given(value) });
                }
            }
            _ => {
                let expiry = rng.chance(0.7).then(|| now + ttl(rng));
                assert_eq!(self.txn.set_expiry(tree, &from, expiry).unwrap(), found);
                if found {
                    self.own.insert(place.clone(), Own { expiry, ..Own::given(value) });
                }
            }
        }
        if is_read {
            self.note(true, [place]);
        }
    }

    fn merge(&mut self, trees: &[Tree; 2], rng: &mut Rng) {
        let (place, operand) = random_merge(rng);
        self.txn.merge(&trees[place.0], &place.1, OPERATORS[place.0], &operand).unwrap();
        let own = self.own.entry(place).or_insert(Own { given: None, expiry: None, operands: Vec::new() });
        own.operands.push(operand);
    }

    fn delete_range(&mut self, trees: &[Tree; 2], rng: &mut Rng) {
        let (tree, first) = (rng.index(2), rng.index(KEYS));
        let last = first + rng.index((KEYS - first).min(4));
        self.txn.delete_range(&trees[tree], name(first)..=name(last)).unwrap();
        for key in first..=last {
            let place = (tree, name(key));
            if self.options.isolation == Isolation::Snapshot {
                self.guarded.insert(place.clone());
            }
            self.own.insert(place, Own::given(None));
        }
    }

    /// Calls that read for update and then write.
    fn read_and_write(&mut self, trees: &[Tree; 2], rng: &mut Rng) {
        let place = (rng.index(2), name(rng.index(KEYS)));
        let (tree, key, value) = (&trees[place.0], &place.1, rng.next().to_le_bytes().to_vec());
        let before = self.view().get(&place).cloned();
        if self.own.get(&place).is_none_or(|own| own.given.is_none()) {
            self.note(true, [place.clone()]);
        }
        let bytes = |found: Option<Value>| found.map(|value| value.into_vec().unwrap());
        let after = match rng.index(4) {
            0 => {
                assert_eq!(bytes(self.txn.insert(tree, key, &value).unwrap()), before);
                Some(value)
            }
            1 => {
                assert_eq!(bytes(self.txn.remove(tree, key).unwrap()), before);
                None
            }
            2 => {
                assert_eq!(bytes(self.txn.put_if_absent(tree, key, &value).unwrap()), before);
                Some(before.clone().unwrap_or(value))
            }
            _ => {
                let after = rng.chance(0.5).then_some(value);
                let change = |old: Option<&[u8]>| {
                    assert_eq!(old, before.as_deref());
                    after.clone()
                };
                assert_eq!(self.txn.update(tree, key, change).unwrap(), after);
                after
            }
        };
        // A value that is as it was may expire as before, and an absent key stays unwritten.
        if before != after {
            self.own.insert(place, Own::given(after));
        }
    }

    fn pop(&mut self, trees: &[Tree; 2], rng: &mut Rng) {
        let (index, last) = (rng.index(2), rng.chance(0.5));
        let tree = &trees[index];
        let view = self.view();
        let mut pairs = view.iter().filter(|(place, _)| place.0 == index);
        let expected = if last { pairs.next_back() } else { pairs.next() };
        let found = if last { self.txn.pop_last(tree) } else { self.txn.pop_first(tree) };
        let found = found.unwrap().map(|(key, value)| ((index, key), value.into_vec().unwrap()));
        assert_eq!(found.as_ref().map(|(place, value)| (place, value)), expected);
        let passed = |place: &Place| match &found {
            Some((end, _)) => {
                if last {
                    place >= end
                } else {
                    place <= end
                }
            }
            None => true,
        };
        self.note(true, all_places().filter(|place| place.0 == index && passed(place)));
        if let Some((place, _)) = found {
            self.own.insert(place, Own::given(None));
        }
    }

    /// A range from both ends in turns.
    fn range(&mut self, trees: &[Tree; 2], rng: &mut Rng) {
        let (index, for_update) = (rng.index(2), rng.chance(0.3));
        let range = random_range(rng);
        let within = |place: &Place| place.0 == index && range.keys.contains(&place.1);
        let mut expected: VecDeque<_> = self.view().into_iter().filter(|(place, _)| within(place)).collect();
        let places: Vec<Place> = all_places().filter(|place| within(place)).collect();
        let tree = &trees[index];
        let pairs =
            if for_update { self.txn.range_for_update(tree, range) } else { self.txn.range(tree, range) };
        let mut pairs = pairs.unwrap();
        let (mut front, mut back, mut is_over) = (None, None, false);
        for _ in 0..rng.index(8) {
            let from_back = rng.chance(0.5);
            let found = if from_back { pairs.next_back() } else { pairs.next() };
            let wanted = if from_back { expected.pop_back() } else { expected.pop_front() };
            assert_eq!(found.map(Result::unwrap).map(|(key, value)| ((index, key), value)), wanted);
            match wanted {
                None => is_over = true,
                Some((place, _)) if from_back => back = Some(place),
                Some((place, _)) => front = Some(place),
            }
        }
        drop(pairs);
        let passed = |place: &Place| {
            is_over
                || front.as_ref().is_some_and(|end| place <= end)
                || back.as_ref().is_some_and(|end| place >= end)
        };
        self.note(for_update, places.into_iter().filter(passed));
    }

    fn scan(&mut self, trees: &[Tree; 2], rng: &mut Rng) {
        let (index, for_update) = (rng.index(2), rng.chance(0.3));
        let range = random_range(rng);
        let within = |place: &Place| place.0 == index && range.keys.contains(&place.1);
        let mut expected: Vec<_> = self.view().into_iter().filter(|(place, _)| within(place)).collect();
        let mut walked: Vec<Place> = all_places().filter(|place| within(place)).collect();
        let reverse = rng.chance(0.5);
        if reverse {
            expected.reverse();
            walked.reverse();
        }
        let count = if rng.chance(0.5) { usize::MAX } else { rng.index(4) };
        let range = if reverse { range.reverse() } else { range };
        let tree = &trees[index];
        let scan =
            if for_update { self.txn.scan_for_update(tree, range) } else { self.txn.scan(tree, range) };
        let found: Vec<_> = scan
            .unwrap()
            .take(count)
            .map(|pair| pair.map(|(key, value)| ((index, key), value)).unwrap())
            .collect();
        assert_eq!(found, expected.iter().take(count).cloned().collect::<Vec<_>>());
        if count > 0 {
            // The scan has read as far as the last pair that was requested.
            let end = if count <= expected.len() { Some(&expected[count - 1].0) } else { None };
            let len =
                end.map_or(walked.len(), |end| walked.iter().position(|place| place == end).unwrap() + 1);
            self.note(for_update, walked.into_iter().take(len));
        }
    }

    fn back_or_forth(&mut self, rng: &mut Rng) {
        if rng.chance(0.6) || self.savepoints.is_empty() {
            self.savepoints.push((self.txn.savepoint(), self.own.clone()));
        } else {
            let at = rng.index(self.savepoints.len());
            self.savepoints.truncate(at + 1);
            self.txn.rollback_to(self.savepoints[at].0).unwrap();
            self.own = self.savepoints[at].1.clone();
        }
    }

    fn should_commit(&self, now: u64) -> bool {
        let written = |place: &Place| self.others.contains(place);
        let expired =
            |place: &Place| self.kept.get(place).is_some_and(|stored| stored.lapses(self.began, now));
        let lost = |place: &Place| written(place) || (self.looked.contains(place) && expired(place));
        let is_lost = self.options.isolation == Isolation::Snapshot && self.own.keys().any(lost);
        let is_lost = is_lost || self.guarded.iter().any(written);
        self.own.is_empty() || !(is_lost || self.read.iter().any(|place| written(place) || expired(place)))
    }
}

/// One store and its open transactions.
struct World {
    db: Db,
    trees: [Tree; 2],
    clock: Arc<ManualClock>,
    now: Kept,
    open: Vec<Model>,
    commits: [u64; 2],
    /// Conflicts caused only by the passing of time.
    expired: u64,
}

impl World {
    fn begin(&mut self, rng: &mut Rng) {
        let options = options(TxnMode::Optimistic, LEVELS[rng.index(2)]);
        self.open.push(Model {
            txn: self.db.begin(options).unwrap(),
            options,
            seen: at(&self.now, self.clock.monotonic_us()),
            kept: self.now.clone(),
            began: self.clock.monotonic_us(),
            own: BTreeMap::new(),
            read: BTreeSet::new(),
            guarded: BTreeSet::new(),
            looked: BTreeSet::new(),
            others: BTreeSet::new(),
            savepoints: Vec::new(),
        });
    }

    fn note(&mut self, writes: Writes) {
        let now = self.clock.monotonic_us();
        for (place, own) in writes {
            self.open.iter_mut().for_each(|model| model.others.extend([place.clone()]));
            let stored = self.now.entry(place).or_default();
            if let Some(given) = own.given {
                *stored = Stored { given, expiry: own.expiry, operands: Vec::new() };
            }
            stored.operands.extend(own.operands.into_iter().map(|operand| (now, operand)));
        }
    }

    fn end(&mut self, rng: &mut Rng) {
        let model = self.open.swap_remove(rng.index(self.open.len()));
        if rng.chance(0.1) {
            return;
        }
        let now = self.clock.monotonic_us();
        let should = model.should_commit(now);
        self.expired += u64::from(should != model.should_commit(model.began) && !should);
        let committed = model.txn.commit();
        assert_eq!(outcome(committed), if should { "done" } else { "conflict" });
        self.commits[usize::from(should)] += 1;
        if should {
            self.note(model.own);
        }
    }

    fn step(&mut self, rng: &mut Rng) {
        self.clock.sleep(Duration::from_micros(rng.next() % 10));
        match rng.index(40) {
            0..4 if self.open.len() < 4 => self.begin(rng),
            4..7 if !self.open.is_empty() => self.end(rng),
            7..9 => {
                let place = (rng.index(2), name(rng.index(KEYS)));
                let value = rng.chance(0.6).then(|| rng.next().to_le_bytes().to_vec());
                let ttl = (value.is_some() && rng.chance(0.5)).then(|| ttl(rng));
                let tree = &self.trees[place.0];
                match (&value, ttl) {
                    (Some(value), Some(ttl)) => {
                        tree.put_for(&place.1, value, Duration::from_micros(ttl)).unwrap();
                    }
                    (Some(value), None) => tree.put(&place.1, value).unwrap(),
                    (None, _) => tree.delete(&place.1).unwrap(),
                }
                let expiry = ttl.map(|ttl| self.clock.monotonic_us() + ttl);
                self.note(BTreeMap::from([(place, Own { expiry, ..Own::given(value) })]));
            }
            9 if rng.chance(0.5) => {
                let (place, operand) = random_merge(rng);
                self.trees[place.0].merge(&place.1, OPERATORS[place.0], &operand).unwrap();
                self.note(BTreeMap::from([(
                    place,
                    Own { given: None, expiry: None, operands: vec![operand] },
                )]));
            }
            9 if rng.chance(0.5) => self.db.flush().unwrap(),
            9 if rng.chance(0.5) => self.db.compact().unwrap(),
            10.. if !self.open.is_empty() => {
                let index = rng.index(self.open.len());
                let (model, trees, now) = (&mut self.open[index], &self.trees, self.clock.monotonic_us());
                match rng.index(8) {
                    0..3 if rng.chance(0.1) => model.delete_range(trees, rng),
                    0..3 => model.get(trees, rng),
                    3..5 if rng.chance(0.4) => model.merge(trees, rng),
                    3..5 if rng.chance(0.2) => model.transfer(trees, rng, now),
                    3..5 if rng.chance(0.2) => model.read_and_write(trees, rng),
                    3..5 if rng.chance(0.1) => model.pop(trees, rng),
                    3..5 => model.write(trees, rng, now),
                    5..7 if rng.chance(0.4) => model.range(trees, rng),
                    5..7 => model.scan(trees, rng),
                    _ => model.back_or_forth(rng),
                }
            }
            _ => {}
        }
    }
}

#[test]
fn interleaved_transactions_agree_with_sorted_maps() {
    let (mut commits, mut expired) = ([0; 2], 0);
    for seed in 0..80 {
        println!("seed {seed}");
        let (db, clock) = still_store_and_clock();
        let trees = ["a", "b"].map(|name| db.tree(name).unwrap());
        let mut world =
            World { db, trees, clock, now: Kept::new(), open: Vec::new(), commits: [0; 2], expired: 0 };
        let mut rng = Rng::new(seed);
        for _ in 0..600 {
            world.step(&mut rng);
        }
        let found = (0..2).flat_map(|tree| {
            let pairs = world.trees[tree].scan(ScanRange::all()).unwrap();
            pairs.map(move |pair| pair.map(|(key, value)| ((tree, key), value)).unwrap())
        });
        assert_eq!(found.collect::<Map>(), at(&world.now, world.clock.monotonic_us()));
        expired += world.expired;
        commits.iter_mut().zip(world.commits).for_each(|(sum, count)| *sum += count);
    }
    // There are enough of both to distinguish them.
    assert!(commits.iter().all(|&count| count > 100) && expired > 10, "{commits:?} {expired}");
}
