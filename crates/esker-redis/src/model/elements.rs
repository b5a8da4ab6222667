//! The entries of one large collection in the tree Elements.
//!
//! ```text
//! short name   key, escaped | 0 1 | generation, 8 bytes | name                   -> value
//! long name    key, escaped | 0 2 | generation, 8 bytes | head | digest          -> length of the name, name, value
//!
//! head         the first 16 KiB of the name                    digest   SHA-256 of the whole name, 32 bytes
//! ```
//! An element's name is *long* if the key of a short one would be longer than a key of the store may be, which has 128 KiB. So
//! which form a name has depends on its length and on the collection's key alone, and long names never take the key of a short
//! one, whatever bytes clients choose. The value of a long name begins with the whole name, after its length as varint; its
//! attributes are [`LONG`].
//!
//! Both forms are walked together, in the order of the whole names. Entries of short names lie in that order. Those of long
//! names lie in the order of their heads: all that have one head are a *group*, which is read as a whole and sorted by what
//! follows the head. Only handles of a group's values are kept meanwhile, and its names are compared piece by piece.
//!
//! Long names are read and hashed on a thread that may wait for the disk: [`Session::may_wait`].

use std::cmp::Ordering;

use sha2::{Digest, Sha256};

use super::coding::{damaged, put_varint, varint};
use crate::entry::{Bounds, Entry, KEY_BYTES_MAX, Slot, Value, behind};
use crate::fault::ReadError;
use crate::session::Session;

/// The attributes of a long name's entry. That of a short name has none.
const LONG: &[u8] = &[1];

/// The most bytes of a name that stand in its key. A key holds fewer where the collection's key leaves less room.
const HEAD_BYTES: usize = 16 << 10;

const DIGEST_BYTES: usize = 32;

/// The size of one read of a name that is compared.
const COMPARED_BYTES: usize = 64 << 10;

/// The most bytes of a varint.
const VARINT_BYTES: usize = 10;

/// The bytes of the generation, which end a prefix.
const GENERATION_BYTES: usize = 8;

/// The entries of a large collection: where they are.
#[derive(Debug, Clone)]
pub(super) struct Elements {
    slot: Slot,
    /// What the keys of short names begin with.
    short: Vec<u8>,
}

/// The key of an element's entry.
pub(super) struct EntryKey {
    key: Vec<u8>,
    /// The length of its name, if that is long.
    long: Option<usize>,
}

impl EntryKey {
    pub(super) fn is_long(&self) -> bool {
        self.long.is_some()
    }
}

impl Elements {
    /// Those whose short names have keys that begin with `prefix`, which ends with 0, 1 and the generation.
    pub(super) fn new(slot: Slot, prefix: Vec<u8>) -> Elements {
        Elements { slot, short: prefix }
    }

    /// What the keys of short names begin with.
    pub(super) fn short(&self) -> &[u8] {
        &self.short
    }

    /// What the keys of long names begin with: as many bytes.
    pub(super) fn long(&self) -> Vec<u8> {
        let mut long = self.short.clone();
        if let Some(form) = long.len().checked_sub(GENERATION_BYTES + 1).and_then(|at| long.get_mut(at)) {
            *form = 2;
        }
        long
    }

    /// How many bytes the key of an entry has in addition to the name.
    pub(super) fn overhead(&self) -> usize {
        self.short.len()
    }

    /// The most bytes of a short name.
    fn short_max(&self) -> usize {
        KEY_BYTES_MAX.saturating_sub(self.short.len())
    }

    /// How many bytes of a long name its key holds.
    fn head_len(&self) -> usize {
        self.short_max().saturating_sub(DIGEST_BYTES).min(HEAD_BYTES)
    }

    pub(super) fn is_long(&self, name: &[u8]) -> bool {
        name.len() > self.short_max()
    }

    /// The key of the element `name`, whether it is there or not.
    ///
    /// # Errors
    /// `NeedsIo` if its name is long and this thread may not wait.
    pub(super) fn key_of(&self, session: &Session<'_>, name: &[u8]) -> Result<EntryKey, ReadError> {
        if !self.is_long(name) {
            return Ok(EntryKey { key: [&self.short, name].concat(), long: None });
        }
        session.may_wait()?;
        let head = name.get(..self.head_len()).unwrap_or(name);
        let key = [&self.long(), head, Sha256::digest(name).as_slice()].concat();
        Ok(EntryKey { key, long: Some(name.len()) })
    }

