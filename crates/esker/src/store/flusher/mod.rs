//! Turns memtables into tables, prepares log segments, and shrinks an idle store.
//!
//! Before the manifest names a table, the log is synced through the table's largest sequence number (rule 3). Otherwise
//! a table could survive a power loss that an older write to another tree does not survive. The memtables of small
//! trees go into one shared table. Thousands of idle trees therefore do not cost a file each, and none of them pins the
//! log (rule 19).

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use parking_lot::Mutex;

use super::alone::{Inputs, is_alone};
use super::around::Around;
use super::at_work::AtWork;
use super::installer::Unmerged;
use super::survivors::{LeftOut, Sink, Survivors};
use super::{CommitLog, Core, Disk, GarbageFinder, Installer};
use crate::blob::Pointer;
use crate::blob::gc::BlobChanges;
use crate::cache::Offer;
use crate::canary::broken;
use crate::compact::output::{Output, OutputOptions, TablePart, filter_bits, shared_part};
use crate::compact::pick::BOTTOM;
use crate::compact::retain::{ReadPoints, Retention};
use crate::compact::rule::{BegunRule, RunningRule};
use crate::cursor::{Cursor, Kind, SeqNo};
use crate::env::JobKind;
use crate::error::Result;
use crate::events::{Began, event};
use crate::flush::{FlushQueue, Immutable};
use crate::listener::FlushedTree;
use crate::options::{CompactionStyle, Compression, TableLimits};
use crate::read::merging_cursor::{Direction, MergeCursor, Source};
use crate::rules::RuleContext;
use crate::space::is_full;
use crate::state::versions::{ByTree, VersionSet};
use crate::state::{Mem, TreeInner};
use crate::version::edit::{Edit, TableInfo, TreeId};
use crate::version::levels::{LEVELS, shared_key};
use crate::version::table_info::LookAgain;
use crate::write::commit::tell_failed;

mod apart;
mod clean;
mod log_segments;
mod shrink;
mod volatile;

use clean::ToClean;
use shrink::Idle;

/// When a memtable of at least this many bytes becomes immutable, a new log segment begins.
const ROTATE_WITH: usize = 8 << 20;
/// Memtables hold little of the log if they take no more memory than this part of it.
const LITTLE_OF_LOG: u64 = 8;
/// Memtables with fewer bytes than this share a table.
const SMALL: usize = 256 << 10;

/// The tables that `edits` add.
fn added(edits: &[Edit]) -> impl Iterator<Item = &TableInfo> {
    edits.iter().filter_map(|edit| match edit {
        Edit::AddTable { table, .. } => Some(table),
        _ => None,
    })
}

/// See the module's comment.
pub(crate) struct Flusher {
    core: Arc<Core>,
    log: Arc<CommitLog>,
    disk: Arc<Disk>,
    finder: Arc<GarbageFinder>,
    installer: Arc<Installer>,
    versions: Arc<VersionSet>,
    immutable: Arc<FlushQueue>,
    flushing: Mutex<()>,
    /// The longest record for which a writer that did not wait wants a log segment, in bytes; 0 if no writer wants one.
    wanted_record: AtomicUsize,
    idle: Idle,
    to_clean: ToClean,
}

impl Flusher {
    pub(super) fn new(
        core: &Arc<Core>,
        log: &Arc<CommitLog>,
        disk: &Arc<Disk>,
        finder: &Arc<GarbageFinder>,
        installer: &Arc<Installer>,
        versions: &Arc<VersionSet>,
    ) -> Flusher {
        Flusher {
            core: Arc::clone(core),
            log: Arc::clone(log),
            disk: Arc::clone(disk),
            finder: Arc::clone(finder),
            installer: Arc::clone(installer),
            versions: Arc::clone(versions),
            immutable: Arc::clone(installer.immutable()),
            flushing: Mutex::new(()),
            wanted_record: AtomicUsize::new(0),
            idle: Idle::default(),
            to_clean: ToClean::default(),
        }
    }

