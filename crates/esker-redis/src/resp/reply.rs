//! Replies, as the bytes that a client gets.

use crate::numbers;

/// Replies that gather in a buffer, in the version of the protocol that the client speaks.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Whether the client speaks version 3.
    pub resp3: bool,
}

impl Reply {
    /// No bytes yet.
    pub fn new(resp3: bool) -> Reply {
        Reply { bytes: Vec::new(), resp3 }
    }

    fn line(&mut self, first: u8, rest: &[u8]) {
        self.bytes.push(first);
        self.bytes.extend_from_slice(rest);
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn number(&mut self, first: u8, number: i64) {
        self.bytes.push(first);
        numbers::push_integer(&mut self.bytes, number);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// A word: `OK`.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// `OK`.
    pub fn ok(&mut self) {
        self.bytes.extend_from_slice(b"+OK\r\n");
    }

    /// An error: its code and text. Line ends in it become blanks.
    pub fn error(&mut self, message: &str) {
        self.bytes.push(b'-');
        self.bytes
            .extend(message.bytes().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// An integer.
    pub fn integer(&mut self, number: i64) {
        self.number(b':', number);
    }

    /// A count.
    pub fn count(&mut self, count: u64) {
        self.integer(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// One or zero.
    pub fn flag(&mut self, flag: bool) {
        self.integer(i64::from(flag));
    }

    /// Bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.number(b'$', bytes.len() as i64);
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Bytes, or [`Reply::null`].
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// No value, where one would be bytes.
    pub fn null(&mut self) {
        self.bytes.extend_from_slice(if self.resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// No value, where one would be an array.
    pub fn null_array(&mut self) {
        self.bytes.extend_from_slice(if self.resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// `len` replies follow as an array.
    pub fn array(&mut self, len: usize) {
        self.number(b'*', len as i64);
    }

    /// `len` pairs follow, as an array of twice as many replies in version 2.
    pub fn map(&mut self, len: usize) {
        if self.resp3 { self.number(b'%', len as i64) } else { self.number(b'*', 2 * len as i64) }
    }

    /// `len` replies follow that have no order.
    pub fn set(&mut self, len: usize) {
        self.number(if self.resp3 { b'~' } else { b'*' }, len as i64);
    }

    /// `len` replies follow that are no answer to a request.
    pub fn push(&mut self, len: usize) {
        self.number(if self.resp3 { b'>' } else { b'*' }, len as i64);
    }

    /// A number: bytes in version 2.
    pub fn double(&mut self, number: f64) {
        let text = numbers::double(number);
        if self.resp3 { self.line(b',', text.as_bytes()) } else { self.bulk(text.as_bytes()) }
    }

    /// A truth value: one or zero in version 2.
    pub fn boolean(&mut self, value: bool) {
        if self.resp3 { self.line(b'#', if value { b"t" } else { b"f" }) } else { self.flag(value) }
    }

    /// Text for people: bytes in version 2.
    pub fn verbatim(&mut self, text: &str) {
        if self.resp3 {
            self.number(b'=', text.len() as i64 + 4);
            self.bytes.extend_from_slice(b"txt:");
            self.bytes.extend_from_slice(text.as_bytes());
            self.bytes.extend_from_slice(b"\r\n");
        } else {
            self.bulk(text.as_bytes());
        }
    }
}
