//! How much of some tables a merge of them would leave out, estimated from a sample.
//!
//! Samples are taken at equal distances of bytes, so the weight of an entry is its size. For each sample this checks
//! whether a reader could still see it: whether one of the tables, a range tombstone or a memtable has a newer version
//! that hides it from every read point. Only entries that are certainly hidden count, so a merge gives back at least
//! about as much as estimated. With n samples the standard error is at most 0.5 / sqrt(n) of the merge's input.
//!
//! The entries that a compaction rule drops are not known here: see `store/compactor/rehearsal.rs`.

use std::sync::Arc;

use super::pick::{BOTTOM, Compaction};
use super::retain::ReadPoints;
use crate::checksum::hash_key;
use crate::cursor::{Content, Cursor, Kind, MAX_SEQ, SeqNo};
use crate::error::Result;
use crate::state::{Mem, TreeState};
use crate::table::ScanHint;
use crate::version::levels::Table;

/// Samples are taken from the first entries of a block in turn, so that a pattern in the keys gets its right weight.
const IN_TURN: usize = 5;

/// The bytes of tables that a merge would give back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Gain {
    /// Bytes that the merge reads.
    pub(crate) read: u64,
    /// Bytes that it leaves out.
    pub(crate) dead: u64,
    /// Bytes that it would leave out after a flush of the memtables.
    pub(crate) dead_if_flushed: u64,
    /// Bytes that it keeps of tables that lie above others.
    pub(crate) kept_above: u64,
    /// The same after a flush, including the bytes that the flush adds.
    pub(crate) kept_above_if_flushed: u64,
}

/// Which of the tables that a merge reads are sampled.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Samples<'a> {
    OfAll,
    /// Of all except these. They still hide entries below them.
    Without(&'a [(usize, Arc<Table>)]),
}

impl Samples<'_> {
    pub(crate) fn include(self, table: &Arc<Table>) -> bool {
        match self {
            Samples::OfAll => true,
            Samples::Without(others) => !others.iter().any(|(_, other)| Arc::ptr_eq(other, table)),
        }
    }
}

/// Why an entry is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// Something that lies in tables, or is in the manifest.
    Tables,
    /// An entry of a memtable with this many bytes of value; `None` if it is a tombstone.
    Memtable(Option<usize>),
    /// A range tombstone that no flush has noted yet.
    UnflushedRange,
}

/// An entry of a table.
struct Sample {
    key: Vec<u8>,
    seq: SeqNo,
    /// Whether its value counts at the earliest time of a reader.
    lives: bool,
}

/// Estimates how many bytes of `which` tables the merge `compaction` of a tree in the state `state` gives back, by
/// `count` samples. All writes up to `flushed` are in tables.
pub(crate) fn measure(
    state: &TreeState,
    compaction: &Compaction,
    points: &ReadPoints,
    flushed: SeqNo,
    which: Samples<'_>,
    count: u64,
) -> Result<Gain> {
    let inputs = newest_first(compaction);
    let is_above = above(&inputs);
    let sampled: Vec<usize> = (0..inputs.len()).filter(|&at| which.include(&inputs[at].1)).collect();
    let sizes: Vec<u64> = sampled.iter().map(|&at| inputs[at].1.info.size).collect();
    let read = sizes.iter().sum();
    let reaches_bottom = compaction.target == BOTTOM;
    let mut gain = Gain { read, ..Gain::default() };
    // In memtables: entries that hide a sample, the number of these with a value, and the bytes of these values.
    let (mut hits, mut values, mut value_bytes) = (0_u64, 0_u64, 0_u64);
    let part = |of: u64| part_of(read, of, count);
    let (mut dead, mut dead_in_memory, mut kept, mut kept_in_memory) = (0, 0, 0, 0);
    for (number, (place, offset)) in places(&sizes, count).enumerate() {
        let at = sampled[place];
        let table = &inputs[at].1;
        let sample = sample_at(table, offset, number % IN_TURN, points.time_us)?;
        let by = match &sample {
            Some(sample) => why_dead(state, &inputs[..=at], points, flushed, reaches_bottom, sample)?,
            None => None,
        };
        match by {
            Some(By::Tables) => dead += 1,
            Some(by) => {
                dead_in_memory += 1;
                kept += u64::from(is_above[at]);
                if let (By::Memtable(value), Some(sample)) = (by, &sample) {
                    hits += 1;
                    values += u64::from(value.is_some());
                    value_bytes += value.map_or(0, |len| (len + sample.key.len()) as u64);
                }
            }
            None => {
                kept += u64::from(is_above[at]);
                kept_in_memory += u64::from(is_above[at]);
            }
        }
    }
    gain.dead = part(dead);
    gain.dead_if_flushed = part(dead + dead_in_memory);
    gain.kept_above = part(kept);
    let in_memory = mems(state).map(|mem| mem.table.len() as u64).sum::<u64>();
    let brought = in_memory.saturating_mul(value_bytes) / hits.max(1);
    gain.kept_above_if_flushed = part(kept_in_memory).saturating_add(if values == 0 { 0 } else { brought });
    Ok(gain)
}

