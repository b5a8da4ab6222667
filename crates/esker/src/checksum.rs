//! The one checksum of every byte on disk: XXH3, 64 bits, seeded.
//!
//! The seed salts a checksum with the identity of the place (log epoch, table salt and offset). Therefore good bytes in
//! the wrong place count as damage too.

use twox_hash::XxHash3_64;

/// XXH3-64 of `bytes`, seeded with `salt`.
#[inline]
pub(crate) fn checksum(salt: u64, bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(salt, bytes)
}

/// The hash of a user key that filters and caches share. It has no seed, because filters store it.
#[inline]
pub(crate) fn hash_key(key: &[u8]) -> u64 {
    XxHash3_64::oneshot(key)
}

/// The checksum of bytes that come in parts; by default without a seed.
#[derive(Default)]
pub(crate) struct Summing(XxHash3_64);

impl Summing {
    pub(crate) fn seeded(salt: u64) -> Self {
        Summing(XxHash3_64::with_seed(salt))
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        std::hash::Hasher::write(&mut self.0, bytes);
    }

    /// [`checksum`] of all bytes that were added.
    pub(crate) fn finish(&self) -> u64 {
        std::hash::Hasher::finish(&self.0)
    }
}

impl std::fmt::Debug for Summing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x} so far", self.finish())
    }
}
