//! The newest writes of a tree, sorted, in memory: a skip list over an arena.
//!
//! ```text
//! commit lock:  reserve(bytes) -> Region          the only step that allocates, and that can fail
//! no lock:      insert(&mut region, ..)           any number of threads; cannot fail
//! no lock:      get / cursor                      any number of threads; never wait, never write
//! ```
//!
//! Guarantees: when `insert` returns, the entry is found by whoever learns of that (through any
//! acquire/release pair, such as the store's visible sequence number). Entries never change, move or
//! vanish before the memtable does. An idle memtable owns no memory but itself.
//!
//! Cost, 400,000 entries of 16 + 100 bytes: an ascending insert about 55 ns, a random one about 500 ns, a
//! random get about 600 ns, nearly all of it cache misses.
//!
//! Relies on: no two entries share key and sequence number; keys and values are shorter than 4 GiB;
//! `reserve` calls do not overlap.
//!
//! Files: `arena` (memory), `node` (an entry's bytes; why searches touch little memory), `search` (the
//! walk, linking), `finger` (cheap inserts next to the last one), `filter` (which keys are not here),
//! `height`, `cursor`.

mod arena;
mod chunk_pool;
mod cursor;
mod filter;
mod finger;
mod height;
#[cfg(test)]
#[cfg(esker_shuttle)]
mod interleavings;
mod node;
mod search;
#[cfg(not(esker_shuttle))]
#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use self::arena::Arena;
pub(crate) use self::chunk_pool::ChunkPool;
pub(crate) use self::cursor::MemCursor;
use self::filter::KeyFilter;
use self::finger::{Finger, Path};
use self::height::MAX_HEIGHT;
use self::node::{Link, NodeRef};
use crate::checksum::hash_key;
use crate::cursor::{Kind, SeqNo};
use crate::error::Result;
use crate::sync::{AtomicUsize, Ordering};

/// A sorted set of entries that threads add to and read without locks.
pub(crate) struct Memtable {
    /// Where every level starts; level 0 is the last.
    links: [Link; MAX_HEIGHT],
    /// The most levels any entry has; at least 1.
    height: AtomicUsize,
    len: AtomicUsize,
    finger: Finger,
    /// What most keys are expected to start with: key heads are taken behind it.
    prefix: Box<[u8]>,
    /// How many entries are expected: as many as the memtable before had.
    expected: usize,
    /// Made with the first reservation, before any insert.
    filter: OnceLock<Option<KeyFilter>>,
    /// Which memtable a [`Region`] belongs to.
    id: u64,
    arena: Arena,
}

/// Space in one memtable for the entries of one batch, used from the front.
#[derive(Debug)]
pub(crate) struct Region {
    at: *mut u8,
    left: usize,
    table: u64,
}

// SAFETY: a region is the only way to its bytes, and they are not bound to a thread.
unsafe impl Send for Region {}

