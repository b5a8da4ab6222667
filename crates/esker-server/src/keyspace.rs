//! How many keys each database has, for `INFO`: exactly up to some ten thousand, and within some per cent beyond.
//!
//! A write does not read what it overwrites, so it does not know whether its key is new, and no counter can follow it. A
//! sample can: of all keys, those whose hash ends with so many zero bits.
//!
//! ```text
//! commit --note--> hash of the key --ends with `shift` zero bits?--> the sample: hash, and when the key expires
//!                                                                       |
//! INFO: how many are in the sample, times 2^shift                       | more than KEPT_MAX: one bit more,
//!                                                                       v about half of them go
//! ```
//! As long as `shift` is 0, the sample has all keys. Otherwise it has KEPT_MIN to KEPT_MAX of them, so that its standard
//! deviation is about 1 %. Keys that expire have a sample of their own: they may be few among many. If a sample becomes
//! smaller than KEPT_MIN because keys go, or if a database had keys when the server began, the next `INFO` has the server
//! walk over the database once. Commits go on meanwhile: what they note counts, and of the other keys what the walk finds.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use esker::ScanRange;
use esker_redis::{Entry, Op, Space, Writes};
use tokio::sync::Notify;
use twox_hash::XxHash3_64;

use crate::figures::add;
use crate::server::Server;
use crate::trees::Trees;

/// The most keys of a sample, and the fewest if it has not all.
const KEPT_MAX: usize = 32 << 10;
const KEPT_MIN: usize = KEPT_MAX / 4;

/// The most hashes of keys that are written during a walk: 8 MiB. Few keys that expire, among many that are written, still have
/// a sample then.
const WRITTEN_MAX: usize = 16 * KEPT_MAX;

/// How many keys are walked over before others have the thread of the pool.
const AT_ONCE: usize = 50_000;

/// How long `INFO` waits for a walk that has begun. Later ones do not wait, until it has ended; and a walk of this length
/// begins to rest after each piece for as long as that took.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many times as long as a long walk took no other one begins, and how long after one that has failed.
const RESTS: u32 = 20;
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Hashes keys by XXH3, which takes a fifth of the work of the standard library's hash. The random seed does not protect against
/// clients that search for keys with equal hashes. Such clients get a wrong count of keys, and slow down hash tables of at most
/// [`KEPT_MAX`] entries.
#[derive(Clone, Copy)]
struct KeyHash {
    seed: u64,
}

impl KeyHash {
    fn new() -> KeyHash {
        KeyHash { seed: RandomState::new().hash_one(0) }
    }

    #[inline]
    fn of(self, key: &[u8]) -> u64 {
        XxHash3_64::oneshot_with_seed(self.seed, key)
    }
}

/// The hasher of numbers that are hashes.
#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = (self.0 << 8) | u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        // The last bits of a sample are alike, and a table looks at these first.
        self.0 = hash.rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Plain = BuildHasherDefault<Same>;

fn belongs(hash: u64, shift: u32) -> bool {
    hash.trailing_zeros() >= shift
}

/// A sample of keys.
struct Sample {
    shift: u32,
    hashes: HashSet<u64, Plain>,
    /// The most hashes.
    most: usize,
}

impl Default for Sample {
    fn default() -> Sample {
        Sample::of_at_most(KEPT_MAX)
    }
}

impl Sample {
    fn of_at_most(most: usize) -> Sample {
        Sample { shift: 0, hashes: HashSet::default(), most }
    }

    fn insert(&mut self, hash: u64) {
        if belongs(hash, self.shift) && self.hashes.insert(hash) && self.hashes.len() > self.most {
            self.coarsen(self.shift + 1);
        }
    }

    /// Leaves out what does not belong to a sample with this shift.
    fn coarsen(&mut self, shift: u32) {
        if shift > self.shift {
            self.shift = shift;
            self.hashes.retain(|hash| belongs(*hash, shift));
        }
    }

    fn count(&self) -> u64 {
        (self.hashes.len() as u64) << self.shift
    }

