//! A connection to a server: made when it is first needed, and made again when the one before could not be used any more.
//!
//! - Nothing waits for longer than `--wait` says, or [`PATIENCE`], without a byte coming or going. In the shell, Ctrl-C
//!   ends every wait.
//! - After an error of the connection, and when somebody leaves a reply unread, the connection is closed: what comes next
//!   on it would be taken for the reply to something else. A command that was sent in part has no effect.
//! - What the server refuses becomes an error of the kind that the store itself would have returned.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use esker::{Error, ErrorKind, Result};
use rustix::io::{Errno, FdFlags, fcntl_setfd, ioctl_fionbio};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};

use super::url::{Address, Url};
use super::wire::{Replies, Reply, command};
use crate::interrupt;

/// How long a server may take, unless `--wait` says otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is left of a reply is read up to this many bytes. Beyond that, a new connection costs less.
const PASSED_MAX: u64 = 1 << 20;

/// How soon the client tries again to connect to a server that is there and accepts nobody.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A connection to a database of a server.
pub(super) struct Connection {
    url: Url,
    database: u16,
    wait: Option<Duration>,
    replies: Option<Replies<Socket>>,
    /// How many connections there have been. Whoever reads a long reply reads it from one of them.
    number: u64,
    /// How many bytes of the last reply have not been read.
    unread: u64,
}

impl Connection {
    pub(super) fn new(url: Url, database: u16, wait: Option<Duration>) -> Self {
        Connection { url, database, wait, replies: None, number: 0, unread: 0 }
    }

    /// How long the server may take.
    pub(super) fn patience(&self) -> Duration {
        self.wait.unwrap_or(PATIENCE).max(Duration::from_millis(1))
    }

    /// From now on, commands are about this database.
    pub(super) fn select(&mut self, database: u16) -> Result<()> {
        if self.database == database {
            return Ok(());
        }
        self.database = database;
        self.pass_unread();
        let selected = if self.replies.is_some() { self.begin_selected() } else { Ok(()) };
        selected.inspect_err(|_| self.close())
    }

