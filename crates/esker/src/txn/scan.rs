//! A range as a transaction sees it: the store's pairs with the transaction's own writes merged in.

use std::ops::Bound;

use super::Txn;
use super::read_set::RangeId;
use super::write_set::{Changes, KeyChange};
use crate::cursor::Expiry;
use crate::error::Result;
use crate::ranges::{KeyRange, next_key};
use crate::read::range::ScanRange;
use crate::read::scan::Scan;
use crate::tree::{Snapshot, Tree};
use crate::value::Value;

/// Where the current pair comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Start,
    Store,
    /// From the transaction's writes; the store may have the key too.
    Own,
    End,
}

/// Pairs in key order as a [`Txn`] sees them. As an iterator it hands out copies; [`TxnScan::advance`] with
/// [`TxnScan::key`] and [`TxnScan::value`] copies no values.
///
/// Writes that the transaction makes while the scan is open do not show. The transaction has read the keys that the
/// scan has passed, up to the last pair that was requested.
#[derive(Debug)]
pub struct TxnScan<'t> {
    txn: &'t Txn,
    range: ScanRange,
    store: Scan,
    /// Whether the store's scan is at a pair.
    store_on: bool,
    own: Option<Changes>,
    next_own: Option<(Vec<u8>, KeyChange)>,
    /// The value that operands make of the current pair, or its value from a blob file, once it was requested.
    made: Option<Vec<u8>>,
    at: At,
    /// The transaction's record of this read, if it keeps one.
    read: Option<RangeId>,
    tree: Tree,
    /// Pairs of the store that expire and that the scan may not have passed yet.
    lapses: Vec<(Vec<u8>, Expiry)>,
}

/// A range that a transaction is about to read: the common part of its scans.
#[derive(Debug)]
pub(super) struct Reading<'t> {
    pub(super) txn: &'t Txn,
    pub(super) tree: Tree,
    pub(super) range: ScanRange,
    pub(super) snapshot: Snapshot,
    /// The transaction's earlier changes.
    pub(super) own: Option<Changes>,
    /// Whether the transaction relies on its reads of the range.
    pub(super) is_noted: bool,
}

impl<'t> Reading<'t> {
    pub(super) fn is_reverse(&self) -> bool {
        self.range.reverse
    }

    pub(super) fn into_scan(self) -> Result<TxnScan<'t>> {
        self.scan(self.range.reverse)
    }

    /// A scan of the range, descending or ascending. It notes the keys that it reads.
    pub(super) fn scan(&self, descending: bool) -> Result<TxnScan<'t>> {
        let Reading { txn, tree, snapshot, own, .. } = self;
        let range = ScanRange { reverse: descending, ..self.range.clone() };
        let store = snapshot.scan(tree, range.clone())?;
        let note = || txn.inner.borrow_mut().reads.note_range(tree, range.keys.clone(), snapshot.seq());
        let read = self.is_noted.then(note);
        let (at, tree) = (At::Start, tree.clone());
        let (store_on, next_own, made, lapses) = (false, None, None, Vec::new());
        Ok(TxnScan { txn, range, store, store_on, own: own.clone(), next_own, made, at, read, tree, lapses })
    }
}

