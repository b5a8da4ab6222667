//! Options of a store. There are few: budgets and promises, each with a default that works well.

use std::sync::{Arc, OnceLock};

use crate::env::Env;
use crate::error::{Error, Result};
use crate::listener::{Listener, ListenerHandle};
use crate::operators::{MergeOperator, MergeOperators};
use crate::rules::{CompactionRule, CompactionRules};

mod filter_prefix;
mod tree;

pub use filter_prefix::FilterPrefix;
pub(crate) use tree::check_name;
pub use tree::{CompactionStyle, ExpiryClock, TreeOptions};

/// The failures that an acknowledged write survives. [`Options::durability`](crate::Options::durability) is the store's
/// default, initially [`Durability::Process`]; calls whose names end in `_with` choose for one write;
/// [`Db::sync`](crate::Db::sync) makes all earlier writes survive power loss. `docs/guarantees.md` has the details.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Durability {
    /// The death of this process, at any instant. This is the default, as in LevelDB and RocksDB, and costs no system
    /// call.
    #[default]
    Process,
    /// Power loss too: the call returns when the log is on the disk (`fdatasync`). Writers that wait at the same time share one sync.
    Power,
}

/// How a tree's blocks are compressed on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Compression {
    /// No compression: fastest if the disk is fast. The default.
    #[default]
    None = 0,
    /// LZ4: cheap, about half the size for text.
    Lz4 = 1,
    /// Zstandard at its default level: smaller, several times the work. Needs the feature `zstd`.
    Zstd = 2,
}

