//! Merges many sorted sources into one sequence, in one direction.
//!
//! The sources that still have entries are kept in a list, ordered by their current entry. After a step the
//! first source is moved back to its place. Usually it stays first. That costs one comparison, or none if it is the
//! only source left. There are few sources (memtables, runs, levels; some dozens in tiered trees), so the list beats a
//! heap.

use std::ops::Range;
use std::sync::Arc;

use crate::cursor::{Cursor, Kind, MAX_SEQ, SeqNo};
use crate::error::Result;
use crate::memtable::MemCursor;
use crate::ranges::{KeyRange, RangeTombstone};
use crate::state::TreeState;
use crate::table::ScanHint;
use crate::version::levels::{LEVELS, Table};
use crate::version::table_cursor::TreeCursor;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

pub(crate) enum Source {
    Mem(MemCursor),
    /// A table, and the greatest sequence number of its entries.
    Table(TreeCursor, SeqNo),
    Level(LevelCursor),
}

macro_rules! each {
    ($self:expr, $cursor:ident => $body:expr) => {
        match $self {
            Source::Mem($cursor) => $body,
            Source::Table($cursor, _) => $body,
            Source::Level($cursor) => $body,
        }
    };
}

impl Source {
    /// The run at `place` of `tables`.
    pub(crate) fn of_run(tables: Arc<Vec<Arc<Table>>>, place: Range<usize>, hint: ScanHint) -> Result<Self> {
        match &tables[place.clone()] {
            [table] => Ok(Source::Table(table.cursor(hint)?, table.info.max_seq)),
            _ => Ok(Source::Level(LevelCursor::new(tables, place, hint))),
        }
    }

    #[inline]
    fn valid(&self) -> bool {
        each!(self, c => c.valid())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        each!(self, c => c.key())
    }

    #[inline]
    fn seq(&self) -> SeqNo {
        each!(self, c => c.seq())
    }

