//! The current version of the store: which tables and blob files belong to it.
//!
//! - [`edit`]: the changes that the manifest records, and the state they add up to.
//! - `table_info`, `tree_record`: the manifest's records of a table and of a tree.
//! - [`blob_edits`]: the changes that concern blob files.
//! - [`manifest`]: the file. An edit counts once it is synced. It names only files that are synced.
//! - [`tables`]: table files as shared handles. A file is opened at its first read, closed when too many are open, and
//!   removed when it is obsolete and unused.
//! - `filter_room`: which of the open tables have their filter in memory.
//! - [`imported`]: how the numbers in files of another store are read here.
//! - [`read_cost`]: the cost of reads on unmerged runs.
//! - [`table_cursor`]: iterates over a tree's part of a table.
//! - [`levels`]: one tree's tables. The list is immutable: a change makes a new one and swaps it in whole.

pub(crate) mod blob_edits;
pub(crate) mod edit;
mod filter_room;
pub(crate) mod imported;
pub(crate) mod levels;
pub(crate) mod manifest;
pub(crate) mod read_cost;
pub(crate) mod table_cursor;
pub(crate) mod table_info;
pub(crate) mod tables;
pub(crate) mod tree_record;
