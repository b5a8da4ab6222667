//! A walk over the cells of a table that count, and over the deletes if they are shown, before filters and limits.
//!
//! ```text
//! row by row        forward: the least row that one of the groups has, behind the last one; or the greatest one before it
//! family by family  in the order of their names, each in its group's cursor
//! column by column  its deletes, then its puts, the latest first: Column::judge
//! ```
//! Columns that the filter has no use for are skipped: a few entries are stepped over, then the cursor seeks the next column.
//!
//! Within a row it always goes forward, and it can leave a column, a family and the row, go on at a qualifier, and begin the
//! row anew. It holds one cursor for each access group that it reads, over the parts of its spans. Only of a column that has to
//! be replayed it holds the timestamps and sequence numbers of all puts. It allocates nothing for a cell or row once its buffers
//! have grown.
//!
//! What few rows need is in functions that are not inlined: their code and registers would slow down each row.

use core::cmp::Reverse;
use core::ops::Range;

use esker::{Snapshot, ValueRef};

use super::DeleteKind;
use super::counts::{Counted, TreeCounts};
use crate::cell::{self, FamilyId, Kind, NO_FAMILY, Version};
use crate::error::Result;
use crate::filter::Ranges;
use crate::schema::Rules;
use crate::span::Span;
use crate::versions::{Column, Deletes, Heads, Verdict};

/// So many entries are stepped over before a cursor seeks: a step costs about a tenth of a seek.
const STEPS_BEFORE_SEEK: usize = 8;

/// The place of no family: that of the delete of a row.
const NOWHERE: usize = usize::MAX;

/// What is read of a family.
pub(super) struct Wanted {
    pub(super) name: String,
    pub(super) id: FamilyId,
    pub(super) rules: Rules,
    /// The place of its group among those that are read.
    pub(super) group: usize,
    /// `None`: all columns; otherwise these, in their order.
    pub(super) qualifiers: Option<Vec<Vec<u8>>>,
    /// The columns outside of which the filter shows nothing. `None`: it may show any column.
    pub(super) within: Option<Ranges>,
    /// Those by which the filter decides whether it shows the row.
    pub(super) deciding: Ranges,
}

impl Wanted {
    /// The columns that are read; `None`: all.
    fn ranges(&self, is_deciding: bool) -> Option<&Ranges> {
        if is_deciding { Some(&self.deciding) } else { self.within.as_ref() }
    }

    /// Whether all columns are read.
    fn has_all_columns(&self) -> bool {
        self.qualifiers.is_none() && self.within.is_none()
    }
}

/// What a walk has of an access group.
pub(super) struct Group {
    cursor: Counted,
    /// Its place in the schema.
    place: usize,
    /// The deletes at the head of the row that is read, by families.
    heads: Heads,
    /// The cursor is at the first entry of the row that belongs to this family or a later one; `None`: the group has nothing
    /// of the row.
    at: Option<FamilyId>,
    /// Forward: the cursor is behind the row, at what comes next; `false`: not known. Backward nobody asks.
    has_left: bool,
    /// Backward: the beginning of the keys of the greatest row before the last one; empty: there is none. `None`: not known.
    before: Option<Vec<u8>>,
}

impl Group {
    pub(super) fn new(cursor: Counted, place: usize) -> Group {
        Group { cursor, place, heads: Heads::default(), at: None, has_left: false, before: None }
    }

    /// The beginning of the keys of the row at which the cursor is, and whether its bytes are the row. `None`: there is no more.
    // Inlined: a call would cost more than the work.
    #[inline(always)]
    fn row(&self) -> Result<Option<(&[u8], bool)>> {
        let key = self.cursor.key();
        if key.is_empty() {
            return Ok(None);
        }
        let (len, is_plain) = cell::text_end(key, 0)?;
        Ok(Some((&key[..len], is_plain)))
    }
}

/// Where a walk is in its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Before a family, or one of its columns that are asked for.
    Family,
    /// Before the entry at which the cursor of the family's group is.
    Entry,
    /// There, and the entry is of the family.
    First,
    /// There, and the entry is not of the column that was read.
    Left,
    /// At that entry, which is a cell that counts.
    Cell,
    /// At that entry, which is a delete that is shown.
    Delete,
    /// At a delete of the row, or of the family that is to come, that is shown.
    Head,
    /// Behind the row.
    End,
}

