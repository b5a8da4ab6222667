//! The newest writes of a tree, sorted, in memory: a skip list over an arena.
//!
//! ```text
//! commit lock:  reserve(bytes) -> Region          the only step that allocates, and that can fail
//! no lock:      insert(&mut region, ..)           any number of threads; cannot fail
//! no lock:      get / cursor                      any number of threads; never wait, never write
//! ```
//!
//! Guarantees: when `insert` returns, any thread that learns of it finds the entry (through an acquire/release pair,
//! like the store's visible sequence number). Entries never change or move, and stay until the memtable is dropped. An
//! empty memtable owns no memory but itself.
//!
//! Cost with 400,000 entries of 16 + 100 bytes: an ascending insert takes about 100 ns, a random one about 600 ns, a random
//! get about 100 ns, nearly all of it cache misses.
//!
//! Relies on: no two entries share key and sequence number; keys and values are shorter than 4 GiB;
//! `reserve` calls do not overlap.
//!
//! Files: `arena` (memory), `node` (an entry's bytes; why searches touch little memory), `search` (the walk, linking),
//! `splice` (cheap inserts next to the last one), `together` (inserts of many), `heads` (numbers that represent keys),
//! `index` (each key's newest entry), `recent` (entries that come while a copy is made), `height`, `cursor`,
//! `chunk_pool` (chunks of dropped memtables, kept for the next).

mod arena;
mod chunk_pool;
mod cursor;
mod heads;
mod height;
mod index;
#[cfg(test)]
#[cfg(esker_shuttle)]
mod interleavings;
mod node;
mod recent;
mod search;
mod splice;
#[cfg(not(esker_shuttle))]
#[cfg(test)]
mod tests;
mod together;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use self::arena::Arena;
pub(crate) use self::chunk_pool::ChunkPool;
pub(crate) use self::cursor::MemCursor;
use self::heads::{Heads, prefix_of};
use self::height::MAX_HEIGHT;
use self::index::{Found, KeyIndex};
use self::node::{Link, NodeRef};
use self::recent::Recent;
use self::splice::{Path, Splice};
pub(crate) use self::together::{NewEntry, TOGETHER};
use crate::cursor::{Kind, SeqNo};
use crate::error::Result;
use crate::sync::{AtomicBool, AtomicUsize, Ordering};

/// From this many entries on, a memtable that knew nothing of its keys is copied to one that expects keys like them.
const LEARN_AT: usize = 1024;

/// How many keys are sampled to find out where they differ; up to about twice as many if the memtable has more.
const SAMPLED: usize = 256;

/// The longest prefix, in bytes.
const BEGINNING: usize = 1024;

/// Each insert changes them.
#[derive(Default)]
struct Counts {
    entries: AtomicUsize,
    /// Entries of keys that had one in the index.
    again: AtomicUsize,
}

/// A sorted set of entries that threads add to and read without locks.
///
/// The order of the fields keeps the data that a get by the index reads in other cache lines than the data that each
/// insert changes.
#[repr(C)]
pub(crate) struct Memtable {
    /// Its first hash table is begun by the first reservation, before any insert.
    index: KeyIndex,
    heads: Heads,
    /// Whether nothing was known of the keys when it was made, and no thread has examined them since.
    is_unlearned: AtomicBool,
    /// The expected number of keys: that of the previous memtable.
    expected: usize,
    /// Identifies this memtable to a [`Region`].
    id: u64,
    /// The height of the highest entry; at least 1.
    height: AtomicUsize,
    /// The beginning of every level; the last one is level 0.
    links: [Link; MAX_HEIGHT],
    splice: Splice,
    counts: Counts,
    /// The greatest sequence number for which space was reserved.
    newest: AtomicU64,
    recent: Recent,
    arena: Arena,
}

/// Space in one memtable for the entries of one batch, used from front to back.
#[derive(Debug)]
pub(crate) struct Region {
    at: *mut u8,
    left: usize,
    table: u64,
}

// SAFETY: the region is the only way to its bytes, and they are not bound to a thread.
unsafe impl Send for Region {}

impl Region {
    /// The next `bytes` of the region. Panics if the region is too short: the caller has added up wrongly.
    #[inline]
    fn carve(&mut self, bytes: usize) -> *mut u8 {
        assert!(bytes <= self.left, "a memtable region too small for its entries");
        let at = self.at;
        self.at = at.wrapping_add(bytes);
        self.left -= bytes;
        at
    }
}

impl std::fmt::Debug for Memtable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memtable")
            .field("len", &self.len())
            .field("memory", &self.memory())
            .finish_non_exhaustive()
    }
}

impl Memtable {
    #[cfg(test)]
    /// An empty memtable. Allocates nothing before the first [`Memtable::reserve`].
    pub(crate) fn new() -> Memtable {
        Memtable::over(None)
    }

