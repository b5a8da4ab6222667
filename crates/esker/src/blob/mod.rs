//! Blob files hold huge values apart from the sorted tables. A value is written once and read whole or in part.
//!
//! ```text
//! shared   [ header page ] [ descriptor | value | chunk sums ]*          [ entries | tail ]
//! single   [ header page ] [ value | chunk sums | descriptor ]           [ entries | tail ]
//!                                                                         once sealed
//! ```
//! - `format.rs`: pointers, headers, descriptors, entries, tails as bytes;
//! - `chunks.rs`: the checksums of a value, one for each chunk;
//! - `writer.rs`, `single.rs`: files of many values, files of one stream;
//! - `set.rs`, `live.rs`, `put.rs`, `pin.rs`, `appenders.rs`: the files of an open store, its readers and writers;
//! - `handles.rs`: sealed files that are opened when they are read; `filter.rs`: which keys ever had a value here;
//! - `gc/`: the life of each value, from its write until its blocks are given back;
//! - `rewrite.rs`: shared files rewritten without freed values;
//! - `scan.rs`: which values a file holds, with its footer or without;
//! - `index.rs`, `verified.rs`, `file.rs`: where a value is, which chunks were verified, an open file;
//! - `read.rs`: reading, by one thread or several.
//!
//! Guarantees: before any byte of a value is given out, its chunk has passed its checksum since the file was opened,
//! and the chunk sums have passed the checksum in the pointer. The only exception is a map that is declared as
//! unverified. A damaged or hostile file yields an error with its place, or the right bytes, never a panic. Values are
//! contiguous. A read holds no lock while it waits for the disk (except the lock of the file that it opens). Reads
//! continue while the file's owner appends.
//!
//! The caller has to give every file a random salt and a number that was never used before, to sync a file before a
//! durable pointer into it exists, and never to request a value whose bytes it gave back.

use std::path::{Path, PathBuf};

use crate::codec::file_number;
use crate::version::blob_edits::BlobFileInfo;

mod appenders;
mod chunks;
mod file;
pub(crate) mod filter;
mod format;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
pub(crate) mod gc;
mod handles;
mod index;
pub(crate) mod live;
mod pin;
mod put;
mod read;
pub(crate) mod rewrite;
mod scan;
pub(crate) mod set;
mod single;
#[cfg(test)]
mod tests;
mod verified;
mod writer;

pub(crate) use appenders::BlobOwner;
pub(crate) use chunks::CHUNK_LOG2;
pub(crate) use file::{BlobFile, Unverified};
pub(crate) use format::{Entry, Pointer, key_hash};
pub(crate) use format::{Header, Layout};
pub(crate) use handles::{Handles, LazyFile};
pub(crate) use live::LiveFile;
pub(crate) use pin::{BlobStream, NewBlob, Pin, PinnedMap, VOLATILE};
#[cfg(test)]
use scan::Scan;
pub(crate) use set::BlobSet;
pub(crate) use single::SingleWriter;
use writer::SharedWriter;

/// The number of a blob file.
pub(crate) type BlobFileId = u64;

/// The two numbers of a blob file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlobName {
    /// The number in this store: in the file's name and in pointers.
    pub(crate) file: BlobFileId,
    /// The number in the store that wrote the file: in its header.
    pub(crate) origin: BlobFileId,
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

/// Whether `name` is that of an unfinished rewrite of a blob file.
pub(crate) fn is_temporary_blob(name: &str) -> bool {
    name.strip_suffix(".tmp").is_some_and(|name| blob_number(name).is_some())
}

/// The path of blob file `id` in `dir`.
pub(crate) fn blob_path(dir: &Path, id: BlobFileId) -> PathBuf {
    dir.join(format!("{id:06}.blob"))
}