    /// Held during a flush.
    #[inline]
    pub(super) fn flushing(&self) -> &Mutex<()> {
        &self.flushing
    }

    pub(super) fn run_flush_job(&self) -> Result<bool> {
        self.disk.fit_to_disk();
        // While the mark is lent, a put that finds no room waits for it.
        let mark = self.disk.keep_mark_now();
        let preparing = self.disk.preparing().lock();
        if !self.disk.free_spares_for_space()? && mark.is_some() {
            // Puts are refused while there is still room for flushing, merging and deletes.
            self.disk.fail(&self.disk.full_error(0));
        }
        drop((preparing, mark));
        self.relieve_log();
        self.relieve_memory();
        let flushed = self.flush_some()?;
        Ok(self.clean_some() || flushed)
    }

    /// Flushes the trees that pin the oldest part of the log, if the log is over its budget. Does so at half the budget
    /// if all these trees together hold little compared with the log that they pin. That costs one sync of the log and
    /// a small table, and lets the log reuse its files. Otherwise new files would have to be made and filled with
    /// zeros.
    fn relieve_log(&self) {
        let floor = self.log.wal().floor_start();
        let live = self.log.commit().published().saturating_sub(floor);
        let max = self.disk.space().log_max();
        if live < max / 2 || broken("rule-19") {
            return;
        }
        // Nothing gives back the segment that takes records.
        let horizon = (floor + live / 2).min(self.log.wal().current_start());
        let mut pinning = self.versions.trees();
        // Memtables that are immutable are being flushed.
        pinning.retain(|tree| tree.mem().floor().is_some_and(|floor| floor.start < horizon));
        let held: usize = pinning.iter().map(|tree| tree.memory_to_flush()).sum();
        if live >= max || held as u64 <= live / LITTLE_OF_LOG {
            pinning.iter().for_each(|tree| self.switch_memtable(tree, 0));
        }
    }

    /// Flushes the largest memtable, if all memtables together are over the budget.
    fn relieve_memory(&self) {
        let trees = self.versions.trees();
        let sizes = trees.iter().map(|tree| tree.mem().table.memory());
        let active: usize = sizes.clone().sum();
        if active + self.immutable.bytes() > self.disk.space().immutable_max()
            && let Some((_, tree)) = sizes.zip(&trees).max_by_key(|(size, _)| *size)
        {
            self.switch_memtable(tree, 1);
        }
    }

    /// Makes immutable the memtables of the tree and of the trees that are flushed with it, if together they hold at
    /// least `bytes` bytes, and anything at all.
    pub(super) fn switch_memtable(&self, tree: &Arc<TreeInner>, bytes: usize) {
        let mut state = self.log.commit().lock();
        // Under one lock: no batch gets between the memtables of a group (rule 21).
        let trees = tree.flushed_together().into_iter().filter(|tree| !tree.is_dropped());
        let switched: Vec<Immutable> = trees
            .map(|tree| (Arc::clone(&tree), tree.mem()))
            .filter(|(_, mem)| !mem.is_untouched())
            .collect();
        let memory: usize = switched.iter().map(|(_, mem)| mem.table.memory()).sum();
        if switched.is_empty() || memory < bytes {
            return;
        }
        let mut failure = None;
        if memory >= ROTATE_WITH && switched.iter().any(|(_, mem)| mem.floor().is_some()) {
            // The flush has to sync the log up to here. That is easier if no thread stores into that segment. Without a
            // spare segment the log stays in the old one, which works too.
            let log_seq = state.log_seq;
            let rotated = self.log.wal().rotate(&mut state.tail, log_seq, 0);
            failure = rotated.err().filter(|_| self.log.commit().fail());
        }
        switched.iter().for_each(|(tree, _)| tree.switch_mem());
        self.immutable.push(switched);
        drop(state);
        failure.iter().for_each(tell_failed);
        self.core.notify(JobKind::Flush);
    }

