//! Thrift's two protocols, over bytes that are all there.
//!
//! ```text
//! binary    80 01 00 kind | name | sequence | fields     lengths and numbers: 4 or 8 bytes, big-endian
//! compact   82 kind·1     | sequence | name | fields     lengths and numbers: varints
//! ```
//! What is read is borrowed from the message. No length is believed: bytes are there before they are lent, and a container
//! has at most as many elements as the message has bytes left. Unknown fields are passed over without recursion.

use crate::memory::{NO_MEMORY, Share};

/// How deep values may be nested in fields that no method has. The methods' own go three deep.
const DEPTH_MAX: usize = 64;

/// What the elements of the lists of one message may take while the call runs, in bytes. An element may have one byte in the message.
pub(crate) const ELEMENTS_LEN_MAX: usize = 512 << 20;

/// A message that cannot be read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// So many bytes are missing at least.
    Missing(usize),
    /// No further bytes mend it: what is wrong.
    Bad(&'static str),
}

type Read<T> = Result<T, Fault>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Binary,
    Compact,
}

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Byte,
    Double,
    I16,
    I32,
    I64,
    Bytes,
    Struct,
    Map,
    Set,
    List,
}

impl Kind {
    fn of_binary(code: u8) -> Read<Kind> {
        Ok(match code {
            2 => Kind::Bool,
            3 => Kind::Byte,
            4 => Kind::Double,
            6 => Kind::I16,
            8 => Kind::I32,
            10 => Kind::I64,
            11 => Kind::Bytes,
            12 => Kind::Struct,
            13 => Kind::Map,
            14 => Kind::Set,
            15 => Kind::List,
            _ => return Err(Fault::Bad("a value is of no type that Thrift has")),
        })
    }

    fn of_compact(code: u8) -> Read<Kind> {
        Ok(match code {
            1 | 2 => Kind::Bool,
            3 => Kind::Byte,
            4 => Kind::I16,
            5 => Kind::I32,
            6 => Kind::I64,
            7 => Kind::Double,
            8 => Kind::Bytes,
            9 => Kind::List,
            10 => Kind::Set,
            11 => Kind::Map,
            12 => Kind::Struct,
            _ => return Err(Fault::Bad("a value is of no type that Thrift has")),
        })
    }

    fn binary(self) -> u8 {
        match self {
            Kind::Bool => 2,
            Kind::Byte => 3,
            Kind::Double => 4,
            Kind::I16 => 6,
            Kind::I32 => 8,
            Kind::I64 => 10,
            Kind::Bytes => 11,
            Kind::Struct => 12,
            Kind::Map => 13,
            Kind::Set => 14,
            Kind::List => 15,
        }
    }

    fn compact(self) -> u8 {
        match self {
            Kind::Bool => 1,
            Kind::Byte => 3,
            Kind::I16 => 4,
            Kind::I32 => 5,
            Kind::I64 => 6,
            Kind::Double => 7,
            Kind::Bytes => 8,
            Kind::List => 9,
            Kind::Set => 10,
            Kind::Map => 11,
            Kind::Struct => 12,
        }
    }
}

/// What a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Call,
    OneWay,
    /// An answer, which no client sends.
    Answer,
    /// An answer that tells of an error which the method does not declare.
    Exception,
}

/// How a message begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) purpose: Purpose,
    pub(crate) sequence: i32,
}

/// A field's number and type; the value follows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub(crate) id: i16,
    pub(crate) kind: Kind,
}

