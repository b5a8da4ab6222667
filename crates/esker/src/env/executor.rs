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
    fn start(&self, worker: Weak<dyn Worker>);

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
    fn start(&self, _worker: Weak<dyn Worker>) {}

    fn notify(&self, _lane: Lane) {}

    fn is_stepped(&self) -> bool {
        true
    }

    fn stop(&self) {}
}

/// How often a lane is asked though nobody said that there is work: values expire without anybody's doing.
pub(crate) const UNASKED: Duration = Duration::from_secs(30);

/// The lanes of one thread each, where there are so many threads: what is more urgent first.
fn lanes_of(threads: usize) -> &'static [&'static [Lane]] {
    match threads {
        // Merges have one of their own: they may take long, or wait for users.
        0..3 => &[&[Lane::Log, Lane::Flush, Lane::Blobs], &[Lane::Compact]],
        3 => &[&[Lane::Log, Lane::Blobs], &[Lane::Flush], &[Lane::Compact]],
        _ => &[&[Lane::Log], &[Lane::Flush], &[Lane::Compact], &[Lane::Blobs]],
    }
}

/// Threads that divide the lanes among them.
#[derive(Debug)]
pub(crate) struct ThreadExecutor {
    shifts: Vec<Arc<Shift>>,
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
        let shift =
            |lanes: &&'static [Lane]| Shift { lanes, state: Mutex::default(), changed: Condvar::default() };
        let shifts = lanes_of(threads).iter().map(|lanes| Arc::new(shift(lanes))).collect();
        ThreadExecutor { shifts, threads: Mutex::default(), helpers_max: threads.clamp(2, 4) }
    }

    fn shift_of(&self, lane: Lane) -> Option<&Arc<Shift>> {
        self.shifts.iter().find(|shift| shift.lanes.contains(&lane))
    }
}

impl Executor for ThreadExecutor {
    #[expect(clippy::disallowed_methods, reason = "this is the room that threads start from")]
    fn start(&self, worker: Weak<dyn Worker>) {
        let mut threads = self.threads.lock();
        for shift in &self.shifts {
            let (shift, worker) = (Arc::clone(shift), Weak::clone(&worker));
            threads.push(std::thread::spawn(move || shift.serve(&worker)));
        }
    }

    fn notify(&self, lane: Lane) {
        self.shift_of(lane).into_iter().for_each(|shift| shift.notify(lane));
    }

    fn is_stepped(&self) -> bool {
        false
    }

    fn stop(&self) {
        for shift in &self.shifts {
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
            assert_eq!(executor.shifts.len(), expected);
            for lane in Lane::ALL {
                let count =
                    executor.shifts.iter().flat_map(|shift| shift.lanes).filter(|one| **one == lane).count();
                assert_eq!(count, 1, "{lane:?} of {threads}");
            }
        }
    }

    #[test]
    fn what_is_expected_is_asked_for_with_anything_else() {
        let executor = ThreadExecutor::new(2);
        let shift = &executor.shifts[0];
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
