//! An open table: its index and filter in memory, its blocks in the pool.
//!
//! The path of a `get`: filter (one cache line), index (one line per level), pool (one short lock), block
//! (header, heads, entry). Nothing is allocated unless a block has to be read.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::block::{Block, BlockSlice, kind_of, seq_of};
use super::cursor::TableCursor;
use super::filter::Filter;
use super::footer::{FOOTER, Footer, Properties};
use super::frame;
use super::index::Index;
use super::read_ahead::ScanHint;
use crate::cache::{BufferPool, PageId};
use crate::canary::broken;
use crate::checksum::hash_key;
use crate::cursor::{Kind, SeqNo};
use crate::env::Clock;
use crate::error::{Error, Result};
use crate::events::event;
use crate::fs::{ReadFile, no_wait, read_part};
use crate::options::FilterPrefix;
use crate::ranges::KeyRange;
use crate::trace::{Cause, Step, perf_context};

/// A table of at most this many bytes is prefetched whole when it is opened. The disk delivers it in the time of a few
/// blocks, and otherwise each get of another key would wait for one. Tables of pointers to huge values are usually this
/// small.
const ASKED_WHOLE: u64 = 1 << 20;

/// The result of a `get`. The value keeps its block in memory.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) seq: SeqNo,
    pub(crate) kind: Kind,
    pub(crate) value: BlockSlice,
}

/// See the module. Immutable; any number of threads may read.
pub(crate) struct TableReader {
    file: Arc<dyn ReadFile>,
    pool: Arc<BufferPool>,
    id: u64,
    /// The clock that times reads of blocks, if they are noted.
    clock: Option<Arc<dyn Clock>>,
    index: Index,
    filter: Option<Filter>,
    properties: Properties,
    footer: Footer,
}

/// Reads the footer; also returns where it begins.
pub(super) fn read_footer(file: &dyn ReadFile) -> Result<(u64, Footer)> {
    let Some(at) = file.len().checked_sub(FOOTER as u64) else {
        return Err(Error::corruption(file.path(), 0, "expected a table: the file is too short"));
    };
    let mut bytes = [0; FOOTER];
    file.read_exact_at(&mut bytes, at)?;
    let footer = Footer::decode(&bytes, file.len()).map_err(|flaw| flaw.into_error(file.path(), at))?;
    Ok((at, footer))
}

/// The salt of a table with a sound footer, that is, of one that was not cut short.
pub(crate) fn table_salt(file: &dyn ReadFile) -> Result<u64> {
    read_footer(file).map(|(_, footer)| footer.salt)
}

impl TableReader {
    /// Opens a table; reads and verifies everything but its data blocks. `id` names the table in the pool.
    pub(crate) fn open(file: Arc<dyn ReadFile>, id: u64, pool: Arc<BufferPool>) -> Result<Self> {
        Self::open_with(file, id, pool, |_, _| true)
    }

    /// [`TableReader::open`], but loads the filter only if `room` agrees; it is called with the sizes of
    /// filter and index in bytes. Without the filter, a lookup of an absent key reads a block.
    pub(crate) fn open_with(
        file: Arc<dyn ReadFile>,
        id: u64,
        pool: Arc<BufferPool>,
        room: impl FnOnce(u64, u64) -> bool,
    ) -> Result<Self> {
        if file.len() <= ASKED_WHOLE {
            file.prefetch(0, file.len());
        }
        let (footer_at, footer) = read_footer(&*file)?;

        let filter_bytes = footer.index_at - footer.filter_at;
        // The file stores keys as differences. In memory, an index of short keys takes about twice the bytes.
        let has_room = room(filter_bytes, (footer.properties_at - footer.index_at) * 2);
        let begin = if has_room { footer.filter_at } else { footer.index_at };
        let sections = read_part(&*file, begin, footer_at - begin)?;
        let section = |from: u64, to: u64| {
            let stored = &sections[(from - begin) as usize..(to - begin) as usize];
            frame::open_section(stored, footer.salt, from).map_err(|flaw| flaw.into_error(file.path(), from))
        };
        let at = |offset| {
            let path = file.path();
            move |flaw: super::Flaw| flaw.into_error(path, offset)
        };

        let mut filter = None;
        if begin < footer.index_at {
            let payload = section(footer.filter_at, footer.index_at)?;
            filter = Some(Filter::decode(payload).map_err(at(footer.filter_at))?);
        }
        let payload = section(footer.index_at, footer.properties_at)?;
        let index = Index::decode(payload, footer.filter_at).map_err(at(footer.index_at))?;
        let payload = section(footer.properties_at, footer_at)?;
        let properties = Properties::decode(payload).map_err(at(footer.properties_at))?;
        if properties.blocks != index.len() as u64 {
            let message = "expected as many blocks as the index has";
            return Err(Error::corruption(file.path(), footer.properties_at, message));
        }
        Ok(TableReader { file, pool, id, clock: None, index, filter, properties, footer })
    }

