//! The trees of an access group: one, or several that lie one behind the other since the table was split.
//!
//! ```text
//! tree "table 7.2"       from the beginning of the table
//! tree "table 7.2.3"     from the row that the catalog has at "part 7.2.3"
//! tree "table 7.2.1"     from the row that it has at "part 7.2.1", to the end of the table
//! ```
//! The catalog has a part before its tree is split off. So a split that was interrupted is done by the next opening. The keys
//! of a row are all in one part.
//!
//! Somebody else may split a tree of a table. Then its rows must not seem to be gone: each tree is asked for its bounds when it
//! is opened, and behind the snapshot of each read. A split that a snapshot sees has changed the bounds before.

use core::ops::Bound;

use esker::{ErrorKind, ScanRange, Snapshot, Tree, ValueRef};
use esker_journal::Journal;

use crate::cell;
use crate::error::{Error, Result};
use crate::span::Span;

/// A part as the catalog has it: its number in its group, and its first row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Division {
    pub(crate) number: u32,
    pub(crate) row: Vec<u8>,
}

/// The trees of an access group, in the order of their keys.
#[derive(Clone)]
pub(crate) struct Parts(Vec<Part>);

#[derive(Clone)]
struct Part {
    tree: Tree,
    /// No key of the part is below this one.
    from: Vec<u8>,
    /// The keys that the tree has, as long as nobody splits it.
    range: ScanRange,
}

/// The name of a part of the group whose first tree is called `group`.
pub(crate) fn part_name(group: &str, number: u32) -> String {
    format!("{group}.{number}")
}

impl Parts {
    /// Opens the trees of the group whose first one is called `name`. Splits those off that are missing.
    ///
    /// # Errors
    /// `Damaged` when a tree is gone, or was split by somebody else.
    pub(crate) fn open(journal: &dyn Journal, name: &str, divisions: &[Division]) -> Result<Parts> {
        let db = journal.db();
        let first =
            db.open_tree(name)?.ok_or_else(|| Error::Damaged(format!("the tree {name:?} is gone")))?;
        let mut trees = vec![(Vec::new(), first)];
        let mut missing = Vec::new();
        for Division { number, row } in divisions {
            let (from, name) = (cell::row_prefix(row), part_name(name, *number));
            match db.open_tree(&name)? {
                Some(tree) => trees.push((from, tree)),
                None => missing.push((from, name)),
            }
        }
        let mut parts = Parts::of_trees(trees);
        if let Some(part) = parts.0.iter().find(|part| !part.is_whole()) {
            return Err(Error::Damaged(part.not_whole()));
        }
        for (from, name) in missing {
            parts = parts.split(journal, &from, &name)?;
        }
        Ok(parts)
    }

    fn of_trees(mut trees: Vec<(Vec<u8>, Tree)>) -> Parts {
        trees.sort_by(|one, other| one.0.cmp(&other.0));
        let ends: Vec<Option<Vec<u8>>> =
            trees.iter().skip(1).map(|(from, _)| Some(from.clone())).chain([None]).collect();
        let part = |((from, tree), end): ((Vec<u8>, Tree), Option<Vec<u8>>)| {
            let range = ScanRange::from((
                Bound::Included(from.as_slice()),
                end.as_deref().map_or(Bound::Unbounded, Bound::Excluded),
            ));
            Part { tree, from, range }
        };
        Parts(trees.into_iter().zip(ends).map(part).collect())
    }

    /// The tree with the first keys.
    pub(crate) fn first(&self) -> &Tree {
        &self.0[0].tree
    }

    /// The trees, in the order of their keys.
    pub(crate) fn trees(&self) -> impl Iterator<Item = &Tree> {
        self.0.iter().map(|part| &part.tree)
    }

    /// The first keys of all parts but the first one.
    pub(crate) fn borders(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().skip(1).map(|part| part.from.as_slice())
    }

    /// The tree that has `key`.
    pub(crate) fn tree_of(&self, key: &[u8]) -> &Tree {
        let behind = self.0.partition_point(|part| part.from.as_slice() <= key);
        &self.0[behind.saturating_sub(1)].tree
    }

    /// The parts when the keys from `from` on, up to the next part, have got a tree of their own.
    pub(crate) fn split(&self, journal: &dyn Journal, from: &[u8], name: &str) -> Result<Parts> {
        let new = journal.split_tree(self.tree_of(from), from, name)?;
        let mut trees: Vec<(Vec<u8>, Tree)> =
            self.0.iter().map(|part| (part.from.clone(), part.tree.clone())).collect();
        trees.push((from.to_vec(), new));
        Ok(Parts::of_trees(trees))
    }

