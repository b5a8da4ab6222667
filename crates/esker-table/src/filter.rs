//! Filters of reads: which rows, columns and versions a read shows, decided where the cells are.
//!
//! ```text
//! text --parse--> Filter --for one scan--> Judge     row, cell, cell ... end of the row
//!      language     here                   judge       '-- what to show, and where to look next
//! ```
//! The filters, their names and their language are those of HBase 2.5. `docs/tables.md` lists where they differ.

mod columns;
mod comparator;
mod java;
mod judge;
mod language;

use core::ops::{Bound, Range};

pub(crate) use columns::Ranges;
pub use comparator::{Beginning, Comparator, Comparison};
pub(crate) use judge::{Code, Judge, Seen, Show};

use crate::span::Span;

/// The most parts of a table that a filter sends a scan to.
const SPANS_MAX: usize = 256;

/// Which rows, columns and versions a read shows: [`Read::filter`](crate::Read::filter).
///
/// A filter is asked about the cells of a row in their order: each version that counts and is in the read's columns and
/// time range. [`Read::versions`](crate::Read::versions) counts what it lets through.
///
/// # Example
/// ```
/// use esker_table::{Comparator, Comparison, Filter};
///
/// let built = Filter::prefix("oslo-").and(Filter::qualifier(Comparison::NotEqual, Comparator::binary("wind")));
/// let read = Filter::parse(b"PrefixFilter('oslo-') AND QualifierFilter(!=, 'binary:wind')")?;
/// assert_eq!(built, read);
/// # Ok::<(), esker_table::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Filter {
    kind: Kind,
}

/// A column that a filter looks at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Column {
    family: Vec<u8>,
    qualifier: Vec<u8>,
}

/// What is compared, and how.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Test {
    comparison: Comparison,
    comparator: Comparator,
}

/// What a filter wants of some cell of each row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) family: Option<Vec<u8>>,
    pub(crate) qualifier: Option<Vec<u8>>,
    /// The value, or how it begins.
    pub(crate) value: Option<(Vec<u8>, bool)>,
}

impl Test {
    /// The bytes that pass it alone, or how all begin that do.
    fn wanted(&self) -> Option<(Vec<u8>, bool)> {
        let (bytes, is_prefix) = self.comparator.bytes().filter(|_| self.comparison == Comparison::Equal)?;
        Some((bytes.to_vec(), is_prefix))
    }

    /// Where the rows are whose keys may pass it.
    fn spans(&self) -> Vec<Span> {
        vec![match (self.comparison, self.comparator.bytes()) {
            (Comparison::Equal, _) => return self.comparator.rows(),
            (Comparison::Less, Some((row, _))) => Span::rows(..row),
            (Comparison::LessOrEqual, Some((row, false))) => Span::rows(..=row),
            (Comparison::LessOrEqual, Some((prefix, true))) => match esker::keys::prefix_end(prefix) {
                Some(behind) => Span::rows(..behind),
                None => Span::all(),
            },
            (Comparison::Greater | Comparison::GreaterOrEqual, Some((row, _))) => Span::rows(row..),
            _ => Span::all(),
        }]
    }
}

/// These spans, or if they are too many to be worth it, one that has them all.
fn bounded(spans: Vec<Span>) -> Vec<Span> {
    if spans.len() <= SPANS_MAX { spans } else { hull(spans) }
}