    /// Makes every memtable immutable and waits until all that wait are flushed.
    pub(crate) fn flush(&self) -> Result<()> {
        self.log.check_changeable()?;
        self.versions.trees().iter().for_each(|tree| self.switch_memtable(tree, 0));
        while self.flush_some().map_err(|error| self.disk.failed(error))? {}
        Ok(())
    }

    pub(super) fn flush_some(&self) -> Result<bool> {
        let _at_work = AtWork::on(&self.core);
        self.log.wal().unmap_left();
        let flush = || self.disk.space().with_reserve(|| self.flush_immutable());
        let flushed = flush().or_else(|error| {
            if !is_full(&error) {
                return Err(error);
            }
            // Running merges may have taken the reserve: they give back more at their end.
            let hurry = self.core.io_budget.hurry();
            let _no_merge = self.installer.end_merges();
            drop(hurry);
            self.disk.remove_obsolete()?;
            flush()
        })?;
        self.tell_flushed(&flushed);
        Ok(!flushed.is_empty())
    }

    /// Tells the listener, and the writers that were refused, that a flush is over.
    pub(super) fn tell_flushed(&self, flushed: &ByTree) {
        if flushed.is_empty() {
            return;
        }
        if let Some(listener) = &self.core.options.listener {
            let told = |(tree, mems): &(Arc<TreeInner>, Vec<Arc<Mem>>)| FlushedTree {
                tree: tree.name.clone(),
                group: tree.group().map(|group| group.name.clone()),
                sequence: last_seq(mems),
            };
            listener.flushed(&flushed.iter().map(told).collect::<Vec<_>>());
        }
        self.core.tell_ready();
    }

