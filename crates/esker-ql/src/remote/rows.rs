//! The cells of a query, as rows come from the server.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use esker_table::{DeleteKind, ScanCounts};
use esker_thrift::{OwnScan, RowCell, RowCells, ScanRequest};

use super::connection::{Connection, locked};
use super::request::{Received, Request, RowRange, Skipped, behind};
use crate::error::Result;
use crate::tables::Cells;

/// How many rows the first call asks for, and the most.
const ROWS_FIRST: i32 = 16;
const ROWS_MAX: i32 = 1000;

/// A call asks for more rows than the one before as long as a reply has fewer bytes than this, and for fewer above.
const REPLY_LEN: usize = 1 << 20;

/// How many cells of a row come at once, where rows need not be whole. With [`ROWS_MAX`] these are fewer than a reply may have.
const CELLS_MAX: i32 = 1000;

/// A scanner: its number, and that of its connection.
#[derive(Debug, Clone, Copy)]
struct Scanner {
    id: i32,
    connection: u64,
}

/// The cells of a query.
pub(super) struct RemoteCells {
    connection: Arc<Mutex<Connection>>,
    table: Vec<u8>,
    request: Request,
    /// The ranges that are to come, the next one last, and the one that is scanned with its scanner.
    ranges: Vec<RowRange>,
    scanned: Option<(RowRange, Scanner)>,
    rows_wanted: i32,
    /// What is left out before the first cell, if that has not been done yet; and how many rows and cells it was.
    skipped: Option<Skipped>,
    left_out: (u64, u64),
    /// Rows that have come, and the cells of the one that is shown.
    received: std::vec::IntoIter<RowCells>,
    row: Vec<u8>,
    cells: std::vec::IntoIter<Received>,
    cell: Received,
    /// How many versions of its column have come; 0: none of the row.
    versions: u64,
}

impl RemoteCells {
    pub(super) fn new(connection: Arc<Mutex<Connection>>, table: &str, mut request: Request) -> RemoteCells {
        let mut ranges = std::mem::take(&mut request.ranges);
        ranges.reverse();
        RemoteCells {
            connection,
            table: table.as_bytes().to_vec(),
            ranges: if request.time.is_empty() { Vec::new() } else { ranges },
            skipped: request.skipped.take(),
            left_out: (0, 0),
            request,
            scanned: None,
            rows_wanted: ROWS_FIRST,
            received: Vec::new().into_iter(),
            row: Vec::new(),
            cells: Vec::new().into_iter(),
            cell: Received {
                delete: None,
                family: String::new(),
                qualifier: Vec::new(),
                timestamp: 0,
                value: Vec::new(),
            },
            versions: 0,
        }
    }

    /// Opens a scanner over the next range. `false`: there is none.
    fn open(&mut self) -> Result<bool> {
        let Some(range) = self.ranges.pop() else { return Ok(false) };
        let Request { columns, filter, time, is_reversed, needs_rows, .. } = &self.request;
        // Backward, the first row is included and the last one is not: `Self::next_row` leaves out what is too much.
        let (start, stop) = match is_reversed {
            true => (range.stop.clone().unwrap_or_default(), Vec::new()),
            false => (range.start.clone(), range.stop.clone().unwrap_or_default()),
        };
        let filter = self.skipped.as_ref().map(|skipped| &skipped.filter).or(filter.as_ref());
        let scan = ScanRequest {
            start,
            stop,
            timestamp: (time.end != i64::MAX).then_some(time.end),
            columns: columns.clone(),
            filter: filter.cloned(),
            cells_max: if *needs_rows { 0 } else { CELLS_MAX },
            is_reversed: *is_reversed,
        };
        let mut connection = locked(&self.connection);
        let scanner = match self.request.is_eskers {
            false => connection.client()?.open_scanner(&self.table, &scan)?,
            true => {
                let versions = self.request.versions_sent();
                let shows_deletes = self.request.deletes.is_some();
                let scan = OwnScan { request: scan, from: time.start, versions, shows_deletes };
                connection.client()?.open_own_scanner(&self.table, &scan)?
            }
        };
        let scanner = Scanner { id: scanner, connection: connection.number };
        drop(connection);
        self.scanned = Some((range, scanner));
        Ok(true)
    }

    /// Takes more rows from the server. `false`: there are none.
    fn receive(&mut self) -> Result<bool> {
        loop {
            let Some((_, scanner)) = self.scanned else {
                if !self.open()? {
                    return Ok(false);
                }
                continue;
            };
            let Scanner { id, connection } = scanner;
            let rows = locked(&self.connection).client_of(connection)?.next_rows(id, self.rows_wanted)?;
            if rows.is_empty() {
                self.close();
                continue;
            }
            let cells = rows.iter().flat_map(|row| &row.cells);
            let len: usize = cells.map(|cell| cell.column.len() + cell.value.len()).sum();
            self.rows_wanted = match len {
                0..REPLY_LEN => (self.rows_wanted * 2).min(ROWS_MAX),
                _ => (self.rows_wanted / 2).max(1),
            };
            self.received = rows.into_iter();
            return Ok(true);
        }
    }

