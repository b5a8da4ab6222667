//! Writes that take effect together, encoded as the log holds them.
//!
//! ```text
//! payload    count 4 | op | op | ...
//! op         kind 1 | tree, LEB128 | key length, LEB128 | key | (not of a delete) length, LEB128 | what is stored
//! stored     (where it expires) when, 8 | value or pointer
//!            with attributes: when, 8, or 0 | length of the attributes, 2 | attributes | value or pointer
//!            of a merge: length of the operator's name, 1 | name | operand
//!            of a deletion of a range, whose key is its beginning: whether it ends, 1 | where
//!            of a time, whose key is empty: microseconds since 1970, 8
//! ```
//!
//! The n-th op gets the n-th sequence number of the record. A payload without ops records which number comes next,
//! because numbers were taken without a record: by writes that skip the log, and by ingests, splits and imports.
//!
//! ```text
//! gap        0, 4 | next number, 8
//! ```

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use crate::blob::{NewBlob, Pointer};
use crate::canary::broken;
use crate::checksum::hash_key;
use crate::codec::{Decoder, put_slice, put_varint, u32_at, u64_at};
use crate::cursor::{Beside, Content, Kind, MAX_SEQ, SeqNo};
use crate::error::{Error, ErrorKind, Result};
use crate::memtable::Memtable;
use crate::operators;
use crate::ranges::{KeyRange, RangeTombstone};
use crate::state::TreeInner;
use crate::version::edit::{CLOCK_MAX, TreeId};

/// The longest key, in bytes.
pub const KEY_LEN_MAX: usize = 128 << 10;

/// A record's payload stays below this length, so that the length fits the record's header.
const PAYLOAD_LEN_MAX: usize = (u32::MAX - (1 << 20)) as usize;

/// How many bytes a write adds to an operand at most: its time, and a longer length before it.
const OPERAND_TIME_LEN: usize = 9;

#[cfg(test)]
thread_local! {
    /// Stands in for [`PAYLOAD_LEN_MAX`], which takes 4 GiB to reach.
    static TEST_LEN_MAX: std::cell::Cell<usize> = const { std::cell::Cell::new(PAYLOAD_LEN_MAX) };
}

fn payload_len_max() -> usize {
    #[cfg(test)]
    return TEST_LEN_MAX.get();
    #[cfg(not(test))]
    PAYLOAD_LEN_MAX
}

/// The largest buffer that a thread keeps for single writes.
const SCRATCH_LEN_MAX: usize = 64 << 10;

/// How many bytes of memtable a range deletion counts as, in addition to its bounds. It takes less. But n nested range
/// deletions take n * n / 2 numbers until they are flushed and all but the last are forgotten. Therefore there should
/// be some thousands at most.
pub(crate) const RANGE_MEMORY: usize = 16 << 10;

/// How many bytes of memtable a time counts as: writes that carry nothing else have to be flushed at some time too.
const TIME_MEMORY: usize = 64;

/// The length of the op count, in bytes.
const COUNT_LEN: usize = 4;

/// Writes that take effect together or not at all, in one or more trees.
///
/// A later write to the same key wins. A batch is data: it touches no file, and it may be cloned, dropped, and written
/// more than once. It holds values that are stored outside the tree ([`Options::separate_at`](crate::Options)) as
/// buffers, which its clones share. [`Db::write`](crate::Db::write) puts them into their files.
///
/// # Example
/// ```
/// # fn main() -> esker::Result<()> {
/// let db = esker::Db::open_in_memory(esker::Options::default())?;
/// let (users, mails) = (db.tree("users")?, db.tree("mails")?);
/// let mut batch = esker::Batch::new();
/// batch.put(&users, "7", "Ada")?;
/// batch.put(&mails, "ada@example.org", "7")?;
/// db.write(&batch)?;
/// assert_eq!(mails.get_vec("ada@example.org")?.as_deref(), Some(&b"7"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default, Clone)]
pub struct Batch {
    /// The value of an op in `huge` is left out.
    payload: Vec<u8>,
    ops: Vec<OpPlan>,
    parts: Vec<TreePart>,
    /// The huge values, in the order of their ops.
    huge: Vec<HugePut>,
    /// How many bytes a write adds to the payload at most, except for values that were staged: times of operands,
    /// pointers to huge values. They count from the beginning, so that a batch that accepts an op can also be written.
    reserved: usize,
    /// Whether an op deletes a range.
    has_ranges: bool,
    /// Whether it has operands, or values that expire.
    may_need_times: bool,
    mark: Mark,
}

