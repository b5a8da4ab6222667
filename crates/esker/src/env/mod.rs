//! Everything that makes one run differ from the next: clock, randomness, background work, files. A test replaces each.
//! Therefore a seed reproduces a run.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::fs::{AroundUnreadable, Cancel, FileSystem, RealFs, Unreadable, UntilCancelled};

mod executor;
mod gate;
mod moment;
mod real;
mod steady;

pub use executor::{Executor, JobKind, StepExecutor, Worker};
pub(crate) use executor::{ThreadExecutor, UNASKED};
pub(crate) use gate::{Gate, GatedFile};
pub(crate) use moment::{moment_at, us_at};
use real::{SystemClock, SystemRandom};
pub(crate) use steady::{Offset, Reached, SteadyClock};

/// Wall and monotonic time.
pub trait Clock: Send + Sync + Debug {
    /// Microseconds since 1970-01-01 UTC. May jump.
    fn wall_us(&self) -> u64;

    /// Microseconds since some fixed instant. Never goes back.
    fn monotonic_us(&self) -> u64;

    /// As [`Clock::monotonic_us`], in nanoseconds, for durations below a few microseconds.
    fn monotonic_ns(&self) -> u64 {
        self.monotonic_us().saturating_mul(1000)
    }

    /// Makes the calling thread sleep.
    fn sleep(&self, duration: Duration);

    /// Makes the calling thread wait until it is unparked ([`std::thread::Thread::unpark`]) or `timeout` has passed.
    /// May return earlier. Therefore the caller checks again its condition and [`Clock::monotonic_us`]. A clock that
    /// does not implement this sleeps a millisecond at most.
    fn park(&self, timeout: Duration) {
        self.sleep(timeout.min(Duration::from_millis(1)));
    }
}

/// Random bits that need not be secret but must not repeat (log epochs, table salts).
pub trait Random: Send + Sync + Debug {
    /// 64 random bits.
    fn next_u64(&self) -> u64;
}

/// The world a store lives in.
#[derive(Clone, Debug)]
pub struct Env {
    /// The files.
    pub fs: Arc<dyn FileSystem>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The source of epochs and salts.
    pub random: Arc<dyn Random>,
    /// The executor of flushes and merges; `None` starts the store's own threads.
    pub executor: Option<Arc<dyn Executor>>,
}

impl Env {
    /// The operating system's files, clock and randomness, and the store's own threads.
    pub fn system() -> Self {
        Env {
            fs: Arc::new(RealFs::default()),
            clock: Arc::new(SystemClock::new()),
            random: Arc::new(SystemRandom),
            executor: None,
        }
    }

    /// The same world, in which files are those of the directory `dir`, resolved now: see [`FileSystem::within`].
    pub(crate) fn within(&self, dir: &Path) -> Result<Env> {
        Ok(Env { fs: self.fs.within(dir)?, ..self.clone() })
    }

    /// The same world, in which calls of the file system fail once `cancel` is set.
    pub(crate) fn until(&self, cancel: &Arc<Cancel>) -> Env {
        Env { fs: UntilCancelled::wrap(Arc::clone(&self.fs), Arc::clone(cancel)), ..self.clone() }
    }

    /// The same world, in which reads go around the places that the device cannot read.
    pub(crate) fn around(&self, unreadable: &Arc<Unreadable>) -> Env {
        Env { fs: AroundUnreadable::wrap(Arc::clone(&self.fs), Arc::clone(unreadable)), ..self.clone() }
    }

    /// The same world, in which files have the paths that they have for the process.
    pub(crate) fn outside(&self) -> Env {
        Env { fs: self.fs.outside(), ..self.clone() }
    }
}

impl Default for Env {
    fn default() -> Self {
        Env::system()
    }
}
