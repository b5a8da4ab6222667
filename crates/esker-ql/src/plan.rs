//! What a query reads: which parts of the table, which columns, and by which filter.
//!
//! ```text
//! ROW, CELL                  spans: the scan seeks each of them; regular expressions are filters too
//! columns, TIMESTAMP         the read; patterns of columns are filters
//! cf = 'v'                   a filter of rows, which also reads that column
//! VALUE REGEXP               a filter of cells
//! ```

use core::ops::Range;
use std::collections::BTreeSet;

use esker_table::{AccessGroup, Comparator, Comparison, DeleteKind, Family, Filter, Read, Schema, Span};

use crate::error::{Error, Result};
use crate::names::no_family;
use crate::print::quoted;
use crate::statement::{
    Bound, CellPlace, CellRange, ColumnTest, Columns, Interval, Placed, Qualifiers, Rows, Select, Term,
    ValueTest,
};

/// The most regular expressions of a query.
const PATTERNS_MAX: usize = 32;

/// How many characters [`Plan::describe`] prints of a condition.
const DESCRIBED_MAX: usize = 200;

/// How a query is read.
pub(crate) struct Plan {
    pub(crate) spans: Vec<Span>,
    pub(crate) read: Read,
    pub(crate) is_reversed: bool,
    /// How many rows and cells of the offsets the read leaves out.
    pub(crate) left_out: (u64, u64),
    /// The families that are read; none: all.
    families: Vec<String>,
    /// What decides where the scan goes, and what decides cell by cell, in the words of the language.
    places: Vec<String>,
    tests: Vec<String>,
    time: Range<i64>,
}

/// The parts of a filter, in the order in which they are asked.
#[derive(Default)]
struct Filters {
    filters: Vec<Filter>,
    patterns: usize,
}

/// The regular expression `pattern` of a query. `patterns` counts those that the query has.
pub(crate) fn regexp(pattern: &Placed<Vec<u8>>, patterns: &mut usize) -> Result<Comparator> {
    *patterns += 1;
    let impossible = |message| Err(Error::Impossible(message).at(pattern.at()));
    if *patterns > PATTERNS_MAX {
        return impossible(format!("a query has {PATTERNS_MAX} regular expressions at most"));
    }
    match std::str::from_utf8(pattern) {
        Ok(text) => Comparator::regex(text).map_err(|error| Error::from(error).at(pattern.at())),
        Err(_) => impossible(format!("the regular expression {} is not UTF-8", quoted(pattern))),
    }
}

/// Columns, and the expression of their qualifiers if there is one.
pub(crate) struct Tested {
    pub(crate) columns: Columns,
    pattern: Option<Comparator>,
}

impl Tested {
    pub(crate) fn new(columns: &Columns, patterns: &mut usize) -> Result<Tested> {
        let pattern = match &columns.qualifiers {
            Qualifiers::Regexp(pattern) => Some(regexp(pattern, patterns)?),
            _ => None,
        };
        Ok(Tested { columns: columns.clone(), pattern })
    }

    /// How the qualifiers begin, if that is known.
    pub(crate) fn beginnings(&self) -> Option<Vec<Vec<u8>>> {
        match &self.columns.qualifiers {
            Qualifiers::All => None,
            Qualifiers::Exactly(bytes) | Qualifiers::Prefix(bytes) => Some(vec![bytes.clone()]),
            Qualifiers::Regexp(_) => {
                let beginnings = self.pattern.as_ref().and_then(Comparator::beginnings)?;
                Some(beginnings.into_iter().map(|beginning| beginning.bytes).collect())
            }
        }
    }

    /// Whether a column is one of them.
    pub(crate) fn has(&self, family: &str, qualifier: &[u8]) -> bool {
        *self.columns.family == family
            && match (&self.columns.qualifiers, &self.pattern) {
                (_, Some(pattern)) => pattern.is_match(qualifier),
                (Qualifiers::Exactly(exactly), _) => *exactly == qualifier,
                (Qualifiers::Prefix(prefix), _) => qualifier.starts_with(prefix),
                (Qualifiers::All | Qualifiers::Regexp(_), _) => true,
            }
    }
}

