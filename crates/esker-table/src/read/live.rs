//! Scans of the store: the cells of a walk that the filter lets through, within the limits.
//!
//! ```text
//! next row --filter: row--> next cell --filter: cell--> versions, limits --> shown --> next cell ...
//!     ^                                                                                    |
//!     '---------------------------- filter: end of the row <-------------------------------'
//! ```
//! A filter that decides after the row has the row walked twice: first it is asked about all cells, or if it looks at some
//! columns alone to decide, about those; then what it let through is shown. So a row is never held in memory, whatever the
//! filter. Columns of which the filter shows nothing are not walked over, unless it counts them.

use std::collections::BTreeMap;
use std::sync::Arc;

use esker::{Db, Snapshot, Value};

use super::counts::{Counted, IndexCounts, ScanCounts};
use super::walk::{Group, Walk, Wanted};
use super::{CellValue, DeleteKind, Read, Shown, Window};
use crate::cell::{FamilyId, Version};
use crate::error::{Error, Result};
use crate::filter::{Code, Filter, Judge, Ranges, Seen, Show};
use crate::index;
use crate::schema::{AccessGroup, Schema};
use crate::shape::{Shape, State};
use crate::span::Span;

/// Where a scan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Between rows.
    Rows,
    /// In a row, at no cell that is shown.
    Row,
    Cell,
    End,
}

/// Where a scan looks for the next cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The walk is at a cell already that the filter was not asked about.
    Here,
    Cell,
    Column,
    Family,
}

/// A walk over cells: rows in their order, in each the families by their names, columns by their qualifiers, and of each
/// column the latest version first.
pub(crate) struct Live {
    walk: Walk,
    limits: Limits,
    filter: Option<Pushed>,
    at: At,
    next: Next,
    /// The column and the family that are read, and how many cells of them were included.
    column: u64,
    of_column: u32,
    family: usize,
    of_family: u64,
    /// How many cells of the column the filter was asked about, if that has a limit.
    asked: u32,
    /// How many cells the row has, whether it counts as a row, and how many rows and cells there were: those that are left out
    /// by an offset, and those that are shown.
    of_row: u64,
    is_counted: bool,
    rows: u64,
    cells: u64,
    /// What is shown of the value.
    show: Show,
    /// Whether cells are counted, or there are deletes among them.
    is_watched: bool,
    /// Whether the row is walked another time, and whether deletes are skipped: the filter has not decided about the row yet.
    is_again: bool,
    skips_deletes: bool,
    /// Whether some columns alone decide about a row, so that they are read first; and whether they are read just now.
    decides_first: bool,
    is_deciding: bool,
    /// The schema, what was read of the indexes, and the rest of [`ScanCounts`].
    schema: Arc<Schema>,
    index: Option<IndexCounts>,
    rows_left_out: u64,
    cells_seen: u64,
    cells_left_out: u64,
}

/// How much is read.
struct Limits {
    versions: u32,
    /// How many versions of a column the filter is asked about.
    asked: u32,
    rows: Window,
    cells: Window,
    of_row: Window,
    /// So many cells of a row are counted until nothing more of it is shown.
    of_row_end: u64,
    of_family: Window,
    is_keys_only: bool,
    shows_deletes: bool,
}

/// A filter, and if it decides after the row: what it knew before the row, and what it knows behind it if some cells of the
/// row are left, and if none are.
struct Pushed {
    judge: Judge,
    before: Moment,
    if_shown: Moment,
    if_not: Moment,
}

/// What a filter knows at some moment.
#[derive(Default, PartialEq, Eq)]
struct Moment {
    numbers: Vec<u64>,
    is_over: bool,
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("row", &self.row()).field("at", &self.at).finish_non_exhaustive()
    }
}

/// What a scan reads, at a moment.
struct Opened {
    snapshot: Snapshot,
    now_ms: i64,
    groups: Vec<Group>,
    wanted: Vec<Wanted>,
    spans: Vec<Span>,
    schema: Arc<Schema>,
    index: Option<IndexCounts>,
}

