//! The real clock and the operating system's randomness.

use std::time::Duration;

use super::{Clock, Random};

/// The operating system's clocks.
#[derive(Debug)]
pub(super) struct SystemClock {
    #[expect(clippy::disallowed_types, reason = "this is the room that tells the time")]
    start: std::time::Instant,
}

impl SystemClock {
    #[expect(clippy::disallowed_types, reason = "this is the room that tells the time")]
    pub(super) fn new() -> Self {
        SystemClock { start: std::time::Instant::now() }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the room that tells the time")]
    fn wall_us(&self) -> u64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }

    fn monotonic_us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    fn monotonic_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    #[expect(clippy::disallowed_methods, reason = "this is the room that tells the time")]
    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }

    fn park(&self, timeout: Duration) {
        std::thread::park_timeout(timeout);
    }
}

/// The operating system's random numbers.
#[derive(Debug)]
pub(super) struct SystemRandom;

impl Random for SystemRandom {
    fn next_u64(&self) -> u64 {
        // A thread's first `RandomState` is keyed by the operating system, and no two are keyed alike.
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(std::thread::current().id())
    }
}

/// Keeps the calling thread from interrupting others when it begins to run: it waits for its turn. Therefore a
/// program's thread that wakes it continues, and finds its processor taken milliseconds later at the earliest. Its
/// share of the processors stays the same (`SCHED_BATCH`). Best effort.
#[cfg(target_os = "linux")]
pub(super) fn give_way() {
    // SAFETY: all zeros is a valid value of this structure of integers.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // The call itself, because that of musl's library refuses. 0 is the calling thread.
    // SAFETY: the call reads the structure, which lives until it returns, and changes no memory.
    let _ =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_BATCH, &raw const parameters) };
}

/// Elsewhere the system decides.
#[cfg(not(target_os = "linux"))]
pub(super) fn give_way() {}
