//! What one client does for a command: which rows, which calls, and what it counts.

use super::options::{Command, Options};
use super::target::{Connection, ROW_LEN};
use crate::data::Stream;
use crate::latency::Latencies;
use crate::stores::Result;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

pub(super) const KEY_LEN: usize = 26;

/// A row: its number in decimal digits.
pub(super) type Key = [u8; KEY_LEN];

fn key(mut number: u64) -> Key {
    let mut key = [b'0'; KEY_LEN];
    for digit in key.iter_mut().rev() {
        if number == 0 {
            break;
        }
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    key
}

/// What clients have done.
#[derive(Default)]
pub(super) struct Tally {
    /// Rows that were written, asked for, or scanned.
    pub(super) rows: u64,
    /// Rows that were not found.
    pub(super) missing: u64,
    /// Bytes of the rows that were written or found.
    pub(super) bytes: u64,
    pub(super) latencies: Latencies,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Tally) {
        self.rows += other.rows;
        self.missing += other.missing;
        self.bytes += other.bytes;
        self.latencies.add_all(&other.latencies);
    }
}

/// The work of a client.
pub(super) struct Work<'a> {
    options: &'a Options,
    command: Command,
    draws: Stream,
    /// The rows of its part.
    first: u64,
    /// The rows of all parts.
    total: u64,
    tally: Tally,
    has_failed: &'a AtomicBool,
}

/// What a read has shown.
#[derive(Default)]
struct Found {
    rows: u64,
    bytes: u64,
    wrong: Option<String>,
}

impl Found {
    /// Counts a row, whose value must have `len` bytes.
    fn count(&mut self, row: &[u8], value: &[u8], len: usize) {
        self.rows += 1;
        self.bytes += (ROW_LEN + value.len()) as u64;
        if value.len() != len {
            self.wrong.get_or_insert_with(|| {
                format!(
                    "the row {} has a value of {} bytes, and not {len} (--value-size)",
                    row.escape_ascii(),
                    value.len()
                )
            });
        }
    }
}

impl<'a> Work<'a> {
    /// `turn` is the number of the command in the run: no other one draws the same rows.
    pub(super) fn new(
        options: &'a Options,
        command: Command,
        turn: u64,
        client: u64,
        has_failed: &'a AtomicBool,
    ) -> Self {
        let seed = Stream::new(options.seed).next() ^ (turn << 32 | client);
        let draws = Stream::new(Stream::new(seed).next());
        let (first, total) = (client * options.rows, u64::from(options.clients) * options.rows);
        Work { options, command, draws, first, total, tally: Tally::default(), has_failed }
    }

    /// Does it. It ends early, without a failure of its own, when another client has failed.
    pub(super) fn run(&mut self, table: &mut dyn Connection) -> Result<Tally> {
        match self.command {
            Command::RandomWrite | Command::SequentialWrite => self.write(table)?,
            Command::RandomRead | Command::SequentialRead => self.read(table)?,
            Command::Scan => {
                // PerformanceEvaluation times the rows of a scan, not its opening: so are fetches here.
                let begun = Instant::now();
                self.scan(table, self.first, self.options.rows, Some(begun))?;
            }
            Command::ScanRange(rows) => self.scan_ranges(table, rows)?,
            Command::Increment => self.increment(table)?,
            Command::CheckAndPut => self.check_and_put(table)?,
        }
        Ok(std::mem::take(&mut self.tally))
    }

    /// Whether there is something left to do.
    fn goes_on(&self) -> bool {
        !self.has_failed.load(Ordering::Relaxed)
    }

    fn row(&mut self, i: u64) -> u64 {
        match self.command {
            Command::RandomWrite | Command::RandomRead => self.draws.below(self.total),
            _ => self.first + i,
        }
    }

    /// Counts what a call has done that began at `begun`.
    fn done(&mut self, begun: Instant, rows: u64, bytes: u64) {
        self.tally.latencies.add(begun.elapsed());
        self.tally.rows += rows;
        self.tally.bytes += bytes;
    }

