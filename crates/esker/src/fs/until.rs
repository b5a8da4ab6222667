//! A file system whose calls fail with `Cancelled` as soon as the caller no longer wants the result.
//!
//! This cancels long work that consists of file-system calls, such as a check or a repair, at any point and within one
//! read. Once one call has failed, all later calls fail: no later step uses a result that a failed call made wrong.

use std::fmt;
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{
    DirLock, Directory, Entry, FileSystem, LockMode, MappedFile, Mapping, RandomFile, ReadFile, UserFile,
    WriteFile,
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

    fn directory(&self) -> Option<&Directory> {
        self.inner.directory()
    }

    fn open_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        Ok(self.reading(self.ask(path)?.open_read(path)?))
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        self.ask(path)?.read(path)
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        self.ask(path)?.create(path)
    }

    fn open_direct(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        Ok(self.reading(self.ask(path)?.open_direct(path)?))
    }

    fn create_direct(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        self.ask(path)?.create_direct(path)
    }

    fn create_mapped(&self, path: &Path, len: u64) -> Result<Arc<dyn MappedFile>> {
        self.ask(path)?.create_mapped(path, len)
    }

    fn open_mapped(&self, path: &Path) -> Result<Arc<dyn MappedFile>> {
        self.ask(path)?.open_mapped(path)
    }

    fn create_random(&self, path: &Path) -> Result<Arc<dyn RandomFile>> {
        self.ask(path)?.create_random(path)
    }

    fn open_random(&self, path: &Path) -> Result<Arc<dyn RandomFile>> {
        self.ask(path)?.open_random(path)
    }

    fn punch_hole(&self, path: &Path, offset: u64, len: u64) -> Result<()> {
        self.ask(path)?.punch_hole(path, offset, len)
    }

    fn punch_holes(&self, path: &Path, holes: &[(u64, u64)]) -> Result<()> {
        self.ask(path)?.punch_holes(path, holes)
    }

    fn link_count(&self, path: &Path) -> Result<u64> {
        self.ask(path)?.link_count(path)
    }

    fn allocated_bytes(&self, path: &Path) -> Result<u64> {
        self.ask(path)?.allocated_bytes(path)
    }

    fn create_bulk(&self, path: &Path, len: u64) -> Result<Arc<dyn MappedFile>> {
        self.ask(path)?.create_bulk(path, len)
    }

    fn open_bulk(&self, path: &Path) -> Result<Arc<dyn MappedFile>> {
        self.ask(path)?.open_bulk(path)
    }

    fn set_allocated(&self, path: &Path, len: u64) -> Result<()> {
        self.ask(path)?.set_allocated(path, len)
    }

    fn entries(&self, dir: &Path) -> Result<Vec<Entry>> {
        self.ask(dir)?.entries(dir)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.ask(dir)?.list(dir)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.ask(path)?.exists(path)
    }

    fn file_len(&self, path: &Path) -> Result<u64> {
        self.ask(path)?.file_len(path)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.ask(dir)?.create_dir_all(dir)
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        self.ask(dir)?.create_dir(dir)
    }

    fn is_regular(&self, path: &Path) -> Result<bool> {
        self.ask(path)?.is_regular(path)
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        self.ask(path)?.remove_file(path)
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.ask(dir)?.remove_dir(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.ask(from)?.rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        self.ask(from)?.hard_link(from, to)
    }

    fn hard_link_to(&self, from: &Path, target: &dyn FileSystem, to: &Path) -> Result<()> {
        self.ask(from)?.hard_link_to(from, target, to)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.ask(dir)?.sync_dir(dir)
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn DirLock>> {
        self.ask(path)?.lock(path, mode)
    }

    fn free_space(&self, dir: &Path) -> Result<u64> {
        self.ask(dir)?.free_space(dir)
    }

    fn boot_id(&self) -> [u8; 16] {
        self.inner.boot_id()
    }

    fn mount_id(&self, dir: &Path) -> u64 {
        self.inner.mount_id(dir)
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

    fn is_cached(&self, offset: u64) -> bool {
        self.inner.is_cached(offset)
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
