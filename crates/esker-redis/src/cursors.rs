//! The cursors of `SCAN`, `HSCAN`, `SSCAN` and `ZSCAN`: numbers for places in the order of keys or elements.
//!
//! ```text
//! cursor, below 2^53    21 bits: the number of a prefix | 32 bits: the four bytes that follow it
//! stands for            the first key from (prefix, four bytes) on
//! ```
//! A cursor is a place and nothing else, so nothing is kept for an iteration, however many there are. It is below 2^53,
//! because JavaScript keeps numbers as doubles. Number 0 is the empty prefix; cursor 0 is the beginning and, as an answer,
//! the end.
//!
//! A page can end only between two neighbours that a known prefix *parts*: the second one begins with it, and the first one
//! does not or has lower four bytes after it. If [`RUN`] neighbours in a row are not parted, a new prefix is made that parts
//! some of them. It begins three bytes before these differ, so it serves many pages. Prefixes are few, and are kept in the
//! store permanently, so a cursor outlives the server. Only what cannot be kept, on a full disk, is known to this server alone:
//! it has numbers of its own, which begin at random, so that a later server does not take them for others.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::fault::ReadError;

/// How many neighbours are not parted before a prefix is made for them, and of how many bytes.
const RUN: usize = 100;
const RUN_BYTES: usize = 1 << 20;

/// The most bytes of a prefix. Elements have up to 512 MiB: where longer beginnings part them, a page does not end.
const PREFIX_MAX: usize = 1 << 20;

/// The bits of a cursor for the bytes after its prefix.
const BEHIND_BITS: u32 = 32;

/// From here on are the numbers of prefixes that could not be kept. There are as many numbers of either kind.
const UNKEPT: u32 = 1 << 20;

/// Memory limit of all prefixes, in bytes. Beyond it the oldest are forgotten, and their cursors become errors. A client that
/// scans long keys can cause this for others.
const PREFIX_BYTES_MAX: usize = 64 << 20;

/// Keeps prefixes for later servers of the store.
pub trait Keeper: Send + Sync {
    /// Keeps a prefix under its number, so that it is there after a power cut. It is kept when this returns `true`.
    fn keep(&self, number: u32, prefix: &[u8]) -> bool;

    /// The prefix with this number is needed no more.
    fn forget(&self, number: u32);
}

/// A keeper for cursors that do not outlive the process.
struct Nowhere;

impl Keeper for Nowhere {
    fn keep(&self, _: u32, _: &[u8]) -> bool {
        true
    }

    fn forget(&self, _: u32) {}
}

/// See the module's comment.
///
/// Threads may share it. None holds it while it walks over entries.
pub struct Cursors {
    known: Mutex<Known>,
    /// Is held while a prefix is made, which waits for the disk.
    making: Mutex<()>,
    keeper: Box<dyn Keeper>,
    seed: u32,
}

#[derive(Debug, Default)]
struct Known {
    numbers: BTreeMap<Vec<u8>, u32>,
    prefixes: BTreeMap<u32, Vec<u8>>,
    bytes: usize,
    /// The number of the last prefix that was kept, and how many were not.
    last: u32,
    unkept: u32,
}

impl Known {
    fn add(&mut self, number: u32, prefix: &[u8]) {
        self.bytes += prefix.len();
        if number < UNKEPT {
            self.last = self.last.max(number);
        } else {
            self.unkept += 1;
        }
        self.numbers.insert(prefix.to_vec(), number);
        self.prefixes.insert(number, prefix.to_vec());
    }

    /// Forgets the oldest prefixes until the others have at most so many bytes. Returns their numbers. The last one that was
    /// kept stays: by it, the next server knows which numbers were given.
    fn take_beyond(&mut self, bytes_max: usize) -> Vec<u32> {
        let mut forgotten = Vec::new();
        while self.bytes > bytes_max
            && self.prefixes.len() > 1
            && let Some(number) = self.prefixes.keys().copied().find(|number| *number != self.last)
            && let Some(prefix) = self.prefixes.remove(&number)
        {
            self.bytes -= prefix.len();
            self.numbers.remove(&prefix);
            forgotten.push(number);
        }
        forgotten
    }

    /// The longest prefix of `key` that is known, and its number.
    fn longest_of(&self, key: &[u8]) -> (usize, u32) {
        let mut key = key;
        while !key.is_empty()
            && let Some((prefix, number)) =
                self.numbers.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()
        {
            let common = common(prefix, key);
            if common == prefix.len() {
                return (common, *number);
            }
            // Every prefix of the key that is known is below this one, so it is no longer than what both begin with.
            key = &key[..common];
        }
        (0, 0)
    }
}

