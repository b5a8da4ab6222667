//! A shared, writable mapping of a whole file: the `unsafe` of log segments.
//!
//! The mapping is never shown as a slice, because other threads store into it at the same time. Every access is checked
//! against the mapping's length. The checks cannot see a file that another process cuts short while it is mapped: the
//! next store then causes a SIGBUS. The store never cuts segments short (rule 7), and the directory lock keeps other
//! stores out.

use std::fs::File;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::linux::stores_cannot_fail;
use super::pages::Pages;

/// A multiple of every page size in use.
const WARM_UNIT: u64 = 64 << 10;

/// Several threads store into it at the same time: each into its own range (the contract of `MappedFile::store`), or by
/// atomic words.
#[derive(Debug)]
pub(in crate::fs) struct Map(Pages);

impl Map {
    /// Maps the first `len` bytes of `file`, which must be open for reading and writing; `None` if a store could fail.
    pub(in crate::fs) fn of_segment(file: &File, len: u64) -> io::Result<Option<Self>> {
        let (Ok(len), true) = (usize::try_from(len), stores_cannot_fail(file)) else { return Ok(None) };
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        Pages::map(file, 0, len, protection, MapFlags::SHARED).map(Map).map(Some)
    }

    /// Brings every page into the page cache, each as a separate folio (no readahead), and maps it for reading, which
    /// saves 0.4 us of the 2.4 us of its first store. Returns `false` if that did not happen: the kernel is older than
    /// 5.14, memory is short, or a page cannot be read.
    pub(in crate::fs) fn read_in(&self) -> bool {
        let advise = |advice| {
            // SAFETY: the range is the mapping; none of the advices changes a byte of it.
            unsafe { rustix::mm::madvise(self.0.base().cast(), self.0.len(), advice) }
        };
        let read = advise(Advice::Random).and_then(|()| advise(Advice::LinuxPopulateRead));
        // Pages that are marked as random are the first to leave the page cache when memory is short.
        advise(Advice::Normal).and(read).is_ok()
    }

    /// Copies `bytes` to `offset`. Returns `false`, and copies nothing, if they do not fit.
    #[inline]
    pub(in crate::fs) fn copy_in(&self, offset: u64, bytes: &[u8]) -> bool {
        let Some(offset) = self.fits(offset, bytes.len()) else { return false };
        // SAFETY: offset + bytes.len() <= self.0.len(), so the target is inside the mapping; `bytes` cannot
        // overlap it, since no reference into the mapping is ever handed out.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.base().add(offset), bytes.len()) };
        true
    }

    /// Stores one little-endian word; `false` when it is out of bounds or not aligned.
    #[inline]
    pub(in crate::fs) fn store_word(&self, offset: u64, value: u64) -> bool {
        let Some(offset) = self.fits(offset, 8) else { return false };
        if !offset.is_multiple_of(8) {
            return false;
        }
        // SAFETY: 8 bytes inside the mapping; the base is page-aligned and the offset a multiple of 8;
        // the mapping outlives the reference, and callers store into words only through this function.
        let word = unsafe { AtomicU64::from_ptr(self.0.base().add(offset).cast()) };
        // Release: a process that sees the word (a recovery after this one was killed) also sees the stores before it.
        word.store(value.to_le(), Ordering::Release);
        true
    }

    /// Makes the pages of a range writable now, as a store into each page would.
    pub(in crate::fs) fn warm(&self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.0.len() as u64);
        let start = offset - offset % WARM_UNIT;
        if start >= end {
            return;
        }
        let (start, len) = (start as usize, (end - start) as usize);
        // SAFETY: the range is inside the mapping and starts on a page; populating changes no byte of it.
        // Kernels before 5.14 do not know the advice: then the first stores take the faults.
        let _hint =
            unsafe { rustix::mm::madvise(self.0.base().add(start).cast(), len, Advice::LinuxPopulateWrite) };
    }

    fn fits(&self, offset: u64, len: usize) -> Option<usize> {
        let offset = usize::try_from(offset).ok()?;
        (offset.checked_add(len)? <= self.0.len()).then_some(offset)
    }
}