/// Which deletes a query shows, of those in the rows that it shows.
pub(crate) struct ShownDeletes {
    /// None: those of all columns.
    columns: Vec<Tested>,
    /// Whether it asks for values, which deletes do not have.
    asks_values: bool,
}

impl ShownDeletes {
    pub(crate) fn of(select: &Select) -> Result<ShownDeletes> {
        let mut patterns = 0;
        let columns = select.columns.iter().map(|columns| Tested::new(columns, &mut patterns));
        let asks_values = select.terms.iter().any(|term| matches!(term, Term::ValueRegexp(_)));
        Ok(ShownDeletes { columns: columns.collect::<Result<_>>()?, asks_values })
    }

    /// Whether it shows a delete: if there may be a cell among those that it asks for that the delete hides.
    pub(crate) fn has(&self, kind: DeleteKind, family: &str, qualifier: &[u8]) -> bool {
        let has = |tested: &Tested| match kind {
            DeleteKind::Row => true,
            DeleteKind::Family => *tested.columns.family == family,
            DeleteKind::Column | DeleteKind::Version => tested.has(family, qualifier),
        };
        !self.asks_values && (self.columns.is_empty() || self.columns.iter().any(has))
    }
}

/// The part of `time` that is in the interval.
pub(crate) fn narrowed(time: &Range<i64>, interval: &Interval<i64>) -> Range<i64> {
    let low = interval.low.as_ref().map_or(0, |low| low.at.saturating_add(i64::from(!low.is_included)));
    let high = interval.high.as_ref();
    let high = high.map_or(i64::MAX, |high| high.at.saturating_add(i64::from(high.is_included)));
    time.start.max(low)..time.end.min(high)
}

impl Filters {
    fn regexp(&mut self, pattern: &Placed<Vec<u8>>) -> Result<Comparator> {
        regexp(pattern, &mut self.patterns)
    }

    /// The cells of these columns.
    fn of_columns(&mut self, columns: &Columns) -> Result<Filter> {
        let family = Filter::family(Comparison::Equal, Comparator::binary(columns.family.as_str()));
        Ok(match &columns.qualifiers {
            Qualifiers::All => family,
            Qualifiers::Exactly(qualifier) => {
                family.and(Filter::qualifier(Comparison::Equal, Comparator::binary(qualifier.as_slice())))
            }
            Qualifiers::Prefix(prefix) => family.and(Filter::column_prefix(prefix.as_slice())),
            Qualifiers::Regexp(pattern) => {
                family.and(Filter::qualifier(Comparison::Equal, self.regexp(pattern)?))
            }
        })
    }

    fn of_value(&mut self, test: &ValueTest) -> Result<Filter> {
        let comparator = match test {
            ValueTest::Exactly(value) => Comparator::binary(value.as_slice()),
            ValueTest::Prefix(prefix) => Comparator::prefix(prefix.as_slice()),
            ValueTest::Regexp(pattern) => self.regexp(pattern)?,
        };
        Ok(Filter::value(Comparison::Equal, comparator))
    }

