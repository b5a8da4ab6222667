//! The queue of waiting requests: who waits for whom, and circles of waiting.

use std::collections::BTreeSet;

use super::{Owner, Request, State};
use crate::canary::broken;
use crate::env::Waker;

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) request: Request,
    /// Earlier waiters that it need not wait for, because it would then wait for itself.
    pub(super) passes: Vec<Owner>,
    pub(super) waker: Waker,
}

#[derive(Debug, Clone, Copy)]
struct Wait {
    from: Owner,
    to: Owner,
    /// `to` waits too, and came earlier.
    for_turn: bool,
}

impl State {
    fn position(&self, owner: Owner) -> Option<usize> {
        self.queue.iter().position(|waiter| waiter.request.owner == owner)
    }

    pub(super) fn is_waiting(&self, owner: Owner) -> bool {
        self.position(owner).is_some()
    }

    /// The holders that `request` has to wait for.
    fn holders_in_the_way(&self, request: &Request) -> impl Iterator<Item = Owner> {
        let held = self.trees.get(&request.tree).into_iter().flat_map(|locks| locks.on(&request.keys));
        held.filter(|&(owner, mode)| request.conflicts(owner, mode) && !broken("txn-locks"))
            .map(|(owner, _)| owner)
    }

    /// Those of the first `before` waiters that `request` has to let go first.
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
                    && request.keys.meets(&other.keys)
                    && !passes.contains(&other.owner)
                    && !broken("txn-turn")
            })
            .map(|other| other.owner)
    }

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

    /// Follows waits from `at` to `goal`; returns true if it gets there, with the way in `path`.
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

    /// Looks for circles through `owner`, which has begun to wait. If a request in a circle waits only for its turn,
    /// that request may pass. If all of them wait for holders, `owner` leaves the queue and the result is `false`.
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

    pub(super) fn give_up(&mut self, owner: Owner) {
        self.queue.retain(|waiter| waiter.request.owner != owner);
        self.settle();
    }

    /// Grants, in order of arrival, the queued requests that no longer have to wait.
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
