//! A user's files, as the source or the target of copies of the store's bytes.

#![expect(clippy::disallowed_types, reason = "the file belongs to the user, not to the store")]

use std::fs::File;
use std::io::{self, Write};

use super::real::os::{self, FileExt};

/// Size of one request to the kernel to copy.
const COPY_MAX: u64 = 1 << 30;

/// A file as the user opened it.
pub(crate) type OpenFile = File;

/// A user's file. Writes go to its current position and move it.
#[derive(Debug)]
pub struct UserFile(File);

impl UserFile {
    /// Another handle of the same file.
    pub(crate) fn of(file: &File) -> io::Result<UserFile> {
        file.try_clone().map(UserFile)
    }

    /// Whether it may share blocks with another file of its file system (XFS, btrfs). Then a copy costs next to
    /// nothing.
    pub(crate) fn shares_blocks(&self) -> bool {
        os::shares_blocks(&self.0)
    }

    /// Makes the kernel copy `len` bytes from `offset` on to `to` in `target`, as far as it can; returns how many bytes
    /// it copied.
    pub(super) fn give(&self, offset: u64, len: u64, target: &File, mut to: u64) -> u64 {
        let mut from = offset;
        copy_as_far_as_it_goes(len, |wanted| {
            os::copy_range((&self.0, &mut from), (target, Some(&mut to)), wanted)
        })
    }

    /// Reads bytes from `offset` on; returns how many it read.
    pub(super) fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }

    /// Makes the kernel copy `len` bytes of `source` from `offset` on, as far as it can; returns how many bytes it
    /// copied.
    pub(super) fn take(&self, source: &File, offset: u64, len: u64) -> u64 {
        let mut from = offset;
        copy_as_far_as_it_goes(len, |wanted| os::copy_range((source, &mut from), (&self.0, None), wanted))
    }
}

/// Calls `copy` for `len` bytes, some at a time, until it fails; returns how many bytes it copied.
fn copy_as_far_as_it_goes(len: u64, mut copy: impl FnMut(usize) -> io::Result<usize>) -> u64 {
    let mut left = len;
    while left > 0 {
        match copy(usize::try_from(left.min(COPY_MAX)).unwrap_or(usize::MAX)) {
            Ok(0) => break,
            Ok(n) => left = left.saturating_sub(n as u64),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Reading or writing meets the same error, or works in spite of it.
            Err(_) => break,
        }
    }
    len - left
}

impl Write for UserFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
