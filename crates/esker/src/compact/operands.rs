//! The operands of one key that a flush or a merge has read and not written yet, newest first.
//!
//! In a tree whose values expire, the operands have times, and their result depends on when the value below them
//! expires ([`crate::operators`] has the rule). Therefore they are not combined across a time at which it may expire.
//! If operands of many times come together, [`Surroundings`] looks the value up. A merge that drops an expired value
//! checks whether operands above it that are not among its inputs depend on the time of expiry. If so, a tombstone with
//! that time replaces the value, until a merge reads the tombstone together with the operands.
//!
//! ```text
//! level 0   merged at 5   merged at 9                   begins anew at 9
//! level 6   expires at 7  --  the merge of level 6 alone leaves:  tombstone, expired at 7
//! ```

use crate::cursor::{Expiry, Kind, SeqNo};
use crate::error::Result;
use crate::operators::{Below, MergeOperators, Outliving, is_timed};

/// At this many bytes the operands are combined; if that does not help, they are written.
const GATHERED_MAX: usize = 1 << 20;

/// Values and operands of more bytes together are not combined. It is far below the limit of a table's entry.
const TOGETHER_MAX: usize = 256 << 20;

/// From this many operands with times on, the version below them is looked up, to combine more of them. A lookup costs
/// about as much as a get.
const LOOKED_UP_FROM: usize = 4;

/// What the entries outside of a flush or a merge show about the operands in it, and about the version below operands.
pub(crate) trait Surroundings {
    /// When the version below the entry `seq` of `key`, which is an operand, expires.
    fn below(&self, key: &[u8], seq: SeqNo) -> Below;

    /// Whether entries outside the inputs have operands of `key`, newer than `seq`, that were written before `expiry`.
    /// Returns `true` if this is unknown.
    fn has_operands(&self, key: &[u8], seq: SeqNo, expiry: Expiry) -> bool;
}

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

    /// Combines them if they take much memory. Returns whether they have to be written even so.
    pub(crate) fn is_full(&mut self, operators: &MergeOperators, around: &dyn Surroundings) -> bool {
        if self.bytes < GATHERED_MAX {
            return false;
        }
        if self.bytes > TOGETHER_MAX {
            return true;
        }
        self.operands = operators.combine(&self.operands, self.below(around));
        self.bytes = self.operands.iter().map(|(_, operand)| operand.len()).sum();
        self.bytes >= GATHERED_MAX / 2
    }

    /// The version below them, as far as it is known.
    fn below(&self, around: &dyn Surroundings) -> Below {
        match self.operands.as_slice() {
            [(_, newest), .., (seq, _)] if self.operands.len() >= LOOKED_UP_FROM && is_timed(newest) => {
                around.below(&self.key, *seq)
            }
            _ => Below::Unknown,
        }
    }

    /// Whether one of them has begun anew over a value that expires at `expiry`.
    pub(crate) fn begins_anew(&self, expiry: Expiry) -> bool {
        Outliving::of(&self.operands, |(_, operand)| operand, expiry).has_begun
    }

    /// Whether each has a time.
    pub(crate) fn is_timed(&self) -> bool {
        self.operands.iter().all(|(_, operand)| is_timed(operand))
    }

    /// Forgets the operands that ended together with the value below them, at `expiry`.
    pub(crate) fn end_at(&mut self, expiry: Expiry) {
        let operands = std::mem::take(&mut self.operands);
        self.operands = Outliving::of(operands, |(_, operand)| operand, expiry).operands;
        self.bytes = self.operands.iter().map(|(_, operand)| operand.len()).sum();
    }

    /// Applies them to `value`, which expires at `until`, and writes the result. Writes nothing and returns `false` if
    /// their operators fail or the result is too long.
    pub(crate) fn settle(
        &mut self,
        operators: &MergeOperators,
        value: Option<&[u8]>,
        until: Option<Expiry>,
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
        match until {
            None => write(&self.key, self.settled, Kind::Put, &whole)?,
            Some(expiry) => {
                let stored = [&expiry.to_le_bytes()[..], &whole].concat();
                write(&self.key, self.settled, Kind::PutUntil, &stored)?;
            }
        }
        self.clear();
        Ok(true)
    }

    /// Writes them as operands, combined as far as their operators can.
    #[inline]
    pub(crate) fn put_out(
        &mut self,
        operators: &MergeOperators,
        around: &dyn Surroundings,
        write: &mut impl FnMut(&[u8], SeqNo, Kind, &[u8]) -> Result<()>,
    ) -> Result<()> {
        if self.operands.is_empty() { Ok(()) } else { self.put_out_some(operators, around, write) }
    }

    fn put_out_some(
        &mut self,
        operators: &MergeOperators,
        around: &dyn Surroundings,
        write: &mut impl FnMut(&[u8], SeqNo, Kind, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let below = self.below(around);
        let apart = std::mem::take(&mut self.operands);
        let written = if self.bytes > TOGETHER_MAX { apart } else { operators.combine(&apart, below) };
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

    /// Nothing is known.
    struct Alone;

    impl Surroundings for Alone {
        fn below(&self, _: &[u8], _: SeqNo) -> Below {
            Below::Unknown
        }

        fn has_operands(&self, _: &[u8], _: SeqNo, _: Expiry) -> bool {
            true
        }
    }

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
        assert!(!gathered.settle(&operators, Some(b"v"), None, &mut write).unwrap());
        gathered.put_out(&operators, &Alone, &mut write).unwrap();
        assert_eq!(written, [(9, Kind::Merge), (8, Kind::Merge)]);
    }
}
