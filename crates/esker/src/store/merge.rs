//! Merging tables down, or moving them where nothing overlaps.

use std::sync::Arc;

use super::Store;
use super::survivors::Survivors;
use crate::blob::Pointer;
use crate::cache::Offer;
use crate::compact::output::{Output, OutputOptions, filter_bits};
use crate::compact::pick::{self, Compaction};
use crate::compact::retain::Retention;
use crate::cursor::Cursor;
use crate::error::Result;
use crate::read::merge::{Direction, LevelCursor, MergeCursor, Source};
use crate::state::TreeInner;
use crate::table::ScanHint;
use crate::version::edit::{Edit, TableInfo};
use crate::version::levels::{LEVELS, Levels, Table};

/// Merges once in the tree that needs it most; `false` when none does.
pub(crate) fn compact_some(store: &Store) -> Result<bool> {
    let _one_at_a_time = store.compacting.lock();
    let base = store.base_bytes();
    let time_us = store.snapshots.moments(&store.commit, &store.clock).time_us;
    let urgent = {
        let trees = store.take_compaction_candidates();
        let scored = trees.into_iter().filter(|tree| !tree.is_dropped()).map(|tree| {
            let urgency = match store.has_deleted(&tree) {
                true => f64::INFINITY,
                false => pick::urgency(&tree.state.load().levels, base, time_us),
            };
            (urgency, tree)
        });
        let mut urgent: Vec<_> = scored.filter(|(urgency, _)| *urgency >= 1.0).collect();
        urgent.sort_by(|a, b| b.0.total_cmp(&a.0));
        urgent
    };
    let mut urgent = urgent.into_iter();
    let first = urgent.next();
    store.add_compaction_candidates(urgent.map(|(_, tree)| tree));
    let Some((_, tree)) = first else { return Ok(false) };
    let _no_flush_below = tree.below_level_0.lock();
    let levels = Arc::clone(&tree.state.load().levels);
    if store.drop_deleted(&tree)? {
        store.add_compaction_candidates([Arc::clone(&tree)]);
        return Ok(true);
    }
    let Some(compaction) = pick::pick(&levels, base, time_us) else { return Ok(true) };
    let result = run(store, &tree, &levels, &compaction);
    store.add_compaction_candidates([Arc::clone(&tree)]);
    result.map(|()| true)
}

/// Merges all of `tree` into its bottom level.
pub(crate) fn compact_all(store: &Store, tree: &Arc<TreeInner>) -> Result<()> {
    let _one_at_a_time = store.compacting.lock();
    let _no_flush_below = tree.below_level_0.lock();
    let levels = Arc::clone(&tree.state.load().levels);
    let time_us = store.snapshots.moments(&store.commit, &store.clock).time_us;
    let has_ranges = !tree.state.load().ranges.is_empty();
    match pick::pick_all(&levels, time_us, has_ranges) {
        // A move would keep tombstones and older versions, and shared files alive.
        Some(compaction) => rewrite(store, tree, &levels, &compaction),
        None => Ok(()),
    }
}

fn run(store: &Store, tree: &Arc<TreeInner>, levels: &Levels, compaction: &Compaction) -> Result<()> {
    if compaction.is_move() && compaction.inputs[0].0 != compaction.target {
        return move_table(store, tree, compaction);
    }
    rewrite(store, tree, levels, compaction)
}

fn rewrite(store: &Store, tree: &Arc<TreeInner>, levels: &Levels, compaction: &Compaction) -> Result<()> {
    let mut dropped = Vec::new();
    let outputs = merge(store, tree, levels, compaction, &mut dropped)?;
    let mut edits: Vec<Edit> = removals(tree, compaction).collect();
    let level = compaction.target as u8;
    edits.extend(outputs.into_iter().map(|table| Edit::AddTable { tree: tree.id, level, table }));
    let added = edits.clone();
    let installed = store.install(&[(Arc::clone(tree), Vec::new())], edits, &dropped);
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
    store.install(&[(Arc::clone(tree), Vec::new())], edits, &[])
}

