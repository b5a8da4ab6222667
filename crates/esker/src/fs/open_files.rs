//! Files that are opened when they are read, and closed when too many are open.
//!
//! An [`OpenFiles`] lists the open files of one kind: tables, or sealed blob files. It limits how many are open and the
//! memory that they take. Beyond a limit it closes files that were not read recently. When the process has no
//! descriptor left, it closes the files that no thread reads ([`descriptors`]).
//!
//! ```text
//! Slot::load --- open ----> read
//!       '------ closed ---> OpenFiles::open: open the file, list it, close others beyond the limits
//! ```
//! Guarantees: a thread that reads a file keeps it open for itself, even if it is closed for others. Threads that open
//! one file at the same time all get the one that is listed.
//!
//! Locks: `list` is held briefly, and no other lock is taken under it. No file is opened or dropped under it: the drop
//! of a file may take any lock.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::Mutex;

use super::FileSystem;
use super::descriptors::{self, Freed, Keeper};
use crate::error::Result;

/// A file that can be opened again.
pub(crate) trait Reopenable: Send + Sync + Debug + 'static {
    /// The open state: a descriptor, and the data that were read along with the opening.
    type Open: Send + Sync + Debug;

    fn slot(&self) -> &Slot<Self::Open>;

    /// How many bytes of memory `open` takes.
    fn memory(open: &Self::Open) -> usize;
}

/// The place in a file for its open state. Only an [`OpenFiles`] fills and empties it.
#[derive(Debug)]
pub(crate) struct Slot<T> {
    /// Changed under [`OpenFiles::list`], and when the file is dropped.
    open: ArcSwapOption<T>,
    /// Whether the file was read since the last call of [`Slot::take_used`].
    used: AtomicBool,
    /// Whether the file stays open once it is. Set under [`OpenFiles::list`].
    kept: AtomicBool,
}

/// The open files of one kind.
#[derive(Debug)]
pub(crate) struct OpenFiles<F> {
    count_max: usize,
    /// The files may take one part in this many of the descriptors that this process may keep.
    part: usize,
    memory_max: usize,
    memory: AtomicUsize,
    /// The open files that may be closed. A file goes to the end when it is opened, and when it was found in use.
    list: Mutex<VecDeque<Weak<F>>>,
    /// No file is kept open from now on. Set under `list`.
    shut: AtomicBool,
}

impl<T> Slot<T> {
    /// For a file that is not open.
    pub(crate) fn new() -> Slot<T> {
        let [used, kept] = [false; 2].map(AtomicBool::new);
        Slot { open: ArcSwapOption::empty(), used, kept }
    }

    /// The open state, if the file is open, for a read.
    #[inline]
    pub(crate) fn load(&self) -> Guard<Option<Arc<T>>> {
        let open = self.open.load();
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        open
    }

    /// The open state, if the file is open. This does not count as a read.
    pub(crate) fn peek(&self) -> Option<Arc<T>> {
        self.open.load_full()
    }

    /// Whether the file was read since the last call.
    pub(crate) fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// Empties the slot unless a thread reads the file. If it returns [`Freed::Soon`], a thread has only borrowed the
    /// open state, and the next call may succeed.
    fn take_unread(&self) -> (Option<Arc<T>>, Freed) {
        if self.open.load().as_ref().is_none_or(|open| Arc::strong_count(open) > 1) {
            return (None, Freed::Nothing);
        }
        let Some(open) = self.open.swap(None) else { return (None, Freed::Nothing) };
        // A thread with a guard only borrows the open state. It counts since the swap.
        if Arc::strong_count(&open) > 1 {
            self.open.store(Some(open));
            return (None, Freed::Soon);
        }
        (Some(open), Freed::Now)
    }
}

impl<F: Reopenable> OpenFiles<F> {
    /// At most `count_max` files of `fs`, and at most one part in `part` of the descriptors that the process may keep,
    /// are open at the same time. They take at most `memory_max` bytes.
    pub(crate) fn new(
        fs: &dyn FileSystem,
        count_max: usize,
        part: usize,
        memory_max: usize,
    ) -> Arc<OpenFiles<F>> {
        let files = Arc::new(OpenFiles::apart(count_max, part, memory_max));
        let keeper: Weak<dyn Keeper> = Arc::<OpenFiles<F>>::downgrade(&files);
        descriptors::enter(fs, keeper);
        files
    }

    /// Like [`OpenFiles::new`], but closes nothing when the process has no descriptor left.
    fn apart(count_max: usize, part: usize, memory_max: usize) -> OpenFiles<F> {
        let (memory, list, shut) = (AtomicUsize::new(0), Mutex::default(), AtomicBool::new(false));
        OpenFiles { count_max: count_max.max(1), part, memory_max, memory, list, shut }
    }