impl TxnScan<'_> {
    /// The first pair, of a scan that has just begun.
    pub(super) fn first(mut self) -> Result<Option<(Vec<u8>, Value)>> {
        Ok(if self.advance()? { Some((self.key().to_vec(), self.handle()?)) } else { None })
    }

    /// Moves to the next pair; `false` at the end.
    ///
    /// # Errors
    /// `Corruption` or `Io` when a table cannot be read.
    pub fn advance(&mut self) -> Result<bool> {
        // At its end the scan has read the whole range, as far as the transaction's check is concerned.
        let moved = self.step().inspect_err(|_| self.at = At::End);
        self.note_lapses();
        moved
    }

    fn step(&mut self) -> Result<bool> {
        self.made = None;
        match self.at {
            At::Start => {
                self.store_on = self.advance_store()?;
                self.next_own = self.own_behind(None);
            }
            At::Store => self.store_on = self.advance_store()?,
            At::Own => self.pass_own()?,
            At::End => return Ok(false),
        }
        loop {
            let own_first = match &self.next_own {
                None => false,
                Some((own, _)) => {
                    let order = own.as_slice().cmp(self.store.key());
                    !self.store_on || (if self.range.reverse { order.is_ge() } else { order.is_le() })
                }
            };
            self.at = match &self.next_own {
                Some((_, change)) if own_first && change.is_delete() => {
                    self.pass_own()?;
                    continue;
                }
                Some(_) if own_first => At::Own,
                _ if self.store_on => At::Store,
                _ => At::End,
            };
            return Ok(self.at != At::End);
        }
    }

    /// Moves to the store's next pair that is in no range deleted by the transaction.
    fn advance_store(&mut self) -> Result<bool> {
        while self.store.advance()? {
            if self.tree.goes_on()
                && let Some(expiry) = self.store.lapses_us()
            {
                self.lapses.push((self.store.key().to_vec(), expiry));
            }
            // A later put of the transaction hides the store's pair.
            if !self.own.as_ref().is_some_and(|own| own.deletes(self.store.key())) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Moves to the transaction's next write, and past the store's pair that it hides.
    fn pass_own(&mut self) -> Result<()> {
        let Some((key, _)) = self.next_own.take() else { return Ok(()) };
        if self.store_on && self.store.key() == key {
            self.store_on = self.advance_store()?;
        }
        self.next_own = self.own_behind(Some(&key));
        Ok(())
    }

    /// The first of the transaction's writes; with `key`, which is in the range, the first one after it.
    fn own_behind(&self, key: Option<&[u8]>) -> Option<(Vec<u8>, KeyChange)> {
        let bounds = match (self.range.keys.bounds()?, key.map(Bound::Excluded)) {
            (bounds, None) => bounds,
            ((lower, _), Some(key)) if self.range.reverse => (lower, key),
            ((_, upper), Some(key)) => (key, upper),
        };
        let mut found = self.own.as_ref()?.keys.range::<[u8], _>(bounds);
        let found = if self.range.reverse { found.next_back() } else { found.next() };
        found.map(|(key, change)| (key.clone(), change.clone()))
    }

    /// The current pair's key. Empty before the first pair and after the last one.
    pub fn key(&self) -> &[u8] {
        match (self.at, &self.next_own) {
            (At::Store, _) => self.store.key(),
            (At::Own, Some((key, _))) => key,
            _ => &[],
        }
    }

    /// The current pair's value. Empty for a scan of keys only.
    ///
    /// # Errors
    /// `Corruption` or `Io` when it cannot be read. `InvalidInput` and `Unsupported` when its operands cannot be
    /// applied ([`Txn::merge`]).
    pub fn value(&mut self) -> Result<&[u8]> {
        match self.at {
            At::Store => self.store.value(),
            At::Own if !self.range.keys_only => {
                self.make_own()?;
                let put = self.next_own.as_ref().and_then(|(_, change)| change.put_bytes());
                Ok(self.made.as_deref().or(put).unwrap_or_default())
            }
            _ => Ok(&[]),
        }
    }

    /// The current pair's value as [`Txn::get`] returns it: to keep, or to read in parts.
    ///
    /// # Errors
    /// As [`TxnScan::value`].
    pub fn handle(&mut self) -> Result<Value> {
        if self.at == At::Store {
            return self.store.handle();
        }
        match self.next_own.as_ref().and_then(|(_, change)| change.put_value()) {
            Some(put) if !self.range.keys_only => Ok(put),
            Some(put) => Ok(Value::of_bytes(&[]).beside(put.put_options().beside())),
            None => {
                let stored = self.store_on.then(|| self.store.expires_us()).flatten();
                let own = self.next_own.as_ref();
                let is_stored = own.is_some_and(|(key, _)| self.store_on && self.store.key() == key);
                let stored = stored.filter(|_| is_stored);
                let expiry = own.and_then(|(_, change)| change.merged_expiry(stored));
                Ok(Value::of_bytes(self.value()?).beside(expiry.into()))
            }
        }
    }

    /// Computes the value of the current own write, if it has operands, and reads it, if it is in a blob file.
    fn make_own(&mut self) -> Result<()> {
        let Some((key, change)) = &self.next_own else { return Ok(()) };
        if self.made.is_none() {
            let is_stored = change.is_on_store() && self.store_on && self.store.key() == key;
            let stored = if is_stored { Some(self.store.value()?) } else { None };
            self.made = change.merged(key, stored, self.txn.operators())?;
            if self.made.is_none() && change.put_bytes().is_none() {
                self.made = change.put_value().map(Value::into_vec).transpose()?;
            }
        }
        Ok(())
    }

    /// Records with the transaction the expiring pairs that the scan has passed.
    fn note_lapses(&mut self) {
        let Some(walked) = self.walked().filter(|_| !self.lapses.is_empty()) else { return };
        let reads = &mut self.txn.inner.borrow_mut().reads;
        for (key, expiry) in self.lapses.extract_if(.., |(key, _)| walked.contains(key)) {
            reads.note_lapse(&self.tree, &key, expiry, self.read.is_some());
        }
    }

    /// The range that the scan has passed; `None` before the first pair.
    fn walked(&self) -> Option<KeyRange> {
        let mut passed = self.range.keys.clone();
        match self.at {
            At::Start => return None,
            At::End => {}
            _ if self.range.reverse => passed.lower = self.key().to_vec(),
            _ => passed.upper = Some(next_key(self.key())),
        }
        Some(passed)
    }
}

impl Drop for TxnScan<'_> {
    fn drop(&mut self) {
        if let Some(read) = self.read {
            self.txn.inner.borrow_mut().reads.shrink_range(read, self.walked());
        }
    }
}

impl Iterator for TxnScan<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let moved = self.advance();
        let copied = moved.and_then(|more| {
            if !more {
                return Ok(None);
            }
            let key = self.key().to_vec();
            self.value().map(|value| Some((key, value.to_vec())))
        });
        if copied.is_err() {
            self.at = At::End;
        }
        copied.transpose()
    }
}
