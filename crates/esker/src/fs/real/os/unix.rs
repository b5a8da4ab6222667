//! The common part of all POSIX systems.
//!
//! On macOS, `File::sync_data` and `File::sync_all` of the standard library are `F_FULLFSYNC`. A plain `fsync` there
//! leaves the bytes in the disk's own memory.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;

pub(in crate::fs) use std::os::unix::fs::FileExt;

/// Reads into the beginning of `buf`; returns how many bytes, 0 at the end of the file.
pub(in crate::fs) fn read_uninit_at(
    file: &File,
    buf: &mut [MaybeUninit<u8>],
    offset: u64,
) -> io::Result<usize> {
    rustix::io::pread(file, buf, offset).map(|(read, _)| read.len()).map_err(io::Error::from)
}
