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

/// A version that was found.
pub(crate) type Version = (SeqNo, Kind, Vec<u8>);

/// The operands of `key` at `seq`, newest first, and the version below them: `None` if there is none, or if a
/// range tombstone lies between.
pub(crate) fn gather(state: &TreeState, key: &[u8], seq: SeqNo) -> Result<(Vec<Vec<u8>>, Option<Version>)> {
    let (hash, deleted) = (hash_key(key), state.ranges.newest_over(key, seq));
    let (mut operands, mut base) = (Vec::new(), None);
    // Takes the next older version; whether older ones count.
    let mut take = |found: SeqNo, kind: Kind, stored: &[u8]| {
        let is_hidden = found < deleted && !broken("merge-range");
        match kind {
            _ if is_hidden => {}
            Kind::Merge => operands.push(stored.to_vec()),
            _ => base = Some((found, kind, stored.to_vec())),
        }
        !is_hidden && kind == Kind::Merge
    };
    let mems = std::iter::once(&state.mem).chain(&state.immutable);
    for mem in mems.filter(|mem| mem.table.may_contain(hash)) {
        let mut cursor = mem.table.cursor();
        cursor.seek(key, seq)?;
        while cursor.valid() && cursor.key() == key {
            if !take(cursor.seq(), cursor.kind(), cursor.value()) {
                return Ok((operands, base));
            }
            cursor.next()?;
        }
    }
    for table in state.levels.covering(key) {
        // Merges leave few operands of a key in a table.
        let mut at = seq;
        while let Some(found) = table.get(key, hash, at)? {
            if !take(found.seq, found.kind, &found.value) {
                return Ok((operands, base));
            }
            let Some(before) = found.seq.checked_sub(1) else { break };
            at = before;
        }
    }
    Ok((operands, base))
}

/// The huge values, where there may be some: a version that refers to one is damage elsewhere.
pub(super) fn blobs_of(blobs: Option<&Arc<BlobSet>>) -> Result<&Arc<BlobSet>> {
    let message = "a huge value was found where there was none";
    blobs.ok_or_else(|| Error::new(ErrorKind::Corruption, message))
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
        Kind::Blob => Value::of_blob(blobs_of(blobs)?, key, &entry)?.into_vec()?,
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
