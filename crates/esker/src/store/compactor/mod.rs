//! Merges tables into lower levels, or moves them if nothing overlaps.
//!
//! As many merges run at the same time as there are threads for them: of different trees, and of one tree where they
//! share no tables and outputs cannot overlap ([`crate::state::merging`]). A long merge also yields to shorter merges
//! that have become urgent, since all threads may have long ones. Therefore no tree's writers are slowed for the whole
//! time of a merge of everything.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::alone::{Inputs, is_alone};
use super::around::Around;
use super::at_work::AtWork;
use super::installer::{RunningMerge, Unmerged};
use super::survivors::{LeftOut, Sink, Survivors};
use super::{CommitLog, Core, Disk, Flusher, Installer};
use crate::blob::gc::BlobChanges;
use crate::cache::Offer;
use crate::compact::output::{Output, OutputOptions, filter_bits, run_filter_bits};
use crate::compact::pick::{self, BOTTOM, Compaction, Goal};
use crate::compact::queue::{Admitted, Attempt, CompactionQueue, output_bytes};
use crate::compact::retain::Retention;
use crate::compact::rule::{BegunRule, RunningRule};
use crate::cursor::{Kind, SeqNo};
use crate::env::JobKind;
use crate::error::{Error, ErrorKind, Result};
use crate::events::{Began, event};
use crate::read::merging_cursor::{Direction, MergeCursor, Source};
use crate::rules::RuleContext;
use crate::space::{MergeRoom, is_full, shown};
use crate::state::TreeInner;
use crate::state::merging::{Extent, Held};
use crate::state::versions::{VersionEdit, VersionSet};
use crate::table::ScanHint;
use crate::version::edit::{Edit, TableInfo};
use crate::version::levels::{LEVELS, Levels, Table, runs_among};
use crate::version::table_info::LookAgain;

mod cuts;
mod expiry;
mod passed;
mod ranges;
mod rehearsal;
mod space;

use passed::{Passed, Walked};
use space::{Done, Found, Look, SpaceWatch};

/// A merge yields to any merge of at most a quarter of its size.
const MUCH_SHORTER: u64 = 4;

/// An opening does a merge of at least this many tables, or any merge if level 0 has that many.
const TABLES_LEFT: usize = 12;

/// The most bytes that such a merge reads per table. This takes some milliseconds.
const BYTES_FOR_TABLE: u64 = 1 << 20;

/// The most merges that an opening does in a tree.
const MERGES_AT_OPENING: usize = 8;

/// After this many keys, some tens of milliseconds, a merge checks whether a shorter one has become urgent. Tests merge
/// less.
const KEYS_BETWEEN: u64 = if cfg!(debug_assertions) { 1 << 5 } else { 1 << 16 };

/// After this many bytes of keys and values, a merge pays for them from the budget for background I/O.
const BYTES_BETWEEN: u64 = if cfg!(debug_assertions) { 1 << 10 } else { 1 << 19 };

/// A running merge, and the merges that wait for it on the same thread.
#[derive(Debug, Clone, Copy)]
struct UnderWay<'a> {
    tree: &'a TreeInner,
    bytes: u64,
    /// Whether a caller has requested it and waits.
    asked_for: bool,
    interrupted: Option<&'a UnderWay<'a>>,
}

impl UnderWay<'_> {
    /// Whether the thread is merging tables of `tree`.
    fn is_in(&self, tree: &TreeInner) -> bool {
        self.tree.id == tree.id || self.interrupted.is_some_and(|outer| outer.is_in(tree))
    }

    fn is_shorter(&self, compaction: &Compaction) -> bool {
        compaction.bytes().saturating_mul(MUCH_SHORTER) <= self.bytes
    }
}

/// A merge that has begun. Its end comes last: when others see it, the files of its inputs can be removed.
struct Begun {
    tree: Arc<TreeInner>,
    levels: Arc<Levels>,
    compaction: Compaction,
    /// Whether the low-space mark is lent to it.
    has_mark: bool,
    /// `None` for a move, which writes nothing.
    admitted: Option<Admitted>,
    running: RunningMerge,
}

