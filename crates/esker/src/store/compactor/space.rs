//! Looks for dead entries that take space, even if nothing else requires a flush or a merge, and even if nothing is
//! written. [`crate::compact::space`] decides which merges are worth it.
//!
//! A look compares each tree with its state at its last measurement. The tree is measured again if that state has
//! changed enough to matter. A write wakes the merge job once; after that the job looks every [`LOOK_US`] until every
//! tree has been measured while it was idle. Later looks, which come with the job's own wake-ups, read nothing until
//! something is written or a snapshot goes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::super::{CommitLog, Core, Flusher};
use super::cuts::{Cuts, Pieces};
use super::passed::written_by_flush;
use super::rehearsal::Rehearsal;
use crate::compact::dead::{Gain, Samples, measure};
use crate::compact::pick::{BOTTOM, Compaction};
use crate::compact::space::{GAIN_MIN, Groups, Pressure, below, candidates, most_hidden, parts, room_for};
use crate::cursor::{Cursor, SeqNo};
use crate::error::Result;
use crate::space::is_full;
use crate::state::versions::VersionSet;
use crate::state::{Mem, TreeInner, TreeState};
use crate::version::edit::TreeId;
use crate::version::levels::Levels;

/// How often the trees are looked at while something is being written, in microseconds.
const LOOK_US: u64 = 2_000_000;

/// How often they are looked at on a full disk.
const LOOK_IF_FULL: Duration = Duration::from_secs(1);

/// A tree is idle if nothing was written to it for this many microseconds.
const IDLE_US: u64 = 60_000_000;

/// A tree is calm if it got at most this many entries since the last look, or one in [`CALM_PART`] of its entries.
const CALM_ENTRIES: u64 = 100;
const CALM_PART: u64 = 100;

/// A calm tree is measured again when new entries may hide one part in this many of its tables; a busy one, a fourth.
const PART_TO_MEASURE: u64 = 64;
const PART_IF_BUSY: u64 = 4;

/// Samples that show whether a merge deserves [`SAMPLES`].
const FIRST_SAMPLES: u64 = 32;
const SAMPLES: u64 = 256;

/// At most this many merges are measured in a tree in one look.
const CANDIDATES_MAX: usize = 64;

/// At most this many parts of a tree are measured in one look. The next look continues with the rest. The same holds
/// for merges.
const PARTS_MAX: usize = 256;

/// The properties of a tree's tables that a look compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    tables: usize,
    newest_table: u64,
    table_bytes: u64,
    newest_range: SeqNo,
    oldest_snapshot: Option<SeqNo>,
}

impl Shape {
    fn of(state: &TreeState, oldest_snapshot: Option<SeqNo>) -> Shape {
        let mut shape = Shape {
            tables: 0,
            newest_table: 0,
            table_bytes: 0,
            newest_range: state.ranges.newest(),
            oldest_snapshot,
        };
        for (_, table) in state.levels.tables() {
            shape.tables += 1;
            shape.newest_table = shape.newest_table.max(table.info.file);
            shape.table_bytes += table.info.size;
        }
        shape
    }
}

/// The results of the last look at a tree.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Entries written to its memtable by the last look, and when a look last found new ones, by the monotonic clock.
    entries: u64,
    changed_us: u64,
    measured: Option<Measured>,
    /// The part that the next look begins with on a full disk, if the last one has found a step for a part. Each step
    /// changes the tree. A look that started over would measure the same useless merges before each step.
    next_part: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
struct Measured {
    shape: Shape,
    /// Entries written to its memtable.
    entries: u64,
    pressure: Pressure,
    /// The room that was too small for a merge that is worth it.
    lacking: Option<u64>,
    /// How much of the tree in its present state was measured.
    progress: Progress,
}

/// How much of an unchanged tree several looks have measured.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// Merges that were measured, in the order of [`candidates`].
    candidates: usize,
    /// Parts that were measured, in their order.
    parts: usize,
    /// One of the merges can only be done in parts.
    needs_parts: bool,
    is_done: bool,
}

#[derive(Debug, Default)]
struct Looks {
    trees: BTreeMap<TreeId, Seen>,
    /// The tree of the last merge that was found. The next look begins after it.
    found: Option<TreeId>,
    /// The oldest snapshot at the last look.
    snapshot: Option<SeqNo>,
    next_us: u64,
}

/// A merge that gives space back.
pub(super) struct Found {
    pub(super) tree: Arc<TreeInner>,
    /// The levels that it was found in.
    pub(super) levels: Arc<Levels>,
    pub(super) compaction: Compaction,
    /// Estimated disk space that it needs until its inputs are removed, in bytes.
    pub(super) room: u64,
}

