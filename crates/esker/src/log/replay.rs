//! Reads the write-ahead log back. It decides which segments matter, which records are whole, and whether the
//! log ends in a torn tail or in damage (durability rules 2 and 5).
//!
//! A segment follows another when its id, its first sequence number and its start position all continue the
//! other's. The log ends at the first place where the next record is not whole and no segment follows. That
//! end is damage, an error, if anything shows that bytes after it were acknowledged as durable:
//! - the published mark of that segment, if the file system has stayed mounted since ([`mount_mark`]);
//! - such a mark in a later segment;
//! - a later whole record which states that the log was synced beyond this place;
//! - the manifest, which notes at every flush and at closing how far the log was synced.
//!
//! Otherwise it is a torn tail, which is dropped and reported.

use std::path::{Path, PathBuf};

use super::pieces::Pieces;
use super::segment::{RECORDS_AT, SegmentHeader, manifest_mark, marked_manifest, mount_mark, published_mark};
use crate::canary::broken;
use crate::codec::file_number;
use crate::cursor::SeqNo;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::FileSystem;

/// The first segment that recovery needs, as the manifest names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LogFloor {
    /// All data of segments with a smaller id is in tables.
    pub(crate) segment: u64,
    /// The position in the whole log at which that segment starts.
    pub(crate) start: u64,
}

/// A segment file and the contents of its first page.
#[derive(Debug, Clone)]
pub(super) struct SegmentFile {
    pub(super) path: PathBuf,
    pub(super) header: SegmentHeader,
    page: Vec<u8>,
}

/// All segment files of a store.
#[derive(Debug)]
pub(crate) struct Segments {
    dir: PathBuf,
    /// [`mount_mark`] of the directory now.
    mount: [u8; 16],
    pub(super) used: Vec<SegmentFile>,
    /// Every segment file, used or not.
    pub(crate) paths: Vec<PathBuf>,
}

/// A whole record of the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visit<'a> {
    pub(crate) first_seq: SeqNo,
    pub(crate) payload: &'a [u8],
    /// The file system has stayed mounted since the record was acknowledged. Therefore only damage can make part of it
    /// missing.
    pub(crate) acknowledged: bool,
}

/// Takes records, in order.
pub(crate) type Visitor<'a> = &'a mut dyn FnMut(Visit<'_>) -> Result<Visited>;

/// A reader's answer to a whole record of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visited {
    /// The record takes this many sequence numbers.
    Taken(u64),
    /// The payload cannot be decoded.
    Nonsense,
    /// The data that the record points to never reached the disk. The log ends before the record, as if torn
    /// (rule 4).
    EndsHere,
}

/// How the log ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReplayReport {
    /// Records read back.
    pub(crate) records: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Where the torn tail begins, if the log has one. Nothing after it was acknowledged as synced.
    pub(crate) torn: Option<(PathBuf, u64)>,
    /// The largest id of any segment file, needed or not.
    pub(crate) last_id: u64,
    /// The position after the last record.
    pub(crate) position: u64,
    /// The first sequence number after the last record; 0 if the log has no segment.
    pub(crate) next_seq: SeqNo,
    /// The last segment's file, if it begins after the last record and nothing was written into it.
    pub(crate) untouched: Option<PathBuf>,
}

impl Segments {
    /// Reads the headers of the segment files `paths` in `dir`.
    pub(crate) fn open(fs: &dyn FileSystem, dir: &Path, paths: Vec<PathBuf>) -> Result<Segments> {
        let mut used = Vec::new();
        for path in &paths {
            let file = fs.open_read(path)?;
            // A file that was being created when the power failed has any length and holds zeros.
            let mut page = vec![0; RECORDS_AT as usize];
            file.read_exact_at(&mut page[..RECORDS_AT.min(file.len()) as usize], 0)?;
            if let Some(header) = SegmentHeader::decode(&page, path)? {
                used.push(SegmentFile { path: path.clone(), header, page });
            }
        }
        used.sort_by_key(|found| found.header.id);
        for pair in used.windows(2) {
            if pair[0].header.id == pair[1].header.id {
                return Err(Error::corruption(&pair[1].path, 0, "two log segments have the same number"));
            }
        }
        Ok(Segments { dir: dir.to_path_buf(), mount: mount_mark(fs, dir), used, paths })
    }

