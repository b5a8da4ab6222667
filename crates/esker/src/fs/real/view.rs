//! A read-only mapping of a part of a file, shown as a slice.
//!
//! A slice promises that its bytes stay as they are and can be loaded. Nobody but this store writes its files
//! (the directory lock), and the store never overwrites a byte that it handed out: log segments are not mapped
//! this way, all other bytes are written once. What is left is punching and cutting a mapped range, which the
//! owner of the view excludes (the contract of [`ReadFile::map`]). A device error under the view is a SIGBUS.

use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags};

/// Where mappings begin in the file: a multiple of every page size in use.
const UNIT: u64 = 64 << 10;

/// Bytes of a file in the page cache.
pub(in crate::fs) struct View {
    base: NonNull<u8>,
    /// Bytes between `base` and the first that is shown; it and `len` add up to what is mapped.
    before: usize,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; it lives until `drop`.
unsafe impl Send for View {}
// SAFETY: it is only read.
unsafe impl Sync for View {}

impl View {
    /// Maps `len` bytes, at least 1, from `offset`; the file must hold them.
    pub(super) fn new(file: impl AsFd, offset: u64, len: usize) -> io::Result<Self> {
        let before = (offset % UNIT) as usize;
        let mapped = before.checked_add(len).ok_or(io::ErrorKind::OutOfMemory)?;
        let (protection, flags) = (ProtFlags::READ, MapFlags::SHARED);
        let start = offset - before as u64;
        // SAFETY: a null hint lets the kernel choose the place, so no existing mapping is replaced.
        let base = unsafe { rustix::mm::mmap(ptr::null_mut(), mapped, protection, flags, file, start)? };
        match NonNull::new(base.cast()) {
            Some(base) => Ok(View { base, before, len }),
            None => Err(io::Error::from(rustix::io::Errno::NOMEM)),
        }
    }

    #[inline]
    pub(in crate::fs) fn bytes(&self) -> &[u8] {
        // SAFETY: `before + len` bytes are mapped for reading until `drop`, which the borrow keeps away; the
        // file held them when it was mapped, and nobody changes or cuts them meanwhile (see above).
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(self.before), self.len) }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `new` mapped; slices of it borrow `self` and are gone.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.before + self.len) };
        debug_assert!(unmapped.is_ok(), "munmap of a mapping of our own failed");
    }
}