    /// An empty memtable to follow this one, with the same pool of chunks. It expects keys like this one's, and as
    /// many; other keys may be inserted too.
    pub(crate) fn successor(&self) -> Memtable {
        Memtable { expected: self.keys(), ..self.expecting(self.heads_of_keys()) }
    }

    /// An empty memtable with the same pool of chunks.
    fn expecting(&self, heads: Heads) -> Memtable {
        let is_unlearned = AtomicBool::new(false);
        Memtable { is_unlearned, ..Memtable::with(heads, self.arena.pool().cloned()) }
    }

    #[cfg(test)]
    pub(crate) fn expects_prefix(&self) -> bool {
        !self.heads.is_blank()
    }

    /// The heads that fit the keys so far. Takes some ten microseconds.
    fn heads_of_keys(&self) -> Heads {
        Heads::of_sample(self.sample(), self.common_prefix())
    }

    /// The beginnings of some keys, in their order: those of the highest level that has enough of them.
    fn sample(&self) -> Vec<&[u8]> {
        let mut keys = Vec::new();
        for level in (0..=self.top()).rev() {
            keys.clear();
            // SAFETY: the head of the list has every level.
            let mut link = unsafe { self.head().tower.link(level) };
            while let Some(node) = link.next() {
                keys.push(beginning_of(node.key()));
                // SAFETY: a node met on a level is higher than it.
                link = unsafe { node.tower().link(level) };
            }
            if keys.len() >= SAMPLED {
                break;
            }
        }
        keys
    }

    /// Whether it is time to call [`Memtable::learned`].
    #[inline]
    pub(crate) fn may_learn(&self) -> bool {
        self.is_unlearned.load(Ordering::Relaxed) && self.len() >= LEARN_AT
    }

    /// A copy whose heads fit the keys so far, if that makes searches faster: where the heads of all keys are the same
    /// 8 bytes, each step of a search touches a node and compares keys. `None` if it does not, or if memory is short;
    /// then it is not tried again. The caller ensures that no thread inserts meanwhile.
    pub(crate) fn learned(&self) -> Option<Memtable> {
        self.is_unlearned.store(false, Ordering::Relaxed);
        // Keys that ascend begin alike until later ones come.
        let is_random = self.splice.try_take().is_some_and(|path| !path.has_helped());
        if !is_random || self.len() > 8 * LEARN_AT {
            return None;
        }
        let heads = self.heads_of_keys();
        if !heads.is_useful() {
            return None;
        }
        let copy = self.expecting(heads);
        copy.note_newest(self.newest());
        let mut next = self.first();
        while let Some(node) = next {
            let entry = NewEntry::new(height::random(), node.key(), node.seq(), node.kind(), node.value());
            copy.insert_copy(&entry).ok()?;
            next = node.next();
        }
        Some(copy)
    }

    /// An empty memtable that knows nothing of its keys. It takes memory from `pool` first.
    pub(crate) fn over(pool: Option<Arc<ChunkPool>>) -> Memtable {
        Memtable::with(Heads::behind(&[]), pool)
    }

    fn with(heads: Heads, pool: Option<Arc<ChunkPool>>) -> Memtable {
        static IDS: AtomicU64 = AtomicU64::new(0);
        Memtable {
            index: KeyIndex::default(),
            is_unlearned: AtomicBool::new(heads.is_blank()),
            heads,
            expected: 0,
            id: IDS.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            height: AtomicUsize::new(1),
            links: std::array::from_fn(|_| Link::new()),
            splice: Splice::new(),
            counts: Counts::default(),
            newest: AtomicU64::new(0),
            recent: Recent::default(),
            arena: Arena::new(pool),
        }
    }

    /// The common prefix of the beginnings of all keys; empty if the memtable has no keys.
    fn common_prefix(&self) -> &[u8] {
        let (Some(first), Some(last)) = (self.first(), self.last()) else {
            return &[];
        };
        prefix_of(beginning_of(first.key()), last.key())
    }

    /// A random height for the next entry. Pass the same height to `entry_size` and `insert`.
    #[inline]
    pub(crate) fn random_height() -> u8 {
        height::random()
    }

    /// Seeds this thread's heights, so that its memtables fill up the same way each time.
    pub(crate) fn begin_heights(seed: u64) {
        height::begin(seed);
    }

    /// The bytes that an entry of `height` takes. Callers add them up over a batch, outside any lock.
    #[inline]
    pub(crate) fn entry_size(height: u8, key_len: usize, value_len: usize) -> usize {
        node::size(usize::from(height), key_len, value_len)
    }

