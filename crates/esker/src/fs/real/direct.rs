//! Files that bypass the operating system's cache: reads come from the disk, writes go to it.
//!
//! The kernel accepts only whole disk units, in memory aligned to a page. Therefore a read fetches the units around the
//! wanted bytes into a buffer of the thread and copies. An append gathers bytes in the file's own buffer until there
//! are enough for a long write. Only a sync writes a last unit that is not full, and cuts off the bytes after the end.

use std::cell::RefCell;

use super::*;
use crate::fs::{BLOCK, too_short};

/// The most bytes that one read requests from the disk, and the size of a reading thread's buffer.
const READ_MAX: usize = 512 << 10;

/// How many bytes are gathered for one write. The unit of a disk is at most this long.
const WRITE: usize = 512 << 10;

thread_local! {
    static FETCHED: RefCell<AlignedBytes> = const { RefCell::new(AlignedBytes { bytes: Vec::new(), skipped: 0 }) };
}

/// Memory aligned to a page.
#[derive(Debug)]
struct AlignedBytes {
    /// Longer than the part that is used.
    bytes: Vec<u8>,
    /// The offset at which the page begins.
    skipped: usize,
}

impl AlignedBytes {
    fn new(len: usize) -> AlignedBytes {
        let bytes = vec![0; len + BLOCK as usize];
        let begin = bytes.as_ptr().addr();
        AlignedBytes { skipped: begin.next_multiple_of(BLOCK as usize) - begin, bytes }
    }

    /// The first `len` bytes, with any content; takes more memory if there are too few.
    fn first(&mut self, len: usize) -> &mut [u8] {
        if self.skipped + len > self.bytes.len() {
            *self = AlignedBytes::new(len);
        }
        &mut self.bytes[self.skipped..][..len]
    }
}

#[derive(Debug)]
pub(super) struct DirectRead {
    file: File,
    /// Offsets and lengths of reads are multiples of this power of two.
    unit: usize,
    len: u64,
    path: PathBuf,
}

impl DirectRead {
    /// The file with its length and unit, if this code supports the unit.
    pub(super) fn of((file, len, unit): (File, u64, u64), path: &Path) -> Option<Self> {
        Some(DirectRead { file, unit: usable(unit)?, len, path: path.to_path_buf() })
    }

    /// Reads the beginning of `buf` and returns how many bytes; 0 at the end of the file.
    fn read_some(&self, fetched: &mut AlignedBytes, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let before = (offset % self.unit as u64) as usize;
        let wanted = (before + buf.len()).next_multiple_of(self.unit).min(READ_MAX);
        let units = fetched.first(wanted);
        let read = loop {
            match self.file.read_at(units, offset - before as u64) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        let found = read.saturating_sub(before).min(buf.len());
        buf[..found].copy_from_slice(&units[before..][..found]);
        Ok(found)
    }
}

impl ReadFile for DirectRead {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let end = offset.checked_add(buf.len() as u64).and_then(|end| end.checked_add(self.unit as u64));
        if end.is_none_or(|end| end > i64::MAX as u64) {
            return Err(too_short(&self.path, offset, buf.len()));
        }
        FETCHED.with_borrow_mut(|fetched| {
            let mut done = 0;
            while done < buf.len() {
                match self.read_some(fetched, &mut buf[done..], offset + done as u64) {
                    Ok(0) => return Err(too_short(&self.path, offset, buf.len())),
                    Ok(n) => done += n,
                    Err(error) => return Err(Error::io("read the file", &self.path, error).at_offset(offset)),
                }
            }
            Ok(())
        })
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

#[derive(Debug)]
pub(super) struct DirectWrite {
    file: File,
    /// Offsets and lengths of writes are multiples of this power of two.
    unit: usize,
    gathered: AlignedBytes,
    /// How much of the buffer is filled with bytes of the file. They begin at file offset `written`, a multiple of the
    /// unit.
    filled: usize,
    written: u64,
    /// Whether a write has failed. Then the file's content is unknown.
    failed: bool,
    path: PathBuf,
}

impl DirectWrite {
    /// A new file with its unit, if this code supports the unit.
    pub(super) fn of((file, _, unit): (File, u64, u64), path: &Path) -> Option<Self> {
        let (gathered, path) = (AlignedBytes::new(WRITE), path.to_path_buf());
        let unit = usable(unit)?;
        Some(DirectWrite { file, unit, gathered, filled: 0, written: 0, failed: false, path })
    }

    /// Writes the first `len` gathered bytes.
    fn write(&mut self, len: usize) -> Result<()> {
        let at = self.written;
        let done = if self.failed {
            Err(io::Error::other("an earlier write into the file has failed"))
        } else {
            self.file.write_all_at(self.gathered.first(len), at)
        };
        self.failed |= done.is_err();
        done.map_err(|error| Error::io("append to the file", &self.path, error).at_offset(at))
    }
}

impl WriteFile for DirectWrite {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(WRITE - self.filled));
            self.gathered.first(WRITE)[self.filled..][..now.len()].copy_from_slice(now);
            self.filled += now.len();
            if self.filled == WRITE {
                self.write(WRITE)?;
                self.written += WRITE as u64;
                self.filled = 0;
            }
            rest = later;
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.written + self.filled as u64
    }

    fn sync(&mut self) -> Result<()> {
        let whole = self.filled.next_multiple_of(self.unit);
        self.gathered.first(WRITE)[self.filled..whole].fill(0);
        if whole > 0 {
            self.write(whole)?;
        }
        let len = self.len();
        let cut = if whole > self.filled { self.file.set_len(len) } else { Ok(()) };
        let synced = cut.and_then(|()| self.file.sync_data());
        synced.map_err(|error| Error::io("sync the file", &self.path, error))
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// The unit, if reads and writes here support it.
fn usable(unit: u64) -> Option<usize> {
    usize::try_from(unit).ok().filter(|unit| unit.is_power_of_two() && *unit <= WRITE.min(READ_MAX))
}
