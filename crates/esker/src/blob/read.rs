//! Reads values, whole or in part, with one thread or several. Chunks that have not passed their checksum are verified
//! first.
//!
//! ```text
//! passed before          read into the caller's buffer; the third time, copied from memory if it is there
//! the whole value        pieces into the caller's buffer, summed up while in the cache: no sums read
//! some of its chunks     sums loaded once; chunks that have passed: read as above; others: read whole
//! ```
//! A long range is cut into units, which threads take one after the other. Every chunk that a read touches has passed
//! since the file was opened, or passes in this read. After an error the contents of the buffer are undefined.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::BlobFile;
use super::chunks::{Identity, SUM, sums_len};
use super::file::PIECE;
use super::format::Pointer;
use super::index::Found;
use super::verified::Verified;
use crate::env::Executor;
use crate::error::{Error, ErrorKind, Result};

/// How much of a range a thread takes at a time: whole chunks of every size.
const UNIT: u64 = 1 << 20;

/// From this many bytes on, new memory is requested in huge pages.
const EXPECT_USE_AT: usize = 4 << 20;

/// From this many bytes on, a read from the page cache is shared with idle processors.
const SHARED_AT: u64 = 8 << 20;

type Buf = [MaybeUninit<u8>];

/// The part that has to be verified before bytes are given out.
enum Check<'a> {
    /// Nothing: all has passed before.
    Nothing,
    /// The whole value: its sums are collected.
    Whole(Identity),
    /// The chunks that have not passed.
    Chunks(&'a Verified),
}

/// A part of the range to read, from one unit boundary to the next.
struct Unit<'a> {
    at: u64,
    out: &'a mut Buf,
    /// Where the sums of its chunks go, if they are collected.
    sums: &'a mut [u8],
}

/// The units of a read that no thread has taken yet.
struct Units<'a> {
    chunk_log2: u8,
    rest: Unit<'a>,
}

impl<'a> Iterator for Units<'a> {
    type Item = Unit<'a>;

    fn next(&mut self) -> Option<Unit<'a>> {
        let Unit { at, out, sums } = &mut self.rest;
        if out.is_empty() {
            return None;
        }
        let len = (UNIT - *at % UNIT).min(out.len() as u64);
        let (head, rest) = std::mem::take(out).split_at_mut(len as usize);
        let gathered = sums.len().min(sums_len(len, self.chunk_log2) as usize);
        let (head_sums, rest_sums) = std::mem::take(sums).split_at_mut(gathered);
        let unit = Unit { at: *at, out: head, sums: head_sums };
        self.rest = Unit { at: *at + len, out: rest, sums: rest_sums };
        Some(unit)
    }
}

impl BlobFile {
    /// Fills `buf` with the value's bytes from `offset` on. The value must have that many.
    pub(crate) fn read_at(
        &self,
        pointer: &Pointer,
        offset: u64,
        buf: &mut [u8],
        threads: &dyn Executor,
    ) -> Result<()> {
        // SAFETY: initialized bytes may be treated as possibly uninitialized ones, and only bytes that were read are
        // written there.
        let buf = unsafe { &mut *(std::ptr::from_mut(buf) as *mut Buf) };
        self.part(pointer, offset, buf.len() as u64, threads)?.fill(offset, buf)
    }

    /// Appends `len` of the value's bytes from `offset` on to `out`. The value must have that many.
    pub(crate) fn append_to(
        &self,
        pointer: &Pointer,
        offset: u64,
        len: u64,
        out: &mut Vec<u8>,
        threads: &dyn Executor,
    ) -> Result<()> {
        // This comes before memory is taken: a damaged pointer may claim any length.
        let part = self.part(pointer, offset, len, threads)?;
        let too_large = || Error::new(ErrorKind::Io, format!("out of memory for {len} bytes of a value"));
        let len = usize::try_from(len).map_err(|_| too_large())?;
        if out.capacity() - out.len() < len {
            out.try_reserve_exact(len).map_err(|_| too_large())?;
            if len >= EXPECT_USE_AT {
                crate::fs::expect_use(&mut out.spare_capacity_mut()[..len]);
            }
        }
        part.fill(offset, &mut out.spare_capacity_mut()[..len])?;
        // SAFETY: `fill` has filled `len` bytes after the last one; a failure has returned above.
        unsafe { out.set_len(out.len() + len) };
        Ok(())
    }

