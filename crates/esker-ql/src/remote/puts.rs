//! What `INSERT` and `LOAD DATA` put to an HBase cluster, in calls.
//!
//! ```text
//! puts without a timestamp:  a b a a     calls:  a b | a | a     2 ms apart
//! ```
//! HBase gives all puts of a call the time at which it executes the call, and of several puts of one column with one time, the last
//! one replaces the others. So each put of a column without a timestamp is in a call of its own, and the calls are executed in different
//! milliseconds: also those of two statements.

use core::time::Duration;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use esker_table::{CellBatch, PutCell};
use esker_thrift::{Change, RowChanges};

/// Time between two calls that put the same column. More than a millisecond: the server's clock may run a little slower than ours.
pub(super) const APART: Duration = Duration::from_millis(2);

/// Puts as calls.
pub(super) struct Calls {
    /// Puts without a timestamp, in the order of the calls.
    pub(super) in_turn: Vec<Vec<RowChanges>>,
    /// Puts with a timestamp, a call for each, in any order.
    pub(super) timed: Vec<(i64, Vec<RowChanges>)>,
}

impl Calls {
    pub(super) fn of(cells: &CellBatch) -> Calls {
        let mut in_turn: Vec<Vec<RowChanges>> = Vec::new();
        let mut timed: BTreeMap<i64, Vec<RowChanges>> = BTreeMap::new();
        let mut turns: HashMap<(&[u8], &str, &[u8]), usize> = HashMap::new();
        for PutCell { row, family, qualifier, timestamp, value } in cells.iter() {
            let rows = match timestamp {
                Some(timestamp) => timed.entry(timestamp).or_default(),
                None => {
                    let turn = turns.entry((row, family, qualifier)).or_default();
                    *turn += 1;
                    in_turn.resize_with(in_turn.len().max(*turn), Vec::new);
                    &mut in_turn[*turn - 1]
                }
            };
            let column = [family.as_bytes(), b":", qualifier].concat();
            let change = Change { column, value: Some(value.to_vec()) };
            match rows.last_mut() {
                Some(last) if last.row == row => last.changes.push(change),
                _ => rows.push(RowChanges { row: row.to_vec(), changes: vec![change] }),
            }
        }
        Calls { in_turn, timed: timed.into_iter().collect() }
    }
}

/// How many columns [`Recent`] remembers at most, and those of one call.
const RECENT_MAX: usize = 100_000;

/// The columns that calls have put without a timestamp since the last pause, as hashes.
#[derive(Debug, Default)]
pub(super) struct Recent {
    hasher: RandomState,
    columns: HashSet<u64>,
}

impl Recent {
    /// Notes the columns of the next call. Whether it needs a pause before it, since one of the columns was put.
    pub(super) fn needs_pause(&mut self, table: &str, rows: &[RowChanges]) -> bool {
        let hash =
            |row: &RowChanges, change: &Change| self.hasher.hash_one((table, &row.row, &change.column));
        let columns = rows.iter().flat_map(|row| row.changes.iter().map(move |change| (row, change)));
        let columns: Vec<u64> = columns.map(|(row, change)| hash(row, change)).collect();
        let is_full = self.columns.len() > RECENT_MAX;
        let needs = is_full || columns.iter().any(|column| self.columns.contains(column));
        if needs {
            self.columns.clear();
        }
        self.columns.extend(columns);
        needs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_put_of_a_column_is_in_a_call_of_its_own() {
        let mut cells = CellBatch::new();
        let puts =
            [("r", "a", None), ("r", "b", None), ("s", "a", None), ("r", "a", Some(7)), ("r", "a", None)];
        for (place, (row, qualifier, timestamp)) in puts.into_iter().enumerate() {
            let (row, qualifier, value) = (row.as_bytes(), qualifier.as_bytes(), &[place as u8][..]);
            cells.push(PutCell { row, family: "f", qualifier, timestamp, value });
        }
        let Calls { in_turn, timed } = Calls::of(&cells);
        let shown = |rows: &[RowChanges]| -> Vec<(String, u8)> {
            let changes = rows.iter().flat_map(|row| row.changes.iter().map(move |change| (row, change)));
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let shown = changes.map(|(row, change)| {
                (
                    text(&row.row) + " " + &text(&change.column),
                    change.value.as_ref().map_or(0, |value| value[0]),
                )
            });
            shown.collect()
        };
        let first = [("r f:a", 0), ("r f:b", 1), ("s f:a", 2)].map(|(name, value)| (name.to_owned(), value));
        assert_eq!(
            in_turn.iter().map(|rows| shown(rows)).collect::<Vec<_>>(),
            [&first[..], &[("r f:a".to_owned(), 4)]]
        );
        assert_eq!(
            timed.iter().map(|(at, rows)| (*at, shown(rows))).collect::<Vec<_>>(),
            [(7, vec![("r f:a".to_owned(), 3)])]
        );
        let mut recent = Recent::default();
        let calls = [("t", 1), ("u", 1), ("t", 0), ("u", 0), ("u", 0), ("t", 1)];
        let paused = calls.map(|(table, call)| recent.needs_pause(table, &in_turn[call]));
        assert_eq!(paused, [false, false, true, false, true, false]);
    }
}