    fn is_too_small(&self) -> bool {
        self.shift > 0 && self.hashes.len() < KEPT_MIN
    }
}

/// A sample of keys that expire, with their times in microseconds since 1970.
#[derive(Default)]
struct Expiring {
    sample: Sample,
    times: HashMap<u64, u64, Plain>,
    by_time: BTreeSet<(u64, u64)>,
    sum_us: u128,
}

impl Expiring {
    fn insert(&mut self, hash: u64, expires_us: u64) {
        self.remove(hash);
        if !belongs(hash, self.sample.shift) {
            return;
        }
        self.times.insert(hash, expires_us);
        self.by_time.insert((expires_us, hash));
        self.sum_us += u128::from(expires_us);
        let before = self.sample.shift;
        self.sample.insert(hash);
        if self.sample.shift != before {
            self.follow();
        }
    }

    /// Returns when the key expires that goes.
    fn remove(&mut self, hash: u64) -> Option<u64> {
        // Mostly there are none.
        let expires_us = if self.times.is_empty() { None } else { self.times.remove(&hash) }?;
        self.sample.hashes.remove(&hash);
        self.by_time.remove(&(expires_us, hash));
        self.sum_us -= u128::from(expires_us);
        Some(expires_us)
    }

    fn coarsen(&mut self, shift: u32) {
        self.sample.coarsen(shift);
        self.follow();
    }

    /// Leaves out the times of those that are not in the sample any more.
    fn follow(&mut self) {
        let gone: Vec<u64> =
            self.times.keys().copied().filter(|hash| !self.sample.hashes.contains(hash)).collect();
        for hash in gone {
            self.remove(hash);
        }
    }

    /// Takes out those that have expired. Returns how many keys they stand for.
    fn take_expired(&mut self, now_us: u64) -> u64 {
        let mut expired = 0;
        while let Some((_, hash)) = self.by_time.first().copied().filter(|(us, _)| *us <= now_us) {
            self.remove(hash);
            expired += 1 << self.sample.shift;
        }
        expired
    }

    /// How long they have left on average, in milliseconds.
    fn left_ms(&self, now_us: u64) -> u64 {
        let count = self.times.len() as u128;
        let mean_us = self.sum_us.checked_div(count).unwrap_or(0) as u64;
        mean_us.saturating_sub(now_us) / 1000
    }
}

/// The keys of a database.
#[derive(Default)]
struct Counts {
    lasting: Sample,
    expiring: Expiring,
}

impl Counts {
    /// The key is there, and expires at a time if there is one. Returns how many keys have expired before.
    fn put(&mut self, hash: u64, expires_us: Option<u64>, now_us: u64) -> u64 {
        match expires_us {
            None => {
                let expired = self.forget_expiring(hash, now_us);
                self.lasting.insert(hash);
                expired
            }
            Some(expires_us) => {
                self.lasting.hashes.remove(&hash);
                let mut expired = self.forget_expiring(hash, now_us);
                if self.expiring.times.len() == KEPT_MAX {
                    expired += self.expiring.take_expired(now_us);
                }
                self.expiring.insert(hash, expires_us);
                expired
            }
        }
    }

    /// The key has gone.
    fn remove(&mut self, hash: u64, now_us: u64) -> u64 {
        self.lasting.hashes.remove(&hash);
        self.forget_expiring(hash, now_us)
    }

    fn forget_expiring(&mut self, hash: u64, now_us: u64) -> u64 {
        let had = self.expiring.remove(hash);
        if had.is_some_and(|us| us <= now_us) { 1 << self.expiring.sample.shift } else { 0 }
    }

    /// Whether a key with this hash is in a sample if it is there.
    fn is_about(&self, hash: u64) -> bool {
        belongs(hash, self.lasting.shift.min(self.expiring.sample.shift))
    }

    fn is_too_small(&self) -> bool {
        self.lasting.is_too_small() || self.expiring.sample.is_too_small()
    }
}

