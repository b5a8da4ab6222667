//! Where a flush ends a table of level 0, because the keys of a memtable lie far apart.
//!
//! A queue is written at its tail and deleted from at its head. A table with both would overlap all that lies between, and
//! each merge of it would rewrite the whole queue:
//!
//! ```text
//! level 0    [deletions]                        [puts]
//! level 6    [    ][    ][    ][    ][    ][    ]
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use super::{bounds_of, merged};
use crate::cursor::MAX_SEQ;
use crate::error::Result;
use crate::ranges::next_key;
use crate::read::merging_cursor::{Direction, MergeCursor, Source};
use crate::state::Mem;
use crate::version::levels::Table;

/// Keys lie far apart if at least this many times the memtables' bytes lie between them, ...
const TIMES: u64 = 4;
/// ... and this many bytes.
const LEAST: u64 = 1 << 20;

/// If there are more gaps, the keys lie all over the tree, and many small tables would not help.
const GAPS_MAX: usize = 3;

/// How often one flush reads table indexes to find the bytes next to a key. After that only whole tables count.
/// Otherwise a flush of random keys would read the indexes of all tables.
const LOOKS: usize = 16;

/// The keys of `mems` that follow a gap. A gap is a range with many bytes in `tables` of a sorted level, but no key of
/// `mems`.
pub(super) fn gaps(tables: &[Arc<Table>], mems: &[Arc<Mem>]) -> Result<VecDeque<Vec<u8>>> {
    let Some((smallest, largest)) = bounds_of(mems)? else { return Ok(VecDeque::new()) };
    let bytes: u64 = mems.iter().map(|mem| mem.table.entry_memory() as u64).sum();
    let begin = tables.partition_point(|table| table.info.largest < smallest);
    let tables = &tables[begin..];
    let tables = &tables[..tables.partition_point(|table| table.info.smallest <= largest)];
    let least = bytes.saturating_mul(TIMES).max(LEAST);
    if tables.iter().map(|table| table.info.size).sum::<u64>() < least {
        return Ok(VecDeque::new());
    }
    let mut gaps =
        Gaps { least, begun: false, whole: 0, previous: None, looks: LOOKS, found: VecDeque::new() };
    let sources = mems.iter().map(|mem| Source::Mem(mem.table.cursor())).collect();
    let mut backward = MergeCursor::new(sources, Direction::Backward);
    // At the first key of the memtables that was not looked at.
    let mut forward = merged(mems)?;
    for table in tables {
        let info = &table.info;
        if forward.valid() && forward.key() < info.smallest.as_slice() {
            gaps.end(forward.key(), None);
            forward.seek(&info.smallest, MAX_SEQ)?;
        }
        if !forward.valid() || forward.key() > info.largest.as_slice() {
            gaps.whole = gaps.whole.saturating_add(info.size);
            continue;
        }
        gaps.end(forward.key(), Some(table));
        let next = next_key(&info.largest);
        backward.seek(&next, MAX_SEQ)?;
        gaps.previous = backward.valid().then(|| (&**table, backward.key().to_vec()));
        forward.seek(&next, MAX_SEQ)?;
        if gaps.found.len() > GAPS_MAX {
            break;
        }
    }
    if forward.valid() {
        gaps.end(forward.key(), None);
    }
    Ok(if gaps.found.len() > GAPS_MAX { VecDeque::new() } else { gaps.found })
}

/// The tables between two neighbouring keys of the memtables, and the gaps found so far.
struct Gaps<'a> {
    /// A gap has at least this many bytes.
    least: u64,
    /// Whether the first key was passed.
    begun: bool,
    /// The bytes of the tables that lie between.
    whole: u64,
    /// The first of the two keys, and the table that it is within.
    previous: Option<(&'a Table, Vec<u8>)>,
    looks: usize,
    found: VecDeque<Vec<u8>>,
}

impl Gaps<'_> {
    /// Notes the gap before `key`, if there is one. `key` may be within the table `ahead`.
    fn end(&mut self, key: &[u8], ahead: Option<&Table>) {
        if !std::mem::replace(&mut self.begun, true) {
            return;
        }
        let (whole, previous) = (std::mem::take(&mut self.whole), self.previous.take());
        let neighbours = previous.as_ref().map(|(table, _)| *table).into_iter().chain(ahead);
        let most = neighbours.fold(whole, |sum, table| sum.saturating_add(table.info.size));
        let mut is_gap = whole >= self.least;
        if !is_gap && most >= self.least && self.looks > 0 {
            self.looks -= 1;
            let after = previous.map_or(0, |(table, key)| {
                before(table, &key).map_or(0, |bytes| table.info.size.saturating_sub(bytes))
            });
            let before = ahead.and_then(|table| before(table, key)).unwrap_or(0);
            is_gap = whole.saturating_add(after).saturating_add(before) >= self.least;
        }
        if is_gap {
            self.found.push_back(key.to_vec());
        }
    }
}

/// About how many bytes of the table lie before `key`. `None` if it cannot be read: the flush continues.
fn before(table: &Table, key: &[u8]) -> Option<u64> {
    let offset = |key: &[u8]| table.offset_of(key).ok();
    Some(offset(key)?.saturating_sub(offset(&table.info.smallest)?))
}