/// Bytes that are read.
pub(crate) struct Source<'a> {
    protocol: Protocol,
    bytes: &'a [u8],
    at: usize,
    /// Compact: a field's boolean is in the byte before the value.
    told: Option<bool>,
    /// What elements of lists may still take, in bytes.
    room: usize,
    /// What counts the memory that they take.
    share: Option<&'a Share<'a>>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(protocol: Protocol, bytes: &'a [u8]) -> Source<'a> {
        Source::resumed(protocol, bytes, 0)
    }

    /// Goes on at a byte where an earlier source has been between two values.
    pub(crate) fn resumed(protocol: Protocol, bytes: &'a [u8], at: usize) -> Source<'a> {
        Source { protocol, bytes, at, told: None, room: ELEMENTS_LEN_MAX, share: None }
    }

    /// With `share` counting the memory that elements of lists take.
    pub(crate) fn counted(self, share: &'a Share<'a>) -> Source<'a> {
        Source { share: Some(share), ..self }
    }

    /// How many bytes were read.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    #[inline]
    fn take(&mut self, len: usize) -> Read<&'a [u8]> {
        let left = self.bytes.get(self.at..).unwrap_or_default();
        let taken = left.get(..len).ok_or(Fault::Missing(len - left.len().min(len)))?;
        self.at += len;
        Ok(taken)
    }

    #[inline]
    fn array<const LEN: usize>(&mut self) -> Read<[u8; LEN]> {
        let bytes = self.take(LEN)?;
        bytes.try_into().map_err(|_| Fault::Missing(LEN))
    }

    #[inline]
    fn byte(&mut self) -> Read<u8> {
        Ok(self.array::<1>()?[0])
    }

    fn varint(&mut self) -> Read<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Fault::Bad("a number has more than 10 bytes"))
    }

    fn zigzag(&mut self) -> Read<i64> {
        let number = self.varint()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// A length or a number of elements.
    #[inline]
    fn count(&mut self) -> Read<usize> {
        let count = match self.protocol {
            Protocol::Binary => i64::from(i32::from_be_bytes(self.array()?)),
            Protocol::Compact => self.varint()? as i64,
        };
        match i32::try_from(count) {
            Ok(count) if count >= 0 => Ok(count as usize),
            _ => Err(Fault::Bad("a length is negative or above 2^31")),
        }
    }

    #[inline]
    pub(crate) fn bytes(&mut self) -> Read<&'a [u8]> {
        let len = self.count()?;
        self.take(len)
    }

    pub(crate) fn bool(&mut self) -> Read<bool> {
        match self.told.take() {
            Some(told) => Ok(told),
            None => Ok(self.byte()? == 1),
        }
    }

    #[inline]
    fn i16(&mut self) -> Read<i16> {
        match self.protocol {
            Protocol::Binary => Ok(i16::from_be_bytes(self.array()?)),
            Protocol::Compact => Ok(self.zigzag()? as i16),
        }
    }

    pub(crate) fn i32(&mut self) -> Read<i32> {
        match self.protocol {
            Protocol::Binary => Ok(i32::from_be_bytes(self.array()?)),
            Protocol::Compact => Ok(self.zigzag()? as i32),
        }
    }

    #[inline]
    pub(crate) fn i64(&mut self) -> Read<i64> {
        match self.protocol {
            Protocol::Binary => Ok(i64::from_be_bytes(self.array()?)),
            Protocol::Compact => self.zigzag(),
        }
    }

    /// The head of a message.
    pub(crate) fn head(&mut self) -> Read<Head<'a>> {
        let purpose = |code: u8| match code {
            1 => Ok(Purpose::Call),
            2 => Ok(Purpose::Answer),
            3 => Ok(Purpose::Exception),
            4 => Ok(Purpose::OneWay),
            _ => Err(Fault::Bad("a message is neither a call nor an answer")),
        };
        match self.protocol {
            Protocol::Binary => {
                let [version, one, _, code] = self.array()?;
                if (version, one) != (0x80, 1) {
                    return Err(Fault::Bad(
                        "a message does not begin with the version of the binary protocol",
                    ));
                }
                let (purpose, name) = (purpose(code)?, self.bytes()?);
                Ok(Head { name, purpose, sequence: self.i32()? })
            }
            Protocol::Compact => {
                let [version, code] = self.array()?;
                if (version, code & 0x1f) != (0x82, 1) {
                    return Err(Fault::Bad(
                        "a message does not begin with the version of the compact protocol",
                    ));
                }
                let (purpose, sequence) = (purpose(code >> 5)?, self.varint()? as i32);
                Ok(Head { name: self.bytes()?, purpose, sequence })
            }
        }
    }

    /// The next field of a structure. `last` is the number of the field before it, 0 at the beginning. `None`: there is none.
    #[inline]
    pub(crate) fn field(&mut self, last: &mut i16) -> Read<Option<Field>> {
        let code = self.byte()?;
        if code == 0 {
            return Ok(None);
        }
        let kind = match self.protocol {
            Protocol::Binary => {
                *last = self.i16()?;
                Kind::of_binary(code)?
            }
            Protocol::Compact => {
                *last = match code >> 4 {
                    0 => self.i16()?,
                    step => last.wrapping_add(i16::from(step)),
                };
                let kind = Kind::of_compact(code & 0x0f)?;
                self.told = (kind == Kind::Bool).then_some(code & 0x0f == 1);
                kind
            }
        };
        Ok(Some(Field { id: *last, kind }))
    }

    /// What a list or set is of, and how many elements it has.
    pub(crate) fn elements(&mut self) -> Read<(Kind, usize)> {
        match self.protocol {
            Protocol::Binary => {
                let kind = Kind::of_binary(self.byte()?)?;
                Ok((kind, self.count()?))
            }
            Protocol::Compact => {
                let code = self.byte()?;
                let kind = Kind::of_compact(code & 0x0f)?;
                let count = if code >> 4 == 15 { self.count()? } else { usize::from(code >> 4) };
                Ok((kind, count))
            }
        }
    }

    /// Fails if fewer bytes are left than `values` values take at least: one each. A reader that knows how long a message may be
    /// does not wait for more values than that.
    fn need(&self, values: usize) -> Read<()> {
        let left = self.bytes.len().saturating_sub(self.at);
        if values > left { Err(Fault::Missing(values - left)) } else { Ok(()) }
    }

    /// As [`Source::elements`], for a list that is kept in memory, of which each element takes about `element_len` bytes while the call
    /// runs.
    pub(crate) fn list(&mut self, element_len: usize) -> Read<(Kind, usize)> {
        let (kind, count) = self.elements()?;
        self.need(count)?;
        let len = count.saturating_mul(element_len);
        let room = self.room.checked_sub(len);
        self.room = room.ok_or(Fault::Bad(
            "the lists of a message take more than 512 MiB of memory: send less in one call",
        ))?;
        if let Some(share) = self.share
            && share.count_call(len).is_err()
        {
            return Err(Fault::Bad(NO_MEMORY));
        }
        Ok((kind, count))
    }

    /// The types of a map's keys and values, and how many pairs it has. An empty one may have no types.
    pub(crate) fn pairs(&mut self) -> Read<(Kind, Kind, usize)> {
        match self.protocol {
            Protocol::Binary => {
                let [key, value] = self.array()?;
                match self.count()? {
                    0 => Ok((Kind::Bytes, Kind::Bytes, 0)),
                    count => Ok((Kind::of_binary(key)?, Kind::of_binary(value)?, count)),
                }
            }
            Protocol::Compact => match self.count()? {
                0 => Ok((Kind::Bytes, Kind::Bytes, 0)),
                count => {
                    let code = self.byte()?;
                    Ok((Kind::of_compact(code >> 4)?, Kind::of_compact(code & 0x0f)?, count))
                }
            },
        }
    }

    /// As [`Source::pairs`], for a map whose pairs are read one after the other.
    pub(crate) fn map(&mut self) -> Read<(Kind, Kind, usize)> {
        let (key, value, count) = self.pairs()?;
        self.need(count * 2)?;
        Ok((key, value, count))
    }

    /// Passes over a value; of one that holds others, over what stands before them.
    fn begin(&mut self, kind: Kind) -> Read<Option<Open>> {
        match kind {
            Kind::Bool => self.bool().map(drop)?,
            Kind::Byte => self.byte().map(drop)?,
            Kind::Double => self.take(8).map(drop)?,
            Kind::I16 => self.i16().map(drop)?,
            Kind::I32 => self.i32().map(drop)?,
            Kind::I64 => self.i64().map(drop)?,
            Kind::Bytes => self.bytes().map(drop)?,
            Kind::Struct => return Ok(Some(Open::Struct)),
            Kind::Set | Kind::List => {
                let (kind, left) = self.elements()?;
                self.need(left)?;
                return Ok(Some(Open::List { kind, left }));
            }
            Kind::Map => {
                let (key, value, count) = self.map()?;
                return Ok(Some(Open::Map { kinds: (key, value), left: count * 2 }));
            }
        }
        Ok(None)
    }

    /// Passes over a value.
    pub(crate) fn skip(&mut self, kind: Kind) -> Read<()> {
        let open = self.begin(kind)?;
        let mut walk = Walk { open: Vec::from_iter(open), at: self.at };
        walk.go_on(self)
    }
}

