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
use smallvec::SmallVec;

use crate::commands::takes_long;
use crate::numbers::integer;

/// The longest line: an inline command, or a length.
const LINE_MAX: usize = 64 << 10;

/// The most bytes of a command, and of one of its arguments, that are in memory.
const COMMAND_BYTES_MAX: usize = 1 << 30;
const BULK_BYTES_MAX: u64 = 512 << 20;

/// Where the arguments of a command are. Those of most commands take no memory of their own.
type Spans = SmallVec<[Range<usize>; 6]>;

/// The arguments of a command.
pub type Arguments<'a> = SmallVec<[&'a [u8]; 8]>;

/// What a client may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most arguments of a command.
    pub arguments: usize,
    /// The most bytes of an argument.
    pub bulk_bytes: u64,
    /// A value of at least so many bytes that a command only stores is *long*: the caller takes its bytes as they come.
    pub long_bytes: u64,
}

impl Limits {
    /// Before a client has said who it is: as Redis 7.0 has it.
    pub const UNAUTHENTICATED: Limits = Limits { arguments: 10, bulk_bytes: 16384, long_bytes: u64::MAX };
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
    /// The places of the arguments that were long, in order. They have no bytes.
    pub long: Vec<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Words {
    /// Where the arguments are in the buffer.
    Spans(Spans),
    /// The arguments: words without their quotes.
    Own(Vec<Vec<u8>>),
}

impl Request {
    /// Its arguments, in the buffer that it was found in.
    pub fn arguments<'a>(&'a self, buffer: &'a [u8]) -> Arguments<'a> {
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
    /// The length of the argument that begins at `at`, if it is long and the caller has not taken it.
    waits_for: Option<u64>,
    spans: Spans,
    long: Vec<usize>,
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

    /// The length of the long argument that begins, if one does. Its bytes are the next ones, and the caller's.
    pub fn long(&self) -> Option<u64> {
        self.waits_for
    }

    /// The caller takes the bytes of the long argument: those that are in the buffer, from this place on, and those that
    /// come. What lies behind them then follows this place.
    pub fn take_long(&mut self) -> usize {
        if self.waits_for.take().is_some() {
            self.long.push(self.spans.len());
            self.bulk = Some(0);
        }
        self.at
    }

    /// The arguments before the one that begins, in the buffer.
    pub fn begun<'a>(&self, buffer: &'a [u8]) -> Vec<&'a [u8]> {
        self.spans.iter().filter_map(|span| buffer.get(span.clone())).collect()
    }

    /// How many bytes the buffer should have room for, as far as that is known: all of the argument that has begun.
    pub fn wanted(&self) -> usize {
        self.bulk.map_or(0, |len| self.at + len + 2)
    }