    /// The rows that one of `rows` has, as a filter, and the parts of the table in which they are.
    fn of_rows(&mut self, rows: &[Rows]) -> Result<(Filter, Vec<Span>)> {
        let (mut any, mut spans) = (Vec::new(), Vec::new());
        for rows in rows {
            any.push(match rows {
                Rows::Exactly(row) => Filter::row(Comparison::Equal, Comparator::binary(row.as_slice())),
                Rows::Prefix(prefix) => Filter::row(Comparison::Equal, Comparator::prefix(prefix.as_slice())),
                Rows::Regexp(pattern) => {
                    let comparator = self.regexp(pattern)?;
                    spans.extend(comparator.rows());
                    Filter::row(Comparison::Equal, comparator)
                }
                Rows::Within(Interval { low, high }) => {
                    let bound = |bound: &Option<Bound<Vec<u8>>>, included, excluded| {
                        bound.as_ref().map(|Bound { at, is_included }| {
                            let comparison = if *is_included { included } else { excluded };
                            Filter::row(comparison, Comparator::binary(at.as_slice()))
                        })
                    };
                    let low = bound(low, Comparison::GreaterOrEqual, Comparison::Greater);
                    let high = bound(high, Comparison::LessOrEqual, Comparison::Less);
                    Filter::all(low.into_iter().chain(high))
                }
            });
            spans.extend(span_of_rows(rows));
        }
        Ok((Filter::any(any), spans))
    }
}

/// The places that a part of the table is told by.
fn places(cells: &CellRange) -> Vec<&CellPlace> {
    match cells {
        CellRange::Within(Interval { low, high }) => {
            [low, high].into_iter().flatten().map(|bound| &bound.at).collect()
        }
        CellRange::Prefix(place) => vec![place],
    }
}

/// The families that a query names: of columns, of conditions and of bounds. Those of a name that the table does not have are
/// mistakes.
fn named_families(select: &Select) -> impl Iterator<Item = &Placed<String>> {
    let of_terms = select.terms.iter().flat_map(|term| match term {
        Term::Columns(tests) => tests.iter().map(|test| &test.columns.family).collect(),
        Term::Cells(cells) => cells.iter().flat_map(places).map(|place| &place.column.family).collect(),
        Term::Rows(_) | Term::Time(_) | Term::ValueRegexp(_) => Vec::new(),
    });
    select.columns.iter().map(|columns| &columns.family).chain(of_terms)
}

/// Fails if the query names a family that the table does not have.
pub(crate) fn check_families(select: &Select, schema: &Schema, table: &str) -> Result<()> {
    check_named(named_families(select), schema, table)
}

/// Fails if one of `named` is no family of the table.
pub(crate) fn check_named<'n>(
    mut named: impl Iterator<Item = &'n Placed<String>>,
    schema: &Schema,
    table: &str,
) -> Result<()> {
    let families = schema.groups().iter().flat_map(AccessGroup::families);
    let known: BTreeSet<&str> = families.map(Family::name).collect();
    match named.find(|family| !known.contains(family.as_str())) {
        None => Ok(()),
        Some(family) => Err(no_family(table, family, schema)),
    }
}