    /// Waits until everything that `trees`, and the trees flushed with them, hold now is in tables.
    pub(crate) fn flush_trees<'a>(&self, trees: impl Iterator<Item = &'a Arc<TreeInner>>) -> Result<()> {
        let (mut due, mut seen): (Vec<Immutable>, HashSet<TreeId>) = Default::default();
        for tree in trees {
            if seen.contains(&tree.id) {
                continue;
            }
            self.switch_memtable(tree, 0);
            for tree in tree.flushed_together() {
                seen.insert(tree.id);
                due.extend(
                    tree.state.load().immutable.iter().map(|mem| (Arc::clone(&tree), Arc::clone(mem))),
                );
            }
        }
        let is_waiting =
            |(tree, mem): &Immutable| tree.state.load().immutable.iter().any(|other| Arc::ptr_eq(other, mem));
        while due.iter().any(is_waiting) {
            if !self.flush_some().map_err(|error| self.disk.failed(error))? {
                break;
            }
        }
        Ok(())
    }

    /// Flushes the immutable memtables, oldest first. Returns the flushed ones.
    fn flush_immutable(&self) -> Result<ByTree> {
        let _one_at_a_time = self.flushing.lock();
        let mut sets = self.immutable.sets();
        if self.core.health.has_failed() {
            // Flushed one after the other, they need less space on a full disk at the same time.
            sets.truncate(oldest_within(&sets, self.disk.space().memtable_limit()));
        }
        let immutable: Vec<Immutable> = sets.into_iter().flatten().collect();
        if immutable.is_empty() {
            return Ok(ByTree::new());
        }
        let began = Began::now(&*self.core.env().clock);
        let last_seq = immutable.iter().map(|(_, mem)| mem.last_seq()).max().unwrap_or(0);
        // The newest logged write, and where the log ends for it: it is unknown whether later writes are durable.
        let logged = immutable.iter().filter(|(_, mem)| mem.floor().is_some());
        let (logged_seq, end) = logged.map(|(_, mem)| (mem.last_seq(), mem.end())).max().unwrap_or((0, 0));
        self.log.commit().wait_visible(last_seq);
        self.log.commit().check()?;

        // The trees whose tables go below level 0. Held until the tables are there.
        let mut unmerged = Vec::new();
        let (mut edits, mut left_out) = (Vec::new(), LeftOut::default());
        let mut written = self.write_tables(&immutable, true, &mut unmerged, &mut edits, &mut left_out);
        if left_out.rule_has_panicked {
            // The rule may have dropped a marker, but not the entries that the marker masks.
            self.core.counters.note_rule_panic();
            self.installer.discard_tables(&edits);
            unmerged.clear();
            edits.clear();
            left_out = LeftOut::default();
            written = self.write_tables(&immutable, false, &mut unmerged, &mut edits, &mut left_out);
        }
        let dropped = left_out.dropped_by_rule;
        let result = written.and_then(|flushed| {
            // This comes last, since the log is synced in the background while the tables are written.
            if !broken("rule-3") {
                self.log.sync_to(end)?;
            }
            // From now on the log may lose these writes. Therefore the values that they have overwritten must be known.
            self.finder.find_overwritten(last_seq)?;
            let volatile = pointers_of_volatile(&immutable)?;
            if !volatile.is_empty() && !broken("rule-21-blobs") {
                self.core.blobs.sync()?;
            }
            let unlogged = flushed.iter().filter(|(tree, _)| !tree.log);
            let seqs: Vec<_> = unlogged.map(|(tree, mems)| (tree.id, self::last_seq(mems))).collect();
            let durable_up_to = Some(if broken("rule-21") { last_seq } else { logged_seq });
            let changes = BlobChanges {
                durable_up_to,
                flushed: &seqs,
                named: &volatile,
                note_overwritten: true,
                ..BlobChanges::default()
            };
            self.installer.leaving_out(left_out, changes, |changes| {
                self.installer.install_flush(&flushed, edits.clone(), changes)
            })?;
            if !seqs.is_empty() {
                self.finder.note_flushed(&seqs);
            }
            Ok(flushed)
        });
        if result.is_err() {
            self.installer.discard_tables(&edits);
        }
        if let Ok(flushed) = &result {
            self.core.counters.note_rule_drops(dropped);
            event!(INFO, "flushed", {
                trees: flushed.len(),
                tables: added(&edits).count(),
                bytes: added(&edits).map(|table| table.size).sum::<u64>(),
                took_us: began.took_us(&*self.core.env().clock),
            });
        }
        result
    }

    /// Writes the tables of a flush. `edits` lists them, even after an error. `by_rules`: it applies compaction rules.
    fn write_tables(
        &self,
        immutable: &[Immutable],
        by_rules: bool,
        unmerged: &mut Vec<Unmerged>,
        edits: &mut Vec<Edit>,
        left_out: &mut LeftOut,
    ) -> Result<ByTree> {
        // All memtables of a tree go the same way: no table of level 0 may hold versions from both before and after
        // another's.
        let is_large = |tree: &Arc<TreeInner>| {
            let mut mems = immutable.iter().filter(|(other, _)| Arc::ptr_eq(other, tree));
            mems.any(|(_, mem)| mem.table.entry_memory() >= SMALL)
        };
        let (large, small): (Vec<Immutable>, Vec<Immutable>) =
            immutable.iter().cloned().partition(|(tree, _)| is_large(tree));
        for (tree, mem) in &large {
            let alone = immutable.iter().filter(|(other, _)| Arc::ptr_eq(other, tree)).count() == 1;
            let below = alone.then_some(&mut *unmerged);
            let (level, tables) =
                self.write_own(tree, std::slice::from_ref(mem), by_rules, below, left_out)?;
            edits.extend(tables.into_iter().map(|table| Edit::AddTable { tree: tree.id, level, table }));
        }
        let groups = by_tree(small);
        if let [(tree, mems)] = groups.as_slice() {
            let below = large.is_empty().then_some(unmerged);
            let (level, tables) = self.write_own(tree, mems, by_rules, below, left_out)?;
            edits.extend(tables.into_iter().map(|table| Edit::AddTable { tree: tree.id, level, table }));
        } else if !groups.is_empty() {
            edits.extend(self.write_shared(&groups, by_rules, left_out)?);
        }
        let flushed = by_tree(immutable.to_vec());
        for (tree, mems) in &flushed {
            let seq = last_seq(mems);
            let time_us = mems.iter().map(|mem| mem.time_us()).max().unwrap_or(0);
            edits.push(Edit::Flushed { tree: tree.id, seq, time_us });
            edits.extend(self.installer.ranges_to_note(tree, seq));
        }
        Ok(flushed)
    }

    /// Writes a tree's memtables to tables of its own. With `below`, no older memtable of the tree is being flushed, so
    /// keys that overlap no table may go straight to the bottom. Then `below` keeps merges of the tree away.
    fn write_own(
        &self,
        tree: &Arc<TreeInner>,
        mems: &[Arc<Mem>],
        by_rules: bool,
        below: Option<&mut Vec<Unmerged>>,
        left_out: &mut LeftOut,
    ) -> Result<(u8, Vec<TableInfo>)> {
        let unmerged = match (below, bounds_of(mems)?) {
            (Some(below), Some((smallest, largest))) => {
                self.unmerged_below(tree, &smallest, &largest).map(|unmerged| below.push(unmerged))
            }
            _ => None,
        };
        let level = if unmerged.is_some() { LEVELS - 1 } else { 0 };
        let levels = Arc::clone(&tree.state.load().levels);
        let bottom = level == LEVELS - 1;
        let rule = self.begin_rule(tree, by_rules);
        let snapshots = self.log.read_points().of(tree);
        let around = Around::begin(&self.log, tree, Inputs::Memtables(mems), &snapshots);
        let retention = Retention::new(snapshots.clone(), &tree.state.load().ranges, last_seq(mems));
        let is_leveled = tree.options().compaction == CompactionStyle::Leveled;
        let fences =
            if bottom || !is_leveled { VecDeque::new() } else { apart::gaps(levels.level(BOTTOM), mems)? };
        let output = Output::new(
            &self.core.tables,
            OutputOptions {
                compression: tree.options().compression,
                filter_bits: filter_bits(self.core.options.filter_bits, level, levels.deepest().max(level)),
                // In level 0 the output is one table where its keys are not far apart.
                limits: if bottom { self.disk.table_limits() } else { TableLimits::NONE },
                offer: Some(Offer::Unasked),
                cleared: retention.cleared(),
                tree: Some(tree.id),
                filter_prefix: tree.options().filter_prefix,
            },
        );
        let operators = &self.core.options.merge_operators;
        let mut merge = merged(mems)?;
        let mut sink = OwnSink { output, fences };
        let look_again = self.ask_rule(tree, mems, rule, &snapshots, left_out, |rule, left_out| {
            let (nothing_below, keeps_pointers, around) = (bottom, false, &around);
            Survivors { operators, retention, nothing_below, around, keeps_pointers, left_out, rule }
                .write_all(&mut merge, &|_| Ok(true), &mut sink)
        })?;
        sink.output.look_again_at(look_again);
        let tables = sink.output.finish()?;
        self.core.counters.note_flush(&tables);
        Ok((level as u8, tables))
    }

    /// Begins a run of the tree's compaction rule, if it names one. Without `by_rules`, the run keeps everything.
    fn begin_rule(&self, tree: &TreeInner, by_rules: bool) -> Option<BegunRule<'_>> {
        let name = tree.options().rule?;
        let rules = &self.core.options.compaction_rules;
        Some(if by_rules { BegunRule::begin(rules, &name, &tree.name) } else { BegunRule::after_panic() })
    }

    /// Does `flush`, which writes `mems` of `tree`, with the run `rule` of the tree's compaction rule. Returns when the
    /// rule wants to see the last table again.
    fn ask_rule(
        &self,
        tree: &TreeInner,
        mems: &[Arc<Mem>],
        rule: Option<BegunRule<'_>>,
        snapshots: &ReadPoints,
        left_out: &mut LeftOut,
        flush: impl FnOnce(Option<&mut RunningRule<'_>>, &mut LeftOut) -> Result<()>,
    ) -> Result<LookAgain> {
        let Some(rule) = rule else {
            return flush(None, left_out).map(|()| LookAgain::default());
        };
        let scope = self.core.rule_scope(tree, snapshots, None);
        let alone = |lower: &[u8], upper: Option<&[u8]>| {
            is_alone(tree, Inputs::Memtables(mems), scope.newest_snapshot, lower, upper)
        };
        let context = RuleContext::new(&tree.name, snapshots.time_us, true, &alone);
        let mut running = RunningRule::new(rule, &context, scope);
        let look_again = flush(Some(&mut running), left_out).and_then(|()| running.look_again());
        left_out.rule_has_panicked |= running.has_panicked();
        left_out.dropped_by_rule += running.end();
        look_again
    }

    /// Keeps merges of `tree` away, if its tables have no key from `smallest` to `largest`, and no running merge may
    /// write one.
    fn unmerged_below(&self, tree: &Arc<TreeInner>, smallest: &[u8], largest: &[u8]) -> Option<Unmerged> {
        let meets = || tree.state.load().levels.tables().any(|(_, table)| table.overlaps(smallest, largest));
        // Usually they do overlap, and merges need not wait for the flush.
        if meets() {
            return None;
        }
        self.installer.try_keep_unmerged(tree).filter(|_| !meets())
    }

    /// Writes the memtables of several trees to one table. Each key follows its tree's number.
    fn write_shared(
        &self,
        groups: &[(Arc<TreeInner>, Vec<Arc<Mem>>)],
        by_rules: bool,
        left_out: &mut LeftOut,
    ) -> Result<Vec<Edit>> {
        let rules: Vec<_> = groups.iter().map(|(tree, _)| self.begin_rule(tree, by_rules)).collect();
        let snapshots = self.log.read_points();
        let options = OutputOptions {
            compression: Compression::None,
            filter_bits: filter_bits(self.core.options.filter_bits, 0, LEVELS - 1),
            limits: TableLimits::NONE,
            offer: Some(Offer::Unasked),
            // This must hold for every tree in the table.
            cleared: groups
                .iter()
                .map(|(_, mems)| last_seq(mems))
                .chain(snapshots.seqs.first().copied())
                .min()
                .unwrap_or(0),
            tree: None,
            filter_prefix: None,
        };
        let mut output = Output::new(&self.core.tables, options);
        let mut parts = Vec::new();
        for ((tree, mems), rule) in groups.iter().zip(rules) {
            let snapshots = snapshots.clone().of(tree);
            let around = Around::begin(&self.log, tree, Inputs::Memtables(mems), &snapshots);
            let retention = Retention::new(snapshots.clone(), &tree.state.load().ranges, last_seq(mems));
            let operators = &self.core.options.merge_operators;
            let mut part = TablePart::new(tree.id);
            let mut merge = merged(mems)?;
            let look_again = self.ask_rule(tree, mems, rule, &snapshots, left_out, |rule, left_out| {
                let mut sink = SharedSink { tree: tree.id, part: &mut part, output: &mut output };
                let (nothing_below, keeps_pointers, around) = (false, false, &around);
                Survivors { operators, retention, nothing_below, around, keeps_pointers, left_out, rule }
                    .write_all(&mut merge, &|_| Ok(true), &mut sink)
            })?;
            part.look_again_at(look_again);
            parts.push(part);
        }
        let tables = output.finish()?;
        self.core.counters.note_flush(&tables);
        let Some(whole) = tables.first() else { return Ok(Vec::new()) };
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        Ok(parts
            .map(|part| Edit::AddTable { tree: part.tree, level: 0, table: shared_part(whole, part) })
            .collect())
    }
}

