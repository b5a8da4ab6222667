//! What to merge next in a tree: `leveled.rs` or `tiered.rs` decides, by the tree's options.

use std::sync::Arc;

use super::{leveled, tiered};
use crate::cursor::SeqNo;
use crate::options::{CompactionStyle, TreeOptions};
use crate::version::levels::{LEVELS, Levels, Table};

/// Runs in level 0 of a leveled tree from which on they are merged.
pub(crate) const L0_RUNS: usize = 4;

/// Bytes that a memtable takes for an entry beside its key and value, about.
const ENTRY_OVERHEAD: u128 = 40;

pub(super) const BOTTOM: usize = LEVELS - 1;

/// What the tables of a tree are to be like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Goal {
    pub(crate) style: CompactionStyle,
    pub(crate) ratio: usize,
    /// Bytes that a full level 0 of a leveled tree brings, about.
    pub(crate) base_bytes: u64,
    /// What has expired before is of no use to anybody.
    pub(crate) time_us: u64,
}

impl Goal {
    /// What a tree of `options` and `levels` is to come to, where memtables take `memtable_bytes`.
    pub(crate) fn new(options: &TreeOptions, levels: &Levels, memtable_bytes: usize, time_us: u64) -> Self {
        let base_bytes = flushed_from((memtable_bytes * L0_RUNS) as u64, levels);
        Goal { style: options.compaction, ratio: options.ratio(), base_bytes, time_us }
    }
}

/// About how many bytes of tables a flush makes of `memory` bytes of memtables, going by the pairs in `levels`: as many for
/// large ones, a fraction for such of some bytes.
fn flushed_from(memory: u64, levels: &Levels) -> u64 {
    let (mut bytes, mut in_memory) = (0, 0);
    for (_, table) in levels.tables() {
        bytes += u128::from(table.info.size);
        in_memory += u128::from(table.info.raw_bytes) + u128::from(table.info.entries) * ENTRY_OVERHEAD;
    }
    if bytes == 0 { memory } else { (u128::from(memory) * bytes.min(in_memory) / in_memory.max(1)) as u64 }
}

/// A merge to be done.
#[derive(Debug)]
pub(crate) struct Compaction {
    /// Tables with the level they are in now. Of a level >= 1 they are disjoint. What is left out of level 0 is newer than
    /// all that is taken, or older, or overlaps nothing of it.
    pub(crate) inputs: Vec<(usize, Arc<Table>)>,
    pub(crate) target: usize,
    /// Reads have asked for it.
    pub(crate) for_reads: bool,
}

impl Compaction {
    /// Whether the input can be moved down as it is.
    pub(crate) fn is_move(&self) -> bool {
        self.inputs.len() == 1 && self.inputs[0].0 != self.target
    }

    /// A table to be written anew where it is.
    pub(super) fn in_place(level: usize, table: &Arc<Table>) -> Self {
        Compaction { inputs: vec![(level, Arc::clone(table))], target: level, for_reads: false }
    }

    /// Bytes that are read, and at most so many written.
    pub(crate) fn bytes(&self) -> u64 {
        self.inputs.iter().map(|(_, table)| table.info.size).sum()
    }

    /// Whether versions that are older than those of an input may lie in a table that is left out of the merge.
    pub(crate) fn has_older_below(&self, levels: &Levels) -> bool {
        let infos = || self.inputs.iter().map(|(_, table)| &table.info);
        let (Some(smallest), Some(largest), Some(newest)) = (
            infos().map(|info| info.smallest.as_slice()).min(),
            infos().map(|info| info.largest.as_slice()).max(),
            infos().map(|info| info.max_seq).max(),
        ) else {
            return false;
        };
        let deepest = self.inputs.iter().map(|(level, _)| *level).max().unwrap_or(0);
        let is_input = |table: &Arc<Table>| self.inputs.iter().any(|(_, input)| Arc::ptr_eq(input, table));
        levels.tables().filter(|(_, table)| table.overlaps(smallest, largest)).any(|(level, table)| {
            match level {
                0 => deepest == 0 && table.info.min_seq <= newest && !is_input(table),
                _ => level > self.target,
            }
        })
    }
}

/// Runs of a tree whose merging is behind, as far as writers are to be slowed for it.
pub(crate) fn runs_behind(levels: &Levels, options: &TreeOptions) -> usize {
    match options.compaction {
        CompactionStyle::Leveled => levels.run_places().len(),
        _ => tiered::runs_behind(levels, options.ratio()),
    }
}

/// How urgently the tree needs a merge: from 1 on it does.
pub(crate) fn urgency(levels: &Levels, goal: Goal) -> f64 {
    let urgency = match goal.style {
        CompactionStyle::Leveled => leveled::urgency(levels, goal),
        _ => tiered::urgency(levels, goal),
    };
    if urgency < 1.0 && due(levels, goal.time_us).is_some() { 1.0 } else { urgency }
}

/// The most urgent merge, if one is needed.
pub(crate) fn pick(levels: &Levels, goal: Goal) -> Option<Compaction> {
    match goal.style {
        CompactionStyle::Leveled => leveled::pick(levels, goal),
        _ => tiered::pick(levels, goal),
    }
}

/// The next merge of what is newer than `seq` alone, if one is needed, while what is older is being merged.
pub(crate) fn pick_newer(levels: &Levels, goal: Goal, seq: SeqNo) -> Option<Compaction> {
    match goal.style {
        CompactionStyle::Leveled => None,
        _ => tiered::pick_newer(levels, goal, seq),
    }
}

/// A table that should be merged for what has expired in it, the deepest first: what lies above has to pass its level.
pub(super) fn due(levels: &Levels, time_us: u64) -> Option<(usize, &Arc<Table>)> {
    levels.tables().filter(|(_, table)| table.info.due_us().is_some_and(|due| due <= time_us)).last()
}

/// Everything into the bottom level: what a user's `compact` asks for. `None` when it is there already
/// and holds nothing to drop.
pub(crate) fn pick_all(levels: &Levels, time_us: u64, has_ranges: bool) -> Option<Compaction> {
    let above = (0..BOTTOM).any(|level| !levels.level(level).is_empty());
    let may_drop = |table: &Arc<Table>| {
        let info = &table.info;
        let has_expired = info.expiring.count > 0 && info.expiring.earliest <= time_us;
        info.tombstones > 0 || info.max_seq > 0 || has_expired || info.clipped
    };
    let droppable = levels.level(BOTTOM).iter().any(|table| has_ranges || may_drop(table));
    if !above && !droppable {
        return None;
    }
    let inputs = levels.tables().map(|(level, table)| (level, Arc::clone(table))).collect();
    Some(Compaction { inputs, target: BOTTOM, for_reads: false })
}
