//! `LIMIT`, `OFFSET`, `CELL_LIMIT`, `CELL_OFFSET`, `CELL_LIMIT_PER_FAMILY` and `CELL_OFFSET_PER_FAMILY`, counted over the whole
//! query.
//!
//! A cell that is shown passes them in this order: of its family in its row, of the rows, of the cells.

use std::borrow::Cow;

use esker_table::{DeleteKind, ScanCounts};

use crate::error::Result;
use crate::statement::SelectOptions;
use crate::tables::Cells;

/// The cells of a query within its limits.
pub(super) struct Limited {
    cells: Box<dyn Cells>,
    /// The numbers of cells of a family of a row, of rows, and of cells that are shown, from 0: from, and below.
    of_family_numbers: (u64, u64),
    row_numbers: (u64, u64),
    cell_numbers: (u64, u64),
    /// How many rows were begun, and how many cells were in rows that are shown; also those that the tables have left out.
    has_begun: bool,
    rows: u64,
    count: u64,
    /// The row; empty, which no row is: none was begun.
    row: Vec<u8>,
    family: String,
    of_family: u64,
    is_done: bool,
}

impl Limited {
    pub(super) fn new(cells: Box<dyn Cells>, options: &SelectOptions) -> Limited {
        let numbers = |offset: Option<u64>, limit: Option<u64>| {
            let offset = offset.unwrap_or_default();
            (offset, offset.saturating_add(limit.unwrap_or(u64::MAX)))
        };
        let (row_numbers, cell_numbers) =
            (numbers(options.offset, options.limit), numbers(options.cell_offset, options.cell_limit));
        let of_family_numbers = numbers(options.cell_offset_per_family, options.cell_limit_per_family);
        let is_nothing = |(from, below): (u64, u64)| from >= below;
        Limited {
            cells,
            of_family_numbers,
            row_numbers,
            cell_numbers,
            has_begun: false,
            rows: 0,
            count: 0,
            row: Vec::new(),
            family: String::new(),
            of_family: 0,
            is_done: [of_family_numbers, row_numbers, cell_numbers].into_iter().any(is_nothing),
        }
    }
}

impl Cells for Limited {
    fn advance(&mut self) -> Result<bool> {
        while !self.is_done {
            // Nothing is read behind the last cell that is shown.
            if self.count >= self.cell_numbers.1 || !self.cells.advance()? {
                self.is_done = true;
                break;
            }
            if !self.has_begun {
                self.has_begun = true;
                (self.rows, self.count) = self.cells.left_out();
            }
            let is_new_row = self.row.is_empty() || self.row != self.cells.row();
            if is_new_row {
                if self.rows >= self.row_numbers.1 {
                    self.is_done = true;
                    break;
                }
                self.rows += 1;
                self.cells.row().clone_into(&mut self.row);
            }
            if is_new_row || self.family != self.cells.family() {
                self.cells.family().clone_into(&mut self.family);
                self.of_family = 0;
            }
            self.of_family = self.of_family.saturating_add(1);
            let is_of_window =
                self.of_family > self.of_family_numbers.0 && self.of_family <= self.of_family_numbers.1;
            if !is_of_window || self.rows <= self.row_numbers.0 {
                continue;
            }
            self.count += 1;
            if self.count > self.cell_numbers.0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn count(&mut self) {
        self.cells.count();
    }

    fn counts(&self) -> Option<ScanCounts> {
        self.cells.counts()
    }

    fn delete(&self) -> Option<DeleteKind> {
        self.cells.delete()
    }

    fn row(&self) -> &[u8] {
        self.cells.row()
    }

    fn family(&self) -> &str {
        self.cells.family()
    }

    fn is_counter(&self) -> bool {
        self.cells.is_counter()
    }

    fn qualifier(&self) -> &[u8] {
        self.cells.qualifier()
    }

    fn timestamp(&self) -> i64 {
        self.cells.timestamp()
    }

    fn value(&self) -> Result<Cow<'_, [u8]>> {
        self.cells.value()
    }

    fn long_value_len(&self) -> Option<u64> {
        self.cells.long_value_len()
    }

    fn read_value_at(&self, at: u64, piece: &mut [u8]) -> Result<()> {
        self.cells.read_value_at(at, piece)
    }
}