impl Begun {
    /// Drops everything except the merge itself.
    fn release(self) -> RunningMerge {
        self.running
    }
}

/// The next step of a thread that merges.
enum Step {
    Merge(Begun),
    /// Drops the tables of a tree whose entries are all hidden by range tombstones.
    Drop(Arc<TreeInner>, Unmerged),
}

fn removals<'a>(tree: &'a TreeInner, compaction: &'a Compaction) -> impl Iterator<Item = Edit> + 'a {
    compaction.inputs.iter().map(|(level, table)| Edit::RemoveTable {
        tree: tree.id,
        level: *level as u8,
        file: table.info.file,
    })
}

/// One source per run.
fn sources(inputs: &[(usize, Arc<Table>)], hint: ScanHint) -> Result<Vec<Source>> {
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
            sources.push(Source::of_run(Arc::clone(&tables), place, hint)?);
        }
    }
    Ok(sources)
}

/// Where the entries go that a merge keeps.
struct MergeSink<'a> {
    output: Output,
    /// The first keys of the tables at which a table of the output ends, ascending: of the unmerged tables in its level
    /// or, if the merge cuts, of the tables in the bottom level.
    fences: VecDeque<&'a [u8]>,
    /// Bytes that the merge has not paid for yet, and bytes since it last looked for room.
    unpaid: &'a Cell<u64>,
    unlooked: &'a Cell<u64>,
}

