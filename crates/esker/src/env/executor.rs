//! Runs background work: on threads of the store's own, one for each kind of job and more for merges, or step by step
//! in a test.
//!
//! A store is a [`Worker`]. The executor calls it for one step of a kind of job; it does the step, and returns whether
//! there was work. The [`Executor`] decides when to call. It holds the store weakly, so that dropping the last handle
//! ends the threads.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, ErrorKind, Result};
use crate::fs::running_threads;

/// The kinds of background jobs. No job waits for the result of another. Jobs that share a thread take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobKind {
    /// Prepares the next log segment and syncs the sealed ones. It is short, and mostly waits for the disk.
    Log,
    /// Flushes memtables. Writers may be waiting for it.
    Flush,
    /// Merges tables and removes files. No thread waits for it unless it falls far behind.
    Compact,
    /// Gives back the space of huge values that nothing needs any more.
    Blobs,
}

impl JobKind {
    /// All kinds.
    pub const ALL: [JobKind; 4] = [JobKind::Log, JobKind::Flush, JobKind::Compact, JobKind::Blobs];
}

/// Something with background work to do.
pub trait Worker: Send + Sync {
    /// Does one bounded step of `job`. Returns `false` if there was no work. Several threads may do steps of
    /// [`JobKind::Compact`] at the same time, but only one those of each other kind.
    fn run_one(&self, job: JobKind) -> bool;

    /// After how long to run a step of `job` without a notification.
    fn ask_again(&self, _job: JobKind) -> Duration {
        UNASKED
    }
}

/// Decides when background work runs.
pub trait Executor: Send + Sync + Debug {
    /// Begins to run the steps of `worker`. Called once for each store, when it is open.
    ///
    /// # Errors
    /// `OutOfResources` if the system gives too few threads. Then the store is not opened.
    fn start(&self, worker: Weak<dyn Worker>) -> Result<()>;

    /// Notes that there may be work for `job`. Never blocks and never runs the work itself. Without a notification,
    /// each job runs at the intervals of [`Worker::ask_again`]: values expire even without writes.
    fn notify(&self, job: JobKind);

    /// Whether a caller that waits for background work must run it itself.
    fn is_stepped(&self) -> bool;

    /// Ends the background work, and returns when no step is running. The store calls this when it closes.
    fn stop(&self);

    /// Calls `work` on this thread and, if it helps and the system gives them, on up to `helpers` others at the same
    /// time. Returns when all calls have returned. One call alone must do all of the work.
    fn side_by_side(&self, _helpers: usize, work: &(dyn Fn() + Sync)) {
        work();
    }

    /// How many processors are idle now, as far as is known.
    fn idle_processors(&self) -> usize {
        0
    }
}

/// Runs nothing automatically: a test, or a caller that has to wait, steps the store.
#[derive(Debug, Default)]
pub struct StepExecutor;

impl Executor for StepExecutor {
    fn start(&self, _worker: Weak<dyn Worker>) -> Result<()> {
        Ok(())
    }

    fn notify(&self, _job: JobKind) {}

    fn is_stepped(&self) -> bool {
        true
    }

    fn stop(&self) {}
}

/// Merges have their own thread: they may take long, or wait for a user's merge operator.
const THREADS_MIN: usize = 2;

/// How often a job runs without a notification: values expire even without writes.
pub(crate) const UNASKED: Duration = Duration::from_secs(30);

/// Beyond this, more threads find no more merges that may run at the same time.
const THREADS_MAX: usize = 8;

/// The jobs of each of `threads` threads, the most urgent first. Threads beyond one for each job merge tables.
fn jobs_of(threads: usize) -> Vec<&'static [JobKind]> {
    const MERGES: &[JobKind] = &[JobKind::Compact];
    match threads {
        0..3 => vec![&[JobKind::Log, JobKind::Flush, JobKind::Blobs], MERGES],
        3 => vec![&[JobKind::Log, JobKind::Blobs], &[JobKind::Flush], MERGES],
        _ => {
            let mut jobs: Vec<&[JobKind]> = vec![&[JobKind::Log], &[JobKind::Flush], &[JobKind::Blobs]];
            jobs.resize(threads.min(THREADS_MAX), MERGES);
            jobs
        }
    }
}

