//! Keys and values: seeded, cheap to make, the same for every store.
//!
//! Making an operation's key and value must cost a small part of the operation, or all stores look alike; the
//! pseudo-store `none` measures what it costs.

pub(crate) use test_kit::mix;

/// A stream of random numbers in which every position can be asked for.
#[derive(Clone, Copy)]
pub(crate) struct Draws {
    origin: u64,
}

impl Draws {
    pub(crate) fn new(seed: u64, stream: u64) -> Draws {
        Draws { origin: mix(mix(seed) ^ stream.wrapping_mul(0xD134_2543_DE82_EF95)) }
    }

    /// Draw `index`, any 64 bits.
    pub(crate) fn bits(self, index: u64) -> u64 {
        mix(self.origin.wrapping_add(index.wrapping_mul(test_kit::STEP)))
    }

    /// Draw `index`, below `bound` (which must not be 0). The bias is below bound / 2^64.
    pub(crate) fn below(self, index: u64, bound: u64) -> u64 {
        ((u128::from(self.bits(index)) * u128::from(bound)) >> 64) as u64
    }
}

/// Numbers drawn one after the other.
#[derive(Clone)]
pub(crate) struct Stream {
    draws: Draws,
    drawn: u64,
}

impl Stream {
    pub(crate) fn new(seed: u64) -> Stream {
        Stream { draws: Draws { origin: seed }, drawn: 0 }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.drawn += 1;
        self.draws.bits(self.drawn - 1)
    }

    /// As [`Draws::below`].
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.drawn += 1;
        self.draws.below(self.drawn - 1, bound)
    }

    /// Fills `bytes` with random ones.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_mut(8) {
            word.copy_from_slice(&self.next().to_le_bytes()[..word.len()]);
        }
    }
}

/// db_bench's key: the number in 16 decimal digits, so that byte order is number order.
pub(crate) fn key16(number: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    let (mut high, mut low) = ((number / 100_000_000) as u32, (number % 100_000_000) as u32);
    for i in (0..8).rev() {
        key[i] = b'0' + (high % 10) as u8;
        key[i + 8] = b'0' + (low % 10) as u8;
        high /= 10;
        low /= 10;
    }
    key
}

/// A 17-byte key that lies directly behind `key16(number)` and before the next: absent, yet inside the range.
pub(crate) fn key_between(number: u64) -> [u8; 17] {
    let mut key = [b'.'; 17];
    key[..16].copy_from_slice(&key16(number));
    key
}

/// Values cut out of one buffer, half of which is compressible, as db_bench's are: each piece is random bytes for
/// half of the value's length, then the same bytes again.
pub(crate) struct Values {
    bytes: Vec<u8>,
    length: usize,
}

impl Values {
    const BUFFER: usize = 1 << 20;

    pub(crate) fn new(seed: u64, length: usize) -> Values {
        let draws = Draws::new(seed, 0x0056_414C);
        let mut bytes = Vec::with_capacity(Values::BUFFER + length);
        let mut draw = 0;
        while bytes.len() < Values::BUFFER {
            let start = bytes.len();
            for _ in 0..length.div_ceil(2) {
                bytes.push(b' ' + draws.below(draw, 95) as u8);
                draw += 1;
            }
            bytes.extend_from_within(start..start + length / 2);
        }
        Values { bytes, length }
    }

    pub(crate) fn get(&self, index: u64) -> &[u8] {
        let pieces = (self.bytes.len() / self.length) as u64;
        let at = (index % pieces) as usize * self.length;
        &self.bytes[at..at + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_numbers_do() {
        assert_eq!(&key16(0), b"0000000000000000");
        assert_eq!(&key16(1_234_567_890_123_456), b"1234567890123456");
        let draws = Draws::new(7, 1);
        for i in 0..1000 {
            let (a, b) = (draws.below(i, 10_000_000), draws.below(i + 5000, 10_000_000));
            assert_eq!(a.cmp(&b), key16(a).cmp(&key16(b)));
            assert!(key16(a)[..] < key_between(a)[..] && key_between(a)[..] < key16(a + 1)[..]);
        }
    }

    #[test]
    fn values_repeat_their_first_half() {
        let values = Values::new(3, 100);
        for i in 0..20_000 {
            let value = values.get(i);
            assert_eq!(value.len(), 100);
            assert_eq!(value[..50], value[50..]);
        }
        assert_ne!(values.get(0), values.get(1));
    }
}
