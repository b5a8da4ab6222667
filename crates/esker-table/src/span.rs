//! Parts of a table: what a scan walks over.
//!
//! ```text
//! place of a cell   row 00 00 | family's name 00 00 | qualifier 00 00       escaped as in keys, so that places sort as cells do
//! span              from a place, included, up to a place, excluded
//! ```

use core::ops::{Bound, RangeBounds};

use crate::cell;

/// A part of a table: rows that lie together, or cells from one to another.
///
/// # Example
/// ```
/// use esker_table::Span;
///
/// let some = [Span::prefix("oslo-"), Span::row("rome-1"), Span::rows("v".."w")];
/// // From the column "wind" of a row to the end of another row.
/// let cells = Span::cells_from("oslo-7", "weather", "wind").and(&Span::rows(..="oslo-9"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Span {
    pub(crate) from: Vec<u8>,
    /// Empty: no bound.
    to: Vec<u8>,
    is_empty: bool,
}

/// The end of a row's or cell's places.
fn end(place: &[u8]) -> Vec<u8> {
    cell::behind(place)
}

fn cell_place(row: &[u8], family: &str, qualifier: &[u8]) -> Vec<u8> {
    let mut place = cell::row_prefix(row);
    cell::push_escaped(&mut place, family.as_bytes());
    cell::push_escaped(&mut place, qualifier);
    place
}

impl Span {
    /// The whole table.
    pub fn all() -> Span {
        Span::between(Vec::new(), Vec::new())
    }

    fn between(from: Vec<u8>, to: Vec<u8>) -> Span {
        let is_empty = !to.is_empty() && from >= to;
        Span { from, to, is_empty }
    }

    /// The rows in a range.
    pub fn rows<R: AsRef<[u8]>>(range: impl RangeBounds<R>) -> Span {
        let from = match range.start_bound() {
            Bound::Included(row) => cell::row_prefix(row.as_ref()),
            Bound::Excluded(row) => end(&cell::row_prefix(row.as_ref())),
            Bound::Unbounded => Vec::new(),
        };
        let to = match range.end_bound() {
            Bound::Included(row) => end(&cell::row_prefix(row.as_ref())),
            Bound::Excluded(row) => cell::row_prefix(row.as_ref()),
            Bound::Unbounded => Vec::new(),
        };
        Span::between(from, to)
    }

    /// One row.
    pub fn row(row: impl AsRef<[u8]>) -> Span {
        Span::of_row_key(cell::row_prefix(row.as_ref()))
    }

    /// The row whose keys begin with `from`.
    pub(crate) fn of_row_key(from: Vec<u8>) -> Span {
        let to = end(&from);
        Span::between(from, to)
    }

    /// The rows that begin with `prefix`.
    pub fn prefix(prefix: impl AsRef<[u8]>) -> Span {
        let mut from = cell::row_prefix(prefix.as_ref());
        from.truncate(from.len() - 2);
        let to = esker::keys::prefix_end(&from).unwrap_or_default();
        Span::between(from, to)
    }

    /// From a column on: the rest of its row, and the rows behind.
    pub fn cells_from(row: impl AsRef<[u8]>, family: &str, qualifier: impl AsRef<[u8]>) -> Span {
        Span::between(cell_place(row.as_ref(), family, qualifier.as_ref()), Vec::new())
    }

    /// Up to a column, without it: the rows before its row, and what is before the column in it.
    pub fn cells_below(row: impl AsRef<[u8]>, family: &str, qualifier: impl AsRef<[u8]>) -> Span {
        Span::between(Vec::new(), cell_place(row.as_ref(), family, qualifier.as_ref()))
    }

    /// From behind a column on.
    pub fn cells_behind(row: impl AsRef<[u8]>, family: &str, qualifier: impl AsRef<[u8]>) -> Span {
        Span::between(end(&cell_place(row.as_ref(), family, qualifier.as_ref())), Vec::new())
    }

