//! Reads a file of records in pieces. Memory holds one window and one record, however long the file is.
//!
//! Holes are not read. Therefore a length that only the file's metadata claims costs nothing. A record is checked
//! before memory for all of it is allocated.

use std::path::Path;
use std::sync::Arc;

use super::record::{self, HEADER_LEN, Record};
use crate::checksum::Summing;
use crate::codec::{u32_at, u64_at};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{FileSystem, ReadFile};

/// How many bytes one read takes.
const PIECE: usize = 1 << 20;
/// Records of at least this length are first checked in pieces, because a header alone is easily forged.
const LONG: usize = 64 << 20;
/// How many bytes of a record's beginning a search looks at: the header, and enough to recognise zeros.
const LOOK: usize = 24;

/// The records of a file that was used under one epoch.
#[derive(Debug)]
pub(crate) struct Pieces {
    file: Arc<dyn ReadFile>,
    epoch: u64,
    /// Where the records end, if that is before the end of the file.
    end: u64,
    /// The bytes of the file from `start` on.
    window: Vec<u8>,
    start: u64,
    /// Bytes of one read, unless a record is longer.
    piece: usize,
}

impl Pieces {
    pub(crate) fn open(fs: &dyn FileSystem, path: &Path, epoch: u64) -> Result<Pieces> {
        Ok(Pieces::of(fs.open_read(path)?, epoch))
    }

    pub(super) fn of(file: Arc<dyn ReadFile>, epoch: u64) -> Pieces {
        Pieces { file, epoch, end: u64::MAX, window: Vec::new(), start: 0, piece: PIECE }
    }

    /// [`Pieces::of`] with another size of one read.
    pub(super) fn of_pieces(file: Arc<dyn ReadFile>, epoch: u64, piece: usize) -> Pieces {
        Pieces { piece, ..Pieces::of(file, epoch) }
    }

    /// Reads nothing from `end` on, until the next call.
    pub(super) fn bound(&mut self, end: u64) {
        self.end = end;
    }

    /// The length of the file, or of the part to read.
    pub(crate) fn len(&self) -> u64 {
        self.file.len().min(self.end)
    }

    /// The whole record at `offset`, if one is there.
    pub(crate) fn record(&mut self, offset: u64) -> Result<Option<Record<'_>>> {
        let Some(len) = self.record_len(offset)? else { return Ok(None) };
        if len >= LONG && !self.is_whole(offset, len)? {
            return Ok(None);
        }
        self.load(offset, len)?;
        Ok(record::read_at(self.window_at(offset), offset, self.epoch))
    }

    /// Whether a valid header of this epoch is at `offset`, regardless of the bytes after it.
    pub(super) fn header_is_whole(&mut self, offset: u64) -> Result<bool> {
        Ok(self.load(offset, HEADER_LEN)?
            && record::len_at(self.window_at(offset), offset, self.epoch).is_some())
    }

    /// The offset of the first whole record at or after `from`, at any alignment. Use it only to distinguish damage
    /// from a torn tail: the record may be out of sequence.
    pub(super) fn find_from(&mut self, from: u64) -> Result<Option<u64>> {
        let mut at = from;
        while let Some(begin) = self.skip_hole(at) {
            let here = LOOK.min(usize::try_from(self.len() - begin).unwrap_or(LOOK));
            if !self.load(begin, here)? {
                return Ok(None);
            }
            let (candidate, next) = self.candidate(begin);
            at = next;
            if let Some(candidate) = candidate {
                if self.record(candidate)?.is_some() {
                    return Ok(Some(candidate));
                }
                at = candidate + 1;
            }
        }
        Ok(None)
    }

    /// Up to `len` bytes from `offset` on; fewer at the end of the file.
    pub(super) fn bytes(&mut self, offset: u64, len: usize) -> Result<Vec<u8>> {
        let left = usize::try_from(self.len().saturating_sub(offset)).unwrap_or(len);
        let len = len.min(left);
        self.load(offset, len)?;
        Ok(self.window_at(offset)[..len].to_vec())
    }

    /// The length of the record at `offset` according to its header; `None` also if the file ends before the header
    /// does.
    fn record_len(&mut self, offset: u64) -> Result<Option<usize>> {
        if !self.load(offset, HEADER_LEN)? {
            return Ok(None);
        }
        let len = record::len_at(self.window_at(offset), offset, self.epoch);
        Ok(len.filter(|&len| offset.checked_add(len as u64).is_some_and(|end| end <= self.len())))
    }

    /// Checks a long record without having all of it in memory.
    fn is_whole(&mut self, offset: u64, len: usize) -> Result<bool> {
        let header = self.bytes(offset, HEADER_LEN)?;
        let mut sum = Summing::default();
        let end = offset + len as u64;
        let mut at = offset + HEADER_LEN as u64;
        while at < end {
            let piece = self.bytes(at, PIECE.min((end - at) as usize))?;
            if piece.is_empty() {
                return Ok(false);
            }
            sum.add(&piece);
            at += piece.len() as u64;
        }
        Ok(record::payload_matches(&header, sum.finish(), offset, self.epoch))
    }

    /// The next place from `at` on where a record may begin; `None` after the last such place.
    fn skip_hole(&self, at: u64) -> Option<u64> {
        // A header's length is never zero. Therefore some of it is data.
        let data = self.file.next_data(at).saturating_sub(HEADER_LEN as u64 - 1);
        Some(at.max(data)).filter(|&at| at < self.len().saturating_sub(HEADER_LEN as u64))
    }

    /// The first place in the window from `begin` on that holds a header, and, if no place does, where to continue.
    fn candidate(&self, begin: u64) -> (Option<u64>, u64) {
        let window = self.window_at(begin);
        let left = self.len() - begin;
        let is_end = window.len() as u64 == left;
        let mut i = 0;
        while i + HEADER_LEN < window.len() && (is_end || i + LOOK <= window.len()) {
            // Most of a log is zeros. Two zero words mean that no length field in the next 12 places can
            // exceed 0.
            if window.get(i + 8..i + LOOK).is_some_and(|words| u64_at(words, 0) | u64_at(words, 8) == 0) {
                i += 13;
                continue;
            }
            // A cheap test first: most other places hold an impossible length.
            let len = u64::from(u32_at(window, i + 8));
            let at = begin + i as u64;
            if len > 0 && len <= left - i as u64 && record::len_at(&window[i..], at, self.epoch).is_some() {
                return (Some(at), at);
            }
            i += 1;
        }
        (None, begin + i as u64)
    }

    /// The window from `offset` on, which must lie in it.
    fn window_at(&self, offset: u64) -> &[u8] {
        &self.window[(offset - self.start) as usize..]
    }

    /// Makes the window hold `len` bytes from `offset` on; `false` if the file has fewer.
    fn load(&mut self, offset: u64, len: usize) -> Result<bool> {
        let Some(end) = offset.checked_add(len as u64).filter(|&end| end <= self.len()) else {
            return Ok(false);
        };
        if offset >= self.start && end <= self.start + self.window.len() as u64 {
            return Ok(true);
        }
        let left = usize::try_from(self.len() - offset).unwrap_or(usize::MAX);
        let wanted = len.max(self.piece).min(left);
        if let Some(more) = wanted.checked_sub(self.window.len()) {
            self.window.try_reserve_exact(more).map_err(|_| no_memory(self.file.path(), offset, wanted))?;
        }
        self.window.resize(wanted, 0);
        self.start = offset;
        let read = self.file.read_exact_at(&mut self.window, offset);
        if read.is_err() {
            self.window.clear();
        }
        read.map(|()| true)
    }
}

