//! Rows of a reply, read as its bytes arrive: a cell is shown once it is there.
//!
//! A value that is not all there is read again when more has come. If that goes on, the rest of the reply is awaited first: so what
//! a server sends, and in whatever pieces, takes time with its length only.

use std::ops::Range;

use esker_table::DeleteKind;

use super::error::{CallResult, no_result};
use super::reply::{answer, cell};
use crate::idl::own::DELETE_KINDS;
use crate::wire::{Fault, Kind, Measure, Protocol, Purpose, Source};

/// A cell of a reply that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellRef<'a> {
    /// The key of its row.
    pub row: &'a [u8],
    /// `family:qualifier`.
    pub column: &'a [u8],
    /// In milliseconds since 1970.
    pub timestamp: i64,
    /// Its bytes.
    pub value: &'a [u8],
    /// What kind of delete it is; `None`: it is a cell. Only [`crate::Client::open_own_scanner`] asks for deletes.
    pub delete: Option<DeleteKind>,
}

/// A reply that is a list of `TRowResult`, as far as it was read.
pub(super) struct Rows {
    /// The call that it answers.
    call: &'static str,
    sequence: i32,
    /// What was read of the reply, in bytes.
    at: usize,
    state: State,
    /// How many rows have begun.
    begun: usize,
    /// How many the list has.
    count: usize,
    /// How many rows and cells there may still be: a caller that keeps them takes more memory for each than the reply has bytes.
    room: usize,
    /// How often more has come, and the next value was not all there yet.
    tries: u32,
    /// Finds the end of the reply, once there were too many of these.
    whole: Option<Measure>,
}

/// How many rows and cells a reply has at most.
const ELEMENTS_MAX: usize = 1 << 20;

/// How often a value is read again.
const TRIES_MAX: u32 = 16;

enum State {
    Head,
    BetweenRows,
    /// In a row, before a field. `last`: the number of the one before it.
    Row {
        key: Range<usize>,
        last: i16,
    },
    /// In a row's field `last` of cells, before a cell.
    Cells {
        key: Range<usize>,
        last: i16,
        left: usize,
    },
    /// The reply is something else, of which only the length is to be known.
    Other(Measure),
}

/// The fields of a `TRowResult`.
const KEY: i16 = 1;
const MAP: i16 = 2;
const LIST: i16 = 3;

impl Rows {
    pub(super) fn new(call: &'static str, sequence: i32) -> Rows {
        Rows {
            call,
            sequence,
            at: 0,
            state: State::Head,
            begun: 0,
            count: 0,
            room: ELEMENTS_MAX,
            tries: 0,
            whole: None,
        }
    }

    /// How many rows there are, once the whole `reply` is read.
    pub(super) fn count(&self, reply: &[u8]) -> CallResult<usize> {
        let State::Other(_) = self.state else { return Ok(self.count) };
        let read = |_: &mut Source<'_>| Err(Fault::Bad("the result is no list of rows"));
        answer(reply, self.call, self.sequence, read)?.ok_or_else(|| no_result(self.call))
    }

