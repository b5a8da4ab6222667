//! What a query asks of a server, and what is decided about the rows that come.

use core::ops::Range;
use std::collections::BTreeSet;

use esker_table::{AccessGroup, Beginning, Comparator, DeleteKind, Schema};

use crate::error::{Error, Result};
use crate::plan::{ShownDeletes, Tested, check_families, narrowed, regexp, successor};
use crate::print::quoted;
use crate::statement::{
    Bound, CellPlace, CellRange, ColumnTest, Columns, Interval, Qualifiers, Rows, Select, Term, ValueTest,
};
use crate::tables::counters;

/// The longest filter of columns that a server is sent: it may refuse one that is too long, and can do without.
const COLUMN_FILTER_LEN_MAX: usize = 64 << 10;

/// A server takes no longer filter.
const FILTER_LEN_MAX: usize = 1 << 20;

/// Rows that lie together. `stop` is not among them; `None`: the end of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RowRange {
    pub(super) start: Vec<u8>,
    pub(super) stop: Option<Vec<u8>>,
}

/// A query, as a server and [`Request::shown`] execute it together.
pub(super) struct Request {
    /// In the order of the scan; no two meet.
    pub(super) ranges: Vec<RowRange>,
    /// `family` or `family:qualifier`; none: all.
    pub(super) columns: Vec<Vec<u8>>,
    /// In HBase's filter language; what it lets through is decided again here.
    pub(super) filter: Option<Vec<u8>>,
    /// What the offsets leave out, if that is known by the keys alone.
    pub(super) skipped: Option<Skipped>,
    pub(super) is_reversed: bool,
    pub(super) time: Range<i64>,
    /// Whether rows have to be whole.
    pub(super) needs_rows: bool,
    /// Of each list, one has to hold.
    rows: Vec<Vec<(Rows, Option<Comparator>)>>,
    cells: Vec<Vec<CellRange>>,
    conditions: Vec<Vec<(Tested, Comparator)>>,
    /// None: all columns are shown.
    shown: Vec<Tested>,
    values: Vec<Comparator>,
    is_keys_only: bool,
    /// Whether it is for Esker's own scanners, which show what follows.
    pub(super) is_eskers: bool,
    /// So many versions of each column are shown.
    pub(super) versions: u64,
    /// Which deletes are shown; `None`: no deletes.
    pub(super) deletes: Option<ShownDeletes>,
    /// The families that have counters.
    pub(super) counters: BTreeSet<String>,
}

/// What the offsets of a query leave out.
pub(super) struct Skipped {
    /// The numbers of rows that are shown, from 0: from, and below.
    pub(super) row_numbers: (u64, u64),
    pub(super) cells: u64,
    /// The filter of a scan that counts them: cells come without values, and where it suffices, one of a row.
    pub(super) filter: Vec<u8>,
}

/// A cell or a delete, as a server sends it.
pub(super) struct Received {
    pub(super) delete: Option<DeleteKind>,
    pub(super) family: String,
    pub(super) qualifier: Vec<u8>,
    pub(super) timestamp: i64,
    pub(super) value: Vec<u8>,
}

impl Received {
    /// Where it is in its row: the delete of a row stands in front of all families, that of a family in front of all qualifiers.
    pub(super) fn place(&self) -> (Option<&str>, Option<&[u8]>) {
        let (family, qualifier) = (self.family.as_str(), self.qualifier.as_slice());
        match self.delete {
            Some(DeleteKind::Row) => (None, None),
            Some(DeleteKind::Family) => (Some(family), None),
            _ => (Some(family), Some(qualifier)),
        }
    }
}

