//! The cursors of `SCAN`, `HSCAN`, `SSCAN` and `ZSCAN`: clients know them as numbers, and they stand for places in the
//! order of keys.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most cursors that are remembered. Beyond that, the oldest ones are forgotten.
const CURSORS_MAX: usize = 16 << 10;

/// The most bytes that the places of all cursors have together. Beyond that, the oldest ones are forgotten.
const BYTES_MAX: usize = 16 << 20;

/// See the module's comment. A cursor can be used any number of times. One that is not known any more begins again: a
/// client then sees all that it would have seen, and some of it twice, which it has to expect of `SCAN` anyway.
///
/// Threads may share it. None holds it while it walks over entries.
#[derive(Debug, Default)]
pub struct Cursors(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    places: BTreeMap<u64, Vec<u8>>,
    /// The bytes of all places.
    bytes: usize,
    last: u64,
}

impl Cursors {
    /// None yet. The numbers begin behind one that `seed` makes: those of an earlier run of the server are not known
    /// again, so nobody takes them for other places.
    pub fn new(seed: u64) -> Cursors {
        Cursors(Mutex::new(Known { last: seed >> 24, ..Known::default() }))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place that `cursor` stands for; empty: the beginning.
    pub fn place(&self, cursor: u64) -> Vec<u8> {
        self.known().places.get(&cursor).cloned().unwrap_or_default()
    }

    /// A number for `place`, which is never 0.
    pub fn number(&self, place: Vec<u8>) -> u64 {
        let mut known = self.known();
        known.last += 1;
        let number = known.last;
        known.bytes += place.len();
        known.places.insert(number, place);
        while (known.places.len() > CURSORS_MAX || known.bytes > BYTES_MAX)
            && let Some((_, oldest)) = known.places.pop_first()
        {
            known.bytes -= oldest.len();
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_cursors_are_forgotten() {
        let cursors = Cursors::new(7 << 24);
        let numbers: Vec<u64> = (0..CURSORS_MAX).map(|i| cursors.number(i.to_be_bytes().to_vec())).collect();
        assert_eq!(numbers[0], 8);
        assert!((0..CURSORS_MAX).all(|i| cursors.place(numbers[i]) == i.to_be_bytes()));
        let more = cursors.number(vec![1]);
        assert_eq!((cursors.place(numbers[0]), cursors.place(more)), (Vec::new(), vec![1]));
        // Long places are fewer.
        let long: Vec<u64> = (0..200).map(|i| cursors.number(vec![i; 131_000])).collect();
        let kept = long.iter().filter(|number| !cursors.place(**number).is_empty()).count();
        assert_eq!(kept, BYTES_MAX / 131_000);
        assert_eq!((cursors.place(more), cursors.place(long[199])), (Vec::new(), vec![199; 131_000]));
    }
}
