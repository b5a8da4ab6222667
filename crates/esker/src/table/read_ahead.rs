//! Supplies a cursor with blocks: from the pool, or from the file, several at a time once the cursor reads in
//! order.
//!
//! A single missed block goes into the pool as with any other read. From the third miss in a row on, one read
//! fetches a window of blocks (64 KiB, doubling to 256 KiB) into the cursor's own buffer. These blocks enter
//! the pool only if it has free room. Compactions read ahead from the start and leave the pool alone.

use super::block::Block;
use super::reader::TableReader;
use crate::cache::prefetch;
use crate::error::Result;

const FIRST_WINDOW: u64 = 64 << 10;
const LAST_WINDOW: u64 = 256 << 10;
/// How many blocks are missed in a row before reading ahead.
const PATIENCE: u32 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanHint {
    Scan,
    /// One pass over a whole table.
    Compaction,
}

/// See the module. `buffer` holds the file's bytes from `buffer_at` on.
#[derive(Debug)]
pub(super) struct ReadAhead {
    hint: ScanHint,
    buffer: Vec<u8>,
    buffer_at: u64,
    window: u64,
    misses: u32,
    last: Option<usize>,
    /// Whether the cursor came to the last block from a neighbour.
    beside: bool,
    /// The next block in the cursor's direction.
    ahead: Option<(usize, Block)>,
}

impl ReadAhead {
    pub(super) fn new(hint: ScanHint) -> Self {
        ReadAhead {
            hint,
            buffer: Vec::new(),
            buffer_at: 0,
            window: FIRST_WINDOW,
            misses: 0,
            last: None,
            beside: false,
            ahead: None,
        }
    }

    /// Begins anew with another table.
    pub(super) fn over_table(mut self) -> Self {
        self.buffer.clear();
        ReadAhead { buffer: self.buffer, ..ReadAhead::new(self.hint) }
    }

    #[inline]
    pub(super) fn block(&mut self, table: &TableReader, i: usize) -> Result<Block> {
        if self.hint == ScanHint::Scan {
            let ahead = self.ahead.take().filter(|(number, _)| *number == i).map(|(_, block)| block);
            if let Some(block) = ahead.or_else(|| table.cached(i)) {
                let last = self.last.replace(i);
                self.misses = 0;
                table.step_to_pooled(i);
                self.look_ahead(table, last, i);
                return Ok(block);
            }
        }
        self.missed(table, i)
    }

    /// Gets the block after `i` from the pool, if the cursor came to `i` from a neighbour, and to that from another
    /// one: a seek and a few steps end before that block. Of the next two, the front of the first one is prefetched, and the
    /// bucket in which the second one is found.
    fn look_ahead(&mut self, table: &TableReader, last: Option<usize>, i: usize) {
        let is_beside = last.is_some_and(|last| last.abs_diff(i) == 1);
        let was_beside = std::mem::replace(&mut self.beside, is_beside);
        if !(is_beside && was_beside) {
            return;
        }
        let step: isize = if last < Some(i) { 1 } else { -1 };
        let ahead = |steps: isize| i.checked_add_signed(steps * step).filter(|at| *at < table.blocks());
        self.ahead = ahead(1).and_then(|next| table.cached(next).map(|block| (next, block)));
        if self.ahead.is_some()
            && let (Some(soon), Some(later)) = (ahead(2), ahead(3))
        {
            table.prefetch(soon, later);
        }
    }

    /// The cursor is at byte `at` of its block: prefetches the same place of the next block.
    #[inline]
    pub(super) fn warm(&self, at: usize) {
        if let Some((_, block)) = &self.ahead {
            prefetch(block, at);
            prefetch(block, at + 64);
        }
    }

    #[cold]
    fn missed(&mut self, table: &TableReader, i: usize) -> Result<Block> {
        let last = self.last.replace(i);
        if let Some(block) = self.buffered(table, i)? {
            return Ok(block);
        }
        let forward = last.is_none_or(|last| last < i);
        let in_order = last.is_some_and(|last| last.abs_diff(i) == 1);
        self.misses = if in_order { self.misses + 1 } else { 1 };
        if self.hint == ScanHint::Scan && self.misses <= PATIENCE {
            self.window = FIRST_WINDOW;
            return table.load(i);
        }
        self.fill(table, i, forward)?;
        match self.buffered(table, i)? {
            Some(block) => Ok(block),
            None => table.read(i),
        }
    }

    fn buffered(&self, table: &TableReader, i: usize) -> Result<Option<Block>> {
        let place = table.place(i);
        let Some(from) = place.start.checked_sub(self.buffer_at) else { return Ok(None) };
        let to = from + (place.end - place.start);
        let Some(stored) = self.buffer.get(from as usize..to as usize) else { return Ok(None) };
        let block = table.open_block(i, stored)?;
        if self.hint == ScanHint::Scan {
            table.offer(i, &block);
        }
        Ok(Some(block))
    }

    /// Reads as many blocks as fit into the window; `i` is the first of them, or the last when going
    /// backward. The caller reads a block that is larger than the window.
    fn fill(&mut self, table: &TableReader, i: usize, forward: bool) -> Result<()> {
        let (mut from, mut to) = (i, i);
        let size = |from: usize, to: usize| table.place(to).end - table.place(from).start;
        if size(i, i) > self.window {
            self.buffer.clear();
            return Ok(());
        }
        if forward {
            while to + 1 < table.blocks() && size(from, to + 1) <= self.window {
                to += 1;
            }
        } else {
            while from > 0 && size(from - 1, to) <= self.window {
                from -= 1;
            }
        }
        self.buffer_at = table.place(from).start;
        // This overwrites the bytes that it still has of the last window.
        self.buffer.resize(size(from, to) as usize, 0);
        self.window = (self.window * 2).min(LAST_WINDOW);
        table.note_reading(from, size(from, to));
        if let Err(error) = table.read_raw(self.buffer_at, &mut self.buffer) {
            self.buffer.clear();
            return Err(error);
        }
        Ok(())
    }
}
