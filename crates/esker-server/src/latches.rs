//! Keys that a command on another thread is about to write: no other command may look at them until it has.
//!
//! A command that finds one of its keys held waits, and has a ticket. Others may pass it as long as somebody holds one of its
//! keys who came before it: it could not go on anyway. When all of these have let go, it *bars* its keys: it stands in the queue
//! of each, and nobody else may begin with them. It goes on when those who have passed it have let go and it is the first in
//! each queue. So each has its turn, however many keys it has and however busy they are, and nobody waits for a long command
//! with which it has no key in common.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::canary::broken;
use crate::memory;

/// The hash of a key and its database. Keys that have the same by chance are held together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Latch(u64);

/// The keys that are held, and who waits for some.
#[derive(Default)]
pub(crate) struct Latches {
    /// Nobody can choose keys that have the same hash.
    hashes: RandomState,
    state: RefCell<State>,
    /// Whether somebody holds keys or waits for some.
    are_used: Cell<bool>,
}

/// The number of one that waits or holds. Who comes later has a higher one.
type Ticket = u64;

#[derive(Default)]
struct State {
    next: Ticket,
    /// Who holds something, with those who have come since and wait for some of it.
    holders: BTreeMap<Ticket, Vec<Ticket>>,
    /// Who holds each key: a job that waits to begin holds its keys while another one commits what was written to them.
    held: HashMap<Latch, Vec<Ticket>>,
    /// Who holds all keys.
    all: BTreeSet<Ticket>,
    waiting: BTreeMap<Ticket, Waiting>,
    /// Those who bar each key.
    queues: HashMap<Latch, BTreeSet<Ticket>>,
    /// Those who bar all keys.
    queue_for_all: BTreeSet<Ticket>,
    /// All who bar keys.
    barring: BTreeSet<Ticket>,
}

struct Waiting {
    /// `None`: all keys.
    keys: Option<Rc<[Latch]>>,
    /// How many of those who came before it hold some of its keys.
    earlier: usize,
    waker: Waker,
}

/// Held keys, until it is dropped.
pub(crate) struct Latched {
    latches: Rc<Latches>,
    ticket: Ticket,
    /// `None`: all keys.
    keys: Option<Vec<Latch>>,
}

impl Latches {
    #[inline]
    pub(crate) fn of(&self, database: u16, key: &[u8]) -> Latch {
        Latch(self.hashes.hash_one((database, key)))
    }

    /// Whether a command with these keys, which has not waited for them, may run now. `None`: all keys.
    pub(crate) fn are_free(&self, keys: Option<&[Latch]>) -> bool {
        let state = self.state.borrow();
        !state.are_held(keys) && !state.are_barred(keys)
    }

    /// Whether any command may run now.
    #[inline]
    pub(crate) fn are_all_free(&self) -> bool {
        !self.are_used.get()
    }

    /// Whether nobody holds any of these keys; `None`: any key.
    pub(crate) fn are_let_go(&self, keys: Option<&[Latch]>) -> bool {
        !self.state.borrow().are_held(keys)
    }

    /// Holds keys without a wait: it is the turn of the caller; or it has evaluated a command on them, and nothing may come
    /// between that and its commit. Who holds some of them already waits for the commit. `None`: all keys.
    pub(crate) fn hold(self: &Rc<Self>, keys: Option<Vec<Latch>>) -> Latched {
        let keys = if broken("server-latch") { keys.map(|_| Vec::new()) } else { keys };
        let ticket = self.change(|state| state.hold(keys.as_deref()));
        Latched { latches: Rc::clone(self), ticket, keys }
    }

    /// Waits for the turn of these keys. Nobody holds them then, until the caller waits for something else. `None`: all keys.
    pub(crate) async fn wait(&self, keys: Option<&[Latch]>) {
        if !self.are_free(keys) {
            let place = Place { latches: self, ticket: self.change(|state| state.queue(keys)) };
            poll_fn(|cx| place.poll(cx)).await;
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.borrow_mut();
        let changed = change(&mut state);
        self.are_used.set(!state.holders.is_empty() || !state.waiting.is_empty());
        changed
    }
}

impl State {
    fn ticket(&mut self) -> Ticket {
        self.next += 1;
        self.next
    }

