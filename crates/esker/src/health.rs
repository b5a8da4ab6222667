//! Whether an open store takes calls and, if not, why; and the wait for background work, which may change that.
//!
//! ```text
//! open --- the disk is full ---> open, puts refused --- the disk has room again ---> open
//!   |                                |
//!   |--- another failure ------------'----> failed: reads alone; until the store is opened again
//!   '--- close ---------------------------> closing: no calls at all
//! ```
//!
//! A store that was opened for reading only takes no writes from the start. A shortage of descriptors or memory is not
//! a state: the store tries again, and only callers that wait for the work fail.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::env::JobKind;
use crate::error::{Error, ErrorKind, Result};
use crate::events::event;

/// How soon a step that lacked something is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// See the module's comment. All methods may be called by many threads at the same time.
#[derive(Debug)]
pub(crate) struct Health {
    dir: PathBuf,
    read_only: bool,
    closing: AtomicBool,
    /// The error that stopped the background work, if it has stopped.
    failure: Mutex<Option<Error>>,
    /// Whether there is a failure. With it, writers need not take the lock. Changed under the lock.
    has_failed: AtomicBool,
    shortages: Mutex<Shortages>,
    /// How often background work has made progress or failed. The condition signals that the number has grown.
    progress: (Mutex<u64>, Condvar),
}

/// Descriptors or memory that steps of background work have lacked since the store was opened.
#[derive(Debug, Default)]
struct Shortages {
    /// For each job: the resource that its last step lacked. The next step clears it.
    jobs: [Option<Error>; 4],
    /// How many steps lacked something.
    count: u64,
    /// The resource that the last of these steps lacked.
    last: Option<Error>,
}

impl Health {
    /// The health of a store in `dir` that has just been opened.
    pub(crate) fn new(dir: PathBuf, read_only: bool) -> Self {
        Health {
            dir,
            read_only,
            closing: AtomicBool::new(false),
            failure: Mutex::new(None),
            has_failed: AtomicBool::new(false),
            shortages: Mutex::default(),
            progress: (Mutex::new(0), Condvar::new()),
        }
    }

    /// Whether the store was opened for reading only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    // ---- closing -------------------------------------------------------------------------------------

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Makes all calls fail from now on.
    pub(crate) fn begin_closing(&self) {
        self.closing.store(true, Ordering::Release);
    }

    pub(crate) fn closed_error(&self) -> Error {
        Error::new(ErrorKind::Closed, "the store is closed").at(&self.dir)
    }