impl Request {
    pub(super) fn of(select: &Select, schema: &Schema, table: &str, is_eskers: bool) -> Result<Request> {
        let mut patterns = 0;
        let mut request = Request {
            ranges: vec![RowRange { start: Vec::new(), stop: None }],
            columns: Vec::new(),
            filter: None,
            skipped: None,
            is_reversed: select.options.reversed,
            time: 0..i64::MAX,
            needs_rows: false,
            rows: Vec::new(),
            cells: Vec::new(),
            conditions: Vec::new(),
            shown: Vec::new(),
            values: Vec::new(),
            is_keys_only: select.options.keys_only,
            is_eskers,
            versions: select.options.max_versions.filter(|versions| *versions > 0).unwrap_or(u64::MAX),
            deletes: match select.options.return_deletes {
                true => Some(ShownDeletes::of(select)?),
                false => None,
            },
            counters: counters(schema),
        };
        let mut filters = Vec::new();
        for term in &select.terms {
            match term {
                Term::Rows(rows) => {
                    let tests = rows.iter().map(|rows| match rows {
                        Rows::Regexp(pattern) => Ok((rows.clone(), Some(regexp(pattern, &mut patterns)?))),
                        rows => Ok((rows.clone(), None)),
                    });
                    let tests = tests.collect::<Result<Vec<_>>>()?;
                    request.narrow(
                        tests.iter().flat_map(|(rows, pattern)| ranges(rows, pattern.as_ref())).collect(),
                    );
                    if tests.iter().any(|(_, pattern)| pattern.is_some()) {
                        request.rows.push(tests);
                    }
                }
                Term::Cells(cells) => {
                    request.narrow(cells.iter().map(range_of_cells).collect());
                    request.cells.push(cells.clone());
                }
                Term::Time(interval) => request.time = narrowed(&request.time, interval),
                Term::Columns(tests) => {
                    let mut any = Vec::new();
                    for ColumnTest { columns, test } in tests {
                        let comparator = match test {
                            ValueTest::Exactly(value) => Comparator::binary(value.as_slice()),
                            ValueTest::Prefix(prefix) => Comparator::prefix(prefix.as_slice()),
                            ValueTest::Regexp(pattern) => regexp(pattern, &mut patterns)?,
                        };
                        any.push((Tested::new(columns, &mut patterns)?, comparator));
                    }
                    // HBase refuses to scan backward with a filter that reads some families for some rows only.
                    if let ([ColumnTest { columns, test }], false) = (&tests[..], select.options.reversed) {
                        filters.extend(filter(columns, test));
                    }
                    request.conditions.push(any);
                    request.needs_rows = true;
                }
                Term::ValueRegexp(pattern) => request.values.push(regexp(pattern, &mut patterns)?),
            }
        }
        for columns in &select.columns {
            request.shown.push(Tested::new(columns, &mut patterns)?);
        }
        if select.options.keys_only && request.conditions.is_empty() && request.values.is_empty() {
            filters.push(b"KeyOnlyFilter()".to_vec());
        }
        if let ([shown], [], None) = (&request.shown[..], &request.conditions[..], &request.deletes) {
            filters.extend(column_filter(shown));
        }
        request.skipped = request.skipped(select, &filters);
        // What is not sent is decided here.
        request.filter = Some(filters.join(&b" AND "[..]))
            .filter(|filter| !filter.is_empty() && filter.len() <= FILTER_LEN_MAX);
        if !select.columns.is_empty() {
            let conditions = request.conditions.iter().flatten().map(|(tested, _)| &tested.columns);
            request.columns = select.columns.iter().chain(conditions).map(asked).collect();
            // A whole family has its columns.
            let whole: Vec<Vec<u8>> =
                request.columns.iter().filter(|column| !column.contains(&b':')).cloned().collect();
            request.columns.retain(|column| {
                let family = column.split(|byte| *byte == b':').next().unwrap_or_default();
                column.len() == family.len() || !whole.iter().any(|whole| whole == family)
            });
            request.columns.sort_unstable();
            request.columns.dedup();
        }
        request.check(select, schema, table)?;
        if request.is_reversed {
            request.ranges.reverse();
        }
        Ok(request)
    }

