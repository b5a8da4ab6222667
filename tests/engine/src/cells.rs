//! A table of versioned cells with a compaction rule that uses all that rules may do, and the filter of its readers.
//!
//! ```text
//! cell     row u8 | 1 | column u8 | version u64, descending | generation u8 | hour u8     value: of any length
//! marker   row u8 | 0                                                                     value: version u64
//! ```
//! A cell is garbage from its hour on (0: never), if its generation is older than that of its row, or if a marker masks
//! it: one of its row with its version or a newer one. Versions grow from write to write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use esker::CompactionRule;
use esker::rules::{RuleContext, RuleDecision, RuleEntry, RuleRun, RuleValue};

use crate::HOUR_US;

pub const ROWS: u64 = 12;
/// What the wall clock of tests shows at first, in microseconds.
pub const FIRST_US: u64 = 1_700_000_000_000_000;

/// Which generation of each row counts. It only grows.
pub type Generations = Arc<[AtomicU8; ROWS as usize]>;

pub type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Default)]
pub struct Cells(pub Generations);

pub fn cell(row: u8, column: u8, version: u64, generation: u8, hour: u8) -> Vec<u8> {
    let mut key = vec![row, 1, column];
    key.extend_from_slice(&(!version).to_be_bytes());
    key.extend_from_slice(&[generation, hour]);
    key
}

pub fn marker(row: u8) -> Vec<u8> {
    vec![row, 0]
}

impl Cells {
    pub const NAME: &str = "cells";

    pub fn generation(&self, row: u8) -> u8 {
        self.0[usize::from(row)].load(Ordering::Relaxed)
    }

    pub fn next_generation(&self, row: u8) {
        self.0[usize::from(row)].fetch_add(1, Ordering::Relaxed);
    }

    /// Whether it is a cell whose hour has come at `now_us`: for readers of then it does not matter whether it is there.
    pub fn is_over(key: &[u8], now_us: u64) -> bool {
        matches!(key, [_, 1, .., hour] if *hour > 0 && FIRST_US + u64::from(*hour) * HOUR_US <= now_us)
    }

    /// Whether a cell is garbage at `now_us` under a marker with the version `masked`.
    fn is_garbage(&self, key: &[u8], now_us: u64, masked: Option<u64>) -> bool {
        let [row, 1, _, version @ .., generation, _] = key else { return false };
        let version = !u64::from_be_bytes(version.try_into().unwrap());
        Self::is_over(key, now_us)
            || *generation < self.generation(*row)
            || masked.is_some_and(|masked| version <= masked)
    }

    /// What a reader makes of `pairs` at `now_us`: the cells that are not garbage.
    pub fn filtered(&self, pairs: &Pairs, now_us: u64) -> Pairs {
        let masked = |row: u8| pairs.get(&marker(row)).map(|value| number(value));
        let shown =
            pairs.iter().filter(|(key, _)| key[1] == 1 && !self.is_garbage(key, now_us, masked(key[0])));
        shown.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

fn number(value: &[u8]) -> u64 {
    u64::from_be_bytes(value[..8].try_into().unwrap())
}

struct CellsRun<'a> {
    cells: &'a Cells,
    /// The row and version of the last marker.
    masked: Option<(u8, u64)>,
    next_us: Option<u64>,
}

impl CompactionRule for Cells {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn begin(&self, _: &str) -> Box<dyn RuleRun + '_> {
        Box::new(CellsRun { cells: self, masked: None, next_us: None })
    }
}

impl RuleRun for CellsRun<'_> {
    fn entry(&mut self, context: &RuleContext<'_>, entry: &RuleEntry<'_>) -> RuleDecision {
        let row = entry.key[0];
        if entry.key[1] == 0 {
            let RuleValue::Inline(value) = entry.value else { return RuleDecision::Keep };
            self.masked = Some((row, number(value)));
            let is_alone = context.alone(&[row, 1], Some(&[row, 2]));
            return if is_alone { RuleDecision::Drop } else { RuleDecision::Keep };
        }
        let masked = self.masked.filter(|(of, _)| *of == row).map(|(_, version)| version);
        if Cells::is_over(entry.key, context.now_us()) {
            return RuleDecision::DropPinned;
        }
        if self.cells.is_garbage(entry.key, context.now_us(), masked) {
            return RuleDecision::Drop;
        }
        let hour = *entry.key.last().unwrap();
        if hour > 0 {
            let until = FIRST_US + u64::from(hour) * HOUR_US;
            self.next_us = Some(self.next_us.map_or(until, |next| next.min(until)));
        }
        RuleDecision::Keep
    }

    fn look_again_us(&mut self) -> Option<u64> {
        self.next_us.take()
    }
}