/// Gathers the pointers to huge values that `table` holds.
pub(super) fn pointers_of(table: &Arc<Table>, pointers: &mut Vec<Pointer>) -> Result<()> {
    let mut cursor = table.cursor(ScanHint::Compaction)?;
    cursor.seek_to_first()?;
    while cursor.valid() {
        pointers.extend(Pointer::of_entry(cursor.kind(), cursor.value()));
        cursor.next()?;
    }
    Ok(())
}

/// One source per run of level 0, one per sorted level.
fn sources(inputs: &[(usize, Arc<Table>)]) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for (_, table) in inputs.iter().filter(|(level, _)| *level == 0) {
        sources.push(Source::Table(table.cursor(ScanHint::Compaction)?));
    }
    for level in 1..LEVELS {
        let of_level = inputs.iter().filter(|(of, _)| *of == level).map(|(_, table)| Arc::clone(table));
        let mut tables: Vec<Arc<Table>> = of_level.collect();
        if !tables.is_empty() {
            tables.sort_by(|a, b| a.info.smallest.cmp(&b.info.smallest));
            sources.push(Source::Level(LevelCursor::new(Arc::new(tables), ScanHint::Compaction)));
        }
    }
    Ok(sources)
}

fn merge(
    store: &Store,
    tree: &TreeInner,
    levels: &Levels,
    compaction: &Compaction,
    dropped: &mut Vec<Pointer>,
) -> Result<Vec<TableInfo>> {
    let Compaction { inputs, target, for_reads } = compaction;
    let smallest = inputs.iter().map(|(_, table)| table.info.smallest.as_slice()).min().unwrap_or_default();
    let largest = inputs.iter().map(|(_, table)| table.info.largest.as_slice()).max().unwrap_or_default();
    let deeper_overlap = (target + 1..LEVELS)
        .any(|level| levels.level(level).iter().any(|table| table.overlaps(smallest, largest)));
    // Runs of level 0 that this merge leaves out are newer than those it takes, never older.
    let moments = store.snapshots.moments(&store.commit, &store.clock);
    let certain = store.flushed_up_to(tree.id);
    let retention = Retention::new(moments, &tree.state.load().ranges, certain);
    // Tables of the target level that the merge leaves out lie between its keys, never across them: no
    // output table may span one.
    let is_input = |table: &Arc<Table>| inputs.iter().any(|(_, input)| Arc::ptr_eq(input, table));
    let left_out = levels.level(*target).iter().filter(|table| !is_input(table));
    let mut fences = left_out.map(|table| table.info.smallest.as_slice()).peekable();
    let deepest = levels.deepest().max(*target);
    let mut output = Output::new(
        &store.tables,
        OutputOptions {
            compression: tree.options.compression,
            filter_bits: filter_bits(store.options.filter_bits, *target, deepest),
            table_bytes: store.options.table_bytes as u64,
            offer: for_reads.then_some(Offer::Wanted),
            cleared: retention.cleared(),
            tree: Some(tree.id),
        },
    );
    let mut merge = MergeCursor::new(sources(inputs)?, Direction::Forward);
    merge.seek_to_start()?;
    // Dropping the output removes its files; the inputs are as they were.
    let goes_on = || if store.is_closing() { Err(store.closed_error()) } else { Ok(()) };
    let operators = &store.options.merge_operators;
    Survivors { operators, retention, nothing_below: !deeper_overlap, dropped }.write_all(
        &mut merge,
        &goes_on,
        |key, seq, kind, stored| {
            if fences.next_if(|fence| *fence < key).is_some() {
                while fences.next_if(|fence| *fence < key).is_some() {}
                output.cut()?;
            }
            output.add(key, seq, kind, stored)
        },
    )?;
    let written = output.finish()?;
    store.counters.note_merge(inputs.iter().map(|(_, table)| table.info.size).sum(), &written);
    Ok(written)
}