    /// What the offsets leave out; `filters` are those of the query. `None`: nothing, or values or deletes decide what is counted.
    fn skipped(&self, select: &Select, filters: &[Vec<u8>]) -> Option<Skipped> {
        let options = &select.options;
        if !self.conditions.is_empty() || !self.values.is_empty() || self.deletes.is_some() {
            return None;
        }
        let rows = options.offset.unwrap_or_default();
        // The limit and the offset of a family's cells are counted by the caller.
        let is_of_families =
            options.cell_limit_per_family.is_some() || options.cell_offset_per_family.is_some();
        let cells = options.cell_offset.filter(|_| !is_of_families);
        let cells = cells.unwrap_or_default();
        // A row counts by any of its cells, if the server sends none but those that are shown.
        let is_exact = |tested: &Tested| match &tested.columns.qualifiers {
            Qualifiers::All => true,
            // Servers differ in what `family:` names.
            Qualifiers::Exactly(qualifier) => !qualifier.is_empty(),
            Qualifiers::Prefix(_) | Qualifiers::Regexp(_) => false,
        };
        let is_time_sent = self.is_eskers || self.time.start == 0;
        let one_suffices =
            cells == 0 && is_time_sent && self.cells.is_empty() && self.shown.iter().all(is_exact);
        if (rows, cells) == (0, 0) || (self.is_keys_only && !one_suffices) {
            return None;
        }
        let mut filters = filters.to_vec();
        filters.extend(one_suffices.then(|| b"FirstKeyOnlyFilter()".to_vec()));
        filters.push(b"KeyOnlyFilter()".to_vec());
        let row_numbers = (rows, rows.saturating_add(options.limit.unwrap_or(u64::MAX)));
        Some(Skipped { row_numbers, cells, filter: filters.join(&b" AND "[..]) })
    }

