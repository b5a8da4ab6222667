//! Bytes of a file, viewed in place.

use std::fmt;
use std::ops::Deref;
use std::path::Path;

#[cfg(unix)]
use super::real::os::View;
use super::{ReadFile, too_short};
use crate::error::Result;

/// A part of a file, from [`ReadFile::map`]: a view of the page cache, or a copy if the file system has no page cache.
pub struct Mapping(Bytes);

enum Bytes {
    #[cfg(unix)]
    Mapped(View),
    Copied(Vec<u8>),
}

impl Mapping {
    #[cfg(unix)]
    pub(super) fn over(view: View) -> Self {
        Mapping(Bytes::Mapped(view))
    }

    /// A copy of the range.
    pub(crate) fn by_reading<F: ReadFile + ?Sized>(file: &F, offset: u64, len: u64) -> Result<Self> {
        let mut bytes = vec![0; check_range(file.path(), file.len(), offset, len)?];
        file.read_exact_at(&mut bytes, offset)?;
        Ok(Mapping(Bytes::Copied(bytes)))
    }
}

impl Deref for Mapping {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            #[cfg(unix)]
            Bytes::Mapped(view) => view.bytes(),
            Bytes::Copied(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Mapping {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.0 {
            #[cfg(unix)]
            Bytes::Mapped(_) => "mapped",
            Bytes::Copied(_) => "copied",
        };
        write!(f, "Mapping({} bytes {kind})", self.len())
    }
}

/// The length of a range that lies within a file of `file_len` bytes.
pub(super) fn check_range(path: &Path, file_len: u64, offset: u64, len: u64) -> Result<usize> {
    let wanted = usize::try_from(len).unwrap_or(usize::MAX);
    match offset.checked_add(len) {
        Some(end) if end <= file_len && wanted as u64 == len => Ok(wanted),
        _ => Err(too_short(path, offset, wanted)),
    }
}
