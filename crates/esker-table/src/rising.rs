//! The times of cells that are put without a timestamp, where each put is to be a version of its own
//! ([`Table::distinct_times`](crate::Table::distinct_times)).
//!
//! ```text
//! puts of one call:      a    b    a    a
//! their times, in ms:   50   52   51   52    the call waits until the clock shows 52, locks its rows, and writes
//! ```
//! - The last put of a column has the time of the write, and each earlier one a millisecond less. Before it locks the rows, the call
//!   reserves these milliseconds and waits until they have come. So no time is ahead of the clock: later writes and deletes of any
//!   client take effect.
//! - All times of a column are later than those that earlier calls have reserved for it. [`Rising`] remembers the last time of each
//!   column as that of the columns whose hash ends in the same bits: a call may wait for the times of another column.
//! - A call that only puts has the reserved time, also if it gets the rows later. One that also reads or deletes has the time at which
//!   it has the rows: what it has found is not later.
//! - Of a family that keeps `n` versions, the last `n` puts of a column differ in time. Earlier ones share the time of the first of
//!   these, which replaces them; they would be driven out in any case. So the call waits for `n - 1` ms at most, and puts to a family
//!   that keeps one version never wait.

use core::time::Duration;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Condvar, Mutex, PoisonError};

use crate::error::{Error, Result};

/// How many puts of one column without a timestamp a call has at most, where each is to be a version of its own
/// ([`Table::distinct_times`](crate::Table::distinct_times)): the call waits for a millisecond for each.
pub const PUTS_OF_A_COLUMN_MAX: usize = 1000;

/// How many last times are remembered; a power of two.
const TIMES: usize = 1 << 16;

/// A put without a timestamp.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Put<'c> {
    pub(crate) row: &'c [u8],
    pub(crate) family: &'c str,
    pub(crate) qualifier: &'c [u8],
    /// How many versions the family keeps; `None`: all.
    pub(crate) kept: Option<u32>,
}

/// What the puts of a call need.
#[derive(Debug, Default)]
pub(crate) struct Puts {
    /// The places of the last times of the columns, and how many milliseconds the column takes.
    columns: Vec<(usize, i64)>,
    /// How many milliseconds before the write the time of each put is; empty: all have the time of the write.
    before: Vec<i64>,
}

impl Puts {
    /// Whether none needs a time of its own.
    pub(crate) fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// The times of puts, in the order of the puts, if the write is at `now_ms`.
    pub(crate) fn times(&self, now_ms: i64) -> impl Iterator<Item = i64> {
        self.before.iter().map(move |before| now_ms - before).chain(std::iter::repeat(now_ms))
    }
}

/// The last times of columns.
pub(crate) struct Rising {
    hasher: RandomState,
    last: Mutex<Vec<i64>>,
    /// Never notified: calls wait for the clock.
    passing: Condvar,
}

impl Rising {
    pub(crate) fn new() -> Rising {
        Rising { hasher: RandomState::new(), last: Mutex::new(vec![0; TIMES]), passing: Condvar::new() }
    }

