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

/// The verification of a table, some blocks at a time.
pub(crate) struct Verification {
    table: Arc<TableReader>,
    next: usize,
    /// The properties computed from the blocks, to compare with the stored ones.
    found: Properties,
    is_damaged: bool,
    /// The last key of the block before, and its sequence number.
    last: Option<(Vec<u8>, SeqNo)>,
}

impl Verification {
    pub(crate) fn begin(table: Arc<TableReader>) -> Self {
        Verification { table, next: 0, found: Properties::default(), is_damaged: false, last: None }
    }

    /// How many sound entries were found so far.
    pub(crate) fn entries(&self) -> u64 {
        self.found.entries
    }

    /// Verifies the next blocks, about `bytes` of them and at least one: each block alone, its place in the order, and
    /// its description in index, filter and properties. Calls `damage` for each damaged place and continues after it.
    /// Returns how many bytes were read; `None` when all blocks are done.
    pub(crate) fn advance(&mut self, bytes: u64, damage: &mut dyn FnMut(Error)) -> Option<u64> {
        let mut read = 0;
        while self.next < self.table.blocks() && (read == 0 || read < bytes) {
            let place = self.table.place(self.next);
            read += place.end - place.start;
            match self.table.read(self.next) {
                Ok(block) => self.verify_block(self.next, block, damage),
                Err(error) => {
                    self.is_damaged = true;
                    damage(error);
                }
            }
            self.next += 1;
        }
        if read > 0 {
            return Some(read);
        }
        let sums = |of: &Properties| (of.entries, of.tombstones, of.raw_bytes, of.expiring);
        if !self.is_damaged && sums(self.table.properties()) != sums(&self.found) {
            let message = "expected properties that match the entries";
            damage(Error::corruption(self.table.path(), self.table.data_bytes(), message));
        }
        None
    }

    fn verify_block(&mut self, i: usize, block: Block, damage: &mut dyn FnMut(Error)) {
        let Verification { table, found, last, .. } = self;
        let (index, properties) = (table.index(), table.properties());
        let mut wrong =
            |message: &str| damage(Error::corruption(table.path(), table.place(i).start, message));
        let mut cursor = TableCursor::over(Arc::clone(table), i, block);
        let count = cursor.entries_in_block();
        for at in 0..count {
            cursor.show(at);
            let (key, seq) = (cursor.key(), cursor.seq());
            found.note(key, seq, cursor.kind(), cursor.value());
            if at == 0 {
                let follows = last.take().is_none_or(|(last, last_seq)| {
                    last.as_slice().cmp(key).then(seq.cmp(&last_seq)) == Ordering::Less
                });
                if !follows || (i > 0 && index.separator(i - 1).as_slice() > key) {
                    wrong("expected a block whose keys follow those of the block before");
                }
            }
            if at + 1 == count {
                if index.separator(i).as_slice() < key {
                    wrong("expected a block whose keys are at most its separator in the index");
                }
                *last = Some((key.to_vec(), seq));
            }
            let prefix = properties.filter_prefix.and_then(|rule| rule.of(key));
            let passes = |bytes: &[u8]| table.may_contain(hash_key(bytes));
            if !passes(key) || !prefix.is_none_or(passes) {
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

impl TableReader {
    /// Verifies the whole table, as [`Verification`] does. Returns the number of sound entries.
    pub(crate) fn verify(self: &Arc<Self>, damage: &mut dyn FnMut(Error)) -> u64 {
        let mut verification = Verification::begin(Arc::clone(self));
        while verification.advance(u64::MAX, damage).is_some() {}
        verification.entries()
    }
}
