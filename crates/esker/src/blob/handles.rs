//! Open blob files. Only a limited number is open at once, so that a store of thousands of them needs few descriptors.
//!
//! A [`LazyFile`] is opened when it is read. When too many are open, the one opened first is closed. Readers at work
//! keep theirs.

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::error::Result;
use crate::fs::descriptors::{self, Keeper};
use crate::fs::{FileSystem, Mapping, ReadFile, UserFile};

/// The most sealed blob files that are open at once.
const OPEN_MAX: usize = 64;

/// See the module's comment.
#[derive(Debug)]
pub(crate) struct Handles {
    fs: Arc<dyn FileSystem>,
    /// The open files that may be closed, in the order in which they were opened.
    open: Mutex<VecDeque<Weak<LazyFile>>>,
}

/// A file that does not change any more.
#[derive(Debug)]
pub(crate) struct LazyFile {
    handles: Arc<Handles>,
    this: Weak<LazyFile>,
    path: PathBuf,
    len: u64,
    file: Mutex<Option<Arc<dyn ReadFile>>>,
    /// Whether it stays open, because its name now belongs to another file and a reader may still need this one.
    kept: AtomicBool,
}

impl Handles {
    pub(crate) fn new(fs: &Arc<dyn FileSystem>) -> Arc<Handles> {
        let handles = Arc::new(Handles { fs: Arc::clone(fs), open: Mutex::default() });
        let keeper: Weak<dyn Keeper> = Arc::<Handles>::downgrade(&handles);
        descriptors::enter(keeper);
        handles
    }

    /// A handle of the file `path`, which is not opened yet.
    pub(crate) fn file(self: &Arc<Self>, path: &Path) -> Result<Arc<LazyFile>> {
        Ok(self.file_of(path, self.fs.file_len(path)?))
    }

    /// A handle of the file `path`, which has `len` bytes and is not opened yet.
    pub(super) fn file_of(self: &Arc<Self>, path: &Path, len: u64) -> Arc<LazyFile> {
        let (handles, path) = (Arc::clone(self), path.to_path_buf());
        Arc::new_cyclic(|this| LazyFile {
            handles,
            this: Weak::clone(this),
            path,
            len,
            file: Mutex::default(),
            kept: AtomicBool::new(false),
        })
    }

    /// Closes all open files, except those that have to stay open.
    pub(crate) fn close(&self) {
        let open = std::mem::take(&mut *self.open.lock());
        open.iter().filter_map(Weak::upgrade).for_each(|file| file.close());
    }

    /// Notes that `file` was opened, and closes another file if too many are open.
    fn opened(&self, file: &Weak<LazyFile>) {
        let surplus = {
            let mut open = self.open.lock();
            open.push_back(Weak::clone(file));
            if open.len() > OPEN_MAX.min(descriptors::kept_max(open.len()) / 4) {
                open.pop_front()
            } else {
                None
            }
        };
        if let Some(file) = surplus.and_then(|file| file.upgrade()) {
            file.close();
        }
    }
}

impl Keeper for Handles {
    fn close_unused(&self) -> bool {
        let open: Vec<Arc<LazyFile>> = self.open.lock().iter().filter_map(Weak::upgrade).collect();
        open.iter().filter(|file| file.close_unread()).count() > 0
    }
}

impl LazyFile {
    /// Closes the file if nobody reads it or is opening it; the caller itself may be opening it. Returns whether it was
    /// open.
    fn close_unread(&self) -> bool {
        let Some(mut file) = self.file.try_lock() else { return false };
        let is_unread = file.as_ref().is_some_and(|file| Arc::strong_count(file) == 1);
        is_unread && !self.kept.load(Ordering::Acquire) && file.take().is_some()
    }

    /// Opens the file and keeps it open, because its name is about to belong to another file.
    pub(crate) fn keep(&self) -> Result<()> {
        self.kept.store(true, Ordering::Release);
        self.opened().map(drop)
    }

    /// Closes the file until it is read again, unless it has to stay open.
    fn close(&self) {
        let mut file = self.file.lock();
        if !self.kept.load(Ordering::Acquire) {
            file.take();
        }
    }

    /// The open file, which the caller may keep.
    fn opened(&self) -> Result<Arc<dyn ReadFile>> {
        let mut file = self.file.lock();
        if let Some(file) = &*file {
            return Ok(Arc::clone(file));
        }
        let opened = descriptors::opened(|| self.handles.fs.open_read(&self.path))?;
        *file = Some(Arc::clone(&opened));
        drop(file);
        self.handles.opened(&self.this);
        Ok(opened)
    }
}

impl ReadFile for LazyFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.opened()?.read_exact_at(buf, offset)
    }

    fn read_uninit_at<'a>(&self, buf: &'a mut [MaybeUninit<u8>], offset: u64) -> Result<&'a mut [u8]> {
        self.opened()?.read_uninit_at(buf, offset)
    }

    fn copy_resident<'a>(&self, buf: &'a mut [MaybeUninit<u8>], offset: u64) -> Option<&'a mut [u8]> {
        self.opened().ok()?.copy_resident(buf, offset)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn prefetch(&self, offset: u64, len: u64) {
        if let Ok(file) = self.opened() {
            file.prefetch(offset, len);
        }
    }

    fn is_cached(&self, offset: u64) -> bool {
        self.opened().is_ok_and(|file| file.is_cached(offset))
    }

    fn copy_to(&self, offset: u64, len: u64, target: &UserFile) -> u64 {
        self.opened().map_or(0, |file| file.copy_to(offset, len, target))
    }

    fn map(&self, offset: u64, len: u64) -> Result<Mapping> {
        self.opened()?.map(offset, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::sim::SimFs;

    #[test]
    fn few_files_are_open_and_all_are_read() {
        let disk = SimFs::new(1);
        disk.create_dir_all(Path::new("/db")).unwrap();
        let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
        let handles = Handles::new(&fs);
        let path = |number: usize| PathBuf::from(format!("/db/{number}"));
        let files: Vec<Arc<LazyFile>> = (0..3 * OPEN_MAX)
            .map(|number| {
                disk.write_all(path(number), &[number as u8]).unwrap();
                handles.file(&path(number)).unwrap()
            })
            .collect();
        for _ in 0..2 {
            for (number, file) in files.iter().enumerate() {
                let mut byte = [0];
                file.read_exact_at(&mut byte, 0).unwrap();
                assert_eq!(byte, [number as u8]);
            }
            let open = files.iter().filter(|file| file.file.lock().is_some()).count();
            assert!(open <= OPEN_MAX, "{open} files are open");
        }
        files[0].keep().unwrap();
        disk.remove_file(&path(0)).unwrap();
        files.iter().for_each(|file| drop(file.opened()));
        let mut byte = [1];
        files[0].read_exact_at(&mut byte, 0).unwrap();
        assert_eq!(byte, [0]);
    }
}
