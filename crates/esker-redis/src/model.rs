//! How values of Redis lie in a store.
//!
//! ```text
//! tree Keys       key -> the bytes of a string                       attributes: none
//!                 key -> a small collection: its elements in order   attributes: kind, count, ...
//!                 key -> nothing                                     attributes: kind, count, generation, ...
//! tree Elements   key, escaped | 0 1 | generation, 8 bytes | element -> the element's value
//!                 key, escaped | 0 2 | generation | ...              -> an element that is too long for a key: see `elements`
//!                 0 0 -> what the empty key has: see [`crate::session`]
//!
//! element         hash: field -> value        set: member -> nothing       list: place, 8 bytes -> value
//!                 sorted set: 'm' member -> score     's' score member -> nothing
//! ```
//! A string is its bytes and nothing else, so whatever else opens the store sees the same bytes. A collection is a map
//! from elements to values, which is kept in order: in the record of its key while it is small, and in a tree of its own
//! from [`SMALL_ENTRIES`] entries or [`SMALL_BYTES`] on. Then it has a *generation*, a number that no other collection has
//! had. So the elements of a collection that is gone are never taken for those of a later one with the same key, and may
//! be deleted later.
//!
//! Attributes of a collection: the kind (1 hash, 2 set, 3 sorted set, 4 list), plus 128 if it is large; the number of
//! entries as varint; if it is large, the generation, 8 bytes, big-endian; of a list, the place of its first element, 8
//! bytes, big-endian; of a large sorted set, if they are known, two bounds of its scores' elements, each after its length
//! as varint; of a large hash, set or sorted set, if it has elements that are too long for a key, the number of those as varint,
//! before which the bounds of a sorted set are always there. A small collection's record has for each entry: length of the
//! element as varint, the element, length of its value as varint, the value.

mod coding;
mod elements;
mod key;
mod kind;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::ops::Range;

use smallvec::SmallVec;

use crate::context::Context;
use crate::entry::{Bounds, EMPTY_KEY, Entry, KEY_BYTES_MAX, Slot, Space, Value, behind};
use crate::fault::{Fault, ReadError};
use crate::session::Session;
use coding::{damaged, put_varint, varint};
use elements::Elements;
pub(crate) use key::key_of_element;
use key::{prefix, unescaped};
pub use kind::Kind;
use kind::LARGE;

/// The most entries of a collection that is kept in its key's record. A member of a sorted set counts as two.
pub const SMALL_ENTRIES: u64 = 64;

/// The most bytes of such a record.
pub const SMALL_BYTES: usize = 4096;

/// A collection with more entries than this, or whose entries have more bytes of keys than [`DELETED_SINGLY_BYTES`], is deleted
/// as a range, others entry by entry: deletions of ranges take memory until they are merged away.
const DELETED_SINGLY: u64 = 1024;
/// Deletions of entries with so many bytes of keys fit into the log segments that a full disk has for deletes.
const DELETED_SINGLY_BYTES: usize = 64 << 10;

/// A command or transaction that has written more, in bytes of memory, leaves the elements of collections that it deletes to
/// the server's sweep.
const WRITTEN_BEFORE_LEFT: usize = 16 << 20;

/// As many bytes as most heads take.
const HEAD_ROOM: usize = 24;

/// The most bytes of a bound of a collection's elements. Longer ones are shortened.
const BOUND_BYTES: usize = 64;

/// What a collection's attributes say.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Head {
    kind: Kind,
    entries: u64,
    generation: Option<u64>,
    first: i64,
    within: Within,
    /// How many elements of a large collection are too long for a key.
    long: u64,
}

/// Between which elements those of a part of a large collection lie, as far as that is known: `lower` is none of them or the
/// first one, `upper` is behind all of them. Empty: unknown.
///
/// Elements that are gone lie in the store until it merges them away. A walk from a collection's end that begins at a bound
/// does not pass them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Within {
    lower: Bound,
    upper: Bound,
}

type Bound = SmallVec<[u8; 24]>;

impl Within {
    /// Nothing is before `element`.
    pub(crate) fn begin_at(&mut self, element: &[u8]) {
        self.lower = Bound::from_slice(&element[..element.len().min(BOUND_BYTES)]);
    }

