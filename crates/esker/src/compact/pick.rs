//! Picks the next merge of a tree. `leveled.rs` or `tiered.rs` decides, by the tree's options. While other merges of
//! the tree run, it picks only a merge that may run at the same time ([`crate::state::merging`]).

use std::ops::Range;
use std::sync::Arc;

use super::{leveled, tiered};
use crate::options::{CompactionStyle, Options, TreeOptions};
use crate::state::merging::{Extent, may_join};
use crate::version::levels::{LEVELS, Levels, Table};
use crate::version::table_info::LookNow;

/// From this many runs on, level 0 of a leveled tree is merged.
pub(crate) const L0_RUNS: usize = 4;

/// About how many bytes a memtable takes for an entry in addition to its key and value.
const ENTRY_OVERHEAD: u128 = 40;

const SMALL_NEIGHBOURS: usize = 16;

const SMALL_BYTES: u64 = 256 << 10;

/// A small table also has at most one part in this many of each of [`Options::table_limits`].
const SMALL_PART: u64 = 16;

pub(crate) const BOTTOM: usize = LEVELS - 1;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Goal {
    pub(crate) style: CompactionStyle,
    pub(crate) ratio: usize,
    /// About how many bytes a full level 0 of a leveled tree holds.
    pub(crate) base_bytes: u64,
    /// A table of at most this many bytes and entries is small.
    pub(crate) small_bytes: u64,
    pub(crate) small_entries: u64,
    /// Whether neighbouring small tables are merged. Tables that were cut for merges that give space back are left
    /// alone.
    pub(crate) joins_small: bool,
    /// No reader needs entries that expired before this time.
    pub(crate) time_us: u64,
    /// How to decide whether the tree's compaction rule is to see a table again; `None` if the rule is not registered.
    pub(crate) rule: Option<LookNow>,
}

impl Goal {
    /// The goal for a tree with the options `tree` and the tables `levels`, in a store with `options`.
    pub(crate) fn new(
        tree: &TreeOptions,
        levels: &Levels,
        options: &Options,
        time_us: u64,
        rule: Option<LookNow>,
    ) -> Self {
        let limits = options.table_limits();
        Goal {
            style: tree.compaction,
            ratio: tree.ratio(),
            base_bytes: flushed_from((options.memtable_limit() * L0_RUNS) as u64, levels),
            small_bytes: (limits.bytes / SMALL_PART).min(SMALL_BYTES),
            small_entries: limits.keys as u64 / SMALL_PART,
            joins_small: true,
            time_us,
            rule,
        }
    }

    /// Whether the tree's compaction rule is registered and wants to see the table again.
    fn wants_look(&self, table: &Table) -> bool {
        self.rule.is_some_and(|now| table.info.look_again.is_due(now))
    }
}

/// About how many bytes of tables a flush makes from `memory` bytes of memtables, going by the entries in `levels`. It
/// is about the same for large entries, and a fraction for entries of a few bytes.
fn flushed_from(memory: u64, levels: &Levels) -> u64 {
    let (mut bytes, mut in_memory) = (0, 0);
    for (_, table) in levels.tables() {
        bytes += u128::from(table.info.size);
        in_memory += u128::from(table.info.raw_bytes) + u128::from(table.info.entries) * ENTRY_OVERHEAD;
    }
    if bytes == 0 { memory } else { (u128::from(memory) * bytes.min(in_memory) / in_memory.max(1)) as u64 }
}

#[derive(Debug)]
pub(crate) struct Compaction {
    /// The input tables, each with its level. In a level >= 1 they are disjoint. A table of level 0 that is left out is
    /// newer than all inputs, or older, or overlaps none of them.
    pub(crate) inputs: Vec<(usize, Arc<Table>)>,
    pub(crate) target: usize,
    pub(crate) for_reads: bool,
    /// A cut: tables of the output also end where the tables at these places of the bottom level begin.
    pub(crate) cut: Option<Range<usize>>,
}

impl Compaction {
    /// Whether the input can be moved down without a rewrite.
    pub(crate) fn is_move(&self) -> bool {
        self.inputs.len() == 1 && self.inputs[0].0 != self.target
    }

    pub(super) fn in_place(level: usize, table: &Arc<Table>) -> Self {
        Compaction { inputs: vec![(level, Arc::clone(table))], target: level, for_reads: false, cut: None }
    }

    /// How many bytes the merge reads. It writes at most as many.
    pub(crate) fn bytes(&self) -> u64 {
        self.inputs.iter().map(|(_, table)| table.info.size).sum()
    }

    /// The keys and levels that the merge reads and writes.
    pub(crate) fn extent(&self) -> Extent {
        Extent::of(&self.inputs, self.target)
    }

    /// This merge. If it merges tables of level 0 in place, it also gets the tables of level 0 that overlap its keys
    /// and whose numbers lie among those of its inputs.
    ///
    /// Level 0 is ordered by the newest number of each table, and a get takes the first version that it finds.
    /// Therefore, of two overlapping tables there, one must be newer than the other in all entries. The tables of one
    /// flush have interleaved numbers and do not overlap; but one of them, merged with an older table, may overlap the
    /// others.
    pub(super) fn closed(mut self, levels: &Levels) -> Self {
        if self.target > 0 || self.inputs.len() < 2 {
            return self;
        }
        let mut rest: Vec<_> = levels.level(0).iter().collect();
        rest.retain(|table| !self.inputs.iter().any(|(_, input)| Arc::ptr_eq(input, table)));
        loop {
            let before = self.inputs.len();
            let infos = || self.inputs.iter().map(|(_, table)| &table.info);
            let numbers = (infos().map(|info| info.min_seq).min(), infos().map(|info| info.max_seq).max());
            let keys = (
                infos().map(|info| info.smallest.clone()).min(),
                infos().map(|info| info.largest.clone()).max(),
            );
            let ((Some(oldest), Some(newest)), (Some(smallest), Some(largest))) = (numbers, keys) else {
                return self;
            };
            rest.retain(|table| {
                let is_among = table.info.min_seq <= newest && table.info.max_seq >= oldest;
                let joins = is_among && table.overlaps(&smallest, &largest);
                if joins {
                    self.inputs.push((0, Arc::clone(table)));
                }
                !joins
            });
            if self.inputs.len() == before {
                return self;
            }
        }
    }

