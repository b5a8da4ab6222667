//! Files that are written at offsets, and holes in files.
//!
//! On Linux a write is normally one `pwritev`. One that comes back short (a signal, more parts than the kernel takes at
//! once, a disk that fills up) continues where it stopped. A write that fails is cut off again, as an append is. The
//! length is stored beside the file, so reading it needs no system call.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

use super::file::{map, read_exact, read_uninit};
use super::*;

#[derive(Debug)]
pub(super) struct RealRandom {
    file: File,
    /// Raised (release) after the bytes below it were written, so a thread that sees it (acquire) can read them.
    len: AtomicU64,
    path: PathBuf,
    resident: Resident,
}

impl RealRandom {
    pub(super) fn of(file: File, len: u64, path: &Path) -> Self {
        RealRandom { file, len: AtomicU64::new(len), path: path.to_path_buf(), resident: Resident::default() }
    }

    /// Records that bytes were written at `offset`; returns how many. Cuts off a write that failed.
    fn settle(&self, offset: u64, written: Result<u64>) -> Result<u64> {
        match written {
            Ok(0) => {}
            Ok(n) => drop(self.len.fetch_max(offset + n, Ordering::Release)),
            // This is best effort: the error that matters is already reported.
            Err(_) => drop(self.file.set_len(self.len())),
        }
        written
    }

    fn write(&self, parts: &[IoSlice<'_>], offset: u64) -> Result<u64> {
        let written = write_all(&self.file, parts, offset);
        written.map_err(|error| Error::io("write into the file", &self.path, error).at_offset(offset))
    }
}

impl ReadFile for RealRandom {
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
        self.len.load(Ordering::Acquire)
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

    fn copy_to(&self, offset: u64, len: u64, target: &UserFile) -> u64 {
        target.take(&self.file, offset, len)
    }

    fn map(&self, offset: u64, len: u64) -> Result<Mapping> {
        map(self, &self.file, offset, len)
    }
}

impl RandomFile for RealRandom {
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> Result<()> {
        self.settle(offset, self.write(parts, offset)).map(drop)
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
        self.file.sync_data().map_err(|error| Error::io("sync the file", &self.path, error))
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
    let mut at = offset;
    // The remaining parts, and how many bytes of the first one are already written.
    let (mut rest, mut done) = advance(parts, 0);
    while let Some(first) = rest.first() {
        let written = match first.get(done..) {
            Some(tail) if done > 0 => os::write_at(file, tail, at),
            _ => os::write_parts_at(file, rest, at),
        };
        match written {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                at += n as u64;
                (rest, done) = advance(rest, done + n);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(at - offset)
}

/// The parts from the one that contains byte `n` on, and the position of the byte in that part.
fn advance<'a, 'b>(parts: &'a [IoSlice<'b>], mut n: usize) -> (&'a [IoSlice<'b>], usize) {
    let mut rest = parts;
    while let Some((first, behind)) = rest.split_first()
        && n >= first.len()
    {
        n -= first.len();
        rest = behind;
    }
    (rest, n)
}

/// Frees the blocks of ranges, each given by offset and length.
pub(super) fn punch_holes(file: &File, path: &Path, holes: &[(u64, u64)]) -> Result<()> {
    let mut holes = holes.iter().filter(|(_, len)| *len > 0);
    holes.try_for_each(|&(offset, len)| punch_hole(file, path, offset, len))
}

fn punch_hole(file: &File, path: &Path, offset: u64, len: u64) -> Result<()> {
    match os::punch_hole(file, offset, len) {
        Ok(true) => Ok(()),
        Ok(false) => {
            let message = "the file system cannot give back part of a file (punch a hole)";
            Err(Error::new(ErrorKind::Unsupported, message).at(path).at_offset(offset))
        }
        Err(error) => Err(Error::io("punch a hole", path, error).at_offset(offset)),
    }
}
