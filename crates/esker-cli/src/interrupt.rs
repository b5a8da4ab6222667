//! Ctrl-C in the shell: it stops the running command, and the shell continues.
//!
//! A command calls [`check`] before each row, piece or file, so it stops between two of them, and its output is whole.
//! `check`, `repair` and `restore` pass a question to the library, [`watch`]. Other single calls of the library cannot
//! ask. If such a call works on the store that the shell has open, [`wait`] leaves it running. If it has its own store
//! (one that `--db` names), nobody could open that store until the call ends, so [`wait`] waits. A second Ctrl-C ends
//! the process, and harms no store.
//!
//! Outside of the shell Ctrl-C ends the process at once, except during these three commands: they tidy up and say how
//! far they got. A second Ctrl-C then ends the process at once.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGXFSZ};
use signal_hook::flag;

use crate::exit::{Failure, INTERRUPTED, Outcome, note};

/// Set by Ctrl-C. It exists once [`install`] or [`watch`] was called.
static ASKED_TO_STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// How soon [`wait`] notices Ctrl-C.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// From now on Ctrl-C does not end the process, but stops commands.
pub(crate) fn install() -> io::Result<()> {
    let asked = ASKED_TO_STOP.get_or_init(Arc::default);
    flag::register(SIGINT, Arc::clone(asked)).map(drop)
}

/// From now on a write beyond the process's limit on file sizes (`ulimit -f`) fails, instead of ending the process.
/// Best effort.
pub(crate) fn outlive_file_limits() {
    let _not_looked_at = flag::register(SIGXFSZ, Arc::default());
}

/// The question of `check`, `repair` and `restore`: whether Ctrl-C was pressed. Outside of the shell, Ctrl-C no longer
/// ends the process from now on, but a second one does. A process that was started to ignore Ctrl-C (in the background
/// of a script) continues to ignore it.
///
/// A command calls this before it shows progress, because the user may press Ctrl-C as soon as the progress is seen.
pub(crate) fn watch() -> Outcome<impl Fn() -> bool + Clone + Send + Sync + 'static> {
    let asked = match ASKED_TO_STOP.get() {
        Some(asked) => Arc::clone(asked),
        None if is_ignored() => Arc::default(),
        None => {
            let asked = ASKED_TO_STOP.get_or_init(Arc::default);
            flag::register_conditional_shutdown(SIGINT, i32::from(INTERRUPTED), Arc::clone(asked))
                .and_then(|_| install())
                .map_err(|error| Failure::store(format!("cannot catch Ctrl-C: {error}")))?;
            Arc::clone(asked)
        }
    };
    Ok(move || asked.load(Ordering::Relaxed))
}

/// Whether the parent of this process made it ignore Ctrl-C; `false` if the system does not tell.
fn is_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let bits = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> (SIGINT - 1) & 1 == 1)
}

/// Forgets an earlier Ctrl-C, because a command begins.
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

/// What happens to work that is not done when Ctrl-C comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// It continues on its own thread.
    LeaveIt,
    /// The command waits for it all the same.
    WaitStill,
}

/// Does `work`. In the shell, notices Ctrl-C meanwhile.
pub(crate) fn wait<T: Send + 'static>(
    then: Then,
    work: impl FnOnce() -> Outcome<T> + Send + 'static,
) -> Outcome<T> {
    match ASKED_TO_STOP.get() {
        Some(asked) => wait_unless(asked, then, || std::process::exit(i32::from(INTERRUPTED)), work),
        None => work(),
    }
}

fn wait_unless<T: Send + 'static>(
    asked: &AtomicBool,
    then: Then,
    end_process: impl Fn(),
    work: impl FnOnce() -> Outcome<T> + Send + 'static,
) -> Outcome<T> {
    let failed = || Failure::store("the command ended without a result");
    let (done_in, done) = sync_channel(1);
    thread::Builder::new()
        .name("command".to_owned())
        .spawn(move || drop(done_in.send(work())))
        .map_err(|error| Failure::store(format!("cannot start a thread: {error}")))?;
    let mut is_waited_for = false;
    loop {
        match done.recv_timeout(LOOK_EVERY) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Disconnected) => return Err(failed()),
            Err(RecvTimeoutError::Timeout) if !asked.load(Ordering::Relaxed) => {}
            Err(RecvTimeoutError::Timeout) if then == Then::LeaveIt => {
                return Err(Failure::interrupted("interrupted: the command continues in the background"));
            }
            Err(RecvTimeoutError::Timeout) => {
                if std::mem::replace(&mut is_waited_for, true) {
                    end_process();
                }
                asked.store(false, Ordering::Relaxed);
                note(
                    "the command has opened the store for itself, so the shell waits for its end; press \
                     Ctrl-C again to end the shell",
                );
            }
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
        assert_eq!(wait_unless(&asked, Then::LeaveIt, || (), || Ok(7)).ok(), Some(7));
        assert_eq!(
            wait_unless(&asked, Then::LeaveIt, || (), || Err::<(), _>(Failure::not_there()))
                .err()
                .map(|f| f.code()),
            Some(1)
        );

        let (go_on, gate) = channel::<()>();
        let (ended_in, ended) = channel();
        asked.store(true, Ordering::Relaxed);
        let left = wait_unless(
            &asked,
            Then::LeaveIt,
            || (),
            move || {
                let _ = gate.recv();
                ended_in.send(()).map_err(|_| Failure::not_there())
            },
        );
        assert_eq!(left.err().map(|failure| failure.code()), Some(130));
        go_on.send(()).unwrap();
        assert!(ended.recv().is_ok(), "it goes on to its end");
    }

    /// The first Ctrl-C is reported and the work continues. The second one would end the process.
    #[test]
    fn work_with_a_store_of_its_own_is_waited_for() {
        let asked = Arc::new(AtomicBool::new(true));
        let (go_on, gate) = channel::<()>();
        let (again, ended) = (Arc::clone(&asked), AtomicBool::new(false));
        let end_process = || {
            ended.store(true, Ordering::Relaxed);
            let _ = go_on.send(());
        };
        let (begun_in, begun) = channel();
        let presser = thread::spawn(move || {
            let () = begun.recv().unwrap();
            while again.swap(true, Ordering::Relaxed) {
                thread::yield_now();
            }
        });
        let done = wait_unless(&asked, Then::WaitStill, end_process, move || {
            let _ = begun_in.send(());
            let _ = gate.recv();
            Ok(7)
        });
        presser.join().unwrap();
        assert_eq!(done.ok(), Some(7));
        assert!(ended.load(Ordering::Relaxed));
    }
}