/// Threads that divide the jobs among them.
#[derive(Debug)]
pub(crate) struct ThreadExecutor {
    wanted: usize,
    /// Set once the threads have started. The system may give fewer than `wanted`.
    shifts: OnceLock<Vec<Arc<Shift>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    helpers_max: usize,
}

/// The jobs of one thread.
#[derive(Debug)]
struct Shift {
    jobs: &'static [JobKind],
    /// The jobs for which there may be work. A bit is set without the lock of `state`, and then the lock is taken
    /// before the thread is woken. This keeps the thread from going to sleep in between.
    pending: Jobs,
    state: Mutex<ShiftState>,
    changed: Condvar,
}

/// A set of jobs.
#[derive(Debug, Default)]
struct Jobs(AtomicU8);

impl Jobs {
    /// Returns whether the job was missing.
    fn add(&self, job: JobKind) -> bool {
        let bit = 1 << job as u8;
        self.0.fetch_or(bit, Ordering::AcqRel) & bit == 0
    }

    /// Returns whether the job was there.
    fn remove(&self, job: JobKind) -> bool {
        let bit = 1 << job as u8;
        self.0.fetch_and(!bit, Ordering::AcqRel) & bit != 0
    }

    fn is_empty(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}

#[derive(Debug, Default)]
struct ShiftState {
    /// For each job: whether it has to run after a while. Then it runs whenever another job of the thread does, since
    /// that begins the wait anew.
    expected: [bool; 4],
    stopped: bool,
}

impl Shift {
    /// Waits until there may be work for some job. After `longest`, there may be work for each of them. Returns `false`
    /// if the executor was stopped.
    fn wait(&self, longest: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.stopped && self.pending.is_empty() {
            self.changed.wait_for(&mut state, longest);
        }
        let is_time = self.pending.is_empty();
        for &job in self.jobs.iter().filter(|job| is_time || state.expected[**job as usize]) {
            self.pending.add(job);
        }
        !state.stopped
    }

    /// Takes the most urgent job for which there may be work.
    fn take(&self) -> Option<JobKind> {
        if self.state.lock().stopped {
            return None;
        }
        self.jobs.iter().copied().find(|job| self.pending.remove(*job))
    }

    /// Takes no lock if the thread knows already: writers may come here with each of their writes.
    fn notify(&self, job: JobKind) {
        if self.pending.add(job) {
            drop(self.state.lock());
            self.changed.notify_one();
        }
    }

    fn serve(&self, worker: &Weak<dyn Worker>) {
        let mut longest = UNASKED;
        while self.wait(longest) {
            while let Some(job) = self.take() {
                let Some(worker) = worker.upgrade() else { return };
                if worker.run_one(job) {
                    self.notify(job);
                }
            }
            let Some(worker) = worker.upgrade() else { return };
            longest = UNASKED;
            for &job in self.jobs {
                let after = worker.ask_again(job);
                self.state.lock().expected[job as usize] = after < UNASKED;
                longest = longest.min(after);
            }
        }
    }
}

impl ThreadExecutor {
    /// An executor with at most `threads` threads for jobs, and as many, two to four, to help with a huge value.
    pub(crate) fn new(threads: usize) -> ThreadExecutor {
        let (wanted, helpers_max) = (jobs_of(threads).len(), threads.clamp(2, 4));
        ThreadExecutor { wanted, shifts: OnceLock::new(), threads: Mutex::default(), helpers_max }
    }

    fn divide(&self, threads: usize) -> &[Arc<Shift>] {
        let shift = |jobs: &'static [JobKind]| {
            Arc::new(Shift {
                jobs,
                pending: Jobs::default(),
                state: Mutex::default(),
                changed: Condvar::default(),
            })
        };
        self.shifts.get_or_init(|| jobs_of(threads).into_iter().map(shift).collect())
    }

    fn shifts(&self) -> &[Arc<Shift>] {
        self.shifts.get().map_or(&[], Vec::as_slice)
    }

    fn shifts_of(&self, job: JobKind) -> impl Iterator<Item = &Arc<Shift>> {
        self.shifts().iter().filter(move |shift| shift.jobs.contains(&job))
    }
}