/// How many bytes both begin with.
fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The four bytes of `key` after the first `len`, with zeros for those that it does not have.
fn behind(key: &[u8], len: usize) -> u32 {
    let mut bytes = [0; 4];
    for (byte, found) in bytes.iter_mut().zip(key.iter().skip(len)) {
        *byte = *found;
    }
    u32::from_be_bytes(bytes)
}

/// Whether the prefix of `next` of this length parts it from the key before it.
fn parts(len: usize, last: &[u8], next: &[u8]) -> bool {
    common(last, next) < len || behind(last, len) < behind(next, len)
}

fn cursor(number: u32, behind: u32) -> u64 {
    u64::from(number) << BEHIND_BITS | u64::from(behind)
}

impl fmt::Debug for Cursors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursors").field("known", &self.known).finish_non_exhaustive()
    }
}

impl Default for Cursors {
    fn default() -> Self {
        Cursors::new(&[], Box::new(Nowhere), 0)
    }
}

impl Cursors {
    /// With the prefixes that were kept, and a keeper for others. `seed` is a random number.
    pub fn new(prefixes: &[(u32, Vec<u8>)], keeper: Box<dyn Keeper>, seed: u64) -> Cursors {
        let mut known = Known::default();
        prefixes.iter().for_each(|(number, prefix)| known.add(*number, prefix));
        Cursors { known: Mutex::new(known), making: Mutex::default(), keeper, seed: seed as u32 }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place that `cursor` stands for: all keys from there on come. `None`: there is no such place.
    pub fn place(&self, cursor: u64) -> Option<Vec<u8>> {
        let number = u32::try_from(cursor >> BEHIND_BITS).ok()?;
        let mut place = match number {
            0 => Vec::new(),
            _ => self.known().prefixes.get(&number)?.clone(),
        };
        let behind = (cursor as u32).to_be_bytes();
        // Zeros may stand for bytes that the key does not have.
        let len = behind.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        place.extend_from_slice(&behind[..len]);
        Some(place)
    }

    /// The cursor of a place between two neighbours, if a known prefix parts them.
    fn between(&self, last: &[u8], next: &[u8]) -> Option<u64> {
        let (len, number) = self.known().longest_of(next);
        parts(len, last, next).then(|| cursor(number, behind(next, len)))
    }

    /// Makes a prefix that parts some neighbours of `keys`, which no known prefix does. Returns the first one that
    /// is parted from the one before it, and the cursor of the place between them; `None`: there can be no more prefixes, or this
    /// one would be too long.
    fn part(&self, keys: &[Vec<u8>]) -> Option<(usize, u64)> {
        let (first, last) = keys.first().zip(keys.last())?;
        let differ_at = common(first, last);
        let parted_by = |len: usize| {
            let is_parted = |pair: &[Vec<u8>]| pair[1].len() >= len && parts(len, &pair[0], &pair[1]);
            keys.windows(2).position(is_parted).map(|at| (len, at + 1))
        };
        // Where zeros hide how long keys are, a prefix that begins behind them does not.
        let (len, at) = parted_by(differ_at.saturating_sub(3)).or_else(|| parted_by(differ_at + 1))?;
        if len > PREFIX_MAX {
            return None;
        }
        let next = &keys[at];
        let number = self.number_of(&next[..len])?;
        Some((at, cursor(number, behind(next, len))))
    }

    /// The number of a prefix, which is made if it is not known.
    fn number_of(&self, prefix: &[u8]) -> Option<u32> {
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let (kept, unkept) = {
            let known = self.known();
            if let Some(number) = known.numbers.get(prefix) {
                return Some(*number);
            }
            if known.last + 1 == UNKEPT || known.unkept == UNKEPT {
                return None;
            }
            (known.last + 1, UNKEPT | (self.seed.wrapping_add(known.unkept) % UNKEPT))
        };
        let number = if self.keeper.keep(kept, prefix) { kept } else { unkept };
        let forgotten = {
            let mut known = self.known();
            known.add(number, prefix);
            known.take_beyond(PREFIX_BYTES_MAX)
        };
        forgotten.into_iter().for_each(|number| self.keeper.forget(number));
        Some(number)
    }
}

/// Finds the end of a page while it is walked over keys.
pub(crate) struct Page<'a> {
    cursors: &'a Cursors,
    /// How many more keys the page should have.
    left: u64,
    /// Since the page should have ended: the last key before, and those that came since.
    run: Vec<Vec<u8>>,
    run_bytes: usize,
    /// How many elements were found before each key of the run.
    found_before: Vec<usize>,
    /// The cursor of the next page; 0 at the end.
    pub(crate) next: u64,
}