impl Compression {
    pub(crate) fn to_u8(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_u8(byte: u8) -> Option<Compression> {
        [Compression::None, Compression::Lz4, Compression::Zstd].get(usize::from(byte)).copied()
    }
}

/// Public methods that set one option.
macro_rules! setters {
    ($Options:ident { $($(#[$doc:meta])* $option:ident: $type:ty,)* }) => {
        impl $Options {$(
            $(#[$doc])*
            #[must_use]
            pub fn $option(mut self, $option: $type) -> Self {
                self.$option = $option.into();
                self
            }
        )*}
    };
}

pub(crate) use setters;

/// How a store is opened.
///
/// # Example
/// ```
/// use esker::{Durability, Options};
/// let options = Options::default().memory_budget(256 << 20).durability(Durability::Power);
/// assert_eq!(options.memory_budget, 256 << 20);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Whether a missing store is created. Default: yes.
    pub create: bool,
    /// Bytes of memory for everything that the store keeps: buffer pool, memtables, filters, indexes and the mapped
    /// log. Default: 1 GiB, at most a quarter of the machine's memory or of the limit of this process's control groups
    /// (Linux), as the system reports it at the first use in a process. At least 8 MiB.
    pub memory_budget: usize,
    /// Bytes per second that merges may read and write. The limit leaves the rest of the disk to reads and other
    /// programs. The rewriting of files of huge values may take as many again. At least 64 KiB. Flushes and the log are
    /// not limited. The limit does not apply while merges have fallen so far behind that writers are slowed, while a
    /// call waits for a merge to end, or while the disk is full. Default: `None`, no limit.
    pub background_io: Option<u64>,
    /// Threads for background work, 2 to 8, and at most as many more, up to 4, that help to read or write a long value.
    /// With fewer than 4, kinds of work take turns, but merges have their own thread. Each thread from the fifth on is
    /// for merges too: of other trees, or of other levels or keys of a tree. Therefore 5 threads do up to two merges at
    /// the same time, and 8 up to five. Default: 5.
    pub threads: usize,
    /// The durability of writes that do not specify one.
    pub durability: Durability,
    /// Size in bytes at which a tree's memtable is flushed. Default: a sixteenth of the memory budget, at least 64 KiB,
    /// at most 64 MiB. 1 KiB to 64 GiB.
    pub memtable_bytes: Option<usize>,
    /// Bytes of user data in a table at which a merge begins the next table. It begins the next one earlier if the
    /// filter of a table of small pairs would take more than an eighth of the budget. 1 KiB to 4 GiB. Default: 32 MiB.
    pub table_bytes: usize,
    /// Bytes of a data block before compression. 64 bytes to 1 MiB. Default: 4 KiB, chosen by measurement.
    pub block_bytes: usize,
    /// Bits of filter per key in the largest level; smaller levels get more. At most 128; 0: no filters. Default: 8.
    pub filter_bits: u32,
    /// Values of at least this many bytes are written once, to separate files, and stay out of the log and the tables.
    /// At least 1; [`usize::MAX`] separates none. Default: 32 KiB.
    pub separate_at: usize,
    /// Size in bytes at which a file of several huge values is ended and the next one begun. 1 to 2^48. Default: 256
    /// MiB.
    pub blob_file_bytes: u64,
    /// The operators that [`Tree::merge`](crate::Tree::merge) may use. Default: `add` and `append`.
    pub merge_operators: MergeOperators,
    /// The rules that [`TreeOptions::rule`] may name. Default: none.
    pub compaction_rules: CompactionRules,
    /// The most bytes of log segments that are kept although recovery no longer needs them, for
    /// [`Db::updates_since`](crate::Db::updates_since), also across openings. Only whole segments are kept, of up to 16
    /// MiB, or more after a large batch: choose several times that. On a full disk none is kept. Default: 0.
    pub log_history: u64,
    /// The most table files that are open at the same time. The store holds fewer if the process's limit on open files
    /// is lower or other files use it up: a quarter of the limit stays free. Default: 512.
    pub open_tables_max: usize,
    /// Bytes per second that a background scrub reads to find damage while there is still a copy to repair it from. It
    /// reads all tables and huge values once a week, beginning an hour after opening. 0: no scrub. Default: 4 MiB.
    pub scrub_rate: u64,
    /// Whether tables bypass the operating system's cache (Linux: `O_DIRECT`). Then the buffer pool is their only cache
    /// and the rest of the machine's memory is free for other uses. Every miss in the pool reads the disk, so the
    /// budget should be as large as possible. This does not apply to the log, which is mapped, or to huge values, which
    /// only the system caches. Opening fails with [`Unsupported`](crate::ErrorKind::Unsupported) if the file system
    /// refuses. Default: no.
    pub direct_io: bool,
    pub(crate) listener: Option<ListenerHandle>,
    /// Whether the buffer pool keeps blocks. If it does not, every read of a block reads its file and verifies the block.
    #[cfg(feature = "testing")]
    pub keeps_blocks: bool,
    /// Whether the buffer pool keeps blocks. If it does not, every read of a block reads its file and verifies the block.
    #[cfg(not(feature = "testing"))]
    pub(crate) keeps_blocks: bool,
    /// Files, clock, randomness and background work.
    #[cfg(feature = "testing")]
    pub env: Env,
    /// Files, clock, randomness and background work.
    #[cfg(not(feature = "testing"))]
    pub(crate) env: Env,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            create: true,
            memory_budget: default_memory_budget(),
            background_io: None,
            threads: 5,
            durability: Durability::Process,
            memtable_bytes: None,
            table_bytes: 32 << 20,
            block_bytes: 4 << 10,
            filter_bits: 8,
            separate_at: 32 << 10,
            blob_file_bytes: 256 << 20,
            merge_operators: MergeOperators::default(),
            compaction_rules: CompactionRules::default(),
            log_history: 0,
            open_tables_max: 512,
            scrub_rate: 4 << 20,
            direct_io: false,
            listener: None,
            keeps_blocks: true,
            env: Env::system(),
        }
    }
}

impl Options {
    /// The memory that this process may have, in bytes, if the operating system reports it: the machine's, or less if a
    /// control group limits it. The default [`Options::memory_budget`] is at most a quarter of it.
    pub fn available_memory() -> Option<u64> {
        crate::fs::available_memory()
    }

    /// Adds an operator to [`Options::merge_operators`]; it replaces one of the same name.
    #[must_use]
    pub fn merge_operator(mut self, operator: impl MergeOperator) -> Self {
        self.merge_operators.add(Arc::new(operator));
        self
    }

    /// Adds a rule to [`Options::compaction_rules`]; it replaces one of the same name.
    #[must_use]
    pub fn compaction_rule(mut self, rule: impl CompactionRule) -> Self {
        self.compaction_rules.add(Arc::new(rule));
        self
    }

    /// Makes `listener` receive the store's events. Default: no listener.
    #[must_use]
    pub fn listener(mut self, listener: impl Listener + 'static) -> Self {
        self.listener = Some(ListenerHandle::new(listener));
        self
    }

    /// Refuses options that are out of range. Other options are valid at any value, or are raised to their minimum.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(bytes) = self.memtable_bytes {
            within("memtable_bytes", bytes as u64, 1 << 10, 64 << 30)?;
        }
        within("table_bytes", self.table_bytes as u64, 1 << 10, 4 << 30)?;
        within("block_bytes", self.block_bytes as u64, 64, 1 << 20)?;
        within("filter_bits", u64::from(self.filter_bits), 0, 128)?;
        within("blob_file_bytes", self.blob_file_bytes, 1, 1 << 48)
    }

