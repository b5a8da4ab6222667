//! Which columns of a row a filter has to see.
//!
//! ```text
//! cells of the row   a   b1  b2  c   d   e ...
//! ColumnPrefix b         [------)
//! the walk seeks         ^ here, and leaves the family behind it
//! ```
//! A walk that leaves out the other columns must show the same: they show nothing, and nothing that the filter notes about them
//! is visible later. Filters that decide cell by cell note nothing. Of the other ones, those that count cells or decide about
//! rows, a list says what is left out in front of them: they are not asked about the rest.

use esker::keys;

use super::{Beginning, Column, Comparison, Filter, Kind, Test};

/// To narrow what is read takes some microseconds for each part of a filter and each family. If there are more of these, it is not
/// tried: filters come from clients.
const EFFORT_MAX: usize = 10_000;

/// The most ranges that a walk is given. More are joined to one that has them all.
const RANGES_MAX: usize = 256;

/// Qualifiers that lie together.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Range {
    from: Vec<u8>,
    /// It is not in the range. `None`: no bound.
    to: Option<Vec<u8>>,
}

/// Ranges of qualifiers: in their order, and apart from each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<Range>);

/// The least bytes that are greater.
fn behind(bytes: &[u8]) -> Vec<u8> {
    [bytes, b"\0"].concat()
}

impl Range {
    fn ends_before(&self, qualifier: &[u8]) -> bool {
        self.to.as_ref().is_some_and(|to| to.as_slice() <= qualifier)
    }
}

impl Ranges {
    pub(crate) fn all() -> Ranges {
        Ranges::between(Vec::new(), None)
    }

    pub(crate) fn none() -> Ranges {
        Ranges(Vec::new())
    }

    fn between(from: Vec<u8>, to: Option<Vec<u8>>) -> Ranges {
        let is_empty = to.as_ref().is_some_and(|to| *to <= from);
        Ranges(if is_empty { Vec::new() } else { vec![Range { from, to }] })
    }

    fn exactly(qualifier: &[u8]) -> Ranges {
        Ranges::between(qualifier.to_vec(), Some(behind(qualifier)))
    }

    fn prefix(prefix: &[u8]) -> Ranges {
        Ranges::between(prefix.to_vec(), keys::prefix_end(prefix))
    }

