//! SSTables: immutable sorted files of entries, written once, read at random and in order.
//!
//! ```text
//! [ data block ]* [ filter ] [ index ] [ properties ] [ footer ]
//! ```
//! - `block.rs`, `block_builder.rs`: a data block; `frame.rs`: the trailer of every block;
//! - `index.rs`, `search_tree.rs`: which block; `filter.rs`: whether to look at all;
//! - `footer.rs`: where the sections are, and the table's properties; `expiring.rs`: counts of
//!   expiring entries;
//! - `writer.rs`, `reader.rs`, `cursor.rs`, `read_ahead.rs`: writing a table and reading it;
//! - `verify.rs`: reading all of it for `check`; `salvage.rs`: the sound entries of a damaged table, for `repair`;
//!   `measure.rs`: the index opened to `bench/`; `fuzzing.rs`: the decoders opened to `fuzz/`.
//!
//! Guarantees: only bytes that pass their checksum are returned as data. A damaged or hostile file yields a
//! located error or the right answer, never a panic. An open table is immutable, and any number of threads
//! may read it. Relies on its caller: every table gets a random salt, and every open table an id that the
//! process never used before.

mod block;
mod block_builder;
mod cursor;
mod expiring;
mod filter;
mod footer;
mod frame;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod index;
#[cfg(esker_measure)]
pub(crate) mod measure;
mod read_ahead;
mod reader;
mod salvage;
mod search_tree;
mod verify;
mod writer;

#[cfg(test)]
mod tests;

use std::path::Path;

use crate::error::{Error, ErrorKind};

pub(crate) use block::BlockSlice;
pub(crate) use cursor::TableCursor;
pub(crate) use expiring::Expiring;
pub(crate) use footer::{MAGIC as TABLE_MAGIC, Owner, Properties};
pub(crate) use frame::supported as check_supported;
pub(crate) use read_ahead::ScanHint;
pub(crate) use reader::{Found, TableReader, table_salt};
pub(crate) use salvage::{Gap, Salvage};
pub(crate) use verify::Verification;
pub(crate) use writer::{TableOptions, TableWriter};

/// The flaw in some bytes, before file and offset are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The bytes at position `at` are not `expected`.
    Damage { at: usize, expected: &'static str },
    /// The bytes are in a later version of the file's format.
    Version { what: &'static str, version: u32 },
    /// The bytes are compressed by zstd, which this build lacks.
    #[cfg(not(feature = "zstd"))]
    Zstd,
}

impl Flaw {
    #[cfg(not(feature = "zstd"))]
    const NO_ZSTD: &'static str = "zstd needs a build with the feature \"zstd\"";

    pub(crate) fn new(at: usize, expected: &'static str) -> Self {
        Flaw::Damage { at, expected }
    }

    /// The error for bytes that begin at `offset` of `path`.
    pub(crate) fn into_error(self, path: &Path, offset: u64) -> Error {
        match self {
            Flaw::Damage { at, expected } => {
                Error::corruption(path, offset.saturating_add(at as u64), format!("expected {expected}"))
            }
            Flaw::Version { what, version } => {
                let message = format!("{what} format {version} is newer than this version of Esker reads");
                Error::new(ErrorKind::Unsupported, message).at(path)
            }
            #[cfg(not(feature = "zstd"))]
            Flaw::Zstd => Error::new(ErrorKind::Unsupported, Flaw::NO_ZSTD).at(path).at_offset(offset),
        }
    }
}
