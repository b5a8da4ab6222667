//! Which merges could give space back, though nothing else asks for them, and which of them are worth it.
//!
//! ```text
//! level 0    [ tombstones, newer versions ]      A merge downward takes a table, the older tables of level 0
//! level 5       [      ]   [      ]              that it overlaps, and everything that these overlap further
//! level 6    [    ][    ][    ][    ]            down: so its output may go to the bottom level.
//! ```
//! A merge in place takes one table in which range tombstones hide something, or expired or deleted entries lie in the
//! bottom level.
//!
//! *What a merge costs.* A merge reads what it gives back and what stays. It is worth it if at least a fifth of what it
//! reads goes: then a store takes at most 1.25 times what lives, and each byte that is deleted causes at most nine of
//! reading and writing. While a tree is written to, half has to go: more may soon follow. If newer versions hide older
//! ones, ordinary merges remove these as more is written, and doing it earlier would rewrite the tree more often. So the
//! upper tables may keep at most a third of what goes: then they are tombstones, or much smaller than what they replace.

use std::collections::HashSet;
use std::sync::Arc;

use super::dead::Gain;
use super::pick::{BOTTOM, Compaction};
use crate::cursor::SeqNo;
use crate::ranges::{KeyRange, RangeTombstones, next_key};
use crate::version::levels::{LEVELS, Levels, Table};

/// A merge that gives back fewer bytes is not worth the syncs.
pub(crate) const GAIN_MIN: u64 = 256 << 10;

/// The same on a full disk.
const GAIN_MIN_IF_FULL: u64 = 4 << 10;

/// How many times what is kept of the upper tables has to go.
const TIMES_KEPT: u64 = 3;

/// How eagerly a tree gives back space, ascending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pressure {
    /// Much is being written to it.
    Busy,
    /// Little or nothing is written to it.
    Calm,
    /// The disk is full, so any gain counts.
    Full,
}

impl Pressure {
    /// Whether a merge that leaves out `dead` bytes of `read`, and keeps `kept_above` of the upper tables, is worth it.
    fn allows(self, read: u64, dead: u64, kept_above: u64) -> bool {
        let at_least = |least: u64, part: u64| {
            dead >= least
                && dead.saturating_mul(part) >= read
                && dead >= kept_above.saturating_mul(TIMES_KEPT)
        };
        match self {
            Pressure::Busy => at_least(GAIN_MIN, 2),
            Pressure::Calm => at_least(GAIN_MIN, 5),
            Pressure::Full => dead >= GAIN_MIN_IF_FULL,
        }
    }

    /// Whether a merge that could leave out `most` of `read` bytes deserves a closer look.
    pub(crate) fn may_allow(self, read: u64, most: u64) -> bool {
        self.allows(read, most, 0)
    }

    /// Whether a merge with this gain is worth it now.
    pub(crate) fn wants_merge(self, gain: &Gain) -> bool {
        self.allows(gain.read, gain.dead, gain.kept_above)
    }

    /// Whether a merge with this gain is worth it after a flush, which writes `flushed` bytes.
    pub(crate) fn wants_flush(self, gain: &Gain, flushed: u64) -> bool {
        gain.dead_if_flushed > gain.dead
            && self.allows(
                gain.read.saturating_add(flushed),
                gain.dead_if_flushed,
                gain.kept_above_if_flushed,
            )
    }
}

/// Adds to `chosen`, tables with their levels, what has to go down with them: the older tables that they overlap.
fn with_older(levels: &Levels, mut chosen: Vec<(usize, Arc<Table>)>) -> Vec<(usize, Arc<Table>)> {
    let mut files: HashSet<_> = chosen.iter().map(|(level, table)| (*level, table.info.file)).collect();
    let mut at = 0;
    while let Some((level, table)) = chosen.get(at).cloned() {
        at += 1;
        let (smallest, largest) = (&table.info.smallest, &table.info.largest);
        for below in level..LEVELS {
            let is_older = |other: &Arc<Table>| below > 0 || other.info.min_seq < table.info.max_seq;
            let overlapped = levels.overlapping(below, smallest, largest);
            for other in
                overlapped.into_iter().filter(|other| below > level || (level == 0 && is_older(other)))
            {
                if files.insert((below, other.info.file)) {
                    chosen.push((below, other));
                }
            }
        }
    }
    chosen
}

