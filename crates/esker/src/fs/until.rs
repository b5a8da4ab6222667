//! A file system whose calls fail with `Cancelled` as soon as the caller no longer wants the result.
//!
//! This cancels long work that consists of file-system calls, for example a check or a repair, at any point and within
//! one read. Once one call has failed, all later calls fail: no later step uses a result that a failed call made wrong.

use std::fmt;
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{
    DirLock, Directory, Entry, FileMark, FileSystem, LockMode, MappedFile, Mapping, RandomFile, ReadFile,
    UserFile, WriteFile,
};
use crate::error::{Error, ErrorKind, Result};

/// Decides whether work is to be cancelled.
pub(crate) struct Cancel {
    asks: Box<dyn Fn() -> bool + Send + Sync>,
    is_cancelled: AtomicBool,
    is_put_off: AtomicBool,
}

impl Cancel {
    /// Cancels the work when `asks` first returns true.
    pub(crate) fn when(asks: impl Fn() -> bool + Send + Sync + 'static) -> Arc<Cancel> {
        let (is_cancelled, is_put_off) = Default::default();
        Arc::new(Cancel { asks: Box::new(asks), is_cancelled, is_put_off })
    }

    /// Whether a call has failed because the work was cancelled.
    pub(crate) fn has_failed_calls(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// Fails with `Cancelled` if the work on `path` is to stop.
    pub(crate) fn go_on(&self, path: &Path) -> Result<()> {
        if self.is_put_off.load(Ordering::Relaxed) || !(self.has_failed_calls() || (self.asks)()) {
            return Ok(());
        }
        self.is_cancelled.store(true, Ordering::Relaxed);
        Err(Error::new(ErrorKind::Cancelled, "the caller cancelled the work").at(path))
    }

    /// Runs `work`, which is short, to its end even if the caller cancels meanwhile. Nothing was cancelled before.
    pub(crate) fn put_off<T>(&self, work: impl FnOnce() -> T) -> T {
        self.is_put_off.store(true, Ordering::Relaxed);
        let done = work();
        self.is_put_off.store(false, Ordering::Relaxed);
        done
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancel").field("is_cancelled", &self.is_cancelled).finish_non_exhaustive()
    }
}

/// `inner`, until the work is cancelled. Files that are written, and not read, check only when they are opened.
#[derive(Debug)]
pub(crate) struct UntilCancelled {
    inner: Arc<dyn FileSystem>,
    cancel: Arc<Cancel>,
}

impl UntilCancelled {
    pub(crate) fn wrap(inner: Arc<dyn FileSystem>, cancel: Arc<Cancel>) -> Arc<dyn FileSystem> {
        Arc::new(UntilCancelled { inner, cancel })
    }

    /// The inner file system for a call on `path`, unless the work is cancelled.
    fn ask(&self, path: &Path) -> Result<&dyn FileSystem> {
        self.cancel.go_on(path).map(|()| &*self.inner)
    }

    fn reading(&self, file: Arc<dyn ReadFile>) -> Arc<dyn ReadFile> {
        Arc::new(ReadUntilCancelled { inner: file, cancel: Arc::clone(&self.cancel) })
    }
}

/// Methods that first check for cancellation, with their first path, and then pass the call on.
macro_rules! ask_and_pass {
    ($(fn $name:ident($path:ident: &Path $(, $more:ident: $of:ty)*) -> $result:ty;)*) => {
        $(fn $name(&self, $path: &Path $(, $more: $of)*) -> Result<$result> {
            self.ask($path)?.$name($path $(, $more)*)
        })*
    };
}

impl FileSystem for UntilCancelled {
    fn within(&self, dir: &Path) -> Result<Arc<dyn FileSystem>> {
        Ok(UntilCancelled::wrap(self.ask(dir)?.within(dir)?, Arc::clone(&self.cancel)))
    }

    fn outside(&self) -> Arc<dyn FileSystem> {
        UntilCancelled::wrap(self.inner.outside(), Arc::clone(&self.cancel))
    }

    fn holds(&self, dir: &Path, path: &Path) -> Result<bool> {
        self.ask(path)?.holds(dir, path)
    }

    fn descriptors(&self) -> usize {
        self.inner.descriptors()
    }