/// The keys that were written since some time, for a walk over the others.
struct Since {
    counts: Counts,
    /// Those that were put or deleted. What a walk finds counts as far as this sample has not left out its hash.
    written: Sample,
}

impl Default for Since {
    fn default() -> Since {
        Since { counts: Counts::default(), written: Sample::of_at_most(WRITTEN_MAX) }
    }
}

impl Since {
    /// With what a walk has found that began later: what was written since may have changed when it was found.
    fn with(mut self, walked: &Counts) -> Counts {
        let known = self.written.shift;
        self.counts.lasting.coarsen(walked.lasting.shift.max(known));
        self.counts.expiring.coarsen(walked.expiring.sample.shift.max(known));
        let is_unwritten = |hash: &u64| belongs(*hash, known) && !self.written.hashes.contains(hash);
        for hash in walked.lasting.hashes.iter().copied().filter(is_unwritten) {
            self.counts.lasting.insert(hash);
        }
        for (hash, expires_us) in walked.expiring.times.iter().filter(|(hash, _)| is_unwritten(hash)) {
            self.counts.expiring.insert(*hash, *expires_us);
        }
        self.counts
    }
}

struct Database {
    /// `None`: a walk has to find out.
    counts: Option<Counts>,
    /// Notes what is written since the walk began that is under way; without `counts`, since the server began.
    since: Option<Since>,
}

impl Database {
    fn needs_walk(&self) -> bool {
        self.counts.as_ref().is_none_or(Counts::is_too_small)
    }

    /// All keys have gone.
    fn clear(&mut self) {
        self.counts = Some(Counts::default());
        self.since = None;
    }

    /// `state` is when the key expires, if it is there. Returns how many keys have expired.
    fn note(&mut self, hash: u64, state: Option<Option<u64>>, now_us: u64) -> u64 {
        let change = |counts: &mut Counts| match state {
            _ if !counts.is_about(hash) => 0,
            Some(expires_us) => counts.put(hash, expires_us, now_us),
            None => counts.remove(hash, now_us),
        };
        let of_since = self.since.as_mut().map(|since| {
            since.written.insert(hash);
            change(&mut since.counts)
        });
        self.counts.as_mut().map(change).or(of_since).unwrap_or(0)
    }
}

/// What `INFO` shows of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyFigures {
    pub(crate) keys: u64,
    pub(crate) expires: u64,
    pub(crate) left_ms: u64,
}

/// See the module's comment.
pub(crate) struct Keyspace {
    hash: KeyHash,
    databases: RefCell<Vec<Database>>,
    /// How many keys have expired, as far as that was noticed.
    expired: Cell<u64>,
    /// When the walk began that is under way.
    walks_since: Cell<Option<Instant>>,
    rests_until: Cell<Option<Instant>>,
    has_walked: Notify,
}

impl Keyspace {
    pub(crate) fn of(trees: &Trees) -> Keyspace {
        let database = |number| {
            // Every entry counts there, so none means no key.
            let is_empty = trees.keys(number).is_none_or(|tree| {
                esker::without_io(|| tree.approximate_count(..)).is_ok_and(|entries| entries == 0)
            });
            let has_empty_key = || !matches!(esker::without_io(|| trees.empty_key(number, None)), Ok(None));
            let is_empty = is_empty && !has_empty_key();
            if is_empty {
                Database { counts: Some(Counts::default()), since: None }
            } else {
                Database { counts: None, since: Some(Since::default()) }
            }
        };
        Keyspace {
            hash: KeyHash::new(),
            databases: RefCell::new((0..trees.count()).map(database).collect()),
            expired: Cell::default(),
            walks_since: Cell::default(),
            rests_until: Cell::default(),
            has_walked: Notify::new(),
        }
    }

