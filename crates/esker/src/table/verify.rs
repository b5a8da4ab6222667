//! Reads a whole table and reports all damage, for `check` and `scrub`. It neither uses nor fills the pool.

use std::cmp::Ordering;
use std::sync::Arc;

use super::block::Block;
use super::cursor::TableCursor;
use super::footer::Properties;
use super::reader::TableReader;
use crate::checksum::hash_key;
use crate::cursor::{Cursor, MAX_SEQ, SeqNo};
use crate::error::Error;

/// What the data blocks hold, to compare with the properties.
#[derive(Debug, Default)]
struct Tally {
    found: Properties,
    damaged: bool,
    last: Option<(Vec<u8>, SeqNo)>,
}

/// The verification of a table, some blocks at a time.
pub(crate) struct Verification {
    table: Arc<TableReader>,
    next: usize,
    tally: Tally,
}

impl Verification {
    pub(crate) fn begin(table: Arc<TableReader>) -> Self {
        Verification { table, next: 0, tally: Tally::default() }
    }

    pub(crate) fn entries(&self) -> u64 {
        self.tally.found.entries
    }

    /// Verifies the next blocks, about `bytes` of them and at least one: each block by itself, its place in
    /// the order, and what index, filter and properties say about it. Calls `damage` for each damaged place
    /// and continues after it. Returns how many bytes were read; `None` when all blocks are done.
    pub(crate) fn advance(&mut self, bytes: u64, damage: &mut dyn FnMut(Error)) -> Option<u64> {
        let mut read = 0;
        while self.next < self.table.blocks() && (read == 0 || read < bytes) {
            let place = self.table.place(self.next);
            read += place.end - place.start;
            match self.table.read(self.next) {
                Ok(block) => self.table.verify_block(self.next, block, &mut self.tally, damage),
                Err(error) => {
                    self.tally.damaged = true;
                    damage(error);
                }
            }
            self.next += 1;
        }
        if read > 0 {
            return Some(read);
        }
        let sums = |of: &Properties| (of.entries, of.tombstones, of.raw_bytes, of.expiring);
        if !self.tally.damaged && sums(self.table.properties()) != sums(&self.tally.found) {
            let message = "expected properties that match the entries";
            damage(self.table.damage_at(self.table.data_bytes(), message));
        }
        None
    }
}

impl TableReader {
    /// Verifies the whole table, as [`Verification`] does. Returns the number of sound entries.
    pub(crate) fn verify(self: &Arc<Self>, damage: &mut dyn FnMut(Error)) -> u64 {
        let mut verification = Verification::begin(Arc::clone(self));
        while verification.advance(u64::MAX, damage).is_some() {}
        verification.entries()
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
            tally.found.note(key, seq, cursor.kind(), cursor.value());
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
                wrong("expected a filter that passes every key");
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