/// How a batch was marked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Mark {
    #[default]
    Nothing,
    /// See [`Batch::mark_as_freeing`].
    Freeing,
    /// See [`Batch::mark_as_deleting`].
    Deleting,
}

/// The space that an op needs in its tree's memtable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpPlan {
    part: u32,
    pub(crate) height: u8,
    /// The [`hash_key`] of its key.
    pub(crate) hash: u64,
}

impl OpPlan {
    /// The index of its tree's part.
    #[inline]
    pub(crate) fn part(self) -> usize {
        self.part as usize
    }
}

/// A put of a huge value.
#[derive(Debug, Clone)]
struct HugePut {
    /// The index of its op.
    op: usize,
    value: HugeValue,
}

/// A value that goes to a blob file when its batch is written, or is in one already.
#[derive(Clone)]
pub(crate) enum HugeValue {
    Bytes(Arc<dyn AsRef<[u8]> + Send + Sync>),
    /// Each write of it adds a reference.
    Stored(Arc<NewBlob>),
    /// The write takes it from its staging area.
    Staged(Arc<StagedPut>),
    /// It has to be staged before the batch can be written.
    Awaited(Arc<AwaitedValue>),
}

impl fmt::Debug for HugeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HugeValue::Bytes(bytes) => write!(f, "{} bytes", (**bytes).as_ref().len()),
            HugeValue::Stored(blob) => fmt::Debug::fmt(&blob.pointer, f),
            HugeValue::Staged(staged) => fmt::Debug::fmt(staged, f),
            HugeValue::Awaited(awaited) => fmt::Debug::fmt(awaited, f),
        }
    }
}

/// The longest id of a staged value, in bytes.
pub(crate) const STAGED_ID_MAX: usize = 1024;

/// A staged value that is put.
#[derive(Debug)]
pub(crate) struct StagedPut {
    /// The tree of its staging area.
    pub(crate) tree: Arc<TreeInner>,
    pub(crate) id: Vec<u8>,
    /// The keys of its entries there.
    pub(crate) entries: [Vec<u8>; 2],
    pub(crate) len: u64,
    pub(crate) checksum: u64,
    /// [`HugeValue::Stored`], or [`HugeValue::Bytes`] of any length.
    pub(crate) value: HugeValue,
}

/// A huge value of a decoded batch that has to be attached before the batch can be written
/// ([`Batch::attach`](crate::Batch::attach)).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct AwaitedValue {
    /// The id under which it was staged where the batch was encoded.
    pub id: Vec<u8>,
    /// Its length in bytes.
    pub len: u64,
    /// XXH3-64 of its bytes, without a seed.
    pub checksum: u64,
}

/// What replaces a huge value when its batch goes to the log.
#[derive(Debug)]
pub(crate) enum Separated<'a> {
    Blob(&'a Pointer),
    /// The value itself: it was staged, and is small here.
    Small(&'a [u8]),
}

/// The needs of a batch in one tree.
#[derive(Debug, Clone)]
pub(crate) struct TreePart {
    pub(crate) tree: Arc<TreeInner>,
    /// How many bytes of memtable space it needs.
    pub(crate) memory: usize,
    /// Whether it writes entries to the memtable.
    pub(crate) has_entries: bool,
    /// The greatest time that the batch carries for it; 0 if it carries none.
    time_us: u64,
    /// Whether it has operands.
    pub(crate) merges: bool,
    /// Whether it has values that expire.
    pub(crate) expires: bool,
}

impl TreePart {
    /// The time of operands that are written when the store's clock shows `now_us`.
    pub(crate) fn operand_time_us(&self, now_us: impl FnOnce() -> u64) -> u64 {
        let now_us = self.tree.own_time.as_ref().map_or_else(now_us, |own| own.carried());
        now_us.max(self.time_us)
    }

    /// The tree has the time that the batch carries for it.
    pub(crate) fn carry(&self) {
        if let Some(own) = self.tree.own_time.as_ref().filter(|_| self.time_us > 0) {
            own.carry(self.time_us);
        }
    }
}

/// One op of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Op<'a> {
    pub(crate) tree: TreeId,
    pub(crate) kind: Kind,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl Op<'_> {
    /// Whether it is a deletion, or belongs to one.
    fn deletes(&self) -> bool {
        matches!(self.kind, Kind::Delete | Kind::DeleteRange | Kind::Time)
    }

    /// Whether it is a put of a value that expires.
    #[inline]
    pub(crate) fn expires(&self) -> bool {
        expires(self.kind, self.value)
    }

    /// The time that the op has its write carry, in microseconds since 1970.
    pub(crate) fn time_us(&self) -> Option<u64> {
        let stored = (self.kind == Kind::Time).then_some(self.value)?;
        stored.try_into().ok().map(u64::from_le_bytes).filter(|&time_us| time_us <= CLOCK_MAX)
    }
}