    pub(super) fn contains(&self, session: &Session<'_>, at: &EntryKey) -> Result<bool, ReadError> {
        session.contains(self.slot, &at.key)
    }

    /// The value of an element.
    pub(super) fn get(&self, session: &Session<'_>, at: &EntryKey) -> Result<Option<Vec<u8>>, ReadError> {
        let Some(entry) = session.get(self.slot, &at.key)? else { return Ok(None) };
        let Some(name_len) = at.long else { return entry.value.into_bytes().map(Some) };
        let named = Named::of(entry.value)?;
        if named.len != name_len as u64 {
            return Err(damaged("a long element has a name of another length"));
        }
        named.into_value().map(Some)
    }

    /// The element at `at`, whose name is `name`, gets `value`.
    pub(super) fn put(&self, session: &mut Session<'_>, at: &EntryKey, name: &[u8], value: &[u8]) {
        let (value, attributes) = if at.is_long() {
            let mut whole = Vec::with_capacity(VARINT_BYTES + name.len() + value.len());
            put_varint(&mut whole, name.len() as u64);
            whole.extend_from_slice(name);
            whole.extend_from_slice(value);
            (whole, LONG.to_vec())
        } else {
            (value.to_vec(), Vec::new())
        };
        let entry = Entry { value: Value::Bytes(value), attributes, expires_us: None };
        session.put(self.slot, &at.key, entry);
    }

    pub(super) fn delete(&self, session: &mut Session<'_>, at: &EntryKey) {
        session.delete(self.slot, &at.key);
    }

    /// Calls `visit` with elements and values, in the order of the names, from `bounds.lower` on and below `bounds.upper`,
    /// ascending, or descending if `reverse`, until it returns `false`. `has_long`: there may be long names.
    pub(super) fn walk(
        &self,
        session: &Session<'_>,
        bounds: Bounds<'_>,
        reverse: bool,
        has_long: bool,
        mut visit: impl FnMut(&[u8], Vec<u8>) -> Result<bool, ReadError>,
    ) -> Result<(), ReadError> {
        let lower = [&self.short, self.bound(bounds.lower)].concat();
        let upper = match bounds.upper {
            Some(upper) => Some([&self.short, self.bound(upper)].concat()),
            None => behind(&self.short),
        };
        let within = Bounds { lower: &lower, upper: upper.as_deref() };
        let name_of = |key: &[u8]| self.short.len()..key.len();
        if !has_long {
            return session.walk(self.slot, within, reverse, &mut |key, entry| {
                visit(key.get(name_of(key)).unwrap_or(&[]), entry.value.into_bytes()?)
            });
        }
        session.may_wait()?;
        let mut long = LongNames::new(self, bounds, reverse);
        let mut goes_on = true;
        session.walk(self.slot, within, reverse, &mut |key, entry| {
            let name = key.get(name_of(key)).unwrap_or(&[]);
            while goes_on && long.is_before(session, name)? {
                goes_on = long.visit(session, &mut visit)?;
            }
            if goes_on {
                goes_on = visit(name, entry.value.into_bytes()?)?;
            }
            Ok(goes_on)
        })?;
        while goes_on && long.has_next(session)? {
            goes_on = long.visit(session, &mut visit)?;
        }
        Ok(())
    }

    /// As much of a bound as decides on which side of it a short name is.
    fn bound<'a>(&self, bound: &'a [u8]) -> &'a [u8] {
        bound.get(..=self.short_max()).unwrap_or(bound)
    }
}

/// The value of a long name's entry.
struct Named {
    entry: Value,
    /// Where the name begins, and how many bytes it has.
    begin: u64,
    len: u64,
}

impl Named {
    fn of(entry: Value) -> Result<Named, ReadError> {
        let head = read(&entry, 0, VARINT_BYTES)?;
        let (len, begin) = varint(&head).ok_or_else(unnamed)?;
        let begin = begin as u64;
        if entry.len().checked_sub(begin).is_none_or(|left| left < len) {
            return Err(unnamed());
        }
        Ok(Named { entry, begin, len })
    }

