//! Writes a table from entries in ascending order.
//!
//! A block builder gathers entries; full blocks go through a write buffer to the file. `finish` writes the
//! other sections. The caller syncs the file and makes its name durable. A writer that fails or is dropped
//! leaves an incomplete file, which the manifest must never name.

use std::sync::Arc;

use super::block::{MAX_KEY, SLACK, tag_of};
use super::block_builder::{BlockBuilder, encode_single};
use super::filter::Filter;
use super::footer::{Footer, Owner, Properties};
use super::frame::{self, TRAILER};
use super::index::IndexBuilder;
use crate::cache::{BufferPool, Offer, PageId};
use crate::checksum::hash_key;
use crate::cursor::{Kind, MAX_SEQ, SeqNo};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::WriteFile;
use crate::options::{Compression, FilterPrefix};

const WRITE_BUFFER: usize = 256 << 10;
/// How many bytes are written between hints to the kernel to start writing back.
const WRITEBACK_EVERY: u64 = 4 << 20;
const MAX_BLOCK_SIZE: usize = 1 << 20;
const MAX_VALUE: usize = u32::MAX as usize;

#[derive(Debug, Clone, Copy)]
pub(crate) struct TableOptions {
    /// The most bytes of a data block with several entries, before compression.
    pub(crate) block_size: usize,
    pub(crate) compression: Compression,
    /// Filter size in tenths of a bit per user key; 0 for no filter.
    pub(crate) filter_bits_tenths: u32,
    pub(crate) salt: u64,
    pub(crate) owner: Owner,
    /// Which prefixes of the keys the filter holds too.
    pub(crate) filter_prefix: Option<FilterPrefix>,
}

