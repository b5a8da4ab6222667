//! Keys whose newest version is an operand: gathers the operands and what lies below them, and computes the
//! value.

use std::sync::Arc;

use crate::blob::BlobSet;
use crate::canary::broken;
use crate::checksum::hash_key;
use crate::cursor::{Beside, Content, Cursor, Expiry, Kind, MAX_SEQ, SeqNo};
use crate::error::{Error, ErrorKind, Result};
use crate::operators::{MergeOperators, Outliving, is_timed, time_of};
use crate::state::{Mem, TreeState};
use crate::value::Value;
use crate::version::levels::Table;

/// A version that was found.
pub(crate) type Version = (SeqNo, Kind, Vec<u8>);

/// The operands of a key, newest first, and the version below them: `None` if it does not exist, or if a range
/// tombstone lies between.
pub(crate) type Chain = (Vec<Vec<u8>>, Option<Version>);

/// The operands of `key` at `seq`, and the version below them.
pub(crate) fn gather(state: &TreeState, key: &[u8], seq: SeqNo) -> Result<Chain> {
    let chain = gather_within(state, key, seq, (usize::MAX, usize::MAX))?;
    // Without a limit, a chain is always complete.
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
    // Takes the next older version. Returns whether older ones count.
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

/// The next step after an entry of a chain of operands.
enum Take {
    /// The next older version counts.
    Older,
    /// The chain is complete.
    End,
    /// The chain is longer than the limit.
    Limit,
}

/// The huge values, where there may be some: a version that refers to one is damage elsewhere.
pub(super) fn blobs_of(blobs: Option<&Arc<BlobSet>>) -> Result<&Arc<BlobSet>> {
    let message = "a huge value was found where there was none";
    blobs.ok_or_else(|| Error::new(ErrorKind::Corruption, message))
}

/// When the version below the operand `seq` of `key`, and below older operands, expires or has expired. A version that a
/// range tombstone hides counts too: a crash may take back the tombstone.
pub(crate) fn expiry_below(state: &TreeState, key: &[u8], seq: SeqNo) -> Result<Option<Expiry>> {
    let expiry_of = |kind: Kind, stored: &[u8]| {
        let entry = Content::open(kind, stored);
        entry.expiry.or_else(|| entry.ended_us())
    };
    let (hash, Some(mut at)) = (hash_key(key), seq.checked_sub(1)) else { return Ok(None) };
    let mems = std::iter::once(&state.mem).chain(&state.immutable);
    for mem in mems.filter(|mem| mem.table.may_contain(hash)) {
        let mut cursor = mem.table.cursor();
        cursor.seek(key, at)?;
        while cursor.valid() && cursor.key() == key {
            if cursor.kind() != Kind::Merge {
                return Ok(expiry_of(cursor.kind(), cursor.value()));
            }
            cursor.next()?;
        }
    }
    for table in state.levels.covering(key) {
        while let Some(found) = table.get(key, hash, at)? {
            if found.kind != Kind::Merge {
                return Ok(expiry_of(found.kind, &found.value));
            }
            let Some(before) = found.seq.checked_sub(1) else { return Ok(None) };
            at = before;
        }
    }
    Ok(None)
}

/// How many versions [`has_operands`] reads.
const READ_MAX: usize = 256;

/// Whether the memtables and tables that `counts` chooses have operands of `key`, newer than `seq`, that were written
/// before `expiry`. After many other versions it returns `true` without a further search.
pub(crate) fn has_operands(
    state: &TreeState,
    counts: &(impl Fn(&Arc<Mem>) -> bool, impl Fn(&Arc<Table>) -> bool),
    key: &[u8],
    seq: SeqNo,
    expiry: Expiry,
) -> Result<bool> {
    let (hash, mut read) = (hash_key(key), 0);
    // Whether a version settles it.
    let mut is_one = |kind: Kind, stored: &[u8]| {
        read += 1;
        read > READ_MAX || (kind == Kind::Merge && time_of(stored).is_some_and(|time_us| time_us < expiry))
    };
    let mems = std::iter::once(&state.mem).chain(&state.immutable);
    for mem in mems.filter(|mem| mem.table.may_contain(hash) && counts.0(mem)) {
        let mut cursor = mem.table.cursor();
        cursor.seek(key, MAX_SEQ)?;
        while cursor.valid() && cursor.key() == key && cursor.seq() > seq {
            if is_one(cursor.kind(), cursor.value()) {
                return Ok(true);
            }
            cursor.next()?;
        }
    }
    for table in state.levels.covering(key).filter(|table| counts.1(table)) {
        let mut at = MAX_SEQ;
        while let Some(found) = table.get(key, hash, at)?.filter(|found| found.seq > seq) {
            if is_one(found.kind, &found.value) {
                return Ok(true);
            }
            at = found.seq - 1;
        }
    }
    Ok(false)
}

/// The parts that make the value of a key whose newest version is an operand.
#[derive(Debug)]
pub(crate) struct Counted<'a> {
    /// The operands that count, newest first.
    pub(crate) operands: Vec<&'a [u8]>,
    /// The value that they are applied to, which lives.
    pub(crate) base: Option<Content<'a>>,
}