    /// Leaves the range of `hidden` in `direction`, if the source is in that range and `hidden` hides all its entries
    /// there. Returns whether it has moved.
    fn leave(&mut self, hidden: &RangeTombstone, direction: Direction) -> Result<bool> {
        if !self.valid() || !hidden.range.contains(self.key()) {
            return Ok(false);
        }
        match self {
            Source::Mem(cursor) if cursor.newest() < hidden.seq => go_past(cursor, &hidden.range, direction)?,
            Source::Table(cursor, newest) if *newest < hidden.seq => {
                go_past(cursor, &hidden.range, direction)?;
            }
            Source::Level(cursor) => return cursor.leave_hidden(hidden, direction),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Moves to the first entry outside of `range`, in which the cursor is, in `direction`.
fn go_past(cursor: &mut impl Cursor, range: &KeyRange, direction: Direction) -> Result<()> {
    match (direction, &range.upper) {
        (Direction::Backward, _) => cursor.seek_before(&range.lower, MAX_SEQ),
        (Direction::Forward, Some(upper)) => cursor.seek(upper, MAX_SEQ),
        (Direction::Forward, None) => {
            cursor.seek_to_last()?;
            if cursor.valid() { cursor.next() } else { Ok(()) }
        }
    }
}

/// The place of the tables of the run at `place` that may hold keys of `keys`. Tables between the first and the last of
/// them may hold no such key.
fn narrowed(tables: &[Arc<Table>], place: Range<usize>, keys: &KeyRange) -> Result<Range<usize>> {
    let run = &tables[place.clone()];
    let mut begin = run.partition_point(|table| table.info.largest < keys.lower);
    let before = |table: &Arc<Table>| keys.upper.as_ref().is_none_or(|upper| table.info.smallest < *upper);
    let mut end = begin + run[begin..].partition_point(before);
    while begin < end && !run[begin].may_hold(keys)? {
        begin += 1;
    }
    while begin < end && !run[end - 1].may_hold(keys)? {
        end -= 1;
    }
    Ok(place.start + begin..place.start + end)
}

/// The sources that cover all of `state`, newest first.
pub(crate) fn sources_of(state: &TreeState, hint: ScanHint) -> Result<Vec<Source>> {
    sources_within(state, None, hint)
}

/// The same for `keys` alone, if they are given. Leaves out tables whose filters exclude these keys.
pub(crate) fn sources_within(
    state: &TreeState,
    keys: Option<&KeyRange>,
    hint: ScanHint,
) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for mem in std::iter::once(&state.mem).chain(&state.immutable) {
        if !mem.is_untouched() {
            sources.push(Source::Mem(mem.table.cursor()));
        }
    }
    if let Some(keys) = keys {
        let levels = (1..LEVELS).map(|level| (level, 0..state.levels.level(level).len()));
        for (level, place) in state.levels.run_places().map(|place| (0, place)).chain(levels) {
            let place = narrowed(state.levels.level(level), place, keys)?;
            if !place.is_empty() {
                sources.push(Source::of_run(state.levels.shared_level(level), place, hint)?);
            }
        }
        return Ok(sources);
    }
    for place in state.levels.run_places() {
        sources.push(Source::of_run(state.levels.shared_level(0), place, hint)?);
    }
    for level in (1..LEVELS).filter(|&level| !state.levels.level(level).is_empty()) {
        let tables = state.levels.shared_level(level);
        let whole = 0..tables.len();
        sources.push(Source::Level(LevelCursor::new(tables, whole, hint)));
    }
    Ok(sources)
}

/// Walks several sources as one. If two sources hold the same version of a key (this should not happen), the earlier
/// source in the list comes first.
pub(crate) struct MergeCursor {
    sources: Vec<Source>,
    /// Indexes of the sources that have an entry, in the order of these entries.
    order: Vec<usize>,
    direction: Direction,
}

impl MergeCursor {
    pub(crate) fn new(sources: Vec<Source>, direction: Direction) -> Self {
        MergeCursor { order: Vec::with_capacity(sources.len()), sources, direction }
    }

    #[inline]
    fn before(&self, a: usize, b: usize) -> bool {
        let (one, two) = (&self.sources[a], &self.sources[b]);
        // By ascending key, then newest first.
        let order = one.key().cmp(two.key()).then_with(|| two.seq().cmp(&one.seq()));
        match self.direction {
            Direction::Forward => order.is_lt() || (order.is_eq() && a < b),
            Direction::Backward => order.is_gt() || (order.is_eq() && a < b),
        }
    }

    fn position(&mut self, mut seek: impl FnMut(&mut Source) -> Result<()>) -> Result<()> {
        self.order.clear();
        for index in 0..self.sources.len() {
            if let Err(error) = seek(&mut self.sources[index]) {
                // If one source fails, the others must not pass for the whole.
                self.order.clear();
                return Err(error);
            }
            if self.sources[index].valid() {
                let at = self.order.iter().position(|&other| self.before(index, other));
                self.order.insert(at.unwrap_or(self.order.len()), index);
            }
        }
        Ok(())
    }

    /// The caller must seek next.
    pub(crate) fn turn(&mut self, direction: Direction) {
        self.direction = direction;
        self.order.clear();
    }

    /// Moves to the first entry in the current direction.
    pub(crate) fn seek_to_start(&mut self) -> Result<()> {
        match self.direction {
            Direction::Forward => self.position(|source| each!(source, c => c.seek_to_first())),
            Direction::Backward => self.position(|source| each!(source, c => c.seek_to_last())),
        }
    }

    /// Forward: moves to the first entry at or after `(key, seq)`. Backward: moves to the last one before it.
    pub(crate) fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        match self.direction {
            Direction::Forward => self.position(|source| each!(source, c => c.seek(key, seq))),
            Direction::Backward => self.position(|source| each!(source, c => c.seek_before(key, seq))),
        }
    }

    /// Moves to the next entry in the current direction.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<()> {
        let Some(&first) = self.order.first() else { return Ok(()) };
        let source = &mut self.sources[first];
        let moved = match self.direction {
            Direction::Forward => each!(source, c => c.next()),
            Direction::Backward => each!(source, c => c.prev()),
        };
        if moved.is_err() || !source.valid() {
            self.order.remove(0);
            if moved.is_err() {
                self.order.clear();
            }
            return moved;
        }
        let mut at = 0;
        while at + 1 < self.order.len() && self.before(self.order[at + 1], self.order[at]) {
            self.order.swap(at, at + 1);
            at += 1;
        }
        Ok(())
    }

