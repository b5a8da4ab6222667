//! Reads of rows and ranges of rows, cell by cell.
//!
//! ```text
//! row by row        the least row that one of the groups has, behind the last one
//! family by family  in the order of their names, each in its group's cursor
//! column by column  its markers, then its puts: Column::judge
//! ```
//! A scan holds one cursor for each access group that it reads, and of the cells the one that it stands on. Only of a column
//! that has to be replayed it holds the timestamps and sequence numbers of all puts.

use std::ops::Range;
use std::sync::Arc;

use esker::{Cursor, Db, Snapshot, Value, ValueRef};

use crate::cell::{self, Entry, FamilyId, Kind, NO_FAMILY, Version};
use crate::error::{Error, Result};
use crate::schema::Rules;
use crate::tables::State;
use crate::versions::{Column, Deletes, Heads, Verdict};

/// So many entries are stepped over before a cursor seeks: a step costs about a tenth of a seek.
const STEPS_BEFORE_SEEK: usize = 8;

/// Which cells of a row are read: of which families and columns, how many versions of each, and from which time.
///
/// # Example
/// ```
/// use esker_table::Read;
///
/// let all = Read::all();
/// let one = Read::column("weather", "temperature").column_too("weather", "wind").versions(10).time(0..1_700_000_000_000);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// Empty: all families. A qualifier of `None`: all of the family's.
    columns: Vec<(String, Option<Vec<u8>>)>,
    versions: u32,
    time: Range<i64>,
}

impl Default for Read {
    fn default() -> Self {
        Read::all()
    }
}

impl Read {
    /// Reads the latest version of all columns.
    pub fn all() -> Read {
        Read { columns: Vec::new(), versions: 1, time: 0..i64::MAX }
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

/// What is read of a family.
struct Wanted {
    name: String,
    id: FamilyId,
    rules: Rules,
    /// The place of its group among those that are read.
    group: usize,
    /// `None`: all columns; otherwise these, in their order.
    qualifiers: Option<Vec<Vec<u8>>>,
}

/// What a scan has of an access group.
struct Group {
    cursor: Cursor,
    /// The deletes at the head of the row that is read, by families.
    heads: Heads,
    /// The cursor is at the first entry of the row that belongs to this family or a later one; `None`: the group has nothing
    /// of the row.
    at: Option<FamilyId>,
}

/// What a scan does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Look for the next row.
    Row,
    /// Begin with the family, or with one of its columns that are asked for.
    Family,
    /// Look at the entry at which the cursor of the family's group is.
    Entry,
    /// Leave the cell that was shown.
    Behind,
    Nothing,
}

/// A walk over cells: rows in their order, in each the families by their names, columns by their qualifiers, and of each
/// column the latest version first.
pub struct Scan {
    /// Keeps the moment.
    _snapshot: Snapshot,
    groups: Vec<Group>,
    wanted: Vec<Wanted>,
    versions: u32,
    time: Range<i64>,
    now_ms: i64,
    /// Keys from this one on are behind the last row.
    end: Vec<u8>,
    next: Next,
    /// How the keys of the row begin that is read; empty: none was read yet.
    keys: Vec<u8>,
    row: Vec<u8>,
    /// The places of the family and the asked-for qualifier that are read.
    family: usize,
    asked: usize,
    /// The column that is read, as its keys begin; empty: none has begun.
    column: Vec<u8>,
    qualifier: Vec<u8>,
    state: Column,
    /// The deletes above the column that is read.
    above: Deletes,
    /// How many versions of the column were shown, and the timestamp of the last one.
    shown: u32,
    timestamp: i64,
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan").field("row", &self.row).field("next", &self.next).finish_non_exhaustive()
    }
}