    /// A cursor over the parts that have rows of `spans`, which are sorted and apart. It may have other keys too.
    ///
    /// # Errors
    /// `KeyMoved` when a tree was split meanwhile.
    pub(crate) fn cursor(&self, snapshot: &Snapshot, spans: &[Span]) -> Result<Cursor> {
        if let [part] = &self.0[..] {
            return Ok(Cursor { now: part.cursor(snapshot)?, place: 0, all: Vec::new() });
        }
        let mut all = Vec::new();
        for (place, part) in self.0.iter().enumerate() {
            let span = spans.get(spans.partition_point(|span| span.ends_before(&part.from)));
            let end = self.0.get(place + 1).map(|next| next.from.as_slice());
            if span.is_some_and(|span| end.is_none_or(|end| span.first_key() < end)) {
                all.push((part.from.clone(), Some(part.cursor(snapshot)?)));
            }
        }
        let now = match all.first_mut().and_then(|(_, cursor)| cursor.take()) {
            Some(cursor) => cursor,
            // Nothing is read.
            None => self.0[0].cursor(snapshot)?,
        };
        Ok(Cursor { now, place: 0, all })
    }
}

impl Part {
    fn is_whole(&self) -> bool {
        self.tree.key_range() == self.range
    }

    fn not_whole(&self) -> String {
        format!(
            "the tree {:?} has not the keys that the catalog says: it was split by other means than `Table::split`, or a tree \
             behind it is gone; nothing was dropped (docs/tables.md, \"Splits\")",
            self.tree.name()
        )
    }

    fn cursor(&self, snapshot: &Snapshot) -> Result<esker::Cursor> {
        let cursor = snapshot.cursor(&self.tree)?;
        if self.is_whole() {
            return Ok(cursor);
        }
        Err(esker::Error::new(ErrorKind::KeyMoved, self.not_whole()).into())
    }
}

/// A cursor over parts of a group, as one over a tree.
pub(crate) struct Cursor {
    /// That of the part in which it is.
    now: esker::Cursor,
    place: usize,
    /// The parts, with their first keys and the cursors of all but that one. Empty: there is no other.
    all: Vec<(Vec<u8>, Option<esker::Cursor>)>,
}

impl Cursor {
    /// The key at which it is; empty: at none.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.now.key()
    }

    #[inline]
    pub(crate) fn value(&self) -> ValueRef<'_> {
        self.now.value()
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Result<bool> {
        Ok(self.now.next()? || self.go_on()?)
    }

    /// Moves to `key`, or else to the next one.
    #[inline]
    pub(crate) fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        self.enter_part_of(key);
        Ok(self.now.seek(key)? || self.go_on()?)
    }

    /// Moves to `key`, or else to the one before it.
    pub(crate) fn seek_for_prev(&mut self, key: &[u8]) -> Result<bool> {
        self.enter_part_of(key);
        Ok(self.now.seek_for_prev(key)? || self.go_back()?)
    }

    /// Moves to the last key.
    pub(crate) fn last(&mut self) -> Result<bool> {
        self.enter(self.all.len().saturating_sub(1));
        Ok(self.now.last()? || self.go_back()?)
    }

    #[inline]
    fn enter_part_of(&mut self, key: &[u8]) {
        if !self.all.is_empty() {
            let behind = self.all.partition_point(|(from, _)| from.as_slice() <= key);
            self.enter(behind.saturating_sub(1));
        }
    }

    fn enter(&mut self, place: usize) {
        let Some(mut cursor) = self.all.get_mut(place).and_then(|(_, cursor)| cursor.take()) else { return };
        std::mem::swap(&mut cursor, &mut self.now);
        self.all[self.place].1 = Some(cursor);
        self.place = place;
    }

    /// From the end of a part to the first key of the parts behind.
    fn go_on(&mut self) -> Result<bool> {
        while self.place + 1 < self.all.len() {
            self.enter(self.place + 1);
            if self.now.first()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// From the beginning of a part to the last key of the parts before.
    fn go_back(&mut self) -> Result<bool> {
        while self.place > 0 {
            self.enter(self.place - 1);
            if self.now.last()? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests;
