//! The segment files of an open log.

use std::collections::VecDeque;
use std::path::PathBuf;

use super::segment::{RECORDS_AT, SegmentHeader, SpareSegment};

/// The length of the first segment of a store.
pub(super) const SEGMENT_LEN_MIN: u64 = 256 << 10;

/// Whether a log with segments of up to `len_max` bytes can reuse a segment file of `len` bytes.
pub(crate) fn is_usual_len(len: u64, len_max: u64) -> bool {
    (SEGMENT_LEN_MIN..=len_max.max(SEGMENT_LEN_MIN)).contains(&len) && len.is_multiple_of(RECORDS_AT)
}

/// A segment that takes no more records.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(super) header: SegmentHeader,
    pub(super) file: Retired,
    /// The offset after its last record.
    pub(super) end: u64,
}

/// A segment that neither recovery nor the history needs.
#[derive(Debug)]
pub(super) struct Retired {
    pub(super) path: PathBuf,
    pub(super) len: u64,
    pub(super) bulk: bool,
    /// Whether an earlier opening left it. It may be a copy of a segment, which ends after the last record and has
    /// holes, so it is not reused.
    pub(super) left: bool,
}

impl Retired {
    pub(super) fn of(spare: &SpareSegment) -> Retired {
        let (path, len) = (spare.file.path().to_path_buf(), spare.file.len());
        Retired { path, len, bulk: spare.bulk, left: false }
    }

    /// Whether the file can be reused where a segment of `len` bytes is needed.
    pub(super) fn suits(&self, len: u64, bulk: bool) -> bool {
        self.len >= len && (bulk || !self.bulk) && !self.left
    }
}

/// Segments that recovery does not need, kept for readers of the store's changes.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Oldest first, without gaps.
    segments: VecDeque<Sealed>,
    /// The most bytes that the files may take.
    max: u64,
}

impl History {
    /// The segments that an earlier opening left: files with their headers and lengths, oldest first. Each
    /// file is followed by the next one; the last one is followed by a log that continues at position `end`.
    pub(crate) fn of(left: Vec<(SegmentHeader, PathBuf, u64)>, end: u64, max: u64) -> History {
        let starts: Vec<u64> = left.iter().map(|(header, ..)| header.start).skip(1).chain([end]).collect();
        let segments = left.into_iter().zip(starts).map(|((header, path, len), next)| Sealed {
            header,
            end: RECORDS_AT + (next - header.start),
            file: Retired { path, len, bulk: true, left: true },
        });
        History { segments: segments.collect(), max }
    }

    pub(super) fn segments(&self) -> impl Iterator<Item = &Sealed> {
        self.segments.iter()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.segments.iter().map(|sealed| sealed.file.len).sum()
    }

    /// Adds the next segment; returns the segments that no longer fit.
    fn keep(&mut self, sealed: Sealed) -> Vec<Retired> {
        self.segments.push_back(sealed);
        let mut over = Vec::new();
        while self.bytes() > self.max {
            over.extend(self.segments.pop_front().map(|sealed| sealed.file));
        }
        over
    }

    pub(super) fn forget(&mut self) -> Vec<Retired> {
        self.segments.drain(..).map(|sealed| sealed.file).collect()
    }
}

#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) history: History,
    /// Segments that recovery may still need.
    pub(super) sealed: VecDeque<Sealed>,
    pub(super) retired: Vec<Retired>,
    /// Files that could not be removed yet, under their own names or under the names that removal gives them
    /// first.
    pub(super) going: Vec<Retired>,
    pub(super) spare: Option<SpareSegment>,
    pub(super) next_number: u64,
    pub(super) next_len: u64,
    /// The upper bound of `next_len`.
    pub(super) len_bound: u64,
}

impl Files {
    /// Limits new files to `len` bytes.
    pub(super) fn bound(&mut self, len: u64) -> u64 {
        (self.len_bound, self.next_len) = (len, self.next_len.min(len));
        len
    }

    /// Bytes in all files except the current segment's.
    pub(super) fn bytes(&self) -> u64 {
        let sealed: u64 = self.sealed.iter().map(|sealed| sealed.file.len).sum();
        let retired: u64 = self.retired.iter().chain(&self.going).map(|file| file.len).sum();
        sealed + retired + self.history.bytes() + self.spare.as_ref().map_or(0, |spare| spare.file.len())
    }

    /// Takes out the files that could not be removed yet, and all retired files beyond the `keep` best ones.
    /// `len_max` is the greatest usual length; `bulk`: the current segment is for bulk.
    pub(super) fn take_surplus(&mut self, keep: usize, len_max: u64, bulk: bool) -> Vec<Retired> {
        // Keep the largest files: the small ones of a store's first minutes are never large enough again. Do
        // not keep files made for one huge record, nor bulk files when small records are written. The bound
        // on lengths rises and falls. Therefore files of up to twice the bound stay.
        let len_max = (2 * self.len_bound).min(len_max);
        let useless = |file: &Retired| file.left || file.len > len_max || (file.bulk && !bulk);
        self.retired.sort_by_key(|file| (useless(file), std::cmp::Reverse(file.len)));
        let useful = self.retired.partition_point(|file| !useless(file));
        let keep = keep.min(useful);
        let mut surplus = self.retired.split_off(keep);
        surplus.append(&mut self.going);
        surplus
    }

    /// A retired file for a segment of `len` bytes, if one suits.
    pub(super) fn take_retired(&mut self, len: u64, bulk: bool) -> Option<Retired> {
        let index = self.retired.iter().position(|retired| retired.suits(len, bulk))?;
        Some(self.retired.swap_remove(index))
    }

    /// Returns the number of a new file and doubles the length of the next one, within the bound.
    pub(super) fn begin(&mut self) -> u64 {
        self.next_number += 1;
        self.next_len = (self.next_len * 2).min(self.len_bound);
        self.next_number - 1
    }

    /// Retires the segments before `floor`, which recovery no longer needs.
    pub(super) fn retire(&mut self, floor: u64) {
        let count = self.sealed.iter().take_while(|sealed| sealed.header.id < floor).count();
        for sealed in self.sealed.drain(..count) {
            let over = self.history.keep(sealed);
            self.retired.extend(over);
        }
    }
}

/// A segment that can be read.
#[derive(Debug, Clone)]
pub(crate) struct Readable {
    pub(crate) header: SegmentHeader,
    pub(crate) path: PathBuf,
    /// The offset after its last record; `None` while it is being written.
    pub(crate) end: Option<u64>,
}

impl Readable {
    pub(super) fn of(sealed: &Sealed) -> Readable {
        Readable { header: sealed.header, path: sealed.file.path.clone(), end: Some(sealed.end) }
    }
}
