//! Iterates over one tree's entries of a table. Where the table holds other trees' entries too, or the manifest
//! overrides the contents of the file, the cursor follows the manifest.

use super::imported::Renumbered;
use super::table_info::TableInfo;
use crate::cursor::{Cursor, Kind, MAX_SEQ, SeqNo};
use crate::error::Result;
use crate::keys::prefix_end;
use crate::table::TableCursor;

pub(crate) enum TreeCursor {
    /// The table belongs to the tree alone, and its entries hold as they are.
    Whole(TableCursor),
    /// The entries in the file have to be filtered or rewritten.
    Part(PartCursor),
}

/// Iterates over the keys of a tree: keys that begin with a prefix, without the prefix; keys within bounds; or both.
pub(crate) struct PartCursor {
    cursor: TableCursor,
    /// The prefix of the tree's keys in a file that several trees share.
    prefix: Vec<u8>,
    /// The sequence number of all entries, if the file does not have it.
    number: Option<SeqNo>,
    /// The first and the last key of the tree, if the file has others around them.
    bounds: Option<(Vec<u8>, Vec<u8>)>,
    renumbered: Option<Renumbered>,
    /// The value of the current entry, if it differs from the one in the file.
    value: Option<Vec<u8>>,
    /// Reused for the keys of seeks.
    key: Vec<u8>,
}

impl PartCursor {
    pub(super) fn new(cursor: TableCursor, info: &TableInfo, bounds: Option<(Vec<u8>, Vec<u8>)>) -> Self {
        PartCursor {
            cursor,
            prefix: info.in_file(&[]),
            number: info.number(),
            bounds,
            renumbered: info.renumbered.as_deref().copied(),
            value: None,
            key: Vec::new(),
        }
    }

    /// Updates the current value after the cursor has moved.
    #[inline]
    fn settle(&mut self) {
        if let Some(renumbered) = self.renumbered {
            let cursor = &self.cursor;
            let value = cursor.valid().then(|| renumbered.apply(cursor.kind(), cursor.value()));
            self.value = value.flatten();
        }
    }

    fn next(&mut self) -> Result<()> {
        let moved = self.cursor.next();
        self.settle();
        moved
    }

    fn prev(&mut self) -> Result<()> {
        let moved = self.cursor.prev();
        self.settle();
        moved
    }

    fn go_to(
        &mut self,
        (key, seq): (Vec<u8>, SeqNo),
        go: impl FnOnce(&mut TableCursor, &[u8], SeqNo) -> Result<()>,
    ) -> Result<()> {
        let moved = go(&mut self.cursor, &key, seq);
        self.settle();
        self.key = key;
        moved
    }

    /// `key` in the file's form, or the first key after it.
    fn in_file(&mut self, key: &[u8], behind: bool) -> Vec<u8> {
        let mut out = std::mem::take(&mut self.key);
        out.clear();
        out.extend_from_slice(&self.prefix);
        out.extend_from_slice(key);
        if behind {
            out.push(0);
        }
        out
    }

    /// Where to seek in the file for `(key, seq)`. If all entries have one sequence number, that is before or after the
    /// key's entry.
    fn place(&mut self, key: &[u8], seq: SeqNo) -> (Vec<u8>, SeqNo) {
        match self.number {
            None => (self.in_file(key, false), seq),
            Some(number) => (self.in_file(key, number > seq), MAX_SEQ),
        }
    }

    fn valid(&self) -> bool {
        if !self.cursor.valid() || !self.cursor.key().starts_with(&self.prefix) {
            return false;
        }
        let is_within = |(first, last): &(Vec<u8>, Vec<u8>)| {
            first.as_slice() <= self.key() && self.key() <= last.as_slice()
        };
        self.bounds.as_ref().is_none_or(is_within)
    }

    fn key(&self) -> &[u8] {
        &self.cursor.key()[self.prefix.len()..]
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        let first =
            self.bounds.as_ref().map(|(first, _)| first).filter(|first| key < first.as_slice()).cloned();
        let place = match first {
            Some(first) => (self.in_file(&first, false), MAX_SEQ),
            None => self.place(key, seq),
        };
        self.go_to(place, TableCursor::seek)
    }

    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        let last = self.bounds.as_ref().map(|(_, last)| last).filter(|last| key > last.as_slice()).cloned();
        let place = match last {
            Some(last) => (self.in_file(&last, true), MAX_SEQ),
            None => self.place(key, seq),
        };
        self.go_to(place, TableCursor::seek_before)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        let behind = match self.bounds.clone() {
            Some((_, last)) => Some(self.in_file(&last, true)),
            None => prefix_end(&self.prefix),
        };
        match behind {
            Some(behind) => self.go_to((behind, MAX_SEQ), TableCursor::seek_before),
            None => self.go_to((Vec::new(), MAX_SEQ), |cursor, _, _| cursor.seek_to_last()),
        }
    }
}

impl TreeCursor {
    /// Becomes invalid.
    pub(crate) fn leave(&mut self) {
        match self {
            TreeCursor::Whole(cursor) => cursor.leave(),
            TreeCursor::Part(part) => part.cursor.leave(),
        }
    }

    /// The cursor over the entries as they are stored.
    pub(super) fn into_stored(self) -> TableCursor {
        match self {
            TreeCursor::Whole(cursor) => cursor,
            TreeCursor::Part(part) => part.cursor,
        }
    }
}

macro_rules! either {
    ($self:expr, $cursor:ident => $whole:expr, $part:ident => $partial:expr) => {
        match $self {
            TreeCursor::Whole($cursor) => $whole,
            TreeCursor::Part($part) => $partial,
        }
    };
}

impl Cursor for TreeCursor {
    #[inline]
    fn valid(&self) -> bool {
        either!(self, c => c.valid(), p => p.valid())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        either!(self, c => c.seek_to_first(), p => p.seek(&[], MAX_SEQ))
    }

    fn seek_to_last(&mut self) -> Result<()> {
        either!(self, c => c.seek_to_last(), p => p.seek_to_last())
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        either!(self, c => c.seek(key, seq), p => p.seek(key, seq))
    }

    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        either!(self, c => c.seek_before(key, seq), p => p.seek_before(key, seq))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        either!(self, c => c.next(), p => p.next())
    }

    fn prev(&mut self) -> Result<()> {
        either!(self, c => c.prev(), p => p.prev())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        either!(self, c => c.key(), p => p.key())
    }

    #[inline]
    fn seq(&self) -> SeqNo {
        either!(self, c => c.seq(), p => p.number.unwrap_or_else(|| p.cursor.seq()))
    }

    #[inline]
    fn kind(&self) -> Kind {
        either!(self, c => c.kind(), p => p.cursor.kind())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        either!(self, c => c.value(), p => p.value.as_deref().unwrap_or_else(|| p.cursor.value()))
    }
}
