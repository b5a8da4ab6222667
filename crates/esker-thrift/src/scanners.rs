//! The scanners of a connection. A scanner holds a moment of the whole store, so their number is limited, and one that was not
//! asked for a time is gone.
//!
//! A client asks a scanner again and again, and reads what it got in between. Meanwhile the connection writes the rows that
//! come next, so that the client need not wait for them ([`Scanners::read_ahead`]).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use esker_table::Table;

use crate::fail::{Fail, Outcome};
use crate::memory::ReplyLimits;
use crate::rows::Rows;
use crate::wire::{Count, Kind, Protocol, Sink};

/// Reading ahead ends behind the row with which it has so many bytes.
const AHEAD_LEN: usize = 256 << 10;

/// It ends within a row before a cell with which it would have more bytes: a client holds them for as long as it likes.
const AHEAD_LEN_MAX: usize = 320 << 10;

/// Rows are read ahead if as many took less time before, and for so long: the client might have another call.
const AHEAD_TIME: Duration = Duration::from_millis(5);

/// How many rows of the table are looked at to find one that is read ahead.
const AHEAD_PATIENCE: u64 = 64;

/// How many rows are written between two looks at the clock.
const AHEAD_ROWS: usize = 16;

/// What a scanner takes for each access group, in bytes, and for each column beside its name.
const GROUP_LEN: usize = 3 << 10;
const COLUMN_LEN: usize = 64;

/// What a filter takes for each byte of its text.
const FILTER_LEN: usize = 16;

/// What the open scanners of a connection may take, in bytes: a client holds them for as long as it likes.
const OPEN_LEN_MAX: usize = 8 << 20;

/// About how many bytes a scanner takes while it is open.
pub(crate) fn scanner_len(table: &Table, columns: Option<&[&[u8]]>, filter: Option<&[u8]>) -> usize {
    let groups = table.schema().groups().len();
    // Without columns, it reads all.
    let read = columns.map_or(groups, |columns| columns.len().clamp(1, groups.max(1)));
    let columns = columns.unwrap_or_default().iter().map(|column| column.len() + COLUMN_LEN).sum::<usize>();
    read * GROUP_LEN + columns + filter.map_or(0, <[u8]>::len) * FILTER_LEN
}

/// Room before rows that are read ahead, for what a message has before them.
const HEAD_ROOM: usize = 64;

/// The first number of a scanner. Clients take 0 and -1 for "no scanner".
const FIRST_ID: i32 = 1;

/// The number of the scanner after the one with number `id`.
fn id_after(id: i32) -> i32 {
    id.checked_add(1).unwrap_or(FIRST_ID)
}

/// The numbers of the scanners of all connections of a server, from [`FIRST_ID`] on. A program that asks another connection for its
/// scanner must not get the rows of one that has the same number there.
#[derive(Clone)]
pub(crate) struct Numbers(Arc<AtomicI32>);

impl Default for Numbers {
    fn default() -> Self {
        Numbers(Arc::new(AtomicI32::new(FIRST_ID)))
    }
}

impl Numbers {
    fn take(&self) -> i32 {
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |id| Some(id_after(id)));
        taken.unwrap_or(FIRST_ID)
    }
}

pub(crate) struct Scanners {
    open: BTreeMap<i32, Leased>,
    /// Where numbers come from, which scanners of other connections do not have.
    numbers: Numbers,
    open_max: usize,
    lease: Duration,
    /// [`AHEAD_TIME`]
    ahead_time: Duration,
    /// Of one scanner only: a connection is to have little memory.
    ahead: Option<Ahead>,
    /// The scanner that the last call has asked, until its answer is sent.
    used: Option<i32>,
    /// The scanner that was asked last, and for how many rows, if the next ones can be read ahead.
    asked: Option<(i32, u32)>,
}

struct Leased {
    table: Table,
    /// `None`: it has failed, and lost its place. Until its client closes it or its lease ends, its number is known: happybase closes
    /// a scanner that has failed, and would tell of an unknown number instead of why the scanner has failed.
    rows: Option<Rows>,
    used: Instant,
    /// About how many bytes it takes.
    len: usize,
    /// How often it was asked.
    calls: u64,
}

/// Rows of a scanner that nobody has asked for yet.
struct Ahead {
    id: i32,
    /// Elements `TRowResult`, behind [`HEAD_ROOM`] bytes. The last one may lack its end: after `failed`, or since the scanner's
    /// [`Rows`] have begun it.
    body: Sink,
    /// Where each row ends in `body`.
    ends: Vec<usize>,
    /// How many of them the client has.
    given: usize,
    /// What is to be told instead of further rows.
    failed: Option<Fail>,
    /// How long it took to write them.
    took: Duration,
}