impl Sink for MergeSink<'_> {
    fn write(&mut self, key: &[u8], seq: SeqNo, kind: Kind, stored: &[u8]) -> Result<()> {
        if self.fences.front().is_some_and(|fence| *fence <= key) {
            while self.fences.front().is_some_and(|fence| *fence <= key) {
                self.fences.pop_front();
            }
            self.output.cut()?;
        }
        let bytes = (key.len() + stored.len()) as u64;
        self.unpaid.set(self.unpaid.get() + bytes);
        self.unlooked.set(self.unlooked.get() + bytes);
        self.output.add(key, seq, kind, stored)
    }

    fn ends_before(&mut self, key: &[u8]) -> bool {
        let passes = self.fences.front().is_some_and(|fence| *fence <= key);
        (passes && self.output.has_begun()) || self.output.is_full(key)
    }

    fn end_table(&mut self, look_again: LookAgain) -> Result<()> {
        self.output.look_again_at(look_again);
        self.output.cut()
    }
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
    /// Held while a thread chooses what to merge.
    choosing: Mutex<()>,
    space: SpaceWatch,
    walked: Walked,
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
            choosing: Mutex::new(()),
            space: SpaceWatch::new(core, log, flusher, versions),
            walked: Walked::new(core, flusher),
        }
    }

    /// Does one merge, if there is room for it.
    pub(super) fn merge_some(&self) -> Result<bool> {
        // Merges that give space back come first: another merge may find no room, and may join the pieces that they
        // have cut.
        let space_first = || {
            let done = self.merge_for_space()?;
            Ok(done == Done::Begun
                || self.merge_most_urgent()?
                || self.merge_passed()?
                || done == Done::GoesOn)
        };
        let merged = if self.core.health.has_failed() {
            self.disk.space().with_reserve(space_first)
        } else if self.space.is_cutting_any() {
            space_first()
        } else {
            self.merge_most_urgent().and_then(|merged| {
                Ok(merged || self.merge_passed()? || self.merge_for_space()? != Done::Nothing)
            })
        };
        match merged {
            Err(error) if is_full(&error) => {
                self.disk.remove_obsolete()?;
                // While another merge has the mark, the disk is not full yet: puts wait for that merge.
                let mark = self.disk.keep_mark_now();
                let _preparing = self.disk.preparing().lock();
                if self.disk.free_spares_for_space()? || mark.is_none() { Ok(false) } else { Err(error) }
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
            self.compact_or_say_why(tree)?;
        }
        self.flusher.shrink()?;
        self.await_others_if_full();
        self.disk.remove_obsolete()
    }

    /// Flushes one tree, merges it into its bottom level, and removes what is no longer used.
    pub(crate) fn compact_tree(&self, tree: &Arc<TreeInner>) -> Result<()> {
        self.flusher.flush_trees(std::iter::once(tree))?;
        let _at_work = AtWork::on(&self.core);
        self.compact_or_say_why(tree)?;
        self.await_others_if_full();
        self.disk.remove_obsolete()
    }

    /// On a full disk, waits for the merges and searches of other threads. Their inputs keep space until they end, and
    /// the caller of [`Compactor::compact`] expects that space to be free.
    fn await_others_if_full(&self) {
        if self.core.health.has_failed() {
            let hurry = self.core.io_budget.hurry();
            drop(self.installer.end_merges());
            drop(hurry);
        }
    }

    fn compact_or_say_why(&self, tree: &Arc<TreeInner>) -> Result<()> {
        match self.disk.space().with_reserve(|| self.compact_all(tree)) {
            Err(error) if is_full(&error) => {
                // This fills the reserve again.
                self.disk.remove_obsolete()?;
                Err(self.full_error(tree))
            }
            merged => merged,
        }
    }

    /// Does one merge in the tree that needs it most. `false` if no tree needs one that may begin.
    fn merge_most_urgent(&self) -> Result<bool> {
        let _merging = self.installer.begin_merge();
        match self.choose() {
            None => Ok(false),
            Some(Step::Drop(tree, unmerged)) => {
                let dropped = self.drop_deleted(&tree);
                drop(unmerged);
                self.compactions.add([tree]);
                dropped.map(|_| true)
            }
            Some(Step::Merge(begun)) => self.do_ordinary(begun).map(|()| true),
        }
    }

    /// Does a merge that gives space back, or begins a flush that shows which entries are dead.
    fn merge_for_space(&self) -> Result<Done> {
        let _merging = self.installer.begin_merge();
        let look = self.space.look(
            self.room(true),
            |tree| self.is_cramped(tree, &tree.merging.running()),
            |tree, compaction| !self.has_no_room(tree, compaction, true),
        )?;
        let found = match look {
            Look::Found(found) => found,
            Look::Done(done) => return Ok(done),
        };
        let mark = self.disk.lend_mark();
        if mark.is_none() && found.room > self.room(false) {
            return Ok(Done::Nothing);
        }
        let has_mark = mark.is_some();
        let merged = self.merge_found(found, has_mark);
        drop(mark);
        if has_mark {
            // These may have found too little room meanwhile: for a log segment, and for values that are moved.
            self.core.notify(JobKind::Log);
            self.core.notify(JobKind::Blobs);
        }
        Ok(if merged? { Done::Begun } else { Done::Nothing })
    }

    /// Does a merge for space, which may be one that `has_mark`. `false` if others are in its way.
    fn merge_found(&self, found: Found, has_mark: bool) -> Result<bool> {
        let Found { tree, levels, compaction, room } = found;
        let Some(held) = self.hold_found(&tree, &levels) else { return Ok(false) };
        let is_cut = compaction.cut.is_some();
        // No check whether the last merge found no room: the samples show that this one fits.
        let Some(begun) = self.begin_fitting(&tree, held, levels, compaction, room, has_mark) else {
            return Ok(false);
        };
        if is_cut {
            self.space.note_cut(&tree, &begun.levels);
        }
        // A merge that certainly needs the reserve does not first use up the free space.
        let is_short = self.core.health.has_failed() && self.disk.space().free()? < room;
        let released = is_short.then(|| self.disk.space().release_reserve());
        let done = self.do_begun(begun);
        drop(released);
        done?;
        self.compactions.clear_stuck(&tree, true);
        // A put that waits for the mark then finds the space of the merged tables.
        self.disk.remove_obsolete()?;
        self.space.look_soon();
        Ok(true)
    }

    /// Does a merge that walks have paid for.
    fn merge_passed(&self) -> Result<bool> {
        let _merging = self.installer.begin_merge();
        let Some(Passed { tree, levels, compaction }) = self.walked.look()? else { return Ok(false) };
        let before = self.walked.before(&levels, &compaction);
        let held = self.hold_found(&tree, &levels);
        let Some(begun) = held.and_then(|held| self.begin_picked(&tree, held, levels, compaction)) else {
            self.walked.add(&tree);
            return Ok(false);
        };
        self.do_ordinary(begun)?;
        before.note_merged(&tree, &tree.state.load().levels);
        Ok(true)
    }

    /// Walks may have paid for a merge of tables of `tree`.
    pub(in crate::store) fn merge_passed_later(&self, tree: &Arc<TreeInner>) {
        self.walked.look_at(tree);
    }

    /// Holds the merges of `tree` for one that was found in `levels`, if no other one runs and the tables are as they
    /// were.
    fn hold_found<'a>(&self, tree: &'a TreeInner, levels: &Arc<Levels>) -> Option<Held<'a>> {
        let mut held = tree.merging.hold();
        let is_as_found = Arc::ptr_eq(&tree.state.load().levels, levels);
        if !held.may_begin(false) || !is_as_found || !held.running().is_empty() {
            held.refuse();
            return None;
        }
        Some(held)
    }

    /// After how long to look for dead entries again, if soon.
    pub(super) fn look_again(&self) -> Option<Duration> {
        self.space.look_again()
    }

    /// Begins the next step in the tree that needs it most. Trees that need merges stay candidates.
    fn choose(&self) -> Option<Step> {
        let _one_at_a_time = self.choosing.lock();
        let mut urgent = Vec::new();
        for tree in self.compactions.take() {
            let running = tree.merging.running();
            let urgency =
                if self.has_deleted(&tree) { f64::INFINITY } else { self.urgency_of(&tree, &running) };
            // Next to the running merges, or when they have ended, or when there is room, or when cut tables may be
            // joined again.
            let is_candidate = urgency >= 1.0
                || !running.is_empty()
                || self.compactions.was_stuck(&tree, false)
                || self.space.has_cut(&tree);
            if is_candidate {
                self.compactions.add([Arc::clone(&tree)]);
            }
            if urgency >= 1.0 {
                urgent.push((urgency, tree));
            }
        }
        urgent.sort_by(|a, b| b.0.total_cmp(&a.0));
        urgent.into_iter().find_map(|(_, tree)| self.begin_step(&tree))
    }

    fn begin_step(&self, tree: &Arc<TreeInner>) -> Option<Step> {
        if self.has_deleted(tree)
            && let Some(unmerged) = self.installer.try_keep_unmerged(tree)
        {
            return Some(Step::Drop(Arc::clone(tree), unmerged));
        }
        self.begin(tree, false, |_, _| true).map(Step::Merge)
    }

    /// Begins the next merge of `tree`, if it needs one that `fits`, for which there is room, and which may run at the
    /// same time as the running ones. `within`: this thread is merging tables of the tree already.
    fn begin(
        &self,
        tree: &Arc<TreeInner>,
        within: bool,
        fits: impl FnOnce(&Levels, &Compaction) -> bool,
    ) -> Option<Begun> {
        let mut held = tree.merging.hold();
        // Range tombstones are forgotten when no merge of the tree runs. This has to happen now and then.
        let is_one_at_a_time = !within && !tree.state.load().ranges.is_empty();
        if !held.may_begin(within) || (is_one_at_a_time && !held.running().is_empty()) {
            held.refuse();
            return None;
        }
        // No merge ends while `held` is held. Therefore every merge that has changed these levels is among the running
        // ones.
        let levels = Arc::clone(&tree.state.load().levels);
        let Some(compaction) = pick::pick(&levels, self.goal_of(tree, &levels), held.running()) else {
            if !held.running().is_empty() {
                held.refuse();
            }
            return None;
        };
        if !fits(&levels, &compaction) {
            return None;
        }
        self.begin_picked(tree, held, levels, compaction)
    }

    /// Begins `compaction`, which was picked in `levels` and may run next to the merges that are `held`, if there is
    /// room.
    fn begin_picked(
        &self,
        tree: &Arc<TreeInner>,
        held: Held<'_>,
        levels: Arc<Levels>,
        compaction: Compaction,
    ) -> Option<Begun> {
        if self.has_no_room(tree, &compaction, false) {
            return None;
        }
        let output = output_bytes(&compaction);
        self.begin_fitting(tree, held, levels, compaction, output, false)
    }

    /// [`Compactor::begin_picked`] of a merge that writes about `output` bytes and fits into the present room.
    fn begin_fitting(
        &self,
        tree: &Arc<TreeInner>,
        mut held: Held<'_>,
        levels: Arc<Levels>,
        compaction: Compaction,
        output: u64,
        has_mark: bool,
    ) -> Option<Begun> {
        let admitted = if compaction.is_move() { None } else { Some(self.admit(output)?) };
        let running = self.installer.begin_merge_of(tree, &mut held, &compaction);
        drop(held);
        Some(Begun { tree: Arc::clone(tree), levels, compaction, has_mark, admitted, running })
    }

    /// Counts a background merge as running that writes about `output` bytes, if there is room for it next to others.
    fn admit(&self, output: u64) -> Option<Admitted> {
        let above_mark = || self.disk.space().for_merges(MergeRoom::AboveMark);
        let room = || if self.core.health.has_failed() { 0 } else { above_mark() };
        self.compactions.admit(output, room)
    }

    /// [`Compactor::do_begun`] of a merge that is not for space. Those do well with little room, so they do not show that
    /// others would find some.
    fn do_ordinary(&self, begun: Begun) -> Result<()> {
        let tree = Arc::clone(&begun.tree);
        self.do_begun(begun)?;
        self.compactions.clear_stuck(&tree, false);
        Ok(())
    }

    fn do_begun(&self, mut begun: Begun) -> Result<()> {
        let tree = Arc::clone(&begun.tree);
        let result = self.run(&begun, None);
        self.installer.note_merge();
        begun.admitted = None;
        self.compactions.add([Arc::clone(&tree)]);
        // This uses the present room: other threads may have taken the room that there was when the merge began.
        if result.as_ref().is_err_and(is_full) {
            let attempt = self.attempt(&begun.compaction, begun.has_mark);
            self.compactions.note_stuck(&tree, begun.has_mark, attempt);
        }
        result?;
        let running = begun.release();
        // Other threads may begin merges of the tree again and again. Then at no time does no merge run.
        if running.is_alone() {
            self.forget_ranges_of(&tree)?;
        }
        running.end();
        Ok(())
    }

    /// Does the short merges that earlier openings have left. Each opening writes a table of the records that it has
    /// replayed. A program that puts one pair and ends leaves the background no time to merge these tables.
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
        let _merging = self.installer.begin_merge();
        let is_short = |levels: &Levels, compaction: &Compaction| {
            let tables = compaction.inputs.len().max(levels.level(0).len());
            tables >= TABLES_LEFT && compaction.bytes() <= tables as u64 * BYTES_FOR_TABLE
        };
        let Some(begun) = self.begin(tree, false, is_short) else { return Ok(false) };
        self.run(&begun, None)?;
        Ok(true)
    }

    /// Merges all of `tree` into its bottom level.
    fn compact_all(&self, tree: &Arc<TreeInner>) -> Result<()> {
        let hurry = self.core.io_budget.hurry();
        let _merging = self.installer.begin_merge();
        let unmerged = self.installer.keep_unmerged(tree);
        drop(hurry);
        let (levels, compaction) = self.all_of(tree);
        let Some(compaction) = compaction else { return Ok(()) };
        // A caller requested this merge, so it is tried regardless of the room.
        let admitted = self.compactions.admit(output_bytes(&compaction), || u64::MAX);
        let running = unmerged.begin(&compaction);
        let tree = Arc::clone(tree);
        let begun = Begun { tree, levels, compaction, has_mark: false, admitted, running };
        let under_way = UnderWay {
            tree: &begun.tree,
            bytes: begun.compaction.bytes(),
            asked_for: true,
            interrupted: None,
        };
        // A move would keep tombstones, older versions and shared files.
        self.rewrite(&begun, &under_way)?;
        begun.release().end();
        Ok(())
    }

    /// The tables of `tree`, and the merge of all of them, if there is something to merge.
    fn all_of(&self, tree: &TreeInner) -> (Arc<Levels>, Option<Compaction>) {
        let levels = Arc::clone(&tree.state.load().levels);
        let time_us = self.log.read_points().of(tree).time_us;
        let has_ranges = !tree.state.load().ranges.is_empty();
        let compaction = pick::pick_all(&levels, time_us, has_ranges || self.core.has_rule_of(tree));
        (levels, compaction)
    }

    /// `compaction`, if it began now in the background, and if it `has_mark`.
    fn attempt(&self, compaction: &Compaction, has_mark: bool) -> Attempt {
        Attempt::new(compaction, self.room(has_mark), self.core.env().clock.monotonic_us())
    }

    /// Bytes that a merge may take if it begins now in the background, and if it `has_mark`.
    fn room(&self, has_mark: bool) -> u64 {
        let room = match (self.core.health.has_failed(), has_mark) {
            (true, _) => MergeRoom::All,
            (false, true) => MergeRoom::IntoMark,
            (false, false) => MergeRoom::AboveMark,
        };
        self.disk.space().for_merges(room).saturating_sub(self.compactions.unwritten())
    }

    /// Fails if a background merge, which may be one that `has_mark`, must stop writing.
    fn check_room(&self, has_mark: bool) -> Result<()> {
        let room = if has_mark { MergeRoom::IntoMark } else { MergeRoom::AboveMark };
        if !self.core.health.has_failed() && self.disk.space().for_merges(room) == 0 {
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

    /// The shape that the tables of `tree`, which are `levels`, should have.
    fn goal_of(&self, tree: &TreeInner, levels: &Levels) -> Goal {
        let time_us = self.log.read_points().of(tree).time_us;
        let rule = self.core.has_rule_of(tree).then(|| self.core.look_now(time_us));
        let goal = Goal::new(&tree.options(), levels, &self.core.options, time_us, rule);
        Goal { joins_small: !self.space.has_cut(tree), ..goal }
    }

    /// Does urgent merges that are much shorter than the running one.
    fn merge_meanwhile(&self, under_way: &UnderWay<'_>) -> Result<()> {
        for tree in self.compactions.candidates() {
            if self.urgency_of(&tree, &tree.merging.running()) < 1.0 {
                continue;
            }
            let is_shorter = |_: &Levels, compaction: &Compaction| under_way.is_shorter(compaction);
            if let Some(begun) = self.begin(&tree, under_way.is_in(&tree), is_shorter) {
                self.run(&begun, Some(under_way))?;
                begun.release().end();
                self.disk.remove_obsolete()?;
            }
        }
        Ok(())
    }

    /// How urgently `tree` needs a merge for which there is room next to the `running` ones. From 1 on it needs one.
    fn urgency_of(&self, tree: &TreeInner, running: &[Extent]) -> f64 {
        let levels = &tree.state.load().levels;
        let goal = self.goal_of(tree, levels);
        let urgency = pick::urgency(levels, goal, running);
        if urgency >= 1.0 && self.is_cramped(tree, running) { 0.0 } else { urgency }
    }

    /// Whether `tree` needs a merge that would find no room, as its last one did not.
    fn is_cramped(&self, tree: &TreeInner, running: &[Extent]) -> bool {
        if !self.compactions.was_stuck(tree, false) {
            return false;
        }
        let levels = &tree.state.load().levels;
        let picked = pick::pick(levels, self.goal_of(tree, levels), running);
        picked.is_some_and(|compaction| self.has_no_room(tree, &compaction, false))
    }

    /// Whether `compaction`, if it `has_mark`, would find no room, as the last merge of `tree` did not.
    fn has_no_room(&self, tree: &TreeInner, compaction: &Compaction, has_mark: bool) -> bool {
        self.compactions.was_stuck(tree, has_mark)
            && !compaction.is_move()
            && self.compactions.is_stuck(tree, has_mark, &self.attempt(compaction, has_mark))
    }

    fn run(&self, begun: &Begun, interrupted: Option<&UnderWay<'_>>) -> Result<()> {
        let Begun { tree, compaction, .. } = begun;
        if compaction.is_move() {
            return self.move_table(tree, compaction);
        }
        let under_way = UnderWay { tree, bytes: compaction.bytes(), asked_for: false, interrupted };
        self.rewrite(begun, &under_way)
    }

    fn rewrite(&self, begun: &Begun, under_way: &UnderWay<'_>) -> Result<()> {
        let Begun { tree, compaction, .. } = begun;
        let mut left_out = LeftOut::default();
        let began = Began::now(&*self.core.env().clock);
        let outputs = self.merge_by_rule(begun, under_way, &mut left_out)?;
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
        let dropped = left_out.dropped_by_rule;
        let installed = self.installer.leaving_out(left_out, BlobChanges::default(), |changes| {
            let mut versions = self.versions.lock();
            self.installer.install_with_blobs(&mut versions, VersionEdit::of(edits), changes)
        });
        installed.inspect_err(|_| self.installer.discard_tables(&added))?;
        self.core.counters.note_rule_drops(dropped);
        Ok(())
    }

    /// [`Compactor::merge`] with the tree's compaction rule, if it names one; if the rule panics, without it.
    fn merge_by_rule(
        &self,
        begun: &Begun,
        under_way: &UnderWay<'_>,
        left_out: &mut LeftOut,
    ) -> Result<Vec<TableInfo>> {
        let Some(name) = begun.tree.options().rule else {
            return self.merge(begun, under_way, left_out, None);
        };
        let rule = BegunRule::begin(&self.core.options.compaction_rules, &name, &begun.tree.name);
        if !rule.has_panicked() {
            let merged = self.merge(begun, under_way, left_out, Some(rule));
            if !left_out.rule_has_panicked {
                return merged;
            }
            *left_out = LeftOut::default();
        }
        self.core.counters.note_rule_panic();
        self.merge(begun, under_way, left_out, Some(BegunRule::after_panic()))
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
            limits: self.disk.table_limits(),
            offer: compaction.for_reads.then_some(Offer::Wanted),
            cleared: retention.cleared(),
            tree: Some(tree.id),
            filter_prefix: tree.options().filter_prefix,
        }
    }

    /// Writes the inputs' entries that are still needed to new tables. `rule` is the run of the tree's compaction rule.
    fn merge(
        &self,
        begun: &Begun,
        under_way: &UnderWay<'_>,
        left_out: &mut LeftOut,
        rule: Option<BegunRule<'_>>,
    ) -> Result<Vec<TableInfo>> {
        let Begun { tree, levels, compaction, .. } = begun;
        let Compaction { inputs, target, .. } = compaction;
        // This remains true: see `crate::state::merging`.
        let nothing_below = !compaction.has_older_below(levels);
        // Trees that come with a bulk load or an import are there a moment before their entries are visible. A rule
        // that sees one part of these could drop a marker and keep the entries that it masks.
        self.log.commit().wait_visible(inputs.iter().map(|(_, table)| table.info.max_seq).max().unwrap_or(0));
        let snapshots = self.log.read_points().of(tree);
        let inherited_us = || inputs.iter().filter_map(|(_, table)| table.info.look_again.at_us()).min();
        let scope = rule.as_ref().map(|_| self.core.rule_scope(tree, &snapshots, inherited_us()));
        let alone = |lower: &[u8], upper: Option<&[u8]>| {
            let newest_snapshot = scope.and_then(|scope| scope.newest_snapshot);
            is_alone(tree, Inputs::Tables(inputs), newest_snapshot, lower, upper)
        };
        let context = RuleContext::new(&tree.name, snapshots.time_us, false, &alone);
        let mut rule = rule.zip(scope).map(|(begun, scope)| RunningRule::new(begun, &context, scope));
        let around = Around::begin(&self.log, tree, Inputs::Tables(inputs), &snapshots);
        let certain = self.installer.flushed_up_to(tree.id);
        let retention = Retention::new(snapshots, &tree.state.load().ranges, certain);
        // Tables of the target level that are not inputs lie between the keys of the merge. No output table may span one.
        let is_input = |table: &Arc<Table>| inputs.iter().any(|(_, input)| Arc::ptr_eq(input, table));
        let sorted = match (&compaction.cut, *target) {
            (Some(places), _) => levels.level(BOTTOM).get(places.clone()).unwrap_or_default(),
            (None, 0) => &[],
            (None, target) => levels.level(target),
        };
        let not_read = sorted.iter().filter(|table| !is_input(table));
        let fences = not_read.map(|table| table.info.smallest.as_slice()).collect();
        let output =
            Output::new(&self.core.tables, self.output_options(tree, levels, compaction, &retention));
        let mut merge = MergeCursor::new(sources(inputs, ScanHint::Compaction)?, Direction::Forward);
        merge.seek_to_start()?;
        // On an error, dropping the output removes its files, and the inputs stay as they were.
        let is_paced = self.core.options.background_io.is_some();
        let (keys, unpaid, paid, unlooked) = (Cell::new(0_u64), Cell::new(0), Cell::new(0), Cell::new(0));
        let mut sink = MergeSink { output, fences, unpaid: &unpaid, unlooked: &unlooked };
        let goes_on = |_: &[u8]| {
            if self.core.health.is_closing() {
                return Err(self.core.health.closed_error());
            }
            keys.set(keys.get() + 1);
            if unlooked.get() >= BYTES_BETWEEN {
                begun.admitted.iter().for_each(|admitted| admitted.note_written(unlooked.get()));
                unlooked.set(0);
                if !under_way.asked_for {
                    self.check_room(begun.has_mark)?;
                }
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
            if is_turn || is_held_up {
                self.merge_meanwhile(under_way)?;
            }
            Ok(true)
        };
        let operators = &self.core.options.merge_operators;
        let mut written = Survivors {
            operators,
            retention,
            nothing_below,
            around: &around,
            keeps_pointers: false,
            left_out: &mut *left_out,
            rule: rule.as_mut(),
        }
        .write_all(&mut merge, &goes_on, &mut sink);
        if let Some(mut rule) = rule {
            let look_again = written.and_then(|()| rule.look_again());
            written = look_again.map(|look_again| sink.output.look_again_at(look_again));
            left_out.rule_has_panicked = rule.has_panicked();
            left_out.dropped_by_rule += rule.end();
        }
        written?;
        let written = sink.output.finish()?;
        // Dropped entries were read too.
        let all = compaction.bytes() + written.iter().map(|table| table.size).sum::<u64>();
        self.core.io_budget.note_merge(all.saturating_sub(2 * paid.get()));
        self.core.counters.note_merge(inputs.iter().map(|(_, table)| table.info.size).sum(), &written);
        Ok(written)
    }
}

#[cfg(test)]
mod tests;
