//! Log segments: files of fixed length that are overwritten in place.
//!
//! Stores go into a shared mapping if the file system overwrites blocks in place. Then a store is a memory copy: it
//! survives the process, and it cannot fail, because every block is allocated and was written once. Elsewhere
//! (copy-on-write, network, unknown) a store is a `pwrite`, which can fail and reports it.
//!
//! The way in which the file gets into the page cache decides the cost of a small synced write. Large writes and
//! readahead make large folios, and one dirty byte writes back a whole folio (1 MiB measured, against 4 KiB). Therefore
//! creation fills the file in 4 KiB writes, and opening reads it with readahead off: by way of the mapping, which
//! copies nothing.
//!
//! Stores of many pages each need the opposite. A mapped page is filled, faulted in, written and made read-only again
//! for its sync, which costs 5 us of CPU or more; a page of a large `pwrite` costs 0.3 us. Therefore a file for bulk is
//! only allocated, and not mapped.

use std::ops::Range;

use super::os::Map;
use super::*;
use crate::canary::broken;
use crate::fs::{BLOCK, SyncFile, outside_segment};

/// How many bytes one read of a reused segment brings into memory, and one write of zeros into a reserve takes.
const PIECE: usize = 256 << 10;

/// The stores that a segment is prepared for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stores {
    /// Records smaller than a page: through a mapping, if possible.
    Small,
    /// Records of many pages: by `pwrite`.
    Bulk,
}

#[derive(Debug)]
pub(super) struct RealMapped {
    descriptor: Arc<Descriptor>,
    len: u64,
    /// `None` if stores are `pwrite`.
    map: Option<Map>,
}

/// The open file, which may outlive the mapping.
#[derive(Debug)]
struct Descriptor {
    file: File,
    path: PathBuf,
}

impl SyncFile for Descriptor {
    fn sync(&self) -> Result<()> {
        let synced = self.file.sync_data();
        if broken("sync-told") {
            return Ok(());
        }
        synced.map_err(|error| Error::io("sync the segment", &self.path, error))
    }
}

impl RealMapped {
    /// Prepares and syncs a new file.
    pub(super) fn prepare(file: File, path: &Path, len: u64, stores: Stores) -> Result<Self> {
        prepare(&file, len, stores).map_err(|error| Error::io("allocate the segment", path, error))?;
        Self::over(file, path, len, stores).map(|(segment, _)| segment)
    }

    /// A segment of `len` bytes to be overwritten. For small stores all its pages are brought into memory.
    pub(super) fn of(file: File, path: &Path, len: u64, stores: Stores) -> Result<Self> {
        check_segment_len(len).map_err(|message| Error::corruption(path, len, message))?;
        let (segment, is_read_in) = Self::over(file, path, len, stores)?;
        if stores == Stores::Small && !is_read_in {
            let read = prefault(&segment.descriptor.file, len);
            read.map_err(|error| Error::io("open the segment", path, error))?;
        }
        Ok(segment)
    }

    /// The segment, and whether its pages are in memory by way of a mapping.
    fn over(file: File, path: &Path, len: u64, stores: Stores) -> Result<(Self, bool)> {
        let map = match stores {
            Stores::Small => Map::of_segment(&file, len),
            Stores::Bulk => Ok(None),
        };
        let map = map.map_err(|error| Error::io("map the segment", path, error))?;
        let is_read_in = map.as_ref().is_some_and(Map::read_in);
        let descriptor = Arc::new(Descriptor { file, path: path.to_path_buf() });
        Ok((RealMapped { descriptor, len, map }, is_read_in))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > self.len) {
            return Err(outside_segment(self.path(), offset, bytes.len(), self.len));
        }
        let written = self.descriptor.file.write_all_at(bytes, offset);
        written.map_err(|error| Error::io("write into the segment", self.path(), error).at_offset(offset))
    }

    #[cfg(test)]
    pub(super) fn is_mapped(&self) -> bool {
        self.map.is_some()
    }
}

impl MappedFile for RealMapped {
    #[inline]
    fn store(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        match &self.map {
            Some(map) if map.copy_in(offset, bytes) => Ok(()),
            Some(_) => Err(outside_segment(self.path(), offset, bytes.len(), self.len)),
            None => self.write_at(offset, bytes),
        }
    }

    #[inline]
    fn store_u64(&self, offset: u64, value: u64) -> Result<()> {
        match &self.map {
            Some(map) if map.store_word(offset, value) => Ok(()),
            None if offset.is_multiple_of(8) => self.write_at(offset, &value.to_le_bytes()),
            _ => Err(outside_segment(self.path(), offset, 8, self.len)),
        }
    }

    fn warm(&self, offset: u64, len: u64) {
        if let Some(map) = &self.map {
            map.warm(offset, len);
        }
    }

    fn sync(&self) -> Result<()> {
        self.descriptor.sync()
    }

    fn sync_handle(&self) -> Arc<dyn SyncFile> {
        Arc::clone(&self.descriptor) as Arc<dyn SyncFile>
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn path(&self) -> &Path {
        &self.descriptor.path
    }
}

/// Allocates the blocks. For small stores it also writes each block once, so that later stores change no metadata.
fn prepare(file: &File, len: u64, stores: Stores) -> io::Result<()> {
    let allocated = os::allocate(file, len)?;
    // Without allocation, the only way is to write zeros.
    if stores == Stores::Small || !allocated {
        let step = if broken("rule-7") { len } else { BLOCK };
        write_zeros(file, 0..len, step as usize)?;
    }
    file.sync_data()
}

/// Allocates `len` bytes of disk space for the file, with any content.
pub(super) fn set_allocated(file: &File, len: u64) -> io::Result<()> {
    let before = file.metadata()?.len();
    if len <= before {
        return file.set_len(len);
    }
    let allocated = match os::allocate(file, len) {
        Ok(true) => Ok(()),
        Ok(false) => write_zeros(file, before..len, PIECE),
        Err(error) => Err(error),
    };
    allocated.and_then(|()| file.sync_data()).inspect_err(|_| drop(file.set_len(before)))
}

/// Writes zeros, `piece` bytes at a time.
fn write_zeros(file: &File, range: Range<u64>, piece: usize) -> io::Result<()> {
    let zeros = vec![0; piece];
    for at in range.clone().step_by(piece) {
        let n = zeros.len().min(usize::try_from(range.end - at).unwrap_or(piece));
        file.write_all_at(&zeros[..n], at)?;
    }
    Ok(())
}

/// Brings every page into the page cache, each as a separate folio: for systems where [`Map::read_in`] cannot.
fn prefault(file: &File, len: u64) -> io::Result<()> {
    os::read_singly(file);
    let mut buf = vec![0; PIECE];
    for at in (0..len).step_by(PIECE) {
        let n = PIECE.min(usize::try_from(len - at).unwrap_or(PIECE));
        file.read_exact_at(&mut buf[..n], at)?;
    }
    Ok(())
}