    /// Reserves `bytes` contiguous bytes for a batch. This is the only call that allocates; it fails when
    /// memory is short. Calls must not overlap (the store's commit lock ensures this) and panic if they do.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<Region> {
        let at = self.arena.reserve(bytes)?;
        self.index.begin(self.expected);
        self.recent.promise(bytes);
        Ok(Region { at, left: bytes, table: self.id })
    }

    /// Notes that entries up to the number `seq` come. Each number that readers see was noted before.
    pub(crate) fn note_newest(&self, seq: SeqNo) {
        self.newest.fetch_max(seq, std::sync::atomic::Ordering::AcqRel);
    }

    /// At least the greatest sequence number of its entries, as far as readers see them.
    pub(crate) fn newest(&self) -> SeqNo {
        self.newest.load(std::sync::atomic::Ordering::Acquire)
    }

    /// Prefetches the memory that an insert of a key with this hash will need, so that it is in the processor's cache a
    /// little later.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.index.prefetch(hash);
    }

    /// Copies an entry into `region`, which must be this memtable's and large enough, and links it in.
    #[inline]
    pub(crate) fn insert(&self, region: &mut Region, entry: &NewEntry<'_>) {
        let NewEntry { height, key, hash, seq, kind, value } = *entry;
        assert!(region.table == self.id, "a region of another memtable");
        let height = usize::from(height);
        assert!((1..=MAX_HEIGHT).contains(&height), "a height that random_height did not give");
        let target = self.target(key, seq << 8 | kind as u64);
        let at = region.carve(node::size(height, key.len(), value.len()));
        if height > self.height.load(Ordering::Relaxed) {
            self.height.fetch_max(height, Ordering::Relaxed);
        }
        let link_in = |path: &mut Path, start| {
            self.approach(path, start, height, &target);
            // Copying the entry hides the latency of fetching the nodes that `link` compares with next.
            // SAFETY: `carve` gave `size` bytes of this memtable's arena to no other caller; they are aligned, as the
            // arena aligns regions and `size` is a multiple of the alignment.
            let node = unsafe { node::write(at, height, key, target.tag, value) };
            self.link(path, node, height, &target);
            node
        };
        let node = match self.splice.try_take() {
            Some(mut path) => {
                let start = self.start(&mut path, &target);
                link_in(&mut path, start)
            }
            None => link_in(&mut Path::new(), self.top()),
        };
        self.count(1, usize::from(self.index.add(hash, node)));
        self.recent.note(node);
    }

    #[inline]
    fn count(&self, entries: usize, again: usize) {
        self.counts.entries.fetch_add(entries, Ordering::Relaxed);
        if again > 0 {
            self.counts.again.fetch_add(again, Ordering::Relaxed);
        }
    }

    /// About how many keys the memtable has; too many if it had no index, or the index had no place for all.
    fn keys(&self) -> usize {
        self.len().saturating_sub(self.counts.again.load(Ordering::Relaxed))
    }

    /// Returns `false` only if no entry has the key of this hash (see [`hash_key`](crate::checksum::hash_key)).
    #[inline]
    pub(crate) fn may_contain(&self, key_hash: u64) -> bool {
        self.index.may_contain(key_hash)
    }

    /// The newest version of `key` that is not newer than `seq`. `hash` is the key's [`hash_key`](crate::checksum::hash_key).
    #[inline]
    pub(crate) fn get(&self, key: &[u8], hash: u64, seq: SeqNo) -> Option<(SeqNo, Kind, &[u8])> {
        let node = match self.index.find(key, hash) {
            Found::Newest(node) if node.seq() <= seq => node,
            Found::Nothing => return None,
            Found::Newest(_) | Found::Unknown => {
                let target = self.target(key, newest_tag(seq));
                let (_, reached) = self.descend(self.head(), self.top(), &target, |_, _| {});
                reached.filter(|node| node.key() == key)?
            }
        };
        Some((node.seq(), node.kind(), node.value()))
    }

    /// A cursor that keeps the memtable alive.
    pub(crate) fn cursor(self: &Arc<Self>) -> MemCursor {
        MemCursor::new(Arc::clone(self))
    }

    pub(crate) fn len(&self) -> usize {
        self.counts.entries.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.first().is_none()
    }

    /// Bytes allocated. Changes only with a reservation or a new index.
    pub(crate) fn memory(&self) -> usize {
        self.arena.allocated() + self.index.memory()
    }

    /// Bytes allocated for entries.
    pub(crate) fn entry_memory(&self) -> usize {
        self.arena.allocated()
    }

    fn first(&self) -> Option<NodeRef<'_>> {
        // SAFETY: the head of the list has every level.
        unsafe { self.head().tower.link(0) }.next()
    }
}

/// The part of a key that is examined to find prefixes. Comparing many long keys completely would delay writers.
fn beginning_of(key: &[u8]) -> &[u8] {
    &key[..key.len().min(BEGINNING)]
}

/// The tag of the newest entry that is not newer than `seq`, of any kind.
#[inline]
fn newest_tag(seq: SeqNo) -> u64 {
    seq << 8 | 0xff
}
