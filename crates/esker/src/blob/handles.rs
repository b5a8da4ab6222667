//! Sealed blob files. Each is open while it is read, and stays open until too many are open
//! ([`open_files`](crate::fs::open_files)). Therefore a store with thousands of them needs few descriptors.

use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use crate::error::Result;
use crate::fs::open_files::{OpenFiles, Reopenable, Slot};
use crate::fs::{FileSystem, Mapping, ReadFile, UserFile, descriptors};

const OPEN_MAX: usize = 64;

/// The files take one part in this many of the descriptors that a process may keep.
const PART: usize = 4;

#[derive(Debug)]
pub(crate) struct Handles {
    fs: Arc<dyn FileSystem>,
    open: Arc<OpenFiles<LazyFile>>,
}

/// A file that does not change any more.
#[derive(Debug)]
pub(crate) struct LazyFile {
    handles: Arc<Handles>,
    this: Weak<LazyFile>,
    path: PathBuf,
    len: u64,
    file: Slot<Arc<dyn ReadFile>>,
}

impl Handles {
    pub(crate) fn new(fs: &Arc<dyn FileSystem>) -> Arc<Handles> {
        Arc::new(Handles { fs: Arc::clone(fs), open: OpenFiles::new(&**fs, OPEN_MAX, PART, usize::MAX) })
    }

    /// A handle of the file `path`, which is not opened yet.
    pub(crate) fn file(self: &Arc<Self>, path: &Path) -> Result<Arc<LazyFile>> {
        Ok(self.file_of(path, self.fs.file_len(path)?))
    }

    /// A handle of the file `path`, which has `len` bytes and is not opened yet.
    pub(super) fn file_of(self: &Arc<Self>, path: &Path, len: u64) -> Arc<LazyFile> {
        let (handles, path) = (Arc::clone(self), path.to_path_buf());
        Arc::new_cyclic(|this| LazyFile { handles, this: Weak::clone(this), path, len, file: Slot::new() })
    }

    /// Closes all open files because the store is closed, except those that have to stay open.
    pub(crate) fn close(&self) {
        self.open.shut();
    }
}

impl Reopenable for LazyFile {
    type Open = Arc<dyn ReadFile>;

    fn slot(&self) -> &Slot<Arc<dyn ReadFile>> {
        &self.file
    }

    fn memory(_: &Arc<dyn ReadFile>) -> usize {
        0
    }
}

impl LazyFile {
    /// Keeps the file open for its readers, because its name is about to belong to another file.
    pub(crate) fn keep(&self) -> Result<()> {
        self.handles.open.keep(self);
        self.with(|_| ())
    }

    fn with<T>(&self, read: impl FnOnce(&dyn ReadFile) -> T) -> Result<T> {
        match &*self.file.load() {
            Some(file) => Ok(read(&***file)),
            None => Ok(read(&**self.opened()?)),
        }
    }

    fn opened(&self) -> Result<Arc<Arc<dyn ReadFile>>> {
        let open = || descriptors::opened(&*self.handles.fs, || self.handles.fs.open_read(&self.path));
        match self.this.upgrade() {
            Some(this) => self.handles.open.open(&this, open),
            None => open().map(Arc::new),
        }
    }
}

impl ReadFile for LazyFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.with(|file| file.read_exact_at(buf, offset))?
    }

    fn read_uninit_at<'a>(&self, buf: &'a mut [MaybeUninit<u8>], offset: u64) -> Result<&'a mut [u8]> {
        self.with(|file| file.read_uninit_at(buf, offset))?
    }

    fn copy_resident<'a>(&self, buf: &'a mut [MaybeUninit<u8>], offset: u64) -> Option<&'a mut [u8]> {
        self.with(|file| file.copy_resident(buf, offset)).ok()?
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn prefetch(&self, offset: u64, len: u64) {
        // This is a hint: if it fails, the read fails too.
        drop(self.with(|file| file.prefetch(offset, len)));
    }

    fn is_cached(&self, offset: u64) -> bool {
        self.with(|file| file.is_cached(offset)).unwrap_or(false)
    }

    fn copy_to(&self, offset: u64, len: u64, target: &UserFile) -> u64 {
        self.with(|file| file.copy_to(offset, len, target)).unwrap_or(0)
    }

    fn map(&self, offset: u64, len: u64) -> Result<Mapping> {
        self.with(|file| file.map(offset, len))?
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
            let open = files.iter().filter(|file| file.file.peek().is_some()).count();
            assert!(open <= OPEN_MAX, "{open} files are open");
        }
        files[0].keep().unwrap();
        disk.remove_file(&path(0)).unwrap();
        files.iter().for_each(|file| file.with(|_| ()).unwrap());
        let mut byte = [1];
        files[0].read_exact_at(&mut byte, 0).unwrap();
        assert_eq!(byte, [0]);
    }
}