    fn are_held(&self, keys: Option<&[Latch]>) -> bool {
        match keys {
            Some(keys) => !self.all.is_empty() || keys.iter().any(|key| self.held.contains_key(key)),
            None => !self.holders.is_empty(),
        }
    }

    fn are_barred(&self, keys: Option<&[Latch]>) -> bool {
        match keys {
            Some(keys) => {
                !self.queue_for_all.is_empty() || keys.iter().any(|key| self.queues.contains_key(key))
            }
            None => !self.barring.is_empty(),
        }
    }

    fn hold(&mut self, keys: Option<&[Latch]>) -> Ticket {
        let ticket = self.ticket();
        self.holders.insert(ticket, Vec::new());
        match keys {
            Some(keys) => keys.iter().for_each(|key| self.held.entry(*key).or_default().push(ticket)),
            None => {
                self.all.insert(ticket);
            }
        }
        ticket
    }

    fn let_go(&mut self, ticket: Ticket, keys: Option<&[Latch]>) {
        for key in keys.unwrap_or_default() {
            if let Some(holders) = self.held.get_mut(key) {
                holders.retain(|holder| *holder != ticket);
                if holders.is_empty() {
                    memory::remove(&mut self.held, key);
                }
            }
        }
        self.all.remove(&ticket);
        for later in self.holders.remove(&ticket).unwrap_or_default() {
            if let Some(waiting) = self.waiting.get_mut(&later) {
                waiting.earlier -= 1;
                if waiting.earlier == 0 {
                    self.bar(later);
                    self.wake(later);
                }
            }
        }
        self.wake_first(keys);
    }

    /// Adds one that waits.
    fn queue(&mut self, keys: Option<&[Latch]>) -> Ticket {
        let ticket = self.ticket();
        let earlier: BTreeSet<Ticket> = match keys {
            Some(keys) => {
                let of_keys = keys.iter().filter_map(|key| self.held.get(key)).flatten();
                of_keys.chain(&self.all).copied().collect()
            }
            None => self.holders.keys().copied().collect(),
        };
        for holder in &earlier {
            self.holders.entry(*holder).or_default().push(ticket);
        }
        let (keys, waker) = (keys.map(Rc::from), Waker::noop().clone());
        self.waiting.insert(ticket, Waiting { keys, earlier: earlier.len(), waker });
        if earlier.is_empty() {
            self.bar(ticket);
        }
        ticket
    }

    /// From now on, nobody passes it.
    fn bar(&mut self, ticket: Ticket) {
        let Some(waiting) = self.waiting.get(&ticket) else { return };
        self.barring.insert(ticket);
        match &waiting.keys {
            Some(keys) => {
                for key in keys.iter() {
                    self.queues.entry(*key).or_default().insert(ticket);
                }
            }
            None => {
                self.queue_for_all.insert(ticket);
            }
        }
    }

    fn is_its_turn(&self, ticket: Ticket) -> bool {
        let Some(waiting) = self.waiting.get(&ticket) else { return true };
        let is_first = |tickets: &BTreeSet<Ticket>| tickets.first() == Some(&ticket);
        let is_in_front = match &waiting.keys {
            Some(keys) => {
                self.queue_for_all.first().is_none_or(|all| *all > ticket)
                    && keys.iter().all(|key| self.queues.get(key).is_some_and(is_first))
            }
            None => is_first(&self.barring),
        };
        self.barring.contains(&ticket) && is_in_front && !self.are_held(waiting.keys.as_deref())
    }

    /// Removes one that waits.
    fn leave(&mut self, ticket: Ticket) {
        let Some(Waiting { keys, .. }) = self.waiting.remove(&ticket) else { return };
        if !self.barring.remove(&ticket) {
            for later in self.holders.values_mut() {
                if let Ok(place) = later.binary_search(&ticket) {
                    later.remove(place);
                }
            }
            return;
        }
        self.queue_for_all.remove(&ticket);
        for key in keys.as_deref().unwrap_or_default() {
            if let Some(queue) = self.queues.get_mut(key) {
                queue.remove(&ticket);
                if queue.is_empty() {
                    memory::remove(&mut self.queues, key);
                }
            }
        }
        self.wake_first(keys.as_deref());
    }