    /// Finds the value, which must have `len` bytes from `offset` on.
    fn part<'a>(
        &'a self,
        pointer: &'a Pointer,
        offset: u64,
        len: u64,
        threads: &'a dyn Executor,
    ) -> Result<Part<'a>> {
        let value = self.find(pointer)?;
        if offset > value.len || len > value.len - offset {
            let message = format!("the range {offset} + {len} ends behind the value's {} bytes", value.len);
            return Err(Error::new(ErrorKind::InvalidInput, message).at(self.path()));
        }
        Ok(Part { file: self, value, pointer, threads })
    }

    /// Requests the beginning of a value from the disk, ahead of its read.
    pub(crate) fn ask_ahead_of(&self, pointer: &Pointer) {
        if let Ok(value) = self.find(pointer) {
            self.ask_ahead(value.offset, value.len);
        }
    }

    /// Fills `buf` from the page cache. Returns whether all of it was there. The first such copy maps the pages. That
    /// costs as much as two to five copies save, so this is only for values that are read often.
    fn copy_resident(&self, buf: &mut Buf, offset: u64) -> bool {
        let wanted = (buf.as_ptr().addr(), buf.len());
        let copied = self.file.copy_resident(buf, offset);
        copied.is_some_and(|filled| (filled.as_ptr().addr(), filled.len()) == wanted)
    }

    /// Fills `buf`. The file system may be a user's implementation, so this checks that exactly `buf` was filled.
    fn read_uninit<'a>(&self, buf: &'a mut Buf, offset: u64) -> Result<&'a mut [u8]> {
        let (start, len) = (buf.as_ptr().addr(), buf.len());
        let filled = self.file.read_uninit_at(buf, offset)?;
        if (filled.as_ptr().addr(), filled.len()) == (start, len) {
            return Ok(filled);
        }
        let message = "the file system has filled other memory than it was given";
        Err(Error::new(ErrorKind::Io, message).at(self.path()).at_offset(offset))
    }
}

/// A read of a part of a value.
struct Part<'a> {
    file: &'a BlobFile,
    value: Found,
    pointer: &'a Pointer,
    threads: &'a dyn Executor,
}

