//! What Windows has in place of the calls of POSIX.
//!
//! The standard library opens files so that others may read, write, rename and remove them meanwhile, and a removed
//! file stays readable through its handles: so it is on POSIX systems, and the store counts on it.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::fs::FileExt;
use std::os::windows::io::AsRawHandle;
use std::path::Path;

use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_STANDARD_INFO, FileStandardInfo, GetDiskFreeSpaceExW,
    GetFileInformationByHandle, GetFileInformationByHandleEx,
};

/// Reads into the beginning of `buf`; returns how many bytes, 0 at the end of the file.
pub(in crate::fs) fn read_uninit_at(
    file: &File,
    buf: &mut [MaybeUninit<u8>],
    offset: u64,
) -> io::Result<usize> {
    buf.fill(MaybeUninit::new(0));
    // SAFETY: every byte was just written.
    read_at(file, unsafe { buf.assume_init_mut() }, offset)
}

/// This moves the file's position, which nothing here uses: all reads and writes say where.
pub(in crate::fs) fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(buf, offset)
}

pub(in crate::fs) fn read_exact_at(file: &File, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buf.is_empty() {
        match read_at(file, buf, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                buf = &mut buf[n..];
                offset += n as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes from `offset` on; returns how many bytes, which may be fewer.
pub(in crate::fs) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    file.seek_write(bytes, offset)
}

pub(in crate::fs) fn write_all_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match write_at(file, bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                bytes = &bytes[n..];
                offset += n as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Windows has no call for this that needs no rights over the whole volume: names are left to the journal of the
/// file system, which notes their changes in the order in which they happen.
pub(in crate::fs) fn sync_dir(_dir: &Path) -> io::Result<()> {
    Ok(())
}

/// Bytes that are free for this process where `dir` is.
pub(in crate::fs) fn free_space(dir: &Path) -> io::Result<u64> {
    let dir: Vec<u16> = dir.as_os_str().encode_wide().chain([0]).collect();
    let mut free = 0;
    let (no_total, no_free) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the name ends with a zero, `free` has room for the number, and null asks for nothing.
    match unsafe { GetDiskFreeSpaceExW(dir.as_ptr(), &raw mut free, no_total, no_free) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(free),
    }
}

/// How many names the file has.
pub(in crate::fs) fn link_count(path: &Path) -> io::Result<u64> {
    standard_info(path).map(|info| info.NumberOfLinks.into())
}

/// How many bytes of the disk the file takes.
pub(in crate::fs) fn allocated_bytes(path: &Path) -> io::Result<u64> {
    standard_info(path).map(|info| info.AllocationSize.try_into().unwrap_or(0))
}

fn standard_info(path: &Path) -> io::Result<FILE_STANDARD_INFO> {
    let file = File::open(path)?;
    let mut info = FILE_STANDARD_INFO::default();
    let room = size_of::<FILE_STANDARD_INFO>() as u32;
    let to = (&raw mut info).cast::<c_void>();
    // SAFETY: the handle is open as long as `file` lives, and `info` is what this class of information fills, with
    // its length.
    match unsafe { GetFileInformationByHandleEx(file.as_raw_handle(), FileStandardInfo, to, room) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(info),
    }
}

/// Whether `path` names the open file.
pub(in crate::fs) fn names(path: &Path, file: &File) -> io::Result<bool> {
    Ok(identity(&File::open(path)?)? == identity(file)?)
}

/// The volume and the number of a file on it: no two open files have both alike.
fn identity(file: &File) -> io::Result<(u32, u32, u32)> {
    let mut info = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open as long as `file` is borrowed, and there is room for what is asked for.
    match unsafe { GetFileInformationByHandle(file.as_raw_handle(), &raw mut info) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok((info.dwVolumeSerialNumber, info.nFileIndexHigh, info.nFileIndexLow)),
    }
}

/// Whether nobody can write to the medium on which the file is: as far as is known, somebody can.
pub(in crate::fs) fn is_read_only(_file: &File) -> bool {
    false
}
