//! What a read returns: from the store, or from the query cache.

use std::sync::Arc;

use esker::{Db, Value};

use super::{Cell, CellValue, DeleteKind, Live, Read, ScanCounts};
use crate::error::Result;
use crate::query_cache::{Asked, Filling, Query, QueryCache, Replay};
use crate::shape::State;
use crate::span::Span;

/// A walk over cells: rows in their order, in each the families by their names, columns by their qualifiers, and of each
/// column the latest version first.
pub struct Scan {
    source: Source,
}

#[expect(clippy::large_enum_variant, reason = "a scan is moved once, and most are of the store")]
enum Source {
    /// From the store; what it shows may be copied for the query cache.
    Live(Live, Option<Box<Filling>>),
    Cached(Replay),
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_cached = matches!(self.source, Source::Cached(_));
        f.debug_struct("Scan")
            .field("row", &self.row())
            .field("is_cached", &is_cached)
            .finish_non_exhaustive()
    }
}

impl Scan {
    /// A scan of the cells of `spans` that `read` asks for, of the moment of this call.
    pub(crate) fn new(
        cache: &Arc<QueryCache>,
        db: &Db,
        state: &Arc<State>,
        read: &Read,
        spans: impl IntoIterator<Item = Span>,
        is_reversed: bool,
    ) -> Result<Scan> {
        // A merge that removes deletes is no write that the cache would see.
        if !cache.is_on() || read.shows_deletes {
            return Ok(Scan { source: Source::Live(Live::new(db, state, read, spans, is_reversed)?, None) });
        }
        let shape = state.shape();
        shape.check_enabled()?;
        let (table, schema) = (shape.schema.table, shape.schema.version());
        let spans = Span::sorted(spans);
        let query = Query { table, schema, spans: &spans, is_reversed, read };
        let source = match cache.ask(query, shape.now_ms()) {
            Asked::Hit(cells) => Source::Cached(cells),
            Asked::Miss(filling) => Source::Live(Live::new(db, state, read, spans, is_reversed)?, filling),
        };
        Ok(Scan { source })
    }

    /// Goes to the next cell. `false`: there is none.
    ///
    /// # Errors
    /// `Store` when the store cannot be read, `Damaged` when it has something else where cells should be. The scan has ended
    /// then.
    pub fn advance(&mut self) -> Result<bool> {
        // There are not so many rows.
        self.advance_within(u64::MAX).map(|moved| moved == Some(true))
    }

    /// As [`Scan::advance`], for a caller that must not wait long: `None` when it has looked at `rows` rows behind this one without
    /// a cell that is shown. The next call goes on from there; the scan is at no cell meanwhile.
    ///
    /// # Errors
    /// As [`Scan::advance`].
    pub fn advance_within(&mut self, rows: u64) -> Result<Option<bool>> {
        match &mut self.source {
            Source::Cached(cells) => Ok(Some(cells.advance())),
            Source::Live(live, filling) => {
                let found = live.advance_within(rows);
                match (&found, filling.take()) {
                    // What cannot be copied is not cached.
                    (Ok(Some(true)), Some(mut cells)) => {
                        *filling = cells.add(live).unwrap_or(false).then_some(cells);
                    }
                    (Ok(Some(false)), Some(cells)) => cells.finish(live.times_ms()),
                    (Ok(None), cells) => *filling = cells,
                    _ => {}
                }
                found
            }
        }
    }

    /// Counts from now on what it reads: [`Scan::counts`].
    pub fn count(&mut self) {
        if let Source::Live(live, _) = &mut self.source {
            live.count();
        }
    }

    /// What it has read, and from where, if [`Scan::count`] was called before the first cell.
    pub fn counts(&self) -> ScanCounts {
        match &self.source {
            Source::Live(live, _) => live.counts(),
            Source::Cached(_) => ScanCounts { is_cached: true, ..ScanCounts::default() },
        }
    }

    /// The kind of the delete at which the scan is, if the read shows them ([`Read::with_deletes`]). Its row, family, qualifier and
    /// timestamp are those of the scan; a delete of a row has no family, and that of a family no qualifier. `None`: the scan is
    /// at a cell, or nowhere.
    pub fn delete(&self) -> Option<DeleteKind> {
        match &self.source {
            Source::Live(live, _) => live.delete(),
            Source::Cached(_) => None,
        }
    }

    /// The row of the cell; empty before the first one.
    pub fn row(&self) -> &[u8] {
        match &self.source {
            Source::Live(live, _) => live.row(),
            Source::Cached(cells) => cells.row(),
        }
    }

    /// The name of the cell's column family.
    pub fn family(&self) -> &str {
        match &self.source {
            Source::Live(live, _) => live.family(),
            Source::Cached(cells) => cells.family(),
        }
    }

    /// What names the cell's column in its family.
    pub fn qualifier(&self) -> &[u8] {
        match &self.source {
            Source::Live(live, _) => live.qualifier(),
            Source::Cached(cells) => cells.qualifier(),
        }
    }

    /// The cell's timestamp, in milliseconds since 1970.
    pub fn timestamp(&self) -> i64 {
        match &self.source {
            Source::Live(live, _) => live.timestamp(),
            Source::Cached(cells) => cells.timestamp(),
        }
    }

    /// The cell's value, which is lent: its bytes, or the length of a huge one. `None` where the scan is at no cell.
    pub fn value(&self) -> Option<CellValue<'_>> {
        match &self.source {
            Source::Live(live, _) => live.value(),
            Source::Cached(cells) => cells.value(),
        }
    }

    /// A copy of the cell. `None` where the scan is at no cell.
    ///
    /// # Errors
    /// `Store` when a huge value cannot be read.
    pub fn cell(&self) -> Result<Option<Cell>> {
        let Some(value) = self.value() else { return Ok(None) };
        let (family, qualifier) = (self.family().to_owned(), self.qualifier().to_vec());
        Ok(Some(Cell { family, qualifier, timestamp: self.timestamp(), value: value.bytes()?.into_owned() }))
    }

    /// The cell's value, to keep, or to read in part. `None` where the scan is at no cell or does not show the value.
    ///
    /// # Errors
    /// `Store` when a huge value is not where it should be.
    pub fn to_value(&self) -> Result<Option<Value>> {
        self.value().map_or(Ok(None), CellValue::to_value)
    }
}