    /// Up to a column, and with it.
    pub fn cells_through(row: impl AsRef<[u8]>, family: &str, qualifier: impl AsRef<[u8]>) -> Span {
        Span::between(Vec::new(), end(&cell_place(row.as_ref(), family, qualifier.as_ref())))
    }

    /// What is in both.
    #[must_use]
    pub fn and(&self, other: &Span) -> Span {
        let to = match (self.to.is_empty(), other.to.is_empty()) {
            (true, _) => &other.to,
            (_, true) => &self.to,
            _ => (&self.to).min(&other.to),
        };
        let mut both = Span::between((&self.from).max(&other.from).clone(), to.clone());
        both.is_empty |= self.is_empty || other.is_empty;
        both
    }

    /// What is in a span of `one` and in a span of `other` too: sorted, and no two of them meet. The effort is that of sorting
    /// both.
    pub fn intersection(
        one: impl IntoIterator<Item = Span>,
        other: impl IntoIterator<Item = Span>,
    ) -> Vec<Span> {
        let (one, other) = (Span::sorted(one), Span::sorted(other));
        let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
        let mut both = Vec::new();
        while let (Some(first), Some(second)) = (one.peek(), other.peek()) {
            let common = first.and(second);
            if !common.is_empty {
                both.push(common);
            }
            // The one that ends first meets nothing behind.
            let first_ends = second.to.is_empty() || (!first.to.is_empty() && first.to <= second.to);
            if first_ends {
                one.next()
            } else {
                other.next()
            };
        }
        both
    }

    /// The least span that has both.
    pub(crate) fn hull(&self, other: &Span) -> Span {
        match (self.is_empty, other.is_empty) {
            (true, _) => return other.clone(),
            (_, true) => return self.clone(),
            _ => {}
        }
        let is_open = self.to.is_empty() || other.to.is_empty();
        let to = if is_open { Vec::new() } else { (&self.to).max(&other.to).clone() };
        Span::between((&self.from).min(&other.from).clone(), to)
    }

    /// Whether all places of the row whose keys begin with `row` are behind the span.
    pub(crate) fn ends_before(&self, row: &[u8]) -> bool {
        !self.to.is_empty() && self.to.as_slice() <= row
    }

    /// How many bytes its bounds have.
    pub(crate) fn size(&self) -> usize {
        self.from.len() + self.to.len()
    }

    /// Whether it has no other row than one.
    pub(crate) fn is_row(&self) -> bool {
        !self.to.is_empty() && end(self.first_key()) == self.end_key()
    }

    /// Whether all places of the row are before the span.
    pub(crate) fn begins_behind(&self, row: &[u8]) -> bool {
        self.from.as_slice() > row && !self.from.starts_with(row)
    }

    /// Whether all places of the row are in the span, if one is.
    pub(crate) fn has_all_of(&self, row: &[u8]) -> bool {
        self.from.as_slice() <= row && self.ends_behind(row)
    }

    /// Whether all places of the row are before the span's end.
    pub(crate) fn ends_behind(&self, row: &[u8]) -> bool {
        self.to.is_empty() || (self.to.as_slice() > row && !self.to.starts_with(row))
    }

    /// The least key of a row that the span may have.
    pub(crate) fn first_key(&self) -> &[u8] {
        &self.from[..cell::row_len(&self.from).unwrap_or(self.from.len())]
    }

    /// A key behind all rows that the span has something of; empty: there is none.
    pub(crate) fn end_key(&self) -> Vec<u8> {
        match cell::row_len(&self.to) {
            Ok(len) if len < self.to.len() => end(&self.to[..len]),
            _ => self.to.clone(),
        }
    }

