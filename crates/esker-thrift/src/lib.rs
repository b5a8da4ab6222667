//! Serves tables to clients of HBase's first Thrift interface: happybase, Hue, and whatever is generated from `Hbase.thrift`.
//! [`Client`] is one, of this server or of HBase's. `Esker.thrift` has methods for what HBase's interface cannot do.
//!
//! ```text
//! bytes --> message --> Call --> tables --> rows, cells --> bytes
//! connection  wire       idl     gateway     rows            wire
//! ```
//! Binary and compact protocols, in frames or without, are served at one port. What a client sends takes memory as its bytes
//! arrive, within limits, and what cannot be read ends that client's connection and nothing else. `docs/thrift.md` is for
//! users.

mod access;
mod client;
mod connection;
mod fail;
mod figures;
#[cfg(fuzzing)]
pub mod fuzzing;
mod gateway;
mod idl;
mod memory;
mod rows;
mod scanners;
mod server;
mod stream;
mod wire;

pub use access::{Access, Action, Certificates};
pub use client::{
    Asked, CallError, CallResult, CellRef, Change, Client, Condition, FamilyDescription, Mutation, OwnScan,
    REPLY_LEN_MAX, RowCell, RowCells, RowChanges, RowMutations, ScanRequest, Thrown,
};
pub use figures::Figures;
pub use server::{Config, Error, Server, Stopper};