    fn write(&mut self, table: &mut dyn Connection) -> Result<()> {
        let mut batch = vec![(key(0), vec![0; self.options.value_size]); self.options.batch];
        let mut i = 0;
        while i < self.options.rows && self.goes_on() {
            let count = (self.options.rows - i).min(self.options.batch as u64);
            let rows = batch.get_mut(..count as usize).unwrap_or_default();
            for (row, value) in &mut *rows {
                *row = key(self.row(i));
                self.draws.fill(value);
                i += 1;
            }
            let begun = Instant::now();
            table.put(rows)?;
            self.done(begun, count, count * (ROW_LEN + self.options.value_size) as u64);
        }
        Ok(())
    }

    fn read(&mut self, table: &mut dyn Connection) -> Result<()> {
        for i in 0..self.options.rows {
            if !self.goes_on() {
                break;
            }
            let (row, mut found) = (key(self.row(i)), Found::default());
            let begun = Instant::now();
            table.get(&row, &mut |row, value| found.count(row, value, self.options.value_size))?;
            self.done(begun, 1, found.bytes);
            self.tally.missing += 1 - found.rows.min(1);
            refuse(found.wrong)?;
        }
        Ok(())
    }

    /// Scans `rows` rows from one on. With `timed`, counts each fetch as a call; the first one began then.
    fn scan(
        &mut self,
        table: &mut dyn Connection,
        first: u64,
        rows: u64,
        timed: Option<Instant>,
    ) -> Result<()> {
        let mut begun = timed;
        let (mut found, len) = (Found::default(), self.options.value_size);
        table.open(&key(first), &key(first + rows))?;
        // The last fetch asks for no row after the last one that can be there, so the end is not asked for.
        while found.rows < rows && self.goes_on() {
            let before = found.rows;
            let fetched = u64::from(self.options.caching).min(rows - before) as u32;
            table.next(fetched, &mut |row, value| found.count(row, value, len))?;
            if let Some(begun) = &mut begun {
                self.tally.latencies.add(begun.elapsed());
                *begun = Instant::now();
            }
            if found.rows == before {
                break;
            }
        }
        table.close()?;
        self.tally.rows += found.rows;
        self.tally.bytes += found.bytes;
        if self.goes_on() {
            self.tally.missing += rows - found.rows;
        }
        refuse(found.wrong)
    }

    fn scan_ranges(&mut self, table: &mut dyn Connection, rows: u64) -> Result<()> {
        let rows = rows.min(self.total);
        for _ in 0..(self.options.rows / rows).max(1) {
            if !self.goes_on() {
                break;
            }
            let first = self.draws.below(self.total - rows + 1);
            let begun = Instant::now();
            self.scan(table, first, rows, None)?;
            self.done(begun, 0, 0);
        }
        Ok(())
    }

    fn increment(&mut self, table: &mut dyn Connection) -> Result<()> {
        for i in 0..self.options.rows {
            if !self.goes_on() {
                break;
            }
            let row = key(i);
            let begun = Instant::now();
            let sum = table.increment(&row)?;
            self.done(begun, 1, (ROW_LEN + size_of::<i64>()) as u64);
            if sum < 1 {
                let row = row.escape_ascii();
                return Err(format!("increment: the counter of the row {row} is {sum}").into());
            }
        }
        Ok(())
    }

    fn check_and_put(&mut self, table: &mut dyn Connection) -> Result<()> {
        for i in 0..self.options.rows {
            if !self.goes_on() {
                break;
            }
            let row = key(i);
            let begun = Instant::now();
            let is_put = table.check_and_put(&row)?;
            self.done(begun, 1, (ROW_LEN + KEY_LEN) as u64);
            if !is_put {
                let row = row.escape_ascii();
                return Err(format!("checkAndPut: the row {row} does not have what was put before").into());
            }
        }
        Ok(())
    }
}

fn refuse(wrong: Option<String>) -> Result<()> {
    wrong.map_or(Ok(()), |message| Err(message.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_performance_evaluation() {
        assert_eq!(&key(0), b"00000000000000000000000000");
        assert_eq!(&key(1_048_575), b"00000000000000000001048575");
        assert_eq!(&key(u64::MAX), b"00000018446744073709551615");
    }
}
