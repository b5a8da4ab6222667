//! A compaction rule by which one short entry may hide any number of others.
//!
//! ```text
//! marker   row u32 | 0
//! cell     row u32 | 1 | number u32
//! ```

use esker::CompactionRule;
use esker::rules::{RuleContext, RuleDecision, RuleEntry, RuleRun};

/// A marker masks all cells of its row, whenever they were written.
pub struct RowMarkers;

pub fn cell(row: u32, number: u32) -> Vec<u8> {
    [&row.to_be_bytes()[..], &[1], &number.to_be_bytes()].concat()
}

pub fn marker(row: u32) -> Vec<u8> {
    [&row.to_be_bytes()[..], &[0]].concat()
}

#[derive(Default)]
struct RowMarkersRun {
    masked: Option<[u8; 4]>,
}

impl CompactionRule for RowMarkers {
    fn name(&self) -> &str {
        "row markers"
    }

    fn begin(&self, _: &str) -> Box<dyn RuleRun + '_> {
        Box::<RowMarkersRun>::default()
    }

    fn prefixes(&self, _: &[u8]) -> Vec<usize> {
        vec![4]
    }
}

impl RuleRun for RowMarkersRun {
    fn entry(&mut self, context: &RuleContext<'_>, entry: &RuleEntry<'_>) -> RuleDecision {
        let (row, rest) = entry.key.split_first_chunk::<4>().unwrap();
        if rest[0] == 0 {
            self.masked = Some(*row);
            let behind = (u32::from_be_bytes(*row) + 1).to_be_bytes();
            return if context.alone(row, Some(&behind)) { RuleDecision::Drop } else { RuleDecision::Keep };
        }
        if self.masked == Some(*row) { RuleDecision::Drop } else { RuleDecision::Keep }
    }
}
