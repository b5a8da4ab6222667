//! Records every step of some operations, on request.

use std::fmt;

use super::Cause;

/// More steps are only summed up.
const STEPS_MAX: usize = 1000;

/// One thing that an operation did. Tables are named by the numbers of their files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// A memtable was searched.
    Memtable {
        /// Whether the key was there, deleted ones too.
        found: bool,
    },
    /// A table's filter was checked.
    Filter {
        /// The table.
        table: u64,
        /// Whether the key may be there.
        passed: bool,
    },
    /// A table was opened.
    OpenTable {
        /// The table.
        table: u64,
        /// Bytes read for that.
        bytes: u64,
    },
    /// A block was in the buffer pool.
    PoolBlock {
        /// The table.
        table: u64,
        /// The block's number in it.
        block: u64,
    },
    /// Blocks were read from the file.
    FileBlocks {
        /// The table.
        table: u64,
        /// The first one's number in it.
        block: u64,
        /// Bytes read.
        bytes: u64,
    },
    /// A scan began over this many sources.
    Sources {
        /// Memtables, tables of level 0, and sorted levels.
        count: u64,
    },
    /// Bytes of a huge value were read.
    Value {
        /// How many.
        bytes: u64,
    },
    /// A batch was written to the log and the memtables.
    Write {
        /// Bytes of the log's record.
        bytes: u64,
    },
    /// It waited.
    Wait {
        /// The cause of the wait.
        cause: Cause,
        /// Microseconds.
        us: u64,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Memtable { found: true } => write!(f, "memtable: found"),
            Step::Memtable { found: false } => write!(f, "memtable: not found"),
            Step::Filter { table, passed: true } => write!(f, "table {table}: the filter passes the key"),
            Step::Filter { table, passed: false } => write!(f, "table {table}: the filter excludes the key"),
            Step::OpenTable { table, bytes } => write!(f, "table {table}: opened, {bytes} bytes read"),
            Step::PoolBlock { table, block } => write!(f, "table {table}: block {block} from the pool"),
            Step::FileBlocks { table, block, bytes } => {
                write!(f, "table {table}: {bytes} bytes read from the file, from block {block} on")
            }
            Step::Sources { count } => write!(f, "scan over {count} memtables, tables and levels"),
            Step::Value { bytes } => write!(f, "{bytes} bytes of a huge value read"),
            Step::Write { bytes } => write!(f, "{bytes} bytes written to the log"),
            Step::Wait { cause, us } => write!(f, "waited {us} us for {}", cause.name()),
        }
    }
}

/// The steps of some operations of one thread, from [`Db::trace`](crate::Db::trace).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trace {
    /// Microseconds that all of it took.
    pub took_us: u64,
    /// The first 1,000 steps, in order.
    pub steps: Vec<Step>,
    /// Memtables that were searched.
    pub memtables: u64,
    /// Tables that were not read because their filter excludes the key.
    pub filtered: u64,
    /// Blocks that the buffer pool had.
    pub pool_blocks: u64,
    /// Reads of blocks from files.
    pub file_reads: u64,
    /// Bytes that were read from files, huge values too.
    pub file_bytes: u64,
    /// Microseconds of waiting.
    pub waited_us: u64,
}

impl Trace {
    pub(super) fn add(&mut self, step: Step) {
        match step {
            Step::Memtable { .. } => self.memtables += 1,
            Step::Filter { passed: false, .. } => self.filtered += 1,
            Step::PoolBlock { .. } => self.pool_blocks += 1,
            Step::FileBlocks { bytes, .. } => {
                self.file_reads += 1;
                self.file_bytes += bytes;
            }
            Step::OpenTable { bytes, .. } | Step::Value { bytes } => self.file_bytes += bytes,
            Step::Wait { us, .. } => self.waited_us += us,
            Step::Filter { .. } | Step::Sources { .. } | Step::Write { .. } => {}
        }
        if self.steps.len() < STEPS_MAX {
            self.steps.push(step);
        }
    }
}

/// One line a step, and one for the time.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))?;
        write!(f, "{} us", self.took_us)
    }
}
