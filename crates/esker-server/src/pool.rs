//! The pool: threads for what would wait, and how busy they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use esker::ErrorKind;

/// What the threads count, and the event loop reads.
#[derive(Debug, Default)]
struct Counts {
    begun: AtomicU64,
    ended: AtomicU64,
    waited_us: AtomicU64,
    ran_us: AtomicU64,
}

/// See the module's comment.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    asked: AtomicU64,
    counts: Arc<Counts>,
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
        self.run_timed(work).await.map(|ran| ran.value)
    }

    /// [`Pool::run`], which tells how long `work` waited for a thread.
    pub(crate) async fn run_timed<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> esker::Result<Ran<T>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let (counts, asked_at) = (Arc::clone(&self.counts), Instant::now());
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