    /// The number behind `sign` at `at` and where the next line begins, if the line is as nearly all are: there, and
    /// with up to 8 digits. All others are for [`Parser::line`].
    #[inline]
    fn plain_number(&self, buffer: &[u8], sign: u8) -> Option<(usize, usize)> {
        let (first, rest) = buffer[self.at..].split_first()?;
        let mut number = 0;
        for (len, byte) in rest.iter().take(9).enumerate() {
            match byte {
                b'0'..=b'9' if len == 0 || number > 0 => number = number * 10 + usize::from(byte - b'0'),
                b'\r' if len > 0 && *first == sign && rest.get(len + 1) == Some(&b'\n') => {
                    return Some((number, self.at + len + 3));
                }
                _ => return None,
            }
        }
        None
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
                let (count, next) = match self.plain_number(buffer, b'*') {
                    Some((count, next)) => (count as i64, next),
                    None => {
                        let Some((line, next)) = self.line(buffer, "mbulk count string")? else {
                            return Ok(None);
                        };
                        let count = integer(&line[1..]).filter(|count| *count <= i64::from(i32::MAX));
                        let Some(count) = count else { return refused("invalid multibulk length") };
                        (count, next)
                    }
                };
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
        if self.waits_for.is_some() {
            return Ok(None);
        }
        while left > 0 {
            let len = match self.bulk {
                Some(len) => len,
                None => {
                    let (len, next) = match self.plain_number(buffer, b'$') {
                        Some((len, next)) => (Some(len as u64), next),
                        None => {
                            let Some((line, next)) = self.line(buffer, "bulk count string")? else {
                                return Ok(None);
                            };
                            let Some((b'$', digits)) = line.split_first() else {
                                let first = line.first().map_or(' ', |byte| char::from(*byte));
                                return refused(format!("expected '$', got '{first}'"));
                            };
                            (integer(digits).and_then(|len| u64::try_from(len).ok()), next)
                        }
                    };
                    let invalid = if *limits == Limits::UNAUTHENTICATED && len.is_some() {
                        "unauthenticated bulk length"
                    } else {
                        "invalid bulk length"
                    };
                    let Some(len) = len.filter(|len| *len <= limits.bulk_bytes) else {
                        return refused(invalid);
                    };
                    if len >= limits.long_bytes && self.may_be_long(buffer) {
                        self.at = next;
                        self.waits_for = Some(len);
                        return Ok(None);
                    }
                    if len > BULK_BYTES_MAX {
                        return refused(invalid);
                    }
                    self.at = next;
                    // At most BULK_BYTES_MAX.
                    self.bulk = Some(len as usize);
                    len as usize
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
        let (spans, long) = (std::mem::take(&mut self.spans), std::mem::take(&mut self.long));
        Ok(Some(Request { len: self.at, words: Words::Spans(spans), long }))
    }

    /// Whether the argument that begins may be long.
    fn may_be_long(&self, buffer: &[u8]) -> bool {
        let name = self.spans.first().and_then(|name| buffer.get(name.clone()));
        name.is_some_and(|name| takes_long(name, self.spans.len()))
    }

    fn inline(&mut self, buffer: &[u8]) -> Result<Option<Request>, ProtocolError> {
        let Some((line, next)) = self.line(buffer, "inline request")? else { return Ok(None) };
        let Some(words) = words(line) else { return refused("unbalanced quotes in request") };
        Ok(Some(Request { len: next, words: Words::Own(words), long: Vec::new() }))
    }
}

/// The words of a line, as `redis-cli` would split it: blanks part them, double quotes know escapes, single ones only
/// `\'`, and a zero byte ends the line. `None` if a quote does not end, or something follows its end.
pub fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = memchr(0, line).map_or(line, |end| &line[..end]);
    loop {
        let blanks = rest.iter().take_while(|byte| is_blank(**byte)).count();
        rest = &rest[blanks..];
        let Some(first) = rest.first() else { return Some(words) };
        let mut word = Vec::new();
        match first {
            b'"' => rest = double_quoted(&rest[1..], &mut word)?,
            b'\'' => rest = single_quoted(&rest[1..], &mut word)?,
            _ => loop {
                match rest.split_first() {
                    None => break,
                    Some((byte, _)) if is_blank(*byte) => break,
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
        words.push(word);
    }
}

/// Whether C calls the byte a blank.
fn is_blank(byte: u8) -> bool {
    byte == b' ' || (b'\t'..=b'\r').contains(&byte)
}

/// Whether a word may end before `rest`.
fn ends(rest: &[u8]) -> bool {
    rest.first().is_none_or(|byte| is_blank(*byte))
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

    const LIMITS: Limits = Limits { arguments: 1 << 20, bulk_bytes: 512 << 20, long_bytes: u64::MAX };

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
        let bytes = b"*2\r\n$3\r\nGET\r\n$4\r\nk\r\ny\r\nPING\r\n*0\r\n\r\n*1\r\n$0\r\n\r\n*1\r\n$10\r\n0123456789\r\nset \"a b\" 'c'\n";
        let expected: Vec<Vec<&[u8]>> = vec![
            vec![b"GET", b"k\r\ny"],
            vec![b"PING"],
            vec![],
            vec![],
            vec![b""],
            vec![b"0123456789"],
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
        for no_number in ["01", "00", "", "+1", "1x", "123456789x", "\r1"] {
            let (count, len) = (format!("*{no_number}\r\n"), format!("*1\r\n${no_number}\r\na\r\n"));
            assert_eq!(error(count.as_bytes()), "Protocol error: invalid multibulk length", "{count:?}");
            assert_eq!(error(len.as_bytes()), "Protocol error: invalid bulk length", "{len:?}");
        }
        // Whatever number of digits a length has.
        for len in [1, 9, 10, 99, 100, 12_345_678, 99_999_999, 100_000_000, 999_999_999, 1_000_000_000_000] {
            let limits = Limits { bulk_bytes: u64::MAX, long_bytes: 1, ..LIMITS };
            let mut parser = Parser::default();
            let begun = format!("*3\r\n$3\r\nset\r\n$1\r\nk\r\n${len}\r\n");
            assert_eq!(parser.next(begun.as_bytes(), &limits), Ok(None));
            assert_eq!((parser.long(), parser.take_long()), (Some(len), begun.len()));
        }
        // A line may end without a carriage return.
        assert_eq!(all(b"*1\n$000\n").unwrap_err().0, "Protocol error: invalid bulk length");
        assert_eq!(all(b"*1\n$1\na\r\n").unwrap(), [[b"a"]]);
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
    fn long_arguments_are_the_callers() {
        let limits = Limits { bulk_bytes: 1 << 40, long_bytes: 100, ..LIMITS };
        let (mut parser, mut buffer) = (Parser::default(), Vec::new());
        let (mut found, mut taken) = (Vec::new(), Vec::new());
        // The long argument is pieced out of what comes, wherever that is cut.
        let long = [b'x'; 120];
        let values = [&long[..], b"short", &long];
        let mut bytes = b"*7\r\n$4\r\nMSET\r\n".to_vec();
        for value in values {
            bytes.extend_from_slice(format!("$1\r\nk\r\n${}\r\n", value.len()).as_bytes());
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"PING\r\n");
        let mut left = 0;
        for byte in bytes {
            if left > 0 {
                left -= 1;
                taken.push(byte);
                continue;
            }
            buffer.push(byte);
            while let Some(request) = parser.next(&buffer, &limits).unwrap() {
                let arguments =
                    request.arguments(&buffer).into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>();
                found.push((arguments, request.long.clone()));
                buffer.drain(..request.len);
            }
            if let Some(len) = parser.long() {
                assert_eq!((len, parser.next(&buffer, &limits)), (120, Ok(None)), "it waits for the caller");
                assert_eq!(parser.take_long(), buffer.len());
                left = len;
            }
        }
        let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
        let mset = words(&["MSET", "k", "", "k", "short", "k", ""]);
        assert_eq!(found, [(mset, vec![2, 6]), (words(&["PING"]), vec![])]);
        assert_eq!(taken, [b'x'; 240]);
        // A key, or what a command has to look at, is not long; then it must not be too long for memory.
        for (begin, may_be) in [
            ("*3\r\n$3\r\nSET", false),
            ("*3\r\n$3\r\nset\r\n$1\r\nk", true),
            ("*3\r\n$6\r\nAPPEND\r\n$1\r\nk", false),
        ] {
            let mut parser = Parser::default();
            let found = parser.next(format!("{begin}\r\n$600000000\r\n").as_bytes(), &limits);
            assert_eq!((found.is_ok(), parser.long().is_some()), (may_be, may_be), "{begin}");
        }
    }

    #[test]
    fn words_know_quotes_and_escapes() {
        let one = |line: &str| words(line.as_bytes()).map(|words| words.concat());
        assert_eq!(one(r#""\x41\n\"""#).unwrap(), b"A\n\"");
        assert_eq!(one(r"'it\'s \n'").unwrap(), b"it's \\n");
        assert_eq!((one("\"a\"b"), one("'a"), one("\"\\")), (None, None, None));
        assert_eq!(one("  "), Some(Vec::new()));
        let count = |line: &str| words(line.as_bytes()).map(|words| words.len());
        // As C sees a line: a vertical tab is a blank, and a zero byte the end.
        assert_eq!(
            (count("a\u{b}b"), count("a \0"), count("\0"), count("\"a\"\0b")),
            (Some(2), Some(1), Some(0), Some(1))
        );
        assert_eq!(count("\"a\0\""), None);
    }
}
