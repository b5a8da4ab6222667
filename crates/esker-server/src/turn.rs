//! Writes of several clients that are committed together.
//!
//! ```text
//! client a   step --- others ---------------------- commit: all three -- replies
//! client b            step --- others ------------------------------------ replies
//! client c                     step --- others ----------------------------------- replies
//! ```
//! Commands see what those before them have written, whoever sent them. So a client is told nothing that relies on such
//! writes before they are committed. They are committed as one batch: all of them, or none.

use std::cell::RefCell;
use std::rc::Rc;

use tokio::sync::Notify;

use crate::clients::Client;
use crate::server::Pending;

/// What becomes of the writes of a turn: `Err` is the message for those who rely on them.
#[derive(Default)]
pub(crate) struct Outcome {
    decided: RefCell<Option<Result<(), String>>>,
    told: Notify,
}

impl Outcome {
    pub(crate) fn decide(&self, outcome: Result<(), String>) {
        *self.decided.borrow_mut() = Some(outcome);
        self.told.notify_waiters();
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

/// What commands have written that is not committed, and who relies on it.
#[derive(Default)]
pub(crate) struct Turn {
    pub(crate) pending: Pending,
    /// Shared by the clients that rely on what is pending.
    outcome: Rc<Outcome>,
    /// The first one of them.
    first: Option<Rc<Client>>,
    /// How many turns there were before.
    number: u64,
}

/// How much was pending at some moment, of which turn.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    number: u64,
    bytes: usize,
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
        Extent { number: self.number, bytes: self.pending.memory_bytes() }
    }

    /// How many bytes of memory are pending, about, and how many of them were not `before`.
    pub(crate) fn grown_since(&self, before: Extent) -> (usize, usize) {
        let bytes = self.pending.memory_bytes();
        let old = if before.number == self.number { before.bytes } else { 0 };
        (bytes, bytes.saturating_sub(old))
    }

    /// Whether nothing is pending, and nobody waits to hear that it is committed.
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.first.is_none()
    }

    /// Ends the turn, and begins the next one. Returns what is pending, what becomes of it, and who was the first to rely on
    /// it.
    pub(crate) fn end(&mut self) -> (Pending, Rc<Outcome>, Option<Rc<Client>>) {
        let next = Turn { number: self.number + 1, ..Turn::default() };
        let Turn { pending, outcome, first, .. } = std::mem::replace(self, next);
        (pending, outcome, first)
    }
}
