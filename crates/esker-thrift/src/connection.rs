//! A connection: its bytes become calls, and each call an answer, in their order.
//!
//! ```text
//! first bytes    80 ..              binary
//!                82 ..              compact
//!                len(4) 80 | 82 ..  the same in frames, each with its length in front
//! ```
//! A connection may be idle for ever, but once a message has begun it must end within a time. Memory for a message grows with
//! the bytes that have arrived, not with what they say of themselves. All connections share a limit for messages, and one for
//! calls and their answers.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::fail::{Fail, Thrown, UNKNOWN_METHOD, cut, shown};
use crate::gateway::Gateway;
use crate::idl::{Request, why_unknown};
use crate::memory::Share;
use crate::stream::Stream;
use crate::wire::{Fault, Head, Kind, Measure, Protocol, Purpose, Sink, Source};

/// A connection has so many bytes for messages; more come from the room that all share.
const OWN_ROOM: usize = 16 << 10;

/// How much more is asked for at once.
const READ_MAX: usize = 256 << 10;

/// The memory of replies is kept up to this size, and while there are scanners up to [`SCAN_REPLY_KEPT`].
const REPLY_KEPT: usize = 64 << 10;
const SCAN_REPLY_KEPT: usize = 2 << 20;

/// How long what a client still sends is thrown away after an error, so that the client can read of it.
const DRAIN: Duration = Duration::from_millis(500);

/// Numbers of `TApplicationException`, as [`UNKNOWN_METHOD`].
const WRONG_TYPE: i32 = 2;
const INTERNAL: i32 = 6;
const PROTOCOL: i32 = 7;

/// What connections share.
pub(crate) struct Limits {
    /// The longest message.
    pub(crate) message_len_max: usize,
    /// How long a message may take to arrive, and how long a client may take nothing of an answer.
    pub(crate) message_time: Duration,
    /// How often leases of scanners are looked at while a client is silent.
    pub(crate) lease_check: Duration,
    /// How many bytes connections may still have for messages.
    pub(crate) room: AtomicUsize,
}

/// How a client puts its messages.
#[derive(Debug, Clone, Copy)]
struct Form {
    protocol: Protocol,
    is_framed: bool,
}

/// Why a connection ends.
pub(crate) enum End {
    /// The client has closed it, or the network.
    Gone,
    /// The client must be told.
    Refused(String),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> End {
        End::Gone
    }
}

impl From<Fault> for End {
    fn from(fault: Fault) -> End {
        End::Refused(match fault {
            Fault::Bad(what) => what.to_owned(),
            Fault::Missing(_) => "a message ends within a value".to_owned(),
        })
    }
}

pub(crate) struct Connection<'s> {
    stream: Stream<'s>,
    limits: &'s Limits,
    gateway: Gateway<'s>,
    form: Option<Form>,
    /// The first `filled` bytes are there.
    bytes: Vec<u8>,
    filled: usize,
    /// When the message must be there that has begun.
    due: Option<Instant>,
    timeout: Option<Duration>,
    leases_checked: Instant,
    reply: Vec<u8>,
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.give_back(self.bytes.len());
    }
}

