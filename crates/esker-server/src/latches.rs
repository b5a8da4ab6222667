//! Keys that a command on another thread is about to write: no other command may look at them until it has.
//!
//! A command that finds one of its keys held waits in the queue of each of its keys. It goes on when all of them are free and
//! it is the first in each queue. Commands that come later wait behind it, even if their keys are free by then. So each has its
//! turn, however many keys it has and however busy they are.

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

/// The keys that are held.
#[derive(Default)]
pub(crate) struct Latches {
    /// Nobody can choose keys that have the same hash.
    hashes: RandomState,
    /// How often each key is held: a job that waits to begin holds its keys while another one commits what was written to them.
    held: RefCell<HashMap<Latch, usize>>,
    /// How often all keys are held.
    all: Cell<usize>,
    queues: RefCell<Queues>,
}

/// The number of one that waits. Who comes later has a higher one.
type Ticket = u64;

/// Those who wait.
#[derive(Default)]
struct Queues {
    next: Ticket,
    waiting: BTreeMap<Ticket, Waker>,
    of_keys: HashMap<Latch, BTreeSet<Ticket>>,
    /// Those who wait for all keys.
    of_all: BTreeSet<Ticket>,
}

/// Held keys, until it is dropped.
pub(crate) struct Latched {
    latches: Rc<Latches>,
    /// `None`: all keys.
    keys: Option<Vec<Latch>>,
}

impl Latches {
    #[inline]
    pub(crate) fn of(&self, database: u16, key: &[u8]) -> Latch {
        Latch(self.hashes.hash_one((database, key)))
    }

    /// Whether a command with these keys may run now, if nobody waits in front of it.
    #[inline]
    pub(crate) fn are_free(&self, keys: impl IntoIterator<Item = Latch>) -> bool {
        if self.are_all_free() {
            return true;
        }
        let (held, queues) = (self.held.borrow(), self.queues.borrow());
        let mut keys = keys.into_iter();
        self.all.get() == 0
            && queues.of_all.is_empty()
            && !keys.any(|key| held.contains_key(&key) || queues.of_keys.contains_key(&key))
    }

    /// Whether nobody holds any of these keys; `None`: any key.
    pub(crate) fn are_let_go(&self, keys: Option<&[Latch]>) -> bool {
        match keys {
            Some(keys) => {
                let held = self.held.borrow();
                self.all.get() == 0 && !keys.iter().any(|key| held.contains_key(key))
            }
            None => self.is_nothing_held(),
        }
    }

    /// Whether any command may run now.
    #[inline]
    pub(crate) fn are_all_free(&self) -> bool {
        self.is_nothing_held() && self.queues.borrow().waiting.is_empty()
    }

    #[inline]
    fn is_nothing_held(&self) -> bool {
        self.all.get() == 0 && self.held.borrow().is_empty()
    }

    /// Waits for the turn of these keys, and holds them. `None`: all keys.
    pub(crate) async fn hold(self: &Rc<Self>, keys: Option<Vec<Latch>>) -> Latched {
        self.wait(keys.as_deref()).await;
        self.hold_now(keys)
    }

    /// Holds keys without a wait: a command was evaluated on them, and nothing may come between it and its commit, not even
    /// one whose turn it is. Who holds some of them already waits for the commit. `None`: all keys.
    pub(crate) fn hold_now(self: &Rc<Self>, keys: Option<Vec<Latch>>) -> Latched {
        match &keys {
            Some(_) if broken("server-latch") => {}
            Some(keys) => {
                let mut held = self.held.borrow_mut();
                keys.iter().for_each(|key| *held.entry(*key).or_default() += 1);
            }
            None => self.all.set(self.all.get() + 1),
        }
        Latched { latches: Rc::clone(self), keys }
    }

    /// Waits for the turn of these keys. They are free then, until the caller waits for something else. `None`: all keys.
    pub(crate) async fn wait(&self, keys: Option<&[Latch]>) {
        let may_run = match keys {
            Some(keys) => self.are_free(keys.iter().copied()),
            None => self.are_all_free(),
        };
        if !may_run {
            let place = Place::last(self, keys);
            poll_fn(|cx| place.poll(cx)).await;
        }
    }

