//! Cells that are put together. They lie in one piece of memory: a load of many small cells would otherwise spend a third of
//! its time on allocations.

use core::ops::Range;
use std::collections::HashMap;

use crate::cell::{check_key, check_row};
use crate::error::Result;
use crate::mutation::RowMutation;
use crate::rising::Put;
use crate::schema::Schema;

/// A cell that is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PutCell<'a> {
    /// Its row, 1 to [`ROW_LEN_MAX`](crate::ROW_LEN_MAX) bytes.
    pub row: &'a [u8],
    /// Its column family.
    pub family: &'a str,
    /// What names the column in its family.
    pub qualifier: &'a [u8],
    /// Milliseconds since 1970. `None`: the time of the write, or one of its own ([`Table::distinct_times`](crate::Table::distinct_times)).
    pub timestamp: Option<i64>,
    /// Its value.
    pub value: &'a [u8],
}

impl PutCell<'_> {
    /// Fails if no table can have such a row and column, whatever its schema is.
    ///
    /// # Errors
    /// `Invalid`, with the reason.
    pub fn check(&self) -> Result<()> {
        check_row(self.row)?;
        check_key(self.row, self.qualifier)
    }
}

/// Cells that [`Table::put_cells`](crate::Table::put_cells) puts, all of them or none.
///
/// # Example
/// ```
/// use esker_table::{CellBatch, Family, PutCell, Read, Schema, Tables};
///
/// # fn main() -> esker_table::Result<()> {
/// let tables = Tables::open_in_memory(esker::Options::default())?;
/// let weather = tables.create("weather", Schema::new().group("g", [Family::new("wind")]))?;
/// let mut cells = CellBatch::new();
/// for (row, value) in [(b"station 7", b"12"), (b"station 8", b"15")] {
///     cells.push(PutCell { row, family: "wind", qualifier: b"", timestamp: None, value });
/// }
/// weather.put_cells(&cells)?;
/// assert_eq!(weather.get("station 8", &Read::family("wind"))?[0].value, b"15");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default, Clone)]
pub struct CellBatch {
    /// Rows, qualifiers and values. The row of a cell is there once if the cell before has the same.
    bytes: Vec<u8>,
    cells: Vec<Place>,
    /// The names of the families, in the order of their first cells.
    families: Vec<String>,
    /// Where each of them is.
    places: HashMap<String, usize>,
}

/// Where the parts of a cell are.
#[derive(Debug, Clone)]
struct Place {
    row: Range<usize>,
    /// The value is from its end to `end`.
    qualifier: Range<usize>,
    end: usize,
    family: usize,
    timestamp: Option<i64>,
}

impl CellBatch {
    /// No cells.
    pub fn new() -> CellBatch {
        CellBatch::default()
    }

    /// No cells, with memory for so many, whose rows, qualifiers and values have so many bytes.
    pub fn with_capacity(cells: usize, bytes: usize) -> CellBatch {
        CellBatch {
            bytes: Vec::with_capacity(bytes),
            cells: Vec::with_capacity(cells),
            ..CellBatch::default()
        }
    }

    /// Adds a cell. Its parts are copied.
    pub fn push(&mut self, cell: PutCell<'_>) {
        let PutCell { row, family, qualifier, timestamp, value } = cell;
        let last = self.cells.last();
        let of_last = last.map(|last| last.family).filter(|at| self.families[*at] == family);
        let family = of_last.or_else(|| self.places.get(family).copied()).unwrap_or_else(|| {
            self.families.push(family.to_owned());
            self.places.insert(family.to_owned(), self.families.len() - 1);
            self.families.len() - 1
        });
        let row = match last.map(|last| last.row.clone()).filter(|last| self.bytes[last.clone()] == *row) {
            Some(last) => last,
            None => self.add(row),
        };
        let qualifier = self.add(qualifier);
        let end = self.add(value).end;
        self.cells.push(Place { row, qualifier, end, family, timestamp });
    }

    fn add(&mut self, bytes: &[u8]) -> Range<usize> {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        from..self.bytes.len()
    }