/// A family that a read asks for.
struct Asked {
    /// What of it the filter may show, and by what of it the filter decides about rows.
    within: Ranges,
    deciding: Ranges,
    /// Its place among those that are read; `None`: nothing of it is needed yet.
    wanted: Option<usize>,
}

impl Opened {
    /// `all`: what is asked for, sorted and apart.
    fn new(snapshot: impl Fn() -> Snapshot, state: &State, read: &Read, all: &[Span]) -> Result<Opened> {
        loop {
            // A merge that drops by another shape begins after the snapshot. An index may be ready by the shape behind the
            // snapshot, and have nothing yet in the snapshot itself; and a part may be no tree yet there.
            let before = state.shape();
            let snapshot = snapshot();
            let shape = state.shape();
            if !Arc::ptr_eq(&before, &shape) {
                continue;
            }
            let opened = find(&snapshot, &shape, read, all).and_then(|Found { spans, counts }| {
                let opened = Opened::of(snapshot, &shape, read, spans.unwrap_or_else(|| all.to_vec()))?;
                Ok(Opened { index: counts, ..opened })
            });
            match opened {
                // A tree was dropped or split in between.
                Err(error) if state.has_lost_tree(&shape, &error) => {}
                opened => return opened,
            }
        }
    }

    fn of(snapshot: Snapshot, shape: &Shape, read: &Read, spans: Vec<Span>) -> Result<Opened> {
        shape.check_enabled()?;
        // After the snapshot: what the rule has dropped by then counts as expired.
        let now_ms = shape.now_ms();
        let (mut groups, mut wanted) = (Vec::new(), Vec::<Wanted>::new());
        // By their places in the schema: the groups' places among those that are read.
        let mut places = BTreeMap::new();
        let schema = &shape.schema;
        let (narrowing, decides_first) = (read.narrowing(schema), read.decides_first(schema));
        // A read may name a family with a million columns, of which none is needed, or thousands of families.
        let mut asked: BTreeMap<FamilyId, Asked> = BTreeMap::new();
        let mut want = |name: &str, qualifier: Option<&Vec<u8>>| -> Result<()> {
            let no_family = || Error::NoFamily { table: shape.name.clone(), family: name.to_owned() };
            let (place, family) = schema.family(name).ok_or_else(no_family)?;
            let asked = asked.entry(family.id).or_insert_with(|| {
                let (within, deciding) = match narrowing {
                    Some(filter) if decides_first => {
                        (filter.shown_columns(name), filter.deciding_columns(name))
                    }
                    Some(filter) => (filter.columns(name), Ranges::none()),
                    None => (Ranges::all(), Ranges::none()),
                };
                Asked { within, deciding, wanted: None }
            });
            if let Some(known) = asked.wanted.and_then(|known| wanted.get_mut(known)) {
                match (&mut known.qualifiers, qualifier) {
                    (Some(qualifiers), Some(qualifier)) => qualifiers.push(qualifier.clone()),
                    (qualifiers, None) => *qualifiers = None,
                    (None, _) => {}
                }
                return Ok(());
            }
            let Asked { within, deciding, .. } = asked;
            let has_some = |ranges: &Ranges| match qualifier {
                Some(qualifier) => ranges.has(qualifier),
                None => !ranges.is_empty(),
            };
            if !has_some(within) && !has_some(deciding) {
                return Ok(());
            }
            let (within, deciding) = (within.clone(), deciding.clone());
            let group = match places.get(&place) {
                Some(group) => *group,
                None => {
                    let cursor = shape.groups[place].cursor(&snapshot, &spans)?;
                    places.insert(place, groups.len());
                    groups.push(Group::new(Counted::new(cursor), place));
                    groups.len() - 1
                }
            };
            let (name, qualifiers) = (name.to_owned(), qualifier.map(|qualifier| vec![qualifier.clone()]));
            asked.wanted = Some(wanted.len());
            wanted.push(Wanted {
                name,
                id: family.id,
                rules: family.rules(),
                group,
                qualifiers,
                within: Some(within).filter(|within| !within.is_all()),
                deciding,
            });
            Ok(())
        };
        if read.columns.is_empty() {
            schema.families().try_for_each(|(_, family)| want(family.name(), None))?;
        }
        read.columns.iter().try_for_each(|(family, qualifier)| want(family, qualifier.as_ref()))?;
        let schema = Arc::clone(schema);
        Ok(Opened { snapshot, now_ms, groups, wanted, spans, schema, index: None })
    }
}