    /// Wakes those whose turn it may be since these keys are free, or nobody waits for them in front of others any more.
    fn wake(&self, keys: Option<&[Latch]>) {
        let queues = self.queues.borrow();
        let wake = |ticket: Option<&Ticket>| {
            if let Some(waker) = ticket.and_then(|ticket| queues.waiting.get(ticket)) {
                waker.wake_by_ref();
            }
        };
        match keys {
            Some(keys) => {
                keys.iter().for_each(|key| wake(queues.of_keys.get(key).and_then(BTreeSet::first)));
                wake(queues.of_all.first());
            }
            None => queues.waiting.values().for_each(Waker::wake_by_ref),
        }
    }
}

impl Drop for Latched {
    fn drop(&mut self) {
        match &self.keys {
            Some(keys) => {
                let mut held = self.latches.held.borrow_mut();
                for key in keys {
                    if let Some(times) = held.get_mut(key) {
                        *times -= 1;
                        if *times == 0 {
                            memory::remove(&mut held, key);
                        }
                    }
                }
            }
            None => self.latches.all.set(self.latches.all.get() - 1),
        }
        self.latches.wake(self.keys.as_deref());
    }
}

/// A place in the queues, until it is dropped.
struct Place<'a> {
    latches: &'a Latches,
    ticket: Ticket,
    /// `None`: all keys.
    keys: Option<&'a [Latch]>,
}

