//! The queue of waiting requests: which request waits for which, and circles of waiting.

use std::collections::BTreeSet;

use super::{Owner, Request, State};
use crate::canary::broken;

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) request: Request,
    /// Earlier waiters that it need not wait for, because it would then wait for itself.
    pub(super) passes: Vec<Owner>,
    pub(super) thread: std::thread::Thread,
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

    /// The owners that `request` has to wait for: holders, and those of the first `before` waiters that are not in
    /// `passes`.
    fn waits_of(&self, request: &Request, before: usize, passes: &[Owner]) -> impl Iterator<Item = Wait> {
        let from = request.owner;
        let held = self.trees.get(&request.tree).into_iter().flat_map(|locks| locks.on(&request.keys));
        let held = held.filter(|&(to, mode)| request.conflicts(to, mode) && !broken("txn-locks"));
        let earlier = self.queue[..before].iter().map(|waiter| &waiter.request).filter(|other| {
            other.tree == request.tree
                && request.conflicts(other.owner, other.mode)
                && request.keys.meets(&other.keys)
                && !passes.contains(&other.owner)
                && !broken("txn-turn")
        });
        let earlier = earlier.map(move |other| Wait { from, to: other.owner, for_turn: true });
        held.map(move |(to, _)| Wait { from, to, for_turn: false }).chain(earlier)
    }

    fn waits_at(&self, index: usize) -> impl Iterator<Item = Wait> {
        let Waiter { request, passes, .. } = &self.queue[index];
        self.waits_of(request, index, passes)
    }

    pub(super) fn need_not_wait(&self, request: &Request) -> bool {
        self.waits_of(request, self.queue.len(), &[]).next().is_none()
    }

    /// Follows waits from `at` to `goal`; returns true if it gets there, with the way in `path`.
    fn find_way(&self, at: Owner, goal: Owner, seen: &mut BTreeSet<Owner>, path: &mut Vec<Wait>) -> bool {
        for wait in self.position(at).into_iter().flat_map(|index| self.waits_at(index)) {
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
            if self.waits_at(index).next().is_none() {
                let waiter = self.queue.remove(index);
                self.grant(&waiter.request);
                waiter.thread.unpark();
            } else {
                index += 1;
            }
        }
    }
}
