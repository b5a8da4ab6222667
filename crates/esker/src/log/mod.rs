//! The record log: one framing, used by the write-ahead log ([`wal`]) and by the manifest ([`stream`]).
//!
//! ```text
//! write-ahead log segment                      manifest
//! +--------------------+                       +--------------------+
//! | header page, 4 KiB |                       | header page, 4 KiB |
//! +--------------------+                       +--------------------+
//! | record | record |..|  fixed length, mapped | record | record |  |  appended
//! +--------------------+                       +--------------------+
//! ```
//!
//! Guarantees (durability rules 2, 5 and 6): a reader gets exactly the records that were written in this use of the
//! file, in order, up to the first record that is not whole. It can distinguish a torn tail after it (dropped) from
//! damage (an error), because every record states how far the log was known to be synced when the record was written.

mod files;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
pub(crate) mod pieces;
pub(crate) mod reader;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod salvage;
pub(crate) mod segment;
pub(crate) mod stream;
pub(crate) mod survey;
pub(crate) mod wal;