    /// The spans in their order, without those that are empty, and joined where they meet.
    pub(crate) fn sorted(spans: impl IntoIterator<Item = Span>) -> Vec<Span> {
        let mut spans: Vec<Span> = spans.into_iter().filter(|span| !span.is_empty).collect();
        spans.sort_unstable_by(|one, other| one.from.cmp(&other.from));
        let mut joined: Vec<Span> = Vec::with_capacity(spans.len());
        for span in spans {
            match joined.last_mut() {
                Some(last) if last.to.is_empty() || span.from <= last.to => *last = last.hull(&span),
                _ => joined.push(span),
            }
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_the_rows_that_they_say() {
        let rows: &[&[u8]] = &[
            b"\0",
            b"\0\xff",
            b"a",
            b"a\0",
            b"a\0\0",
            b"a\0\xff",
            b"a\x01",
            b"ab",
            b"b",
            b"\xff",
            b"\xff\xff",
        ];
        type Has = fn(&[u8]) -> bool;
        let cases: &[(Span, Has)] = &[
            (Span::all(), |_| true),
            (Span::row("a"), |row| row == b"a"),
            (Span::rows("a".."b"), |row| (&b"a"[..]..&b"b"[..]).contains(&row)),
            (Span::rows("a"..="a"), |row| row == b"a"),
            (Span::rows(.."a"), |row| row < &b"a"[..]),
            (Span::rows::<&str>((Bound::Excluded("a"), Bound::Unbounded)), |row| row > &b"a"[..]),
            (Span::rows("b".."a"), |_| false),
            (Span::prefix(""), |_| true),
            (Span::prefix("a"), |row| row.starts_with(b"a")),
            (Span::prefix("a\0"), |row| row.starts_with(b"a\0")),
            (Span::prefix(b"a\0\xff"), |row| row.starts_with(b"a\0\xff")),
            (Span::prefix(b"\xff"), |row| row.starts_with(b"\xff")),
            (Span::prefix("a").and(&Span::rows("ab"..)), |row| row == b"ab"),
            (Span::rows(..="a").and(&Span::rows("b"..)), |_| false),
            (Span::row("a").hull(&Span::row("ab")), |row| (&b"a"[..]..=&b"ab"[..]).contains(&row)),
        ];
        for (span, has) in cases {
            for row in rows {
                let key = cell::row_prefix(row);
                let found = !span.is_empty && !span.ends_before(&key) && !span.begins_behind(&key);
                assert_eq!(found, has(row), "{span:?} {row:?}");
                assert!(!found || span.has_all_of(&key));
                assert!(!found || (span.first_key() <= &key[..]), "{span:?} {row:?}");
                let end = span.end_key();
                assert!(!found || end.is_empty() || key < end, "{span:?} {row:?}");
            }
        }
    }

    #[test]
    fn an_intersection_has_what_both_have() {
        let mut rng = test_kit::Rng::new(test_kit::seed(1));
        let mut below = |bound: u8| rng.below(u64::from(bound)) as u8;
        for _ in 0..1000 {
            let mut some = || -> Vec<Span> {
                let span = |from: u8, len: u8| match len {
                    0 => Span::rows([from]..),
                    len => Span::rows([from]..[from + len]),
                };
                (0..below(5)).map(|_| span(below(20), below(5))).collect()
            };
            let (one, other) = (some(), some());
            let both = Span::intersection(one.clone(), other.clone());
            assert_eq!(Span::sorted(both.clone()), both);
            for row in 0..30 {
                let key = cell::row_prefix(&[row]);
                let has = |spans: &[Span]| spans.iter().any(|span| !span.is_empty && span.has_all_of(&key));
                assert_eq!(has(&both), has(&one) && has(&other), "{row} {one:?} {other:?}");
            }
        }
    }

    #[test]
    fn spans_are_joined_where_they_meet() {
        let spans = [
            Span::rows("c".."d"),
            Span::rows("a".."b"),
            Span::rows("b"..="b"),
            Span::row("c"),
            Span::rows("x".."x"),
        ];
        assert_eq!(Span::sorted(spans), [Span::rows("a"..="b"), Span::rows("c".."d")]);
        assert_eq!(Span::sorted([Span::rows("c"..), Span::all()]), [Span::all()]);
    }
}
