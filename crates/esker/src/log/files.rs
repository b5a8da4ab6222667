//! The segment files of an open log.

use std::collections::VecDeque;
use std::path::PathBuf;

use super::segment::{RECORDS_AT, SegmentHeader, SpareSegment};

/// The length of the first segment of a store.
pub(super) const SEGMENT_LEN_MIN: u64 = 256 << 10;

/// Whether a segment file of `len` bytes can be used again by a log with segments of up to `len_max`.
pub(crate) fn is_usual_len(len: u64, len_max: u64) -> bool {
    (SEGMENT_LEN_MIN..=len_max.max(SEGMENT_LEN_MIN)).contains(&len) && len.is_multiple_of(RECORDS_AT)
}

/// A segment that nothing is written into any more.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(super) header: SegmentHeader,
    pub(super) file: Retired,
    /// The offset behind its last record.
    pub(super) end: u64,
}

/// A segment that nobody needs any more.
#[derive(Debug)]
pub(super) struct Retired {
    pub(super) path: PathBuf,
    pub(super) len: u64,
    pub(super) bulk: bool,
}

impl Retired {
    /// Whether it can be used again where a segment of `len` bytes is needed.
    pub(super) fn suits(&self, len: u64, bulk: bool) -> bool {
        self.len >= len && (bulk || !self.bulk)
    }
}

/// Segments that recovery does not need, kept for those who ask what was written.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Oldest first, each followed by the next.
    segments: VecDeque<Sealed>,
    /// Bytes that their files may take.
    max: u64,
}

impl History {
    /// What an earlier opening has left: files with their headers and lengths, oldest first, of which each is followed by
    /// the next and the last one by a log that goes on at position `end`.
    pub(crate) fn of(left: Vec<(SegmentHeader, PathBuf, u64)>, end: u64, max: u64) -> History {
        let starts: Vec<u64> = left.iter().map(|(header, ..)| header.start).skip(1).chain([end]).collect();
        let segments = left.into_iter().zip(starts).map(|((header, path, len), next)| Sealed {
            header,
            end: RECORDS_AT + (next - header.start),
            // What it was used for is not known: it is not used again before others.
            file: Retired { path, len, bulk: true },
        });
        History { segments: segments.collect(), max }
    }

    pub(super) fn segments(&self) -> impl Iterator<Item = &Sealed> {
        self.segments.iter()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.segments.iter().map(|sealed| sealed.file.len).sum()
    }

    /// Takes the segment that follows; returns what there is no room for.
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

#[derive(Debug)]
pub(super) struct Files {
    pub(super) history: History,
    /// What recovery may still need.
    pub(super) sealed: VecDeque<Sealed>,
    pub(super) retired: Vec<Retired>,
    pub(super) spare: Option<SpareSegment>,
    pub(super) next_number: u64,
    pub(super) next_len: u64,
    /// The most that it grows to.
    pub(super) len_bound: u64,
}

impl Files {
    /// Files are to be no longer than `len`.
    pub(super) fn bound(&mut self, len: u64) -> u64 {
        (self.len_bound, self.next_len) = (len, self.next_len.min(len));
        len
    }

    /// What they take, but for the one that is written.
    pub(super) fn bytes(&self) -> u64 {
        let sealed: u64 = self.sealed.iter().map(|sealed| sealed.file.len).sum();
        let retired: u64 = self.retired.iter().map(|file| file.len).sum();
        sealed + retired + self.history.bytes() + self.spare.as_ref().map_or(0, |spare| spare.file.len())
    }

    /// Retired files beyond the `keep` that are kept for reuse. `len_max`: the usual length at most; `bulk`: the current
    /// segment is for bulk.
    pub(super) fn take_surplus(&mut self, keep: usize, len_max: u64, bulk: bool) -> Vec<PathBuf> {
        // The largest are kept, since the small ones of a store's first minutes are never big enough again;
        // but not those that were made for one huge record, nor those that are of no use for small ones. Somewhat longer
        // ones than now are made stay: how long they may be goes up and down.
        let len_max = (2 * self.len_bound).min(len_max);
        let useless = |file: &Retired| file.len > len_max || (file.bulk && !bulk);
        self.retired.sort_by_key(|file| (useless(file), std::cmp::Reverse(file.len)));
        let useful = self.retired.partition_point(|file| !useless(file));
        let keep = keep.min(useful);
        self.retired.split_off(keep).into_iter().map(|file| file.path).collect()
    }

    /// A file for a segment of `len` bytes, if one is left.
    pub(super) fn take_retired(&mut self, len: u64, bulk: bool) -> Option<Retired> {
        let index = self.retired.iter().position(|retired| retired.suits(len, bulk))?;
        Some(self.retired.swap_remove(index))
    }

    /// The number of a new file; the next one is to be twice as long, within the bound.
    pub(super) fn begin(&mut self) -> u64 {
        self.next_number += 1;
        self.next_len = (self.next_len * 2).min(self.len_bound);
        self.next_number - 1
    }

    /// Recovery needs nothing before segment `floor`.
    pub(super) fn retire(&mut self, floor: u64) {
        while let Some(sealed) = self.sealed.pop_front_if(|sealed| sealed.header.id < floor) {
            let over = self.history.keep(sealed);
            self.retired.extend(over);
        }
    }
}

/// A segment that can be read.
#[derive(Debug)]
pub(crate) struct Readable {
    pub(crate) header: SegmentHeader,
    pub(crate) path: PathBuf,
    /// The offset behind its last record; `None`: it is being written.
    pub(crate) end: Option<u64>,
}

impl Readable {
    pub(super) fn of(sealed: &Sealed) -> Readable {
        Readable { header: sealed.header, path: sealed.file.path.clone(), end: Some(sealed.end) }
    }
}
