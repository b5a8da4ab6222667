//! A blob file that is open for reading. Threads share it, and its writer shares it too while the file grows.
//!
//! It knows the values of the file, and which chunks have passed their checksum since the file was opened. Bytes are
//! given out by `read.rs`, by a mapping, or by a copy inside the kernel. A verified chunk is not verified again: damage
//! on the disk that comes later is found by the next opening. Locks are held only for lookups.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::chunks::{Identity, Summer, Sums, sums_len};
use super::format::{Entry, Header, Pointer, align8};
use super::index::{Found, Index};
use super::scan::{self, Scan};
use super::verified::Verified;
use super::{BlobFileId, BlobName};
use crate::canary::broken;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{BLOCK, Mapping, ReadFile, UserFile};
use crate::version::blob_edits::BlobFileInfo;

/// How much is read before its checksum is computed: little enough to stay in the processor's cache. Between 64 KiB and
/// 512 KiB the difference is at most 5 %.
pub(super) const PIECE: usize = 256 << 10;

/// How many bytes a read that is not in the page cache requests from the disk in one call. Beyond that the kernel reads
/// ahead automatically, in larger pages, which costs less.
const AHEAD: u64 = 8 << 20;

/// Reading up to this many bytes costs less than mapping them, using them and unmapping them.
const MAP_ABOVE: u64 = 256 << 10;

#[derive(Debug)]
pub(crate) struct BlobFile {
    pub(super) file: Arc<dyn ReadFile>,
    pub(super) header: Header,
    /// The number in the header is its `origin`.
    name: BlobName,
    index: RwLock<Index>,
    /// Values with some verified chunks, by ordinal.
    partly: Mutex<HashMap<u64, Arc<Verified>>>,
}

#[derive(Debug)]
pub(crate) struct Unverified {
    value: Found,
    sums: Sums,
    /// How far it is verified: a multiple of the chunk length, or the length of the value.
    at: u64,
}

impl BlobFile {
    pub(super) fn new(
        file: Arc<dyn ReadFile>,
        name: impl Into<BlobName>,
        header: Header,
        entries: &[Entry],
    ) -> Self {
        let index = RwLock::new(Index::new(entries, header.chunk_log2));
        BlobFile { file, header, name: name.into(), index, partly: Mutex::default() }
    }

    /// Opens the sealed file `name`: reads and verifies header and footer.
    pub(crate) fn open_sealed(file: Arc<dyn ReadFile>, name: impl Into<BlobName>) -> Result<Self> {
        let name = name.into();
        let header = scan::read_header(file.as_ref(), name.origin)?;
        let entries = scan::read_footer(file.as_ref(), &header)?;
        Ok(Self::new(file, name, header, &entries))
    }

    /// As [`BlobFile::open_sealed`], and returns the entries. If the footer is damaged, returns the damage and takes
    /// the entries from the descriptors.
    pub(crate) fn open_damaged(
        file: &Arc<dyn ReadFile>,
        name: impl Into<BlobName>,
    ) -> Result<(Self, Vec<Entry>, Option<Error>)> {
        let name = name.into();
        let header = scan::read_header(file.as_ref(), name.origin)?;
        let (entries, damage) = match scan::read_footer(file.as_ref(), &header) {
            Err(damage) if damage.kind() == ErrorKind::Corruption => {
                (scan::scan(file.as_ref(), &header)?.entries, Some(damage))
            }
            entries => (entries?, None),
        };
        Ok((Self::new(Arc::clone(file), name, header, &entries), entries, damage))
    }

    /// Opens the file that the manifest describes by `info`. Returns its entries too, and the damage of its footer.
    pub(crate) fn open_known(
        file: &Arc<dyn ReadFile>,
        info: &BlobFileInfo,
    ) -> Result<(Self, Vec<Entry>, Option<Error>)> {
        let opened = match info.sealed {
            true => Self::open_damaged(file, info)?,
            false => Self::scan(Arc::clone(file), info).map(|(file, scan)| (file, scan.entries, None))?,
        };
        let header = &opened.0.header;
        if header.salt != info.salt || (header.layout == super::format::Layout::Single) != info.single {
            let message = "the blob file is not the one that the manifest describes";
            return Err(Error::corruption(file.path(), 0, message));
        }
        Ok(opened)
    }

    /// Opens the file `name`, which has no footer or a damaged one: its entries come from the descriptors.
    pub(crate) fn scan(file: Arc<dyn ReadFile>, name: impl Into<BlobName>) -> Result<(Self, Scan)> {
        let name = name.into();
        let header = scan::read_header(file.as_ref(), name.origin)?;
        let scan = scan::scan(file.as_ref(), &header)?;
        Ok((Self::new(file, name, header, &scan.entries), scan))
    }

    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// The number in the file's header, which may differ from that in its name.
    pub(crate) fn origin_of(file: &dyn ReadFile) -> Result<BlobFileId> {
        scan::read_any_header(file).map(|header| header.number)
    }