impl Region {
    /// The next `bytes` of the region. Panics when they are not there: the caller summed wrongly.
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
        Memtable::with(&[], None)
    }

    /// An empty memtable to come after this one: faster where most keys start like this one's, and with the
    /// same pool of chunks. Any key may be inserted all the same.
    pub(crate) fn successor(&self) -> Memtable {
        Memtable { expected: self.len(), ..Memtable::with(self.common_prefix(), self.arena.pool().cloned()) }
    }

    /// An empty memtable, faster than others where most keys start with `prefix`, that takes its memory
    /// from `pool` first.
    pub(crate) fn with(prefix: &[u8], pool: Option<Arc<ChunkPool>>) -> Memtable {
        static IDS: AtomicU64 = AtomicU64::new(0);
        Memtable {
            links: std::array::from_fn(|_| Link::new()),
            height: AtomicUsize::new(1),
            len: AtomicUsize::new(0),
            finger: Finger::new(),
            prefix: prefix.into(),
            expected: 0,
            filter: OnceLock::new(),
            id: IDS.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            arena: Arena::new(pool),
        }
    }

    /// What all keys start with; empty when there are none.
    pub(crate) fn common_prefix(&self) -> &[u8] {
        let (Some(first), Some(last)) = (self.first(), self.last()) else {
            return &[];
        };
        let (first, last) = (first.key(), last.key());
        let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        &first[..common]
    }

    /// A random height for the next entry; to be passed to `entry_size` and `insert` alike.
    #[inline]
    pub(crate) fn random_height() -> u8 {
        height::random()
    }

    /// Makes this thread's heights, and so when its memtables are full, repeat themselves with `seed`.
    pub(crate) fn begin_heights(seed: u64) {
        height::begin(seed);
    }

    /// Bytes that an entry of `height` takes. Callers sum this over a batch, outside any lock.
    #[inline]
    pub(crate) fn entry_size(height: u8, key_len: usize, value_len: usize) -> usize {
        node::size(usize::from(height), key_len, value_len)
    }

    /// Takes `bytes` contiguous bytes for a batch: the only call that allocates. Calls must not overlap
    /// (the store's commit lock sees to it); they panic if they do. Fails when memory is short.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<Region> {
        let at = self.arena.reserve(bytes)?;
        self.filter.get_or_init(|| KeyFilter::for_entries(self.expected));
        Ok(Region { at, left: bytes, table: self.id })
    }

    /// Copies an entry into `region`, which must be this memtable's and large enough, and links it in.
    #[inline]
    pub(crate) fn insert(
        &self,
        region: &mut Region,
        height: u8,
        key: &[u8],
        seq: SeqNo,
        kind: Kind,
        value: &[u8],
    ) {
        assert!(region.table == self.id, "a region of another memtable");
        let height = usize::from(height);
        assert!((1..=MAX_HEIGHT).contains(&height), "a height that random_height did not give");
        let target = self.target(key, seq << 8 | kind as u64);
        let mark = self.filter().map(|filter| filter.mark(hash_key(key)));
        let at = region.carve(node::size(height, key.len(), value.len()));
        if height > self.height.load(Ordering::Relaxed) {
            self.height.fetch_max(height, Ordering::Relaxed);
        }
        let link_in = |path: &mut Path, start| {
            self.approach(path, start, height, &target);
            // The copying hides the wait for the nodes that `link` is about to compare with.
            // SAFETY: `carve` gave `size` bytes of this memtable's arena to nobody else; they are
            // aligned, as the arena aligns regions and `size` is a multiple of the alignment.
            let node = unsafe { node::write(at, height, key, target.tag, value) };
            self.link(path, node, height, &target);
        };
        match self.finger.try_take() {
            Some(mut path) => {
                let start = self.start(&mut path, &target);
                link_in(&mut path, start);
            }
            None => link_in(&mut Path::new(), self.top()),
        }
        // Fetched from memory meanwhile. Nobody who may see the entry looks before this returns.
        if let Some(mark) = mark {
            mark.set();
        }
        self.len.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    fn filter(&self) -> Option<&KeyFilter> {
        self.filter.get()?.as_ref()
    }

    /// `false` only if there is no entry for the key of this hash, which is [`hash_key`] of it.
    #[inline]
    pub(crate) fn may_contain(&self, key_hash: u64) -> bool {
        self.filter().is_none_or(|filter| filter.may_contain(key_hash))
    }

    /// The newest version of `key` at or before `seq`.
    #[inline]
    pub(crate) fn get(&self, key: &[u8], seq: SeqNo) -> Option<(SeqNo, Kind, &[u8])> {
        let target = self.target(key, newest_tag(seq));
        let (_, reached) = self.descend(self.head(), self.top(), &target, |_, _| {});
        let node = reached.filter(|node| node.key() == key)?;
        Some((node.seq(), node.kind(), node.value()))
    }

    /// A cursor that keeps the memtable alive.
    pub(crate) fn cursor(self: &Arc<Self>) -> MemCursor {
        MemCursor::new(Arc::clone(self))
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.first().is_none()
    }

    /// Bytes taken from the system, without the filter: a hundredth more.
    pub(crate) fn memory(&self) -> usize {
        self.arena.allocated()
    }

    #[cfg(test)]
    /// Bytes reserved so far, which is less than [`Memtable::memory`].
    pub(crate) fn used(&self) -> usize {
        self.arena.used()
    }

    fn first(&self) -> Option<NodeRef<'_>> {
        // SAFETY: the head of the list has every level.
        unsafe { self.head().tower.link(0) }.next()
    }
}

/// The tag of the newest entry that is not newer than `seq`, whatever its kind.
#[inline]
fn newest_tag(seq: SeqNo) -> u64 {
    seq << 8 | 0xff
}
