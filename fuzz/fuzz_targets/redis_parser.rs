//! Requests of Redis' protocol, in one piece, byte by byte and cut once, beside a reference that sees all bytes at once.
//! The reader takes the bytes of long arguments itself, as a server does, and puts them back into their places.
#![no_main]

use esker_redis::resp::parser::{Limits, Parser, ProtocolError};
use libfuzzer_sys::fuzz_target;

type Request = Vec<Vec<u8>>;

/// What a client's bytes come to.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    requests: Vec<Request>,
    /// What the client is told, if these are no requests.
    error: Option<String>,
    /// How many bytes belong to no whole request.
    left: usize,
}

/// A connection's buffer, as a server has it.
#[derive(Default)]
struct Reader {
    parser: Parser,
    buffer: Vec<u8>,
    requests: Vec<Request>,
    error: Option<String>,
    /// The long arguments of the request that has begun, and how many bytes of the last one are to come.
    long: Vec<Vec<u8>>,
    long_left: u64,
}

impl Reader {
    fn take(&mut self, bytes: &[u8], limits: &Limits) {
        if self.error.is_some() {
            return;
        }
        // What belongs to a long argument goes past the buffer.
        let taken = usize::try_from(self.long_left).map_or(bytes.len(), |left| left.min(bytes.len()));
        if let Some(long) = self.long.last_mut() {
            long.extend_from_slice(&bytes[..taken]);
        }
        self.long_left -= taken as u64;
        self.buffer.extend_from_slice(&bytes[taken..]);
        while self.long_left == 0 {
            match self.parser.next(&self.buffer, limits) {
                Ok(Some(request)) => {
                    assert!(request.len > 0 && request.len <= self.buffer.len());
                    let words = request.arguments(&self.buffer);
                    let mut words: Request = words.into_iter().map(<[u8]>::to_vec).collect();
                    assert_eq!(request.long.len(), self.long.len());
                    for (place, value) in request.long.iter().zip(self.long.drain(..)) {
                        assert!(words[*place].is_empty() && value.len() as u64 >= limits.long_bytes);
                        words[*place] = value;
                    }
                    self.requests.push(words);
                    self.buffer.drain(..request.len);
                }
                Ok(None) => {
                    // What it waits for is within the limits: a server gives so much room.
                    assert!(self.parser.wanted() as u64 <= self.buffer.len() as u64 + limits.bulk_bytes + 2);
                    let Some(len) = self.parser.long() else { return };
                    assert!((limits.long_bytes..=limits.bulk_bytes).contains(&len));
                    let begin = self.parser.take_long();
                    let end = usize::try_from(len).map_or(self.buffer.len(), |len| self.buffer.len().min(begin + len));
                    self.long.push(self.buffer.drain(begin..end).collect());
                    self.long_left = len - (end - begin) as u64;
                }
                Err(ProtocolError(message)) => {
                    self.error = Some(message);
                    return;
                }
            }
        }
    }

    fn found(self) -> Found {
        // Behind an error, nothing counts.
        let long: usize = self.long.iter().map(Vec::len).sum();
        let left = if self.error.is_some() { 0 } else { self.buffer.len() + long };
        Found { requests: self.requests, error: self.error, left }
    }
}

fn in_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: &Limits) -> Found {
    let mut reader = Reader::default();
    pieces.into_iter().for_each(|piece| reader.take(piece, limits));
    reader.found()
}

/// The line at the beginning of `bytes` without its end, and what is behind it.
fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let line = &bytes[..end];
    Some((if line.ends_with(b"\r") { &line[..end - 1] } else { line }, &bytes[end + 1..]))
}

/// A number as Redis reads it: no sign but `-`, no zeros in front.
fn number(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// `Ok(None)`: it goes on.
type Parsed<'a> = Result<Option<(Request, &'a [u8])>, String>;

