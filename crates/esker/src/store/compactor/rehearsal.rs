//! Estimates how much of some tables a merge would leave out where the tree has a compaction rule. It does the merge in
//! short windows at equal distances of bytes, and counts the output without writing it.
//!
//! ```text
//! keys      row 1 ........ row 2 ............................. row 3 ..
//! shown                    ^^ not counted         ^^^^^^^^ the window
//! ```
//! An entry may be garbage because of an entry far before it: a cell, for example, because of the delete of its row.
//! Therefore a run of the rule first gets the beginnings of the groups that the window's first key belongs to
//! ([`CompactionRule::prefixes`]).
//!
//! [`CompactionRule::prefixes`]: crate::rules::CompactionRule::prefixes

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::alone::{Inputs, is_alone};
use super::super::survivors::{LeftOut, Sink, Survivors};
use super::{Core, sources};
use crate::compact::dead::{Gain, Samples, above, newest_first, part_of, places};
use crate::compact::operands::Surroundings;
use crate::compact::pick::Compaction;
use crate::compact::retain::{ReadPoints, Retention};
use crate::compact::rule::{BegunRule, RunningRule, prefixes};
use crate::cursor::{Expiry, Kind, MAX_SEQ, SeqNo};
use crate::error::Result;
use crate::keys::prefix_end;
use crate::operators::Below;
use crate::read::merging_cursor::{Direction, MergeCursor, Source};
use crate::rules::RuleContext;
use crate::state::{TreeInner, TreeState};
use crate::table::ScanHint;
use crate::version::levels::Table;
use crate::version::table_info::LookAgain;

/// Size of a window: about this many bytes of keys and values of tables, and at most [`MEMORY_TIMES`] as many together
/// with the memtables' entries there.
const WINDOW: u64 = 16 << 10;
const MEMORY_TIMES: u64 = 4;

/// A window in which one key has more entries is skipped.
const ENTRIES_MAX: usize = 1 << 13;

/// One window replaces this many samples of an estimate without a rule: it reads about as much.
const SAMPLES_PER_WINDOW: u64 = 4;

/// All of a window.
const WHOLE: u64 = 1 << 16;

/// The most entries of each prefix that a run gets before a window.
const SHOWN_BEFORE: usize = 16;

/// Estimates merges of a tree that is in the state `state` and has the rule with the name `rule`.
pub(super) struct Rehearsal<'a> {
    pub(super) core: &'a Core,
    pub(super) tree: &'a TreeInner,
    pub(super) state: &'a TreeState,
    pub(super) rule: &'a str,
    pub(super) points: &'a ReadPoints,
    /// All writes up to this number are in tables.
    pub(super) flushed: SeqNo,
}

/// Where an entry comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum From {
    Memory,
    /// A table. `counts`: it is sampled. `is_above`: it lies above another one.
    Table {
        counts: bool,
        is_above: bool,
    },
}

/// The entries from `begin` on and before `end`, if there is one.
struct Window {
    begin: Vec<u8>,
    end: Option<Vec<u8>>,
    /// How many bytes of sampled tables it has; not 0.
    had: u64,
    entries: Vec<Entry>,
}

impl Window {
    /// Adds to `parts` the bytes of the window that the merge, which was `with_memory`, has kept.
    fn count(&self, with_memory: bool, parts: &mut Parts) {
        let (mut all, mut above) = (0, 0);
        for entry in &self.entries {
            let kept = entry.kept.unwrap_or(0);
            match entry.from {
                From::Memory if with_memory => above += kept,
                From::Table { counts: true, is_above } => {
                    all += kept;
                    above += if is_above { kept } else { 0 };
                }
                From::Memory | From::Table { .. } => {}
            }
        }
        parts.all += part_of(WHOLE, all, self.had);
        parts.above += part_of(WHOLE, above, self.had);
    }
}

struct Entry {
    key: Vec<u8>,
    from: From,
    /// How many bytes of it the merge has written; `None`: it was left out, or is not merged.
    kept: Option<u64>,
}

/// The bytes that merges keep of windows, in parts of [`WHOLE`] of the bytes of sampled tables in each.
#[derive(Debug, Default, Clone, Copy)]
struct Parts {
    /// Bytes of the sampled tables.
    all: u64,
    /// Bytes of sampled tables above others, and of memtables.
    above: u64,
}

/// Notes the entries that a merge writes.
struct Notes<'a> {
    /// The entries of the window that were not passed yet.
    entries: std::slice::IterMut<'a, Entry>,
    with_memory: bool,
}

