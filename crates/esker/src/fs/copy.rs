//! Copying from a file of the user's by reading it, where the kernel does not copy.

#![expect(clippy::disallowed_types, reason = "the file belongs to the user, not to the store")]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::{Error, Result};

/// How much is read at once, in bytes.
const PIECE: u64 = 1 << 20;

/// Hands out `len` bytes of `source` from `offset` on, in pieces: `write` gets how far the copy has come, and the
/// next bytes. Returns how many there were before the end of the file. `target` is for messages.
pub(super) fn by_reading(
    target: &Path,
    source: &File,
    offset: u64,
    len: u64,
    mut write: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<u64> {
    let mut buf = vec![0; len.min(PIECE) as usize];
    let mut done = 0;
    while done < len {
        let wanted = (len - done).min(PIECE) as usize;
        let read = offset.checked_add(done).map_or(Ok(0), |at| read_some(source, &mut buf[..wanted], at));
        let n = read.map_err(|error| Error::io("read what is to be copied into the file", target, error))?;
        if n == 0 {
            break;
        }
        write(done, &buf[..n])?;
        done += n as u64;
    }
    Ok(done)
}

/// Reads until `buf` is full or the file ends.
fn read_some(source: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut n = 0;
    while n < buf.len() {
        match source.read_at(&mut buf[n..], offset + n as u64) {
            Ok(0) => break,
            Ok(more) => n += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(n)
}
