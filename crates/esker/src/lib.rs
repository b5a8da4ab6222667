//! Esker: one key-value store for small records and huge values, embedded in a program.
//!
//! A [`Db`] is a directory. A [`Tree`] in it is a sorted map from keys to values. Writes are atomic, also across trees
//! ([`Batch`]). The caller chooses which failures an acknowledged write survives ([`Durability`]). Readers see one
//! moment and never wait for writers ([`Snapshot`], [`Scan`], [`Range`], [`Cursor`]). Several reads and writes take
//! effect together in a transaction ([`Txn`]).
//!
//! ```
//! use esker::{Db, Options, ScanRange};
//!
//! # fn main() -> esker::Result<()> {
//! # let dir = tempfile::tempdir().expect("a temporary directory");
//! # let path = dir.path().join("store");
//! let db = Db::open(&path, Options::default())?;
//! db.put("apple", "red")?;
//! db.put("banana", "yellow")?;
//! for pair in db.scan(ScanRange::prefix("b"))? {
//!     let (key, value) = pair?;
//!     assert_eq!((&key[..], &value[..]), (&b"banana"[..], &b"yellow"[..]));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A value may be huge: from [`Options::separate_at`] bytes on it is written once, to a blob file, and stays there.
//! [`Tree::put_from`] and [`Tree::writer`] take a value of any length as a stream. A [`Value`] is read whole, in part
//! or as a stream.
//!
//! Esker is fast without tuning; [`Options`] holds the few budgets there are. Esker's source has more documents:
//! `docs/guarantees.md` lists the promises of a store, `docs/tuning.md` each option, `docs/operations.md` each error,
//! and `docs/format.md` every byte on disk.
//!
//! # Where to find what
//!
//! | elsewhere | here |
//! |---|---|
//! | column family, keyspace, partition, table | [`Tree`]: [`Db::tree`], [`Db::tree_with`], typed: [`Db::open_typed`] |
//! | `insert` | [`Tree::put`]; [`Tree::insert`] also reads and returns the old value |
//! | `get` that copies, lends, pins | [`Tree::get_vec`], [`Tree::get_with`], [`Tree::get_pinned`]; [`Tree::get`] gives a handle also for huge values |
//! | `multi_get` | [`Tree::get_many`] |
//! | `fetch_update`, `entry` | [`Tree::update`], [`Tree::try_update`], [`Tree::put_if_absent`], [`Tree::compare_and_swap`] |
//! | iterator | [`Tree::range`], [`iter`](Tree::iter), [`prefix`](Tree::prefix) (both ends); [`Tree::scan`] (one direction, fastest); [`Tree::cursor`] (seeks) |
//! | prefix extractor | [`TreeOptions::filter_prefix`] |
//! | compaction filter | [`CompactionRule`], named by [`TreeOptions::rule`] |
//! | time to live | [`Tree::put_for`], [`Tree::put_until`], [`Tree::set_expiry`] |
//! | write batch | [`Batch`], [`Db::write`] |
//! | `begin_read`, snapshot | [`Db::snapshot`], [`Snapshot`] |
//! | `begin_write`, `abort` | [`Db::transact`], [`Db::begin`], [`Txn::rollback`] |
//! | sync and persist modes | [`Durability`]: [`Options::durability`], [`Tree::put_with`], [`Db::write_with`], [`Db::sync`] |
//! | checkpoint, backup | [`Db::checkpoint`], [`Db::backup`] |
//! | bulk load | [`Tree::ingest`], [`Tree::ingest_unsorted`] |
//! | `size_of` | [`Tree::metadata`] |
//!
//! A set of values under one key, or keys in a special order, are made by keys: [`keys`] encodes numbers and tuples so
//! that their bytes sort as they do. `(key, value)` with an empty value is a multimap.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `zstd` | yes | [`Compression::Zstd`]; needs a C compiler |
//! | `serde` | no | `Serde`, the codec of a [`TypedTree`] for values of any type that serde can serialize |
//! | `tracing` | no | events of the crate `tracing`, with the target `esker` |
//! | `testing` | no | for tests of Esker itself, and may change at any time: modules `env` and `fs`, `Options::env`, `Db::step` |
//!
//! The events, each with figures as fields: `opened` with the recovered amounts, `flushed`, `merged`, `writers are
//! slowed` and `writers are no longer slowed`, `stalled` (a write that waited, at the level `DEBUG`), `a compaction
//! rule has panicked`, `disk full` and `disk has room again`, `clock ahead` (at an opening) and `clock leapt`, `failed`
//! (the store takes no more writes; once more if its background work ends too), and `damage`. A subscriber must not
//! call the store: it may be called while the store holds a lock.

mod admin;
mod blob;
mod bloom;
mod cache;
mod canary;
mod checksum;
mod codec;
mod compact;
mod cursor;
mod db;
#[cfg(feature = "testing")]
pub mod env;
#[cfg(not(feature = "testing"))]
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "some of it is for tests, which see it with the feature"
)]
mod env;
mod error;
mod events;
mod finding;
mod flush;
#[cfg(feature = "testing")]
pub mod fs;
#[cfg(not(feature = "testing"))]
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "some of it is for tests, which see it with the feature"
)]
mod fs;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod health;
mod io_budget;
pub mod keys;
mod listener;
mod log;
#[cfg(esker_measure)]
#[doc(hidden)]
pub mod measure;
mod memtable;
mod open;
pub mod operators;
mod options;
mod ranges;
mod rate;
mod read;
#[cfg(any(test, fuzzing, feature = "testing"))]
mod rng;
pub mod rules;
mod space;
mod state;
mod stats;
mod store;
mod sync;
mod table;
pub mod trace;
mod tree;
mod txn;
mod typed;
pub mod updates;
mod value;
mod version;
mod write;

pub use admin::{
    BackupInfo, BackupReport, Loss, RepairReport, TreeFiles, backups, check, check_until, destroy, dump,
    dump_with, forget_backups, repair, repair_until, restore, restore_until,
};
pub use cursor::ATTRIBUTES_LEN_MAX;
pub use db::{Db, TreeSplit, WriteToken, without_io};
pub use error::{BusyUntil, Error, ErrorKind, KeyMoved, Result};
pub use finding::{CheckReport, Finding};
pub use fs::give_back_free_memory;
pub use listener::{FlushedTree, Listener};
pub use operators::MergeOperator;
pub use options::{
    CompactionStyle, Compression, Durability, ExpiryClock, FilterPrefix, Options, TreeOptions,
};
pub use read::both_ends::Range;
pub use read::lent::ValueRef;
pub use read::range::ScanRange;
pub use read::scan::Scan;
pub use rules::CompactionRule;
pub use stats::{Stats, TreeStats};
pub use tree::{
    Cursor, Ingest, IngestUnsorted, Snapshot, StagedValue, StagedWriter, Staging, StoredValue, Swap, Tree,
    ValueWriter,
};
pub use txn::{Isolation, Savepoint, Txn, TxnMode, TxnOptions, TxnRange, TxnScan};
#[cfg(feature = "serde")]
pub use typed::Serde;
pub use typed::{
    KeyCodec, KeyElement, KeyPrefix, Pair, TypedBatch, TypedCursor, TypedRange, TypedSnapshot, TypedTree,
    TypedTxn, TypedTxnRange, ValueCodec,
};
pub use value::{Lent, Metadata, PinnedValue, PutOptions, Value, ValueMap, ValueReader};
pub use write::batch::{AwaitedValue, Batch, KEY_LEN_MAX};

/// The example of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

/// The examples of `docs/library.md`, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
mod library {}
