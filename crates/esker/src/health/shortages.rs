//! Descriptors or memory that background work lacks. Nothing is broken, so the store tries again. A call that waits for
//! the work gets the error.

use std::time::Duration;

use parking_lot::Mutex;

use crate::env::JobKind;
use crate::error::Error;

/// How soon a step that lacked something is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// What the steps of background work have lacked since the store was opened.
#[derive(Debug, Default)]
pub(super) struct Shortages(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// For each job: what its last step lacked. The next step clears it.
    jobs: [Option<Error>; 4],
    /// How many steps lacked something.
    count: u64,
    /// What the last of these steps lacked.
    last: Option<Error>,
}

impl Shortages {
    /// A step of `job` begins.
    pub(super) fn begin_step(&self, job: JobKind) {
        self.0.lock().jobs[job as usize] = None;
    }

    /// A step of `job` has failed with `error`, because it lacked something.
    pub(super) fn note(&self, job: JobKind, error: &Error) {
        let mut state = self.0.lock();
        state.jobs[job as usize] = Some(error.duplicate());
        state.count += 1;
        state.last = Some(error.duplicate());
    }

    /// When `job` is to try again, if its last step lacked something.
    pub(super) fn retry_in(&self, job: JobKind) -> Option<Duration> {
        self.0.lock().jobs[job as usize].as_ref().map(|_| RETRY)
    }

    /// What the last step of `job` lacked. `None` once the next step has begun.
    pub(super) fn of_last_step(&self, job: JobKind) -> Option<Error> {
        self.0.lock().jobs[job as usize].as_ref().map(Error::duplicate)
    }

    pub(super) fn count(&self) -> u64 {
        self.0.lock().count
    }

    /// The last shortage, if there was one since [`Shortages::count`] returned `count`.
    pub(super) fn since(&self, count: u64) -> Option<Error> {
        let state = self.0.lock();
        state.last.as_ref().filter(|_| state.count > count).map(Error::duplicate)
    }
}