    /// Fails if the families are not there, or keep versions that the interface does not show.
    fn check(&self, select: &Select, schema: &Schema, table: &str) -> Result<()> {
        check_families(select, schema, table)?;
        let mut families = schema.groups().iter().flat_map(AccessGroup::families);
        let is_shown = |name: &str| {
            self.shown.is_empty() || self.shown.iter().any(|tested| *tested.columns.family == name)
        };
        let has_versions =
            families.any(|family| is_shown(family.name()) && family.kept_versions() != Some(1));
        if !self.is_eskers && has_versions && select.options.max_versions != Some(1) {
            return Err(Error::Impossible(
                "scans by HBase's Thrift interface show the latest version of a column only: say MAX_VERSIONS 1"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// How many versions of each column the server is to send.
    pub(super) fn versions_sent(&self) -> i32 {
        i32::try_from(self.versions).unwrap_or(i32::MAX)
    }

    fn narrow(&mut self, ranges: Vec<RowRange>) {
        self.ranges = intersection(&self.ranges, &sorted(ranges));
    }

    /// Removes from the cells of a row those that are not shown, and values that are not.
    pub(super) fn shown(&self, row: &[u8], cells: &mut Vec<Received>) {
        let has_row = |tests: &Vec<(Rows, Option<Comparator>)>| {
            tests.iter().any(|(rows, pattern)| match (rows, pattern) {
                (_, Some(pattern)) => pattern.is_match(row),
                (Rows::Exactly(exactly), _) => exactly == row,
                (Rows::Prefix(prefix), _) => row.starts_with(prefix),
                (Rows::Within(interval), _) => is_within(interval, |at| row.cmp(at)),
                (Rows::Regexp(_), None) => false,
            })
        };
        if !self.rows.iter().all(has_row) {
            return cells.clear();
        }
        cells.retain(|cell| {
            let place = (row, cell.place().0, cell.place().1);
            let is_in = |cells: &CellRange| match cells {
                CellRange::Within(interval) => is_within(interval, |CellPlace { row, column }| {
                    place.cmp(&(&row[..], Some(&column.family[..]), Some(&column.qualifier[..])))
                }),
                CellRange::Prefix(CellPlace { row: of, column }) => {
                    of == row
                        && place.1 == Some(&column.family[..])
                        && place.2.is_some_and(|qualifier| qualifier.starts_with(&column.qualifier))
                }
            };
            self.time.contains(&cell.timestamp)
                && self.cells.iter().all(|intervals| intervals.iter().any(is_in))
        });
        // The latest version of a column comes first, and decides about its row.
        let is_latest = |at: usize, cell: &Received| {
            let mut before = cells.iter().take(at).rev().filter(|other| other.delete.is_none());
            cell.delete.is_none() && before.next().is_none_or(|other| other.place() != cell.place())
        };
        let meets = |(tested, comparator): &(Tested, Comparator)| {
            let mut numbered = cells.iter().enumerate();
            numbered.any(|(at, cell)| {
                has(tested, cell) && is_latest(at, cell) && comparator.is_match(&cell.value)
            })
        };
        if !self.conditions.iter().all(|any| any.iter().any(meets)) {
            return cells.clear();
        }
        cells.retain(|cell| match (cell.delete, &self.deletes) {
            (None, _) => {
                (self.shown.is_empty() || self.shown.iter().any(|tested| has(tested, cell)))
                    && self.values.iter().all(|pattern| pattern.is_match(&cell.value))
            }
            (Some(kind), Some(deletes)) => deletes.has(kind, &cell.family, &cell.qualifier),
            (Some(_), None) => false,
        });
        if self.is_keys_only {
            cells.iter_mut().for_each(|cell| cell.value.clear());
        }
    }

    /// What it does, line by line.
    pub(super) fn describe(&self) -> Vec<String> {
        let direction = if self.is_reversed { ", the last row first" } else { "" };
        let mut lines = vec![match self.ranges.as_slice() {
            [] => "reads nothing: there is no such place".to_owned(),
            [range] if range.start.is_empty() && range.stop.is_none() => {
                format!("asks for the whole table{direction}")
            }
            ranges => format!("asks for {} ranges of rows{direction}", ranges.len()),
        }];
        if !self.columns.is_empty() {
            let columns: Vec<_> = self.columns.iter().map(|column| quoted(column)).collect();
            lines.push(format!("columns {}", columns.join(", ")));
        }
        if let Some(filter) = &self.filter {
            lines.push(format!("the server's filter: {}", String::from_utf8_lossy(filter)));
            if self.is_eskers {
                lines.push(
                    "the server may look rows up by an index; only EXPLAIN on its store tells".to_owned(),
                );
            }
        }
        if self.skipped.is_some() {
            lines.push("what the offsets leave out comes without values".to_owned());
        }
        lines.push("what the server does not decide is decided here".to_owned());
        lines
    }
}

fn has(tested: &Tested, cell: &Received) -> bool {
    tested.has(&cell.family, &cell.qualifier)
}

/// Whether a place that compares like this with the bounds is between them.
fn is_within<T>(interval: &Interval<T>, compare: impl Fn(&T) -> core::cmp::Ordering) -> bool {
    let low = interval.low.as_ref();
    let high = interval.high.as_ref();
    low.is_none_or(|low| if low.is_included { compare(&low.at).is_ge() } else { compare(&low.at).is_gt() })
        && high.is_none_or(|high| {
            if high.is_included { compare(&high.at).is_le() } else { compare(&high.at).is_lt() }
        })
}

/// The columns that the server is asked for.
fn asked(columns: &Columns) -> Vec<u8> {
    match &columns.qualifiers {
        Qualifiers::Exactly(qualifier) => [columns.family.as_bytes(), b":", qualifier].concat(),
        _ => columns.family.as_bytes().to_vec(),
    }
}

/// As bytes stand in single quotes.
fn escaped(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len());
    for byte in bytes {
        text.push(*byte);
        text.extend((*byte == b'\'').then_some(b'\''));
    }
    text
}

/// A filter of the server that leaves out other columns of the family, if it is known how their qualifiers begin.
fn column_filter(shown: &Tested) -> Option<Vec<u8>> {
    if matches!(shown.columns.qualifiers, Qualifiers::Exactly(_)) {
        // The server is asked for it alone.
        return None;
    }
    let mut beginnings = shown.beginnings().filter(|beginnings| !beginnings.is_empty())?;
    beginnings.sort_unstable();
    // The filter overlooks what only the shorter one of two prefixes has.
    beginnings.dedup_by(|longer, shorter| longer.starts_with(shorter));
    if beginnings.iter().any(Vec::is_empty) {
        return None;
    }
    let quoted: Vec<Vec<u8>> =
        beginnings.iter().map(|bytes| [b"'", &escaped(bytes)[..], b"'"].concat()).collect();
    let text = [b"MultipleColumnPrefixFilter(", &quoted.join(&b","[..])[..], b")"].concat();
    Some(text).filter(|text| text.len() <= COLUMN_FILTER_LEN_MAX)
}

/// A filter of the server that leaves out rows which do not meet a condition, if there is one.
fn filter(columns: &Columns, test: &ValueTest) -> Option<Vec<u8>> {
    let Qualifiers::Exactly(qualifier) = &columns.qualifiers else { return None };
    let (kind, bytes) = match test {
        ValueTest::Exactly(value) if !value.is_empty() => ("binary", value),
        ValueTest::Prefix(prefix) if !prefix.is_empty() => ("binaryprefix", prefix),
        _ => return None,
    };
    let mut text = format!("SingleColumnValueFilter('{}','", columns.family).into_bytes();
    text.extend(escaped(qualifier));
    text.extend(format!("',=,'{kind}:").bytes());
    text.extend(escaped(bytes));
    text.extend_from_slice(b"',true,true)");
    Some(text)
}

/// The least row behind `row`.
pub(super) fn behind(row: &[u8]) -> Vec<u8> {
    [row, b"\0"].concat()
}

/// The row alone.
fn range_of_row(row: &[u8]) -> RowRange {
    RowRange { start: row.to_vec(), stop: Some(behind(row)) }
}

fn range_of_prefix(prefix: &[u8]) -> RowRange {
    RowRange { start: prefix.to_vec(), stop: successor(prefix) }
}

/// Where rows are that may be among `rows`; `pattern` is that of an expression.
fn ranges(rows: &Rows, pattern: Option<&Comparator>) -> Vec<RowRange> {
    vec![match rows {
        Rows::Exactly(row) => range_of_row(row),
        Rows::Prefix(prefix) => range_of_prefix(prefix),
        Rows::Within(Interval { low, high }) => RowRange {
            start: low.as_ref().map_or(
                Vec::new(),
                |Bound { at, is_included }| {
                    if *is_included { at.clone() } else { behind(at) }
                },
            ),
            stop: high
                .as_ref()
                .map(|Bound { at, is_included }| if *is_included { behind(at) } else { at.clone() }),
        },
        Rows::Regexp(_) => {
            let Some(beginnings) = pattern.and_then(Comparator::beginnings) else {
                return vec![RowRange { start: Vec::new(), stop: None }];
            };
            let range = |Beginning { bytes, is_whole }: &Beginning| match is_whole {
                true => range_of_row(bytes),
                false => range_of_prefix(bytes),
            };
            return beginnings.iter().map(range).collect();
        }
    }]
}

fn range_of_cells(cells: &CellRange) -> RowRange {
    let interval = match cells {
        CellRange::Within(interval) => interval,
        CellRange::Prefix(place) => return range_of_row(&place.row),
    };
    RowRange {
        start: interval.low.as_ref().map_or(Vec::new(), |low| low.at.row.clone()),
        stop: interval.high.as_ref().map(|high| behind(&high.at.row)),
    }
}

/// Whether the first bound ends before the second one, or with it.
fn ends_first(one: Option<&Vec<u8>>, other: Option<&Vec<u8>>) -> bool {
    match (one, other) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(one), Some(other)) => one <= other,
    }
}

/// The ranges in their order, without empty ones, and joined where they meet.
fn sorted(mut ranges: Vec<RowRange>) -> Vec<RowRange> {
    ranges.retain(|range| range.stop.as_ref().is_none_or(|stop| range.start < *stop));
    ranges.sort_unstable_by(|one, other| one.start.cmp(&other.start));
    let mut joined: Vec<RowRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.stop.as_ref().is_none_or(|stop| range.start <= *stop) => {
                if ends_first(last.stop.as_ref(), range.stop.as_ref()) {
                    last.stop = range.stop;
                }
            }
            _ => joined.push(range),
        }
    }
    joined
}

/// What is in a range of each: both are sorted.
fn intersection(one: &[RowRange], other: &[RowRange]) -> Vec<RowRange> {
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    let mut both = Vec::new();
    while let (Some(first), Some(second)) = (one.peek(), other.peek()) {
        let is_first = ends_first(first.stop.as_ref(), second.stop.as_ref());
        let stop = if is_first { &first.stop } else { &second.stop };
        both.push(RowRange { start: (&first.start).max(&second.start).clone(), stop: stop.clone() });
        if is_first {
            one.next()
        } else {
            other.next()
        };
    }
    sorted(both)
}
