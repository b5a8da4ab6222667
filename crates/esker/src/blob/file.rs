//! An open blob file for reading, shared by threads and, while it is written, with its writer.
//!
//! Here is what is known of its values, and of which chunks have passed their checksum since it was opened; bytes come
//! out by `read.rs`, by a mapping or by a copy inside the kernel. A chunk that was verified is not verified again: what
//! the disk loses later, the next opening sees. Locks are held for lookups alone.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::chunks::{Identity, Summer, Sums, sums_len};
use super::format::{Entry, Header, Pointer, align8};
use super::index::{Found, Index};
use super::read::piece_len;
use super::scan::{self, Scan};
use super::verified::Verified;
use super::{BlobFileId, BlobName};
use crate::canary::broken;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{BLOCK, Mapping, ReadFile, UserFile};

/// Reading up to so many bytes costs less than mapping them, looking at them and letting them go.
const MAP_ABOVE: u64 = 256 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct BlobFile {
    pub(super) file: Arc<dyn ReadFile>,
    header: Header,
    /// Its own is the header's.
    name: BlobName,
    index: RwLock<Index>,
    /// Values of which some chunks were verified, by logical file and ordinal.
    partly: Mutex<HashMap<(u64, u64), Arc<Verified>>>,
}

/// A value of which some was verified.
#[derive(Debug)]
pub(crate) struct Unverified {
    value: Found,
    sums: Sums,
    /// A multiple of the chunk's length, or the value's.
    at: u64,
}

impl BlobFile {
    /// A file of which everything is known.
    pub(super) fn new(
        file: Arc<dyn ReadFile>,
        name: impl Into<BlobName>,
        header: Header,
        entries: &[Entry],
    ) -> Self {
        let name = name.into();
        BlobFile { file, header, name, index: RwLock::new(Index::new(entries)), partly: Mutex::default() }
    }

    /// Opens the file `name`, which was sealed: header and footer are read and verified.
    pub(crate) fn open_sealed(file: Arc<dyn ReadFile>, name: impl Into<BlobName>) -> Result<Self> {
        let name = name.into();
        let header = scan::read_header(file.as_ref(), name.origin)?;
        let entries = scan::read_footer(file.as_ref(), &header)?;
        Ok(Self::new(file, name, header, &entries))
    }

    /// As [`BlobFile::open_sealed`], with what the file holds. Where the footer is damaged, which is told, the
    /// descriptors say that.
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

    /// Opens the file `name`, which has no footer, or a damaged one: the descriptors say what is in it.
    pub(crate) fn scan(file: Arc<dyn ReadFile>, name: impl Into<BlobName>) -> Result<(Self, Scan)> {
        let name = name.into();
        let header = scan::read_header(file.as_ref(), name.origin)?;
        let scan = scan::scan(file.as_ref(), &header)?;
        Ok((Self::new(file, name, header, &scan.entries), scan))
    }

    /// Where the file is, for messages.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// What the first page says.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// The number that stands in a file, whatever it is called.
    pub(crate) fn origin_of(file: &dyn ReadFile) -> Result<BlobFileId> {
        scan::read_any_header(file).map(|header| header.number)
    }

    /// Whether one value has the file to itself.
    pub(crate) fn is_single(&self) -> bool {
        self.header.layout == super::format::Layout::Single
    }

    /// The values of a sealed file by logical file and ordinal, read again from its footer.
    pub(crate) fn entries(&self) -> Result<Vec<Entry>> {
        scan::read_footer(self.file.as_ref(), &self.header)
    }

    /// Makes a value known that was written behind all others.
    pub(super) fn note(&self, entry: &Entry) {
        self.index.write().push(entry);
    }

    /// About what the file's values take without those of file `logical` that are `gone`, and how many of these it has.
    pub(super) fn needed(&self, logical: u64, gone: impl Iterator<Item = u64>) -> (u64, usize) {
        self.index.read().needed(self.name.inside(logical), gone)
    }

    /// Where a value begins and how long it is, if this file has it.
    pub(crate) fn locate(&self, logical: u64, ordinal: u64) -> Option<(u64, u64)> {
        self.index.read().find(self.name.inside(logical), ordinal).map(|value| (value.offset, value.len))
    }

    /// Shows all of a value, a long one in place; with `verify`, once all of it has passed since the file was opened.
    pub(crate) fn map(&self, pointer: &Pointer, verify: bool) -> Result<Mapping> {
        let value = self.find(pointer)?;
        let mapping = match value.len <= MAP_ABOVE {
            true => Mapping::by_reading(&*self.file, value.offset, value.len)?,
            false => self.file.map(value.offset, value.len)?,
        };
        if verify && !value.verified {
            let mut summer = Summer::new(identity(&value), value.chunk_log2);
            self.ask_ahead(value.offset, value.len);
            summer.add(&mapping);
            self.check_sums(&value, pointer, summer.sums_check(), &mapping)?;
        }
        Ok(mapping)
    }

    /// Copies a value that begins at a block to `target`, whose blocks may then be those of this file, once all of it
    /// has passed since the file was opened. Returns how many bytes from the beginning it has copied.
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

    /// Reads and verifies all of a value, also what was verified before.
    pub(crate) fn verify(&self, pointer: &Pointer) -> Result<()> {
        let mut left = self.begin_verifying(pointer)?;
        while self.verify_more(&mut left, u64::MAX)? > 0 {}
        Ok(())
    }

