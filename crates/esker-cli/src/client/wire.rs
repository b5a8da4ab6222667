//! The bytes of a connection: commands out, replies in, in version 2 of Redis' protocol.
//!
//! ```text
//! command   *2 \r\n  $3 \r\n GET \r\n  $1 \r\n k \r\n
//! reply     +OK \r\n     -ERR text \r\n     :42 \r\n     $3 \r\n abc \r\n     $-1 \r\n     *2 \r\n and two replies
//! ```
//! The server is not trusted: a reply that is none is an error, and what a reply claims takes no memory before its bytes
//! are there. Lines, elements and depth have limits. The bytes of a long string can be taken piece by piece.

use std::io::{self, Read};

/// The longest line, in bytes: an error with a long text.
const LINE_MAX: usize = 64 << 10;
/// The most elements of an array, and how deep arrays may lie in each other.
const ELEMENTS_MAX: usize = 1 << 20;
const DEPTH_MAX: usize = 8;
/// The longest string: more than a file can have.
const STRING_MAX: u64 = 1 << 62;
/// The most bytes of a reply that is read into memory as a whole. What may be longer is read piece by piece.
const IN_MEMORY_MAX: u64 = 1 << 30;
/// How many bytes of memory an element takes beside those of its string.
const ELEMENT: u64 = 64;

/// How many bytes are read at once.
const ROOM: usize = 64 << 10;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Status(Vec<u8>),
    Error(Vec<u8>),
    Integer(i64),
    Bytes(Vec<u8>),
    Null,
    Array(Vec<Reply>),
}

/// The first line of a reply.
#[derive(Debug, PartialEq, Eq)]
enum Head {
    Whole(Reply),
    String(u64),
    Array(usize),
}

/// Reads replies.
pub(super) struct Replies<R> {
    from: R,
    buffer: Box<[u8]>,
    /// What has been read and not been taken.
    at: usize,
    end: usize,
    /// How many bytes of memory the current reply may still take.
    left: u64,
}

/// The error for bytes that no server sends.
fn garbage(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the server does not speak Redis' protocol: {what}"))
}

impl<R: Read> Replies<R> {
    pub(super) fn new(from: R) -> Self {
        Replies { from, buffer: vec![0; ROOM].into(), at: 0, end: 0, left: 0 }
    }

    /// What is read from.
    pub(super) fn inner_mut(&mut self) -> &mut R {
        &mut self.from
    }

    /// The next reply.
    pub(super) fn next(&mut self) -> io::Result<Reply> {
        self.left = IN_MEMORY_MAX;
        self.nested(DEPTH_MAX)
    }

    /// The length of the next reply if it is a string, whose bytes are then read by [`Replies::part`]; otherwise the reply.
    pub(super) fn begin(&mut self) -> io::Result<Result<u64, Reply>> {
        self.left = IN_MEMORY_MAX;
        match self.head()? {
            Head::String(len) => Ok(Ok(len)),
            Head::Whole(reply) => Ok(Err(reply)),
            Head::Array(len) => Ok(Err(self.array(len, DEPTH_MAX)?)),
        }
    }

    /// Fills `out` with the next bytes of a string, all of which exist.
    pub(super) fn part(&mut self, out: &mut [u8]) -> io::Result<()> {
        let buffered = out.len().min(self.end - self.at);
        out[..buffered].copy_from_slice(&self.buffer[self.at..self.at + buffered]);
        self.at += buffered;
        let mut filled = buffered;
        while filled < out.len() {
            match self.from.read(&mut out[filled..]) {
                Ok(0) => return Err(closed()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads what follows the last byte of a string.
    pub(super) fn end_of_string(&mut self) -> io::Result<()> {
        let mut end = [0; 2];
        self.part(&mut end)?;
        if &end == b"\r\n" { Ok(()) } else { Err(garbage("a string has another length than it says")) }
    }

    fn nested(&mut self, depth: usize) -> io::Result<Reply> {
        match self.head()? {
            Head::Whole(reply) => Ok(reply),
            Head::String(len) => self.string(len).map(Reply::Bytes),
            Head::Array(len) => self.array(len, depth),
        }
    }

    fn array(&mut self, len: usize, depth: usize) -> io::Result<Reply> {
        let depth = depth.checked_sub(1).ok_or_else(|| garbage("arrays lie too deep in each other"))?;
        let mut elements = Vec::new();
        for _ in 0..len {
            self.take(ELEMENT)?;
            elements.push(self.nested(depth)?);
        }
        Ok(Reply::Array(elements))
    }

    fn string(&mut self, len: u64) -> io::Result<Vec<u8>> {
        self.take(len)?;
        let len = len as usize;
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let filled = bytes.len();
            let count = (len - filled).min(ROOM.max(filled));
            bytes.try_reserve(count).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
            bytes.resize(filled + count, 0);
            self.part(&mut bytes[filled..])?;
        }
        self.end_of_string()?;
        Ok(bytes)
    }

    /// Counts memory that the reply takes.
    fn take(&mut self, bytes: u64) -> io::Result<()> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| garbage("a reply is too long"))?;
        Ok(())
    }

    fn head(&mut self) -> io::Result<Head> {
        let line = self.line()?;
        let Some((kind, rest)) = line.split_first() else { return Err(garbage("an empty line")) };
        if matches!(kind, b'+' | b'-') {
            self.take(rest.len() as u64)?;
        }
        Ok(match kind {
            b'+' => Head::Whole(Reply::Status(rest.to_vec())),
            b'-' => Head::Whole(Reply::Error(rest.to_vec())),
            b':' => Head::Whole(Reply::Integer(number(rest)?)),
            b'$' | b'*' if rest == b"-1" => Head::Whole(Reply::Null),
            b'$' => Head::String(length(rest, STRING_MAX)?),
            b'*' => Head::Array(length(rest, ELEMENTS_MAX as u64)? as usize),
            _ => return Err(garbage("an unknown type of reply")),
        })
    }

    /// The next line without its end.
    fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        loop {
            let read = &self.buffer[self.at..self.end];
            let end = memchr::memchr(b'\n', read);
            let taken = end.map_or(read.len(), |end| end + 1);
            line.extend_from_slice(&read[..taken]);
            self.at += taken;
            if line.len() > LINE_MAX {
                return Err(garbage("a line is too long"));
            }
            if end.is_some() {
                let len = line.strip_suffix(b"\r\n").ok_or_else(|| garbage("a line ends without \\r"))?.len();
                line.truncate(len);
                return Ok(line);
            }
            self.fill()?;
        }
    }

