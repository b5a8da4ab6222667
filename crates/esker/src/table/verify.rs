//! Reads a whole table and tells every damage, for `check`. The pool is neither used nor filled.

use std::cmp::Ordering;
use std::sync::Arc;

use super::block::Block;
use super::cursor::TableCursor;
use super::reader::TableReader;
use crate::checksum::hash_key;
use crate::cursor::{Cursor, Kind, MAX_SEQ, SeqNo};
use crate::error::Error;

/// What the data blocks hold, to compare with what the properties say.
#[derive(Debug, Default)]
struct Tally {
    entries: u64,
    tombstones: u64,
    raw_bytes: u64,
    damaged: bool,
    last: Option<(Vec<u8>, SeqNo)>,
}

impl TableReader {
    /// Verifies each data block, its place in the order, and what index, filter and properties say of
    /// it. Goes on behind damage, calling `damage` for each. Returns the number of sound entries.
    pub(crate) fn verify(self: &Arc<Self>, damage: &mut dyn FnMut(Error)) -> u64 {
        let mut tally = Tally::default();
        for i in 0..self.blocks() {
            match self.read(i) {
                Ok(block) => self.verify_block(i, block, &mut tally, damage),
                Err(error) => {
                    tally.damaged = true;
                    damage(error);
                }
            }
        }
        let properties = self.properties();
        let stated = (properties.entries, properties.tombstones, properties.raw_bytes);
        if !tally.damaged && stated != (tally.entries, tally.tombstones, tally.raw_bytes) {
            damage(self.damage_at(self.data_bytes(), "expected properties that match the entries"));
        }
        tally.entries
    }

    fn verify_block(
        self: &Arc<Self>,
        i: usize,
        block: Block,
        tally: &mut Tally,
        damage: &mut dyn FnMut(Error),
    ) {
        let start = self.place(i).start;
        let properties = self.properties();
        let mut wrong = |message: &str| damage(self.damage_at(start, message));
        let mut cursor = TableCursor::over(Arc::clone(self), i, block);
        let count = cursor.entries_in_block();
        for at in 0..count {
            cursor.show(at);
            let (key, seq) = (cursor.key(), cursor.seq());
            tally.entries += 1;
            tally.tombstones += u64::from(cursor.kind() == Kind::Delete);
            tally.raw_bytes += (key.len() + cursor.value().len()) as u64;
            if at == 0 {
                let follows = tally.last.take().is_none_or(|(last, last_seq)| {
                    last.as_slice().cmp(key).then(seq.cmp(&last_seq)) == Ordering::Less
                });
                if !follows || (i > 0 && self.index().separator(i - 1).as_slice() > key) {
                    wrong("expected a block whose keys follow those of the block before");
                }
            }
            if at + 1 == count {
                if self.index().separator(i).as_slice() < key {
                    wrong("expected a block whose keys are at most its separator in the index");
                }
                tally.last = Some((key.to_vec(), seq));
            }
            if !self.may_contain(hash_key(key)) {
                wrong("expected a filter that knows every key");
            }
            let within = properties.smallest.as_slice() <= key
                && key <= properties.largest.as_slice()
                && (properties.min_seq..=properties.max_seq.min(MAX_SEQ)).contains(&seq);
            if !within {
                wrong("expected keys and sequence numbers within the table's bounds");
            }
        }
    }
}
