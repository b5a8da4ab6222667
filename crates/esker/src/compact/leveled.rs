//! Picks the next merge in a leveled tree. Level sizes follow the largest level.
//!
//! ```text
//! level 0   runs as they were flushed; from 4 on they are merged into the base level, two or three of them
//!           when reads have paid for it (`version/read_cost.rs`)
//! base      at most target(base) bytes      target(l) = target(l + 1) / size ratio
//! ...
//! level 6   the largest: any size
//! ```
//!
//! The base level is the topmost level whose target is at least the size of a few flushes. Therefore a small tree has
//! level 0 and level 6 only, and at a size ratio of 10 space is bounded by about 1.1 times the data. A table that
//! overlaps nothing is moved, not rewritten.

use std::cmp::Reverse;
use std::sync::Arc;

use super::pick::{BOTTOM, Compaction, Goal, L0_RUNS, due};
use crate::cursor::SeqNo;
use crate::state::merging::Extent;
use crate::version::levels::{LEVELS, Levels, Table};
use crate::version::read_cost::ReadCost;

/// The most flushes that a merge takes from level 0, ...
const L0_FLUSHES_AT_ONCE: usize = 8;
/// ... and the most tables, where flushes have several.
const L0_TABLES_AT_ONCE: usize = 32;

/// The size ratio of the options, or the least one with which level 1 is not larger than `base_bytes`.
fn ratio_of(levels: &Levels, goal: Goal) -> u64 {
    let times = levels.bytes(BOTTOM) as f64 / goal.base_bytes.max(1) as f64;
    (goal.ratio as u64).max(times.powf(1.0 / (BOTTOM - 1) as f64).ceil() as u64)
}

/// The base level, and how many bytes each level may hold.
fn targets(levels: &Levels, goal: Goal) -> (usize, [u64; LEVELS]) {
    let mut targets = [u64::MAX; LEVELS];
    let ratio = ratio_of(levels, goal);
    let mut base = BOTTOM;
    let mut target = levels.bytes(BOTTOM);
    while base > 1 && target / ratio >= goal.base_bytes {
        target /= ratio;
        base -= 1;
        targets[base] = target;
    }
    for target in &mut targets[1..base] {
        *target = 0;
    }
    (base, targets)
}

/// How urgently the tree needs a merge in addition to the `running` ones: from 1 on it needs one.
pub(super) fn urgency(levels: &Levels, goal: Goal, running: &[Extent]) -> f64 {
    if running.is_empty() {
        return scores(levels, goal, running).into_iter().fold(0.0, f64::max);
    }
    most_urgent(levels, goal, running).map_or(0.0, |(urgency, _)| urgency)
}

/// How much each level needs a merge. Inputs of the `running` merges do not count.
fn scores(levels: &Levels, goal: Goal, running: &[Extent]) -> [f64; LEVELS] {
    let (base, targets) = targets(levels, goal);
    let mut scores = [0.0; LEVELS];
    scores[0] = waiting_in_l0(levels) as f64 / L0_RUNS as f64;
    if scores[0] < 1.0 && reads_have_paid(levels, base) {
        scores[0] = 1.0;
    }
    for level in 1..BOTTOM {
        let leaving = running.iter().map(|extent| extent.leaving(level)).sum();
        let bytes = levels.bytes(level).saturating_sub(leaving);
        if bytes > 0 {
            scores[level] = bytes as f64 / (targets[level].max(1)) as f64;
        }
    }
    scores
}

/// How much waits for a merge in level 0, in runs.
fn waiting_in_l0(levels: &Levels) -> usize {
    // Tables that do not overlap can be moved without a rewrite. They are due, but not urgent.
    flushes_in(levels.level(0)).min(L0_RUNS).max(levels.run_places().len())
}

/// How many flushes have made `tables`, about. The tables of one flush hold numbers from among each other's. Unless a
/// snapshot was open, they are also cleared up to the last number of the flush, as no other flush's are.
fn flushes_in(tables: &[Arc<Table>]) -> usize {
    let mut infos: Vec<_> = tables.iter().map(|table| &table.info).collect();
    infos.sort_unstable_by_key(|info| Reverse((info.max_seq, info.min_seq)));
    let (mut flushes, mut oldest, mut cleared) = (0, SeqNo::MAX, None);
    for info in infos {
        let is_same = info.max_seq > oldest || cleared == Some(info.cleared);
        flushes += usize::from(!is_same);
        oldest = oldest.min(info.min_seq);
        cleared = (info.cleared >= info.max_seq).then_some(info.cleared);
    }
    flushes
}

