//! Tables over an Esker store: rows, column families, versions of cells.
//!
//! A table maps (row, column family, qualifier, timestamp) to bytes, as Bigtable, HBase and Hypertable do. Rows are sorted, a
//! row may have millions of columns, and a column several versions. A change of one row is atomic. The families of a table
//! are in access groups: the cells of one group lie together, so a scan of it reads nothing of the others (BC-kvDB, section 2).
//!
//! ```text
//! RowMutation --mutate--> entries of the groups' trees, one batch       (write)
//! CellBatch   --put_cells-->  the same, for many cells                  (batch, write)
//! puts without timestamps --> times of their own                        (rising)
//! cursor of each group, over its parts --> row, family, column          (parts, read)
//! entries of a column --> which puts count                              (versions)
//! cells that count --> which of them are shown                          (filter, read)
//! values and qualifiers --> rows                                        (index)
//! what whole reads have returned, until it is written                  (query_cache)
//! flushes and merges ask which entries are garbage                      (rule)
//! ```
//! [`Tables`] is where to begin. The bytes of keys are described at the head of `cell.rs`; which versions count, at that of
//! `versions.rs`.

mod batch;
mod canary;
mod catalog;
mod cell;
mod error;
mod filter;
mod index;
mod mutation;
mod parts;
mod query_cache;
mod read;
mod rising;
mod rule;
mod schema;
mod sequences;
mod shape;
mod span;
mod tables;
mod versions;
mod write;

pub use batch::{CellBatch, PutCell};
pub use cell::{ROW_LEN_MAX, TIMESTAMP_MAX};
pub use error::{Error, Result};
pub use filter::{Beginning, Comparator, Comparison, Filter};
pub use mutation::RowMutation;
pub use query_cache::QueryCacheStats;
pub use read::{Cell, CellValue, DeleteKind, IndexCounts, Read, Scan, ScanCounts, TreeCounts};
pub use rising::PUTS_OF_A_COLUMN_MAX;
pub use schema::{AccessGroup, Family, NAME_LEN_MAX, Schema, VERSIONS_DEFAULT};
pub use span::Span;
pub use tables::{CellWriter, Table, Tables};
pub use write::{APPEND_LEN_MAX, Check, ROW_DELETE_LEN};

/// The example of `docs/tables.md`, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tables.md")]
mod document {}
