//! Merges tables into lower levels, or moves them if nothing overlaps.
//!
//! Only one merge runs at a time. But a long merge yields to shorter merges that have become urgent: of other trees,
//! and of newer runs of the same tree. So no tree has its writers slowed for as long as a merge of everything takes.

use std::cell::Cell;
use std::sync::Arc;

use super::Store;
use super::at_work::AtWork;
use super::survivors::Survivors;
use crate::blob::Pointer;
use crate::cache::Offer;
use crate::compact::output::{Output, OutputOptions, filter_bits, run_filter_bits};
use crate::compact::pick::{self, Compaction, Goal};
use crate::compact::queue::{Attempt, output_bytes};
use crate::compact::retain::Retention;
use crate::cursor::SeqNo;
use crate::error::{Error, ErrorKind, Result};
use crate::read::merging_cursor::{Direction, MergeCursor, Source};
use crate::space::{is_full, shown};
use crate::state::TreeInner;
use crate::table::ScanHint;
use crate::version::edit::{Edit, TableInfo};
use crate::version::levels::{LEVELS, Levels, Table, runs_among};

/// A merge yields to any merge of at most a quarter of its size.
const MUCH_SHORTER: u64 = 4;

/// An opening does a merge of at least this many tables, or any merge if level 0 has that many.
const TABLES_LEFT: usize = 12;

/// The most bytes that such a merge reads per table: some milliseconds.
const BYTES_FOR_TABLE: u64 = 1 << 20;

/// After this many keys, some tens of milliseconds, a merge checks whether a shorter one has become urgent. Tests merge
/// less.
const KEYS_BETWEEN: u64 = if cfg!(debug_assertions) { 1 << 5 } else { 1 << 16 };

/// After this many bytes of keys and values, a merge pays for them from the budget for background I/O.
const BYTES_BETWEEN: u64 = if cfg!(debug_assertions) { 1 << 10 } else { 1 << 19 };

impl Store {
    /// Flushes, merges every tree into its bottom level, and removes what is no longer used. If little data is left,
    /// the files of the store become small too.
    pub(crate) fn compact(&self) -> Result<()> {
        self.flush()?;
        let _at_work = AtWork::on(self);
        for tree in self.versions.trees().iter().filter(|tree| !tree.is_dropped()) {
            match self.space.with_reserve(|| compact_all(self, tree)) {
                Err(error) if is_full(&error) => {
                    // This fills the reserve again.
                    self.remove_obsolete()?;
                    return Err(full_error(self, tree));
                }
                merged => merged?,
            }
        }
        self.shrink()?;
        self.remove_obsolete()
    }
}

/// Does one merge in the tree that needs it most. `false` if no tree needs one.
pub(crate) fn compact_some(store: &Store) -> Result<bool> {
    let _one_at_a_time = store.compacting.lock();
    let urgent = {
        let trees = store.compactions.take();
        let scored = trees.into_iter().map(|tree| {
            let urgency = if store.has_deleted(&tree) { f64::INFINITY } else { urgency_of(store, &tree) };
            (urgency, tree)
        });
        let (mut urgent, others): (Vec<_>, Vec<_>) = scored.partition(|(urgency, _)| *urgency >= 1.0);
        // There may be room for them later.
        let stuck = others.into_iter().map(|(_, tree)| tree).filter(|tree| store.compactions.was_stuck(tree));
        store.compactions.add(stuck);
        urgent.sort_by(|a, b| b.0.total_cmp(&a.0));
        urgent
    };
    let mut urgent = urgent.into_iter();
    let first = urgent.next();
    store.compactions.add(urgent.map(|(_, tree)| tree));
    let Some((_, tree)) = first else { return Ok(false) };
    let _no_flush_below = tree.below_level_0.lock();
    let levels = Arc::clone(&tree.state.load().levels);
    let deleted = store.drop_deleted(&tree);
    if !matches!(deleted, Ok(false)) {
        store.compactions.add([Arc::clone(&tree)]);
        return deleted;
    }
    let Some(compaction) = pick::pick(&levels, goal_of(store, &tree, &levels)) else { return Ok(true) };
    let result = run(store, &tree, &levels, &compaction, None);
    store.compactions.add([Arc::clone(&tree)]);
    match &result {
        Ok(()) => store.compactions.clear_stuck(&tree),
        // With the room of now: others may have taken what there was when the merge began.
        Err(error) if is_full(error) => store.compactions.note_stuck(&tree, attempt(store, &compaction)),
        Err(_) => {}
    }
    result.map(|()| true)
}

/// The most merges that an opening does in a tree.
const MERGES_AT_OPENING: usize = 8;