/// An escaped text of a key. It is copied only if escaping has changed it.
#[derive(Default)]
struct Text {
    /// Where it begins and ends in the key, without its end; `None`: it is in `text`.
    plain: Option<Range<usize>>,
    text: Vec<u8>,
}

impl Text {
    /// The text is at `place` in the key, with its end.
    fn set(&mut self, key: &[u8], place: Range<usize>, is_plain: bool) {
        if is_plain {
            self.plain = Some(place.start..place.end - 2);
        } else {
            self.plain = None;
            cell::unescape(&key[place], &mut self.text);
        }
    }

    fn within<'a>(&'a self, key: &'a [u8]) -> &'a [u8] {
        match &self.plain {
            Some(plain) => key.get(plain.clone()).unwrap_or_default(),
            None => &self.text,
        }
    }
}

pub(super) struct Walk {
    /// Keeps the moment.
    _snapshot: Snapshot,
    groups: Vec<Group>,
    wanted: Vec<Wanted>,
    time: Range<i64>,
    now_ms: i64,
    is_reversed: bool,
    /// In their order, apart from each other.
    spans: Vec<Span>,
    /// Forward: the first span that does not end before the row.
    span: usize,
    /// Forward: whether that span begins at the row or before it. Then it does so for all later rows.
    is_behind_from: bool,
    has_begun: bool,
    at: At,
    /// How the keys of the row begin that is read; empty: none was read yet.
    keys: Vec<u8>,
    row: Text,
    /// Whether all of the row is in a span.
    is_whole: bool,
    /// Whether only the columns are read that decide about the row.
    is_deciding: bool,
    /// The places of the family and the asked-for qualifier that are read.
    family: usize,
    asked: usize,
    /// The column that is read, as its keys begin; empty: none has begun.
    column: Vec<u8>,
    /// So many bytes of the column's keys are those of the cursor's key; it is known behind [`At::Left`] alone.
    common: usize,
    qualifier: Text,
    /// Counts the columns that have begun.
    columns: u64,
    state: Column,
    /// The deletes above the column that is read.
    above: Deletes,
    timestamp: i64,
    /// Whether it also stops at deletes; the kind of the one at which it is.
    shows_deletes: bool,
    /// If it does: the families by their numbers, and their places among those that are read.
    by_number: Vec<(FamilyId, usize)>,
    delete: DeleteKind,
    /// The deletes at the head of the row that are shown, and how many of them were: 0 for the row, or the place of the family
    /// and 1.
    heads: Vec<(usize, Version)>,
    heads_shown: usize,
    /// How many rows it came to.
    rows: u64,
    /// When the first of the cells expires that it has stopped at; the greatest number: none does.
    expires_ms: i64,
    /// A key that is sought.
    sought: Vec<u8>,
}

impl Walk {
    pub(super) fn new(
        snapshot: Snapshot,
        groups: Vec<Group>,
        wanted: Vec<Wanted>,
        time: Range<i64>,
        now_ms: i64,
    ) -> Walk {
        Walk {
            _snapshot: snapshot,
            groups,
            wanted,
            time,
            now_ms,
            is_reversed: false,
            spans: Vec::new(),
            span: 0,
            is_behind_from: false,
            has_begun: false,
            at: At::End,
            keys: Vec::new(),
            row: Text::default(),
            is_whole: true,
            is_deciding: false,
            family: 0,
            asked: 0,
            column: Vec::new(),
            common: 0,
            qualifier: Text::default(),
            columns: 0,
            state: Column::default(),
            above: Deletes::default(),
            timestamp: 0,
            shows_deletes: false,
            by_number: Vec::new(),
            delete: DeleteKind::Row,
            heads: Vec::new(),
            heads_shown: 0,
            rows: 0,
            expires_ms: i64::MAX,
            sought: Vec::new(),
        }
    }

    /// Walks over these spans, which are sorted and apart.
    pub(super) fn over(&mut self, spans: Vec<Span>, is_reversed: bool) {
        (self.spans, self.is_reversed) = (spans, is_reversed);
    }