    pub(crate) fn is_single(&self) -> bool {
        self.header.layout == super::format::Layout::Single
    }

    /// The entries of a sealed file by ordinal, read again from its footer.
    pub(crate) fn entries(&self) -> Result<Vec<Entry>> {
        scan::read_footer(self.file.as_ref(), &self.header)
    }

    pub(super) fn note(&self, entry: &Entry) {
        self.index.write().push(entry, self.header.chunk_log2);
    }

    /// About how many bytes the file's values take without `gone`, and how many of `gone` the file has.
    pub(super) fn needed(&self, gone: impl Iterator<Item = u64>) -> (u64, usize) {
        self.index.read().needed(gone)
    }

    pub(super) fn locate(&self, ordinal: u64) -> Option<(u64, u64)> {
        self.index.read().find(ordinal).map(|value| (value.offset, value.len))
    }

    /// Requests a range of the file, ahead of its read, if it is not in the page cache. Returns whether it was missing
    /// there.
    pub(super) fn ask_ahead(&self, start: u64, len: u64) -> bool {
        let is_cold = !self.file.is_cached(start);
        if is_cold {
            self.file.prefetch(start, len.min(AHEAD));
        }
        is_cold
    }

    /// Maps a whole value; a short one is read instead. With `verify`, all of it has passed its checksum
    /// since the file was opened.
    pub(crate) fn map(&self, pointer: &Pointer, verify: bool) -> Result<Mapping> {
        let value = self.find(pointer)?;
        let mapping = match value.len <= MAP_ABOVE {
            true => Mapping::by_reading(&*self.file, value.offset, value.len)?,
            false => self.file.map(value.offset, value.len)?,
        };
        if verify && !value.verified {
            let mut summer = Summer::new(self.identity(value.ordinal), self.header.chunk_log2);
            self.ask_ahead(value.offset, value.len);
            summer.add(&mapping);
            self.check_sums(&value, pointer, summer.sums_check(), &mapping)?;
        }
        Ok(mapping)
    }

    /// Copies a value that begins at a block boundary to `target`, once all of it has passed its checksum since the
    /// file was opened. The file system may share the blocks. Returns how many bytes from the beginning were copied.
    pub(crate) fn copy_to(&self, pointer: &Pointer, target: &UserFile) -> Result<u64> {
        let value = self.find(pointer)?;
        if !value.offset.is_multiple_of(BLOCK) {
            return Ok(0);
        }
        if !value.verified {
            self.verify(pointer)?;
        }
        Ok(self.file.copy_to(value.offset, value.len, target))
    }

    /// Reads and verifies a whole value, including chunks that were verified before.
    pub(crate) fn verify(&self, pointer: &Pointer) -> Result<()> {
        let mut left = self.begin_verifying(pointer)?;
        while self.verify_more(&mut left, u64::MAX)? > 0 {}
        Ok(())
    }

    pub(crate) fn begin_verifying(&self, pointer: &Pointer) -> Result<Unverified> {
        let value = self.find(pointer)?;
        Ok(Unverified { value, sums: self.load_sums(&value, pointer)?, at: 0 })
    }

    /// Verifies about `bytes` more bytes of a value. Returns how many bytes it has verified; 0 when the value is done.
    pub(crate) fn verify_more(&self, left: &mut Unverified, bytes: u64) -> Result<u64> {
        let (value, begin) = (&left.value, left.at);
        let mut piece = vec![0; self.piece_len().min((value.len - begin) as usize)];
        while left.at < value.len && left.at - begin < bytes {
            let len = (piece.len() as u64).min(value.len - left.at);
            let bytes = &mut piece[..len as usize];
            self.file.read_exact_at(bytes, value.offset + left.at)?;
            self.check_chunks(value, &left.sums, left.at >> self.header.chunk_log2, bytes)?;
            left.at += len;
        }
        if left.at == value.len {
            self.set_verified(value);
        }
        Ok(left.at - begin)
    }

    /// Reads the value of `entry` into `buf` and verifies it. Returns its sums and its key.
    pub(super) fn read_for_moving(&self, entry: &Entry, buf: &mut Vec<u8>) -> Result<(Sums, Vec<u8>)> {
        let pointer = entry.pointer(self.name.file);
        let value = self.find(&pointer)?;
        let sums = self.load_sums(&value, &pointer)?;
        let key = self.key(entry)?;
        buf.resize(value.len as usize, 0);
        self.file.read_exact_at(buf, value.offset)?;
        self.check_chunks(&value, &sums, 0, buf)?;
        Ok((sums, key))
    }