/// Does the short merges that earlier openings have left. Each opening writes a table of what it has replayed. A
/// program that puts one pair and ends leaves the background no time to merge these tables.
///
/// [`BYTES_FOR_TABLE`] and [`MERGES_AT_OPENING`] bound how long this takes, so it does not wait for
/// [`background_io`](crate::Options::background_io). It ignores errors: the background meets them again and reports
/// them.
pub(crate) fn merge_what_was_left(store: &Store) {
    let _hurry = store.io_budget.hurry();
    for tree in store.versions.trees() {
        for _ in 0..MERGES_AT_OPENING {
            if !merge_some_left(store, &tree).is_ok_and(|merged| merged && store.remove_obsolete().is_ok()) {
                break;
            }
        }
    }
}

fn merge_some_left(store: &Store, tree: &Arc<TreeInner>) -> Result<bool> {
    let _one_at_a_time = store.compacting.lock();
    let _no_flush_below = tree.below_level_0.lock();
    let levels = Arc::clone(&tree.state.load().levels);
    let Some(compaction) = pick::pick(&levels, goal_of(store, tree, &levels)) else { return Ok(false) };
    let tables = compaction.inputs.len().max(levels.level(0).len());
    if tables < TABLES_LEFT || compaction.bytes() > tables as u64 * BYTES_FOR_TABLE {
        return Ok(false);
    }
    run(store, tree, &levels, &compaction, None)?;
    Ok(true)
}

/// Merges all of `tree` into its bottom level.
pub(crate) fn compact_all(store: &Store, tree: &Arc<TreeInner>) -> Result<()> {
    let hurry = store.io_budget.hurry();
    let _one_at_a_time = store.compacting.lock();
    let _no_flush_below = tree.below_level_0.lock();
    drop(hurry);
    let (levels, compaction) = all_of(store, tree);
    match compaction {
        // A move would keep tombstones, older versions and shared files.
        Some(compaction) => {
            let newest = newest_of(&compaction);
            let under_way =
                UnderWay { tree, newest, bytes: compaction.bytes(), asked_for: true, interrupted: None };
            rewrite(store, tree, &levels, &compaction, &under_way)
        }
        None => Ok(()),
    }
}

/// The tables of `tree`, and the merge of all of them, if there is something to merge.
pub(super) fn all_of(store: &Store, tree: &TreeInner) -> (Arc<Levels>, Option<Compaction>) {
    let levels = Arc::clone(&tree.state.load().levels);
    let time_us = store.snapshots.read_points(&store.commit, &store.clock).time_us;
    let has_ranges = !tree.state.load().ranges.is_empty();
    let compaction = pick::pick_all(&levels, time_us, has_ranges);
    (levels, compaction)
}

/// `compaction`, if it began now in the background.
fn attempt(store: &Store, compaction: &Compaction) -> Attempt {
    let room = store.space.for_merges(store.health.has_failed());
    Attempt::new(compaction, room, store.env.clock.monotonic_us())
}

/// Fails if a background merge may not go on writing.
fn check_room(store: &Store) -> Result<()> {
    if !store.health.has_failed() && store.space.for_merges(false) == 0 {
        return Err(store.full_error(0));
    }
    Ok(())
}

/// The error of a `compact` that finds no room for merging all of `tree`.
pub(super) fn full_error(store: &Store, tree: &TreeInner) -> Error {
    let output = all_of(store, tree).1.map_or(0, |compaction| output_bytes(&compaction));
    let message = format!(
        "the disk is full: {} free, RESERVE holds {} more, and merging the tree \"{}\" writes about {} before what it \
         has read can go; nothing is lost, and the store goes on: make room on the disk, then compact again",
        store.space.shown_free(),
        shown(store.space.reserve().held()),
        tree.name,
        shown(output)
    );
    Error::new(ErrorKind::OutOfSpace, message).at(&store.dir)
}

/// What the tables of `tree`, which are `levels`, are to be like.
fn goal_of(store: &Store, tree: &TreeInner, levels: &Levels) -> Goal {
    let time_us = store.snapshots.read_points(&store.commit, &store.clock).time_us;
    Goal::new(&tree.options(), levels, &store.options, time_us)
}

/// A running merge, and the merges that wait for it.
#[derive(Debug, Clone, Copy)]
struct UnderWay<'a> {
    tree: &'a TreeInner,
    /// The newest entry that it merges.
    newest: SeqNo,
    bytes: u64,
    /// Whether a caller has asked for it and waits.
    asked_for: bool,
    interrupted: Option<&'a UnderWay<'a>>,
}