    pub(crate) fn is_all(&self) -> bool {
        *self == Ranges::all()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn has(&self, qualifier: &[u8]) -> bool {
        self.at_or_behind(qualifier).is_some_and(|from| from <= qualifier)
    }

    /// Where the first range begins that has `qualifier` or something behind it.
    pub(crate) fn at_or_behind(&self, qualifier: &[u8]) -> Option<&[u8]> {
        let next = self.0.partition_point(|range| range.ends_before(qualifier));
        self.0.get(next).map(|range| range.from.as_slice())
    }

    fn or(self, other: Ranges) -> Ranges {
        Ranges::any([self, other])
    }

    /// What is in one of these, or in several.
    fn any(these: impl IntoIterator<Item = Ranges>) -> Ranges {
        let mut all: Vec<Range> = these.into_iter().flat_map(|ranges| ranges.0).collect();
        all.sort_unstable_by(|one, other| one.from.cmp(&other.from));
        let mut joined: Vec<Range> = Vec::with_capacity(all.len());
        for range in all {
            match joined.last_mut() {
                Some(Range { to: None, .. }) => break,
                Some(last) if last.to.as_ref().is_some_and(|to| range.from <= *to) => {
                    // No bound is the greatest one.
                    if range.to.is_none() || range.to > last.to {
                        last.to = range.to;
                    }
                }
                _ => joined.push(range),
            }
        }
        Ranges(joined).bounded()
    }

    pub(crate) fn and(self, other: Ranges) -> Ranges {
        let (mut one, mut other) = (self.0.into_iter().peekable(), other.0.into_iter().peekable());
        let mut both = Vec::new();
        while let (Some(first), Some(second)) = (one.peek(), other.peek()) {
            let first_ends = match (&first.to, &second.to) {
                (_, None) => true,
                (None, _) => false,
                (Some(first), Some(second)) => first <= second,
            };
            let to = if first_ends { &first.to } else { &second.to };
            both.extend(Ranges::between((&first.from).max(&second.from).clone(), to.clone()).0);
            if first_ends {
                one.next()
            } else {
                other.next()
            };
        }
        Ranges(both).bounded()
    }

    fn bounded(self) -> Ranges {
        match (self.0.first(), self.0.last()) {
            (Some(first), Some(last)) if self.0.len() > RANGES_MAX => {
                Ranges::between(first.from.clone(), last.to.clone())
            }
            _ => self,
        }
    }
}

impl Test {
    /// The qualifiers that may pass.
    fn qualifiers(&self) -> Ranges {
        if self.comparison == Comparison::Equal {
            let Some(beginnings) = self.comparator.beginnings() else { return Ranges::all() };
            let range = |Beginning { bytes, is_whole }: &Beginning| match is_whole {
                true => Ranges::exactly(bytes),
                false => Ranges::prefix(bytes),
            };
            return Ranges::any(beginnings.iter().map(range));
        }
        let Some((bytes, is_prefix)) = self.comparator.bytes() else { return Ranges::all() };
        let behind = || if is_prefix { keys::prefix_end(bytes) } else { Some(behind(bytes)) };
        match self.comparison {
            Comparison::Less => Ranges::between(Vec::new(), Some(bytes.to_vec())),
            Comparison::LessOrEqual => Ranges::between(Vec::new(), behind()),
            Comparison::GreaterOrEqual => Ranges::between(bytes.to_vec(), None),
            Comparison::Greater => behind().map_or_else(Ranges::none, |from| Ranges::between(from, None)),
            Comparison::Equal | Comparison::NotEqual => Ranges::all(),
        }
    }
}

impl Column {
    fn qualifiers(&self, family: &str) -> Ranges {
        if self.family == family.as_bytes() { Ranges::exactly(&self.qualifier) } else { Ranges::none() }
    }
}

/// [`Filter::shown_and_tested`] of a list whose filters all have to show a cell.
fn all_show_and_test(filters: &[Filter], family: &str) -> (Ranges, Ranges) {
    let (mut shown, mut tested) = (Ranges::all(), Ranges::none());
    let mut has_column = false;
    for filter in filters {
        match &filter.kind {
            // These show all, as long as the row may be shown, and look at their columns.
            Kind::RowWith(filter) if filter.is_of_cells() => tested = tested.or(filter.columns(family)),
            Kind::SingleColumn { column, .. } => {
                tested = tested.or(column.qualifiers(family));
                has_column = true;
            }
            // This filter may skip a column that decides.
            _ if has_column && !filter.skips_no_columns() => break,
            _ => {
                shown = shown.and(filter.columns(family));
                if !filter.is_of_cells() {
                    // It sees all that is left, whatever those behind it say.
                    break;
                }
            }
        }
    }
    (shown, tested)
}

impl Filter {
    /// Whether the columns of so many families can be told in a short time, and a row that is left out ends nothing.
    pub(crate) fn is_simple(&self, families: usize) -> bool {
        !self.has_while() && self.parts().saturating_mul(families) <= EFFORT_MAX
    }

    /// How many filters it has within it, with itself; each prefix of a list counts as one.
    fn parts(&self) -> usize {
        match &self.kind {
            Kind::All(filters) | Kind::Any(filters) => 1 + filters.iter().map(Filter::parts).sum::<usize>(),
            Kind::RowWith(filter) | Kind::Skip(filter) | Kind::While(filter) => 1 + filter.parts(),
            Kind::ColumnPrefixes(prefixes) => 1 + prefixes.len(),
            _ => 1,
        }
    }

    /// The columns of a family outside of which the filter shows nothing, and does not have to be asked.
    pub(crate) fn columns(&self, family: &str) -> Ranges {
        let (shown, tested) = self.shown_and_tested(family);
        shown.or(tested)
    }

    /// The columns of a family outside of which the filter shows nothing, if it is known already that it shows the row.
    pub(crate) fn shown_columns(&self, family: &str) -> Ranges {
        self.shown_and_tested(family).0
    }