    /// Sends commands, of which the bytes may be in several parts.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.pass_unread();
        self.open()?;
        self.send_more(bytes)
    }

    /// Sends more of what [`Connection::send`] has begun.
    pub(super) fn send_more(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(replies) = &mut self.replies else { return Err(self.lost()) };
        let sent = replies.inner_mut().send(bytes);
        sent.map_err(|error| {
            // A server that closes the connection mostly says why.
            let told = match &mut self.replies {
                Some(replies) if is_gone(&error) => replies.next().ok(),
                _ => None,
            };
            let failed = match told {
                Some(Reply::Error(text)) => self.refused(&text),
                _ => self.failed(&error),
            };
            self.close();
            failed
        })
    }

    /// The next reply. An error of the server is a reply too.
    pub(super) fn reply(&mut self) -> Result<Reply> {
        let Some(replies) = &mut self.replies else { return Err(self.lost()) };
        replies.next().map_err(|error| self.broken(&error))
    }

    /// The next reply, or the error that the server returns in its place.
    pub(super) fn answer(&mut self) -> Result<Reply> {
        match self.reply()? {
            Reply::Error(text) => Err(self.refused(&text)),
            reply => Ok(reply),
        }
    }

    /// The answer to one command.
    pub(super) fn call(&mut self, arguments: &[&[u8]]) -> Result<Reply> {
        let mut bytes = Vec::new();
        command(&mut bytes, arguments);
        self.send(&bytes)?;
        self.answer()
    }

    /// The length of the next reply if it is a string. Its bytes are then read by [`Connection::part`], on the
    /// connection of the number that is returned too. Otherwise the reply.
    pub(super) fn begin(&mut self) -> Result<std::result::Result<(u64, u64), Reply>> {
        let Some(replies) = &mut self.replies else { return Err(self.lost()) };
        match replies.begin().map_err(|error| self.broken(&error))? {
            Ok(len) => {
                self.unread = len;
                self.end_of_string()?;
                Ok(Ok((len, self.number)))
            }
            Err(Reply::Error(text)) => Err(self.refused(&text)),
            Err(reply) => Ok(Err(reply)),
        }
    }

    /// Fills `out` with the next bytes of the string that [`Connection::begin`] has found.
    pub(super) fn part(&mut self, number: u64, out: &mut [u8]) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        let replies = self.replies.as_mut().filter(|_| self.number == number);
        let Some(replies) = replies.filter(|_| self.unread >= out.len() as u64) else {
            return Err(self.lost());
        };
        replies.part(out).map_err(|error| self.broken(&error))?;
        self.unread -= out.len() as u64;
        self.end_of_string()
    }

    fn end_of_string(&mut self) -> Result<()> {
        match &mut self.replies {
            Some(replies) if self.unread == 0 => replies.end_of_string().map_err(|error| self.broken(&error)),
            _ => Ok(()),
        }
    }

    /// Reads what is left of the last reply, or closes the connection if that is much.
    fn pass_unread(&mut self) {
        let mut rest = vec![0; self.unread.min(PASSED_MAX) as usize];
        if self.unread > PASSED_MAX || self.part(self.number, &mut rest).is_err() {
            self.close();
        }
    }

    /// Closes the connection. The server drops a command that was sent in part.
    pub(super) fn close(&mut self) {
        self.replies = None;
        self.unread = 0;
    }

    fn open(&mut self) -> Result<()> {
        if self.replies.is_some() {
            return Ok(());
        }
        let socket = self.connect()?;
        self.number += 1;
        self.replies = Some(Replies::new(socket));
        self.introduce().inspect_err(|_| self.close())
    }

    /// A socket that is connected. With `--wait`, a server that does not listen yet is waited for.
    fn connect(&self) -> Result<Socket> {
        let begin = Instant::now();
        loop {
            let left = self.patience().saturating_sub(begin.elapsed()).max(Duration::from_millis(1));
            match Socket::connect(&self.url.address, left, self.patience()) {
                Ok(socket) => return Ok(socket),
                Err(error) if self.wait.is_none() || begin.elapsed() >= self.patience() => {
                    return Err(Error::new(
                        ErrorKind::Io,
                        format!("cannot connect to {}: {error}", self.url),
                    ));
                }
                Err(_) if interrupt::check().is_err() => return Err(stopped()),
                Err(_) => std::thread::sleep(interrupt::LOOK_EVERY.min(left)),
            }
        }
    }

    /// Says who connects, and to which database.
    fn introduce(&mut self) -> Result<()> {
        if let Some(password) = &self.url.password {
            let mut arguments: Vec<&[u8]> = vec![b"AUTH"];
            arguments.extend(self.url.user.as_ref().map(String::as_bytes));
            arguments.push(password.as_bytes());
            let mut bytes = Vec::new();
            command(&mut bytes, &arguments);
            self.send_more(&bytes)?;
            self.answer()?;
        }
        if self.database == 0 { Ok(()) } else { self.begin_selected() }
    }

    fn begin_selected(&mut self) -> Result<()> {
        let mut bytes = Vec::new();
        command(&mut bytes, &[b"SELECT", self.database.to_string().as_bytes()]);
        self.send_more(&bytes)?;
        match self.reply()? {
            Reply::Error(text) if text.starts_with(b"ERR DB index") => {
                let message = format!("the server {} has no database {}", self.url, self.database);
                Err(Error::new(ErrorKind::InvalidInput, message))
            }
            Reply::Error(text) => Err(self.refused(&text)),
            _ => Ok(()),
        }
    }

    /// The error for a command that the server refuses with the error `text`.
    pub(super) fn refused(&self, text: &[u8]) -> Error {
        let text = String::from_utf8_lossy(text);
        let (code, rest) = text.split_once(' ').unwrap_or((&text, ""));
        match code {
            "MISCONF" => Error::new(ErrorKind::OutOfSpace, format!("the server {}: {rest}", self.url)),
            "ERR" if rest == "Protocol error: invalid bulk length" => Error::new(
                ErrorKind::InvalidInput,
                format!(
                    "the value is longer than the server {} takes: raise its proto-max-bulk-len",
                    self.url
                ),
            ),
            "WRONGTYPE" => wrong_type(),
            "NOAUTH" => Error::new(
                ErrorKind::Io,
                format!("the server {} asks for a password: {}", self.url, self.url.with_password()),
            ),
            _ => Error::new(ErrorKind::Io, format!("the server {} refuses: {text}", self.url)),
        }
    }

    /// The error for a reply that is none to what was asked.
    pub(super) fn unexpected(&mut self) -> Error {
        self.close();
        Error::new(ErrorKind::Io, format!("the server {} sent an unexpected reply", self.url))
    }

    /// Closes the connection, which has failed.
    fn broken(&mut self, error: &io::Error) -> Error {
        self.close();
        self.failed(error)
    }

    fn failed(&self, error: &io::Error) -> Error {
        if error.get_ref().and_then(|inner| inner.downcast_ref::<Stopped>()).is_some() {
            return stopped();
        }
        Error::new(ErrorKind::Io, format!("the connection to {} failed: {error}", self.url))
    }

    fn lost(&self) -> Error {
        Error::new(ErrorKind::Io, format!("the connection to {} is closed", self.url))
    }
}

