//! Lists every damaged place of the log and of a record file, for `check`. Replay stops at the first one; a
//! survey continues after it.
//!
//! A place without a whole record is damaged if it lies before the end of the part that is certainly on the disk. The
//! manifest, the marks and every whole record, wherever it lies, state which part that is. Any other such place is part
//! of a torn tail. For the first such place, replay decides the same.

use std::path::{Path, PathBuf};

use super::pieces::Pieces;
use super::record::Record;
use super::replay::{LogFloor, Segments};
use super::segment::RECORDS_AT;
use super::stream::{PAGE as STREAM_AT, open_stream};
use crate::error::{Error, Result};
use crate::fs::FileSystem;

const DAMAGED: &str = "a record that was synced is damaged: it is not a torn tail";

/// The result of a walk over a file of records.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// Offsets at which no record is whole although a later one is.
    gaps: Vec<u64>,
    /// The offset after the last whole record.
    end: u64,
    /// The greatest offset that a record states as synced; negative if it lies before this file.
    claimed: i64,
}

/// Walks the records of a file from `offset` on.
pub(super) fn walk(
    pieces: &mut Pieces,
    offset: u64,
    visit: &mut dyn FnMut(u64, &Record<'_>),
) -> Result<Walk> {
    let mut walk = Walk { gaps: Vec::new(), end: offset, claimed: i64::MIN };
    let mut at = offset;
    loop {
        while let Some(found) = pieces.record(at)? {
            visit(at, &found);
            if let Some(lag) = found.lag {
                walk.claimed = walk.claimed.max(at as i64 - lag as i64);
            }
            at += found.len() as u64;
        }
        walk.end = at;
        match pieces.find_from(at + 1)? {
            Some(next) => {
                walk.gaps.push(at);
                at = next;
            }
            None => return Ok(walk),
        }
    }
}

/// Calls `visit` with every whole record's payload in the record file `path`; returns the damaged places. At
/// least `synced` bytes of the file are known to be on the disk.
pub(crate) fn survey_stream(
    fs: &dyn FileSystem,
    path: &Path,
    synced: u64,
    visit: &mut dyn FnMut(&[u8]),
) -> Result<Vec<Error>> {
    let mut pieces = open_stream(fs, path)?;
    let walk = walk(&mut pieces, STREAM_AT as u64, &mut |_, record| visit(record.payload))?;
    let sure = (synced as i64).max(walk.claimed);
    let places = walk.gaps.into_iter().chain([walk.end]).filter(|&at| (at as i64) < sure);
    Ok(places.map(|at| Error::corruption(path, at, DAMAGED)).collect())
}

/// A place in the log: its position, file and offset.
struct LogPlace {
    position: i64,
    path: PathBuf,
    offset: u64,
}

impl Segments {
    /// Calls `visit` with the place of each whole record from `floor` on (`None`: of all segments); returns the damaged
    /// places. The log is known to have been on the disk up to position `synced`.
    pub(crate) fn survey(
        &self,
        fs: &dyn FileSystem,
        floor: Option<LogFloor>,
        synced: u64,
        visit: &mut dyn FnMut(&Path, u64, &[u8]),
    ) -> Result<Vec<Error>> {
        let mut places = Vec::new();
        let mut sure = synced as i64;
        let segments: Vec<_> = self.live(floor.unwrap_or_default()).collect();
        for (index, found) in segments.iter().enumerate() {
            let (path, header) = (&found.path, &found.header);
            let mut pieces = Pieces::open(fs, path, header.epoch)?;
            let walk = walk(&mut pieces, RECORDS_AT, &mut |at, record| visit(path, at, record.payload))?;
            let position = |offset: i64| header.start as i64 + offset - RECORDS_AT as i64;
            let published = self.published(found);
            // A segment without a mark proves nothing, not even about the segment before it.
            if published > RECORDS_AT {
                sure = sure.max(position(published as i64));
            }
            if walk.claimed > i64::MIN {
                sure = sure.max(position(walk.claimed));
            }
            let place =
                |offset: u64| LogPlace { position: position(offset as i64), path: path.clone(), offset };
            places.extend(walk.gaps.iter().map(|&gap| place(gap)));
            let next = segments.get(index + 1).map(|next| &next.header);
            let goes_on = next.is_some_and(|next| {
                next.id == header.id + 1 && next.start as i64 == position(walk.end as i64)
            });
            // Without a floor, the set of segments that should exist is unknown.
            if !goes_on && (next.is_none() || floor.is_some()) {
                places.push(place(walk.end));
            }
        }
        let damaged = places.into_iter().filter(|place| place.position < sure);
        Ok(damaged.map(|place| Error::corruption(&place.path, place.offset, DAMAGED)).collect())
    }
}