    /// Reads more into the buffer, which is empty.
    fn fill(&mut self) -> io::Result<()> {
        loop {
            match self.from.read(&mut self.buffer) {
                Ok(0) => return Err(closed()),
                Ok(count) => {
                    (self.at, self.end) = (0, count);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")
}

fn number(digits: &[u8]) -> io::Result<i64> {
    let text = std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'));
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| garbage("a number has other characters than digits"))
}

fn length(digits: &[u8], max: u64) -> io::Result<u64> {
    let len = u64::try_from(number(digits)?).ok().filter(|len| *len <= max);
    len.ok_or_else(|| garbage("a length is out of range"))
}

/// Appends a command.
pub(super) fn command(out: &mut Vec<u8>, arguments: &[&[u8]]) {
    count(out, b'*', arguments.len() as u64);
    for argument in arguments {
        string(out, argument);
    }
}

/// Appends an argument.
pub(super) fn string(out: &mut Vec<u8>, argument: &[u8]) {
    count(out, b'$', argument.len() as u64);
    out.extend_from_slice(argument);
    out.extend_from_slice(b"\r\n");
}

/// Appends the line that says how many arguments, or bytes of one, follow.
pub(super) fn count(out: &mut Vec<u8>, kind: u8, count: u64) {
    out.push(kind);
    out.extend_from_slice(count.to_string().as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a few bytes at a time.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let count = out.len().min(self.0.len()).min(self.1);
            out[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn all(bytes: &[u8], at_once: usize) -> Vec<Reply> {
        let mut replies = Replies::new(Slow(bytes, at_once));
        let mut found = Vec::new();
        loop {
            match replies.next() {
                Ok(reply) => found.push(reply),
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{error}");
                    return found;
                }
            }
        }
    }

    #[test]
    fn replies_are_read_however_they_arrive() {
        let bytes = b"+OK\r\n-ERR no\r\n:-42\r\n$5\r\na\r\n\0b\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n*2\r\n*1\r\n:1\r\n$1\r\nx\r\n";
        let bytes_of = |bytes: &[u8]| Reply::Bytes(bytes.to_vec());
        let expected = [
            Reply::Status(b"OK".to_vec()),
            Reply::Error(b"ERR no".to_vec()),
            Reply::Integer(-42),
            bytes_of(b"a\r\n\0b"),
            bytes_of(b""),
            Reply::Null,
            Reply::Null,
            Reply::Array(vec![]),
            Reply::Array(vec![Reply::Array(vec![Reply::Integer(1)]), bytes_of(b"x")]),
        ];
        for at_once in [1, 2, 3, 7, 1000] {
            assert_eq!(all(bytes, at_once), expected);
        }
        for cut in 0..bytes.len() {
            all(&bytes[..cut], 5);
        }
    }

    #[test]
    fn strings_are_taken_piece_by_piece() {
        let mut replies = Replies::new(Slow(b"$6\r\nabcdef\r\n:7\r\n", 3));
        assert_eq!(replies.begin().unwrap(), Ok(6));
        let mut part = [0; 4];
        replies.part(&mut part).unwrap();
        assert_eq!(&part, b"abcd");
        replies.part(&mut part[..2]).unwrap();
        replies.end_of_string().unwrap();
        assert_eq!(replies.begin().unwrap(), Err(Reply::Integer(7)));
    }

    /// What is claimed and never comes takes no memory, and nothing that a server sends makes this panic.
    #[test]
    fn what_no_server_sends_is_refused() {
        let long = [b"+".as_slice(), &[b'x'; LINE_MAX + 1]].concat();
        let deep = b"*1\r\n".repeat(DEPTH_MAX + 1);
        let cases: [&[u8]; 19] = [
            b"HTTP/1.1 400 Bad Request\r\n",
            b"\r\n",
            b"+OK\n",
            b":\r\n",
            b":+1\r\n",
            b":1x\r\n",
            b":9223372036854775808\r\n",
            b"$-2\r\n",
            b"$x\r\n",
            b"$9223372036854775807\r\n",
            b"$2147483648\r\n",
            b"$3\r\nabcd\r\n",
            b"*-2\r\n",
            b"*1048577\r\n",
            b"*9223372036854775807\r\n",
            b"%1\r\n",
            b":\xff\r\n",
            &long,
            &deep,
        ];
        for case in cases {
            let error = Replies::new(case).next().expect_err(&String::from_utf8_lossy(case));
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{}", String::from_utf8_lossy(case));
        }
        for claim in [b"$1073741824\r\nabc".as_slice(), &b"*1048576\r\n".repeat(DEPTH_MAX)] {
            assert_eq!(Replies::new(claim).next().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn commands_are_arrays_of_strings() {
        let mut out = Vec::new();
        command(&mut out, &[b"GET", b"a\r\n"]);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$3\r\na\r\n\r\n");
    }
}
