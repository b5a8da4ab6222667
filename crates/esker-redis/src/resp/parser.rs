//! Reads requests out of a connection's bytes.
//!
//! ```text
//! *2\r\n $3\r\nGET\r\n $1\r\nk\r\n      an array of bulk strings
//! GET k\r\n                             an inline command: words, which may be quoted
//! ```
//! The parser remembers how far it got, so bytes that come in pieces are looked at once. It holds no bytes itself, and
//! takes no memory for what a client only claims to send.

use std::ops::Range;

use memchr::memchr;

use crate::numbers::integer;

/// The longest line: an inline command, or a length.
const LINE_MAX: usize = 64 << 10;

/// The most bytes of a command.
const COMMAND_BYTES_MAX: usize = 1 << 30;

/// What a client may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most arguments of a command.
    pub arguments: usize,
    /// The most bytes of an argument.
    pub bulk_bytes: usize,
}

impl Limits {
    /// Before a client has said who it is: as Redis 7.0 has it.
    pub const UNAUTHENTICATED: Limits = Limits { arguments: 10, bulk_bytes: 16384 };
}

/// What the client did not keep to; what it is told. The connection ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolError(pub String);

fn refused<T>(what: impl Into<String>) -> Result<T, ProtocolError> {
    Err(ProtocolError(format!("Protocol error: {}", what.into())))
}

/// A request whose bytes are all there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// How many bytes it has, from the beginning of the buffer on.
    pub len: usize,
    words: Words,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Words {
    /// Where the arguments are in the buffer.
    Spans(Vec<Range<usize>>),
    /// The arguments: words without their quotes.
    Own(Vec<Vec<u8>>),
}

impl Request {
    /// Its arguments, in the buffer that it was found in.
    pub fn arguments<'a>(&'a self, buffer: &'a [u8]) -> Vec<&'a [u8]> {
        match &self.words {
            Words::Spans(spans) => spans.iter().map(|span| &buffer[span.clone()]).collect(),
            Words::Own(words) => words.iter().map(Vec::as_slice).collect(),
        }
    }
}

/// How far the request at the beginning of a buffer has been read.
#[derive(Debug, Default)]
pub struct Parser {
    /// Up to here, the bytes were looked at.
    at: usize,
    /// Arguments of the array that are still to come; `None`: it has not begun.
    left: Option<usize>,
    /// The length of the argument at `at`, if it was read.
    bulk: Option<usize>,
    spans: Vec<Range<usize>>,
}

impl Parser {
    /// The request at the beginning of `buffer`, if all of it is there. The buffer must have grown at its end only since
    /// the last call, and lose the request's bytes before the next one.
    ///
    /// # Errors
    /// [`ProtocolError`] when this is no request, or is beyond `limits`.
    pub fn next(&mut self, buffer: &[u8], limits: &Limits) -> Result<Option<Request>, ProtocolError> {
        let Some(first) = buffer.first() else { return Ok(None) };
        let found = if *first == b'*' { self.array(buffer, limits) } else { self.inline(buffer) }?;
        if found.is_some() {
            *self = Parser::default();
        }
        Ok(found)
    }

    /// How many bytes the buffer should have room for, as far as that is known: all of the argument that has begun.
    pub fn wanted(&self) -> usize {
        self.bulk.map_or(0, |len| self.at + len + 2)
    }

