//! Who does the background work: threads of the store's own, one for each lane or fewer, or a test, step by step.
//!
//! A store is a [`Worker`]: asked for one step of work in a lane, it does it and says whether there was
//! any. The [`Executor`] decides when to ask. It holds the store weakly, so that dropping the last
//! handle ends the threads.

use std::fmt::Debug;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, ErrorKind, Result};
use crate::fs::running_threads;

/// The kinds of background work. None waits for what another does, but may wait for its turn where they share a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Preparing the next log segment and syncing the sealed ones: short, and mostly waiting for the disk.
    Log,
    /// Flushing memtables: writers may be waiting for it.
    Flush,
    /// Merging tables, removing files: nobody waits for it unless it falls far behind.
    Compact,
    /// Giving back the space of huge values that nothing needs any more.
    Blobs,
}

impl Lane {
    /// Every lane.
    pub const ALL: [Lane; 4] = [Lane::Log, Lane::Flush, Lane::Compact, Lane::Blobs];
}

/// Something with background work to do.
pub trait Worker: Send + Sync {
    /// Does one bounded piece of work in `lane`; `false` when there was none.
    fn run_one(&self, lane: Lane) -> bool;

    /// How soon `lane` should be asked again though nobody says that there is work.
    fn ask_again(&self, _lane: Lane) -> Duration {
        UNASKED
    }
}

/// Decides when background work runs.
pub trait Executor: Send + Sync + Debug {
    /// Begins to serve `worker`. Called once per store, when it is open.
    ///
    /// # Errors
    /// `OutOfResources` when it cannot: then the store is not opened.
    fn start(&self, worker: Weak<dyn Worker>) -> Result<()>;

    /// There may be work in `lane`. Never blocks and never runs the work itself. Beside that each lane should be asked
    /// as often as [`Worker::ask_again`] says: what expires while nobody writes is given back then.
    fn notify(&self, lane: Lane);

    /// Whether a caller that has to wait for background work must run it itself.
    fn is_stepped(&self) -> bool;

    /// Ends the service; returns when no work is running. Called by the store when it closes.
    fn stop(&self);

    /// Calls `work` on this thread and, where it helps and they can be had, on up to `helpers` others at the same
    /// time; returns when all of them are done. So one call alone must do all that there is to do.
    fn side_by_side(&self, _helpers: usize, work: &(dyn Fn() + Sync)) {
        work();
    }

    /// How many processors have nothing to do now, as far as is known.
    fn idle_processors(&self) -> usize {
        0
    }
}

/// Runs nothing by itself: a test (or a caller that has to wait) steps the store.
#[derive(Debug, Default)]
pub struct StepExecutor;

impl Executor for StepExecutor {
    fn start(&self, _worker: Weak<dyn Worker>) -> Result<()> {
        Ok(())
    }

    fn notify(&self, _lane: Lane) {}

    fn is_stepped(&self) -> bool {
        true
    }

    fn stop(&self) {}
}

/// Merges have a thread of their own: they may take long, or wait for users.
const THREADS_MIN: usize = 2;

/// How often a lane is asked though nobody said that there is work: values expire without anybody's doing.
pub(crate) const UNASKED: Duration = Duration::from_secs(30);

/// The lanes of one thread each, where there are so many threads: what is more urgent first.
fn lanes_of(threads: usize) -> &'static [&'static [Lane]] {
    match threads {
        0..3 => &[&[Lane::Log, Lane::Flush, Lane::Blobs], &[Lane::Compact]],
        3 => &[&[Lane::Log, Lane::Blobs], &[Lane::Flush], &[Lane::Compact]],
        _ => &[&[Lane::Log], &[Lane::Flush], &[Lane::Compact], &[Lane::Blobs]],
    }
}

/// Threads that divide the lanes among them.
#[derive(Debug)]
pub(crate) struct ThreadExecutor {
    /// How many threads there are to be.
    wanted: usize,
    /// Set when the threads are there: the system may give fewer.
    shifts: OnceLock<Vec<Arc<Shift>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    helpers_max: usize,
}

/// What one thread does.
#[derive(Debug)]
struct Shift {
    lanes: &'static [Lane],
    state: Mutex<ShiftState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct ShiftState {
    /// By lane: there may be work.
    pending: [bool; 4],
    /// By lane: there will be some after a while. It is asked whenever another one is, which would end the wait for it.
    expected: [bool; 4],
    stopped: bool,
}

impl Shift {
    /// Waits until there may be work in some lane, at most `longest`, after which all of them are asked; `false` when the
    /// executor was stopped.
    fn wait(&self, longest: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.stopped && state.pending == [false; 4] {
            self.changed.wait_for(&mut state, longest);
        }
        let is_time = state.pending == [false; 4];
        for lane in self.lanes.iter().map(|&lane| lane as usize) {
            state.pending[lane] |= is_time || state.expected[lane];
        }
        !state.stopped
    }

