//! Keys and values: random bytes that nothing compresses, each value another one.

use crate::data::{Draws, mix};
use std::ops::{Deref, DerefMut};

/// Values begin in so many bytes of the pool.
const SPREAD: usize = 4 << 20;
const PAGE: usize = 4096;

/// Memory that begins with a page. The kernel of some processors copies several times slower between addresses that
/// differ by a few bytes from whole pages, and an allocator that begins 16 bytes behind a page meets that always.
pub(super) struct Buffer {
    bytes: Vec<u8>,
    skip: usize,
}

impl Buffer {
    pub(super) fn new(length: usize) -> Buffer {
        // Not zeros from the kernel, which are all one page until they are written.
        let bytes = vec![1; length + PAGE];
        let skip = bytes.as_ptr().align_offset(PAGE);
        Buffer { bytes, skip }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.skip..self.skip + self.bytes.len() - PAGE]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let end = self.skip + self.bytes.len() - PAGE;
        &mut self.bytes[self.skip..end]
    }
}

/// Values cut out of one buffer of random bytes: no memory is filled while something is timed.
pub(crate) struct Pool {
    bytes: Buffer,
}

impl Pool {
    /// For values of up to `longest` bytes.
    pub(crate) fn new(longest: usize, seed: u64) -> Pool {
        let mut bytes = Buffer::new(longest + SPREAD);
        for (i, word) in (seed << 40..).zip(bytes.chunks_exact_mut(8)) {
            word.copy_from_slice(&mix(i).to_le_bytes());
        }
        Pool { bytes }
    }

    /// Value `number`, of `length` bytes.
    pub(crate) fn value(&self, number: usize, length: usize) -> &[u8] {
        // Cache lines of their own, for the same reason.
        let at = number.wrapping_mul(40_961 * 64) % SPREAD;
        &self.bytes[at..at + length]
    }
}

/// Key `number`: 16 letters and digits that are a file's name too.
pub(super) fn key(draws: Draws, number: usize) -> [u8; 16] {
    let bits = draws.bits(number as u64);
    std::array::from_fn(|i| b"0123456789abcdef"[(bits >> (60 - 4 * i)) as usize & 15])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_keys_differ() {
        let pool = Pool::new(100, 1);
        assert_ne!(pool.value(0, 100), pool.value(1, 100));
        assert_eq!(pool.value(12_345, 100).len(), 100);
        let draws = Draws::new(1, 2);
        assert_ne!(key(draws, 0), key(draws, 1));
        assert!(key(draws, 3).iter().all(u8::is_ascii_hexdigit));
    }
}