/// A value that holds others, some of which are still to come.
#[derive(Debug, Clone, Copy)]
enum Open {
    Struct,
    List {
        kind: Kind,
        left: usize,
    },
    /// `left`: keys and values.
    Map {
        kinds: (Kind, Kind),
        left: usize,
    },
}

/// The way through values, which can be gone on when there are more bytes.
#[derive(Debug, Default)]
struct Walk {
    open: Vec<Open>,
    at: usize,
}

impl Walk {
    /// Goes on to the end of the outermost value, or to the last value of which all bytes are there.
    fn go_on(&mut self, source: &mut Source<'_>) -> Read<()> {
        while let Some(top) = self.open.last_mut() {
            let kind = match *top {
                Open::Struct => source.field(&mut 0)?.map(|field| field.kind),
                Open::List { left: 0, .. } | Open::Map { left: 0, .. } => None,
                Open::List { kind, .. } => Some(kind),
                Open::Map { kinds: (key, value), left } => Some(if left % 2 == 0 { key } else { value }),
            };
            let Some(kind) = kind else {
                self.open.pop();
                self.at = source.at;
                continue;
            };
            let inner = source.begin(kind)?;
            if let Open::List { left, .. } | Open::Map { left, .. } = top {
                *left -= 1;
            }
            self.at = source.at;
            if let Some(inner) = inner {
                if self.open.len() == DEPTH_MAX {
                    return Err(Fault::Bad("values are nested deeper than 64 levels"));
                }
                self.open.push(inner);
            }
        }
        Ok(())
    }
}

