//! Counts and latencies of a store's operations, and the notes of slow ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::latency::{Classes, Latency};
use super::perf_context::{self, Notes};
use super::places::{PLACES, place_of_thread};
use super::slow::{Slow, SlowOperation, WhySlow};
use super::{CAUSES, Cause, OPERATIONS, Operation};
use crate::env::Clock;

/// One operation in this many is timed, where timing costs something: a power of two.
const TIMED_OF: u64 = 64;

/// From this many nanoseconds on an operation is slow.
const SLOW_NS: u64 = 1_000_000;

/// Counts that one thread writes, not on a cache line that others write.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counts([AtomicU64; OPERATIONS]);

/// Sums of the notes of operations.
#[derive(Debug, Default)]
struct Waits {
    count: AtomicU64,
    us: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) clock: Arc<dyn Clock>,
    /// The counts of the threads that have a place. A place goes from one thread to the next with all counts.
    own: Box<[Counts]>,
    /// The counts of all other threads.
    shared: Counts,
    latency: [Classes; OPERATIONS],
    waits: [Waits; CAUSES],
    slow: Slow,
}

/// The subject of an operation, for its line in the list of slow ones.
pub(crate) struct Subject {
    pub(crate) tree: Option<String>,
    pub(crate) key: Vec<u8>,
}

impl Subject {
    /// Longer keys are cut.
    const KEY_MAX: usize = 64;

    pub(crate) fn none() -> Subject {
        Subject { tree: None, key: Vec::new() }
    }

    pub(crate) fn of(tree: &str, key: &[u8]) -> Subject {
        Subject { tree: Some(tree.to_owned()), key: key[..key.len().min(Self::KEY_MAX)].to_vec() }
    }
}

impl Metrics {
    pub(crate) fn new(clock: &Arc<dyn Clock>) -> Arc<Metrics> {
        Arc::new(Metrics {
            clock: Arc::clone(clock),
            own: (0..PLACES).map(|_| Counts::default()).collect(),
            shared: Counts::default(),
            latency: Default::default(),
            waits: Default::default(),
            slow: Slow::default(),
        })
    }

    /// Counts an operation; whether it is one to be timed.
    #[inline]
    pub(crate) fn count(&self, operation: Operation) -> bool {
        let place = place_of_thread();
        match self.own.get(place) {
            Some(counts) => {
                // No other thread writes it.
                let count = &counts.0[operation as usize];
                let before = count.load(Ordering::Relaxed);
                count.store(before + 1, Ordering::Relaxed);
                before.is_multiple_of(TIMED_OF)
            }
            None => {
                self.shared.0[operation as usize].fetch_add(1, Ordering::Relaxed).is_multiple_of(TIMED_OF)
            }
        }
    }

    /// An operation begins. [`Metrics::end`] ends it, if [`perf_context::are_there`].
    #[inline]
    pub(crate) fn begin(&self, operation: Operation) {
        if self.count(operation) {
            perf_context::begin_notes(&*self.clock, true);
        } else {
            perf_context::begin();
        }
    }

    /// Does `work`, which is an operation, and takes note of it. No operation contains another.
    #[inline]
    pub(crate) fn measure<T>(
        &self,
        operation: Operation,
        subject: impl FnOnce() -> Subject,
        work: impl FnOnce() -> T,
    ) -> T {
        self.begin(operation);
        let done = work();
        if perf_context::are_there() {
            self.end(operation, subject);
        }
        done
    }

    /// The operation ends, which was timed or has left notes.
    #[cold]
    pub(crate) fn end(&self, operation: Operation, subject: impl FnOnce() -> Subject) {
        let notes = perf_context::take();
        let took = self.clock.monotonic_ns().saturating_sub(notes.began_ns);
        // These wait from their beginning on. Therefore the time of their first note is that of their beginning.
        if notes.timed || matches!(operation, Operation::Lock | Operation::Sync) {
            self.add_latency(operation, took);
        }
        self.add(operation, took, &notes, subject);
    }

    /// Takes note of the waits and reads of an operation of `took` nanoseconds.
    pub(crate) fn add(
        &self,
        operation: Operation,
        took: u64,
        notes: &Notes,
        subject: impl FnOnce() -> Subject,
    ) {
        for (sums, amount) in self.waits.iter().zip(&notes.spent).filter(|(_, amount)| amount.count > 0) {
            sums.count.fetch_add(amount.count, Ordering::Relaxed);
            sums.us.fetch_add(amount.ns / 1000, Ordering::Relaxed);
            sums.bytes.fetch_add(amount.bytes, Ordering::Relaxed);
        }
        if took >= SLOW_NS {
            let minute = self.clock.monotonic_ns() / 60_000_000_000;
            self.slow.add(minute, took, notes, || {
                SlowOperation::new(operation, subject(), self.clock.wall_us(), took, notes)
            });
        }
    }

    pub(crate) fn add_latency(&self, operation: Operation, took_ns: u64) {
        self.latency[operation as usize].add(took_ns);
    }

    pub(crate) fn why_slow(&self) -> WhySlow {
        self.slow.read(self.clock.monotonic_ns() / 60_000_000_000)
    }

    pub(crate) fn operations(&self) -> Vec<OperationStats> {
        let count = |operation: Operation| {
            let all = self.own.iter().chain([&self.shared]);
            all.map(|counts| counts.0[operation as usize].load(Ordering::Relaxed)).sum()
        };
        let stats = |&operation: &Operation| OperationStats {
            operation,
            count: count(operation),
            latency: self.latency[operation as usize].read(),
        };
        Operation::ALL.iter().map(stats).collect()
    }

    pub(crate) fn waits(&self) -> Vec<WaitStats> {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let stats = |(&cause, waits): (&Cause, &Waits)| WaitStats {
            cause,
            count: read(&waits.count),
            us: read(&waits.us),
            bytes: read(&waits.bytes),
        };
        Cause::ALL.iter().zip(&self.waits).map(stats).collect()
    }
}

/// The operations of one kind since the store was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperationStats {
    /// The kind.
    pub operation: Operation,
    /// How many there were, failed ones too.
    pub count: u64,
    /// The latencies of the timed ones.
    pub latency: Latency,
}

/// The waits or reads of all operations together for one cause, since the store was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitStats {
    /// The cause.
    pub cause: Cause,
    /// How often.
    pub count: u64,
    /// Microseconds; of reads from files 0: these are not timed separately.
    pub us: u64,
    /// Bytes that were read.
    pub bytes: u64,
}