/// `bytes`, multiplied by `of` and divided by `all`.
pub(crate) fn part_of(bytes: u64, of: u64, all: u64) -> u64 {
    (u128::from(bytes) * u128::from(of) / u128::from(all.max(1))) as u64
}

/// `count` places at equal distances in tables of these `sizes`: for each the number of its table, and an offset in that.
pub(crate) fn places(sizes: &[u64], count: u64) -> impl Iterator<Item = (usize, u64)> + '_ {
    let all: u64 = sizes.iter().sum();
    let (mut table, mut begin) = (0, 0);
    (0..if sizes.is_empty() { 0 } else { count }).map(move |number| {
        let offset = part_of(all, number, count) + part_of(all, 1, count) / 2;
        while table + 1 < sizes.len() && offset >= begin + sizes[table] {
            begin += sizes[table];
            table += 1;
        }
        (table, offset - begin)
    })
}

/// The inputs of a merge, newest first. Where tables of level 0 overlap, one has newer entries only.
pub(crate) fn newest_first(compaction: &Compaction) -> Vec<(usize, Arc<Table>)> {
    let mut inputs = compaction.inputs.clone();
    inputs
        .sort_by_key(|(level, table)| (*level, if *level == 0 { u64::MAX - table.info.max_seq } else { 0 }));
    inputs
}

/// Which of `inputs`, newest first, overlap an older one.
pub(crate) fn above(inputs: &[(usize, Arc<Table>)]) -> Vec<bool> {
    let is_above = |at: usize, (level, table): &(usize, Arc<Table>)| {
        // The tables of another level are disjoint.
        let older = if *level == 0 { at + 1 } else { inputs.partition_point(|(other, _)| other <= level) };
        let mut older = inputs.get(older..).unwrap_or_default().iter();
        older.any(|(_, other)| other.overlaps(&table.info.smallest, &table.info.largest))
    };
    inputs.iter().enumerate().map(|(at, input)| is_above(at, input)).collect()
}

/// The memtables of a tree, newest first.
fn mems(state: &TreeState) -> impl Iterator<Item = &Arc<Mem>> {
    std::iter::once(&state.mem).chain(&state.immutable)
}

/// The entry `steps` after one that lies about `offset` bytes within the tree's part of the table; `None` if it does
/// not exist.
fn sample_at(table: &Arc<Table>, offset: u64, steps: usize, time_us: u64) -> Result<Option<Sample>> {
    let mut cursor = table.cursor(ScanHint::Scan)?;
    cursor.seek(&table.key_near(offset)?, MAX_SEQ)?;
    for _ in 0..steps {
        if cursor.valid() {
            cursor.next()?;
        }
    }
    if !cursor.valid() {
        cursor.seek_to_last()?;
    }
    if !cursor.valid() {
        return Ok(None);
    }
    let entry = Content::open(cursor.kind(), cursor.value());
    if entry.ended_us().is_some() {
        // A merge keeps it while operands above it may depend on it.
        return Ok(None);
    }
    let lives = entry.lives(|| time_us);
    Ok(Some(Sample { key: cursor.key().to_vec(), seq: cursor.seq(), lives }))
}

/// Why a merge would leave `sample` out, which is from the last of `inputs`; the others are newer.
fn why_dead(
    state: &TreeState,
    inputs: &[(usize, Arc<Table>)],
    points: &ReadPoints,
    flushed: SeqNo,
    reaches_bottom: bool,
    sample: &Sample,
) -> Result<Option<By>> {
    let stretch = points.seqs.partition_point(|&point| point < sample.seq);
    // The first reader that may see it.
    let Some(&reader) = points.seqs.get(stretch) else { return Ok(None) };
    if !sample.lives && reaches_bottom && stretch == 0 {
        return Ok(Some(By::Tables));
    }
    let range = if state.ranges.is_empty() { None } else { state.ranges.look_up(&sample.key, sample.seq).1 };
    let range = range.filter(|&range| range <= reader);
    if range.is_some_and(|range| range <= flushed) {
        return Ok(Some(By::Tables));
    }
    let hash = hash_key(&sample.key);
    for (_, table) in inputs.iter().filter(|(_, table)| table.covers(&sample.key)) {
        if let Some(found) = table.get(&sample.key, hash, reader)? {
            // An operand needs the version below it.
            if found.seq > sample.seq && found.kind != Kind::Merge {
                return Ok(Some(By::Tables));
            }
            break;
        }
    }
    if range.is_some() {
        return Ok(Some(By::UnflushedRange));
    }
    let newest = mems(state).find_map(|mem| mem.table.get(&sample.key, hash, reader));
    Ok(newest.and_then(|(seq, kind, value)| match kind {
        Kind::Merge => None,
        _ if seq <= sample.seq => None,
        Kind::Delete => Some(By::Memtable(None)),
        _ => Some(By::Memtable(Some(value.len()))),
    }))
}