/// Whether an entry of `kind` that holds `stored` is a value that expires.
#[inline]
fn expires(kind: Kind, stored: &[u8]) -> bool {
    match kind {
        Kind::PutUntil | Kind::BlobUntil => true,
        Kind::PutWith | Kind::BlobWith => Content::open(kind, stored).expiry.is_some(),
        _ => false,
    }
}

/// Fails if `key` is empty or too long.
pub(crate) fn check_key(key: &[u8]) -> Result<()> {
    if key.is_empty() {
        return Err(Error::new(ErrorKind::InvalidInput, "the key is empty"));
    }
    if key.len() > KEY_LEN_MAX {
        let message = format!("the key has {} bytes; the limit is {KEY_LEN_MAX}", key.len());
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    Ok(())
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Batch::default()
    }

    /// The number of writes in the batch. A time that it carries for a tree is one.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether the batch holds no writes.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// The size of the batch in the log, in bytes, without the pointers (some 25 bytes each) to values that are stored
    /// outside the tree.
    pub fn size_bytes(&self) -> usize {
        self.payload.len()
    }

    /// How many bytes of memory the batch holds for keys and values, with the buffers that its clones share.
    pub fn memory_bytes(&self) -> usize {
        let buffered = self.huge.iter().map(|put| match &put.value {
            HugeValue::Bytes(bytes) => (**bytes).as_ref().len(),
            HugeValue::Staged(staged) => match &staged.value {
                HugeValue::Bytes(bytes) => (**bytes).as_ref().len(),
                _ => 0,
            },
            _ => 0,
        });
        self.payload.len() + buffered.sum::<usize>()
    }

    /// Marks the batch as one that gives space back although it also puts: it lets a key expire, for example, or notes
    /// the new length of a list from which it removes elements. On a full disk the store accepts such a batch like
    /// deletes, as long as the part of the reserve that is set aside for deletes lasts and the batch's puts are not
    /// longer than half a log segment. [`Batch::clear`] removes the mark.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let mut batch = esker::Batch::new();
    /// batch.put_for(db.default_tree(), "report", "draft", std::time::Duration::from_secs(1))?;
    /// batch.mark_as_freeing();
    /// db.write(&batch)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn mark_as_freeing(&mut self) {
        self.mark = Mark::Freeing;
    }

    /// Marks the batch as one that deletes by its puts: markers, by which the tree's [compaction
    /// rule](crate::rules::CompactionRule) drops other entries. On a full disk the store accepts such a batch like
    /// deletes, regardless of its puts. Therefore mark nothing else: a marker that masks fewer bytes than it takes uses
    /// up the reserve. The last call of this method or [`Batch::mark_as_freeing`] counts, and [`Batch::clear`] removes
    /// the mark.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let mut batch = esker::Batch::new();
    /// batch.put(db.default_tree(), "row 7: deleted", "")?;
    /// batch.mark_as_deleting();
    /// db.write(&batch)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn mark_as_deleting(&mut self) {
        self.mark = Mark::Deleting;
    }

    /// Whether it has operands, or values that expire: the operands may need times before it is written.
    #[inline]
    pub(crate) fn may_need_times(&self) -> bool {
        self.may_need_times
    }

    /// Whether it was marked as one that gives space back.
    pub(crate) fn is_freeing(&self) -> bool {
        self.mark != Mark::Nothing
    }

    /// Empties the batch and keeps its memory for the next use.
    pub fn clear(&mut self) {
        self.payload.clear();
        self.ops.clear();
        self.huge.clear();
        self.reserved = 0;
        (self.has_ranges, self.may_need_times, self.mark) = (false, false, Mark::Nothing);
        // The handle of one tree is kept. A batch that is reused for one tree therefore clones no handle.
        if self.parts.len() > 1 {
            self.parts.clear();
        }
        if let Some(part) = self.parts.first_mut() {
            (part.memory, part.has_entries, part.time_us) = (0, false, 0);
            (part.merges, part.expires) = (false, false);
        }
    }

    /// Runs `f` on the empty batch that this thread keeps for single writes.
    pub(crate) fn with_scratch<T>(f: impl FnOnce(&mut Batch) -> T) -> T {
        thread_local! {
            static SCRATCH: std::cell::Cell<Option<Box<Batch>>> = const { std::cell::Cell::new(None) };
        }
        let mut batch = SCRATCH.take().unwrap_or_default();
        batch.clear();
        let result = f(&mut batch);
        // The memory of a large value is not kept.
        if batch.payload.capacity() <= SCRATCH_LEN_MAX {
            SCRATCH.set(Some(batch));
        }
        result
    }

    pub(crate) fn add(&mut self, tree: &Arc<TreeInner>, kind: Kind, key: &[u8], value: &[u8]) -> Result<()> {
        self.add_beside(tree, kind, Beside::Nothing, key, value)
    }

    /// Adds an entry of `kind` and `value` for `key`. If it has an expiry or attributes in addition to the value, the
    /// entry is a put or a huge value's pointer.
    #[inline]
    pub(crate) fn add_beside(
        &mut self,
        tree: &Arc<TreeInner>,
        kind: Kind,
        beside: Beside<'_>,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        check_key(key)?;
        let (kind, height) = (kind.with(&beside), Memtable::random_height());
        match beside {
            Beside::Nothing => self.push(tree, kind, key, [&[], value], height),
            Beside::Until(expiry) => self.push(tree, kind, key, [&expiry.to_le_bytes(), value], height),
            Beside::With(expiry, attributes) => {
                self.push(tree, kind, key, [&Beside::head_with(expiry, attributes), value], height)
            }
        }
    }

    /// Adds a deletion of the keys in `range`.
    pub(crate) fn add_range(&mut self, tree: &Arc<TreeInner>, range: &KeyRange) -> Result<()> {
        // No key is longer than [`KEY_LEN_MAX`]. Therefore a longer bound means the same as its first bytes and a zero.
        let clipped = |bound: &Vec<u8>| match bound.get(..KEY_LEN_MAX) {
            Some(beginning) if bound.len() > KEY_LEN_MAX => [beginning, &[0]].concat(),
            _ => bound.clone(),
        };
        let range = KeyRange { lower: clipped(&range.lower), upper: range.upper.as_ref().map(clipped) };
        if range.is_empty() {
            return Ok(());
        }
        let mut upper = Vec::new();
        range.encode_upper(&mut upper);
        self.push(tree, Kind::DeleteRange, &range.lower, [&[], &upper], 0)
    }

    /// Makes the batch carry `time_us` for `tree`, if the tree takes its time from its writes.
    pub(crate) fn add_time(&mut self, tree: &Arc<TreeInner>, time_us: u64) -> Result<()> {
        if tree.own_time.is_none() || time_us > CLOCK_MAX {
            return Ok(());
        }
        let part = self.part_of(tree);
        if self.parts[part].time_us < time_us {
            self.push(tree, Kind::Time, &[], [&[], &time_us.to_le_bytes()], 0)?;
            self.parts[part].time_us = time_us;
        }
        Ok(())
    }

    /// Sets the time of the operands for `tree` to `time_us`, if that is later than the time of the write.
    pub(crate) fn happen_at(&mut self, tree: &Arc<TreeInner>, time_us: Option<u64>) {
        let part = self.part_of(tree);
        if tree.own_time.is_none() {
            self.parts[part].time_us = self.parts[part].time_us.max(time_us.unwrap_or(0));
        }
    }

    /// Adds an op that stores `stored`, given in two parts, in a memtable node of `height`.
    fn push(
        &mut self,
        tree: &Arc<TreeInner>,
        kind: Kind,
        key: &[u8],
        stored: [&[u8]; 2],
        height: u8,
    ) -> Result<()> {
        let stored_len = stored[0].len() + stored[1].len();
        let is_untimed = kind == Kind::Merge
            && !operators::is_timed(if stored[0].is_empty() { stored[1] } else { stored[0] });
        let reserved = self.reserved + if is_untimed { OPERAND_TIME_LEN } else { 0 };
        let len = self.payload.len() + key.len() + stored_len + 32 + reserved;
        if len > payload_len_max() {
            return Err(too_long(len, reserved));
        }
        self.reserved = reserved;
        if self.payload.is_empty() {
            self.payload.resize(COUNT_LEN, 0);
        }
        let at = self.part_of(tree);
        let part = &mut self.parts[at];
        part.memory += match kind {
            // It takes no space among the entries, but the space that it takes elsewhere counts.
            Kind::DeleteRange => RANGE_MEMORY + key.len() + stored_len,
            Kind::Time => TIME_MEMORY,
            _ => Memtable::entry_size(height, key.len(), stored_len),
        };
        if kind == Kind::Put {
            // Most ops need no other notes.
            part.has_entries = true;
        } else {
            part.has_entries |= kind.is_entry();
            part.merges |= kind == Kind::Merge;
            part.expires |= expires(kind, if stored[0].is_empty() { stored[1] } else { stored[0] });
            self.may_need_times |= part.merges || part.expires;
            self.has_ranges |= kind == Kind::DeleteRange;
        }
        self.ops.push(OpPlan { part: at as u32, height, hash: hash_key(key) });
        self.payload.push(kind as u8);
        put_varint(&mut self.payload, u64::from(tree.id));
        put_slice(&mut self.payload, key);
        if kind != Kind::Delete {
            put_varint(&mut self.payload, stored_len as u64);
            self.payload.extend_from_slice(stored[0]);
            self.payload.extend_from_slice(stored[1]);
        }
        let count = self.ops.len() as u32;
        self.payload[..COUNT_LEN].copy_from_slice(&count.to_le_bytes());
        Ok(())
    }

    /// Adds a put of the value that `pointer` names for `key` of `tree`.
    pub(crate) fn add_pointer(
        &mut self,
        tree: &Arc<TreeInner>,
        key: &[u8],
        pointer: &Pointer,
        beside: Beside<'_>,
    ) -> Result<()> {
        let mut encoded = Vec::new();
        pointer.encode(&mut encoded);
        self.add_beside(tree, Kind::Blob, beside, key, &encoded)
    }

    /// Adds a put of the huge value `value` for `key` of `tree`.
    pub(crate) fn add_huge(
        &mut self,
        tree: &Arc<TreeInner>,
        key: &[u8],
        value: HugeValue,
        beside: Beside<'_>,
    ) -> Result<()> {
        self.reserved += Pointer::LEN_MAX;
        self.add_beside(tree, Kind::Put, beside, key, &[])
            .inspect_err(|_| self.reserved -= Pointer::LEN_MAX)?;
        self.huge.push(HugePut { op: self.ops.len() - 1, value });
        Ok(())
    }

    /// All ops, each with its tree and its value, if this is a huge one.
    pub(crate) fn whole_ops(&self) -> impl Iterator<Item = (&Arc<TreeInner>, Op<'_>, Option<&HugeValue>)> {
        let mut huge = self.huge.iter().peekable();
        self.planned_ops().enumerate().map(move |(place, (plan, op))| {
            let put = huge.next_if(|put| put.op == place);
            (&self.parts[plan.part()].tree, op, put.map(|put| &put.value))
        })
    }

    /// The huge values, in the order of their ops: each with its tree and key.
    pub(crate) fn huge(&self) -> impl Iterator<Item = (&Arc<TreeInner>, &[u8], &HugeValue)> {
        let ops = (!self.huge.is_empty()).then(|| self.whole_ops());
        ops.into_iter().flatten().filter_map(|(tree, op, value)| Some((tree, op.key, value?)))
    }

    pub(crate) fn has_huge(&self) -> bool {
        !self.huge.is_empty()
    }

    /// The batch in the log's form: with `values` in the places of the huge values. Staged values are taken from their
    /// staging areas.
    pub(crate) fn separated<'a>(&self, values: impl IntoIterator<Item = Separated<'a>>) -> Result<Batch> {
        let payload = Vec::with_capacity(self.payload.len());
        let mut separated = Batch { payload, mark: self.mark, ..Batch::default() };
        let mut huge = self.huge.iter().zip(values).peekable();
        for (place, (plan, op)) in self.planned_ops().enumerate() {
            let tree = &self.parts[plan.part()].tree;
            let beside = || Content::open(op.kind, op.value).beside();
            match huge.next_if(|(put, _)| put.op == place) {
                Some((_, Separated::Blob(pointer))) => {
                    separated.add_pointer(tree, op.key, pointer, beside())?;
                }
                Some((_, Separated::Small(value))) => {
                    separated.add_beside(tree, Kind::Put, beside(), op.key, value)?;
                }
                None => separated.push(tree, op.kind, op.key, [op.value, &[]], plan.height)?,
            }
        }
        for part in &self.parts {
            let same = separated.part_of(&part.tree);
            separated.parts[same].time_us = part.time_us;
        }
        for put in &self.huge {
            if let HugeValue::Staged(staged) = &put.value
                && !broken("staged-twice")
            {
                let mut keys = staged.entries.iter();
                keys.try_for_each(|key| separated.add(&staged.tree, Kind::Delete, key, &[]))?;
            }
        }
        Ok(separated)
    }

    /// The batch, which has no huge values, with times in its operands: `times` has one for each part whose operands
    /// get a time.
    pub(crate) fn timed(&self, times: &[Option<u64>]) -> Result<Batch> {
        let payload = Vec::with_capacity(self.payload.len());
        let mut timed = Batch { payload, mark: self.mark, ..Batch::default() };
        for (plan, op) in self.planned_ops() {
            let tree = &self.parts[plan.part()].tree;
            match times.get(plan.part()).copied().flatten().filter(|_| op.kind == Kind::Merge) {
                Some(time_us) => {
                    let stored = operators::with_time(op.value, time_us);
                    timed.push(tree, op.kind, op.key, [&stored, &[]], plan.height)?;
                }
                None => timed.push(tree, op.kind, op.key, [op.value, &[]], plan.height)?,
            }
        }
        for part in &self.parts {
            let same = timed.part_of(&part.tree);
            timed.parts[same].time_us = part.time_us;
        }
        Ok(timed)
    }

    /// The huge values that have to be attached before the batch can be written. Each comes once. An id comes
    /// twice only if two values were staged under it, one after the other.
    pub fn awaited(&self) -> Vec<AwaitedValue> {
        let (mut all, mut seen): (Vec<AwaitedValue>, HashSet<&AwaitedValue>) = Default::default();
        for put in &self.huge {
            if let HugeValue::Awaited(awaited) = &put.value
                && seen.insert(awaited)
            {
                all.push(AwaitedValue::clone(awaited));
            }
        }
        all
    }

    /// Replaces awaited values by `staged`, where they have its id. `fits` refuses a wrong value for a tree. Returns
    /// whether there were any.
    pub(crate) fn attach_staged(
        &mut self,
        staged: &Arc<StagedPut>,
        fits: impl Fn(&TreeInner, &AwaitedValue) -> Result<()>,
    ) -> Result<bool> {
        let waits = |put: &HugePut| match &put.value {
            HugeValue::Awaited(awaited) if awaited.id == staged.id => Some(Arc::clone(awaited)),
            _ => None,
        };
        let found: Vec<(usize, Arc<AwaitedValue>)> =
            self.huge.iter().enumerate().filter_map(|(place, put)| Some((place, waits(put)?))).collect();
        // Two values that were staged under one id, one after the other, differ in their bytes.
        let is_same =
            |awaited: &AwaitedValue| (awaited.len, awaited.checksum) == (staged.len, staged.checksum);
        let mut found = found;
        if found.iter().any(|(_, awaited)| is_same(awaited)) {
            found.retain(|(_, awaited)| is_same(awaited));
        }
        for (place, awaited) in &found {
            let part = self.ops[self.huge[*place].op].part as usize;
            fits(&self.parts[part].tree, awaited)?;
        }
        for (place, _) in &found {
            self.huge[*place].value = HugeValue::Staged(Arc::clone(staged));
        }
        Ok(!found.is_empty())
    }

    #[inline]
    fn part_of(&mut self, tree: &Arc<TreeInner>) -> usize {
        let last = self.ops.last().map_or(0, |op| op.part as usize);
        match self.parts.get(last) {
            Some(part) if Arc::ptr_eq(&part.tree, tree) => last,
            _ => self.other_part_of(tree),
        }
    }

    fn other_part_of(&mut self, tree: &Arc<TreeInner>) -> usize {
        if self.ops.is_empty() {
            self.parts.clear();
        }
        self.parts.iter().position(|part| Arc::ptr_eq(&part.tree, tree)).unwrap_or_else(|| {
            self.parts.push(TreePart {
                tree: Arc::clone(tree),
                memory: 0,
                has_entries: false,
                time_us: 0,
                merges: false,
                expires: false,
            });
            self.parts.len() - 1
        })
    }

    /// Whether the batch goes to the log. A batch that writes to a tree that skips the log may write only to trees that
    /// are flushed with it: a crash could keep the other trees' part of the batch and lose this one's (rule 21).
    pub(crate) fn is_logged(&self) -> Result<bool> {
        let Some(volatile) = self.parts.iter().find(|part| !part.tree.log) else { return Ok(true) };
        if let Some(other) = self.parts.iter().find(|part| !part.tree.is_flushed_with(&volatile.tree)) {
            let message = format!(
                "writes to the tree \"{}\" skip the log: a batch that writes to it can write only to trees of the \
                 same group, and \"{}\" is none",
                volatile.tree.name, other.tree.name
            );
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        Ok(false)
    }

    /// Whether the batch has to wait for one of its trees.
    pub(crate) fn is_paused(&self) -> bool {
        self.parts.iter().any(|part| part.tree.is_paused())
    }

    /// Whether the batch holds deletes only, and perhaps the time of its writes, or was marked as deleting.
    pub(crate) fn only_deletes(&self) -> bool {
        self.mark == Mark::Deleting || Ops::of(&self.payload).all(|op| op.deletes())
    }

    /// Whether the batch deletes anything.
    pub(crate) fn has_deletes(&self) -> bool {
        Ops::of(&self.payload).any(|op| matches!(op.kind, Kind::Delete | Kind::DeleteRange))
    }

    /// Bytes of the keys and values that the batch puts.
    pub(crate) fn put_bytes(&self) -> usize {
        let puts = Ops::of(&self.payload).filter(|op| !op.deletes());
        puts.map(|op| op.key.len() + op.value.len()).sum()
    }

    /// The ranges that the batch deletes, each with its place in the batch and the index of its part.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (SeqNo, usize, KeyRange)> {
        let ops = self.has_ranges.then(|| (0..).zip(self.planned_ops()));
        let ranges = ops.into_iter().flatten().filter(|(_, (_, op))| op.kind == Kind::DeleteRange);
        ranges
            .filter_map(|(place, (plan, op))| Some((place, plan.part(), KeyRange::decode(op.key, op.value)?)))
    }

    /// Adds the ranges that the batch deletes to their trees' range tombstones. `first_seq` is the batch's first
    /// sequence number. Called under the commit lock.
    pub(crate) fn note_ranges(&self, first_seq: SeqNo) {
        for (place, part, range) in self.ranges() {
            let ranges = Arc::clone(&self.parts[part].tree.state.load().ranges);
            ranges.add(RangeTombstone { range, seq: first_seq + place });
        }
    }

    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload
    }

    pub(crate) fn parts(&self) -> &[TreePart] {
        &self.parts
    }

    /// Each op with its plan.
    pub(crate) fn planned_ops(&self) -> impl Iterator<Item = (OpPlan, Op<'_>)> {
        self.plans().zip(Ops::of(&self.payload))
    }

    /// The plan of each op.
    #[inline]
    pub(crate) fn plans(&self) -> impl Iterator<Item = OpPlan> {
        self.ops.iter().copied()
    }
}