    fn wake(&self, ticket: Ticket) {
        if let Some(waiting) = self.waiting.get(&ticket) {
            waiting.waker.wake_by_ref();
        }
    }

    /// Wakes those whose turn it may be since these keys were let go, or one less waits for them.
    fn wake_first(&self, keys: Option<&[Latch]>) {
        match keys {
            Some(keys) => {
                let queues = keys.iter().filter_map(|key| self.queues.get(key));
                queues
                    .chain([&self.queue_for_all])
                    .filter_map(BTreeSet::first)
                    .for_each(|first| self.wake(*first));
            }
            None => self.barring.iter().for_each(|ticket| self.wake(*ticket)),
        }
    }
}

impl Drop for Latched {
    fn drop(&mut self) {
        self.latches.change(|state| state.let_go(self.ticket, self.keys.as_deref()));
    }
}

/// One that waits, until it is dropped.
struct Place<'a> {
    latches: &'a Latches,
    ticket: Ticket,
}

impl Place<'_> {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.latches.state.borrow_mut();
        if state.is_its_turn(self.ticket) {
            return Poll::Ready(());
        }
        if let Some(waiting) = state.waiting.get_mut(&self.ticket) {
            waiting.waker.clone_from(cx.waker());
        }
        Poll::Pending
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.latches.change(|state| state.leave(self.ticket));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::pin::Pin;

    use super::*;

    type Held = Pin<Box<dyn Future<Output = Latched>>>;

    impl Latches {
        fn all_of(&self, names: &str) -> Vec<Latch> {
            names.bytes().map(|name| self.of(0, &[name])).collect()
        }

        fn hold_all_of(self: &Rc<Self>, names: &str) -> Latched {
            self.hold(Some(self.all_of(names)))
        }

        async fn wait_and_hold(self: &Rc<Self>, keys: Option<Vec<Latch>>) -> Latched {
            self.wait(keys.as_deref()).await;
            self.hold(keys)
        }

        fn hold_soon(self: &Rc<Self>, names: Option<&str>) -> Held {
            let (latches, keys) = (Rc::clone(self), names.map(|names| self.all_of(names)));
            Box::pin(async move { latches.wait_and_hold(keys).await })
        }

        fn has_free(&self, names: &str) -> bool {
            self.are_free(Some(&self.all_of(names)))
        }
    }

    fn try_hold(held: &mut Held) -> Option<Latched> {
        match held.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(latched) => Some(latched),
            Poll::Pending => None,
        }
    }

    /// One that waits for all keys is passed while somebody was before it, and by nobody from then on.
    #[test]
    fn who_waits_for_all_keys_has_its_turn() {
        let latches = Rc::<Latches>::default();
        let first = latches.hold_all_of("a");
        let mut all = latches.hold_soon(None);
        assert!(try_hold(&mut all).is_none() && !latches.has_free("a"));
        let later = try_hold(&mut latches.hold_soon(Some("b"))).unwrap();
        drop(first);
        assert!(try_hold(&mut all).is_none());
        let mut too_late = latches.hold_soon(Some("c"));
        assert!(!latches.has_free("a") && try_hold(&mut too_late).is_none());
        let evaluated = latches.hold_all_of("d");
        drop(later);
        assert!(try_hold(&mut all).is_none(), "nothing comes between a command and its commit");
        drop(evaluated);
        let held = try_hold(&mut all).unwrap();
        drop(all);
        assert!(try_hold(&mut too_late).is_none());
        drop(held);
        assert!(try_hold(&mut too_late).is_some());
    }

    /// Others pass each key to each other without a pause: one that needs both keys has its turn all the same.
    #[test]
    fn who_has_many_keys_has_its_turn() {
        let latches = Rc::<Latches>::default();
        let [first, second] = ["a", "b"].map(|name| latches.hold_all_of(name));
        let mut both = latches.hold_soon(Some("ab"));
        assert!(try_hold(&mut both).is_none());
        drop(first);
        let passing = try_hold(&mut latches.hold_soon(Some("a"))).unwrap();
        drop(second);
        assert!(try_hold(&mut both).is_none());
        let mut others = ["a", "b"].map(|name| latches.hold_soon(Some(name)));
        assert!(others.iter_mut().all(|other| try_hold(other).is_none()));
        drop(passing);
        assert!(others.iter_mut().all(|other| try_hold(other).is_none()));
        let latched = try_hold(&mut both).unwrap();
        drop(both);
        assert!(others.iter_mut().all(|other| try_hold(other).is_none()));
        drop(latched);
        assert!(others.iter_mut().all(|other| try_hold(other).is_some()));
    }

    #[test]
    fn who_does_not_wait_any_more_is_in_nobodys_way() {
        let latches = Rc::<Latches>::default();
        for names in [Some("ab"), None] {
            let held = latches.hold_all_of("a");
            let mut gone = latches.hold_soon(names);
            assert!(try_hold(&mut gone).is_none());
            let passing = latches.hold_all_of("a");
            drop(held);
            let mut other = latches.hold_soon(Some("b"));
            assert!(try_hold(&mut gone).is_none() && try_hold(&mut other).is_none());
            drop(gone);
            assert!(try_hold(&mut other).is_some());
            drop(passing);
            assert!(latches.are_all_free());
        }
        let state = latches.state.borrow();
        assert!(state.queues.is_empty() && state.held.is_empty() && state.barring.is_empty());
    }

    #[test]
    fn a_key_that_is_held_twice_is_free_when_both_have_ended() {
        let latches = Rc::<Latches>::default();
        let (job, commit) = (latches.hold_all_of("ab"), latches.hold_all_of("aa"));
        drop(commit);
        assert!(!latches.has_free("a"));
        let all = latches.hold(None);
        drop(job);
        assert!(!latches.has_free("a") && !latches.are_all_free());
        drop(all);
        assert!(latches.has_free("a") && latches.are_all_free());
    }

    #[test]
    fn a_key_is_held_in_one_database() {
        let latches = Rc::<Latches>::default();
        let _held = latches.hold(Some(vec![latches.of(0, b"a")]));
        assert!(latches.are_free(Some(&[latches.of(1, b"a")])));
        assert!(!latches.are_free(Some(&[latches.of(0, b"a")])));
    }

    /// Each is woken when its turn comes, and nobody else holds its keys then.
    #[tokio::test]
    async fn each_of_many_has_its_turn() {
        let (latches, mut rng) = (Rc::<Latches>::default(), test_kit::Rng::new(test_kit::seed(1)));
        let mut random = move |below: u64| rng.below(below);
        let busy = Rc::new(RefCell::new(HashSet::new()));
        let local = tokio::task::LocalSet::new();
        for _ in 0..2000 {
            let names: BTreeSet<u64> = (0..=random(3)).map(|_| random(5)).collect();
            let keys = names.into_iter().map(|name| latches.of(0, &[name as u8])).collect::<Vec<_>>();
            let keys = (random(20) > 0).then_some(keys);
            let (latches, busy) = (Rc::clone(&latches), Rc::clone(&busy));
            let (comes_after, rests, gives_up) = (random(2000), random(3), random(4) == 0);
            local.spawn_local(async move {
                for _ in 0..comes_after {
                    tokio::task::yield_now().await;
                }
                let held = latches.wait_and_hold(keys.clone());
                let latched = if gives_up {
                    tokio::select! { biased; held = held => held, () = tokio::task::yield_now() => return }
                } else {
                    held.await
                };
                let holds = match &keys {
                    Some(keys) => keys.iter().copied().map(Some).collect(),
                    None => vec![None],
                };
                assert!(if keys.is_some() {
                    !busy.borrow().contains(&None)
                } else {
                    busy.borrow().is_empty()
                });
                assert!(holds.iter().all(|key| busy.borrow_mut().insert(*key)));
                for _ in 0..rests {
                    tokio::task::yield_now().await;
                }
                holds.iter().for_each(|key| assert!(busy.borrow_mut().remove(key)));
                drop(latched);
            });
        }
        local.await;
        assert!(latches.are_all_free());
    }
}
