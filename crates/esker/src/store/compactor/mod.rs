//! Merges tables into lower levels, or moves them if nothing overlaps.
//!
//! Only one merge runs at a time. But a long merge yields to shorter merges that have become urgent: of other trees,
//! and of newer runs of the same tree. So no tree has its writers slowed for as long as a merge of everything takes.

use std::cell::Cell;
use std::sync::Arc;

use super::at_work::AtWork;
use super::survivors::Survivors;
use super::{CommitLog, Core, Disk, Flusher, Installer};
use crate::blob::Pointer;
use crate::cache::Offer;
use crate::compact::output::{Output, OutputOptions, filter_bits, run_filter_bits};
use crate::compact::pick::{self, Compaction, Goal};
use crate::compact::queue::{Attempt, CompactionQueue, output_bytes};
use crate::compact::retain::Retention;
use crate::cursor::SeqNo;
use crate::error::{Error, ErrorKind, Result};
use crate::events::{Began, event};
use crate::read::merging_cursor::{Direction, MergeCursor, Source};
use crate::space::{is_full, shown};
use crate::state::TreeInner;
use crate::state::versions::VersionSet;
use crate::table::ScanHint;
use crate::version::edit::{Edit, TableInfo};
use crate::version::levels::{LEVELS, Levels, Table, runs_among};

mod expiry;
mod ranges;

/// A merge yields to any merge of at most a quarter of its size.
const MUCH_SHORTER: u64 = 4;

/// An opening does a merge of at least this many tables, or any merge if level 0 has that many.
const TABLES_LEFT: usize = 12;

/// The most bytes that such a merge reads per table: some milliseconds.
const BYTES_FOR_TABLE: u64 = 1 << 20;

/// The most merges that an opening does in a tree.
const MERGES_AT_OPENING: usize = 8;

/// After this many keys, some tens of milliseconds, a merge checks whether a shorter one has become urgent. Tests merge
/// less.
const KEYS_BETWEEN: u64 = if cfg!(debug_assertions) { 1 << 5 } else { 1 << 16 };

/// After this many bytes of keys and values, a merge pays for them from the budget for background I/O.
const BYTES_BETWEEN: u64 = if cfg!(debug_assertions) { 1 << 10 } else { 1 << 19 };

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

/// The newest entry that a merge takes.
fn newest_of(compaction: &Compaction) -> SeqNo {
    compaction.inputs.iter().map(|(_, table)| table.info.max_seq).max().unwrap_or(0)
}