    /// Stops at deletes too.
    pub(super) fn show_deletes(&mut self) {
        self.shows_deletes = true;
        self.by_number = self.wanted.iter().enumerate().map(|(place, wanted)| (wanted.id, place)).collect();
        self.by_number.sort_unstable();
    }

    /// Counts what it reads from now on.
    pub(super) fn count(&mut self) {
        self.groups.iter_mut().for_each(|group| group.cursor.count());
    }

    /// How many rows it came to, and what it has read of each group: the group's place in the schema, and the counts.
    pub(super) fn counts(&self) -> (u64, impl Iterator<Item = (usize, TreeCounts)>) {
        (self.rows, self.groups.iter().map(|group| (group.place, group.cursor.counts())))
    }

    pub(super) fn is_reversed(&self) -> bool {
        self.is_reversed
    }

    pub(super) fn row(&self) -> &[u8] {
        self.row.within(&self.keys)
    }

    /// The place of the cell's family among those that are read, and its name.
    pub(super) fn family(&self) -> (usize, &str) {
        (self.family, self.wanted.get(self.family).map_or("", |wanted| &wanted.name))
    }

    pub(super) fn qualifier(&self) -> &[u8] {
        self.qualifier.within(&self.column)
    }

    /// A number that the cells of one column in one row have in common, and no others.
    pub(super) fn column_number(&self) -> u64 {
        self.columns
    }

    pub(super) fn timestamp(&self) -> i64 {
        self.timestamp
    }

    /// The kind of the delete at which it is. `None`: it is at none.
    pub(super) fn delete(&self) -> Option<DeleteKind> {
        matches!(self.at, At::Delete | At::Head).then_some(self.delete)
    }

    /// When the cell was written. `None`: the walk is at no cell.
    pub(super) fn version(&self) -> Option<Version> {
        let wanted = self.wanted.get(self.family).filter(|_| self.at == At::Cell)?;
        let key = self.groups.get(wanted.group)?.cursor.key();
        cell::entry_of_column(key, self.column.len()).ok().map(|(_, version)| version)
    }

    /// The time of the walk, and when the first of the cells expires that it has stopped at.
    pub(super) fn times_ms(&self) -> (i64, i64) {
        (self.now_ms, self.expires_ms)
    }

