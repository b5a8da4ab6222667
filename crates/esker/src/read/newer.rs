//! Whether anything was written since a moment: what validates a read-modify-write and a transaction.
//!
//! Exact as long as the moment, or an earlier one, is registered: merges then drop no key's newest version and keep
//! the numbers of all that came later. Tombstones count like any version, those of ranges for all keys in them.
//!
//! Memtables and tables whose largest number is not above the moment are left out beforehand, so that mostly the
//! memtable that takes writes is all that is looked into: a key costs a lookup there, a range a walk over its entries
//! there.

use std::ops::Bound;

use crate::canary::broken;
use crate::checksum::hash_key;
use crate::cursor::{Cursor, MAX_SEQ, SeqNo};
use crate::error::Result;
use crate::ranges::{KeyRange, RangeTombstones};
use crate::state::{Mem, TreeState};
use crate::table::ScanHint;
use crate::version::levels::Table;

/// The parts of a tree that may hold anything newer than a moment.
pub(crate) struct Newer<'a> {
    mems: Vec<&'a Mem>,
    tables: Vec<&'a Table>,
    ranges: &'a RangeTombstones,
    /// Keys that became another tree's since: what was written to them there is not known here.
    moved: Vec<&'a KeyRange>,
}

impl<'a> Newer<'a> {
    pub(crate) fn than(after: SeqNo, state: &'a TreeState) -> Newer<'a> {
        let mems = std::iter::once(&state.mem).chain(&state.waiting);
        Newer {
            mems: mems.filter(|mem| mem.last_seq() > after).map(|mem| &**mem).collect(),
            tables: state
                .levels
                .tables()
                .filter(|(_, table)| table.info.max_seq > after)
                .map(|(_, table)| &**table)
                .collect(),
            ranges: &state.ranges,
            moved: {
                let moved = state.extent.moved.iter().filter(|moved| moved.seq > after);
                moved.map(|moved| &moved.range).collect()
            },
        }
    }

    /// Whether there is none. (A range tombstone is in the log of some memtable, or was when that was flushed.)
    pub(crate) fn is_empty(&self) -> bool {
        self.mems.is_empty() && self.tables.is_empty() && self.ranges.is_empty() && self.moved.is_empty()
    }

    /// Whether `key` was written after `after`, which is the moment or a later one.
    pub(crate) fn has_key(&self, key: &[u8], after: SeqNo) -> Result<bool> {
        if self.ranges.newest_over(key, MAX_SEQ) > after && !broken("rule-18-txn") {
            return Ok(true);
        }
        if self.moved.iter().any(|range| range.contains(key)) {
            return Ok(true);
        }
        let hash = hash_key(key);
        for mem in self.mems.iter().filter(|mem| mem.table.may_contain(hash)) {
            if mem.table.get(key, MAX_SEQ).is_some_and(|(seq, _, _)| seq > after) {
                return Ok(true);
            }
        }
        for table in self.tables.iter().filter(|table| table.info.max_seq > after && table.covers(key)) {
            if table.get(key, hash, MAX_SEQ)?.is_some_and(|found| found.seq > after) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A key between the bounds that was written after `after`, which is the moment or a later one.
    pub(crate) fn key_between(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        after: SeqNo,
    ) -> Result<Option<Vec<u8>>> {
        for mem in self.mems.iter().filter(|mem| mem.last_seq() > after) {
            if let Some(key) = first_newer(&mut mem.table.cursor(), lower, upper, after)? {
                return Ok(Some(key));
            }
        }
        for table in self.tables.iter().filter(|table| table.info.max_seq > after) {
            if is_below(&table.info.smallest, upper)
                && is_above(&table.info.largest, lower)
                && let Some(key) = first_newer(&mut table.cursor(ScanHint::Scan)?, lower, upper, after)?
            {
                return Ok(Some(key));
            }
        }
        // That something was deleted between the bounds, though nobody knows whether there was anything.
        let within = KeyRange::between(&lower.map(<[u8]>::to_vec), &upper.map(<[u8]>::to_vec));
        let moved = self.moved.iter().find_map(|range| range.common(&within));
        let deleted = moved.or_else(|| self.ranges.newer_over(&within, after));
        Ok(deleted.map(|range| range.lower.max(within.lower)))
    }
}

fn is_above(key: &[u8], lower: Bound<&[u8]>) -> bool {
    match lower {
        Bound::Included(bound) => key >= bound,
        Bound::Excluded(bound) => key > bound,
        Bound::Unbounded => true,
    }
}

fn is_below(key: &[u8], upper: Bound<&[u8]>) -> bool {
    match upper {
        Bound::Included(bound) => key <= bound,
        Bound::Excluded(bound) => key < bound,
        Bound::Unbounded => true,
    }
}

fn first_newer(
    cursor: &mut impl Cursor,
    lower: Bound<&[u8]>,
    upper: Bound<&[u8]>,
    after: SeqNo,
) -> Result<Option<Vec<u8>>> {
    match lower {
        Bound::Unbounded => cursor.seek_to_first()?,
        Bound::Included(key) => cursor.seek(key, MAX_SEQ)?,
        // Every version of the bound itself lies before (key + a zero byte).
        Bound::Excluded(key) => cursor.seek(&[key, &[0]].concat(), MAX_SEQ)?,
    }
    while cursor.valid() && is_below(cursor.key(), upper) {
        if cursor.seq() > after {
            return Ok(Some(cursor.key().to_vec()));
        }
        cursor.next()?;
    }
    Ok(None)
}