    /// Fails if the store is closing or closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closing() { Err(self.closed_error()) } else { Ok(()) }
    }

    // ---- failures ------------------------------------------------------------------------------------

    /// Fails if the store is closing, was opened for reading only, or has failed. A full disk does not make it fail:
    /// deletes, flushes and merges continue.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_open()?;
        if self.read_only {
            return Err(Error::new(ErrorKind::ReadOnly, "the store was opened for reading only"));
        }
        match self.failure() {
            Some(error) if error.kind() != ErrorKind::OutOfSpace => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether the disk is full, or the background work has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// The error that stopped the background work, if it has stopped.
    pub(crate) fn failure(&self) -> Option<Error> {
        if self.has_failed() { self.failure.lock().as_ref().map(Error::duplicate) } else { None }
    }

    /// Stops the background work because of `error`. An error of the kind `OutOfSpace` stops puts alone, until
    /// [`Health::recover`]. Any other error is permanent, and the first one stays.
    pub(crate) fn fail(&self, error: Error) {
        let mut failure = self.failure.lock();
        if failure.as_ref().is_none_or(|old| old.kind() == ErrorKind::OutOfSpace) {
            match (error.kind(), failure.is_some()) {
                (ErrorKind::OutOfSpace, true) => {}
                (ErrorKind::OutOfSpace, false) => event!(WARN, "disk full", { error: error.to_string() }),
                _ => event!(ERROR, "failed", { error: error.to_string() }),
            }
            *failure = Some(error);
            self.has_failed.store(true, Ordering::Release);
        }
        drop(failure);
        self.signal();
    }

    /// The disk has room again.
    pub(crate) fn recover(&self) {
        let mut failure = self.failure.lock();
        if failure.take_if(|error| error.kind() == ErrorKind::OutOfSpace).is_some() {
            event!(INFO, "disk has room again", { path: self.dir.display().to_string() });
        }
        self.has_failed.store(failure.is_some(), Ordering::Release);
    }

    // ---- shortages -----------------------------------------------------------------------------------

    /// A step of `job` begins.
    pub(crate) fn begin_step(&self, job: JobKind) {
        self.shortages.lock().jobs[job as usize] = None;
    }

    /// A step of `job` has failed with `error`, because it lacked descriptors or memory.
    pub(crate) fn note_shortage(&self, job: JobKind, error: &Error) {
        let mut shortages = self.shortages.lock();
        shortages.jobs[job as usize] = Some(error.duplicate());
        shortages.count += 1;
        shortages.last = Some(error.duplicate());
        drop(shortages);
        self.signal();
    }

    /// When `job` is to try again, if its last step lacked something.
    pub(crate) fn retry_in(&self, job: JobKind) -> Option<Duration> {
        self.shortages.lock().jobs[job as usize].as_ref().map(|_| RETRY)
    }

    /// The resource that the last step of `job` lacked. `None` once the next step has begun.
    pub(crate) fn shortage_in(&self, job: JobKind) -> Option<Error> {
        self.shortages.lock().jobs[job as usize].as_ref().map(Error::duplicate)
    }

    /// How many steps lacked something since the store was opened.
    pub(crate) fn shortages(&self) -> u64 {
        self.shortages.lock().count
    }

    /// The last shortage, if there was one since [`Health::shortages`] returned `count`.
    pub(crate) fn shortage_since(&self, count: u64) -> Option<Error> {
        let shortages = self.shortages.lock();
        shortages.last.as_ref().filter(|_| shortages.count > count).map(Error::duplicate)
    }

    // ---- waiting -------------------------------------------------------------------------------------

    /// Wakes all threads in [`Health::wait`]: background work has made progress or failed.
    pub(crate) fn signal(&self) {
        *self.progress.0.lock() += 1;
        self.progress.1.notify_all();
    }

    /// Waits until `is_done` returns `true`, or fails. It is called again after each [`Health::signal`], without a
    /// lock.
    pub(crate) fn wait(&self, mut is_done: impl FnMut() -> Result<bool>) -> Result<()> {
        loop {
            // Read before the call: a signal that comes during the call is not missed.
            let seen = *self.progress.0.lock();
            if is_done()? {
                return Ok(());
            }
            let mut signals = self.progress.0.lock();
            while *signals == seen {
                self.progress.1.wait(&mut signals);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: ErrorKind) -> Error {
        Error::new(kind, "a test")
    }

    #[test]
    fn a_full_disk_passes_and_other_failures_stay() {
        let health = Health::new(PathBuf::from("store"), false);
        assert!(health.check().is_ok() && !health.has_failed());
        health.fail(error(ErrorKind::OutOfSpace));
        assert!(health.check().is_ok() && health.has_failed());
        health.recover();
        assert!(health.failure().is_none() && !health.has_failed());
        health.fail(error(ErrorKind::OutOfSpace));
        health.fail(error(ErrorKind::Poisoned));
        health.fail(error(ErrorKind::Io));
        health.recover();
        assert_eq!(health.check().map_err(|error| error.kind()), Err(ErrorKind::Poisoned));
        health.begin_closing();
        assert_eq!(health.check().map_err(|error| error.kind()), Err(ErrorKind::Closed));
        let reader = Health::new(PathBuf::from("store"), true);
        assert_eq!(reader.check().map_err(|error| error.kind()), Err(ErrorKind::ReadOnly));
        assert!(reader.check_open().is_ok());
    }

    #[test]
    fn a_shortage_lasts_until_the_next_step() {
        let health = Health::new(PathBuf::from("store"), false);
        let before = health.shortages();
        health.note_shortage(JobKind::Compact, &error(ErrorKind::OutOfResources));
        assert!(
            health.shortage_in(JobKind::Compact).is_some() && health.retry_in(JobKind::Compact).is_some()
        );
        assert!(health.shortage_in(JobKind::Flush).is_none() && health.retry_in(JobKind::Flush).is_none());
        health.begin_step(JobKind::Compact);
        assert!(
            health.shortage_in(JobKind::Compact).is_none() && health.retry_in(JobKind::Compact).is_none()
        );
        assert!(health.shortage_since(before).is_some());
        assert!(health.shortage_since(health.shortages()).is_none());
    }

    /// Otherwise the thread would wait forever.
    #[test]
    fn no_signal_is_missed_that_comes_while_the_condition_is_asked() {
        let health = Health::new(PathBuf::from("store"), false);
        let mut asked = 0;
        let waited = health.wait(|| {
            asked += 1;
            health.signal();
            Ok(asked == 3)
        });
        assert!(waited.is_ok() && asked == 3);
        assert!(health.wait(|| Err(error(ErrorKind::Io))).is_err());
    }
}
