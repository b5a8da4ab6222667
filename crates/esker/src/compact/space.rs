//! Which merges could give space back although nothing else requires them, and which of them are worth it.
//!
//! ```text
//! level 0    [ tombstones, newer versions ]      A merge downward takes a table, the older tables of level 0
//! level 5       [      ]   [      ]              that it overlaps, and everything that these overlap further
//! level 6    [    ][    ][    ][    ]            down. Its output may go to the bottom level.
//! ```
//! A merge in place takes one table in which range tombstones hide something, or expired or deleted entries lie in the
//! bottom level.
//!
//! *Without room.* A merge writes its output before its inputs go. Tombstones that are spread over all keys require one
//! merge of the whole tree, for which a full disk may lack room. It is then done in parts, one table of the bottom
//! level each:
//!
//! ```text
//! level 0    [ tombstones         ]        [ ][ ][       ]     Each table above the bottom level is first cut where
//! level 6    [  ][  ][  ][  ]              [ ][ ][  ][  ]      tables of the bottom level begin: it is rewritten in its
//!                                                             level. Then each column is a merge of its own.
//! ```
//!
//! Neighbouring runs of level 0 are cut together, which makes fewer pieces. Each piece takes some room too, most of all if its
//! keys are long. Therefore a cut makes only as many columns as a quarter of the room suffices for, and at least one. When these
//! are merged, the rest is cut again.
//!
//! A column reaches up to the first key of the next table of the bottom level, even if its own table ends before that.
//! Therefore the output of such a merge overlaps no other table of the bottom level.
//!
//! *What a merge costs.* A merge reads dead and living bytes. It is worth it if at least a fifth of the bytes that it
//! reads is dead. Then a store takes at most 1.25 times its living bytes, and each deleted byte causes at most nine
//! bytes of reading and writing. While a tree is written to, half has to be dead: more may soon follow. If newer
//! versions hide older ones, ordinary merges remove these as more is written, and an earlier merge would rewrite the
//! tree more often. Therefore the merge may keep of the upper tables at most a third of the bytes that it drops: then
//! they are tombstones, or much smaller than the entries that they replace. That does not matter where ordinary merges
//! find no room, nor once nothing was written for a minute.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use super::dead::{Gain, Samples};
use super::pick::{BOTTOM, Compaction};
use crate::cursor::SeqNo;
use crate::ranges::{KeyRange, RangeTombstones, next_key};
use crate::version::levels::{LEVELS, Levels, Table};
use crate::version::table_info::TableInfo;

/// A merge is worth it if one part in this many of the bytes that it reads is dead. Then a store takes at most 1.25
/// times its living bytes: less than a fifth of it is dead. Guarantee S7 and the engine's tests (`idle_space.rs`) state
/// these figures too.
const PART_GIVEN_BACK: u64 = 5;
/// The same for a tree that is being written to.
const PART_GIVEN_BACK_IF_BUSY: u64 = 2;

/// A merge that gives back fewer bytes is not worth the syncs.
pub(crate) const GAIN_MIN: u64 = 256 << 10;

/// The same if nearly all input is dead: then hardly anything is written.
const GAIN_MIN_IF_ALL: u64 = 16 << 10;
/// Nearly all input is left out if at most one part in this many stays.
const PART_IF_ALL: u64 = 16;

/// A merge without much room for its output needs the estimate and this part of it, and the bytes of a small table.
const ROOM_PART: u64 = 8;
const ROOM_MIN: u64 = 64 << 10;
/// The most that a file takes on the disk in addition to its bytes: a block of the file system.
const BLOCK: u64 = 4 << 10;

/// The pieces of all cuts for a merge may take this part of the room.
const PIECES_PART: u64 = 4;
/// How often the first and the last key of a table are stored: in the manifest and its copy, in the table and its index.
const BOUNDS_STORED: u64 = 4;

/// The same as [`GAIN_MIN`] on a full disk.
const GAIN_MIN_IF_FULL: u64 = 4 << 10;

/// If level 0 has more tables, overlapping ones go down together. A full disk may have a thousand there, most of them
/// pieces of cuts.
const LEVEL_0_MAX: usize = 128;

/// The bytes left out must be at least this many times the bytes kept of the upper tables.
const TIMES_KEPT: u64 = 3;