/// Finds where a message ends that has no length in front, as its bytes arrive. Each byte is looked at once, but for those
/// of a value that is not all there.
#[derive(Debug, Default)]
pub(crate) struct Measure {
    has_head: bool,
    walk: Walk,
}

impl Measure {
    /// The length of the message at the beginning of `bytes`, which are those of the last call and more.
    pub(crate) fn len(&mut self, protocol: Protocol, bytes: &[u8]) -> Read<usize> {
        let mut source = Source::new(protocol, bytes);
        if !self.has_head {
            source.head()?;
            self.has_head = true;
            self.walk = Walk { open: vec![Open::Struct], at: source.at };
        }
        source.at = self.walk.at;
        self.walk.go_on(&mut source)?;
        Ok(self.walk.at)
    }
}

/// Where the number of elements stands that is not known yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Count {
    at: usize,
}

impl Count {
    /// Tells that what was written at `from` is at `to` now.
    pub(crate) fn moved(&mut self, from: usize, to: usize) {
        self.at = self.at - from + to;
    }
}

/// A message that is written.
pub(crate) struct Sink {
    protocol: Protocol,
    /// What is written, from `start` on.
    pub(crate) out: Vec<u8>,
    start: usize,
}

impl Sink {
    pub(crate) fn new(protocol: Protocol, out: Vec<u8>) -> Sink {
        Sink { protocol, out, start: 0 }
    }

    /// A part of a message, in `memory`, behind `room` bytes for what comes before it.
    pub(crate) fn part(protocol: Protocol, mut memory: Vec<u8>, room: usize) -> Sink {
        memory.clear();
        memory.resize(room, 0);
        Sink { protocol, out: memory, start: room }
    }

    /// How many bytes are written.
    pub(crate) fn len(&self) -> usize {
        self.out.len() - self.start
    }

    /// What is written.
    pub(crate) fn message(&mut self) -> &mut [u8] {
        &mut self.out[self.start..]
    }

    /// Goes on with `part`. If that has room for what was written so far, it need not be copied.
    pub(crate) fn put_before(&mut self, mut part: Sink) {
        let written = self.message();
        match part.start.checked_sub(written.len()) {
            Some(start) => {
                part.out[start..part.start].copy_from_slice(written);
                (self.out, self.start) = (part.out, start);
            }
            None => self.out.extend_from_slice(part.message()),
        }
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.out.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.out.push(number as u8);
    }

    fn zigzag(&mut self, number: i64) {
        self.varint((number << 1 ^ number >> 63) as u64);
    }

    /// A length or a number of elements.
    fn count(&mut self, count: usize) {
        match self.protocol {
            Protocol::Binary => self.out.extend_from_slice(&(count as u32).to_be_bytes()),
            Protocol::Compact => self.varint(count as u64),
        }
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.out.extend_from_slice(bytes);
    }

    /// `len` bytes that `write` appends.
    pub(crate) fn bytes_by<E>(
        &mut self,
        len: usize,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.count(len);
        write(&mut self.out)
    }

    /// Bytes of two parts with `between` in between.
    pub(crate) fn joined(&mut self, first: &[u8], between: u8, second: &[u8]) {
        self.count(first.len() + 1 + second.len());
        self.out.extend_from_slice(first);
        self.out.push(between);
        self.out.extend_from_slice(second);
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        self.out.push(byte);
    }

    pub(crate) fn i32(&mut self, number: i32) {
        match self.protocol {
            Protocol::Binary => self.out.extend_from_slice(&number.to_be_bytes()),
            Protocol::Compact => self.zigzag(i64::from(number)),
        }
    }

    pub(crate) fn i64(&mut self, number: i64) {
        match self.protocol {
            Protocol::Binary => self.out.extend_from_slice(&number.to_be_bytes()),
            Protocol::Compact => self.zigzag(number),
        }
    }

