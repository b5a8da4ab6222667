//! An open blob file for reading, shared by threads and, while it is written, with its writer.
//!
//! ```text
//! read_at   verified before          one read into the caller's buffer
//!           the whole value          pieces into the caller's buffer, summed up while in the cache: no sums read
//!           some of its chunks       sums loaded once; chunks that have passed: read as above; others: read whole
//! ```
//! Every chunk that a read touches has passed its checksum since the file was opened, or passes it in this
//! read. A chunk that was verified is not verified again: what the disk loses later, the next opening sees.
//! Locks are held for lookups alone.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::chunks::{Identity, Summer, Sums, sums_len};
use super::format::{Entry, Header, Pointer, align8};
use super::index::{Found, Index};
use super::scan::{self, Scan};
use super::verified::Verified;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::ReadFile;

/// How much is read before it is summed up: little enough to stay in the processor's own cache. From 64 KiB to
/// 512 KiB it makes no difference of more than 5 %.
const PIECE: usize = 256 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct BlobFile {
    file: Arc<dyn ReadFile>,
    header: Header,
    index: RwLock<Index>,
    /// Values of which some chunks were verified, by logical file and ordinal.
    partly: Mutex<HashMap<(u64, u64), Arc<Verified>>>,
}

impl BlobFile {
    /// A file of which everything is known.
    pub(super) fn new(file: Arc<dyn ReadFile>, header: Header, entries: &[Entry]) -> Self {
        BlobFile { file, header, index: RwLock::new(Index::new(entries)), partly: Mutex::default() }
    }

    /// Opens file `number`, which was sealed: header and footer are read and verified.
    pub(crate) fn open_sealed(file: Arc<dyn ReadFile>, number: u64) -> Result<Self> {
        let header = scan::read_header(file.as_ref(), number)?;
        let entries = scan::read_footer(file.as_ref(), &header)?;
        Ok(Self::new(file, header, &entries))
    }

    /// Opens file `number`, which has no footer, or a damaged one: the descriptors say what is in it.
    pub(crate) fn scan(file: Arc<dyn ReadFile>, number: u64) -> Result<(Self, Scan)> {
        let header = scan::read_header(file.as_ref(), number)?;
        let scan = scan::scan(file.as_ref(), &header)?;
        Ok((Self::new(file, header, &scan.entries), scan))
    }