/// The work that was done to give space back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    /// A merge was done, or a flush has begun.
    Begun,
    /// Nothing yet. The next look continues with the parts that this one has not measured.
    GoesOn,
    Nothing,
}

/// The result of a look.
pub(super) enum Look {
    Found(Found),
    Done(Done),
}

/// The work that a tree needs.
enum Wanted {
    /// This merge, which needs this much room. If it is a step for a part, the next look begins with the part of this
    /// number.
    Merge(Compaction, u64, Option<usize>),
    Flush,
    /// A merge, as soon as there is more room.
    Room,
}

/// See the module's comment.
pub(super) struct SpaceWatch {
    core: Arc<Core>,
    log: Arc<CommitLog>,
    flusher: Arc<Flusher>,
    versions: Arc<VersionSet>,
    looks: Mutex<Looks>,
    /// Whether a tree has to be looked at again soon.
    looks_again: AtomicBool,
    cuts: Cuts,
}

impl SpaceWatch {
    pub(super) fn new(
        core: &Arc<Core>,
        log: &Arc<CommitLog>,
        flusher: &Arc<Flusher>,
        versions: &Arc<VersionSet>,
    ) -> SpaceWatch {
        let now_us = core.env().clock.monotonic_us();
        SpaceWatch {
            core: Arc::clone(core),
            log: Arc::clone(log),
            flusher: Arc::clone(flusher),
            versions: Arc::clone(versions),
            // A program that opens a store for one call leaves no time for this.
            looks: Mutex::new(Looks { next_us: now_us.saturating_add(LOOK_US), ..Looks::default() }),
            looks_again: AtomicBool::new(true),
            cuts: Cuts::default(),
        }
    }

    /// Whether tables of `tree` were cut, and their pieces have to stay.
    pub(super) fn has_cut(&self, tree: &TreeInner) -> bool {
        self.cuts.has(tree.id)
    }

    /// Notes that tables of `tree`, whose tables are `levels`, are about to be cut.
    pub(super) fn note_cut(&self, tree: &TreeInner, levels: &Levels) {
        self.cuts.add(tree.id, Pieces::of(levels), self.core.env().clock.monotonic_us());
    }

    /// [`Cuts::is_cutting_any`].
    pub(super) fn is_cutting_any(&self) -> bool {
        self.cuts.is_cutting_any()
    }

    /// [`Cuts::end`], for a tree whose tables are `levels`.
    fn end_cut(&self, tree: &TreeInner, levels: &Levels, room: u64, is_done: bool) {
        if self.cuts.has(tree.id) {
            let now_us = self.core.env().clock.monotonic_us();
            self.cuts.end(tree.id, Pieces::of(levels), room, is_done, now_us);
        }
    }

    /// After how long to look again, if soon.
    pub(super) fn look_again(&self) -> Option<Duration> {
        let again = if self.is_disk_full() { LOOK_IF_FULL } else { Duration::from_micros(LOOK_US) };
        self.looks_again.load(Ordering::Relaxed).then_some(again)
    }

    fn is_disk_full(&self) -> bool {
        self.core.health.failure().is_some_and(|error| is_full(&error))
    }