impl<'a> Page<'a> {
    /// A page of about so many keys, at least 1.
    pub(crate) fn new(cursors: &'a Cursors, count: u64) -> Page<'a> {
        let (run, found_before) = (Vec::new(), Vec::new());
        Page { cursors, left: count.max(1), run, run_bytes: 0, found_before, next: 0 }
    }

    /// Whether `key`, which comes next, is in the page, of which `found` are the elements so far. If not, the walk is over: elements
    /// that come with the next page are taken from `found`. `may_wait` says whether this thread may wait for the disk.
    ///
    /// # Errors
    /// Those of `may_wait`, when that is necessary.
    pub(crate) fn takes<T>(
        &mut self,
        key: &[u8],
        found: &mut Vec<T>,
        may_wait: impl Fn() -> Result<(), ReadError>,
    ) -> Result<bool, ReadError> {
        if self.left > 0 {
            self.left -= 1;
            if self.left == 0 {
                self.begin_run(key, found.len());
            }
            return Ok(true);
        }
        if let Some(next) = self.run.last().and_then(|last| self.cursors.between(last, key)) {
            self.next = next;
            return Ok(false);
        }
        self.run.push(key.to_vec());
        self.run_bytes += key.len();
        self.found_before.push(found.len());
        if self.run.len() > RUN || self.run_bytes > RUN_BYTES {
            may_wait()?;
            if let Some((at, next)) = self.cursors.part(&self.run) {
                found.truncate(self.found_before[at]);
                self.next = next;
                return Ok(false);
            }
            self.begin_run(key, found.len());
        }
        Ok(true)
    }

    fn begin_run(&mut self, key: &[u8], found: usize) {
        (self.run, self.run_bytes) = (vec![key.to_vec()], key.len());
        self.found_before = vec![found];
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Walks over all pages of `keys`, which are in order. Returns them.
    fn pages(cursors: &Cursors, keys: &[Vec<u8>], count: u64) -> Vec<Vec<Vec<u8>>> {
        let (mut pages, mut at) = (Vec::new(), 0);
        loop {
            assert!(at < 1 << 53);
            let place = cursors.place(at).unwrap();
            let (mut page, mut found) = (Page::new(cursors, count), Vec::new());
            for key in keys.iter().filter(|key| **key >= place) {
                if !page.takes(key, &mut found, || Ok(())).unwrap() {
                    break;
                }
                found.push(key.clone());
            }
            pages.push(found);
            at = page.next;
            if at == 0 {
                return pages;
            }
        }
    }

    fn check(cursors: &Cursors, keys: &[Vec<u8>], count: u64) -> usize {
        let pages = pages(cursors, keys, count);
        let longest = pages.iter().map(Vec::len).max().unwrap();
        assert!(longest <= count as usize + RUN, "{longest}");
        assert!(pages.concat() == keys, "not each key once");
        pages.len()
    }

    #[test]
    fn each_key_comes_once_in_pages_of_about_the_size() {
        let numbers = |begin: &str, count: u32| -> Vec<Vec<u8>> {
            (0..count).map(|number| format!("{begin}{number:08}").into_bytes()).collect()
        };
        let cursors = Cursors::default();
        let many = numbers("user:", 20_000);
        assert!(check(&cursors, &many, 10) > 100);
        // The same prefixes serve other pages, and nearly all later keys.
        let made = cursors.known().prefixes.len();
        assert!(made <= 4, "{made} prefixes");
        check(&cursors, &many, 100);
        assert_eq!(cursors.known().prefixes.len(), made);
        assert_eq!(check(&cursors, &numbers("a", 5), 10), 1);
        check(&cursors, &numbers(&"long ".repeat(1000), 2000), 7);
        // Keys that are beginnings of each other, with zeros and without.
        for byte in [0, b'a', 255] {
            let keys: Vec<Vec<u8>> = (0..3000).map(|len| vec![byte; len]).collect();
            assert!(check(&cursors, &keys, 10) > 5, "{byte}");
        }
        assert_eq!(pages(&cursors, &[], 10), [Vec::<Vec<u8>>::new()]);
    }

    #[test]
    fn random_keys_of_few_letters_come_once() {
        for seed in test_kit::seeds(40) {
            println!("seed {seed}");
            let mut rng = test_kit::Rng::new(seed);
            let mut random = |below: u64| rng.below(below);
            let letters: &[u8] = &[0, 1, b'a', 254, 255][..2 + random(4) as usize];
            let longest = 1 + random(30);
            let keys: std::collections::BTreeSet<Vec<u8>> = (0..2000)
                .map(|_| {
                    (0..random(longest)).map(|_| letters[random(letters.len() as u64) as usize]).collect()
                })
                .collect();
            let keys: Vec<Vec<u8>> = keys.into_iter().collect();
            check(&Cursors::default(), &keys, 1 + random(20));
        }
    }

    #[test]
    fn the_longest_known_prefix_is_found() {
        let prefixes: Vec<&[u8]> = vec![b"a", b"ab", b"abcd", b"abz", b"b", b"\xff"];
        let numbered: Vec<(u32, Vec<u8>)> =
            prefixes.iter().zip(1..).map(|(prefix, number)| (number, prefix.to_vec())).collect();
        let cursors = Cursors::new(&numbered, Box::new(Nowhere), 0);
        for key in ["", "a", "aa", "ab", "abc", "abcd", "abcde", "abce", "abzz", "ac", "bb", "c", "0"] {
            let begins = |prefix: &&&[u8]| key.as_bytes().starts_with(prefix);
            let expected = prefixes.iter().filter(begins).map(|prefix| prefix.len()).max().unwrap_or(0);
            assert_eq!(cursors.known().longest_of(key.as_bytes()).0, expected, "{key}");
        }
    }

    type Prefixes = Vec<(u32, Vec<u8>)>;

    /// Keeps prefixes, or refuses to.
    struct Kept {
        prefixes: Arc<Mutex<Prefixes>>,
        is_full: bool,
    }

    impl Keeper for Kept {
        fn keep(&self, number: u32, prefix: &[u8]) -> bool {
            if !self.is_full {
                self.prefixes.lock().unwrap().push((number, prefix.to_vec()));
            }
            !self.is_full
        }

        fn forget(&self, number: u32) {
            self.prefixes.lock().unwrap().retain(|(kept, _)| *kept != number);
        }
    }

    #[test]
    fn the_oldest_prefixes_make_room() {
        let mut known = Known::default();
        for number in 1..=10 {
            known.add(number, &[number as u8; 100]);
        }
        assert_eq!(known.take_beyond(1000), Vec::<u32>::new());
        assert_eq!(known.take_beyond(799), [1, 2, 3]);
        assert_eq!((known.bytes, known.numbers.len(), known.last), (700, 7, 10));
        // The newest one stays, so that no number is given twice.
        assert_eq!(known.take_beyond(0).len(), 6);
        assert!(known.prefixes.contains_key(&10));
        // Also where later ones could not be kept, as on a full disk.
        for number in UNKEPT..UNKEPT + 5 {
            known.add(number, &number.to_be_bytes());
        }
        assert_eq!(known.take_beyond(104), [UNKEPT, UNKEPT + 1, UNKEPT + 2, UNKEPT + 3]);
        assert!(known.prefixes.contains_key(&10) && known.prefixes.contains_key(&(UNKEPT + 4)));
    }

    #[test]
    fn cursors_are_known_to_those_who_have_the_prefixes() {
        let keys: Vec<Vec<u8>> = (0..5000).map(|number| format!("user:{number:08}").into_bytes()).collect();
        let prefixes = Arc::new(Mutex::new(Vec::new()));
        let cursors =
            Cursors::new(&[], Box::new(Kept { prefixes: Arc::clone(&prefixes), is_full: false }), 0);
        check(&cursors, &keys, 10);
        let kept = prefixes.lock().unwrap().clone();
        let later = Cursors::new(&kept, Box::new(Nowhere), 0);
        for (number, prefix) in &kept {
            let at = cursor(*number, 0x3030_0000);
            assert_eq!(later.place(at), Some([prefix.as_slice(), b"00"].concat()));
            assert_eq!(later.place(at), cursors.place(at));
        }
        // No other ones are.
        let unknown = cursor(kept.len() as u32 + 1, 0);
        for unknown in [unknown, 1 << 53, u64::MAX] {
            assert_eq!(later.place(unknown), None);
        }
        assert_eq!(later.place(0), Some(Vec::new()));
        // Where none can be kept, this process knows them, and later ones do not.
        let full = Kept { prefixes: Arc::default(), is_full: true };
        let full = Cursors::new(&[], Box::new(full), 7);
        check(&full, &keys, 10);
        let numbers: Vec<u32> = full.known().prefixes.keys().copied().collect();
        assert!(!numbers.is_empty() && numbers[0] == UNKEPT + 7, "{numbers:?}");
        assert!(full.place(cursor(UNKEPT + 7, 1)).is_some() && later.place(cursor(UNKEPT + 7, 1)).is_none());
    }

    #[test]
    fn a_thread_that_may_not_wait_makes_no_prefix() {
        let (cursors, mut found) = (Cursors::default(), Vec::<u8>::new());
        let mut page = Page::new(&cursors, 1);
        let keys = (0..1000).map(|number| format!("user:{number:08}").into_bytes());
        let taken: Result<Vec<bool>, ReadError> =
            keys.map(|key| page.takes(&key, &mut found, || Err(ReadError::NeedsIo))).collect();
        assert_eq!(taken, Err(ReadError::NeedsIo));
        assert!(cursors.known().prefixes.is_empty());
    }
}