    /// Reads on. `bytes` are those of the last call and more. Shows `each` cell with the number of its row, and returns the
    /// length of the reply.
    pub(super) fn go_on(
        &mut self,
        bytes: &[u8],
        each: &mut impl FnMut(usize, CellRef<'_>),
    ) -> Result<usize, Fault> {
        if let Some(whole) = &mut self.whole {
            whole.len(Protocol::Binary, bytes)?;
        }
        let before = self.at;
        let read = self.read(bytes, each);
        self.tries = if self.at == before { self.tries + 1 } else { 0 };
        if self.tries > TRIES_MAX && self.whole.is_none() {
            self.whole = Some(Measure::default());
        }
        read
    }

    fn read(&mut self, bytes: &[u8], each: &mut impl FnMut(usize, CellRef<'_>)) -> Result<usize, Fault> {
        let mut source = Source::resumed(Protocol::Binary, bytes, self.at);
        loop {
            let next = match &mut self.state {
                State::Head => self.head(&mut source)?,
                State::BetweenRows if self.begun < self.count => {
                    self.begun += 1;
                    State::Row { key: 0..0, last: 0 }
                }
                State::BetweenRows => match source.field(&mut 0)? {
                    None => return Ok(source.at()),
                    Some(field) => {
                        source.skip(field.kind)?;
                        State::BetweenRows
                    }
                },
                State::Row { key, last } => {
                    let next = row_field(&mut source, key.clone(), *last)?;
                    if let State::Cells { left, .. } = next {
                        self.take_room(left)?;
                    }
                    next
                }
                State::Cells { key, last, left: 0 } => State::Row { key: key.clone(), last: *last },
                State::Cells { key, last, left } => {
                    let (column, (timestamp, value), delete) = match *last {
                        MAP => (source.bytes()?, cell(&mut source)?, None),
                        _ => column(&mut source)?,
                    };
                    let row = bytes.get(key.clone()).unwrap_or_default();
                    each(self.begun - 1, CellRef { row, column, timestamp, value, delete });
                    *left -= 1;
                    self.at = source.at();
                    continue;
                }
                State::Other(measure) => return measure.len(Protocol::Binary, bytes),
            };
            self.state = next;
            self.at = source.at();
        }
    }

    fn take_room(&mut self, elements: usize) -> Result<(), Fault> {
        let room = self.room.checked_sub(elements);
        self.room = room.ok_or(Fault::Bad("a reply has more than 1,048,576 rows and cells"))?;
        Ok(())
    }

    fn head(&mut self, source: &mut Source<'_>) -> Result<State, Fault> {
        let head = source.head()?;
        if head.purpose == Purpose::Answer
            && head.name == self.call.as_bytes()
            && head.sequence == self.sequence
            && let Some(field) = source.field(&mut 0)?
            && (field.id, field.kind) == (0, Kind::List)
        {
            self.count = structures(source)?;
            self.take_room(self.count)?;
            return Ok(State::BetweenRows);
        }
        Ok(State::Other(Measure::default()))
    }
}

/// Reads a field of a row, or the beginning of one that has cells.
fn row_field(source: &mut Source<'_>, mut key: Range<usize>, mut last: i16) -> Result<State, Fault> {
    let Some(field) = source.field(&mut last)? else { return Ok(State::BetweenRows) };
    let left = match (field.id, field.kind) {
        (MAP, Kind::Map) => {
            let (column, cell, count) = source.pairs()?;
            if count > 0 && (column, cell) != (Kind::Bytes, Kind::Struct) {
                return Err(Fault::Bad("a row has cells of another type"));
            }
            count
        }
        (LIST, Kind::List) => structures(source)?,
        (KEY, Kind::Bytes) => {
            let len = source.bytes()?.len();
            key = source.at() - len..source.at();
            return Ok(State::Row { key, last });
        }
        (_, kind) => {
            source.skip(kind)?;
            return Ok(State::Row { key, last });
        }
    };
    if left > 0 && key.is_empty() {
        return Err(Fault::Bad("a row has cells in front of its key, or none"));
    }
    Ok(State::Cells { key, last, left })
}

/// The beginning of a list of structures: how many there are.
fn structures(source: &mut Source<'_>) -> Result<usize, Fault> {
    match source.elements()? {
        (Kind::Struct, count) | (_, count @ 0) => Ok(count),
        _ => Err(Fault::Bad("a list of rows or cells has something else")),
    }
}

/// A `TColumn` or `EskerCell`: its name, the timestamp and the value, and what kind of delete it is.
type NamedCell<'a> = (&'a [u8], (i64, &'a [u8]), Option<DeleteKind>);

fn column<'a>(source: &mut Source<'a>) -> Result<NamedCell<'a>, Fault> {
    let (mut column, mut found, mut delete, mut last): (&[u8], (i64, &[u8]), _, i16) =
        (&[], (0, &[]), None, 0);
    while let Some(field) = source.field(&mut last)? {
        match (field.id, field.kind) {
            (1, Kind::Bytes) => column = source.bytes()?,
            (2, Kind::Struct) => found = cell(source)?,
            (3, Kind::I32) => {
                let number = source.i32()?;
                let known = DELETE_KINDS.iter().find(|(known, _)| *known == number);
                delete = Some(known.ok_or(Fault::Bad("a delete is of no known kind"))?.1);
            }
            (_, kind) => source.skip(kind)?,
        }
    }
    Ok((column, found, delete))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Sink;

    #[test]
    fn a_long_value_that_nobody_knows_is_not_read_again_and_again() {
        let mut sink = Sink::new(Protocol::Binary, Vec::new());
        sink.head(b"scannerGetList", 1, false);
        sink.field(0, 0, Kind::List);
        let list = sink.list(Kind::Struct);
        sink.field(0, 1, Kind::Bytes);
        sink.bytes(b"r");
        sink.field(1, 9, Kind::List);
        let numbers = sink.list(Kind::Byte);
        sink.out.extend(vec![7; 100_000]);
        sink.close(numbers, 100_000);
        sink.field(9, 3, Kind::List);
        let cells = sink.list(Kind::Struct);
        sink.field(0, 1, Kind::Bytes);
        sink.bytes(b"f:q");
        sink.stop();
        sink.close(cells, 1);
        sink.stop();
        sink.close(list, 1);
        sink.stop();
        let (mut rows, mut shown) = (Rows::new("scannerGetList", 1), 0);
        let mut count = |_: usize, cell: CellRef<'_>| {
            assert_eq!((cell.row, cell.column), (&b"r"[..], &b"f:q"[..]));
            shown += 1;
        };
        for len in (1..sink.out.len()).step_by(100) {
            assert!(matches!(rows.go_on(&sink.out[..len], &mut count), Err(Fault::Missing(_))));
        }
        assert!(rows.whole.is_some());
        assert_eq!(rows.go_on(&sink.out, &mut count), Ok(sink.out.len()));
        assert_eq!((rows.count(&sink.out).unwrap(), shown), (1, 1));
    }
}