    /// What puts to a table need.
    ///
    /// # Errors
    /// `Invalid` when too many are of one column.
    pub(crate) fn puts<'c>(&self, table: u64, puts: impl Iterator<Item = Put<'c>> + Clone) -> Result<Puts> {
        let hash = |put: &Put<'_>| self.hasher.hash_one((table, put.row, put.family, put.qualifier));
        let needs_times = |put: &Put<'_>| put.kept != Some(1);
        let mut hashes: Vec<u64> = puts.clone().filter(needs_times).map(|put| hash(&put)).collect();
        hashes.sort_unstable();
        let twice = hashes.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
        let twice: HashSet<u64> = twice.collect();
        let place = |hash: u64| hash as usize % TIMES;
        if twice.is_empty() {
            let columns = hashes.into_iter().map(|hash| (place(hash), 1)).collect();
            return Ok(Puts { columns, before: Vec::new() });
        }
        hashes.dedup();
        let puts: Vec<Put<'_>> = puts.collect();
        let (mut before, mut later) = (vec![0; puts.len()], HashMap::new());
        let mut widths: HashMap<u64, i64> = HashMap::new();
        for (put, before) in puts.iter().zip(&mut before).rev().filter(|(put, _)| needs_times(put)) {
            let hash = hash(put);
            if !twice.contains(&hash) {
                continue;
            }
            let count = later.entry((put.row, put.family, put.qualifier)).or_insert(0_i64);
            let most = put.kept.map_or(i64::MAX, |kept| i64::from(kept.max(1)) - 1);
            *before = (*count).min(most);
            if *before >= PUTS_OF_A_COLUMN_MAX as i64 {
                return Err(too_many(put));
            }
            *count += 1;
            let width = widths.entry(hash).or_default();
            *width = (*before + 1).max(*width);
        }
        let width = |hash: u64| widths.get(&hash).copied().unwrap_or(1);
        let columns = hashes.into_iter().map(|hash| (place(hash), width(hash))).collect();
        Ok(Puts { columns, before })
    }

    /// Reserves times for puts, by the clock `now_ms`, and waits until they have come. Returns the last one.
    pub(crate) fn reserve(&self, puts: &Puts, now_ms: impl Fn() -> i64) -> i64 {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let until_ms = reserved(&mut last, puts, now_ms());
        while let left = until_ms - now_ms()
            && left > 0
        {
            let left = Duration::from_millis(left.unsigned_abs());
            last = self.passing.wait_timeout(last, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        until_ms
    }

    /// The time of a write that is later than the reserved time, which `now_ms` returns. Later calls get later times.
    pub(crate) fn note(&self, puts: &Puts, now_ms: impl Fn() -> i64) -> i64 {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ms = now_ms();
        puts.columns.iter().for_each(|(place, _)| last[*place] = last[*place].max(now_ms));
        now_ms
    }
}

/// Reserves times for puts from `now_ms` on, and returns the last one.
fn reserved(last: &mut [i64], puts: &Puts, now_ms: i64) -> i64 {
    let needed = puts.columns.iter().map(|(place, width)| {
        let first = last[*place].saturating_add(1).max(now_ms);
        first.saturating_add(width - 1)
    });
    let until_ms = needed.max().unwrap_or(now_ms);
    puts.columns.iter().for_each(|(place, _)| last[*place] = until_ms);
    until_ms
}

fn too_many(put: &Put<'_>) -> Error {
    Error::invalid(format!(
        "more than {PUTS_OF_A_COLUMN_MAX} cells of the row \"{}\" and the column \"{}:{}\" have no timestamp: each of them gets a \
         millisecond of its own; give them timestamps, or write them by several calls",
        put.row.escape_ascii(),
        put.family,
        put.qualifier.escape_ascii()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(column: &'static str, kept: Option<u32>) -> Put<'static> {
        Put { row: b"r", family: "f", qualifier: column.as_bytes(), kept }
    }

    #[test]
    fn the_last_put_of_a_column_has_the_time_of_the_write() {
        let rising = Rising::new();
        let puts = [("a", None), ("b", None), ("a", None), ("c", Some(2)), ("c", Some(2)), ("c", Some(2))];
        let puts = puts.map(|(column, kept)| put(column, kept));
        let more = [put("a", None), put("d", Some(1)), put("d", Some(1))];
        let found = rising.puts(1, puts.into_iter().chain(more)).unwrap();
        assert_eq!(found.times(50).take(10).collect::<Vec<_>>(), [48, 50, 49, 49, 49, 50, 50, 50, 50, 50]);
        // Three milliseconds of `a`, which begin now.
        let reserve = |puts: &Puts, now_ms| reserved(&mut rising.last.lock().unwrap(), puts, now_ms);
        assert_eq!(reserve(&found, 50), 52);
        assert_eq!(reserve(&found, 50), 55);
        let other = |column, kept| rising.puts(1, [put(column, kept)].into_iter()).unwrap();
        assert_eq!(reserve(&other("a", None), 50), 56);
        assert_eq!(reserve(&other("a", None), 60), 60);
        // One version is enough of this family.
        assert_eq!(reserve(&other("a", Some(1)), 50), 50);
    }

    #[test]
    fn a_column_is_not_put_too_often_in_one_call() {
        let rising = Rising::new();
        let puts = |count, kept| {
            let puts = rising.puts(1, std::iter::repeat_n(put("a", kept), count));
            puts.map(|puts| puts.times(9).next())
        };
        assert!(puts(PUTS_OF_A_COLUMN_MAX, None).is_ok());
        assert!(matches!(puts(PUTS_OF_A_COLUMN_MAX + 1, None), Err(Error::Invalid(_))));
        assert_eq!(puts(PUTS_OF_A_COLUMN_MAX + 1, Some(3)).unwrap(), Some(7));
    }
}