    /// Moves sources out of the range of `hidden`, in the current direction, if `hidden` hides all their entries there.
    /// Returns whether the first source was among them, so that the current entry has changed.
    pub(crate) fn leave_hidden(&mut self, hidden: &RangeTombstone) -> Result<bool> {
        let direction = self.direction;
        let (first, mut has_moved, mut is_first) = (self.order.first().copied(), false, false);
        for index in 0..self.sources.len() {
            match self.sources[index].leave(hidden, direction) {
                Ok(false) => {}
                Ok(true) => (has_moved, is_first) = (true, is_first || first == Some(index)),
                Err(error) => {
                    self.order.clear();
                    return Err(error);
                }
            }
        }
        if has_moved {
            self.position(|_| Ok(()))?;
        }
        Ok(is_first)
    }

    /// Whether the current entry is in a memtable.
    #[inline]
    pub(crate) fn is_in_memory(&self) -> bool {
        matches!(self.sources[self.order[0]], Source::Mem(_))
    }

    /// The place of the source that has the current entry.
    #[inline]
    pub(crate) fn source(&self) -> usize {
        self.order[0]
    }

    #[inline]
    pub(crate) fn valid(&self) -> bool {
        !self.order.is_empty()
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.sources[self.order[0]].key()
    }

    #[inline]
    pub(crate) fn seq(&self) -> SeqNo {
        self.sources[self.order[0]].seq()
    }

    #[inline]
    pub(crate) fn kind(&self) -> Kind {
        each!(&self.sources[self.order[0]], c => c.kind())
    }

    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        each!(&self.sources[self.order[0]], c => c.value())
    }
}

/// Walks the disjoint tables of one sorted run, with one of them open at a time.
pub(crate) struct LevelCursor {
    tables: Arc<Vec<Arc<Table>>>,
    /// The run's place among the tables.
    place: Range<usize>,
    index: usize,
    current: Option<TreeCursor>,
    hint: ScanHint,
}

impl LevelCursor {
    pub(crate) fn new(tables: Arc<Vec<Arc<Table>>>, place: Range<usize>, hint: ScanHint) -> Self {
        LevelCursor { tables, place, index: 0, current: None, hint }
    }

    fn run(&self) -> &[Arc<Table>] {
        &self.tables[self.place.clone()]
    }

    /// Opens a table, with the buffers of the last one. If the table does not exist, the cursor becomes invalid.
    fn open(&mut self, index: usize) -> Result<Option<&mut TreeCursor>> {
        let Some(table) = self.tables[self.place.clone()].get(index) else {
            self.leave();
            return Ok(None);
        };
        if self.index != index || self.current.is_none() {
            let used = self.current.take();
            self.current = Some(table.cursor_of(used, self.hint)?);
            self.index = index;
        }
        Ok(self.current.as_mut())
    }

    /// Becomes invalid.
    fn leave(&mut self) {
        if let Some(cursor) = &mut self.current {
            cursor.leave();
        }
    }