    fn directory(&self) -> Option<&Directory> {
        self.inner.directory()
    }

    fn open_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        Ok(self.reading(self.ask(path)?.open_read(path)?))
    }

    fn open_direct(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        Ok(self.reading(self.ask(path)?.open_direct(path)?))
    }

    fn boot_id(&self) -> [u8; 16] {
        self.inner.boot_id()
    }

    fn mount_id(&self, dir: &Path) -> u64 {
        self.inner.mount_id(dir)
    }

    ask_and_pass! {
        fn read(path: &Path) -> Vec<u8>;
        fn create(path: &Path) -> Box<dyn WriteFile>;
        fn create_direct(path: &Path) -> Box<dyn WriteFile>;
        fn create_mapped(path: &Path, len: u64) -> Arc<dyn MappedFile>;
        fn open_mapped(path: &Path) -> Arc<dyn MappedFile>;
        fn create_random(path: &Path) -> Arc<dyn RandomFile>;
        fn open_random(path: &Path) -> Arc<dyn RandomFile>;
        fn punch_hole(path: &Path, offset: u64, len: u64) -> ();
        fn punch_holes(path: &Path, holes: &[(u64, u64)]) -> ();
        fn link_count(path: &Path) -> u64;
        fn allocated_bytes(path: &Path) -> u64;
        fn create_bulk(path: &Path, len: u64) -> Arc<dyn MappedFile>;
        fn open_bulk(path: &Path) -> Arc<dyn MappedFile>;
        fn set_allocated(path: &Path, len: u64) -> ();
        fn entries(dir: &Path) -> Vec<Entry>;
        fn list(dir: &Path) -> Vec<String>;
        fn exists(path: &Path) -> bool;
        fn file_len(path: &Path) -> u64;
        fn file_mark(path: &Path) -> FileMark;
        fn create_dir_all(dir: &Path) -> ();
        fn create_dir(dir: &Path) -> ();
        fn is_regular(path: &Path) -> bool;
        fn remove_file(path: &Path) -> ();
        fn remove_dir(dir: &Path) -> ();
        fn rename(from: &Path, to: &Path) -> ();
        fn hard_link(from: &Path, to: &Path) -> ();
        fn hard_link_to(from: &Path, target: &dyn FileSystem, to: &Path) -> ();
        fn sync_dir(dir: &Path) -> ();
        fn lock(path: &Path, mode: LockMode) -> Box<dyn DirLock>;
        fn free_space(dir: &Path) -> u64;
    }
}

/// A file that is read until the work is cancelled.
#[derive(Debug)]
struct ReadUntilCancelled {
    inner: Arc<dyn ReadFile>,
    cancel: Arc<Cancel>,
}

impl ReadUntilCancelled {
    fn ask(&self) -> Result<&dyn ReadFile> {
        self.cancel.go_on(self.inner.path()).map(|()| &*self.inner)
    }
}

impl ReadFile for ReadUntilCancelled {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.ask()?.read_exact_at(buf, offset)
    }

    fn read_uninit_at<'a>(&self, buf: &'a mut [MaybeUninit<u8>], offset: u64) -> Result<&'a mut [u8]> {
        self.ask()?.read_uninit_at(buf, offset)
    }

    fn copy_resident<'a>(&self, buf: &'a mut [MaybeUninit<u8>], offset: u64) -> Option<&'a mut [u8]> {
        self.inner.copy_resident(buf, offset)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn prefetch(&self, offset: u64, len: u64) {
        self.inner.prefetch(offset, len);
    }

    fn evict(&self, offset: u64, len: u64) {
        self.inner.evict(offset, len);
    }

    fn is_cached(&self, offset: u64) -> bool {
        self.inner.is_cached(offset)
    }

    fn read_resident_at(&self, buf: &mut [u8], offset: u64) -> bool {
        self.inner.read_resident_at(buf, offset)
    }

    fn next_data(&self, offset: u64) -> u64 {
        self.inner.next_data(offset)
    }

    fn copy_to(&self, offset: u64, len: u64, target: &UserFile) -> u64 {
        self.inner.copy_to(offset, len, target)
    }

    fn map(&self, offset: u64, len: u64) -> Result<Mapping> {
        self.ask()?.map(offset, len)
    }
}
