//! A client that waits for its replies, in version 2 or 3 of the protocol.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

mod head;

pub use head::{Head, head, reply_len};

/// A reply. It prints as scripts of tests write it.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    /// The null of version 2 in place of bytes, and in place of an array.
    NullBulk,
    NullArray,
    Array(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Set(Vec<Value>),
    Double(String),
    Boolean(bool),
    Verbatim(String),
    Push(Vec<Value>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, first: &str, values: &[Value]| {
            let texts: Vec<String> = values.iter().map(Value::to_string).collect();
            write!(f, "{first}[{}]", texts.join(" "))
        };
        match self {
            Value::Simple(text) => write!(f, "+{text}"),
            Value::Error(text) => write!(f, "-{text}"),
            Value::Integer(number) => write!(f, ":{number}"),
            Value::Bulk(bytes) => write!(f, "{}", String::from_utf8_lossy(bytes)),
            Value::Null => f.write_str("null"),
            Value::NullBulk => f.write_str("$-1"),
            Value::NullArray => f.write_str("*-1"),
            Value::Array(values) => list(f, "", values),
            Value::Set(values) => list(f, "~", values),
            Value::Push(values) => list(f, ">", values),
            Value::Map(pairs) => {
                let texts: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
                write!(f, "%[{}]", texts.join(" "))
            }
            Value::Double(text) => write!(f, ",{text}"),
            Value::Boolean(value) => write!(f, "#{value}"),
            Value::Verbatim(text) => write!(f, "={text}"),
        }
    }
}

impl Value {
    fn of_line(kind: u8, rest: &str) -> Value {
        match kind {
            b'+' => Value::Simple(rest.to_owned()),
            b'-' => Value::Error(rest.to_owned()),
            b':' => Value::Integer(rest.parse().unwrap()),
            b'_' => Value::Null,
            b',' => Value::Double(rest.to_owned()),
            b'#' => Value::Boolean(rest == "t"),
            kind => panic!("a reply of the type {}", char::from(kind)),
        }
    }

    fn of_several(kind: u8, values: Vec<Value>) -> Value {
        match kind {
            b'*' => Value::Array(values),
            b'~' => Value::Set(values),
            b'>' => Value::Push(values),
            _ => {
                let (mut values, mut pairs) = (values.into_iter(), Vec::new());
                while let (Some(key), Some(value)) = (values.next(), values.next()) {
                    pairs.push((key, value));
                }
                Value::Map(pairs)
            }
        }
    }

    pub fn integer(&self) -> i64 {
        match self {
            Value::Integer(number) => *number,
            other => panic!("no integer: {other}"),
        }
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            Value::Bulk(bytes) => bytes,
            other => panic!("no bytes: {other}"),
        }
    }

    pub fn is_error(&self) -> bool {
        matches!(self, Value::Error(_))
    }
}

/// A connection of any kind.
pub trait Io: Read + Write + Send {}

impl<T: Read + Write + Send> Io for T {}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Other(Box<dyn Io>),
}

/// How long a reply may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// See the module's comment.
pub struct Client {
    stream: Stream,
    buffer: Vec<u8>,
    at: usize,
    /// Where the kernel puts what it has: to fill `buffer` with zeros for each read costs more than all else in a test
    /// that is not optimized.
    arrived: Box<[u8]>,
}

