//! The slow operations of the last minutes: how many there were, their waits, and the slowest of them.

use std::collections::VecDeque;
use std::fmt;
use std::time::SystemTime;

use parking_lot::Mutex;

use super::metrics::Subject;
use super::perf_context::Notes;
use super::{Cause, Operation};
use crate::env::moment_at;

/// Minutes that are remembered, the one under way included.
const MINUTES: u64 = 10;

/// Operations of each minute that are kept whole.
const SLOWEST: usize = 16;

/// The time and the reads that one cause took of an operation, or of several.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spent {
    /// The cause.
    pub cause: Cause,
    /// How often it occurred.
    pub count: u64,
    /// Microseconds of waiting. 0 for reads from files: these are not timed separately.
    pub us: u64,
    /// Bytes that were read.
    pub bytes: u64,
}

/// An operation that took a millisecond or more.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlowOperation {
    /// The kind of operation.
    pub operation: Operation,
    /// The tree that it read or wrote; the first if there were several.
    pub tree: Option<String>,
    /// The key, or the first of several; at most its first 64 bytes.
    pub key: Vec<u8>,
    /// When it ended, in microseconds since 1970.
    pub ended_us: u64,
    /// Microseconds that it took, at least from the first wait or read on.
    pub took_us: u64,
    /// Its waits and reads. If empty, nothing was recorded; it may have waited for a processor, or for its turn.
    pub causes: Vec<Spent>,
}

impl SlowOperation {
    /// [`SlowOperation::ended_us`] as a moment. `None` if it is too far away for the system's [`SystemTime`].
    pub fn ended_at(&self) -> Option<SystemTime> {
        moment_at(self.ended_us)
    }
}

/// The slow operations of the last ten minutes, from [`Db::why_slow`](crate::Db::why_slow).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WhySlow {
    /// How many operations took a millisecond or more. Operations that neither waited nor read anything are sampled:
    /// one in 64.
    pub count: u64,
    /// Microseconds that they took together.
    pub took_us: u64,
    /// Their waits and reads in total; the cause that took most time comes first.
    pub causes: Vec<Spent>,
    /// The slowest of them, at most 16 of each minute, slowest first.
    pub slowest: Vec<SlowOperation>,
}

fn spent(notes: &Notes) -> Vec<Spent> {
    let of_cause = Cause::ALL.iter().zip(&notes.spent).filter(|(_, amount)| amount.count > 0);
    of_cause
        .map(|(&cause, amount)| Spent {
            cause,
            count: amount.count,
            us: amount.ns / 1000,
            bytes: amount.bytes,
        })
        .collect()
}

impl SlowOperation {
    pub(super) fn new(
        operation: Operation,
        subject: Subject,
        ended_us: u64,
        took: u64,
        notes: &Notes,
    ) -> Self {
        let Subject { tree, key } = subject;
        SlowOperation { operation, tree, key, ended_us, took_us: took / 1000, causes: spent(notes) }
    }
}

#[derive(Debug, Default)]
pub(super) struct Slow {
    minutes: Mutex<VecDeque<Minute>>,
}

#[derive(Debug, Default)]
struct Minute {
    number: u64,
    count: u64,
    took_ns: u64,
    notes: Notes,
    slowest: Vec<SlowOperation>,
}

impl Slow {
    /// An operation of `took` nanoseconds ends in `minute`. `describe` is called if it is one of the slowest.
    pub(super) fn add(
        &self,
        minute: u64,
        took: u64,
        notes: &Notes,
        describe: impl FnOnce() -> SlowOperation,
    ) {
        let mut minutes = self.minutes.lock();
        if minutes.back().is_none_or(|last| last.number < minute) {
            minutes.push_back(Minute { number: minute, ..Minute::default() });
        }
        while minutes.front().is_some_and(|first| first.number + MINUTES <= minute) {
            minutes.pop_front();
        }
        let Some(of_minute) = minutes.back_mut() else { return };
        of_minute.count += 1;
        of_minute.took_ns += took;
        of_minute.notes.add(notes);
        let slowest = &mut of_minute.slowest;
        if slowest.len() == SLOWEST {
            let quickest = slowest.iter().enumerate().min_by_key(|(_, operation)| operation.took_us);
            match quickest {
                Some((index, operation)) if operation.took_us < took / 1000 => {
                    slowest.swap_remove(index);
                }
                _ => return,
            }
        }
        slowest.push(describe());
    }

