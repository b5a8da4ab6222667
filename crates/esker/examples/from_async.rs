//! Esker from async code, whatever the runtime: a call runs on a thread that may wait, and wakes the task with its
//! answer. Runtimes keep threads for this: `blocking` below stands for `tokio::task::spawn_blocking` and the like.
//!
//! `cargo run --example from_async`

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use esker::{Db, Options, Result, TxnOptions, keys};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a call will have answered.
struct Answer<T>(Arc<Mutex<(Option<T>, Option<Waker>)>>);

impl<T> Future for Answer<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut state = lock(&self.0);
        state.1 = Some(context.waker().clone());
        state.0.take().map_or(Poll::Pending, Poll::Ready)
    }
}

/// Has `call` done by a thread, to its end even where nobody waits for the answer any more.
#[expect(clippy::disallowed_methods, reason = "a program has threads of its own")]
fn blocking<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Answer<T> {
    let answer = Answer(Arc::default());
    let state = Arc::clone(&answer.0);
    thread::spawn(move || {
        let value = call();
        let mut state = lock(&state);
        state.0 = Some(value);
        state.1.take().iter().for_each(Waker::wake_by_ref);
    });
    answer
}

/// Stands for the runtime: runs one task to its end.
fn block_on<T>(task: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut task = std::pin::pin!(task);
    let waker = Arc::new(Unpark(thread::current())).into();
    loop {
        match task.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// What the example shows.
pub(crate) fn main() -> Result<()> {
    block_on(async {
        // Handles are cheap to clone, and any thread may use them.
        let db = blocking(|| Db::open_in_memory(Options::default())).await?;
        let visits = db.tree("visits")?;

        // A whole transaction is one call: locks are not kept while a task waits for something else.
        for expected in 1..=3 {
            let (db, visits) = (db.clone(), visits.clone());
            let count = blocking(move || {
                db.transact(TxnOptions::default(), |txn| -> Result<u64> {
                    let old = txn.get_vec(&visits, "ann")?.map_or(Ok(0), |old| keys::decode_u64(&old))?;
                    txn.put(&visits, "ann", keys::u64(old + 1))?;
                    Ok(old + 1)
                })
            });
            assert_eq!(count.await?, expected);
        }
        println!("three visits");
        // Closing waits for the disk; dropping the last handle would do so here.
        blocking(move || db.close()).await
    })
}
