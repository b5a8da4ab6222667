//! Pages of a file, mapped into the process's memory until dropped.

use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags};

/// A mapping. Its owner must know which accesses to its bytes are safe: the file may be shorter, and other processes
/// may change the bytes.
#[derive(Debug)]
pub(super) struct Pages {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; it lives until `drop`.
unsafe impl Send for Pages {}
// SAFETY: nothing here reads or writes the bytes.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps `len` bytes, at least 1, of `file` from `offset`, a multiple of the page size.
    pub(super) fn map(
        file: impl AsFd,
        offset: u64,
        len: usize,
        protection: ProtFlags,
        flags: MapFlags,
    ) -> io::Result<Self> {
        // SAFETY: a null hint lets the kernel choose the place. Therefore no existing mapping is replaced.
        let base = unsafe { rustix::mm::mmap(ptr::null_mut(), len, protection, flags, file, offset)? };
        match NonNull::new(base.cast()) {
            Some(base) => Ok(Pages { base, len }),
            None => Err(io::Error::from(rustix::io::Errno::NOMEM)),
        }
    }

    #[inline]
    pub(super) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: exactly what `map` mapped; every holder of a pointer or reference into it keeps or borrows `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "munmap of a mapping of our own failed");
    }
}
