//! The process's descriptors: how many stores keep, and who closes some when there are no more.
//!
//! Stores keep tables and blob files open that they could open again. They do so within a part of the limit
//! (`RLIMIT_NOFILE`), less what else the process has open; both are asked for whenever a table is opened, since they change.
//! When an opening fails all the same, because of the limit of the whole system for one, every store of the process closes
//! what it does not read just now, and the opening is tried again. It fails, with `OutOfResources`, when nothing was left to
//! close.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::real::os;
use crate::error::{ErrorKind, Result};

/// So many files a store keeps open however few descriptors there are.
const KEPT_MIN: usize = 4;

/// So often an opening is tried.
const TRIES: u32 = 32;

/// How often unused files were closed because an opening lacked a descriptor.
static CLOSED: AtomicU64 = AtomicU64::new(0);

/// Something that keeps files open which it can open again.
pub(crate) trait Keeper: Send + Sync + Debug {
    /// Closes what is not being read; returns whether that was anything. The caller may hold any lock of a store but that
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
///
/// Several threads may come to the limit at once. One of them then closes what all of them need, and the others find
/// nothing left to close; or others take what one has freed. So an opening fails only when nobody has closed anything
/// since it began, or after [`TRIES`].
pub(crate) fn opened<T>(open: impl Fn() -> Result<T>) -> Result<T> {
    let mut tries = 1;
    loop {
        let before = CLOSED.load(Ordering::Acquire);
        let opened = open();
        let lacks = opened.as_ref().is_err_and(|error| error.kind() == ErrorKind::OutOfResources);
        if !lacks || tries == TRIES || !(close_unused() || CLOSED.load(Ordering::Acquire) != before) {
            return opened;
        }
        tries += 1;
    }
}

/// Has everybody close what they can; returns whether that was anything.
#[cold]
fn close_unused() -> bool {
    let keepers: Vec<Arc<dyn Keeper>> = KEEPERS.lock().iter().filter_map(Weak::upgrade).collect();
    let closed = keepers.iter().filter(|keeper| keeper.close_unused()).count() > 0;
    if closed {
        CLOSED.fetch_add(1, Ordering::Release);
    }
    closed
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
    use std::cell::Cell;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::error::Error;

    /// Keeps a file open until it is asked for it.
    #[derive(Debug)]
    struct OneFile(AtomicBool);

    impl Keeper for OneFile {
        fn close_unused(&self) -> bool {
            self.0.swap(false, Ordering::Relaxed)
        }
    }

    /// Lacks a descriptor as long as `keeper` has its file open; `meanwhile` is what other threads do during the first try.
    fn open_beside(keeper: &OneFile, meanwhile: impl Fn()) -> Result<u32> {
        let tries = Cell::new(0);
        opened(|| {
            tries.set(tries.get() + 1);
            let lacks = keeper.0.load(Ordering::Relaxed);
            if tries.get() == 1 {
                meanwhile();
            }
            if lacks {
                return Err(Error::new(ErrorKind::OutOfResources, "no descriptor"));
            }
            Ok(tries.get())
        })
    }

    /// One test, since openings that lack a descriptor ask the keepers of the whole process.
    #[test]
    fn an_opening_is_tried_again_while_somebody_closes_files() {
        let keeper = Arc::new(OneFile(AtomicBool::new(true)));
        let weak = Arc::downgrade(&keeper);
        enter(weak);
        assert_eq!(open_beside(&keeper, || ()).unwrap(), 2);
        keeper.0.store(true, Ordering::Relaxed);
        assert_eq!(open_beside(&keeper, || assert!(close_unused())).unwrap(), 2);
        assert_eq!(open_beside(&keeper, || ()).unwrap(), 1);
        let tries = Cell::new(0);
        let failed = opened(|| -> Result<()> {
            tries.set(tries.get() + 1);
            Err(Error::new(ErrorKind::OutOfResources, "no descriptor"))
        });
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::OutOfResources);
        assert!(tries.get() <= TRIES);
    }

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