/// What the indexes say.
#[derive(Default)]
struct Found {
    /// The parts of what is asked for that an index finds. `None`: none finds fewer.
    spans: Option<Vec<Span>>,
    /// `None`: no index was asked.
    counts: Option<IndexCounts>,
}

/// Asks the indexes for the parts of `spans` that the read needs.
fn find(snapshot: &Snapshot, shape: &Shape, read: &Read, spans: &[Span]) -> Result<Found> {
    let Some(index) = shape.index.as_ref().filter(|_| !spans.iter().all(Span::is_row)) else {
        return Ok(Found::default());
    };
    let Some(lookups) = index::lookups(&shape.schema, read) else { return Ok(Found::default()) };
    let mut cursor = Counted::new(index.cursor(snapshot, spans)?);
    cursor.count();
    let rows = index::find(&mut cursor, &lookups, spans, read.rows.end())?;
    let counts = IndexCounts { tree: cursor.counts(), rows: rows.as_ref().map(|rows| rows.len() as u64) };
    let spans = rows.map(|rows| Span::intersection(spans.to_vec(), rows));
    Ok(Found { spans, counts: Some(counts) })
}

impl Live {
    /// A scan of the cells of `spans` that `read` asks for, of the moment of this call.
    pub(crate) fn new(
        db: &Db,
        state: &Arc<State>,
        read: &Read,
        spans: impl IntoIterator<Item = Span>,
        is_reversed: bool,
    ) -> Result<Live> {
        Live::of(|| db.snapshot(), state, read, spans, is_reversed)
    }

    /// As [`Live::new`]; `snapshot` takes one of now.
    pub(crate) fn of(
        snapshot: impl Fn() -> Snapshot,
        state: &Arc<State>,
        read: &Read,
        spans: impl IntoIterator<Item = Span>,
        is_reversed: bool,
    ) -> Result<Live> {
        let mut time = read.time.clone();
        let mut spans = Span::sorted(spans);
        if let Some(filter) = &read.filter {
            spans = Span::intersection(spans, filter.spans(is_reversed));
            if let Some(only) = filter.time() {
                time = time.start.max(only.start)..time.end.min(only.end);
            }
        }
        let opened = Opened::new(snapshot, state, read, &spans)?;
        let Opened { snapshot, now_ms, groups, mut wanted, spans, schema, index } = opened;
        wanted.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        for qualifiers in wanted.iter_mut().filter_map(|wanted| wanted.qualifiers.as_mut()) {
            qualifiers.sort_unstable();
            qualifiers.dedup();
        }
        let windows = [read.rows, read.cells, read.cells_of_row, read.cells_of_family];
        let shows_nothing = read.versions == 0 || windows.iter().any(|window| window.limit == 0);
        let is_nothing = shows_nothing || time.is_empty() || wanted.is_empty();
        let of_row_max = read.narrowing(&schema).map_or(u64::MAX, Filter::cells_of_row_max);
        let mut walk = Walk::new(snapshot, groups, wanted, time, now_ms);
        walk.over(spans, is_reversed);
        if read.shows_deletes {
            walk.show_deletes();
        }
        Ok(Live {
            walk,
            limits: Limits {
                versions: read.versions,
                asked: if read.filters_versions { read.versions } else { u32::MAX },
                rows: read.rows,
                cells: read.cells,
                of_row: read.cells_of_row,
                of_row_end: read.cells_of_row.end().min(of_row_max),
                of_family: read.cells_of_family,
                is_keys_only: read.is_keys_only,
                shows_deletes: read.shows_deletes,
            },
            filter: read.filter.as_ref().map(|filter| Pushed {
                judge: Judge::new(filter, is_reversed),
                before: Moment::default(),
                if_shown: Moment::default(),
                if_not: Moment::default(),
            }),
            at: if is_nothing { At::End } else { At::Rows },
            next: Next::Cell,
            column: 0,
            of_column: 0,
            family: 0,
            of_family: 0,
            asked: 0,
            of_row: 0,
            is_counted: false,
            rows: 0,
            cells: 0,
            show: Show::Value,
            is_again: false,
            is_watched: read.shows_deletes,
            skips_deletes: false,
            decides_first: read.decides_first(&schema),
            is_deciding: false,
            schema,
            index,
            rows_left_out: 0,
            cells_seen: 0,
            cells_left_out: 0,
        })
    }

