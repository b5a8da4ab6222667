//! A range as a transaction sees it, from both ends: an ascending scan and a descending one of the same moment. Each is
//! made when it is first needed. The range is over when the two meet.

use std::iter::FusedIterator;

use super::scan::{Reading, TxnScan};
use crate::error::Result;

/// Copies of the pairs of a range as a [`Txn`](crate::Txn) sees them, in the order of their keys, from either end or
/// from both. An error ends the iteration. [`Txn::scan`](crate::Txn::scan) walks in one direction and lends its
/// pairs.
///
/// Writes that the transaction makes while the range is open do not show. The transaction has read the keys that were
/// passed at both ends, up to the last pairs that were requested.
#[derive(Debug)]
pub struct TxnRange<'t> {
    reading: Reading<'t>,
    ascending: Option<TxnScan<'t>>,
    descending: Option<TxnScan<'t>>,
    is_over: bool,
}

impl<'t> TxnRange<'t> {
    pub(super) fn new(reading: Reading<'t>) -> Self {
        TxnRange { reading, ascending: None, descending: None, is_over: false }
    }

    fn step(&mut self, descending: bool) -> Option<Result<(Vec<u8>, Vec<u8>)>> {
        let pair = self.pair(descending);
        if !matches!(pair, Ok(Some(_))) {
            // When the scans are dropped, they note with the transaction the keys that they have passed.
            (self.is_over, self.ascending, self.descending) = (true, None, None);
        }
        pair.transpose()
    }

    fn pair(&mut self, descending: bool) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        if self.is_over {
            return Ok(None);
        }
        let (mine, other) = match descending {
            true => (&mut self.descending, &self.ascending),
            false => (&mut self.ascending, &self.descending),
        };
        let scan = match mine {
            Some(scan) => scan,
            none => none.insert(self.reading.scan(descending)?),
        };
        if !scan.advance()? {
            return Ok(None);
        }
        // The other scan is at a pair, or the range would be over.
        let have_met = other.as_ref().is_some_and(|other| match descending {
            true => scan.key() <= other.key(),
            false => scan.key() >= other.key(),
        });
        if have_met {
            return Ok(None);
        }
        let key = scan.key().to_vec();
        Ok(Some((key, scan.value()?.to_vec())))
    }
}

impl Iterator for TxnRange<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(self.reading.is_reverse())
    }
}

impl DoubleEndedIterator for TxnRange<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(!self.reading.is_reverse())
    }
}

impl FusedIterator for TxnRange<'_> {}