    /// The value of the cell. `None`: the walk is at no cell.
    pub(super) fn value(&self) -> Option<ValueRef<'_>> {
        let wanted = self.wanted.get(self.family).filter(|_| self.at == At::Cell)?;
        self.groups.get(wanted.group).map(|group| group.cursor.value())
    }

    /// Leaves the row, and goes to the next one that has entries. `false`: there is none.
    pub(super) fn next_row(&mut self) -> Result<bool> {
        self.at = At::End;
        let found = if self.is_reversed { self.find_row_before()? } else { self.find_row_behind()? };
        if found {
            self.rows += 1;
            self.begin_row()?;
        }
        Ok(found)
    }

    /// Goes to the least row behind the last one that one of the groups has.
    fn find_row_behind(&mut self) -> Result<bool> {
        let Some(first) = self.spans.first() else { return Ok(false) };
        for group in &mut self.groups {
            if !self.has_begun {
                group.cursor.seek(first.first_key())?;
            } else if !group.has_left {
                leave(&mut group.cursor, &self.keys, &mut self.sought)?;
            }
        }
        self.has_begun = true;
        loop {
            let least = match &self.groups[..] {
                [group] => group.row()?,
                groups => least_row(groups)?,
            };
            let Some((row, is_plain)) = least else { return Ok(false) };
            while self.spans.get(self.span).is_some_and(|span| span.ends_before(row)) {
                self.span += 1;
                self.is_behind_from = false;
            }
            let Some(span) = self.spans.get(self.span) else { return Ok(false) };
            if self.is_behind_from || !span.begins_behind(row) {
                self.is_behind_from = self.is_behind_from || span.from.as_slice() <= row;
                self.is_whole = self.is_behind_from && span.ends_behind(row);
                self.keys.clear();
                self.keys.extend_from_slice(row);
                self.row.set(&self.keys, 0..self.keys.len(), is_plain);
                return Ok(true);
            }
            self.groups.iter_mut().try_for_each(|group| seek_on(&mut group.cursor, span.first_key()))?;
        }
    }

    /// Goes to the greatest row before the last one that one of the groups has.
    fn find_row_before(&mut self) -> Result<bool> {
        let Some(last) = self.spans.last() else { return Ok(false) };
        let mut end = if self.has_begun { self.keys.clone() } else { last.end_key() };
        self.has_begun = true;
        loop {
            for group in &mut self.groups {
                let is_known = group
                    .before
                    .as_ref()
                    .is_some_and(|before| end.is_empty() || before.as_slice() < end.as_slice());
                if is_known {
                    continue;
                }
                if end.is_empty() {
                    group.cursor.last()?;
                } else {
                    group.cursor.seek_for_prev(&end)?;
                }
                let key = group.cursor.key();
                let len = if key.is_empty() { 0 } else { cell::row_len(key)? };
                let before = group.before.get_or_insert_default();
                before.clear();
                before.extend_from_slice(&key[..len]);
            }
            let rows = self.groups.iter().filter_map(|group| group.before.as_deref());
            let Some(row) = rows.max().filter(|row| !row.is_empty()) else { return Ok(false) };
            let place = self.spans.partition_point(|span| span.ends_before(row));
            if let Some(span) = self.spans.get(place).filter(|span| !span.begins_behind(row)) {
                self.is_whole = span.has_all_of(row);
                self.keys.clear();
                self.keys.extend_from_slice(row);
                let (len, is_plain) = cell::text_end(&self.keys, 0)?;
                self.row.set(&self.keys, 0..len, is_plain);
                break;
            }
            // The row is behind the span before.
            let Some(span) = place.checked_sub(1).and_then(|place| self.spans.get(place)) else {
                return Ok(false);
            };
            end = span.end_key();
        }
        for group in &mut self.groups {
            if group.before.as_ref() == Some(&self.keys) {
                group.before = None;
                group.cursor.seek(&self.keys)?;
                group.at = Some(NO_FAMILY);
            } else {
                group.at = None;
            }
        }
        Ok(true)
    }

    /// Begins the row. Most rows have no deletes at their head, and begin with the first family that is read: then it goes there
    /// at once. The head lies before all families, so a row has none whose first entry is of a family.
    fn begin_row(&mut self) -> Result<()> {
        if let ([group], Some(first)) = (&mut self.groups[..], self.wanted.first())
            && first.has_all_columns()
            && cell::is_of_family(group.cursor.key(), self.keys.len(), first.id)
        {
            self.heads.clear();
            group.heads.clear();
            self.above.clear();
            (group.at, group.has_left) = (Some(first.id), false);
            (self.family, self.asked, self.heads_shown) = (0, 0, 0);
            self.column.clear();
            self.at = At::First;
            return Ok(());
        }
        self.read_heads()
    }

    /// Reads the deletes at the head of the row, and goes before the first family.
    fn read_heads(&mut self) -> Result<()> {
        self.heads.clear();
        let is_alone = self.groups.len() == 1;
        for group in &mut self.groups {
            group.heads.clear();
            if self.is_reversed && group.at.is_none() {
                continue;
            }
            // The row is that of the least key, or of the greatest one backward: a group alone has it.
            let mut is_in_row = is_alone || cell::begins_with(group.cursor.key(), &self.keys);
            while is_in_row && cell::is_head(group.cursor.key(), self.keys.len()) {
                let (family, version) = cell::head(group.cursor.key(), self.keys.len())?;
                group.heads.add(family, version);
                if self.shows_deletes && self.time.contains(&version.timestamp) {
                    let found = self.by_number.binary_search_by_key(&family, |(number, _)| *number);
                    let place = match found {
                        Ok(found) => Some(self.by_number[found].1 + 1),
                        Err(_) => Some(0).filter(|_| family == NO_FAMILY),
                    };
                    self.heads.extend(place.map(|place| (place, version)));
                }
                group.cursor.next()?;
                is_in_row = cell::begins_with(group.cursor.key(), &self.keys);
            }
            group.at = is_in_row.then_some(NO_FAMILY);
        }
        if !self.heads.is_empty() {
            self.order_heads();
        }
        self.begin_again();
        Ok(())
    }

    /// Puts the deletes of the row's head into the order in which they are shown: those of the row, then those of each family, and
    /// the latest first. Each group that the read knows has the deletes of the row.
    fn order_heads(&mut self) {
        let mut heads = std::mem::take(&mut self.heads);
        heads.sort_unstable_by_key(|(place, version)| (*place, Reverse(*version)));
        heads.dedup();
        if !self.is_whole {
            heads.retain(|(place, _)| {
                let mut key = self.keys.clone();
                if let Some(wanted) = place.checked_sub(1).and_then(|family| self.wanted.get(family)) {
                    cell::push_escaped(&mut key, wanted.name.as_bytes());
                }
                let next = self.spans.partition_point(|span| span.ends_before(&key));
                self.spans.get(next).is_some_and(|span| span.from <= key)
            });
        }
        self.heads = heads;
    }

    fn begin_again(&mut self) {
        self.groups.iter_mut().for_each(|group| group.has_left = false);
        self.heads_shown = 0;
        self.go_to_family(0);
    }

    /// Reads only the columns that decide about the row, from where the walk is; `false`: all again.
    pub(super) fn read_deciding(&mut self, is_deciding: bool) {
        self.is_deciding = is_deciding;
        if is_deciding && self.at == At::First {
            // The row has just begun, in its only group. Its first family may have nothing that decides.
            self.groups.iter_mut().for_each(|group| group.at = Some(NO_FAMILY));
            self.at = At::Family;
        }
    }

    /// Begins the row anew.
    pub(super) fn rewind(&mut self) {
        for group in &mut self.groups {
            // If nothing was read of the group, it is at its first entry. What is behind the family that was read last was not
            // passed.
            if let Some(at) = group.at.filter(|at| *at != NO_FAMILY) {
                group.at = Some(at.saturating_add(1));
            }
        }
        self.begin_again();
    }

    fn go_to_family(&mut self, family: usize) {
        (self.family, self.asked) = (family, 0);
        self.at = if family < self.wanted.len() { At::Family } else { At::End };
        self.column.clear();
    }

    /// Goes to the next cell of the row that counts: the next version, or what is behind; or to a delete before it, if they are
    /// shown. `false`: there is none.
    pub(super) fn next_cell(&mut self) -> Result<bool> {
        if self.at == At::Cell {
            self.cursor().next()?;
            self.at = At::Entry;
        } else if self.shows_deletes {
            self.leave_delete()?;
        }
        loop {
            match self.at {
                At::Cell | At::Delete | At::Head => return Ok(true),
                At::End => return Ok(false),
                At::Family => {
                    if self.next_head() {
                        return Ok(true);
                    } else if self.begin_family()? {
                        self.at = At::First;
                    } else {
                        self.leave_asked();
                    }
                }
                At::Entry | At::First | At::Left => self.look()?,
            }
        }
    }

    /// Leaves the delete at which it is, if it is at one.
    fn leave_delete(&mut self) -> Result<()> {
        if self.at == At::Delete {
            self.cursor().next()?;
            self.at = At::Entry;
        }
        if self.at == At::Head {
            if self.delete == DeleteKind::Row {
                self.family = 0;
            }
            self.at = At::Family;
        }
        Ok(())
    }

    /// Goes to the next delete of the row's head that is shown in front of the family. `false`: there is none.
    fn next_head(&mut self) -> bool {
        let next = self.heads.get(self.heads_shown).filter(|(place, _)| *place <= self.family + 1);
        let Some((place, version)) = next else { return false };
        (self.at, self.timestamp) = (At::Head, version.timestamp);
        if *place == 0 {
            (self.delete, self.family) = (DeleteKind::Row, NOWHERE);
        } else {
            self.delete = DeleteKind::Family;
        }
        // It has no qualifier.
        self.qualifier.plain = Some(0..0);
        self.heads_shown += 1;
        true
    }

    /// Leaves the column at one of whose entries the cursor is.
    pub(super) fn leave_column(&mut self) -> Result<()> {
        self.at = At::Left;
        let group = self.wanted[self.family].group;
        let cursor = &mut self.groups[group].cursor;
        cursor.next()?;
        self.common = cell::common_len(cursor.key(), &self.column);
        if self.common == self.column.len() {
            self.leave_versions()?;
        }
        if self.common < self.keys.len() {
            self.leave_row_of_group();
        }
        Ok(())
    }

    /// Steps over the other versions of the column.
    #[inline(never)]
    fn leave_versions(&mut self) -> Result<()> {
        let group = self.wanted[self.family].group;
        let cursor = &mut self.groups[group].cursor;
        for _ in 1..STEPS_BEFORE_SEEK {
            cursor.next()?;
            self.common = cell::common_len(cursor.key(), &self.column);
            if self.common < self.column.len() {
                return Ok(());
            }
        }
        cell::write_behind(&self.column, &mut self.sought);
        cursor.seek(&self.sought)?;
        self.common = cell::common_len(cursor.key(), &self.column);
        Ok(())
    }

    /// The cursor of the family's group has left the row.
    fn leave_row_of_group(&mut self) {
        let wanted = &self.wanted[self.family];
        self.groups[wanted.group].has_left = true;
        if self.family + 1 == self.wanted.len() {
            // Columns that are asked for are sorted: the others of the family would lie before the cursor.
            self.at = At::End;
        } else {
            self.leave_asked();
        }
    }

    /// Whether it has come to the end of the row.
    pub(super) fn is_at_end(&self) -> bool {
        self.at == At::End
    }

    /// Leaves the family of the cell.
    pub(super) fn leave_family(&mut self) {
        self.go_to_family(self.family + 1);
    }

    /// Leaves what is below `qualifier` in the family that is read.
    pub(super) fn skip_to(&mut self, qualifier: &[u8]) -> Result<()> {
        let wanted = &self.wanted[self.family];
        if let Some(qualifiers) = &wanted.qualifiers {
            let asked = qualifiers.partition_point(|asked| asked.as_slice() < qualifier);
            if asked == qualifiers.len() {
                self.leave_family();
            } else if asked != self.asked {
                (self.asked, self.at) = (asked, At::Family);
                self.column.clear();
            }
            return Ok(());
        }
        self.sought.clear();
        self.sought.extend_from_slice(&self.keys);
        self.sought.extend_from_slice(&wanted.id.to_be_bytes());
        cell::push_escaped(&mut self.sought, qualifier);
        seek_on(&mut self.groups[wanted.group].cursor, &self.sought)?;
        self.at = At::Entry;
        Ok(())
    }

    /// The cursor of the group of the family that is read.
    fn cursor(&mut self) -> &mut Counted {
        let group = self.wanted[self.family].group;
        &mut self.groups[group].cursor
    }

    /// Goes to the first entry of the family that is to be read, or of the column of it that was asked for. `false`: there is
    /// nothing.
    fn begin_family(&mut self) -> Result<bool> {
        let wanted = &self.wanted[self.family];
        let group = &mut self.groups[wanted.group];
        self.column.clear();
        let Some(at) = group.at else { return Ok(false) };
        let ranges = wanted.ranges(self.is_deciding);
        // The first qualifier that may be read.
        let from = match (&wanted.qualifiers, ranges) {
            (Some(qualifiers), ranges) => {
                let asked = qualifiers[self.asked].as_slice();
                Some(asked).filter(|asked| ranges.is_none_or(|ranges| ranges.has(asked)))
            }
            (None, Some(ranges)) => ranges.at_or_behind(b""),
            (None, None) => Some(&b""[..]),
        };
        let Some(from) = from else { return Ok(false) };
        group.at = Some(wanted.id);
        self.above.clear();
        group.heads.above(wanted.id).for_each(|deletes| self.above.add_all(deletes));
        if at == NO_FAMILY
            && wanted.qualifiers.is_none()
            && ranges.is_none()
            && cell::is_of_family(group.cursor.key(), self.keys.len(), wanted.id)
        {
            return Ok(true);
        }
        self.sought.clear();
        self.sought.extend_from_slice(&self.keys);
        self.sought.extend_from_slice(&wanted.id.to_be_bytes());
        let family_len = self.sought.len();
        if wanted.qualifiers.is_some() || ranges.is_some() {
            cell::push_escaped(&mut self.sought, from);
        }
        // A column that is asked for has to be there; of a range, any column of the family may be.
        let common_len = if wanted.qualifiers.is_some() { self.sought.len() } else { family_len };
        if at > wanted.id {
            // Back, if families do not lie in the order of their names.
            group.has_left = false;
            group.cursor.seek(&self.sought)?;
        } else if cell::begins_with(group.cursor.key(), &self.sought) && at < wanted.id {
            // Nothing of the family has been passed: this is its first entry.
            return Ok(true);
        } else {
            seek_on(&mut group.cursor, &self.sought)?;
        }
        Ok(cell::begins_with(group.cursor.key(), &self.sought[..common_len]))
    }

    /// Leaves the family, or the column of it that was asked for.
    fn leave_asked(&mut self) {
        let qualifiers = self.wanted[self.family].qualifiers.as_ref();
        if qualifiers.is_some_and(|qualifiers| self.asked + 1 < qualifiers.len()) {
            self.asked += 1;
            self.at = At::Family;
        } else {
            self.leave_family();
        }
    }

    /// Looks at the entry at which the cursor is, and goes on from there.
    fn look(&mut self) -> Result<()> {
        let wanted = &self.wanted[self.family];
        let key = self.groups[wanted.group].cursor.key();
        let family_len = self.keys.len() + size_of::<FamilyId>();
        let common = match std::mem::replace(&mut self.at, At::Entry) {
            At::First => family_len,
            At::Left => self.common,
            _ => cell::common_len(key, &self.column),
        };
        let is_new = self.column.is_empty() || common < self.column.len();
        if is_new {
            if common < self.keys.len() {
                self.leave_row_of_group();
                return Ok(());
            }
            if common < family_len || (wanted.qualifiers.is_some() && !self.column.is_empty()) {
                self.leave_asked();
                return Ok(());
            }
            let (column_len, is_plain) = cell::text_end(key, family_len)?;
            self.qualifier.set(key, family_len..column_len, is_plain);
            let known = common.min(self.column.len());
            self.column.truncate(known);
            self.column.extend_from_slice(&key[known..column_len]);
            self.columns += 1;
            self.state.begin();
        }
        let (kind, version) = cell::entry_of_column(key, self.column.len())?;
        let may_be_outside = !self.is_whole || wanted.ranges(self.is_deciding).is_some();
        if is_new && may_be_outside && (!self.is_in_span()? || !self.is_in_range()?) {
            return Ok(());
        }
        let Wanted { rules, group, .. } = &self.wanted[self.family];
        let cursor = &mut self.groups[*group].cursor;
        if kind != Kind::Put {
            self.state.add(kind, version);
            if self.shows_deletes && self.time.contains(&version.timestamp) {
                (self.at, self.timestamp) = (At::Delete, version.timestamp);
                self.delete =
                    if kind == Kind::DeleteColumn { DeleteKind::Column } else { DeleteKind::Version };
                return Ok(());
            }
            cursor.next()?;
            return Ok(());
        }
        if self.state.needs_replay(rules) {
            replay(&mut self.state, cursor, &self.column, &self.above, rules)?;
        }
        match self.state.judge(version, &self.above, rules, rules.expired_below(self.now_ms)) {
            Verdict::NoneBehind => self.leave_column(),
            Verdict::Counts if version.timestamp < self.time.start => self.leave_column(),
            Verdict::Counts if version.timestamp < self.time.end => {
                (self.timestamp, self.at) = (version.timestamp, At::Cell);
                self.expires_ms = self.expires_ms.min(rules.expires_ms(version.timestamp));
                Ok(())
            }
            Verdict::Counts | Verdict::DoesNot => cursor.next().map(drop),
        }
    }

    /// Whether the column that has just begun is one of those that are read; if not, the walk goes on at the next one.
    #[inline(never)]
    fn is_in_range(&mut self) -> Result<bool> {
        let wanted = &self.wanted[self.family];
        // Columns that are asked for one by one were chosen before.
        let ranges = wanted.ranges(self.is_deciding).filter(|_| wanted.qualifiers.is_none());
        let Some(ranges) = ranges else { return Ok(true) };
        let qualifier = self.qualifier.within(&self.column);
        match ranges.at_or_behind(qualifier) {
            Some(from) if from <= qualifier => return Ok(true),
            Some(from) => {
                self.sought.clear();
                self.sought.extend_from_slice(&self.column[..self.keys.len() + size_of::<FamilyId>()]);
                cell::push_escaped(&mut self.sought, from);
                seek_on(&mut self.groups[wanted.group].cursor, &self.sought)?;
            }
            None => self.leave_family(),
        }
        Ok(false)
    }

    /// Whether the column that has just begun is in a span; if not, the walk goes on at the next span.
    #[inline(never)]
    fn is_in_span(&mut self) -> Result<bool> {
        if self.is_whole {
            return Ok(true);
        }
        let wanted = &self.wanted[self.family];
        let mut place = self.keys.clone();
        cell::push_escaped(&mut place, wanted.name.as_bytes());
        let family_len = place.len();
        place.extend_from_slice(&self.column[self.keys.len() + size_of::<FamilyId>()..]);
        let next = self.spans.partition_point(|span| span.ends_before(&place));
        let from = self.spans.get(next).map(|span| span.from.as_slice());
        if from.is_some_and(|from| from <= place.as_slice()) {
            return Ok(true);
        }
        match from.and_then(|from| from.strip_prefix(&place[..family_len])) {
            Some(rest) if wanted.qualifiers.is_none() => {
                self.sought.clear();
                self.sought.extend_from_slice(&self.column[..self.keys.len() + size_of::<FamilyId>()]);
                self.sought.extend_from_slice(rest);
                seek_on(&mut self.groups[wanted.group].cursor, &self.sought)?;
            }
            Some(_) => self.leave_column()?,
            None if from.is_some_and(|from| from.starts_with(&self.keys)) => self.leave_family(),
            None => self.at = At::End,
        }
        Ok(false)
    }
}