    /// What the first page says.
    pub(crate) fn header(&self) -> &Header {
        &self.header
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

    /// Calls `each` with ordinal and length of every value that was first written to file `logical`.
    pub(super) fn for_each_value(&self, logical: u64, each: impl FnMut(u64, u64)) {
        self.index.read().for_each(logical, each);
    }

    /// Where a value begins and how long it is, if this file has it.
    pub(crate) fn locate(&self, logical: u64, ordinal: u64) -> Option<(u64, u64)> {
        self.index.read().find(logical, ordinal).map(|value| (value.offset, value.len))
    }

    /// Fills `buf` with the value's bytes from `offset` on, all of which there must be. After an error `buf`
    /// holds anything.
    pub(crate) fn read_at(&self, pointer: &Pointer, offset: u64, buf: &mut [u8]) -> Result<()> {
        let value = self.find(pointer)?;
        let len = buf.len() as u64;
        if offset > value.len || len > value.len - offset {
            let message = format!("the range {offset} + {len} ends behind the value's {} bytes", value.len);
            return Err(Error::new(ErrorKind::InvalidInput, message).at(self.file.path()));
        }
        if value.verified || buf.is_empty() {
            return self.file.read_exact_at(buf, value.offset + offset);
        }
        if len == value.len {
            return self.read_whole(&value, pointer, buf);
        }
        if value.len <= 1 << value.chunk_log2 {
            let mut whole = vec![0; value.len as usize];
            self.read_whole(&value, pointer, &mut whole)?;
            let from = offset as usize;
            buf.copy_from_slice(&whole[from..from + buf.len()]);
            return Ok(());
        }
        self.read_chunks(&value, pointer, offset, buf)
    }

    /// Reads and verifies all of a value, also what was verified before.
    pub(crate) fn verify(&self, pointer: &Pointer) -> Result<()> {
        let value = self.find(pointer)?;
        let sums = self.load_sums(&value, pointer)?;
        let mut piece = vec![0; piece_len(&value).min(value.len as usize)];
        let mut at = 0;
        while at < value.len {
            let len = (piece.len() as u64).min(value.len - at);
            let bytes = &mut piece[..len as usize];
            self.file.read_exact_at(bytes, value.offset + at)?;
            self.check_chunks(&value, &sums, at >> value.chunk_log2, bytes)?;
            at += len;
        }
        self.set_verified(&value);
        Ok(())
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
    fn find(&self, pointer: &Pointer) -> Result<Found> {
        let found = self.index.read().find(pointer.file, pointer.ordinal);
        let name = || format!("value {} of blob file {}", pointer.ordinal, pointer.file);
        match found {
            Some(value) if value.len == pointer.len => Ok(value),
            Some(value) => {
                let message = format!("expected {} with {} bytes, found {}", name(), pointer.len, value.len);
                Err(Error::corruption(self.file.path(), value.offset, message))
            }
            None => {
                let message = format!("expected {}: the file does not have it", name());
                Err(Error::new(ErrorKind::Corruption, message).at(self.file.path()))
            }
        }
    }

    /// Reads and verifies a value that fills `buf`.
    fn read_whole(&self, value: &Found, pointer: &Pointer, buf: &mut [u8]) -> Result<()> {
        let mut summer = Summer::new(identity(value), value.chunk_log2);
        let mut at = value.offset;
        for piece in buf.chunks_mut(piece_len(value)) {
            self.file.read_exact_at(piece, at)?;
            summer.add(piece);
            at += piece.len() as u64;
        }
        if summer.sums_check() != pointer.sums_check {
            // The sums in the file say which chunk it is.
            let sums = self.load_sums(value, pointer)?;
            self.check_chunks(value, &sums, 0, buf)?;
            return Err(Error::corruption(
                self.file.path(),
                value.offset,
                "expected the value of its pointer",
            ));
        }
        self.set_verified(value);
        Ok(())
    }

    /// Reads a part of a value of several chunks.
    fn read_chunks(&self, value: &Found, pointer: &Pointer, offset: u64, buf: &mut [u8]) -> Result<()> {
        let verified = self.verified(value, pointer)?;
        let chunk = 1u64 << value.chunk_log2;
        let piece = piece_len(value) as u64;
        let end = offset + buf.len() as u64;
        let mut at = offset;
        while at < end {
            let index = at >> value.chunk_log2;
            let start = index << value.chunk_log2;
            let out = &mut buf[(at - offset) as usize..];
            if verified.has(index) {
                let run = verified.alike(index, end.div_ceil(chunk));
                let take = (start + run * chunk).min(end) - at;
                self.file.read_exact_at(&mut out[..take as usize], value.offset + at)?;
                at += take;
            } else if at == start && (start + chunk).min(value.len) <= end {
                let whole = if end == value.len { end.div_ceil(chunk) } else { end >> value.chunk_log2 };
                let run = verified.alike(index, whole.min(index + (piece >> value.chunk_log2)));
                let take = (start + run * chunk).min(value.len) - at;
                let out = &mut out[..take as usize];
                self.file.read_exact_at(out, value.offset + at)?;
                self.check_chunks(value, &verified.sums, index, out)?;
                self.note_chunks(value, &verified, index, run);
                at += take;
            } else {
                let mut bytes = vec![0; chunk.min(value.len - start) as usize];
                self.file.read_exact_at(&mut bytes, value.offset + start)?;
                self.check_chunks(value, &verified.sums, index, &bytes)?;
                self.note_chunks(value, &verified, index, 1);
                let wanted = &bytes[(at - start) as usize..(end - start).min(bytes.len() as u64) as usize];
                out[..wanted.len()].copy_from_slice(wanted);
                at += wanted.len() as u64;
            }
        }
        Ok(())
    }

    /// Verifies whole chunks from number `first` on.
    fn check_chunks(&self, value: &Found, sums: &Sums, first: u64, bytes: &[u8]) -> Result<()> {
        for (index, chunk) in (first..).zip(bytes.chunks(1 << value.chunk_log2)) {
            if !sums.matches(index, chunk) {
                let message = format!(
                    "chunk {index} of value {} of blob file {} does not match its checksum",
                    value.ordinal, value.logical
                );
                let offset = value.offset + (index << value.chunk_log2);
                return Err(Error::corruption(self.file.path(), offset, message));
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
            Error::corruption(self.file.path(), at, message)
        })
    }

    /// What is known of a value of which some chunks may have been verified.
    fn verified(&self, value: &Found, pointer: &Pointer) -> Result<Arc<Verified>> {
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
    fn note_chunks(&self, value: &Found, verified: &Verified, first: u64, count: u64) {
        for index in first..first + count {
            if verified.set(index) {
                self.set_verified(value);
            }
        }
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

/// How much of a value is read at once to be verified: whole chunks.
fn piece_len(value: &Found) -> usize {
    PIECE.max(1 << value.chunk_log2)
}
