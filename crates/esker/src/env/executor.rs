//! Who does the background work: four threads of the store's own, or a test, step by step.
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

/// The kinds of background work. They never wait for one another.
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

/// One thread per lane.
#[derive(Debug, Default)]
pub(crate) struct ThreadExecutor {
    lanes: [Arc<LaneSignal>; 4],
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct LaneSignal {
    state: Mutex<SignalState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SignalState {
    pending: bool,
    stopped: bool,
}

impl LaneSignal {
    /// Waits for a notification, at most `longest`; `false` when the executor was stopped.
    fn wait(&self, longest: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.pending && !state.stopped {
            self.changed.wait_for(&mut state, longest);
        }
        state.pending = false;
        !state.stopped
    }

    fn stopped(&self) -> bool {
        self.state.lock().stopped
    }
}

impl ThreadExecutor {
    fn serve(signal: &LaneSignal, lane: Lane, worker: &Weak<dyn Worker>) {
        let mut longest = UNASKED;
        while signal.wait(longest) {
            while !signal.stopped() {
                match worker.upgrade() {
                    Some(worker) if worker.run_one(lane) => {}
                    Some(worker) => {
                        longest = worker.ask_again(lane);
                        break;
                    }
                    None => return,
                }
            }
        }
    }
}

impl Executor for ThreadExecutor {
    #[expect(clippy::disallowed_methods, reason = "this is the room that threads start from")]
    fn start(&self, worker: Weak<dyn Worker>) {
        let mut threads = self.threads.lock();
        for lane in Lane::ALL {
            let signal = Arc::clone(&self.lanes[lane as usize]);
            let worker = Weak::clone(&worker);
            threads.push(std::thread::spawn(move || Self::serve(&signal, lane, &worker)));
        }
    }

    fn notify(&self, lane: Lane) {
        let signal = &self.lanes[lane as usize];
        signal.state.lock().pending = true;
        signal.changed.notify_one();
    }

    fn is_stepped(&self) -> bool {
        false
    }

    fn stop(&self) {
        for signal in &self.lanes {
            signal.state.lock().stopped = true;
            signal.changed.notify_one();
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
            for _ in 0..helpers {
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
