//! What POSIX systems have alike.
//!
//! `File::sync_data` and `File::sync_all` of the standard library are `F_FULLFSYNC` on macOS, where a mere `fsync`
//! leaves the bytes in the disk's own memory.

use std::fs::{self, File, Metadata};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::StatVfsMountFlags;

/// Reads into the beginning of `buf`; returns how many bytes, 0 at the end of the file.
pub(in crate::fs) fn read_uninit_at(
    file: &File,
    buf: &mut [MaybeUninit<u8>],
    offset: u64,
) -> io::Result<usize> {
    rustix::io::pread(file, buf, offset).map(|(read, _)| read.len()).map_err(io::Error::from)
}

pub(in crate::fs) fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(buf, offset)
}

pub(in crate::fs) fn read_exact_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(buf, offset)
}

/// Writes from `offset` on; returns how many bytes, which may be fewer.
pub(in crate::fs) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    file.write_at(bytes, offset)
}

pub(in crate::fs) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}

/// Makes the names in a directory durable.
pub(in crate::fs) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Bytes that are free for this process where `dir` is.
pub(in crate::fs) fn free_space(dir: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(dir)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// How many names the file has.
pub(in crate::fs) fn link_count(path: &Path) -> io::Result<u64> {
    fs::metadata(path).map(|metadata| metadata.nlink())
}

/// How many bytes of the disk the file takes.
pub(in crate::fs) fn allocated_bytes(path: &Path) -> io::Result<u64> {
    fs::metadata(path).map(|metadata| metadata.blocks().saturating_mul(512))
}

/// Whether `path` names the open file.
pub(in crate::fs) fn names(path: &Path, file: &File) -> io::Result<bool> {
    let identity = |metadata: &Metadata| (metadata.dev(), metadata.ino());
    Ok(identity(&fs::metadata(path)?) == identity(&file.metadata()?))
}

/// Whether nobody can write to the medium on which the file is.
pub(in crate::fs) fn is_read_only(file: &File) -> bool {
    rustix::fs::fstatvfs(file).is_ok_and(|stat| stat.f_flag.contains(StatVfsMountFlags::RDONLY))
}
