//! Reads that must not wait for the disk.
//!
//! Below [`without_io`], a thread never waits for a disk: code that would read a file calls [`check`] first, or reads
//! only bytes in the page cache. These are few places, all off the path of reads that memory can answer.

use std::cell::Cell;

use crate::error::{Error, ErrorKind, Result};

thread_local! {
    static MUST_NOT_READ: Cell<bool> = const { Cell::new(false) };
}

/// Runs `read`. Where it would read a file, it fails with `NeedsIo`.
pub(crate) fn without_io<T>(read: impl FnOnce() -> T) -> T {
    /// Also after a panic of a merge operator.
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            MUST_NOT_READ.set(self.0);
        }
    }
    let _restore = Restore(MUST_NOT_READ.replace(true));
    read()
}

/// Whether this thread must not wait for a disk now.
pub(crate) fn is_asked() -> bool {
    MUST_NOT_READ.get()
}

/// Fails if this thread must not read a file now.
pub(crate) fn check() -> Result<()> {
    if is_asked() { Err(refused()) } else { Ok(()) }
}

/// The error of a read that would have to wait.
pub(crate) fn refused() -> Error {
    Error::new(ErrorKind::NeedsIo, "the value is not in memory: read it by a call that may wait for the disk")
}