    /// The columns of a family that it may show, and those that it has to be asked about to decide about the row.
    fn shown_and_tested(&self, family: &str) -> (Ranges, Ranges) {
        let shown = match &self.kind {
            Kind::ColumnPrefix(prefix) => Ranges::prefix(prefix),
            Kind::ColumnPrefixes(prefixes) if !prefixes.is_empty() => {
                Ranges::any(prefixes.iter().map(|prefix| Ranges::prefix(prefix)))
            }
            Kind::ColumnRange { from: (from, has_from), to: (to, has_to) } => {
                let from = if from.is_empty() || *has_from { from.clone() } else { behind(from) };
                let to = Some(to).filter(|to| !to.is_empty());
                Ranges::between(from, to.map(|to| if *has_to { behind(to) } else { to.clone() }))
            }
            Kind::Family(test) if !test.passes(family.as_bytes()) => Ranges::none(),
            Kind::Qualifier(test) => test.qualifiers(),
            Kind::ColumnValue { column, .. } => column.qualifiers(family),
            Kind::All(filters) => return all_show_and_test(filters, family),
            Kind::Any(filters) if !filters.is_empty() && self.is_of_cells() => {
                Ranges::any(filters.iter().map(|filter| filter.columns(family)))
            }
            _ => Ranges::all(),
        };
        (shown, Ranges::none())
    }

    /// Whether it decides about each cell of a row by that cell and the row's key.
    fn is_of_cells(&self) -> bool {
        match &self.kind {
            Kind::KeyOnly { .. }
            | Kind::Prefix(_)
            | Kind::ColumnPrefix(_)
            | Kind::ColumnPrefixes(_)
            | Kind::Page(_)
            | Kind::InclusiveStop(_)
            | Kind::Timestamps(_)
            | Kind::Row(_)
            | Kind::Family(_)
            | Kind::Qualifier(_)
            | Kind::Value(_)
            | Kind::ColumnRange { .. }
            | Kind::ColumnValue { .. } => true,
            Kind::All(filters) | Kind::Any(filters) => filters.iter().all(Filter::is_of_cells),
            Kind::FirstKeyOnly
            | Kind::ColumnCountGet(_)
            | Kind::ColumnPagination { .. }
            | Kind::SingleColumn { .. }
            | Kind::DependentColumn { .. }
            | Kind::RowWith(_)
            | Kind::Skip(_)
            | Kind::While(_) => false,
        }
    }

    /// Whether [`Filter::deciding_columns`] alone decide if a row is shown. Then nothing that it knows survives a row.
    pub(crate) fn decides_by_columns(&self) -> bool {
        let is_of_columns = |filter: &Filter| matches!(filter.kind, Kind::SingleColumn { .. });
        let is_any_of_columns = |filter: &Filter| match &filter.kind {
            Kind::Any(filters) => !filters.is_empty() && filters.iter().all(is_of_columns),
            _ => is_of_columns(filter),
        };
        let is_with = |filter: &Filter| matches!(&filter.kind, Kind::RowWith(filter) if filter.is_of_cells());
        match &self.kind {
            Kind::All(filters) => {
                // Until `RowWith` has found what it looks for, nothing is skipped; the others must not skip the columns.
                let is_quiet = if filters.iter().any(is_any_of_columns) {
                    Filter::skips_no_columns
                } else {
                    |filter: &Filter| filter.is_of_cells() && !filter.counts_rows()
                };
                let mut decide = filters.iter().filter(|filter| is_with(filter) || is_any_of_columns(filter));
                decide.next().is_some()
                    && filters
                        .iter()
                        .all(|filter| is_with(filter) || is_any_of_columns(filter) || is_quiet(filter))
            }
            _ => is_with(self) || is_any_of_columns(self),
        }
    }

    /// The columns of a family that the parts of the filter look at that decide about whole rows.
    pub(crate) fn deciding_columns(&self, family: &str) -> Ranges {
        match &self.kind {
            Kind::RowWith(filter) => filter.columns(family),
            Kind::SingleColumn { column, .. } => column.qualifiers(family),
            Kind::All(filters) | Kind::Any(filters) => {
                Ranges::any(filters.iter().map(|filter| filter.deciding_columns(family)))
            }
            _ => Ranges::none(),
        }
    }