fn no_memory(path: &Path, offset: u64, len: usize) -> Error {
    let message = format!("there is no memory for a record of {len} bytes");
    Error::new(ErrorKind::OutOfResources, message).at(path).at_offset(offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::sim::SimFs;

    const EPOCH: u64 = 9;

    fn record(payload: &[u8], offset: u64) -> Vec<u8> {
        let mut header = record::header_for(payload);
        record::seal(&mut header, EPOCH, offset, 5);
        [header.as_slice(), payload].concat()
    }

    fn pieces(bytes: &[u8]) -> Pieces {
        let disk = SimFs::new(0);
        disk.write_all("/log", bytes).unwrap();
        Pieces::open(&disk, Path::new("/log"), EPOCH).unwrap()
    }

    #[test]
    fn records_are_found_wherever_they_begin() {
        for gap in 0..60 {
            let mut bytes = vec![0; gap];
            bytes.extend_from_slice(&record(b"x", gap as u64));
            bytes.resize(bytes.len() + 60 - gap, 0);
            let second = bytes.len() as u64;
            bytes.extend_from_slice(&record(&[0; 30], second));
            for from in 0..=gap as u64 {
                let (mut pieces, mut at, mut found) = (pieces(&bytes), from, Vec::new());
                while let Some(here) = pieces.find_from(at).unwrap() {
                    found.push(here);
                    at = here + 1;
                }
                assert_eq!(found, [gap as u64, second], "from {from}");
            }
        }
    }

    #[test]
    fn records_across_pieces_are_read_and_found() {
        let mut bytes = Vec::new();
        let mut offsets = Vec::new();
        for i in 0..40u32 {
            offsets.push(bytes.len() as u64);
            let payload = i.to_le_bytes().repeat(20_000 + i as usize * 501);
            bytes.extend_from_slice(&record(&payload, bytes.len() as u64));
        }
        assert!(bytes.len() > 3 * PIECE);
        let mut pieces = pieces(&bytes);
        for (i, &offset) in offsets.iter().enumerate() {
            let read = pieces.record(offset).unwrap().unwrap();
            assert_eq!(read.payload, (i as u32).to_le_bytes().repeat(20_000 + i * 501));
        }
        assert!(pieces.record(bytes.len() as u64).unwrap().is_none());
        // A place of which a piece ends in the header.
        for (i, &offset) in offsets.iter().enumerate().skip(1) {
            assert_eq!(pieces.find_from(offsets[i - 1] + 1).unwrap(), Some(offset));
            assert!(pieces.header_is_whole(offset).unwrap() && !pieces.header_is_whole(offset + 1).unwrap());
        }
    }

    #[test]
    fn a_long_record_is_checked_before_there_is_memory_for_it() {
        let payload = vec![7; LONG + 12_345];
        let mut bytes = record(&payload, 0);
        assert_eq!(pieces(&bytes).record(0).unwrap().unwrap().payload, payload);
        bytes[LONG] ^= 1;
        let mut pieces = pieces(&bytes);
        assert!(pieces.record(0).unwrap().is_none());
        assert!(pieces.window.len() <= PIECE);
    }
}
