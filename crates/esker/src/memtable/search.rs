//! Walks the skip list down and to the right until just before a target.

use super::Memtable;
use super::height::MAX_HEIGHT;
use super::node::{END, NodePtr, NodeRef, Target, Tower};
use super::splice::Path;
use crate::sync::Ordering;

/// The highest level at which a search from the last insert is tried: about 2^5 entries to either side.
const CLIMB: usize = 4;

/// A tower before some target, and its node unless the tower is the head of the list.
#[derive(Clone, Copy)]
pub(super) struct Spot<'a> {
    pub(super) tower: Tower<'a>,
    pub(super) node: Option<NodePtr>,
}

impl<'a> Spot<'a> {
    #[inline]
    pub(super) fn on(node: NodeRef<'a>) -> Spot<'a> {
        Spot { tower: node.tower(), node: Some(node.ptr()) }
    }
}

impl Memtable {
    #[inline]
    pub(super) fn head(&self) -> Spot<'_> {
        Spot { tower: Tower::head(&self.links), node: None }
    }

    #[inline]
    pub(super) fn target<'k>(&self, key: &'k [u8], tag: u64) -> Target<'k> {
        Target { key, head: self.heads.of(key), tag }
    }

    /// The level from which searches start.
    #[inline]
    pub(super) fn top(&self) -> usize {
        self.height.load(Ordering::Relaxed).min(MAX_HEIGHT) - 1
    }

    /// Walks from `from`, which is before the target, down from `level` to 0 and calls `visit` where the walk
    /// leaves each level. The bounds stop it before the first node that may be at or after the target. Also
    /// returns that node if a comparison with it decided.
    #[inline]
    pub(super) fn descend<'a>(
        &'a self,
        from: Spot<'a>,
        mut level: usize,
        target: &Target<'_>,
        mut visit: impl FnMut(usize, Spot<'a>),
    ) -> (Spot<'a>, Option<NodeRef<'a>>) {
        let mut spot = from;
        let mut reached: Option<NodeRef<'a>> = None;
        loop {
            // SAFETY: `from` is higher than `level`; a node met on a level is higher than it.
            let link = unsafe { spot.tower.link(level) };
            let bound = link.bound();
            if bound <= target.head {
                if let Some(next) = link.next() {
                    let same = reached.is_some_and(|reached| reached.ptr() == next.ptr());
                    if bound < target.head || (!same && target.after(next)) {
                        spot = Spot::on(next);
                        continue;
                    }
                    reached = Some(next);
                }
            } else {
                reached = None;
            }
            visit(level, spot);
            if level == 0 {
                return (spot, reached);
            }
            level -= 1;
        }
    }

    /// Walks along `level` from `from`, which is before the target, to the last node before it; returns that
    /// node and its true successor. With `help` the walk lowers bounds that are too high.
    #[inline]
    pub(super) fn advance<'a>(
        &'a self,
        from: Spot<'a>,
        level: usize,
        target: &Target<'_>,
        help: bool,
    ) -> (Spot<'a>, Option<NodeRef<'a>>) {
        let mut spot = from;
        loop {
            // SAFETY: `from` is higher than `level`, and so is every node met on it.
            let link = unsafe { spot.tower.link(level) };
            let bound = link.bound();
            let Some(next) = link.next() else {
                return (spot, None);
            };
            if bound >= target.head {
                if !target.after(next) {
                    return (spot, Some(next));
                }
                if help && bound > target.head {
                    link.lower(self.heads.of(next.key()));
                }
            }
            spot = Spot::on(next);
        }
    }

    /// The last node before the target, and the first node that is not before it.
    #[inline]
    pub(super) fn around(&self, target: &Target<'_>) -> (Option<NodeRef<'_>>, Option<NodeRef<'_>>) {
        let (spot, _) = self.descend(self.head(), self.top(), target, |_, _| {});
        let (spot, next) = self.advance(spot, 0, target, false);
        // SAFETY: the node was met in this memtable, which `self` keeps alive.
        (spot.node.map(|node| unsafe { node.as_ref() }), next)
    }

    pub(super) fn last(&self) -> Option<NodeRef<'_>> {
        let mut spot = self.head();
        let mut level = self.top();
        loop {
            // SAFETY: the head has every level; a node met on a level is higher than it.
            match unsafe { spot.tower.link(level) }.next() {
                Some(next) => spot = Spot::on(next),
                None if level > 0 => level -= 1,
                // SAFETY: the node was met in this memtable, which `self` keeps alive.
                None => return spot.node.map(|node| unsafe { node.as_ref() }),
            }
        }
    }

    /// Moves `path` to the target and prefetches the successors on the levels below `height`, which will be
    /// linked.
    #[inline]
    pub(super) fn approach(&self, path: &mut Path, start: usize, height: usize, target: &Target<'_>) {
        let from = self.spot(path, start);
        self.descend(from, start, target, |level, spot| {
            path.nodes[level] = spot.node;
            if level < height {
                // SAFETY: `descend` visits towers that are higher than the level.
                unsafe { spot.tower.link(level) }.prefetch_next();
            }
        });
    }

    /// Links in a node of `height`, starting from `path`. Afterwards `path` leads to just after the node.
    #[inline]
    pub(super) fn link(&self, path: &mut Path, node: NodeRef<'_>, height: usize, target: &Target<'_>) {
        for level in 0..height {
            let mut prev = self.spot(path, level);
            loop {
                let (before, next) = self.advance(prev, level, target, true);
                let bound = next.map_or(END, |next| self.heads.of(next.key()));
                // SAFETY: the node has `height` levels, and so far is linked only on lower ones.
                unsafe { node.init_link(level, bound, next) };
                // SAFETY: `advance` stays on `level`.
                if unsafe { before.tower.link(level) }.replace(next, node, target.head) {
                    break;
                }
                prev = before;
            }
            path.nodes[level] = Some(node.ptr());
        }
    }

    /// The level from which to search along `path`. This is the lowest level that encloses the target, if a
    /// low one does. Otherwise it is the top level, and `path` is reset there.
    #[inline]
    pub(super) fn start(&self, path: &mut Path, target: &Target<'_>) -> usize {
        let top = self.top();
        if path.promising() {
            let low = self.climb(path, target, top.min(CLIMB));
            path.learn(low.is_some());
            if let Some(level) = low {
                return level;
            }
        }
        path.nodes[top] = None;
        top
    }

    /// The lowest level, up to `limit`, on which `path` encloses the target.
    #[inline]
    fn climb(&self, path: &Path, target: &Target<'_>, limit: usize) -> Option<usize> {
        let mut before = false;
        for level in 0..=limit {
            let spot = self.spot(path, level);
            // Paths are nested: a tower before the target on one level is also before it on the higher
            // levels.
            // SAFETY: the path's nodes belong to this memtable.
            before = before || spot.node.is_none_or(|node| target.after(unsafe { node.as_ref() }));
            if before {
                // SAFETY: a path's tower is higher than its level.
                let link = unsafe { spot.tower.link(level) };
                let bound = link.bound();
                if bound > target.head
                    || (bound == target.head && link.next().is_none_or(|next| !target.after(next)))
                {
                    return Some(level);
                }
            }
        }
        None
    }

    #[inline]
    fn spot(&self, path: &Path, level: usize) -> Spot<'_> {
        // SAFETY: the path's nodes belong to this memtable, which `self` keeps alive.
        path.nodes[level].map_or(self.head(), |node| Spot::on(unsafe { node.as_ref() }))
    }
}
