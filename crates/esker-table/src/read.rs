//! What reads ask for, and what they return.
//!
//! ```text
//! Walk    cells that count, of the families, columns and times that are asked for       (walk)
//! Judge   those that the filter lets through, up to so many versions of a column        (filter)
//! Live    limits and offsets, and what is shown of a value                              (live)
//! Scan    those, or what the query cache has of an earlier scan                         (scan)
//!         what was read for it                                                          (counts)
//! ```

mod counts;
mod live;
mod scan;
mod walk;

use core::ops::Range;
use std::borrow::Cow;

use esker::{Value, ValueRef};

use crate::error::Result;
use crate::filter::{Filter, Wish};
use crate::schema::Schema;

pub(crate) use counts::Counted;
pub use counts::{IndexCounts, ScanCounts, TreeCounts};
pub(crate) use live::Live;
pub use scan::Scan;

/// Which cells of a row are read: of which families and columns, how many versions of each, and from which time.
///
/// # Example
/// ```
/// use esker_table::{Filter, Read};
///
/// let all = Read::all();
/// let one = Read::column("weather", "temperature").column_too("weather", "wind").versions(10).time(0..1_700_000_000_000);
/// let page = Read::family("weather").filter(Filter::column_prefix("wind.")).limit_rows(50, 100).keys_only();
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Read {
    /// Empty: all families. A qualifier of `None`: all of the family's.
    columns: Vec<(String, Option<Vec<u8>>)>,
    versions: u32,
    /// Whether the filter sees no more versions than these.
    filters_versions: bool,
    time: Range<i64>,
    filter: Option<Filter>,
    rows: Window,
    cells: Window,
    cells_of_row: Window,
    cells_of_family: Window,
    is_keys_only: bool,
    shows_deletes: bool,
}

/// Which of the things that are counted are shown: all but the first `offset`, and of these the first `limit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Window {
    offset: u64,
    limit: u64,
}

impl Window {
    const ALL: Window = Window { offset: 0, limit: u64::MAX };

    /// How many are counted until all that are shown were.
    fn end(self) -> u64 {
        self.offset.saturating_add(self.limit)
    }
}

impl Default for Read {
    fn default() -> Self {
        Read::all()
    }
}

impl Read {
    /// Reads the latest version of all columns.
    pub fn all() -> Read {
        Read {
            columns: Vec::new(),
            versions: 1,
            filters_versions: false,
            time: 0..i64::MAX,
            filter: None,
            rows: Window::ALL,
            cells: Window::ALL,
            cells_of_row: Window::ALL,
            cells_of_family: Window::ALL,
            is_keys_only: false,
            shows_deletes: false,
        }
    }

    /// Reads the latest version of the columns of a family.
    pub fn family(family: &str) -> Read {
        Read::all().family_too(family)
    }

    /// Reads the latest version of a column.
    pub fn column(family: &str, qualifier: impl Into<Vec<u8>>) -> Read {
        Read::all().column_too(family, qualifier)
    }

    /// Reads the columns of a family too.
    #[must_use]
    pub fn family_too(mut self, family: &str) -> Read {
        self.columns.push((family.to_owned(), None));
        self
    }

    /// Reads a column too.
    #[must_use]
    pub fn column_too(mut self, family: &str, qualifier: impl Into<Vec<u8>>) -> Read {
        self.columns.push((family.to_owned(), Some(qualifier.into())));
        self
    }

    /// Reads so many versions of each column at most, of those that the family keeps.
    #[must_use]
    pub fn versions(mut self, versions: u32) -> Read {
        self.versions = versions;
        self
    }

    /// Reads cells with these timestamps only, in milliseconds since 1970. The end is not among them.
    #[must_use]
    pub fn time(mut self, time: Range<i64>) -> Read {
        self.time = time;
        self
    }

