//! The pool: threads for what would wait, and how busy they are.
//!
//! Commands have a share of the threads, and long ones a share of that. So commits, passwords and the pieces of huge values do
//! not wait for commands, and a command that reads some values from files does not wait for those that walk over large
//! collections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use esker::ErrorKind;
use tokio::sync::{Semaphore, SemaphorePermit};

/// The threads of the pool.
pub(crate) const THREADS: usize = 10;

/// How many of them do commands at one time, and how many commands that walk over many entries.
const COMMANDS_MAX: usize = 7;
const WALKS_MAX: usize = 4;

/// How many more do commands that hold keys for which others wait.
const HOLDERS_MAX: usize = 1;

/// What the threads count, and the event loop reads.
#[derive(Debug, Default)]
struct Counts {
    begun: AtomicU64,
    ended: AtomicU64,
    waited_us: AtomicU64,
    ran_us: AtomicU64,
}

/// See the module's comment.
#[derive(Debug)]
pub(crate) struct Pool {
    asked: AtomicU64,
    counts: Arc<Counts>,
    commands: Semaphore,
    walks: Semaphore,
    holders: Semaphore,
}

impl Default for Pool {
    fn default() -> Pool {
        Pool {
            asked: AtomicU64::default(),
            counts: Arc::default(),
            commands: Semaphore::new(COMMANDS_MAX),
            walks: Semaphore::new(WALKS_MAX),
            holders: Semaphore::new(HOLDERS_MAX),
        }
    }
}

/// The right to do a command in the pool, until it is dropped.
pub(crate) struct Place<'a> {
    pool: &'a Pool,
    asked_at: Instant,
    is_used: bool,
    command: Option<SemaphorePermit<'a>>,
    walk: Option<SemaphorePermit<'a>>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.is_used {
            self.pool.asked.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// How busy the pool is, and was.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PoolFigures {
    /// Jobs that wait for a thread.
    pub(crate) queued: u64,
    pub(crate) running: u64,
    /// Jobs that have ended.
    pub(crate) jobs: u64,
    /// What jobs have waited for a thread, and run, together.
    pub(crate) waited_us: u64,
    pub(crate) ran_us: u64,
}

/// What a job has come to, and how long it waited for a thread.
pub(crate) struct Ran<T> {
    pub(crate) value: T,
    pub(crate) queued: Duration,
}

/// Counts the end of a job, also of one that panics.
struct Running {
    counts: Arc<Counts>,
    since: Instant,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.counts.ran_us.fetch_add(self.since.elapsed().as_micros() as u64, Ordering::Relaxed);
        self.counts.ended.fetch_add(1, Ordering::Relaxed);
    }
}

impl Pool {
    /// Does `work` on a thread that may wait.
    ///
    /// # Errors
    /// `Poisoned` when `work` has panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> esker::Result<T> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.run_asked(Instant::now(), work).await.map(|ran| ran.value)
    }

    /// Waits until the pool may do a command more, one that walks over many entries or another one.
    pub(crate) async fn place(&self, is_walk: bool) -> Place<'_> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let mut place =
            Place { pool: self, asked_at: Instant::now(), is_used: false, command: None, walk: None };
        // Nobody closes a semaphore.
        if is_walk {
            place.walk = self.walks.acquire().await.ok();
        }
        place.command = self.commands.acquire().await.ok();
        place
    }

    /// [`Pool::place`] for a command that holds keys meanwhile.
    pub(crate) async fn place_of_holder(&self, is_walk: bool) -> Place<'_> {
        let asked_at = Instant::now();
        tokio::select! {
            biased;
            place = self.place(is_walk) => place,
            holder = self.holders.acquire() => {
                self.asked.fetch_add(1, Ordering::Relaxed);
                Place { pool: self, asked_at, is_used: false, command: holder.ok(), walk: None }
            }
        }
    }

    /// [`Pool::place`], if there is one at once.
    pub(crate) fn try_place(&self, is_walk: bool) -> Option<Place<'_>> {
        let walk = if is_walk { Some(self.walks.try_acquire().ok()?) } else { None };
        let command = Some(self.commands.try_acquire().ok()?);
        self.asked.fetch_add(1, Ordering::Relaxed);
        Some(Place { pool: self, asked_at: Instant::now(), is_used: false, command, walk })
    }

    /// [`Pool::run`] for a command. Tells how long it waited for its place and for a thread.
    pub(crate) async fn run_command<T: Send + 'static>(
        &self,
        mut place: Place<'_>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> esker::Result<Ran<T>> {
        place.is_used = true;
        self.run_asked(place.asked_at, work).await
    }

    async fn run_asked<T: Send + 'static>(
        &self,
        asked_at: Instant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> esker::Result<Ran<T>> {
        let counts = Arc::clone(&self.counts);
        let done = tokio::task::spawn_blocking(move || {
            let queued = asked_at.elapsed();
            counts.begun.fetch_add(1, Ordering::Relaxed);
            counts.waited_us.fetch_add(queued.as_micros() as u64, Ordering::Relaxed);
            let _running = Running { counts, since: Instant::now() };
            Ran { value: work(), queued }
        });
        done.await.map_err(|error| {
            esker::Error::new(ErrorKind::Poisoned, format!("a command has panicked: {error}"))
        })
    }

    pub(crate) fn figures(&self) -> PoolFigures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (ended, begun) = (read(&self.counts.ended), read(&self.counts.begun));
        PoolFigures {
            queued: read(&self.asked).saturating_sub(begun),
            running: begun.saturating_sub(ended),
            jobs: ended,
            waited_us: read(&self.counts.waited_us),
            ran_us: read(&self.counts.ran_us),
        }
    }
}