fn array<'a>(bytes: &'a [u8], limits: &Limits) -> Parsed<'a> {
    let Some((first, mut rest)) = line(bytes) else { return Ok(None) };
    let count = number(&first[1..]).filter(|count| *count <= limits.arguments as i64);
    let count = count.ok_or("Protocol error: invalid multibulk length")?;
    let mut words = Vec::new();
    for _ in 0..count.max(0) {
        let Some((head, behind)) = line(rest) else { return Ok(None) };
        if head.first() != Some(&b'$') {
            let found = head.first().map_or(' ', |byte| *byte as char);
            return Err(format!("Protocol error: expected '$', got '{found}'"));
        }
        let len = number(&head[1..]).filter(|len| (0..=limits.bulk_bytes as i64).contains(len));
        let len = len.ok_or("Protocol error: invalid bulk length")? as usize;
        if behind.len() < len + 2 {
            return Ok(None);
        }
        words.push(behind[..len].to_vec());
        rest = &behind[len + 2..];
    }
    Ok(Some((words, rest)))
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || (9..=13).contains(&byte)
}

/// The words of a line, by a machine that looks at one byte at a time. A zero byte ends the line.
fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let line = line.split(|byte| *byte == 0).next()?;
    let (mut words, mut at) = (Vec::new(), 0);
    let byte = |at: usize| line.get(at).copied();
    loop {
        while byte(at).is_some_and(is_blank) {
            at += 1;
        }
        if at >= line.len() {
            return Some(words);
        }
        let (mut word, mut quote) = (Vec::new(), None);
        loop {
            match (quote, byte(at)) {
                (None, None) => break,
                (None, Some(blank)) if is_blank(blank) => break,
                (None, Some(mark @ (b'"' | b'\''))) => quote = Some(mark),
                (None, Some(other)) => word.push(other),
                (Some(_), None) => return None,
                (Some(b'"'), Some(b'\\')) => {
                    let hex = |at: usize| byte(at).and_then(|digit| (digit as char).to_digit(16));
                    if let (Some(b'x'), Some(high), Some(low)) = (byte(at + 1), hex(at + 2), hex(at + 3)) {
                        word.push((high * 16 + low) as u8);
                        at += 3;
                    } else {
                        let escaped = byte(at + 1)?;
                        let known = [(b'n', b'\n'), (b'r', b'\r'), (b't', b'\t'), (b'b', 8), (b'a', 7)];
                        word.push(known.iter().find(|pair| pair.0 == escaped).map_or(escaped, |pair| pair.1));
                        at += 1;
                    }
                }
                (Some(b'\''), Some(b'\\')) if byte(at + 1) == Some(b'\'') => {
                    word.push(b'\'');
                    at += 1;
                }
                (Some(mark), Some(end)) if mark == end => {
                    if byte(at + 1).is_some_and(|next| !is_blank(next)) {
                        return None;
                    }
                    at += 1;
                    break;
                }
                (Some(_), Some(other)) => word.push(other),
            }
            at += 1;
        }
        words.push(word);
    }
}

fn inline(bytes: &[u8]) -> Parsed<'_> {
    let Some((line, rest)) = line(bytes) else { return Ok(None) };
    let words = words(line).ok_or("Protocol error: unbalanced quotes in request")?;
    Ok(Some((words, rest)))
}

fn reference(mut bytes: &[u8], limits: &Limits) -> Found {
    let (mut requests, mut error) = (Vec::new(), None);
    while let Some(first) = bytes.first() {
        match if *first == b'*' { array(bytes, limits) } else { inline(bytes) } {
            Ok(Some((request, rest))) => {
                requests.push(request);
                bytes = rest;
            }
            Ok(None) => break,
            Err(message) => {
                (error, bytes) = (Some(message), &[]);
                break;
            }
        }
    }
    Found { requests, error, left: bytes.len() }
}

fuzz_target!(|data: &[u8]| {
    let [choice, cut, bytes @ ..] = data else { return };
    let long_bytes = if choice & 2 == 0 { u64::MAX } else { 12 };
    let limits = if choice & 1 == 0 {
        Limits { arguments: 1 << 20, bulk_bytes: 512 << 20, long_bytes }
    } else {
        Limits { arguments: 5, bulk_bytes: 40, long_bytes }
    };
    let expected = reference(bytes, &limits);
    assert_eq!(in_pieces([bytes], &limits), expected, "in one piece");
    assert_eq!(in_pieces(bytes.chunks(1), &limits), expected, "byte by byte");
    let (begin, end) = bytes.split_at((usize::from(*cut) * bytes.len()) >> 8);
    assert_eq!(in_pieces([begin, end], &limits), expected, "in two pieces");
    // Limits for those who have not said who they are: never a panic.
    in_pieces([bytes], &Limits::UNAUTHENTICATED);
});