impl Scan {
    /// A scan that has no rows yet.
    pub(crate) fn new(db: &Db, state: &Arc<State>, read: &Read) -> Result<Scan> {
        // First the snapshot: a merge that drops by another shape begins after it.
        let snapshot = db.snapshot();
        let shape = state.shape();
        shape.check_enabled()?;
        let schema = &shape.schema;
        // After the snapshot: what the rule has dropped by then counts as expired.
        let now_ms = shape.now_ms();
        let (mut groups, mut wanted, mut places) = (Vec::new(), Vec::<Wanted>::new(), Vec::new());
        let mut want = |name: &str, qualifier: Option<&Vec<u8>>| -> Result<()> {
            if let Some(known) = wanted.iter_mut().find(|wanted| wanted.name == name) {
                match (&mut known.qualifiers, qualifier) {
                    (Some(qualifiers), Some(qualifier)) => qualifiers.push(qualifier.clone()),
                    (qualifiers, None) => *qualifiers = None,
                    (None, _) => {}
                }
                return Ok(());
            }
            let no_family = || Error::NoFamily { table: shape.name.clone(), family: name.to_owned() };
            let (place, family) = schema.family(name).ok_or_else(no_family)?;
            let group = match places.iter().position(|known| *known == place) {
                Some(group) => group,
                None => {
                    places.push(place);
                    let cursor = snapshot.cursor(&shape.trees[place])?;
                    groups.push(Group { cursor, heads: Heads::default(), at: None });
                    groups.len() - 1
                }
            };
            let (name, qualifiers) = (name.to_owned(), qualifier.map(|qualifier| vec![qualifier.clone()]));
            wanted.push(Wanted { name, id: family.id, rules: family.rules(), group, qualifiers });
            Ok(())
        };
        if read.columns.is_empty() {
            schema.families().try_for_each(|(_, family)| want(family.name(), None))?;
        }
        read.columns.iter().try_for_each(|(family, qualifier)| want(family, qualifier.as_ref()))?;
        wanted.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        for qualifiers in wanted.iter_mut().filter_map(|wanted| wanted.qualifiers.as_mut()) {
            qualifiers.sort_unstable();
            qualifiers.dedup();
        }
        Ok(Scan {
            _snapshot: snapshot,
            groups,
            wanted,
            versions: read.versions,
            time: read.time.clone(),
            now_ms,
            end: Vec::new(),
            next: Next::Nothing,
            keys: Vec::new(),
            row: Vec::new(),
            family: 0,
            asked: 0,
            column: Vec::new(),
            qualifier: Vec::new(),
            state: Column::default(),
            above: Deletes::default(),
            shown: 0,
            timestamp: 0,
        })
    }

    /// Reads one row.
    pub(crate) fn only(&mut self, row: &[u8]) -> Result<()> {
        cell::check_row(row)?;
        let prefix = cell::row_prefix(row);
        self.end = cell::behind(&prefix);
        self.begin(&prefix)
    }

    /// Reads the rows from `start` on and below `stop`; an empty `stop` is no bound.
    pub(crate) fn within(&mut self, start: &[u8], stop: &[u8]) -> Result<()> {
        self.end = if stop.is_empty() { Vec::new() } else { cell::row_prefix(stop) };
        if !stop.is_empty() && start >= stop {
            return Ok(());
        }
        self.begin(&if start.is_empty() { Vec::new() } else { cell::row_prefix(start) })
    }

    fn begin(&mut self, first: &[u8]) -> Result<()> {
        if self.versions == 0 || self.time.is_empty() {
            return Ok(());
        }
        for group in &mut self.groups {
            group.cursor.seek(first)?;
        }
        self.next = Next::Row;
        Ok(())
    }

    /// Goes to the next cell. `false`: there is none.
    ///
    /// # Errors
    /// `Store` when the store cannot be read, `Damaged` when it has something else where cells should be. The scan has ended
    /// then.
    pub fn advance(&mut self) -> Result<bool> {
        let moved = self.walk();
        if moved.is_err() {
            self.next = Next::Nothing;
        }
        moved
    }

    /// The row of the cell; empty before the first one.
    pub fn row(&self) -> &[u8] {
        &self.row
    }

    /// The name of the cell's column family.
    pub fn family(&self) -> &str {
        self.wanted.get(self.family).map_or("", |wanted| &wanted.name)
    }

    /// What names the cell's column in its family.
    pub fn qualifier(&self) -> &[u8] {
        &self.qualifier
    }

    /// The cell's timestamp, in milliseconds since 1970.
    pub fn timestamp(&self) -> i64 {
        self.timestamp
    }