impl Plan {
    pub(crate) fn of(select: &Select) -> Result<Plan> {
        let (mut spans, mut filters) = (vec![Span::all()], Filters::default());
        let (mut time, mut conditions) = (0..i64::MAX, Vec::new());
        let (mut places, mut tests) = (Vec::new(), Vec::new());
        for term in &select.terms {
            match term {
                Term::Rows(rows) if rows.iter().any(|rows| matches!(rows, Rows::Regexp(_))) => {
                    let (filter, within) = filters.of_rows(rows)?;
                    filters.filters.push(filter);
                    tests.push(described(term));
                    if !within.contains(&Span::all()) {
                        spans = Span::intersection(spans, within);
                        places.push(described(term));
                    }
                }
                Term::Rows(rows) => {
                    spans = Span::intersection(spans, rows.iter().filter_map(span_of_rows));
                    places.push(described(term));
                }
                Term::Cells(cells) => {
                    spans = Span::intersection(spans, cells.iter().map(span_of_cells));
                    places.push(described(term));
                }
                Term::Time(interval) => time = narrowed(&time, interval),
                Term::Columns(any) => {
                    let mut cells = Vec::new();
                    for ColumnTest { columns, test } in any {
                        cells.push(filters.of_columns(columns)?.and(filters.of_value(test)?));
                        conditions.push(columns);
                    }
                    let cell = if cells.len() == 1 { cells.pop() } else { None };
                    filters.filters.push(cell.unwrap_or_else(|| Filter::any(cells)).row_with());
                    tests.push(format!("rows with {}", described(term)));
                }
                Term::ValueRegexp(_) => {}
            }
        }
        let mut read = Read::all().time(time.clone()).versions(versions(select));
        let is_shown = |columns: &Columns| {
            let mut shown = select.columns.iter();
            shown.any(|shown| {
                shown == columns || (shown.family == columns.family && shown.qualifiers == Qualifiers::All)
            })
        };
        let is_exact =
            |columns: &Columns| matches!(columns.qualifiers, Qualifiers::All | Qualifiers::Exactly(_));
        let mut families = Vec::new();
        if !select.columns.is_empty() {
            for columns in select.columns.iter().chain(conditions.iter().copied()) {
                read = match &columns.qualifiers {
                    Qualifiers::Exactly(qualifier) => read.column_too(&columns.family, qualifier.clone()),
                    _ => read.family_too(&columns.family),
                };
                families.push((*columns.family).clone());
            }
            if !select.columns.iter().all(is_exact) || !conditions.iter().all(|columns| is_shown(columns)) {
                let shown: Result<Vec<_>> =
                    select.columns.iter().map(|columns| filters.of_columns(columns)).collect();
                filters.filters.push(Filter::any(shown?));
                let names: Vec<_> = select.columns.iter().map(Columns::to_string).collect();
                tests.push(format!("columns {}", cut(&names.join(", "))));
            }
        }
        for term in &select.terms {
            if let Term::ValueRegexp(pattern) = term {
                let filter = Filter::value(Comparison::Equal, filters.regexp(pattern)?);
                filters.filters.push(filter);
                tests.push(described(term));
            }
        }
        if !filters.filters.is_empty() {
            // The versions that are shown without the filter, as a server may send no others.
            read = read.filter_versions(Filter::all(filters.filters));
        }
        // A condition has to see what is behind the limit.
        if let Some(limit) = select.options.cell_limit_per_family.filter(|_| conditions.is_empty()) {
            // The caller leaves out the first ones.
            let offset = select.options.cell_offset_per_family.unwrap_or_default();
            read = read.limit_cells_per_family(limit.saturating_add(offset), 0);
        }
        if select.options.keys_only {
            read = read.keys_only();
        }
        if select.options.return_deletes {
            read = read.with_deletes();
        }
        let left_out = left_out(select, !conditions.is_empty());
        if left_out != (0, 0) {
            // Rows of which all cells are left out count too.
            let rows = select.options.limit.filter(|_| left_out.1 > 0).unwrap_or(u64::MAX);
            read = read.limit_rows(rows, left_out.0).limit_cells(u64::MAX, left_out.1);
        }
        let is_reversed = select.options.reversed;
        Ok(Plan { spans, read, is_reversed, left_out, families, places, tests, time })
    }

    /// Whether it reads this family.
    pub(crate) fn reads(&self, family: &str) -> bool {
        self.families.is_empty() || self.families.iter().any(|other| other == family)
    }

    /// What it does, line by line; `index` finds its rows.
    pub(crate) fn describe(&self, index: Option<String>) -> Vec<String> {
        let direction = if self.is_reversed { ", the last row first" } else { "" };
        let mut lines = Vec::new();
        let places = self.places.join(" AND ");
        match self.spans.as_slice() {
            [] => lines.push(format!("reads nothing: there is no such place: {places}")),
            [span] if *span == Span::all() && index.is_some() => {}
            [span] if *span == Span::all() => lines.push(format!("scans the whole table{direction}")),
            [_] => lines.push(format!("scans one part of the table{direction}: {places}")),
            spans => lines.push(format!("scans {} parts of the table{direction}: {places}", spans.len())),
        }
        lines.extend(index.map(|index| format!("finds the rows by the {index}{direction}")));
        if self.time != (0..i64::MAX) {
            lines.push(format!("timestamps from {}, below {}", self.time.start, self.time.end));
        }
        lines.extend(self.tests.iter().map(|test| format!("where the cells are, keeps {test}")));
        if self.left_out != (0, 0) {
            let (rows, cells) = self.left_out;
            lines.push(format!("where the cells are, leaves out the first rows: {rows}, cells: {cells}"));
        }
        lines
    }
}

