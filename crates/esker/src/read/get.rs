//! One key: memtable, waiting memtables, level 0 newest first, then one table a level. The first version
//! found at or before the reader's sequence number is the answer; no lock is taken on the way. Of a huge value
//! only the pointer is found here.

use crate::checksum::hash_key;
use crate::cursor::{Content, Kind, SeqNo};
use crate::error::Result;
use crate::state::TreeState;

/// Calls `use_value` with what `key` had at `seq`, if it had something that lives at the time that `now` tells.
#[inline]
pub(crate) fn get_at<T>(
    state: &TreeState,
    key: &[u8],
    seq: SeqNo,
    now: impl FnOnce() -> u64,
    use_value: impl FnOnce(Content<'_>) -> T,
) -> Result<Option<T>> {
    let hash = hash_key(key);
    let mems = std::iter::once(&state.mem).chain(&state.waiting);
    for mem in mems.filter(|mem| mem.table.may_contain(hash)) {
        if let Some((_, kind, value)) = mem.table.get(key, seq) {
            let entry = Content::open(kind, value);
            return Ok(entry.lives(now).then(|| use_value(entry)));
        }
    }
    let Some(found) = state.levels.get(key, hash, seq)? else { return Ok(None) };
    let entry = Content::open(found.kind, &found.value);
    Ok(entry.lives(now).then(|| use_value(entry)))
}

/// The newest version of `key` at or before `seq`, a tombstone or what has expired too.
pub(crate) fn version_at(
    state: &TreeState,
    key: &[u8],
    seq: SeqNo,
) -> Result<Option<(SeqNo, Kind, Vec<u8>)>> {
    for mem in std::iter::once(&state.mem).chain(&state.waiting) {
        if let Some((seq, kind, value)) = mem.table.get(key, seq) {
            return Ok(Some((seq, kind, value.to_vec())));
        }
    }
    Ok(state.levels.get(key, hash_key(key), seq)?.map(|found| (found.seq, found.kind, found.value.to_vec())))
}