    /// The order of its name and `name` after the first `from` bytes, which are equal.
    fn cmp_after(&self, from: usize, name: &[u8]) -> Result<Ordering, ReadError> {
        let mut at = from;
        loop {
            let own = self.piece(at)?;
            let rest = name.get(at..).unwrap_or(&[]);
            let order = own.as_slice().cmp(&rest[..rest.len().min(COMPARED_BYTES)]);
            if order.is_ne() || own.is_empty() {
                return Ok(order);
            }
            at += own.len();
        }
    }

    /// As [`Named::cmp_after`], with another long name.
    fn cmp_names(&self, from: usize, other: &Named) -> Result<Ordering, ReadError> {
        let mut at = from;
        loop {
            let (own, others) = (self.piece(at)?, other.piece(at)?);
            let order = own.cmp(&others);
            if order.is_ne() || own.is_empty() {
                return Ok(order);
            }
            at += own.len();
        }
    }

    /// The bytes of the name from `at` on, [`COMPARED_BYTES`] at most.
    fn piece(&self, at: usize) -> Result<Vec<u8>, ReadError> {
        let left = usize::try_from(self.len).unwrap_or(usize::MAX).saturating_sub(at);
        read(&self.entry, self.begin + at as u64, left.min(COMPARED_BYTES))
    }

    /// The value after the name.
    fn into_value(self) -> Result<Vec<u8>, ReadError> {
        let begin = self.begin + self.len;
        let left = self.entry.len().saturating_sub(begin);
        read(&self.entry, begin, usize::try_from(left).unwrap_or(usize::MAX))
    }

    /// All bytes, and where the name is in them.
    fn into_whole(self) -> Result<(Vec<u8>, std::ops::Range<usize>), ReadError> {
        let (begin, end) = (self.begin as usize, (self.begin + self.len) as usize);
        Ok((self.entry.into_bytes()?, begin..end))
    }
}

fn unnamed() -> ReadError {
    damaged("a long element does not begin with its name")
}

/// At most `len` bytes of `value` from `offset` on.
fn read(value: &Value, offset: u64, len: usize) -> Result<Vec<u8>, ReadError> {
    let len = len.min(usize::try_from(value.len().saturating_sub(offset)).unwrap_or(usize::MAX));
    match value {
        _ if len == 0 => Ok(Vec::new()),
        Value::Bytes(bytes) => {
            let from = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..));
            Ok(from.unwrap_or(&[]).iter().take(len).copied().collect())
        }
        Value::Huge(huge) => huge.read_at(offset, len),
    }
}

/// The long names of a walk, in order.
struct LongNames<'a> {
    elements: &'a Elements,
    bounds: Bounds<'a>,
    reverse: bool,
    /// The keys of the groups that come: from the first one on and below the second one; `None`: to the end.
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
    /// What the names of the group share that has begun.
    head: Vec<u8>,
    /// The rest of that group, the next one last.
    group: Vec<Named>,
}

