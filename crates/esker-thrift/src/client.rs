//! A client of HBase's first Thrift interface: of an Esker server, or of the gateway of an HBase cluster. Of an Esker server's [own]
//! methods too.
//!
//! It speaks the binary protocol without frames, as both understand. A reply takes memory as its bytes arrive, up to
//! [`REPLY_LEN_MAX`]. A connection on which something else than the awaited reply arrives is of no use any more.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use esker_table::DeleteKind;

pub use crate::fail::Thrown;
use crate::memory::ELEMENT_LEN;
use crate::wire::{Fault, Kind, Measure, Protocol, Sink, Source};

mod error;
mod link;
mod own;
mod reply;
mod rows;

use error::no_result;
pub use error::{CallError, CallResult};
use link::Link;
pub use own::{Asked, Condition, Mutation, OwnScan, RowMutations};
pub use reply::REPLY_LEN_MAX;
use reply::{answer, cell};
pub use rows::CellRef;
use rows::Rows;

/// How long a connection may take to be made, for each address of the host.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// After a silence of this length, the kernel asks whether the server still exists.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// A column family, as the interface describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FamilyDescription {
    /// Its name, without a colon.
    pub name: Vec<u8>,
    /// How many versions it keeps.
    pub max_versions: i32,
    /// How many seconds its cells live; `i32::MAX`, or below 1: for ever.
    pub ttl_s: i32,
}

/// A put, or a delete of a column or a family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// `family:qualifier`; for a delete also `family`.
    pub column: Vec<u8>,
    /// The value that is put; `None`: a delete.
    pub value: Option<Vec<u8>>,
}

/// Changes of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowChanges {
    /// Its key.
    pub row: Vec<u8>,
    /// The changes.
    pub changes: Vec<Change>,
}

/// What a scanner reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScanRequest {
    /// The first row.
    pub start: Vec<u8>,
    /// The row at which it ends, without it; empty: the end of the table. If it is also the first row, [`Client::open_scanner`] reads
    /// this row, and [`Client::open_own_scanner`] nothing.
    pub stop: Vec<u8>,
    /// Timestamps below this one.
    pub timestamp: Option<i64>,
    /// `family` or `family:qualifier`; none: all.
    pub columns: Vec<Vec<u8>>,
    /// A filter in HBase's filter language.
    pub filter: Option<Vec<u8>>,
    /// More cells of a row than these are another result; 0: rows are whole.
    pub cells_max: i32,
    /// From the last row to the first: `start` is above `stop`.
    pub is_reversed: bool,
}

/// A cell of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowCell {
    /// `family:qualifier`.
    pub column: Vec<u8>,
    /// In milliseconds since 1970.
    pub timestamp: i64,
    /// Its bytes.
    pub value: Vec<u8>,
    /// What kind of delete it is; `None`: it is a cell.
    pub delete: Option<DeleteKind>,
}

/// A row, or a part of one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowCells {
    /// Its key.
    pub row: Vec<u8>,
    /// Its cells, in the order in which the server has sent them.
    pub cells: Vec<RowCell>,
}

/// A call that is under way.
struct Sent {
    name: &'static str,
    sequence: i32,
}

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    link: Link,
    /// When the last reply came, or the connection was made.
    replied: Instant,
}