#[cold]
fn too_long(len: usize, reserved: usize) -> Error {
    let max = payload_len_max();
    let message = match reserved {
        0 => format!("a batch holds less than {max} bytes; this one would reach {len}"),
        _ => format!(
            "a batch holds less than {max} bytes; this one would reach {len}, with {reserved} for times of its operands \
             and for pointers to its huge values"
        ),
    };
    Error::new(ErrorKind::InvalidInput, message)
}

/// The length of a gap payload, in bytes.
pub(crate) const GAP_LEN: usize = COUNT_LEN + size_of::<SeqNo>();

/// The payload that records that the next op has the sequence number `next`.
pub(crate) fn gap(next: SeqNo) -> [u8; GAP_LEN] {
    let mut payload = [0; GAP_LEN];
    payload[COUNT_LEN..].copy_from_slice(&next.to_le_bytes());
    payload
}

fn op_count(payload: &[u8]) -> Option<u64> {
    (payload.len() >= COUNT_LEN).then(|| u64::from(u32_at(payload, 0)))
}

/// How many sequence numbers a payload takes if its first one is `first`; `None` if the payload cannot be decoded.
pub(crate) fn numbers_taken(payload: &[u8], first: SeqNo) -> Option<u64> {
    match op_count(payload)? {
        0 if payload.len() == GAP_LEN => {
            let next = u64_at(payload, COUNT_LEN);
            next.checked_sub(first).filter(|_| next <= MAX_SEQ)
        }
        0 => None,
        count => (Ops::of(payload).count() as u64 == count).then_some(count),
    }
}