    /// This merge, if it may run next to the `running` ones.
    pub(super) fn beside(self, running: &[Extent]) -> Option<Self> {
        // Most trees have no running merge.
        (running.is_empty() || may_join(&self.extent(), running)).then_some(self)
    }

    /// Whether a table that is left out of the merge may hold older versions of an input's keys.
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

/// How many runs wait for a merge, as a measure for slowing writers.
pub(crate) fn runs_behind(levels: &Levels, options: &TreeOptions) -> usize {
    match options.compaction {
        CompactionStyle::Leveled => levels.run_places().len(),
        _ => tiered::runs_behind(levels, options.ratio()),
    }
}

/// How urgently the tree needs a merge in addition to the `running` ones. From 1 on it needs one.
pub(crate) fn urgency(levels: &Levels, goal: Goal, running: &[Extent]) -> f64 {
    let urgency = match goal.style {
        CompactionStyle::Leveled => leveled::urgency(levels, goal, running),
        _ => tiered::urgency(levels, goal, running),
    };
    let is_due = || due(levels, goal).next().is_some() || small_neighbours(levels, goal, running).is_some();
    if urgency < 1.0 && is_due() { 1.0 } else { urgency }
}

/// The next merge, next to the `running` ones.
pub(crate) fn pick(levels: &Levels, goal: Goal, running: &[Extent]) -> Option<Compaction> {
    let urgent = match goal.style {
        CompactionStyle::Leveled => leveled::pick(levels, goal, running),
        _ => tiered::pick(levels, goal, running),
    };
    let picked =
        urgent.or_else(|| small_neighbours(levels, goal, running))?.closed(levels).beside(running)?;
    match picked.inputs.as_slice() {
        // A move would not show it to the rule.
        [(level, table)] if picked.is_move() && goal.wants_look(table) => {
            Some(Compaction::in_place(*level, table))
        }
        _ => Some(picked),
    }
}

/// The merge of neighbouring small tables in one run. Flushes leave such tables where keys do not overlap, and
/// no style merges tables that do not overlap. Without this merge, programs that each put one pair and end would leave
/// a file for each pair.
///
/// The merge always leaves fewer small tables: all of its tables but the last reach a limit, and a small table is far
/// from every limit. A small table is merged again once there are 15 more, so this costs a flush at most
/// [`SMALL_BYTES`] / 15, except where other tables have to join ([`Compaction::closed`]).
fn small_neighbours(levels: &Levels, goal: Goal, running: &[Extent]) -> Option<Compaction> {
    if !goal.joins_small {
        return None;
    }
    let above = levels.run_places().map(|place| (0, &levels.level(0)[place]));
    let mut runs = above.chain((1..LEVELS).map(|level| (level, levels.level(level))));
    runs.find_map(|(level, run)| {
        let is_small = |table: &Arc<Table>| {
            table.info.size <= goal.small_bytes && table.info.entries <= goal.small_entries
        };
        let mut rows =
            run.chunk_by(|a, b| is_small(a) && is_small(b)).filter(|row| row.len() >= SMALL_NEIGHBOURS);
        rows.find_map(|row| {
            let inputs = row.iter().map(|table| (level, Arc::clone(table))).collect();
            Compaction { inputs, target: level, for_reads: false, cut: None }.beside(running)
        })
    })
}

/// The tables that should be merged because of expired entries, or because the tree's rule wants to see them again, the
/// deepest first, because tables above it still have to pass through its level.
pub(super) fn due(levels: &Levels, goal: Goal) -> impl Iterator<Item = (usize, &Arc<Table>)> {
    let has_expired = |table: &Table| table.info.due(false).tree_us.is_some_and(|due| due <= goal.time_us);
    let is_due = |table: &Table| has_expired(table) || goal.wants_look(table);
    let due: Vec<_> = levels.tables().filter(|(_, table)| is_due(table)).collect();
    due.into_iter().rev()
}

/// Merges everything into the bottom level. `None` if all of it is there already and nothing in it can be dropped.
/// `may_hold_garbage`: the tree has range tombstones, or its compaction rule is registered.
pub(crate) fn pick_all(levels: &Levels, time_us: u64, may_hold_garbage: bool) -> Option<Compaction> {
    let above = (0..BOTTOM).any(|level| !levels.level(level).is_empty());
    let may_drop = |table: &Arc<Table>| {
        let info = &table.info;
        let has_expired = info.expiring.count > 0 && info.expiring.earliest <= time_us;
        info.tombstones > 0 || info.max_seq > 0 || has_expired || info.clipped
    };
    let droppable = levels.level(BOTTOM).iter().any(|table| may_hold_garbage || may_drop(table));
    if !above && !droppable {
        return None;
    }
    let inputs = levels.tables().map(|(level, table)| (level, Arc::clone(table))).collect();
    Some(Compaction { inputs, target: BOTTOM, for_reads: false, cut: None })
}
