//! Locks of pessimistic transactions: keys and ranges of trees, shared or exclusive, held until the transaction ends.
//! Ranges in use are kept in addition to the locks of keys, as in Grote and Sharkov's "Key-Value Store in Scala" (TU
//! Berlin 2018, section 4.2.2), so that keys inserted into a range are locked too.
//!
//! ```text
//! take -- nothing in the way --------------------------------------------> held
//!      '- something in the way: queue -- closes a circle: Deadlock
//!                                   '- park -- granted by the thread that released: held
//!                                           '- the time is over: TimedOut
//! ```
//!
//! - A request waits for every other transaction that holds an overlapping lock, unless both are shared. It also waits
//!   for earlier requests that wait for such a lock, so that a stream of readers cannot starve a writer. It skips
//!   this second kind of waiting if that would close a circle.
//! - A circle can arise only when a transaction begins to wait, since a transaction waits only after a request.
//!   Therefore the table looks for circles at that moment. A transaction that would close one gets `Deadlock`; the
//!   others continue when it releases its locks.
//! - One mutex guards all of this and is held for a few lookups. Each commit takes a lock of the whole store anyway,
//!   and a circle must be judged by the state at one moment.
//!
//! Cost with K locks on keys and R locks on ranges of one tree, and W waiting requests. A key: O(log K + R). A range:
//! O(log K + locked keys in it + R). A request that has to wait, of a transaction that holds locks, examines everything
//! that it would wait for, directly or indirectly: O(W) such lookups and W comparisons each. A release: the same for
//! each waiting request.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::env::Clock;
use crate::ranges::KeyRange;
use crate::trace::{Cause, perf_context};
use crate::version::edit::TreeId;

mod queue;
#[cfg(test)]
mod tests;

use queue::Waiter;

/// The number of a transaction that holds or requests locks.
pub(super) type Owner = u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LockMode {
    Shared,
    Exclusive,
}

/// A lock that a transaction requests or holds.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Request {
    owner: Owner,
    tree: TreeId,
    /// A range of one key for a lock on a key.
    keys: KeyRange,
    mode: LockMode,
}

impl Request {
    fn conflicts(&self, owner: Owner, mode: LockMode) -> bool {
        self.owner != owner && (self.mode == LockMode::Exclusive || mode == LockMode::Exclusive)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Held,
    /// A lock that the owner already holds covers it.
    HeldBefore,
    Deadlock,
    TimedOut,
}

/// The held locks of one tree.
#[derive(Debug, Default)]
struct TreeLocks {
    keys: BTreeMap<Vec<u8>, Vec<(Owner, LockMode)>>,
    ranges: Vec<(Owner, LockMode, KeyRange)>,
}

impl TreeLocks {
    /// Every lock that overlaps `keys`, as owner and mode.
    fn on(&self, keys: &KeyRange) -> impl Iterator<Item = (Owner, LockMode)> {
        let only = keys.only_key();
        let on_key = only.and_then(|key| self.keys.get(key));
        let within =
            keys.bounds().filter(|_| only.is_none()).map(|bounds| self.keys.range::<[u8], _>(bounds));
        let holders = on_key.into_iter().chain(within.into_iter().flatten().map(|(_, holders)| holders));
        let on_keys = holders.flatten().copied();
        let on_ranges = self.ranges.iter().filter(|(_, _, range)| range.meets(keys));
        on_keys.chain(on_ranges.map(|&(owner, mode, _)| (owner, mode)))
    }

    fn has(&self, request: &Request) -> bool {
        let on_key = request.keys.only_key().and_then(|key| self.keys.get(key));
        let on_key = on_key.into_iter().flatten().copied();
        let on_ranges = self.ranges.iter().filter(|(_, _, range)| range.encloses(&request.keys));
        let mut on_all = on_key.chain(on_ranges.map(|&(owner, mode, _)| (owner, mode)));
        on_all.any(|(owner, mode)| owner == request.owner && mode >= request.mode)
    }

    fn add(&mut self, Request { owner, keys, mode, .. }: &Request) {
        let Some(key) = keys.only_key() else {
            self.ranges.push((*owner, *mode, keys.clone()));
            return;
        };
        let holders = self.keys.entry(key.to_vec()).or_default();
        match holders.iter_mut().find(|(other, _)| other == owner) {
            Some((_, held)) => *held = *mode.max(held),
            None => holders.push((*owner, *mode)),
        }
    }

