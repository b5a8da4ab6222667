//! Replies, as the bytes that a client gets.

use std::ops::Range;
use std::sync::Arc;

use crate::fault::ReadError;
use crate::numbers;
use crate::session::Huge;

/// A part of a huge value, whose bytes a reply lacks: whoever sends the reply reads them then.
#[derive(Debug, Clone)]
pub struct Part {
    /// The value.
    pub value: Arc<dyn Huge>,
    /// Which of its bytes.
    pub range: Range<u64>,
}

/// Replies that gather in a buffer, in the version of the protocol that the client speaks.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    /// The bytes, without those of the parts.
    pub bytes: Vec<u8>,
    /// Parts of huge values, each with its place in `bytes`, in order.
    parts: Vec<(usize, Part)>,
    /// Whether the client speaks version 3.
    pub resp3: bool,
}

impl Reply {
    /// No bytes yet.
    pub fn new(resp3: bool) -> Reply {
        Reply { resp3, ..Reply::default() }
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether parts of huge values belong to it.
    pub fn has_parts(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Takes out everything, to be sent.
    pub fn take(&mut self) -> Reply {
        std::mem::replace(self, Reply::new(self.resp3))
    }

    /// Takes back what was said from the place `begin` of `bytes` on.
    pub fn truncate(&mut self, begin: usize) {
        self.bytes.truncate(begin);
        while self.parts.pop_if(|(place, _)| *place > begin).is_some() {}
    }

    /// Adds what `other` says.
    pub fn append(&mut self, other: Reply) {
        let begin = self.bytes.len();
        self.parts.extend(other.parts.into_iter().map(|(place, part)| (begin + place, part)));
        if self.bytes.is_empty() {
            self.bytes = other.bytes;
        } else {
            self.bytes.extend_from_slice(&other.bytes);
        }
    }

    /// Says `message` as an error instead of what is said at each of `places`, which are in order.
    pub fn replace_with_error(&mut self, places: &[Range<usize>], message: &str) {
        let said = self.take();
        let mut parts = said.parts.into_iter().peekable();
        let mut kept = 0;
        for place in places.iter().chain([&(said.bytes.len()..said.bytes.len())]) {
            let begin = self.bytes.len();
            self.bytes.extend_from_slice(&said.bytes[kept..place.start]);
            while let Some((at, part)) = parts.next_if(|(at, _)| *at <= place.start) {
                self.parts.push((begin + at - kept, part));
            }
            while parts.next_if(|(at, _)| *at <= place.end).is_some() {}
            kept = place.end;
            // None that the client does not want.
            if !place.is_empty() {
                self.error(message);
            }
        }
    }

    /// What is to be sent, in order: bytes, and the part behind them if there is one.
    pub fn pieces(&self) -> impl Iterator<Item = (&[u8], Option<&Part>)> {
        let ends = self.parts.iter().map(|(place, part)| (*place, Some(part)));
        let mut begin = 0;
        ends.chain([(self.bytes.len(), None)]).map(move |(end, part)| {
            let bytes = &self.bytes[begin..end];
            begin = end;
            (bytes, part)
        })
    }

    /// All bytes, also those of the parts.
    ///
    /// # Errors
    /// [`ReadError`] when a huge value cannot be read.
    pub fn into_whole(self) -> Result<Vec<u8>, ReadError> {
        let mut whole = Vec::new();
        for (bytes, part) in self.pieces() {
            whole.extend_from_slice(bytes);
            if let Some(Part { value, range }) = part {
                let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
                whole.append(&mut value.read_at(range.start, len)?);
            }
        }
        Ok(whole)
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

    /// A part of a huge value, whose bytes are not read now.
    pub fn bulk_part(&mut self, part: Part) {
        self.number(b'$', i64::try_from(part.range.end - part.range.start).unwrap_or(i64::MAX));
        self.parts.push((self.bytes.len(), part));
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

#[cfg(test)]
mod tests {
    use std::any::Any;

    use super::*;

    /// A value whose byte at each place is the place.
    struct Places;

    impl Huge for Places {
        fn len(&self) -> u64 {
            256
        }

        fn read_at(&self, offset: u64, len: usize) -> Result<Vec<u8>, ReadError> {
            Ok((offset..offset + len as u64).map(|place| place as u8).collect())
        }

        fn is_ready(&self) -> bool {
            true
        }

        fn as_any(&self) -> &dyn Any {
            self
        }
    }

    fn part(range: Range<u64>) -> Part {
        Part { value: Arc::new(Places), range }
    }

    fn whole(reply: Reply) -> String {
        String::from_utf8(reply.into_whole().unwrap()).unwrap().replace("\r\n", "|")
    }

    #[test]
    fn parts_stay_in_their_places() {
        let mut reply = Reply::new(false);
        reply.ok();
        reply.bulk_part(part(65..68));
        let begin = reply.bytes.len();
        reply.bulk_part(part(97..99));
        assert_eq!(whole(reply.clone()), "+OK|$3|ABC|$2|ab|");
        let mut other = reply.clone();
        other.truncate(begin);
        assert_eq!(whole(other.clone()), "+OK|$3|ABC|");
        other.append(reply.clone());
        other.append(Reply::new(false));
        assert_eq!(whole(other.clone()), "+OK|$3|ABC|+OK|$3|ABC|$2|ab|");
        other.truncate(0);
        assert!(other.is_empty() && !other.has_parts());
        assert_eq!(whole(reply.take()), "+OK|$3|ABC|$2|ab|");
        assert!(reply.is_empty() && !reply.has_parts());
    }

    #[test]
    fn errors_take_the_place_of_replies() {
        // Which of the replies become errors, and whether one of them was taken back before.
        for (replaced, expected) in [
            (&[][..], "+OK|$3|ABC|:1|$2|ab|"),
            (&[0], "-no|$3|ABC|:1|$2|ab|"),
            (&[1], "+OK|-no|:1|$2|ab|"),
            (&[1, 3], "+OK|-no|:1|-no|"),
            (&[0, 2], "-no|$3|ABC|-no|$2|ab|"),
            (&[0, 1, 2, 3], "-no|-no|-no|-no|"),
            (&[4, 3], "+OK|$3|ABC|:1|-no|"),
        ] {
            let mut reply = Reply::new(false);
            let mut places = Vec::new();
            let mut said = |reply: &mut Reply, say: &dyn Fn(&mut Reply)| {
                let begin = reply.bytes.len();
                say(reply);
                places.push(begin..reply.bytes.len());
            };
            said(&mut reply, &Reply::ok);
            said(&mut reply, &|reply| reply.bulk_part(part(65..68)));
            said(&mut reply, &|reply| reply.integer(1));
            said(&mut reply, &|reply| reply.bulk_part(part(97..99)));
            // A reply that the client did not want is empty.
            places.push(places[3].start..places[3].start);
            let replaced: Vec<Range<usize>> = replaced.iter().map(|at: &usize| places[*at].clone()).collect();
            reply.replace_with_error(&replaced, "no");
            assert_eq!(whole(reply), expected);
        }
    }
}
