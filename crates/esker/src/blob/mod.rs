//! Blob files: huge values, written once and apart from the sorted tables, read whole or in part.
//!
//! ```text
//! shared   [ header page ] [ descriptor | value | chunk sums ]*          [ entries | tail ]
//! single   [ header page ] [ value | chunk sums | descriptor ]           [ entries | tail ]
//!                                                                         once sealed
//! ```
//! - `format.rs`: pointers, headers, descriptors, entries, tails as bytes;
//! - `chunks.rs`: the checksums of a value, one for each chunk;
//! - `writer.rs`, `single.rs`: files of many values, files of one stream;
//! - `waste.rs`, `rewrite.rs`: shared files written anew without what was freed;
//! - `scan.rs`: which values a file holds, with its footer or without;
//! - `index.rs`, `verified.rs`, `file.rs`: where a value is, which chunks were verified, an open file;
//! - `read.rs`: reading, by one thread or several.
//!
//! Guarantees: no byte of a value is given out (but by a map that is said to be unverified) before the chunk it lies in
//! has passed its checksum since the file was opened, and those checksums the one in the pointer; a damaged or hostile file yields a
//! located error or the right bytes, never a panic. Values are contiguous. Reading takes no lock while the
//! disk is waited for (but that of the file that it opens), and goes on while the file's owner appends.
//!
//! Relies on its caller to give every file a random salt and a number that was never used before, to sync
//! a file before something durable points into it, and never to ask for a value whose bytes it gave back.

use std::path::{Path, PathBuf};

use crate::codec::file_number;
use crate::version::blobs::BlobFileInfo;

mod appenders;
mod chunks;
mod file;
pub(crate) mod filter;
mod format;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod handles;
mod hold;
mod index;
pub(crate) mod live;
mod read;
pub(crate) mod rewrite;
mod scan;
pub(crate) mod set;
mod shares;
mod single;
#[cfg(test)]
mod tests;
mod verified;
mod waste;
mod writer;

pub(crate) use chunks::CHUNK_LOG2;
pub(crate) use file::{BlobFile, Unverified};
pub(crate) use format::{Entry, Pointer, key_hash};
#[cfg(test)]
use format::{Header, Layout};
pub(crate) use handles::{Handles, LazyFile};
pub(crate) use hold::{BlobStream, NewBlob, Pin, PinnedMap, VOLATILE};
pub(crate) use live::{Life, LiveFile};
#[cfg(test)]
use scan::Scan;
pub(crate) use set::BlobSet;
pub(crate) use shares::Shares;
pub(crate) use single::SingleWriter;
pub(crate) use writer::{NewFile, SharedWriter};

/// The number of a blob file.
pub(crate) type BlobFileId = u64;

/// What a blob file is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlobName {
    /// By its store, in the file's name and in pointers.
    pub(crate) file: BlobFileId,
    /// By itself, and in its entries: by the store that wrote it.
    pub(crate) origin: BlobFileId,
}

impl BlobName {
    /// The number that the file has in itself for one that has the number `file` here.
    pub(super) fn inside(self, file: BlobFileId) -> BlobFileId {
        if file == self.file { self.origin } else { file }
    }
}

impl From<&BlobFileInfo> for BlobName {
    fn from(info: &BlobFileInfo) -> Self {
        BlobName { file: info.file, origin: info.origin }
    }
}

impl From<BlobFileId> for BlobName {
    fn from(file: BlobFileId) -> Self {
        BlobName { file, origin: file }
    }
}

/// The number in a blob file's name.
pub(crate) fn blob_number(name: &str) -> Option<BlobFileId> {
    file_number(name.strip_suffix(".blob")?)
}

/// What the name of a blob file ends with that is being written anew.
const BLOB_TEMPORARY: &str = ".tmp";

/// Whether `name` is that of a blob file that is being written anew, or was when the process ended.
pub(crate) fn is_temporary_blob(name: &str) -> bool {
    name.strip_suffix(BLOB_TEMPORARY).is_some_and(|name| blob_number(name).is_some())
}

/// The path of blob file `id` in `dir`.
pub(crate) fn blob_path(dir: &Path, id: BlobFileId) -> PathBuf {
    dir.join(format!("{id:06}.blob"))
}