impl Sink for Notes<'_> {
    fn write(&mut self, key: &[u8], _: SeqNo, _: Kind, stored: &[u8]) -> Result<()> {
        let with_memory = self.with_memory;
        // A merge writes the versions of a key in order, but with other numbers.
        let mut entries = self.entries.by_ref().filter(|entry| with_memory || entry.from != From::Memory);
        if let Some(entry) = entries.find(|entry| entry.key.as_slice() >= key) {
            entry.kept = Some((key.len() + stored.len()) as u64);
        }
        Ok(())
    }

    fn ends_before(&mut self, _: &[u8]) -> bool {
        false
    }

    fn end_table(&mut self, _: LookAgain) -> Result<()> {
        Ok(())
    }
}

/// Knows nothing of operands elsewhere. Therefore entries that they may need stay.
struct Unknown;

impl Surroundings for Unknown {
    fn below(&self, _: &[u8], _: SeqNo) -> Below {
        Below::Unknown
    }

    fn has_operands(&self, _: &[u8], _: SeqNo, _: Expiry) -> bool {
        true
    }
}

impl Rehearsal<'_> {
    /// The same as [`measure`](crate::compact::dead::measure) by `count` samples.
    pub(super) fn gain(&self, compaction: &Compaction, which: Samples<'_>, count: u64) -> Result<Gain> {
        let sampled: Vec<_> =
            compaction.inputs.iter().map(|(_, table)| table).filter(|table| which.include(table)).collect();
        let sizes: Vec<u64> = sampled.iter().map(|table| table.info.size).collect();
        let read = sizes.iter().sum();
        let (of_tables, of_all) =
            (self.sources(compaction, which, false)?, self.sources(compaction, which, true)?);
        let from_all: Vec<From> = of_all.iter().map(|(from, _)| *from).collect();
        let has_memory = from_all.contains(&From::Memory);
        let cursor = |sources: Vec<(From, Source)>| {
            MergeCursor::new(sources.into_iter().map(|(_, source)| source).collect(), Direction::Forward)
        };
        let (mut of_tables, mut of_all) = (cursor(of_tables), cursor(of_all));
        // Places were chosen by bytes. Therefore each window has the same weight, however long its last entry is.
        let (mut windows, mut kept, mut kept_if_flushed) = (0, Parts::default(), Parts::default());
        for (table, offset) in places(&sizes, count.div_ceil(SAMPLES_PER_WINDOW)) {
            if self.core.health.is_closing() {
                return Err(self.core.health.closed_error());
            }
            let begin = sampled[table].key_near(offset)?;
            let Some(mut window) = self.window(&mut of_all, &from_all, begin)? else { continue };
            windows += 1;
            if has_memory {
                self.merge(compaction, &mut window, &mut of_all, true)?;
                window.count(true, &mut kept_if_flushed);
            }
            self.merge(compaction, &mut window, &mut of_tables, false)?;
            window.count(false, &mut kept);
        }
        if !has_memory {
            kept_if_flushed = kept;
        }
        let scaled = |parts: u64| part_of(read, parts, windows * WHOLE);
        let all = windows * WHOLE;
        Ok(Gain {
            read,
            dead: scaled(all.saturating_sub(kept.all)),
            dead_if_flushed: scaled(all.saturating_sub(kept_if_flushed.all)),
            kept_above: scaled(kept.above),
            kept_above_if_flushed: scaled(kept_if_flushed.above),
        })
    }

    /// The group of `key`, by the shortest prefix that the rule names: its first key, and the first key after the
    /// group.
    pub(super) fn group_of(&self, key: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let len = prefixes(&self.core.options.compaction_rules, self.rule, key).first().copied();
        let group = len.and_then(|len| Some((key[..len].to_vec(), prefix_end(&key[..len])?)));
        group.unwrap_or_else(|| (key.to_vec(), key.to_vec()))
    }

    /// The inputs of `compaction`, after the memtables if it is `with_memory`.
    fn sources(
        &self,
        compaction: &Compaction,
        which: Samples<'_>,
        with_memory: bool,
    ) -> Result<Vec<(From, Source)>> {
        let mut found = Vec::new();
        let mems = std::iter::once(&self.state.mem).chain(&self.state.immutable);
        for mem in mems.filter(|mem| with_memory && !mem.is_untouched()) {
            found.push((From::Memory, Source::Mem(mem.table.cursor())));
        }
        let inputs = newest_first(compaction);
        let froms = inputs
            .iter()
            .zip(above(&inputs))
            .map(|((_, table), is_above)| From::Table { counts: which.include(table), is_above });
        let mut by_from: BTreeMap<From, Vec<(usize, Arc<Table>)>> = BTreeMap::new();
        for (from, input) in froms.zip(&inputs) {
            by_from.entry(from).or_default().push(input.clone());
        }
        for (from, inputs) in by_from {
            found.extend(sources(&inputs, ScanHint::Scan)?.into_iter().map(|source| (from, source)));
        }
        Ok(found)
    }

    /// The window of `merge` that begins at the key `begin`. `from` describes the sources of `merge`. `None` if the
    /// window has no bytes of sampled tables.
    fn window(&self, merge: &mut MergeCursor, from: &[From], begin: Vec<u8>) -> Result<Option<Window>> {
        let (mut of_tables, mut of_all, mut had) = (0, 0, 0);
        let mut entries: Vec<Entry> = Vec::new();
        merge.seek(&begin, MAX_SEQ)?;
        while merge.valid() {
            let (key, from) = (merge.key(), from[merge.source()]);
            let is_enough = of_tables >= WINDOW || of_all >= WINDOW * MEMORY_TIMES;
            if is_enough && entries.last().is_some_and(|last| last.key != key) {
                break;
            }
            if entries.len() >= ENTRIES_MAX {
                // A key with so many versions is not typical of other keys.
                return Ok(None);
            }
            let bytes = (key.len() + merge.value().len()) as u64;
            of_all += bytes;
            of_tables += if from == From::Memory { 0 } else { bytes };
            had += if matches!(from, From::Table { counts: true, .. }) { bytes } else { 0 };
            entries.push(Entry { key: key.to_vec(), from, kept: None });
            merge.advance()?;
        }
        let end = merge.valid().then(|| merge.key().to_vec());
        Ok((had > 0).then_some(Window { begin, end, had, entries }))
    }

    /// Merges the entries of `cursor` in `window`: all inputs of `compaction`, and all memtables if it is
    /// `with_memory`. Notes what that would write.
    fn merge(
        &self,
        compaction: &Compaction,
        window: &mut Window,
        cursor: &mut MergeCursor,
        with_memory: bool,
    ) -> Result<()> {
        let Window { begin, end, entries, .. } = window;
        entries.iter_mut().for_each(|entry| entry.kept = None);
        let nothing_below = !compaction.has_older_below(&self.state.levels);
        let rules = &self.core.options.compaction_rules;
        let begun = BegunRule::begin(rules, self.rule, &self.tree.name);
        let scope = self.core.rule_scope(self.tree, self.points, None);
        let inputs = match with_memory {
            false => Inputs::Tables(&compaction.inputs),
            true => Inputs::WithMemtables(&compaction.inputs),
        };
        let alone = |lower: &[u8], upper: Option<&[u8]>| {
            is_alone(self.tree, inputs, scope.newest_snapshot, lower, upper)
        };
        let context = RuleContext::new(&self.tree.name, self.points.time_us, false, &alone);
        let mut rule = RunningRule::new(begun, &context, scope);
        // The last key that the rule was shown.
        let last = RefCell::new(Vec::new());
        for len in prefixes(rules, self.rule, begin) {
            let prefix = &begin[..len];
            let shown = Cell::new(0);
            {
                let last = last.borrow();
                cursor.seek(prefix.max(last.as_slice()), MAX_SEQ)?;
                while cursor.valid() && !last.is_empty() && cursor.key() == last.as_slice() {
                    cursor.advance()?;
                }
            }
            let goes_on = |key: &[u8]| {
                let is_shown =
                    shown.get() < SHOWN_BEFORE && key.starts_with(prefix) && key < begin.as_slice();
                if is_shown {
                    shown.set(shown.get() + 1);
                    key.clone_into(&mut last.borrow_mut());
                }
                Ok(is_shown)
            };
            let notes = Notes { entries: [].iter_mut(), with_memory };
            self.write_all(nothing_below, &mut rule, cursor, &goes_on, notes)?;
        }
        cursor.seek(begin, MAX_SEQ)?;
        let goes_on = |key: &[u8]| Ok(end.as_ref().is_none_or(|end| key < end.as_slice()));
        let notes = Notes { entries: entries.iter_mut(), with_memory };
        self.write_all(nothing_below, &mut rule, cursor, &goes_on, notes)
    }

    fn write_all(
        &self,
        nothing_below: bool,
        rule: &mut RunningRule<'_>,
        cursor: &mut MergeCursor,
        goes_on: &dyn Fn(&[u8]) -> Result<bool>,
        mut notes: Notes<'_>,
    ) -> Result<()> {
        let certain = if notes.with_memory { MAX_SEQ } else { self.flushed };
        Survivors {
            operators: &self.core.options.merge_operators,
            retention: Retention::new(self.points.clone(), &self.state.ranges, certain),
            nothing_below,
            around: &Unknown,
            keeps_pointers: false,
            left_out: &mut LeftOut::default(),
            rule: Some(rule),
        }
        .write_all(cursor, goes_on, &mut notes)
    }
}
