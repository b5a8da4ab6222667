//! A real Redis on a socket in a directory of its own, and replies as trees.

use std::fmt;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use test_kit::redis::{Head, encoded, head};

/// A server, which ends with this value.
pub(crate) struct Server {
    child: Child,
    directory: PathBuf,
}

impl Server {
    /// Starts a server, if there is one of this version.
    pub(crate) fn start(version: &str) -> Result<Server, String> {
        let told = Command::new("redis-server").arg("--version").output();
        let told = told.map_err(|_| "redis-server is not installed".to_owned())?;
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        if !told.contains(&format!("v={version}.")) {
            return Err(format!("redis-server {version} is not installed, but: {}", told.trim_end()));
        }
        let directory = std::env::temp_dir().join(format!("esker-redis-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let child = Command::new("redis-server")
            .args(["--port", "0", "--unixsocket", "socket", "--save", "", "--appendonly", "no"])
            .args(["--databases", "16", "--enable-debug-command", "yes"])
            .args(["--notify-keyspace-events", "AEnm", "--client-output-buffer-limit", "pubsub 0 0 0"])
            .current_dir(&directory)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Ok(Server { child, directory })
    }

    /// A connection to it.
    pub(crate) fn connect(&self) -> Client {
        let begin = Instant::now();
        loop {
            match UnixStream::connect(self.directory.join("socket")) {
                Ok(stream) => return Client { stream, unread: Vec::new(), at: 0 },
                Err(error) if begin.elapsed() > Duration::from_secs(20) => panic!("redis-server: {error}"),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A connection.
pub(crate) struct Client {
    stream: UnixStream,
    unread: Vec<u8>,
    at: usize,
}

impl Client {
    /// Sends commands at once.
    pub(crate) fn send<A: AsRef<[u8]>>(&mut self, commands: &[&[A]]) {
        let bytes: Vec<u8> = commands.iter().flat_map(|command| encoded(command)).collect();
        self.stream.write_all(&bytes).unwrap();
    }

    /// The next reply.
    pub(crate) fn receive(&mut self) -> Reply {
        loop {
            let mut at = self.at;
            if let Some(reply) = Reply::parse(&self.unread, &mut at) {
                self.at = at;
                if at == self.unread.len() {
                    self.unread.clear();
                    self.at = 0;
                }
                return reply;
            }
            let mut more = [0; 65536];
            let len = self.stream.read(&mut more).unwrap();
            assert!(len > 0, "Redis has closed the connection");
            self.unread.extend_from_slice(&more[..len]);
        }
    }

    /// The reply to a command.
    pub(crate) fn ask<A: AsRef<[u8]>>(&mut self, command: &[A]) -> Reply {
        self.send(&[command]);
        self.receive()
    }
}

/// A reply, in either version of the protocol.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reply {
    /// A line: its first byte and the rest.
    Line(u8, Vec<u8>),
    /// A bulk string; `None` where there is none.
    Bulk(Option<Vec<u8>>),
    /// An array, a set, a map (of twice as many replies as it says), a push; `None` where there is none.
    List(u8, Option<Vec<Reply>>),
}

impl Reply {
    /// The reply that begins at `at`, if all of it is there.
    pub(crate) fn parse(bytes: &[u8], at: &mut usize) -> Option<Reply> {
        let (head, len) = head(bytes.get(*at..)?)?;
        *at += len;
        Some(match head {
            Head::Line(first, line) => Reply::Line(first, line.to_vec()),
            Head::Null(b'$') => Reply::Bulk(None),
            Head::Null(first) => Reply::List(first, None),
            Head::Bytes(_, len) => {
                let found = bytes.get(*at..*at + len + 2)?;
                *at += len + 2;
                Reply::Bulk(Some(found.strip_suffix(b"\r\n").unwrap().to_vec()))
            }
            Head::Several(first, count) => {
                let parts = (0..count).map(|_| Reply::parse(bytes, at)).collect::<Option<_>>()?;
                Reply::List(first, Some(parts))
            }
        })
    }

    pub(crate) fn is_error(&self) -> bool {
        matches!(self, Reply::Line(b'-', _))
    }

    /// The parts of a list; none of what is none.
    pub(crate) fn parts(&self) -> &[Reply] {
        if let Reply::List(_, Some(parts)) = self { parts } else { &[] }
    }

    /// The bytes of a bulk string or a line; none of a list.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Reply::Line(_, bytes) | Reply::Bulk(Some(bytes)) => bytes,
            _ => &[],
        }
    }

    pub(crate) fn integer(&self) -> Option<i64> {
        let Reply::Line(b':', digits) = self else { return None };
        std::str::from_utf8(digits).ok()?.parse().ok()
    }

    /// All bulk strings and lines of it, those of lists in it too.
    pub(crate) fn leaves(&self) -> Vec<&[u8]> {
        match self {
            Reply::List(_, _) => self.parts().iter().flat_map(Reply::leaves).collect(),
            Reply::Bulk(None) => Vec::new(),
            _ => vec![self.bytes()],
        }
    }

    /// What it looks like when bytes do not count.
    pub(crate) fn shape(&self) -> Reply {
        match self {
            Reply::Line(b'-', _) => self.clone(),
            Reply::Line(first, _) => Reply::Line(*first, Vec::new()),
            Reply::Bulk(bytes) => Reply::Bulk(bytes.as_ref().map(|_| Vec::new())),
            Reply::List(first, parts) => {
                Reply::List(*first, parts.as_ref().map(|parts| parts.iter().map(Reply::shape).collect()))
            }
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Line(first, rest) => write!(f, "{}{}", char::from(*first), rest.escape_ascii()),
            Reply::Bulk(None) => f.write_str("$-1"),
            Reply::Bulk(Some(bytes)) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Reply::List(first, None) => write!(f, "{}-1", char::from(*first)),
            Reply::List(first, Some(parts)) => {
                write!(f, "{}", char::from(*first))?;
                f.debug_list().entries(parts).finish()
            }
        }
    }
}