impl UnderWay<'_> {
    /// The newest entry of `tree` that is being merged.
    fn newest_of(&self, tree: &TreeInner) -> Option<SeqNo> {
        let here = (self.tree.id == tree.id).then_some(self.newest);
        here.max(self.interrupted.and_then(|outer| outer.newest_of(tree)))
    }

    fn is_shorter(&self, compaction: &Compaction) -> bool {
        compaction.bytes().saturating_mul(MUCH_SHORTER) <= self.bytes
    }
}

/// Does urgent merges that are much shorter than the running one.
fn merge_meanwhile(store: &Store, under_way: &UnderWay<'_>) -> Result<()> {
    for tree in store.compactions.candidates() {
        let newest = under_way.newest_of(&tree);
        if newest.is_none() && urgency_of(store, &tree) < 1.0 {
            continue;
        }
        // If the tree is being merged, the lock is held already. If another thread holds it, the tree has to wait.
        let held = tree.below_level_0.try_lock();
        if held.is_none() && newest.is_none() {
            continue;
        }
        let levels = Arc::clone(&tree.state.load().levels);
        let goal = goal_of(store, &tree, &levels);
        let urgent = match newest {
            Some(newest) => pick::pick_newer(&levels, goal, newest),
            None => pick::pick(&levels, goal),
        };
        if let Some(compaction) = urgent.filter(|compaction| under_way.is_shorter(compaction)) {
            run(store, &tree, &levels, &compaction, Some(under_way))?;
            store.remove_obsolete()?;
        }
    }
    Ok(())
}

/// How urgently `tree` needs a merge for which there is room. From 1 on it needs one.
fn urgency_of(store: &Store, tree: &TreeInner) -> f64 {
    let levels = &tree.state.load().levels;
    let goal = goal_of(store, tree, levels);
    let urgency = pick::urgency(levels, goal);
    if urgency < 1.0 || !store.compactions.was_stuck(tree) {
        return urgency;
    }
    let is_stuck = |compaction: Compaction| {
        !compaction.is_move() && store.compactions.is_stuck(tree, &attempt(store, &compaction))
    };
    if pick::pick(levels, goal).is_some_and(is_stuck) { 0.0 } else { urgency }
}

type Interrupted<'a> = Option<&'a UnderWay<'a>>;

fn run(
    store: &Store,
    tree: &Arc<TreeInner>,
    levels: &Levels,
    compaction: &Compaction,
    interrupted: Interrupted<'_>,
) -> Result<()> {
    if compaction.is_move() {
        return move_table(store, tree, compaction);
    }
    let newest = newest_of(compaction);
    let under_way = UnderWay { tree, newest, bytes: compaction.bytes(), asked_for: false, interrupted };
    rewrite(store, tree, levels, compaction, &under_way)
}

/// The newest entry that a merge takes.
fn newest_of(compaction: &Compaction) -> SeqNo {
    compaction.inputs.iter().map(|(_, table)| table.info.max_seq).max().unwrap_or(0)
}

fn rewrite(
    store: &Store,
    tree: &Arc<TreeInner>,
    levels: &Levels,
    compaction: &Compaction,
    under_way: &UnderWay<'_>,
) -> Result<()> {
    let mut dropped = Vec::new();
    let outputs = merge(store, tree, levels, compaction, under_way, &mut dropped)?;
    let mut edits: Vec<Edit> = removals(tree, compaction).collect();
    let level = compaction.target as u8;
    edits.extend(outputs.into_iter().map(|table| Edit::AddTable { tree: tree.id, level, table }));
    let added = edits.clone();
    let installed = store.install(edits, &dropped);
    installed.inspect_err(|_| store.discard_tables(&added))
}

fn removals<'a>(tree: &'a TreeInner, compaction: &'a Compaction) -> impl Iterator<Item = Edit> + 'a {
    compaction.inputs.iter().map(|(level, table)| Edit::RemoveTable {
        tree: tree.id,
        level: *level as u8,
        file: table.info.file,
    })
}

fn move_table(store: &Store, tree: &Arc<TreeInner>, compaction: &Compaction) -> Result<()> {
    let mut edits: Vec<Edit> = removals(tree, compaction).collect();
    let table = compaction.inputs[0].1.info.clone();
    edits.push(Edit::AddTable { tree: tree.id, level: compaction.target as u8, table });
    store.install(edits, &[])
}

