//! Cells of a scan, written as rows and cells of HBase's interface: each value goes from the store's memory into the reply.

use esker_table::{CellValue, Scan};

use crate::fail::{Fail, Outcome};
use crate::idl::own::DELETE_KINDS;
use crate::memory::ReplyLimits;
use crate::wire::{Count, Kind, Sink};

/// A cell has fewer bytes than so many beside its column and value, and so has a row beside its key and cells.
pub(crate) const CELL_LEN: usize = 64;

/// The rest of a scan.
pub(crate) struct Rows {
    scan: Scan,
    /// Whether the scan is at a cell that was not written yet.
    is_at_cell: bool,
    /// How many cells a result has at most; more of the same row are another result.
    cells_max: u32,
    sorts_columns: bool,
    /// How many rows it looks at for a cell that is shown.
    patience: u64,
    /// The row of which a part is written.
    begun: Option<Begun>,
}

/// A row that is not written to its end.
struct Begun {
    /// Where its key begins in the memory of the sink.
    row_at: usize,
    row_len: usize,
    /// That of its cells.
    count: Count,
    cells: u32,
}

/// Makes room in `sink` for the cell that `scan` is at, whose value has `value_len` bytes.
#[inline]
fn make_room(scan: &Scan, value_len: u64, sink: &mut Sink, limits: ReplyLimits<'_>) -> Outcome<()> {
    let len_max = limits.len_max;
    // Rows and columns count too: a cell may have nothing else.
    if sink.len() as u64 + value_len > len_max as u64 {
        return Err(Fail::io(format!(
            "the result has more than {len_max} bytes: ask for fewer rows or columns, or give a scan a batch size"
        )));
    }
    let more = scan.family().len() + scan.qualifier().len() + value_len as usize + CELL_LEN;
    limits.share.make_room(&mut sink.out, more)
}

/// Writes a cell as a `TCell`, after [`make_room`]. A delete has no value.
#[inline]
fn write_cell(value: Option<CellValue<'_>>, value_len: u64, timestamp: i64, sink: &mut Sink) -> Outcome<()> {
    sink.field(0, 1, Kind::Bytes);
    sink.bytes_by(value_len as usize, |out| value.map_or(Ok(()), |value| value.append_to(out)))?;
    sink.field(1, 2, Kind::I64);
    sink.i64(timestamp);
    sink.stop();
    Ok(())
}

impl Rows {
    pub(crate) fn new(scan: Scan) -> Rows {
        let (cells_max, patience) = (u32::MAX, u64::MAX);
        Rows { scan, is_at_cell: false, cells_max, sorts_columns: false, patience, begun: None }
    }

    /// Rows in parts of at most so many cells; 0: whole.
    pub(crate) fn in_parts(mut self, cells_max: u32) -> Rows {
        self.cells_max = if cells_max == 0 { u32::MAX } else { cells_max };
        self
    }

    /// With the cells of a row as a list in their order instead of a map.
    pub(crate) fn sorted(mut self, sorts_columns: bool) -> Rows {
        self.sorts_columns = sorts_columns;
        self
    }

    /// From now on, [`Rows::write`] also ends when it has looked at so many rows and found no cell that is shown.
    pub(crate) fn set_patience(&mut self, rows: u64) {
        self.patience = rows;
    }

    /// Whether the last row that was written lacks its end, which is written next. Until then nothing else may be written
    /// behind it.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// Tells that the begun row was moved from one place to another, which may be in other memory.
    pub(crate) fn moved(&mut self, from: usize, to: usize) {
        if let Some(begun) = &mut self.begun {
            begun.row_at = begun.row_at - from + to;
            begun.count.moved(from, to);
        }
    }

    /// Writes up to `rows` elements `TRowResult`, and returns how many. It ends early when `sink` has so many bytes as
    /// are enough, but not before the first; and before a cell with which there would be more bytes than `limits` allow, also
    /// within a row.
    pub(crate) fn write(&mut self, sink: &mut Sink, rows: u32, limits: ReplyLimits<'_>) -> Outcome<u32> {
        let mut written = 0;
        while written < rows && (written == 0 || sink.len() < limits.rows_len) {
            let begun = match self.begun.take() {
                Some(begun) => begun,
                None => {
                    if !self.is_at_cell && self.scan.advance_within(self.patience)? != Some(true) {
                        break;
                    }
                    self.is_at_cell = true;
                    self.begin_row(sink, limits)?
                }
            };
            self.begun = self.write_row(begun, sink, limits)?;
            if self.has_begun() {
                break;
            }
            written += 1;
        }
        Ok(written)
    }

    /// Writes the beginning of the row that the scan is at.
    fn begin_row(&self, sink: &mut Sink, limits: ReplyLimits<'_>) -> Outcome<Begun> {
        let row_len = self.scan.row().len();
        limits.share.make_room(&mut sink.out, row_len + CELL_LEN)?;
        sink.field(0, 1, Kind::Bytes);
        sink.bytes(self.scan.row());
        let row_at = sink.out.len() - row_len;
        let count = if self.sorts_columns {
            sink.field(1, 3, Kind::List);
            sink.list(Kind::Struct)
        } else {
            sink.field(1, 2, Kind::Map);
            sink.map(Kind::Bytes, Kind::Struct)
        };
        Ok(Begun { row_at, row_len, count, cells: 0 })
    }

    /// Writes the cells from the one that the scan is at to the end of its row. Returns the row if there is no room for that.
    fn write_row(
        &mut self,
        mut begun: Begun,
        sink: &mut Sink,
        limits: ReplyLimits<'_>,
    ) -> Outcome<Option<Begun>> {
        let Begun { row_at, row_len, count, .. } = begun;
        while begun.cells < self.cells_max {
            let value = self.scan.value();
            let value_len = value.map_or(0, |value| value.len());
            if sink.len() as u64 + value_len > limits.pauses_at as u64 {
                return Ok(Some(begun));
            }
            make_room(&self.scan, value_len, sink, limits)?;
            if self.sorts_columns {
                sink.field(0, 1, Kind::Bytes);
            }
            sink.joined(self.scan.family().as_bytes(), b':', self.scan.qualifier());
            if self.sorts_columns {
                sink.field(1, 2, Kind::Struct);
            }
            write_cell(value, value_len, self.scan.timestamp(), sink)?;
            if self.sorts_columns {
                // Of a scan by Esker's own method.
                let delete = self.scan.delete();
                if let Some((number, _)) = DELETE_KINDS.iter().find(|(_, kind)| Some(*kind) == delete) {
                    sink.field(2, 3, Kind::I32);
                    sink.i32(*number);
                }
                sink.stop();
            }
            begun.cells += 1;
            self.is_at_cell = self.scan.advance_within(self.patience)? == Some(true);
            if !self.is_at_cell || sink.out.get(row_at..row_at + row_len) != Some(self.scan.row()) {
                break;
            }
        }
        sink.close(count, begun.cells);
        sink.stop();
        Ok(None)
    }
}

/// Writes all cells of a scan as elements `TCell`, and returns how many.
pub(crate) fn write_cells(mut scan: Scan, sink: &mut Sink, limits: ReplyLimits<'_>) -> Outcome<u32> {
    let mut written = 0;
    while scan.advance()? {
        let value = scan.value();
        let value_len = value.map_or(0, |value| value.len());
        make_room(&scan, value_len, sink, limits)?;
        write_cell(value, value_len, scan.timestamp(), sink)?;
        written += 1;
    }
    Ok(written)
}
