//! The Windows counterparts of the POSIX calls.
//!
//! The standard library opens files so that others may read, write, rename and remove them meanwhile, and a removed
//! file stays readable through its handles. POSIX systems behave the same, and the store relies on it.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::windows::fs::FileExt;

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

/// This moves the file's position, which nothing here uses: all reads and writes give an offset.
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

/// Writes from `offset` on; returns how many bytes it wrote, which may be fewer than given.
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
