//! The process's descriptors: how many stores keep, and who closes some when there are no more.
//!
//! Stores keep tables and blob files open that they could open again. They do so within a part of the limit
//! (`RLIMIT_NOFILE`), less what else the process has open; both are asked for whenever a table is opened, since they change.
//! When an opening fails all the same, because of the limit of the whole system for one, every store of the process closes
//! what it does not read just now, and the opening is tried once more. Only then it fails, with `OutOfResources`.

use std::fmt::Debug;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::real::os;
use crate::error::{ErrorKind, Result};

/// So many files a store keeps open however few descriptors there are.
const KEPT_MIN: usize = 4;

/// Something that keeps files open which it can open again.
pub(crate) trait Keeper: Send + Sync + Debug {
    /// Closes what is not being read; returns whether that was anything. Whoever calls may hold any lock of a store but that
    /// under which files are noted as open.
    fn close_unused(&self) -> bool;
}

/// Everybody who keeps files open.
static KEEPERS: Mutex<Vec<Weak<dyn Keeper>>> = Mutex::new(Vec::new());

/// Enters `keeper`, until it is gone.
pub(crate) fn enter(keeper: Weak<dyn Keeper>) {
    let mut keepers = KEEPERS.lock();
    keepers.retain(|keeper| keeper.strong_count() > 0);
    keepers.push(keeper);
}

/// Opens a file by `open`; where there is no descriptor for it, others are closed, and it is tried again.
pub(crate) fn opened<T>(open: impl Fn() -> Result<T>) -> Result<T> {
    match open() {
        Err(error) if error.kind() == ErrorKind::OutOfResources && close_unused() => open(),
        opened => opened,
    }
}

/// Has everybody close what they can; returns whether that was anything.
#[cold]
fn close_unused() -> bool {
    let keepers: Vec<Arc<dyn Keeper>> = KEEPERS.lock().iter().filter_map(Weak::upgrade).collect();
    keepers.iter().filter(|keeper| keeper.close_unused()).count() > 0
}

/// How many files one may keep open who has `mine`: so that a quarter of what the process may open is left.
pub(crate) fn kept_max(mine: usize) -> usize {
    let Some(max) = os::descriptors_max() else { return usize::MAX };
    kept_of(max, os::descriptors_open(), mine)
}

/// The same where the process may open `max`, and has `open`, if that is known.
fn kept_of(max: u64, open: Option<u64>, mine: usize) -> usize {
    let others = open.unwrap_or(0).saturating_sub(mine as u64);
    let kept = (max - max / 4).saturating_sub(others);
    usize::try_from(kept).unwrap_or(usize::MAX).max(KEPT_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_is_left_and_what_others_have_open_counts() {
        assert_eq!(kept_of(1024, None, 0), 768);
        assert_eq!(kept_of(1024, Some(100), 60), 728);
        assert_eq!(kept_of(1024, Some(20), 60), 768);
        assert_eq!(kept_of(1024, Some(1024), 500), 244);
        assert_eq!(kept_of(1024, Some(1024), 0), KEPT_MIN);
        assert_eq!(kept_of(0, Some(3), 0), KEPT_MIN);
        assert_eq!(kept_of(u64::MAX, Some(3), 0), usize::MAX / 4 * 3);
    }
}
