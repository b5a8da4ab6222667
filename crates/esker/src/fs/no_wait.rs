//! Reads that must not wait for the disk.
//!
//! Below [`without_io`], a thread reads no file: what would read one calls [`check`] first. These are few places, all off
//! the path of reads that memory can answer.

use std::cell::Cell;

use crate::error::{Error, ErrorKind, Result};

thread_local! {
    static MUST_NOT_READ: Cell<bool> = const { Cell::new(false) };
}

/// Runs `read`. Where it would read a file, it fails with `NeedsIo`.
pub(crate) fn without_io<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
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

/// Fails if this thread must not read a file now.
pub(crate) fn check() -> Result<()> {
    if MUST_NOT_READ.get() {
        let message = "the value is not in memory: read it by a call that may wait for the disk";
        return Err(Error::new(ErrorKind::NeedsIo, message));
    }
    Ok(())
}