    /// Nothing is behind `element`.
    pub(crate) fn end_at(&mut self, element: &[u8]) {
        self.upper = match element.get(..BOUND_BYTES) {
            Some(beginning) => Bound::from_vec(behind(beginning).unwrap_or_default()),
            None => {
                let mut upper = Bound::from_slice(element);
                upper.push(0);
                upper
            }
        };
    }

    /// Makes room for `element`.
    pub(crate) fn include(&mut self, element: &[u8]) {
        if element < self.lower.as_slice() {
            self.begin_at(element);
        }
        if !self.upper.is_empty() && element >= self.upper.as_slice() {
            self.end_at(element);
        }
    }

    /// What of `bounds` can have elements; `None`: nothing.
    pub(crate) fn cut<'a>(&'a self, bounds: Bounds<'a>) -> Option<Bounds<'a>> {
        let lower = bounds.lower.max(self.lower.as_slice());
        let known = Some(self.upper.as_slice()).filter(|upper| !upper.is_empty());
        let upper = match (bounds.upper, known) {
            (Some(asked), Some(known)) => Some(asked.min(known)),
            (asked, known) => asked.or(known),
        };
        upper.is_none_or(|upper| lower < upper).then_some(Bounds { lower, upper })
    }
}

impl Head {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_ROOM);
        out.push(self.kind.number() | if self.generation.is_some() { LARGE } else { 0 });
        put_varint(&mut out, self.entries);
        out.extend(self.generation.into_iter().flat_map(u64::to_be_bytes));
        if self.kind == Kind::List {
            out.extend_from_slice(&self.first.to_be_bytes());
        }
        if self.has_bounds() && (self.long > 0 || self.within != Within::default()) {
            for bound in [&self.within.lower, &self.within.upper] {
                put_varint(&mut out, bound.len() as u64);
                out.extend_from_slice(bound);
            }
        }
        if self.long > 0 {
            put_varint(&mut out, self.long);
        }
        out
    }

    /// Whether bounds of its elements may be known.
    fn has_bounds(&self) -> bool {
        self.kind == Kind::SortedSet && self.generation.is_some()
    }

    fn decode(kind: Kind, attributes: &[u8]) -> Option<Head> {
        let (first_byte, rest) = attributes.split_first()?;
        let (entries, len) = varint(rest)?;
        let mut rest = &rest[len..];
        let mut number = || {
            let (number, behind) = rest.split_first_chunk::<8>()?;
            rest = behind;
            Some(*number)
        };
        let generation = if first_byte & LARGE != 0 { Some(u64::from_be_bytes(number()?)) } else { None };
        let first = if kind == Kind::List { i64::from_be_bytes(number()?) } else { 0 };
        let mut head = Head { kind, entries, generation, first, within: Within::default(), long: 0 };
        if head.has_bounds() && !rest.is_empty() {
            for bound in [&mut head.within.lower, &mut head.within.upper] {
                let (len, width) = varint(rest)?;
                let (found, behind) = rest[width..].split_at_checked(usize::try_from(len).ok()?)?;
                *bound = Bound::from_slice(found);
                rest = behind;
            }
        }
        if generation.is_some() && !rest.is_empty() {
            head.long = varint(rest)?.0;
        }
        Some(head)
    }
}

/// Whether servers that know only the first layout of trees of elements cannot read `entry`, which `key` has in one: it is that
/// of a client's empty key, or of an element that is too long for a key.
pub fn is_of_layout_2(key: &[u8], entry: &Entry) -> bool {
    key == EMPTY_KEY || !entry.attributes.is_empty()
}

/// An element and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// A key; most take no memory of their own.
type Key = SmallVec<[u8; 36]>;

/// Where the elements of a collection are.
#[derive(Debug, Clone)]
enum Place {
    /// In this record.
    Record(Vec<u8>),
    /// In the tree Elements.
    Tree(Elements),
}

/// A collection that is read and changed. Changes count from [`Collection::save`] on.
#[derive(Debug, Clone)]
pub(crate) struct Collection {
    slot: Slot,
    key: Key,
    head: Head,
    expires_us: Option<u64>,
    place: Place,
}

/// An entry in a record: where the element and its value are.
struct Spans {
    element: Range<usize>,
    value: Range<usize>,
}

