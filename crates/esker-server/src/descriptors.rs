//! How many connections the process's limit of descriptors (`RLIMIT_NOFILE`) leaves room for.
//!
//! The store opens files at any time: a segment of the log, a table, the file of a huge value. Without a descriptor for
//! them, writes of everybody would fail. So connections never take the last ones.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Of the limit, this part is kept for files, at least and at most so many descriptors.
const PART: u64 = 4;
const KEPT_MIN: u64 = 64;
const KEPT_MAX: u64 = 1024;

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

fn within(limit: u64) -> usize {
    let kept = (limit / PART).clamp(KEPT_MIN, KEPT_MAX).min(limit / 2);
    usize::try_from(limit - kept).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_descriptors_are_left_for_files() {
        for (limit, connections) in [(0, 0), (1, 1), (40, 20), (128, 64), (1024, 768), (20_000, 18_976)] {
            assert_eq!(within(limit), connections, "{limit}");
        }
    }
}
