//! Reads the sound entries of a damaged table, in order, for `repair`.
//!
//! A block that fails its check is left out. With a sound index, reading continues at the next block. Without one, the
//! end of a block is where its checksum matches. Therefore only the blocks before the first damaged one are found.

use std::sync::Arc;

use super::block::{Block, HEAD, Layout, kind_of, seq_of};
use super::footer::{FOOTER, Properties};
use super::frame;
use super::index::Index;
use super::reader::read_footer;
use crate::checksum::Summing;
use crate::cursor::{Kind, SeqNo};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{ReadFile, read_part};

/// The longest block that is searched for if no index gives its length.
const WALKED_MAX: u64 = 16 << 20;
/// How many bytes are read first for a block of unknown length.
const LOOK: u64 = 64 << 10;
const COMPRESSION_MAX: u8 = 2;
const NO_FOOTER: &str = "the file ends here, and without its footer it is unknown what is missing";
const NOT_FOUND: &str =
    "the block cannot be found, and because the index is damaged, neither can the blocks after it";

#[derive(Debug)]
pub(crate) struct Gap {
    pub(crate) error: Error,
    /// All keys lost here are greater than this one.
    pub(crate) behind: Vec<u8>,
    /// No key lost here is greater than this one, as far as is known.
    pub(crate) up_to: Option<Vec<u8>>,
}

/// See the module. It is at an entry while [`Salvage::advance`] returns `true`.
pub(crate) struct Salvage {
    file: Arc<dyn ReadFile>,
    salt: u64,
    index: Option<Index>,
    properties: Option<Properties>,
    /// The end of the data blocks, as far as is known.
    data_end: u64,
    /// Whether `data_end` is certain, or the gap before it has already been reported.
    is_end_known: bool,
    next: usize,
    offset: u64,
    block: Option<(Block, Layout)>,
    at: usize,
    key: Vec<u8>,
    tag: u64,
    gaps: Vec<Gap>,
}

impl Salvage {
    /// Opens a damaged table with the expected salt `salt`, if known. [`Salvage::gaps`] reports all other damage at the
    /// end.
    ///
    /// # Errors
    /// `Corruption` if it is another table or its salt is unknown; `Unsupported` for a newer format; `Io`.
    pub(crate) fn open(file: Arc<dyn ReadFile>, salt: Option<u64>) -> Result<Salvage> {
        let footer = match read_footer(&*file) {
            Err(error) if error.kind() == ErrorKind::Corruption && salt.is_some() => None,
            footer => Some(footer?.1),
        };
        let found = footer.map(|footer| footer.salt).or(salt).unwrap_or_default();
        if salt.is_some_and(|salt| salt != found) {
            let message = "the table is not the one that the manifest describes";
            return Err(Error::corruption(file.path(), 0, message));
        }
        let (mut index, mut properties) = (None, None);
        if let Some(footer) = &footer {
            let payload = section(&*file, footer.salt, footer.index_at, footer.properties_at);
            index = payload.ok().and_then(|bytes| Index::decode(&bytes, footer.filter_at).ok());
            let payload = section(&*file, footer.salt, footer.properties_at, footer.file_len - FOOTER as u64);
            properties = payload.ok().and_then(|bytes| Properties::decode(&bytes).ok());
        }
        let data_end = footer.map_or(file.len(), |footer| footer.filter_at);
        Ok(Salvage {
            file,
            salt: found,
            index,
            properties,
            data_end,
            is_end_known: footer.is_some(),
            next: 0,
            offset: 0,
            block: None,
            at: 0,
            key: Vec::new(),
            tag: 0,
            gaps: Vec::new(),
        })
    }

    /// The table's properties, if that part is sound.
    pub(crate) fn properties(&self) -> Option<&Properties> {
        self.properties.as_ref()
    }

    pub(crate) fn salt(&self) -> u64 {
        self.salt
    }