impl<'s> Connection<'s> {
    pub(crate) fn new(stream: Stream<'s>, limits: &'s Limits, gateway: Gateway<'s>) -> Connection<'s> {
        Connection {
            stream,
            limits,
            gateway,
            form: None,
            bytes: Vec::new(),
            filled: 0,
            due: None,
            timeout: None,
            leases_checked: Instant::now(),
            reply: Vec::new(),
        }
    }

    /// Answers calls until the client goes or sends what cannot be read. Then returns why.
    pub(crate) fn run(&mut self) -> Option<String> {
        loop {
            match self.message() {
                Ok(()) => {}
                Err(End::Gone) => return None,
                Err(End::Refused(why)) => {
                    self.refuse(&why);
                    return Some(why);
                }
            }
        }
    }

    /// What counts the call that runs, `reply`, and what the scanners have read ahead.
    fn share(&self) -> &'s Share<'s> {
        self.gateway.limits.share
    }

    fn give_back(&self, len: usize) {
        self.limits.room.fetch_add(len.saturating_sub(OWN_ROOM), Ordering::Relaxed);
    }

    /// Makes the buffer longer: by `missing` bytes if that is not much, else by as much as is there already.
    fn grow(&mut self, missing: usize) -> Result<(), End> {
        let old = self.bytes.len();
        let more = missing.clamp(OWN_ROOM, READ_MAX.max(self.filled));
        let new = (self.filled + more).max(old);
        let shared = new.saturating_sub(OWN_ROOM) - old.saturating_sub(OWN_ROOM);
        let taken = self
            .limits
            .room
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| room.checked_sub(shared));
        if taken.is_err() {
            return Err(End::Refused("the messages of all connections take too much memory now".to_owned()));
        }
        self.bytes.resize(new, 0);
        Ok(())
    }

