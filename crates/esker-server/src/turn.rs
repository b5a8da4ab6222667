//! Writes of several clients that are committed together, and those that are on their way into the store.
//!
//! ```text
//! client a   step --- others ---------------------- end: all three ... decided -- replies
//! client b            step --- others .................................. decided -- replies
//! client c                     step --- others ......................... decided -- replies
//! ```
//! Commands see what those before them have written, whichever client sent them: of the open turn, and of the turns in
//! flight, which were proposed to the journal and are not decided. A client is told nothing that relies on such writes before
//! they are done. A turn is one batch: all of it takes effect, or nothing.
//!
//! Turns are decided in their order. If one is not done, neither is any later one on the same [`Ground`].

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use esker_journal::{Ground, Undone};
use esker_redis::{Event, Writes};
use tokio::sync::Notify;

use crate::clients::Client;
use crate::connection::told;
use crate::server::Pending;
use crate::waiters::WaiterId;

/// What becomes of the writes of a turn: `Err` is the message for the clients that rely on them.
#[derive(Default)]
pub(crate) struct Outcome {
    decided: RefCell<Option<Result<(), String>>>,
    /// Whether the turn has written something.
    has_written: Cell<bool>,
    told: Notify,
}

impl Outcome {
    pub(crate) fn decide(&self, outcome: Result<(), String>) {
        *self.decided.borrow_mut() = Some(outcome);
        self.told.notify_waiters();
    }

    /// The turn is done.
    pub(crate) fn done(&self, has_written: bool) {
        self.has_written.set(has_written);
        self.decide(Ok(()));
    }

    /// Whether the turn is done and has written something, so that the durability of its replies may take a sync.
    pub(crate) fn has_written(&self) -> bool {
        self.has_written.get()
    }

    /// `None` as long as it is not decided.
    pub(crate) fn get(&self) -> Option<Result<(), String>> {
        self.decided.borrow().clone()
    }

    /// Waits until it is decided.
    pub(crate) async fn wait(&self) {
        loop {
            let told = self.told.notified();
            if self.decided.borrow().is_some() {
                return;
            }
            told.await;
        }
    }
}

/// Why a turn has not taken effect.
#[derive(Clone)]
pub(crate) struct Loss {
    /// For the clients that rely on it.
    pub(crate) message: String,
    /// Whether it may have taken effect all the same.
    pub(crate) is_unknown: bool,
}

impl From<Undone> for Loss {
    fn from(undone: Undone) -> Loss {
        Loss { is_unknown: matches!(undone, Undone::Unknown(_)), message: told(&undone.into()) }
    }
}

/// The reply to a blocked client whose command a turn has done.
pub(crate) struct Serving {
    pub(crate) id: WaiterId,
    pub(crate) reply: Vec<u8>,
}

/// What commands have written that was not proposed, and who relies on it.
#[derive(Default)]
pub(crate) struct Turn {
    pub(crate) pending: Pending,
    /// The blocked clients that are answered when it is done.
    pub(crate) served: Vec<Serving>,
    /// Shared by the clients that rely on what is pending.
    outcome: Rc<Outcome>,
    /// The first one of them.
    first: Option<Rc<Client>>,
    /// How many turns there were before.
    number: u64,
}

/// A turn that has ended.
#[derive(Default)]
pub(crate) struct Ended {
    pub(crate) pending: Pending,
    pub(crate) served: Vec<Serving>,
    /// What becomes of it.
    pub(crate) outcome: Rc<Outcome>,
    /// The first client that has relied on it.
    pub(crate) first: Option<Rc<Client>>,
}

/// How much was pending at some moment, of which turn.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    number: u64,
    bytes: usize,
    touched: usize,
}

impl Turn {
    /// What becomes of the writes, on which `client` relies from now on.
    pub(crate) fn join(&mut self, client: &Rc<Client>) -> Rc<Outcome> {
        if self.first.is_none() {
            self.first = Some(Rc::clone(client));
        }
        Rc::clone(&self.outcome)
    }

    /// Whether this is what becomes of the writes.
    pub(crate) fn has(&self, outcome: &Rc<Outcome>) -> bool {
        Rc::ptr_eq(&self.outcome, outcome)
    }

    /// How much is pending.
    pub(crate) fn extent(&self) -> Extent {
        let Pending { touched, .. } = &self.pending;
        Extent { number: self.number, bytes: self.pending.memory_bytes(), touched: touched.len() }
    }

    /// How many bytes of memory are pending, about, and how many of them were not `before`.
    pub(crate) fn grown_since(&self, before: Extent) -> (usize, usize) {
        let bytes = self.pending.memory_bytes();
        let old = if before.number == self.number { before.bytes } else { 0 };
        (bytes, bytes.saturating_sub(old))
    }