    /// The line that begins at `at`, without its end, and where the next one begins.
    fn line<'a>(&self, buffer: &'a [u8], what: &str) -> Result<Option<(&'a [u8], usize)>, ProtocolError> {
        let rest = &buffer[self.at..];
        match memchr(b'\n', &rest[..rest.len().min(LINE_MAX)]) {
            Some(end) => {
                let line = &rest[..end];
                Ok(Some((line.strip_suffix(b"\r").unwrap_or(line), self.at + end + 1)))
            }
            None if rest.len() >= LINE_MAX => refused(format!("too big {what}")),
            None => Ok(None),
        }
    }

    fn array(&mut self, buffer: &[u8], limits: &Limits) -> Result<Option<Request>, ProtocolError> {
        let mut left = match self.left {
            Some(left) => left,
            None => {
                let Some((line, next)) = self.line(buffer, "mbulk count string")? else { return Ok(None) };
                let count = integer(&line[1..]).filter(|count| *count <= i64::from(i32::MAX));
                let Some(count) = count else { return refused("invalid multibulk length") };
                if count > 0 && count as usize > limits.arguments {
                    return refused(if *limits == Limits::UNAUTHENTICATED {
                        "unauthenticated multibulk length"
                    } else {
                        "invalid multibulk length"
                    });
                }
                self.at = next;
                count.max(0) as usize
            }
        };
        self.left = Some(left);
        while left > 0 {
            let len = match self.bulk {
                Some(len) => len,
                None => {
                    let Some((line, next)) = self.line(buffer, "bulk count string")? else { return Ok(None) };
                    let Some((b'$', digits)) = line.split_first() else {
                        let first = line.first().map_or(' ', |byte| char::from(*byte));
                        return refused(format!("expected '$', got '{first}'"));
                    };
                    let len = integer(digits).filter(|len| *len >= 0).map(|len| len as usize);
                    let Some(len) = len.filter(|len| *len <= limits.bulk_bytes) else {
                        return refused(if *limits == Limits::UNAUTHENTICATED && len.is_some() {
                            "unauthenticated bulk length"
                        } else {
                            "invalid bulk length"
                        });
                    };
                    self.at = next;
                    self.bulk = Some(len);
                    len
                }
            };
            if self.at + len > COMMAND_BYTES_MAX {
                return refused("too big command");
            }
            // Redis does not look at the two bytes behind an argument.
            if buffer.len() - self.at < len + 2 {
                return Ok(None);
            }
            self.spans.push(self.at..self.at + len);
            self.at += len + 2;
            self.bulk = None;
            left -= 1;
            self.left = Some(left);
        }
        let spans = std::mem::take(&mut self.spans);
        Ok(Some(Request { len: self.at, words: Words::Spans(spans) }))
    }

    fn inline(&mut self, buffer: &[u8]) -> Result<Option<Request>, ProtocolError> {
        let Some((line, next)) = self.line(buffer, "inline request")? else { return Ok(None) };
        let Some(words) = words(line) else { return refused("unbalanced quotes in request") };
        Ok(Some(Request { len: next, words: Words::Own(words) }))
    }
}

/// The words of a line, as `redis-cli` would split it: blanks part them, double quotes know escapes, single ones only
/// `\'`. `None` if a quote does not end, or something follows its end.
pub fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        let Some(first) = rest.first() else { return Some(words) };
        let mut word = Vec::new();
        match first {
            b'"' => rest = double_quoted(&rest[1..], &mut word)?,
            b'\'' => rest = single_quoted(&rest[1..], &mut word)?,
            _ => loop {
                match rest.split_first() {
                    None => break,
                    Some((byte, _)) if byte.is_ascii_whitespace() || *byte == 0 => break,
                    Some((b'"', behind)) => {
                        rest = double_quoted(behind, &mut word)?;
                        break;
                    }
                    Some((b'\'', behind)) => {
                        rest = single_quoted(behind, &mut word)?;
                        break;
                    }
                    Some((byte, behind)) => {
                        word.push(*byte);
                        rest = behind;
                    }
                }
            },
        }
        if rest.first() == Some(&0) {
            rest = &[];
        }
        words.push(word);
    }
}

/// Whether a word may end before `rest`.
fn ends(rest: &[u8]) -> bool {
    rest.first().is_none_or(u8::is_ascii_whitespace)
}