    /// Begins to verify a value in parts.
    pub(crate) fn begin_verifying(&self, pointer: &Pointer) -> Result<Unverified> {
        let value = self.find(pointer)?;
        Ok(Unverified { value, sums: self.load_sums(&value, pointer)?, at: 0 })
    }

    /// Verifies about `bytes` more of a value, and returns how many those were; 0 once it is done.
    pub(crate) fn verify_more(&self, left: &mut Unverified, bytes: u64) -> Result<u64> {
        let (value, begin) = (&left.value, left.at);
        let mut piece = vec![0; piece_len(value).min((value.len - begin) as usize)];
        while left.at < value.len && left.at - begin < bytes {
            let len = (piece.len() as u64).min(value.len - left.at);
            let bytes = &mut piece[..len as usize];
            self.file.read_exact_at(bytes, value.offset + left.at)?;
            self.check_chunks(value, &left.sums, left.at >> value.chunk_log2, bytes)?;
            left.at += len;
        }
        if left.at == value.len {
            self.set_verified(value);
        }
        Ok(left.at - begin)
    }

    /// Fills `buf` with the value of `entry`, which passes its checksums, and returns these and the key.
    pub(super) fn read_for_moving(&self, entry: &Entry, buf: &mut Vec<u8>) -> Result<(Sums, Vec<u8>)> {
        let pointer = entry.pointer();
        let value = self.find(&pointer)?;
        let sums = self.load_sums(&value, &pointer)?;
        let key = self.key(entry)?;
        buf.resize(value.len as usize, 0);
        self.file.read_exact_at(buf, value.offset)?;
        self.check_chunks(&value, &sums, 0, buf)?;
        Ok((sums, key))
    }

    /// The key of `entry`, which is one of this file.
    pub(super) fn key(&self, entry: &Entry) -> Result<Vec<u8>> {
        scan::read_key(self.file.as_ref(), &self.header, entry)
    }

    /// The value of a pointer. A pointer that the file does not bear out is damage: here or there.
    pub(super) fn find(&self, pointer: &Pointer) -> Result<Found> {
        let found = self.index.read().find(self.name.inside(pointer.file), pointer.ordinal);
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

    /// Verifies a whole value, which `bytes` are, by the sums that it has.
    pub(super) fn check_sums(
        &self,
        value: &Found,
        pointer: &Pointer,
        sums_check: u64,
        bytes: &[u8],
    ) -> Result<()> {
        if sums_check != pointer.sums_check && !broken("rule-10") {
            // The sums in the file say which chunk it is.
            let sums = self.load_sums(value, pointer)?;
            self.check_chunks(value, &sums, 0, bytes)?;
            let message = "expected the value of its pointer";
            return Err(Error::corruption(self.path(), value.offset, message));
        }
        self.set_verified(value);
        Ok(())
    }

    /// Verifies whole chunks from number `first` on.
    pub(super) fn check_chunks(&self, value: &Found, sums: &Sums, first: u64, bytes: &[u8]) -> Result<()> {
        for (index, chunk) in (first..).zip(bytes.chunks(1 << value.chunk_log2)) {
            if !sums.matches(index, chunk) && !broken("rule-10") {
                let message = format!(
                    "chunk {index} of value {} of blob file {} does not match its checksum",
                    value.ordinal, value.logical
                );
                let offset = value.offset + (index << value.chunk_log2);
                return Err(Error::corruption(self.path(), offset, message));
            }
        }
        Ok(())
    }

    /// The sums of a value from the file, once they have passed the pointer's checksum.
    fn load_sums(&self, value: &Found, pointer: &Pointer) -> Result<Sums> {
        let at = align8(value.offset + value.len);
        let mut bytes = vec![0; sums_len(value.len, value.chunk_log2) as usize];
        self.file.read_exact_at(&mut bytes, at)?;
        Sums::new(identity(value), value.len, bytes, pointer.sums_check).ok_or_else(|| {
            let message = format!(
                "the checksums of value {} of blob file {} do not match their pointer",
                value.ordinal, value.logical
            );
            Error::corruption(self.path(), at, message)
        })
    }

    /// What is known of a value of which some chunks may have been verified.
    pub(super) fn verified(&self, value: &Found, pointer: &Pointer) -> Result<Arc<Verified>> {
        let id = (value.logical, value.ordinal);
        if let Some(known) = self.partly.lock().get(&id) {
            return Ok(Arc::clone(known));
        }
        let loaded = Arc::new(Verified::new(self.load_sums(value, pointer)?));
        let known = Arc::clone(self.partly.lock().entry(id).or_insert(loaded));
        // Whoever verified the whole value meanwhile looked for the entry before it was there.
        if self.index.read().find(id.0, id.1).is_some_and(|value| value.verified) {
            self.partly.lock().remove(&id);
        }
        Ok(known)
    }

    /// Remembers that `count` chunks from number `first` on have passed.
    pub(super) fn note_chunks(&self, value: &Found, verified: &Verified, first: u64, count: u64) {
        for index in first..first + count {
            if verified.set(index) {
                self.set_verified(value);
            }
        }
    }

    /// Remembers that a value was read that had passed before.
    pub(super) fn note_read_again(&self, value: &Found) {
        if value.read_again {
            return;
        }
        self.index.read().set_read_again(value.logical, value.ordinal);
    }

    /// Remembers that all of a value has passed: its sums are not needed any more.
    fn set_verified(&self, value: &Found) {
        self.index.read().set_verified(value.logical, value.ordinal);
        self.partly.lock().remove(&(value.logical, value.ordinal));
    }
}

fn identity(value: &Found) -> Identity {
    Identity::new(value.salt, value.ordinal)
}
