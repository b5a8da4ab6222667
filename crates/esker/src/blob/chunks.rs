//! The checksums of a value: one for each chunk, and one for the list of them.
//!
//! ```text
//! identity        = checksum(salt of the file, ordinal)
//! sum of chunk i  = checksum(identity + i * 0x9E3779B97F4A7C15, bytes of the chunk)     the last may be short
//! sums check      = checksum(checksum(salt, ordinal | length), the sums, 8 bytes each)
//! ```
//! The pointer holds the list's checksum, which therefore covers every byte of the value. A valid chunk from another
//! place, another value or another file does not pass.

use crate::checksum::checksum;
use crate::codec::u64_at;

/// Chunks are 4 KiB to 1 MiB.
pub(super) const CHUNK_LOG2_MIN: u8 = 12;
pub(super) const CHUNK_LOG2_MAX: u8 = 20;
/// The chunk size of new files: 64 KiB. Reads of whole values are as fast with 16 KiB and 256 KiB. With smaller chunks,
/// a read of a few bytes that has to verify its chunk is cheaper. With larger chunks, the sums take less space.
pub(crate) const CHUNK_LOG2: u8 = 16;
/// The length of a chunk's sum, in bytes.
pub(super) const SUM: usize = 8;

pub(super) fn sums_len(len: u64, chunk_log2: u8) -> u64 {
    len.div_ceil(1 << chunk_log2) * SUM as u64
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Identity {
    salt: u64,
    ordinal: u64,
    chunk_seed: u64,
}

impl Identity {
    pub(super) fn new(salt: u64, ordinal: u64) -> Self {
        Identity { salt, ordinal, chunk_seed: checksum(salt, &ordinal.to_le_bytes()) }
    }

    #[inline]
    pub(super) fn sum(&self, index: u64, chunk: &[u8]) -> u64 {
        checksum(self.chunk_seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15)), chunk)
    }

    /// The checksum of all sums of a value of `len` bytes.
    pub(super) fn sums_check(&self, len: u64, sums: &[u8]) -> u64 {
        let mut name = [0; 16];
        name[..8].copy_from_slice(&self.ordinal.to_le_bytes());
        name[8..].copy_from_slice(&len.to_le_bytes());
        checksum(checksum(self.salt, &name), sums)
    }
}

/// Computes the checksums of a value that comes in pieces.
#[derive(Debug)]
pub(super) struct Summer {
    identity: Identity,
    chunk: usize,
    len: u64,
    sums: Vec<u8>,
}

impl Summer {
    pub(super) fn new(identity: Identity, chunk_log2: u8) -> Self {
        Summer { identity, chunk: 1 << chunk_log2, len: 0, sums: Vec::new() }
    }

    /// Adds the next bytes of the value. All chunks are whole, except the last of the value.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        debug_assert!(self.len.is_multiple_of(self.chunk as u64), "only the last chunk may be short");
        self.sums.reserve(bytes.len().div_ceil(self.chunk) * SUM);
        for (index, chunk) in (self.len / self.chunk as u64..).zip(bytes.chunks(self.chunk)) {
            self.sums.extend_from_slice(&self.identity.sum(index, chunk).to_le_bytes());
        }
        self.len += bytes.len() as u64;
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn sums(&self) -> &[u8] {
        &self.sums
    }

    pub(super) fn sums_check(&self) -> u64 {
        self.identity.sums_check(self.len, &self.sums)
    }
}

/// The sums of a value from its file. They have passed their own checksum.
#[derive(Debug)]
pub(super) struct Sums {
    identity: Identity,
    bytes: Box<[u8]>,
}

impl Sums {
    /// Returns `None` if `bytes` do not match `sums_check`.
    pub(super) fn new(identity: Identity, len: u64, bytes: Vec<u8>, sums_check: u64) -> Option<Self> {
        let good = identity.sums_check(len, &bytes) == sums_check;
        good.then(|| Sums { identity, bytes: bytes.into_boxed_slice() })
    }

    /// Whether `chunk` matches the sum of chunk `index`, which must exist.
    pub(super) fn matches(&self, index: u64, chunk: &[u8]) -> bool {
        self.identity.sum(index, chunk) == u64_at(&self.bytes, index as usize * SUM)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn count(&self) -> u64 {
        (self.bytes.len() / SUM) as u64
    }
}