    /// Notes what was committed.
    pub(crate) fn note(&self, writes: &Writes, now_us: u64) {
        let mut databases = self.databases.borrow_mut();
        for slot in writes.cleared().iter().filter(|slot| slot.space == Space::Keys) {
            if let Some(database) = databases.get_mut(usize::from(slot.database)) {
                database.clear();
            }
        }
        for (database, key, op) in writes.key_ops() {
            let Some(database) = databases.get_mut(usize::from(database)) else { continue };
            let state = match op {
                Op::Put(Entry { expires_us, .. }) => Some(*expires_us),
                Op::Delete => None,
            };
            add(&self.expired, database.note(self.hash.of(key), state, now_us));
        }
    }

    /// The keys of a database; `None`: a walk has to find out.
    pub(crate) fn figures(&self, database: u16, now_us: u64) -> Option<KeyFigures> {
        let mut databases = self.databases.borrow_mut();
        let counts = databases.get_mut(usize::from(database))?.counts.as_mut()?;
        add(&self.expired, counts.expiring.take_expired(now_us));
        let expires = counts.expiring.sample.count();
        let left_ms = counts.expiring.left_ms(now_us);
        Some(KeyFigures { keys: counts.lasting.count() + expires, expires, left_ms })
    }

    /// How many keys have expired.
    pub(crate) fn expired(&self, now_us: u64) -> u64 {
        for database in self.databases.borrow_mut().iter_mut() {
            let counts = database.counts.as_mut().or(database.since.as_mut().map(|since| &mut since.counts));
            add(&self.expired, counts.map_or(0, |counts| counts.expiring.take_expired(now_us)));
        }
        self.expired.get()
    }

    /// Begins to count expired keys anew.
    pub(crate) fn reset_expired(&self, now_us: u64) {
        self.expired(now_us);
        self.expired.set(0);
    }

    /// Whether `INFO` should wait for a walk.
    pub(crate) fn has_to_wait(&self) -> bool {
        match self.walks_since.get() {
            Some(since) => since.elapsed() < PATIENCE,
            None => self.may_walk(),
        }
    }

    /// Whether a walk should begin.
    fn may_walk(&self) -> bool {
        self.databases.borrow().iter().any(Database::needs_walk)
            && self.rests_until.get().is_none_or(|until| until <= Instant::now())
    }

    /// The databases that a walk begins with.
    fn begin(&self) -> Vec<u16> {
        let mut databases = self.databases.borrow_mut();
        let needing = databases.iter_mut().zip(0..).filter(|(database, _)| database.needs_walk());
        let begin = |(database, number): (&mut Database, u16)| {
            database.since.get_or_insert_default();
            number
        };
        needing.map(begin).collect()
    }

    /// Whether a walk over the database still finds out something: all of its keys may have gone.
    fn is_walked(&self, database: u16) -> bool {
        self.databases.borrow().get(usize::from(database)).is_some_and(|database| database.since.is_some())
    }

    fn finish(&self, database: u16, walked: &Counts) {
        if let Some(database) = self.databases.borrow_mut().get_mut(usize::from(database))
            && let Some(since) = database.since.take()
        {
            database.counts = Some(since.with(walked));
        }
    }

    /// Forgets what a walk has begun that failed. What has to be found out is still noted.
    fn give_up(&self) {
        for database in self.databases.borrow_mut().iter_mut().filter(|database| database.counts.is_some()) {
            database.since = None;
        }
    }
}

/// A walk over the keys of a database.
struct Walk {
    hash: KeyHash,
    counts: Counts,
    /// Where it goes on; `None`: it has come to the end.
    from: Option<Vec<u8>>,
}

impl Walk {
    /// Goes on for some keys.
    fn go_on(mut self, trees: &Trees, database: u16) -> esker::Result<Walk> {
        let Some((tree, from)) = trees.keys(database).zip(self.from.take()) else { return Ok(self) };
        if from.is_empty()
            && let Some(expires_us) = trees.empty_key(database, None)?
        {
            let hash = self.hash.of(&from);
            if self.counts.is_about(hash) {
                self.counts.put(hash, expires_us, 0);
            }
        }
        let mut scan = tree.scan(ScanRange::from(from.as_slice()..))?;
        let mut left = AT_ONCE;
        while scan.advance()? {
            if left == 0 {
                self.from = Some(scan.key().to_vec());
                break;
            }
            left -= 1;
            let hash = self.hash.of(scan.key());
            if self.counts.is_about(hash) {
                self.counts.put(hash, scan.expires_us(), 0);
            }
        }
        Ok(self)
    }
}

