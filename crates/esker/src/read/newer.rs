//! Finds whether anything was written since a moment. This validates a read-modify-write and a transaction.
//!
//! The answer is exact while the moment, or an earlier one, is registered. Merges then drop no key's newest
//! version and keep the numbers of all later ones. A tombstone counts like any version, a range tombstone for
//! all keys in its range.
//!
//! Memtables and tables whose largest number is not above the moment are left out beforehand. Usually only the memtable
//! that takes writes remains: checking a key costs one lookup there, and checking a range costs a walk over the range's
//! entries there. Such a walk pays for the cleaning of the memtable, as a scan does.

use crate::canary::broken;
use crate::checksum::hash_key;
use crate::cursor::{Cursor, Kind, MAX_SEQ, SeqNo};
use crate::error::Result;
use crate::ranges::{KeyRange, RangeTombstones};
use crate::state::{Mem, TreeInner, TreeState};
use crate::table::ScanHint;
use crate::version::levels::Table;

/// The parts of a tree that may hold anything newer than a moment.
pub(crate) struct Newer<'a> {
    tree: &'a TreeInner,
    mems: Vec<&'a Mem>,
    tables: Vec<&'a Table>,
    ranges: &'a RangeTombstones,
    /// Key ranges that moved to another tree since the moment. This tree does not know of later writes to them.
    moved: Vec<&'a KeyRange>,
}

impl<'a> Newer<'a> {
    /// The parts of `tree` in the state `state`.
    pub(crate) fn than(after: SeqNo, tree: &'a TreeInner, state: &'a TreeState) -> Newer<'a> {
        let mems = std::iter::once(&state.mem).chain(&state.immutable).map(|mem| &**mem);
        let tables = state.levels.tables().map(|(_, table)| &**table);
        let moved = state.key_bounds.moved.iter().filter(|moved| moved.seq > after);
        Newer {
            tree,
            mems: mems.filter(|mem| mem.last_seq() > after).collect(),
            tables: tables.filter(|table| table.info.max_seq > after).collect(),
            ranges: &state.ranges,
            moved: moved.map(|moved| &moved.range).collect(),
        }
    }

    /// Whether there are no such parts. (The log of some memtable holds each range tombstone, or did until that was
    /// flushed.)
    pub(crate) fn is_empty(&self) -> bool {
        self.mems.is_empty() && self.tables.is_empty() && self.ranges.is_empty() && self.moved.is_empty()
    }

    /// Whether `key` was written after `after`, which is the moment or a later number.
    pub(crate) fn has_key(&self, key: &[u8], after: SeqNo) -> Result<bool> {
        if self.ranges.newest_over(key, MAX_SEQ) > after && !broken("rule-18-txn") {
            return Ok(true);
        }
        if self.moved.iter().any(|range| range.contains(key)) {
            return Ok(true);
        }
        let hash = hash_key(key);
        for mem in &self.mems {
            if mem.table.get(key, hash, MAX_SEQ).is_some_and(|(seq, _, _)| seq > after) {
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

    /// A key of `range` that was written after `after`, which is the moment or a later number.
    pub(crate) fn key_in(&self, range: &KeyRange, after: SeqNo) -> Result<Option<Vec<u8>>> {
        for mem in self.mems.iter().filter(|mem| mem.last_seq() > after) {
            let mut deleted = 0;
            let key = first_newer(&mut mem.table.cursor(), range, after, &mut deleted)?;
            // Other locks may be held here. Therefore the next scan begins the cleaning.
            self.tree.passed_cost.add(deleted);
            if key.is_some() {
                return Ok(key);
            }
        }
        for table in self.tables.iter().filter(|table| table.info.max_seq > after) {
            if range.overlaps(&table.info.smallest, &table.info.largest)
                && let Some(key) = first_newer(&mut table.cursor(ScanHint::Scan)?, range, after, &mut 0)?
            {
                return Ok(Some(key));
            }
        }
        // A range tombstone over a part of the range counts, whether or not it deleted anything.
        let moved = self.moved.iter().find_map(|moved| moved.common(range));
        let deleted = moved.or_else(|| self.ranges.newer_over(range, after));
        Ok(deleted.map(|deleted| deleted.lower.max(range.lower.clone())))
    }
}

/// The first key of `range` with an entry after the number `after`. Adds the number of tombstones before it to `deleted`.
fn first_newer(
    cursor: &mut impl Cursor,
    range: &KeyRange,
    after: SeqNo,
    deleted: &mut u64,
) -> Result<Option<Vec<u8>>> {
    cursor.seek(&range.lower, MAX_SEQ)?;
    while cursor.valid() && range.ends_behind(cursor.key()) {
        if cursor.seq() > after {
            return Ok(Some(cursor.key().to_vec()));
        }
        *deleted += u64::from(cursor.kind() == Kind::Delete);
        cursor.next()?;
    }
    Ok(None)
}
