//! Clients that wait for elements (`BLPOP` and its kin), in the order in which they came.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;

use esker_redis::Spec;
use tokio::sync::oneshot;

use crate::clients::Client;
use crate::connection::is_move;
use crate::latches::Latched;
use crate::memory;
use crate::wake::LocalNotify;

/// The number of a wait.
pub(crate) type WaiterId = u64;

/// A blocking command whose keys have no element yet.
pub(crate) struct Waiter {
    pub(crate) client: Rc<Client>,
    pub(crate) spec: &'static Spec,
    pub(crate) arguments: Vec<Vec<u8>>,
    pub(crate) database: u16,
    /// Those that an element may come to.
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) answer: oneshot::Sender<Answer>,
    pub(crate) held: Rc<Held>,
    /// Whether its wait ends at some time.
    pub(crate) has_timeout: bool,
}

/// How a wait has ended.
pub(crate) enum Answer {
    /// With these bytes of a reply.
    Reply(Vec<u8>),
    /// The client has to try itself, in the pool: before all others, if it has got its keys.
    Try(Option<Latched>),
}

/// What others do with a waiter: the keys that they held when it was to be served with them, and whether it is served.
#[derive(Default)]
pub(crate) struct Held {
    keys: RefCell<BTreeSet<Vec<u8>>>,
    told: LocalNotify,
    /// Whether a turn has done its command that is not decided. Then its wait ends with that turn, or goes on.
    is_served: Cell<bool>,
    settled: LocalNotify,
}

impl Held {
    fn add(&self, key: &[u8]) {
        if !self.keys.borrow().contains(key) {
            self.keys.borrow_mut().insert(key.to_vec());
            self.told.notify();
        }
    }

    pub(crate) fn is_served(&self) -> bool {
        self.is_served.get()
    }

    pub(crate) fn set_served(&self, is_served: bool) {
        self.is_served.set(is_served);
        if !is_served {
            self.settled.notify();
        }
    }

    /// Waits until no turn has done its command.
    pub(crate) async fn unserved(&self) {
        while self.is_served.get() {
            self.settled.notified().await;
        }
    }

    pub(crate) fn take(&self) -> BTreeSet<Vec<u8>> {
        self.keys.take()
    }

    /// Waits until there are some. They stay until they are taken.
    pub(crate) async fn some(&self) -> BTreeSet<Vec<u8>> {
        while self.keys.borrow().is_empty() {
            self.told.notified().await;
        }
        self.keys.borrow().clone()
    }
}

impl Waiter {
    /// It cannot be served with `key` now: it will try again when those who hold it let go, and see to those behind it.
    pub(crate) fn note_held(&self, key: &[u8]) {
        self.held.add(key);
    }

    /// The arguments of its command, as if `key` were its only key: Redis serves a client with the key that gets an
    /// element, whatever the others hold.
    pub(crate) fn arguments_for<'a>(&'a self, key: &'a [u8]) -> Vec<&'a [u8]> {
        let all = self.arguments.as_slice();
        if is_move(self.spec) {
            return all.iter().map(Vec::as_slice).collect();
        }
        let count = self.keys.len();
        let (begin, end): (&[&[u8]], &[Vec<u8>]) = match self.spec.name {
            "blmpop" | "bzmpop" => (&[&all[0], &all[1], b"1", key], &all[3 + count..]),
            _ => (&[&all[0], key], &all[1 + count..]),
        };
        begin.iter().copied().chain(end.iter().map(Vec::as_slice)).collect()
    }
}

/// See the module's comment.
#[derive(Default)]
pub(crate) struct Waiters {
    by_id: BTreeMap<WaiterId, Waiter>,
    by_key: HashMap<(u16, Vec<u8>), VecDeque<WaiterId>>,
    last: WaiterId,
}

impl Waiters {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// How many keys are waited for.
    pub(crate) fn keys(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn add(&mut self, waiter: Waiter) -> WaiterId {
        self.last += 1;
        for key in &waiter.keys {
            let queue = self.by_key.entry((waiter.database, key.clone())).or_default();
            if queue.back() != Some(&self.last) {
                queue.push_back(self.last);
            }
        }
        self.by_id.insert(self.last, waiter);
        self.last
    }

    /// Ends a wait, if it has not ended.
    pub(crate) fn remove(&mut self, id: WaiterId) -> Option<Waiter> {
        let waiter = self.by_id.remove(&id)?;
        for key in &waiter.keys {
            let place = (waiter.database, key.clone());
            if let Some(queue) = self.by_key.get_mut(&place) {
                queue.retain(|other| *other != id);
                if queue.is_empty() {
                    memory::remove(&mut self.by_key, &place);
                }
            }
        }
        Some(waiter)
    }

    /// Those that wait for the key, the first one first.
    pub(crate) fn of_key(&self, database: u16, key: &[u8]) -> Vec<WaiterId> {
        self.by_key
            .get(&(database, key.to_vec()))
            .map(|queue| queue.iter().copied().collect())
            .unwrap_or_default()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Waiter> {
        self.by_id.values()
    }

    pub(crate) fn get(&self, id: WaiterId) -> Option<&Waiter> {
        self.by_id.get(&id)
    }

    /// The wait of a client, if it has one.
    pub(crate) fn of_client(&self, client: u64) -> Option<WaiterId> {
        self.by_id.iter().find(|(_, waiter)| waiter.client.id == client).map(|(id, _)| *id)
    }
}
