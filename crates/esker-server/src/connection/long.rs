//! Values that are too long for memory: they go from the client to the store, and back, piece by piece.
//!
//! ```text
//! client --> piece, piece --> ValueWriter (in the pool) --> StoredValue, an argument of its command
//! client <-- piece, piece <-- Huge::read_at (in the pool) <-- Part of a reply
//! ```
//! While one piece is stored or sent, the next one is read: two pieces are in memory for each client. After each piece the
//! other clients have their turn, also when neither the socket nor the store made this one wait.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use esker::{ErrorKind, ValueWriter};
use esker_redis::{Huge, Part, spec};
use tokio::task::{JoinHandle, spawn_blocking, yield_now};

use super::{Connection, Next, poll_append, sleep, told};
use crate::figures::add;
use crate::server::Server;
use crate::trees::sent;

/// A value of at least so many bytes is not held in memory until all of it has come.
pub(super) const LONG_BYTES: u64 = 4 << 20;

/// So many bytes are stored, or read to be sent, at once.
const PIECE_BYTES: usize = 1 << 20;

/// So many bytes are taken from the socket at once.
const READ_BYTES: usize = 256 << 10;

impl Connection {
    /// Stores a long argument as it comes, whatever its command will do with it. `None`: the client has gone.
    pub(super) async fn take_long(&mut self, len: u64) -> io::Result<Option<Next>> {
        self.flush().await?;
        // What would not be allowed is not stored.
        let refusal = self.refusal_so_far();
        self.sent = refusal.map_or_else(|| std::mem::replace(&mut self.sent, Ok(Vec::new())), Err);
        let begin = self.parser.take_long();
        let mut piece = self.buffer.split_off(begin);
        let behind =
            usize::try_from(len).ok().filter(|len| *len < piece.len()).map(|len| piece.split_off(len));
        let mut left = len - piece.len() as u64;
        let mut storing = Storing::begin(&self.server, self.client.database.get(), self.sent.is_ok());
        loop {
            while left > 0 && piece.len() < PIECE_BYTES {
                let read = self.read_more(&mut piece, left).await?;
                if read == 0 {
                    return Ok(None);
                }
                left -= read as u64;
            }
            storing.add(std::mem::take(&mut piece)).await;
            if left == 0 {
                break;
            }
            yield_now().await;
        }
        let stored = storing.finish().await;
        if let Ok(sent) = &mut self.sent {
            match stored {
                Ok(value) => sent.push(value),
                Err(error) => self.sent = Err(told(&error)),
            }
        }
        self.buffer.extend(behind.unwrap_or_default());
        Ok(Some(self.step()))
    }

    /// Why the client may not do the command that has begun; `None`: it may, as far as its arguments have come.
    fn refusal_so_far(&self) -> Option<String> {
        if self.is_unrestricted() {
            return None;
        }
        let arguments = self.parser.begun(&self.buffer);
        let spec = arguments.first().and_then(|name| spec(name))?;
        self.refusal(spec, &arguments)
    }

    /// Reads some of the next `left` bytes. Returns how many; 0: the client has gone, or has to go.
    async fn read_more(&mut self, piece: &mut Vec<u8>, left: u64) -> io::Result<usize> {
        loop {
            if self.is_over() {
                return Ok(0);
            }
            let idle_s = self.server.settings.borrow().idle_s;
            let room = usize::try_from(left).unwrap_or(READ_BYTES).min(READ_BYTES);
            tokio::select! {
                read = poll_fn(|cx| poll_append(&mut self.stream, piece, room, cx)) => {
                    let read = read?;
                    add(&self.server.figures.bytes_in, read as u64);
                    return Ok(read);
                }
                () = self.client.told.notified() => self.flush().await?,
                () = sleep((idle_s > 0).then(|| Duration::from_secs(idle_s))) => return Ok(0),
            }
        }
    }

    /// Sends a part of a huge value. If it cannot be read, the connection has to end: the client expects bytes.
    pub(super) async fn write_part(&self, part: &Part) -> io::Result<()> {
        let mut at = part.range.start;
        let mut reading = read_ahead(part, at);
        while at < part.range.end {
            let bytes = reading.await??;
            at += bytes.len() as u64;
            reading = read_ahead(part, at);
            self.write_all(&bytes).await?;
            yield_now().await;
        }
        Ok(())
    }
}

/// Begins to read the piece of `part` that begins at `at`, on another thread.
fn read_ahead(part: &Part, at: u64) -> JoinHandle<io::Result<Vec<u8>>> {
    let Part { value, range } = part.clone();
    spawn_blocking(move || {
        let left = usize::try_from(range.end.saturating_sub(at)).unwrap_or(PIECE_BYTES);
        let bytes = value.read_at(at, left.min(PIECE_BYTES));
        bytes.map_err(|error| io::Error::other(format!("a huge value cannot be read: {error:?}")))
    })
}

/// A value that is being stored, on other threads.
struct Storing {
    server: Rc<Server>,
    database: u16,
    /// What stores the last piece, with the writer behind it.
    last: Result<JoinHandle<esker::Result<ValueWriter>>, esker::Error>,
}

impl Storing {
    /// Begins; only to pass over the bytes if not `wanted`.
    fn begin(server: &Rc<Server>, database: u16, wanted: bool) -> Storing {
        let trees = Arc::clone(&server.trees);
        let last = if wanted {
            Ok(spawn_blocking(move || trees.writer(database)))
        } else {
            Err(esker::Error::new(ErrorKind::InvalidInput, "an argument before it could not be stored"))
        };
        Storing { server: Rc::clone(server), database, last }
    }

    /// The writer behind the last piece.
    async fn writer(&mut self) -> esker::Result<ValueWriter> {
        let gone = || esker::Error::new(ErrorKind::InvalidInput, "the value could not be stored");
        let last = std::mem::replace(&mut self.last, Err(gone()))?;
        let panicked = |error| {
            esker::Error::new(ErrorKind::Poisoned, format!("the storing of a value has panicked: {error}"))
        };
        last.await.map_err(panicked)?
    }

    /// Begins to store the next piece. After a failure it is passed over: the client sends it anyway.
    async fn add(&mut self, piece: Vec<u8>) {
        self.last = match self.writer().await {
            Ok(mut writer) => Ok(spawn_blocking(move || writer.add(&piece).map(|()| writer))),
            Err(error) => Err(error),
        };
    }

    /// The whole value, as an argument.
    async fn finish(mut self) -> esker::Result<Arc<dyn Huge>> {
        let writer = self.writer().await?;
        let (trees, database) = (Arc::clone(&self.server.trees), self.database);
        let stored = spawn_blocking(move || {
            let stored = writer.finish()?;
            let tree = trees.keys(database);
            let lost = || esker::Error::new(ErrorKind::InvalidInput, "there is no such database");
            Ok(sent(tree.ok_or_else(lost)?, stored))
        });
        let panicked = |error| {
            esker::Error::new(ErrorKind::Poisoned, format!("the storing of a value has panicked: {error}"))
        };
        stored.await.map_err(panicked)?
    }
}
