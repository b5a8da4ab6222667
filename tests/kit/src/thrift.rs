//! A client that speaks both protocols, in frames and without. It shares no code with the server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A value of Thrift.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Bool(bool),
    Byte(u8),
    I32(i32),
    I64(i64),
    Bytes(Vec<u8>),
    List(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Struct(Vec<(i16, Value)>),
}

pub fn text(text: &str) -> Value {
    Value::Bytes(text.as_bytes().to_vec())
}

pub fn texts<const COUNT: usize>(texts: [&str; COUNT]) -> Value {
    Value::List(texts.map(text).to_vec())
}

/// How messages are put.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Form {
    pub is_compact: bool,
    pub is_framed: bool,
}

pub const FORMS: [Form; 4] = [
    Form { is_compact: false, is_framed: false },
    Form { is_compact: false, is_framed: true },
    Form { is_compact: true, is_framed: false },
    Form { is_compact: true, is_framed: true },
];

/// An `EskerError` counts as an exception with its kind above this number.
pub const OWN: i16 = 100;

/// What a call has returned: `Ok(None)` for nothing, or the number and message of an exception; 0 for one that the method does
/// not declare.
pub type Reply = Result<Option<Value>, (i16, String)>;

pub struct Client {
    pub stream: TcpStream,
    form: Form,
    frame: Vec<u8>,
    /// The bytes of the last field's boolean, in the compact protocol.
    told: Option<bool>,
}

impl Value {
    fn code(&self, is_compact: bool) -> u8 {
        let (binary, compact) = match self {
            Value::Bool(is_true) => (2, if *is_true { 1 } else { 2 }),
            Value::Byte(_) => (3, 3),
            Value::I32(_) => (8, 5),
            Value::I64(_) => (10, 6),
            Value::Bytes(_) => (11, 8),
            Value::List(_) => (15, 9),
            Value::Map(_) => (13, 11),
            Value::Struct(_) => (12, 12),
        };
        if is_compact { compact } else { binary }
    }
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    loop {
        let digit = (number % 128) as u8;
        number /= 128;
        if number == 0 {
            return out.push(digit);
        }
        out.push(digit + 128);
    }
}

fn count(out: &mut Vec<u8>, count: usize, is_compact: bool) {
    if is_compact { varint(out, count as u64) } else { out.extend((count as u32).to_be_bytes()) }
}

fn number(out: &mut Vec<u8>, number: i64, bytes: &[u8], is_compact: bool) {
    if is_compact { varint(out, ((number << 1) ^ (number >> 63)) as u64) } else { out.extend(bytes) }
}

/// Writes a value as it stands in a container or behind a field's head.
fn encode(out: &mut Vec<u8>, value: &Value, is_compact: bool) {
    match value {
        Value::Bool(is_true) => {
            out.push(if is_compact { 2 - u8::from(*is_true) } else { u8::from(*is_true) });
        }
        Value::Byte(byte) => out.push(*byte),
        Value::I32(integer) => number(out, i64::from(*integer), &integer.to_be_bytes(), is_compact),
        Value::I64(integer) => number(out, *integer, &integer.to_be_bytes(), is_compact),
        Value::Bytes(bytes) => {
            count(out, bytes.len(), is_compact);
            out.extend(bytes);
        }
        Value::List(elements) => {
            let code = elements.first().map_or(12, |first| first.code(is_compact));
            if is_compact && elements.len() < 15 {
                out.push((elements.len() as u8) << 4 | code);
            } else {
                out.push(if is_compact { 0xf0 | code } else { code });
                count(out, elements.len(), is_compact);
            }
            elements.iter().for_each(|element| encode(out, element, is_compact));
        }
        Value::Map(pairs) => {
            let codes =
                pairs.first().map_or((11, 11), |(key, value)| (key.code(is_compact), value.code(is_compact)));
            if is_compact {
                count(out, pairs.len(), true);
                if !pairs.is_empty() {
                    out.push(codes.0 << 4 | codes.1);
                }
            } else {
                out.extend([codes.0, codes.1]);
                count(out, pairs.len(), false);
            }
            for (key, value) in pairs {
                encode(out, key, is_compact);
                encode(out, value, is_compact);
            }
        }
        Value::Struct(fields) => {
            let mut last = 0;
            for (id, value) in fields {
                let code = value.code(is_compact);
                match (is_compact, id - last) {
                    (true, step @ 1..=15) => out.push((step as u8) << 4 | code),
                    (true, _) => {
                        out.push(code);
                        number(out, i64::from(*id), &[], true);
                    }
                    (false, _) => {
                        out.push(code);
                        out.extend(id.to_be_bytes());
                    }
                }
                last = *id;
                if !is_compact || !matches!(value, Value::Bool(_)) {
                    encode(out, value, is_compact);
                }
            }
            out.push(0);
        }
    }
}

/// A call as it goes over the wire.
pub fn message(form: Form, name: &str, sequence: i32, arguments: &[(i16, Value)]) -> Vec<u8> {
    let mut body = Vec::new();
    if form.is_compact {
        body.extend([0x82, 0x21]);
        varint(&mut body, sequence as u32 as u64);
        count(&mut body, name.len(), true);
        body.extend(name.as_bytes());
    } else {
        body.extend([0x80, 1, 0, 1]);
        count(&mut body, name.len(), false);
        body.extend(name.as_bytes());
        body.extend(sequence.to_be_bytes());
    }
    encode(&mut body, &Value::Struct(arguments.to_vec()), form.is_compact);
    if !form.is_framed {
        return body;
    }
    let mut framed = (body.len() as u32).to_be_bytes().to_vec();
    framed.extend(body);
    framed
}

