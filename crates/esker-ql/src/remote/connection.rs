//! A connection to a server, which is made again when it has failed.

use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use esker_thrift::{CallError, CallResult, Client};

use super::puts::Recent;

/// How long the server may be silent in a call by another connection than the first one.
const PATIENCE_OF_MORE: Duration = Duration::from_secs(10);

/// A connection, and where it goes.
#[derive(Debug)]
pub(super) struct Connection {
    host: String,
    port: u16,
    client: Client,
    /// How long a call waits for the server to send or take bytes; `None`: for ever.
    patience: Option<Duration>,
    /// Whether the server is Esker's; `None`: the connection has not asked.
    is_eskers: Option<bool>,
    /// How many connections there were before. A scanner belongs to one of them.
    pub(super) number: u64,
    /// What calls to an HBase cluster have put without a timestamp.
    pub(super) recent: Recent,
}

impl Connection {
    /// Connects to a server. Each wait of a call for it ends after `patience`.
    ///
    /// # Errors
    /// When no address of the host accepts the connection, or `patience` is zero.
    pub(super) fn connect(host: &str, port: u16, patience: Option<Duration>) -> CallResult<Connection> {
        let client = connected(host, port, patience)?;
        let (host, recent) = (host.to_owned(), Recent::default());
        Ok(Connection { host, port, client, patience, is_eskers: None, number: 0, recent })
    }

    /// How another client connects to the same server.
    pub(super) fn more(&self) -> impl Fn() -> CallResult<Client> + use<> {
        let (host, port) = (self.host.clone(), self.port);
        let patience = self.patience.map_or(PATIENCE_OF_MORE, |patience| patience.min(PATIENCE_OF_MORE));
        move || connected(&host, port, Some(patience))
    }

    pub(super) fn client(&mut self) -> CallResult<&mut Client> {
        if self.client.is_broken() {
            self.client = connected(&self.host, self.port, self.patience)?;
            self.is_eskers = None;
            self.number += 1;
        }
        Ok(&mut self.client)
    }

    /// The client of the connection with this number.
    ///
    /// # Errors
    /// `Broken` when there is another one by now.
    pub(super) fn client_of(&mut self, number: u64) -> CallResult<&mut Client> {
        if self.client.is_broken() || self.number != number {
            let message = "the connection has ended, and the scanner with it";
            return Err(CallError::Broken(message.to_owned()));
        }
        Ok(&mut self.client)
    }

    pub(super) fn is_eskers(&mut self) -> CallResult<bool> {
        // A new connection has to ask again.
        self.client()?;
        if let Some(is_eskers) = self.is_eskers {
            return Ok(is_eskers);
        }
        let is_eskers = self.client.esker_version()?.is_some();
        self.is_eskers = Some(is_eskers);
        Ok(is_eskers)
    }
}

fn connected(host: &str, port: u16, patience: Option<Duration>) -> CallResult<Client> {
    let mut client = Client::connect(host, port)?;
    client.set_patience(patience)?;
    Ok(client)
}

pub(super) fn locked(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    // A call that was left in its midst is seen by the client: it is broken then.
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}
