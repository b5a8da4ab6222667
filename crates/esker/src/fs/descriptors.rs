//! The process's file descriptors: how many the stores keep, and which ones are closed when they run out.
//!
//! Stores keep tables and blob files open that they could open again. They stay within a part of the limit
//! (`RLIMIT_NOFILE`) minus the files that the rest of the process has open. Both numbers change, so they are read
//! whenever a table or a blob file is opened. An opening may still fail, for example because of the system-wide limit.
//! Then every store of the process closes the files that it is not reading, and the opening is tried again. It fails
//! with `OutOfResources` when nothing was left to close. A simulated disk has its own descriptors, so that no other
//! store disturbs the run that a seed repeats.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::FileSystem;
use super::real::os;
use crate::error::{ErrorKind, Result};

/// A store keeps at least this many files open, however few descriptors there are.
const KEPT_MIN: usize = 4;

/// How often an opening is tried.
const TRIES: u32 = 32;

/// How often unused files were closed because an opening found no descriptor.
static CLOSED: AtomicU64 = AtomicU64::new(0);

/// The result of an attempt to close files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Freed {
    Nothing,
    /// Nothing yet: threads were reading the files that could be closed, for the length of one lookup.
    Soon,
    Now,
}

/// An owner of open files that it can open again.
pub(crate) trait Keeper: Send + Sync + Debug {
    /// Closes files that are not being read. The caller may hold any lock of a store except the one that guards the
    /// list of open files.
    fn close_unused(&self) -> Freed;
}

/// All owners that keep files open, each with the descriptors that they take ([`FileSystem::descriptors`]).
static KEEPERS: Mutex<Vec<(usize, Weak<dyn Keeper>)>> = Mutex::new(Vec::new());

/// Registers `keeper` of files of `fs` until it is dropped.
pub(crate) fn enter(fs: &dyn FileSystem, keeper: Weak<dyn Keeper>) {
    let mut keepers = KEEPERS.lock();
    keepers.retain(|(_, keeper)| keeper.strong_count() > 0);
    keepers.push((fs.descriptors(), keeper));
}

/// Opens a file of `fs` by `open`. If there is no descriptor for it, other files are closed and `open` is tried again.
///
/// Several threads may reach the limit at the same time. One of them may close the files that all of them could have
/// closed, so that the others find nothing left to close; or other threads may take the descriptors that it freed.
/// Therefore an opening fails only if no thread has closed anything since it began, and none could soon, or after
/// [`TRIES`] tries.
pub(crate) fn opened<T>(fs: &dyn FileSystem, open: impl Fn() -> Result<T>) -> Result<T> {
    let mut tries = 1;
    loop {
        let before = CLOSED.load(Ordering::Acquire);
        let opened = open();
        let lacks = opened.as_ref().is_err_and(|error| error.kind() == ErrorKind::OutOfResources);
        if !lacks || tries == TRIES {
            return opened;
        }
        match close_unused(fs.descriptors()) {
            Freed::Now => {}
            Freed::Soon => std::thread::yield_now(),
            Freed::Nothing if CLOSED.load(Ordering::Acquire) != before => {}
            Freed::Nothing => return opened,
        }
        tries += 1;
    }
}

/// Makes every keeper of `descriptors` close what it can.
#[cold]
fn close_unused(descriptors: usize) -> Freed {
    let keepers: Vec<Arc<dyn Keeper>> = {
        let all = KEEPERS.lock();
        let same = all.iter().filter(|(of, _)| *of == descriptors);
        same.filter_map(|(_, keeper)| keeper.upgrade()).collect()
    };
    let freed = keepers.iter().map(|keeper| keeper.close_unused()).max().unwrap_or(Freed::Nothing);
    if freed == Freed::Now {
        CLOSED.fetch_add(1, Ordering::Release);
    }
    freed
}

/// How many files an owner of `mine` open files may keep, so that a quarter of the process's limit stays free.
pub(crate) fn kept_max(mine: usize) -> usize {
    let Some(max) = os::descriptors_max() else { return usize::MAX };
    kept_of(max, os::descriptors_open(), mine)
}

/// The same for a process that may open `max` files and has `open` open, if known.
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
    use crate::fs::sim::SimFs;

    /// Keeps a file open until it is told to close it.
    #[derive(Debug)]
    struct OneFile(AtomicBool);

    impl Keeper for OneFile {
        fn close_unused(&self) -> Freed {
            if self.0.swap(false, Ordering::Relaxed) { Freed::Now } else { Freed::Nothing }
        }
    }

    /// Finds no descriptor while `keeper` has its file open; `meanwhile` is the work of other threads during the first
    /// try.
    fn open_beside(disk: &SimFs, keeper: &OneFile, meanwhile: impl Fn()) -> Result<u32> {
        let tries = Cell::new(0);
        opened(disk, || {
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

    #[test]
    fn an_opening_is_tried_again_while_somebody_closes_files() {
        let (disk, keeper) = (SimFs::new(1), Arc::new(OneFile(AtomicBool::new(true))));
        let weak = Arc::downgrade(&keeper);
        enter(&disk, weak);
        assert_eq!(open_beside(&disk, &keeper, || ()).unwrap(), 2);
        keeper.0.store(true, Ordering::Relaxed);
        let close = || close_unused(disk.descriptors());
        assert_eq!(open_beside(&disk, &keeper, || assert_eq!(close(), Freed::Now)).unwrap(), 2);
        assert_eq!(open_beside(&disk, &keeper, || ()).unwrap(), 1);
        let tries = Cell::new(0);
        let failed = opened(&disk, || -> Result<()> {
            tries.set(tries.get() + 1);
            Err(Error::new(ErrorKind::OutOfResources, "no descriptor"))
        });
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::OutOfResources);
        assert!(tries.get() <= TRIES);
    }

    #[test]
    fn who_takes_other_descriptors_closes_nothing() {
        let (disk, keeper) = (SimFs::new(1), Arc::new(OneFile(AtomicBool::new(true))));
        let weak = Arc::downgrade(&keeper);
        enter(&disk, weak);
        let clone = disk.outside();
        assert_eq!(close_unused(SimFs::new(1).descriptors()), Freed::Nothing);
        assert_eq!(close_unused(clone.descriptors()), Freed::Now);
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
