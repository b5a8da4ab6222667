//! A read-only mapping of a part of a file, shown as a slice.
//!
//! A slice promises that its bytes stay as they are and can be loaded. Only this store writes its files (the directory
//! lock), and it never overwrites a byte that it handed out: log segments are not mapped this way, and all other bytes
//! are written once. The remaining risk is punching or cutting a mapped range, which the owner of the view excludes
//! (the contract of `ReadFile::map`). A device error under the view is a SIGBUS.

use std::io;
use std::os::fd::AsFd;

use rustix::mm::{MapFlags, ProtFlags};

use super::pages::Pages;

/// Mappings begin at multiples of this file offset, itself a multiple of every page size in use.
const UNIT: u64 = 64 << 10;

/// Bytes of a file in the page cache.
pub(in crate::fs) struct View {
    pages: Pages,
    /// How many bytes of `pages` precede the first visible one; all later ones are visible.
    before: usize,
}

impl View {
    /// Maps `len` bytes, at least 1, from `offset`; the file must hold them.
    pub(in crate::fs) fn new(file: impl AsFd, offset: u64, len: usize) -> io::Result<Self> {
        let before = (offset % UNIT) as usize;
        let mapped = before.checked_add(len).ok_or(io::ErrorKind::OutOfMemory)?;
        let pages = Pages::map(file, offset - before as u64, mapped, ProtFlags::READ, MapFlags::SHARED)?;
        Ok(View { pages, before })
    }

    #[inline]
    pub(in crate::fs) fn bytes(&self) -> &[u8] {
        // SAFETY: all of it is mapped for reading until `drop`, which the borrow prevents; the file held the bytes when
        // it was mapped, and they are not changed or cut meanwhile (see above).
        unsafe {
            std::slice::from_raw_parts(self.pages.base().add(self.before), self.pages.len() - self.before)
        }
    }
}
