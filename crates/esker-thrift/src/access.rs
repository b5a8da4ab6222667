//! Who a client is and what it may do, as far as others know: this interface has no users of its own.

use std::fmt;
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection};

/// What a call does with a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It shows cells, or what the table is like.
    Read,
    /// It writes cells and tells nothing of those that were there.
    Write,
    /// It writes, and tells something of what was there: increments, appends, checks.
    Update,
    /// It makes, drops, empties, enables, disables, merges, alters or renames the table, or rebuilds its indexes.
    Admin,
}

/// What clients may do. It is asked for each call, so what changes counts from the next call on.
pub trait Access: fmt::Debug + Send + Sync {
    /// Refuses what a client may not do. `certificate` is the name in the client's certificate, if it has shown one. The name `NAMESPACE:`
    /// stands for a namespace, which is shown, made or dropped.
    ///
    /// # Errors
    /// What the client is told.
    fn check(&self, certificate: Option<&[u8]>, action: Action, table: &str) -> Result<(), String>;
}

/// The certificates of a server whose connections are encrypted.
pub trait Certificates: fmt::Debug + Send + Sync {
    /// What counts for connections that begin now. `None`: they are closed.
    fn config(&self) -> Option<Arc<ServerConfig>>;

    /// The name in the certificate that a client has shown.
    fn name_of_client(&self, session: &ServerConnection) -> Option<Vec<u8>>;
}