    /// Notes reads of blocks as a cause of slow operations.
    pub(crate) fn noted_by(self, clock: &Arc<dyn Clock>) -> Self {
        TableReader { clock: Some(Arc::clone(clock)), ..self }
    }

    /// The newest version of `key` that is not newer than `seq`. `key_hash`: [`crate::checksum::hash_key`] of `key`.
    #[inline]
    pub(crate) fn get(&self, key: &[u8], key_hash: u64, seq: SeqNo) -> Result<Option<Found>> {
        let passed = self.may_contain(key_hash);
        perf_context::step(|| Step::Filter { table: self.id, passed });
        if !passed {
            return Ok(None);
        }
        let mut i = self.index.find(key);
        while i < self.index.len() {
            let block = match self.cached(i) {
                Some(block) => {
                    self.step_to_pooled(i);
                    block
                }
                None => self.load(i)?,
            };
            let layout = block.layout();
            let (position, same_key) = layout.search(&block, key, seq);
            if same_key {
                let entry = layout.entry(&block, position);
                let value = BlockSlice::new(block, entry.value..entry.end);
                return Ok(Some(Found { seq: seq_of(entry.tag), kind: kind_of(entry.tag), value }));
            }
            if position < layout.count || !self.index.separator_is(i, key) {
                break;
            }
            i += 1;
        }
        Ok(None)
    }

    pub(crate) fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    /// Bytes of the filter that is in the file but was not loaded.
    pub(crate) fn filter_left_out(&self) -> u64 {
        if self.has_filter() { 0 } else { self.metadata_bytes().0 }
    }