impl Client {
    pub fn new(address: SocketAddr, form: Form) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, form, frame: Vec::new(), told: None }
    }

    pub fn call(&mut self, name: &str, arguments: &[(i16, Value)]) -> Reply {
        self.stream.write_all(&message(self.form, name, 77_777, arguments)).unwrap();
        self.reply(name, 77_777)
    }

    /// Reads the reply of the call of `name`.
    pub fn reply(&mut self, name: &str, sequence: i32) -> Reply {
        assert!(self.frame.is_empty(), "a frame had more than a message");
        if self.form.is_framed {
            let mut len = [0; 4];
            self.stream.read_exact(&mut len).unwrap();
            self.frame.resize(u32::from_be_bytes(len) as usize, 0);
            self.stream.read_exact(&mut self.frame).unwrap();
            self.frame.reverse();
        }
        let is_fault = if self.form.is_compact {
            let head = self.array::<2>();
            assert_eq!((head[0], head[1] & 0x1f), (0x82, 1));
            assert_eq!(self.varint() as i32, sequence);
            assert_eq!(self.value(8), text(name));
            head[1] >> 5 == 3
        } else {
            let head = self.array::<4>();
            assert_eq!(&head[..3], [0x80, 1, 0]);
            assert_eq!(self.value(11), text(name));
            assert_eq!(i32::from_be_bytes(self.array()), sequence);
            head[3] == 3
        };
        let Value::Struct(mut fields) = self.value(12) else { unreachable!() };
        let message = |fields: &[(i16, Value)]| match fields.first() {
            Some((1, Value::Bytes(message))) => String::from_utf8(message.clone()).unwrap(),
            other => panic!("an exception begins with its message, not with {other:?}"),
        };
        if is_fault {
            return Err((0, message(&fields)));
        }
        match fields.pop() {
            None => Ok(None),
            Some((0, value)) => Ok(Some(value)),
            Some((1, Value::Struct(fields))) if matches!(fields.get(1), Some((2, Value::I32(_)))) => {
                let Some((2, Value::I32(kind))) = fields.get(1) else { unreachable!() };
                Err((OWN + i16::try_from(*kind).unwrap(), message(&fields)))
            }
            Some((id, Value::Struct(fields))) => Err((id, message(&fields))),
            Some(other) => panic!("a result of {other:?}"),
        }
    }

    fn array<const LEN: usize>(&mut self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        if self.form.is_framed {
            bytes.fill_with(|| self.frame.pop().unwrap());
        } else {
            self.stream.read_exact(&mut bytes).unwrap();
        }
        bytes
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        if self.form.is_framed {
            let mut bytes = self.frame.split_off(self.frame.len().checked_sub(len).unwrap());
            bytes.reverse();
            bytes
        } else {
            let mut bytes = vec![0; len];
            self.stream.read_exact(&mut bytes).unwrap();
            bytes
        }
    }

    fn varint(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let [byte] = self.array();
            number |= u64::from(byte % 128) << shift;
            if byte < 128 {
                return number;
            }
            shift += 7;
        }
    }

    fn zigzag(&mut self) -> i64 {
        let number = self.varint();
        (number / 2) as i64 ^ -((number % 2) as i64)
    }

    fn count(&mut self) -> usize {
        if self.form.is_compact { self.varint() as usize } else { u32::from_be_bytes(self.array()) as usize }
    }

    fn value(&mut self, code: u8) -> Value {
        let is_compact = self.form.is_compact;
        match (is_compact, code) {
            (false, 2) => Value::Bool(self.array() == [1]),
            (true, 1 | 2) => Value::Bool(match self.told.take() {
                Some(told) => told,
                None => self.array() == [1],
            }),
            (_, 3) => Value::Byte(self.array::<1>()[0]),
            (false, 8) => Value::I32(i32::from_be_bytes(self.array())),
            (true, 5) => Value::I32(self.zigzag() as i32),
            (false, 10) => Value::I64(i64::from_be_bytes(self.array())),
            (true, 6) => Value::I64(self.zigzag()),
            (false, 11) | (true, 8) => {
                let len = self.count();
                Value::Bytes(self.bytes(len))
            }
            (false, 15) | (true, 9) => {
                let [head] = self.array();
                let (code, count) = match (is_compact, head >> 4) {
                    (false, _) => (head, self.count()),
                    (true, 15) => (head & 15, self.count()),
                    (true, few) => (head & 15, usize::from(few)),
                };
                Value::List((0..count).map(|_| self.value(code)).collect())
            }
            (false, 13) => {
                let [key, value] = self.array();
                let count = self.count();
                Value::Map((0..count).map(|_| (self.value(key), self.value(value))).collect())
            }
            (true, 11) => {
                let count = self.count();
                let [codes] = if count == 0 { [0] } else { self.array() };
                Value::Map((0..count).map(|_| (self.value(codes >> 4), self.value(codes & 15))).collect())
            }
            (_, 12) => {
                let (mut fields, mut id) = (Vec::new(), 0_i16);
                loop {
                    let [head] = self.array();
                    if head == 0 {
                        return Value::Struct(fields);
                    }
                    let code = if is_compact { head & 15 } else { head };
                    id = match (is_compact, head >> 4) {
                        (false, _) => i16::from_be_bytes(self.array()),
                        (true, 0) => self.zigzag() as i16,
                        (true, step) => id + i16::from(step),
                    };
                    self.told = (is_compact && code <= 2).then_some(code == 1);
                    fields.push((id, self.value(code)));
                }
            }
            other => panic!("a value of type {other:?}"),
        }
    }
}