    /// Reads what `filter` lets through. [`Read::versions`] and the limits count what it has let through.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Read {
        (self.filter, self.filters_versions) = (Some(filter), false);
        self
    }

    /// As [`Read::filter`], of the versions alone that are read without a filter: [`Read::versions`] counts before `filter` is asked.
    #[must_use]
    pub fn filter_versions(mut self, filter: Filter) -> Read {
        (self.filter, self.filters_versions) = (Some(filter), true);
        self
    }

    /// Leaves out the first `offset` rows of which something is read, and reads `limit` rows.
    #[must_use]
    pub fn limit_rows(mut self, limit: u64, offset: u64) -> Read {
        self.rows = Window { offset, limit };
        self
    }

    /// Leaves out the first `offset` cells of the whole read, and reads `limit` cells.
    #[must_use]
    pub fn limit_cells(mut self, limit: u64, offset: u64) -> Read {
        self.cells = Window { offset, limit };
        self
    }

    /// Leaves out the first `offset` cells of each row, and reads `limit` cells of it.
    #[must_use]
    pub fn limit_cells_per_row(mut self, limit: u64, offset: u64) -> Read {
        self.cells_of_row = Window { offset, limit };
        self
    }

    /// Leaves out the first `offset` cells of each family of a row, and reads `limit` cells of it. A filter that decides about
    /// a whole row sees no others.
    #[must_use]
    pub fn limit_cells_per_family(mut self, limit: u64, offset: u64) -> Read {
        self.cells_of_family = Window { offset, limit };
        self
    }

    /// Shows deletes among the cells, as far as merges have not removed them yet: [`Scan::delete`]. Those of a row come before
    /// its cells, those of a family before the family's, and those of a column or version before the column's; the latest come
    /// first. A read of some columns shows the deletes that may hide them.
    ///
    /// [`Read::time`] and the limits are about deletes as about cells, [`Read::versions`] and [`Read::limit_cells_per_family`]
    /// are not. A filter decides about rows, and their deletes with them; it is not asked about single deletes. Neither
    /// indexes nor the query cache are used.
    #[must_use]
    pub fn with_deletes(mut self) -> Read {
        self.shows_deletes = true;
        self
    }

    /// Whether it shows deletes too.
    pub(crate) fn shows_deletes(&self) -> bool {
        self.shows_deletes
    }

    /// What cells each row has that shows something: one of each of these. `None`: what a row shows depends on other rows.
    pub(crate) fn wishes(&self) -> Option<Vec<Wish>> {
        match &self.filter {
            None => Some(Vec::new()),
            Some(filter) => filter.wishes(),
        }
    }

    /// The filter, if it may narrow what is read of a row. Deletes are in rows that show no cells.
    fn narrowing(&self, schema: &Schema) -> Option<&Filter> {
        let filter = self.filter.as_ref().filter(|_| !self.shows_deletes)?;
        Some(filter).filter(|filter| filter.is_simple(schema.families().count()))
    }

    /// Whether the columns by which the filter decides about a row are read first, and alone. Limits of families count what is
    /// before them.
    fn decides_first(&self, schema: &Schema) -> bool {
        self.narrowing(schema).is_some_and(Filter::decides_by_columns) && self.cells_of_family == Window::ALL
    }

    /// The families and columns that it names.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (&str, Option<&[u8]>)> {
        self.columns.iter().map(|(family, qualifier)| (family.as_str(), qualifier.as_deref()))
    }

    /// Reads no values: cells are shown without.
    #[must_use]
    pub fn keys_only(mut self) -> Read {
        self.is_keys_only = true;
        self
    }
}

/// What a delete removes: cells with timestamps up to its own, or with its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeleteKind {
    /// The cells of a row.
    Row,
    /// The cells of a family of a row.
    Family,
    /// The cells of a column of a row.
    Column,
    /// The version of a column of a row that has the delete's own timestamp.
    Version,
}

/// A cell that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// The name of the column family.
    pub family: String,
    /// What names the column in its family.
    pub qualifier: Vec<u8>,
    /// In milliseconds since 1970.
    pub timestamp: i64,
    /// The cell's bytes.
    pub value: Vec<u8>,
}

/// The value of a cell, until the scan goes on: lent, unless the read asks for keys only or a filter shows something else.
#[derive(Debug, Clone, Copy)]
pub struct CellValue<'a> {
    shown: Shown<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Shown<'a> {
    Stored(ValueRef<'a>),
    Nothing,
    /// A length, as filters show it.
    Length([u8; 4]),
    /// From the query cache; and whether the store has it so.
    Cached(&'a [u8], bool),
}

impl<'a> CellValue<'a> {
    /// The length in bytes, without reading them.
    pub fn len(&self) -> u64 {
        match &self.shown {
            Shown::Stored(value) => value.len(),
            Shown::Nothing => 0,
            Shown::Length(length) => length.len() as u64,
            Shown::Cached(bytes, _) => bytes.len() as u64,
        }
    }

    /// Whether the value has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All bytes: borrowed, unless the value is huge. A huge one is read anew by every call.
    ///
    /// # Errors
    /// `Store` when a huge value cannot be read.
    pub fn bytes(&self) -> Result<Cow<'a, [u8]>> {
        match &self.shown {
            Shown::Stored(value) => Ok(value.bytes()?),
            Shown::Nothing => Ok(Cow::Borrowed(&[])),
            Shown::Length(length) => Ok(Cow::Owned(length.to_vec())),
            Shown::Cached(bytes, _) => Ok(Cow::Borrowed(bytes)),
        }
    }

    /// Appends all bytes to `out`. A huge value is read to where it stands then, and allocates nothing if `out` has
    /// the capacity.
    ///
    /// # Errors
    /// As [`CellValue::bytes`]. Then `out` has what it had.
    #[inline]
    pub fn append_to(&self, out: &mut Vec<u8>) -> Result<()> {
        match &self.shown {
            Shown::Stored(value) => value.append_to(out)?,
            Shown::Nothing => {}
            Shown::Length(length) => out.extend_from_slice(length),
            Shown::Cached(bytes, _) => out.extend_from_slice(bytes),
        }
        Ok(())
    }

    /// One that the query cache has, and whether it is what the store has.
    pub(crate) fn cached(bytes: &'a [u8], is_stored: bool) -> CellValue<'a> {
        CellValue { shown: Shown::Cached(bytes, is_stored) }
    }

    /// Whether it is what the store has: not a length, and not left out.
    pub(crate) fn is_stored(&self) -> bool {
        matches!(self.shown, Shown::Stored(_) | Shown::Cached(_, true))
    }

    /// The value, to keep, or to read in part. `None`: it is not what the store has.
    pub(crate) fn to_value(self) -> Result<Option<Value>> {
        match self.shown {
            Shown::Stored(value) => Ok(Some(value.to_value()?)),
            Shown::Cached(bytes, true) => Ok(Some(Value::from(bytes.to_vec()))),
            Shown::Nothing | Shown::Length(_) | Shown::Cached(_, false) => Ok(None),
        }
    }
}