/// One span that has all of these.
fn hull(spans: Vec<Span>) -> Vec<Span> {
    spans.into_iter().reduce(|one, other| one.hull(&other)).into_iter().collect()
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Kind {
    KeyOnly {
        /// Shows lengths in place of values.
        lengths: bool,
    },
    FirstKeyOnly,
    Prefix(Vec<u8>),
    ColumnPrefix(Vec<u8>),
    /// Sorted, no two alike.
    ColumnPrefixes(Vec<Vec<u8>>),
    ColumnCountGet(u32),
    Page(u64),
    ColumnPagination {
        limit: u32,
        offset: u32,
    },
    InclusiveStop(Vec<u8>),
    /// Sorted, no two alike.
    Timestamps(Vec<i64>),
    Row(Test),
    Family(Test),
    Qualifier(Test),
    Value(Test),
    SingleColumn {
        column: Column,
        test: Test,
        if_missing: bool,
        latest_only: bool,
        exclude: bool,
    },
    DependentColumn {
        column: Column,
        drop: bool,
        test: Option<Test>,
    },
    ColumnRange {
        /// Empty: no bound; and whether it is included.
        from: (Vec<u8>, bool),
        to: (Vec<u8>, bool),
    },
    ColumnValue {
        column: Column,
        test: Test,
    },
    RowWith(Box<Filter>),
    Skip(Box<Filter>),
    While(Box<Filter>),
    All(Vec<Filter>),
    Any(Vec<Filter>),
}

impl Filter {
    fn of(kind: Kind) -> Filter {
        Filter { kind }
    }

    /// Shows cells without their values: `KeyOnlyFilter`.
    pub fn key_only() -> Filter {
        Filter::of(Kind::KeyOnly { lengths: false })
    }

    /// Shows the lengths of values in place of them, as 4 bytes, big-endian: `KeyOnlyFilter(true)`.
    pub fn key_and_length_only() -> Filter {
        Filter::of(Kind::KeyOnly { lengths: true })
    }

    /// Shows the first cell of each row: `FirstKeyOnlyFilter`.
    pub fn first_key_only() -> Filter {
        Filter::of(Kind::FirstKeyOnly)
    }

    /// Shows the rows that begin with `prefix`: `PrefixFilter`.
    pub fn prefix(prefix: impl Into<Vec<u8>>) -> Filter {
        Filter::of(Kind::Prefix(prefix.into()))
    }

    /// Shows the columns whose qualifiers begin with `prefix`: `ColumnPrefixFilter`.
    pub fn column_prefix(prefix: impl Into<Vec<u8>>) -> Filter {
        Filter::of(Kind::ColumnPrefix(prefix.into()))
    }

    /// Shows the columns whose qualifiers begin with one of `prefixes`: `MultipleColumnPrefixFilter`. If there are none, all.
    /// As in HBase, of two prefixes of which one begins with the other, only the longer one counts for qualifiers that are not
    /// below it.
    pub fn column_prefixes<P: Into<Vec<u8>>>(prefixes: impl IntoIterator<Item = P>) -> Filter {
        let mut prefixes: Vec<Vec<u8>> = prefixes.into_iter().map(Into::into).collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        Filter::of(Kind::ColumnPrefixes(prefixes))
    }

    /// Shows the first `limit` columns of a row, the latest version of each: `ColumnCountGetFilter`. A scan ends behind the
    /// first row that has more; [`Filter::column_pagination`] goes on.
    pub fn column_count_get(limit: u32) -> Filter {
        Filter::of(Kind::ColumnCountGet(limit))
    }

    /// Ends behind so many rows: `PageFilter`. See also [`Read::limit_rows`](crate::Read::limit_rows).
    pub fn page(rows: u64) -> Filter {
        Filter::of(Kind::Page(rows))
    }

    /// Leaves out the first `offset` columns of each row, and shows the next `limit`, the latest version of each:
    /// `ColumnPaginationFilter`.
    pub fn column_pagination(limit: u32, offset: u32) -> Filter {
        Filter::of(Kind::ColumnPagination { limit, offset })
    }

    /// Ends behind `row`: `InclusiveStopFilter`.
    pub fn inclusive_stop(row: impl Into<Vec<u8>>) -> Filter {
        Filter::of(Kind::InclusiveStop(row.into()))
    }

    /// Shows the cells with these timestamps: `TimestampsFilter`.
    pub fn timestamps(timestamps: impl IntoIterator<Item = i64>) -> Filter {
        let mut timestamps: Vec<i64> = timestamps.into_iter().collect();
        timestamps.sort_unstable();
        timestamps.dedup();
        Filter::of(Kind::Timestamps(timestamps))
    }

    /// Shows the rows that compare so: `RowFilter`.
    pub fn row(comparison: Comparison, comparator: Comparator) -> Filter {
        Filter::of(Kind::Row(Test { comparison, comparator }))
    }

    /// Shows the families whose names compare so: `FamilyFilter`.
    pub fn family(comparison: Comparison, comparator: Comparator) -> Filter {
        Filter::of(Kind::Family(Test { comparison, comparator }))
    }

    /// Shows the columns whose qualifiers compare so: `QualifierFilter`.
    pub fn qualifier(comparison: Comparison, comparator: Comparator) -> Filter {
        Filter::of(Kind::Qualifier(Test { comparison, comparator }))
    }

    /// Shows the cells whose values compare so: `ValueFilter`. A regular expression or a part of a text reads the whole of a
    /// huge value into memory; other comparisons read its beginning.
    pub fn value(comparison: Comparison, comparator: Comparator) -> Filter {
        Filter::of(Kind::Value(Test { comparison, comparator }))
    }

    /// Shows the rows in which the value of a column compares so: `SingleColumnValueFilter`. A row without the column is left
    /// out `if_missing`. `latest_only`: the latest version decides; otherwise one that compares so suffices.
    ///
    /// The read must ask for the column too: a column that it does not read is missing.
    pub fn single_column_value(
        family: &str,
        qualifier: impl Into<Vec<u8>>,
        comparison: Comparison,
        comparator: Comparator,
        if_missing: bool,
        latest_only: bool,
    ) -> Filter {
        let column = Column { family: family.into(), qualifier: qualifier.into() };
        let test = Test { comparison, comparator };
        Filter::of(Kind::SingleColumn { column, test, if_missing, latest_only, exclude: false })
    }

    /// As [`Filter::single_column_value`], and does not show the column: `SingleColumnValueExcludeFilter`.
    pub fn single_column_value_exclude(
        family: &str,
        qualifier: impl Into<Vec<u8>>,
        comparison: Comparison,
        comparator: Comparator,
        if_missing: bool,
        latest_only: bool,
    ) -> Filter {
        let column = Column { family: family.into(), qualifier: qualifier.into() };
        let test = Test { comparison, comparator };
        Filter::of(Kind::SingleColumn { column, test, if_missing, latest_only, exclude: true })
    }

    /// Shows the cells of a row whose timestamps are among those of a column: `DependentColumnFilter`. With `test`, only
    /// versions of the column whose values compare so count. `drop`: the column itself is not shown.
    ///
    /// The read must ask for the column too. While a row is read, 16 bytes are kept for each of the column's versions.
    pub fn dependent_column(
        family: &str,
        qualifier: impl Into<Vec<u8>>,
        drop: bool,
        test: Option<(Comparison, Comparator)>,
    ) -> Filter {
        let column = Column { family: family.into(), qualifier: qualifier.into() };
        let test = test.map(|(comparison, comparator)| Test { comparison, comparator });
        Filter::of(Kind::DependentColumn { column, drop, test })
    }

    /// Shows the columns whose qualifiers are in a range: `ColumnRangeFilter`. As there, an empty bound is none.
    pub fn column_range(from: Bound<&[u8]>, to: Bound<&[u8]>) -> Filter {
        let bound = |bound: Bound<&[u8]>| match bound {
            Bound::Included(qualifier) => (qualifier.to_vec(), true),
            Bound::Excluded(qualifier) => (qualifier.to_vec(), false),
            Bound::Unbounded => (Vec::new(), true),
        };
        Filter::of(Kind::ColumnRange { from: bound(from), to: bound(to) })
    }

    /// Shows the versions of one column whose values compare so, and nothing else: `ColumnValueFilter`.
    pub fn column_value(
        family: &str,
        qualifier: impl Into<Vec<u8>>,
        comparison: Comparison,
        comparator: Comparator,
    ) -> Filter {
        let column = Column { family: family.into(), qualifier: qualifier.into() };
        Filter::of(Kind::ColumnValue { column, test: Test { comparison, comparator } })
    }

    /// Shows the rows that have a column of whose latest version this filter shows something. It is no filter of HBase.
    ///
    /// The read must ask for the columns too: what it does not read is not there. In a list, it is asked about what the filters
    /// before it show.
    ///
    /// # Example
    /// ```
    /// use esker_table::{Comparator, Comparison, Filter};
    ///
    /// // The titles of photos that somebody in Oslo has seen.
    /// let seen = Filter::family(Comparison::Equal, Comparator::binary("seen"));
    /// let in_oslo = Filter::value(Comparison::Equal, Comparator::prefix("Oslo"));
    /// let titles = Filter::family(Comparison::Equal, Comparator::binary("title"));
    /// let filter = seen.and(in_oslo).row_with().and(titles);
    /// ```
    #[must_use]
    pub fn row_with(self) -> Filter {
        Filter::of(Kind::RowWith(Box::new(self)))
    }

    /// Leaves out whole rows in which this filter does not show a cell: `SKIP`. As in HBase, filters that decide by the row
    /// alone do not decide within it.
    #[must_use]
    pub fn skip(self) -> Filter {
        Filter::of(Kind::Skip(Box::new(self)))
    }

    /// Ends at the first row or cell that this filter does not show: `WHILE`. As in HBase, a filter that shows a cell and tells
    /// to go to the next column, as [`Filter::column_pagination`], ends there too.
    #[must_use]
    pub fn while_match(self) -> Filter {
        Filter::of(Kind::While(Box::new(self)))
    }

    /// Shows what both show. They are asked in their order, and the second one only about what the first one shows.
    #[must_use]
    pub fn and(self, other: Filter) -> Filter {
        match self.kind {
            Kind::All(mut filters) => {
                filters.push(other);
                Filter::all(filters)
            }
            kind => Filter::all([Filter { kind }, other]),
        }
    }

    /// Shows what one of them shows.
    #[must_use]
    pub fn or(self, other: Filter) -> Filter {
        match self.kind {
            Kind::Any(mut filters) => {
                filters.push(other);
                Filter::any(filters)
            }
            kind => Filter::any([Filter { kind }, other]),
        }
    }

    /// Shows what all of `filters` show; everything if there are none.
    pub fn all(filters: impl IntoIterator<Item = Filter>) -> Filter {
        Filter::of(Kind::All(filters.into_iter().collect()))
    }

    /// Shows what one of `filters` shows; everything if there are none.
    pub fn any(filters: impl IntoIterator<Item = Filter>) -> Filter {
        Filter::of(Kind::Any(filters.into_iter().collect()))
    }

    /// Whether a row has to be walked before it is known whether something of it is shown.
    fn is_late(&self) -> bool {
        match &self.kind {
            Kind::SingleColumn { .. } | Kind::DependentColumn { .. } | Kind::RowWith(_) | Kind::Skip(_) => {
                true
            }
            Kind::While(filter) => filter.is_late(),
            Kind::All(filters) | Kind::Any(filters) => filters.iter().any(Filter::is_late),
            _ => false,
        }
    }

    /// The parts of the table outside of which nothing is shown, and no row has an effect on others.
    pub(crate) fn spans(&self, is_reversed: bool) -> Vec<Span> {
        if self.has_while() { vec![Span::all()] } else { self.spans_of_rows(is_reversed) }
    }

    /// Whether a cell may end the scan.
    fn may_end_in_row(&self) -> bool {
        match &self.kind {
            Kind::ColumnCountGet(_) | Kind::While(_) => true,
            Kind::RowWith(filter) => filter.may_end_in_row(),
            Kind::All(filters) | Kind::Any(filters) => filters.iter().any(Filter::may_end_in_row),
            _ => false,
        }
    }

    /// Whether a row that is not shown may end the scan.
    fn has_while(&self) -> bool {
        match &self.kind {
            Kind::While(_) => true,
            Kind::Skip(filter) | Kind::RowWith(filter) => filter.has_while(),
            Kind::All(filters) | Kind::Any(filters) => filters.iter().any(Filter::has_while),
            _ => false,
        }
    }

    /// Whether there may be a row from which on it shows nothing.
    fn may_end(&self) -> bool {
        match &self.kind {
            Kind::ColumnCountGet(_)
            | Kind::Page(_)
            | Kind::Prefix(_)
            | Kind::InclusiveStop(_)
            | Kind::While(_) => true,
            Kind::RowWith(filter) | Kind::Skip(filter) => filter.may_end(),
            Kind::All(filters) | Kind::Any(filters) => filters.iter().any(Filter::may_end),
            _ => false,
        }
    }

    /// Whether it decides about each row by that row alone.
    fn is_of_one_row(&self) -> bool {
        match &self.kind {
            Kind::ColumnCountGet(_) | Kind::Page(_) | Kind::InclusiveStop(_) | Kind::While(_) => false,
            Kind::RowWith(filter) | Kind::Skip(filter) => filter.is_of_one_row(),
            Kind::All(filters) | Kind::Any(filters) => filters.iter().all(Filter::is_of_one_row),
            _ => true,
        }
    }

    /// Cells of which each row that shows something has all. `None`: what a row shows depends on other rows.
    pub(crate) fn wishes(&self) -> Option<Vec<Wish>> {
        let mut wishes = Vec::new();
        self.is_of_one_row().then(|| self.wish(&mut wishes))?;
        Some(wishes)
    }

    fn wish(&self, wishes: &mut Vec<Wish>) {
        match &self.kind {
            Kind::All(filters) => filters.iter().for_each(|filter| filter.wish(wishes)),
            Kind::RowWith(filter) => {
                let mut wish = Wish::default();
                filter.describe(&mut wish);
                wishes.push(wish);
            }
            Kind::SingleColumn { column, test, if_missing: true, .. }
            | Kind::ColumnValue { column, test } => {
                let mut wish = Wish { value: test.wanted(), ..Wish::default() };
                wish.family = Some(column.family.clone());
                wish.qualifier = Some(column.qualifier.clone());
                wishes.push(wish);
            }
            _ => {}
        }
    }

    /// Notes what each cell is like that the filter shows.
    fn describe(&self, wish: &mut Wish) {
        let exactly =
            |test: &Test| test.wanted().and_then(|(bytes, is_prefix)| (!is_prefix).then_some(bytes));
        match &self.kind {
            Kind::All(filters) => filters.iter().for_each(|filter| filter.describe(wish)),
            Kind::Family(test) => wish.family = exactly(test).or(wish.family.take()),
            Kind::Qualifier(test) => wish.qualifier = exactly(test).or(wish.qualifier.take()),
            Kind::Value(test) => wish.value = test.wanted().or(wish.value.take()),
            _ => {}
        }
    }

    fn has_row_with(&self) -> bool {
        match &self.kind {
            Kind::RowWith(_) => true,
            Kind::Skip(filter) | Kind::While(filter) => filter.has_row_with(),
            Kind::All(filters) | Kind::Any(filters) => filters.iter().any(Filter::has_row_with),
            _ => false,
        }
    }

    fn spans_of_rows(&self, is_reversed: bool) -> Vec<Span> {
        match &self.kind {
            Kind::Prefix(prefix) => vec![Span::prefix(prefix)],
            Kind::InclusiveStop(row) if is_reversed => vec![Span::rows(row.as_slice()..)],
            Kind::InclusiveStop(row) => vec![Span::rows(..=row.as_slice())],
            Kind::Row(test) => test.spans(),
            Kind::All(filters) => {
                let all = vec![Span::all()];
                let spans = filters.iter().map(|filter| filter.spans_of_rows(is_reversed));
                spans.fold(all, |spans, others| bounded(Span::intersection(spans, others)))
            }
            Kind::Any(filters) if !filters.is_empty() => {
                let spans = Span::sorted(filters.iter().flat_map(|filter| filter.spans_of_rows(is_reversed)));
                // Where a member ends may be between two spans, and it counts for the others that it has.
                if filters.iter().any(Filter::may_end) { hull(spans) } else { bounded(spans) }
            }
            _ => vec![Span::all()],
        }
    }

    /// The timestamps outside of which nothing is shown, if the filter looks at nothing else.
    pub(crate) fn time(&self) -> Option<Range<i64>> {
        let Kind::Timestamps(timestamps) = &self.kind else { return None };
        Some(match (timestamps.first(), timestamps.last()) {
            (Some(first), Some(last)) => *first..last.saturating_add(1),
            _ => 0..0,
        })
    }
}