impl<'a> Place<'a> {
    /// The last place.
    fn last(latches: &'a Latches, keys: Option<&'a [Latch]>) -> Place<'a> {
        let mut queues = latches.queues.borrow_mut();
        let ticket = queues.next;
        queues.next += 1;
        queues.waiting.insert(ticket, Waker::noop().clone());
        match keys {
            Some(keys) => keys.iter().for_each(|key| {
                queues.of_keys.entry(*key).or_default().insert(ticket);
            }),
            None => {
                queues.of_all.insert(ticket);
            }
        }
        Place { latches, ticket, keys }
    }

    fn is_its_turn(&self) -> bool {
        let queues = self.latches.queues.borrow();
        let is_first = |tickets: &BTreeSet<Ticket>| tickets.first() == Some(&self.ticket);
        let is_in_front = match self.keys {
            Some(keys) => {
                queues.of_all.first().is_none_or(|all| *all > self.ticket)
                    && keys.iter().all(|key| queues.of_keys.get(key).is_some_and(is_first))
            }
            None => queues.waiting.keys().next() == Some(&self.ticket),
        };
        is_in_front && self.latches.are_let_go(self.keys)
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_its_turn() {
            return Poll::Ready(());
        }
        if let Some(waker) = self.latches.queues.borrow_mut().waiting.get_mut(&self.ticket) {
            waker.clone_from(cx.waker());
        }
        Poll::Pending
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut queues = self.latches.queues.borrow_mut();
        queues.waiting.remove(&self.ticket);
        for key in self.keys.unwrap_or_default() {
            if let Some(tickets) = queues.of_keys.get_mut(key) {
                tickets.remove(&self.ticket);
                if tickets.is_empty() {
                    memory::remove(&mut queues.of_keys, key);
                }
            }
        }
        if self.keys.is_none() {
            queues.of_all.remove(&self.ticket);
        }
        drop(queues);
        self.latches.wake(self.keys);
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

        fn hold_soon(self: &Rc<Self>, names: Option<&str>) -> Held {
            let (latches, keys) = (Rc::clone(self), names.map(|names| self.all_of(names)));
            Box::pin(async move { latches.hold(keys).await })
        }

        fn has_free(&self, names: &str) -> bool {
            self.are_free(self.all_of(names))
        }
    }

    fn try_hold(held: &mut Held) -> Option<Latched> {
        match held.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(latched) => Some(latched),
            Poll::Pending => None,
        }
    }

    /// One that waits for all keys goes before those that come later, but not between a command and its commit.
    #[test]
    fn who_waits_for_all_keys_has_its_turn() {
        let latches = Rc::<Latches>::default();
        let first = latches.hold_now(Some(latches.all_of("a")));
        let (mut all, mut later) = (latches.hold_soon(None), latches.hold_soon(Some("b")));
        assert!(try_hold(&mut all).is_none() && try_hold(&mut later).is_none());
        let evaluated = latches.hold_now(Some(latches.all_of("c")));
        assert!(!latches.has_free("c") && !latches.has_free("d"));
        drop((first, evaluated));
        assert!(try_hold(&mut later).is_none());
        let held = try_hold(&mut all).unwrap();
        assert!(!latches.has_free("b"));
        drop(all);
        drop(held);
        assert!(try_hold(&mut later).is_some());
    }

    /// Two others pass each key to each other without a pause: one that needs both keys has its turn all the same.
    #[test]
    fn who_has_many_keys_has_its_turn() {
        let latches = Rc::<Latches>::default();
        let mut held = ["a", "b"].map(|name| latches.hold_now(Some(latches.all_of(name))));
        let mut both = latches.hold_soon(Some("ab"));
        assert!(try_hold(&mut both).is_none());
        let mut others = ["a", "b"].map(|name| latches.hold_soon(Some(name)));
        assert!(others.iter_mut().all(|other| try_hold(other).is_none()));
        held[0] = latches.hold_now(Some(latches.all_of("c")));
        assert!(!latches.has_free("a"), "the one in front comes before those that have only just come");
        assert!(try_hold(&mut others[0]).is_none() && try_hold(&mut both).is_none());
        drop(held);
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
        let held = latches.hold_now(Some(latches.all_of("a")));
        for names in [Some("ab"), None] {
            let (mut gone, mut other) = (latches.hold_soon(names), latches.hold_soon(Some("b")));
            assert!(try_hold(&mut gone).is_none() && try_hold(&mut other).is_none());
            drop(gone);
            assert!(try_hold(&mut other).is_some());
        }
        drop(held);
        assert!(latches.are_all_free() && latches.queues.borrow().of_keys.is_empty());
    }

    #[test]
    fn a_key_that_is_held_twice_is_free_when_both_have_ended() {
        let latches = Rc::<Latches>::default();
        let hold = |names| latches.hold_now(Some(latches.all_of(names)));
        let (job, commit) = (hold("ab"), hold("aa"));
        drop(commit);
        assert!(!latches.has_free("a"));
        let all = latches.hold_now(None);
        drop(job);
        assert!(!latches.has_free("a") && !latches.are_all_free());
        drop(all);
        assert!(latches.has_free("a") && latches.are_all_free());
    }

    #[test]
    fn a_key_is_held_in_one_database() {
        let latches = Rc::<Latches>::default();
        let _held = latches.hold_now(Some(vec![latches.of(0, b"a")]));
        assert!(latches.are_free([latches.of(1, b"a")]) && !latches.are_free([latches.of(0, b"a")]));
    }

    /// All that waits is woken when its turn comes.
    #[tokio::test]
    async fn each_of_many_has_its_turn() {
        let seed = 7 + std::process::id() as u64;
        println!("seed {seed}");
        let (latches, mut state) = (Rc::<Latches>::default(), seed);
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let busy = Rc::new(RefCell::new(HashSet::new()));
        let local = tokio::task::LocalSet::new();
        for _ in 0..2000 {
            let names: BTreeSet<u64> = (0..=random(3)).map(|_| random(5)).collect();
            let keys = names.into_iter().map(|name| latches.of(0, &[name as u8])).collect::<Vec<_>>();
            let keys = (random(20) > 0).then_some(keys);
            let (latches, busy, rests, gives_up) =
                (Rc::clone(&latches), Rc::clone(&busy), random(3), random(4) == 0);
            local.spawn_local(async move {
                let held = latches.hold(keys.clone());
                let latched = if gives_up {
                    tokio::select! { biased; held = held => held, () = tokio::task::yield_now() => return }
                } else {
                    held.await
                };
                match &keys {
                    Some(keys) => assert!(keys.iter().all(|key| busy.borrow_mut().insert(*key))),
                    None => assert!(busy.borrow().is_empty()),
                }
                for _ in 0..rests {
                    tokio::task::yield_now().await;
                }
                let mut busy = busy.borrow_mut();
                keys.iter().flatten().for_each(|key| assert!(busy.remove(key)));
                drop(busy);
                drop(latched);
            });
        }
        local.await;
        assert!(latches.are_all_free());
    }
}
