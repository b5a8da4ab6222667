//! Makes room for an opening on a disk that is almost full.
//!
//! An opening turns the log into tables before it removes the log's files. If the disk has no room for that, the
//! opening gives up the reserve. If that is not enough, it replays only the oldest segments into tables and removes
//! them, as a complete opening does with all of them; then the next ones, until all are done. A crash leaves a store
//! with a shorter log.

use std::path::Path;
use std::sync::Arc;

use super::{OnDisk, Opening, Purpose};
use crate::env::StepExecutor;
use crate::error::Result;
use crate::options::Options;
use crate::space;
use crate::version::edit::ManifestState;

/// Tables may take this many times the bytes of their log. The worst case is a batch of keys of a few bytes each.
const TABLES_PER_LOG: u64 = 3;
/// Space for a first segment, a manifest, and the file system's own data.
const SLACK: u64 = 2 << 20;

/// Makes room for opening the store that was `found` in `dir`. Returns whether the store has changed since.
pub(super) fn make(dir: &Path, options: &Options, found: &OnDisk) -> Result<bool> {
    let fs = &options.env.fs;
    let needed = |found: &OnDisk| -> Result<u64> {
        let log = found.segments.live_bytes(&**fs, found.state.floor)?;
        Ok(log.saturating_mul(TABLES_PER_LOG).saturating_add(SLACK))
    };
    if found.listing.manifest() == 0 || fs.free_space(dir)? >= needed(found)? {
        return Ok(false);
    }
    space::give_up(&options.env, dir)?;
    let mut changed = false;
    loop {
        let now = OnDisk::read(&options.env, dir)?;
        let free = fs.free_space(dir)?;
        if free >= needed(&now)? || !shorten(dir, options, &now, free / (TABLES_PER_LOG + 1))? {
            return Ok(changed);
        }
        changed = true;
    }
}

/// Replays the oldest segments, of up to `bytes` bytes or one, into tables. `false` if there is only one, or if the log
/// does not continue after them: then a replay of the whole log has to find the cause.
fn shorten(dir: &Path, options: &Options, found: &OnDisk, bytes: u64) -> Result<bool> {
    let Some((segments, next)) = found.segments.part(&*options.env.fs, found.state.floor, bytes)? else {
        return Ok(false);
    };
    let mut options = options.clone();
    options.env.executor = Some(Arc::new(StepExecutor));
    let mut listing = found.listing.clone();
    listing.segments.retain(|(_, path)| segments.paths.contains(path));
    let part = OnDisk { listing, segments, state: found.state.clone() };
    let opening = Opening::new(dir, &options, &part, Purpose::Shorten)?;
    // The replay of the rest checks how far the log must go.
    let known = ManifestState { log_synced: 0, ..part.state.clone() };
    let replayed = opening.replay(&part.segments, &known)?;
    if replayed.report.position != next.start || replayed.report.last_id + 1 != next.segment {
        return Ok(false);
    }
    let store = opening.finish(part, replayed, Purpose::Shorten, None)?;
    store.close().map(|()| true)
}