impl<'a> Counted<'a> {
    /// The part of `operands`, newest first, and of the version `base` below them that counts at `time_us`
    /// ([`crate::operators`] has the rule). `None` if the value has expired.
    pub(crate) fn of<T: AsRef<[u8]>>(
        operands: &'a [T],
        base: Option<(Kind, &'a [u8])>,
        time_us: u64,
    ) -> Option<Counted<'a>> {
        let operands = operands.iter().map(AsRef::as_ref);
        let entry = base.map(|(kind, stored)| Content::open(kind, stored));
        let base = entry.filter(|entry| entry.kind != Kind::Delete);
        // Readers see an entry that a merge has removed for its age as expired.
        let ended = entry.and_then(|entry| entry.ended_us());
        let Some(expiry) = base.and_then(|base| base.expiry).or(ended) else {
            return Some(Counted { operands: operands.collect(), base });
        };
        let outliving = Outliving::of(operands.clone(), |one| one, expiry);
        if outliving.has_begun || ended.is_some() || time_us >= expiry {
            let operands = outliving.operands;
            return (!operands.is_empty()).then_some(Counted { operands, base: None });
        }
        Some(Counted { operands: operands.collect(), base })
    }

    /// When the result of the operands expires.
    pub(crate) fn expiry(&self) -> Option<Expiry> {
        self.lapses_us().filter(|_| self.is_timed())
    }

    /// When the passing of time changes the result of the operands.
    pub(crate) fn lapses_us(&self) -> Option<Expiry> {
        self.base.and_then(|base| base.expiry)
    }

    /// Whether each operand has a time.
    fn is_timed(&self) -> bool {
        self.operands.iter().all(|one| is_timed(one))
    }

    /// The value that the operands are applied to. If it may be a huge one, the caller has registered a moment that sees
    /// it, and passes `blobs`.
    pub(crate) fn bytes_below(&self, blobs: Option<&Arc<BlobSet>>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some(entry) = &self.base else { return Ok(None) };
        Ok(Some(match entry.kind {
            Kind::Blob => Value::of_blob(blobs_of(blobs)?, key, entry)?.into_vec()?,
            _ => entry.value.to_vec(),
        }))
    }
}

/// Whether `key`, whose newest version at a moment is the operand `newest`, has a value at that moment.
#[inline]
pub(crate) fn lives_at(
    state: &TreeState,
    key: &[u8],
    newest: &[u8],
    (seq, time_us): (SeqNo, u64),
) -> Result<bool> {
    if !is_timed(newest) {
        return Ok(true);
    }
    let (operands, base) = gather(state, key, seq)?;
    let base = base.as_ref().map(|(_, kind, stored)| (*kind, stored.as_slice()));
    Ok(Counted::of(&operands, base, time_us).is_some())
}

/// The value of `key` at a moment at which its newest version is an operand; `None` if it has expired. The caller has
/// registered that moment.
pub(crate) fn merged_at(
    state: &TreeState,
    key: &[u8],
    (seq, time_us): (SeqNo, u64),
    operators: &MergeOperators,
    blobs: &Arc<BlobSet>,
) -> Result<Option<Value>> {
    let (operands, base) = gather(state, key, seq)?;
    let base = base.as_ref().map(|(_, kind, stored)| (*kind, stored.as_slice()));
    let Some(counted) = Counted::of(&operands, base, time_us) else { return Ok(None) };
    let below = counted.bytes_below(Some(blobs), key)?;
    let value = Value::of_bytes(&operators.apply(key, below.as_deref(), &counted.operands)?);
    Ok(Some(match counted.expiry() {
        Some(expiry) => value.beside(Beside::Until(expiry)),
        None => value.made_of(counted.lapses_us()),
    }))
}