#[cfg(test)]
impl TableOptions {
    /// The defaults, with this salt.
    pub(crate) fn new(salt: u64) -> Self {
        let owner = Owner::default();
        TableOptions {
            block_size: 4096,
            compression: Compression::None,
            filter_bits_tenths: 100,
            salt,
            owner,
            filter_prefix: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableMeta {
    pub(crate) size: u64,
    pub(crate) salt: u64,
    pub(crate) properties: Properties,
}

#[derive(Debug)]
pub(crate) struct TableWriter {
    file: Box<dyn WriteFile>,
    options: TableOptions,
    block: BlockBuilder,
    index: IndexBuilder,
    hashes: Vec<u64>,
    /// The length of the last key's prefix; 0 if it has no prefix.
    prefix_len: usize,
    out: Vec<u8>,
    /// Bytes handed to the file, and how many of them there were when write-back was last started.
    written: u64,
    written_back: u64,
    /// The stored length of the last block. Its separator needs the next block's first key.
    unindexed: Option<u64>,
    last_key: Vec<u8>,
    last_seq: SeqNo,
    properties: Properties,
    /// The pool that blocks are offered to, and the table's number there.
    pool: Option<(Arc<BufferPool>, u64, Offer)>,
}

impl TableWriter {
    pub(crate) fn new(file: Box<dyn WriteFile>, options: TableOptions) -> Result<Self> {
        frame::supported(options.compression)?;
        let block_size = options.block_size.clamp(64, MAX_BLOCK_SIZE);
        Ok(TableWriter {
            file,
            options: TableOptions { block_size, ..options },
            block: BlockBuilder::default(),
            index: IndexBuilder::default(),
            hashes: Vec::new(),
            prefix_len: 0,
            out: Vec::with_capacity(WRITE_BUFFER + 2 * block_size),
            written: 0,
            written_back: 0,
            unindexed: None,
            last_key: Vec::new(),
            last_seq: 0,
            properties: Properties {
                owner: options.owner,
                filter_prefix: options.filter_prefix,
                ..Properties::default()
            },
            pool: None,
        })
    }

    /// Also puts the blocks into `pool`, as those of table `id`, while it has room.
    pub(crate) fn offer_to(&mut self, pool: &Arc<BufferPool>, id: u64, offer: Offer) {
        self.pool = Some((Arc::clone(pool), id, offer));
    }

    /// Adds an entry after all others: a greater key, or the last key with a smaller `seq`.
    pub(crate) fn add(&mut self, key: &[u8], seq: SeqNo, kind: Kind, value: &[u8]) -> Result<()> {
        let new_key = self.check(key, seq, value)?;
        let tag = tag_of(seq, kind);
        if !self.block.add_within(self.options.block_size, key, tag, value) {
            self.add_as_first(key, tag, value)?;
        }
        if new_key {
            if self.options.filter_bits_tenths > 0 {
                self.hashes.push(hash_key(key));
                if let Some(rule) = self.options.filter_prefix {
                    self.hash_prefix(rule, key);
                }
            }
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        self.last_seq = seq;
        self.properties.note(key, seq, kind, value);
        Ok(())
    }

    /// Adds the prefix of `key` to the filter, unless it is that of the key before.
    fn hash_prefix(&mut self, rule: FilterPrefix, key: &[u8]) {
        let last = &self.last_key[..self.prefix_len.min(self.last_key.len())];
        if !last.is_empty() && key.starts_with(last) {
            return;
        }
        self.prefix_len = rule.of(key).map_or(0, |prefix| {
            self.hashes.push(hash_key(prefix));
            prefix.len()
        });
    }

    /// Begins a block with this entry. A large entry gets its own block.
    fn add_as_first(&mut self, key: &[u8], tag: u64, value: &[u8]) -> Result<()> {
        if !self.block.is_empty() {
            self.finish_block()?;
        }
        if let Some(stored_len) = self.unindexed.take() {
            self.index.add(&self.last_key, Some(key), stored_len);
        }
        if key.len() + value.len() > self.options.block_size {
            let start = self.out.len();
            encode_single(&mut self.out, key, tag, value);
            return self.seal_block(start);
        }
        self.block.add(key, tag, value);
        Ok(())
    }

    /// Whether `key` differs from the last one. Fails unless the entry may follow.
    fn check(&self, key: &[u8], seq: SeqNo, value: &[u8]) -> Result<bool> {
        if key.len() > MAX_KEY || value.len() > MAX_VALUE || seq > MAX_SEQ {
            return Err(self.refuse("a key, value or sequence number is over the limit"));
        }
        let order = self.last_key.as_slice().cmp(key);
        let ascends = self.properties.entries == 0 || order.is_lt() || (order.is_eq() && seq < self.last_seq);
        if !ascends {
            return Err(self.refuse("entries of a table must ascend"));
        }
        Ok(self.properties.entries == 0 || order.is_lt())
    }

    fn refuse(&self, message: &str) -> Error {
        Error::new(ErrorKind::InvalidInput, message).at(self.file.path())
    }

    pub(crate) fn ends_with(&self, key: &[u8]) -> bool {
        self.last_key == key
    }

    /// How many 8-byte key hashes wait in memory for the filter.
    pub(crate) fn hashed_keys(&self) -> usize {
        self.hashes.len()
    }

    /// About how many bytes the file would have if it were finished now.
    pub(crate) fn estimated_size(&self) -> u64 {
        let filter = self.hashes.len() as u64 * u64::from(self.options.filter_bits_tenths) / 80;
        self.offset() + (self.block.size() + self.index.size()) as u64 + filter + 256
    }

    /// The file offset that the end of the write buffer will have.
    fn offset(&self) -> u64 {
        self.written + self.out.len() as u64
    }

    fn finish_block(&mut self) -> Result<()> {
        let start = self.out.len();
        self.block.finish(&mut self.out);
        self.seal_block(start)
    }

    /// Completes the data block whose payload is `out[start..]`.
    fn seal_block(&mut self, start: usize) -> Result<()> {
        let offset = self.written + start as u64;
        self.offer_block(start);
        frame::seal(&mut self.out, start, self.options.compression, self.options.salt, offset);
        self.unindexed = Some((self.out.len() - start) as u64);
        if self.out.len() >= WRITE_BUFFER { self.write_out() } else { Ok(()) }
    }

    /// Offers the pool the block whose plain payload is `out[start..]`.
    fn offer_block(&mut self, start: usize) {
        let Some((pool, id, offer)) = &self.pool else { return };
        if let Some(page) = PageId::new(*id, self.index.count() as usize)
            && pool.wants(page, self.out.len() - start + SLACK, *offer)
        {
            self.out.resize(self.out.len() + SLACK, 0);
            pool.insert_if_room(page, &Arc::from(&self.out[start..]));
            self.out.truncate(self.out.len() - SLACK);
        }
    }

    fn write_out(&mut self) -> Result<()> {
        self.file.append(&self.out)?;
        self.written += self.out.len() as u64;
        self.out.clear();
        // Do not keep the memory of one huge value for the rest of the table.
        self.out.shrink_to(WRITE_BUFFER + 2 * MAX_BLOCK_SIZE);
        if self.written - self.written_back >= WRITEBACK_EVERY {
            self.file.start_writeback();
            self.written_back = self.written;
        }
        Ok(())
    }

    /// Writes the remaining sections and returns the file, which the caller has to sync.
    pub(crate) fn finish(mut self) -> Result<(TableMeta, Box<dyn WriteFile>)> {
        if !self.block.is_empty() {
            self.finish_block()?;
        }
        if let Some(stored_len) = self.unindexed.take() {
            self.index.add(&self.last_key, None, stored_len);
        }
        self.properties.blocks = self.index.count();
        self.properties.largest = std::mem::take(&mut self.last_key);

        let filter_at = self.offset();
        if !self.hashes.is_empty() {
            let filter = Filter::build(&self.hashes, self.options.filter_bits_tenths);
            self.section(|out| filter.encode(out));
        }
        let index_at = self.offset();
        let index = std::mem::take(&mut self.index);
        self.section(|out| index.finish(out));
        let properties_at = self.offset();
        let properties = std::mem::take(&mut self.properties);
        self.section(|out| properties.encode(out));
        let file_len = self.offset() + super::footer::FOOTER as u64;
        let salt = self.options.salt;
        Footer { filter_at, index_at, properties_at, file_len, salt }.encode(&mut self.out);
        self.write_out()?;
        self.file.start_writeback();
        Ok((TableMeta { size: file_len, salt, properties }, self.file))
    }

    /// Appends a block other than a data block. Such blocks are never compressed.
    fn section(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        let (start, offset) = (self.out.len(), self.offset());
        encode(&mut self.out);
        frame::seal(&mut self.out, start, Compression::None, self.options.salt, offset);
        debug_assert!(self.out.len() - start >= TRAILER);
    }
}
