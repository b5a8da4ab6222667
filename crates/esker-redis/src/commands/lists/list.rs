//! A list as a collection: its elements are places, which are numbers without gaps.
//!
//! ```text
//! index      0   1   2   3          place = first + index, so an element is found without a walk
//! place     -2  -1   0   1          pushed at the left: first - 1; at the right: first + length
//!            ^ first
//! ```
//! A place is 8 bytes, big-endian, with the sign bit flipped, so that places sort as numbers do. What is inserted or removed
//! within a list moves the elements on one side of it, so that no gaps stay.

use std::ops::Range;

use crate::commands::is;
use crate::context::{Class, Context};
use crate::fault::{Fault, ReadError};
use crate::model::{Collection, Kind};
use crate::resp::reply::Reply;
use crate::session::{Bounds, Entry, Session};

/// How many elements are read at once before they are moved.
const MOVED_AT_ONCE: i64 = 256;

/// One of a list's ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Left,
    Right,
}

/// A list that is read and changed. Changes count from [`List::save`] on.
pub(super) struct List {
    key: Vec<u8>,
    elements: Collection,
}

fn gap() -> ReadError {
    ReadError::Failed("Corruption: a list lacks one of its elements".to_owned())
}

impl List {
    /// The list at `key`, if there is one. Another type is an error.
    pub(super) fn find(ctx: &Context<'_>, key: &[u8]) -> Result<Option<List>, Fault> {
        let found = Collection::find(ctx, key, Kind::List)?;
        Ok(found.map(|elements| List { key: key.to_vec(), elements }))
    }

    /// As [`List::find`], for a command that only reads: notes that there is no such key.
    pub(super) fn read(ctx: &mut Context<'_>, key: &[u8]) -> Result<Option<List>, Fault> {
        let found = List::find(ctx, key)?;
        if found.is_none() {
            ctx.notify(Class::Missed, "keymiss", key);
        }
        Ok(found)
    }

    /// A list without elements, to be saved at `key`.
    pub(super) fn new(ctx: &Context<'_>, key: &[u8]) -> List {
        List { key: key.to_vec(), elements: Collection::new(ctx, key, Kind::List) }
    }

    /// How many elements it has.
    pub(super) fn len(&self) -> i64 {
        i64::try_from(self.elements.entries()).unwrap_or(i64::MAX)
    }

    /// The index that a client means: one below 0 counts from the end. It may lie outside of the list.
    pub(super) fn index(&self, index: i64) -> i64 {
        if index < 0 { index.saturating_add(self.len()) } else { index }
    }

    /// The elements from the index `start` to the index `end` that a client means, which is one of them.
    pub(super) fn range(&self, start: i64, end: i64) -> Range<i64> {
        let start = self.index(start).max(0);
        let end = self.index(end).saturating_add(1).min(self.len());
        start..end.max(start)
    }

    /// What stands for `index` in the collection. Only damage can make a place overflow.
    fn element(&self, index: i64) -> [u8; 8] {
        (self.elements.first().wrapping_add(index) ^ i64::MIN).to_be_bytes()
    }

    /// The value at `index`, which lies within the list.
    pub(super) fn get(&self, session: &Session<'_>, index: i64) -> Result<Vec<u8>, ReadError> {
        self.elements.get(session, &self.element(index))?.ok_or_else(gap)
    }

    /// Calls `visit` with the indexes and values of `range`, which lies within the list, ascending, or descending if
    /// `reverse`, until it returns `false`.
    pub(super) fn walk(
        &self,
        session: &Session<'_>,
        range: Range<i64>,
        reverse: bool,
        mut visit: impl FnMut(i64, Vec<u8>) -> bool,
    ) -> Result<(), ReadError> {
        let (lower, upper) = (self.element(range.start), self.element(range.end));
        let bounds = Bounds { lower: &lower, upper: Some(&upper) };
        let (mut left, mut goes_on) = (range, true);
        self.elements.walk(session, bounds, reverse, |_, value| {
            let index = if reverse { left.next_back() } else { left.next() };
            goes_on = visit(index.ok_or_else(gap)?, value);
            Ok(goes_on)
        })?;
        if goes_on && !left.is_empty() { Err(gap()) } else { Ok(()) }
    }

