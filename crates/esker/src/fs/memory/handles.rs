//! Open files and locks in memory.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::{Mutex, RwLock};

use super::content::{Content, LEN_MAX};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{DirLock, LockMode, MappedFile, RandomFile, ReadFile, SyncFile, WriteFile, too_short};

/// A file, independent of its names.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) content: RwLock<Content>,
    /// How many names it has. Changed under the lock of the names.
    pub(super) names: AtomicU64,
    /// How many hold the file's lock; `usize::MAX`: one alone.
    holders: Mutex<usize>,
}

/// An open file, for appending and for writing at offsets.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) file: Arc<File>,
    path: PathBuf,
}

impl Handle {
    pub(super) fn new(file: Arc<File>, path: &Path) -> Self {
        Handle { file, path: path.to_path_buf() }
    }

    pub(super) fn reader(self) -> Reader {
        let len = self.file.content.read().len();
        Reader { handle: self, len }
    }

    pub(super) fn mapped(self, len: u64) -> Mapped {
        Mapped { handle: self, len }
    }

    fn read(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        if self.file.content.read().read(offset, buf) {
            Ok(())
        } else {
            Err(too_short(&self.path, offset, buf.len()))
        }
    }

    /// `EFBIG`, as an operating system reports it.
    fn check_end(&self, doing: &str, offset: u64, len: u64) -> Result<()> {
        if offset.checked_add(len).is_some_and(|end| end <= LEN_MAX) {
            return Ok(());
        }
        let too_big = io::Error::from(io::ErrorKind::FileTooLarge);
        Err(Error::io(doing, &self.path, too_big).at_offset(offset))
    }
}

impl WriteFile for Handle {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let mut content = self.file.content.write();
        let end = content.len();
        self.check_end("append to the file", end, bytes.len() as u64)?;
        content.write(end, bytes);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.file.content.read().len()
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn start_writeback(&mut self) {}

    fn path(&self) -> &Path {
        &self.path
    }
}

impl ReadFile for Handle {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.read(buf, offset)
    }

    fn len(&self) -> u64 {
        self.file.content.read().len()
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn prefetch(&self, _offset: u64, _len: u64) {}
}

impl RandomFile for Handle {
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> Result<()> {
        let len = parts.iter().map(|part| part.len() as u64).sum();
        self.check_end("write into the file", offset, len)?;
        let mut content = self.file.content.write();
        let mut at = offset;
        for part in parts {
            content.write(at, part);
            at += part.len() as u64;
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn start_writeback(&self, _offset: u64, _len: u64) {}

    fn set_len(&self, len: u64) -> Result<()> {
        self.check_end("set the length of the file", len, 0)?;
        self.file.content.write().set_len(len);
        Ok(())
    }

    fn as_read(self: Arc<Self>) -> Arc<dyn ReadFile> {
        self
    }
}

/// An open file with the length that it had when it was opened.
#[derive(Debug)]
pub(super) struct Reader {
    handle: Handle,
    len: u64,
}

impl ReadFile for Reader {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.handle.read(buf, offset)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn path(&self) -> &Path {
        &self.handle.path
    }

    fn prefetch(&self, _offset: u64, _len: u64) {}
}

/// An open file of a fixed length that takes stores.
#[derive(Debug)]
pub(super) struct Mapped {
    handle: Handle,
    len: u64,
}

impl Mapped {
    fn write(&self, offset: u64, bytes: &[u8], is_aligned: bool) -> Result<()> {
        let fits = offset.checked_add(bytes.len() as u64).is_some_and(|end| end <= self.len);
        if !fits || !is_aligned {
            let message =
                format!("a write of {} bytes does not fit in the segment, or is not aligned", bytes.len());
            return Err(Error::new(ErrorKind::InvalidInput, message).at(&self.handle.path).at_offset(offset));
        }
        self.handle.file.content.write().write(offset, bytes);
        Ok(())
    }
}

/// A sync of data that is only in memory.
#[derive(Debug)]
struct NoSync;

impl SyncFile for NoSync {
    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

impl MappedFile for Mapped {
    fn store(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write(offset, bytes, true)
    }

    fn store_u64(&self, offset: u64, value: u64) -> Result<()> {
        self.write(offset, &value.to_le_bytes(), offset.is_multiple_of(8))
    }

    fn warm(&self, _offset: u64, _len: u64) {}

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn sync_handle(&self) -> Arc<dyn SyncFile> {
        Arc::new(NoSync)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn path(&self) -> &Path {
        &self.handle.path
    }
}

/// The lock of a file, until it is dropped; or none, for readers without a lock file.
#[derive(Debug)]
pub(super) struct MemoryLock(Option<Arc<File>>);

impl MemoryLock {
    pub(super) fn none() -> Self {
        MemoryLock(None)
    }

    /// Returns `None` if others hold it.
    pub(super) fn take(file: &Arc<File>, mode: LockMode) -> Option<Self> {
        let mut holders = file.holders.lock();
        *holders = match (mode, *holders) {
            (LockMode::Exclusive, 0) => usize::MAX,
            (LockMode::Shared, count) if count < usize::MAX - 1 => count + 1,
            _ => return None,
        };
        Some(MemoryLock(Some(Arc::clone(file))))
    }
}

impl DirLock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            let mut holders = file.holders.lock();
            *holders = if *holders == usize::MAX { 0 } else { holders.saturating_sub(1) };
        }
    }
}