impl Part<'_> {
    /// Fills all of `buf` with bytes of the value, which has that many from `offset` on.
    fn fill(&self, offset: u64, buf: &mut Buf) -> Result<()> {
        let (file, value, len) = (self.file, &self.value, buf.len() as u64);
        if buf.is_empty() {
            return Ok(());
        }
        if value.read_again && len < SHARED_AT && file.copy_resident(buf, value.offset + offset) {
            return Ok(());
        }
        if value.verified {
            file.note_read_again(value);
            return self.fill_units(&Check::Nothing, offset, buf, &mut []);
        }
        if len == value.len {
            return self.fill_whole(buf);
        }
        if value.len <= 1 << file.header.chunk_log2 {
            let mut whole = vec![MaybeUninit::uninit(); value.len as usize];
            self.fill_whole(&mut whole)?;
            buf.copy_from_slice(&whole[offset as usize..][..buf.len()]);
            return Ok(());
        }
        let verified: Arc<Verified> = file.verified(value, self.pointer)?;
        self.fill_units(&Check::Chunks(&verified), offset, buf, &mut [])
    }

    /// Reads and verifies a whole value, which fills `buf`.
    fn fill_whole(&self, buf: &mut Buf) -> Result<()> {
        let Part { file, value, .. } = self;
        let identity = file.identity(value.ordinal);
        let mut sums = vec![0; sums_len(value.len, file.header.chunk_log2) as usize];
        self.fill_units(&Check::Whole(identity), 0, buf, &mut sums)?;
        // SAFETY: all units were filled, and together they are all of `buf`.
        let bytes = unsafe { crate::fs::filled(buf) };
        file.check_sums(value, self.pointer, identity.sums_check(value.len, &sums), bytes)
    }

    /// Fills a buffer that begins at `at` in the value, together with idle threads.
    fn fill_units(&self, check: &Check<'_>, at: u64, out: &mut Buf, sums: &mut [u8]) -> Result<()> {
        let Part { file, value, threads, .. } = self;
        let (start, len) = (value.offset + at, out.len() as u64);
        // A short range is one read, which requests all of it from the disk anyway.
        let is_cold = out.len() > PIECE && file.ask_ahead(start, len);
        let helpers = if is_cold || len < SHARED_AT { 0 } else { threads.idle_processors() };
        let mut units = Units { chunk_log2: file.header.chunk_log2, rest: Unit { at, out, sums } };
        if helpers == 0 {
            return units.try_for_each(|unit| self.fill_unit(check, unit));
        }
        // The damage nearest to the beginning is reported, whichever thread finds damage first.
        let shared = Mutex::new((units, None::<(u64, Error)>));
        let filled = AtomicU64::new(0);
        let work = || loop {
            let next = {
                let (units, failed) = &mut *shared.lock();
                if failed.is_some() { None } else { units.next() }
            };
            let Some(unit) = next else { return };
            let (at, len) = (unit.at, unit.out.len() as u64);
            match self.fill_unit(check, unit) {
                Ok(()) => drop(filled.fetch_add(len, Ordering::AcqRel)),
                Err(error) => {
                    let failed = &mut shared.lock().1;
                    if failed.as_ref().is_none_or(|(other, _)| at < *other) {
                        *failed = Some((at, error));
                    }
                }
            }
        };
        threads.side_by_side(helpers, &work);
        // This does the work that an executor has not done. If an executor has lost a unit, the memory is not given
        // out.
        work();
        match shared.into_inner().1 {
            Some((_, error)) => Err(error),
            None if filled.into_inner() == len => Ok(()),
            None => Err(Error::new(ErrorKind::Io, "a part of the value was not read").at(file.path())),
        }
    }

    fn fill_unit(&self, check: &Check<'_>, unit: Unit<'_>) -> Result<()> {
        let (file, value, Unit { at, out, sums }) = (self.file, &self.value, unit);
        match check {
            Check::Nothing => file.read_uninit(out, value.offset + at).map(drop),
            Check::Whole(identity) => {
                let chunk_log2 = file.header.chunk_log2;
                let mut index = at >> chunk_log2;
                let mut sums = sums.chunks_exact_mut(SUM);
                for (from, piece) in (at..).step_by(file.piece_len()).zip(out.chunks_mut(file.piece_len())) {
                    let piece = file.read_uninit(piece, value.offset + from)?;
                    for (chunk, sum) in piece.chunks(1 << chunk_log2).zip(&mut sums) {
                        sum.copy_from_slice(&identity.sum(index, chunk).to_le_bytes());
                        index += 1;
                    }
                }
                Ok(())
            }
            Check::Chunks(verified) => self.fill_chunks(verified, at, out),
        }
    }

    fn fill_chunks(&self, verified: &Verified, offset: u64, out: &mut Buf) -> Result<()> {
        let Part { file, value, .. } = self;
        let chunk_log2 = file.header.chunk_log2;
        let chunk = 1u64 << chunk_log2;
        let piece = file.piece_len() as u64;
        let end = offset + out.len() as u64;
        let mut at = offset;
        while at < end {
            let index = at >> chunk_log2;
            let start = index << chunk_log2;
            let out = &mut out[(at - offset) as usize..];
            if verified.has(index) {
                let run = verified.alike(index, end.div_ceil(chunk));
                let take = (start + run * chunk).min(end) - at;
                file.read_uninit(&mut out[..take as usize], value.offset + at)?;
                at += take;
            } else if at == start && (start + chunk).min(value.len) <= end {
                let whole = if end == value.len { end.div_ceil(chunk) } else { end >> chunk_log2 };
                let run = verified.alike(index, whole.min(index + (piece >> chunk_log2)));
                let take = (start + run * chunk).min(value.len) - at;
                let bytes = file.read_uninit(&mut out[..take as usize], value.offset + at)?;
                file.check_chunks(value, &verified.sums, index, bytes)?;
                file.note_chunks(value, verified, index, run);
                at += take;
            } else {
                let mut bytes = vec![0; chunk.min(value.len - start) as usize];
                file.file.read_exact_at(&mut bytes, value.offset + start)?;
                file.check_chunks(value, &verified.sums, index, &bytes)?;
                file.note_chunks(value, verified, index, 1);
                let wanted = &bytes[(at - start) as usize..(end - start).min(bytes.len() as u64) as usize];
                for (to, byte) in out.iter_mut().zip(wanted) {
                    to.write(*byte);
                }
                at += wanted.len() as u64;
            }
        }
        Ok(())
    }
}
