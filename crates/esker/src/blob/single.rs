//! Writes one value of unknown length into a file of its own, as it comes.
//!
//! Memory is one buffer of at most 1 MiB and 8 bytes a chunk, whatever the length. Until `finish` returns
//! nobody knows the value; a writer that is dropped before, or whose `finish` failed, removes its file.

use std::io::IoSlice;
use std::sync::Arc;

use super::chunks::{Identity, Summer};
use super::file::BlobFile;
use super::format::{Entry, FILE_LEN_MAX, Header, Layout, PAGE, align8, encode_footer, key_hash};
use super::writer::{NewFile, check_key};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{FileSystem, RandomFile, UserFile};

/// How much is written at once: whole chunks of every size, summed up while the processor's cache has them.
const PIECE: usize = 1 << 20;
/// How much is written between hints that the kernel should begin to write back, where a sync will follow.
const WRITEBACK_EVERY: u64 = 8 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct SingleWriter {
    fs: Arc<dyn FileSystem>,
    file: Arc<dyn RandomFile>,
    header: Header,
    chunk_log2: u8,
    summer: Summer,
    /// What does not fill a piece yet.
    rest: Vec<u8>,
    sync_follows: bool,
    written_back: u64,
    /// A write failed: the value has a gap.
    failed: bool,
    finished: bool,
}

/// A value that is whole and can be read.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) entry: Entry,
    pub(crate) blob: Arc<BlobFile>,
    /// The file itself, to be synced by whoever needs the value durable.
    pub(crate) file: Arc<dyn RandomFile>,
}

impl SingleWriter {
    /// `sync_follows`: somebody will wait for a sync of the file, so what is written is on its way to the disk
    /// early. It costs a quarter of the speed where nobody does.
    pub(crate) fn create(fs: &Arc<dyn FileSystem>, new: NewFile<'_>, sync_follows: bool) -> Result<Self> {
        let (file, header) = new.create(fs.as_ref(), Layout::Single)?;
        Ok(SingleWriter {
            fs: Arc::clone(fs),
            file,
            header,
            chunk_log2: new.chunk_log2,
            summer: Summer::new(Identity::new(new.salt, 0), new.chunk_log2),
            rest: Vec::new(),
            sync_follows,
            written_back: 0,
            failed: false,
            finished: false,
        })
    }

    /// Takes the next bytes of the value. What fills a piece is written straight from `bytes`.
    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        if !self.rest.is_empty() {
            let (head, behind) = bytes.split_at(bytes.len().min(PIECE - self.rest.len()));
            self.rest.extend_from_slice(head);
            bytes = behind;
            if self.rest.len() == PIECE {
                self.write_rest()?;
            }
        }
        let mut pieces = bytes.chunks_exact(PIECE);
        for piece in &mut pieces {
            self.write_piece(piece)?;
        }
        self.rest.extend_from_slice(pieces.remainder());
        Ok(())
    }

    /// Takes as many of the first `len` bytes of `source` as the value's beginning as the file system shares with
    /// it, and returns how many. Nothing was written before. Whoever changes `source` meanwhile decides which
    /// bytes those are; they are summed up as they are then in this file, and stay so.
    pub(crate) fn share(&mut self, source: &UserFile, len: u64) -> Result<u64> {
        debug_assert!(self.summer.len() == 0 && self.rest.is_empty(), "it is the beginning");
        let wanted = whole_pieces(len.min(FILE_LEN_MAX / 2));
        let shared = whole_pieces(self.file.share_from(source, wanted, PAGE));
        self.failed = true;
        self.file.set_len(PAGE + shared)?;
        let mut piece = if shared > 0 { vec![0; PIECE] } else { Vec::new() };
        while self.summer.len() < shared {
            self.file.read_exact_at(&mut piece, PAGE + self.summer.len())?;
            self.summer.add(&piece);
        }
        self.failed = false;
        Ok(shared)
    }

    fn write_rest(&mut self) -> Result<()> {
        let mut rest = std::mem::take(&mut self.rest);
        self.write_piece(&rest)?;
        rest.clear();
        self.rest = rest;
        Ok(())
    }

    /// Writes whole chunks, or the last bytes of all.
    fn write_piece(&mut self, piece: &[u8]) -> Result<()> {
        self.check_whole()?;
        let at = PAGE + self.summer.len();
        self.summer.add(piece);
        self.failed = true;
        self.file.write_at(&[IoSlice::new(piece)], at)?;
        self.failed = false;
        if self.sync_follows && self.summer.len() - self.written_back >= WRITEBACK_EVERY {
            self.file.start_writeback(PAGE + self.written_back, self.summer.len() - self.written_back);
            self.written_back = self.summer.len();
        }
        Ok(())
    }

    fn check_whole(&self) -> Result<()> {
        if !self.failed && self.summer.len() <= FILE_LEN_MAX / 2 {
            return Ok(());
        }
        let message = "the value is not whole: a write of it failed, or it is too long";
        Err(Error::new(ErrorKind::InvalidInput, message).at(self.file.path()))
    }

    /// Ends the value and seals the file. Nothing is synced.
    pub(crate) fn finish(mut self, tree: u32, key: &[u8], stored_us: u64) -> Result<Finished> {
        check_key(key, self.file.path())?;
        if !self.rest.is_empty() {
            self.write_rest()?;
        }
        self.check_whole()?;
        let len = self.summer.len();
        let mut entry = Entry {
            logical: self.header.number,
            salt: self.header.salt,
            ordinal: 0,
            offset: PAGE,
            len,
            stored_us,
            sums_check: self.summer.sums_check(),
            key_hash: key_hash(tree, key),
            desc_offset: 0,
            tree,
            chunk_log2: self.chunk_log2,
        };
        entry.desc_offset = entry.end();
        let mut descriptor = Vec::new();
        entry.encode_descriptor(key, self.header.salt, &mut descriptor);
        let footer = encode_footer(&self.header, entry.desc_offset + descriptor.len() as u64, &[entry]);
        let slack = [0; 8];
        let slack = &slack[..(align8(PAGE + len) - PAGE - len) as usize];
        let parts = [slack, self.summer.sums(), &descriptor, &footer].map(IoSlice::new);
        self.file.write_at(&parts, PAGE + len)?;
        self.finished = true;
        let file = Arc::clone(&self.file);
        let blob = Arc::new(BlobFile::new(Arc::clone(&file).as_read(), self.header, &[entry]));
        Ok(Finished { entry, blob, file })
    }
}

fn whole_pieces(len: u64) -> u64 {
    len - len % PIECE as u64
}

impl Drop for SingleWriter {
    fn drop(&mut self) {
        if !self.finished {
            // What cannot be removed now is named by nobody, and goes at the next opening.
            drop(self.fs.remove_file(self.file.path()));
        }
    }
}
