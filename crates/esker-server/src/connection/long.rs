//! Values that are too long for memory: they go from the client to the store, and back, piece by piece.
//!
//! ```text
//! client --> piece, piece --> ValueWriter (in the pool) --> StoredValue, an argument of its command
//! client <-- piece, piece <-- Huge::read_exact_at (in the pool) <-- Part of a reply
//! ```
//! While one piece is stored or sent, the next one is read: two pieces are in memory for each client. After each piece the
//! other clients have their turn, also when neither the socket nor the store made this one wait.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use esker::{ErrorKind, ValueWriter};
use esker_redis::{Huge, Part, Reply, spec};
use tokio::task::{JoinHandle, spawn_blocking};

use super::{Connection, Next, poll_append, sleep, told};
use crate::figures::add;
use crate::server::Server;
use crate::trees::sent;
use crate::wake::yield_to_ready;

/// A value of at least so many bytes is not held in memory until all of it has come.
pub(super) const LONG_BYTES: u64 = 4 << 20;

/// So many bytes are stored, or read to be sent, at once.
const PIECE_BYTES: usize = 1 << 20;

/// The memory of a value that comes: the piece that comes, and the one before it, which is stored meanwhile.
pub(super) const LONG_MEMORY: usize = 2 * PIECE_BYTES;

/// So many bytes are taken from the socket at once.
const TAKEN_BYTES: usize = 256 << 10;

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
                // To take a whole piece from the socket takes as long as many short commands.
                yield_to_ready().await;
            }
            piece = storing.add(piece).await;
            if left == 0 {
                break;
            }
            self.server.give_way().await;
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
            let room = usize::try_from(left).unwrap_or(TAKEN_BYTES).min(TAKEN_BYTES);
            tokio::select! {
                read = poll_fn(|cx| poll_append(&mut self.stream, piece, room, cx)) => {
                    let read = read?;
                    add(&self.server.figures.bytes_in, read as u64);
                    add(&self.server.figures.socket_reads, u64::from(read > 0));
                    return Ok(read);
                }
                () = self.client.told.notified() => self.flush().await?,
                () = sleep((idle_s > 0).then(|| Duration::from_secs(idle_s))) => return Ok(0),
            }
        }
    }

    /// Sends a part of a huge value. If it cannot be read, the connection has to end: the client expects bytes.
    pub(super) async fn write_part(&self, part: &Part) -> io::Result<()> {
        let (mut at, mut spare) = (part.range.start, Vec::new());
        let mut reading = read_ahead(part, at, Vec::new());
        while at < part.range.end {
            let bytes = reading.await??;
            at += bytes.len() as u64;
            reading = read_ahead(part, at, std::mem::take(&mut spare));
            self.write_all(&bytes).await?;
            // Only a whole piece is so much work that the client has to rest: a reply may have thousands of short parts.
            if bytes.len() == PIECE_BYTES && at < part.range.end {
                self.server.give_way().await;
            } else {
                yield_to_ready().await;
            }
            spare = bytes;
        }
        Ok(())
    }
}

/// The memory of the parts of a reply that is written: a piece that goes, and the next one, which is read meanwhile.
pub(super) fn memory_of_parts(reply: &Reply) -> usize {
    let parts = reply.pieces().filter_map(|(_, part)| part);
    let longest = parts.map(|part| part.range.end.saturating_sub(part.range.start)).max().unwrap_or_default();
    2 * usize::try_from(longest).unwrap_or(PIECE_BYTES).min(PIECE_BYTES)
}

/// Begins to read the piece of `part` that begins at `at` into `buffer`, on another thread.
fn read_ahead(part: &Part, at: u64, mut buffer: Vec<u8>) -> JoinHandle<io::Result<Vec<u8>>> {
    let Part { value, range } = part.clone();
    spawn_blocking(move || {
        let left = usize::try_from(range.end.saturating_sub(at)).unwrap_or(PIECE_BYTES);
        buffer.resize(left.min(PIECE_BYTES), 0);
        let read = value.read_exact_at(at, &mut buffer);
        let failed = |error| io::Error::other(format!("a huge value cannot be read: {error:?}"));
        read.map(|()| buffer).map_err(failed)
    })
}

/// A writer, and the memory of the last piece that it has stored.
type Stored = (ValueWriter, Vec<u8>);

/// A value that is being stored, on other threads.
struct Storing {
    server: Rc<Server>,
    database: u16,
    /// What stores the last piece, with the writer behind it and the memory of the piece.
    last: Result<JoinHandle<esker::Result<Stored>>, esker::Error>,
}

impl Storing {
    /// Begins; only to pass over the bytes if not `wanted`.
    fn begin(server: &Rc<Server>, database: u16, wanted: bool) -> Storing {
        let trees = Arc::clone(&server.trees);
        let last = if wanted {
            Ok(spawn_blocking(move || trees.writer(database).map(|writer| (writer, Vec::new()))))
        } else {
            Err(esker::Error::new(ErrorKind::InvalidInput, "an argument before it could not be stored"))
        };
        Storing { server: Rc::clone(server), database, last }
    }

    /// The writer behind the last piece, and the memory of that piece.
    async fn writer(&mut self) -> esker::Result<Stored> {
        let gone = || esker::Error::new(ErrorKind::InvalidInput, "the value could not be stored");
        let last = std::mem::replace(&mut self.last, Err(gone()))?;
        let panicked = |error| {
            esker::Error::new(ErrorKind::Poisoned, format!("the storing of a value has panicked: {error}"))
        };
        last.await.map_err(panicked)?
    }

    /// Begins to store the next piece. After a failure it is passed over: the client sends it anyway. Returns an empty buffer
    /// for the piece behind it: if one thread frees large buffers and another allocates them, the event loop waits for the
    /// allocator's lock.
    async fn add(&mut self, mut piece: Vec<u8>) -> Vec<u8> {
        match self.writer().await {
            Ok((mut writer, mut spare)) => {
                self.last = Ok(spawn_blocking(move || writer.add(&piece).map(|()| (writer, piece))));
                spare.clear();
                spare
            }
            Err(error) => {
                self.last = Err(error);
                piece.clear();
                piece
            }
        }
    }

    /// The whole value, as an argument.
    async fn finish(mut self) -> esker::Result<Arc<dyn Huge>> {
        let (writer, _) = self.writer().await?;
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
