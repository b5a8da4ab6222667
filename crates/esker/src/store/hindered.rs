//! Background work that lacks descriptors or memory. Nothing is broken, so the store tries again, and whoever waits for the
//! work gets the error.

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
    /// By lane: what its last step lacked. The next step clears it.
    lanes: [Option<Error>; 4],
    /// How often a step lacked something.
    times: u64,
    /// What the last such step lacked.
    error: Option<Error>,
}

impl Hindered {
    /// A step in `lane` has failed for want of something.
    pub(super) fn note(&self, lane: Lane, error: &Error) {
        let mut state = self.0.lock();
        state.lanes[lane as usize] = Some(error.duplicate());
        state.times += 1;
        state.error = Some(error.duplicate());
    }

    /// A step in `lane` begins.
    pub(super) fn begin(&self, lane: Lane) {
        self.0.lock().lanes[lane as usize] = None;
    }

    /// How soon `lane` is to be tried again, if it was hindered.
    pub(super) fn again(&self, lane: Lane) -> Option<Duration> {
        self.0.lock().lanes[lane as usize].as_ref().map(|_| AGAIN)
    }

    /// What the last step in `lane` lacked, if the step failed for that and has not been tried again.
    pub(super) fn lacking(&self, lane: Lane) -> Option<Error> {
        self.0.lock().lanes[lane as usize].as_ref().map(Error::duplicate)
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