    /// The cell's value, which is lent: its bytes, or the length of a huge one. `None` where the scan is at no cell.
    pub fn value(&self) -> Option<ValueRef<'_>> {
        (self.next == Next::Behind)
            .then(|| self.wanted.get(self.family))
            .flatten()
            .map(|wanted| self.groups[wanted.group].cursor.value())
    }

    /// A copy of the cell. `None` where the scan is at no cell.
    ///
    /// # Errors
    /// `Store` when a huge value cannot be read.
    pub fn cell(&self) -> Result<Option<Cell>> {
        let Some(value) = self.value() else { return Ok(None) };
        let (family, qualifier) = (self.family().to_owned(), self.qualifier.clone());
        Ok(Some(Cell { family, qualifier, timestamp: self.timestamp, value: value.bytes()?.into_owned() }))
    }

    /// The cell's value, to keep, or to read in part. `None` where the scan is at no cell.
    ///
    /// # Errors
    /// `Store` when a huge value is not where it should be.
    pub fn to_value(&self) -> Result<Option<Value>> {
        Ok(self.value().map(|value| value.to_value()).transpose()?)
    }

    fn walk(&mut self) -> Result<bool> {
        loop {
            self.next = match self.next {
                Next::Nothing => return Ok(false),
                Next::Row => {
                    if !self.begin_row()? {
                        return Ok(false);
                    }
                    (self.family, self.asked) = (0, 0);
                    Next::Family
                }
                Next::Family if self.family == self.wanted.len() => Next::Row,
                Next::Family => {
                    if self.begin_family()? {
                        Next::Entry
                    } else {
                        self.leave_family()
                    }
                }
                Next::Behind => {
                    if self.shown >= self.versions {
                        self.leave_column()?;
                    } else {
                        self.cursor().next()?;
                    }
                    Next::Entry
                }
                Next::Entry => match self.look()? {
                    Some(next) => next,
                    None => self.leave_family(),
                },
            };
            if self.next == Next::Behind {
                return Ok(true);
            }
        }
    }

    /// The cursor of the group of the family that is read.
    fn cursor(&mut self) -> &mut Cursor {
        let group = self.wanted[self.family].group;
        &mut self.groups[group].cursor
    }

    /// Finds the next row, and reads the deletes at its head. `false`: there is none.
    fn begin_row(&mut self) -> Result<bool> {
        let behind = (!self.keys.is_empty()).then(|| cell::behind(&self.keys));
        let mut least: Option<&[u8]> = None;
        for group in &mut self.groups {
            if let Some(behind) = &behind
                && !group.cursor.key().is_empty()
                && group.cursor.key() < behind.as_slice()
            {
                seek_on(&mut group.cursor, behind)?;
            }
        }
        for group in &self.groups {
            let key = group.cursor.key();
            if key.is_empty() {
                continue;
            }
            let row = &key[..cell::row_len(key)?];
            if least.is_none_or(|least| row < least) {
                least = Some(row);
            }
        }
        let Some(row) = least.filter(|row| self.end.is_empty() || *row < self.end.as_slice()) else {
            return Ok(false);
        };
        let row = row.to_vec();
        cell::unescape(&row, &mut self.row);
        for group in &mut self.groups {
            group.heads.clear();
            group.at = group.cursor.key().starts_with(&row).then_some(NO_FAMILY);
            while group.cursor.key().starts_with(&row) {
                let Entry::Head { family, version } = cell::entry(group.cursor.key(), row.len())? else {
                    break;
                };
                group.heads.add(family, version);
                group.cursor.next()?;
            }
        }
        self.keys = row;
        Ok(true)
    }

    /// Goes to the first entry of the family that is to be read, or of the column of it that was asked for. `false`: there is
    /// nothing.
    fn begin_family(&mut self) -> Result<bool> {
        let wanted = &self.wanted[self.family];
        let group = &mut self.groups[wanted.group];
        self.column.clear();
        let Some(at) = group.at else { return Ok(false) };
        if self.asked == 0 {
            self.above.clear();
            group.heads.above(wanted.id).for_each(|deletes| self.above.add_all(deletes));
        }
        let to = match wanted.qualifiers.as_ref().map(|qualifiers| &qualifiers[self.asked]) {
            None => cell::family_prefix(&self.keys, wanted.id),
            Some(qualifier) => cell::column_prefix(&self.keys, wanted.id, qualifier),
        };
        if at > wanted.id {
            group.cursor.seek(&to)?;
        } else {
            seek_on(&mut group.cursor, &to)?;
        }
        group.at = Some(wanted.id);
        Ok(group.cursor.key().starts_with(&to))
    }

    /// What comes behind the family, or the column of it that was asked for.
    fn leave_family(&mut self) -> Next {
        let qualifiers = self.wanted[self.family].qualifiers.as_ref();
        if qualifiers.is_some_and(|qualifiers| self.asked + 1 < qualifiers.len()) {
            self.asked += 1;
        } else {
            self.family += 1;
            self.asked = 0;
        }
        Next::Family
    }

    /// Goes behind the column that is read.
    fn leave_column(&mut self) -> Result<()> {
        let behind = cell::behind(&self.column);
        seek_on(self.cursor(), &behind)
    }

    /// Looks at the entry at which the cursor is. `None`: it does not belong to the family, or to the column of it that was
    /// asked for.
    fn look(&mut self) -> Result<Option<Next>> {
        let wanted = &self.wanted[self.family];
        let (id, rules, is_asked) = (wanted.id, &wanted.rules, wanted.qualifiers.is_some());
        let cursor = &mut self.groups[wanted.group].cursor;
        if !cursor.key().starts_with(&self.keys) {
            return Ok(None);
        }
        let Entry::Column { family, qualifier, column_len, kind, version } =
            cell::entry(cursor.key(), self.keys.len())?
        else {
            let key = cursor.key().escape_ascii().to_string();
            return Err(Error::Damaged(format!("a table has the delete {key:?} behind the head of its row")));
        };
        if family != id {
            return Ok(None);
        }
        if self.column.is_empty() || !cursor.key().starts_with(&self.column) {
            if is_asked && !self.column.is_empty() {
                return Ok(None);
            }
            cell::unescape(qualifier, &mut self.qualifier);
            self.column.clear();
            self.column.extend_from_slice(&cursor.key()[..column_len]);
            self.state.begin();
            self.shown = 0;
        }
        if kind != Kind::Put {
            self.state.add(kind, version);
            cursor.next()?;
            return Ok(Some(Next::Entry));
        }
        let expired_below = rules.expired_below(self.now_ms);
        if self.state.needs_replay(rules) {
            let (puts, first) = (
                puts_of(cursor, &self.column, self.keys.len())?,
                cell::entry_prefix(&self.column, Kind::Put),
            );
            self.state.replay(puts.into_iter(), &self.above, rules);
            cursor.seek(first)?;
        }
        let verdict = match self.state.judge(version, &self.above, rules, expired_below) {
            Verdict::Counts if version.timestamp < self.time.start => Verdict::NoneBehind,
            Verdict::Counts if version.timestamp >= self.time.end => Verdict::DoesNot,
            verdict => verdict,
        };
        match verdict {
            Verdict::Counts => {
                self.timestamp = version.timestamp;
                self.shown += 1;
                Ok(Some(Next::Behind))
            }
            Verdict::DoesNot => {
                cursor.next()?;
                Ok(Some(Next::Entry))
            }
            Verdict::NoneBehind => {
                self.leave_column()?;
                Ok(Some(Next::Entry))
            }
        }
    }
}

/// Moves a cursor that is at a key, or behind the last one, on to the first key that is not below `to`.
fn seek_on(cursor: &mut Cursor, to: &[u8]) -> Result<()> {
    for _ in 0..STEPS_BEFORE_SEEK {
        if cursor.key().is_empty() || cursor.key() >= to {
            return Ok(());
        }
        cursor.next()?;
    }
    if !cursor.key().is_empty() && cursor.key() < to {
        cursor.seek(to)?;
    }
    Ok(())
}

/// The puts of the column whose keys begin with `column`, from the cursor's on.
fn puts_of(cursor: &mut Cursor, column: &[u8], row_len: usize) -> Result<Vec<Version>> {
    let mut puts = Vec::new();
    while cursor.key().starts_with(column) {
        if let Entry::Column { version, .. } = cell::entry(cursor.key(), row_len)? {
            puts.push(version);
        }
        cursor.next()?;
    }
    Ok(puts)
}
