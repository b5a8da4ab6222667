//! Walks a table in order, in both directions.
//!
//! The cursor keeps the current key in its own buffer. Within a block it rewrites only the part after the common
//! prefix. The value is read in place.

use std::sync::Arc;

use super::block::{Block, HEAD, Layout, kind_of, seq_of};
use super::read_ahead::{ReadAhead, ScanHint};
use super::reader::TableReader;
use crate::cache::prefetch;
use crate::cursor::{Cursor, Kind, SeqNo};
use crate::error::Result;

/// Room after a key. It lets a short rest be copied as whole words.
const ROOM: usize = 16;

/// How many cache lines after the entry that a seek has found are fetched: a KiB.
const WARM_LINES: usize = 16;

/// See the module. `block` is empty while the cursor is invalid.
#[derive(Debug)]
pub(crate) struct TableCursor {
    table: Arc<TableReader>,
    source: ReadAhead,
    block: Option<Block>,
    layout: Layout,
    /// The number of the block, and the position in it.
    at_block: usize,
    at: usize,
    key: Vec<u8>,
    key_len: usize,
    tag: u64,
    value_at: usize,
    value_end: usize,
}

impl TableCursor {
    pub(super) fn new(table: Arc<TableReader>, hint: ScanHint) -> Self {
        TableCursor {
            table,
            source: ReadAhead::new(hint),
            block: None,
            layout: Layout::default(),
            at_block: 0,
            at: 0,
            key: Vec::new(),
            key_len: 0,
            tag: 0,
            value_at: 0,
            value_end: 0,
        }
    }

    /// The cursor with its buffers, over another table.
    pub(crate) fn over_table(self, table: Arc<TableReader>) -> Self {
        TableCursor { table, source: self.source.over_table(), block: None, ..self }
    }

    /// Becomes invalid, and releases the block.
    pub(crate) fn leave(&mut self) {
        self.block = None;
    }

    /// A cursor over block `i`, which the caller has loaded.
    pub(super) fn over(table: Arc<TableReader>, i: usize, block: Block) -> Self {
        let mut cursor = Self::new(table, ScanHint::Compaction);
        cursor.enter(i, block);
        cursor
    }

    pub(super) fn entries_in_block(&self) -> usize {
        self.layout.count
    }

    fn load(&mut self, i: usize) -> Result<()> {
        self.block = None;
        let block = self.source.block(&self.table, i)?;
        self.enter(i, block);
        Ok(())
    }

    fn enter(&mut self, i: usize, block: Block) {
        self.layout = block.layout();
        let prefix = self.layout.prefix(&block);
        self.key.clear();
        self.key.extend_from_slice(prefix);
        self.key.resize(prefix.len() + HEAD + ROOM, 0);
        self.block = Some(block);
        self.at_block = i;
    }

    /// Makes the entry at `at` of the current block the current one.
    #[inline]
    pub(super) fn show(&mut self, at: usize) {
        let Some(block) = &self.block else { return };
        let bytes: &[u8] = block;
        let layout = &self.layout;
        let entry = layout.entry(bytes, at);
        let tail = layout.prefix_len + HEAD;
        let rest_len = entry.rest_len();
        if self.key.len() < tail + rest_len + ROOM {
            self.key.resize(tail + rest_len + ROOM, 0);
        }
        self.key[layout.prefix_len..tail].copy_from_slice(&layout.head(bytes, at).to_be_bytes());
        match bytes.get(entry.rest..).and_then(|rest| rest.first_chunk::<ROOM>()) {
            Some(words) if rest_len <= ROOM => {
                if rest_len > 0 {
                    self.key[tail..tail + ROOM].copy_from_slice(words);
                }
            }
            _ => self.key[tail..tail + rest_len].copy_from_slice(&bytes[entry.rest..entry.value]),
        }
        self.source.warm(entry.value);
        self.key_len = layout.prefix_len + entry.suffix_len;
        self.at = at;
        self.tag = entry.tag;
        self.value_at = entry.value;
        self.value_end = entry.end;
    }

    /// Moves to the first entry of block `i`, or to its last one. Without a block the cursor becomes invalid.
    #[cold]
    fn go_to(&mut self, i: Option<usize>, to_last: bool) -> Result<()> {
        self.block = None;
        if let Some(i) = i {
            self.load(i)?;
            self.show(if to_last { self.layout.count - 1 } else { 0 });
        }
        Ok(())
    }

    /// Fetches the bytes after the current entry into the processor's cache: most seeks are followed by steps.
    fn warm_up(&self) {
        if let Some(block) = &self.block {
            for line in 0..WARM_LINES {
                prefetch(block, self.value_end + 64 * line);
            }
        }
    }

    /// Loads the block of the first entry at or after `(key, seq)` and returns the entry's position in it. If all
    /// entries come before that, returns `None` and loads no block.
    fn find(&mut self, key: &[u8], seq: SeqNo) -> Result<Option<usize>> {
        let mut i = self.table.index().find(key);
        while i < self.table.blocks() {
            if self.block.is_none() || self.at_block != i {
                self.load(i)?;
            }
            if let Some(block) = &self.block {
                let (position, _) = self.layout.search(block, key, seq);
                if position < self.layout.count {
                    return Ok(Some(position));
                }
            }
            i += 1;
        }
        self.block = None;
        Ok(None)
    }
}

impl Cursor for TableCursor {
    #[inline]
    fn valid(&self) -> bool {
        self.block.is_some()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.go_to((self.table.blocks() > 0).then_some(0), false)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.go_to(self.table.blocks().checked_sub(1), true)
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        if let Some(position) = self.find(key, seq)? {
            self.show(position);
            self.warm_up();
        }
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        match self.find(key, seq)? {
            None => self.seek_to_last(),
            Some(0) => self.go_to(self.at_block.checked_sub(1), true),
            Some(position) => {
                self.show(position - 1);
                Ok(())
            }
        }
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if self.at + 1 < self.layout.count {
            self.show(self.at + 1);
            return Ok(());
        }
        let next = self.at_block + 1;
        self.go_to((next < self.table.blocks()).then_some(next), false)
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        if let Some(before) = self.at.checked_sub(1) {
            self.show(before);
            return Ok(());
        }
        self.go_to(self.at_block.checked_sub(1), true)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        &self.key[..self.key_len]
    }

    #[inline]
    fn seq(&self) -> SeqNo {
        seq_of(self.tag)
    }

    #[inline]
    fn kind(&self) -> Kind {
        kind_of(self.tag)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.block.as_ref().map_or(&[], |block| &block[self.value_at..self.value_end])
    }
}