/// How many rows and cells of its offsets a query may leave out where the cells are. The limits are left to the caller as far
/// as that can be: queries that differ in them alone have one answer in the query cache.
fn left_out(select: &Select, has_conditions: bool) -> (u64, u64) {
    let options = &select.options;
    // Which deletes are shown, what of a family's limit is left by a condition, and what is left out of each family, is decided
    // later.
    if options.return_deletes {
        return (0, 0);
    }
    let counts_cells = options.cell_offset_per_family.is_none()
        && (options.cell_limit_per_family.is_none() || !has_conditions);
    let cells = options.cell_offset.filter(|_| counts_cells);
    (options.offset.unwrap_or_default(), cells.unwrap_or_default())
}

fn described(term: &Term) -> String {
    cut(&term.to_string())
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(DESCRIBED_MAX) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn versions(select: &Select) -> u32 {
    match select.options.max_versions {
        None | Some(0) => u32::MAX,
        Some(versions) => u32::try_from(versions).unwrap_or(u32::MAX),
    }
}

/// Where these rows are. `None`: an expression says it.
fn span_of_rows(rows: &Rows) -> Option<Span> {
    use core::ops::Bound::{Excluded, Included, Unbounded};
    let bound = |bound: &Option<Bound<Vec<u8>>>| match bound {
        Some(Bound { at, is_included: true }) => Included(at.clone()),
        Some(Bound { at, is_included: false }) => Excluded(at.clone()),
        None => Unbounded,
    };
    match rows {
        Rows::Exactly(row) => Some(Span::row(row)),
        Rows::Prefix(prefix) => Some(Span::prefix(prefix)),
        Rows::Within(Interval { low, high }) => Some(Span::rows((bound(low), bound(high)))),
        Rows::Regexp(_) => None,
    }
}

/// The least string that is greater than all that begin with `prefix`. `None`: there is none.
pub(crate) fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut next = prefix.to_vec();
    while next.last() == Some(&u8::MAX) {
        next.pop();
    }
    let last = next.last_mut()?;
    *last += 1;
    Some(next)
}

fn span_of_cells(cells: &CellRange) -> Span {
    let interval = match cells {
        CellRange::Within(interval) => interval,
        CellRange::Prefix(CellPlace { row, column }) => {
            let low = Span::cells_from(row, &column.family, &column.qualifier);
            let high = match successor(&column.qualifier) {
                Some(qualifier) => Span::cells_below(row, &column.family, &qualifier),
                // No family has such a name; it is the first that could follow.
                None => Span::cells_below(row, &format!("{}\0", *column.family), []),
            };
            return low.and(&high);
        }
    };
    let low = interval.low.as_ref().map(|Bound { at, is_included }| {
        let (row, family, qualifier) = (&at.row, at.column.family.as_str(), &at.column.qualifier);
        if *is_included {
            Span::cells_from(row, family, qualifier)
        } else {
            Span::cells_behind(row, family, qualifier)
        }
    });
    let high = interval.high.as_ref().map(|Bound { at, is_included }| {
        let (row, family, qualifier) = (&at.row, at.column.family.as_str(), &at.column.qualifier);
        if *is_included {
            Span::cells_through(row, family, qualifier)
        } else {
            Span::cells_below(row, family, qualifier)
        }
    });
    low.into_iter().chain(high).fold(Span::all(), |span, bound| span.and(&bound))
}
