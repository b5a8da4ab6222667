//! Ctrl-C in the shell: it stops the command that runs, and the shell goes on.
//!
//! A command asks [`check`] wherever it goes on to the next row, piece or file, so it stops between two of them
//! and what it wrote is whole. What is a single call of the library cannot ask: [`wait`] leaves it behind. Outside of
//! the shell nothing is installed, and Ctrl-C ends the process as ever.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use signal_hook::consts::SIGINT;

use crate::exit::{Failure, Outcome};

/// Set by Ctrl-C; there once the shell has asked for it.
static ASKED_TO_STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// How soon [`wait`] notices.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// From now on Ctrl-C ends no process, but stops commands.
pub(crate) fn install() -> io::Result<()> {
    let asked = ASKED_TO_STOP.get_or_init(Arc::default);
    signal_hook::flag::register(SIGINT, Arc::clone(asked)).map(drop)
}

/// Forgets what came before the command that begins.
pub(crate) fn clear() {
    if let Some(asked) = ASKED_TO_STOP.get() {
        asked.store(false, Ordering::Relaxed);
    }
}

/// Fails after Ctrl-C.
#[inline]
pub(crate) fn check() -> Outcome {
    match ASKED_TO_STOP.get() {
        Some(asked) if asked.load(Ordering::Relaxed) => Err(Failure::interrupted("interrupted")),
        _ => Ok(()),
    }
}

/// Does `work`, and in the shell stops waiting for it after Ctrl-C: it goes on on a thread of its own.
pub(crate) fn wait<T: Send + 'static>(work: impl FnOnce() -> Outcome<T> + Send + 'static) -> Outcome<T> {
    match ASKED_TO_STOP.get() {
        Some(asked) => wait_unless(asked, work),
        None => work(),
    }
}

fn wait_unless<T: Send + 'static>(
    asked: &AtomicBool,
    work: impl FnOnce() -> Outcome<T> + Send + 'static,
) -> Outcome<T> {
    let failed = || Failure::store("the command ended without a result");
    let (done_in, done) = sync_channel(1);
    thread::Builder::new()
        .name("command".to_owned())
        .spawn(move || drop(done_in.send(work())))
        .map_err(|error| Failure::store(format!("cannot start a thread: {error}")))?;
    loop {
        match done.recv_timeout(LOOK_EVERY) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Disconnected) => return Err(failed()),
            Err(RecvTimeoutError::Timeout) if asked.load(Ordering::Relaxed) => {
                return Err(Failure::interrupted("not waited for; it goes on in the background"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn work_is_waited_for_until_somebody_asks_to_stop() {
        let asked = AtomicBool::new(false);
        assert_eq!(wait_unless(&asked, || Ok(7)).ok(), Some(7));
        assert_eq!(
            wait_unless(&asked, || Err::<(), _>(Failure::not_there())).err().map(|f| f.code()),
            Some(1)
        );

        let (go_on, gate) = channel::<()>();
        let (ended_in, ended) = channel();
        asked.store(true, Ordering::Relaxed);
        let left = wait_unless(&asked, move || {
            let _ = gate.recv();
            ended_in.send(()).map_err(|_| Failure::not_there())
        });
        assert_eq!(left.err().map(|failure| failure.code()), Some(130));
        go_on.send(()).unwrap();
        assert!(ended.recv().is_ok(), "it goes on to its end");
    }
}