/// How eagerly a tree gives back space, ascending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pressure {
    /// Much is being written to it.
    Busy,
    /// Little or nothing is written to it.
    Calm,
    /// Nothing was written to it for a minute, so no ordinary merge will soon remove the entries that newer versions
    /// hide.
    Idle,
    /// An ordinary merge has found no room, so nothing else removes the entries that newer versions hide.
    Cramped,
    /// The disk is full, so any gain counts.
    Full,
}

impl Pressure {
    /// Whether a merge that leaves out `dead` bytes of `read`, and keeps `kept_above` of the upper tables, is worth it.
    fn allows(self, read: u64, dead: u64, kept_above: u64) -> bool {
        let at_least = |least: u64, part: u64| dead >= least && dead.saturating_mul(part) >= read;
        let is_best_done_now = dead >= kept_above.saturating_mul(TIMES_KEPT);
        match self {
            Pressure::Busy => at_least(GAIN_MIN, PART_GIVEN_BACK_IF_BUSY) && is_best_done_now,
            Pressure::Calm => at_least(GAIN_MIN, PART_GIVEN_BACK) && is_best_done_now,
            Pressure::Idle | Pressure::Cramped => at_least(GAIN_MIN, PART_GIVEN_BACK),
            Pressure::Full => dead >= GAIN_MIN_IF_FULL,
        }
    }

    /// Whether a merge that could leave out `most` of `read` bytes deserves a closer look.
    pub(crate) fn may_allow(self, read: u64, most: u64) -> bool {
        self.allows(read, most, 0) || is_nearly_all(read, most)
    }

