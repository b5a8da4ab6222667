//! A connection's two directions: a call goes out, and its reply comes in.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::error::{CallError, CallResult};
use super::reply::{REPLY_LEN_MAX, answer};
use crate::wire::{Fault, Measure, Protocol, Sink};

/// How many bytes a read asks for at least.
const READ_LEN: usize = 64 << 10;

/// How many bytes a read asks for at most, whatever the message says that it lacks.
const READ_LEN_MAX: usize = 1 << 20;

/// Methods that work through a whole table before they answer, or wait for such a one: they take as long as they take.
const UNHURRIED: [&str; 13] = [
    "createTable",
    "deleteTable",
    "disableTable",
    "enableTable",
    "eskerAlterTable",
    "eskerCreateNamespace",
    "eskerCreateTable",
    "eskerDropNamespace",
    "eskerDropTable",
    "eskerRebuildIndexes",
    "eskerRenameTable",
    "eskerTruncateTable",
    "majorCompact",
];

/// A longer message's memory is not kept.
const MEMORY_KEPT: usize = 4 << 20;

#[derive(Debug)]
pub(super) struct Link {
    stream: TcpStream,
    sequence: i32,
    /// Memory for calls.
    call: Vec<u8>,
    /// Memory for replies, which keeps its length: clearing it for each reply would take as long as a short call.
    reply: Vec<u8>,
    /// How many bytes of the reply have arrived.
    filled: usize,
    watch: Watch,
    /// The method that was called last.
    method: &'static str,
    /// How long a call waits for bytes to come or go; `None`: for ever.
    patience: Option<Duration>,
    /// Whether a call is under way. A call that fails leaves it so: a reply for which nobody waits may still come.
    is_broken: bool,
}

impl Link {
    pub(super) fn new(stream: TcpStream) -> Link {
        Link {
            stream,
            sequence: 0,
            call: Vec::new(),
            reply: Vec::new(),
            filled: 0,
            watch: Watch::default(),
            method: "",
            patience: None,
            is_broken: false,
        }
    }

    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }

    pub(super) fn set_patience(&mut self, patience: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(patience)?;
        self.stream.set_write_timeout(patience)?;
        self.patience = patience;
        Ok(())
    }

    /// The error of the call whose bytes the socket could not carry.
    fn failed(&self, error: io::Error) -> CallError {
        match (error.kind(), self.patience) {
            (ErrorKind::WouldBlock, Some(waited)) => CallError::Silent { method: self.method, waited },
            _ => CallError::Io(error),
        }
    }

    /// Sends a call. Returns its number.
    pub(super) fn send(&mut self, name: &'static str, write: impl FnOnce(&mut Sink)) -> CallResult<i32> {
        if self.is_broken {
            return Err(CallError::Broken("an earlier call has failed: connect again".to_owned()));
        }
        self.sequence = self.sequence.wrapping_add(1);
        let mut call = std::mem::take(&mut self.call);
        call.clear();
        let mut sink = Sink::new(Protocol::Binary, call);
        sink.call_head(name.as_bytes(), self.sequence);
        write(&mut sink);
        sink.stop();
        self.is_broken = true;
        self.method = name;
        if let Err(error) = self.stream.write_all(&sink.out) {
            let is_closed = matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset);
            let refusal = if is_closed { self.refusal() } else { None };
            return Err(refusal.unwrap_or_else(|| self.failed(error)));
        }
        self.call = kept(sink.out);
        Ok(self.sequence)
    }

    /// What a server has said before it has closed the connection.
    fn refusal(&mut self) -> Option<CallError> {
        let mut measure = Measure::default();
        let len = self.receive(|bytes| measure.len(Protocol::Binary, bytes)).ok()?;
        let said = answer::<()>(self.reply(len), "", 0, |_| Err(Fault::Bad("a refusal has no result")));
        said.err().filter(|error| matches!(error, CallError::Thrown { .. }))
    }

    /// Waits for the reply, until `read` finds its end in what has arrived. Returns its length.
    pub(super) fn receive(
        &mut self,
        mut read: impl FnMut(&[u8]) -> Result<usize, Fault>,
    ) -> CallResult<usize> {
        let mut missing = 0;
        loop {
            self.read_more(missing)?;
            match read(self.reply(self.filled)) {
                Ok(len) => return Ok(len),
                Err(Fault::Missing(bytes)) => missing = bytes,
                Err(fault) => return Err(fault.into()),
            }
        }
    }

    /// Waits for bytes. `missing`: how many the reply lacks at least.
    fn read_more(&mut self, missing: usize) -> CallResult<()> {
        if self.filled + missing > REPLY_LEN_MAX {
            return Err(CallError::Broken(format!("a reply has more than {REPLY_LEN_MAX} bytes")));
        }
        let end = self.filled + missing.clamp(READ_LEN, READ_LEN_MAX);
        if self.reply.len() < end {
            self.reply.resize(end, 0);
        }
        self.watch.wait(&self.stream);
        loop {
            match self.stream.read(self.reply.get_mut(self.filled..).unwrap_or_default()) {
                Ok(0) => return Err(CallError::Io(ErrorKind::UnexpectedEof.into())),
                Ok(arrived) => {
                    self.filled += arrived;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && UNHURRIED.contains(&self.method) => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    /// The first `len` bytes that have arrived.
    pub(super) fn reply(&self, len: usize) -> &[u8] {
        self.reply.get(..len).unwrap_or_default()
    }

    /// Ends the call, whose reply has `len` bytes. Returns `what` the reply says.
    pub(super) fn pass<T>(&mut self, what: CallResult<T>, len: usize) -> CallResult<T> {
        let is_bad = matches!(what, Err(CallError::Io(_) | CallError::Broken(_)));
        self.is_broken = is_bad || self.filled > len;
        self.filled = 0;
        self.reply = kept(std::mem::take(&mut self.reply));
        what
    }
}

/// Memory for the next message, unless the last one was unusually long.
fn kept(memory: Vec<u8>) -> Vec<u8> {
    if memory.capacity() > MEMORY_KEPT { Vec::new() } else { memory }
}

/// Looks for a reply for a moment before the thread sleeps, as long as that helps. A thread that sleeps is woken late, and waking it
/// costs the server more than some calls do, above all on a virtual machine, where its processor has stopped too.
#[derive(Debug, Default)]
struct Watch {
    /// How often to sleep at once until it is tried again.
    pause: u32,
    /// How long the last pause was.
    last_pause: u32,
}

/// How long it is worth to look.
const WATCH_TIME: Duration = Duration::from_micros(50);

/// The longest pause.
const PAUSE_MAX: u32 = 1 << 10;

impl Watch {
    fn wait(&mut self, stream: &TcpStream) {
        if self.pause > 0 {
            self.pause -= 1;
            return;
        }
        let until = Instant::now() + WATCH_TIME;
        while let Err(Errno::AGAIN) =
            rustix::net::recv(stream, &mut [0_u8; 1], RecvFlags::DONTWAIT | RecvFlags::PEEK)
        {
            if Instant::now() >= until {
                self.last_pause = (self.last_pause * 2 + 1).min(PAUSE_MAX);
                self.pause = self.last_pause;
                return;
            }
            std::thread::yield_now();
        }
        self.last_pause = 0;
    }
}