    /// Which keys were touched that were not `before`.
    pub(crate) fn touched_since(&self, before: Extent) -> Vec<(u16, Vec<u8>)> {
        let old = if before.number == self.number { before.touched } else { 0 };
        self.pending.touched.get(old..).unwrap_or_default().to_vec()
    }

    /// Whether nothing is pending, and no client waits to hear that it is done.
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.first.is_none() && self.served.is_empty()
    }

    /// Ends the turn, and begins the next one.
    pub(crate) fn end(&mut self) -> Ended {
        let next = Turn { number: self.number + 1, ..Turn::default() };
        let Turn { pending, served, outcome, first, .. } = std::mem::replace(self, next);
        Ended { pending, served, outcome, first }
    }
}

/// A turn that was proposed and is not decided.
pub(crate) struct Flight {
    number: u64,
    ground: Ground,
    /// Whether it relies on turns before it that are in flight.
    relies: bool,
    pub(crate) writes: Arc<Writes>,
    pub(crate) events: Vec<Event>,
    pub(crate) served: Vec<Serving>,
    pub(crate) outcome: Rc<Outcome>,
    decided: Option<Result<(), Loss>>,
}

/// The turns in flight, in the order of their proposal, which is that of their decisions.
pub(crate) struct Flights {
    turns: VecDeque<Flight>,
    /// The writes of those on the current ground, the oldest first.
    writes: Vec<Arc<Writes>>,
    bytes: usize,
    /// On what commands are evaluated now.
    ground: Ground,
    /// How many turns were in flight so far.
    count: u64,
}

impl Flights {
    pub(crate) fn new(ground: Ground) -> Flights {
        Flights { turns: VecDeque::new(), writes: Vec::new(), bytes: 0, ground, count: 0 }
    }

    /// How many turns are in flight.
    pub(crate) fn len(&self) -> usize {
        self.turns.len()
    }

    /// On what commands are evaluated now: the store, and [`Flights::writes`].
    pub(crate) fn ground(&self) -> Ground {
        self.ground
    }

    /// The writes in flight, the oldest first.
    pub(crate) fn writes(&self) -> &[Arc<Writes>] {
        &self.writes
    }

    /// What becomes of the newest turn in flight.
    pub(crate) fn newest(&self) -> Option<Rc<Outcome>> {
        self.turns.back().map(|flight| Rc::clone(&flight.outcome))
    }

    /// Whether turns of a lost ground are not decided yet.
    pub(crate) fn has_lost(&self) -> bool {
        self.turns.iter().any(|flight| flight.ground != self.ground)
    }

    /// The memory of the writes in flight, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a turn that was proposed on `ground`, and returns its number.
    pub(crate) fn add(&mut self, ended: Ended, ground: Ground) -> u64 {
        let Ended { pending, served, outcome, .. } = ended;
        let relies = pending.relies();
        let Pending { writes, events, .. } = pending;
        self.count += 1;
        self.bytes += writes.memory_bytes();
        let writes = Arc::new(writes);
        if ground == self.ground && !writes.is_empty() {
            self.writes.push(Arc::clone(&writes));
        }
        let number = self.count;
        let decided = None;
        self.turns.push_back(Flight { number, ground, relies, writes, events, served, outcome, decided });
        self.count
    }

    /// Notes what has become of a turn. `next`: the ground for new commands, if its own one is lost by that. Returns whether the
    /// current ground was lost.
    pub(crate) fn decide(
        &mut self,
        number: u64,
        outcome: Result<(), Loss>,
        next: impl FnOnce() -> Ground,
    ) -> bool {
        let Some(place) = self.turns.iter().position(|flight| flight.number == number) else { return false };
        let flight = &mut self.turns[place];
        // A read that relies on a lost turn is lost with it, whatever its barrier says.
        if !matches!(flight.decided, Some(Err(_))) {
            flight.decided = Some(outcome);
        }
        let Some(Err(loss)) = &flight.decided else { return false };
        let (ground, loss) = (flight.ground, loss.clone());
        for later in self.turns.range_mut(place + 1..) {
            if later.relies && later.writes.is_empty() && later.ground == ground {
                later.decided = Some(Err(loss.clone()));
            }
        }
        if ground != self.ground {
            return false;
        }
        self.writes.clear();
        self.ground = next();
        true
    }

    /// The oldest turn, if it is decided.
    pub(crate) fn pop_decided(&mut self) -> Option<(Flight, Result<(), Loss>)> {
        let decided = self.turns.front_mut()?.decided.take()?;
        let flight = self.turns.pop_front()?;
        self.bytes -= flight.writes.memory_bytes();
        if self.writes.first().is_some_and(|writes| Arc::ptr_eq(writes, &flight.writes)) {
            self.writes.remove(0);
        }
        Some((flight, decided))
    }
}
