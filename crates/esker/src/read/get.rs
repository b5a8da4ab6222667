//! Reads one key: from the memtable, the memtables waiting to be flushed, level 0 newest first, then one
//! table per level. The first version found that is not newer than the reader's sequence number is the
//! answer. No lock is taken on the way, except a shared one where the tree has range tombstones. Of a huge value this
//! finds only the pointer; of a merged value only the newest operand.

use super::merging_cursor::{Direction, MergeCursor, sources_of};
use super::operands::{Version, gather};
use crate::checksum::hash_key;
use crate::cursor::{Content, Kind, MAX_SEQ, SeqNo};
use crate::error::Result;
use crate::ranges::{Cover, KeyRange};
use crate::state::TreeState;
use crate::table::{BlockSlice, ScanHint};
use crate::trace::{Step, perf_context};

/// Calls `use_value` with the value that `key` had at `seq`, if it had one that has not expired at the time
/// that `now` returns.
#[inline]
pub(crate) fn get_at<T>(
    state: &TreeState,
    key: &[u8],
    seq: SeqNo,
    now: impl FnOnce() -> u64,
    use_value: impl FnOnce(Content<'_>) -> T,
) -> Result<Option<T>> {
    find_at(state, key, seq, now, |entry, _| use_value(entry))
}

/// [`get_at`], where `use_value` also gets the slice of a block that ends with the bytes of the value. It gets `None`
/// if the value is in a memtable.
#[inline]
pub(crate) fn find_at<T>(
    state: &TreeState,
    key: &[u8],
    seq: SeqNo,
    now: impl FnOnce() -> u64,
    use_value: impl FnOnce(Content<'_>, Option<&BlockSlice>) -> T,
) -> Result<Option<T>> {
    let hash = hash_key(key);
    let mems = std::iter::once(&state.mem).chain(&state.immutable);
    for mem in mems {
        let found = mem.table.get(key, hash, seq);
        perf_context::step(|| Step::Memtable { found: found.is_some() });
        if let Some((found, kind, value)) = found {
            let entry = Content::open(kind, value);
            let lives = entry.lives(now) && state.ranges.newest_over(key, seq) <= found;
            return Ok(lives.then(|| use_value(entry, None)));
        }
    }
    let Some(found) = state.levels.get(key, hash, seq)? else { return Ok(None) };
    let entry = Content::open(found.kind, &found.value);
    let lives = entry.lives(now) && state.ranges.newest_over(key, seq) <= found.seq;
    Ok(lives.then(|| use_value(entry, Some(&found.value))))
}

/// The newest version of `key` that is not newer than `seq`. It may be a tombstone, or that of a range, or have
/// expired.
pub(crate) fn version_at(state: &TreeState, key: &[u8], seq: SeqNo) -> Result<Option<Version>> {
    let deleted = state.ranges.newest_over(key, seq);
    let version = |(found, kind, value): (SeqNo, Kind, &[u8])| match deleted > found {
        true => (deleted, Kind::Delete, Vec::new()),
        false => (found, kind, value.to_vec()),
    };
    let hash = hash_key(key);
    for mem in std::iter::once(&state.mem).chain(&state.immutable) {
        if let Some(found) = mem.table.get(key, hash, seq) {
            return Ok(Some(version(found)));
        }
    }
    let found = state.levels.get(key, hash, seq)?;
    Ok(found.map(|found| version((found.seq, found.kind, &found.value))))
}

/// Like [`version_at`], but returns the version below any operands.
pub(crate) fn base_at(state: &TreeState, key: &[u8], seq: SeqNo) -> Result<Option<Version>> {
    match version_at(state, key, seq)? {
        Some((found, Kind::Merge, _)) => Ok(gather(state, key, found)?.1),
        found => Ok(found),
    }
}

/// Shows, for each key in `range`, its newest version that is not newer than `seq` and is not an operand. Tombstones
/// and expired versions are shown too; a version that a later range tombstone covers is not.
pub(crate) fn bases_in(
    state: &TreeState,
    range: &KeyRange,
    seq: SeqNo,
    mut show: impl FnMut(SeqNo, Kind, &[u8]),
) -> Result<()> {
    let mut cover = Cover::new([&state.ranges].into_iter(), range, seq);
    let mut merge = MergeCursor::new(sources_of(state, ScanHint::Compaction)?, Direction::Forward);
    merge.seek(&range.lower, MAX_SEQ)?;
    let mut last: Option<Vec<u8>> = None;
    while merge.valid() && range.contains(merge.key()) {
        let is_base = merge.kind() != Kind::Merge;
        if is_base && merge.seq() <= seq && last.as_deref() != Some(merge.key()) {
            let key = last.get_or_insert_default();
            key.clear();
            key.extend_from_slice(merge.key());
            if cover.over(key) <= merge.seq() {
                show(merge.seq(), merge.kind(), merge.value());
            }
        }
        merge.advance()?;
    }
    Ok(())
}
