//! What operations do and why they take long: counts and latencies of all, the causes of slow ones, and on request
//! every step of some.
//!
//! ```text
//! each operation   Metrics::measure: one count; of 64 operations of a kind one is timed
//!   cold places    perf_context::waiting, perf_context::note: what it waits for or reads, kept by the thread until its end
//!   on request     perf_context::step: everything it asks, in order
//! at the end       with notes, or if timed: a slow one goes into the list of its minute
//! ```
//! An operation that waits or reads looks at the clock twice: when its first wait or read begins, and at its end. That
//! is little beside the system call that it makes. Any other operation adds to a counter that no other thread writes,
//! and looks at memory of its own thread. A caller ends an operation on the thread that began it.

mod latency;
mod metrics;
pub(crate) mod perf_context;
mod places;
mod recording;
mod slow;

pub use latency::Latency;
pub(crate) use metrics::{Metrics, Subject};
pub use metrics::{OperationStats, WaitStats};
pub(crate) use perf_context::Notes;
pub use recording::{Step, Trace};
pub use slow::{SlowOperation, Spent, WhySlow};

/// A kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// A lookup of one key, without reading a huge value.
    Get,
    /// A put, a delete, a batch, the commit of a transaction.
    Write,
    /// A scan. Its latency is the time to its first pair. It counts as slow by all its reads from files, up to its end.
    Scan,
    /// The reading of a huge value, or of a part of one.
    Value,
    /// A call of `sync`.
    Sync,
    /// The wait of a transaction for a lock.
    Lock,
}

impl Operation {
    /// Every kind.
    pub const ALL: &[Operation] = &[
        Operation::Get,
        Operation::Write,
        Operation::Scan,
        Operation::Value,
        Operation::Sync,
        Operation::Lock,
    ];

    /// Its name in statistics: `get`, `write`, `scan`, `value`, `sync` or `lock`.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Get => "get",
            Operation::Write => "write",
            Operation::Scan => "scan",
            Operation::Value => "value",
            Operation::Sync => "sync",
            Operation::Lock => "lock",
        }
    }
}

/// Something that an operation waits for, or reads, and that takes time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// Writers are slowed because merges are behind.
    Throttled,
    /// Writers wait until memtables that are full are flushed.
    Memtables,
    /// Puts of huge values wait until the space of overwritten ones is given back.
    Space,
    /// The next log segment was not ready.
    Segment,
    /// A sync of the log, and of what is synced with it.
    Sync,
    /// Another transaction's lock.
    Lock,
    /// The tree changes as a whole: by an ingest, a split, an export or a drop.
    Ingest,
    /// Tables are opened: their filters and indexes are read.
    Tables,
    /// Blocks of tables are read from files, since the buffer pool does not have them.
    Blocks,
    /// Huge values are read.
    Values,
}

impl Cause {
    /// Every cause.
    pub const ALL: &[Cause] = &[
        Cause::Throttled,
        Cause::Memtables,
        Cause::Space,
        Cause::Segment,
        Cause::Sync,
        Cause::Lock,
        Cause::Ingest,
        Cause::Tables,
        Cause::Blocks,
        Cause::Values,
    ];

    /// Its name in statistics: `throttled`, `memtables`, `space`, `segment`, `sync`, `lock`, `ingest`, `tables`,
    /// `blocks` or `values`.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Throttled => "throttled",
            Cause::Memtables => "memtables",
            Cause::Space => "space",
            Cause::Segment => "segment",
            Cause::Sync => "sync",
            Cause::Lock => "lock",
            Cause::Ingest => "ingest",
            Cause::Tables => "tables",
            Cause::Blocks => "blocks",
            Cause::Values => "values",
        }
    }

    /// What it means and what helps.
    pub fn advice(self) -> &'static str {
        match self {
            Cause::Throttled => "merges are behind: write less at once, or use a faster disk",
            Cause::Memtables => "flushes are behind: use a larger memory budget, or a faster disk",
            Cause::Space => "huge values are overwritten faster than their space is given back",
            Cause::Segment => "the log grew faster than new segments were prepared",
            Cause::Sync => "a sync of the log takes long: let more threads or larger batches share one",
            Cause::Lock => "transactions lock the same keys: use shorter or optimistic ones",
            Cause::Ingest => "writes to a tree wait during an ingest, a split, an export or a drop",
            Cause::Tables => {
                "more tables are read than stay open: use a larger open_tables_max or memory budget"
            }
            Cause::Blocks => {
                "the buffer pool lacks the blocks: use a larger memory budget, or read in key order"
            }
            Cause::Values => "huge values are long: read parts of them, or prefetch them",
        }
    }
}

/// How many causes there are.
const CAUSES: usize = Cause::Values as usize + 1;
/// How many kinds of operations there are.
const OPERATIONS: usize = Operation::Lock as usize + 1;
