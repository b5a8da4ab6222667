//! What a query asks of a server, and what is decided about the rows that come.

use core::ops::Range;

use esker_table::{AccessGroup, Comparator, DeleteKind, Schema};

use crate::error::{Error, Result};
use crate::plan::{ShownDeletes, Tested, check_families, narrowed, regexp};
use crate::print::quoted;
use crate::statement::{Bound, CellPlace, Columns, Interval, Qualifiers, Rows, Select, Term, ValueTest};

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
    pub(super) is_reversed: bool,
    pub(super) time: Range<i64>,
    /// Whether rows have to be whole.
    pub(super) needs_rows: bool,
    /// Of each list, one has to hold.
    rows: Vec<Vec<(Rows, Option<Comparator>)>>,
    cells: Vec<Vec<Interval<CellPlace>>>,
    conditions: Vec<(Tested, Comparator)>,
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
        };
        let mut filters = Vec::new();
        for term in &select.terms {
            match term {
                Term::Rows(rows) => {
                    let has_pattern = rows.iter().any(|rows| matches!(rows, Rows::Regexp(_)));
                    if has_pattern {
                        let tests = rows.iter().map(|rows| match rows {
                            Rows::Regexp(pattern) => {
                                Ok((rows.clone(), Some(regexp(pattern, &mut patterns)?)))
                            }
                            rows => Ok((rows.clone(), None)),
                        });
                        request.rows.push(tests.collect::<Result<_>>()?);
                    } else {
                        request.narrow(rows.iter().map(range_of_rows).collect());
                    }
                }
                Term::Cells(cells) => {
                    request.narrow(cells.iter().map(range_of_cells).collect());
                    request.cells.push(cells.clone());
                }
                Term::Time(interval) => request.time = narrowed(&request.time, interval),
                Term::Column { columns, test } => {
                    let comparator = match test {
                        ValueTest::Exactly(value) => Comparator::binary(value.as_slice()),
                        ValueTest::Prefix(prefix) => Comparator::prefix(prefix.as_slice()),
                        ValueTest::Regexp(pattern) => regexp(pattern, &mut patterns)?,
                    };
                    // HBase refuses to scan backward with a filter that reads some families for some rows only.
                    filters.extend(filter(columns, test).filter(|_| !select.options.reversed));
                    request.conditions.push((Tested::new(columns, &mut patterns)?, comparator));
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
        if !filters.is_empty() {
            request.filter = Some(filters.join(&b" AND "[..]));
        }
        if !select.columns.is_empty() {
            let conditions = request.conditions.iter().map(|(tested, _)| &tested.columns);
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

    /// Fails if the families are not there, or keep versions that the interface does not show.
    fn check(&self, select: &Select, schema: &Schema, table: &str) -> Result<()> {
        check_families(select, schema, table)?;
        let mut families = schema.groups().iter().flat_map(AccessGroup::families);
        let is_shown = |name: &str| {
            self.shown.is_empty() || self.shown.iter().any(|tested| tested.columns.family == name)
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

    /// How many versions of each column the server is to send: what is left out here, it must not count.
    pub(super) fn versions_sent(&self) -> i32 {
        let versions = if self.values.is_empty() { self.versions } else { u64::MAX };
        i32::try_from(versions).unwrap_or(i32::MAX)
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
            let is_in = |interval: &Interval<CellPlace>| {
                is_within(interval, |CellPlace { row, column }| {
                    place.cmp(&(&row[..], Some(&column.family[..]), Some(&column.qualifier[..])))
                })
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
        if !self.conditions.iter().all(meets) {
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
                format!("scans the whole table{direction}")
            }
            ranges => format!("scans {} ranges of rows{direction}", ranges.len()),
        }];
        if !self.columns.is_empty() {
            let columns: Vec<_> = self.columns.iter().map(|column| quoted(column)).collect();
            lines.push(format!("columns {}", columns.join(", ")));
        }
        if let Some(filter) = &self.filter {
            lines.push(format!("the server's filter: {}", String::from_utf8_lossy(filter)));
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
        _ => columns.family.clone().into_bytes(),
    }
}

/// A filter of the server that leaves out rows which do not meet a condition, if there is one.
fn filter(columns: &Columns, test: &ValueTest) -> Option<Vec<u8>> {
    let Qualifiers::Exactly(qualifier) = &columns.qualifiers else { return None };
    let (kind, bytes) = match test {
        ValueTest::Exactly(value) if !value.is_empty() => ("binary", value),
        ValueTest::Prefix(prefix) if !prefix.is_empty() => ("binaryprefix", prefix),
        _ => return None,
    };
    let escaped = |bytes: &[u8]| {
        let mut text = Vec::with_capacity(bytes.len());
        for byte in bytes {
            text.push(*byte);
            text.extend((*byte == b'\'').then_some(b'\''));
        }
        text
    };
    let mut text = format!("SingleColumnValueFilter('{}','", columns.family).into_bytes();
    text.extend(escaped(qualifier));
    text.extend(format!("',=,'{kind}:").bytes());
    text.extend(escaped(bytes));
    text.extend_from_slice(b"',true,true)");
    Some(text)
}

/// The least row behind `row`.
fn behind(row: &[u8]) -> Vec<u8> {
    [row, b"\0"].concat()
}

fn range_of_rows(rows: &Rows) -> RowRange {
    match rows {
        Rows::Exactly(row) => RowRange { start: row.clone(), stop: Some(behind(row)) },
        Rows::Prefix(prefix) => {
            let mut stop = prefix.clone();
            while stop.last() == Some(&u8::MAX) {
                stop.pop();
            }
            let stop = stop.last_mut().map(|last| *last += 1).map(|()| stop);
            RowRange { start: prefix.clone(), stop }
        }
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
        Rows::Regexp(_) => RowRange { start: Vec::new(), stop: None },
    }
}

fn range_of_cells(interval: &Interval<CellPlace>) -> RowRange {
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
