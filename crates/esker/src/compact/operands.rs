//! The operands of one key that a flush or a merge has met and not written yet, newest first.

use crate::cursor::{Kind, SeqNo};
use crate::error::Result;
use crate::operators::MergeOperators;

/// Bytes of operands at which they are put together, and written if that did not help.
const GATHERED_MAX: usize = 1 << 20;

/// Operands between which no reader can tell a moment, and no range tombstone lies.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    key: Vec<u8>,
    /// Newest first.
    operands: Vec<(SeqNo, Vec<u8>)>,
    bytes: usize,
    /// The number of what comes of them and of all below.
    settled: SeqNo,
}

impl Gathered {
    pub(crate) fn is_empty(&self) -> bool {
        self.operands.is_empty()
    }

    /// Adds the next older operand of `key`; the first one says which number a value made of all gets.
    pub(crate) fn push(&mut self, key: &[u8], seq: SeqNo, operand: &[u8], settled: SeqNo) {
        if self.is_empty() {
            self.key.clear();
            self.key.extend_from_slice(key);
            self.settled = settled;
        }
        self.bytes += operand.len();
        self.operands.push((seq, operand.to_vec()));
    }

    /// Whether they take so much memory that some are to be written.
    pub(crate) fn is_full(&mut self, operators: &MergeOperators) -> bool {
        if self.bytes < GATHERED_MAX {
            return false;
        }
        self.operands = operators.combine(&self.operands);
        self.bytes = self.operands.iter().map(|(_, operand)| operand.len()).sum();
        self.bytes >= GATHERED_MAX / 2
    }

    /// Writes what comes of them and of `value`; nothing, and `false`, where their operators cannot tell.
    pub(crate) fn settle(
        &mut self,
        operators: &MergeOperators,
        value: Option<&[u8]>,
        write: &mut impl FnMut(&[u8], SeqNo, Kind, &[u8]) -> Result<()>,
    ) -> Result<bool> {
        let newest_first: Vec<&[u8]> = self.operands.iter().map(|(_, operand)| operand.as_slice()).collect();
        let Ok(whole) = operators.apply(&self.key, value, &newest_first) else { return Ok(false) };
        write(&self.key, self.settled, Kind::Put, &whole)?;
        self.clear();
        Ok(true)
    }

    /// Writes them, as few as their operators can make of them.
    pub(crate) fn put_out(
        &mut self,
        operators: &MergeOperators,
        write: &mut impl FnMut(&[u8], SeqNo, Kind, &[u8]) -> Result<()>,
    ) -> Result<()> {
        for (seq, operand) in operators.combine(&self.operands) {
            write(&self.key, seq, Kind::Merge, &operand)?;
        }
        self.clear();
        Ok(())
    }

    fn clear(&mut self) {
        self.operands.clear();
        self.bytes = 0;
    }
}