    /// A boolean in a container.
    pub(crate) fn element_bool(&mut self, is_true: bool) {
        self.out.push(match (self.protocol, is_true) {
            (_, true) => 1,
            (Protocol::Binary, false) => 0,
            (Protocol::Compact, false) => 2,
        });
    }

    /// The head of an answer; `is_fault` for one that no method declares.
    pub(crate) fn head(&mut self, name: &[u8], sequence: i32, is_fault: bool) {
        self.head_of(if is_fault { 3 } else { 2 }, name, sequence);
    }

    /// The head of a call.
    pub(crate) fn call_head(&mut self, name: &[u8], sequence: i32) {
        self.head_of(1, name, sequence);
    }

    fn head_of(&mut self, code: u8, name: &[u8], sequence: i32) {
        match self.protocol {
            Protocol::Binary => {
                self.out.extend_from_slice(&[0x80, 1, 0, code]);
                self.bytes(name);
                self.i32(sequence);
            }
            Protocol::Compact => {
                self.out.extend_from_slice(&[0x82, code << 5 | 1]);
                self.varint(u64::from(sequence as u32));
                self.bytes(name);
            }
        }
    }

    fn field_of(&mut self, last: i16, id: i16, compact: u8, binary: u8) {
        match (self.protocol, id - last) {
            (Protocol::Binary, _) => {
                self.out.push(binary);
                self.out.extend_from_slice(&id.to_be_bytes());
            }
            (Protocol::Compact, step @ 1..=15) => self.out.push((step as u8) << 4 | compact),
            (Protocol::Compact, _) => {
                self.out.push(compact);
                self.zigzag(i64::from(id));
            }
        }
    }

    /// The beginning of the field `id`. `last` is the number of the field before it, 0 at the beginning of a structure.
    pub(crate) fn field(&mut self, last: i16, id: i16, kind: Kind) {
        self.field_of(last, id, kind.compact(), kind.binary());
    }

    /// A field of a boolean.
    pub(crate) fn field_bool(&mut self, last: i16, id: i16, is_true: bool) {
        self.field_of(last, id, if is_true { 1 } else { 2 }, Kind::Bool.binary());
        if self.protocol == Protocol::Binary {
            self.out.push(u8::from(is_true));
        }
    }

    /// The end of a structure.
    pub(crate) fn stop(&mut self) {
        self.out.push(0);
    }

    /// Room for a count that is set later. In the compact protocol it has all five bytes that a varint may have.
    fn open(&mut self) -> Count {
        let at = self.out.len();
        let room: &[u8] = match self.protocol {
            Protocol::Binary => &[0; 4],
            Protocol::Compact => &[0x80, 0x80, 0x80, 0x80, 0],
        };
        self.out.extend_from_slice(room);
        Count { at }
    }

    /// The beginning of a list of which [`Sink::close`] tells how many elements it has.
    pub(crate) fn list(&mut self, kind: Kind) -> Count {
        match self.protocol {
            Protocol::Binary => self.out.push(kind.binary()),
            Protocol::Compact => self.out.push(0xf0 | kind.compact()),
        }
        self.open()
    }

    /// The beginning of a map of at least one pair, of which [`Sink::close`] tells how many it has.
    pub(crate) fn map(&mut self, key: Kind, value: Kind) -> Count {
        match self.protocol {
            Protocol::Binary => {
                self.out.extend_from_slice(&[key.binary(), value.binary()]);
                self.open()
            }
            Protocol::Compact => {
                let count = self.open();
                self.out.push(key.compact() << 4 | value.compact());
                count
            }
        }
    }

    /// An empty map.
    pub(crate) fn no_pairs(&mut self, key: Kind, value: Kind) {
        match self.protocol {
            Protocol::Binary => self.out.extend_from_slice(&[key.binary(), value.binary(), 0, 0, 0, 0]),
            Protocol::Compact => self.out.push(0),
        }
    }

    /// Sets a count.
    pub(crate) fn close(&mut self, count: Count, elements: u32) {
        let bytes: &mut [u8] = &mut self.out[count.at..];
        match self.protocol {
            Protocol::Binary => {
                for (byte, digit) in bytes.iter_mut().zip(elements.to_be_bytes()) {
                    *byte = digit;
                }
            }
            Protocol::Compact => {
                for (place, byte) in bytes.iter_mut().take(5).enumerate() {
                    let digit = (elements >> (place * 7)) as u8 & 0x7f;
                    *byte = if place < 4 { digit | 0x80 } else { digit };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
