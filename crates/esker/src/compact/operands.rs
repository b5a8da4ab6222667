//! The operands of one key that a flush or a merge has read and not written yet, newest first.

use crate::cursor::{Kind, SeqNo};
use crate::error::Result;
use crate::operators::MergeOperators;

/// At this many bytes the operands are combined; if that does not help, they are written.
const GATHERED_MAX: usize = 1 << 20;

/// Values and operands of more bytes together are not combined. It is far below the limit of a table's entry.
const TOGETHER_MAX: usize = 256 << 20;

/// Operands of one stretch of history: no moment that must stay readable, and no range tombstone, lies between them.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    key: Vec<u8>,
    operands: Vec<(SeqNo, Vec<u8>)>,
    bytes: usize,
    /// The sequence number of the value that they and everything below them make.
    settled: SeqNo,
}

impl Gathered {
    pub(crate) fn is_empty(&self) -> bool {
        self.operands.is_empty()
    }

    /// The sequence number of the newest one; 0 without any.
    pub(crate) fn newest(&self) -> SeqNo {
        self.operands.first().map_or(0, |(seq, _)| *seq)
    }

    /// Adds the next older operand of `key`. The first one sets the number of the value that all of them make.
    pub(crate) fn push(&mut self, key: &[u8], seq: SeqNo, operand: &[u8], settled: SeqNo) {
        if self.is_empty() {
            self.key.clear();
            self.key.extend_from_slice(key);
            self.settled = settled;
        }
        self.bytes += operand.len();
        self.operands.push((seq, operand.to_vec()));
    }

    /// Combines them if they take much memory. Returns whether they have to be written all the same.
    pub(crate) fn is_full(&mut self, operators: &MergeOperators) -> bool {
        if self.bytes < GATHERED_MAX {
            return false;
        }
        if self.bytes > TOGETHER_MAX {
            return true;
        }
        self.operands = operators.combine(&self.operands);
        self.bytes = self.operands.iter().map(|(_, operand)| operand.len()).sum();
        self.bytes >= GATHERED_MAX / 2
    }

    /// Applies them to `value` and writes the result. Writes nothing and returns `false` if their operators fail or the
    /// result is too long.
    pub(crate) fn settle(
        &mut self,
        operators: &MergeOperators,
        value: Option<&[u8]>,
        write: &mut impl FnMut(&[u8], SeqNo, Kind, &[u8]) -> Result<()>,
    ) -> Result<bool> {
        if self.bytes + value.map_or(0, <[u8]>::len) > TOGETHER_MAX {
            return Ok(false);
        }
        let newest_first: Vec<&[u8]> = self.operands.iter().map(|(_, operand)| operand.as_slice()).collect();
        let whole = match operators.apply(&self.key, value, &newest_first) {
            Ok(whole) if whole.len() <= TOGETHER_MAX => whole,
            _ => return Ok(false),
        };
        write(&self.key, self.settled, Kind::Put, &whole)?;
        self.clear();
        Ok(true)
    }

    /// Writes them as operands, combined as far as their operators can.
    #[inline]
    pub(crate) fn put_out(
        &mut self,
        operators: &MergeOperators,
        write: &mut impl FnMut(&[u8], SeqNo, Kind, &[u8]) -> Result<()>,
    ) -> Result<()> {
        if self.operands.is_empty() { Ok(()) } else { self.put_out_some(operators, write) }
    }

    fn put_out_some(
        &mut self,
        operators: &MergeOperators,
        write: &mut impl FnMut(&[u8], SeqNo, Kind, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let apart = std::mem::take(&mut self.operands);
        let written = if self.bytes > TOGETHER_MAX { apart } else { operators.combine(&apart) };
        for (seq, operand) in written {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::operators::MergeOperator;

    /// Makes a value that is too long from any operands.
    struct Swells;

    impl MergeOperator for Swells {
        fn name(&self) -> &str {
            "swells"
        }

        fn apply(&self, _: Option<&[u8]>, _: &[&[u8]]) -> std::result::Result<Vec<u8>, String> {
            Ok(vec![0; TOGETHER_MAX + 1])
        }
    }

    #[test]
    fn what_would_be_too_long_stays_operands() {
        let mut operators = MergeOperators::default();
        operators.add(Arc::new(Swells));
        let mut gathered = Gathered::default();
        for seq in [9, 8] {
            gathered.push(b"k", seq, &operators.encode("swells", b"x").unwrap(), 9);
        }
        let mut written = Vec::new();
        let mut write = |_: &[u8], seq: SeqNo, kind: Kind, _: &[u8]| {
            written.push((seq, kind));
            Ok(())
        };
        assert!(!gathered.settle(&operators, Some(b"v"), &mut write).unwrap());
        gathered.put_out(&operators, &mut write).unwrap();
        assert_eq!(written, [(9, Kind::Merge), (8, Kind::Merge)]);
    }
}
