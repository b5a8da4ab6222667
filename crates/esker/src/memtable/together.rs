//! Inserts of several entries whose searches run interleaved.
//!
//! A search of a full memtable costs about ten cache misses, each of which waits for the one before it. The misses of
//! different searches need not wait for each other: as soon as one search knows which node it needs next, it requests
//! the node and lets the next search continue (Chen, Gibbons, Mowry: "Improving Hash Join Performance through
//! Prefetching", 2004, for hash tables; Kocberber, Falsafi, Grot: "Asynchronous Memory Access Chaining", 2015, for skip
//! lists too).

use super::height::MAX_HEIGHT;
use super::node::{self, NodePtr, Target, prefetch};
use super::search::Spot;
use super::splice::Path;
use super::{Memtable, Region};
use crate::checksum::hash_key;
use crate::cursor::{Kind, SeqNo};
use crate::sync::Ordering;

/// How many searches run interleaved: a core has about ten misses under way at the same time.
pub(crate) const TOGETHER: usize = 8;

/// An entry to insert.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewEntry<'e> {
    /// See [`Memtable::random_height`].
    pub(crate) height: u8,
    pub(crate) key: &'e [u8],
    /// The key's [`hash_key`].
    pub(crate) hash: u64,
    pub(crate) seq: SeqNo,
    pub(crate) kind: Kind,
    pub(crate) value: &'e [u8],
}

impl<'e> NewEntry<'e> {
    /// A placeholder for no entry.
    pub(crate) const NONE: Self =
        NewEntry { height: 1, key: &[], hash: 0, seq: 0, kind: Kind::Put, value: &[] };

    pub(crate) fn new(height: u8, key: &'e [u8], seq: SeqNo, kind: Kind, value: &'e [u8]) -> Self {
        NewEntry { height, key, hash: hash_key(key), seq, kind, value }
    }

    /// The bytes that it takes.
    pub(crate) fn size(&self) -> usize {
        Memtable::entry_size(self.height, self.key.len(), self.value.len())
    }
}

/// A search on its way.
struct Search<'a, 'k> {
    target: Target<'k>,
    hash: u64,
    /// The height of the entry that will be linked.
    height: usize,
    spot: Spot<'a>,
    level: usize,
    /// The node after the spot, if it was requested, to compare with it.
    asked: Option<NodePtr>,
    /// The node that is known not to be before the target.
    reached: Option<NodePtr>,
    path: Path,
}

impl Memtable {
    /// Whether the last entries were not neighbours of those inserted before them, so that their searches begin at the
    /// top.
    pub(crate) fn is_scattered(&self) -> bool {
        self.splice.try_take().is_none_or(|path| !path.has_helped())
    }

    /// Inserts at most [`TOGETHER`] entries, each as [`Memtable::insert`] does. That is faster for entries that lie far from
    /// each other, and slower for neighbours.
    pub(crate) fn insert_together(&self, region: &mut Region, entries: &[NewEntry<'_>]) {
        assert!(region.table == self.id, "a region of another memtable");
        let tallest = entries.iter().map(|entry| usize::from(entry.height)).max().unwrap_or(1);
        assert!(tallest <= MAX_HEIGHT && entries.len() <= TOGETHER, "more than fits");
        if tallest > self.height.load(Ordering::Relaxed) {
            self.height.fetch_max(tallest, Ordering::Relaxed);
        }
        let top = self.top();
        let mut searches: [Option<Search<'_, '_>>; TOGETHER] = std::array::from_fn(|place| {
            entries.get(place).map(|entry| Search {
                target: self.target(entry.key, entry.seq << 8 | entry.kind as u64),
                hash: entry.hash,
                height: usize::from(entry.height.max(1)),
                spot: self.head(),
                level: top,
                asked: None,
                reached: None,
                path: Path::new(),
            })
        });
        let mut under_way: u32 = (1 << entries.len()) - 1;
        while under_way != 0 {
            let mut left = under_way;
            while left != 0 {
                let place = left.trailing_zeros() as usize;
                left &= left - 1;
                let is_over = searches[place].as_mut().is_none_or(|search| self.go_on(search));
                if is_over {
                    under_way &= !(1 << place);
                }
            }
        }
        let mut again = 0;
        for (search, entry) in searches.iter_mut().flatten().zip(entries) {
            let at = region.carve(node::size(search.height, entry.key.len(), entry.value.len()));
            // SAFETY: `carve` gave `size` bytes of this memtable's arena to no other caller; they are aligned, as the
            // arena aligns regions and `size` is a multiple of the alignment.
            let node = unsafe { node::write(at, search.height, entry.key, search.target.tag, entry.value) };
            // Entries that were linked meanwhile, here or elsewhere, lie after the nodes of the path.
            self.link(&mut search.path, node, search.height, &search.target);
            again += usize::from(self.index.add(search.hash, node));
            self.recent.note(node);
        }
        self.count(entries.len(), again);
    }

    /// Continues a search until it needs memory that has to be fetched. Returns whether the search is over. It walks as
    /// [`Memtable::approach`] does.
    #[inline]
    fn go_on<'a>(&'a self, search: &mut Search<'a, '_>) -> bool {
        loop {
            let level = search.level;
            // SAFETY: the head has all levels; a node that was met on a level is higher than it.
            let link = unsafe { search.spot.tower.link(level) };
            let bound = link.bound();
            if bound <= search.target.head
                && let Some(next) = link.next()
                && search.reached != Some(next.ptr())
            {
                let is_before = bound < search.target.head;
                if !is_before && search.asked != Some(next.ptr()) {
                    search.asked = Some(next.ptr());
                    link.prefetch_next();
                    return false;
                }
                if is_before || search.target.after(next) {
                    search.spot = Spot::on(next);
                    // SAFETY: the node was met on this level.
                    let link = unsafe { search.spot.tower.link(level) };
                    prefetch(std::ptr::from_ref(link).cast());
                    return false;
                }
                search.reached = Some(next.ptr());
            }
            search.path.nodes[level] = search.spot.node;
            if level < search.height {
                link.prefetch_next();
            }
            if level == 0 {
                return true;
            }
            search.level = level - 1;
        }
    }
}
