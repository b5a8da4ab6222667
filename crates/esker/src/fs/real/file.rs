//! Files that are read at offsets, and files that are written from front to back.
//!
//! Neither kind buffers anything: a read is one `pread`, an append one `pwrite` (std repeats both when a signal
//! interrupts them or they come back short). An append that fails half-way is cut off again. So once a full disk has
//! space again, the file still ends where its owner believes it does.

use std::mem::MaybeUninit;

use super::*;
use crate::fs::too_short;

#[derive(Debug)]
pub(super) struct RealRead {
    file: File,
    len: u64,
    path: PathBuf,
    resident: Resident,
}

impl RealRead {
    pub(super) fn of(file: File, len: u64, path: &Path) -> Self {
        RealRead { file, len, path: path.to_path_buf(), resident: Resident::default() }
    }
}

impl ReadFile for RealRead {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        read_exact(&self.file, &self.path, buf, offset)
    }

    fn read_uninit_at<'a>(&self, buf: &'a mut [MaybeUninit<u8>], offset: u64) -> Result<&'a mut [u8]> {
        read_uninit(&self.file, &self.path, buf, offset)
    }

    fn copy_resident<'a>(&self, buf: &'a mut [MaybeUninit<u8>], offset: u64) -> Option<&'a mut [u8]> {
        self.resident.copy(&self.file, buf, offset)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn prefetch(&self, offset: u64, len: u64) {
        os::prefetch(&self.file, offset, len);
    }

    fn is_cached(&self, offset: u64) -> bool {
        os::is_cached(&self.file, offset)
    }

    fn next_data(&self, offset: u64) -> u64 {
        os::next_data(&self.file, offset).min(self.len)
    }

    fn copy_to(&self, offset: u64, len: u64, target: &UserFile) -> u64 {
        target.take(&self.file, offset, len)
    }

    fn map(&self, offset: u64, len: u64) -> Result<Mapping> {
        map(self, &self.file, offset, len)
    }
}

pub(super) fn read_uninit<'a>(
    file: &File,
    path: &Path,
    buf: &'a mut [MaybeUninit<u8>],
    offset: u64,
) -> Result<&'a mut [u8]> {
    let mut done = 0;
    while done < buf.len() {
        match os::read_uninit_at(file, &mut buf[done..], offset.saturating_add(done as u64)) {
            Ok(0) => return Err(too_short(path, offset, buf.len())),
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(not_read(path, offset, buf.len(), error)),
        }
    }
    // SAFETY: `done` bytes were read into its beginning, and these are all.
    Ok(unsafe { buf.assume_init_mut() })
}

pub(super) fn read_exact(file: &File, path: &Path, buf: &mut [u8], offset: u64) -> Result<()> {
    os::read_exact_at(file, buf, offset).map_err(|error| not_read(path, offset, buf.len(), error))
}

fn not_read(path: &Path, offset: u64, len: usize, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => too_short(path, offset, len),
        // The kernel refuses offsets that no file can have. A damaged pointer may hold one.
        _ if offset > i64::MAX as u64 - len as u64 => too_short(path, offset, len),
        _ => Error::io("read the file", path, error).at_offset(offset),
    }
}

/// Maps a part of `file`, the file that `reader` reads.
#[cfg(unix)]
pub(super) fn map(reader: &dyn ReadFile, file: &File, offset: u64, len: u64) -> Result<Mapping> {
    let failed = |error| Error::io("map the file", reader.path(), error).at_offset(offset);
    // A view beyond the end of a file that was cut after its opening would cause a SIGBUS.
    let file_len = file.metadata().map_err(failed)?.len().min(reader.len());
    let len = crate::fs::mapping::check_range(reader.path(), file_len, offset, len)?;
    if len == 0 {
        return Ok(Mapping::empty());
    }
    Ok(Mapping::over(os::View::new(file, offset, len).map_err(failed)?))
}

/// Reads a part of `file`, the file that `reader` reads: whole files that are mapped cannot be cut or replaced here.
#[cfg(not(unix))]
pub(super) fn map(reader: &dyn ReadFile, _file: &File, offset: u64, len: u64) -> Result<Mapping> {
    Mapping::by_reading(reader, offset, len)
}

#[derive(Debug)]
pub(super) struct RealWrite {
    file: File,
    len: u64,
    path: PathBuf,
    /// Writeback was started up to this offset.
    started: u64,
}

impl RealWrite {
    /// Wraps the new file `file`.
    pub(super) fn of(file: File, path: &Path) -> Self {
        RealWrite { file, len: 0, path: path.to_path_buf(), started: 0 }
    }
}

impl WriteFile for RealWrite {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if let Err(error) = os::write_all_at(&self.file, bytes, self.len) {
            // This is best effort: the error that matters is already reported.
            drop(self.file.set_len(self.len));
            return Err(Error::io("append to the file", &self.path, error).at_offset(self.len));
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(|error| Error::io("sync the file", &self.path, error))
    }

    fn start_writeback(&mut self) {
        os::start_writeback(&self.file, self.started, self.len - self.started);
        self.started = self.len;
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
