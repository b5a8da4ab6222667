//! Keys and values: random bytes that nothing compresses, each value another one.

use crate::data::{Draws, mix};

/// Values begin in so many bytes of the pool.
const SPREAD: usize = 4 << 20;

/// Values cut out of one buffer of random bytes: no memory is filled while something is timed.
pub(super) struct Pool {
    bytes: Vec<u8>,
}

impl Pool {
    /// For values of up to `longest` bytes.
    pub(super) fn new(longest: usize, seed: u64) -> Pool {
        let mut bytes = vec![0; longest + SPREAD];
        for (i, word) in (seed << 40..).zip(bytes.chunks_exact_mut(8)) {
            word.copy_from_slice(&mix(i).to_le_bytes());
        }
        Pool { bytes }
    }

    /// Value `number`, of `length` bytes.
    pub(super) fn value(&self, number: usize, length: usize) -> &[u8] {
        let at = number.wrapping_mul(40_961 * 8) % SPREAD;
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
