//! Finds segments that recovery does not need but the history of changes keeps.

use std::path::{Path, PathBuf};

use crate::env::Env;
use crate::error::Result;
use crate::log::replay::{LogFloor, Segments};
use crate::log::segment::SegmentHeader;
use crate::options::Options;
use crate::space;

/// The segments of earlier openings to keep, oldest first. Each one ends where the next one begins, and the last one
/// where `fresh` begins.
pub(super) fn left(
    env: &Env,
    dir: &Path,
    options: &Options,
    segments: &Segments,
    fresh: LogFloor,
) -> Result<Vec<(SegmentHeader, PathBuf, u64)>> {
    let mut left: Vec<(SegmentHeader, PathBuf, u64)> = Vec::new();
    let low_mark = space::low_mark(options.memtable_limit(), 0);
    if options.log_history == 0 || env.fs.free_space(dir)? < low_mark + options.segment_len_max() {
        return Ok(left);
    }
    let (mut next, mut sum) = (fresh, 0);
    for (header, path) in segments.newest_first().skip_while(|(header, _)| header.id >= fresh.segment) {
        let len = env.fs.file_len(path)?;
        sum += len;
        // A torn segment does not end where the next one begins: the log continued from before the tear.
        if header.id + 1 != next.segment || header.start > next.start || sum > options.log_history {
            break;
        }
        next = LogFloor { segment: header.id, start: header.start };
        left.push((*header, path.clone(), len));
    }
    left.reverse();
    Ok(left)
}