fn double_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [b'\\', b'x', high, low, behind @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
                word.push(digit(*high) << 4 | digit(*low));
                behind
            }
            [b'\\', escaped, behind @ ..] => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                behind
            }
            [b'"', behind @ ..] => return ends(behind).then_some(behind),
            [byte, behind @ ..] => {
                word.push(*byte);
                behind
            }
            [] => return None,
        };
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [b'\\', b'\'', behind @ ..] => {
                word.push(b'\'');
                behind
            }
            [b'\'', behind @ ..] => return ends(behind).then_some(behind),
            [byte, behind @ ..] => {
                word.push(*byte);
                behind
            }
            [] => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { arguments: 1 << 20, bulk_bytes: 512 << 20 };

    fn all(mut bytes: &[u8]) -> Result<Vec<Vec<Vec<u8>>>, ProtocolError> {
        let (mut parser, mut found) = (Parser::default(), Vec::new());
        while let Some(request) = parser.next(bytes, &LIMITS)? {
            found.push(request.arguments(bytes).into_iter().map(<[u8]>::to_vec).collect());
            bytes = &bytes[request.len..];
        }
        Ok(found)
    }

    fn error(bytes: &[u8]) -> String {
        all(bytes).unwrap_err().0
    }

    #[test]
    fn requests_are_found_wherever_their_bytes_are_cut() {
        let bytes = b"*2\r\n$3\r\nGET\r\n$4\r\nk\r\ny\r\nPING\r\n*0\r\n\r\n*1\r\n$0\r\n\r\nset \"a b\" 'c'\n";
        let expected: Vec<Vec<&[u8]>> = vec![
            vec![b"GET", b"k\r\ny"],
            vec![b"PING"],
            vec![],
            vec![],
            vec![b""],
            vec![b"set", b"a b", b"c"],
        ];
        assert_eq!(all(bytes).unwrap(), expected);
        // Byte by byte.
        let (mut parser, mut buffer, mut found) = (Parser::default(), Vec::new(), Vec::new());
        for byte in bytes {
            buffer.push(*byte);
            while let Some(request) = parser.next(&buffer, &LIMITS).unwrap() {
                found.push(request.arguments(&buffer).into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>());
                buffer.drain(..request.len);
            }
        }
        assert_eq!(found, expected);
        assert!(buffer.is_empty());
    }

    #[test]
    fn what_is_no_request_is_told_as_redis_tells_it() {
        assert_eq!(error(b"*x\r\n"), "Protocol error: invalid multibulk length");
        assert_eq!(error(b"*3000000000\r\n"), "Protocol error: invalid multibulk length");
        assert_eq!(error(b"*1\r\nGET\r\n"), "Protocol error: expected '$', got 'G'");
        assert_eq!(error(b"*1\r\n$-1\r\n"), "Protocol error: invalid bulk length");
        assert_eq!(error(b"*1\r\n$2000000000\r\n"), "Protocol error: invalid bulk length");
        assert_eq!(error(b"get \"a\r\n"), "Protocol error: unbalanced quotes in request");
        assert_eq!(error(&[b'a'; LINE_MAX]), "Protocol error: too big inline request");
        assert_eq!(
            error(&[&b"*"[..], &[b'1'; LINE_MAX]].concat()),
            "Protocol error: too big mbulk count string"
        );
        let unauthenticated =
            |bytes: &[u8]| Parser::default().next(bytes, &Limits::UNAUTHENTICATED).unwrap_err().0;
        assert_eq!(unauthenticated(b"*11\r\n"), "Protocol error: unauthenticated multibulk length");
        assert_eq!(unauthenticated(b"*1\r\n$16385\r\n"), "Protocol error: unauthenticated bulk length");
    }

    #[test]
    fn words_know_quotes_and_escapes() {
        let one = |line: &str| words(line.as_bytes()).map(|words| words.concat());
        assert_eq!(one(r#""\x41\n\"""#).unwrap(), b"A\n\"");
        assert_eq!(one(r"'it\'s \n'").unwrap(), b"it's \\n");
        assert_eq!((one("\"a\"b"), one("'a"), one("\"\\")), (None, None, None));
        assert_eq!(one("  "), Some(Vec::new()));
    }
}