    pub(crate) fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// Moves to the next entry that can be read; `false` at the end.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        loop {
            if let Some((block, layout)) = &self.block {
                if self.at < layout.count {
                    let entry = layout.entry(block, self.at);
                    let head = layout.head(block, self.at).to_be_bytes();
                    self.key.clear();
                    self.key.extend_from_slice(layout.prefix(block));
                    self.key.extend_from_slice(&head[..entry.suffix_len.min(HEAD)]);
                    self.key.extend_from_slice(&block[entry.rest..entry.value]);
                    self.tag = entry.tag;
                    self.at += 1;
                    return Ok(true);
                }
                self.block = None;
            }
            let Some(block) = self.next_block()? else { return Ok(false) };
            let layout = block.layout();
            (self.block, self.at) = (Some((block, layout)), 0);
        }
    }

    /// Whether [`Salvage::advance`] has moved to an entry that is still current.
    pub(crate) fn is_at_entry(&self) -> bool {
        self.block.is_some()
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(crate) fn seq(&self) -> SeqNo {
        seq_of(self.tag)
    }

    pub(crate) fn kind(&self) -> Kind {
        kind_of(self.tag)
    }

    /// The value of the current entry; empty if no entry is current.
    pub(crate) fn value(&self) -> &[u8] {
        let Some((block, layout)) = &self.block else { return &[] };
        let entry = layout.entry(block, self.at.saturating_sub(1));
        &block[entry.value..entry.end]
    }

    fn next_block(&mut self) -> Result<Option<Block>> {
        loop {
            let Some(index) = &self.index else { return self.walk() };
            if self.next == index.len() {
                return Ok(None);
            }
            let (i, place) = (self.next, index.block(self.next));
            let behind = if i == 0 { Vec::new() } else { index.separator(i - 1) };
            let up_to = Some(index.separator(i));
            self.next += 1;
            match self.open_block(place.start, place.end) {
                Ok(block) => return Ok(Some(block)),
                Err(error) if error.kind() == ErrorKind::Corruption => {
                    self.gaps.push(Gap { error, behind, up_to });
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn open_block(&self, start: u64, end: u64) -> Result<Block> {
        let stored = read_part(&*self.file, start, end.saturating_sub(start))?;
        let opened = frame::open(stored, self.salt, start).and_then(Block::check);
        opened.map_err(|flaw| flaw.into_error(self.file.path(), start))
    }

    /// Reads the block at `offset`, whose length is unknown.
    fn walk(&mut self) -> Result<Option<Block>> {
        let start = self.offset;
        if start >= self.data_end {
            if !self.is_end_known {
                self.give_up(start, NO_FOOTER);
            }
            return Ok(None);
        }
        let (mut bytes, mut sum, mut summed) =
            (Vec::new(), Summing::seeded(self.salt.wrapping_add(start)), 0);
        let mut look = LOOK;
        loop {
            let len = look.min(self.data_end - start) as usize;
            bytes.resize(len, 0);
            self.file.read_exact_at(&mut bytes, start)?;
            // A block is never all zeros. A file that was cut and extended, or lost its bytes, has such zeros.
            if look == LOOK && bytes.iter().all(|&byte| byte == 0) {
                self.give_up(start, NOT_FOUND);
                return Ok(None);
            }
            while summed + 9 <= len {
                sum.add(&bytes[summed..=summed]);
                summed += 1;
                let is_end = summed > 1
                    && bytes[summed - 1] <= COMPRESSION_MAX
                    && bytes[summed..summed + 8] == sum.finish().to_le_bytes();
                if is_end {
                    return Ok(self.walked(start, start + summed as u64 + 8));
                }
            }
            if len as u64 == self.data_end - start || look >= WALKED_MAX {
                self.give_up(start, NOT_FOUND);
                return Ok(None);
            }
            look *= 2;
        }
    }

    /// Decodes the block whose place was found; `None` if it is a section after the data.
    fn walked(&mut self, start: u64, end: u64) -> Option<Block> {
        self.offset = end;
        let block = self.open_block(start, end).ok();
        if block.is_none() {
            (self.offset, self.is_end_known) = (self.data_end, true);
        }
        block
    }

    fn give_up(&mut self, start: u64, message: &str) {
        (self.offset, self.is_end_known) = (self.data_end, true);
        let up_to = self.properties.as_ref().map(|properties| properties.largest.clone());
        let error = Error::corruption(self.file.path(), start, message);
        self.gaps.push(Gap { error, behind: self.key.clone(), up_to });
    }
}

fn section(file: &dyn ReadFile, salt: u64, from: u64, to: u64) -> Result<Vec<u8>> {
    let stored = read_part(file, from, to - from)?;
    let payload =
        frame::open_section(&stored, salt, from).map_err(|flaw| flaw.into_error(file.path(), from))?;
    Ok(payload.to_vec())
}
