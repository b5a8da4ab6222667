//! How many connections the process's limit of descriptors (`RLIMIT_NOFILE`) leaves room for.
//!
//! The store opens files at any time: a segment of the log, a table, the file of a huge value. Without a descriptor for
//! them, writes of everybody would fail. So connections never take the last ones.

use std::os::unix::net::UnixStream;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Of the limit, this part is kept for files, at least and at most so many descriptors.
const PART: u64 = 4;
const KEPT_MIN: u64 = 64;
const KEPT_MAX: u64 = 1024;

/// Room is made for so many connections at most: 2 MiB of the system's memory.
const ROOM_MAX: i32 = (1 << 18) - 1;

/// Raises the limit as far as `wanted` connections need it and the system lets it. Returns how many connections there
/// may be.
pub(crate) fn connections_max(wanted: usize) -> usize {
    let found = getrlimit(Resource::Nofile);
    let wanted = (wanted as u64).saturating_add(KEPT_MAX);
    let most = found.maximum.unwrap_or(u64::MAX);
    // `None`: there is no limit.
    let Some(mut limit) = found.current else { return usize::MAX };
    if limit < wanted.min(most) {
        let raised = Rlimit { current: Some(wanted.min(most)), maximum: found.maximum };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            limit = wanted.min(most);
        }
    }
    within(limit)
}

/// How many of `wanted` connections another server of the same process may have: at most a quarter of the limit, as far as it
/// may be raised.
pub(crate) fn connections_beside(wanted: usize) -> usize {
    getrlimit(Resource::Nofile).maximum.map_or(wanted, |most| beside(wanted, most))
}

fn beside(wanted: usize, most: u64) -> usize {
    usize::try_from(most / PART).map_or(wanted, |part| part.min(wanted))
}

/// Has the system make room for the descriptors of so many connections now. Otherwise the table of descriptors doubles
/// when it is full, and in a process with threads the call that meets it waits for all processors: for 10 to 30
/// milliseconds, during which the event loop serves nobody.
pub(crate) fn make_room(connections: usize) {
    // The files of the store take descriptors too. Beyond the limit there is no room at all.
    let wanted = (connections as u64).saturating_add(KEPT_MAX);
    let most = getrlimit(Resource::Nofile).current.map_or(wanted, |limit| limit.saturating_sub(1));
    let last = i32::try_from(wanted.min(most)).unwrap_or(ROOM_MAX).min(ROOM_MAX);
    // The table grows for a descriptor with this number, which is closed at once. If that fails, there is a wait later.
    if let Ok((any, _)) = UnixStream::pair() {
        drop(fcntl_dupfd_cloexec(any, last));
    }
}

/// How many TLS handshakes there may be at once: they come before connections are counted, so they take a quarter of the
/// descriptors that are kept.
pub(crate) fn handshakes_max() -> usize {
    let kept = getrlimit(Resource::Nofile).current.map_or(KEPT_MAX, kept);
    usize::try_from(kept / 4).unwrap_or(usize::MAX).max(1)
}

fn within(limit: u64) -> usize {
    usize::try_from(limit - kept(limit)).unwrap_or(usize::MAX)
}

/// How many descriptors are kept for files.
fn kept(limit: u64) -> u64 {
    (limit / PART).clamp(KEPT_MIN, KEPT_MAX).min(limit / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux tells how many descriptors the table has room for.
    #[test]
    #[cfg(target_os = "linux")]
    #[expect(clippy::disallowed_methods, reason = "no file of a store")]
    fn the_table_of_descriptors_grows_before_connections_come() {
        let size = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
            line.trim().parse::<usize>().unwrap()
        };
        let connections = connections_max(700).min(700);
        make_room(connections);
        assert!(size() > connections, "{} for {connections}", size());
    }

    #[test]
    fn some_descriptors_are_left_for_files() {
        for (limit, connections) in [(0, 0), (1, 1), (40, 20), (128, 64), (1024, 768), (20_000, 18_976)] {
            assert_eq!(within(limit), connections, "{limit}");
            // Those of another server are some of them.
            assert!(beside(usize::MAX, limit) <= connections, "{limit}");
        }
        assert_eq!((beside(1000, 1024), beside(1000, 20_000)), (256, 1000));
    }
}