    pub(crate) fn memory(&self) -> usize {
        self.memory_budget.clamp(8 << 20, usize::MAX / 4)
    }

    /// Limits at which a merge begins the next table. The key hashes that wait for the filter take at most an eighth of
    /// the budget. A table of 32 MiB reaches that with pairs of less than 128 bytes at a budget of 16 MiB, and with
    /// pairs of less than 4 bytes at 512 MiB.
    pub(crate) fn table_limits(&self) -> TableLimits {
        let keys = self.memory() / 8 / size_of::<u64>();
        TableLimits { bytes: self.table_bytes as u64, keys }
    }

    pub(crate) fn memtable_limit(&self) -> usize {
        self.memtable_bytes.unwrap_or((self.memory() / 16).clamp(64 << 10, 64 << 20))
    }

    /// The maximum length of a log segment. Mapped segments count against the budget.
    pub(crate) fn segment_len_max(&self) -> u64 {
        (self.memory() as u64 / 32).clamp(1 << 20, 16 << 20).next_power_of_two()
    }
}

setters! {
    Options {
        /// Sets [`Options::create`].
        create: bool,
        /// Sets [`Options::memory_budget`], in bytes.
        memory_budget: usize,
        /// Sets [`Options::background_io`], in bytes a second.
        background_io: impl Into<Option<u64>>,
        /// Sets [`Options::threads`].
        threads: usize,
        /// Sets [`Options::durability`].
        durability: Durability,
        /// Sets [`Options::memtable_bytes`].
        memtable_bytes: impl Into<Option<usize>>,
        /// Sets [`Options::table_bytes`].
        table_bytes: usize,
        /// Sets [`Options::block_bytes`].
        block_bytes: usize,
        /// Sets [`Options::filter_bits`].
        filter_bits: u32,
        /// Sets [`Options::separate_at`], in bytes.
        separate_at: usize,
        /// Sets [`Options::blob_file_bytes`].
        blob_file_bytes: u64,
        /// Sets [`Options::merge_operators`]. [`Options::merge_operator`] adds one.
        merge_operators: MergeOperators,
        /// Sets [`Options::compaction_rules`]. [`Options::compaction_rule`] adds one.
        compaction_rules: CompactionRules,
        /// Sets [`Options::log_history`], in bytes.
        log_history: u64,
        /// Sets [`Options::open_tables_max`].
        open_tables_max: usize,
        /// Sets [`Options::scrub_rate`], in bytes a second.
        scrub_rate: u64,
        /// Sets [`Options::direct_io`].
        direct_io: bool,
        /// Sets [`Options::env`].
        #[cfg(any(test, feature = "testing"))]
        env: Env,
    }
}

fn within(name: &str, value: u64, least: u64, most: u64) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let message = format!("`{name}` is {value}; it must be from {least} to {most}");
    Err(Error::invalid(message))
}

/// The limits at which a table ends; the first one reached applies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableLimits {
    /// Bytes of the file.
    pub(crate) bytes: u64,
    /// Keys for the filter, which is built when the table ends.
    pub(crate) keys: usize,
}

