//! Background work that lacks descriptors or memory: nothing is broken, so it is tried again, and who would wait for it is told.

use std::time::Duration;

use parking_lot::Mutex;

use crate::env::Lane;
use crate::error::Error;

/// How soon work is tried again that lacked something.
const AGAIN: Duration = Duration::from_millis(100);

/// What background work has lacked.
#[derive(Debug, Default)]
pub(super) struct Hindered(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By lane: its last step was hindered.
    lanes: [bool; 4],
    /// How often a step was.
    times: u64,
    /// By what the last one was.
    error: Option<Error>,
}

impl Hindered {
    /// A step in `lane` has failed for want of something.
    pub(super) fn note(&self, lane: Lane, error: &Error) {
        let mut state = self.0.lock();
        state.lanes[lane as usize] = true;
        state.times += 1;
        state.error = Some(error.duplicate());
    }

    /// A step in `lane` was done.
    pub(super) fn is_over(&self, lane: Lane) {
        self.0.lock().lanes[lane as usize] = false;
    }

    /// How soon `lane` is to be tried again, if it was hindered.
    pub(super) fn again(&self, lane: Lane) -> Option<Duration> {
        self.0.lock().lanes[lane as usize].then_some(AGAIN)
    }

    /// How often a step was hindered so far.
    pub(super) fn times(&self) -> u64 {
        self.0.lock().times
    }

    /// By what a step was hindered since there were so many `times`, if one was.
    pub(super) fn since(&self, times: u64) -> Option<Error> {
        let state = self.0.lock();
        state.error.as_ref().filter(|_| state.times > times).map(Error::duplicate)
    }
}