    /// Goes to the next cell. `false`: there is none.
    ///
    /// # Errors
    /// `Store` when the store cannot be read, `Damaged` when it has something else where cells should be. The scan has ended
    /// then.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        // There are not so many rows.
        self.advance_within(u64::MAX).map(|moved| moved == Some(true))
    }

    /// As [`Live::advance`]. `None`: it has looked at so many rows behind this one, and found none yet.
    pub(crate) fn advance_within(&mut self, rows: u64) -> Result<Option<bool>> {
        let moved = self.find(rows);
        if moved.is_err() {
            self.at = At::End;
        }
        moved
    }

    /// The row of the cell; empty before the first one.
    pub(crate) fn row(&self) -> &[u8] {
        self.walk.row()
    }

    /// The name of the cell's column family.
    pub(crate) fn family(&self) -> &str {
        self.walk.family().1
    }

    /// The kind of the delete at which the scan is. `None`: it is at none.
    pub(crate) fn delete(&self) -> Option<DeleteKind> {
        self.walk.delete().filter(|_| self.at == At::Cell)
    }

    /// Counts what is read from now on.
    pub(crate) fn count(&mut self) {
        self.walk.count();
        self.is_watched = true;
    }

    /// What was read until now.
    pub(crate) fn counts(&self) -> ScanCounts {
        let (rows, groups) = self.walk.counts();
        let name = |place: usize| self.schema.groups().get(place).map_or("", AccessGroup::name);
        ScanCounts {
            is_cached: false,
            index: self.index,
            groups: groups.map(|(place, counts)| (name(place).to_owned(), counts)).collect(),
            rows,
            rows_left_out: self.rows_left_out,
            cells: self.cells_seen,
            cells_left_out: self.cells_left_out,
        }
    }

    /// What names the cell's column in its family.
    pub(crate) fn qualifier(&self) -> &[u8] {
        self.walk.qualifier()
    }

    /// The cell's timestamp, in milliseconds since 1970.
    pub(crate) fn timestamp(&self) -> i64 {
        self.walk.timestamp()
    }

    /// The cell's value, which is lent: its bytes, or the length of a huge one. `None` where the scan is at no cell.
    pub(crate) fn value(&self) -> Option<CellValue<'_>> {
        let value = self.walk.value().filter(|_| self.at == At::Cell)?;
        let shown = match self.show {
            Show::Value => Shown::Stored(value),
            Show::Nothing => Shown::Nothing,
            Show::Length => Shown::Length(i32::try_from(value.len()).unwrap_or(i32::MAX).to_be_bytes()),
            Show::LengthOf(length) => Shown::Length(length.to_be_bytes()),
        };
        Some(CellValue { shown })
    }

    /// The cell's value, to keep, or to read in part. `None` where the scan is at no cell or does not show the value.
    ///
    /// # Errors
    /// `Store` when a huge value is not where it should be.
    pub(crate) fn to_value(&self) -> Result<Option<Value>> {
        self.value().map_or(Ok(None), CellValue::to_value)
    }

    /// The first bytes of the cell's value, so many at most.
    pub(crate) fn beginning(&self, len_max: u64) -> Result<Vec<u8>> {
        match self.value() {
            Some(value) if value.len() > len_max => {
                Ok(value.to_value()?.map_or(Ok(Vec::new()), |value| value.read_at(..len_max))?)
            }
            Some(value) => Ok(value.bytes()?.into_owned()),
            None => Ok(Vec::new()),
        }
    }

    /// When the cell was written. `None` where the scan is at no cell.
    pub(crate) fn version(&self) -> Option<Version> {
        self.walk.version()
    }

    /// The time of the scan, and when the first of the cells expires that it has looked at; in milliseconds since 1970.
    pub(crate) fn times_ms(&self) -> (i64, i64) {
        self.walk.times_ms()
    }

    fn find(&mut self, mut rows: u64) -> Result<Option<bool>> {
        loop {
            match self.at {
                At::End => return Ok(Some(false)),
                At::Rows => {
                    let Some(left) = rows.checked_sub(1) else { return Ok(None) };
                    rows = left;
                    self.at = if self.begin_row()? { At::Row } else { At::End };
                }
                At::Row | At::Cell => {
                    if self.find_in_row()? {
                        self.at = At::Cell;
                        return Ok(Some(true));
                    }
                    let goes_on = self.filter.is_none() || self.end_row();
                    self.at = if goes_on { At::Rows } else { At::End };
                }
            }
        }
    }

    /// Goes to the next row; with a filter, to the next one that has a cell that counts and that the filter lets in. `false`:
    /// there is none.
    fn begin_row(&mut self) -> Result<bool> {
        if self.rows >= self.limits.rows.end() || self.cells >= self.limits.cells.end() {
            Ok(false)
        } else if self.filter.is_some() {
            self.begin_filtered_row()
        } else {
            self.go_to_row()
        }
    }

    /// Goes to the next row. `false`: there is none.
    fn go_to_row(&mut self) -> Result<bool> {
        let is_there = self.walk.next_row()?;
        (self.of_row, self.is_counted) = (0, false);
        (self.is_again, self.skips_deletes) = (false, false);
        self.begin_pass(Next::Cell);
        Ok(is_there)
    }

    /// Goes to the next row that has a cell that counts and that the filter lets in. `false`: there is none.
    // Not inlined, as all that only filters need: scans without one are faster.
    #[inline(never)]
    fn begin_filtered_row(&mut self) -> Result<bool> {
        loop {
            if self.filter.as_ref().is_some_and(|filter| filter.judge.is_over()) || !self.go_to_row()? {
                return Ok(false);
            }
            // A row without cells that count is none: whether the filter sees it must not depend on garbage. A filter that
            // decides by columns keeps nothing of a row that a later one would show.
            if !self.decides_first {
                if !self.walk.next_cell()? {
                    continue;
                }
                self.begin_pass(Next::Here);
            }
            let Some(Pushed { judge, .. }) = &mut self.filter else { return Ok(true) };
            if !judge.row(self.walk.row()) {
                judge.reset();
                self.rows_left_out += 1;
            } else if !judge.is_late() || self.is_row_shown()? {
                return Ok(true);
            } else if !self.end_row() {
                return Ok(false);
            }
        }
    }

    /// Ends the row for the filter. `false`: nothing is shown behind it.
    #[inline(never)]
    fn end_row(&mut self) -> bool {
        let Some(Pushed { judge, if_shown, if_not, .. }) = &mut self.filter else { return true };
        let has_cells = self.of_row > 0;
        let is_over = if judge.is_late() {
            let moment = if has_cells { if_shown } else { if_not };
            judge.load(&moment.numbers);
            moment.is_over
        } else {
            if has_cells {
                judge.end_row();
            }
            judge.is_over()
        };
        judge.reset();
        !is_over
    }

    /// Begins to look at the row, at its first cell.
    fn begin_pass(&mut self, next: Next) {
        self.next = next;
        (self.column, self.of_column) = (0, 0);
        (self.family, self.of_family) = (usize::MAX, 0);
    }

    /// The first pass over a row of a late filter. `false`: nothing of the row is shown.
    fn is_row_shown(&mut self) -> Result<bool> {
        if let Some(Pushed { judge, before, .. }) = &mut self.filter {
            before.note(judge);
        }
        let mut has_some = false;
        self.skips_deletes = true;
        self.is_deciding = self.decides_first;
        self.walk.read_deciding(self.decides_first);
        while !self.has_decided() && self.next_included()? {
            has_some = true;
        }
        self.is_deciding = false;
        self.walk.read_deciding(false);
        let Some(Pushed { judge, before, if_shown, if_not }) = &mut self.filter else { return Ok(true) };
        if_not.note(judge);
        // The row may show deletes alone, or only the columns that decide were read of it.
        let is_shown = (has_some || self.limits.shows_deletes || self.decides_first) && judge.end_row();
        if_shown.note(judge);
        judge.settle();
        let needs_more = is_shown || (has_some && if_shown != if_not);
        judge.load(&before.numbers);
        if needs_more {
            self.begin_again();
        }
        if needs_more && !is_shown {
            // The filter was right to count the row only if some of its cells would have been left.
            while self.of_row == 0 && self.next_included()? {
                self.of_row += u64::from(!self.is_removed());
            }
        }
        self.skips_deletes = false;
        self.rows_left_out += u64::from(!is_shown);
        Ok(is_shown)
    }

    /// Whether it is known whether the row is shown, as far as columns alone decide about it.
    fn has_decided(&self) -> bool {
        self.is_deciding && self.filter.as_ref().is_some_and(|filter| filter.judge.has_decided())
    }

    /// Whether the first pass has come to the cell. Of the columns that decide, the second one counts too: the first one may
    /// have come to few others.
    fn is_seen_again(&self) -> bool {
        self.is_again && !self.decides_first
    }

    /// Begins the second pass.
    fn begin_again(&mut self) {
        if let Some(Pushed { judge, .. }) = &mut self.filter {
            judge.rewind();
            if self.decides_first {
                judge.take_as_found();
            }
        }
        self.walk.rewind();
        self.is_again = true;
        self.begin_pass(Next::Cell);
    }

    /// Goes to the next cell of the row that is shown. `false`: there is none.
    fn find_in_row(&mut self) -> Result<bool> {
        loop {
            let Limits { rows, cells, of_row, of_row_end, is_keys_only, .. } = self.limits;
            if self.cells >= cells.end() {
                return Ok(false);
            }
            if self.of_row >= of_row_end {
                self.finish_row()?;
                return Ok(false);
            }
            if !self.next_included()? {
                return Ok(false);
            }
            if self.filter.is_some() && self.is_removed() {
                self.cells_left_out += 1;
                continue;
            }
            self.of_row += 1;
            if self.of_row <= of_row.offset {
                continue;
            }
            if !std::mem::replace(&mut self.is_counted, true) {
                self.rows += 1;
            }
            if self.rows <= rows.offset {
                self.finish_row()?;
                return Ok(false);
            }
            self.cells += 1;
            if self.cells <= cells.offset {
                continue;
            }
            self.show = match &self.filter {
                _ if is_keys_only => Show::Nothing,
                Some(filter) => filter.judge.show(),
                None => Show::Value,
            };
            return Ok(true);
        }
    }

    /// Shows nothing more of the row. A filter that may end the scan in it sees the rest.
    #[inline(never)]
    fn finish_row(&mut self) -> Result<()> {
        if self.filter.as_ref().is_some_and(|filter| filter.judge.may_end_in_row()) {
            while self.next_included()? {}
        }
        Ok(())
    }

    /// Whether the filter leaves out the cell, which it has let through, because of what the whole row has.
    #[inline(never)]
    fn is_removed(&self) -> bool {
        let Some(Pushed { judge, .. }) = &self.filter else { return false };
        seen(&self.walk).is_some_and(|cell| judge.removes(&cell))
    }

    /// Goes to the next cell of the row that the filter lets through, and that is within the versions and the limits of its
    /// family. `false`: there is none.
    fn next_included(&mut self) -> Result<bool> {
        loop {
            let next = std::mem::replace(&mut self.next, Next::Cell);
            match next {
                Next::Here | Next::Cell => {}
                Next::Column => self.walk.leave_column()?,
                Next::Family => self.walk.leave_family(),
            }
            if next != Next::Here && (self.walk.is_at_end() || !self.walk.next_cell()?) {
                return Ok(false);
            }
            if self.is_watched {
                match self.walk.delete() {
                    Some(_) if self.skips_deletes => continue,
                    Some(_) => return Ok(true),
                    None => self.cells_seen += u64::from(!self.is_seen_again()),
                }
            }
            if self.column != self.walk.column_number() {
                (self.column, self.of_column, self.asked) = (self.walk.column_number(), 0, 0);
                let family = self.walk.family().0;
                if self.family != family {
                    (self.family, self.of_family) = (family, 0);
                }
            }
            let has_filter = self.filter.is_some();
            if has_filter {
                if self.asked == self.limits.asked {
                    self.next = Next::Column;
                    continue;
                }
                self.asked = self.asked.saturating_add(1);
            }
            let code = if has_filter { self.judge()? } else { Some(Code::Include) };
            let Some(code) = code else { return Ok(false) };
            match code {
                Code::Include | Code::IncludeNextColumn => {
                    self.of_column += 1;
                    if self.of_column > self.limits.versions {
                        self.next = Next::Column;
                        continue;
                    }
                    if code == Code::IncludeNextColumn
                        || (!has_filter && self.of_column == self.limits.versions)
                    {
                        self.next = Next::Column;
                    }
                    self.of_family += 1;
                    if self.of_family >= self.limits.of_family.end() {
                        self.next = Next::Family;
                    }
                    if self.of_family > self.limits.of_family.offset {
                        return Ok(true);
                    }
                    continue;
                }
                Code::Skip => {}
                Code::NextColumn => self.next = Next::Column,
                Code::NextFamily => self.next = Next::Family,
                Code::Hint => self.skip_to_hint()?,
            }
            self.cells_left_out += u64::from(!self.is_seen_again());
            if self.has_decided() {
                return Ok(false);
            }
        }
    }

    /// What the filter says of the cell. `None`: it wants no more.
    #[inline(never)]
    fn judge(&mut self) -> Result<Option<Code>> {
        let Some(Pushed { judge, .. }) = &mut self.filter else { return Ok(Some(Code::Include)) };
        match seen(&self.walk).filter(|_| !judge.is_over()) {
            Some(cell) => judge.cell(&cell).map(Some),
            None => Ok(None),
        }
    }

    /// Goes on where the filter says. Backward, HBase does not: filters that count cells would tell.
    #[inline(never)]
    fn skip_to_hint(&mut self) -> Result<()> {
        let Some(Pushed { judge, .. }) = &self.filter else { return Ok(()) };
        match judge.hint() {
            Some(hint) if !self.walk.is_reversed() && hint > self.walk.qualifier() => self.walk.skip_to(hint),
            _ => Ok(()),
        }
    }
}

/// The cell at which the walk is, as a filter sees it.
fn seen(walk: &Walk) -> Option<Seen<'_>> {
    let (place, family) = walk.family();
    let (qualifier, timestamp) = (walk.qualifier(), walk.timestamp());
    walk.value().map(|value| Seen { place, family, qualifier, timestamp, value })
}

impl Moment {
    fn note(&mut self, judge: &Judge) {
        self.numbers.clear();
        judge.save(&mut self.numbers);
        self.is_over = judge.is_over();
    }
}