    /// Replies the values of `range`, which lies within the list.
    pub(super) fn reply(
        &self,
        session: &Session<'_>,
        range: Range<i64>,
        reverse: bool,
        reply: &mut Reply,
    ) -> Result<(), ReadError> {
        reply.array(usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0));
        self.walk(session, range, reverse, |_, value| {
            reply.bulk(&value);
            true
        })
    }

    /// `index`, which lies within the list or beside one of its ends, gets `value`.
    pub(super) fn set(&mut self, ctx: &mut Context<'_>, index: i64, value: &[u8]) -> Result<(), ReadError> {
        let element = self.element(index);
        // Beside the ends there is nothing.
        let is_new = !(0..self.len()).contains(&index);
        self.elements.insert_known(ctx, &element, value, is_new)
    }

    fn move_first(&mut self, by: i64) {
        self.elements.set_first(self.elements.first().wrapping_add(by));
    }

    /// Adds `value` at an end.
    pub(super) fn push(&mut self, ctx: &mut Context<'_>, end: End, value: &[u8]) -> Result<(), ReadError> {
        match end {
            End::Left => {
                self.set(ctx, -1, value)?;
                self.move_first(-1);
            }
            End::Right => self.set(ctx, self.len(), value)?,
        }
        Ok(())
    }

    /// Removes the element at an end. There is one.
    pub(super) fn pop(&mut self, ctx: &mut Context<'_>, end: End) -> Result<Vec<u8>, ReadError> {
        let index = if end == End::Left { 0 } else { self.len().saturating_sub(1) };
        let element = self.element(index);
        let value = self.elements.remove(ctx, &element)?.ok_or_else(gap)?;
        if end == End::Left {
            self.move_first(1);
        }
        Ok(value)
    }

    /// Inserts `value` before the element at `index`, which may be the length.
    pub(super) fn insert(
        &mut self,
        ctx: &mut Context<'_>,
        index: i64,
        value: &[u8],
    ) -> Result<(), ReadError> {
        let len = self.len();
        if index < len.saturating_sub(index) {
            self.place_from(ctx, 0..index, -1, &[])?;
            self.set(ctx, index.saturating_sub(1), value)?;
            self.move_first(-1);
        } else {
            self.place_until(ctx, index..len, len.saturating_add(1), &[])?;
            self.set(ctx, index, value)?;
        }
        Ok(())
    }

    /// Removes the elements at `gaps`, which ascend. There is one at least, and not all elements are among them.
    pub(super) fn remove(&mut self, ctx: &mut Context<'_>, gaps: &[i64]) -> Result<(), ReadError> {
        let len = self.len();
        let ends = gaps.iter().copied().chain([len]);
        let starts = std::iter::once(0).chain(gaps.iter().map(|gap| gap.saturating_add(1)));
        // The longest run between two gaps stays where it is; what lies on both sides of it moves towards it.
        let runs = starts.zip(ends).enumerate();
        let Some((before, (start, end))) = runs.max_by_key(|(_, (start, end))| end.saturating_sub(*start))
        else {
            return Ok(());
        };
        let (left, right) = gaps.split_at(before);
        self.place_until(ctx, 0..start, start, left)?;
        self.place_from(ctx, end..len, end, right)?;
        self.cut(ctx, left.len() as i64, right.len() as i64)
    }

    /// Removes so many elements at the left end and at the right one.
    fn cut(&mut self, ctx: &mut Context<'_>, left: i64, right: i64) -> Result<(), ReadError> {
        for _ in 0..left {
            self.pop(ctx, End::Left)?;
        }
        for _ in 0..right {
            self.pop(ctx, End::Right)?;
        }
        Ok(())
    }

    /// Moves the elements of `sources`, without `gaps`, to `target` and the indexes behind it. `target` is not above their
    /// beginning, so no element is overwritten before it was read.
    fn place_from(
        &mut self,
        ctx: &mut Context<'_>,
        mut sources: Range<i64>,
        mut target: i64,
        gaps: &[i64],
    ) -> Result<(), ReadError> {
        let mut gaps = gaps.iter().peekable();
        while !sources.is_empty() {
            let end = sources.start.saturating_add(MOVED_AT_ONCE).min(sources.end);
            for (index, value) in self.values(ctx.session(), sources.start..end, false)? {
                if gaps.next_if(|gap| **gap == index).is_none() {
                    self.set(ctx, target, &value)?;
                    target = target.saturating_add(1);
                }
            }
            sources.start = end;
        }
        Ok(())
    }

    /// Moves the elements of `sources`, without `gaps`, to the indexes before `target`, which is not below their end.
    fn place_until(
        &mut self,
        ctx: &mut Context<'_>,
        mut sources: Range<i64>,
        mut target: i64,
        gaps: &[i64],
    ) -> Result<(), ReadError> {
        let mut gaps = gaps.iter().rev().peekable();
        while !sources.is_empty() {
            let start = sources.end.saturating_sub(MOVED_AT_ONCE).max(sources.start);
            for (index, value) in self.values(ctx.session(), start..sources.end, true)? {
                if gaps.next_if(|gap| **gap == index).is_none() {
                    target = target.saturating_sub(1);
                    self.set(ctx, target, &value)?;
                }
            }
            sources.end = start;
        }
        Ok(())
    }

    fn values(
        &self,
        session: &Session<'_>,
        range: Range<i64>,
        reverse: bool,
    ) -> Result<Vec<(i64, Vec<u8>)>, ReadError> {
        let mut values = Vec::new();
        self.walk(session, range, reverse, |index, value| {
            values.push((index, value));
            true
        })?;
        Ok(values)
    }

    /// Keeps the elements of `range`, which lies within the list, and makes that count. Returns whether there are any.
    pub(super) fn keep(mut self, ctx: &mut Context<'_>, range: Range<i64>) -> Result<bool, Fault> {
        let kept = range.end.saturating_sub(range.start);
        let removed = self.len().saturating_sub(kept);
        if kept == 0 {
            self.clear(ctx)?;
            return Ok(false);
        }
        if removed <= kept {
            self.cut(ctx, range.start, self.len().saturating_sub(range.end))?;
            return Ok(self.save(ctx));
        }
        // It takes less to write what is kept than to delete the rest one by one.
        let mut list = List::new(ctx, &self.key);
        let mut rest = range;
        while !rest.is_empty() {
            let end = rest.start.saturating_add(MOVED_AT_ONCE).min(rest.end);
            for (_, value) in self.values(ctx.session(), rest.start..end, false)? {
                list.push(ctx, End::Right, &value)?;
            }
            rest.start = end;
        }
        self.elements.delete_elements(ctx)?;
        let expires_us = self.elements.expires_us();
        list.save(ctx);
        if let Some(entry) = ctx.get(&self.key)?.filter(|_| expires_us.is_some()) {
            ctx.put_entry(&self.key, Entry { expires_us, ..entry });
        }
        Ok(true)
    }

    /// Removes the element at an end, of which there is one, and makes that count. Returns it, and whether there are others.
    pub(super) fn popped(mut self, ctx: &mut Context<'_>, end: End) -> Result<(Vec<u8>, bool), Fault> {
        if self.len() > 1 {
            let value = self.pop(ctx, end)?;
            return Ok((value, self.save(ctx)));
        }
        let value = self.get(ctx.session(), 0)?;
        self.clear(ctx)?;
        Ok((value, false))
    }

    /// Removes `count` elements at an end, which are there, replies them, and makes that count. Returns whether there are
    /// others.
    pub(super) fn reply_popped(
        self,
        ctx: &mut Context<'_>,
        end: End,
        count: i64,
        reply: &mut Reply,
    ) -> Result<bool, Fault> {
        let len = self.len();
        let range = if end == End::Left { 0..count } else { len.saturating_sub(count)..len };
        self.reply(ctx.session(), range.clone(), end == End::Right, reply)?;
        let rest = if end == End::Left { range.end..len } else { 0..range.start };
        self.keep(ctx, rest)
    }

    /// All elements go, and the key.
    pub(super) fn clear(self, ctx: &mut Context<'_>) -> Result<(), Fault> {
        self.elements.delete_elements(ctx)?;
        ctx.delete_entry(&self.key);
        Ok(())
    }

    /// Makes the changes count. A list without elements goes, and its key with it. Returns whether it is there.
    pub(super) fn save(self, ctx: &mut Context<'_>) -> bool {
        self.elements.save(ctx)
    }
}