    /// The key of `entry`, which must be an entry of this file.
    pub(super) fn key(&self, entry: &Entry) -> Result<Vec<u8>> {
        scan::read_key(self.file.as_ref(), &self.header, entry)
    }

    /// The value of a pointer. If the file does not match the pointer, that is damage of one or the other.
    pub(super) fn find(&self, pointer: &Pointer) -> Result<Found> {
        let is_here = pointer.file == self.name.file;
        let found = if is_here { self.index.read().find(pointer.ordinal) } else { None };
        let name = || format!("value {} of blob file {}", pointer.ordinal, pointer.file);
        match found {
            Some(value) if value.len == pointer.len => Ok(value),
            Some(value) => {
                let message = format!("expected {} with {} bytes, found {}", name(), pointer.len, value.len);
                Err(Error::corruption(self.path(), value.offset, message))
            }
            None => {
                let message = format!("expected {}: the file does not have it", name());
                Err(Error::new(ErrorKind::Corruption, message).at(self.path()))
            }
        }
    }

    /// Verifies a whole value by the checksum of its computed sums. `bytes` are the value.
    pub(super) fn check_sums(
        &self,
        value: &Found,
        pointer: &Pointer,
        sums_check: u64,
        bytes: &[u8],
    ) -> Result<()> {
        if sums_check != pointer.sums_check && !broken("rule-10") {
            // The sums in the file show which chunk is damaged.
            let sums = self.load_sums(value, pointer)?;
            self.check_chunks(value, &sums, 0, bytes)?;
            let message = "expected the value of its pointer";
            return Err(Error::corruption(self.path(), value.offset, message));
        }
        self.set_verified(value);
        Ok(())
    }

    pub(super) fn check_chunks(&self, value: &Found, sums: &Sums, first: u64, bytes: &[u8]) -> Result<()> {
        for (index, chunk) in (first..).zip(bytes.chunks(1 << self.header.chunk_log2)) {
            if !sums.matches(index, chunk) && !broken("rule-10") {
                let message = format!(
                    "chunk {index} of value {} of blob file {} does not match its checksum",
                    value.ordinal, self.name.file
                );
                let offset = value.offset + (index << self.header.chunk_log2);
                return Err(Error::corruption(self.path(), offset, message));
            }
        }
        Ok(())
    }

    /// The sums of a value from the file, verified by the pointer's checksum.
    fn load_sums(&self, value: &Found, pointer: &Pointer) -> Result<Sums> {
        let at = align8(value.offset + value.len);
        let mut bytes = vec![0; sums_len(value.len, self.header.chunk_log2) as usize];
        self.file.read_exact_at(&mut bytes, at)?;
        Sums::new(self.identity(value.ordinal), value.len, bytes, pointer.sums_check).ok_or_else(|| {
            let message = format!(
                "the checksums of value {} of blob file {} do not match their pointer",
                value.ordinal, self.name.file
            );
            Error::corruption(self.path(), at, message)
        })
    }

    /// The sums of a value and its verified chunks.
    pub(super) fn verified(&self, value: &Found, pointer: &Pointer) -> Result<Arc<Verified>> {
        let id = value.ordinal;
        if let Some(known) = self.partly.lock().get(&id) {
            return Ok(Arc::clone(known));
        }
        let loaded = Arc::new(Verified::new(self.load_sums(value, pointer)?));
        let known = Arc::clone(self.partly.lock().entry(id).or_insert(loaded));
        // A thread that verified the whole value meanwhile may have looked for the entry before it was there.
        if self.index.read().find(id).is_some_and(|value| value.verified) {
            self.partly.lock().remove(&id);
        }
        Ok(known)
    }

    /// Notes that `count` chunks from number `first` on have passed.
    pub(super) fn note_chunks(&self, value: &Found, verified: &Verified, first: u64, count: u64) {
        for index in first..first + count {
            if verified.set(index) {
                self.set_verified(value);
            }
        }
    }

    pub(super) fn note_read_again(&self, value: &Found) {
        if value.read_again {
            return;
        }
        self.index.read().set_read_again(value.ordinal);
    }

    /// Notes that a whole value has passed: its sums are not needed any more.
    fn set_verified(&self, value: &Found) {
        self.index.read().set_verified(value.ordinal);
        self.partly.lock().remove(&value.ordinal);
    }

    /// Size of one read for verification: whole chunks.
    pub(super) fn piece_len(&self) -> usize {
        PIECE.max(1 << self.header.chunk_log2)
    }

    pub(super) fn identity(&self, ordinal: u64) -> Identity {
        Identity::new(self.header.salt, ordinal)
    }
}
