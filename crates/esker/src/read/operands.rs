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

/// The operands of a key, newest first, and the version below them: `None` if there is none, or if a range tombstone
/// lies between.
pub(crate) type Chain = (Vec<Vec<u8>>, Option<Version>);

/// The operands of `key` at `seq`, and what lies below them.
pub(crate) fn gather(state: &TreeState, key: &[u8], seq: SeqNo) -> Result<Chain> {
    let chain = gather_within(state, key, seq, (usize::MAX, usize::MAX))?;
    // A chain without a limit ends.
    Ok(chain.unwrap_or_default())
}

/// [`gather`]; `None` as soon as there are more operands than `count_max`, or they have more than `bytes_max` bytes.
pub(crate) fn gather_within(
    state: &TreeState,
    key: &[u8],
    seq: SeqNo,
    (count_max, bytes_max): (usize, usize),
) -> Result<Option<Chain>> {
    let (hash, deleted) = (hash_key(key), state.ranges.newest_over(key, seq));
    let (mut operands, mut base) = (Vec::new(), None);
    let (mut bytes, mut is_longer) = (0_usize, false);
    // Takes the next older version; whether older ones count.
    let mut take = |found: SeqNo, kind: Kind, stored: &[u8]| {
        let is_hidden = found < deleted && !broken("merge-range");
        match kind {
            _ if is_hidden => {}
            Kind::Merge => {
                bytes = bytes.saturating_add(stored.len());
                is_longer = operands.len() >= count_max || bytes > bytes_max;
                if !is_longer {
                    operands.push(stored.to_vec());
                }
            }
            _ => base = Some((found, kind, stored.to_vec())),
        }
        match (is_longer, !is_hidden && kind == Kind::Merge) {
            (true, _) => Take::Limit,
            (false, true) => Take::Older,
            (false, false) => Take::End,
        }
    };
    let mems = std::iter::once(&state.mem).chain(&state.immutable);
    for mem in mems.filter(|mem| mem.table.may_contain(hash)) {
        let mut cursor = mem.table.cursor();
        cursor.seek(key, seq)?;
        while cursor.valid() && cursor.key() == key {
            match take(cursor.seq(), cursor.kind(), cursor.value()) {
                Take::Older => cursor.next()?,
                Take::End => return Ok(Some((operands, base))),
                Take::Limit => return Ok(None),
            }
        }
    }
    for table in state.levels.covering(key) {
        // Merges leave few operands of a key in a table.
        let mut at = seq;
        while let Some(found) = table.get(key, hash, at)? {
            match take(found.seq, found.kind, &found.value) {
                Take::Older => {}
                Take::End => return Ok(Some((operands, base))),
                Take::Limit => return Ok(None),
            }
            let Some(before) = found.seq.checked_sub(1) else { break };
            at = before;
        }
    }
    Ok(Some((operands, base)))
}

/// What follows an entry of a chain of operands.
enum Take {
    /// The next older version counts.
    Older,
    /// The chain is complete.
    End,
    /// The chain is longer than asked for.
    Limit,
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