impl Server {
    /// Has the keys counted that have to be, and waits for a while until they are.
    pub(crate) async fn count_keys(self: &Rc<Self>) {
        let keyspace = &self.keyspace;
        if keyspace.walks_since.get().is_none() && keyspace.may_walk() {
            keyspace.walks_since.set(Some(Instant::now()));
            tokio::task::spawn_local(walk(Rc::clone(self)));
        }
        let walked = async {
            loop {
                let has_walked = keyspace.has_walked.notified();
                if keyspace.walks_since.get().is_none_or(|since| since.elapsed() >= PATIENCE) {
                    return;
                }
                has_walked.await;
            }
        };
        let _ = tokio::time::timeout(PATIENCE, walked).await;
    }
}

/// Walks over the databases whose keys have to be counted.
async fn walk(server: Rc<Server>) {
    let (keyspace, begun) = (&server.keyspace, Instant::now());
    let walked = walk_over(&server, keyspace.begin(), begun).await;
    let took = begun.elapsed();
    // `INFO` has waited for a short one, and may have the next one.
    let mut rest = if took < PATIENCE { Duration::ZERO } else { took * RESTS };
    if let Err(error) = walked {
        server.reports.failure("count keys", &error);
        keyspace.give_up();
        rest = rest.max(LOOK_AGAIN);
    }
    keyspace.rests_until.set(Some(Instant::now() + rest));
    keyspace.walks_since.set(None);
    keyspace.has_walked.notify_waiters();
}

