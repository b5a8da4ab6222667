//! The memory of calls: what their messages are decoded to while they run, and their answers, which a client holds for as long as
//! it takes to read them.
//!
//! All connections share a limit for it ([`Memory`]). A connection counts what it has as that grows ([`Share`]). If there is no
//! more, it waits: those that need little first, and otherwise in the order in which they came. Several that wait might each
//! have a part of what the others need. So an answer that becomes large counts as long as an answer may be until it is made, and
//! one connection may exceed the limit until it has given enough back. While any waits, clients that read their answers too
//! slowly lose their connections.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::fail::{Fail, Outcome};

/// A connection has so many bytes for its calls, and what it reads ahead, that do not count.
const OWN: usize = 512 << 10;

/// How many bytes a second a client reads at least that holds memory for which others wait.
const LEAST_SPEED: u64 = 1 << 20;

/// About what an element of a list takes while its call runs, in bytes, unless its type says otherwise: with what it becomes, a column
/// that is read or a change of a row.
pub(crate) const ELEMENT_LEN: usize = 512;

/// What a call takes is counted in steps of so many bytes: it may have many lists.
const STEP: usize = 256 << 10;

/// An answer has room for so many bytes at least.
const SHORT: usize = 4 << 10;

/// A call is large if it needs more than this. The last quarter of the memory is for the others.
const LARGE: usize = 2 << 20;

/// Why a call fails that has waited too long.
pub(crate) const NO_MEMORY: &str = "the calls of all connections take too much memory now";

/// What all connections share.
pub(crate) struct Memory {
    /// The most bytes that are taken.
    len_max: usize,
    /// The most bytes of an answer.
    answer_len_max: usize,
    /// How long a connection waits.
    wait_max: Duration,
    /// For this long after sending begins, no client is too slow.
    grace: Duration,
    state: Mutex<State>,
    /// Notified when there is more, or another connection is the first that waits.
    changed: Condvar,
}

struct State {
    taken: usize,
    /// Whether there is a connection that may exceed the limit.
    is_exceeded: bool,
    /// Those that wait: whether the call is large, and a number that grows.
    waiting: BTreeSet<(bool, u64)>,
    /// The next one's number.
    next_ticket: u64,
    /// How many times there was no memory at once.
    waited: u64,
    /// Whether nobody may wait any more.
    is_ending: bool,
}

impl Memory {
    /// Memory of `len_max` bytes for calls whose answers have `answer_len_max` at most. A connection waits `wait_max` for it.
    pub(crate) fn new(len_max: usize, answer_len_max: usize, wait_max: Duration) -> Memory {
        let state = State {
            taken: 0,
            is_exceeded: false,
            waiting: BTreeSet::new(),
            next_ticket: 0,
            waited: 0,
            is_ending: false,
        };
        Memory {
            len_max,
            answer_len_max,
            wait_max,
            grace: wait_max / 20,
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many bytes are taken.
    pub(crate) fn taken(&self) -> u64 {
        self.state().taken as u64
    }

    /// From now on, nobody waits.
    pub(crate) fn end(&self) {
        self.state().is_ending = true;
        self.changed.notify_all();
    }

    /// How many times there was no memory at once.
    pub(crate) fn waited(&self) -> u64 {
        self.state().waited
    }

    /// How many connections wait.
    pub(crate) fn waiting(&self) -> u64 {
        self.state().waiting.len() as u64
    }
}

/// What a connection has of the memory. Dropped, it gives that back.
pub(crate) struct Share<'s> {
    memory: &'s Memory,
    /// What it has taken, beyond [`OWN`].
    taken: Cell<usize>,
    /// What the call takes that runs, without its answer.
    call: Cell<usize>,
    /// Whether it is the one that may exceed the limit.
    exceeds: Cell<bool>,
    /// Since when an answer is sent, and how many bytes the client has taken of it.
    begun: Cell<Instant>,
    sent: Cell<u64>,
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.give_back(0);
    }
}

