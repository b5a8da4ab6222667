//! The Windows counterparts of the POSIX calls.
//!
//! The standard library opens files so that others may read, write, rename and remove them meanwhile, and a removed
//! file stays readable through its handles. POSIX systems behave the same, and the store relies on it.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::windows::fs::FileExt as _;

/// Reads into the beginning of `buf`; returns how many bytes, 0 at the end of the file.
pub(in crate::fs) fn read_uninit_at(
    file: &File,
    buf: &mut [MaybeUninit<u8>],
    offset: u64,
) -> io::Result<usize> {
    buf.fill(MaybeUninit::new(0));
    // SAFETY: every byte was just written.
    file.read_at(unsafe { crate::fs::filled(buf) }, offset)
}

/// The calls of the trait of the same name that the standard library has for POSIX systems. They move the file's
/// position, which nothing here uses: all reads and writes give an offset.
pub(in crate::fs) trait FileExt {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    fn read_exact_at(&self, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buf.is_empty() {
            match self.read_at(buf, offset) {
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

    fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_at(bytes, offset) {
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
}

impl FileExt for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.seek_read(buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.seek_write(bytes, offset)
    }
}