    /// Whether it decides about each cell of a row, and where it leaves one out, at most the column is left.
    fn skips_no_columns(&self) -> bool {
        match &self.kind {
            Kind::KeyOnly { .. }
            | Kind::Prefix(_)
            | Kind::InclusiveStop(_)
            | Kind::Timestamps(_)
            | Kind::Row(_)
            | Kind::Qualifier(_)
            | Kind::Value(_) => true,
            Kind::All(filters) | Kind::Any(filters) => filters.iter().all(Filter::skips_no_columns),
            _ => false,
        }
    }

    fn counts_rows(&self) -> bool {
        match &self.kind {
            Kind::Page(_) => true,
            Kind::All(filters) | Kind::Any(filters) => filters.iter().any(Filter::counts_rows),
            _ => false,
        }
    }

    /// How many cells of a row it shows at most.
    pub(crate) fn cells_of_row_max(&self) -> u64 {
        match &self.kind {
            Kind::FirstKeyOnly => 1,
            Kind::ColumnCountGet(limit) | Kind::ColumnPagination { limit, .. } => u64::from(*limit),
            Kind::All(filters) => filters.iter().map(Filter::cells_of_row_max).min().unwrap_or(u64::MAX),
            _ => u64::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Comparator;

    #[test]
    fn ranges_have_what_is_in_both_or_in_one() {
        let mut rng = test_kit::Rng::new(test_kit::seed(1));
        let mut below = |bound: usize| rng.index(bound);
        let samples: [&[u8]; 12] = [
            b"",
            b"\0",
            b"\0\0",
            b"a",
            b"a\0",
            b"a\0\0",
            b"ab",
            b"a\xff",
            b"b",
            b"\xff",
            b"\xff\0",
            b"\xff\xff",
        ];
        for _ in 0..5_000 {
            let mut some = || {
                let mut some = Ranges::none();
                for _ in 0..below(4) {
                    let (from, to) = (samples[below(12)], samples[below(12)]);
                    some = some.or(match below(5) {
                        0 => Ranges::exactly(from),
                        1 => Ranges::prefix(from),
                        2 => Ranges::between(from.to_vec(), None),
                        _ => Ranges::between(from.to_vec(), Some(to.to_vec())),
                    });
                }
                some
            };
            let (one, other) = (some(), some());
            let (both, either) = (one.clone().and(other.clone()), one.clone().or(other.clone()));
            for ranges in [&both, &either] {
                let is_apart = |pair: &[Range]| pair[0].to.as_ref().is_some_and(|to| *to <= pair[1].from);
                assert!(ranges.0.windows(2).all(is_apart), "{one:?} {other:?} {ranges:?}");
            }
            for sample in samples {
                assert_eq!(both.has(sample), one.has(sample) && other.has(sample), "{one:?} {other:?}");
                assert_eq!(either.has(sample), one.has(sample) || other.has(sample), "{one:?} {other:?}");
            }
        }
        let many = (0..=u16::MAX).step_by(2).map(|number| Ranges::exactly(&number.to_be_bytes()));
        let many = Ranges::any(many);
        assert!(many.0.len() <= RANGES_MAX && many.has(&[0, 0]) && many.has(&[0xff, 0xfe]));
    }

    #[test]
    fn a_filter_needs_the_columns_that_it_may_show() {
        let samples = ["", "a", "ab", "abc", "b", "bc", "c"];
        let cases: &[(&str, &[&str])] = &[
            ("QualifierFilter(=, 'binary:ab')", &["ab"]),
            ("QualifierFilter(=, 'binaryprefix:ab')", &["ab", "abc"]),
            ("QualifierFilter(=, 'regexstring:^(ab|c)$')", &["ab", "c"]),
            ("QualifierFilter(=, 'regexstring:b')", &samples),
            ("QualifierFilter(<, 'binary:ab')", &["", "a"]),
            ("QualifierFilter(<=, 'binary:ab')", &["", "a", "ab"]),
            ("QualifierFilter(<=, 'binaryprefix:ab')", &["", "a", "ab", "abc"]),
            ("QualifierFilter(>, 'binary:ab')", &["abc", "b", "bc", "c"]),
            ("QualifierFilter(>, 'binaryprefix:ab')", &["b", "bc", "c"]),
            ("QualifierFilter(>=, 'binary:b')", &["b", "bc", "c"]),
            ("ColumnRangeFilter('ab', false, 'b', true)", &["abc", "b"]),
            ("ColumnRangeFilter('', false, '', true)", &samples),
            ("MultipleColumnPrefixFilter('ab', 'c')", &["ab", "abc", "c"]),
            ("MultipleColumnPrefixFilter()", &samples),
            ("ColumnValueFilter('f', 'ab', =, 'binary:')", &["ab"]),
            ("ColumnValueFilter('g', 'ab', =, 'binary:')", &[]),
            ("FamilyFilter(=, 'binary:g')", &[]),
            ("ColumnPrefixFilter('a') AND QualifierFilter(>, 'binary:ab')", &["abc"]),
            ("ColumnPrefixFilter('a') AND ColumnPaginationFilter(1, 1)", &["a", "ab", "abc"]),
            ("ColumnPaginationFilter(1, 1) AND ColumnPrefixFilter('a')", &samples),
            ("ColumnPrefixFilter('ab') OR QualifierFilter(=, 'binary:c')", &["ab", "abc", "c"]),
            ("ColumnPrefixFilter('ab') OR FirstKeyOnlyFilter()", &samples),
            (
                "SingleColumnValueFilter('f', 'c', =, 'binary:') AND QualifierFilter(=, 'binary:a')",
                &["a", "c"],
            ),
            ("SingleColumnValueFilter('f', 'c', =, 'binary:') AND ColumnPrefixFilter('a')", &samples),
            ("SKIP ColumnPrefixFilter('ab')", &samples),
            ("WHILE ColumnPrefixFilter('ab')", &samples),
            ("ValueFilter(=, 'binary:ab')", &samples),
        ];
        for (text, expected) in cases {
            let ranges = Filter::parse(text.as_bytes()).unwrap().columns("f");
            let has: Vec<&str> = samples.into_iter().filter(|sample| ranges.has(sample.as_bytes())).collect();
            assert_eq!(has, *expected, "{text}");
        }
        let with = Filter::qualifier(Comparison::Equal, Comparator::binary("b")).row_with();
        let ranges = with.and(Filter::column_prefix("ab")).columns("f");
        let has: Vec<&str> = samples.into_iter().filter(|sample| ranges.has(sample.as_bytes())).collect();
        assert_eq!(has, ["ab", "abc", "b"]);
    }

    #[test]
    fn some_filters_decide_about_rows_by_columns() {
        let cases = [
            ("SingleColumnValueFilter('f', 'q', =, 'binary:')", true),
            (
                "SingleColumnValueFilter('f', 'q', =, 'binary:') OR SingleColumnValueFilter('f', 'p', =, 'binary:')",
                true,
            ),
            ("SingleColumnValueFilter('f', 'q', =, 'binary:') AND ValueFilter(=, 'binary:')", true),
            // It may skip the column.
            ("SingleColumnValueFilter('f', 'q', =, 'binary:') AND ColumnPrefixFilter('a')", false),
            ("SingleColumnValueFilter('f', 'q', =, 'binary:') AND ColumnPaginationFilter(1, 1)", false),
            // It counts rows in front of the one that leaves some out.
            ("PageFilter(1) AND SingleColumnValueFilter('f', 'q', =, 'binary:')", false),
            ("SingleColumnValueFilter('f', 'q', =, 'binary:') OR ColumnPrefixFilter('a')", false),
            ("SKIP ValueFilter(=, 'binary:')", false),
            ("ValueFilter(=, 'binary:')", false),
        ];
        for (text, expected) in cases {
            assert_eq!(Filter::parse(text.as_bytes()).unwrap().decides_by_columns(), expected, "{text}");
        }
    }
}
