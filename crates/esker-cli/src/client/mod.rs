//! A database of a server, by the commands of Redis and those of Esker: what `keyspace` needs of a tree, over a connection.
//!
//! ```text
//! keyspace ──> database (entries, rows, batches, values as streams) ──> connection ──> wire ──> server
//! ```
//! It is a client of our own because values are streamed from and to files: the `redis` crate holds each whole in memory.
//! Blocking, one connection, version 2 of the protocol.

mod connection;
mod database;
mod rows;
mod url;
mod wire;

pub(crate) use connection::wrong_type;
pub(crate) use database::{Batch, Bulk, Database, Expiry, Upload, before};
pub(crate) use rows::{Rows, Want};
pub(crate) use url::Url;
pub(crate) use wire::Reply;

/// The reply whose bytes these are.
pub(crate) fn reply_of(bytes: &[u8]) -> esker::Result<Reply> {
    let error = |error: std::io::Error| esker::Error::new(esker::ErrorKind::Io, error.to_string());
    wire::Replies::new(bytes).next().map_err(error)
}