    /// The most urgent lane in which there may be work, which then is not pending any more.
    fn take(&self) -> Option<Lane> {
        let mut state = self.state.lock();
        let mut lanes = self.lanes.iter();
        let lane = *lanes.find(|lane| state.pending[**lane as usize]).filter(|_| !state.stopped)?;
        state.pending[lane as usize] = false;
        Some(lane)
    }

    fn notify(&self, lane: Lane) {
        self.state.lock().pending[lane as usize] = true;
        self.changed.notify_one();
    }

    fn serve(&self, worker: &Weak<dyn Worker>) {
        let mut longest = UNASKED;
        while self.wait(longest) {
            while let Some(lane) = self.take() {
                let Some(worker) = worker.upgrade() else { return };
                if worker.run_one(lane) {
                    self.notify(lane);
                }
            }
            let Some(worker) = worker.upgrade() else { return };
            longest = UNASKED;
            for &lane in self.lanes {
                let after = worker.ask_again(lane);
                self.state.lock().expected[lane as usize] = after < UNASKED;
                longest = longest.min(after);
            }
        }
    }
}

impl ThreadExecutor {
    /// With so many threads for the lanes, and as many at most to help with a huge value.
    pub(crate) fn new(threads: usize) -> ThreadExecutor {
        let (wanted, helpers_max) = (lanes_of(threads).len(), threads.clamp(2, 4));
        ThreadExecutor { wanted, shifts: OnceLock::new(), threads: Mutex::default(), helpers_max }
    }

    /// Divides the lanes among so many threads.
    fn divide(&self, threads: usize) -> &[Arc<Shift>] {
        let shift = |lanes: &&'static [Lane]| {
            Arc::new(Shift { lanes, state: Mutex::default(), changed: Condvar::default() })
        };
        self.shifts.get_or_init(|| lanes_of(threads).iter().map(shift).collect())
    }

    fn shifts(&self) -> &[Arc<Shift>] {
        self.shifts.get().map_or(&[], Vec::as_slice)
    }

    fn shift_of(&self, lane: Lane) -> Option<&Arc<Shift>> {
        self.shifts().iter().find(|shift| shift.lanes.contains(&lane))
    }
}

impl Executor for ThreadExecutor {
    fn start(&self, worker: Weak<dyn Worker>) -> Result<()> {
        // What a thread does is decided when it is known how many there are: the lanes can be divided among fewer.
        let (mut starting, mut refused) = (Vec::new(), None);
        while starting.len() < self.wanted && refused.is_none() {
            let (give, take) = std::sync::mpsc::channel::<Arc<Shift>>();
            let worker = Weak::clone(&worker);
            let serve = move || take.recv().into_iter().for_each(|shift| shift.serve(&worker));
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

    fn notify(&self, lane: Lane) {
        self.shift_of(lane).into_iter().for_each(|shift| shift.notify(lane));
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
            // The last handle of a store may be dropped by one of these threads itself.
            if thread.thread().id() != std::thread::current().id() {
                drop(thread.join());
            }
        }
    }

    fn side_by_side(&self, helpers: usize, work: &(dyn Fn() + Sync)) {
        std::thread::scope(|scope| {
            for _ in 0..helpers.min(self.helpers_max) {
                // A system that has no more threads to give does not stop the work.
                if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            work();
        });
    }

    fn idle_processors(&self) -> usize {
        // Asking takes tens of microseconds.
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
    fn each_lane_has_one_thread_and_there_are_no_more_than_asked_for() {
        for (threads, expected) in [(0, 2), (1, 2), (2, 2), (3, 3), (4, 4), (100, 4)] {
            let executor = ThreadExecutor::new(threads);
            let shifts = executor.divide(executor.wanted);
            assert_eq!(shifts.len(), expected);
            for lane in Lane::ALL {
                let count = shifts.iter().flat_map(|shift| shift.lanes).filter(|one| **one == lane).count();
                assert_eq!(count, 1, "{lane:?} of {threads}");
            }
        }
    }

    #[test]
    fn what_is_expected_is_asked_for_with_anything_else() {
        let executor = ThreadExecutor::new(2);
        let shift = &executor.divide(2)[0];
        let asked = || {
            executor.notify(Lane::Flush);
            assert!(shift.wait(UNASKED));
            std::iter::from_fn(|| shift.take()).collect::<Vec<_>>()
        };
        assert_eq!(asked(), [Lane::Flush]);
        shift.state.lock().expected[Lane::Blobs as usize] = true;
        assert_eq!(asked(), [Lane::Flush, Lane::Blobs]);
        // Nobody says anything, and the time is over.
        assert!(shift.wait(Duration::ZERO));
        assert_eq!(std::iter::from_fn(|| shift.take()).count(), shift.lanes.len());
    }
}