impl<'s> Share<'s> {
    pub(crate) fn new(memory: &'s Memory) -> Share<'s> {
        Share {
            memory,
            taken: Cell::new(0),
            call: Cell::new(0),
            exceeds: Cell::new(false),
            begun: Cell::new(Instant::now()),
            sent: Cell::new(0),
        }
    }

    /// Counts bytes that the call takes until it has ended.
    ///
    /// # Errors
    /// As [`Share::make_room`].
    pub(crate) fn count_call(&self, len: usize) -> Outcome<()> {
        self.call.set(self.call.get().saturating_add(len));
        let counted = self.call.get().saturating_sub(OWN);
        self.reserve(counted.checked_next_multiple_of(STEP).unwrap_or(counted))
    }

    /// Makes room for `more` bytes of an answer, and counts it.
    ///
    /// # Errors
    /// When others have the memory for too long.
    #[inline]
    pub(crate) fn make_room(&self, answer: &mut Vec<u8>, more: usize) -> Outcome<()> {
        let len = answer.len().saturating_add(more);
        if len <= answer.capacity() { Ok(()) } else { self.grow(answer, len) }
    }

    #[cold]
    fn grow(&self, answer: &mut Vec<u8>, len: usize) -> Outcome<()> {
        // By half, so that few bytes are moved often.
        let usual = (answer.capacity() + answer.capacity() / 2).max(SHORT);
        let answer_len_max = self.memory.answer_len_max;
        // Not beyond a limit from which on it would have to wait.
        let limits = [OWN, OWN + LARGE, answer_len_max];
        let limit = limits.into_iter().find(|limit| len <= *limit).unwrap_or(answer_len_max);
        let capacity = len.max(usual.min(limit));
        let is_large = capacity > OWN + LARGE;
        self.count(if is_large { capacity.max(answer_len_max) } else { capacity })?;
        let more = capacity - answer.len();
        answer.try_reserve_exact(more).map_err(|_| Fail::for_now(format!("out of memory for {more} bytes")))
    }

    /// Counts an answer that has this capacity.
    ///
    /// # Errors
    /// As [`Share::make_room`].
    pub(crate) fn count(&self, capacity: usize) -> Outcome<()> {
        self.reserve(self.call.get().saturating_add(capacity).saturating_sub(OWN))
    }

    /// Takes what it lacks of `len` bytes.
    fn reserve(&self, len: usize) -> Outcome<()> {
        let Some(more) = len.checked_sub(self.taken.get()).filter(|more| *more > 0) else { return Ok(()) };
        let (memory, is_large) = (self.memory, len > LARGE);
        let len_max = if is_large { memory.len_max - memory.len_max / 4 } else { memory.len_max };
        let fits = |state: &State| state.taken.saturating_add(more) <= len_max;
        let mut state = memory.state();
        let is_next = state.waiting.range(..=(is_large, u64::MAX)).next().is_none();
        if !(self.exceeds.get() || is_next && fits(&state)) {
            let (ticket, until) = ((is_large, state.next_ticket), Instant::now() + memory.wait_max);
            state.next_ticket += 1;
            state.waited += 1;
            state.waiting.insert(ticket);
            let is_served = loop {
                if state.waiting.first() == Some(&ticket) {
                    if fits(&state) {
                        break true;
                    }
                    if !state.is_exceeded {
                        state.is_exceeded = true;
                        self.exceeds.set(true);
                        break true;
                    }
                }
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() || state.is_ending {
                    break false;
                }
                let waited = memory.changed.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            };
            state.waiting.remove(&ticket);
            memory.changed.notify_all();
            if !is_served {
                return Err(Fail::for_now(NO_MEMORY));
            }
        }
        state.taken = state.taken.saturating_add(more);
        self.taken.set(len);
        Ok(())
    }

    /// The call that runs has been done, and its answer has this capacity.
    ///
    /// # Errors
    /// As [`Share::make_room`].
    pub(crate) fn end_call(&self, capacity: usize) -> Outcome<()> {
        self.call.set(0);
        self.give_back(capacity);
        self.count(capacity)
    }

    /// Gives back what exceeds an answer of this capacity.
    pub(crate) fn give_back(&self, capacity: usize) {
        let kept = capacity.saturating_sub(OWN).min(self.taken.get());
        let less = self.taken.get() - kept;
        if less == 0 && !self.exceeds.get() {
            return;
        }
        let mut state = self.memory.state();
        state.taken = state.taken.saturating_sub(less);
        self.taken.set(kept);
        // Not before: each of several could keep a part of what exceeds the limit.
        if self.exceeds.get() && (kept == 0 || state.taken <= self.memory.len_max) {
            self.exceeds.set(false);
            state.is_exceeded = false;
        }
        if !state.waiting.is_empty() {
            self.memory.changed.notify_all();
        }
    }

    /// Whether memory of an answer may be kept for the next one: not if others might wait for it.
    pub(crate) fn may_keep(&self) -> bool {
        let state = self.memory.state();
        state.waiting.is_empty() && state.taken <= self.memory.len_max / 4
    }

    /// From now on, an answer is sent.
    pub(crate) fn begin_sending(&self) {
        self.begun.set(Instant::now());
        self.sent.set(0);
    }

    /// The client has taken so many bytes.
    pub(crate) fn sent(&self, len: usize) {
        self.sent.set(self.sent.get() + len as u64);
    }

    /// Whether the client reads so slowly that others must not wait for it.
    pub(crate) fn is_too_slow(&self) -> bool {
        let late = self.begun.get().elapsed().saturating_sub(self.memory.grace);
        self.taken.get() > 0
            && u128::from(self.sent.get()) * 1_000_000 < u128::from(LEAST_SPEED) * late.as_micros()
            && self.memory.waiting() > 0
    }
}

/// How long an answer may be.
#[derive(Clone, Copy)]
pub(crate) struct ReplyLimits<'s> {
    /// The most bytes of a reply.
    pub(crate) len_max: usize,
    /// A list of rows ends early when it has so many bytes.
    pub(crate) rows_len: usize,
    /// A row is left off before a cell with which there would be more bytes than so many.
    pub(crate) pauses_at: usize,
    /// What counts the memory.
    pub(crate) share: &'s Share<'s>,
}

#[cfg(test)]
mod tests;