    /// Looks at all trees, if it is time. Begins flushes that make dead entries known to merges. Finds a merge that
    /// gives space back, needs at most `room` bytes, and has room by `has_room`.
    /// `is_cramped`: whether an ordinary merge of a tree has found no room.
    pub(super) fn look(
        &self,
        room: u64,
        is_cramped: impl Fn(&TreeInner) -> bool,
        has_room: impl Fn(&TreeInner, &Compaction) -> bool,
    ) -> Result<Look> {
        let Some(mut looks) = self.looks.try_lock() else { return Ok(Look::Done(Done::Nothing)) };
        let (now, is_full) = (self.core.env().clock.monotonic_us(), self.is_disk_full());
        if now < looks.next_us && !is_full {
            // A write may have woken the job, which it does once.
            self.looks_again.store(true, Ordering::Relaxed);
            return Ok(Look::Done(Done::Nothing));
        }
        looks.next_us = now.saturating_add(LOOK_US);
        // Before the trees are read: a write that this look does not see wakes the job.
        self.core.await_write();
        let mut trees = self.versions.trees();
        let first = trees.iter().position(|tree| Some(tree.id) > looks.found).unwrap_or(0);
        trees.rotate_left(first);
        looks.trees.retain(|id, _| trees.iter().any(|tree| tree.id == *id));
        self.cuts.retain(|id| trees.iter().any(|tree| tree.id == id && !tree.is_dropped()));
        // Many reads take a snapshot for a moment.
        let snapshot = self.core.snapshots.registered().first().copied();
        let held_by = snapshot.filter(|_| snapshot == looks.snapshot);
        looks.snapshot = snapshot;
        // Entries that such a snapshot sees are taken for living. Therefore the present measurement says nothing of the
        // time after the snapshot.
        let is_hindered = snapshot != held_by;
        let (mut looks_again, mut flushes, mut goes_on) = (is_hindered, false, false);
        for tree in trees.iter().filter(|tree| !tree.is_dropped()) {
            let state = tree.state.load_full();
            self.end_cut(tree, &state.levels, room, false);
            if state.levels.tables().next().is_none() {
                continue;
            }
            let entries = state.mem.written();
            let seen = looks.trees.get(&tree.id).copied();
            let is_new = seen.is_none_or(|seen| seen.entries != entries);
            // A flush leaves an empty memtable.
            let is_written = is_new && (entries > 0 || seen.is_none());
            let changed_us = seen.filter(|_| !is_written).map_or(now, |seen| seen.changed_us);
            let is_idle = now.saturating_sub(changed_us) >= IDLE_US;
            // Tables that were cut for lack of room are merged even if so few runs are left that no ordinary merge is
            // wanted.
            let pressure = match (is_full, is_cramped(tree) || self.cuts.is_cutting(tree.id)) {
                (true, _) => Pressure::Full,
                (false, true) => Pressure::Cramped,
                (false, false) if is_idle => Pressure::Idle,
                (false, false) => pressure_of(&state, entries, seen),
            };
            let before = seen.and_then(|seen| seen.measured);
            let seen_now = |measured| Seen { entries, changed_us, measured, next_part: None };
            let next_part = seen.and_then(|seen| seen.next_part).filter(|_| pressure == Pressure::Full);
            looks.trees.insert(tree.id, Seen { next_part, ..seen_now(before) });
            let measured = Measured {
                shape: Shape::of(&state, held_by),
                entries,
                pressure,
                lacking: None,
                progress: Progress::default(),
            };
            // Later the tree becomes calm, and then idle, or its memtable is flushed.
            looks_again |= pressure < Pressure::Idle || !state.immutable.is_empty();
            looks_again |= before.is_some_and(|before| before.lacking.is_some());
            // On a full disk the flush may have to wait for the room that a merge gives back.
            let waits_for_flush = !state.immutable.is_empty() && pressure != Pressure::Full;
            let covering = before.filter(|before| before.covers(&state, &measured, room));
            if waits_for_flush {
                continue;
            }
            // A few new entries of a tree with a rule may hide much. Whether a flush would show that is measured each time.
            let may_hide_much = is_new && self.core.has_rule_of(tree) && pressure != Pressure::Busy;
            let is_done = covering.is_some_and(|before| before.progress.is_done);
            if is_done && !may_hide_much {
                self.end_cut(tree, &state.levels, room, true);
                continue;
            }
            let done = covering.filter(|_| is_done);
            // Other pressures have other candidates, of which nothing is left if all were measured at a higher one.
            let same = covering.filter(|before| before.pressure == pressure).or(done);
            let progress = same.map_or(Progress::default(), |before| before.progress);
            let measured =
                Measured { progress, entries: done.map_or(entries, |before| before.entries), ..measured };
            let (wanted, progress) =
                self.measured(tree, &state, &measured, seen, room, |merge| has_room(tree, merge))?;
            // The next look measures the rest.
            looks_again |= !progress.is_done;
            // A delete that waits for room must not take the store for idle before everything is measured. After a
            // write to the tree, or with another snapshot, the next look measures all of it again.
            goes_on |= is_full && !progress.is_done && !is_hindered && !is_new;
            let lacking = covering.and_then(|before| before.lacking);
            let measured = Measured { lacking, progress, ..measured };
            if progress.is_done && !matches!(wanted, Some(Wanted::Merge(..))) {
                self.end_cut(tree, &state.levels, room, true);
            }
            match wanted {
                Some(Wanted::Merge(compaction, room, next_part)) => {
                    // It is measured again when the merge is done, or could not begin.
                    self.looks_again.store(true, Ordering::Relaxed);
                    looks.found = Some(tree.id);
                    looks.trees.insert(tree.id, Seen { next_part, ..seen_now(before) });
                    let (tree, levels) = (Arc::clone(tree), Arc::clone(&state.levels));
                    return Ok(Look::Found(Found { tree, levels, compaction, room }));
                }
                Some(Wanted::Flush) => {
                    self.flusher.switch_memtable(tree, 0);
                    (flushes, looks_again) = (true, true);
                    looks.next_us = now;
                }
                Some(Wanted::Room) => {
                    let measured = Measured { lacking: Some(room), ..measured };
                    let measured = (!is_hindered).then_some(measured);
                    looks.trees.insert(tree.id, seen_now(measured));
                    looks_again = true;
                }
                None => {
                    let measured = (!is_hindered).then_some(measured);
                    looks.trees.insert(tree.id, seen_now(measured));
                }
            }
        }
        self.looks_again.store(looks_again, Ordering::Relaxed);
        Ok(Look::Done(match (flushes, goes_on) {
            (true, _) => Done::Begun,
            (false, true) => Done::GoesOn,
            (false, false) => Done::Nothing,
        }))
    }