/// The entry of a record that begins at `at`.
fn entry_at(record: &[u8], at: usize) -> Option<Spans> {
    let part = |at: usize| {
        let (len, width) = varint(&record[at..])?;
        let begin = at + width;
        let end = begin.checked_add(usize::try_from(len).ok()?).filter(|end| *end <= record.len())?;
        Some(begin..end)
    };
    let element = part(at)?;
    let value = part(element.end)?;
    Some(Spans { element, value })
}

/// Where `element` is in a record, or the place to insert it.
fn place_in(record: &[u8], element: &[u8]) -> Result<Result<(usize, Spans), usize>, ReadError> {
    let mut at = 0;
    while at < record.len() {
        let spans = entry_at(record, at).ok_or_else(|| damaged("a collection's record does not parse"))?;
        match record[spans.element.clone()].cmp(element) {
            Ordering::Less => at = spans.value.end,
            Ordering::Equal => return Ok(Ok((at, spans))),
            Ordering::Greater => break,
        }
    }
    Ok(Err(at))
}

/// Puts `element` with `value` into a record. Returns whether it is new.
fn put_in(record: &mut Vec<u8>, element: &[u8], value: &[u8]) -> Result<bool, ReadError> {
    let found = place_in(record, element)?;
    let replaced = match &found {
        Ok((_, spans)) if spans.value.len() == value.len() => {
            record[spans.value.clone()].copy_from_slice(value);
            return Ok(false);
        }
        Ok((at, spans)) => *at..spans.value.end,
        Err(at) => *at..*at,
    };
    let mut entry = Vec::with_capacity(element.len() + value.len() + 4);
    for part in [element, value] {
        put_varint(&mut entry, part.len() as u64);
        entry.extend_from_slice(part);
    }
    record.splice(replaced, entry);
    Ok(found.is_err())
}

impl Collection {
    /// The collection at `key`, if there is one. Another type is an error.
    pub(crate) fn find(ctx: &Context<'_>, key: &[u8], kind: Kind) -> Result<Option<Collection>, Fault> {
        let Some(entry) = ctx.get(key)? else { return Ok(None) };
        Collection::of(ctx, key, kind, entry).map(Some)
    }

    /// The collection that `entry` of `key` holds. Another type is an error.
    pub(crate) fn of(ctx: &Context<'_>, key: &[u8], kind: Kind, entry: Entry) -> Result<Collection, Fault> {
        if Kind::of(&entry)? != kind {
            return Err(Fault::WRONG_TYPE);
        }
        let head = Head::decode(kind, &entry.attributes);
        let head = head.ok_or_else(|| damaged("a collection's attributes do not parse"))?;
        let slot = Slot { database: ctx.database(), space: Space::Elements };
        let place = match head.generation {
            Some(generation) => Place::Tree(Elements::new(slot, prefix(key, generation))),
            None => Place::Record(entry.value.into_bytes()?),
        };
        Ok(Collection { slot, key: Key::from_slice(key), head, expires_us: entry.expires_us, place })
    }

    /// A collection without entries, to be saved at `key`.
    pub(crate) fn new(ctx: &Context<'_>, key: &[u8], kind: Kind) -> Collection {
        Collection {
            slot: Slot { database: ctx.database(), space: Space::Elements },
            key: Key::from_slice(key),
            head: Head { kind, entries: 0, generation: None, first: 0, within: Within::default(), long: 0 },
            expires_us: None,
            place: Place::Record(Vec::new()),
        }
    }

    /// How many entries it has. A member of a sorted set has two.
    pub(crate) fn entries(&self) -> u64 {
        self.head.entries
    }

    pub(crate) fn is_large(&self) -> bool {
        matches!(self.place, Place::Tree(_))
    }

    /// When it expires, in microseconds since 1970.
    pub(crate) fn expires_us(&self) -> Option<u64> {
        self.expires_us
    }

    /// The place of a list's first element; the others follow without gaps.
    pub(crate) fn first(&self) -> i64 {
        self.head.first
    }

    pub(crate) fn set_first(&mut self, first: i64) {
        self.head.first = first;
    }

    /// Between which elements those of its scores lie: of a large sorted set.
    pub(crate) fn within(&self) -> &Within {
        &self.head.within
    }

    pub(crate) fn within_mut(&mut self) -> &mut Within {
        &mut self.head.within
    }