    pub(super) fn read(&self, now: u64) -> WhySlow {
        let minutes = self.minutes.lock();
        let mut why = WhySlow::default();
        let mut notes = Notes::default();
        for minute in minutes.iter().filter(|minute| minute.number + MINUTES > now) {
            why.count += minute.count;
            why.took_us += minute.took_ns / 1000;
            notes.add(&minute.notes);
            why.slowest.extend(minute.slowest.iter().cloned());
        }
        drop(minutes);
        why.causes = spent(&notes);
        why.causes.sort_by_key(|spent| std::cmp::Reverse((spent.us, spent.bytes)));
        why.slowest.sort_by_key(|operation| std::cmp::Reverse(operation.took_us));
        why
    }
}

/// For example: `waited 12.0 ms for the log's sync`.
impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = if self.count == 1 { "once".to_owned() } else { format!("{} times", self.count) };
        let ms = self.us as f64 / 1000.0;
        match self.cause {
            Cause::Throttled => write!(f, "slowed for {ms:.1} ms because merges are behind"),
            Cause::Memtables => write!(f, "waited {ms:.1} ms for memtables to be flushed"),
            Cause::Space => write!(f, "waited {ms:.1} ms for the space of overwritten huge values"),
            Cause::Segment => write!(f, "prepared a log segment, which took {ms:.1} ms"),
            Cause::Sync => write!(f, "waited {ms:.1} ms for the log's sync"),
            Cause::Lock => write!(f, "waited {ms:.1} ms for another transaction's lock"),
            Cause::Ingest => write!(f, "waited {ms:.1} ms for an ingest, a split, an export or a drop"),
            Cause::Tables => write!(f, "opened tables {times}, {} bytes", self.bytes),
            Cause::Blocks => write!(f, "read blocks of tables {times}, {} bytes", self.bytes),
            Cause::Values => write!(f, "read huge values {times}, {} bytes", self.bytes),
        }
    }
}

/// For example: `get of "k17" in "default" took 3.1 ms: read blocks of tables once, 4096 bytes`.
impl fmt::Display for SlowOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.operation.name())?;
        if !self.key.is_empty() {
            write!(f, " of \"{}\"", self.key.escape_ascii())?;
        }
        if let Some(tree) = &self.tree {
            write!(f, " in {tree:?}")?;
        }
        write!(f, " took {:.1} ms", self.took_us as f64 / 1000.0)?;
        if self.causes.is_empty() {
            return write!(f, ": no wait and no read from a file was recorded");
        }
        for (i, spent) in self.causes.iter().enumerate() {
            write!(f, "{}{spent}", if i == 0 { ": " } else { ", " })?;
        }
        Ok(())
    }
}

/// A line for all, one for each cause with advice, and one for each of the ten slowest.
impl fmt::Display for WhySlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count == 0 {
            return write!(f, "no operation took a millisecond or more in the last {MINUTES} minutes");
        }
        let (count, ms) = (self.count, self.took_us as f64 / 1000.0);
        write!(f, "operations of 1 ms or more in the last {MINUTES} minutes: {count}, {ms:.1} ms in total")?;
        for spent in &self.causes {
            write!(f, "\n  {spent} ({})", spent.cause.advice())?;
        }
        self.slowest.iter().take(10).try_for_each(|operation| write!(f, "\n{operation}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(took_us: u64) -> SlowOperation {
        SlowOperation::new(Operation::Get, Subject::none(), 0, took_us * 1000, &Notes::default())
    }

    #[test]
    fn of_each_minute_the_slowest_are_kept_for_ten_minutes() {
        let slow = Slow::default();
        for minute in [3, 5, 14] {
            for took in 0..40 {
                let took = minute * 1000 + took * 7 % 40;
                slow.add(minute, took * 1000, &Notes::default(), || operation(took));
            }
        }
        let why = slow.read(14);
        let took: Vec<u64> = why.slowest.iter().map(|slow| slow.took_us).collect();
        let expected = (14_024..14_040).rev().chain((5_024..5_040).rev());
        assert_eq!((why.count, took), (80, expected.collect::<Vec<u64>>()));
        assert_eq!(slow.read(15).count, 40);
        assert_eq!(slow.read(24).count, 0);
    }
}