/// The least of the rows at which the groups are: [`Group::row`].
#[inline(never)]
fn least_row(groups: &[Group]) -> Result<Option<(&[u8], bool)>> {
    let mut least: Option<(&[u8], bool)> = None;
    for group in groups {
        if let Some(row) = group.row()?
            && least.is_none_or(|least| row.0 < least.0)
        {
            least = Some(row);
        }
    }
    Ok(least)
}

/// Moves a cursor that is at a key, or behind the last one, on to the first key that is not below `to`.
#[inline(never)]
fn seek_on(cursor: &mut Counted, to: &[u8]) -> Result<()> {
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

/// Moves a cursor on, behind the keys that begin with `prefix`, which ends with the end of an escaped text.
#[inline(never)]
fn leave(cursor: &mut Counted, prefix: &[u8], sought: &mut Vec<u8>) -> Result<()> {
    for _ in 0..STEPS_BEFORE_SEEK {
        if !cell::begins_with(cursor.key(), prefix) {
            return Ok(());
        }
        cursor.next()?;
    }
    if cell::begins_with(cursor.key(), prefix) {
        cell::write_behind(prefix, sought);
        cursor.seek(&*sought)?;
    }
    Ok(())
}

/// Finds out which puts of the column count, from what all of them are. The cursor goes there and back.
#[inline(never)]
fn replay(
    state: &mut Column,
    cursor: &mut Counted,
    column: &[u8],
    above: &Deletes,
    rules: &Rules,
) -> Result<()> {
    let puts = puts_of(cursor, column)?;
    state.replay(puts.into_iter(), above, rules);
    cursor.seek(cell::entry_prefix(column, Kind::Put)).map(drop)
}

/// The puts of the column whose keys begin with `column`, from the cursor's on.
fn puts_of(cursor: &mut Counted, column: &[u8]) -> Result<Vec<Version>> {
    let mut puts = Vec::new();
    while cell::begins_with(cursor.key(), column) {
        puts.push(cell::entry_of_column(cursor.key(), column.len())?.1);
        cursor.next()?;
    }
    Ok(puts)
}