impl Executor for ThreadExecutor {
    fn start(&self, worker: Weak<dyn Worker>) -> Result<()> {
        // The jobs are divided once it is known how many threads the system gives.
        let (mut starting, mut refused) = (Vec::new(), None);
        while starting.len() < self.wanted && refused.is_none() {
            let (give, take) = std::sync::mpsc::channel::<Arc<Shift>>();
            let worker = Weak::clone(&worker);
            let serve = move || {
                if let Ok(shift) = take.recv() {
                    if !shift.jobs.contains(&JobKind::Log) {
                        super::real::give_way();
                    }
                    shift.serve(&worker);
                }
            };
            match std::thread::Builder::new().name("esker".to_owned()).spawn(serve) {
                Ok(thread) => starting.push((give, thread)),
                Err(error) => refused = Some(error),
            }
        }
        if let Some(error) = refused.filter(|_| starting.len() < THREADS_MIN) {
            for (give, thread) in starting {
                drop(give);
                drop(thread.join());
            }
            let message = format!(
                "cannot start the {THREADS_MIN} threads that background work needs ({error}): end other programs, or raise the \
                 limits of processes and of memory (`ulimit -u`, `ulimit -v`, a container's `pids.max`)"
            );
            return Err(Error::new(ErrorKind::OutOfResources, message));
        }
        let mut threads = self.threads.lock();
        for (shift, (give, thread)) in self.divide(starting.len()).iter().zip(starting) {
            drop(give.send(Arc::clone(shift)));
            threads.push(thread);
        }
        Ok(())
    }

    fn notify(&self, job: JobKind) {
        self.shifts_of(job).for_each(|shift| shift.notify(job));
    }

    fn is_stepped(&self) -> bool {
        false
    }

    fn stop(&self) {
        for shift in self.shifts() {
            shift.state.lock().stopped = true;
            shift.changed.notify_one();
        }
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // One of these threads may itself drop the last handle of a store.
            if thread.thread().id() != std::thread::current().id() {
                drop(thread.join());
            }
        }
    }

    fn side_by_side(&self, helpers: usize, work: &(dyn Fn() + Sync)) {
        std::thread::scope(|scope| {
            for _ in 0..helpers.min(self.helpers_max) {
                // If the system gives no more threads, the others do the work.
                if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            work();
        });
    }

    fn idle_processors(&self) -> usize {
        // The call takes tens of microseconds.
        static PROCESSORS: OnceLock<usize> = OnceLock::new();
        let count = PROCESSORS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from));
        // The caller runs too.
        count.saturating_sub(running_threads().unwrap_or(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_job_has_one_thread_and_there_are_no_more_than_asked_for() {
        for (threads, expected) in [(0, 2), (1, 2), (2, 2), (3, 3), (4, 4), (5, 5), (8, 8), (100, 8)] {
            let executor = ThreadExecutor::new(threads);
            let shifts = executor.divide(executor.wanted);
            assert_eq!(shifts.len(), expected);
            for job in JobKind::ALL {
                let count = shifts.iter().flat_map(|shift| shift.jobs).filter(|one| **one == job).count();
                // The other threads merge tables.
                let more = if job == JobKind::Compact { expected.saturating_sub(4) } else { 0 };
                assert_eq!(count, 1 + more, "{job:?} of {threads}");
            }
        }
    }

    #[test]
    fn an_expected_job_runs_with_any_other() {
        let executor = ThreadExecutor::new(2);
        let shift = &executor.divide(2)[0];
        let asked = || {
            executor.notify(JobKind::Flush);
            assert!(shift.wait(UNASKED));
            std::iter::from_fn(|| shift.take()).collect::<Vec<_>>()
        };
        assert_eq!(asked(), [JobKind::Flush]);
        shift.state.lock().expected[JobKind::Blobs as usize] = true;
        assert_eq!(asked(), [JobKind::Flush, JobKind::Blobs]);
        // No notification has come, and the time is over.
        assert!(shift.wait(Duration::ZERO));
        assert_eq!(std::iter::from_fn(|| shift.take()).count(), shift.jobs.len());
    }
}