    /// Whether a merge with this gain is worth it now.
    pub(crate) fn wants_merge(self, gain: &Gain) -> bool {
        self.allows(gain.read, gain.dead, gain.kept_above) || is_nearly_all(gain.read, gain.dead)
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

/// Whether `dead` is nearly all of `read` bytes, and more than a trifle.
fn is_nearly_all(read: u64, dead: u64) -> bool {
    dead >= GAIN_MIN_IF_ALL && dead.saturating_add(read / PART_IF_ALL) >= read
}

/// The room that the output of a merge with this gain needs.
pub(crate) fn room_for(gain: &Gain) -> u64 {
    let output = gain.read.saturating_sub(gain.dead);
    output.saturating_add(output / ROOM_PART).saturating_add(ROOM_MIN)
}

/// One table of the bottom level, and the tables above it.
#[derive(Debug)]
pub(crate) struct Part {
    /// Its place in the bottom level.
    place: usize,
    /// The table of the bottom level, and all tables above that overlap it.
    pub(crate) merge: Compaction,
    /// Tables above that reach into other columns too, and have to be cut before the merge.
    pub(crate) wide: Vec<(usize, Arc<Table>)>,
    /// About how many bytes of the wide tables belong to the part.
    wide_bytes: u64,
}

impl Part {
    /// The place of its table in the bottom level.
    pub(crate) fn place(&self) -> usize {
        self.place
    }

    /// The gain of the merge once the wide tables are cut.
    pub(crate) fn gain(&self, measure: impl FnOnce(&Compaction, Samples<'_>) -> Gain) -> Gain {
        if self.wide.is_empty() {
            return measure(&self.merge, Samples::OfAll);
        }
        // The wide tables' entries in other columns are not typical of this part.
        let gain = measure(&self.merge, Samples::Without(&self.wide));
        Gain { read: gain.read.saturating_add(self.wide_bytes), ..gain }
    }

    /// The next step towards giving back the part's dead entries, with the room that it needs: a cut, or the merge itself,
    /// which needs `merge_room`. `None` if a cut needs more than `room`.
    pub(crate) fn next_step(self, levels: &Levels, merge_room: u64, room: u64) -> Option<(Compaction, u64)> {
        if self.wide.is_empty() {
            return Some((self.merge, merge_room));
        }
        let bounds =
            |(_, table): &(usize, Arc<Table>)| (table.info.smallest.len() + table.info.largest.len()) as u64;
        let piece_bytes = BLOCK + BOUNDS_STORED * self.wide.iter().map(bounds).max().unwrap_or(0);
        let of_one_column = piece_bytes.saturating_mul(self.wide.len() as u64);
        let columns = (room / PIECES_PART / of_one_column).max(1);
        // Before its first table, the first column has all keys.
        let end = (self.place + 1).saturating_add(columns as usize).min(levels.level(BOTTOM).len());
        let cut = self.place.max(1)..end;
        let pieces = cut.len() as u64 + 1;
        let needed = |read: u64| {
            room_for(&Gain { read, ..Gain::default() }).saturating_add(pieces.saturating_mul(piece_bytes))
        };
        if let Some(merge) = wide_runs(levels, &self.wide, |read| needed(read) <= room) {
            let room = needed(merge.bytes());
            return Some((Compaction { cut: Some(cut), ..merge }, room));
        }
        let (level, table) = self.wide.into_iter().find(|(_, table)| needed(table.info.size) <= room)?;
        Some((Compaction { cut: Some(cut), ..Compaction::in_place(level, &table) }, needed(table.info.size)))
    }
}

/// The cut of neighbouring runs of level 0 that each have a table of `wide`. It takes as many runs as fit by their
/// bytes, beginning with the oldest such run that fits. Cut together they make as many tables as one of them alone. A
/// thousand small tables would take more space than the merge gives back, and each look at them would take seconds.
fn wide_runs(
    levels: &Levels,
    wide: &[(usize, Arc<Table>)],
    fits: impl Fn(u64) -> bool,
) -> Option<Compaction> {
    let files = |tables: &[(usize, Arc<Table>)]| -> HashSet<_> {
        tables.iter().filter(|(level, _)| *level == 0).map(|(_, table)| table.info.file).collect()
    };
    let wide = files(wide);
    let mut chosen: Option<Compaction> = None;
    let mut runs: Vec<_> = levels.run_places().map(|place| &levels.level(0)[place]).collect();
    runs.reverse();
    for run in runs {
        let is_wide = run.iter().any(|table| wide.contains(&table.info.file));
        let mut inputs = chosen.as_ref().map_or_else(Vec::new, |cut| cut.inputs.clone());
        let taken = files(&inputs);
        let more = run.iter().filter(|table| !taken.contains(&table.info.file));
        inputs.extend(more.map(|table| (0, Arc::clone(table))));
        let next = Compaction { inputs, target: 0, for_reads: false, cut: None }.closed(levels);
        if is_wide && fits(next.bytes()) {
            chosen = Some(next);
        } else if chosen.is_some() {
            break;
        }
    }
    chosen
}

/// The parts in which the tables of a tree can be merged into the bottom level with little room. A part belongs to the
/// result if its table of the bottom level has one of the `numbers`.
pub(crate) fn parts(levels: &Levels, numbers: Range<usize>) -> impl Iterator<Item = Part> + '_ {
    let all = levels.level(BOTTOM);
    all.iter().enumerate().take(numbers.end).skip(numbers.start).filter_map(|(place, bottom)| {
        let mut inputs = vec![(BOTTOM, Arc::clone(bottom))];
        let mut files = HashSet::from([bottom.info.file]);
        let (mut wide, mut wide_bytes, mut at) = (Vec::new(), 0, 0);
        // Also the tables that overlap one of these, so that no entry gets below a newer one.
        while let Some((level, table)) = inputs.get(at).cloned() {
            at += 1;
            let (smallest, largest) = (&table.info.smallest, &table.info.largest);
            let columns = if level < BOTTOM { columns(all, &table.info) } else { 1 };
            if columns > 1 {
                wide_bytes += table.info.size / columns as u64;
                // Once it is cut, its overlaps in other columns do not matter.
                wide.push((level, table));
                continue;
            }
            for above in 0..BOTTOM {
                for other in levels.overlapping(above, smallest, largest) {
                    if files.insert(other.info.file) {
                        inputs.push((above, other));
                    }
                }
            }
        }
        let merge = Compaction { inputs, target: BOTTOM, for_reads: false, cut: None };
        (merge.inputs.len() > 1).then_some(Part { place, merge, wide, wide_bytes })
    })
}

/// How many columns the table `info` reaches into. Each table in `bottom`, the bottom level, begins a column. The first
/// column also has all keys before its table.
fn columns(bottom: &[Arc<Table>], info: &TableInfo) -> usize {
    let column_of = |key: &[u8]| bottom.partition_point(|table| table.info.smallest.as_slice() <= key).max(1);
    column_of(&info.largest) - column_of(&info.smallest) + 1
}

/// Groups of tables of level 0 that overlap, directly or by way of others.
fn clusters(level_0: &[Arc<Table>]) -> Vec<Vec<(usize, Arc<Table>)>> {
    let mut sorted: Vec<_> = level_0.iter().collect();
    sorted.sort_by(|a, b| a.info.smallest.cmp(&b.info.smallest));
    let mut clusters: Vec<Vec<(usize, Arc<Table>)>> = Vec::new();
    let mut end: Option<&[u8]> = None;
    for table in sorted {
        match clusters.last_mut().filter(|_| end.is_some_and(|end| table.info.smallest.as_slice() <= end)) {
            Some(cluster) => cluster.push((0, Arc::clone(table))),
            None => clusters.push(vec![(0, Arc::clone(table))]),
        }
        end = end.max(Some(&table.info.largest));
    }
    clusters
}

/// If the tree has a compaction rule, a function that finds the group of a key: the first key of the group, and the
/// first key after it. An entry of a group may hide any number of others in it.
pub(crate) type Groups<'a> = Option<&'a dyn Fn(&[u8]) -> (Vec<u8>, Vec<u8>)>;

/// Adds to `chosen`, tables with their levels, the tables that have to go down with them: the older tables that they
/// overlap.
fn with_older(
    levels: &Levels,
    chosen: Vec<(usize, Arc<Table>)>,
    groups: Groups<'_>,
) -> Vec<(usize, Arc<Table>)> {
    let files: HashSet<_> = chosen.iter().map(|(level, table)| (*level, table.info.file)).collect();
    let mut rest: Vec<_> = levels.level(0).iter().collect();
    rest.retain(|table| !files.contains(&(0, table.info.file)));
    with_lower(levels, chosen, rest, groups)
}

/// [`with_older`], with `rest` as the only tables of level 0 that may join.
fn with_lower(
    levels: &Levels,
    mut chosen: Vec<(usize, Arc<Table>)>,
    mut rest: Vec<&Arc<Table>>,
    groups: Groups<'_>,
) -> Vec<(usize, Arc<Table>)> {
    let mut files: HashSet<_> = chosen.iter().map(|(level, table)| (*level, table.info.file)).collect();
    let mut at = 0;
    while let Some((level, table)) = chosen.get(at).cloned() {
        at += 1;
        let (smallest, largest) = (&table.info.smallest, &table.info.largest);
        let hidden = groups.filter(|_| level < BOTTOM).map(|group_of| group_of(largest).1);
        let largest = hidden.as_ref().unwrap_or(largest);
        if level == 0 {
            rest.retain(|other| {
                let joins = other.info.min_seq < table.info.max_seq && other.overlaps(smallest, largest);
                if joins {
                    chosen.push((0, Arc::clone(other)));
                }
                !joins
            });
        }
        for below in level + 1..LEVELS {
            for other in levels.overlapping(below, smallest, largest) {
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
        _ => Some(Compaction { inputs, target: BOTTOM, for_reads: false, cut: None }),
    }
}

/// The merge into the bottom level of all tables with keys in `smallest..=largest`, and of the tables that have to go
/// with them.
pub(crate) fn below(
    levels: &Levels,
    smallest: &[u8],
    largest: &[u8],
    groups: Groups<'_>,
) -> Option<Compaction> {
    let hidden = groups.map(|group_of| group_of(largest).1);
    let largest = hidden.as_deref().unwrap_or(largest);
    let of_level =
        |level| levels.overlapping(level, smallest, largest).into_iter().map(move |table| (level, table));
    merge_down(with_older(levels, (0..LEVELS).flat_map(of_level).collect(), groups))
}

/// The most bytes that `compaction` could leave out because of point deletions and newer versions, when `more` entries
/// join it. Each entry hides one, about; `by_rule`: any number.
pub(crate) fn most_hidden(compaction: &Compaction, more: u64, by_rule: bool) -> u64 {
    let infos = || compaction.inputs.iter().map(|(_, table)| &table.info);
    let deepest = compaction.inputs.iter().map(|(level, _)| *level).max().unwrap_or(0);
    let lowest = compaction.inputs.iter().filter(|(level, _)| deepest > 0 && *level == deepest);
    let lowest: u64 = lowest.map(|(_, table)| table.info.entries).sum();
    let upper = infos().map(|info| info.entries).sum::<u64>().saturating_sub(lowest);
    let tombstones: u64 = infos().map(|info| info.tombstones).sum();
    let largest = infos().map(|info| info.size / info.entries.max(1)).max().unwrap_or(0);
    let hiding = upper.saturating_add(tombstones).saturating_add(more);
    let each = if by_rule { compaction.bytes() } else { largest };
    hiding.saturating_mul(each).min(compaction.bytes())
}

/// Whether `compaction` reads one table without tombstones, so that nothing in it hides another entry, unless a snapshot held
/// both. A memtable may still show that its entries are dead.
fn hides_nothing(compaction: &Compaction) -> bool {
    match compaction.inputs.as_slice() {
        [(level, table)] => *level < BOTTOM && table.info.tombstones == 0,
        _ => false,
    }
}

/// The tables that a merge reads, with their levels.
fn files_of(merge: &Compaction) -> Vec<(usize, u64)> {
    let mut files: Vec<_> = merge.inputs.iter().map(|(level, table)| (*level, table.info.file)).collect();
    files.sort_unstable();
    files
}

/// The merges that could give space back, the most promising first. `oldest`: the oldest read point, if snapshots that
/// held back older versions may have gone since the tables were written.
pub(crate) fn candidates(
    levels: &Levels,
    ranges: &RangeTombstones,
    pressure: Pressure,
    oldest: Option<SeqNo>,
    groups: Groups<'_>,
) -> Vec<Compaction> {
    // The most bytes that a merge could leave out, and how many of these its own inputs may hide.
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    // The entry that hides others of a group of many tables may lie in a table of the bottom level, above none of the
    // others.
    if let Some(group_of) = groups {
        let mut last = None;
        for (_, table) in levels.tables() {
            let group = group_of(&table.info.smallest);
            if group.0 < group.1
                && group == group_of(&table.info.largest)
                && last.replace(group.clone()) != Some(group.clone())
                && let Some(merge) = below(levels, &group.0, &group.1, None)
                && seen.insert(files_of(&merge))
            {
                found.push((merge.bytes(), 0, merge));
            }
        }
    }
    let tables = || levels.tables().map(|(level, table)| (level, Arc::clone(table)));
    let each_of =
        |of: Range<usize>| tables().filter(move |(level, _)| of.contains(level)).map(|table| vec![table]);
    let of_level_0: Vec<_> = match levels.level(0) {
        many if many.len() > LEVEL_0_MAX => clusters(many)
            .into_iter()
            .map(|cluster| with_lower(levels, cluster, Vec::new(), groups))
            .collect(),
        _ => each_of(0..1).map(|chosen| with_older(levels, chosen, groups)).collect(),
    };
    let of_others = each_of(1..BOTTOM).map(|chosen| with_lower(levels, chosen, Vec::new(), groups));
    // The hiding entries may lie in several tables that do not overlap: then no merge of one of them leaves out enough.
    for inputs in of_level_0.into_iter().chain(of_others).chain([tables().collect()]) {
        let Some(merge) = merge_down(inputs) else { continue };
        if seen.insert(files_of(&merge)) {
            let most = most_hidden(&merge, 0, groups.is_some());
            found.push((most, if hides_nothing(&merge) { 0 } else { most }, merge));
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
            found.push((info.size, info.size, merge));
        } else if level == BOTTOM && info.tombstones > 0 {
            let most = most_hidden(&merge, 0, false);
            found.push((most, most, merge));
        }
    }
    found.retain(|(most, _, merge)| pressure.may_allow(merge.bytes(), *most));
    let promise = |(_, shown, merge): &(u64, u64, Compaction)| *shown as f64 / merge.bytes().max(1) as f64;
    found.sort_by(|a, b| promise(b).total_cmp(&promise(a)).then(b.1.cmp(&a.1)));
    found.into_iter().map(|(_, _, merge)| merge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Db;
    use crate::options::Options;
    use crate::rng::Rng;

    /// The keys of a table, as single bytes.
    type Span = (u8, u8);

    /// Levels whose tables have random keys out of about thirty; many have gaps between the tables.
    fn random_spans(rng: &mut Rng) -> Vec<(usize, Span)> {
        let mut spans = Vec::new();
        for level in [1, 5, BOTTOM] {
            let mut at = rng.index(8) as u8;
            while at < 30 {
                let end = at + rng.index(6) as u8;
                spans.push((level, (at, end)));
                at = end + 1 + rng.index(6) as u8;
            }
        }
        for _ in 0..rng.index(4) {
            let begin = rng.index(30) as u8;
            spans.push((0, (begin, begin + rng.index(20) as u8)));
        }
        spans.retain(|(level, _)| *level == BOTTOM || rng.index(3) > 0);
        spans
    }

    fn levels_of(db: &Db, spans: &[(usize, Span)]) -> Levels {
        let tables = spans.iter().enumerate().map(|(at, &(level, (smallest, largest)))| {
            let (file, seq) = (at as u64 + 1, 1000 - at as u64);
            let (smallest, largest) = (vec![smallest], vec![largest]);
            let info = TableInfo {
                file,
                size: 1 << 20,
                entries: 1000,
                tombstones: 300,
                smallest,
                largest,
                min_seq: seq,
                max_seq: seq,
                ..TableInfo::default()
            };
            (level, Table::new(db.store().registry().file(file, 0), info))
        });
        Levels::default().with(&[], tables.collect())
    }

    /// Many tables of level 0 that hide nothing, as they lie there when merges find no room, and one that may.
    #[test]
    fn merges_that_can_give_nothing_back_come_last() {
        let db = Db::open_in_memory(Options::default()).unwrap();
        let table = |file: u64, key: u8, tombstones: u64| {
            let info = TableInfo {
                file,
                size: 1 << 20,
                entries: 1000,
                tombstones,
                smallest: vec![key],
                largest: vec![key],
                min_seq: file,
                max_seq: file,
                ..TableInfo::default()
            };
            Table::new(db.store().registry().file(file, 0), info)
        };
        let mut tables: Vec<_> = (0..50).map(|key| (0, table(u64::from(key) + 100, key, 0))).collect();
        tables.extend([(0, table(200, 60, 300)), (BOTTOM, table(1, 60, 0))]);
        let levels = Levels::default().with(&[], tables);
        for pressure in [Pressure::Busy, Pressure::Calm, Pressure::Idle, Pressure::Cramped, Pressure::Full] {
            let all = candidates(&levels, &RangeTombstones::default(), pressure, None, None);
            let of_tombstones =
                |merge: &Compaction| merge.inputs.iter().any(|(_, table)| table.info.file == 200);
            assert!(of_tombstones(&all[0]), "{pressure:?}: {:?}", all[0]);
        }
    }

    /// Compared with a plain definition: no table that stays is older than one that goes and overlaps it, and no table
    /// goes without need.
    #[test]
    fn what_is_older_goes_down_too() {
        let db = Db::open_in_memory(Options::default()).unwrap();
        for seed in test_kit::seeds(300) {
            let mut rng = Rng::new(seed);
            let mut spans = random_spans(&mut rng);
            for _ in 0..rng.index(20) {
                let begin = rng.index(30) as u8;
                spans.insert(rng.index(spans.len() + 1), (0, (begin, begin + rng.index(8) as u8)));
            }
            let levels = levels_of(&db, &spans);
            let all: Vec<_> = levels.tables().map(|(level, table)| (level, Arc::clone(table))).collect();
            for first in &all {
                let goes_with = |(level, table): &(usize, Arc<Table>),
                                 (below, other): &(usize, Arc<Table>)| {
                    let is_older = below > level
                        || (*level == 0 && *below == 0 && other.info.min_seq < table.info.max_seq);
                    is_older && other.overlaps(&table.info.smallest, &table.info.largest)
                };
                let mut expected = vec![first.clone()];
                let mut at = 0;
                while let Some(table) = expected.get(at).cloned() {
                    at += 1;
                    for other in &all {
                        let is_new = expected.iter().all(|(_, one)| !Arc::ptr_eq(one, &other.1));
                        if is_new && goes_with(&table, other) {
                            expected.push(other.clone());
                        }
                    }
                }
                let files = |tables: &[(usize, Arc<Table>)]| {
                    let mut files: Vec<_> =
                        tables.iter().map(|(level, table)| (*level, table.info.file)).collect();
                    files.sort_unstable();
                    files
                };
                let found = with_older(&levels, vec![first.clone()], None);
                assert_eq!(files(&found), files(&expected), "ESKER_SEED={seed}: {first:?} of {spans:?}");
            }
        }
    }

    /// As with few tables, no entry gets below an older one. Each table is in a merge, and the tables of level 0 are in
    /// few.
    #[test]
    fn many_tables_of_level_0_go_down_by_clusters() {
        let db = Db::open_in_memory(Options::default()).unwrap();
        for seed in test_kit::seeds(20) {
            let mut rng = Rng::new(seed);
            let mut spans: Vec<_> = (0..100).map(|at| (BOTTOM, (at * 2, at * 2))).collect();
            spans.extend((0..60).map(|at| (5, (at * 3, at * 3 + 1))));
            for _ in 0..2 * LEVEL_0_MAX {
                let begin = rng.index(200) as u8;
                spans.insert(0, (0, (begin, begin.saturating_add(rng.index(3) as u8))));
            }
            let levels = levels_of(&db, &spans);
            let merges = candidates(&levels, &RangeTombstones::default(), Pressure::Full, None, None);
            for (level, table) in levels.tables() {
                let is_in = |merge: &&Compaction| merge.inputs.iter().any(|(_, one)| Arc::ptr_eq(one, table));
                assert!(
                    level == BOTTOM || merges.iter().any(|merge| is_in(&merge)),
                    "ESKER_SEED={seed}: {table:?}"
                );
                for merge in merges.iter().filter(|merge| !is_in(merge)) {
                    let stays_below = |(above, input): &(usize, Arc<Table>)| {
                        let is_older = level > *above
                            || (level == 0 && *above == 0 && table.info.min_seq < input.info.max_seq);
                        is_older && table.overlaps(&input.info.smallest, &input.info.largest)
                    };
                    assert!(
                        merge.inputs.len() == 1 || !merge.inputs.iter().any(stays_below),
                        "ESKER_SEED={seed}: {table:?} stays below {merge:?}"
                    );
                }
            }
            let of_level_0 = merges.iter().filter(|merge| merge.inputs.iter().any(|(level, _)| *level == 0));
            assert!(of_level_0.count() < LEVEL_0_MAX, "ESKER_SEED={seed}");
        }
    }

    /// Flushes of several tables with interleaved numbers. Of two tables that overlap after a cut, one is newer in all
    /// entries.
    #[test]
    fn runs_that_are_cut_together_stay_in_order() {
        let db = Db::open_in_memory(Options::default()).unwrap();
        let (mut several, mut joined) = (0, 0);
        for seed in test_kit::seeds(1000) {
            let mut rng = Rng::new(seed);
            let mut tables = Vec::new();
            let mut add = |level: usize, keys: Span, numbers: (SeqNo, SeqNo)| {
                let info = TableInfo {
                    file: tables.len() as u64 + 1,
                    size: 1 << 20,
                    smallest: vec![keys.0],
                    largest: vec![keys.1],
                    min_seq: numbers.0,
                    max_seq: numbers.1,
                    ..TableInfo::default()
                };
                tables.push((level, Table::new(db.store().registry().file(info.file, 0), info)));
            };
            (0..8).for_each(|at| add(BOTTOM, (at * 10, at * 10 + 5), (0, 0)));
            for flush in 1..=1 + rng.index(6) as SeqNo {
                let (mut begin, mut number) = (rng.index(30) as u8, 0);
                while begin < 80 {
                    let end = begin + rng.index(25) as u8;
                    add(0, (begin, end), (flush * 100 + number, flush * 100 + 99 - number));
                    (begin, number) = (end + 1 + rng.index(20) as u8, number + 1);
                }
            }
            let levels = Levels::default().with(&[], tables);
            let room = (rng.index(16) as u64) << 20;
            for part in parts(&levels, 0..usize::MAX) {
                let wide = part.wide.clone();
                let Some((step, needed)) = part.next_step(&levels, 0, room) else { continue };
                assert_eq!(step.cut.is_some(), !wide.is_empty());
                if step.cut.is_none() {
                    continue;
                }
                assert!(step.bytes() <= needed && needed <= room, "ESKER_SEED={seed}: {step:?}");
                // The pieces of all cuts for the part take a quarter of the room at most, unless it is for one column.
                let columns = step.cut.as_ref().map_or(0, ExactSizeIterator::len) as u64;
                let pieces = columns.saturating_sub(1) * wide.len() as u64;
                assert!(columns > 0, "ESKER_SEED={seed}: {step:?}");
                assert!(columns <= 2 || pieces * BLOCK <= room / 4, "ESKER_SEED={seed}: {step:?}");
                let is_input =
                    |table: &Arc<Table>| step.inputs.iter().any(|(_, one)| Arc::ptr_eq(one, table));
                assert!(wide.iter().any(|(_, table)| is_input(table)), "ESKER_SEED={seed}: {step:?}");
                let infos = || step.inputs.iter().map(|(_, table)| &table.info);
                let files: HashSet<_> = infos().map(|info| info.file).collect();
                assert_eq!(files.len(), step.inputs.len(), "ESKER_SEED={seed}: {step:?}");
                let oldest = infos().map(|info| info.min_seq).min().unwrap();
                let newest = infos().map(|info| info.max_seq).max().unwrap();
                let smallest = infos().map(|info| &info.smallest).min().unwrap();
                let largest = infos().map(|info| &info.largest).max().unwrap();
                for table in levels.overlapping(0, smallest, largest).iter().filter(|table| !is_input(table))
                {
                    assert!(
                        table.info.max_seq < oldest || table.info.min_seq > newest,
                        "ESKER_SEED={seed}: {table:?} and {step:?}"
                    );
                }
                several += u32::from(step.inputs.len() > 1);
                let runs = levels.runs().filter(|run| run.iter().any(is_input));
                joined += runs.filter(|run| !run.iter().all(is_input)).count();
            }
        }
        assert!(several > 100 && joined > 10 || !test_kit::is_full_run(), "{several}, {joined}");
    }

    #[test]
    fn a_merge_of_a_part_overlaps_nothing_that_stays() {
        let db = Db::open_in_memory(Options::default()).unwrap();
        let mut merges = 0;
        for seed in test_kit::seeds(1000) {
            let mut rng = Rng::new(seed);
            let mut spans = random_spans(&mut rng);
            // Each cut leaves fewer tables that reach into several columns.
            for step in 0.. {
                assert!(step < 500, "ESKER_SEED={seed}: cut without end: {spans:?}");
                let levels = levels_of(&db, &spans);
                let bottom: Vec<u8> =
                    levels.level(BOTTOM).iter().map(|table| table.info.smallest[0]).collect();
                let mut cut = None;
                for part in parts(&levels, 0..usize::MAX) {
                    if let Some((level, table)) = part.wide.first() {
                        cut = Some((*level, (table.info.smallest[0], table.info.largest[0])));
                        continue;
                    }
                    merges += 1;
                    let inputs = &part.merge.inputs;
                    let smallest = inputs.iter().map(|(_, table)| &table.info.smallest).min().unwrap();
                    let largest = inputs.iter().map(|(_, table)| &table.info.largest).max().unwrap();
                    let below = levels.overlapping(BOTTOM, smallest, largest);
                    assert_eq!(below.len(), 1, "ESKER_SEED={seed}: {inputs:?} of {spans:?}");
                    for (_, table) in inputs {
                        let is_input =
                            |other: &Arc<Table>| inputs.iter().any(|(_, one)| Arc::ptr_eq(one, other));
                        for above in 0..BOTTOM {
                            let others = levels.overlapping(above, &table.info.smallest, &table.info.largest);
                            assert!(
                                others.iter().all(is_input),
                                "ESKER_SEED={seed}: {inputs:?} of {spans:?}"
                            );
                        }
                    }
                }
                let Some((level, (smallest, largest))) = cut else { break };
                let at = spans.iter().position(|span| *span == (level, (smallest, largest))).unwrap();
                let mut begin = smallest;
                let ends = bottom.iter().filter(|key| smallest < **key && **key <= largest);
                let pieces: Vec<_> =
                    ends.map(|key| (level, (std::mem::replace(&mut begin, *key), *key - 1))).collect();
                spans.splice(at..=at, pieces.into_iter().chain([(level, (begin, largest))]));
            }
        }
        assert!(merges > 100 || !test_kit::is_full_run(), "{merges} merges");
    }
}