    /// A merge that a look has found is done: there may be more to give back.
    pub(super) fn look_soon(&self) {
        self.looks.lock().next_us = 0;
    }

    /// Finds a step that would give back space in `tree`. On a full disk it first looks among the parts from the next
    /// part of `seen` on. After that it looks at all that the progress of `now` leaves.
    fn measured(
        &self,
        tree: &TreeInner,
        state: &TreeState,
        now: &Measured,
        seen: Option<Seen>,
        room: u64,
        has_room: impl Fn(&Compaction) -> bool,
    ) -> Result<(Option<Wanted>, Progress)> {
        let Measured { pressure, mut progress, .. } = *now;
        let points = self.log.read_points().of(tree);
        let flushed = tree.flushed_up_to();
        let by_flush = written_by_flush(state, flushed);
        let rule = tree.options().rule.filter(|_| self.core.has_rule_of(tree));
        let by_rule = rule.as_ref().map(|rule| {
            let (core, points) = (&*self.core, &points);
            Rehearsal { core, tree, state, rule, points, flushed }
        });
        // A merge of a table that cannot be read gains nothing: it would fail, and end all writes. Reads and checks
        // report the damage.
        let gain_of = |merge: &Compaction, which: Samples<'_>, count| {
            // If the rule panics, the merge is measured without it.
            let by_rule = by_rule.as_ref().and_then(|rehearsal| rehearsal.gain(merge, which, count).ok());
            by_rule
                .unwrap_or_else(|| measure(state, merge, &points, flushed, which, count).unwrap_or_default())
        };
        let before = seen.and_then(|seen| seen.measured);
        if pressure == Pressure::Full
            && let Some(mut parts) = seen.and_then(|seen| seen.next_part)
            && let Some(step) = step_of_part(state, pressure, &mut parts, room, gain_of)
        {
            return Ok((Some(step), Progress::default()));
        }
        // While much is written, ordinary merges reach the entries that one entry may hide.
        let may_hide_many = pressure != Pressure::Busy;
        let group_of =
            by_rule.as_ref().filter(|_| may_hide_many).map(|by_rule| |key: &[u8]| by_rule.group_of(key));
        let groups: Groups<'_> = group_of.as_ref().map(|group_of| group_of as _);
        let gain = |merge: &Compaction, count| gain_of(merge, Samples::OfAll, count);
        let oldest = points.seqs.first().copied();
        // Snapshots may also have gone before the store was opened.
        let oldest = oldest.filter(|_| before.is_none_or(|before| before.shape.oldest_snapshot.is_some()));
        let mut needs_flush = false;
        let candidates = candidates(&state.levels, &state.ranges, pressure, oldest, groups);
        let count = candidates.len();
        let left = candidates.into_iter().skip(progress.candidates);
        progress.candidates += CANDIDATES_MAX;
        for merge in left.take(CANDIDATES_MAX) {
            if !has_room(&merge) {
                progress.needs_parts = true;
                continue;
            }
            let first = gain(&merge, FIRST_SAMPLES);
            if !pressure.wants_merge(&coarse(first)) && !pressure.wants_flush(&coarse(first), by_flush) {
                continue;
            }
            let gain = gain(&merge, SAMPLES);
            if pressure.wants_merge(&gain) {
                if room_for(&gain) <= room {
                    return Ok((Some(Wanted::Merge(merge, room_for(&gain), None)), progress));
                }
                progress.needs_parts = true;
            }
            needs_flush |= pressure.wants_flush(&gain, by_flush);
        }
        let step = match progress.needs_parts {
            true => step_of_part(state, pressure, &mut progress.parts, room, gain_of),
            false => None,
        };
        let are_parts_done = !progress.needs_parts || progress.parts >= state.levels.level(BOTTOM).len();
        progress.is_done = progress.candidates >= count && are_parts_done;
        // A flush shows more dead entries, but takes room.
        if pressure == Pressure::Full && step.is_some() {
            return Ok((step, progress));
        }
        if state.immutable.is_empty()
            && (needs_flush || wants_flush(state, pressure, by_flush, groups, gain)?)
        {
            return Ok((Some(Wanted::Flush), progress));
        }
        let wanted = if progress.needs_parts { Some(step.unwrap_or(Wanted::Room)) } else { None };
        Ok((wanted, progress))
    }
}

