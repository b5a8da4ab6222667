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

/// Keys lie far apart if there are at least this many times the memtables' bytes between them, ...
const TIMES: u64 = 4;
/// ... and this many bytes.
const LEAST: u64 = 1 << 20;

/// If there are more gaps, the keys lie all over the tree, and many small tables would not help.
const GAPS_MAX: usize = 3;

/// The keys of `mems` that follow a gap: before each, `tables` of a sorted level have much, of which `mems` have no key.
pub(super) fn gaps(tables: &[Arc<Table>], mems: &[Arc<Mem>]) -> Result<VecDeque<Vec<u8>>> {
    let mut gaps = VecDeque::new();
    let Some((smallest, largest)) = bounds_of(mems)? else { return Ok(gaps) };
    let bytes: u64 = mems.iter().map(|mem| mem.table.entry_memory() as u64).sum();
    let least = bytes.saturating_mul(TIMES).max(LEAST);
    let begin = tables.partition_point(|table| table.info.largest < smallest);
    let tables = &tables[begin..];
    let tables = &tables[..tables.partition_point(|table| table.info.smallest <= largest)];
    if tables.iter().map(|table| table.info.size).sum::<u64>() < least {
        return Ok(gaps);
    }
    let sources = mems.iter().map(|mem| Source::Mem(mem.table.cursor())).collect();
    let mut backward = MergeCursor::new(sources, Direction::Backward);
    let mut forward = merged(mems)?;
    let mut note = |key: &[u8], between: u64| {
        if between >= least {
            gaps.push_back(key.to_vec());
        }
    };
    // What the tables have between the last key of the memtables before `from` and the first one from there on.
    let (mut between, mut from) = (0_u64, smallest);
    for table in tables {
        let info = &table.info;
        forward.seek(&from, MAX_SEQ)?;
        if forward.valid() && forward.key() < info.smallest.as_slice() {
            note(forward.key(), between);
            (between, from) = (0, info.smallest.clone());
            forward.seek(&from, MAX_SEQ)?;
        }
        if !forward.valid() || forward.key() > info.largest.as_slice() {
            between = between.saturating_add(info.size);
            continue;
        }
        let begin = table.offset_of(&info.smallest)?;
        let first = table.offset_of(forward.key())?.saturating_sub(begin);
        note(forward.key(), between.saturating_add(first));
        backward.seek(&next_key(&info.largest), MAX_SEQ)?;
        if backward.valid() {
            let last = table.offset_of(backward.key())?.saturating_sub(begin);
            (between, from) = (info.size.saturating_sub(last), next_key(backward.key()));
        }
    }
    forward.seek(&from, MAX_SEQ)?;
    if forward.valid() {
        note(forward.key(), between);
    }
    if gaps.len() > GAPS_MAX {
        gaps.clear();
    }
    Ok(gaps)
}
