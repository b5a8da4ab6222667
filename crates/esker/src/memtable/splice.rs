//! The place of the last insert. With it, an insert next to that place need not search from the top.
//!
//! A path holds, for each level, the tower that precedes some key. Its towers are nested: the tower of a
//! higher level never comes after that of a lower level. The memtable keeps the path of its last insert. A
//! flag guards the path; an insert that finds it taken does not wait but searches from the top with its own
//! path. While inserts are not neighbours, the path is tried ever more rarely, but at least every 32nd
//! time.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

use super::height::MAX_HEIGHT;
use super::node::NodePtr;
use crate::sync::{AtomicBool, Ordering};

/// The place where the search leaves each level on its way to some key.
pub(super) struct Path {
    /// For each level a node that is higher than the level; `None` stands for the head of the list.
    pub(super) nodes: [Option<NodePtr>; MAX_HEIGHT],
    /// How many inserts still skip the path after the last vain attempt.
    pause: u8,
    /// How many inserts skip the path after the next vain attempt.
    penalty: u8,
}

impl Path {
    pub(super) fn new() -> Path {
        Path { nodes: [None; MAX_HEIGHT], pause: 0, penalty: 0 }
    }

    #[inline]
    pub(super) fn promising(&mut self) -> bool {
        let promising = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        promising
    }

    /// Whether the last attempt was not in vain.
    pub(super) fn has_helped(&self) -> bool {
        self.penalty == 0
    }

    #[inline]
    pub(super) fn learn(&mut self, helped: bool) {
        self.penalty = if helped { 0 } else { (self.penalty * 2 + 1).min(31) };
        self.pause = self.penalty;
    }
}

/// A path guarded by a flag.
pub(super) struct Splice {
    taken: AtomicBool,
    path: UnsafeCell<Path>,
}

// SAFETY: only the thread that set `taken` reaches the path.
unsafe impl Sync for Splice {}
// SAFETY: a path points into the arena of its own memtable, and moves with it.
unsafe impl Send for Splice {}

impl Splice {
    pub(super) fn new() -> Splice {
        Splice { taken: AtomicBool::new(false), path: UnsafeCell::new(Path::new()) }
    }

    /// The path, unless another thread has it.
    #[inline]
    pub(super) fn try_take(&self) -> Option<TakenPath<'_>> {
        // Create `TakenPath` only after taking the flag: dropping it gives the path back.
        (!self.taken.swap(true, Ordering::Acquire)).then(|| TakenPath(self))
    }
}

/// Exclusive use of the path, until dropped.
pub(super) struct TakenPath<'a>(&'a Splice);

impl Deref for TakenPath<'_> {
    type Target = Path;

    #[inline]
    fn deref(&self) -> &Path {
        // SAFETY: this thread set `taken` and has not cleared it.
        unsafe { &*self.0.path.get() }
    }
}

impl DerefMut for TakenPath<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Path {
        // SAFETY: this thread set `taken` and has not cleared it.
        unsafe { &mut *self.0.path.get() }
    }
}

impl Drop for TakenPath<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
    }
}
