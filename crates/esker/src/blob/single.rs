//! Writes one value of unknown length into a file of its own, as it comes.
//!
//! Memory is one buffer of at most 1 MiB and 8 bytes a chunk, whatever the length. Until `finish` returns
//! nobody knows the value; a writer that is dropped before, or whose `finish` failed, removes its file.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::chunks::{Identity, Summer};
use super::file::BlobFile;
use super::format::{Entry, FILE_LEN_MAX, Header, Layout, PAGE, align8, encode_footer, key_hash};
use super::writer::{NewFile, check_key};
use crate::env::Executor;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{FileSystem, RandomFile, UserFile};

/// How much is written at once: whole chunks of every size, summed up while the processor's cache has them.
const PIECE: usize = 1 << 20;
/// How much is written between hints that the kernel should begin to write back, where a sync will follow.
const WRITEBACK_EVERY: u64 = 8 << 20;
/// From so many bytes at once on, a thread that sums them up costs less than it brings.
const SHARED_AT: usize = 4 << 20;

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
    behind: Writeback,
    /// A write failed: the value has a gap.
    failed: bool,
    finished: bool,
}

/// How far the kernel was told to begin to write back.
#[derive(Debug)]
struct Writeback {
    sync_follows: bool,
    from: u64,
}

impl Writeback {
    /// Writes behind all that was written before.
    fn write(&mut self, file: &dyn RandomFile, piece: &[u8], at: u64) -> Result<()> {
        file.write_at(&[IoSlice::new(piece)], at)?;
        let end = at + piece.len() as u64;
        if self.sync_follows && end - self.from >= WRITEBACK_EVERY {
            file.start_writeback(self.from, end - self.from);
            self.from = end;
        }
        Ok(())
    }
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
            behind: Writeback { sync_follows, from: PAGE },
            failed: false,
            finished: false,
        })
    }

    /// Takes the next bytes of the value. What fills a piece is written straight from `bytes`, and much at once is summed
    /// up by another processor meanwhile, if one has nothing to do.
    pub(crate) fn write(&mut self, mut bytes: &[u8], threads: &dyn Executor) -> Result<()> {
        if !self.rest.is_empty() {
            let (head, behind) = bytes.split_at(bytes.len().min(PIECE - self.rest.len()));
            self.rest.extend_from_slice(head);
            bytes = behind;
            if self.rest.len() == PIECE {
                self.write_rest()?;
            }
        }
        let (pieces, rest) = bytes.split_at(bytes.len() / PIECE * PIECE);
        if pieces.len() >= SHARED_AT && threads.idle_processors() > 0 {
            self.write_shared(pieces, threads)?;
        } else {
            pieces.chunks(PIECE).try_for_each(|piece| self.write_piece(piece))?;
        }
        self.rest.extend_from_slice(rest);
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
        self.failed = true;
        let at = PAGE + self.summer.len();
        self.summer.add(piece);
        self.behind.write(&*self.file, piece, at)?;
        self.failed = false;
        Ok(())
    }

    /// Writes whole pieces by one processor and sums them up by another.
    fn write_shared(&mut self, pieces: &[u8], threads: &dyn Executor) -> Result<()> {
        self.check_whole()?;
        self.failed = true;
        let (file, at) = (&*self.file, PAGE + self.summer.len());
        let end = self.summer.len() + pieces.len() as u64;
        let next = AtomicUsize::new(0);
        let (writing, summing) = (Mutex::new((&mut self.behind, None)), Mutex::new(&mut self.summer));
        let work = || loop {
            match next.fetch_add(1, Ordering::Relaxed) {
                0 => {
                    let (behind, result) = &mut *writing.lock();
                    let mut parts = (at..).step_by(PIECE).zip(pieces.chunks(PIECE));
                    *result = Some(parts.try_for_each(|(at, piece)| behind.write(file, piece, at)));
                }
                1 => summing.lock().add(pieces),
                _ => return,
            }
        };
        threads.side_by_side(1, &work);
        // What an executor has left to do.
        work();
        let written = writing.into_inner().1;
        // What one has lost on the way is no value.
        let lost = || Error::new(ErrorKind::Io, "a part of the value was not written").at(self.file.path());
        written.filter(|_| self.summer.len() == end).ok_or_else(lost)??;
        self.failed = false;
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
        let blob =
            Arc::new(BlobFile::new(Arc::clone(&file).as_read(), self.header.number, self.header, &[entry]));
        Ok(Finished { entry, blob, file })
    }
}

impl SingleWriter {
    /// Leaves the file where it is: its store was closed, and the name may be another's.
    pub(crate) fn leave(mut self) {
        self.finished = true;
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