impl End {
    pub(super) fn push_event(self) -> &'static str {
        if self == End::Left { "lpush" } else { "rpush" }
    }

    pub(super) fn pop_event(self) -> &'static str {
        if self == End::Left { "lpop" } else { "rpop" }
    }

    /// The end that an argument names: `LEFT` or `RIGHT`.
    pub(super) fn named(argument: &[u8]) -> Result<End, Fault> {
        if is(argument, "LEFT") {
            Ok(End::Left)
        } else if is(argument, "RIGHT") {
            Ok(End::Right)
        } else {
            Err(Fault::SYNTAX)
        }
    }
}

/// Adds `values` at an end of the list that `found` is, or a new one at `key`. Returns its length.
pub(super) fn push(
    ctx: &mut Context<'_>,
    key: &[u8],
    found: Option<List>,
    end: End,
    values: &[&[u8]],
) -> Result<i64, Fault> {
    let is_new = found.is_none();
    let mut list = found.unwrap_or_else(|| List::new(ctx, key));
    for value in values {
        list.push(ctx, end, value)?;
    }
    let len = list.len();
    list.save(ctx);
    if is_new {
        ctx.notify(Class::New, "new", key);
    }
    ctx.notify(Class::List, end.push_event(), key);
    Ok(len)
}

/// Notes that elements of `key` were popped, and whether it has others.
pub(super) fn notify_popped(ctx: &mut Context<'_>, end: End, key: &[u8], has_others: bool) {
    ctx.notify(Class::List, end.pop_event(), key);
    if !has_others {
        ctx.notify(Class::Generic, "del", key);
    }
}