/// Where the entries go that a flush writes to tables of one tree.
struct OwnSink {
    output: Output,
    /// Keys before which a table of the output ends, ascending.
    fences: VecDeque<Vec<u8>>,
}

impl OwnSink {
    fn passes_fence(&self, key: &[u8]) -> bool {
        self.fences.front().is_some_and(|fence| fence.as_slice() <= key)
    }
}

impl Sink for OwnSink {
    #[inline]
    fn write(&mut self, key: &[u8], seq: SeqNo, kind: Kind, stored: &[u8]) -> Result<()> {
        if self.passes_fence(key) {
            while self.passes_fence(key) {
                self.fences.pop_front();
            }
            self.output.cut()?;
        }
        self.output.add(key, seq, kind, stored)
    }

    fn ends_before(&mut self, key: &[u8]) -> bool {
        (self.passes_fence(key) && self.output.has_begun()) || self.output.is_full(key)
    }

    fn end_table(&mut self, look_again: LookAgain) -> Result<()> {
        self.output.look_again_at(look_again);
        self.output.cut()
    }
}

/// Where the entries of one tree go that a flush writes to a table of several trees.
struct SharedSink<'a> {
    tree: TreeId,
    part: &'a mut TablePart,
    output: &'a mut Output,
}

impl Sink for SharedSink<'_> {
    fn write(&mut self, key: &[u8], seq: SeqNo, kind: Kind, stored: &[u8]) -> Result<()> {
        self.part.note(key, seq, kind, stored);
        self.output.add(&shared_key(self.tree, key), seq, kind, stored)
    }

    /// The table has no limits.
    fn ends_before(&mut self, _: &[u8]) -> bool {
        false
    }

    fn end_table(&mut self, _: LookAgain) -> Result<()> {
        Ok(())
    }
}