/// Iterates over the ops of a payload. Ends early if the payload cannot be decoded (compare with [`numbers_taken`]).
pub(crate) struct Ops<'a> {
    rest: Decoder<'a>,
}

impl<'a> Ops<'a> {
    pub(crate) fn of(payload: &'a [u8]) -> Self {
        let ops = if op_count(payload) == Some(0) { None } else { payload.get(COUNT_LEN..) };
        Ops { rest: Decoder::new(ops.unwrap_or(&[])) }
    }

    fn decode(&mut self) -> Option<Op<'a>> {
        let kind = Kind::from_u8(self.rest.u8()?)?;
        let tree = TreeId::try_from(self.rest.varint()?).ok()?;
        let key = self.rest.slice()?;
        let value = if kind == Kind::Delete { &[] } else { self.rest.slice()? };
        let is_whole = match kind {
            Kind::DeleteRange => KeyRange::decode(key, value).is_some(),
            Kind::Merge => operators::parts(value).is_some(),
            Kind::Time => key.is_empty() && Op { tree, kind, key, value }.time_us().is_some(),
            kind => kind.is_whole(value),
        };
        if !is_whole {
            return None;
        }
        Some(Op { tree, kind, key, value })
    }
}

impl<'a> Iterator for Ops<'a> {
    type Item = Op<'a>;