    fn remove(&mut self, owner: Owner, keys: &KeyRange) {
        let Some(key) = keys.only_key() else {
            self.ranges.retain(|(other, _, _)| *other != owner);
            return;
        };
        if let Some(holders) = self.keys.get_mut(key) {
            holders.retain(|(other, _)| *other != owner);
            if holders.is_empty() {
                self.keys.remove(key);
            }
        }
    }
}

#[derive(Debug, Default)]
struct State {
    trees: BTreeMap<TreeId, TreeLocks>,
    /// Waiting requests, in order of arrival; at most one per transaction.
    queue: Vec<Waiter>,
}

impl State {
    fn grant(&mut self, request: &Request) {
        self.trees.entry(request.tree).or_default().add(request);
    }

    fn release(&mut self, owner: Owner, held: &[(TreeId, KeyRange)]) {
        for (tree, keys) in held {
            if let Some(locks) = self.trees.get_mut(tree) {
                locks.remove(owner, keys);
                if locks.keys.is_empty() && locks.ranges.is_empty() {
                    self.trees.remove(tree);
                }
            }
        }
        self.settle();
    }
}

/// The locks of all open transactions of a store.
#[derive(Debug, Default)]
pub(crate) struct LockTable {
    state: Mutex<State>,
    owners: AtomicU64,
}

impl LockTable {
    /// Takes a lock. `holds_any`: the owner already holds locks.
    fn take(&self, request: Request, holds_any: bool, timeout: Duration, clock: &dyn Clock) -> Outcome {
        let owner = request.owner;
        let mut state = self.state.lock();
        if state.trees.get(&request.tree).is_some_and(|locks| locks.has(&request)) {
            return Outcome::HeldBefore;
        }
        if state.need_not_wait(&request) {
            state.grant(&request);
            return Outcome::Held;
        }
        state.queue.push(Waiter { request, passes: Vec::new(), thread: std::thread::current() });
        // No transaction waits for an owner without locks, so its request closes no circle.
        if holds_any && !state.dissolve_circles(owner) {
            return Outcome::Deadlock;
        }
        drop(state);
        perf_context::waiting(clock, Cause::Lock, || self.wait(owner, timeout, clock))
    }

    /// Waits until the owner's queued request is granted.
    fn wait(&self, owner: Owner, timeout: Duration, clock: &dyn Clock) -> Outcome {
        let timeout_us = u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX);
        let until = clock.monotonic_us().saturating_add(timeout_us);
        loop {
            let mut state = self.state.lock();
            if !state.is_waiting(owner) {
                return Outcome::Held;
            }
            let now = clock.monotonic_us();
            if now >= until {
                state.give_up(owner);
                return Outcome::TimedOut;
            }
            drop(state);
            clock.park(Duration::from_micros(until - now));
        }
    }
}

/// The locks of one transaction, released on drop.
#[derive(Debug)]
pub(super) struct Locks {
    table: Arc<LockTable>,
    owner: Owner,
    held: RefCell<Vec<(TreeId, KeyRange)>>,
}

impl Locks {
    pub(super) fn new(table: &Arc<LockTable>) -> Locks {
        let owner = table.owners.fetch_add(1, Ordering::Relaxed);
        Locks { table: Arc::clone(table), owner, held: RefCell::default() }
    }

    #[cfg(test)]
    pub(super) fn nobody_holds_any(&self) -> bool {
        let state = self.table.state.lock();
        state.trees.is_empty() && state.queue.is_empty()
    }

    /// The owner's number, unique among the transactions of the store.
    pub(super) fn owner(&self) -> Owner {
        self.owner
    }

    pub(super) fn take(
        &self,
        tree: TreeId,
        keys: KeyRange,
        mode: LockMode,
        timeout: Duration,
        clock: &dyn Clock,
    ) -> Outcome {
        let mut held = self.held.borrow_mut();
        let request = Request { owner: self.owner, tree, keys: keys.clone(), mode };
        let outcome = self.table.take(request, !held.is_empty(), timeout, clock);
        if outcome == Outcome::Held {
            held.push((tree, keys));
        }
        outcome
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        let held = self.held.get_mut();
        if !held.is_empty() {
            self.table.state.lock().release(self.owner, held);
        }
    }
}