/// The pointers to huge values in the unlogged memtables among `waiting`.
fn pointers_of_volatile(waiting: &[Immutable]) -> Result<Vec<Pointer>> {
    let mut pointers = Vec::new();
    for (_, mem) in waiting.iter().filter(|(tree, _)| !tree.log) {
        let mut cursor = mem.table.cursor();
        cursor.seek_to_first()?;
        while cursor.valid() {
            pointers.extend(Pointer::of_entry(cursor.kind(), cursor.value()));
            cursor.next()?;
        }
    }
    Ok(pointers)
}

/// How many of the sets hold at most `bytes` together; at least one.
fn oldest_within(sets: &[Vec<Immutable>], bytes: usize) -> usize {
    let mut sum = 0;
    let within = sets.iter().take_while(|set| {
        sum += set.iter().map(|(_, mem)| mem.table.memory()).sum::<usize>();
        sum <= bytes
    });
    within.count().max(1)
}

/// The newest sequence number in the memtables. The log is synced up to there before the flush counts.
fn last_seq(mems: &[Arc<Mem>]) -> SeqNo {
    mems.iter().map(|mem| mem.last_seq()).max().unwrap_or(0)
}

fn by_tree(immutable: Vec<Immutable>) -> ByTree {
    let mut groups: std::collections::BTreeMap<u32, (Arc<TreeInner>, Vec<Arc<Mem>>)> = Default::default();
    for (tree, mem) in immutable {
        groups.entry(tree.id).or_insert_with(|| (tree, Vec::new())).1.push(mem);
    }
    groups.into_values().collect()
}

fn merged(mems: &[Arc<Mem>]) -> Result<MergeCursor> {
    let sources = mems.iter().map(|mem| Source::Mem(mem.table.cursor())).collect();
    let mut merge = MergeCursor::new(sources, Direction::Forward);
    merge.seek_to_start()?;
    Ok(merge)
}

/// The smallest and largest key of the memtables.
fn bounds_of(mems: &[Arc<Mem>]) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    let first = merged(mems)?;
    if !first.valid() {
        return Ok(None);
    }
    let sources = mems.iter().map(|mem| Source::Mem(mem.table.cursor())).collect();
    let mut last = MergeCursor::new(sources, Direction::Backward);
    last.seek_to_start()?;
    Ok(Some((first.key().to_vec(), last.key().to_vec())))
}

#[cfg(test)]
mod tests;
