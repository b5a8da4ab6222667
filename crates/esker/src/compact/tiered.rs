//! Picks the next merge in a tiered or lazy-leveled tree.
//!
//! ```text
//! level 0    | 1 | 1 | 1 | 4 | 4 | 16 |     runs, newest first, with their sizes
//! level 6    | 64 |                         the oldest run
//! ```
//! When as many neighbouring runs as the size ratio are of about one size, a merge makes one run of them. Therefore
//! there are fewer runs of each size than the ratio, and sizes grow by the ratio: runs are few, and an entry is written
//! once for each size. After its first merge the oldest run is in level 6. (Dayan, Idreos: Dostoevsky, SIGMOD 2018.)
//!
//! *Lazy-leveled*: when the levels above level 6 have grown to 1/ratio of its size, all of them are merged into it.
//!
//! Neighbours are of about one size if the largest is smaller than the ratio times the smallest. A run that is smaller
//! than a newer one counts as if it had the size of that one. Therefore sizes never fall with age, and no small run
//! stays between larger ones.

use std::ops::Range;
use std::sync::Arc;

use super::pick::{BOTTOM, Compaction, Goal, due};
use crate::options::CompactionStyle;
use crate::state::merging::{Extent, may_join};
use crate::version::levels::{LEVELS, Levels, Table};

/// A run, and the size that it counts as.
#[derive(Debug, Clone)]
struct Run {
    level: usize,
    place: Range<usize>,
    bytes: u64,
}

/// All runs of a tree, newest first, with sizes that never fall.
fn runs_of(levels: &Levels) -> Vec<Run> {
    let above = levels.run_places().map(|place| (0, place));
    let below = (1..LEVELS).map(|level| (level, 0..levels.level(level).len()));
    let mut least = 0;
    let runs = above.chain(below.filter(|(_, place)| !place.is_empty())).map(|(level, place)| {
        let tables = &levels.level(level)[place.clone()];
        least = tables.iter().map(|table| table.info.size).sum::<u64>().max(least);
        Run { level, place, bytes: least }
    });
    runs.collect()
}

/// How many runs from `runs[0]` on are of about one size.
fn alike(runs: &[Run], ratio: usize) -> usize {
    let limit = runs.first().map_or(0, |run| run.bytes.max(1).saturating_mul(ratio as u64));
    runs.iter().take_while(|run| run.bytes < limit).count()
}

/// The neighbours to merge: the longest row of runs of about one size; if several are as long, the newest.
fn neighbours(runs: &[Run], ratio: usize) -> Option<Range<usize>> {
    let all = (0..runs.len()).map(|begin| begin..begin + alike(&runs[begin..], ratio));
    all.filter(|found| found.len() >= ratio).min_by_key(|found| std::cmp::Reverse(found.len()))
}

/// How many runs wait for a merge, beyond the usual number.
pub(super) fn runs_behind(levels: &Levels, ratio: usize) -> usize {
    let runs = runs_of(levels);
    let most = (0..runs.len()).map(|begin| alike(&runs[begin..], ratio)).max();
    most.unwrap_or(0).saturating_sub(ratio)
}

pub(super) fn urgency(levels: &Levels, goal: Goal, running: &[Extent]) -> f64 {
    let runs = runs_of(levels);
    let found = free_rows(levels, &runs, running).filter_map(|row| {
        let found = neighbours(&runs[row], goal.ratio)?;
        Some(found.len() as f64 / goal.ratio as f64)
    });
    found.fold(0.0, f64::max)
}

pub(super) fn pick(levels: &Levels, goal: Goal, running: &[Extent]) -> Option<Compaction> {
    let runs = runs_of(levels);
    if goal.style == CompactionStyle::LazyLeveled
        && is_full(levels, goal.ratio)
        && neighbours(&runs, goal.ratio).is_some()
        && let Some(compaction) = into_bottom(levels).beside(running)
    {
        return Some(compaction);
    }
    let merge_in = |row: Range<usize>| {
        let found = neighbours(&runs[row.clone()], goal.ratio)?;
        let (begin, end) = (row.start + found.start, row.start + found.end);
        let target = if end == runs.len() { BOTTOM } else { runs[end - 1].level };
        merge_of(levels, &runs[begin..end], target).beside(running)
    };
    free_rows(levels, &runs, running).find_map(merge_in).or_else(|| {
        due(levels, goal).find_map(|(level, table)| Compaction::in_place(level, table).beside(running))
    })
}

/// The rows of neighbours among `runs` of which no `running` merge takes part, newest first.
fn free_rows<'a>(
    levels: &'a Levels,
    runs: &'a [Run],
    running: &'a [Extent],
) -> impl Iterator<Item = Range<usize>> + 'a {
    let is_free = |run: &Run| {
        let tables = levels.level(run.level)[run.place.clone()].iter();
        let inputs: Vec<_> = tables.map(|table| (run.level, Arc::clone(table))).collect();
        may_join(&Extent::of(&inputs, run.level), running)
    };
    let is_free: Vec<bool> = runs.iter().map(|run| running.is_empty() || is_free(run)).collect();
    let mut begin = 0;
    std::iter::from_fn(move || {
        begin += is_free[begin..].iter().take_while(|free| !**free).count();
        let end = begin + is_free[begin..].iter().take_while(|free| **free).count();
        let row = begin..end;
        begin = end;
        (!row.is_empty()).then_some(row)
    })
}

fn merge_of(levels: &Levels, runs: &[Run], target: usize) -> Compaction {
    let tables = |run: &Run| {
        let (level, tables) = (run.level, levels.level(run.level)[run.place.clone()].to_vec());
        tables.into_iter().map(move |table| (level, table))
    };
    Compaction { inputs: runs.iter().flat_map(tables).collect(), target, for_reads: false, cut: None }
}

/// Whether the levels above the bottom level have grown to 1/ratio of its size.
fn is_full(levels: &Levels, ratio: usize) -> bool {
    let above: u64 = (0..BOTTOM).map(|level| levels.bytes(level)).sum();
    above.saturating_mul(ratio as u64) >= levels.bytes(BOTTOM)
}

/// The merge of all levels above the bottom level into it.
fn into_bottom(levels: &Levels) -> Compaction {
    let above = |(level, table): &(usize, &Arc<Table>)| {
        let meets = |other: &Table| table.overlaps(&other.info.smallest, &other.info.largest);
        *level < BOTTOM || levels.tables().any(|(other, above)| other < BOTTOM && meets(above))
    };
    let inputs = levels.tables().filter(above).map(|(level, table)| (level, Arc::clone(table)));
    Compaction { inputs: inputs.collect(), target: BOTTOM, for_reads: false, cut: None }
}