fn reads_have_paid(levels: &Levels, base: usize) -> bool {
    let paid = levels.read_cost().map_or(0, ReadCost::paid);
    paid > 0 && pick_l0(levels, base).bytes() <= paid
}

pub(super) fn pick(levels: &Levels, goal: Goal, running: &[Extent]) -> Option<Compaction> {
    if let Some((_, compaction)) = most_urgent(levels, goal, running) {
        return Some(compaction);
    }
    due(levels, goal).find_map(|(level, table)| {
        let compaction = match level {
            0 => pick_l0(levels, targets(levels, goal).0),
            BOTTOM => Compaction::in_place(BOTTOM, table),
            _ => merge_down(levels, level, table),
        };
        compaction.beside(running)
    })
}

/// The merge of the level that needs one most, and how urgent it is.
fn most_urgent(levels: &Levels, goal: Goal, running: &[Extent]) -> Option<(f64, Compaction)> {
    let scores = scores(levels, goal, running);
    let (base, _) = targets(levels, goal);
    let mut full: Vec<usize> = (0..LEVELS).filter(|&level| scores[level] >= 1.0).collect();
    full.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(b.cmp(&a)));
    full.into_iter().find_map(|level| {
        let compaction = match level {
            0 => pick_l0(levels, base).beside(running),
            _ => pick_level(levels, level, running),
        };
        Some((scores[level], compaction?))
    })
}

fn merge_down(levels: &Levels, level: usize, table: &Arc<Table>) -> Compaction {
    let target = level + 1;
    let below = levels.overlapping(target, &table.info.smallest, &table.info.largest);
    let inputs = std::iter::once((level, Arc::clone(table)));
    Compaction {
        inputs: inputs.chain(below.into_iter().map(|table| (target, table))).collect(),
        target,
        for_reads: false,
        cut: None,
    }
}

fn pick_l0(levels: &Levels, base: usize) -> Compaction {
    // The first level that holds tables: entries of level 0 must not pass older ones.
    let target = (1..base).find(|&level| !levels.level(level).is_empty()).unwrap_or(base);
    let tables = levels.level(0);
    let for_reads = waiting_in_l0(levels) < L0_RUNS;
    if let Some(oldest) = tables.last() {
        let (smallest, largest) = (&oldest.info.smallest, &oldest.info.largest);
        let alone = tables.iter().filter(|table| table.overlaps(smallest, largest)).count() == 1;
        if alone && levels.overlapping(target, smallest, largest).is_empty() {
            return Compaction { inputs: vec![(0, Arc::clone(oldest))], target, for_reads, cut: None };
        }
    }
    let chosen = oldest_flushes(tables).to_vec();
    let overlapped = overlapped_by(levels, target, &chosen);
    let inputs = chosen.into_iter().map(|table| (0, table));
    Compaction {
        inputs: inputs.chain(overlapped.into_iter().map(|table| (target, table))).collect(),
        target,
        for_reads,
        cut: None,
    }
}

/// The oldest of `tables`, which lie in the order of level 0, as many as a merge takes.
fn oldest_flushes(tables: &[Arc<Table>]) -> &[Arc<Table>] {
    let oldest = |count: usize| &tables[tables.len() - count.min(tables.len())..];
    let mut count = L0_FLUSHES_AT_ONCE;
    while count < L0_TABLES_AT_ONCE.min(tables.len()) && flushes_in(oldest(count + 1)) <= L0_FLUSHES_AT_ONCE {
        count += 1;
    }
    oldest(count)
}

fn overlapped_by(levels: &Levels, level: usize, tables: &[Arc<Table>]) -> Vec<Arc<Table>> {
    levels
        .level(level)
        .iter()
        .filter(|below| tables.iter().any(|table| table.overlaps(&below.info.smallest, &below.info.largest)))
        .cloned()
        .collect()
}

/// The merge of the table of `level` that rewrites the fewest bytes of the next level for each of its own.
fn pick_level(levels: &Levels, level: usize, running: &[Extent]) -> Option<Compaction> {
    let target = level + 1;
    let cost = |table: &Arc<Table>| {
        let below = levels.overlapping(target, &table.info.smallest, &table.info.largest);
        let bytes: u64 = below.iter().map(|table| table.info.size).sum();
        bytes as f64 / table.info.size.max(1) as f64
    };
    let mut costs: Vec<_> = levels.level(level).iter().map(|table| (cost(table), table)).collect();
    costs.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    costs.into_iter().find_map(|(_, table)| merge_down(levels, level, table).beside(running))
}