#[allow(clippy::redundant_closure_for_method_calls, reason = "a method of `Source` is of one lifetime only")]
impl Client {
    /// Connects to `host`.
    ///
    /// # Errors
    /// When no address of the host accepts the connection.
    pub fn connect(host: &str, port: u16) -> io::Result<Client> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_TIME) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
                    rustix::net::sockopt::set_tcp_keepidle(&stream, KEEPALIVE)?;
                    return Ok(Client { link: Link::new(stream), replied: Instant::now() });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// How long a call waits for the server to take or to send some bytes; `None`, the default: for ever. Calls that work
    /// through a whole table wait for ever anyway: merges, index rebuilds and changes of schemas. A call that ends so leaves the
    /// connection of no use.
    ///
    /// # Errors
    /// When the time is zero, or the connection is closed.
    pub fn set_patience(&mut self, patience: Option<Duration>) -> io::Result<()> {
        self.link.set_patience(patience)
    }

    /// Waits until the last reply, or the beginning of the connection, was `time` ago. The server executes the next call that much later
    /// than the last one.
    pub fn wait_since_reply(&self, time: Duration) {
        while let left = time.saturating_sub(self.replied.elapsed())
            && !left.is_zero()
        {
            // It may return earlier.
            std::thread::park_timeout(left);
        }
    }

    /// Whether an earlier call has left the connection of no use.
    pub fn is_broken(&self) -> bool {
        self.link.is_broken()
    }

    /// The names of all tables.
    ///
    /// # Errors
    /// As all methods: the connection's, or what the server throws.
    pub fn table_names(&mut self) -> CallResult<Vec<Vec<u8>>> {
        self.ask("getTableNames", |_| {}, |source| list(source, |source| source.bytes().map(<[u8]>::to_vec)))
    }

    /// The column families of a table, sorted by name.
    pub fn families(&mut self, table: &[u8]) -> CallResult<Vec<FamilyDescription>> {
        let mut families: Vec<FamilyDescription> = self.ask(
            "getColumnDescriptors",
            |sink| bytes(sink, 0, 1, table),
            |source| {
                let (key, value, count) = source.pairs()?;
                if count > 0 && (key, value) != (Kind::Bytes, Kind::Struct) {
                    return Err(Fault::Bad("a map has pairs of other types than the method's"));
                }
                (0..count)
                    .map(|_| {
                        source.bytes()?;
                        family(source)
                    })
                    .collect()
            },
        )?;
        families.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(families)
    }

    /// Makes a table.
    pub fn create_table(&mut self, table: &[u8], families: &[FamilyDescription]) -> CallResult<()> {
        self.tell("createTable", |sink| {
            bytes(sink, 0, 1, table);
            sink.field(1, 2, Kind::List);
            let count = sink.list(Kind::Struct);
            for family in families {
                bytes(sink, 0, 1, &family.name);
                sink.field(1, 2, Kind::I32);
                sink.i32(family.max_versions);
                sink.field(2, 9, Kind::I32);
                sink.i32(family.ttl_s);
                sink.stop();
            }
            sink.close(count, families.len() as u32);
        })
    }

    /// Lets a table be read and written again.
    pub fn enable_table(&mut self, table: &[u8]) -> CallResult<()> {
        self.tell("enableTable", |sink| bytes(sink, 0, 1, table))
    }

    /// Lets a table be neither read nor written.
    pub fn disable_table(&mut self, table: &[u8]) -> CallResult<()> {
        self.tell("disableTable", |sink| bytes(sink, 0, 1, table))
    }

    /// Whether a table may be read and written.
    pub fn is_table_enabled(&mut self, table: &[u8]) -> CallResult<bool> {
        self.ask("isTableEnabled", |sink| bytes(sink, 0, 1, table), |source| source.bool())
    }

    /// Removes a table, which is disabled.
    pub fn delete_table(&mut self, table: &[u8]) -> CallResult<()> {
        self.tell("deleteTable", |sink| bytes(sink, 0, 1, table))
    }

    /// Asks for a merge of all files of a table.
    pub fn major_compact(&mut self, table: &[u8]) -> CallResult<()> {
        self.tell("majorCompact", |sink| bytes(sink, 0, 1, table))
    }

    /// Changes rows, with this timestamp or the time of the write: of each row, the puts first.
    pub fn mutate_rows(
        &mut self,
        table: &[u8],
        rows: &[RowChanges],
        timestamp: Option<i64>,
    ) -> CallResult<()> {
        let sent = self.send_mutate_rows(table, rows, timestamp)?;
        self.receive(sent, |_| Ok(())).map(drop)
    }

    /// Calls [`Client::mutate_rows`] for each timestamp and its rows, also by `others`, all at a time: for servers that take long for
    /// a call. The server may receive the calls in any order. What a connection of `others` has not done when it fails, this
    /// client does, so some calls may be made twice; the cells are the same.
    ///
    /// # Errors
    /// That of the first call that fails by this client, or that the server refuses. All calls that were made have ended then, but
    /// for those of connections that have failed. Others may be done or not.
    pub fn mutate_rows_of_each(
        &mut self,
        others: &mut [Client],
        table: &[u8],
        calls: &[(i64, Vec<RowChanges>)],
    ) -> CallResult<()> {
        let (mut again, mut refusal) = (Vec::new(), Ok(()));
        type UnderWay<'c> = Option<(Sent, &'c (i64, Vec<RowChanges>))>;
        let mut clients: Vec<(&mut Client, UnderWay<'_>)> =
            others.iter_mut().map(|client| (client, None)).collect();
        let mut calls = calls.iter();
        while refusal.is_ok() {
            let Some((timestamp, rows)) = calls.next() else { break };
            let own = self.send_mutate_rows(table, rows, Some(*timestamp))?;
            for (client, under_way) in clients.iter_mut().filter(|(client, _)| !client.is_broken()) {
                let Some(call) = calls.next() else { break };
                match client.send_mutate_rows(table, &call.1, Some(call.0)) {
                    Ok(sent) => *under_way = Some((sent, call)),
                    Err(_) => again.push(call),
                }
            }
            let mut ended = vec![self.receive(own, |_| Ok(())).map(drop)];
            for (client, under_way) in &mut clients {
                let Some((sent, call)) = under_way.take() else { continue };
                match client.receive(sent, |_| Ok(())) {
                    Err(CallError::Thrown { kind, message }) => {
                        ended.push(Err(CallError::Thrown { kind, message }));
                    }
                    Err(_) => again.push(call),
                    Ok(_) => {}
                }
            }
            refusal = ended.into_iter().collect();
        }
        refusal?;
        again.into_iter().try_for_each(|(timestamp, rows)| self.mutate_rows(table, rows, Some(*timestamp)))
    }

    fn send_mutate_rows(
        &mut self,
        table: &[u8],
        rows: &[RowChanges],
        timestamp: Option<i64>,
    ) -> CallResult<Sent> {
        let name = if timestamp.is_some() { "mutateRowsTs" } else { "mutateRows" };
        self.send(name, |sink| {
            bytes(sink, 0, 1, table);
            sink.field(1, 2, Kind::List);
            let count = sink.list(Kind::Struct);
            for RowChanges { row, changes } in rows {
                bytes(sink, 0, 1, row);
                sink.field(1, 2, Kind::List);
                mutations(sink, changes);
                sink.stop();
            }
            sink.close(count, rows.len() as u32);
            if let Some(timestamp) = timestamp {
                sink.field(2, 3, Kind::I64);
                sink.i64(timestamp);
            }
        })
    }

    /// Changes a row, at the time of the write: the deletes first.
    pub fn mutate_row(&mut self, table: &[u8], changes: &RowChanges) -> CallResult<()> {
        self.tell("mutateRow", |sink| {
            bytes(sink, 0, 1, table);
            bytes(sink, 1, 2, &changes.row);
            sink.field(2, 3, Kind::List);
            mutations(sink, &changes.changes);
        })
    }

    /// Deletes a row up to a timestamp, or up to now.
    pub fn delete_row(&mut self, table: &[u8], row: &[u8], timestamp: Option<i64>) -> CallResult<()> {
        let name = if timestamp.is_some() { "deleteAllRowTs" } else { "deleteAllRow" };
        self.tell(name, |sink| {
            bytes(sink, 0, 1, table);
            bytes(sink, 1, 2, row);
            if let Some(timestamp) = timestamp {
                sink.field(2, 3, Kind::I64);
                sink.i64(timestamp);
            }
        })
    }

    /// Adds to a number. Returns the sum.
    pub fn increment(&mut self, table: &[u8], row: &[u8], column: &[u8], by: i64) -> CallResult<i64> {
        let write = |sink: &mut Sink| {
            bytes(sink, 0, 1, table);
            bytes(sink, 1, 2, row);
            bytes(sink, 2, 3, column);
            sink.field(3, 4, Kind::I64);
            sink.i64(by);
        };
        self.ask("atomicIncrement", write, |source| source.i64())
    }

    /// Appends to a value. Returns the whole value, if the server sends it.
    pub fn append(
        &mut self,
        table: &[u8],
        row: &[u8],
        column: &[u8],
        value: &[u8],
    ) -> CallResult<Option<Vec<u8>>> {
        let write = |sink: &mut Sink| {
            sink.field(0, 1, Kind::Struct);
            bytes(sink, 0, 1, table);
            bytes(sink, 1, 2, row);
            for (last, given) in [(2, column), (3, value)] {
                sink.field(last, last + 1, Kind::List);
                let count = sink.list(Kind::Bytes);
                sink.bytes(given);
                sink.close(count, 1);
            }
            sink.stop();
        };
        let read =
            |source: &mut Source<'_>| list(source, |source| cell(source).map(|(_, value)| value.to_vec()));
        Ok(self.ask("append", write, read)?.into_iter().next())
    }

    /// Puts `value` if the latest cell of `column` has the bytes `expected`, or if there is none. Returns whether it did.
    pub fn check_and_put(
        &mut self,
        table: &[u8],
        row: &[u8],
        column: &[u8],
        expected: Option<&[u8]>,
        put: &Change,
    ) -> CallResult<bool> {
        let write = |sink: &mut Sink| {
            bytes(sink, 0, 1, table);
            bytes(sink, 1, 2, row);
            bytes(sink, 2, 3, column);
            let last = match expected {
                Some(expected) => {
                    bytes(sink, 3, 5, expected);
                    5
                }
                None => 3,
            };
            sink.field(last, 6, Kind::Struct);
            sink.field_bool(0, 1, false);
            bytes(sink, 1, 2, &put.column);
            bytes(sink, 2, 3, put.value.as_deref().unwrap_or_default());
            sink.stop();
        };
        self.ask("checkAndPut", write, |source| source.bool())
    }

    /// Shows `each` cell of the latest versions of `columns` of a row.
    pub fn read_row(
        &mut self,
        table: &[u8],
        row: &[u8],
        columns: &[&[u8]],
        mut each: impl FnMut(CellRef<'_>),
    ) -> CallResult<()> {
        let write = |sink: &mut Sink| {
            bytes(sink, 0, 1, table);
            bytes(sink, 1, 2, row);
            sink.field(2, 3, Kind::List);
            let count = sink.list(Kind::Bytes);
            columns.iter().for_each(|column| sink.bytes(column));
            sink.close(count, columns.len() as u32);
        };
        self.read_rows("getRowWithColumns", write, |_, cell| each(cell)).map(drop)
    }

    /// Opens a scanner. Returns its number.
    pub fn open_scanner(&mut self, table: &[u8], scan: &ScanRequest) -> CallResult<i32> {
        let write = |sink: &mut Sink| {
            bytes(sink, 0, 1, table);
            sink.field(1, 2, Kind::Struct);
            bytes(sink, 0, 1, &scan.start);
            let mut last = 1;
            if !scan.stop.is_empty() {
                bytes(sink, last, 2, &scan.stop);
                last = 2;
            }
            if let Some(timestamp) = scan.timestamp {
                sink.field(last, 3, Kind::I64);
                sink.i64(timestamp);
                last = 3;
            }
            if !scan.columns.is_empty() {
                sink.field(last, 4, Kind::List);
                let count = sink.list(Kind::Bytes);
                scan.columns.iter().for_each(|column| sink.bytes(column));
                sink.close(count, scan.columns.len() as u32);
                last = 4;
            }
            if let Some(filter) = &scan.filter {
                bytes(sink, last, 6, filter);
                last = 6;
            }
            if scan.cells_max > 0 {
                sink.field(last, 7, Kind::I32);
                sink.i32(scan.cells_max);
                last = 7;
            }
            // The cells of a row in their order.
            sink.field_bool(last, 8, true);
            sink.field_bool(8, 9, scan.is_reversed);
            sink.stop();
        };
        self.ask("scannerOpenWithScan", write, |source| source.i32())
    }

    /// The next rows of a scanner, `rows` at most. None: it is at its end.
    pub fn next_rows(&mut self, scanner: i32, rows: i32) -> CallResult<Vec<RowCells>> {
        let mut results: Vec<RowCells> = Vec::new();
        let count = self.read_rows("scannerGetList", get_list(scanner, rows), |number, cell| {
            results.resize_with(results.len().max(number + 1), RowCells::default);
            if let Some(result) = results.get_mut(number) {
                if result.cells.is_empty() {
                    cell.row.clone_into(&mut result.row);
                }
                let (column, value) = (cell.column.to_vec(), cell.value.to_vec());
                let CellRef { timestamp, delete, .. } = cell;
                result.cells.push(RowCell { column, timestamp, value, delete });
            }
        })?;
        results.resize_with(count, RowCells::default);
        Ok(results)
    }

    /// As [`Client::next_rows`], with each cell shown to `each` as it arrives instead of copied. Returns how many rows there
    /// were. Cells may have been shown before an error.
    pub fn read_next_rows(
        &mut self,
        scanner: i32,
        rows: i32,
        mut each: impl FnMut(CellRef<'_>),
    ) -> CallResult<usize> {
        self.read_rows("scannerGetList", get_list(scanner, rows), |_, cell| each(cell))
    }

    /// Closes a scanner.
    pub fn close_scanner(&mut self, scanner: i32) -> CallResult<()> {
        self.tell("scannerClose", |sink| {
            sink.field(0, 1, Kind::I32);
            sink.i32(scanner);
        })
    }

    /// A call that returns nothing.
    fn tell(&mut self, name: &'static str, write: impl FnOnce(&mut Sink)) -> CallResult<()> {
        self.call(name, write, |_| Ok(())).map(drop)
    }

    /// A call that returns something.
    fn ask<T>(
        &mut self,
        name: &'static str,
        write: impl FnOnce(&mut Sink),
        read: impl FnMut(&mut Source<'_>) -> Result<T, Fault>,
    ) -> CallResult<T> {
        self.call(name, write, read)?.ok_or_else(|| no_result(name))
    }

    fn call<T>(
        &mut self,
        name: &'static str,
        write: impl FnOnce(&mut Sink),
        read: impl FnMut(&mut Source<'_>) -> Result<T, Fault>,
    ) -> CallResult<Option<T>> {
        let sent = self.send(name, write)?;
        self.receive(sent, read)
    }

    fn send(&mut self, name: &'static str, write: impl FnOnce(&mut Sink)) -> CallResult<Sent> {
        Ok(Sent { name, sequence: self.link.send(name, write)? })
    }

    /// Waits for the reply to the call that is under way.
    fn receive<T>(
        &mut self,
        Sent { name, sequence }: Sent,
        read: impl FnMut(&mut Source<'_>) -> Result<T, Fault>,
    ) -> CallResult<Option<T>> {
        let mut measure = Measure::default();
        let len = self.link.receive(|bytes| measure.len(Protocol::Binary, bytes))?;
        self.replied = Instant::now();
        let answer = answer(self.link.reply(len), name, sequence, read);
        self.link.pass(answer, len)
    }

    /// A call that returns rows: shows `each` cell with the number of its row, and returns how many rows there are.
    fn read_rows(
        &mut self,
        name: &'static str,
        write: impl FnOnce(&mut Sink),
        mut each: impl FnMut(usize, CellRef<'_>),
    ) -> CallResult<usize> {
        let mut rows = Rows::new(name, self.link.send(name, write)?);
        let len = self.link.receive(|bytes| rows.go_on(bytes, &mut each))?;
        let count = rows.count(self.link.reply(len));
        self.link.pass(count, len)
    }
}

/// Writes a field of bytes.
fn bytes(sink: &mut Sink, last: i16, id: i16, bytes: &[u8]) {
    sink.field(last, id, Kind::Bytes);
    sink.bytes(bytes);
}

fn list<T>(
    source: &mut Source<'_>,
    mut read: impl FnMut(&mut Source<'_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let (_, count) = source.list(ELEMENT_LEN)?;
    (0..count).map(|_| read(source)).collect()
}

fn family(source: &mut Source<'_>) -> Result<FamilyDescription, Fault> {
    let mut family = FamilyDescription { name: Vec::new(), max_versions: 3, ttl_s: i32::MAX };
    let mut last = 0;
    while let Some(field) = source.field(&mut last)? {
        match (field.id, field.kind) {
            (1, Kind::Bytes) => {
                let name = source.bytes()?;
                name.strip_suffix(b":").unwrap_or(name).clone_into(&mut family.name);
            }
            (2, Kind::I32) => family.max_versions = source.i32()?,
            (9, Kind::I32) => family.ttl_s = source.i32()?,
            (_, kind) => source.skip(kind)?,
        }
    }
    Ok(family)
}

/// Writes the arguments of `scannerGetList`.
fn get_list(scanner: i32, rows: i32) -> impl FnOnce(&mut Sink) {
    move |sink| {
        sink.field(0, 1, Kind::I32);
        sink.i32(scanner);
        sink.field(1, 2, Kind::I32);
        sink.i32(rows);
    }
}

/// Writes a list of `Mutation`.
fn mutations(sink: &mut Sink, changes: &[Change]) {
    let count = sink.list(Kind::Struct);
    for Change { column, value } in changes {
        sink.field_bool(0, 1, value.is_none());
        bytes(sink, 1, 2, column);
        if let Some(value) = value {
            bytes(sink, 2, 3, value);
        }
        sink.stop();
    }
    sink.close(count, changes.len() as u32);
}