    fn set_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if self.timeout != timeout {
            self.stream.set_read_timeout(timeout)?;
            self.timeout = timeout;
        }
        Ok(())
    }

    /// Reads at least a byte. `missing`: how many the message lacks at least.
    fn fill(&mut self, missing: usize) -> Result<(), End> {
        if self.filled + missing > self.bytes.len() {
            self.grow(missing)?;
        }
        loop {
            let timeout = match self.due.map(|due| due.saturating_duration_since(Instant::now())) {
                // Also if something comes all the time.
                Some(Duration::ZERO) => {
                    let within = self.limits.message_time;
                    return Err(End::Refused(format!("a message was not there within {within:?}")));
                }
                Some(left) => Some(left.max(Duration::from_millis(1))),
                None if self.gateway.scanners.is_empty() => None,
                None => Some(self.limits.lease_check),
            };
            self.set_timeout(timeout)?;
            match self.stream.read(&mut self.bytes[self.filled..]) {
                Ok(0) => return Err(End::Gone),
                Ok(read) => {
                    self.filled += read;
                    return Ok(());
                }
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                        self.gateway.scanners.end_leases();
                        self.forget_reply();
                    }
                    _ => return Err(End::Gone),
                },
            }
        }
    }

    /// Reads until `len` bytes are there.
    fn need(&mut self, len: usize) -> Result<(), End> {
        while self.filled < len {
            if self.filled > 0 && self.due.is_none() {
                self.due = Some(Instant::now() + self.limits.message_time);
            }
            self.fill(len - self.filled)?;
        }
        Ok(())
    }

    /// How the client puts its messages, which its first bytes tell.
    fn form(&mut self) -> Result<Form, End> {
        if let Some(form) = self.form {
            return Ok(form);
        }
        let protocol = |byte: u8| match byte {
            0x80 => Some(Protocol::Binary),
            0x82 => Some(Protocol::Compact),
            _ => None,
        };
        self.need(1)?;
        let form = match protocol(self.bytes[0]) {
            Some(protocol) => Form { protocol, is_framed: false },
            None => {
                self.need(5)?;
                let Some(protocol) = protocol(self.bytes[4]) else {
                    return Err(End::Refused("this is no Thrift message".to_owned()));
                };
                Form { protocol, is_framed: true }
            }
        };
        self.form = Some(form);
        Ok(form)
    }

    fn check_len(&self, len: usize) -> Result<(), End> {
        let max = self.limits.message_len_max;
        if len > max {
            return Err(End::Refused(format!("a message has more than {max} bytes")));
        }
        Ok(())
    }

    /// Reads a message and answers it.
    fn message(&mut self) -> Result<(), End> {
        if !self.gateway.scanners.is_empty() && self.leases_checked.elapsed() >= self.limits.lease_check {
            // Also while the client makes other calls all the time.
            self.leases_checked = Instant::now();
            self.gateway.scanners.end_leases();
        }
        let form = self.form()?;
        let (start, end) = if form.is_framed {
            self.need(4)?;
            let len = self.bytes.first_chunk().map_or(0, |len| u32::from_be_bytes(*len)) as usize;
            self.check_len(len)?;
            self.need(4 + len)?;
            (4, 4 + len)
        } else {
            let mut measure = Measure::default();
            self.need(1)?;
            let len = loop {
                match measure.len(form.protocol, &self.bytes[..self.filled]) {
                    Ok(len) => break len,
                    Err(Fault::Missing(missing)) => {
                        let len = self.filled.saturating_add(missing);
                        self.check_len(len)?;
                        self.need(len)?;
                    }
                    Err(fault) => return Err(fault.into()),
                }
            };
            self.check_len(len)?;
            (0, len)
        };
        self.due = None;
        self.answer(form, start, end)
    }

    /// Drops the first `end` bytes, and memory that an ordinary message does not need.
    fn forget(&mut self, end: usize) {
        self.bytes.copy_within(end..self.filled, 0);
        self.filled -= end;
        let kept = self.filled.max(4 * OWN_ROOM);
        if self.bytes.len() > kept {
            let old = self.bytes.len();
            self.bytes.truncate(kept);
            self.bytes.shrink_to_fit();
            self.limits.room.fetch_add(old - kept, Ordering::Relaxed);
        }
    }

    /// Drops the last reply's memory, unless the next reply is likely to need it.
    fn forget_reply(&mut self) {
        let (capacity, share) = (self.reply.capacity(), self.share());
        let scanners = &mut self.gateway.scanners;
        if capacity.max(scanners.ahead_capacity()) > REPLY_KEPT {
            let may_keep = share.may_keep();
            if !may_keep {
                scanners.shrink_ahead();
            }
            if !may_keep || scanners.is_empty() || capacity > SCAN_REPLY_KEPT {
                self.reply = Vec::new();
            }
        }
        share.give_back(self.reply.capacity() + scanners.ahead_capacity());
    }

    /// Answers the message at `start..end`.
    fn answer(&mut self, form: Form, start: usize, end: usize) -> Result<(), End> {
        let mut sink = Sink::new(form.protocol, std::mem::take(&mut self.reply));
        sink.out.clear();
        if form.is_framed {
            sink.out.extend_from_slice(&[0; 4]);
        }
        let is_answered = reply(&mut self.gateway, form.protocol, &self.bytes[start..end], &mut sink)?;
        // Before the client has read the answer, which may take long.
        self.forget(end);
        self.share().end_call(sink.out.capacity()).map_err(|fail| End::Refused(fail.message))?;
        if is_answered {
            self.send(form, &mut sink)?;
            self.gateway.scanners.renew();
        }
        self.reply = sink.out;
        self.forget_reply();
        if self.filled == 0 {
            self.gateway.read_ahead(form.protocol, &mut self.reply);
        }
        Ok(())
    }

    /// Sends a message that is written.
    fn send(&mut self, form: Form, sink: &mut Sink) -> Result<(), End> {
        let message = sink.message();
        if form.is_framed {
            let len = (message.len() - 4) as u32;
            message[..4].copy_from_slice(&len.to_be_bytes());
        }
        self.share().begin_sending();
        let sent = self.stream.write_all(message).and_then(|()| self.stream.flush());
        sent.map_err(|error| {
            if error.kind() == ErrorKind::TimedOut {
                self.gateway.figures.slow_connections.fetch_add(1, Ordering::Relaxed);
            }
            End::Gone
        })
    }

    /// Tells the client why the connection ends, if it is known how.
    fn refuse(&mut self, why: &str) {
        if let Some(form) = self.form {
            let mut sink = Sink::new(form.protocol, Vec::new());
            if form.is_framed {
                sink.out.extend_from_slice(&[0; 4]);
            }
            let head = Head { name: b"", purpose: Purpose::Call, sequence: 0 };
            fault(&mut sink, &head, PROTOCOL, why);
            let _ = self.send(form, &mut sink);
        } else if self.bytes.first().is_some_and(u8::is_ascii_uppercase) {
            let body = "This port speaks HBase's Thrift interface, not HTTP.\n";
            let len = body.len();
            let _ = write!(
                self.stream,
                "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: {len}\r\n\r\n{body}"
            );
        }
        // The others need not wait for the memory.
        self.give_back(self.bytes.len());
        self.bytes = Vec::new();
        self.share().give_back(0);
        self.drain();
    }

    /// Ends the sending side, and throws away for a moment what still comes: closing at once would take the answer back.
    fn drain(&mut self) {
        if self.stream.end_sending().is_ok() {
            self.stream.drain(Instant::now() + DRAIN);
        }
    }
}