    /// The value of `element`.
    pub(crate) fn get(&self, session: &Session<'_>, element: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        match &self.place {
            Place::Record(_) => self.read(session, element, |value| Ok(value.to_vec())),
            Place::Tree(elements) if elements.is_long(element) && self.head.long == 0 => Ok(None),
            Place::Tree(elements) => elements.get(session, &elements.key_of(session, element)?),
        }
    }

    /// What `read` makes of the value of `element`.
    pub(crate) fn read<T>(
        &self,
        session: &Session<'_>,
        element: &[u8],
        read: impl Fn(&[u8]) -> Result<T, ReadError>,
    ) -> Result<Option<T>, ReadError> {
        match &self.place {
            Place::Record(record) => {
                place_in(record, element)?.ok().map(|(_, spans)| read(&record[spans.value])).transpose()
            }
            Place::Tree(_) => self.get(session, element)?.map(|value| read(&value)).transpose(),
        }
    }

    /// `element` gets `value`. Returns whether it is new.
    pub(crate) fn insert(
        &mut self,
        ctx: &mut Context<'_>,
        element: &[u8],
        value: &[u8],
    ) -> Result<bool, ReadError> {
        self.put(ctx, element, value, None)
    }

    /// As [`Collection::insert`], for a caller who knows whether `element` is new: it is not looked for in a tree. Unless the
    /// collection is damaged, the caller must be right: the number of entries follows from it.
    pub(crate) fn insert_known(
        &mut self,
        ctx: &mut Context<'_>,
        element: &[u8],
        value: &[u8],
        is_new: bool,
    ) -> Result<(), ReadError> {
        self.put(ctx, element, value, Some(is_new)).map(drop)
    }

    fn put(
        &mut self,
        ctx: &mut Context<'_>,
        element: &[u8],
        value: &[u8],
        is_new: Option<bool>,
    ) -> Result<bool, ReadError> {
        // Known before it is copied to a record.
        if element.len() > KEY_BYTES_MAX {
            ctx.session().may_wait()?;
        }
        let is_new = match &mut self.place {
            Place::Record(record) => put_in(record, element, value)?,
            Place::Tree(elements) => {
                let key = elements.key_of(ctx.session(), element)?;
                let is_new = match is_new {
                    Some(is_new) => is_new,
                    None => !elements.contains(ctx.session(), &key)?,
                };
                elements.put(ctx.session_mut(), &key, element, value);
                self.head.long += u64::from(is_new && key.is_long());
                is_new
            }
        };
        self.head.entries += u64::from(is_new);
        let is_too_large = match &self.place {
            Place::Record(record) => self.head.entries > SMALL_ENTRIES || record.len() > SMALL_BYTES,
            Place::Tree(_) => false,
        };
        if is_too_large {
            self.spread(ctx)?;
        }
        Ok(is_new)
    }

    /// Moves the entries of a record to the tree Elements.
    fn spread(&mut self, ctx: &mut Context<'_>) -> Result<(), ReadError> {
        let generation = ctx.next_generation();
        let elements = Elements::new(self.slot, prefix(&self.key, generation));
        if let Place::Record(record) = std::mem::replace(&mut self.place, Place::Tree(elements.clone())) {
            let mut at = 0;
            while at < record.len() {
                let spans =
                    entry_at(&record, at).ok_or_else(|| damaged("a collection's record does not parse"))?;
                let (element, value) = (&record[spans.element], &record[spans.value.clone()]);
                let key = elements.key_of(ctx.session(), element)?;
                elements.put(ctx.session_mut(), &key, element, value);
                self.head.long += u64::from(key.is_long());
                at = spans.value.end;
            }
        }
        self.head.generation = Some(generation);
        Ok(())
    }

    /// `element` goes. Returns the value that it had.
    pub(crate) fn remove(
        &mut self,
        ctx: &mut Context<'_>,
        element: &[u8],
    ) -> Result<Option<Vec<u8>>, ReadError> {
        let old = match &mut self.place {
            Place::Record(record) => match place_in(record, element)? {
                Ok((at, spans)) => {
                    let old = record[spans.value.clone()].to_vec();
                    record.drain(at..spans.value.end);
                    Some(old)
                }
                Err(_) => None,
            },
            Place::Tree(elements) if elements.is_long(element) && self.head.long == 0 => None,
            Place::Tree(elements) => {
                let key = elements.key_of(ctx.session(), element)?;
                let old = elements.get(ctx.session(), &key)?;
                if old.is_some() {
                    elements.delete(ctx.session_mut(), &key);
                    self.head.long -= u64::from(key.is_long());
                }
                old
            }
        };
        self.head.entries -= u64::from(old.is_some());
        Ok(old)
    }

    /// Calls `visit` with elements and values, in order, from `bounds.lower` on and below `bounds.upper`, ascending, or
    /// descending if `reverse`, until it returns `false`.
    pub(crate) fn walk(
        &self,
        session: &Session<'_>,
        bounds: Bounds<'_>,
        reverse: bool,
        mut visit: impl FnMut(&[u8], Vec<u8>) -> Result<bool, ReadError>,
    ) -> Result<(), ReadError> {
        match &self.place {
            Place::Record(record) => {
                let (mut found, mut at) = (Vec::new(), 0);
                while at < record.len() {
                    let spans = entry_at(record, at)
                        .ok_or_else(|| damaged("a collection's record does not parse"))?;
                    at = spans.value.end;
                    let element = &record[spans.element.clone()];
                    let is_below = bounds.upper.is_none_or(|upper| element < upper);
                    if element >= bounds.lower && is_below {
                        found.push(spans);
                    }
                }
                if reverse {
                    found.reverse();
                }
                for spans in found {
                    if !visit(&record[spans.element], record[spans.value].to_vec())? {
                        break;
                    }
                }
                Ok(())
            }
            Place::Tree(elements) => elements.walk(session, bounds, reverse, self.head.long > 0, visit),
        }
    }

    /// All elements with their values, in order.
    pub(crate) fn all(&self, session: &Session<'_>) -> Result<Vec<Pair>, ReadError> {
        let mut all = Vec::new();
        self.walk(session, Bounds::ALL, false, |element, value| {
            all.push((element.to_vec(), value));
            Ok(true)
        })?;
        Ok(all)
    }

    /// Makes the changes count. A collection without entries goes, and its key with it. Returns whether it is there.
    pub(crate) fn save(self, ctx: &mut Context<'_>) -> bool {
        let Collection { key, head, expires_us, place, .. } = self;
        if head.entries == 0 {
            // Each of its entries was removed.
            ctx.delete_entry(&key);
            return false;
        }
        let value = match place {
            Place::Record(record) => Value::Bytes(record),
            Place::Tree(_) => Value::Bytes(Vec::new()),
        };
        ctx.put_entry(&key, Entry { value, attributes: head.encode(), expires_us });
        true
    }

    /// Deletes the elements, if they are in a tree of their own, or leaves them to the server's sweep. The key's entry is
    /// overwritten or deleted by the caller.
    pub(crate) fn delete_elements(&self, ctx: &mut Context<'_>) -> Result<(), ReadError> {
        let Place::Tree(elements) = &self.place else { return Ok(()) };
        let long = (self.head.long > 0).then(|| elements.long());
        for prefix in [Some(elements.short()), long.as_deref()].into_iter().flatten() {
            let upper = behind(prefix);
            if ctx.session().written_bytes() > WRITTEN_BEFORE_LEFT {
                ctx.session_mut().forget_unread(self.slot, prefix, upper.as_deref());
                continue;
            }
            let (mut keys, mut bytes) = (Vec::new(), 0);
            if self.head.entries <= DELETED_SINGLY {
                let bounds = Bounds { lower: prefix, upper: upper.as_deref() };
                ctx.session().walk(self.slot, bounds, false, &mut |key, _| {
                    bytes += key.len();
                    keys.push(key.to_vec());
                    Ok(bytes <= DELETED_SINGLY_BYTES)
                })?;
            }
            if self.head.entries <= DELETED_SINGLY && bytes <= DELETED_SINGLY_BYTES {
                keys.iter().for_each(|key| ctx.session_mut().delete(self.slot, key));
            } else {
                ctx.session_mut().delete_unread(self.slot, prefix.to_vec(), upper);
            }
        }
        Ok(())
    }

    /// A copy with all entries, to be saved at `key` in `database`.
    pub(crate) fn copy_to(
        &self,
        ctx: &mut Context<'_>,
        database: u16,
        key: &[u8],
    ) -> Result<Collection, ReadError> {
        let mut copy =
            Collection { slot: Slot { database, ..self.slot }, key: Key::from_slice(key), ..self.clone() };
        if let Place::Tree(_) = &self.place {
            let generation = ctx.next_generation();
            let target = Elements::new(copy.slot, prefix(key, generation));
            copy.head.long = 0;
            for (element, value) in self.all(ctx.session())? {
                // The length of the key decides which elements are too long.
                let key = target.key_of(ctx.session(), &element)?;
                target.put(ctx.session_mut(), &key, &element, &value);
                copy.head.long += u64::from(key.is_long());
            }
            copy.head.generation = Some(generation);
            copy.place = Place::Tree(target);
        }
        Ok(copy)
    }
}

