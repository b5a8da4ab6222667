//! Keys whose newest version is an operand: gathers the operands and what lies below them, and computes the
//! value.

use std::sync::Arc;

use crate::blob::BlobSet;
use crate::canary::broken;
use crate::checksum::hash_key;
use crate::cursor::{Content, Cursor, Expiry, Kind, SeqNo};
use crate::error::{Error, ErrorKind, Result};
use crate::operators::MergeOperators;
use crate::state::TreeState;
use crate::value::Value;

/// Shows the versions of `key` that are not newer than `seq`, newest first, until `show` returns `false`.
fn versions_down(
    state: &TreeState,
    key: &[u8],
    seq: SeqNo,
    mut show: impl FnMut(SeqNo, Kind, &[u8]) -> bool,
) -> Result<()> {
    let hash = hash_key(key);
    let mems = std::iter::once(&state.mem).chain(&state.immutable);
    for mem in mems.filter(|mem| mem.table.may_contain(hash)) {
        let mut cursor = mem.table.cursor();
        cursor.seek(key, seq)?;
        while cursor.valid() && cursor.key() == key {
            if !show(cursor.seq(), cursor.kind(), cursor.value()) {
                return Ok(());
            }
            cursor.next()?;
        }
    }
    for table in state.levels.covering(key) {
        // Merges leave few operands of a key in a table.
        let mut at = seq;
        while let Some(found) = table.get(key, hash, at)? {
            if !show(found.seq, found.kind, &found.value) {
                return Ok(());
            }
            let Some(before) = found.seq.checked_sub(1) else { break };
            at = before;
        }
    }
    Ok(())
}

/// A version that was found.
pub(crate) type Version = (SeqNo, Kind, Vec<u8>);

/// The operands of `key` at `seq`, newest first, and the version below them: `None` if there is none, or if a
/// range tombstone lies between.
pub(crate) fn gather(state: &TreeState, key: &[u8], seq: SeqNo) -> Result<(Vec<Vec<u8>>, Option<Version>)> {
    let (mut operands, mut base) = (Vec::new(), None);
    let deleted = state.ranges.newest_over(key, seq);
    versions_down(state, key, seq, |found, kind, stored| {
        if found < deleted && !broken("merge-range") {
            return false;
        }
        if kind == Kind::Merge {
            operands.push(stored.to_vec());
            return true;
        }
        base = Some((found, kind, stored.to_vec()));
        false
    })?;
    Ok((operands, base))
}

/// The bytes below operands, and when they expire; no bytes if the version there has expired at `time_us` or
/// is a tombstone. If there may be huge values, the caller has registered a moment that sees them, and passes
/// `blobs`.
pub(crate) fn bytes_below(
    blobs: Option<&Arc<BlobSet>>,
    key: &[u8],
    (kind, stored): (Kind, &[u8]),
    time_us: u64,
) -> Result<(Option<Vec<u8>>, Option<Expiry>)> {
    let entry = Content::open(kind, stored);
    let bytes = match entry.kind {
        _ if !entry.lives(|| time_us) => return Ok((None, None)),
        Kind::Blob => {
            let message = "the merge found a huge value where there was none";
            let blobs = blobs.ok_or_else(|| Error::new(ErrorKind::Corruption, message))?;
            Value::of_blob(blobs, key, entry.value, None)?.into_vec()?
        }
        _ => entry.value.to_vec(),
    };
    Ok((Some(bytes), entry.expiry))
}

/// The value of `key` at a moment at which its newest version is an operand. The caller has registered that
/// moment.
pub(crate) fn merged_at(
    state: &TreeState,
    key: &[u8],
    (seq, time_us): (SeqNo, u64),
    operators: &MergeOperators,
    blobs: &Arc<BlobSet>,
) -> Result<Value> {
    let (operands, base) = gather(state, key, seq)?;
    let (below, expiry) = match &base {
        Some((_, kind, stored)) => bytes_below(Some(blobs), key, (*kind, stored), time_us)?,
        None => (None, None),
    };
    Ok(Value::of_bytes(&operators.apply(key, below.as_deref(), &operands)?).made_of(expiry))
}