    /// Returns `false` only if the table has no entry for the key of this hash.
    #[inline]
    pub(crate) fn may_contain(&self, key_hash: u64) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.may_contain(key_hash))
    }

    /// Returns `false` only if the table has no entry for any key of `range`.
    pub(crate) fn may_hold(&self, range: &KeyRange) -> bool {
        let rule = match self.properties.filter_prefix {
            Some(_) if broken("filter-prefix") => Some(FilterPrefix::length(1)),
            rule => rule,
        };
        let Some(prefix) = rule.and_then(|rule| rule.of_range(range)) else { return true };
        let passed = self.may_contain(hash_key(prefix));
        perf_context::step(|| Step::Filter { table: self.id, passed });
        passed
    }

    pub(crate) fn cursor(self: &Arc<Self>, hint: ScanHint) -> TableCursor {
        TableCursor::new(Arc::clone(self), hint)
    }

    pub(crate) fn properties(&self) -> &Properties {
        &self.properties
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    pub(crate) fn size(&self) -> u64 {
        self.footer.file_len
    }

    /// Bytes of memory that the open table holds, without its blocks in the pool.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Self>()
            + self.index.memory()
            + self.filter.as_ref().map_or(0, Filter::memory)
            + self.properties.smallest.len()
            + self.properties.largest.len()
    }

    /// About how many bytes of data lie before `key`: 0 to the length of all data blocks.
    pub(crate) fn approximate_offset_of(&self, key: &[u8]) -> u64 {
        let i = self.index.find(key);
        if i < self.index.len() { self.index.block(i).start } else { self.footer.filter_at }
    }

    /// A key before which the data blocks up to the one at `offset` lie; the smallest key for the first block.
    pub(crate) fn key_before(&self, offset: u64) -> Vec<u8> {
        let (mut low, mut high) = (0, self.index.len());
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.index.block(middle).start <= offset { low = middle } else { high = middle }
        }
        low.checked_sub(1)
            .map_or_else(|| self.properties.smallest.clone(), |before| self.index.separator(before))
    }

    pub(crate) fn data_bytes(&self) -> u64 {
        self.footer.filter_at
    }

    /// The random number that identifies this table.
    pub(crate) fn salt(&self) -> u64 {
        self.footer.salt
    }

    pub(crate) fn metadata_bytes(&self) -> (u64, u64) {
        (self.footer.index_at - self.footer.filter_at, self.footer.properties_at - self.footer.index_at)
    }

    pub(super) fn index(&self) -> &Index {
        &self.index
    }

    pub(super) fn blocks(&self) -> usize {
        self.index.len()
    }

    pub(super) fn place(&self, i: usize) -> Range<u64> {
        self.index.block(i)
    }

    #[inline]
    pub(super) fn cached(&self, i: usize) -> Option<Block> {
        self.pool.get(self.page(i)?).map(Block::trusted)
    }

    /// The caller will soon request block `soon` by [`cached`](Self::cached), and then block `later`.
    #[inline]
    pub(super) fn prefetch(&self, soon: usize, later: usize) {
        if let Some(page) = self.page(soon) {
            self.pool.prefetch_page(page);
        }
        if let Some(page) = self.page(later) {
            self.pool.prefetch_bucket(page);
        }
    }

    /// Reads block `i` from the file and puts it into the pool.
    #[cold]
    pub(super) fn load(&self, i: usize) -> Result<Block> {
        let place = self.place(i);
        self.note_reading(i, place.end - place.start);
        let block = self.read(i)?;
        if let Some(page) = self.page(i) {
            self.pool.insert(page, block.shared());
        }
        Ok(block)
    }

    /// Notes that `bytes` of blocks from number `i` on will be read from the file.
    pub(super) fn note_reading(&self, i: usize, bytes: u64) {
        if let Some(clock) = &self.clock {
            perf_context::expect(&**clock);
            perf_context::note(Cause::Blocks, 0, bytes);
            perf_context::step(|| Step::FileBlocks { table: self.id, block: i as u64, bytes });
        }
    }

    #[inline]
    pub(super) fn step_to_pooled(&self, i: usize) {
        perf_context::step(|| Step::PoolBlock { table: self.id, block: i as u64 });
    }

    pub(super) fn offer(&self, i: usize, block: &Block) {
        if let Some(page) = self.page(i) {
            self.pool.insert_if_room(page, block.shared());
        }
    }

    pub(super) fn read(&self, i: usize) -> Result<Block> {
        let place = self.place(i);
        let mut stored: Arc<[u8]> = std::iter::repeat_n(0, (place.end - place.start) as usize).collect();
        if let Some(buffer) = Arc::get_mut(&mut stored) {
            if !no_wait::is_asked() {
                self.file.read_exact_at(buffer, place.start)?;
            } else if !self.file.read_resident_at(buffer, place.start) {
                return Err(no_wait::refused());
            }
        }
        self.open_block(i, stored)
    }

    pub(super) fn open_block(&self, i: usize, stored: impl AsRef<[u8]> + Into<Arc<[u8]>>) -> Result<Block> {
        let start = self.place(i).start;
        let opened = frame::open(stored, self.footer.salt, start).and_then(Block::check);
        opened.map_err(|flaw| {
            let error = flaw.into_error(self.file.path(), start);
            event!(ERROR, "damage", {
                path: self.file.path().display().to_string(),
                offset: start,
                reason: error.message(),
            });
            error
        })
    }

    pub(super) fn read_raw(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    #[inline]
    fn page(&self, i: usize) -> Option<PageId> {
        PageId::new(self.id, i)
    }
}

impl fmt::Debug for TableReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableReader")
            .field("path", &self.file.path())
            .field("id", &self.id)
            .field("properties", &self.properties)
            .finish_non_exhaustive()
    }
}