impl Scanners {
    pub(crate) fn new(open_max: usize, lease: Duration, numbers: Numbers) -> Scanners {
        Scanners {
            open: BTreeMap::new(),
            numbers,
            open_max,
            lease,
            ahead_time: AHEAD_TIME,
            ahead: None,
            used: None,
            asked: None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// How much memory rows have that were read ahead.
    pub(crate) fn ahead_capacity(&self) -> usize {
        self.ahead.as_ref().map_or(0, |ahead| ahead.body.out.capacity())
    }

    /// Gives up memory of rows that were read ahead beyond their length.
    pub(crate) fn shrink_ahead(&mut self) {
        if let Some(ahead) = &mut self.ahead {
            ahead.body.out.shrink_to_fit();
        }
    }

    /// Closes those that nobody asked for a time.
    pub(crate) fn end_leases(&mut self) {
        let (now, lease) = (Instant::now(), self.lease);
        self.open.retain(|_, leased| now.duration_since(leased.used) < lease);
        self.ahead.take_if(|ahead| !self.open.contains_key(&ahead.id));
    }

    /// Begins the lease of the scanner anew that the last call has asked: its answer is sent.
    pub(crate) fn renew(&mut self) {
        if let Some(leased) = self.used.take().and_then(|id| self.open.get_mut(&id)) {
            leased.used = Instant::now();
        }
    }

    /// Keeps a scanner of `table`, which takes about `len` bytes, and gives it a number.
    ///
    /// # Errors
    /// When the connection has too many, or they take too much memory.
    pub(crate) fn add(&mut self, table: Table, rows: Rows, len: usize) -> Outcome<i32> {
        self.end_leases();
        let open_len = self.open.values().map(|leased| leased.len).sum::<usize>();
        if self.open.len() >= self.open_max {
            // Failed ones make way: not all clients close them.
            self.open.retain(|_, leased| leased.rows.is_some());
        }
        if self.open.len() >= self.open_max {
            return Err(Fail::for_now(
                "the connection has too many open scanners: close those that are read",
            ));
        }
        if len > OPEN_LEN_MAX.saturating_sub(open_len) {
            return Err(Fail::for_now(format!(
                "the columns and filters of the connection's open scanners take more than {OPEN_LEN_MAX} bytes: name fewer columns, \
                 or close scanners that are read"
            )));
        }
        let mut id = self.numbers.take();
        while self.open.contains_key(&id) {
            id = self.numbers.take();
        }
        self.open.insert(id, Leased { table, rows: Some(rows), used: Instant::now(), len, calls: 0 });
        Ok(id)
    }

    /// The table of the scanner with this number.
    pub(crate) fn table(&self, id: i32) -> Option<&Table> {
        self.open.get(&id).map(|leased| &leased.table)
    }

    /// Closes a scanner. `false`: there is none with this number.
    pub(crate) fn close(&mut self, id: i32) -> bool {
        self.end_leases();
        self.ahead.take_if(|ahead| ahead.id == id);
        self.open.remove(&id).is_some()
    }

    /// Writes the next `wanted` rows of the scanner `id` as a list, and begins its lease anew.
    pub(crate) fn write_next(
        &mut self,
        id: i32,
        wanted: u32,
        limits: ReplyLimits<'_>,
        sink: &mut Sink,
    ) -> Outcome<()> {
        self.end_leases();
        let leased = self.open.get_mut(&id).ok_or_else(|| no_scanner(id))?;
        let rows = leased.rows.as_mut().ok_or_else(|| {
            Fail::io(format!("the scanner {id} has failed, and lost its place: open another one"))
        })?;
        let begun = Instant::now();
        leased.used = begun;
        leased.calls += 1;
        self.used = Some(id);
        sink.field(0, 0, Kind::List);
        let list = sink.list(Kind::Struct);
        let ahead = self.ahead.take_if(|ahead| ahead.id == id);
        let took_before = ahead.as_ref().map_or(Duration::ZERO, |ahead| ahead.took);
        let written = match ahead {
            None => rows.write(sink, wanted, limits).inspect(|written| sink.close(list, *written)),
            Some(mut ahead) if ahead.is_enough(wanted, limits, rows.has_begun()) => {
                ahead.give(wanted, limits, list, sink);
                self.ahead = Some(ahead);
                return Ok(());
            }
            Some(ahead) => ahead.give_with_more(rows, wanted, limits, list, sink),
        };
        match written {
            Ok(written) => {
                // A client that has asked twice, and got all that it wanted, will ask again.
                let is_likely = leased.calls > 1 && written == wanted;
                let is_quick = took_before + begun.elapsed() < self.ahead_time;
                self.asked = (is_likely && is_quick).then_some((id, wanted));
                Ok(())
            }
            Err(fail) => {
                (leased.rows, leased.len) = (None, 0);
                Err(fail)
            }
        }
    }

    /// Writes the rows for which the client will ask next into `memory`, and keeps that, if it is likely that it will.
    pub(crate) fn read_ahead(&mut self, protocol: Protocol, limits: ReplyLimits<'_>, memory: &mut Vec<u8>) {
        let Some((id, wanted)) = self.asked.take() else { return };
        let Some(leased) = self.open.get_mut(&id) else { return };
        let Some(rows) = leased.rows.as_mut().filter(|_| self.ahead.is_none()) else { return };
        let (begun, wanted) = (Instant::now(), wanted as usize);
        let mut body = Sink::part(protocol, std::mem::take(memory), HEAD_ROOM);
        let (mut ends, mut failed) = (Vec::with_capacity(wanted.min(1 << 10)), None);
        rows.set_patience(AHEAD_PATIENCE);
        while ends.len() < wanted && body.len() < AHEAD_LEN.min(limits.rows_len) {
            if ends.len() % AHEAD_ROWS == AHEAD_ROWS - 1 && begun.elapsed() > self.ahead_time {
                break;
            }
            // A row alone may be as long as an answer. A longer one is an error only once the client asks for it.
            let pauses_at = AHEAD_LEN_MAX.min(body.len() + limits.len_max);
            let limits = ReplyLimits { len_max: usize::MAX, pauses_at, ..limits };
            match rows.write(&mut body, 1, limits) {
                Ok(0) => break,
                Ok(_) => ends.push(body.out.len()),
                Err(fail) => {
                    failed = Some(fail);
                    break;
                }
            }
        }
        rows.set_patience(u64::MAX);
        leased.used = Instant::now();
        self.ahead = Some(Ahead { id, body, ends, given: 0, failed, took: begun.elapsed() });
    }
}

impl Ahead {
    fn left(&self) -> usize {
        self.ends.len() - self.given
    }

    /// Where the next row begins.
    fn at(&self) -> usize {
        match self.given.checked_sub(1) {
            Some(last) => self.ends[last],
            None => HEAD_ROOM,
        }
    }

    /// Whether an answer is to have rows that it has, and it has something else for the next answer: rows, a row that has
    /// begun, or an error.
    fn is_enough(&self, wanted: u32, limits: ReplyLimits<'_>, has_begun: bool) -> bool {
        let count = self.fitting(wanted, limits);
        let has_rest = has_begun || self.failed.is_some();
        count < self.left() || has_rest && (count == wanted as usize || !self.has_room(limits))
    }

    /// Whether an answer with its rows may have more of them.
    fn has_room(&self, limits: ReplyLimits<'_>) -> bool {
        self.left() == 0 || self.body.len() < limits.rows_len
    }

    /// How many of its rows the next answer has: as many as are wanted and not too long together, but one at least.
    fn fitting(&self, wanted: u32, limits: ReplyLimits<'_>) -> usize {
        let (begin, wanted) = (self.at(), (wanted as usize).min(self.left()));
        let left = &self.ends[self.given..self.given + wanted];
        let fitting = left.partition_point(|end| end - begin <= limits.len_max);
        fitting.max(wanted.min(1))
    }

    /// Writes copies of rows that it has, which are the elements of `list`.
    fn give(&mut self, wanted: u32, limits: ReplyLimits<'_>, list: Count, sink: &mut Sink) {
        let (begin, count) = (self.at(), self.fitting(wanted, limits));
        self.given += count;
        sink.out.extend_from_slice(&self.body.out[begin..self.at()]);
        sink.close(list, count as u32);
    }

    /// Writes what it has and further rows, `wanted` in all, which are the elements of `list`. Returns how many there are.
    fn give_with_more(
        mut self,
        rows: &mut Rows,
        wanted: u32,
        limits: ReplyLimits<'_>,
        list: Count,
        sink: &mut Sink,
    ) -> Outcome<u32> {
        if let Some(fail) = self.failed {
            return Err(fail);
        }
        let left = self.left() as u32;
        let wanted = if self.has_room(limits) { wanted } else { left };
        if self.given > 0 {
            // The rows that it has given must not count in the answer's length.
            rows.moved(self.at(), sink.out.len());
            sink.out.extend_from_slice(&self.body.out[self.at()..]);
            let written = left + rows.write(sink, wanted - left, limits)?;
            sink.close(list, written);
            return Ok(written);
        }
        let written = left + rows.write(&mut self.body, wanted - left, limits)?;
        sink.close(list, written);
        sink.put_before(self.body);
        Ok(written)
    }
}

pub(crate) fn no_scanner(id: i32) -> Fail {
    Fail::argument(format!(
        "scanner ID is invalid: {id} was closed, belongs to another connection, or was not asked for too long"
    ))
}

#[cfg(test)]
mod tests;