/// An answer that no method declares.
fn fault(sink: &mut Sink, head: &Head<'_>, number: i32, message: &str) {
    sink.head(head.name, head.sequence, true);
    sink.field(0, 1, Kind::Bytes);
    sink.bytes(message.as_bytes());
    sink.field(1, 2, Kind::I32);
    sink.i32(number);
    sink.stop();
}

/// Does the call in `message`, and writes the answer. `false`: the client wants none.
fn reply(
    gateway: &mut Gateway<'_>,
    protocol: Protocol,
    message: &[u8],
    sink: &mut Sink,
) -> Result<bool, Fault> {
    let mut source = Source::new(protocol, message).counted(gateway.limits.share);
    let head = source.head()?;
    let wants_answer = head.purpose != Purpose::OneWay;
    if matches!(head.purpose, Purpose::Answer | Purpose::Exception) {
        fault(sink, &head, WRONG_TYPE, "this is an answer, and the server asks nothing");
        return Ok(true);
    }
    let name = std::str::from_utf8(head.name).unwrap_or_default();
    let Some(request) = Request::decode(name, &mut source)? else {
        let mut message = format!("there is no method {}", shown(head.name));
        if let Some(why) = why_unknown(head.name) {
            message.push_str(": ");
            message.push_str(why);
        }
        fault(sink, &head, UNKNOWN_METHOD, &message);
        return Ok(wants_answer);
    };
    let throws = request.throws();
    let is_own = matches!(request, Request::Own(_));
    let start = sink.out.len();
    sink.head(head.name, head.sequence, false);
    let result = sink.out.len();
    gateway.figures.calls.fetch_add(1, Ordering::Relaxed);
    let answered = match request {
        Request::Hbase(call) => gateway.answer(call, sink),
        Request::Own(call) => gateway.answer_own(call, sink),
        Request::Refused(_, fail) => Err(fail),
    };
    match answered {
        Ok(()) => sink.stop(),
        Err(fail) => {
            gateway.figures.failed_calls.fetch_add(1, Ordering::Relaxed);
            if fail.kind == Thrown::Denied {
                gateway.figures.denied_calls.fetch_add(1, Ordering::Relaxed);
            }
            if throws == 0 {
                sink.out.truncate(start);
                fault(sink, &head, INTERNAL, &cut(fail.message));
                return Ok(wants_answer);
            }
            let id = if is_own { 1 } else { fail.field(throws) };
            sink.out.truncate(result);
            sink.field(0, id, Kind::Struct);
            sink.field(0, 1, Kind::Bytes);
            let Fail { kind, may_pass, .. } = fail;
            sink.bytes(cut(fail.message).as_bytes());
            if is_own {
                sink.field(1, 2, Kind::I32);
                sink.i32(kind.kind());
            } else if id == 1 {
                // `canRetry`, and a field of Esker's own: clients pass over fields that they do not know.
                sink.field_bool(1, 2, may_pass);
                if kind != Thrown::Io {
                    sink.field(2, 3, Kind::I32);
                    sink.i32(kind.kind());
                }
            }
            sink.stop();
            sink.stop();
        }
    }
    Ok(wants_answer)
}