async fn walk_over(server: &Server, databases: Vec<u16>, begun: Instant) -> esker::Result<()> {
    let keyspace = &server.keyspace;
    for database in databases {
        let counts = Counts::default();
        let mut walk = Walk { hash: keyspace.hash, counts, from: Some(Vec::new()) };
        while walk.from.is_some() && keyspace.is_walked(database) {
            let (trees, piece) = (Arc::clone(&server.trees), Instant::now());
            walk = server.pool.run(move || walk.go_on(&trees, database)).await??;
            if begun.elapsed() > PATIENCE {
                tokio::time::sleep(piece.elapsed()).await;
            }
        }
        keyspace.finish(database, &walk.counts);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash_of(key: u64) -> u64 {
        // As even as the real one, and the same in each run.
        test_kit::mix(key.wrapping_mul(test_kit::STEP))
    }

    fn is_near(found: u64, expected: u64) -> bool {
        found.abs_diff(expected) * 20 <= expected
    }

    fn exact() -> Database {
        Database { counts: Some(Counts::default()), since: None }
    }

    fn figures(database: &mut Database, now_us: u64) -> (u64, u64) {
        let counts = database.counts.as_mut().unwrap();
        counts.expiring.take_expired(now_us);
        (counts.lasting.count() + counts.expiring.sample.count(), counts.expiring.sample.count())
    }

    #[test]
    fn few_are_exact_and_many_are_near() {
        let mut database = exact();
        for key in 0..KEPT_MAX as u64 {
            // Each is written twice.
            for _ in 0..2 {
                database.note(hash_of(key), Some(None), 0);
            }
            assert_eq!(figures(&mut database, 0).0, key + 1);
        }
        for key in KEPT_MAX as u64..1_000_000 {
            database.note(hash_of(key), Some((key % 20 == 0).then_some(key)), 0);
            if key % 50_000 == 0 {
                assert!(is_near(figures(&mut database, 0).0, key), "{key}");
            }
        }
        let expiring = (KEPT_MAX as u64..1_000_000).filter(|key| key % 20 == 0).count() as u64;
        assert!(is_near(figures(&mut database, 0).1, expiring));
        // Half of those expire.
        assert!(is_near(figures(&mut database, 516_384).1, expiring / 2));
        assert!(database.counts.as_ref().unwrap().lasting.hashes.len() <= KEPT_MAX);
        database.clear();
        assert_eq!(figures(&mut database, 0), (0, 0));
    }

    #[test]
    fn keys_that_differ_in_little_are_sampled_evenly() {
        let (hash, mut database) = (KeyHash::new(), exact());
        for number in 0..200_000 {
            database.note(hash.of(format!("key:{number}").as_bytes()), Some(None), 0);
        }
        assert!(is_near(figures(&mut database, 0).0, 200_000));
    }

    #[test]
    fn the_time_that_is_left() {
        let mut expiring = Expiring::default();
        assert_eq!(expiring.left_ms(5), 0);
        (0..100_000).for_each(|key| expiring.insert(hash_of(key), key * 1000));
        assert!(is_near(expiring.left_ms(0), 50_000));
        assert_eq!(expiring.sum_us, expiring.times.values().map(|us| u128::from(*us)).sum());
        assert_eq!(expiring.times.len(), expiring.by_time.len());
        assert_eq!(expiring.times.len(), expiring.sample.hashes.len());
        expiring.take_expired(99_000 * 1000);
        assert!(expiring.sample.is_too_small());
    }

    /// What a walk finds is what was there when it came by: before or after a write.
    #[test]
    fn writes_go_on_while_a_walk_does() {
        for (seed, count) in [(1_u64, 20_000_u64), (2, 200_000)] {
            println!("seed {seed}");
            let mut there: HashMap<u64, Option<u64>> = (0..count).map(|key| (key, None)).collect();
            let mut database = Database { counts: None, since: Some(Since::default()) };
            let mut walked = Counts::default();
            for key in 0..count {
                // A write, and then the walk comes to the next key.
                let random = hash_of(key ^ (seed << 32));
                let written = random % (count * 5 / 4);
                let state = match random >> 60 {
                    0..6 => None,
                    6..12 => Some(None),
                    _ => Some(Some(u64::MAX)),
                };
                match state {
                    Some(expires_us) => there.insert(written, expires_us),
                    None => there.remove(&written),
                };
                database.note(hash_of(written), state, 0);
                if let Some(expires_us) = there.get(&key) {
                    walked.put(hash_of(key), *expires_us, 0);
                }
            }
            let since = database.since.take().unwrap();
            database.counts = Some(since.with(&walked));
            let (keys, expires) = figures(&mut database, 0);
            let expected = there.len() as u64;
            let expiring = there.values().filter(|expires_us| expires_us.is_some()).count() as u64;
            if count < KEPT_MAX as u64 {
                assert_eq!((keys, expires), (expected, expiring));
            } else {
                assert!(is_near(keys, expected), "{keys}, not {expected}");
                assert!(is_near(expires, expiring), "{expires}, not {expiring}");
            }
        }
    }

    #[test]
    fn what_was_emptied_needs_no_walk() {
        let mut database = Database { counts: None, since: Some(Since::default()) };
        database.note(1, Some(None), 0);
        assert!(database.needs_walk());
        database.clear();
        assert!(!database.needs_walk() && database.since.is_none());
        // The keys go one by one: of those that are left too few are in the sample.
        for key in 0..200_000 {
            database.note(hash_of(key), Some(None), 0);
        }
        assert!(!database.needs_walk());
        for key in 10_000..200_000 {
            database.note(hash_of(key), None, 0);
        }
        assert!(database.needs_walk());
    }

    #[test]
    fn expired_keys_are_counted_once() {
        let mut counts = Counts::default();
        counts.put(1, Some(10), 0);
        counts.put(2, Some(10), 0);
        // One is written again after its time, and one before.
        assert_eq!((counts.put(1, None, 10), counts.put(2, Some(20), 5)), (1, 0));
        assert_eq!((counts.expiring.take_expired(19), counts.expiring.take_expired(20)), (0, 1));
        assert_eq!(counts.expiring.take_expired(30), 0);
    }
}