/// One source per run.
fn sources(inputs: &[(usize, Arc<Table>)]) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for level in 0..LEVELS {
        let of_level = inputs.iter().filter(|(of, _)| *of == level).map(|(_, table)| Arc::clone(table));
        let mut tables: Vec<Arc<Table>> = of_level.collect();
        let places = if level == 0 {
            runs_among(&mut tables)
        } else {
            tables.sort_by(|a, b| a.info.smallest.cmp(&b.info.smallest));
            std::iter::once(0..tables.len()).collect()
        };
        let tables = Arc::new(tables);
        for place in places.into_iter().filter(|place| !place.is_empty()) {
            sources.push(Source::of_run(Arc::clone(&tables), place, ScanHint::Compaction)?);
        }
    }
    Ok(sources)
}

/// The options for the tables that a merge writes.
fn output_options(
    store: &Store,
    tree: &TreeInner,
    levels: &Levels,
    compaction: &Compaction,
    retention: &Retention,
) -> OutputOptions {
    let (bits, target) = (store.options.filter_bits, compaction.target);
    OutputOptions {
        compression: tree.options().compression,
        filter_bits: match target {
            0 => run_filter_bits(bits, compaction.bytes(), levels.bytes_in_all()),
            _ => filter_bits(bits, target, levels.deepest().max(target)),
        },
        limits: store.options.table_limits(),
        offer: compaction.for_reads.then_some(Offer::Wanted),
        cleared: retention.cleared(),
        tree: Some(tree.id),
    }
}

fn merge(
    store: &Store,
    tree: &TreeInner,
    levels: &Levels,
    compaction: &Compaction,
    under_way: &UnderWay<'_>,
    dropped: &mut Vec<Pointer>,
) -> Result<Vec<TableInfo>> {
    let Compaction { inputs, target, .. } = compaction;
    let nothing_below = !compaction.has_older_below(levels);
    let snapshots = store.snapshots.read_points(&store.commit, &store.clock);
    let certain = store.flushed_up_to(tree.id);
    let retention = Retention::new(snapshots, &tree.state.load().ranges, certain);
    // Tables of the target level that are not inputs lie between the keys of the merge. No output table may span one.
    let is_input = |table: &Arc<Table>| inputs.iter().any(|(_, input)| Arc::ptr_eq(input, table));
    let sorted = if *target == 0 { &[] } else { levels.level(*target) };
    let left_out = sorted.iter().filter(|table| !is_input(table));
    let mut fences = left_out.map(|table| table.info.smallest.as_slice()).peekable();
    let mut output = Output::new(&store.tables, output_options(store, tree, levels, compaction, &retention));
    let mut merge = MergeCursor::new(sources(inputs)?, Direction::Forward);
    merge.seek_to_start()?;
    // On an error, dropping the output removes its files, and the inputs stay as they were.
    let is_paced = store.options.background_io.is_some();
    let (keys, unpaid, paid, unlooked) = (Cell::new(0_u64), Cell::new(0), Cell::new(0), Cell::new(0));
    let goes_on = || {
        if store.health.is_closing() {
            return Err(store.health.closed_error());
        }
        keys.set(keys.get() + 1);
        if !under_way.asked_for && unlooked.get() >= BYTES_BETWEEN {
            unlooked.set(0);
            check_room(store)?;
        }
        let is_turn = keys.get().is_multiple_of(KEYS_BETWEEN);
        let is_held_up = is_paced && unpaid.get() >= BYTES_BETWEEN;
        if is_held_up {
            paid.set(paid.get() + unpaid.get());
            // They were read, and written.
            store.io_budget.pay_for_merge(2 * unpaid.take(), || store.is_urgent());
            if store.registry.has_obsolete() {
                store.remove_obsolete()?;
            }
        }
        if is_turn || is_held_up { merge_meanwhile(store, under_way) } else { Ok(()) }
    };
    let operators = &store.options.merge_operators;
    Survivors { operators, retention, nothing_below, dropped }.write_all(
        &mut merge,
        &goes_on,
        |key, seq, kind, stored| {
            if fences.next_if(|fence| *fence < key).is_some() {
                while fences.next_if(|fence| *fence < key).is_some() {}
                output.cut()?;
            }
            let bytes = (key.len() + stored.len()) as u64;
            unpaid.set(unpaid.get() + bytes);
            unlooked.set(unlooked.get() + bytes);
            output.add(key, seq, kind, stored)
        },
    )?;
    let written = output.finish()?;
    // Dropped entries were read too.
    let all = compaction.bytes() + written.iter().map(|table| table.size).sum::<u64>();
    store.io_budget.note_merge(all.saturating_sub(2 * paid.get()));
    store.counters.note_merge(inputs.iter().map(|(_, table)| table.info.size).sum(), &written);
    Ok(written)
}