    /// Bytes of memory that open files take.
    pub(crate) fn memory(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    /// Bytes of memory that further files may take.
    pub(crate) fn room(&self) -> usize {
        self.memory_max.saturating_sub(self.memory())
    }

    pub(crate) fn count(&self) -> usize {
        self.list.lock().iter().filter(|file| file.strong_count() > 0).count()
    }

    /// The open files that may be closed.
    pub(crate) fn files(&self) -> impl Iterator<Item = Arc<F>> + use<F> {
        let list: Vec<Weak<F>> = self.list.lock().iter().cloned().collect();
        list.into_iter().filter_map(|file| file.upgrade())
    }

    /// The open state of `file`. If it is not open, `open` opens it, and others are closed beyond the limits.
    pub(crate) fn open(&self, file: &Arc<F>, open: impl FnOnce() -> Result<F::Open>) -> Result<Arc<F::Open>> {
        // For a moment, `close_unused` also empties the slot of a file that is being read: hence the lock.
        let listed = || {
            let _list = self.list.lock();
            file.slot().peek()
        };
        if let Some(open) = listed() {
            return Ok(open);
        }
        match open() {
            Ok(open) => Ok(self.enter(file, Arc::new(open))),
            Err(error) => listed().ok_or(error),
        }
    }

    /// Lists `file`, whose open state is `open`, unless another thread was faster. Returns the listed open state.
    fn enter(&self, file: &Arc<F>, open: Arc<F::Open>) -> Arc<F::Open> {
        let count_max = self.count_max.min(descriptors::kept_max(self.count()) / self.part);
        let (slot, mut passed) = (file.slot(), Passed::<F>::default());
        {
            let mut list = self.list.lock();
            if let Some(other) = slot.peek() {
                return other;
            }
            let is_kept = slot.kept.load(Ordering::Relaxed);
            if self.is_shut() && !is_kept {
                return open;
            }
            self.memory.fetch_add(F::memory(&open), Ordering::Relaxed);
            slot.open.store(Some(Arc::clone(&open)));
            if !is_kept {
                list.push_back(Arc::downgrade(file));
            }
            if list.len() > count_max {
                // Entries of dropped files may be left.
                list.retain(|file| file.strong_count() > 0);
            }
            self.close_some(count_max, &mut list, &mut passed);
        }
        open
    }

    /// Closes files that were not read recently until the limits hold. Never closes the newest. `passed` gets the
    /// values that must be dropped without the lock.
    fn close_some(&self, count_max: usize, list: &mut VecDeque<Weak<F>>, passed: &mut Passed<F>) {
        let mut passes = list.len() * 2;
        while passes > 0 && list.len() > 1 && (list.len() > count_max || self.memory() > self.memory_max) {
            passes -= 1;
            let Some(candidate) = list.pop_front() else { break };
            let Some(file) = candidate.upgrade() else { continue };
            if file.slot().take_used() {
                list.push_back(candidate);
                passed.push((file, None));
            } else {
                let closed = self.empty(file.slot());
                passed.push((file, closed));
            }
        }
    }

    /// Closes `file` until it is read again, unless it is kept.
    pub(crate) fn close(&self, file: &Arc<F>) {
        let mut list = self.list.lock();
        let index = list.iter().position(|other| other.as_ptr() == Arc::as_ptr(file));
        let closed = index.and_then(|index| {
            list.remove(index);
            self.empty(file.slot())
        });
        drop(list);
        drop(closed);
    }

    /// From its next opening on, or from now on if it is open, `file` stays open until it is dropped.
    pub(crate) fn keep(&self, file: &F) {
        let mut list = self.list.lock();
        file.slot().kept.store(true, Ordering::Relaxed);
        list.retain(|other| !std::ptr::eq(other.as_ptr(), file));
    }

    /// Closes `file`, which is being dropped.
    pub(crate) fn release(&self, file: &F) {
        drop(self.empty(file.slot()));
    }

    /// Closes all files that are not kept, and keeps no file open from now on.
    pub(crate) fn shut(&self) {
        let mut list = self.list.lock();
        self.shut.store(true, Ordering::Release);
        let passed: Passed<F> = list
            .drain(..)
            .filter_map(|file| file.upgrade())
            .map(|file| (Arc::clone(&file), self.empty(file.slot())))
            .collect();
        drop(list);
        drop(passed);
    }

    pub(crate) fn is_shut(&self) -> bool {
        self.shut.load(Ordering::Acquire)
    }

    /// Empties `slot`. Returns its open state, to drop it without the lock.
    fn empty(&self, slot: &Slot<F::Open>) -> Option<Arc<F::Open>> {
        let open = slot.open.swap(None)?;
        self.note_closed(&open);
        Some(open)
    }

    fn note_closed(&self, open: &F::Open) {
        self.memory.fetch_sub(F::memory(open), Ordering::Relaxed);
    }
}

/// Values that were taken out under the lock of the list, to be dropped without it: files, and their open states.
type Passed<F> = Vec<(Arc<F>, Option<Arc<<F as Reopenable>::Open>>)>;

impl<F: Reopenable> Keeper for OpenFiles<F> {
    fn close_unused(&self) -> Freed {
        let (mut passed, mut freed) = (Passed::<F>::default(), Freed::Nothing);
        let mut list = self.list.lock();
        list.retain(|file| {
            let Some(file) = file.upgrade() else { return false };
            let (closed, how) = file.slot().take_unread();
            freed = freed.max(how);
            closed.iter().for_each(|open| self.note_closed(open));
            let stays = closed.is_none();
            passed.push((file, closed));
            stays
        });
        drop(list);
        drop(passed);
        freed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its open state is its number, which takes as many bytes of memory.
    #[derive(Debug)]
    struct Numbered(usize, Slot<usize>);

    impl Reopenable for Numbered {
        type Open = usize;

        fn slot(&self) -> &Slot<usize> {
            &self.1
        }

        fn memory(open: &usize) -> usize {
            *open
        }
    }

    fn files<const N: usize>() -> [Arc<Numbered>; N] {
        std::array::from_fn(|number| Arc::new(Numbered(number, Slot::new())))
    }

    fn read(open: &OpenFiles<Numbered>, file: &Arc<Numbered>) -> usize {
        match &*file.1.load() {
            Some(number) => **number,
            None => *open.open(file, || Ok(file.0)).unwrap(),
        }
    }

    fn are_open<const N: usize>(files: &[Arc<Numbered>; N]) -> [bool; N] {
        std::array::from_fn(|number| files[number].1.peek().is_some())
    }

    #[test]
    fn what_was_not_read_lately_is_closed_beyond_the_limits() {
        let (open, files) = (OpenFiles::apart(3, 1, 12), files::<9>());
        (0..3).for_each(|number| assert_eq!(read(&open, &files[number]), number));
        assert_eq!((open.count(), open.memory(), open.room()), (3, 3, 9));
        // The first one was listed first and is still in use; the other two are not.
        assert!(files[1..3].iter().all(|file| file.1.take_used()));
        assert_eq!(read(&open, &files[3]), 3);
        let now = are_open(&files);
        assert_eq!(now, [true, false, true, true, false, false, false, false, false]);
        // The last two exceed the memory, but the newest stays.
        assert_eq!((read(&open, &files[7]), read(&open, &files[8])), (7, 8));
        assert_eq!((are_open(&files)[7..].to_vec(), open.memory()), (vec![false, true], 8));
        open.close(&files[8]);
        assert_eq!((open.count(), open.memory()), (0, 0));
    }

    #[test]
    fn what_is_read_is_neither_closed_nor_counted_as_closed_for_want_of_descriptors() {
        let (open, files) = (OpenFiles::apart(9, 1, 99), files::<3>());
        files.iter().for_each(|file| assert_eq!(read(&open, file), file.0));
        let (borrowed, shared) = (files[0].1.load(), files[1].1.peek());
        assert_eq!(open.close_unused(), Freed::Now);
        assert_eq!((are_open(&files), open.count(), open.memory()), ([true, true, false], 2, 1));
        assert_eq!(open.close_unused(), Freed::Nothing, "the borrowed one counts since the first attempt");
        drop(borrowed);
        let borrowed = files[0].1.load();
        assert_eq!(open.close_unused(), Freed::Soon);
        drop(borrowed);
        assert_eq!(open.close_unused(), Freed::Now);
        assert_eq!(open.close_unused(), Freed::Nothing);
        drop(shared);
        assert_eq!(open.close_unused(), Freed::Now);
        assert_eq!((are_open(&files), open.count(), open.memory()), ([false; 3], 0, 0));
    }

    #[test]
    fn a_kept_file_stays_open() {
        let (open, files) = (OpenFiles::apart(1, 1, 99), files::<4>());
        assert_eq!(read(&open, &files[0]), 0);
        open.keep(&files[0]);
        open.keep(&files[1]);
        files.iter().for_each(|file| assert_eq!(read(&open, file), file.0));
        assert_eq!(open.close_unused(), Freed::Now);
        assert_eq!(are_open(&files), [true, true, false, false]);
        open.shut();
        assert_eq!((read(&open, &files[2]), are_open(&files)), (2, [true, true, false, false]));
    }

    #[test]
    fn threads_that_open_one_file_get_the_same() {
        let (open, [file]) = (OpenFiles::apart(1, 1, 99), files());
        let faster = open.open(&file, || Ok(0)).unwrap();
        assert!(Arc::ptr_eq(&faster, &open.open(&file, || Ok(0)).unwrap()));
        let fails =
            || Err(crate::error::Error::new(crate::error::ErrorKind::OutOfResources, "no descriptor"));
        assert!(Arc::ptr_eq(&faster, &open.open(&file, fails).unwrap()));
        open.close(&file);
        assert!(open.open(&file, fails).is_err());
        assert_eq!((open.count(), *faster), (0, 0));
    }
}
