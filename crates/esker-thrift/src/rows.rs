//! Cells of a scan, written as rows and cells of HBase's interface: each value goes from the store's memory into the reply.

use esker_table::Scan;

use crate::fail::{Fail, Outcome};
use crate::idl::own::DELETE_KINDS;
use crate::scanners::ReplyLimits;
use crate::wire::{Kind, Sink};

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
}

/// Writes the cell that `scan` is at, as a `TCell`. A delete has no value.
fn write_cell(scan: &Scan, sink: &mut Sink, limits: ReplyLimits) -> Outcome<()> {
    let value = scan.value();
    let ReplyLimits { len_max, others, .. } = limits;
    // Rows and columns count too: a cell may have nothing else.
    let room = (len_max + others).checked_sub(sink.len());
    if room.is_none_or(|room| value.as_ref().is_some_and(|value| value.len() > room as u64)) {
        return Err(Fail::io(format!(
            "the result has more than {len_max} bytes: ask for fewer rows or columns, or give a scan a batch size"
        )));
    }
    sink.field(0, 1, Kind::Bytes);
    match value {
        Some(value) => sink.bytes(&value.bytes()?),
        None => sink.bytes(b""),
    }
    sink.field(1, 2, Kind::I64);
    sink.i64(scan.timestamp());
    sink.stop();
    Ok(())
}

impl Rows {
    pub(crate) fn new(scan: Scan) -> Rows {
        Rows { scan, is_at_cell: false, cells_max: u32::MAX, sorts_columns: false, patience: u64::MAX }
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

    /// Writes up to `rows` elements `TRowResult`, and returns how many. It ends early when `sink` has so many bytes as
    /// are enough, but not before the first.
    pub(crate) fn write(&mut self, sink: &mut Sink, rows: u32, limits: ReplyLimits) -> Outcome<u32> {
        let mut written = 0;
        while written < rows && (written == 0 || sink.len() < limits.rows_len) {
            if !self.is_at_cell && self.scan.advance_within(self.patience)? != Some(true) {
                break;
            }
            self.is_at_cell = true;
            self.write_row(sink, limits)?;
            written += 1;
        }
        Ok(written)
    }

    /// Writes the cells from the one that the scan is at to the end of its row.
    fn write_row(&mut self, sink: &mut Sink, limits: ReplyLimits) -> Outcome<()> {
        sink.field(0, 1, Kind::Bytes);
        let row_len = self.scan.row().len();
        sink.bytes(self.scan.row());
        let row_at = sink.out.len() - row_len;
        let count = if self.sorts_columns {
            sink.field(1, 3, Kind::List);
            sink.list(Kind::Struct)
        } else {
            sink.field(1, 2, Kind::Map);
            sink.map(Kind::Bytes, Kind::Struct)
        };
        let mut cells = 0;
        while cells < self.cells_max {
            if self.sorts_columns {
                sink.field(0, 1, Kind::Bytes);
            }
            sink.joined(self.scan.family().as_bytes(), b':', self.scan.qualifier());
            if self.sorts_columns {
                sink.field(1, 2, Kind::Struct);
            }
            write_cell(&self.scan, sink, limits)?;
            if self.sorts_columns {
                // Of a scan by Esker's own method.
                let delete = self.scan.delete();
                if let Some((number, _)) = DELETE_KINDS.iter().find(|(_, kind)| Some(*kind) == delete) {
                    sink.field(2, 3, Kind::I32);
                    sink.i32(*number);
                }
                sink.stop();
            }
            cells += 1;
            self.is_at_cell = self.scan.advance_within(self.patience)? == Some(true);
            if !self.is_at_cell || sink.out.get(row_at..row_at + row_len) != Some(self.scan.row()) {
                break;
            }
        }
        sink.close(count, cells);
        sink.stop();
        Ok(())
    }
}

/// Writes all cells of a scan as elements `TCell`, and returns how many.
pub(crate) fn write_cells(mut scan: Scan, sink: &mut Sink, limits: ReplyLimits) -> Outcome<u32> {
    let mut written = 0;
    while scan.advance()? {
        write_cell(&scan, sink, limits)?;
        written += 1;
    }
    Ok(written)
}
