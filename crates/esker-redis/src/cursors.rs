//! The cursors of `SCAN`, `HSCAN`, `SSCAN` and `ZSCAN`: clients know them as numbers, and they stand for places in the
//! order of keys.

use std::collections::BTreeMap;

/// The most cursors that are remembered. Beyond that, the oldest ones are forgotten.
const CURSORS_MAX: usize = 16 << 10;

/// See the module's comment. A cursor can be used any number of times. One that is not known any more begins again: a
/// client then sees all that it would have seen, and some of it twice, which it has to expect of `SCAN` anyway.
#[derive(Debug, Default)]
pub struct Cursors {
    places: BTreeMap<u64, Vec<u8>>,
    last: u64,
}

impl Cursors {
    /// None yet. The numbers begin behind one that `seed` makes: those of an earlier run of the server are not known
    /// again, so nobody takes them for other places.
    pub fn new(seed: u64) -> Cursors {
        Cursors { places: BTreeMap::new(), last: seed >> 24 }
    }

    /// The place that `cursor` stands for; `None`: the beginning.
    pub fn place(&self, cursor: u64) -> Option<&[u8]> {
        self.places.get(&cursor).map(Vec::as_slice)
    }

    /// A number for `place`, which is never 0.
    pub fn number(&mut self, place: Vec<u8>) -> u64 {
        self.last += 1;
        self.places.insert(self.last, place);
        if self.places.len() > CURSORS_MAX {
            self.places.pop_first();
        }
        self.last
    }
}
