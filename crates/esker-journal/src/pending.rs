//! The wait for the decision of a proposal.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use esker::{Error, ErrorKind};

use crate::outcome::{Outcome, Undone};

/// What [`crate::Journal::propose`] returns.
#[derive(Debug)]
pub enum Proposed {
    /// It was decided within the call.
    Decided(Outcome),
    /// It is in flight.
    Later(Pending),
}

impl Proposed {
    /// Blocks the thread until it is decided.
    ///
    /// # Errors
    /// If it is not done.
    pub fn wait(self) -> Outcome {
        match self {
            Proposed::Decided(outcome) => outcome,
            Proposed::Later(pending) => pending.wait(),
        }
    }
}

#[derive(Default)]
struct State {
    outcome: Option<Outcome>,
    waker: Option<Waker>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    decided: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A proposal in flight. Dropping it ends the wait, not the proposal.
pub struct Pending(Arc<Shared>);

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pending")
    }
}

impl Pending {
    /// A proposal, and what decides it.
    #[must_use]
    pub fn new() -> (Decider, Pending) {
        let shared = Arc::<Shared>::default();
        (Decider(Some(Arc::clone(&shared))), Pending(shared))
    }

    /// Blocks the thread until it is decided.
    ///
    /// # Errors
    /// If it is not done.
    pub fn wait(self) -> Outcome {
        let mut state = self.0.state();
        loop {
            match state.outcome.take() {
                Some(outcome) => return outcome,
                None => state = self.0.decided.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl Future for Pending {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let mut state = self.0.state();
        match state.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Decides a proposal in flight. A proposal whose decider is dropped is unknown.
pub struct Decider(Option<Arc<Shared>>);

impl fmt::Debug for Decider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Decider")
    }
}

impl Decider {
    /// Decides the proposal.
    pub fn decide(mut self, outcome: Outcome) {
        self.tell(outcome);
    }

    fn tell(&mut self, outcome: Outcome) {
        let Some(shared) = self.0.take() else { return };
        let waker = {
            let mut state = shared.state();
            state.outcome = Some(outcome);
            state.waker.take()
        };
        shared.decided.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for Decider {
    fn drop(&mut self) {
        if self.0.is_some() {
            let error = Error::new(ErrorKind::Closed, "the journal has ended before it was decided");
            self.tell(Err(Undone::Unknown(error)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Wake;

    use super::*;

    struct Woken(std::sync::atomic::AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, std::sync::atomic::Ordering::SeqCst);
        }
    }

    fn refused() -> Outcome {
        Err(Undone::Refused(Error::new(ErrorKind::Busy, "not now")))
    }

    #[test]
    fn a_decision_wakes_the_task_and_the_thread_that_wait() {
        let woken = Arc::new(Woken(false.into()));
        let waker = Waker::from(Arc::clone(&woken));
        let (decider, mut pending) = Pending::new();
        let mut cx = Context::from_waker(&waker);
        assert!(Pin::new(&mut pending).poll(&mut cx).is_pending());
        assert!(!woken.0.load(std::sync::atomic::Ordering::SeqCst));
        decider.decide(refused());
        assert!(woken.0.load(std::sync::atomic::Ordering::SeqCst));
        assert!(matches!(Pin::new(&mut pending).poll(&mut cx), Poll::Ready(Err(Undone::Refused(_)))));

        let (decider, pending) = Pending::new();
        let waits = std::thread::scope(|scope| {
            let waits = scope.spawn(move || pending.wait());
            decider.decide(refused());
            waits.join().unwrap()
        });
        assert!(matches!(waits, Err(Undone::Refused(_))));
    }

    #[test]
    fn what_is_never_decided_is_unknown() {
        let (decider, pending) = Pending::new();
        drop(decider);
        assert!(matches!(pending.wait(), Err(Undone::Unknown(_))));
    }
}
