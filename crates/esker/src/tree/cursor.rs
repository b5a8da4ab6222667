//! A position in a tree that a program moves forward and backward. It uses one scan, which keeps its buffers and its
//! places in tables: to seek again costs only the search.
//!
//! ```text
//! Unset --seek, first, last, next, prev--> Pair --next--> Behind
//!                                           ^  '--prev--> Before
//!                                           '--prev from Behind, next from Before
//! ```

use super::Tree;
use crate::error::Result;
use crate::read::lent::ValueRef;
use crate::read::meter::ScanMeter;
use crate::read::range::ScanRange;
use crate::read::scan::{Goal, Scan};
use crate::read::view::{View, cover_of, pay};

/// A position in a tree that moves in both directions and to any key. It sees the tree at one moment, regardless of
/// later writes: the moment of its snapshot, or that of [`Tree::cursor`] and [`Cursor::refresh`].
///
/// Every method that moves it returns whether it is at a pair now. Reuse a cursor for many seeks: while the data that
/// it reads is in memory, they allocate nothing. A cursor keeps the files and the memory that it reads, so do not keep
/// an unused one.
///
/// # Example
/// ```
/// # fn main() -> esker::Result<()> {
/// # let db = esker::Db::open_in_memory(esker::Options::default())?;
/// let words = db.tree("words")?;
/// for word in ["ant", "bee", "cat"] {
///     words.put(word, "animal")?;
/// }
/// let mut cursor = words.cursor()?;
/// assert!(cursor.seek("b")?);
/// assert_eq!((cursor.key(), &cursor.value().bytes()?[..]), (&b"bee"[..], &b"animal"[..]));
/// assert!(cursor.next()? && cursor.key() == b"cat");
/// assert!(!cursor.next()? && cursor.key().is_empty());
/// assert!(cursor.prev()? && cursor.key() == b"cat");
/// assert!(cursor.seek_for_prev("az")? && cursor.key() == b"ant");
/// # Ok(())
/// # }
/// ```
pub struct Cursor {
    scan: Scan,
    view: View,
    /// How many of the view's memtables had been written to before the scan was made.
    written: usize,
    at: At,
    /// The tree whose current moment [`Cursor::refresh`] moves to; `None` for a cursor of a snapshot.
    tree: Option<Tree>,
}

/// Where a cursor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Nowhere yet.
    Unset,
    Pair,
    /// Before the first pair.
    Before,
    /// After the last pair.
    Behind,
    /// Nowhere, because a step failed.
    Lost,
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").field("scan", &self.scan).field("at", &self.at).finish_non_exhaustive()
    }
}

impl Cursor {
    pub(super) fn new(view: View, tree: Option<Tree>) -> Result<Cursor> {
        let written = view.written();
        Ok(Cursor { scan: scan_of(&view)?, view, written, at: At::Unset, tree })
    }

    /// Moves to the first pair of the tree.
    ///
    /// # Errors
    /// `Corruption` or `Io` when a table cannot be read. The cursor is then at no pair, and [`Cursor::next`] and
    /// [`Cursor::prev`] leave it there until it is moved by another method.
    pub fn first(&mut self) -> Result<bool> {
        self.go(Goal::First)
    }

    /// Moves to the last pair of the tree.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn last(&mut self) -> Result<bool> {
        self.go(Goal::Last)
    }

    /// Moves to the pair of `key`, or else to the next one. If no such pair exists, the cursor is after the last pair.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    #[inline]
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.go(Goal::AtOrAfter(key.as_ref()))
    }

    /// Moves to the pair of `key`, or else to the one before it. If no such pair exists, the cursor is before the first
    /// pair.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    #[inline]
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.go(Goal::AtOrBefore(key.as_ref()))
    }

    /// Moves to the next pair; to the first one if the cursor is before it or was not moved yet. After the last pair it
    /// stays.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    #[expect(clippy::should_implement_trait, reason = "an `Iterator` cannot lend its items")]
    #[inline]
    pub fn next(&mut self) -> Result<bool> {
        match self.at {
            At::Pair => self.go(Goal::Next),
            At::Unset | At::Before => self.go(Goal::First),
            At::Behind | At::Lost => Ok(false),
        }
    }

    /// Moves to the previous pair; to the last one if the cursor is after it or was not moved yet. Before the first
    /// pair it stays. After a [`Cursor::next`] this is a seek, and so is a `next` after this.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    #[inline]
    pub fn prev(&mut self) -> Result<bool> {
        match self.at {
            At::Pair => self.go(Goal::Previous),
            At::Unset | At::Behind => self.go(Goal::Last),
            At::Before | At::Lost => Ok(false),
        }
    }

    #[inline]
    fn go(&mut self, goal: Goal<'_>) -> Result<bool> {
        if !goal.is_step() {
            pay(&self.view.states);
        }
        let moved = self.scan.go(goal);
        self.at = match (&moved, goal.is_backward()) {
            (Ok(true), _) => At::Pair,
            (Ok(false), true) => At::Before,
            (Ok(false), false) => At::Behind,
            (Err(_), _) => At::Lost,
        };
        moved
    }

    /// The key of the pair; empty if the cursor is not at a pair.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.scan.key()
    }

    /// The value of the pair; empty if the cursor is not at a pair.
    #[inline]
    pub fn value(&self) -> ValueRef<'_> {
        ValueRef::of(&self.scan)
    }

    /// Moves the cursor to the current moment of its tree. It is then not at a pair. The cursor of a snapshot stays at
    /// the moment of the snapshot.
    ///
    /// This costs less than a new cursor as long as the tree has the same tables.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let mut cursor = db.default_tree().cursor()?;
    /// db.put("ant", "6 legs")?;
    /// assert!(!cursor.first()?);
    /// cursor.refresh()?;
    /// assert!(cursor.first()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Tree::get`]. The cursor then keeps its moment.
    pub fn refresh(&mut self) -> Result<()> {
        if let Some(tree) = &self.tree {
            let view = tree.view()?;
            let written = view.written();
            if self.view.has_states_of(&view) && self.written == written {
                let cover = cover_of(&view.states, &ScanRange::all().keys, view.point.0);
                self.scan.renew(view.point, cover, view.held.clone());
            } else {
                self.scan = scan_of(&view)?;
            }
            (self.view, self.written) = (view, written);
        }
        self.scan.leave();
        self.at = At::Unset;
        Ok(())
    }
}

fn scan_of(view: &View) -> Result<Scan> {
    let View { store, tree, states, point, held } = view;
    let meter = ScanMeter::silent(store.clone(), tree);
    Scan::new(states, *point, ScanRange::all(), held.clone(), meter)
}

#[cfg(test)]
mod tests;
