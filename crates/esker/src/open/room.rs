//! Room for an opening on a disk that has little.
//!
//! An opening turns the log into tables before the log's files go. Where the disk has no room for that, the
//! reserve is given up; where that does not suffice, the oldest segments alone are replayed into tables and
//! removed, as a complete opening would do with all of them, and so on with the next ones. A crash leaves a
//! store with a shorter log.

use std::path::Path;
use std::sync::Arc;

use super::{Found, Listing, Opening, Purpose};
use crate::env::StepExecutor;
use crate::error::Result;
use crate::options::Options;
use crate::space;

/// Tables may take so many times the bytes of the log that they are made from: a batch of keys of a few
/// bytes each has the least in the log.
const TABLES_PER_LOG: u64 = 3;
/// A first segment, a manifest, and what a file system takes for itself.
const SLACK: u64 = 2 << 20;

/// Makes room for the opening of the store that was `found` in `dir`; whether it is another one since.
pub(super) fn make(dir: &Path, options: &Options, found: &Found) -> Result<bool> {
    let fs = &options.env.fs;
    let needed = |found: &Found| -> Result<u64> {
        let log = found.segments.live_bytes(&**fs, found.state.floor)?;
        Ok(log.saturating_mul(TABLES_PER_LOG).saturating_add(SLACK))
    };
    if found.listing.manifest() == 0 || fs.free_space(dir)? >= needed(found)? {
        return Ok(false);
    }
    space::give_up(&options.env, dir)?;
    let mut changed = false;
    loop {
        let now = Found::read(&options.env, dir)?;
        let free = fs.free_space(dir)?;
        if free >= needed(&now)? || !shorten(dir, options, &now, free / (TABLES_PER_LOG + 1))? {
            return Ok(changed);
        }
        changed = true;
    }
}

/// Replays the oldest segments, of `bytes` or one, into tables; `false` where there is just one, or where
/// the log does not go on behind them and a whole replay has to judge why.
fn shorten(dir: &Path, options: &Options, found: &Found, bytes: u64) -> Result<bool> {
    let Some((segments, next)) = found.segments.part(&*options.env.fs, found.state.floor, bytes)? else {
        return Ok(false);
    };
    let mut options = options.clone();
    options.env.executor = Some(Arc::new(StepExecutor));
    let listing = Listing {
        segments: found
            .listing
            .segments
            .iter()
            .filter(|(_, path)| segments.paths.contains(path))
            .cloned()
            .collect(),
        ..found.listing.clone()
    };
    let part = Found { listing, segments, state: found.state.clone() };
    let opening = Opening::new(dir, &options, &part, Purpose::Shorten)?;
    // How far the log must go is for the replay of its rest to say.
    let known = crate::version::edit::ManifestState { log_synced: 0, ..part.state.clone() };
    let replayed = opening.replay(&part.segments, &known)?;
    if replayed.report.position != next.start || replayed.report.last_id + 1 != next.segment {
        return Ok(false);
    }
    let store = opening.finish(options, &part, replayed, Purpose::Shorten, None)?;
    store.close().map(|()| true)
}
