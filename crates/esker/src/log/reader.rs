//! Reads the log while it is written: whole records, from a sequence number on.
//!
//! A segment below the floor may be reused at any time. Records that were read are still correct: each use has its own
//! epoch, and a record of another epoch fails its check.

use std::sync::Arc;

use super::pieces::Pieces;
use super::segment::{RECORDS_AT, SegmentHeader};
use super::wal::{Readable, Wal};
use crate::cursor::SeqNo;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{FileSystem, ReadFile, descriptors};

/// Size of one read. Each reader has this much memory.
const PIECE: usize = 256 << 10;

/// Reads the log record by record.
#[derive(Debug)]
pub(crate) struct LogReader {
    fs: Arc<dyn FileSystem>,
    file: Arc<dyn ReadFile>,
    pieces: Pieces,
    segment: Readable,
    /// The offset of the next record in the file.
    offset: u64,
    /// The sequence number of that record's first operation.
    seq: SeqNo,
}

fn gone(seq: SeqNo) -> Error {
    let message = format!(
        "the log no longer has the writes from sequence number {seq} on: take a snapshot, copy it, and go on \
         from its sequence number; `Options::log_history` keeps more of the log"
    );
    Error::new(ErrorKind::NotFound, message)
}

impl LogReader {
    /// A reader at or before the record that has, or will have, sequence number `seq`.
    pub(crate) fn open(fs: &Arc<dyn FileSystem>, wal: &Wal, seq: SeqNo) -> Result<LogReader> {
        let before = wal.readable().into_iter().rfind(|segment| segment.header.first_seq <= seq);
        let segment = before.ok_or_else(|| gone(seq))?;
        let seq = segment.header.first_seq;
        LogReader::begin(fs, segment, seq)
    }

    fn begin(fs: &Arc<dyn FileSystem>, segment: Readable, seq: SeqNo) -> Result<LogReader> {
        let file = descriptors::opened(&**fs, || fs.open_read(&segment.path)).map_err(|error| match error
            .kind()
        {
            ErrorKind::NotFound => gone(seq),
            _ => error,
        })?;
        let pieces = Pieces::of_pieces(Arc::clone(&file), segment.header.epoch, PIECE);
        Ok(LogReader { fs: Arc::clone(fs), file, pieces, segment, offset: RECORDS_AT, seq })
    }

    /// The sequence number of the next record's first operation, computed from the records before it.
    pub(crate) fn seq(&self) -> SeqNo {
        self.seq
    }

    /// The position of the next record in the log.
    pub(crate) fn position(&self) -> u64 {
        self.segment.header.start + (self.offset - RECORDS_AT)
    }

    /// Passes the next record to `show`; returns `None` at the position `limit`. Every record before `limit` must be
    /// whole. `show` returns how many sequence numbers the record takes, or `None` if it cannot decode it.
    pub(crate) fn next<T>(
        &mut self,
        wal: &Wal,
        limit: u64,
        show: impl FnOnce(SeqNo, &[u8]) -> Option<(u64, T)>,
    ) -> Result<Option<T>> {
        loop {
            if self.position() >= limit {
                return Ok(None);
            }
            // Read only whole records: the bytes after them may be written later.
            let whole = self.offset + (limit - self.position());
            self.pieces.bound(self.segment.end.unwrap_or(whole).min(whole));
            if let Some(record) = self.pieces.record(self.offset)? {
                let len = record.len() as u64;
                let Some((taken, shown)) = show(self.seq, record.payload) else { return Err(self.lost()) };
                self.offset += len;
                self.seq += taken;
                return Ok(Some(shown));
            }
            self.follow(wal)?;
        }
    }

    /// Explains why the next record is missing: the file has been reused, or it is damaged.
    fn lost(&self) -> Error {
        let mut page = vec![0; RECORDS_AT as usize];
        let header = self.file.read_exact_at(&mut page, 0);
        match header.and_then(|()| SegmentHeader::decode(&page, &self.segment.path)) {
            Ok(Some(header)) if header == self.segment.header => {
                let message =
                    "a log record is damaged: take a snapshot, copy it, and go on from its sequence number";
                Error::corruption(&self.segment.path, self.offset, message)
            }
            Err(error) if error.kind() != ErrorKind::Corruption => error,
            _ => gone(self.seq),
        }
    }

    /// Continues in the segment that begins where this one ends.
    fn follow(&mut self, wal: &Wal) -> Result<()> {
        let (position, id) = (self.position(), self.segment.header.id);
        let readable = wal.readable();
        let next = readable.iter().find(|segment| segment.header.id > id).cloned();
        let next = next.filter(|next| next.header.start == position && next.header.id == id + 1);
        let Some(next) = next else {
            // If this segment is still one of the log's and has more records, the next one cannot be read.
            let has_more = |segment: &Readable| {
                segment.header == self.segment.header && segment.end.is_none_or(|end| self.offset < end)
            };
            return Err(if readable.iter().any(has_more) { self.lost() } else { gone(self.seq) });
        };
        *self = LogReader::begin(&self.fs, next, self.seq)?;
        Ok(())
    }
}