/// Deletes the elements of the collection that `key` has as `entry`, if it is one.
pub(crate) fn delete_elements(ctx: &mut Context<'_>, key: &[u8], entry: Entry) -> Result<(), Fault> {
    let kind = Kind::of(&entry)?;
    if kind == Kind::String {
        return Ok(());
    }
    Ok(Collection::of(ctx, key, kind, entry)?.delete_elements(ctx)?)
}

/// `key` and all that it has goes. Returns whether it was there.
pub(crate) fn remove(ctx: &mut Context<'_>, key: &[u8]) -> Result<bool, Fault> {
    let Some(old) = ctx.get(key)? else { return Ok(false) };
    delete_elements(ctx, key, old)?;
    ctx.delete_entry(key);
    Ok(true)
}

/// How many bytes the elements take that `entry` of `key` has in a tree of their own.
pub(crate) fn elements_bytes(ctx: &Context<'_>, key: &[u8], entry: Entry) -> Result<u64, Fault> {
    let kind = Kind::of(&entry)?;
    if kind == Kind::String {
        return Ok(0);
    }
    let collection = Collection::of(ctx, key, kind, entry)?;
    let Place::Tree(elements) = &collection.place else { return Ok(0) };
    let (each, mut bytes) = (elements.overhead() as u64, 0);
    collection.walk(ctx.session(), Bounds::ALL, false, |element, value| {
        bytes += each + (element.len() + value.len()) as u64;
        Ok(true)
    })?;
    Ok(bytes)
}