/// The bytes of a command.
pub fn encoded<T: AsRef<[u8]>>(arguments: &[T]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        let argument = argument.as_ref();
        bytes.extend(format!("${}\r\n", argument.len()).into_bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// The bytes of a command, whose arguments are the words of `line`.
pub fn encoded_line(line: &str) -> Vec<u8> {
    encoded(&line.split_whitespace().collect::<Vec<_>>())
}

/// The bytes of several commands, each a line.
pub fn encoded_lines(lines: &[&str]) -> Vec<u8> {
    lines.iter().flat_map(|line| encoded_line(line)).collect()
}

impl Client {
    /// A connection to an address as the server prints it: `HOST:PORT` or `unix:PATH`.
    pub fn connect(address: &impl fmt::Display) -> Client {
        Client::try_connect(address).unwrap()
    }

    pub fn try_connect(address: &impl fmt::Display) -> io::Result<Client> {
        let address = address.to_string();
        let stream = if let Some(path) = address.strip_prefix("unix:") {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Stream::Unix(stream)
        } else {
            let stream = TcpStream::connect(address.as_str())?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Stream::Tcp(stream)
        };
        Ok(Client::of(stream))
    }

    /// A client of a connection that is there.
    pub fn over(stream: impl Io + 'static) -> Client {
        Client::of(Stream::Other(Box::new(stream)))
    }

    fn of(stream: Stream) -> Client {
        Client { stream, buffer: Vec::new(), at: 0, arrived: vec![0; 256 << 10].into() }
    }

    /// Another handle of the connection, to write while this one reads.
    pub fn writer(&self) -> Client {
        let stream = match &self.stream {
            Stream::Tcp(stream) => Stream::Tcp(stream.try_clone().unwrap()),
            Stream::Unix(stream) => Stream::Unix(stream.try_clone().unwrap()),
            Stream::Other(_) => panic!("this connection has one handle"),
        };
        Client::of(stream)
    }

    // ---- bytes ---------------------------------------------------------------------------------------

    pub fn try_send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.stream {
            Stream::Tcp(stream) => stream.write_all(bytes),
            Stream::Unix(stream) => stream.write_all(bytes),
            Stream::Other(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.try_send_bytes(bytes).unwrap();
    }

    /// Says that no more commands follow.
    pub fn end_of_input(&self) {
        match &self.stream {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write).unwrap(),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write).unwrap(),
            Stream::Other(_) => panic!("this connection ends as a whole"),
        }
    }

    /// Reads more bytes. Returns whether there were some.
    fn fill(&mut self) -> io::Result<bool> {
        if self.at > 1 << 20 || self.at == self.buffer.len() {
            self.buffer.drain(..self.at);
            self.at = 0;
        }
        let read = loop {
            let read = match &mut self.stream {
                Stream::Tcp(stream) => stream.read(&mut self.arrived),
                Stream::Unix(stream) => stream.read(&mut self.arrived),
                Stream::Other(stream) => stream.read(&mut self.arrived),
            };
            // A signal ends a read that has a timeout.
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.buffer.extend_from_slice(&self.arrived[..read]);
        Ok(read > 0)
    }

    fn body(&mut self, len: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() - self.at < len + 2 {
            if !self.fill()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let bytes = self.buffer[self.at..self.at + len].to_vec();
        assert_eq!(&self.buffer[self.at + len..self.at + len + 2], b"\r\n");
        self.at += len + 2;
        Ok(bytes)
    }

    /// The next reply. `None`: the server has closed the connection.
    pub fn try_read(&mut self) -> io::Result<Option<Value>> {
        loop {
            if let Some((head, len)) = head(&self.buffer[self.at..]) {
                let value = match head {
                    Head::Line(kind, rest) => Value::of_line(kind, &String::from_utf8_lossy(rest)),
                    Head::Null(b'*') => Value::NullArray,
                    Head::Null(_) => Value::NullBulk,
                    Head::Bytes(kind, body_len) => {
                        self.at += len;
                        let body = self.body(body_len)?;
                        return Ok(Some(match kind {
                            b'=' => Value::Verbatim(String::from_utf8(body).unwrap()),
                            _ => Value::Bulk(body),
                        }));
                    }
                    Head::Several(kind, count) => {
                        self.at += len;
                        return Ok(Some(Value::of_several(kind, self.several(count)?)));
                    }
                };
                self.at += len;
                return Ok(Some(value));
            }
            if !self.fill()? {
                let is_whole = self.at == self.buffer.len();
                return if is_whole { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        }
    }

    fn several(&mut self, count: usize) -> io::Result<Vec<Value>> {
        (0..count).map(|_| self.try_read()?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())).collect()
    }

    pub fn read(&mut self) -> Value {
        self.try_read().unwrap().expect("the server closed the connection")
    }

    /// The next `len` bytes, or as many as there are before the connection ends or nothing comes for long.
    pub fn read_bytes(&mut self, len: usize) -> Vec<u8> {
        while self.buffer.len() - self.at < len && self.fill().unwrap_or(false) {}
        let end = self.buffer.len().min(self.at + len);
        let bytes = self.buffer[self.at..end].to_vec();
        self.at = end;
        bytes
    }

    /// Reads up to the end of the connection: the replies before it. A reset counts as an end.
    pub fn read_to_end(&mut self) -> Vec<Value> {
        let mut values = Vec::new();
        loop {
            match self.try_read() {
                Ok(Some(value)) => values.push(value),
                Ok(None) => return values,
                Err(error) if is_timeout(&error) => panic!("the connection goes on after {values:?}"),
                Err(_) => return values,
            }
        }
    }

    /// Whether the server has closed the connection, without a further reply.
    pub fn is_closed(&mut self) -> bool {
        self.read_to_end().is_empty()
    }

    // ---- commands ------------------------------------------------------------------------------------

    pub fn send(&mut self, line: &str) {
        self.send_bytes(&encoded_line(line));
    }

    /// The reply to the command whose arguments are the words of `line`.
    pub fn call(&mut self, line: &str) -> Value {
        self.send(line);
        self.read()
    }

    pub fn call_with<T: AsRef<[u8]>>(&mut self, arguments: &[T]) -> Value {
        self.send_bytes(&encoded(arguments));
        self.read()
    }

    /// Runs a script: lines `command => reply`. Between the two, blanks do not count.
    pub fn check(&mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (command, expected) = line.split_once("=>").expect("a line has a command and a reply");
            let reply = self.call(command).to_string();
            assert_eq!(reply.trim_end(), expected.trim(), "{}", command.trim());
        }
    }

    /// A figure of `INFO`.
    /// Makes a set of so many times 5,000 members: `SUNIONSTORE` of it takes a while, in the pool.
    pub fn fill_set(&mut self, key: &str, chunks: usize) {
        for chunk in 0..chunks {
            let members: String = (0..5000).map(|member| format!(" {chunk}-{member}")).collect();
            self.call(&format!("SADD {key}{members}"));
        }
    }

    pub fn figure(&mut self, name: &str) -> u64 {
        let text = self.call("INFO everything").to_string();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("INFO has no {name}")).trim().parse().unwrap()
    }

    /// How often a command was called.
    pub fn calls_of(&mut self, command: &str) -> u64 {
        let text = self.call("INFO commandstats").to_string();
        let begin = format!("cmdstat_{command}:calls=");
        let calls = text.lines().find_map(|line| line.strip_prefix(begin.as_str()));
        calls.map_or(0, |calls| calls.split(',').next().unwrap().parse().unwrap())
    }

    pub fn id(&mut self) -> i64 {
        self.call("CLIENT ID").integer()
    }
}

pub fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
