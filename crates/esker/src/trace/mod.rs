//! The work of operations and the causes of slow ones: counts and latencies of all, the causes of slow ones, and on
//! request every step of some.
//!
//! ```text
//! each operation   Metrics::measure: one count; of 64 operations of a kind one is timed
//!   cold places    perf_context::waiting, perf_context::note: its waits and reads, kept by the thread until its end
//!   on request     perf_context::step: every step, in order
//! at the end       with notes, or if timed: a slow one goes into the list of its minute
//! ```
//! An operation that waits or reads looks at the clock twice: when its first wait or read begins, and at its end. That
//! is little compared with its system call. Any other operation adds to a counter that no other thread writes, and
//! looks at memory of its own thread. A caller ends an operation on the thread that began it.

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

/// Enums whose values have names, in the order in which arrays of counts have them.
macro_rules! named {
    ($($(#[$of_enum:meta])* $Enum:ident { $($(#[$of_value:meta])* $Value:ident = $name:literal,)* })*) => {$(
        $(#[$of_enum])*
        #[non_exhaustive]
        pub enum $Enum {
            $($(#[$of_value])* $Value,)*
        }

        impl $Enum {
            /// Every value, in the order of the declaration.
            pub const ALL: &[$Enum] = &[$($Enum::$Value),*];

            #[doc = concat!("Its name in statistics and on the command line: ", $("`", $name, "` "),*)]
            pub fn name(self) -> &'static str {
                match self {
                    $($Enum::$Value => $name,)*
                }
            }
        }
    )*};
}

named! {
    /// A kind of operation.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    Operation {
        /// A lookup of one key, without reading a huge value.
        Get = "get",
        /// A put, a delete, a batch, the commit of a transaction.
        Write = "write",
        /// A scan. Its latency is the time to its first pair. It counts as slow by all its reads from files, up to its
        /// end.
        Scan = "scan",
        /// The reading of a huge value, or of a part of one.
        Value = "value",
        /// A call of `sync`.
        Sync = "sync",
        /// The wait of a transaction for a lock.
        Lock = "lock",
    }

    /// Something that an operation waits for, or reads, and that takes time.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    Cause {
        /// Writers are slowed because merges have fallen behind.
        Throttled = "throttled",
        /// Writers wait until memtables that are full are flushed.
        Memtables = "memtables",
        /// Puts of huge values wait until the space of overwritten ones is given back.
        Space = "space",
        /// The next log segment was not ready.
        Segment = "segment",
        /// A sync of the log, and of the files that are synced with it.
        Sync = "sync",
        /// Another transaction's lock.
        Lock = "lock",
        /// The tree changes as a whole: by an ingest, a split, an export or a drop.
        Ingest = "ingest",
        /// Tables are opened: their filters and indexes are read.
        Tables = "tables",
        /// Blocks of tables are read from files, since the buffer pool does not have them.
        Blocks = "blocks",
        /// Huge values are read.
        Values = "values",
    }
}

impl Cause {
    /// Its meaning, and what helps.
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

const CAUSES: usize = Cause::ALL.len();
const OPERATIONS: usize = Operation::ALL.len();