/// What [`sweep`] has found.
#[derive(Debug, Default)]
pub struct Swept {
    /// Where to go on; `None` at the end.
    pub next: Option<Vec<u8>>,
    /// The keys of collections that are gone.
    pub gone: Vec<Vec<u8>>,
}

/// Finds elements of collections that are gone, expired ones above all, and deletes them where `may_delete` says so of
/// the key. Looks at the collections from the key `from` of the tree Elements on, at most at `most` of them.
///
/// A command may have seen a collection that expires before it writes to it. So a key may be deleted only while no
/// command on it is under way.
///
/// # Errors
/// [`ReadError`] when the store cannot be read.
pub fn sweep(
    session: &mut Session<'_>,
    database: u16,
    from: &[u8],
    most: usize,
    may_delete: impl Fn(&[u8]) -> bool,
) -> Result<Swept, ReadError> {
    let mut swept = Swept::default();
    let (keys, elements) = (Slot { database, space: Space::Keys }, Slot { database, space: Space::Elements });
    // What the empty key has is before all elements.
    let mut next = from.max([EMPTY_KEY, &[0]].concat().as_slice()).to_vec();
    for _ in 0..most {
        let mut found = None;
        session.walk(elements, Bounds { lower: &next, upper: None }, false, &mut |key, _| {
            found = Some(key.to_vec());
            Ok(false)
        })?;
        let Some(found) = found else { return Ok(swept) };
        let Some((key, generation, rest)) = unescaped(&found) else {
            return Err(damaged("a key in the tree of elements does not parse"));
        };
        let prefix = found[..found.len() - rest.len()].to_vec();
        let lives = session.get(keys, &key)?.is_some_and(|entry| {
            let head = Kind::of(&entry).ok().and_then(|kind| Head::decode(kind, &entry.attributes));
            head.is_some_and(|head| head.generation == Some(generation))
        });
        let Some(end) = behind(&prefix) else { return Ok(swept) };
        if !lives {
            if may_delete(&key) {
                session.delete_unread(elements, prefix, Some(end.clone()));
            }
            swept.gone.push(key);
        }
        next = end;
    }
    swept.next = Some(next);
    Ok(swept)
}
