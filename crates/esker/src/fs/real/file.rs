//! Files that are read and written at offsets, files that are written from front to back, and holes in files.
//!
//! Nothing is buffered: a read is one `pread`. On Linux a write is normally one `pwritev`. A short write (a signal,
//! more parts than the kernel takes in one call, a disk that fills up) continues where it stopped. A write that fails
//! half-way is cut off again. Therefore, once a full disk has space again, the file still ends where its owner believes
//! it does. The length is stored with the handle, so reading it needs no system call.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
#[cfg(unix)]
use crate::fs::Mapping;
use crate::fs::{filled, too_short};

/// An open file.
#[derive(Debug)]
pub(super) struct RealFile {
    file: File,
    /// Raised (release) after the bytes below it were written. A thread that sees it (acquire) can therefore read them.
    len: AtomicU64,
    path: PathBuf,
    resident: Resident,
    /// Writeback of the appended bytes was started up to this offset.
    started: u64,
}

impl RealFile {
    pub(super) fn of((file, len): (File, u64), path: &Path) -> Self {
        let (path, resident) = (path.to_path_buf(), Resident::default());
        RealFile { file, len: AtomicU64::new(len), path, resident, started: 0 }
    }

    /// Writes all parts from `offset` on. `doing` names the operation in an error.
    fn write(&self, doing: &str, parts: &[IoSlice<'_>], offset: u64) -> Result<()> {
        match write_all(&self.file, parts, offset) {
            Ok(0) => {}
            Ok(n) => drop(self.len.fetch_max(offset + n, Ordering::Release)),
            Err(error) => {
                // This is best effort: the error that matters is reported.
                drop(self.file.set_len(ReadFile::len(self)));
                return Err(Error::io(doing, &self.path, error).at_offset(offset));
            }
        }
        Ok(())
    }

    fn not_read(&self, offset: u64, len: usize, error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => too_short(&self.path, offset, len),
            // The kernel refuses offsets that no file can have. A damaged pointer may hold one.
            _ if offset > i64::MAX as u64 - len as u64 => too_short(&self.path, offset, len),
            _ => Error::io("read the file", &self.path, error).at_offset(offset),
        }
    }

    fn sync_data(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| Error::io("sync the file", &self.path, error))
    }
}

impl ReadFile for RealFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(buf, offset).map_err(|error| self.not_read(offset, buf.len(), error))
    }

    fn read_uninit_at<'a>(&self, buf: &'a mut [MaybeUninit<u8>], offset: u64) -> Result<&'a mut [u8]> {
        let mut done = 0;
        while done < buf.len() {
            match os::read_uninit_at(&self.file, &mut buf[done..], offset.saturating_add(done as u64)) {
                Ok(0) => return Err(too_short(&self.path, offset, buf.len())),
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.not_read(offset, buf.len(), error)),
            }
        }
        // SAFETY: `done` bytes were read into its beginning, and these are all.
        Ok(unsafe { filled(buf) })
    }

    fn copy_resident<'a>(&self, buf: &'a mut [MaybeUninit<u8>], offset: u64) -> Option<&'a mut [u8]> {
        self.resident.copy(&self.file, buf, offset)
    }

    fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn prefetch(&self, offset: u64, len: u64) {
        os::prefetch(&self.file, offset, len);
    }

    fn evict(&self, offset: u64, len: u64) {
        os::evict(&self.file, offset, len);
    }

    fn is_cached(&self, offset: u64) -> bool {
        os::is_cached(&self.file, offset)
    }

    fn read_resident_at(&self, buf: &mut [u8], offset: u64) -> bool {
        os::read_resident(&self.file, buf, offset)
    }

    fn next_data(&self, offset: u64) -> u64 {
        os::next_data(&self.file, offset).min(ReadFile::len(self))
    }

    fn copy_to(&self, offset: u64, len: u64, target: &UserFile) -> u64 {
        target.take(&self.file, offset, len)
    }

    /// Windows does not allow a mapped file to be cut or replaced. Therefore files are read there.
    #[cfg(unix)]
    fn map(&self, offset: u64, len: u64) -> Result<Mapping> {
        let failed = |error| Error::io("map the file", &self.path, error).at_offset(offset);
        // A view beyond the end of a file that was cut after its opening would cause a SIGBUS.
        let file_len = self.file.metadata().map_err(failed)?.len().min(ReadFile::len(self));
        let len = crate::fs::mapping::check_range(&self.path, file_len, offset, len)?;
        if len == 0 {
            return Mapping::by_reading(self, offset, 0);
        }
        Ok(Mapping::over(os::View::new(&self.file, offset, len).map_err(failed)?))
    }
}

impl WriteFile for RealFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.write("append to the file", &[IoSlice::new(bytes)], ReadFile::len(self))
    }

    fn len(&self) -> u64 {
        ReadFile::len(self)
    }

    fn sync(&mut self) -> Result<()> {
        self.sync_data()
    }

    fn start_writeback(&mut self) {
        let len = ReadFile::len(self);
        os::start_writeback(&self.file, self.started, len - self.started);
        self.started = len;
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl RandomFile for RealFile {
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> Result<()> {
        self.write("write into the file", parts, offset)
    }

    fn share_from(&self, source: &UserFile, len: u64, offset: u64) -> u64 {
        if !source.shares_blocks() {
            return 0;
        }
        let taken = source.give(0, len, &self.file, offset);
        if taken > 0 {
            self.len.fetch_max(offset.saturating_add(taken), Ordering::Release);
        }
        taken
    }

    fn sync(&self) -> Result<()> {
        self.sync_data()
    }

    fn start_writeback(&self, offset: u64, len: u64) {
        os::start_writeback(&self.file, offset, len);
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let set = self.file.set_len(len);
        set.map_err(|error| Error::io("set the length of the file", &self.path, error).at_offset(len))?;
        self.len.store(len, Ordering::Release);
        Ok(())
    }

    fn as_read(self: Arc<Self>) -> Arc<dyn ReadFile> {
        self
    }
}

/// Writes all parts and returns how many bytes they are.
fn write_all(file: &File, parts: &[IoSlice<'_>], offset: u64) -> io::Result<u64> {
    let (mut parts, mut at) = (parts.to_vec(), offset);
    let mut rest = parts.as_mut_slice();
    // Skips empty parts: a call without bytes would return 0, which is an error below.
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match os::write_parts_at(file, rest, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                at += n as u64;
                IoSlice::advance_slices(&mut rest, n);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(at - offset)
}

/// Frees the blocks of ranges, each given by offset and length.
pub(super) fn punch_holes(file: &File, path: &Path, holes: &[(u64, u64)]) -> Result<()> {
    for &(offset, len) in holes.iter().filter(|(_, len)| *len > 0) {
        let failed = |error| Error::io("punch a hole", path, error).at_offset(offset);
        if !os::punch_hole(file, offset, len).map_err(failed)? {
            let message = "the file system cannot give back part of a file (punch a hole)";
            return Err(Error::new(ErrorKind::Unsupported, message).at(path).at_offset(offset));
        }
    }
    Ok(())
}
