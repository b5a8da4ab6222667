//! Where the last insert was, so that an insert next to it need not search.
//!
//! A path holds, per level, the tower that precedes some key. Its towers are nested: one of a higher
//! level never lies behind one of a lower level. The memtable keeps the path of its last insert; an
//! insert that finds it taken (a flag, never waited for) searches from the top with a path of its own.
//! While inserts are not neighbours the path is consulted ever more rarely, at least every 32nd time.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

use super::height::MAX_HEIGHT;
use super::node::NodePtr;
use crate::sync::{AtomicBool, Ordering};

/// Where each level is left on the way to some key.
pub(super) struct Path {
    /// Per level a node that is higher than it; `None` stands for the head of the list.
    pub(super) nodes: [Option<NodePtr>; MAX_HEIGHT],
    /// How many inserts are still to pass without consulting the path, after the last vain attempt.
    pause: u8,
    /// How many the next vain attempt costs.
    penalty: u8,
}

impl Path {
    pub(super) fn new() -> Path {
        Path { nodes: [None; MAX_HEIGHT], pause: 0, penalty: 0 }
    }

    /// Whether this insert should consult the path.
    #[inline]
    pub(super) fn promising(&mut self) -> bool {
        let promising = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        promising
    }

    /// What came of consulting it.
    #[inline]
    pub(super) fn learn(&mut self, helped: bool) {
        self.penalty = if helped { 0 } else { (self.penalty * 2 + 1).min(31) };
        self.pause = self.penalty;
    }
}

/// A path behind a flag.
pub(super) struct Finger {
    taken: AtomicBool,
    path: UnsafeCell<Path>,
}

// SAFETY: the path is reached only by whoever set `taken`.
unsafe impl Sync for Finger {}
// SAFETY: a path points into the arena of the memtable it moves with.
unsafe impl Send for Finger {}

impl Finger {
    pub(super) fn new() -> Finger {
        Finger { taken: AtomicBool::new(false), path: UnsafeCell::new(Path::new()) }
    }

    /// The path, unless another thread has it.
    #[inline]
    pub(super) fn try_take(&self) -> Option<Held<'_>> {
        // Made only once taken: dropping a `Held` gives the path back.
        (!self.taken.swap(true, Ordering::Acquire)).then(|| Held(self))
    }
}

/// The path, until dropped.
pub(super) struct Held<'a>(&'a Finger);

impl Deref for Held<'_> {
    type Target = Path;

    #[inline]
    fn deref(&self) -> &Path {
        // SAFETY: this thread set `taken` and has not cleared it.
        unsafe { &*self.0.path.get() }
    }
}

impl DerefMut for Held<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Path {
        // SAFETY: this thread set `taken` and has not cleared it.
        unsafe { &mut *self.0.path.get() }
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
    }
}