fn merge_down(inputs: Vec<(usize, Arc<Table>)>) -> Option<Compaction> {
    match inputs.as_slice() {
        [] => None,
        // Nothing lies below it. A merge into another level would be a move, which drops nothing.
        [(level, table)] => Some(Compaction::in_place(*level, table)),
        _ => Some(Compaction { inputs, target: BOTTOM, for_reads: false }),
    }
}

/// The merge into the bottom level of everything that has keys in `smallest..=largest`, and what goes with that.
pub(crate) fn below(levels: &Levels, smallest: &[u8], largest: &[u8]) -> Option<Compaction> {
    let of_level =
        |level| levels.overlapping(level, smallest, largest).into_iter().map(move |table| (level, table));
    merge_down(with_older(levels, (0..LEVELS).flat_map(of_level).collect()))
}

/// The most bytes that `compaction` could leave out because of point deletions and newer versions, when `more` entries
/// join it. Each entry hides one, about.
pub(crate) fn most_hidden(compaction: &Compaction, more: u64) -> u64 {
    let infos = || compaction.inputs.iter().map(|(_, table)| &table.info);
    let deepest = compaction.inputs.iter().map(|(level, _)| *level).max().unwrap_or(0);
    let lowest = compaction.inputs.iter().filter(|(level, _)| deepest > 0 && *level == deepest);
    let lowest: u64 = lowest.map(|(_, table)| table.info.entries).sum();
    let upper = infos().map(|info| info.entries).sum::<u64>().saturating_sub(lowest);
    let tombstones: u64 = infos().map(|info| info.tombstones).sum();
    let largest = infos().map(|info| info.size / info.entries.max(1)).max().unwrap_or(0);
    upper.saturating_add(tombstones).saturating_add(more).saturating_mul(largest).min(compaction.bytes())
}

/// The merges that could give space back, the most promising first. `oldest`: the oldest read point, if snapshots that
/// held back older versions may have gone since the tables were written.
pub(crate) fn candidates(
    levels: &Levels,
    ranges: &RangeTombstones,
    pressure: Pressure,
    oldest: Option<SeqNo>,
) -> Vec<Compaction> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for (level, table) in levels.tables().filter(|(level, _)| *level < BOTTOM) {
        let Some(merge) = merge_down(with_older(levels, vec![(level, Arc::clone(table))])) else { continue };
        let mut files: Vec<_> = merge.inputs.iter().map(|(level, table)| (*level, table.info.file)).collect();
        files.sort_unstable();
        if seen.insert(files) {
            found.push((most_hidden(&merge, 0), merge));
        }
    }
    for (level, table) in levels.tables() {
        let merge = Compaction::in_place(level, table);
        let info = &table.info;
        let is_hidden = !ranges.is_empty() && {
            let keys = KeyRange { lower: info.smallest.clone(), upper: Some(next_key(&info.largest)) };
            ranges.reaches(&keys, info.cleared)
        };
        let was_held_back = oldest.is_some_and(|oldest| info.max_seq > 0 && info.max_seq <= oldest);
        if is_hidden || was_held_back {
            found.push((info.size, merge));
        } else if level == BOTTOM && info.tombstones > 0 {
            found.push((most_hidden(&merge, 0), merge));
        }
    }
    found.retain(|(most, merge)| pressure.may_allow(merge.bytes(), *most));
    let promise = |(most, merge): &(u64, Compaction)| *most as f64 / merge.bytes().max(1) as f64;
    found.sort_by(|a, b| promise(b).total_cmp(&promise(a)).then(b.0.cmp(&a.0)));
    found.into_iter().map(|(_, merge)| merge).collect()
}