    fn close(&mut self) {
        if let Some((_, Scanner { id, connection })) = self.scanned.take() {
            // A scanner that cannot be closed now ends with its lease, or has ended with its connection.
            if let Ok(client) = locked(&self.connection).client_of(connection) {
                drop(client.close_scanner(id));
            }
        }
    }

    /// Passes the rows and cells that the offsets leave out, whose values the server does not send. Then the scan begins anew at the
    /// row of the first cell that may be shown. `false`: there is none.
    fn skip(&mut self) -> Result<bool> {
        let (mut rows, mut cells, mut cells_before, mut row) = (0_u64, 0_u64, 0_u64, Vec::new());
        while let Some((row_numbers, cells_max)) = self.skipped.as_ref().map(|s| (s.row_numbers, s.cells)) {
            if !self.next_row()? {
                return Ok(false);
            }
            if row != self.row {
                rows += 1;
                cells_before = cells;
                self.row.clone_into(&mut row);
            }
            if rows > row_numbers.1 {
                return Ok(false);
            }
            if rows > row_numbers.0 {
                cells += self.cells.len() as u64;
            }
            if cells > cells_max {
                self.skipped = None;
                self.left_out = (rows - 1, cells_before);
                self.begin_again();
            }
        }
        Ok(true)
    }

    /// Scans the rest of the range anew, from the row on that has come last.
    fn begin_again(&mut self) {
        if let Some((range, _)) = &self.scanned {
            let mut range = range.clone();
            match self.request.is_reversed {
                true => range.stop = Some(behind(&self.row)),
                false => self.row.clone_into(&mut range.start),
            }
            self.close();
            self.ranges.push(range);
        }
        (self.received, self.cells) = (Vec::new().into_iter(), Vec::new().into_iter());
        self.rows_wanted = ROWS_FIRST;
    }

    /// Ends the scan.
    fn end(&mut self) {
        self.close();
        self.ranges.clear();
        (self.received, self.cells) = (Vec::new().into_iter(), Vec::new().into_iter());
    }

    /// Goes to the next row of which something is shown, or to a part of it. `false`: there is none.
    fn next_row(&mut self) -> Result<bool> {
        loop {
            let Some(RowCells { row, cells }) = self.received.next() else {
                if !self.receive()? {
                    return Ok(false);
                }
                continue;
            };
            let range = self.scanned.as_ref().map(|(range, _)| range);
            if range.is_some_and(|range| self.request.is_reversed && row < range.start) {
                self.received = Vec::new().into_iter();
                self.close();
                continue;
            }
            if range.is_some_and(|range| range.stop.as_ref().is_some_and(|stop| row >= *stop)) {
                continue;
            }
            let mut cells: Vec<Received> = cells.into_iter().map(received).collect();
            cells.sort_by(|one, other| one.place().cmp(&other.place()));
            self.request.shown(&row, &mut cells);
            if !cells.is_empty() {
                if self.row != row {
                    self.versions = 0;
                }
                (self.row, self.cells) = (row, cells.into_iter());
                return Ok(true);
            }
        }
    }
}

fn received(cell: RowCell) -> Received {
    let RowCell { column, timestamp, value, delete } = cell;
    let colon = column.iter().position(|byte| *byte == b':').unwrap_or(column.len());
    let (family, qualifier) = column.split_at(colon);
    Received {
        delete,
        family: String::from_utf8_lossy(family).into_owned(),
        qualifier: qualifier.get(1..).unwrap_or_default().to_vec(),
        timestamp,
        value,
    }
}

impl Drop for RemoteCells {
    fn drop(&mut self) {
        self.close();
    }
}

impl Cells for RemoteCells {
    fn advance(&mut self) -> Result<bool> {
        if self.skipped.is_some() && !self.skip()? {
            self.end();
            return Ok(false);
        }
        loop {
            if let Some(cell) = self.cells.next() {
                if cell.delete.is_none() {
                    // A row may come in parts, which end anywhere.
                    let is_same =
                        self.versions > 0 && self.cell.delete.is_none() && self.cell.place() == cell.place();
                    self.versions = if is_same { self.versions.saturating_add(1) } else { 1 };
                }
                self.cell = cell;
                if self.cell.delete.is_some() || self.versions <= self.request.versions {
                    return Ok(true);
                }
                continue;
            }
            if !self.next_row()? {
                return Ok(false);
            }
        }
    }

    fn count(&mut self) {}

    /// The interface has no call for it.
    fn counts(&self) -> Option<ScanCounts> {
        None
    }

    fn left_out(&self) -> (u64, u64) {
        self.left_out
    }

    fn delete(&self) -> Option<DeleteKind> {
        self.cell.delete
    }

    fn row(&self) -> &[u8] {
        &self.row
    }

    fn family(&self) -> &str {
        &self.cell.family
    }

    fn is_counter(&self) -> bool {
        self.request.counters.contains(&self.cell.family)
    }

    fn qualifier(&self) -> &[u8] {
        &self.cell.qualifier
    }

    fn timestamp(&self) -> i64 {
        self.cell.timestamp
    }

    fn value(&self) -> Result<Cow<'_, [u8]>> {
        Ok(Cow::Borrowed(&self.cell.value))
    }
}