impl<'a> LongNames<'a> {
    fn new(elements: &'a Elements, bounds: Bounds<'a>, reverse: bool) -> LongNames<'a> {
        let prefix = elements.long();
        let key = |bound: &[u8]| [&prefix, &bound[..bound.len().min(elements.head_len())]].concat();
        let upper = match bounds.upper {
            // Names that begin with the whole head may lie on either side of the bound.
            Some(upper) if upper.len() > elements.head_len() => behind(&key(upper)),
            Some(upper) => Some(key(upper)),
            None => behind(&prefix),
        };
        let lower = key(bounds.lower);
        LongNames { elements, bounds, reverse, lower, upper, head: Vec::new(), group: Vec::new() }
    }

    /// Whether there is another one. Reads its group.
    fn has_next(&mut self, session: &Session<'_>) -> Result<bool, ReadError> {
        while self.group.is_empty() {
            let Some(group) = self.next_group(session)? else { return Ok(false) };
            self.group = group;
        }
        Ok(true)
    }

    /// Whether the next one comes before the short `name`.
    fn is_before(&mut self, session: &Session<'_>, name: &[u8]) -> Result<bool, ReadError> {
        if !self.has_next(session)? {
            return Ok(false);
        }
        let order = match self.head.as_slice().cmp(&name[..name.len().min(self.head.len())]) {
            // The name ends within the head, or begins with it.
            Ordering::Equal => match self.group.last() {
                Some(named) => named.cmp_after(self.head.len(), name)?,
                None => Ordering::Greater,
            },
            order => order,
        };
        Ok(order == if self.reverse { Ordering::Greater } else { Ordering::Less })
    }

    /// Calls `visit` with the next one.
    fn visit(
        &mut self,
        session: &Session<'_>,
        visit: &mut impl FnMut(&[u8], Vec<u8>) -> Result<bool, ReadError>,
    ) -> Result<bool, ReadError> {
        if !self.has_next(session)? {
            return Ok(true);
        }
        let Some(named) = self.group.pop() else { return Ok(true) };
        let (bytes, name) = named.into_whole()?;
        let value = bytes.get(name.end..).unwrap_or(&[]).to_vec();
        visit(bytes.get(name).ok_or_else(unnamed)?, value)
    }

    /// Those of the next group that are within the bounds, the next one last; `None` after the last group.
    fn next_group(&mut self, session: &Session<'_>) -> Result<Option<Vec<Named>>, ReadError> {
        if self.upper.as_ref().is_some_and(|upper| *upper <= self.lower) {
            return Ok(None);
        }
        let prefix = self.elements.long();
        let head_len = self.elements.head_len();
        let mut head: Option<Vec<u8>> = None;
        let mut entries = Vec::new();
        let bounds = Bounds { lower: &self.lower, upper: self.upper.as_deref() };
        session.walk(self.elements.slot, bounds, self.reverse, &mut |key, entry| {
            let rest = key.get(prefix.len()..).and_then(|rest| rest.split_at_checked(head_len));
            let rest = rest.filter(|(_, digest)| digest.len() == DIGEST_BYTES);
            let (own, _) = rest.ok_or_else(|| damaged("the key of a long element has another length"))?;
            if head.as_deref().is_some_and(|head| head != own) {
                return Ok(false);
            }
            head.get_or_insert_with(|| own.to_vec());
            entries.push(entry.value);
            Ok(true)
        })?;
        let Some(head) = head else { return Ok(None) };
        let group = [&prefix, head.as_slice()].concat();
        if self.reverse {
            self.upper = Some(group);
        } else {
            // Where no key is after the group, none is in it either.
            self.lower = behind(&group).unwrap_or(group);
        }
        let mut names = Vec::with_capacity(entries.len());
        for entry in entries {
            let named = Named::of(entry)?;
            if self.is_within(&named, &head)? {
                names.push(named);
            }
        }
        self.head = head;
        // The next one has to be the last one.
        let never_first = if self.reverse { Ordering::Greater } else { Ordering::Less };
        sorted(names, &mut |one, other| Ok(one.cmp_names(head_len, other)? != never_first)).map(Some)
    }

    /// Whether a name that begins with `head` is within the bounds.
    fn is_within(&self, named: &Named, head: &[u8]) -> Result<bool, ReadError> {
        let order = |bound: &[u8]| match head.cmp(&bound[..bound.len().min(head.len())]) {
            Ordering::Equal => named.cmp_after(head.len(), bound),
            order => Ok(order),
        };
        let is_above = order(self.bounds.lower)?.is_ge();
        let is_below = match self.bounds.upper {
            Some(upper) => order(upper)?.is_lt(),
            None => true,
        };
        Ok(is_above && is_below)
    }
}

/// Sorts by merging: `is_before_or_equal` may fail, which the standard library's sorts do not allow.
fn sorted(
    mut names: Vec<Named>,
    is_before_or_equal: &mut impl FnMut(&Named, &Named) -> Result<bool, ReadError>,
) -> Result<Vec<Named>, ReadError> {
    if names.len() < 2 {
        return Ok(names);
    }
    let len = names.len();
    let right = sorted(names.split_off(len / 2), is_before_or_equal)?;
    let left = sorted(names, is_before_or_equal)?;
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    let mut merged = Vec::with_capacity(len);
    while let (Some(one), Some(other)) = (left.peek(), right.peek()) {
        let taken = if is_before_or_equal(one, other)? { left.next() } else { right.next() };
        merged.extend(taken);
    }
    merged.extend(left);
    merged.extend(right);
    Ok(merged)
}