impl TableLimits {
    /// No limits: everything goes into one table.
    pub(crate) const NONE: TableLimits = TableLimits { bytes: u64::MAX, keys: usize::MAX };
}

/// 1 GiB, or a quarter of the memory that this process may have if that is less. The system is queried once, since that
/// reads several files.
fn default_memory_budget() -> usize {
    static BUDGET: OnceLock<usize> = OnceLock::new();
    *BUDGET.get_or_init(|| {
        let quarter = Options::available_memory().map_or(1 << 30, |bytes| bytes / 4);
        usize::try_from(quarter.min(1 << 30)).unwrap_or(1 << 30)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::txn::{Isolation, TxnMode, TxnOptions};

    struct Deaf;

    impl Listener for Deaf {}

    /// An option that is added does not compile here until it has a setter.
    #[test]
    fn every_option_has_a_setter() {
        let operators = MergeOperators::default();
        let env = Env::system();
        let Options {
            create,
            memory_budget,
            background_io,
            threads,
            durability,
            memtable_bytes,
            table_bytes,
            block_bytes,
            filter_bits,
            separate_at,
            blob_file_bytes,
            merge_operators: _,
            compaction_rules: _,
            log_history,
            open_tables_max,
            scrub_rate,
            direct_io,
            listener,
            keeps_blocks,
            env: given,
        } = Options::default()
            .create(false)
            .memory_budget(1)
            .background_io(2)
            .threads(3)
            .durability(Durability::Power)
            .memtable_bytes(4)
            .table_bytes(5)
            .block_bytes(6)
            .filter_bits(7)
            .separate_at(8)
            .blob_file_bytes(9)
            .merge_operators(operators)
            .compaction_rules(CompactionRules::default())
            .log_history(10)
            .open_tables_max(11)
            .scrub_rate(12)
            .direct_io(true)
            .listener(Deaf)
            .env(env.clone());
        assert!(listener.is_some() && keeps_blocks);
        assert_eq!((create, direct_io, durability), (false, true, Durability::Power));
        assert_eq!((memory_budget, background_io, threads, memtable_bytes), (1, Some(2), 3, Some(4)));
        assert_eq!((table_bytes, block_bytes, filter_bits), (5, 6, 7));
        assert_eq!((separate_at, blob_file_bytes, log_history), (8, 9, 10));
        assert_eq!((open_tables_max, scrub_rate), (11, 12));
        assert!(Arc::ptr_eq(&given.clock, &env.clock));
        assert_eq!(Options::default().memtable_bytes(1).memtable_bytes(None).memtable_bytes, None);

        let TreeOptions {
            compression,
            log,
            compaction,
            size_ratio,
            group,
            rule,
            filter_prefix,
            expiry_clock,
        } = TreeOptions::default()
            .compression(Compression::Lz4)
            .log(false)
            .compaction(CompactionStyle::Tiered)
            .size_ratio(8)
            .filter_prefix(FilterPrefix::length(4))
            .group("group")
            .rule("rule")
            .expiry_clock(ExpiryClock::Writes);
        assert_eq!(rule.as_deref(), Some("rule"));
        assert_eq!((group.as_deref(), filter_prefix), (Some("group"), Some(FilterPrefix::length(4))));
        assert_eq!((compression, log), (Compression::Lz4, false));
        assert_eq!(expiry_clock, ExpiryClock::Writes);
        assert_eq!((compaction, size_ratio), (CompactionStyle::Tiered, Some(8)));
        assert_eq!(TreeOptions::default().size_ratio(8).size_ratio(None).size_ratio, None);

        let TxnOptions { mode, isolation, lock_timeout, durability } = TxnOptions::default()
            .mode(TxnMode::Pessimistic)
            .isolation(Isolation::Snapshot)
            .lock_timeout(Duration::ZERO)
            .durability(Durability::Power);
        assert_eq!((mode, isolation), (TxnMode::Pessimistic, Isolation::Snapshot));
        assert_eq!((lock_timeout, durability), (Duration::ZERO, Some(Durability::Power)));
    }
}
