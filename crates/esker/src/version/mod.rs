//! Which tables and blob files make up the store now.
//!
//! - [`edit`]: the changes that the manifest records, and the state they add up to.
//! - `table_info`, `tree_record`: what it knows of a table and of a tree.
//! - [`blobs`]: the changes that concern blob files.
//! - [`manifest`]: the file. An edit counts when it is synced; it names only files that are.
//! - [`tables`], `open_tables`: table files as shared handles, opened when first read, closed when too many are, removed
//!   when nobody uses them any more.
//! - [`read_cost`]: what reads have spent on unmerged runs.
//! - [`table_cursor`]: walks what a tree has of a table.
//! - [`levels`]: one tree's tables, immutable; a change makes a new one, which is swapped in whole.

pub(crate) mod blobs;
pub(crate) mod edit;
pub(crate) mod imported;
pub(crate) mod levels;
pub(crate) mod manifest;
mod open_tables;
pub(crate) mod read_cost;
pub(crate) mod table_cursor;
pub(crate) mod table_info;
pub(crate) mod tables;
pub(crate) mod tree_record;
