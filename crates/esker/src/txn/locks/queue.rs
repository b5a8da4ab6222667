//! Those that wait for locks: who waits for whom, and circles of it.

use std::collections::BTreeSet;

use super::{Owner, Request, State};
use crate::canary::broken;
use crate::env::Waker;

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) request: Request,
    /// Waiters that came before it and that it need not wait for: it would wait for itself.
    pub(super) passes: Vec<Owner>,
    pub(super) waker: Waker,
}

/// `from` waits for `to`.
#[derive(Debug, Clone, Copy)]
struct Wait {
    from: Owner,
    to: Owner,
    /// For one that waits too, and has come before.
    for_turn: bool,
}

impl State {
    fn position(&self, owner: Owner) -> Option<usize> {
        self.queue.iter().position(|waiter| waiter.request.owner == owner)
    }

    pub(super) fn is_waiting(&self, owner: Owner) -> bool {
        self.position(owner).is_some()
    }

    /// Those that hold what `request` has to wait for.
    fn holders_in_the_way(&self, request: &Request) -> impl Iterator<Item = Owner> {
        let held = self.trees.get(&request.tree).map(|locks| locks.on(&request.target)).unwrap_or_default();
        held.into_iter()
            .filter(|&(owner, mode)| request.conflicts(owner, mode) && !broken("txn-locks"))
            .map(|(owner, _)| owner)
    }

    /// Those among the first `before` waiters whose turn comes before that of `request`.
    fn waiters_in_the_way(
        &self,
        request: &Request,
        before: usize,
        passes: &[Owner],
    ) -> impl Iterator<Item = Owner> {
        let others = self.queue[..before].iter().map(|waiter| &waiter.request);
        others
            .filter(|other| {
                other.tree == request.tree
                    && request.conflicts(other.owner, other.mode)
                    && request.target.overlaps(&other.target)
                    && !passes.contains(&other.owner)
                    && !broken("txn-turn")
            })
            .map(|other| other.owner)
    }

    /// Whether a request that comes now need not wait.
    pub(super) fn nothing_in_the_way(&self, request: &Request) -> bool {
        self.holders_in_the_way(request).next().is_none()
            && self.waiters_in_the_way(request, self.queue.len(), &[]).next().is_none()
    }

    fn waits_of(&self, index: usize) -> Vec<Wait> {
        let Waiter { request, passes, .. } = &self.queue[index];
        let from = request.owner;
        let holders = self.holders_in_the_way(request).map(|to| Wait { from, to, for_turn: false });
        let waiters =
            self.waiters_in_the_way(request, index, passes).map(|to| Wait { from, to, for_turn: true });
        holders.chain(waiters).collect()
    }

    /// Follows waits from `at` until `goal`; true when there, with the way in `path`.
    fn find_way(&self, at: Owner, goal: Owner, seen: &mut BTreeSet<Owner>, path: &mut Vec<Wait>) -> bool {
        let waits = self.position(at).map(|index| self.waits_of(index)).unwrap_or_default();
        for wait in waits {
            path.push(wait);
            if wait.to == goal || (seen.insert(wait.to) && self.find_way(wait.to, goal, seen, path)) {
                return true;
            }
            path.pop();
        }
        false
    }

    /// Looks for circles through `owner`, which has begun to wait. One that waits for its turn in such a circle is let
    /// pass; where all wait for holders, `owner` is taken out of the queue: `false`.
    pub(super) fn dissolve_circles(&mut self, owner: Owner) -> bool {
        let mut path = Vec::new();
        while !broken("txn-circles") && self.find_way(owner, owner, &mut BTreeSet::new(), &mut path) {
            let turn = path.iter().find(|wait| wait.for_turn).copied();
            let Some((turn, index)) = turn.and_then(|turn| Some((turn, self.position(turn.from)?))) else {
                self.give_up(owner);
                return false;
            };
            self.queue[index].passes.push(turn.to);
            path.clear();
        }
        self.settle();
        true
    }

    /// Takes `owner` out of the queue.
    pub(super) fn give_up(&mut self, owner: Owner) {
        self.queue.retain(|waiter| waiter.request.owner != owner);
        self.settle();
    }

    /// Grants whatever in the queue has nothing in its way any more, in the order in which it came.
    pub(super) fn settle(&mut self) {
        let mut index = 0;
        while index < self.queue.len() {
            if self.waits_of(index).is_empty() {
                let waiter = self.queue.remove(index);
                self.grant(&waiter.request);
                waiter.waker.wake();
            } else {
                index += 1;
            }
        }
    }
}