fn removals<'a>(tree: &'a TreeInner, compaction: &'a Compaction) -> impl Iterator<Item = Edit> + 'a {
    compaction.inputs.iter().map(|(level, table)| Edit::RemoveTable {
        tree: tree.id,
        level: *level as u8,
        file: table.info.file,
    })
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

/// Merges tables.
pub(crate) struct Compactor {
    core: Arc<Core>,
    log: Arc<CommitLog>,
    disk: Arc<Disk>,
    installer: Arc<Installer>,
    flusher: Arc<Flusher>,
    versions: Arc<VersionSet>,
    compactions: Arc<CompactionQueue>,
}

impl Compactor {
    pub(super) fn new(
        core: &Arc<Core>,
        log: &Arc<CommitLog>,
        disk: &Arc<Disk>,
        installer: &Arc<Installer>,
        flusher: &Arc<Flusher>,
        versions: &Arc<VersionSet>,
    ) -> Compactor {
        Compactor {
            core: Arc::clone(core),
            log: Arc::clone(log),
            disk: Arc::clone(disk),
            installer: Arc::clone(installer),
            flusher: Arc::clone(flusher),
            versions: Arc::clone(versions),
            compactions: Arc::clone(installer.compactions()),
        }
    }

    /// Does one merge, if there is room for it.
    pub(super) fn merge_some(&self) -> Result<bool> {
        let merge = || self.merge_most_urgent();
        let merged =
            if self.core.health.has_failed() { self.disk.space().with_reserve(merge) } else { merge() };
        match merged {
            Err(error) if is_full(&error) => {
                self.disk.remove_obsolete()?;
                // It has left room for puts, or others have taken that.
                if self.disk.free_spares_for_space()? { Ok(false) } else { Err(error) }
            }
            merged => merged,
        }
    }

    /// Flushes, merges every tree into its bottom level, and removes what is no longer used. If little data is left,
    /// the files of the store become small too.
    pub(crate) fn compact(&self) -> Result<()> {
        self.flusher.flush()?;
        let _at_work = AtWork::on(&self.core);
        for tree in self.versions.trees().iter().filter(|tree| !tree.is_dropped()) {
            match self.disk.space().with_reserve(|| self.compact_all(tree)) {
                Err(error) if is_full(&error) => {
                    // This fills the reserve again.
                    self.disk.remove_obsolete()?;
                    return Err(self.full_error(tree));
                }
                merged => merged?,
            }
        }
        self.flusher.shrink()?;
        self.disk.remove_obsolete()
    }

    /// Does one merge in the tree that needs it most. `false` if no tree needs one.
    fn merge_most_urgent(&self) -> Result<bool> {
        let _one_at_a_time = self.installer.compacting().lock();
        let urgent = {
            let trees = self.compactions.take();
            let scored = trees.into_iter().map(|tree| {
                let urgency = if self.has_deleted(&tree) { f64::INFINITY } else { self.urgency_of(&tree) };
                (urgency, tree)
            });
            let (mut urgent, others): (Vec<_>, Vec<_>) = scored.partition(|(urgency, _)| *urgency >= 1.0);
            // There may be room for them later.
            let stuck =
                others.into_iter().map(|(_, tree)| tree).filter(|tree| self.compactions.was_stuck(tree));
            self.compactions.add(stuck);
            urgent.sort_by(|a, b| b.0.total_cmp(&a.0));
            urgent
        };
        let mut urgent = urgent.into_iter();
        let first = urgent.next();
        self.compactions.add(urgent.map(|(_, tree)| tree));
        let Some((_, tree)) = first else { return Ok(false) };
        let _no_flush_below = tree.below_level_0.lock();
        let levels = Arc::clone(&tree.state.load().levels);
        let deleted = self.drop_deleted(&tree);
        if !matches!(deleted, Ok(false)) {
            self.compactions.add([Arc::clone(&tree)]);
            return deleted;
        }
        let Some(compaction) = pick::pick(&levels, self.goal_of(&tree, &levels)) else { return Ok(true) };
        let result = self.run(&tree, &levels, &compaction, None);
        self.compactions.add([Arc::clone(&tree)]);
        match &result {
            Ok(()) => self.compactions.clear_stuck(&tree),
            // With the room of now: others may have taken what there was when the merge began.
            Err(error) if is_full(error) => self.compactions.note_stuck(&tree, self.attempt(&compaction)),
            Err(_) => {}
        }
        result.map(|()| true)
    }

    /// Does the short merges that earlier openings have left. Each opening writes a table of what it has replayed. A
    /// program that puts one pair and ends leaves the background no time to merge these tables.
    ///
    /// [`BYTES_FOR_TABLE`] and [`MERGES_AT_OPENING`] bound how long this takes, so it does not wait for
    /// [`background_io`](crate::Options::background_io). It ignores errors: the background meets them again and reports
    /// them.
    pub(crate) fn merge_what_was_left(&self) {
        let _hurry = self.core.io_budget.hurry();
        for tree in self.versions.trees() {
            for _ in 0..MERGES_AT_OPENING {
                if !self
                    .merge_some_left(&tree)
                    .is_ok_and(|merged| merged && self.disk.remove_obsolete().is_ok())
                {
                    break;
                }
            }
        }
    }

    fn merge_some_left(&self, tree: &Arc<TreeInner>) -> Result<bool> {
        let _one_at_a_time = self.installer.compacting().lock();
        let _no_flush_below = tree.below_level_0.lock();
        let levels = Arc::clone(&tree.state.load().levels);
        let Some(compaction) = pick::pick(&levels, self.goal_of(tree, &levels)) else { return Ok(false) };
        let tables = compaction.inputs.len().max(levels.level(0).len());
        if tables < TABLES_LEFT || compaction.bytes() > tables as u64 * BYTES_FOR_TABLE {
            return Ok(false);
        }
        self.run(tree, &levels, &compaction, None)?;
        Ok(true)
    }

    /// Merges all of `tree` into its bottom level.
    fn compact_all(&self, tree: &Arc<TreeInner>) -> Result<()> {
        let hurry = self.core.io_budget.hurry();
        let _one_at_a_time = self.installer.compacting().lock();
        let _no_flush_below = tree.below_level_0.lock();
        drop(hurry);
        let (levels, compaction) = self.all_of(tree);
        match compaction {
            // A move would keep tombstones, older versions and shared files.
            Some(compaction) => {
                let newest = newest_of(&compaction);
                let under_way =
                    UnderWay { tree, newest, bytes: compaction.bytes(), asked_for: true, interrupted: None };
                self.rewrite(tree, &levels, &compaction, &under_way)
            }
            None => Ok(()),
        }
    }

    /// The tables of `tree`, and the merge of all of them, if there is something to merge.
    fn all_of(&self, tree: &TreeInner) -> (Arc<Levels>, Option<Compaction>) {
        let levels = Arc::clone(&tree.state.load().levels);
        let time_us = self.log.read_points().time_us;
        let has_ranges = !tree.state.load().ranges.is_empty();
        let compaction = pick::pick_all(&levels, time_us, has_ranges);
        (levels, compaction)
    }

    /// `compaction`, if it began now in the background.
    fn attempt(&self, compaction: &Compaction) -> Attempt {
        let room = self.disk.space().for_merges(self.core.health.has_failed());
        Attempt::new(compaction, room, self.core.env().clock.monotonic_us())
    }

    /// Fails if a background merge may not go on writing.
    fn check_room(&self) -> Result<()> {
        if !self.core.health.has_failed() && self.disk.space().for_merges(false) == 0 {
            return Err(self.disk.full_error(0));
        }
        Ok(())
    }

    /// The error of a `compact` that finds no room for merging all of `tree`.
    fn full_error(&self, tree: &TreeInner) -> Error {
        let output = self.all_of(tree).1.map_or(0, |compaction| output_bytes(&compaction));
        let message = format!(
            "the disk is full: {} free, RESERVE holds {} more, and merging the tree \"{}\" writes about {} before what it \
             has read can go; nothing is lost, and the store goes on: make room on the disk, then compact again",
            self.disk.space().shown_free(),
            shown(self.disk.space().reserve().held()),
            tree.name,
            shown(output)
        );
        Error::new(ErrorKind::OutOfSpace, message).at(&self.core.dir)
    }

    /// What the tables of `tree`, which are `levels`, are to be like.
    fn goal_of(&self, tree: &TreeInner, levels: &Levels) -> Goal {
        let time_us = self.log.read_points().time_us;
        Goal::new(&tree.options(), levels, &self.core.options, time_us)
    }

    /// Does urgent merges that are much shorter than the running one.
    fn merge_meanwhile(&self, under_way: &UnderWay<'_>) -> Result<()> {
        for tree in self.compactions.candidates() {
            let newest = under_way.newest_of(&tree);
            if newest.is_none() && self.urgency_of(&tree) < 1.0 {
                continue;
            }
            // If the tree is being merged, the lock is held already. If another thread holds it, the tree has to wait.
            let held = tree.below_level_0.try_lock();
            if held.is_none() && newest.is_none() {
                continue;
            }
            let levels = Arc::clone(&tree.state.load().levels);
            let goal = self.goal_of(&tree, &levels);
            let urgent = match newest {
                Some(newest) => pick::pick_newer(&levels, goal, newest),
                None => pick::pick(&levels, goal),
            };
            if let Some(compaction) = urgent.filter(|compaction| under_way.is_shorter(compaction)) {
                self.run(&tree, &levels, &compaction, Some(under_way))?;
                self.disk.remove_obsolete()?;
            }
        }
        Ok(())
    }

    /// How urgently `tree` needs a merge for which there is room. From 1 on it needs one.
    fn urgency_of(&self, tree: &TreeInner) -> f64 {
        let levels = &tree.state.load().levels;
        let goal = self.goal_of(tree, levels);
        let urgency = pick::urgency(levels, goal);
        if urgency < 1.0 || !self.compactions.was_stuck(tree) {
            return urgency;
        }
        let is_stuck = |compaction: Compaction| {
            !compaction.is_move() && self.compactions.is_stuck(tree, &self.attempt(&compaction))
        };
        if pick::pick(levels, goal).is_some_and(is_stuck) { 0.0 } else { urgency }
    }

    fn run(
        &self,
        tree: &Arc<TreeInner>,
        levels: &Levels,
        compaction: &Compaction,
        interrupted: Option<&UnderWay<'_>>,
    ) -> Result<()> {
        if compaction.is_move() {
            return self.move_table(tree, compaction);
        }
        let newest = newest_of(compaction);
        let under_way = UnderWay { tree, newest, bytes: compaction.bytes(), asked_for: false, interrupted };
        self.rewrite(tree, levels, compaction, &under_way)
    }

    fn rewrite(
        &self,
        tree: &Arc<TreeInner>,
        levels: &Levels,
        compaction: &Compaction,
        under_way: &UnderWay<'_>,
    ) -> Result<()> {
        let mut dropped = Vec::new();
        let began = Began::now(&*self.core.env().clock);
        let outputs = self.merge(tree, levels, compaction, under_way, &mut dropped)?;
        let mut edits: Vec<Edit> = removals(tree, compaction).collect();
        let level = compaction.target as u8;
        event!(INFO, "merged", {
            tree: tree.name.as_str(),
            tables: compaction.inputs.len(),
            bytes: compaction.inputs.iter().map(|(_, table)| table.info.size).sum::<u64>(),
            written_tables: outputs.len(),
            written_bytes: outputs.iter().map(|table| table.size).sum::<u64>(),
            level: compaction.target,
            took_us: began.took_us(&*self.core.env().clock),
        });
        edits.extend(outputs.into_iter().map(|table| Edit::AddTable { tree: tree.id, level, table }));
        let added = edits.clone();
        let installed = self.installer.install(edits, &dropped);
        installed.inspect_err(|_| self.installer.discard_tables(&added))
    }

    fn move_table(&self, tree: &Arc<TreeInner>, compaction: &Compaction) -> Result<()> {
        let mut edits: Vec<Edit> = removals(tree, compaction).collect();
        let table = compaction.inputs[0].1.info.clone();
        edits.push(Edit::AddTable { tree: tree.id, level: compaction.target as u8, table });
        self.installer.install(edits, &[])
    }

    /// The options for the tables that a merge writes.
    fn output_options(
        &self,
        tree: &TreeInner,
        levels: &Levels,
        compaction: &Compaction,
        retention: &Retention,
    ) -> OutputOptions {
        let (bits, target) = (self.core.options.filter_bits, compaction.target);
        OutputOptions {
            compression: tree.options().compression,
            filter_bits: match target {
                0 => run_filter_bits(bits, compaction.bytes(), levels.bytes_in_all()),
                _ => filter_bits(bits, target, levels.deepest().max(target)),
            },
            limits: self.core.options.table_limits(),
            offer: compaction.for_reads.then_some(Offer::Wanted),
            cleared: retention.cleared(),
            tree: Some(tree.id),
        }
    }

    fn merge(
        &self,
        tree: &TreeInner,
        levels: &Levels,
        compaction: &Compaction,
        under_way: &UnderWay<'_>,
        dropped: &mut Vec<Pointer>,
    ) -> Result<Vec<TableInfo>> {
        let Compaction { inputs, target, .. } = compaction;
        let nothing_below = !compaction.has_older_below(levels);
        let snapshots = self.log.read_points();
        let certain = self.installer.flushed_up_to(tree.id);
        let retention = Retention::new(snapshots, &tree.state.load().ranges, certain);
        // Tables of the target level that are not inputs lie between the keys of the merge. No output table may span one.
        let is_input = |table: &Arc<Table>| inputs.iter().any(|(_, input)| Arc::ptr_eq(input, table));
        let sorted = if *target == 0 { &[] } else { levels.level(*target) };
        let left_out = sorted.iter().filter(|table| !is_input(table));
        let mut fences = left_out.map(|table| table.info.smallest.as_slice()).peekable();
        let mut output =
            Output::new(&self.core.tables, self.output_options(tree, levels, compaction, &retention));
        let mut merge = MergeCursor::new(sources(inputs)?, Direction::Forward);
        merge.seek_to_start()?;
        // On an error, dropping the output removes its files, and the inputs stay as they were.
        let is_paced = self.core.options.background_io.is_some();
        let (keys, unpaid, paid, unlooked) = (Cell::new(0_u64), Cell::new(0), Cell::new(0), Cell::new(0));
        let goes_on = || {
            if self.core.health.is_closing() {
                return Err(self.core.health.closed_error());
            }
            keys.set(keys.get() + 1);
            if !under_way.asked_for && unlooked.get() >= BYTES_BETWEEN {
                unlooked.set(0);
                self.check_room()?;
            }
            let is_turn = keys.get().is_multiple_of(KEYS_BETWEEN);
            let is_held_up = is_paced && unpaid.get() >= BYTES_BETWEEN;
            if is_held_up {
                paid.set(paid.get() + unpaid.get());
                // They were read, and written.
                self.core.io_budget.pay_for_merge(2 * unpaid.take(), || self.core.is_urgent());
                if self.core.registry.has_obsolete() {
                    self.disk.remove_obsolete()?;
                }
            }
            if is_turn || is_held_up { self.merge_meanwhile(under_way) } else { Ok(()) }
        };
        let operators = &self.core.options.merge_operators;
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
        self.core.io_budget.note_merge(all.saturating_sub(2 * paid.get()));
        self.core.counters.note_merge(inputs.iter().map(|(_, table)| table.info.size).sum(), &written);
        Ok(written)
    }
}
