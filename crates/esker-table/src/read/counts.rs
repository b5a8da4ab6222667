//! What a scan has read, and from where.

use esker::ValueRef;

use crate::error::Result;
use crate::parts::Cursor;

/// What a scan has read until now, for people who ask why it takes so long: [`Scan::counts`](crate::Scan::counts).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanCounts {
    /// Whether the query cache has the answer. Nothing was read then.
    pub is_cached: bool,
    /// What was read of the indexes to find the rows, if one was asked.
    pub index: Option<IndexCounts>,
    /// What was read of each access group that the scan reads: the group's name, and the counts.
    pub groups: Vec<(String, TreeCounts)>,
    /// The rows that the scan came to.
    pub rows: u64,
    /// Those of them that the filter left out as a whole, by their keys or by what they have.
    pub rows_left_out: u64,
    /// The cells that count and that the scan came to. If columns decide about a row that is shown, their cells may count twice.
    pub cells: u64,
    /// Those of them that the filter left out one by one.
    pub cells_left_out: u64,
}

/// What was read of the indexes of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexCounts {
    /// What was read of the indexes' tree.
    pub tree: TreeCounts,
    /// How many rows the index found. `None`: too many, so that it was not used.
    pub rows: Option<u64>,
}

/// What was read of a tree of the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeCounts {
    /// How often the scan sought a place. A step to the next entry is no seek.
    pub seeks: u64,
    /// The entries that it came to: cells, versions that do not count, and deletes.
    pub entries: u64,
    /// The bytes of the keys and values of these entries. A value that the store keeps apart, because it is long, counts as if
    /// it was read.
    pub bytes: u64,
}

/// A cursor that counts what it comes to, if somebody asks for it.
pub(crate) struct Counted {
    cursor: Cursor,
    is_counting: bool,
    counts: TreeCounts,
}

impl Counted {
    /// A cursor that does not count yet.
    pub(crate) fn new(cursor: Cursor) -> Counted {
        Counted { cursor, is_counting: false, counts: TreeCounts::default() }
    }

    /// Counts from now on.
    pub(crate) fn count(&mut self) {
        self.is_counting = true;
    }

    pub(crate) fn counts(&self) -> TreeCounts {
        self.counts
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.cursor.key()
    }

    #[inline]
    pub(crate) fn value(&self) -> ValueRef<'_> {
        self.cursor.value()
    }

    // A step of the cursor is inlined into each loop of a scan; a call of this would cost more than the step.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Result<bool> {
        let moved = self.cursor.next();
        if self.is_counting {
            self.note(&moved, 0);
        }
        moved
    }

    #[inline]
    pub(crate) fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let moved = self.cursor.seek(key);
        if self.is_counting {
            self.note(&moved, 1);
        }
        moved
    }

    pub(crate) fn seek_for_prev(&mut self, key: &[u8]) -> Result<bool> {
        let moved = self.cursor.seek_for_prev(key);
        if self.is_counting {
            self.note(&moved, 1);
        }
        moved
    }

    pub(crate) fn last(&mut self) -> Result<bool> {
        let moved = self.cursor.last();
        if self.is_counting {
            self.note(&moved, 1);
        }
        moved
    }

    #[cold]
    fn note(&mut self, moved: &Result<bool>, seeks: u64) {
        self.counts.seeks += seeks;
        if matches!(moved, Ok(true)) {
            self.counts.entries += 1;
            self.counts.bytes += self.cursor.key().len() as u64 + self.cursor.value().len();
        }
    }
}