    /// Leaves the range of `hidden`, in which the cursor is, as far as `hidden` hides all entries of whole tables.
    /// Returns whether it has moved. Tables that it passes are not opened.
    fn leave_hidden(&mut self, hidden: &RangeTombstone, direction: Direction) -> Result<bool> {
        let run = self.run();
        let is_hidden = |index: usize| run.get(index).is_some_and(|table| table.info.max_seq < hidden.seq);
        if !is_hidden(self.index) {
            return Ok(false);
        }
        let range = &hidden.range;
        let mut index = self.index;
        match direction {
            Direction::Forward => {
                while is_hidden(index) && range.ends_behind(&run[index].info.largest) {
                    index += 1;
                }
                let ends_within = is_hidden(index);
                let Some(cursor) = self.open(index)? else { return Ok(true) };
                match &range.upper {
                    Some(upper) if ends_within => cursor.seek(upper, MAX_SEQ)?,
                    _ => cursor.seek_to_first()?,
                }
                self.skip_forward()?;
            }
            Direction::Backward => {
                let is_whole = |index: usize| is_hidden(index) && range.lower <= run[index].info.smallest;
                while index > 0 && is_whole(index) {
                    index -= 1;
                }
                let (whole, begins_within) = (is_whole(index), is_hidden(index));
                if whole {
                    self.leave();
                    return Ok(true);
                }
                let Some(cursor) = self.open(index)? else { return Ok(true) };
                if begins_within {
                    cursor.seek_before(&range.lower, MAX_SEQ)?;
                } else {
                    cursor.seek_to_last()?;
                }
                self.skip_backward()?;
            }
        }
        Ok(true)
    }

    /// Moves to the first entry of the next table while the current one is exhausted.
    fn skip_forward(&mut self) -> Result<()> {
        while self.current.as_ref().is_some_and(|cursor| !cursor.valid()) {
            match self.open(self.index + 1)? {
                Some(cursor) => cursor.seek_to_first()?,
                None => break,
            }
        }
        Ok(())
    }

    /// Moves to the last entry of the table before while the current one is exhausted.
    fn skip_backward(&mut self) -> Result<()> {
        while self.current.as_ref().is_some_and(|cursor| !cursor.valid()) {
            let Some(previous) = self.index.checked_sub(1) else { break };
            if let Some(cursor) = self.open(previous)? {
                cursor.seek_to_last()?;
            }
        }
        Ok(())
    }
}

/// A run with no open table behaves like one without entries.
fn no_entry<T>() -> T {
    unreachable!("a cursor is asked for its entry only while it is valid")
}

impl Cursor for LevelCursor {
    #[inline]
    fn valid(&self) -> bool {
        self.current.as_ref().is_some_and(Cursor::valid)
    }

    fn seek_to_first(&mut self) -> Result<()> {
        let Some(cursor) = self.open(0)? else { return Ok(()) };
        cursor.seek_to_first()?;
        self.skip_forward()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        let Some(cursor) = self.open(self.run().len().saturating_sub(1))? else { return Ok(()) };
        cursor.seek_to_last()?;
        self.skip_backward()
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        let index = self.run().partition_point(|table| table.info.largest.as_slice() < key);
        let Some(cursor) = self.open(index)? else { return Ok(()) };
        cursor.seek(key, seq)?;
        self.skip_forward()
    }

    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        // The last table that begins at or before `key` has the answer, or else the table before it.
        let behind = self.run().partition_point(|table| table.info.smallest.as_slice() <= key);
        let Some(index) = behind.checked_sub(1) else {
            self.leave();
            return Ok(());
        };
        let Some(cursor) = self.open(index)? else { return Ok(()) };
        cursor.seek_before(key, seq)?;
        self.skip_backward()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if let Some(cursor) = &mut self.current {
            cursor.next()?;
            if cursor.valid() {
                return Ok(());
            }
        }
        self.skip_forward()
    }

    fn prev(&mut self) -> Result<()> {
        if let Some(cursor) = &mut self.current {
            cursor.prev()?;
        }
        self.skip_backward()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.current.as_ref().map_or_else(no_entry, Cursor::key)
    }

    #[inline]
    fn seq(&self) -> SeqNo {
        self.current.as_ref().map_or_else(no_entry, Cursor::seq)
    }

    #[inline]
    fn kind(&self) -> Kind {
        self.current.as_ref().map_or_else(no_entry, Cursor::kind)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.current.as_ref().map_or_else(no_entry, Cursor::value)
    }
}