/// The error for a value that is a collection.
pub(crate) fn wrong_type() -> Error {
    Error::new(
        ErrorKind::InvalidInput,
        "the key has a hash, a set, a sorted set or a list, and `esker` reads and changes only plain values; redis-cli has \
         commands for it",
    )
}

fn stopped() -> Error {
    Error::new(ErrorKind::Cancelled, "interrupted")
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Ctrl-C was pressed.
#[derive(Debug)]
struct Stopped;

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Stopped {}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A socket that waits for so long, and no longer.
pub(super) struct Socket {
    stream: Stream,
    patience: Duration,
}

impl Socket {
    fn connect(address: &Address, within: Duration, patience: Duration) -> io::Result<Self> {
        // A call that waits looks for Ctrl-C meanwhile.
        let each = Some(interrupt::LOOK_EVERY.min(patience));
        let stream = match address {
            Address::Tcp(host, port) => {
                let stream = tcp(host, *port, within)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(each)?;
                stream.set_write_timeout(each)?;
                Stream::Tcp(stream)
            }
            Address::Unix(path) => {
                let stream = unix(path, within)?;
                stream.set_read_timeout(each)?;
                stream.set_write_timeout(each)?;
                Stream::Unix(stream)
            }
            // Refused before (`store::on_server`).
            Address::Thrift(..) => return Err(io::ErrorKind::Unsupported.into()),
        };
        Ok(Socket { stream, patience })
    }

    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = self.patiently(|stream| match stream {
                Stream::Tcp(stream) => stream.write(bytes),
                Stream::Unix(stream) => stream.write(bytes),
            })?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    fn patiently(&mut self, mut work: impl FnMut(&mut Stream) -> io::Result<usize>) -> io::Result<usize> {
        let mut begin = None;
        loop {
            let error = match work(&mut self.stream) {
                Err(error) => error,
                done => return done,
            };
            match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted => {}
                _ => return Err(error),
            }
            if interrupt::check().is_err() {
                return Err(io::Error::other(Stopped));
            }
            if begin.get_or_insert_with(Instant::now).elapsed() >= self.patience {
                let message = format!("no answer within {} s (--wait)", self.patience.as_secs_f64());
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
        }
    }
}

impl Read for Socket {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.patiently(|stream| match stream {
            Stream::Tcp(stream) => stream.read(out),
            Stream::Unix(stream) => stream.read(out),
        })
    }
}

/// Connects within so long. The system would wait for ever for a server that is there and accepts nobody.
fn unix(path: &Path, within: Duration) -> io::Result<UnixStream> {
    let (address, begin) = (SocketAddrUnix::new(path)?, Instant::now());
    loop {
        let socket = socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
        fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
        ioctl_fionbio(&socket, true)?;
        match connect(&socket, &address) {
            Ok(()) => {
                let stream = UnixStream::from(socket);
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(Errno::AGAIN) if begin.elapsed() < within => {
                if interrupt::check().is_err() {
                    return Err(io::Error::other(Stopped));
                }
                std::thread::sleep(LOOK_AGAIN);
            }
            Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Connects to the first of the host's addresses that accepts.
fn tcp(host: &str, port: u16, within: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, within) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
