//! Writes one value of unknown length into its own file, as its bytes arrive.
//!
//! It uses one buffer of at most 1 MiB and 8 bytes per chunk, regardless of the length. The value is unknown to others
//! until `finish` returns. A writer that is dropped before that, or whose `finish` has failed, removes its file.

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::chunks::{Identity, Summer};
use super::file::BlobFile;
use super::format::{Entry, FILE_LEN_MAX, Header, Layout, PAGE, align8, encode_footer, key_hash};
use super::writer::{check_key, create};
use crate::env::Executor;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{FileSystem, RandomFile, UserFile};

/// Size of one write: whole chunks of every size. Their checksums are computed while the bytes are in the processor's
/// cache.
const PIECE: usize = 1 << 20;
/// Interval in bytes at which the kernel is told to begin writeback, if a sync will follow.
const WRITEBACK_EVERY: u64 = 8 << 20;
/// From this many bytes in one call on, a second thread for the checksums pays off.
const SHARED_AT: usize = 4 << 20;

#[derive(Debug)]
pub(crate) struct SingleWriter {
    fs: Arc<dyn FileSystem>,
    file: Arc<dyn RandomFile>,
    header: Header,
    summer: Summer,
    rest: Vec<u8>,
    /// The position up to which the kernel was told to begin writeback; `None` if no sync will follow.
    written_back: Option<u64>,
    /// Whether a write has failed. Then the value has a gap.
    failed: bool,
    finished: bool,
}

#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) entry: Entry,
    pub(crate) blob: Arc<BlobFile>,
    /// The file itself, to sync when the value has to be durable.
    pub(crate) file: Arc<dyn RandomFile>,
}

impl SingleWriter {
    /// `sync_follows`: a caller will wait for a sync of the file, so writeback begins early. If no sync follows, that
    /// costs a quarter of the speed.
    pub(crate) fn create(
        fs: &Arc<dyn FileSystem>,
        path: &Path,
        header: Header,
        sync_follows: bool,
    ) -> Result<Self> {
        let header = Header { layout: Layout::Single, ..header };
        Ok(SingleWriter {
            fs: Arc::clone(fs),
            file: create(fs.as_ref(), path, &header)?,
            header,
            summer: Summer::new(Identity::new(header.salt, 0), header.chunk_log2),
            rest: Vec::new(),
            written_back: sync_follows.then_some(PAGE),
            failed: false,
            finished: false,
        })
    }

    /// Takes the next bytes of the value. Whole pieces are written straight from `bytes`. If one call has many bytes,
    /// an idle processor computes the checksums meanwhile.
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

    /// Takes the beginning of the value from `source`: as many of its first `len` bytes as the file system can share.
    /// Returns how many. Must be called before any write. Another process may change `source` meanwhile; the checksums
    /// are computed from the bytes that are in this file afterwards, and these do not change.
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

    /// Writes whole chunks, or the last bytes of the value.
    fn write_piece(&mut self, piece: &[u8]) -> Result<()> {
        self.check_whole()?;
        self.failed = true;
        let at = PAGE + self.summer.len();
        self.summer.add(piece);
        write_behind(&*self.file, &mut self.written_back, piece, at)?;
        self.failed = false;
        Ok(())
    }

    /// Writes whole pieces on one processor and computes their checksums on another.
    fn write_shared(&mut self, pieces: &[u8], threads: &dyn Executor) -> Result<()> {
        self.check_whole()?;
        self.failed = true;
        let (file, at) = (&*self.file, PAGE + self.summer.len());
        let end = self.summer.len() + pieces.len() as u64;
        let next = AtomicUsize::new(0);
        let (writing, summing) = (Mutex::new((&mut self.written_back, None)), Mutex::new(&mut self.summer));
        let work = || loop {
            match next.fetch_add(1, Ordering::Relaxed) {
                0 => {
                    let (written_back, result) = &mut *writing.lock();
                    let mut parts = (at..).step_by(PIECE).zip(pieces.chunks(PIECE));
                    *result =
                        Some(parts.try_for_each(|(at, piece)| write_behind(file, written_back, piece, at)));
                }
                1 => summing.lock().add(pieces),
                _ => return,
            }
        };
        threads.side_by_side(1, &work);
        // This does the work that an executor has not done.
        work();
        let written = writing.into_inner().1;
        // If an executor has lost a part, the value is not whole.
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
            ordinal: 0,
            offset: PAGE,
            len,
            stored_us,
            sums_check: self.summer.sums_check(),
            key_hash: key_hash(tree, key),
            desc_offset: 0,
            tree,
        };
        entry.desc_offset = entry.end(self.header.chunk_log2);
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

    /// Leaves the file in place: its store was closed, and the name may belong to another file.
    pub(crate) fn leave(mut self) {
        self.finished = true;
    }
}

/// Writes a piece after all earlier ones.
fn write_behind(file: &dyn RandomFile, written_back: &mut Option<u64>, piece: &[u8], at: u64) -> Result<()> {
    file.write_at(&[IoSlice::new(piece)], at)?;
    let end = at + piece.len() as u64;
    if let Some(from) = written_back.as_mut().filter(|from| end - **from >= WRITEBACK_EVERY) {
        file.start_writeback(*from, end - *from);
        *from = end;
    }
    Ok(())
}

fn whole_pieces(len: u64) -> u64 {
    len - len % PIECE as u64
}

impl Drop for SingleWriter {
    fn drop(&mut self) {
        if !self.finished {
            // The next opening removes a file that cannot be removed now. No entry names it.
            drop(self.fs.remove_file(self.file.path()));
        }
    }
}