    /// Removes all cells. The memory is kept for others.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.cells.clear();
        self.families.clear();
        self.places.clear();
    }

    /// How many cells there are.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// How many bytes their rows, qualifiers and values have. A row that several cells have one after the other counts once.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The cells, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = PutCell<'_>> + Clone {
        self.cells.iter().map(|place| PutCell {
            row: &self.bytes[place.row.clone()],
            family: &self.families[place.family],
            qualifier: &self.bytes[place.qualifier.clone()],
            timestamp: place.timestamp,
            value: &self.bytes[place.qualifier.end..place.end],
        })
    }

    /// The names of the families that cells have, each once.
    pub(crate) fn families(&self) -> &[String] {
        &self.families
    }

    /// The cells, each with the place of its family in [`CellBatch::families`], and whether its row is that of the cell before.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (PutCell<'_>, usize, bool)> {
        let mut last = None;
        self.iter().zip(&self.cells).map(move |(cell, place)| {
            let is_same = last.replace(&place.row) == Some(&place.row);
            (cell, place.family, is_same)
        })
    }

    /// The same as mutations of rows.
    pub(crate) fn mutations(&self) -> Vec<RowMutation> {
        let mut mutations: Vec<RowMutation> = Vec::new();
        for (cell, _, is_of_last_row) in self.placed() {
            let last = if is_of_last_row { mutations.pop() } else { None };
            let mutation = last.unwrap_or_else(|| RowMutation::new(cell.row));
            mutations.push(match cell.timestamp {
                Some(timestamp) => mutation.put_at(cell.family, cell.qualifier, timestamp, cell.value),
                None => mutation.put(cell.family, cell.qualifier, cell.value),
            });
        }
        mutations
    }

    /// The puts without a timestamp, to a table with this schema.
    pub(crate) fn puts<'c>(&'c self, schema: &'c Schema) -> impl Iterator<Item = Put<'c>> + Clone {
        let kept = self
            .families
            .iter()
            .map(|name| schema.family(name).and_then(|(_, family)| family.kept_versions()));
        let kept: Vec<Option<u32>> = kept.collect();
        let untimed = self.cells.iter().zip(self.iter()).filter(|(place, _)| place.timestamp.is_none());
        untimed.map(move |(place, PutCell { row, family, qualifier, .. })| Put {
            row,
            family,
            qualifier,
            kept: kept[place.family],
        })
    }

    /// The rows, without those that are the same as the one before.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &[u8]> {
        self.placed().filter(|(_, _, is_same)| !is_same).map(|(cell, ..)| cell.row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_come_out_as_they_went_in() {
        const TEXTS: [&[u8]; 4] = [b"", b"a", b"ab", b"a\0"];
        for seed in test_kit::seeds(200) {
            let mut rng = test_kit::Rng::new(seed);
            let mut below = |n: usize| rng.index(n);
            let mut batch = CellBatch::new();
            for _ in 0..3 {
                let cells: Vec<PutCell<'_>> = (0..below(20))
                    .map(|_| PutCell {
                        row: TEXTS[below(4)],
                        family: ["f", "g", "fg"][below(3)],
                        qualifier: TEXTS[below(4)],
                        timestamp: [None, Some(0), Some(-1)][below(3)],
                        value: TEXTS[below(4)],
                    })
                    .collect();
                cells.iter().for_each(|cell| batch.push(*cell));
                assert_eq!(batch.iter().collect::<Vec<_>>(), cells, "seed {seed}");
                assert_eq!((batch.len(), batch.is_empty()), (cells.len(), cells.is_empty()));
                let mut rows: Vec<&[u8]> = cells.iter().map(|cell| cell.row).collect();
                rows.dedup();
                assert_eq!(batch.rows().collect::<Vec<_>>(), rows, "seed {seed}");
                for (cell, family, _) in batch.placed() {
                    assert_eq!(batch.families()[family], cell.family, "seed {seed}");
                }
                batch.clear();
                assert_eq!((batch.len(), batch.bytes()), (0, 0));
            }
        }
    }
}