    /// The offset in a segment before which everything was acknowledged, according to its mark; 0 if unknown, also if
    /// the mark was written through another mount than the directory's present one.
    pub(super) fn published(&self, found: &SegmentFile) -> u64 {
        let is_same = found.header.mount == self.mount && self.mount != [0; 16];
        if is_same { published_mark(&found.page, found.header.epoch) } else { 0 }
    }

    /// Every segment that was used, newest first.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = (&SegmentHeader, &PathBuf)> {
        self.used.iter().rev().map(|found| (&found.header, &found.path))
    }

    /// How many bytes of manifest number `manifest` are synced according to the marks; 0 if unknown.
    pub(crate) fn manifest_synced(&self, manifest: u64) -> u64 {
        let marks = self.used.iter().map(|found| manifest_mark(&found.page, found.header.epoch, manifest));
        marks.max().unwrap_or(0)
    }

    /// The greatest manifest number that any segment's mark names.
    pub(crate) fn last_manifest(&self) -> u64 {
        self.used.iter().map(|found| marked_manifest(&found.page, found.header.epoch)).max().unwrap_or(0)
    }

    /// The total length of the files from `floor` on.
    pub(crate) fn live_bytes(&self, fs: &dyn FileSystem, floor: LogFloor) -> Result<u64> {
        let mut lens = self.live(floor).map(|found| fs.file_len(&found.path));
        lens.try_fold(0, |sum: u64, len| Ok(sum.saturating_add(len?)))
    }

    pub(super) fn live(&self, floor: LogFloor) -> impl Iterator<Item = &SegmentFile> {
        self.used.iter().filter(move |found| found.header.id >= floor.segment)
    }

    /// The oldest segments from `floor` on, of at most `bytes` in total but at least one, and where the next segment
    /// begins; `None` if they are the last.
    pub(crate) fn part(
        &self,
        fs: &dyn FileSystem,
        floor: LogFloor,
        bytes: u64,
    ) -> Result<Option<(Segments, LogFloor)>> {
        let mut part =
            Segments { dir: self.dir.clone(), mount: self.mount, used: Vec::new(), paths: Vec::new() };
        let mut sum = 0;
        for found in self.live(floor) {
            sum = fs.file_len(&found.path)?.saturating_add(sum);
            if sum > bytes && !part.used.is_empty() {
                let next = LogFloor { segment: found.header.id, start: found.header.start };
                return Ok(Some((part, next)));
            }
            part.paths.push(found.path.clone());
            part.used.push(found.clone());
        }
        Ok(None)
    }

    /// Makes durable that the unused files are unused. A process may have died just after it began the next use of a
    /// file. After a power loss, that file would return with the header of its last use, and the number in it may
    /// already belong to another file.
    pub(crate) fn sync_unused(&self, fs: &dyn FileSystem) -> Result<()> {
        let is_used = |path: &&PathBuf| self.used.iter().any(|found| found.path == **path);
        self.paths.iter().filter(|path| !is_used(path)).try_for_each(|path| fs.open_random(path)?.sync())
    }

    /// The files that hold nothing from `floor` on.
    pub(crate) fn dead(&self, floor: LogFloor) -> Vec<PathBuf> {
        let is_live = |path: &PathBuf| self.live(floor).any(|found| found.path == *path);
        self.paths.iter().filter(|path| !is_live(path)).cloned().collect()
    }

    /// Calls `visit` for each record from `floor` on, in order. The log is known to have been on the disk up
    /// to position `synced`.
    pub(crate) fn replay(
        &self,
        fs: &dyn FileSystem,
        floor: LogFloor,
        synced: u64,
        visit: Visitor<'_>,
    ) -> Result<ReplayReport> {
        let last_id = self.used.last().map_or(0, |found| found.header.id);
        let mut report = ReplayReport { last_id, position: floor.start, ..ReplayReport::default() };
        let live: Vec<&SegmentFile> = self.live(floor).collect();
        let Some(first) = live.first() else {
            if report.position < synced {
                let message =
                    format!("log segment {} is missing, and recovery begins with it", floor.segment);
                return Err(Error::new(ErrorKind::Corruption, message).at(&self.dir));
            }
            return Ok(report);
        };
        let mut expected_seq = first.header.first_seq;
        let (mut stop, mut untouched) = (None, None);
        'log: for (index, found) in live.iter().enumerate() {
            let header = &found.header;
            let follows = header.id == floor.segment + index as u64
                && header.first_seq == expected_seq
                && header.start == report.position;
            if !follows {
                stop.get_or_insert((found.path.clone(), RECORDS_AT));
                untouched = None;
                break;
            }
            let mut pieces = Pieces::open(fs, &found.path, header.epoch)?;
            let published = self.published(found);
            let mut offset = RECORDS_AT;
            while let Some(found_record) = pieces.record(offset)? {
                let len = found_record.len() as u64;
                let acknowledged = offset + len <= published;
                let (first_seq, payload) = (expected_seq, found_record.payload);
                let count = match visit(Visit { first_seq, payload, acknowledged })? {
                    Visited::Taken(count) => count,
                    Visited::EndsHere => {
                        stop = Some((found.path.clone(), offset));
                        break 'log;
                    }
                    Visited::Nonsense => {
                        let message = "a log record's checksum matches, but its payload cannot be decoded";
                        return Err(Error::corruption(&found.path, offset, message));
                    }
                };
                expected_seq += count;
                offset += len;
                report.position += len;
                report.records += 1;
            }
            stop = Some((found.path.clone(), offset));
            untouched = (offset == RECORDS_AT).then(|| found.path.clone());
        }
        report.bytes = report.position - floor.start;
        report.next_seq = expected_seq;
        self.judge_end(fs, &live, stop, synced, &mut report)?;
        report.untouched = untouched.filter(|_| report.torn.is_none());
        Ok(report)
    }

    /// Decides whether the log ends at `stop` in a torn tail or in damage.
    fn judge_end(
        &self,
        fs: &dyn FileSystem,
        live: &[&SegmentFile],
        stop: Option<(PathBuf, u64)>,
        synced: u64,
        report: &mut ReplayReport,
    ) -> Result<()> {
        let Some((path, offset)) = stop else { return Ok(()) };
        if broken("rule-5") {
            return Ok(());
        }
        let damaged = || {
            let message = "a log record that was acknowledged as durable is damaged: it is not a torn tail";
            Err(Error::corruption(&path, offset, message))
        };
        if report.position < synced {
            return damaged();
        }
        let mut behind = false;
        for found in live {
            let is_stop = found.path == path;
            behind |= is_stop;
            if !behind {
                continue;
            }
            let header = &found.header;
            let mut pieces = Pieces::open(fs, &found.path, header.epoch)?;
            let from = if is_stop { offset } else { RECORDS_AT };
            let published = self.published(found) > from;
            let mut claimed = false;
            let mut torn = is_stop && pieces.header_is_whole(offset)?;
            let mut next = from;
            while let Some(at) = pieces.find_from(next)? {
                let position = header.start + (at - RECORDS_AT);
                let lag = pieces.record(at)?.and_then(|whole| whole.lag);
                torn = true;
                claimed |= lag.is_some_and(|lag| position.saturating_sub(lag) > report.position);
                next = at + 1;
            }
            if published || claimed || (torn && broken("rule-5-torn")) {
                return damaged();
            }
            if torn && report.torn.is_none() {
                report.torn = Some((path.clone(), offset));
            }
        }
        Ok(())
    }
}

/// The segment number in the file name `name`, if it is a segment's name.
pub(crate) fn segment_number(name: &str) -> Option<u64> {
    file_number(name.strip_prefix("wal-")?.strip_suffix(".log")?)
}

/// The path of segment file `number` in `dir`.
pub(crate) fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("wal-{number:06}.log"))
}