impl Measured {
    /// Whether another measurement would find about the same.
    fn covers(&self, state: &TreeState, now: &Measured, room: u64) -> bool {
        let least = match now.pressure {
            Pressure::Busy => (now.shape.table_bytes / PART_IF_BUSY).max(GAIN_MIN),
            Pressure::Calm | Pressure::Idle | Pressure::Cramped => {
                (now.shape.table_bytes / PART_TO_MEASURE).max(GAIN_MIN)
            }
            Pressure::Full => 1,
        };
        let largest = state.levels.tables().map(|(_, table)| table.info.size / table.info.entries.max(1));
        let new = now.entries.saturating_sub(self.entries).saturating_mul(largest.max().unwrap_or(0));
        let has_more_room = self.lacking.is_some_and(|lacking| room > lacking.saturating_add(lacking / 8));
        self.shape == now.shape && new < least && self.pressure >= now.pressure && !has_more_room
    }
}

/// Whether entries of the memtable hide enough of the entries below them. A flush writes `by_flush` bytes.
fn wants_flush(
    state: &TreeState,
    pressure: Pressure,
    by_flush: u64,
    groups: Groups<'_>,
    gain: impl Fn(&Compaction, u64) -> Gain,
) -> Result<bool> {
    let Some((smallest, largest)) = bounds_of(&state.mem)? else { return Ok(false) };
    let Some(merge) = below(&state.levels, &smallest, &largest, groups) else { return Ok(false) };
    let read = merge.bytes().saturating_add(by_flush);
    if !pressure.may_allow(read, most_hidden(&merge, state.mem.table.len() as u64, groups.is_some())) {
        return Ok(false);
    }
    let first = gain(&merge, FIRST_SAMPLES);
    if !pressure.may_allow(first.read, first.dead_if_flushed * 2) {
        return Ok(false);
    }
    Ok(pressure.wants_flush(&gain(&merge, SAMPLES), by_flush))
}

/// A merge of a part of the tree, or a cut for one, that is worth it and fits into `room` bytes. Measures the parts from
/// number `at` on, and raises `at` to the one from which to continue.
fn step_of_part(
    state: &TreeState,
    pressure: Pressure,
    at: &mut usize,
    room: u64,
    gain_of: impl Fn(&Compaction, Samples<'_>, u64) -> Gain,
) -> Option<Wanted> {
    let from = *at;
    *at += PARTS_MAX;
    for part in parts(&state.levels, from..*at) {
        let gain = |count| part.gain(|merge, which| gain_of(merge, which, count));
        if !pressure.wants_merge(&coarse(gain(FIRST_SAMPLES))) {
            continue;
        }
        let gain = gain(SAMPLES);
        if pressure.wants_merge(&gain)
            && room_for(&gain) <= room
            && let place = part.place()
            && let Some((step, needed)) = part.next_step(&state.levels, room_for(&gain), room)
        {
            *at = if step.cut.is_some() { place } else { place + 1 };
            return Some(Wanted::Merge(step, needed, Some(*at)));
        }
    }
    None
}

/// A gain measured by few samples, raised so far that a merge that is worth it is hardly ever missed.
fn coarse(first: Gain) -> Gain {
    Gain { dead: first.dead * 2, dead_if_flushed: first.dead_if_flushed * 2, ..first }
}

/// How much is written to a tree whose memtable has `entries` and that was `seen` before.
fn pressure_of(state: &TreeState, entries: u64, seen: Option<Seen>) -> Pressure {
    let in_tables: u64 = state.levels.tables().map(|(_, table)| table.info.entries).sum();
    // A memtable that was flushed meanwhile starts at zero.
    let new = seen.map_or(0, |seen| if entries < seen.entries { entries } else { entries - seen.entries });
    if new > CALM_ENTRIES.max((in_tables + entries) / CALM_PART) { Pressure::Busy } else { Pressure::Calm }
}

/// The smallest and the largest key of a memtable.
fn bounds_of(mem: &Mem) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    let mut cursor = mem.table.cursor();
    cursor.seek_to_first()?;
    if !cursor.valid() {
        return Ok(None);
    }
    let smallest = cursor.key().to_vec();
    cursor.seek_to_last()?;
    Ok(Some((smallest, cursor.key().to_vec())))
}