    fn next(&mut self) -> Option<Op<'a>> {
        if self.rest.is_empty() { None } else { self.decode() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::db::Db;
    use crate::operators::APPEND;
    use crate::options::Options;

    const LEN_MAX: usize = 4000;

    /// A store in which one tree has had values that expire, so that operands get times.
    fn store() -> Db {
        let db = Db::open_in_memory(Options::default().separate_at(1024)).unwrap();
        db.default_tree().put_for("lives", "long", Duration::from_secs(3600)).unwrap();
        db
    }

    /// A batch can be written with every op that it has accepted, however near it is to the greatest length. An op that
    /// it refuses changes nothing.
    #[test]
    fn a_batch_that_takes_an_op_can_be_written() {
        let mut refused = 0;
        for first in 0..200 {
            let db = store();
            let tree = db.default_tree();
            let mut batch = Batch::new();
            let mut expected = Vec::new();
            TEST_LEN_MAX.set(LEN_MAX);
            batch.put(tree, "first", vec![1; first]).unwrap();
            loop {
                let before = (batch.len(), batch.size_bytes());
                // Lengths before and after a time is added take one byte or two.
                let part = vec![b'a'; 40 + 11 * (batch.len() % 8)];
                if let Err(error) = batch.merge(tree, "chain", APPEND, &part) {
                    assert_eq!(error.kind(), ErrorKind::InvalidInput);
                    assert!(error.to_string().contains("for times of its operands"), "{error}");
                    assert_eq!((batch.len(), batch.size_bytes()), before);
                    refused += 1;
                    break;
                }
                expected.extend(part);
                // Pointers take less than the space counted for them. That would hide the space that times take, so not
                // every batch has one.
                let is_huge = first % 2 == 0 && batch.len().is_multiple_of(5);
                let huge = is_huge.then(|| batch.put(tree, "huge", vec![7; 2000]));
                assert!(huge.is_none_or(|put| put.is_ok() || batch.len() > 20));
            }
            while batch.put(tree, "last", "").is_ok() {}
            db.write(&batch).unwrap();
            assert_eq!(db.get_vec("chain").unwrap(), Some(expected));
        }
        assert_eq!(refused, 200);
    }

    /// A single operand is written, or refused with the key as it was.
    #[test]
    fn a_long_operand_is_written_or_refused() {
        let (db, mut refused) = (store(), 0);
        TEST_LEN_MAX.set(LEN_MAX);
        for len in LEN_MAX - 100..LEN_MAX {
            let before = db.get_vec("chain").unwrap().map_or(0, |value| value.len());
            let merged = db.default_tree().append("chain", vec![b'a'; len]);
            let after = db.get_vec("chain").unwrap().map_or(0, |value| value.len());
            assert_eq!(after - before, if merged.is_ok() { len } else { 0 });
            refused += usize::from(merged.is_err());
        }
        assert!((1..100).contains(&refused), "{refused}");
    }
}
